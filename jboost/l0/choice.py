"""The margin rho, the price kappa of a coefficient and the kind of final vote, chosen by cross-validation in one compiled call.

Columns are generated once for each margin, kappa and fold; all kinds of vote are taken of the same ones.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import boosting, check, folds
from jboost.base.boosting import Fit, State
from jboost.base.predict import predict_scores
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.l0.booster import L0, VoteConfig, begin_fit, finish, judge_search
from jboost.l0.margins import walk_margins
from jboost.l0.types import RelaxationConfig

MakeLearner = Callable[[Any], Any]


class Choice(NamedTuple):
    """What has the least mean held-out error; among equals the largest kappa, then the largest margin, then the first search."""

    fit: Fit  # of all examples, with what is chosen
    margin: Array  # [] rho
    kappa: Array  # []
    search: Array  # [] int32, which of the searches
    errors: Array  # [K, L, S] mean held-out error of each kappa, margin and search, as shares of the held-out weight
    standard_errors: Array  # [K, L, S] of those means, over folds
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
    search: VoteConfig | Sequence[VoteConfig] | None = None,
    max_columns: int = 256,
    num_at_once: int = 1,
) -> Choice:
    """`fit` with the margin, kappa and search of least error in stratified cross-validation; each fold walks the margins as `path` does.

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
      search: static; as for `fit`, or several to choose among, the one to be preferred first: `(SearchConfig(), HingeConfig())`.
      max_columns: as for `fit`.
      num_at_once: how many paths are walked at the same time, each as long as the longest; static. 1 suits a CPU.

    Returns:
      A `Choice`.

    Raises:
      ValueError: what `fit` raises; for `margins`, `kappas`, `search` or `held_out` that are empty or not allowed, where they are known.

    >>> import jax
    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 4, [1, -1, -1, -1] * 4)
    >>> learner = lambda kappa: jboost.learners.monomials(2, kappa=kappa)
    >>> chosen = jboost.l0.choose(dataset, learner, margins=[0.2], kappas=[0.1, 9.0], key=jax.random.key(0), num_folds=2, max_rounds=8)
    >>> round(float(chosen.kappa), 3), float(chosen.errors[0, 0, 0])
    (0.1, 0.0)
    """
    margins = check.numbers("margins", margins, low=0, high=1, open_low=True)
    prices = check.numbers("kappas", kappas, low=0)
    check.count("num_folds", num_folds, low=2)
    check.key("key", key)
    check.count("num_at_once", num_at_once, low=1)
    searches = tuple(judge_search(one) for one in (search if isinstance(search, Sequence) else [search]))
    if not searches:
        raise ValueError("search is empty: hand in one kind of final vote at least, as jboost.l0.SearchConfig()")
    booster = begin_fit(
        dataset,
        make_learner(prices[0]),
        max_rounds=max_rounds,
        margin=1.0,
        tolerance=tolerance,
        config=config,
        search=searches[0],
        max_columns=max_columns,
        bound_integer=False,
    )
    if held_out is None:
        is_held_out = folds.stratified_folds(key, dataset.labels, num_folds=num_folds, mask=dataset.mask)
        parts = jnp.where(is_held_out, dataset.weights[None, :], 0)
    else:
        parts = _judge_folds(held_out, dataset)
    sizes = {"max_rounds": max_rounds, "num_at_once": num_at_once}
    return _choose(booster, dataset, margins, prices, parts, make_learner=make_learner, searches=searches, **sizes)


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


@functools.partial(jax.jit, static_argnames=("make_learner", "searches", "max_rounds", "num_at_once"))
def _choose(
    booster: L0,
    dataset: Dataset,
    margins: Array,
    kappas: Array,
    held_out: Array,
    *,
    make_learner: MakeLearner,
    searches: tuple[VoteConfig, ...],
    max_rounds: int,
    num_at_once: int,
) -> Choice:
    sizes = (kappas.shape[0], held_out.shape[0], margins.shape[0], len(searches))
    held_out = held_out.astype(jnp.result_type(float))

    def fit_path(kappa: Array, fold: Array, margins: Array) -> Fit:
        """With every vote, and axes [L, S]."""
        is_left = (fold == 0) | (fold < dataset.weights)  # weights that are not allowed stay, and are seen
        rows = dataset._replace(weights=dataset.weights - fold, mask=dataset.mask & is_left)
        rounds = max_rounds * margins.shape[0]
        fits = walk_margins(booster, make_learner(kappa), rows, None, margins, max_rounds=rounds, finish=finish_each)
        return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *fits)

    def finish_each(state: State, rows: Dataset) -> tuple[Fit, ...]:
        return tuple(finish(state._replace(booster=dataclasses.replace(state.booster, search=search)), rows) for search in searches)

    def errors_of(part: tuple[Array, Array]) -> Array:
        kappa, fold = part
        ensembles = fit_path(kappa, fold, margins).ensemble
        return lax.map(lambda of_margin: lax.map(lambda ensemble: _error(ensemble, dataset, fold), of_margin), ensembles)

    parts = (jnp.repeat(kappas, sizes[1]), jnp.tile(held_out, (sizes[0], 1)))
    rates = lax.map(errors_of, parts, batch_size=num_at_once if num_at_once > 1 else None).reshape(sizes)
    errors = jnp.mean(rates, axis=1)
    spread = jnp.sqrt(jnp.sum((rates - errors[:, None]) ** 2, axis=1) / (sizes[1] * (sizes[1] - 1)))
    kappa, margin, search = _first_of_least(errors, kappas, margins)
    fit = jax.tree.map(lambda leaf: leaf[0, search], fit_path(kappa, jnp.zeros_like(held_out[0]), margin[None]))
    return Choice(fit, margin, kappa, search, errors, spread, fit.status)


def _error(ensemble: boosting.Ensemble, dataset: Dataset, fold: Array) -> Array:
    """The share of the weight held out that the ensemble gets wrong, []; a score of 0 predicts -1."""
    wrong = jnp.where(predict_scores(ensemble, dataset.features) > 0, 1, -1) != jnp.sign(dataset.labels)
    return jnp.sum(jnp.where(wrong, fold, 0.0)) / jnp.maximum(jnp.sum(fold), jnp.finfo(fold.dtype).tiny)


def _first_of_least(errors: Array, kappas: Array, margins: Array) -> tuple[Array, Array, Array]:
    """Kappa, margin and number of the search of least error [K, L, S]; among equals the largest kappa, then the largest margin, then the first."""
    is_least = errors <= jnp.min(errors)
    kappa = jnp.max(jnp.where(jnp.any(is_least, axis=(1, 2)), kappas, -jnp.inf))
    is_least &= (kappas == kappa)[:, None, None]
    margin = jnp.max(jnp.where(jnp.any(is_least, axis=(0, 2)), margins, -jnp.inf))
    is_least &= (margins == margin)[None, :, None]
    return kappa, margin, jnp.argmax(jnp.any(is_least, axis=(0, 1))).astype(jnp.int32)
