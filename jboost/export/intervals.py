"""Translates comparisons of a model in its own precision to comparisons of float64 numbers.

A float32 model rounds a number x to h(x) before a comparison: to the nearest float32 number, and
subnormal numbers to 0, as XLA does on CPUs. h is monotone. The condition h(x) <= h(t) is therefore
equivalent to x <= at_most(t) for a float64 number at_most(t). Exported code uses these thresholds
and needs no 32-bit arithmetic.
"""

from __future__ import annotations

import fractions
import functools
import math

import numpy as np

_TOP_BIT = 1 << 63
# Decimals of this many digits fit into a 64-bit integer, in which parsers accumulate the digits.
_MOST_DIGITS = 18


def held(value: float, precision: str) -> float:
    """Rounds a number as a model of this precision does.

    >>> held(0.1, "float32"), held(1e-40, "float32"), held(1e39, "float32")
    (0.10000000149011612, 0.0, inf)
    """
    dtype = np.dtype(precision)
    with np.errstate(over="ignore", under="ignore"):
        rounded = float(np.float64(value).astype(dtype))
    return 0.0 if abs(rounded) < float(np.finfo(dtype).tiny) else rounded


@functools.lru_cache(maxsize=1 << 16)
def at_most(limit: float, precision: str) -> float:
    """Returns the greatest float64 number x with held(x) <= held(limit).

    >>> at_most(0.5, "float64"), at_most(0.5, "float32")
    (0.5, 0.5000000298023224)
    """
    rounded = held(limit, precision)
    # Bisection over the order of the float64 numbers. `low` always satisfies the condition.
    low, high = _rank(-math.inf), _rank(math.inf)
    while low < high:
        middle = (low + high + 1) // 2
        if held(_number(middle), precision) <= rounded:
            low = middle
        else:
            high = middle - 1
    return _number(low)


def at_least(limit: float, precision: str) -> float:
    """Returns the least float64 number x with held(x) >= held(limit)."""
    return -at_most(-limit, precision)


def above(limit: float, precision: str) -> float:
    """Returns the least float64 number x with held(x) > held(limit); NaN if there is none."""
    end = at_most(limit, precision)
    return math.nan if end == math.inf else math.nextafter(end, math.inf)


@functools.lru_cache(maxsize=1 << 16)
def decimal(value: float) -> str:
    """Returns a finite number as the shortest decimal that inexact parsers also read back.

    The parser may have an error of a quarter of the distance between neighbouring float64 numbers.
    SQLite before 3.43 does not round all decimals to the nearest number, so that `repr` is not
    sufficient.

    >>> decimal(54.5), decimal(0.5000000298023224), decimal(-1.0)
    ('5.45e+01', '5.000000298023224e-01', '-1e+00')
    """
    exact = fractions.Fraction(value)
    slack = fractions.Fraction(math.ulp(value)) / 8
    for digits in range(1, _MOST_DIGITS):
        text = f"{value:.{digits - 1}e}"
        if abs(fractions.Fraction(text) - exact) <= slack:
            return text
    return f"{value:.{_MOST_DIGITS - 1}e}"


def _rank(value: float) -> int:
    """Returns the rank of a number in the order of the float64 numbers; the rank of 0 is 0."""
    bits = int(np.float64(value).view(np.uint64))
    return -(bits - _TOP_BIT) if bits >= _TOP_BIT else bits


def _number(rank: int) -> float:
    """Returns the float64 number of this rank."""
    bits = _TOP_BIT - rank if rank < 0 else rank
    return float(np.uint64(bits).view(np.float64))
