"""`jboost predict`, `jboost inspect` and `jboost export` for models of boosting."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import files
from jboost.base.boosting import Ensemble, Learner
from jboost.base.protocols import hook
from jboost.cli.boosting import features
from jboost.cli.boosting import method as boost
from jboost.cli.boosting.features import TableFeatures
from jboost.data.table import LabelMapping, Table, UsedColumns
from jboost.learners.monomials import Monomial
from jboost.report import boosting


@dataclasses.dataclass(frozen=True)
class FittedEnsemble:
    """An ensemble that was read from a file."""

    ensemble: Ensemble
    features: TableFeatures
    learner: str
    mapping: LabelMapping
    precision: str
    description: dict[str, Any]  # the result of `jboost.report.boosting.describe_fit`


def read(path: Path, metadata: dict[str, Any]) -> FittedEnsemble:
    """Reads the model.

    Raises:
      KeyError, TypeError: if the metadata were not written by `jboost fit`.
      ValueError: if the file is damaged, or if an early version of jboost wrote it.
    """
    if "names" in metadata:
        raise ValueError(
            f"{path}: an early version of jboost, without text columns in boosting, wrote this"
            " model: fit it again"
        )
    numeric, categorical, plain = (
        tuple(metadata[name]) for name in ("numeric", "categorical", "plain")
    )
    learner, precision = metadata["learner"], metadata["precision"]
    mapping, description = LabelMapping(**metadata["labels"]), dict(metadata["boosting"])
    given = boost.make_learner(learner) if learner == "mlp" else None
    with jax.enable_x64(precision == "float64"):
        stored = files.load(path, learner=given)
    seen = TableFeatures(numeric, categorical, plain, stored["binarizer"])
    places = _places(stored["ensemble"])
    if places is not None and max(places, default=-1) >= seen.size:
        raise ValueError(
            f"{path}: metadata.plain has {len(plain)} columns: the votes need more features"
        )
    return FittedEnsemble(stored["ensemble"], seen, learner, mapping, precision, description)


def used_columns(fitted: FittedEnsemble) -> UsedColumns:
    """Returns the columns that hypotheses with a nonzero vote use.

    If the learner does not declare them by `places`, and is not one of monomials, all columns are
    returned.
    """
    seen, places = fitted.features, _places(fitted.ensemble)
    if places is None:
        return UsedColumns(seen.numeric, seen.categorical)
    used = seen.columns_at([int(index) for index in places if index >= 0])
    return UsedColumns(
        *(
            tuple(name for name in names if name in used)
            for names in (seen.numeric, seen.categorical)
        )
    )


def _places(ensemble: Ensemble) -> np.ndarray | None:
    """Returns the indices of the features that hypotheses with a nonzero vote use, or None if they
    are unknown.
    """
    has_vote = np.any(np.asarray(ensemble.votes) != 0, axis=1)
    if isinstance(ensemble.hypotheses, Monomial):
        return np.flatnonzero(np.asarray(ensemble.hypotheses.literals)[has_vote].any(axis=0))
    places = hook(Learner, ensemble.learner, "places")(ensemble.hypotheses)
    return None if places is None else np.unique(np.asarray(places)[has_vote])


def predict_columns(fitted: FittedEnsemble, table: Table) -> dict[str, Any]:
    """Returns the columns `score` and `prediction`."""
    seen = fitted.features
    whole = table.with_unused(seen.numeric, seen.categorical, value=0.0)
    values = boost.scores(
        fitted.ensemble,
        features.read_features(seen, whole, fitted.learner, fitted.precision),
        fitted.precision,
    )
    return {"score": values, "prediction": fitted.mapping.to_text(np.where(values > 0, 1, -1))}


def exported(fitted: FittedEnsemble) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """Returns the model, the keyword arguments of `jboost.export`, and notes for the user."""
    seen = fitted.features
    return fitted.ensemble, {"binarizer": seen.binarizer, "names": seen.plain}, ()


def show(fitted: FittedEnsemble, say: Any) -> None:
    """Prints the model, all its rules and its certificate."""
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
