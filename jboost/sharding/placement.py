"""Places arrays on a mesh, sharded by examples or by members of a batch, or replicated, and gathers
them on the host.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jboost.base import meshes, processes
from jboost.base.types import Dataset, PyTree, is_packed


def shard_dataset(dataset: Dataset, mesh: Mesh, *, axis: str = "examples") -> Dataset:
    """The data set with its examples sharded over an axis of a mesh.

    With one process, `dataset` contains all examples. With several processes, each process passes
    its own rows, of any number. They stay on its devices, and together they form the data set. The
    numbers and the dtypes of columns must agree.

    Args:
      dataset: of m examples, on the host or on any device.
      mesh: from `jboost.sharding.make_mesh`, or any other mesh.
      axis: the name of the axis.

    Returns:
      A `Dataset` of global arrays, features [M, N] or [M, ...] and the others [M], sharded along
      their first axis. M is the least multiple of the size of the axis that is sufficient for the
      rows of every process. Added rows are padding: features 0, label +1, weight 1 and `mask`
      False.

    Raises:
      ValueError: on every process, naming the argument: for a mesh without the axis, for traced
        arrays, and if processes differ in the number of features or in dtypes. The message lists
        these for each process.

    >>> import jax, jboost
    >>> mesh = jboost.sharding.make_mesh(devices=jax.devices()[:1])
    >>> spread = jboost.sharding.shard_dataset(jboost.make_dataset([[1.0], [2.0]], [1, -1]), mesh)
    >>> tuple(spread.features.sharding.spec)
    ('examples', None)
    """
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"dataset is a {type(dataset).__name__}: expected a jboost.Dataset, as"
            " jboost.make_dataset returns it"
        )
    _check_arguments("shard_dataset", "dataset", dataset, mesh, axis)
    if is_packed(dataset.features):
        raise ValueError(
            f"dataset has features of type {type(dataset.features).__name__}: expected an array;"
            " pack the rows of each device after they are there, or pass the matrix"
        )
    local = Dataset(*map(np.asarray, dataset))
    part = _part_of_process(mesh, axis)
    rows_each = _rows_of_a_device(local, part, mesh)
    local = _padded(local, rows_each * part.num_positions - local.labels.shape[0])
    return Dataset(*(_global(leaf, mesh, axis, rows_each * part.num_all) for leaf in local))


def shard_batch(tree: PyTree, mesh: Mesh, *, axis: str = "batch") -> PyTree:
    """A pytree whose leaves are sharded along their first axis, that of the members of a batch, for
    `jax.vmap` of any algorithm.

    With several processes, each process passes its own members, as many for each of its devices as
    the others, with leaves of the same names, shapes and dtypes. Random keys are allowed.

    Args:
      tree: leaves [B, ...], for example from `jboost.stack_datasets`; B must be a multiple of the
        size of the axis.
      mesh: for example `jboost.sharding.make_mesh(axis_names=("batch",))`.
      axis: the name of the axis.

    Raises:
      ValueError: naming the argument, for a mesh without the axis, for leaves of different first
        sizes, and if these are not a multiple of the number of devices along the axis. On every
        process, if any process has such an error, or if processes differ in the members per device,
        or in names, shapes or dtypes of leaves. The message lists these for each process.

    >>> import jax, jboost, numpy
    >>> mesh = jboost.sharding.make_mesh(axis_names=("batch",), devices=jax.devices()[:1])
    >>> tuple(jboost.sharding.shard_batch(numpy.zeros((4, 3)), mesh).sharding.spec)
    ('batch', None)
    """
    if not _is_over_processes(mesh):
        members = _members_of_a_device(tree, mesh, axis)
    else:
        members = processes.together(lambda: _members_of_a_device(tree, mesh, axis))
        _check_members_agree(tree, members)
    total = members * mesh.shape[axis]
    return jax.tree.map(lambda leaf: _global(leaf, mesh, axis, total), tree)


def replicate(tree: PyTree, mesh: Mesh) -> PyTree:
    """A pytree with a copy of every array on each device of a mesh. All processes must pass the
    same values.

    Raises:
      ValueError: if `mesh` is not a mesh, or arrays are traced.

    >>> import jax, jboost
    >>> tuple(
    ...     jboost.sharding.replicate([1.0], jboost.sharding.make_mesh(devices=jax.devices()[:1]))[
    ...         0
    ...     ].sharding.spec
    ... )
    ()
    """
    _check_arguments("replicate", "tree", tree, mesh, None)
    return jax.tree.map(
        lambda leaf: jax.device_put(leaf, NamedSharding(mesh, PartitionSpec())), tree
    )


def gather(tree: PyTree) -> PyTree:
    """A pytree of NumPy arrays with all entries, on every process. Leaves that are not JAX arrays
    do not change.

    All processes must call it. It is the only function here that copies all examples to every host.

    Raises:
      ValueError: if arrays are traced.

    >>> import jax.numpy as jnp, jboost
    >>> jboost.sharding.gather({"scores": jnp.arange(3)})
    {'scores': array([0, 1, 2], dtype=int32)}
    """
    _refuse_traced("gather", "tree", tree)

    return jax.tree.map(meshes.host_copy, tree)


class _ProcessPart(NamedTuple):
    """Which part of an axis a process holds."""

    num_positions: int  # along the axis, with a device of this process
    num_all: int  # the size of the axis


def _check_arguments(function: str, name: str, tree: PyTree, mesh: Any, axis: str | None) -> None:
    if not isinstance(mesh, Mesh):
        raise ValueError(
            f"mesh is a {type(mesh).__name__}: expected a jax.sharding.Mesh, as"
            " jboost.sharding.make_mesh returns it"
        )
    if axis is not None and axis not in mesh.axis_names:
        raise ValueError(
            f"axis is {axis!r}, and the mesh has axes {mesh.axis_names}: pass one of these, or make"
            " a mesh with this one"
        )
    _refuse_traced(function, name, tree)


def _refuse_traced(function: str, name: str, tree: PyTree) -> None:
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree)):
        raise ValueError(
            f"{name} is traced, and jboost.sharding.{function} moves arrays: call it outside jit,"
            " vmap and grad"
        )


def _part_of_process(mesh: Mesh, axis: str) -> _ProcessPart:
    """The part of the axis that belongs to this process. Raises ValueError if a position along the
    axis belongs to several processes, or if this process has no device on the mesh.
    """
    along = np.moveaxis(mesh.devices, mesh.axis_names.index(axis), 0).reshape(mesh.shape[axis], -1)
    owners = [{device.process_index for device in devices} for devices in along]
    if any(len(owner) > 1 for owner in owners):
        raise ValueError(
            f"axis {axis!r} of the mesh has positions that several processes share: order the"
            f" devices so that each process has whole positions along {axis!r}, and the other axes"
            " lie within a process"
        )
    mine = sum(owner == {jax.process_index()} for owner in owners)
    if not mine:
        raise ValueError(
            f"mesh has no device of process {jax.process_index()}: make it of devices of all"
            " processes that call this"
        )
    return _ProcessPart(mine, len(owners))


def _rows_of_a_device(local: Dataset, part: _ProcessPart, mesh: Mesh) -> int:
    """The number of rows of each device. Raises ValueError, on every process, if the data of the
    processes are inconsistent.
    """
    num_rows, *row_shape = local.features.shape
    needed = -(-num_rows // part.num_positions)
    if not _is_over_processes(mesh):
        return needed
    codes = [np.dtype(leaf.dtype).num for leaf in local]
    everyone = processes.numbers([needed, math.prod(row_shape), *codes])
    for column, what in (
        (1, "features"),
        *((2 + index, f"dtype number of {name}") for index, name in enumerate(Dataset._fields)),
    ):
        if len(set(everyone[:, column].tolist())) > 1:
            found = ", ".join(
                f"{value} on process {process}"
                for process, value in enumerate(everyone[:, column].tolist())
            )
            kind = "columns of features" if what == "features" else what
            raise ValueError(
                f"dataset differs between processes in its {kind} ({found}): pass rows of one"
                " table, of one dtype"
            )
    return int(everyone[:, 0].max())


def _is_over_processes(mesh: Any) -> bool:
    """Whether a mesh has devices of several processes."""
    devices = mesh.devices.flat if isinstance(mesh, Mesh) else ()
    return len({device.process_index for device in devices}) > 1


def _members_of_a_device(tree: PyTree, mesh: Mesh, axis: str) -> int:
    """The number of members of each device. Raises ValueError for arguments not allowed."""
    _check_arguments("shard_batch", "tree", tree, mesh, axis)
    part = _part_of_process(mesh, axis)
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(tree)}
    if len(sizes) != 1 or () in sizes:
        raise ValueError(
            f"tree has leaves of first sizes {sorted(sizes)}: expected one size, the number of"
            " members"
        )
    ((size,),) = sizes
    if size % part.num_positions:
        raise ValueError(
            f"tree holds {size} members, and axis {axis!r} of the mesh has {part.num_positions}"
            " devices here: expected a multiple; repeat members, or make a mesh of fewer devices"
        )
    return int(size // part.num_positions)


def _check_members_agree(tree: PyTree, members: int) -> None:
    """Raises ValueError, on every process, if their leaves or their numbers of members differ."""
    leaves = ", ".join(
        f"{jax.tree_util.keystr(path, simple=True, separator='.')} {_dtype_of(leaf)}"
        f"{list(np.shape(leaf)[1:])}".strip()
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    )
    own = f"{members} members a device of {leaves}"
    digest = hashlib.sha256(own.encode()).digest()
    every = processes.numbers(list(digest))
    if (every == every[0]).all():
        return
    found = "; ".join(
        f"process {number} has {text}" for number, text in enumerate(processes.texts(own))
    )
    raise ValueError(
        f"tree differs between processes ({found}): pass as many members for each device, with"
        " leaves of the same names, shapes and dtypes"
    )


def _dtype_of(leaf: Any) -> str:
    return str(leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _padded(local: Dataset, missing: int) -> Dataset:
    return Dataset(
        np.pad(local.features, ((0, missing), *((0, 0) for _ in local.features.shape[1:]))),
        np.pad(local.labels, (0, missing), constant_values=1),
        np.pad(local.weights, (0, missing), constant_values=1),
        np.pad(local.mask, (0, missing), constant_values=False),
    )


def _global(leaf: Any, mesh: Mesh, axis: str, total: int) -> jax.Array:
    """One array over all processes, from the rows of each process."""
    if jax.process_count() > 1 and _is_key(leaf):
        data = _global(jax.random.key_data(leaf), mesh, axis, total)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    spec = PartitionSpec(axis, *[None] * (np.ndim(leaf) - 1))
    sharding = NamedSharding(mesh, spec)
    if jax.process_count() == 1:
        return jax.device_put(leaf, sharding)
    host = np.asarray(leaf)
    return jax.make_array_from_process_local_data(sharding, host, (total, *host.shape[1:]))
