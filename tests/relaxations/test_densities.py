"""Powers of densities against decimal arithmetic, and norms of very large orders."""

import decimal
import math
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jboost import relaxations
from jboost.relaxations.densities import excess_of_power


@pytest.mark.parametrize("order", [1.001, 2.5, 300.0, 1e5, 1e19])
@pytest.mark.parametrize("is_wide", [False, True], ids=["float32", "float64"])
def test_excess_of_power_is_that_of_decimal_arithmetic(order, is_wide):
    scaled = np.array([-30.0, -1.0, -0.26, -0.2, -1e-3, 0.0, 1e-6, 0.1, 0.24, 0.3, 1.0])
    with jax.enable_x64(is_wide):
        logs = jnp.asarray(scaled / order, float)
        found = np.asarray(excess_of_power(logs, order), np.float64)
        eps = float(jnp.finfo(logs.dtype).eps)
        with decimal.localcontext() as context:
            context.prec = 60
            q = Decimal(order)
            exact = [
                float((q * log).exp() - 1 - q * (log.exp() - 1))
                for log in (Decimal(float(log)) for log in logs)
            ]
    grown = np.abs(scaled)
    np.testing.assert_array_less(
        np.abs(found - exact), 64 * eps * np.minimum(grown, 1) * grown + 1e-30
    )


@pytest.mark.slow
@pytest.mark.parametrize("order", [1e5, 1e12, 1e40])
@pytest.mark.parametrize("is_wide", [False, True], ids=["float32", "float64"])
def test_norms_of_very_large_orders_are_nearly_the_largest_density(order, is_wide):
    with jax.enable_x64(is_wide):
        margins = jnp.array([0.3, -0.2, 0.1, 0.6, 0.25])
        for make, number in ((relaxations.norm_ball, 0.3), (relaxations.norm_penalty, 0.3)):
            relaxation, limit = make(order, number), make(math.inf, number)
            error = max(4 / order, 1e-12 if is_wide else 3e-6)
            np.testing.assert_allclose(
                relaxation.lower_bound(margins), limit.lower_bound(margins), atol=error
            )
            weights = relaxation.argmin(margins)
            best = float(margins @ weights + relaxation.penalty(weights))
            assert abs(best - float(limit.lower_bound(margins))) <= error
            np.testing.assert_allclose(
                relaxation.smoothed_argmin(margins, jnp.asarray(0.1)),
                limit.smoothed_argmin(margins, jnp.asarray(0.1)),
                atol=max(40 / order, 1e-9 if is_wide else 1e-5),
            )
            assert float(relaxation.charge(weights).moved) <= 4 / order + 1e-5
