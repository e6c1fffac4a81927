"""Opens data files as bytes of text or as data frames, depending on their names and their first
bytes."""

from __future__ import annotations

import gzip
import sys
import zlib
from pathlib import Path
from typing import Any

from jboost.data.known_files import how_to_get
from jboost.data.table import close_matches

STANDARD_INPUT = "-"
# The separator that the ending of a name suggests. The content decides.
SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
_TEXTS = (*SEPARATORS, ".txt", ".txt.gz", ".tab", ".dat", ".data")
_FRAMES = (".parquet", ".feather", ".arrow")
_SHEETS = (".xlsx", ".xls", ".ods")
KINDS = (*SEPARATORS, *_FRAMES[:2], ".txt")  # the endings that messages list
_GZIP, _PARQUET, _ARROW, _ZIP, _OLD_EXCEL = (
    b"\x1f\x8b",
    b"PAR1",
    b"ARROW1",
    b"PK\x03\x04",
    b"\xd0\xcf\x11\xe0",
)


def source_name(path: str) -> str:
    """The name of a file in messages."""
    return "standard input" if path == STANDARD_INPUT else path


def open_source(path: str) -> tuple[bytes | Any, str]:
    """The unpacked bytes of a text file, or the data frame of a .parquet or .feather file; and the
    kind of the file, which is the ending of its name.

    Args:
      path: of a file; "-" is the standard input.

    Raises:
      ValueError: in one line, if the file is missing, empty, damaged, or of another kind.
    """
    source = source_name(path)
    if path == STANDARD_INPUT:
        kind, data = ".csv", sys.stdin.buffer.read()
    else:
        kind, data = kind_of(path), _read(Path(path))
    if not data:
        raise ValueError(
            f"{source}: the file is empty: expected a line of column names and at least one row"
        )
    if kind in _FRAMES or data.startswith((_PARQUET, _ARROW)):
        return _read_frame(data, source, kind), kind
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(
                f"{source}: not readable as {kind} ({error}): pack it again, or give it unpacked"
            ) from None
    if data.startswith((_ZIP, _OLD_EXCEL)):
        raise ValueError(
            f"{source}: the file is a workbook or a zip archive, and not text: save the sheet as"
            " .csv, or unpack the archive"
        )
    return data, kind


def kind_of(path: str) -> str:
    """The ending of a name. Raises ValueError for an empty name, and for an ending that is not
    supported."""
    if not path:
        raise ValueError("the name of the data file is empty: name a file with --data")
    for kind in sorted((*_TEXTS, *_FRAMES), key=len, reverse=True):
        if Path(path).name.lower().endswith(kind):
            return kind
    if Path(path).is_dir():
        raise ValueError(f"{path}: is a folder, not a file")
    sheet = "save the sheet as .csv; " if Path(path).suffix.lower() in _SHEETS else ""
    raise ValueError(
        f"{path}: {sheet}expected a name that ends in {', '.join(KINDS)}, or - for the standard"
        " input"
    )


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise ValueError(f"{path}: is a folder, not a file")
    if not path.exists():
        raise ValueError(f"{path}: {_not_found(path)}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: not readable ({error.strerror})") from None


def _not_found(path: Path) -> str:
    known = how_to_get(path.name)
    if known is not None:
        return f"there is no such file. It is {known}. Name its place with --data"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    files = [file.name for file in path.parent.iterdir() if file.is_file()]
    matches = close_matches(path.name, files, "")
    return "there is no such file" + (f"; {matches}" if matches.startswith("did") else "")


def _read_frame(data: bytes, source: str, kind: str) -> Any:
    import polars

    read = (
        polars.read_ipc
        if data.startswith(_ARROW) or kind in (".feather", ".arrow")
        else polars.read_parquet
    )
    try:
        return read(data)
    except (polars.exceptions.PolarsError, OSError) as error:
        raise ValueError(
            f"{source}: not readable as {kind} ({str(error).strip().splitlines()[0]})"
        ) from None
