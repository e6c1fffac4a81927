"""The exact pair engine against an oracle that enumerates all lines in exact arithmetic."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import batches
import jboost
from jboost.base.status import Status
from jboost.pair import SweepConfig
from marks import slow
from oracles.pair import check_separator, optimal_pair, random_degenerate_sets

# relative; the margin is rounded at the end
MARGIN_TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}


solve_batch = functools.partial(batches.solve_batch, jboost.pair.optimal_separator)


def assert_optimal(separators, row, points, labels, weights, mask, *, margin=True):
    """One member of a batch against the oracle: loss, bound, recomputed loss, misclassified set,
    margin.
    """
    points, labels, weights = points[mask], labels[mask], weights[mask]
    optimum = optimal_pair(points, labels, weights)
    case = f"points = {points.tolist()}, labels = {labels.tolist()}, weights = {weights.tolist()}"
    result = jax.tree.map(lambda leaf: leaf[row], separators)
    assert result.status == Status.OPTIMAL, case
    assert result.loss == optimum.loss, case
    assert result.lower_bound == optimum.loss, case
    loss, misclassified = check_separator(
        points, labels, weights, result.normal, result.anchor, result.bias
    )
    assert loss == optimum.loss, case
    assert np.array_equal(misclassified, result.misclassified[mask]), case
    assert not np.any(result.misclassified[~mask])
    if margin:
        wanted = float(optimum.margin_squared) ** 0.5
        assert result.margin == pytest.approx(wanted, rel=MARGIN_TOLERANCE[result.margin.dtype]), (
            case
        )
        assert frozenset(np.flatnonzero(misclassified).tolist()) in optimum.best_sets, case
    size = np.sum(np.abs(result.normal * result.anchor)) + np.abs(result.bias)
    assert (
        abs(result.offset - (result.bias - np.sum(result.normal * result.anchor))) <= 1e-6 * size
    ), case


def assert_all_optimal(batch, *, margin=True, dtype=np.float32, **options):
    points, labels, weights, mask = batch
    separators = solve_batch(points.astype(dtype), labels, weights, mask, **options)
    for row in range(len(labels)):
        assert_optimal(
            separators, row, points[row], labels[row], weights[row], mask[row], margin=margin
        )


@pytest.mark.slow
def test_degenerate_sets():
    assert_all_optimal(random_degenerate_sets(11, 4000, 8))


@pytest.mark.slow
def test_degenerate_sets_of_more_points():
    assert_all_optimal(random_degenerate_sets(12, 300, 20))


@pytest.mark.slow
def test_degenerate_sets_flipped_fat():
    assert_all_optimal(random_degenerate_sets(13, 600, 8), fat="flipped")


@pytest.mark.slow
def test_degenerate_sets_without_tie_break():
    assert_all_optimal(random_degenerate_sets(14, 1000, 8), tie_break=None, margin=False)


@pytest.mark.slow
@pytest.mark.parametrize("tie_break", ["margin", None])
def test_degenerate_sets_without_64_bit_types(tie_break):
    assert_all_optimal(
        random_degenerate_sets(15, 2000, 8),
        margin=tie_break is not None,
        tie_break=tie_break,
        config=SweepConfig(word_bits=32),
    )


@pytest.mark.slow
def test_degenerate_sets_in_float64(x64):
    assert_all_optimal(random_degenerate_sets(16, 600, 8), dtype=np.float64)


@pytest.mark.slow
def test_integer_points_need_no_float():
    points, labels, weights, mask = random_degenerate_sets(17, 300, 8)
    separators = solve_batch(points.astype(np.int32), labels, weights.astype(np.int32), mask)
    for row in range(300):
        assert_optimal(separators, row, points[row], labels[row], weights[row], mask[row])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_thousand_degenerate_sets(seed):
    assert_all_optimal(random_degenerate_sets(100 + seed, 10_000, 8))


def random_float_sets(rng, num_sets, size, dtype):
    """General floats that are nearly degenerate: collinear but for rounding, repeats, clusters,
    decimal grids, many binades.
    """
    points = rng.standard_normal((num_sets, size, 2))
    kind = np.arange(num_sets) % 5
    points[kind == 0, :, 1] = points[kind == 0, :, 0] * 3.7 + 0.1
    points[kind == 1, 1::2] = points[kind == 1, ::2][:, : size // 2]
    points[kind == 2] = points[kind == 2] * 1e-5 + np.round(points[kind == 2])
    points[kind == 3] = np.round(points[kind == 3], 1)
    points[kind == 4] *= 2.0 ** rng.integers(-12, 12, (np.sum(kind == 4), size, 1))
    labels = rng.choice([-1, 1], (num_sets, size))
    weights = rng.choice([0.1, 0.2, 0.3, 1.0, 2.5], (num_sets, size))
    return points.astype(dtype), labels, weights.astype(dtype), rng.random((num_sets, size)) < 0.9


def assert_floats_certified(dtype, **options):
    """The bound is the true optimum, or what floats lose if that is less; the loss is what the line
    loses, more only if the status says why.
    """
    points, labels, weights, mask = random_float_sets(np.random.default_rng(21), 400, 8, dtype)
    separators = solve_batch(points, labels, weights, mask, **options)
    for row in range(400):
        kept = points[row][mask[row]], labels[row][mask[row]], weights[row][mask[row]]
        optimum, result = (
            optimal_pair(*kept),
            jax.tree.map(lambda leaf, row=row: leaf[row], separators),
        )
        loss, misclassified = check_separator(*kept, result.normal, result.anchor, result.bias)
        assert float(result.lower_bound) == pytest.approx(
            float(min(optimum.loss, loss)), rel=4 * float(jnp.finfo(dtype).eps)
        )
        assert float(result.loss) == pytest.approx(float(loss), rel=4 * float(jnp.finfo(dtype).eps))
        assert np.array_equal(misclassified, result.misclassified[mask[row]])
        if result.status == Status.OPTIMAL:
            assert loss == optimum.loss
            wanted, extent = (
                float(optimum.margin_squared) ** 0.5,
                np.max(np.abs(kept[0]), initial=0),
            )
            assert result.margin <= wanted * (1 + 1e-5)
            assert result.margin >= wanted * (1 - 1e-5) - extent * 2.0**-25
        else:
            assert result.status == Status.PRECISION_LIMIT
            # collinear but for rounding: the slab is thinner than the arithmetic of a score
            assert row % 5 in (0, 3)


@pytest.mark.slow
def test_general_floats():
    assert_floats_certified(np.float32)


@pytest.mark.slow
def test_general_floats_in_float64(x64):
    assert_floats_certified(np.float64)


@pytest.mark.slow
def test_constant_beats_every_line_through_the_positive():
    """Lemma 2.5 of the paper misses this optimum."""
    points = [(0, 0), (2, 1), (1, 2), (-1, 1), (-2, -1), (-1, -2), (1, -1)]
    separator = jboost.pair.optimal_separator(points, [1, -1, -1, -1, -1, -1, -1])
    assert (float(separator.loss), float(separator.bias), float(separator.margin)) == (
        1,
        -1,
        np.inf,
    )
    assert separator.normal.tolist() == [0, 0]
    assert jboost.predict(separator, points).tolist() == [-1] * 7


@pytest.mark.parametrize(
    "points, labels, loss, margin",
    [
        (np.zeros((0, 2)), [], 0, np.inf),
        slow([(3, 4)], [-1], 0, np.inf),
        slow([(0, 0), (3, 4)], [1, -1], 0, 2.5),
        slow([(1, 1), (1, 1)], [1, -1], 1, np.inf),
        slow([(0, 0), (1, 0), (2, 0)], [1, 1, 1], 0, np.inf),
        slow([(0, 0), (1, 0), (2, 0), (3, 0)], [1, -1, -1, 1], 1, 0.5),
    ],
)
@pytest.mark.parametrize("fat", ["removed", pytest.param("flipped", marks=pytest.mark.slow)])
def test_small_sets(points, labels, loss, margin, fat):
    separator = jboost.pair.optimal_separator(
        np.asarray(points, np.float32), np.asarray(labels, np.int32), fat=fat
    )
    assert (
        float(separator.loss),
        float(separator.lower_bound),
        float(separator.margin),
        int(separator.status),
    ) == (loss, loss, margin, 0)
    assert separator.misclassified.shape == (len(labels),)


@pytest.mark.slow
def test_scores_have_the_sign_that_misclassified_says():
    points, labels, weights, mask = (field[0] for field in random_degenerate_sets(31, 1, 8))
    separator = jboost.pair.optimal_separator(
        points.astype(np.float32), labels, weights=weights, mask=mask
    )
    wrong = (jboost.predict_scores(separator, points) * labels <= 0) & mask
    assert np.array_equal(wrong, separator.misclassified)
    with pytest.raises(ValueError, match=r"features has shape \[3\]"):
        jboost.predict(separator, np.zeros(3))


@pytest.mark.slow
def test_bad_values_end_in_a_status_where_they_are_traced():
    points, labels = np.zeros((3, 2), np.float32), np.array([1, -1, 1])
    bad_points = points.copy()
    bad_points[1, 0] = np.nan
    traced = jax.jit(jboost.pair.optimal_separator)
    for arguments in (
        {"points": bad_points},
        {"labels": np.array([1, 0, 1])},
        {"weights": np.array([1.0, -1, 1])},
        {"weights": np.array([1.0, np.inf, 1])},
        {"weights": np.zeros(3)},
    ):
        separator = traced(
            **({"points": points, "labels": labels, "weights": np.ones(3)} | arguments)
        )
        assert separator.status == Status.INVALID_INPUT
        assert np.isnan(separator.loss)
        assert np.isnan(separator.lower_bound)
    hidden = jboost.pair.optimal_separator(
        bad_points, labels, weights=np.ones(3), mask=np.array([True, False, True])
    )
    assert hidden.status == Status.OPTIMAL


@pytest.mark.slow
def test_general_floats_without_64_bit_types():
    """What 32-bit arithmetic is not sure of counts as wrong: the loss is no less than that of the
    line, and the bound holds.
    """
    points, labels, weights, mask = random_float_sets(np.random.default_rng(22), 400, 8, np.float32)
    separators = solve_batch(points, labels, weights, mask, config=SweepConfig(word_bits=32))
    num_optimal = 0
    for row in range(400):
        kept = points[row][mask[row]], labels[row][mask[row]], weights[row][mask[row]]
        optimum, result = (
            optimal_pair(*kept),
            jax.tree.map(lambda leaf, row=row: leaf[row], separators),
        )
        loss, misclassified = check_separator(*kept, result.normal, result.anchor, result.bias)
        assert not np.any(misclassified & ~result.misclassified[mask[row]])
        assert float(result.lower_bound) <= float(optimum.loss) * (1 + 1e-6)
        assert float(result.loss) >= float(loss) * (1 - 1e-6)
        if result.status == Status.OPTIMAL:
            num_optimal += 1
            assert float(result.loss) == pytest.approx(float(optimum.loss), rel=1e-6)
            assert np.array_equal(misclassified, result.misclassified[mask[row]])
    assert num_optimal > 300


@pytest.mark.slow
def test_precision_limit_is_said_and_the_bound_stays_true():
    """Only slopes between two neighbouring fractions of size 2^25 separate these four points, and
    float32 has none.
    """
    side = 2**25
    points = np.array(
        [(side, side - 1), (1 - side, 2 - side), (side - 1, side - 2), (-side, 1 - side)], np.int32
    )
    separator = jboost.pair.optimal_separator(points, [1, 1, -1, -1])
    assert separator.status == Status.PRECISION_LIMIT
    assert (float(separator.lower_bound), optimal_pair(points, [1, 1, -1, -1]).loss) == (0, 0)
    assert (
        separator.loss
        == check_separator(
            points, [1, 1, -1, -1], None, separator.normal, separator.anchor, separator.bias
        )[0]
        > 0
    )
    with jax.enable_x64(True):
        assert jboost.pair.optimal_separator(points, [1, 1, -1, -1]).status == Status.OPTIMAL


@pytest.mark.slow
def test_what_the_cast_or_underflow_loses_is_not_called_optimal():
    subnormal = jboost.pair.optimal_separator(
        np.array([[1e-39, 0], [2e-39, 0]], np.float32), [1, -1]
    )
    assert (int(subnormal.status), float(subnormal.lower_bound)) == (Status.PRECISION_LIMIT, 0)
    far_apart = np.array([[1e20, 0], [1e-20, 0], [2e-20, 0]], np.float32)
    assert (
        jboost.pair.optimal_separator(
            far_apart, [1, -1, 1], config=SweepConfig(word_bits=32)
        ).status
        == Status.PRECISION_LIMIT
    )
    assert jboost.pair.optimal_separator(far_apart, [1, -1, 1]).status == Status.OPTIMAL
    vanishing = jboost.pair.optimal_separator(
        np.array([[3e38, 0], [2e-38, 0], [4e-38, 0]], np.float32),
        [1, -1, 1],
        config=SweepConfig(word_bits=32),
    )
    assert (int(vanishing.status), float(vanishing.lower_bound)) == (Status.PRECISION_LIMIT, 0)


def assert_kept_by_prediction(points, labels):
    """A separator without loss, and predictions that say the same."""
    separator = jboost.pair.optimal_separator(points, labels)
    assert (int(separator.status), float(separator.loss)) == (Status.OPTIMAL, 0)
    assert jboost.predict(separator, points).tolist() == labels
    return separator


@pytest.mark.slow
def test_predict_errs_on_the_examples_that_are_misclassified():
    """Scores that floats of 32 bits cannot tell apart, traced too."""
    fibonacci = np.array([[6765, 4181], [-10946, -6765], [10946, 6765], [-6765, -4181]])
    separator = assert_kept_by_prediction(fibonacci, [1, 1, -1, -1])
    assert jax.vmap(jax.jit(jboost.predict), in_axes=(None, 0))(separator, fibonacci[None])[
        0
    ].tolist() == [1, 1, -1, -1]
    assert_kept_by_prediction(
        np.array([[16777217, 0], [16777216, 0], [16777217, 1], [16777216, 1]]), [1, -1, 1, -1]
    )


@pytest.mark.slow
def test_a_gap_below_the_normal_numbers_of_the_float():
    least = np.float32(2.0**-126)
    assert_kept_by_prediction(
        np.array([[least, 0], [np.nextafter(least, np.float32(1)), 0]], np.float32), [-1, 1]
    )
    assert_kept_by_prediction(np.array([[1e30, 1e-20], [-1e30, 2e-20]], np.float32), [-1, 1])


@pytest.mark.slow
def test_both_ends_of_float64(x64):
    assert_kept_by_prediction(
        np.array([[1e308, -1e308], [-1e308, 1e308], [-1e307, -1e307]]), [1, 1, -1]
    )
    vanishing = jboost.pair.optimal_separator(
        np.array([[1e300, 0.0], [1e-300, 0.0], [2e-300, 0.0]]), [1, -1, 1]
    )
    assert (int(vanishing.status), float(vanishing.lower_bound)) == (Status.PRECISION_LIMIT, 0)


@pytest.mark.slow
def test_weights_too_far_apart_are_not_called_optimal():
    points, labels = np.float32([[0, 0], [1, 0], [2, 0], [3, 0]]), [1, -1, -1, -1]
    for method in ("sweep", "branch_and_bound"):
        found = jboost.pair.optimal_separator(
            points, labels, weights=np.float32([1e20, 1, 1, 1]), method=method
        )
        assert found.loss == 0 or (found.status, found.lower_bound) == (Status.PRECISION_LIMIT, 0)


def scaled_sets():
    """Points whose scale, offset or axes are far from 1; each is separable or nearly so in one
    direction only.
    """
    rng = np.random.default_rng(51)
    plain = rng.standard_normal((9, 2))
    for factors in (
        (1, 1),
        (2.0**12, 2.0**-12),
        (2.0**30, 2.0**-20),
        (1e30, 1e30),
        (1e-30, 1e-30),
        (1e18, 1e-12),
    ):
        yield plain * factors
    yield plain * 1e-2 + 1e6
    tenths = rng.integers(-30, 30, 9) / 10
    yield np.stack([tenths, np.round(3 * tenths, 1)], axis=1)
    yield np.array([[3e38, 3e38], [-3e38, -3e38]] + [[0, 0]] * 7)
    yield 2.0**31 - 1 - rng.integers(0, 6, (9, 2))


@pytest.mark.slow
def test_any_scale_of_float32():
    points = np.stack(list(scaled_sets())).astype(np.float32)
    labels = np.random.default_rng(52).choice([-1, 1], (len(points), 9))
    mask = np.ones(labels.shape, bool)
    separators = solve_batch(points, labels, np.ones(labels.shape, np.float32), mask)
    for row in range(len(points)):
        assert_optimal(
            separators, row, points[row], labels[row], np.ones(9, int), mask[row], margin=False
        )


@pytest.mark.parametrize("scale", [1e308, 1e-305])
@pytest.mark.slow
def test_the_ends_of_float64(x64, scale):
    separator = jboost.pair.optimal_separator(np.array([[1.0, 0], [-1.0, 0]]) * scale, [1, -1])
    assert (int(separator.status), float(separator.loss)) == (Status.OPTIMAL, 0)
    assert float(separator.margin) == pytest.approx(scale)
    heavy = jboost.pair.optimal_separator([[0.0, 0], [1.0, 0]], [1, -1], weights=[scale, scale])
    assert (float(heavy.loss), float(heavy.lower_bound)) == (0, 0)


@pytest.mark.slow
def test_a_constant_has_bias_one_at_any_scale():
    separator = jboost.pair.optimal_separator(
        np.full((2, 2), 3e38, np.float32), [1, -1], weights=[2, 1]
    )
    assert (float(separator.bias), float(separator.loss), separator.normal.tolist()) == (
        1,
        1,
        [0, 0],
    )


@pytest.mark.slow
def test_bounds_are_rounded_down_and_losses_summed_as_given():
    same = np.zeros((2, 2), np.float32)
    for weights in ([1, 1e-20], [1 - 2.0**-24, 0.6 * 2.0**-60], [2**25, 2**24 + 3]):
        separator = jboost.pair.optimal_separator(same, [1, -1], weights=np.asarray(weights))
        assert float(separator.lower_bound) <= min(weights)
        assert float(separator.loss) == pytest.approx(min(weights), rel=1e-6)


@pytest.mark.slow
def test_thousands_of_directions_that_quick_keys_cannot_tell_apart():
    rng = np.random.default_rng(53)
    labels = rng.choice([-1, 1], 300)
    points = rng.standard_normal((300, 2)).astype(np.float32)
    plain = jboost.pair.optimal_separator(points, labels)
    stretched = jboost.pair.optimal_separator(points * np.float32([2**30, 2**-20]), labels)
    assert (float(stretched.loss), int(stretched.status)) == (float(plain.loss), Status.OPTIMAL)


@pytest.mark.parametrize("word_bits", [64, 32])
@pytest.mark.slow
def test_works_under_shard_map_and_has_no_derivative(word_bits):
    points, labels, _, _ = random_degenerate_sets(54, 8, 6)
    solve = jax.vmap(
        functools.partial(jboost.pair.optimal_separator, config=SweepConfig(word_bits=word_bits))
    )
    mesh = jax.make_mesh((jax.device_count(),), ("sets",), axis_types=(jax.sharding.AxisType.Auto,))
    sharded = jax.jit(
        jax.shard_map(
            solve, mesh=mesh, in_specs=(jax.P("sets"), jax.P("sets")), out_specs=jax.P("sets")
        )
    )
    arguments = points.astype(np.float32), labels
    jax.tree.map(np.testing.assert_array_equal, sharded(*arguments), solve(*arguments))
    with pytest.raises(TypeError, match="jboost.pair.optimal_separator has no derivative"):
        jax.grad(lambda p: jnp.sum(solve(p, labels).loss))(arguments[0])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"points": np.zeros(3)}, r"points has shape \[3\]: expected shape \[n, 2\]"),
        ({"points": np.zeros((3, 4))}, r"points has shape \[3, 4\]"),
        ({"points": np.zeros((3, 2), bool)}, "points has dtype bool"),
        ({"labels": np.ones(4)}, r"labels has shape \[4\]: expected shape \[3\]"),
        ({"weights": np.ones(2)}, r"weights has shape \[2\]"),
        ({"mask": np.ones(3)}, "mask has dtype float32"),
        ({"tie_break": "loss"}, "tie_break is 'loss': the options are 'margin', None"),
        ({"fat": "thin"}, "fat is 'thin'"),
        ({"method": "guess"}, "method is 'guess'"),
        ({"config": {"word_bits": 32}}, "config is a dict: expected a jboost.pair.SweepConfig"),
        ({"points": np.full((3, 2), 1e300)}, r"points\[0, 0\] is 1e\+300, more than float32 holds"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        jboost.pair.optimal_separator(
            **({"points": np.zeros((3, 2)), "labels": np.ones(3)} | arguments)
        )


def test_config_is_checked():
    with pytest.raises(ValueError, match="word_bits is 16"):
        SweepConfig(word_bits=16)
    for size in (0, 1.5, True, "a"):
        with pytest.raises(ValueError, match=f"chunk_pairs is {size!r}: it is an integer"):
            SweepConfig(chunk_pairs=size)
    with (
        jax.enable_x64(True),
        pytest.raises(ValueError, match="points has dtype float64: config.word_bits = 32"),
    ):
        jboost.pair.optimal_separator(
            np.zeros((3, 2)), np.ones(3), config=SweepConfig(word_bits=32)
        )


def plain_sweep(points, labels):
    """Least number of errors over lines through each positive and a hair off it, by sorted angles
    in float64 numpy; general position only.
    """
    best = min(np.sum(labels > 0), np.sum(labels < 0))
    for centre in points[labels > 0]:
        offsets = points - centre
        away = np.any(offsets != 0, axis=1)
        angles = np.arctan2(offsets[away, 1], offsets[away, 0])
        upper = angles >= 0
        order = np.argsort(np.where(upper, angles, angles + np.pi))
        positive, upper = labels[away][order] > 0, upper[order]
        start = np.sum(upper != positive)
        losses = start + np.cumsum(np.where(positive == upper, 1, -1))
        best = min(best, losses.min(), (away.sum() - losses).min())
    return best


@pytest.mark.slow
@pytest.mark.parametrize("chunk_pairs", [None, 1, 5000])
def test_larger_sets_against_a_plain_sweep_in_any_chunk(chunk_pairs):
    rng = np.random.default_rng(41)
    labels = np.where(rng.random(400) < 0.4, 1, -1)
    points = (rng.standard_normal((400, 2)) + 0.5 * labels[:, None]).astype(np.float32)
    separator = jboost.pair.optimal_separator(
        points, labels, config=SweepConfig(chunk_pairs=chunk_pairs)
    )
    assert separator.loss == separator.lower_bound == plain_sweep(points.astype(np.float64), labels)
    assert (
        check_separator(points, labels, None, separator.normal, separator.anchor, separator.bias)[0]
        == separator.loss
    )


@pytest.mark.slow
def test_both_labels_at_every_place():
    """Every line loses exactly half of the points, and a constant has the largest margin."""
    points = np.repeat(np.random.default_rng(42).integers(0, 50, (40, 2)), 2, axis=0)
    separator = jboost.pair.optimal_separator(points.astype(np.float32), np.tile([1, -1], 40))
    assert (float(separator.loss), float(separator.margin)) == (40, np.inf)


def test_confidence_weights_are_log_odds():
    confident = jboost.pair.confidence_weights(
        [1, 1, -1, -1], np.array([0.75, 0.2, 0.5, 1.0], np.float32)
    )
    assert confident.labels.tolist() == [1, -1, -1, -1]
    np.testing.assert_allclose(confident.weights[:2], [np.log(3), np.log(4)], rtol=1e-6)
    assert confident.mask.tolist() == [True, True, False, True]
    assert np.isfinite(confident.weights[3])
    assert confident.weights[3] > 15
    with pytest.raises(ValueError, match="probabilities has dtype int32"):
        jboost.pair.confidence_weights([1], [1])
    for bad in (1.5, -0.5, np.nan):
        with pytest.raises(ValueError, match=r"probabilities\[1\] is"):
            jboost.pair.confidence_weights([1, -1], [0.5, bad])
        assert np.isnan(
            jax.jit(jboost.pair.confidence_weights)(
                np.array([1, -1]), np.array([0.25, bad])
            ).weights
        ).tolist() == [False, True]
    with pytest.raises(ValueError, match=r"labels\[0\] is 0"):
        jboost.pair.confidence_weights([0, 1], [0.25, 0.75])


def test_confidence_weights_near_one_half_keep_their_ratios():
    """The difference of the logarithms of p and 1 - p gave weights that were wrong by half."""
    near = 0.5 + np.array([-4, -3, -2, -1, 2, 4, 6]) * 2.0**-25
    probabilities = np.array([*near, 2.0**-20, 0.03125, 0.4375, 0.5625, 1 - 2.0**-20], np.float32)
    exact = [math.log1p((2 * p - 1) / (1 - p)) for p in probabilities.tolist()]
    found = jboost.pair.confidence_weights(np.ones(len(exact), int), probabilities)
    np.testing.assert_allclose(found.weights, np.abs(exact), rtol=1e-6)
    assert found.labels.tolist() == np.sign(exact).tolist()


@pytest.mark.slow
def test_no_loss_below_the_lower_bound(x64):
    """Points that lie nearly on a line: what floats lose may be less than what any real line does,
    and both are returned.
    """
    random = np.random.default_rng(3)
    along = random.normal(size=(40, 6, 1)) * np.array([1.0, 5.0223])
    points = along + 1e-17 * random.normal(size=(40, 6, 2))
    labels = random.choice([-1, 1], size=(40, 6))
    weights = 2.0 ** random.integers(-10, 5, size=(40, 6))
    found = jax.vmap(
        lambda *data: jboost.pair.optimal_separator(
            data[0], data[1], weights=data[2], method="sweep"
        )
    )(points, labels, weights)
    assert (found.lower_bound <= found.loss).all()


def test_a_watcher_is_a_function():
    with pytest.raises(ValueError, match="on_step is 1: expected a function"):
        jboost.pair.optimal_separator([[0.0, 0.0], [1.0, 0.0]], [1, -1], on_step=1)


@pytest.mark.slow
def test_the_largest_integer_is_beyond_the_float(x64):
    """2^63 - 1 becomes 2^63, and the cast back would say that nothing was lost: a triangle would be
    three points in a row.
    """
    points = np.array([[0, 0], [2**62, 2**61], [2**63 - 1, 2**62]], np.int64)
    found = jboost.pair.optimal_separator(points, [1, -1, 1])
    assert (found.status, found.lower_bound) == (Status.PRECISION_LIMIT, 0)
    assert jboost.combine.fit(points, [1, -1, 1]).lower_bound == 0
