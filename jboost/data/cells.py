"""What a column of text holds - numbers, percentages, dates, categories - and its values.

The whole column decides. One cell that does not fit is an error that names it, for a column of numbers must not become one category per number.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

import numpy as np

from jboost.data import dates
from jboost.data.dialect import Reading
from jboost.data.table import where

if TYPE_CHECKING:
    import polars

NUMBER, PERCENT, GROUPED, TRUTH, DATE, TEXT = "number", "percent", "grouped", "truth", "date", "text"
_DASH = "-"  # stands for a missing value among numbers
NUMERAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_TRUTHS = {"true": 1.0, "false": 0.0}
_THOUSANDS = {".": (",", "'", " ", "\u00a0", "\u202f", "\u2019"), ",": (".", "'", " ", "\u00a0", "\u202f", "\u2019")}  # by decimal sign
_OTHER_DECIMAL = "other decimal"
_STYLES = {  # of cells that are numbers to a reader
    NUMBER: "a number",
    PERCENT: "a percentage",
    GROUPED: "a number with thousands separators",
    _OTHER_DECIMAL: "a number with another decimal sign",
}
_LONGEST_SHOWN = 60  # characters of a cell in a message
_MOST_LOOKED_AT = 10_000  # different texts, of a column that has more and few numbers
_LEAST_GROUPED = 0.1  # share of cells with separators that make a column one of numbers with thousands separators
_FEWEST_TEXTS, _DISTINCT = 20, 0.9  # from so many cells on, a share of different texts that makes a column an identifier


@dataclasses.dataclass(frozen=True)
class Kind:
    """How the cells of a column are read."""

    name: str  # NUMBER, PERCENT, GROUPED, TRUTH, DATE or TEXT
    group: str = ""  # the thousands separator of GROUPED
    order: str = ""  # of the parts of a DATE
    origin: float = 0.0  # the day that is 0, from the first of January 1970
    categories: tuple[str, ...] = ()  # of TEXT: those that training saw

    @property
    def is_text(self) -> bool:
        return self.name == TEXT


@dataclasses.dataclass(frozen=True)
class Column:
    """The cells of a column and where they stand."""

    source: str
    name: str
    cells: polars.Series  # [m] text, "" where there is nothing
    lines: np.ndarray | None  # [m] of the file, None where it has no lines
    reading: Reading

    @functools.cached_property
    def _numbers(self) -> tuple[np.ndarray, np.ndarray]:
        return _numbers_of(self.cells, self.reading)

    @property
    def numbers(self) -> np.ndarray:
        """The cells [m] that are plain numbers, NaN for others."""
        return self._numbers[0]

    @property
    def is_odd(self) -> np.ndarray:
        """Which cells [m] hold something that is no plain number."""
        return self._numbers[1]

    @property
    def dash(self) -> frozenset[str]:
        """What stands for a missing value among numbers alone."""
        return frozenset({_DASH} if self.reading.missing_values is None else ())

    @property
    def is_plain(self) -> np.ndarray:
        """Which cells [m] are plain numbers."""
        return ~self.is_odd & ~np.isnan(self.numbers)

    def refusal(self, row: int, what: str) -> ValueError:
        """An error about the cell in a row, shown as it is in the file."""
        return ValueError(f"{self.source}: column '{self.name}' holds {shown(self.cells[row])} in {where(row, self.lines)}: {what}")

    def first(self, texts: set[str]) -> int:
        """The first row whose cell, without blanks around it, is one of some texts."""
        return int(self.cells.str.strip_chars().is_in(list(texts)).arg_max())  # type: ignore[arg-type]


def shown(text: str) -> str:
    """A cell as a message shows it: in one line, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_SHOWN else f"{line[:_LONGEST_SHOWN]}..."


def recognise(column: Column) -> Kind:
    """What a column of training data holds.

    Raises:
      ValueError: with the column, the line and the cell, for a number that is infinite, for a cell that is none in a column of numbers, and where a
        category would have nearly as many values as there are rows, or is a date.
    """
    reading = column.reading
    if column.name in reading.categorical:
        return Kind(TEXT)
    texts = _odd_texts(column)
    if column.name in reading.dates:
        return _date_kind(column)
    if not texts:
        return Kind(NUMBER)
    plain = column.numbers[column.is_plain]
    num_plain, largest = len(np.unique(plain)), float(np.abs(plain).max(initial=0.0))
    known = texts.keys() - column.dash
    if all(plain_number(text, reading.decimal) is not None for text in known):
        return Kind(NUMBER) if known or num_plain else Kind(TEXT)
    if not num_plain and all(text.lower() in _TRUTHS for text in known):
        return Kind(TRUTH)
    if not num_plain and all(_percent(text, reading.decimal) is not None for text in known):
        return Kind(PERCENT)
    group = _thousands(known, texts, len(plain), largest, reading.decimal)
    if group:
        return Kind(GROUPED, group)
    _refuse_mixture(column, known, num_plain)
    _refuse_identifier(column, texts)
    return Kind(TEXT)


def to_numbers(column: Column, kind: Kind) -> np.ndarray:
    """The values [m] float64 of a column that is no category, NaN where missing.

    Raises:
      ValueError: with the column, the line and the cell, for one that does not fit the kind or is infinite.
    """
    is_odd = (column.cells != "").to_numpy() if kind.name in (PERCENT, DATE) else column.is_odd
    values = column.numbers
    if is_odd.any():
        values = values.copy()
        values[is_odd] = _values_of(column, kind, is_odd)
    if np.isinf(values).any():
        raise column.refusal(int(np.isinf(values).argmax()), "it is infinite: correct it, or leave the field empty if it is unknown")
    return values


def _values_of(column: Column, kind: Kind, is_odd: np.ndarray) -> list[float]:
    """The values of the cells that are no plain numbers."""
    missing = column.reading.missing | column.dash
    table: dict[str, float] = {}
    odd = column.cells.filter(is_odd)
    for cell in odd.unique():
        text = cell.strip()
        value = np.nan if text.lower() in missing else _value(text, kind, column.reading.decimal)
        if value is None:
            row = int(np.argmax(is_odd & (column.cells == cell).to_numpy()))
            raise _not_numeric(column, row) if kind.name == NUMBER else column.refusal(row, _expected(kind))
        table[cell] = value
    return [table[cell] for cell in odd.to_list()]


def to_texts(column: Column) -> np.ndarray:
    """The values [m] object of a category, without blanks around them, None where missing."""
    missing = column.reading.missing
    stripped = column.cells.str.strip_chars()
    is_missing = stripped.str.to_lowercase().is_in(list(missing)).to_numpy()
    values = np.array(stripped.to_list(), dtype=object)
    values[is_missing] = None
    return values


def from_first_date(column: Column, kind: Kind) -> Kind:
    """A kind of dates whose day 0 is the first of a column."""
    values = to_numbers(column, kind)
    known = values[~np.isnan(values)]
    return dataclasses.replace(kind, origin=float(np.floor(known.min()))) if len(known) else kind


def describe(column: Column, kind: Kind) -> str | None:
    """What a report should say of how a column was read; None where it is plain."""
    if kind.name == PERCENT:
        return f"column '{column.name}' is written in percent: 5% is read as 0.05"
    if kind.name == GROUPED:
        return f"column '{column.name}' has thousands separators: 1{kind.group}200 is read as 1200"
    if kind.name == DATE:
        return f"column '{column.name}' is read as days since {dates.text(kind.origin)} ({kind.order})"
    return None


def plain_number(text: str, decimal: str | None) -> float | None:
    """The number that a text writes, with a plus or without and possibly infinite; None where it writes none.

    >>> plain_number("+49", "."), plain_number("1,5", ","), plain_number("1,5", "."), plain_number("-Infinity", ".")
    (49.0, 1.5, None, -inf)
    """
    if decimal == ",":
        text = text.replace(",", ".") if "." not in text else ""
    return float(text) if NUMERAL.fullmatch(text) or _INFINITE.fullmatch(text) else None


def _numbers_of(cells: polars.Series, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """The cells [m] as polars reads numbers, NaN for others; and which of them [m] hold what it does not read or is not to read."""
    import polars

    written = cells.str.replace(",", ".", literal=True) if reading.decimal == "," else cells
    values: np.ndarray = written.cast(polars.Float64, strict=False).fill_null(np.nan).to_numpy()
    is_odd = np.isnan(values)
    if reading.decimal == ",":
        is_odd |= cells.str.contains(".", literal=True).to_numpy()
    if any(plain_number(text, reading.decimal) is not None for text in reading.missing):
        is_odd |= cells.str.strip_chars().str.to_lowercase().is_in(list(reading.missing)).to_numpy()
    return values, is_odd & (cells != "").to_numpy() if is_odd.any() else is_odd


def _odd_texts(column: Column) -> Counter[str]:
    """The cells that are no plain number and not missing, without blanks around them, by how many there are."""
    texts: Counter[str] = Counter()
    if not column.is_odd.any():
        return texts
    for cell, count in column.cells.filter(column.is_odd).value_counts().iter_rows():
        text = cell.strip()
        if text.lower() not in column.reading.missing:
            texts[text] += count
    return texts


def _value(text: str, kind: Kind, decimal: str | None) -> float | None:
    if kind.name == PERCENT:
        return _percent(text, decimal)
    if kind.name == DATE:
        day = dates.days(text, kind.order)
        return None if day is None else day - kind.origin
    if kind.name == TRUTH and text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    if kind.name == GROUPED and _is_grouped(text, kind.group, decimal):
        text = text.replace(kind.group, "")
    return plain_number(text, decimal)


def _expected(kind: Kind) -> str:
    wanted = {
        NUMBER: "a number is expected",
        PERCENT: "a percentage such as 5% is expected, as in the other rows or in training",
        GROUPED: f"a number such as 1{kind.group}200 is expected, as in the other rows or in training",
        TRUTH: "true or false is expected",
        DATE: f"a date ({kind.order}) is expected, as in the other rows or in training",
    }
    return f"{wanted[kind.name]}: correct the cell, or leave it empty if it is unknown"


def _not_numeric(column: Column, row: int) -> ValueError:
    line = "" if column.lines is None else f" (line {column.lines[row]})"
    found = f"column '{column.name}' is not numeric: row {row + 1} holds {shown(column.cells[row])!r}{line}"
    return ValueError(f"{column.source}: {found}; {_expected(Kind(NUMBER))}")


def _percent(text: str, decimal: str | None) -> float | None:
    number = plain_number(text[:-1].rstrip(), decimal) if text.endswith("%") else None
    return None if number is None else number / 100


def _is_grouped(text: str, group: str, decimal: str | None) -> bool:
    return re.fullmatch(rf"[+-]?[1-9][0-9]{{0,2}}({re.escape(group)}[0-9]{{3}})+({re.escape(decimal or '.')}[0-9]*)?", text) is not None


def _thousands(known: Set[str], counts: Mapping[str, int], num_plain: int, largest: float, decimal: str | None) -> str:
    """The thousands separator of a column that is written with it wherever a number has more than three digits; "" where there is none."""

    def is_small(text: str) -> bool:
        number = plain_number(text, decimal)
        return number is not None and abs(number) < 1000

    for group in _THOUSANDS[decimal or "."] if largest < 1000 else ():
        if all(_is_grouped(text, group, decimal) or is_small(text) for text in known):
            grouped = [text for text in known if _is_grouped(text, group, decimal)]
            share = sum(counts[text] for text in grouped) / (sum(counts[text] for text in known) + num_plain)
            if len(grouped) >= 2 and share >= _LEAST_GROUPED:
                return group
    return ""


def _refuse_mixture(column: Column, known: Set[str], num_plain: int) -> None:
    """Raises where at least half of the different cells are dates, or numbers of one style or another, and the whole column is none of these."""
    if len(known) > _MOST_LOOKED_AT and 10 * num_plain < len(known):
        known, num_plain = set(itertools.islice(known, _MOST_LOOKED_AT)), 0
    styles: dict[str, set[str]] = {}
    for text in known:
        styles.setdefault(_style(text, column.reading.decimal), set()).add(text)
    total, name = len(known) + num_plain, shlex.quote(column.name)
    if 2 * len(styles.get(DATE, ())) >= total:
        raise column.refusal(
            column.first(styles[DATE]),
            "a date is neither a number nor a category: turn the column into days with "
            f"--date {name}, leave it out with --ignore {name}, or keep it as text with "
            f"--categorical {name}",
        )
    sizes = {style: len(styles.get(style, ())) for style in _STYLES}
    sizes[NUMBER] += num_plain
    num_alike = sum(sizes.values())
    if num_alike < 2 or 2 * num_alike < total:
        return
    usual = max(sizes, key=lambda style: sizes[style])
    odd = set().union(*(texts for style, texts in styles.items() if style != usual))
    if odd or not num_plain:
        row = column.first(odd or styles[usual])
    else:
        row = int(np.argmax(column.is_plain))
    raise column.refusal(
        row,
        f"most of the column is {_STYLES[usual]}, and this is not: correct the cell, leave it empty if it is "
        f"unknown, or take the column as categories with --categorical {name}"
        if usual != _OTHER_DECIMAL
        else f"the decimal sign of the file is {column.reading.decimal}, and this has another: name it with --decimal, "
        f"or take the column as categories with --categorical {name}",
    )


def _style(text: str, decimal: str | None) -> str:
    if plain_number(text, decimal) is not None:
        return NUMBER
    if _percent(text, decimal) is not None:
        return PERCENT
    if any(_is_grouped(text, group, decimal) for group in _THOUSANDS[decimal or "."]):
        return GROUPED
    other = "." if decimal == "," else ","
    if plain_number(text.removesuffix("%").rstrip(), other) is not None:
        return _OTHER_DECIMAL
    return DATE if dates.is_date(text) else TEXT


def _refuse_identifier(column: Column, counts: Mapping[str, int]) -> None:
    total, name = sum(counts.values()), shlex.quote(column.name)
    if total >= _FEWEST_TEXTS and len(counts) > _DISTINCT * total:
        row = column.first(set(counts))
        raise column.refusal(
            row,
            f"{len(counts)} different texts in {total} cells look like an identifier, from which "
            f"nothing can be learnt: leave the column out with --ignore {name}, have it beside the "
            f"predictions with --id {name}, or take it as categories with --categorical {name}",
        )


def _date_kind(column: Column) -> Kind:
    """The kind of a column that is said to hold dates; ValueError where some are none, or could be read in two ways."""
    written = [text for text in (cell.strip() for cell in column.cells.unique()) if text.lower() not in column.reading.missing | column.dash]
    orders = dates.order_of(written)
    if len(orders) == 1:
        return from_first_date(column, Kind(DATE, order=orders[0]))
    if len(orders) > 1:
        row = column.first(set(written))
        raise column.refusal(row, f"is that {' or '.join(orders)}? No date of the column tells: write them as 2024-01-31")
    each = Counter(order for text in written for order in dates.order_of([text]))
    usual = each.most_common(1)[0][0] if each else dates.YEAR_FIRST
    odd = {text for text in written if dates.days(text, usual) is None}
    raise column.refusal(column.first(odd), f"{_expected(Kind(DATE, order=usual))}")
