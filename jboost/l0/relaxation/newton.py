"""The iterations of the interior point method over a working set: Mehrotra's predictor and
corrector (Mehrotra 1992), and further correctors (Gondzio 1996).

The program and its notation are those of `system`. One loop handles all right-hand sides of an
iteration, so that the solve is compiled only once.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import loops, reduce
from jboost.base.types import Array
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.relaxation import system as linear
from jboost.l0.relaxation.system import (
    Cover,
    System,
    VariableParts,
    WorkingSetPoint,
    WorkingSetProgram,
    columns_of,
    parts_of,
    priced,
    reached,
)

# The share of the step to the boundary that is taken, so that iterates stay inside.
_TO_BOUNDARY = 0.995
# An iteration stalls if it does not reduce the error below this share; so many in a row end the
# solve.
_PROGRESS, _MAX_STALLED = 0.9, 5
# The least sum of the complementary products, as a share of the tolerance: far below the tolerance
# rounding increases the residuals.
_SHARE = 0.3
# From this size of the minority class on, a second program for a small cover is worth its
# compilation. The small cover has at most the share `_FEWER` of the minority class.
_WORTH_TWO = 512
_FEWER = 9 / 16
_AMBITION = 0.3  # a further corrector aims at steps longer by this
# A further corrector is accepted if it increases the sum of the primal and dual steps by this.
_LONGER = 0.01
_UNIT, _PREDICTOR, _CORRECTOR = range(3)  # stages of an iteration
_LEAST_RATE = 1e-30  # least relative rate of decrease, so that steps to the boundary are finite


class NewtonResiduals(NamedTuple):
    """The residuals of an iterate."""

    duals: Array  # [m + 2 U] of x = (xi, lambda, mu)
    room: Array  # [U]
    rows: Array  # [m + K]
    convexity: Array  # []


def _no_residuals(program: WorkingSetProgram) -> NewtonResiduals:
    (num_examples, num_columns), num_cuts = program.instance.margins.shape, program.served.shape[0]
    sizes = (num_examples + 2 * num_columns,), (num_columns,), (num_examples + num_cuts,), ()
    duals, room, rows, convexity = (jnp.zeros(size, program.served.dtype) for size in sizes)
    return NewtonResiduals(duals, room, rows, convexity)


class _NewtonAim(NamedTuple):
    """A direction and its targets."""

    targets: Array  # [n] intended changes of the complementary products
    change: WorkingSetPoint
    reach: Array  # [2] the primal and dual steps at which the first entry becomes 0
    goal: Array  # [] the intended value of all products


class _NewtonIteration(NamedTuple):
    """What all stages of an iteration share."""

    system: System
    point: WorkingSetPoint  # at the start of the iteration
    least: Array  # [] the least sum of the complementary products
    now: Array  # [] their sum at the start
    count: Array  # [] their number
    mend: int  # number of the stage `mend`


class _Stage(NamedTuple):
    """The state between two right-hand sides of an iteration."""

    unit: Array  # [m + 2 U] solution x for a unit change of alpha
    aim: _NewtonAim
    trial: WorkingSetPoint
    missing: NewtonResiduals  # of the trial


def _advance(
    program: WorkingSetProgram,
    cover: Cover,
    point: WorkingSetPoint,
    least: Array,
    num_correctors: int,
) -> tuple[WorkingSetPoint, NewtonResiduals, Array]:
    """One iteration: a predictor, a corrector and further correctors, with products that sum to at
    least `least`. Returns the next iterate, its residuals, and the lesser of its two steps.

    The stages are the solve for a unit change of alpha, the predictor, the corrector, and the
    further correctors. The stage `mend` removes the dual residuals that rounding leaves at the end
    of the direction; the residuals of rows are only rounding there. The last stage computes the
    residuals of the next iterate.
    """
    system = linear.factorise(program, cover, point.sides[1] / point.sides[0])
    count = reduce.count(program.is_used, dtype=least.dtype)
    now = reduce.total(point.sides[0] * point.sides[1])
    mend = _CORRECTOR + 1 + num_correctors
    iteration = _NewtonIteration(system, point, least, now, count, mend)
    nothing = jax.tree.map(jnp.zeros_like, point)
    first = _NewtonAim(
        jnp.zeros_like(point.sides[0]), nothing, jnp.zeros((2,), least.dtype), jnp.zeros_like(least)
    )
    last = loops.fori_loop(
        0,
        mend + 2,
        functools.partial(_next_stage, iteration),
        _Stage(jnp.zeros_like(_unit_of_alpha(program)), first, point, _no_residuals(program)),
    )
    return last.trial, last.missing, jnp.min(_steps(last.aim.reach))


def _next_stage(iteration: _NewtonIteration, number: Array, before: _Stage) -> _Stage:
    """The state after the stage of this number."""
    point, program = iteration.point, iteration.system.program
    aim, is_mending = before.aim, number == iteration.mend
    ahead = jnp.where(number < iteration.mend, 0.0, jnp.where(is_mending, 1.0, _steps(aim.reach)))
    trial = _moved(point, aim.change, ahead)
    targets = jnp.where(
        program.is_used & ~is_mending, aim.targets + _correction(point, aim, number), 0.0
    )
    missing, right = _residuals(iteration.system, point, trial, targets, is_mending)
    now = _Stage(before.unit, aim, trial, missing)
    unit, aim = loops.cond(
        number <= iteration.mend,
        lambda: _aimed(iteration, number, now, targets, right, is_mending),
        lambda: (now.unit, now.aim),
    )
    return _Stage(unit, aim, trial, missing)


def _aimed(
    iteration: _NewtonIteration,
    number: Array,
    now: _Stage,
    targets: Array,
    right: Array,
    is_mending: Array,
) -> tuple[Array, _NewtonAim]:
    """Solves for the right-hand side of a stage. Returns the solution for a unit change of alpha,
    and the new direction if it is accepted, else the old one.
    """
    system, point, aim = iteration.system, iteration.point, now.aim
    program = system.program
    found = linear.solve_refined(
        system,
        jnp.where(number == _UNIT, _unit_of_alpha(program), right),
        jnp.where(is_mending, 1, linear.MOST_REFINEMENTS[point.sides.dtype.itemsize]),
    )
    unit = jnp.where(number == _UNIT, found, now.unit)
    change = _complete(system, point, now.missing, targets, unit, found)
    change = jax.tree.map(
        lambda new, old: jnp.where(is_mending, new + old, new), change, aim.change
    )
    reach = _reach(program, point, change)
    goal = _goal(iteration, change, reach)
    is_longer = jnp.sum(jnp.minimum(reach, 1.0)) > jnp.sum(jnp.minimum(aim.reach, 1.0)) + _LONGER
    fresh = _NewtonAim(targets, change, reach, jnp.where(number == _PREDICTOR, goal, aim.goal))
    is_taken = (number > _UNIT) & (is_longer | (number <= _CORRECTOR) | is_mending)
    return unit, loops.cond(is_taken, lambda: fresh, lambda: aim)


def _goal(iteration: _NewtonIteration, change: WorkingSetPoint, reach: Array) -> Array:
    """The intended value of all products, [], if `change` is the predictor (Mehrotra 1992)."""
    ahead = _moved(iteration.point, change, jnp.minimum(reach, 1.0)).sides
    centring = jnp.clip((reduce.total(ahead[0] * ahead[1]) / iteration.now) ** 3, 1e-6, 1.0)
    share = jnp.minimum(jnp.maximum(centring, iteration.least / iteration.now), 1.0)
    return share * iteration.now / iteration.count


def _unit_of_alpha(program: WorkingSetProgram) -> Array:
    """The right-hand side [m + 2 U] for a unit change of alpha."""
    used = parts_of(program, program.is_used)
    return jnp.concatenate(
        [jnp.zeros_like(used.slacks), used.coefficients, jnp.zeros_like(used.extra)]
    ).astype(program.served.dtype)


def _moved(point: WorkingSetPoint, change: WorkingSetPoint, steps: Array) -> WorkingSetPoint:
    """The point after the primal and dual steps [2], or one step [] for both, along a direction."""
    both = jnp.broadcast_to(steps, (2,))
    return WorkingSetPoint(
        point.sides + both[:, None] * change.sides, point.convexity + both[1] * change.convexity
    )


def _steps(reach: Array) -> Array:
    return jnp.minimum(_TO_BOUNDARY * reach, 1.0)


def _reach(program: WorkingSetProgram, point: WorkingSetPoint, change: WorkingSetPoint) -> Array:
    """The primal and dual steps [2] at which the first entry becomes 0."""
    sides = jnp.where(program.is_used[None, :], point.sides, 1.0)
    return 1 / jnp.maximum(-reduce.least(change.sides / sides), _LEAST_RATE)


def _correction(point: WorkingSetPoint, aim: _NewtonAim, number: Array) -> Array:
    """The changes that bring the complementary products [n] of the trial point to the goal.

    A further corrector (Gondzio 1996) computes the products at a longer step than the direction
    allows. It brings them only into the interval from a tenth of the goal to ten times the goal,
    and decreases none by more than ten times the goal.
    """
    is_further = number > _CORRECTOR
    ahead = _moved(
        point, aim.change, jnp.where(is_further, jnp.minimum(aim.reach + _AMBITION, 1.0), 1.0)
    ).sides
    product = ahead[0] * ahead[1]
    low, high = (
        jnp.where(is_further, 0.1 * aim.goal, aim.goal),
        jnp.where(is_further, 10 * aim.goal, aim.goal),
    )
    change = jnp.clip(product, low, high) - product
    return jnp.where(is_further, jnp.maximum(change, -10 * aim.goal), change)


def _residuals(
    system: System,
    point: WorkingSetPoint,
    trial: WorkingSetPoint,
    targets: Array,
    is_mending: Array,
) -> tuple[NewtonResiduals, Array]:
    """The residuals of a trial point, 0 where unused, and the right-hand side [m + 2 U] for changes
    of the products by `targets`.
    """
    program = system.program
    used, num_rows = parts_of(program, program.is_used), sum(linear.num_rows(program))
    is_used = jnp.concatenate([used.slacks, used.coefficients, used.coefficients])
    primal, dual = (parts_of(program, side) for side in trial.sides)
    columns = jnp.where(
        is_used,
        jnp.concatenate([primal.slacks, primal.coefficients, primal.coefficients + primal.extra]),
        0.0,
    )
    of_rows, of_room = _primal_residuals(program, primal, trial.sides[0, -num_rows:], columns)
    of_rows = jnp.where(program.is_used[-num_rows:] & ~is_mending, of_rows, 0.0)
    of_room = jnp.where(used.room & ~is_mending, of_room, 0.0)

    scaled, ratio = targets / point.sides[0], parts_of(program, system.ratio)
    both = priced(
        program,
        jnp.stack(
            [trial.sides[1, -num_rows:], scaled[-num_rows:] - system.ratio[-num_rows:] * of_rows]
        ),
    )
    of_duals = jnp.where(is_used, _slope(program, dual, trial.convexity) - both[0], 0.0)
    of_scaled = parts_of(program, scaled)
    to_extra = of_scaled.extra - of_scaled.room - ratio.room * of_room
    right = (
        both[1]
        - of_duals
        + jnp.concatenate([of_scaled.slacks, of_scaled.coefficients - to_extra, to_extra])
    )
    return NewtonResiduals(
        of_duals, of_room, of_rows, jnp.sum(columns_of(program, columns)[1]) - 1
    ), right


def _primal_residuals(
    program: WorkingSetProgram, primal: VariableParts, surplus: Array, columns: Array
) -> tuple[Array, Array]:
    """The residuals of the rows [m + K] with their surplus, and of extra + room = 1 [U].

    A residual is set to 0 if it is no more than rounding: a row near its bound would amplify it.
    """
    sides = jnp.concatenate(
        [jnp.full_like(primal.margins, program.instance.margin), jnp.ones_like(primal.cuts)]
    )
    of_rows = reached(program, columns) - surplus - sides
    return _beyond_rounding(of_rows), _beyond_rounding(primal.extra + primal.room - 1)


def _slope(program: WorkingSetProgram, dual: VariableParts, convexity: Array) -> Array:
    """The slope [m + 2 U] of the Lagrangian in x, without the terms of the rows."""
    of_bounds = dual.room - dual.extra
    return jnp.concatenate(
        [
            program.instance.weights - dual.slacks,
            -convexity - dual.coefficients - of_bounds,
            program.instance.costs + of_bounds,
        ]
    )


def _beyond_rounding(residual: Array) -> Array:
    return jnp.where(jnp.abs(residual) > 16 * jnp.finfo(residual.dtype).eps, residual, 0.0)


def _complete(
    system: System,
    point: WorkingSetPoint,
    missing: NewtonResiduals,
    targets: Array,
    unit: Array,
    found: Array,
) -> WorkingSetPoint:
    """All parts of a direction, from the solutions [m + 2 U] for a unit change of alpha and for the
    right-hand side.
    """
    program = system.program
    of_unit, of_found = (jnp.sum(columns_of(program, part)[1]) for part in (unit, found))
    convexity = (-missing.convexity - of_found) / jnp.where(of_unit > 0, of_unit, 1.0)
    columns = found + convexity * unit
    slacks, coefficients, selected = columns_of(program, columns)
    extra = selected - coefficients
    of_rows = reached(program, columns) + missing.rows
    primal = jnp.where(
        program.is_used,
        jnp.concatenate([coefficients, extra, -extra - missing.room, slacks, of_rows]),
        0.0,
    )
    return WorkingSetPoint(
        jnp.stack([primal, targets / point.sides[0] - system.ratio * primal]), convexity
    )


class NewtonState(NamedTuple):
    """The current iterate and the best one so far."""

    point: WorkingSetPoint
    best: WorkingSetPoint
    error: Array  # [] of the best
    num_iterations: Array  # [] int32
    num_stalled: Array  # [] int32 stalled iterations in a row
    is_sound: Array  # [] bool, False after a step of length 0 or an error that is not finite


def error_of(
    program: WorkingSetProgram, point: WorkingSetPoint, missing: NewtonResiduals, scale: Array
) -> Array:
    """The sum of the complementary products and a bound on the cost of the residuals, relative to a
    scale of the objective, [].
    """
    slacks, coefficients, selected = columns_of(program, missing.duals)
    margins, cuts = linear.rows_of(program, jnp.abs(missing.rows))
    lacks = jnp.concatenate(
        [program.instance.weights * margins, parts_of(program, point.sides[1]).cuts * cuts]
    )
    gap = reduce.total(
        jnp.concatenate(
            [point.sides[0] * point.sides[1], jnp.abs(slacks), jnp.abs(selected), lacks]
        )
    )
    return (gap + jnp.max(jnp.abs(coefficients + selected), initial=0.0)) / scale


def solve(
    program: WorkingSetProgram,
    point: WorkingSetPoint,
    *,
    scale: Array,
    tolerance: Array,
    config: Any,
) -> tuple[WorkingSetPoint, Array, Array]:
    """Iterates until the error is within the tolerance; an infinite tolerance means no iteration.

    Returns the best iterate, its error, and the number of iterations.
    """
    is_in = linear.is_in_cover(program)
    most = pair_cuts.max_minority_size(is_in.shape[0])
    fewer = int(_FEWER * most)

    def with_capacity(size: int, tolerance: Array) -> tuple[WorkingSetPoint, Array, Array]:
        return _solve(program, linear.cover_of(is_in, size), point, scale, tolerance, config)

    if most < _WORTH_TWO:
        return with_capacity(most, tolerance)
    return loops.one_of(
        reduce.count(is_in) <= fewer,
        tolerance,
        jnp.inf,
        functools.partial(with_capacity, fewer),
        functools.partial(with_capacity, most),
    )


def _solve(
    program: WorkingSetProgram,
    cover: Cover,
    point: WorkingSetPoint,
    scale: Array,
    tolerance: Array,
    config: Any,
) -> tuple[WorkingSetPoint, Array, Array]:
    none = jnp.zeros((), jnp.int32)
    state = NewtonState(point, point, jnp.full_like(scale, jnp.inf), none, none, jnp.ones((), bool))

    def step(state: NewtonState) -> NewtonState:
        point, missing, length = _advance(
            program, cover, state.point, _SHARE * tolerance * scale, config.num_correctors
        )
        error = error_of(program, point, missing, scale)
        is_better = error < state.error
        num_stalled = jnp.where(error < _PROGRESS * state.error, 0, state.num_stalled + 1).astype(
            jnp.int32
        )
        best = loops.cond(is_better, lambda: point, lambda: state.best)
        is_sound = jnp.isfinite(error) & (length > 0)
        return NewtonState(
            point,
            best,
            jnp.where(is_better, error, state.error),
            state.num_iterations + 1,
            num_stalled,
            is_sound,
        )

    def unfinished(state: NewtonState) -> Array:
        return (state.error > tolerance) & state.is_sound & (state.num_stalled < _MAX_STALLED)

    last, _ = loops.bounded_loop(step, unfinished, state, max_checks=config.max_iterations)
    return last.best, last.error, last.num_iterations
