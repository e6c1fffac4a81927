"""The game with few of its columns at a time, which are exchanged inside the interior point method.

The optimum needs few columns. An iteration over k of n columns costs about k / n squared of one over all, and one product prices the others. Where
the gap among those at hand is small beside the gap over all, the columns of largest edge take the places of those off the support. One that comes
in gets the weight that its slack has on the central path, and the value is raised so far that all of them together weigh little. What is not solved
so, as its support is too large, is solved over all columns.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics
from jboost.base.types import Array
from jboost.example_weights import game as whole
from jboost.example_weights.game import Game, Point, State

_SHARE_OF_GAP = 0.5  # between the bounds over all columns; below it the gap over those at hand is small
_MOST_SUPPORT = 0.75  # of the places: with more of them taken, too few columns can come in
_CLEAR = 0.001  # of the bounds: with a smaller gap between them, weights tell the support
_MOST_ITERATIONS = 50


def num_at_hand(num_columns: int) -> int | None:
    """How many columns at a time are worth their exchange, or None where all are."""
    size = 16 * round(6.5 * math.sqrt(num_columns) / 16)
    return size if size <= 0.6 * num_columns else None


def solve(game: Game, *, tolerance: Array, floor: Array, max_iterations: int, initial: Point | None = None) -> State:
    """`game.solve`, with few columns at a time where there are many."""
    size = num_at_hand(game.column_labels.shape[0])
    first = whole.begin(game, initial)
    if size is None:
        return whole.iterate(game, first, tolerance=tolerance, floor=floor, max_iterations=max_iterations)
    columns = _evenly(game, size) if initial is None else _most_active(game, initial, size)
    point = whole.first_point(_take(game, columns), None if initial is None else _narrow(initial, columns))
    few = min(max_iterations, _MOST_ITERATIONS)
    state = _exchange_columns(game, columns, first._replace(point=point), tolerance=tolerance, floor=floor, max_iterations=few)
    is_open = whole.is_open(state, tolerance, floor)
    point = jax.tree.map(lambda fresh, found: jnp.where(is_open, fresh, found), first.point, state.point)
    state = state._replace(point=point, product=first.product, num_stalled=first.num_stalled)
    return whole.iterate(game, state, tolerance=tolerance, floor=floor, max_iterations=max_iterations)


def prune(game: Game, state: State, *, tolerance: Array, floor: Array) -> State:
    """`game.prune`, among the columns nearest to the support where that does it."""
    size = num_at_hand(game.column_labels.shape[0])
    if size is None:
        return whole.prune(game, state, tolerance=tolerance, floor=floor)
    columns = _most_active(game, state.point, size)
    some = _take(game, columns)
    narrow = state._replace(point=_narrow(state.point, columns), weights=state.weights[columns])
    repaired = whole.repair(some, narrow, tolerance=tolerance, floor=floor)
    upper = _highest_edge(game, repaired.row_weights)
    is_lower = upper < state.upper
    after = repaired._replace(
        point=_widen(game, columns, repaired.point),
        weights=_spread(game, columns, repaired.weights),
        row_weights=jnp.where(is_lower, repaired.row_weights, state.row_weights),
        upper=jnp.where(is_lower, upper, state.upper),
    )
    is_taken = whole.is_as_near(after, state, tolerance, floor)
    pruned = jax.tree.map(lambda new, old: jnp.where(is_taken, new, old), after, state)

    def over_all(carry: tuple[State, Array]) -> tuple[State, Array]:
        return whole.prune(game, carry[0], tolerance=tolerance, floor=floor), jnp.ones_like(carry[1])

    return loops.while_loop(lambda carry: ~carry[1], over_all, (pruned, is_taken))[0]


def _take(game: Game, columns: Array) -> Game:
    return game._replace(matrix=game.matrix[columns], column_labels=game.column_labels[columns])


def _narrow(point: Point, columns: Array) -> Point:
    return point._replace(weights=point.weights[columns], column_slacks=point.column_slacks[columns])


def _spread(game: Game, columns: Array, values: Array) -> Array:
    """Values [k] of some columns beside zeros for the others, [n]."""
    return jnp.zeros_like(game.column_labels).at[columns].set(values)


def _widen(game: Game, columns: Array, point: Point) -> Point:
    """The point over all columns: the others have no weight, and the slacks that the value leaves them."""
    slacks = jnp.maximum(point.value - _edges(game, point), jnp.finfo(point.value.dtype).tiny).at[columns].set(point.column_slacks)
    return point._replace(weights=_spread(game, columns, point.weights), column_slacks=jnp.where(game.column_labels != 0, slacks, 1.0))


def _edges(game: Game, point: Point) -> Array:
    """What the slacks of an iterate are measured from, [n]."""
    return game.column_labels * point.tilt - jnp.matmul(game.matrix, point.row_weights, precision=lax.Precision.HIGHEST)


def _highest_edge(game: Game, row_weights: Array) -> Array:
    """The upper bound that row weights, made feasible, leave over all columns, [] up to rounding."""
    return numerics.masked_max(whole.edges(game, whole.allowed(game, row_weights)), game.column_labels != 0, fill=-jnp.inf)


def _most_active(game: Game, point: Point, size: int) -> Array:
    """The columns of largest weight for their slack, [k] int32."""
    active = jnp.where(game.column_labels != 0, point.weights / point.column_slacks, -1.0)
    return numerics.top_k(active, size)[1]


def _evenly(game: Game, size: int) -> Array:
    """Columns that count, spread evenly over them; then some that do not, [k] int32."""
    is_column = game.column_labels != 0
    count = jnp.sum(is_column, dtype=jnp.int32)
    place = jnp.cumsum(is_column, dtype=jnp.int32) - 1
    steps = (place + 1) * size // jnp.maximum(count, 1) - place * size // jnp.maximum(count, 1)
    return numerics.top_k(jnp.where(is_column, jnp.minimum(steps, 1), -1), size)[1]


def _exchange_columns(game: Game, columns: Array, state: State, *, tolerance: Array, floor: Array, max_iterations: int) -> State:
    """The state, over all columns, in which iterations over few at a time end; it begins with a point over those at hand."""

    def step(carry: tuple[Array, State]) -> tuple[Array, State]:
        columns, state = carry
        some = _take(game, columns)
        point = whole.advance(some, state.point)
        lower, upper = whole.bounds(some, point)
        highest = _highest_edge(game, point.row_weights)
        product = whole.mean_product(some, point)
        state = whole.record(state, point, _spread(game, columns, point.weights), lower, highest, product)
        is_due = upper - lower < _SHARE_OF_GAP * (highest - lower)
        return loops.cond(is_due, lambda: _exchange(game, columns, state, product), lambda: (columns, state))

    def unfinished(carry: tuple[Array, State]) -> Array:
        return whole.is_open(carry[1], tolerance, floor) & whole.helps(carry[1])

    columns, state = loops.bounded_loop(step, unfinished, (columns, state), max_checks=max_iterations)[0]
    return state._replace(point=_widen(game, columns, state.point))


def _exchange(game: Game, columns: Array, state: State, product: Array) -> tuple[Array, State]:
    """The support and the other columns of largest edge, and an iterate over them near the central path."""
    point, size, is_column = state.point, columns.shape[0], game.column_labels != 0
    edge = _edges(game, point)
    is_at_hand = _spread(game, columns, jnp.ones_like(point.weights)) > 0
    weights = _spread(game, columns, point.weights)
    slacks = jnp.where(is_at_hand, _spread(game, columns, point.column_slacks), point.value - edge)
    is_kept = is_at_hand & (weights > slacks)
    score = jnp.where(is_kept, jnp.max(edge) + weights / jnp.where(is_kept, slacks, 1.0), edge)
    others = numerics.top_k(jnp.where(is_column, score, -jnp.inf), size)[1]
    weight, slack, enters = weights[others], slacks[others], (is_column & ~is_at_hand)[others]
    room = size * product - jnp.min(jnp.where(enters, slack, jnp.inf))
    shift = jnp.maximum(room, 0.0)
    slack = jnp.where(is_column[others], slack + shift, 1.0)
    weight = jnp.where(enters, product / slack, weight)
    is_crowded = (jnp.sum(is_kept, dtype=jnp.int32) > _MOST_SUPPORT * size) & (state.upper - state.lower < _CLEAR * jnp.abs(state.upper))
    return others, state._replace(
        point=point._replace(weights=weight, column_slacks=slack, value=point.value + shift),
        product=jnp.full_like(product, jnp.inf),
        num_stalled=jnp.where(is_crowded, whole.MOST_STALLED, 0).astype(jnp.int32),
    )
