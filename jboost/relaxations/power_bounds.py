"""Outward rounded powers and norms of orders above 1, for `power_norms`.

All functions must be called in the 64-bit scope of `bounds.widely`. They allow for 8 units of
rounding in an exponential or a logarithm, and for 300 in the functions of 1 + x. The tests measure
these errors against `numpy.longdouble` (tests/relaxations/test_power_bounds.py).
"""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base import numerics, reduce
from jboost.base.types import Array
from jboost.relaxations import bounds
from jboost.relaxations.densities import excess_of_power

_UNIT = bounds.UNIT
_NEAR = 300 * _UNIT  # the relative error of log1p, expm1 and what is made of both


def log_up(value: Array) -> Array:
    """An upper bound on the logarithm of a positive number."""
    log = jnp.log(value)
    return log + 8 * _UNIT * (1 + jnp.abs(log))


def power_sum_up(ratios: Array, exponent: float, prior: Array) -> Array:
    """An upper bound on the sum of p_i r_i^exponent, for ratios in [0, 1] with an error of four
    roundings each.
    """
    is_positive = ratios > 0
    logs = exponent * jnp.log(jnp.where(is_positive, ratios, 1.0))
    slack = 1 + (8 + 8 * jnp.abs(logs) + 4 * exponent) * _UNIT
    return bounds.sum_up(prior * jnp.where(is_positive, jnp.exp(logs) * slack, 0.0))


def root_up(total: Array, order: float) -> Array:
    """An upper bound on total^(1 / order), for a total >= 0."""
    is_positive = total > 0
    log = log_up(jnp.where(is_positive, total, 1.0)) / order
    root = jnp.exp(log) * (1 + 8 * (1 + jnp.abs(log)) * _UNIT)
    return jnp.where(is_positive, root, 0.0)


def size_root(size: Array, order: float) -> tuple[Array, Array]:
    """m^(-1 / order), [], and a bound on its relative error."""
    log = -jnp.log(size) / order
    return jnp.exp(log), 16 * (1 + jnp.abs(log)) * _UNIT


def log_shortfall_norm_up(
    reach: Array, above: Array, order: float, prior: Array, error: float
) -> Array:
    """An upper bound on the log of (sum_i p_i [1 - above_i / reach]_+^order)^(1 / order), [].

    It is close, relative to above / reach, if the reach is far above all margins.

    Args:
      reach: [] positive.
      above: [m] margins minus the least one.
      order: of the dual norm, static.
      prior: [m], of sum 1.
      error: the largest relative error of a share. As the errors of all shares add up to 0, only
        the differences of terms from their mean count.
    """
    ratios = jnp.where(prior > 0, jnp.maximum(1 - above / reach, 0.0), 0.0)
    is_active = ratios > 0
    share = jnp.where(is_active, above / reach, 0.0)
    logs = order * jnp.log1p(-share)
    lost = jnp.where(is_active, jnp.expm1(logs), -1.0)
    doubt = _NEAR * jnp.abs(logs) * jnp.exp(logs) + _UNIT * (4 * jnp.abs(lost) + 4 * order * share)
    mean = numerics.precise_sum(prior * lost)
    size = (prior.shape[0] + 8) * _UNIT * jnp.abs(lost) + error * jnp.abs(lost - mean)
    near = mean + bounds.sum_up(prior * (size + jnp.where(is_active, doubt, 0.0)))
    is_near = near > -0.5
    log_near = jnp.log1p(jnp.where(is_near, near, 0.0))
    log_near = log_near + _NEAR * jnp.abs(log_near)
    far = power_sum_up(ratios, order, prior) * (1 + error)
    log_far = log_up(jnp.where(far > 0, far, 1.0))
    return jnp.where(is_near, log_near, log_far) / order


def norm_excess_up(weights: Array, prior: Array, order: float, error: float) -> Array:
    """An upper bound on (sum_i p_i (d_i / p_i)^order)^(1 / order) - 1, [], for weights and shares
    [m] of sum 1, 0 on padding, with relative errors of at most `error` in the shares.
    """
    apart = numerics.safe_divide(weights - prior, prior)
    density = bounds.densities(weights, prior)
    top = jnp.maximum(reduce.largest(density), 1.0)
    is_flat = (order * jnp.log(top) <= 1) & (order * error < 0.01)

    is_inside = (prior > 0) & (weights > 0)
    is_light = density < 0.5
    logs = jnp.where(
        is_light,
        jnp.log(jnp.where(is_light & is_inside, density, 1.0)),
        jnp.log1p(jnp.where(is_light, 0.0, apart)),
    )
    logs = jnp.where(is_flat & is_inside, logs, 0.0)
    excess = jnp.where(is_inside, excess_of_power(logs, order), order - 1)
    grown = jnp.where(is_inside, jnp.expm1(order * logs), -1.0)
    doubt = _NEAR * order * jnp.abs(logs) * (1 + jnp.exp(order * logs))
    moved = (order - 1) * error * jnp.abs(grown)
    total = bounds.sum_up(jnp.where(prior > 0, prior * (excess + doubt + moved), 0.0))
    total = total + 2 * (order * error) ** 2
    flat = jnp.expm1(jnp.log1p(jnp.where(is_flat, total, 0.0)) / order) * (1 + 2 * _NEAR)

    sum_of_powers = power_sum_up(density / top, order, prior)
    steep = top * root_up(sum_of_powers, order) * (1 + 2 * error) - 1
    return jnp.where(is_flat, flat, steep)
