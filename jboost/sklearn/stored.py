"""The parts of an estimator as JSON, and their checks: a file may be damaged or hostile."""

from __future__ import annotations

import json
import numbers
from typing import Any

import numpy as np

from jboost.sklearn.calibration import Calibration, Isotonic, Sigmoid

_KINDS_OF_CLASSES = "biufUO"  # of NumPy types
_MOST_BYTES_OF_CLASS = 1 << 16  # a type of longer texts takes memory that the file does not
_ROUNDING = 1e-9  # of the means of isotonic regression


def plain(value: Any) -> Any:
    """The value with scalars of NumPy as numbers of Python.

    >>> import numpy as np
    >>> plain({"columns": (np.int64(3), "age")})
    {'columns': [3, 'age']}
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {plain(key): plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def describe_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters as "parameters" and, because keys of JSON are texts, mappings as pairs of a
    key and a value under "mappings".

    Raises:
      ValueError: naming the parameter that a file cannot hold.
    """
    found: dict[str, Any] = {"parameters": {}, "mappings": {}}
    for name, value in parameters.items():
        is_mapping = isinstance(value, dict)
        part = plain([*value.items()] if is_mapping else value)
        try:
            json.dumps(part)
        except TypeError:
            raise ValueError(
                f"{name} is a {type(value).__name__}, which a file cannot hold: set it to None"
                " before saving"
            ) from None
        found["mappings" if is_mapping else "parameters"][name] = part
    return found


def read_parameters(metadata: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `describe_parameters`, also for files without mappings."""
    mappings = metadata.get("mappings", {})
    return dict(metadata["parameters"]) | {name: dict(pairs) for name, pairs in mappings.items()}


def read_classes(metadata: dict[str, Any]) -> np.ndarray:
    """The classes of a file, [K].

    Raises:
      ValueError: unless they are increasing numbers or texts.
    """
    values, dtype = metadata["classes"], np.dtype(_text(metadata["dtype"]))
    expect(isinstance(values, list) and len(values) > 0, "classes")
    expect(all(isinstance(value, str | numbers.Real) for value in values), "classes")
    is_known = dtype.kind in _KINDS_OF_CLASSES and dtype.itemsize <= _MOST_BYTES_OF_CLASS
    expect(is_known, "dtype")
    classes = np.asarray(values, dtype)
    expect(classes.tolist() == values == np.unique(classes).tolist(), "classes")
    return classes


def read_names(metadata: dict[str, Any], num_features: int) -> list[str]:
    """The names of the columns; an empty list where the table of `fit` had none."""
    names = metadata["names"]
    expect(isinstance(names, list) and all(isinstance(name, str) for name in names), "names")
    expect(len(names) in (0, num_features), "names")
    return list(names)


def read_base_rates(metadata: dict[str, Any], calibrators: list[Calibration]) -> np.ndarray:
    """The share of each class in the training rows, [K], which older files hold in calibrations
    only; without any all shares are 0, and the first class is predicted where nothing votes.
    """
    num_classes = len(metadata["classes"])
    if "base_rates" in metadata:
        rates = np.array([_between(one, 0.0, 1.0) for one in metadata["base_rates"]])
        expect(len(rates) == num_classes, "base_rates")
        return rates
    rates = np.array([one.base_rate for one in calibrators])
    if len(rates) == 1:
        return np.array([1 - rates[0], rates[0]])
    return rates if len(rates) else np.zeros(num_classes)


def describe_calibration(one: Calibration) -> dict[str, Any]:
    """A calibration as JSON."""
    function = one.function
    described = (
        {"slope": function.slope, "intercept": function.intercept}
        if isinstance(function, Sigmoid)
        else {
            "scores": function.scores.tolist(),
            "probabilities": function.probabilities.tolist(),
        }
    )
    return {"base_rate": one.base_rate, "function": described}


def read_calibration(entry: dict[str, Any]) -> Calibration:
    """The inverse of `describe_calibration`.

    Raises:
      ValueError: unless the function is nondecreasing, with values in [0, 1].
    """
    described = entry["function"]
    function = _sigmoid(described) if "slope" in described else _isotonic(described)
    return Calibration(function, _between(entry["base_rate"], 0.0, 1.0))


def read_count(value: Any, least: int) -> int:
    """A whole number of at least `least`."""
    expect(isinstance(value, int) and not isinstance(value, bool) and value >= least, "a count")
    return int(value)


def expect(is_right: bool, what: str) -> None:
    """Raises ValueError naming the part of the file unless it is right."""
    if not is_right:
        raise ValueError(f"{what} is damaged")


def _sigmoid(described: dict[str, Any]) -> Sigmoid:
    slope = _between(described["slope"], -np.inf, 0.0)
    return Sigmoid(slope, _between(described["intercept"], -np.inf, np.inf))


def _isotonic(described: dict[str, Any]) -> Isotonic:
    scores, shares = (
        np.array([_between(one, -np.inf, np.inf) for one in described[name]])
        for name in ("scores", "probabilities")
    )
    expect(len(scores) == len(shares) > 0, "function")
    expect(bool((np.diff(scores) >= 0).all() and (np.diff(shares) >= -_ROUNDING).all()), "function")
    expect(bool((shares >= -_ROUNDING).all() and (shares <= 1 + _ROUNDING).all()), "function")
    return Isotonic(scores, shares)


def _between(value: Any, low: float, high: float) -> float:
    """A finite number in an interval."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    expect(is_number and low <= value <= high and abs(value) < np.inf, "a number")
    return float(value)


def _text(value: Any) -> str:
    expect(isinstance(value, str), "a text")
    return str(value)
