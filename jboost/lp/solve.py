"""`solve`, the interface of both solvers of linear programs."""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp

from jboost.base import batching, check, derivatives, meshes
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.lp import first_order, interior_point
from jboost.lp.derivatives import differentiate
from jboost.lp.first_order import FirstOrderConfig
from jboost.lp.interior_point import InteriorPointConfig
from jboost.lp.problem import LinearProgram, fits_in_memory, prepare
from jboost.lp.simplex.margins import SimplexConfig
from jboost.lp.types import LPSolution

_NEARLY = 4.0  # times the tolerance, of the residuals and the gap of an optimal solution
# rows or columns, whichever are fewer, for which a factor in each iteration is cheap
_LARGEST_FACTOR = 600


@meshes.takes_sharded
def solve(
    problem: LinearProgram,
    *,
    tolerance: ArrayLike | None = None,
    config: InteriorPointConfig | FirstOrderConfig | None = None,
    initial: Any = None,
    derivative: Literal["vertex", "least_norm"] = "vertex",
) -> LPSolution:
    """Solves a linear program.

    minimise objective . x  s.t.  row_lower <= A x <= row_upper,  lower <= x <= upper.

    Jittable, and vmappable over programs of one shape. The lower bound is one that `dual` proves,
    the upper bound one that a feasible point next to `primal` attains, both in exact arithmetic for
    the numbers of the program as they are; where a variable without bounds, or rounding, leaves
    nothing proven they are infinite.

    Derivatives, in both modes and of any order, with respect to objective, row bounds, finite
    variable bounds and the entries of the operator; tolerance and `initial` are constants.
    Objectives and finite bounds have that of the optimal value by the envelope theorem, which at
    degenerate solutions is the one for the points returned. `primal`, `dual` and `reduced_costs`
    have theirs where the solution is unique and not degenerate (strict complementarity, as many
    active rows as variables between their bounds); elsewhere see `derivative`. Of another status
    than OPTIMAL, and of an infinite bound, it is NaN. Residuals, gap and history have none:
    TypeError in reverse mode, NaN in forward mode. Memory: m n, and a singular value decomposition
    of the matrix of active rows and free variables.

    Args:
      problem: m rows, n variables; arrays, with a matrix or any operator of `jboost.operators`.
      tolerance: [] for the relative residuals and gap of the solution; None for 1e-8 in float64 and
        1e-5 in float32, about what it carries.
      config: an `InteriorPointConfig` or a `FirstOrderConfig`, which choose the method and hold its
        static sizes. None: interior point where the smaller side of the matrix is at most 600 and
        all of it at most 4 million entries, else first order.
      initial: for the first-order method, the solution of a program like this one, with as many
        rows and columns or fewer.

      derivative: static; of which equations `primal` and `dual` are differentiated where they are
        degenerate. "vertex": those of as many active bounds as there are variables, with the least
        slack for their multiplier; which ones is arbitrary where more are active. "least_norm":
        those of all bounds whose multiplier exceeds their slack, each beside the largest of its
        kind, by least squares of least norm: the mean of its neighbours where two bounds coincide,
        and no move along a face of optimal points.

    Returns:
      An `LPSolution`. Bounds are never NaN, and cross only where `lower_bound` is inf, as of a
      program proven infeasible. Of status PRIMAL_INFEASIBLE the upper bound is inf, of
      DUAL_INFEASIBLE and INVALID_INPUT both are infinite; of the others each is finite or nothing
      is proven. Statuses: OPTIMAL, ITERATION_LIMIT, PRIMAL_INFEASIBLE (proven where `lower_bound`
      is inf; else no point whose scaled size is below the inverse of what a ray may miss, 2e-5 in
      float32 and 1e-8 in float64, is feasible), DUAL_INFEASIBLE (unbounded, or neither side has a
      feasible point; but for duals whose scaled size is above that inverse), NUMERICAL_ERROR,
      INVALID_INPUT. OPTIMAL means that the residuals and the gap that are returned are within the
      tolerance; within four times it where rounding ends the iterations of the interior point
      method, and the repair of rows, before that. Residuals and gap are relative to 1 + what they
      are compared with: an objective that is tiny throughout is to be scaled up first. In them a
      bound counts as none that is more than 100 (1 + |x_j|) from the variable; in what is proven it
      counts, so that `lower_bound` may be further off than the tolerance there.

    Raises:
      ValueError: at trace time, naming the argument, where shapes do not agree, and for a config of
        another method. `jboost.lp.validate` checks values on the host.

    >>> import jboost
    >>> program = jboost.lp.make_program(
    ...     [-3.0, -5.0], [[1.0, 0.0], [0.0, 2.0], [3.0, 2.0]], row_upper=[4.0, 12.0, 18.0]
    ... )
    >>> solution = jboost.lp.solve(program)
    >>> round(float(solution.primal_objective), 2), jboost.status.Status(int(solution.status)).name
    (-36.0, 'OPTIMAL')
    """
    problem = prepare(problem)
    if tolerance is None:
        tolerance = 1e-8 if problem.objective.dtype == jnp.dtype("float64") else 1e-5
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True).astype(
        problem.objective.dtype
    )
    if isinstance(config, SimplexConfig):
        raise ValueError(
            "config is a jboost.lpboost.SimplexConfig, whose method solves the programs of LP-Boost"
            " alone (jboost.lpboost.solve and fit): pass a jboost.lp.InteriorPointConfig or a"
            " jboost.lp.FirstOrderConfig, or leave config out"
        )
    config = check.config(
        "config",
        _default_config(problem) if config is None else config,
        InteriorPointConfig,
        FirstOrderConfig,
    )
    if initial is not None and isinstance(config, InteriorPointConfig):
        raise ValueError(
            "initial is for the first-order method: pass config=jboost.lp.FirstOrderConfig() as"
            " well, or leave it out"
        )
    if initial is not None:
        num_rows, num_columns = problem.operator.shape
        initial = first_order.extend(initial, num_columns=num_columns, num_rows=num_rows)
    check.choice("derivative", derivative, ("vertex", "least_norm"))
    return _solve(problem, tolerance, initial, config=config, derivative=derivative)


def _default_config(problem: LinearProgram) -> InteriorPointConfig | FirstOrderConfig:
    num_rows, num_columns = problem.operator.shape
    is_small = min(num_rows, num_columns) <= _LARGEST_FACTOR and fits_in_memory(problem)
    return InteriorPointConfig() if is_small else FirstOrderConfig()


@functools.partial(jax.jit, static_argnames=("config", "derivative"))
def _solve(
    problem: LinearProgram,
    tolerance: Array,
    initial: Any,
    *,
    config: InteriorPointConfig | FirstOrderConfig,
    derivative: str,
) -> LPSolution:
    def rule(
        arguments: tuple[Any, ...], tangents: tuple[Any, ...], solution: LPSolution
    ) -> LPSolution:
        return differentiate(arguments[0], tangents[0], solution, choice=derivative)

    run = derivatives.define(batching.in_chunks(functools.partial(_solve_one, config)), rule)
    solution: LPSolution = run(problem, tolerance, initial)
    return solution


def _solve_one(
    config: InteriorPointConfig | FirstOrderConfig,
    problem: LinearProgram,
    tolerance: Array,
    initial: Any,
) -> LPSolution:
    if isinstance(config, InteriorPointConfig):
        return _settled(interior_point.solve(problem, tolerance, config), tolerance)
    return _settled(first_order.solve(problem, tolerance, config, initial), tolerance)


def _settled(solution: LPSolution, tolerance: Array) -> LPSolution:
    """OPTIMAL where the iterations ended short of it, by their own measure, and the bounds prove it
    of the points returned.
    """
    ended_short = (solution.status == int(Status.ITERATION_LIMIT)) | (
        solution.status == int(Status.NUMERICAL_ERROR)
    )
    lower, upper = solution.lower_bound, solution.upper_bound
    are_close = (
        jnp.isfinite(lower)
        & jnp.isfinite(upper)
        & (upper - lower <= tolerance * (1 + jnp.abs(lower) + jnp.abs(upper)))
    )
    is_optimal = ended_short & are_close & (solution.error <= _NEARLY * tolerance)
    return solution._replace(
        status=jnp.where(is_optimal, int(Status.OPTIMAL), solution.status).astype(jnp.int32)
    )
