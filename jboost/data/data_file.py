"""A data file as named columns. Columns of a text file are text; columns of other files have
types.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from jboost.data import cells, dates, dialect, kinds, recognition, sources
from jboost.data.cells import ColumnCells
from jboost.data.dialect import Reading
from jboost.data.kinds import ColumnKind
from jboost.data.records import Records, read_records
from jboost.data.table import label_text, where


@dataclasses.dataclass(frozen=True)
class DataFile:
    """The columns of a file by name, as text or typed. Rows with a wrong number of fields are left
    out."""

    source: str
    kind: str  # the ending of its name
    names: tuple[str, ...]  # some may be empty
    frame: Any
    reading: Reading
    records: Records | None  # of a text file
    notes: tuple[str, ...]

    @property
    def num_rows(self) -> int:
        return self.frame.height

    @functools.cached_property
    def places(self) -> dict[str, list[int]]:
        """The indices of the columns of each name."""
        places: dict[str, list[int]] = {}
        for place, name in enumerate(self.names):
            places.setdefault(name, []).append(place)
        return places

    @functools.cached_property
    def lines(self) -> np.ndarray | None:
        return None if self.records is None else self.records.lines[self.records.is_whole]

    def require_whole(self) -> None:
        """Raises ValueError if a row that is not a blank line has a wrong number of fields, or if
        there are no rows."""
        if self.records is not None:
            is_wrong = ~self.records.is_whole & ~self.records.is_blank
            if is_wrong.any():
                row = int(is_wrong.argmax())
                cause = (
                    "put fields with a separator in quotes, complete the line, or name the"
                    " --separator"
                )
                flaw = f"line {self.records.lines[row]} has {self.records.flaw(row)}"
                raise ValueError(f"{self.source}: not readable as {self.kind}: {flaw}: {cause}")
        if self.num_rows == 0:
            raise ValueError(f"{self.source}: the file has column names but no rows")

    def flaws(self) -> tuple[np.ndarray, tuple[str, ...]]:
        """Which rows can be predicted, and what is wrong with the others. Blank lines at the end
        are
        ignored."""
        if self.records is None:
            return np.ones(self.num_rows, bool), ("",) * self.num_rows
        count = len(self.records.is_blank) - int(np.cumprod(self.records.is_blank[::-1]).sum())
        is_whole = self.records.is_whole[:count]
        reasons = tuple(
            "" if whole else f"{self.records.flaw(row)} (line {self.records.lines[row]})"
            for row, whole in enumerate(is_whole)
        )
        return is_whole, reasons

    def column(self, name: str) -> ColumnCells | None:
        """The cells of a column as text; None if it has another type. Raises ValueError if two
        columns have the name."""
        places = self.places[name]
        if len(places) > 1:
            numbers = " and ".join(str(place + 1) for place in places)
            line = f" of line {self.records.header_line}" if self.records else ""
            raise ValueError(
                f"{self.source}: two columns are named '{name}': rename one (columns"
                f" {numbers}{line})"
            )
        return self._first_column(name)

    def _first_column(self, name: str) -> ColumnCells | None:
        import polars

        series = self.frame[:, self.places[name][0]]
        if series.dtype in (polars.Categorical, polars.Enum):
            series = series.cast(polars.String)
        if series.dtype != polars.String:
            return None
        return ColumnCells(
            self.source,
            name,
            series if self.records else series.fill_null(""),
            self.lines,
            self.reading,
        )

    def recognise(
        self, name: str, *, is_lenient: bool = False, is_feature: bool = True
    ) -> tuple[ColumnKind, np.ndarray, str | None] | None:
        """The kind of a column of training data, its values, and a note for reports; None if it is
        neither numbers nor text. A column that is no feature may be an identifier.

        Raises:
          ValueError: as `jboost.data.recognition.recognise`. With `is_lenient`, such a column is
            read as text instead.
        """
        column = self._first_column(name) if is_lenient else self.column(name)
        if column is None:
            return self._recognise_typed(name)
        try:
            kind = (
                recognition.recognise_text(column, is_feature=is_feature)
                if self._is_typed_text(name)
                else recognition.recognise(column, is_feature=is_feature)
            )
            values = cells.to_texts(column) if kind.is_text else cells.to_numbers(column, kind)
        except ValueError:
            if not is_lenient:
                raise
            kind, values = ColumnKind(kinds.TEXT), cells.to_texts(column)
        return kind, values, cells.describe(column, kind, values)

    def read(self, name: str, kind: ColumnKind) -> np.ndarray:
        """The values of a column of a known kind."""
        column = self.column(name)
        if column is None:
            return (
                _typed_texts(self.frame[name]) if kind.is_text else self._typed_numbers(name, kind)
            )
        return cells.to_texts(column) if kind.is_text else cells.to_numbers(column, kind)

    def written(self, name: str) -> list[str | None]:
        """The cells of a column as written in the file, without surrounding blanks."""
        column = self.column(name)
        values = (
            _typed_texts(self.frame[name]).tolist()
            if column is None
            else column.cells.str.strip_chars().to_list()
        )
        return [value or None for value in values]

    def written_in_all_rows(self, name: str, num_rows: int) -> tuple[str, ...]:
        """The cells of a column in all rows [num_rows]; "" for a blank row, and for a row that ends
        before the column."""
        cells_of_whole, place = iter(self.written(name)), self.places[name][0]
        if self.records is None:
            return tuple(cell or "" for cell in cells_of_whole)
        fields_of_others = iter(self.records.fields_of_others())
        values = []
        for is_whole in self.records.is_whole[:num_rows]:
            values.append(
                next(cells_of_whole) or ""
                if is_whole
                else "".join(next(fields_of_others)[place : place + 1])
            )
        return tuple(values)

    def labels(self, name: str) -> tuple[list[str | None] | None, list[Any]]:
        """The labels as written in the file, and their values; None for missing labels."""
        column = self.column(name)
        if column is None:
            series = self.frame[name]
            _check_label_type(series, self.source)
            return None, series.to_list()
        given = self.reading.missing_values
        missing = {""} if given is None else self.reading.missing
        kept = {
            cell: None if cell.strip().lower() in missing else cell
            for cell in column.cells.unique()
        }
        values = kept if self.records is None else _values_of(kept)
        written = column.cells.to_list()
        return [kept[cell] for cell in written], [values[cell] for cell in written]

    def _is_typed_text(self, name: str) -> bool:
        """Whether a column of a typed file has a text type. Its cells may still be numbers."""
        return self.records is None and name not in self.reading.dates

    def _recognise_typed(self, name: str) -> tuple[ColumnKind, np.ndarray, str | None] | None:
        import polars

        series = self.frame[name]
        dtype = series.dtype
        if name in self.reading.categorical and (dtype.is_numeric() or dtype == polars.Boolean):
            values = _typed_texts(series)
            return ColumnKind(kinds.TEXT), values, None
        if dtype.is_numeric() or dtype in (polars.Boolean, polars.Null):
            kind = ColumnKind(kinds.TRUTH if dtype == polars.Boolean else kinds.NUMBER)
            values = self._typed_numbers(name, kind)
            is_large = (np.abs(values) >= cells.EXACT) & dtype.is_integer()
            integers = series.filter(is_large).unique().to_list() if is_large.any() else []
            return kind, values, cells.describe_merged(name, integers)
        if dtype not in (polars.Date, polars.Datetime) or name not in self.reading.dates:
            return None
        days = _days_of(series)
        kind = ColumnKind(
            kinds.DATE,
            order=dates.YEAR_FIRST,
            origin=float(np.floor(np.nanmin(days))) if not np.isnan(days).all() else 0.0,
        )
        return (
            kind,
            days - kind.origin,
            f"column '{name}' is read as days since {dates.text(kind.origin)}",
        )

    def _typed_numbers(self, name: str, kind: ColumnKind) -> np.ndarray:
        import polars

        series = self.frame[name]
        if series.dtype in (polars.Date, polars.Datetime) and kind.name == kinds.DATE:
            return _days_of(series) - kind.origin
        if (
            not (series.dtype.is_numeric() or series.dtype in (polars.Boolean, polars.Null))
            or kind.name == kinds.DATE
        ):
            raise ValueError(
                f"{self.source}: column '{name}' holds values of the type {series.dtype}: numbers"
                " are expected, as in training"
            )
        values: np.ndarray = series.cast(polars.Float64).to_numpy()
        if np.isinf(values).any():
            row = int(np.isinf(values).argmax())
            raise ValueError(
                f"{self.source}: column '{name}' holds {values[row]} in {where(row, self.lines)}: "
                "correct it, or leave the field empty if it is unknown"
            )
        return values


def open_file(path: str, reading: Reading, like: Reading = Reading()) -> DataFile:
    """Opens a file. Options that `reading` does not give are detected from the first lines, else
    taken from `like`."""
    content, kind = sources.open_source(path)
    source, separator = sources.source_name(path), sources.SEPARATORS.get(kind, ",")
    if not isinstance(content, bytes):
        spellings = (
            like.missing_values if reading.missing_values is None else reading.missing_values
        )
        return DataFile(
            source,
            kind,
            tuple(content.columns),
            content,
            dataclasses.replace(reading, missing_values=spellings),
            None,
            (),
        )
    data, encoding = dialect.decode(
        content, f"{source}: not readable as {kind}", reading.encoding, like.encoding
    )
    given = dataclasses.replace(
        reading,
        comment=reading.comment or like.comment,
        missing_values=(
            like.missing_values if reading.missing_values is None else reading.missing_values
        ),
    )
    found = dataclasses.replace(
        dialect.sniff(data, given, like.separator or separator, like.decimal), encoding=encoding
    )
    records = read_records(data, source, found)
    _check_names(source, records, found)
    return DataFile(
        source,
        kind,
        records.names,
        records.cells,
        found,
        records,
        _notes(records, found, separator),
    )


def _check_names(source: str, records: Records, reading: Reading) -> None:
    """Raises ValueError if the first line has no column names, or if all of them are in one
    field.
    """
    names = [name for name in records.names if name]
    if names and all(cells.plain_number(name, reading.decimal) is not None for name in names):
        raise ValueError(
            f"{source}: the first line holds numbers ({', '.join(names[:3])}, ...): expected a line"
            f" of column names (line {records.header_line})"
        )
    if len(records.names) == len(names) == 1:
        for separator, word in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
            if separator in names[0]:
                raise ValueError(
                    f"{source}: there is one column, '{names[0][:40]}': {word} separate the fields,"
                    " but the file is read otherwise"
                )


def _notes(records: Records, reading: Reading, separator: str) -> tuple[str, ...]:
    notes = list(records.notes)
    shown = reading.describe()
    told = [
        f"{key} {shown[key]}"
        for key, usual in (("separator", separator), ("decimal", "."))
        if getattr(reading, key) != usual
    ]
    told += [f"comments after {reading.comment}"] if reading.comment else []
    told += [f"encoding {reading.encoding}"] if reading.encoding != "utf-8" else []
    if told:
        notes.append(f"the file is read with {', '.join(told)}")
    unnamed = [place for place, name in enumerate(records.names, start=1) if not name]
    if any(not _is_empty(records.cells[:, place - 1]) for place in unnamed) and not records.notes:
        notes.append(f"column {', '.join(map(str, unnamed))} has no name and is left out")
    num_blank = int(records.is_blank.sum())
    if num_blank:
        notes.append(
            f"{num_blank} blank {'line was' if num_blank == 1 else 'lines were'} left out; rows are"
            " counted without"
        )
    return tuple(notes)


def _is_empty(series: Any) -> bool:
    return bool((series.str.strip_chars() == "").all())


def _days_of(series: Any) -> np.ndarray:
    """The days since 1970-01-01 of a column of dates, NaN where missing."""
    import polars

    moments = series.cast(polars.Datetime("us")).dt.timestamp("us").cast(polars.Float64)
    return np.array(moments.fill_null(np.nan).to_numpy()) / 86_400e6


def _typed_texts(series: Any) -> np.ndarray:
    """The values of a column of any type as text, with whole numbers without a fraction; None where
    missing."""
    return np.array(
        [None if value is None else label_text(value) for value in series.to_list()], dtype=object
    )


# --- labels ---------------------------------------------------------------------------------------
# -----------------------------


def _check_label_type(series: Any, source: str) -> None:
    import polars

    dtype = series.dtype
    if dtype.is_nested() or dtype in (polars.Binary, polars.Object):
        raise ValueError(
            f"{source}: column '{series.name}' holds values of the type {dtype}: labels are"
            " numbers, text, or true and false"
        )


def _values_of(kept: Mapping[str, str | None]) -> dict[str, Any]:
    """The values of the labels of a text file, by cell: numbers if all labels are numbers, truth
    values if all are truth values, else text."""
    readings: tuple[Callable[[str], Any], ...] = (_as_number, _as_truth)
    for reading in readings:
        values = {
            cell: None if text is None else reading(text.strip()) for cell, text in kept.items()
        }
        if all(values[cell] is not None for cell, text in kept.items() if text is not None):
            return values
    return {cell: None if text is None else text.strip() for cell, text in kept.items()}


def _as_number(text: str) -> Decimal | None:
    """The number that a text represents, exactly; None if it is not a number."""
    return Decimal(text) if cells.NUMERAL.fullmatch(text) else None


def _as_truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())
