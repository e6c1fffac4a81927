"""Arrays that are spread over the devices of a mesh: which mesh a call is on, and the axis types
that algorithms run under.

JAX shards an array over a mesh whose axes are `Auto` (the compiler places every intermediate array)
or `Explicit` (the types of arrays say where they are, and each operation checks them). The
algorithms here are written for `Auto` axes. A public function under `takes_sharded` may be given
arrays of either kind, outside of compiled programs and inside: it runs with `Auto` axes, and what
it returns is of the caller's kind again. No data moves for that.

An algorithm with two variants, one of which gathers the examples on every device (a sort, say),
chooses by `is_set`. That is known while a program is traced: `takes_sharded` sets the mesh of
arrays that are sharded, and JAX keeps one program for each mesh.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from jboost.base import devices, exact_sums, members
from jboost.base.members import BATCH_AXIS
from jboost.base.types import Array, PyTree

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def is_set() -> bool:
    """Whether a mesh of several devices is set, so that examples may be sharded over it: any axis
    but "batch".
    """
    return num_devices() > 1


def num_devices() -> int:
    """How many parts the examples may be in, 1 without a mesh; where an array's type says that it
    is sharded it is not, as under `vmap`.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.manual_axes or mesh.explicit_axes:
        return 1
    return math.prod(
        size
        for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True)
        if name != BATCH_AXIS
    )


def validate_rows_for_exact_sums(name: str, num_rows: int) -> None:
    """Raises ValueError, naming the argument, for so few rows that functions of each of them round
    otherwise than on another number of devices. Within `jit` only the mesh that is set is known.
    """
    parts = num_devices()
    if num_rows < exact_sums.MIN_ROWS * parts:
        raise ValueError(
            f"{name} has {num_rows} rows on {parts} device(s), and deterministic is True: expected"
            f" at least {exact_sums.MIN_ROWS} on each; fill up with rows of mask False, as"
            f" jboost.pad_dataset(dataset, num_examples={exact_sums.MIN_ROWS * parts}) does before"
            " jboost.sharding.shard_dataset"
        )


def over_devices(
    function: Callable[..., Any],
    divided: tuple[Array, ...],
    whole: tuple[Any, ...],
    *,
    axis: int = 0,
) -> Any:
    """`function(*divided, *whole)` on every device of the mesh that is set: of arrays that are
    divided along an axis, and of whole pytrees.

    Results are divided along the same axis, whose length is a multiple of `num_devices()`. Without
    a mesh, the function itself.
    """
    if not is_set():
        return function(*divided, *whole)
    names = tuple(
        name
        for name in jax.sharding.get_abstract_mesh().axis_names
        if name not in (BATCH_AXIS, exact_sums.AXIS)
    )
    part = PartitionSpec(*[None] * axis, names)
    specs = (part,) * len(divided) + (PartitionSpec(),) * len(whole)
    return jax.shard_map(function, in_specs=specs, out_specs=part, axis_names=set(names))(
        *divided, *whole
    )


def takes_sharded(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """A public function that also takes arrays which are sharded over a mesh, with `Auto` or
    `Explicit` axes.

    Raises:
      ValueError: naming the arguments, where two are on different meshes.
    """
    return _wrapped(function, _outside)


def takes_gathered(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """`takes_sharded` for a function that reads all values on the host: every process of a cluster
    then gets all, and does the same work.
    """
    return _wrapped(function, _gathered)


def takes_copies(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """`takes_gathered` for a search whose steps on the device do not divide the rows: it gets
    copies of all rows in one process, too.
    """
    return _wrapped(function, _copied)


def _wrapped(
    function: Callable[_Arguments, _Result], outside: Callable[..., Any]
) -> Callable[_Arguments, _Result]:
    names = tuple(inspect.signature(function).parameters)

    def call(*args: Any, **kwargs: Any) -> Any:
        return dispatch(function, outside, names, args, kwargs)

    # `call` reads no globals, so it may have those of `function`: doctest looks there whose
    # function it is
    dispatch = _dispatch
    found_in = inspect.unwrap(function).__globals__  # type: ignore[attr-defined]
    wrapped = types.FunctionType(call.__code__, found_in, function.__name__, None, call.__closure__)
    functools.update_wrapper(wrapped, function)
    return wrapped


def _dispatch(
    function: Callable[..., Any],
    outside: Callable[..., Any],
    names: tuple[str, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    arrays = [leaf for leaf in jax.tree.leaves((args, kwargs)) if isinstance(leaf, jax.Array)]
    if _is_manual():
        return function(*args, **kwargs)
    is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in arrays)
    if not any(_is_spread(leaf) for leaf in arrays):
        copied = [] if is_traced else [leaf for leaf in arrays if _is_on_explicit(leaf)]
        if copied:
            return _as_automatic(function, _mesh_of(copied[0]), args, kwargs)
        return _in_batch(function, args, kwargs)
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    if is_traced:
        return _inside(function, named, args, kwargs)
    return outside(function, named, args, kwargs)


def _in_batch(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call with whole arrays, which may be those of a member of a batch that is spread."""
    leaves, structure = jax.tree.flatten((args, kwargs))
    positions = [index for index, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    traced = [leaves[index] for index in positions if isinstance(leaves[index], jax.core.Tracer)]
    if not traced or not (members.batch_axis() or any(_is_typed(leaf) for leaf in traced)):
        return function(*args, **kwargs)

    def of_arrays(*arrays: jax.Array) -> Any:
        filled = list(leaves)
        for index, array in zip(positions, arrays, strict=True):
            filled[index] = array
        own_args, own_kwargs = jax.tree.unflatten(structure, filled)
        return function(*own_args, **own_kwargs)

    run, arrays = members.on_their_devices(of_arrays), [leaves[index] for index in positions]
    mesh = next((_mesh_of_type(leaf) for leaf in traced if _is_typed(leaf)), None)
    if mesh is None or not jax.sharding.get_abstract_mesh().empty:
        return run(*arrays)
    # so that arrays that are made on the way are of the same type
    with jax.sharding.use_abstract_mesh(mesh):
        return run(*arrays)


def _is_manual() -> bool:
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def _is_spread(leaf: jax.Array) -> bool:
    """Whether it is known to be sharded: by its type, or as it is there. Under `vmap` the batch
    itself does not count. On one device an array of a type with `Explicit` axes counts.
    """
    if isinstance(leaf, jax.core.Tracer):
        return _is_typed(leaf) and any(axis is not None for axis in jax.typeof(leaf).sharding.spec)
    sharding = leaf.sharding
    if not isinstance(sharding, NamedSharding):
        return False
    if sharding.mesh.size > 1:
        return not sharding.is_fully_replicated
    return bool(sharding.mesh.explicit_axes)


def _is_on_explicit(leaf: jax.Array) -> bool:
    """Whether an array is on a mesh with `Explicit` axes."""
    return isinstance(leaf.sharding, NamedSharding) and bool(leaf.sharding.mesh.explicit_axes)


def _mesh_of(leaf: jax.Array) -> Any:
    sharding: Any = leaf.sharding
    return exact_sums.mesh_outside(sharding.mesh)


def _mesh_of_type(leaf: jax.Array) -> AbstractMesh:
    mesh: AbstractMesh = jax.typeof(leaf).sharding.mesh
    return mesh


def _the_one_mesh(meshes: dict[str, Any]) -> Any:
    """The mesh of all arguments. Raises ValueError, naming two arguments, where they are on
    different ones.
    """
    (first, mesh), *others = meshes.items()
    for name, other in others:
        if _identity(other) != _identity(mesh):
            raise ValueError(
                f"{name} is sharded over {_shown(other)} and {first} over {_shown(mesh)}: expected"
                " arrays on one mesh; make one with jboost.sharding.make_mesh and put all of them"
                " there with jboost.sharding.shard_dataset"
            )
    return mesh


def _identity(mesh: Any) -> Any:
    """What tells meshes apart: axes, sizes and devices, not the types of the axes."""
    devices = tuple(device.id for device in mesh.devices.flat) if isinstance(mesh, Mesh) else ()
    return mesh.axis_names, mesh.axis_sizes, devices


def _shown(mesh: Any) -> str:
    axes = ", ".join(
        f"{name}={size}" for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True)
    )
    return f"a mesh ({axes})" + (
        f" of devices {[device.id for device in mesh.devices.flat]}"
        if isinstance(mesh, Mesh)
        else ""
    )


# --- inside a compiled program --------------------------------------------------------------------


def _inside(function: Callable[..., Any], named: dict[str, Any], args: Any, kwargs: Any) -> Any:
    """The call under `Auto` axes; of results, an axis as long as one that is sharded among the
    arguments is sharded alike.
    """
    mesh = _the_one_mesh(
        {
            name: _mesh_of_type(leaf)
            for name, value in named.items()
            for leaf in _leaves(value)
            if _is_typed(leaf)
        }
    )
    automatic = mesh.update_axis_types(dict.fromkeys(mesh.axis_names, AxisType.Auto))
    axes = _sharded_sizes((args, kwargs))

    def to_automatic(leaf: Any) -> Any:
        return (
            jax.sharding.reshard(leaf, PartitionSpec(*[None] * leaf.ndim))
            if _is_typed(leaf)
            else leaf
        )

    def to_explicit(leaf: Any) -> Any:
        return (
            jax.sharding.reshard(leaf, _spec_by_sizes(leaf.shape, axes))
            if isinstance(leaf, jax.Array)
            else leaf
        )

    with jax.sharding.use_abstract_mesh(mesh):
        with jax.sharding.use_abstract_mesh(automatic):
            args, kwargs = jax.tree.map(to_automatic, (args, kwargs))
            result = function(*args, **kwargs)
        return jax.tree.map(to_explicit, result)


def _leaves(value: Any) -> list[Any]:
    return jax.tree.leaves(value)


def _is_typed(leaf: Any) -> bool:
    return (
        isinstance(leaf, jax.Array)
        and not _mesh_of_type(leaf).empty
        and bool(_mesh_of_type(leaf).explicit_axes)
    )


def _sharded_sizes(arguments: PyTree) -> dict[int, Any]:
    """size -> the mesh axis (or axes) that a dimension of this size is sharded over, among the
    arguments.
    """
    axes: dict[int, Any] = {}
    for leaf in jax.tree.leaves(arguments):
        if _is_typed(leaf):
            for size, axis in zip(leaf.shape, jax.typeof(leaf).sharding.spec, strict=True):
                if axis is not None:
                    axes.setdefault(size, axis)
    return axes


def _spec_by_sizes(shape: tuple[int, ...], axes: dict[int, Any]) -> PartitionSpec:
    rest, spec = dict(axes), []
    for size in shape:
        axis = rest.pop(size, None)
        if axis is not None:
            rest = {other: name for other, name in rest.items() if name != axis}
        spec.append(axis)
    return PartitionSpec(*spec)


# --- outside of compiled programs -----------------------------------------------------------------


def _outside(function: Callable[..., Any], named: dict[str, Any], args: Any, kwargs: Any) -> Any:
    """The call with the mesh of the arrays set, its axes `Auto`; results are on the caller's mesh
    again.
    """
    given = {
        name: _mesh_of(leaf)
        for name, value in named.items()
        for leaf in _leaves(value)
        if isinstance(leaf, jax.Array) and _is_spread(leaf)
    }
    mesh = _the_one_mesh(given)
    if exact_sums.are_on():  # within another public function, which has set the mesh
        return function(*args, **kwargs)
    automatic = Mesh(
        mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names)
    )
    if mesh == automatic and jax.sharding.get_abstract_mesh() == automatic.abstract_mesh:
        return function(*args, **kwargs)
    args, kwargs = jax.tree.map(lambda leaf: _moved(leaf, automatic), (args, kwargs))
    with jax.set_mesh(automatic):
        result = function(*args, **kwargs)
    return jax.tree.map(lambda leaf: _moved(leaf, mesh), result)


def _as_automatic(function: Callable[..., Any], mesh: Mesh, args: Any, kwargs: Any) -> Any:
    """The call with arrays that have a copy on every device of a mesh with `Explicit` axes. Nothing
    is divided; JAX would ask for a mesh context where arrays are made on the way.
    """
    automatic = Mesh(
        mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names)
    )
    args, kwargs = jax.tree.map(lambda leaf: _moved(leaf, automatic), (args, kwargs))
    result = function(*args, **kwargs)
    return jax.tree.map(lambda leaf: _moved(leaf, mesh), result)


def _gathered(function: Callable[..., Any], named: dict[str, Any], args: Any, kwargs: Any) -> Any:
    """The call with all rows in every process, where some are in others."""
    leaves = jax.tree.leaves((args, kwargs))
    if all(leaf.is_fully_addressable for leaf in leaves if isinstance(leaf, jax.Array)):
        return _outside(function, named, args, kwargs)
    return _copied(function, named, args, kwargs)


def _copied(function: Callable[..., Any], named: dict[str, Any], args: Any, kwargs: Any) -> Any:
    args, kwargs = jax.tree.map(host_copy, (args, kwargs))
    return function(*args, **kwargs)


def host_copy(leaf: Any) -> Any:
    """All entries of an array of JAX as one of NumPy, in every process, all of which must call
    this; anything else as it is.
    """
    if not isinstance(leaf, jax.Array) or (
        jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) and leaf.is_fully_addressable
    ):
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        data = host_copy(jax.random.key_data(leaf))
        return jax.random.wrap_key_data(jnp.asarray(data), impl=jax.random.key_impl(leaf))
    if leaf.is_fully_addressable or leaf.is_fully_replicated:
        return np.asarray(leaf)
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(leaf, tiled=True)


def on_one_device(leaf: Any) -> Any:
    """All entries of an array on a mesh as one on the default device, in every process, all of
    which must call this; anything else as it is.
    """
    if not isinstance(leaf, jax.Array) or not isinstance(leaf.sharding, NamedSharding):
        return leaf
    # A device in place of its sharding would keep the mesh in the type of the array.
    target = jax.sharding.SingleDeviceSharding(devices.default())
    return jax.device_put(leaf if leaf.is_fully_addressable else host_copy(leaf), target)


def _moved(leaf: Any, mesh: Mesh) -> Any:
    """A sharded array on a mesh of the same devices, without a copy; anything else as it is."""
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return leaf
    sharding = leaf.sharding
    if not isinstance(sharding, NamedSharding) or sharding.mesh == mesh:
        return leaf
    if sharding.mesh.size != mesh.size:
        return leaf
    target = NamedSharding(mesh, sharding.spec, memory_kind=sharding.memory_kind)
    return jax.make_array_from_single_device_arrays(
        leaf.shape, target, [shard.data for shard in leaf.addressable_shards], dtype=leaf.dtype
    )
