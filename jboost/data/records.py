"""Splits text files into records of text with polars, with the line number of each record.

polars parses the fields. This module computes from the lines of the file what polars does not
report: which records are blank, too short or too long, and the line at which each record begins.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from typing import Any

import numpy as np

from jboost.data.dialect import Reading, is_excel_line

_QUOTED = '"[^"]*"'
_BLANKS = re.compile(r'("[^"]*")|[ \t]+')


@dataclasses.dataclass(frozen=True)
class Records:
    """The records of a text file below its line of column names."""

    # of the columns, without surrounding blanks; some may be empty or equal
    names: tuple[str, ...]
    cells: Any  # [k] text, of the complete records; columns are numbered
    lines: np.ndarray  # [m] int64, the line on which each record begins, counted from 1
    header_line: int
    is_blank: np.ndarray  # [m] bool
    num_fields: np.ndarray  # [m] int64
    others: tuple[str, ...]  # the text of each record that is not complete
    separator: str
    notes: tuple[str, ...]

    @property
    def is_whole(self) -> np.ndarray:
        """[m] bool: whether a record has as many fields as there are columns."""
        return ~self.is_blank & (self.num_fields == self.cells.width)

    def fields_of_others(self) -> list[list[str]]:
        """The fields of each record that is not complete, without surrounding blanks."""
        return [
            [field.strip() for field in _split_one(text, self.separator)] if text.strip() else []
            for text in self.others
        ]

    def flaw(self, row: int) -> str:
        """A message about what is wrong with a record that is not complete."""
        found, wanted = int(self.num_fields[row]), self.cells.width
        fields = (
            f"{found} field{'s' if found > 1 else ''}, and there {'are' if wanted > 1 else 'is'}"
            f" {wanted} column{'s' if wanted > 1 else ''}"
        )
        if self.is_blank[row]:
            return "a blank line"
        return (
            f"{fields}: it ends before column '{self.names[found]}'"
            if found < wanted
            else f"{fields}: field {wanted + 1} has no column"
        )


def read_records(data: bytes, source: str, reading: Reading) -> Records:
    """The records of a text file.

    Args:
      data: the bytes from `jboost.data.dialect.decode`.
      source: the name of the file in messages.
      reading: with separator and comment.

    Raises:
      ValueError: with the line, if there are no records or a quote is not closed.
    """
    assert reading.separator is not None
    if reading.separator == " ":
        data = _with_single_blanks(data)
    texts, lines = _split_records(data, source, reading.comment)
    is_text = ~_are_blank(texts, reading.separator)
    first, names = _find_names(texts, is_text, reading.separator, source)
    body, lines, header_line = texts[first + 1 :], lines[first + 1 :], int(lines[first])
    num_fields, is_blank = _count_fields(body, reading.separator), ~is_text[first + 1 :]
    names, notes = _fit_names(
        names, body.filter(~is_blank), num_fields[~is_blank], reading.separator
    )
    if len(names) == 1:
        is_blank = np.zeros(len(body), bool)  # a blank line is a missing value of the one column
    is_whole = ~is_blank & (num_fields == len(names))
    others = tuple(body.filter(~is_whole))
    num_lines_below = data.count(b"\n", 0, len(data) - 1) + 1 - header_line
    if len(body) == num_lines_below > 0 and is_whole.all():  # each line is a record
        del texts, body  # frees memory: they are as large as the file
        cells = _parse(data, len(names), reading.separator, source, lines, skip_lines=header_line)
    else:
        kept = "\n".join(body.filter(is_whole)).encode()
        cells = _parse(
            kept + b"\n" if kept else b"", len(names), reading.separator, source, lines[is_whole]
        )
    return Records(
        tuple(names),
        cells,
        lines,
        header_line,
        is_blank,
        num_fields,
        others,
        reading.separator,
        notes,
    )


def _with_single_blanks(data: bytes) -> bytes:
    """One blank for several outside of quotes, and none at the ends of lines."""
    return (
        _BLANKS.sub(lambda match: match[1] or " ", data.decode())
        .replace("\n ", "\n")
        .replace(" \n", "\n")
        .strip(" ")
        .encode()
    )


def _find_names(
    texts: Any, is_text: np.ndarray, separator: str, source: str
) -> tuple[int, list[str]]:
    """The index of the record of column names, and the names: the first record that is not blank,
    or the next one if that only tells the separator to Excel. Raises ValueError if there is none.
    """
    if not is_text.any():
        raise ValueError(
            f"{source}: the file holds no data: expected a line of column names and at least"
            " one row"
        )
    first = int(is_text.argmax())
    if is_excel_line(texts[first]) and is_text[first + 1 :].any():
        first += 1 + int(is_text[first + 1 :].argmax())
    names = [name.strip() for name in _split_one(texts[first], separator)]
    names[0] = names[0].lstrip("#").strip() or names[0]
    return first, names


def _split_records(data: bytes, source: str, comment: str | None) -> tuple[Any, np.ndarray]:
    """The records without comments, and the line on which each begins. A record may contain line
    breaks within quotes."""
    import polars

    texts = polars.read_lines(data).to_series()
    lines = np.arange(1, len(texts) + 1)
    is_comment = (
        np.zeros(len(texts), bool) if comment is None else texts.str.starts_with(comment).to_numpy()
    )
    if b'"' not in data:
        return texts.filter(~is_comment), lines[~is_comment]
    has_odd_quotes = (texts.str.count_matches('"', literal=True) % 2 == 1).to_numpy()
    is_comment, is_open = _within_quotes(is_comment, has_odd_quotes)
    texts, lines, is_open = texts.filter(~is_comment), lines[~is_comment], is_open[~is_comment]
    begins = ~np.concatenate([[False], is_open[:-1]])
    if len(is_open) and is_open[-1]:
        raise ValueError(
            f"{source}: line {lines[begins][-1]} has a quote that is not closed: close it, or write"
            " a quote within a field twice"
        )
    if begins.all():
        return texts, lines
    frame = polars.DataFrame({"record": np.cumsum(begins), "text": texts})
    joined = frame.group_by("record", maintain_order=True).agg(polars.col("text").str.join("\n"))
    return joined["text"], lines[begins]


def _within_quotes(
    looks_like_comment: np.ndarray, has_odd_quotes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which lines [k] are comments, which must be outside quotes; and at which line ends [k] a
    quoted field continues."""
    is_comment, turns = np.zeros_like(looks_like_comment), np.zeros_like(has_odd_quotes)
    is_open = False
    for line in np.flatnonzero(looks_like_comment | has_odd_quotes):
        if looks_like_comment[line] and not is_open:
            is_comment[line] = True
        elif has_odd_quotes[line]:
            turns[line], is_open = True, not is_open
    return is_comment, np.cumsum(turns) % 2 == 1


def _are_blank(texts: Any, separator: str) -> np.ndarray:
    """Which lines are blank. A line of tabs is not blank if tabs are separators: it has empty
    fields."""
    return (texts.str.strip_chars(" " if separator == "\t" else None) == "").to_numpy()


def _count_fields(texts: Any, separator: str) -> np.ndarray:
    """The number of fields of each record."""
    unquoted = (
        texts.str.replace_all(_QUOTED, "") if texts.str.contains('"', literal=True).any() else texts
    )
    return unquoted.str.count_matches(separator, literal=True).cast(int).to_numpy() + 1


def _split_one(text: str, separator: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True))
    except csv.Error:  # a field is too long for the csv module
        return text.split(separator)


def _fit_names(
    names: list[str], texts: Any, num_fields: np.ndarray, separator: str
) -> tuple[list[str], tuple[str, ...]]:
    """The column names, adjusted to the records: R writes no name for the row names, and some
    programs end each line with a separator."""
    width = len(names)
    if not len(num_fields) or (num_fields == width).any():
        return names, ()
    commonest = int(np.bincount(num_fields).argmax())
    if commonest < width and not any(names[commonest:]):
        return names[:commonest], ()
    if commonest == width + 1 and texts.str.ends_with(separator).all():
        return [*names, ""], ()
    firsts = texts.str.split(separator).list.first()
    # row names are distinct
    if commonest == width + 1 > 2 and firsts.n_unique() == len(firsts):
        return ["", *names], (
            (
                "the line of column names is one name short, as R writes it: the first field of"
                " each row is taken as the row's name"
            ),
        )
    return names, ()


def _parse(
    data: bytes, width: int, separator: str, source: str, lines: np.ndarray, *, skip_lines: int = 0
) -> Any:
    """The fields as text, "" for empty ones. Raises ValueError with the line if a quote is in the
    middle of a field."""
    import polars

    schema = {str(column): polars.String for column in range(width)}
    if not data:
        return polars.DataFrame(schema=schema)
    try:
        return polars.read_csv(
            data,
            has_header=False,
            skip_lines=skip_lines,
            separator=separator,
            schema=schema,
            empty_string_is_null=False,
            extra_columns="raise",
        )
    except polars.exceptions.PolarsError as error:
        line, column = _first_malformed(data.decode(), separator, lines, skip_lines)
        reason = str(error).splitlines()[0][:100]
        where = f"line {line}, field {column}" if line else "somewhere"
        raise ValueError(
            f"{source}: {where} is not readable ({reason}): put fields in quotes whole, and write a"
            " quote within them twice"
        ) from None


def _first_malformed(
    text: str, separator: str, lines: np.ndarray, skip_lines: int
) -> tuple[int, int]:
    """The line and the field of the first record with a quote that is neither at an end of a field
    nor doubled."""
    field = re.compile(
        f'(?:"(?:[^"]|"")*"|[^"\n{re.escape(separator)}]*)(?={re.escape(separator)}|\n|$)'
    )
    position = 0
    for _ in range(skip_lines):
        position = text.index("\n", position) + 1
    row, column = 0, 1
    while position < len(text):
        match = field.match(text, position)
        if match is None:
            return (int(lines[row]) if row < len(lines) else 0), column
        position = match.end()
        if text[position : position + 1] == "\n":
            row, column = row + 1, 0
        position, column = position + 1, column + 1
    return 0, 0
