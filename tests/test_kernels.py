"""Kernels against quadrature, drawn planes and closed forms."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jboost import kernels
from marks import slow, slow_but
from tests.oracles import kernels as oracle

DIMENSIONS = (1, 2, 3, 5, 10)
RADIUS = 0.5


def pairs(dimension, seed, size=72):
    """Pairs of every kind, [size, d] each: far, near, collinear, nearly collinear, opposite, as
    long as each other; of all lengths.
    """
    rng = np.random.default_rng(seed)
    first = (
        rng.normal(size=(size, dimension))
        / np.sqrt(dimension)
        * 10.0 ** rng.uniform(-2, -0.5, (size, 1))
    )
    near = 10.0 ** rng.uniform(-6, -1, (size, 1)) * np.linalg.norm(first, axis=1, keepdims=True)
    other = (
        rng.normal(size=(size, dimension))
        / np.sqrt(dimension)
        * 10.0 ** rng.uniform(-2, -0.5, (size, 1))
    )
    turned = first + near * rng.normal(size=(size, dimension))
    kinds = (
        other,
        turned,
        first * rng.uniform(-2, 2, (size, 1)),
        first * (1 + near),
        -first + near * rng.normal(size=(size, dimension)),
        turned
        * np.linalg.norm(first, axis=1, keepdims=True)
        / np.linalg.norm(turned, axis=1, keepdims=True),
    )
    second = np.stack(kinds)[np.arange(size) % len(kinds), np.arange(size)]
    return first.astype(np.float32), second.astype(np.float32)


def paired(first, second):
    return np.asarray(
        jax.vmap(lambda a, b: kernels.disagreement(a[None], b[None], RADIUS)[0, 0])(first, second)
    )


@pytest.mark.parametrize("dimension", slow_but(DIMENSIONS, 2))
def test_hyperplanes_equal_quadrature(dimension):
    first, second = pairs(dimension, dimension)
    exact = np.array(
        [oracle.by_directions(a, b, RADIUS) for a, b in zip(first, second, strict=True)]
    )
    found = paired(first, second)
    represented = exact > 1e-36
    assert represented.mean() > 0.8
    np.testing.assert_allclose(found[represented], exact[represented], rtol=1e-5)
    np.testing.assert_array_less(found[~represented], 2e-36)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_the_two_quadratures_agree(dimension):
    for a, b in zip(*pairs(dimension, 50 + dimension), strict=True):
        by_directions, by_caps = oracle.by_directions(a, b, RADIUS), oracle.by_caps(a, b, RADIUS)
        whole = oracle.by_directions(a, 0 * a, RADIUS) + oracle.by_directions(b, 0 * b, RADIUS)
        assert abs(by_directions - by_caps) <= 1e-7 * whole


@pytest.mark.slow
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_hyperplanes_equal_drawn_planes(dimension):
    rng = np.random.default_rng(dimension)
    points = rng.uniform(-1, 1, (6, dimension))
    # as far out as the measure goes
    points *= 2 * RADIUS / (np.abs(points).max(axis=1) + np.linalg.norm(points, axis=1))[:, None]
    sides = oracle.sides(points, oracle.draw_planes(dimension, RADIUS, 4_000_000, dimension))
    drawn = (sides[:, None] != sides[None, :]).mean(axis=2)
    found = np.asarray(kernels.disagreement(points, points, RADIUS), np.float64)
    errors = np.sqrt(drawn * (1 - drawn) / 4e6)
    looked_at = found > 1e-3
    assert looked_at.any() or dimension == 10  # where no two points of the cube come to 1e-3
    assert (np.abs(found - drawn)[looked_at] <= 4 * errors[looked_at]).all()


@pytest.mark.slow
def test_equal_points_have_exactly_none_and_the_measure_is_symmetric():
    points = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    points[5], points[6], points[7] = points[4], -points[4], 0
    for kernel in (
        kernels.hyperplanes(20.0),
        kernels.stumps([-9.0] * 3, [9.0] * 3),
        kernels.central_hyperplanes(),
    ):
        matrix = np.asarray(kernel.disagreement(jnp.asarray(points), jnp.asarray(points)))
        assert (np.diagonal(matrix) == 0).all()
        assert matrix[4, 5] == 0
        assert (matrix == matrix.T).all()
        assert (matrix >= 0).all()
        assert (matrix <= 1).all()
        assert np.isfinite(matrix).all()
        assert np.linalg.eigvalsh(0.5 - matrix.astype(np.float64)).min() > -1e-5


@pytest.mark.parametrize("dimension", slow_but([1, 2, 5], 2))
def test_near_points_and_tiny_points_keep_their_relative_accuracy(dimension):
    start = np.full(dimension, 0.25, np.float32)
    shifts = np.zeros((4, dimension), np.float32)
    shifts[:, 0] = [2.0**-24, 2.0**-20, 2.0**-10, 0]
    near = start + shifts
    exact = [oracle.by_directions(start, b, 2.0) for b in near]
    np.testing.assert_allclose(
        np.asarray(kernels.disagreement(start[None], near, 2.0))[0], exact, rtol=1e-5
    )
    tiny = np.array([[1e-30] * dimension, [-1e-30] * dimension, [0] * dimension], np.float32)
    matrix = np.asarray(kernels.disagreement(tiny, tiny, 1.0))
    assert np.isfinite(matrix).all()
    if dimension == 1:
        np.testing.assert_allclose(
            matrix, [[0, 1e-30, 5e-31], [1e-30, 0, 5e-31], [5e-31, 5e-31, 0]], rtol=1e-5
        )


def test_the_measure_holds_as_far_out_as_the_radius_needed():
    radius = kernels.least_radius([[0.9, 0.9], [3.0, -4.0]])
    np.testing.assert_allclose(radius, [(0.9 + 0.9 * 2**0.5) / 2, 4.5], rtol=1e-6)
    assert kernels.hyperplanes(4.6).is_inside(jnp.array([[3.0, -4.0], [4.0, -4.0]])).tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize("dimension", [2, 4])
@pytest.mark.slow
def test_central_hyperplanes_equal_drawn_normals_and_near_points_keep_accuracy(dimension):
    rng = np.random.default_rng(dimension)
    points = rng.normal(size=(7, dimension))
    signs = points @ rng.normal(size=(dimension, 200_000)) > 0
    drawn = (signs[:, None] != signs[None, :]).mean(axis=2)
    kernel = kernels.central_hyperplanes()
    found = np.asarray(
        kernel.disagreement(jnp.asarray(points, jnp.float32), jnp.asarray(points, jnp.float32))
    )
    assert (np.abs(found - drawn) <= 5 * np.sqrt(drawn * (1 - drawn) / 2e5) + 1e-6).all()
    one, turned = np.zeros((1, dimension), np.float32), np.zeros((1, dimension), np.float32)
    one[0, 0], turned[0, 0], turned[0, 1] = 3, 3, 3e-6
    np.testing.assert_allclose(
        kernel.disagreement(jnp.asarray(one), jnp.asarray(turned))[0, 0], 1e-6 / np.pi, rtol=1e-5
    )
    np.testing.assert_allclose(
        kernel.disagreement(jnp.asarray(-one), jnp.asarray(turned))[0, 0], 1, rtol=1e-6
    )


@pytest.mark.parametrize("dimension", [1, 3, 30])
def test_isotropic_hyperplanes_equal_drawn_planes(dimension):
    rng = np.random.default_rng(dimension)
    points, radius = rng.normal(size=(6, dimension)), 9.0
    normals = rng.normal(size=(dimension, 200_000))
    offsets = rng.uniform(-radius, radius, 200_000)
    sides = points @ (normals / np.linalg.norm(normals, axis=0)) > offsets
    drawn = (sides[:, None] != sides[None, :]).mean(axis=2)
    kernel, given = kernels.isotropic_hyperplanes(radius), jnp.asarray(points, jnp.float32)
    found = np.asarray(kernel.disagreement(given, given))
    assert (np.abs(found - drawn) <= 5 * np.sqrt(drawn * (1 - drawn) / 2e5) + 1e-6).all()
    assert (np.diag(found) == 0).all()
    near = np.asarray(kernel.disagreement(given, given + 2.0**-20 * given))
    lengths = np.linalg.norm(points, axis=1)
    scale = math.gamma(dimension / 2) / (math.gamma((dimension + 1) / 2) * math.pi**0.5)
    difference = np.linalg.norm(
        np.asarray(given, np.float64) - np.asarray(given + 2.0**-20 * given, np.float64), axis=1
    )
    np.testing.assert_allclose(np.diag(near), scale * difference / (2 * radius), rtol=1e-5)
    inside = kernel.is_inside(jnp.asarray(points * (radius / lengths[:, None]) * 1.01, jnp.float32))
    assert not inside.any()
    assert kernel.is_inside(given).all()


def test_isotropic_hyperplanes_of_one_column_are_those_of_the_paper():
    points = jnp.asarray(np.random.default_rng(0).uniform(-2, 2, (8, 1)), jnp.float32)
    np.testing.assert_allclose(
        kernels.isotropic_hyperplanes(2.0).disagreement(points, points),
        kernels.hyperplanes(2.0).disagreement(points, points),
        rtol=1e-5,
        atol=1e-7,
    )


def slopes(kernel, first, second):
    """The derivatives by both points of pairs, [k, d] each."""
    one = jax.grad(lambda a, b: kernel.disagreement(a[None], b[None])[0, 0], argnums=(0, 1))
    return [
        np.asarray(part) for part in jax.jit(jax.vmap(one))(jnp.asarray(first), jnp.asarray(second))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_hyperplanes_have_derivatives_where_the_points_are_degenerate(dimension, x64):
    """On one line through the origin, at the origin, as long as each other, equal: as differences
    say, and 0 of equal points.
    """
    rng = np.random.default_rng(dimension)
    first = rng.normal(size=(8, dimension))
    second = first * np.array([2.0, -2.0, 0.5, -1.0, 0.0, 0.0, 1.0, 1.0])[:, None]
    second[5] = np.roll(first[5], 1) * np.where(np.arange(dimension) == 0, -1, 1)
    kernel, step = kernels.hyperplanes(20.0), 1e-6
    by_first, by_second = slopes(kernel, first, second)
    assert not by_first[6:].any()
    assert not by_second[6:].any()
    steps = step * np.eye(dimension)
    ahead, behind = (
        np.stack([np.diagonal(kernels.disagreement(first + sign * h, second, 20.0)) for h in steps])
        for sign in (1, -1)
    )
    size = np.abs(by_first).max()
    np.testing.assert_allclose(
        by_first[:6], ((ahead - behind).T / (2 * step))[:6], atol=1e-6 * size
    )
    np.testing.assert_allclose(
        by_second[[0, 1, 2, 3, 5]],
        slopes(kernel, second, first)[0][[0, 1, 2, 3, 5]],
        atol=1e-9 * size,
    )
    if dimension == 1:
        np.testing.assert_allclose(
            slopes(kernel, np.array([[1.0]]), np.array([[2.0]])),
            [[[-1 / 40]], [[1 / 40]]],
            rtol=1e-12,
        )


def test_central_hyperplanes_have_finite_derivatives_everywhere():
    points = np.array([[1.0, 2.0], [1.0, 2.0], [-2.0, -4.0], [2.0, -1.0], [0.0, 0.0]], np.float32)
    first, second = points[[0, 0, 0, 0, 4]], points[[1, 2, 3, 4, 4]]
    by_first, by_second = slopes(kernels.central_hyperplanes(), first, second)
    assert np.isfinite(by_first).all()
    assert np.isfinite(by_second).all()
    assert not by_first[0].any()
    np.testing.assert_allclose(by_first[2], [-0.4 / np.pi, 0.2 / np.pi], rtol=1e-5)


def test_stumps_equal_drawn_thresholds():
    rng = np.random.default_rng(0)
    lower, upper = np.array([-1.0, 0, 2]), np.array([1.0, 5, 3])
    points = rng.uniform(lower, upper, (6, 3))
    feature, place = rng.integers(3, size=200_000), rng.uniform(size=200_000)
    sides = (
        points[:, feature]
        > (lower + (upper - lower) * place[:, None])[np.arange(200_000), feature][None]
    )
    drawn = (sides[:, None] != sides[None, :]).mean(axis=2)
    kernel = kernels.stumps(lower, upper)
    found = np.asarray(
        kernel.disagreement(jnp.asarray(points, jnp.float32), jnp.asarray(points, jnp.float32))
    )
    assert (np.abs(found - drawn) <= 5 * np.sqrt(drawn * (1 - drawn) / 2e5) + 1e-6).all()
    assert kernel.is_inside(jnp.array([[0.0, 1, 2.5], [0, 1, 3.5]], jnp.float32)).tolist() == [
        True,
        False,
    ]


@pytest.mark.slow
def test_sums_in_chunks_equal_the_whole():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(23, 2)).astype(np.float32), rng.normal(size=(17, 2)).astype(np.float32)
    coefficients = rng.normal(size=(17, 2)).astype(np.float32)
    kernel = kernels.hyperplanes(9.0)
    whole = np.asarray(kernel.disagreement(jnp.asarray(a), jnp.asarray(b))) @ coefficients
    chunked = kernels.weighted_disagreement(kernel, a, b, coefficients, entries_at_once=17 * 4)
    np.testing.assert_allclose(chunked, whole, rtol=1e-4, atol=1e-6)
    compiled = (
        jax.jit(lambda x: kernels.weighted_disagreement(kernel, x, x, x[:, 0]))
        .lower(jax.ShapeDtypeStruct((50_000, 2), "float32"))
        .compile()
    )
    assert compiled.memory_analysis().temp_size_in_bytes < 2**28
    assert kernels.weighted_disagreement(kernel, a[:0], b, coefficients).shape == (0, 2)


def _scaled(scale, a, b):
    return jnp.abs(a[:, None, 0] - b[None, :, 0]) / scale


def test_bad_input():
    assert kernels.custom(_scaled, 2.0) == kernels.custom(_scaled, 2.0)
    for call, message in (
        (lambda: kernels.disagreement([[0.0]], [[0.0]], 0.0), "radius is 0"),
        (lambda: kernels.disagreement([[0.0]], [[0.0, 1.0]], 1.0), "points_b has shape"),
        (lambda: kernels.disagreement(np.zeros((2, 0)), np.zeros((2, 0)), 1.0), "no columns"),
        (lambda: kernels.stumps([0.0], [1.0, 2.0]), "upper has shape"),
        (lambda: kernels.custom(_scaled, "two"), "parameters holds a str"),
        (
            lambda: kernels.weighted_disagreement(
                kernels.central_hyperplanes(), [[0.0]], [[0.0]], [1.0, 2.0]
            ),
            "coefficients has shape",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.slow
def test_angles_between_points_of_very_different_lengths():
    others = jnp.array([[-1e-8, 0.0], [-1e-8, 1e-8], [3e-30, 3e-30], [0.0, 1e30], [0.0, 0.0]])
    found = kernels.central_hyperplanes().disagreement(jnp.array([[1.0, 0.0]]), others)
    np.testing.assert_allclose(found, [[1.0, 0.75, 0.25, 0.5, 0.5]], rtol=1e-6)


@pytest.mark.slow
def test_angles_between_whole_numbers_and_at_the_end_of_the_float():
    central = kernels.central_hyperplanes()
    assert central.disagreement(jnp.array([[1, 0]]), jnp.array([[0, 300], [-1, 1]])).tolist() == [
        [0.5, 0.75]
    ]
    assert central.disagreement(jnp.array([[2e38, 0.0]]), jnp.array([[0.0, 1e37]])).tolist() == [
        [0.5]
    ]


def test_stumps_have_a_range_for_each_coordinate():
    with pytest.raises(ValueError, match="points has 1 columns, and the stumps have ranges for 3"):
        kernels.stumps([0.0, 0.0, 0.0], [1.0, 2.0, 4.0]).disagreement(
            jnp.zeros((2, 1)), jnp.zeros((1, 1))
        )


@pytest.mark.parametrize("size", [1e30, slow(1e-30)])
def test_derivatives_do_not_depend_on_the_unit_of_the_points(size):
    """Of points and radius in any unit, and of points that are tiny beside the others."""
    ends = np.array([[0.3, -0.4], [1e-30, 2e-30], [-0.5, 0.7]], np.float32)
    others = np.array([[0.1, 0.2], [0.6, -0.3]], np.float32)

    def total(make, *parts):
        return jnp.sum(jnp.sin(make(parts[2]).disagreement(parts[0], parts[1])))

    for make in (kernels.hyperplanes, kernels.isotropic_hyperplanes):
        slopes = jax.jit(jax.grad(functools.partial(total, make), argnums=(0, 1, 2)))
        plain = slopes(ends, others, jnp.float32(2))
        found = slopes(ends * size, others * size, jnp.float32(2 * size))
        for one, other in zip(plain, found, strict=True):
            assert np.isfinite(one).all()
            np.testing.assert_allclose(other * size, one, rtol=1e-4, atol=1e-6)
