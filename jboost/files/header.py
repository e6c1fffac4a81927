"""The header of a model file: what it holds, and the checks of what is read."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from jboost.files.archive import DAMAGED, SHOWN, Archive, brief
from jboost.learners.signed import Signs

FORMAT = "jboost-model"
FORMAT_VERSION = 1
HEADER = "header.json"
LEARNER = "learner"  # the only field of an ensemble that is not an array
BFLOAT16 = np.dtype(jnp.bfloat16)  # no dtype of NumPy itself: a file holds its bits as uint16
# Bytes of memory for each of these in JSON, and for each character: bounds, found by trial on
# CPython 3.11, on an object of one entry, a list, and entries of all kinds.
_JSON_BYTES = {b"{": 320, b"[": 120, b",": 120}
_JSON_BYTES_EACH = 8


def read_header(archive: Archive) -> dict[str, Any]:
    """The checked header. Raises ValueError if it is missing, damaged or of a newer format."""
    path = archive.path
    try:
        header = _parse_header(archive)
    except KeyError:
        raise ValueError(f"{path}: not a model file of jboost (it has no header)") from None
    except DAMAGED as error:
        raise ValueError(
            f"{path}: the header of the model file is damaged ({brief(error)})"
        ) from None
    if header["format_version"] > FORMAT_VERSION:
        raise ValueError(
            f"{path}: the model file has format {header['format_version']}, written by jboost"
            f" {str(header.get('jboost_version'))[:SHOWN]}; this jboost reads up to format"
            f" {FORMAT_VERSION}: install a newer jboost"
        )
    return header


def _parse_header(archive: Archive) -> dict[str, Any]:
    """The header; KeyError if the archive has none, another of `DAMAGED` if it is malformed."""
    data = archive.read(HEADER)
    counted = sum(size * data.count(letter) for letter, size in _JSON_BYTES.items())
    archive.take(counted + _JSON_BYTES_EACH * len(data))
    header: dict[str, Any] = json.loads(data)
    if header["format"] != FORMAT:
        raise KeyError("format")
    version = header["format_version"]
    if type(version) is not int or version < 1:
        raise ValueError("format_version is no number from 1 up")
    if version <= FORMAT_VERSION:
        if not isinstance(header.get("model"), dict):
            raise ValueError("it describes no model")
        _check_description(header["model"])
        if not isinstance(header.get("metadata"), dict):
            raise ValueError("it has no metadata")
    return header


def _check_description(description: Mapping[str, Any]) -> None:
    """Raises ValueError if `description` is malformed."""
    name = description.get("type")
    if not isinstance(name, str):
        raise ValueError("it names no type of model")
    if "settings" in description:
        if "fields" in description:
            raise ValueError(f"the {name[:SHOWN]} has both fields and settings")
        _check_record(description)
        return
    if not isinstance(description.get("fields"), dict):
        raise ValueError(f"it does not say what the fields of the {name[:SHOWN]} are")
    for field, part in description["fields"].items():
        _check_part(field, part)


def _check_part(name: str, part: Any) -> None:
    """Raises ValueError unless `part` describes a model or an array."""
    if isinstance(part, dict) and "type" in part:
        _check_description(part)
        return
    is_array = isinstance(part, dict) and isinstance(part.get("dtype"), str)
    shape = part.get("shape") if is_array else None
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"it does not say what {name[:SHOWN]} is")


def _check_record(description: Mapping[str, Any]) -> None:
    name, settings = description["type"], description["settings"]
    if not (settings is None or isinstance(settings, dict)):
        raise ValueError(f"it does not say what the settings of the {name[:SHOWN]} are")
    if name == Signs.__name__:
        learner = (settings or {}).get(LEARNER)
        if not isinstance(learner, dict) or "settings" not in learner:
            raise ValueError("it does not say whose signs the learner takes")
    for field, part in (settings or {}).items():
        _check_setting(field, part)


def _check_setting(name: str, part: Any) -> None:
    """Raises ValueError for a malformed model or array in a setting."""
    if isinstance(part, dict):
        _check_part(name, part)
    if isinstance(part, list):
        for each in part:
            _check_setting(name, each)


def has_learner(description: Mapping[str, Any]) -> bool:
    """Whether a model has a learner, or contains a model that has one."""
    fields = description.get("fields", {})
    return LEARNER in fields or any(has_learner(part) for part in fields.values())


def package_version(name: str) -> str:
    """Returns the version of an installed package, or "not installed"."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
