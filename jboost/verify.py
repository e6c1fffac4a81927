"""Independent checks of certificates, in exact rational arithmetic.

This file imports NumPy and the standard library only, and no other module of jboost. It shares no
code with the solvers. It also runs alone, where jax is not installed: `python verify.py MODEL
DATA`. Floats are taken as the rational numbers that they are (`fractions`), so that no rounding
takes part in a proof.

Each function takes a result and its data, proves a lower and an upper bound on the optimum from
the arrays of the result, and compares the claims of the result with what is proven. A result is
any record with the fields of the jboost result, as JAX or NumPy arrays. Data of more bits than the
result are rounded to the float type of the result first, as the solvers do.

A wrong certificate never raises: the reason says which claim is not proven. Data that are wrong
(labels other than -1 and +1, shapes that do not fit) raise a ValueError.
"""

from __future__ import annotations

import argparse
import csv
import functools
import hashlib
import io
import json
import math
import reprlib
import struct
import sys
import tokenize
import types
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "Verification",
    "checksum_of_rows",
    "describe",
    "flaw_of_file",
    "flaw_of_metadata",
    "main",
    "verify",
    "verify_combination",
    "verify_ensemble",
    "verify_file",
    "verify_leave_one_out",
    "verify_lp",
    "verify_monomial",
    "verify_pair",
    "verify_relaxation",
    "verify_rules",
    "verify_soft_margin",
]

_SUM_ROUNDING = Fraction(2.0**-52)  # of a sum in float64, for each term
Number = Fraction | float  # a float is infinite
_STATUSES = (
    "OPTIMAL",
    "PRECISION_LIMIT",
    "INVALID_INPUT",
    "ROUND_LIMIT",
    "NO_EDGE",
    "INFEASIBLE",
    "UNFINISHED",
    "ITERATION_LIMIT",
    "TIME_LIMIT",
    "PRIMAL_INFEASIBLE",
    "DUAL_INFEASIBLE",
    "NUMERICAL_ERROR",
    "CAPACITY_LIMIT",
    "LOCAL_OPTIMUM",
    "ENOUGH",
    "UNSOLVED_RELAXATION",
)  # by code, as in `jboost.status`
_ENDINGS = (
    "OPTIMAL",
    "PRECISION_LIMIT",
    "ROUND_LIMIT",
    "UNFINISHED",
    "ITERATION_LIMIT",
    "TIME_LIMIT",
    "NUMERICAL_ERROR",
    "CAPACITY_LIMIT",
)  # how a solver of any method may end


class Verification(NamedTuple):
    """What is proven of a result, and whether that covers all that the result claims."""

    valid: bool  # whether every claim of the result is proven
    lower: Number  # the optimum is at least this: a Fraction, or -inf where nothing is proven
    upper: Number  # the optimum is at most this: a Fraction, or +inf where nothing is proven
    reason: str  # what is proven, or the claims that are not


class _RefutedError(Exception):
    """A result that cannot be read, or claims nothing; its text is the reason."""


# --- reading results and data ---------------------------------------------------------------------


def _returns_reasons(check: Callable[..., Verification]) -> Callable[..., Verification]:
    """Turns `_RefutedError` into a Verification that is not valid."""

    @functools.wraps(check)
    def run(*args: Any, **options: Any) -> Verification:
        try:
            return check(*args, **options)
        except _RefutedError as error:
            return Verification(False, -math.inf, math.inf, str(error))

    return run


def _read(
    result: Any, name: str, shape: tuple[int, ...] | None = None, *, is_finite: bool = True
) -> np.ndarray:
    """A field of a result as an array. Raises `_RefutedError` if it is missing or malformed."""
    try:
        array = np.asarray(getattr(result, name))
    except (AttributeError, ValueError, TypeError):
        raise _RefutedError(f"the result has no array `{name}`") from None
    if array.dtype.kind not in "biuf":
        raise _RefutedError(f"{name} has dtype {array.dtype}: expected numbers")
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        raise _RefutedError(f"{name} has dtype {array.dtype}: expected float32 or float64")
    if shape is not None and array.shape != shape:
        raise _RefutedError(f"{name} has shape {list(array.shape)}: expected {list(shape)}")
    if np.isnan(array).any() or (is_finite and not np.isfinite(array).all()):
        raise _RefutedError(f"{name} has entries that are not finite numbers, which claim nothing")
    return array


def _read_integers(result: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A field of small integers, or of booleans."""
    array = _read(result, name, shape)
    if not (np.abs(array.astype(float)) < 2.0**31).all() or (array != np.floor(array)).any():
        raise _RefutedError(f"{name} has entries that are not integers of 32 bits")
    return array.astype(int)


def _read_number(result: Any, name: str) -> Number:
    """A scalar field: a Fraction, or an infinite float."""
    value = _read(result, name, (), is_finite=False).item()
    return value if math.isinf(value) else Fraction(value)


def _read_status(result: Any, *others: str) -> str:
    """The status of a result: one that says how far a solver came, or one of `others`. All other
    statuses state a fact that is none of this method, or that nothing proves.
    """
    code = int(_read_integers(result, "status", ()))
    if not 0 <= code < len(_STATUSES):
        raise _RefutedError(f"status is {code}, which is no status of jboost")
    if _STATUSES[code] == "INVALID_INPUT":
        raise _RefutedError("the result claims nothing: its status is INVALID_INPUT")
    if _STATUSES[code] not in (*_ENDINGS, *others):
        raise _RefutedError(f"status is {_STATUSES[code]}, which no result of this method has")
    return _STATUSES[code]


def _held(name: str, values: Any, like: np.ndarray, ndim: int | None = None) -> np.ndarray:
    """Data as a result holds them: floats in the type of `like`. Raises ValueError if malformed."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}: expected an array of numbers")
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} has shape {list(array.shape)}: expected {ndim} axes")
    if like.dtype.kind == "f" and array.dtype.itemsize > like.dtype.itemsize:
        array = array.astype(like.dtype)
    return array


def _check_finite(name: str, array: np.ndarray) -> None:
    """Raises ValueError if the array of data has NaN or infinite entries."""
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has entries that are not finite: expected finite numbers")


class _Examples(NamedTuple):
    """Labels and weights of the examples that count."""

    kept: np.ndarray  # [m] bool
    labels: np.ndarray  # [k] int, -1 or +1
    weights: np.ndarray  # [k] floats, positive


def _read_examples(size: int, labels: Any, weights: Any, mask: Any, like: np.ndarray) -> _Examples:
    """The examples that count: those with mask True and a weight above 0. Raises ValueError."""
    signs = np.ones(size) if labels is None else _held("labels", labels, like, 1)
    amounts = np.ones(size) if weights is None else _held("weights", weights, like, 1)
    kept = np.ones(size, bool) if mask is None else np.asarray(mask).astype(bool)
    for name, array in (("labels", signs), ("weights", amounts), ("mask", kept)):
        if array.shape != (size,):
            raise ValueError(f"{name} has shape {list(array.shape)}: expected [{size}]")
    kept = kept & (amounts != 0)
    if not (np.isfinite(amounts[kept]) & (amounts[kept] > 0)).all():
        raise ValueError("weights has entries that are negative or not finite: expected others")
    if not (np.abs(signs[kept]) == 1).all():
        raise ValueError("labels has entries other than -1 and +1: map them first")
    return _Examples(kept, signs[kept].astype(int), amounts[kept])


def _conclude(
    claimed: tuple[Number, Number], proven: tuple[Number, Number], faults: list[str], note: str
) -> Verification:
    """Compares the bounds that a result claims with those that are proven."""
    (claimed_lower, claimed_upper), (lower, upper) = claimed, proven
    if claimed_lower > lower:
        faults.append(
            f"a lower bound of {_text(claimed_lower)} is claimed, and {_text(lower)} is proven"
        )
    if claimed_upper < upper:
        faults.append(
            f"an upper bound of {_text(claimed_upper)} is claimed, and {_text(upper)} is proven"
        )
    return Verification(not faults, lower, upper, "; ".join(faults) or note)


def _text(value: Any) -> str:
    """A number for a message, in 17 digits."""
    try:
        return f"{float(value):.17g}"
    except OverflowError:
        return str(value)


def _is_near(claimed: Number, exact: Number, rounding: Number) -> bool:
    """Whether a claimed number is the exact one up to a rounding."""
    return exact - rounding <= claimed <= exact + rounding


def _unit_of_rounding(array: np.ndarray) -> Fraction:
    """The spacing of floats at 1, in the type of the array."""
    return Fraction(float(np.finfo(array.dtype).eps)) if array.dtype.kind == "f" else Fraction(0)


# --- exact arithmetic -----------------------------------------------------------------------------


def _whole(values: Any) -> tuple[np.ndarray, Fraction]:
    """Finite floats or Fractions as integers of any length, and the unit of these integers."""
    array = np.asarray(values)
    ratios = [value.as_integer_ratio() for value in array.ravel().tolist()]
    denominator = math.lcm(*{below for _, below in ratios})
    whole = np.empty(len(ratios), object)
    whole[:] = [above * (denominator // below) for above, below in ratios]
    return whole.reshape(array.shape), Fraction(1, denominator)


def _fractions(values: Any) -> np.ndarray:
    """Finite numbers as Fractions, in an object array of the same shape."""
    array = np.asarray(values)
    exact = np.empty(array.size, object)
    exact[:] = [Fraction(value) for value in array.ravel().tolist()]
    return exact.reshape(array.shape)


def _times(matrix: Any, vector: Any) -> np.ndarray:
    """The exact product [k] of a matrix [k, l] and a vector [l], as Fractions."""
    (entries, unit), (factors, other_unit) = _whole(matrix), _whole(vector)
    return _fractions(entries @ factors) * (unit * other_unit)


def _positive_part(values: np.ndarray) -> np.ndarray:
    """max(0, value) for each of an object array of Fractions."""
    return (values + abs(values)) / 2


def _total(values: np.ndarray) -> Fraction:
    """The exact sum of floats or Fractions."""
    whole, unit = _whole(values)
    return int(whole.sum()) * unit


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """A solution [k] of matrix @ x = right by Gaussian elimination in Fractions; None for none.
    Rows that follow from others are left out.
    """
    size = len(right)
    table = np.concatenate([matrix, right[:, None]], axis=1)
    pivots: list[tuple[int, int]] = []
    for column in range(size):
        used = {row for row, _ in pivots}
        rows = [row for row in range(size) if row not in used and table[row, column] != 0]
        if not rows:
            continue
        pivot = rows[0]
        pivots.append((pivot, column))
        table[pivot] = table[pivot] / table[pivot, column]
        for row in np.flatnonzero(table[:, column]).tolist():
            if row != pivot:
                table[row] = table[row] - table[row, column] * table[pivot]
    solution = np.array([Fraction(0)] * size, object)
    for row, column in pivots:
        solution[column] = table[row, size]
    left = set(range(size)) - {row for row, _ in pivots}
    return None if any(table[row, size] != 0 for row in left) else solution


# --- two and three classifiers (Boyarshinov and Magdon-Ismail 2005) -------------------------------
#
# A separator misclassifies x_i where y_i score(x_i) <= 0. Its loss is checked point by point. The
# optimum is found by enumeration: a line that holds no point splits the points in two, and every
# split of points (1, x_i) by planes through the origin is found on a plane that is turned until it
# meets one of them: a facet of the cone of all planes with this split.

_MOST_POINTS = {2: 6000, 3: 60}  # about 5 s of enumeration, by the dimension
# A cross product of differences in float64 is off by at most this share of its two terms, each of
# which has three roundings, where none underflows.
_CROSS_ROUNDING, _UNDERFLOW = 2.0**-50, 2.0**-900
_WHOLE = 2**26  # of whole numbers up to this, differences of products are exact in float64
_LARGE = 2**53  # integers up to this are exact in float64, and their sums in 64 bits
_SCORE_ROUNDING = Fraction(2.0**-49)  # of a score in float64, relative to the sum of its terms
_OPTIMAL_WITHIN = Fraction(1, 2**20)  # of the loss: how status OPTIMAL is defined for weights


@_returns_reasons
def verify_pair(
    separator: Any,
    points: Any,
    labels: Any,
    *,
    weights: Any = None,
    mask: Any = None,
    fat: str = "removed",
    max_points: int | None = None,
) -> Verification:
    """Checks a separator of two or three classifiers: its loss, its margin, the points that it
    misclassifies, and that no line or plane loses less (Boyarshinov and Magdon-Ismail 2005,
    Section 2).

    The lower bound is recomputed by an enumeration of all splits in exact integers, O(n^d log n)
    work for n points in d dimensions. Beyond `max_points` distinct points a lower bound above 0 is
    not proven, and the result is not valid.

    Args:
      separator: normal [d], anchor [d], bias [], offset [], loss [], lower_bound [], margin [],
        misclassified [n], status [], as of `jboost.pair.optimal_separator`.
      points: [n, d], d = 2 or 3; labels: [n]; weights, mask, fat: as in that call.
      max_points: None for 6000 points in the plane and 60 in space.

    Returns:
      A `Verification`; the bounds are on the least misclassified weight.

    >>> import numpy as np, types
    >>> line = dict(normal=[1.0, 0.0], anchor=[1.0, 0.0], bias=0.0, offset=-1.0, loss=0.0)
    >>> line |= dict(lower_bound=0.0, margin=1.0, misclassified=[False] * 2, status=0)
    >>> verify_pair(types.SimpleNamespace(**line), [[0.0, 0.0], [2.0, 0.0]], [-1, 1]).valid
    True
    """
    normal = _read(separator, "normal")
    points = _held("points", points, normal, 2)
    if points.shape[1] not in _MOST_POINTS:
        raise ValueError(f"points has shape {list(points.shape)}: expected [n, 2] or [n, 3]")
    if fat not in ("removed", "flipped"):
        raise ValueError(f"fat is {fat!r}: expected 'removed' or 'flipped'")
    examples = _read_examples(len(points), labels, weights, mask, normal)
    points = points[examples.kept]
    if not np.isfinite(points).all():
        raise ValueError("points has entries that are not finite: leave these rows out")
    line = _evaluate(separator, points, examples)
    lost = _total(examples.weights[line.is_wrong])
    limit = _MOST_POINTS[points.shape[1]] if max_points is None else max_points
    is_enumerated = len({*map(tuple, points.tolist())}) <= limit
    lower = _least_loss(points, examples) if is_enumerated else Fraction(0)
    faults = [
        *_faults_of_line(separator, line, _counted(separator, examples, line, fat), fat),
        *_faults_of_loss(separator, examples, line, lower),
    ]
    if is_enumerated:
        faults += _fault_of_status(_read_status(separator), lost, lower, True)
    note = f"the separator loses {_text(lost)}, and no other loses less than {_text(lower)}"
    if not is_enumerated:
        note += f"; {_not_enumerated(limit)}"
    claimed = _read_number(separator, "lower_bound")
    verification = _conclude((claimed, math.inf), (lower, lost), faults, note)
    return (
        verification
        if is_enumerated
        else verification._replace(reason="; ".join(dict.fromkeys([verification.reason, note])))
    )


class _Line(NamedTuple):
    """A line or plane, evaluated at the points that count."""

    scores: np.ndarray  # [k] Fractions
    is_wrong: np.ndarray  # [k] bool
    is_near: np.ndarray  # [k] bool, whether rounding may turn the sign of a score in float64
    reach: np.ndarray  # [k] Fractions, the rounding of a score in float64


def _evaluate(separator: Any, points: np.ndarray, examples: _Examples) -> _Line:
    """The scores normal . (x - anchor) + bias, without rounding."""
    shape = points.shape[1:]
    normal, anchor = _read(separator, "normal", shape), _read(separator, "anchor", shape)
    bias = Fraction(float(_read(separator, "bias", ())))
    whole, unit = _whole(np.concatenate([points.astype(object), anchor.astype(object)[None]]))
    factors, other_unit = _whole(normal)
    steps, unit = whole[:-1] - whole[-1:], unit * other_unit
    scores = _fractions(steps @ factors) * unit + bias
    sizes = _fractions(abs(steps) @ abs(factors)) * unit + abs(bias)
    is_wrong = [y * score <= 0 for y, score in zip(examples.labels, scores, strict=True)]
    reach = sizes * _SCORE_ROUNDING
    is_near = (scores != 0) & (abs(scores) <= reach)  # a score of 0 is wrong by definition
    return _Line(scores, np.array(is_wrong, bool), is_near, reach)


def _counted(record: Any, examples: _Examples, line: _Line, fat: str) -> np.ndarray:
    """Which points [k] count for the margin, of those near the line by what the result says."""
    claimed = _read_integers(record, "misclassified", examples.kept.shape)[examples.kept]
    return np.where(line.is_near, claimed == 0, ~line.is_wrong) | (fat == "flipped")


def _exceeds_margin(margin: Number, line: _Line, counted: np.ndarray, normal: np.ndarray) -> bool:
    """Whether a claimed margin is larger than the distance of a point that counts, up to rounding.
    `normal` is an array of floats. A margin that is rounding only may be negative.
    """
    distances = (abs(line.scores) + line.reach)[counted]
    squared_length = sum(_fractions(normal) ** 2)
    if margin <= 0 or math.isinf(margin):
        return margin > 0 and len(distances) > 0
    eps = _unit_of_rounding(normal)
    most = min(distances**2, default=math.inf) * (1 + 64 * eps)
    return bool(margin * margin * squared_length > most)


def _faults_of_line(separator: Any, line: _Line, is_counted: np.ndarray, fat: str) -> Iterator[str]:
    """Whether `margin` and `offset` are those of the line, up to rounding."""
    normal, anchor = (_fractions(_read(separator, name)) for name in ("normal", "anchor"))
    bias = Fraction(float(_read(separator, "bias", ())))
    eps = _unit_of_rounding(_read(separator, "bias", ()))
    offset, exact = _read_number(separator, "offset"), bias - sum(normal * anchor)
    size = abs(bias) + sum(abs(normal * anchor))
    if not _is_near(offset, exact, 8 * eps * size):
        yield f"offset is {_text(offset)}, and bias - normal . anchor is {_text(exact)}"
    margin, squared_length = _read_number(separator, "margin"), sum(normal**2)
    counted = line.scores if fat == "flipped" else line.scores[~line.is_wrong]
    if squared_length == 0:
        if margin != math.inf:
            yield f"margin is {_text(margin)}, and that of a constant classifier is infinite"
        return
    squared: Number = min(counted**2) / squared_length if len(counted) else math.inf
    is_far = margin == math.inf or margin < 0
    if _read_status(separator) == "PRECISION_LIMIT" and line.is_near.any():
        # the margin may be rounding only
        if _exceeds_margin(margin, line, is_counted, _read(separator, "normal")):
            yield f"margin is {_text(margin)}, and a point is nearer to the line"
        return
    if squared == math.inf:
        is_far = margin != math.inf
    elif not is_far:
        is_far = not _is_near(margin * margin, squared, squared * 64 * eps)
    if is_far:
        yield f"margin is {_text(margin)}, and its square should be {_text(squared)}"


def _faults_of_loss(
    separator: Any,
    examples: _Examples,
    line: _Line,
    lower: Fraction,
) -> Iterator[str]:
    """Whether `misclassified` and `loss` are those of the line, and the loss is not below `lower`.

    `misclassified` is that of scores in float64, as predictions are: where rounding may turn the
    sign of a score, both values are right, and `loss` is the weight of the examples said to be
    misclassified, which is never less than what every separator loses.
    """
    claimed = _read_integers(separator, "misclassified", examples.kept.shape).astype(bool)
    expected = np.zeros(examples.kept.shape, bool)
    expected[examples.kept] = np.where(line.is_near, claimed[examples.kept], line.is_wrong)
    for index in np.flatnonzero(claimed != expected)[:1]:
        yield f"misclassified[{index}] is {bool(claimed[index])}, and its score says otherwise"
    loss = _read_number(separator, "loss")
    lost = _total(examples.weights[expected[examples.kept]])
    rounding = _unit_of_rounding(_read(separator, "loss", ())) + len(line.scores) * _SUM_ROUNDING
    if not _is_near(loss, lost, rounding * lost):
        yield f"loss is {_text(loss)}, and the separator misclassifies {_text(lost)}"
    elif loss < lower * (1 - rounding):
        yield f"loss is {_text(loss)}, and no separator loses less than {_text(lower)}"


def _fault_of_status(status: str, lost: Fraction, lower: Fraction, is_least: bool) -> list[str]:
    """Whether a separator that loses `lost` is optimal if its status is OPTIMAL. `is_least` says
    whether another separator loses `lower`.
    """
    if status != "OPTIMAL" or lost - lower <= _OPTIMAL_WITHIN * lost:
        return []
    less = f"another separator loses {_text(lower)}"
    return [f"status is OPTIMAL, and {less if is_least else f'only {_text(lower)} is proven'}"]


# --- all splits of points by lines and planes -----------------------------------------------------


def _least_loss(points: np.ndarray, examples: _Examples) -> Fraction:
    """The least weight that any line, plane or constant classifier misclassifies.

    With f the sum of y_i w_i over one side, the loss is the weight of the positives minus f.
    """
    amounts, unit = _whole(examples.weights)
    merged: dict[tuple[Any, ...], int] = {}
    for point, value in zip(map(tuple, points.tolist()), amounts * examples.labels, strict=True):
        merged[point] = merged.get(point, 0) + value
    positive = int(amounts[examples.labels > 0].sum())
    vectors = _lifted(np.array(list(merged), object).reshape(-1, points.shape[1]))
    values = np.array([*merged.values(), 0], object)[:-1]
    is_exact = points.dtype.kind == "f" or np.abs(points).max(initial=0) <= _LARGE
    if is_exact and points.shape[1] == 2 and np.abs(values).sum() <= _LARGE:
        sides = _side_sums_in_the_plane(np.array(list(merged), float), vectors, values)
    else:
        sides = _side_sums(vectors, values)
    most = max(int(sums.max()) for sums in sides)
    return (positive - most) * unit


def _lifted(points: np.ndarray) -> np.ndarray:
    """The vectors (1, x) of points x, as integers."""
    whole, _ = _whole(points)
    return np.concatenate([np.full((len(points), 1), 1, object), whole], axis=1)


def _side_sums(vectors: np.ndarray, values: np.ndarray) -> Iterator[np.ndarray]:
    """The sums of `values` [n] over one side, for every hyperplane through the origin that holds
    none of the integer vectors [n, d]; some sums more than once.
    """
    if len(vectors) == 0:
        yield np.array([0], object)
    elif vectors.shape[1] == 2:
        yield _half_plane_sums(vectors, values)
    else:
        for centre in dict.fromkeys(map(tuple, vectors.tolist())):
            beside, before, behind = _projected(vectors, np.array(centre, object))
            is_beside = ~(before | behind)
            for sums in _side_sums(beside[is_beside], values[is_beside]):
                yield sums + sum(values[before])
                yield sums + sum(values[behind])


def _side_sums_in_the_plane(
    points: np.ndarray, vectors: np.ndarray, values: np.ndarray
) -> Iterator[np.ndarray]:
    """`_side_sums` of points [n, 2] of the plane, in floats that are exact: directions are sorted
    by floats, and compared as integers where rounding could change the order.
    """
    points, amounts = _scaled(points.reshape(-1, 2), vectors), values.astype(np.int64)
    yield np.array([0, amounts.sum()])
    for centre in range(len(points)):
        others = np.arange(len(points)) != centre
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            sums = _turned_sums(
                points[others] - points[centre], vectors[centre], vectors[others], amounts[others]
            )
        if sums is None:  # the floats are in a wrong order
            sums = _half_plane_sums(vectors[others, 1:] - vectors[centre, 1:], values[others])
        yield sums + amounts[centre]
        yield sums


def _scaled(points: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Points [n, 2] as whole numbers, if their products are then exact; else as they are. `vectors`
    are the same points as integers.
    """
    if len(points) == 0:
        return points
    moved = vectors[:, 1:] - vectors[:, 1:].min(axis=0)
    return moved.astype(float) if moved.max() <= _WHOLE else points


def _turned_sums(
    steps: np.ndarray, centre: np.ndarray, vectors: np.ndarray, values: np.ndarray
) -> np.ndarray | None:
    """`_half_plane_sums` of steps [n, 2] from a centre to points, in float64; None where the order
    by floats is wrong. `centre` and `vectors` are the same points as integers.
    """
    if len(values) == 0:
        return np.array([0])
    is_front = (steps[:, 0] > 0) | ((steps[:, 0] == 0) & (steps[:, 1] > 0))
    turned = np.where(is_front[:, None], steps, -steps)
    order = np.argsort(np.arctan2(turned[:, 1], turned[:, 0]))
    turned = turned[order]
    forth, back = turned[:-1, 0] * turned[1:, 1], turned[:-1, 1] * turned[1:, 0]
    sizes = np.abs(forth) + np.abs(back)
    is_sure = (np.abs(forth - back) > _CROSS_ROUNDING * sizes) & (sizes > _UNDERFLOW)
    is_sure &= sizes < np.inf
    is_whole = ((np.abs(turned) <= _WHOLE) & (turned == np.rint(turned))).all(axis=1)
    is_sure |= is_whole[:-1] & is_whole[1:]
    turns = np.where(is_sure, np.sign(forth - back), 0)
    unsure = np.flatnonzero(~is_sure)
    if len(unsure):
        signs = np.where(is_front, 1, -1)[order]
        exact = (vectors[order, 1:] - centre[1:]) * signs[:, None]
        crosses = _cross(exact[unsure], exact[unsure + 1])
        turns[unsure] = (crosses > 0).astype(int) - (crosses < 0).astype(int)
    if (turns < 0).any():
        return None
    start = values[is_front].sum()
    leaves = np.where(is_front, -values, values)[order]
    sums = np.append(start, (start + np.cumsum(leaves))[np.append(turns > 0, True)])
    return np.concatenate([sums, values.sum() - sums])


def _projected(
    vectors: np.ndarray, centre: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The vectors modulo the centre, [n, d - 1], and which are positive or negative multiples."""
    axis = int(np.flatnonzero(centre)[0])
    others = [index for index in range(len(centre)) if index != axis]
    along = vectors[:, axis] * centre[axis]
    projected = vectors[:, others] * centre[axis] - vectors[:, [axis]] * centre[others][None]
    is_multiple = (projected == 0).all(axis=1)
    return projected, is_multiple & (along > 0), is_multiple & (along < 0)


def _half_plane_sums(vectors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`_side_sums` in the plane: a half-plane turns once around the origin."""
    is_front = (vectors[:, 0] > 0) | ((vectors[:, 0] == 0) & (vectors[:, 1] > 0))
    vectors = np.where(is_front[:, None], vectors, -vectors)
    order = _by_angle(vectors)
    turned = vectors[order]
    leaves = np.where(is_front, -values, values)[order]
    is_last = np.append(_cross(turned[:-1], turned[1:]) != 0, True)
    start = sum(values[is_front])
    sums = np.append(start, (start + np.cumsum(leaves))[is_last])
    return np.concatenate([sums, sum(values) - sums])


def _by_angle(vectors: np.ndarray) -> np.ndarray:
    """The order of vectors in the right half-plane by exact angle. Floats sort first; what they
    leave in a wrong order is sorted by cross products.
    """
    most = max((abs(part).bit_length() for part in vectors.ravel()), default=0)
    small = vectors // 2 ** max(0, most - 1000)
    order = np.argsort(np.arctan2(small[:, 1].astype(float), small[:, 0].astype(float)))
    if (_cross(vectors[order][:-1], vectors[order][1:]) >= 0).all():
        return order

    def compare(first: int, second: int) -> int:
        return -_sign(_cross(vectors[first], vectors[second]))

    return np.array(sorted(order.tolist(), key=functools.cmp_to_key(compare)))


def _cross(left: np.ndarray, right: np.ndarray) -> Any:
    return left[..., 0] * right[..., 1] - left[..., 1] * right[..., 0]


def _sign(value: Any) -> int:
    return int(value > 0) - int(value < 0)


# --- linear votes of any number of classifiers ----------------------------------------------------
#
# Examples i with multipliers lambda_i >= 0, not all 0, and sum_i lambda_i y_i (x_i, 1) = 0 are an
# infeasible subsystem: every vote has one of them wrong (Farkas). Subsystems with amounts u_g prove
#   loss >= sum_g u_g - sum_i max(0, sum of u_g over the subsystems of i - w_i).

_SMALLEST = 8 * Fraction(2.0**-1022)  # eight times the least normal float64


@_returns_reasons
def verify_combination(
    vote: Any,
    scores: Any,
    labels: Any,
    *,
    weights: Any = None,
    mask: Any = None,
    max_points: int | None = None,
) -> Verification:
    """Checks a linear vote of classifiers: its loss, its margin, the examples that it
    misclassifies, and a lower bound on the loss of all votes with an offset.

    The lower bound is that of the infeasible subsystems in `certificate`, each of which is solved
    exactly. For up to three classifiers it is also found as by `verify_pair`. A larger bound of the
    branch and cut of four classifiers or more is not proven, and the result is not valid.

    Args:
      vote: coefficients [d], offset [], loss [], lower_bound [], margin [], misclassified [n],
        status [], as of `jboost.combine.fit`; and certificate, a record of members [g, d + 2] (-1
        for unused slots) and amounts [g], or None.
      scores: [n, d]; labels: [n]; weights, mask: as in that call.
      max_points: the most distinct points for the bound of `verify_pair`; None for 6000 of up to
        two classifiers and 60 of three.

    Returns:
      A `Verification`; the bounds are on the least misclassified weight.

    >>> import types
    >>> certificate = types.SimpleNamespace(members=[[0, 1, 2]], amounts=[1.0])
    >>> vote = dict(coefficients=[1.0], offset=-0.5, loss=1.0, lower_bound=1.0, margin=0.5)
    >>> vote |= dict(misclassified=[False, False, True], status=0, certificate=certificate)
    >>> verify_combination(types.SimpleNamespace(**vote), [[0.0], [1.0], [2.0]], [-1, 1, -1])[:3]
    (True, Fraction(1, 1), Fraction(1, 1))
    """
    coefficients = _read(vote, "coefficients")
    points = _held("scores", scores, coefficients, 2)
    examples = _read_examples(len(points), labels, weights, mask, coefficients)
    if not np.isfinite(points[examples.kept]).all():
        raise ValueError("scores has entries that are not finite: leave these rows out")
    line = _evaluate_vote(vote, points[examples.kept], examples)
    claimed = _read_number(vote, "lower_bound")
    lower = _bound_of_subsystems(getattr(vote, "certificate", None), points, examples)
    dimension = max(2, points.shape[1])
    limit = _MOST_POINTS.get(dimension, 0) if max_points is None else max_points
    points = points[examples.kept]
    is_enumerated = dimension in _MOST_POINTS and len({*map(tuple, points.tolist())}) <= limit
    if is_enumerated and points.shape[1]:
        lower = max(lower, _least_loss(points, examples))
    lost = _total(examples.weights[line.is_wrong])
    faults = [
        *_faults_of_margin_of_vote(vote, line, _counted(vote, examples, line, "removed")),
        *_faults_of_loss(vote, examples, line, lower),
        *_fault_of_status(_read_status(vote, "LOCAL_OPTIMUM"), lost, lower, is_enumerated),
    ]
    if claimed > lower and not is_enumerated:
        faults.append("the subsystems of `certificate` prove no larger lower bound")
        if dimension in _MOST_POINTS:
            faults.append(_not_enumerated(limit))
    note = f"the vote loses {_text(lost)}, and no other loses less than {_text(lower)}"
    return _conclude((claimed, math.inf), (lower, lost), faults, note)


def _not_enumerated(limit: int) -> str:
    """What is not recomputed of more distinct points than the limit."""
    return f"lower bounds of more than {limit} points are not recomputed: raise max_points"


def _evaluate_vote(vote: Any, points: np.ndarray, examples: _Examples) -> _Line:
    """The scores coefficients . x + offset, without rounding. A score that is right but for the
    largest rounding of any score may count as wrong.
    """
    coefficients = _fractions(_read(vote, "coefficients", points.shape[1:]))
    offset = Fraction(float(_read(vote, "offset", ())))
    scores = _times(points, coefficients) + offset
    sizes = _times(abs(points.astype(object)), abs(coefficients))
    terms, smallest = len(coefficients) + 4, _SMALLEST * len(coefficients)
    most = max([abs(offset), *sizes]) * 8 * terms * _SUM_ROUNDING + smallest
    signed = zip(examples.labels, scores, strict=True)
    is_wrong = np.array([y * score <= 0 for y, score in signed], bool)
    is_near = ~is_wrong & (abs(scores) <= most)
    reach = (sizes + abs(offset)) * terms * _SUM_ROUNDING + smallest
    return _Line(scores, is_wrong, is_near, reach)


def _faults_of_margin_of_vote(vote: Any, line: _Line, is_counted: np.ndarray) -> Iterator[str]:
    """Whether `margin` is the distance of the nearest example that is not misclassified."""
    margin, coefficients = _read_number(vote, "margin"), _read(vote, "coefficients")
    squared_length = sum(_fractions(coefficients) ** 2)
    if squared_length == 0 or not len(line.scores) or line.is_wrong.all():
        if margin != math.inf:
            yield f"margin is {_text(margin)}, and it is infinite without a nearest example"
    elif line.is_near.any():  # the margin may be rounding only
        if margin < 0 or _exceeds_margin(margin, line, is_counted, coefficients):
            yield f"margin is {_text(margin)}, and an example is nearer"
    else:
        heights, reach = abs(line.scores[~line.is_wrong]), line.reach[~line.is_wrong]
        eps = 64 * _unit_of_rounding(_read(vote, "offset", ()))
        # No score is near 0 here, so every height is above its reach.
        low = min(heights - reach) ** 2 * (1 - eps) / squared_length
        high = min(heights + reach) ** 2 * (1 + eps) / squared_length
        if margin < 0 or margin == math.inf or not low <= margin * margin <= high:
            squared = min(heights) ** 2 / squared_length
            yield f"margin is {_text(margin)}, and its square should be {_text(squared)}"


def _bound_of_subsystems(certificate: Any, points: np.ndarray, examples: _Examples) -> Fraction:
    """The lower bound that infeasible subsystems with amounts prove; what is none counts 0."""
    if certificate is None:
        return Fraction(0)
    amounts = _read(certificate, "amounts").reshape(-1)
    members = _read_integers(certificate, "members", (len(amounts), points.shape[1] + 2))
    labels, left = np.zeros(len(points), int), [Fraction(0)] * len(points)
    labels[examples.kept] = examples.labels
    for index, weight in zip(np.flatnonzero(examples.kept), examples.weights, strict=True):
        left[index] = Fraction(float(weight))
    total = Fraction(0)
    for row, amount in zip(members, _fractions(amounts), strict=True):
        chosen = sorted({i for i in row.tolist() if 0 <= i < len(points) and labels[i]})
        if amount > 0 and _is_infeasible(points[chosen], labels[chosen]):
            total += amount
            for index in chosen:
                left[index] -= amount
    return max(total + sum((min(one, Fraction(0)) for one in left), Fraction(0)), Fraction(0))


def _is_infeasible(points: np.ndarray, labels: np.ndarray) -> bool:
    """Whether sum_i lambda_i y_i (x_i, 1) = 0 with lambda >= 0, of which the last is 1. Where that
    has several solutions, only one of them is tried.
    """
    if len(labels) == 0:
        return False
    rows = np.concatenate([_fractions(points), np.full((len(points), 1), Fraction(1))], axis=1)
    rows *= labels[:, None]
    others, last = rows[:-1], rows[-1]
    solved = _solve(others @ others.T, -(others @ last))
    return (
        solved is not None
        and all(one >= 0 for one in solved)
        and all(part == 0 for part in others.T @ solved + last)
    )


# --- linear programs ------------------------------------------------------------------------------
#
# minimise c.x subject to row_lower <= A x <= row_upper, lower <= x <= upper. Any dual y proves
# c.x >= sum_i min(y_i row_lower_i, y_i row_upper_i) + sum_j min over x_j of (c - A'y)_j x_j, the
# latter with the bounds of x_j that rows imply, too. A feasible point proves an upper bound.

_NUM_TIGHTENINGS = 2  # passes over the rows that find bounds of variables, as the solver makes
_NUM_CORRECTIONS = 6  # of a point, each of which may violate further rows
# Shares of the largest dual above what solvers leave of a dual that is 0, in float64 and float32.
_CLEAR = (Fraction(2.0**-16), Fraction(2.0**-10))
_MOST_CORRECTED = 64  # rows that are met at once: the system is solved in rational arithmetic


class _FractionProgram(NamedTuple):
    """A linear program of Fractions; infinite bounds are floats."""

    objective: np.ndarray  # [n]
    matrix: np.ndarray  # [m, n]
    row_lower: np.ndarray  # [m]
    row_upper: np.ndarray  # [m]
    lower: np.ndarray  # [n]
    upper: np.ndarray  # [n]


@_returns_reasons
def verify_lp(solution: Any, problem: Any) -> Verification:
    """Checks the bounds of a solution of a linear program: weak duality from `dual`, a feasible
    point next to `primal`, and rays of infeasible and unbounded programs.

    Args:
      solution: primal [n], dual [m], lower_bound [], upper_bound [], status [], as of
        `jboost.lp.solve`.
      problem: objective [n], operator [m, n] (a matrix, or an object with `to_dense`), row_lower,
        row_upper, lower, upper, as a `jboost.lp.LinearProgram`.

    Returns:
      A `Verification`; the bounds are on the optimal value. The lower bound is +inf where a ray
      proves that no point is feasible.

    >>> import types
    >>> program = types.SimpleNamespace(
    ...     objective=[1.0],
    ...     operator=[[1.0]],
    ...     row_lower=1.0,
    ...     row_upper=float("inf"),
    ...     lower=0.0,
    ...     upper=float("inf"),
    ... )
    >>> solution = types.SimpleNamespace(
    ...     primal=[1.0], dual=[1.0], lower_bound=1.0, upper_bound=1.0, status=0
    ... )
    >>> verify_lp(solution, program)[:3]
    (True, Fraction(1, 1), Fraction(1, 1))
    """
    like = _read(solution, "primal")
    program = _read_program(problem, like)
    num_rows, num_columns = program.matrix.shape
    primal = _fractions(_read(solution, "primal", (num_columns,)))
    dual = _fractions(_read(solution, "dual", (num_rows,)))
    status = _read_status(solution, "PRIMAL_INFEASIBLE", "DUAL_INFEASIBLE")
    claimed = _read_number(solution, "lower_bound"), _read_number(solution, "upper_bound")
    tight = _tightened(program)
    refuted = tight is None or _least_over_box(tight, dual, with_objective=False) > 0
    lower: Number = math.inf
    if tight is not None and not (status == "PRIMAL_INFEASIBLE" and refuted):
        lower = _least_over_box(tight, dual)
    faults: list[str] = []
    upper: Number = math.inf
    if status == "PRIMAL_INFEASIBLE" and not refuted:
        faults.append("status is PRIMAL_INFEASIBLE, and the dual ray does not prove it")
    elif status == "DUAL_INFEASIBLE":
        if not _is_unbounded_along(program, primal):
            faults.append("status is DUAL_INFEASIBLE, and the primal ray does not prove it")
    elif claimed[1] < math.inf:
        faces = (_complementary(program, dual, share) for share in _CLEAR)
        upper = _value_nearby([program, *faces], primal, claimed[1])
    note = f"the optimum lies between {_text(lower)} and {_text(upper)}"
    if lower == math.inf:
        note = "no point is feasible, as the dual ray proves"
    return _conclude(claimed, (lower, upper), faults, note)


def _read_program(problem: Any, like: np.ndarray) -> _FractionProgram:
    """The program in exact numbers. Raises ValueError where it is malformed."""
    operator = problem.operator
    for name in ("to_dense", "todense"):
        operator = getattr(operator, name)() if hasattr(operator, name) else operator
    matrix = _held("operator", operator, like, 2)
    _check_finite("operator", matrix)
    num_rows, num_columns = matrix.shape
    sizes = {"row_lower": num_rows, "row_upper": num_rows, "lower": num_columns}
    bounds = {}
    for name, size in (sizes | {"upper": num_columns, "objective": num_columns}).items():
        array = _held(name, getattr(problem, name), like)
        if array.shape not in ((), (size,)) or np.isnan(array).any():
            raise ValueError(f"{name} has shape {list(array.shape)} or NaN: expected [{size}]")
        if name == "objective":
            _check_finite(name, array)
        bounds[name] = _extended(np.broadcast_to(array, (size,)))
    for name, other in (("row_lower", "row_upper"), ("lower", "upper")):
        low, high = bounds[name], bounds[other]
        if (low > high).any() or (low == math.inf).any() or (high == -math.inf).any():
            raise ValueError(f"{name} exceeds {other}, or is infinite on the wrong side")
    return _FractionProgram(matrix=_fractions(matrix), **bounds)


def _extended(values: np.ndarray) -> np.ndarray:
    """Floats as Fractions; infinite ones stay floats."""
    exact = np.empty(values.shape, object)
    exact[...] = [value if math.isinf(value) else Fraction(value) for value in values.tolist()]
    return exact


def _least_over_box(
    program: _FractionProgram, dual: np.ndarray, *, with_objective: bool = True
) -> Number:
    """The bound on the objective, or on 0, that a dual [m] proves; -inf for none."""
    is_allowed = [
        (y <= 0 or low > -math.inf) and (y >= 0 or high < math.inf)
        for y, low, high in zip(dual, program.row_lower, program.row_upper, strict=True)
    ]
    dual = dual * np.array(is_allowed, int)
    reduced = (program.objective if with_objective else 0) - _times(program.matrix.T, dual)
    terms = [
        _least_product(slope, low, high)
        for slope, low, high in [
            *zip(dual, program.row_lower, program.row_upper, strict=True),
            *zip(reduced, program.lower, program.upper, strict=True),
        ]
    ]
    return -math.inf if -math.inf in terms else sum(terms, Fraction(0))


def _least_product(slope: Fraction, low: Number, high: Number) -> Number:
    """The least slope * x over low <= x <= high; 0 where the slope is 0."""
    end = low if slope > 0 else high
    if slope == 0:
        return Fraction(0)
    return -math.inf if isinstance(end, float) else slope * end


def _tightened(program: _FractionProgram) -> _FractionProgram | None:
    """The program with the bounds of variables that its rows imply; None where they cross, so that
    no point is feasible.
    """
    lower, upper = list(program.lower), list(program.upper)
    for _ in range(_NUM_TIGHTENINGS):
        ends = list(lower), list(upper)
        for row, least, most in zip(
            program.matrix, program.row_lower, program.row_upper, strict=True
        ):
            _tighten_by_row(row, least, most, ends, lower, upper)
        if any(low > high for low, high in zip(lower, upper, strict=True)):
            return None
    return program._replace(lower=np.array(lower, object), upper=np.array(upper, object))


def _tighten_by_row(
    row: np.ndarray,
    least: Number,
    most: Number,
    ends: tuple[list[Number], list[Number]],
    lower: list[Number],
    upper: list[Number],
) -> None:
    """Tightens `lower` and `upper` [n] by least <= row . x <= most, where x is within `ends`."""
    used = np.flatnonzero(row).tolist()
    for sign, side in ((1, most), (-1, least)):  # sign * row . x <= sign * side
        if math.isinf(side):
            continue
        terms = {j: _least_product(sign * row[j], ends[0][j], ends[1][j]) for j in used}
        are_open = [j for j in used if terms[j] == -math.inf]
        total = sum((term for term in terms.values() if term != -math.inf), Fraction(0))
        for j in used if not are_open else are_open if len(are_open) == 1 else ():
            others = total - (0 if are_open else terms[j])
            bound = (sign * side - others) / (sign * row[j])
            if sign * row[j] > 0:
                upper[j] = min(upper[j], bound)
            else:
                lower[j] = max(lower[j], bound)


def _value_nearby(programs: Sequence[_FractionProgram], primal: np.ndarray, goal: Number) -> Number:
    """The objective of a point next to `primal` [n] that is feasible in one of the programs, which
    have the same objective: the first found that is at most `goal`, else the least; +inf for none.
    """
    best: Number = math.inf
    for program in programs:
        for start in (primal, _rounded_to_bounds(program, primal)):
            point = _feasible_nearby(program, start)
            if point is not None:
                best = min(best, sum(program.objective * point, Fraction(0)))
            if best <= goal:
                return best
    return best


def _complementary(
    program: _FractionProgram, dual: np.ndarray, share: Fraction
) -> _FractionProgram:
    """The program with equalities for the rows and bounds that clear duals and reduced costs say
    are met (complementary slackness): its feasible points are optimal where the dual is.
    """
    reduced = program.objective - _times(program.matrix.T, dual)
    row_lower, row_upper = _ends_met(dual, program.row_lower, program.row_upper, share)
    lower, upper = _ends_met(reduced, program.lower, program.upper, share)
    return program._replace(row_lower=row_lower, row_upper=row_upper, lower=lower, upper=upper)


def _ends_met(
    slopes: np.ndarray, lower: np.ndarray, upper: np.ndarray, share: Fraction
) -> list[np.ndarray]:
    """Both bounds, equal where a slope is clearly not 0 and the end it leads to is finite."""
    ends = lower.copy(), upper.copy()
    least = max(map(abs, slopes), default=0) * share
    for index, slope in enumerate(slopes):
        end = (lower if slope > 0 else upper)[index]
        if abs(slope) > least and not math.isinf(end):
            ends[0][index] = ends[1][index] = end
    return list(ends)


def _rounded_to_bounds(program: _FractionProgram, primal: np.ndarray) -> np.ndarray:
    """The point [n] with variables close to a bound put there, as at a vertex."""
    rounded = primal.copy()
    for ends in (program.lower, program.upper):
        for j, end in enumerate(ends):
            if not math.isinf(end) and abs(primal[j] - end) <= (1 + abs(end)) / 4096:
                rounded[j] = end
    return rounded


def _feasible_nearby(program: _FractionProgram, point: np.ndarray) -> np.ndarray | None:
    """A feasible point next to the given one [n], or None.

    Rows that are missed, and equalities, are met by the least correction in which variables count
    by their squared distance to the nearer bound; until no row is missed.
    """
    point, chosen = np.clip(point, program.lower, program.upper), set[int]()
    for _ in range(_NUM_CORRECTIONS):
        reached = _times(program.matrix, point)
        ends = np.clip(reached, program.row_lower, program.row_upper)
        missed = set(np.flatnonzero(reached != ends).tolist())
        if not missed:
            return point
        chosen |= missed | set(np.flatnonzero(program.row_lower == program.row_upper).tolist())
        rows = sorted(chosen)
        if len(rows) > _MOST_CORRECTED:
            return None
        room = np.minimum(point - program.lower, program.upper - point)
        weights = np.array([_squared_room(part) for part in room], object)
        scaled = program.matrix[rows] * weights[None, :]  # dx = W A'z with A W A'z = missing
        solved = _solve(scaled @ program.matrix[rows].T, (ends - reached)[rows])
        if solved is None:
            return None
        point = np.clip(point + scaled.T @ solved, program.lower, program.upper)
    return None


def _squared_room(room: Number) -> Fraction:
    """A power of two near the square of min(room, 1); 0 for 0."""
    if room <= 0:
        return Fraction(0)
    exponent = 0 if room >= 1 else math.frexp(float(room))[1] if float(room) else -1074
    return Fraction(1, 4**-exponent) if exponent < 0 else Fraction(1)


def _is_unbounded_along(program: _FractionProgram, ray: np.ndarray) -> bool:
    """Whether a direction next to `ray` [n] keeps within all bounds, without end, and lowers the
    objective: the program is then unbounded if it is feasible.
    """

    def recede(bounds: np.ndarray) -> np.ndarray:
        return np.array([b if math.isinf(b) else Fraction(0) for b in bounds.tolist()], object)

    directions = program._replace(
        row_lower=recede(program.row_lower),
        row_upper=recede(program.row_upper),
        lower=recede(program.lower),
        upper=recede(program.upper),
    )
    return _value_nearby([directions], ray, -Fraction(1, 2**1074)) < 0


# --- soft margins over a pool (Shalev-Shwartz and Singer 2008; Goldberg and Eckstein 2009, (3)) ---
#
# Votes w prove a lower bound: the least mean of their margins (A w)_i under example weights d_i of
# at most the caps. Example weights d prove an upper bound: the largest edge (d'A)_j of a column.


@_returns_reasons
def verify_soft_margin(
    solution: Any,
    margins: Any,
    relaxation: Any = None,
    *,
    nu: Any = None,
    cap: Any = None,
    votes: str | None = None,
    weights: Any = None,
    mask: Any = None,
) -> Verification:
    """Checks the bounds on the largest hard or soft margin of votes over the columns of a matrix:
    the lower bound from `coefficients`, the upper bound from `example_weights` (Shalev-Shwartz and
    Singer 2008, Theorem 7 and Section 4.1).

    Args:
      solution: coefficients [n], example_weights [m], lower_bound [], upper_bound [], status [], as
        of `jboost.lpboost.solve` and `jboost.relaxed_margin.solve`.
      margins: A [m, n], entries y_i h_j(x_i) in [-1, 1].
      relaxation: `jboost.relaxations.hard_margin()` or `soft_margin(...)`; None for `nu` or `cap`.
      nu: [] the share of the examples whose least margins are averaged; 0.1 if nothing is given and
        the solution is one of `jboost.lpboost`, as there.
      cap: [] the largest weight of an example of average weight, instead of `nu`.
      votes: "simplex" for votes that are not negative and sum to one, "ball" for |w|_1 <= 1; None
        for "simplex" where the solution has the field `warm` of `jboost.lpboost`, else "ball".
      weights, mask: [m] as in the solver.

    Returns:
      A `Verification`; the bounds are on the largest soft margin of any votes.

    >>> import types
    >>> solution = types.SimpleNamespace(
    ...     coefficients=[0.5, 0.5],
    ...     example_weights=[0.5, 0.5],
    ...     lower_bound=0.0,
    ...     upper_bound=0.0,
    ...     status=0,
    ... )
    >>> verify_soft_margin(solution, [[1.0, -1.0], [-1.0, 1.0]], nu=0.5)[:3]
    (True, Fraction(0, 1), Fraction(0, 1))
    """
    coefficients = _read(solution, "coefficients")
    matrix = _margins_matrix(margins, coefficients)
    num_rows, num_columns = matrix.shape
    if votes not in (None, "simplex", "ball"):
        raise ValueError(f"votes is {votes!r}: expected 'simplex', 'ball' or None")
    is_simplex = hasattr(solution, "warm") if votes is None else votes == "simplex"
    coefficients = _fractions(_read(solution, "coefficients", (num_columns,)))
    example_weights = _fractions(_read(solution, "example_weights", (num_rows,)))
    examples = _read_examples(num_rows, None, weights, mask, _read(solution, "coefficients"))
    if is_simplex and relaxation is None and nu is None and cap is None:
        nu = 0.1  # the default of `jboost.lpboost.solve`
    if not examples.kept.any():
        raise ValueError("weights and mask leave no example: expected one at least")
    caps = _caps(relaxation, nu, cap, examples, _read(solution, "coefficients"))
    claimed = _read_number(solution, "lower_bound"), _read_number(solution, "upper_bound")
    faults = [*_faults_of_caps(solution, caps)]
    caps = caps * max(Fraction(1), 1 / sum(caps))  # below one by rounding only
    matrix = matrix[examples.kept]
    lower = _soft_margin(matrix, _allowed_votes(coefficients, is_simplex), caps)
    upper = _largest_edge(
        matrix, _allowed_weights(example_weights[examples.kept], caps), is_simplex
    )
    note = f"the largest soft margin lies between {_text(lower)} and {_text(upper)}"
    return _conclude(claimed, (lower, upper), faults, note)


def _faults_of_caps(solution: Any, caps: np.ndarray) -> Iterator[str]:
    """Whether the status is INFEASIBLE exactly where the caps allow no example weights."""
    status = _read_status(solution, "INFEASIBLE", "NO_EDGE")
    if (status == "INFEASIBLE") != (sum(caps) < 1 - Fraction(1, 2**18)):
        yield f"status is {status}, and the caps of example weights sum to {_text(sum(caps))}"


def _margins_matrix(margins: Any, like: np.ndarray) -> np.ndarray:
    """The matrix of margins. Raises ValueError where it is none, or leaves [-1, 1]."""
    stored = margins.to_dense() if hasattr(margins, "to_dense") else margins
    matrix = _held("margins", stored, like, 2)
    if 0 in matrix.shape or not (np.abs(matrix) <= 1).all():
        raise ValueError(
            f"margins has shape {list(matrix.shape)}: expected [m, n], of entries in [-1, 1]"
        )
    return matrix


def _caps(relaxation: Any, nu: Any, cap: Any, examples: _Examples, like: np.ndarray) -> np.ndarray:
    """The largest weight of each example, as Fractions; 1 for the hard margin."""
    if relaxation is not None:
        if type(relaxation).__name__ not in ("HardMargin", "SoftMargin"):
            raise ValueError(
                f"relaxation is a {type(relaxation).__name__}: expected hard_margin or soft_margin;"
                " other relaxations are not rational functions, and are not checked"
            )
        nu, cap = getattr(relaxation, "nu", None), getattr(relaxation, "cap", None)
    if nu is not None and cap is not None:
        raise ValueError("nu and cap are both given: expected one of them")
    shares = _fractions(examples.weights) / _total(examples.weights)
    if nu is None and cap is None:
        return np.array([Fraction(1)] * len(shares), object)
    name, value = ("nu", nu) if nu is not None else ("cap", cap)
    number = float(_held(name, value, like, 0))
    if not number > 0:
        raise ValueError(f"{name} is {number}: expected a positive number")
    if math.isinf(number):
        return np.array([Fraction(1)] * len(shares), object)
    rate = 1 / Fraction(number) if nu is not None else Fraction(number) * len(shares)
    return np.array([min(share * rate, Fraction(1)) for share in shares], object)


def _allowed_votes(votes: np.ndarray, is_simplex: bool) -> np.ndarray:
    """The votes [n], moved into the simplex, or scaled into the unit ball of the l1 norm."""
    if not is_simplex:
        return votes / max(sum(abs(votes)), Fraction(1))
    votes = _positive_part(votes)
    if sum(votes) == 0:
        raise _RefutedError("coefficients has no positive entry: no vote")
    return votes / sum(votes)


def _soft_margin(matrix: np.ndarray, votes: np.ndarray, caps: np.ndarray) -> Fraction:
    """The least mean of the margins under example weights of at most the caps: the smallest margins
    take as much weight as they may.
    """
    left, value = Fraction(1), Fraction(0)
    for margin, cap in sorted(zip(_times(matrix, votes), caps, strict=True)):
        taken = min(cap, left)
        value += taken * margin
        left -= taken
    return value


def _allowed_weights(weights: np.ndarray, caps: np.ndarray) -> np.ndarray:
    """The example weights [m], scaled to sum to one; what exceeds a cap goes to the others, in
    proportion to what they may still take.
    """
    weights = _positive_part(weights)
    if sum(weights) == 0:
        raise _RefutedError("example_weights has no positive entry: no distribution")
    capped = np.minimum(weights / sum(weights), caps)
    left = sum(caps - capped)
    return capped + (caps - capped) * ((1 - sum(capped)) / left if left else 0)


def _largest_edge(matrix: np.ndarray, weights: np.ndarray, is_signed: bool) -> Fraction:
    """The largest edge of a column, in absolute value unless it is signed."""
    edges = _times(matrix.T, weights)
    return max(edges if is_signed else abs(edges))


# --- ensembles of stumps and monomials ------------------------------------------------------------
#
# Votes prove the lower bound on a soft margin, as above. Example weights prove the upper bound on
# the soft margin over all hypotheses of the learner: the largest edge of all stumps is found by
# sorting each column, that of all monomials by the search of `verify_monomial`.


@_returns_reasons
def verify_ensemble(
    result: Any,
    features: Any,
    labels: Any,
    relaxation: Any = None,
    *,
    nu: Any = None,
    cap: Any = None,
    votes: Any = None,
    weights: Any = None,
    mask: Any = None,
    max_nodes: int | None = None,
) -> Verification:
    """Checks the bounds on the largest hard or soft margin over all stumps or monomials: the lower
    bound from the votes of an ensemble, the upper bound from its example weights (Shalev-Shwartz
    and Singer 2008, Theorem 7 and Section 4.1).

    Fits of other boosters, with other relaxations or costs of votes, or of other learners are not
    valid, and the reason says that they have no certificate that can be checked.

    Args:
      result: the fit of `jboost.lpboost.fit` or `jboost.relaxed_margin.fit`; or a record with the
        fields ensemble, example_weights [m], lower_bound [], upper_bound [] and status [], as
        `jboost.files.save` writes a dict. The ensemble is of `jboost.learners.stumps` or
        `monomials`.
      features: [m, n], NaN where unknown; labels: [m].
      relaxation, nu, cap: of the fit, as for `verify_soft_margin`; all None for the hard margin.
      votes: the costs of votes of `jboost.relaxed_margin.fit`, which the fit does not hold; None
        for |w|_1 <= 1.
      weights, mask: [m] as in the data set of the fit.
      max_nodes: the most nodes of the search for monomials; None for 100,000.

    Returns:
      A `Verification`; the bounds are on the largest soft margin of any votes.

    >>> import types
    >>> stump = types.SimpleNamespace(feature=[0], threshold=[0.5], left=[-1.0], right=[1.0])
    >>> ensemble = types.SimpleNamespace(
    ...     learner=types.SimpleNamespace(abstain=False),
    ...     hypotheses=stump,
    ...     votes=[[1.0, 1.0]],
    ...     constant=0.0,
    ... )
    >>> fit = types.SimpleNamespace(
    ...     ensemble=ensemble,
    ...     example_weights=[0.5, 0.5],
    ...     lower_bound=1.0,
    ...     upper_bound=1.0,
    ...     status=0,
    ... )
    >>> verify_ensemble(fit, [[0.0], [1.0]], [-1, 1])[:3]
    (True, Fraction(1, 1), Fraction(1, 1))
    """
    _check_ensemble(result, relaxation, votes)
    claims, limit = _claims_of_ensemble(result), max_nodes or _MOST_NODES
    ensemble, like = result.ensemble, _read(result.ensemble, "votes")
    table = _held("features", features, like, 2)
    examples = _read_examples(len(table), labels, weights, mask, like)
    if not examples.kept.any():
        raise ValueError("weights and mask leave no example: expected one at least")
    caps = _caps(relaxation, nu, cap, examples, like)
    faults = [*_faults_of_caps(result, caps)]
    caps = caps * max(Fraction(1), 1 / sum(caps))  # below one by rounding only
    table = table[examples.kept]
    margins, coefficients = _margins_of_ensemble(ensemble, table, examples.labels)
    lower = _best_soft_margin(margins, coefficients, caps)
    given = _fractions(_read(claims, "example_weights", examples.kept.shape))[examples.kept]
    claimed = _read_number(claims, "lower_bound"), _read_number(claims, "upper_bound")
    signed = _allowed_weights(given, caps) * examples.labels
    upper, is_complete = _largest_edge_of(ensemble.learner, table, signed, claimed[1], limit)
    if not is_complete and claimed[1] < upper:
        faults.append(f"the upper bound is not proven within {limit} nodes: raise max_nodes")
    what = _bounded_margin(ensemble.learner, relaxation, nu, cap)
    note = f"the largest {what} lies between {_text(lower)} and {_text(upper)}"
    return _conclude(claimed, (lower, upper), faults, note)


def _bounded_margin(learner: Any, relaxation: Any, nu: Any, cap: Any) -> str:
    """Which margin of votes of which hypotheses is bounded, in words."""
    if relaxation is not None:
        nu, cap = getattr(relaxation, "nu", None), getattr(relaxation, "cap", None)
    given = [f"{name} = {float(value):g}" for name, value in (("nu", nu), ("cap", cap)) if value]
    margin = f"soft margin of {given[0]}" if given else "hard margin"
    if hasattr(learner, "abstain"):
        return f"{margin} over all stumps"
    order = learner.max_order
    return (
        f"{margin} over all monomials{'' if order is None else f' of {_number_of_literals(order)}'}"
    )


_BOUNDS_OF_MARGINS = {"lower_bound", "upper_bound", "seen_upper_bound", "example_weights"}
_TRACE_OF_MARGINS = {"edges", "lower_bounds", "upper_bounds", "seen_upper_bounds"}
_FIELDS_OF_FIT = {"ensemble", "certificate", "trace", "num_rounds", "status", "type_name"}
_MOST_VOTES = 1 + Fraction(1, 2**10)  # in size, of the unit ball up to the rounding of many votes


def _names_of(record: Any) -> set[str]:
    """The names of the fields of a NamedTuple, of a record that was read, or of an object."""
    fields: Any = getattr(record, "_fields", None) or getattr(record, "__dict__", ())
    return set(fields)


def _claims_of_ensemble(result: Any) -> Any:
    """The record with the bounds of a fit: its certificate, or the record itself."""
    return result if hasattr(result, "example_weights") else getattr(result, "certificate", None)


def _flaw_of_ensemble(result: Any) -> str:
    """Why a result with an ensemble holds no bounds on a soft margin; "" where it does."""
    claims, trace = _claims_of_ensemble(result), getattr(result, "trace", None)
    if claims is result:
        is_known = _names_of(claims) <= _BOUNDS_OF_MARGINS | _FIELDS_OF_FIT
    else:
        is_known = _names_of(claims) - {"type_name"} == _BOUNDS_OF_MARGINS
    if trace is not None:
        is_known = is_known and _names_of(trace) - {"type_name"} == _TRACE_OF_MARGINS
    learner = getattr(result.ensemble, "learner", None)
    is_monomials = isinstance(getattr(learner, "max_order", ""), int | None)
    is_monomials = is_monomials and not hasattr(learner, "positive")  # those of SLIPPER
    is_stumps = isinstance(getattr(learner, "abstain", None), bool | np.bool_)
    if not is_known:
        return "it has no bounds on a soft margin"
    if not (is_stumps if hasattr(learner, "abstain") else is_monomials):
        return "the ensemble is not of stumps or monomials"
    return ""


def _check_ensemble(result: Any, relaxation: Any, votes: Any) -> None:
    """Raises `_RefutedError` unless the result holds bounds on a soft margin of votes in the unit
    ball of the l1 norm.
    """
    flaw = _flaw_of_ensemble(result)
    for what, names in ((relaxation, ("HardMargin", "SoftMargin")), (votes, ("UnitBall",))):
        if what is not None and type(what).__name__ not in names:
            flaw = flaw or f"bounds with a {type(what).__name__} are not checked"
    if not flaw:
        size = _total(abs(_read_votes(result.ensemble)[:, 0].astype(float)))
        if size > _MOST_VOTES:
            flaw = f"the sizes of its votes sum to {_text(size)}: expected at most 1"
    if flaw:
        raise _RefutedError(_what_is_missing(result, flaw))


def _read_votes(ensemble: Any) -> np.ndarray:
    """The votes [T, 2] of an ensemble, for both outputs."""
    votes = _read(ensemble, "votes")
    if votes.ndim != 2 or votes.shape[1] != 2:
        raise _RefutedError(f"votes has shape {list(votes.shape)}: expected [T, 2]")
    return votes


def _margins_of_ensemble(
    ensemble: Any, table: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The margins [k, T] of the hypotheses that vote and of the constant, and their votes [T]."""
    votes = _read_votes(ensemble)
    if (votes[:, 0] != votes[:, 1]).any():
        raise _RefutedError("votes differ for the two outputs of a hypothesis: no soft margin")
    used = np.flatnonzero(votes[:, 0])
    outputs = _outputs_of(ensemble, table, used)
    constant = float(_read(ensemble, "constant", ()))
    outputs = np.concatenate([outputs, np.ones((len(table), 1))], axis=1)
    return outputs * labels[:, None], _fractions([*votes[used, 0].tolist(), constant])


def _outputs_of(ensemble: Any, table: np.ndarray, used: np.ndarray) -> np.ndarray:
    """The outputs [k, T] of the stumps or monomials in these slots. Raises `_RefutedError` where
    one is not a hypothesis of the learner.
    """
    hypotheses, learner = getattr(ensemble, "hypotheses", None), ensemble.learner
    if hasattr(hypotheses, "threshold") and hasattr(learner, "abstain"):
        return _outputs_of_stumps(hypotheses, table, used, bool(learner.abstain))
    literals = _read_integers_of_slots(hypotheses, "literals", used, 2)
    signs = _read_integers_of_slots(hypotheses, "sign", used)
    if literals.shape[1:] != table.shape[1:]:
        raise _RefutedError(f"literals has shape {list(literals.shape)}: not of these features")
    if hasattr(learner, "abstain"):
        raise _RefutedError("the hypotheses are monomials, and the learner is one of stumps")
    most = _most_literals(learner, table)
    sizes = abs(literals)
    if (sizes > 1).any() or (sizes.sum(axis=1) > most).any() or (abs(signs) != 1).any():
        raise _RefutedError(f"a monomial is not one of at most {most} literals and a sign")
    holds = (literals[None] == 0) | (table[:, None] == (literals[None] > 0))
    return holds.all(axis=2) * signs.astype(float)


def _most_literals(learner: Any, table: np.ndarray) -> int:
    """The most literals of a monomial of a learner over a table."""
    most = table.shape[1] if learner.max_order is None else learner.max_order
    if most < 0:
        raise _RefutedError(f"max_order of the learner is {most}: expected a number from 0 up")
    return int(min(most, table.shape[1]))


def _read_integers_of_slots(
    hypotheses: Any, name: str, used: np.ndarray, ndim: int = 1
) -> np.ndarray:
    """The integers of a field of hypotheses, for the slots that vote."""
    array = _read(hypotheses, name)
    if array.ndim != ndim or len(array) <= used.max(initial=-1):
        raise _RefutedError(
            f"{name} has shape {list(array.shape)}: expected an entry for each vote"
        )
    return _read_integers(types.SimpleNamespace(**{name: array[used]}), name, array[used].shape)


def _outputs_of_stumps(
    hypotheses: Any, table: np.ndarray, used: np.ndarray, abstains: bool
) -> np.ndarray:
    """The outputs [k, T] of stumps that separate two values of a column, and of constants."""
    feature, left, right = (
        _read_integers_of_slots(hypotheses, name, used) for name in ("feature", "left", "right")
    )
    threshold = _read(hypotheses, "threshold", is_finite=False).reshape(-1)
    if len(threshold) <= used.max(initial=-1):
        raise _RefutedError("threshold: expected an entry for each vote")
    if not ((feature >= 0) & (feature < table.shape[1])).all():
        raise _RefutedError(f"a stump reads a feature that is not among {table.shape[1]}")
    values, is_constant = table[:, feature], left == right
    is_above, is_missing = values > threshold[used], np.isnan(values)
    splits = is_above.any(axis=0) & (~is_above & ~is_missing).any(axis=0)
    sizes = np.stack([abs(left), abs(right)])
    is_allowed = (sizes <= 1).all(axis=0) & (abstains | is_constant | (sizes == 1).all(axis=0))
    if not (is_allowed & (is_constant | splits | ~is_missing.any(axis=0))).all():
        raise _RefutedError("a stump does not separate two values by outputs of the learner")
    outputs = np.where(is_above, right, left).astype(float)
    return np.where(is_missing & ~is_constant, 0.0, outputs)


def _best_soft_margin(margins: np.ndarray, votes: np.ndarray, caps: np.ndarray) -> Fraction:
    """The soft margin of the votes divided by max(1, their sum of sizes), or by that sum if this
    gives more.
    """
    inside = _soft_margin(margins, _allowed_votes(votes, False), caps)
    total = sum(abs(votes))
    return max(inside, _soft_margin(margins, votes / total, caps)) if total else inside


def _largest_edge_of(
    learner: Any, table: np.ndarray, signed: np.ndarray, goal: Number, max_nodes: int
) -> tuple[Number, bool]:
    """An upper bound on the edges of all stumps or monomials of a learner, under example weights
    times labels [k]; and whether the search for it was complete.
    """
    if hasattr(learner, "abstain"):
        return _largest_edge_of_stumps(table, signed, bool(learner.abstain)), True
    most = _most_literals(learner, table)
    amounts, unit = _whole(np.append(abs(signed), 0))
    holds = np.stack([table.T == 1, table.T == 0], axis=1)
    labels, size = np.where(signed >= 0, 1, -1), len(signed)
    rewards = np.zeros((size, size), int)
    costs: list[Number] = [Fraction(0)] * (most + 1)
    problems = {s: _agreement(s, holds, labels, amounts[:-1], rewards, costs) for s in (1, -1)}
    found, is_complete = _largest_agreement(problems, goal / unit, max_nodes)
    return found * unit, is_complete


def _largest_edge_of_stumps(table: np.ndarray, signed: np.ndarray, abstains: bool) -> Fraction:
    """The largest |edge| of a stump or a constant, by exact sums over each sorted column. A stump
    separates two values of its column.
    """
    amounts, unit = _whole(np.append(signed, 0))
    amounts, most = amounts[:-1], abs(int(sum(amounts)))
    for column in table.T:
        known = np.flatnonzero(~np.isnan(column))
        order = known[np.argsort(column[known], kind="stable")]
        values = column[order]
        is_split = values[1:] != values[:-1]
        sums = np.append(np.zeros(1, object), np.cumsum(amounts[order]))
        below = sums[1:-1][is_split]
        above = sums[-1] - below
        sides = [above - below, *([below, above] if abstains else [])]
        most = max(most, *(int(max(abs(side), default=0)) for side in sides))
    return most * unit


# --- the relaxation of L0-RBoost (Goldberg and Eckstein 2009, (18) and (19)) ----------------------
#
# minimise sum weight_i xi_i + sum c_u mu_u subject to sum_u y_i H_iu lambda_u + (1 + rho) xi_i >=
# rho, sum lambda = 1, mu >= lambda >= 0, xi >= 0, and for i, i' of opposite classes xi_i + xi_i' +
# sum of mu over S_ii' >= 1, where S_ii' = {u : H_iu = y_i != H_i'u}. At some optimum no xi and no
# mu exceeds 1. So any w, v >= 0 prove the lower bound
#   rho sum w + sum v + sum_i min(0, weight_i - (1 + rho) w_i - sum of v over the cuts of i)
#   + sum_u min(0, c_u - s_u) + min_u ([c_u - s_u]_+ - g_u),
# s_u the sum of v over the cuts that count u, g_u = sum_i y_i H_iu w_i.


class _CountedExamples(NamedTuple):
    """The examples that count, and the columns."""

    signed: np.ndarray  # [k, U] y_i H_iu, int
    labels: np.ndarray  # [k]
    weights: np.ndarray  # [k] Fractions
    costs: np.ndarray  # [U] Fractions
    margin: Fraction
    either: bool  # whether a cut counts the columns that separate its examples in either direction


@_returns_reasons
def verify_relaxation(
    solution: Any,
    outputs: Any,
    labels: Any,
    costs: Any,
    *,
    margin: Any,
    weights: Any = None,
    mask: Any = None,
    column_mask: Any = None,
    cuts: str = "ordered",
) -> Verification:
    """Checks the bounds on the relaxation of L0-RBoost over a pool: the lower bound from the duals
    of margins and listed pair cuts, the upper bound from the primal point, in all rows and all cuts
    (Goldberg and Eckstein 2009, (18) and (19)).

    A solution whose pairs are not listed is read after
    `solution._replace(pairs=..., pair_weights=...)` with the arrays of `jboost.l0.list_pairs`. A
    relaxation with `distance_factor` has fewer cuts than are checked here.

    Args:
      solution: coefficients [U], selected [U], slacks [m], example_weights [m], pairs [K, 2] (-1
        for an empty slot), pair_weights [K], lower_bound [], upper_bound [], status [], as of
        `jboost.l0.solve_relaxation`.
      outputs: H [m, U], entries -1, 0, +1; labels: [m]; costs: [U]; margin: [] rho.
      weights, mask: [m]; column_mask: [U]; cuts: "ordered" or "either", as in that call.

    Returns:
      A `Verification`; the bounds are on the optimum of the relaxation over this pool.

    >>> import types
    >>> solution = types.SimpleNamespace(
    ...     coefficients=[1.0],
    ...     selected=[1.0],
    ...     slacks=[0.0],
    ...     example_weights=[0.0],
    ...     pairs=[[-1, -1]],
    ...     pair_weights=[0.0],
    ...     lower_bound=0.5,
    ...     upper_bound=0.5,
    ...     status=0,
    ... )
    >>> verify_relaxation(solution, [[1]], [1], [0.5], margin=0.25).valid
    True
    """
    like = _read(solution, "coefficients")
    if cuts not in ("ordered", "either"):
        raise ValueError(f"cuts is {cuts!r}: expected 'ordered' or 'either'")
    pool, kept, used = _read_pool(
        outputs, labels, costs, margin, weights, mask, column_mask, cuts == "either", like
    )
    claimed = _read_number(solution, "lower_bound"), _read_number(solution, "upper_bound")
    status = _read_status(solution, "PRIMAL_INFEASIBLE")
    if not used.any():
        faults = [] if status == "PRIMAL_INFEASIBLE" else ["the pool has no column"]
        return _conclude(claimed, (math.inf, math.inf), faults, "the pool has no column")
    lower = _relaxation_lower(solution, pool, kept, used)
    upper, flaw = _relaxation_upper(solution, pool, kept, used)
    faults = [flaw] if flaw and claimed[1] < math.inf else []
    if status == "PRIMAL_INFEASIBLE":
        faults.append("status is PRIMAL_INFEASIBLE, and the pool has a column")
    note = f"the relaxation lies between {_text(lower)} and {_text(upper)}"
    return _conclude(claimed, (lower, upper), faults, note)


def _read_pool(
    outputs: Any,
    labels: Any,
    costs: Any,
    margin: Any,
    weights: Any,
    mask: Any,
    column_mask: Any,
    either: bool,
    like: np.ndarray,
) -> tuple[_CountedExamples, np.ndarray, np.ndarray]:
    """The pool, which examples [m] count, and which columns [U]. Raises ValueError."""
    matrix = _held("outputs", outputs, like, 2)
    examples = _read_examples(len(matrix), labels, weights, mask, like)
    prices = _held("costs", costs, like, 1)
    used = np.ones(len(prices), bool) if column_mask is None else np.asarray(column_mask, bool)
    if prices.shape != matrix.shape[1:] or used.shape != prices.shape:
        raise ValueError(f"costs has shape {list(prices.shape)}: expected [{matrix.shape[1]}]")
    matrix = matrix[examples.kept][:, used]
    if not np.isin(matrix, (-1, 0, 1)).all() or not (prices[used] >= 0).all():
        raise ValueError("outputs or costs: expected outputs of -1, 0, +1 and costs from 0 up")
    _check_finite("costs", prices[used])
    rho = float(_held("margin", margin, like, 0))
    if not 0 < rho <= 1:
        raise ValueError(f"margin is {rho}: expected a number above 0 and up to 1")
    pool = _CountedExamples(
        matrix.astype(int) * examples.labels[:, None],
        examples.labels,
        _fractions(examples.weights),
        _fractions(prices[used]),
        Fraction(rho),
        either,
    )
    return pool, examples.kept, used


def _relaxation_lower(
    solution: Any, pool: _CountedExamples, kept: np.ndarray, used: np.ndarray
) -> Fraction:
    """What the duals prove, with the multipliers of the bounds xi <= 1 and mu <= 1."""
    duals = _fractions(_read(solution, "example_weights", kept.shape))[kept]
    duals = _positive_part(duals)
    load, served = duals * (1 + pool.margin), np.zeros(len(pool.costs), object) + Fraction(0)
    total = pool.margin * sum(duals)
    for first, second, value in _listed_pairs(solution, pool, kept):
        load[[first, second]] += value
        served[_separating(pool, first, second)] += value
        total += value
    left = pool.costs - served
    edges = _times(pool.signed.T, duals)
    total -= sum(_positive_part(load - pool.weights))
    return total - sum(_positive_part(-left)) + min(_positive_part(left) - edges)


def _listed_pairs(
    solution: Any, pool: _CountedExamples, kept: np.ndarray
) -> Iterator[tuple[int, int, Fraction]]:
    """The pairs with positive weights; raises `_RefutedError` for other than opposite classes."""
    values = _read(solution, "pair_weights")
    if values.ndim != 1:
        raise _RefutedError(
            "pair_weights lists no pairs: replace pairs and pair_weights by list_pairs"
        )
    pairs = _read_integers(solution, "pairs", (len(values), 2))
    index = np.cumsum(kept) - 1
    for (first, second), value in zip(pairs.tolist(), values.tolist(), strict=True):
        if value <= 0:
            continue
        if not (min(first, second) >= 0 and max(first, second) < len(kept)):
            raise _RefutedError(
                f"pairs has [{first}, {second}] with a positive weight: no such example"
            )
        ends = int(index[first]), int(index[second])
        if not (kept[first] and kept[second]) or pool.labels[ends[0]] == pool.labels[ends[1]]:
            raise _RefutedError(f"pairs has [{first}, {second}], which are not of opposite classes")
        yield *ends, Fraction(value)


def _separating(pool: _CountedExamples, first: int, second: int) -> np.ndarray:
    """S_ii', which columns [U] count in the cut of a pair: H_iu = y_i != H_i'u."""
    one, other = pool.signed[first], pool.signed[second]  # H_i'u != y_i where y_i' H_i'u != -1
    served = (one == 1) & (other != -1)
    return served | ((other == 1) & (one != -1)) if pool.either else served


def _relaxation_upper(
    solution: Any, pool: _CountedExamples, kept: np.ndarray, used: np.ndarray
) -> tuple[Number, str]:
    """The objective of the primal point, and which condition it misses; +inf where it does."""
    votes, selected = (
        _fractions(_read(solution, name, used.shape))[used] for name in ("coefficients", "selected")
    )
    slacks = _fractions(_read(solution, "slacks", kept.shape))[kept]
    conditions = {
        "coefficients sum to one": sum(votes) == 1,
        "coefficients and slacks are not negative": min([*votes, *slacks]) >= 0,
        "selected is at least coefficients": (selected >= votes).all(),
        "all rows of margins hold": _rows_hold(pool, votes, slacks),
        "all cuts hold": _cuts_hold(pool, selected, slacks),
    }
    for condition, holds in conditions.items():
        if not holds:
            return math.inf, f"the primal point misses a condition: {condition}"
    return sum(pool.weights * slacks) + sum(pool.costs * selected), ""


def _rows_hold(pool: _CountedExamples, votes: np.ndarray, slacks: np.ndarray) -> bool:
    reached = _times(pool.signed, votes) + (1 + pool.margin) * slacks
    return bool((reached >= pool.margin).all())


def _cuts_hold(pool: _CountedExamples, selected: np.ndarray, slacks: np.ndarray) -> bool:
    """Whether xi_i + xi_i' + sum of mu over S_ii' >= 1 for all i, i' of opposite classes."""
    amounts, unit = _whole(np.concatenate([selected, slacks]))
    selected, slacks, one = amounts[: len(selected)], amounts[len(selected) :], 1 / unit
    hits, misses = (pool.signed == 1).astype(object), (pool.signed != -1).astype(object)
    served = (hits * selected[None, :]) @ misses.T  # [k, k], row i and column i'
    if pool.either:  # a column that both examples have right is in both sums
        served = served + served.T - (hits * selected[None, :]) @ hits.T
    are_opposite = pool.labels[:, None] != pool.labels[None, :]
    return bool((~are_opposite | (served + slacks[:, None] + slacks[None, :] >= one)).all())


# --- rules of l0 over all monomials (Goldberg and Eckstein 2009, (15) and (18)) -------------------
#
# (15) asks for votes lambda >= 0 of signed monomials and of the constants +1 and -1, of sum 1, that
# minimise the weight of the rows with a margin below rho plus the costs of the columns in use.
# Votes prove an upper bound. The formula above, over all monomials of up to so many literals,
# proves a lower bound on (18) with its pair cuts, and one on (15) with cuts that also count the
# columns that separate the pair in the other direction: where two rows of opposite classes both
# have a margin above 0, some column covers the one whose class it predicts and not the other one.
# Duals are rounded to integers of 52 bits, which prove another, nearly equal bound, so that sums of
# floats are exact.

_EXACT_BITS = 52  # integers whose sum is below 2^52 have exact sums and differences in float64
_MOST_ORDER_OF_RULES = 2


class _AllMonomials(NamedTuple):
    """The rows that the duals are about, and the costs of monomials."""

    literals: np.ndarray  # [k, 2 n] bool, which rows satisfy each literal
    labels: np.ndarray  # [k]
    weights: np.ndarray  # [k] Fractions
    costs: np.ndarray  # [K + 1] Fractions, by the number of literals; that of a constant first
    margin: Fraction


@_returns_reasons
def verify_rules(result: Any, features: Any, labels: Any, *, weights: Any = None) -> Verification:
    """Checks the rules of `jboost fit --method l0`: the upper bound by the errors and costs of the
    stored votes, and the lower bounds by duals, over all monomials of one or two literals (Goldberg
    and Eckstein 2009, (15) and (18)).

    Args:
      result: ensemble, of monomials; and proof, a record with the margin rho [], costs [K + 1] of a
        constant and of monomials of 1 to K literals, integer_lower_bound [] and
        integer_upper_bound [] of (15), lower_bound [] of (18), and the records `integer` and
        `relaxed` of duals for (15) and (18): example_weights [m], pairs [C, 2], pair_weights [C];
        and, where it claims an upper_bound [] of (18), a record `point`: literals [a, n], sign [a],
        coefficients [a] and selected [a] (lambda and mu), constants [2], slacks [m].
      features: [m, n] of 0, 1, and NaN where neither literal holds; labels: [m]; weights: [m].

    Returns:
      A `Verification`; the bounds are on (15), the errors plus the costs of rules. The reason says
      what is proven of (18).

    >>> import types
    >>> nothing = types.SimpleNamespace(example_weights=[0.0], pairs=[], pair_weights=[])
    >>> proof = dict(margin=0.5, costs=[0.0, 1.0], integer_lower_bound=0.0, lower_bound=0.0)
    >>> proof |= dict(integer_upper_bound=0.0, integer=nothing, relaxed=nothing)
    >>> ensemble = types.SimpleNamespace(
    ...     learner=types.SimpleNamespace(max_order=1),
    ...     hypotheses=types.SimpleNamespace(literals=[[1]], sign=[1]),
    ...     votes=[[0.0, 0.0]],
    ...     constant=1.0,
    ... )
    >>> result = types.SimpleNamespace(ensemble=ensemble, proof=types.SimpleNamespace(**proof))
    >>> verify_rules(result, [[1.0]], [1]).reason  # doctest: +ELLIPSIS
    'errors plus costs lie between 0 and 0, over all rules of one literal, with margin 0.5 and ...'
    """
    ensemble, proof = getattr(result, "ensemble", None), getattr(result, "proof", None)
    table = _held("features", features, np.zeros(()), 2).astype(float)
    if not np.isin(table[~np.isnan(table)], (0, 1)).all():
        raise ValueError("features has entries other than 0, 1 and NaN")
    examples = _read_examples(len(table), labels, weights, None, np.zeros(()))
    table, margin = table[examples.kept], _read_number(proof, "margin")
    order: Any = getattr(getattr(ensemble, "learner", None), "max_order", None)
    costs = _costs_of_rules(proof, order)
    if not 0 < margin <= 1:
        raise _RefutedError("the margin of the proof is not that of a fit")
    given = table, examples, _fractions(costs), Fraction(margin)
    lower = _bound_over_monomials(getattr(proof, "integer", None), *given, either=True)
    relaxed = _bound_over_monomials(getattr(proof, "relaxed", None), *given, either=False)
    upper = _cost_of_votes(ensemble, *given)
    faults, of_relaxation = _relaxation_of_rules(proof, relaxed, given)
    note = (
        f"errors plus costs lie between {_text(lower)} and {_text(upper)}, over all rules of"
        f" {_number_of_literals(order)}, with margin {float(margin):g} and costs"
        f" {', '.join(f'{cost:g}' for cost in costs.tolist())} of a constant and by number of"
        f" literals; {of_relaxation}"
    )
    claimed = [_read_number(proof, f"integer_{name}_bound") for name in ("lower", "upper")]
    return _conclude((claimed[0], claimed[1]), (lower, upper), faults, note)


def _costs_of_rules(proof: Any, order: Any) -> np.ndarray:
    """The costs of a constant and of rules of 1, 2, ... literals, without those of the last orders
    that are infinite: no rule has so many literals.
    """
    costs = _read(proof, "costs", is_finite=False).astype(float)
    if costs.ndim != 1 or not (costs >= 0).all():
        raise _RefutedError("the costs of the proof are not those of a fit")
    if not isinstance(order, int) or not 0 < order == len(costs) - 1 <= _MOST_ORDER_OF_RULES:
        raise _RefutedError("rules are checked over all rules of one or two literals only")
    finite = np.flatnonzero(np.isfinite(costs))
    costs = costs[: finite.max(initial=-1) + 1]
    if len(finite) != len(costs) or len(costs) == 0:
        raise _RefutedError("costs has entries that are not finite numbers, which claim nothing")
    return costs


def _relaxation_of_rules(
    proof: Any, lower: Fraction, given: tuple[np.ndarray, _Examples, np.ndarray, Fraction]
) -> tuple[list[str], str]:
    """The claims on (18) that are not proven, and what is."""
    faults, claimed = [], _read_number(proof, "lower_bound")
    if claimed > lower:
        faults.append(
            f"a lower bound of {_text(claimed)} on the relaxation is claimed, and"
            f" {_text(lower)} is proven"
        )
    least = f"the relaxation is at least {_text(lower)}"
    if not hasattr(proof, "upper_bound"):
        return faults, f"{least}, and no upper bound is claimed"
    claimed = _read_number(proof, "upper_bound")
    if claimed == math.inf:
        return faults, f"{least}, and no upper bound is claimed"
    upper, flaw = _value_of_point(getattr(proof, "point", None), *given)
    if claimed < upper:
        faults.append(
            flaw
            or f"an upper bound of {_text(claimed)} on the relaxation is claimed, and"
            f" {_text(upper)} is proven"
        )
    return faults, f"{least} and at most {_text(upper)}"


def _number_of_literals(order: int) -> str:
    return "one literal" if order == 1 else f"up to {order} literals"


def _cost_of_votes(
    ensemble: Any, table: np.ndarray, examples: _Examples, costs: np.ndarray, margin: Fraction
) -> Fraction:
    """The errors and costs of stored votes. What their sizes lack of a sum of 1 is shared by the
    two constants.
    """
    votes = _read_votes(ensemble)
    if (votes[:, 0] != votes[:, 1]).any():
        raise _RefutedError("votes differ for the two outputs of a rule")
    used = np.flatnonzero(votes[:, 0])
    outputs = _outputs_of(ensemble, table, used)
    constant = Fraction(float(_read(ensemble, "constant", ())))
    coefficients = _fractions(votes[used, 0])
    size = sum(abs(coefficients), abs(constant))
    scores = _times(outputs, coefficients) + constant if len(used) else constant
    is_wrong = np.broadcast_to(examples.labels * scores < margin * max(size, 1), table.shape[:1])
    orders = abs(_read(ensemble.hypotheses, "literals")[used].astype(int)).sum(axis=1)
    if orders.max(initial=0) >= len(costs):
        raise _RefutedError("a rule has more literals than there are costs")
    num_constants = int(constant != 0) if size >= 1 else 2
    return _total(examples.weights[is_wrong]) + sum(costs[orders]) + num_constants * costs[0]


def _bound_over_monomials(
    duals: Any,
    table: np.ndarray,
    examples: _Examples,
    costs: np.ndarray,
    margin: Fraction,
    *,
    either: bool,
) -> Fraction:
    """What duals prove over all monomials of one or two literals and both constants."""
    given = np.maximum(_read(duals, "example_weights").astype(float), 0)
    values = np.maximum(_read(duals, "pair_weights").astype(float), 0)
    if given.ndim != 1 or values.ndim != 1:
        raise _RefutedError("example_weights or pair_weights of the proof are no vectors")
    problem = _all_monomials(len(given), table, examples, costs, margin)
    pairs = _read_integers(duals, "pairs", (len(values), 2)) if len(values) else np.zeros((0, 2))
    pairs = _opposite_pairs(pairs.astype(int), problem.labels, either)
    total = float(given.sum() + values.sum() + float(max(costs)))
    if not total < 2.0**900:
        raise _RefutedError("the duals of the proof are too large")
    shift = _EXACT_BITS - max(math.frexp(total)[1], -900)
    given, values = (np.rint(np.ldexp(part, shift)) for part in (given, values))
    unit = Fraction(1, 2**shift) if shift >= 0 else Fraction(2**-shift)
    load = sum(np.bincount(ends, values, len(given)) for ends in pairs.T)
    excess = _fractions(given) * (unit * (1 + margin)) + _fractions(load) * unit - problem.weights
    least, violation = _least_of_monomials(problem, given, pairs, values, unit, either)
    return (
        margin * unit * int(given.sum())
        + unit * (int(values.sum()) + least - violation)
        - sum(_positive_part(excess))
    )


def _all_monomials(
    size: int, table: np.ndarray, examples: _Examples, costs: np.ndarray, margin: Fraction
) -> _AllMonomials:
    """The problem by rows, or by the distinct rows of each class in the order in which they occur
    first, where duals are of `size` such rows.
    """
    labels, weights = examples.labels, _fractions(examples.weights)
    if size != len(table):
        parts = [table == 1, table == 0, (labels > 0)[:, None]]
        packed = np.packbits(np.concatenate(parts, axis=1), axis=1)
        _, first, row_of = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        totals = np.array([Fraction(0)] * len(first), object)
        np.add.at(totals, np.argsort(order)[row_of.reshape(-1)], weights)
        kept = first[order]
        table, labels, weights = table[kept], labels[kept], totals
    if size != len(table):
        raise _RefutedError(f"example_weights has {size} entries: expected {len(table)}")
    literals = np.concatenate([table == 1, table == 0], axis=1)
    return _AllMonomials(literals, labels, weights, costs, margin)


def _opposite_pairs(pairs: np.ndarray, labels: np.ndarray, either: bool) -> np.ndarray:
    """The pairs [C, 2], the positive row first if a cut counts either direction."""
    if not ((pairs >= 0) & (pairs < len(labels))).all():
        raise _RefutedError("pairs of the proof has an entry that is no row")
    if (labels[pairs].sum(axis=1) != 0).any():
        raise _RefutedError("pairs of the proof has rows that are not of opposite classes")
    is_turned = (labels[pairs[:, 0]] < 0) & either
    return np.where(is_turned[:, None], pairs[:, ::-1], pairs)


def _least_of_monomials(
    problem: _AllMonomials,
    given: np.ndarray,
    pairs: np.ndarray,
    values: np.ndarray,
    unit: Fraction,
    either: bool,
) -> tuple[int, int]:
    """The least of [c_u - s_u]_+ - g_u, and the sum of [s_u - c_u]_+, in units, over all columns u.
    All numbers are integers; costs are rounded down.
    """
    literals, signed = problem.literals, given * problem.labels
    edges = np.zeros((literals.shape[1],) * 2)
    for begin in range(0, len(literals), _ROWS_AT_ONCE):
        part = literals[begin : begin + _ROWS_AT_ONCE].astype(float)
        edges += (part * signed[begin : begin + _ROWS_AT_ONCE, None]).T @ part
    prices = [int(cost / unit) for cost in problem.costs]
    least, violation = prices[0] - abs(int(signed.sum())), 0
    is_other = np.triu(np.ones(edges.shape, bool), 1)
    half = np.arange(edges.shape[0] // 2)
    is_other[half, half + len(half)] = False  # a literal and its negation
    for sign in (1, -1):
        if either:
            inside, outside = pairs.T if sign > 0 else pairs.T[::-1]
            amounts = values
        else:
            is_own = problem.labels[pairs[:, 0]] == sign
            (inside, outside), amounts = pairs[is_own].T, values[is_own]
        own = literals[inside].astype(float)
        both = own * literals[outside]
        rewards = (own * amounts[:, None]).T @ own - (both * amounts[:, None]).T @ both
        chosen = np.eye(len(edges), dtype=bool)
        for price in prices[1:]:
            left, gained = price - rewards[chosen], sign * edges[chosen]
            least = min(least, int(min(np.maximum(left, 0) - gained, default=least)))
            violation += sum(int(-one) for one in left[left < 0].tolist())
            chosen = is_other
    return least, violation


# --- a point of the relaxation over monomials (Goldberg and Eckstein 2009, (18)) ------------------
#
# A point is lambda and mu of some columns, lambda of the constants, and the slacks xi. Its value is
# an upper bound. Rounding is repaired before it is checked: the largest lambda takes what their sum
# lacks of 1, mu is at least lambda, and xi at least what the margins require. Rows of one class
# that agree on all columns of the point form a group. Only their least slack counts in a cut.
#
# Cuts are checked without error by products of matrices of floats: each number is the sum of a
# multiple of 2^-26 and of a rest, rounded down, so that all sums are of integers below 2^52.

_MOST_PRODUCTS = 12_000_000_000  # of a check of all pairs of groups, about 10 s
_PAIRS_AT_ONCE = 1 << 21
_HIGH_BITS = 26


class _PointOfRelaxation(NamedTuple):
    """The columns of a point over groups of rows."""

    covered: np.ndarray  # [g, a] bool
    labels: np.ndarray  # [g]
    group_of: np.ndarray  # [k] of each row
    signs: np.ndarray  # [a]
    coefficients: np.ndarray  # [a] Fractions
    constants: np.ndarray  # [2] Fractions, of +1 and of -1


def _value_of_point(
    point: Any, table: np.ndarray, examples: _Examples, costs: np.ndarray, margin: Fraction
) -> tuple[Number, str]:
    """The value of a stored point of (18), and which condition it misses; +inf where it does."""
    slacks = _read(point, "slacks")
    if slacks.ndim != 1:
        raise _RefutedError("slacks of the point is no vector")
    problem = _all_monomials(len(slacks), table, examples, costs, margin)
    literals, signs = _columns_of_point(point, table.shape[1], len(costs) - 1)
    shape = signs.shape
    given = [_read(point, name, shape) for name in ("coefficients", "selected")]
    constants = _read(point, "constants", (2,))
    if min(part.min(initial=0) for part in (*given, constants, slacks)) < 0:
        return math.inf, "the point of the relaxation has negative entries"
    votes = _fractions(np.concatenate([constants, given[0]]))
    votes[np.argmax(votes)] += 1 - sum(votes)
    if min(votes) < 0:
        return math.inf, "the coefficients of the point of the relaxation do not sum to one"
    group = _group_rows(problem, literals)
    held = _PointOfRelaxation(*group, signs, votes[2:], votes[:2])
    selected = np.maximum(_fractions(given[1]), held.coefficients)
    exact = np.maximum(_fractions(slacks), _slacks_of_margins(held, margin)[held.group_of])
    least = np.full(len(held.labels), 1, object) + Fraction(0)
    np.minimum.at(least, held.group_of, exact)
    flaw = _flaw_of_cuts(held, selected, least)
    if flaw:
        return math.inf, f"the point of the relaxation {flaw}"
    orders = abs(literals).sum(axis=1)
    value = sum(problem.weights * exact) + sum(costs[orders] * selected)
    return value + costs[0] * sum(held.constants), ""


def _columns_of_point(point: Any, num_features: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Literals [a, n] and signs [a]. Raises `_RefutedError` unless they are monomials."""
    signs = _read(point, "sign")
    if signs.ndim != 1:
        raise _RefutedError("sign of the point is no vector")
    signs = _read_integers(point, "sign", signs.shape)
    literals = _read_integers(point, "literals", (len(signs), num_features))
    sizes = abs(literals).sum(axis=1)
    if (
        (abs(literals) > 1).any()
        or (abs(signs) != 1).any()
        or not np.isin(sizes, np.arange(1, order + 1)).all()
    ):
        raise _RefutedError(f"the point has columns other than monomials of 1 to {order} literals")
    return literals, signs


def _group_rows(
    problem: _AllMonomials, literals: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The columns' cover of each group, its label, and the group of each row."""
    both = np.concatenate([literals > 0, literals < 0], axis=1)  # as the literals of the problem
    covers = [problem.literals[:, chosen].all(axis=1) for chosen in both]
    table = np.stack([*covers, problem.labels > 0], axis=1)
    _, first, group_of = np.unique(
        np.packbits(table, axis=1), axis=0, return_index=True, return_inverse=True
    )
    return table[first, :-1], problem.labels[first], group_of.reshape(-1)


def _slacks_of_margins(point: _PointOfRelaxation, margin: Fraction) -> np.ndarray:
    """The least slacks [g] by which groups have their margins."""
    positive, negative = point.constants
    outputs = point.covered * point.signs
    scores = _times(outputs, point.coefficients) if len(point.signs) else Fraction(0)
    return _positive_part(margin - point.labels * (scores + positive - negative)) / (1 + margin)


def _flaw_of_cuts(point: _PointOfRelaxation, selected: np.ndarray, slacks: np.ndarray) -> str:
    """Why it is not proven that xi_i + xi_i' + sum of mu over S_ii' >= 1 for all groups i, i' of
    opposite classes, with all numbers rounded down; "" if it is.
    """
    is_open = slacks < 1
    sides = [np.flatnonzero(is_open & (point.labels == label)) for label in (1, -1)]
    num_columns = len(selected)
    if 2 * len(sides[0]) * len(sides[1]) * max(num_columns, 1) > _MOST_PRODUCTS:
        return f"has cuts of {len(sides[0])} by {len(sides[1])} groups of rows, too many to check"
    if not sum(selected) < 2 ** (_HIGH_BITS - 2):
        return "has a mu that is too large to check"
    low_bits = 51 - (num_columns + 2).bit_length()
    mu, xi = (_in_two_parts(part, low_bits) for part in (selected, slacks))
    covered = point.covered.astype(float)
    for sign, (ends, others) in ((1, sides), (-1, sides[::-1])):
        own, free = covered[ends] * (point.signs == sign), 1 - covered[others].T
        size = max(1, _PAIRS_AT_ONCE // max(len(others), 1))
        for begin in range(0, len(ends), size):
            part = slice(begin, begin + size)
            high, low = (
                (own[part] * values) @ free + slack[ends[part], None] + slack[None, others]
                for values, slack in zip(mu, xi, strict=True)
            )
            if (low < (2.0**_HIGH_BITS - high) * 2.0**low_bits).any():
                return "violates a cut"
    return ""


def _in_two_parts(values: np.ndarray, low_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The multiples of 2^-26 in numbers [k] from 0 up, and their rests in units of 2^-(26 +
    low_bits), both as floats that are integers.
    """
    high, low = np.zeros(len(values)), np.zeros(len(values))
    for index, value in enumerate(values.tolist()):
        whole = value.numerator * 2 ** (_HIGH_BITS + low_bits) // value.denominator
        high[index], low[index] = divmod(whole, 2**low_bits)
    return high, low


# --- maximum monomial agreement (Goldberg and Eckstein 2009, (27)) --------------------------------
#
# Over monomials u with cover C_u and order k_u, and signs s, the largest of s sum_{C_u} w_i y_i +
# sum of v_ii' over y_i = s, i in C_u, y_i' = -s, i' not in C_u, - c(k_u). A monomial with more
# literals covers less, so a node of a depth-first search is bounded by what it covers of class s,
# all rewards of these examples, and the least cost of its order or more.

_MOST_NODES = 100_000  # about 10 s of search


class _Agreement(NamedTuple):
    """Problem (27) for one sign, in integers of one unit."""

    holds: np.ndarray  # [N, 2, m] bool, where x_j = 1 and where x_j = 0
    gains: np.ndarray  # [m] s y_i w_i
    prospects: np.ndarray  # [m] w_i and all rewards of i, for y_i = s; else 0
    rewards: np.ndarray  # [m, m] v_ii' where y_i = s and y_i' = -s, else 0
    costs: list[Number]  # [D]

    def value(self, cover: np.ndarray, order: int) -> Number:
        """The agreement of a monomial."""
        rewards = self.rewards[cover][:, ~cover].sum()
        return int(self.gains[cover].sum()) + int(rewards) - self.costs[order]

    def bound(self, cover: np.ndarray, order: int) -> Number:
        """An upper bound on the agreement of a monomial and of all that add literals to it."""
        return int(self.prospects[cover].sum()) - min(self.costs[order:])


@_returns_reasons
def verify_monomial(
    solution: Any,
    features: Any,
    labels: Any,
    example_weights: Any,
    *,
    max_order: int | None = None,
    costs: Any = None,
    pair_weights: Any = None,
    mask: Any = None,
    max_nodes: int = _MOST_NODES,
) -> Verification:
    """Checks the agreement of a monomial with the labels, and that no monomial exceeds the upper
    bound ((27) of Goldberg and Eckstein 2009).

    The upper bound is proven by a depth-first search that leaves out what cannot exceed it. Where
    the search needs more than `max_nodes` nodes, the bound is not proven.

    Args:
      solution: literals [N], sign [], value [], upper_bound [], status [], as of
        `jboost.monomials.maximum_agreement`; and `others`, if it has them.
      features: [m, N] 0 or 1, NaN where unknown; labels: [m]; example_weights: [m].
      max_order, costs, pair_weights, mask: as in that call. A list of pairs is laid out as a matrix
        of all pairs here.
      max_nodes: the most nodes to search.

    Returns:
      A `Verification`; the bounds are on the largest agreement.

    >>> import types
    >>> solution = types.SimpleNamespace(literals=[1], sign=1, value=0.5, upper_bound=0.5, status=0)
    >>> verify_monomial(solution, [[1], [0]], [1, -1], [0.5, 0.5])[:3]
    (True, Fraction(1, 2), Fraction(1, 2))
    """
    like = _read(solution, "value", ())
    table = _held("features", features, like, 2)
    problems, unit = _agreements(
        table, labels, example_weights, max_order, costs, pair_weights, mask, like
    )
    status = _read_status(solution, "ENOUGH")
    claimed, value = _read_number(solution, "upper_bound"), _read_number(solution, "value")
    exact = _agreement_of(solution, problems, table) * unit
    size = unit * sum(int(problem.prospects.sum()) for problem in problems.values()) + abs(exact)
    rounding = size * _unit_of_rounding(like) * 8
    faults = [*_faults_of_others(solution, problems, table, unit, rounding)]
    if not _is_near(value, exact, rounding):
        faults.append(f"value is {_text(value)}, and the agreement is {_text(exact)}")
    if status == "OPTIMAL" and claimed - exact > size * _OPTIMAL_WITHIN:
        faults.append(f"status is OPTIMAL, and the bound exceeds the value {_text(exact)}")
    found, is_complete = _largest_agreement(problems, claimed / unit, max_nodes)
    upper = found * unit
    note = f"the largest agreement lies between {_text(exact)} and {_text(upper)}"
    if not is_complete:
        note = f"the upper bound is not proven within {max_nodes} nodes: raise max_nodes"
        faults += [note] if claimed < upper else []
    return _conclude((-math.inf, claimed), (exact, upper), faults, note)


def _agreements(
    table: np.ndarray,
    labels: Any,
    example_weights: Any,
    max_order: int | None,
    costs: Any,
    pair_weights: Any,
    mask: Any,
    like: np.ndarray,
) -> tuple[dict[int, _Agreement], Fraction]:
    """The problem of each sign, and the unit of its integers. Raises ValueError."""
    size, most = len(table), table.shape[1] if max_order is None else max_order
    examples = _read_examples(size, labels, None, mask, like)
    kept, signs = examples.kept, examples.labels
    weights = _held("example_weights", example_weights, like, 1)
    prices = np.zeros(most + 1) if costs is None else _held("costs", costs, like, 1)
    rewards = None if pair_weights is None else _rewards_of(pair_weights, size, like)
    given: dict[str, tuple[np.ndarray, tuple[int, ...]]] = {
        "example_weights": (weights, (size,)),
        "costs": (prices, (most + 1,)),
    }
    if rewards is not None:
        given["pair_weights"] = (rewards, (size, size))
    for name, (array, shape) in given.items():
        if array.shape != shape or not (array >= 0).all():
            raise ValueError(
                f"{name} has shape {list(array.shape)}: expected {list(shape)}, from 0 up"
            )
    inner = np.zeros((kept.sum(),) * 2, int) if rewards is None else rewards[kept][:, kept]
    _check_finite("example_weights", weights[kept])
    _check_finite("pair_weights", inner)
    is_priced = np.isfinite(prices)  # an infinite cost rules an order out
    parts = [weights[kept], np.where(is_priced, prices, 0.0), inner.ravel()]
    whole, unit = _whole(np.concatenate([part.astype(object) for part in parts]))
    amounts, whole_costs, whole_rewards = np.split(
        whole, [len(parts[0]), len(parts[0]) + len(parts[1])]
    )
    listed: list[Number] = [
        c if ok else math.inf for c, ok in zip(whole_costs, is_priced, strict=True)
    ]
    bits = table[kept].T
    holds = np.stack([bits == 1, bits == 0], axis=1)
    square = whole_rewards.reshape(inner.shape)
    return {s: _agreement(s, holds, signs, amounts, square, listed) for s in (1, -1)}, unit


def _rewards_of(pair_weights: Any, size: int, like: np.ndarray) -> np.ndarray:
    """The rewards of pairs as a matrix [m, m], from a matrix or from a list with `pairs` [K, 2] and
    `values` [K]. Raises ValueError if malformed.
    """
    if not hasattr(pair_weights, "pairs"):
        return _held("pair_weights", pair_weights, like, 2)
    pairs = np.asarray(pair_weights.pairs)
    values = _held("pair_weights.values", pair_weights.values, like, 1)
    if pairs.shape != (len(values), 2) or pairs.dtype.kind not in "iu" or (pairs >= size).any():
        raise ValueError(
            f"pair_weights.pairs has shape {list(pairs.shape)}: expected [{len(values)}, 2], rows"
            f" below {size}"
        )
    is_used = (pairs >= 0).all(axis=1)
    square = np.zeros((size, size))  # sums of repeated pairs in 64 bits
    np.add.at(square, tuple(pairs[is_used].T), values[is_used])
    return square


def _agreement(
    sign: int,
    holds: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    rewards: np.ndarray,
    costs: list[Number],
) -> _Agreement:
    is_own = labels == sign
    counted = np.where(is_own[:, None] & ~is_own[None, :], rewards, 0)
    prospects = np.where(is_own, weights, 0) + counted.sum(axis=1)
    return _Agreement(holds, weights * labels * sign, prospects, counted, costs)


def _agreement_of(record: Any, problems: dict[int, _Agreement], table: np.ndarray) -> Fraction:
    """The agreement of the monomial of a record, in the unit of the problems."""
    literals = _read_integers(record, "literals", table.shape[1:])
    sign = int(_read_integers(record, "sign", ()))
    if sign not in problems or not np.isin(literals, (-1, 0, 1)).all():
        raise _RefutedError(
            "literals or sign has an entry other than -1, 0 and +1, or the sign is 0"
        )
    used, problem = np.flatnonzero(literals), problems[sign]
    if len(used) >= len(problem.costs):
        raise _RefutedError(
            f"literals has {len(used)} literals, and {len(problem.costs) - 1} are allowed"
        )
    cover = np.ones(problem.holds.shape[2], bool)
    for attribute in used:
        cover &= problem.holds[attribute, 0 if literals[attribute] > 0 else 1]
    value = problem.value(cover, len(used))
    if value == -math.inf:
        raise _RefutedError(f"literals has {len(used)} literals, an order that costs rule out")
    return Fraction(value)


def _faults_of_others(
    solution: Any,
    problems: dict[int, _Agreement],
    table: np.ndarray,
    unit: Fraction,
    rounding: Fraction,
) -> Iterator[str]:
    """Whether the further monomials of a solution have the values that it says."""
    others = getattr(solution, "others", None)
    if others is None:
        return
    values = _read(others, "values", is_finite=False).reshape(-1)
    signs = _read_integers(others, "signs", values.shape)
    literals = _read_integers(others, "literals", (len(values), table.shape[1]))
    for index, value in enumerate(values.tolist()):
        if value == -math.inf:  # an unused slot
            continue
        record = types.SimpleNamespace(literals=literals[index], sign=signs[index])
        exact = _agreement_of(record, problems, table) * unit
        if not math.isfinite(value) or abs(Fraction(value) - exact) > rounding:
            yield f"others.values[{index}] is {value}, and the agreement is {_text(exact)}"


def _largest_agreement(
    problems: dict[int, _Agreement], goal: Number, max_nodes: int
) -> tuple[Number, bool]:
    """A number that no agreement exceeds, and whether the search ended: the largest bound that was
    left out because it is at most `goal`, or the largest value found.
    """
    most: Number = -math.inf
    num_nodes = 0
    for problem in problems.values():
        rises = all(a <= b for a, b in zip(problem.costs, problem.costs[1:], strict=False))
        everything = np.ones(problem.holds.shape[2], bool)
        stack = [(0, everything, 0)]
        while stack:
            start, cover, order = stack.pop()
            bound = problem.bound(cover, order)
            num_nodes += 1
            if bound <= goal or num_nodes > max_nodes:
                most = max(most, bound)
                continue
            most = max(most, problem.value(cover, order))
            if order + 1 < len(problem.costs):
                stack += _children(problem, start, cover, order, skips_equal=rises)
    return most, num_nodes <= max_nodes


def _children(
    problem: _Agreement, start: int, cover: np.ndarray, order: int, *, skips_equal: bool
) -> Iterator[tuple[int, np.ndarray, int]]:
    """The monomials with one literal more, of an attribute from `start` on: (next attribute, cover,
    order). A literal that changes no cover is skipped where a higher order costs no less.
    """
    for attribute in range(start, len(problem.holds)):
        for holds in problem.holds[attribute]:
            smaller = cover & holds
            if not (skips_equal and (smaller == cover).all()):
                yield attribute + 1, smaller, order + 1


# --- leave-one-out kinds (Boyarshinov and Magdon-Ismail 2005, Section 3) --------------------------
#
# By definition, without the shortcuts of the paper: for each example, all optimal separators of the
# others, the bisector of the hulls of what each classifies correctly, and its side of the example.

_MOST_LEFT_OUT = 16  # about 2 s


class _Others(NamedTuple):
    """The examples but one."""

    points: np.ndarray  # [n, 2] integers
    labels: np.ndarray  # [n]
    weights: np.ndarray  # [n] integers


@_returns_reasons
def verify_leave_one_out(
    result: Any,
    points: Any,
    labels: Any,
    *,
    weights: Any = None,
    mask: Any = None,
    model: str = "max_margin",
    max_points: int = _MOST_LEFT_OUT,
) -> Verification:
    """Checks the leave-one-out errors and kinds of the exact pair, by their definition
    (Boyarshinov and Magdon-Ismail 2005, Section 3). Those of three classifiers are not checked.

    Args:
      result: error [], errors [n], kinds [n], status [], as of `jboost.pair.leave_one_out`.
      points: [n, 2]; labels: [n]; weights, mask, model: as in that call.
      max_points: more points are not checked, and the result is not valid.

    Returns:
      A `Verification`; both bounds are the leave-one-out error.

    >>> import types
    >>> result = types.SimpleNamespace(error=1.0, errors=[1.0, 1.0], kinds=[2, 2], status=0)
    >>> verify_leave_one_out(result, [[0.0, 0.0], [1.0, 0.0]], [-1, 1])[:3]
    (True, Fraction(1, 1), Fraction(1, 1))
    """
    like = _read(result, "error", ())
    points = _held("points", points, like, 2)
    if model not in ("max_margin", "occurrence"):
        raise ValueError(f"model is {model!r}: expected 'max_margin' or 'occurrence'")
    if points.shape[1] != 2:
        raise ValueError(
            f"points has shape {list(points.shape)}: expected [n, 2]; leave-one-out errors of three"
            " classifiers are not checked"
        )
    examples = _read_examples(len(points), labels, weights, mask, like)
    points = points[examples.kept]
    if not np.isfinite(points).all():
        raise ValueError("points has entries that are not finite: leave these rows out")
    status = _read_status(result)
    claimed = _read_number(result, "error")
    kinds, errors = (
        _read_integers(result, "kinds", examples.kept.shape),
        _read(result, "errors", examples.kept.shape),
    )
    if len(points) > max_points:
        raise _RefutedError(f"more than {max_points} points are not checked: raise max_points")
    shares = _wrong_shares(points, examples, model)
    expected = np.zeros(examples.kept.shape, object) + Fraction(0)
    expected[examples.kept] = _fractions(examples.weights) * shares
    expected_kinds = np.zeros(examples.kept.shape, int)
    expected_kinds[examples.kept] = [1 if s == 0 else 2 if s == 1 else 3 for s in shares]
    rounding = 8 * _unit_of_rounding(like)
    faults = []
    for index in np.flatnonzero(kinds != expected_kinds)[:1]:
        faults.append(f"kinds[{index}] is {int(kinds[index])}: expected {expected_kinds[index]}")
    is_off = abs(_fractions(errors) - expected) > rounding * expected
    for index in np.flatnonzero(is_off)[:1]:
        faults.append(f"errors[{index}] is {errors[index]}: expected {_text(expected[index])}")
    mean = sum(expected, Fraction(0)) / max(len(points), 1)
    if not _is_near(claimed, mean, (rounding + len(points) * _SUM_ROUNDING) * mean):
        faults.append(f"error is {_text(claimed)}: expected {_text(mean)}")
    note = f"the leave-one-out error is {_text(mean)}; status {status}"
    return _conclude((-math.inf, math.inf), (mean, mean), faults, note)


def _wrong_shares(points: np.ndarray, examples: _Examples, model: str) -> np.ndarray:
    """The share [n] of the optimal separators without each example that misclassify it."""
    whole, _ = _whole(points)
    amounts, _ = _whole(examples.weights)
    if len(points) == 1:  # both constants are equally likely; of occurrences there is the wrong one
        return np.array([Fraction(1, 2 if model == "max_margin" else 1)], object)
    list_separators = _widest_splits if model == "max_margin" else _occurrences
    shares = np.empty(len(points), object)
    for index, label in enumerate(examples.labels.tolist()):
        rest = np.arange(len(points)) != index
        others = _Others(whole[rest], examples.labels[rest], amounts[rest])
        sides = [
            _side_of_bisector(others.points[positive], others.points[negative], whole[index])
            for positive, negative in list_separators(others, label)
        ]
        wrong = sum(side != label for side in sides)
        shares[index] = Fraction(wrong, len(sides))
    return shares


_Split = tuple[np.ndarray, np.ndarray]  # [n] bool, which positives and negatives are right


def _widest_splits(others: _Others, label: int) -> list[_Split]:
    """The optimal separators of largest margin."""
    splits = _optimal_splits(others)
    gaps = [_gap(others.points[right], others.points[wrong])[0] for right, wrong in splits]
    return [split for split, gap in zip(splits, gaps, strict=True) if gap == max(gaps)]


def _optimal_splits(others: _Others) -> list[_Split]:
    """What every optimal line or constant classifier has right, each set once."""
    size = len(others.points)
    # the sum of weights over a side in the high bits, which examples they are in the low bits
    bits = np.array([1 << index for index in range(size)], object)
    packed = others.weights * others.labels * (1 << size) + bits
    sums = {int(s) for part in _side_sums(_lifted(others.points), packed) for s in part.tolist()}
    most = max(total >> size for total in sums)
    sides = [total % (1 << size) for total in sums if total >> size == most]
    is_left = np.array([[side >> index & 1 for index in range(size)] for side in sides], bool)
    is_left = is_left.reshape(len(sides), size)
    return [(side & (others.labels > 0), ~side & (others.labels < 0)) for side in is_left]


def _gap(left: np.ndarray, right: np.ndarray) -> tuple[Number, Any, Any]:
    """The squared distance of two convex hulls in the plane, and the nearest points; infinite where
    one is empty.
    """
    best: tuple[Number, Any, Any] = (math.inf, None, None)
    for near, far, is_swapped in ((left, right, False), (right, left, True)):
        for point in near:
            for start in far:
                for end in far:
                    foot = _nearest_on_segment(point, start, end)
                    distance = sum((point - foot) ** 2)
                    if distance < best[0]:
                        best = (distance, foot, point) if is_swapped else (distance, point, foot)
    return best


def _nearest_on_segment(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    step = end - start
    length = int(step @ step)
    share = Fraction(int((point - start) @ step), length) if length else Fraction(0)
    return start + min(max(share, Fraction(0)), Fraction(1)) * step


def _side_of_bisector(left: np.ndarray, right: np.ndarray, point: np.ndarray) -> int:
    """The side of a point, +1 for that of `left`, 0 on the bisector of the two hulls; a constant
    classifier where one is empty.
    """
    if len(left) == 0 or len(right) == 0:
        return 1 if len(left) else -1
    _, nearest, farthest = _gap(left, right)
    return _sign((nearest - farthest) @ (2 * point - nearest - farthest))


def _occurrences(others: _Others, label: int) -> list[_Split]:
    """The model of the paper: oriented lines through each other example of class `label` whose
    separator set is optimal, where examples of that class on the line are right; and the constant
    classifier of the other class.
    """
    positive = others.labels > 0
    optimum = _loss_of(others, _optimal_splits(others)[0])
    found = []
    for centre in np.flatnonzero(others.labels == label):
        for direction in _directions(others.points - others.points[centre]):
            sides = _cross(direction[None], others.points - others.points[centre])
            right = np.where(others.labels == label, sides >= 0, sides < 0)
            found.append((right & positive, right & ~positive))
    constant = others.labels != label
    found.append((constant & positive, constant & ~positive))
    return [split for split in found if _loss_of(others, split) == optimum]


def _loss_of(others: _Others, split: _Split) -> int:
    return int(others.weights[~(split[0] | split[1])].sum())


def _directions(steps: np.ndarray) -> Iterator[np.ndarray]:
    """A direction in each cyclic class of oriented lines through the origin: through one of the
    integer steps, and between neighbouring ones.
    """
    lines = {
        tuple(part // math.gcd(*step) for part in step) for step in steps.tolist() if any(step)
    }
    if not lines:
        yield np.array([1, 0], object)
        return
    around = [np.array(line, object) for line in lines | {(-x, -y) for x, y in lines}]
    around.sort(key=functools.cmp_to_key(_compare_angles))
    for one, following in zip(around, around[1:] + around[:1], strict=True):
        yield one
        are_opposite = _cross(one, following) == 0
        yield np.array([-one[1], one[0]], object) if are_opposite else one + following


def _compare_angles(left: np.ndarray, right: np.ndarray) -> int:
    """Negative where the angle of `left`, in [0, 360) degrees, is the smaller one."""
    is_lower = [bool(y < 0 or (y == 0 and x < 0)) for x, y in (left, right)]
    return is_lower[0] - is_lower[1] or -_sign(_cross(left, right))


# --- any result -----------------------------------------------------------------------------------


class _Method(NamedTuple):
    """How the result of a method is recognised and checked."""

    # groups of fields; all fields of one group tell its results from those of methods below
    fields: tuple[tuple[str, ...], ...]
    check: Callable[..., Verification]
    data: tuple[str, ...]  # the names of the positional data


_METHODS = (
    _Method((("primal",), ("dual",)), verify_lp, ("problem",)),
    _Method((("pair_weights",), ("slacks",)), verify_relaxation, ("outputs", "labels", "costs")),
    _Method((("normal", "anchor", "offset", "misclassified"),), verify_pair, ("points", "labels")),
    _Method((("coefficients", "misclassified"),), verify_combination, ("scores", "labels")),
    _Method((("kinds",), ("errors",)), verify_leave_one_out, ("points", "labels")),
    _Method((("literals",),), verify_monomial, ("features", "labels", "example_weights")),
    _Method((("ensemble", "proof"),), verify_rules, ("features", "labels")),
    _Method((("ensemble",),), verify_ensemble, ("features", "labels")),
    _Method((("example_weights",),), verify_soft_margin, ("margins",)),
)
_PROGRAM = ("objective", "operator", "row_lower", "row_upper", "lower", "upper")
_DAMAGED = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RecursionError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)  # what reading a damaged archive raises in `zipfile`, `zlib`, `json` and NumPy


def verify(result: Any, *data: Any, **options: Any) -> Verification:
    """Checks a result of any method that has a function here, which is found by the fields of the
    result: separators, votes of classifiers, linear programs, soft margins, ensembles of stumps
    and monomials with bounds on a soft margin, the relaxation of L0-RBoost, monomials and
    leave-one-out errors.

    Args:
      result: a record with the fields of the result, of JAX or NumPy arrays.
      *data: as for the function of the method, such as points and labels for `verify_pair`.
      **options: as for that function, such as `weights`.

    Returns:
      A `Verification`. A result without a certificate that is known here, such as an ensemble
      alone, is not valid, and the reason says what it lacks.

    Raises:
      ValueError: where the data are wrong. A wrong result never raises.

    >>> import types
    >>> solution = types.SimpleNamespace(
    ...     coefficients=[0.5, 0.5],
    ...     example_weights=[0.5, 0.5],
    ...     lower_bound=0.0,
    ...     upper_bound=-0.1,
    ...     status=0,
    ... )
    >>> verify(solution, [[1.0, -1.0], [-1.0, 1.0]], nu=0.5).reason
    'an upper bound of -0.10000000000000001 is claimed, and 0 is proven'
    """
    method = _method_of(result)
    if method is None:
        return Verification(False, -math.inf, math.inf, _what_is_missing(result))
    return method.check(result, *data, **options)


def _method_of(result: Any) -> _Method | None:
    has_margins = hasattr(result, "ensemble") and not hasattr(result, "proof")
    if hasattr(result, "kernel") or (has_margins and _flaw_of_ensemble(result)):
        return None
    return next((method for method in _METHODS if _is_of(result, method)), None)


def _is_of(result: Any, method: _Method) -> bool:
    return any(all(hasattr(result, name) for name in names) for names in method.fields)


def _what_is_missing(result: Any, flaw: str = "") -> str:
    """Why a result of no known method is not valid, for a message."""
    parts = [part.type_name for part in getattr(result, "__dict__", {}).values() if _is_model(part)]
    name = result.type_name if _is_model(result) else type(result).__name__
    if not flaw and hasattr(result, "ensemble"):
        flaw = _flaw_of_ensemble(result)
    if not flaw and hasattr(result, "kernel"):
        flaw = (
            "the bounds of example weights need the values of their kernel, which are no fractions:"
            " jboost.example_weights.recompute_bounds computes them in floats"
        )
    return (
        f"a {' of '.join([name, ', '.join(parts)] if parts else [name])} has no certificate that"
        " can be checked: "
        + (
            flaw
            or "bounds are proven by the arrays of the result of a solver, which it does not hold;"
            " check that result by jboost.verify.verify"
        )
    )


def _is_model(part: Any) -> bool:
    """Whether it is a record that was read from a model file."""
    return isinstance(part, types.SimpleNamespace) and hasattr(part, "type_name")


# --- saved models ---------------------------------------------------------------------------------


@_returns_reasons
def verify_file(
    model: str | Path,
    data: str | Path | Mapping[str, Any],
    *,
    label: str | None = None,
    weights: str | None = None,
    max_points: int | None = None,
    max_nodes: int | None = None,
) -> Verification:
    """Checks a saved model by a file of its data.

    Args:
      model: a file of `jboost.files.save`, or an output folder of `jboost fit`.
      data: an .npz file with the arguments of the method's function by name (points, labels,
        weights; objective, operator, ... for a linear program), or a dict of them; or, for a
        separator, a vote of classifiers and a boosted model of `jboost fit`, a text file with a
        header, the columns of scores or features and the label. Of a model of `jboost fit` rows of
        weight 0 are left out, as they were there. In a dict, `rows` [m, n] of numbers, text and
        None where missing, the columns of the fit in the order of its metadata, may replace
        `features`.
      label: the column of labels; None for that of the fit, else "label".
      weights: the column of weights; None for ones.
      max_points: as of `verify_pair` and `verify_combination`; ignored for other results.
      max_nodes: as of `verify_ensemble`; ignored for other results.

    Returns:
      A `Verification`. The reason says what a model lacks that has no certificate.

    Raises:
      ValueError: naming the file, where the data cannot be read. A model file that is damaged is
        not valid, and does not raise.

    >>> verify_file("nowhere.npz", "data.npz").reason
    'nowhere.npz: no model file of jboost, or damaged'
    """
    path, fields, metadata, method = _opened(model)
    result, is_pool = _result_of(fields), method.check in (verify_pair, verify_combination)
    source = "data" if isinstance(data, Mapping) else data
    arguments = _given_arguments(path, data, fields, metadata, method, (label, weights))
    if max_points is not None and is_pool:
        arguments["max_points"] = max_points
    if max_nodes is not None and method.check is verify_ensemble:
        arguments["max_nodes"] = max_nodes
    if method.check is verify_lp:
        program = {name: arguments.pop(name) for name in _PROGRAM if name in arguments}
        arguments["problem"] = types.SimpleNamespace(**program)
    if hasattr(fields, "binarizer") and "rows" in arguments:
        arguments["features"] = _features_of(fields, metadata, arguments.pop("rows"))
    missing = [name for name in method.data if name not in arguments]
    if missing:
        raise ValueError(f"{source}: has no array {missing[0]}: expected {', '.join(method.data)}")
    if hasattr(fields, "binarizer"):
        _check_rows(fields, metadata, arguments)
        arguments = _options_of_fit(fields) | arguments
    positional = [arguments.pop(name) for name in method.data]
    try:
        found = method.check(result, *positional, **arguments)
    except TypeError as error:
        raise ValueError(f"{source}: an array that the check does not take ({error})") from None
    return _and_header(found, result, metadata) if hasattr(fields, "binarizer") else found


def flaw_of_file(model: str | Path) -> str:
    """Why a model file is not valid whatever the data are: it is damaged, or has no certificate
    that can be checked. "" if the data decide.

    >>> flaw_of_file("nowhere.npz")
    'nowhere.npz: no model file of jboost, or damaged'
    """
    try:
        _opened(model)
    except _RefutedError as error:
        return str(error)
    return ""


def _opened(model: str | Path) -> tuple[Path, Any, dict[str, Any], _Method]:
    """A model file, its fields, its metadata and the method of its certificate. Raises
    `_RefutedError` if it is damaged or has no certificate.
    """
    path = Path(model)
    path = path / "model.npz" if path.is_dir() else path
    try:
        fields, metadata = _load_model(path)
    except _DAMAGED:
        raise _RefutedError(f"{path}: no model file of jboost, or damaged") from None
    is_of_fit = hasattr(fields, "binarizer")
    if is_of_fit:
        _check_metadata(path, metadata)
    method = _method_of(_result_of(fields))
    if method is None or (is_of_fit and not hasattr(fields, "ensemble")):
        flaw = _flaw_of_folder(metadata) if is_of_fit else ""
        raise _RefutedError(f"{path}: {_what_is_missing(fields, flaw)}")
    return path, fields, metadata, method


def _given_arguments(
    model: Path,
    data: str | Path | Mapping[str, Any],
    fields: Any,
    metadata: dict[str, Any],
    method: _Method,
    columns: tuple[str | None, str | None],
) -> dict[str, Any]:
    """The arguments of the method's check by name. `columns` are those of labels and weights."""
    if isinstance(data, Mapping):
        return dict(data)
    if Path(data).suffix == ".npz":
        return _read_arguments(data)
    if hasattr(fields, "binarizer"):
        return _read_columns(data, metadata, fields.binarizer, *columns)
    if method.check not in (verify_pair, verify_combination):
        raise ValueError(f"{data}: expected an .npz file with the arrays {', '.join(method.data)}")
    _check_metadata(model, {key: metadata[key] for key in _OF_TABLES if key in metadata})
    if "score_columns" in metadata and not metadata["score_columns"]:
        raise _RefutedError(
            f"{model}: the scores are those of trained classifiers: pass points and labels as .npz"
        )
    arguments = _read_table(data, metadata, fields, *columns)
    arguments[method.data[0]] = arguments.pop("points")
    return arguments


# As `jboost.files` does, reading takes at most so many times the size of a file in memory, or so
# many bytes where that is more. An array takes memory for each of its copies, and JSON for each
# object, list, entry and character.
_MOST_MEMORY, _LEAST_LIMIT = 100, 1 << 24
_COPIES = 3
_FORMAT_VERSION = 1  # the greatest that is read here
_JSON_BYTES, _JSON_BYTES_EACH = {b"{": 320, b"[": 120, b",": 120}, 8


class _Archive:
    """The members of a model file, whose reading takes a bounded amount of memory."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ValueError("no regular file")
        content = path.read_bytes()
        self.zip = zipfile.ZipFile(io.BytesIO(content))
        self.left = max(_LEAST_LIMIT, _MOST_MEMORY * len(content))

    def take(self, memory: int) -> None:
        """Counts memory that is used from now on. Raises ValueError where it is too much."""
        if memory > self.left:
            raise ValueError("it takes too much memory")
        self.left -= memory

    def read(self, name: str) -> bytes:
        """The bytes of a member; one of `_DAMAGED` if it is missing, damaged or too large."""
        info = self.zip.getinfo(name)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("an unknown compression")
        self.take(_COPIES * info.file_size)
        with self.zip.open(info) as member:
            return member.read(info.file_size)


def _load_model(path: Path) -> tuple[types.SimpleNamespace, dict[str, Any]]:
    """The fields of the model in a file of `jboost.files.save`, and the metadata."""
    archive = _Archive(path)
    content = archive.read("header.json")
    counted = sum(size * content.count(letter) for letter, size in _JSON_BYTES.items())
    archive.take(counted + _JSON_BYTES_EACH * len(content))
    header = json.loads(content)
    if header["format"] != "jboost-model":
        raise ValueError("format")
    version = header.get("format_version")
    if type(version) is not int or not 1 <= version <= _FORMAT_VERSION:
        raise _RefutedError(
            f"{path}: format_version is {reprlib.repr(version)}: this verify.py reads up to"
            f" {_FORMAT_VERSION}"
        )
    if not isinstance(header["metadata"], dict):
        raise ValueError("metadata")
    return _load_fields(archive, header["model"], ""), header["metadata"]


def _load_fields(
    archive: _Archive, description: dict[str, Any], prefix: str
) -> types.SimpleNamespace:
    """A record of the arrays of a description, and of the records in it."""
    if not isinstance(description["type"], str):
        raise ValueError("no type")
    fields = dict(description.get("settings") or {})  # null where a file cannot hold them
    arrays = {name: part for name, part in fields.items() if _is_array(part)}
    for name, part in {**arrays, **description.get("fields", {})}.items():
        if "type" in part:
            fields[name] = _load_fields(archive, part, f"{prefix}{name}.")
            continue
        array = _parse_npy(archive.read(f"{prefix}{name}.npy"))
        if part["dtype"] == "bfloat16":  # the upper half of a float32
            array = (array.astype(np.uint32) << 16).view(np.float32)
        fields[name] = array
    return types.SimpleNamespace(**(fields | {"type_name": description["type"]}))


def _is_array(setting: Any) -> bool:
    """Whether a setting of a record describes an array, or a record with arrays in it."""
    return isinstance(setting, dict) and ("type" in setting or "dtype" in setting)


def _parse_npy(content: bytes) -> np.ndarray:
    """The array of a .npy file; one of `_DAMAGED` unless it has exactly the numbers of its shape.

    `np.lib.format.read_array` makes room for any shape before it reads.
    """
    stream = io.BytesIO(content)
    is_first = np.lib.format.read_magic(stream) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(stream)
    if dtype.kind not in "biuf" or dtype.subdtype is not None:
        raise ValueError("no numbers")
    if math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError("more or fewer numbers than its shape has")
    flat = np.frombuffer(content, dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if is_fortran else "C").copy()


# --- the metadata of `jboost fit` -----------------------------------------------------------------

_Kind = tuple[Callable[[Any], bool], str]  # whether a value is of the kind, and its name


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1


def _is_real(value: Any) -> bool:
    return type(value) in (int, float)


def _is_separator(value: Any) -> bool:
    """Whether it is a character that may stand between the fields of a table."""
    is_one = isinstance(value, str) and len(value) == 1 and value.isascii()
    return is_one and not value.isalnum() and value not in '"\n\r\0'


def _is_encoding(value: Any) -> bool:
    """Whether Python has an encoding of text of that name."""
    try:
        return isinstance(value, str) and bool("a".encode(value))
    except (LookupError, ValueError):
        return False


_FITTED = (
    "pair",
    "combine",
    "l0",
    "slipper",
    "example-weights",
    "relaxed-margin",
    "lpboost",
    "adaboost",
    "infoboost",
)
_COLUMNS = ("number", "percent", "grouped", "truth", "date", "text")


def _is_column(value: Any) -> bool:
    """Whether it has the fields of the format of a column."""
    needed = {"name", "categories"}
    return isinstance(value, dict) and needed <= value.keys() <= needed | {
        "group",
        "order",
        "origin",
    }


def _or_null(kind: _Kind) -> _Kind:
    """The kind of values that may be absent."""
    holds, name = kind
    return (lambda value: value is None or holds(value)), f"{name} or null"


_TEXT: _Kind = _is_text, "a text"
_TEXTS: _Kind = _is_texts, "a list of texts"
_OBJECT: _Kind = (lambda value: isinstance(value, dict)), "an object"
_COUNT: _Kind = _is_count, "an integer from 0 up"
_BOUND: _Kind = _or_null((_is_real, "a number"))
_KINDS_OF_METADATA: dict[str, _Kind] = {
    "method": ((lambda value: value in _FITTED), "a method of jboost fit"),
    "precision": ((lambda value: value in ("float32", "float64")), "float32 or float64"),
    "learner": _TEXT,
    "names": _TEXTS,
    "score_columns": _or_null(_TEXTS),
    "numeric": _TEXTS,
    "categorical": _TEXTS,
    "plain": _TEXTS,
    "weights": _or_null(_TEXT),
    "labels": _or_null(_OBJECT),
    "labels.column": _TEXT,
    "labels.negative": _TEXT,
    "labels.positive": _TEXT,
    "held_out": _or_null(_OBJECT),
    "held_out.fraction": (_is_share, "a number from 0 to 1, without 1"),
    "held_out.seed": _COUNT,
    "training": _or_null(_OBJECT),
    "training.rows": _COUNT,
    "training.sha256": _TEXT,
    "boosting": _or_null(_OBJECT),
    "boosting.relaxation": _TEXT,
    "boosting.certificate": _or_null(_OBJECT),
    "boosting.certificate.lower_bound": _BOUND,
    "boosting.certificate.upper_bound": _BOUND,
    "boosting.certificate.status": _TEXT,
    "model": _or_null(_OBJECT),
    "model.margin": _BOUND,
    "model.certificate": _or_null(_OBJECT),
    "model.certificate.lower_bound": _BOUND,
    "model.certificate.upper_bound": _BOUND,
    "model.certificate.integer_lower_bound": _BOUND,
    "model.certificate.integer_upper_bound": _BOUND,
    "reading": _or_null(_OBJECT),
    "reading.separator": _or_null((_is_separator, "a character")),
    "reading.decimal": _or_null(((lambda value: value in (".", ",")), ". or ,")),
    "reading.comment": _or_null(((lambda value: _is_text(value) and value != ""), "a text")),
    "reading.encoding": _or_null((_is_encoding, "an encoding that Python has")),
    "reading.missing_values": _or_null(_TEXTS),
    "reading.id": _or_null(_TEXT),
    "reading.columns": _OBJECT,
    "reading.columns.*": (_is_column, "an object with name and categories"),
    "reading.columns.*.name": ((lambda value: value in _COLUMNS), f"one of {', '.join(_COLUMNS)}"),
    "reading.columns.*.group": _TEXT,
    "reading.columns.*.order": _TEXT,
    "reading.columns.*.origin": (_is_real, "a number"),
    "reading.columns.*.categories": _TEXTS,
}  # by path; * is any key. A field may be missing, as files of early versions lack some


_OF_TABLES = ("reading", "labels", "weights", "score_columns")  # what reading scores needs


def flaw_of_metadata(metadata: Mapping[str, Any]) -> str:
    """The first field in the metadata of `jboost fit` that is of another type than `fit` writes, or
    "" if there is none.

    >>> flaw_of_metadata({"labels": {"column": "y"}, "reading": {"comment": 5}})
    'metadata.reading.comment is 5: expected a text or null'
    """
    for path, (holds, name) in _KINDS_OF_METADATA.items():
        for where, value in _values_at(metadata, path.split("."), "metadata"):
            if not holds(value):
                return f"{where} is {reprlib.repr(value)}: expected {name}"
    return ""


def _values_at(part: Any, keys: list[str], where: str) -> Iterator[tuple[str, Any]]:
    """The values at a path of keys in nested objects, each with its full path."""
    if not keys:
        yield where, part
    elif isinstance(part, Mapping):
        for key in part if keys[0] == "*" else [keys[0]]:
            if key in part:
                yield from _values_at(part[key], keys[1:], f"{where}.{key}")


def _check_metadata(path: Path, metadata: Mapping[str, Any]) -> None:
    """Raises `_RefutedError` if a field of the metadata is of another type than `fit` writes."""
    flaw = flaw_of_metadata(metadata)
    if flaw:
        raise _RefutedError(f"{path}: {flaw}")


# --- boosted models and rules of `jboost fit` -----------------------------------------------------
#
# The file has the ensemble, the binarizer that makes its features from the columns of a table, and,
# where both bounds can be proven, `example_weights`, `lower_bound`, `upper_bound`, `status` and, of
# a soft margin, `nu`; of rules of l0 `proof`. The metadata name the columns, and have the number
# and the checksum of the training rows.

_AT_MOST, _EQUAL, _MISSING = range(3)  # the kinds of conditions of a binarizer
_ROWS_AT_ONCE = 1 << 16
_NOT_CHECKED = {
    "l0": "it holds no duals that prove the bounds of its rules; files of early versions hold none,"
    " nor do fits with --exact, with rules of three or more literals, or with a choice among"
    " several values",
    "adaboost": "its bound is one on the training error, which is not checked here",
    "infoboost": "its bound is one on the training error, which is not checked here",
    "slipper": "rules of slipper have no bounds",
}
_CHECKED_LEARNERS, _CHECKED_RELAXATIONS = ("stumps", "monomials"), ("soft", "hard")


def checksum_of_rows(features: Any, labels: Any, weights: Any = None) -> str:
    """The SHA-256 of the rows of a fit, by which `verify_file` recognises them: of features [m, n],
    labels [m] and weights [m] (None for ones) as little-endian floats of the type of the features.
    All zeros count as one number, and so do all NaN.

    >>> one, other = checksum_of_rows([[0.0]], [1]), checksum_of_rows([[-0.0]], [1.0], [1.0])
    >>> one == other, len(one), checksum_of_rows([[0.0]], [-1]) == one
    (True, 64, False)
    """
    table = np.asarray(features)
    dtype = np.dtype(np.float32 if table.dtype == np.float32 else np.float64).newbyteorder("<")
    amounts = np.ones(len(table)) if weights is None else np.asarray(weights)
    digest = hashlib.sha256()
    for array in (table, np.asarray(labels), amounts):
        digest.update(f"{dtype.str}{list(array.shape)}".encode())
        for begin in range(0, len(array), _ROWS_AT_ONCE):
            part = array[begin : begin + _ROWS_AT_ONCE].astype(dtype) + dtype.type(0)
            part[np.isnan(part)] = np.nan
            digest.update(np.ascontiguousarray(part, dtype).tobytes())
    return digest.hexdigest()


def _result_of(fields: Any) -> Any:
    """The record that is checked: a model of `jboost fit` without its binarizer and its nu."""
    if not hasattr(fields, "binarizer"):
        return fields
    others = {key: value for key, value in vars(fields).items() if key not in ("binarizer", "nu")}
    return types.SimpleNamespace(**others)


def _flaw_of_folder(metadata: Mapping[str, Any]) -> str:
    """Why a folder of `jboost fit` without a proof has none."""
    method, learner, described = (metadata.get(key) for key in ("method", "learner", "boosting"))
    if method not in ("lpboost", "relaxed-margin"):
        return _NOT_CHECKED.get(str(method), "")
    if learner not in _CHECKED_LEARNERS:
        return f"bounds over all hypotheses of the learner {learner} are not checked"
    relaxation = (described or {}).get("relaxation", "soft")
    if relaxation not in _CHECKED_RELAXATIONS:
        return f"bounds with the relaxation {relaxation} are not checked"
    return (
        "it holds no example weights that prove its bounds; files of early versions hold none, nor"
        " do fits with --vote-strength"
    )


def _options_of_fit(fields: Any) -> dict[str, Any]:
    """The nu of a soft margin; none for a hard margin."""
    if not hasattr(fields, "nu"):
        return {}
    nu = _read_number(fields, "nu")
    if not 0 < nu < math.inf:
        raise _RefutedError(f"nu is {_text(nu)}: expected a positive number")
    return {"nu": float(nu)}


def _check_rows(fields: Any, metadata: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raises `_RefutedError` unless the data are the training rows that the metadata describe."""
    stated = metadata.get("training")
    if stated is None:
        return
    if "mask" in arguments:
        raise ValueError("mask is given: expected the training rows alone, which all count")
    # l0 rounds no weights
    like = np.zeros((), float if hasattr(fields, "proof") else _type_of_votes(fields))
    features, labels = _held("features", arguments["features"], like, 2), arguments["labels"]
    amounts = arguments.get("weights")
    if len(features) != stated.get("rows"):
        raise _RefutedError(
            f"the data have {len(features)} rows, and the model was fitted to {stated.get('rows')}"
        )
    labels = _held("labels", labels, like, 1).astype(like.dtype)
    amounts = None if amounts is None else _held("weights", amounts, like, 1).astype(like.dtype)
    found = checksum_of_rows(features.astype(like.dtype), labels, amounts)
    if found != stated.get("sha256"):
        raise _RefutedError(
            f"the data are not the training rows: the SHA-256 of their features, labels and weights"
            f" is {found}, and that of the training rows is {stated.get('sha256')}"
        )


def _and_header(found: Verification, result: Any, metadata: Mapping[str, Any]) -> Verification:
    """A verification, and whether the metadata state the bounds and the status of the arrays."""
    is_of_rules = hasattr(result, "proof")
    described = metadata.get("model" if is_of_rules else "boosting") or {}
    stated = described.get("certificate")
    if stated is None:
        return found
    names = ["lower_bound", "integer_lower_bound", "integer_upper_bound"]
    names = names if is_of_rules else ["lower_bound", "upper_bound"]
    claims = result.proof if is_of_rules else result
    if is_of_rules and hasattr(claims, "upper_bound"):
        names.append("upper_bound")
    bounds = {name: float(_read_number(claims, name)) for name in names}
    held: dict[str, Any] = {
        name: value if math.isfinite(value) else None for name, value in bounds.items()
    }
    if is_of_rules:
        stated = stated | {"margin": _in_32_bits(described.get("margin"))}
        held["margin"] = _in_32_bits(float(_read_number(claims, "margin")))  # as some fits round it
    else:
        code = int(_read_integers(result, "status", ()))
        held["status"] = _STATUSES[code] if 0 <= code < len(_STATUSES) else code
    faults = [
        f"the metadata state {name} {stated.get(name)}, and the arrays {value}"
        for name, value in held.items()
        if stated.get(name) != value
    ]
    return found._replace(
        valid=found.valid and not faults,
        reason="; ".join([*([] if found.valid else [found.reason]), *faults]) or found.reason,
    )


def _in_32_bits(value: Any) -> Any:
    """A float rounded to 32 bits; other values unchanged."""
    with np.errstate(over="ignore"):
        return float(np.float32(value)) if isinstance(value, float) else value


def _names_in(metadata: Mapping[str, Any], key: str) -> list[str]:
    """Names of columns in the metadata."""
    if key not in metadata:
        raise _RefutedError(f"the metadata have no names of columns under {key}")
    return list(metadata[key])


def _features_of(fields: Any, metadata: Mapping[str, Any], rows: Any) -> np.ndarray:
    """The features [m, N] of rows [m, n] of numbers and text: the plain columns, then the bits."""
    dtype, binarizer = _type_of_votes(fields), fields.binarizer
    numeric, categorical = (_names_in(metadata, key) for key in ("numeric", "categorical"))
    names, table = [*numeric, *categorical], np.asarray(rows)
    if table.ndim != 2 or table.shape[1] != len(names):
        raise ValueError(f"rows has shape {list(table.shape)}: expected [m, {len(names)}]")
    plain = _names_in(metadata, "plain") if "plain" in metadata else []
    if not set(plain) <= set(names):
        raise _RefutedError("the metadata have plain columns that are none of the table")
    with np.errstate(over="ignore"):  # as the fit compares: too large a number is infinite
        categories = _categories(binarizer, len(numeric), len(categorical))
        numbers = _numbers_of(table, categories).astype(dtype)
    bits = _bits_of(numbers, binarizer)
    return np.concatenate([numbers[:, [names.index(name) for name in plain]], bits], axis=1)


def _type_of_votes(fields: Any) -> np.dtype:
    """The type of the votes, in which the features are held; float64 if they are no floats."""
    dtype = _read(fields.ensemble, "votes").dtype
    return dtype if dtype.kind == "f" else np.dtype(float)


def _categories(binarizer: Any, num_numeric: int, num_categorical: int) -> list[list[str] | None]:
    """The categories of each column, of which those of numbers come first and have None."""
    categories = getattr(binarizer, "categories", None)
    if not isinstance(categories, list) or len(categories) != num_numeric + num_categorical:
        raise _RefutedError("the binarizer does not tell the categories of each column")
    if any(texts is not None for texts in categories[:num_numeric]):
        raise _RefutedError("the binarizer has categories of a column of numbers")
    if not all(_is_texts(texts) for texts in categories[num_numeric:]):
        raise _RefutedError("the binarizer has categories that are no texts")
    return categories


def _numbers_of(table: np.ndarray, categories: list[list[str] | None]) -> np.ndarray:
    """Rows [m, n] as numbers: NaN where missing, and text as its index among the categories of
    training, -1 where it is none.
    """
    numbers = np.full(table.shape, np.nan)
    for column, texts in enumerate(categories):
        codes: dict[Any, float] = {text: float(code) for code, text in enumerate(texts or ())}
        values = [math.nan if value is None else value for value in table[:, column].tolist()]
        try:
            numbers[:, column] = [
                float(value) if texts is None or value != value else codes.get(value, -1.0)
                for value in values
            ]
        except (TypeError, ValueError):
            raise ValueError(
                f"rows has text in column {column}, which was numeric in the fit"
            ) from None
    return numbers


def _bits_of(numbers: np.ndarray, binarizer: Any) -> np.ndarray:
    """The bits [m, b] of rows of numbers [m, n]; NaN where a value is missing and a bit does not
    count that as a value.
    """
    attributes = _read(binarizer, "attributes")
    shape, num_columns = attributes.shape, numbers.shape[1]
    attributes = _read_integers(binarizer, "attributes", (attributes.size,))
    kinds = _read_integers(binarizer, "kinds", shape)
    limits = _read(binarizer, "thresholds", shape, is_finite=False).astype(numbers.dtype)
    counts = _read_integers(binarizer, "missing_is_value", (num_columns,)).astype(bool)
    if not ((attributes >= 0) & (attributes < num_columns)).all():
        raise _RefutedError(f"a bit is about a column that is not among {num_columns}")
    if not np.isin(kinds, (_AT_MOST, _EQUAL, _MISSING)).all():
        raise _RefutedError("a bit is of no known kind")
    values = numbers[:, attributes]
    is_missing = np.isnan(values)
    holds = np.where(kinds == _AT_MOST, values <= limits, values == limits)
    holds = np.where(kinds == _MISSING, is_missing, holds).astype(numbers.dtype)
    return np.where(is_missing & ~counts[attributes], np.nan, holds).astype(numbers.dtype)


# --- files of data --------------------------------------------------------------------------------


def _read_arguments(path: str | Path) -> dict[str, Any]:
    """The arrays of an .npz file by name; scalars as Python values."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except _DAMAGED as error:
        raise ValueError(f"{path}: no .npz file of arrays ({error})") from None
    return {name: array.item() if array.ndim == 0 else array for name, array in arrays.items()}


_UNKNOWN = ("NA", "N/A", "NaN", "null", "None", "?")  # some that `jboost fit` takes as missing


class _TextTable:
    """The columns of a text file with a header."""

    def __init__(self, path: str | Path, reading: Mapping[str, Any]) -> None:
        self.path, lines = path, _read_rows(path, reading)
        self.header = [name.strip() for name in lines[0]] if lines else []
        self.rows, self.decimal = lines[1:], reading.get("decimal") or "."
        self.missing = [text.lower() for text in ("", *(reading.get("missing_values") or _UNKNOWN))]

    def column(self, name: str, read: Callable[[str], Any]) -> np.ndarray:
        """The cells of a column, as `read` takes their texts."""
        if name not in self.header:
            known = ", ".join(self.header)
            raise ValueError(f"{self.path}: has no column {name}: its columns are {known}")
        index = self.header.index(name)
        return np.array(
            [_cell(self.path, number, row, index, read) for number, row in enumerate(self.rows)]
        )

    def number(self, cell: str) -> float:
        """A number; raises ValueError for other texts."""
        return float(cell.replace(self.decimal, "."))

    def number_or_nan(self, cell: str) -> float:
        """A number, NaN where it is missing."""
        return math.nan if cell.lower() in self.missing else self.number(cell)

    def text(self, cell: str, *, categories: Sequence[str] = ()) -> str | None:
        """A category, in the spelling of the fit if it is the same number; None if missing."""
        if cell.lower() in self.missing:
            return None
        same = (text for text in categories if cell == text or _is_number(cell, text))
        return next(same, cell)


def _read_table(
    path: str | Path,
    metadata: dict[str, Any],
    fields: Any,
    label: str | None,
    weights: str | None,
) -> dict[str, Any]:
    """Points, labels and weights from a text file with a header."""
    reading, names = metadata.get("reading") or {}, metadata.get("labels") or {}
    label = label or names.get("column") or "label"
    weights = weights or metadata.get("weights")
    table = _TextTable(path, reading)
    others = [name for name in table.header if name not in (label, weights)]
    size = np.size(getattr(fields, "normal", getattr(fields, "coefficients", ())))
    if size == 0:
        raise _RefutedError("the model has no coefficients")
    stated = metadata.get("score_columns")
    if stated and len(stated) != size:
        raise _RefutedError(f"metadata.score_columns has {len(stated)} names: expected {size}")
    scores = stated or others[:size]
    if len(scores) != size:
        raise ValueError(f"{path}: has {len(scores)} columns of scores: the model has {size}")
    points = np.stack([table.column(name, table.number) for name in scores], axis=1)
    is_of_fit = "score_columns" in metadata  # which leaves rows of weight 0 out
    return _with_labels({"points": points}, table, label, names, weights, is_of_fit)


def _read_columns(
    path: str | Path,
    metadata: dict[str, Any],
    binarizer: Any,
    label: str | None,
    weights: str | None,
) -> dict[str, Any]:
    """The columns of the fit as rows of numbers and text, labels and weights from a text file."""
    reading, names = metadata.get("reading") or {}, metadata.get("labels") or {}
    table = _TextTable(path, reading)
    numeric, categorical = (_names_in(metadata, key) for key in ("numeric", "categorical"))
    categories = _categories(binarizer, len(numeric), len(categorical))[len(numeric) :]
    columns = [table.column(name, table.number_or_nan) for name in numeric]
    for name, texts in zip(categorical, categories, strict=True):
        columns.append(table.column(name, functools.partial(table.text, categories=texts or ())))
    rows = np.empty((len(table.rows), len(columns)), object)
    for index, column in enumerate(columns):
        rows[:, index] = column
    label = label or names.get("column") or "label"
    weights = weights or metadata.get("weights")
    found = _with_labels({"rows": rows}, table, label, names, weights, True)
    kept = _training_rows(found["labels"], metadata)
    return {name: values[kept] for name, values in found.items()}


def _training_rows(labels: np.ndarray, metadata: Mapping[str, Any]) -> Any:
    """The rows that `jboost fit` did not hold out, of each class a share at random by its seed; all
    rows where their number is that of the training rows.
    """
    stated, held_out = (metadata.get(key) for key in ("training", "held_out"))
    if held_out is None or stated is None:
        return slice(None)
    if not {"fraction", "seed"} <= held_out.keys():
        raise _RefutedError("the metadata do not say which rows were held out")
    fraction, seed = held_out["fraction"], held_out["seed"]
    if len(labels) == stated.get("rows"):
        return slice(None)
    generator = np.random.default_rng(seed)
    rows = [generator.permutation(np.flatnonzero(labels == sign)) for sign in (-1, 1)]
    return np.sort(np.concatenate([part[round(fraction * len(part)) :] for part in rows]))


def _with_labels(
    arguments: dict[str, Any],
    table: _TextTable,
    label: str,
    names: Mapping[str, str],
    weights: str | None,
    leaves_out: bool,
) -> dict[str, Any]:
    """The arguments, and labels and weights of a table; without rows of weight 0 if it leaves them
    out.
    """
    arguments["labels"] = table.column(label, functools.partial(_class_sign, names=names))
    if not weights:
        return arguments
    arguments["weights"] = table.column(weights, table.number)
    kept = arguments["weights"] != 0 if leaves_out else slice(None)
    return {name: values[kept] for name, values in arguments.items()}


def _read_rows(path: str | Path, reading: Mapping[str, Any]) -> list[list[str]]:
    """The fields of all lines but comments and blank ones."""
    encoding, comment = reading.get("encoding") or "utf-8", reading.get("comment")
    try:
        # the mark at the beginning of a file of UTF-8 is no part of a name
        text = Path(path).read_text(encoding="utf-8-sig" if encoding == "utf-8" else encoding)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    lines = (line for line in io.StringIO(text) if not (comment and line.startswith(comment)))
    try:
        return [row for row in csv.reader(lines, delimiter=reading.get("separator") or ",") if row]
    except csv.Error as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None


def _class_sign(cell: str, *, names: Mapping[str, str]) -> float:
    """-1 or +1 for the label in a cell: that of the class of the fit that it names, as text or as a
    number; of two values without names of classes -1 and 1.

    >>> classes = {"negative": "0", "positive": "1"}
    >>> others = {"negative": "not a", "positive": "a"}
    >>> _class_sign("1.0", names=classes), _class_sign("b", names=others)
    (1.0, -1.0)
    """
    negative, positive = names.get("negative", "-1").strip(), names.get("positive", "1").strip()
    for name, sign in ((negative, -1.0), (positive, 1.0)):
        if cell == name or _is_number(cell, name):
            return sign
    if negative == f"not {positive}":  # --positive of jboost fit
        return -1.0
    return {-1.0: -1.0, 1.0: 1.0}[float(cell)]


def _is_number(cell: str, name: str) -> bool:
    """Whether two texts are one number."""
    try:
        return Decimal(cell) == Decimal(name)
    except ArithmeticError:
        return False


def _cell(
    path: str | Path, number: int, row: Sequence[str], index: int, read: Callable[[str], float]
) -> float:
    try:
        return read(row[index].strip())
    except (ValueError, KeyError, IndexError):
        cell = row[index] if index < len(row) else ""
        raise ValueError(f"{path}: row {number + 1} has {cell!r}, which cannot be read") from None


# --- the command line -----------------------------------------------------------------------------


def describe(verification: Verification) -> str:
    """A verification as text: the verdict, the proven bounds and the reason.

    >>> print(describe(Verification(True, Fraction(1, 2), Fraction(1, 2), "all claims are proven")))
    valid
    lower bound  0.5
    upper bound  0.5
    reason       all claims are proven
    """
    text = "\n".join(
        [
            "valid" if verification.valid else "NOT VALID",
            f"lower bound  {_text(verification.lower)}",
            f"upper bound  {_text(verification.upper)}",
            f"reason       {verification.reason}",
        ]
    )
    return text.encode(errors="backslashreplace").decode()  # half a surrogate cannot be printed


def main(arguments: Sequence[str]) -> int:
    """Runs `python verify.py MODEL DATA`: prints a verification, and returns the exit status, 0 for
    valid, 1 for not valid, 2 for data that cannot be read.

    >>> main(["nowhere.npz", "data.npz"])
    NOT VALID
    lower bound  -inf
    upper bound  inf
    reason       nowhere.npz: no model file of jboost, or damaged
    1
    """
    parser = argparse.ArgumentParser(
        prog="verify.py", description="Checks the certificate of a saved model in exact arithmetic."
    )
    parser.add_argument("model", help="file of jboost.files.save, or folder of jboost fit")
    parser.add_argument("data", help="data: .npz with arrays by name, or a table")
    parser.add_argument("--label", help="the column of labels, where the model does not name it")
    parser.add_argument("--weights", help="the column of weights")
    parser.add_argument(
        "--max-points", type=int, help="the most points whose lines or planes are enumerated"
    )
    parser.add_argument("--max-nodes", type=int, help="the most nodes of the search for monomials")
    options = parser.parse_args(arguments)
    try:
        verification = verify_file(
            options.model,
            options.data,
            label=options.label,
            weights=options.weights,
            max_points=options.max_points,
            max_nodes=options.max_nodes,
        )
    except ValueError as error:
        print(f"verify: error: {error}", file=sys.stderr)
        return 2
    print(describe(verification))
    return 0 if verification.valid else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
