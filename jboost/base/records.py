"""Records that hold sizes, strings or functions beside their arrays, as pytrees."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import jax

Record = TypeVar("Record")


def register(record: type[Record], *, static: tuple[str, ...] = ()) -> type[Record]:
    """Makes a dataclass a pytree; the fields named in `static`, or with metadata {"static": True}, are part of its structure.

    In place of `jax.tree_util.register_dataclass`, whose structures (jaxlib 0.10.2) are equal for all classes with as many fields and equal
    static ones: now and then, as hashes fall, `jax.jit` then answers for one record with the program of another.
    """
    fields = dataclasses.fields(record)  # type: ignore[arg-type]
    meta = tuple(field.name for field in fields if field.metadata.get("static", False) or field.name in static)
    data = tuple(field.name for field in fields if field.name not in meta)

    def flatten(one: Record) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(one, name) for name in data), tuple(getattr(one, name) for name in meta)

    def flatten_with_keys(one: Record) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        leaves, rest = flatten(one)
        return tuple((jax.tree_util.GetAttrKey(name), leaf) for name, leaf in zip(data, leaves, strict=True)), rest

    def unflatten(rest: tuple[Any, ...], leaves: Any) -> Record:
        return record(**dict(zip(data, leaves, strict=True)), **dict(zip(meta, rest, strict=True)))

    jax.tree_util.register_pytree_with_keys(record, flatten_with_keys, unflatten, flatten)
    return record
