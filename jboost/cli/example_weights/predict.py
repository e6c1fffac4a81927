"""`jboost predict`, `jboost inspect` and `jboost export` for models of example-weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import files
from jboost.cli.example_weights import method as example_weights
from jboost.data.table import LabelMapping, Table, UsedColumns
from jboost.example_weights import ExampleWeightModel
from jboost.report import example_weights as report_module


@dataclasses.dataclass(frozen=True)
class FittedExampleWeights:
    """A model of example weights that was read from a file."""

    model: ExampleWeightModel
    names: tuple[str, ...]
    mapping: LabelMapping
    precision: str
    description: dict[str, Any]  # the result of `jboost.report.example_weights.describe`


def read(path: Path, metadata: dict[str, Any]) -> FittedExampleWeights:
    """Reads the model.

    Raises:
      KeyError, TypeError: if the metadata were not written by `jboost fit`.
      ValueError: if the file is damaged.
    """
    names, precision, mapping = (
        tuple(metadata["names"]),
        metadata["precision"],
        LabelMapping(**metadata["labels"]),
    )
    with jax.enable_x64(precision == "float64"):
        return FittedExampleWeights(
            files.load(path), names, mapping, precision, dict(metadata["model"])
        )


def used_columns(fitted: FittedExampleWeights) -> UsedColumns:
    """Returns all columns of the fit, because each is a coordinate."""
    return UsedColumns(fitted.names)


def predict_columns(fitted: FittedExampleWeights, table: Table) -> dict[str, Any]:
    """Returns the columns `score` and `prediction`."""
    values = example_weights.scores(
        fitted.model, example_weights.read_points(table, fitted.names), fitted.precision
    )
    return {"score": values, "prediction": fitted.mapping.to_text(np.where(values > 0, 1, -1))}


def exported(fitted: FittedExampleWeights) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """Returns the model, the keyword arguments of `jboost.export`, and notes for the user."""
    return fitted.model, {"names": fitted.names}, ()


def show(fitted: FittedExampleWeights, say: Any) -> None:
    """Prints the model, its whole support and its certificate."""
    say(
        f"model       {type(fitted.model).__name__}, {fitted.precision}, jboost"
        f" {files.package_version('jboost')}"
    )
    say(f"columns     {', '.join(fitted.names)}")
    say(f"labels      {fitted.mapping}")
    for line in report_module.lines(fitted.description, fitted.mapping, num_shown=None):
        say(line)
