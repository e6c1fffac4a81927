"""Leave-one-out errors of three classifiers against brute force over planes through triples."""

from fractions import Fraction

import jax
import numpy as np
import pytest

import jboost
from jboost.base.status import Status
from jboost.pair.space import bisectors
from oracles.leave_one_out_space import _bisector, leave_one_out_space
from oracles.pair_space import gap_squared, random_space_sets

MAX_POINTS = 9


def check(points, labels, weights, mask):
    found = jboost.pair.leave_one_out(points.astype(np.float32), labels, weights=weights, mask=mask)
    errors, kinds = leave_one_out_space(points[mask], labels[mask], weights[mask])
    case = f"points = {points.tolist()}, labels = {labels.tolist()}, weights = {weights.tolist()}"
    assert int(found.status) == Status.OPTIMAL, case
    assert np.asarray(found.kinds)[mask].tolist() == kinds, case
    np.testing.assert_allclose(np.asarray(found.errors)[mask], errors, rtol=1e-6, err_msg=case)
    np.testing.assert_allclose(found.error, np.sum(errors) / max(len(errors), 1), rtol=1e-6)
    assert not np.asarray(found.errors)[~mask].any()
    assert not np.asarray(found.kinds)[~mask].any()


def test_leave_one_out_of_three_classifiers_is_that_of_brute_force():
    for case in zip(*random_space_sets(5, 6, MAX_POINTS, extent=6), strict=True):
        check(*case)


@pytest.mark.slow
@pytest.mark.parametrize("extent", [6, 1000])
def test_leave_one_out_of_many_degenerate_sets_in_space(extent):
    for case in zip(*random_space_sets(7, 60, MAX_POINTS, extent=extent), strict=True):
        check(*case)


@pytest.mark.slow
def test_leave_one_out_of_twelve_points_in_space():
    for case in zip(*random_space_sets(8, 8, 12, extent=20), strict=True):
        check(*case)


@pytest.mark.slow
def test_leave_one_out_in_space_is_that_of_n_searches():
    """General floats: each point by the optimal plane of the others."""
    rng = np.random.default_rng(2)
    points = rng.normal(size=(40, 3)).astype(np.float32)
    labels = np.where(points[:, 0] + rng.normal(size=40) > 0.3, 1, -1)
    found = jboost.pair.leave_one_out(points, labels)
    assert int(found.status) == Status.OPTIMAL
    whole = jboost.pair.optimal_separator(points, labels)
    assert float(found.error) >= float(whole.loss) / 40
    masks = ~np.eye(40, dtype=bool)
    separators = jax.vmap(lambda m: jboost.pair.optimal_separator(points, labels, mask=m))(masks)
    for i in range(40):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], separators)
        if found.kinds[i] != 3:
            right = int(jboost.predict(one, points[i : i + 1])[0]) == labels[i]
            assert right == (int(found.kinds[i]) == 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "occurrence"}, "model is 'occurrence', and points has three columns"),
        ({"method": "branch_and_bound"}, "method is 'branch_and_bound', and points has three"),
    ],
)
def test_options_for_the_plane_are_refused_in_space(options, message):
    with pytest.raises(ValueError, match=message):
        jboost.pair.leave_one_out(np.zeros((3, 3)), np.ones(3), **options)


def test_traced_points_in_space_are_refused():
    with pytest.raises(ValueError, match="points has three columns, for which the host drives"):
        jax.jit(lambda points: jboost.pair.leave_one_out(points, np.ones(3)))(np.zeros((3, 3)))


@pytest.mark.slow
def test_a_full_list_of_splits_in_space_and_bad_values():
    rng = np.random.default_rng(3)
    points, labels = rng.normal(size=(12, 3)), rng.choice([-1, 1], 12)
    full = jboost.pair.leave_one_out(points, labels, max_separators=2)
    assert int(full.status) == Status.CAPACITY_LIMIT
    assert np.isnan(full.errors).all()
    assert not np.asarray(full.kinds).any()
    points[3, 1] = np.nan
    bad = jboost.pair.leave_one_out(points, labels)
    assert int(bad.status) == Status.INVALID_INPUT
    assert np.isnan(bad.error)


def test_bisect_finds_the_gap_of_brute_force():
    rng = np.random.default_rng(4)
    for _ in range(40):
        points = rng.integers(-4, 5, (8, 3))
        normal = rng.normal(size=3)
        heights = points @ normal
        first, second = heights > np.median(heights) + 1, heights < np.median(heights) - 1
        if not (first.any() and second.any()):
            continue
        direction, _ = _bisector(points, first, second)
        found = bisectors.bisect(points.astype(float), first, second, direction.astype(float) / 3)
        assert found is not None
        assert found.squared_gap == Fraction(gap_squared(points, first, second))
        near = bisectors.supports(found, points.astype(float), first, second)
        for index in np.flatnonzero(first | second):
            score = sum(a * int(b) for a, b in zip(found.normal, points[index], strict=True))
            is_near = abs(score - found.offset) == found.squared_gap / 2
            assert near[index] == is_near
            assert bisectors.side(found, points[index]) == (1 if first[index] else -1)
