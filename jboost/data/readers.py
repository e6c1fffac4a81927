"""Reads data files into tables: text files of any format, .parquet and .feather.

The files are read with polars. Unlike pandas it returns the text of a cell exactly as in the file,
which is needed to recognise the kind of a whole column. It parses with all cores, and it needs no
further dependency, whereas pandas needs pyarrow for .parquet. `jboost.data.dialect` detects the
format of a file, `jboost.data.records` the position of each record, and `jboost.data.cells`
converts columns of text.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jboost.data import cells
from jboost.data.data_file import DataFile, open_file
from jboost.data.dialect import MISSING, Reading
from jboost.data.kinds import ColumnKind
from jboost.data.table import Table, count_missing, map_labels, require_columns

if TYPE_CHECKING:
    import os

__all__ = ["MISSING", "NewRows", "Reading", "read_new_rows", "read_table"]

_MOST_NAMED = 3  # the largest number of categories in a message


@dataclasses.dataclass(frozen=True)
class NewRows:
    """Rows to predict, and what is wrong with rows that cannot be predicted."""

    table: Table  # of the rows that can be predicted, with the requested columns
    is_usable: np.ndarray  # [m] bool, of all rows
    reasons: tuple[str, ...]  # [m] why a row cannot be predicted, else ""
    id_name: str = ""  # the name of the column of identifiers
    ids: tuple[str, ...] | None = None  # [m], if there is such a column
    notes: tuple[str, ...] = ()  # notes for the user


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    text: Collection[str] = (),
    reading: Reading = Reading(),
    columns: Collection[str] | None = None,
    like: Reading = Reading(),
    no_features: Collection[str] = (),
) -> Table:
    """Reads a file of training data, and recognises numbers, categories, missing values and labels.

    Args:
      path: a text file such as .csv, .csv.gz, .tsv or .txt, which begins with a line of column
        names; .parquet or .feather; or "-", the standard input.
      label: the column with the labels, which take two values: any two numbers or texts. The
        smaller one becomes -1. The mapping is in the table and its notes, in the spelling of the
        file. None if there are no labels.
      text: columns that are categories, whatever their values, as in `reading.categorical`. Names
        of columns that do not exist are ignored.
      reading: options of the file format that the first lines do not show, and special columns.
      columns: the columns that matter, None for all. Another column that would raise an error is
        read as text.
      like: options of the file format that apply where neither `reading` nor the file tells
        otherwise, as for `read_new_rows`.
      no_features: columns that are not features, such as weights. They may be identifiers. Names
        of columns that do not exist are ignored.

    Returns:
      A `Table`. Columns of numbers, percentages, dates (of `reading.dates`) or true and false are
      numeric; text is categorical. Blank lines of a file of several columns are left out and not
      counted as rows. A note tells their number.

    Raises:
      ValueError: with a message of one line that tells the position and the remedy: for a cell that
        does not fit its column or is infinite, for a column of dates or identifiers, for a line
        with a wrong number of fields, and for labels that are missing or do not take two values.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("age;colour;ill\\n+31;red;no\\n n/a;blue;yes\\n")
    >>> table = read_table(path, label="ill")
    >>> table.columns, table.missing, table.labels.tolist(), table.reading.separator
    (('age', 'colour'), {'age': 1}, [-1.0, 1.0], ';')
    """
    file = open_file(
        str(path), dataclasses.replace(reading, categorical=(*reading.categorical, *text)), like
    )
    file.require_whole()
    named = [
        *reading.ignore,
        *reading.categorical,
        *reading.dates,
        *([reading.id] if reading.id else []),
        *([label] if label else []),
    ]
    require_columns(file.source, named, [name for name in file.names if name])
    left_out = {"", *reading.ignore, reading.id, label}
    chosen = [name for name in file.names if name not in left_out]
    numeric, categorical, kinds, notes = _recognise(file, chosen, columns, no_features)
    table = dataclasses.replace(_make_table(file, numeric, categorical), kinds=kinds)
    notes = [*file.notes, *notes]
    if label is None:
        return dataclasses.replace(table, notes=tuple(notes))
    written, meant = file.labels(label)
    labels, mapping, label_notes = map_labels(
        file.source, label, meant, written=written, positive=reading.positive, lines=file.lines
    )
    return dataclasses.replace(table, labels=labels, mapping=mapping, notes=(*notes, *label_notes))


class _Recognised(NamedTuple):
    """The values of the columns by name, and their kinds."""

    numeric: dict[str, np.ndarray]
    categorical: dict[str, np.ndarray]
    kinds: dict[str, ColumnKind]
    notes: list[str]


def _recognise(
    file: DataFile,
    names: Sequence[str],
    columns: Collection[str] | None,
    no_features: Collection[str],
) -> _Recognised:
    """Recognises the kinds of the named columns; the other arguments are those of `read_table`."""
    found, others = _Recognised({}, {}, {}, []), []
    for name in names:
        column = file.recognise(
            name,
            is_lenient=columns is not None and name not in columns,
            is_feature=name not in no_features,
        )
        if column is None:
            others.append(f"{name} ({file.frame[name].dtype})")
            continue
        kind, values, note = column
        found.kinds[name] = kind
        (found.categorical if kind.is_text else found.numeric)[name] = values
        found.notes.extend([note] if note else [])
    if others:
        found.notes.append(
            f"columns that are neither numbers nor text were left out: {', '.join(others)}"
        )
    return found


def _make_table(
    file: DataFile, numeric: dict[str, np.ndarray], categorical: dict[str, np.ndarray]
) -> Table:
    return Table(
        file.source,
        file.num_rows,
        numeric,
        categorical,
        count_missing(numeric, categorical),
        lines=file.lines,
        reading=file.reading,
    )


def read_new_rows(
    path: str | os.PathLike[str],
    kinds: Mapping[str, ColumnKind],
    *,
    reading: Reading = Reading(),
    like: Reading = Reading(),
) -> NewRows:
    """Reads the rows of a data file that a model should predict. Columns that are not in `kinds`
    are ignored.

    Args:
      path: as for `read_table`.
      kinds: the kinds of the columns that the model uses, from `Table.kinds` of the training data.
      reading: as for `read_table`; of its columns, only `id` is used.
      like: the options of the training data. They apply where neither `reading` nor the file tells
        otherwise. The column `id` may be absent.

    Returns:
      A `NewRows` with one entry for each row of the file. Blank lines at the end are not rows.

    Raises:
      ValueError: with a message of one line, if a column is missing, or a cell does not fit its
        kind.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "new.csv"
    >>> _ = path.write_text("who,age,colour\\na,31,?\\n\\nb\\n")
    >>> rows = read_new_rows(path, {"age": ColumnKind("number")}, reading=Reading(id="who"))
    >>> rows.table.numeric["age"].tolist(), rows.ids, [reason[:12] for reason in rows.reasons]
    ([31.0], ('a', '', 'b'), ['', 'a blank line', '1 field, and'])
    """
    file = open_file(str(path), reading, like)
    if reading.id is not None:
        require_columns(file.source, [reading.id], file.names)
    id_name = reading.id or like.id
    require_columns(file.source, list(kinds), [name for name in file.names if name])
    numeric: dict[str, np.ndarray] = {}
    categorical: dict[str, np.ndarray] = {}
    notes: list[str] = []
    for name, kind in kinds.items():
        values = file.read(name, kind)
        (categorical if kind.is_text else numeric)[name] = values
        if kind.is_text and kind.categories:
            notes += _unseen(name, values, kind, file.reading)
    table = _make_table(file, numeric, categorical)
    is_usable, reasons = file.flaws()
    if not len(is_usable):
        raise ValueError(f"{file.source}: the file has column names but no rows")
    ids = None
    if id_name is not None and id_name in file.names:
        ids = file.written_in_all_rows(id_name, len(is_usable))
    if not is_usable.all():
        notes.append(
            f"{int((~is_usable).sum())} of {len(is_usable)} rows cannot be predicted: the column"
            " 'note' says why"
        )
    return NewRows(table, is_usable, reasons, id_name or "", ids, tuple(notes))


def _unseen(name: str, values: np.ndarray, kind: ColumnKind, reading: Reading) -> list[str]:
    """Notes on categories that did not occur in training."""
    seen = set(kind.categories)
    unseen = Counter(value for value in values if value is not None and value not in seen)
    if not unseen:
        return []
    total = sum(unseen.values())
    named = ", ".join(
        f"{cells.shown(text)} ({count})" for text, count in unseen.most_common(_MOST_NAMED)
    ) + (", ..." if len(unseen) > _MOST_NAMED else "")
    numbers = sum(
        count
        for text, count in unseen.items()
        if cells.plain_number(text, reading.decimal) is not None
    )
    are_numbers = (
        f"; {numbers} of these are numbers, and the column was text in training" if numbers else ""
    )
    return [
        f"column '{name}': {total} value{'s' if total > 1 else ''} that training never saw:"
        f" {named}{are_numbers}"
    ]
