"""The loop of `jboost.l0.relaxation.halpern`: its start, the bounds at every check, and the
restarts.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jboost.base import loops, numerics
from jboost.base.types import Array
from jboost.l0.relaxation import certify
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.relaxation.halpern.iteration import (
    Best,
    HalpernPoint,
    HalpernState,
    MeasuredStep,
    iterate,
    mapped_point,
    measure,
)
from jboost.l0.relaxation.halpern.program import (
    HalpernProgram,
    initial_weight,
    make_program,
    power_iterations,
    sums_of,
    unscaled,
)
from jboost.l0.relaxation.halpern.proof import allow, prove_trial, store
from jboost.l0.relaxation.pair_blocks import PairLayout
from jboost.l0.types import Primal, RelaxationInstance

# The criteria of a restart (Lu, Peng and Yang 2025, cuPDLPx, Section 3).
_SUFFICIENT, _NECESSARY, _ARTIFICIAL = 0.2, 0.8, 0.36
# The controller of the primal weight (Lu, Peng and Yang 2025, cuPDLPx, Section 3).
_PROPORTIONAL, _INTEGRAL, _FADING = 0.99, 0.01, 0.3
_LARGEST_CHANGE = 1e5  # the primal weight stays within this factor of the first one
_SAFETY = 0.998  # step size times norm; below 1, as the norm is a lower bound
_POWER_ITERATIONS = 20  # before the first check; later ones continue with one iteration each
# The method has stalled if the gap did not fall below this share of itself while the number of
# iterations doubled, and in at least `_LEAST_STALLED` iterations.
_STALLED = 0.99
_LEAST_STALLED = 4_000


def _attained(
    instance: RelaxationInstance, primal: Primal, max_pair_entries: int
) -> tuple[Primal, Array]:
    """A feasible point near this one, and its objective."""
    point, least = certify.on_grid(instance, primal)
    required = pair_cuts.search(instance, point.selected, point.slacks, max_pair_entries)
    raised = certify.raised(instance, point, least, required)
    return raised, certify.price(instance, raised)


def check(
    program: HalpernProgram,
    state: HalpernState,
    layout: PairLayout,
    size: Array,
    max_pair_entries: int,
) -> HalpernState:
    """Proves both bounds at T z and restarts if a criterion holds. It takes four passes over the
    pairs and one search.
    """
    instance, scaling = program.instance, program.scaling
    mapped, move = mapped_point(program, state, layout, jnp.where(state.has_begun, size, 0.0))
    measured = measure(program, state, layout, mapped, move)
    weights = certify.cleaned(scaling.margins * mapped.margins)
    weights, allowance = allow(program, state, layout, move, weights, measured.sums)
    lower, convexity = prove_trial(program, state, layout, move, weights, allowance)
    primal, upper = _attained(instance, unscaled(mapped.primal, scaling), max_pair_entries)
    error, restarts = _should_restart(state, measured, size)
    is_better = lower > state.best.lower
    pairs, anchor_pairs, best_pairs = store(
        program, state, layout, move, allowance, is_better, restarts
    )
    best = Best(
        jax.tree.map(
            lambda new, old: jnp.where(upper <= state.best.upper, new, old),
            primal,
            state.best.primal,
        ),
        jnp.minimum(upper, state.best.upper),
        jnp.where(is_better, weights, state.best.weights),
        best_pairs,
        jnp.where(is_better, convexity, state.best.convexity),
        jnp.where(is_better, lower, state.best.lower),
    )
    moved = state._replace(pairs=pairs, anchor_pairs=anchor_pairs, best=best, last_error=error)
    return _mark(_restarted(moved, mapped, measured, restarts, size), gap(instance, best))


def gap(instance: RelaxationInstance, best: Best) -> Array:
    """The gap relative to the larger of the upper bound and the largest weight."""
    return (best.upper - best.lower) / jnp.maximum(
        jnp.where(jnp.isfinite(best.upper), best.upper, 0.0), instance.unit
    )


def _mark(state: HalpernState, gap: Array) -> HalpernState:
    """The state with its gap, and with the time when the gap last fell substantially."""
    falls = ~(gap > _STALLED * state.marked_gap)
    marked_gap, marked_at = (
        jnp.where(falls, gap, state.marked_gap),
        jnp.where(falls, state.num_iterations, state.marked_at),
    )
    return state._replace(gap=gap, marked_gap=marked_gap, marked_at=marked_at)


def is_stalled(state: HalpernState) -> Array:
    """Whether the gap has not fallen for a long time, [] bool, as rounding prevents it."""
    return state.num_iterations - state.marked_at > jnp.maximum(state.marked_at, _LEAST_STALLED)


def _error(measured: MeasuredStep, weight: Array, size: Array) -> Array:
    """The fixed-point error |z - T z|_P for a primal weight."""
    square = (
        weight * measured.primal_error**2 + measured.dual_error**2 / weight
    ) / size + 2 * measured.cross
    return jnp.sqrt(jnp.maximum(square, 0.0))


def _should_restart(
    state: HalpernState, measured: MeasuredStep, size: Array
) -> tuple[Array, Array]:
    """The fixed-point error, and whether to restart: it has fallen enough or the epoch is long."""
    error = _error(measured, state.primal_weight, size)
    restarts = (
        (error <= _SUFFICIENT * state.anchor_error)
        | ((error <= _NECESSARY * state.anchor_error) & (error > state.last_error))
        | (
            state.num_since.astype(error.dtype)
            >= _ARTIFICIAL * state.num_iterations.astype(error.dtype)
        )
    )
    return error, restarts & (state.num_iterations > 0)


def _restarted(
    state: HalpernState, mapped: HalpernPoint, measured: MeasuredStep, restarts: Array, size: Array
) -> HalpernState:
    """The state after a restart from T z, whose pairs are stored already; unchanged if `restarts`
    is False.
    """
    weight, imbalance = _next_weight(state, measured)
    after = state._replace(
        point=mapped,
        sums=measured.sums,
        anchor=mapped,
        primal_weight=weight,
        imbalance=imbalance,
        anchor_error=_error(measured, weight, size),
        last_error=jnp.full_like(size, jnp.inf),
        num_since=jnp.zeros_like(state.num_since),
        num_restarts=state.num_restarts + 1,
    )
    # The vectors of pairs are left out of the selection below, so that they are not copied.
    kept = state._replace(pairs=size, anchor_pairs=size, best=state.best._replace(pairs=size))
    moved = after._replace(pairs=size, anchor_pairs=size, best=kept.best)
    chosen = jax.tree.map(lambda new, old: jnp.where(restarts, new, old), moved, kept)
    met = jnp.abs(measured.cross) / jnp.maximum(
        measured.primal_error * measured.dual_error, jnp.finfo(size.dtype).tiny
    )
    norm = jnp.maximum(state.norm, jnp.where(jnp.isfinite(met), met, 0.0))
    return chosen._replace(
        pairs=state.pairs, anchor_pairs=state.anchor_pairs, best=state.best, norm=norm
    )


def _next_weight(state: HalpernState, measured: MeasuredStep) -> tuple[Array, Array]:
    """The primal weight after a restart and its imbalance, by the controller of cuPDLPx."""
    is_known = (measured.primal_moved > 0) & (measured.dual_moved > 0)
    excess = jnp.log(
        jnp.where(
            is_known,
            state.primal_weight
            * measured.primal_moved
            / jnp.where(is_known, measured.dual_moved, 1.0),
            1.0,
        )
    )
    imbalance = _FADING * state.imbalance + excess
    weight = state.primal_weight * jnp.exp(-_PROPORTIONAL * excess - _INTEGRAL * imbalance)
    weight = jnp.clip(
        weight, state.first_weight / _LARGEST_CHANGE, state.first_weight * _LARGEST_CHANGE
    )
    return jnp.where(is_known, weight, state.primal_weight), imbalance


def init(
    instance: RelaxationInstance,
    layout: PairLayout,
    primal: Primal,
    weights: Array,
    pairs: Array,
    primal_weight: Array,
) -> tuple[HalpernProgram, HalpernState]:
    """The program, and the state before the first iteration at an unscaled point.

    Args:
      instance: the relaxation.
      layout: static.
      primal: the starting point.
      weights: [m] w.
      pairs: [P, O, Q] v.
      primal_weight: [] 0 if unknown.
    """
    program = make_program(instance, layout)
    point = _scaled(program, primal, weights)
    zero, none = jnp.zeros((), pairs.dtype), jnp.zeros((), jnp.int32)
    infinite = zero + jnp.inf
    best = Best(primal, infinite, jnp.zeros_like(weights), jnp.zeros_like(pairs), zero, -infinite)
    first = jnp.where(primal_weight > 0, primal_weight, initial_weight(program))
    of_columns, of_examples = (
        numerics.spread(part.shape[0], pairs.dtype) for part in (instance.costs, weights)
    )
    state = HalpernState(
        point=point,
        pairs=pairs,
        sums=sums_of(program.pairs, layout, pairs, weights.shape[0]),
        anchor=point,
        anchor_pairs=pairs,
        norm=zero,
        direction=Primal(of_columns, of_columns, of_examples),
        first_weight=first,
        primal_weight=first,
        imbalance=zero,
        anchor_error=infinite,
        last_error=infinite,
        has_begun=jnp.zeros((), bool),
        num_since=none,
        num_iterations=none,
        num_restarts=none,
        best=best,
        gap=infinite,
        marked_gap=infinite,
        marked_at=none,
    )
    return program, loops.beside(state, program)


def _scaled(program: HalpernProgram, primal: Primal, weights: Array) -> HalpernPoint:
    """The scaled point of these primal variables and duals w [m], without duals of mu >= lambda."""
    scaling = program.scaling
    scaled = Primal(*(part / factor for part, factor in zip(primal, scaling.columns, strict=True)))
    return HalpernPoint(scaled, weights / scaling.margins, jnp.zeros_like(program.instance.costs))


def step(
    program: HalpernProgram,
    state: HalpernState,
    layout: PairLayout,
    iterations: int,
    max_pair_entries: int,
) -> HalpernState:
    """The iterations between two checks, and a check. The first call only checks the starting
    point.
    """
    count = jnp.where(state.norm > 0, 1, _POWER_ITERATIONS)
    norm, direction = power_iterations(program, layout, state.direction, count)
    norm = jnp.maximum(state.norm, norm)
    size = _SAFETY / jnp.where(norm > 0, norm, 1.0)
    state = state._replace(norm=norm, direction=direction)
    ran = loops.fori_loop(
        0,
        jnp.where(state.has_begun, iterations, 0),
        lambda _, now: iterate(program, now, layout, size),
        state,
    )
    return check(program, ran, layout, size, max_pair_entries)._replace(
        has_begun=jnp.ones((), bool)
    )
