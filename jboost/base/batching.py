"""Batches of an iterative solver under `vmap`, run in chunks on a CPU.

A vmapped solver runs all members in lockstep. On a CPU every product then reads all matrices
through the cache, and the batch runs as long as its slowest member. Chunks whose arrays fit the
cache run faster. On other devices the batch is not divided.

A batch may be sharded over several CPU devices by a mesh with `Auto` axes, which no trace shows. So
a chunk takes its members from every device: from each an equal number.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from jboost.base import devices, loops, members, meshes
from jboost.base.types import ArrayLike, PyTree

# The most bytes of the arguments of one chunk, to fit the cache of a CPU core. A round number; not
# tuned.
_CACHE_BYTES = 1 << 18


def in_chunks(
    function: Callable[..., PyTree], *, at_once: int | None = None
) -> Callable[..., PyTree]:
    """Returns `function`, which under `vmap` on a CPU runs on chunks of members.

    Under `shard_map`, and for derivatives, all members run at once.

    Args:
      function: the computation for one member, of pytrees of arrays.
      at_once: the number of members of a chunk, static; None for as many as fit the cache. Of
        several CPU devices each takes as many.
    """

    def chunked(*arguments: PyTree) -> PyTree:
        # JAX 0.12 does not track varying axes within `custom_vmap`.
        if loops.is_on_mesh():
            return function(*arguments)
        # `custom_vmap` does not accept None among its arguments.
        leaves, structure = jax.tree.flatten(arguments)

        def of_leaves(*leaves: jax.Array) -> PyTree:
            return function(*jax.tree.unflatten(structure, leaves))

        bytes_each = None if at_once is None else max(_CACHE_BYTES // at_once, 1)
        is_wide = bool(jax.config.read("jax_enable_x64"))
        run = jax.custom_jvp(_chunked(of_leaves, bytes_each, is_wide))
        run.defjvp(functools.partial(members.differentiate, of_leaves))
        return run(*leaves)

    return chunked


def _chunked(
    function: Callable[..., PyTree], bytes_each: int | None, is_wide: bool
) -> Callable[..., PyTree]:
    """Returns `function` of arrays with a batching rule that maps it over chunks.

    Args:
      function: the computation for one member.
      bytes_each: the bytes that one member uses; None for the bytes of its arguments.
      is_wide: whether 64-bit types are enabled within the rule. JAX calls it after the scope in
        which the function was traced.
    """

    @custom_vmap
    def chunked(*arguments: jax.Array) -> PyTree:
        return function(*arguments)

    @chunked.def_vmap
    def _batch(
        axis_size: int, is_batched: list[bool], *arguments: jax.Array
    ) -> tuple[PyTree, PyTree]:
        num_members = max(axis_size, 1)
        bytes_of_member = bytes_each or sum(
            _bytes(leaf) // (num_members if flag else 1)
            for leaf, flag in zip(arguments, is_batched, strict=True)
        )

        chunk_size = _CACHE_BYTES // max(bytes_of_member, 1)

        @jax.enable_x64(is_wide)
        def all_members(*arguments: jax.Array) -> PyTree:
            return _map_members(function, arguments, is_batched, axis_size, chunk_size)

        # An outer `vmap` applies this rule again, to chunks of whole batches.
        outer = _chunked(all_members, bytes_of_member * num_members, is_wide)
        with jax.enable_x64(is_wide):
            results = outer(*arguments)
        return results, jax.tree.map(lambda _: True, results)

    return chunked


def _map_members(
    function: Callable[..., PyTree],
    arguments: tuple[jax.Array, ...],
    is_batched: list[bool],
    axis_size: int,
    chunk_size: int,
) -> PyTree:
    """Maps a function over the members of those arguments that are batched, in chunks on a CPU."""

    def one(part: list[jax.Array]) -> PyTree:
        batched = iter(part)
        return function(
            *(
                next(batched) if flag else leaf
                for leaf, flag in zip(arguments, is_batched, strict=True)
            )
        )

    own = [leaf for leaf, flag in zip(arguments, is_batched, strict=True) if flag]
    return (
        _map(one, own, axis_size, chunk_size) if devices.platform() == "cpu" else jax.vmap(one)(own)
    )


def _bytes(leaf: ArrayLike) -> int:
    return int(jnp.size(leaf)) * jnp.result_type(leaf).itemsize


def _map(
    function: Callable[[list[jax.Array]], PyTree],
    batch: list[jax.Array],
    axis_size: int,
    chunk_size: int,
) -> PyTree:
    """Maps a function over a batch in chunks of `chunk_size` members of each device."""
    num_devices = _num_devices(axis_size)
    if num_devices == 1:
        return _map_in_chunks(function, batch, axis_size, chunk_size)
    num_each = axis_size // num_devices

    def dealt(leaf: jax.Array) -> jax.Array:
        return leaf.reshape(num_devices, num_each, *leaf.shape[1:]).swapaxes(0, 1)

    results = _map_in_chunks(
        jax.vmap(function), [dealt(leaf) for leaf in batch], num_each, chunk_size
    )
    return jax.tree.map(
        lambda leaf: leaf.swapaxes(0, 1).reshape(axis_size, *leaf.shape[2:]), results
    )


def _num_devices(axis_size: int) -> int:
    """The parts of a batch that may be on different devices. If a mesh is set, the examples are
    sharded over it, and the batch is not. A small batch may be on as many devices as it has
    members; a mesh for a larger one is taken to have a divisor of the number of all devices.
    """
    if meshes.is_set():
        return 1
    most = len(jax.devices(devices.platform()))
    return max(axis_size, 1) if axis_size <= most else math.gcd(axis_size, most)


def _map_in_chunks(
    function: Callable[[list[jax.Array]], PyTree],
    batch: list[jax.Array],
    axis_size: int,
    chunk_size: int,
) -> PyTree:
    """Maps a function over a batch in chunks. Copies of the first member pad the last chunk."""
    if axis_size > 0 and chunk_size <= 1:
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
