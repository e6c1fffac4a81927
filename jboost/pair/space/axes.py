"""Projection of the points along an axis through two of them. A plane that contains the axis
projects to a line through one point, the origin.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import loops, numerics
from jboost.base.types import Array
from jboost.geometry import exact
from jboost.geometry.exact import Wide
from jboost.pair.space.problem import PlaneProblem
from jboost.pair.sweep.instance import LineInstance


class Axis(NamedTuple):
    """The problem of the planes that contain an axis."""

    flat: LineInstance  # the points projected along the axis, which projects to the origin
    ahead: Array  # [n] bool, on the axis, from the centre towards the second point
    behind: Array  # [n] bool, on the axis, on the other side of the centre
    # [2] int64, the loss on the axis plus that of all planes, if the points ahead, or the points
    # behind, are on the own side
    tilts: Array
    # [n] int32, the number 1 to 4 of a line through the origin on which the projected point is
    # certain to lie, see `_straight`; else 0
    straight: Array
    doubt: Array  # [] int64, weight of the points whose direction is uncertain by rounding


class _Vector(NamedTuple):
    """Differences of points, in double words so that nothing is rounded away."""

    first: Wide
    second: Wide
    third: Wide


# As a share of the product: a larger difference of two products has all bits of a float right.
_SURE_PART = 2.0**-44
_SIGNED_PART = 2.0**-94  # likewise: a larger difference has the right sign


def look_along(problem: PlaneProblem, centre: Array, second: Array) -> Axis:
    """Projects all points along the axis from the point `centre` through the point `second`, []
    int32 each. The two points must be distinct.
    """
    origin, towards = problem.points[centre], problem.points[second]
    along = jnp.abs(towards - origin)
    longest = jnp.where(
        (along[0] >= along[1]) & (along[0] >= along[2]), 0, jnp.where(along[1] >= along[2], 1, 2)
    )
    points, origin, towards = (_turn(array, longest) for array in (problem.points, origin, towards))
    seen = _Vector(*(exact.wide_difference(points[i], origin[i]) for i in range(3)))
    axis = _Vector(*(exact.wide_difference(towards[i], origin[i]) for i in range(3)))
    x, y, unsure = loops.cond(problem.is_exact, _project_exactly, _project_widely, seen, axis)
    here = problem.live & (seen.first.hi == 0) & (seen.second.hi == 0) & (seen.third.hi == 0)
    on_axis = problem.live & (x == 0) & (y == 0)
    ahead = on_axis & ~here & ((seen.first.hi > 0) == (axis.first.hi > 0))
    behind = on_axis & ~here & ~ahead
    other = problem.live & ~problem.own

    def cost(own_side: Array, other_side: Array) -> Array:
        return problem.base + numerics.masked_sum(
            problem.weights, (other & (own_side | here)) | (problem.own & other_side)
        )

    projected = jnp.stack([x, y])
    flat = LineInstance(
        projected, projected, problem.own, problem.live, problem.weights, problem.on_grid
    )
    tilts = jnp.stack([cost(ahead, behind), cost(behind, ahead)])
    return Axis(
        flat,
        ahead,
        behind,
        tilts,
        _straight(seen, axis, x, y),
        numerics.masked_sum(problem.weights, problem.live & unsure),
    )


def _turn(vectors: Array, longest: Array) -> tuple[Array, ...]:
    """The three coordinates of vectors [..., 3] in cyclic order, from the index `longest` on."""
    x, y, z = (vectors[..., i] for i in range(3))
    orders = ((x, y, z), (y, z, x), (z, x, y))
    return tuple(
        jnp.where(longest == 0, a, jnp.where(longest == 1, b, c))
        for a, b, c in zip(*orders, strict=True)
    )


def _project_exactly(seen: _Vector, axis: _Vector) -> tuple[Array, Array, Array]:
    """The projection [n], [n] on the plane perpendicular to the coordinate of the longest component
    of the axis, times that component. No point is uncertain.
    """
    x = axis.first.hi * seen.second.hi - axis.second.hi * seen.first.hi
    y = axis.first.hi * seen.third.hi - axis.third.hi * seen.first.hi
    return x, y, jnp.zeros(x.shape, bool)


def _project_widely(seen: _Vector, axis: _Vector) -> tuple[Array, Array, Array]:
    """The projection of any floats, rounded, and which points [n] have an uncertain direction."""

    def minor(part: Wide, component: Wide) -> Array:
        return exact.wide_add(
            exact.wide_multiply(axis.first, part),
            exact.wide_negative(exact.wide_multiply(component, seen.first)),
        ).hi

    x, y = minor(seen.second, axis.second), minor(seen.third, axis.third)
    product = jnp.abs(axis.first.hi) * _largest([jnp.abs(part.hi) for part in seen])
    blurred = jnp.abs(x) + jnp.abs(y) < product * _SURE_PART
    for value, part, component in ((x, seen.second, axis.second), (y, seen.third, axis.third)):
        same, reverse = _likeness(seen.first, axis.first, part, component)
        is_zero = same | reverse | ((part.hi == 0) & (component.hi == 0))
        blurred |= (jnp.abs(value) < product * _SIGNED_PART) & ~is_zero
    is_short = _all([part.lo == 0 for part in seen]) & _all([part.lo == 0 for part in axis])
    at_second = _all([_agree(part, end) for part, end in zip(seen, axis, strict=True)])
    return x, y, blurred & ~is_short & ~at_second


def _straight(seen: _Vector, axis: _Vector, x: Array, y: Array) -> Array:
    """Which points [n] are certain to lie on x = 0 (1), y = 0 (2), x = y (3) or x = -y (4). All
    points do if a classifier is constant, or equals another one or its negation.
    """
    same, reverse = _likeness(seen.second, axis.second, seen.third, axis.third)
    return jnp.where(
        x == 0, 1, jnp.where(y == 0, 2, jnp.where(same, 3, jnp.where(reverse, 4, 0)))
    ).astype(jnp.int32)


def _likeness(
    part: Wide, component: Wide, other_part: Wide, other_component: Wide
) -> tuple[Array, Array]:
    """Whether one coordinate equals another, and whether it equals its negative, for the points and
    the axis, [n] bool each.
    """
    same = _agree(part, other_part) & _agree(component, other_component)
    reverse = _agree(part, exact.wide_negative(other_part)) & _agree(
        component, exact.wide_negative(other_component)
    )
    return same, reverse


def _agree(a: Wide, b: Wide) -> Array:
    return (a.hi == b.hi) & (a.lo == b.lo)


def _largest(values: list[Array]) -> Array:
    return jnp.maximum(jnp.maximum(values[0], values[1]), values[2])


def _all(flags: list[Array]) -> Array:
    return flags[0] & flags[1] & flags[2]
