"""Converts DataFrames of pandas, polars, PyArrow and others, with narwhals, to columns of numbers
and of text for `jboost.data.binarization`.

Numbers stay numbers. Dates and times become days since 1970-01-01 (UTC). Texts, categories and
booleans become text: `smokes == True`.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_SECONDS_OF_DAY = 86_400
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DATE = "dates"
_NUMBER = "numbers"
_TEXT = "texts"
_BOOLEAN = "booleans"


def is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame of some library."""
    kind = type(value)  # the class is tested, because attributes of a lazy frame are slow
    return hasattr(kind, "columns") and any(
        hasattr(kind, name) for name in ("dtypes", "schema", "__dataframe__")
    )


def is_missing(value: Any) -> bool:
    """Whether a cell is missing: None, NaN, NaT, NA or a masked number."""
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value is np.ma.masked:
        return True
    return (isinstance(value, (float, np.floating)) and math.isnan(value)) or (
        isinstance(value, np.datetime64) and np.isnat(value)
    )


def names_of(frame: Any) -> tuple[str, ...]:
    """The names of the columns, as text."""
    return tuple(str(name) for name in _opened(frame).columns)


def to_table(frame: Any, names: Sequence[str] | None = None) -> np.ndarray:
    """The columns with these names (None for all) as an array [m, n]: float64, or objects if a
    column is text; NaN or None where missing.

    Raises:
      ValueError: naming the column, if it does not exist, has values of several kinds, or has
        values that are neither numbers, texts, booleans nor dates.
    """
    opened = _opened(frame)
    by_name = {str(column.name): column for column in opened.iter_columns()}
    missing = [name for name in names or () if name not in by_name]
    if missing:
        shown = ", ".join(map(repr, list(by_name)[:12]))
        raise ValueError(
            f"features has no column {missing[0]!r}: its columns are {shown}; pass the columns that"
            " the bits were fitted on"
        )
    columns = [_column(name, by_name[name]) for name in (by_name if names is None else names)]
    is_text = any(column.dtype == object for column in columns)
    table = np.empty((len(opened), len(columns)), object if is_text else np.float64)
    for index, column in enumerate(columns):
        table[:, index] = column
    return table


def _opened(frame: Any) -> Any:
    try:
        import narwhals
    except ImportError as error:
        raise ValueError(
            f"features is a {type(frame).__name__}: install jboost[frames], which reads it, or pass"
            " its numbers as an array"
        ) from error
    try:
        return narwhals.from_native(frame, eager_only=True)
    except TypeError as error:
        raise ValueError(
            f"features is a {type(frame).__name__}: expected a DataFrame of pandas or polars; of a"
            " lazy one pass what collect() gives"
        ) from error
    except ValueError as error:  # raised for columns that share a name
        raise ValueError(
            f"features has columns that cannot be told apart: {' '.join(str(error).split())}; give"
            " each a name of its own"
        ) from error


def _column(name: str, series: Any) -> np.ndarray:
    """A column as float64, or as objects: text and None."""
    import narwhals

    dtype = series.dtype
    if dtype.is_numeric():
        return _numbers(series)
    if dtype in (narwhals.Datetime, narwhals.Date):
        moments = series.cast(narwhals.Datetime("us")) if dtype == narwhals.Date else series
        return _numbers(moments.dt.timestamp("us")) / (_SECONDS_OF_DAY * 1e6)
    if dtype not in (
        narwhals.String,
        narwhals.Categorical,
        narwhals.Enum,
        narwhals.Boolean,
        narwhals.Object,
        narwhals.Unknown,
    ):
        raise ValueError(
            f"features[{name!r}] is a column of {dtype}: expected numbers, texts, categories,"
            " booleans or dates; drop the column, or make it one of these"
        )
    cells = [None if is_missing(cell) else cell for cell in series.to_list()]
    if dtype in (narwhals.Categorical, narwhals.Enum):
        return _objects([None if cell is None else _category(cell) for cell in cells])
    kind = _kind_of_all(name, cells)
    if kind == _NUMBER:
        return np.array([np.nan if cell is None else _float(cell) for cell in cells])
    if kind == _DATE:
        return np.array([np.nan if cell is None else _days(cell) for cell in cells])
    return _objects([None if cell is None else str(cell) for cell in cells])


def _numbers(series: Any) -> np.ndarray:
    import narwhals

    values = np.full(len(series), np.nan)
    is_known = ~series.is_null().to_numpy()
    values[is_known] = series.filter(~series.is_null()).cast(narwhals.Float64).to_numpy()
    return values


def _float(number: Any) -> float:
    """The number as a float; an integer that is too large for one is infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _objects(cells: list[str | None]) -> np.ndarray:
    column = np.empty(len(cells), object)
    column[:] = cells
    return column


def _category(cell: Any) -> str:
    """A category as text; whole numbers have no fraction."""
    is_whole = isinstance(cell, (float, np.floating)) and float(cell).is_integer()
    return str(int(cell)) if is_whole else str(cell)


def _kind(cell: Any) -> str:
    if isinstance(cell, (bool, np.bool_)):
        return _BOOLEAN
    if isinstance(cell, str):
        return _TEXT
    if isinstance(cell, (int, float, np.number)) or type(cell).__name__ == "Decimal":
        return _NUMBER
    return _DATE if isinstance(cell, datetime.date) else f"values of type {type(cell).__name__}"


def _kind_of_all(name: str, cells: list[Any]) -> str:
    """The kind of all cells that are not missing. If there are several kinds, raises ValueError,
    naming the column and the first cell of the rarest kind.
    """
    kinds = [None if cell is None else _kind(cell) for cell in cells]
    found = sorted({kind for kind in kinds if kind is not None}, key=kinds.count)
    if len(found) > 1:
        row = kinds.index(found[0])
        raise ValueError(
            f"features[{name!r}] mixes {found[-1]} and {found[0]}: row {row}, counted from 0, holds"
            f" {cells[row]!r}; correct it, make it missing, or make the whole column text, as by"
            " astype(str)"
        )
    if found and found[0] not in (_NUMBER, _TEXT, _BOOLEAN, _DATE):
        raise ValueError(
            f"features[{name!r}] holds {found[0]}: expected numbers, texts, booleans or dates; drop"
            " the column, or make it one of these"
        )
    return found[0] if found else _TEXT


def _days(cell: datetime.date) -> float:
    if not isinstance(cell, datetime.datetime):
        return float((cell - _EPOCH.date()).days)
    moment = cell if cell.tzinfo is not None else cell.replace(tzinfo=datetime.UTC)
    return (moment - _EPOCH).total_seconds() / _SECONDS_OF_DAY
