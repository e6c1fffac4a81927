"""The chi-square divergence of the example weights to the prior, as a ball and as a penalty.

chi2(d || p) = sum_i (d_i - p_i)^2 / p_i = sum_i p_i (x_i - 1)^2 with densities x_i = d_i / p_i. It
is the variance of the densities. The divergence of Duchi and Namkoong (2019) is half of it, so that
their radius rho is a radius of 2 rho here. With m examples the ball is the Euclidean ball of radius
sqrt((1 + radius) / m).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp

from jboost.base import named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.relaxations import bounds, envelope, quadratic_charge, shortfalls
from jboost.relaxations.curves import Curve, OnCurves
from jboost.relaxations.euclidean import EuclideanBall
from jboost.relaxations.types import (
    Charge,
    Penalty,
    is_positive,
    lifted,
    number,
    positive,
    shares,
)


@register
@dataclasses.dataclass(frozen=True)
class ChiSquareBall(EuclideanBall):
    """f is 0 where chi2(d || p) <= radius, else inf: a Euclidean ball whose mean squared density is
    at most 1 + radius.
    """

    radius: Array  # [] of the divergence

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """0 inside, up to rounding."""
        prior = shares(prior, example_weights)
        slack = 64 * jnp.finfo(example_weights.dtype).eps
        is_inside = chi_square(example_weights, prior) <= self.radius * (1 + slack) + slack**2
        return jnp.where(is_inside, 0.0, jnp.inf).astype(example_weights.dtype)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """sqrt(1 + radius) times the norm of the shortfalls. This is the conjugate for the
        Euclidean ball, with which f agrees on the simplex.
        """
        prior = shares(prior, shortfalls)
        norm = numerics.precise_sum(
            jnp.where(prior > 0, prior * jnp.maximum(shortfalls, 0.0) ** 2, 0.0)
        )
        return jnp.sqrt(self.square(prior)) * numerics.root(norm)

    def is_feasible(self, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """Always: the prior is in the ball."""
        return jnp.ones((), bool)

    def is_valid(self) -> Array:
        """Whether the radius is positive and finite."""
        return is_positive(self.radius)

    def square(self, prior: Array) -> Array:
        """1 + radius."""
        return 1 + number(self.radius, prior)

    def variance(self, prior: Array, axis_name: AxisName = None) -> Array:
        """The radius."""
        return number(self.radius, prior)


@register
@dataclasses.dataclass(frozen=True)
class ChiSquarePenalty(OnCurves, Penalty):
    """f(d) = scale * chi2(d || p)."""

    smoothed_curve: ClassVar[Curve] = quadratic_charge.DENSITIES
    exact_curve: ClassVar[Curve] = shortfalls.CHI_SQUARE_PENALTY

    scale: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """scale * chi2."""
        return self.penalty(example_weights, prior)

    def penalty(
        self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """scale * chi2."""
        prior = shares(prior, example_weights, axis_name)
        return number(self.scale, example_weights) * chi_square(example_weights, prior, axis_name)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """sum_i p_i (z_i + z_i^2 / (4 scale)), where z_i is at least -2 scale."""
        prior = shares(prior, shortfalls)
        scale = number(self.scale, shortfalls)
        terms = jnp.maximum(jnp.where(prior > 0, shortfalls, 0.0), -2 * scale)
        return numerics.precise_sum(prior * (terms + terms * (terms / (4 * scale))))

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """gamma minus the conjugate of gamma - margins, at the best gamma."""
        prior = shares(prior, margins)
        dtype = margins.dtype
        _, above = lifted(margins, prior)
        reach = shortfalls.reach_of_sum(2 * number(self.scale, margins), above, prior)

        def bound(
            relaxation: ChiSquarePenalty, margins: Array, prior: Array, reach: Array
        ) -> Array:
            least = numerics.masked_min(margins, prior > 0, fill=jnp.inf)
            clean, true = jnp.where(prior > 0, margins, least), bounds.true_shares(prior)
            double = 2 * relaxation.scale
            densities = jnp.maximum(reach - (clean - least), 0.0) / double
            square = bounds.sum_up(true * densities * densities) * (
                1 + bounds.share_rounding(prior, dtype)
            )
            # gamma = least + reach - 2 scale, and conjugate = scale * (sum p x^2 - 1)
            loss = 0.5 * double * (square + 1)
            return numerics.round_down(
                bounds.lowered(least + reach - loss, least, reach, loss), dtype
            )

        return bounds.widely(bound)(self, jnp.where(prior > 0, margins, 0.0), prior, reach)

    @envelope.charged
    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """f of the scaled weights."""
        prior = shares(prior, example_weights)
        dtype = example_weights.dtype

        def bound(relaxation: ChiSquarePenalty, example_weights: Array, prior: Array) -> Array:
            weights, true = bounds.scaled(example_weights, prior), bounds.true_shares(prior)
            error = bounds.share_rounding(prior, dtype) + (2 * weights.shape[0] + 8) * bounds.UNIT
            apart = jnp.abs(bounds.densities(weights, true) - jnp.where(true > 0, 1.0, 0.0))
            apart = apart + error * (1 + apart)
            return numerics.round_up(
                relaxation.scale * bounds.sum_up(true * apart * apart) * (1 + 2 * error), dtype
            )

        value = bounds.widely(bound)(self, example_weights, prior)
        return Charge(value, jnp.zeros_like(value))

    def density_charge(self, strength: Array) -> Array:
        """kappa of kappa x + log x = level - margin / strength."""
        return 2 * number(self.scale, strength) / strength


def chi_square(weights: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """sum_i (d_i - p_i)^2 / p_i, []; inf off the support of the prior."""
    apart = jnp.where(prior > 0, weights - prior, 0.0)
    outside = named_axis.any_true((weights > 0) & (prior <= 0), axis_name)
    total = named_axis.total(apart * numerics.safe_divide(apart, prior), axis_name)
    return jnp.where(outside, jnp.inf, total)


def chi_square_ball(radius: ArrayLike) -> ChiSquareBall:
    """The relaxation that keeps the chi-square divergence of the example weights to the prior
    within a radius.

    Args:
      radius: [] positive: f(d) is 0 where sum_i (d_i - p_i)^2 / p_i <= radius, else inf; twice the
        rho of Duchi and Namkoong.

    Raises:
      ValueError: naming the argument, if it is not positive and finite.

    Source: Duchi and Namkoong, Variance-based regularization with convex objectives (2019), Section
    2.

    >>> import jax.numpy as jnp, jboost
    >>> weights = jboost.relaxations.chi_square_ball(0.25).argmin(jnp.array([0.0, 1.0]))
    >>> [round(float(weight), 4) for weight in weights]
    [0.75, 0.25]
    """
    return ChiSquareBall(positive("radius", radius))


def chi_square_penalty(scale: ArrayLike) -> ChiSquarePenalty:
    """The relaxation that charges the chi-square divergence of the example weights to the prior:
    f(d) = scale * chi2(d || p).

    Args:
      scale: [] positive, in units of the margin.

    Raises:
      ValueError: naming the argument, if it is not positive and finite.

    Source: Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust
    optimization (2020), Section 2.

    >>> import jax.numpy as jnp, jboost
    >>> weights = jboost.relaxations.chi_square_penalty(1.0).argmin(jnp.array([0.0, 1.0]))
    >>> [round(float(weight), 4) for weight in weights]
    [0.625, 0.375]
    """
    return ChiSquarePenalty(positive("scale", scale))
