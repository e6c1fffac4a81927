"""SQL expressions that read a cell of a table, for SQLite and DuckDB.

A cell of a column of numbers may be a text. Both databases would stop, or take its first digits.
The expressions are NULL for a text that is no number of the kind of its column.
"""

from __future__ import annotations

from jboost.data.dates import DAY_FIRST, MONTH_FIRST, YEAR_FIRST
from jboost.data.kinds import DATE, GROUPED, PERCENT, TRUTH
from jboost.export import intervals, kinds
from jboost.export.types import ExportColumn

_TEXTS = "('text', 'VARCHAR')"  # the names of the type of text
_DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)  # each month
_EPOCH = 719_528  # the days from the year 0 to 1970-01-01


def identifier(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def value(column: ExportColumn) -> str:
    """Returns the value of a column of the table d, NULL if it is missing or unreadable."""
    cell = f"d.{identifier(column.name)}"
    if column.texts is not None:
        return _truth_text(cell) if kinds.is_truth(column) else _text(cell)
    text = f"TRIM(CAST({cell} AS VARCHAR))"
    parsed = _date(text, column) if column.kind.name == DATE else _parsed(text, column)
    number = f"NULLIF(CAST({cell} AS DOUBLE PRECISION), 'NaN')"  # SQLite has no NaN
    return f"CASE WHEN {_is_text(cell, column)} THEN {parsed} ELSE {number} END"


def is_unreadable(column: ExportColumn, found: str) -> str:
    """Returns the condition that a cell is neither missing nor a number of its kind.

    Args:
      column: a column of numbers.
      found: the name of its `value`.
    """
    cell = f"d.{identifier(column.name)}"
    return f"({found} IS NULL AND {_is_text(cell, column)} AND TRIM(CAST({cell} AS VARCHAR)) <> '')"


def _is_text(cell: str, column: ExportColumn) -> str:
    is_text = f"TYPEOF({cell}) IN {_TEXTS}"
    if column.kind.name != DATE:
        return is_text
    return f"({is_text} OR TYPEOF({cell}) = 'DATE' OR TYPEOF({cell}) LIKE 'TIMESTAMP%')"


def _parsed(text: str, column: ExportColumn) -> str:
    """Returns the number of a text, NULL if it does not fit the kind of a column."""
    fits, number = _fitting(text, column)
    return f"CASE WHEN {fits} THEN {number} END"


def _fitting(text: str, column: ExportColumn) -> tuple[str, str]:
    """Returns the condition that a text fits the kind of a column, and its number."""
    kind = column.kind
    if kind.name == TRUTH:
        lower = f"LOWER({text})"
        number = _double(text)
        return (
            f"({lower} IN ('true', 'false') OR {_is_number(text)})",
            f"CASE {lower} WHEN 'true' THEN 1e0 WHEN 'false' THEN 0e0 ELSE {number} END",
        )
    if kind.name == PERCENT:
        share = f"REPLACE(TRIM(SUBSTR({text}, 1, LENGTH({text}) - 1)), ',', '.')"
        fits = f"{text} LIKE '%\\%' ESCAPE '\\' AND {_is_number(share)}"
        return fits, f"{_double(share)} / 100e0"
    if kind.name == GROUPED:
        group = kind.group.replace("'", "''")
        plain = f"REPLACE(REPLACE({text}, '{group}', ''), ',', '.')"
        return _is_number(plain), _double(plain)
    return _is_number(text), _double(text)


def _double(text: str) -> str:
    return f"CAST({text} AS DOUBLE PRECISION)"


def _is_number(text: str) -> str:
    """Returns the condition that a text is a decimal number, and no date or code such as E10."""
    conditions = [
        f"{text} GLOB '*[0-9]*'",
        f"TRIM({text}, '0123456789.eE+-') = ''",
        *(
            f"NOT {text} GLOB '{pattern}'"
            for pattern in ("[eE]*", "*[0-9.]-*", "*[0-9.]+*", "*.*.*")
        ),
    ]
    return f"({' AND '.join(conditions)})"


def _date(text: str, column: ExportColumn) -> str:
    """Returns the days from the origin to a date, NULL if a text is none.

    The text is brought into the form 2024-01-31 in a subquery, so that the expression is short.
    """
    year, month, day = (
        {DAY_FIRST: ("7, 4", "4, 2", "1, 2"), MONTH_FIRST: ("7, 4", "1, 2", "4, 2")}
    ).get(column.kind.order, ("1, 4", "6, 2", "9, 2"))
    places = (5, 8) if year == "1, 4" else (3, 6)
    marks = [f"SUBSTR({text}, {place}, 1)" for place in places]
    parts = " || '-' || ".join(f"SUBSTR({text}, {part})" for part in (year, month, day))
    compact = " || '-' || ".join(f"SUBSTR({text}, {part})" for part in ("1, 4", "5, 2", "7, 2"))
    cases = f"WHEN {marks[0]} IN ('-', '/', '.') AND {marks[1]} = {marks[0]}"
    cases += f" THEN {parts} || SUBSTR({text}, 11)"
    if column.kind.order == YEAR_FIRST:
        cases += f" WHEN LENGTH({text}) = 8 AND TRIM({text}, '0123456789') = '' THEN {compact}"
    origin = intervals.decimal(-column.kind.origin)
    return (
        f"(SELECT CASE WHEN {_is_date('t.t')} THEN {_days('t.t')} + ({origin}) END"
        f" FROM (SELECT CASE {cases} ELSE {text} END AS t) AS t)"
    )


def _is_date(text: str) -> str:
    """Returns the condition that a text is a date as 2024-01-31, with or without a time of day."""
    digits = "[0-9][0-9]"
    month, day, time = (f"SUBSTR({text}, {start})" for start in ("6, 2", "9, 2", "11"))
    last = f"CASE {month} WHEN '02' THEN '29' {_thirty()} ELSE '31' END"
    clock = (
        f"SUBSTR({text}, 11, 6) GLOB '[ T]{digits}:{digits}' AND SUBSTR({text}, 12, 2) <= '23'"
        f" AND SUBSTR({text}, 15, 2) <= '59'"
    )
    seconds = (
        f"SUBSTR({text}, 17) GLOB ':[0-5][0-9]*' AND TRIM(SUBSTR({text}, 18), '0123456789') IN"
        f" ('', '.') AND (LENGTH({text}) = 19 OR SUBSTR({text}, 20, 1) = '.')"
    )
    return (
        f"(SUBSTR({text}, 1, 10) GLOB '{digits}{digits}-{digits}-{digits}' AND {month} BETWEEN '01'"
        f" AND '12' AND {day} BETWEEN '01' AND {last} AND ({time} = '' OR {clock}"
        f" AND (LENGTH({text}) = 16 OR {seconds})))"
    )


def _thirty() -> str:
    return " ".join(f"WHEN '{month:02}' THEN '30'" for month in (4, 6, 9, 11))


def _days(text: str) -> str:
    """Returns the days from 1970-01-01 to a date, from microseconds as `jboost.data.dates`."""
    year, day, hour, minute = (
        f"CAST(SUBSTR({text}, {start}) AS INTEGER)" for start in ("1, 4", "9, 2", "12, 2", "15, 2")
    )
    month = f"SUBSTR({text}, 6, 2)"
    # The leap years before the date.
    last = f"({year} - CASE WHEN {month} <= '02' THEN 1 ELSE 0 END)"
    leaps = " ".join(
        f"{sign} ({last} - {last} % {period}) / {period}"
        for sign, period in (("+", 4), ("-", 100), ("+", 400))
    )
    before = " ".join(f"WHEN '{i + 1:02}' THEN {days}" for i, days in enumerate(_DAYS_BEFORE))
    days = f"365 * {year} {leaps} + CASE {month} {before} END + {day} - {_EPOCH}"
    seconds = (
        f"CASE WHEN LENGTH({text}) > 10 THEN {hour} * 3600e0 + {minute} * 60e0 ELSE 0e0 END"
        f" + CASE WHEN LENGTH({text}) > 16 THEN {_double(f'SUBSTR({text}, 18)')} ELSE 0e0 END"
    )
    return f"(({days}) * 86400e6 + ROUND(({seconds}) * 1e6)) / 86400e6"


def _text(cell: str) -> str:
    """Returns an expression of a category as text. SQLite holds numbers among text, and writes a
    whole number that is REAL as 1.0, where the binarizer writes 1.
    """
    text = f"CAST({cell} AS VARCHAR)"
    is_whole = f"TYPEOF({cell}) = 'real' AND {text} LIKE '%.0'"
    return f"CASE WHEN {is_whole} THEN SUBSTR({text}, 1, LENGTH({text}) - 2) ELSE {text} END"


def _truth_text(cell: str) -> str:
    """Returns an expression of a boolean as text. SQLite holds it as a number."""
    text = f"CAST({cell} AS VARCHAR)"
    return (
        f"CASE WHEN TYPEOF({cell}) IN {_TEXTS} THEN {text}"
        f" WHEN {text} IN ('true', '1', '1.0') THEN '{kinds.TRUE}'"
        f" WHEN {text} IN ('false', '0', '0.0') THEN '{kinds.FALSE}' ELSE {text} END"
    )
