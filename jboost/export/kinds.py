"""The kinds of columns whose cells are parsed to numbers before a model reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jboost.base import words
from jboost.data import dates
from jboost.data.kinds import DATE, GROUPED, PERCENT, TRUTH, ColumnKind
from jboost.export.types import ExportColumn

TRUE, FALSE = "True", "False"  # the texts of the booleans of a DataFrame


def is_truth(column: ExportColumn) -> bool:
    """Whether the categories of a column are the texts of booleans."""
    return bool(column.texts) and set(column.texts or ()) <= {TRUE, FALSE}


def check(kinds: Any, target: str) -> Mapping[str, ColumnKind]:
    """Returns the kinds by name. Raises ValueError if they are no mapping of `ColumnKind`."""
    if kinds is None:
        return {}
    if not isinstance(kinds, Mapping):
        raise ValueError(
            f"kinds is of the type {type(kinds).__name__}: jboost.export.{target} expects a mapping"
            " from names of columns to jboost.data.kinds.ColumnKind"
        )
    for name, kind in kinds.items():
        if not isinstance(kind, ColumnKind):
            raise ValueError(
                f"kinds[{name!r}] is of the type {type(kind).__name__}: expected a"
                " jboost.data.kinds.ColumnKind"
            )
    return kinds


def reading(column: ExportColumn) -> str | None:
    """How the number of a column is made of its cells; None if the cells are numbers or texts."""
    name, kind = words.quoted(column.name), column.kind
    if column.texts is not None:
        return None
    if kind.name == TRUTH:
        return f"{name} is 1 for true and 0 for false"
    if kind.name == PERCENT:
        return f"{name} is a share: 5% is 0.05"
    if kind.name == GROUPED:
        return f"{name} has no thousands separators: 1{kind.group}200 is 1200"
    if kind.name == DATE:
        return f"{name} is in days since {dates.text(kind.origin)}"
    return None


def readings(columns: tuple[ExportColumn, ...]) -> dict[str, str]:
    """What `reading` says of the columns, by name."""
    found = {column.name: reading(column) for column in columns}
    return {name: text for name, text in found.items() if text is not None}
