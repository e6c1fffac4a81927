"""Bounds of variables that follow from rows and other bounds, in exact arithmetic: what makes a dual bound finite where a variable has none.

From row_lower <= A x <= row_upper and bounds of all other variables, x_j lies between what is left for a_ij x_j, over a_ij. Sums are in 64
bits; what is left is widened by what they may be off.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, loops, numerics
from jboost.base.types import Array
from jboost.lp.problem import LinearProgram, fits_in_memory


def tighten(problem: LinearProgram, num_passes: int) -> LinearProgram:
    """The program with infinite bounds of variables replaced by finite ones that every feasible point meets; finite bounds stay.

    Beyond 4 million entries, or with no passes, the program as it is.
    """
    if num_passes == 0 or problem.operator.shape[0] == 0 or not fits_in_memory(problem):
        return problem
    passes = numerics.in_64_bits(functools.partial(_tighten, num_passes))
    lower, upper = passes(problem.operator.to_dense(), problem.row_lower, problem.row_upper, problem.lower, problem.upper)
    return problem._replace(lower=lower, upper=upper)


def _tighten(num_passes: int, matrix: Array, row_lower: Array, row_upper: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    dtype = lower.dtype
    matrix, row_lower, row_upper = (brackets.widen(part) for part in (matrix, row_lower, row_upper))
    low, high = brackets.widen(lower), brackets.widen(upper)
    signs = jnp.array([1.0, -1.0, -1.0, 1.0], matrix.dtype)  # A x <= row_upper and -A x <= -row_lower in x, then in -x
    rights = jnp.stack([row_upper, -row_lower, row_upper, -row_lower])

    def tighten_once(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        lows, highs = jnp.stack([low, low, -high, -high]), jnp.stack([high, high, -low, -low])
        ceilings = lax.map(lambda part: _ceiling(part[0] * matrix, *part[1:]), (signs, rights, lows, highs))
        implied_high, implied_low = jnp.min(ceilings[:2], axis=0), -jnp.min(ceilings[2:], axis=0)
        return jnp.where(low == -jnp.inf, implied_low, low), jnp.where(high == jnp.inf, implied_high, high)

    low, high = loops.fori_loop(0, num_passes, tighten_once, (low, high))
    return numerics.round_down(low, dtype), numerics.round_up(high, dtype)


def _ceiling(matrix: Array, row_upper: Array, low: Array, high: Array) -> Array:
    """What sum_k a_ik x_k <= row_upper_i leaves for each x_j at most, over the rows in which a_ij > 0, [n]."""
    least = jnp.where(matrix > 0, matrix * _finite(low)[None, :], matrix * _finite(high)[None, :])
    is_open = ((matrix > 0) & (low == -jnp.inf)[None, :]) | ((matrix < 0) & (high == jnp.inf)[None, :])
    least = jnp.where(is_open, 0.0, least)
    others_open = jnp.sum(is_open, axis=1, keepdims=True, dtype=jnp.int32) - is_open.astype(jnp.int32)
    total, size = jnp.sum(least, axis=1, keepdims=True), jnp.sum(jnp.abs(least), axis=1, keepdims=True)
    right = row_upper[:, None]
    slack = (matrix.shape[1] + 8) * (2.0**-52 * (jnp.abs(_finite(right)) + size) + 2.0**-1021)
    left = _finite(right) - (total - least) + slack
    quotient = left / jnp.where(matrix > 0, matrix, 1.0)
    quotient = quotient + 2.0**-51 * jnp.abs(quotient) + 2.0**-1000
    is_usable = (matrix > 0) & (others_open == 0) & (right < jnp.inf)
    return jnp.min(jnp.where(is_usable, quotient, jnp.inf), axis=0)


def _finite(values: Array) -> Array:
    return jnp.where(jnp.isinf(values), 0.0, values)
