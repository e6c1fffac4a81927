"""The interior point method for the game over a working set of columns.

The optimum has few columns of positive weight. An iteration over k of n columns costs about
(k / n)^2 of an iteration over all columns, and one product computes the edges of the others. When
the gap over the working set is small compared with the gap over all columns, the columns outside
the support are replaced by those of largest edge. A column that enters gets the weight that its
slack implies on the central path. The value is first raised so far that the new columns together
have little weight. If the support is too large for the working set, the game is solved over all
columns.

A second stage sets the columns outside the support to exact zeros and restores feasibility in a few
iterations, again over a working set first. Both stages are passes of one loop, so that each kind of
iteration is compiled once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.example_weights import directions, iterations
from jboost.example_weights import game as whole
from jboost.example_weights.game import ScaledGame, ScaledGamePoint
from jboost.example_weights.iterations import ScaledGameState

# Columns are exchanged when the gap over the working set is below this share of the gap over all.
_SHARE_OF_GAP = 0.5
# With a support above this share of the working set, too few columns can enter.
_MOST_SUPPORT = 0.75
# Below this gap, relative to the bounds, the weights show which columns are in the support.
_CLEAR = 0.001
_MOST_ITERATIONS = 50  # over a working set, before all columns are used
_MOST_REPAIRS = 8  # the most iterations that restore feasibility after pruning


class _TargetGap(NamedTuple):
    """The gap at which to stop: tolerance * (the larger size of the bounds) + floor."""

    tolerance: Array  # []
    floor: Array  # []


class _Stages(NamedTuple):
    """The states between two stages."""

    state: ScaledGameState  # over all columns
    solved: ScaledGameState  # after the first stage


def num_at_hand(num_columns: int) -> int | None:
    """The size of the working set, or None where it would save too little."""
    size = 16 * round(6.5 * math.sqrt(num_columns) / 16)
    return size if 0 < size <= 0.6 * num_columns else None  # 0 for a single column


def solve(
    game: ScaledGame,
    *,
    tolerance: Array,
    floor: Array,
    max_iterations: int,
    prunes: bool,
    initial: ScaledGamePoint | None = None,
) -> tuple[ScaledGameState, ScaledGameState]:
    """Iterates until upper - lower <= tolerance * max(|upper|, |lower|) + floor (in units of
    sigma), or until rounding prevents further progress.

    Args:
      game: n columns.
      tolerance: [].
      floor: [].
      max_iterations: static, over all columns.
      prunes: static, whether to set columns outside the support to exact zeros.
      initial: a point of a game with the same rows and columns, or None.

    Returns:
      The state before pruning, and the state to use. The latter is the pruned state if its gap is
      within the tolerance or no larger than before; otherwise it is the former.
    """
    first, aim = iterations.begin(game, initial), _TargetGap(tolerance, floor)
    size = num_at_hand(game.column_labels.shape[0])
    first_set = None if size is None else _first_working_set(game, first, size, initial)

    def stage(number: Array, stages: _Stages) -> _Stages:
        is_pruning, state = number > 0, stages.state
        is_open = jnp.ones((), bool)
        if size is not None and first_set is not None:
            limit = jnp.where(is_pruning, _MOST_REPAIRS, min(max_iterations, _MOST_ITERATIONS))
            found = _over_working_set(
                game, state, size, is_pruning, first_set, aim, num_iterations=limit
            )
            state, is_taken = _take_if_near(found, state, is_pruning, aim)
            is_open = jnp.where(is_pruning, ~is_taken, iterations.is_open(state, tolerance, floor))
        begun = _begin_over_all(first, state, is_pruning)
        limit = jnp.where(is_open, jnp.where(is_pruning, _MOST_REPAIRS, max_iterations), 0)
        found = iterations.iterate(
            game, begun, tolerance=tolerance, floor=floor, num_iterations=limit
        )
        taken, _ = _take_if_near(found, state, is_pruning, aim)
        state = loops.cond(is_open, lambda: taken, lambda: state)
        return _Stages(state, loops.cond(is_pruning, lambda: stages.solved, lambda: state))

    last = loops.fori_loop(0, 2 if prunes else 1, stage, _Stages(first, first))
    return last.solved, last.state


def _take_if_near(
    found: ScaledGameState, before: ScaledGameState, is_pruning: Array, aim: _TargetGap
) -> tuple[ScaledGameState, Array]:
    """The state `found` and True; after a pruning that widened the gap too far, the state `before`
    and False.
    """
    is_taken = ~is_pruning | iterations.is_as_near(found, before, *aim)
    state: ScaledGameState = loops.cond(is_taken, lambda: found, lambda: before)
    return state, is_taken


def _begin_over_all(
    first: ScaledGameState, state: ScaledGameState, is_pruning: Array
) -> ScaledGameState:
    """The state before iterations over all columns: at the first point, or pruned.

    The point of the working set is not used: these iterations follow only where it failed.
    """
    fresh = state._replace(point=first.point, product=first.product, num_stalled=first.num_stalled)
    begun: ScaledGameState = loops.cond(is_pruning, lambda: iterations.pruned(state), lambda: fresh)
    return begun


class _WorkingSet(NamedTuple):
    """A working set and its state. Arrays over columns in the state are over the working set,
    except its weights, which are over `best`.
    """

    columns: Array  # [k] int32 the working set
    best: Array  # [k] int32 the working set of the best lower bound
    state: ScaledGameState


def _over_working_set(
    game: ScaledGame,
    before: ScaledGameState,
    size: int,
    is_pruning: Array,
    first_set: _WorkingSet,
    aim: _TargetGap,
    *,
    num_iterations: Array,
) -> ScaledGameState:
    """The state, over all columns, after iterations over a working set."""
    begun = _begin_over_working_set(game, before, size, is_pruning, first_set)
    end = before.num_iterations + num_iterations

    def step(working: _WorkingSet) -> _WorkingSet:
        some = whole.take(game, working.columns)
        point = directions.advance(some, working.state.point)
        edges = jnp.where(
            game.column_labels != 0,
            whole.edges(game, whole.allowed(game, point.row_weights)),
            -jnp.inf,
        )
        lower, upper = whole.attained(some, point), reduce.largest(edges[working.columns])
        highest, product = reduce.largest(edges), directions.mean_product(some, point)
        best = loops.cond(
            lower > working.state.lower, lambda: working.columns, lambda: working.best
        )
        state = iterations.record(working.state, point, lower, highest, product)
        is_due = (upper - lower < _SHARE_OF_GAP * (highest - lower)) & ~is_pruning
        columns, state = loops.cond(
            is_due,
            lambda: _exchange(game, working.columns, state, product),
            lambda: (working.columns, state),
        )
        return _WorkingSet(columns, best, state)

    def unfinished(working: _WorkingSet) -> Array:
        return (
            iterations.is_open(working.state, *aim)
            & iterations.still_improves(working.state)
            & (working.state.num_iterations < end)
        )

    working = loops.while_loop(unfinished, step, begun)
    return working.state._replace(
        point=_widen(game, working.columns, working.state.point),
        weights=_spread(game, working.best, working.state.weights),
    )


def _first_working_set(
    game: ScaledGame, first: ScaledGameState, size: int, initial: ScaledGamePoint | None
) -> _WorkingSet:
    """The first working set, and the state before iterations over it. The weights of the state are
    those of the single column that proves the lower bound.
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
    return _WorkingSet(columns, best, first._replace(point=point, weights=weights))


def _activity(game: ScaledGame, point: ScaledGamePoint) -> Array:
    """Scores [n]: weights divided by slacks."""
    return jnp.where(game.column_labels != 0, point.weights / point.column_slacks, -1.0)


def _begin_over_working_set(
    game: ScaledGame, before: ScaledGameState, size: int, is_pruning: Array, first_set: _WorkingSet
) -> _WorkingSet:
    """The state before iterations over a working set: the first one, or after the first stage the
    pruned set of the columns of largest activity.
    """

    def prune() -> _WorkingSet:
        columns = numerics.top_k(_activity(game, before.point), size)[1]
        weights, slacks = jnp.stack([before.point.weights, before.point.column_slacks])[:, columns]
        narrow = before._replace(point=before.point._replace(weights=weights, column_slacks=slacks))
        return _WorkingSet(columns, columns, iterations.pruned(narrow))

    working: _WorkingSet = loops.cond(is_pruning, prune, lambda: first_set)
    return working


def _spread(game: ScaledGame, columns: Array, values: Array) -> Array:
    """Values [k] or [k, r] of some columns, with zeros for the others, [n] or [n, r]. Values of a
    column that occurs twice are added.
    """
    return (
        jnp.zeros((game.column_labels.shape[0], *values.shape[1:]), values.dtype)
        .at[columns]
        .add(values)
    )


def _widen(game: ScaledGame, columns: Array, point: ScaledGamePoint) -> ScaledGamePoint:
    """The point over all columns. The other columns have weight 0 and the slack value - edge."""
    held = jnp.stack([jnp.ones_like(point.weights), point.weights, point.column_slacks], axis=1)
    is_held, weights, slacks = _spread(game, columns, held).T
    of_others = jnp.maximum(point.value - _edges(game, point), jnp.finfo(point.value.dtype).tiny)
    slacks = jnp.where(is_held > 0, slacks, of_others)
    return point._replace(
        weights=weights, column_slacks=jnp.where(game.column_labels != 0, slacks, 1.0)
    )


def _edges(game: ScaledGame, point: ScaledGamePoint) -> Array:
    """The edges [n] at an iterate; a slack is the value minus the edge."""
    return game.column_labels * point.tilt - jnp.matmul(
        game.matrix, point.row_weights, precision=lax.Precision.HIGHEST
    )


def _evenness(game: ScaledGame, size: int) -> Array:
    """Scores [n] that are highest for `size` columns, spread evenly over those not masked; masked
    columns have the lowest.
    """
    is_column = game.column_labels != 0
    count = reduce.count(is_column)
    place = jnp.cumsum(is_column, dtype=jnp.int32) - 1
    steps = (place + 1) * size // jnp.maximum(count, 1) - place * size // jnp.maximum(count, 1)
    return jnp.where(is_column, jnp.minimum(steps, 1), -1).astype(game.column_labels.dtype)


def _exchange(
    game: ScaledGame, columns: Array, state: ScaledGameState, product: Array
) -> tuple[Array, ScaledGameState]:
    """A new working set, which holds the support and the columns of largest edge, and an iterate
    over it near the central path.
    """
    point, size, is_column = state.point, columns.shape[0], game.column_labels != 0
    edge = _edges(game, point)
    held = jnp.stack([jnp.ones_like(point.weights), point.weights, point.column_slacks], axis=1)
    is_held, weights, slacks = _spread(game, columns, held).T
    slacks = jnp.where(is_held > 0, slacks, point.value - edge)
    is_kept = (is_held > 0) & (weights > slacks)
    highest, num_kept = reduce.several(
        (reduce.LARGEST, edge), (reduce.SUM, is_kept.astype(edge.dtype))
    )
    score = jnp.where(is_kept, highest + weights / jnp.where(is_kept, slacks, 1.0), edge)
    others = numerics.top_k(jnp.where(is_column, score, -jnp.inf), size)[1]
    weight, slack, was_held, labels = jnp.stack([weights, slacks, is_held, game.column_labels])[
        :, others
    ]
    enters = (labels != 0) & (was_held == 0)
    shift = jnp.maximum(size * product - reduce.least(jnp.where(enters, slack, jnp.inf)), 0.0)
    slack = jnp.where(labels != 0, slack + shift, 1.0)
    weight = jnp.where(enters, product / slack, weight)
    is_crowded = (num_kept > _MOST_SUPPORT * size) & (
        state.upper - state.lower < _CLEAR * jnp.abs(state.upper)
    )
    return others, state._replace(
        point=point._replace(weights=weight, column_slacks=slack, value=point.value + shift),
        product=jnp.full_like(product, jnp.inf),
        num_stalled=jnp.where(is_crowded, iterations.MOST_STALLED, 0).astype(jnp.int32),
    )
