"""From a separation of the points to a plane that can be written down."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jboost.base import numerics
from jboost.base.types import Array
from jboost.geometry import exact
from jboost.pair.space import hulls
from jboost.pair.space.problem import Problem
from jboost.pair.space.visits import Incumbent
from jboost.pair.sweep.line import Line, choose
from jboost.pair.types import Fat

# a direction is rounded at so many lengths, and the rounding that leaves the widest gap is taken
_NUM_LENGTHS = 32


def draw_plane(
    problem: Problem,
    best: Incumbent,
    own_is_positive: Array,
    fat: Fat,
    unit: Array,
    result_dtype: jnp.dtype,
) -> Line:
    """The bisector of the two sides, in the units of the data, along the direction of the result's
    float type that leaves the widest gap.
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
    """The plane half way between the lowest point above and the highest point below; its anchor is
    the former, rounded.
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
    """How far points [n, 3] lie along a normal from an origin, times the length of the
    normal, [n].
    """

    def along(i: int) -> exact.Wide:
        return exact.wide_scale(normal[i], exact.wide_difference(points[:, i], origin[i]))

    return exact.wide_add(exact.wide_add(along(0), along(1)), along(2))


def misclassified(problem: Problem, positive: Array, plane: Line, unit: Array) -> Array:
    """The points that do not lie strictly on their side of a plane in the units of the data,
    evaluated as float64 arithmetic does, [n] bool.
    """
    # in metric coordinates no difference overflows
    anchor, bias = plane.anchor / unit, plane.bias / unit
    score = hulls.dot(plane.normal[None], problem.metric - anchor[None]) + bias
    return problem.live & ~jnp.where(positive, score > 0, score < 0)


def best_constant(problem: Problem, positive: Array, weights: Array) -> Line:
    """The constant classifier that loses less of integer weights [n]."""
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


def spread(problem: Problem) -> Array:
    """How many times as far the coordinate that extends farthest does so than the one that does
    least, of those that do at all, [].
    """
    live = problem.live[:, None]
    extents = jnp.max(jnp.where(live, problem.metric, -jnp.inf), axis=0) - jnp.min(
        jnp.where(live, problem.metric, jnp.inf), axis=0
    )
    least = jnp.min(jnp.where(extents > 0, extents, jnp.inf))
    return jnp.where(
        least < jnp.inf, jnp.max(extents) / jnp.where(least < jnp.inf, least, 1.0), 1.0
    )
