"""The Pareto front of weight against margin, against all slabs in exact arithmetic."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.svm import LinearSVC

import batches
import jboost
from benchmarks.pair_sweep import DATA, make_data
from jboost.base.status import Status
from oracles.pair import random_degenerate_sets
from oracles.pareto import pareto_front

ROOM = 24


solve_batch = functools.partial(batches.solve_batch, jboost.pair.pareto_front, max_points=ROOM)


def assert_true(front, points, labels, weights, mask):
    """Losses to the bit, margins to rounding, and each line keeps what it says at the distance that
    it says; the status, to be judged.
    """
    points, labels, weights = points[mask], labels[mask], weights[mask]
    truth = pareto_front(points, labels, weights)
    case = f"points = {points.tolist()}, labels = {labels.tolist()}, weights = {weights.tolist()}"
    assert front.count == len(truth.losses), case
    assert front.losses[: front.count].tolist() == truth.losses, case
    np.testing.assert_allclose(
        front.margins[: front.count],
        np.sqrt(np.array(truth.squared_margins, float)),
        rtol=1e-5,
        err_msg=case,
    )
    assert np.all(np.isinf(front.losses[front.count :]))
    extent = np.max(np.abs(points), initial=0)
    for k in range(front.count):
        normal, anchor = front.normals[k].astype(np.float64), front.anchors[k].astype(np.float64)
        length = np.sqrt(np.sum(normal * normal)) or 1
        scores = (
            labels
            * (np.sum((points - anchor) * normal, axis=1) + np.float64(front.biases[k]))
            / length
        )
        margin, slack = front.margins[k], front.margins[k] * 1e-5 + extent * 2.0**-36
        least, most = (margin - slack, margin + slack) if np.isfinite(margin) else (0, 0.5)
        assert (
            weights[scores < max(least, 0)].sum() <= truth.losses[k] <= weights[scores < most].sum()
        ), case


def assert_all_true(batch):
    """Fronts of a batch; small grids have to be certified, larger ones may stay open where
    directions differ by a rounding.
    """
    points, labels, weights, mask = batch
    fronts = solve_batch(points.astype(np.float32), labels, weights.astype(np.float32), mask)
    for row in range(len(labels)):
        assert_true(
            jax.tree.map(lambda leaf, row=row: leaf[row], fronts),
            points[row],
            labels[row],
            weights[row],
            mask[row],
        )
    small = np.abs(points).max(axis=(1, 2)) <= 2**10
    assert np.all(fronts.status[small] == Status.OPTIMAL)
    assert np.all((fronts.status == Status.OPTIMAL) | (fronts.status == Status.PRECISION_LIMIT))
    assert np.mean(fronts.status == Status.OPTIMAL) > 0.97
    return fronts


@pytest.mark.slow
def test_degenerate_sets_and_their_invariances():
    """One call; 50 of the sets come again with labels swapped, turned by 90 degrees, and permuted
    with their padding.
    """
    sets = random_degenerate_sets(71, 1200, 8)
    points, labels, weights, mask = (array[:50] for array in sets)
    order = np.argsort(np.random.default_rng(5).random(labels.shape), axis=1)
    turned = np.stack([-points[..., 1], points[..., 0]], axis=-1)
    shuffled = [np.take_along_axis(array, order, axis=1) for array in (labels, weights, mask)]
    variants = [
        (points, -labels, weights, mask),
        (turned, labels, weights, mask),
        (np.take_along_axis(points, order[..., None], axis=1), *shuffled),
    ]
    fronts = assert_all_true(
        [np.concatenate(arrays) for arrays in zip(sets, *variants, strict=True)]
    )
    for start in (1200, 1250, 1300):
        np.testing.assert_array_equal(fronts.losses[start : start + 50], fronts.losses[:50])
        np.testing.assert_allclose(
            fronts.margins[start : start + 50], fronts.margins[:50], rtol=1e-6
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_tens_of_thousands_of_degenerate_sets(seed):
    assert_all_true(random_degenerate_sets(300 + seed, 8000, 8))


@pytest.mark.slow
def test_degenerate_sets_of_more_points():
    assert_all_true(random_degenerate_sets(72, 400, 14))


@pytest.mark.slow
def test_general_floats_are_the_grid_they_lie_on():
    rng = np.random.default_rng(73)
    integers = rng.integers(-(2**20), 2**20, (400, 8, 2))
    labels, weights, mask = (
        rng.choice([-1, 1], (400, 8)),
        rng.choice([1, 2, 3], (400, 8)),
        np.ones((400, 8), bool),
    )
    fronts = solve_batch(
        (integers * 2.0**-10).astype(np.float32), labels, weights.astype(np.float32), mask
    )
    for row in range(400):
        front = jax.tree.map(lambda leaf, row=row: leaf[row], fronts)
        scaled = front._replace(
            margins=front.margins * 2.0**10,
            anchors=front.anchors * 2.0**10,
            biases=front.biases * 2.0**10,
        )
        constant = ~np.any(front.normals, axis=1)
        scaled = scaled._replace(biases=np.where(constant, front.biases, scaled.biases))
        assert_true(scaled, integers[row], labels[row], weights[row], mask[row])


@pytest.mark.slow
def test_the_first_point_is_the_optimal_separator_and_the_last_a_constant():
    points, labels, weights, _ = (field[0] for field in random_degenerate_sets(74, 1, 8))
    arguments = points.astype(np.float32), labels
    front = jboost.pair.pareto_front(*arguments, weights=weights, max_points=ROOM)
    best = jboost.pair.optimal_separator(*arguments, weights=weights)
    last = int(front.count) - 1
    assert float(front.losses[0]) == float(best.loss)
    assert float(front.margins[0]) == pytest.approx(float(best.margin), rel=1e-6)
    assert float(front.losses[last]) == min(weights[labels > 0].sum(), weights[labels < 0].sum())
    assert np.isinf(front.margins[last])
    assert not np.any(front.normals[last])
    best = jboost.pair.best_trade_off(front, lambda weight, margin: weight)
    assert (int(best.index), float(best.energy)) == (0, float(front.losses[0]))
    best = jboost.pair.best_trade_off(front, lambda weight, margin: -margin)
    assert int(best.index) == last
    assert np.all(jboost.predict(best, points) == np.sign(best.bias))


@pytest.mark.slow
def test_cells_of_directions_find_the_front_of_degenerate_sets():
    """One by one, as the host drives them; the last ones keep none, one and two of their points."""
    sets = random_degenerate_sets(75, 40, 8)
    for row, count in enumerate((0, 1, 2, 2)):
        sets[3][-1 - row] &= np.cumsum(sets[3][-1 - row]) <= count
    for points, labels, weights, mask in zip(*sets, strict=True):
        front = solve_by_cells(
            points.astype(np.float32), labels, weights.astype(np.float32), mask, max_points=ROOM
        )
        assert front.status in (Status.OPTIMAL, Status.PRECISION_LIMIT)
        assert_true(front, points, labels, weights, mask)


def test_words_of_32_bits_beside_64_bit_types(x64):
    """It was a TypeError: a default integer has 64 bits there."""
    del x64
    points = jnp.array([[0.0, 0.0], [2.0, 0.0], [1.0, 3.0], [4.0, 1.0]], "float32")
    narrow, wide = (
        jboost.pair.pareto_front(
            points, [-1, 1, 1, -1], max_points=4, config=jboost.pair.SweepConfig(word_bits=bits)
        )
        for bits in (32, 64)
    )
    assert narrow.losses.tolist() == wide.losses.tolist()
    np.testing.assert_allclose(narrow.margins, wide.margins, rtol=1e-5)


def solve_by_cells(points, labels, weights=None, mask=None, *, max_points):
    return jax.device_get(
        jboost.pair.pareto_front(
            points,
            labels,
            weights=weights,
            mask=mask,
            max_points=max_points,
            method="branch_and_bound",
        )
    )


def assert_same_front(front, swept):
    """To the bit; the sweep, which looks at more slabs, may leave a question open that cells never
    ask.
    """
    assert front.count == swept.count
    np.testing.assert_array_equal(front.losses, swept.losses)
    np.testing.assert_array_equal(front.margins, swept.margins)
    np.testing.assert_array_equal(np.any(front.normals, axis=1), np.any(swept.normals, axis=1))
    assert front.status in (swept.status, Status.OPTIMAL)


@pytest.mark.slow
@pytest.mark.parametrize("seed, num, size", [(76, 250, 12), (77, 40, 60)])
def test_cells_of_directions_find_what_the_sweep_finds(seed, num, size):
    points, labels, weights, mask = random_degenerate_sets(seed, num, size)
    points, weights = points.astype(np.float32), weights.astype(np.float32)
    fronts = solve_batch(points, labels, weights, mask, max_points=3 * size)
    for row in range(num):
        front = solve_by_cells(
            points[row], labels[row], weights[row], mask[row], max_points=3 * size
        )
        assert_same_front(front, jax.tree.map(lambda leaf, row=row: leaf[row], fronts))


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_cells_of_directions_find_the_front_of_ordinary_data(name, monkeypatch):
    """Weights one and mixed, all points and some, and fronts cut short."""
    monkeypatch.setattr("jboost.pair.pareto.front._LARGEST_SWEEP", 500)
    rng = np.random.default_rng(78)
    points, labels = make_data(name, 600)
    mixed, some = rng.integers(1, 4, 600).astype(np.float32), rng.random(600) < 0.8
    for weights, mask in [(np.ones(600, np.float32), np.ones(600, bool)), (mixed, some)]:
        swept = jax.device_get(
            jboost.pair.pareto_front(
                points, labels, weights=weights, mask=mask, max_points=601, method="sweep"
            )
        )
        assert_same_front(solve_by_cells(points, labels, weights, mask, max_points=601), swept)
        short = solve_by_cells(points, labels, weights, mask, max_points=7)
        assert (int(short.status), int(short.count)) == (Status.CAPACITY_LIMIT, 7)
        np.testing.assert_array_equal(short.margins, swept.margins[:7])
        chosen = jax.device_get(
            jboost.pair.pareto_front(points, labels, weights=weights, mask=mask, max_points=601)
        )
        np.testing.assert_array_equal(
            chosen.anchors, solve_by_cells(points, labels, weights, mask, max_points=601).anchors
        )


@pytest.mark.slow
def test_cells_of_directions_leave_what_does_not_suit_them_to_the_sweep():
    points = np.array([[0, 0], [1, 0], [3, 0], [9, 0]], np.float32)
    uneven = {"weights": np.array([1, 1.0001, 1, 1], np.float32), "max_points": 4}
    swept = jax.device_get(
        jboost.pair.pareto_front(points, [-1, 1, -1, 1], method="sweep", **uneven)
    )
    assert_same_front(solve_by_cells(points, [-1, 1, -1, 1], **uneven), swept)
    bad = solve_by_cells(np.where(points == 9, np.nan, points), [-1, 1, -1, 1], max_points=4)
    assert (int(bad.status), int(bad.count)) == (Status.INVALID_INPUT, 0)
    for size in range(3):
        swept = jax.device_get(
            jboost.pair.pareto_front(points[:size], [-1, 1][:size], max_points=4, method="sweep")
        )
        assert_same_front(solve_by_cells(points[:size], [-1, 1][:size], max_points=4), swept)


def test_the_best_trade_off_is_the_least_of_the_front():
    nothing = np.zeros((4, 2), np.float32)
    losses, margins = (
        np.array([1, 2, 4, np.inf], np.float32),
        np.array([0.5, 1, np.inf, 0], np.float32),
    )
    front = jboost.pair.ParetoFront(
        losses, margins, nothing, nothing, np.zeros(4, np.float32), np.int32(3), np.int32(0)
    )
    best = jboost.pair.best_trade_off(front, lambda weight, margin: weight + 3 / margin)
    assert (int(best.index), float(best.energy), float(best.loss), np.isinf(best.margin)) == (
        2,
        4,
        4,
        True,
    )
    best = jboost.pair.best_trade_off(
        front, lambda weight, margin: jnp.where(jnp.isinf(margin), jnp.nan, weight - 4 * margin)
    )
    assert (int(best.index), float(best.energy)) == (1, -2)
    assert np.isnan(
        jboost.pair.best_trade_off(
            front._replace(count=np.int32(0)), lambda weight, margin: weight
        ).energy
    )
    with pytest.raises(
        ValueError,
        match=r"energy returned shape \[\]: expected one number for each of the 4 points",
    ):
        jboost.pair.best_trade_off(front, lambda weight, margin: 3.0)


@pytest.mark.slow
def test_bad_values_and_short_room_end_in_a_status():
    points, labels = (
        np.array([[0, 0], [1, 0], [3, 0], [9, 0], [10, 0]], np.float32),
        np.array([-1, 1, -1, 1, 1]),
    )
    short = jboost.pair.pareto_front(points, labels, max_points=1)
    assert (int(short.status), int(short.count), short.losses.tolist(), short.margins.tolist()) == (
        Status.CAPACITY_LIMIT,
        1,
        [1],
        [3],
    )
    bad = jax.jit(functools.partial(jboost.pair.pareto_front, max_points=1))(points, labels * 2)
    assert (int(bad.status), int(bad.count)) == (Status.INVALID_INPUT, 0)
    assert np.all(np.isnan(bad.losses))


@pytest.mark.slow
def test_what_weights_or_units_too_far_apart_hide_is_not_called_optimal(x64):
    points, labels = np.array([[0, 1], [1, 1], [3, 1], [9, 1]]), [-1, 1, -1, 1]
    for factors, weights, status in (
        ((1, 1), [1, 1, 1, 1], Status.OPTIMAL),
        ((1, 1), [1e20, 1, 1, 1], Status.PRECISION_LIMIT),
        ((1, 2.0**-300), [1, 1, 1, 1], Status.PRECISION_LIMIT),
    ):
        for method in ("sweep", "branch_and_bound"):
            scaled, as_floats = points * np.array(factors), np.array(weights, float)
            front = jboost.pair.pareto_front(
                scaled, labels, weights=as_floats, max_points=4, method=method
            )
            assert front.status == status


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"points": np.zeros((3, 4))}, r"points has shape \[3, 4\]"),
        ({"labels": np.ones(4)}, r"labels has shape \[4\]"),
        ({"max_points": 0}, "max_points is 0"),
        ({"config": 3}, "config is a int"),
        ({"method": "sweeps"}, "method is 'sweeps'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        jboost.pair.pareto_front(
            **({"points": np.zeros((3, 2)), "labels": np.ones(3), "max_points": 4} | arguments)
        )


def test_cells_of_directions_are_not_traced():
    with pytest.raises(ValueError, match="pass 'sweep' under jit and vmap"):
        jax.jit(
            lambda points: jboost.pair.pareto_front(
                points, np.ones(3), max_points=4, method="branch_and_bound"
            )
        )(np.zeros((3, 2)))


class SlackProgram:
    """The program of least mean slack, written down for HiGHS: variables v, v0 and one slack for
    each point.
    """

    def __init__(self, points, labels, weights):
        size = len(labels)
        shares = sum(
            np.where(labels == sign, weights, 0) / weights[labels == sign].sum() for sign in (-1, 1)
        )
        self.objective = np.concatenate([np.zeros(3), shares])
        self.matrix = np.concatenate(
            [labels[:, None] * points, labels[:, None], np.eye(size)], axis=1
        )
        self.row_lower, self.row_upper = np.ones(size), np.full(size, np.inf)
        self.lower, self.upper = (
            np.concatenate([np.full(3, -np.inf), np.zeros(size)]),
            np.full(size + 3, np.inf),
        )


@pytest.mark.slow
def test_least_distance_is_that_of_the_linear_program(x64):
    from oracles import highs

    rng = np.random.default_rng(81)
    points = rng.normal(size=(40, 12, 2))
    labels = np.where(rng.random((40, 12)) < 0.5, 1, -1)
    labels[:, :2] = [1, -1]
    points += 0.7 * labels[..., None]
    weights, mask = rng.integers(1, 4, (40, 12)).astype(np.float64), np.ones((40, 12), bool)
    mask[::2, 8:] = False
    # separable by a line steeper than the program has
    points[-1], labels[-1] = np.tile([[-1, 0], [-1e-4, 0], [1e-4, 0], [1, 0]], (3, 1)), 1
    labels[-1, [0, 1, 4, 5, 8, 9]] = -1
    solve = jax.jit(
        jax.vmap(lambda p, y, w, m: jboost.pair.least_distance_separator(p, y, weights=w, mask=m))
    )
    results = jax.device_get(solve(points, labels, weights, mask))
    assert (results.status[-1], results.lower_bound[-1]) == (Status.PRECISION_LIMIT, 0)
    assert results.objective[-1] > 0.5
    for row in range(39):
        kept = mask[row]
        wanted = highs.solve(
            SlackProgram(
                points[row][kept].astype(float), labels[row][kept], weights[row][kept].astype(float)
            )
        ).objective
        result = jax.tree.map(lambda leaf, row=row: leaf[row], results)
        assert result.status == Status.OPTIMAL
        assert float(result.objective) == pytest.approx(wanted, rel=1e-6, abs=1e-6)
        assert float(result.lower_bound) <= wanted + 1e-9
        scores = (points[row] - result.anchor) @ result.normal + result.bias
        assert result.loss == weights[row][kept & (labels[row] * scores <= 0)].sum()


@pytest.mark.slow
def test_least_distance_of_odd_sets():
    points = np.array([[0, 0], [0, 0], [1, 0]], np.float32)
    one_class = jboost.pair.least_distance_separator(points, [-1, -1, -1])
    assert (
        int(one_class.status),
        float(one_class.loss),
        float(one_class.bias),
        one_class.normal.tolist(),
    ) == (Status.OPTIMAL, 0, -1, [0, 0])
    together = jboost.pair.least_distance_separator(
        points, [1, -1, 1], mask=np.array([True, True, False])
    )
    assert float(together.objective) == pytest.approx(2, abs=1e-4)
    assert (
        jax.jit(jboost.pair.least_distance_separator)(points, np.array([1, -1, 0])).status
        == Status.INVALID_INPUT
    )
    with pytest.raises(ValueError, match="points has no rows"):
        jboost.pair.least_distance_separator(np.zeros((0, 2)), np.zeros(0))


@pytest.mark.slow
def test_least_squared_distance_is_that_of_the_quadratic_program(x64):
    """Scikit-learn's solver of the same program, in coordinates of the same extent; and the bounds,
    one class, masks and bad values.
    """
    rng = np.random.default_rng(3)
    points = rng.normal(size=(6, 30, 2)) * np.array([3.0, 0.5])
    labels = np.where(points[..., 0] + rng.normal(size=(6, 30)) > 0.5, 1, -1)
    weights, mask = rng.uniform(0.5, 2, (6, 30)), rng.random((6, 30)) < 0.9
    labels[5] = 1
    labels[4, 0], mask[4, 0] = 0, True
    found = jax.jit(
        jax.vmap(
            lambda p, y, w, m: jboost.pair.least_squared_distance_separator(
                p, y, weights=w, mask=m, ridge=1e-2
            )
        )
    )(points, labels, weights, mask)
    assert found.status.tolist() == [0, 0, 0, 0, int(Status.INVALID_INPUT), 0]
    best = 1 / (1 + 1e-2 / 2)  # of (1 - b)^2 + ridge / 2 b^2
    assert (found.bias[5], found.loss[5], found.objective[5]) == pytest.approx(
        (best, 0, 1e-2 / 2 * best)
    )
    for row in range(4):
        x, y, w = points[row][mask[row]], labels[row][mask[row]], weights[row][mask[row]]
        centre, extent = (
            (x.min(axis=0) + x.max(axis=0)) / 2,
            (x.max(axis=0) - x.min(axis=0)).max() / 2,
        )
        shares = np.where(y > 0, w / w[y > 0].sum(), w / w[y < 0].sum())
        machine = LinearSVC(
            loss="squared_hinge", dual=False, C=1 / 1e-2, tol=1e-12, max_iter=100_000
        )
        machine.fit((x - centre) / extent, y, sample_weight=shares)
        line = np.append(machine.coef_[0], machine.intercept_)
        scores = (x - centre) / extent @ line[:2] + line[2]
        objective = 1e-2 / 2 * (line**2).sum() + (shares * np.maximum(1 - y * scores, 0) ** 2).sum()
        assert found.objective[row] == pytest.approx(objective, rel=1e-6)
        assert found.lower_bound[row] <= objective * (1 + 1e-9)
        separator = jax.tree.map(lambda leaf, row=row: leaf[row], found)
        wrong = np.sign(np.asarray(jboost.predict_scores(separator, x))) != y
        assert found.loss[row] == pytest.approx(w[wrong].sum())
    with pytest.raises(ValueError, match="ridge"):
        jboost.pair.least_squared_distance_separator(np.zeros((2, 2)), np.ones(2), ridge=0.0)
    with pytest.raises(ValueError, match="points has no rows"):
        jboost.pair.least_squared_distance_separator(np.zeros((0, 2)), np.zeros(0))


def test_least_squared_distance_in_float32():
    points, labels = (
        np.array([[0, 0], [1, 0], [0, 1], [5, 5], [6, 5], [0.5, 0.5]], np.float32),
        np.array([-1, -1, -1, 1, 1, 1]),
    )
    found = jboost.pair.least_squared_distance_separator(points, labels)
    assert int(found.status) == Status.OPTIMAL
    assert found.lower_bound <= found.objective <= found.lower_bound * 1.001
    assert float(found.loss) == 1


@pytest.mark.slow
def test_a_line_that_no_float_holds_is_not_called_optimal():
    """The window of slopes of the first point of the front lies between two
    neighbouring float32.
    """
    side = 2**25
    points, labels = (
        np.array([(0, 0), (-side, 1 - side), (side - 1, side - 2)], np.int32),
        [1, -1, -1],
    )
    for method in ("sweep", "branch_and_bound"):
        front = jboost.pair.pareto_front(points, labels, max_points=4, method=method)
        assert front.status == Status.PRECISION_LIMIT
        assert front.losses[:2].tolist() == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "solve", [jboost.pair.least_distance_separator, jboost.pair.least_squared_distance_separator]
)
def test_distance_programs_of_any_size(solve):
    points, labels = np.array([[0, 0], [1, 0], [5, 0], [6, 0]], np.float32), [-1, -1, 1, 1]
    usual = solve(points, labels)
    heavy = solve(points, labels, weights=np.full(4, 2e38, np.float32))
    np.testing.assert_allclose(heavy.normal, usual.normal, rtol=1e-5, atol=1e-6)
    assert heavy.loss == usual.loss == 0
    wide = solve(np.array([[-2e38, 0], [2e38, 0]], np.float32), [-1, 1])
    assert wide.status != Status.OPTIMAL or wide.loss == 0
    assert wide.lower_bound < 0.1
    merged = solve(np.array([[16777216, 0], [16777217, 0]], np.int32), [-1, 1])
    assert (merged.status, merged.lower_bound) == (Status.PRECISION_LIMIT, 0)


@pytest.mark.slow
def test_the_best_constant_for_one_class():
    found = jboost.pair.least_squared_distance_separator(
        [[0.0, 0.0], [1.0, 0.0]], [-1, -1], ridge=1.0
    )
    # of (1 - b)^2 + b^2 / 2
    assert (float(found.objective), float(found.bias)) == pytest.approx((1 / 3, -2 / 3), abs=1e-6)
    assert int(found.status) == Status.OPTIMAL
    assert 0.333 < float(found.lower_bound) <= 1 / 3
    nobody = jboost.pair.least_squared_distance_separator(
        [[0.0, 0.0], [1.0, 0.0]], [-1, -1], ridge=1.0, mask=[False, False]
    )
    assert float(nobody.lower_bound) == float(nobody.objective) == 0
