"""Exports a model to an SQL query for SQLite and DuckDB."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jboost.data.binarization import Binarizer
from jboost.data.kinds import ColumnKind
from jboost.export import intervals, sql_values
from jboost.export.description import describe
from jboost.export.text import lines_of
from jboost.export.types import (
    LARGE,
    SHARE,
    Described,
    ExportColumn,
    ExportCondition,
    ExportRule,
    ExportSplit,
    ExportTree,
    RuleVote,
    ScoreVote,
    Slope,
    TreeVote,
    with_votes,
)

_INFINITY = "9e999"  # read as infinity by both; they have no common name for infinity


def to_sql(
    model: Any,
    *,
    binarizer: Binarizer | None = None,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, ColumnKind] | None = None,
    table: str = "data",
    score: str = "score",
    prediction: str = "prediction",
) -> str:
    """Exports a model to a query that adds the columns score and prediction to a table.

    The query consists of `CASE` expressions and arithmetic. It is tested on SQLite and DuckDB. NULL
    and NaN are missing values, and an empty text among numbers. Numbers are cast to DOUBLE
    PRECISION and texts to VARCHAR. If the score of the model is NaN, or if a text is no number
    where one is expected, the score is NULL and the prediction is 0.

    Args:
      model: as in `to_python`.
      binarizer: as in `to_python`.
      names: as in `to_python`.
      kinds: as in `to_python`.
      table: the name of the table with the columns of the model.
      score: the name of the new column of scores. The table should have no column of this name;
        if it has one, the result has both, the new ones last.
      prediction: the name of the new column of classes, +1, -1 or 0; as for `score`.

    Returns:
      One SELECT statement.

    Raises:
      ValueError: as in `to_python`, and for names that SQL does not distinguish or support.

    >>> import sqlite3
    >>> import jboost
    >>> separator = jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])
    >>> database = sqlite3.connect(":memory:")
    >>> _ = database.execute("CREATE TABLE data AS SELECT 3.0 AS a, 1.0 AS b")
    >>> database.execute(to_sql(separator, names=["a", "b"])).fetchall()
    [(3.0, 1.0, 2.0, 1)]
    """
    described = describe(model, "to_sql", binarizer=binarizer, names=names, kinds=kinds)
    columns = described.columns
    _check_names(table, score, prediction, [column.name for column in columns])
    values = ", ".join(f"{sql_values.value(one)} AS v{i}" for i, one in enumerate(columns))
    total, source = _selection(described, values)
    comments = "\n".join(f"-- {line}" for line in lines_of(described))
    # The class has an expression of its own: the table may have any names, also that of the score.
    return (
        f"{comments}\n"
        f"SELECT d.*, (\n    SELECT {total}\n    FROM {source}\n"
        f"  ) AS {sql_values.identifier(score)}, (\n"
        f"    SELECT CASE WHEN s.total > 0 THEN 1 WHEN s.total <= 0 THEN -1 ELSE 0 END\n"
        f"    FROM (SELECT {total} AS total\n    FROM {source}) AS s\n"
        f"  ) AS {sql_values.identifier(prediction)}\n"
        f"FROM {sql_values.identifier(table)} AS d\n"
    )


def _selection(described: Described, values: str) -> tuple[str, str]:
    """Returns the expression of the score and what it is selected from.

    `values` are the values of the columns, v0, v1, ...
    """
    if isinstance(described, ScoreVote):  # NULL if a score is, as it is if it is unreadable
        return _scores(described, values)
    total, source = (
        _rules(described, values) if isinstance(described, RuleVote) else _trees(described, values)
    )
    flags = [
        f"CASE WHEN {sql_values.is_unreadable(column, f'v.v{index}')} THEN 1 ELSE 0 END"
        for index, column in enumerate(described.columns)
        if column.texts is None
    ]
    return (f"CASE WHEN {_sum(flags)} = 0 THEN {total} END" if flags else total), source


def _rules(vote: RuleVote, values: str) -> tuple[str, str]:
    decisive = [rule for rule in vote.rules if math.isinf(rule.vote)]
    terms = [_number(vote.constant)]
    terms += [
        f"CASE WHEN {_all(rule, vote.columns)} THEN {_number(rule.vote)} ELSE 0e0 END"
        for rule in vote.rules
        if not math.isinf(rule.vote)
    ]
    rounded = _rounded_columns(vote)
    terms += [_slope(slope) for slope in vote.slopes]
    total = f"NULLIF({_sum(terms)}, 'NaN')"
    if decisive:
        cases = "\n".join(
            f"    WHEN {_all(rule, vote.columns)} THEN {_number(rule.vote)}" for rule in decisive
        )
        total = f"CASE\n{cases}\n    ELSE {total} END"
    source = f"(SELECT {values or '0 AS v0'}) AS v"
    if rounded:
        source = f"(SELECT v.*, {rounded} FROM {source}) AS v"
    return total, source


def _trees(vote: TreeVote, values: str) -> tuple[str, str]:
    columns = vote.columns
    terms = [_number(vote.constant)]
    decisive = []
    for tree in vote.trees:
        finite = with_votes(tree, lambda leaf: 0.0 if math.isinf(leaf) else leaf)
        infinite = with_votes(tree, lambda leaf: leaf if math.isinf(leaf) else 0.0)
        terms.append(_tree(finite, columns))
        if infinite != 0.0:
            decisive.append(f"NULLIF({_tree(infinite, columns)}, 0e0)")
    total = _sum(terms)
    if decisive:
        total = f"COALESCE({_first_known(decisive)}, {total})"
    return total, f"(SELECT {values or '0 AS v0'}) AS v"


def _tree(tree: ExportTree, columns: Sequence[ExportColumn]) -> str:
    """Returns the vote of a tree as nested cases. A condition that is NULL does not hold."""
    if not isinstance(tree, ExportSplit):
        return _number(tree)
    condition = _condition(tree.condition, columns[tree.condition.column])
    if_true, if_false = (_tree(side, columns) for side in (tree.if_true, tree.if_false))
    return f"CASE WHEN {condition} THEN {if_true} ELSE {if_false} END"


def _first_known(terms: Sequence[str]) -> str:
    """Returns the first term that is not NULL, as a balanced tree like that of `_sum`."""
    if len(terms) == 1:
        return terms[0]
    middle = (len(terms) + 1) // 2
    return f"COALESCE({_first_known(terms[:middle])},\n      {_first_known(terms[middle:])})"


def _rounded_columns(vote: RuleVote) -> str:
    """Returns the numbers of slopes in the precision of the model, as columns r0, r1, ..."""
    used = sorted({slope.column for slope in vote.slopes})
    return ", ".join(f"{_rounded(f'v.v{index}', vote.precision)} AS r{index}" for index in used)


def _slope(slope: Slope) -> str:
    value, up, down = f"v.r{slope.column}", _number(slope.if_positive), _number(slope.if_negative)
    if up == down:
        return f"{up} * {value}"
    return f"CASE WHEN {value} > 0 THEN {up} WHEN {value} < 0 THEN {down} ELSE 0e0 END * {value}"


def _rounded(value: str, precision: str) -> str:
    """Returns an expression that rounds a number to the precision of the model.

    Veltkamp's splitting with 2^29 + 1 gives the 24 bits of a float32, rounded to nearest, ties to
    even.
    """
    if precision == "float64":
        return _normal(value)
    tiny = 2.0**-126
    zero, least = (_number(number) for number in (intervals.at_least(tiny, precision), tiny))
    infinite = _number(intervals.at_least(math.inf, precision))
    shifted = f"{value} * 536870913e0"
    return (
        f"CASE WHEN {value} >= {infinite} THEN {_INFINITY} WHEN {value} <= -{infinite} THEN"
        f" -{_INFINITY} WHEN ABS({value}) < {zero} THEN 0e0 WHEN ABS({value}) < {least} THEN"
        f" CASE WHEN {value} > 0 THEN {least} ELSE -{least} END"
        f" ELSE {shifted} - ({shifted} - {value}) END"
    )


def _normal(value: str) -> str:
    """Returns an expression that replaces a subnormal number by 0."""
    return f"CASE WHEN ABS({value}) < {_number(2.0**-1022)} THEN 0e0 ELSE {value} END"


def _all(rule: ExportRule, columns: Sequence[ExportColumn]) -> str:
    conditions = [_condition(one, columns[one.column]) for one in rule.conditions]
    return " AND ".join(conditions) or "1 = 1"


def _condition(one: ExportCondition, column: ExportColumn) -> str:
    name = f"v.v{one.column}"
    if one.low > one.high:
        return f"{name} IS NULL" if one.if_missing else "1 = 0"
    if (one.low, one.high) == (-math.inf, math.inf):
        return "1 = 1" if one.if_missing else f"{name} IS NOT NULL"
    # A comparison with NULL is NULL, and so is its negation.
    holds = _compared(name, one) if column.texts is None else _text_equal(name, one, column)
    return f"({holds} OR {name} IS NULL)" if one.if_missing else holds


def _compared(name: str, one: ExportCondition) -> str:
    if one.low == -math.inf:
        return f"{name} {'>' if one.negated else '<='} {_number(one.high)}"
    if one.high == math.inf:
        return f"{name} {'<' if one.negated else '>='} {_number(one.low)}"
    between = "NOT BETWEEN" if one.negated else "BETWEEN"
    return f"{name} {between} {_number(one.low)} AND {_number(one.high)}"


def _text_equal(name: str, one: ExportCondition, column: ExportColumn) -> str:
    assert column.texts is not None
    text = column.texts[int(one.low)]
    if "\0" in text:
        raise ValueError(
            f"model asks whether column {column.name!r} is {text!r}, which jboost.export.to_sql"
            " cannot write: SQL has no text with a character 0"
        )
    escaped = text.replace("'", "''")
    return f"{name} {'<>' if one.negated else '='} '{escaped}'"


def _scores(vote: ScoreVote, values: str) -> tuple[str, str]:
    """Returns the expression of the score, which is NULL if one is missing or infinite.

    The operations and their order are those of `jboost.geometry.linear`.
    """
    indices = range(len(vote.columns))
    rounded = ", ".join(
        f"{_rounded(f'v.v{index}', vote.precision)} AS x{index}" for index in indices
    )
    inputs = f"(SELECT {rounded} FROM (SELECT {values}) AS v) AS x"
    finite = " AND ".join(f"ABS(x.x{index}) < {_INFINITY}" for index in indices)
    if vote.precision == "float32":
        terms = [
            f"{_number(normal)} * (x.x{index} - {_number(anchor)})"
            for index, (normal, anchor) in enumerate(zip(vote.normal, vote.anchor, strict=True))
        ]
        total = " + ".join(["0e0", *terms, _number(vote.bias)])
        return f"CASE WHEN {finite} THEN {total} END", inputs
    return _wide_scores(vote, inputs, finite)


def _wide_scores(vote: ScoreVote, inputs: str, finite: str) -> tuple[str, str]:
    """Returns the score in 64 bits. Large coordinates are scaled, subnormal results set to 0."""
    indices = range(len(vote.columns))
    is_large = " OR ".join(f"ABS(x.x{index}) > {_number(LARGE)}" for index in indices)
    if max(*map(abs, vote.anchor), abs(vote.bias)) > LARGE:
        is_large = "1 = 1"
    share = f"CASE WHEN {is_large} THEN {_number(SHARE)} ELSE 1e0 END AS share"
    source = f"(SELECT x.*, {share} FROM {inputs}) AS x"
    moved = [
        f"x.x{index} * x.share - {_number(anchor)} * x.share"
        for index, anchor in enumerate(vote.anchor)
    ]
    source = _layer(source, moved, ["x.share", *(f"x.x{index} AS y{index}" for index in indices)])
    products = [f"{_number(normal)} * x.x{index}" for index, normal in enumerate(vote.normal)]
    source = _layer(source, products, ["x.share", *(f"x.y{index}" for index in indices)])
    terms = ["0e0", *(f"x.x{index}" for index in indices)]
    total = _normal(f"({' + '.join(terms)} + {_number(vote.bias)} * x.share)") + " / x.share"
    finite = finite.replace("x.x", "x.y")
    return f"CASE WHEN {finite} THEN {total} END", source


def _layer(source: str, expressions: Sequence[str], kept: Sequence[str]) -> str:
    """Returns a subquery with a column x0, x1, ... for each expression; subnormal values are 0."""
    columns = [f"{_normal(expression)} AS x{index}" for index, expression in enumerate(expressions)]
    return f"(SELECT {', '.join([*kept, *columns])} FROM {source}) AS x"


def _sum(terms: Sequence[str]) -> str:
    """Returns the sum as a balanced tree. SQLite limits the depth of expressions to 1000."""
    if len(terms) <= 2:
        return "\n      + ".join(terms)
    middle = (len(terms) + 1) // 2
    return f"({_sum(terms[:middle])})\n      + ({_sum(terms[middle:])})"


def _number(value: float) -> str:
    if math.isnan(value):
        return "NULL"
    if math.isinf(value):
        return _INFINITY if value > 0 else f"-{_INFINITY}"
    return intervals.decimal(value)


def _check_names(table: str, score: str, prediction: str, columns: Sequence[str]) -> None:
    """Raises ValueError for names that SQL cannot write, or does not tell apart."""
    for argument, name in (("table", table), ("score", score), ("prediction", prediction)):
        if not isinstance(name, str):
            raise ValueError(f"{argument} is {name!r}: jboost.export.to_sql expects a text")
        _check_name(argument, name)
    for name in columns:
        _check_name("a name of a column", name)
    seen: dict[str, str] = {}
    for name in columns:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise ValueError(
                f"the names {other!r} and {name!r} are one name in SQL, which ignores case: rename"
                " a column"
            )
    for argument, name in (("score", score), ("prediction", prediction)):
        if name.casefold() in seen:
            raise ValueError(
                f"{argument} is {name!r}, and the model reads the column {seen[name.casefold()]!r},"
                f" which is the same name in SQL: pass another name, as {argument}="
                f"{f'model_{argument}'!r}"
            )
    if score.casefold() == prediction.casefold():
        raise ValueError(
            f"score is {score!r} and prediction is {prediction!r}, which is the same name in SQL:"
            " pass another name of one of them"
        )


def _check_name(argument: str, name: str) -> None:
    if not name or "\0" in name:
        raise ValueError(
            f"{argument} is {name!r}, which jboost.export.to_sql cannot write: rename it"
        )
