"""The game with few of its columns at a time, which are exchanged inside the interior point method.

The optimum needs few columns. An iteration over k of n columns costs about k / n squared of one
over all, and one product prices the others. Where the gap among those at hand is small beside the
gap over all, the columns of largest edge take the places of those off the support. One that comes
in gets the weight that its slack has on the central path, and the value is raised so far that all
of them together weigh little. What is not solved so, as its support is too large, is solved over
all columns.

The second stage sets columns off the support to exact zeros and repairs the rest in a few
iterations, likewise over few columns first. Both stages are turns of one loop, so that each kind of
iteration is compiled once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.example_weights import game as whole
from jboost.example_weights.game import Game, Point, State

# between the bounds over all columns; below it the gap over those at hand is small
_SHARE_OF_GAP = 0.5
_MOST_SUPPORT = 0.75  # of the places: with more of them taken, too few columns can come in
_CLEAR = 0.001  # of the bounds: with a smaller gap between them, weights tell the support
_MOST_ITERATIONS = 50
_MOST_REPAIRS = 8


class _Aim(NamedTuple):
    """How near to each other the bounds of a solution are."""

    tolerance: Array  # []
    floor: Array  # []


class _Stages(NamedTuple):
    """What is known between two stages."""

    state: State  # over all columns
    solved: State  # after the first stage


def num_at_hand(num_columns: int) -> int | None:
    """How many columns at a time are worth their exchange, or None where all are."""
    size = 16 * round(6.5 * math.sqrt(num_columns) / 16)
    return size if size <= 0.6 * num_columns else None


def solve(
    game: Game,
    *,
    tolerance: Array,
    floor: Array,
    max_iterations: int,
    prunes: bool,
    initial: Point | None = None,
) -> tuple[State, State]:
    """Iterates until upper - lower <= tolerance * the larger of their sizes + floor (in units of
    sigma), or rounding stops it.

    Args:
      game: n columns.
      tolerance: [].
      floor: [].
      max_iterations: static, over all columns.
      prunes: static, whether to set columns off the support to exact zeros.
      initial: a point of a game of the same rows and columns, or None.

    Returns:
      The state so solved, and the state to use: the pruned one where its bounds are as near to each
      other as was asked for, or as they were.
    """
    first, aim = whole.begin(game, initial), _Aim(tolerance, floor)
    size = num_at_hand(game.column_labels.shape[0])
    first_few = None if size is None else _first_few(game, first, size, initial)

    def stage(number: Array, stages: _Stages) -> _Stages:
        is_pruning, state = number > 0, stages.state
        is_open = jnp.ones((), bool)
        if size is not None and first_few is not None:
            limit = jnp.where(is_pruning, _MOST_REPAIRS, min(max_iterations, _MOST_ITERATIONS))
            found = _over_few(game, state, size, is_pruning, first_few, aim, num_iterations=limit)
            state, is_taken = _take_if_near(found, state, is_pruning, aim)
            is_open = jnp.where(is_pruning, ~is_taken, whole.is_open(state, tolerance, floor))
        begun = _begin_over_all(first, state, is_pruning)
        limit = jnp.where(is_open, jnp.where(is_pruning, _MOST_REPAIRS, max_iterations), 0)
        found = whole.iterate(game, begun, tolerance=tolerance, floor=floor, num_iterations=limit)
        taken, _ = _take_if_near(found, state, is_pruning, aim)
        state = loops.cond(is_open, lambda: taken, lambda: state)
        return _Stages(state, loops.cond(is_pruning, lambda: stages.solved, lambda: state))

    last = loops.fori_loop(0, 2 if prunes else 1, stage, _Stages(first, first))
    return last.solved, last.state


def _take_if_near(found: State, before: State, is_pruning: Array, aim: _Aim) -> tuple[State, Array]:
    """What a stage found, and True; after pruning the state before, and False, where the bounds are
    no longer near to each other.
    """
    is_taken = ~is_pruning | whole.is_as_near(found, before, *aim)
    state: State = loops.cond(is_taken, lambda: found, lambda: before)
    return state, is_taken


def _begin_over_all(first: State, state: State, is_pruning: Array) -> State:
    """The state before iterations over all columns: at the first point, whatever few columns led
    to, or pruned.
    """
    fresh = state._replace(point=first.point, product=first.product, num_stalled=first.num_stalled)
    begun: State = loops.cond(is_pruning, lambda: whole.pruned(state), lambda: fresh)
    return begun


class _Few(NamedTuple):
    """Iterations over few columns at a time; arrays of columns in the state are of those at hand,
    but its weights of `best`.
    """

    columns: Array  # [k] int32 at hand
    best: Array  # [k] int32 the columns of the best lower bound
    state: State


def _over_few(
    game: Game,
    before: State,
    size: int,
    is_pruning: Array,
    first_few: _Few,
    aim: _Aim,
    *,
    num_iterations: Array,
) -> State:
    """The state, over all columns, in which iterations over few at a time end."""
    begun = _begin_over_few(game, before, size, is_pruning, first_few)
    end = before.num_iterations + num_iterations

    def step(few: _Few) -> _Few:
        some = whole.take(game, few.columns)
        point = whole.advance(some, few.state.point)
        edges = jnp.where(
            game.column_labels != 0,
            whole.edges(game, whole.allowed(game, point.row_weights)),
            -jnp.inf,
        )
        lower, upper = whole.attained(some, point), reduce.largest(edges[few.columns])
        highest, product = reduce.largest(edges), whole.mean_product(some, point)
        best = loops.cond(lower > few.state.lower, lambda: few.columns, lambda: few.best)
        state = whole.record(few.state, point, lower, highest, product)
        is_due = (upper - lower < _SHARE_OF_GAP * (highest - lower)) & ~is_pruning
        columns, state = loops.cond(
            is_due,
            lambda: _exchange(game, few.columns, state, product),
            lambda: (few.columns, state),
        )
        return _Few(columns, best, state)

    def unfinished(few: _Few) -> Array:
        return (
            whole.is_open(few.state, *aim)
            & whole.helps(few.state)
            & (few.state.num_iterations < end)
        )

    few = loops.while_loop(unfinished, step, begun)
    return few.state._replace(
        point=_widen(game, few.columns, few.state.point),
        weights=_spread(game, few.best, few.state.weights),
    )


def _first_few(game: Game, first: State, size: int, initial: Point | None) -> _Few:
    """The first few columns, and the state before iterations over them; its weights are those of
    the column of the best bound.
    """
    active = None if initial is None else _activity(game, initial)
    columns = numerics.top_k(_evenness(game, size) if active is None else active, size)[1]
    before = (
        None
        if initial is None
        else initial._replace(
            weights=initial.weights[columns], column_slacks=initial.column_slacks[columns]
        )
    )
    point = whole.first_point(whole.take(game, columns), before)
    best = jnp.full_like(columns, jnp.argmax(first.weights))
    weights = jnp.where(jnp.arange(size) == 0, 1.0, jnp.zeros_like(point.weights))
    return _Few(columns, best, first._replace(point=point, weights=weights))


def _activity(game: Game, point: Point) -> Array:
    """Scores [n]: weights for their slacks."""
    return jnp.where(game.column_labels != 0, point.weights / point.column_slacks, -1.0)


def _begin_over_few(
    game: Game, before: State, size: int, is_pruning: Array, first_few: _Few
) -> _Few:
    """The state before iterations over few columns: the first ones, or the most active ones,
    pruned.
    """

    def prune() -> _Few:
        columns = numerics.top_k(_activity(game, before.point), size)[1]
        weights, slacks = jnp.stack([before.point.weights, before.point.column_slacks])[:, columns]
        narrow = before._replace(point=before.point._replace(weights=weights, column_slacks=slacks))
        return _Few(columns, columns, whole.pruned(narrow))

    few: _Few = loops.cond(is_pruning, prune, lambda: first_few)
    return few


def _spread(game: Game, columns: Array, values: Array) -> Array:
    """Values [k] or [k, r] of some columns beside zeros for the others, [n] or [n, r]; those of a
    column that is there twice are added.
    """
    return (
        jnp.zeros((game.column_labels.shape[0], *values.shape[1:]), values.dtype)
        .at[columns]
        .add(values)
    )


def _widen(game: Game, columns: Array, point: Point) -> Point:
    """The point over all columns: the others have no weight, and the slacks that the value leaves
    them.
    """
    held = jnp.stack([jnp.ones_like(point.weights), point.weights, point.column_slacks], axis=1)
    is_at_hand, weights, slacks = _spread(game, columns, held).T
    of_others = jnp.maximum(point.value - _edges(game, point), jnp.finfo(point.value.dtype).tiny)
    slacks = jnp.where(is_at_hand > 0, slacks, of_others)
    return point._replace(
        weights=weights, column_slacks=jnp.where(game.column_labels != 0, slacks, 1.0)
    )


def _edges(game: Game, point: Point) -> Array:
    """What the slacks of an iterate are measured from, [n]."""
    return game.column_labels * point.tilt - jnp.matmul(
        game.matrix, point.row_weights, precision=lax.Precision.HIGHEST
    )


def _evenness(game: Game, size: int) -> Array:
    """Scores [n] of which so many columns have the highest that count, spread evenly over them;
    then some that do not.
    """
    is_column = game.column_labels != 0
    count = reduce.count(is_column)
    place = jnp.cumsum(is_column, dtype=jnp.int32) - 1
    steps = (place + 1) * size // jnp.maximum(count, 1) - place * size // jnp.maximum(count, 1)
    return jnp.where(is_column, jnp.minimum(steps, 1), -1).astype(game.column_labels.dtype)


def _exchange(game: Game, columns: Array, state: State, product: Array) -> tuple[Array, State]:
    """The support and the other columns of largest edge, and an iterate over them near the central
    path.
    """
    point, size, is_column = state.point, columns.shape[0], game.column_labels != 0
    edge = _edges(game, point)
    held = jnp.stack([jnp.ones_like(point.weights), point.weights, point.column_slacks], axis=1)
    at_hand, weights, slacks = _spread(game, columns, held).T
    slacks = jnp.where(at_hand > 0, slacks, point.value - edge)
    is_kept = (at_hand > 0) & (weights > slacks)
    highest, num_kept = reduce.several(
        (reduce.LARGEST, edge), (reduce.SUM, is_kept.astype(edge.dtype))
    )
    score = jnp.where(is_kept, highest + weights / jnp.where(is_kept, slacks, 1.0), edge)
    others = numerics.top_k(jnp.where(is_column, score, -jnp.inf), size)[1]
    weight, slack, was_at_hand, labels = jnp.stack([weights, slacks, at_hand, game.column_labels])[
        :, others
    ]
    enters = (labels != 0) & (was_at_hand == 0)
    shift = jnp.maximum(size * product - reduce.least(jnp.where(enters, slack, jnp.inf)), 0.0)
    slack = jnp.where(labels != 0, slack + shift, 1.0)
    weight = jnp.where(enters, product / slack, weight)
    is_crowded = (num_kept > _MOST_SUPPORT * size) & (
        state.upper - state.lower < _CLEAR * jnp.abs(state.upper)
    )
    return others, state._replace(
        point=point._replace(weights=weight, column_slacks=slack, value=point.value + shift),
        product=jnp.full_like(product, jnp.inf),
        num_stalled=jnp.where(is_crowded, whole.MOST_STALLED, 0).astype(jnp.int32),
    )
