"""What `jboost predict` and `jboost inspect` do with a folder that was fitted by the method l0."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import files
from jboost.base.boosting import Ensemble
from jboost.cli import bits as bit_module
from jboost.cli.l0 import method as l0
from jboost.cli.votes import scores
from jboost.data.binarization import Binarizer
from jboost.data.table import LabelMapping, Table, UsedColumns
from jboost.report import l0 as report_module
from jboost.report import monomials


@dataclasses.dataclass(frozen=True)
class FittedRules:
    """A model of rules, read back."""

    ensemble: Ensemble
    binarizer: Binarizer
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    mapping: LabelMapping
    precision: str
    model: dict[str, Any]  # as `jboost.cli.l0.describe` makes it


def read(path: Path, metadata: dict[str, Any]) -> FittedRules:
    """Reads the model; KeyError or TypeError where the metadata are not those of a fit, ValueError
    where the file is damaged.
    """
    numeric, categorical, precision = (
        tuple(metadata["numeric"]),
        tuple(metadata["categorical"]),
        metadata["precision"],
    )
    mapping, model = LabelMapping(**metadata["labels"]), dict(metadata["model"])
    with jax.enable_x64(precision == "float64"):
        held = files.load(path)
    return FittedRules(
        held["ensemble"], held["binarizer"], numeric, categorical, mapping, precision, model
    )


def used_columns(fitted: FittedRules) -> UsedColumns:
    """Those that the rules with a vote ask about."""
    literals = np.asarray(fitted.ensemble.hypotheses.literals)[monomials.voting(fitted.ensemble)]
    bits = np.flatnonzero(literals.any(axis=0))
    asked = {
        fitted.binarizer.names[place] for place in np.asarray(fitted.binarizer.attributes)[bits]
    }
    return UsedColumns(
        *(
            tuple(name for name in names if name in asked)
            for names in (fitted.numeric, fitted.categorical)
        )
    )


def predict_columns(fitted: FittedRules, table: Table) -> dict[str, Any]:
    """The columns `score` and `prediction`."""
    values = scores(fitted.ensemble, bits_of(fitted, table), fitted.precision)
    return {"score": values, "prediction": fitted.mapping.to_text(np.where(values > 0, 1, -1))}


def explain(fitted: FittedRules, table: Table) -> list[str]:
    """The rules that hold, row by row."""
    return report_module.explanations(
        fitted.model["rules"], monomials.fired(fitted.ensemble, bits_of(fitted, table))
    )


def exported(fitted: FittedRules) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """The model, the options of `jboost.export`, and notes."""
    return fitted.ensemble, {"binarizer": fitted.binarizer}, ()


def bits_of(fitted: FittedRules, table: Table) -> np.ndarray:
    """The rows as bits, [k, N]."""
    whole = table.with_unused(fitted.numeric, fitted.categorical)
    return bit_module.apply(
        fitted.binarizer, l0.read_rows(whole, fitted.numeric, fitted.categorical), fitted.precision
    )


def show(fitted: FittedRules, say: Any) -> None:
    """The model, all its rules and what is proven about it."""
    say(
        f"{type(fitted.ensemble).__name__} of {type(fitted.ensemble.learner).__name__},"
        f" {fitted.precision}, jboost {files.package_version('jboost')}"
    )
    say(f"columns     {', '.join(fitted.binarizer.names)}")
    say(f"labels      {fitted.mapping}")
    for line in report_module.lines(fitted.model, fitted.mapping):
        say(line)
