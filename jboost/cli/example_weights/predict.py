"""What `jboost predict` and `jboost inspect` do with a folder that was fitted by the method
example-weights.
"""

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
    """A model of example weights, read back."""

    model: ExampleWeightModel
    names: tuple[str, ...]
    mapping: LabelMapping
    precision: str
    description: dict[str, Any]  # as `jboost.report.example_weights.describe` makes it


def read(path: Path, metadata: dict[str, Any]) -> FittedExampleWeights:
    """Reads the model; KeyError or TypeError where the metadata are not those of a fit, ValueError
    where the file is damaged.
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
    """All that the model was fitted on: each is a coordinate."""
    return UsedColumns(fitted.names)


def predict_columns(fitted: FittedExampleWeights, table: Table) -> dict[str, Any]:
    """The columns `score` and `prediction`."""
    values = example_weights.scores(
        fitted.model, example_weights.read_points(table, fitted.names), fitted.precision
    )
    return {"score": values, "prediction": fitted.mapping.to_text(np.where(values > 0, 1, -1))}


def exported(fitted: FittedExampleWeights) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """The model, the options of `jboost.export`, and notes."""
    return fitted.model, {"names": fitted.names}, ()


def show(fitted: FittedExampleWeights, say: Any) -> None:
    """The model, its whole support and what is proven about it."""
    say(
        f"model       {type(fitted.model).__name__}, {fitted.precision}, jboost"
        f" {files.package_version('jboost')}"
    )
    say(f"columns     {', '.join(fitted.names)}")
    say(f"labels      {fitted.mapping}")
    for line in report_module.lines(fitted.description, fitted.mapping, num_shown=None):
        say(line)
