"""`solve`, the interface of both solvers of linear programs."""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax.numpy as jnp

from jboost.base import batching, check, derivatives, devices, meshes
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.lp import first_order, interior_point
from jboost.lp.derivatives import differentiate
from jboost.lp.first_order import FirstOrderConfig
from jboost.lp.interior_point import InteriorPointConfig
from jboost.lp.problem import LinearProgram, fits_in_memory, prepare
from jboost.lp.simplex.margins import SimplexConfig
from jboost.lp.types import LPSolution

# A solution whose bounds prove it optimal counts as OPTIMAL if its residuals and gap are at most
# this many times the tolerance.
_NEARLY = 4.0
# The largest smaller side of a matrix for which a factorisation in each iteration is cheap.
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

    The function can be jitted, and vmapped over programs of one shape. `dual` proves the lower
    bound. A feasible point close to `primal` attains the upper bound. Both bounds hold in exact
    arithmetic for the floats of the program. A bound is infinite if nothing is proven, because of a
    variable without bounds or because of rounding.

    Derivatives exist in both modes and of any order, with respect to the objective, the row bounds,
    the finite bounds of variables and the entries of the operator. `tolerance` and `initial` are
    constants. The objectives and the finite bounds have the derivative of the optimal value by the
    envelope theorem; at degenerate solutions it is the one for the returned points. `primal`,
    `dual` and `reduced_costs` have their derivatives where the solution is unique and not
    degenerate (strict complementarity, as many active rows as variables between their bounds). At
    other solutions see `derivative`. The derivative is NaN for other statuses than OPTIMAL and for
    infinite bounds. Residuals, gap and history have no derivative: TypeError in reverse mode, NaN
    in forward mode. Derivatives take memory for m n numbers and a singular value decomposition of
    the matrix of active rows and free variables.

    Args:
      problem: m rows, n variables; arrays, with a matrix or any operator of `jboost.operators`.
      tolerance: [] for the relative residuals and gap of the solution; None for 1e-8 in float64 and
        1e-5 in float32, which is close to the accuracy of the type.
      config: an `InteriorPointConfig` or a `FirstOrderConfig`, which selects the method and holds
        its static sizes. None selects the interior point method if the smaller side of the matrix
        is at most 600 and it has at most 4 million entries, else the first-order method.
      initial: for the first-order method, the solution of a similar program with at most as many
        rows and columns.

      derivative: static; the equations that define the derivatives of `primal` and `dual` at
        degenerate solutions. "vertex" uses as many active bounds as there are variables: those with
        the least quotient of slack and multiplier. If more are active, the choice is arbitrary.
        "least_norm" uses all bounds whose multiplier exceeds their slack, each relative to the
        largest of its kind, and takes the least-squares solution of least norm. Where two bounds
        coincide this is the mean of the two derivatives, and it has no component along a face of
        optimal points.

    Returns:
      An `LPSolution`. Its `status` is one of:

      - OPTIMAL: the residuals and the gap are within the tolerance. They are within four times the
        tolerance if rounding stops the interior point method or the repair of rows earlier.
      - ITERATION_LIMIT.
      - PRIMAL_INFEASIBLE: proven if `lower_bound` is inf. Otherwise no point is feasible whose
        scaled size is below the inverse of the tolerance of a ray, which is 2e-5 in float32 and
        1e-8 in float64.
      - DUAL_INFEASIBLE: the program is unbounded, or neither the program nor its dual has a
        feasible point. Duals whose scaled size is above that inverse are not excluded.
      - NUMERICAL_ERROR.
      - INVALID_INPUT.

      Bounds are never NaN. They cross only if `lower_bound` is inf, which proves the program
      infeasible. With status PRIMAL_INFEASIBLE the upper bound is inf. With DUAL_INFEASIBLE and
      INVALID_INPUT both are infinite. With the others each bound is finite or not proven.

      Residuals and gap are relative to 1 + the size of the number that they are compared with.
      Scale up an objective whose entries are all tiny. Residuals and gap ignore a bound whose
      distance from the variable exceeds 100 (1 + |x_j|). The proofs do not ignore it, so there
      `lower_bound` may differ from the objective by more than the tolerance.

    Raises:
      ValueError: at trace time, naming the argument, if shapes do not agree or the config is that
        of another method. `jboost.lp.validate` checks values on the host.

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


@devices.public_jit(static_argnames=("config", "derivative"))
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

    # iterations of the first-order method differ much between programs
    at_once = 1 if isinstance(config, FirstOrderConfig) else None
    one = functools.partial(_solve_one, config)
    run = derivatives.define(batching.in_chunks(one, at_once=at_once), rule)
    solution: LPSolution = run(problem, tolerance, initial)
    return solution


def _solve_one(
    config: InteriorPointConfig | FirstOrderConfig,
    problem: LinearProgram,
    tolerance: Array,
    initial: Any,
) -> LPSolution:
    if isinstance(config, InteriorPointConfig):
        return _with_final_status(interior_point.solve(problem, tolerance, config), tolerance)
    return _with_final_status(first_order.solve(problem, tolerance, config, initial), tolerance)


def _with_final_status(solution: LPSolution, tolerance: Array) -> LPSolution:
    """The solution with status OPTIMAL if the iterations ended before reaching the tolerance but
    the bounds prove that the returned points are optimal.
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
