"""The work on a batch of nodes, divided over the devices of a mesh.

On a mesh each device works on its part of the batch, and gets the results of the others: numbers
for each node and literal. All amounts are integers, so the results are those of one device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from jboost.base import meshes
from jboost.base.types import Array, PyTree


def by_node(
    work: Callable[..., PyTree], columns: Sequence[Array], whole: Sequence[Any] = ()
) -> PyTree:
    """`work(*columns, *whole)`, where every column of a result depends only on the same column of
    each argument.

    Args:
      work: -> arrays [k, B].
      columns: arrays [j, B], one column for each node.
      whole: pytrees that every device has.
    """
    num_devices = meshes.num_devices()
    if num_devices == 1:
        return work(*columns, *whole)
    batch = columns[0].shape[1]
    # what comes before and after is small, and stays whole
    padded = tuple(
        jnp.pad(part, ((0, 0), (0, -batch % num_devices))) for part in replicated(tuple(columns))
    )
    found = meshes.over_devices(work, padded, tuple(whole), axis=1)
    return replicated(jax.tree.map(lambda leaf: leaf[:, :batch], found))


def replicated(tree: PyTree) -> PyTree:
    """The arrays, which every device of the mesh that is set has from now on."""
    if not meshes.is_set():
        return tree
    return jax.tree.map(lambda leaf: lax.with_sharding_constraint(leaf, PartitionSpec()), tree)
