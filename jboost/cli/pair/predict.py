"""`jboost predict` and `jboost inspect` for a pair of classifiers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import files
from jboost.base import predict as predict_module
from jboost.cli import inputs
from jboost.cli.output import BASE
from jboost.cli.pair import method as solve
from jboost.data import classifiers
from jboost.data.classifiers import BaseFit
from jboost.data.table import LabelMapping, Table, UsedColumns
from jboost.pair.types import Separator
from jboost.report import build, text


@dataclasses.dataclass(frozen=True)
class FittedPair:
    """A separator that was read from a file."""

    separator: Separator  # in float64
    names: tuple[str, ...]
    score_columns: tuple[str, ...] | None
    mapping: LabelMapping | None
    precision: str
    base: BaseFit | None


def read(path: Path, metadata: dict[str, Any]) -> FittedPair:
    """Reads the model.

    Raises:
      KeyError, TypeError: if the metadata were not written by `jboost fit`.
      ValueError: if the file is damaged.
    """
    columns, labels, precision, names = (
        metadata["score_columns"],
        metadata["labels"],
        metadata["precision"],
        tuple(metadata["names"]),
    )
    mapping = LabelMapping(**labels) if labels else None
    with jax.enable_x64(True):
        separator = solve.in_float64(files.load(path))
    base = None if columns else classifiers.load_base(path.parent / BASE)
    return FittedPair(
        separator, names, tuple(columns) if columns else None, mapping, precision, base
    )


def used_columns(fitted: FittedPair) -> UsedColumns:
    """Returns the columns of the base classifiers, or the score columns."""
    return (
        UsedColumns(fitted.base.numeric, fitted.base.categorical)
        if fitted.base
        else UsedColumns(fitted.score_columns or ())
    )


def predict_columns(fitted: FittedPair, table: Table) -> dict[str, Any]:
    """Returns both scores, the combined score and the prediction."""
    points = (
        inputs.score_rows(table, fitted.score_columns, fitted.base)
        .astype(fitted.precision)
        .astype(np.float64)
    )
    with jax.enable_x64(True):
        scores = np.asarray(predict_module.predict_scores(fitted.separator, points))
        signs = np.asarray(predict_module.predict(fitted.separator, points))
    columns: dict[str, Any] = {
        f"score_{name}": points[:, axis] for axis, name in enumerate(fitted.names)
    }
    return columns | {
        "score": scores,
        "prediction": fitted.mapping.to_text(signs) if fitted.mapping else signs,
    }


def exported(fitted: FittedPair) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """Returns the model in the precision of the fit, the keyword arguments of `jboost.export`, and
    notes for the user.
    """
    model = jax.tree.map(
        lambda leaf: leaf.astype(fitted.precision) if leaf.dtype == np.float64 else leaf,
        jax.tree.map(np.asarray, fitted.separator),
    )
    names, notes = inputs.exported_columns(fitted.names, fitted.score_columns)
    return model, {"names": names}, notes


def show(fitted: FittedPair, say: Any) -> None:
    """Prints the model, its formula and its certificate."""
    kind = "score columns" if fitted.score_columns else "base classifiers"
    say(
        f"model       {type(fitted.separator).__name__}, {fitted.precision}, jboost"
        f" {files.package_version('jboost')}"
    )
    say(f"scores      {' and '.join(fitted.names)} ({kind})")
    if fitted.mapping:
        say(f"labels      {fitted.mapping}")
    for name in ("normal", "anchor", "bias"):
        say(f"{name:<12}{np.asarray(getattr(fitted.separator, name)).tolist()}")
    wrong = np.asarray(fitted.separator.misclassified)
    say(f"examples    {len(wrong)}, {int(wrong.sum())} misclassified")
    description = build.describe_separator(fitted.separator, fitted.names, fitted.mapping)
    for line in text.certificate_lines(build.certificate(fitted.separator), description):
        say(line)
