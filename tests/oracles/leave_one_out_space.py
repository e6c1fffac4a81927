"""Brute force for the leave-one-out error of three classifiers: each point is removed, all planes
through triples of the others are written down, and every separator of least weight and largest
margin is asked for the point. Shares nothing with the package.
"""

import itertools
from fractions import Fraction

import numpy as np

from oracles.pair_space import gap_squared, splits_by_planes


def leave_one_out_space(points, labels, weights):
    """The errors [n] and kinds [n] for integer points [n, 3] of moderate size."""
    answers = [_answers(points, labels, weights, i) for i in range(len(labels))]
    errors = [w * (1 - np.mean(found)) for w, found in zip(weights, answers, strict=True)]
    kinds = [1 if all(found) else 3 if any(found) else 2 for found in answers]
    return errors, kinds


def _answers(points, labels, weights, i):
    """Whether each separator of largest margin of the other points has point i right."""
    rest = np.arange(len(labels)) != i
    if not rest.any():
        return [True, False]
    others, positive = points[rest], labels[rest] > 0
    splits = np.unique(splits_by_planes(others), axis=0)
    losses = (splits != positive) @ weights[rest]
    optimal = splits[losses == losses.min()]
    kept = [(split & positive, ~split & ~positive) for split in optimal]
    gaps = [gap_squared(others, *sides) for sides in kept]
    return [
        _side(others, *sides, points[i]) == labels[i]
        for sides, gap in zip(kept, gaps, strict=True)
        if gap == max(gaps)
    ]


def _side(points, upper, lower, point):
    """The side of a point of the bisector of two hulls, 0 on it."""
    if not (upper.any() and lower.any()):
        return 1 if upper.any() else -1
    normal, twice_offset = _bisector(points, upper, lower)
    return int(
        np.sign(2 * sum(int(a) * int(b) for a, b in zip(normal, point, strict=True)) - twice_offset)
    )


def _bisector(points, upper, lower):
    """(normal, twice the offset) in integers, by the candidates of `gap_squared`."""
    members = np.flatnonzero(upper | lower)
    edges = [points[i] - points[j] for i, j in itertools.combinations(members, 2)]
    edges = [edge for edge in edges if edge.any()]
    across = [points[i] - points[j] for i in np.flatnonzero(upper) for j in np.flatnonzero(lower)]
    normals = [*across]
    normals += [(e @ e) * a - (a @ e) * e for a in across for e in edges]
    for one, other in itertools.combinations(edges, 2):
        cross = np.cross(one, other)
        normals += [cross, -cross]
    normals = np.array(normals)
    heights = normals @ points.T
    low, high = heights[:, upper].min(axis=1), heights[:, lower].max(axis=1)
    ratios = (low - high) / np.maximum(np.sqrt((normals.astype(float) ** 2).sum(axis=1)), 1e-300)
    near = np.flatnonzero((ratios >= ratios.max() * (1 - 1e-12)) & (low > high))
    best = max(
        near,
        key=lambda k: Fraction(int(low[k] - high[k]) ** 2, sum(int(x) ** 2 for x in normals[k])),
    )
    return normals[best], int(low[best]) + int(high[best])
