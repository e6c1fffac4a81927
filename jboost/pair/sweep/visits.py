"""The exact step of the sweep: evaluates the centres that may be optimal one by one. All
comparisons are free of rounding errors.

The result is the separator set of largest margin among those of least weight (Boyarshinov and
Magdon-Ismail 2005, Section 2.1 and Theorem 2.13). An optimal set has an open class at each of its
support points, so that the loop finds every optimal set. One step of the loop evaluates one class
that is optimal so far. There is no inner loop, which keeps `vmap` efficient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array, PyTree
from jboost.geometry import angular, hulls
from jboost.pair.sweep.brackets import look_around
from jboost.pair.sweep.instance import Instance
from jboost.pair.types import Fat


class Incumbent(NamedTuple):
    """The best separator so far."""

    loss: Array  # [] integer
    margin: Array  # [] infinite for a constant classifier
    is_constant: Array  # [] bool
    on_own_side: Array  # [n] bool
    normal: Array  # [2] in metric coordinates, points to the own side; 0 for a constant


class _Enumeration(NamedTuple):
    """The state of the loop: the rank of a centre by lower bound, the last class evaluated there,
    and the best result so far.
    """

    rank: Array  # [] int32
    cursor: Array  # [] int32, -1 before the first class of a centre
    best: PyTree


class _Classes(NamedTuple):
    """All open classes through one centre, first those with the own class on the left, then those
    with it on the right.
    """

    losses: Array  # [2n] integer; the largest integer where there is no class
    margin_bounds: Array  # [2n] upper bounds of the margin of the separator sets of each class
    position: Array  # [n] int32, the position of each point in angular order
    upper: Array  # [n] bool
    off_centre: Array  # [n] bool


def best_constant(instance: Instance) -> Incumbent:
    """The better of the two constant classifiers, the one that keeps the own class if they tie."""
    own_weight, other_weight = class_weights(instance)
    keeps_own = other_weight <= own_weight
    return Incumbent(
        loss=jnp.minimum(own_weight, other_weight),
        margin=jnp.full((), jnp.inf, instance.metric.dtype),
        is_constant=jnp.ones((), bool),
        on_own_side=jnp.broadcast_to(keeps_own, instance.own.shape),
        normal=jnp.zeros(2, instance.metric.dtype),
    )


def class_weights(instance: Instance) -> tuple[Array, Array]:
    """The weight of the own class, and of the other one."""
    nothing = jnp.zeros((), instance.weights.dtype)
    own, other = (
        jnp.where(members, instance.weights, nothing)
        for members in (instance.own, instance.live & ~instance.own)
    )
    return reduce.totals(own, other)


def visit_centres(
    instance: Instance, centres: Array, bounds: Array, *, all_optima: bool, fat: Fat
) -> Incumbent:
    """The exact optimum, from lower bounds of the loss around every centre.

    Args:
      instance: the problem.
      centres: [c] int32.
      bounds: [c] integer.
      all_optima: compare the margins of all optimal separator sets, instead of taking the first.
      fat: "removed" or "flipped": margins without the misclassified points, or with their labels
        flipped.
    """

    def open_classes(centre: Array) -> _Classes:
        return _open_classes(instance, centre)

    def separate(centre: Array, classes: _Classes, chosen: Chosen) -> Incumbent:
        return _fat_separator(instance, centre, classes, chosen, fat)

    return visit_by_bound(
        bounds, centres, open_classes, separate, best_constant(instance), all_optima=all_optima
    )


class Chosen(NamedTuple):
    """A class whose separator is computed next."""

    number: Array  # [] int32
    loss: Array  # [] integer
    floor: Array  # [] margins up to this one need not be computed exactly


def visit_by_bound(
    lower: Array,
    places: Array,
    open_classes: Callable[[Array], Any],
    separate: Callable[[Array, Any, Chosen], PyTree],
    start: PyTree,
    *,
    all_optima: bool,
) -> PyTree:
    """The best separator at c places, or `start` if none is better. Places are visited by
    increasing lower bound of their loss.

    Args:
      lower: [c] integer, lower bounds of the losses.
      places: [c] int32, the index of each place (a centre or an axis).
      open_classes: place -> classes, a record with `losses` and `margin_bounds` [k]. The loss is
        the largest integer where there is no class.
      separate: (place, classes, chosen) -> the separator of the chosen class. If its margin is at
        most the floor, the returned margin is any number up to the floor.
      start: a separator with `loss`, `margin` and `is_constant`.
      all_optima: compare the margins of all optimal separator sets, instead of taking the first.
    """
    lower, order = lax.sort((lower, places), num_keys=1)
    capacity = order.shape[0]

    def unfinished(state: _Enumeration) -> Array:
        next_lower = numerics.take(lower, jnp.minimum(state.rank, capacity - 1))
        worth_it = next_lower < state.best.loss
        if all_optima:
            worth_it |= (next_lower == state.best.loss) & ~state.best.is_constant
        return (state.rank < capacity) & worth_it

    def visit(state: _Enumeration) -> _Enumeration:
        place = numerics.take(order, jnp.minimum(state.rank, capacity - 1))
        classes = open_classes(place)
        loss, first, last = _promising(classes.losses, classes.margin_bounds, state)
        size = classes.losses.shape[0]
        found, improves = first < size, loss < state.best.loss
        floor = jnp.where(found & ~improves, state.best.margin, jnp.where(found, -1, jnp.inf))
        candidate = separate(place, classes, Chosen(jnp.minimum(first, size - 1), loss, floor))
        better = found & (improves | (candidate.margin > state.best.margin))
        best = loops.cond(better, lambda: candidate, lambda: state.best)
        more = (last > first) & all_optima
        return _Enumeration(
            jnp.where(more, state.rank, state.rank + 1), jnp.where(more, first, -1), best
        )

    first = _Enumeration(jnp.zeros((), jnp.int32), jnp.full((), -1, jnp.int32), start)
    return loops.while_loop(unfinished, visit, first).best


def _promising(
    losses: Array, margin_bounds: Array, state: _Enumeration
) -> tuple[Array, Array, Array]:
    """The least loss of the classes [k] of a place that may improve on the best separator, and the
    first and the last class with this loss.

    If there is no such class, the first number is at least k and the last one is negative.
    """
    size, best = losses.shape[0], state.best
    number = lax.iota(jnp.int32, size)
    ties = (losses == best.loss) & (margin_bounds > best.margin) & (number > state.cursor)
    is_promising = (losses < best.loss) | ties
    loss = jnp.where(is_promising, losses, jnp.iinfo(losses.dtype).max)
    order, reverse = jnp.where(is_promising, number, size), jnp.where(is_promising, -number, 1)
    (least, first), (_, last) = reduce.lexicographic_leasts((loss, order), (loss, reverse))
    return least, first, -last


def _open_classes(instance: Instance, centre: Array) -> _Classes:
    at = numerics.take(instance.points, centre)
    radial = look_around(instance, at)
    order = angular.exact_half_turn_order(instance.points, at, radial.off_centre)
    position = angular.positions(order)
    losses = radial.start + jnp.cumsum(numerics.take(radial.steps, order.index))
    ends = jnp.append(~order.joined[1:], True)
    none = jnp.iinfo(losses.dtype).max
    both = jnp.stack([losses, radial.total - losses]) + radial.at_centre
    upper = angular.is_upper(*(instance.points - at[:, None]))
    other = instance.live & ~instance.own & radial.off_centre
    squared = numerics.take(
        jnp.where(other, _squared_distances(instance, centre), jnp.inf), order.index
    )
    bounds = reach(squared, numerics.take(upper, order.index))
    return _Classes(
        jnp.where(ends, both, none).reshape(-1), bounds, position, upper, radial.off_centre
    )


def _squared_distances(instance: Instance, centre: Array) -> Array:
    dx, dy = instance.metric - numerics.take(instance.metric, centre)[:, None]
    return dx * dx + dy * dy


def reach(squared: Array, upper: Array) -> Array:
    """An upper bound [2n] of the margin of each class: half the distance from the centre to the
    nearest point of the other class that the class classifies correctly, rounded up.

    The bound holds because the centre itself is kept. With the own class on the left, a class keeps
    the upper points that the line has passed and the lower points that it has not passed. With the
    own class on the right it keeps the others.
    """
    halves = jnp.where(upper[None] == jnp.array([[True], [False]]), squared[None], jnp.inf)
    passed, ahead = lax.cummin(jnp.stack([halves, halves[::-1, ::-1]]), axis=2)
    ahead = jnp.pad(ahead[:, -2::-1], ((0, 0), (0, 1)), constant_values=jnp.inf)
    slack = 1 + 16 * jnp.finfo(squared.dtype).eps
    return jnp.sqrt(jnp.minimum(passed, ahead)).reshape(-1) * (slack / 2)


def _fat_separator(
    instance: Instance, centre: Array, classes: _Classes, chosen: Chosen, fat: Fat
) -> Incumbent:
    """The bisector of the hulls on the two sides of one open class. If its margin is at most the
    floor, the returned margin is any number up to the floor.
    """
    size = instance.own.shape[0]
    own_on_right, rank = chosen.number >= size, chosen.number % size
    passed = classes.position <= rank
    on_left = classes.upper != passed
    on_own_side = jnp.where(classes.off_centre, on_left != own_on_right, True)
    kept = instance.live & (on_own_side == instance.own)
    counted = instance.live if fat == "flipped" else kept
    own_side, other_side = counted & on_own_side, counted & ~on_own_side
    squared, nearest = reduce.first_least(
        jnp.where(other_side, _squared_distances(instance, centre), jnp.inf)
    )
    start = centre, jnp.minimum(nearest, size - 1)
    hull = hulls.hull_distance(
        instance.metric, own_side, other_side, start=start, floor=2 * chosen.floor
    )
    none_other = squared == jnp.inf
    return Incumbent(
        loss=chosen.loss,
        margin=jnp.where(none_other, jnp.inf, hull.distance / 2),
        is_constant=none_other,
        on_own_side=on_own_side,
        normal=jnp.where(none_other, 0, hull.normal),
    )
