"""Meshes of the simulated devices, and arrays that are sharded over them."""

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec


def mesh_of(num_devices=4, axis="examples", kind=AxisType.Explicit):
    return Mesh(np.array(jax.devices()[:num_devices]), (axis,), axis_types=(kind,))


def put(array, mesh):
    """The array, sharded along its first axis."""
    return jax.device_put(
        array,
        NamedSharding(mesh, PartitionSpec(mesh.axis_names[0], *[None] * (np.ndim(array) - 1))),
    )
