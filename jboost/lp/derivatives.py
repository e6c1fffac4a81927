"""The derivative of a solution with respect to the numbers of its program, by the equations of its vertex.

Where the solution is unique and not degenerate, the variables at a bound follow it, the rows with a dual follow theirs, and what is left
solves A_RB x_B = b_R - A_RN x_N and A_RB' y_R = c_B (R the active rows, B the variables between their bounds). Elsewhere no derivative exists: what
comes out is one of a neighbouring vertex, or infinite; NaN where there is no solution, as the status says.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import numerics
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp.problem import LinearProgram
from jboost.lp.scaling import equilibrate
from jboost.lp.types import LPSolution

_SCALING_ROUNDS = 8
_WITHOUT_SOLUTION = (Status.PRIMAL_INFEASIBLE, Status.DUAL_INFEASIBLE, Status.INVALID_INPUT)


class Vertex(NamedTuple):
    """Which bounds hold the solution."""

    at_lower: Array  # [n] bool
    at_upper: Array  # [n] bool
    row_lower: Array  # [m] bool, active
    row_upper: Array  # [m] bool, active


def find_vertex(problem: LinearProgram, solution: LPSolution) -> Vertex:
    """As many bounds are active as there are variables: equalities, and those with the least slack for their multiplier.

    By strict complementarity these quotients lie far apart, in units in which rows and columns are of one size.
    """
    num_columns = problem.objective.shape[0]
    scaling = equilibrate(problem, _SCALING_ROUNDS)
    units = jnp.concatenate([numerics.safe_divide(1.0, scaling.columns), scaling.rows])
    values = jnp.concatenate([solution.primal, problem.operator.matvec(solution.primal)])
    multipliers = jnp.concatenate([solution.reduced_costs, solution.dual])
    low = jnp.concatenate([problem.lower, problem.row_lower])
    high = jnp.concatenate([problem.upper, problem.row_upper])
    quotients = _slack_per_multiplier(values, multipliers, low, high, units)
    is_active = (jnp.argsort(jnp.argsort(quotients)) < num_columns) & (quotients < jnp.inf)
    is_active = is_active | (low == high)
    at_low, at_high = is_active & ((multipliers > 0) | (low == high)), is_active & (multipliers < 0) & (low < high)
    return Vertex(at_low[:num_columns], at_high[:num_columns], at_low[num_columns:], at_high[num_columns:])


def _slack_per_multiplier(values: Array, multipliers: Array, low: Array, high: Array, units: Array) -> Array:
    """-1 for equalities, +inf where the multiplier is 0; slacks are multiplied by the units, multipliers divided."""
    slacks = units * jnp.maximum(jnp.where(multipliers > 0, values - low, high - values), 0.0)
    quotients = jnp.where(multipliers == 0, jnp.inf, slacks * (units / jnp.where(multipliers == 0, 1.0, jnp.abs(multipliers))))
    return jnp.where(low == high, -1.0, quotients)


def differentiate(problem: LinearProgram, tangent: LinearProgram, solution: LPSolution) -> LPSolution:
    """The tangent of a solution along the tangent of its program; bounds and residuals are taken as constants."""
    vertex = find_vertex(problem, solution)
    num_columns = problem.operator.shape[1]
    matrix = problem.operator.to_dense()
    is_held, is_active = vertex.at_lower | vertex.at_upper, vertex.row_lower | vertex.row_upper

    def products(operator: object) -> tuple[Array, Array]:
        return operator.matvec(solution.primal), operator.rmatvec(solution.dual)  # type: ignore[attr-defined]

    _, (reached_change, priced_change) = jax.jvp(products, (problem.operator,), (tangent.operator,))
    held = jnp.where(vertex.at_lower, tangent.lower, tangent.upper)
    bound = jnp.where(vertex.row_lower, tangent.row_lower, tangent.row_upper)
    right = jnp.concatenate(
        [
            jnp.where(is_held, held, tangent.objective - priced_change),
            jnp.where(is_active, bound - reached_change, 0.0),
        ]
    )
    upper_rows = jnp.concatenate([jnp.diag(is_held.astype(matrix.dtype)), jnp.where(is_held[:, None], 0.0, matrix.T)], axis=1)
    lower_rows = jnp.concatenate([jnp.where(is_active[:, None], matrix, 0.0), jnp.diag((~is_active).astype(matrix.dtype))], axis=1)
    change = jnp.linalg.solve(jnp.concatenate([upper_rows, lower_rows]), right)
    primal, dual = change[:num_columns], change[num_columns:]
    reduced_costs = tangent.objective - priced_change - problem.operator.rmatvec(dual)
    objective = jnp.sum(tangent.objective * solution.primal + problem.objective * primal)
    constants = jax.tree.map(_no_change, solution)
    has_none = functools.reduce(jnp.logical_or, [solution.status == int(status) for status in _WITHOUT_SOLUTION])
    primal, dual, reduced_costs, objective = (jnp.where(has_none, jnp.nan, part) for part in (primal, dual, reduced_costs, objective))
    return constants._replace(primal=primal, dual=dual, reduced_costs=reduced_costs, primal_objective=objective, dual_objective=objective)


def _no_change(leaf: Array) -> Array:
    return jnp.zeros(leaf.shape, jax.dtypes.float0) if not jnp.issubdtype(leaf.dtype, jnp.floating) else jnp.zeros_like(leaf)
