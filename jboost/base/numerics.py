"""Masked reductions, safe division, and the 64-bit scope inside 32-bit programs."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import meshes, reduce
from jboost.base.types import Array, PyTree

_STRANDS = 4  # of a reduction over floats
# numbers among which the largest are looked for: XLA divides more, if it can
_MOST_DIVIDED, _DIVISOR = 1 << 20, 1 << 10
_FEW_VECTORS = 2  # of a product with a transposed matrix, at most, to be taken one by one


def in_64_bits(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """`function`, traced with 64-bit types allowed, whatever the caller's setting.

    The scope is right for casts, arithmetic, comparisons, bit operations, sorts, cumulative sums,
    gathers, scatters and loops; of products of matrices for `times` and `times_transposed`, and for
    Cholesky's factors with what they solve. It is wrong for other products, argmax, random numbers
    and special functions, which forget the scope under `vmap`. Gradients stop at its door: what is
    computed inside is piecewise constant or has a derivative of its own outside. Where the caller
    has not enabled 64-bit types, every array that leaves must be of 32 bits or fewer. Floats that
    leave are rounded for certain; those that are narrowed and widened again inside are to go
    through `narrow` or `held_in`.
    """

    def scoped(*args: PyTree) -> PyTree:
        allowed = bool(jax.config.read("jax_enable_x64"))
        args = jax.tree.map(lax.stop_gradient, args)
        with jax.enable_x64(True):
            results = jax.tree.map(_settled, function(*args))
        too_wide = [leaf.dtype for leaf in jax.tree.leaves(results) if leaf.dtype.itemsize > 4]
        if too_wide and not allowed:
            raise TypeError(
                f"64-bit results {too_wide} would leave the 64-bit scope of a 32-bit program"
            )
        return results

    return scoped


def _settled(leaf: Array) -> Array:
    """The same, rounded to its type where compilers for accelerators may not have done so."""
    if not jnp.issubdtype(leaf.dtype, jnp.floating) or leaf.dtype.itemsize > 4:
        return leaf
    return narrow(leaf.astype(jnp.dtype("float64")), leaf.dtype)


def held_in(values: Array, dtype: Any) -> Array:
    """The nearest numbers of a narrower float `dtype`, in the type of the values; 0 for those that
    are subnormal there.

    A conversion and its inverse would do, but that XLA leaves out such pairs ("excess precision"),
    and the rounding with them.
    """
    number = jnp.finfo(dtype)
    return (
        values
        if number.bits >= values.dtype.itemsize * 8
        else lax.reduce_precision(values, number.nexp, number.nmant)
    )


def narrow(values: Array, dtype: Any) -> Array:
    """The nearest numbers of a narrower float `dtype`, in that type; what widens them again finds
    these and no others.
    """
    return held_in(values, dtype).astype(dtype)


def masked_min(values: Array, mask: Array, *, fill: Any) -> Array:
    """The least of `values` where `mask`; `fill` where nothing is unmasked. Reduces the
    last axis.
    """
    return jnp.minimum(reduce.least(jnp.where(mask, values, fill)), fill)


def masked_max(values: Array, mask: Array, *, fill: Any) -> Array:
    """The greatest of `values` where `mask`; `fill` where nothing is unmasked. Reduces the last
    axis.
    """
    return jnp.maximum(reduce.largest(jnp.where(mask, values, fill)), fill)


def masked_sum(values: Array, mask: Array) -> Array:
    """The sum of `values` where `mask`; entries that are masked out may be NaN. Reduces the last
    axis, keeps the dtype.
    """
    return reduce.total(jnp.where(mask, values, jnp.zeros((), values.dtype)))


@jax.custom_jvp
def precise_sum(values: Array) -> Array:
    """The sum of floats over the last axis, in their dtype: added in 64 bits and rounded once; of
    64 bits as XLA adds, not term by term.
    """
    if values.dtype.itemsize > 4:
        return jnp.sum(values, axis=-1)
    total: Array = in_64_bits(
        lambda given: reduce.total(given.astype(jnp.dtype("float64"))).astype(given.dtype)
    )(values)
    return total


@precise_sum.defjvp
def _derivative_of_sum(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return precise_sum(*primals), jnp.sum(*tangents, axis=-1)


def greatest(values: Array) -> Array:
    """The largest of floats [k], -inf for none.

    In strands: a processor waits for every comparison of a row before the next one, as compilers do
    not put those of floats in another order.
    """
    if meshes.is_set():  # strands of values in several parts would be gathered
        return jnp.max(values, initial=-jnp.inf)
    strands = jnp.pad(values, (0, -values.shape[0] % _STRANDS), constant_values=-jnp.inf).reshape(
        _STRANDS, -1
    )
    return jnp.max(functools.reduce(jnp.maximum, strands), initial=-jnp.inf)


def least(values: Array) -> Array:
    """The smallest of floats [k], inf for none, likewise."""
    return -greatest(-values)


def first_greatest(values: Array) -> tuple[Array, Array]:
    """The index of the first of the largest of floats [k], and that; k where one is NaN."""
    largest = greatest(values)
    return first_true(values == largest), largest


def first_true(mask: Array) -> Array:
    """The index of the first True of a vector [n], n where there is none; legal in the 64-bit
    scope, where argmax is not.
    """
    size = mask.shape[-1]
    return masked_min(lax.broadcasted_iota(jnp.int32, (size,), 0), mask, fill=size)


def take(values: Array, index: Array) -> Array:
    """The entries of values [..., n] at indices [...] that are known to lie in [0, n): without the
    code for others that indexing compiles.
    """
    taken: Array = values.at[..., index].get(mode="promise_in_bounds", wrap_negative_indices=False)
    return taken


def safe_divide(numerator: Array, denominator: Array, *, fill: Any = 0) -> Array:
    """numerator / denominator, and `fill` where the denominator is 0; no NaN appears in the value
    or in its derivative.
    """
    is_zero = denominator == 0
    return jnp.where(
        is_zero, fill, numerator / jnp.where(is_zero, jnp.ones_like(denominator), denominator)
    )


def at_least_32_bits(dtype: Any) -> Any:
    """float32 for a float of fewer bits, else the type itself."""
    return dtype if jnp.dtype(dtype).itemsize >= 4 else jnp.dtype("float32")


def power_of_two_at_least(value: Array) -> Array:
    """The least power of two >= a positive normal number, by its bits; 1 for zero. Exact where a
    logarithm is not.
    """
    bits_dtype = {4: jnp.uint32, 8: jnp.uint64}[value.dtype.itemsize]
    mantissa_bits = jnp.finfo(value.dtype).nmant
    bits = lax.bitcast_convert_type(jnp.abs(value), bits_dtype)
    truncated = (bits >> mantissa_bits) << mantissa_bits
    carried = jnp.where(
        bits == truncated, truncated, truncated + (jnp.ones((), bits_dtype) << mantissa_bits)
    )
    return jnp.where(
        value == 0, jnp.ones((), value.dtype), lax.bitcast_convert_type(carried, value.dtype)
    )


def is_subnormal(values: Array) -> Array:
    """Whether floats are so small that a processor may take them for 0; decided by their bits,
    [...] bool.
    """
    bits_dtype = {2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}[values.dtype.itemsize]
    mantissa = jnp.ones((), bits_dtype) << jnp.finfo(values.dtype).nmant
    magnitude = (lax.bitcast_convert_type(values, bits_dtype) << 1) >> 1
    return (magnitude != 0) & (magnitude < mantissa)


def to_unit(values: Array) -> Array:
    """Numbers [m] that are not negative times the power of two that brings the largest into [1/2,
    1): exact, but for those too small to matter.
    """
    _, above = jnp.frexp(lax.stop_gradient(jnp.max(values, initial=0.0)))
    return times_power_of_two(values, -above)


def times_power_of_two(values: Array, power: Array) -> Array:
    """values [m] 2^power, exactly where no number on the way leaves the normal range; power []
    int32, whose own power of two may.
    """
    half = power // 2
    one = jnp.ones((), values.dtype)
    return values * jnp.ldexp(one, half) * jnp.ldexp(one, power - half)


def top_k(values: Array, num: int) -> tuple[Array, Array]:
    """`lax.top_k` of [k] numbers, integers of 32 bits within 2^24 of the least and the largest one
    alike.

    XLA sorts integers whole on a CPU, where of floats it looks for the largest only: so floats of
    the same order, normal ones, stand for them. For a GPU it never ends compiling some sizes above
    2^20, multiples of 1024 all of them: there is one number more then, the least.
    """
    if values.dtype == jnp.dtype("int32"):
        most = jnp.iinfo(jnp.int32).max - (1 << 24)
        least_normal = 1 << 23
        magnitude = (jnp.abs(jnp.clip(values, -most, most)) + least_normal).astype(jnp.uint32)
        bits = jnp.where(values < 0, magnitude | jnp.uint32(1 << 31), magnitude)
        _, places = top_k(lax.bitcast_convert_type(bits, jnp.float32), num)
        return values[places], places
    size, is_float = values.shape[0], jnp.issubdtype(values.dtype, jnp.floating)
    missing = int(size > _MOST_DIVIDED and size % _DIVISOR == 0)
    found: tuple[Array, Array] = lax.top_k(
        jnp.pad(
            values,
            (0, missing),
            constant_values=-jnp.inf if is_float else jnp.iinfo(values.dtype).min,
        ),
        num,
    )
    return found


def times(left: Array, right: Array) -> Array:
    """The product of matrices or vectors of one type at the highest precision; legal in the 64-bit
    scope, where `jnp.matmul` is not.
    """
    return lax.dot_general(
        left, right, (((left.ndim - 1,), (0,)), ((), ())), precision=lax.Precision.HIGHEST
    )


def times_transposed(matrix: Array, values: Array) -> Array:
    """The transpose of a matrix [m, n] times a vector [m] or several [m, k]: [n] or [n, k], at the
    highest precision.

    A few go one at a time, and from the left: a CPU takes five to ten times as long for their
    product with the transposed matrix.
    """
    if values.ndim == 1:
        return times(values, matrix)
    if values.shape[1] not in range(1, _FEW_VECTORS + 1):
        return times(matrix.T, values)
    return jnp.stack([times_transposed(matrix, column) for column in values.T], axis=1)


def matvec(matrix: Array, vector: Array) -> Array:
    """A matrix [m, n] times a vector [n], in full precision on every device: [m].

    It is written as a sum: XLA for CPUs compiles that in 15 ms, and a product of a matrix and a
    vector in some 100 ms. With 20,000 x 500 entries the product would take 0.8 of the time to run.
    """
    return reduce.total(matrix * vector[None, :], axis=1)


def rmatvec(matrix: Array, vectors: Array) -> Array:
    """The transpose of a matrix [m, n] times one vector [m] or the rows of several [k, m]: [n] or
    [k, n], one likewise, several by `times`.
    """
    return (
        reduce.total(matrix * vectors[:, None], axis=0)
        if vectors.ndim == 1
        else times(vectors, matrix)
    )


def root(square: Array) -> Array:
    """The square root, 0 of what is negative; its derivative is 0 where it is 0 itself."""
    is_positive = square > 0
    return jnp.where(is_positive, jnp.sqrt(jnp.where(is_positive, square, 1.0)), 0.0)


def inverse_root(square: Array) -> Array:
    """1 over the square root, 1 for what is not positive."""
    is_positive = square > 0
    return jnp.where(is_positive, lax.rsqrt(jnp.where(is_positive, square, 1.0)), 1.0)


def spread(size: int, dtype: jnp.dtype) -> Array:
    """Numbers [size] in [1, 2) without structure."""
    return 1 + jnp.mod(0.6180339887 * jnp.arange(size, dtype=dtype), 1.0)


def round_down(value: Array, dtype: jnp.dtype) -> Array:
    """The largest number of the float `dtype` that is not above an integer or float `value`; next
    to 0 the largest that is not subnormal.
    """
    return _rounded(value, dtype, operator.gt, -1.0)


def round_up(value: Array, dtype: jnp.dtype) -> Array:
    """The smallest number of the float `dtype` that is not below an integer or float `value`; next
    to 0 the smallest that is not subnormal.
    """
    return _rounded(value, dtype, operator.lt, 1.0)


def _rounded(
    value: Array, dtype: jnp.dtype, is_past: Callable[[Array, Array], Array], sign: float
) -> Array:
    """The nearest number of `dtype`, or where it is past the value the next one in the direction of
    the sign.
    """
    is_float = jnp.issubdtype(value.dtype, jnp.floating)
    nearest = narrow(value, dtype) if is_float else value.astype(dtype)
    if nearest.dtype == value.dtype:
        return value
    # what is below it may be taken for 0, from where a step of nextafter is too short
    tiny = jnp.finfo(dtype).tiny
    following = jnp.where(
        jnp.abs(nearest) < tiny,
        sign * tiny,
        lax.nextafter(nearest, jnp.full_like(nearest, sign * jnp.inf)),
    )
    return jnp.where(is_past(nearest.astype(value.dtype), value), following, nearest)
