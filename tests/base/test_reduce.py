"""Reductions that a CPU compiles as one kernel, against NumPy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from jboost.base import named_axis, numerics, reduce
from marks import slow

SHAPES = ((1,), (2,), (33,), (200,), (5000,), (3, 40), (0,), (4, 0))


def _numbers(shape, dtype):
    return np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(dtype)


def _over(shape):
    return (-1, 0, tuple(range(len(shape))))


@jax.jit
def _reduce_all(arrays):
    """Each reduction of each array over each axis in question."""
    return [
        (
            reduce.total(values, axis=axis),
            reduce.totals(values, values * values, axis=axis)[1],
            reduce.largest(values, axis=axis),
            reduce.least(values, axis=axis),
            *reduce.extremes(values, axis=axis),
        )
        for values in arrays
        for axis in _over(values.shape)
    ]


@pytest.mark.parametrize("shape", [(40,), (4096,), (70_000,), (300, 20), (3, 5000), (2, 4, 600)])
def test_extremes_are_nan_where_a_number_is(shape):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for spoiled in (values, np.where(np.arange(shape[-1]) == shape[-1] // 2, np.nan, values)):
        expected = (spoiled.max(-1), spoiled.min(-1))
        for found in (
            (reduce.largest(spoiled), reduce.least(spoiled)),
            jax.jit(lambda given: reduce.extremes(given)[::-1])(spoiled),
            jax.jit(lambda given: reduce.several((reduce.LARGEST, given), (reduce.LEAST, given)))(
                spoiled
            ),
        ):
            jax.tree.map(np.testing.assert_array_equal, found, expected)
        if len(shape) == 2:  # what is small for one is large for the batch
            batch = jax.jit(jax.vmap(lambda row: (reduce.largest(row), reduce.least(row))))
            jax.tree.map(np.testing.assert_array_equal, batch(spoiled), expected)


@pytest.mark.parametrize("axis_type", (AxisType.Auto, AxisType.Explicit))
def test_extremes_over_a_mesh_are_nan_where_a_number_is(axis_type):
    mesh = jax.make_mesh((8,), ("examples",), axis_types=(axis_type,))
    values = np.arange(64, dtype=np.float32)
    values[5] = np.nan
    with jax.set_mesh(mesh):
        spread = jax.device_put(values, jax.P("examples"))
        assert jnp.isnan(jax.jit(reduce.largest)(spread))
        assert jnp.isnan(jax.jit(reduce.least)(spread))


def test_extremes_over_a_named_axis_are_nan_where_a_number_is():
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    for spoiled in (values, np.where(values == 21, np.nan, values)):
        found = jax.pmap(
            lambda part: (
                named_axis.largest(part, ~(part > 99), "examples"),
                named_axis.least(part, ~(part > 99), "examples"),
                *named_axis.several(
                    (reduce.LARGEST, part), (reduce.LEAST, part), axis_name="examples"
                ),
            ),
            "examples",
        )(spoiled)
        for one, expected in zip(found, 2 * (spoiled.max(), spoiled.min()), strict=True):
            np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize("dtype", (np.float32, np.int32))
def test_totals_and_extremes_match_numpy(dtype):
    high, low = (
        (np.inf, -np.inf) if dtype == np.float32 else (np.iinfo(dtype).max, np.iinfo(dtype).min)
    )
    arrays = [_numbers(shape, dtype) for shape in SHAPES]
    expected = [
        (
            values.sum(axis),
            (values * values).sum(axis),
            values.max(axis, initial=low),
            *[values.min(axis, initial=high)] * 2,
            values.max(axis, initial=low),
        )
        for values in arrays
        for axis in _over(values.shape)
    ]
    for ours, theirs in zip(_reduce_all(arrays), expected, strict=True):
        assert all(each.dtype == dtype for each in ours)
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_tests_of_masks_match_numpy():
    masks = [
        mask
        for size in (0, 1, 33, 200)
        for mask in (np.arange(size) % 3 == 0, np.zeros(size, bool), np.ones(size, bool))
    ]
    found = jax.jit(
        lambda masks: [
            (reduce.any_true(mask), reduce.all_true(mask), reduce.count(mask)) for mask in masks
        ]
    )(masks)
    assert [tuple(each) for each in found] == [
        (mask.any(), mask.all(), mask.sum()) for mask in masks
    ]


def test_nan_is_the_largest_and_the_least():
    values = np.where(np.arange(100) == 7, np.nan, 1.0)
    found = jax.jit(
        lambda values: (reduce.largest(values), *reduce.extremes(values), reduce.total(values))
    )(values)
    assert np.isnan(found).all()


def test_reductions_are_right_in_the_64_bit_scope_under_vmap():
    def widely(values):
        wide = values.astype("float64") * (1 + 2.0**-40)
        excess = (
            reduce.total(wide - values) * 2.0**40,
            reduce.totals(wide, wide - values)[1] * 2.0**40,
        )
        return *(each.astype("float32") for each in excess), reduce.count(wide != values)

    values = jnp.asarray(_numbers((3, 100), np.float32))
    sums = values.sum(-1)
    first, second, differ = jax.jit(jax.vmap(numerics.in_64_bits(widely)))(values)
    np.testing.assert_array_equal(first, sums)
    np.testing.assert_array_equal(second, sums)
    np.testing.assert_array_equal(differ, (values != 0).sum(-1))


@pytest.mark.parametrize("derivative", (slow(jax.grad), jax.jacfwd, slow(jax.hessian)))
def test_derivatives_are_those_of_jax_numpy(derivative, x64):
    values = jnp.sin(jnp.arange(100.0))
    ours = jax.jit(
        derivative(
            lambda x: reduce.largest(x) ** 2 + reduce.total(jnp.exp(x)) * reduce.totals(x, x**3)[1]
        )
    )(values)
    plain = jax.jit(derivative(lambda x: jnp.max(x) ** 2 + jnp.sum(jnp.exp(x)) * jnp.sum(x**3)))(
        values
    )
    np.testing.assert_allclose(ours, plain, rtol=1e-12)


def test_several_reductions_in_one_pass_match_numpy():
    for size in (0, 1, 33, 200, 5000):
        numbers = _numbers((3, size), np.float32)
        masks = numbers > 0
        found = jax.jit(
            lambda numbers, masks: reduce.several(
                (reduce.SUM, numbers),
                (reduce.LARGEST, numbers),
                (reduce.LEAST, numbers),
                (reduce.ANY, masks),
                (reduce.ALL, masks),
            )
        )(numbers, masks)
        extremes = numbers.max(-1, initial=-np.inf), numbers.min(-1, initial=np.inf)
        expected = (numbers.sum(-1), *extremes, masks.any(-1), masks.all(-1))
        jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_lexicographic_least_matches_sorted_tuples():
    rng = np.random.default_rng(0)
    keys = (
        rng.integers(0, 3, (2, 4, 50)).astype(np.float32),
        np.tile(rng.permutation(50).astype(np.int32), (2, 4, 1)),
    )
    carried = rng.random((2, 4, 50)) < 0.5, rng.normal(size=(2, 4, 50)).astype(np.float32)
    for axis in range(3):
        arrays = [np.moveaxis(array, 2, axis) for array in (*keys, *carried)]
        found = jax.jit(
            lambda *arrays, axis=axis: reduce.lexicographic_least(
                *arrays[:2], carried=arrays[2:], axis=axis
            )
        )(*arrays)
        for row in np.ndindex(2, 4):
            assert tuple(part[row] for part in found) == min(
                zip(*(array[row] for array in (*keys, *carried)), strict=True)
            )
    none = reduce.lexicographic_least(
        jnp.zeros(0), jnp.zeros(0, jnp.int32), carried=[jnp.zeros(0, bool)]
    )
    assert [float(part) for part in none[::2]] == [np.inf, 0]


def test_two_lexicographic_leasts_match_sorted_tuples():
    rng = np.random.default_rng(1)
    numbers = np.tile(rng.permutation(50).astype(np.int32), (4, 1))
    first, second = (
        (rng.integers(0, 3, (4, 50)).astype(np.float32), numbers),
        (rng.integers(0, 3, (4, 50)).astype(np.int32), -numbers),
    )
    for keys, found in zip(
        (first, second), jax.jit(reduce.lexicographic_leasts)(first, second), strict=True
    ):
        for row in range(4):
            assert tuple(part[row] for part in found) == min(
                zip(*(array[row] for array in keys), strict=True)
            )


@pytest.mark.parametrize("values", ([3, 1, 2, 1], [5.0], [np.inf, np.inf], [-1.0, 4.0, 4.0]))
def test_first_extremes_match_numpy(values):
    (least, at_least), (largest, at_largest) = (
        reduce.first_least(jnp.array(values)),
        reduce.first_largest(jnp.array(values)),
    )
    assert (least, at_least, largest, at_largest) == (
        min(values),
        np.argmin(values),
        max(values),
        np.argmax(values),
    )


def test_sums_and_extremes_of_several_arrays_match_numpy():
    arrays = [_numbers((3, 200), dtype) for dtype in (np.int32, np.float32, np.int32)]
    for ours, array in zip(reduce.sums(*arrays), arrays, strict=True):
        np.testing.assert_array_equal(ours, array.sum(-1))
    least, largest = reduce.extremes(arrays[0], arrays[1])
    np.testing.assert_array_equal(least, arrays[0].min(-1))
    np.testing.assert_array_equal(largest, arrays[1].max(-1))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_precise_sums_are_rounded_once_and_have_derivatives(dtype, x64):
    values = (np.random.default_rng(3).random((3, 3001)) + 1e-3).astype(dtype)
    exact = np.array([math.fsum(row) for row in values.astype(np.float64)])
    np.testing.assert_allclose(
        jax.jit(numerics.precise_sum)(values), exact, rtol=2 * np.finfo(dtype).eps
    )
    first, second = (
        derivative(lambda row: numerics.precise_sum(row**2) ** 2)(values[0, :5])
        for derivative in (jax.grad, jax.hessian)
    )
    squares, row = np.sum(values[0, :5].astype(float) ** 2), values[0, :5].astype(float)
    np.testing.assert_allclose(first, 4 * squares * row, rtol=1e-5)
    np.testing.assert_allclose(second, 8 * np.outer(row, row) + 4 * squares * np.eye(5), rtol=1e-5)


def test_reductions_outside_jit_compile_once(compilations):
    mask, numbers = _numbers((70,), np.int32) > 0, jnp.asarray(_numbers((70,), np.float32))

    def reduce_all():
        return (
            reduce.total(numbers),
            reduce.count(mask),
            reduce.extremes(numbers),
            reduce.first_least(numbers),
        )

    reduce_all()
    before = compilations()
    reduce_all()
    assert compilations() == before
