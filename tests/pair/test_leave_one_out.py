"""Leave-one-out errors of the exact pair against the definition, in exact arithmetic."""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import batches
import jboost
from jboost.base.status import Status
from jboost.pair import SweepConfig
from jboost.pair.leave_one_out.near_optimal_lines import holds_gaps
from jboost.pair.sweep.instance import LineInstance
from oracles.leave_one_out import leave_one_out
from oracles.pair import random_degenerate_sets

MODELS = ("max_margin", "occurrence")
NUM_VARIED = 100  # sets that also come swapped, turned, permuted and padded elsewhere


solve_batch = functools.partial(batches.solve_batch, jboost.pair.leave_one_out)


def assert_true(results, row, points, labels, weights, mask, model):
    points, labels, weights = points[mask], labels[mask], weights[mask]
    truth = leave_one_out(points, labels, weights, model=model)
    case = f"points = {points.tolist()}, labels = {labels.tolist()}, weights = {weights.tolist()}"
    result = jax.tree.map(lambda leaf: leaf[row], results)
    assert result.status == Status.OPTIMAL, case
    assert result.kinds[mask].tolist() == truth.kinds, case
    np.testing.assert_allclose(
        result.errors[mask], [float(error) for error in truth.errors], rtol=1e-6, err_msg=case
    )
    np.testing.assert_allclose(result.error, float(truth.error), rtol=1e-6, err_msg=case)
    assert not np.any(result.errors[~mask])
    assert not np.any(result.kinds[~mask])


def assert_all_true(batch, model, *, dtype=np.float32, **options):
    points, labels, weights, mask = batch
    results = solve_batch(
        points.astype(dtype), labels, weights.astype(dtype), mask, model=model, **options
    )
    for row in range(len(labels)):
        assert_true(results, row, points[row], labels[row], weights[row], mask[row], model)


def varied(points, labels, weights, mask):
    """The same sets with labels swapped, turned by 90 degrees, and with their rows (and so their
    padding) in another order.
    """
    order = np.argsort(np.random.default_rng(5).random(labels.shape), axis=1)
    shuffled = [np.take_along_axis(array, order, axis=1) for array in (labels, weights, mask)]
    turned = np.stack([-points[..., 1], points[..., 0]], axis=-1)
    return order, [
        (points, -labels, weights, mask),
        (turned, labels, weights, mask),
        (np.take_along_axis(points, order[..., None], axis=1), *shuffled),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "num_sets"), [("max_margin", 400), ("occurrence", 600)])
def test_degenerate_sets_and_their_invariances(model, num_sets):
    sets = random_degenerate_sets(61, num_sets, 8)
    first = tuple(array[:NUM_VARIED] for array in sets)
    order, variants = varied(*first)
    batch = [np.concatenate(arrays) for arrays in zip(sets, *variants, strict=True)]
    results = solve_batch(
        batch[0].astype(np.float32), batch[1], batch[2].astype(np.float32), batch[3], model=model
    )
    for row in range(num_sets):
        assert_true(results, row, *(array[row] for array in sets), model)
    plain, swapped, turned, shuffled = (
        jax.tree.map(lambda leaf, start=start: leaf[start : start + NUM_VARIED], results)
        for start in (0, num_sets, num_sets + NUM_VARIED, num_sets + 2 * NUM_VARIED)
    )
    for other in (swapped, turned):
        np.testing.assert_array_equal(other.kinds, plain.kinds)
        np.testing.assert_array_equal(other.errors, plain.errors)
    np.testing.assert_array_equal(shuffled.kinds, np.take_along_axis(plain.kinds, order, axis=1))
    np.testing.assert_array_equal(shuffled.errors, np.take_along_axis(plain.errors, order, axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_tens_of_thousands_of_degenerate_sets(model, seed):
    assert_all_true(random_degenerate_sets(200 + seed, 8000, 8), model)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_degenerate_sets_of_more_points(model):
    assert_all_true(random_degenerate_sets(62, 300, 16), model)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_degenerate_sets_without_64_bit_types(model):
    points, labels, weights, mask = random_degenerate_sets(63, 2000, 8)
    # squared margins of larger grids need more than two words of 32 bits
    small = np.abs(points).max(axis=(1, 2)) < 64
    assert_all_true(
        [array[small] for array in (points, labels, weights, mask)],
        model,
        config=SweepConfig(word_bits=32),
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_degenerate_sets_in_float64(x64, model):
    assert_all_true(random_degenerate_sets(64, 600, 8), model, dtype=np.float64)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_general_floats_are_the_grid_they_lie_on(model):
    """Float points are dyadic numbers: a multiple of them is a set of integers that the oracle can
    take.
    """
    rng = np.random.default_rng(65)
    integers = rng.integers(-(2**20), 2**20, (300, 8, 2))
    labels, weights = rng.choice([-1, 1], (300, 8)), rng.choice([1, 2, 3], (300, 8))
    results = solve_batch(
        (integers * 2.0**-31).astype(np.float32),
        labels,
        weights.astype(np.float32),
        np.ones(labels.shape, bool),
        model=model,
    )
    for row in range(300):
        assert_true(results, row, integers[row], labels[row], weights[row], np.ones(8, bool), model)


def solve_each(points, labels):
    """Leave-one-out with `optimal_separator` itself: right unless separators of largest
    margin tie.
    """
    size = len(labels)
    keep = ~np.eye(size, dtype=bool)
    separators = jax.jit(jax.vmap(lambda m: jboost.pair.optimal_separator(points, labels, mask=m)))(
        keep
    )
    scores = [
        np.sum(np.float64(normal) * (np.float64(point) - np.float64(anchor))) + np.float64(bias)
        for normal, anchor, bias, point in zip(
            separators.normal, separators.anchor, separators.bias, points, strict=True
        )
    ]
    return np.array(scores) * labels <= 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_larger_sets_against_solving_each(seed):
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(150) < 0.4, 1, -1)
    points = (rng.standard_normal((150, 2)) + 0.6 * labels[:, None]).astype(np.float32)
    result = jboost.pair.leave_one_out(points, labels)
    assert result.status == Status.OPTIMAL
    np.testing.assert_array_equal(result.errors, solve_each(points, labels))
    np.testing.assert_array_equal(result.kinds, np.where(result.errors, 2, 1))


@pytest.mark.slow
def test_room_that_does_not_suffice_is_said_and_made():
    """Eight points on a circle with alternating labels have many near-optimal lines."""
    angles = np.arange(8)
    points = np.stack(
        [np.array([7, 5, 0, -5, -7, -5, 0, 5]), np.roll([7, 5, 0, -5, -7, -5, 0, 5], 2)], axis=1
    ).astype(np.float32)
    labels = np.where(angles % 2 == 0, 1, -1)
    tight = jboost.pair.leave_one_out(points, labels, max_separators=2)
    assert tight.status == Status.CAPACITY_LIMIT
    assert np.isnan(tight.error)
    assert not np.any(tight.kinds)
    bad = jax.jit(functools.partial(jboost.pair.leave_one_out, max_separators=2))(
        points, np.where(angles == 0, 0, labels)
    )
    assert bad.status == Status.INVALID_INPUT
    assert np.isnan(bad.error)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_room_grows_outside_of_jit(model, monkeypatch):
    # by its name it is the function in the module
    monkeypatch.setattr(sys.modules["jboost.pair.leave_one_out.solve"], "_FIRST_CAPACITY", 2)
    points, labels, weights, _ = (field[0] for field in random_degenerate_sets(66, 1, 8))
    result = jboost.pair.leave_one_out(
        points.astype(np.float32), labels, weights=weights, model=model
    )
    truth = leave_one_out(points, labels, weights, model=model)
    assert result.kinds.tolist() == truth.kinds


@pytest.mark.parametrize("model", MODELS)
def test_bad_arguments_are_named(model):
    points, labels = np.zeros((3, 2)), np.ones(3)
    for arguments, message in (
        ({"points": np.zeros((3, 4))}, r"points has shape \[3, 4\]"),
        ({"labels": np.ones(4)}, r"labels has shape \[4\]"),
        ({"model": "paper"}, "model is 'paper': the options are 'max_margin', 'occurrence'"),
        ({"max_separators": 1}, "max_separators is 1"),
        ({"config": 3}, "config is a int"),
    ):
        with pytest.raises(ValueError, match=message):
            jboost.pair.leave_one_out(
                **({"points": points, "labels": labels, "model": model} | arguments)
            )


# --- branch and bound -----------------------------------------------------------------------------


def by_branch_and_bound(points, labels, weights, mask):
    return jax.device_get(
        jboost.pair.leave_one_out(
            points, labels, weights=weights, mask=mask, method="branch_and_bound"
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("num_sets", [12, 300])
def test_branch_and_bound_on_degenerate_sets(num_sets):
    points, labels, weights, mask = random_degenerate_sets(67, num_sets, 8)
    for row in range(num_sets):
        case = (
            points[row].astype(np.float32),
            labels[row],
            weights[row].astype(np.float32),
            mask[row],
        )
        results = jax.tree.map(lambda leaf: leaf[None], by_branch_and_bound(*case))
        assert_true(results, 0, points[row], labels[row], weights[row], mask[row], "max_margin")


@pytest.mark.slow
def test_branch_and_bound_equals_the_sweep():
    rng = np.random.default_rng(71)
    kinds = set()
    for number in range(60):
        extent = (3, 30, 1000)[number % 3]
        labels = np.where(rng.random(64) < 0.5, 1, -1)
        points = (
            rng.integers(-extent, extent + 1, (64, 2))
            + (number % 2) * extent // 2 * labels[:, None]
        ).astype(np.float32)
        weights, mask = rng.integers(1, 2 + number % 3, 64).astype(np.float32), rng.random(64) < 0.9
        swept = jax.device_get(
            jboost.pair.leave_one_out(points, labels, weights=weights, mask=mask, method="sweep")
        )
        jax.tree.map(
            np.testing.assert_array_equal, by_branch_and_bound(points, labels, weights, mask), swept
        )
        kinds |= set(swept.kinds.tolist())
    assert kinds == {0, 1, 2, 3}


@pytest.mark.slow
def test_branch_and_bound_is_for_concrete_arrays_and_one_model():
    points, labels = np.zeros((3, 2), np.float32), np.array([1, -1, 1])
    with pytest.raises(ValueError, match="method is 'branch_and_bound'"):
        jboost.pair.leave_one_out(points, labels, method="branch_and_bound", model="occurrence")
    with pytest.raises(ValueError, match="method is 'branch_and_bound'"):
        jax.jit(functools.partial(jboost.pair.leave_one_out, method="branch_and_bound"))(
            points, labels
        )
    with pytest.raises(
        ValueError, match=r"config is a SweepConfig: expected a jboost.pair.BranchAndBoundConfig"
    ):
        jboost.pair.leave_one_out(points, labels, method="branch_and_bound", config=SweepConfig())
    spoiled = jboost.pair.leave_one_out(
        np.full((3, 2), np.nan, np.float32), labels, method="branch_and_bound"
    )
    assert int(spoiled.status) == Status.INVALID_INPUT
    assert np.isnan(spoiled.error)


def test_coordinates_too_far_apart_for_gaps(x64):
    coordinates = jnp.array([[1.0, 3.0], [2.0, 0.0]])
    nothing = jnp.zeros(2)
    for exponent, holds in ((-199, True), (-202, False)):
        for x, y in (
            (coordinates[0], coordinates[1] * 2.0**exponent),
            (jnp.array([2.0, 2.0**exponent]), nothing),
        ):
            metric = jnp.stack([x, y])
            instance = LineInstance(
                metric, metric, nothing > 0, nothing > 0, nothing, nothing[0] > 0
            )
            assert bool(holds_gaps(instance)) == holds


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [-60, -110, -190, -260])
def test_axes_in_units_far_apart(x64, exponent):
    """Along the short axis the bisector turns with every support point, however short it is; past
    2^200 nothing is promised.
    """
    points = np.array(
        [[0, 4], [4, 4], [3, 1], [4, -1], [0, -4], [4, -4], [1, -1], [2, -9]]
    ) * np.array([1, 2.0**exponent])
    result = jboost.pair.leave_one_out(points, [1, 1, 1, 1, -1, -1, -1, -1])
    assert result.status == (Status.OPTIMAL if exponent >= -190 else Status.PRECISION_LIMIT)
    assert (result.errors.tolist(), result.kinds.tolist()) == ([0] * 6 + [1, 0], [1] * 6 + [2, 1])


@pytest.mark.slow
def test_a_point_that_outweighs_what_integers_hold(x64):
    """Without it the others are an easy problem, but in units of the whole weight they are all 0:
    no OPTIMAL.
    """
    points, labels = [[0.0, 0.0], [2.0, 0.0], [1.0, 3.0], [4.0, 1.0]], [1, -1, 1, 1]
    heavy = [
        jboost.pair.leave_one_out(points, labels, weights=[weight, 1.0, 1.0, 1.0])
        for weight in (1e18, 1e20, 1e30)
    ]
    assert [int(result.status) for result in heavy] == [
        Status.OPTIMAL,
        Status.PRECISION_LIMIT,
        Status.PRECISION_LIMIT,
    ]
    assert heavy[0].kinds[0] == 2
