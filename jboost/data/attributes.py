"""Converts features with numbers, text and missing values to numbers on the host, for
`jboost.data.binarization`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jboost.base import check
from jboost.data import frames
from jboost.data.frames import is_missing

UNSEEN = -1.0  # the code of a text that did not occur in training
# columns with only these types, such as those of tables, are converted at once
_TEXTS, _NUMBERS = {str, type(None)}, {float, type(None)}


def number_text(number: float) -> str:
    """The shortest text that reads back as exactly this number; whole numbers have no fraction."""
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def as_table(features: Any, names: Sequence[str] | None = None) -> np.ndarray:
    """Features [m, n] on the host: real numbers in their own dtype, or objects. Raises ValueError
    for anything else.

    `names` are the columns of a DataFrame to use, None for all.
    """
    if frames.is_frame(features):
        return frames.to_table(features, names)
    features = check.without_holes("features", check.densified("features", features))
    try:
        host = np.asarray(features)
    except ValueError:  # rows of unequal length; `check.numeric` raises the error below
        host = np.empty(0)
    if host.ndim == 2 and host.dtype.kind in "fiub":
        return host
    if host.ndim == 2 and host.dtype.kind in "OUST":
        return np.array(features, object)
    return check.host_array("features", features, shape=("m", "n"), kinds="fiub").astype(np.float32)


def attribute_names(names: Sequence[str] | None, num_attributes: int) -> tuple[str, ...]:
    """The names as distinct strings; x0, x1, ... for None. Raises ValueError for other names."""
    chosen = (
        tuple(f"x{column}" for column in range(num_attributes)) if names is None else tuple(names)
    )
    if (
        len(chosen) != num_attributes
        or len(set(chosen)) != num_attributes
        or not all(isinstance(name, str) for name in chosen)
    ):
        raise ValueError(
            f"names holds {len(set(chosen))} distinct entries: {num_attributes} distinct texts"
            " expected, one for each attribute"
        )
    return tuple(str(name) for name in chosen)


def columns_of(categorical: Sequence[int | str], names: tuple[str, ...]) -> set[int]:
    """The columns that `categorical` names. Raises ValueError for a column that does not exist."""
    if isinstance(categorical, str) or not isinstance(categorical, Iterable):
        raise ValueError(
            f"categorical is {categorical!r}: expected a list of names or columns, such as [0]"
        )
    columns = set()
    for entry in categorical:
        column = names.index(entry) if isinstance(entry, str) and entry in names else entry
        if (
            isinstance(column, (bool, str))
            or not isinstance(column, (int, np.integer))
            or not 0 <= column < len(names)
        ):
            raise ValueError(
                f"categorical holds {entry!r}: expected a name of an attribute, or a column from 0"
                f" to {len(names) - 1}"
            )
        columns.add(int(column))
    return columns


def _text(value: Any, name: str) -> str:
    """A category as text. Numbers in a column of text are categories too, also large integers."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if not isinstance(value, (float, np.floating, np.bool_)) or np.isinf(value):
        raise ValueError(
            f"{name} is {value!r}, in a column of text: pass text or a finite number, or NaN if it"
            " is unknown"
        )
    return number_text(float(value))


def texts_of(column: np.ndarray, name: str, rows: np.ndarray) -> tuple[str, ...] | None:
    """The sorted categories of a column of objects, if it has text or only missing values; None for
    a column of numbers.

    Args:
      column: [m].
      name: the name of the column in messages.
      rows: [m] the row numbers in messages.

    Raises:
      ValueError: for a value in a column of text that is neither text nor a finite number.
    """
    kinds = set(map(type, column))
    if kinds <= _TEXTS:
        return tuple(sorted(set(column) - {None}))
    if kinds <= _NUMBERS:
        return None if any(value == value and value is not None for value in column) else ()
    known = [(row, value) for row, value in zip(rows, column, strict=True) if not is_missing(value)]
    if known and not any(isinstance(value, str) for _, value in known):
        return None
    return tuple(sorted({_text(value, f"features[{row}, {name}]") for row, value in known}))


def to_numbers(
    table: np.ndarray,
    categories: Sequence[tuple[str, ...] | None],
    names: Sequence[str],
    rows: np.ndarray,
) -> np.ndarray:
    """A table [m, n] as numbers. Text becomes its index in `categories`. `rows` [m] are the row
    numbers in messages.
    """
    if table.dtype != object and all(texts is None for texts in categories):
        return table
    numbers = np.full(table.shape, np.nan)
    for column, texts in enumerate(categories):
        codes = {text: float(code) for code, text in enumerate(texts or ())}
        kinds = set(map(type, table[:, column]))
        if texts is not None and kinds <= _TEXTS:
            numbers[:, column] = [
                np.nan if value is None else codes.get(value, UNSEEN) for value in table[:, column]
            ]
            continue
        if texts is None and kinds <= _NUMBERS:
            numbers[:, column] = table[:, column].astype(np.float64)  # NaN of None
            continue
        for row, value in enumerate(table[:, column]):
            if is_missing(value):
                continue
            if texts is not None:
                numbers[row, column] = codes.get(
                    _text(value, f"features[{rows[row]}, {column}]"), UNSEEN
                )
            elif isinstance(value, (bool, int, float, np.generic)) and not isinstance(value, str):
                numbers[row, column] = _number(value, f"features[{rows[row]}, {column}]")
            else:
                raise ValueError(
                    f"features[{rows[row]}, {column}] is {value!r}, but attribute '{names[column]}'"
                    " was numeric in training: pass a number, or NaN if it is unknown"
                )
    return numbers


def _number(value: Any, name: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(
            f"{name} is an integer of {value.bit_length()} bits: pass a number below 1.8e308, or"
            " NaN if it is unknown"
        ) from None


def require_finite(values: np.ndarray, rows: np.ndarray) -> None:
    """Raises ValueError for the first infinite value of `values` [m, n], and for numbers that JAX
    cannot represent. `rows` are the row numbers in messages.
    """
    infinite = np.argwhere(np.isinf(values))
    if len(infinite):
        row, column = infinite[0]
        raise ValueError(
            f"features[{rows[row]}, {column}] is {values[row, column]}: not a finite number"
            f" ({len(infinite)} such in all); correct it, or pass NaN if it is unknown"
        )
    check.numeric("features", values, shape=("m", "n"), kinds="fiub")
