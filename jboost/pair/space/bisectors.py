"""The bisector of the hulls of two finite sets in space, in exact arithmetic on the host.

The nearest points of two hulls in space are combinations of at most four points together. A
direction in floats (`jboost.pair.space.hulls`) names the few points that can be among them. Of
these the combination that satisfies the conditions of optimality is found in fractions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

_Vector = tuple[Fraction, ...]
# Points whose heights over the direction differ from the least one by at most this share of their
# reach may support the bisector.
_NEAR = 1e-9
_MOST_POINTS = 4  # that carry the two nearest points, in space
# The most combinations that are tried. More points are on a supporting plane only of small grids.
_MOST_TRIED = 20_000


class Bisector(NamedTuple):
    """The plane halfway between two hulls: score(x) = normal . x - offset, positive on the side of
    the first set.
    """

    normal: _Vector  # the difference of the nearest points
    offset: Fraction
    squared_gap: Fraction  # the squared distance of the hulls


def bisect(
    points: np.ndarray, first: np.ndarray, second: np.ndarray, direction: np.ndarray
) -> Bisector | None:
    """The bisector of two disjoint sets, none of them empty.

    Args:
      points: [n, 3] float64.
      first: [n] bool.
      second: [n] bool.
      direction: [3], close to the normal of the bisector, of any length; it points to the first
        set.

    Returns:
      The bisector; None if the hulls meet, or if the direction is too far from its normal.
    """
    reach = float(np.abs(points[first | second]).max(initial=0.0))
    length = float(np.abs(direction).sum())
    if not (length > 0 and np.isfinite(length) and reach > 0):
        return None
    heights = points @ (direction / length)
    near = _NEAR * reach
    least, most = heights[first].min(), heights[second].max()
    upper = _distinct(points[first & (heights <= least + near)])
    lower = _distinct(points[second & (heights >= most - near)])
    for number, (one, other) in enumerate(_subsets(upper, lower)):
        if number >= _MOST_TRIED:
            return None
        found = _nearest(one, other)
        if found is None:
            continue
        x, y = found
        normal = tuple(a - b for a, b in zip(x, y, strict=True))
        if all(_dot(normal, p) >= _dot(normal, x) for p in upper) and all(
            _dot(normal, p) <= _dot(normal, y) for p in lower
        ):
            return _checked(points, first, second, x, y, near)
    return None


def _checked(
    points: np.ndarray, first: np.ndarray, second: np.ndarray, x: _Vector, y: _Vector, near: float
) -> Bisector | None:
    """The bisector of the points x and y, if they are nearest for all points of the two sets.
    Points in doubt are compared in fractions.
    """
    normal = tuple(a - b for a, b in zip(x, y, strict=True))
    squared = _dot(normal, normal)
    if squared == 0:
        return None
    heights = points @ np.array([float(part) for part in normal])
    slack = near * float(sum(abs(part) for part in normal))
    for members, end, sign in ((first, x, 1), (second, y, -1)):
        above = sign * (heights - float(_dot(normal, end)))
        for index in np.flatnonzero(members & (above < slack)):
            if sign * (_dot(normal, _exact(points[index])) - _dot(normal, end)) < 0:
                return None
    return Bisector(normal, (_dot(normal, x) + _dot(normal, y)) / 2, squared)


def side(bisector: Bisector, point: np.ndarray) -> int:
    """The exact sign of the score of a point [3]."""
    score = _dot(bisector.normal, _exact(point)) - bisector.offset
    return (score > 0) - (score < 0)


def supports(
    bisector: Bisector, points: np.ndarray, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
    """The points [n] bool of the two sets that are exactly at half the gap from the bisector.
    Without any other point the bisector stays.
    """
    normal, half = bisector.normal, bisector.squared_gap / 2
    heights = points @ np.array([float(part) for part in normal]) - float(bisector.offset)
    size = float(np.abs(points).max(initial=0.0)) * float(sum(abs(part) for part in normal))
    found = np.zeros(len(points), bool)
    for members, sign in ((first, 1), (second, -1)):
        close = members & (sign * heights <= float(half) + _NEAR * size)
        for index in np.flatnonzero(close):
            score = _dot(normal, _exact(points[index])) - bisector.offset
            found[index] = sign * score == half
    return found


def _exact(point: np.ndarray) -> _Vector:
    return tuple(Fraction(float(x)) for x in point)


def _distinct(points: np.ndarray) -> list[_Vector]:
    return [_exact(point) for point in np.unique(points + 0.0, axis=0)]


def _dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _subsets(
    upper: list[_Vector], lower: list[_Vector]
) -> Iterator[tuple[tuple[_Vector, ...], tuple[_Vector, ...]]]:
    """Pairs of subsets that have at most four points together, the smallest first."""
    for total in range(2, _MOST_POINTS + 1):
        for num_upper in range(1, total):
            for one in itertools.combinations(upper, num_upper):
                for other in itertools.combinations(lower, total - num_upper):
                    yield one, other


def _nearest(one: Sequence[_Vector], other: Sequence[_Vector]) -> tuple[_Vector, _Vector] | None:
    """The nearest points of the affine hulls, if they are unique and in the hulls."""
    x, y = one[0], other[0]
    edges = [tuple(a - b for a, b in zip(p, x, strict=True)) for p in one[1:]]
    edges += [tuple(b - a for a, b in zip(p, y, strict=True)) for p in other[1:]]
    difference = tuple(a - b for a, b in zip(x, y, strict=True))
    shares = _solve(
        [[_dot(a, b) for b in edges] for a in edges], [-_dot(a, difference) for a in edges]
    )
    if shares is None or any(share < 0 for share in shares):
        return None
    of_one, of_other = shares[: len(one) - 1], shares[len(one) - 1 :]
    if sum(of_one) > 1 or sum(of_other) > 1:
        return None
    for share, edge in zip(of_one, edges, strict=False):
        x = tuple(a + share * b for a, b in zip(x, edge, strict=True))
    for share, edge in zip(of_other, edges[len(of_one) :], strict=True):
        y = tuple(a - share * b for a, b in zip(y, edge, strict=True))
    return x, y


def _solve(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction] | None:
    """The solution of up to two linear equations by Cramer's rule; None if it is not unique."""
    if not right:
        return []
    if len(right) == 1:
        return None if matrix[0][0] == 0 else [right[0] / matrix[0][0]]
    (a, b), (c, d) = matrix
    determinant = a * d - b * c
    if determinant == 0:
        return None
    return [
        (right[0] * d - b * right[1]) / determinant,
        (a * right[1] - c * right[0]) / determinant,
    ]
