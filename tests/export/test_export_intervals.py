"""The ends of intervals against the comparisons of JAX, and decimals against exact fractions."""

import fractions
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from exported_models import EXTREMES, around
from jboost.export import intervals

LIMITS = (0.0, -0.0, 54.5, 0.1, -0.1, 1e-40, -1e-40, 1e38, 3.5e38, -1e39, 1e-310, 2.0**24 + 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_intervals_decide_as_jax_does(dtype):
    limits = np.array([*LIMITS, math.inf, -math.inf])
    ends = [intervals.at_most(limit, dtype) for limit in limits.tolist()]
    values = np.array([*EXTREMES, *around([limit for limit in LIMITS if abs(limit) < 3e38])])
    beside = [math.nextafter(end, side) for end in ends for side in (-math.inf, math.inf)]
    values = np.concatenate([values, ends, beside])
    with jax.enable_x64(dtype == "float64"), np.errstate(over="ignore"):
        held = jnp.asarray(values.astype(dtype))[:, None], jnp.asarray(limits.astype(dtype))[None]
        below, equal = jax.jit(lambda x, t: (x <= t, x == t))(*held)
    table = values[:, None]
    np.testing.assert_array_equal(below, table <= np.array(ends)[None])
    starts = np.array([intervals.at_least(limit, dtype) for limit in limits.tolist()])
    np.testing.assert_array_equal(equal, (starts[None] <= table) & (table <= np.array(ends)[None]))
    over = np.array([intervals.above(limit, dtype) for limit in limits.tolist()])
    np.testing.assert_array_equal(~np.asarray(below), table >= over[None])


def test_decimal_is_within_an_eighth_of_the_distance():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=2000) * 10.0 ** rng.integers(-300, 300, 2000)
    for number in [*numbers.tolist(), 0.0, 5e-324, 2.0**-1022, np.finfo(float).max]:
        text = intervals.decimal(number)
        error = abs(fractions.Fraction(text) - fractions.Fraction(number))
        assert error <= fractions.Fraction(math.ulp(number)) / 8
        assert float(text) == number
        assert "e" in text
