"""The functions of an exported Python module that read a cell."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from jboost.data import dates
from jboost.data.kinds import DATE, GROUPED, PERCENT, TRUTH
from jboost.export import kinds
from jboost.export.types import ExportColumn

_NUMBER = '''

def _number(name, value):
    """A number; NaN for a missing one, and infinity where it is too large."""
    if value is None or isinstance(value, str) and not value.strip():
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        raise _refusal(name, value, "a number") from None


def _refusal(name, value, expected):
    return ValueError(f"column {name!r} holds {value!r}: {expected} is expected")
'''
_TEXT = '''

def _text(value):
    """A category as text; numbers among text are categories, too."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(int(value))
    number = float(value)
    if number != number:
        return None
    whole = number.is_integer() and abs(number) < 2**53
    return str(int(number)) if whole else repr(number)
'''
_TRUTH_TEXT = f'''

def _truth_text(value):
    """A boolean as text, also 1 and 0."""
    text, known = _text(value), {{"1": "{kinds.TRUE}", "0": "{kinds.FALSE}"}}
    return text if isinstance(value, str) else known.get(text, text)
'''
_TRUTH = '''

def _truth(name, value):
    """A boolean as 1 or 0."""
    known = {"true": 1.0, "false": 0.0}
    text = value.strip().lower() if isinstance(value, str) else ""
    return known[text] if text in known else _number(name, value)
'''
_PERCENT = '''

def _percent(name, value):
    """A percentage as a share; a number is a share."""
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        return _number(name, value)
    if not text.endswith("%"):
        raise _refusal(name, value, "a percentage such as 5%")
    return _number(name, text[:-1].strip().replace(",", ".") or "%") / 100
'''
_GROUPED = '''

def _grouped(name, value, group):
    """A number with thousands separators."""
    if isinstance(value, str):
        value = value.replace(group, "").replace(",", ".")
    return _number(name, value)
'''
_DATE = '''

def _date(name, value, order, origin):
    """A date in days since the origin; a number is already in days."""
    if isinstance(value, datetime.date) and value == value:
        value, order = value.isoformat(), "year first"
    if not isinstance(value, str) or not value.strip():
        return _number(name, None if value != value else value)
    found = days(value.strip(), order)
    if found is None:
        raise _refusal(name, value, f"a date ({order})")
    return found - origin
'''
_PATTERNS = ("_YEAR_FIRST", "_TWO", "_NAMED", "_COMPACT")
_CONSTANTS = ("YEAR_FIRST", "DAY_FIRST", "NAMED_MONTH", "_MONTHS", "_FIRST_YEAR_OF_TWO_DIGITS")


def call(column: ExportColumn) -> str:
    """Returns the expression of the value of a column in a row."""
    cell, kind = f"row[{column.name!r}]", column.kind
    if column.texts is not None:
        return f"{'_truth_text' if kinds.is_truth(column) else '_text'}({cell})"
    given = f"{column.name!r}, {cell}"
    if kind.name == DATE:
        return f"_date({given}, {kind.order!r}, {kind.origin!r})"
    if kind.name == GROUPED:
        return f"_grouped({given}, {kind.group!r})"
    function = {TRUTH: "_truth", PERCENT: "_percent"}.get(kind.name, "_number")
    return f"{function}({given})"


def imports(columns: Sequence[ExportColumn]) -> str:
    """Returns the import statements of the module."""
    used = ["datetime", "math", "re"] if _has_dates(columns) else ["math"]
    return "\n".join(f"import {name}" for name in used)


def functions(columns: Sequence[ExportColumn]) -> str:
    """Returns the source of the functions that `call` names."""
    source = ""
    if any(column.texts is None for column in columns):
        source += _NUMBER
    if any(column.texts is not None for column in columns):
        source += _TEXT
    if any(kinds.is_truth(column) for column in columns):
        source += _TRUTH_TEXT
    used = {column.kind.name for column in columns if column.texts is None}
    parsers = {TRUTH: _TRUTH, PERCENT: _PERCENT, GROUPED: _GROUPED}
    source += "".join(text for name, text in parsers.items() if name in used)
    return source + (_dates() if DATE in used else "")


def _has_dates(columns: Sequence[ExportColumn]) -> bool:
    return any(column.texts is None and column.kind.name == DATE for column in columns)


def _dates() -> str:
    """Returns the source of the parser of dates, which is that of `jboost.data.dates`."""
    constants = [f"{name} = {getattr(dates, name)!r}" for name in _CONSTANTS]
    constants += [f"{name} = re.compile({getattr(dates, name).pattern!r})" for name in _PATTERNS]
    constants.append("_EPOCH = datetime.datetime(1970, 1, 1)")
    sources = [inspect.getsource(part) for part in (dates.days, dates._days, dates._offset)]
    body = ["\n".join(constants), *(source.strip() for source in sources)]
    return "\n\n" + "\n\n\n".join(body) + "\n" + _DATE
