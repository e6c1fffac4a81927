"""What the operators share: vectors cast, the size of a slab, blocks of rows, and rows that are
divided over a mesh.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, meshes
from jboost.base.types import Array

MAX_ENTRIES = 4_000_000  # of a slab


def cast(name: str, value: Any, *shape: int | str) -> Array:
    """`value` in the default float type, if it has the wanted shape; ValueError at trace time
    otherwise.
    """
    return check.numeric(name, value, shape=shape, kinds="fiub").astype(jnp.result_type(float))


def chunk_size(entries_each: int, count: int) -> int:
    """How many of `count` items, of so many entries each, make a slab: one at least,
    all at most.
    """
    return max(1, min(count, MAX_ENTRIES // max(entries_each, 1)))


def integers_or_floats(name: str, value: Any, size: int) -> Array:
    """A vector [size]: of integers as int32, of other numbers in the default float type; ValueError
    at trace time if it is none.
    """
    vector = check.numeric(name, value, shape=(size,), kinds="fiub")
    return vector.astype(
        jnp.result_type(float) if jnp.issubdtype(vector.dtype, jnp.floating) else jnp.int32
    )


def block_at(matrix: Array, number: Array, size: int) -> tuple[Array, Array]:
    """The first row of a block of rows of a matrix, and the block.

    The last begins within the one before where the rows are no multiple of the size.
    """
    start = jnp.minimum(number * size, matrix.shape[0] - size).astype(jnp.int32)
    return start, lax.dynamic_slice_in_dim(matrix, start, size)


def block_of(vector: Array, number: Array, start: Array, size: int) -> Array:
    """The entries of a vector that belong to the rows of a block, 0 for those rows that are in the
    block before too.
    """
    numbers = lax.dynamic_slice_in_dim(vector, start, size)
    return jnp.where(
        start + lax.iota(jnp.int32, size) >= number * size, numbers, jnp.zeros((), vector.dtype)
    )


def by_row(function: Callable[..., Any], rows: tuple[Array, ...], whole: tuple[Any, ...]) -> Any:
    """`function(*rows, *whole)`, whose results have a number for each row; on a mesh each device
    computes those of its own rows.

    A loop over blocks of rows that are in several parts would gather them. Rows that the devices do
    not divide evenly are gathered.
    """
    return meshes.over_devices(function, rows, whole) if _is_even(rows) else function(*rows, *whole)


def over_rows(
    function: Callable[..., Any], rows: tuple[Array, ...], whole: tuple[Any, ...] = ()
) -> Any:
    """`function(*rows, *whole)`, whose results are sums over the rows; on a mesh those of each
    device are added.
    """
    if not meshes.is_set() or not _is_even(rows):
        return function(*rows, *whole)
    parts = meshes.over_devices(
        lambda *given: jax.tree.map(lambda part: part[None], function(*given)), rows, whole
    )
    return jax.tree.map(lambda part: jnp.sum(part, axis=0, dtype=part.dtype), parts)


def _is_even(rows: tuple[Array, ...]) -> bool:
    return rows[0].shape[0] % meshes.num_devices() == 0
