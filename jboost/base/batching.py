"""What `vmap` makes of an iterative solver: chunks of members, one after the other, where that is faster.

On a CPU a batch of solves in lockstep streams all matrices through the cache in every product, and runs as long as its slowest member. Chunks whose
arrays fit the cache take less. Elsewhere the batch stays whole.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from jboost.base.types import PyTree

_CACHE_BYTES = 1 << 20


def in_chunks(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """`function` of pytrees of arrays, which under `vmap` on a CPU runs on chunks of members that fit the cache; derivatives are not its business."""

    @custom_vmap
    def chunked(*arguments: PyTree) -> PyTree:
        return function(*arguments)

    @chunked.def_vmap
    def _batch(axis_size: int, is_batched: list[PyTree], *arguments: PyTree) -> tuple[PyTree, PyTree]:
        leaves, structure = jax.tree.flatten(arguments)
        batched = jax.tree.leaves(is_batched)
        members = [leaf for leaf, flag in zip(leaves, batched, strict=True) if flag]

        def one(part: list[jax.Array]) -> PyTree:
            rest = iter(part)
            return function(*jax.tree.unflatten(structure, [next(rest) if flag else leaf for leaf, flag in zip(leaves, batched, strict=True)]))

        if jax.default_backend() == "cpu":
            results = _map(one, members, axis_size)
        else:
            results = jax.vmap(one)(members)
        return results, jax.tree.map(lambda _: True, results)

    return chunked


def _map(function: Callable[[list[jax.Array]], PyTree], members: list[jax.Array], axis_size: int) -> PyTree:
    """`vmap` of a function over chunks, the last filled up with copies of the first member."""
    size = _chunk_size(members, axis_size)
    if size == axis_size:
        return jax.vmap(function)(members)
    count = -(-axis_size // size)
    index = jnp.where(jnp.arange(count * size) < axis_size, jnp.arange(count * size), 0).reshape(count, size)
    chunks = lax.map(lambda part: jax.vmap(function)([leaf[part] for leaf in members]), index)
    return jax.tree.map(lambda leaf: leaf.reshape(count * size, *leaf.shape[2:])[:axis_size], chunks)


def _chunk_size(members: list[jax.Array], axis_size: int) -> int:
    """How many members fit the cache: one at least, all at most."""
    bytes_each = sum(leaf.size * jnp.dtype(leaf.dtype).itemsize for leaf in members) // max(axis_size, 1)
    return max(1, min(axis_size, _CACHE_BYTES // max(bytes_each, 1)))
