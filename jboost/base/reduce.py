"""Sums, extremes and logical tests over axes, each compiled as one kernel on a CPU.

XLA for CPUs compiles a reduction over more than 32 numbers to three kernels: one for the operand,
one over windows of 32 numbers, and one over the results. A reduction of a pair of arrays stays one
kernel together with its operands. Therefore a single reduction is written as a pair here. A barrier
keeps XLA from removing the second of the pair before it chooses its kernels. For float arrays of
some thousand numbers XLA calls a library, which is faster, so these are reduced by `jax.numpy`.
Values and derivatives are those of `jax.numpy`, but a sum adds its terms in another order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import devices, exact_sums, meshes
from jboost.base.types import Array

Axis = int | tuple[int, ...]
# XLA calls a library for float arrays of at least this size (found by trial, jaxlib 0.10.2).
_LIBRARY_SIZE = 4096
# XLA reduces up to this many numbers in one stage (its pass `TreeReductionRewriter`).
_WINDOW = 32


class _Monoid(NamedTuple):
    """An associative operation with an identity element."""

    combine: Callable[[Array, Array], Array]
    identity: Callable[[Any], Any]  # dtype -> the identity element
    plain: Callable[..., Array]  # (values, axis) -> the reduction by `jax.numpy`


def total(values: Array, *, axis: Axis = -1) -> Array:
    """The sum over an axis or several, in the dtype of the values."""
    return _reduced(SUM, values, axis)


def totals(first: Array, second: Array, *, axis: Axis = -1) -> tuple[Array, Array]:
    """The sums of two arrays of one shape over an axis or several, each in its own dtype."""
    one, other = sums(first, second, axis=axis)
    return one, other


def sums(*values: Array, axis: Axis = -1) -> tuple[Array, ...]:
    """The sums of two or more arrays of one shape over an axis or several, each in its dtype."""
    return _together((SUM,) * len(values), values, axis)


def largest(values: Array, *, axis: Axis = -1) -> Array:
    """The maximum over an axis or several; NaN if one number is NaN.

    The maximum of no numbers is -inf, or the smallest integer.
    """
    return _reduced(LARGEST, values, axis)


def least(values: Array, *, axis: Axis = -1) -> Array:
    """The minimum over an axis or several; NaN if one number is NaN.

    The minimum of no numbers is inf, or the largest integer.
    """
    return _reduced(LEAST, values, axis)


def largest_size(values: Array) -> Array:
    """The maximum of |values| over all axes, []; NaN if one number is NaN, and 0 for no numbers."""
    return jnp.maximum(largest(jnp.abs(values), axis=tuple(range(values.ndim))), 0)


def extremes(low: Array, high: Array | None = None, *, axis: Axis = -1) -> tuple[Array, Array]:
    """`least` of `low` and `largest` of `high`, an array of the same shape; None for `low`."""
    least, largest = _together((LEAST, LARGEST), (low, low if high is None else high), axis)
    return least, largest


def lexicographic_least(
    *keys: Array, carried: Sequence[Array] = (), axis: int = -1
) -> tuple[Array, ...]:
    """The first entry along an axis in lexicographic order of its keys.

    Args:
      keys: arrays of one shape without NaN. No two entries may agree in the last key.
      carried: arrays of that shape, which do not affect the order.
      axis: the axis of the entries.

    Returns:
      The keys and the carried values of the entry. If there are no entries, the largest keys and
      zeros.
    """
    (found,) = _lexicographic_leasts([keys], carried, axis)
    return found


def lexicographic_leasts(
    first: Sequence[Array], second: Sequence[Array], *, axis: int = -1
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """`lexicographic_least` for two sets of keys of one shape, in one pass over the arrays."""
    one, other = _lexicographic_leasts([first, second], (), axis)
    return one, other


def first_least(values: Array) -> tuple[Array, Array]:
    """The minimum of numbers [..., k] without NaN, and the int32 index of its first occurrence.

    It may be used inside `numerics.in_64_bits`, where `argmin` is not safe.
    """
    position = lax.broadcasted_iota(jnp.int32, values.shape, values.ndim - 1)
    least, index = lexicographic_least(values, position)
    return least, index


def first_largest(values: Array) -> tuple[Array, Array]:
    """The maximum of floats or signed integers [..., k], and the index of its first occurrence.

    The values must not hold NaN or the smallest integer, whose negative overflows.
    """
    least, index = first_least(-values)
    return -least, index


def several(*parts: tuple[_Monoid, Array], axis: Axis = -1) -> tuple[Array, ...]:
    """Several reductions of arrays of one shape over an axis or several, in one pass.

    Each part is a pair of an operation (SUM, LARGEST, LEAST, ANY or ALL) and an array.

    >>> import jax.numpy as jnp
    >>> from jboost.base import reduce
    >>> [
    ...     float(found)
    ...     for found in reduce.several(
    ...         (reduce.SUM, jnp.array([1.0, 2.0])), (reduce.LARGEST, jnp.array([3.0, 4.0]))
    ...     )
    ... ]
    [3.0, 4.0]
    """
    monoids, values = zip(*parts, strict=True)
    return _together(monoids, values, axis)


def any_true(mask: Array, *, axis: Axis = -1) -> Array:
    """Whether one of the entries over an axis or several is True."""
    return _reduced(ANY, mask, axis)


def all_true(mask: Array, *, axis: Axis = -1) -> Array:
    """Whether all entries over an axis or several are True."""
    return _reduced(ALL, mask, axis)


def count(mask: Array, *, axis: Axis = -1, dtype: Any = jnp.int32) -> Array:
    """How many entries over an axis or several are True."""
    return total(mask.astype(dtype), axis=axis)


def _lowest(dtype: Any) -> Any:
    return -np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    return np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max


SUM = _Monoid(
    lax.add, lambda dtype: 0, lambda values, axis: jnp.sum(values, axis=axis, dtype=values.dtype)
)
LARGEST = _Monoid(
    lax.max,
    _lowest,
    lambda values, axis: _spoiled_by_nan(
        jnp.max(values, axis=axis, initial=_lowest(values.dtype)), values, axis
    ),
)
LEAST = _Monoid(
    lax.min,
    _highest,
    lambda values, axis: _spoiled_by_nan(
        jnp.min(values, axis=axis, initial=_highest(values.dtype)), values, axis
    ),
)
ANY = _Monoid(lax.max, lambda dtype: 0, jnp.any)
ALL = _Monoid(lax.min, lambda dtype: 1, jnp.all)


def _spoiled_by_nan(found: Array, values: Array, axis: Axis) -> Array:
    """NaN where one of the values is NaN, otherwise `found`, their extreme by `jax.numpy`.

    XLA (jaxlib 0.10.2) ignores NaN in the extremes of large float arrays on CPUs, which it passes
    to a library, and in those that it combines over CPU devices. Meshes of other devices were not
    tried, and are treated alike. The test reads the array once more: 0.1 ms for a million numbers
    on two cores.
    """
    if not _is_float(values) or (devices.platform() != "cpu" and not meshes.is_set()):
        return found
    is_nan = jnp.isnan(values)
    has_nan = jnp.any(is_nan, axis=axis) if meshes.is_set() else any_true(is_nan, axis=axis)
    return jnp.where(has_nan, jnp.asarray(jnp.nan, found.dtype), found)


def _reduced(monoid: _Monoid, values: Array, axis: Axis) -> Array:
    axes = _axes(values, axis)
    if monoid is SUM and _is_float(values) and exact_sums.are_on():
        return exact_sums.total(values, axes)
    if _is_one_kernel(monoid, values, axes):
        return monoid.plain(values, axis=axes)
    first, _ = lax.optimization_barrier(_in_one_pass((monoid, monoid), (values, values), axes))
    return first.astype(values.dtype)


def _together(monoids: Sequence[_Monoid], values: Sequence[Array], axis: Axis) -> tuple[Array, ...]:
    axes = _axes(values[0], axis)
    if exact_sums.are_on():
        return tuple(
            _reduced(monoid, each, axes) for monoid, each in zip(monoids, values, strict=True)
        )
    if all(_is_for_library(each) for each in values):
        return tuple(
            monoid.plain(each, axis=axes) for monoid, each in zip(monoids, values, strict=True)
        )
    return tuple(
        _narrowed(found, each.dtype)
        for found, each in zip(_in_one_pass(monoids, values, axes), values, strict=True)
    )


def _narrowed(found: Array, dtype: Any) -> Array:
    """A result that was computed in a wider float type, rounded to its own dtype.

    `reduce_precision` forces the rounding. XLA removes a conversion that is undone later.
    """
    if jnp.issubdtype(dtype, jnp.floating) and found.dtype.itemsize > dtype.itemsize:
        number = jnp.finfo(dtype)
        found = lax.reduce_precision(found, number.nexp, number.nmant)
    return found.astype(dtype)


def _axes(values: Array, axis: Axis) -> tuple[int, ...]:
    each = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(number % values.ndim for number in each))


def _is_one_kernel(monoid: _Monoid, values: Array, axes: tuple[int, ...]) -> bool:
    """Whether `jax.numpy` is preferred to a reduction of a pair.

    Extremes of few floats are not: in a batch they are a large array, of which XLA ignores NaN.
    """
    if _is_for_library(values):
        return True
    is_short = all(values.shape[axis] <= _WINDOW for axis in axes)
    return is_short and not (_is_float(values) and monoid in (LARGEST, LEAST))


def _is_for_library(values: Array) -> bool:
    """Whether a reduction by `jax.numpy` is as fast or faster.

    It is for float arrays that XLA passes to a library, on devices other than CPUs, and on a mesh.
    XLA gathers sharded arrays for a reduction of a pair, but not for a reduction of one array.
    """
    return _is_large(values) or devices.platform() != "cpu" or meshes.is_set()


def _is_large(values: Array) -> bool:
    return _is_float(values) and math.prod(values.shape) >= _LIBRARY_SIZE


def _is_float(values: Array) -> bool:
    is_float: bool = jnp.issubdtype(values.dtype, jnp.floating)
    return is_float


def _in_one_pass(
    monoids: Sequence[_Monoid], values: Sequence[Array], axes: tuple[int, ...]
) -> tuple[Array, ...]:
    """The reductions by one `lax.reduce`.

    Masks are reduced as integers: LLVM unrolls short loops over booleans, which takes twice as
    long. All floats are converted to the widest float type, because XLA has no reduction of mixed
    precision.
    """
    floats = [each.dtype for each in values if jnp.issubdtype(each.dtype, jnp.floating)]
    widest = max(floats, key=lambda dtype: dtype.itemsize, default=None)
    parts = tuple(
        each.astype(
            np.int32 if each.dtype == bool else widest if each.dtype in floats else each.dtype
        )
        for each in values
    )
    starts = tuple(
        np.asarray(monoid.identity(part.dtype), part.dtype)
        for monoid, part in zip(monoids, parts, strict=True)
    )
    found: tuple[Array, ...] = lax.reduce(parts, starts, _combination(tuple(monoids)), axes)
    return found


@functools.cache
def _combination(monoids: tuple[_Monoid, ...]) -> Callable[..., tuple[Array, ...]]:
    """The function that combines two tuples of numbers elementwise.

    It is cached: outside `jit`, JAX compiles a reduction again for every new function object.
    """

    def combine(ones: tuple[Array, ...], others: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(
            monoid.combine(one, other)
            for monoid, one, other in zip(monoids, ones, others, strict=True)
        )

    return combine


def _lexicographic_leasts(
    orders: Sequence[Sequence[Array]], carried: Sequence[Array], axis: int
) -> list[tuple[Array, ...]]:
    """`lexicographic_least` for several sets of keys; the entry of the last one has `carried`."""
    num_keys = tuple(len(keys) for keys in orders)
    if meshes.is_set():
        return [_key_by_key(keys, carried if keys is orders[-1] else (), axis) for keys in orders]
    values = [key for keys in orders for key in keys] + list(carried)
    starts = [np.asarray(_highest(key.dtype), key.dtype) for keys in orders for key in keys]
    starts += [np.zeros((), each.dtype) for each in carried]
    found: tuple[Array, ...] = lax.reduce(
        tuple(values), tuple(starts), _selection(num_keys, len(carried)), _axes(values[0], axis)
    )
    return [tuple(part) for part in _divided(found, num_keys, len(carried))]


def _key_by_key(keys: Sequence[Array], carried: Sequence[Array], axis: int) -> tuple[Array, ...]:
    """`lexicographic_least` by one reduction for each array, for sharded arrays."""
    found, is_best = [], jnp.ones(keys[0].shape, bool)
    for key in keys:
        least = jnp.min(
            jnp.where(is_best, key, jnp.asarray(_highest(key.dtype), key.dtype)),
            axis=axis,
            keepdims=True,
            initial=_highest(key.dtype),
        )
        is_best &= key == least
        found.append(jnp.squeeze(least, axis))
    for value in carried:
        chosen = jnp.where(is_best, value, jnp.zeros((), value.dtype))
        found.append(
            jnp.any(chosen, axis=axis)
            if value.dtype == bool
            else jnp.sum(chosen, axis=axis, dtype=value.dtype)
        )
    return tuple(found)


@functools.cache
def _selection(num_keys: tuple[int, ...], num_carried: int) -> Callable[..., tuple[Array, ...]]:
    """The function that selects, for each set of keys, the lesser of two entries.

    It is cached for the same reason as `_combination`.
    """

    def select(one: tuple[Array, ...], other: tuple[Array, ...]) -> tuple[Array, ...]:
        chosen: list[Array] = []
        parts = (_divided(entry, num_keys, num_carried) for entry in (one, other))
        for count, mine, theirs in zip(num_keys, *parts, strict=True):
            is_less = _is_less(theirs[:count], mine[:count])
            chosen += [jnp.where(is_less, new, old) for new, old in zip(theirs, mine, strict=True)]
        return tuple(chosen)

    return select


def _divided(
    values: Sequence[Array], num_keys: tuple[int, ...], num_carried: int
) -> list[Sequence[Array]]:
    """Splits a flat sequence into the keys of each set; the last part includes `carried`."""
    ends = [int(end) for end in np.cumsum(num_keys)]
    ends[-1] += num_carried
    return [values[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def _is_less(one: Sequence[Array], other: Sequence[Array]) -> Array:
    """Whether one tuple of numbers comes before another in lexicographic order."""
    is_less, is_tied = one[0] < other[0], one[0] == other[0]
    for mine, theirs in zip(one[1:], other[1:], strict=True):
        is_less |= is_tied & (mine < theirs)
        is_tied &= mine == theirs
    return is_less
