"""Smoothed minimisers for quadratic f. They lie on a curve that the Wright omega function defines.

Let kappa be the multiplier of the squared densities x_i = d_i / p_i. The optimality conditions are
kappa x_i + log x_i = c - margin_i / strength for a constant c. For omega_i = kappa x_i this is
omega_i + log omega_i = level - margin_i / strength, with level = c + log kappa. The Wright omega
function solves it, and d is proportional to p_i omega(level - margin_i / strength). For a ball, the
level is the number at which the norm is the radius. For the norm as a penalty, it is where
m kappa |d|_2 = scale / strength. For a known kappa, it is where the densities have mean 1. As the
level decreases, omega approaches exp, and d approaches the softmax.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import named_axis
from jboost.base.named_axis import AxisName
from jboost.base.roots import bracketed_root, newton
from jboost.base.types import Array
from jboost.relaxations.curves import Curve, CurvePoint, CurveProblem
from jboost.relaxations.types import (
    lifted,
    num_examples,
    number,
)


class _ChargedQuadratic(NamedTuple):
    """One point of the curve."""

    weights: Array  # [m] omega(level - margin_i / strength) over a unit that keeps them in range
    omega: Array  # [m] omega(level - margin_i / strength), 0 where that underflows
    log_unit: Array  # [] the logarithm of the unit


def _charged(omega: Array, above: Array) -> _ChargedQuadratic:
    """The point at which the largest weight, that of the least margin, is omega [] >= 0."""
    return _charged_at(level_of_omega(omega), above)


def _charged_at(level: Array, above: Array) -> _ChargedQuadratic:
    omegas = wright_omega(level - above)
    is_small = level < 0
    unit = jnp.maximum(level, 1.0)
    return _ChargedQuadratic(
        jnp.where(is_small, jnp.exp(-above - omegas), omegas / unit),
        omegas,
        jnp.where(is_small, level, jnp.log(unit)),
    )


def level_of_omega(omega: Array) -> Array:
    """The level [] at which the Wright omega function has the value `omega`."""
    return omega + jnp.log(jnp.maximum(omega, jnp.finfo(omega.dtype).tiny))


@jax.custom_jvp
def wright_omega(t: Array) -> Array:
    """The solution of omega + log omega = t, by two steps of the fourth-order iteration of Fritsch,
    Shafer and Crowley (1973).
    """
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


@wright_omega.defjvp
def _derivative_of_omega(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    omega = wright_omega(*primals)
    return omega, tangents[0] * omega / (1 + omega)


def _spread(charged: _ChargedQuadratic, prior: Array, axis_name: AxisName) -> tuple[Array, Array]:
    """The densities minus 1 [m], and their variance [], at least the least normal float."""
    total = named_axis.total(prior * charged.weights, axis_name)
    spread = jnp.where(prior > 0, charged.weights / total - 1, 0.0)
    variance = named_axis.total(prior * spread * spread, axis_name)
    return spread, jnp.maximum(variance, jnp.finfo(prior.dtype).tiny)


def _find_charge(problem: CurveProblem) -> Array:
    """log(1 + omega(level)) at the solution; 0 if the softmax is in the ball."""
    relaxation, margins, strength, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    above = above / strength
    eps = jnp.finfo(margins.dtype).eps
    target = jnp.maximum(relaxation.variance(prior, axis_name), eps * eps)

    def excess(log_charge: Array) -> tuple[Array, Array]:
        """log of the target minus log of the variance, and the next Newton point."""
        charged = _charged(jnp.expm1(log_charge), above)
        spread, variance = _spread(charged, prior, axis_name)
        damping = 1 / (1 + charged.omega)
        moment = prior * spread * (spread + 1)
        moments = named_axis.total(moment, axis_name)
        dampings = named_axis.total(prior * (spread + 1) * damping, axis_name)
        slope = 2 * (named_axis.total(moment * damping, axis_name) - moments * dampings)
        growth = jnp.exp(log_charge) * (1 + 1 / jnp.expm1(log_charge))  # of the level
        value = jnp.log(target) - jnp.log(variance)
        return value, newton(log_charge, value, -slope / variance * growth)

    mean = named_axis.total(prior * above, axis_name)
    deviation = jnp.sqrt(named_axis.total(prior * (above - mean) ** 2, axis_name))
    enough = jnp.log1p(jnp.maximum(mean + level_of_omega(deviation / jnp.sqrt(target)), 1.0))
    free, _ = excess(jnp.zeros_like(mean))
    high = jnp.where(free >= 0, 0.0, enough)
    return bracketed_root(excess, jnp.zeros_like(high), high, high, tolerance=16 * eps)


def _at_charge(log_charge: Array, problem: CurveProblem) -> CurvePoint:
    relaxation, margins, strength, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    above = above / strength
    is_charged = log_charge > 0
    charged = _charged(jnp.where(is_charged, jnp.expm1(log_charge), 1.0), above)

    def excess() -> Array:
        eps = jnp.finfo(margins.dtype).eps
        target = jnp.maximum(relaxation.variance(prior, axis_name), eps * eps)
        _, variance = _spread(charged, prior, axis_name)
        # the softmax of equal margins has no variance, and the square of its reciprocal is inf
        variance = jnp.where(is_charged, variance, 1.0)
        return jnp.where(is_charged, jnp.log(target) - jnp.log(variance), 0.0)

    return CurvePoint(prior * jnp.where(is_charged, charged.weights, jnp.exp(-above)), excess)


BALL = Curve(_find_charge, _at_charge)


def _target_norm(problem: CurveProblem) -> Array:
    relaxation, margins, strength, prior, axis_name = problem
    target = number(relaxation.scale, margins) / strength / jnp.sqrt(num_examples(prior, axis_name))
    largest = jnp.sqrt(jnp.finfo(margins.dtype).max) / 16  # from there on the weights are the prior
    return jnp.minimum(target, largest)


def _excess_of_norm(
    charged: _ChargedQuadratic, target: Array, prior: Array, axis_name: AxisName
) -> tuple[Array, Array]:
    """The level at which equal margins would have this norm minus the one for the target, and its
    derivative.
    """
    square = named_axis.total(prior * charged.weights**2, axis_name)
    damped = prior * charged.weights**2 / (1 + charged.omega)
    slope = named_axis.total(damped, axis_name) / square
    log_norm = charged.log_unit + 0.5 * jnp.log(square)
    norm = jnp.exp(log_norm)
    return (log_norm - jnp.log(target)) + (norm - target), (1 + norm) * slope


def _find_charged_level(problem: CurveProblem) -> Array:
    _, margins, strength, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    above = above / strength
    target = _target_norm(problem)

    def excess(level: Array) -> tuple[Array, Array]:
        charged = _charged_at(level, above)
        value, slope = _excess_of_norm(charged, target, prior, axis_name)
        return value, newton(level, value, slope)

    low = level_of_omega(target)
    by_one = jnp.where(prior > 0, target / jnp.sqrt(jnp.where(prior > 0, prior, 1.0)), 1.0)
    high = named_axis.least(above + level_of_omega(by_one), prior > 0, axis_name)
    high = jnp.minimum(high, low + named_axis.total(prior * above, axis_name))
    eps = jnp.finfo(margins.dtype).eps
    slack = 8 * eps * (1 + jnp.abs(low) + jnp.abs(high))
    return bracketed_root(excess, low - slack, high + slack, high, tolerance=4 * eps)


def _at_charged_level(level: Array, problem: CurveProblem) -> CurvePoint:
    _, margins, strength, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    charged = _charged_at(level, above / strength)

    def excess() -> Array:
        target = _target_norm(problem)
        return _excess_of_norm(charged, target, prior, axis_name)[0]

    return CurvePoint(prior * charged.weights, excess)


PENALTY = Curve(_find_charged_level, _at_charged_level)


def _find_density_level(problem: CurveProblem) -> Array:
    """The level at which omega(level - margin_i / strength) / kappa has mean 1 under the prior, for
    a known multiplier kappa.
    """
    relaxation, margins, strength, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    above = above / strength
    charge = relaxation.density_charge(strength)

    def excess(level: Array) -> tuple[Array, Array]:
        value, slope = _excess_of_mean(_charged_at(level, above), charge, prior, axis_name)
        return value, newton(level, value, slope)

    low = level_of_omega(charge)
    high = low + named_axis.largest(above, prior > 0, axis_name)
    eps = jnp.finfo(margins.dtype).eps
    slack = 8 * eps * (1 + jnp.abs(low) + jnp.abs(high))
    return bracketed_root(excess, low - slack, high + slack, low, tolerance=4 * eps)


def _excess_of_mean(
    charged: _ChargedQuadratic, charge: Array, prior: Array, axis_name: AxisName
) -> tuple[Array, Array]:
    total = named_axis.total(prior * charged.weights, axis_name)
    slope = named_axis.total(prior * charged.weights / (1 + charged.omega), axis_name) / total
    return jnp.log(total) + charged.log_unit - jnp.log(charge), slope


def _at_density_level(level: Array, problem: CurveProblem) -> CurvePoint:
    relaxation, margins, strength, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    charged = _charged_at(level, above / strength)

    def excess() -> Array:
        charge = relaxation.density_charge(strength)
        return _excess_of_mean(charged, charge, prior, axis_name)[0]

    return CurvePoint(prior * charged.weights, excess)


DENSITIES = Curve(_find_density_level, _at_density_level)
