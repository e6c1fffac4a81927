"""Binary entropies of the example weights: boosting for the log-loss (Shalev-Shwartz and Singer
2008, Section 6).

Scaled by nu, each density is a probability ("coin") c_i = nu d_i / p_i. The minimisers are those of
`coins`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import jax.numpy as jnp

from jboost.base import check, named_axis, numerics, reduce
from jboost.base.named_axis import AxisName
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.relaxations import bounds, coins, envelope
from jboost.relaxations.curves import Curve, OnCurves
from jboost.relaxations.types import (
    Charge,
    lifted,
    number,
    scale_in_units,
    shares,
)

_LOG_TWO = 0.6931471805599453
_LEAST, _MOST = 2.0**-60, 2.0**60  # the range of the parameters: nu * scale is a normal float32


def _within_caps(relaxation: BinaryEntropy, weights: Array, prior: Array) -> Array:
    """Weights [m] with just enough of the prior mixed in to satisfy the caps prior / nu."""
    density, cap = numerics.safe_divide(weights, prior), 1 / number(relaxation.nu, prior)
    over = density - cap
    less = jnp.where(over > 0, jnp.maximum(density - 1, over), 1.0)
    share = jnp.where(over > 0, over / less, 0.0)
    return weights + reduce.largest(share) * (prior - weights)


@register
@dataclasses.dataclass(frozen=True)
class BinaryEntropy(OnCurves):
    """f(d) = scale * sum_i p_i (log 2 - H(nu d_i / p_i)) with H the entropy of a coin. It is a
    smooth version of the soft margin.
    """

    smoothed_curve: ClassVar[Curve] = coins.COINS
    exact_curve: ClassVar[Curve] = coins.COINS

    nu: Array  # []
    scale: Array  # []

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """scale times the mean of log 2 - H over the coins; inf beyond the caps p_i / nu."""
        prior = shares(prior, example_weights)
        coins = number(self.nu, prior) * numerics.safe_divide(example_weights, prior)
        beyond = reduce.any_true(coins > 1 + 16 * jnp.finfo(coins.dtype).eps)
        return jnp.where(beyond, jnp.inf, self.penalty(example_weights, prior))

    def penalty(
        self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """scale times the mean of log 2 - H over the coins."""
        prior = shares(prior, example_weights, axis_name)
        coins = number(self.nu, prior) * numerics.safe_divide(example_weights, prior)
        coins = jnp.clip(coins, 0.0, 1.0)
        missing = _missing_entropy(2 * coins - 1, jnp.minimum(coins, 1 - coins))
        return number(self.scale, prior) * named_axis.total(prior * missing, axis_name)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """The mean log-loss of the shortfalls: scale * mean(log((1 + e^(z / (nu scale))) / 2))."""
        prior = shares(prior, shortfalls)
        scale = number(self.scale, prior)
        odds = jnp.where(prior > 0, shortfalls, 0.0) / (number(self.nu, prior) * scale)
        return scale * numerics.precise_sum(prior * _log_loss(odds))

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """gamma minus the mean log-loss of gamma - margins, at its best gamma."""
        prior = shares(prior, margins)
        dtype = margins.dtype
        nu, slope = number(self.nu, margins), number(self.nu, margins) * number(self.scale, margins)
        least, above = lifted(margins, prior)
        threshold = least + slope * coins.level_of(above / slope, jnp.ones_like(slope), nu, prior)

        def rounded_odds(relaxation: BinaryEntropy, threshold: Array, margins: Array) -> Array:
            return _odds(relaxation, threshold, margins).astype(dtype)

        def bound(
            relaxation: BinaryEntropy,
            threshold: Array,
            margins: Array,
            prior: Array,
            is_near: Array,
            rest: Array,
            errors: Array,
        ) -> Array:
            places = _odds(relaxation, threshold, margins)
            linear = jnp.where(is_near, 0.5 * places, jnp.maximum(places, 0.0))
            prior, losses = bounds.true_shares(prior), linear + rest
            mean = numerics.precise_sum(prior * losses)
            gain = relaxation.scale * mean
            # the errors of the shares sum to 0, so that only differences from the mean count
            errors = errors + bounds.share_rounding(prior, dtype) * jnp.abs(losses - mean)
            slack = prior * (
                errors + (prior.shape[0] + 8) * bounds.UNIT * (jnp.abs(linear) + jnp.abs(rest))
            )
            return numerics.round_down(
                bounds.lowered(threshold - gain, threshold, gain)
                - relaxation.scale * bounds.sum_up(slack),
                dtype,
            )

        clean = jnp.where(prior > 0, margins, threshold)
        places = bounds.widely(rounded_odds)(self, threshold, clean)
        is_near, _, rest = _log_loss_parts(places)
        errors = 4 * jnp.finfo(dtype).eps * jnp.minimum(places * places, 1.0)
        return bounds.widely(bound)(self, threshold, clean, prior, is_near, rest, errors)

    @functools.partial(envelope.charged, allowed=_within_caps)
    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """f of d after mixing in just enough of the prior to satisfy the caps, and how far this
        moves d; inf if nu is above 1.

        The bound allows for the rounding of the prior. p (log 2 - H(nu d / p)) is convex in each
        share p, so that it is largest at an end of the interval of possible shares.
        """
        prior = shares(prior, example_weights)
        dtype = example_weights.dtype

        def move(
            relaxation: BinaryEntropy, example_weights: Array, prior: Array
        ) -> tuple[Array, Array, Array]:
            weights, prior = bounds.scaled(example_weights, prior), bounds.true_shares(prior)
            error = bounds.share_rounding(prior, dtype) + 2 * (weights.shape[0] + 8) * bounds.UNIT
            density, cap = bounds.densities(weights, prior), 1 / relaxation.nu
            over = jnp.maximum(density * (1 + error) - cap, 0.0)
            share = jnp.maximum(
                reduce.largest(numerics.safe_divide(over, jnp.maximum(density - 1, over))), 0.0
            )
            coins = jnp.clip(
                relaxation.nu * (density + share * (jnp.where(prior > 0, 1.0, 0.0) - density)),
                0.0,
                1.0,
            )
            bias = jnp.minimum(jnp.abs(2 * coins - 1) + 2 * error * coins, 1.0)
            less = jnp.maximum(jnp.minimum(coins, 1 - coins) - error * coins, 0.0)
            moved = share * (bounds.sum_up(jnp.abs(weights - prior)) + error)
            return bias.astype(dtype), less.astype(dtype), numerics.round_up(moved, dtype)

        def bound(relaxation: BinaryEntropy, prior: Array, missing: Array) -> Array:
            total = bounds.sum_up(bounds.true_shares(prior) * missing)
            return numerics.round_up(
                relaxation.scale * total * (1 + 2 * bounds.share_rounding(prior, dtype)), dtype
            )

        bias, less, moved = bounds.widely(move)(self, example_weights, prior)
        missing = _missing_entropy(bias, less) * (1 + 16 * jnp.finfo(dtype).eps)
        return Charge(
            bounds.widely(bound)(self, prior, missing),
            jnp.where(self.is_feasible(), moved, jnp.inf),
        )

    def in_units(self, unit: Array) -> Any:
        """scale / unit in place of the scale."""
        return dataclasses.replace(self, scale=scale_in_units(self.scale, unit))

    def with_constraints_of(self, prior: Array, other: Any, its_prior: Array) -> tuple[Any, Array]:
        """The caps are p_i / nu: the scale has no part in them."""
        return dataclasses.replace(self, nu=other.nu), its_prior

    def is_feasible(self, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """Whether the caps p_i / nu sum to one."""
        return jnp.asarray(self.nu) <= 1

    def is_valid(self) -> Array:
        """Whether nu and the scale are in their ranges; nu may also be above 1, which is infeasible
        but valid.
        """
        nu, scale = jnp.asarray(self.nu), jnp.asarray(self.scale)
        return (nu >= _LEAST) & (nu < jnp.inf) & (scale >= _LEAST) & (scale <= _MOST)


def _missing_entropy(bias: Array, less: Array) -> Array:
    """log 2 - H of coins, with a relative error of a few roundings, from the difference of the two
    probabilities of each coin and the smaller of them.
    """
    small = jnp.clip(bias, -0.5, 0.5)
    near = small * jnp.arctanh(small) + 0.5 * jnp.log1p(-small * small)
    less = jnp.clip(less, jnp.finfo(less.dtype).tiny, 0.5)
    far = _LOG_TWO + less * jnp.log(less) + (1 - less) * jnp.log1p(-less)
    return jnp.where(jnp.abs(bias) <= 0.5, near, far)


def _odds(relaxation: BinaryEntropy, threshold: Array, margins: Array) -> Array:
    """The arguments [m] of the log-losses of threshold - margins."""
    return (threshold - margins) / (relaxation.nu * relaxation.scale)


def _log_loss(odds: Array) -> Array:
    """log((1 + e^x) / 2)."""
    _, linear, rest = _log_loss_parts(odds)
    return linear + rest


def _log_loss_parts(odds: Array) -> tuple[Array, Array, Array]:
    """log((1 + e^x) / 2) in two parts: whether |x| <= 1; the first part, x / 2 in that case and
    else [x]_+; and the rest, with an error of a few roundings of min(x^2 / 4, 1).
    """
    is_near = jnp.abs(odds) <= 1
    small = jnp.clip(odds, -1.0, 1.0)
    rest = jnp.where(
        is_near,
        jnp.log1p(2 * jnp.sinh(0.25 * small) ** 2),
        jnp.log1p(jnp.exp(-jnp.abs(odds))) - _LOG_TWO,
    )
    return is_near, jnp.where(is_near, 0.5 * odds, jnp.maximum(odds, 0.0)), rest


def binary_entropy(nu: ArrayLike, scale: ArrayLike) -> BinaryEntropy:
    """The relaxation by binary entropies, whose primal value is a margin minus a mean log-loss
    (Shalev-Shwartz and Singer 2008, Section 6).

    It is a smooth version of the soft margin of the same nu, which it approaches as the scale goes
    to 0. The loss of an example is scale * log((1 + exp((gamma - margin) / (nu scale))) / 2)
    instead of [gamma - margin]_+ / nu.

    Args:
      nu: [] in [2^-60, 1]: no example weighs more than its share divided by nu.
      scale: [] in [2^-60, 2^60], in units of the margin.

    Raises:
      ValueError: naming the argument that is out of range.

    >>> import jax.numpy as jnp, jboost
    >>> relaxation = jboost.relaxations.binary_entropy(0.5, 1.0)
    >>> bool(relaxation.lower_bound(jnp.array([0.5, -0.25])) <= 0.125)
    True
    """
    nu = check.number("nu", nu, low=_LEAST, high=1).astype(float)
    return BinaryEntropy(nu, check.number("scale", scale, low=_LEAST, high=_MOST).astype(float))
