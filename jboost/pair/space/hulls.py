"""The shortest distance between the convex hulls of two finite sets in space, by support points.

The method is that of Gilbert, Johnson and Keerthi (1988); `jboost.geometry.hulls` applies it in the
plane. It searches the Minkowski difference of the two sets for the point nearest to the origin.
Each step adds a corner, and keeps the nearest of the faces through it: the corner, an edge or a
triangle. Normals are differences of points, perpendiculars to such a difference, or cross products
of two differences. They are exact on an integer grid of 11 bits.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import loops, numerics
from jboost.base.types import Array
from jboost.geometry import exact
from jboost.geometry.hulls import HullDistance


class _Face(NamedTuple):
    """A face of the Minkowski difference with up to three corners. With fewer than three, the first
    corner is repeated.
    """

    first: Array  # [3] int32, point indices in the first set
    second: Array  # [3] int32, point indices in the second set
    normal: Array  # [3]
    distance: Array  # [] of its nearest point from the origin
    moving: Array  # [] bool


# A round number; not tuned.
_MAX_STEPS = 256
# A step counts as progress from this gain on, relative to the coordinates: 8 times the unit
# roundoff of float64. Not tuned.
_RELATIVE_PROGRESS = 2.0**-50
_TRIANGLES = ((0, 1), (0, 2), (1, 2))


def dot(a: Array, b: Array) -> Array:
    """The products of vectors [..., 3], legal in the 64-bit scope."""
    products = [exact.rounded_product(a[..., i], b[..., i]) for i in range(3)]
    return (products[0] + products[1]) + products[2]


def _cross(a: Array, b: Array) -> Array:
    """The cross product of vectors [..., 3]; exactly 0 for two equal ones."""

    def minor(i: int, j: int) -> Array:
        return exact.rounded_product(a[..., i], b[..., j]) - exact.rounded_product(
            a[..., j], b[..., i]
        )

    return jnp.stack([minor(1, 2), minor(2, 0), minor(0, 1)], axis=-1)


def hull_distance(
    points: Array, in_first: Array, in_second: Array, *, start: tuple[Array, Array], floor: Array
) -> HullDistance:
    """Distance between the hulls of two disjoint sets of points.

    Args:
      points: [n, 3] float64.
      in_first: [n] bool, the first set.
      in_second: [n] bool, the second set.
      start: indices of a point of the first set and of a point of the second set.
      floor: [], the search may stop when the distance is known to be at most this; negative for a
        full search.

    Returns:
      The distance and its direction. If the search stopped early, the distance is an upper bound of
      at most `floor`. If the hulls intersect, the distance is 0 and the direction is undefined. If
      a set is empty, both are undefined.
    """
    last = points.shape[0] - 1
    reach = jnp.max(jnp.abs(points))

    def lowest(normal: Array, mask: Array, origin: Array) -> tuple[Array, Array]:
        height = dot(normal[None], points - points[origin][None])
        depth = jnp.min(jnp.where(mask, height, jnp.inf))
        return jnp.minimum(numerics.first_true(mask & (height == depth)), last), depth

    def step(face: _Face) -> _Face:
        new_first, drop_first = lowest(face.normal, in_first, face.first[0])
        new_second, drop_second = lowest(-face.normal, in_second, face.second[0])
        gain = -(drop_first + drop_second)
        size = jnp.abs(face.normal[0]) + jnp.abs(face.normal[1]) + jnp.abs(face.normal[2])
        closer = _nearest_face(points, face, new_first, new_second)
        improves = (gain > size * reach * _RELATIVE_PROGRESS) & (closer.distance < face.distance)
        face = jax.tree.map(lambda new, old: jnp.where(improves, new, old), closer, face)
        return face._replace(moving=improves & (face.distance > floor))

    corner = points[start[0]] - points[start[1]]
    first, second = (jnp.broadcast_to(place, (3,)) for place in start)
    face = _Face(
        first, second, corner, jnp.sqrt(dot(corner, corner)), jnp.any(in_first) & jnp.any(in_second)
    )
    face, _ = loops.bounded_loop(step, lambda f: f.moving, face, max_checks=_MAX_STEPS)
    return HullDistance(face.normal, face.distance)


def _nearest_face(points: Array, face: _Face, new_first: Array, new_second: Array) -> _Face:
    """The face nearest to the origin among those that join the new corner to at most
    two old ones.
    """
    old = points[face.first] - points[face.second]
    new = points[new_first] - points[new_second]
    pairs = [(0, 0), (0, 0), (1, 1), (2, 2), *_TRIANGLES]
    left, right = (
        jnp.stack([old[i] for i, _ in _TRIANGLES]),
        jnp.stack([old[j] for _, j in _TRIANGLES]),
    )
    candidates = [
        _corner(new),
        _edges(new, old),
        _triangles(jnp.broadcast_to(new, (3, 3)), left, right),
    ]
    normals, distances = (jnp.concatenate(parts) for parts in zip(*candidates, strict=True))
    best = jnp.minimum(numerics.first_true(distances == jnp.min(distances)), len(pairs) - 1)

    def corners(places: Array, new_place: Array) -> Array:
        joined = [[new_place, places[i], places[j]] for i, j in pairs]
        joined[0] = [new_place] * 3
        return jnp.stack([jnp.stack(row) for row in joined])[best]

    return _Face(
        corners(face.first, new_first),
        corners(face.second, new_second),
        normals[best],
        distances[best],
        face.moving,
    )


def _corner(new: Array) -> tuple[Array, Array]:
    return new[None], jnp.sqrt(dot(new, new))[None]


def _edges(new: Array, old: Array) -> tuple[Array, Array]:
    """Normals [k, 3] and distances [k] of the edges from the new corner to old corners. A distance
    is infinite if the nearest point of the edge is one of its ends.
    """
    edge = old - new[None]
    along, squared = -dot(new[None], edge), dot(edge, edge)
    normal = squared[:, None] * new[None] + along[:, None] * edge
    inside = (along > 0) & (along < squared)
    distance = numerics.safe_divide(jnp.sqrt(dot(normal, normal)), squared)
    return normal, jnp.where(inside, distance, jnp.inf)


def _triangles(new: Array, left: Array, right: Array) -> tuple[Array, Array]:
    """Normals and distances of triangles. A distance is infinite if the nearest point of the plane
    is outside the triangle.
    """
    normal = _cross(left - new, right - new)
    shares = (
        dot(normal, _cross(new, left)),
        dot(normal, _cross(left, right)),
        dot(normal, _cross(right, new)),
    )
    squared, height = dot(normal, normal), dot(normal, new)
    inside = (shares[0] >= 0) & (shares[1] >= 0) & (shares[2] >= 0) & (squared > 0)
    distance = numerics.safe_divide(jnp.abs(height), jnp.sqrt(squared))
    return jnp.where((height < 0)[:, None], -normal, normal), jnp.where(inside, distance, jnp.inf)
