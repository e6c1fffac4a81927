"""Example weights for the command line: numeric columns as points, one fit, and the choice of the penalty by cross-validation."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from jboost import example_weights, kernels
from jboost.base.predict import predict_scores
from jboost.base.status import Status
from jboost.cli import inputs
from jboost.cli.inputs import Examples, Source
from jboost.cli.options import AUTO, Settings
from jboost.data.table import Table
from jboost.example_weights import ExampleWeightModel

_GRID = (1.5, 2.0, 3.0, 5.0, 9.0)  # candidates where no penalty is given, over the number of rows
_STREAM = 3  # the folds that choose the penalty are others than those of `evaluate`


@dataclasses.dataclass(frozen=True)
class Choice:
    """The penalty that was chosen, and what each of the candidates lost on held-out rows."""

    penalty: float
    losses: tuple[dict[str, float], ...]  # penalty and mean of each; empty where there was no choice


def feature_names(table: Table) -> tuple[str, ...]:
    """The numeric columns; ValueError where there are none."""
    if not table.numeric:
        raise ValueError(f"{table.source}: no numeric columns, and example weights take no others: write text as numbers, or take --method l0")
    return tuple(table.numeric)


def left_out_notes(table: Table) -> tuple[str, ...]:
    """Which columns are not looked at."""
    names = ", ".join(table.categorical)
    return (f"example weights take numeric columns: text columns are left out ({names})",) if names else ()


def read_points(table: Table, names: tuple[str, ...]) -> np.ndarray:
    """The named columns [m, d] in float64; ValueError where a value is missing."""
    return np.stack([table.numbers(name) for name in names], axis=1)


def read_examples(source: Source, names: tuple[str, ...], settings: Settings) -> Examples:
    """Points and labels in the precision that was asked for."""
    return inputs.cast_examples(read_points(source.table, names), source, settings)


def radius_for(points: np.ndarray, chosen: np.ndarray, settings: Settings) -> float:
    """R: what was asked for, or the least that all chosen rows allow."""
    if settings.radius != AUTO:
        return float(settings.radius)
    centred = points.astype(np.float64) - points[chosen].astype(np.float64).mean(axis=0)
    needed = (np.abs(centred).max(axis=1) + np.linalg.norm(centred, axis=1)) / 2
    return float(needed[chosen].max()) * 1.001 or 1.0


def fit(examples: Examples, chosen: np.ndarray, settings: Settings, penalty: float) -> ExampleWeightModel:
    """One fit on the rows where `chosen` [m] is True; all masks and penalties share one compilation.

    Raises:
      ValueError: naming the option, for a penalty or a radius that the rows do not allow, or where there is no classifier.
    """
    radius = radius_for(examples.points, chosen, settings)
    with jax.enable_x64(settings.precision == "float64"):
        example_weights.validate(examples.points, examples.labels, penalty=penalty, radius=radius, mask=chosen)
        model = _fit(examples.points, examples.labels, chosen, np.asarray(penalty, settings.precision), np.asarray(radius, settings.precision))
        model = jax.block_until_ready(model)
    if Status(int(model.status)) in (Status.INVALID_INPUT, Status.INFEASIBLE):
        raise ValueError(f"example-weights found no classifier at penalty {penalty:g} and radius {radius:g}: choose others")
    return model


@jax.jit
def _fit(points: Any, labels: Any, mask: Any, penalty: Any, radius: Any) -> ExampleWeightModel:
    return example_weights.fit(points, labels, mask=mask, penalty=penalty, radius=radius)


def choose(examples: Examples, chosen: np.ndarray, settings: Settings) -> Choice:
    """The penalty of least error in stratified cross-validation on the rows where `chosen` is True, all in one compiled call."""
    count = int(chosen.sum())
    candidates = settings.penalty or tuple(min(1.0, factor / count) for factor in _GRID)
    candidates = tuple(sorted(set(candidates)))
    if len(candidates) == 1:
        return Choice(candidates[0], ())
    radius = radius_for(examples.points, chosen, settings)
    with jax.enable_x64(settings.precision == "float64"):
        found = example_weights.choose_penalty(
            examples.points,
            examples.labels,
            penalties=np.array(candidates, settings.precision),
            key=jax.random.fold_in(jax.random.key(settings.seed), _STREAM),
            num_folds=settings.folds,
            kernel=kernels.hyperplanes(radius),
            centre=examples.points[chosen].mean(axis=0),
            mask=chosen,
        )
        losses, penalty = np.asarray(found.losses, np.float64), float(found.penalty)
    if not np.isfinite(penalty):
        raise ValueError(f"penalty: none of {', '.join(f'{one:g}' for one in candidates)} is 1 / rows of a training fold or more: raise --penalty")
    nearest = min(candidates, key=lambda one: abs(one - penalty))
    return Choice(nearest, tuple({"penalty": one, "mean": float(loss)} for one, loss in zip(candidates, losses, strict=True)))


def scores(model: ExampleWeightModel, points: np.ndarray, precision: str) -> np.ndarray:
    """The scores [k] of points [k, d], in float64."""
    with jax.enable_x64(precision == "float64"):
        return np.asarray(predict_scores(model, points.astype(precision)), np.float64)
