"""Norm balls and norm penalties on the example weights, of any order from 1 to infinity
(Shalev-Shwartz and Singer 2008, Sections 4 and 6).

With unequal shares the norms are those of the density d_i / (m p_i) under the measure m p_i, where
m is the number of examples that count, whatever the sum of their weights. The norm of order 1 is
sum d_i, that of order q is (sum m p_i (d_i / (m p_i))^q)^(1 / q), and that of order infinity is the
largest d_i / (m p_i). This module has orders 1 and infinity; 2 is in `euclidean`, others in
`power_norms`.

Order 2 has classes of its own, `EuclideanBall` and `EuclideanPenalty`, though `NormBall` would take
it: squares need no powers and logarithms, the threshold has a closed form for given active
examples, and where all are active the minimiser is linear in the margins and needs no search. The
searches run in the caller's precision, not in 64 bits. `ChiSquareBall` is a Euclidean ball as well.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import check, named_axis, numerics, reduce
from jboost.base.named_axis import AxisName
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.relaxations import bounds, envelope, water
from jboost.relaxations.caps import HardMargin, SoftMargin
from jboost.relaxations.curves import Curve, OnCurves
from jboost.relaxations.euclidean import EuclideanBall, EuclideanPenalty
from jboost.relaxations.power_norms import NormBall, NormPenalty
from jboost.relaxations.types import (
    Charge,
    Constraint,
    Penalty,
    SoftmaxArgmin,
    lifted,
    num_examples,
    number,
    positive,
    shares,
    times,
)
from jboost.relaxations.water import water_level

# The relative difference of a norm of this order from that of order infinity is at most the log of
# the reciprocal of the least normal share, 709, over the order.
_LARGEST_ORDER = 1e20


def norm_ball(order: float, radius: ArrayLike) -> Any:
    """The relaxation that keeps the example weights in a norm ball: f is 0 inside and inf outside.

    In data of unequal weights, with m examples and shares p_i, the norm is that of d_i / (m p_i)
    under the measure m p_i.

    Args:
      order: a number from 1 to infinity; static. A new order is a new compilation. From 1e20 on it
        counts as infinity, as the norms differ by less than rounding.
      radius: []; inf for no bound. With m examples the ball misses the simplex unless the radius is
        at least m ** (1 / order - 1): 1 for order 1, and 1 / m for order infinity.

    Returns:
      A relaxation; for order infinity, `soft_margin(cap=radius)`. Its conjugate is the radius times
      the norm of order s of the positive shortfalls, with 1 / s + 1 / order = 1.

    Raises:
      ValueError: naming the argument, for an order below 1 or a radius that is not positive; for
        order 1 also below 1.

    Source: Shalev-Shwartz and Singer (2008), Section 4, Example 1.

    >>> import jax.numpy as jnp, jboost
    >>> round(float(jboost.relaxations.norm_ball(2, 0.8).lower_bound(jnp.array([0.0, 1.0]))), 3)
    0.235
    >>> round(float(jboost.relaxations.norm_ball(3, 0.8).lower_bound(jnp.array([0.0, 1.0]))), 3)
    0.204
    """
    order = _checked_order(order)
    radius = check.number(
        "radius", radius, low=1.0 if order == 1 else 0.0, open_low=order != 1
    ).astype(float)
    special: dict[float, Any] = {
        1: AbsoluteBall,
        2: EuclideanBall,
        math.inf: lambda cap: SoftMargin(cap, None),
    }
    return special[order](radius) if order in special else NormBall(radius, order)


def norm_penalty(order: float, scale: ArrayLike) -> Any:
    """The relaxation that charges a norm of the example weights: f(d) = scale * |d|.

    In data of unequal weights the norm is as for `norm_ball`.

    Args:
      order: a number from 1 to infinity; static. A new order is a new compilation. From 1e20 on it
        counts as infinity, as the norms differ by less than rounding.
      scale: [] positive.

    Returns:
      A relaxation. For order 1 it is constant on the simplex, and lifts the hard margin by `scale`.

    Raises:
      ValueError: naming the argument, for an order below 1 or a scale that is not positive and
        finite.

    Source: Shalev-Shwartz and Singer (2008), Section 4, Example 2.

    >>> import jax.numpy as jnp, jboost
    >>> round(float(jboost.relaxations.norm_penalty(1, 0.5).lower_bound(jnp.array([0.0, 1.0]))), 3)
    0.5
    >>> round(
    ...     float(jboost.relaxations.norm_penalty(1.5, 0.5).lower_bound(jnp.array([0.0, 1.0]))), 3
    ... )
    0.5
    """
    order = _checked_order(order)
    scale = positive("scale", scale)
    special: dict[float, Any] = {1: AbsolutePenalty, 2: EuclideanPenalty, math.inf: LargestPenalty}
    return special[order](scale) if order in special else NormPenalty(scale, order)


def _checked_order(order: Any) -> float:
    """The order as a float, infinity for a very large one. Raises ValueError unless it is a known
    number that is at least 1.
    """
    is_number = isinstance(order, int | float | np.integer | np.floating)
    if not is_number or isinstance(order, bool) or not order >= 1:
        raise ValueError(
            f"order is {order!r}: expected a number from 1 to infinity, known while tracing; below"
            " 1 it is not a norm"
        )
    return float(order) if order < _LARGEST_ORDER else math.inf


@register
@dataclasses.dataclass(frozen=True)
class AbsoluteBall(SoftmaxArgmin, Constraint):
    """f is 0 where sum d <= radius, else inf. For a radius of 1 or more, f is 0 on the simplex."""

    radius: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """0 inside."""
        inside = numerics.precise_sum(example_weights) <= self.radius * (
            1 + 16 * jnp.finfo(example_weights.dtype).eps
        )
        return jnp.where(inside, 0.0, jnp.inf).astype(example_weights.dtype)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """radius times the largest shortfall."""
        return times(
            number(self.radius, shortfalls),
            numerics.masked_max(
                jnp.maximum(shortfalls, 0.0), shares(prior, shortfalls) > 0, fill=0.0
            ),
        )

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """The least margin."""
        return HardMargin().lower_bound(margins, prior)

    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """f, which is 0, or inf if the ball misses the simplex; nothing is moved."""
        value = jnp.where(self.is_feasible(), 0.0, jnp.inf).astype(example_weights.dtype)
        return Charge(value, jnp.zeros_like(value))

    def is_feasible(self, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """Whether the radius is at least 1."""
        return jnp.asarray(self.radius) >= 1

    def is_valid(self) -> Array:
        """Whether the radius is positive."""
        return jnp.asarray(self.radius) > 0


@register
@dataclasses.dataclass(frozen=True)
class AbsolutePenalty(SoftmaxArgmin, Penalty):
    """f(d) = scale * sum d."""

    scale: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """scale * sum d."""
        return number(self.scale, example_weights) * numerics.precise_sum(example_weights)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """0 where no shortfall exceeds the scale, else inf."""
        beyond = reduce.any_true(
            (shortfalls > self.scale * (1 + 16 * jnp.finfo(shortfalls.dtype).eps))
            & (shares(prior, shortfalls) > 0)
        )
        return jnp.where(beyond, jnp.inf, 0.0).astype(shortfalls.dtype)

    def penalty(
        self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """The scale."""
        return number(self.scale, example_weights)

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """The least margin plus the scale."""
        least = HardMargin().lower_bound(margins, prior)

        def bound(scale: Array, least: Array) -> Array:
            return numerics.round_down(bounds.lowered(least + scale), margins.dtype)

        return bounds.widely(bound)(self.scale, least)

    @envelope.charged
    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """The scale."""
        value = bounds.widely(lambda scale: numerics.round_up(scale, example_weights.dtype))(
            self.scale
        )
        return Charge(value, jnp.zeros_like(value))


@register
@dataclasses.dataclass(frozen=True)
class LargestPenalty(OnCurves, Penalty):
    """f(d) = scale * max d_i / (m p_i)."""

    smoothed_curve: ClassVar[Curve] = water.CUT_SOFTMAX
    exact_curve: ClassVar[Curve] = water.BELOW

    scale: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """scale * the largest density."""
        prior = shares(prior, example_weights)
        density = numerics.safe_divide(example_weights, num_examples(prior) * prior)
        return number(self.scale, example_weights) * jnp.maximum(reduce.largest(density), 0.0)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """0 where the positive shortfalls sum to at most the scale, else inf."""
        prior = shares(prior, shortfalls)
        total = numerics.precise_sum(
            jnp.where(prior > 0, num_examples(prior) * prior * jnp.maximum(shortfalls, 0.0), 0.0)
        )
        beyond = total > self.scale * (1 + 16 * jnp.finfo(shortfalls.dtype).eps)
        return jnp.where(beyond, jnp.inf, 0.0).astype(shortfalls.dtype)

    def penalty(
        self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """scale * the largest density."""
        prior = shares(prior, example_weights, axis_name)
        density = numerics.safe_divide(example_weights, prior)
        largest = named_axis.largest(density, prior > 0, axis_name)
        return number(self.scale, example_weights) * largest / num_examples(prior, axis_name)

    def with_constraints_of(self, prior: Array, other: Any, its_prior: Array) -> tuple[Any, Array]:
        """The prior is that of the other: f has a kink where several densities are the largest, and
        the kink moves with the prior as a constraint does.
        """
        return self, its_prior

    def bound_at_saddle(self, margins: Array, example_weights: Array, prior: Array) -> Array:
        """`lower_bound` [] as the Lagrangian at given example weights, which must be minimisers.

        The largest density is the multiplier of the threshold. The margins alone do not determine
        it if some of them equal the threshold, as is the case for optimal votes.
        """
        threshold = lax.stop_gradient(self.lower_bound(margins, prior))
        density = numerics.safe_divide(example_weights, lax.stop_gradient(prior))
        shortfalls = jnp.where(prior > 0, jnp.maximum(threshold - margins, 0.0), 0.0)
        allowed = number(self.scale, margins) / num_examples(prior)
        excess = numerics.precise_sum(prior * shortfalls) - allowed
        return threshold - reduce.largest(density) * excess

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """The threshold below which the shortfalls sum to the scale (see `water.water_level`)."""
        prior = shares(prior, margins)
        dtype = margins.dtype
        _, above = lifted(margins, prior)
        reach = jnp.maximum(
            water_level(number(self.scale, margins), above, prior), jnp.finfo(dtype).tiny
        )

        def bound(relaxation: LargestPenalty, margins: Array, prior: Array, reach: Array) -> Array:
            """Computed in units of the reach, which may be far smaller than the rounding of the
            margins, or far larger than the margins.
            """
            least = numerics.masked_min(margins, prior > 0, fill=jnp.inf)
            target = relaxation.scale / reach / num_examples(prior)
            prior = bounds.true_shares(prior)
            clean = jnp.where(prior > 0, margins, least)
            gaps = (clean - least) / reach
            active = jnp.where(gaps < 1, prior, 0.0)
            threshold = least + reach * (
                (target + numerics.precise_sum(active * gaps)) / numerics.precise_sum(active)
            )
            total = bounds.sum_up(prior * (jnp.maximum(threshold - clean, 0.0) / reach)) * (
                1 + bounds.share_rounding(prior, dtype)
            )
            share = jnp.where(total > target, target / total, 1.0) * (1 - 4 * bounds.UNIT)
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
        dtype = example_weights.dtype

        def bound(relaxation: LargestPenalty, example_weights: Array, prior: Array) -> Array:
            weights, prior = bounds.scaled(example_weights, prior), bounds.true_shares(prior)
            density = jnp.maximum(reduce.largest(bounds.densities(weights, prior)), 0.0) * (
                1 + bounds.share_rounding(prior, dtype)
            )
            slack = 1 + (example_weights.shape[0] + 8) * bounds.UNIT
            return numerics.round_up(
                relaxation.scale * density / num_examples(prior) * slack, dtype
            )

        value = bounds.widely(bound)(self, example_weights, shares(prior, example_weights))
        return Charge(value, jnp.zeros_like(value))
