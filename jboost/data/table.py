"""Tables: named columns of numbers or of text, and labels in {-1, +1}."""

from __future__ import annotations

import dataclasses
import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jboost.data.dialect import Reading
from jboost.data.kinds import ColumnKind


@dataclasses.dataclass(frozen=True)
class LabelMapping:
    """The values of the label column for the two classes."""

    column: str
    negative: str  # as text, the value that became -1
    positive: str  # as text, the value that became +1

    def to_text(self, signs: np.ndarray) -> list[str]:
        """The values of the label column for signs [k]."""
        return [self.positive if sign > 0 else self.negative for sign in signs]

    def __str__(self) -> str:
        return f"{self.column}: {self.negative} -> -1, {self.positive} -> +1"


class UsedColumns(NamedTuple):
    """The columns that a model uses."""

    numeric: tuple[str, ...]
    categorical: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Table:
    """The columns of one data set, in memory, on the host."""

    source: str  # the name of the file or data set in messages
    num_rows: int
    numeric: Mapping[str, np.ndarray]  # name -> [m] float64, NaN where missing
    categorical: Mapping[str, np.ndarray]  # name -> [m] object: str, None where missing
    missing: Mapping[str, int]  # name -> number of missing values, for columns with missing values
    labels: np.ndarray | None = None  # [m] float64, -1 or +1
    mapping: LabelMapping | None = None
    notes: tuple[str, ...] = ()  # notes for the report
    lines: np.ndarray | None = None  # [m] the line of a text file at which each row begins
    # name -> the kind of the column in the file
    kinds: Mapping[str, ColumnKind] = dataclasses.field(default_factory=dict)
    reading: Reading | None = None  # the options with which the file was read

    def line(self, row: int) -> str:
        """The line of a row in a text file, as the end of a message with the row number; "" if
        unknown."""
        return "" if self.lines is None else f" (line {self.lines[row]})"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that are not the label: numeric ones first."""
        return (*self.numeric, *self.categorical)

    def numbers(self, name: str) -> np.ndarray:
        """A column as numbers [m] without missing values.

        Raises:
          ValueError: naming the first invalid row and its value, if there is no such column, or a
            value is missing or is not a number.

        >>> table = Table("memory", 2, {"a": np.array([1.0, np.nan])}, {}, {"a": 1})
        >>> table.numbers("a")
        Traceback (most recent call last):
          ...
        ValueError: memory: column 'a' has no value in row 2: fill it in or drop the row
        """
        require_columns(self.source, [name], self.columns)
        values = self._numbers(name)
        if np.isnan(values).any():
            raise ValueError(
                f"{self.source}: column '{name}' has no value in"
                f" {where(int(np.isnan(values).argmax()), self.lines)}: fill it in or drop the row"
            )
        return values

    def weights(self, name: str) -> np.ndarray:
        """A column as weights [m]; rows of weight 0 do not count.

        Raises:
          ValueError: as `numbers`, and if a weight is a text or negative, or all are 0.
        """
        found = _first_text(self.categorical[name]) if name in self.categorical else None
        if found is not None:
            raise ValueError(
                f"{self.source}: the weights (--weights) are column '{name}', which holds"
                f" {found[1]!r} in row {found[0] + 1}{self.line(found[0])}: expected numbers from 0"
                " up; name another column, or leave --weights out"
            )
        values = self.numbers(name)
        if (values < 0).any():
            row = int((values < 0).argmax())
            raise ValueError(
                f"{self.source}: column '{name}' holds {values[row]:g} in row {row + 1}: "
                f"weights are not negative; a weight of 0 leaves the row out{self.line(row)}"
            )
        if len(values) and not values.any():
            raise ValueError(
                f"{self.source}: column '{name}' is 0 in all rows: at least one weight must be"
                " above 0; or leave --weights out"
            )
        return values

    def matrix(self, numeric: Sequence[str], categorical: Sequence[str]) -> np.ndarray:
        """The named columns as an array [m, N]: float64 if all are numeric, else object; NaN or
        None where missing.

        A column with only missing values may be in either list.

        Raises:
          ValueError: if a column is missing, or one of `numeric` holds text.
        """
        require_columns(self.source, [*numeric, *categorical], self.columns)
        parts = [self._numbers(name) for name in numeric] + [
            self._text(name) for name in categorical
        ]
        matrix = np.empty((self.num_rows, len(parts)), dtype=object if categorical else np.float64)
        for index, part in enumerate(parts):
            matrix[:, index] = part
        return matrix

    def without(self, names: Iterable[str]) -> Table:
        """This table without the columns of these names."""
        gone = set(names)
        return dataclasses.replace(
            self,
            numeric={name: values for name, values in self.numeric.items() if name not in gone},
            categorical={
                name: values for name, values in self.categorical.items() if name not in gone
            },
            missing={name: count for name, count in self.missing.items() if name not in gone},
        )

    def with_unused(
        self, numeric: Sequence[str], categorical: Sequence[str] = (), *, value: float = np.nan
    ) -> Table:
        """This table with added columns for the names that it lacks. A model that does not use them
        gets columns filled with `value`, or with missing text."""
        lacking = [name for name in numeric if name not in self.columns]
        texts = [name for name in categorical if name not in self.columns]
        return dataclasses.replace(
            self,
            numeric={**self.numeric, **{name: np.full(self.num_rows, value) for name in lacking}},
            categorical={
                **self.categorical,
                **{name: np.full(self.num_rows, None, dtype=object) for name in texts},
            },
        )

    def rows(self, chosen: np.ndarray) -> Table:
        """The rows of this table at the indices `chosen` [k], with new counts of missing values."""
        numeric = {name: values[chosen] for name, values in self.numeric.items()}
        categorical = {name: values[chosen] for name, values in self.categorical.items()}
        labels = None if self.labels is None else self.labels[chosen]
        lines = None if self.lines is None else self.lines[chosen]
        missing = count_missing(numeric, categorical)
        parts: dict[str, Any] = {
            "numeric": numeric,
            "categorical": categorical,
            "missing": missing,
            "labels": labels,
            "lines": lines,
        }
        return dataclasses.replace(self, num_rows=len(chosen), **parts)

    def _numbers(self, name: str) -> np.ndarray:
        """A column as numbers [m], NaN where missing. Raises ValueError, naming the first text."""
        if name in self.numeric:
            return self.numeric[name]
        found = _first_text(self.categorical[name])
        if found is None:
            return np.full(self.num_rows, np.nan)
        row, value = found
        raise ValueError(
            f"{self.source}: column '{name}' is not numeric: row {row + 1} holds"
            f" {value!r}{self.line(row)}; choose another column or correct the value"
        )

    def _text(self, name: str) -> np.ndarray:
        if name in self.categorical:
            return self.categorical[name]
        return np.array(
            [None if np.isnan(value) else _number_as_text(value) for value in self.numeric[name]],
            dtype=object,
        )


def where(row: int, lines: np.ndarray | None) -> str:
    """The position of a row for messages: its number and its line in the file.

    >>> where(0, np.array([2])), where(0, None)
    ('row 1 (line 2)', 'row 1')
    """
    return f"row {row + 1}" if lines is None else f"row {row + 1} (line {lines[row]})"


def count_missing(
    numeric: Mapping[str, np.ndarray], categorical: Mapping[str, np.ndarray]
) -> dict[str, int]:
    """The number of missing values of each column that has any."""
    counts = {name: int(np.isnan(values).sum()) for name, values in numeric.items()}
    counts |= {name: sum(value is None for value in values) for name, values in categorical.items()}
    return {name: count for name, count in counts.items() if count}


def require_columns(source: str, wanted: Sequence[str], columns: Sequence[str]) -> None:
    """Raises ValueError, naming the first of `wanted` that is not in `columns`, and similar
    names.
    """
    for name in wanted:
        if name not in columns:
            raise ValueError(
                f"{source}: there is no column '{name}';"
                f" {close_matches(name, columns, 'the columns are')}"
            )


def close_matches(name: str, options: Sequence[str], introduction: str) -> str:
    """'did you mean ...?', or all options if none is similar (the first dozen if there are many).

    >>> close_matches("agee", ["age", "height"], "the columns are")
    "did you mean 'age'?"
    >>> close_matches("x", ["age", "height"], "the columns are")
    'the columns are age, height'
    """
    lowered = {option.lower(): option for option in options}
    close = [
        lowered[match] for match in difflib.get_close_matches(name.lower(), list(lowered), n=3)
    ]
    if close:
        return f"did you mean {' or '.join(repr(match) for match in close)}?"
    rest = f", ... ({len(options)} in all)" if len(options) > 12 else ""
    return f"{introduction} {', '.join(options[:12])}{rest}"


def map_labels(
    source: str,
    column: str,
    values: Sequence[Any],
    *,
    written: Sequence[str | None] | None = None,
    positive: str | None = None,
    lines: np.ndarray | None = None,
) -> tuple[np.ndarray, LabelMapping, tuple[str, ...]]:
    """Labels -1 and +1 for two distinct values. The smaller value becomes -1; values are compared
    as numbers if both are numbers, else as text.

    Args:
      source: the name of the file or data set in messages.
      column: the name of the column.
      values: [m] numbers, booleans or text; None (or NaN) where missing.
      written: [m] the spellings in the file, for the mapping, such as 01, 1.0, true. If a value has
        several spellings, the most frequent one is used. None for the spelling of `label_text`.
      positive: the spelling of the class that becomes +1. All other values, of any number, become
        -1. None for the rule above.
      lines: [m] lines of the file, for messages.

    Returns:
      labels [m] float64; the mapping; and a note about the mapping, unless the values were -1 and
      +1.

    Raises:
      ValueError: with the row or the counts, if a label is missing, or if `positive` is None and
        there are not exactly two distinct values.

    >>> labels, mapping, notes = map_labels("memory", "y", ["no", "yes", "no"])
    >>> labels.tolist(), str(mapping)
    ([-1.0, 1.0, -1.0], 'y: no -> -1, yes -> +1')
    >>> str(map_labels("memory", "y", ["a", "b", "c"], positive="b")[1])
    'y: not b -> -1, b -> +1'
    """
    spellings = _count_spellings(source, column, values, written, lines)
    if len(spellings) < 2 or (len(spellings) > 2 and positive is None):
        remedy = (
            ", or name the class that is to be told from all others with --positive CLASS"
            if len(spellings) > 2
            else ""
        )
        raise ValueError(
            f"{source}: column '{column}' holds {_show_counts(spellings)}: labels take exactly two"
            f" values{remedy}"
        )
    names = {value: _commonest(written_as) for value, written_as in spellings.items()}
    if positive is None:
        first, second = sorted(spellings)
        mapping = LabelMapping(column, names[first], names[second])
    else:
        second = _class_named(source, column, positive, spellings)
        others = [name for value, name in names.items() if value != second]
        mapping = LabelMapping(
            column, others[0] if len(others) == 1 else f"not {names[second]}", names[second]
        )
    signs = {value: 1.0 if value == second else -1.0 for value in spellings}
    labels = np.array([signs[value] for value in values])
    is_plain = second == 1 and len(spellings) == 2 and -1 in spellings
    return labels, mapping, () if is_plain else (f"labels were mapped: {mapping}",)


def _count_spellings(
    source: str,
    column: str,
    values: Sequence[Any],
    written: Sequence[str | None] | None,
    lines: np.ndarray | None,
) -> dict[Any, Counter[Any]]:
    """How often each label has each spelling. Raises ValueError, naming the row, if one is missing.

    The arguments are those of `map_labels`.
    """
    counts = Counter(zip(values, values if written is None else written, strict=True))
    if any(value is None or value != value for value, _ in counts):
        row = next(row for row, value in enumerate(values) if value is None or value != value)
        raise ValueError(
            f"{source}: column '{column}' has no label in {where(row, lines)}: fill it in or drop"
            " the row"
        )
    spellings: dict[Any, Counter[Any]] = {}
    for (value, spelling), count in counts.items():
        spellings.setdefault(value, Counter())[spelling] = count
    return spellings


def _class_named(source: str, column: str, name: str, spellings: Mapping[Any, Counter[Any]]) -> Any:
    """The value with this spelling. Raises ValueError if there is none."""
    for value, counts in spellings.items():
        if name.strip() in {label_text(spelling).strip() for spelling in (value, *counts)}:
            return value
    known = [_commonest(counts) for counts in spellings.values()]
    raise ValueError(
        f"{source}: column '{column}' has no class '{name}' for --positive;"
        f" {close_matches(name, known, 'the classes are')}"
    )


def label_text(value: Any) -> str:
    """A label as text; whole numbers have no fraction."""
    return _number_as_text(value) if isinstance(value, float) else str(value)


def _number_as_text(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _commonest(spellings: Counter[Any]) -> str:
    return label_text(spellings.most_common(1)[0][0])


def _show_counts(spellings: Mapping[Any, Counter[Any]]) -> str:
    shown = ", ".join(
        f"{_commonest(one)} ({one.total()})"
        for one in sorted(spellings.values(), key=lambda one: -one.total())[:5]
    )
    return (
        f"{len(spellings)} distinct value{'s' if len(spellings) > 1 else ''},"
        f" {shown}{', ...' if len(spellings) > 5 else ''}"
    )


def _first_text(values: np.ndarray) -> tuple[int, str] | None:
    """The first row whose text is not a number, and the text. If all texts are numbers, the first
    text; None if all values are missing.
    """
    known = [(row, value) for row, value in enumerate(values) if value is not None]
    return next((entry for entry in known if not _is_number(entry[1])), known[0] if known else None)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
