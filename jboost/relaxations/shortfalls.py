"""Exact (not smoothed) minimisers for quadratic f, proportional to p_i [threshold - margin_i]_+.

For the Euclidean ball and penalty, and for the chi-square penalty, the threshold is the number
above the least margin at which the weights have the norm or the sum that f requires.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.roots import bracketed_root
from jboost.base.types import Array
from jboost.relaxations.curves import Curve, CurvePoint, CurveProblem
from jboost.relaxations.types import (
    lifted,
    num_examples,
    number,
    relative,
)
from jboost.relaxations.water import water_level


class ShortfallSums(NamedTuple):
    """Statistics of the margins below a threshold, which always include the least one."""

    share: Array  # [] of the prior
    rest: Array  # [] the share of all other margins
    mean: Array  # []
    squares: Array  # [] the sum of squared deviations from the mean


def active_below(
    reach: Array, above: Array, prior: Array, axis_name: AxisName = None
) -> ShortfallSums:
    """The active margins of a threshold, which lies `reach` above the least margin."""
    is_active = (above < reach) | (above == 0)
    active = jnp.where(is_active, prior, 0.0)
    share = named_axis.total(active, axis_name)
    rest = named_axis.total(jnp.where(is_active, 0.0, prior), axis_name)
    mean = named_axis.total(active * above, axis_name) / share
    squares = named_axis.total(active * (above - mean) ** 2, axis_name)
    return ShortfallSums(share, rest, mean, squares)


def best_reach(variance: Array, above: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """The threshold, measured from the least margin, [], at which densities proportional to
    [threshold - margin_i]_+ have the given variance.

    It is 0 if densities on the least margins alone have at most this variance. Shares are not
    subtracted from 1, so that the variance may be far smaller than the rounding of 1.
    """
    limits = jnp.finfo(above.dtype)
    target = jnp.maximum(variance, limits.tiny / limits.eps)

    def excess(reach: Array) -> tuple[Array, Array]:
        active = active_below(reach, above, prior, axis_name)
        height = jnp.maximum(reach - active.mean, 0.0)
        value = _excess_of_variance(target, reach, active)
        spare = target * active.share - active.rest
        square = active.squares / (active.share * jnp.where(spare > 0, spare, 1.0))
        proposal = jnp.where(spare > 0, active.mean + jnp.sqrt(square), jnp.nan)
        return jnp.where(height > 0, value, -1.0), proposal

    everything = active_below(jnp.asarray(jnp.inf, above.dtype), above, prior, axis_name)
    high = (everything.mean + jnp.sqrt(everything.squares / target)) * (1 + 8 * limits.eps)
    least = active_below(jnp.zeros_like(high), above, prior, axis_name)
    high = jnp.where(target * least.share >= least.rest, 0.0, high)
    tolerance = 4 * limits.eps * jnp.minimum(target, 1.0)
    return bracketed_root(excess, jnp.zeros_like(high), high, high, tolerance=tolerance, floor=0.0)


def _excess_of_variance(variance: Array, reach: Array, active: ShortfallSums) -> Array:
    """The excess of `variance` over the variance of the densities in the active set, []."""
    height = reach - active.mean
    relative_squares = numerics.safe_divide(active.squares, active.share * height * height)
    return variance * active.share - active.rest - relative_squares


def _find_reach(problem: CurveProblem) -> Array:
    relaxation, margins, _, prior, axis_name = problem
    _, above = relative(margins, prior, axis_name)
    return best_reach(relaxation.variance(prior, axis_name), above, prior, axis_name)


def _at_reach(reach: Array, problem: CurveProblem) -> CurvePoint:
    """The point of the curve. If all examples are active, the weights are linear in the margins and
    need no search.
    """
    relaxation, margins, _, prior, axis_name = problem
    _, above = relative(margins, prior, axis_name)
    variance = jnp.maximum(relaxation.variance(prior, axis_name), 0.0)
    linear = prior * _standardised(numerics.root(variance), above, prior, axis_name)
    is_linear = named_axis.least(linear, prior > 0, axis_name) >= 0
    gaps = jnp.maximum(reach - above, 0.0)
    is_apart = reach > 0
    curved = prior * jnp.where(is_apart, gaps, jnp.where(above == 0, 1.0, 0.0))

    def excess() -> Array:
        value = _excess_of_variance(variance, reach, active_below(reach, above, prior, axis_name))
        return jnp.where(is_linear | ~is_apart, jnp.zeros_like(reach), value)

    return CurvePoint(jnp.where(is_linear, linear, curved), excess)


def _standardised(deviation: Array, above: Array, prior: Array, axis_name: AxisName) -> Array:
    """Densities [m] of mean 1 and the given standard deviation [], linear and decreasing in the
    margins.
    """
    total = named_axis.total(prior, axis_name)
    apart = above - named_axis.total(prior * above, axis_name) / total
    spread = numerics.root(named_axis.total(prior * apart * apart, axis_name) / total)
    return jnp.where(prior > 0, 1 - deviation * numerics.safe_divide(apart, spread), 0.0)


BALL = Curve(_find_reach, _at_reach)


def penalised_reach(scale: Array, above: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """The threshold, measured from the least margin, [], at which the norm of the shortfalls is the
    scale.
    """
    unit = scale / jnp.sqrt(num_examples(prior, axis_name))

    def excess(reach: Array) -> tuple[Array, Array]:
        active = active_below(reach, above, prior, axis_name)
        height, spread = jnp.maximum(reach - active.mean, 0.0), jnp.sqrt(active.squares)
        value = jnp.hypot(spread, jnp.sqrt(active.share) * height) / unit - 1
        inside = jnp.sqrt(jnp.maximum(unit - spread, 0.0)) * jnp.sqrt(
            (unit + spread) / active.share
        )
        return value, active.mean + inside

    by_one = above + unit / jnp.sqrt(jnp.where(prior > 0, prior, 1.0))
    high = named_axis.least(by_one, prior > 0, axis_name)
    eps = jnp.finfo(above.dtype).eps
    low, top = unit * (1 - 8 * eps), high * (1 + 8 * eps)
    return bracketed_root(excess, low, top, high, tolerance=4 * eps, floor=0.0)


def _find_penalised_reach(problem: CurveProblem) -> Array:
    relaxation, margins, _, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    return penalised_reach(number(relaxation.scale, margins), above, prior, axis_name)


def _at_penalised_reach(reach: Array, problem: CurveProblem) -> CurvePoint:
    relaxation, margins, _, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    unit = number(relaxation.scale, margins) / jnp.sqrt(num_examples(prior, axis_name))
    gaps = jnp.where((above < reach) | (above == 0), (reach - above) / unit, 0.0)

    def excess() -> Array:
        square = named_axis.total(prior * gaps * gaps, axis_name)
        return unit * (numerics.root(square) - 1)

    return CurvePoint(prior * gaps, excess)


PENALTY = Curve(_find_penalised_reach, _at_penalised_reach)


def reach_of_sum(total: Array, above: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """The threshold, measured from the least margin, [], at which p_i [threshold - margin_i]_+ sum
    to `total`.
    """
    return water_level(total * num_examples(prior, axis_name), above, prior, axis_name)


def _find_threshold(problem: CurveProblem) -> Array:
    relaxation, margins, _, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    return reach_of_sum(2 * number(relaxation.scale, margins), above, prior, axis_name)


def _at_threshold(threshold: Array, problem: CurveProblem) -> CurvePoint:
    relaxation, margins, _, prior, axis_name = problem
    _, above = lifted(margins, prior, axis_name)
    gaps = jnp.maximum(threshold - above, 0.0)
    volume = 2 * number(relaxation.scale, margins)
    return CurvePoint(prior * gaps, lambda: named_axis.total(prior * gaps, axis_name) - volume)


CHI_SQUARE_PENALTY = Curve(_find_threshold, _at_threshold)
