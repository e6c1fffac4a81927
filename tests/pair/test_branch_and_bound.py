"""Branch and bound over lines against the sweep and against enumeration in exact arithmetic."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import batches
import jboost
from jboost.base.status import Status
from jboost.pair import BranchAndBoundConfig, SweepConfig
from jboost.pair.branch_and_bound import scans, search
from jboost.pair.branch_and_bound.solve import pad, read
from jboost.pair.sweep.instance import encode
from jboost.pair.sweep.line import Line, certify
from marks import slow_but
from oracles.pair import check_separator, optimal_pair, random_degenerate_sets

# relative; the margin is rounded at the end
MARGIN_TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-11}
DEEP = BranchAndBoundConfig(leaf_size=8)  # small sets too are divided several times


def solve(points, labels, **options):
    return jax.device_get(
        jboost.pair.optimal_separator(
            points, labels, method="branch_and_bound", **({"config": DEEP} | options)
        )
    )


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks as small as the sets: those of the usual sizes are nearly all padding, and take most
    of the time.
    """
    for name, size in (("_SMALLEST_CHUNK", 1024), ("_LEAF_SITES", 1024), ("_LEAF_TRIPLES", 4096)):
        monkeypatch.setattr(search, name, size)


sweep_batch = functools.partial(batches.solve_batch, jboost.pair.optimal_separator, method="sweep")


def assert_same(found, swept, case, *, margin=True):
    assert (found.loss, found.lower_bound, found.status) == (
        swept.loss,
        swept.lower_bound,
        swept.status,
    ), case
    if margin:
        assert found.margin == pytest.approx(
            swept.margin, rel=MARGIN_TOLERANCE[found.margin.dtype]
        ), case


def assert_equals_sweep(batch, *, margin=True, dtype=np.float32, config=DEEP, **options):
    points, labels, weights, mask = batch
    points = points.astype(dtype)
    swept = sweep_batch(points, labels, weights, mask, **options)
    for row in range(len(labels)):
        found = solve(
            points[row], labels[row], weights=weights[row], mask=mask[row], config=config, **options
        )
        case = (
            f"points = {points[row][mask[row]].tolist()}, labels ="
            f" {labels[row][mask[row]].tolist()}, weights = {weights[row][mask[row]].tolist()}"
        )
        assert_same(
            found, jax.tree.map(lambda leaf, row=row: leaf[row], swept), case, margin=margin
        )


def two_gaussians(size, seed=0, shift=0.7):
    rng = np.random.default_rng([seed, size])
    labels = rng.choice([-1, 1], size).astype(np.int32)
    return (rng.normal(size=(size, 2)) + labels[:, None] * np.array([shift, 0.3])).astype(
        np.float32
    ), labels


def assert_optimal(found, points, labels, weights, mask):
    """One result against the oracle: loss, bound, recomputed loss, misclassified set, margin."""
    kept = points[mask], labels[mask], weights[mask]
    optimum = optimal_pair(*kept)
    case = f"points = {kept[0].tolist()}, labels = {kept[1].tolist()}, weights = {kept[2].tolist()}"
    assert (int(found.status), float(found.loss), float(found.lower_bound)) == (
        Status.OPTIMAL,
        optimum.loss,
        optimum.loss,
    ), case
    assert found.margin == pytest.approx(
        float(optimum.margin_squared) ** 0.5, rel=MARGIN_TOLERANCE[found.margin.dtype]
    ), case
    loss, misclassified = check_separator(*kept, found.normal, found.anchor, found.bias)
    assert loss == optimum.loss, case
    assert np.array_equal(misclassified, found.misclassified[mask]), case
    assert frozenset(np.flatnonzero(misclassified).tolist()) in optimum.best_sets, case


@pytest.mark.slow
@pytest.mark.parametrize("num_sets, size", [(40, 8), (100, 8), (60, 24)])
@pytest.mark.usefixtures("small_chunks")
def test_degenerate_sets(num_sets, size):
    for points, labels, weights, mask in zip(
        *random_degenerate_sets(61, num_sets, size), strict=True
    ):
        found = solve(
            points.astype(np.float32),
            labels.astype(np.int32),
            weights=weights.astype(np.float32),
            mask=mask,
        )
        assert_optimal(found, points, labels, weights, mask)


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
def test_more_degenerate_sets():
    assert_equals_sweep(random_degenerate_sets(62, 2000, 40))


@pytest.mark.parametrize(
    "options",
    [{"fat": "flipped"}, {"tie_break": None, "margin": False}],
    ids=["flipped", "without tie break"],
)
@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
def test_degenerate_sets_with_options(options):
    assert_equals_sweep(random_degenerate_sets(63, 300, 24), **options)


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
def test_degenerate_sets_in_float64(x64):
    assert_equals_sweep(random_degenerate_sets(64, 200, 24), dtype=np.float64)


@pytest.mark.slow
@pytest.mark.parametrize(
    "points, labels, loss, margin",
    [
        (np.zeros((0, 2)), [], 0, np.inf),
        ([(3, 4)], [-1], 0, np.inf),
        ([(0, 0), (3, 4)], [1, -1], 0, 2.5),
        ([(1, 1), (1, 1)], [1, -1], 1, np.inf),
        ([(0, 0), (1, 0), (2, 0)], [1, 1, 1], 0, np.inf),
        ([(0, 0), (1, 0), (2, 0), (3, 0)], [1, -1, -1, 1], 1, 0.5),
        (
            [(0, 0), (2, 1), (1, 2), (-1, 1), (-2, -1), (-1, -2), (1, -1)],
            [1, -1, -1, -1, -1, -1, -1],
            1,
            np.inf,
        ),
    ],
)
def test_small_sets(points, labels, loss, margin):
    found = solve(np.asarray(points, np.float32).reshape(-1, 2), np.asarray(labels, np.int32))
    assert (
        float(found.loss),
        float(found.lower_bound),
        float(found.margin),
        int(found.status),
    ) == (loss, loss, margin, Status.OPTIMAL)
    assert found.misclassified.shape == (len(labels),)


@pytest.mark.slow
@pytest.mark.parametrize("heavy", [False, True])
def test_a_thousand_points_with_general_weights(heavy):
    points, labels = two_gaussians(1000)
    weights = np.random.default_rng(1).uniform(0.1, 3, 1000).astype(np.float32) * (
        2.0**20 if heavy else 1
    )
    swept = jax.device_get(
        jboost.pair.optimal_separator(points, labels, weights=weights, method="sweep")
    )
    found = solve(points, labels, weights=weights, config=None)
    assert_same(found, swept, "general weights")
    assert np.array_equal(found.misclassified, swept.misclassified)


@pytest.mark.parametrize("size", slow_but([1, 2, 31, 32, 64, 65, 1000], 1, 2, 32))
def test_running_sums_and_extrema(size):
    rng = np.random.default_rng(size)
    for values in (rng.integers(-9, 9, size), rng.normal(size=size).astype(np.float32)):
        running = [
            np.asarray(scan(jnp.asarray(values))) for scan in (scans.running_max, scans.running_min)
        ]
        np.testing.assert_array_equal(
            running, [np.maximum.accumulate(values), np.minimum.accumulate(values)]
        )
        np.testing.assert_allclose(
            scans.running_sum(jnp.asarray(values)), np.cumsum(values), rtol=1e-4, atol=1e-4
        )


def test_stops_with_a_valid_bound_and_goes_on():
    points, labels = two_gaussians(60, seed=1, shift=0.1)
    optimum = optimal_pair(points, labels)
    seen = []

    def twice(state, info):
        seen.append((state, info))
        return len(seen) < 2

    stopped = solve(points, labels, on_step=twice)
    state, info = seen[-1]
    assert stopped.status == Status.TIME_LIMIT
    assert stopped.lower_bound <= optimum.loss <= stopped.loss
    assert (info.step, info.lower_bound, info.upper_bound) == (
        2,
        float(stopped.lower_bound),
        float(stopped.loss),
    )
    assert np.sum(stopped.misclassified) == stopped.loss
    full = solve(
        points, labels, initial=seen[0][0], config=BranchAndBoundConfig(leaf_size=8, max_entries=1)
    )
    assert full.status == Status.CAPACITY_LIMIT
    assert full.lower_bound <= optimum.loss <= full.loss
    resumed = solve(points, labels, initial=state)
    assert_optimal(resumed, points, labels, np.ones(60, int), np.ones(60, bool))
    with pytest.raises(
        ValueError, match="initial is a str: expected a jboost.pair.BranchAndBoundState"
    ):
        solve(points, labels, initial="state")
    with pytest.raises(
        ValueError, match="initial is the state of a search of other points, labels"
    ):
        solve(points[:50], labels[:50], initial=state)


@pytest.mark.slow
def test_a_state_belongs_to_its_data_and_its_ties():
    """Moving the positive makes the classes separable, and neither the number of places nor the
    weight says so.
    """
    others, labels, states = (
        [[2, 1], [1, 2], [-1, 1], [-2, -1], [-1, -2], [1, -1]],
        [1] + [-1] * 6,
        [],
    )
    solve(
        [[0, 0], *others], labels, tie_break=None, on_step=lambda state, info: states.append(state)
    )
    assert solve([[0, 0], *others], labels, tie_break=None, initial=states[-1]).loss == 1
    with pytest.raises(
        ValueError, match="initial is the state of a search of other points, labels"
    ):
        solve([[10, 0], *others], labels, tie_break=None, initial=states[-1])
    with pytest.raises(ValueError, match="initial is of a search with tie_break=None"):
        solve([[0, 0], *others], labels, initial=states[-1])


@pytest.mark.slow
def test_whole_weights_share_a_word():
    points, labels = two_gaussians(60)
    for weights, channels in (
        (np.ones(60), 1),
        (np.full(60, 12.0), 1),
        (np.r_[np.ones(59), 2.0**31], 2),
    ):
        with jax.enable_x64(True):
            sites, unit, heaviest, _ = read(
                *pad(*map(jnp.asarray, (points, labels, weights, np.ones(60, bool))))
            )
            assert search.prepare(sites, all_optima=True).tree.weights.shape[0] == channels
            assert (heaviest * unit, jnp.sum(sites.own + sites.other) * unit) == (
                weights.max(),
                weights.sum(),
            )


@pytest.mark.slow
def test_auto_is_the_sweep_where_it_is_traced():
    points, labels = two_gaussians(60)
    traced = functools.partial(jax.eval_shape, jboost.pair.optimal_separator)
    assert traced(points, labels).loss.shape == ()
    steps = []
    jboost.pair.optimal_separator(
        points, labels, config=DEEP, on_step=lambda state, info: steps.append(info)
    )
    assert steps
    for options, name in (
        ({"method": "branch_and_bound"}, "method is 'branch_and_bound'"),
        ({"config": DEEP}, "config is a"),
        ({"on_step": print}, "on_"),
    ):
        with pytest.raises(
            ValueError, match=f"{name}.*, which the host drives, and the arguments are traced"
        ):
            jax.eval_shape(
                functools.partial(jboost.pair.optimal_separator, **options), points, labels
            )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"method": "sweep", "on_step": print}, "on_step is given, and the method is 'sweep'"),
        ({"method": "sweep", "initial": ()}, "initial is given, and the method is 'sweep'"),
        (
            {"method": "sweep", "config": DEEP},
            "config is a BranchAndBoundConfig: expected a jboost.pair.SweepConfig",
        ),
        (
            {"method": "branch_and_bound", "config": SweepConfig()},
            "config is a SweepConfig: expected a jboost.pair.BranchAndBoundConfig",
        ),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        jboost.pair.optimal_separator(np.zeros((3, 2)), np.ones(3), **options)


def test_config_is_checked():
    with pytest.raises(ValueError, match="config.leaf_size is 0"):
        BranchAndBoundConfig(leaf_size=0)


def test_bad_values_end_in_a_status():
    points = np.zeros((3, 2), np.float32)
    points[1, 0] = np.nan
    found = solve(points, np.array([1, -1, 1]))
    assert found.status == Status.INVALID_INPUT
    assert np.isnan(found.loss)
    hidden = solve(points, np.array([1, -1, 1]), mask=np.array([True, False, True]))
    assert (int(hidden.status), float(hidden.loss)) == (Status.OPTIMAL, 0)


def test_what_the_cast_loses_is_not_called_optimal():
    found = solve(np.array([[1e-39, 0], [2e-39, 0]], np.float32), np.array([1, -1]))
    assert (int(found.status), float(found.lower_bound)) == (Status.PRECISION_LIMIT, 0)


def random_set(rng, size):
    """One of several kinds: overlapping, noisy or separable clouds, integer grids, repeated places,
    points on few lines, offsets.
    """
    labels = rng.choice([-1, 1], size)
    points = rng.normal(size=(size, 2))
    kind = rng.integers(7)
    if kind < 3:
        points += labels[:, None] * rng.choice([0.0, 0.3, 1.0, 3.0])
    elif kind == 3:
        points = np.round(points * rng.choice([2, 10, 100]))
    elif kind == 4:
        points = points[rng.integers(0, max(1, size // 3), size)]
    elif kind == 5:
        points = rng.integers(-3, 4, (size, 1)) * rng.integers(-2, 3, 2) + rng.integers(
            -1, 2, (size, 2)
        ) * rng.integers(-9, 10, (size, 1))
    else:
        points = points * 2.0 ** rng.integers(-12, 12, 2) + rng.choice([0, 1000.0], 2)
    weights = np.where(rng.random() < 0.5, 1, rng.integers(1, 9, size))
    return points.astype(np.float32), labels.astype(np.int32), weights.astype(np.float32)


def assert_random_set_equals_sweep(rng, capacity):
    """A set of up to so many points, padded to them."""
    size = int(rng.integers(0, capacity + 1))
    points, labels, weights = random_set(rng, size)
    padded_size = max(capacity, 64)
    rows = ((0, padded_size - size),)
    padded = (
        np.pad(points, (*rows, (0, 0))),
        np.pad(labels, rows, constant_values=1),
        np.pad(weights, rows, constant_values=1),
    )
    mask = np.arange(padded_size) < size
    swept = jboost.pair.optimal_separator(*padded[:2], weights=padded[2], mask=mask, method="sweep")
    found = solve(*padded[:2], weights=padded[2], mask=mask, config=None if capacity > 64 else DEEP)
    assert_same(found, jax.device_get(swept), f"size = {size}, points = {points[:50].tolist()}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.usefixtures("small_chunks")
def test_ten_thousand_random_sets(seed):
    """500 sets of up to 256 points for each seed, most of them small."""
    rng = np.random.default_rng([77, seed])
    for capacity in rng.choice([16, 64, 256], size=500, p=[0.75, 0.22, 0.03]).tolist():
        assert_random_set_equals_sweep(rng, capacity)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_larger_random_sets(seed):
    """50 sets of up to 3,000 points for each seed, in chunks of the usual sizes."""
    rng = np.random.default_rng([78, seed])
    for capacity in [1024] * 40 + [3000] * 10:
        assert_random_set_equals_sweep(rng, capacity)


@pytest.mark.slow
def test_many_points_on_one_line():
    rng = np.random.default_rng(5)
    points = np.stack([rng.permutation(600), np.zeros(600)], axis=1).astype(np.float32)
    labels = rng.choice([-1, 1], 600)
    assert_same(
        solve(points, labels, config=None),
        jax.device_get(jboost.pair.optimal_separator(points, labels, method="sweep")),
        "one line",
    )


@pytest.mark.slow
@pytest.mark.parametrize("size", [100_000])
def test_a_hundred_thousand_points(size):
    points, labels = two_gaussians(size)
    found = solve(points, labels, config=None)
    assert (int(found.status), float(found.loss)) == (Status.OPTIMAL, float(found.lower_bound))
    assert jnp.sum(found.misclassified) == found.loss


@pytest.mark.parametrize(
    "known, status, expected",
    [
        (2, Status.TIME_LIMIT, Status.TIME_LIMIT),  # the line of an interrupted search is better
        (1, Status.TIME_LIMIT, Status.TIME_LIMIT),
        (0, Status.TIME_LIMIT, Status.PRECISION_LIMIT),  # the line does not keep the loss
        (1, Status.OPTIMAL, Status.OPTIMAL),
        (2, Status.OPTIMAL, Status.PRECISION_LIMIT),
    ],
)
def test_the_status_tells_whether_the_line_keeps_the_loss_of_the_search(known, status, expected):
    points = jnp.array([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0], [-2.0, 1.0]])
    labels, ones = jnp.array([1, -1, -1, -1]), jnp.ones(4)
    _, encoding = encode(points, labels, ones, jnp.ones(4, bool), jnp.dtype(jnp.float32))
    line = Line(jnp.array([1.0, 0.0]), jnp.zeros(2), jnp.zeros(()), jnp.ones(()))
    unit = encoding.integers[0]  # of a point
    result = certify(
        encoding,
        line,
        loss=known * unit,
        bound=0 * unit,
        status=jnp.int32(status),
        result_dtype=jnp.dtype(jnp.float32),
    )
    assert (float(result.loss), int(result.status)) == (1.0, expected)
