"""Converts dates in common formats to days."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable

YEAR_FIRST, DAY_FIRST, MONTH_FIRST, NAMED_MONTH = (
    "year first",
    "day first",
    "month first",
    "named month",
)
_TIME = (
    r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?"
    r"\s*(?P<zone>Z|[+-]\d{2}:?\d{2})?)?"
)
_YEAR_FIRST = re.compile(r"(?P<year>\d{4})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})" + _TIME)
_TWO = re.compile(
    r"(?P<first>\d{1,2})([-/.])(?P<second_part>\d{1,2})\2(?P<year>\d{4}|\d{2})" + _TIME
)
_NAMED = re.compile(
    r"(?:(?P<day>\d{1,2})[-. ]+(?P<name>[A-Za-z]{3,9})|(?P<name2>[A-Za-z]{3,9})"
    r" +(?P<day2>\d{1,2}),?)[-,. ]+(?P<year>\d{4}|\d{2})" + _TIME
)
_COMPACT = re.compile(r"(?P<year>(?:19|20)\d{2})(?P<month>\d{2})(?P<day>\d{2})")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST_YEAR_OF_TWO_DIGITS = 69  # as POSIX has it: 69 is 1969, and 68 is 2068


def days(text: str, order: str) -> float | None:
    """The days from 1970-01-01 to a date, with the time of day as a fraction; None if the text is
    not a date in this order.

    >>> (
    ...     days("1970-01-02", YEAR_FIRST),
    ...     days("2.1.1970 12:00", DAY_FIRST),
    ...     days("01/31/1970", MONTH_FIRST),
    ...     days("31/01/1970", MONTH_FIRST),
    ... )
    (1.0, 1.5, 30.0, None)
    """
    if order == YEAR_FIRST:
        match = _YEAR_FIRST.fullmatch(text) or _COMPACT.fullmatch(text)
        return match and _days(match, match["year"], match["month"], match["day"])
    if order == NAMED_MONTH:
        match = _NAMED.fullmatch(text)
        name = ((match["name"] or match["name2"]).lower()[:3]) if match else ""
        return (
            _days(match, match["year"], str(_MONTHS.index(name) + 1), match["day"] or match["day2"])
            if match and name in _MONTHS
            else None
        )
    match = _TWO.fullmatch(text)
    if match is None:
        return None
    day, month = (
        (match["first"], match["second_part"])
        if order == DAY_FIRST
        else (match["second_part"], match["first"])
    )
    return _days(match, match["year"], month, day)


def is_date(text: str) -> bool:
    """Whether a text is a date in any order. A whole number is not a date."""
    return not text.isdigit() and any(
        days(text, order) is not None for order in (YEAR_FIRST, DAY_FIRST, MONTH_FIRST, NAMED_MONTH)
    )


def order_of(texts: Iterable[str]) -> tuple[str, ...]:
    """The orders in which all texts are dates. If there are several, the order is ambiguous.

    >>> order_of(["3/4/2020", "13/4/2020"]), order_of(["3/4/2020"]), order_of(["3.4.2020"])
    (('day first',), ('day first', 'month first'), ('day first',))
    """
    texts = tuple(texts)
    orders = tuple(
        one
        for one in (YEAR_FIRST, DAY_FIRST, MONTH_FIRST, NAMED_MONTH)
        if all(days(text, one) is not None for text in texts)
    )
    if len(orders) == 2 and all("." in text.split(" ")[0] for text in texts):
        return (DAY_FIRST,)  # dates with points have the day first
    if len(orders) == 2 and all(days(text, orders[0]) == days(text, orders[1]) for text in texts):
        return orders[:1]
    return orders


def text(number: float) -> str:
    """A date in the format of ISO 8601."""
    moment = _EPOCH + datetime.timedelta(days=number)
    return (
        moment.date().isoformat()
        if float(number).is_integer()
        else moment.isoformat(sep=" ", timespec="seconds")
    )


def _days(match: re.Match[str], year: str, month: str, day: str) -> float | None:
    parts = match.groupdict()
    century = 0 if len(year) > 2 else 1900 if int(year) >= _FIRST_YEAR_OF_TWO_DIGITS else 2000
    try:
        date = datetime.datetime(century + int(year), int(month), int(day))
        hour, minute, second = (
            int(parts.get("hour") or 0),
            int(parts.get("minute") or 0),
            float(parts.get("second") or 0),
        )
        if hour > 23 or minute > 59 or second >= 60:
            return None
        moment = (
            date
            + datetime.timedelta(hours=hour, minutes=minute, seconds=second)
            - _offset(parts.get("zone"))
        )
    except (ValueError, OverflowError):
        return None
    return (moment - _EPOCH) / datetime.timedelta(days=1)


def _offset(zone: str | None) -> datetime.timedelta:
    """The offset of a time zone from universal time."""
    if zone is None or zone == "Z":
        return datetime.timedelta()
    size = datetime.timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    return -size if zone[0] == "-" else size
