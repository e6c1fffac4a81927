"""The options for the format of a data file and for the roles of its columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jboost.cli.option import ANY_NUMBER, Option
from jboost.data.dialect import DECIMALS, Reading
from jboost.data.kinds import ColumnKind
from jboost.data.table import Table

_ALL = ("fit", "evaluate", "predict")
# The options that a model file stores, because prediction needs them.
_KEPT = ("separator", "decimal", "comment", "encoding", "missing_values", "id")

READING_OPTIONS = (
    Option(
        "positive",
        str,
        None,
        "Class that becomes +1; all other classes become -1. Required for more than two classes.",
        metavar="CLASS",
    ),
    Option(
        "id",
        str,
        None,
        "Column that identifies the rows. It is not a feature, and it is copied to the"
        " predictions.",
        commands=_ALL,
        metavar="COLUMN",
    ),
    Option(
        "ignore",
        str,
        (),
        "Column to leave out. May be repeated.",
        num_values=ANY_NUMBER,
        metavar="COLUMN",
    ),
    Option(
        "categorical",
        str,
        (),
        "Column to read as categories, even if it holds numbers. May be repeated.",
        num_values=ANY_NUMBER,
        metavar="COLUMN",
    ),
    Option(
        "date",
        str,
        (),
        "Column of dates, read as days since the first date. May be repeated.",
        num_values=ANY_NUMBER,
        metavar="COLUMN",
    ),
    Option(
        "separator",
        str,
        None,
        "Character between fields, or tab or space. By default it is detected from the first"
        " lines.",
        commands=_ALL,
        metavar="CHARACTER",
    ),
    Option(
        "decimal",
        DECIMALS,
        None,
        "Decimal sign. By default it is detected from the first lines.",
        commands=_ALL,
    ),
    Option(
        "comment",
        str,
        None,
        "Prefix of lines to leave out. By default it is # if the file begins with it.",
        commands=_ALL,
        metavar="TEXT",
    ),
    Option(
        "encoding",
        str,
        None,
        "Encoding of text: utf-8, utf-16, cp1252, latin-1, ... By default UTF-8, or UTF-16 if it"
        " is detected.",
        commands=_ALL,
        metavar="NAME",
    ),
    Option(
        "missing_values",
        str,
        None,
        "Spellings of a missing value, separated by commas and compared without case, as in NA,-;"
        " they apply to the label too. By default NA, N/A, #N/A, NaN, null, None and ?, and - in"
        " numeric columns; the default does not apply to the label. An empty field is always"
        " missing.",
        commands=_ALL,
        metavar="LIST",
    ),
)


def make_reading(values: Mapping[str, Any]) -> Reading:
    """Returns the `Reading` for the given option values.

    Options that the command does not have are absent from `values`.

    Raises:
      ValueError: if a value is invalid. The message names the option.
    """
    spellings = values.get("missing_values")
    return Reading(
        separator=values.get("separator"),
        decimal=values.get("decimal"),
        comment=values.get("comment"),
        encoding=values.get("encoding"),
        missing_values=None if spellings is None else tuple(spellings.split(",")),
        ignore=values.get("ignore", ()),
        id=values.get("id"),
        categorical=values.get("categorical", ()),
        dates=values.get("date", ()),
        positive=values.get("positive"),
    )


def keep_reading(table: Table) -> dict[str, Any] | None:
    """Returns the description of the training file that a model file stores.

    It is None for an embedded data set.
    """
    if table.reading is None:
        return None
    columns = {name: dataclasses.asdict(kind) for name, kind in table.kinds.items()}
    for name, values in table.categorical.items():
        columns[name]["categories"] = sorted({value for value in values if value is not None})
    return {**{name: getattr(table.reading, name) for name in _KEPT}, "columns": columns}


def recall_reading(kept: Mapping[str, Any]) -> tuple[dict[str, ColumnKind], Reading]:
    """Returns the kinds of columns and the `Reading` that a model file stores.

    They are absent if an older version of jboost wrote the file.
    """
    kinds = {
        name: ColumnKind(**{**kind, "categories": tuple(kind["categories"])})
        for name, kind in kept.get("columns", {}).items()
    }
    spellings = kept.get("missing_values")
    values: dict[str, Any] = {name: kept.get(name) for name in _KEPT if name != "missing_values"}
    return kinds, Reading(missing_values=None if spellings is None else tuple(spellings), **values)


def require_file(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """Raises ValueError if an option for files is given with an embedded data set.

    If `--data` is a flag, it replaces the file of the configuration file. The configured options
    for that file are then reset to their defaults instead.
    """
    for option in READING_OPTIONS:
        if is_flag.get(option.name) or (
            values[option.name] != option.default and not is_flag.get("data")
        ):
            flag = "--" + option.name.replace("_", "-")
            raise ValueError(
                f"{values['data']}: {flag} is about a file, and the data set is embedded: leave"
                " it out"
            )
        values[option.name] = option.default
