"""The shortest distance between the convex hulls of two finite sets in the plane.

The Minkowski difference of the two sets is searched for its point nearest to the origin by support points only (E. G.
Gilbert, D. W. Johnson, S. S. Keerthi 1988). No hull is ever built: a step costs one masked pass over the points, and a
handful of steps are enough. Directions are differences of points or perpendicular to one, so on an integer grid every
test is decided without rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import loops, numerics
from jboost.base.types import Array
from jboost.geometry import exact
from jboost.geometry.exact import Wide


class HullDistance(NamedTuple):
    """How far apart two hulls are, and along which direction."""

    normal_x: Array  # [] points from the second hull to the first; of any length
    normal_y: Array  # []
    distance: Array  # []


class _Simplex(NamedTuple):
    """One or two points of the Minkowski difference, by the places of their two ends, and whether they can still move."""

    first: Array  # [2] int32, places in the first set
    second: Array  # [2] int32, places in the second set
    moving: Array  # [] bool


_MAX_STEPS = 256
_RELATIVE_PROGRESS = {4: 2.0**-46, 8: 2.0**-98}


def hull_distance(x: Array, y: Array, in_first: Array, in_second: Array, *, start: tuple[Array, Array], floor: Array) -> HullDistance:
    """Distance between the hulls of two disjoint sets of points.

    Args:
      x: [n] float32 or float64.
      y: [n].
      in_first: [n] bool, the first set, not empty.
      in_second: [n] bool, the second set, not empty.
      start: places of a point of the first set and of one of the second.
      floor: [], the search may end as soon as the distance is known not to exceed this; negative to go to the end.

    Returns:
      The distance and its direction; an upper bound of at most `floor` if the search ended early. Distance 0 if the hulls
      meet; the direction is then without meaning.
    """

    def step(simplex: _Simplex) -> _Simplex:
        normal_x, normal_y, end = _nearest(x, y, simplex)
        origin = simplex.first[end], simplex.second[end]
        new_first, drop_first = _support(x, y, normal_x, normal_y, in_first, origin[0])
        negative = exact.wide_negative(normal_x), exact.wide_negative(normal_y)
        new_second, drop_second = _support(x, y, *negative, in_second, origin[1])
        gain = -exact.wide_add(drop_first, drop_second).hi
        reach = (jnp.abs(normal_x.hi) + jnp.abs(normal_y.hi)) * (jnp.max(jnp.abs(x)) + jnp.max(jnp.abs(y)))
        improves = gain > reach * _RELATIVE_PROGRESS[x.dtype.itemsize]
        keep = _better_end(x, y, simplex, new_first, new_second, end)
        first = jnp.stack([simplex.first[keep], new_first])
        second = jnp.stack([simplex.second[keep], new_second])
        first, second = jnp.where(improves, first, simplex.first), jnp.where(improves, second, simplex.second)
        simplex = _Simplex(first, second, improves)
        return simplex._replace(moving=improves & (_measure(x, y, simplex).distance > floor))

    places = jnp.stack([start[0], start[0]]), jnp.stack([start[1], start[1]])
    simplex = _Simplex(*places, jnp.any(in_first) & jnp.any(in_second))
    simplex, _ = loops.bounded_loop(step, lambda s: s.moving, simplex, max_checks=_MAX_STEPS)
    return _measure(x, y, simplex)


def _measure(x: Array, y: Array, simplex: _Simplex) -> HullDistance:
    """How far the simplex is from the origin: no less than the two hulls are apart."""
    normal_x, normal_y, end = _nearest(x, y, simplex)
    vertex = _difference(x, y, simplex.first[end], simplex.second[end])
    length = jnp.sqrt(normal_x.hi * normal_x.hi + normal_y.hi * normal_y.hi)
    gap = _dot(normal_x, normal_y, *vertex).hi
    return HullDistance(normal_x.hi, normal_y.hi, numerics.safe_divide(gap, length))


def _difference(x: Array, y: Array, place: Array, other: Array) -> tuple[Wide, Wide]:
    return exact.wide_difference(x[place], x[other]), exact.wide_difference(y[place], y[other])


def _dot(ax: Wide, ay: Wide, bx: Wide, by: Wide) -> Wide:
    return exact.wide_add(exact.wide_multiply(ax, bx), exact.wide_multiply(ay, by))


def _support(x: Array, y: Array, normal_x: Wide, normal_y: Wide, mask: Array, origin: Array) -> tuple[Array, Wide]:
    """The point of `mask` that lies lowest along the normal, and its height over the point `origin`, which is at most 0."""
    height = _dot(normal_x, normal_y, exact.wide_difference(x, x[origin]), exact.wide_difference(y, y[origin]))
    lowest = jnp.minimum(exact.wide_argmin(height, mask), x.shape[0] - 1)
    return lowest, Wide(height.hi[lowest], height.lo[lowest])


def _nearest(x: Array, y: Array, simplex: _Simplex) -> tuple[Wide, Wide, Array]:
    """The direction from the origin to the nearest point of the simplex, and an end at which the normal touches it."""
    ax, ay = _difference(x, y, simplex.first[0], simplex.second[0])
    bx, by = _difference(x, y, simplex.first[1], simplex.second[1])
    edge_x, edge_y = exact.wide_add(bx, exact.wide_negative(ax)), exact.wide_add(by, exact.wide_negative(ay))
    from_a, from_b = _dot(ax, ay, edge_x, edge_y).hi, _dot(bx, by, edge_x, edge_y).hi
    at_a, at_b = from_a >= 0, from_b <= 0
    across = exact.wide_add(exact.wide_multiply(edge_x, ay), exact.wide_negative(exact.wide_multiply(edge_y, ax))).hi
    flip = across < 0
    inner_x = exact.wide_where(flip, edge_y, exact.wide_negative(edge_y))
    inner_y = exact.wide_where(flip, exact.wide_negative(edge_x), edge_x)
    normal_x = exact.wide_where(at_a, ax, exact.wide_where(at_b, bx, inner_x))
    normal_y = exact.wide_where(at_a, ay, exact.wide_where(at_b, by, inner_y))
    return normal_x, normal_y, (~at_a & at_b).astype(jnp.int32)


def _better_end(x: Array, y: Array, simplex: _Simplex, new_first: Array, new_second: Array, end: Array) -> Array:
    """Which end of the simplex, joined to the new point, comes closer to the origin."""

    def distance(which: int) -> Array:
        first, second = jnp.stack([simplex.first[which], new_first]), jnp.stack([simplex.second[which], new_second])
        return _measure(x, y, _Simplex(first, second, simplex.moving)).distance

    ends = distance(0), distance(1)
    return jnp.where(ends[0] < ends[1], 0, jnp.where(ends[1] < ends[0], 1, end)).astype(jnp.int32)
