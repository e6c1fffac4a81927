"""Sums of products rounded outwards: floats at or below and at or above what exact arithmetic
gives, in 32-bit and in 64-bit programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics, reduce
from jboost.base.types import Array


def widen(values: Array) -> Array:
    """The same numbers in 64 bits, those too that a processor takes for 0 in 32; to be called in
    the 64-bit scope.
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
    """Whether numbers are not 0, though a processor may take them for it; a comparison of all bits
    but the sign compilers make one of floats.
    """
    return (values != 0) | numerics.is_subnormal(values)


# two arrays of one shape -> the same sums of both
Sums = Callable[[Array, Array], tuple[Array, Array]]


def along(axis: int) -> Sums:
    """Sums over an axis, as `sum_and_slack` takes them."""
    return functools.partial(reduce.totals, axis=axis)


def each_by(total: Callable[[Array], Array]) -> Sums:
    """Sums by a function of one array, as `sum_and_slack` takes them."""
    return lambda terms, sizes: (total(terms), total(sizes))


def sum_and_slack(sums: Sums, num_terms: Any, left: Array, right: Array) -> tuple[Array, Array]:
    """Sums of left * right, and how far they are from the exact ones at most; both in 64 bits, in
    whose scope it is to be called.

    Args:
      sums: `along` or `each_by`: how terms are summed, in any order and linear in them; it is
        called with the terms and with bounds of their sizes.
      num_terms: how many terms a sum has at most; an integer, or an array in the shape of the sums.
        Sums that are added up later count together.
      left: factors in the default float type.
      right: factors in the default float type; the two broadcast.
    """
    total, size = sums(*_terms(left, right))
    return total, size * ((num_terms + 2) * 2.0**-52)


def _terms(left: Array, right: Array) -> tuple[Array, Array]:
    """The products in 64 bits, and bounds of their sizes, 0 for none but those that are 0."""
    terms = widen(left) * widen(right)
    sizes = jnp.abs(terms)
    if left.dtype.itemsize == 8:
        # a product or a factor that is taken for 0
        lost = 2.0**-1022 * (1 + jnp.abs(left) + jnp.abs(right))
        sizes = sizes + jnp.where(is_nonzero(left) & is_nonzero(right), 2.0**53 * lost, 0)
    return terms, sizes


def round_outwards(total: Array, slack: Array, dtype: Any) -> tuple[Array, Array]:
    """Floats at or below total - slack and at or above total + slack, none subnormal; to be called
    in the 64-bit scope.
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
    """Floats at or below and at or above the exact sums of left * right; arguments as of
    `sum_and_slack`, in the scope too.
    """
    return round_outwards(*sum_and_slack(sums, num_terms, left, right), left.dtype)


def bracket_dot(left: Array, right: Array) -> tuple[Array, Array]:
    """Floats at or below and at or above the exact sum over the last axis of left * right, which
    broadcast as equals or by ones.
    """

    def bracket(left: Array, right: Array) -> tuple[Array, Array]:
        return sum_products(along(-1), max(left.shape[-1], right.shape[-1]), left, right)

    return numerics.in_64_bits(bracket)(left, right)


def sharp_bracket_dot(left: Array, right: Array) -> tuple[Array, Array]:
    """`bracket_dot`, with both floats equal to the sum where it has no rounding: short factors
    whose products are multiples of 2^-20, few and small.

    A product of two numbers that float32 holds is exact in 64 bits, and so is a sum of multiples of
    2^-20 whose sizes add up to less than 2^32.
    """

    def bracket(left: Array, right: Array) -> tuple[Array, Array]:
        total, size, are_exact = sharp_sums(left, right)
        return round_outwards(
            total, sharp_slack(size, are_exact, max(left.shape[-1], right.shape[-1])), left.dtype
        )

    return numerics.in_64_bits(bracket)(left, right)


def sharp_sums(left: Array, right: Array, *, axis: int = -1) -> tuple[Array, Array, Array]:
    """Sums of left * right over an axis, bounds of the sums of their sizes, and whether all
    products are multiples of 2^-20.

    To be called in the 64-bit scope.
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
    """How far such sums of so many terms, added in any order, are from the exact ones at most; in
    the 64-bit scope.
    """
    return jnp.where(are_exact & (size < 2.0**32), 0.0, size * ((num_terms + 2) * 2.0**-52))


def slack_of_signed(vector: Array, total: Callable[[Array], Array]) -> Array:
    """How far sums of the terms +v_i, 0 or -v_i, added in 64 bits in any order, are from the exact
    ones at most; to be called in that scope.

    It is 0 where no sum is rounded: for multiples of 2^-20 whose sizes add up to less than 2^32.

    Args:
      vector: [k] in the default float type; the terms are its numbers by `widen`.
      total: bounds of the sizes of the terms [k] -> their sum for each of the sums: all of them, or
        those of terms that are not 0.
    """
    terms = widen(vector)
    sizes = jnp.abs(terms)
    is_exact = jnp.floor(2.0**20 * terms) == 2.0**20 * terms
    if vector.dtype.itemsize == 8:  # a processor may take a number for 0
        is_small = numerics.is_subnormal(vector)
        # 2^53 times what may be lost
        sizes, is_exact = sizes + jnp.where(is_small, 2.0**-969, 0), is_exact & ~is_small
    return sharp_slack(total(sizes), reduce.all_true(is_exact), vector.shape[0])


def _is_short(values: Array) -> Array:
    """Whether float32 holds 64-bit numbers, and none is below the normal range (processors may read
    such numbers as 0).
    """
    return (numerics.held_in(values, jnp.float32) == values) & ~numerics.is_subnormal(values)


def add_brackets(brackets: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The sum of brackets of the same shape, rounded outwards."""
    if len(brackets) == 1:
        return brackets[0]
    lows, highs = (jnp.stack(side, axis=-1) for side in zip(*brackets, strict=True))
    return bracket_dot(lows, jnp.ones_like(lows))[0], bracket_dot(highs, jnp.ones_like(highs))[1]
