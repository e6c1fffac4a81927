"""Derivatives of the exact minimiser in norm balls, against differences in many digits."""

import decimal
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jboost import relaxations
from marks import slow, slow_but

STEP = Decimal("1e-16")


def minimiser(margins, prior, radius, order):
    """The example weights, by bisection for the threshold. It is near a margin, closer by orders of
    magnitude for a larger order of the norm.
    """
    total = sum(prior)
    shares = [p / total for p in prior]
    least = min(margins)
    above = [margin - least for margin in margins]
    target = radius * Decimal(len(margins)) ** (1 - 1 / order)

    def at(reach):
        powers = [(1 - a / reach) ** (1 / (order - 1)) if a < reach else Decimal(0) for a in above]
        mean = sum(p * x for p, x in zip(shares, powers, strict=True))
        densities = [x / mean for x in powers]
        norm = sum(p * x**order for p, x in zip(shares, densities, strict=True) if x)
        return [p * x for p, x in zip(shares, densities, strict=True)], norm ** (1 / order)

    low, high = min(a for a in above if a > 0), max(above) * 2**30
    for _ in range(4 * decimal.getcontext().prec):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[1] > target else (low, middle)
    return at(low)[0]


def differences(margins, prior, radius, order, move):
    """The minimiser, and its derivative along `move`, a direction for the first three arguments."""
    with decimal.localcontext() as context:
        context.prec = 60 + round(1.5 * order)
        order = Decimal(order)
        ends = []
        for sign in (1, -1):
            step = sign * STEP
            ends.append(
                minimiser(
                    [Decimal(x) + step * Decimal(v) for x, v in zip(margins, move[0], strict=True)],
                    [Decimal(x) + step * Decimal(v) for x, v in zip(prior, move[1], strict=True)],
                    Decimal(radius) + step * Decimal(move[2]),
                    order,
                )
            )
        pairs = list(zip(*ends, strict=True))
        return (
            np.array([float((a + b) / 2) for a, b in pairs]),
            np.array([float((a - b) / (2 * STEP)) for a, b in pairs]),
        )


def problem(margins, prior, share, order, move):
    """Floats of the working type: share is that of the norm between the prior and one example."""
    size = len(margins)
    rounded = [jnp.asarray(part, float) for part in (margins, prior)]
    radius = jnp.asarray(share / size ** (1 - 1 / order), float)
    given = [np.asarray(part, np.float64).tolist() for part in (*rounded, radius)]
    return (*rounded, radius), given, tuple(jnp.asarray(part, float) for part in move)


MARGINS, EQUAL = [0.3, -0.2, 0.1, 0.6], [0.25] * 4
MOVE = ([0.3, -0.7, 0.5, 0.2], [0.02, -0.03, 0.05, 0.01], 0.1)
SPREAD = ([0.3, -0.2, 0.1, 0.6, -0.15, 2.0], [0.1, 0.3, 0.2, 0.25, 0.1, 0.05])
WIDE = ([0.3, -0.7, 0.5, 0.2, 0.1, -0.4], [0.02, -0.03, 0.05, 0.01, 0.1, 0.02], 0.1)
CASES = {
    "order 10": (MARGINS, EQUAL, 1.3, 10.0, MOVE),
    "order 40": (MARGINS, EQUAL, 1.3, 40.0, MOVE),
    "order 100": (MARGINS, EQUAL, 1.3, 100.0, MOVE),
    "one example without weight": (MARGINS, EQUAL, 1.9, 10.0, MOVE),
    "near the prior": (MARGINS, EQUAL, 1.0001, 10.0, MOVE),
    "unequal shares": (*SPREAD, 1.3, 10.0, WIDE),
    "unequal shares, order 40": (*SPREAD, 1.5, 40.0, WIDE),
    "order 1.1": (*SPREAD, 1.1, 1.1, WIDE),
    "order 3": (*SPREAD, 1.4, 3.0, WIDE),
}


@pytest.mark.parametrize("name", slow_but(CASES, "order 10"))
@pytest.mark.parametrize("is_wide", [False, slow(True)], ids=["float32", "float64"])
def test_derivatives_in_norm_balls_are_those_of_differences(name, is_wide):
    margins, prior, share, order, move = CASES[name]
    with jax.enable_x64(is_wide):
        arguments, given, move = problem(margins, prior, share, order, move)

        def weights(margins, prior, radius):
            return relaxations.norm_ball(order, radius).argmin(margins, prior / prior.sum())

        def bound(margins, prior, radius):
            return relaxations.norm_ball(order, radius).lower_bound(margins, prior / prior.sum())

        expected, moved = differences(
            *given, order, [np.asarray(part, np.float64).tolist() for part in move]
        )
        found, slope = jax.jvp(weights, arguments, move)
        tolerance = 1e-8 if is_wide else 2e-4
        np.testing.assert_allclose(found, expected, atol=tolerance)
        size = np.abs(moved).max()
        np.testing.assert_allclose(slope, moved, atol=tolerance * max(1.0, size))

        cotangent = jnp.cos(jnp.arange(float(len(margins))))
        _, pull = jax.vjp(weights, *arguments)
        total = sum(float(jnp.vdot(a, b)) for a, b in zip(pull(cotangent), move, strict=True))
        assert abs(total - float(cotangent @ slope)) <= tolerance * max(1.0, size)

        _, risen = jax.jvp(bound, arguments, move)
        best = np.dot(given[0], moved) + np.dot(np.asarray(move[0]), expected)
        assert abs(float(risen) - best) <= 4 * tolerance * max(1.0, size)
