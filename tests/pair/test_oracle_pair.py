"""The oracle for pairs against known answers and against a second oracle that tries all subsets."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from marks import slow
from oracles.pair import check_separator, optimal_pair, random_degenerate_sets

INF = math.inf


def sets(*members):
    return frozenset(frozenset(s) for s in members)


# --- known answers --------------------------------------------------------------------------------

HEXAGON = [(0, 0), (2, 1), (1, 2), (-1, 1), (-2, -1), (-1, -2), (1, -1)]

CASES = {
    # name: points, labels, weights, loss, margin_squared, sets, best_sets
    "nothing": ([], [], None, 0, INF, sets([]), sets([])),
    "one": ([(3, 4)], [-1], None, 0, INF, sets([]), sets([])),
    "one class": ([(0, 0), (1, 5), (2, 2)], [1, 1, 1], None, 0, INF, sets([]), sets([])),
    "two": ([(0, 0), (3, 4)], [1, -1], None, 0, Fraction(25, 4), sets([]), sets([])),
    "two at one place": ([(5, 5), (5, 5)], [1, -1], None, 1, INF, sets([0], [1]), sets([0], [1])),
    "two at one place, weighted": ([(5, 5), (5, 5)], [1, -1], [3, 2], 2, INF, sets([1]), sets([1])),
    "surrounded positive": (HEXAGON, [1] + 6 * [-1], None, 1, INF, sets([0]), sets([0])),
    "alternating on a line": (
        [(0, 0), (1, 0), (3, 0), (7, 0)],
        [1, -1, 1, -1],
        None,
        1,
        Fraction(4),
        sets([1], [2]),
        sets([1]),
    ),
    "between": (
        [(-1, -1), (0, 0), (2, 2)],
        [1, -1, 1],
        None,
        1,
        INF,
        sets([0], [1], [2]),
        sets([1]),
    ),
    "xor": (
        [(0, 0), (1, 1), (1, 0), (0, 1)],
        [1, 1, -1, -1],
        None,
        1,
        Fraction(1, 8),
        sets([0], [1], [2], [3]),
        sets([0], [1], [2], [3]),
    ),
    "corner to edge": (
        [(0, 0), (0, 4), (3, 2)],
        [1, 1, -1],
        None,
        0,
        Fraction(9, 4),
        sets([]),
        sets([]),
    ),
    "corner to corner": (
        [(0, 0), (-2, 3), (-5, -1), (2, 1)],
        [1, 1, 1, -1],
        None,
        0,
        Fraction(5, 4),
        sets([]),
        sets([]),
    ),
    "edge to edge": (
        [(0, 0), (0, 2), (4, 1), (4, 9)],
        [1, 1, -1, -1],
        None,
        0,
        Fraction(4),
        sets([]),
        sets([]),
    ),
    "clash beside a split": (
        [(0, 0), (0, 0), (6, 0)],
        [1, -1, -1],
        None,
        1,
        INF,
        sets([0], [1]),
        sets([0]),
    ),
    "clash in a split": (
        [(0, 0), (0, 0), (0, 1), (6, 0), (6, 1)],
        [1, -1, 1, -1, -1],
        [1, 1, 5, 5, 5],
        1,
        Fraction(9),
        sets([0], [1]),
        sets([1]),
    ),
    "equal sums": (
        [(0, 0), (1, 0), (2, 0), (3, 0)],
        [-1, 1, 1, -1],
        [2, 1, 1, 5],
        2,
        INF,
        sets([0], [1, 2]),
        sets([1, 2]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_known_answers(name):
    points, labels, weights, loss, margin_squared, all_sets, best_sets = CASES[name]
    optimum = optimal_pair(points, labels, weights)
    assert optimum.loss == loss
    assert isinstance(optimum.loss, int)
    assert (optimum.margin_squared, optimum.margin_squared_flipped) == (
        margin_squared,
        margin_squared,
    )
    assert (optimum.sets, optimum.best_sets) == (all_sets, best_sets)
    assert optimum.num_optimal_sets == len(optimum.sets)


def test_heavy_surrounded_positive():
    """Three of the six negatives lie on the side of the positive, whichever way the
    line is turned.
    """
    optimum = optimal_pair(HEXAGON, [1] + 6 * [-1], [7] + 6 * [1])
    assert optimum.loss == 3
    assert optimum.num_optimal_sets == 6
    assert {len(s) for s in optimum.sets} == {3}
    assert optimum.margin_squared < INF


def test_float_weights_are_exact():
    points, labels = [(0, 0), (1, 0), (2, 0), (3, 0)], [1, -1, 1, -1]
    # 0.1 + 0.2 is not 0.3: in floats the sum would be rounded, exactly it is less than the float
    # next to it.
    optimum = optimal_pair([(0, 0), (0, 0), (0, 0)], [1, 1, -1], [0.1, 0.2, 0.1 + 0.2])
    assert optimum.loss == Fraction(0.1) + Fraction(0.2) < Fraction(0.1 + 0.2)
    assert optimum.sets == sets([0, 1])
    optimum = optimal_pair(points, labels, [1.0, 2.0**-80, 2.0**80, 1.0])
    assert optimum.loss == Fraction(1, 2**80)
    assert optimum.sets == sets([1])
    assert optimal_pair(points, labels, [10**30, 10**29, 10**29 + 1, 10**30]).loss == 10**29
    with pytest.raises(ValueError, match="weights"):
        optimal_pair(points, labels, [1, 1, 0, 1])


def test_scaled_coordinates_agree():
    """Python ints, floats and scaled ints say what small ints say."""
    for points, labels, weights in unpadded(random_degenerate_sets(7, 60, 6)):
        reference = optimal_pair(points, labels, weights)
        for values, factor in (
            (points.astype(object) * 2**70 + 3**50, 2**140),
            (points.astype(object) * (2**61 + 1), (2**61 + 1) ** 2),
            (points * 2.0**-40, Fraction(1, 2**80)),
            (points.astype(object) * 7**400, 7**800),
            ((points * 2.0**-20).astype(np.float32), Fraction(1, 2**40)),
        ):
            other = optimal_pair(values, labels, weights)
            assert other.sets == reference.sets
            assert other.best_sets == reference.best_sets
            assert other.loss == reference.loss
            if reference.margin_squared == INF:
                assert other.margin_squared == other.margin_squared_flipped == INF
            else:
                assert other.margin_squared == reference.margin_squared * factor
                assert other.margin_squared_flipped == reference.margin_squared_flipped * factor


def test_nearly_collinear_floats_are_told_apart():
    """0.1, 0.2, 0.3 on the diagonal are not collinear with an end point one ulp off it."""
    points = [(0.1, 0.1), (0.2, 0.2), (0.3, math.nextafter(0.3, 1.0))]
    assert optimal_pair(points, [1, -1, 1]).loss == 0
    points[2] = (0.3, 0.3)
    assert optimal_pair(points, [1, -1, 1]).loss == 1


def test_check_separator():
    points, labels, weights = [(0, 0), (1, 0), (2, 0)], [-1, 1, 1], [1, 2, 4]
    loss, wrong = check_separator(points, labels, weights, [1.0, 0.0], [0, 0], -1.0)
    assert loss == 2
    assert wrong.tolist() == [False, True, False]
    loss, wrong = check_separator(points, labels, weights, [1.0, 0.0], [1, 0], 0.5)
    assert loss == 0
    assert not wrong.any()
    assert check_separator(points, labels, weights, [0.0, 0.0], [0, 0], -1.0)[0] == 6
    assert check_separator(points, labels, None, [0.0, 0.0], [0, 0], 0.0)[0] == 3
    assert check_separator(points, labels, [0.5, 0.5, 0.5], [math.nan, 0.0], [0, 0], 0.0)[0] == 1.5
    assert check_separator([], [], None, [0.0, 0.0], [0, 0], 1.0)[0] == 0


# --- all subsets ----------------------------------------------------------------------------------


def turn(a, b, c):
    value = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    return (value > 0) - (value < 0)


def on_segment(p, a, b):
    return turn(a, b, p) == 0 and all(
        min(s, t) <= v <= max(s, t) for v, s, t in zip(p, a, b, strict=True)
    )


def segments_meet(a, b, c, d):
    ends = on_segment(a, c, d) or on_segment(b, c, d) or on_segment(c, a, b) or on_segment(d, a, b)
    return ends or (turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0)


def in_triangle(p, a, b, c):
    turns = {turn(a, b, p), turn(b, c, p), turn(c, a, p)}
    inside = len(turns) == 1 and 0 not in turns
    return inside or on_segment(p, a, b) or on_segment(p, b, c) or on_segment(p, c, a)


def distance_squared(p, a, b):
    """Squared distance of p from the segment ab."""
    ux, uy, px, py = b[0] - a[0], b[1] - a[1], p[0] - a[0], p[1] - a[1]
    length = ux * ux + uy * uy
    share = min(max(Fraction(ux * px + uy * py, length), 0), 1) if length else 0
    return Fraction((px - share * ux) ** 2 + (py - share * uy) ** 2)


def all_subsets(points, labels, weights):
    """Loss, sets, and the two margins of each set: what is left must have hulls that do not meet.

    Hulls in the plane meet iff a point of one class lies in a triangle of the other or two segments
    meet.
    """
    n = len(points)
    up = [i for i in range(n) if labels[i] > 0]
    down = [i for i in range(n) if labels[i] < 0]
    clashes = set()
    for some, others in ((up, down), (down, up)):
        for i in some:
            for triple in itertools.combinations_with_replacement(others, 3):
                if in_triangle(points[i], *(points[j] for j in triple)):
                    clashes.add(frozenset((i, *triple)))
    for pair in itertools.combinations_with_replacement(up, 2):
        for other in itertools.combinations_with_replacement(down, 2):
            if segments_meet(*(points[j] for j in (*pair, *other))):
                clashes.add(frozenset((*pair, *other)))
    found = {}
    for bits in itertools.product((False, True), repeat=n):
        removed = frozenset(i for i in range(n) if bits[i])
        if all(clash & removed for clash in clashes):
            found[removed] = sum(weights[i] for i in removed)
    loss = min(found.values())
    best = [removed for removed, weight in found.items() if weight == loss]
    return loss, {removed: margins(points, up, down, removed) for removed in best}


def margins(points, up, down, removed):
    kept = [i for i in up if i not in removed], [i for i in down if i not in removed]
    flipped = kept[0] + [i for i in down if i in removed], kept[1] + [i for i in up if i in removed]
    out = []
    for one, two in (kept, flipped):
        distances = [
            distance_squared(points[i], points[j], points[k])
            for some, others in ((one, two), (two, one))
            for i in some
            for j, k in itertools.combinations_with_replacement(others, 2)
        ]
        out.append(min(distances) / 4 if distances else INF)
    return tuple(out)


def unpadded(batch):
    for points, labels, weights, mask in zip(*batch, strict=True):
        yield points[mask], labels[mask], weights[mask]


@pytest.mark.parametrize(
    ("seed", "num_sets", "max_points"),
    [slow(0, 2000, 5), slow(1, 1500, 7), slow(2, 300, 9), (3, 50, 11)],
)
def test_against_all_subsets(seed, num_sets, max_points):
    for points, labels, weights in unpadded(random_degenerate_sets(seed, num_sets, max_points)):
        optimum = optimal_pair(points, labels, weights)
        loss, by_set = all_subsets(points.tolist(), labels.tolist(), weights.tolist())
        assert optimum.loss == loss
        assert optimum.sets == frozenset(by_set)
        best = max(removed for removed, _ in by_set.values())
        assert optimum.margin_squared == best
        assert optimum.best_sets == frozenset(
            s for s, (removed, _) in by_set.items() if removed == best
        )
        assert optimum.margin_squared_flipped == max(flipped for _, flipped in by_set.values())
        # Every line in the slab between the kept hulls errs on the same set (Lemma 2.2), so no
        # point lies in the slab.
        assert all(removed == flipped for removed, flipped in by_set.values())


@pytest.mark.parametrize("extent", [2**28, 2**31, 2**40, 2**62])
def test_nothing_overflows(extent):
    """Corners of a square of the largest int64 coordinates allowed, and beyond, with points next to
    its sides.
    """
    rng = np.random.default_rng(0)
    for _ in range(60):
        points = rng.choice([-extent, 0, extent], size=(7, 2)) + rng.integers(-1, 2, size=(7, 2))
        points = points.clip(-extent, extent)
        labels = rng.choice([-1, 1], size=7)
        optimum = optimal_pair(points, labels)
        loss, by_set = all_subsets(points.tolist(), labels.tolist(), [1] * 7)
        assert (optimum.loss, optimum.sets) == (loss, frozenset(by_set))
        assert optimum.margin_squared == max(removed for removed, _ in by_set.values())


@pytest.mark.slow
def test_symmetries():
    """Labels negated, order reversed, coordinates turned: the same answer."""
    for points, labels, weights in unpadded(random_degenerate_sets(3, 500, 12)):
        n = len(points)
        reference = optimal_pair(points, labels, weights)
        assert optimal_pair(points, -labels, weights) == reference
        assert optimal_pair(points[:, ::-1] * np.array([-1, 1]), labels, weights) == reference
        reversed_sets = frozenset(frozenset(n - 1 - i for i in s) for s in reference.sets)
        other = optimal_pair(points[::-1], labels[::-1], weights[::-1])
        assert other.sets == reversed_sets
        assert other[:4] == reference[:4]


# --- the sets themselves --------------------------------------------------------------------------


def test_random_sets_are_what_they_say():
    max_points = 9
    batch = random_degenerate_sets(11, 3000, max_points)
    again = random_degenerate_sets(11, 3000, max_points)
    assert all(np.array_equal(a, b) for a, b in zip(batch, again, strict=True))
    points, labels, weights, mask = batch
    assert points.shape == (3000, max_points, 2)
    assert np.abs(points).max() <= 2**20
    assert np.array_equal(points.astype(np.float32).astype(np.int64), points)
    assert set(np.unique(labels)) == {-1, 1}
    assert weights.min() == 1
    assert set(mask.sum(1)) == set(range(max_points + 1))
    assert np.abs(points).max() > 2**19
    empty, single = random_degenerate_sets(0, 5, 0), random_degenerate_sets(0, 50, 1)
    assert empty[0].shape == (5, 0, 2)
    assert single[3].shape == (50, 1)
    seen = {
        "constant": 0,
        "separable": 0,
        "tied": 0,
        "tied margin": 0,
        "clash": 0,
        "one class": 0,
        "line": 0,
    }
    for p, y, w in unpadded(tuple(a[:1500] for a in batch)):
        if len(p) < 4:
            continue
        optimum = optimal_pair(p, y, w)
        seen["constant"] += optimum.margin_squared == INF and len(set(y.tolist())) == 2
        seen["separable"] += optimum.loss == 0
        seen["tied"] += optimum.num_optimal_sets > 1
        seen["tied margin"] += len(optimum.best_sets) > 1
        both = {tuple(q) for q in p[y > 0].tolist()} & {tuple(q) for q in p[y < 0].tolist()}
        seen["clash"] += bool(both)
        seen["one class"] += len(set(y.tolist())) == 1
        seen["line"] += all(turn(p[0].tolist(), q, r) == 0 for q in p.tolist() for r in p.tolist())
    assert min(seen.values()) > 20, seen
