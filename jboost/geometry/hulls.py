"""The shortest distance between the convex hulls of two finite sets in the plane.

The Minkowski difference of the two sets is searched for its point nearest to the origin by support points only (E. G.
Gilbert, D. W. Johnson, S. S. Keerthi 1988). No hull is ever built: a step costs one masked pass over the points, and a
handful of steps are enough. Directions are differences of points or perpendicular to one, so on an integer grid every
test is decided without rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
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


class _Nearest(NamedTuple):
    """Where a simplex comes closest to the origin."""

    normal_x: Wide  # [] from the origin
    normal_y: Wide  # []
    end: Array  # [] int32, one at which the normal touches the simplex
    distance: Array  # [] no less than the two hulls are apart


class _Simplex(NamedTuple):
    """One or two points of the Minkowski difference, by the places of their two ends, and whether they can still move."""

    first: Array  # [2] int32, places in the first set
    second: Array  # [2] int32, places in the second set
    nearest: _Nearest
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
    masks, reach_x, reach_y = jnp.stack([in_first, in_second]), jnp.max(jnp.abs(x)), jnp.max(jnp.abs(y))

    def step(simplex: _Simplex) -> _Simplex:
        normal_x, normal_y, end, _ = simplex.nearest
        origin = jnp.stack([simplex.first[end], simplex.second[end]])
        along_x, along_y = _with_negative(normal_x), _with_negative(normal_y)
        new, drop = jax.vmap(_support, in_axes=(None, None, 0, 0, 0, 0))(x, y, along_x, along_y, masks, origin)
        gain = -exact.wide_add(*(Wide(drop.hi[side], drop.lo[side]) for side in range(2))).hi
        size = jnp.abs(normal_x.hi) * reach_x + jnp.abs(normal_y.hi) * reach_y
        improves = gain > size * _RELATIVE_PROGRESS[x.dtype.itemsize]
        first, second = (jnp.stack([old, jnp.broadcast_to(place, (2,))], axis=1) for old, place in zip(simplex[:2], new, strict=True))
        nearest = jax.vmap(_nearest, in_axes=(None, None, 0, 0))(x, y, first, second)
        closer = jnp.where(nearest.distance[0] < nearest.distance[1], 0, jnp.where(nearest.distance[1] < nearest.distance[0], 1, end))
        changed = jax.tree.map(lambda field: field[closer], _Simplex(first, second, nearest, jnp.stack([improves, improves])))
        simplex = jax.tree.map(lambda now, old: jnp.where(improves, now, old), changed, simplex)
        return simplex._replace(moving=improves & (simplex.nearest.distance > floor))

    corner_x, corner_y = _difference(x, y, *start)
    end = jnp.zeros((), jnp.int32)
    corner = _Nearest(corner_x, corner_y, end, _length(corner_x, corner_y, corner_x, corner_y))
    places = jnp.stack([start[0], start[0]]), jnp.stack([start[1], start[1]])
    simplex = _Simplex(*places, corner, jnp.any(in_first) & jnp.any(in_second))
    simplex, _ = loops.bounded_loop(step, lambda s: s.moving, simplex, max_checks=_MAX_STEPS)
    nearest = simplex.nearest
    return HullDistance(nearest.normal_x.hi, nearest.normal_y.hi, nearest.distance)


def _with_negative(a: Wide) -> Wide:
    return Wide(jnp.stack([a.hi, -a.hi]), jnp.stack([a.lo, -a.lo]))


def _difference(x: Array, y: Array, place: Array, other: Array) -> tuple[Wide, Wide]:
    return exact.wide_difference(x[place], x[other]), exact.wide_difference(y[place], y[other])


def _dot(ax: Wide, ay: Wide, bx: Wide, by: Wide) -> Wide:
    return exact.wide_add(exact.wide_multiply(ax, bx), exact.wide_multiply(ay, by))


def _support(x: Array, y: Array, normal_x: Wide, normal_y: Wide, mask: Array, origin: Array) -> tuple[Array, Wide]:
    """The point of `mask` that lies lowest along the normal, and its height over the point `origin`, which is at most 0."""
    height = _dot(normal_x, normal_y, exact.wide_difference(x, x[origin]), exact.wide_difference(y, y[origin]))
    lowest = jnp.minimum(exact.wide_argmin(height, mask), x.shape[0] - 1)
    return lowest, Wide(height.hi[lowest], height.lo[lowest])


def _length(normal_x: Wide, normal_y: Wide, vertex_x: Wide, vertex_y: Wide) -> Array:
    """How far a vertex lies along a normal."""
    length = jnp.sqrt(normal_x.hi * normal_x.hi + normal_y.hi * normal_y.hi)
    return numerics.safe_divide(_dot(normal_x, normal_y, vertex_x, vertex_y).hi, length)


def _nearest(x: Array, y: Array, first: Array, second: Array) -> _Nearest:
    """The point nearest to the origin of the simplex between two places of either set, [2] each."""
    ax, ay = _difference(x, y, first[0], second[0])
    bx, by = _difference(x, y, first[1], second[1])
    edge_x, edge_y = exact.wide_add(bx, exact.wide_negative(ax)), exact.wide_add(by, exact.wide_negative(ay))
    from_a, from_b = _dot(ax, ay, edge_x, edge_y).hi, _dot(bx, by, edge_x, edge_y).hi
    at_a, at_b = from_a >= 0, from_b <= 0
    across = exact.wide_add(exact.wide_multiply(edge_x, ay), exact.wide_negative(exact.wide_multiply(edge_y, ax))).hi
    flip = across < 0
    inner_x = exact.wide_where(flip, edge_y, exact.wide_negative(edge_y))
    inner_y = exact.wide_where(flip, exact.wide_negative(edge_x), edge_x)
    normal_x = exact.wide_where(at_a, ax, exact.wide_where(at_b, bx, inner_x))
    normal_y = exact.wide_where(at_a, ay, exact.wide_where(at_b, by, inner_y))
    is_second = ~at_a & at_b
    vertex_x, vertex_y = exact.wide_where(is_second, bx, ax), exact.wide_where(is_second, by, ay)
    return _Nearest(normal_x, normal_y, is_second.astype(jnp.int32), _length(normal_x, normal_y, vertex_x, vertex_y))
