"""Atomic output to files and folders.

A regular file is written under a temporary name and then renamed, so that an error leaves the old
file unchanged. A device, a named pipe or a descriptor such as /dev/stdout is not replaced: the
complete content is written to it as a stream. All files of jboost are written by `file`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

_DESCRIPTOR = re.compile(r"(?:/dev/fd|/proc/self/fd)/([0-9]+)")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}


def check_file(path: str | os.PathLike[str], *, endings: Sequence[str] = ()) -> None:
    """Raises ValueError, with a message of one line, if `file` would not write to `path`.

    Args:
      path: the path of a file, a device or a pipe.
      endings: the allowed endings of the name, such as ".csv". An existing file with another ending
        or with none, such as Makefile, is not replaced. Empty to allow all endings.

    >>> check_file("")
    Traceback (most recent call last):
      ...
    ValueError: the name of the output file is empty: expected a path
    """
    if not os.fspath(path):
        raise ValueError("the name of the output file is empty: expected a path")
    if _descriptor(path) is not None:
        return
    final = _followed(path)
    if not final.parent.is_dir():
        raise ValueError(
            f"{path}: there is no folder"
            f" {final.parent if os.path.islink(path) else Path(path).parent}: make it first"
        )
    if final.is_dir():
        raise ValueError(f"{path}: is a folder: name a file in it")
    if final.is_file():
        if endings and not final.name.lower().endswith(tuple(endings)):
            raise ValueError(
                f"{path}: exists and is no {' or '.join(endings)} file by its name, so it is not"
                f" replaced: choose another name, such as {final.stem}{endings[0]}, or remove it"
                " first"
            )
        return
    mode = final.stat().st_mode if final.exists() else 0
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise ValueError(
            f"{path}: is a {'socket' if stat.S_ISSOCK(mode) else 'block device'}: name a file, a"
            " pipe or a character device"
        )


@contextlib.contextmanager
def file(path: str | os.PathLike[str], *, endings: Sequence[str] = ()) -> Iterator[Path]:
    """Yields a temporary file, and moves its content to `path` at the end of the block.

    If the block raises, nothing is written to `path`.

    Args:
      path: as in `check_file`, which is called first. Links are followed. A file that is replaced
        keeps its permissions.
      endings: as in `check_file`.

    Raises:
      ValueError: as in `check_file`.
      OSError: if the folder or the device is not writable.

    >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with file(path) as temporary:
    ...     _ = temporary.write_text("1 2 3")
    >>> path.read_text(), len(list(path.parent.iterdir()))
    ('1 2 3', 1)
    """
    check_file(path, endings=endings)
    if is_stream(path):
        with tempfile.TemporaryDirectory(prefix="jboost-") as folder:
            temporary = Path(folder) / f"output{Path(path).suffix}"
            yield temporary
            _send(temporary, path)
        return
    final = _followed(path)
    temporary = final.with_name(f".{final.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        if final.exists():
            shutil.copymode(final, temporary)
        os.replace(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary folder, and renames it to `path` at the end of the block.

    If the block raises, the temporary folder is removed and `path` is unchanged. An existing folder
    at `path` is deleted without a check: the caller must check first. Links are followed.
    """
    if not os.fspath(path):
        raise ValueError("the name of the output folder is empty: expected a path")
    final = _followed(path)
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


def _followed(path: str | os.PathLike[str]) -> Path:
    """Returns the path with all links resolved."""
    return Path(os.path.realpath(path))


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """Returns the file descriptor that a path denotes, such as 1 for /dev/stdout, or None."""
    name = os.path.abspath(path)
    number = _DESCRIPTOR.fullmatch(name)
    return int(number[1]) if number else _STANDARD.get(name)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is written to as a stream: a descriptor, or an existing non-regular file."""
    return _descriptor(path) is not None or (os.path.exists(path) and not os.path.isfile(path))


def _send(content: Path, path: str | os.PathLike[str]) -> None:
    """Writes the content of a file to a stream, which is opened without creating or truncating."""
    number = _descriptor(path)
    stream = os.open(path, os.O_WRONLY) if number is None else os.dup(number)
    try:
        with content.open("rb") as source, os.fdopen(stream, "wb") as target:
            shutil.copyfileobj(source, target)
    except OSError as error:
        # The message names the path that the caller passed.
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
