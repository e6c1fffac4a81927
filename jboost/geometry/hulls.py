"""The shortest distance between the convex hulls of two finite sets in the plane.

The method of Gilbert, Johnson and Keerthi (1988) searches the Minkowski difference of the two sets
for the point nearest to the origin. It uses support points only and does not build a hull. A step
is one masked pass over the points, and few steps suffice. Directions are differences of points, or
perpendicular to one. On an integer grid every comparison is therefore exact.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry import exact
from jboost.geometry.exact import Wide


class HullDistance(NamedTuple):
    """The distance of two hulls and its direction."""

    normal: Array  # [2] from the second hull to the first, of any length
    distance: Array  # []


class _Vector(NamedTuple):
    x: Wide
    y: Wide


class _Nearest(NamedTuple):
    """The point nearest to the origin in two simplices of the Minkowski difference."""

    normal: _Vector  # [] from the origin to this point, of any length
    distance: Array  # [] its distance, an upper bound of the distance of the hulls
    touched: Array  # [2] int32, the corner at which the normal touches the simplex
    other: Array  # [2] int32, the other corner


class _Search(NamedTuple):
    """The state of the search: two candidate simplices, each with one or two distinct corners.

    A corner of the Minkowski difference is a pair of indices, of a point in the first set and of a
    point in the second set.
    """

    simplices: Array  # [2, 2, 2] int32: simplex, corner, set
    nearest: _Nearest  # of the simplices of the step before
    moving: Array  # [] bool, whether the last step came nearer


# A round number far above the steps that are used; not tuned.
_MAX_STEPS = 256
# A step counts as progress from this gain on, relative to the coordinates, by the bytes of the
# float. It is some bits above the rounding of a double word (48 and 106 bits).
_RELATIVE_PROGRESS = {4: 2.0**-46, 8: 2.0**-98}


def hull_distance(
    points: Array, in_first: Array, in_second: Array, *, start: tuple[Array, Array], floor: Array
) -> HullDistance:
    """The distance between the convex hulls of two disjoint sets of points.

    Args:
      points: [2, n] float32 or float64.
      in_first: [n] bool, the first set, not empty.
      in_second: [n] bool, the second set, not empty.
      start: the indices of a point of the first set and of a point of the second set.
      floor: [], the search may end once the distance is at most this number; negative for the exact
        distance.

    Returns:
      The distance and its direction. If the search ended early, the distance is an upper bound of
      at most `floor`. If the hulls meet, the distance is 0 and the direction is undefined.
    """
    reach = reduce.largest(jnp.abs(points))
    last = points.shape[1] - 1

    def look_further(nearest: _Nearest) -> tuple[Array, Array]:
        """The support points [2] of both sets along the normal, and whether they are nearer.

        They are compared with the corner that the normal touches.
        """
        (first, drop), (second, other_drop) = _support(points, in_first, in_second, nearest)
        gain = -exact.wide_add(drop, other_drop).hi
        size = jnp.abs(nearest.normal.x.hi) * reach[0] + jnp.abs(nearest.normal.y.hi) * reach[1]
        return jnp.minimum(jnp.stack([first, second]), last), gain > size * _RELATIVE_PROGRESS[
            points.dtype.itemsize
        ]

    def step(search: _Search) -> _Search:
        nearest = _nearest(points, search.simplices)
        is_wide = nearest.distance > floor
        new, improves = loops.cond(
            is_wide, look_further, lambda now: (now.touched, jnp.zeros((), bool)), nearest
        )
        simplices = jnp.stack([jnp.stack([nearest.touched, new]), jnp.stack([nearest.other, new])])
        return _Search(simplices, nearest, improves)

    corner = jnp.stack(start)
    nothing = Wide(jnp.zeros((), points.dtype), jnp.zeros((), points.dtype))
    begin = _Nearest(_Vector(nothing, nothing), nothing.hi, corner, corner)
    search = _Search(jnp.broadcast_to(corner, (2, 2, 2)), begin, jnp.ones((), bool))
    search, _ = loops.bounded_loop(step, lambda s: s.moving, search, max_checks=_MAX_STEPS)
    normal, distance, *_ = search.nearest
    return HullDistance(jnp.stack([normal.x.hi, normal.y.hi]), distance)


def _support(
    points: Array, in_first: Array, in_second: Array, nearest: _Nearest
) -> tuple[tuple[Array, Wide], tuple[Array, Wide]]:
    """The lowest point of the first set along the normal, and the highest of the second set.

    Each is an index with a signed height, relative to the point of its set that the normal touches.
    The heights of the second set are negated, so both are at most 0. They are inf for an empty set.
    """
    origin = numerics.take(points, nearest.touched)
    offsets = _Vector(
        *(
            exact.wide_difference(points[axis], jnp.where(in_first, *origin[axis]))
            for axis in range(2)
        )
    )
    height = _dot(nearest.normal, offsets)
    height = exact.wide_where(in_first, height, exact.wide_negative(height))
    return exact.wide_leasts(height, in_first, in_second)


def _nearest(points: Array, simplices: Array) -> _Nearest:
    """The nearest point to the origin in two simplices [2, 2, 2]; in the first one if they tie."""
    ends = numerics.take(points, simplices)
    corners = [exact.wide_difference(ends[axis, ..., 0], ends[axis, ..., 1]) for axis in range(2)]
    a, b = (
        _Vector(*(Wide(part.hi[:, corner], part.lo[:, corner]) for part in corners))
        for corner in range(2)
    )
    edge = _Vector(
        exact.wide_add(b.x, exact.wide_negative(a.x)), exact.wide_add(b.y, exact.wide_negative(a.y))
    )
    across = _Vector(exact.wide_negative(edge.y), edge.x)
    height = _dot(a, across).hi
    at_a, at_b = _dot(a, edge).hi >= 0, _dot(b, edge).hi <= 0
    inner = jax.tree.map(lambda part: jnp.where(height < 0, -part, part), across)
    normal = jax.tree.map(
        lambda first, second, between: jnp.where(at_a, first, jnp.where(at_b, second, between)),
        a,
        b,
        inner,
    )
    length = jnp.sqrt(normal.x.hi * normal.x.hi + normal.y.hi * normal.y.hi)
    distance = jnp.where(at_a | at_b, length, numerics.safe_divide(jnp.abs(height), length))
    number, is_second = lax.iota(jnp.int32, 2), (~at_a & at_b).astype(jnp.int32)
    parts, structure = jax.tree.flatten(normal)
    distance, chosen, touched, *parts = reduce.lexicographic_least(
        distance, number, carried=[is_second, *parts]
    )
    chosen_corners = simplices[chosen]
    return _Nearest(
        jax.tree.unflatten(structure, parts),
        distance,
        chosen_corners[touched],
        chosen_corners[1 - touched],
    )


def _dot(a: _Vector, b: _Vector) -> Wide:
    return exact.wide_add(exact.wide_multiply(a.x, b.x), exact.wide_multiply(a.y, b.y))
