"""The iterations of the interior point method for the game: the state, and when they end."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.example_weights.directions import advance, mean_product
from jboost.example_weights.game import (
    ScaledGame,
    ScaledGamePoint,
    attained_by,
    bounds,
    edges,
    first_point,
    margins,
)

MOST_STALLED = 8  # after so many iterations without progress, rounding prevents further progress


class ScaledGameState(NamedTuple):
    """An iterate, the best bounds so far, and the weights that prove these bounds."""

    point: ScaledGamePoint
    weights: Array  # [n] of the best lower bound
    row_weights: Array  # [m] of the best upper bound
    lower: Array  # [] in units of sigma, up to rounding
    upper: Array  # []
    product: Array  # [] the least mean complementary product
    num_iterations: Array  # [] int32
    num_stalled: Array  # [] int32 iterations in a row without progress


def begin(game: ScaledGame, initial: ScaledGamePoint | None = None) -> ScaledGameState:
    """The state before the first iteration. Its bounds are those of equal row weights and of the
    best column for them, which are optimal for a cap of 1 / m.
    """
    is_row = game.row_labels != 0
    even = jnp.where(is_row, 1 / jnp.maximum(game.num_rows, 1), 0.0)
    edge = jnp.where(game.column_labels != 0, edges(game, even), -jnp.inf)
    upper = reduce.largest(edge)
    weights = jnp.where(
        jnp.arange(edge.shape[0]) == numerics.first_true(edge == upper), 1.0, jnp.zeros_like(edge)
    )
    reached = margins(game, weights)
    lower = attained_by(game, numerics.masked_max(reached, is_row, fill=-jnp.inf), reached)
    none = jnp.zeros((), jnp.int32)
    return ScaledGameState(
        first_point(game, initial),
        weights,
        even,
        lower,
        upper,
        jnp.full_like(lower, jnp.inf),
        none,
        none,
    )


def pruned(state: ScaledGameState) -> ScaledGameState:
    """The state with exact zeros for the columns that strict complementarity excludes from the
    support, ready for the iterations that restore feasibility.
    """
    point = state.point
    weights = jnp.where(point.weights > point.column_slacks, point.weights, 0.0)
    lower, none = jnp.full_like(state.lower, -jnp.inf), jnp.zeros_like(state.num_stalled)
    return state._replace(
        point=point._replace(weights=weights), weights=weights, lower=lower, num_stalled=none
    )


def is_as_near(
    after: ScaledGameState, before: ScaledGameState, tolerance: Array, floor: Array
) -> Array:
    """Whether the gap is within the tolerance or no larger than before, []."""
    gap = after.upper - after.lower
    return jnp.isfinite(gap) & (
        gap <= jnp.maximum(_wanted(before, tolerance, floor), before.upper - before.lower)
    )


def _wanted(state: ScaledGameState, tolerance: Array, floor: Array) -> Array:
    """The largest gap that the tolerance allows, []; 0 while a bound is infinite."""
    size = jnp.maximum(jnp.abs(state.upper), jnp.abs(state.lower))
    return jnp.where(jnp.isfinite(size), tolerance * size + floor, 0.0)


def is_open(state: ScaledGameState, tolerance: Array, floor: Array) -> Array:
    """Whether the gap between the bounds is larger than the tolerance allows, []."""
    return state.upper - state.lower > _wanted(state, tolerance, floor)


def still_improves(state: ScaledGameState) -> Array:
    """Whether iterations still make progress, []."""
    return jnp.isfinite(state.point.value) & (state.num_stalled < MOST_STALLED)


def record(
    state: ScaledGameState, point: ScaledGamePoint, lower: Array, upper: Array, product: Array
) -> ScaledGameState:
    """The state after an iteration that ends in `point`. The weights of the point prove `lower`,
    its row weights prove `upper`, and `product` is its mean complementary product.
    """
    # comparisons with NaN, which rounding may cause, are False
    is_higher, is_lower, is_nearer = (
        lower > state.lower,
        upper < state.upper,
        product < state.product,
    )
    weights, lower = loops.cond(
        is_higher, lambda: (point.weights, lower), lambda: (state.weights, state.lower)
    )
    row_weights, upper = loops.cond(
        is_lower, lambda: (point.row_weights, upper), lambda: (state.row_weights, state.upper)
    )
    return ScaledGameState(
        point=point,
        weights=weights,
        row_weights=row_weights,
        lower=lower,
        upper=upper,
        product=jnp.where(is_nearer, product, state.product),
        num_iterations=state.num_iterations + 1,
        num_stalled=jnp.where(is_higher | is_lower | is_nearer, 0, state.num_stalled + 1).astype(
            jnp.int32
        ),
    )


def iterate(
    game: ScaledGame,
    state: ScaledGameState,
    *,
    tolerance: Array,
    floor: Array,
    num_iterations: Array,
) -> ScaledGameState:
    """Iterates over all columns until the gap is closed, progress ends, or `num_iterations` []
    are done.
    """
    end = state.num_iterations + num_iterations

    def step(state: ScaledGameState) -> ScaledGameState:
        point = advance(game, state.point)
        lower, upper = bounds(game, point)
        return record(state, point, lower, upper, mean_product(game, point))

    def unfinished(state: ScaledGameState) -> Array:
        return (
            is_open(state, tolerance, floor) & still_improves(state) & (state.num_iterations < end)
        )

    return loops.while_loop(unfinished, step, state)
