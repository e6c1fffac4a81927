"""Bounds of variables that follow from rows and other bounds, in exact arithmetic: what makes a
dual bound finite where a variable has none.

From row_lower <= A x <= row_upper and bounds of all other variables, x_j lies between what is left
for a_ij x_j, over a_ij. Sums are in 64 bits; what is left is widened by what they may be off.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import brackets, loops, numerics, reduce
from jboost.base.types import Array
from jboost.lp.problem import LinearProgram, fits_in_memory


def tighten(problem: LinearProgram, num_passes: int) -> LinearProgram:
    """The program with infinite bounds of variables replaced by finite ones that every feasible
    point meets; finite bounds stay.

    Beyond 4 million entries, or with no passes, the program as it is.
    """
    if num_passes == 0 or problem.operator.shape[0] == 0 or not fits_in_memory(problem):
        return problem
    passes = numerics.in_64_bits(functools.partial(_tighten, num_passes))
    lower, upper = passes(
        problem.operator.to_dense(),
        problem.row_lower,
        problem.row_upper,
        problem.lower,
        problem.upper,
    )
    return problem._replace(lower=lower, upper=upper)


def _tighten(
    num_passes: int, matrix: Array, row_lower: Array, row_upper: Array, lower: Array, upper: Array
) -> tuple[Array, Array]:
    dtype = lower.dtype
    matrix, row_lower, row_upper, low, high = (
        brackets.widen(part) for part in (matrix, row_lower, row_upper, lower, upper)
    )

    def tighten_once(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends

        def take_implied() -> tuple[Array, Array]:
            implied_low, implied_high = _implied(
                matrix, row_lower[:, None], row_upper[:, None], low[None, :], high[None, :]
            )
            lowest, highest = (
                jnp.where(low == -jnp.inf, implied_low, low),
                jnp.where(high == jnp.inf, implied_high, high),
            )
            # the program is infeasible, which a ray proves with bounds in order only
            are_crossed = lowest > highest
            return jnp.where(are_crossed, low, lowest), jnp.where(are_crossed, high, highest)

        return loops.cond(
            reduce.any_true((low == -jnp.inf) | (high == jnp.inf)), take_implied, lambda: ends
        )

    low, high = loops.fori_loop(0, num_passes, tighten_once, (low, high))
    return numerics.round_down(low, dtype), numerics.round_up(high, dtype)


def _implied(
    matrix: Array, row_lower: Array, row_upper: Array, low: Array, high: Array
) -> tuple[Array, ...]:
    """The bounds [n] that rows [m, 1] leave each variable, given those of the others [1, n];
    infinite where they leave none.
    """
    is_positive = matrix > 0
    least, most = (
        _terms(matrix, jnp.where(is_positive, low, high)),
        _terms(matrix, jnp.where(is_positive, high, low)),
    )
    # for a_ij x_j
    most_left = jnp.where(
        least.is_bounded, row_upper - least.others + _slack(matrix, row_upper, least), jnp.inf
    )
    least_left = jnp.where(
        most.is_bounded, row_lower - most.others - _slack(matrix, row_lower, most), -jnp.inf
    )
    highest, lowest = (
        jnp.where(is_positive, most_left, least_left) / matrix,
        jnp.where(is_positive, least_left, most_left) / matrix,
    )
    highest = jnp.where(matrix == 0, jnp.inf, highest + _rounding(highest))
    lowest = jnp.where(matrix == 0, -jnp.inf, lowest - _rounding(lowest))
    return reduce.several((reduce.LARGEST, lowest), (reduce.LEAST, highest), axis=0)


class _Terms(NamedTuple):
    """The terms a_ij x_j of sums over rows, where each x_j is at one of its bounds."""

    others: Array  # [m, n] the sum of the other terms, those aside that are infinite
    is_bounded: Array  # [m, n] bool, whether none of the others is infinite
    size: Array  # [m, 1] the sum of the sizes


def _terms(matrix: Array, bounds: Array) -> _Terms:
    is_open = (matrix != 0) & jnp.isinf(bounds)
    terms = matrix * _finite(bounds)
    total, size, num_open = reduce.several(
        (reduce.SUM, terms),
        (reduce.SUM, jnp.abs(terms)),
        (reduce.SUM, is_open.astype(matrix.dtype)),
        axis=1,
    )
    return _Terms(
        total[:, None] - terms, num_open[:, None] == is_open.astype(matrix.dtype), size[:, None]
    )


def _slack(matrix: Array, right: Array, terms: _Terms) -> Array:
    """How far the right side [m, 1] less the other terms may be off."""
    return (matrix.shape[1] + 8) * (2.0**-52 * (jnp.abs(_finite(right)) + terms.size) + 2.0**-1021)


def _rounding(quotient: Array) -> Array:
    """How far a quotient may be off that is not infinite."""
    return 2.0**-51 * jnp.abs(_finite(quotient)) + 2.0**-1000


def _finite(values: Array) -> Array:
    return jnp.where(jnp.isinf(values), 0.0, values)
