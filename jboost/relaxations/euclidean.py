"""The Euclidean norm of the example weights, as a ball and as a penalty (paper 004, Sections 4 and 6).

Both argmins lie on one curve. With a quadratic charge on the norm, density x_i = d_i / p_i solves kappa x_i + log x_i = level - margin_i /
strength, that is, kappa x_i = omega(s - margin_i / strength) where omega, the Wright omega function, solves omega + log omega = t. So d is
proportional to p_i omega(s - margin_i / strength), and one number s is sought: for the ball, where the norm is the radius; for the penalty,
where m kappa |d|_2 is scale / strength. As s falls, omega becomes exp, and d the softmax.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.records import register
from jboost.base.types import Array
from jboost.relaxations import bounds, curves, envelope
from jboost.relaxations.curves import Curve, CurvedArgmin, Point
from jboost.relaxations.roots import bracketed_root, newton
from jboost.relaxations.types import (
    Charge,
    Constraint,
    is_positive,
    lifted,
    num_examples,
    number,
    relative,
    shares,
    times,
)


@register
@dataclasses.dataclass(frozen=True)
class EuclideanBall(CurvedArgmin, Constraint):
    """f is 0 where |d|_2 <= radius, else inf."""

    radius: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """0 inside, up to rounding."""
        prior = shares(prior, example_weights)
        slack = 1 + 16 * jnp.finfo(example_weights.dtype).eps
        inside = _norm(example_weights, prior) <= self.radius * slack
        return jnp.where(inside, 0.0, jnp.inf).astype(example_weights.dtype)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """radius times the norm of the shortfalls."""
        return times(number(self.radius, shortfalls), _shortfall_norm(shortfalls, shares(prior, shortfalls)))

    def smoothed_curve(self) -> Curve:
        """The softmax with the least quadratic charge that brings it into the ball."""
        return CHARGED_BALL

    def smoothed_argmin(
        self,
        margins: Array,
        strength: Array,
        prior: Array | None = None,
        *,
        axis_name: AxisName = None,
    ) -> Array:
        """The point of the curve, for certain inside the ball where all examples are at hand."""
        weights = super().smoothed_argmin(margins, strength, prior, axis_name=axis_name)
        if axis_name is not None:
            return weights
        inside = self._pulled_inside(weights, shares(prior, margins))
        return curves.with_derivative_of(inside, weights)

    def exact_curve(self) -> Curve:
        """In proportion to p_i [threshold - margin_i]_+, at the threshold where the norm is the radius."""
        return BALL

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """gamma - radius * |[gamma - margins]_+|_2 at its best gamma, or the bound by Cauchy and Schwarz, which does not know that d >= 0."""
        prior = shares(prior, margins)
        dtype = margins.dtype
        eighth, place = relative(margins, prior)
        reach = 8 * eighth * _best_reach(self.variance(prior), place, prior)
        is_apart = reach > 0
        reach = jnp.where(is_apart, reach, 1.0)

        def squares(relaxation: EuclideanBall, margins: Array, prior: Array, reach: Array) -> tuple[Array, Array]:
            least = numerics.masked_min(margins, prior > 0, fill=jnp.inf)
            square = bounds.shortfall_sum_up(least + reach, margins, prior, 2) / (reach * reach)
            return square.astype(dtype), _cauchy(relaxation.square(prior), margins, prior, dtype)[1].astype(dtype)

        def bound(relaxation: EuclideanBall, margins: Array, prior: Array, reach: Array, guess: Array, other_guess: Array) -> Array:
            least = numerics.masked_min(margins, prior > 0, fill=jnp.inf)
            threshold = least + reach
            shortfall = threshold - least
            total = bounds.shortfall_sum_up(threshold, margins, bounds.true_shares(prior), 2) * (1 + bounds.share_rounding(prior, dtype))
            allowed = relaxation.square(prior) * (1 + 4 * bounds.UNIT)
            loss = reach * bounds.root_up(total / (reach * reach) * allowed, guess)
            by_threshold = bounds.lowered(threshold - loss, threshold, shortfall, loss, loss)
            mean, square = _cauchy(relaxation.square(prior), margins, prior, dtype)
            loss = jnp.where(square < jnp.inf, bounds.root_up(square, other_guess), jnp.inf)
            by_mean = bounds.lowered(mean - loss, loss)
            return numerics.round_down(jnp.maximum(jnp.where(is_apart, by_threshold, least), by_mean), dtype)

        clean = jnp.where(prior > 0, margins, 0.0)
        square, other = bounds.widely(squares)(self, clean, prior, reach)
        guess = jnp.sqrt(jnp.maximum(square * self.square(prior), jnp.finfo(dtype).tiny))
        return bounds.widely(bound)(self, clean, prior, reach, guess, jnp.sqrt(jnp.maximum(other, jnp.finfo(dtype).tiny)))

    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """How far d moves when as much of the prior is mixed in as brings it into the ball; inf if that is empty."""
        prior = shares(prior, example_weights)
        dtype = example_weights.dtype

        def bound(relaxation: EuclideanBall, example_weights: Array, prior: Array, guess: Array) -> Array:
            weights, prior = bounds.scaled(example_weights, prior), bounds.true_shares(prior)
            error = _deviation_error(prior, dtype)
            share = 1 - _kept_share(relaxation.square(prior), weights, prior, guess, error)
            return numerics.round_up(share * (bounds.sum_up(jnp.abs(weights - prior)) + error), dtype)

        moved = bounds.widely(bound)(self, example_weights, prior, self._deviation(prior))
        moved = jnp.where(self.is_feasible(prior), moved, jnp.inf)
        return Charge(jnp.zeros_like(moved), moved)

    def is_feasible(self, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """Whether the radius is m ** -0.5 at least, up to rounding."""
        if prior is None:
            raise ValueError("prior is None: whether a radius is feasible depends on the number of examples")
        return self.variance(prior, axis_name) >= -32 * jnp.finfo(prior.dtype).eps

    def is_valid(self) -> Array:
        """Whether the radius is positive."""
        return jnp.asarray(self.radius) > 0

    def square(self, prior: Array) -> Array:
        """m radius^2, [], which the mean squared density may be; in the precision of the prior."""
        return num_examples(prior) * number(self.radius, prior) ** 2

    def variance(self, prior: Array, axis_name: AxisName = None) -> Array:
        """m radius^2 - 1, without loss: the variance that the densities may have."""
        dtype = prior.dtype

        def exact(radius: Array, size: Array) -> Array:
            return (size * radius * radius - 1).astype(dtype)

        radius, size = number(self.radius, prior), num_examples(prior, axis_name)
        found = bounds.widely(exact)(self.radius, size)
        return curves.with_derivative_of(found, size * radius * radius - 1)

    def _deviation(self, prior: Array) -> Array:
        """The root of that, or the nearest to it whose square is positive and finite."""
        limits = jnp.finfo(prior.dtype)
        return jnp.sqrt(jnp.clip(self.variance(prior), limits.eps**2, limits.max))

    def _pulled_inside(self, weights: Array, prior: Array) -> Array:
        """Weights a hair outside the ball, moved so far inside by mixing in the prior that their own rounding does not move them out."""
        dtype = weights.dtype

        def mix(relaxation: EuclideanBall, weights: Array, prior: Array, guess: Array) -> Array:
            weights, prior = bounds.scaled(weights, prior), bounds.true_shares(prior)
            kept = _kept_share(relaxation.square(prior), weights, prior, guess, 3 * _deviation_error(prior, dtype))
            return (kept * weights + (1 - kept) * prior).astype(dtype)

        return bounds.widely(mix)(self, weights, prior, self._deviation(prior))


@register
@dataclasses.dataclass(frozen=True)
class EuclideanPenalty(CurvedArgmin):
    """f(d) = scale * |d|_2."""

    scale: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """scale * |d|_2."""
        return self.penalty(example_weights, prior)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """0 where the norm of the shortfalls is the scale at most, else inf."""
        beyond = _shortfall_norm(shortfalls, shares(prior, shortfalls)) > self.scale * (1 + 16 * jnp.finfo(shortfalls.dtype).eps)
        return jnp.where(beyond, jnp.inf, 0.0).astype(shortfalls.dtype)

    def penalty(self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """scale * |d|_2."""
        prior = shares(prior, example_weights, axis_name)
        return number(self.scale, example_weights) * _norm(example_weights, prior, axis_name)

    def smoothed_curve(self) -> Curve:
        """The softmax with the quadratic charge whose slope is that of the norm."""
        return _CHARGED_PENALTY

    def exact_curve(self) -> Curve:
        """In proportion to p_i [threshold - margin_i]_+, where the norm of these is the scale."""
        return _PENALTY

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """The greatest threshold below which the norm of the shortfalls is the scale."""
        prior = shares(prior, margins)
        dtype = margins.dtype
        _, above = lifted(margins, prior)
        reach = _penalised_reach(number(self.scale, margins), above, prior)
        reach = jnp.maximum(reach, jnp.finfo(dtype).tiny)

        def bound(relaxation: EuclideanPenalty, margins: Array, prior: Array, reach: Array) -> Array:
            """In units of the reach, which may be far below the rounding of the margins, or far above them."""
            least = numerics.masked_min(margins, prior > 0, fill=jnp.inf)
            target = (relaxation.scale / reach) ** 2 / num_examples(prior)
            prior = bounds.true_shares(prior)
            clean = jnp.where(prior > 0, margins, least)
            gaps = jnp.maximum(1 - (clean - least) / reach, 0.0)
            threshold = least + reach * (1 - (numerics.precise_sum(prior * gaps * gaps) - target) / (2 * numerics.precise_sum(prior * gaps)))
            square = bounds.sum_up(prior * (jnp.maximum(threshold - clean, 0.0) / reach) ** 2) * (1 + bounds.share_rounding(prior, dtype))
            share = bounds.root_share_down(jnp.where(square > target, target / square, 1.0))
            return numerics.round_down(bounds.lowered(least + share * (threshold - least), least, threshold, threshold - least), dtype)

        return bounds.widely(bound)(self, jnp.where(prior > 0, margins, 0.0), prior, reach)

    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """f of the scaled weights."""
        prior = shares(prior, example_weights)
        dtype = example_weights.dtype
        guess = _norm(example_weights / numerics.precise_sum(jnp.where(prior > 0, example_weights, 0.0)), prior)

        def bound(relaxation: EuclideanPenalty, example_weights: Array, prior: Array, guess: Array) -> Array:
            weights, prior = bounds.scaled(example_weights, prior), bounds.true_shares(prior)
            slack = bounds.share_rounding(prior, dtype) + (2 * weights.shape[0] + 8) * bounds.UNIT
            square = bounds.sum_up(weights * bounds.densities(weights, prior)) * (1 + slack)
            return numerics.round_up(relaxation.scale * bounds.root_up(square / num_examples(prior), guess) * (1 + 4 * bounds.UNIT), dtype)

        value = bounds.widely(bound)(self, example_weights, prior, guess)
        return Charge(value, jnp.zeros_like(value))

    def is_feasible(self, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """Always."""
        return jnp.ones((), bool)

    def is_valid(self) -> Array:
        """Whether the scale is positive and finite."""
        return is_positive(self.scale)


# --- norms -----------------------------------------------------------------------------------------------------------------


def _norm(example_weights: Array, prior: Array, axis_name: AxisName = None) -> Array:
    squares = numerics.safe_divide(example_weights**2, num_examples(prior, axis_name) * prior)
    return numerics.root(named_axis.total(jnp.where(prior > 0, squares, 0.0), axis_name))


def _shortfall_norm(shortfalls: Array, prior: Array) -> Array:
    return numerics.root(numerics.precise_sum(jnp.where(prior > 0, num_examples(prior) * prior * jnp.maximum(shortfalls, 0.0) ** 2, 0.0)))


def _deviation_error(prior: Array, dtype: jnp.dtype) -> float:
    """How far |d / p - 1|, in the norm of the shares p, may be off, relative to 1 and to itself, as these and the scaled weights are rounded."""
    return bounds.share_rounding(prior, dtype) + 4 * (prior.shape[0] + 8) * bounds.UNIT


def _kept_share(square: Array, weights: Array, prior: Array, guess: Array, error: float) -> Array:
    """A share of d that is in the ball when the rest is the prior, [], nearly the greatest; in the 64-bit scope.

    The square of the norm, times m, is 1 and a variance that shrinks with the square of the share. Its root v may be off by error * (1 + v), and
    (v + error)^2 <= (1 + error / guess) v^2 + error (error + guess) for any guess, which is best where it is near v.
    """
    apart = weights - prior
    variance = (1 + error / guess) * bounds.sum_up(apart * bounds.densities(apart, prior)) + error * (error + guess)
    variance = variance * (1 + 3 * error)
    allowed = square * (1 - 4 * bounds.UNIT) - 1
    share = bounds.root_share_down(jnp.clip(allowed / jnp.where(variance > 0, variance, 1.0), 0.0, 1.0))
    return jnp.where(variance <= allowed, 1.0, share)


def _cauchy(square: Array, margins: Array, prior: Array, dtype: jnp.dtype) -> tuple[Array, Array]:
    """A mean and a square such that no d in the ball has <margins, d> below mean - sqrt(square); in the 64-bit scope."""
    allowed = jnp.maximum(square * (1 + 4 * bounds.UNIT) - 1, 0.0)
    prior, error = bounds.true_shares(prior), bounds.share_rounding(prior, dtype)
    mean = numerics.precise_sum(prior * margins)
    rounding = (margins.shape[0] + 8) * bounds.UNIT * numerics.precise_sum(prior * jnp.abs(margins))
    deviations = jnp.where(prior > 0, jnp.abs(margins - mean), 0.0)
    return mean - 2 * rounding - error * bounds.sum_up(prior * deviations), bounds.sum_up(prior * deviations**2) * (1 + error) * allowed


def _below(reach: Array, above: Array, prior: Array, axis_name: AxisName = None) -> tuple[Array, Array, Array]:
    """Of the margins below a threshold, the least always among them: their share, their mean, and the sum of squares about it."""
    active = jnp.where((above < reach) | (above == 0), prior, 0.0)
    count = named_axis.total(active, axis_name)
    mean = named_axis.total(active * above, axis_name) / count
    return count, mean, named_axis.total(active * (above - mean) ** 2, axis_name)


# --- without smoothing -----------------------------------------------------------------------------------------------------


def _best_reach(variance: Array, above: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """The threshold above the least margin, [], where the weights p_i [threshold - margin_i]_+ have norm radius; 0 where none has."""
    eps = jnp.finfo(above.dtype).eps
    wanted = jnp.maximum(variance, eps)

    def excess(reach: Array) -> tuple[Array, Array]:
        count, mean, variance = _below(reach, above, prior, axis_name)
        height = jnp.maximum(reach - mean, 0.0)
        square = variance / (count * height * height)  # relative, in the active set
        value = (1 + wanted) * count - 1 - square
        room = (1 + wanted) * count - 1
        proposal = jnp.where(room > 0, mean + jnp.sqrt(variance / (count * jnp.where(room > 0, room, 1.0))), jnp.nan)
        return jnp.where(height > 0, value, -1.0), proposal

    everything = jnp.asarray(jnp.inf, above.dtype)
    _, mean, spread = _below(everything, above, prior, axis_name)
    high = (mean + jnp.sqrt(spread / wanted)) * (1 + 8 * eps)
    free, _, _ = _below(jnp.zeros_like(high), above, prior, axis_name)
    high = jnp.where((1 + wanted) * free >= 1, 0.0, high)
    return bracketed_root(excess, jnp.zeros_like(high), high, high, tolerance=4 * eps, floor=0.0)


def _find_reach(relaxation: Any, margins: Array, strength: Array, prior: Array, axis_name: AxisName) -> Array:
    _, above = relative(margins, prior, axis_name)
    return _best_reach(relaxation.variance(prior, axis_name), above, prior, axis_name)


def _at_reach(
    reach: Array,
    relaxation: EuclideanBall,
    margins: Array,
    strength: Array,
    prior: Array,
    axis_name: AxisName,
) -> Point:
    """Where all examples are active, the weights are linear in the margins, without a search."""
    _, above = relative(margins, prior, axis_name)
    variance = jnp.maximum(relaxation.variance(prior, axis_name), 0.0)
    linear = prior * _standardised(numerics.root(variance), above, prior, axis_name)
    is_linear = named_axis.least(linear, prior > 0, axis_name) >= 0
    gaps = jnp.maximum(reach - above, 0.0)
    is_apart = reach > 0
    curved = prior * jnp.where(is_apart, gaps, jnp.where(above == 0, 1.0, 0.0))

    def excess() -> Array:
        first, second = (named_axis.total(prior * gaps**power, axis_name) for power in (1, 2))
        value = (1 + variance) * numerics.safe_divide(first * first, second) - 1
        return jnp.where(is_linear | ~is_apart, jnp.zeros_like(reach), value)

    return Point(jnp.where(is_linear, linear, curved), excess)


def _standardised(deviation: Array, above: Array, prior: Array, axis_name: AxisName) -> Array:
    """Densities [m] of mean 1 and of a standard deviation [], which fall as margins rise."""
    total = named_axis.total(prior, axis_name)
    apart = above - named_axis.total(prior * above, axis_name) / total
    spread = numerics.root(named_axis.total(prior * apart * apart, axis_name) / total)
    return jnp.where(prior > 0, 1 - deviation * numerics.safe_divide(apart, spread), 0.0)


BALL = Curve(_find_reach, _at_reach)


def _penalised_reach(scale: Array, above: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """The threshold above the least margin, [], below which the norm of the shortfalls is the scale."""
    unit = scale / jnp.sqrt(num_examples(prior, axis_name))

    def excess(reach: Array) -> tuple[Array, Array]:
        count, mean, variance = _below(reach, above, prior, axis_name)
        height, spread = jnp.maximum(reach - mean, 0.0), jnp.sqrt(variance)
        value = jnp.hypot(spread, jnp.sqrt(count) * height) / unit - 1
        return value, mean + jnp.sqrt(jnp.maximum(unit - spread, 0.0)) * jnp.sqrt((unit + spread) / count)

    by_one = above + unit / jnp.sqrt(jnp.where(prior > 0, prior, 1.0))
    high = named_axis.least(by_one, prior > 0, axis_name)
    eps = jnp.finfo(above.dtype).eps
    low, top = unit * (1 - 8 * eps), high * (1 + 8 * eps)
    return bracketed_root(excess, low, top, high, tolerance=4 * eps, floor=0.0)


def _find_penalised_reach(relaxation: EuclideanPenalty, margins: Array, strength: Array, prior: Array, axis_name: AxisName) -> Array:
    _, above = lifted(margins, prior, axis_name)
    return _penalised_reach(number(relaxation.scale, margins), above, prior, axis_name)


def _at_penalised_reach(
    reach: Array,
    relaxation: EuclideanPenalty,
    margins: Array,
    strength: Array,
    prior: Array,
    axis_name: AxisName,
) -> Point:
    _, above = lifted(margins, prior, axis_name)
    unit = number(relaxation.scale, margins) / jnp.sqrt(num_examples(prior, axis_name))
    gaps = jnp.where((above < reach) | (above == 0), (reach - above) / unit, 0.0)

    def excess() -> Array:
        square = named_axis.total(prior * gaps * gaps, axis_name)
        return unit * (numerics.root(square) - 1)

    return Point(prior * gaps, excess)


_PENALTY = Curve(_find_penalised_reach, _at_penalised_reach)


# --- the curve -------------------------------------------------------------------------------------------------------------


class _Charged(NamedTuple):
    """One point of the curve."""

    weights: Array  # [m] omega(s - margin_i / strength), in a unit that keeps them in range
    omega: Array  # [m] the same, which may be 0 where that underflows
    log_unit: Array  # []


def _charged(omega: Array, above: Array) -> _Charged:
    """The point where the largest weight, of a margin of 0 above the least, is omega [], which may be 0."""
    return _charged_at(_level_of(omega), above)


def _charged_at(level: Array, above: Array) -> _Charged:
    omegas = _omega(level - above)
    is_small = level < 0
    unit = jnp.maximum(level, 1.0)
    return _Charged(jnp.where(is_small, jnp.exp(-above - omegas), omegas / unit), omegas, jnp.where(is_small, level, jnp.log(unit)))


def _level_of(omega: Array) -> Array:
    """t of omega(t)."""
    return omega + jnp.log(jnp.maximum(omega, jnp.finfo(omega.dtype).tiny))


@jax.custom_jvp
def _omega(t: Array) -> Array:
    """The solution of omega + log omega = t, by two steps of Fritsch, Shafer and Crowley (1973), of fourth order each."""
    eps, tiny = jnp.finfo(t.dtype).eps, jnp.finfo(t.dtype).tiny
    growth = jnp.exp(jnp.minimum(t, 1.5))
    omega = jnp.where(t > 1.5, t - jnp.log(jnp.maximum(t, 1.5)), growth / (1 + 0.72 * growth))
    omega = jnp.maximum(omega, 4 * tiny)
    inside = jnp.maximum(t, jnp.log(tiny) + 2)
    for _ in range(2):
        rest = inside - omega - jnp.log(omega)
        one = 1 + omega
        cube = one * (one + rest * (2 / 3))
        omega = omega * (1 + rest / one * (cube - 0.5 * rest) / (cube - rest))
    return jnp.where(t < jnp.log(eps) - 1, growth, omega)


@_omega.defjvp
def _derivative_of_omega(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    omega = _omega(*primals)
    return omega, tangents[0] * omega / (1 + omega)


def _spread(charged: _Charged, prior: Array, axis_name: AxisName) -> tuple[Array, Array]:
    """The densities less 1 [m], and their variance [], at least the least normal float."""
    total = named_axis.total(prior * charged.weights, axis_name)
    spread = jnp.where(prior > 0, charged.weights / total - 1, 0.0)
    variance = named_axis.total(prior * spread * spread, axis_name)
    return spread, jnp.maximum(variance, jnp.finfo(prior.dtype).tiny)


def _find_charge(relaxation: Any, margins: Array, strength: Array, prior: Array, axis_name: AxisName) -> Array:
    """log(1 + omega(s)), 0 where the softmax is in the ball."""
    _, above = lifted(margins, prior, axis_name)
    above = above / strength
    eps = jnp.finfo(margins.dtype).eps
    wanted = jnp.maximum(relaxation.variance(prior, axis_name), eps * eps)

    def excess(log_charge: Array) -> tuple[Array, Array]:
        """How far log variance is below the wanted."""
        charged = _charged(jnp.expm1(log_charge), above)
        spread, variance = _spread(charged, prior, axis_name)
        damping = 1 / (1 + charged.omega)
        moment = prior * spread * (spread + 1)
        moments = named_axis.total(moment, axis_name)
        dampings = named_axis.total(prior * (spread + 1) * damping, axis_name)
        slope = 2 * (named_axis.total(moment * damping, axis_name) - moments * dampings)
        growth = jnp.exp(log_charge) * (1 + 1 / jnp.expm1(log_charge))  # of s
        value = jnp.log(wanted) - jnp.log(variance)
        return value, newton(log_charge, value, -slope / variance * growth)

    mean = named_axis.total(prior * above, axis_name)
    deviation = jnp.sqrt(named_axis.total(prior * (above - mean) ** 2, axis_name))
    enough = jnp.log1p(jnp.maximum(mean + _level_of(deviation / jnp.sqrt(wanted)), 1.0))
    free, _ = excess(jnp.zeros_like(mean))
    high = jnp.where(free >= 0, 0.0, enough)
    return bracketed_root(excess, jnp.zeros_like(high), high, high, tolerance=16 * eps)


def _at_charge(
    log_charge: Array,
    relaxation: EuclideanBall,
    margins: Array,
    strength: Array,
    prior: Array,
    axis_name: AxisName,
) -> Point:
    _, above = lifted(margins, prior, axis_name)
    above = above / strength
    is_charged = log_charge > 0
    charged = _charged(jnp.where(is_charged, jnp.expm1(log_charge), 1.0), above)

    def excess() -> Array:
        eps = jnp.finfo(margins.dtype).eps
        wanted = jnp.maximum(relaxation.variance(prior, axis_name), eps * eps)
        _, variance = _spread(charged, prior, axis_name)
        return jnp.where(is_charged, jnp.log(wanted) - jnp.log(variance), 0.0)

    return Point(prior * jnp.where(is_charged, charged.weights, jnp.exp(-above)), excess)


CHARGED_BALL = Curve(_find_charge, _at_charge)


def _wanted_norm(relaxation: EuclideanPenalty, margins: Array, strength: Array, prior: Array, axis_name: AxisName) -> Array:
    wanted = number(relaxation.scale, margins) / strength / jnp.sqrt(num_examples(prior, axis_name))
    largest = jnp.sqrt(jnp.finfo(margins.dtype).max) / 16  # from there on the weights are the prior
    return jnp.minimum(wanted, largest)


def _excess_of_norm(charged: _Charged, wanted: Array, prior: Array, axis_name: AxisName) -> tuple[Array, Array]:
    """How far the level is above that at which equal margins would have this norm, and its slope."""
    square = named_axis.total(prior * charged.weights**2, axis_name)
    damped = prior * charged.weights**2 / (1 + charged.omega)
    slope = named_axis.total(damped, axis_name) / square
    log_norm = charged.log_unit + 0.5 * jnp.log(square)
    norm = jnp.exp(log_norm)
    return (log_norm - jnp.log(wanted)) + (norm - wanted), (1 + norm) * slope


def _find_charged_level(relaxation: EuclideanPenalty, margins: Array, strength: Array, prior: Array, axis_name: AxisName) -> Array:
    _, above = lifted(margins, prior, axis_name)
    above = above / strength
    wanted = _wanted_norm(relaxation, margins, strength, prior, axis_name)

    def excess(level: Array) -> tuple[Array, Array]:
        charged = _charged_at(level, above)
        value, slope = _excess_of_norm(charged, wanted, prior, axis_name)
        return value, newton(level, value, slope)

    low = _level_of(wanted)
    by_one = jnp.where(prior > 0, wanted / jnp.sqrt(jnp.where(prior > 0, prior, 1.0)), 1.0)
    high = named_axis.least(above + _level_of(by_one), prior > 0, axis_name)
    high = jnp.minimum(high, low + named_axis.total(prior * above, axis_name))
    eps = jnp.finfo(margins.dtype).eps
    slack = 8 * eps * (1 + jnp.abs(low) + jnp.abs(high))
    return bracketed_root(excess, low - slack, high + slack, high, tolerance=4 * eps)


def _at_charged_level(
    level: Array,
    relaxation: EuclideanPenalty,
    margins: Array,
    strength: Array,
    prior: Array,
    axis_name: AxisName,
) -> Point:
    _, above = lifted(margins, prior, axis_name)
    charged = _charged_at(level, above / strength)

    def excess() -> Array:
        wanted = _wanted_norm(relaxation, margins, strength, prior, axis_name)
        return _excess_of_norm(charged, wanted, prior, axis_name)[0]

    return Point(prior * charged.weights, excess)


_CHARGED_PENALTY = Curve(_find_charged_level, _at_charged_level)


def _find_density_level(relaxation: Any, margins: Array, strength: Array, prior: Array, axis_name: AxisName) -> Array:
    """s where omega(s - margin_i / strength) / kappa has mean 1 under the prior, for a charge kappa that is known."""
    _, above = lifted(margins, prior, axis_name)
    above = above / strength
    charge = relaxation.density_charge(strength)

    def excess(level: Array) -> tuple[Array, Array]:
        value, slope = _excess_of_mean(_charged_at(level, above), charge, prior, axis_name)
        return value, newton(level, value, slope)

    low = _level_of(charge)
    high = low + named_axis.largest(above, prior > 0, axis_name)
    eps = jnp.finfo(margins.dtype).eps
    slack = 8 * eps * (1 + jnp.abs(low) + jnp.abs(high))
    return bracketed_root(excess, low - slack, high + slack, low, tolerance=4 * eps)


def _excess_of_mean(charged: _Charged, charge: Array, prior: Array, axis_name: AxisName) -> tuple[Array, Array]:
    total = named_axis.total(prior * charged.weights, axis_name)
    slope = named_axis.total(prior * charged.weights / (1 + charged.omega), axis_name) / total
    return jnp.log(total) + charged.log_unit - jnp.log(charge), slope


def _at_density_level(
    level: Array,
    relaxation: Any,
    margins: Array,
    strength: Array,
    prior: Array,
    axis_name: AxisName,
) -> Point:
    _, above = lifted(margins, prior, axis_name)
    charged = _charged_at(level, above / strength)

    def excess() -> Array:
        charge = relaxation.density_charge(strength)
        return _excess_of_mean(charged, charge, prior, axis_name)[0]

    return Point(prior * charged.weights, excess)


CHARGED = Curve(_find_density_level, _at_density_level)
