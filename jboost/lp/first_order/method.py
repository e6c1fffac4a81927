"""A first-order primal-dual method for linear programs: restarted Halpern iterations of reflected
PDHG.

With z = (x, y), T one step of PDHG (Chambolle and Pock 2011) and z_0 the anchor,
z_{k+1} = (k+1)/(k+2) (2 T z_k - z_k) + 1/(k+2) z_0 (Lu and Yang 2024, "Restarted Halpern PDHG for
linear programming"). Restarts by the fixed-point error |z - T z|_P, and a controller of the primal
weight (Lu, Peng and Yang 2025, "cuPDLPx"). Programs without a solution are detected by the change
of z since the restart, whose direction converges to a ray (Applegate, Diaz, Lu and Lubin 2021,
"Infeasibility detection with primal-dual hybrid gradient"). The method uses the matrix only in
products.

An iteration takes two products. A check takes two products with several vectors at once and two
more. The step is 0.998 times the inverse of the largest singular value. Its estimate increases at
checks, by a power iteration and by a lower bound from the moves of the iterates. Adaptive rules
take longer steps where recent moves allow them. With the reflection such steps diverge: T must not
expand in any direction, including directions in which the iterates do not move at present.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import loops, numerics
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp.certificate import conclude, tighten
from jboost.lp.first_order.progress import check_progress
from jboost.lp.first_order.scaling import equilibrate, scale
from jboost.lp.first_order.starts import first_point
from jboost.lp.first_order.state import (
    FirstOrderConfig,
    FirstOrderPoint,
    FirstOrderState,
    length_of,
    unscaled,
)
from jboost.lp.problem import LinearProgram, is_valid
from jboost.lp.types import LPInfo, LPSolution, empty_history

_SAFETY = 0.998  # the step size times the largest singular value
_POWER_ITERATIONS = 20  # power iterations for the first estimate of the largest singular value
# The repaired solution counts as optimal if its error is at most this many times the tolerance and
# the iterates met the tolerance.
_NEARLY = 4.0


def init(
    problem: LinearProgram, *, config: FirstOrderConfig, initial: Any = None
) -> FirstOrderState:
    """The state before the first iteration.

    Args:
      problem: as `jboost.lp.make_program` makes it.
      config: static.
      initial: a `WarmStart`, an `LPSolution`, or a pair of primal and dual, of this program or of
        one with fewer variables or rows at the end; None for the point of the box that is nearest
        to 0.

    Raises:
      ValueError: at trace time, if `initial` has more variables or rows than the program.
    """
    scaling = equilibrate(problem, config.scaling_rounds)
    tight = tighten.tighten(problem, config.proof.num_tightenings)
    start, weight = first_point(problem, scaling, initial)
    zero, none = jnp.zeros((), problem.objective.dtype), jnp.zeros((), jnp.int32)
    status = jnp.where(is_valid(problem), int(Status.UNFINISHED), int(Status.INVALID_INPUT)).astype(
        jnp.int32
    )
    state = FirstOrderState(
        scaling=scaling,
        row_sizes=problem.operator.row_norms(scaling.columns),
        column_sizes=problem.operator.column_norms(scaling.rows),
        tight=(tight.lower, tight.upper),
        point=start,
        mapped=start,
        anchor=start,
        best=start,
        best_error=zero + jnp.inf,
        norm=zero,
        direction=numerics.spread(problem.objective.shape[0], zero.dtype),
        primal_weight=weight,
        imbalance=zero,
        anchor_error=zero + jnp.inf,
        last_error=zero + jnp.inf,
        num_since=none,
        num_iterations=none,
        history=empty_history(config.history_length, zero.dtype),
        status=status,
    )
    return loops.beside(state, problem)


def _power_iterations(scaled: LinearProgram, direction: Array, count: Array) -> tuple[Array, Array]:
    """A lower bound of the largest singular value, and the direction for further iterations."""

    def iterate(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        direction = carry[1] / jnp.maximum(length_of(carry[1]), jnp.finfo(carry[1].dtype).tiny)
        reached = scaled.operator.matvec(direction)
        return length_of(reached), scaled.operator.rmatvec(reached)

    start = (jnp.zeros((), direction.dtype), direction)
    return loops.fori_loop(0, count, iterate, start)


def _pdhg(
    scaled: LinearProgram, point: FirstOrderPoint, primal_step: Array, dual_step: Array
) -> FirstOrderPoint:
    """T z. The dual step is the proximal map of the support function of the rows' bounds."""
    slope = scaled.objective - scaled.operator.rmatvec(point.dual)
    primal = jnp.clip(point.primal - primal_step * slope, scaled.lower, scaled.upper)
    trial = point.dual - dual_step * scaled.operator.matvec(2 * primal - point.primal)
    return FirstOrderPoint(
        primal, trial + jnp.clip(-trial, dual_step * scaled.row_lower, dual_step * scaled.row_upper)
    )


def step(
    state: FirstOrderState, problem: LinearProgram, *, tolerance: Array, config: FirstOrderConfig
) -> tuple[FirstOrderState, LPInfo]:
    """Runs `iterations_per_check` iterations and one check, which may restart the method."""
    scaled = scale(problem, state.scaling)
    norm, direction = _power_iterations(
        scaled, state.direction, jnp.where(state.num_iterations > 0, 1, _POWER_ITERATIONS)
    )
    norm = jnp.maximum(state.norm, norm)
    size = _SAFETY / jnp.where(norm > 0, norm, 1.0)
    count = config.at_once

    def iterate(
        k: Array, carry: tuple[FirstOrderPoint, FirstOrderPoint]
    ) -> tuple[FirstOrderPoint, FirstOrderPoint]:
        share = 1 / (state.num_since + k + 1).astype(size.dtype)

        def move(old: Array, mapped: Array, first: Array) -> Array:
            reflected = mapped + (mapped - old)
            return reflected - share * (reflected - first)

        point: FirstOrderPoint = jax.tree.map(move, *carry, state.anchor)
        return point, _pdhg(scaled, point, size / state.primal_weight, size * state.primal_weight)

    point, mapped = loops.fori_loop(0, count, iterate, (state.point, state.mapped))
    num_since, num_iterations = state.num_since + count, state.num_iterations + count
    ran = state._replace(
        point=point,
        mapped=mapped,
        norm=norm,
        direction=direction,
        num_since=num_since,
        num_iterations=num_iterations,
    )
    return check_progress(ran, problem, scaled, size, tolerance, config)


def unfinished(state: FirstOrderState) -> Array:
    """Whether another iteration is needed, [] bool."""
    return state.status == int(Status.UNFINISHED)


def finish(
    state: FirstOrderState, problem: LinearProgram, *, tolerance: Array, config: FirstOrderConfig
) -> LPSolution:
    """The solution at the best point, with its bounds."""
    point = unscaled(state.best, state.scaling)
    status = jnp.where(unfinished(state), int(Status.ITERATION_LIMIT), state.status).astype(
        jnp.int32
    )
    solution = conclude.conclude(
        problem,
        problem._replace(lower=state.tight[0], upper=state.tight[1]),
        *point,
        num_iterations=state.num_iterations,
        history=state.history,
        status=status,
        proof=config.proof,
    )
    is_spoiled = (status == int(Status.OPTIMAL)) & ~(solution.error <= _NEARLY * tolerance)
    return solution._replace(
        status=jnp.where(is_spoiled, int(Status.NUMERICAL_ERROR), solution.status).astype(jnp.int32)
    )


def run(
    problem: LinearProgram, tolerance: Array, config: FirstOrderConfig, initial: Any = None
) -> FirstOrderState:
    """`init`, and steps until done."""
    state = init(problem, config=config, initial=initial)
    max_checks = config.max_iterations // config.at_once
    last, _ = loops.bounded_loop(
        lambda now: step(now, problem, tolerance=tolerance, config=config)[0],
        unfinished,
        state,
        max_checks=max_checks,
    )
    return last


def solve(
    problem: LinearProgram, tolerance: Array, config: FirstOrderConfig, initial: Any = None
) -> LPSolution:
    """`init`, steps until done, `finish`."""
    return finish(
        run(problem, tolerance, config, initial), problem, tolerance=tolerance, config=config
    )
