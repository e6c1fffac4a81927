"""The margin rho and the price kappa of a coefficient, chosen by cross-validation in one compiled call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import boosting, check, folds
from jboost.base.boosting import Fit
from jboost.base.predict import predict_scores
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.l0.booster import L0, VoteConfig, begin_fit
from jboost.l0.margins import walk_margins
from jboost.l0.types import RelaxationConfig

MakeLearner = Callable[[Any], Any]


class Choice(NamedTuple):
    """The pair of least mean held-out error; among equals the largest kappa, then the largest margin."""

    fit: Fit  # of all examples, with the pair chosen
    margin: Array  # [] rho
    kappa: Array  # []
    errors: Array  # [K, L] mean held-out error of each kappa and margin, as shares of the held-out weight
    standard_errors: Array  # [K, L] of those means, over folds
    status: Array  # [] int32, that of `fit`


def choose(
    dataset: Dataset,
    make_learner: MakeLearner,
    *,
    margins: ArrayLike,
    kappas: ArrayLike,
    key: Array,
    num_folds: int = 5,
    held_out: ArrayLike | None = None,
    max_rounds: int = 100,
    tolerance: ArrayLike = 1e-3,
    config: RelaxationConfig | None = None,
    search: VoteConfig | None = None,
    max_columns: int = 256,
    num_at_once: int = 1,
) -> Choice:
    """`fit` with the margin and the kappa of least error in stratified cross-validation; each fold walks the margins as `path` does.

    Args:
      dataset: of m examples.
      make_learner: kappa -> a learner that prices; called with a traced number, as `lambda kappa: jboost.learners.monomials(1, kappa=kappa)`. Hand in
        the same function again and nothing compiles anew.
      margins: [L] rho in (0, 1], in order.
      kappas: [K], not negative.
      key: for the folds.
      num_folds: static, at least 2.
      held_out: [F, m], what each of F folds holds out of the weight of every example, in place of folds drawn with `key`: for rows that stand for
        several examples (`jboost.data.merging`), which come to lie in several folds.
      max_rounds: how many pairs of questions there is room for at each margin; static.
      tolerance: as for `fit`.
      config: as for `fit`.
      search: as for `fit`.
      max_columns: as for `fit`.
      num_at_once: how many paths are walked at the same time, each as long as the longest; static. 1 suits a CPU.

    Returns:
      A `Choice`.

    Raises:
      ValueError: what `fit` raises; for `margins`, `kappas` or `held_out` that are empty or not allowed, where they are known.

    >>> import jax
    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 4, [1, -1, -1, -1] * 4)
    >>> learner = lambda kappa: jboost.learners.monomials(2, kappa=kappa)
    >>> chosen = jboost.l0.choose(dataset, learner, margins=[0.2], kappas=[0.1, 9.0], key=jax.random.key(0), num_folds=2, max_rounds=8)
    >>> round(float(chosen.kappa), 3), float(chosen.errors[0, 0])
    (0.1, 0.0)
    """
    margins = check.numbers("margins", margins, low=0, high=1, open_low=True)
    prices = check.numbers("kappas", kappas, low=0)
    check.count("num_folds", num_folds, low=2)
    check.key("key", key)
    check.count("num_at_once", num_at_once, low=1)
    booster = begin_fit(
        dataset,
        make_learner(prices[0]),
        max_rounds=max_rounds,
        margin=1.0,
        tolerance=tolerance,
        config=config,
        search=search,
        max_columns=max_columns,
        bound_integer=False,
    )
    if held_out is None:
        is_held_out = folds.stratified_folds(key, dataset.labels, num_folds=num_folds, mask=dataset.mask)
        parts = jnp.where(is_held_out, dataset.weights[None, :], 0)
    else:
        parts = _judge_folds(held_out, dataset)
    return _choose(booster, dataset, margins, prices, parts, make_learner=make_learner, max_rounds=max_rounds, num_at_once=num_at_once)


def _judge_folds(held_out: ArrayLike, dataset: Dataset) -> Array:
    """What folds hold out, [F, m]. Raises ValueError where that is below 0 or more than there is."""
    held_out = check.numeric("held_out", held_out, shape=("F", dataset.labels.shape[0]), kinds="fiub")
    if held_out.shape[0] < 2:
        raise ValueError(f"held_out has {held_out.shape[0]} folds: at least 2 are wanted")
    is_bad = ~((held_out >= 0) & (held_out <= dataset.weights[None, :])) & dataset.mask[None, :]
    if not isinstance(is_bad, jax.core.Tracer) and bool(jnp.any(is_bad)):
        fold, row = np.argwhere(np.asarray(is_bad))[0]
        weight = float(dataset.weights[row])
        raise ValueError(f"held_out[{fold}, {row}] is {held_out[fold, row]}: a number from 0 to the weight of the example, {weight:g}, is wanted")
    return jnp.where(dataset.mask[None, :], held_out, 0)


@functools.partial(jax.jit, static_argnames=("make_learner", "max_rounds", "num_at_once"))
def _choose(
    booster: L0,
    dataset: Dataset,
    margins: Array,
    kappas: Array,
    held_out: Array,
    *,
    make_learner: MakeLearner,
    max_rounds: int,
    num_at_once: int,
) -> Choice:
    num_kappas, num_margins, num_folds = kappas.shape[0], margins.shape[0], held_out.shape[0]
    held_out = held_out.astype(jnp.result_type(float))

    def fit_path(kappa: Array, fold: Array, margins: Array) -> Fit:
        is_left = (fold == 0) | (fold < dataset.weights)  # weights that are not allowed stay, and are seen
        rows = dataset._replace(weights=dataset.weights - fold, mask=dataset.mask & is_left)
        return walk_margins(booster, make_learner(kappa), rows, None, margins, max_rounds=max_rounds * margins.shape[0])

    def errors_of(part: tuple[Array, Array]) -> Array:
        kappa, fold = part
        fits = fit_path(kappa, fold, margins)
        return lax.map(lambda ensemble: _error(ensemble, dataset, fold), fits.ensemble)

    pairs = (jnp.repeat(kappas, num_folds), jnp.tile(held_out, (num_kappas, 1)))
    rates = lax.map(errors_of, pairs, batch_size=num_at_once if num_at_once > 1 else None).reshape(num_kappas, num_folds, num_margins)
    errors = jnp.mean(rates, axis=1)
    spread = jnp.sqrt(jnp.sum((rates - errors[:, None, :]) ** 2, axis=1) / (num_folds * (num_folds - 1)))
    kappa, margin = _first_of_least(errors, kappas, margins)
    fit = jax.tree.map(lambda leaf: leaf[0], fit_path(kappa, jnp.zeros_like(held_out[0]), margin[None]))
    return Choice(fit, margin, kappa, errors, spread, fit.status)


def _error(ensemble: boosting.Ensemble, dataset: Dataset, fold: Array) -> Array:
    """The share of the weight held out that the ensemble gets wrong, []; a score of 0 predicts -1."""
    wrong = jnp.where(predict_scores(ensemble, dataset.features) > 0, 1, -1) != jnp.sign(dataset.labels)
    return jnp.sum(jnp.where(wrong, fold, 0.0)) / jnp.maximum(jnp.sum(fold), jnp.finfo(fold.dtype).tiny)


def _first_of_least(errors: Array, kappas: Array, margins: Array) -> tuple[Array, Array]:
    """The pair of least error; among equals the largest kappa, then the largest margin."""
    is_least = errors <= jnp.min(errors)
    kappa = jnp.max(jnp.where(jnp.any(is_least, axis=1), kappas, -jnp.inf))
    return kappa, jnp.max(jnp.where(jnp.any(is_least & (kappas[:, None] == kappa), axis=0), margins, -jnp.inf))
