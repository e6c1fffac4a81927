"""Masked reductions, safe division, and the 64-bit scope inside 32-bit programs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import exact_sums, reduce
from jboost.base.types import Array, PyTree

# `lax.top_k` on a GPU does not finish compiling some sizes above 2^20 that are multiples of 1024
# (found by trial); `top_k` adds one entry to these.
_TOP_K_SIZE_LIMIT, _TOP_K_DIVISOR = 1 << 20, 1 << 10
_SUM_ROUNDING = 8  # rounding units that a sum of a few numbers may lose
# `times_transposed` multiplies up to this many vectors one at a time (see there).
_MAX_SEPARATE_VECTORS = 2


def in_64_bits(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Returns `function` traced with 64-bit types enabled, whatever `jax_enable_x64` is.

    Safe inside the scope: casts, arithmetic, comparisons, bit operations, sorts, cumulative sums,
    gathers, scatters, loops, `times`, `times_transposed`, and Cholesky factors with their solves.
    Not safe: other matrix products, argmax, random numbers and special functions, which ignore the
    scope under `vmap`.

    The arguments are passed through `stop_gradient`. A function with a derivative defines it
    outside of the scope. If the caller has not enabled 64-bit types, every returned array must have
    at most 32 bits per entry; otherwise a TypeError is raised. Returned floats are rounded to their
    type. Values that are narrowed and widened again inside the scope must pass through `narrow` or
    `held_in`, because XLA may remove a pair of plain conversions.
    """

    def scoped(*args: PyTree) -> PyTree:
        allowed = bool(jax.config.read("jax_enable_x64"))
        args = jax.tree.map(lax.stop_gradient, args)
        with jax.enable_x64(True):
            results = jax.tree.map(_rounded_to_its_type, function(*args))
        too_wide = [leaf.dtype for leaf in jax.tree.leaves(results) if leaf.dtype.itemsize > 4]
        if too_wide and not allowed:
            raise TypeError(
                f"64-bit results {too_wide} would leave the 64-bit scope of a 32-bit program"
            )
        return results

    return scoped


def _rounded_to_its_type(leaf: Array) -> Array:
    """`leaf`, with the rounding to its float type forced.

    Compilers for accelerators may keep an intermediate result in a wider type.
    """
    if not jnp.issubdtype(leaf.dtype, jnp.floating) or leaf.dtype.itemsize > 4:
        return leaf
    return narrow(leaf.astype(jnp.dtype("float64")), leaf.dtype)


def held_in(values: Array, dtype: Any) -> Array:
    """Rounds `values` to a narrower float `dtype` and keeps their own type.

    Numbers that are subnormal in `dtype` become 0. A conversion to `dtype` and back is not enough:
    XLA removes such pairs ("excess precision"), and the rounding with them.
    """
    number = jnp.finfo(dtype)
    return (
        values
        if number.bits >= values.dtype.itemsize * 8
        else lax.reduce_precision(values, number.nexp, number.nmant)
    )


def narrow(values: Array, dtype: Any) -> Array:
    """Converts `values` to a narrower float `dtype`, rounded to nearest.

    A later conversion to a wider type returns exactly these rounded numbers.
    """
    return held_in(values, dtype).astype(dtype)


def masked_min(values: Array, mask: Array, *, fill: Any) -> Array:
    """The minimum over the last axis of `fill` and the `values` where `mask` is True."""
    return jnp.minimum(reduce.least(jnp.where(mask, values, fill)), fill)


def masked_max(values: Array, mask: Array, *, fill: Any) -> Array:
    """The maximum over the last axis of `fill` and the `values` where `mask` is True."""
    return jnp.maximum(reduce.largest(jnp.where(mask, values, fill)), fill)


def masked_sum(values: Array, mask: Array) -> Array:
    """The sum over the last axis of the `values` where `mask` is True, in their dtype.

    Masked entries are ignored, even if they are NaN.
    """
    return reduce.total(jnp.where(mask, values, jnp.zeros((), values.dtype)))


@jax.custom_jvp
def precise_sum(values: Array) -> Array:
    """The sum of floats over the last axis, in their dtype.

    Floats of at most 32 bits are added in 64 bits, and the sum is rounded once. Floats of 64 bits
    are added by `jnp.sum`.
    """
    if exact_sums.are_on():
        exact: Array = exact_sums.total(values, (values.ndim - 1,))
        return exact
    if values.dtype.itemsize > 4:
        return jnp.sum(values, axis=-1)
    total: Array = in_64_bits(
        lambda given: reduce.total(given.astype(jnp.dtype("float64"))).astype(given.dtype)
    )(values)
    return total


@precise_sum.defjvp
def _derivative_of_sum(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return precise_sum(*primals), jnp.sum(*tangents, axis=-1)


def first_greatest(values: Array) -> tuple[Array, Array]:
    """The index of the first maximum of floats [k], and the maximum; the index is k for NaN."""
    largest = reduce.largest(values)
    return first_true(values == largest), largest


def first_true(mask: Array) -> Array:
    """The index of the first True of a vector [n], or n if there is none.

    It may be used inside `in_64_bits`, where argmax is not safe.
    """
    size = mask.shape[-1]
    return masked_min(lax.broadcasted_iota(jnp.int32, (size,), 0), mask, fill=size)


def take(values: Array, index: Array) -> Array:
    """The entries of values [..., n] at indices [...] in [0, n).

    Indices outside of this range are undefined. Plain indexing also compiles code for negative and
    for out-of-range indices.
    """
    taken: Array = values.at[..., index].get(mode="promise_in_bounds", wrap_negative_indices=False)
    return taken


def safe_divide(numerator: Array, denominator: Array, *, fill: Any = 0) -> Array:
    """numerator / denominator, and `fill` where the denominator is 0, with a finite derivative."""
    # The inner `where` keeps 0 / 0 out of the derivative, which the outer one would multiply by 0.
    is_zero = denominator == 0
    return jnp.where(
        is_zero, fill, numerator / jnp.where(is_zero, jnp.ones_like(denominator), denominator)
    )


def at_least_32_bits(dtype: Any) -> Any:
    """float32 for a float type of fewer than 32 bits, else `dtype` itself."""
    return dtype if jnp.dtype(dtype).itemsize >= 4 else jnp.dtype("float32")


def power_of_two_at_least(value: Array) -> Array:
    """The smallest power of two that is not below |value|, for a normal number; 1 for zero.

    It is exact, unlike `exp2(ceil(log2(value)))`.
    """
    bits_dtype = {4: jnp.uint32, 8: jnp.uint64}[value.dtype.itemsize]
    mantissa_bits = jnp.finfo(value.dtype).nmant
    bits = lax.bitcast_convert_type(jnp.abs(value), bits_dtype)
    # Without its mantissa a float is a power of two. If the mantissa is not 0, the next exponent is
    # the result.
    truncated = (bits >> mantissa_bits) << mantissa_bits
    carried = jnp.where(
        bits == truncated, truncated, truncated + (jnp.ones((), bits_dtype) << mantissa_bits)
    )
    return jnp.where(
        value == 0, jnp.ones((), value.dtype), lax.bitcast_convert_type(carried, value.dtype)
    )


def is_subnormal(values: Array) -> Array:
    """Whether floats are subnormal, [...] bool. Processors may treat subnormal floats as 0.

    The test reads the bits, because a comparison of floats may flush them to 0 first.
    """
    bits_dtype = {2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}[values.dtype.itemsize]
    mantissa = jnp.ones((), bits_dtype) << jnp.finfo(values.dtype).nmant
    magnitude = (lax.bitcast_convert_type(values, bits_dtype) << 1) >> 1
    return (magnitude != 0) & (magnitude < mantissa)


def to_unit(values: Array) -> Array:
    """Nonnegative numbers [m] times the power of two that brings the maximum into [1/2, 1).

    The scaling is exact, except for entries that become subnormal.
    """
    _, above = jnp.frexp(lax.stop_gradient(jnp.max(values, initial=0.0)))
    return times_power_of_two(values, -above)


def times_power_of_two(values: Array, power: Array) -> Array:
    """values [m] times 2^power, for `power` [] int32.

    It is exact if values, intermediate products and results are normal numbers. 2^power itself may
    overflow or underflow.
    """
    # two factors, as 2^power may be outside of the range of floats
    half = power // 2
    one = jnp.ones((), values.dtype)
    return values * jnp.ldexp(one, half) * jnp.ldexp(one, power - half)


def top_k(values: Array, num: int) -> tuple[Array, Array]:
    """`lax.top_k` of numbers [k]: the `num` largest ones and their indices.

    int32 values within 2^24 of the smallest or the largest int32 count as equal to one another.

    XLA for CPUs sorts all integers, but only selects the largest floats. Therefore integers are
    mapped to normal floats in the same order. XLA for GPUs does not finish compiling some sizes
    above 2^20, all of them multiples of 1024. Such a vector is padded by one entry, the smallest.
    """
    if values.dtype == jnp.dtype("int32"):
        # A float is a sign and a magnitude, and floats of one sign are ordered as their bits.
        # Magnitudes start at the least normal float and end below infinity.
        most = jnp.iinfo(jnp.int32).max - (1 << 24)
        least_normal = 1 << 23
        magnitude = (jnp.abs(jnp.clip(values, -most, most)) + least_normal).astype(jnp.uint32)
        bits = jnp.where(values < 0, magnitude | jnp.uint32(1 << 31), magnitude)
        _, indices = top_k(lax.bitcast_convert_type(bits, jnp.float32), num)
        return values[indices], indices
    size, is_float = values.shape[0], jnp.issubdtype(values.dtype, jnp.floating)
    padding = int(size > _TOP_K_SIZE_LIMIT and size % _TOP_K_DIVISOR == 0)
    found: tuple[Array, Array] = lax.top_k(
        jnp.pad(
            values,
            (0, padding),
            constant_values=-jnp.inf if is_float else jnp.iinfo(values.dtype).min,
        ),
        num,
    )
    return found


def product(left: Array, right: Array) -> Array:
    """The product of a matrix and a vector, or of a vector and a matrix, at the highest precision.

    In the scope of `exact_sums` it does not depend on the order of sums. There the entries of the
    matrix must be at most 1 in absolute value, as margins and outputs are.
    """
    if exact_sums.are_on():
        return exact_sums.products(left, right)
    return jnp.matmul(left, right, precision=lax.Precision.HIGHEST)


def cumulative_sum(values: Array, *, reverse: bool = False) -> Array:
    """The cumulative sums of float64 numbers [..., k] along the last axis.

    To be called inside `in_64_bits`. In the scope of `exact_sums` they do not depend on the order
    of the additions, which XLA chooses.
    """
    if exact_sums.are_on():
        return exact_sums.running_total(values, reverse=reverse)
    return lax.cumsum(values, axis=values.ndim - 1, reverse=reverse)


def times(left: Array, right: Array) -> Array:
    """The product of matrices or vectors of one type, at the highest precision.

    It may be used inside `in_64_bits`, where `jnp.matmul` is not safe.
    """
    return lax.dot_general(
        left, right, (((left.ndim - 1,), (0,)), ((), ())), precision=lax.Precision.HIGHEST
    )


def times_transposed(matrix: Array, values: Array) -> Array:
    """The transpose of a matrix [m, n] times vectors [m] or [m, k]: [n] or [n, k].

    The precision is the highest. One or two vectors are multiplied one at a time from the left:
    on a CPU their product with the transposed matrix takes five to ten times as long.
    """
    if values.ndim == 1:
        return times(values, matrix)
    if values.shape[1] not in range(1, _MAX_SEPARATE_VECTORS + 1):
        return times(matrix.T, values)
    return jnp.stack([times_transposed(matrix, column) for column in values.T], axis=1)


def matvec(matrix: Array, vector: Array) -> Array:
    """A matrix [m, n] times a vector [n], in full precision on every device: [m].

    It is computed as a sum of elementwise products, because XLA for CPUs compiles this in 15 ms and
    a matrix-vector product in about 100 ms. A matrix-vector product would run in 0.8 of the time
    for 20,000 x 500 entries.
    """
    return reduce.total(matrix * vector[None, :], axis=1)


def rmatvec(matrix: Array, vectors: Array) -> Array:
    """The transpose of a matrix [m, n] times a vector [m] or the rows of [k, m]: [n] or [k, n].

    One vector is multiplied as in `matvec`, several by `times`.
    """
    return (
        reduce.total(matrix * vectors[:, None], axis=0)
        if vectors.ndim == 1
        else times(vectors, matrix)
    )


def root(square: Array) -> Array:
    """The square root of positive numbers, else 0. Where it is 0, its derivative is 0 too."""
    is_positive = square > 0
    return jnp.where(is_positive, jnp.sqrt(jnp.where(is_positive, square, 1.0)), 0.0)


def inverse_root(square: Array) -> Array:
    """The inverse square root of positive numbers, else 1."""
    is_positive = square > 0
    return jnp.where(is_positive, lax.rsqrt(jnp.where(is_positive, square, 1.0)), 1.0)


def spread(size: int, dtype: jnp.dtype) -> Array:
    """A fixed vector [size] of numbers in [1, 2) that are spread evenly and not sorted."""
    # multiples of the golden ratio modulo 1, a low-discrepancy sequence
    return 1 + jnp.mod(0.6180339887 * jnp.arange(size, dtype=dtype), 1.0)


def sum_down(one: Array, other: Array) -> Array:
    """one + other, rounded down; infinite sums stay infinite."""
    total = one + other
    eps = jnp.finfo(total.dtype).eps
    return jnp.where(
        jnp.isfinite(total), total - _SUM_ROUNDING * eps * (jnp.abs(one) + jnp.abs(other)), total
    )


def round_down(value: Array, dtype: jnp.dtype) -> Array:
    """The largest number of the float `dtype` that is not above an integer or float `value`.

    Subnormal numbers are not returned.
    """
    return _rounded(value, dtype, operator.gt, -1.0)


def round_up(value: Array, dtype: jnp.dtype) -> Array:
    """The smallest number of the float `dtype` that is not below an integer or float `value`.

    Subnormal numbers are not returned.
    """
    return _rounded(value, dtype, operator.lt, 1.0)


def _rounded(
    value: Array, dtype: jnp.dtype, is_past: Callable[[Array, Array], Array], sign: float
) -> Array:
    """The nearest number of `dtype`, or the next one in the direction of `sign`.

    The next one is taken where `is_past(nearest, value)`.
    """
    is_float = jnp.issubdtype(value.dtype, jnp.floating)
    nearest = narrow(value, dtype) if is_float else value.astype(dtype)
    if nearest.dtype == value.dtype:
        return value
    # A processor may treat numbers below `tiny` as 0. From 0, `nextafter` steps to a subnormal.
    tiny = jnp.finfo(dtype).tiny
    following = jnp.where(
        jnp.abs(nearest) < tiny,
        sign * tiny,
        lax.nextafter(nearest, jnp.full_like(nearest, sign * jnp.inf)),
    )
    return jnp.where(is_past(nearest.astype(value.dtype), value), following, nearest)
