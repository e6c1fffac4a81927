"""The fat separator of a split, and the side of it on which a point lies. Comparisons have no
rounding error on integer grids.

The fat separator is the bisector of the hulls of the points that the split keeps (Boyarshinov and
Magdon-Ismail 2005, Definition 1.3). On a grid, squared margins are quotients of two integers.
Double words represent two different quotients differently on grids of up to 14 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import numerics, reduce
from jboost.base.types import Array
from jboost.geometry import exact, hulls
from jboost.geometry.exact import Wide
from jboost.pair.sweep.instance import LineInstance


class FatLine(NamedTuple):
    """The bisector between a lowest point above and a highest point below, or a constant
    classifier.
    """

    normal: Array  # [2] in metric coordinates, points to the own side; 0 for a constant
    lowest: Array  # [] int32, a support point on the own side
    highest: Array  # [] int32, a support point on the other side
    squared_gap: Wide  # [] of the hulls; infinite for a constant
    # [] int32, +1 if all points are on the own side, -1 if none is, 0 for a line
    constant_side: Array


_RESOLUTION = {4: 2.0**-40, 8: 2.0**-90}  # smaller relative differences of squared gaps are ties
# Relative; the side of a point is uncertain below this, because the normal is rounded.
_DOUBT = {4: 2.0**-20, 8: 2.0**-44}
# Between two metric coordinates. Products of four differences are then normal floats.
_MOST_BINADES = {4: 20, 8: 200}


def fat_line(
    instance: LineInstance,
    own_side: Array,
    other_side: Array,
    start: tuple[Array, Array],
    floor: Array,
) -> FatLine:
    """The bisector of the hulls of two disjoint sets of points.

    Args:
      instance: the problem.
      own_side: [n] bool.
      other_side: [n] bool.
      start: the index of a point of each set, as an initial guess of the support points.
      floor: [], a gap. If the gap of the hulls is at most this, any line may be returned, with a
        squared gap of at most the square of `floor`.
    """
    first, second = (
        _member(side, guess) for side, guess in zip((own_side, other_side), start, strict=True)
    )
    hull = hulls.hull_distance(
        instance.metric, own_side, other_side, start=(first, second), floor=floor
    )
    return line_along(instance, hull.normal, own_side, other_side, first)


def _member(side: Array, guess: Array) -> Array:
    """The guess if it is a point of the side [n], else the first point of the side."""
    return jnp.where(side[guess], guess, jnp.minimum(numerics.first_true(side), side.shape[0] - 1))


def line_along(
    instance: LineInstance, normal: Array, own_side: Array, other_side: Array, origin: Array
) -> FatLine:
    """The bisector between two disjoint sets of points, along the normal of the gap between their
    hulls. Heights are measured from `origin`, the index of one of the points.
    """
    last = own_side.shape[0] - 1
    height = height_over(instance, normal, origin)
    height = exact.wide_where(own_side, height, exact.wide_negative(height))
    (lowest, low), (highest, high) = exact.wide_leasts(height, own_side, other_side)
    none_own, none_other = lowest > last, highest > last
    gap = exact.wide_add(low, high)
    length = exact.wide_add(
        exact.two_product(normal[0], normal[0]), exact.two_product(normal[1], normal[1])
    )
    nothing = jnp.zeros_like(gap.hi)
    is_open = (gap.hi > 0) & (length.hi > 0)
    squared_gap = exact.wide_divide(
        exact.wide_multiply(gap, gap), exact.wide_where(is_open, length, Wide(nothing + 1, nothing))
    )
    is_constant = none_own | none_other
    return FatLine(
        normal=jnp.where(is_constant, 0, normal),
        lowest=jnp.minimum(lowest, last),
        highest=jnp.minimum(highest, last),
        squared_gap=exact.wide_where(
            is_constant,
            Wide(nothing + jnp.inf, nothing),
            exact.wide_where(is_open, squared_gap, Wide(nothing, nothing)),
        ),
        constant_side=jnp.where(none_other, 1, jnp.where(none_own, -1, 0)).astype(jnp.int32),
    )


def holds_gaps(instance: LineInstance) -> Array:
    """Whether no squared gap can underflow, [] bool."""
    sizes = jnp.abs(instance.metric)
    smallest, largest = reduce.extremes(jnp.where(sizes > 0, sizes, jnp.inf), sizes, axis=(0, 1))
    return smallest >= largest * 2.0 ** -_MOST_BINADES[sizes.dtype.itemsize]


def height_over(instance: LineInstance, normal: Array, origin: Array) -> Wide:
    """The heights [n] of all points above one of them, times the length of the normal."""
    return _along(normal, [exact.wide_difference(row, row[origin]) for row in instance.metric])


def _along(normal: Array, offsets: Sequence[Wide]) -> Wide:
    along_x, along_y = (
        exact.wide_scale(part, offset) for part, offset in zip(normal, offsets, strict=True)
    )
    return exact.wide_add(along_x, along_y)


def own_side_of(instance: LineInstance, line: FatLine) -> tuple[Array, Array]:
    """The side of every point, [n] int32: +1 for the own side, -1 for the other side, 0 on the
    line; and whether rounding makes the side uncertain, [n] bool.
    """
    ends = line.lowest, line.highest
    offsets = [
        exact.wide_add(*(exact.wide_difference(row, row[end]) for end in ends))
        for row in instance.metric
    ]
    score = _along(line.normal, offsets).hi
    side = jnp.where(line.constant_side != 0, line.constant_side, jnp.sign(score).astype(jnp.int32))
    return side, (line.constant_side == 0) & _is_small(instance, line, score)


def may_support(instance: LineInstance, line: FatLine, own_side: Array, other_side: Array) -> Array:
    """The points whose removal may move the line, [n] bool: those on the two lines that bound the
    gap.
    """
    up, down = (height_over(instance, line.normal, end).hi for end in (line.lowest, line.highest))
    touches_own = own_side & ((up == 0) | _is_small(instance, line, up))
    touches_other = other_side & ((down == 0) | _is_small(instance, line, down))
    return (line.constant_side == 0) & (touches_own | touches_other)


def _is_small(instance: LineInstance, line: FatLine, height: Array) -> Array:
    """Whether the rounding of the normal makes the sign of a height uncertain; never on a grid."""
    reach = jnp.sum(jnp.abs(line.normal)) * jnp.sum(reduce.largest(jnp.abs(instance.metric)))
    return ~instance.on_grid & (jnp.abs(height) <= reach * _DOUBT[reach.dtype.itemsize])


def compare_gaps(instance: LineInstance, first: Wide, second: Wide) -> tuple[Array, Array]:
    """The sign of first - second, int32, and whether rounding makes it uncertain. Two infinite gaps
    are equal.
    """
    both_infinite = (first.hi == jnp.inf) & (second.hi == jnp.inf)
    one_infinite = ((first.hi == jnp.inf) | (second.hi == jnp.inf)) & ~both_infinite
    finite = [
        exact.wide_where(
            jnp.isfinite(gap.hi), gap, Wide(jnp.zeros_like(gap.hi), jnp.zeros_like(gap.lo))
        )
        for gap in (first, second)
    ]
    difference = exact.wide_add(finite[0], exact.wide_negative(finite[1])).hi
    size = jnp.maximum(jnp.abs(finite[0].hi), jnp.abs(finite[1].hi))
    itemsize = first.hi.dtype.itemsize
    tied = jnp.abs(difference) <= size * _RESOLUTION[itemsize]
    sign = jnp.where(tied, 0, jnp.sign(difference))
    sign = jnp.where(
        both_infinite, 0, jnp.where(one_infinite, jnp.where(first.hi == jnp.inf, 1, -1), sign)
    ).astype(jnp.int32)
    is_uncertain = (
        ~instance.on_grid
        & ~both_infinite
        & ~one_infinite
        & (jnp.abs(difference) <= size * _DOUBT[itemsize])
    )
    return sign, is_uncertain
