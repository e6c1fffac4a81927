"""Checks of the parameters of estimators: every message names the parameter.

They run on the host before anything is fitted, so that a wrong parameter costs no fit.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

_MOST_SEED = 2**32 - 1  # of NumPy


def number(
    estimator: Any,
    name: str,
    *,
    low: float,
    high: float = np.inf,
    open_low: bool = False,
    open_high: bool = False,
    also: tuple[Any, ...] = (),
) -> None:
    """Raises ValueError unless a parameter is a real number from `low` to `high`, or one of `also`.

    Args:
      estimator: the owner of the parameter.
      name: of the parameter.
      low: the least allowed number.
      high: the largest one.
      open_low: whether `low` itself is not allowed.
      open_high: whether `high` itself is not allowed.
      also: further allowed values, None or texts.

    >>> from jboost.sklearn import MarginThinner
    >>> number(MarginThinner(None, nu=2.0), "nu", low=0, high=1, open_low=True)
    Traceback (most recent call last):
    ValueError: nu is 2.0: expected a number above 0 up to 1
    """
    value = getattr(estimator, name)
    if _is_one_of(value, also):
        return
    # NaN is neither above nor below
    if (
        _is_real(value)
        and (low < value if open_low else low <= value)
        and (value < high if open_high else value <= high)
    ):
        return
    least = f"{'above' if open_low else 'from'} {low:g}"
    most = f" {'and below' if open_high else 'up to'} {high:g}" if high < np.inf else ""
    least = least if most or open_low else f"of at least {low:g}"
    _refuse(name, value, f"a number {least}{most}", also)


def whole(
    estimator: Any, name: str, *, low: int, high: int | None = None, also: tuple[Any, ...] = ()
) -> None:
    """Raises ValueError unless a parameter is an integer from `low` to `high`, or one of `also`."""
    value = getattr(estimator, name)
    if _is_one_of(value, also):
        return
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or value < low or (high is not None and value > high):
        limits = f"of at least {low}" if high is None else f"from {low} to {high}"
        _refuse(name, value, f"an integer {limits}", also)


def flag(estimator: Any, name: str) -> None:
    """Raises ValueError unless a parameter is True or False."""
    value = getattr(estimator, name)
    if not isinstance(value, bool | np.bool_):
        _refuse(name, value, "True or False", ())


def seed(estimator: Any, name: str = "random_state") -> None:
    """Raises ValueError unless a parameter seeds scikit-learn's random numbers."""
    value = getattr(estimator, name)
    if value is None or value is np.random or isinstance(value, np.random.RandomState):
        return
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not 0 <= value <= _MOST_SEED:
        expected = "an integer from 0 to 4294967295, a numpy.random.RandomState or None"
        _refuse(name, value, expected, ())


def _is_one_of(value: Any, options: tuple[Any, ...]) -> bool:
    # `==` of an array and a text is an array
    return (value is None and None in options) or (isinstance(value, str) and value in options)


def _is_real(value: Any) -> bool:
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiu"


def _refuse(name: str, value: Any, expected: str, also: tuple[Any, ...]) -> None:
    others = "".join(f" or {other!r}" for other in also)
    raise ValueError(f"{name} is {value!r}: expected {expected}{others}")
