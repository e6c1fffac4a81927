"""Exports a model to JSON. docs/export.md documents the format."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from jboost import files
from jboost.data.binarization import Binarizer
from jboost.data.kinds import ColumnKind
from jboost.export import kinds as kind_module
from jboost.export.description import describe
from jboost.export.types import (
    Described,
    ExportColumn,
    ExportCondition,
    ExportSplit,
    ExportTree,
    RuleVote,
    ScoreVote,
    TreeVote,
)

FORMAT = "jboost-export"
FORMAT_VERSION = 2
_FIRST_VERSIONS = {"rules": 1, "scores": 1, "trees": 2}  # that have documents of this kind


def to_json(
    model: Any,
    *,
    binarizer: Binarizer | None = None,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, ColumnKind] | None = None,
) -> str:
    """Exports a model to JSON, for programs without jboost.

    The page "Export" documents the format, which has a version number.

    Args:
      model: as in `to_python`.
      binarizer: as in `to_python`.
      names: as in `to_python`.
      kinds: as in `to_python`.

    Returns:
      JSON text (RFC 8259). Infinite numbers are the strings "inf" and "-inf", NaN is "nan".

    Raises:
      ValueError: as in `to_python`.

    >>> import jboost
    >>> separator = jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])
    >>> document = json.loads(to_json(separator, names=["a", "b"]))
    >>> document["format_version"], document["kind"], document["normal"]
    (1, 'scores', [1.0, 0.0])
    """
    described = describe(model, "to_json", binarizer=binarizer, names=names, kinds=kinds)
    kind, body = _body(described)
    head = {
        "format": FORMAT,
        "format_version": _FIRST_VERSIONS[kind],
        "jboost_version": files.package_version("jboost"),
        "kind": kind,
        "precision": described.precision,
        "columns": [_column(column) for column in described.columns],
    }
    return json.dumps(head | body, indent=2, allow_nan=False) + "\n"


def _column(column: ExportColumn) -> dict[str, str]:
    reading = kind_module.reading(column)
    return {
        "name": column.name,
        "kind": "number" if column.texts is None else "text",
        **({} if reading is None else {"reading": reading}),
    }


def _body(described: Described) -> tuple[str, dict[str, Any]]:
    """Returns the kind of the document and the entries of this kind."""
    if isinstance(described, RuleVote):
        return "rules", _rules(described)
    if isinstance(described, TreeVote):
        return "trees", _trees(described)
    return "scores", _scores(described)


def _rules(vote: RuleVote) -> dict[str, Any]:
    return {
        "constant": _number(vote.constant),
        "score_error": _number(vote.score_error),
        "rules": [
            {
                "vote": _number(rule.vote),
                "text": rule.text,
                "conditions": [_condition(one, vote.columns) for one in rule.conditions],
            }
            for rule in vote.rules
        ],
        "slopes": [
            {
                "column": vote.columns[slope.column].name,
                "if_positive": _number(slope.if_positive),
                "if_negative": _number(slope.if_negative),
            }
            for slope in vote.slopes
        ],
    }


def _trees(vote: TreeVote) -> dict[str, Any]:
    return {
        "constant": _number(vote.constant),
        "trees": [_tree(tree, vote.columns) for tree in vote.trees],
    }


def _tree(tree: ExportTree, columns: Sequence[ExportColumn]) -> dict[str, Any]:
    if not isinstance(tree, ExportSplit):
        return {"vote": _number(tree)}
    return {
        "text": tree.text,
        "condition": _condition(tree.condition, columns),
        "if_true": _tree(tree.if_true, columns),
        "if_false": _tree(tree.if_false, columns),
    }


def _condition(one: ExportCondition, columns: Sequence[ExportColumn]) -> dict[str, Any]:
    column = columns[one.column]
    found: dict[str, Any] = {"column": column.name}
    if one.low > one.high:
        found["test"] = "missing" if one.if_missing else "never"
    elif (one.low, one.high) == (-math.inf, math.inf):
        found["test"] = "always" if one.if_missing else "known"
    elif column.texts is not None:
        found |= {"test": "text", "text": column.texts[int(one.low)]}
    else:
        found |= {"test": "range", "low": _number(one.low), "high": _number(one.high)}
    if found["test"] in ("text", "range"):
        found |= {"negated": one.negated, "if_missing": one.if_missing}
    return found


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _scores(vote: ScoreVote) -> dict[str, Any]:
    return {"normal": list(vote.normal), "anchor": list(vote.anchor), "bias": vote.bias}
