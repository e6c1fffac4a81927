"""Recognises the kind of a column of training data: numbers, percentages, dates or categories.

All cells of the column are used. A single cell that does not fit is an error that names the cell.
Otherwise one wrong cell would turn a column of numbers into one category per number.
"""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from collections import Counter
from collections.abc import Mapping, Set

import numpy as np

from jboost.data import dates
from jboost.data.cells import (
    THOUSANDS,
    TRUTHS,
    ColumnCells,
    expected,
    is_grouped,
    percentage,
    plain_number,
    to_numbers,
)
from jboost.data.kinds import DATE, GROUPED, NUMBER, PERCENT, TEXT, TRUTH, ColumnKind

_OTHER_DECIMAL = "other decimal"
_STYLES = {  # of cells that a person would read as numbers
    NUMBER: "a number",
    PERCENT: "a percentage",
    GROUPED: "a number with thousands separators",
    _OTHER_DECIMAL: "a number with another decimal sign",
}
# The number of distinct texts that are examined, if a column has more of them and few numbers.
_MOST_LOOKED_AT = 10_000
# The least share of cells with separators in a column of numbers with thousands separators.
_LEAST_GROUPED = 0.1
# A column with at least this many cells is an identifier if the share of distinct texts is larger
# than this.
_FEWEST_TEXTS, _DISTINCT = 20, 0.9


def recognise(column: ColumnCells, *, is_feature: bool = True) -> ColumnKind:
    """The kind of a column of training data.

    Raises:
      ValueError: with the column, the line and the cell, for an infinite number, for a cell in a
        column of numbers that is not a number, for a category with nearly as many values as rows
        if the column is a feature, and for dates.
    """
    reading = column.reading
    if column.name in reading.categorical:
        return ColumnKind(TEXT)
    texts = _odd_texts(column)
    if column.name in reading.dates:
        return _date_kind(column)
    if not texts:
        return ColumnKind(NUMBER)
    plain = column.numbers[column.is_plain]
    num_plain, largest = len(np.unique(plain)), float(np.abs(plain).max(initial=0.0))
    known = texts.keys() - column.dash
    if all(plain_number(text, reading.decimal) is not None for text in known):
        return ColumnKind(NUMBER) if known or num_plain else ColumnKind(TEXT)
    if not num_plain and all(text.lower() in TRUTHS for text in known):
        return ColumnKind(TRUTH)
    if not num_plain and all(percentage(text, reading.decimal) is not None for text in known):
        return ColumnKind(PERCENT)
    group = _thousands(known, texts, len(plain), largest, reading.decimal)
    if group:
        return ColumnKind(GROUPED, group)
    _refuse_mixture(column, known, num_plain)
    if is_feature:
        _refuse_identifier(column, texts)
    return ColumnKind(TEXT)


def recognise_text(column: ColumnCells, *, is_feature: bool = True) -> ColumnKind:
    """The kind of a column of text type in a typed file. Raises ValueError for an identifier, if
    the column is a feature.
    """
    if is_feature and column.name not in column.reading.categorical:
        cells = Counter(cell.strip() for cell in column.cells.to_list())
        counts = {
            text: count
            for text, count in cells.items()
            if text.lower() not in column.reading.missing
        }
        _refuse_identifier(column, counts)
    return ColumnKind(TEXT)


def _from_first_date(column: ColumnCells, kind: ColumnKind) -> ColumnKind:
    """The kind of dates whose day 0 is the first date of the column."""
    values = to_numbers(column, kind)
    known = values[~np.isnan(values)]
    return dataclasses.replace(kind, origin=float(np.floor(known.min()))) if len(known) else kind


def _odd_texts(column: ColumnCells) -> Counter[str]:
    """The counts of the cells that are neither plain numbers nor missing, by their text without
    surrounding blanks."""
    texts: Counter[str] = Counter()
    if not column.is_odd.any():
        return texts
    for cell, count in column.cells.filter(column.is_odd).value_counts().iter_rows():
        text = cell.strip()
        if text.lower() not in column.reading.missing:
            texts[text] += count
    return texts


def _thousands(
    known: Set[str], counts: Mapping[str, int], num_plain: int, largest: float, decimal: str | None
) -> str:
    """The thousands separator of a column in which all numbers of more than three digits have it;
    ""
    if there is none."""

    def is_small(text: str) -> bool:
        number = plain_number(text, decimal)
        return number is not None and abs(number) < 1000

    for group in THOUSANDS[decimal or "."] if largest < 1000 else ():
        if all(is_grouped(text, group, decimal) or is_small(text) for text in known):
            grouped = [text for text in known if is_grouped(text, group, decimal)]
            share = sum(counts[text] for text in grouped) / (
                sum(counts[text] for text in known) + num_plain
            )
            if len(grouped) >= 2 and share >= _LEAST_GROUPED:
                return group
    return ""


def _refuse_mixture(column: ColumnCells, known: Set[str], num_plain: int) -> None:
    """Raises ValueError if at least half of the distinct cells are dates, or numbers of any style,
    but not all cells are."""
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
        (
            f"most of the column is {_STYLES[usual]}, and this is not: correct the cell, leave it"
            " empty if it is unknown (or name its spelling with --missing-values), or take the"
            f" column as categories with --categorical {name}"
            if usual != _OTHER_DECIMAL
            else (
                f"the decimal sign of the file is {column.reading.decimal}, and this has another:"
                " name it with --decimal, or take the column as categories with --categorical"
                f" {name}"
            )
        ),
    )


def _style(text: str, decimal: str | None) -> str:
    if plain_number(text, decimal) is not None:
        return NUMBER
    if percentage(text, decimal) is not None:
        return PERCENT
    if any(is_grouped(text, group, decimal) for group in THOUSANDS[decimal or "."]):
        return GROUPED
    other = "." if decimal == "," else ","
    if plain_number(text.removesuffix("%").rstrip(), other) is not None:
        return _OTHER_DECIMAL
    return DATE if dates.is_date(text) else TEXT


def _refuse_identifier(column: ColumnCells, counts: Mapping[str, int]) -> None:
    total, name = sum(counts.values()), shlex.quote(column.name)
    if total >= _FEWEST_TEXTS and len(counts) > _DISTINCT * total:
        row = column.first(set(counts))
        raise column.refusal(
            row,
            f"{len(counts)} different texts in {total} cells look like an identifier, from which "
            f"nothing can be learnt: leave the column out with --ignore {name}, have it beside the "
            f"predictions with --id {name}, or take it as categories with --categorical {name}",
        )


def _date_kind(column: ColumnCells) -> ColumnKind:
    """The kind of a column that is declared to contain dates. Raises ValueError if a cell is not a
    date, or if the order of day and month is ambiguous."""
    written = [
        text
        for text in (cell.strip() for cell in column.cells.unique())
        if text.lower() not in column.reading.missing | column.dash
    ]
    if not written:
        return ColumnKind(NUMBER)
    orders = dates.order_of(written)
    if len(orders) == 1:
        return _from_first_date(column, ColumnKind(DATE, order=orders[0]))
    if len(orders) > 1:
        row = column.first(set(written))
        raise column.refusal(
            row,
            f"is that {' or '.join(orders)}? No date of the column tells: write them as 2024-01-31",
        )
    each = Counter(order for text in written for order in dates.order_of([text]))
    usual = each.most_common(1)[0][0] if each else dates.YEAR_FIRST
    odd = {text for text in written if dates.days(text, usual) is None}
    raise column.refusal(column.first(odd), expected(ColumnKind(DATE, order=usual)))
