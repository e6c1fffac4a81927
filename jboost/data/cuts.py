"""Cut points of one numeric attribute.

Class changes are the boundary points of Fayyad and Irani (1992, Machine Learning 8: 87-102). All
midpoints are the cut points of Boros, Hammer, Ibaraki and Kogan (1997, Mathematical Programming 79:
163-190). A cut c defines the condition `value <= c`.
"""

from __future__ import annotations

import decimal
import math

import jax.numpy as jnp
import numpy as np

from jboost.base import check, labelled
from jboost.base.types import ArrayLike

RULES = ("class_changes", "midpoints", "quantiles", "none")
_EXACT_DIGITS = 9  # enough to distinguish all float32 numbers; a longer midpoint is shortened
_CONTEXT = decimal.Context(prec=60, rounding=decimal.ROUND_HALF_EVEN)


def cut_points(
    values: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    rule: str = "class_changes",
    num_quantiles: int = 10,
) -> np.ndarray:
    """The cut points of one attribute.

    The cut between two neighbouring values v < v' is a decimal c with v <= c < v'. These relations
    hold in 64 bits, and also if values and cut are first rounded to 32 bits. c is the midpoint of v
    and v' in decimal notation if it has at most nine digits; else the shortest decimal in the
    middle half of the gap; else, if there is no such decimal, v itself. There is no cut between
    values that are equal in the precision of JAX (float32 unless 64-bit types are enabled).

    Args:
      values: [m] finite numbers.
      labels: [m], +1 or -1; may be None for the rules that do not use labels.
      weights: [m] not negative, used by "quantiles" only; None for ones.
      rule: "none" for no cuts; "class_changes" for cuts between neighbouring values, unless all
        examples of both values are of one class; "midpoints" for cuts between all neighbouring
        values; "quantiles" for those of the midpoints whose share of the weight below is nearest to
        k / num_quantiles.
      num_quantiles: static, at least 2.

    Returns:
      Cuts [k] float64, ascending; empty if all values are equal, or, for "class_changes", if there
      is only one class.

    Raises:
      ValueError: naming the argument, if it has a wrong shape, a value is not finite, or the rule
        is "class_changes" and there are no labels.

    >>> cut_points([0.1, 0.2, 40, 55, 55], [-1, -1, 1, -1, 1]).tolist()
    [20.1, 47.5]
    >>> cut_points([0.1, 0.2, 40, 55, 55], rule="midpoints").tolist()
    [0.15, 20.1, 47.5]
    """
    before = "cut before; jboost.data.binarization.apply may be traced"
    check.on_host(
        "jboost.data.cuts.cut_points", instead=before, values=values, labels=labels, weights=weights
    )
    check.choice("rule", rule, RULES)
    check.count("num_quantiles", num_quantiles, low=2)
    size = check.host_array("values", values, shape=("m",), kinds="fiub").shape[0]
    host = np.asarray(values)
    if not np.isfinite(host.astype(np.float64)).all():
        raise ValueError(
            "values are not all finite: leave out what is missing, correct what is infinite"
        )
    if labels is None and rule == "class_changes":
        raise ValueError(
            'labels is None: rule "class_changes" needs labels; "midpoints" and "quantiles" do'
            " without"
        )
    signs, sizes, _ = labelled.validate_on_host(
        np.ones(size, np.int32) if labels is None else labels, weights, None, size
    )
    distinct, place = np.unique(host.astype(np.float64), return_inverse=True)
    gaps = _choose_gaps(distinct, place, signs, sizes, rule, num_quantiles)
    written = host.dtype.type if host.dtype.kind == "f" else np.float64
    return np.array(
        [_decimal_between(float(distinct[gap]), float(distinct[gap + 1]), written) for gap in gaps],
        np.float64,
    )


def _choose_gaps(
    distinct: np.ndarray,
    place: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    rule: str,
    num_quantiles: int,
) -> np.ndarray:
    """The gaps that are cut by the rule, ascending. Gap i lies between distinct[i] and
    distinct[i + 1].

    Args:
      distinct: the values, ascending.
      place: [m] the index of the value of each example.
      labels: [m].
      weights: [m].
      rule: as for `cut_points`.
      num_quantiles: as for `cut_points`.
    """
    held = as_held(distinct)
    gaps = np.flatnonzero(held[:-1] < held[1:])
    if gaps.size and rule == "class_changes":
        return gaps[_changes_class(gaps, place, labels > 0)]
    if rule == "none":
        return gaps[:0]
    if gaps.size and rule == "quantiles":
        below = np.cumsum(np.bincount(place, weights.astype(np.float64)))
        return gaps[_is_nearest(below[gaps], below[-1], num_quantiles)]
    return gaps


def as_held(values: np.ndarray) -> np.ndarray:
    """Numbers [m] as JAX compares them: rounded to its default precision, with 0 for
    subnormal ones.
    """
    return _rounded(values, jnp.result_type(float))


def _rounded(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        rounded = np.asarray(values, np.float64).astype(dtype)
    return np.where(np.abs(rounded) < np.finfo(dtype).tiny, np.zeros((), dtype), rounded)


def _changes_class(gaps: np.ndarray, place: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Whether the examples on both sides of each gap are not all of one class. All values between
    two neighbouring gaps count as one value.
    """
    group = np.searchsorted(gaps, place)
    num_positive = np.bincount(group, positive, gaps.size + 1)
    num_negative = np.bincount(group, ~positive, gaps.size + 1)
    return ((num_positive[:-1] + num_positive[1:]) > 0) & (
        (num_negative[:-1] + num_negative[1:]) > 0
    )


def _is_nearest(below: np.ndarray, total: float, num_quantiles: int) -> np.ndarray:
    """Which of the ascending sums `below` [k] is the nearest one to some level j total / n with
    0 < j < n, [k] bool. Of two sums at equal distance the lower one counts.

    A sum is the nearest one for the levels between its midpoint with the sum before and its
    midpoint with the next one. The levels are counted per sum, because there may be many more
    levels than sums.
    """
    up_to_middle = (below[:-1] + below[1:]) * num_quantiles // (2 * total)
    levels = np.concatenate([[0], np.clip(up_to_middle, 0, num_quantiles - 1), [num_quantiles - 1]])
    return np.diff(levels) > 0


def _decimal_between(low: float, high: float, written: type) -> float:
    midpoint = _CONTEXT.divide(
        _CONTEXT.add(decimal.Decimal(str(written(low))), decimal.Decimal(str(written(high)))),
        decimal.Decimal(2),
    )
    candidates = (
        [midpoint] if len(midpoint.normalize(_CONTEXT).as_tuple().digits) <= _EXACT_DIGITS else []
    )
    for candidate in (*candidates, _short_decimal(low, high)):
        if _parts(low, float(candidate), high):
            return float(candidate) + 0.0
    return low


def _short_decimal(low: float, high: float) -> decimal.Decimal:
    """The decimal with the fewest digits whose distance from the midpoint is at most a quarter of
    the gap.
    """
    left, right = decimal.Decimal(low), decimal.Decimal(high)
    middle = _CONTEXT.divide(_CONTEXT.add(left, right), decimal.Decimal(2))
    quarter = _CONTEXT.divide(_CONTEXT.subtract(right, left), decimal.Decimal(4))
    exponent = math.floor(quarter.log10(_CONTEXT)) + 1
    while True:
        candidate = middle.quantize(decimal.Decimal(1).scaleb(exponent), context=_CONTEXT)
        if abs(candidate - middle) <= quarter:
            return candidate
        exponent -= 1


def _parts(low: float, cut: float, high: float) -> bool:
    single = _rounded(np.array([low, cut, high]), np.dtype(np.float32))
    return low <= cut < high and bool(single[1] < single[2] or single[0] == single[2])
