"""Writes models to files."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jboost import outputs
from jboost.base import check
from jboost.base.boosting import Ensemble
from jboost.files import registry
from jboost.files.archive import write_member
from jboost.files.header import BFLOAT16, FORMAT, FORMAT_VERSION, HEADER, LEARNER, package_version
from jboost.learners.signed import Signs


def save(
    model: Any, path: str | os.PathLike[str], *, metadata: Mapping[str, Any] | None = None
) -> None:
    """Writes a model to a file atomically: if the write fails, the old file is unchanged.

    Args:
      model: a fitted model of a registered type, such as `jboost.pair.Separator` or the ensemble of
        a booster, of concrete arrays.
      path: the path of the file, usually ending in `.npz`. Its folder must exist.
      metadata: additional data to store, which must be serializable as JSON.

    Raises:
      ValueError: if the type of the model is not registered, or if a field has a type that a file
        cannot hold (see `register`).

    >>> import jboost, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> save(jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1]), path)
    >>> jboost.predict(jboost.files.load(path), [[3.0, 1.0]]).tolist()
    [1]
    """
    check.on_host(
        "jboost.files.save", instead="return the model, and save it afterwards", model=model
    )
    arrays: dict[str, np.ndarray] = {}
    description = _describe(model, "", arrays)
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "jboost_version": package_version("jboost"),
        "model": description,
        "metadata": dict(metadata or {}),
    }
    with (
        outputs.file(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        write_member(archive, HEADER, json.dumps(header, indent=2).encode())
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            write_member(archive, f"{name}.npy", buffer.getvalue())


def _describe(model: Any, prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns the description of a model for the header, and adds its arrays to `arrays`."""
    name = type(model).__name__
    if registry.RECORDS.get(name) is type(model):
        return {
            "type": name,
            "settings": {
                field: _describe_setting(value, f"{prefix}{field}", arrays)
                for field, value in _parts(model).items()
            },
        }
    if registry.TYPES.get(name, registry.CONTAINERS.get(name)) is not type(model):
        place = f"model.{prefix}".rstrip(".")
        known = ", ".join(sorted({**registry.TYPES, **registry.RECORDS}))
        hint = "save its field `ensemble`; " if hasattr(model, "ensemble") else ""
        raise ValueError(
            f"{place} is a {name}: {hint}the types that can be saved are {known};"
            " jboost.files.register adds another"
        )
    fields: dict[str, Any] = {}
    for field, value in _parts(model).items():
        if isinstance(model, Ensemble) and field == LEARNER:
            fields[field] = _describe_learner(value, f"{prefix}{field}.", arrays)
        elif isinstance(value, tuple | list | dict) or type(value).__name__ in registry.RECORDS:
            fields[field] = _describe(value, f"{prefix}{field}.", arrays)
        else:
            fields[field] = _describe_array(value, f"{prefix}{field}", arrays)
            if type(model) is dict and _is_wide(value):
                fields[field]["host"] = True
    return {"type": name, "fields": fields}


def _is_wide(value: Any) -> bool:
    """Whether a value is an array of NumPy that JAX may hold with 64-bit types enabled only."""
    return isinstance(value, np.ndarray) and value.dtype.itemsize == 8


def _describe_array(value: Any, name: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" and array.dtype != BFLOAT16:
        raise ValueError(
            f"model.{name} is a {type(value).__name__} of dtype {array.dtype}: expected an array of"
            " numbers"
        )
    if name in arrays:
        raise ValueError(
            f"model holds two arrays by the name {name}: change a key of a dict that has a dot"
            " in it"
        )
    arrays[name] = array.view(np.uint16) if array.dtype == BFLOAT16 else array
    return {"dtype": str(array.dtype), "shape": list(array.shape)}


def _describe_setting(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Returns the JSON for a field of a record.

    JSON scalars are unchanged, tuples become lists, and arrays and records become descriptions.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value) is tuple:
        return [
            _describe_setting(part, f"{name}.{index}", arrays) for index, part in enumerate(value)
        ]
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return {**_describe_array(value, name, arrays), "host": not isinstance(value, jax.Array)}
    return _describe(value, f"{name}.", arrays)


def _parts(model: Any) -> dict[str, Any]:
    """Returns a dict of the fields of a NamedTuple or record, or of the entries of a container."""
    if dataclasses.is_dataclass(model):
        return {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    if isinstance(model, dict):
        for key in model:
            if not isinstance(key, str) or "/" in key:
                raise ValueError(
                    f"model holds a dict with the key {key!r}: keys are strings without slashes"
                )
        return model
    return (
        dict(model._asdict())
        if hasattr(model, "_asdict")
        else {str(index): value for index, value in enumerate(model)}
    )


def _describe_learner(learner: Any, prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns the description of a learner. Its settings are None if a file cannot hold them."""
    name = type(learner).__name__
    if isinstance(learner, Signs):
        return {
            "type": name,
            "settings": {
                LEARNER: _describe_learner(learner.learner, f"{prefix}{LEARNER}.", arrays)
            },
        }
    held: dict[str, np.ndarray] = {}
    try:
        description = (
            _describe(learner, prefix, held)
            if registry.RECORDS.get(name) is type(learner)
            else {"type": name, "settings": None}
        )
    except ValueError:  # a field is a function, or a record that is not registered
        return {"type": name, "settings": None}
    arrays |= held
    return description
