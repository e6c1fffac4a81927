"""`jboost predict`, `jboost inspect` and `jboost export` for models of the method combine."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import files
from jboost.cli import inputs
from jboost.cli.output import BASE
from jboost.combine.types import LinearVote
from jboost.data import classifiers
from jboost.data.classifiers import BaseFit
from jboost.data.table import LabelMapping, Table, UsedColumns
from jboost.report import build, text
from jboost.report import combine as report_module


@dataclasses.dataclass(frozen=True)
class FittedVote:
    """A combination that was read from a file."""

    vote: LinearVote
    names: tuple[str, ...]
    score_columns: tuple[str, ...] | None
    strategy: str
    mapping: LabelMapping
    precision: str
    base: BaseFit | None


def read(path: Path, metadata: dict[str, Any]) -> FittedVote:
    """Reads the model.

    Raises:
      KeyError, TypeError: if the metadata were not written by `jboost fit`.
      ValueError: if the file is damaged.
    """
    names, columns, precision = (
        tuple(metadata["names"]),
        metadata["score_columns"],
        metadata["precision"],
    )
    mapping, strategy = LabelMapping(**metadata["labels"]), metadata["strategy"]
    with jax.enable_x64(precision == "float64"):
        vote = files.load(path)
    base = None if columns else classifiers.load_base(path.parent / BASE)
    return FittedVote(
        vote, names, tuple(columns) if columns else None, strategy, mapping, precision, base
    )


def used_columns(fitted: FittedVote) -> UsedColumns:
    """Returns the columns of the base classifiers, or the score columns."""
    return (
        UsedColumns(fitted.base.numeric, fitted.base.categorical)
        if fitted.base
        else UsedColumns(fitted.score_columns or ())
    )


def predict_columns(fitted: FittedVote, table: Table) -> dict[str, Any]:
    """Returns the scores of all classifiers, the combined score and the prediction."""
    points = (
        inputs.score_rows(table, fitted.score_columns, fitted.base)
        .astype(fitted.precision)
        .astype(np.float64)
    )
    values = report_module.scores(fitted.vote, points)
    columns: dict[str, Any] = {
        f"score_{name}": points[:, axis] for axis, name in enumerate(fitted.names)
    }
    return columns | {
        "score": values,
        "prediction": fitted.mapping.to_text(np.where(values > 0, 1, -1)),
    }


def exported(fitted: FittedVote) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """Returns the model, the keyword arguments of `jboost.export`, and notes for the user."""
    names, notes = inputs.exported_columns(fitted.names, fitted.score_columns)
    return fitted.vote, {"names": names}, notes


def show(fitted: FittedVote, say: Any) -> None:
    """Prints the model, its formula and its certificate."""
    kind = "score columns" if fitted.score_columns else "base classifiers"
    say(
        f"model       {type(fitted.vote).__name__}, {fitted.precision}, jboost"
        f" {files.package_version('jboost')}"
    )
    say(f"scores      {', '.join(fitted.names)} ({kind})")
    say(f"strategy    {fitted.strategy}")
    say(f"labels      {fitted.mapping}")
    wrong = np.asarray(fitted.vote.misclassified)
    say(f"examples    {len(wrong)}, {int(wrong.sum())} misclassified")
    description = report_module.describe(fitted.vote, fitted.names, fitted.mapping, fitted.strategy)
    for line in text.certificate_lines(build.certificate(fitted.vote), description):
        say(line)
