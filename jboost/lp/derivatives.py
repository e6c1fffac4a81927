"""The derivative of a solution with respect to the numbers of its program.

The objective has the derivative of the Lagrangian (envelope theorem), also at degenerate solutions.

Let R be the active rows, B the variables between their bounds and N the others. If the solution is
unique and not degenerate, each variable in N moves with its bound, and each active row with its
bound. The others solve A_RB x_B = b_R - A_RN x_N and A_RB' y_R = c_B. At other solutions no
derivative exists, and these equations have many solutions or none. Then the least-squares solution
of least norm is taken, either for one vertex or for all active bounds.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import derivatives, numerics, reduce
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp.first_order.scaling import FirstOrderScaling, equilibrate
from jboost.lp.problem import LinearProgram
from jboost.lp.types import LPSolution

SCALING_ROUNDS = 8  # rounds of the scaling in which slacks and multipliers are compared
_MEASURED = ("primal_residual", "dual_residual", "duality_gap", "history")
_REMEDY = (
    "it measures the error of the iterations; differentiate the points, an objective or a bound"
)


class ActiveBounds(NamedTuple):
    """The bounds that are active at the solution."""

    at_lower: Array  # [n] bool
    at_upper: Array  # [n] bool
    row_lower: Array  # [m] bool, active
    row_upper: Array  # [m] bool, active


def find_vertex(
    problem: LinearProgram, primal: Array, dual: Array, scaling: FirstOrderScaling
) -> ActiveBounds:
    """Takes as many bounds as there are variables to be active: the equalities, and the bounds with
    the least quotient of slack and multiplier.

    Under strict complementarity the quotients of active and other bounds differ greatly, in units
    in which rows and columns have the same size.
    """
    slacks, multipliers, is_equality = _slacks_and_multipliers(problem, primal, dual, scaling)
    quotients = jnp.where(is_equality, -1.0, quotients_of(slacks, multipliers))
    is_first = jnp.argsort(jnp.argsort(quotients)) < problem.objective.shape[0]
    return _active(problem, dual, is_first & (quotients < jnp.inf))


def quotients_of(slacks: Array, multipliers: Array) -> Array:
    """Slacks divided by the sizes of multipliers; inf for a multiplier of 0."""
    is_zero = multipliers == 0
    return jnp.where(is_zero, jnp.inf, slacks / jnp.where(is_zero, 1.0, multipliers))


def find_face(
    problem: LinearProgram, primal: Array, dual: Array, scaling: FirstOrderScaling
) -> ActiveBounds:
    """Takes every bound to be active whose multiplier exceeds its slack, each relative to the
    largest of its kind. There may be more or fewer than variables.
    """
    pair = _slacks_and_multipliers(problem, primal, dual, scaling)[:2]
    return _active(problem, dual, *exceeding([pair]))


def exceeding(pairs: Sequence[tuple[Array, Array]]) -> list[Array]:
    """Which multipliers exceed their slacks, each relative to the largest of its kind, for several
    parts (slacks, sizes of multipliers).
    """

    def largest(parts: Iterable[Array]) -> Array:
        finite = (jnp.where(jnp.isfinite(part), part, 0.0) for part in parts)
        each = (part if part.ndim == 0 else reduce.largest(part) for part in finite)
        return functools.reduce(jnp.maximum, each)

    slacks, multipliers = (largest(kind) for kind in zip(*pairs, strict=True))
    return [
        jnp.isfinite(slack)
        & (numerics.safe_divide(multiplier, multipliers) > numerics.safe_divide(slack, slacks))
        for slack, multiplier in pairs
    ]


def in_units(units: Array, slacks: Array, multipliers: Array) -> tuple[Array, Array]:
    """Slacks in these units, 0 at least, and the sizes of their multipliers."""
    sizes = numerics.safe_divide(jnp.abs(multipliers), units)
    return units * jnp.maximum(slacks, 0.0), sizes


def _slacks_and_multipliers(
    problem: LinearProgram, primal: Array, dual: Array, scaling: FirstOrderScaling
) -> tuple[Array, Array, Array]:
    """For variables, then rows, [n + m] each: the distance from the bound that the multiplier
    belongs to, the size of the multiplier, and whether both bounds are equal.
    """
    units = jnp.concatenate([numerics.safe_divide(1.0, scaling.columns), scaling.rows])
    values = jnp.concatenate([primal, problem.operator.matvec(primal)])
    multipliers = _multipliers(problem, dual)
    low = jnp.concatenate([problem.lower, problem.row_lower])
    high = jnp.concatenate([problem.upper, problem.row_upper])
    slacks = jnp.where(multipliers > 0, values - low, high - values)
    return *in_units(units, slacks, multipliers), low == high


def _multipliers(problem: LinearProgram, dual: Array) -> Array:
    """The multipliers [n + m] of the variables' bounds, then of the rows; positive for lower
    bounds.
    """
    return jnp.concatenate([problem.objective - problem.operator.rmatvec(dual), dual])


def _active(problem: LinearProgram, dual: Array, is_active: Array) -> ActiveBounds:
    """The `ActiveBounds` of these bounds [n + m] and of all equalities. An equality moves with the
    one of its two bounds that its multiplier belongs to, as one may be moved without the other.
    """
    num_columns = problem.objective.shape[0]
    multipliers = _multipliers(problem, dual)
    is_equality = jnp.concatenate(
        [problem.lower == problem.upper, problem.row_lower == problem.row_upper]
    )
    at_high = (is_active | is_equality) & (multipliers < 0)
    at_low = (is_active & (multipliers > 0)) | (is_equality & ~at_high)
    return ActiveBounds(
        at_low[:num_columns], at_high[:num_columns], at_low[num_columns:], at_high[num_columns:]
    )


def differentiate(
    problem: LinearProgram, tangent: LinearProgram, solution: LPSolution, *, choice: str = "vertex"
) -> LPSolution:
    """The tangent of a solution for a tangent of its program; NaN without a solution."""
    is_known = solution.status == int(Status.OPTIMAL)
    tangent = derivatives.where(is_known, tangent)
    primal, dual = move_points(problem, tangent, solution.primal, solution.dual, choice)
    _, priced = _changed_products(problem, tangent, solution.primal, solution.dual)
    reduced_costs = tangent.objective - priced - problem.operator.rmatvec(dual)
    objective = change_of_objective(problem, tangent, solution.primal, solution.dual)
    change = derivatives.no_change(solution)._replace(
        primal=primal,
        dual=dual,
        reduced_costs=reduced_costs,
        primal_objective=objective,
        dual_objective=objective,
        lower_bound=derivatives.where(jnp.isfinite(solution.lower_bound), objective),
        upper_bound=derivatives.where(jnp.isfinite(solution.upper_bound), objective),
    )
    # repeated here, because the steps above may mask a NaN, in either mode
    change = derivatives.where(is_known, change)
    refused = {
        name: derivatives.refused(
            getattr(solution, name), tangent, f"jboost.lp.solve(...).{name}", _REMEDY
        )
        for name in _MEASURED
    }
    return change._replace(**refused)


def _changed_products(
    problem: LinearProgram, tangent: LinearProgram, primal: Array, dual: Array
) -> tuple[Array, Array]:
    """dA x [m] and dA'y [n]."""

    def products(operator: Any) -> tuple[Array, Array]:
        return operator.matvec(primal), operator.rmatvec(dual)

    _, changes = jax.jvp(products, (problem.operator,), (tangent.operator,))
    return changes


def change_of_objective(
    problem: LinearProgram, tangent: LinearProgram, primal: Array, dual: Array
) -> Array:
    """The tangent [] of the optimal value by the envelope theorem: the tangent of the Lagrangian at
    an optimal primal [n] and an optimal dual [m].

    If these are not unique, the value has only directional derivatives, and the result belongs to
    these points.
    """
    reached, _ = _changed_products(problem, tangent, primal, dual)
    reduced_costs = problem.objective - problem.operator.rmatvec(dual)
    of_rows = _on_bounds(
        dual, problem.row_lower, problem.row_upper, tangent.row_lower, tangent.row_upper
    )
    of_columns = _on_bounds(
        reduced_costs, problem.lower, problem.upper, tangent.lower, tangent.upper
    )
    return (
        jnp.sum(tangent.objective * primal)
        + jnp.sum(of_rows - dual * reached)
        + jnp.sum(of_columns)
    )


def _on_bounds(
    multipliers: Array, low: Array, high: Array, low_change: Array, high_change: Array
) -> Array:
    """Multipliers times the changes of their bounds; 0 for infinite bounds."""
    is_low = multipliers > 0
    counts = jnp.isfinite(jnp.where(is_low, low, high)) & (multipliers != 0)
    return jnp.where(counts, multipliers, 0.0) * jnp.where(
        counts, jnp.where(is_low, low_change, high_change), 0.0
    )


def move_points(
    problem: LinearProgram, tangent: LinearProgram, primal: Array, dual: Array, choice: str
) -> tuple[Array, Array]:
    """The tangents of an optimal primal [n] and dual [m]: the least-norm solution of the equations
    of the active bounds.
    """
    reached, priced = _changed_products(problem, tangent, primal, dual)
    scaling = equilibrate(problem, SCALING_ROUNDS)
    find = find_vertex if choice == "vertex" else find_face
    active = find(problem, primal, dual, scaling)
    is_held, is_active = active.at_lower | active.at_upper, active.row_lower | active.row_upper
    rows, columns = (
        (scaling.rows, scaling.columns)
        if choice == "vertex"
        else (jnp.ones_like(reached), jnp.ones_like(priced))
    )
    matrix = rows[:, None] * problem.operator.to_dense() * columns[None, :]
    matrix = jnp.where(is_active[:, None] & ~is_held[None, :], matrix, 0.0)
    inverse = jnp.linalg.pinv(matrix)
    held = jnp.where(active.at_lower, tangent.lower, jnp.where(active.at_upper, tangent.upper, 0.0))
    bound = jnp.where(active.row_lower, tangent.row_lower, tangent.row_upper)
    missed = jnp.where(is_active, bound - reached - problem.operator.matvec(held), 0.0)
    unpriced = jnp.where(is_held, 0.0, tangent.objective - priced)
    product = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)
    return held + columns * product(inverse, rows * missed), rows * product(
        columns * unpriced, inverse
    )
