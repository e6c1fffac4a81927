"""Cross-validation of the margin rho, the cost factor kappa of the learner and the method of the
final vote.

All paths are one compiled program, and the fit of all examples is another.

Columns are generated once for each margin, kappa and fold. All methods of the final vote use the
same columns.
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
from jax.tree_util import Partial

from jboost.base import boosting, check, checksums, derivatives, devices, folds, loops, meshes
from jboost.base.boosting import State
from jboost.base.loops import OnStep
from jboost.base.predict import predict_scores
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.l0.booster import L0, VoteConfig
from jboost.l0.driver import begin_fit, constant_cost_of, finish, validate_search
from jboost.l0.path import walk_margins
from jboost.l0.relaxation import validate_features
from jboost.l0.types import L0Fit, RelaxationConfig

MakeLearner = Callable[[Any], Any]


class _PathFolds(NamedTuple):
    """The held-out weights and the features of each fold; of a single fold if without the leading
    axis.
    """

    held_out: Array  # [F, m] the held-out part of each weight
    features: Array | None  # [F, m, N']; None for those of the data set


class Choice(NamedTuple):
    """The choice with the least mean held-out error. Ties are broken by the largest kappa, then by
    the largest margin, then by the first search.
    """

    fit: L0Fit  # of all examples, with the chosen kappa, margin and search
    margin: Array  # [] rho
    kappa: Array  # []
    place: Array  # [3] int32 indices of the chosen kappa, margin and search
    # [K, L, S] mean held-out error of each kappa, margin and search, as a share of the held-out
    # weight; folds that hold out nothing are left out
    errors: Array
    standard_errors: Array  # [K, L, S] of these means, over the same folds
    status: Array  # [] int32, that of `fit`; TIME_LIMIT if `on_step` stopped the paths


class ChoiceState(NamedTuple):
    """The state of `jboost.l0.choose` between two paths, on the host."""

    # [K, F, L, S] held-out error of each kappa, fold, margin and search; NaN where not yet known,
    # and of folds that hold out nothing
    errors: np.ndarray
    num_done: np.ndarray  # [] int32, paths so far, in the order of the first two axes
    checksums: np.ndarray  # [7] uint32, of what `_CHECKED` names


# what the checksums of a state are of
_CHECKED = (*Dataset._fields, "folds", "learner", "margins, kappas or options")


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
    on_round: OnStep | None = None,
    initial: ChoiceState | None = None,
) -> Choice:
    """`fit` with the margin, kappa and search that have the least error in stratified
    cross-validation. Each fold computes its fits for all margins as `path` does.

    Args:
      dataset: of m examples.
      make_learner: a function kappa -> learner; kappa may be traced. Example: `lambda kappa:
        jboost.learners.monomials(1, kappa=kappa)`. Passing the same function again avoids a new
        compilation. Bind numbers that change from call to call with `jax.tree_util.Partial`.
      margins: [L] rho in (0, 1], sorted.
      kappas: [K], not negative.
      key: for the folds.
      num_folds: static, at least 2.
      held_out: [F, m] the part of the weight of every example that each of F folds holds out,
        instead of folds drawn with `key`. It is meant for rows that stand for several examples
        (`jboost.data.merging`), which may belong to several folds.
      fold_features: [F, m, N'] the features of all examples in each fold of `held_out`, instead of
        those of `dataset`: for example bits that were fitted without the held-out examples
        (`jboost.data.binarization`). N' is the largest number of bits of a fold; pad with columns
        of 0 at the end.
      max_rounds: static; the largest number of rounds at each margin.
      tolerance: as for `fit`.
      config: as for `fit`.
      search: static; as for `fit`, or several to choose from, in order of preference:
        `(SearchConfig(), RelaxedConfig())`.
      max_columns: as for `fit`.
      bound_integer: as for `fit`, for the final fit of all examples.
      num_at_once: static; how many paths are computed at the same time. All of them take as long
        as the longest. Use 1 on a CPU.
      on_step: called on the host after each path, with (state, (number of paths so far, number of
        all paths)), a `ChoiceState`. The paths are then computed one by one. False stops them: the
        choice is among the paths so far, and the errors of the others are NaN. The fit of all
        examples follows in any case. A path in progress is not interrupted. Not under jit or vmap.
      on_round: called on the host after each round of the fit of all examples, as `on_step` of
        `fit`. False ends this fit with the status TIME_LIMIT. Not under jit or vmap.
      initial: a state from which to continue, as passed to `on_step` of a choice with the same
        arguments; None for a choice from the beginning. The result is bitwise that of an
        uninterrupted choice with an `on_step` and the same `on_round`. A state of other data,
        folds, learners or options is refused.

    Returns:
      A `Choice`.

    Raises:
      ValueError: as for `fit`, and for empty or invalid `margins`, `kappas`, `search`, `held_out`
        or `fold_features`, if these are concrete.

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
    searches = _validate_searches(search)
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
    parts = _make_folds(
        dataset,
        booster,
        learner,
        key=key,
        num_folds=num_folds,
        held_out=held_out,
        fold_features=fold_features,
    )
    maker = make_learner if isinstance(make_learner, Partial) else Partial(make_learner)
    part = _PathArguments(booster, dataset, maker, searches, max_rounds)
    if on_step is None and on_round is None and initial is None:
        return _choose(part, margins, prices, parts, num_at_once=num_at_once)
    check.can_be_watched(on_step, (part, margins, prices, parts), between="paths")
    check.watcher("on_round", on_round)
    return _drive(part, margins, prices, parts, on_step, on_round, initial)


def _validate_searches(
    search: VoteConfig | Sequence[VoteConfig] | None,
) -> tuple[VoteConfig, ...]:
    """The configs of the final vote to choose from. Raises ValueError if there is none."""
    searches = tuple(
        validate_search(one) for one in (search if isinstance(search, Sequence) else [search])
    )
    if not searches:
        raise ValueError(
            "search is empty: pass at least one config of the final vote, such as"
            " jboost.l0.SearchConfig()"
        )
    return searches


def _make_folds(
    dataset: Dataset,
    booster: L0,
    learner: Any,
    *,
    key: Array,
    num_folds: int,
    held_out: ArrayLike | None,
    fold_features: ArrayLike | None,
) -> _PathFolds:
    """The folds of the caller, or stratified ones. Raises ValueError for folds that do not fit the
    data set.
    """
    shares = (
        _draw_folds(key, dataset, num_folds)
        if held_out is None
        else _validate_folds(held_out, dataset)
    )
    if fold_features is not None:
        if held_out is None:
            raise ValueError(
                "fold_features is given but held_out is None: pass the held-out part of the weight"
                " of every example in each fold, [F, m]"
            )
        fold_features = _validate_fold_features(fold_features, shares, dataset, booster, learner)
    return _PathFolds(shares.astype(jnp.result_type(float)), fold_features)


def _draw_folds(key: Array, dataset: Dataset, num_folds: int) -> Array:
    """The weights [F, m] that stratified folds hold out, each example in one of them."""
    is_held_out = folds.stratified_folds(
        key, dataset.labels, num_folds=num_folds, mask=dataset.mask
    )
    return jnp.where(is_held_out, dataset.weights[None, :], 0)


def _validate_folds(held_out: ArrayLike, dataset: Dataset) -> Array:
    """The held-out weights as an array [F, m]. Raises ValueError for entries below 0 or above the
    weight of the example.
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
            "held_out is 0 for all examples in all folds: expected the weights of some examples in"
            " each fold"
        )
    return held_out


def _validate_fold_features(
    given: ArrayLike, held_out: Array, dataset: Dataset, booster: L0, learner: Any
) -> Array:
    """The features of the folds as an array [F, m, N']. Raises ValueError for features that `fit`
    would reject, in rows that are not entirely held out.
    """
    features = check.numeric("fold_features", given, shape=(*held_out.shape, "N'"), kinds="fiub")
    for fold, (of_fold, share) in enumerate(zip(features, held_out, strict=True)):
        rows = _without_held_out(dataset._replace(features=of_fold), share)
        try:
            boosting.check_arguments(learner, rows, max_rounds=1)
            validate_features(rows.features, rows.mask, booster.config)
            jax.eval_shape(functools.partial(learner.init, None), rows)
        except ValueError as error:
            raise ValueError(f"fold_features[{fold}]: {error}") from error
    return features


def _without_held_out(dataset: Dataset, held_out: Array) -> Dataset:
    """The data set with weights reduced by the held-out parts [m]. Invalid weights stay invalid, so
    that the fit detects them.
    """
    is_left = (held_out == 0) | (held_out < dataset.weights)
    return dataset._replace(weights=dataset.weights - held_out, mask=dataset.mask & is_left)


class _Settled(NamedTuple):
    """The chosen values, before the fit of all examples."""

    place: Array  # [3] int32
    errors: Array  # [K, L, S]
    standard_errors: Array  # [K, L, S]
    is_known: Array  # [] bool, whether there is an error of any candidate

    def choice(self, fit: L0Fit, margin: Array, kappa: Array) -> Choice:
        status = jnp.where(self.is_known, fit.status, int(Status.INVALID_INPUT))
        return Choice(
            fit,
            margin,
            kappa,
            self.place,
            self.errors,
            self.standard_errors,
            status.astype(jnp.int32),
        )


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["booster", "dataset", "make_learner"],
    meta_fields=["searches", "max_rounds"],
)
@dataclasses.dataclass(frozen=True)
class _PathArguments:
    """The arguments that all paths share."""

    booster: L0
    dataset: Dataset
    make_learner: Partial
    searches: tuple[VoteConfig, ...]
    max_rounds: int

    def with_features_of(self, fold: _PathFolds) -> Dataset:
        """All examples with the features of a fold."""
        return (
            self.dataset if fold.features is None else self.dataset._replace(features=fold.features)
        )

    def walk(
        self, kappa: Array, fold: _PathFolds, margins: Array, *, bounds_integer: bool
    ) -> L0Fit:
        """The fits of one fold for all margins and searches, with axes [L, S]."""
        rows = _without_held_out(self.with_features_of(fold), fold.held_out)
        rounds = self.max_rounds * margins.shape[0]
        learner = self.make_learner(kappa)
        booster = dataclasses.replace(
            self.booster, constant_cost=constant_cost_of(learner), bounds_integer=bounds_integer
        )
        fits = walk_margins(
            booster, learner, rows, None, margins, max_rounds=rounds, finish=self.finish
        )
        return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *fits)

    def finish(self, state: State, rows: Dataset) -> tuple[L0Fit, ...]:
        """The fits of a state with each of the searches."""
        return tuple(finish(state, rows, search=search) for search in self.searches)

    def evaluate(self, kappa: Array, fold: _PathFolds, margins: Array) -> Array:
        """The held-out error of each margin and search, [L, S]."""
        ensembles = self.walk(kappa, fold, margins, bounds_integer=False).ensemble
        dataset = self.with_features_of(fold)
        return lax.map(
            lambda of_margin: lax.map(
                lambda ensemble: _error(ensemble, dataset, fold.held_out), of_margin
            ),
            ensembles,
        )

    def settle(self, rates: Array, margins: Array, kappas: Array) -> _Settled:
        """The choice of least mean of the errors [K, F, L, S]."""
        holds_out = ~jnp.isnan(rates)
        num_folds = jnp.sum(holds_out, axis=1)
        errors = jnp.nanmean(rates, axis=1)
        spread = jnp.sqrt(
            jnp.nansum((rates - errors[:, None]) ** 2, axis=1)
            / (num_folds * jnp.maximum(num_folds - 1, 1))
        )
        index = _first_of_least(jnp.where(jnp.isnan(errors), jnp.inf, errors), kappas, margins)
        return _Settled(index, errors, spread, jnp.any(holds_out))

    def conclude(self, rates: Array, margins: Array, kappas: Array) -> Choice:
        """The choice of least mean of the errors [K, F, L, S], and its fit of all examples."""
        settled = self.settle(rates, margins, kappas)
        kappa, margin = kappas[settled.place[0]], margins[settled.place[1]]
        nothing = _PathFolds(jnp.zeros(self.dataset.labels.shape, rates.dtype), None)
        whole = self.walk(kappa, nothing, margin[None], bounds_integer=self.booster.bounds_integer)
        fit = jax.tree.map(lambda leaf: leaf[0, settled.place[2]], whole)
        return settled.choice(fit, margin, kappa)

    def drive(self, rates: Array, margins: Array, kappas: Array, on_round: OnStep) -> Choice:
        """`conclude` with one call of a compiled program for each round of the fit."""
        settled = _settle(self, rates, margins, kappas)
        row, column, search = (int(index) for index in settled.place)
        learner = self.make_learner(kappas[row])
        booster = dataclasses.replace(
            self.booster,
            margin=margins[column].astype(jnp.result_type(float)),
            constant_cost=constant_cost_of(learner),
            search=self.searches[search],
        )
        fit = boosting.fit(
            booster,
            learner,
            self.dataset,
            key=None,
            max_rounds=self.max_rounds,
            finish=finish,
            on_step=on_round,
        )
        return settled.choice(fit, margins[column], kappas[row])


def _choose(
    part: _PathArguments, margins: Array, kappas: Array, folds: _PathFolds, *, num_at_once: int
) -> Choice:
    """The choice by two programs, which are compiled side by side."""
    arguments = (part, margins, kappas, folds)
    if not check.are_traced(arguments):
        unknown = devices.from_host(np.full(_errors_shape(*arguments), np.nan))
        devices.compile_side_by_side(
            _rates.lower(*arguments, num_at_once=num_at_once),
            _conclude.lower(part, unknown, margins, kappas),
        )
    return _conclude(part, _rates(*arguments, num_at_once=num_at_once), margins, kappas)


@devices.public_jit(static_argnames=("num_at_once",))
def _rates(
    part: _PathArguments, margins: Array, kappas: Array, folds: _PathFolds, *, num_at_once: int
) -> Array:
    """The held-out errors [K, F, L, S]."""
    num_kappas, num_folds = kappas.shape[0], folds.held_out.shape[0]
    pairs = (jnp.repeat(kappas, num_folds), jnp.tile(jnp.arange(num_folds), num_kappas))

    def evaluate(pair: tuple[Array, Array]) -> Array:
        kappa, index = pair
        return part.evaluate(kappa, jax.tree.map(lambda leaf: leaf[index], folds), margins)

    rates = lax.map(evaluate, pairs, batch_size=num_at_once if num_at_once > 1 else None)
    return rates.reshape(_errors_shape(part, margins, kappas, folds))


def _errors_shape(
    part: _PathArguments, margins: Array, kappas: Array, folds: _PathFolds
) -> tuple[int, int, int, int]:
    return kappas.shape[0], folds.held_out.shape[0], margins.shape[0], len(part.searches)


def _drive(
    part: _PathArguments,
    margins: Array,
    kappas: Array,
    folds: _PathFolds,
    on_step: OnStep | None,
    on_round: OnStep | None,
    initial: ChoiceState | None,
) -> Choice:
    """`_choose` with one call of a compiled program for each path, and `on_step` between them."""
    state = _first_state(part, margins, kappas, folds)
    if initial is not None:
        kind = "jboost.l0.ChoiceState"
        state = checksums.validate_state(initial, state, parts=_CHECKED, what="choice", kind=kind)
    paths = list(np.ndindex(state.errors.shape[:2]))
    for number, (row, fold) in enumerate(paths[int(state.num_done) :], start=int(state.num_done)):
        errors = state.errors.copy()
        errors[row, fold] = _evaluate(
            part, kappas[row], jax.tree.map(lambda leaf, fold=fold: leaf[fold], folds), margins
        )
        state = state._replace(errors=errors, num_done=np.asarray(number + 1, np.int32))
        if not loops.goes_on(on_step, state, (number + 1, len(paths))):
            break
    rates = devices.from_host(state.errors)
    choice = (
        _conclude(part, rates, margins, kappas)
        if on_round is None
        else part.drive(rates, margins, kappas, on_round)
    )
    is_cut_short = (int(state.num_done) < len(paths)) & (choice.status != int(Status.INVALID_INPUT))
    return choice._replace(
        status=jnp.where(is_cut_short, int(Status.TIME_LIMIT), choice.status).astype(jnp.int32)
    )


def _first_state(
    part: _PathArguments, margins: Array, kappas: Array, folds: _PathFolds
) -> ChoiceState:
    """The state before the first path."""
    counts = _errors_shape(part, margins, kappas, folds)
    learners = [part.make_learner(kappa) for kappa in kappas]
    nothing: dict[str, Any] = {"dataset": None, "make_learner": None}
    options = (dataclasses.replace(part, **nothing), margins, kappas)
    return ChoiceState(
        np.full(counts, np.nan, folds.held_out.dtype),
        np.asarray(0, np.int32),
        np.append(
            checksums.of_dataset(part.dataset),
            np.array([checksums.of_tree(one) for one in (folds, learners, options)], np.uint32),
        ),
    )


_evaluate, _settle, _conclude = (
    devices.public_jit(compute)
    for compute in (_PathArguments.evaluate, _PathArguments.settle, _PathArguments.conclude)
)


def _error(ensemble: boosting.Ensemble, dataset: Dataset, held_out: Array) -> Array:
    """The misclassified share of the held-out weight, []; NaN if no weight is held out. A score of
    0 predicts -1.
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
    """The index [3] of the least error [K, L, S]. Ties are broken by the largest kappa, then by
    the largest margin, then by the first search.
    """
    is_least = (errors <= jnp.min(errors)).reshape(-1)
    indices = jnp.stack(
        jnp.meshgrid(*(jnp.arange(size, dtype=jnp.int32) for size in errors.shape), indexing="ij"),
        axis=-1,
    ).reshape(-1, 3)
    order = jnp.lexsort((indices[:, 2], -margins[indices[:, 1]], -kappas[indices[:, 0]], ~is_least))
    return indices[order[0]]
