"""The Euclidean norm of the example weights, as a ball and as a penalty (Shalev-Shwartz and Singer
2008, Sections 4 and 6).

The smoothed minimisers of both lie on the curve of `quadratic_charge`.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp

from jboost.base import named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.records import register
from jboost.base.types import Array
from jboost.relaxations import bounds, envelope, quadratic_charge, shortfalls
from jboost.relaxations.curves import Curve, OnCurves
from jboost.relaxations.types import (
    Charge,
    Constraint,
    Penalty,
    lifted,
    num_examples,
    number,
    relative,
    shares,
    times,
    with_derivative_of,
)


@register
@dataclasses.dataclass(frozen=True)
class EuclideanBall(OnCurves, Constraint):
    """f is 0 where |d|_2 <= radius, else inf."""

    smoothed_curve: ClassVar[Curve] = quadratic_charge.BALL
    exact_curve: ClassVar[Curve] = shortfalls.BALL

    radius: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """0 inside, up to rounding."""
        prior = shares(prior, example_weights)
        slack = 1 + 16 * jnp.finfo(example_weights.dtype).eps
        inside = _norm(example_weights, prior) <= self.radius * slack
        return jnp.where(inside, 0.0, jnp.inf).astype(example_weights.dtype)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """radius times the norm of the shortfalls."""
        return times(
            number(self.radius, shortfalls), _shortfall_norm(shortfalls, shares(prior, shortfalls))
        )

    def smoothed_argmin(
        self,
        margins: Array,
        strength: Array,
        prior: Array | None = None,
        *,
        axis_name: AxisName = None,
    ) -> Array:
        """The point of the curve. Without `axis_name` it is certainly inside the ball."""
        weights = super().smoothed_argmin(margins, strength, prior, axis_name=axis_name)
        if axis_name is not None:
            return weights
        inside = self._moved_inside(weights, shares(prior, margins))
        return with_derivative_of(inside, weights)

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """The larger of gamma - radius * |[gamma - margins]_+|_2 at the best gamma, and the
        Cauchy-Schwarz bound, which does not use d >= 0.
        """
        prior = shares(prior, margins)
        dtype = margins.dtype
        eighth, position = relative(margins, prior)
        reach = 8 * eighth * shortfalls.best_reach(self.variance(prior), position, prior)
        is_apart = reach > 0
        reach = jnp.where(is_apart, reach, 1.0)

        def squares(
            relaxation: EuclideanBall, margins: Array, prior: Array, reach: Array
        ) -> tuple[Array, Array]:
            least = numerics.masked_min(margins, prior > 0, fill=jnp.inf)
            square = bounds.shortfall_sum_up(least + reach, margins, prior, 2) / (reach * reach)
            return square.astype(dtype), _cauchy(relaxation.square(prior), margins, prior, dtype)[
                1
            ].astype(dtype)

        def bound(
            relaxation: EuclideanBall,
            margins: Array,
            prior: Array,
            reach: Array,
            guess: Array,
            other_guess: Array,
        ) -> Array:
            least = numerics.masked_min(margins, prior > 0, fill=jnp.inf)
            square = relaxation.square(prior)
            by_threshold = _by_threshold(square, least, reach, margins, prior, guess, dtype)
            by_mean = _by_mean(square, margins, prior, other_guess, dtype)
            return numerics.round_down(
                jnp.maximum(jnp.where(is_apart, by_threshold, least), by_mean), dtype
            )

        clean = jnp.where(prior > 0, margins, 0.0)
        square, other = bounds.widely(squares)(self, clean, prior, reach)
        guess = jnp.sqrt(jnp.maximum(square * self.square(prior), jnp.finfo(dtype).tiny))
        return bounds.widely(bound)(
            self, clean, prior, reach, guess, jnp.sqrt(jnp.maximum(other, jnp.finfo(dtype).tiny))
        )

    @envelope.charged
    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """How far d moves when just enough of the prior is mixed in to bring it into the ball; inf
        if the ball misses the simplex.
        """
        prior = shares(prior, example_weights)
        dtype = example_weights.dtype

        def bound(
            relaxation: EuclideanBall, example_weights: Array, prior: Array, guess: Array
        ) -> Array:
            weights, prior = bounds.scaled(example_weights, prior), bounds.true_shares(prior)
            error = _deviation_error(prior, dtype)
            share = 1 - _kept_share(relaxation.square(prior), weights, prior, guess, error)
            return numerics.round_up(
                share * (bounds.sum_up(jnp.abs(weights - prior)) + error), dtype
            )

        moved = bounds.widely(bound)(self, example_weights, prior, self._deviation(prior))
        moved = jnp.where(self.is_feasible(prior), moved, jnp.inf)
        return Charge(jnp.zeros_like(moved), moved)

    def is_feasible(self, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """Whether the radius is at least m ** -0.5, up to rounding."""
        if prior is None:
            raise ValueError(
                "prior is None: whether a radius is feasible depends on the number of examples;"
                " pass the shares of the examples"
            )
        return self.variance(prior, axis_name) >= -32 * jnp.finfo(prior.dtype).eps

    def is_valid(self) -> Array:
        """Whether the radius is positive."""
        return jnp.asarray(self.radius) > 0

    def square(self, prior: Array) -> Array:
        """m radius^2, [], the largest mean squared density; in the precision of the prior."""
        return num_examples(prior) * number(self.radius, prior) ** 2

    def variance(self, prior: Array, axis_name: AxisName = None) -> Array:
        """m radius^2 - 1, the largest variance of the densities, computed without cancellation."""
        dtype = prior.dtype

        def exact(radius: Array, size: Array) -> Array:
            return (size * radius * radius - 1).astype(dtype)

        radius, size = number(self.radius, prior), num_examples(prior, axis_name)
        found = bounds.widely(exact)(self.radius, size)
        return with_derivative_of(found, size * radius * radius - 1)

    def _deviation(self, prior: Array) -> Array:
        """The root of the variance, or the nearest number whose square is positive and finite."""
        limits = jnp.finfo(prior.dtype)
        return jnp.sqrt(jnp.clip(self.variance(prior), limits.eps**2, limits.max))

    def _moved_inside(self, weights: Array, prior: Array) -> Array:
        """Mixes in the prior, so that weights that rounding has put outside the ball are inside it,
        even after another rounding.
        """
        dtype = weights.dtype

        def mix(relaxation: EuclideanBall, weights: Array, prior: Array, guess: Array) -> Array:
            weights, prior = bounds.scaled(weights, prior), bounds.true_shares(prior)
            kept = _kept_share(
                relaxation.square(prior), weights, prior, guess, 3 * _deviation_error(prior, dtype)
            )
            return (kept * weights + (1 - kept) * prior).astype(dtype)

        return bounds.widely(mix)(self, weights, prior, self._deviation(prior))


@register
@dataclasses.dataclass(frozen=True)
class EuclideanPenalty(OnCurves, Penalty):
    """f(d) = scale * |d|_2."""

    smoothed_curve: ClassVar[Curve] = quadratic_charge.PENALTY
    exact_curve: ClassVar[Curve] = shortfalls.PENALTY

    scale: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """scale * |d|_2."""
        return self.penalty(example_weights, prior)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """0 where the norm of the shortfalls is at most the scale, else inf."""
        beyond = _shortfall_norm(shortfalls, shares(prior, shortfalls)) > self.scale * (
            1 + 16 * jnp.finfo(shortfalls.dtype).eps
        )
        return jnp.where(beyond, jnp.inf, 0.0).astype(shortfalls.dtype)

    def penalty(
        self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """scale * |d|_2."""
        prior = shares(prior, example_weights, axis_name)
        return number(self.scale, example_weights) * _norm(example_weights, prior, axis_name)

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """The greatest threshold below which the norm of the shortfalls is the scale."""
        prior = shares(prior, margins)
        dtype = margins.dtype
        _, above = lifted(margins, prior)
        reach = shortfalls.penalised_reach(number(self.scale, margins), above, prior)
        reach = jnp.maximum(reach, jnp.finfo(dtype).tiny)

        def bound(
            relaxation: EuclideanPenalty, margins: Array, prior: Array, reach: Array
        ) -> Array:
            """Computed in units of the reach, which may be far smaller than the rounding of the
            margins, or far larger than the margins.
            """
            least = numerics.masked_min(margins, prior > 0, fill=jnp.inf)
            target = (relaxation.scale / reach) ** 2 / num_examples(prior)
            prior = bounds.true_shares(prior)
            clean = jnp.where(prior > 0, margins, least)
            gaps = jnp.maximum(1 - (clean - least) / reach, 0.0)
            threshold = least + reach * (
                1
                - (numerics.precise_sum(prior * gaps * gaps) - target)
                / (2 * numerics.precise_sum(prior * gaps))
            )
            square = bounds.sum_up(prior * (jnp.maximum(threshold - clean, 0.0) / reach) ** 2) * (
                1 + bounds.share_rounding(prior, dtype)
            )
            share = bounds.root_share_down(jnp.where(square > target, target / square, 1.0))
            return numerics.round_down(
                bounds.lowered(
                    least + share * (threshold - least), least, threshold, threshold - least
                ),
                dtype,
            )

        return bounds.widely(bound)(self, jnp.where(prior > 0, margins, 0.0), prior, reach)

    @envelope.charged
    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """f of the scaled weights."""
        prior = shares(prior, example_weights)
        dtype = example_weights.dtype
        guess = _norm(
            example_weights / numerics.precise_sum(jnp.where(prior > 0, example_weights, 0.0)),
            prior,
        )

        def bound(
            relaxation: EuclideanPenalty, example_weights: Array, prior: Array, guess: Array
        ) -> Array:
            weights, prior = bounds.scaled(example_weights, prior), bounds.true_shares(prior)
            slack = bounds.share_rounding(prior, dtype) + (2 * weights.shape[0] + 8) * bounds.UNIT
            square = bounds.sum_up(weights * bounds.densities(weights, prior)) * (1 + slack)
            return numerics.round_up(
                relaxation.scale
                * bounds.root_up(square / num_examples(prior), guess)
                * (1 + 4 * bounds.UNIT),
                dtype,
            )

        value = bounds.widely(bound)(self, example_weights, prior, guess)
        return Charge(value, jnp.zeros_like(value))


# --- norms ----------------------------------------------------------------------------------------


def _norm(example_weights: Array, prior: Array, axis_name: AxisName = None) -> Array:
    squares = numerics.safe_divide(example_weights**2, num_examples(prior, axis_name) * prior)
    return numerics.root(named_axis.total(jnp.where(prior > 0, squares, 0.0), axis_name))


def _shortfall_norm(shortfalls: Array, prior: Array) -> Array:
    return numerics.root(
        numerics.precise_sum(
            jnp.where(
                prior > 0, num_examples(prior) * prior * jnp.maximum(shortfalls, 0.0) ** 2, 0.0
            )
        )
    )


def _deviation_error(prior: Array, dtype: jnp.dtype) -> float:
    """A bound on the error of |d / p - 1|, in the norm of the shares p, caused by rounding of the
    shares and of the scaled weights. The error is at most this number times 1 + |d / p - 1|.
    """
    return bounds.share_rounding(prior, dtype) + 4 * (prior.shape[0] + 8) * bounds.UNIT


def _kept_share(square: Array, weights: Array, prior: Array, guess: Array, error: float) -> Array:
    """A share s [] for which s d + (1 - s) prior is in the ball, nearly the largest one. Call it in
    the 64-bit scope.

    m times the squared norm is 1 plus a variance, which is proportional to the square of the share.
    The root v of the variance may be off by error * (1 + v), and (v + error)^2 <=
    (1 + error / guess) v^2 + error (error + guess) for any guess. This bound is best for a guess
    near v.
    """
    apart = weights - prior
    variance = (1 + error / guess) * bounds.sum_up(
        apart * bounds.densities(apart, prior)
    ) + error * (error + guess)
    variance = variance * (1 + 3 * error)
    allowed = square * (1 - 4 * bounds.UNIT) - 1
    share = bounds.root_share_down(
        jnp.clip(allowed / jnp.where(variance > 0, variance, 1.0), 0.0, 1.0)
    )
    return jnp.where(variance <= allowed, 1.0, share)


def _by_threshold(
    square: Array,
    least: Array,
    reach: Array,
    margins: Array,
    prior: Array,
    guess: Array,
    dtype: jnp.dtype,
) -> Array:
    """The lower bound at gamma = least + reach, if m radius^2 is `square`. `guess` approximates the
    loss relative to the reach. Call it in the 64-bit scope.
    """
    threshold = least + reach
    shortfall = threshold - least
    total = bounds.shortfall_sum_up(threshold, margins, bounds.true_shares(prior), 2) * (
        1 + bounds.share_rounding(prior, dtype)
    )
    allowed = square * (1 + 4 * bounds.UNIT)
    loss = reach * bounds.root_up(total / (reach * reach) * allowed, guess)
    return bounds.lowered(threshold - loss, threshold, shortfall, loss, loss)


def _by_mean(square: Array, margins: Array, prior: Array, guess: Array, dtype: jnp.dtype) -> Array:
    """The Cauchy-Schwarz bound, if m radius^2 is `square`. `guess` approximates its root. Call it
    in the 64-bit scope.
    """
    mean, largest = _cauchy(square, margins, prior, dtype)
    loss = jnp.where(largest < jnp.inf, bounds.root_up(largest, guess), jnp.inf)
    return bounds.lowered(mean - loss, loss)


def _cauchy(square: Array, margins: Array, prior: Array, dtype: jnp.dtype) -> tuple[Array, Array]:
    """A mean and a square such that <margins, d> >= mean - sqrt(square) for every d in the ball.
    Call it in the 64-bit scope.
    """
    allowed = jnp.maximum(square * (1 + 4 * bounds.UNIT) - 1, 0.0)
    prior, error = bounds.true_shares(prior), bounds.share_rounding(prior, dtype)
    mean = numerics.precise_sum(prior * margins)
    rounding = (margins.shape[0] + 8) * bounds.UNIT * numerics.precise_sum(prior * jnp.abs(margins))
    deviations = jnp.where(prior > 0, jnp.abs(margins - mean), 0.0)
    return mean - 2 * rounding - error * bounds.sum_up(prior * deviations), bounds.sum_up(
        prior * deviations**2
    ) * (1 + error) * allowed
