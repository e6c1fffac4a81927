"""Boosting for the command line: makes learners by name, fits, and computes scores."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jboost import adaboost, infoboost, learners, lp, lpboost, relaxed_margin
from jboost.base import padding
from jboost.base.boosting import Ensemble, Fit
from jboost.base.predict import predict_scores
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.cli import checkpointing, limits, sizes
from jboost.cli.inputs import HostExamples
from jboost.cli.option import ADABOOST, LPBOOST, MONOMIALS, RELAXED_MARGIN
from jboost.cli.options import Settings
from jboost.cli.relaxations import Relaxing, relaxing_of
from jboost.lpboost.master import Config
from jboost.monomials import SearchConfig

_HIDDEN_SIZES, _LEARNING_RATE = (16,), 1e-2  # the network of --learner mlp, trained by Adam
_NUM_PROPOSED = 8  # the most monomials that one search returns
_SOLVERS: dict[str, Config] = {
    "simplex": lpboost.SimplexConfig(),
    "interior-point": lp.InteriorPointConfig(),
    "first-order": lp.FirstOrderConfig(),
}
_TAKES_EMPTY_COLUMNS = ("stumps", "pool")  # a column of zeros changes no result of these learners


@dataclasses.dataclass(frozen=True)
class BoostingPlan:
    """The static arguments of a compiled boosting program, besides the shapes of the data."""

    method: str
    learner: str
    max_depth: int
    max_order: int
    has_gaps: bool
    rounds: int
    solver: str
    relaxing: Relaxing

    def make_learner(self) -> Any:
        """Returns the learner of the program."""
        return make_learner(
            self.learner,
            max_depth=self.max_depth,
            max_order=self.max_order,
            has_gaps=self.has_gaps,
        )


def plan_of(settings: Settings, features: np.ndarray) -> BoostingPlan:
    """Returns the static arguments for the options and for features [..., N] of the rows."""
    is_of_rules = settings.learner == MONOMIALS
    return BoostingPlan(
        settings.method,
        settings.learner,
        settings.max_depth,
        settings.max_order,
        is_of_rules and bool(np.isnan(features).any()),
        settings.rounds,
        settings.solver,
        relaxing_of(settings),
    )


@functools.lru_cache
def make_learner(
    name: str, *, max_depth: int = 2, max_order: int = 1, has_gaps: bool = False
) -> Any:
    """Returns the learner of this name.

    The result is cached: JAX compiles again for a new learner object.

    Args:
      name: the value of --learner.
      max_depth: the depth of trees.
      max_order: the largest number of literals of a monomial.
      has_gaps: whether a feature of monomials may be NaN. The search then takes longer.
    """
    if name == "mlp":
        import optax

        return learners.trained(*learners.mlp(_HIDDEN_SIZES), optax.adam(_LEARNING_RATE))
    makers: dict[str, Callable[[], Any]] = {
        "stumps": learners.stumps,
        "pool": learners.pool,
        "literals": learners.literals,
        "trees": lambda: learners.trees(max_depth),
        MONOMIALS: lambda: learners.monomials(
            max_order, num_proposed=_NUM_PROPOSED, config=SearchConfig(missing=has_gaps)
        ),
    }
    return makers[name]()


def width_for(num_features: int, learner: str) -> int:
    """Returns the padded number of columns. Tables of similar size then share a program."""
    return sizes.columns(num_features) if learner in _TAKES_EMPTY_COLUMNS else num_features


def path(examples: HostExamples, settings: Settings, nus: tuple[float, ...]) -> list[Fit]:
    """Returns a fit of LP-Boost for each nu, in one program (`jboost.lpboost.path`)."""
    with jax.enable_x64(settings.precision == "float64"):
        dataset = _padded(examples, np.ones(len(examples.labels), bool), settings)
        fits = lpboost.path(
            dataset,
            plan_of(settings, examples.points).make_learner(),
            np.asarray(nus, settings.precision),
            key=jax.random.key(settings.seed),
            max_rounds=settings.rounds,
            tolerance=settings.tolerance,
            config=_SOLVERS[settings.solver],
        )
        return padding.unstack(jax.block_until_ready(fits))


def _padded(examples: HostExamples, chosen: np.ndarray, settings: Settings) -> Dataset:
    """Returns the data set of the rows where `chosen` [n] is True. Tables of similar size have one
    size.
    """
    num_rows = sizes.linear(len(chosen))
    padded = examples.padded(num_rows, width_for(examples.points.shape[1], settings.learner))
    mask = np.pad(chosen, (0, num_rows - len(chosen)))
    parts = (padded.points, padded.labels, padded.weights, mask)
    return Dataset(*(jax.numpy.asarray(part) for part in parts))


def boost(examples: HostExamples, chosen: np.ndarray, settings: Settings, nu: float) -> Fit:
    """Fits an ensemble to the rows where `chosen` [n] is True.

    All masks and all values of nu share one compilation, and so do tables of similar size. The
    rounds are driven by the host where something may act between them: a time limit, a checkpoint,
    or a person at a terminal who may press Ctrl-C.
    """
    with jax.enable_x64(settings.precision == "float64"):
        dataset = _padded(examples, chosen, settings)
        plan, key = plan_of(settings, examples.points), jax.random.key(settings.seed)
        is_driven = limits.is_attended() or settings.time_limit or settings.checkpoint
        if not is_driven:
            return jax.block_until_ready(fit_dataset(plan, dataset, key, nu, settings.tolerance))
        booster, options = _method_of(plan, key, nu, settings.tolerance)
        learner = plan.make_learner()
        with limits.progress(settings.method, settings.rounds) as show:
            like = functools.partial(booster.init, dataset, learner, **options)
            with checkpointing.kept(
                settings, lambda state, info: show(state, ""), like, dataset
            ) as (on_step, initial):
                return jax.block_until_ready(
                    booster.fit(dataset, learner, on_step=on_step, initial=initial, **options)
                )


def fit_dataset(
    plan: BoostingPlan, dataset: Dataset, key: Array, nu: ArrayLike, tolerance: ArrayLike
) -> Fit:
    """Fits an ensemble with the booster of a plan. It can be called under a JAX transformation."""
    booster, options = _method_of(plan, key, nu, tolerance)
    fitted: Fit = booster.fit(dataset, plan.make_learner(), **options)
    return fitted


def _method_of(
    plan: BoostingPlan, key: Array, nu: ArrayLike, tolerance: ArrayLike
) -> tuple[Any, dict[str, Any]]:
    """Returns the module of the method and the keyword arguments of its `init` and `fit`."""
    options: dict[str, Any] = {"key": key, "max_rounds": plan.rounds}
    if plan.method == RELAXED_MARGIN:
        return relaxed_margin, options | {
            "relaxation": plan.relaxing.make(nu),
            "update": plan.relaxing.update,
            "votes": plan.relaxing.votes(),
            "tolerance": tolerance,
        }
    if plan.method == LPBOOST:
        return lpboost, options | {
            "nu": nu,
            "tolerance": tolerance,
            "config": _SOLVERS[plan.solver],
        }
    return adaboost if plan.method == ADABOOST else infoboost, options


def scores(ensemble: Ensemble, features: np.ndarray, precision: str) -> np.ndarray:
    """Returns the scores [k] of features [k, N] in float64.

    A score is infinite if a hypothesis of InfoBoost with an infinite vote decides the row.
    """
    count = len(features)
    padded = np.pad(features.astype(precision), ((0, sizes.linear(count) - count), (0, 0)))
    with jax.enable_x64(precision == "float64"):
        return np.asarray(_scores(ensemble, padded), np.float64)[:count]


_scores = jax.jit(predict_scores)


def normalized_margins(ensemble: Ensemble, values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns y F(x) over the sum of the absolute finite votes, [n].

    The values are in [-1, 1] up to rounding. They are infinite where the score is infinite.
    """
    votes = np.asarray(ensemble.votes, np.float64)
    sizes = np.where(np.isfinite(votes), np.abs(votes), 0).max(axis=1)
    norm = math.fsum(sizes) + abs(float(ensemble.constant))
    return labels * values / (norm or 1.0)
