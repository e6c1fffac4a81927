"""Bounds as text. They are rounded outwards, so that a printed bound holds where the computed one
does, up to the rounding of a number with six digits to float64.
"""

from __future__ import annotations

import decimal
import math

_DIGITS = 6
_ROUNDINGS = 4 * 2.0**-52  # of such a number, relative


def lower_text(bound: float | None) -> str:
    """A lower bound with six digits, rounded down; "unknown" for None and NaN.

    >>> lower_text(1.93067656), lower_text(40.0), lower_text(0.1 + 0.2), lower_text(None)
    ('1.93067', '40', '0.3', 'unknown')
    """
    return _rounded(bound, decimal.ROUND_FLOOR)


def upper_text(bound: float | None) -> str:
    """An upper bound with six digits, rounded up; "unknown" for None and NaN.

    >>> upper_text(1 / 3), upper_text(123456789.0), upper_text(float("inf"))
    ('0.333334', '123456789', 'inf')
    """
    return _rounded(bound, decimal.ROUND_CEILING)


def _rounded(bound: float | None, rounding: str) -> str:
    if bound is None or math.isnan(bound):
        return "unknown"
    if math.isinf(bound):
        return f"{bound:g}"
    if float(bound).is_integer():
        return f"{bound:.0f}"
    nearest = float(f"{bound:.{_DIGITS}g}")
    if abs(nearest - bound) <= _ROUNDINGS * abs(bound):
        return f"{nearest:.{_DIGITS}g}"
    context = decimal.Context(prec=_DIGITS, rounding=rounding)
    return f"{float(context.create_decimal(decimal.Decimal(float(bound)))):.{_DIGITS}g}"
