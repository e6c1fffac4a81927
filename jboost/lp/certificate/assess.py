"""The residuals and the duality gap of a primal and a dual point, in the units of the program."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from jboost.base import reduce
from jboost.base.types import Array
from jboost.lp.problem import LinearProgram
from jboost.lp.types import LPInfo

# A bound is ignored if its distance from the variable x exceeds this many times 1 + |x|.
_FAR = 100.0
# A residual counts as 0 if it is at most this many rounding units of the terms of its sum.
_ROUNDINGS = 16


class Quality(NamedTuple):
    """The fields of `LPSolution` that measure its points."""

    reduced_costs: Array  # [n]
    primal_objective: Array  # []
    dual_objective: Array  # []
    primal_residual: Array  # []
    dual_residual: Array  # []
    duality_gap: Array  # []

    def info(self, num_iterations: Array) -> LPInfo:
        """The numbers of a check after this many iterations."""
        return LPInfo(num_iterations, self.primal_residual, self.dual_residual, self.duality_gap)

    @property
    def error(self) -> Array:
        """The largest of the residuals and the gap, [], and at least the rounding unit of 1:
        rounding makes smaller errors meaningless.
        """
        largest = jnp.maximum(
            jnp.maximum(self.primal_residual, self.dual_residual), self.duality_gap
        )
        return jnp.maximum(largest, jnp.finfo(largest.dtype).eps)


class AssessedPoint(NamedTuple):
    """The primal or the dual point, with its products with the matrix."""

    point: Array  # [k] the primal x or the dual y
    product: Array  # [l] A x or A'y
    # [l] at least |A| |x| or |A|' |y|, the sum of the absolute terms of each product: its rounding
    # error is proportional to it
    size: Array


def primal_side(problem: LinearProgram, primal: Array) -> AssessedPoint:
    """The `AssessedPoint` of a primal point [n]; it takes two products with the matrix."""
    return AssessedPoint(
        primal, problem.operator.matvec(primal), problem.operator.row_norms(jnp.abs(primal))
    )


def dual_side(problem: LinearProgram, dual: Array) -> AssessedPoint:
    """The `AssessedPoint` of a dual [m]; it takes two products with the matrix."""
    return AssessedPoint(
        dual, problem.operator.rmatvec(dual), problem.operator.column_norms(jnp.abs(dual))
    )


def assess(problem: LinearProgram, primal: AssessedPoint, dual: AssessedPoint) -> Quality:
    """The residuals and the gap of a primal and a dual point.

    Each row is measured relative to its own bound and each column relative to its own objective, so
    that a large number elsewhere does not hide an error. A bound that is far from the variable
    counts as no bound: some programs use a large number for "none".
    """
    reduced_costs = problem.objective - dual.product
    below, above = problem.row_lower - primal.product, primal.product - problem.row_upper
    bound = jnp.where(below > above, problem.row_lower, problem.row_upper)
    paid, wrong_rows = value_at_bounds(dual.point, problem.row_lower, problem.row_upper)
    saved, wrong_columns = value_at_bounds(reduced_costs, *_near(problem, primal.point))
    missed = _off(jnp.maximum(below, above), primal.size, bound)
    missing = _off(wrong_columns, dual.size, problem.objective)
    all_paid, off_rows, off_duals = reduce.several(
        (reduce.SUM, paid), (reduce.LARGEST, missed), (reduce.LARGEST, wrong_rows)
    )
    primal_objective, all_saved, off_columns = reduce.several(
        (reduce.SUM, problem.objective * primal.point),
        (reduce.SUM, saved),
        (reduce.LARGEST, missing),
    )
    dual_objective = all_paid + all_saved
    return Quality(
        reduced_costs=reduced_costs,
        primal_objective=primal_objective,
        dual_objective=dual_objective,
        primal_residual=jnp.maximum(off_rows, 0.0),
        dual_residual=jnp.maximum(jnp.maximum(off_columns, off_duals), 0.0),
        duality_gap=jnp.abs(primal_objective - dual_objective)
        / (1 + jnp.abs(primal_objective) + jnp.abs(dual_objective)),
    )


def _near(problem: LinearProgram, primal: Array) -> tuple[Array, Array]:
    """The bounds [n] of the variables, infinite where they are far from the variables. With a far
    bound, the rounding error of a reduced cost would count for more than the reduced cost.
    """
    reach = _FAR * (1 + jnp.abs(primal))
    is_near = primal - problem.lower <= reach, problem.upper - primal <= reach
    return jnp.where(is_near[0], problem.lower, -jnp.inf), jnp.where(
        is_near[1], problem.upper, jnp.inf
    )


def _off(missed: Array, size: Array, goal: Array) -> Array:
    """The errors of sums with respect to their goals, relative to 1 + |goal|, less the rounding
    error; 0 for infinite goals.
    """
    beyond = missed - _ROUNDINGS * jnp.finfo(missed.dtype).eps * size
    is_finite = jnp.isfinite(goal)
    return jnp.where(is_finite, beyond / (1 + jnp.abs(jnp.where(is_finite, goal, 0.0))), 0.0)


def value_at_bounds(slopes: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """The minimum of slope * point over low <= point <= high, for each slope.

    The minimum is at the low bound for a positive slope and at the high bound for another one.

    Returns:
      The minimum, 0 where that bound is infinite; and |slope| where it is infinite, else 0: the
      error of the dual that these slopes belong to.
    """
    bound = jnp.where(slopes > 0, low, high)
    is_finite = jnp.isfinite(bound)
    return slopes * jnp.where(is_finite, bound, 0.0), jnp.where(is_finite, 0.0, jnp.abs(slopes))


def ray_tolerance(dtype: Any) -> float:
    """The largest error of a ray relative to the bound that it proves: 1e-8 in 64 bits, 2e-5
    in 32.
    """
    return float(jnp.finfo(dtype).eps) ** 0.5 / (1.5 if dtype == jnp.float64 else 17)
