"""The hard margin, and soft margins, which cap every example weight (Shalev-Shwartz and Singer
2008, Section 4.1).
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import jax.numpy as jnp

from jboost.base import check, exact_sums, named_axis, numerics, reduce
from jboost.base.named_axis import AxisName
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.projections import kl_projection_by_sums
from jboost.relaxations import bounds, envelope
from jboost.relaxations.curves import Curve, OnCurve
from jboost.relaxations.thresholds import AT_CAPS, worst_threshold
from jboost.relaxations.types import (
    Charge,
    Constraint,
    SoftmaxArgmin,
    is_positive,
    lifted,
    num_examples,
    number,
    safe_log,
    shares,
    times,
)


@register
@dataclasses.dataclass(frozen=True)
class HardMargin(SoftmaxArgmin, Constraint):
    """f = 0. The primal value is the least margin."""

    @property
    def has_exact_sums(self) -> bool:
        """True."""
        return True

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """0."""
        return jnp.zeros((), example_weights.dtype)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """0 where no shortfall is positive, else inf."""
        falls_short = reduce.any_true((shortfalls > 0) & (shares(prior, shortfalls) > 0))
        return jnp.where(falls_short, jnp.inf, 0.0).astype(shortfalls.dtype)

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """The least margin."""
        return numerics.masked_min(margins, shares(prior, margins) > 0, fill=jnp.inf)

    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """Nothing."""
        nothing = jnp.zeros((), example_weights.dtype)
        return Charge(nothing, nothing)


@register
@dataclasses.dataclass(frozen=True)
class SoftMargin(OnCurve, Constraint):
    """f is 0 where every d_i <= cap m p_i, else inf. The primal value is the mean of the smallest
    margins. Either `cap` or `nu` is None.
    """

    exact_curve: ClassVar[Curve] = AT_CAPS

    cap: Array | None  # [] for an example of average weight
    nu: Array | None  # [] the share of the examples whose margins are averaged: cap = 1 / (nu m)

    @property
    def has_exact_sums(self) -> bool:
        """True."""
        return True

    def caps(self, prior: Array, axis_name: AxisName = None) -> Array:
        """The largest weight of each example, [m]."""
        if self.nu is None:
            per_share = number(self.cap, prior) * num_examples(prior, axis_name)
        else:
            per_share = 1 / number(self.nu, prior)
        return jnp.where(prior > 0, per_share * prior, 0.0)

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """0 where the caps are kept, up to rounding."""
        over = example_weights > self.caps(shares(prior, example_weights)) * (
            1 + 16 * jnp.finfo(example_weights.dtype).eps
        )
        return jnp.where(reduce.any_true(over), jnp.inf, 0.0).astype(example_weights.dtype)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """The capped sum of shortfalls: the hinge loss."""
        caps = self.caps(shares(prior, shortfalls))
        return numerics.precise_sum(
            jnp.where(caps > 0, times(caps, jnp.maximum(shortfalls, 0.0)), 0.0)
        )

    def smoothed_argmin(
        self,
        margins: Array,
        strength: Array,
        prior: Array | None = None,
        *,
        axis_name: AxisName = None,
    ) -> Array:
        """A softmax, projected in relative entropy onto the capped simplex (Section 5.2)."""
        prior = shares(prior, margins, axis_name)
        _, above = lifted(margins, prior, axis_name)
        logits = safe_log(prior) - above / number(strength, margins)
        caps = self.caps(prior, axis_name)
        kept = jnp.where(prior > 0, logits, -jnp.inf)
        return kl_projection_by_sums(kept, caps, prior > 0, axis_name=axis_name)

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """The mean of the smallest margins."""
        prior = shares(prior, margins)
        dtype = margins.dtype

        def bound(relaxation: SoftMargin, margins: Array, prior: Array) -> Array:
            # caps above 1 never bind
            caps = jnp.minimum(relaxation.caps(prior), 2.0) * (
                1 + bounds.share_rounding(prior, dtype)
            )
            threshold = worst_threshold(jnp.where(prior > 0, margins, jnp.inf), caps, dtype)
            hinge = bounds.sum_up(caps * jnp.maximum(threshold - margins, 0.0))
            return numerics.round_down(bounds.lowered(threshold - hinge, threshold, hinge), dtype)

        return bounds.widely(bound)(self, jnp.where(prior > 0, margins, 0.0), prior)

    @envelope.charged
    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """f is 0. `moved` is twice the weight above the caps, which is only rounding if d comes
        from a projection.
        """
        prior = shares(prior, example_weights)
        dtype = example_weights.dtype

        def bound(relaxation: SoftMargin, example_weights: Array, prior: Array) -> Array:
            weights, caps = (
                bounds.scaled(example_weights, prior),
                relaxation.caps(prior) * (1 - bounds.share_rounding(prior, dtype)),
            )
            # upper bounds on the exact weights
            grown = weights * (1 + (exact_sums.length(weights.shape[0]) + 8) * bounds.UNIT)
            return numerics.round_up(2 * bounds.sum_up(jnp.maximum(grown - caps, 0.0)), dtype)

        moved = jnp.where(
            self.is_feasible(prior), bounds.widely(bound)(self, example_weights, prior), jnp.inf
        )
        return Charge(jnp.zeros_like(moved), moved)

    def is_feasible(self, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """Whether the caps sum to at least one, up to rounding. With `cap` the prior is needed."""
        if prior is None:
            if self.nu is None:
                raise ValueError(
                    "prior is None: whether a cap is feasible depends on the number of examples;"
                    " pass the shares of the examples"
                )
            return self.nu <= 1
        total = named_axis.total(self.caps(prior, axis_name), axis_name)
        return total >= 1 - 16 * jnp.finfo(prior.dtype).eps

    def is_valid(self) -> Array:
        """Whether the cap is positive, or nu, which is finite."""
        return jnp.asarray(self.cap) > 0 if self.nu is None else is_positive(self.nu)


def hard_margin() -> HardMargin:
    """The relaxation f = 0: the least margin over the examples is maximised (Shalev-Shwartz and
    Singer 2008, Theorem 4).

    >>> import jax.numpy as jnp, jboost
    >>> float(jboost.relaxations.hard_margin().lower_bound(jnp.array([0.5, -0.25])))
    -0.25
    """
    return HardMargin()


def soft_margin(cap: ArrayLike | None = None, *, nu: ArrayLike | None = None) -> SoftMargin:
    """The relaxation that caps example weights: the mean of the smallest 1 / cap margins is
    maximised (Shalev-Shwartz and Singer 2008, Section 4.1).

    Args:
      cap: [] positive, the largest weight of an example, inf for no cap. With m examples it must be
        at least 1 / m. In data of unequal weights the cap of an example is cap * m times its share.
      nu: [] in (0, 1], instead of `cap`: the share of the examples whose margins are averaged,
        cap = 1 / (nu m).

    Raises:
      ValueError: unless exactly one is given, or if it is out of range.

    >>> import jax.numpy as jnp, jboost
    >>> round(
    ...     float(jboost.relaxations.soft_margin(0.5).lower_bound(jnp.array([0.5, -0.25, 0.75]))), 6
    ... )
    0.125
    """
    if (cap is None) == (nu is None):
        raise ValueError("cap and nu: give exactly one of them")
    if nu is not None:
        share = check.number("nu", nu, low=0, high=1, open_low=True).astype(float)
        least = float(jnp.finfo(share.dtype).tiny)
        return SoftMargin(None, check.number("nu", share, low=least, high=1))
    return SoftMargin(check.number("cap", cap, low=0, open_low=True).astype(float), None)


def num_worst(num_noisy: int, margin: float) -> int:
    """How many of the smallest margins to average if some examples are noise: the least k with
    k >= 2 t (rho + 1) / rho.

    If a vote has margin rho on all but t examples, the best soft margin of cap 1 / k gives at least
    m - k examples a margin of rho / 2 or more (Shalev-Shwartz and Singer 2008, Section 4.1).

    Args:
      num_noisy: t, the number of examples that may be wrong.
      margin: rho in (0, 1], attained on the others.

    Returns:
      k; `soft_margin(1 / k)` is the relaxation.

    >>> num_worst(3, 0.5)
    18
    """
    check.count("num_noisy", num_noisy, low=0)
    check.number("margin", margin, low=0, high=1, open_low=True)
    return max(1, math.ceil(2 * num_noisy * (margin + 1) / margin * (1 - 1e-12)))
