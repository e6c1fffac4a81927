"""Sums, extremes and tests over axes, each compiled as one kernel on a CPU; two of them in one pass
where both are needed.

XLA for CPUs makes three kernels of a reduction over more than 32 numbers: one for its operand, one
over windows of 32 numbers, one over the rest. A reduction of a pair of arrays stays one kernel
together with its operands. So a single reduction is made a pair here, and a barrier keeps XLA from
removing the second of the pair before it has chosen its kernels. For floats in arrays of some
thousand numbers XLA calls a library, which is faster. Values and derivatives are those of
`jax.numpy` (a sum takes its terms in another order).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import devices, meshes
from jboost.base.types import Array

Axis = int | tuple[int, ...]
# numbers in an array from which on XLA calls a library for floats (found by trial, jaxlib 0.10.2)
_LIBRARY_SIZE = 4096
_WINDOW = 32  # numbers that XLA reduces in one stage (`TreeReductionRewriter`)


class _Monoid(NamedTuple):
    """An associative operation."""

    combine: Callable[[Array, Array], Array]
    identity: Callable[[Any], Any]
    """dtype -> the value that changes nothing."""
    plain: Callable[..., Array]
    """The reduction of `jax.numpy`, of values and axis."""


def total(values: Array, *, axis: Axis = -1) -> Array:
    """The sum over an axis or several, in the dtype of the values."""
    return _reduced(SUM, values, axis)


def totals(first: Array, second: Array, *, axis: Axis = -1) -> tuple[Array, Array]:
    """The sums of two arrays of one shape over an axis or several, each in its own dtype."""
    one, other = sums(first, second, axis=axis)
    return one, other


def sums(*values: Array, axis: Axis = -1) -> tuple[Array, ...]:
    """The sums of two or more arrays, likewise."""
    return _together((SUM,) * len(values), values, axis)


def largest(values: Array, *, axis: Axis = -1) -> Array:
    """The largest number over an axis or several, NaN where one is; -inf or the least integer for
    none.
    """
    return _reduced(LARGEST, values, axis)


def least(values: Array, *, axis: Axis = -1) -> Array:
    """The least number over an axis or several, NaN where one is; inf or the largest integer for
    none.
    """
    return _reduced(LEAST, values, axis)


def extremes(low: Array, high: Array | None = None, *, axis: Axis = -1) -> tuple[Array, Array]:
    """`least` of one array and `largest` of another of its shape, or of the same one."""
    least, largest = _together((LEAST, LARGEST), (low, low if high is None else high), axis)
    return least, largest


def lexicographic_least(
    *keys: Array, carried: Sequence[Array] = (), axis: int = -1
) -> tuple[Array, ...]:
    """The least entry along an axis: by the first key, of equal ones by the second, and so on.

    Args:
      keys: arrays of one shape without NaN; the last is to tell any two entries apart.
      carried: arrays of that shape that do not matter for the order.
      axis: of the entries.

    Returns:
      The keys of the entry, and what it carries. Of no entries the largest keys, and zeros.
    """
    (found,) = _lexicographic_leasts([keys], carried, axis)
    return found


def lexicographic_leasts(
    first: Sequence[Array], second: Sequence[Array], *, axis: int = -1
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """The least entry along an axis by some keys, and that by others, in one pass over arrays of
    one shape.
    """
    one, other = _lexicographic_leasts([first, second], (), axis)
    return one, other


def first_least(values: Array) -> tuple[Array, Array]:
    """The least of numbers [..., k] without NaN, and the index of the first that is so, int32.

    It is legal in the 64-bit scope, where `argmin` is not.
    """
    place = lax.broadcasted_iota(jnp.int32, values.shape, values.ndim - 1)
    least, index = lexicographic_least(values, place)
    return least, index


def first_largest(values: Array) -> tuple[Array, Array]:
    """The largest of floats or signed integers [..., k], likewise; not of the least integer."""
    least, index = first_least(-values)
    return -least, index


def several(*parts: tuple[_Monoid, Array], axis: Axis = -1) -> tuple[Array, ...]:
    """Reductions of arrays of one shape over an axis or several, in one pass; each part is one of
    SUM, LARGEST, LEAST, ANY and ALL, and its array.

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
    lax.max, _lowest, lambda values, axis: jnp.max(values, axis=axis, initial=_lowest(values.dtype))
)
LEAST = _Monoid(
    lax.min,
    _highest,
    lambda values, axis: jnp.min(values, axis=axis, initial=_highest(values.dtype)),
)
ANY = _Monoid(lax.max, lambda dtype: 0, jnp.any)
ALL = _Monoid(lax.min, lambda dtype: 1, jnp.all)


def _reduced(monoid: _Monoid, values: Array, axis: Axis) -> Array:
    axes = _axes(values, axis)
    if _is_one_kernel(values, axes):
        return monoid.plain(values, axis=axes)
    first, _ = lax.optimization_barrier(_in_one_pass((monoid, monoid), (values, values), axes))
    return first.astype(values.dtype)


def _together(monoids: Sequence[_Monoid], values: Sequence[Array], axis: Axis) -> tuple[Array, ...]:
    axes = _axes(values[0], axis)
    if all(_is_for_library(each) for each in values):
        return tuple(
            monoid.plain(each, axis=axes) for monoid, each in zip(monoids, values, strict=True)
        )
    return tuple(
        _narrowed(found, each.dtype)
        for found, each in zip(_in_one_pass(monoids, values, axes), values, strict=True)
    )


def _narrowed(found: Array, dtype: Any) -> Array:
    """The same in its own dtype, rounded for certain where it was carried in a wider one: XLA
    leaves out a conversion that is undone later.
    """
    if jnp.issubdtype(dtype, jnp.floating) and found.dtype.itemsize > dtype.itemsize:
        number = jnp.finfo(dtype)
        found = lax.reduce_precision(found, number.nexp, number.nmant)
    return found.astype(dtype)


def _axes(values: Array, axis: Axis) -> tuple[int, ...]:
    each = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(number % values.ndim for number in each))


def _is_one_kernel(values: Array, axes: tuple[int, ...]) -> bool:
    return all(values.shape[axis] <= _WINDOW for axis in axes) or _is_for_library(values)


def _is_for_library(values: Array) -> bool:
    """Whether the plain reduction is as good: in a call of a library, on devices other than CPUs,
    and over several of them.

    Of a reduction of a pair of sharded arrays XLA gathers the arrays; of one array it reduces the
    parts first.
    """
    is_large = (
        jnp.issubdtype(values.dtype, jnp.floating) and math.prod(values.shape) >= _LIBRARY_SIZE
    )
    return is_large or devices.platform() != "cpu" or meshes.is_set()


def _in_one_pass(
    monoids: Sequence[_Monoid], values: Sequence[Array], axes: tuple[int, ...]
) -> tuple[Array, ...]:
    """The reductions; of masks as integers, since LLVM unrolls short loops over bits, and takes
    twice as long.

    Floats go in the widest type of all, as XLA knows no reduction of mixed precision.
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
    """What combines two tuples of numbers: for the same operations the same function, as JAX
    outside `jit` compiles a reduction for each anew.
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
    """Least entries by the keys of several orders; the last one's carries something."""
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
    """The least entry by reductions of single arrays, one after the other."""
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
    """What selects the less of two entries by the keys of each order: for the same numbers the same
    function, as in `_combination`.
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
    """The keys of each order; those of the last with what it carries."""
    ends = [int(end) for end in np.cumsum(num_keys)]
    ends[-1] += num_carried
    return [values[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def _is_less(one: Sequence[Array], other: Sequence[Array]) -> Array:
    """Whether one tuple of numbers comes before another."""
    is_less, is_tied = one[0] < other[0], one[0] == other[0]
    for mine, theirs in zip(one[1:], other[1:], strict=True):
        is_less |= is_tied & (mine < theirs)
        is_tied &= mine == theirs
    return is_less
