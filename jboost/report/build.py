"""The report as a dictionary for JSON, in which infinite numbers are null."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jboost import files, outputs
from jboost.base import status
from jboost.combine.types import LinearVote
from jboost.data.classifiers import BaseFit
from jboost.data.table import LabelMapping, Table
from jboost.pair.types import Separator
from jboost.report import rules as rules_module
from jboost.report.rules import ScoreRule

ENDINGS = (".json", ".txt")  # the endings of files that a report may overwrite
_PACKAGES = ("jboost", "jax", "jaxlib", "numpy", "polars", "scikit-learn", "skops")

# one row per rule: its name, and its losses on the training rows and on the held-out rows
Losses = list[dict[str, Any]]


def describe_separator(
    separator: Separator, names: Sequence[str], mapping: LabelMapping | None
) -> dict[str, Any]:
    """The formula and the numbers of a separator.

    Args:
      separator: concrete, in the plane.
      names: of the two scores.
      mapping: of the labels, for the predictions in the user's terms.
    """
    normal, anchor, bias = (
        np.asarray(part, np.float64)
        for part in (separator.normal, separator.anchor, separator.bias)
    )
    return {
        "formula": formula(separator, names, mapping),
        "constant": not normal.any(),
        "normal": normal.tolist(),
        "anchor": anchor.tolist(),
        "bias": float(bias),
        "offset": float(separator.offset),
    }


def formula(separator: Separator, names: Sequence[str], mapping: LabelMapping | None) -> str:
    """The separator as one readable line, with rounded numbers.

    >>> import jboost
    >>> separator = jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])
    >>> formula(separator, ["lda", "tree"], None)
    'predict +1 where 1 * (lda - 2) + 1 > 0, else -1'
    """
    positive, negative = (mapping.positive, mapping.negative) if mapping else ("+1", "-1")
    normal, anchor, bias = (
        np.asarray(part, np.float64)
        for part in (separator.normal, separator.anchor, separator.bias)
    )
    if not normal.any():
        return f"predict {positive if bias > 0 else negative} always"
    text = ""
    for coefficient, shift, name in zip(normal, anchor, names, strict=True):
        if coefficient:
            text += f"{_joint(coefficient, text)}{abs(coefficient):.6g} * {_shifted(name, shift)}"
    return (
        f"predict {positive} where {text}{_joint(float(bias), text)}{abs(bias):.6g} > 0, else"
        f" {negative}"
    )


def describe_base(names: Sequence[str], base: BaseFit | None) -> dict[str, Any]:
    """The origin of the scores that are combined."""
    return {
        "names": list(names),
        "scores": f"{base.source}, trained by scikit-learn" if base else "columns of the data",
    }


def certificate(separator: Separator | LinearVote) -> dict[str, Any]:
    """The proven bounds of a separator, or of a combination of many classifiers.

    `is_optimal` is what the status says: the bound of weights that are not integers may be rounded
    to just below the loss.
    """
    code = status.Status(int(separator.status))
    meets = bool(separator.loss == separator.lower_bound)
    return {
        "loss": _finite(separator.loss),
        "lower_bound": _finite(separator.lower_bound),
        "is_optimal": meets or code == status.Status.OPTIMAL,
        "margin": _finite(separator.margin),
        "status": code.name,
        "explanation": status.explain(separator.status),
    }


def describe_data(
    table: Table, num_held_out: int, weights: np.ndarray | None, notes: Sequence[str]
) -> dict[str, Any]:
    """The summary of a table with labels."""
    assert table.labels is not None
    assert table.mapping is not None
    return {
        "source": table.source,
        "rows": table.num_rows,
        "held_out_rows": num_held_out,
        "positive_rows": int((table.labels > 0).sum()),
        "numeric_columns": len(table.numeric),
        "categorical_columns": list(table.categorical),
        "columns": {name: kind.name for name, kind in table.kinds.items()},
        "reading": table.reading.describe() if table.reading else None,
        "missing_values": dict(table.missing),
        "labels": {
            "column": table.mapping.column,
            "-1": table.mapping.negative,
            "+1": table.mapping.positive,
        },
        "total_weight": float(table.num_rows if weights is None else math.fsum(weights)),
        "notes": [*table.notes, *notes],
    }


def losses(
    rules: Sequence[ScoreRule],
    training: tuple[np.ndarray, np.ndarray, np.ndarray],
    held_out: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> Losses:
    """The loss of each rule, as weight and as a rate.

    Args:
      rules: fitted to the training examples.
      training: points [n, 2], labels [n] and weights [n].
      held_out: the same for other examples, or None.
    """
    rows = []
    for rule in rules:
        row: dict[str, Any] = {
            "rule": rule.name,
            "detail": rule.detail,
            "training": _loss(rule, *training),
        }
        if held_out is not None:
            row["held_out"] = _loss(rule, *held_out)
        rows.append(row)
    return rows


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that the run used."""
    return {
        "python": platform.python_version(),
        **{name: files.package_version(name) for name in _PACKAGES},
    }


def write(report: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes a report as JSON."""
    text = json.dumps(report, indent=2, allow_nan=False, ensure_ascii=False)
    with outputs.file(path, endings=ENDINGS) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def _loss(
    rule: ScoreRule, points: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> dict[str, float]:
    weight = rules_module.loss(rule, points, labels, weights)
    return {"weight": weight, "rate": weight / math.fsum(weights)}


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _joint(number: float, text: str) -> str:
    if not text:
        return "-" if number < 0 else ""
    return " - " if number < 0 else " + "


def _shifted(name: str, shift: float) -> str:
    if shift == 0:
        return name
    return f"({name} {'-' if shift > 0 else '+'} {abs(shift):.6g})"
