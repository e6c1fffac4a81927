"""Means and norms of densities that are given by their logarithms.

Densities are x_i = exp(l_i) / sum_j p_j exp(l_j), where the largest of the logarithms l_i is 0. So
sum_i p_i x_i = 1. The norm of order q is (sum_i p_i x_i^q)^(1 / q), which is at least 1. Where the
densities are nearly equal, its logarithm is near 0, and has a small relative error.
"""

from __future__ import annotations

import math

import jax.numpy as jnp

from jboost.base import named_axis
from jboost.base.named_axis import AxisName
from jboost.base.types import Array

_NUM_TERMS = 10  # of the series of `excess_of_power`
_SMALL = 0.25  # where the series ends within 1e-16 of its first term


def log_mean(logs: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """log of the sum of p_i exp(l_i), [], for logarithms [m] of which the largest is 0."""
    total = named_axis.total(prior * jnp.exp(logs), axis_name)
    missing = named_axis.total(prior * jnp.expm1(logs), axis_name)
    is_near_one = total > 0.5
    return jnp.where(
        is_near_one,
        jnp.log1p(jnp.where(is_near_one, missing, 0.0)),
        jnp.log(jnp.where(is_near_one, 1.0, total)),
    )


def log_norm(logs: Array, order: float, prior: Array, axis_name: AxisName = None) -> Array:
    """log of the norm of the densities, [], at least the least normal number.

    Args:
      logs: [m], -inf for a density of 0.
      order: above 1; static.
      prior: [m], of sum 1.
      axis_name: of `shard_map`.
    """
    mean = log_mean(logs, prior, axis_name)
    is_flat = order * -mean <= 1
    excess = prior * excess_of_power(jnp.where(is_flat, logs - mean, 0.0), order)
    flat = jnp.log1p(named_axis.total(excess, axis_name)) / order
    steep = log_mean(order * logs, prior, axis_name) / order - mean
    return jnp.maximum(jnp.where(is_flat, flat, steep), jnp.finfo(logs.dtype).tiny)


def excess_of_power(logs: Array, order: float) -> Array:
    """x^q - 1 - q (x - 1) for x = exp(logs), [m]; by its series in u = q log x where that is small:
    the sum of (1 - q^(1 - k)) u^k / k! from k = 2.
    """
    grown = order * logs
    is_small = jnp.abs(grown) < _SMALL
    small = jnp.where(is_small, grown, 0.0)
    series = jnp.zeros_like(logs)
    for power in reversed(range(2, 2 + _NUM_TERMS)):
        weight = -math.expm1((1 - power) * math.log(order))
        series = series * small + weight / math.factorial(power)
    direct = jnp.expm1(grown) - order * jnp.expm1(jnp.where(is_small, 1.0, logs))
    return jnp.where(is_small, small * small * series, direct)
