"""Comparisons of a model in its own precision as comparisons of float64 numbers.

A model of float32 rounds a number x to h(x) before it compares: to the nearest float32, and a
subnormal one to 0, as XLA does on CPUs. h is monotone. So the numbers with h(x) <= h(t) are those
up to one float64 number, which `at_most` finds, and h(x) <= h(t) is the same as x <= at_most(t).
Exported code compares float64 numbers with these ends, and needs no arithmetic of 32 bits.
"""

from __future__ import annotations

import fractions
import functools
import math

import numpy as np

_TOP_BIT = 1 << 63
# A decimal of so many digits fits into an integer of 64 bits, which parsers of numbers start from.
_MOST_DIGITS = 18


def held(value: float, precision: str) -> float:
    """A number as a model of this precision holds it.

    >>> held(0.1, "float32"), held(1e-40, "float32"), held(1e39, "float32")
    (0.10000000149011612, 0.0, inf)
    """
    dtype = np.dtype(precision)
    with np.errstate(over="ignore", under="ignore"):
        rounded = float(np.float64(value).astype(dtype))
    return 0.0 if abs(rounded) < float(np.finfo(dtype).tiny) else rounded


@functools.lru_cache(maxsize=1 << 16)
def at_most(limit: float, precision: str) -> float:
    """The greatest float64 number x with held(x) <= held(limit).

    >>> at_most(0.5, "float64"), at_most(0.5, "float32")
    (0.5, 0.5000000298023224)
    """
    wanted = held(limit, precision)
    low, high = _place(-math.inf), _place(math.inf)  # `low` satisfies it: -inf is at most anything
    while low < high:
        middle = (low + high + 1) // 2
        if held(_number(middle), precision) <= wanted:
            low = middle
        else:
            high = middle - 1
    return _number(low)


def at_least(limit: float, precision: str) -> float:
    """The least float64 number x with held(x) >= held(limit)."""
    return -at_most(-limit, precision)


def above(limit: float, precision: str) -> float:
    """The least float64 number x with held(x) > held(limit); NaN if there is none."""
    end = at_most(limit, precision)
    return math.nan if end == math.inf else math.nextafter(end, math.inf)


def decimal(value: float) -> str:
    """A finite number as a decimal with an exponent that is no nearer to another float64 number
    even where it is parsed with an error of a quarter of the distance.

    It has the fewest digits for that. SQLite before 3.43 does not parse all decimals to the nearest
    number, so that the shortest decimal that Python reads back is not enough.

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


def _place(value: float) -> int:
    """The index of a float64 number in their order; 0 of 0."""
    bits = int(np.float64(value).view(np.uint64))
    return -(bits - _TOP_BIT) if bits >= _TOP_BIT else bits


def _number(place: int) -> float:
    bits = _TOP_BIT - place if place < 0 else place
    return float(np.uint64(bits).view(np.float64))
