"""Norms of the example weights of any order between 1 and infinity, as balls and as penalties
(Shalev-Shwartz and Singer 2008, Section 4, Examples 1 and 2).

With x_i = d_i / p_i the norm of order q is |d|_q = m^(-1 / s) (sum_i p_i x_i^q)^(1 / q), where
s = q / (q - 1) is the dual order. The minimisers are those of `power_curves`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp

from jboost.base import named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.records import register
from jboost.base.types import Array
from jboost.relaxations import bounds, curves, envelope, power_bounds, power_curves
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
class NormBall(OnCurves, Constraint):
    """f is 0 where |d|_q <= radius, else inf."""

    smoothed_curve: ClassVar[Curve] = power_curves.SMOOTHED_BALL

    radius: Array  # []
    order: float = dataclasses.field(metadata={"static": True})

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """0 inside, up to rounding."""
        norm = _norm_of_weights(example_weights, self.order, shares(prior, example_weights))
        slack = 1 + 16 * jnp.finfo(example_weights.dtype).eps
        return jnp.where(norm <= self.radius * slack, 0.0, jnp.inf).astype(example_weights.dtype)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """radius times the dual norm of the positive shortfalls."""
        prior = shares(prior, shortfalls)
        return times(
            number(self.radius, shortfalls), _norm_of_shortfalls(shortfalls, self.order, prior)
        )

    def argmin(
        self, margins: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """The d [m] of least <margins, d> in the ball."""
        prior = shares(prior, margins, axis_name)
        densities = power_curves.in_ball(self, margins, prior, axis_name).densities
        return curves.normalised(prior * densities, axis_name)

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """gamma - radius * |[gamma - margins]_+|_s at the best gamma."""
        prior = shares(prior, margins)
        dtype, dual = margins.dtype, self.order / (self.order - 1)

        def bound(relaxation: NormBall, margins: Array, prior: Array) -> Array:
            prior = bounds.true_shares(prior)
            eighth, position = relative(margins, prior)
            least = numerics.masked_min(margins, prior > 0, fill=jnp.inf)
            limit = relaxation.log_limit(prior)
            reach = power_curves.ball_reach(limit, position, self.order, prior)
            is_apart = (reach > 0) & (limit < jnp.inf)
            reach = 8 * eighth * jnp.where(is_apart, reach, 1.0)
            is_apart &= reach > 0
            reach = jnp.where(is_apart, reach, 1.0)
            above = jnp.where(prior > 0, margins - least, 0.0)
            loss = power_bounds.log_shortfall_norm_up(
                reach, above, dual, prior, bounds.share_rounding(prior, dtype)
            )
            growth = loss + limit + relaxation.log_error(prior)
            lost = reach * jnp.expm1(jnp.where(is_apart, growth, 0.0))
            lost = lost + 300 * bounds.UNIT * jnp.abs(lost)
            # rounding of margins - least
            lost = lost + 4 * bounds.UNIT * (jnp.abs(least) + 8 * eighth)
            found = jnp.where(is_apart, bounds.lowered(least - lost, least), least)
            return numerics.round_down(jnp.maximum(found, least), dtype)

        return bounds.widely(bound)(self, jnp.where(prior > 0, margins, 0.0), prior)

    @envelope.charged
    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """How far d moves when just enough of the prior is mixed in to bring it into the ball; inf
        if the ball misses the simplex. The norm is convex in the share that is mixed in.
        """
        prior = shares(prior, example_weights)
        dtype = example_weights.dtype

        def bound(relaxation: NormBall, example_weights: Array, prior: Array) -> Array:
            weights, prior = bounds.scaled(example_weights, prior), bounds.true_shares(prior)
            error = bounds.share_rounding(prior, dtype) + 4 * (prior.shape[0] + 8) * bounds.UNIT
            excess = power_bounds.norm_excess_up(weights, prior, self.order, error)
            limit = relaxation.log_limit(prior) - relaxation.log_error(prior)
            allowed = jnp.maximum(jnp.expm1(jnp.minimum(limit, 1e3)), 0.0) * (1 - 300 * bounds.UNIT)
            lost = numerics.safe_divide(jnp.maximum(excess - allowed, 0.0), excess)
            return numerics.round_up(
                lost * (1 + 4 * bounds.UNIT) * (bounds.sum_up(jnp.abs(weights - prior)) + error),
                dtype,
            )

        moved = bounds.widely(bound)(self, example_weights, prior)
        moved = jnp.where(self.is_feasible(prior), moved, jnp.inf)
        return Charge(jnp.zeros_like(moved), moved)

    def is_feasible(self, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """Whether the radius is at least m^(-1 / s), up to rounding."""
        if prior is None:
            raise ValueError(
                "prior is None: whether a radius is feasible depends on the number of examples;"
                " pass the shares of the examples"
            )
        return self.log_limit(prior, axis_name) >= -16 * jnp.finfo(prior.dtype).eps

    def is_valid(self) -> Array:
        """Whether the radius is positive."""
        return jnp.asarray(self.radius) > 0

    def log_limit(self, prior: Array, axis_name: AxisName = None) -> Array:
        """log(radius m^(1 / s)), [], the log of the largest norm of the densities under the prior;
        computed in 64 bits.
        """
        dtype = prior.dtype

        def exact(radius: Array, size: Array) -> Array:
            return (jnp.log(radius) + jnp.log(size) * (1 - 1 / self.order)).astype(dtype)

        size = num_examples(prior, axis_name)
        found = bounds.widely(exact)(self.radius, size)
        source = jnp.log(number(self.radius, prior)) + jnp.log(size) * (1 - 1 / self.order)
        return with_derivative_of(found, source)

    def log_error(self, prior: Array) -> Array:
        """A bound on the rounding error of `log_limit` in 64 bits, []."""
        size = jnp.abs(jnp.log(self.radius)) + jnp.log(num_examples(prior))
        return 8 * bounds.UNIT * (1 + jnp.minimum(size, 1e4))


@register
@dataclasses.dataclass(frozen=True)
class NormPenalty(OnCurves, Penalty):
    """f(d) = scale * |d|_q."""

    smoothed_curve: ClassVar[Curve] = power_curves.SMOOTHED_PENALTY
    exact_curve: ClassVar[Curve] = power_curves.EXACT_PENALTY

    scale: Array  # []
    order: float = dataclasses.field(metadata={"static": True})

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """scale * |d|_q."""
        return self.penalty(example_weights, prior)

    def penalty(
        self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """scale * |d|_q."""
        prior = shares(prior, example_weights, axis_name)
        norm = _norm_of_weights(example_weights, self.order, prior, axis_name)
        return number(self.scale, example_weights) * norm

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """0 where the dual norm of the positive shortfalls is at most the scale, else inf."""
        norm = _norm_of_shortfalls(shortfalls, self.order, shares(prior, shortfalls))
        beyond = norm > self.scale * (1 + 16 * jnp.finfo(shortfalls.dtype).eps)
        return jnp.where(beyond, jnp.inf, 0.0).astype(shortfalls.dtype)

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """The greatest threshold below which the dual norm of the shortfalls is the scale."""
        prior = shares(prior, margins)
        dtype, dual = margins.dtype, self.order / (self.order - 1)

        def bound(relaxation: NormPenalty, margins: Array, prior: Array) -> Array:
            prior = bounds.true_shares(prior)
            least, above = lifted(margins, prior)
            unit = power_curves.log_unit_of(relaxation, margins, prior, None)
            reach = power_curves.penalty_reach(unit, above, self.order, prior)
            reach = jnp.maximum(reach, float(jnp.finfo(dtype).tiny))
            norm = power_bounds.log_shortfall_norm_up(
                reach, above, dual, prior, bounds.share_rounding(prior, dtype)
            )
            root, slack = power_bounds.size_root(num_examples(prior), dual)
            allowed = relaxation.scale / reach * root * (1 - slack)
            norm = jnp.exp(norm) * (1 + 8 * (1 + jnp.abs(norm)) * bounds.UNIT)
            share = jnp.minimum(allowed / norm, 1.0) * (1 - 8 * bounds.UNIT)
            raised = share * reach
            return numerics.round_down(bounds.lowered(least + raised, least, least, raised), dtype)

        return bounds.widely(bound)(self, jnp.where(prior > 0, margins, 0.0), prior)

    @envelope.charged
    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """f of the scaled weights."""
        prior = shares(prior, example_weights)
        dtype, dual = example_weights.dtype, self.order / (self.order - 1)

        def bound(relaxation: NormPenalty, example_weights: Array, prior: Array) -> Array:
            weights, prior = bounds.scaled(example_weights, prior), bounds.true_shares(prior)
            error = bounds.share_rounding(prior, dtype) + 4 * (prior.shape[0] + 8) * bounds.UNIT
            norm = 1 + power_bounds.norm_excess_up(weights, prior, self.order, error)
            root, slack = power_bounds.size_root(num_examples(prior), dual)
            return numerics.round_up(
                relaxation.scale * root * norm * (1 + slack + error + 8 * bounds.UNIT), dtype
            )

        value = bounds.widely(bound)(self, example_weights, prior)
        return Charge(value, jnp.zeros_like(value))

    def log_size(self, prior: Array, axis_name: AxisName = None) -> Array:
        """log m / s, []."""
        return jnp.log(num_examples(prior, axis_name)) * (1 - 1 / self.order)


def _norm_of_weights(
    example_weights: Array, order: float, prior: Array, axis_name: AxisName = None
) -> Array:
    """|d|_q, []."""
    size = num_examples(prior, axis_name)
    density = numerics.safe_divide(jnp.where(prior > 0, example_weights, 0.0), size * prior)
    return _norm(density, order, size * prior, axis_name)


def _norm_of_shortfalls(shortfalls: Array, order: float, prior: Array) -> Array:
    """The norm of order s of the positive shortfalls, []."""
    positive = jnp.where(prior > 0, jnp.maximum(shortfalls, 0.0), 0.0)
    return _norm(positive, order / (order - 1), num_examples(prior) * prior, None)


def _norm(values: Array, order: float, measure: Array, axis_name: Any) -> Array:
    """(sum_i measure_i values_i^order)^(1 / order), [], for values >= 0. The largest value is
    divided out, so that no power over- or underflows.
    """
    top = named_axis.largest(values, measure > 0, axis_name)
    is_positive = top > 0
    ratios = values / jnp.where(is_positive, top, 1.0)
    inside = (ratios > 0) & (measure > 0)
    powers = jnp.where(inside, jnp.exp(order * jnp.log(jnp.where(inside, ratios, 1.0))), 0.0)
    total = named_axis.total(measure * powers, axis_name)
    log = jnp.log(jnp.where(is_positive, total, 1.0)) / order
    return jnp.where(is_positive, top * jnp.exp(log), 0.0)
