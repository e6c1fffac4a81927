"""Minimisers for binary entropies.

Scaled by nu, each density is a probability ("coin") c_i = nu d_i / p_i, with log odds t_i. The
smoothed minimiser satisfies slope * t_i + strength * log c_i = level - margin_i with
slope = nu * scale. Divided by slope + strength this is log c - ease * log(1 - c) = y, where
ease = slope / (slope + strength) is between 0 (a cap) and 1 (the logistic function). The left side
increases with c. The level is the number at which the coins have mean nu. The search uses the same
function of their mean, since it is nearly linear in the level.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.roots import bracketed_root, newton
from jboost.base.types import Array
from jboost.relaxations.curves import Curve, CurvePoint, CurveProblem
from jboost.relaxations.types import (
    lifted,
    number,
)

# Roundings of the level: a power of two above twice those of the search for it, which ends within 4
# of its bracket, whose ends have 8 of slack.
_ROUNDINGS = 32


def _ground_and_ease(problem: CurveProblem) -> tuple[Array, Array]:
    relaxation, margins, strength, prior, axis_name = problem
    slope = number(relaxation.nu, margins) * number(relaxation.scale, margins)
    _, above = lifted(margins, prior, axis_name)
    ease = jnp.maximum(slope / (slope + strength), jnp.finfo(margins.dtype).tiny)
    return above / (slope + strength), ease


def _find_level(problem: CurveProblem) -> Array:
    relaxation, margins, _, prior, axis_name = problem
    ground, ease = _ground_and_ease(problem)
    return level_of(ground, ease, number(relaxation.nu, margins), prior, axis_name)


def _at_level(level: Array, problem: CurveProblem) -> CurvePoint:
    relaxation, margins, _, prior, axis_name = problem
    ground, ease = _ground_and_ease(problem)
    nu = number(relaxation.nu, margins)
    rounding = _rounding(level)
    is_coarse = rounding >= 1

    def fixed_if_coarse(values: Array) -> Array:
        return jnp.where(is_coarse, lax.stop_gradient(values), values)

    log_odds = fixed_if_coarse(_log_odds(level - ground, ease))
    coins = _balanced(log_odds, ease, fixed_if_coarse(nu), fixed_if_coarse(prior), axis_name)

    def excess() -> Array:
        known = jnp.where(is_coarse, 0.0, log_odds)
        return _excess_of_coins(known, ease, nu, prior, axis_name)[0]

    is_lost = is_coarse & (lax.stop_gradient(jnp.abs(level - ground)) <= rounding)
    return CurvePoint(
        prior * _completed(coins, is_lost, nu, prior, axis_name),
        lambda: jnp.where(is_coarse, level - lax.stop_gradient(level), excess()),
    )


def _rounding(level: Array) -> Array:
    """The rounding of a level []. From about 1 on, the level tells only which coins are 0, which
    are 1 and which lie between.
    """
    return _ROUNDINGS * jnp.finfo(level.dtype).eps * lax.stop_gradient(jnp.abs(level))


def _balanced(log_odds: Array, ease: Array, nu: Array, prior: Array, axis_name: AxisName) -> Array:
    """Coins [m] of mean nu, after one Newton step on the coins themselves. A level of large size is
    rounded too coarsely to determine their mean.
    """
    heads, tails = jax.nn.sigmoid(log_odds), jax.nn.sigmoid(-log_odds)
    growth = heads * tails / (ease + (1 - ease) * tails)
    missing = named_axis.total(prior * (nu - heads), axis_name)
    step = numerics.safe_divide(missing, named_axis.total(prior * growth, axis_name))
    return heads + growth * jnp.clip(step, -0.5, 0.5)


def _completed(coins: Array, is_lost: Array, nu: Array, prior: Array, axis_name: AxisName) -> Array:
    """Coins [m] of mean nu: what is missing goes to those whose odds are lost in the rounding of
    the level, and changes of nu and of the prior move them alone.
    """
    missing = named_axis.total(prior * (nu - coins), axis_name)
    eps = jnp.finfo(coins.dtype).eps  # no room is smaller, so that derivatives are finite
    room = jnp.where(missing > 0, jnp.maximum(1 - coins, eps), -jnp.maximum(coins, eps))
    room = jnp.where(is_lost, lax.stop_gradient(room), 0.0)
    share = numerics.safe_divide(missing, named_axis.total(prior * room, axis_name))
    return coins + room * jnp.where(share > 1, 1.0, share)


def level_of(
    ground: Array, ease: Array, nu: Array, prior: Array, axis_name: AxisName = None
) -> Array:
    """The level at which the coins for y = level - ground [m] have mean nu. The least entry of
    `ground` must be 0.
    """
    eps = jnp.finfo(ground.dtype).eps
    total = named_axis.total(prior, axis_name)
    target = jnp.log(nu) - ease * jnp.log(_rest_of(nu))

    def excess(level: Array) -> tuple[Array, Array]:
        value, slope = _excess_of_coins(_log_odds(level - ground, ease), ease, nu, prior, axis_name)
        return value, newton(level, value, slope)

    mean = named_axis.total(prior * jnp.exp(-ground), axis_name) / total
    low = jnp.maximum(target, jnp.log(nu) - jnp.log(mean))  # since no coin is above e^y
    high = target + named_axis.largest(ground, prior > 0, axis_name)
    slack = 8 * eps * (1 + jnp.abs(low) + jnp.abs(high))
    start = jnp.minimum(low, high)
    return bracketed_root(excess, low - slack, high + slack, start, tolerance=4 * eps)


def _rest_of(nu: Array) -> Array:
    return jnp.maximum(1 - nu, 0.25 * jnp.finfo(nu.dtype).eps)


def _excess_of_coins(
    log_odds: Array, ease: Array, nu: Array, prior: Array, axis_name: AxisName
) -> tuple[Array, Array]:
    """log mean - ease * log(1 - mean) of the coins minus the same function of nu, and its
    derivative in the level.
    """
    heads, tails = jax.nn.sigmoid(log_odds), jax.nn.sigmoid(-log_odds)
    total = named_axis.total(prior, axis_name)
    mean = named_axis.total(prior * heads, axis_name) / total
    rest = named_axis.total(prior * tails, axis_name) / total
    moving = prior * heads * tails / (ease + (1 - ease) * tails)
    growth = named_axis.total(moving, axis_name) / total
    others = _rest_of(nu)
    value = (jnp.log(mean) - jnp.log(nu)) - ease * (jnp.log(rest) - jnp.log(others))
    return value, growth * (1 / mean + ease / rest)


@jax.custom_jvp
def _log_odds(y: Array, ease: Array) -> Array:
    """t with t - (1 - ease) * log(1 + e^t) = y, by Halley's iteration. It starts from the solution
    in the limit of small or of large e^t.
    """
    log_ease = jnp.log(ease)
    bend = -log_ease - y / ease
    near = -jnp.log(jnp.maximum(-ease * log_ease - y, jnp.finfo(y.dtype).tiny))
    far = y / ease + jnp.log1p(jnp.exp(jnp.minimum(bend, 1.0)))
    t = jnp.where(y < -1, y, jnp.where(bend > 1, near, far))
    for _ in range(2 if jnp.finfo(y.dtype).bits == 32 else 3):
        decay = jnp.exp(-jnp.abs(t))
        softplus = jnp.maximum(t, 0.0) + jnp.log1p(decay)
        heads, tails = (
            jnp.where(t > 0, 1.0, decay) / (1 + decay),
            jnp.where(t > 0, decay, 1.0) / (1 + decay),
        )
        slope = ease + (1 - ease) * tails
        linear = jnp.where(
            t > 0, ease * t - (1 - ease) * jnp.log1p(decay), t - (1 - ease) * softplus
        )
        error = linear - y
        t = t - error / (slope + 0.5 * error * (1 - ease) * heads * tails / slope)
    return t


@_log_odds.defjvp
def _derivative_of_log_odds(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    _, ease = primals
    t = _log_odds(*primals)
    # coins that are 0 or 1 in these floats do not move; their t may be infinite
    is_between = jax.nn.sigmoid(t) * jax.nn.sigmoid(-t) > 0
    moved = tangents[0] - tangents[1] * jax.nn.softplus(jnp.where(is_between, t, 0.0))
    slope = jnp.where(is_between, ease + (1 - ease) * jax.nn.sigmoid(-t), 1.0)
    return t, jnp.where(is_between, moved / slope, 0.0)


COINS = Curve(_find_level, _at_level)
