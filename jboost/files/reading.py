"""Reads models from files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base.boosting import Ensemble
from jboost.files import registry
from jboost.files.archive import DAMAGED, SHOWN, Archive, brief, opened, parse_npy
from jboost.files.header import BFLOAT16, LEARNER, has_learner, read_header
from jboost.learners.signed import Signs, signs


def load(path: str | os.PathLike[str], *, learner: Any = None) -> Any:
    """Reads a model from a file that `save` wrote. The arrays are equal bit for bit.

    Args:
      path: the path of the file.
      learner: the learner that the ensemble was fitted with. It is required if the learner holds
        functions, which a file cannot store (`jboost.learners.trained`, or a custom learner). Pass
        None otherwise.

    Returns:
      The model, with JAX arrays. A field of a dataclass that was a NumPy array is one again.

    Raises:
      ValueError: if the file is missing, is damaged, is not a model file, has a newer format or
        holds an unknown type; if it holds 64-bit arrays and 64-bit types are not enabled; if
        `learner` is given for a model without a learner, is missing where it is required, or
        differs from the learner in the file.
    """
    with opened(path) as archive:
        description = read_header(archive)["model"]
        if learner is not None and not has_learner(description):
            raise ValueError(f"{path}: a {description['type']} has no learner: leave `learner` out")
        return _rebuild(archive, description, "", learner)


def load_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the metadata that was passed to `save`. Raises the same errors as `load`."""
    with opened(path) as archive:
        metadata: dict[str, Any] = read_header(archive)["metadata"]
        return metadata


def _rebuild(
    archive: Archive,
    description: Mapping[str, Any],
    prefix: str,
    learner: Any,
) -> Any:
    name, path = description["type"], archive.path
    if "settings" in description:
        return _rebuild_record(archive, description, prefix)
    if name not in registry.TYPES and name not in registry.CONTAINERS:
        raise ValueError(
            f"{path}: the file holds a {name[:SHOWN]}, which this jboost does not know; it knows"
            f" {', '.join(sorted(registry.TYPES))}"
        )
    fields = {}
    for field, part in description["fields"].items():
        if name == Ensemble.__name__ and field == LEARNER and "settings" in part:
            fields[field] = _rebuild_learner(archive, part, f"{prefix}{field}.", learner)
        elif "type" in part:
            fields[field] = _rebuild(archive, part, f"{prefix}{field}.", learner)
        else:
            fields[field] = _read_array(archive, f"{prefix}{field}", part)
    if name in registry.CONTAINERS:
        return fields if name == "dict" else registry.CONTAINERS[name](fields.values())
    for field, value in fields.items():
        declared = getattr(registry.TYPES[name].__annotations__.get(field), "__forward_arg__", "")
        if declared == "Array" and not isinstance(value, jax.Array | np.ndarray):
            raise ValueError(
                f"{path}: the model file is damaged ({field} of the {name} is no array)"
            )
    try:
        return registry.TYPES[name](**fields)
    except TypeError as error:
        raise ValueError(
            f"{path}: the fields of the {name} in the file do not fit this jboost ({error})"
        ) from None


def _rebuild_record(
    archive: Archive,
    description: Mapping[str, Any],
    prefix: str,
) -> Any:
    """Returns the record. Raises ValueError if its type is not registered or its fields differ."""
    name, path, settings = description["type"], archive.path, description["settings"] or {}

    def rebuild(value: Any, place: str) -> Any:
        if isinstance(value, list):
            return tuple(rebuild(part, f"{place}.{index}") for index, part in enumerate(value))
        if not isinstance(value, dict):
            return value
        return (
            _rebuild(archive, value, f"{place}.", None)
            if "type" in value
            else _read_array(archive, place, value)
        )

    values = {field: rebuild(value, f"{prefix}{field}") for field, value in settings.items()}
    try:
        return registry.RECORDS[name](**values)
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{path}: the {name[:SHOWN]} in the file does not fit this jboost: install a newer one"
        ) from None


def _rebuild_learner(
    archive: Archive,
    description: Mapping[str, Any],
    prefix: str,
    given: Any,
) -> Any:
    """Returns the learner of an ensemble.

    It is read from the file if the file holds its settings, and is `given` otherwise.
    """
    name, path, settings = description["type"], archive.path, description["settings"]
    if name == Signs.__name__:
        inner = given.learner if isinstance(given, Signs) else given
        held = _rebuild_learner(archive, settings[LEARNER], f"{prefix}{LEARNER}.", inner)
        try:
            return signs(held)
        except ValueError as error:
            raise ValueError(f"{path}: the model file is damaged ({brief(error)})") from None
    if settings is None:
        if given is None:
            raise ValueError(
                f"{path}: the learner, a {name}, holds what a file cannot: pass the one of the fit,"
                " load(path, learner=...)"
            )
        if type(given).__name__ != name:
            raise ValueError(
                f"{path}: learner is a {type(given).__name__}, but the model was fitted with a"
                f" {name}: pass that one"
            )
        return given
    known = _rebuild_record(archive, description, prefix)
    if given is not None and given != known:
        raise ValueError(
            f"{path}: learner is {given!r}, but the model was fitted with {known!r}: leave"
            " `learner` out"
        )
    return known


def _read_array(archive: Archive, name: str, wanted: Mapping[str, Any]) -> jax.Array | np.ndarray:
    path = archive.path
    try:
        array = parse_npy(archive.read(f"{name}.npy"))
    except DAMAGED as error:
        raise ValueError(
            f"{path}: the array {name[:SHOWN]} of the model file is missing or damaged"
            f" ({brief(error)})"
        ) from None
    if wanted["dtype"] == BFLOAT16.name and array.dtype == np.uint16:
        array = array.view(BFLOAT16)
    if str(array.dtype) != wanted["dtype"] or list(array.shape) != wanted["shape"]:
        raise ValueError(
            f"{path}: the array {name[:SHOWN]} is {array.dtype}{list(array.shape)}, the header"
            f" says {wanted['dtype'][:SHOWN]}{wanted['shape']}"[: 4 * SHOWN]
        )
    if wanted.get("host"):
        return array
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise ValueError(
            f"{path}: the model holds {array.dtype} arrays: enable 64-bit types first"
            " (jax.config.update('jax_enable_x64', True))"
        )
    return jnp.asarray(array)
