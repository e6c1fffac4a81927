"""Data files into tables, by polars: .csv, .csv.gz, .tsv, .tsv.gz and .parquet."""

from __future__ import annotations

import gzip
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jboost.data.table import Table, close_matches, count_missing, map_labels, require_columns

if TYPE_CHECKING:
    import os

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")
_SAVE = "save it in UTF-8"
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_GZIP = b"\x1f\x8b"  # what a packed file begins with
_SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}


def read_table(path: str | os.PathLike[str], *, label: str | None = None, text: Sequence[str] = ()) -> Table:
    """Reads a data file and tells numbers, categories, missing values and labels apart.

    Args:
      path: a .csv, .csv.gz, .tsv, .tsv.gz or .parquet file; text files are in UTF-8 and begin with a line of column names.
      label: the column with the labels, which take two values: -1 and 1, or any two numbers or texts, the smaller of which
        becomes -1 (the mapping is in the table and its notes; it spells them as a text file does). None where there are none, as for prediction.
      text: columns of a text file that are text whatever they look like in it, such as the text columns that a model was fitted on; those
        that are not there are not missed.

    Returns:
      A `Table`. Numbers and booleans are numeric columns, text is categorical; other columns, such as dates, are left out, and a
      note says so. An empty field and NA, N/A, NaN, null and ? are missing values. Blank lines of a file of several columns are left out, and a
      note says how many; rows are counted without them.

    Raises:
      ValueError: in one line that says where and what to do, if the file is missing, of another kind, empty or without rows,
        does not parse, is not in UTF-8, holds an infinite value or two columns of one name, or if labels are missing, are lists or the like, or do
        not take two values.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("age,colour,ill\\n31,red,no\\n,blue,yes\\n")
    >>> table = read_table(path, label="ill")
    >>> table.columns, table.missing, table.labels.tolist(), table.notes
    (('age', 'colour'), {'age': 1}, [-1.0, 1.0], ('labels were mapped: ill: no -> -1, yes -> +1',))
    """
    frame, num_blank = _read_frame(Path(path), text if label is None else (*text, label))
    source = str(path)
    if label is not None:
        require_columns(source, [label], frame.columns)
    numeric, categorical, notes = _split_columns(frame, source, label)
    if num_blank:
        notes += (f"{num_blank} blank {'line was' if num_blank == 1 else 'lines were'} left out; rows are counted without",)
    labels, mapping = None, None
    if label is not None:
        written = _labels_of(frame[label], source)
        values = written if _kind(Path(path)) == ".parquet" else _values_of(written)
        labels, mapping, label_notes = map_labels(source, label, values, written=written)
        notes += label_notes
    missing = count_missing(numeric, categorical)
    return Table(source, frame.height, numeric, categorical, missing, labels, mapping, notes)


def _read_frame(path: Path, text: Sequence[str]) -> tuple[Any, int]:
    """The data frame of a file, of a text file with the columns `text` as text and without blank lines; and how many these were."""
    import polars

    kind = _kind(path)
    if not path.is_file():
        raise ValueError(f"{path}: {'is a folder, not a file' if path.is_dir() else _not_found(path)}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: the file is empty: a line of column names and at least one row are wanted")
    try:
        if kind == ".parquet":
            frame = polars.read_parquet(path, glob=False)
        else:
            frame = polars.read_csv(
                path,
                separator=_SEPARATORS[kind],
                null_values=list(MISSING),
                infer_schema_length=None,
                schema_overrides=dict.fromkeys(text, polars.String),
                glob=False,
            )
    except polars.exceptions.NoDataError:
        raise ValueError(f"{path}: the file holds no data: a line of column names and at least one row are wanted") from None
    except (polars.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        remedy = f": {_SAVE}" if kind != ".parquet" and "utf-8" in reason.lower() else ""
        raise ValueError(f"{path}: not readable as {kind} ({reason}){remedy}") from None
    num_blank = 0
    if kind != ".parquet":
        _check_encoding(path, frame.columns)
        is_blank = _blank_lines(frame, path)
        num_blank = int(is_blank.sum())
        frame = frame.filter(~is_blank) if num_blank else frame
    if frame.height == 0:
        raise ValueError(f"{path}: the file has column names but no rows")
    if kind != ".parquet":
        _check_header(path, frame.columns, kind)
    return frame, num_blank


def _blank_lines(frame: Any, path: Path) -> np.ndarray:
    """Which rows [m] of the data frame of a text file are blank lines; none where it has one column, whose missing values look the same."""
    import polars

    is_empty = frame.select(polars.all_horizontal(polars.all().is_null())).to_series().to_numpy()
    if frame.width == 1 or not is_empty.any():
        return np.zeros(frame.height, bool)
    return is_empty & [_is_blank(record) for record in itertools.islice(_records(path), 1, None)]


def _records(path: Path) -> Iterator[bytes]:
    """The rows of a text file as they are written, from the line of column names on; one with a quoted line break is of several lines."""
    with path.open("rb") as packed:
        is_packed = packed.read(2) == _GZIP
        packed.seek(0)
        lines: list[bytes] = []
        is_quoted = False
        for line in itertools.dropwhile(_is_blank, gzip.GzipFile(fileobj=packed) if is_packed else packed):
            lines.append(line)
            is_quoted ^= line.count(b'"') % 2 == 1
            if not is_quoted:
                yield b"".join(lines)
                lines = []
        if lines:
            yield b"".join(lines)


def _is_blank(line: bytes) -> bool:
    return not line.strip(b"\r\n")


def _kind(path: Path) -> str:
    kinds = (*_SEPARATORS, ".parquet")
    for kind in sorted(kinds, key=len, reverse=True):
        if path.name.lower().endswith(kind):
            return kind
    raise ValueError(f"{path}: the kind of file is told by its name: it ends in {', '.join(kinds)}")


def _not_found(path: Path) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    files = [file.name for file in path.parent.iterdir() if file.is_file()]
    matches = close_matches(path.name, files, "")
    return "there is no such file" + (f"; {matches}" if matches.startswith("did") else "")


def _check_encoding(path: Path, columns: list[str]) -> None:
    """Raises ValueError where the first line, which polars decodes with replacements, was not in UTF-8."""
    if any("\0" in name for name in columns):
        raise ValueError(f"{path}: the file looks like UTF-16: {_SAVE}")
    for name in columns:
        if "\N{REPLACEMENT CHARACTER}" in name:
            raise ValueError(f"{path}: the name of the column '{name}' is not in UTF-8: {_SAVE}")


def _labels_of(series: Any, source: str) -> list[Any]:
    """The labels as they stand in the file; ValueError where they are of a kind that labels are not, such as lists."""
    import polars

    dtype = series.dtype
    if dtype.is_nested() or dtype in (polars.Binary, polars.Object):
        raise ValueError(f"{source}: column '{series.name}' holds values of the type {dtype}: labels are numbers, text, or true and false")
    return list(series.to_list())


def _values_of(written: Sequence[str | None]) -> list[Any]:
    """What the labels of a text file mean: numbers if all of them are, or truth values; else they are the text that they are."""
    texts = {text for text in written if text is not None}
    readings: tuple[Callable[[str], Any], ...] = (_as_number, _as_truth)
    for reading in readings:
        values = {text: reading(text) for text in texts}
        if None not in values.values():
            return [None if text is None else values[text] for text in written]
    return list(written)


def _as_number(text: str) -> Decimal | None:
    """The number that a text writes, exactly."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def _as_truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _check_header(path: Path, columns: list[str], kind: str) -> None:
    """Raises ValueError where the first line of a text file is none of column names, or has two of one name."""
    if repeated := _repeated_names(path, columns, kind):
        raise ValueError(f"{path}: two columns are named '{repeated[0]}': rename one")
    if all(_is_float(name) for name in columns):
        raise ValueError(f"{path}: the first line holds numbers ({', '.join(columns[:3])}, ...): a line of column names is wanted there")
    if len(columns) == 1:
        for separator, word in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
            if separator in columns[0]:
                raise ValueError(f"{path}: there is one column, '{columns[0][:40]}': {word} separate the fields, but a {kind} file is read otherwise")


def _repeated_names(path: Path, columns: list[str], kind: str) -> list[str]:
    """The names that stand more than once in the first line of a text file, where polars marks the later ones, as a name itself may be marked."""
    import polars

    if not any(name.rpartition("_duplicated_")[0] in columns for name in columns if "_duplicated_" in name):
        return []
    first = polars.read_csv(next(_records(path)), has_header=False, separator=_SEPARATORS[kind], infer_schema_length=0)
    names = [name or "" for name in first.row(0)]
    return [name for name in names if names.count(name) > 1]


def _split_columns(frame: Any, source: str, label: str | None) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], tuple[str, ...]]:
    import polars

    numeric, categorical, left_out = {}, {}, []
    for series in frame:
        dtype = series.dtype
        if series.name == label:
            continue
        if dtype.is_numeric() or dtype == polars.Boolean or dtype == polars.Null:
            numeric[series.name] = _finite(series.cast(polars.Float64).to_numpy(), source, series.name)
        elif dtype in (polars.String, polars.Categorical, polars.Enum):
            categorical[series.name] = np.array(series.cast(polars.String).to_list(), dtype=object)
        else:
            left_out.append(f"{series.name} ({dtype})")
    notes = (f"columns that are neither numbers nor text were left out: {', '.join(left_out)}",) if left_out else ()
    return numeric, categorical, notes


def _finite(values: np.ndarray, source: str, name: str) -> np.ndarray:
    infinite = np.isinf(values)
    if infinite.any():
        row = int(infinite.argmax())
        raise ValueError(f"{source}: column '{name}' holds {values[row]} in row {row + 1}: correct it, or leave the field empty if it is unknown")
    return values


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
