"""The Pareto front of three classifiers against brute force over all kept sets."""

import jax
import numpy as np
import pytest

import jboost
from jboost.base.status import Status
from oracles.pair_space import random_space_sets
from oracles.pareto_space import pareto_front_space


def check(points, labels, weights, mask):
    front = jboost.pair.pareto_front(
        points.astype(np.float32), labels, weights=weights, mask=mask, max_points=40
    )
    losses, squared = pareto_front_space(points[mask], labels[mask], weights[mask])
    count = int(front.count)
    case = f"points = {points.tolist()}, labels = {labels.tolist()}, weights = {weights.tolist()}"
    assert int(front.status) == Status.OPTIMAL, case
    assert front.losses[:count].tolist() == losses, case
    np.testing.assert_allclose(
        np.asarray(front.margins[:count], float) ** 2, [float(s) for s in squared], rtol=1e-5
    )
    assert np.isinf(front.losses[count:]).all()
    check_planes(front, points[mask], labels[mask], weights[mask])


def check_planes(front, points, labels, weights):
    """That each plane keeps all but the lost weight at its margin."""
    for index in range(int(front.count)):
        normal, anchor = np.float64(front.normals[index]), np.float64(front.anchors[index])
        heights = labels * ((points - anchor) @ normal + float(front.biases[index]))
        margin, length = float(front.margins[index]), np.linalg.norm(normal)
        if np.isinf(margin):
            assert not normal.any()
            kept = heights > 0
        else:
            kept = heights >= margin * length * (1 - 1e-3)
        assert weights[~kept].sum() <= front.losses[index]


def test_pareto_front_of_three_classifiers_is_that_of_brute_force():
    for case in zip(*random_space_sets(9, 5, 6, extent=6), strict=True):
        check(*case)


def test_a_slab_too_narrow_for_floats_is_no_optimal_front(x64):
    points = np.array([[0, 0, 0], [2**-45, 0, 0], [1, 0, 0], [1, 1, 0], [1, 0, 1], [-1, 0, 0]])
    labels = np.array([-1, 1, 1, 1, 1, -1])
    front = jboost.pair.pareto_front(points, labels, max_points=4)
    assert int(front.status) == Status.PRECISION_LIMIT or front.losses[0] == 0
    # the same points with another origin, of which none is close to another one
    points[1, 0] = 2**-9
    for origin in (0.0, 2.0**40):
        front = jboost.pair.pareto_front(points + origin, labels, max_points=4)
        assert int(front.status) == Status.OPTIMAL
        assert front.losses[0] == 0
        assert front.margins[0] == 2**-10


def test_slabs_without_a_width_leave_nothing_undecided_off_a_grid(x64):
    """Points of both classes in one plane, whose coordinates have many bits."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(10, 2)), np.full((10, 1), 0.1)], axis=1)
    labels = np.where(np.arange(10) % 2, 1, -1)
    flat = jboost.pair.pareto_front(points[:, :2], labels, max_points=8)
    front = jboost.pair.pareto_front(points, labels, max_points=8)
    assert int(front.status) == Status.OPTIMAL
    np.testing.assert_array_equal(front.losses, flat.losses)
    np.testing.assert_allclose(front.margins, flat.margins, rtol=1e-6)


def thin_sets(seed, count, exponents):
    """Randomly rotated thin triangles of one class with one or two other points. Of the triangle
    two edges are nearly parallel.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        height = 2.0 ** -rng.choice(exponents)
        triangle = [[-1, 0, 0], [1, 0, 0], [rng.uniform(-0.9, 0.9), height, 0]]
        others = rng.uniform(-1, 1, (rng.integers(1, 3), 3))
        others[0, 2] = 0.7
        points = np.concatenate([triangle, others]) @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
        labels = np.concatenate([[-1, -1, -1, 1], rng.choice([-1, 1], len(points) - 4)])
        yield points + rng.normal(size=3), labels


def status_if_right(points, labels):
    """The status of the front, which is that of brute force or is in doubt."""
    front = jboost.pair.pareto_front(points, labels, max_points=40)
    if int(front.status) == Status.PRECISION_LIMIT:
        return Status.PRECISION_LIMIT
    losses, squared = pareto_front_space(points, labels, np.ones(len(labels)))
    case = f"points = {points.tolist()}, labels = {labels.tolist()}"
    assert int(front.status) == Status.OPTIMAL, case
    assert front.losses[: int(front.count)].tolist() == losses, case
    np.testing.assert_allclose(
        np.asarray(front.margins[: int(front.count)]) ** 2,
        [float(s) for s in squared],
        rtol=1e-5,
        err_msg=case,
    )
    return Status.OPTIMAL


def test_a_wide_slab_under_a_thin_triangle_is_on_the_front(x64):
    points = [
        [0.05511472533240064, -0.9724145825258506, -0.5771253382504474],
        [-0.6729973881392788, 0.34661393448291133, 0.7381755860757963],
        [-0.3089951458723299, -0.31290133145735183, 0.08049634408798058],
        [-0.5372476386587324, -0.8059824816661081, 0.5246492239289148],
    ]
    assert status_if_right(np.array(points), np.array([-1, -1, -1, 1])) == Status.OPTIMAL


@pytest.mark.slow
def test_fronts_of_thin_triangles_are_those_of_brute_force_or_in_doubt(x64):
    found = [status_if_right(*case) for case in thin_sets(0, 24, range(10, 25))]
    assert found.count(Status.OPTIMAL) > 18
    for case in thin_sets(1, 8, range(25, 60)):
        status_if_right(*case)


@pytest.mark.slow
def test_pareto_front_of_many_degenerate_sets_in_space():
    for case in zip(*random_space_sets(10, 12, 7, extent=6), strict=True):
        check(*case)


@pytest.mark.slow
def test_pareto_front_in_space_begins_with_the_optimal_separator():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(40, 3)).astype(np.float32)
    labels = np.where(points[:, 0] + rng.normal(size=40) > 0.3, 1, -1)
    front = jboost.pair.pareto_front(points, labels, max_points=40)
    best = jboost.pair.optimal_separator(points, labels)
    assert int(front.status) == Status.OPTIMAL
    assert front.losses[0] == best.loss
    np.testing.assert_allclose(front.margins[0], best.margin, rtol=1e-5)
    count = int(front.count)
    assert (np.diff(front.losses[:count]) > 0).all()
    assert (np.diff(front.margins[:count]) > 0).all()
    check_planes(front, points.astype(float), labels, np.ones(40))
    chosen = jboost.pair.best_trade_off(front, lambda loss, margin: loss + 1 / margin)
    assert chosen.normal.shape == (3,)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 2])
def test_pareto_front_of_few_points_in_space(size):
    points, labels = np.arange(3 * size, dtype=float).reshape(size, 3), np.ones(size)
    labels[1:] = -1
    front = jboost.pair.pareto_front(points, labels, max_points=3)
    assert int(front.status) == Status.OPTIMAL
    assert front.losses[: int(front.count)].tolist() == ([0.0, 1.0] if size == 2 else [0.0])


@pytest.mark.slow
def test_a_full_front_in_space_and_bad_values():
    rng = np.random.default_rng(3)
    points, labels = rng.normal(size=(14, 3)), rng.choice([-1, 1], 14)
    whole = jboost.pair.pareto_front(points, labels, max_points=20)
    short = jboost.pair.pareto_front(points, labels, max_points=2)
    assert int(short.status) == Status.CAPACITY_LIMIT
    np.testing.assert_array_equal(short.losses, whole.losses[:2])
    points[3, 1] = np.nan
    bad = jboost.pair.pareto_front(points, labels, max_points=4)
    assert (int(bad.status), int(bad.count)) == (Status.INVALID_INPUT, 0)
    assert np.isnan(bad.losses).all()


def test_options_of_the_front_for_the_plane_are_refused_in_space():
    points, labels = np.zeros((3, 3)), np.ones(3)
    with pytest.raises(ValueError, match="method is 'sweep', and points has three columns"):
        jboost.pair.pareto_front(points, labels, max_points=2, method="sweep")
    with pytest.raises(ValueError, match="points has three columns, for which the host drives"):
        jax.jit(lambda p: jboost.pair.pareto_front(p, labels, max_points=2))(points)
