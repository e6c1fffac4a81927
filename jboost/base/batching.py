"""What `vmap` makes of an iterative solver: chunks of members, one after the other, where that is faster.

On a CPU a batch of solves in lockstep streams all matrices through the cache in every product, and runs as long as its slowest member. Chunks whose
arrays fit the cache take less. Elsewhere the batch stays whole. A batch that is spread over a mesh is gone through on each device by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jax.sharding import PartitionSpec

from jboost.base import devices, loops, meshes
from jboost.base.types import ArrayLike, PyTree

_CACHE_BYTES = 1 << 18


def in_chunks(function: Callable[..., PyTree], *, at_once: int | None = None) -> Callable[..., PyTree]:
    """`function` of pytrees of arrays, which under `vmap` on a CPU runs on chunks of members; on all under `shard_map`, and for derivatives.

    Args:
      function: what a member is to go through.
      at_once: how many members make a chunk, static; as many as fit the cache where None.
    """

    def chunked(*arguments: PyTree) -> PyTree:
        if loops.is_on_mesh():  # where JAX 0.12 loses track of what varies within `custom_vmap`
            return function(*arguments)
        leaves, structure = jax.tree.flatten(arguments)  # `custom_vmap` knows no None among its arguments

        def of_leaves(*leaves: jax.Array) -> PyTree:
            return function(*jax.tree.unflatten(structure, leaves))

        run = jax.custom_jvp(_chunked(of_leaves, None if at_once is None else max(_CACHE_BYTES // at_once, 1)))
        run.defjvp(functools.partial(_differentiate, of_leaves))
        return run(*leaves)

    return chunked


def _differentiate(function: Callable[..., PyTree], primals: tuple[jax.Array, ...], tangents: tuple[Any, ...]) -> tuple[PyTree, PyTree]:
    """Results and their tangents; those of `custom_vmap` mix members up under a further `vmap`.

    All results are those of members if any argument is, even where they do not depend on it: that is so of the chunks as well.
    """

    def beside_arguments(*leaves: jax.Array) -> PyTree:
        results = function(*leaves)
        for leaf in leaves:
            is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            numbers = jax.random.key_data(leaf) if is_key else leaf
            never = jnp.zeros((), bool) & jnp.any(numbers != numbers)
            results = jax.tree.map(lambda result, never=never: jnp.where(never, result, result), results)
        return results

    return jax.jvp(beside_arguments, primals, tangents)


def _chunked(function: Callable[..., PyTree], bytes_each: int | None) -> Callable[..., PyTree]:
    """`function` of arrays, one call of which works on so many bytes; None for those of its arguments."""

    @custom_vmap
    def chunked(*arguments: jax.Array) -> PyTree:
        return function(*arguments)

    @chunked.def_vmap
    def _batch(axis_size: int, is_batched: list[bool], *arguments: jax.Array) -> tuple[PyTree, PyTree]:
        num_members = max(axis_size, 1)
        known = bytes_each or sum(_bytes(leaf) // (num_members if flag else 1) for leaf, flag in zip(arguments, is_batched, strict=True))

        def members(*arguments: jax.Array) -> PyTree:
            def one(part: list[jax.Array]) -> PyTree:
                rest = iter(part)
                return function(*(next(rest) if flag else leaf for leaf, flag in zip(arguments, is_batched, strict=True)))

            own = [leaf for leaf, flag in zip(arguments, is_batched, strict=True) if flag]
            return _map(one, own, own[0].shape[0], _CACHE_BYTES // max(known, 1)) if devices.platform() == "cpu" else jax.vmap(one)(own)

        axis = _axis_of_batch(arguments, is_batched, num_members)
        if axis is not None:
            results = _on_devices(members, arguments, is_batched, axis)
            return results, jax.tree.map(lambda _: True, results)
        results = _chunked(members, known * num_members)(*arguments)  # so that a further `vmap` has its chunks too, instead of a lockstep of batches
        return results, jax.tree.map(lambda _: True, results)

    return chunked


def _axis_of_batch(arguments: tuple[jax.Array, ...], is_batched: list[bool], num_members: int) -> str | None:
    """The axis of a mesh over which the members are spread: as their types say, or "batch" of the mesh that is set."""
    for leaf, flag in zip(arguments, is_batched, strict=True):
        sharding = jax.typeof(leaf).sharding
        if flag and sharding.mesh.explicit_axes and isinstance(sharding.spec[0], str):
            return sharding.spec[0]
    axis = meshes.batch_axis()
    is_even = axis is not None and num_members % jax.sharding.get_abstract_mesh().shape[axis] == 0
    return axis if is_even else None


def _on_devices(members: Callable[..., PyTree], arguments: tuple[jax.Array, ...], is_batched: list[bool], axis: str) -> PyTree:
    """Each device goes through its own members: a loop over all of them would need them on every device.

    Nothing is sent, so what varies need not be checked; JAX 0.10 loses track of it in loops within `custom_vmap`.
    """
    specs = tuple(PartitionSpec(axis) if flag else PartitionSpec() for flag in is_batched)
    mesh = next((jax.typeof(leaf).sharding.mesh for leaf in arguments if not jax.typeof(leaf).sharding.mesh.empty), None)
    spread = jax.shard_map(members, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(axis), axis_names={axis}, check_vma=False)
    return spread(*arguments)


def _bytes(leaf: ArrayLike) -> int:
    return int(jnp.size(leaf)) * jnp.result_type(leaf).itemsize


def _map(function: Callable[[list[jax.Array]], PyTree], members: list[jax.Array], axis_size: int, chunk_size: int) -> PyTree:
    """`vmap` of a function over chunks, the last filled up with copies of the first member."""
    if axis_size == 0:
        return jax.vmap(function)(members)
    if chunk_size <= 1:
        return lax.map(function, members)
    if chunk_size >= axis_size:
        return jax.vmap(function)(members)
    count = -(-axis_size // chunk_size)
    index = jnp.where(jnp.arange(count * chunk_size) < axis_size, jnp.arange(count * chunk_size), 0).reshape(count, chunk_size)
    chunks = lax.map(lambda part: jax.vmap(function)([leaf[part] for leaf in members]), index)
    return jax.tree.map(lambda leaf: leaf.reshape(count * chunk_size, *leaf.shape[2:])[:axis_size], chunks)
