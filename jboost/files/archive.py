"""The zip archive of a model file: members are read in a bounded amount of memory."""

from __future__ import annotations

import contextlib
import io
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator

import numpy as np

# The memory that reading a file takes is at most so many times its size, or so many bytes where
# that is more: version 0.1 compressed arrays of zeros, which need 1000 times as much.
_MOST_MEMORY, _LEAST_LIMIT = 100, 1 << 24
# An array is in memory as the bytes of its member, as one of NumPy and as one of JAX.
_COPIES = 3
# The writer compresses nothing further than this, so that its files are read whatever their size.
_MOST_COMPRESSED = 25
_NPY_VERSIONS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# What reading a damaged archive raises in `zipfile`, `zlib`, `json` and NumPy.
DAMAGED = (
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
SHOWN = 200  # characters of a message of another package


class _File(io.BufferedReader):
    """A file of which a read takes no more memory than the file has bytes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(io.FileIO(path))
        self.size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self.size if size is None or size < 0 else min(size, self.size))


class Archive:
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
        """The bytes of a member; one of `DAMAGED` if it is missing, damaged or too large."""
        info = self.zip.getinfo(name)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"it is compressed by method {info.compress_type}: expected 0 or 8")
        self.take(_COPIES * info.file_size)
        with self.zip.open(info) as member:
            # `read()` would unpack all that is there, whatever the directory says
            return member.read(info.file_size)


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Archive]:
    """Opens a model file. Raises ValueError if it is missing or no archive."""
    if not os.path.exists(path):
        raise ValueError(f"{path}: there is no such model file")
    if not os.path.isfile(path):
        raise ValueError(f"{path}: is no regular file: expected a model file of jboost")
    with contextlib.ExitStack() as stack:
        try:
            archive = Archive(stack.enter_context(_File(path)), path)
        except DAMAGED as error:
            raise ValueError(
                f"{path}: not a model file of jboost, or damaged ({brief(error)})"
            ) from None
        yield archive


def brief(error: BaseException) -> str:
    """The message of an error in one line, not too long."""
    return " ".join(str(error).split())[:SHOWN] or type(error).__name__


def write_member(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Adds a member that can be read within the limit on memory."""
    info = zipfile.ZipInfo(name)  # has a fixed date, so that equal models give equal files
    is_small = len(zlib.compress(data)) * _MOST_COMPRESSED < len(data)
    info.compress_type = zipfile.ZIP_STORED if is_small else zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def parse_npy(data: bytes) -> np.ndarray:
    """The array of a .npy file; one of `DAMAGED` unless it has exactly the numbers of its shape.

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
