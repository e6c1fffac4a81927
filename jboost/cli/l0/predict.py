"""`jboost predict`, `jboost inspect` and `jboost export` for models of the method l0."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import files
from jboost.base.boosting import Ensemble
from jboost.cli import bits as bit_module
from jboost.cli.l0 import folds
from jboost.cli.votes import scores
from jboost.data.binarization import Binarizer
from jboost.data.table import LabelMapping, Table, UsedColumns
from jboost.report import l0 as report_module
from jboost.report import monomials


@dataclasses.dataclass(frozen=True)
class FittedRules:
    """A vote of rules that was read from a file."""

    ensemble: Ensemble
    binarizer: Binarizer
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    mapping: LabelMapping
    precision: str
    model: dict[str, Any]  # the result of `jboost.cli.l0.method.describe`


def read(path: Path, metadata: dict[str, Any]) -> FittedRules:
    """Reads the model.

    Raises:
      KeyError, TypeError: if the metadata were not written by `jboost fit`.
      ValueError: if the file is damaged.
    """
    numeric, categorical, precision = (
        tuple(metadata["numeric"]),
        tuple(metadata["categorical"]),
        metadata["precision"],
    )
    mapping, model = LabelMapping(**metadata["labels"]), dict(metadata["model"])
    with jax.enable_x64(precision == "float64"):
        stored = files.load(path)
    return FittedRules(
        stored["ensemble"], stored["binarizer"], numeric, categorical, mapping, precision, model
    )


def used_columns(fitted: FittedRules) -> UsedColumns:
    """Returns the columns that the rules with a nonzero vote test."""
    literals = np.asarray(fitted.ensemble.hypotheses.literals)[monomials.voting(fitted.ensemble)]
    bits = np.flatnonzero(literals.any(axis=0))
    tested = {
        fitted.binarizer.names[index] for index in np.asarray(fitted.binarizer.attributes)[bits]
    }
    return UsedColumns(
        *(
            tuple(name for name in names if name in tested)
            for names in (fitted.numeric, fitted.categorical)
        )
    )


def predict_columns(fitted: FittedRules, table: Table) -> dict[str, Any]:
    """Returns the columns `score` and `prediction`."""
    values = scores(fitted.ensemble, bits_of(fitted, table), fitted.precision)
    return {"score": values, "prediction": fitted.mapping.to_text(np.where(values > 0, 1, -1))}


def explain(fitted: FittedRules, table: Table) -> list[str]:
    """Returns the rules that hold for each row, as text."""
    return report_module.explanations(
        fitted.model["rules"], monomials.fired(fitted.ensemble, bits_of(fitted, table))
    )


def exported(fitted: FittedRules) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """Returns the model, the keyword arguments of `jboost.export`, and notes for the user."""
    return fitted.ensemble, {"binarizer": fitted.binarizer}, ()


def bits_of(fitted: FittedRules, table: Table) -> np.ndarray:
    """Returns the rows of a table as bits, [k, N]."""
    whole = table.with_unused(fitted.numeric, fitted.categorical)
    return bit_module.apply(
        fitted.binarizer,
        folds.read_rows(whole, fitted.numeric, fitted.categorical),
        fitted.precision,
    )


def show(
    fitted: FittedRules, say: Any, lines: Callable[..., list[str]] = report_module.lines
) -> None:
    """Prints the model, all its rules and its certificate; `lines` describes the model."""
    say(
        f"{type(fitted.ensemble).__name__} of {type(fitted.ensemble.learner).__name__},"
        f" {fitted.precision}, jboost {files.package_version('jboost')}"
    )
    say(f"columns     {', '.join(fitted.binarizer.names)}")
    say(f"labels      {fitted.mapping}")
    for line in lines(fitted.model, fitted.mapping):
        say(line)
