"""Converts a separation of the points to a plane in the float type of the result."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jboost.base import numerics
from jboost.base.types import Array
from jboost.geometry import exact
from jboost.pair.space import hulls
from jboost.pair.space.problem import PlaneProblem
from jboost.pair.sweep.line import Line, choose
from jboost.pair.sweep.visits import Incumbent
from jboost.pair.types import Fat

# The normal is scaled to this many lengths before it is rounded. The rounded direction with the
# widest gap is taken.
_NUM_LENGTHS = 32


def draw_plane(
    problem: PlaneProblem,
    best: Incumbent,
    own_is_positive: Array,
    fat: Fat,
    unit: Array,
    result_dtype: jnp.dtype,
) -> Line:
    """The bisector of the two sides, in the units of the data. Of several roundings of its normal
    to the result's float type, the one with the widest gap is taken.
    """
    real = problem.metric.dtype
    on_positive_side = best.on_own_side == own_is_positive
    kept = problem.live & (best.on_own_side == problem.own)
    counted = problem.live if fat == "flipped" else kept
    above, below = counted & on_positive_side, counted & ~on_positive_side
    normal = jnp.where(own_is_positive, best.normal, -best.normal)
    normal = normal / numerics.power_of_two_at_least(jnp.max(jnp.abs(normal)))
    lengths = 1 + jnp.arange(_NUM_LENGTHS, dtype=real) / _NUM_LENGTHS
    normals = numerics.held_in(lengths[:, None] * normal[None], result_dtype)
    start = jnp.minimum(numerics.first_true(above), above.shape[0] - 1)
    planes = jax.vmap(
        lambda direction: _bisect(problem.metric, direction, above, below, start, result_dtype)
    )(normals)
    return choose(planes, best.is_constant, on_positive_side, unit, result_dtype)


def _bisect(
    points: Array, normal: Array, above: Array, below: Array, start: Array, result_dtype: jnp.dtype
) -> Line:
    """The plane half way between the lowest point above and the highest point below. Its anchor is
    the lowest point above, rounded.
    """
    height = _height(normal, points, points[start])
    height = exact.wide_where(above, height, exact.wide_negative(height))
    (place, lowest), (_, highest) = exact.wide_leasts(height, above, below)
    half_gap = exact.wide_add(lowest, highest).hi / 2
    support = points[jnp.minimum(place, above.shape[0] - 1)]
    anchor = numerics.held_in(support, result_dtype)
    shift = _height(normal, anchor[None], support).hi[0]
    bias = numerics.held_in(half_gap + shift, result_dtype)
    return Line(
        normal, anchor, bias, numerics.safe_divide(half_gap, jnp.sqrt(hulls.dot(normal, normal)))
    )


def _height(normal: Array, points: Array, origin: Array) -> exact.Wide:
    """The heights [n] of points [n, 3] above an origin along a normal, times the length of the
    normal.
    """

    def along(i: int) -> exact.Wide:
        return exact.wide_scale(normal[i], exact.wide_difference(points[:, i], origin[i]))

    return exact.wide_add(exact.wide_add(along(0), along(1)), along(2))


def misclassified(problem: PlaneProblem, positive: Array, plane: Line, unit: Array) -> Array:
    """The points that are not strictly on their side of a plane in the units of the data, [n] bool,
    by the score as float64 arithmetic computes it.
    """
    # computed in metric coordinates, whose differences do not overflow
    anchor, bias = plane.anchor / unit, plane.bias / unit
    score = hulls.dot(plane.normal[None], problem.metric - anchor[None]) + bias
    return problem.live & ~jnp.where(positive, score > 0, score < 0)


def best_constant(problem: PlaneProblem, positive: Array, weights: Array) -> Line:
    """The constant classifier with the smaller loss, for integer weights [n]."""
    in_favour = numerics.masked_sum(weights, problem.live & positive) > numerics.masked_sum(
        weights, problem.live & ~positive
    )
    zeros = jnp.zeros((3,), problem.metric.dtype)
    return Line(
        zeros,
        zeros,
        jnp.where(in_favour, 1.0, -1.0).astype(zeros.dtype),
        jnp.full((), jnp.inf, zeros.dtype),
    )


def spread(problem: PlaneProblem) -> Array:
    """The ratio [] of the largest to the smallest nonzero extent of a coordinate."""
    live = problem.live[:, None]
    extents = jnp.max(jnp.where(live, problem.metric, -jnp.inf), axis=0) - jnp.min(
        jnp.where(live, problem.metric, jnp.inf), axis=0
    )
    least = jnp.min(jnp.where(extents > 0, extents, jnp.inf))
    return jnp.where(
        least < jnp.inf, jnp.max(extents) / jnp.where(least < jnp.inf, least, 1.0), 1.0
    )
