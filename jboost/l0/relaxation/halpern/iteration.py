"""One reflected Halpern iteration, and the pass over the pairs that measures its progress."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base.types import Array
from jboost.l0.relaxation import pair_blocks
from jboost.l0.relaxation.halpern.program import (
    HalpernProgram,
    back_product,
    dot,
    norm_of,
    reached_by,
    small_rows,
    unscaled,
)
from jboost.l0.relaxation.pair_blocks import Block, PairLayout, Sums
from jboost.l0.types import Primal
from jboost.projections import projection_capped_simplex


class HalpernPoint(NamedTuple):
    """A scaled point without the duals of the cuts."""

    primal: Primal
    margins: Array  # [m] duals of the margins
    orders: Array  # [U] duals of mu >= lambda


class Best(NamedTuple):
    """The best bounds so far and the solutions that prove them."""

    primal: Primal
    upper: Array  # []
    weights: Array  # [m] w
    pairs: Array  # [P, O, Q] v
    convexity: Array  # []
    lower: Array  # []


class HalpernState(NamedTuple):
    """The state between two checks."""

    point: HalpernPoint
    pairs: Array  # [P, O, Q] scaled duals of the cuts
    sums: Sums  # of `pairs`
    anchor: HalpernPoint
    anchor_pairs: Array  # [P, O, Q]
    norm: Array  # [] lower bound on the largest singular value
    direction: Primal  # approximate singular vector of it
    first_weight: Array  # [] primal weight at the start
    primal_weight: Array  # []
    imbalance: Array  # [] discounted sum over restarts of log(primal move / dual move)
    anchor_error: Array  # [] fixed-point error at the anchor
    last_error: Array  # [] fixed-point error at the last check
    has_begun: Array  # [] bool, False before the check of the starting point
    num_since: Array  # [] int32 iterations since the restart
    num_iterations: Array  # [] int32
    num_restarts: Array  # [] int32
    best: Best
    gap: Array  # [] relative
    marked_gap: Array  # [] the gap when it last fell substantially
    marked_at: Array  # [] int32 number of iterations at that time


class HalpernStep(NamedTuple):
    """The data from which T computes the duals of the cuts: the dual step and the extrapolated
    primal point, times the factor of the cuts.
    """

    step: Array  # []
    least: Array  # [] right-hand side of a scaled cut
    selected: Array  # [U]
    by_row: Array  # [P]
    by_column: Array  # [Q]


def mapped_point(
    program: HalpernProgram, state: HalpernState, layout: PairLayout, size: Array
) -> tuple[HalpernPoint, HalpernStep]:
    """T z without the duals of the cuts, and the `HalpernStep` that computes those."""
    instance, scaling = program.instance, program.scaling
    point = state.point
    slope = back_product(
        program, point.margins, point.orders, Sums(*(scaling.cuts * part for part in state.sums))
    )
    costs = unscaled(
        Primal(jnp.zeros_like(instance.costs), instance.costs, instance.weights), scaling
    )
    step = size / state.primal_weight
    trial = unscaled(
        Primal(
            *(
                old - step * (cost - priced)
                for old, cost, priced in zip(point.primal, costs, slope, strict=True)
            )
        ),
        scaling,
    )
    primal = _projected(program, trial)
    ahead = unscaled(
        Primal(*(2 * new - old for new, old in zip(primal, point.primal, strict=True))), scaling
    )
    rise = size * state.primal_weight
    margins, orders = small_rows(program, ahead)
    least = jnp.where(program.is_real, scaling.margins * instance.margin, 0.0)
    by_row, by_column = pair_blocks.of_ends(scaling.cuts * ahead.slacks, layout)
    move = HalpernStep(rise, scaling.cuts, scaling.cuts * ahead.selected, by_row, by_column)
    return HalpernPoint(
        primal,
        jnp.maximum(point.margins + rise * (least - margins), 0.0),
        jnp.maximum(point.orders - rise * orders, 0.0),
    ), move


def _projected(program: HalpernProgram, trial: Primal) -> Primal:
    """The scaled projection of an unscaled point onto the simplex and the boxes."""
    is_column = program.instance.is_column
    coefficients = projection_capped_simplex(trial.coefficients, 1.0, mask=is_column)
    selected = jnp.where(is_column, jnp.clip(trial.selected, 0.0, 1.0), 0.0)
    slacks = jnp.where(program.is_real, jnp.clip(trial.slacks, 0.0, 1.0), 0.0)
    return Primal(
        *(
            part / scale
            for part, scale in zip(
                (coefficients, selected, slacks), program.scaling.columns, strict=True
            )
        )
    )


def trial_of(block: Block, pairs: Array, move: Any, by_row: Array) -> Array:
    """T v of a block, [R, O, Q]."""
    missing = move.least - reached_by(block, move.selected, by_row, move.by_column)
    return jnp.where(block.is_cut, jnp.maximum(pairs + move.step * missing, 0.0), 0.0)


def without_rows(move: HalpernStep) -> HalpernStep:
    """The move without the values by row, which a sweep passes separately."""
    return move._replace(by_row=jnp.zeros((0,), move.step.dtype))


def iterate(
    program: HalpernProgram, state: HalpernState, layout: PairLayout, size: Array
) -> HalpernState:
    """One reflected Halpern iteration: one pass over the pairs."""
    mapped, move = mapped_point(program, state, layout, size)
    share = 1 / (state.num_since + 2).astype(size.dtype)

    def towards(old: Array, new: Array, anchor: Array) -> Array:
        reflected = new + (new - old)
        return reflected - share * (reflected - anchor)

    def body(block: Block, updated: Any, read: Any, by_row: Array, whole: Any) -> Any:
        move, share = whole
        new = trial_of(block, updated[0], move, by_row)
        reflected = new + (new - updated[0])
        after = reflected - share * (reflected - read[0])
        return (after,), pair_blocks.sums_of_block(block, after)

    (pairs,), results = pair_blocks.sweep(
        program.pairs,
        layout,
        body,
        updated=(state.pairs,),
        read=(state.anchor_pairs,),
        of_rows=move.by_row,
        whole=(without_rows(move), share),
    )
    sums = pair_blocks.gather_sums(results, layout, program.is_real.shape[0])
    point = jax.tree.map(towards, state.point, mapped, state.anchor)
    return state._replace(
        point=point,
        pairs=pairs,
        sums=sums,
        num_since=state.num_since + 1,
        num_iterations=state.num_iterations + 1,
    )


class MeasuredStep(NamedTuple):
    """The distances that z and T z have moved, and the sums of T v."""

    primal_error: Array  # [] |T x - x|
    dual_error: Array  # []
    cross: Array  # [] (T y - y) A (T x - x)
    primal_moved: Array  # [] |T x - x_0|
    dual_moved: Array  # []
    sums: Sums  # of T v


def measure(
    program: HalpernProgram,
    state: HalpernState,
    layout: PairLayout,
    mapped: HalpernPoint,
    move: HalpernStep,
) -> MeasuredStep:
    """Measures T z in one pass over the pairs, without changing the state."""

    def body(block: Block, _: Any, read: Any, by_row: Array, move: Any) -> Any:
        new = trial_of(block, read[0], move, by_row)
        error, moved = new - read[0], new - read[1]
        return (), (
            jnp.sum(error * error),
            jnp.sum(moved * moved),
            pair_blocks.sums_of_block(block, new),
        )

    read = (state.pairs, state.anchor_pairs)
    _, (errors, moves, results) = pair_blocks.sweep(
        program.pairs, layout, body, read=read, of_rows=move.by_row, whole=without_rows(move)
    )
    sums = pair_blocks.gather_sums(results, layout, program.is_real.shape[0])
    change, moved = (
        jax.tree.map(jnp.subtract, mapped, other) for other in (state.point, state.anchor)
    )
    rise = Sums(
        *(program.scaling.cuts * (new - old) for new, old in zip(sums, state.sums, strict=True))
    )
    cross = dot(back_product(program, change.margins, change.orders, rise), change.primal)
    dual_error, dual_moved = (
        jnp.sqrt(dot(part[1:], part[1:]) + jnp.sum(squares))
        for part, squares in ((change, errors), (moved, moves))
    )
    return MeasuredStep(
        norm_of(change.primal), dual_error, cross, norm_of(moved.primal), dual_moved, sums
    )
