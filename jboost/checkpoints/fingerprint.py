"""Fingerprints, which identify a run: the version, the algorithm, the options, digests of the data,
and the structure of the state.

A fingerprint is JSON. It is stored with the arrays, and two fingerprints are compared entry by
entry.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from jboost import files

FORMAT = "jboost-checkpoint"
FORMAT_VERSION = 1
_SHOWN = 12  # the number of digits of a digest in a message
_REMEDY = "pass the data and the options of the run that wrote it, or name another folder"


def make(
    algorithm: str, options: Mapping[str, Any], data: Any, structure: Mapping[str, Any]
) -> dict[str, Any]:
    """The fingerprint of a state.

    Args:
      algorithm: the name of the booster, or of the type of the state.
      options: by name; numbers, arrays, records, functions, and containers of these.
      data: a digest of each array, the result of `digest`.
      structure: of the state, the `structure` of `jboost.checkpoints.states.Described`.
    """
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "jboost_version": files.package_version("jboost"),
        "jax_version": jax.__version__,
        "algorithm": algorithm,
        "options": {
            name: text
            for key, value in options.items()
            for name, text in _describe(key, value, frozenset())
        },
        "data": data,
        "structure": structure,
    }


def check_version(found: Mapping[str, Any], folder: Any) -> None:
    """Raises ValueError for a fingerprint of another format or of another minor version of
    jboost.
    """
    if found.get("format") != FORMAT or found.get("format_version") != FORMAT_VERSION:
        raise ValueError(
            f"{folder}: the checkpoint has format {found.get('format')}"
            f" {found.get('format_version')}, expected {FORMAT} {FORMAT_VERSION}: take the jboost"
            f" that wrote it ({found.get('jboost_version')}), or name another folder"
        )
    here, there = files.package_version("jboost"), str(found.get("jboost_version"))
    if here.split(".")[:2] != there.split(".")[:2]:
        raise ValueError(
            f"{folder}: the checkpoint was written by jboost {there}, and this is jboost {here},"
            f" whose results may differ: install jboost {there}, or name another folder"
        )


def check_run(found: Mapping[str, Any], wanted: Mapping[str, Any], folder: Any) -> None:
    """Raises ValueError, naming all differences, for a checkpoint of another algorithm, other data
    or other options.
    """
    if found["algorithm"] != wanted["algorithm"]:
        raise ValueError(
            f"{folder}: the checkpoint is of {found['algorithm']}, and this run is of"
            f" {wanted['algorithm']}: {_REMEDY}"
        )
    differing = [
        *_differences("data", found["data"], wanted["data"]),
        *_differences("", found["options"], wanted["options"]),
    ]
    if differing:
        raise ValueError(
            f"{folder}: the checkpoint is of another run: {'; '.join(differing)}: {_REMEDY}"
        )


def _differences(kind: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    names = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    prefix = f"{kind}." if kind else ""
    pairs = [(found.get(name, "not there"), wanted.get(name, "not there")) for name in names]
    return [
        f"{prefix}{name} was {old} and is {new}".rstrip(".")
        for name, (old, new) in zip(names, pairs, strict=True)
    ]


def digest(data: Any) -> dict[str, str]:
    """The dtype, the shape and the first digits of SHA-256 of every array of a pytree, by name.

    The digest of an array that is spread over several processes depends on its sharding: it differs
    on another mesh.
    """
    leaves = jax.tree_util.tree_leaves_with_path(data)
    return {name_of(path): _describe_array(leaf) for path, leaf in leaves}


def name_of(path: tuple[Any, ...]) -> str:
    """The name of a leaf, as "ensemble.votes"."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _describe_array(leaf: Any) -> str:
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return f"{leaf.dtype}{list(leaf.shape)} {_digest_of_shards(leaf)}"
    host = on_host(leaf)
    if host.size == 1 and host.dtype.kind in "biuf":
        return f"{host.dtype}{list(host.shape)} {host.item()!r}"
    return f"{host.dtype}{list(host.shape)} {hashlib.sha256(_bytes_of(host)).hexdigest()[:_SHOWN]}"


def _bytes_of(host: Any) -> Any:
    """The bytes of an array, also for dtypes that NumPy lacks, such as bfloat16."""
    return np.ascontiguousarray(host).reshape(-1).view(np.uint8).data


def _digest_of_shards(array: jax.Array) -> str:
    from jax.experimental import multihost_utils

    own = hashlib.sha256()
    for shard in sorted(array.addressable_shards, key=lambda shard: str(shard.index)):
        own.update(str(shard.index).encode())
        own.update(_bytes_of(shard.data))
    every = multihost_utils.process_allgather(np.frombuffer(own.digest(), np.uint8))
    return hashlib.sha256(np.ascontiguousarray(every).data).hexdigest()[:_SHOWN]


def on_host(leaf: Any) -> np.ndarray:
    """A leaf as a NumPy array; for a random key, its data."""
    is_key = isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def _describe(name: str, value: Any, above: frozenset[int]) -> Iterator[tuple[str, str]]:
    """The parts of an option by name: the fields of a record, and what a function holds."""
    if id(value) in above:
        return
    inside = above | {id(value)}
    if value is None or isinstance(value, bool | int | float | str):
        yield name, repr(value)
    elif isinstance(value, jax.Array | np.ndarray | np.generic):
        yield name, _describe_array(value)
    elif isinstance(value, functools.partial):
        yield from _describe_parts(
            name, "partial", {"func": value.func, "args": value.args, **value.keywords}, inside
        )
    elif callable(value) and not dataclasses.is_dataclass(value) and hasattr(value, "__qualname__"):
        yield from _describe_parts(name, _name_of_function(value), _held_by(value), inside)
    elif dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        yield from _describe_parts(name, type(value).__qualname__, fields, inside)
    elif hasattr(value, "_asdict"):
        yield from _describe_parts(name, type(value).__qualname__, value._asdict(), inside)
    elif isinstance(value, tuple | list):
        yield from _describe_parts(
            name, f"{type(value).__name__} of {len(value)}", dict(enumerate(value)), inside
        )
    elif isinstance(value, Mapping):
        yield from _describe_parts(name, "mapping", value, inside)
    else:
        leaves = jax.tree_util.tree_leaves_with_path(value)
        is_tree = not (len(leaves) == 1 and leaves[0][1] is value)
        yield from _describe_parts(
            name,
            type(value).__qualname__,
            {name_of(path): leaf for path, leaf in leaves} if is_tree else {},
            inside,
        )


def _name_of_function(function: Any) -> str:
    """The module and the name of a function, and a digest of its code.

    Of functions of jboost that have a name of their own the version of jboost is enough: a bug fix
    there does not make it another option. Code that other functions call is not part of the digest.
    """
    module = getattr(function, "__module__", None)
    named = f"{module}.{function.__qualname__}"
    is_ours = str(module).partition(".")[0] == "jboost"
    if not hasattr(function, "__code__") or (is_ours and "<lambda>" not in named):
        return named
    documentation = getattr(function, "__doc__", None)
    described = repr(_describe_code(function.__code__, documentation))
    return f"{named} {hashlib.sha256(described.encode()).hexdigest()[:_SHOWN]}"


def _describe_code(code: types.CodeType, documentation: str | None = None) -> Any:
    """The code, the names and the constants, without file names, line numbers and addresses."""
    constants = list(code.co_consts)
    if documentation is not None and constants[:1] == [documentation]:
        constants[0] = None
    return code.co_code, code.co_names, [_describe_constant(each) for each in constants]


def _describe_constant(constant: Any) -> Any:
    if isinstance(constant, types.CodeType):
        return _describe_code(constant)
    if isinstance(constant, tuple):
        return tuple(_describe_constant(each) for each in constant)
    if isinstance(constant, frozenset):  # its order differs between processes
        return "frozenset", sorted(repr(_describe_constant(each)) for each in constant)
    return constant


def _held_by(function: Any) -> dict[str, Any]:
    """By name: the values that a function closes over, its defaults, the object of a method, and
    the function that `jax.jit` wraps.
    """
    held: dict[str, Any] = {}
    if hasattr(function, "__code__"):
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        held = {cell: its.cell_contents for cell, its in cells if _is_filled(its)}
    elif hasattr(function, "__wrapped__"):
        held["wrapped"] = function.__wrapped__
    for kind in ("defaults", "kwdefaults"):
        value = getattr(function, f"__{kind}__", None)
        if value:
            held[kind] = value
    owner = getattr(function, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        held["self"] = owner
    return held


def _describe_parts(
    name: str, kind: str, parts: Mapping[Any, Any], above: frozenset[int]
) -> Iterator[tuple[str, str]]:
    yield name, kind
    for part, value in parts.items():
        yield from _describe(f"{name}.{part}", value, above)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
