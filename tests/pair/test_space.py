"""The exact combination of three classifiers against an oracle that enumerates all splits by planes
in exact arithmetic.
"""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import batches
import jboost
from jboost.base.status import Status
from jboost.pair import BranchAndBoundConfig, SweepConfig
from jboost.pair.space import cells
from oracles.pair import check_separator
from oracles.pair_space import is_split, optimal_space, random_space_sets, splits_by_planes

NUM_SETS, NUM_POINTS = 650, 8  # one shape, so that one program serves most tests
NUM_KINDS = 9  # of sets of floats
# relative; the margin is rounded at the end
MARGIN_TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-11}


def solve_batch(batch, *, dtype=np.float32, **options):
    points, labels, weights, mask = batch
    found = batches.solve_batch(
        jboost.pair.optimal_separator,
        points.astype(dtype),
        labels,
        weights.astype(dtype),
        mask,
        **options,
    )
    return [jax.tree.map(lambda leaf, row=row: leaf[row], found) for row in range(len(labels))]


def solve_by_cells(batch):
    points, labels, weights, mask = batch
    solve = functools.partial(jboost.pair.optimal_separator, method="branch_and_bound")
    rows = zip(points.astype(np.float32), labels, weights.astype(np.float32), mask, strict=True)
    return [jax.device_get(solve(p, y, weights=w, mask=m)) for p, y, w, m in rows]


def members(batch):
    for points, labels, weights, mask in zip(*batch, strict=True):
        yield points[mask], labels[mask], weights[mask], mask


def assert_all_optimal(batch, *, fat="removed", margin=True, **options):
    check_all(solve_batch(batch, fat=fat, **options), batch, fat=fat, margin=margin)


def check_all(results, batch, *, fat="removed", margin=True):
    for found, (points, labels, weights, mask) in zip(results, members(batch), strict=True):
        case = (
            f"points = {points.tolist()}, labels = {labels.tolist()}, weights = {weights.tolist()}"
        )
        optimum = optimal_space(points, labels, weights)
        assert (found.status, found.loss, found.lower_bound) == (
            Status.OPTIMAL,
            optimum.loss,
            optimum.loss,
        ), case
        loss, misclassified = check_separator(
            points, labels, weights, found.normal, found.anchor, found.bias
        )
        assert loss == optimum.loss, case
        assert np.array_equal(misclassified, found.misclassified[mask]), case
        assert not np.any(found.misclassified[~mask])
        size = np.sum(np.abs(found.normal * found.anchor)) + np.abs(found.bias)
        assert (
            abs(found.offset - (found.bias - np.sum(found.normal * found.anchor))) <= 1e-6 * size
        ), case
        if margin:
            squared = optimum.margin_squared if fat == "removed" else optimum.margin_squared_flipped
            assert found.margin == pytest.approx(
                float(squared) ** 0.5, rel=MARGIN_TOLERANCE[found.margin.dtype]
            ), case
            assert (
                frozenset(np.flatnonzero(misclassified).tolist()) in optimum.best_sets
                or fat == "flipped"
            ), case


def random_sets(seed, **options):
    return random_space_sets(seed, NUM_SETS, NUM_POINTS, **options)


@pytest.mark.slow
def test_degenerate_sets():
    assert_all_optimal(random_sets(1))


@pytest.mark.slow
def test_grids_of_eleven_bits():
    assert_all_optimal(random_sets(2, extent=2047))


@pytest.mark.slow
def test_grids_of_twenty_bits():
    points, labels, weights, mask = random_sets(3, extent=2047)
    factors = np.random.default_rng(3).integers(1, 2**9, (NUM_SETS, 1, 1))
    assert_all_optimal((points * factors, labels, weights, mask))


def float_sets(seed, dtype):
    """Floats that are nearly degenerate: coplanar or collinear but for rounding, repeats, clusters,
    decimal grids, many binades, a constant classifier, one that repeats or reverses another.
    """
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((NUM_SETS, NUM_POINTS, 3))
    kind = np.arange(NUM_SETS) % NUM_KINDS
    points[kind == 0, :, 2] = 3.7 * points[kind == 0, :, 0] - 0.3 * points[kind == 0, :, 1] + 0.1
    points[kind == 1, 1::2] = points[kind == 1, ::2]
    points[kind == 2] = points[kind == 2] * 1e-5 + np.round(points[kind == 2])
    points[kind == 3] = np.round(points[kind == 3], 1)
    points[kind == 4] *= 2.0 ** rng.integers(-12, 12, (np.sum(kind == 4), NUM_POINTS, 1))
    points[kind == 5] = (
        points[kind == 5, :, :1] * rng.standard_normal((np.sum(kind == 5), 1, 3)) + 1
    )
    points[kind == 7, :, 1] = 0.37
    points[kind == 8, :, 2] = points[kind == 8, :, 0] * rng.choice([-2, 1], (np.sum(kind == 8), 1))
    labels = rng.choice([-1, 1], (NUM_SETS, NUM_POINTS))
    return (
        points.astype(dtype),
        labels,
        rng.integers(1, 4, labels.shape),
        rng.random(labels.shape) < 0.9,
    )


def assert_floats_certified(dtype, num_checked):
    """The bound never exceeds the optimum, the loss is what the plane loses, and OPTIMAL means that
    both are the optimum.
    """
    batch = float_sets(4, dtype)
    optimal = np.zeros(NUM_KINDS)
    batch_results = zip(solve_batch(batch, dtype=dtype)[:num_checked], members(batch), strict=False)
    for row, (found, (points, labels, weights, mask)) in enumerate(batch_results):
        optimum = optimal_space(points, labels, weights)
        loss, misclassified = check_separator(
            points, labels, weights, found.normal, found.anchor, found.bias
        )
        assert (found.loss, np.array_equal(misclassified, found.misclassified[mask])) == (
            loss,
            True,
        )
        assert found.lower_bound <= optimum.loss <= found.loss
        assert found.status in (Status.OPTIMAL, Status.PRECISION_LIMIT)
        if found.status == Status.OPTIMAL:
            assert found.loss == found.lower_bound
            assert found.margin <= float(optimum.margin_squared) ** 0.5 * (1 + 1e-5)
            optimal[row % NUM_KINDS] += 1
    # the rest is coplanar or collinear but for rounding
    assert np.all(optimal[[1, 2, 4, 6, 7, 8]] >= num_checked // NUM_KINDS), optimal


@pytest.mark.slow
def test_general_floats():
    assert_floats_certified(np.float32, 90)


@pytest.mark.slow
def test_general_floats_in_float64(x64):
    assert_floats_certified(np.float64, NUM_SETS)


@pytest.mark.slow
def test_degenerate_sets_in_float64(x64):
    assert_all_optimal(random_sets(5, extent=2047), dtype=np.float64)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"fat": "flipped"},
        {"tie_break": None, "margin": False},
        {"config": SweepConfig(chunk_pairs=100)},
    ],
)
def test_degenerate_sets_with_options(options):
    assert_all_optimal(random_sets(6), **options)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_ten_thousand_degenerate_sets(seed):
    assert_all_optimal(random_sets(100 + seed, extent=(1000, 2047)[seed % 2]))


@pytest.mark.slow
def test_degenerate_sets_of_more_points():
    assert_all_optimal(random_space_sets(7, 260, 14))


def test_the_oracle_lists_the_splits_that_linear_programs_find():
    points, _, _, _ = random_space_sets(8, 26, 5)
    for row in points:
        listed = {split.tobytes() for split in splits_by_planes(row)}
        for side in itertools.product([False, True], repeat=5):
            assert (np.array(side).tobytes() in listed) == is_split(row, np.array(side))


def small_sets():
    """(points, labels, loss, margin), by hand."""
    yield [], [], 0, math.inf
    yield [(3, 4, 5)], [-1], 0, math.inf
    yield [(0, 0, 0), (2, 4, 4)], [1, -1], 0, 3
    yield [(1, 1, 1), (1, 1, 1)], [1, -1], 1, math.inf
    yield [(0, 0, 0), (1, 0, 2), (2, 0, 4)], [1, 1, 1], 0, math.inf
    yield [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)], [1, -1, -1, 1], 1, 0.5
    yield [(0, 0, 5), (1, 0, 5), (0, 1, 5), (1, 1, 5)], [1, -1, -1, 1], 1, 0.5**1.5
    yield [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 1)], [1, -1, -1, 1], 0, 0.5 / 6**0.5
    yield [*itertools.product([-1, 1], repeat=3)], [-1, 1, 1, -1, 1, -1, -1, 1], 2, 1 / 3**0.5


@pytest.mark.slow
def test_small_sets():
    cases = list(small_sets())
    points, labels = np.zeros((NUM_SETS, NUM_POINTS, 3)), np.ones((NUM_SETS, NUM_POINTS), int)
    mask = np.zeros(labels.shape, bool)
    for row, (places, signs, _, _) in enumerate(cases):
        size = len(signs)
        points[row, :size], labels[row, :size], mask[row, :size] = (
            np.reshape(places, (size, 3)),
            signs,
            True,
        )
    for found, (_, _, loss, margin) in zip(
        solve_batch((points, labels, np.ones(labels.shape), mask)), cases, strict=False
    ):
        assert (found.status, found.loss, found.lower_bound) == (Status.OPTIMAL, loss, loss)
        assert found.margin == pytest.approx(margin, rel=1e-6)


@pytest.mark.slow
def test_no_points():
    empty = jboost.pair.optimal_separator(np.zeros((0, 3)), np.zeros(0, int))
    assert (
        float(empty.loss),
        float(empty.margin),
        int(empty.status),
        empty.misclassified.shape,
    ) == (0, np.inf, Status.OPTIMAL, (0,))


@pytest.mark.slow
def test_predictions_and_bad_values():
    points, labels, weights, mask = random_sets(10)
    points, weights = points.astype(np.float64), weights.astype(np.float64)
    weights[2, 0], labels[3, 0], points[4, 0, 2], points[5, 0, 2] = -1, 0, np.nan, np.inf
    mask[:6, 0] = [True, True, True, True, True, False]
    results = solve_batch((points, labels, weights, mask))
    for row in (0, 1, 5):
        wrong = (
            jboost.predict_scores(results[row], points[row][mask[row]]) * labels[row][mask[row]]
            <= 0
        )
        assert np.array_equal(wrong, results[row].misclassified[mask[row]])
        assert results[row].status == Status.OPTIMAL
    for row in (2, 3, 4):
        assert results[row].status == Status.INVALID_INPUT
        assert np.isnan(results[row].loss)
        assert np.isnan(results[row].lower_bound)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {"points": np.zeros((3, 4))},
            r"points has shape \[3, 4\]: expected shape \[n, 2\] or \[n, 3\]",
        ),
        ({"labels": np.ones(4)}, r"labels has shape \[4\]: expected shape \[3\]"),
        (
            {"method": "branch_and_bound", "initial": 1},
            "initial is a int: expected a jboost.pair.PlaneSearchState",
        ),
        ({"method": "sweep", "initial": 1}, "initial is given, and the method is 'sweep'"),
        (
            {"config": BranchAndBoundConfig()},
            "config is a BranchAndBoundConfig: expected a jboost.pair.SweepConfig",
        ),
        ({"config": SweepConfig(word_bits=32)}, "config.word_bits is 32"),
        ({"method": "sweep", "on_step": print}, "on_step is given, and the method is 'sweep'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        jboost.pair.optimal_separator(
            **({"points": np.zeros((3, 3)), "labels": np.ones(3)} | arguments)
        )


@pytest.mark.slow
@pytest.mark.parametrize("num_sets", [25, NUM_SETS])
def test_branch_and_bound_on_degenerate_sets(num_sets):
    batch = tuple(array[:num_sets] for array in random_sets(83))
    check_all(solve_by_cells(batch), batch)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 2])
def test_branch_and_bound_of_hardly_any_points(size):
    labels, weights = np.array([1, -1])[:size], np.array([2.0, 1.0])[:size]
    found = jboost.pair.optimal_separator(
        np.ones((size, 3)), labels, weights=weights, method="branch_and_bound"
    )
    assert (int(found.status), float(found.loss), found.misclassified.tolist()) == (
        Status.OPTIMAL,
        [0, 0, 1][size],
        [False, True][:size],
    )


def place_at_random(rng, size):
    """Places with weights of either class, or of none, on a grid of 4 bits; a hundred void ones
    behind them.
    """
    points, weights = np.zeros((size + 101, 3)), np.zeros(size + 101, np.int64)
    points[:size], weights[:size] = rng.integers(-8, 9, (size, 3)) / 8, rng.integers(-3, 4, size)
    return cells.Places(points, weights, weights > 0, size)


@pytest.mark.parametrize("seed", range(4))
def test_cells_bound_their_planes_and_leave_none_out(seed):
    """Random planes through places, each followed down the cells that hold it until they die: what
    is certain is on its side, and lost if it is.
    """
    rng = np.random.default_rng(seed)
    places = place_at_random(rng, 70)
    points, weights = places.points[:70], places.weights[:70]
    plan, best = cells.make_plan(places), cells.Known(np.abs(weights).sum(), np.zeros(4))
    face, slopes = rng.integers(3, size=50), rng.uniform(-1, 1, (50, 2))
    turned = np.stack([np.roll(points, -number, axis=1) for number in face])
    heights = turned[:, :, 0] + np.sum(turned[:, :, 1:] * slopes[:, None], axis=2)
    planes = np.concatenate(
        [slopes, heights[np.arange(50), rng.integers(70, size=50)][:, None]], axis=1
    )
    heights -= planes[:, 2:]
    signed = np.sign(heights) * weights
    least = 5 + np.minimum(
        np.sum(np.maximum(signed, 0), axis=1), np.sum(np.maximum(-signed, 0), axis=1)
    )
    front = cells.root(places, 5)
    with jax.enable_x64(True):
        for _ in range(6):
            front, best = cells.divide(places, plan, front, best)
            front = front.chosen(front.num_undecided > 0)
            width = plan.half_widths[front.face, front.depth]
            first = cells.before(front.num_rows)
            holds = (front.face == face[:, None]) & np.all(
                np.abs(front.middle - planes[:, None]) <= width, axis=2
            )
            assert np.all(holds.any(axis=1) | (least > best.loss))
            for plane, cell in np.argwhere(holds):
                undecided = front.rows[first[cell] : first[cell] + front.num_rows[cell]]
                certain = ~np.isin(np.arange(70), undecided)
                assert np.all(heights[plane, certain] != 0)
                assert front.above[cell] == 5 + np.sum(np.maximum(-signed[plane, certain], 0))
                assert front.below[cell] == 5 + np.sum(np.maximum(signed[plane, certain], 0))


@pytest.mark.slow
def test_branch_and_bound_equals_the_sweep():
    """Grids near and far from the origin, coplanar and constant coordinates, floats, heavy tails,
    clusters, binades; labels at random and not.
    """
    rng = np.random.default_rng(89)
    for number in range(81):
        kind, size = number % 9, 60
        points = rng.integers(-4, 5, (size, 3)).astype(np.float32)
        if kind == 1:
            points[:, number % 3] = 1
        elif kind == 2:
            points = rng.normal(size=points.shape).astype(np.float32)
        elif kind == 3:
            points[:, 1] = points[:, 0]
        elif kind == 4:
            points = (rng.integers(-1000, 1001, points.shape) + 20_000).astype(np.float32)
        elif kind == 6:
            points = rng.standard_t(2, points.shape).astype(np.float32)
        elif kind == 7:
            points = (points // 3 + rng.normal(size=points.shape) / 1000).astype(np.float32)
        elif kind == 8:
            points = (
                rng.normal(size=points.shape) * 2.0 ** rng.integers(-10, 10, (size, 1))
            ).astype(np.float32)
        heights = points @ np.array([1.0, -1.0, 0.7]) - points.mean(axis=0) @ np.array(
            [1.0, -1.0, 0.7]
        )
        labels = np.where(
            heights + (0.5 if number % 2 else 50) * heights.std() * rng.normal(size=size) > 0, 1, -1
        )
        weights, mask = (
            rng.integers(1, 2 + number % 3, size).astype(np.float32),
            rng.random(size) < 0.9,
        )
        swept, bounded = (
            jax.device_get(
                jboost.pair.optimal_separator(
                    points, labels, weights=weights, mask=mask, method=method
                )
            )
            for method in ("sweep", "branch_and_bound")
        )
        assert (bounded.loss, bounded.lower_bound, bounded.status) == (
            swept.loss,
            swept.lower_bound,
            swept.status,
        ), number
        np.testing.assert_allclose(bounded.margin, swept.margin, rtol=1e-6)


def test_branch_and_bound_is_for_concrete_arrays():
    with pytest.raises(ValueError, match="method is 'branch_and_bound', which the host drives"):
        jax.jit(functools.partial(jboost.pair.optimal_separator, method="branch_and_bound"))(
            np.zeros((3, 3)), np.ones(3)
        )


def least_loss_of_planes(points, labels):
    """Least number of errors over the planes through all triples, each tilted in all eight ways;
    general position only.
    """
    positive, best = labels > 0, min(np.sum(labels > 0), np.sum(labels < 0))
    for first in range(len(points)):
        offsets = points - points[first]
        for second in range(first + 1, len(points)):
            normals = np.cross(offsets[second], offsets[second + 1 :])
            signs = np.sign(offsets @ normals.T)  # [n, triples]
            thirds = np.arange(second + 1, len(points))
            signs[[first, second]] = 0
            signs[thirds, np.arange(len(thirds))] = 0
            wrong = np.sum((signs > 0) & ~positive[:, None], axis=0) + np.sum(
                (signs < 0) & positive[:, None], axis=0
            )
            best = min(
                best,
                np.min(wrong, initial=len(points)),
                len(points) - 3 - np.max(wrong, initial=-3),
            )
    return best


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_larger_sets_against_all_triples(dtype):
    rng = np.random.default_rng(9)
    labels = np.where(rng.random(90) < 0.4, 1, -1)
    points = (
        (rng.standard_normal((90, 3)) + 0.4 * labels[:, None])
        * (1 if dtype == np.float32 else 2**20)
    ).astype(dtype)
    found = jboost.pair.optimal_separator(points, labels)
    assert found.status == Status.OPTIMAL
    assert (
        found.loss == found.lower_bound == least_loss_of_planes(points.astype(np.float64), labels)
    )
    assert (
        check_separator(points, labels, None, found.normal, found.anchor, found.bias)[0]
        == found.loss
    )


@pytest.mark.slow
def test_has_no_derivative():
    points, labels, weights, mask = random_sets(10)
    solve = jax.vmap(lambda p, y, w, m: jboost.pair.optimal_separator(p, y, weights=w, mask=m))
    with pytest.raises(TypeError, match="jboost.pair.optimal_separator has no derivative"):
        jax.grad(lambda p: jnp.sum(solve(p, labels, weights.astype(np.float32), mask).loss))(
            points.astype(np.float32)
        )


@pytest.mark.slow
def test_coordinates_of_very_different_units():
    """Floats write down no plane that keeps the optimum: the bound holds, the status says so, and a
    constant is the least that is returned.
    """
    points = [[0.0, 0.0, -1.0], [3 * 2.0**20, 0.0, -1.0], [-3 * 2.0**20, 2.0**-10, -1.0]]
    separator = jboost.pair.optimal_separator(points, [1, -1, -1], method="sweep")
    assert (separator.lower_bound, separator.loss <= 1) == (0, True)
    far = [
        [2.0**30, -3, 4],
        [-(2.0**30), -4, -4],
        [-(2.0**31), -2, 1],
        [2.0**31, 1, -1],
        [-(2.0**32), -3, -3],
        [2.0**30, -2, -3],
    ]
    separator = jboost.pair.optimal_separator(far, [1, -1, 1, 1, -1, -1])
    assert (separator.lower_bound, separator.status) == (0, Status.PRECISION_LIMIT)
