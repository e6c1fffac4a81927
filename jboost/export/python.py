"""Exports a model to the source of a Python module without imports of packages."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from jboost.data.binarization import Binarizer
from jboost.data.kinds import ColumnKind
from jboost.export import intervals, python_values
from jboost.export.description import describe
from jboost.export.text import lines_of
from jboost.export.types import (
    LARGE,
    SHARE,
    Described,
    ExportColumn,
    ExportCondition,
    ExportSplit,
    ExportTree,
    RuleVote,
    ScoreVote,
    Slope,
    TreeVote,
)

_PREDICT = '''
def predict(row):
    """The class of a row, +1 or -1; 0 where the score is NaN."""
    total = score(row)
    return 1 if total > 0 else 0 if total != total else -1
'''
# Veltkamp's splitting with 2^29 + 1 leaves the 24 bits of a float32, rounded to nearest and even.
_SINGLE = f'''

def _single(value):
    """A number rounded to 32 bits, subnormal ones to 0."""
    size = abs(value)
    if size >= {intervals.at_least(math.inf, "float32")!r}:
        return math.copysign(math.inf, value)
    if size < {intervals.at_least(2.0**-126, "float32")!r}:
        return 0.0
    if size < 2.0**-126:
        return math.copysign(2.0**-126, value)
    shifted = value * 536870913.0
    return shifted - (shifted - value)
'''
_NORMAL = '''

def _normal(value):
    """A number, a subnormal one as 0."""
    return 0.0 if abs(value) < 2.0**-1022 else value
'''


def to_python(
    model: Any,
    *,
    binarizer: Binarizer | None = None,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, ColumnKind] | None = None,
) -> str:
    """Exports a model to the source of a Python module with `score(row)` and `predict(row)`.

    The module imports only `math`, and `datetime` and `re` for dates. A row is a mapping from the
    names of the columns that the model uses to numbers or, for text columns, to strings. A missing
    value is None; a missing number may also be NaN or an empty text. A column whose categories are
    the texts True and False takes booleans, 1 and 0 too. Another cell raises a ValueError that
    names the column. The module computes in 64 bits. Its comparisons give the results of the model
    in its own precision.

    Args:
      model: an `Ensemble` of `learners.stumps`, `quantised_stumps`, `trees`, `monomials`,
        `literals`, `pool`, of `slipper`, or of `learners.signs` of these; a `Separator`,
        `TradeOff`, `DistanceSeparator` or `LinearVote`.
      binarizer: the binarizer of the bits among the features. None if there are no bits; all
        features are then columns of numbers.
      names: the names of the features that are columns of numbers. With a `binarizer` they precede
        its bits, and None means that there are none. Without one, None stands for x0, x1, ...
      kinds: by name, the kinds of columns of numbers whose cells are other texts in the data, such
        as `ColumnKind("percent")`, or `ColumnKind("date", order="year first", origin=18262.0)` of
        `jboost.data.kinds`. The export parses such cells, if its format can. `Table.kinds` has
        those of a file.

    Returns:
      Python source.

    Raises:
      ValueError: if the model cannot be exported, if there are fewer names and bits than features
        of the model, or if the fit ended with the status INVALID_INPUT.

    >>> import jboost
    >>> separator = jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])
    >>> module = {}
    >>> exec(to_python(separator, names=["a", "b"]), module)
    >>> module["score"]({"a": 3.0, "b": 1.0}), module["predict"]({"a": 0.0, "b": 1.0})
    (2.0, -1)
    """
    described = describe(model, "to_python", binarizer=binarizer, names=names, kinds=kinds)
    head = "\n".join(f"# {line}" for line in lines_of(described))
    body, helpers = _body(described)
    values = [
        f"v{index} = {python_values.call(column)}" for index, column in enumerate(described.columns)
    ]
    lines = textwrap.indent("\n".join([*values, *body]), "    ")
    imports = python_values.imports(described.columns)
    return (
        f'"""A model of jboost."""\n\n{head}\n\n{imports}\n\n\ndef score(row):\n'
        f'    """The score of a row; its class is +1 where it is above 0."""\n{lines}\n\n'
        f"{_PREDICT}{python_values.functions(described.columns)}{''.join(helpers)}"
    )


def _body(described: Described) -> tuple[list[str], list[str]]:
    """Returns the lines of `score` and the helper functions that they call."""
    if isinstance(described, RuleVote):
        return _rules(described)
    if isinstance(described, TreeVote):
        return _trees(described)
    return _scores(described)


def _rules(vote: RuleVote) -> tuple[list[str], list[str]]:
    """Returns the lines of `score` and the helper functions that they call."""
    body = []
    for rule in vote.rules:
        if math.isinf(rule.vote):
            body += [
                f"if {_all(rule.conditions, vote.columns)}:  # {rule.text}",
                f"    return {_float(rule.vote)}",
            ]
    body.append(f"total = {_float(vote.constant)}")
    for rule in vote.rules:
        if not math.isinf(rule.vote):
            body += [
                f"if {_all(rule.conditions, vote.columns)}:  # {rule.text}",
                f"    total += {_float(rule.vote)}",
            ]
    round_to = "_single" if vote.precision == "float32" else "_normal"
    for slope in vote.slopes:
        body.append(f"x = {round_to}(v{slope.column})")
        body.append(f"total += {_slope(slope)}")
    helpers = [_SINGLE if vote.precision == "float32" else _NORMAL] if vote.slopes else []
    return [*body, "return total"], helpers


def _trees(vote: TreeVote) -> tuple[list[str], list[str]]:
    body = [f"total = {_float(vote.constant)}"]
    for tree in vote.trees:
        body += _tree(tree, vote.columns)
    return [*body, "return total"], []


def _tree(tree: ExportTree, columns: Sequence[ExportColumn]) -> list[str]:
    """Returns the statements that add the vote of a tree. The first infinite vote is the score."""
    if not isinstance(tree, ExportSplit):
        number = _float(tree)
        return [f"return {number}" if math.isinf(tree) else f"total += {number}"]
    condition = _condition(tree.condition, columns[tree.condition.column])
    if_true, if_false = (
        [f"    {line}" for line in _tree(side, columns)] for side in (tree.if_true, tree.if_false)
    )
    return [f"if {condition}:  # {tree.text}", *if_true, "else:", *if_false]


def _slope(slope: Slope) -> str:
    up, down = _float(slope.if_positive), _float(slope.if_negative)
    return f"{up} * x" if up == down else f"({up} if x > 0 else {down} if x < 0 else 0.0) * x"


def _all(conditions: Sequence[ExportCondition], columns: Sequence[ExportColumn]) -> str:
    return " and ".join(_condition(one, columns[one.column]) for one in conditions) or "True"


def _condition(one: ExportCondition, column: ExportColumn) -> str:
    name = f"v{one.column}"
    missing, known = (
        (f"{name} != {name}", f"{name} == {name}")
        if column.texts is None
        else (f"{name} is None", f"{name} is not None")
    )
    if one.low > one.high:
        return missing if one.if_missing else "False"
    if (one.low, one.high) == (-math.inf, math.inf):
        return "True" if one.if_missing else known
    inside = _text_equal(one, column) if column.texts is not None else _inside(name, one)
    # A comparison with NaN or None is false, and its negation is true.
    holds = f"not {inside}" if one.negated else inside
    if one.if_missing == one.negated:
        return holds
    return f"({holds} or {missing})" if one.if_missing else f"({known} and {holds})"


def _inside(name: str, one: ExportCondition) -> str:
    if one.low == one.high:
        return f"{name} == {_float(one.low)}"
    if one.low == -math.inf:
        return f"{name} <= {_float(one.high)}"
    if one.high == math.inf:
        return f"{name} >= {_float(one.low)}"
    return f"{_float(one.low)} <= {name} <= {_float(one.high)}"


def _text_equal(one: ExportCondition, column: ExportColumn) -> str:
    assert column.texts is not None
    return f"v{one.column} == {column.texts[int(one.low)]!r}"


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "math.nan" if math.isnan(value) else "math.inf" if value > 0 else "-math.inf"


def _scores(vote: ScoreVote) -> tuple[list[str], list[str]]:
    """Returns the lines of `score` and its helper functions.

    The operations and their order are those of `jboost.geometry.linear`.
    """
    names = [f"v{index}" for index in range(len(vote.columns))]
    finite = " and ".join(f"math.isfinite({name})" for name in names) or "True"
    if vote.precision == "float32":
        body = [f"{name} = _single({name})" for name in names]
        body += [f"if not ({finite}):", "    return math.nan", "total = 0.0"]
        for name, normal, anchor in zip(names, vote.normal, vote.anchor, strict=True):
            body.append(f"total += {normal!r} * ({name} - {anchor!r})")
        return [*body, f"return total + {vote.bias!r}"], [_SINGLE]
    body = [f"if not ({finite}):", "    return math.nan"]
    numbers = [*(abs(value) for value in vote.anchor), abs(vote.bias)]
    sizes = ", ".join([*(f"abs({name})" for name in names), repr(max(numbers))])
    # as the model scales coordinates that would overflow
    body += [f"share = {SHARE!r} if max({sizes}) > {LARGE!r} else 1.0", "total = 0.0"]
    for name, normal, anchor in zip(names, vote.normal, vote.anchor, strict=True):
        moved = f"_normal(_normal({name}) * share - {anchor!r} * share)"
        body.append(f"total += _normal({normal!r} * {moved})")
    return [*body, f"return _normal(total + {vote.bias!r} * share) / share"], [_NORMAL]
