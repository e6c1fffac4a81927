"""The sparse minimum disagreement problem (15) of paper 001 over a pool: points of it, and a local
search.

    minimise sum_i weight_i I(y_i H_i lambda < rho) + sum_u c_u I(lambda_u > 0)
    s.t.  lambda >= 0, sum lambda = 1.

Coefficients are multiples of a power of two that sum to one exactly, so that for outputs -1, 0, +1
every margin is exact in the float type at hand, and `loss` is the loss of the coefficients as they
are, rounded up. The local search moves lambda towards or away from one hypothesis at a time,
(1 - t) lambda + t e_u, with an exact line search: margins are linear in t, so the loss is constant
between sorted break points; among the best places it takes the middle of the widest interval. Where
no such move gains, all of one coefficient goes to another hypothesis.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, check, loops, numerics
from jboost.base.types import Array
from jboost.l0.votes import grids

_NARROW = 1e-5  # an interval that rounding may have made
_DUST = 1e-6  # what rounding leaves of a coefficient that a move takes away
# grids on which a margin may be met with equality
_COARSE = tuple(2.0**-digits for digits in range(9))
# break points that are passed in one turn of a loop, which itself costs as much as they do
_AT_ONCE = 4
_MOST_GIVERS = 32  # the largest coefficients, whose transfer is tried
_MOST_STARTED = 16  # the largest coefficients, with which a search may begin
_MOST_PRICED = 1024  # hypotheses that the values of (15) are looked at for
# relative, by which a bound must exceed a value that the loss can have to rule it out
_SLACK = 1e-5
_CAUTION = 1e-6  # by which an example is to exceed the margin to count as right after a transfer


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Static sizes of the local search."""

    max_moves: int = 200
    """Moves, at most, from one starting point."""
    max_hypotheses: int | None = None
    """How many may vote, at most, the constants not counted; None for as many as are
    worth their cost.
    """

    def __post_init__(self) -> None:
        check.count("config.max_moves", self.max_moves, low=0)
        if self.max_hypotheses is not None:
            check.count("config.max_hypotheses", self.max_hypotheses, low=1)


class Instance(NamedTuple):
    """(15) over n columns."""

    margins: Array  # [n, m] y_i H_iu, 0 for padding
    weights: Array  # [m] 0 for padding
    costs: Array  # [n]
    is_column: Array  # [n] bool
    margin: Array  # [] rho


class Vote(NamedTuple):
    """A point of (15)."""

    coefficients: Array  # [n] lambda
    loss: Array  # []


def evaluate(instance: Instance, coefficients: Array) -> Vote:
    """The point of (15) next to coefficients [n] that are about on the simplex, with its loss."""
    unit = jnp.asarray(jnp.finfo(coefficients.dtype).eps, coefficients.dtype)
    return _valued(
        instance, grids.nearest(_usable(instance, coefficients), instance.is_column, unit)
    )


def evaluate_near(instance: Instance, coefficients: Array) -> Vote:
    """The best point of (15) next to coefficients [n] that rounding may have moved off halves,
    quarters and so on, with its loss.
    """
    usable = _usable(instance, coefficients)
    votes = jax.vmap(
        lambda unit: _valued(instance, grids.coarse(usable, instance.is_column, unit))
    )(jnp.asarray(_COARSE, usable.dtype))
    return better(
        evaluate(instance, coefficients),
        jax.tree.map(lambda leaf: leaf[jnp.argmin(votes.loss)], votes),
    )


def _usable(instance: Instance, coefficients: Array) -> Array:
    return jnp.where(
        instance.is_column & (coefficients > 0) & (coefficients < jnp.inf), coefficients, 0.0
    )


def best_alone(instance: Instance) -> Vote:
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


def best_pair(instance: Instance) -> Vote:
    """The best point of (15) with two hypotheses that share the vote, both of which no single step
    of a search may bring; else infinite.
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
    places = jnp.arange(len(prices))
    chosen = (places == best // len(prices)) | (places == best % len(prices))
    vote = _valued(instance, jnp.where(chosen, 0.5, 0.0).astype(losses.dtype))
    return vote._replace(loss=jnp.where(jnp.isfinite(jnp.min(losses)), vote.loss, jnp.inf))


def _valued(instance: Instance, coefficients: Array) -> Vote:
    reached = jnp.matmul(coefficients, instance.margins, precision=lax.Precision.HIGHEST)
    paid = jnp.concatenate([reached < instance.margin, coefficients > 0])
    return Vote(
        coefficients,
        brackets.bracket_dot(
            paid.astype(reached.dtype), jnp.concatenate([instance.weights, instance.costs])
        )[1],
    )


def have_met(lower: Array, upper: Array, tolerance: Array) -> Array:
    """Whether bounds [] are as close as asked for, relative to the upper one where that is above 1;
    what overflows has not met anything.
    """
    return (upper < jnp.inf) & (upper - lower <= tolerance * jnp.maximum(upper, 1.0))


def round_up(bound: Array, weights: Array, prices: Array) -> Array:
    """The least value at or above a lower bound [] that (15) can have, where weights are whole, and
    prices too, or 0 or one number; else the bound.

    Args:
      bound: [].
      weights: [m], 0 for padding.
      prices: [p] what a hypothesis may cost, inf for one that is not allowed.
    """
    paid, is_lattice = _values_paid(weights, prices)
    is_lattice &= (paid[-1] > bound) | (paid[-1] == 0)
    slack = _SLACK * jnp.maximum(bound, 1.0)
    values = paid + jnp.maximum(jnp.ceil(bound - paid - slack), 0.0)
    least = jnp.min(values) * (1 - 4 * jnp.finfo(bound.dtype).eps)
    return jnp.where(is_lattice & (jnp.abs(bound) < jnp.inf), jnp.maximum(bound, least), bound)


def enough(goal: Array, weights: Array, prices: Array) -> Array:
    """The least bound [] that `round_up` takes to the goal [], about, which (15) can attain; the
    goal where weights and prices are not as there.
    """
    paid, is_lattice = _values_paid(weights, prices)
    is_lattice &= (paid[-1] > goal) | (paid[-1] == 0)
    slack = 2 * _SLACK * jnp.maximum(goal, 1.0)
    below = jnp.where(
        paid < goal - slack, paid + jnp.maximum(jnp.ceil(goal - paid - slack) - 1, 0.0), 0.0
    )
    return jnp.where(is_lattice & (goal < jnp.inf), jnp.minimum(jnp.max(below) + slack, goal), goal)


def _values_paid(weights: Array, prices: Array) -> tuple[Array, Array]:
    """What 0, 1, 2, ... hypotheses cost, 0 throughout where all prices [p] are whole; and whether
    that is all there can be beside whole numbers.
    """
    prices = jnp.where(prices < jnp.inf, prices, 0.0)
    are_whole = jnp.all(prices == jnp.round(prices))
    price = jnp.where(are_whole, 0.0, jnp.max(prices, initial=0.0))
    is_lattice = jnp.all(weights == jnp.round(weights)) & (
        are_whole | jnp.all((prices == 0) | (prices == price))
    )
    return jnp.arange(_MOST_PRICED, dtype=prices.dtype) * price, is_lattice


def better(first: Vote, second: Vote) -> Vote:
    """The one of less loss, the first where both have the same."""
    return jax.tree.map(
        lambda one, two: jnp.where(second.loss < first.loss, two, one), first, second
    )


def sparse_starts(coefficients: Array) -> Array:
    """Points [s, n] next to which a local search may begin: the largest few of some coefficients
    [n], as they are and all alike.
    """
    values, places = lax.top_k(coefficients, min(coefficients.shape[0], _MOST_STARTED))
    ranks = jnp.arange(values.shape[0])

    def largest(count: Array, is_even: Array) -> Array:
        kept = jnp.where((ranks < count) & (values > 0), jnp.where(is_even, 1.0, values), 0.0)
        return jnp.zeros_like(coefficients).at[places].set(kept)

    return jax.vmap(largest)(jnp.array([2, 4, 8, 16, 3, 6, 12]), jnp.arange(7) >= 4)


def limited(coefficients: Array, most: int | None, free: tuple[int, ...]) -> Array:
    """The largest of coefficients [n], `most` beside those that are `free`, which do not count; all
    of the first one that is where none is left.
    """
    if most is None:
        return coefficients
    is_free = _among(free, coefficients)
    values, places = lax.top_k(
        jnp.where(is_free, 0.0, coefficients), min(most, coefficients.shape[0])
    )
    kept = jnp.where(is_free, coefficients, jnp.zeros_like(coefficients).at[places].set(values))
    return kept.at[free[0] if free else 0].add(jnp.where(jnp.any(kept > 0), 0.0, 1.0))


def _among(places: tuple[int, ...], coefficients: Array) -> Array:
    return jnp.zeros(coefficients.shape, bool).at[jnp.array(places, int)].set(True)


def _shut_out(coefficients: Array, most: int | None, free: tuple[int, ...]) -> Array:
    """The hypotheses [n] that have no vote, and get none unless another one loses its own."""
    if most is None:
        return jnp.zeros(coefficients.shape, bool)
    counts = ~_among(free, coefficients)
    return counts & (coefficients <= 0) & (jnp.sum(counts & (coefficients > 0)) >= most)


class _Moves(NamedTuple):
    """The best move towards or away from each hypothesis."""

    loss: Array  # [n] as estimated
    width: Array  # [n] of the interval of t
    step: Array  # [n] t


class _Break(NamedTuple):
    """Where an example is lost or won on the way to a hypothesis that says -1, 0 or +1 of it times
    its label.
    """

    place: Array  # [] t, inf for none
    example: Array  # [] int32
    said: Array  # []
    change: Array  # [] of the errors


class _Walk(NamedTuple):
    """Towards all hypotheses at once, t growing: the errors here, and the best interval so far."""

    errors: Array  # [n]
    begin: Array  # [n] of the interval that t is in
    least: Array  # [n] errors of the best interval
    width: Array  # [n]
    middle: Array  # [n]


def _moves(instance: Instance, coefficients: Array, may_vote: Array) -> _Moves:
    """The best t of (1 - t) lambda + t e_u for each u, at the end where lambda_u vanishes or within
    an interval; others stay in the support.

    All hypotheses have their break points in three lists, one for each answer, so that one sort and
    one walk do for all.
    """
    reached = jnp.matmul(coefficients, instance.margins, precision=lax.Precision.HIGHEST)
    rest = jnp.sum(jnp.where(coefficients > 0, instance.costs, 0.0)) - jnp.where(
        coefficients > 0, instance.costs, 0.0
    )
    low = -numerics.safe_divide(coefficients, 1 - coefficients)
    by_example = instance.margins.T

    def close(walk: _Walk, end: Array, ends: Array | bool) -> _Walk:
        width = jnp.where(ends, end - walk.begin, 0.0)
        is_best = (width > _NARROW) & (
            (walk.errors < walk.least) | ((walk.errors == walk.least) & (width > walk.width))
        )
        least, width, middle = (
            jnp.where(is_best, new, old)
            for new, old in zip((walk.errors, width, walk.begin + width / 2), walk[2:], strict=True)
        )
        return _Walk(walk.errors, jnp.where(ends, end, walk.begin), least, width, middle)

    def pass_by(walk: _Walk, point: _Break) -> tuple[_Walk, None]:
        is_met = by_example[point.example] == point.said
        walk = close(walk, jnp.clip(point.place, low, 1.0), is_met)
        return (
            walk._replace(errors=jnp.where(is_met, walk.errors + point.change, walk.errors)),
            None,
        )

    here, weights = reached[None, :], instance.weights[None, :]
    # where t is -inf
    is_error = (instance.margins > here) | ((instance.margins == here) & (here < instance.margin))
    errors = jnp.sum(jnp.where(is_error, weights, 0.0), axis=1)
    nothing = jnp.zeros_like(low)
    walk, _ = loops.scan(
        pass_by,
        _Walk(errors, low, nothing + jnp.inf, nothing - 1, nothing),
        _breaks(instance, reached),
        unroll=_AT_ONCE,
    )
    walk = close(walk, nothing + 1, True)
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


def _breaks(instance: Instance, reached: Array) -> _Break:
    """All break points, [3 m] each, in order of t."""
    said = jnp.repeat(jnp.array([-1, 0, 1], reached.dtype), reached.shape[0])
    slope, need, weights = (
        said - jnp.tile(reached, 3),
        jnp.tile(instance.margin - reached, 3),
        jnp.tile(instance.weights, 3),
    )
    moves = slope != 0
    place = jnp.where(moves, need / jnp.where(moves, slope, 1.0), jnp.inf)
    change = jnp.where(slope > 0, -weights, jnp.where(slope < 0, weights, 0.0))
    example = jnp.tile(jnp.arange(reached.shape[0], dtype=jnp.int32), 3)
    order = jnp.argsort(place)
    return _Break(place[order], example[order], said[order], change[order])


def _after_move(instance: Instance, vote: Vote, is_out: Array) -> Vote:
    """The point after the best move towards or away from one hypothesis, none of those [n] that are
    out.
    """
    moves = _moves(instance, vote.coefficients, instance.is_column & ~is_out)
    least = jnp.min(moves.loss)
    best = jnp.argmax(jnp.where(moves.loss <= least, moves.width, -1.0))
    step = moves.step[best]
    moved = ((1 - step) * vote.coefficients).at[best].add(step)
    return evaluate(instance, moved.at[best].set(jnp.where(moved[best] < _DUST, 0.0, moved[best])))


def _after_transfer(
    instance: Instance, vote: Vote, is_out: Array, companions: tuple[int, ...]
) -> Vote:
    """The point after the best transfer of all of one coefficient to another hypothesis, a
    companion growing as much or not.

    A companion does not hand its own to one of those [n] that are out.
    """
    own = vote.coefficients
    size = own.shape[0]
    shares, givers = lax.top_k(own, min(size, _MOST_GIVERS))
    reached = jnp.matmul(own, instance.margins, precision=lax.Precision.HIGHEST)
    beside = jnp.concatenate(
        [jnp.zeros_like(reached)[None, :], instance.margins[jnp.array(companions, int)]]
    )
    paid = jnp.concatenate(
        [
            jnp.zeros((1,), own.dtype),
            jnp.where(own > 0, 0.0, instance.costs)[jnp.array(companions, int)],
        ]
    )
    grows = (jnp.arange(beside.shape[0]) > 0).astype(own.dtype)
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


class _State(NamedTuple):
    vote: Vote
    is_going: Array  # [] bool
    num_moves: Array  # []


def search(
    instance: Instance, start: Vote, *, config: SearchConfig, companions: tuple[int, ...] = ()
) -> Vote:
    """The best of a sequence of moves, each the best there is, from a starting point; no worse than
    it.

    Where no line search gains, all of one coefficient goes to another hypothesis, while one of the
    `companions`, columns that cost little, may take as much: where they are the constants, a
    monomial of one literal can stand for the opposite one. They do not count towards
    `max_hypotheses`, which the start is to keep to (`limited`).
    """

    def move(state: _State) -> _State:
        is_out = _shut_out(state.vote.coefficients, config.max_hypotheses, companions)
        moved = _after_move(instance, state.vote, is_out)
        gains = moved.loss < state.vote.loss
        fresh = loops.cond(
            gains,
            lambda vote: moved,
            lambda vote: _after_transfer(instance, vote, is_out, companions),
            state.vote,
        )
        return _State(better(state.vote, fresh), fresh.loss < state.vote.loss, state.num_moves + 1)

    first = _State(start, jnp.ones((), bool), jnp.zeros((), jnp.int32))
    last, _ = loops.bounded_loop(
        move, lambda state: state.is_going, first, max_checks=config.max_moves
    )
    return last.vote
