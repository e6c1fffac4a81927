"""Reductions over the examples of a batch, which may be spread over a named axis of `shard_map`.

With `axis_name` None they are those of one array. With a name, each device holds a part of the
examples: it reduces its own part, and one number crosses the devices (`psum`, `pmax`, `pmin`).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics, reduce
from jboost.base.types import Array

AxisName = str | tuple[str, ...] | None


def validate(axis_name: Any) -> None:
    """Raises ValueError, naming it, unless it is None, a name or a tuple of names."""
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    if axis_name is not None and not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"axis_name is {axis_name!r}: expected a name of a mesh axis, a tuple of names, or None"
        )


def total(values: Array, axis_name: AxisName) -> Array:
    """The sum over the last axis and over the devices, in the dtype of the values."""
    return _summed(numerics.precise_sum(values), axis_name)


def linear_total(values: Array, axis_name: AxisName) -> Array:
    """The same in plain arithmetic: for the tangents of a rule, which JAX transposes."""
    return _summed(jnp.sum(values, axis=-1), axis_name)


def count(mask: Array, axis_name: AxisName, dtype: Any) -> Array:
    """How many entries are True."""
    return _summed(reduce.count(mask, dtype=dtype), axis_name)


def any_true(mask: Array, axis_name: AxisName) -> Array:
    """Whether one of the entries is True."""
    if axis_name is None:
        return reduce.any_true(mask)
    return lax.pmax(reduce.any_true(mask).astype(jnp.int32), axis_name) > 0


def least(values: Array, mask: Array, axis_name: AxisName) -> Array:
    """The least of the values where `mask`, inf where there is none."""
    return -largest(-values, mask, axis_name)


def largest(values: Array, mask: Array, axis_name: AxisName) -> Array:
    """The largest of the values where `mask`, -inf where there is none.

    Its derivative is shared by those that are equally large; JAX has none for `pmax`.
    """
    own = numerics.masked_max(values, mask, fill=-jnp.inf)
    if axis_name is None:
        return own
    found = lax.pmax(lax.stop_gradient(own), axis_name)
    is_largest = mask & (values == found)
    attained = total(jnp.where(is_largest, values, 0.0), axis_name)
    number = count(is_largest, axis_name, values.dtype)
    is_certain = (number > 0) & jnp.isfinite(found)
    return jnp.where(is_certain, attained / jnp.where(is_certain, number, 1.0), found)


def several(*parts: tuple[Any, Array], axis_name: AxisName) -> tuple[Array, ...]:
    """`reduce.several` over the last axis, for sums, largest and least numbers."""
    found = reduce.several(*parts)
    if axis_name is None:
        return found
    across = {id(reduce.SUM): lax.psum, id(reduce.LARGEST): lax.pmax, id(reduce.LEAST): lax.pmin}
    monoids = (monoid for monoid, _ in parts)
    return tuple(
        across[id(monoid)](value, axis_name) for monoid, value in zip(monoids, found, strict=True)
    )


def size(length: int, axis_name: AxisName) -> int:
    """The number of entries over all devices, of parts of equal length; static."""
    return length if axis_name is None else length * lax.axis_size(axis_name)


def _summed(own: Array, axis_name: AxisName) -> Array:
    return own if axis_name is None else lax.psum(own, axis_name)
