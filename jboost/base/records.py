"""Records that hold sizes, strings or functions beside their arrays, as pytrees."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Record = TypeVar("Record")


def register(record: type[Record], *, static: tuple[str, ...] = ()) -> type[Record]:
    """Makes a dataclass a pytree; the fields named in `static`, or with metadata {"static": True},
    are part of its structure.

    Records hash and compare by value: equal ones have the class, the structure and the numbers in
    common. A traced number equals itself alone.

    In place of `jax.tree_util.register_dataclass`, whose structures (jaxlib 0.10.2) are equal for
    all classes with as many fields and equal static ones: now and then, as hashes fall, `jax.jit`
    then answers for one record with the program of another.
    """
    fields = dataclasses.fields(record)  # type: ignore[arg-type]
    meta = tuple(
        field.name
        for field in fields
        if field.metadata.get("static", False) or field.name in static
    )
    data = tuple(field.name for field in fields if field.name not in meta)

    def flatten(one: Record) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(one, name) for name in data), tuple(
            getattr(one, name) for name in meta
        )

    def flatten_with_keys(one: Record) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        leaves, rest = flatten(one)
        return tuple(
            (jax.tree_util.GetAttrKey(name), leaf) for name, leaf in zip(data, leaves, strict=True)
        ), rest

    def unflatten(rest: tuple[Any, ...], leaves: Any) -> Record:
        return record(**dict(zip(data, leaves, strict=True)), **dict(zip(meta, rest, strict=True)))

    jax.tree_util.register_pytree_with_keys(record, flatten_with_keys, unflatten, flatten)
    record.__eq__ = _is_equal  # type: ignore[method-assign, assignment]
    record.__hash__ = _hash  # type: ignore[method-assign, assignment]
    return record


def _is_equal(one: Any, other: Any) -> Any:
    return _value(one) == _value(other) if type(one) is type(other) else NotImplemented


def _hash(one: Any) -> int:
    return hash(_value(one))


def _value(one: Any) -> tuple[Any, ...]:
    leaves, structure = jax.tree.flatten(one)
    return type(one), structure, *map(_numbers, leaves)


def _numbers(leaf: Any) -> Any:
    """A leaf as what hashes and compares by value: NaN equals NaN, and dtypes do not matter."""
    if isinstance(leaf, jax.core.Tracer):
        return "traced", id(leaf)
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    host = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
    return host.shape, tuple(
        "nan" if number != number else number for number in host.ravel().tolist()
    )
