"""Boosting for the command line: learners by name, the features that they take, one fit, and the choice of nu by cross-validation."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jboost import adaboost, infoboost, learners, lp, lpboost, relaxations, relaxed_margin
from jboost.base.boosting import Ensemble, Fit
from jboost.base.loops import OnStep
from jboost.base.predict import predict_scores
from jboost.base.types import Dataset
from jboost.cli import inputs, sizes
from jboost.cli.inputs import Examples, Source
from jboost.cli.option import ADABOOST, LPBOOST, RELAXED_MARGIN, SOFT_MARGINS
from jboost.cli.options import Settings
from jboost.data.table import Table
from jboost.lpboost.master import Config

_HIDDEN_SIZES, _LEARNING_RATE = (16,), 1e-2
_SOLVERS: dict[str, Config] = {"simplex": lpboost.SimplexConfig(), "interior-point": lp.InteriorPointConfig(), "first-order": lp.FirstOrderConfig()}
_TAKES_EMPTY_COLUMNS = ("stumps", "pool")  # a column of zeros changes no result of these learners
_STREAM = 2  # the folds that choose nu are others than those of `evaluate`


@dataclasses.dataclass(frozen=True)
class Choice:
    """The nu that was chosen, and what each of the candidates lost on held-out rows."""

    nu: float
    losses: tuple[dict[str, Any], ...]  # nu, mean, standard_error and rates of each; empty where there was no choice


@functools.lru_cache
def make_learner(name: str) -> Any:
    """The learner of a name; one object for each, so that nothing compiles twice."""
    if name == "mlp":
        import optax

        return learners.trained(*learners.mlp(_HIDDEN_SIZES), optax.adam(_LEARNING_RATE))
    makers: dict[str, Callable[[], Any]] = {"stumps": learners.stumps, "pool": learners.pool, "literals": learners.literals}
    return makers[name]()


def feature_names(table: Table) -> tuple[str, ...]:
    """The numeric columns; ValueError where there are none."""
    if not table.numeric:
        raise ValueError(f"{table.source}: no numeric columns, and boosting takes no others: write text as numbers, or take --method pair")
    return tuple(table.numeric)


def left_out_notes(table: Table) -> tuple[str, ...]:
    """Which columns boosting does not look at."""
    names = ", ".join(table.categorical)
    return (f"boosting takes numeric columns: text columns are left out ({names})",) if names else ()


def read_features(table: Table, names: tuple[str, ...], learner: str) -> np.ndarray:
    """The named columns [m, N] in float64, NaN where missing; ValueError with the row where the learner cannot take a value."""
    if learner == "stumps":
        return table.matrix(names, ()).astype(np.float64)
    columns = [table.numbers(name) for name in names]
    for name, column in zip(names, columns, strict=True):
        _check_column(table, name, column, learner)
    return np.stack(columns, axis=1)


def _check_column(table: Table, name: str, column: np.ndarray, learner: str) -> None:
    if learner == "pool":
        wrong, wanted = ~(np.abs(column) <= 1), "the learner pool takes outputs in [-1, 1]: scale the column"
    elif learner == "literals":
        zero = -1.0 if (column == 0).any() else 0.0  # the other way to say no: a column has one
        wrong, wanted = ~np.isin(column, (0.0, 1.0, -1.0)) | (column == zero), "the learner literals takes 0 and 1, or -1 and 1: recode the column"
    else:
        return
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{table.source}: column '{name}' holds {column[row]:g} in row {row + 1}: {wanted}, or take --learner stumps{table.line(row)}"
        )


def read_examples(source: Source, names: tuple[str, ...], settings: Settings) -> Examples:
    """Features, labels and weights in the precision that was asked for."""
    features = read_features(source.table, names, settings.learner)
    return inputs.cast_examples(features, source, settings, may_miss=settings.learner == "stumps")


def boost(examples: Examples, chosen: np.ndarray, settings: Settings, nu: float) -> Fit:
    """One fit on the rows where `chosen` [n] is True; all masks and all nus share one compilation, and so do tables of similar size."""
    learner = make_learner(settings.learner)
    num_rows, num_columns = sizes.linear(len(chosen)), examples.points.shape[1]
    padded = examples.padded(num_rows, sizes.columns(num_columns) if settings.learner in _TAKES_EMPTY_COLUMNS else num_columns)
    mask = np.pad(chosen, (0, num_rows - len(chosen)))
    with jax.enable_x64(settings.precision == "float64"):
        dataset = Dataset(*(jax.numpy.asarray(part) for part in (padded.points, padded.labels, padded.weights, mask)))
        key = jax.random.key(settings.seed)
        if settings.method == RELAXED_MARGIN:
            relaxation = relaxations.soft_margin(nu=nu)
            fit = relaxed_margin.fit(dataset, learner, key=key, max_rounds=settings.rounds, relaxation=relaxation, tolerance=settings.tolerance)
        elif settings.method == LPBOOST:
            config = _SOLVERS[settings.solver]
            fit = lpboost.fit(dataset, learner, key=key, max_rounds=settings.rounds, nu=nu, tolerance=settings.tolerance, config=config)
        elif settings.method == ADABOOST:
            fit = adaboost.fit(dataset, learner, key=key, max_rounds=settings.rounds)
        else:
            fit = infoboost.fit(dataset, learner, key=key, max_rounds=settings.rounds)
        return jax.block_until_ready(fit)


def scores(ensemble: Ensemble, features: np.ndarray, precision: str) -> np.ndarray:
    """The scores [k] of features [k, N], in float64; infinite where a hypothesis settles the row."""
    count = len(features)
    padded = np.pad(features.astype(precision), ((0, sizes.linear(count) - count), (0, 0)))
    with jax.enable_x64(precision == "float64"):
        return np.asarray(_scores(ensemble, padded), np.float64)[:count]


_scores = jax.jit(predict_scores)


def normalized_margins(ensemble: Ensemble, values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """y F(x) over the sum of all finite votes, [n] in [-1, 1] within rounding; infinite where a hypothesis settles the row."""
    votes = np.asarray(ensemble.votes, np.float64)
    sizes = np.where(np.isfinite(votes), np.abs(votes), 0).max(axis=1)
    norm = math.fsum(sizes) + abs(float(ensemble.constant))
    return labels * values / (norm or 1.0)


def choose_nu(examples: Examples, chosen: np.ndarray, settings: Settings, *, on_step: OnStep | None = None) -> Choice:
    """The nu of least mean loss in stratified cross-validation on the rows where `chosen` is True; among equals the greatest.

    Args:
      examples: all rows.
      chosen: [n] bool, those that may be looked at.
      settings: all options; with one nu there is no choice.
      on_step: shown each fit, with the losses so far; all of them are made whatever it answers.
    """
    if settings.method not in SOFT_MARGINS or len(settings.nu) == 1:
        return Choice(settings.nu[0], ())
    rows = np.flatnonzero(chosen)
    folds = inputs.hold_out_masks(examples.labels[rows], settings, stream=_STREAM)
    table: list[dict[str, Any]] = []
    for nu in settings.nu:
        rates = []
        for held_out in folds:
            training = np.zeros_like(chosen)
            training[rows[~held_out]] = True
            rates.append(_loss_rate(boost(examples, training, settings, nu), examples, rows[held_out], settings.precision))
            if on_step is not None:
                on_step(table, f"nu {nu:g}")
        spread = float(np.std(rates, ddof=1)) / math.sqrt(len(rates))
        table.append({"nu": nu, "mean": float(np.mean(rates)), "standard_error": spread, "rates": rates})
    best = min(table, key=lambda row: (row["mean"], -row["nu"]))
    return Choice(best["nu"], tuple(table))


def num_choice_fits(settings: Settings) -> int:
    """How many fits `choose_nu` makes."""
    return len(settings.nu) * settings.folds if settings.method in SOFT_MARGINS and len(settings.nu) > 1 else 0


def _loss_rate(fit: Fit, examples: Examples, rows: np.ndarray, precision: str) -> float:
    values = scores(fit.ensemble, examples.points, precision)[rows]  # of all rows, so that one compilation serves all folds
    wrong = (values > 0) != (examples.labels[rows] > 0)
    weights = examples.weights[rows].astype(np.float64)
    return math.fsum(weights[wrong]) / math.fsum(weights)
