"""Minimisers for norms of any order q above 1, as balls and as penalties.

Let s = q / (q - 1) be the dual order, x_i = d_i / p_i the densities, and kappa the multiplier of
x_i^(q - 1). The smoothed minimiser satisfies kappa x_i^(q - 1) + log x_i = c - margin_i / strength
for a constant c. For omega_i = (q - 1) kappa x_i^(q - 1) this is
omega_i + log omega_i = level - (q - 1) margin_i / strength, with
level = (q - 1) c + log((q - 1) kappa). The Wright omega function solves it, and x_i is proportional
to omega_i^(1 / (q - 1)). For q = 2 this is the curve of `quadratic_charge`. The exact minimiser is
x_i proportional to [threshold - margin_i]_+^(s - 1).

Searches run in 64 bits. A curve is traced in the precision of the caller, and differentiable there.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.roots import bracketed_root, newton
from jboost.base.types import Array
from jboost.relaxations import ball_derivatives, bounds
from jboost.relaxations.ball_derivatives import Ball, InBall
from jboost.relaxations.curves import Curve, CurvePoint, CurveProblem
from jboost.relaxations.densities import log_mean, log_norm
from jboost.relaxations.quadratic_charge import level_of_omega, wright_omega
from jboost.relaxations.types import lifted, number, relative

_TOLERANCE = 4 * bounds.UNIT
_LARGEST = 41.0  # log of a norm of omegas from which on the weights are the prior, up to rounding
_FARTHEST = 2.0**24  # times the largest reduced margin: from there on the norm is 1 up to rounding


class _ChargedPower(NamedTuple):
    """One point of the smoothed curve."""

    logs: Array  # [m] of the densities; the largest is 0
    omegas: Array  # [m]
    largest: Array  # [] omega of the least margin


def _charged_at(level: Array, ground: Array, order: float) -> _ChargedPower:
    """The point at a level [], for reduced margins (q - 1) * above / strength [m]."""
    omegas, largest = wright_omega(level - ground), wright_omega(level)
    is_small, power = largest < 1, 1 / (order - 1)
    by_difference = -(ground + (omegas - largest)) * power
    logs = jnp.where(
        omegas < 1, level - ground - omegas, jnp.log(jnp.where(omegas < 1, 1.0, omegas))
    )
    by_ratio = (logs - jnp.log(jnp.where(is_small, 1.0, largest))) * power
    return _ChargedPower(jnp.where(is_small, by_difference, by_ratio), omegas, largest)


def _ground(problem: CurveProblem) -> Array:
    relaxation, margins, strength, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    return (relaxation.order - 1) * (above / strength)


def _shares(prior: Array, axis_name: AxisName) -> Array:
    return prior / named_axis.total(prior, axis_name)


def _wide(find: Any, problem: CurveProblem) -> Array:
    """The number [] that `find` returns for the problem in 64 bits, in the caller's precision."""
    dtype, axis_name = problem.margins.dtype, problem.axis_name

    def search(relaxation: Any, margins: Array, strength: Array, prior: Array) -> Array:
        prior = _shares(prior, axis_name)
        found = find(CurveProblem(relaxation, margins, strength, prior, axis_name))
        limits = jnp.finfo(dtype)
        return jnp.clip(found, float(limits.min), float(limits.max)).astype(dtype)

    clean = jnp.where(problem.prior > 0, problem.margins, 0.0)
    return bounds.widely(search)(problem.relaxation, clean, problem.strength, problem.prior)


# --- smoothed, in a ball --------------------------------------------------------------------------


def _find_charge(problem: CurveProblem) -> Array:
    """log(1 + omega(level)) at the solution; 0 if the softmax is in the ball. In 64 bits."""
    relaxation, _, _, prior, axis_name = problem
    order, ground = relaxation.order, _ground(problem)
    limit = jnp.maximum(relaxation.log_limit(prior, axis_name), jnp.finfo(ground.dtype).tiny)

    def excess(log_charge: Array) -> tuple[Array, Array]:
        level = level_of_omega(jnp.expm1(log_charge))
        charged = _charged_at(level, ground, order)
        norm = log_norm(charged.logs, order, prior, axis_name)
        change = (1 / (1 + charged.omegas) - 1 / (1 + charged.largest)) / (order - 1)
        slope = _mean(order * charged.logs, change, prior, axis_name) - _mean(
            charged.logs, change, prior, axis_name
        )
        growth = jnp.exp(log_charge) * (1 + 1 / jnp.expm1(log_charge))
        value = jnp.log(limit) - jnp.log(norm)
        return value, newton(log_charge, value, -slope / norm * growth)

    most = named_axis.largest(ground, prior > 0, axis_name)
    mean = named_axis.total(prior * ground, axis_name)
    variance = named_axis.total(prior * (ground - mean) ** 2, axis_name)
    free = jnp.log(limit) - jnp.log(log_norm(ground / (1 - order), order, prior, axis_name))
    high = jnp.where(free >= 0, 0.0, jnp.log1p((1 + most) * _FARTHEST))
    start = jnp.log1p(mean + jnp.sqrt(variance / (2 * (order - 1) * limit)))
    return bracketed_root(
        excess, jnp.zeros_like(high), high, jnp.minimum(start, high), tolerance=_TOLERANCE
    )


def _mean(logs: Array, values: Array, prior: Array, axis_name: AxisName) -> Array:
    """The mean [] of values [m] under the distribution proportional to p_i exp(logs_i)."""
    weights = prior * jnp.exp(logs)
    total = named_axis.total(weights, axis_name)
    return named_axis.total(jnp.where(weights > 0, weights * values, 0.0), axis_name) / total


def _at_charge(log_charge: Array, problem: CurveProblem) -> CurvePoint:
    relaxation, _, _, prior, axis_name = problem
    ground = _ground(problem)
    is_charged = log_charge > 0
    level = level_of_omega(jnp.where(is_charged, jnp.expm1(log_charge), 1.0))
    softmax = ground / (1 - relaxation.order)
    logs = jnp.where(is_charged, _charged_at(level, ground, relaxation.order).logs, softmax)

    def excess() -> Array:
        """log log of the largest norm minus log log of the norm of the densities, []."""
        limit = jnp.maximum(relaxation.log_limit(prior, axis_name), jnp.finfo(prior.dtype).tiny)
        norm = log_norm(logs, relaxation.order, _shares(prior, axis_name), axis_name)
        # the softmax of equal margins has the norm 0, and the square of its reciprocal is inf
        value = jnp.log(limit) - jnp.log(jnp.where(is_charged, norm, 1.0))
        return jnp.where(is_charged, value, 0.0)

    return CurvePoint(prior * jnp.exp(logs), excess)


SMOOTHED_BALL = Curve(lambda problem: _wide(_find_charge, problem), _at_charge)


# --- smoothed, with a penalty ---------------------------------------------------------------------


def _log_target(problem: CurveProblem) -> Array:
    """The log of the norm of order s that the omegas have at the solution."""
    relaxation, margins, strength, prior, axis_name = problem
    ratio = jnp.log(number(relaxation.scale, margins)) - jnp.log(strength)
    target = ratio + math.log(relaxation.order - 1) - relaxation.log_size(prior, axis_name)
    return jnp.minimum(target, _LARGEST)


def _log_norm_of_omegas(
    charged: _ChargedPower, level: Array, order: float, prior: Array, axis_name: AxisName
) -> Array:
    """(1 / s) log sum_i p_i omega_i^s, []; omega^(1 / (q - 1)) is a density, and s (q - 1) = q."""
    is_small = charged.largest < 1
    largest = jnp.where(
        is_small,
        level - charged.largest,
        jnp.log(jnp.where(is_small, 1.0, charged.largest)),
    )
    return largest + log_mean(order * charged.logs, prior, axis_name) * (1 - 1 / order)


def _find_charged_level(problem: CurveProblem) -> Array:
    relaxation, _, _, prior, axis_name = problem
    order, ground, target = relaxation.order, _ground(problem), _log_target(problem)

    def excess(level: Array) -> tuple[Array, Array]:
        charged = _charged_at(level, ground, order)
        log = _log_norm_of_omegas(charged, level, order, prior, axis_name)
        size = jnp.exp(log)
        value = (log - target) + (size - jnp.exp(target))
        damped = _mean(order * charged.logs, 1 / (1 + charged.omegas), prior, axis_name)
        return value, newton(level, value, (1 + size) * damped)

    safe = jnp.where(prior > 0, prior, 1.0)
    by_one = target - jnp.log(safe) * (1 - 1 / order)
    low = target + jnp.exp(target)
    high = named_axis.least(ground + by_one + jnp.exp(by_one), prior > 0, axis_name)
    slack = 8 * bounds.UNIT * (1 + jnp.abs(low) + jnp.abs(high))
    return bracketed_root(excess, low - slack, high + slack, low, tolerance=_TOLERANCE)


def _at_charged_level(level: Array, problem: CurveProblem) -> CurvePoint:
    relaxation, _, _, prior, axis_name = problem
    order = relaxation.order
    charged = _charged_at(level, _ground(problem), order)

    def excess() -> Array:
        shares = _shares(prior, axis_name)
        log = _log_norm_of_omegas(charged, level, order, shares, axis_name)
        target = _log_target(problem)
        return (log - target) + (jnp.exp(log) - jnp.exp(target))

    return CurvePoint(prior * jnp.exp(charged.logs), excess)


SMOOTHED_PENALTY = Curve(lambda problem: _wide(_find_charged_level, problem), _at_charged_level)


# --- exact ----------------------------------------------------------------------------------------


def logs_below(reach: Array, above: Array, order: float) -> Array:
    """Logarithms [m] of densities proportional to [reach - above_i]_+^(1 / (q - 1)), the largest 0;
    those of the least margins alone for a reach of 0.
    """
    is_active = (above < reach) | (above == 0)
    is_apart = is_active & (reach > 0)
    share = jnp.where(is_apart, above / jnp.where(is_apart, reach, 1.0), 0.0)
    return jnp.where(is_active, jnp.log1p(-share) / (order - 1), -jnp.inf)


def ball_reach(
    limit: Array, above: Array, order: float, prior: Array, axis_name: AxisName = None
) -> Array:
    """The threshold, measured from the least margin, [], at which the densities of `logs_below`
    have the norm exp(limit); 0 if those of the least margins alone have a smaller one. In 64 bits.

    It is at most 2^24 times the largest entry of `above`, where densities are equal up to rounding.
    """
    limit = jnp.maximum(limit, jnp.finfo(above.dtype).tiny)

    def excess(log_reach: Array) -> tuple[Array, Array]:
        reach = jnp.exp(log_reach)
        logs = logs_below(reach, above, order)
        norm = log_norm(logs, order, prior, axis_name)
        gap = jnp.maximum(reach - above, jnp.finfo(above.dtype).eps * reach)
        change = jnp.where(above < reach, above / gap, 0.0) / (order - 1)
        slope = _mean(order * logs, change, prior, axis_name) - _mean(
            logs, change, prior, axis_name
        )
        value = jnp.log(limit) - jnp.log(norm)
        return value, newton(log_reach, value, -slope / norm)

    most = named_axis.largest(above, prior > 0, axis_name)
    least = named_axis.least(above, (prior > 0) & (above > 0), axis_name)
    on_least = named_axis.total(jnp.where(above == 0, prior, 0.0), axis_name)
    is_corner = (-jnp.log(on_least) * (1 - 1 / order) <= limit) | (most <= 0)
    low, high = (
        jnp.log(jnp.where(is_corner, 1.0, least)),
        jnp.log(jnp.where(is_corner, 1.0, most * _FARTHEST)),
    )
    mean = named_axis.total(prior * above, axis_name)
    variance = named_axis.total(prior * (above - mean) ** 2, axis_name)
    start = jnp.log(mean + jnp.sqrt(variance / (2 * (order - 1) * limit)))
    start = jnp.clip(jnp.where(is_corner, 0.0, start), low, high)
    found = bracketed_root(excess, low, high, start, tolerance=_TOLERANCE)
    return jnp.where(is_corner, 0.0, jnp.exp(found))


def _find_reach(problem: CurveProblem) -> Array:
    relaxation, margins, _, prior, axis_name = problem
    _, above = relative(margins, prior, axis_name)
    limit = relaxation.log_limit(prior, axis_name)
    return ball_reach(limit, above, relaxation.order, prior, axis_name)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def in_ball(relaxation: Any, margins: Array, prior: Array, axis_name: AxisName) -> InBall:
    """The exact minimiser. For large orders a margin near the threshold has a weight that changes
    much within the rounding of the threshold. Two points next to it are mixed, so that their mean
    has the norm that is allowed.
    """
    order, eps = relaxation.order, jnp.finfo(margins.dtype).eps
    problem = CurveProblem(relaxation, margins, jnp.zeros((), margins.dtype), prior, axis_name)
    reach = _wide(_find_reach, problem)
    limit, above, shares = _ball(relaxation, margins, prior, axis_name)

    def at(reach: Array) -> tuple[Array, Array]:
        logs = logs_below(reach, above, order)
        mean = log_mean(logs, shares, axis_name)
        return jnp.exp(logs - mean), log_norm(logs, order, shares, axis_name)

    (steep, most), (flat, less) = at(reach * (1 - 2 * eps)), at(reach * (1 + 2 * eps))
    excess_of_steep = jnp.expm1(jnp.minimum(most - limit, 1.0))
    share = numerics.safe_divide(excess_of_steep, excess_of_steep - jnp.expm1(less - limit))
    return InBall(steep + jnp.clip(share, 0.0, 1.0) * (flat - steep), reach)


@in_ball.defjvp
def _moved_in_ball(
    axis_name: AxisName, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[InBall, InBall]:
    point = in_ball(*primals, axis_name)

    def ball_of(relaxation: Any, margins: Array, prior: Array) -> Ball:
        return _ball(relaxation, margins, prior, axis_name)

    ball, moves = jax.jvp(ball_of, primals, tangents)
    moved = ball_derivatives.tangent(point, ball, moves, primals[0].order, axis_name)
    return point, moved


def _ball(relaxation: Any, margins: Array, prior: Array, axis_name: AxisName) -> Ball:
    _, above = relative(margins, prior, axis_name)
    limit = relaxation.log_limit(prior, axis_name)
    limit = jnp.maximum(limit, jnp.finfo(margins.dtype).tiny)
    return Ball(limit, above, _shares(prior, axis_name))


def penalty_reach(
    log_unit: Array, above: Array, order: float, prior: Array, axis_name: AxisName = None
) -> Array:
    """The threshold, measured from the least margin, [], at which the norm of order s of the
    shortfalls is exp(log_unit). In 64 bits.
    """

    def excess(log_reach: Array) -> tuple[Array, Array]:
        reach = jnp.exp(log_reach)
        logs = logs_below(reach, above, order)
        value = _log_norm_of_shortfalls(log_reach, logs, order, prior, axis_name) - log_unit
        gap = jnp.maximum(reach - above, jnp.finfo(above.dtype).tiny)
        steep = _mean(order * logs, jnp.where(above < reach, reach / gap, 1.0), prior, axis_name)
        return value, newton(log_reach, value, steep)

    safe = jnp.where(prior > 0, prior, 1.0)
    by_one = jnp.exp(log_unit - jnp.log(safe) * (1 - 1 / order))
    by_one = jnp.maximum(by_one, jnp.finfo(above.dtype).tiny)
    high = jnp.log(named_axis.least(above + by_one, prior > 0, axis_name))
    slack = 8 * bounds.UNIT * (1 + jnp.abs(log_unit) + jnp.abs(high))
    found = bracketed_root(excess, log_unit - slack, high + slack, high, tolerance=_TOLERANCE)
    return jnp.exp(found)


def _log_norm_of_shortfalls(
    log_reach: Array, logs: Array, order: float, prior: Array, axis_name: AxisName
) -> Array:
    """log of the norm of order s of [reach - above_i]_+, []."""
    return log_reach + log_mean(order * logs, prior, axis_name) * (1 - 1 / order)


def log_unit_of(relaxation: Any, margins: Array, prior: Array, axis_name: AxisName) -> Array:
    """The log of the norm of order s, under the prior, that shortfalls may have, []."""
    return jnp.log(number(relaxation.scale, margins)) - relaxation.log_size(prior, axis_name)


def _find_penalty_reach(problem: CurveProblem) -> Array:
    relaxation, margins, _, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    unit = log_unit_of(relaxation, margins, prior, axis_name)
    return penalty_reach(unit, above, relaxation.order, prior, axis_name)


def _at_penalty_reach(reach: Array, problem: CurveProblem) -> CurvePoint:
    relaxation, margins, _, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    reach = jnp.maximum(reach, jnp.finfo(margins.dtype).tiny)
    logs = logs_below(reach, above, relaxation.order)

    def excess() -> Array:
        shares = _shares(prior, axis_name)
        norm = _log_norm_of_shortfalls(jnp.log(reach), logs, relaxation.order, shares, axis_name)
        return norm - log_unit_of(relaxation, margins, prior, axis_name)

    return CurvePoint(prior * jnp.exp(logs), excess)


EXACT_PENALTY = Curve(lambda problem: _wide(_find_penalty_reach, problem), _at_penalty_reach)
