"""Bounds of variables that follow from the rows and from the bounds of the other variables.

A dual proves a finite bound only if certain variables are bounded. The implied bounds replace
infinite ones. Row i and the bounds of the other variables give an interval for a_ij x_j, and
division by a_ij gives one for x_j. The implied bounds hold in exact arithmetic: sums are computed
in 64 bits, and each interval is widened by their largest possible rounding error.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import brackets, loops, numerics, reduce
from jboost.base.types import Array
from jboost.lp.problem import LinearProgram, fits_in_memory


def tighten(problem: LinearProgram, num_passes: int) -> LinearProgram:
    """The program with the infinite bounds of variables replaced by finite implied ones.

    Every feasible point meets the new bounds. Finite bounds do not change. The program is returned
    unchanged if it has more than 4 million entries or if `num_passes` is 0.
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
            # Crossed bounds mean that the program is infeasible. The old bounds are kept, because
            # the proof of infeasibility by a ray needs lower <= upper.
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
    """The bounds [n] of each variable that follow from the row bounds [m, 1] and from the bounds
    [1, n] of the other variables; infinite where none follows.
    """
    is_positive = matrix > 0
    least, most = (
        _terms(matrix, jnp.where(is_positive, low, high)),
        _terms(matrix, jnp.where(is_positive, high, low)),
    )
    # the interval of a_ij x_j
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
    """Sums of the terms a_ij x_j of each row, where each x_j is at one of its bounds."""

    others: Array  # [m, n] the sum of the finite terms of the row other than j
    is_bounded: Array  # [m, n] bool, whether all terms of the row other than j are finite
    size: Array  # [m, 1] the sum of the absolute values of the finite terms


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
    """The largest rounding error of the right side [m, 1] minus the other terms."""
    return (matrix.shape[1] + 8) * (2.0**-52 * (jnp.abs(_finite(right)) + terms.size) + 2.0**-1021)


def _rounding(quotient: Array) -> Array:
    """The largest rounding error of a finite quotient."""
    return 2.0**-51 * jnp.abs(_finite(quotient)) + 2.0**-1000


def _finite(values: Array) -> Array:
    return jnp.where(jnp.isinf(values), 0.0, values)
