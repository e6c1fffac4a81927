"""The ground floor: data sets, checks, statuses, numerics, loops and folds."""

import dataclasses
import types
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost.base import batching, brackets, check, loops, numerics, records


def test_dataset_fills_weights_and_mask():
    dataset = jboost.make_dataset(np.zeros((3, 2)), [1, -1, 1])
    assert dataset.weights.tolist() == [1, 1, 1]
    assert dataset.mask.tolist() == [True] * 3
    batch = jax.vmap(lambda x, y: jboost.make_dataset(x, y))(np.zeros((4, 3, 2)), np.ones((4, 3)))
    assert batch.mask.shape == (4, 3)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {"features": [1.0, 2.0], "labels": [1, -1]},
            r"features has shape \[2\]: expected shape \[m, N, ...\]",
        ),
        (
            {"features": [[1.0], [2.0]], "labels": [1]},
            r"labels has shape \[1\]: expected shape \[2\]",
        ),
        (
            {"features": [[1.0]], "labels": [True]},
            "labels are booleans: labels are -1 or \\+1; map them by 2 \\* numpy.asarray",
        ),
        ({"features": [[1j]], "labels": [1]}, "features has dtype complex64"),
        ({"features": [["a"]], "labels": [1]}, "features is not an array of numbers"),
        ({"features": None, "labels": [1]}, "features is None"),
        ({"features": [[1.0]], "labels": [1], "weights": [[1.0]]}, r"weights has shape \[1, 1\]"),
        (
            {"features": [[1.0]], "labels": [1], "mask": [1.0]},
            "mask has dtype float32: expected kinds boolean",
        ),
        (
            {"features": np.array([[2**40]]), "labels": [1]},
            "features holds integers that do not fit 32 bits",
        ),
        ({"features": [[2**40]], "labels": [1]}, "features holds integers that do not fit 32 bits"),
    ],
)
def test_shapes_and_kinds_are_refused_at_trace_time(arguments, message):
    with pytest.raises(ValueError, match=message):
        jboost.make_dataset(**arguments)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"features": [[0.0], [np.nan], [np.inf]]},
            r"features\[1, 0\] is nan: not a finite number \(2 such in all\); drop the row",
        ),
        (
            {"labels": [1, 2, -1]},
            r"labels\[1\] is 2: labels are -1 or \+1 \(1 such in all\); map the two classes",
        ),
        ({"labels": [1, 0, 1]}, "map 0/1 labels by 2 \\* labels - 1"),
        ({"weights": [1.0, -1.0, 1.0]}, r"weights\[1\] is -1: weights are finite and not negative"),
        ({"weights": [1.0, np.nan, 1.0]}, r"weights\[1\] is nan"),
        ({"weights": [1.0, np.inf, 1.0]}, r"weights\[1\] is inf"),
    ],
)
def test_values_are_refused_on_the_host(change, message):
    sound = {"features": [[0.0], [1.0], [2.0]], "labels": [1, -1, 1]}
    jboost.validate(jboost.make_dataset(**sound))
    with pytest.raises(ValueError, match=message):
        jboost.validate(jboost.make_dataset(**(sound | change)))
    hidden = jboost.make_dataset(**(sound | change), mask=[True, False, False])
    if "labels" not in change or change["labels"][0] == 1:
        jboost.validate(hidden)


def test_validate_refuses_traced_values():
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(lambda x: jboost.validate(jboost.make_dataset(x, [1, -1])))(np.zeros((2, 1)))


def test_every_status_is_explained():
    for status in jboost.status.Status:
        assert jboost.status.explain(status).startswith(status.name)
        assert "Remedy: " in jboost.status.explain(jnp.asarray(int(status)))
    assert jboost.status.explain([0, 2, 2]).startswith("INVALID_INPUT (2 of 3)")
    with pytest.raises(ValueError, match="code is 77"):
        jboost.status.explain(77)
    with pytest.raises(ValueError, match="empty"):
        jboost.status.explain([])
    with pytest.raises(ValueError, match="code is a SimpleNamespace: pass its field `status`"):
        jboost.status.explain(types.SimpleNamespace(loss=1.0, status=0))


def test_choices_name_their_options():
    with pytest.raises(ValueError, match="fat is 'thin': the options are 'removed', 'flipped'"):
        check.choice("fat", "thin", ("removed", "flipped"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (2, "2"),
        (-0.0, "-0"),
        (1 + 2.0**-23, "1.00000012"),
        (float(np.nextafter(1, 2)), "1.0000000000000002"),
        (np.nan, "nan"),
    ],
)
def test_a_number_is_shown_with_the_digits_that_tell_what_is_wrong(x64, given, said):
    with pytest.raises(ValueError, match=f"nu is {said}: expected a number above 0 up to 1"):
        check.number("nu", given, low=0, high=1, open_low=True)


@pytest.mark.parametrize("most", [1, 3, 2**20, 2**30])
def test_the_largest_integers_and_the_first_of_equal_ones(most):
    random = np.random.default_rng(most)
    values = random.integers(-most, most, (50, 400)).astype(np.int32)
    values[::3][random.random((17, 400)) < 0.9] = np.iinfo(np.int32).min
    found, places = jax.jit(jax.vmap(lambda row: numerics.top_k(row, 30)))(jnp.asarray(values))
    wanted = np.argsort(-values.astype(np.int64), axis=1, kind="stable")[:, :30]
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(found, np.take_along_axis(values, wanted, axis=1))


def test_masked_reductions_ignore_what_is_masked():
    values, mask = jnp.array([3.0, jnp.nan, -1.0]), jnp.array([True, False, True])
    assert numerics.masked_min(values, mask, fill=jnp.inf) == -1
    assert numerics.masked_max(values, mask, fill=-jnp.inf) == 3
    assert numerics.masked_sum(values, mask) == 2
    assert numerics.masked_min(values[:0], mask[:0], fill=7.0) == 7
    assert numerics.first_true(jnp.array([False, True, True])) == 1
    assert numerics.first_true(jnp.array([False, False])) == 2


def test_safe_divide_has_no_nan_in_value_or_derivative():
    assert numerics.safe_divide(
        jnp.array([1.0, 0.0]), jnp.array([2.0, 0.0]), fill=5.0
    ).tolist() == [0.5, 5.0]
    assert jax.grad(lambda d: numerics.safe_divide(jnp.array(1.0), d))(0.0) == 0


def test_power_of_two_at_least():
    values = jnp.array([0.0, 1.0, 1.5, -2.0, 2.0000002, 0.7, 3e-30, 1e30])
    assert np.asarray(numerics.power_of_two_at_least(values)).tolist() == [
        1,
        1,
        2,
        2,
        4,
        1,
        2.0**-98,
        2.0**100,
    ]


@pytest.mark.parametrize("shape", [(3, 4), (5, 1), (1, 5), (0, 3), (3, 0)])
def test_products_with_a_transposed_matrix(shape):
    random = np.random.default_rng(sum(shape))
    matrix = random.integers(-4, 5, shape).astype(np.float32)
    for columns in ((), (0,), (1,), (2,), (3,)):
        values = random.integers(-4, 5, (shape[0], *columns)).astype(np.float32)
        np.testing.assert_array_equal(
            jax.jit(numerics.times_transposed)(matrix, values), matrix.T @ values
        )
        twice = jax.vmap(numerics.times_transposed)(
            np.stack([matrix, -matrix]), np.stack([values, values])
        )
        np.testing.assert_array_equal(twice, np.stack([matrix.T @ values, -(matrix.T @ values)]))


def test_products_and_factors_in_the_64_bit_scope_under_vmap():
    def misses(matrix):
        wide = matrix.astype("float64")
        gram = numerics.times_transposed(wide, wide)
        factor = jax.lax.linalg.cholesky(gram, symmetrize_input=False)
        solved = jax.scipy.linalg.cho_solve((factor, True), wide[0])
        return jnp.max(jnp.abs(numerics.times(gram, solved) - wide[0])).astype("float32")

    matrices = np.random.default_rng(0).normal(size=(3, 20, 10)).astype(np.float32)
    missed = jax.jit(jax.vmap(numerics.in_64_bits(misses)))(matrices)
    assert missed.dtype == jnp.float32
    assert (missed < 1e-12).all()


def test_round_down_never_rounds_up(x64):
    assert float(numerics.round_down(jnp.int64(2**53 + 3), jnp.dtype("float64"))) == 2**53 + 2
    assert float(numerics.round_down(jnp.int32(2**24 + 3), jnp.dtype("float32"))) == 2**24 + 2
    assert float(numerics.round_down(jnp.float64(2**24 + 3), jnp.dtype("float32"))) == 2**24 + 2
    assert float(numerics.round_up(jnp.int32(2**24 + 3), jnp.dtype("float32"))) == 2**24 + 4
    assert float(numerics.round_up(jnp.int32(-(2**31)), jnp.dtype("float32"))) == -(2**31)
    for value in (0, 1, 2**24, 2**24 + 2):
        assert float(numerics.round_down(jnp.int64(value), jnp.dtype("float32"))) == value


@pytest.mark.parametrize(
    "value", [1e-40, -1e-40, 1e-300, -1e-300, 1.1754943e-38, -1.1754943e-38, 1e-37, 3e38]
)
def test_rounding_to_fewer_bits_stays_on_its_side_next_to_0(value, x64):
    low, high = (
        np.float64(jax.jit(to, static_argnums=1)(value, jnp.dtype("float32")))
        for to in (numerics.round_down, numerics.round_up)
    )
    assert low <= value <= high
    assert all(end == 0 or abs(end) >= np.finfo(np.float32).tiny for end in (low, high))
    assert high - low <= max(2.0**-22 * abs(value), 2 * np.finfo(np.float32).tiny)


def test_bounded_loop_ends_at_its_cap_on_convergence_and_on_nan():
    def run(start, factor, cap=50):
        return loops.bounded_loop(lambda x: x * factor, lambda x: x > 1e-3, start, max_checks=cap)

    state, checks = run(jnp.array(1.0), 0.5)
    assert (float(state), int(checks)) == (2.0**-10, 10)
    assert int(run(jnp.array(1.0), 1.0)[1]) == 50
    assert int(run(jnp.array(1.0), jnp.nan)[1]) == 1


def test_folds_are_stratified_and_cover_every_example_once():
    labels = np.where(np.arange(25) < 7, 1, -1)
    mask = np.arange(25) != 3
    folds = jboost.folds.stratified_folds(jax.random.key(1), labels, num_folds=4, mask=mask)
    np.testing.assert_array_equal(folds.sum(axis=0), mask)
    for part in (folds, folds[:, labels > 0]):
        assert np.ptp(np.asarray(part.sum(axis=1))) <= 1
    other = jboost.folds.stratified_folds(jax.random.key(2), labels, num_folds=4, mask=mask)
    assert np.any(np.asarray(folds != other))
    with pytest.raises(ValueError, match="num_folds is 1"):
        jboost.folds.stratified_folds(jax.random.key(0), labels, num_folds=1)


def test_predict_refuses_what_is_no_model():
    with pytest.raises(TypeError, match="model is a dict"):
        jboost.predict({}, np.zeros((1, 2)))


def test_bracket_dot_holds_the_exact_sum():
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=(50, 300)).astype(np.float32) for _ in range(2))
    low, high = jax.jit(brackets.bracket_dot)(left, right)
    for row in range(50):
        exact = sum(
            (
                Fraction(float(a)) * Fraction(float(b))
                for a, b in zip(left[row], right[row], strict=True)
            ),
            Fraction(0),
        )
        assert Fraction(float(low[row])) <= exact <= Fraction(float(high[row]))
    assert np.max(high - low) < 1e-4


@pytest.mark.parametrize("wide", [False, True])
def test_sharp_bracket_dot_is_exact_where_nothing_is_rounded_and_valid_elsewhere(wide):
    """Rows of small fractions, of long numbers, of large ones, of infinitesimal ones and of zeros
    beside long numbers.
    """
    rng = np.random.default_rng(1)
    dtype = np.float64 if wide else np.float32
    tiny = np.finfo(dtype).smallest_subnormal
    left = np.stack(
        [
            rng.integers(-9, 9, 6) / 4,
            rng.normal(size=6),
            rng.integers(-9, 9, 6) * 2.0**30,
            np.eye(6)[0],
            np.eye(6)[1],
        ]
    ).astype(dtype)
    right = np.stack(
        [
            rng.integers(-9, 9, 6) / 8,
            rng.normal(size=6),
            np.ones(6),
            np.full(6, tiny),
            np.where(np.arange(6) == 1, 3, 0.1),
        ]
    ).astype(dtype)
    with jax.enable_x64(wide):
        low, high = jax.device_get(jax.jit(brackets.sharp_bracket_dot)(left, right))
    exact = [
        sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(*rows, strict=True))
        for rows in zip(left, right, strict=True)
    ]
    for number, (below, above) in zip(exact, zip(low, high, strict=True), strict=True):
        assert Fraction(float(below)) <= number <= Fraction(float(above))
    assert [
        Fraction(float(low[row])) == exact[row] == Fraction(float(high[row])) for row in (0, 1, 4)
    ] == [True, False, True]
    assert low[3] < high[3]


def test_rounding_outwards_of_negative_numbers(x64):
    value = jnp.float64(-1.0000000001)
    assert (
        float(numerics.round_down(value, jnp.dtype("float32")))
        < -1.0000000001
        < float(numerics.round_up(value, jnp.dtype("float32")))
    )


def test_statuses_are_explained_from_the_gravest_on():
    assert jboost.status.explain([0, 3, 2]).startswith("INVALID_INPUT (1 of 3)")
    assert jboost.status.explain([0, 3]).startswith("ROUND_LIMIT")
    for code in jboost.status.Status:
        assert "Remedy" in jboost.status.explain(code)


def test_records_of_different_classes_have_different_structures():
    @records.register
    @dataclasses.dataclass(frozen=True)
    class First:
        number: float

    @records.register
    @dataclasses.dataclass(frozen=True)
    class Second:
        number: float

    assert jax.tree.structure(First(1.0)) != jax.tree.structure(Second(1.0))
    assert jax.tree.map(lambda leaf: leaf + 1, First(1.0)) == First(2.0)


def test_missing_values_pass_where_they_are_allowed():
    dataset = jboost.make_dataset([[np.nan], [1.0]], [1, -1])
    jboost.validate(dataset, allow_missing=True)
    with pytest.raises(ValueError, match="features"):
        jboost.validate(dataset)
    with pytest.raises(ValueError, match="features"):
        jboost.validate(jboost.make_dataset([[np.inf], [1.0]], [1, -1]), allow_missing=True)


# --- chunks under vmap ----------------------------------------------------------------------------


def test_chunks_are_the_whole_batch(monkeypatch):
    monkeypatch.setattr(batching, "_CACHE_BYTES", 64)
    matrices = jnp.arange(7 * 3 * 3, dtype=float).reshape(7, 3, 3)
    vector = jnp.array([1.0, -1.0, 2.0])
    product = batching.in_chunks(lambda parts: {"product": parts[0] @ parts[1]})
    whole = jax.jit(jax.vmap(lambda matrix: product((matrix, vector))))(matrices)
    np.testing.assert_array_equal(whole["product"], matrices @ vector)
    twice = jax.vmap(jax.vmap(lambda matrix: product((matrix, vector))))(
        matrices[:6].reshape(2, 3, 3, 3)
    )
    np.testing.assert_array_equal(twice["product"].reshape(6, 3), (matrices @ vector)[:6])
    np.testing.assert_array_equal(product((matrices[0], vector))["product"], matrices[0] @ vector)


def test_members_of_a_batch_have_their_own_derivatives():
    """Where what is differentiated, and what is not, differ from member to member; None is no
    array.
    """
    scaled = batching.in_chunks(
        lambda one, other, _: {"sum": jnp.sum(one * other), "none": None}, at_once=1
    )
    one, other, along = (
        jnp.arange(6.0).reshape(3, 2),
        1 + jnp.arange(6.0).reshape(3, 2),
        jnp.ones((3, 2)),
    )
    values, slopes = jax.vmap(
        lambda a, b, t: jax.jvp(lambda x: scaled(x, b, None)["sum"], (a,), (t,))
    )(one, other, along)
    np.testing.assert_array_equal(values, jnp.sum(one * other, axis=1))
    np.testing.assert_array_equal(slopes, jnp.sum(other, axis=1))
    values, slopes = jax.jvp(
        lambda x: jax.vmap(lambda a, b: scaled(a, b, None)["sum"])(x, other), (one,), (along,)
    )
    np.testing.assert_array_equal(slopes, jnp.sum(other, axis=1))
    constant = batching.in_chunks(lambda x, key: (jnp.sum(x), jnp.ones((), jnp.int32)), at_once=1)
    _, slopes = jax.jvp(
        lambda x: jax.vmap(constant)(x, jax.random.split(jax.random.key(0), 3))[0], (one,), (along,)
    )
    np.testing.assert_array_equal(slopes, jnp.full((3,), 2.0))
    np.testing.assert_array_equal(
        jax.vmap(jax.grad(lambda x, b: scaled(x, b, None)["sum"]))(one, other), other
    )


@pytest.mark.parametrize(
    "value",
    [None, 3, "a", jnp.zeros(2), np.zeros((2, 2), np.uint32), jax.random.split(jax.random.key(0))],
)
def test_what_is_no_key_is_said(value):
    with pytest.raises(
        ValueError, match=r"key is .*: expected a random key, as jax.random.key\(0\)"
    ):
        jboost.folds.stratified_folds(value, [1, 1, -1, -1], num_folds=2)


def test_both_kinds_of_keys_are_taken():
    for key in (jax.random.key(1), jax.random.PRNGKey(1), np.asarray(jax.random.PRNGKey(1))):
        held_out = jboost.folds.stratified_folds(key, [1, 1, -1, -1], num_folds=2)
        np.testing.assert_array_equal(
            held_out, jboost.folds.stratified_folds(jax.random.key(1), [1, 1, -1, -1], num_folds=2)
        )


def test_a_watcher_ends_a_loop_by_false_alone():
    assert loops.goes_on(None, 0, 0)
    for answers, wanted in (((None, True, np.True_), True), ((False, np.False_), False)):
        assert {
            loops.goes_on(lambda state, info, answer=answer: answer, 0, 0) for answer in answers
        } == {wanted}


@pytest.mark.parametrize("size", [*range(10), 4095, 4096, 30_000])
def test_first_greatest_matches_numpy(size):
    random = np.random.default_rng(size)
    for values in (
        random.integers(-2, 3, size).astype(float),
        random.normal(size=size),
        np.full(size, -np.inf),
        np.full(size, np.inf),
    ):
        index, largest = numerics.first_greatest(jnp.asarray(values))
        assert index == (values.argmax() if size else 0)
        assert largest == np.float32(values.max(initial=-np.inf))
    if size:
        spoilt = jnp.asarray(random.normal(size=size)).at[size // 2].set(jnp.nan)
        assert numerics.first_greatest(spoilt)[0] == size
