"""Derivatives of the exact minimiser in a norm ball of order q, computed from the minimiser.

The densities x_i have mean 1 under the shares p_i. With a_i = margin_i minus the least margin, a
threshold r and a multiplier kappa, the conditions are

    r - a_i = kappa x_i^(q - 1) where x_i > 0,  sum p_i x_i = 1,  sum p_i x_i^q = exp(q limit).

For large q, r - a_i may be far below the rounding of r, while x_i is not small. So r - a_i is taken
from x_i there. The differential of the first condition is

    dx_i = c_i (alpha + beta a_i - da_i),  c_i = x_i / ((q - 1) (r - a_i)),

where beta = d log kappa and alpha = dr - beta r. The two constraints determine alpha and beta.

The c_i may differ by many orders of magnitude. Where c_i is large, alpha + beta a_i - da_i is
small, and a difference would lose it. All a_i and da_i are therefore measured from the straight
line through the two examples of the largest c_i, where they are then exactly 0.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.types import Array

_NEAR = 1 / 8  # gaps below this share of the threshold are computed from the densities


class InBall(NamedTuple):
    """The minimiser, or its tangent."""

    densities: Array  # [m] x_i
    reach: Array  # [] r, measured from the least margin; 0 if only examples of least margin count


class Ball(NamedTuple):
    """The problem, or its tangent."""

    limit: Array  # [] the log of the largest norm of the densities
    above: Array  # [m] a_i; 0 on padding
    shares: Array  # [m] p_i, of sum 1


def tangent(point: InBall, ball: Ball, moves: Ball, order: float, axis_name: AxisName) -> InBall:
    """How the minimiser moves: linear in `moves`, and differentiable in the other arguments."""
    densities, reach = point
    above, shares = ball.above, ball.shares
    gaps = _gaps(point, ball, order, axis_name)
    is_free = (densities > 0) & (gaps > 0) & (reach > 0)
    softness = jnp.where(is_free, densities / ((order - 1) * jnp.where(is_free, gaps, 1.0)), 0.0)
    masses = shares * softness

    first = _largest(masses, is_free, axis_name)
    origin, moved_origin = _mean(above, first, axis_name), _mean(moves.above, first, axis_name)
    apart, bends = above - origin, moves.above - moved_origin
    second = _largest(masses * apart * apart, is_free, axis_name)
    slope = _mean(numerics.safe_divide(bends, apart), second, axis_name)
    bends = bends - slope * apart

    total = named_axis.total(masses, axis_name)
    mean = numerics.safe_divide(named_axis.total(masses * apart, axis_name), total)
    centred = apart - mean
    spread = named_axis.total(masses * centred * centred, axis_name)

    moved_mean = named_axis.linear_total(densities * moves.shares, axis_name)
    by_shares = named_axis.linear_total(densities * gaps * moves.shares, axis_name) / order
    by_limit = named_axis.total(shares * densities * gaps, axis_name) * moves.limit
    moment = by_shares - by_limit - (reach - origin - mean) * moved_mean
    turn = named_axis.linear_total(masses * centred * bends, axis_name) + moment
    turn = numerics.safe_divide(turn, spread)
    lift = named_axis.linear_total(masses * bends, axis_name) - moved_mean
    lift = numerics.safe_divide(lift, total) - turn * mean

    followed = softness * (lift + turn * apart - bends)
    scaled = -densities * moved_mean  # the examples of least margin keep equal densities
    moved_reach = lift + moved_origin + (turn + slope) * (reach - origin)
    return InBall(
        jnp.where(reach > 0, followed, scaled), jnp.where(reach > 0, moved_reach, 0 * moved_reach)
    )


def _gaps(point: InBall, ball: Ball, order: float, axis_name: AxisName) -> Array:
    """r - a_i [m], as a function of r, a_i and the densities; 0 where the density is. They are at
    least eps^2 r, since derivatives beyond its reciprocal are of no use.
    """
    densities, reach = point
    is_active = densities > 0
    logs = jnp.log(jnp.where(is_active, densities, 1.0))
    is_least = (lax.stop_gradient(ball.above) == 0) & (ball.shares > 0) & is_active
    top = lax.stop_gradient(_mean(logs, is_least, axis_name))
    powers = jnp.exp((order - 1) * jnp.where(is_least, top - logs, 0.0))
    height = _mean((reach - ball.above) * powers, is_least, axis_name)
    by_density = height * jnp.exp((order - 1) * jnp.minimum(logs - top, 1.0))
    by_density = jnp.maximum(by_density, jnp.finfo(reach.dtype).eps ** 2 * reach)
    by_margin = reach - ball.above
    is_near = by_margin < _NEAR * reach
    return jnp.where(is_active, jnp.where(is_near, by_density, by_margin), 0.0)


def _largest(values: Array, mask: Array, axis_name: AxisName) -> Array:
    """Where the values [m] attain their largest, [m] bool."""
    values = lax.stop_gradient(values)
    return mask & (values == named_axis.largest(values, mask, axis_name))


def _mean(values: Array, mask: Array, axis_name: AxisName) -> Array:
    """The mean [] of the values [m] where `mask` is True; 0 if it is True nowhere."""
    number = named_axis.count(mask, axis_name, values.dtype)
    total = named_axis.linear_total(jnp.where(mask, values, 0.0), axis_name)
    return total / jnp.maximum(number, 1.0)
