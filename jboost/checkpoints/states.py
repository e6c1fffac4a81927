"""Converts a state to named arrays, and back.

The description of a state is JSON. It contains the types of the NamedTuples, so that a state whose
shapes change from step to step can be rebuilt without a similar state. A booster and a learner are
options: they are compared, not stored.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jboost.base.boosting import Ensemble, State
from jboost.checkpoints.fingerprint import name_of, on_host

_KEY, _JAX, _NUMPY, _NUMBER = "key", "jax", "numpy", "number"
_OPTIONS: tuple[tuple[type, str], ...] = ((State, "booster"), (Ensemble, "learner"))

Take = Callable[[str, Mapping[str, Any], Any], Any]


class Described:
    """The parts of a state: its structure, its arrays by name, and the options that it contains."""

    def __init__(self, state: Any) -> None:
        self.arrays: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.structure = self._describe(state, "")
        booster = self.options.get("booster")
        self.algorithm = type(state if booster is None else booster).__name__

    def _describe(self, value: Any, name: str) -> dict[str, Any]:
        if value is None:
            return {"is": "none"}
        if _is_named(value):
            fields = {}
            for field, part in value._asdict().items():
                is_option = any(
                    isinstance(value, owner) and field == its for owner, its in _OPTIONS
                )
                fields[field] = (
                    self._keep_option(field, part)
                    if is_option
                    else self._describe(part, _join(name, field))
                )
            return {"is": "named", "type": type_name(type(value)), "fields": fields}
        if type(value) in (tuple, list):
            parts = [
                self._describe(part, _join(name, str(index))) for index, part in enumerate(value)
            ]
            return {"is": type(value).__name__, "items": parts}
        leaves = jax.tree_util.tree_leaves_with_path(value)
        if len(leaves) == 1 and leaves[0][1] is value:
            return self._describe_leaf(value, name)
        parts = [self._describe_leaf(leaf, _join(name, name_of(path))) for path, leaf in leaves]
        return {"is": "tree", "type": type(value).__name__, "items": parts}

    def _keep_option(self, name: str, value: Any) -> dict[str, Any]:
        self.options[name] = value
        return {"is": "option", "name": name}

    def _describe_leaf(self, leaf: Any, name: str) -> dict[str, Any]:
        described = {"is": "leaf", "name": name, **kind_of(leaf)}
        self.arrays[name] = leaf
        return described


def kind_of(leaf: Any) -> dict[str, Any]:
    """The kind, the dtype and the shape of a leaf."""
    if isinstance(leaf, jax.Array):
        if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return {
                "kind": _KEY,
                "dtype": str(jax.random.key_impl(leaf)),
                "shape": list(leaf.shape),
            }
        return {"kind": _JAX, "dtype": str(leaf.dtype), "shape": list(leaf.shape)}
    host = np.asarray(leaf)
    if host.dtype.kind not in "biuf":
        raise ValueError(f"state holds a {type(leaf).__name__}: expected arrays and numbers")
    kind = _NUMPY if isinstance(leaf, np.ndarray | np.generic) else _NUMBER
    return {"kind": kind, "dtype": str(host.dtype), "shape": list(host.shape)}


def to_store(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays that are written: those that are not empty, on the host. Arrays that are already
    on the host are copied, because the loop may change them.
    """
    stored: dict[str, Any] = {}
    for name, leaf in arrays.items():
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            stored[name] = leaf
        elif np.size(leaf):
            stored[name] = on_host(leaf) if isinstance(leaf, jax.Array) else np.array(leaf)
    return stored


def leaves_of(structure: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The descriptions of all leaves, in order."""
    if structure["is"] == "leaf":
        return [structure]
    fields = structure.get("fields")
    parts = fields.values() if fields is not None else structure.get("items", ())
    return [leaf for part in parts for leaf in leaves_of(part)]


def check_like(structure: Mapping[str, Any], like: Any, folder: Any) -> None:
    """Raises ValueError, naming the part, if a stored state differs from `like` in structure,
    shapes or dtypes.
    """

    def compare(name: str, leaf: Mapping[str, Any], its: Any) -> Any:
        if its is not None:
            found, wanted = (f"{kind['dtype']}{kind['shape']}" for kind in (leaf, kind_of(its)))
            if found != wanted:
                raise ValueError(
                    f"{folder}: the checkpoint is of another run: {name} was {found}, and `like`"
                    f" has {wanted}: pass `like` of the same sizes and precision (as `max_rounds`),"
                    " or name another folder"
                )
        return its

    _rebuild(structure, like, "", compare, folder)


def rebuild(structure: Mapping[str, Any], like: Any, arrays: Mapping[str, Any], folder: Any) -> Any:
    """The state from arrays that were read. Each array gets the sharding of that of `like`."""

    def place(name: str, leaf: Mapping[str, Any], its: Any) -> Any:
        value = (
            arrays[name]
            if name in arrays
            else np.zeros(leaf["shape"], "uint32" if leaf["kind"] == _KEY else leaf["dtype"])
        )
        return _as_kind(value, leaf, its)

    return _rebuild(structure, like, "", place, folder)


def _as_kind(value: Any, leaf: Mapping[str, Any], like: Any) -> Any:
    kind = leaf["kind"] if like is None else kind_of(like)["kind"]
    if kind == _KEY:
        key = jax.random.wrap_key_data(jax.numpy.asarray(value), impl=leaf["dtype"])
        return key if like is None else jax.device_put(key, like.sharding)
    if kind == _JAX:
        if isinstance(value, jax.Array) and not value.is_fully_addressable:
            return value
        # A state of 64 bits can be read even if 64-bit types are disabled. It then stays on the
        # host, because device arrays cannot represent it.
        is_kept = jax.dtypes.canonicalize_dtype(value.dtype) == value.dtype
        return (
            (jax.device_put(value, None if like is None else like.sharding)) if is_kept else value
        )
    if kind == _NUMBER:
        return value.item()
    return value[()] if value.ndim == 0 else value


def _rebuild(structure: Mapping[str, Any], like: Any, name: str, take: Take, folder: Any) -> Any:
    kind = structure["is"]
    if kind == "none":
        return None
    if kind == "option":
        if like is None:
            raise ValueError(
                f"like is a type: the checkpoint in {folder} holds a {structure['name']}, so pass a"
                " state, as `init` makes it"
            )
        return like
    if kind == "leaf":
        return take(name, structure, like)
    if kind == "tree":
        return _rebuild_tree(structure, like, name, take, folder)
    if kind == "named":
        maker = _named(structure["type"], like, name, folder)
        fields = structure["fields"].items()
        return maker(
            **{
                field: _rebuild(part, getattr(like, field, None), _join(name, field), take, folder)
                for field, part in fields
            }
        )
    parts = structure["items"]
    if like is not None and (type(like).__name__ != kind or len(like) != len(parts)):
        raise ValueError(
            f"{folder}: the checkpoint is of another run: {name} was a {kind} of {len(parts)}, and"
            f" `like` has {like!r}"
        )
    made = [
        _rebuild(part, None if like is None else like[i], _join(name, str(i)), take, folder)
        for i, part in enumerate(parts)
    ]
    return tuple(made) if kind == "tuple" else made


def _rebuild_tree(
    structure: Mapping[str, Any], like: Any, name: str, take: Take, folder: Any
) -> Any:
    if like is None:
        raise ValueError(
            f"like is a type: the checkpoint in {folder} holds a {structure['type']} at {name}, so"
            " pass a state"
        )
    leaves = jax.tree.leaves(like)
    if len(leaves) != len(structure["items"]) or type(like).__name__ != structure["type"]:
        raise ValueError(
            f"{folder}: the checkpoint is of another run: {name} was a {structure['type']} of"
            f" {len(structure['items'])} arrays, and `like` has a {type(like).__name__} of"
            f" {len(leaves)}"
        )
    taken = [
        take(part["name"], part, leaf)
        for part, leaf in zip(structure["items"], leaves, strict=True)
    ]
    return jax.tree.unflatten(jax.tree.structure(like), taken)


def _named(stored: str, like: Any, name: str, folder: Any) -> Any:
    """The NamedTuple type of a stored name. Without a similar state, only types of jboost are
    allowed.
    """
    if like is not None:
        if not _is_named(like) or type_name(type(like)) != stored:
            place, here = name or "the state", type(like).__name__
            raise ValueError(
                f"{folder}: the checkpoint is of another run: {place} was a {stored}, and `like`"
                f" has a {here}"
            )
        return type(like)
    module, _, qualname = stored.partition(":")
    if module.partition(".")[0] != "jboost":
        raise ValueError(
            f"like is a type: the checkpoint in {folder} holds a {stored} at {name}, so pass a"
            " state"
        )
    found = getattr(importlib.import_module(module), qualname, None)
    if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
        raise ValueError(
            f"{folder}: the checkpoint holds a {stored}, which this jboost does not know: install"
            " the one that wrote it"
        )
    return found


def _is_named(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def type_name(kind: type) -> str:
    """The stored name of a type: its module and its name."""
    return f"{kind.__module__}:{kind.__qualname__}"


def _join(name: str, part: str) -> str:
    return f"{name}.{part}" if name and part else name or part


def is_type(like: Any) -> bool:
    """Whether `like` is the type of a state, not a state."""
    return isinstance(like, type)
