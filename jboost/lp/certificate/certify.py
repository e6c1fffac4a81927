"""Bounds that hold in exact arithmetic, from a primal or a dual point alone.

Any dual y proves min c.x >= sum_i min(y_i row_lower_i, y_i row_upper_i) + sum_j min over
lower_j <= x_j <= upper_j of (c - A'y)_j x_j. The bound is finite if the signs agree with the bounds
that are infinite. The operator computes interval bounds of the products. All other sums are
computed in 64 bits and rounded outwards. `repair` proves the upper bound of a primal point.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jboost.base import brackets, numerics, reduce
from jboost.base.types import Array
from jboost.lp.problem import LinearProgram

_ROUNDING = 2.0**-52  # two rounding units of 64-bit floats
_LEAST = 2.0**-1022  # the smallest normal 64-bit float; processors may treat smaller ones as 0
_TINY = 2.0**-960  # a product below this may have underflowed


def allowed_dual(problem: LinearProgram, dual: Array) -> Array:
    """The dual [m] with 0 for each entry whose sign belongs to an infinite row bound."""
    dual = jnp.where(problem.row_lower == -jnp.inf, jnp.minimum(dual, 0.0), dual)
    return jnp.where(problem.row_upper == jnp.inf, jnp.maximum(dual, 0.0), dual)


def prove_lower(problem: LinearProgram, dual: Array) -> tuple[Array, Array]:
    """The lower bound that a dual [m] proves, and whether it proves infeasibility as a ray.

    Returns:
      A lower bound [] of the objective of all feasible points, -inf if the dual proves none; and,
      [] bool, whether no feasible point exists. This is proven if with objective 0 the bound is
      positive.
    """
    # Processors treat subnormal numbers as 0 in some operations only. The dual with 0 in their
    # place is a valid dual too.
    dual = jnp.where(numerics.is_subnormal(dual), 0.0, dual)
    low, high = problem.operator.bracket_rmatvec(dual)
    objectives = jnp.stack([problem.objective, jnp.zeros_like(problem.objective)])
    prove = jax.vmap(numerics.in_64_bits(_lower_from_products), in_axes=(None, 0, None, None, None))
    with_objective, without = prove(problem._replace(operator=()), objectives, dual, low, high)
    return with_objective, without > 0


def _lower_from_products(
    problem: LinearProgram, objective: Array, dual: Array, low: Array, high: Array
) -> Array:
    parts = (problem.row_lower, problem.row_upper, problem.lower, problem.upper)
    row_lower, row_upper, lower, upper = (brackets.widen(part) for part in parts)
    slope, slopes = (
        brackets.widen(dual),
        _outwards(*(brackets.widen(part) for part in (objective, low, high))),
    )
    total = _sum_down(
        _least_product((slope,), (row_lower, row_upper)), _least_product(slopes, (lower, upper))
    )
    proven, _ = brackets.round_outwards(total, jnp.zeros(()), objective.dtype)
    return proven


def _least_product(slopes: tuple[Array, ...], points: tuple[Array, ...]) -> Array:
    """A lower bound [k], tight up to rounding, of slope * point over two intervals, which are given
    by their ends [k]. 0 * infinity is 0.
    """
    least = functools.reduce(
        jnp.minimum, [_product(slope, point) for slope in slopes for point in points]
    )
    are_zero = [
        functools.reduce(jnp.logical_and, [end == 0 for end in ends]) for ends in (slopes, points)
    ]
    may_vanish = ~are_zero[0] & ~are_zero[1] & (jnp.abs(least) < _TINY)
    lost = jnp.where(may_vanish, 2.0**-1021, 0.0)
    return least - 2 * _ROUNDING * jnp.where(jnp.isinf(least), 0.0, jnp.abs(least)) - lost


def _product(slope: Array, point: Array) -> Array:
    return jnp.where(
        slope == 0, 0.0, slope * jnp.where((slope == 0) & jnp.isinf(point), 0.0, point)
    )


def _outwards(cost: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Numbers at or below cost - high and at or above cost - low."""
    least, most = cost - high, cost - low
    return least - _slack(least, cost, high), most + _slack(most, cost, low)


def _slack(difference: Array, left: Array, right: Array) -> Array:
    """The largest rounding error of a difference of numbers that are 0 or in the normal range. The
    difference itself may underflow.
    """
    return jnp.where(left == right, 0.0, _ROUNDING * jnp.abs(difference) + _LEAST)


def _sum_down(*parts: Array) -> Array:
    """A number at or below the exact sum of all terms; -inf if a term is not finite or the sum
    overflows.
    """
    total, size, is_known = jnp.zeros(()), jnp.zeros(()), jnp.ones((), bool)
    for terms in parts:
        is_finite = jnp.isfinite(terms)
        known = jnp.where(is_finite, terms, 0.0)
        part = reduce.several(
            (reduce.SUM, known), (reduce.SUM, jnp.abs(known)), (reduce.ALL, is_finite)
        )
        total, size, is_known = total + part[0], size + part[1], is_known & part[2]
    slack = size * (sum(terms.shape[-1] for terms in parts) + 2) * _ROUNDING
    return jnp.where(is_known & jnp.isfinite(slack), total - slack, -jnp.inf)


def within_bounds(problem: LinearProgram, primal: Array) -> Array:
    """The point [n] moved to the nearest within the bounds of the variables."""
    return jnp.clip(primal, problem.lower, problem.upper)
