"""Model files without pickle, and writing that leaves nothing half-written.

A model file is a zip archive that `numpy.load(path, allow_pickle=False)` reads as well. It holds one `<field>.npy` for every array of
the model (a field of a model inside a model is `<field>.<field>.npy`) and `header.json`:

    format           "jboost-model"
    format_version   1; a reader refuses a greater one
    jboost_version   the version that wrote the file
    model            {"type": name, "fields": {field: {"dtype", "shape"} of an array, or a model again}}
    metadata         what the writer added, any JSON; the command line keeps the names of the scores and of the labels there
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.pair.types import Separator

FORMAT = "jboost-model"
FORMAT_VERSION = 1
_HEADER = "header.json"
_TYPES: dict[str, Any] = {}


def register(model_type: Any) -> None:
    """Lets `save` and `load` know a NamedTuple of arrays (and of registered models) by the name of its type."""
    _TYPES[model_type.__name__] = model_type


register(Separator)


def save(model: Any, path: str | os.PathLike[str], *, metadata: Mapping[str, Any] | None = None) -> None:
    """Writes a model to a file, atomically: the file is either the old one or the whole new one.

    Args:
      model: a fitted model of a registered type, such as `jboost.pair.Separator`, of concrete arrays.
      path: of the file, `.npz` by custom; its folder exists.
      metadata: what else the file shall hold, JSON.

    Raises:
      ValueError: if the type of the model is not registered, or a field is no array of numbers.

    >>> import jboost, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> save(jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1]), path)
    >>> jboost.predict(load(path), [[3.0, 1.0]]).tolist()
    [1]
    """
    arrays: dict[str, np.ndarray] = {}
    description = _describe(model, "", arrays)
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "jboost_version": package_version("jboost"),
        "model": description,
        "metadata": dict(metadata or {}),
    }
    with atomic_file(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        _write_member(archive, _HEADER, json.dumps(header, indent=2).encode())
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            _write_member(archive, f"{name}.npy", buffer.getvalue())


def load(path: str | os.PathLike[str], *, learner: Any = None) -> Any:
    """Reads a model back, bit for bit.

    Args:
      path: of a file that `save` wrote.
      learner: for models that hold functions, which a file cannot: the learner they were fitted with. None for all others.

    Returns:
      The model, of JAX arrays.

    Raises:
      ValueError: if the file is missing, damaged, no model file, of a newer format or of an unknown type; if it holds 64-bit arrays and
        64-bit types are not enabled; or if a `learner` is given for a model that has none.
    """
    with _opened(path) as archive:
        description = _read_header(archive, path)["model"]
        if learner is not None:
            raise ValueError(f"{path}: a {description['type']} has no learner: leave `learner` out")
        return _rebuild(archive, path, description, "")


def load_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What `save` was given as metadata; raises what `load` raises."""
    with _opened(path) as archive:
        metadata: dict[str, Any] = _read_header(archive, path)["metadata"]
        return metadata


def package_version(name: str) -> str:
    """The installed version of a package, "not installed" where there is none."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


# --- writing -------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path`, which takes its place at the end and disappears if anything goes wrong.

    >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with atomic_file(path) as temporary:
    ...     _ = temporary.write_text("1 2 3")
    >>> path.read_text(), len(list(path.parent.iterdir()))
    ('1 2 3', 1)
    """
    final = Path(path)
    if not final.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {final.parent}: make it first")
    temporary = final.with_name(f".{final.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside `path`, which takes its place at the end and disappears if anything goes wrong.

    What was at `path` before is gone afterwards; whether it may go is the caller's question.
    """
    final = Path(os.path.abspath(path))
    final.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=".tmp", dir=final.parent))
    new, old = work / "new", work / "old"
    try:
        new.mkdir()
        yield new
        if final.exists():
            os.replace(final, old)
        try:
            os.replace(new, final)
        except BaseException:
            if old.exists():
                os.replace(old, final)
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _describe(model: Any, prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The header's description of a model; its arrays are added to `arrays`."""
    name = type(model).__name__
    if _TYPES.get(name) is not type(model):
        raise ValueError(f"model is a {name}: the types that can be saved are {', '.join(sorted(_TYPES))}")
    fields: dict[str, Any] = {}
    for field, value in model._asdict().items():
        if type(value) in _TYPES.values():
            fields[field] = _describe(value, f"{prefix}{field}.", arrays)
            continue
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"model.{prefix}{field} is a {type(value).__name__} of dtype {array.dtype}: an array of numbers is wanted")
        arrays[f"{prefix}{field}"] = array
        fields[field] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    return {"type": name, "fields": fields}


def _write_member(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name)  # its date is fixed, so that equal models make equal files
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


# --- reading -------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such model file") from None
    except (zipfile.BadZipFile, OSError) as error:
        raise ValueError(f"{path}: not a model file of jboost, or damaged ({error})") from None
    with archive:
        yield archive


def _read_header(archive: zipfile.ZipFile, path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        header: dict[str, Any] = json.loads(archive.read(_HEADER))
        if header["format"] != FORMAT:
            raise KeyError("format")
        version = int(header["format_version"])
        if version <= FORMAT_VERSION:
            _check_description(header["model"])
            dict(header["metadata"])
    except KeyError:
        raise ValueError(f"{path}: not a model file of jboost (it has no header)") from None
    except (ValueError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: the header of the model file is damaged ({error})") from None
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{path}: the model file has format {version}, written by jboost {header.get('jboost_version')}; this jboost reads up to format "
            f"{FORMAT_VERSION}: install a newer jboost"
        )
    return header


def _check_description(description: Mapping[str, Any]) -> None:
    """Raises ValueError, TypeError or AttributeError where a header does not describe a model."""
    if not isinstance(description.get("type"), str):
        raise ValueError("it names no type of model")
    for field, part in description.get("fields", {}).items():
        if "type" in part:
            _check_description(part)
        elif not {"dtype", "shape"} <= set(part):
            raise ValueError(f"it does not say what {field} is")


def _rebuild(archive: zipfile.ZipFile, path: str | os.PathLike[str], description: Mapping[str, Any], prefix: str) -> Any:
    name = description["type"]
    if name not in _TYPES:
        raise ValueError(f"{path}: the file holds a {name}, which this jboost does not know; it knows {', '.join(sorted(_TYPES))}")
    fields = {}
    for field, part in description["fields"].items():
        if "type" in part:
            fields[field] = _rebuild(archive, path, part, f"{prefix}{field}.")
        else:
            fields[field] = _read_array(archive, path, f"{prefix}{field}", part)
    try:
        return _TYPES[name](**fields)
    except TypeError as error:
        raise ValueError(f"{path}: the fields of the {name} in the file do not fit this jboost ({error})") from None


def _read_array(archive: zipfile.ZipFile, path: str | os.PathLike[str], name: str, wanted: Mapping[str, Any]) -> jax.Array:
    try:
        array = np.lib.format.read_array(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
    except (KeyError, ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: the array {name} of the model file is missing or damaged ({error})") from None
    if str(array.dtype) != wanted["dtype"] or list(array.shape) != wanted["shape"]:
        raise ValueError(f"{path}: the array {name} is {array.dtype}{list(array.shape)}, the header says {wanted['dtype']}{wanted['shape']}")
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise ValueError(f"{path}: the model holds {array.dtype} arrays: enable 64-bit types first (jax.config.update('jax_enable_x64', True))")
    return jnp.asarray(array)
