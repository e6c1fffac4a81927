"""What `vmap` makes of an iterative solver: chunks of members, one after the other, where that is
faster.

On a CPU a batch of solves in lockstep streams all matrices through the cache in every product, and
runs as long as its slowest member. Chunks whose arrays fit the cache take less. Elsewhere the batch
stays whole.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from jboost.base import devices, loops, members
from jboost.base.types import ArrayLike, PyTree

_CACHE_BYTES = 1 << 18


def in_chunks(
    function: Callable[..., PyTree], *, at_once: int | None = None
) -> Callable[..., PyTree]:
    """`function` of pytrees of arrays, which under `vmap` on a CPU runs on chunks of members; on
    all under `shard_map`, and for derivatives.

    Args:
      function: what a member is to go through.
      at_once: how many members make a chunk, static; as many as fit the cache where None.
    """

    def chunked(*arguments: PyTree) -> PyTree:
        if loops.is_on_mesh():  # where JAX 0.12 loses track of what varies within `custom_vmap`
            return function(*arguments)
        # `custom_vmap` knows no None among its arguments
        leaves, structure = jax.tree.flatten(arguments)

        def of_leaves(*leaves: jax.Array) -> PyTree:
            return function(*jax.tree.unflatten(structure, leaves))

        run = jax.custom_jvp(
            _chunked(of_leaves, None if at_once is None else max(_CACHE_BYTES // at_once, 1))
        )
        run.defjvp(functools.partial(members.differentiate, of_leaves))
        return run(*leaves)

    return chunked


def _chunked(function: Callable[..., PyTree], bytes_each: int | None) -> Callable[..., PyTree]:
    """`function` of arrays, one call of which works on so many bytes; None for those of its
    arguments.
    """

    @custom_vmap
    def chunked(*arguments: jax.Array) -> PyTree:
        return function(*arguments)

    @chunked.def_vmap
    def _batch(
        axis_size: int, is_batched: list[bool], *arguments: jax.Array
    ) -> tuple[PyTree, PyTree]:
        num_members = max(axis_size, 1)
        known = bytes_each or sum(
            _bytes(leaf) // (num_members if flag else 1)
            for leaf, flag in zip(arguments, is_batched, strict=True)
        )

        def all_members(*arguments: jax.Array) -> PyTree:
            def one(part: list[jax.Array]) -> PyTree:
                rest = iter(part)
                return function(
                    *(
                        next(rest) if flag else leaf
                        for leaf, flag in zip(arguments, is_batched, strict=True)
                    )
                )

            own = [leaf for leaf, flag in zip(arguments, is_batched, strict=True) if flag]
            return (
                _map(one, own, axis_size, _CACHE_BYTES // max(known, 1))
                if devices.platform() == "cpu"
                else jax.vmap(one)(own)
            )

        # a further `vmap` then has chunks too
        results = _chunked(all_members, known * num_members)(*arguments)
        return results, jax.tree.map(lambda _: True, results)

    return chunked


def _bytes(leaf: ArrayLike) -> int:
    return int(jnp.size(leaf)) * jnp.result_type(leaf).itemsize


def _map(
    function: Callable[[list[jax.Array]], PyTree],
    batch: list[jax.Array],
    axis_size: int,
    chunk_size: int,
) -> PyTree:
    """`vmap` of a function over chunks, the last filled up with copies of the first member."""
    if axis_size == 0:
        return jax.vmap(function)(batch)
    if chunk_size <= 1:
        return lax.map(function, batch)
    if chunk_size >= axis_size:
        return jax.vmap(function)(batch)
    count = -(-axis_size // chunk_size)
    index = jnp.where(
        jnp.arange(count * chunk_size) < axis_size, jnp.arange(count * chunk_size), 0
    ).reshape(count, chunk_size)
    chunks = lax.map(lambda part: jax.vmap(function)([leaf[part] for leaf in batch]), index)
    return jax.tree.map(
        lambda leaf: leaf.reshape(count * chunk_size, *leaf.shape[2:])[:axis_size], chunks
    )
