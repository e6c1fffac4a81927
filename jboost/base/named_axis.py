"""Reductions over the examples of a batch, which may be sharded over a named axis of `shard_map`.

With `axis_name` None, one array holds all examples. With a name, each device holds a part of them.
It reduces its part, and the results are combined over the devices (`psum`, `pmax`, `pmin`).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics, reduce
from jboost.base.types import Array

AxisName = str | tuple[str, ...] | None


def validate(axis_name: Any) -> None:
    """Raises ValueError unless `axis_name` is None, a name or a tuple of names."""
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    if axis_name is not None and not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"axis_name is {axis_name!r}: expected a name of a mesh axis, a tuple of names, or None"
        )


def total(values: Array, axis_name: AxisName) -> Array:
    """The sum over the last axis and over the devices, in the dtype of the values."""
    return _summed(numerics.precise_sum(values), axis_name)


def linear_total(values: Array, axis_name: AxisName) -> Array:
    """`total` without 64-bit arithmetic, so that JAX can transpose it, as tangents require."""
    return _summed(jnp.sum(values, axis=-1), axis_name)


def count(mask: Array, axis_name: AxisName, dtype: Any) -> Array:
    """The number of True entries over all devices."""
    return _summed(reduce.count(mask, dtype=dtype), axis_name)


def any_true(mask: Array, axis_name: AxisName) -> Array:
    """Whether any entry is True on any device."""
    if axis_name is None:
        return reduce.any_true(mask)
    return lax.pmax(reduce.any_true(mask).astype(jnp.int32), axis_name) > 0


def least(values: Array, mask: Array, axis_name: AxisName) -> Array:
    """The minimum of the values where `mask` is True; inf if it is True nowhere."""
    return -largest(-values, mask, axis_name)


def largest(values: Array, mask: Array, axis_name: AxisName) -> Array:
    """The maximum of the values where `mask` is True; -inf if it is True nowhere.

    JAX has no derivative of `pmax`. Here it is the mean of the derivatives of the maximal entries.
    """
    own = numerics.masked_max(values, mask, fill=-jnp.inf)
    if axis_name is None:
        return own
    found = pmax(lax.stop_gradient(own), axis_name)
    is_largest = mask & (values == found)
    attained = total(jnp.where(is_largest, values, 0.0), axis_name)
    number = count(is_largest, axis_name, values.dtype)
    is_certain = (number > 0) & jnp.isfinite(found)
    return jnp.where(is_certain, attained / jnp.where(is_certain, number, 1.0), found)


def pmax(values: Array, axis_name: AxisName) -> Array:
    """`lax.pmax` of floats; NaN where one is NaN, which XLA for CPUs (jaxlib 0.10.2) ignores."""
    has_nan = lax.psum(jnp.isnan(values).astype(jnp.int32), axis_name) > 0
    return jnp.where(has_nan, jnp.asarray(jnp.nan, values.dtype), lax.pmax(values, axis_name))


def pmin(values: Array, axis_name: AxisName) -> Array:
    """`lax.pmin` of floats, and NaN where one is NaN."""
    return -pmax(-values, axis_name)


def several(*parts: tuple[Any, Array], axis_name: AxisName) -> tuple[Array, ...]:
    """`reduce.several` over the last axis and the devices: SUM, and LARGEST and LEAST of floats."""
    found = reduce.several(*parts)
    if axis_name is None:
        return found
    across = {id(reduce.SUM): lax.psum, id(reduce.LARGEST): pmax, id(reduce.LEAST): pmin}
    monoids = (monoid for monoid, _ in parts)
    return tuple(
        across[id(monoid)](value, axis_name) for monoid, value in zip(monoids, found, strict=True)
    )


def size(length: int, axis_name: AxisName) -> int:
    """The number of entries over all devices, static, for parts of equal length."""
    return length if axis_name is None else length * lax.axis_size(axis_name)


def _summed(own: Array, axis_name: AxisName) -> Array:
    return own if axis_name is None else lax.psum(own, axis_name)
