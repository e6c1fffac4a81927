"""What the operators share: vectors judged, the size of a slab, and blocks of rows."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from jboost.base import check
from jboost.base.types import Array

MAX_ENTRIES = 4_000_000  # of a slab


def cast(name: str, value: Any, *shape: int | str) -> Array:
    """`value` in the default float type, if it has the wanted shape; ValueError at trace time otherwise."""
    return check.numeric(name, value, shape=shape, kinds="fiub").astype(jnp.result_type(float))


def chunk_size(entries_each: int, count: int) -> int:
    """How many of `count` items, of so many entries each, make a slab: one at least, all at most."""
    return max(1, min(count, MAX_ENTRIES // max(entries_each, 1)))


def integers_or_floats(name: str, value: Any, size: int) -> Array:
    """A vector [size]: of integers as int32, of other numbers in the default float type; ValueError at trace time if it is none."""
    vector = check.numeric(name, value, shape=(size,), kinds="fiub")
    return vector.astype(jnp.result_type(float) if jnp.issubdtype(vector.dtype, jnp.floating) else jnp.int32)


def block_at(matrix: Array, number: Array, size: int) -> tuple[Array, Array]:
    """The first row of a block of rows of a matrix, and the block.

    The last begins within the one before where the rows are no multiple of the size.
    """
    start = jnp.minimum(number * size, matrix.shape[0] - size).astype(jnp.int32)
    return start, lax.dynamic_slice_in_dim(matrix, start, size)


def block_of(vector: Array, number: Array, start: Array, size: int) -> Array:
    """The entries of a vector that belong to the rows of a block, 0 for those rows that are in the block before too."""
    numbers = lax.dynamic_slice_in_dim(vector, start, size)
    return jnp.where(start + lax.iota(jnp.int32, size) >= number * size, numbers, jnp.zeros((), vector.dtype))
