"""Batches whose members are spread over a mesh: each device goes through its own members, as if
there were no others.

Under `jax.vmap` a function sees one member. That the batch is spread shows where the batch is
known, in the rule of `custom_vmap`: there the function is mapped over the members of a device by
`vmap`, and over the devices by `shard_map`. Left to XLA, a loop would wait in every turn for all
devices to say whether a member is unfinished, and a loop over the members would copy all of them to
every device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.sharding import PartitionSpec

from jboost.base.types import PyTree

BATCH_AXIS = "batch"  # the axis of a mesh over which members of a batch are spread, and no examples


def batch_axis() -> str | None:
    """The axis "batch" of the mesh that is set, with `Auto` axes; None where there is none."""
    mesh = jax.sharding.get_abstract_mesh()
    return BATCH_AXIS if BATCH_AXIS in mesh.axis_names and BATCH_AXIS in mesh.auto_axes else None


def on_their_devices(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """`function` of arrays, which under `vmap` runs on each device for its own members."""
    run = jax.custom_jvp(_divided(function))
    run.defjvp(functools.partial(differentiate, function))
    return run


def _divided(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    @custom_vmap
    def divided(*arguments: jax.Array) -> PyTree:
        return function(*arguments)

    @divided.def_vmap
    def _batch(
        axis_size: int, is_batched: list[bool], *arguments: jax.Array
    ) -> tuple[PyTree, PyTree]:
        mapped = jax.vmap(function, in_axes=tuple(0 if flag else None for flag in is_batched))
        axis = _axis_of(arguments, is_batched, axis_size)
        if axis is not None:
            specs = tuple(PartitionSpec(axis) if flag else PartitionSpec() for flag in is_batched)
            mesh = _mesh_of(arguments)
            # Members know nothing of each other: there is nothing for `check_vma` to find.
            mapped = jax.shard_map(
                mapped,
                mesh=mesh,
                in_specs=specs,
                out_specs=PartitionSpec(axis),
                axis_names={axis},
                check_vma=False,
            )
        results = mapped(*arguments)
        return results, jax.tree.map(lambda _: True, results)

    return divided


def _axis_of(
    arguments: tuple[jax.Array, ...], is_batched: list[bool], num_members: int
) -> str | None:
    """The axis of a mesh over which the members are spread: as their types say, or "batch" of the
    mesh that is set.
    """
    for leaf, flag in zip(arguments, is_batched, strict=True):
        sharding = jax.typeof(leaf).sharding
        if flag and sharding.mesh.explicit_axes and isinstance(sharding.spec[0], str):
            return sharding.spec[0]
    axis = batch_axis()
    is_even = axis is not None and num_members % jax.sharding.get_abstract_mesh().shape[axis] == 0
    return axis if is_even else None


def _mesh_of(arguments: tuple[jax.Array, ...]) -> Any:
    """The mesh that the types name, or None for the one that is set."""
    return next(
        (
            jax.typeof(leaf).sharding.mesh
            for leaf in arguments
            if not jax.typeof(leaf).sharding.mesh.empty
        ),
        None,
    )


def differentiate(
    function: Callable[..., PyTree], primals: tuple[jax.Array, ...], tangents: tuple[Any, ...]
) -> tuple[PyTree, PyTree]:
    """Results and their tangents; those of `custom_vmap` mix members up under a further `vmap`.

    All results are those of members if any argument is, even where they do not depend on it: that
    is so of `custom_vmap` as well.
    """

    def beside_arguments(*leaves: jax.Array) -> PyTree:
        results = function(*leaves)
        for leaf in leaves:
            is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            numbers = jax.random.key_data(leaf) if is_key else leaf
            never = jnp.zeros((), bool) & jnp.any(numbers != numbers)
            results = jax.tree.map(
                lambda result, never=never: jnp.where(never, result, result), results
            )
        return results

    return jax.jvp(beside_arguments, primals, tangents)
