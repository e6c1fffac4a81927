"""Features in ascending order, in blocks: sorts, splits and thresholds."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import meshes, numerics
from jboost.base.types import Array


def over_blocks(function: Any, *blocks: Array, shared: Array | None = None) -> Any:
    """Applies `function` to each block and the shared argument, one block after the other.

    On a mesh each device holds all examples of some of the features. Otherwise a sort of sharded
    examples would gather all of them on every device.
    """
    whole = () if shared is None else (shared,)

    def one_after_the_other(*parts: Array) -> Any:
        own, rest = parts[: len(blocks)], parts[len(blocks) :]
        if own[0].shape[0] == 1:
            return jax.tree.map(
                lambda leaf: leaf[None], function(*(leaf[0] for leaf in own), *rest)
            )
        return lax.map(lambda leaves: function(*leaves, *rest), own)

    return meshes.over_devices(one_after_the_other, blocks, whole, axis=1)


def sort_features(values: Array) -> tuple[Array, Array]:
    """The stable order of values [n, m] along m, int32, with NaN last, and the values in that
    order.
    """
    # -0 becomes 0, and all NaN become the same one
    values = jnp.where(values == 0, 0.0, jnp.where(values == values, values, jnp.nan))
    if values.dtype.itemsize > 4:
        order, sorted_values = _sort_pairs(values)
        return order, sorted_values
    # On a processor a sort of 64-bit keys, with the value in the high bits and the position in the
    # low ones, is four times as fast.
    order, sorted_values = numerics.in_64_bits(_sort_keys)(values)
    return order, sorted_values


def _sort_pairs(values: Array) -> tuple[Array, Array]:
    positions = lax.broadcasted_iota(jnp.int32, values.shape, 1)
    values, order = lax.sort((values, positions), dimension=1, is_stable=True, num_keys=1)
    return order, values


def _sort_keys(values: Array) -> tuple[Array, Array]:
    highest = jnp.uint32(1 << 31)
    bits = lax.bitcast_convert_type(values, jnp.uint32)
    ascending = jnp.where(bits < highest, bits | highest, ~bits)
    keys = (ascending.astype(jnp.uint64) << 32) | lax.broadcasted_iota(jnp.uint64, values.shape, 1)
    keys = lax.sort(keys, dimension=1, is_stable=False)
    ascending = (keys >> 32).astype(jnp.uint32)
    bits = jnp.where(ascending >= highest, ascending ^ highest, ~ascending)
    return keys.astype(jnp.uint32).astype(jnp.int32), lax.bitcast_convert_type(bits, jnp.float32)


def is_split(values: Array) -> Array:
    """Whether split p of sorted values [n, m] separates two different values that are not missing,
    [n, m] bool.
    """
    return jnp.pad(values[:, :-1] < values[:, 1:], ((0, 0), (0, 1)))


def entries_at(parts: Array, position: Array) -> Array:
    """The entries of parts [n, m] at a position [n] in each row, [n]."""
    return jnp.take_along_axis(parts, position[:, None], axis=1)[:, 0]


def thresholds_of(values: Array, position: Array) -> Array:
    """The midpoints between positions p and p + 1 of sorted values [k, m], [k]; the lower value
    where the midpoint rounds to the upper one.
    """
    last = values.shape[1] - 1
    lower, upper = entries_at(values, position), entries_at(values, jnp.minimum(position + 1, last))
    halfway = lower / 2 + upper / 2
    return jnp.where((lower <= halfway) & (halfway < upper), halfway, lower)
