"""Relative entropy of the example weights to the prior, as a ball and as a penalty.

KL(d || p) = sum_i p_i (x_i log x_i - x_i + 1) with densities x_i = d_i / p_i; on the simplex that is
sum_i d_i log x_i. The weights of least <margins, d> + f(d) are those of a softmax, d_i = p_i
exp(-b margin_i) / Z: for the penalty b = 1 / scale; for the ball b is where KL is the radius, or
infinite where the least margins alone are within it (Hu and Hong 2013; Namkoong and Duchi 2016).
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jax import lax

from jboost.base import named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.relaxations import bounds, curves, envelope
from jboost.relaxations.curves import Curve, CurvedArgmin, Point
from jboost.relaxations.roots import bracketed_root, newton
from jboost.relaxations.types import (
    Charge,
    Constraint,
    is_positive,
    lifted,
    number,
    positive,
    relative,
    shares,
    softmax,
)

_SERIES = 0.1  # |log density| below which a power series replaces a difference that cancels
_ROUNDINGS = 8  # of a float's epsilon, by which terms of an entropy may be wrong, relative to them
_SMALL = 0.5  # below, the divergence of a softmax is summed from terms that are not negative
_LARGEST_EXPONENT = 4.0  # about the mean; beyond, sums of exponentials are taken about the least margin


@register
@dataclasses.dataclass(frozen=True)
class KLBall(CurvedArgmin, Constraint):
    """f is 0 where KL(d || p) <= radius, else inf."""

    radius: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """0 inside, up to rounding."""
        prior = shares(prior, example_weights)
        eps = jnp.finfo(example_weights.dtype).eps
        inside = divergence(example_weights, prior) <= self.radius * (1 + _ROUNDINGS * eps) + eps * eps
        return jnp.where(inside, 0.0, jnp.inf).astype(example_weights.dtype)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """The minimum over t > 0 of t radius + t sum_i p_i (exp(z_i / t) - 1)."""
        prior = shares(prior, shortfalls)
        clean = jnp.where(prior > 0, shortfalls, 0.0)
        radius = number(self.radius, shortfalls)
        steepness = _steepness_at(radius, clean, prior)

        def excess(steepness: Array) -> Array:
            return jnp.log(_unnormalised(steepness * clean, prior)) - jnp.log(radius)

        is_bounded = steepness < jnp.inf
        found = curves.implicit_root(excess, jnp.where(is_bounded, steepness, 1.0))
        grown = numerics.precise_sum(prior * jnp.expm1(found * clean))
        return jnp.where(is_bounded, (radius + grown) / found, 0.0)

    def smoothed_curve(self) -> Curve:
        """A softmax of a strength that brings it into the ball."""
        return _SMOOTHED

    def exact_curve(self) -> Curve:
        """The softmax at the radius, or the examples of least margin if these are within it."""
        return _SMOOTHED

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """-t radius - t log sum_i p_i exp(-margin_i / t) at the best t, which bounds it for each t."""
        prior = shares(prior, margins)
        least, above = lifted(margins, prior)
        radius = number(self.radius, margins)
        steepness = _steepness(radius, above, prior, None)
        is_finite = steepness < jnp.inf
        steepness = jnp.where(is_finite, steepness, 1.0)
        bound = _soft_minimum_down(steepness, self.radius, margins, prior)
        return jnp.where(is_finite, jnp.maximum(bound, least), least)

    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """How far d moves when as much of the prior is mixed in as brings it into the ball: KL is convex."""
        prior = shares(prior, example_weights)
        dtype = example_weights.dtype
        entropy = divergence_up(example_weights, prior)

        def move(relaxation: KLBall, example_weights: Array, entropy: Array, prior: Array) -> Array:
            weights, true = bounds.scaled(example_weights, prior), bounds.true_shares(prior)
            error = bounds.share_rounding(prior, dtype) + 4 * (prior.shape[0] + 8) * bounds.UNIT
            lost = jnp.maximum(1 - relaxation.radius * (1 - 4 * bounds.UNIT) / entropy, 0.0)
            return numerics.round_up(lost * (bounds.sum_up(jnp.abs(weights - true)) + error), dtype)

        moved = bounds.widely(move)(self, example_weights, entropy, prior)
        return Charge(jnp.zeros_like(moved), moved)

    def is_feasible(self, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """Always: the prior is in the ball."""
        return jnp.ones((), bool)

    def is_valid(self) -> Array:
        """Whether the radius is positive and finite."""
        return is_positive(self.radius)


@register
@dataclasses.dataclass(frozen=True)
class KLPenalty:
    """f(d) = scale * KL(d || p)."""

    scale: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """scale * KL."""
        return self.penalty(example_weights, prior)

    def penalty(self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """scale * KL."""
        prior = shares(prior, example_weights, axis_name)
        return number(self.scale, example_weights) * divergence(example_weights, prior, axis_name)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """scale * sum_i p_i (exp(z_i / scale) - 1)."""
        prior = shares(prior, shortfalls)
        scale = number(self.scale, shortfalls)
        return scale * numerics.precise_sum(prior * jnp.expm1(jnp.where(prior > 0, shortfalls, 0.0) / scale))

    def smoothed_argmin(self, margins: Array, strength: Array, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """A softmax of strength `scale + strength`."""
        prior = shares(prior, margins, axis_name)
        return softmax(margins, number(strength, margins) + number(self.scale, margins), prior, axis_name)

    def argmin(self, margins: Array, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """A softmax of strength `scale`."""
        return softmax(margins, self.scale, shares(prior, margins, axis_name), axis_name)

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """-scale * log sum_i p_i exp(-margin_i / scale), or that of a scale a rounding smaller."""
        prior = shares(prior, margins)
        steepness = (1 + 2 * jnp.finfo(margins.dtype).eps) / number(self.scale, margins)
        return _soft_minimum_down(steepness, jnp.zeros(()), margins, prior)

    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """f of the scaled weights."""
        prior = shares(prior, example_weights)
        entropy = divergence_up(example_weights, prior)

        def product(scale: Array, entropy: Array) -> Array:
            return numerics.round_up(scale * entropy * (1 + 4 * bounds.UNIT), example_weights.dtype)

        value = bounds.widely(product)(self.scale, entropy)
        return Charge(value, jnp.zeros_like(value))

    def is_feasible(self, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """Always."""
        return jnp.ones((), bool)

    def is_valid(self) -> Array:
        """Whether the scale is positive and finite."""
        return is_positive(self.scale)


def kl_ball(radius: ArrayLike) -> KLBall:
    """The relaxation that keeps the relative entropy of the example weights to the prior within a radius.

    Args:
      radius: [] positive, in nats: f(d) is 0 where sum_i d_i log(d_i / p_i) <= radius, else inf.

    Raises:
      ValueError: naming the argument, if it is not positive and finite.

    Source: Hu and Hong, Kullback-Leibler divergence constrained distributionally robust optimization (2013), Theorem 1.

    >>> import jax.numpy as jnp, jboost
    >>> relaxation = jboost.relaxations.kl_ball(0.1)
    >>> weights = relaxation.argmin(jnp.array([0.0, 1.0]))
    >>> round(float(jnp.sum(weights * jnp.log(2 * weights))), 4)
    0.1
    """
    return KLBall(positive("radius", radius))


def kl_penalty(scale: ArrayLike) -> KLPenalty:
    """The relaxation that charges the relative entropy of the example weights to the prior: f(d) = scale * KL(d || p).

    Its maximum over d is a soft maximum: scale * log sum_i p_i exp(loss_i / scale).

    Args:
      scale: [] positive, in units of the margin.

    Raises:
      ValueError: naming the argument, if it is not positive and finite.

    Source: Donsker and Varadhan (1975); Li et al., Tilted empirical risk minimization (2021).

    >>> import jax.numpy as jnp, jboost
    >>> round(float(jboost.relaxations.kl_penalty(1.0).lower_bound(jnp.array([0.0, 1.0]))), 4)
    0.3799
    """
    return KLPenalty(positive("scale", scale))


# --- the divergence --------------------------------------------------------------------------------------------------------


def divergence(weights: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """sum_i p_i (x_i log x_i - x_i + 1) of densities x = weights / prior, [], without cancellation; inf off the support of the prior."""
    is_positive, logs = _log_densities(weights, prior)
    densities = jnp.where(is_positive, weights, 1.0) / jnp.where(is_positive, prior, 1.0)
    terms = jnp.where(is_positive, prior * _entropy_of_density(densities, logs), prior)
    outside = named_axis.any_true((weights > 0) & (prior <= 0), axis_name)
    return jnp.where(outside, jnp.inf, named_axis.total(terms, axis_name))


def _log_densities(weights: Array, prior: Array) -> tuple[Array, Array]:
    """Where weights and prior are positive, [m], and log(weights / prior) there, [m]."""
    is_positive = (weights > 0) & (prior > 0)
    safe = jnp.where(is_positive, prior, 1.0)
    densities = jnp.where(is_positive, weights, 1.0) / safe
    return is_positive, _log(densities, jnp.where(is_positive, weights - safe, 0.0) / safe)


def _log(densities: Array, apart: Array) -> Array:
    """log x, [m], from x > 0 and x - 1, to roundings of itself."""
    is_near = jnp.abs(apart) < 0.5
    return jnp.where(is_near, jnp.log1p(jnp.where(is_near, apart, 0.0)), jnp.log(densities))


def divergence_up(example_weights: Array, prior: Array) -> Array:
    """At least the divergence of the weights scaled to sum to one, []; shares may be off by their rounding."""
    dtype = example_weights.dtype
    eps = jnp.finfo(dtype).eps
    error = bounds.share_rounding(prior, dtype) + 2 * (prior.shape[0] + 8) * bounds.UNIT

    def relative(example_weights: Array, prior: Array) -> tuple[Array, Array]:
        weights, true = bounds.scaled(example_weights, prior), bounds.true_shares(prior)
        return bounds.densities(weights, true).astype(dtype), bounds.densities(weights - true, true).astype(dtype)

    densities, apart = bounds.widely(relative)(example_weights, prior)
    is_positive = densities > 0
    logs = _log(jnp.where(is_positive, densities, 1.0), jnp.where(is_positive, apart, 0.0))
    terms = jnp.where(is_positive, _entropy_of_density(densities, logs), 1.0)
    moved = densities * jnp.minimum(jnp.abs(logs), logs * logs)
    unsure = _ROUNDINGS * eps * (terms + moved) + 2 * error * (jnp.abs(apart) + error)

    def total(terms: Array, unsure: Array, prior: Array) -> Array:
        true = bounds.true_shares(prior)
        return numerics.round_up(bounds.sum_up(true * (terms + unsure)) * (1 + error), dtype)

    found = bounds.widely(total)(terms, unsure, prior)
    outside = named_axis.any_true((example_weights > 0) & (prior <= 0), None)
    return jnp.where(outside, jnp.inf, found)


def _entropy_of_log(log: Array) -> Array:
    """x log x - x + 1 of x = exp(log)."""
    return _entropy_of_density(jnp.exp(log), log)


def _entropy_of_density(density: Array, log: Array) -> Array:
    """x log x - x + 1 of x, and of its logarithm."""
    is_near = jnp.abs(log) < _SERIES
    small = jnp.where(is_near, log, 0.0)
    near = small * small * (1 / 2 + small * (1 / 3 + small * (1 / 8 + small * (1 / 30 + small * (1 / 144 + small * (1 / 840 + small / 5760))))))
    return jnp.where(is_near, near, density * (log - 1) + 1)


def _unnormalised(exponents: Array, prior: Array) -> Array:
    """The divergence of weights p_i exp(e_i), which need not sum to one, []."""
    return numerics.precise_sum(prior * _entropy_of_log(exponents))


# --- the softmax at a steepness --------------------------------------------------------------------------------------------


def _log_sum(steepness: Array, above: Array, prior: Array, axis_name: AxisName) -> Array:
    """log sum_i p_i exp(-steepness * above_i), [], to roundings of itself where it is small."""
    powers = -steepness * above
    lost = named_axis.total(prior * jnp.expm1(powers), axis_name)
    is_near = lost > -0.5
    total = named_axis.total(prior * jnp.exp(powers), axis_name)
    return jnp.where(is_near, jnp.log1p(jnp.where(is_near, lost, 0.0)), jnp.log(total))


def _soft_minimum_down(steepness: Array, radius: Array, margins: Array, prior: Array) -> Array:
    """At most -(radius + log sum_i p_i exp(-b margin_i)) / b for the steepness b as it is, [].

    About the mean, where the linear terms cancel, or about the least margin where exponentials
    would be too large. Exponentials are taken in the caller's precision, sums in 64 bits.
    """
    dtype = margins.dtype
    eps = float(jnp.finfo(dtype).eps)
    clean = jnp.where(prior > 0, margins, 0.0)
    error = bounds.share_rounding(prior, dtype)

    def exponents(steepness: Array, margins: Array, prior: Array) -> tuple[Array, ...]:
        least = numerics.masked_min(margins, prior > 0, fill=jnp.inf)
        centre = numerics.precise_sum(bounds.true_shares(prior) * margins)
        is_near = steepness * (centre - least) <= _LARGEST_EXPONENT
        centre = jnp.where(is_near, centre, least)
        return (-steepness * (margins - centre)).astype(dtype), is_near

    powers, is_near = bounds.widely(exponents)(steepness, clean, prior)
    powers = jnp.where(prior > 0, powers, 0.0)
    growth = jnp.exp(powers)
    terms = jnp.where(is_near, _rest_of_exponential(powers), growth)
    change = jnp.where(is_near, jnp.abs(jnp.expm1(powers)), growth)  # of the terms, by the exponents
    doubt = _ROUNDINGS * eps * terms + 2 * eps * jnp.abs(powers) * change

    def total(terms: Array, doubt: Array, prior: Array) -> Array:
        true = bounds.true_shares(prior)
        size = jnp.abs(terms) * (error + (prior.shape[0] + 8) * bounds.UNIT) + doubt
        return (numerics.precise_sum(true * terms) + numerics.precise_sum(true * size) * (1 + error)).astype(dtype)

    summed = bounds.widely(total)(terms, doubt, prior) * (1 + 2 * eps)
    log_sum = jnp.where(is_near, jnp.log1p(summed), jnp.log(jnp.maximum(summed, jnp.finfo(dtype).tiny)))
    log_sum = log_sum + 8 * eps * jnp.abs(log_sum)

    def bound(steepness: Array, radius: Array, log_sum: Array, margins: Array, prior: Array) -> Array:
        true = bounds.true_shares(prior)
        least = numerics.masked_min(margins, prior > 0, fill=jnp.inf)
        centre = numerics.precise_sum(true * margins)
        unsure = (error + (margins.shape[0] + 8) * bounds.UNIT) * numerics.precise_sum(true * jnp.abs(margins - centre))
        is_near = steepness * (centre - least) <= _LARGEST_EXPONENT
        centre = jnp.where(is_near, centre, least)
        loss = (radius + log_sum) / steepness
        return numerics.round_down(bounds.lowered(centre - loss, centre, loss) - jnp.where(is_near, unsure, 0.0), dtype)

    return bounds.widely(bound)(steepness, radius, log_sum, clean, prior)


def _rest_of_exponential(power: Array) -> Array:
    """exp(y) - 1 - y, to roundings of itself."""
    is_small = jnp.abs(power) < 0.5
    y = jnp.where(is_small, power, 0.0)
    term, total = y * y / 2, y * y / 2
    for order in range(3, 14):
        term = term * y / order
        total = total + term
    return jnp.where(is_small, total, jnp.expm1(power) - power)


def _divergence_of_softmax(steepness: Array, above: Array, prior: Array, axis_name: AxisName) -> tuple[Array, Array]:
    """KL of the softmax to the prior, and the variance of `above` under it, [] both."""
    logs = -steepness * above - _log_sum(steepness, above, prior, axis_name)
    weights = prior * jnp.exp(logs)
    mean = named_axis.total(weights * above, axis_name)
    variance = named_axis.total(weights * (above - mean) ** 2, axis_name)
    small = named_axis.total(prior * _entropy_of_log(logs), axis_name)
    return jnp.where(small < _SMALL, small, named_axis.total(weights * logs, axis_name)), variance


def _steepness(radius: Array, above: Array, prior: Array, axis_name: AxisName) -> Array:
    """Where the divergence of the softmax is the radius, []; inf where that of the least margins is no larger."""
    is_real = prior > 0
    top = named_axis.total(jnp.where(above == 0, prior, 0.0), axis_name)
    limits = jnp.finfo(above.dtype)
    span = named_axis.largest(above, is_real, axis_name)
    gap = named_axis.least(above, is_real & (above > 0), axis_name)
    is_hard = (radius >= -jnp.log(top) * (1 - 4 * limits.eps)) | (span <= 0)
    span, gap = jnp.where(is_hard, 1.0, span), jnp.where(is_hard, 1.0, gap)
    aim = jnp.where(is_hard, 1.0, radius)
    low = 0.5 * jnp.log(8 * aim) - jnp.log(span) - 8 * limits.eps  # KL <= (steepness * span)^2 / 8 (Hoeffding 1963)
    high = jnp.maximum(jnp.log(100 - jnp.log(top)) - jnp.log(gap), low)  # there the rest has no weight
    high = jnp.minimum(high, jnp.log(limits.max) - 8 - jnp.log(jnp.maximum(span, 1.0)))

    def excess(log_steepness: Array) -> tuple[Array, Array]:
        steepness = jnp.exp(log_steepness)
        found, variance = _divergence_of_softmax(steepness, above, prior, axis_name)
        found = jnp.maximum(found, limits.tiny)
        value = jnp.log(found) - jnp.log(aim)
        return value, newton(log_steepness, value, steepness * steepness * variance / found)

    found = bracketed_root(excess, low, jnp.maximum(high, low), low, tolerance=4 * limits.eps)
    return jnp.where(is_hard, jnp.inf, jnp.exp(found))


def _find_steepness(relaxation: KLBall, margins: Array, strength: Array, prior: Array, axis_name: AxisName) -> Array:
    _, above = relative(margins, prior, axis_name)
    return _steepness(number(relaxation.radius, margins), above, prior, axis_name)


def _at_steepness(
    steepness: Array,
    relaxation: KLBall,
    margins: Array,
    strength: Array,
    prior: Array,
    axis_name: AxisName,
) -> Point:
    """The softmax of the largest strength of the two; with neither, the least margins."""
    eighth, above = relative(margins, prior, axis_name)
    is_hard, is_smooth = steepness == jnp.inf, strength > 0
    own = jnp.where(is_hard, 1.0, steepness)
    smooth = jnp.minimum(8 * (eighth / jnp.where(is_smooth, strength, 1.0)), jnp.finfo(margins.dtype).max)
    is_within = is_smooth & (is_hard | (smooth <= own))
    used = jnp.where(is_within, smooth, own)
    is_least = is_hard & ~is_smooth

    def excess() -> Array:
        found, _ = _divergence_of_softmax(own, above, prior, axis_name)
        radius = number(relaxation.radius, margins)
        return jnp.where(is_hard, 0.0, jnp.log(jnp.where(is_hard, 1.0, found)) - jnp.log(radius))

    densities = jnp.where(is_least, jnp.where(above == 0, 1.0, 0.0), jnp.exp(-used * above))
    return Point(prior * densities, excess)


_SMOOTHED = Curve(_find_steepness, _at_steepness)


def _steepness_at(radius: Array, shortfalls: Array, prior: Array) -> Array:
    """b where the divergence of p_i exp(b z_i) is the radius, []; inf where it never is, which takes z <= 0."""
    shortfalls, prior = lax.stop_gradient(shortfalls), lax.stop_gradient(prior)
    span = numerics.masked_max(jnp.abs(shortfalls), prior > 0, fill=0.0)
    highest = numerics.masked_max(shortfalls, prior > 0, fill=-jnp.inf)
    falling = numerics.precise_sum(jnp.where(shortfalls < 0, prior, 0.0))
    is_never = (span <= 0) | ((highest <= 0) & (falling <= radius))
    scaled = shortfalls / jnp.where(is_never, 1.0, span)
    limits = jnp.finfo(shortfalls.dtype)

    def excess(log_steepness: Array) -> tuple[Array, Array]:
        exponents = jnp.minimum(jnp.exp(log_steepness) * scaled, jnp.log(limits.max) - 8)
        found = jnp.maximum(_unnormalised(exponents, prior), limits.tiny)
        slope = numerics.precise_sum(prior * exponents**2 * jnp.exp(exponents)) / found
        value = jnp.log(found) - jnp.log(radius)
        return value, newton(log_steepness, value, slope)

    low, high = 0.5 * jnp.log(radius) - 4, jnp.full_like(radius, jnp.log(limits.max) / 2)
    start = jnp.clip(0.5 * jnp.log(radius), low, high)
    found = bracketed_root(excess, jnp.minimum(low, -60.0), high, start, tolerance=4 * limits.eps)
    return jnp.where(is_never, jnp.inf, jnp.exp(found) / jnp.where(is_never, 1.0, span))
