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
from jboost.relaxations.curves import Curve, Point
from jboost.relaxations.roots import bracketed_root, newton
from jboost.relaxations.types import (
    Charge,
    is_positive,
    lifted,
    number,
    positive,
    shares,
    softmax,
)

_SERIES = 0.1  # |log density| below which a power series replaces a difference that cancels
_ROUNDINGS = 32  # of a float's epsilon, by which an entropy of float arithmetic may be wrong, relative to its terms


@register
@dataclasses.dataclass(frozen=True)
class KLBall:
    """f is 0 where KL(d || p) <= radius, else inf."""

    radius: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """0 inside, up to rounding."""
        prior = shares(prior, example_weights)
        eps = jnp.finfo(example_weights.dtype).eps
        inside = divergence(example_weights, prior) <= self.radius * (1 + _ROUNDINGS * eps) + eps * eps
        return jnp.where(inside, 0.0, jnp.inf).astype(example_weights.dtype)

    def penalty(self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """0."""
        return jnp.zeros((), example_weights.dtype)

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

    def smoothed_argmin(self, margins: Array, strength: Array, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """A softmax of a strength that brings it into the ball."""
        prior = shares(prior, margins, axis_name)
        strength = number(strength, margins)
        return curves.argmin(_SMOOTHED, self, margins, strength, prior, axis_name)

    def argmin(self, margins: Array, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """The softmax at the radius, or the examples of least margin if these are within it."""
        prior = shares(prior, margins, axis_name)
        strength = jnp.zeros((), margins.dtype)
        return curves.argmin(_SMOOTHED, self, margins, strength, prior, axis_name)

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """-t radius - t log sum_i p_i exp(-margin_i / t) at the best t, which bounds it for each t."""
        prior = shares(prior, margins)
        least, above = lifted(margins, prior)
        radius = number(self.radius, margins)
        steepness = _steepness(radius, above, prior, None)
        is_finite = steepness < jnp.inf
        steepness = jnp.where(is_finite, steepness, 1.0)
        log_sum, error = _log_sum_up(steepness, above, prior)
        loss = (radius + log_sum + error) / steepness
        bound = least - loss - 8 * jnp.finfo(margins.dtype).eps * (jnp.abs(least) + jnp.abs(loss) + radius / steepness)
        return jnp.where(is_finite, jnp.maximum(bound, least), least)

    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """How far d moves when as much of the prior is mixed in as brings it into the ball: KL is convex."""
        prior = shares(prior, example_weights)
        weights = _scaled(example_weights, prior)
        eps = jnp.finfo(weights.dtype).eps
        kept = jnp.minimum(number(self.radius, weights) * (1 - 4 * eps) / divergence_up(weights, prior), 1.0)
        apart = numerics.precise_sum(jnp.abs(weights - prior))
        moved = jnp.where(kept < 1, (1 - kept + 4 * eps) * (apart + 8 * eps), 0.0)
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
        """-scale * log sum_i p_i exp(-margin_i / scale)."""
        prior = shares(prior, margins)
        least, above = lifted(margins, prior)
        scale = number(self.scale, margins)
        log_sum, error = _log_sum_up(1 / scale, above, prior)
        gain = -scale * (log_sum + error)
        return least + gain - 8 * jnp.finfo(margins.dtype).eps * (jnp.abs(least) + jnp.abs(gain))

    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """f of the scaled weights."""
        prior = shares(prior, example_weights)
        weights = _scaled(example_weights, prior)
        value = number(self.scale, weights) * divergence_up(weights, prior)
        return Charge(value * (1 + 4 * jnp.finfo(value.dtype).eps), jnp.zeros_like(value))

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
    is_positive = (weights > 0) & (prior > 0)
    logs = jnp.log(jnp.where(is_positive, weights, 1.0)) - jnp.log(jnp.where(is_positive, prior, 1.0))
    terms = jnp.where(is_positive, prior * _entropy_of_log(logs), prior)
    outside = named_axis.any_true((weights > 0) & (prior <= 0), axis_name)
    return jnp.where(outside, jnp.inf, named_axis.total(terms, axis_name))


def divergence_up(weights: Array, prior: Array) -> Array:
    """At least that, of weights and shares that are rounded, []."""
    is_positive = (weights > 0) & (prior > 0)
    logs = jnp.log(jnp.where(is_positive, weights, 1.0)) - jnp.log(jnp.where(is_positive, prior, 1.0))
    terms = jnp.where(is_positive, prior * _entropy_of_log(logs), prior)
    size = weights.shape[0]
    error = _ROUNDINGS * jnp.finfo(weights.dtype).eps + (size + 8) * bounds.UNIT
    moved = numerics.precise_sum(jnp.where(is_positive, weights * jnp.abs(logs) + terms, terms))
    return numerics.precise_sum(terms) + error * moved + jnp.finfo(weights.dtype).tiny


def _entropy_of_log(log: Array) -> Array:
    """x log x - x + 1 of x = exp(log)."""
    is_near = jnp.abs(log) < _SERIES
    small = jnp.where(is_near, log, 0.0)
    near = small * small * (1 / 2 + small * (1 / 3 + small * (1 / 8 + small * (1 / 30 + small * (1 / 144 + small * (1 / 840 + small / 5760))))))
    large = jnp.where(is_near, 0.0, log)
    return jnp.where(is_near, near, jnp.exp(large) * (large - 1) + 1)


def _unnormalised(exponents: Array, prior: Array) -> Array:
    """The divergence of weights p_i exp(e_i), which need not sum to one, []."""
    return numerics.precise_sum(prior * _entropy_of_log(exponents))


def _scaled(example_weights: Array, prior: Array) -> Array:
    kept = jnp.where(prior > 0, example_weights, 0.0)
    return kept / numerics.precise_sum(kept)


# --- the softmax at a steepness --------------------------------------------------------------------------------------------


def _log_sum(steepness: Array, above: Array, prior: Array, axis_name: AxisName) -> Array:
    """log sum_i p_i exp(-steepness * above_i), [], to roundings of itself where it is small."""
    return jnp.log1p(named_axis.total(prior * jnp.expm1(-steepness * above), axis_name))


def _log_sum_up(steepness: Array, above: Array, prior: Array) -> tuple[Array, Array]:
    """That, and how far it may be wrong."""
    log_sum = _log_sum(steepness, above, prior, None)
    eps = jnp.finfo(above.dtype).eps
    return log_sum, (_ROUNDINGS * eps + (above.shape[0] + 8) * bounds.UNIT) * jnp.abs(log_sum)


def _divergence_of_softmax(steepness: Array, above: Array, prior: Array, axis_name: AxisName) -> tuple[Array, Array]:
    """KL of the softmax to the prior, and the variance of `above` under it, [] both."""
    logs = -steepness * above - _log_sum(steepness, above, prior, axis_name)
    weights = prior * jnp.exp(logs)
    mean = named_axis.total(weights * above, axis_name)
    variance = named_axis.total(weights * (above - mean) ** 2, axis_name)
    return named_axis.total(prior * _entropy_of_log(logs), axis_name), variance


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
    _, above = lifted(margins, prior, axis_name)
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
    _, above = lifted(margins, prior, axis_name)
    is_hard, is_smooth = steepness == jnp.inf, strength > 0
    own = jnp.where(is_hard, 1.0, steepness)
    smooth = 1 / jnp.where(is_smooth, strength, 1.0)
    is_within = is_smooth & (is_hard | (smooth <= own))
    used = jnp.where(is_within, smooth, own)
    found, _ = _divergence_of_softmax(own, above, prior, axis_name)
    radius = number(relaxation.radius, margins)
    excess = jnp.where(is_hard, 0.0, jnp.log(jnp.where(is_hard, 1.0, found)) - jnp.log(radius))
    is_least = is_hard & ~is_smooth
    return Point(prior * jnp.where(is_least, jnp.where(above == 0, 1.0, 0.0), jnp.exp(-used * above)), excess)


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
