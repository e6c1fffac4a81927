"""Devices arranged as a mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
from jax.sharding import Mesh

from jboost.base import check


def make_mesh(
    axis_sizes: Sequence[int] | None = None,
    axis_names: Sequence[str] = ("examples",),
    *,
    devices: Sequence[jax.Device] | None = None,
) -> Mesh:
    """A mesh over the devices of all processes, in the order that JAX finds fastest.

    Args:
      axis_sizes: the number of devices along each axis, static; None for all devices along the
        first axis.
      axis_names: a name for each axis. By default `shard_dataset` uses the axis "examples", and
        `shard_batch` the axis "batch".
      devices: the devices; None for `jax.devices()`.

    Returns:
      A `jax.sharding.Mesh` with axes of JAX's default type, which is `Explicit`. The public
      algorithms take arrays on meshes with `Auto` axes too.

    Raises:
      ValueError: naming the argument, if the sizes need more devices than there are, or if the
        numbers of names and sizes differ.

    >>> import jax, jboost
    >>> mesh = jboost.sharding.make_mesh(devices=jax.devices()[:1])
    >>> mesh.axis_names, mesh.size
    (('examples',), 1)
    """
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    if not names or len(set(names)) != len(names):
        raise ValueError(f"axis_names is {names!r}: expected one name or more, each once")
    found = list(jax.devices() if devices is None else devices)
    if not found:
        raise ValueError("devices is empty: expected one device at least, or None for all")
    if axis_sizes is None:
        sizes: tuple[int, ...] = (len(found), *[1] * (len(names) - 1))
    else:
        sizes = tuple(axis_sizes)
    if len(sizes) != len(names):
        raise ValueError(
            f"axis_sizes is {sizes} and axis_names is {names}: expected a size for each name"
        )
    for index, size in enumerate(sizes):
        check.count(f"axis_sizes[{index}]", size, low=1)
    if math.prod(sizes) > len(found):
        raise ValueError(
            f"axis_sizes is {sizes}, which takes {math.prod(sizes)} devices, and there are"
            f" {len(found)}: ask for fewer"
        )
    return jax.make_mesh(sizes, names, devices=found[: math.prod(sizes)])
