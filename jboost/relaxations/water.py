"""Water filling: the level at which the shortfalls of the margins below it have a given sum."""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base import named_axis
from jboost.base.named_axis import AxisName
from jboost.base.roots import bracketed_root
from jboost.base.types import Array
from jboost.relaxations.curves import Curve, CurvePoint, CurveProblem
from jboost.relaxations.types import lifted, num_examples, number


def water_level(volume: Array, ground: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """The level at which sum_i m p_i [level - ground_i]_+ is `volume`, by Newton's method from
    above. The least entry of `ground` [m] must be 0.
    """
    target = volume / num_examples(prior, axis_name)

    def excess(level: Array) -> tuple[Array, Array]:
        under = jnp.where((ground < level) | (ground == 0), prior, 0.0)
        area = named_axis.total(under, axis_name)
        proposal = (target + named_axis.total(under * ground, axis_name)) / area
        return (level - proposal) * area / target, proposal

    by_one = named_axis.least(
        ground + target / jnp.where(prior > 0, prior, 1.0), prior > 0, axis_name
    )
    mean = named_axis.total(prior * ground, axis_name)
    high = jnp.minimum(by_one, (target + mean) / named_axis.total(prior, axis_name))
    eps = jnp.finfo(ground.dtype).eps
    return bracketed_root(
        excess, jnp.zeros_like(high), high * (1 + 8 * eps), high, tolerance=4 * eps, floor=0.0
    )


def _find_cut(problem: CurveProblem) -> Array:
    relaxation, margins, strength, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    volume = number(relaxation.scale, margins) / strength
    return water_level(volume, above / strength, prior, axis_name)


def _at_cut(level: Array, problem: CurveProblem) -> CurvePoint:
    relaxation, margins, strength, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    above = above / strength
    volume = number(relaxation.scale, margins) / strength
    weights = prior * jnp.exp(jnp.minimum(level - above, 0.0))
    return CurvePoint(weights, lambda: _water_above(level, volume, above, prior, axis_name))


def _water_above(
    level: Array, volume: Array, ground: Array, prior: Array, axis_name: AxisName
) -> Array:
    """(sum_i m p_i [level - ground_i]_+ - volume) / m, []."""
    filled = named_axis.total(prior * jnp.maximum(level - ground, 0.0), axis_name)
    return filled - volume / num_examples(prior, axis_name)


def _find_water(problem: CurveProblem) -> Array:
    relaxation, margins, _, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    return water_level(number(relaxation.scale, margins), above, prior, axis_name)


def _at_water(level: Array, problem: CurveProblem) -> CurvePoint:
    _, margins, _, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    weights = jnp.where((above < level) | (above == 0), prior, 0.0)
    return CurvePoint(weights, lambda: jnp.zeros_like(level))


CUT_SOFTMAX, BELOW = Curve(_find_cut, _at_cut), Curve(_find_water, _at_water)
