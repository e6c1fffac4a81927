"""Batches whose members are sharded over a mesh: each device computes its own members only.

Under `jax.vmap` a function receives one member. The sharding of the batch is known in the batching
rule of `custom_vmap` only. This rule maps the function over the members of one device by `vmap`,
and over the devices by `shard_map`. Without it, XLA would synchronise all devices in every
iteration of a loop, to find out whether any member is unfinished. A loop over the members would
copy all of them to every device.
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

BATCH_AXIS = "batch"  # the mesh axis over which members of a batch, not examples, are sharded


def batch_axis() -> str | None:
    """The axis "batch" if the current mesh has it as an `Auto` axis, else None."""
    mesh = jax.sharding.get_abstract_mesh()
    return BATCH_AXIS if BATCH_AXIS in mesh.axis_names and BATCH_AXIS in mesh.auto_axes else None


def on_their_devices(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Returns `function` of arrays, which under `vmap` runs on each device for its own members."""
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
            # Members are independent of each other, so `check_vma` has nothing to check.
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
    """The mesh axis over which the members are sharded; None if they are not.

    It is the axis in the type of an argument, or "batch" of the current mesh if the number of
    members is a multiple of its size.
    """
    for leaf, flag in zip(arguments, is_batched, strict=True):
        sharding = jax.typeof(leaf).sharding
        if flag and sharding.mesh.explicit_axes and isinstance(sharding.spec[0], str):
            return sharding.spec[0]
    axis = batch_axis()
    is_even = axis is not None and num_members % jax.sharding.get_abstract_mesh().shape[axis] == 0
    return axis if is_even else None


def _mesh_of(arguments: tuple[jax.Array, ...]) -> Any:
    """The mesh in the types of the arguments; None for the current mesh."""
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
    """The results of `function` and their tangents, for `defjvp` of a `custom_vmap` function.

    The derivative of `custom_vmap` itself mixes members up under an outer `vmap`. As in
    `custom_vmap`, all results are batched if any argument is, even those that do not depend on it.
    """

    def with_batched_results(*leaves: jax.Array) -> PyTree:
        results = function(*leaves)
        for leaf in leaves:
            is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            numbers = jax.random.key_data(leaf) if is_key else leaf
            # Always False, but batched if the argument is. It makes the results batched.
            never = jnp.zeros((), bool) & jnp.any(numbers != numbers)
            results = jax.tree.map(
                lambda result, never=never: jnp.where(never, result, result), results
            )
        return results

    return jax.jvp(with_batched_results, primals, tangents)
