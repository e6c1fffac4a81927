"""The sparse minimum disagreement problem (15) of Goldberg and Eckstein (2009) over a pool: its
feasible points, and a local search.

    minimise sum_i weight_i I(y_i H_i lambda < rho) + sum_u c_u I(lambda_u > 0)
    s.t.  lambda >= 0, sum lambda = 1.

Coefficients are multiples of a power of two and sum to one exactly. So for outputs -1, 0, +1 every
margin is exact in the float type, and `loss` is the objective of these very coefficients, rounded
up. The local search moves lambda towards or away from one hypothesis at a time, (1 - t) lambda +
t e_u, with an exact line search. Margins are linear in t, so the objective is constant between
sorted break points; the search takes the middle of the widest of the best intervals. Where no such
move reduces the objective, a transfer moves one whole coefficient to another hypothesis.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import brackets, check, loops, numerics
from jboost.base.types import Array
from jboost.l0.votes import grids

_NARROW = 1e-5  # narrower intervals of t are ignored, as they may be rounding errors
_DUST = 1e-6  # a coefficient below this after a move away from it is a rounding error
# Units of coarse grids: votes on them can meet a margin with equality.
_COARSE = tuple(2.0**-digits for digits in range(9))
# Break points per iteration of the loop: the overhead of an iteration equals the work for a few.
_AT_ONCE = 4
_MOST_GIVERS = 32  # transfers are tried for this many of the largest coefficients
# The numbers of largest coefficients of sparse starting points: with their values, and with equal
# values.
_STARTED, _STARTED_EQUAL = (2, 4, 8, 16), (3, 6, 12)
_MOST_PRICED = 1024  # the values of (15) are enumerated for up to this many hypotheses
# Relative tolerance: a bound rules out a value of the objective only if it exceeds it by this.
_SLACK = 1e-5
# After a transfer an example counts as right only if it exceeds the margin by this much, so that
# rounding to the grid does not make it wrong.
_CAUTION = 1e-6


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Static options of the local search."""

    max_moves: int = 200
    """The largest number of moves from one starting point."""
    max_hypotheses: int | None = None
    """The largest number of hypotheses that vote, without the constants. None for no limit besides
    their costs.
    """

    def __post_init__(self) -> None:
        check.count("config.max_moves", self.max_moves, low=0)
        if self.max_hypotheses is not None:
            check.count("config.max_hypotheses", self.max_hypotheses, low=1)


class VoteInstance(NamedTuple):
    """An instance of (15) with n columns."""

    margins: Array  # [n, m] y_i H_iu, 0 for padding
    weights: Array  # [m] 0 for padding
    costs: Array  # [n]
    is_column: Array  # [n] bool
    margin: Array  # [] rho


class FeasibleVote(NamedTuple):
    """A feasible point of (15)."""

    coefficients: Array  # [n] lambda
    loss: Array  # [] objective of (15)


def evaluate(instance: VoteInstance, coefficients: Array) -> FeasibleVote:
    """Rounds coefficients [n], which are nearly on the simplex, to the nearest point of (15), and
    computes its loss.
    """
    unit = jnp.asarray(jnp.finfo(coefficients.dtype).eps, coefficients.dtype)
    return _valued(
        instance, grids.nearest(_usable(instance, coefficients), instance.is_column, unit)
    )


def evaluate_near(instance: VoteInstance, coefficients: Array) -> FeasibleVote:
    """The best of several roundings of coefficients [n] to points of (15), also to coarse grids:
    rounding errors may have moved them away from halves, quarters and so on.
    """
    usable = _usable(instance, coefficients)
    votes = jax.vmap(
        lambda unit: _valued(instance, grids.coarse(usable, instance.is_column, unit))
    )(jnp.asarray(_COARSE, usable.dtype))
    return better(
        evaluate(instance, coefficients),
        jax.tree.map(lambda leaf: leaf[jnp.argmin(votes.loss)], votes),
    )


def _usable(instance: VoteInstance, coefficients: Array) -> Array:
    return jnp.where(
        instance.is_column & (coefficients > 0) & (coefficients < jnp.inf), coefficients, 0.0
    )


def best_alone(instance: VoteInstance) -> FeasibleVote:
    """The best point of (15) with one hypothesis; without columns the loss is infinite."""
    missed = jnp.matmul(
        (instance.margins < instance.margin).astype(instance.weights.dtype),
        instance.weights,
        precision=lax.Precision.HIGHEST,
    )
    losses = jnp.where(instance.is_column, missed + instance.costs, jnp.inf)
    vote = _valued(
        instance, (jnp.arange(losses.shape[0]) == jnp.argmin(losses)).astype(losses.dtype)
    )
    return vote._replace(loss=jnp.where(jnp.any(instance.is_column), vote.loss, jnp.inf))


def best_pair(instance: VoteInstance) -> FeasibleVote:
    """The best point of (15) with two hypotheses of coefficient 1/2 each, which a search may miss
    as it moves one hypothesis at a time. The loss is infinite without two columns.
    """
    is_right, is_quiet = (
        (instance.margins == value).astype(instance.weights.dtype) for value in (1, 0)
    )
    weighed = is_right * instance.weights[None, :]
    both, either = (
        jnp.matmul(weighed, others.T, precision=lax.Precision.HIGHEST)
        for others in (is_right, is_quiet)
    )
    kept = both + jnp.where(instance.margin <= 0.5, either + either.T, 0.0)
    prices = jnp.where(instance.is_column, instance.costs, jnp.inf)
    losses = (
        prices[:, None]
        + prices[None, :]
        - kept
        + jnp.where(jnp.eye(len(prices), dtype=bool), jnp.inf, 0.0)
    )
    best = jnp.argmin(losses)
    indices = jnp.arange(len(prices))
    chosen = (indices == best // len(prices)) | (indices == best % len(prices))
    vote = _valued(instance, jnp.where(chosen, 0.5, 0.0).astype(losses.dtype))
    return vote._replace(loss=jnp.where(jnp.isfinite(jnp.min(losses)), vote.loss, jnp.inf))


def _valued(instance: VoteInstance, coefficients: Array) -> FeasibleVote:
    reached = jnp.matmul(coefficients, instance.margins, precision=lax.Precision.HIGHEST)
    paid = jnp.concatenate([reached < instance.margin, coefficients > 0])
    return FeasibleVote(
        coefficients,
        brackets.bracket_dot(
            paid.astype(reached.dtype), jnp.concatenate([instance.weights, instance.costs])
        )[1],
    )


def have_met(lower: Array, upper: Array, tolerance: Array) -> Array:
    """Whether the gap between bounds [] is within the tolerance, relative to the upper one where
    that is above 1. False for an infinite upper bound.
    """
    return (upper < jnp.inf) & (upper - lower <= tolerance * jnp.maximum(upper, 1.0))


def round_up(bound: Array, weights: Array, prices: Array) -> Array:
    """The least possible objective of (15) at or above a lower bound [], if weights are integers
    and costs are integers or all 0 or one value; otherwise the bound itself.

    Args:
      bound: [].
      weights: [m], 0 for padding.
      prices: [p] the possible costs of hypotheses, inf for a hypothesis that is not allowed.
    """
    paid, is_lattice = _values_paid(weights, prices)
    is_lattice &= (paid[-1] > bound) | (paid[-1] == 0)
    slack = _SLACK * jnp.maximum(bound, 1.0)
    values = paid + jnp.maximum(jnp.ceil(bound - paid - slack), 0.0)
    least = jnp.min(values) * (1 - 4 * jnp.finfo(bound.dtype).eps)
    return jnp.where(is_lattice & (jnp.abs(bound) < jnp.inf), jnp.maximum(bound, least), bound)


def enough(goal: Array, weights: Array, prices: Array) -> Array:
    """Approximately the least bound [] that `round_up` raises to the goal [], an attainable value
    of (15); the goal itself if the conditions of `round_up` do not hold.
    """
    paid, is_lattice = _values_paid(weights, prices)
    is_lattice &= (paid[-1] > goal) | (paid[-1] == 0)
    slack = 2 * _SLACK * jnp.maximum(goal, 1.0)
    below = jnp.where(
        paid < goal - slack, paid + jnp.maximum(jnp.ceil(goal - paid - slack) - 1, 0.0), 0.0
    )
    return jnp.where(is_lattice & (goal < jnp.inf), jnp.minimum(jnp.max(below) + slack, goal), goal)


def _values_paid(weights: Array, prices: Array) -> tuple[Array, Array]:
    """The costs of 0, 1, 2, ... hypotheses, all 0 if all prices [p] are integers; and whether the
    objective is always one of them plus an integer.
    """
    prices = jnp.where(prices < jnp.inf, prices, 0.0)
    are_whole = jnp.all(prices == jnp.round(prices))
    price = jnp.where(are_whole, 0.0, jnp.max(prices, initial=0.0))
    is_lattice = jnp.all(weights == jnp.round(weights)) & (
        are_whole | jnp.all((prices == 0) | (prices == price))
    )
    return jnp.arange(_MOST_PRICED, dtype=prices.dtype) * price, is_lattice


def better(first: FeasibleVote, second: FeasibleVote) -> FeasibleVote:
    """The vote of less loss; the first one if the losses are equal."""
    return jax.tree.map(
        lambda one, two: jnp.where(second.loss < first.loss, two, one), first, second
    )


def sparse_starts(coefficients: Array) -> Array:
    """Sparse starting points [s, n] for a local search: only the largest coefficients [n], with
    their values or with equal values.
    """
    values, indices = lax.top_k(coefficients, min(coefficients.shape[0], max(_STARTED)))
    ranks = jnp.arange(values.shape[0])

    def largest(count: Array, is_even: Array) -> Array:
        kept = jnp.where((ranks < count) & (values > 0), jnp.where(is_even, 1.0, values), 0.0)
        return jnp.zeros_like(coefficients).at[indices].set(kept)

    counts = jnp.array(_STARTED + _STARTED_EQUAL)
    return jax.vmap(largest)(counts, jnp.arange(len(counts)) >= len(_STARTED))


def sparse_starts_on_host(coefficients: np.ndarray) -> np.ndarray:
    """As `sparse_starts`, by NumPy."""
    order = np.argsort(-coefficients, kind="stable")
    order = order[coefficients[order] > 0]
    starts = np.zeros((len(_STARTED + _STARTED_EQUAL), len(coefficients)), coefficients.dtype)
    for start, count in zip(starts, _STARTED + _STARTED_EQUAL, strict=True):
        start[order[:count]] = coefficients[order[:count]]
    equal = starts[len(_STARTED) :]
    equal[equal > 0] = 1
    return starts


def limited(coefficients: Array, most: int | None, free: tuple[int, ...]) -> Array:
    """Keeps the `most` largest of coefficients [n] and all `free` ones, and sets the others to 0.
    If none is left, the first free coefficient becomes 1.
    """
    if most is None:
        return coefficients
    is_free = _among(free, coefficients)
    values, indices = lax.top_k(
        jnp.where(is_free, 0.0, coefficients), min(most, coefficients.shape[0])
    )
    kept = jnp.where(is_free, coefficients, jnp.zeros_like(coefficients).at[indices].set(values))
    return kept.at[free[0] if free else 0].add(jnp.where(jnp.any(kept > 0), 0.0, 1.0))


def _among(indices: tuple[int, ...], coefficients: Array) -> Array:
    return jnp.zeros(coefficients.shape, bool).at[jnp.array(indices, int)].set(True)


def _excluded(coefficients: Array, most: int | None, free: tuple[int, ...]) -> Array:
    """The hypotheses [n] with coefficient 0 that must keep it, since `most` others vote already."""
    if most is None:
        return jnp.zeros(coefficients.shape, bool)
    counts = ~_among(free, coefficients)
    return counts & (coefficients <= 0) & (jnp.sum(counts & (coefficients > 0)) >= most)


class _Moves(NamedTuple):
    """The best move towards or away from each hypothesis."""

    loss: Array  # [n] before rounding to the grid
    width: Array  # [n] of the interval of t
    step: Array  # [n] t


class _Break(NamedTuple):
    """A break point: the t at which an example becomes right or wrong, for all hypotheses with the
    same margin on it.
    """

    step: Array  # [] t, inf for none
    example: Array  # [] int32
    own_margin: Array  # [] -1, 0 or +1, margin of the hypothesis on the example
    change: Array  # [] of the errors


class _LineSearches(NamedTuple):
    """The line searches for all hypotheses at once, with increasing t: the errors at the current t
    and the best interval so far.
    """

    errors: Array  # [n]
    begin: Array  # [n] of the current interval of t
    least: Array  # [n] errors of the best interval
    width: Array  # [n]
    middle: Array  # [n]


def _moves(instance: VoteInstance, coefficients: Array, may_vote: Array) -> _Moves:
    """The best t of (1 - t) lambda + t e_u for each u. It is the least t, where lambda_u is 0, or
    the middle of an interval, where the support keeps all other hypotheses.

    The break points of a hypothesis depend only on its margin -1, 0 or +1 on each example. So one
    sorted list of 3 m break points, and one scan over it, serve all hypotheses.
    """
    reached = jnp.matmul(coefficients, instance.margins, precision=lax.Precision.HIGHEST)
    rest = jnp.sum(jnp.where(coefficients > 0, instance.costs, 0.0)) - jnp.where(
        coefficients > 0, instance.costs, 0.0
    )
    low = -numerics.safe_divide(coefficients, 1 - coefficients)
    by_example = instance.margins.T

    def pass_by(walk: _LineSearches, point: _Break) -> tuple[_LineSearches, None]:
        is_met = by_example[point.example] == point.own_margin
        walk = _close(walk, jnp.clip(point.step, low, 1.0), is_met)
        return (
            walk._replace(errors=jnp.where(is_met, walk.errors + point.change, walk.errors)),
            None,
        )

    here, weights = reached[None, :], instance.weights[None, :]
    # The errors in the limit of t to -inf.
    is_error = (instance.margins > here) | ((instance.margins == here) & (here < instance.margin))
    errors = jnp.sum(jnp.where(is_error, weights, 0.0), axis=1)
    nothing = jnp.zeros_like(low)
    walk, _ = loops.scan(
        pass_by,
        _LineSearches(errors, low, nothing + jnp.inf, nothing - 1, nothing),
        _breaks(instance, reached),
        unroll=_AT_ONCE,
    )
    walk = _close(walk, nothing + 1, True)
    at_low = here + low[:, None] * (instance.margins - here)
    errors_at_low = jnp.sum(jnp.where(at_low < instance.margin, weights, 0.0), axis=1)
    removed = jnp.where((coefficients > 0) & (coefficients < 1), errors_at_low + rest, jnp.inf)
    inside = walk.least + rest + instance.costs
    is_removed = removed <= inside
    return _Moves(
        loss=jnp.where(may_vote, jnp.minimum(removed, inside), jnp.inf),
        width=jnp.where(is_removed, 1.0, walk.width),
        step=jnp.where(is_removed, low, walk.middle),
    )


def _close(walk: _LineSearches, end: Array, ends: Array | bool) -> _LineSearches:
    """The line searches after the interval ends at `end` [n], where `ends` [n]."""
    width = jnp.where(ends, end - walk.begin, 0.0)
    is_best = (width > _NARROW) & (
        (walk.errors < walk.least) | ((walk.errors == walk.least) & (width > walk.width))
    )
    least, width, middle = (
        jnp.where(is_best, new, old)
        for new, old in zip((walk.errors, width, walk.begin + width / 2), walk[2:], strict=True)
    )
    return _LineSearches(walk.errors, jnp.where(ends, end, walk.begin), least, width, middle)


def _breaks(instance: VoteInstance, reached: Array) -> _Break:
    """All break points, [3 m] each, sorted by t."""
    own = jnp.repeat(jnp.array([-1, 0, 1], reached.dtype), reached.shape[0])
    slope, need, weights = (
        own - jnp.tile(reached, 3),
        jnp.tile(instance.margin - reached, 3),
        jnp.tile(instance.weights, 3),
    )
    moves = slope != 0
    steps = jnp.where(moves, need / jnp.where(moves, slope, 1.0), jnp.inf)
    change = jnp.where(slope > 0, -weights, jnp.where(slope < 0, weights, 0.0))
    example = jnp.tile(jnp.arange(reached.shape[0], dtype=jnp.int32), 3)
    order = jnp.argsort(steps)
    return _Break(steps[order], example[order], own[order], change[order])


def _after_move(instance: VoteInstance, vote: FeasibleVote, is_out: Array) -> FeasibleVote:
    """The point after the best move towards or away from one hypothesis, except towards those [n]
    that are excluded.
    """
    moves = _moves(instance, vote.coefficients, instance.is_column & ~is_out)
    least = jnp.min(moves.loss)
    best = jnp.argmax(jnp.where(moves.loss <= least, moves.width, -1.0))
    step = moves.step[best]
    moved = ((1 - step) * vote.coefficients).at[best].add(step)
    return evaluate(instance, moved.at[best].set(jnp.where(moved[best] < _DUST, 0.0, moved[best])))


def _after_transfer(
    instance: VoteInstance, vote: FeasibleVote, is_out: Array, companions: tuple[int, ...]
) -> FeasibleVote:
    """The point after the best transfer of one whole coefficient to another hypothesis, with or
    without an equal increase of the coefficient of a companion.

    A companion does not transfer its coefficient to an excluded hypothesis.
    """
    own = vote.coefficients
    size = own.shape[0]
    shares, givers = lax.top_k(own, min(size, _MOST_GIVERS))
    reached = jnp.matmul(own, instance.margins, precision=lax.Precision.HIGHEST)
    beside, paid, grows = _companions(instance, own, companions)
    is_companion = _among(companions, own)

    def losses(part: tuple[Array, Array]) -> Array:
        share, giver = part
        rest = reached - share * instance.margins[giver]
        moved = rest[None, None, :] + share * (beside[:, None, :] + instance.margins[None, :, :])
        need = instance.margin * (1 + share * grows) + _CAUTION
        errors = jnp.sum(
            jnp.where(moved < need[:, None, None], instance.weights[None, None, :], 0.0), axis=2
        )
        price = jnp.where(own > 0, 0.0, instance.costs)[None, :] + paid[:, None]
        takes = instance.is_column & (jnp.arange(size) != giver) & ~(is_out & is_companion[giver])
        return jnp.where(takes[None, :], errors + price - instance.costs[giver], jnp.inf)

    def losses_of_share(part: tuple[Array, Array]) -> Array:
        return loops.cond(
            part[0] > 0,
            losses,
            lambda _: jnp.full((beside.shape[0], size), jnp.inf, own.dtype),
            part,
        )

    best = jnp.argmin(lax.map(losses_of_share, (shares, givers)))
    giver, companion, taker = jnp.unravel_index(best, (shares.shape[0], beside.shape[0], size))
    share = shares[giver]
    moved = own.at[givers[giver]].set(0.0).at[taker].add(share)
    towards = (
        jnp.zeros_like(own)
        .at[jnp.array((0, *companions), int)[companion]]
        .add(share * grows[companion])
    )
    return evaluate(instance, moved + towards)


def _companions(
    instance: VoteInstance, coefficients: Array, companions: tuple[int, ...]
) -> tuple[Array, Array, Array]:
    """What a transfer without a companion, and with each of them, adds: margins [1 + c, m], costs
    [1 + c], and the number of companions, [1 + c] 0 or 1.
    """
    margins = jnp.concatenate(
        [jnp.zeros_like(instance.weights)[None, :], instance.margins[jnp.array(companions, int)]]
    )
    costs = jnp.concatenate(
        [
            jnp.zeros((1,), coefficients.dtype),
            jnp.where(coefficients > 0, 0.0, instance.costs)[jnp.array(companions, int)],
        ]
    )
    return margins, costs, (jnp.arange(margins.shape[0]) > 0).astype(coefficients.dtype)


class _LocalSearchState(NamedTuple):
    vote: FeasibleVote
    is_going: Array  # [] bool
    num_moves: Array  # []


def search(
    instance: VoteInstance,
    start: FeasibleVote,
    *,
    config: SearchConfig,
    companions: tuple[int, ...] = (),
) -> FeasibleVote:
    """A sequence of moves from a starting point, each the best one available. The result is no
    worse than the start.

    Where no line search reduces the loss, one whole coefficient is transferred to another
    hypothesis, and one of the `companions`, columns of low cost, may increase by as much. With the
    constants as companions, a monomial of one literal can thus replace the opposite literal.
    Companions do not count towards `max_hypotheses`, which the start must respect (`limited`).
    """

    def move(state: _LocalSearchState) -> _LocalSearchState:
        is_out = _excluded(state.vote.coefficients, config.max_hypotheses, companions)
        moved = _after_move(instance, state.vote, is_out)
        gains = moved.loss < state.vote.loss
        fresh = loops.cond(
            gains,
            lambda vote: moved,
            lambda vote: _after_transfer(instance, vote, is_out, companions),
            state.vote,
        )
        return _LocalSearchState(
            better(state.vote, fresh), fresh.loss < state.vote.loss, state.num_moves + 1
        )

    first = _LocalSearchState(start, jnp.ones((), bool), jnp.zeros((), jnp.int32))
    last, _ = loops.bounded_loop(
        move, lambda state: state.is_going, first, max_checks=config.max_moves
    )
    return last.vote
