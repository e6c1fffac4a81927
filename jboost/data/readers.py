"""Data files into tables: text files of any dialect, .parquet and .feather.

polars reads them. Of the two libraries that people know it is the one that gives back the text of a
cell as it stands in the file, which is needed to decide by whole columns; it parses with all cores,
and brings no further dependency, where pandas needs pyarrow for .parquet. What polars leaves open
is in `jboost.data.dialect` (how a file is written), `jboost.data.records` (where a record stands)
and `jboost.data.cells` (what a column of text means).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from jboost.data import cells
from jboost.data.data_file import open_file
from jboost.data.dialect import MISSING, Reading
from jboost.data.kinds import Kind
from jboost.data.table import Table, count_missing, map_labels, require_columns

if TYPE_CHECKING:
    import os

__all__ = ["MISSING", "NewRows", "Reading", "read_new_rows", "read_table"]

_MOST_NAMED = 3  # categories in a message


@dataclasses.dataclass(frozen=True)
class NewRows:
    """Rows to predict: those that can be, and what is wrong with the others."""

    table: Table  # of the rows that can be predicted, with the requested columns
    is_usable: np.ndarray  # [m] bool, of all rows
    reasons: tuple[str, ...]  # [m] why a row cannot be predicted, "" where it can
    id_name: str = ""  # of the column of identifiers
    ids: tuple[str, ...] | None = None  # [m], if there are any
    notes: tuple[str, ...] = ()  # what a user should know


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    text: Collection[str] = (),
    reading: Reading = Reading(),
    columns: Collection[str] | None = None,
) -> Table:
    """Reads a data file to learn from, and tells numbers, categories, missing values and labels
    apart.

    Args:
      path: a text file such as .csv, .csv.gz, .tsv or .txt, which begins with a line of column
        names; .parquet or .feather; or "-", the standard input.
      label: the column with the labels, which take two values: any two numbers or texts, the
        smaller of which becomes -1 (the mapping is in the table and its notes; it spells them as a
        text file does). None where there are none.
      text: columns that are categories whatever is in them, as in `reading.categorical`; those that
        are not there are not missed.
      reading: how the file is written, as far as its first lines do not show it, and which columns
        are special.
      columns: those that matter, None for all. What would be refused in another one makes it text.

    Returns:
      A `Table`. Columns of numbers, percentages, dates (of `reading.dates`) or true and false are
      numeric, text is categorical. Blank lines of a file of several columns are left out, and a
      note says how many; rows are counted without them.

    Raises:
      ValueError: in one line that says where and what to do: column, line and cell for what does
        not fit its column or is infinite; the column where it holds dates or identifiers; the line
        where fields are missing or there are too many; and where labels are missing or do not take
        two values.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("age;colour;ill\\n+31;red;no\\n n/a;blue;yes\\n")
    >>> table = read_table(path, label="ill")
    >>> table.columns, table.missing, table.labels.tolist(), table.reading.separator
    (('age', 'colour'), {'age': 1}, [-1.0, 1.0], ';')
    """
    file = open_file(
        str(path), dataclasses.replace(reading, categorical=(*reading.categorical, *text))
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
    numeric: dict[str, np.ndarray] = {}
    categorical: dict[str, np.ndarray] = {}
    kinds: dict[str, Kind] = {}
    notes, others = list(file.notes), []
    for name in chosen:
        found = file.recognise(name, is_lenient=columns is not None and name not in columns)
        if found is None:
            others.append(f"{name} ({file.frame[name].dtype})")
            continue
        kinds[name], values, note = found
        (categorical if kinds[name].is_text else numeric)[name] = values
        notes += [note] if note else []
    if others:
        notes.append(
            f"columns that are neither numbers nor text were left out: {', '.join(others)}"
        )
    table = Table(
        file.source,
        file.num_rows,
        numeric,
        categorical,
        count_missing(numeric, categorical),
        lines=file.lines,
        kinds=kinds,
        reading=file.reading,
    )
    if label is None:
        return dataclasses.replace(table, notes=tuple(notes))
    written, meant = file.labels(label)
    labels, mapping, label_notes = map_labels(
        file.source, label, meant, written=written, positive=reading.positive, lines=file.lines
    )
    return dataclasses.replace(table, labels=labels, mapping=mapping, notes=(*notes, *label_notes))


def read_new_rows(
    path: str | os.PathLike[str],
    kinds: Mapping[str, Kind],
    *,
    reading: Reading = Reading(),
    like: Reading = Reading(),
) -> NewRows:
    """Reads the rows of a data file that a model is to predict; whatever is in columns other than
    those of `kinds` does not matter.

    Args:
      path: as for `read_table`.
      kinds: how the columns are read that the model uses, as `Table.kinds` of the training data.
      reading: as for `read_table`; of its columns, `id` alone.
      like: how the training data were read, which holds where neither `reading` nor the file says
        otherwise; a file may lack its `id`.

    Returns:
      A `NewRows`, one row for each of the file; blank lines at its end are none.

    Raises:
      ValueError: in one line, where a column is missing, or a cell of it does not fit its kind.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "new.csv"
    >>> _ = path.write_text("who,age,colour\\na,31,?\\n\\nb\\n")
    >>> rows = read_new_rows(path, {"age": Kind("number")}, reading=Reading(id="who"))
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
    table = Table(
        file.source,
        file.num_rows,
        numeric,
        categorical,
        count_missing(numeric, categorical),
        lines=file.lines,
        reading=file.reading,
    )
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


def _unseen(name: str, values: np.ndarray, kind: Kind, reading: Reading) -> list[str]:
    """What a user should know of categories that training did not see."""
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
