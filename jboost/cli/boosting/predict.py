"""What `jboost predict` and `jboost inspect` do with a folder that was fitted by boosting."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import files
from jboost.base.boosting import Ensemble
from jboost.cli.boosting import features
from jboost.cli.boosting import method as boost
from jboost.cli.boosting.features import Features
from jboost.data.table import LabelMapping, Table, UsedColumns
from jboost.report import boosting


@dataclasses.dataclass(frozen=True)
class FittedEnsemble:
    """A model of boosting, read back."""

    ensemble: Ensemble
    features: Features
    learner: str
    mapping: LabelMapping
    precision: str
    description: dict[str, Any]  # as `jboost.report.boosting.describe_fit` makes it


def read(path: Path, metadata: dict[str, Any]) -> FittedEnsemble:
    """Reads the model; KeyError or TypeError where the metadata are not those of a fit, ValueError
    where the file is damaged.
    """
    if "names" in metadata:
        raise ValueError(
            f"{path}: an earlier jboost wrote this model, when boosting left text out: fit it anew"
        )
    numeric, categorical, plain = (
        tuple(metadata[name]) for name in ("numeric", "categorical", "plain")
    )
    learner, precision = metadata["learner"], metadata["precision"]
    mapping, description = LabelMapping(**metadata["labels"]), dict(metadata["boosting"])
    given = boost.make_learner(learner) if learner == "mlp" else None
    with jax.enable_x64(precision == "float64"):
        held = files.load(path, learner=given)
    seen = Features(numeric, categorical, plain, held["binarizer"])
    return FittedEnsemble(held["ensemble"], seen, learner, mapping, precision, description)


def used_columns(fitted: FittedEnsemble) -> UsedColumns:
    """Those that a hypothesis with a vote looks at; all where the learner does not say."""
    learner = fitted.ensemble.learner
    places = learner.places(fitted.ensemble.hypotheses) if hasattr(learner, "places") else None
    seen = fitted.features
    if places is None:
        return UsedColumns(seen.numeric, seen.categorical)
    has_vote = np.any(np.asarray(fitted.ensemble.votes) != 0, axis=1)
    used = seen.columns_at(
        [int(place) for place in np.unique(np.asarray(places)[has_vote]) if place >= 0]
    )
    return UsedColumns(
        *(
            tuple(name for name in names if name in used)
            for names in (seen.numeric, seen.categorical)
        )
    )


def predict_columns(fitted: FittedEnsemble, table: Table) -> dict[str, Any]:
    """The columns `score` and `prediction`."""
    seen = fitted.features
    whole = table.with_unused(seen.numeric, seen.categorical, value=0.0)
    values = boost.scores(
        fitted.ensemble,
        features.read_features(seen, whole, fitted.learner, fitted.precision),
        fitted.precision,
    )
    return {"score": values, "prediction": fitted.mapping.to_text(np.where(values > 0, 1, -1))}


def exported(fitted: FittedEnsemble) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """The model, the options of `jboost.export`, and notes."""
    seen = fitted.features
    return fitted.ensemble, {"binarizer": seen.binarizer, "names": seen.plain}, ()


def show(fitted: FittedEnsemble, say: Any) -> None:
    """The model, all its rules and what is proven about it."""
    say(
        f"model       {type(fitted.ensemble).__name__}, {fitted.precision}, jboost"
        f" {files.package_version('jboost')}"
    )
    say(f"columns     {', '.join((*fitted.features.numeric, *fitted.features.categorical))}")
    say(f"labels      {fitted.mapping}")
    for line in boosting.lines(
        fitted.description, boosting.rules(fitted.ensemble, fitted.features.names), num_shown=None
    ):
        say(line)
