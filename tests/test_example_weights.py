"""Example weights against HiGHS, brute force of the bounds, the sampling scheme of the paper, and
bad input.
"""

import re
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost import example_weights, kernels
from jboost.base.status import Status
from jboost.example_weights import bounds, certify, game, solve, working_set
from marks import slow
from tests.oracles import example_weights as oracle
from tests.oracles import kernels as planes

DATA = Path(__file__).parents[2] / "shared/data/papers"
SIZE, RADIUS = 32, 5.0


@jax.jit
@jax.vmap
def fit_all(points, labels, mask, penalty, centre):
    return example_weights.fit(
        points, labels, mask=mask, penalty=penalty, radius=RADIUS, centre=centre
    )


def fit_batch(points, labels, masks, penalties):
    """Models of [8, SIZE] examples, centred at the mean of those that count, as `fit` does: one
    compilation in each precision.
    """
    dtype = points.dtype
    centres = np.stack(
        [
            part[mask].mean(axis=0) if mask.any() else np.zeros(2)
            for part, mask in zip(points, masks, strict=True)
        ]
    )
    return fit_all(points, labels, masks, penalties.astype(dtype), centres.astype(dtype))


def member_of(models, member):
    return jax.tree.map(lambda leaf: leaf[member], models)


def problem(seed, size, *, noise=0.1, rows=SIZE):
    """Two noisy half moons, [rows] of which `size` count."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(0, np.pi, rows)
    labels = np.where(rng.uniform(size=rows) < 0.5, 1, -1)
    labels[:2] = 1, -1
    points = (
        np.stack([np.cos(angles) * labels, np.sin(angles) * labels + 0.2 * labels], axis=1)
        + rng.normal(size=(rows, 2)) * 0.2
    )
    labels = np.where(rng.uniform(size=rows) < noise, -labels, labels)
    labels[:2] = 1, -1
    return points, labels, np.arange(rows) < size


def batch():
    """Members of unequal size and penalty: soft, hard, hardly feasible, two examples, duplicates,
    one class.
    """
    sizes, penalties = [32, 32, 20, 20, 2, 32, 9, 32], [0.1, 1.0, 0.07, 0.051, 1.0, 3.0, 0.5, 0.04]
    points, labels, masks = (
        np.stack(part)
        for part in zip(*(problem(seed, size) for seed, size in enumerate(sizes)), strict=True)
    )
    points[6, 3], labels[6, 3] = points[6, 2], labels[6, 2]
    labels[7] = 1
    return points, labels, masks, np.array(penalties)


@pytest.mark.slow
def test_fit_equals_highs_and_its_bounds_can_be_recomputed(x64):
    points, labels, masks, penalties = batch()
    models = fit_batch(points, labels, masks, penalties)
    assert (np.asarray(models.status) == Status.OPTIMAL).all()
    for member in range(len(points)):
        model = member_of(models, member)
        live = masks[member]
        centred = points[member][live] - points[member][live].mean(axis=0)
        exact = np.array([[planes.by_directions(a, b, RADIUS) for b in centred] for a in centred])
        found = oracle.solve(exact, labels[member][live], penalties[member])
        lower, upper = float(model.lower_bound), float(model.upper_bound)
        assert lower <= upper
        assert lower <= found.objective * (1 + 1e-9)
        assert upper >= found.objective * (1 - 1e-9)
        assert upper - lower <= 1e-7 * upper
        weights, rows = np.asarray(model.example_weights), np.asarray(model.row_weights)
        assert (weights >= 0).all()
        assert abs(weights.sum() - 1) < 1e-12
        assert not weights[~live].any()
        assert (
            int(model.num_support)
            == (weights > 0).sum()
            <= max((found.example_weights > 1e-9).sum(), 2)
        )
        np.testing.assert_allclose(
            oracle.bounds(
                exact, labels[member][live], penalties[member], weights[live], rows[live]
            ),
            [lower, upper],
            rtol=1e-9,
        )
    np.testing.assert_allclose(example_weights.recompute_bounds(model), [lower, upper], rtol=1e-12)


@pytest.mark.slow
def test_many_columns_are_tried_few_at_a_time(x64):
    """Small and large supports, hard margins, which all columns have to solve, few that count, and
    a clash of labels at one place.
    """
    rows, sizes, penalties = (
        160,
        [160, 160, 160, 160, 120, 20, 160, 140],
        [0.02, 0.1, 1.0, 0.0075, 0.05, 0.2, 1.0, 1.0],
    )
    assert working_set.num_at_hand(rows) < rows
    parts = [
        problem(seed, size, rows=rows, noise=0.0 if seed == 2 else 0.1)
        for seed, size in enumerate(sizes)
    ]
    points, labels, masks = (np.stack(part) for part in zip(*parts, strict=True))
    points[6, 1] = points[6, 0]
    models = fit_batch(points, labels, masks, np.array(penalties))
    assert int(models.status[6]) == Status.NO_EDGE
    for member in (0, 1, 2, 3, 4, 5, 7):
        model, live = member_of(models, member), masks[member]
        centred = points[member][live] - points[member][live].mean(axis=0)
        found = oracle.solve(
            np.asarray(kernels.disagreement(centred, centred, RADIUS)),
            labels[member][live],
            penalties[member],
        )
        assert int(model.status) == Status.OPTIMAL, member
        np.testing.assert_allclose(
            [model.lower_bound, model.upper_bound], found.objective, rtol=2e-7
        )
        assert int(model.num_support) <= max((found.example_weights > 1e-9).sum() + 2, 2)
        assert not np.asarray(model.example_weights)[~live].any()


@pytest.mark.slow
def test_float32_bounds_hold():
    points, labels, masks, penalties = batch()
    models = fit_batch(points.astype(np.float32), labels, masks, penalties.astype(np.float32))
    assert models.lower_bound.dtype == np.float32
    for member in range(len(points)):
        live = masks[member]
        centred = points[member][live] - points[member][live].mean(axis=0)
        exact = np.array([[planes.by_directions(a, b, RADIUS) for b in centred] for a in centred])
        optimum = oracle.solve(exact, labels[member][live], penalties[member]).objective
        lower, upper = float(models.lower_bound[member]), float(models.upper_bound[member])
        rounding = 1e-6 * exact.max()  # of the disagreements, which are what is certified
        assert lower <= optimum + rounding
        assert upper >= optimum - rounding
        widest = 0.2 if penalties[member] < 1 else 0.5  # of hard margins float32 carries little
        assert upper - lower <= widest * upper + rounding


def small_caps():
    """Members whose cap is 1 / m or little more, most of them with few examples of one class."""
    sizes, positives = [5, 32, 32, 32, 30, 3, 32, 20], [1, 3, 3, 3, 15, 0, 1, 2]
    factors = [1.25, 1.0, 1.000001, 1.1, 1.0, 1.01, 2.5, 1.5]
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(8, SIZE, 2)), np.full((8, SIZE), -1)
    masks = np.arange(SIZE)[None] < np.array(sizes)[:, None]
    for member, count in enumerate(positives):
        labels[member, :count] = 1
        points[member, :count] += 1.0
    points[0, :5] = np.arange(5)[:, None] * [1.0, 0.0]
    return points, labels, masks, np.array(factors) / np.array(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_caps_near_one_over_m_are_solved(dtype):
    with jax.enable_x64(dtype == np.float64):
        points, labels, masks, penalties = small_caps()
        points, penalties = points.astype(dtype), penalties.astype(dtype)
        models = fit_batch(points, labels, masks, penalties)
        assert (np.asarray(models.status) == Status.OPTIMAL).all()
        for member, live in enumerate(masks):
            model = member_of(models, member)
            matrix = np.asarray(
                kernels.disagreement(model.points[live], model.points[live], RADIUS), np.float64
            )
            penalty = max(float(penalties[member]), 1 / live.sum())
            optimum = oracle.solve(matrix, labels[member][live], penalty).objective
            lower, upper, rounding = (
                float(model.lower_bound),
                float(model.upper_bound),
                1e-9 if dtype == np.float64 else 1e-6,
            )
            assert lower - rounding <= optimum <= upper + rounding
            assert upper - lower <= (1e-7 if dtype == np.float64 else 1e-2) * upper
            assert np.asarray(model.example_weights, np.float64).sum() == pytest.approx(1, abs=1e-6)
            assert certify.is_allowed(model.row_weights, model.labels, model.penalty)


@jax.jit
@jax.vmap
def made_feasible(weights, labels, cap):
    program = game.make(jnp.zeros((labels.shape[0],) * 2, labels.dtype), labels, labels, cap)
    found = game.allowed(program, weights)
    return found, certify.is_allowed(found, labels, cap)


@pytest.mark.parametrize("dtype", [slow(np.float32), np.float64])
def test_row_weights_are_made_feasible_in_exact_arithmetic(dtype):
    """Whatever they were; and what is above the cap by a unit of rounding is not taken for
    feasible.
    """
    rng = np.random.default_rng(0)
    shapes = [
        (1, 1.0),
        (2, 1.0),
        (3, 1.0),
        (3, 1.0001),
        (7, 1.5),
        (30, 1 + 1e-6),
        (30, 3.0),
        (30, 60.0),
    ]
    sizes, factors = (np.repeat(part, 3) for part in zip(*shapes, strict=True))
    place = np.arange(30)[None]
    labels = np.where(
        place < sizes[:, None], np.where(place < 1 + sizes[:, None] // 5, 1, -1), 0
    ).astype(dtype)
    weights = np.stack(
        [np.exp(3 * rng.normal(size=30)), np.eye(30)[0], np.ones(30)] * len(shapes)
    ) * (labels != 0)
    caps = (factors / sizes).astype(dtype)
    with jax.enable_x64(dtype == np.float64):
        found, is_allowed = made_feasible(weights.astype(dtype), labels, caps)
        assert np.asarray(is_allowed).all()
        for part, cap, size in zip(np.asarray(found), caps, sizes, strict=True):
            exact = [Fraction(float(weight)) for weight in part]
            assert max(exact) <= max(Fraction(float(cap)), Fraction(1, int(size))) * sum(exact)
            assert abs(float(sum(exact)) - 1) <= 1e-6
        halves, three = jnp.array([0.5, 0.5, 0], dtype), jnp.ones(3, dtype)
        assert certify.is_allowed(halves, three, jnp.asarray(0.5001, dtype))
        assert not certify.is_allowed(
            halves, three, jnp.asarray(np.nextafter(dtype(0.5), dtype(0)))
        )
        assert not certify.is_allowed(three, three, jnp.asarray(0.333, dtype))


@pytest.mark.slow
def test_infinite_bounds_are_no_optimum_and_spoiled_iterates_no_start():
    status = solve._status_of(*map(jnp.asarray, (-jnp.inf, 0.27, 1e-2, 1e-6, 0.0, False)))
    assert int(status) == Status.PRECISION_LIMIT
    labels = jnp.array([1.0, -1.0, -1.0])
    program = game.make(1 - jnp.eye(3), labels, labels, jnp.asarray(0.5))
    spoiled = game.start(program)._replace(value=jnp.asarray(jnp.nan))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(game.restart(program, spoiled)))


@pytest.mark.slow
def test_scores_are_those_of_the_definition_and_of_the_sampling_scheme(x64):
    everything = batch()
    points, labels = everything[0][0], everything[1][0]
    model = member_of(fit_batch(*everything), 0)
    queries = np.random.default_rng(0).normal(size=(5, 2))
    centre = points.mean(axis=0)
    table = [
        [planes.by_directions(q - centre, x - centre, RADIUS) for x in points] for q in queries
    ]
    weights = np.asarray(model.example_weights)
    by_definition = (0.5 - np.array(table)) @ (weights * labels)
    found = np.asarray(jboost.predict_scores(model, queries))
    np.testing.assert_allclose(found, by_definition, atol=1e-12)
    np.testing.assert_allclose(
        jax.jit(jboost.predict_scores)(model, queries), by_definition, atol=1e-12
    )
    compact = example_weights.compact(model)
    assert compact.points.shape[0] == int(model.num_support) < SIZE
    np.testing.assert_allclose(jboost.predict_scores(compact, queries), by_definition, atol=1e-12)
    drawn, errors = planes.sampling_scheme(
        points - centre,
        labels,
        weights,
        queries - centre,
        planes.draw_planes(2, RADIUS, 400_000, 1),
        2,
    )
    assert (np.abs(found - drawn) <= 4 * errors).all()


@pytest.mark.slow
def test_conflicts_one_class_and_few_examples(x64):
    points, labels, masks = (
        np.zeros((8, SIZE, 2)),
        np.ones((8, SIZE), int),
        np.zeros((8, SIZE), bool),
    )
    points[0, :3], labels[0, :3], masks[0, :3] = [[0, 0], [0, 0], [1, 1]], [1, -1, 1], True
    points[1, 0], labels[1, 0], masks[1, 0] = [1, 2], -1, True
    points[3, :3], masks[3, :3] = [1, 1], True
    models = fit_batch(points, labels, masks, np.ones(8))
    clash, single, nothing, same = (member_of(models, member) for member in range(4))
    assert int(clash.status) == Status.NO_EDGE
    assert float(clash.lower_bound) <= 0 <= float(clash.upper_bound)
    assert jboost.predict(single, [[0.0, 0.0], [1.0, 2.0]]).tolist() == [-1, -1]
    assert float(single.upper_bound) == pytest.approx(0.5)
    assert int(nothing.status) == Status.INVALID_INPUT
    assert jboost.predict(same, [[1.0, 1.0]]).tolist() == [1]


def test_a_working_set_has_columns():
    sizes = [working_set.num_at_hand(num_columns) for num_columns in range(1, 2000)]
    assert all(size is None or 0 < size < number + 1 for number, size in enumerate(sizes))


@pytest.mark.slow
def test_candidates_that_enter_leave_the_support_its_slots(x64):
    """With as many entering as the capacity, every round lost the support of the round before."""
    random = np.random.default_rng(0)
    points = random.normal(size=(60, 2))
    labels = np.where(points[:, 0] + 0.5 * random.normal(size=60) > 0, 1, -1)
    found = example_weights.fit_large(
        points, labels, penalty=0.05, radius=5.0, tolerance=1e-3, capacity=16, num_entering=32
    )
    assert int(found.status) == Status.OPTIMAL


@pytest.mark.slow
def test_a_single_example_and_a_single_candidate(x64):
    """A working set of no columns gave NaN weights, and column generation no weights at all."""
    single = example_weights.fit([[1.0, 2.0]], [-1], penalty=1.0, radius=5.0)
    alone = example_weights.fit_large([[1.0, 2.0]], [-1], penalty=1.0, radius=5.0)
    for model in (single, alone):
        assert (int(model.status), model.example_weights.tolist()) == (Status.OPTIMAL, [1])
        assert float(model.lower_bound) == pytest.approx(0.5)
        assert float(model.upper_bound) == pytest.approx(0.5)
    points, labels = np.array([[-1.0, 0.0], [1.0, 0.5], [2.0, 0.0]]), [-1, 1, 1]
    options = {"penalty": 0.5, "radius": 5.0, "capacity": 1, "max_rounds": 2}
    found = example_weights.fit_large(points, labels, **options)
    assert np.isfinite(float(found.lower_bound))
    assert float(found.example_weights.sum()) == 1


@pytest.mark.slow
def test_other_measures_and_a_kernel_of_ones_own(x64):
    points, labels, _ = problem(1, SIZE)
    for kernel in (kernels.stumps([-4.0, -4.0], [4.0, 4.0]), kernels.central_hyperplanes()):
        model = example_weights.fit(points, labels, penalty=0.1, kernel=kernel)
        table = np.asarray(kernel.disagreement(jnp.asarray(points), jnp.asarray(points)))
        assert float(model.lower_bound) == pytest.approx(
            oracle.solve(table, labels, 0.1).objective, rel=2e-7, abs=1e-12
        )


@pytest.mark.slow
def test_no_edge_is_said_only_where_none_is_proven(x64):
    """A margin of 1e-6 that is proven counts, however wide the tolerance is; with nothing proven it
    is nothing.
    """
    model = example_weights.fit(
        [[-1.0], [-4e-6], [4e-6], [1.0]], [-1, -1, 1, 1], penalty=1.0, radius=2.0, tolerance=0.1
    )
    assert int(model.status) == Status.OPTIMAL
    assert 0 < model.lower_bound <= model.upper_bound <= 1.2e-6
    for lower, wanted in ((1e-9, Status.PRECISION_LIMIT), (0.0, Status.NO_EDGE)):
        assert (
            int(
                solve._status_of(
                    jnp.float64(lower), jnp.float64(2e-9), 0.1, 1e-8, 1e-9, jnp.zeros((), bool)
                )
            )
            == wanted
        )


@pytest.mark.slow
def test_folds_without_examples_count_for_none():
    options = {"penalties": [1.0], "radius": 4.0, "key": jax.random.key(0)}
    choice = example_weights.choose_penalty(
        [[-1.0], [1.0], [2.0]], [-1, 1, 1], num_folds=5, **options
    )
    assert float(choice.losses[0]) == pytest.approx(float(choice.fold_losses.sum()) / 3)
    assert float(choice.fold_losses.sum()) == 1


def test_no_examples_are_named():
    for points, mask in ((np.zeros((0, 1)), []), ([[1.0], [2.0]], [False, False])):
        with pytest.raises(ValueError, match="points has no examples"):
            example_weights.fit_large(
                points, np.ones(len(points)), penalty=1.0, radius=5.0, mask=np.array(mask, bool)
            )
    with pytest.raises(ValueError, match="points has no examples"):
        example_weights.fit(np.zeros((0, 1)), [], penalty=1.0, radius=5.0)


@pytest.mark.slow
def test_bad_values_inside_jit_give_a_status_and_no_numbers():
    points, labels, masks, penalties = batch()
    points, labels, penalties = (
        points.astype(np.float32),
        labels.copy(),
        penalties.astype(np.float32),
    )
    points[0, 3, 0], labels[1, 2], points[2, 0], penalties[3], penalties[4] = (
        np.nan,
        0,
        40,
        0.01,
        -1,
    )
    models = fit_batch(points, labels, masks, penalties)
    bad, infeasible = int(Status.INVALID_INPUT), int(Status.INFEASIBLE)
    assert models.status[:5].tolist() == [bad, bad, bad, infeasible, bad]
    assert np.isnan(np.asarray(models.example_weights)[[0, 1, 2, 4]]).all()
    assert float(models.upper_bound[3]) == np.inf
    lower, upper = example_weights.recompute_bounds(member_of(models, 3))
    assert np.isfinite(lower)
    assert upper == np.inf


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"radius": 0.5}, r"radius is 0.5: the point 0, at \(-1, 0\) from the centre, needs 1"),
        ({"radius": 0.0}, "radius is 0"),
        (
            {"penalty": 0.2},
            "penalty is 0.2, below 1 / m = 0.333333 for 3 examples: the program is unbounded",
        ),
        ({"penalty": -1.0}, "penalty is -1"),
        ({"labels": [0, 1, 1]}, r"labels\[0\] is 0"),
        ({"points": [[0.0, 0.0], [np.nan, 0.0], [0.0, 0.0]]}, r"points\[1, 0\] is nan"),
        ({"kernel": kernels.central_hyperplanes()}, "exactly one"),
        ({"radius": None}, "exactly one"),
        ({"radius": None, "kernel": len}, "kernel is a builtin"),
        (
            {"radius": None, "kernel": kernels.stumps([0.0, 0.0], [1.0, 1.0])},
            r"points\[0\] lies where the kernel is not defined",
        ),
        ({"mask": [False] * 3}, "no examples"),
        ({"centre": [0.0]}, "centre has shape"),
    ],
)
def test_validate_names_what_is_wrong(changes, message):
    arguments = {
        "points": [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]],
        "labels": [-1, 1, 1],
        "penalty": 1.0,
        "radius": RADIUS,
    } | changes
    with pytest.raises(ValueError, match=message):
        example_weights.validate(arguments.pop("points"), arguments.pop("labels"), **arguments)


def test_the_radius_that_validate_names_is_accepted():
    for place in (1.000003, 1234567.8, 3e-5):
        points = [[place], [-place]]
        with pytest.raises(ValueError, match="radius") as refusal:
            example_weights.validate(points, [1, -1], radius=place / 2)
        example_weights.validate(
            points, [1, -1], radius=float(re.search(r"needs (\S+) at least", str(refusal.value))[1])
        )


@pytest.mark.slow
def test_a_model_file_gives_back_the_model(tmp_path):
    points, labels, masks, penalties = batch()
    points = points[1].astype(np.float32)
    model = member_of(
        fit_batch(points[None].repeat(8, axis=0), labels, masks, penalties.astype(np.float32)), 1
    )
    jboost.files.save(model, tmp_path / "model.npz")
    again = jboost.files.load(tmp_path / "model.npz")
    assert type(again) is type(model)
    assert jax.tree.structure(again) == jax.tree.structure(model)
    np.testing.assert_array_equal(
        jboost.predict_scores(again, points[:4]), jboost.predict_scores(model, points[:4])
    )


@pytest.mark.slow
def test_the_penalty_is_chosen_in_one_compilation_as_by_single_fits(compilations):
    points, labels, _ = problem(4, SIZE)
    penalties = jnp.array([0.03, 0.06, 0.1, 0.3, 1.0])
    options = {"penalties": penalties, "radius": RADIUS, "num_folds": 4}
    points, keys = jnp.asarray(points, jnp.float32), jax.random.split(jax.random.key(0), 2)
    example_weights.choose_penalty(points, labels, key=keys[1], **options)
    before = compilations()
    choice = example_weights.choose_penalty(points, labels, key=keys[0], **options)
    assert compilations() == before
    assert choice.losses[0] == np.inf
    held_out = np.asarray(jboost.folds.stratified_folds(keys[0], labels, num_folds=4))
    wrong = np.zeros(4)
    centres = np.asarray(points).mean(axis=0)[None].repeat(8, axis=0)
    copies, signs = np.asarray(points)[None].repeat(8, axis=0), labels[None].repeat(8, axis=0)
    for half in range(2):
        cases = [
            (place, is_out) for place in range(4) for is_out in held_out[2 * half : 2 * half + 2]
        ]
        masks, prices = (
            np.stack([~is_out for _, is_out in cases]),
            np.asarray(penalties)[1:][[place for place, _ in cases]],
        )
        models = fit_all(copies, signs, masks, prices, centres)
        for member, (place, is_out) in enumerate(cases):
            predicted = np.asarray(jboost.predict(member_of(models, member), points))
            wrong[place] += (predicted != labels)[is_out].sum()
    # a score may be as good as 0
    assert np.abs(np.asarray(choice.losses)[1:] * SIZE - wrong).max() <= 1
    best = np.asarray(choice.losses).min()
    assert float(choice.penalty) == float(penalties[np.asarray(choice.losses) == best].min())
    with pytest.raises(ValueError, match="num_folds"):
        example_weights.choose_penalty(points, labels, key=keys[0], **(options | {"num_folds": 1}))


@pytest.mark.skipif(not DATA.is_dir(), reason="the data sets of the papers are not here")
@pytest.mark.slow
def test_ripley_as_published(x64):
    train, test = (
        np.loadtxt(DATA / f"RIPLEY_{part}.csv", delimiter=",", skiprows=1) for part in ("TR", "TE")
    )
    model = example_weights.fit(train[:, :2], 2 * train[:, 2] - 1, penalty=0.009, radius=5.0)
    error = np.mean(np.asarray(jboost.predict(model, test[:, :2])) != 2 * test[:, 2] - 1)
    assert abs(error - 0.086) <= 0.002
    assert int(model.num_support) <= 10
    assert float(model.lower_bound) == pytest.approx(9.0485901e-05, rel=1e-7)


def noisy_mixture(size, seed):
    """Ripley's kind of mixture: two Gaussians a class."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.uniform(size=size) < 0.5, 1, -1)
    middles = np.array([[[-0.7, 0.3], [0.3, 0.3]], [[-0.3, 0.7], [0.4, 0.7]]])[
        (labels + 1) // 2, rng.integers(2, size=size)
    ]
    return middles + rng.normal(size=(size, 2)) * 0.17, labels


@pytest.mark.slow
def test_column_generation_with_small_caps_ends_at_the_optimum(x64):
    """Few of one class, whose row weights are at the cap; and of ten examples on a line
    nearly all.
    """
    rng = np.random.default_rng(1)
    dense = example_weights.Config(sparse=False)
    points = np.concatenate([rng.normal(size=(6, 2)) + 1.5, rng.normal(size=(54, 2))])
    labels, mask = np.where(np.arange(60) < 6, 1, -1), np.ones(60, bool)
    line, signs = (
        np.linspace(-1, 1, 60)[:, None] * [1.0, 0.0] * 5.9,
        np.where(np.arange(60) < 5, -1, 1),
    )
    for places, classes, live, penalty in (
        (points, labels, mask, 1.5 / 60),
        (line, signs, np.arange(60) < 10, 0.11),
    ):
        model = example_weights.fit_large(
            places,
            classes,
            mask=live,
            penalty=penalty,
            radius=12.0,
            tolerance=1e-4,
            capacity=10,
            config=dense,
        )
        matrix = np.asarray(kernels.disagreement(model.points[live], model.points[live], 12.0))
        optimum = oracle.solve(matrix, classes[live], penalty).objective
        assert int(model.status) == Status.OPTIMAL
        assert float(model.lower_bound) - 1e-9 <= optimum <= float(model.upper_bound) + 1e-9
        assert float(model.row_weights.max()) <= penalty


@pytest.mark.slow
def test_column_generation_is_certified_and_near_the_optimum(x64, monkeypatch):
    points, labels = noisy_mixture(300, 0)
    penalty, seen = 2.25 / 300, []
    model = example_weights.fit_large(
        points,
        labels,
        penalty=penalty,
        radius=RADIUS,
        capacity=32,
        num_entering=8,
        tolerance=1e-4,
        on_step=lambda state, info: seen.append(info),
    )
    assert int(model.status) == Status.OPTIMAL
    assert len(seen) == int(model.num_iterations) > 1
    whole = example_weights.fit(points, labels, penalty=penalty, radius=RADIUS)
    assert float(model.lower_bound) <= float(whole.upper_bound)
    assert float(model.upper_bound) >= float(whole.lower_bound)
    assert float(model.upper_bound - model.lower_bound) <= 1e-4 * float(model.upper_bound)
    again = example_weights.recompute_bounds(model)
    np.testing.assert_allclose(again, [model.lower_bound, model.upper_bound], rtol=1e-9)
    monkeypatch.setattr(bounds, "_ENTRIES_AT_ONCE", 300**2 - 1)
    in_chunks = jax.jit(example_weights.recompute_bounds.__wrapped__)(model)
    np.testing.assert_allclose(in_chunks, again, rtol=1e-9)
    stopped = example_weights.fit_large(
        points,
        labels,
        penalty=penalty,
        radius=RADIUS,
        capacity=32,
        num_entering=8,
        tolerance=1e-9,
        on_step=lambda *_: False,
    )
    assert int(stopped.status) == Status.TIME_LIMIT
    assert (
        float(stopped.lower_bound)
        <= float(whole.upper_bound)
        <= float(stopped.upper_bound) * (1 + 1e-7)
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"penalty": np.inf, "radius": 5.0}, "penalty is inf"),
        ({"radius": np.inf}, "radius is inf"),
        (
            {"centre": [np.nan, 0.0], "kernel": kernels.central_hyperplanes()},
            "centre holds a number that is not finite",
        ),
    ],
)
def test_numbers_that_are_not_finite_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        example_weights.validate([[-2.0, 0.0], [1.0, 0.0]], [-1, 1], **arguments)


def test_choose_penalty_validates_every_penalty():
    with pytest.raises(ValueError, match=r"penalties\[0\] is -1"):
        example_weights.choose_penalty(
            [[-2.0], [1.0]],
            [-1, 1],
            penalties=[-1.0, 1.0],
            radius=5.0,
            key=jax.random.key(0),
            num_folds=2,
        )


@pytest.mark.slow
def test_both_ways_see_that_there_is_no_edge():
    for fit in (example_weights.fit, example_weights.fit_large):
        model = fit(
            [[0.0, 1.0], [0.0, 1.0]], [1, -1], penalty=1.0, kernel=kernels.central_hyperplanes()
        )
        assert int(model.status) == Status.NO_EDGE
