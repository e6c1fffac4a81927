"""Columns of text, and the conversion of their cells to numbers or categories of a given kind."""

from __future__ import annotations

import dataclasses
import functools
import re
import shlex
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import numpy as np

from jboost.data import dates
from jboost.data.dialect import Reading
from jboost.data.kinds import DATE, GROUPED, NUMBER, PERCENT, TRUTH, ColumnKind
from jboost.data.table import where

EXACT = 2.0**53  # smaller integers are floats of 64 bits
_DASH = "-"  # a missing value among numbers
NUMERAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
TRUTHS = {"true": 1.0, "false": 0.0}
_OF_ANY = ("'", " ", "\u00a0", "\u202f", "\u2019")
THOUSANDS = {".": (",", *_OF_ANY), ",": (".", *_OF_ANY)}  # separators by decimal sign
_LONGEST_SHOWN = 60  # the largest number of characters of a cell in a message


@dataclasses.dataclass(frozen=True)
class ColumnCells:
    """The cells of a column and their lines in the file."""

    source: str
    name: str
    cells: Any  # polars.Series [m] of text, "" where there is nothing
    lines: np.ndarray | None  # [m] of the file, None where it has no lines
    reading: Reading

    @functools.cached_property
    def _numbers(self) -> tuple[np.ndarray, np.ndarray]:
        return _numbers_of(self.cells, self.reading)

    @property
    def numbers(self) -> np.ndarray:
        """The values [m] of the cells that are plain numbers, NaN for the others."""
        return self._numbers[0]

    @property
    def is_odd(self) -> np.ndarray:
        """Which cells [m] are neither plain numbers nor missing."""
        return self._numbers[1]

    @property
    def dash(self) -> frozenset[str]:
        """The spellings of a missing value that apply only among numbers."""
        return frozenset({_DASH} if self.reading.missing_values is None else ())

    @property
    def is_plain(self) -> np.ndarray:
        """Which cells [m] are plain numbers."""
        return ~self.is_odd & ~np.isnan(self.numbers)

    def refusal(self, row: int, what: str) -> ValueError:
        """An error about the cell in a row, shown as it is in the file."""
        return ValueError(
            f"{self.source}: column '{self.name}' holds {shown(self.cells[row])} in"
            f" {where(row, self.lines)}: {what}"
        )

    def first(self, texts: set[str]) -> int:
        """The first row whose cell, without surrounding blanks, is one of `texts`."""
        return int(self.cells.str.strip_chars().is_in(list(texts)).arg_max())  # type: ignore[arg-type]


def shown(text: str) -> str:
    """A cell for a message, on one line and shortened."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_SHOWN else f"{line[:_LONGEST_SHOWN]}..."


def to_numbers(column: ColumnCells, kind: ColumnKind) -> np.ndarray:
    """The values [m] float64 of a column that is not categorical, NaN where missing.

    Raises:
      ValueError: with the column, the line and the cell, for a cell that does not fit the kind or
        is infinite.
    """
    is_odd = (column.cells != "").to_numpy() if kind.name in (PERCENT, DATE) else column.is_odd
    values = column.numbers
    if is_odd.any():
        values = values.copy()
        values[is_odd] = _values_of(column, kind, is_odd)
    if np.isinf(values).any():
        raise column.refusal(
            int(np.isinf(values).argmax()),
            "it is infinite: correct it, or leave the field empty if it is unknown",
        )
    return values


def _values_of(column: ColumnCells, kind: ColumnKind, is_odd: np.ndarray) -> list[float]:
    """The values of the cells that are not plain numbers."""
    missing = column.reading.missing | column.dash
    table: dict[str, float] = {}
    odd = column.cells.filter(is_odd)
    for cell in odd.unique():
        text = cell.strip()
        value = np.nan if text.lower() in missing else _value(text, kind, column.reading.decimal)
        if value is None:
            row = int(np.argmax(is_odd & (column.cells == cell).to_numpy()))
            raise (
                _not_numeric(column, row)
                if kind.name == NUMBER
                else column.refusal(row, expected(kind))
            )
        table[cell] = value
    return [table[cell] for cell in odd.to_list()]


def to_texts(column: ColumnCells) -> np.ndarray:
    """The values [m] object of a categorical column, without surrounding blanks, None where
    missing.
    """
    missing = column.reading.missing
    stripped = column.cells.str.strip_chars()
    is_missing = stripped.str.to_lowercase().is_in(list(missing)).to_numpy()
    values = np.array(stripped.to_list(), dtype=object)
    values[is_missing] = None
    return values


def describe(column: ColumnCells, kind: ColumnKind, values: np.ndarray) -> str | None:
    """A note for reports on how a column was read as `values` [m]; None for plain numbers and
    text."""
    if kind.name == NUMBER and column.cells.str.contains(r"^\s*0[0-9]+\s*$").any():
        return (
            f"column '{column.name}' has numbers such as 01: they are read as 1; --categorical"
            f" {shlex.quote(column.name)} keeps them apart"
        )
    if kind.name == PERCENT:
        return f"column '{column.name}' is written in percent: 5% is read as 0.05"
    if kind.name == GROUPED:
        return f"column '{column.name}' has thousands separators: 1{kind.group}200 is read as 1200"
    if kind.name == DATE:
        return (
            f"column '{column.name}' is read as days since {dates.text(kind.origin)} ({kind.order})"
        )
    if kind.name == NUMBER and (is_large := np.abs(values) >= EXACT).any():
        is_integer = column.cells.str.contains(r"^\s*[+-]?[0-9]+\s*$").to_numpy()
        texts = column.cells.filter(is_large & is_integer).unique()
        return describe_merged(column.name, {Decimal(text.strip()) for text in texts})
    return None


def describe_merged(name: str, integers: Collection[int | Decimal]) -> str | None:
    """A note for reports if some of these different integers are one number in 64 bits.

    >>> describe_merged("key", [2**53, 2**53 + 1, 2**53 + 2])
    "column 'key' has integers beyond 2^53: 3 different ones are read as 2 numbers; --categorical
    key keeps them apart"
    >>> describe_merged("key", [2**53, 2**53 + 2])
    """
    num_kept = len({float(integer) for integer in integers})
    if num_kept == len(integers):
        return None
    return (
        f"column '{name}' has integers beyond 2^53: {len(integers)} different ones are read as"
        f" {num_kept} number{'s' if num_kept > 1 else ''}; --categorical {shlex.quote(name)} keeps"
        " them apart"
    )


def plain_number(text: str, decimal: str | None) -> float | None:
    """The number that a text represents, which may have a plus sign and may be infinite; None if it
    is not a number.

    >>> (
    ...     plain_number("+49", "."),
    ...     plain_number("1,5", ","),
    ...     plain_number("1,5", "."),
    ...     plain_number("-Infinity", "."),
    ... )
    (49.0, 1.5, None, -inf)
    """
    if decimal == ",":
        text = text.replace(",", ".") if "." not in text else ""
    return float(text) if NUMERAL.fullmatch(text) or _INFINITE.fullmatch(text) else None


def _numbers_of(cells: Any, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """The values [m] of the cells that polars reads as numbers, NaN for the others; and which cells
    [m] polars does not read, or must not read, as numbers."""
    import polars

    written = cells.str.replace(",", ".", literal=True) if reading.decimal == "," else cells
    values: np.ndarray = written.cast(polars.Float64, strict=False).fill_null(np.nan).to_numpy()
    is_odd = np.isnan(values)
    if reading.decimal == ",":
        is_odd |= cells.str.contains(".", literal=True).to_numpy()
    if any(plain_number(text, reading.decimal) is not None for text in reading.missing):
        is_odd |= cells.str.strip_chars().str.to_lowercase().is_in(list(reading.missing)).to_numpy()
    return values, is_odd & (cells != "").to_numpy() if is_odd.any() else is_odd


def _value(text: str, kind: ColumnKind, decimal: str | None) -> float | None:
    if kind.name == PERCENT:
        return percentage(text, decimal)
    if kind.name == DATE:
        day = dates.days(text, kind.order)
        return None if day is None else day - kind.origin
    if kind.name == TRUTH and text.lower() in TRUTHS:
        return TRUTHS[text.lower()]
    if kind.name == GROUPED and is_grouped(text, kind.group, decimal):
        text = text.replace(kind.group, "")
    return plain_number(text, decimal)


def expected(kind: ColumnKind) -> str:
    """The part of a message that tells what is expected of a cell."""
    wanted = {
        NUMBER: "a number is expected",
        PERCENT: "a percentage such as 5% is expected, as in the other rows or in training",
        GROUPED: (
            f"a number such as 1{kind.group}200 is expected, as in the other rows or in training"
        ),
        TRUTH: "true or false is expected",
        DATE: f"a date ({kind.order}) is expected, as in the other rows or in training",
    }
    return f"{wanted[kind.name]}: correct the cell, or leave it empty if it is unknown"


def _not_numeric(column: ColumnCells, row: int) -> ValueError:
    line = "" if column.lines is None else f" (line {column.lines[row]})"
    found = (
        f"column '{column.name}' is not numeric: row {row + 1} holds"
        f" {shown(column.cells[row])!r}{line}"
    )
    return ValueError(f"{column.source}: {found}; {expected(ColumnKind(NUMBER))}")


def percentage(text: str, decimal: str | None) -> float | None:
    """The number that a text with a percent sign represents, 0.05 for 5%; None if it is not a
    percentage."""
    number = plain_number(text[:-1].rstrip(), decimal) if text.endswith("%") else None
    return None if number is None else number / 100


def is_grouped(text: str, group: str, decimal: str | None) -> bool:
    """Whether a text is a number with this separator between thousands."""
    group, point = re.escape(group), re.escape(decimal or ".")
    pattern = rf"[+-]?[1-9][0-9]{{0,2}}({group}[0-9]{{3}})+({point}[0-9]*)?"
    return re.fullmatch(pattern, text) is not None
