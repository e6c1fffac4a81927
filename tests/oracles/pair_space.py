"""Brute force for the exact combination of three classifiers, in integers: every way a plane can
split the points is written down.

Shares nothing with the package. Why the list is complete: a strict split is an open cone of pairs
(normal, offset), cut out by one half-space for each point. If the points span space, the cone has
an extreme ray, which is a constant or a plane through three points that span it; near that ray the
points off the plane keep their sides, and those on it are split by any line in it, or by none. If
the points lie in a plane, planes split them as lines do in that plane. Lines are left to
`oracles.pair`. `is_split` judges a single split by linear programming instead.
"""

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from oracles import highs
from oracles.pair import _exact_integers as exact_integers
from oracles.pair import _splits as splits_by_lines

# squares of heights over normals of products of differences stay below 2^63
_COORDINATE_LIMIT = 2**11


class SpaceOptimum(NamedTuple):
    """All optimal separators of one labelled set. A separator is named by the set of indices it
    misclassifies.
    """

    loss: int
    # largest over the optimal sets, misclassified points removed; inf: a constant
    margin_squared: Fraction | float
    margin_squared_flipped: Fraction | float  # the same with the misclassified points flipped
    best_sets: frozenset  # of frozensets of indices: those of the largest margin (points removed)


def optimal_space(points, labels, weights) -> SpaceOptimum:
    """All optimal separators of finite points [n, 3] with labels +1/-1 and integer weights."""
    points, scale = exact_integers(np.asarray(points).reshape(-1, 3))
    if not points.size or abs(points).max() <= _COORDINATE_LIMIT:
        points = points.astype(np.int64)
    positive = np.asarray(labels) > 0
    wrong = splits_by_planes(points) != positive
    losses = wrong.astype(np.int64) @ np.asarray(weights, np.int64)
    optimal = list({row.tobytes(): row for row in wrong[losses == losses.min()]}.values())
    sets = [frozenset(np.flatnonzero(row).tolist()) for row in optimal]
    removed = [
        gap_squared(points, (row ^ positive) & ~row, ~(row ^ positive) & ~row) for row in optimal
    ]
    flipped = [gap_squared(points, row ^ positive, ~(row ^ positive)) for row in optimal]
    best, unit = max(removed), 4 * scale * scale
    return SpaceOptimum(
        loss=int(losses.min()),
        margin_squared=best / unit if best != math.inf else best,
        margin_squared_flipped=max(flipped) / unit if max(flipped) != math.inf else math.inf,
        best_sets=frozenset(s for s, gap in zip(sets, removed, strict=True) if gap == best),
    )


def splits_by_planes(points):
    """Which side each integer point [n, 3] is on, [k, n] bool: all strict splits by planes, and
    both constants.
    """
    size = len(points)
    constants = np.array([[True], [False]]).repeat(size, axis=1)
    triples = np.array(list(itertools.combinations(range(size), 3)), np.int64).reshape(-1, 3)
    origins = points[triples[:, 0]]
    normals = np.cross(points[triples[:, 1]] - origins, points[triples[:, 2]] - origins)
    spans = normals.any(axis=1)
    heights = (normals[spans][:, None] * (points[None] - origins[spans][:, None])).sum(axis=2)
    signs = (heights > 0).astype(int) - (heights < 0)
    if not signs.any():
        return np.concatenate([_splits_in_plane(points, normals[spans]), constants])
    first = signs[np.arange(len(signs)), (signs != 0).argmax(axis=1)]
    patterns, normals = _distinct(signs * first[:, None], normals[spans])
    rows = [constants]
    for pattern, normal in zip(patterns, normals, strict=True):
        on = pattern == 0
        row = np.broadcast_to(pattern > 0, (1, size))
        flat = _splits_in_plane(points[on], normal[None])
        split = np.repeat(row, len(flat) + 2, axis=0)
        split[:, on] = np.concatenate(
            [flat, np.ones((1, on.sum()), bool), np.zeros((1, on.sum()), bool)]
        )
        rows += [split, ~split]
    return _distinct(np.concatenate(rows))[0]


def _distinct(rows, *others):
    """The distinct rows of signs or truth values [k, n], n up to 39, and the first of each in other
    arrays.
    """
    places = 3 ** np.arange(rows.shape[1])
    _, first = np.unique(rows.astype(np.int64) @ places, return_index=True)
    return rows[first], *(other[first] for other in others)


def _splits_in_plane(points, normals):
    """The strict splits of coplanar points by lines; `normals` may be empty if they lie
    on a line.
    """
    if len(points) == 0:
        return np.zeros((0, 0), bool)
    if len(normals):
        kept = [axis for axis in range(3) if axis != np.abs(normals[0]).argmax()]
        return splits_by_lines(points[:, kept])
    return splits_by_lines(points[:, :2] + points[:, 2:] * (4 * abs(points).max() + 1))


def gap_squared(points, upper, lower):
    """Squared distance between the hulls of two sets; inf if one is empty, 0 if they meet.

    Any normal gives a lower bound. The right one is a difference of two points, the part of one
    that is perpendicular to an edge, or the cross product of two edges.
    """
    if not (upper.any() and lower.any()):
        return math.inf
    members = np.concatenate([np.flatnonzero(upper), np.flatnonzero(lower)])
    edges = np.array([points[i] - points[j] for i, j in itertools.combinations(members, 2)])
    across = np.array(
        [points[i] - points[j] for i in np.flatnonzero(upper) for j in np.flatnonzero(lower)]
    )
    edges, lengths = edges[edges.any(axis=1)], (edges[edges.any(axis=1)] ** 2).sum(axis=1)
    parts = lengths[None, :, None] * across[:, None] - (across @ edges.T)[:, :, None] * edges[None]
    crosses = np.cross(edges[:, None], edges[None]).reshape(-1, 3)
    normals = np.concatenate([across, parts.reshape(-1, 3), crosses, -crosses])
    heights = normals @ points.T
    gaps = heights[:, upper].min(axis=1) - heights[:, lower].max(axis=1)
    normals, gaps = normals[gaps > 0], gaps[gaps > 0]
    if len(gaps) == 0:
        return 0
    ratios = gaps.astype(float) / np.sqrt((normals.astype(float) ** 2).sum(axis=1))
    near = np.flatnonzero(ratios >= ratios.max() * (1 - 1e-12))
    return max(Fraction(int(gaps[k]) ** 2, sum(int(x) ** 2 for x in normals[k])) for k in near)


def is_split(points, side):
    """Whether some plane has exactly the points of `side` [n] bool strictly above it, by linear
    programming.
    """
    signs = np.where(side, 1.0, -1.0)
    matrix = np.concatenate([signs[:, None] * points, signs[:, None]], axis=1)
    infinite = np.full(4, np.inf)
    program = SimpleNamespace(
        objective=np.zeros(4),
        matrix=matrix,
        row_lower=np.ones(len(points)),
        row_upper=np.full(len(points), np.inf),
        lower=-infinite,
        upper=infinite,
    )
    return highs.solve(program).status == "optimal"


# Random sets that are hard in some way.


def random_space_sets(seed, num_sets, max_points, extent=1000):
    """Integer points [s, n, 3], labels, weights, mask: tiny grids, coplanar and collinear points,
    repeats, both labels at one place, spheres.
    """
    rng = np.random.default_rng(seed)
    points = np.zeros((num_sets, max_points, 3), np.int64)
    labels = np.where(
        rng.random((num_sets, max_points)) < rng.choice([0.3, 0.5, 0.7], (num_sets, 1)), 1, -1
    )
    for row in range(num_sets):
        points[row], labels[row] = _KINDS[row % len(_KINDS)](rng, max_points, extent, labels[row])
        moves = rng.random() < 0.3
        points[row] = points[row][:, rng.permutation(3)] + moves * rng.integers(
            -extent, extent + 1, 3
        )
        order = rng.permutation(max_points)
        points[row], labels[row] = points[row][order], labels[row][order]
    choices = np.array([[1, 1, 1, 1], [1, 1, 2, 2], [1, 2, 4, 8], [2, 3, 5, 8]])
    weights = choices[
        rng.integers(4, size=(num_sets, 1)), rng.integers(4, size=(num_sets, max_points))
    ]
    sizes = np.minimum(rng.integers(2 * max_points + 1, size=(num_sets, 1)), max_points)
    mask = np.argsort(rng.random((num_sets, max_points)), axis=1) < sizes
    return np.clip(points, -2048, 2048), labels, weights, mask


def _tiny_grid(rng, n, _, labels):
    return rng.integers(rng.integers(2, 5), size=(n, 3)), labels


def _coplanar(rng, n, _, labels):
    basis = rng.integers(-3, 4, (2, 3))
    return rng.integers(-3, 4, (n, 2)) @ basis + (rng.random((n, 1)) < 0.2) * rng.integers(
        -2, 3, (n, 3)
    ), labels


def _almost_coplanar(rng, n, extent, labels):
    basis = rng.integers(-extent // 12, extent // 12 + 1, (2, 3))
    return rng.integers(-3, 4, (n, 2)) @ basis + rng.integers(-1, 2, (n, 3)), labels


def _collinear(rng, n, _, labels):
    return rng.integers(-4, 5, (n, 1)) * rng.integers(-5, 6, 3) + (
        rng.random((n, 1)) < 0.3
    ) * rng.integers(-3, 4, (n, 3)), labels


def _repeats(rng, n, _, labels):
    return rng.integers(-2, 3, (5, 3))[rng.integers(5, size=n)], labels


def _both_labels(rng, n, _, labels):
    points, half = rng.integers(4, size=(n, 3)), n // 2
    points[half : 2 * half], labels[half : 2 * half] = points[:half], -labels[:half]
    return points, labels


def _one_class(rng, n, extent, labels):
    return rng.integers(extent, size=(n, 3)), np.full(n, rng.choice([-1, 1]))


def _octahedron(rng, n, _, labels):
    corners = np.concatenate([np.eye(3), -np.eye(3), np.zeros((1, 3))]).astype(int)
    return corners[rng.integers(7, size=n)] * rng.integers(1, 3, (n, 1)), labels


def _cube(rng, n, _, labels):
    corners = 2 * rng.integers(2, size=(n, 3)) - 1
    return corners, np.where(rng.random() < 0.5, np.prod(corners, 1), labels)


def _separable(rng, n, extent, _):
    reach = rng.choice([2, 5, extent])
    points = rng.integers(-reach, reach + 1, (n, 3))
    labels = np.where(points @ rng.integers(-4, 5, 3) > rng.integers(-2, 3), 1, -1)
    return points, np.where(rng.random(n) < 0.1 * rng.integers(2), -labels, labels)


def _general(rng, n, extent, labels):
    return rng.integers(-extent, extent + 1, (n, 3)), labels


_KINDS = (
    _tiny_grid,
    _tiny_grid,
    _coplanar,
    _almost_coplanar,
    _collinear,
    _repeats,
    _both_labels,
    _one_class,
    _octahedron,
    _cube,
    _separable,
    _separable,
    _general,
)
