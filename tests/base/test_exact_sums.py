"""Sums for any order: the same bits for every order and division, and `math.fsum` as the oracle."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jboost.base import exact_sums, named_axis, numerics, reduce
from placing import mesh_of, put

DTYPES = (np.float32, np.float64)


def numbers(size, dtype, seed=0):
    """Numbers of either sign whose sizes differ by many orders of magnitude."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=size) * np.exp(rng.normal(scale=6, size=size))).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_total_is_that_of_every_order_and_near_the_exact_sum(dtype):
    with jax.enable_x64(True):
        values = numbers(1000, dtype)
        found = exact_sums.total(jnp.asarray(values), (0,))
        assert found.dtype == dtype
        for seed in range(5):
            order = np.random.default_rng(seed).permutation(1024)
            padded = np.pad(values, (0, 24))[order]
            assert exact_sums.total(jnp.asarray(padded), (0,)) == found
        exact = math.fsum(values.astype(float))
        lost = len(values) * 2.0**-57 * np.abs(values).max() + np.finfo(dtype).eps * abs(exact)
        assert abs(float(found) - exact) <= lost


@pytest.mark.parametrize("num_devices", [2, 8])
def test_total_of_sharded_numbers_is_that_of_one_device(num_devices):
    values = numbers((3, 64), np.float32).T
    alone = jax.jit(lambda given: exact_sums.total(given, (0,)))(values)
    mesh = mesh_of(num_devices, kind=jax.sharding.AxisType.Auto)
    with jax.set_mesh(mesh):
        spread = jax.jit(lambda given: exact_sums.total(given, (0,)))(put(values, mesh))
    assert np.array_equal(alone, spread)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [0.0, -0.0],
        [1e-300, 2.0, -2.0],
        [np.inf, 1.0],
        [-np.inf, 1.0],
        [np.inf, -np.inf],
        [np.nan, 1.0],
        [1e308, -1e308],
    ],
)
def test_total_of_special_numbers_is_that_of_numpy(values):
    with jax.enable_x64(True):
        found = float(exact_sums.total(jnp.asarray(values, jnp.float64), (0,)))
        with np.errstate(invalid="ignore"):
            # 1e-300 is below 2^-57 times 2, and within the error that is allowed
            expected = math.fsum(values) if np.isfinite(values).all() else np.sum(values)
    assert np.isnan(found) == np.isnan(expected)
    assert np.isnan(expected) or found == expected or abs(found - expected) <= 2.0**-56


def test_more_terms_than_2_to_the_24_take_more_parts(monkeypatch):
    monkeypatch.setattr(exact_sums, "_FEW", (4, 2))
    with jax.enable_x64(True):
        values = numbers(100, np.float64)
        found = exact_sums.total(jnp.asarray(values), (0,))
        exact = math.fsum(values)
        assert abs(float(found) - exact) <= 1e-15 * abs(exact)
        assert exact_sums.total(jnp.asarray(values[::-1]), (0,)) == found


@pytest.mark.parametrize("reverse", [False, True])
def test_running_total_does_not_depend_on_padding(reverse):
    values = numbers((2, 50), np.float32).astype(np.float64)
    with jax.enable_x64(True):
        found = exact_sums.running_total(jnp.asarray(values), reverse=reverse)
        padded = exact_sums.running_total(jnp.pad(values, ((0, 0), (0, 30))), reverse=reverse)
    assert np.array_equal(found, padded[:, :50])
    for row, sums in zip(values, np.asarray(found), strict=True):
        for index, one in enumerate(sums):
            part = row[index:] if reverse else row[: index + 1]
            assert abs(one - math.fsum(part)) <= 50 * 2.0**-57 * np.abs(values).max() + 1e-15 * abs(
                one
            )


def test_scope_changes_the_sums_of_base_and_ends():
    values = numbers(999, np.float32)
    ones = np.random.default_rng(1).uniform(-1, 1, 999).astype(np.float32)

    def sums(given, small):
        return (
            reduce.total(given),
            reduce.totals(given, -given)[1],
            numerics.precise_sum(given),
            named_axis.total(given, None),
            numerics.product(given, small[:, None])[0],
            numerics.product(small[None, :], given)[0],
        )

    run = jax.jit(sums)
    assert not exact_sums.are_on()
    run(values, ones)
    with exact_sums.scope():
        assert exact_sums.are_on()
        inside = exact_sums.outside(run(values, ones))
        turned = exact_sums.outside(run(values[::-1].copy(), ones[::-1].copy()))
    assert not exact_sums.are_on()
    assert [float(one) for one in inside] == [float(one) for one in turned]
    exact = math.fsum(values.astype(float))
    for one, sign in zip(inside[:4], (1, -1, 1, 1), strict=True):
        assert np.float32(sign * exact) == one
    product = np.float32(math.fsum(values.astype(float) * ones))
    assert inside[4] == inside[5] == product
    assert all(isinstance(one.sharding, jax.sharding.SingleDeviceSharding) for one in inside)


def test_derivative_of_total_is_that_of_a_sum():
    values, tangents = numbers(20, np.float32), numbers(20, np.float32, seed=1)
    with exact_sums.scope():
        _, found = jax.jvp(lambda given: reduce.total(given), (values,), (tangents,))
        slope = jax.grad(lambda given: reduce.total(given))(jnp.asarray(values))
    assert np.allclose(found, tangents.astype(float).sum(), rtol=1e-5)
    assert np.array_equal(slope, np.ones(20))


def test_length_is_rounded_up_in_the_scope():
    assert exact_sums.length(1003) == 1003
    with exact_sums.scope():
        for size, expected in ((0, 12), (3, 12), (4096, 12), (4097, 18), (2**18 + 1, 24)):
            assert exact_sums.length(size) == 2**expected
        for num_devices in (2, 8, 4096):  # a power of two: padding does not change it
            for size in (1, 4095, 4096, 4097, 2**18, 2**18 + 1):
                padded = -(-size // num_devices) * num_devices
                assert exact_sums.length(padded) == exact_sums.length(size)


def test_errors_and_lost_terms_are_those_of_the_documentation():
    with jax.enable_x64(True):
        assert exact_sums.total(jnp.asarray([1e-300, 2e-300]), (0,)) == 0
        assert exact_sums.total(jnp.full(3, 0.9 * 2.0**-957), (0,)) == 0
        assert exact_sums.total(jnp.full(3, 2.0**-956), (0,)) == 3 * 2.0**-956
        for seed in range(5):
            values = np.random.default_rng(seed).uniform(2.0**-60, 2.0**-50, 100)
            values[70] = 1.0
            lost = 100 * 2.0**-57
            sums = np.asarray(exact_sums.running_total(jnp.asarray(values)))
            for index, one in enumerate(sums):
                exact = math.fsum(values[: index + 1])
                assert abs(one - exact) <= lost + 2.0**-53 * exact
        # small terms before a large one lose digits
        assert exact_sums.running_total(jnp.asarray([1e-20, 1.0]))[0] == 0


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (7, 50), (40, 33), (9, 32)])
def test_products_by_blocks_are_the_exact_ones(shape, monkeypatch):
    monkeypatch.setattr(exact_sums, "_BLOCK", 1)
    rng = np.random.default_rng(0)
    matrix = rng.uniform(-1, 1, shape).astype(np.float32)
    left, right = (numbers(size, np.float32) for size in shape)
    wide = matrix.astype(float)
    with exact_sums.scope():
        below, beside = (
            jax.jit(lambda *given: numerics.product(*given))(*given)
            for given in ((left, matrix), (matrix, right))
        )
    assert below.shape == shape[1:]
    assert beside.shape == shape[:1]
    for one, column in zip(np.asarray(below), wide.T, strict=True):
        assert one == np.float32(math.fsum(left.astype(float) * column))
    for one, row in zip(np.asarray(beside), wide, strict=True):
        assert one == np.float32(math.fsum(right.astype(float) * row))


def test_products_take_little_memory_beside_the_matrix():
    shape = (20_000, 200)
    arrays = [jax.ShapeDtypeStruct(size, np.float32) for size in (shape, shape[1:], shape[:1])]
    matrix, right, left = arrays
    with exact_sums.scope():
        for given in ((matrix, right), (left, matrix)):
            compiled = jax.jit(lambda *some: numerics.product(*some)).lower(*given).compile()
            # blocks of 16 columns of 64 bits, of which XLA holds a few
            assert compiled.memory_analysis().temp_size_in_bytes <= 6 * 20_000 * 16 * 8


def test_derivatives_of_products_are_those_of_matmul():
    rng = np.random.default_rng(0)
    matrix = rng.uniform(-1, 1, (6, 4)).astype(np.float32)
    left, right = (rng.normal(size=size).astype(np.float32) for size in (6, 4))
    with exact_sums.scope():
        slopes = jax.grad(lambda *some: numerics.product(*some) @ left, (0, 1))(matrix, right)
        others = jax.grad(lambda *some: numerics.product(*some) @ right, (0, 1))(left, matrix)
    slopes, others = exact_sums.outside((slopes, others))
    outer = np.outer(left, right)
    assert np.allclose(slopes[0], outer, rtol=1e-5)
    assert np.allclose(slopes[1], matrix.T @ left, rtol=1e-5)
    assert np.allclose(others[0], matrix @ right, rtol=1e-5)
    assert np.allclose(others[1], outer, rtol=1e-5)


def test_running_total_refuses_a_derivative():
    with jax.enable_x64(True):
        values = jnp.asarray([1.0, 2.0])
        assert exact_sums.running_total(values)[1] == 3
        with pytest.raises(TypeError, match="deterministic fit has no derivative"):
            jax.grad(lambda given: exact_sums.running_total(given)[1])(values)
