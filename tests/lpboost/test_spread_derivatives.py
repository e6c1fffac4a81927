"""Derivatives of LP-Boost and of relaxed margins where the examples are spread over a mesh: those
of one device, and no exchange that grows with the examples.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import jboost
from benchmarks import many_devices
from jboost import lpboost, relaxations, relaxed_margin
from jboost.base.types import Dataset
from jboost.lpboost import derivatives, spread_derivatives
from marks import slow, slow_but
from placing import mesh_of, put

RANDOM = np.random.default_rng(3)
SIZE, COLUMNS, NU = 40, 5, 0.37
MARGINS, WEIGHTS = RANDOM.uniform(-0.6, 0.9, (SIZE, COLUMNS)), RANDOM.uniform(0.5, 2, SIZE)
ON_VOTES, ON_WEIGHTS = RANDOM.normal(size=COLUMNS), RANDOM.normal(size=SIZE)
FIELDS = ("coefficients", "example_weights", "lower_bound", "upper_bound")


# --- the parts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [4, slow(2)])
def test_the_pseudo_inverse_and_its_derivative_are_those_of_jax(rank, x64):
    whole = RANDOM.normal(size=(12, rank)) @ RANDOM.normal(size=(rank, 4))
    moved = whole @ RANDOM.normal(size=(4, 4)) + RANDOM.normal(size=(12, 12)) @ whole
    expected, slope = jax.jvp(lambda it: jnp.linalg.pinv(it).T, (whole,), (moved,))

    def inverse(it):
        return jnp.concatenate(
            [jnp.atleast_2d(part) for part in spread_derivatives._pseudo_inverse(it[:-1], it[-1])]
        )

    found, change = jax.jvp(inverse, (jnp.asarray(whole),), (jnp.asarray(moved),))
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(change, slope, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, slow(np.float64)])
def test_the_least_of_two_vectors_are_the_first_of_a_stable_sort(dtype):
    with jax.enable_x64(dtype is np.float64):
        values = RANDOM.integers(-1, 5, (30, 17)).astype(dtype)
        values[RANDOM.random(values.shape) < 0.2] = np.inf
        values[values == 4] = np.finfo(dtype).max
        for one in values:
            for number in (1, 5, 12, 17):
                found = spread_derivatives._are_least(one[:11], one[11:], number)
                is_first = np.zeros(17, bool)
                is_first[np.argsort(one, kind="stable")[:number]] = True
                np.testing.assert_array_equal(np.concatenate(found), is_first & (one < np.inf))


def solution_and_tangents(margins):
    """A game of +1 labels, tangents of its parts, and its solution."""
    size = len(margins)
    solution = lpboost.solve(
        margins,
        nu=NU,
        weights=WEIGHTS[:size],
        config=jboost.lp.InteriorPointConfig(),
        tolerance=1e-9,
    )
    rows = Dataset(
        jnp.asarray(margins), jnp.ones(size), jnp.asarray(WEIGHTS[:size]), jnp.ones(size, bool)
    )
    moved = Dataset(
        jnp.asarray(RANDOM.normal(size=margins.shape)),
        jnp.zeros(size),
        jnp.asarray(RANDOM.normal(size=size)),
        np.zeros(size, jax.dtypes.float0),
    )
    return (rows, jnp.asarray(NU)), (moved, jnp.asarray(0.3)), solution


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["vertex", "least_norm"])
@pytest.mark.parametrize("kind", ["in general", "with a tie", "of few examples"])
def test_derivatives_without_gathering_are_those_of_the_linear_program(choice, kind, x64):
    margins = {
        "in general": MARGINS,
        "with a tie": np.concatenate([MARGINS, MARGINS[:, :1]], axis=1),
        "of few examples": MARGINS[:3],
    }[kind]
    given = solution_and_tangents(margins)
    expected = derivatives.differentiate(choice, *given)
    found = derivatives._differentiate_spread(choice, *given)
    for field in FIELDS:
        np.testing.assert_allclose(
            getattr(found, field), getattr(expected, field), atol=1e-6, err_msg=field
        )


# --- on a mesh ------------------------------------------------------------------------------------


def lpboost_total(margins, weights, on_weights, *, derivative="vertex"):
    found = lpboost.solve(
        margins,
        nu=NU,
        weights=weights,
        config=relaxed_margin.SolverConfig(max_iterations=20_000),
        derivative=derivative,
    )
    points = jnp.asarray(ON_VOTES, float) @ found.coefficients + jnp.sum(
        on_weights * found.example_weights
    )
    return points + found.lower_bound


def relaxed_total(margins, weights, on_weights):
    del on_weights
    relaxation = relaxations.norm_penalty(2, 0.5)
    return relaxed_margin.solve(margins, relaxation, weights=weights).lower_bound


def smoothed_total(margins, weights, on_weights):
    relaxation = relaxations.soft_margin(nu=NU)
    found = relaxed_margin.solve_smoothed(margins, relaxation, weights=weights, smoothing=0.1)
    return jnp.asarray(ON_VOTES, float) @ found.coefficients + jnp.sum(
        on_weights * found.example_weights
    )


TOTALS = {
    "lpboost.solve, vertex": lpboost_total,
    "lpboost.solve, least_norm": functools.partial(lpboost_total, derivative="least_norm"),
    "relaxed_margin.solve": relaxed_total,
    "relaxed_margin.solve_smoothed": smoothed_total,
}
_SMALL = 4096  # bytes: the factors of the QR of eight devices are 1,152
KINDS = {"Explicit": AxisType.Explicit, "Auto": AxisType.Auto}


def gradient(name):
    return jax.jit(jax.grad(TOTALS[name], argnums=(0, 1)))


def compiled_on(mesh, name, arrays):
    with jax.set_mesh(mesh):
        return gradient(name).lower(*arrays).compile()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TOTALS)
def test_derivatives_on_a_mesh_are_those_of_one_device(name, kind, x64):
    arrays = [jnp.asarray(part) for part in (MARGINS, WEIGHTS, ON_WEIGHTS)]
    mesh = mesh_of(8, kind=KINDS[kind])
    spread = [put(part, mesh) for part in arrays]
    found = compiled_on(mesh, name, spread)(*spread)
    for one, other in zip(found, gradient(name)(*arrays), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4 * np.abs(other).max())
    assert not found[0].sharding.is_fully_replicated


@pytest.mark.parametrize("kind", slow_but(KINDS, "Explicit"))
@pytest.mark.parametrize("name", slow_but(TOTALS, "relaxed_margin.solve"))
def test_nothing_that_grows_with_the_examples_is_gathered_for_derivatives(name, kind):
    size, columns = many_devices.QUICK_EXAMPLES, COLUMNS
    mesh = mesh_of(8, kind=KINDS[kind])
    arrays = [
        put(jnp.zeros(shape, jnp.float32), mesh) for shape in ((size, columns), (size,), (size,))
    ]
    found = many_devices.collectives(compiled_on(mesh, name, arrays).as_text())
    assert found, "a program on eight devices that sends nothing is not divided"
    assert max(count for _, count, _ in found) <= _SMALL < 4 * size
