"""Brute force for the exact combination of a pair of classifiers, in exact arithmetic.

Shares nothing with the package: no sweep, no hull, no iteration. Every way a line can split the
points is written down, every split is priced, and the margin of a split is the best gap over a
finite list of normals that must contain the right one. Integers throughout: floats are dyadic
rationals and are scaled to integers first.

The losing details are settled by two facts. A point with score 0 is wrong, so an optimal separator
has no point on it (shift it a little towards one class and gain), hence strict splits suffice. And
if a split has points on both sides, some line through two of the locations, turned infinitesimally
about a place between two of the locations on it, makes the same split (an inner common tangent of
the two hulls), hence lines through two locations suffice.
"""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

# |coordinate| up to 2^28: differences 2^29, projections of points on differences 2^58, gaps
# 2^59 < 2^63.
_COORDINATE_LIMIT = 2**28
_WEIGHT_LIMIT = 2**62


class PairOptimum(NamedTuple):
    """All optimal separators of one labelled set. A separator is named by the set of indices it
    misclassifies.
    """

    loss: int | Fraction  # smallest weight misclassified; an int if the weights are integers
    # largest over the optimal sets, misclassified points removed; inf: a constant
    margin_squared: Fraction | float
    num_optimal_sets: int  # number of distinct optimal separator sets
    # the same with the misclassified points flipped instead of removed
    margin_squared_flipped: Fraction | float
    sets: frozenset  # of frozensets of indices: all optimal separator sets
    best_sets: frozenset  # of frozensets of indices: those of the largest margin (points removed)


def optimal_pair(points, labels, weights=None) -> PairOptimum:
    """All optimal separators of `points` [n, 2] with `labels` [n] +1/-1 and positive `weights` [n].

    Lines with either orientation and the two constants compete; a point with score 0 is wrong. The
    margin of a set is half the distance between the hulls of the points kept in each class,
    infinite if one of them is empty. Numbers may be integers of any size or finite floats. About
    n^3 work for the losses and n^3 for the margin of each optimal set.
    """
    coordinates, scale = _integer_coordinates(points)
    num_points = len(coordinates)
    positive = _positive(labels, num_points)
    integer_weights, weight_scale = _integer_weights(weights, num_points)

    splits = _splits(coordinates)
    wrong = splits != positive
    losses = wrong.astype(integer_weights.dtype) @ integer_weights
    loss = int(min(losses))
    optimal = {row.tobytes(): row for row in wrong[losses == loss]}.values()
    sets = [frozenset(np.flatnonzero(row).tolist()) for row in optimal]

    projections, lengths_squared = _projections(coordinates)
    removed, flipped = [], []
    for row in optimal:
        upper = row ^ positive
        removed.append(_gap_squared(projections, lengths_squared, upper & ~row, ~upper & ~row))
        flipped.append(
            _gap_squared(projections, lengths_squared, upper, ~upper) if row.any() else removed[-1]
        )
    best = max(removed)
    half = 4 * scale * scale
    return PairOptimum(
        loss=loss if weight_scale is None else Fraction(loss, weight_scale),
        margin_squared=best / half if best != math.inf else best,
        num_optimal_sets=len(sets),
        margin_squared_flipped=max(flipped) / half if max(flipped) != math.inf else math.inf,
        sets=frozenset(sets),
        best_sets=frozenset(s for s, gap in zip(sets, removed, strict=True) if gap == best),
    )


def check_separator(points, labels, weights, normal, anchor, bias):
    """Loss (exact) and misclassified [n] of score(x) = normal . (x - anchor) + bias, evaluated in
    float64.

    A score of 0 or NaN is wrong. `weights` may be None. Any dimension.
    """
    points = np.asarray(points, np.float64)
    if points.size == 0:
        points = points.reshape(0, np.size(normal))
    positive = _positive(labels, len(points))
    offsets = points - np.asarray(anchor, np.float64)
    scores = (offsets * np.asarray(normal, np.float64)).sum(axis=1) + np.float64(bias)
    misclassified = ~np.where(positive, scores > 0, scores < 0)
    integer_weights, weight_scale = _integer_weights(weights, len(points))
    loss = sum(integer_weights[misclassified].tolist())
    return loss if weight_scale is None else Fraction(loss, weight_scale), misclassified


def _splits(coordinates):
    """Which side each point is on, [k, n] bool: all strict splits by lines (with repetitions), and
    both constants.
    """
    x, y = coordinates.T
    num_points = len(x)
    dx, dy = x[None, :] - x[:, None], y[None, :] - y[:, None]  # [i, k]: point k seen from point i
    pivot, other = np.nonzero((dx != 0) | (dy != 0))
    ux, uy = dx[pivot, other][:, None], dy[pivot, other][:, None]
    rx, ry = dx[pivot], dy[pivot]
    cross = ux * ry - uy * rx
    left, on, behind = cross > 0, cross == 0, ux * rx + uy * ry <= 0
    # Points on the line up to and including the pivot go one way, those beyond it the other way (or
    # there are none).
    first, second = left | (on & behind), left | (on & ~behind)
    constants = np.array([[True], [False]]).repeat(num_points, axis=1)
    return np.concatenate([first, second, ~first, ~second, constants]).astype(bool)


def _projections(coordinates):
    """Points on every candidate normal [m, n], and the normals' squared lengths [m].

    Candidates are all differences of two points and all perpendiculars to them. The shortest
    segment between two disjoint hulls joins a corner to a corner (a difference) or a corner to an
    edge (a perpendicular to a difference).
    """
    x, y = coordinates.T
    dx, dy = x[None, :] - x[:, None], y[None, :] - y[:, None]
    apart = (dx != 0) | (dy != 0)
    dx, dy = dx[apart], dy[apart]
    nx, ny = np.concatenate([dx, -dy]), np.concatenate([dy, dx])
    return nx[:, None] * x + ny[:, None] * y, nx * nx + ny * ny


def _gap_squared(projections, lengths_squared, upper, lower):
    """Squared distance between the hulls of two separable subsets; inf if one is empty.

    Any normal gives a lower bound gap / |normal|, the right one gives equality, so the largest is
    the distance.
    """
    if not (upper.any() and lower.any()):
        return math.inf
    gaps = projections[:, upper].min(axis=1) - projections[:, lower].max(axis=1)
    separating = gaps > 0
    gaps, lengths_squared = gaps[separating], lengths_squared[separating]
    try:  # Rounding errs by a few 2^-53 here: drop only what is far from the largest.
        ratios = gaps.astype(np.float64) / np.sqrt(lengths_squared.astype(np.float64))
    except OverflowError:
        near = np.ones(len(gaps), bool)
    else:
        near = ratios >= ratios.max() * (1 - 1e-12)
    candidates = set(zip(gaps[near].tolist(), lengths_squared[near].tolist(), strict=True))
    return max(Fraction(gap * gap, length) for gap, length in candidates)


def _exact_integers(values):
    """Nested values as (object array of Python ints, scale): value = integer / scale, scale a power
    of two.
    """
    values = np.asarray(values)
    if values.dtype.kind not in "biufO":
        values = values.astype(np.float64)
    ratios = [value.as_integer_ratio() for value in values.ravel().tolist()]
    scale = max((denominator for _, denominator in ratios), default=1)
    out = np.empty(len(ratios), object)
    out[:] = [numerator * (scale // denominator) for numerator, denominator in ratios]
    return out.reshape(values.shape), scale


def _integer_coordinates(points):
    """Integer coordinates [n, 2] (int64 where nothing can overflow, else Python ints) and the
    Fraction they are scaled by. The origin may move.
    """
    points = np.asarray(points)
    if points.size == 0:
        return np.zeros((0, 2), np.int64), 1
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points must be [n, 2], got {points.shape}")
    small = (
        points.dtype.kind in "bi"
        and -_COORDINATE_LIMIT <= points.min() <= points.max() <= _COORDINATE_LIMIT
    )
    if small:
        return points.astype(np.int64), 1
    integers, scale = _exact_integers(points)
    integers = integers - integers.min(axis=0)
    divisor = math.gcd(*integers.ravel().tolist()) or 1
    integers = integers // divisor
    if integers.max() <= _COORDINATE_LIMIT:
        integers = integers.astype(np.int64)
    return integers, Fraction(scale, divisor)


def _integer_weights(weights, num_points):
    """Integer weights [n] and their scale, None where the weights are integers already."""
    if weights is None:
        return np.ones(num_points, np.int64), None
    if (
        np.shape(weights) == (num_points,)
        and getattr(weights, "dtype", None) == np.int64
        and ((weights > 0) & (weights < 2**31)).all()
    ):
        return weights, None
    integers, scale = _exact_integers(weights)
    if integers.shape != (num_points,):
        raise ValueError(f"weights must be [{num_points}], got {integers.shape}")
    if num_points and min(integers) <= 0:
        raise ValueError("weights must be positive")
    if sum(integers.tolist()) < _WEIGHT_LIMIT:
        integers = integers.astype(np.int64)
    kind = np.asarray(weights).dtype.kind
    return integers, None if kind in "bui" or (kind == "O" and scale == 1) else scale


def _positive(labels, num_points):
    labels = np.asarray(labels, np.float64)
    if labels.shape != (num_points,) or not (np.abs(labels) == 1).all():
        raise ValueError(f"labels must be [{num_points}] of +1/-1")
    return labels > 0


# Random sets that are hard in some way.

_EXTENT = 2**20
_HEXAGON = np.array([(0, 0), (2, 1), (1, 2), (-1, 1), (-2, -1), (-1, -2), (1, -1)])


def random_degenerate_sets(seed, num_sets, max_points):
    """A mixture of degenerate labelled sets, padded to one size; deterministic in `seed`.

    Returns points [s, max_points, 2] with |coordinate| <= 2^20 (exact in float32), labels [s,
    max_points], weights [s, max_points] small positive integers, all int64, and mask [s,
    max_points] bool. Sizes run from 0 to max_points. Entries outside the mask are ordinary points
    too, so that whoever ignores the mask is found out; in half of the sets they lie at the end, in
    the others anywhere.
    """
    rng = np.random.default_rng(seed)
    kinds = rng.integers(len(_GENERATORS), size=num_sets)
    points = np.zeros((num_sets, max_points, 2), np.int64)
    labels = np.ones((num_sets, max_points), np.int64)
    for kind, generate in enumerate(_GENERATORS):
        rows = np.flatnonzero(kinds == kind)
        if len(rows) and max_points:
            points[rows], labels[rows] = generate(rng, len(rows), max_points)
    # The generators put related points next to each other: mix the order in half of the sets.
    order = np.arange(max_points) + np.where(
        rng.random((num_sets, 1)) < 0.5, 0, max_points * rng.random((num_sets, max_points))
    )
    order = np.argsort(order, axis=1)
    points, labels = (
        np.take_along_axis(points, order[..., None], 1),
        np.take_along_axis(labels, order, 1),
    )
    # Half of the sets are full: symmetric ones lose their symmetry otherwise.
    sizes = np.minimum(rng.integers(2 * max_points + 1, size=(num_sets, 1)), max_points)
    places = np.broadcast_to(np.arange(max_points), (num_sets, max_points))
    shuffled = np.argsort(rng.random((num_sets, max_points)), axis=1)
    mask = np.where(rng.random((num_sets, 1)) < 0.5, places, shuffled) < sizes
    return points, labels, _random_weights(rng, num_sets, max_points), mask


def _random_weights(rng, s, n):
    choices = np.array(
        [[1, 1, 1, 1], [1, 1, 2, 2], [1, 2, 3, 4], [1, 2, 4, 8], [2, 3, 5, 8], [1, 1, 1, 1000]]
    )
    rows = np.where(rng.random(s) < 0.5, 0, rng.integers(len(choices), size=s))
    return choices[rows[:, None], rng.integers(4, size=(s, n))]


def _random_labels(rng, s, n):
    """Each set with its own share of positives."""
    return np.where(rng.random((s, n)) < rng.choice([0.2, 0.5, 0.5, 0.8], size=(s, 1)), 1, -1)


def _moved(rng, points):
    """Half of the sets somewhere else than round the origin, reflected or turned by
    quarter turns.
    """
    s = len(points)
    points = points * rng.choice([-1, 1], size=(s, 1, 2))
    points = np.where(rng.random((s, 1, 1)) < 0.5, points, points[..., ::-1])
    return points + rng.integers(-1000, 1001, size=(s, 1, 2)) * rng.integers(2, size=(s, 1, 1))


def _tiny_grid(rng, s, n):
    return _moved(
        rng, rng.integers(rng.integers(2, 6, size=(s, 1, 1)), size=(s, n, 2))
    ), _random_labels(rng, s, n)


def _collinear(rng, s, n):
    reach = rng.choice([1, 2, 5, 700], size=(s, 1, 1))
    direction = rng.integers(-reach, reach + 1, size=(s, 1, 2))
    steps = rng.integers(-n, n + 1, size=(s, n, 1)) * rng.choice([1, 1, 16], size=(s, 1, 1))
    return _moved(rng, np.clip(steps, -1000, 1000) * direction), _random_labels(rng, s, n)


def _duplicates(rng, s, n):
    places = rng.integers(-3, 4, size=(s, 4, 2)) * rng.choice([1, 1, 1 << 18], size=(s, 1, 1))
    which = rng.integers(rng.integers(1, 5, size=(s, 1)), size=(s, n))
    return np.take_along_axis(places, which[..., None], 1), _random_labels(rng, s, n)


def _both_labels(rng, s, n):
    points = rng.integers(rng.choice([3, 6, 1000], size=(s, 1, 1)), size=(s, n, 2))
    labels = _random_labels(rng, s, n)
    pairs = n // 2
    points[:, pairs : 2 * pairs] = points[:, :pairs]
    labels[:, pairs : 2 * pairs] = -labels[:, :pairs]
    return _moved(rng, points), labels


def _one_class(rng, s, n):
    points = rng.integers(rng.choice([2, 4, 1000], size=(s, 1, 1)), size=(s, n, 2))
    return _moved(rng, points), np.broadcast_to(rng.choice([-1, 1], size=(s, 1)), (s, n))


def _circle(rng, s, n):
    """Convex position (with repetitions): integer points at distance 65, some with the centre."""
    grid = np.stack(np.meshgrid(np.arange(-65, 66), np.arange(-65, 66)), -1).reshape(-1, 2)
    circle = grid[(grid**2).sum(1) == 65**2]
    circle = circle[np.argsort(np.arctan2(circle[:, 1], circle[:, 0]))]
    which = rng.integers(len(circle), size=(s, n))
    alternating = np.where(which % 2 == 0, 1, -1)
    arc = np.where(which < rng.integers(len(circle), size=(s, 1)), 1, -1)
    labels = np.choose(rng.integers(3, size=(s, 1)), [_random_labels(rng, s, n), alternating, arc])
    points = circle[which]
    points[:, 0] *= rng.integers(2, size=(s, 1))
    return _moved(rng, points), labels


def _separable(rng, s, n):
    """Split by a line, points on it all on one side; in half of the sets a few labels are wrong."""
    extent = rng.choice([4, 10, 1000, 2**14], size=(s, 1, 1))
    points = rng.integers(-extent, extent + 1, size=(s, n, 2))
    normal = rng.integers(-5, 6, size=(s, 1, 2))
    labels = np.where((points * normal).sum(-1) > rng.integers(-2, 3, size=(s, 1)), 1, -1)
    noise = rng.random((s, n)) < 0.25 * rng.integers(2, size=(s, 1))
    return _moved(rng, points), np.where(noise, -labels, labels)


def _large_collinear(rng, s, n):
    """Large coordinates, many triples exactly on a line."""
    points = 4 * rng.integers(-_EXTENT // 4, _EXTENT // 4 + 1, size=(s, n, 2))
    for k in range(2, n):
        first, second = rng.integers(min(k, 4), size=(2, s))
        base, tip = points[np.arange(s), first], points[np.arange(s), second]
        step = (tip // 4 - base // 4) * rng.integers(5, size=(s, 1))
        between = k >= 4 or rng.random((s, 1)) < 0.5
        points[:, k] = np.where(between, base + step, points[:, k])
    return points, _random_labels(rng, s, n)


def _farey(rng, s, n):
    """Directions (a, b), (c, d) of size about 2^20 with ad - bc = 1, among points that only they
    tell apart.
    """
    u, v = np.tile([1, 0], (s, 1)), np.tile([0, 1], (s, 1))
    for _ in range(100):
        mediant = u + v
        fits, which = mediant.max(1, keepdims=True) <= _EXTENT, rng.random((s, 1)) < 0.5
        u, v = np.where(fits & which, mediant, u), np.where(fits & ~which, mediant, v)
    zero = np.zeros_like(u)
    near = np.stack([zero, u, v, u - v, -u, -v, v - u, u // 2, v // 2], 1)
    which = rng.integers(rng.choice([3, 4, 7, 9], size=(s, 1)), size=(s, n))
    points = np.take_along_axis(near, which[..., None], 1)
    points = points * rng.choice([-1, 1], size=(s, 1, 2))
    points = np.where(rng.random((s, 1, 1)) < 0.5, points, points[..., ::-1])
    return points, _random_labels(rng, s, n)


def _almost_collinear(rng, s, n):
    """A long line, each point off it by at most one unit."""
    reach = (_EXTENT - 1) // (n + 1)
    direction = rng.integers(-reach, reach + 1, size=(s, 1, 2))
    steps = rng.integers(-n, n + 1, size=(s, n, 1))
    return steps * direction + rng.integers(-1, 2, size=(s, n, 2)), _random_labels(rng, s, n)


def _mirrored(rng, s, n):
    """Points and their multiples on both sides of a centre, so that angles and mirrored angles
    coincide.
    """
    rays = rng.integers(-2, 3, size=(s, 4, 2)) * rng.choice([1, 1, 2**17], size=(s, 1, 1))
    which = rng.integers(4, size=(s, n))
    points = np.take_along_axis(rays, which[..., None], 1) * rng.choice(
        [-2, -1, -1, 0, 1, 1, 2], size=(s, n, 1)
    )
    return points, _random_labels(rng, s, n)


def _symmetric(rng, s, n):
    """Few points and their images under a reflection or a rotation, labels kept or swapped: ties of
    loss and margin.
    """
    points = rng.integers(-4, 5, size=(s, n, 2)) * rng.choice([1, 1, 2**17], size=(s, 1, 1))
    labels = _random_labels(rng, s, n)
    matrices = np.array(
        [[[-1, 0], [0, 1]], [[0, 1], [1, 0]], [[-1, 0], [0, -1]], [[0, -1], [1, 0]]]
    )
    matrix = matrices[rng.integers(4, size=s)]
    swap = rng.choice([-1, 1, 1], size=s)
    for k in range(n):  # orbits of two (four under the quarter turn)
        if k % 4 in (1, 3) or (k % 4 == 2 and rng.random() < 0.5):
            points[:, k] = np.einsum("sij,sj->si", matrix, points[:, k - 1])
            labels[:, k] = swap * labels[:, k - 1]
    return points, labels


def _surrounded(rng, s, n):
    """Few positives among negatives all round them: constants win."""
    which = rng.integers(7, size=(s, n))
    which[:, :7] = np.arange(7)[None, : min(n, 7)]
    labels = np.where((which == 0) ^ (rng.random((s, n)) < 0.1), 1, -1)
    return _moved(rng, _HEXAGON[which]), labels * rng.choice([-1, 1], size=(s, 1))


def _general(rng, s, n):
    extent = rng.choice([100, 2**14, _EXTENT], size=(s, 1, 1))
    return rng.integers(-extent, extent + 1, size=(s, n, 2)), _random_labels(rng, s, n)


_GENERATORS = (
    _tiny_grid,
    _tiny_grid,
    _collinear,
    _duplicates,
    _both_labels,
    _one_class,
    _circle,
    _separable,
    _separable,
    _large_collinear,
    _farey,
    _almost_collinear,
    _mirrored,
    _symmetric,
    _symmetric,
    _surrounded,
    _general,
)
