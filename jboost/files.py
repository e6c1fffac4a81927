"""Model files without pickle.

docs/model-files.md documents the format, and what a reader refuses.

A model file is a zip archive that `numpy.load(path, allow_pickle=False)` reads as well. It holds
one `<field>.npy` for every array of the model (a field of a model inside a model is
`<field>.<field>.npy`, an entry of a list `<field>.<index>.npy`) and `header.json`:

    format           "jboost-model"
    format_version   1; a reader refuses a greater one
    jboost_version   the version that wrote the file
    model            {"type": name, "fields": {field: {"dtype", "shape"} of an array, or a model,
                     list, tuple or dict again}}; a record (a learner, its cost function, a
                     binarizer) is {"type": name, "settings": {field: value}}, a value being any
                     JSON (a list stands for a tuple), a record, or {"dtype", "shape", "host":
                     whether NumPy holds it} of an array. The settings of a learner are null where
                     a file cannot hold them
    metadata         what the writer added, any JSON; the command line keeps the names of the
                     scores and of the labels there
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import io
import json
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost import outputs
from jboost.base import check
from jboost.base.boosting import Ensemble
from jboost.combine.types import LinearVote
from jboost.data.binarization import Binarizer
from jboost.example_weights.types import ExampleWeightModel
from jboost.kernels import CentralHyperplanes, Hyperplanes, RandomStumps
from jboost.learners.columns import Column, Columns
from jboost.learners.monomials import Monomial, Monomials
from jboost.learners.quantised import QuantisedStumps
from jboost.learners.signed import Signs, signs
from jboost.learners.stumps import Stump, Stumps
from jboost.learners.trained import Model
from jboost.learners.trees import ExactTrees, GreedyTrees, Tree
from jboost.monomials import SearchConfig
from jboost.monomials.costs import MDL, Rademacher
from jboost.pair.baselines import DistanceSeparator
from jboost.pair.types import Separator, TradeOff
from jboost.slipper import Rules

FORMAT = "jboost-model"
FORMAT_VERSION = 1
_HEADER = "header.json"
_LEARNER = "learner"  # the only field of an ensemble that is not an array
# The memory that reading a file takes is at most so many times its size, or so many bytes where
# that is more: version 0.1 compressed arrays of zeros, which need 1000 times as much.
_MOST_MEMORY, _LEAST_LIMIT = 100, 1 << 24
# An array is in memory as the bytes of its member, as one of NumPy and as one of JAX.
_COPIES = 3
# The writer compresses nothing further than this, so that its files are read whatever their size.
_MOST_COMPRESSED = 25
# Bytes of memory for each of these in JSON, and for each character: bounds, found by trial on
# CPython 3.11, on an object of one entry, a list, and entries of all kinds.
_JSON_BYTES = {b"{": 320, b"[": 120, b",": 120}
_JSON_BYTES_EACH = 8
_NPY_VERSIONS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# What reading a damaged archive raises in `zipfile`, `zlib`, `json` and NumPy.
_DAMAGED = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RecursionError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
_SHOWN = 200  # characters of a message of another package
_BFLOAT16 = np.dtype(jnp.bfloat16)  # no dtype of NumPy itself: a file holds its bits as uint16
_TYPES: dict[str, Any] = {}
_RECORDS: dict[str, Any] = {}
_CONTAINERS: dict[str, Any] = {kind.__name__: kind for kind in (dict, list, tuple)}


def register(model_type: Any) -> None:
    """Registers a type under its name, so that `save` and `load` accept it.

    Args:
      model_type: a NamedTuple of arrays and registered models, such as a custom hypothesis. Or a
        frozen dataclass whose fields are numbers, strings, arrays, registered dataclasses or tuples
        of these, such as a learner or a cost function.
    """
    (_RECORDS if dataclasses.is_dataclass(model_type) else _TYPES)[model_type.__name__] = model_type


_KNOWN: tuple[Any, ...] = (
    Separator,
    TradeOff,
    DistanceSeparator,
    LinearVote,
    Ensemble,
    Column,
    Monomial,
    Stump,
    Model,
    Tree,
)
_KNOWN_RECORDS: tuple[Any, ...] = (
    Columns,
    Rules,
    Stumps,
    QuantisedStumps,
    ExactTrees,
    GreedyTrees,
    Monomials,
    MDL,
    Rademacher,
    SearchConfig,
    Binarizer,
    ExampleWeightModel,
    Hyperplanes,
    CentralHyperplanes,
    RandomStumps,
)
for _known in (*_KNOWN, *_KNOWN_RECORDS):
    register(_known)


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
    >>> jboost.predict(load(path), [[3.0, 1.0]]).tolist()
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
        _write_member(archive, _HEADER, json.dumps(header, indent=2).encode())
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            _write_member(archive, f"{name}.npy", buffer.getvalue())


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
    with _opened(path) as archive:
        description = _read_header(archive)["model"]
        if learner is not None and not _has_learner(description):
            raise ValueError(f"{path}: a {description['type']} has no learner: leave `learner` out")
        return _rebuild(archive, description, "", learner)


def load_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the metadata that was passed to `save`. Raises the same errors as `load`."""
    with _opened(path) as archive:
        metadata: dict[str, Any] = _read_header(archive)["metadata"]
        return metadata


def package_version(name: str) -> str:
    """Returns the version of an installed package, or "not installed"."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


# --- writing --------------------------------------------------------------------------------------


def _describe(model: Any, prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns the description of a model for the header, and adds its arrays to `arrays`."""
    name = type(model).__name__
    if _RECORDS.get(name) is type(model):
        return {
            "type": name,
            "settings": {
                field: _describe_setting(value, f"{prefix}{field}", arrays)
                for field, value in _parts(model).items()
            },
        }
    if _TYPES.get(name, _CONTAINERS.get(name)) is not type(model):
        place, known = f"model.{prefix}".rstrip("."), ", ".join(sorted({**_TYPES, **_RECORDS}))
        raise ValueError(
            f"{place} is a {name}: the types that can be saved are {known}; jboost.files.register"
            " adds another"
        )
    fields: dict[str, Any] = {}
    for field, value in _parts(model).items():
        if isinstance(model, Ensemble) and field == _LEARNER:
            fields[field] = _describe_learner(value, f"{prefix}{field}.", arrays)
        elif isinstance(value, tuple | list | dict) or type(value).__name__ in _RECORDS:
            fields[field] = _describe(value, f"{prefix}{field}.", arrays)
        else:
            fields[field] = _describe_array(value, f"{prefix}{field}", arrays)
    return {"type": name, "fields": fields}


def _describe_array(value: Any, name: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" and array.dtype != _BFLOAT16:
        raise ValueError(
            f"model.{name} is a {type(value).__name__} of dtype {array.dtype}: expected an array of"
            " numbers"
        )
    if name in arrays:
        raise ValueError(
            f"model holds two arrays by the name {name}: change a key of a dict that has a dot"
            " in it"
        )
    arrays[name] = array.view(np.uint16) if array.dtype == _BFLOAT16 else array
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
                _LEARNER: _describe_learner(learner.learner, f"{prefix}{_LEARNER}.", arrays)
            },
        }
    held: dict[str, np.ndarray] = {}
    try:
        description = (
            _describe(learner, prefix, held)
            if _RECORDS.get(name) is type(learner)
            else {"type": name, "settings": None}
        )
    except ValueError:  # a field is a function, or a record that is not registered
        return {"type": name, "settings": None}
    arrays |= held
    return description


def _write_member(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name)  # has a fixed date, so that equal models give equal files
    is_small = len(zlib.compress(data)) * _MOST_COMPRESSED < len(data)
    info.compress_type = zipfile.ZIP_STORED if is_small else zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


# --- reading --------------------------------------------------------------------------------------


class _File(io.BufferedReader):
    """A file of which a read takes no more memory than the file has bytes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(io.FileIO(path))
        self.size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self.size if size is None or size < 0 else min(size, self.size))


class _Archive:
    """The members of a model file, whose reading takes a bounded amount of memory."""

    def __init__(self, file: _File, path: str | os.PathLike[str]) -> None:
        self.zip, self.path = zipfile.ZipFile(file), path
        self.left = max(_LEAST_LIMIT, _MOST_MEMORY * file.size)

    def take(self, memory: int) -> None:
        """Counts memory that is used from now on. Raises ValueError where it is too much."""
        if memory > self.left:
            raise ValueError(
                f"it takes {memory} bytes of memory, and a file may take {_MOST_MEMORY} times its"
                " size: if you trust it, pack it anew without compression"
            )
        self.left -= memory

    def read(self, name: str) -> bytes:
        """The bytes of a member; one of `_DAMAGED` if it is missing, damaged or too large."""
        info = self.zip.getinfo(name)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"it is compressed by method {info.compress_type}: expected 0 or 8")
        self.take(_COPIES * info.file_size)
        with self.zip.open(info) as member:
            # `read()` would unpack all that is there, whatever the directory says
            return member.read(info.file_size)


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[_Archive]:
    if not os.path.exists(path):
        raise ValueError(f"{path}: there is no such model file")
    if not os.path.isfile(path):
        raise ValueError(f"{path}: is no regular file: expected a model file of jboost")
    with contextlib.ExitStack() as stack:
        try:
            archive = _Archive(stack.enter_context(_File(path)), path)
        except _DAMAGED as error:
            raise ValueError(
                f"{path}: not a model file of jboost, or damaged ({_brief(error)})"
            ) from None
        yield archive


def _brief(error: BaseException) -> str:
    """The message of an error in one line, not too long."""
    return " ".join(str(error).split())[:_SHOWN] or type(error).__name__


def _read_header(archive: _Archive) -> dict[str, Any]:
    path = archive.path
    try:
        header = _parse_header(archive)
    except KeyError:
        raise ValueError(f"{path}: not a model file of jboost (it has no header)") from None
    except _DAMAGED as error:
        raise ValueError(
            f"{path}: the header of the model file is damaged ({_brief(error)})"
        ) from None
    if header["format_version"] > FORMAT_VERSION:
        raise ValueError(
            f"{path}: the model file has format {header['format_version']}, written by jboost"
            f" {str(header.get('jboost_version'))[:_SHOWN]}; this jboost reads up to format"
            f" {FORMAT_VERSION}: install a newer jboost"
        )
    return header


def _parse_header(archive: _Archive) -> dict[str, Any]:
    """The header; KeyError if the archive has none, another of `_DAMAGED` if it is malformed."""
    data = archive.read(_HEADER)
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
            raise ValueError(f"the {name[:_SHOWN]} has both fields and settings")
        _check_record(description)
        return
    if not isinstance(description.get("fields"), dict):
        raise ValueError(f"it does not say what the fields of the {name[:_SHOWN]} are")
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
        raise ValueError(f"it does not say what {name[:_SHOWN]} is")


def _check_record(description: Mapping[str, Any]) -> None:
    name, settings = description["type"], description["settings"]
    if not (settings is None or isinstance(settings, dict)):
        raise ValueError(f"it does not say what the settings of the {name[:_SHOWN]} are")
    if name == Signs.__name__:
        learner = (settings or {}).get(_LEARNER)
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


def _has_learner(description: Mapping[str, Any]) -> bool:
    """Whether a model has a learner, or contains a model that has one."""
    fields = description.get("fields", {})
    return _LEARNER in fields or any(_has_learner(part) for part in fields.values())


def _rebuild(
    archive: _Archive,
    description: Mapping[str, Any],
    prefix: str,
    learner: Any,
) -> Any:
    name, path = description["type"], archive.path
    if "settings" in description:
        return _rebuild_record(archive, description, prefix)
    if name not in _TYPES and name not in _CONTAINERS:
        raise ValueError(
            f"{path}: the file holds a {name[:_SHOWN]}, which this jboost does not know; it knows"
            f" {', '.join(sorted(_TYPES))}"
        )
    fields = {}
    for field, part in description["fields"].items():
        if name == Ensemble.__name__ and field == _LEARNER and "settings" in part:
            fields[field] = _rebuild_learner(archive, part, f"{prefix}{field}.", learner)
        elif "type" in part:
            fields[field] = _rebuild(archive, part, f"{prefix}{field}.", learner)
        else:
            fields[field] = _read_array(archive, f"{prefix}{field}", part)
    if name in _CONTAINERS:
        return fields if name == "dict" else _CONTAINERS[name](fields.values())
    for field, value in fields.items():
        declared = getattr(_TYPES[name].__annotations__.get(field), "__forward_arg__", "")
        if declared == "Array" and not isinstance(value, jax.Array | np.ndarray):
            raise ValueError(
                f"{path}: the model file is damaged ({field} of the {name} is no array)"
            )
    try:
        return _TYPES[name](**fields)
    except TypeError as error:
        raise ValueError(
            f"{path}: the fields of the {name} in the file do not fit this jboost ({error})"
        ) from None


def _rebuild_record(
    archive: _Archive,
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
        return _RECORDS[name](**values)
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{path}: the {name[:_SHOWN]} in the file does not fit this jboost: install a newer one"
        ) from None


def _rebuild_learner(
    archive: _Archive,
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
        held = _rebuild_learner(archive, settings[_LEARNER], f"{prefix}{_LEARNER}.", inner)
        try:
            return signs(held)
        except ValueError as error:
            raise ValueError(f"{path}: the model file is damaged ({_brief(error)})") from None
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


def _read_array(archive: _Archive, name: str, wanted: Mapping[str, Any]) -> jax.Array | np.ndarray:
    path = archive.path
    try:
        array = _parse_npy(archive.read(f"{name}.npy"))
    except _DAMAGED as error:
        raise ValueError(
            f"{path}: the array {name[:_SHOWN]} of the model file is missing or damaged"
            f" ({_brief(error)})"
        ) from None
    if wanted["dtype"] == _BFLOAT16.name and array.dtype == np.uint16:
        array = array.view(_BFLOAT16)
    if str(array.dtype) != wanted["dtype"] or list(array.shape) != wanted["shape"]:
        raise ValueError(
            f"{path}: the array {name[:_SHOWN]} is {array.dtype}{list(array.shape)}, the header"
            f" says {wanted['dtype'][:_SHOWN]}{wanted['shape']}"[: 4 * _SHOWN]
        )
    if wanted.get("host"):
        return array
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise ValueError(
            f"{path}: the model holds {array.dtype} arrays: enable 64-bit types first"
            " (jax.config.update('jax_enable_x64', True))"
        )
    return jnp.asarray(array)


def _parse_npy(data: bytes) -> np.ndarray:
    """The array of a .npy file; one of `_DAMAGED` unless it has exactly the numbers of its shape.

    `np.lib.format.read_array` makes room for any shape before it reads.
    """
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in _NPY_VERSIONS:
        raise ValueError(f"version {version} of the format .npy: expected 1.0 or 2.0")
    shape, is_fortran, dtype = _NPY_VERSIONS[version](stream)
    if dtype.kind not in "biuf" or dtype.subdtype is not None:
        raise ValueError(f"dtype {dtype}: expected numbers")
    expected, found = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if expected != found:
        raise ValueError(f"{found} bytes of numbers: expected {expected}")
    flat = np.frombuffer(data, dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if is_fortran else "C").copy()
