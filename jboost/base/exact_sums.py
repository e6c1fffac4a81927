"""Sums that do not depend on the order of their terms, and a context manager inside which the sums
of `reduce`, `numerics` and `named_axis` are order-independent.

A sum of floats depends on the order in which they are added, and so on the number of devices that
hold them. Here every term is split into parts. The first is the nearest multiple of a unit, the
next is the nearest multiple of a smaller unit to the rest. The units are powers of two, such that
sums of parts are integers below 2^53 times their unit. These sums are exact in 64 bits, in any
order and on any number of devices. The units follow from the largest absolute term, which does not
depend on the order either. (Demmel and Nguyen 2015, "Parallel reproducible summation", split terms
in the same way.)

The error of a sum of n terms, before it is rounded once, is at most n 2^-57 times the largest term
of its row; of a cumulative sum, too, it is relative to the largest term of the whole row. Terms
below about 2^-957 count as 0. With an `axis_name` of `shard_map`, `named_axis` adds the sums of the
devices by `psum`, in floats: those depend on the order.

Derivatives are those of ordinary sums, and not order-independent; `running_total` has none.

The scope is marked by an axis of size 1 of the current abstract mesh. JAX compiles a program anew
for another mesh, so that programs inside and outside of the scope are kept apart.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from jboost.base import derivatives, loops
from jboost.base.loops import OnStep
from jboost.base.types import Array, PyTree

AXIS = "exact_sums"  # the mesh axis that marks the scope
_MANTISSA = 53  # bits of a float64
# (bits of the number of terms, number of parts); the second for more than 2^24 terms
_FEW, _MANY = (24, 2), (36, 4)
# Numbers are scaled by at most this power of two, so that the scale is a normal float64. Sums of
# larger numbers may depend on the order. Terms below about 2^-957 count as 0.
_MOST_EXPONENT = 900
# entries of a block of a product, and the least number of its columns: those of a line of a cache
_BLOCK, _LEAST_WIDTH = 1 << 17, 16
# `length` is a power of two: 2^12, or a higher one whose exponent is a multiple of 6
_LENGTH_BITS, _LENGTH_STEP = 12, 6
# Rows of each device from which on XLA for CPUs (jaxlib 0.10.2) compiles functions of single
# entries to the same roundings. For one row it divides where it else multiplies by a reciprocal,
# and it contracts other products to fused multiply-adds. For 3 to 15 rows some exponentials and
# logarithms differ in the last bit.
MIN_ROWS = 16

_Result = TypeVar("_Result")


def are_on() -> bool:
    """Whether the scope is open. This is known while a program is traced."""
    return AXIS in jax.sharding.get_abstract_mesh().axis_names


@contextlib.contextmanager
def scope() -> Iterator[None]:
    """A context manager inside which the sums of `reduce`, `numerics` and `named_axis` are
    order-independent; of `named_axis` without an `axis_name` only.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if AXIS in mesh.axis_names:
        yield
        return
    extended = AbstractMesh(
        (*mesh.axis_sizes, 1),
        (*mesh.axis_names, AXIS),
        axis_types=(*mesh.axis_types, AxisType.Auto) if mesh.axis_names else (AxisType.Auto,),
    )
    with jax.sharding.use_abstract_mesh(extended):
        yield


def in_scope(
    function: Callable[..., _Result], *arguments: Any, on_step: OnStep | None, **options: Any
) -> _Result:
    """The result of a function that is called in the scope. Its `on_step` runs outside of it."""
    watched = None if on_step is None else not_in_scope(on_step)
    with scope():
        found = function(*arguments, on_step=watched, **options)
    outside_of_scope: _Result = outside(found)
    return outside_of_scope


def not_in_scope(function: Callable[..., Any]) -> Callable[..., Any]:
    """A callback that is called in the scope, and runs outside of it with arrays from outside."""
    mesh = jax.sharding.get_abstract_mesh()

    def call(*args: Any) -> Any:
        with jax.sharding.use_abstract_mesh(mesh):
            return function(*outside(args))

    return call


def outside(tree: PyTree) -> PyTree:
    """The arrays of a pytree on their mesh without the axis of the scope. No data moves."""
    return jax.tree.map(_without_axis, tree)


def mesh_outside(mesh: Mesh) -> Mesh:
    """A mesh without the axis of the scope."""
    if AXIS not in mesh.axis_names:
        return mesh
    index = mesh.axis_names.index(AXIS)
    names, types = (
        tuple(each for place, each in enumerate(items) if place != index)
        for items in (mesh.axis_names, mesh.axis_types)
    )
    return Mesh(mesh.devices.take(0, axis=index), names, axis_types=types)


def _without_axis(leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return leaf
    sharding = leaf.sharding
    if not isinstance(sharding, NamedSharding) or AXIS not in sharding.mesh.axis_names:
        return leaf
    whole: Any = sharding.mesh
    mesh = mesh_outside(whole)
    target: Any = (
        NamedSharding(mesh, PartitionSpec(*sharding.spec), memory_kind=sharding.memory_kind)
        if mesh.axis_names
        else jax.sharding.SingleDeviceSharding(whole.devices.flat[0])
    )
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.device_put(leaf, target)
    return jax.make_array_from_single_device_arrays(
        leaf.shape, target, [shard.data for shard in leaf.addressable_shards], dtype=leaf.dtype
    )


def length(num_terms: int) -> int:
    """`num_terms` for bounds of rounding errors. In the scope it is the next of 2^12, 2^18, 2^24
    and so on, so that padding to a multiple of the number of devices seldom changes it: never for
    up to 4096 devices whose number is a power of two.
    """
    if not are_on():
        return num_terms
    bits = max(num_terms - 1, 0).bit_length()
    return 1 << max(_LENGTH_BITS, -(-bits // _LENGTH_STEP) * _LENGTH_STEP)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def total(values: Array, axes: tuple[int, ...]) -> Array:
    """The sum of floats over some axes, in their dtype, for any order of the terms."""
    with jax.enable_x64(True):
        found = _total(lax.stop_gradient(values), axes)
        return _narrowed(found, values.dtype)


@total.defjvp
def _derivative(
    axes: tuple[int, ...], primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    return total(*primals, axes), jnp.sum(*tangents, axis=axes)


def running_total(values: Array, *, reverse: bool = False) -> Array:
    """The cumulative sums of float64 numbers [..., k] along the last axis, for any order.

    To be called inside `numerics.in_64_bits`. What is lost is relative to the largest number of a
    row. It has no derivative.
    """
    axis = values.ndim - 1

    def sums(values: Array) -> Array:
        parts, units = _split(values, (axis,))
        return _combined([lax.cumsum(part, axis=axis, reverse=reverse) for part in parts], units)

    found: Array = derivatives.define(sums, _refused)(values)
    return found


@jax.custom_jvp
def products(left: Array, right: Array) -> Array:
    """`jnp.matmul` of a matrix and a vector, or of a vector and a matrix, of floats, by sums for
    any order. Entries of the matrix must be at most 1 in absolute value.

    Blocks of columns are split one after the other, which takes little memory. They are not blocks
    of rows, which may be on several devices.
    """
    dtype = jnp.result_type(left, right)
    with jax.enable_x64(True):
        found = (
            _of_rows(left, right.astype(jnp.dtype("float64")))
            if right.ndim == 1
            else _of_columns(right, left.astype(jnp.dtype("float64")))
        )
        return _narrowed(found, dtype)


@products.defjvp
def _derivative_of_product(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    (left, right), (change_left, change_right) = primals, tangents
    found = products(left, right)

    def plain(one: Array, other: Array) -> Array:
        return lax.dot_general(
            one.astype(found.dtype),
            other.astype(found.dtype),
            (((one.ndim - 1,), (0,)), ((), ())),
            precision=lax.Precision.HIGHEST,
        )

    return found, plain(change_left, right) + plain(left, change_right)


def _of_rows(matrix: Array, vector: Array) -> Array:
    """The products [m] of a matrix [m, n] and a vector [n] of 64 bits."""
    largest = largest_size(vector)
    num_rows, num_columns = matrix.shape

    def sums(begin: Array | int, size: int) -> tuple[tuple[Array, ...], list[Array]]:
        block, factors = _columns(matrix, begin, size), _slice(vector, begin, size, 0)
        parts, units = _split(block * factors[None, :], (1,), largest, num_columns)
        return tuple(jnp.sum(part, axis=1) for part in parts), units

    width = min(_width(num_rows), num_columns)
    last = num_columns - num_columns % width if width else 0
    found, units = sums(last, num_columns - last)

    def step(found: tuple[Array, ...], begin: Array) -> tuple[tuple[Array, ...], None]:
        more, _ = sums(begin, width)
        return tuple(one + other for one, other in zip(found, more, strict=True)), None

    if last:
        found, _ = loops.scan(step, found, np.arange(0, last, width, dtype=np.int32))
    return _combined(list(found), [unit.reshape(()) for unit in units])


def _of_columns(matrix: Array, vector: Array) -> Array:
    """The products [n] of a vector [m] of 64 bits and a matrix [m, n]."""
    largest = largest_size(vector)
    num_rows, num_columns = matrix.shape

    def sums(begin: Array | int, size: int) -> Array:
        return _total(vector[:, None] * _columns(matrix, begin, size), (0,), largest)

    width = min(_width(num_rows), num_columns)
    last = num_columns - num_columns % width if width else 0
    rest = sums(last, num_columns - last)
    if not last:
        return rest
    begins = np.arange(0, last, width, dtype=np.int32)
    _, found = loops.scan(lambda state, begin: (state, sums(begin, width)), (), begins)
    return jnp.concatenate([found.reshape(-1), rest])


def _width(num_rows: int) -> int:
    """The number of columns of a block of a matrix with so many rows."""
    return max(_LEAST_WIDTH, _BLOCK // max(num_rows, 1))


def _columns(matrix: Array, begin: Array | int, size: int) -> Array:
    return _slice(matrix, begin, size, 1).astype(jnp.dtype("float64"))


def _slice(values: Array, begin: Array | int, size: int, axis: int) -> Array:
    return lax.dynamic_slice_in_dim(values, jnp.asarray(begin, jnp.int32), size, axis)


def _refused(_: tuple[Array, ...], tangents: tuple[Array, ...], found: Array) -> PyTree:
    return derivatives.refused(
        found, tangents, "a sum inside a deterministic fit", "leave out deterministic=True"
    )


def largest_size(values: Array) -> Array:
    """The largest absolute value of the finite ones among float64 numbers, []; 0 without any."""
    return jnp.max(jnp.where(lax.is_finite(values), jnp.abs(values), 0.0), initial=0.0)


def _narrowed(found: Array, dtype: Any) -> Array:
    """A float64 number rounded to a dtype. `reduce_precision` forces the rounding."""
    number = jnp.finfo(dtype)
    if number.bits < 64:
        found = lax.reduce_precision(found, number.nexp, number.nmant)
    return found.astype(dtype)


def _total(values: Array, axes: tuple[int, ...], largest: Array | None = None) -> Array:
    parts, units = _split(values.astype(jnp.dtype("float64")), axes, largest)
    units = [jnp.squeeze(unit, axes) if unit.size > 1 else unit.reshape(()) for unit in units]
    return _combined([jnp.sum(part, axis=axes) for part in parts], units)


def _split(
    values: Array,
    axes: tuple[int, ...],
    largest: Array | None = None,
    num_terms: int | None = None,
) -> tuple[list[Array], list[Array]]:
    """The parts of float64 numbers, as integers of at most 2^(53 - bits of the number of terms),
    and their units, with axes of size 1. Infinite numbers and NaN are in the first part. Sums may
    have `num_terms` terms; None for those that are given.
    """
    if num_terms is None:
        num_terms = math.prod(values.shape[axis] for axis in axes)
    size_bits, num_parts = _FEW if num_terms <= 1 << _FEW[0] else _MANY
    bits = _MANTISSA - 1 - size_bits
    is_finite = lax.is_finite(values)
    if largest is None:
        sizes = jnp.where(is_finite, jnp.abs(values), 0.0)
        largest = jnp.max(sizes, axis=axes, keepdims=True, initial=0.0)
    else:
        largest = largest.reshape((1,) * values.ndim)
    scale = _power_of_two_above(largest)
    rest = jnp.where(is_finite, values, 0.0) * (2.0**bits / scale)
    parts, units, unit = [], [], scale * 2.0**-bits
    for _ in range(num_parts):
        part = lax.round(rest, lax.RoundingMethod.TO_NEAREST_EVEN)
        parts.append(part)
        units.append(unit)
        rest, unit = (rest - part) * 2.0 ** (bits + 1), unit * 2.0 ** -(bits + 1)
    parts[0] = jnp.where(is_finite, parts[0], values)
    return parts, units


def _combined(sums: list[Array], units: list[Array]) -> Array:
    """The sum of the sums of parts, the smallest first."""
    found = sums[-1] * units[-1]
    for part, unit in zip(reversed(sums[:-1]), reversed(units[:-1]), strict=True):
        found = found + part * unit
    return found


def _power_of_two_above(sizes: Array) -> Array:
    """A power of two above float64 numbers that are not negative, 2^-900 to 2^900."""
    low, high = 2.0**-_MOST_EXPONENT, 2.0 ** (_MOST_EXPONENT - 1)
    bits = lax.bitcast_convert_type(jnp.clip(sizes, low, high), jnp.uint64)
    return 2 * lax.bitcast_convert_type((bits >> (_MANTISSA - 1)) << (_MANTISSA - 1), jnp.float64)
