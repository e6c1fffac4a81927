"""Relative entropy of the example weights to the prior, as a ball and as a penalty.

KL(d || p) = sum_i p_i (x_i log x_i - x_i + 1) with densities x_i = d_i / p_i, which on the simplex
is sum_i d_i log x_i. The minimiser of <margins, d> + f(d) is a softmax, d_i = p_i
exp(-b margin_i) / Z. For the penalty, b = 1 / scale. For the ball, b is the number at which KL is
the radius, or infinite if the distribution on the least margins alone is in the ball (Hu and Hong
2013; Namkoong and Duchi 2016).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp

from jboost.base import named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.records import register
from jboost.base.roots import implicit_root
from jboost.base.types import Array, ArrayLike
from jboost.relaxations import bounds, envelope, tilting
from jboost.relaxations.curves import Curve, OnCurves
from jboost.relaxations.types import (
    Charge,
    Constraint,
    Penalty,
    is_positive,
    lifted,
    number,
    positive,
    shares,
    softmax,
)

_ROUNDINGS = 8  # a bound on the relative error of the terms of an entropy, in units of epsilon
# With larger exponents about the mean, sums of exponentials are computed about the least margin.
_LARGEST_EXPONENT = 4.0


@register
@dataclasses.dataclass(frozen=True)
class KLBall(OnCurves, Constraint):
    """f is 0 where KL(d || p) <= radius, else inf."""

    smoothed_curve: ClassVar[Curve] = tilting.TILTED
    exact_curve: ClassVar[Curve] = tilting.TILTED

    radius: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """0 inside, up to rounding."""
        prior = shares(prior, example_weights)
        eps = jnp.finfo(example_weights.dtype).eps
        inside = (
            tilting.divergence(example_weights, prior)
            <= self.radius * (1 + _ROUNDINGS * eps) + eps * eps
        )
        return jnp.where(inside, 0.0, jnp.inf).astype(example_weights.dtype)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """The minimum over t > 0 of t radius + t sum_i p_i (exp(z_i / t) - 1)."""
        prior = shares(prior, shortfalls)
        clean = jnp.where(prior > 0, shortfalls, 0.0)
        radius = number(self.radius, shortfalls)
        steepness = tilting.steepness_of_conjugate(radius, clean, prior)

        def excess(steepness: Array) -> Array:
            return jnp.log(tilting.divergence_of_powers(steepness * clean, prior)) - jnp.log(radius)

        is_bounded = steepness < jnp.inf
        found = implicit_root(excess, jnp.where(is_bounded, steepness, 1.0))
        grown = numerics.precise_sum(prior * jnp.expm1(found * clean))
        return jnp.where(is_bounded, (radius + grown) / found, 0.0)

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """-t radius - t log sum_i p_i exp(-margin_i / t) at the best t. It is a lower bound for
        every t.
        """
        prior = shares(prior, margins)
        least, above = lifted(margins, prior)
        radius = number(self.radius, margins)
        steepness = tilting.steepness_of(radius, above, prior, None)
        is_finite = steepness < jnp.inf
        steepness = jnp.where(is_finite, steepness, 1.0)
        bound = _soft_minimum_down(steepness, self.radius, margins, prior)
        return jnp.where(is_finite, jnp.maximum(bound, least), least)

    @envelope.charged
    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """How far d moves when enough of the prior is mixed in to bring it into the ball. The share
        follows from the convexity of KL.
        """
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

    def is_valid(self) -> Array:
        """Whether the radius is positive and finite."""
        return is_positive(self.radius)


@register
@dataclasses.dataclass(frozen=True)
class KLPenalty(Penalty):
    """f(d) = scale * KL(d || p)."""

    scale: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """scale * KL."""
        return self.penalty(example_weights, prior)

    def penalty(
        self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """scale * KL."""
        prior = shares(prior, example_weights, axis_name)
        return number(self.scale, example_weights) * tilting.divergence(
            example_weights, prior, axis_name
        )

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """scale * sum_i p_i (exp(z_i / scale) - 1)."""
        prior = shares(prior, shortfalls)
        scale = number(self.scale, shortfalls)
        return scale * numerics.precise_sum(
            prior * jnp.expm1(jnp.where(prior > 0, shortfalls, 0.0) / scale)
        )

    def smoothed_argmin(
        self,
        margins: Array,
        strength: Array,
        prior: Array | None = None,
        *,
        axis_name: AxisName = None,
    ) -> Array:
        """A softmax of strength `scale + strength`."""
        prior = shares(prior, margins, axis_name)
        return softmax(
            margins, number(strength, margins) + number(self.scale, margins), prior, axis_name
        )

    def argmin(
        self, margins: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """A softmax of strength `scale`."""
        return softmax(margins, self.scale, shares(prior, margins, axis_name), axis_name)

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """-scale * log sum_i p_i exp(-margin_i / scale), possibly for a slightly smaller scale."""
        prior = shares(prior, margins)
        steepness = (1 + 2 * jnp.finfo(margins.dtype).eps) / number(self.scale, margins)
        return _soft_minimum_down(steepness, jnp.zeros(()), margins, prior)

    @envelope.charged
    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """f of the scaled weights."""
        prior = shares(prior, example_weights)
        entropy = divergence_up(example_weights, prior)

        def product(scale: Array, entropy: Array) -> Array:
            return numerics.round_up(scale * entropy * (1 + 4 * bounds.UNIT), example_weights.dtype)

        value = bounds.widely(product)(self.scale, entropy)
        return Charge(value, jnp.zeros_like(value))


def kl_ball(radius: ArrayLike) -> KLBall:
    """The relaxation that keeps the relative entropy of the example weights to the prior within a
    radius.

    Args:
      radius: [] positive, in nats: f(d) is 0 where sum_i d_i log(d_i / p_i) <= radius, else inf.

    Raises:
      ValueError: naming the argument, if it is not positive and finite.

    Source: Hu and Hong, Kullback-Leibler divergence constrained distributionally robust
    optimization (2013), Theorem 1.

    >>> import jax.numpy as jnp, jboost
    >>> relaxation = jboost.relaxations.kl_ball(0.1)
    >>> weights = relaxation.argmin(jnp.array([0.0, 1.0]))
    >>> round(float(jnp.sum(weights * jnp.log(2 * weights))), 4)
    0.1
    """
    return KLBall(positive("radius", radius))


def kl_penalty(scale: ArrayLike) -> KLPenalty:
    """The relaxation that charges the relative entropy of the example weights to the prior:
    f(d) = scale * KL(d || p).

    The largest value of <losses, d> - f(d) is a soft maximum: scale * log sum_i p_i
    exp(loss_i / scale).

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


def divergence_up(example_weights: Array, prior: Array) -> Array:
    """An upper bound on the divergence of the weights scaled to sum to one, []. It allows for the
    rounding of the shares.
    """
    dtype = example_weights.dtype
    eps = jnp.finfo(dtype).eps
    error = bounds.share_rounding(prior, dtype) + 2 * (prior.shape[0] + 8) * bounds.UNIT

    def relative(example_weights: Array, prior: Array) -> tuple[Array, Array]:
        weights, true = bounds.scaled(example_weights, prior), bounds.true_shares(prior)
        return bounds.densities(weights, true).astype(dtype), bounds.densities(
            weights - true, true
        ).astype(dtype)

    densities, apart = bounds.widely(relative)(example_weights, prior)
    is_positive = densities > 0
    logs = tilting.log_of(
        jnp.where(is_positive, densities, 1.0), jnp.where(is_positive, apart, 0.0)
    )
    terms = jnp.where(is_positive, tilting.entropy_of_density(densities, logs), 1.0)
    moved = densities * jnp.minimum(jnp.abs(logs), logs * logs)
    unsure = _ROUNDINGS * eps * (terms + moved) + 2 * error * (jnp.abs(apart) + error)

    def total(terms: Array, unsure: Array, prior: Array) -> Array:
        true = bounds.true_shares(prior)
        return numerics.round_up(bounds.sum_up(true * (terms + unsure)) * (1 + error), dtype)

    found = bounds.widely(total)(terms, unsure, prior)
    outside = named_axis.any_true((example_weights > 0) & (prior <= 0), None)
    return jnp.where(outside, jnp.inf, found)


def _soft_minimum_down(steepness: Array, radius: Array, margins: Array, prior: Array) -> Array:
    """A lower bound on -(radius + log sum_i p_i exp(-b margin_i)) / b for the given steepness b,
    [].

    Margins are taken relative to their mean, so that the linear terms cancel, or relative to the
    least margin if exponentials would be too large. Exponentials are computed in the caller's
    precision, and sums in 64 bits.
    """
    dtype = margins.dtype
    clean = jnp.where(prior > 0, margins, 0.0)
    error = bounds.share_rounding(prior, dtype)
    log_sum = _log_sum_up(steepness, clean, prior, error)

    def bound(
        steepness: Array, radius: Array, log_sum: Array, margins: Array, prior: Array
    ) -> Array:
        true = bounds.true_shares(prior)
        mean = numerics.precise_sum(true * margins)
        unsure = (error + (margins.shape[0] + 8) * bounds.UNIT) * numerics.precise_sum(
            true * jnp.abs(margins - mean)
        )
        centre, is_near = _centre(steepness, margins, prior, mean)
        loss = (radius + log_sum) / steepness
        return numerics.round_down(
            bounds.lowered(centre - loss, centre, loss) - jnp.where(is_near, unsure, 0.0), dtype
        )

    return bounds.widely(bound)(steepness, radius, log_sum, clean, prior)


def _log_sum_up(steepness: Array, margins: Array, prior: Array, error: float) -> Array:
    """An upper bound on log sum_i p_i exp(-b (margin_i - centre)), [], for the relative error of
    the shares.
    """
    dtype = margins.dtype
    eps = float(jnp.finfo(dtype).eps)

    def exponents(steepness: Array, margins: Array, prior: Array) -> tuple[Array, ...]:
        mean = numerics.precise_sum(bounds.true_shares(prior) * margins)
        centre, is_near = _centre(steepness, margins, prior, mean)
        return (-steepness * (margins - centre)).astype(dtype), is_near

    powers, is_near = bounds.widely(exponents)(steepness, margins, prior)
    powers = jnp.where(prior > 0, powers, 0.0)
    growth = jnp.exp(powers)
    terms = jnp.where(is_near, _rest_of_exponential(powers), growth)
    # of the terms, by the exponents
    change = jnp.where(is_near, jnp.abs(jnp.expm1(powers)), growth)
    doubt = _ROUNDINGS * eps * terms + 2 * eps * jnp.abs(powers) * change

    def total(terms: Array, doubt: Array, prior: Array) -> Array:
        true = bounds.true_shares(prior)
        size = jnp.abs(terms) * (error + (prior.shape[0] + 8) * bounds.UNIT) + doubt
        return (
            numerics.precise_sum(true * terms) + numerics.precise_sum(true * size) * (1 + error)
        ).astype(dtype)

    summed = bounds.widely(total)(terms, doubt, prior) * (1 + 2 * eps)
    log_sum = jnp.where(
        is_near, jnp.log1p(summed), jnp.log(jnp.maximum(summed, jnp.finfo(dtype).tiny))
    )
    return log_sum + 8 * eps * jnp.abs(log_sum)


def _centre(steepness: Array, margins: Array, prior: Array, mean: Array) -> tuple[Array, Array]:
    """The number [] from which margins are measured: their mean if the exponentials are then small
    enough, [] bool, else the least margin.
    """
    least = numerics.masked_min(margins, prior > 0, fill=jnp.inf)
    is_near = steepness * (mean - least) <= _LARGEST_EXPONENT
    return jnp.where(is_near, mean, least), is_near


def _rest_of_exponential(power: Array) -> Array:
    """exp(y) - 1 - y, with a relative error of a few roundings."""
    is_small = jnp.abs(power) < 0.5
    y = jnp.where(is_small, power, 0.0)
    term, total = y * y / 2, y * y / 2
    for order in range(3, 14):
        term = term * y / order
        total = total + term
    return jnp.where(is_small, total, jnp.expm1(power) - power)
