"""Exponential tilting: the softmax p_i exp(-b margin_i) / Z, its relative entropy to the prior, and
the steepness b that gives a required entropy.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jboost.base import named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.roots import bracketed_root, newton
from jboost.base.types import Array
from jboost.relaxations.curves import Curve, CurvePoint, CurveProblem
from jboost.relaxations.types import (
    number,
    relative,
)

_SERIES = 0.1  # below this |log density|, a power series replaces a difference that cancels
# Below this divergence of a softmax, it is summed from nonnegative terms, which do not cancel.
_SMALL = 0.5


def divergence(weights: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """sum_i p_i (x_i log x_i - x_i + 1) for densities x = weights / prior, [], without
    cancellation; inf if a weight is positive where the prior is 0.
    """
    is_positive, logs = _log_densities(weights, prior)
    densities = jnp.where(is_positive, weights, 1.0) / jnp.where(is_positive, prior, 1.0)
    terms = jnp.where(is_positive, prior * entropy_of_density(densities, logs), prior)
    outside = named_axis.any_true((weights > 0) & (prior <= 0), axis_name)
    return jnp.where(outside, jnp.inf, named_axis.total(terms, axis_name))


def _log_densities(weights: Array, prior: Array) -> tuple[Array, Array]:
    """Where weights and prior are positive, [m], and log(weights / prior) there, [m]."""
    is_positive = (weights > 0) & (prior > 0)
    safe = jnp.where(is_positive, prior, 1.0)
    densities = jnp.where(is_positive, weights, 1.0) / safe
    return is_positive, log_of(densities, jnp.where(is_positive, weights - safe, 0.0) / safe)


def log_of(densities: Array, apart: Array) -> Array:
    """log x, [m], from x > 0 and x - 1 (`apart`), with a relative error of a few roundings."""
    is_near = jnp.abs(apart) < 0.5
    return jnp.where(is_near, jnp.log1p(jnp.where(is_near, apart, 0.0)), jnp.log(densities))


def _entropy_of_log(log: Array) -> Array:
    """x log x - x + 1 of x = exp(log)."""
    return entropy_of_density(jnp.exp(log), log)


def entropy_of_density(density: Array, log: Array) -> Array:
    """x log x - x + 1, from x and its logarithm."""
    is_near = jnp.abs(log) < _SERIES
    small = jnp.where(is_near, log, 0.0)
    near = (
        small
        * small
        * (
            1 / 2
            + small
            * (
                1 / 3
                + small
                * (1 / 8 + small * (1 / 30 + small * (1 / 144 + small * (1 / 840 + small / 5760))))
            )
        )
    )
    return jnp.where(is_near, near, density * (log - 1) + 1)


def divergence_of_powers(exponents: Array, prior: Array) -> Array:
    """The divergence of weights p_i exp(e_i) for exponents e, []. They need not sum to one."""
    return numerics.precise_sum(prior * _entropy_of_log(exponents))


def _log_sum(steepness: Array, above: Array, prior: Array, axis_name: AxisName) -> Array:
    """log sum_i p_i exp(-steepness * above_i), [], with a small relative error also near 0."""
    powers = -steepness * above
    lost = named_axis.total(prior * jnp.expm1(powers), axis_name)
    is_near = lost > -0.5
    total = named_axis.total(prior * jnp.exp(powers), axis_name)
    return jnp.where(is_near, jnp.log1p(jnp.where(is_near, lost, 0.0)), jnp.log(total))


def _divergence_of_softmax(
    steepness: Array, above: Array, prior: Array, axis_name: AxisName
) -> tuple[Array, Array]:
    """KL of the softmax to the prior, and the variance of `above` under it, [] both."""
    logs = -steepness * above - _log_sum(steepness, above, prior, axis_name)
    weights = prior * jnp.exp(logs)
    mean = named_axis.total(weights * above, axis_name)
    variance = named_axis.total(weights * (above - mean) ** 2, axis_name)
    small = named_axis.total(prior * _entropy_of_log(logs), axis_name)
    return jnp.where(small < _SMALL, small, named_axis.total(weights * logs, axis_name)), variance


def steepness_of(radius: Array, above: Array, prior: Array, axis_name: AxisName) -> Array:
    """The steepness at which the divergence of the softmax is the radius, []; inf if even the
    distribution on the least margins alone is within the radius.
    """
    is_real = prior > 0
    top = named_axis.total(jnp.where(above == 0, prior, 0.0), axis_name)
    limits = jnp.finfo(above.dtype)
    span = named_axis.largest(above, is_real, axis_name)
    gap = named_axis.least(above, is_real & (above > 0), axis_name)
    is_hard = (radius >= -jnp.log(top) * (1 - 4 * limits.eps)) | (span <= 0)
    span, gap = jnp.where(is_hard, 1.0, span), jnp.where(is_hard, 1.0, gap)
    aim = jnp.where(is_hard, 1.0, radius)
    # KL <= (steepness * span)^2 / 8 (Hoeffding 1963)
    low = 0.5 * jnp.log(8 * aim) - jnp.log(span) - 8 * limits.eps
    # at this steepness all margins but the least have practically no weight
    high = jnp.maximum(jnp.log(100 - jnp.log(top)) - jnp.log(gap), low)
    high = jnp.minimum(high, jnp.log(limits.max) - 8 - jnp.log(jnp.maximum(span, 1.0)))

    def excess(log_steepness: Array) -> tuple[Array, Array]:
        steepness = jnp.exp(log_steepness)
        found, variance = _divergence_of_softmax(steepness, above, prior, axis_name)
        found = jnp.maximum(found, limits.tiny)
        value = jnp.log(found) - jnp.log(aim)
        return value, newton(log_steepness, value, steepness * steepness * variance / found)

    found = bracketed_root(excess, low, jnp.maximum(high, low), low, tolerance=4 * limits.eps)
    return jnp.where(is_hard, jnp.inf, jnp.exp(found))


def _find_steepness(problem: CurveProblem) -> Array:
    relaxation, margins, _, prior, axis_name = problem
    _, above = relative(margins, prior, axis_name)
    return steepness_of(number(relaxation.radius, margins), above, prior, axis_name)


def _at_steepness(steepness: Array, problem: CurveProblem) -> CurvePoint:
    """The softmax of the smaller of two steepnesses: that of the radius and that of the smoothing
    strength. If both are infinite, it is the distribution on the least margins.
    """
    relaxation, margins, strength, prior, axis_name = problem
    eighth, above = relative(margins, prior, axis_name)
    is_hard, is_smooth = steepness == jnp.inf, strength > 0
    own = jnp.where(is_hard, 1.0, steepness)
    smooth = jnp.minimum(
        8 * (eighth / jnp.where(is_smooth, strength, 1.0)), jnp.finfo(margins.dtype).max
    )
    is_within = is_smooth & (is_hard | (smooth <= own))
    used = jnp.where(is_within, smooth, own)
    is_least = is_hard & ~is_smooth

    def excess() -> Array:
        found, _ = _divergence_of_softmax(own, above, prior, axis_name)
        radius = number(relaxation.radius, margins)
        return jnp.where(is_hard, 0.0, jnp.log(jnp.where(is_hard, 1.0, found)) - jnp.log(radius))

    densities = jnp.where(is_least, jnp.where(above == 0, 1.0, 0.0), jnp.exp(-used * above))
    return CurvePoint(prior * densities, excess)


TILTED = Curve(_find_steepness, _at_steepness)


def steepness_of_conjugate(radius: Array, shortfalls: Array, prior: Array) -> Array:
    """The b at which the divergence of p_i exp(b z_i) is the radius, []; inf if there is none,
    which is only possible for z <= 0.
    """
    shortfalls, prior = lax.stop_gradient(shortfalls), lax.stop_gradient(prior)
    span = numerics.masked_max(jnp.abs(shortfalls), prior > 0, fill=0.0)
    highest = numerics.masked_max(shortfalls, prior > 0, fill=-jnp.inf)
    falling = numerics.precise_sum(jnp.where(shortfalls < 0, prior, 0.0))
    is_never = (span <= 0) | ((highest <= 0) & (falling <= radius))
    scaled = shortfalls / jnp.where(is_never, 1.0, span)
    limits = jnp.finfo(shortfalls.dtype)

    def excess(log_steepness: Array) -> tuple[Array, Array]:
        exponents = jnp.minimum(jnp.exp(log_steepness) * scaled, jnp.log(limits.max) - 8)
        found = jnp.maximum(divergence_of_powers(exponents, prior), limits.tiny)
        slope = numerics.precise_sum(prior * exponents**2 * jnp.exp(exponents)) / found
        value = jnp.log(found) - jnp.log(radius)
        return value, newton(log_steepness, value, slope)

    low, high = 0.5 * jnp.log(radius) - 4, jnp.full_like(radius, jnp.log(limits.max) / 2)
    start = jnp.clip(0.5 * jnp.log(radius), low, high)
    found = bracketed_root(excess, jnp.minimum(low, -60.0), high, start, tolerance=4 * limits.eps)
    return jnp.where(is_never, jnp.inf, jnp.exp(found) / jnp.where(is_never, 1.0, span))
