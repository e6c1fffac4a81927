"""Outward rounded powers and norms against `numpy.longdouble`, and the errors they allow for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jboost.relaxations import power_bounds
from jboost.relaxations.bounds import UNIT

LONG = np.longdouble

pytestmark = pytest.mark.skipif(
    np.finfo(LONG).eps > 1e-18, reason="numpy.longdouble has no more bits than float64 here"
)


def grid(low, high, rng, count=200_000):
    """Numbers of both signs, of sizes from 10^low to 10^high."""
    sizes = 10.0 ** rng.uniform(low, high, count)
    return np.concatenate([sizes, -sizes])


def units_off(found, exact):
    """The largest error, in units of rounding of the exact values."""
    return float(np.max(np.abs(np.asarray(found).astype(LONG) - exact) / np.abs(exact)) / UNIT)


def test_exponentials_and_logarithms_are_as_exact_as_the_bounds_allow(x64):
    rng = np.random.default_rng(5)
    exponents = grid(-18, np.log10(700), rng)
    positive = np.abs(grid(-300, 300, rng))
    positive = np.concatenate([positive, 1 + grid(-15, -0.01, rng)])
    run = jax.jit(lambda x, y: (jnp.exp(x), jnp.log(y)))
    exp, log = run(exponents, positive)
    # the bounds allow for an error of the exponent, too: 8 (1 + |x|) units
    with np.errstate(under="ignore"):
        exact = np.exp(exponents.astype(LONG))
    error = np.abs(np.asarray(exp).astype(LONG) - exact) / exact / (1 + np.abs(exponents))
    assert np.max(error) <= 8 * UNIT
    exact = np.log(positive.astype(LONG))
    assert np.max(np.abs(np.asarray(log) - exact) / (1 + np.abs(exact))) <= 8 * UNIT


def test_functions_of_one_plus_x_are_as_exact_as_the_bounds_allow(x64):
    rng = np.random.default_rng(6)
    exponents = grid(-18, np.log10(700), rng)
    above = np.concatenate([grid(-18, -0.001, rng), np.abs(grid(0, 300, rng))])
    expm1, log1p = jax.jit(lambda x, y: (jnp.expm1(x), jnp.log1p(y)))(exponents, above)
    assert units_off(expm1, np.expm1(exponents.astype(LONG))) <= 300
    assert units_off(log1p, np.log1p(above.astype(LONG))) <= 300


@pytest.mark.parametrize("order", [1.01, 1.5, 3.0, 40.0])
def test_bounds_on_norms_are_above_them_and_near(order, x64):
    """Shares and weights are exact here; their errors are 0."""
    rng = np.random.default_rng(7)
    size, cases = 9, 300
    prior = rng.uniform(0.1, 1, (cases, size))
    prior /= prior.sum(1, keepdims=True)
    noise = rng.normal(size=(cases, size)) * 10.0 ** rng.uniform(-9, 0.3, (cases, 1))
    weights = prior * np.exp(noise)
    weights[::5, 2:] = 0
    weights /= weights.sum(1, keepdims=True)
    above = rng.uniform(0, 1, (cases, size))
    above -= above.min(1, keepdims=True)
    reach = 10.0 ** rng.uniform(-1, 8, cases)

    @jax.jit
    @jax.vmap
    def bounds(weights, prior, above, reach):
        return (
            power_bounds.norm_excess_up(weights, prior, order, 8 * UNIT),
            power_bounds.log_shortfall_norm_up(reach, above, order, prior, 8 * UNIT),
            power_bounds.root_up(reach, order),
            power_bounds.power_sum_up(weights / jnp.max(weights), order, prior),
        )

    excess, shortfall, root, total = (
        np.asarray(x).astype(LONG) for x in bounds(weights, prior, above, reach)
    )
    p, d = prior.astype(LONG), weights.astype(LONG)
    p, d = p / p.sum(1, keepdims=True), d / d.sum(1, keepdims=True)
    q = LONG(order)
    norm = np.sum(p * (d / p) ** q, axis=1) ** (1 / q)
    assert np.all(excess >= (norm - 1) - LONG(1e-18))
    assert np.all(excess - (norm - 1) <= 1e-11 * norm)
    ratio = np.maximum(1 - above.astype(LONG) / reach.astype(LONG)[:, None], 0)
    exact = np.log(np.sum(p * ratio**q, axis=1)) / q
    assert np.all(shortfall >= exact - LONG(1e-18))
    assert np.all(shortfall - exact <= 1e-12 * (1 + np.abs(exact)))
    exact = reach.astype(LONG) ** (1 / q)
    assert np.all((root >= exact) & (root <= exact * (1 + 1e-12)))
    ratio = weights.astype(LONG) / weights.max(1, keepdims=True)
    exact = np.sum(prior.astype(LONG) * ratio**q, axis=1)
    assert np.all((total >= exact) & (total <= exact * (1 + 1e-11)))
