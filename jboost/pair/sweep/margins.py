"""Upper bounds of the margins of all classes of lines through one centre.

A separator set of margin g keeps its points outside a strip of width 2 g. Let one edge of the strip
turn around the centre, an own point. A kept point of the other class must be at least 2 g away from
the line. At distance r it therefore excludes all directions of the line within asin(2 g / r) of its
own direction. What the kept points leave of the interval of a class is the interval of directions
of strips of this width. If nothing is left, the margin is less than g. Else the two points that end
the interval are kept, and the distance between them and the centre is an upper bound of twice the
margin. It is the distance of the hulls if g is close to the margin.

The interval follows from running maxima in the angular order (Boyarshinov and Magdon-Ismail 2005,
Section 2.4, keep hulls in a tree instead). Rounding makes every bound larger.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics, reduce
from jboost.base.types import Array
from jboost.pair.sweep.instance import Instance

# Angles are numbers in [0, 4) for a full turn, see `_full_turn`. Sums of two are rounded by at most
# this many units of eps.
_ANGLE_ERROR = 32
# Relative errors of squared lengths and of distances, in units of eps. More than they can be.
_LENGTH_ERROR = 16


class View(NamedTuple):
    """The points around a centre in exact angular order."""

    index: Array  # [n] int32, the points in angular order; those that are not around it come last
    # [n] bool, by angular order: the last points of runs of one direction, before an open class
    ends: Array
    upper: Array  # [n] bool, see `jboost.geometry.angular.is_upper`
    off_centre: Array  # [n] bool, live and not at the centre


class _Turns(NamedTuple):
    """The 2n events of a line that makes a full turn, with the own class on its left."""

    point: Array  # [2n] int32
    angle: Array  # [2n] of the line
    moves_right: Array  # [2n] bool, the point is on the right of the line from here on
    following: Array  # [2n] int32, the event after this one
    is_last: Array  # [2n] bool, the last event of a half turn


class _Limit(NamedTuple):
    """The directions at which strips of each class begin or end, and the points that limit them."""

    angle: Array  # [2n]
    point: Array  # [2n] int32
    is_own: Array  # [2n] bool


def margin_bounds(instance: Instance, centre: Array, view: View, gap: Array) -> Array:
    """Upper bounds [2n] of the margins of the classes around a centre, which are numbered as in
    `jboost.pair.sweep.visits`. They hold for classes of least loss.

    Args:
      instance: the problem.
      centre: [] int32.
      view: the points around the centre.
      gap: [] not negative. If the margin of a class is less than half of this, its bound may be
        -inf.
    """
    offset = instance.metric - numerics.take(instance.metric, centre)[:, None]
    turns = _turn(offset, view)
    begin, end = _limits(instance, offset, view, turns, gap)
    error = _ANGLE_ERROR * jnp.finfo(offset.dtype).eps
    starts, stops = _own_limits(instance, turns, centre)
    low = _narrower(begin, starts, begin.angle - error > starts.angle)
    high = _narrower(end, stops, end.angle + error < stops.angle)
    distance = _distance(instance.metric, centre, low, high)
    is_met = begin.angle - error <= jnp.minimum(end.angle, stops.angle) + error
    is_met &= starts.angle - error <= end.angle + error
    return jnp.where(is_met, distance / 2, -jnp.inf)


def _full_turn(x: Array, y: Array) -> Array:
    """A number in [0, 4) that grows with the angle of a vector. A right angle is 1."""
    share = x / jnp.maximum(jnp.abs(x) + jnp.abs(y), jnp.finfo(x.dtype).tiny)
    return jnp.where((y > 0) | ((y == 0) & (x > 0)), 1 - share, 3 + share)


def _turn(offset: Array, view: View) -> _Turns:
    size = view.index.shape[0]
    count = reduce.count(view.off_centre)
    number = lax.iota(jnp.int32, 2 * size)
    is_first_half = number < size
    rank = jnp.where(is_first_half, number, number - size)
    point = numerics.take(view.index, rank)
    angle = _full_turn(*offset)
    angle = jnp.where(view.upper, angle, angle - 2)
    upper = numerics.take(view.upper, point)
    is_last = rank == count - 1
    return _Turns(
        point,
        numerics.take(angle, point) + jnp.where(is_first_half, 0, 2),
        upper == is_first_half,
        jnp.where(
            is_last, jnp.where(is_first_half, size, 0), jnp.minimum(number + 1, 2 * size - 1)
        ),
        is_last,
    )


def _limits(
    instance: Instance, offset: Array, view: View, turns: _Turns, gap: Array
) -> tuple[_Limit, _Limit]:
    """The limits that the kept points of the other class set to strips of width `gap`.

    A point is kept from the event at which it moves to the right on, for half a turn. Points that
    are kept earlier or later set limits outside of the class. Hence the first limit is a maximum
    over all earlier events, and the second one a minimum over the events from half a turn ago on.
    """
    size = view.index.shape[0]
    other = instance.live & ~instance.own & view.off_centre
    first, last = (
        jnp.where(turns.moves_right & numerics.take(other, turns.point), part, fill)
        for part, fill in zip(
            (numerics.take(limit, turns.point) for limit in _shadow(offset, gap)),
            (-jnp.inf, jnp.inf),
            strict=True,
        )
    )
    both = jnp.stack([first, -last[::-1]])
    largest = lax.cummax(both, axis=1)
    place = lax.cummax(
        jnp.where(both == largest, lax.broadcasted_iota(jnp.int32, both.shape, 1), 0), axis=1
    )
    point = jnp.stack(
        [numerics.take(turns.point, place[0]), numerics.take(turns.point[::-1], place[1])]
    )
    begin = _largest(largest[0], point[0], largest[0, -1] - 4, point[0, -1])
    # suffixes that begin after the first, second, ... event of the half turn before a class
    least, its_point = -largest[1, ::-1], point[1, ::-1]
    least_after = jnp.append(least[1:], jnp.inf)
    point_after = jnp.append(its_point[1:], 0)
    before = _largest(4 - least_after[size:], point_after[size:], -least[0], its_point[0])
    angle = jnp.concatenate([-before[0], least_after[:size]])
    nobody = jnp.zeros(2 * size, bool)
    return _Limit(*begin, nobody), _Limit(
        angle, jnp.concatenate([before[1], point_after[:size]]), nobody
    )


def _largest(value: Array, point: Array, other: Array, other_point: Array) -> tuple[Array, Array]:
    return jnp.maximum(value, other), jnp.where(value >= other, point, other_point)


def _shadow(offset: Array, gap: Array) -> tuple[Array, Array]:
    """The ends of the directions [n] of a directed line through the centre that keeps each point on
    its right, at a distance of at least `gap`.
    """
    x, y = offset
    squared = x * x + y * y
    slack = 1 + _LENGTH_ERROR * jnp.finfo(offset.dtype).eps
    squared_along = squared * slack - gap * gap
    along = jnp.sqrt(jnp.maximum(squared_along, 0))
    angle = _full_turn(x, y)
    first = _full_turn(along * x - gap * y, gap * x + along * y)
    last = _full_turn(along * x + gap * y, along * y - gap * x)
    is_far = squared_along >= 0
    return (
        jnp.where(is_far, first + jnp.where(first < angle - 2, 4, 0), jnp.inf),
        jnp.where(is_far, last + jnp.where(last > angle + 2, -2, 2), -jnp.inf),
    )


def _own_limits(instance: Instance, turns: _Turns, centre: Array) -> tuple[_Limit, _Limit]:
    """The ends of the intervals of the classes. Their points are the kept own points at these ends,
    or the centre if the point at an end is not one.
    """
    own = numerics.take(instance.own, turns.point)
    following = turns.following
    next_point = numerics.take(turns.point, following)
    keeps_next = numerics.take(own & turns.moves_right, following)
    next_angle = numerics.take(turns.angle, following) + jnp.where(
        turns.is_last & (following == 0), 4, 0
    )
    is_own = jnp.ones_like(own)
    return (
        _Limit(turns.angle, jnp.where(own & ~turns.moves_right, turns.point, centre), is_own),
        _Limit(next_angle, jnp.where(keeps_next, next_point, centre), is_own),
    )


def _narrower(other: _Limit, own: _Limit, is_narrower: Array) -> _Limit:
    return _Limit(
        *(jnp.where(is_narrower, mine, theirs) for mine, theirs in zip(other, own, strict=True))
    )


def _distance(metric: Array, centre: Array, low: _Limit, high: _Limit) -> Array:
    """The distance [2n], rounded up, between the own points and the others among the centre and two
    points of each class. It is inf if there are no others.
    """
    at = numerics.take(metric, centre)[:, None]
    first, second = numerics.take(metric, low.point), numerics.take(metric, high.point)
    # the sides of a triangle, and their squared lengths
    p, q, r = first - at, second - at, second - first
    pp, qq, rr = (side[0] * side[0] + side[1] * side[1] for side in (p, q, r))
    base = jnp.where(low.is_own, pp, jnp.where(high.is_own, qq, rr))
    left, right = jnp.where(low.is_own, rr, pp), jnp.where(high.is_own, rr, qq)
    # The product of the two shortest sides has the least rounding error.
    a = jnp.where((pp >= qq) & (pp >= rr), q, p)
    b = jnp.where((rr > pp) & (rr > qq), q, r)
    one, other = a[0] * b[1], a[1] * b[0]
    relative = _LENGTH_ERROR * jnp.finfo(metric.dtype).eps
    area = jnp.abs(one - other) + (jnp.abs(one) + jnp.abs(other)) * relative
    is_inside = jnp.abs(left - right) < base - relative * (left + right)
    height = numerics.safe_divide(area, jnp.sqrt(base))
    distance = jnp.where(is_inside, height, jnp.sqrt(jnp.minimum(left, right))) * (1 + relative)
    return jnp.where(low.is_own & high.is_own, jnp.inf, distance)
