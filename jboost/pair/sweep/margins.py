"""Upper bounds of the margins of all classes of lines through one centre.

A separator set of margin g keeps its points outside a strip of width 2 g. Let one edge of the strip
turn around the centre, an own point. A kept point of the other class must be at least 2 g away from
this edge. At distance r it therefore excludes all directions within asin(2 g / r) of its own one.
If the kept points exclude all directions of a class, its margin is less than g. Else the points
that exclude the most on both sides, and the own point next to the line, bound the margin: it is at
most half of the distance between the own points and the others among these. For g close to the
margin these points are usually the support points, and the bound is the margin.

The directions are excluded by running maxima over the angular order, for all classes at once. Most
classes have none left. The points and the bounds are computed only for the others, in blocks of
one size. This replaces the hierarchical hulls of Boyarshinov and Magdon-Ismail (2005), Section 2.4.
Rounding makes every bound larger.

A line that makes a full turn around a centre, with the own class on its left, has 2n events, one
for each point in each half of the turn. Each event is followed by a class, which has its number.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import numerics, reduce, sequences
from jboost.base.types import Array
from jboost.geometry.angular import HalfTurnOrder
from jboost.pair.sweep.instance import LineInstance

# Angles are numbers from -4 to 8, see `_full_turn`. Their rounding errors are less than this many
# units of eps.
_ANGLE_ERROR = 64
# Relative errors of squared lengths are less than this many units of eps, those of distances, and
# those of a product of two sides in relation to the products of their coordinates.
_LENGTH_ERROR, _DISTANCE_ERROR, _PRODUCT_ERROR = 16, 4, 2


class View(NamedTuple):
    """The points around each of w centres in exact angular order."""

    # fields [w, n]; the points that are not around the centre come last
    order: HalfTurnOrder
    upper: Array  # [w, n] bool, see `jboost.geometry.angular.is_upper`
    off_centre: Array  # [w, n] bool, live and not at the centre


class Limits(NamedTuple):
    """What limits the directions of strips along the lines of each class."""

    is_met: Array  # [w, 2n] bool, there may be a strip of the given width
    angle: Array  # [w, 2n] of the line at the event before the class
    next_angle: Array  # [w, 2n] at the event behind it
    # [w, 2, 2n] over the events up to each one, the largest first direction of a kept point of the
    # other class; and in reversed order, the largest of minus its last direction
    reached: Array


class _AngleLimit(NamedTuple):
    """The strongest limit that kept points of the other class set to the directions of a class."""

    angle: Array  # infinite if there is no such point
    place: Array  # int32, the event of the point; negative if it is of the turn before


def limit_directions(instance: LineInstance, places: Array, view: View, gap: Array) -> Limits:
    """The limits of strips of width `gap` with an edge through a centre, for all classes.

    A kept point of the other class has its event in the half turn before the class. Points with
    earlier events limit directions before the class, and those with later events directions behind
    it. Hence the first limit is a maximum over all events before the class, and the second one a
    minimum over all events from half a turn before the class on.

    Args:
      instance: the problem.
      places: [w] int32, the centres.
      view: the points around the centres.
      gap: [] not negative.
    """
    offset = instance.metric[:, None] - numerics.take(instance.metric, places)[..., None]
    of_points = _shadows(offset, gap)
    take = jax.vmap(numerics.take)
    angle, first, last = (take(each, view.order.index) for each in of_points)
    is_upper, is_around, is_other = (
        take(each, view.order.index)
        for each in (view.upper, view.off_centre, view.off_centre & ~instance.own[None])
    )
    angles = jnp.where(is_upper, angle, angle - 2), jnp.where(is_upper, angle + 2, angle)
    next_angles = _angles_behind(*angles, is_around)
    nothing = jnp.full_like(angle, -jnp.inf)
    shown = is_upper & is_other, ~is_upper & is_other
    forwards = jnp.concatenate([jnp.where(each, first, nothing) for each in shown], axis=1)
    backwards = jnp.concatenate([jnp.where(each, -last, nothing) for each in shown], axis=1)
    reached = sequences.running_max(jnp.stack([forwards, backwards[:, ::-1]], axis=1))
    begin, end = _limits_of_all(reached)
    angle, next_angle = jnp.concatenate(angles, axis=1), jnp.concatenate(next_angles, axis=1)
    error = _ANGLE_ERROR * jnp.finfo(angle.dtype).eps
    is_met = (end - angle >= -error) & (next_angle - begin >= -error) & (end - begin >= -error)
    return Limits(is_met, angle, next_angle, reached)


def _angles_behind(first: Array, second: Array, is_around: Array) -> tuple[Array, Array]:
    """The angles of the next events, from those of the events of both half turns."""
    goes_on = jnp.pad(is_around[:, 1:], ((0, 0), (0, 1)))
    return (
        jnp.where(goes_on, jnp.roll(first, -1, axis=1), second[:, :1]),
        jnp.where(goes_on, jnp.roll(second, -1, axis=1), first[:, :1] + 4),
    )


def bound_margins(
    instance: LineInstance, places: Array, view: View, limits: Limits, is_open: Array
) -> Array:
    """Upper bounds [w, 2n] of the margins of the open classes, and -inf for the others. They hold
    for classes of least loss.

    Args:
      instance: the problem.
      places: [w] int32, the centres.
      view: the points around the centres.
      limits: of `limit_directions`.
      is_open: [w, 2n] bool.
    """
    width = is_open.shape[1]

    def bounds_of(entries: Array) -> Array:
        return _bounds(instance, places, view, limits, entries // width, entries % width)

    none = jnp.full((), -jnp.inf, limits.angle.dtype)
    return sequences.over_marked(is_open.reshape(-1), bounds_of, none).reshape(is_open.shape)


def _bounds(
    instance: LineInstance, places: Array, view: View, limits: Limits, row: Array, number: Array
) -> Array:
    """Bounds [b] of the margins of the classes of these rows and numbers, [b] each."""
    centre, size = numerics.take(places, row), view.upper.shape[1]
    begin, end = _limits_of(limits, row, number)
    before = end.angle - _entries(limits.angle, row, number)
    behind = _entries(limits.next_angle, row, number) - begin.angle
    numbers = jnp.stack([number, _next_event(view, row, number), begin.place, end.place])
    point, moves_right = _events(
        view, row[None], jnp.where(numbers < 0, numbers + 2 * size, numbers)
    )
    own = _nearer_own(instance, centre, point[:2], moves_right[:2], before <= behind)
    keeps_begin, keeps_end = (_is_kept(limit, number, size) for limit in (begin, end))
    _, _, first, last = point
    # a point that is not kept is replaced by the other one
    distance = _distance(
        instance,
        centre,
        own,
        jnp.where(keeps_begin, first, last),
        jnp.where(keeps_end, last, first),
    )
    return jnp.where(keeps_begin | keeps_end, distance / 2, jnp.inf)


def _nearer_own(
    instance: LineInstance, centre: Array, point: Array, moves_right: Array, prefers_begin: Array
) -> Array:
    """An own point that each class keeps and that ends the interval of its directions; the centre
    if there is none. The events at the beginning and at the end are given, [2, b].
    """
    begin, end = point
    is_own = numerics.take(instance.own, point)
    at_end = jnp.where(is_own[1] & moves_right[1], end, centre)
    is_begin = is_own[0] & ~moves_right[0] & (begin != centre)
    return jnp.where(is_begin & (prefers_begin | (at_end == centre)), begin, at_end)


def _entries(values: Array, row: Array, column: Array) -> Array:
    """The entries of values [w, k] in these rows and columns."""
    return numerics.take(values.reshape(-1), row * values.shape[1] + column)


def _events(view: View, row: Array, number: Array) -> tuple[Array, Array]:
    """The points of some events, and whether the line moves so that they change to its right."""
    size = view.upper.shape[1]
    is_first_half = number < size
    point = _entries(view.order.index, row, jnp.where(is_first_half, number, number - size))
    return point, _entries(view.upper, row, point) == is_first_half


def _next_event(view: View, row: Array, number: Array) -> Array:
    """The number of the event behind each class.

    The end of each half turn is followed by its beginning, seen from the other side.
    """
    size = view.upper.shape[1]
    is_first_half = number < size
    position = jnp.where(is_first_half, number, number - size)
    follower = _entries(view.order.index, row, jnp.minimum(position + 1, size - 1))
    goes_on = _entries(view.off_centre, row, follower) & (position < size - 1)
    return jnp.where(goes_on, number + 1, jnp.where(is_first_half, size, 0))


def _is_kept(limit: _AngleLimit, number: Array, size: int) -> Array:
    """Whether classes keep the points of their limits."""
    return (limit.place > number - size) & (limit.place <= number) & jnp.isfinite(limit.angle)


def _full_turn(x: Array, y: Array) -> Array:
    """A number in [0, 4) that grows with the angle of a vector. A right angle is 1."""
    share = x / jnp.maximum(jnp.abs(x) + jnp.abs(y), jnp.finfo(x.dtype).tiny)
    return jnp.where((y > 0) | ((y == 0) & (x > 0)), 1 - share, 3 + share)


def _shadows(offset: Array, gap: Array) -> tuple[Array, Array, Array]:
    """The direction of each point [w, n], and the first and the last direction of a line through
    the centre that keeps the point on its right, at a distance of at least `gap`. For a point
    nearer to the centre these two are equal, as if `gap` were its distance.
    """
    squared = offset[0] * offset[0] + offset[1] * offset[1]
    slack = 1 + _LENGTH_ERROR * jnp.finfo(offset.dtype).eps
    along = jnp.sqrt(jnp.maximum(squared * slack - gap * gap, 0))
    x, y = offset
    # not turned, turned to the left, and to the right
    angle = _full_turn(x, y)
    first = _full_turn(along * x - gap * y, along * y + gap * x)
    last = _full_turn(along * x + gap * y, along * y - gap * x)
    return (
        angle,
        first + jnp.where(first < angle - 2, 4, 0),
        last + jnp.where(last > angle + 2, -2, 2),
    )


def _limits_of_all(reached: Array) -> tuple[Array, Array]:
    """The limits of the directions of each class [w, 2n], from `Limits.reached`. Those without a
    point are infinite.
    """
    forwards, backwards = reached[:, 0], reached[:, 1]
    size = forwards.shape[1] // 2
    # before each event and in the turn before
    begin = jnp.maximum(forwards, forwards[:, -1:] - 4)
    # from the event behind each event on
    after = jnp.pad(backwards[:, -2::-1], ((0, 0), (0, 1)), constant_values=-jnp.inf)
    end = jnp.concatenate(
        [jnp.maximum(after[:, size:] + 4, backwards[:, -1:]), after[:, :size]], axis=1
    )
    return begin, -end


def _limits_of(limits: Limits, row: Array, number: Array) -> tuple[_AngleLimit, _AngleLimit]:
    """`_limits_of_all` for the classes [b] of these rows and numbers, with the points."""
    num_events = limits.angle.shape[1]
    size, values = num_events // 2, limits.reached.reshape(-1)
    is_first_half = number < size
    # The second limit counts from the last event back, down to half a turn before the class.
    back = num_events - 2 - jnp.where(is_first_half, number + size, number - size)
    start = num_events * jnp.stack([2 * row, 2 * row + 1])
    forwards, backwards = numerics.take(values, start + jnp.stack([number, jnp.maximum(back, 0)]))
    backwards = jnp.where(back >= 0, backwards, -jnp.inf)
    angle = jnp.where(is_first_half, backwards + 4, backwards)
    largest, of_turn = numerics.take(values, start + num_events - 1)
    of_turn = jnp.where(is_first_half, of_turn, -jnp.inf)
    in_turn, is_earlier = forwards >= largest - 4, angle >= of_turn
    wanted = jnp.where(in_turn, forwards, largest), jnp.where(is_earlier, backwards, of_turn)
    place, back = sequences.first_reaching(values, start, num_events, jnp.stack(wanted))
    place_of_end = num_events - 1 - back
    return (
        _AngleLimit(
            jnp.maximum(forwards, largest - 4), jnp.where(in_turn, place, place - num_events)
        ),
        _AngleLimit(
            -jnp.maximum(angle, of_turn),
            jnp.where(is_earlier & is_first_half, place_of_end - num_events, place_of_end),
        ),
    )


def _distance(
    instance: LineInstance, centre: Array, own: Array, first: Array, last: Array
) -> Array:
    """The distances [b], rounded up, between two segments that do not intersect: from the centre to
    a point, and between two other points.
    """
    metric = instance.metric
    a, b, c, d = (numerics.take(metric, point) for point in (centre, own, first, last))
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
