"""Interval bounds of sums of products: floats below and above the exact sum.

Sums are added in 64 bits and rounded outwards, in 32-bit and in 64-bit programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from jboost.base import exact_sums, numerics, reduce
from jboost.base.types import Array


def widen(values: Array) -> Array:
    """The same numbers in 64 bits; to be called inside `numerics.in_64_bits`.

    32-bit subnormal numbers, which a processor may treat as 0, are converted from their bits.
    """
    wide = jnp.dtype("float64")
    if values.dtype != jnp.dtype("float32"):
        return values.astype(wide)
    mantissa = lax.bitcast_convert_type(values, jnp.uint32) & jnp.uint32(0x7FFFFF)
    tiny = jnp.where(jnp.signbit(values), -1.0, 1.0).astype(wide) * (
        mantissa.astype(wide) * 2.0**-149
    )
    return jnp.where(numerics.is_subnormal(values), tiny, values.astype(wide))


def is_nonzero(values: Array) -> Array:
    """Whether numbers are not 0, including subnormal numbers that a processor treats as 0.

    Compilers turn a test of all bits but the sign into a comparison of floats, so subnormal numbers
    are tested apart.
    """
    return (values != 0) | numerics.is_subnormal(values)


# two arrays of one shape -> the same sums of both
Sums = Callable[[Array, Array], tuple[Array, Array]]


def along(axis: int) -> Sums:
    """The `sums` argument of `sum_and_slack` for sums over an axis."""
    return functools.partial(reduce.totals, axis=axis)


def each_by(total: Callable[[Array], Array]) -> Sums:
    """The `sums` argument of `sum_and_slack` that applies `total` to both arrays."""
    return lambda terms, sizes: (total(terms), total(sizes))


def sum_and_slack(sums: Sums, num_terms: Any, left: Array, right: Array) -> tuple[Array, Array]:
    """Sums of left * right in 64 bits, and bounds of their rounding errors.

    To be called inside `numerics.in_64_bits`.

    Args:
      sums: `along` or `each_by`, a linear function that sums terms in any order. It is called with
        the terms and with bounds of their absolute values.
      num_terms: the largest number of terms in a sum; an integer, or an array in the shape of the
        sums. If sums are added up later, it must count the terms of all of them.
      left: factors in the default float type.
      right: factors in the default float type; the two broadcast.
    """
    total, size = sums(*_terms(left, right))
    return total, size * ((num_terms + 2) * 2.0**-52)


def _terms(left: Array, right: Array) -> tuple[Array, Array]:
    """The products in 64 bits, and bounds of their absolute values, which are 0 only for 0."""
    terms = widen(left) * widen(right)
    sizes = jnp.abs(terms)
    if left.dtype.itemsize == 8:
        # This covers a product or a factor that the processor treats as 0.
        lost = 2.0**-1022 * (1 + jnp.abs(left) + jnp.abs(right))
        sizes = sizes + jnp.where(is_nonzero(left) & is_nonzero(right), 2.0**53 * lost, 0)
    return terms, sizes


def round_outwards(total: Array, slack: Array, dtype: Any) -> tuple[Array, Array]:
    """Floats that are at most total - slack and at least total + slack, and not subnormal.

    To be called inside `numerics.in_64_bits`.
    """
    unbounded = slack == jnp.inf
    low, high = (
        jnp.where(unbounded, -jnp.inf, total - slack),
        jnp.where(unbounded, jnp.inf, total + slack),
    )
    tiny = float(jnp.finfo(dtype).tiny)
    low = jnp.where(jnp.abs(low) < tiny, jnp.where(low >= 0, 0.0, -tiny), low)
    high = jnp.where(jnp.abs(high) < tiny, jnp.where(high <= 0, 0.0, tiny), high)
    return numerics.round_down(low, dtype), numerics.round_up(high, dtype)


def sum_products(sums: Sums, num_terms: Any, left: Array, right: Array) -> tuple[Array, Array]:
    """Lower and upper bounds of the exact sums of left * right.

    The arguments are those of `sum_and_slack`. To be called inside `numerics.in_64_bits`.
    """
    return round_outwards(*sum_and_slack(sums, num_terms, left, right), left.dtype)


def bracket_dot(left: Array, right: Array) -> tuple[Array, Array]:
    """Lower and upper bounds of the exact sum of left * right over the last axis.

    The two arrays broadcast, along axes of equal size or of size 1.
    """

    def bracket(left: Array, right: Array) -> tuple[Array, Array]:
        return sum_products(along(-1), _num_terms(left, right), left, right)

    return numerics.in_64_bits(bracket)(left, right)


def _num_terms(left: Array, right: Array) -> int:
    return exact_sums.length(max(left.shape[-1], right.shape[-1]))


def sharp_bracket_dot(left: Array, right: Array) -> tuple[Array, Array]:
    """`bracket_dot` with equal bounds where the sum is exact.

    This holds for factors that fit float32, whose products are multiples of 2^-20, if the sum of
    the absolute products is below 2^32.

    A product of two numbers that float32 holds is exact in 64 bits, and so is a sum of multiples of
    2^-20 whose sizes add up to less than 2^32.
    """

    def bracket(left: Array, right: Array) -> tuple[Array, Array]:
        total, size, are_exact = sharp_sums(left, right)
        return round_outwards(
            total, sharp_slack(size, are_exact, _num_terms(left, right)), left.dtype
        )

    return numerics.in_64_bits(bracket)(left, right)


def sharp_sums(left: Array, right: Array, *, axis: int = -1) -> tuple[Array, Array, Array]:
    """Sums of left * right over an axis, with the data for `sharp_slack`.

    Returns the sums, bounds of the sums of absolute products, and whether all products are exact
    multiples of 2^-20. To be called inside `numerics.in_64_bits`.
    """
    terms, sizes = _terms(left, right)
    is_whole = jnp.floor(2.0**20 * terms) == 2.0**20 * terms
    is_exact = (
        is_whole
        if left.dtype.itemsize < 8
        else (sizes == 0) | (is_whole & _is_short(left) & _is_short(right))
    )
    total, size, are_exact = reduce.several(
        (reduce.SUM, terms), (reduce.SUM, sizes), (reduce.ALL, is_exact), axis=axis
    )
    return total, size, are_exact


def sharp_slack(size: Array, are_exact: Array, num_terms: int) -> Array:
    """Bounds of the rounding errors of the sums of `sharp_sums`, added in any order.

    To be called inside `numerics.in_64_bits`.
    """
    return jnp.where(are_exact & (size < 2.0**32), 0.0, size * ((num_terms + 2) * 2.0**-52))


def slack_of_signed(vector: Array, total: Callable[[Array], Array]) -> Array:
    """Bounds of the rounding errors of sums with terms +v_i, 0 or -v_i, added in any order.

    They are 0 for multiples of 2^-20 whose absolute values sum to less than 2^32, as such sums are
    exact. To be called inside `numerics.in_64_bits`.

    Args:
      vector: [k] in the default float type; `widen` converts it to 64 bits.
      total: a function from bounds of |v_i| [k] to their sum for each of the sums, over all terms
        or over the nonzero ones.
    """
    terms = widen(vector)
    sizes = jnp.abs(terms)
    is_exact = jnp.floor(2.0**20 * terms) == 2.0**20 * terms
    if vector.dtype.itemsize == 8:  # a processor may treat a subnormal number as 0
        is_small = numerics.is_subnormal(vector)
        # 2^53 times what may be lost
        sizes, is_exact = sizes + jnp.where(is_small, 2.0**-969, 0), is_exact & ~is_small
    return sharp_slack(total(sizes), reduce.all_true(is_exact), vector.shape[0])


def _is_short(values: Array) -> Array:
    """Whether 64-bit numbers are exact in float32 and not subnormal."""
    return (numerics.held_in(values, jnp.float32) == values) & ~numerics.is_subnormal(values)


def add_brackets(brackets: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The sum of intervals of one shape, rounded outwards."""
    if len(brackets) == 1:
        return brackets[0]
    lows, highs = (jnp.stack(side, axis=-1) for side in zip(*brackets, strict=True))
    return bracket_dot(lows, jnp.ones_like(lows))[0], bracket_dot(highs, jnp.ones_like(highs))[1]
