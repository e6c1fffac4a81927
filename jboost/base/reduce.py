"""Sums, extremes and tests over axes, each compiled as one kernel on a CPU; two of them in one pass where both are needed.

XLA for CPUs makes three kernels of a reduction over more than 32 numbers: one for its operand, one over windows of 32 numbers, one over the rest. A
reduction of a pair of arrays stays one kernel together with its operands. So a single reduction is made a pair here, and a barrier keeps XLA from
removing the second of the pair before it has chosen its kernels. For floats in arrays of some thousand numbers XLA calls a library, which is faster.
Values and derivatives are those of `jax.numpy` (a sum takes its terms in another order).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base.types import Array

Axis = int | tuple[int, ...]
_LIBRARY_SIZE = 4096  # numbers in an array from which on XLA calls a library for floats (found by trial, jaxlib 0.10.2)
_WINDOW = 32  # numbers that XLA reduces in one stage (`TreeReductionRewriter`)


class Monoid(NamedTuple):
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
    total_first, total_second = together((SUM, first), (SUM, second), axis=axis)
    return total_first, total_second


def largest(values: Array, *, axis: Axis = -1) -> Array:
    """The largest number over an axis or several, NaN where one is; -inf or the least integer for none."""
    return _reduced(LARGEST, values, axis)


def least(values: Array, *, axis: Axis = -1) -> Array:
    """The least number over an axis or several, NaN where one is; inf or the largest integer for none."""
    return _reduced(LEAST, values, axis)


def extremes(values: Array, *, axis: Axis = -1) -> tuple[Array, Array]:
    """`least` and `largest`."""
    low, high = together((LEAST, values), (LARGEST, values), axis=axis)
    return low, high


def together(*parts: tuple[Monoid, Array], axis: Axis = -1) -> tuple[Array, ...]:
    """Reductions of several arrays of one shape, each by `SUM`, `LARGEST` or `LEAST` and in its own dtype.

    Where that is one kernel, floats are carried in the widest type of all: XLA knows no reduction of mixed precision.
    """
    monoids, values = [monoid for monoid, _ in parts], [each for _, each in parts]
    axes = _axes(values[0], axis)
    if all(_is_for_library(each) for each in values):
        return tuple(monoid.plain(each, axis=axes) for monoid, each in parts)
    found = _jointly(monoids, _in_one_precision(values), axes)
    return tuple(result.astype(each.dtype) for result, each in zip(found, values, strict=True))


def any_true(mask: Array, *, axis: Axis = -1) -> Array:
    """Whether one of the entries over an axis or several is True."""
    return _reduced(_ANY, mask, axis)


def all_true(mask: Array, *, axis: Axis = -1) -> Array:
    """Whether all entries over an axis or several are True."""
    return _reduced(_ALL, mask, axis)


def count(mask: Array, *, axis: Axis = -1, dtype: Any = jnp.int32) -> Array:
    """How many entries over an axis or several are True."""
    return total(mask.astype(dtype), axis=axis)


def _lowest(dtype: Any) -> Any:
    return -np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    return np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max


SUM = Monoid(lax.add, lambda dtype: 0, lambda values, axis: jnp.sum(values, axis=axis, dtype=values.dtype))
LARGEST = Monoid(lax.max, _lowest, lambda values, axis: jnp.max(values, axis=axis, initial=_lowest(values.dtype)))
LEAST = Monoid(lax.min, _highest, lambda values, axis: jnp.min(values, axis=axis, initial=_highest(values.dtype)))
_ANY = Monoid(lax.bitwise_or, lambda dtype: False, jnp.any)
_ALL = Monoid(lax.bitwise_and, lambda dtype: True, jnp.all)


def _reduced(monoid: Monoid, values: Array, axis: Axis) -> Array:
    axes = _axes(values, axis)
    if _is_one_kernel(values, axes):
        return monoid.plain(values, axis=axes)
    first, _ = lax.optimization_barrier(_jointly([monoid, monoid], [values, values], axes))
    return first


def _axes(values: Array, axis: Axis) -> tuple[int, ...]:
    each = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(number % values.ndim for number in each))


def _is_one_kernel(values: Array, axes: tuple[int, ...]) -> bool:
    return all(values.shape[axis] <= _WINDOW for axis in axes) or _is_for_library(values)


def _is_for_library(values: Array) -> bool:
    """Whether the plain reduction is as good: in a call of a library, and on devices other than CPUs."""
    is_large = jnp.issubdtype(values.dtype, jnp.floating) and math.prod(values.shape) >= _LIBRARY_SIZE
    return is_large or jax.default_backend() != "cpu"


def _in_one_precision(values: list[Array]) -> list[Array]:
    widest = max((each.dtype for each in values if jnp.issubdtype(each.dtype, jnp.floating)), key=lambda dtype: dtype.itemsize, default=None)
    return [each.astype(widest) if jnp.issubdtype(each.dtype, jnp.floating) else each for each in values]


def _jointly(monoids: list[Monoid], values: list[Array], axes: tuple[int, ...]) -> tuple[Array, ...]:
    def combine(one: tuple[Array, ...], other: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(monoid.combine(*pair) for monoid, *pair in zip(monoids, one, other, strict=True))

    starts = tuple(np.asarray(monoid.identity(each.dtype), each.dtype) for monoid, each in zip(monoids, values, strict=True))
    found: tuple[Array, ...] = lax.reduce(tuple(values), starts, combine, axes)
    return found
