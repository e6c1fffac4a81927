"""Functions that the operators share: casts of vectors, sizes of slabs, blocks of rows, and sums
over rows that are sharded over a mesh.
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
    """`value` in the default float type. Raises ValueError at trace time for another shape."""
    return check.numeric(name, value, shape=shape, kinds="fiub").astype(jnp.result_type(float))


def chunk_size(entries_each: int, count: int) -> int:
    """The number of items in a slab, between 1 and `count`, if an item has `entries_each`
    entries.
    """
    return max(1, min(count, MAX_ENTRIES // max(entries_each, 1)))


def integers_or_floats(name: str, value: Any, size: int) -> Array:
    """A vector [size]: integers as int32, other numbers in the default float type. Raises
    ValueError at trace time for anything else.
    """
    vector = check.numeric(name, value, shape=(size,), kinds="fiub")
    return vector.astype(
        jnp.result_type(float) if jnp.issubdtype(vector.dtype, jnp.floating) else jnp.int32
    )


def block_at(matrix: Array, number: Array, size: int) -> tuple[Array, Array]:
    """The index of the first row of a block of rows of a matrix, and the block.

    If the number of rows is not a multiple of the size, the last block overlaps the one before.
    """
    start = jnp.minimum(number * size, matrix.shape[0] - size).astype(jnp.int32)
    return start, lax.dynamic_slice_in_dim(matrix, start, size)


def block_of(vector: Array, number: Array, start: Array, size: int) -> Array:
    """The entries of a vector for the rows of a block, with 0 for rows that the block before also
    contains.
    """
    numbers = lax.dynamic_slice_in_dim(vector, start, size)
    return jnp.where(
        start + lax.iota(jnp.int32, size) >= number * size, numbers, jnp.zeros((), vector.dtype)
    )


def by_row(function: Callable[..., Any], rows: tuple[Array, ...], whole: tuple[Any, ...]) -> Any:
    """`function(*rows, *whole)`, whose results have one number per row. On a mesh each device
    computes the results of its own rows.

    Without this, a loop over blocks of sharded rows would gather them. Rows that cannot be divided
    evenly among the devices are still gathered.
    """
    return meshes.over_devices(function, rows, whole) if _is_even(rows) else function(*rows, *whole)


def over_rows(
    function: Callable[..., Any], rows: tuple[Array, ...], whole: tuple[Any, ...] = ()
) -> Any:
    """`function(*rows, *whole)`, whose results are sums over the rows. On a mesh the sums of all
    devices are added.
    """
    if not meshes.is_set() or not _is_even(rows):
        return function(*rows, *whole)
    parts = meshes.over_devices(
        lambda *given: jax.tree.map(lambda part: part[None], function(*given)), rows, whole
    )
    return jax.tree.map(lambda part: jnp.sum(part, axis=0, dtype=part.dtype), parts)


def _is_even(rows: tuple[Array, ...]) -> bool:
    return rows[0].shape[0] % meshes.num_devices() == 0
