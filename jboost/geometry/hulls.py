"""The shortest distance between the convex hulls of two finite sets in the plane.

The method of Gilbert, Johnson and Keerthi (1988) searches the Minkowski difference of the two sets
for the point nearest to the origin. It uses support points only and does not build a hull. A step
is one masked pass over the points, and few steps suffice. Directions are differences of points, or
perpendicular to one. On an integer grid every comparison is therefore exact.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry import exact
from jboost.geometry.exact import Wide


class HullDistance(NamedTuple):
    """The distance of two hulls in the plane or in space, and its direction."""

    normal: Array  # [2] or [3], from the second hull to the first, of any length
    distance: Array  # []


class _Nearest(NamedTuple):
    """The point nearest to the origin in two simplices of the Minkowski difference."""

    normal: Wide  # [2] from the origin to this point, of any length
    distance: Array  # [] its distance, an upper bound of the distance of the hulls
    touched: Array  # [2] int32, the corner at which the normal touches the simplex
    other: Array  # [2] int32, the other corner


class _HullSearch(NamedTuple):
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
        size = _total(jnp.abs(nearest.normal.hi) * reach)
        return jnp.minimum(jnp.stack([first, second]), last), gain > size * _RELATIVE_PROGRESS[
            points.dtype.itemsize
        ]

    def step(search: _HullSearch) -> _HullSearch:
        nearest = _nearest(points, search.simplices)
        is_wide = nearest.distance > floor
        new, improves = loops.cond(
            is_wide, look_further, lambda now: (now.touched, jnp.zeros((), bool)), nearest
        )
        simplices = jnp.stack([jnp.stack([nearest.touched, new]), jnp.stack([nearest.other, new])])
        return _HullSearch(simplices, nearest, improves)

    corner = jnp.stack(start)
    nothing = jnp.zeros(2, points.dtype)
    begin = _Nearest(Wide(nothing, nothing), nothing[0], corner, corner)
    search = _HullSearch(jnp.broadcast_to(corner, (2, 2, 2)), begin, jnp.ones((), bool))
    search, _ = loops.bounded_loop(step, lambda s: s.moving, search, max_checks=_MAX_STEPS)
    return HullDistance(search.nearest.normal.hi, search.nearest.distance)


def _support(
    points: Array, in_first: Array, in_second: Array, nearest: _Nearest
) -> tuple[tuple[Array, Wide], tuple[Array, Wide]]:
    """The lowest point of the first set along the normal, and the highest of the second set.

    Each is an index with a signed height, relative to the point of its set that the normal touches.
    The heights of the second set are negated, so both are at most 0. They are inf for an empty set.
    """
    origin = numerics.take(points, nearest.touched)
    offsets = exact.wide_difference(points, jnp.where(in_first[None], origin[:, :1], origin[:, 1:]))
    height = _dot(Wide(*(part[:, None] for part in nearest.normal)), offsets)
    height = exact.wide_where(in_first, height, exact.wide_negative(height))
    return exact.wide_leasts(height, in_first, in_second)


def _nearest(points: Array, simplices: Array) -> _Nearest:
    """The nearest point to the origin in two simplices [2, 2, 2]; in the first one if they tie."""
    ends = numerics.take(points, simplices)
    corners = exact.wide_difference(ends[..., 0], ends[..., 1])
    a, b = (Wide(*(part[..., corner] for part in corners)) for corner in range(2))
    edge = exact.wide_add(b, exact.wide_negative(a))
    across = Wide(*(jnp.stack([-part[1], part[0]]) for part in edge))
    # products with one another, for both simplices
    height, along_a, along_b = _dot(_stacked(a, a, b), _stacked(across, edge, edge)).hi
    at_a, at_b = along_a >= 0, along_b <= 0
    normal = exact.wide_where(height < 0, exact.wide_negative(across), across)
    normal = exact.wide_where(at_a, a, exact.wide_where(at_b, b, normal))
    length = jnp.sqrt(_total(normal.hi * normal.hi))
    distance = jnp.where(at_a | at_b, length, numerics.safe_divide(jnp.abs(height), length))
    number, is_second = lax.iota(jnp.int32, 2), (~at_a & at_b).astype(jnp.int32)
    distance, chosen, touched = reduce.lexicographic_least(distance, number, carried=[is_second])
    chosen_corners = simplices[chosen]
    return _Nearest(
        Wide(*(numerics.take(part, chosen) for part in normal)),
        distance,
        chosen_corners[touched],
        chosen_corners[1 - touched],
    )


def _stacked(*vectors: Wide) -> Wide:
    """Vectors [2, ...] stacked behind their first axis, [2, k, ...]."""
    return Wide(*(jnp.stack(parts, axis=1) for parts in zip(*vectors, strict=True)))


def _total(parts: Array) -> Array:
    """The sum of two parts [2, ...]."""
    return parts[0] + parts[1]


def _dot(a: Wide, b: Wide) -> Wide:
    """The scalar products [...] of vectors [2, ...]."""
    products = exact.wide_multiply(a, b)
    return exact.wide_add(*(Wide(*(part[axis] for part in products)) for axis in range(2)))
