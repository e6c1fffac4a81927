"""The margin rho, the price kappa of a coefficient and the kind of final vote, chosen by
cross-validation in one compiled call.

Columns are generated once for each margin, kappa and fold; all kinds of vote are taken of the same
ones.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import Partial

from jboost.base import boosting, check, derivatives, folds, loops, meshes
from jboost.base.boosting import Fit, State
from jboost.base.loops import OnStep
from jboost.base.predict import predict_scores
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.l0.booster import L0, VoteConfig, begin_fit, constant_cost_of, finish, validate_search
from jboost.l0.path import walk_margins
from jboost.l0.relaxation import validate_features
from jboost.l0.types import RelaxationConfig

MakeLearner = Callable[[Any], Any]


class _Folds(NamedTuple):
    """What each fold holds out, and what it knows the examples by; without leading axis, one of
    them.
    """

    held_out: Array  # [F, m] of the weights
    features: Array | None  # [F, m, N']; None for those of the data set


class Choice(NamedTuple):
    """What has the least mean held-out error; among equals the largest kappa, then the largest
    margin, then the first search.
    """

    fit: Fit  # of all examples, with what is chosen
    margin: Array  # [] rho
    kappa: Array  # []
    place: Array  # [3] int32: which kappa, margin and search
    # [K, L, S] mean held-out error of each kappa, margin and search, as shares of the held-out
    # weight; folds without any do not count
    errors: Array
    standard_errors: Array  # [K, L, S] of those means, over the same folds
    status: Array  # [] int32, that of `fit`; TIME_LIMIT where `on_step` ended the paths


@meshes.takes_gathered
@derivatives.without("jboost.l0.choose")
def choose(
    dataset: Dataset,
    make_learner: MakeLearner,
    *,
    margins: ArrayLike,
    kappas: ArrayLike,
    key: Array,
    num_folds: int = 5,
    held_out: ArrayLike | None = None,
    fold_features: ArrayLike | None = None,
    max_rounds: int = 100,
    tolerance: ArrayLike = 1e-3,
    config: RelaxationConfig | None = None,
    search: VoteConfig | Sequence[VoteConfig] | None = None,
    max_columns: int = 256,
    bound_integer: bool = True,
    num_at_once: int = 1,
    on_step: OnStep | None = None,
) -> Choice:
    """`fit` with the margin, kappa and search of least error in stratified cross-validation; each
    fold walks the margins as `path` does.

    Args:
      dataset: of m examples.
      make_learner: kappa -> a learner whose price may be a traced number, as `lambda kappa:
        jboost.learners.monomials(1, kappa=kappa)`. Hand in the same function again and nothing
        compiles anew; numbers that change from call to call may be bound by
        `jax.tree_util.Partial`.
      margins: [L] rho in (0, 1], in order.
      kappas: [K], not negative.
      key: for the folds.
      num_folds: static, at least 2.
      held_out: [F, m], what each of F folds holds out of the weight of every example, in place of
        folds drawn with `key`: for rows that stand for several examples (`jboost.data.merging`),
        which come to lie in several folds.
      fold_features: [F, m, N'], what each fold of `held_out` knows all examples by, in place of the
        features of `dataset`: bits that were fitted without what it holds out
        (`jboost.data.binarization`), N' as wide as the widest, columns of 0 after the others.
      max_rounds: how many pairs of questions there is room for at each margin; static.
      tolerance: as for `fit`.
      config: as for `fit`.
      search: static; as for `fit`, or several to choose among, the one to be preferred first:
        `(SearchConfig(), RelaxedConfig())`.
      max_columns: as for `fit`.
      bound_integer: as for `fit`, of the fit of all examples with what is chosen.
      num_at_once: how many paths are walked at the same time, each as long as the longest; static.
        1 suits a CPU.
      on_step: called after each path with (errors [L, S] of that path, (paths so far, all of
        them)), on the host; the paths are walked one by one then, and False ends them: the choice
        is among what was walked, NaN the errors of the rest. Not under jit or vmap.

    Returns:
      A `Choice`.

    Raises:
      ValueError: what `fit` raises; for `margins`, `kappas`, `search`, `held_out` or
        `fold_features` that are empty or not allowed, where they are known.

    >>> import jax
    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 12, [1, 1, -1, -1] * 12)
    >>> learner = lambda kappa: jboost.learners.monomials(1, kappa=kappa)
    >>> chosen = jboost.l0.choose(
    ...     dataset,
    ...     learner,
    ...     margins=[0.2],
    ...     kappas=[0.1, 9.0],
    ...     key=jax.random.key(0),
    ...     num_folds=2,
    ...     max_rounds=8,
    ... )
    >>> round(float(chosen.kappa), 3), float(chosen.errors[0, 0, 0])
    (0.1, 0.0)
    """
    margins = check.numbers("margins", margins, low=0, high=1, open_low=True)
    prices = check.numbers("kappas", kappas, low=0)
    check.count("num_folds", num_folds, low=2)
    check.key("key", key)
    check.count("num_at_once", num_at_once, low=1)
    searches = tuple(
        validate_search(one) for one in (search if isinstance(search, Sequence) else [search])
    )
    if not searches:
        raise ValueError(
            "search is empty: pass one kind of final vote at least, as jboost.l0.SearchConfig()"
        )
    if not callable(make_learner):
        raise ValueError(
            f"make_learner is a {type(make_learner).__name__}: expected a function kappa -> learner"
        )
    learner = make_learner(prices[0])
    booster, dataset = begin_fit(
        dataset,
        learner,
        max_rounds=max_rounds,
        margin=1.0,
        tolerance=tolerance,
        config=config,
        search=searches[0],
        max_columns=max_columns,
        bound_integer=bound_integer,
    )
    if held_out is None:
        is_held_out = folds.stratified_folds(
            key, dataset.labels, num_folds=num_folds, mask=dataset.mask
        )
        shares = jnp.where(is_held_out, dataset.weights[None, :], 0)
    else:
        shares = _validate_folds(held_out, dataset)
    if fold_features is not None:
        if held_out is None:
            raise ValueError(
                "fold_features is given and held_out is not: pass what each fold holds out of the"
                " weight of every example, [F, m]"
            )
        fold_features = _validate_fold_features(fold_features, shares, dataset, booster, learner)
    parts = _Folds(shares.astype(jnp.result_type(float)), fold_features)
    maker = make_learner if isinstance(make_learner, Partial) else Partial(make_learner)
    part = _Part(booster, dataset, maker, searches, max_rounds)
    if on_step is None:
        return _choose(part, margins, prices, parts, num_at_once=num_at_once)
    check.can_be_watched(on_step, (part, margins, prices, parts), between="paths")
    return _drive(part, margins, prices, parts, on_step)


def _validate_folds(held_out: ArrayLike, dataset: Dataset) -> Array:
    """What folds hold out, [F, m]. Raises ValueError where that is below 0 or more than
    there is.
    """
    held_out = check.numeric(
        "held_out", held_out, shape=("F", dataset.labels.shape[0]), kinds="fiub"
    )
    if held_out.shape[0] < 2:
        raise ValueError(f"held_out has {held_out.shape[0]} folds: expected at least 2")
    is_bad = ~((held_out >= 0) & (held_out <= dataset.weights[None, :])) & dataset.mask[None, :]
    if not isinstance(is_bad, jax.core.Tracer) and bool(jnp.any(is_bad)):
        fold, row = np.argwhere(np.asarray(is_bad))[0]
        weight = float(dataset.weights[row])
        raise ValueError(
            f"held_out[{fold}, {row}] is {held_out[fold, row]}: expected a number from 0 to the"
            f" weight of the example, {weight:g}"
        )
    held_out = jnp.where(dataset.mask[None, :], held_out, 0)
    if not isinstance(held_out, jax.core.Tracer) and not bool(jnp.any(held_out > 0)):
        raise ValueError(
            "held_out holds out nothing in any fold: expected the weights of some examples, for"
            " each fold"
        )
    return held_out


def _validate_fold_features(
    given: ArrayLike, held_out: Array, dataset: Dataset, booster: L0, learner: Any
) -> Array:
    """What folds know the examples by, [F, m, N']. Raises ValueError for what `fit` would refuse in
    rows of which a fold leaves something.
    """
    features = check.numeric("fold_features", given, shape=(*held_out.shape, "N'"), kinds="fiub")
    for fold, (of_fold, share) in enumerate(zip(features, held_out, strict=True)):
        rows = _what_is_left(dataset._replace(features=of_fold), share)
        try:
            boosting.check_arguments(learner, rows, max_rounds=1)
            validate_features(rows.features, rows.mask, booster.config)
            jax.eval_shape(functools.partial(learner.init, None), rows)
        except ValueError as error:
            raise ValueError(f"fold_features[{fold}]: {error}") from error
    return features


def _what_is_left(dataset: Dataset, held_out: Array) -> Dataset:
    """The data set without what is held out [m] of its weights; weights that are not allowed stay,
    and are seen.
    """
    is_left = (held_out == 0) | (held_out < dataset.weights)
    return dataset._replace(weights=dataset.weights - held_out, mask=dataset.mask & is_left)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["booster", "dataset", "make_learner"],
    meta_fields=["searches", "max_rounds"],
)
@dataclasses.dataclass(frozen=True)
class _Part:
    """What all paths share."""

    booster: L0
    dataset: Dataset
    make_learner: Partial
    searches: tuple[VoteConfig, ...]
    max_rounds: int

    def known_to(self, fold: _Folds) -> Dataset:
        """All examples, as a fold knows them."""
        return (
            self.dataset if fold.features is None else self.dataset._replace(features=fold.features)
        )

    def walk(self, kappa: Array, fold: _Folds, margins: Array, *, bounds_integer: bool) -> Fit:
        """Fits with every vote, and axes [L, S], of the weight that a fold leaves."""
        rows = _what_is_left(self.known_to(fold), fold.held_out)
        rounds = self.max_rounds * margins.shape[0]
        learner = self.make_learner(kappa)
        booster = dataclasses.replace(
            self.booster, constant_cost=constant_cost_of(learner), bounds_integer=bounds_integer
        )
        fits = walk_margins(
            booster, learner, rows, None, margins, max_rounds=rounds, finish=self.finish
        )
        return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *fits)

    def finish(self, state: State, rows: Dataset) -> tuple[Fit, ...]:
        """A fit for each kind of vote."""
        return tuple(
            finish(state._replace(booster=dataclasses.replace(state.booster, search=search)), rows)
            for search in self.searches
        )

    def evaluate(self, kappa: Array, fold: _Folds, margins: Array) -> Array:
        """The held-out error of each margin and search, [L, S]."""
        ensembles = self.walk(kappa, fold, margins, bounds_integer=False).ensemble
        dataset = self.known_to(fold)
        return lax.map(
            lambda of_margin: lax.map(
                lambda ensemble: _error(ensemble, dataset, fold.held_out), of_margin
            ),
            ensembles,
        )

    def conclude(self, rates: Array, margins: Array, kappas: Array) -> Choice:
        """The choice that errors [K, F, L, S] lead to."""
        holds_out = ~jnp.isnan(rates)
        num_folds = jnp.sum(holds_out, axis=1)
        errors = jnp.nanmean(rates, axis=1)
        spread = jnp.sqrt(
            jnp.nansum((rates - errors[:, None]) ** 2, axis=1)
            / (num_folds * jnp.maximum(num_folds - 1, 1))
        )
        place = _first_of_least(jnp.where(jnp.isnan(errors), jnp.inf, errors), kappas, margins)
        kappa, margin = kappas[place[0]], margins[place[1]]
        nothing = _Folds(jnp.zeros(self.dataset.labels.shape, rates.dtype), None)
        whole = self.walk(kappa, nothing, margin[None], bounds_integer=self.booster.bounds_integer)
        fit = jax.tree.map(lambda leaf: leaf[0, place[2]], whole)
        status = jnp.where(jnp.any(holds_out), fit.status, int(Status.INVALID_INPUT))
        return Choice(fit, margin, kappa, place, errors, spread, status.astype(jnp.int32))


@functools.partial(jax.jit, static_argnames=("num_at_once",))
def _choose(
    part: _Part, margins: Array, kappas: Array, folds: _Folds, *, num_at_once: int
) -> Choice:
    num_kappas, num_folds = kappas.shape[0], folds.held_out.shape[0]
    pairs = (jnp.repeat(kappas, num_folds), jnp.tile(jnp.arange(num_folds), num_kappas))

    def evaluate(pair: tuple[Array, Array]) -> Array:
        kappa, place = pair
        return part.evaluate(kappa, jax.tree.map(lambda leaf: leaf[place], folds), margins)

    rates = lax.map(evaluate, pairs, batch_size=num_at_once if num_at_once > 1 else None)
    return part.conclude(rates.reshape(num_kappas, num_folds, *rates.shape[1:]), margins, kappas)


def _drive(part: _Part, margins: Array, kappas: Array, folds: _Folds, on_step: OnStep) -> Choice:
    """`_choose`, one compiled path at a time."""
    num_folds = folds.held_out.shape[0]
    num_paths = kappas.shape[0] * num_folds
    rates: list[Array] = []
    for kappa, place in itertools.product(kappas, range(num_folds)):
        rates.append(
            _evaluate(
                part, kappa, jax.tree.map(lambda leaf, place=place: leaf[place], folds), margins
            )
        )
        if not loops.goes_on(on_step, rates[-1], (len(rates), num_paths)):
            break
    num_missing = num_paths - len(rates)
    table = jnp.stack(rates + num_missing * [jnp.full_like(rates[0], jnp.nan)])
    choice = _conclude(
        part, table.reshape(kappas.shape[0], num_folds, *rates[0].shape), margins, kappas
    )
    is_cut_short = (num_missing > 0) & (choice.status != int(Status.INVALID_INPUT))
    return choice._replace(
        status=jnp.where(is_cut_short, int(Status.TIME_LIMIT), choice.status).astype(jnp.int32)
    )


_evaluate, _conclude = jax.jit(_Part.evaluate), jax.jit(_Part.conclude)


def _error(ensemble: boosting.Ensemble, dataset: Dataset, held_out: Array) -> Array:
    """The share of the weight held out that the ensemble gets wrong, [], NaN where there is none; a
    score of 0 predicts -1.
    """
    wrong = jnp.where(predict_scores(ensemble, dataset.features) > 0, 1, -1) != jnp.sign(
        dataset.labels
    )
    whole = jnp.sum(held_out)
    return jnp.where(
        whole > 0,
        jnp.sum(jnp.where(wrong, held_out, 0.0))
        / jnp.maximum(whole, jnp.finfo(held_out.dtype).tiny),
        jnp.nan,
    )


def _first_of_least(errors: Array, kappas: Array, margins: Array) -> Array:
    """The place [3] of the least error [K, L, S]; among equals that of the largest kappa, then of
    the largest margin, then of the first search.
    """
    is_least = (errors <= jnp.min(errors)).reshape(-1)
    places = jnp.stack(
        jnp.meshgrid(*(jnp.arange(size, dtype=jnp.int32) for size in errors.shape), indexing="ij"),
        axis=-1,
    ).reshape(-1, 3)
    order = jnp.lexsort((places[:, 2], -margins[places[:, 1]], -kappas[places[:, 0]], ~is_least))
    return places[order[0]]
