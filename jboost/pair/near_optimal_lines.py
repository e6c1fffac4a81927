"""The fat separator of a split, and which side of it a point lies on; compared without rounding error on integer grids.

Paper 000, Definition 1.3: the bisector of the hulls of the points that the split keeps. Squared margins are quotients of two
integers on a grid; as double words two of them that differ are told apart up to grids of 14 bits.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics
from jboost.base.types import Array
from jboost.geometry import exact, hulls
from jboost.geometry.exact import Wide
from jboost.pair.instance import Instance


class FatLine(NamedTuple):
    """The bisector between a lowest point above and a highest point below, or a constant classifier."""

    normal_x: Array  # [] in metric coordinates, points to the own side; 0 for a constant
    normal_y: Array  # []
    lowest: Array  # [] int32, a support point on the own side
    highest: Array  # [] int32, a support point on the other side
    squared_gap: Wide  # [] of the hulls; infinite for a constant
    constant_side: Array  # [] int32, +1 if all points are on the own side, -1 if none is, 0 for a line


_RESOLUTION = {4: 2.0**-40, 8: 2.0**-90}  # relative differences of squared gaps below this are ties
_DOUBT = {4: 2.0**-20, 8: 2.0**-44}  # relative; what the direction of a normal, rounded, leaves open
_MOST_BINADES = {4: 20, 8: 200}  # between two metric coordinates: products of four differences stay normal


def fat_line(instance: Instance, own_side: Array, other_side: Array, start: tuple[Array, Array], floor: Array) -> FatLine:
    """The bisector of the hulls of two disjoint sets of points.

    Args:
      instance: the problem.
      own_side: [n] bool.
      other_side: [n] bool.
      start: places of a point of each set, as good a guess as there is for the support points.
      floor: [], a gap that is of no interest; the line is then any, with a squared gap of at most its square.
    """
    last = instance.x.shape[0] - 1
    first = jnp.where(own_side[start[0]], start[0], jnp.minimum(numerics.first_true(own_side), last))
    second = jnp.where(other_side[start[1]], start[1], jnp.minimum(numerics.first_true(other_side), last))
    hull = hulls.hull_distance(instance.metric_x, instance.metric_y, own_side, other_side, start=(first, second), floor=floor)
    hull = lax.optimization_barrier(hull)
    return line_along(instance, hull.normal_x, hull.normal_y, own_side, other_side)


def line_along(instance: Instance, normal_x: Array, normal_y: Array, own_side: Array, other_side: Array) -> FatLine:
    """The bisector between two disjoint sets of points along the normal of the gap between their hulls."""
    last = instance.x.shape[0] - 1
    none_own, none_other = ~jnp.any(own_side), ~jnp.any(other_side)
    upward = height_over(instance, normal_x, normal_y, jnp.minimum(numerics.first_true(own_side), last))
    lowest = jnp.minimum(exact.wide_argmin(upward, own_side), last)
    downward = exact.wide_negative(height_over(instance, normal_x, normal_y, lowest))
    highest = jnp.minimum(exact.wide_argmin(downward, other_side), last)
    meets = downward.hi[highest] <= 0
    gap = Wide(jnp.where(meets, 0, downward.hi[highest]), jnp.where(meets, 0, downward.lo[highest]))
    length = exact.wide_add(exact.two_product(normal_x, normal_x), exact.two_product(normal_y, normal_y))
    length = exact.wide_where(length.hi > 0, length, Wide(jnp.ones_like(length.hi), jnp.zeros_like(length.lo)))
    squared_gap = exact.wide_divide(exact.wide_multiply(gap, gap), length)
    is_constant = none_own | none_other
    infinite = Wide(jnp.full_like(squared_gap.hi, jnp.inf), jnp.zeros_like(squared_gap.lo))
    line = FatLine(
        normal_x=jnp.where(is_constant, 0, normal_x),
        normal_y=jnp.where(is_constant, 0, normal_y),
        lowest=lowest,
        highest=highest,
        squared_gap=exact.wide_where(is_constant, infinite, squared_gap),
        constant_side=jnp.where(none_other, 1, jnp.where(none_own, -1, 0)).astype(jnp.int32),
    )
    return lax.optimization_barrier(line)


def holds_gaps(instance: Instance) -> Array:
    """Whether no squared gap is spoiled by underflow, []."""
    sizes = jnp.abs(jnp.stack([instance.metric_x, instance.metric_y]))
    smallest = jnp.min(jnp.where(sizes > 0, sizes, jnp.inf), initial=jnp.inf)
    return smallest >= jnp.max(sizes, initial=0) * 2.0 ** -_MOST_BINADES[sizes.dtype.itemsize]


def height_over(instance: Instance, normal_x: Array, normal_y: Array, origin: Array) -> Wide:
    """How far all points lie above one of them, times the length of the normal, [n]."""
    x, y = instance.metric_x, instance.metric_y
    return _along(normal_x, normal_y, exact.wide_difference(x, x[origin]), exact.wide_difference(y, y[origin]))


def _along(normal_x: Array, normal_y: Array, dx: Wide, dy: Wide) -> Wide:
    nothing = jnp.zeros_like(normal_x)
    return exact.wide_add(exact.wide_multiply(Wide(normal_x, nothing), dx), exact.wide_multiply(Wide(normal_y, nothing), dy))


def own_side_of(instance: Instance, line: FatLine) -> tuple[Array, Array]:
    """The side of every point: +1 the own side, -1 the other, 0 on the line, [n] int32; and where rounding leaves that open, [n] bool."""
    x, y = instance.metric_x, instance.metric_y
    dx = exact.wide_add(exact.wide_difference(x, x[line.lowest]), exact.wide_difference(x, x[line.highest]))
    dy = exact.wide_add(exact.wide_difference(y, y[line.lowest]), exact.wide_difference(y, y[line.highest]))
    score = _along(line.normal_x, line.normal_y, dx, dy).hi
    side = jnp.where(line.constant_side != 0, line.constant_side, jnp.sign(score).astype(jnp.int32))
    return side, (line.constant_side == 0) & _is_small(instance, line, score)


def may_support(instance: Instance, line: FatLine, own_side: Array, other_side: Array) -> Array:
    """Points whose removal could move the line: those on the two lines that bound the gap, [n] bool."""
    up = height_over(instance, line.normal_x, line.normal_y, line.lowest).hi
    down = height_over(instance, line.normal_x, line.normal_y, line.highest).hi
    touches_own = own_side & ((up == 0) | _is_small(instance, line, up))
    touches_other = other_side & ((down == 0) | _is_small(instance, line, down))
    return (line.constant_side == 0) & (touches_own | touches_other)


def _is_small(instance: Instance, line: FatLine, height: Array) -> Array:
    """Whether the sign of a height is lost in the rounding of the normal; never on a grid."""
    x, y = instance.metric_x, instance.metric_y
    reach = (jnp.abs(line.normal_x) + jnp.abs(line.normal_y)) * (jnp.max(jnp.abs(x)) + jnp.max(jnp.abs(y)))
    return ~instance.on_grid & (jnp.abs(height) <= reach * _DOUBT[x.dtype.itemsize])


def compare_gaps(instance: Instance, first: Wide, second: Wide) -> tuple[Array, Array]:
    """The sign of first - second, int32, and whether rounding leaves it open; two infinite gaps are equal."""
    both_infinite = (first.hi == jnp.inf) & (second.hi == jnp.inf)
    one_infinite = ((first.hi == jnp.inf) | (second.hi == jnp.inf)) & ~both_infinite
    finite = [exact.wide_where(jnp.isfinite(gap.hi), gap, Wide(jnp.zeros_like(gap.hi), jnp.zeros_like(gap.lo))) for gap in (first, second)]
    difference = exact.wide_add(finite[0], exact.wide_negative(finite[1])).hi
    size = jnp.maximum(jnp.abs(finite[0].hi), jnp.abs(finite[1].hi))
    itemsize = first.hi.dtype.itemsize
    tied = jnp.abs(difference) <= size * _RESOLUTION[itemsize]
    sign = jnp.where(tied, 0, jnp.sign(difference))
    sign = jnp.where(both_infinite, 0, jnp.where(one_infinite, jnp.where(first.hi == jnp.inf, 1, -1), sign)).astype(jnp.int32)
    open_question = ~instance.on_grid & ~both_infinite & ~one_infinite & (jnp.abs(difference) <= size * _DOUBT[itemsize])
    return sign, open_question
