"""L0-RBoost for many margins: a path of fits, and the search for the best margin.

The best margin solves problem (25) of Goldberg and Eckstein (2009): maximise rho - beta z(rho),
where z(rho) is the optimum of the relaxation (18). Their Lemma 5.2 states that z is convex. This is
false, so their bisection proves no bound. However, z is nondecreasing in rho. On an interval [a, b]
the objective is therefore at most b - beta z(a). `search_margin` is a branch and bound on intervals
with these upper bounds.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import (
    batching,
    boosting,
    check,
    checksums,
    derivatives,
    devices,
    loops,
    meshes,
    paths,
)
from jboost.base.boosting import Fit, State
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset, PyTree
from jboost.l0.booster import L0, VoteConfig
from jboost.l0.driver import begin_fit, finish, reopen
from jboost.l0.types import RelaxationConfig


@meshes.takes_gathered
@derivatives.without("jboost.l0.path")
def path(
    dataset: Dataset,
    learner: Any,
    margins: ArrayLike,
    *,
    key: Array | None = None,
    max_rounds: int = 200,
    tolerance: ArrayLike = 1e-3,
    config: RelaxationConfig | None = None,
    search: VoteConfig | None = None,
    max_columns: int = 256,
    bound_integer: bool = True,
) -> Fit:
    """`fit` for a sequence of margins, in one compiled program. Each margin starts from the
    columns, cuts and duals of the one before, and has bounds of its own. The optima do not decrease
    with the margin, so that a lower bound holds for all greater margins too.

    Args:
      dataset: of m examples.
      learner: with costs, as for `fit`.
      margins: [L] rho in (0, 1], sorted.
      key: for learners that draw random numbers.
      max_rounds: static; the largest number of rounds over the whole path. If they are used up, the
        remaining margins have the status ROUND_LIMIT.
      tolerance: as for `fit`.
      config: as for `fit`.
      search: as for `fit`.
      max_columns: as for `fit`.
      bound_integer: as for `fit`.

    Returns:
      A `Fit` with a leading axis [L] on every array; `num_rounds` and `trace` count the rounds of
      each margin alone.

    Raises:
      ValueError: as for `fit`, and if `margins` are empty or outside (0, 1].

    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 3, [1, 1, -1, -1] * 3)
    >>> fits = jboost.l0.path(
    ...     dataset, jboost.learners.monomials(1, kappa=0.1), [0.1, 0.2], max_rounds=20
    ... )
    >>> (
    ...     fits.status.tolist(),
    ...     bool((fits.certificate.lower_bound <= fits.certificate.upper_bound).all()),
    ... )
    ([0, 0], True)
    """
    margins = check.numbers("margins", margins, low=0, high=1, open_low=True)
    booster, dataset = begin_fit(
        dataset,
        learner,
        max_rounds=max_rounds,
        margin=1.0,
        tolerance=tolerance,
        config=config,
        search=search,
        max_columns=max_columns,
        bound_integer=bound_integer,
    )
    return _path(booster, learner, dataset, key, margins, max_rounds=max_rounds)


@devices.public_jit(static_argnames=("max_rounds",))
def _path(
    booster: L0,
    learner: Any,
    dataset: Dataset,
    key: Array | None,
    margins: Array,
    *,
    max_rounds: int,
) -> Fit:
    walk = functools.partial(walk_margins, max_rounds=max_rounds)
    fits: Fit = batching.in_chunks(walk, at_once=1)(booster, learner, dataset, key, margins)
    return fits


def walk_margins(
    booster: L0,
    learner: Any,
    dataset: Dataset,
    key: Array | None,
    margins: Array,
    *,
    max_rounds: int,
    finish: Callable[[State, Dataset], PyTree] = finish,
) -> Any:
    """The results of `finish` for the states at the margins [L]; fits by default."""
    first = boosting.begin(booster, learner, dataset, key=key, max_rounds=max_rounds)
    return paths.walk(
        first, margins, lambda state, margin: reopen(state, margin, dataset), dataset, finish=finish
    )


class MarginSearch(NamedTuple):
    """The best margin, with lower_bound <= optimum of (25) <= upper_bound, over all hypotheses,
    where z is the relaxation with the cuts of `config`.
    """

    fit: Any  # the `Fit` at the best margin
    margin: Array  # [] rho
    lower_bound: Array  # [] rho - beta z, attained at `margin` by the upper bound on z
    upper_bound: Array  # [] proven from z at the margins tried, as z is nondecreasing
    # [max_margins] in the order in which they were tried, `least_margin` first; +inf where empty
    margins: Array
    relaxation_lower_bounds: Array  # [max_margins] on z at each margin; 0 where empty
    relaxation_upper_bounds: Array  # [max_margins] on z at each margin; +inf where empty
    num_margins: Array  # [] int32
    status: Array  # [] int32: OPTIMAL, ITERATION_LIMIT, INVALID_INPUT, TIME_LIMIT


class MarginSearchState(NamedTuple):
    """The state of `jboost.l0.search_margin` between two margins."""

    # of `jboost.l0.fit`, at the last margin tried; its booster keeps the first margin
    rounds: State
    best: State  # at the best margin, with the same booster
    search: MarginSearch  # without the fit, which is None
    # [8] uint32, on the host, of what `_CHECKED` names, in a state that `on_step` receives
    checksums: Any = None


# what the checksums of a state are of
_CHECKED = (*Dataset._fields, "learner", "penalty", "least_margin or options", "key")


@meshes.takes_gathered
@derivatives.without("jboost.l0.search_margin")
def search_margin(
    dataset: Dataset,
    learner: Any,
    *,
    penalty: ArrayLike,
    margin_tolerance: ArrayLike = 0.01,
    least_margin: ArrayLike = 1e-3,
    max_margins: int = 32,
    key: Array | None = None,
    max_rounds: int = 100,
    tolerance: ArrayLike = 1e-3,
    config: RelaxationConfig | None = None,
    search: VoteConfig | None = None,
    max_columns: int = 256,
    on_step: OnStep | None = None,
    initial: MarginSearchState | None = None,
) -> MarginSearch:
    """Finds the margin rho between `least_margin` and 1 with the greatest rho - penalty z(rho),
    (25) of Goldberg and Eckstein (2009), by branch and bound on intervals of rho.

    The interval with the greatest upper bound is halved, until no upper bound exceeds the best
    value found by more than `margin_tolerance`. Each margin starts from the columns, cuts and duals
    of the one before.

    Args:
      dataset: of m examples.
      learner: with costs, as for `fit`.
      penalty: [] beta of (25), positive; its D is part of the costs of the learner.
      margin_tolerance: [] the gap between the bounds on (25) at which to stop. It cannot be reached
        below penalty times the gap that `tolerance` leaves in z.
      least_margin: [] in (0, 1], the first margin tried. The bounds do not cover smaller margins.
      max_margins: static; the largest number of margins to try.
      key: for learners that draw random numbers.
      max_rounds: static; the largest number of rounds at each margin.
      tolerance: as for `fit`.
      config: as for `fit`.
      search: as for `fit`.
      max_columns: as for `fit`.
      on_step: called on the host after each margin with (state, the search so far without its fit),
        a `MarginSearchState`, and between the rounds of a margin with (None, the same). False ends
        the search; a margin whose rounds it ended counts, with the bounds so far. Not under jit or
        vmap.
      initial: a state from which to continue, as passed to `on_step` of a search with the same
        arguments, of which `margin_tolerance` may differ; None for a search from the beginning. The
        result is bitwise that of an uninterrupted search with an `on_step`. To read a state from
        disk, pass `like=jboost.l0.MarginSearchState(first, first, None)`, with `first` that
        `jboost.l0.init` makes of the arguments that it takes.

    Returns:
      A `MarginSearch`. Its status is ITERATION_LIMIT if `max_margins` or `max_rounds` was reached
      first, and TIME_LIMIT if `on_step` ended the search; the bounds hold in any case.

    Raises:
      ValueError: as for `fit`, and if `penalty` is not positive.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 3, [1, 1, -1, -1] * 3)
    >>> found = jboost.l0.search_margin(
    ...     dataset, jboost.learners.monomials(1, kappa=0.1), penalty=0.05, max_rounds=20
    ... )
    >>> bool(found.lower_bound <= found.upper_bound), 0 < float(found.margin) <= 1
    (True, True)
    """
    penalty = check.number(
        "penalty", penalty, low=0, high=float(jnp.finfo(jnp.result_type(float)).max), open_low=True
    ).astype(float)
    margin_tolerance = check.number(
        "margin_tolerance", margin_tolerance, low=0, open_low=True
    ).astype(float)
    least_margin = check.number("least_margin", least_margin, low=0, high=1, open_low=True).astype(
        float
    )
    check.count("max_margins", max_margins, low=1)
    booster, dataset = begin_fit(
        dataset,
        learner,
        max_rounds=max_rounds,
        margin=least_margin,
        tolerance=tolerance,
        config=config,
        search=search,
        max_columns=max_columns,
        bound_integer=False,
    )
    arguments = (booster, learner, dataset, key, penalty, margin_tolerance)
    if on_step is None and initial is None:
        return _search_margin(*arguments, max_margins=max_margins, max_rounds=max_rounds)
    check.can_be_watched(on_step, arguments, between="rounds")
    return _drive(
        *arguments,
        on_step=on_step,
        initial=initial,
        max_margins=max_margins,
        max_rounds=max_rounds,
    )


@devices.public_jit(static_argnames=("max_margins", "max_rounds"))
def _search_margin(*arguments: Any, max_margins: int, max_rounds: int) -> MarginSearch:
    """`_search_one`, of a batch one data set after the other."""
    run = functools.partial(_search_one, max_margins=max_margins, max_rounds=max_rounds)
    found: MarginSearch = batching.in_chunks(run, at_once=1)(*arguments)
    return found


def _search_one(
    booster: L0,
    learner: Any,
    dataset: Dataset,
    key: Array | None,
    penalty: Array,
    tolerance: Array,
    *,
    max_margins: int,
    max_rounds: int,
) -> MarginSearch:
    first = _begin(
        booster, learner, dataset, key, penalty, max_margins=max_margins, max_rounds=max_rounds
    )
    last, _ = loops.bounded_loop(
        lambda state: _advance(state, dataset, penalty),
        lambda state: _is_unfinished(state, tolerance),
        first,
        max_checks=max_margins,
    )
    return _conclude(last, dataset, tolerance)


def _drive(
    booster: L0,
    learner: Any,
    dataset: Dataset,
    key: Array | None,
    penalty: Array,
    tolerance: Array,
    *,
    on_step: OnStep | None,
    initial: MarginSearchState | None,
    max_margins: int,
    max_rounds: int,
) -> MarginSearch:
    """`_search_margin` with one call of a compiled program for each round, and `on_step` between
    them.
    """
    arguments = (booster, learner, dataset, key, penalty)
    begin = functools.partial(_begin, max_margins=max_margins, max_rounds=max_rounds)
    found = np.append(
        checksums.of_dataset(dataset),
        np.array([checksums.of_tree(one) for one in (learner, penalty, booster, key)], np.uint32),
    )
    if initial is None:
        state = _begin_on_host(*arguments, max_margins=max_margins, max_rounds=max_rounds)
    else:
        state = checksums.without_checksums(
            initial,
            jax.eval_shape(begin, *arguments),
            found,
            parts=_CHECKED,
            what="search",
            kind="jboost.l0.MarginSearchState",
        )
    is_stopped = False
    while not is_stopped and bool(_is_unfinished(state, tolerance)):
        rounds, is_stopped = _advance_on_host(state, dataset, penalty, on_step)
        state = _record_on_host(state, rounds, penalty)
        if not is_stopped:
            is_stopped = not loops.goes_on(on_step, state._replace(checksums=found), state.search)
    is_cut_short = is_stopped and bool(_is_unfinished(state, tolerance))
    result = _conclude_on_host(state, dataset, tolerance)
    short = jnp.full((), int(Status.TIME_LIMIT), jnp.int32)
    return result._replace(status=short) if is_cut_short else result


def _advance_on_host(
    state: MarginSearchState, dataset: Dataset, penalty: Array, on_step: OnStep | None
) -> tuple[State, bool]:
    """The state after the rounds at the margin of greatest promise, and whether `on_step` ended
    them.
    """
    rounds, is_stopped = _open_on_host(state, dataset, penalty), False
    while not is_stopped and bool(boosting.unfinished(rounds)):
        rounds = _advance_round_on_host(rounds, dataset)
        is_ended = not bool(boosting.unfinished(rounds))
        is_stopped = not (is_ended or loops.goes_on(on_step, None, state.search))
    if is_stopped:
        rounds = rounds._replace(status=jnp.full_like(rounds.status, int(Status.TIME_LIMIT)))
    return rounds, is_stopped


def _begin(
    booster: L0,
    learner: Any,
    dataset: Dataset,
    key: Array | None,
    penalty: Array,
    *,
    max_margins: int,
    max_rounds: int,
) -> MarginSearchState:
    """The state before the first margin."""
    start = boosting.begin(booster, learner, dataset, key=key, max_rounds=max_rounds)
    zero = jnp.zeros((), penalty.dtype)
    untried = jnp.full((max_margins,), jnp.inf, penalty.dtype)
    nothing = MarginSearch(
        None,
        zero + 1,
        zero - jnp.inf,
        zero + jnp.inf,
        untried,
        jnp.zeros_like(untried),
        untried,
        jnp.zeros((), jnp.int32),
        start.status,
    )
    return MarginSearchState(start, start, nothing)


def _is_unfinished(state: MarginSearchState, tolerance: Array) -> Array:
    """Whether another margin follows, [] bool."""
    search = state.search
    return (
        (state.rounds.status != int(Status.INVALID_INPUT))
        & (search.upper_bound - search.lower_bound > tolerance)
        & (search.num_margins < search.margins.shape[0])
    )


def _advance(state: MarginSearchState, dataset: Dataset, penalty: Array) -> MarginSearchState:
    """The state after the margin of greatest promise."""
    return _record(state, paths.advance_to_end(_open(state, dataset, penalty), dataset), penalty)


def _open(state: MarginSearchState, dataset: Dataset, penalty: Array) -> State:
    """The state before the first round at the margin of greatest promise."""
    search, rounds = state.search, state.rounds
    ends, upper_bounds = _intervals(search, penalty)
    best = jnp.argmax(upper_bounds)
    margin = jnp.where(
        search.num_margins == 0, rounds.booster.margin, (search.margins[best] + ends[best]) / 2
    )
    opened = paths.open_again(rounds, margin, lambda old, margin: reopen(old, margin, dataset))
    return opened._replace(num_rounds=jnp.zeros_like(opened.num_rounds))


def _conclude(state: MarginSearchState, dataset: Dataset, tolerance: Array) -> MarginSearch:
    """The result, with the fit at the best margin."""
    search = state.search
    is_close = search.upper_bound - search.lower_bound <= tolerance
    status = jnp.where(is_close, int(Status.OPTIMAL), int(Status.ITERATION_LIMIT))
    is_bad = state.rounds.status == int(Status.INVALID_INPUT)
    status = jnp.where(is_bad, int(Status.INVALID_INPUT), status).astype(jnp.int32)
    booster = state.best.booster
    margin = jnp.where(search.lower_bound > -jnp.inf, search.margin, booster.margin)
    best = state.best._replace(booster=dataclasses.replace(booster, margin=margin))
    return search._replace(fit=finish(best, dataset), status=status)


@devices.host_jit(static_argnames=("max_margins", "max_rounds"))
def _begin_on_host(*arguments: Any, max_margins: int, max_rounds: int) -> MarginSearchState:
    first = _begin(*arguments, max_margins=max_margins, max_rounds=max_rounds)
    # Weak types would only last until the first margin, and the second would be compiled again.
    return jax.tree.map(lambda leaf: leaf.astype(leaf.dtype), first)


_open_on_host, _conclude_on_host = devices.host_jit(_open), devices.host_jit(_conclude)
_advance_round_on_host = devices.host_jit(boosting.advance)


@devices.host_jit
def _record_on_host(state: MarginSearchState, last: State, penalty: Array) -> MarginSearchState:
    return _record(state, last, penalty)


def _intervals(search: MarginSearch, penalty: Array) -> tuple[Array, Array]:
    """The end of the interval that begins at each margin tried, and an upper bound on (25) in it,
    [max_margins] each.
    """
    begins, lower_bounds = search.margins, search.relaxation_lower_bounds
    ends = jnp.min(
        jnp.where(begins[None, :] > begins[:, None], begins[None, :], 1.0), axis=1, initial=1.0
    )
    least = jnp.max(
        jnp.where(begins[None, :] <= begins[:, None], lower_bounds[None, :], 0.0), axis=1
    )
    eps = 4 * jnp.finfo(ends.dtype).eps
    upper_bounds = jnp.maximum(ends + eps - penalty * least * (1 - eps), -jnp.finfo(ends.dtype).max)
    return ends, jnp.where(begins < jnp.inf, upper_bounds, -jnp.inf)


def _record(state: MarginSearchState, last: State, penalty: Array) -> MarginSearchState:
    """The state with the bounds at one more margin, that of the rounds `last`."""
    search, margin, certificate = state.search, last.booster.margin, last.certificate
    index = search.num_margins
    recorded = search._replace(
        margins=search.margins.at[index].set(margin),
        relaxation_lower_bounds=search.relaxation_lower_bounds.at[index].set(
            jnp.maximum(certificate.lower_bound, 0.0)
        ),
        relaxation_upper_bounds=search.relaxation_upper_bounds.at[index].set(
            certificate.upper_bound
        ),
        num_margins=index + 1,
    )
    eps = 4 * jnp.finfo(margin.dtype).eps
    attained = margin - eps - penalty * certificate.upper_bound * (1 + eps)
    is_better = attained > search.lower_bound
    rounds = last._replace(booster=state.rounds.booster)
    best = jax.tree.map(lambda new, old: jnp.where(is_better, new, old), rounds, state.best)
    recorded = recorded._replace(
        margin=jnp.where(is_better, margin, search.margin),
        lower_bound=jnp.maximum(attained, search.lower_bound),
        upper_bound=jnp.max(_intervals(recorded, penalty)[1]),
    )
    return MarginSearchState(rounds, best, recorded)
