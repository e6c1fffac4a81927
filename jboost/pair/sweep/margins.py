"""Upper bounds of the margins of all classes of lines through one centre.

A separator set of margin g keeps its points outside a strip of width 2 g. Let one edge of the strip
turn around the centre, an own point. A kept point of the other class must be at least 2 g away from
this edge. At distance r it therefore excludes all directions within asin(2 g / r) of its own one.
If the kept points exclude all directions of a class, its margin is less than g. Else the points
that exclude the most on both sides, and the own point next to the line, bound the margin: it is at
most half of the distance between the own points and the others among these. For g close to the
margin these points are usually the support points, and the bound is the margin.

The directions are excluded by running maxima over the angular order, for all classes at once. This
replaces the hierarchical hulls of Boyarshinov and Magdon-Ismail (2005), Section 2.4. Rounding makes
every bound larger.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics, reduce
from jboost.base.types import Array
from jboost.geometry.angular import HalfTurnOrder
from jboost.pair.sweep.instance import Instance

# Angles are numbers from -4 to 8, see `_full_turn`. Their rounding errors are less than this many
# units of eps.
_ANGLE_ERROR = 64
# Relative errors of squared lengths are less than this many units of eps, those of distances, and
# those of a product of two sides in relation to the products of their coordinates.
_LENGTH_ERROR, _DISTANCE_ERROR, _PRODUCT_ERROR = 16, 4, 2
_ROW = 16  # entries of a row of a running maximum; of 8, 16 and 64 the fastest at 4,000 points


class View(NamedTuple):
    """The points around a centre in exact angular order."""

    order: HalfTurnOrder  # the points that are not around the centre come last
    upper: Array  # [n] bool, see `jboost.geometry.angular.is_upper`
    off_centre: Array  # [n] bool, live and not at the centre


class _Events(NamedTuple):
    """The 2n events of a line that makes a full turn, with the own class on its left. Each event is
    followed by a class.
    """

    point: Array  # [2n] int32
    angle: Array  # [2n] of the line
    next_angle: Array  # [2n]
    # [2n] int32, an own point that the class keeps and that ends the interval of its directions, at
    # the beginning and at the end; the centre if there is none
    own_begin: Array
    own_end: Array
    shows_other: Array  # [2n] bool, a point of the other class is kept for half a turn from here on


class _Limit(NamedTuple):
    """The strongest limit that kept points of the other class set to the directions of classes."""

    angle: Array  # [2n] infinite if there is no such point
    place: Array  # [2n] int32, the event of the point; negative if it is of the turn before


class Strips(NamedTuple):
    """What limits the strips along the lines of each class."""

    own: Array  # [2n] int32, a kept own point next to the line, or the centre
    first: Array  # [2n] int32, kept points of the other class
    last: Array  # [2n] int32
    # [2n] bool, the points limit the strip; else its bound is infinite
    is_limited: Array
    is_met: Array  # [2n] bool, there may be a strip of the given width


def limit_strips(instance: Instance, centre: Array, view: View, gap: Array) -> Strips:
    """The limits of strips of width `gap` with an edge through a centre, for the classes around it.

    Args:
      instance: the problem.
      centre: [] int32.
      view: the points around the centre.
      gap: [] not negative.
    """
    offset = instance.metric - numerics.take(instance.metric, centre)[:, None]
    angle, first, last = _shadows(offset, gap)
    events = _turn(instance, centre, view, angle)
    begin, end = _limits(events, first, last)
    error = _ANGLE_ERROR * jnp.finfo(offset.dtype).eps
    before, behind = end.angle - events.angle, events.next_angle - begin.angle
    is_met = (before >= -error) & (behind >= -error) & (end.angle - begin.angle >= -error)
    own = jnp.where(
        (events.own_begin != centre) & ((before <= behind) | (events.own_end == centre)),
        events.own_begin,
        events.own_end,
    )
    keeps_begin, keeps_end = _is_kept(begin), _is_kept(end)
    first, last = _point_of(events, begin), _point_of(events, end)
    # a point that is not kept is replaced by the other one
    return Strips(
        own,
        jnp.where(keeps_begin, first, last),
        jnp.where(keeps_end, last, first),
        keeps_begin | keeps_end,
        is_met,
    )


def margin_bounds(instance: Instance, centre: Array, strips: Strips) -> Array:
    """Upper bounds [2n] of the margins of the classes around a centre, which are numbered as in
    `jboost.pair.sweep.visits`. They hold for classes of least loss.
    """
    distance = _distance(instance, centre, strips.own, strips.first, strips.last)
    return jnp.where(strips.is_limited, distance / 2, jnp.inf)


def _is_kept(limit: _Limit) -> Array:
    """Whether classes keep the points of a limit, [2n] bool."""
    number = lax.iota(jnp.int32, limit.place.shape[0])
    return (limit.place > number - number.shape[0] // 2) & (limit.place <= number)


def _point_of(events: _Events, limit: _Limit) -> Array:
    size = limit.place.shape[0]
    return numerics.take(events.point, jnp.where(limit.place < 0, limit.place + size, limit.place))


def _full_turn(x: Array, y: Array) -> Array:
    """A number in [0, 4) that grows with the angle of a vector. A right angle is 1."""
    share = x / jnp.maximum(jnp.abs(x) + jnp.abs(y), jnp.finfo(x.dtype).tiny)
    return jnp.where((y > 0) | ((y == 0) & (x > 0)), 1 - share, 3 + share)


def _shadows(offset: Array, gap: Array) -> tuple[Array, Array, Array]:
    """The direction of each point [n], and the first and the last direction of a line through the
    centre that keeps the point on its right, at a distance of at least `gap`. For a point nearer to
    the centre these two are equal, as if `gap` were its distance.
    """
    squared = offset[0] * offset[0] + offset[1] * offset[1]
    slack = 1 + _LENGTH_ERROR * jnp.finfo(offset.dtype).eps
    squared_along = squared * slack - gap * gap
    along = jnp.sqrt(jnp.maximum(squared_along, 0))
    # turned by nothing, to the left, and to the right
    along = jnp.stack([jnp.ones_like(along), along, along])
    across = (gap * jnp.array([0.0, 1, -1], offset.dtype))[:, None]
    x, y = offset[:, None]
    angle, first, last = _full_turn(along * x - across * y, along * y + across * x)
    return (
        angle,
        first + jnp.where(first < angle - 2, 4, 0),
        last + jnp.where(last > angle + 2, -2, 2),
    )


def _turn(instance: Instance, centre: Array, view: View, angle: Array) -> _Events:
    size = view.order.index.shape[0]
    is_first_half = lax.iota(jnp.int32, 2 * size) < size
    point = jnp.tile(view.order.index, 2)
    upper, own, around = (
        numerics.take(field, point) for field in (view.upper, instance.own, view.off_centre)
    )
    moves_right = upper == is_first_half
    angle = numerics.take(angle, point) + jnp.where(moves_right, 0, jnp.where(upper, 2, -2))
    # The end of each half turn is followed by its beginning, seen from the other side.
    begins = view.order.index[0]
    is_end = ~jnp.append(around[1:], False) | (lax.iota(jnp.int32, 2 * size) == size - 1)
    next_point = jnp.where(is_end, begins, jnp.roll(point, -1))
    next_right = jnp.where(
        is_end, ~(view.upper[begins] == is_first_half), jnp.roll(moves_right, -1)
    )
    next_angle = jnp.where(is_end, angle[0] + jnp.where(is_first_half, 2, 4), jnp.roll(angle, -1))
    return _Events(
        point,
        angle,
        next_angle,
        jnp.where(own & ~moves_right, point, centre),
        jnp.where(numerics.take(instance.own, next_point) & next_right, next_point, centre),
        moves_right & ~own & around,
    )


def _limits(events: _Events, first: Array, last: Array) -> tuple[_Limit, _Limit]:
    """The limits of the directions of each class, from the directions [n] of each point.

    A kept point of the other class has its event in the half turn before the class. Points with
    earlier events limit directions before the class, and those with later events directions behind
    it. Hence the first limit is a maximum over all events before the class, and the second one a
    minimum over all events from half a turn before the class on.
    """
    num_events = events.point.shape[0]
    size = num_events // 2
    both = jnp.where(
        events.shows_other[None],
        jnp.stack([numerics.take(first, events.point), -numerics.take(last, events.point)]),
        -jnp.inf,
    )
    both = jnp.stack([both[0], both[1, ::-1]])
    largest = _running_max(both)
    number = lax.iota(jnp.int32, num_events)[None]
    place = _running_max(jnp.where(both == largest, number, 0))
    # before each event and in the turn before
    begin = _larger(largest[0], place[0], largest[0, -1] - 4, place[0, -1] - num_events)
    # from the event behind each event on
    after = jnp.append(largest[1, -2::-1], -jnp.inf)
    place_after = num_events - 1 - jnp.append(place[1, -2::-1], 0)
    end = _larger(
        jnp.concatenate([after[size:] + 4, after[:size]]),
        jnp.concatenate([place_after[size:] - num_events, place_after[:size]]),
        jnp.where(number[0] < size, largest[1, -1], -jnp.inf),
        num_events - 1 - place[1, -1],
    )
    return begin, _Limit(-end.angle, end.place)


def _running_max(values: Array) -> Array:
    """The largest of values [2, k] up to each entry, in half of the time of `lax.cummax`: first in
    rows of entries, and then over the rows.
    """
    size = values.shape[1]
    lowest = -jnp.inf if jnp.issubdtype(values.dtype, jnp.floating) else jnp.iinfo(values.dtype).min
    rows = jnp.pad(values, ((0, 0), (0, -size % _ROW)), constant_values=lowest)
    rows = rows.reshape(2, -1, _ROW)
    shift = 1
    while shift < _ROW:
        moved = jnp.pad(rows[..., :-shift], ((0, 0), (0, 0), (shift, 0)), constant_values=lowest)
        rows, shift = jnp.maximum(rows, moved), 2 * shift
    before = lax.cummax(rows[..., -1], axis=1)
    before = jnp.pad(before[:, :-1], ((0, 0), (1, 0)), constant_values=lowest)
    return jnp.maximum(rows, before[..., None]).reshape(2, -1)[:, :size]


def _larger(angle: Array, place: Array, other: Array, other_place: Array) -> _Limit:
    return _Limit(jnp.maximum(angle, other), jnp.where(angle >= other, place, other_place))


def _distance(instance: Instance, centre: Array, own: Array, first: Array, last: Array) -> Array:
    """The distance [2n], rounded up, between two segments that do not intersect: from the centre to
    a point, and between two other points.
    """
    metric = instance.metric
    a = jnp.broadcast_to(numerics.take(metric, centre)[:, None], (2, *own.shape))
    b, c, d = (numerics.take(metric, point) for point in (own, first, last))
    # the triangles of a point and a segment, as sides from the point and along the segment
    corner, start, end = (
        jnp.stack(points, axis=1) for points in ((a, b, c, d), (c, c, a, a), (d, d, b, b))
    )
    p, q, r = start - corner, end - corner, end - start
    pp, qq, rr = (side[0] * side[0] + side[1] * side[1] for side in (p, q, r))
    # The product of the two shortest sides has the least rounding error.
    left = jnp.where(((pp >= qq) & (pp >= rr))[None], q, p)
    right = jnp.where(((rr > pp) & (rr > qq))[None], q, r)
    products = left * right[::-1]
    eps = float(jnp.finfo(metric.dtype).eps)
    # Products of integers are exact in float64.
    product_error = jnp.where(
        instance.on_grid & (metric.dtype.itemsize == 8), 0, _PRODUCT_ERROR * eps
    )
    sizes = jnp.abs(products)
    area = jnp.abs(products[0] - products[1]) + (sizes[0] + sizes[1]) * product_error
    is_beside = jnp.abs(pp - qq) < rr - _LENGTH_ERROR * eps * (pp + qq)
    height = numerics.safe_divide(area, jnp.sqrt(rr))
    distance = jnp.where(is_beside, height, jnp.sqrt(jnp.minimum(pp, qq)))
    return reduce.least(distance, axis=0) * (1 + _DISTANCE_ERROR * eps)
