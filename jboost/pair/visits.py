"""The exact part: centres that may hold the optimum are visited one by one, every comparison without rounding error.

Paper 000, Section 2.1 and Theorem 2.13: among all separator sets of least weight the one of largest margin. An optimal set
has an open class at each of its support points, so the visits meet every optimal set. One step of the loop visits one class
that is optimal so far: under `vmap` the loop stays flat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics
from jboost.base.types import Array, PyTree
from jboost.geometry import angular, hulls
from jboost.pair.instance import Instance
from jboost.pair.sweep import Bracket, look_around


class Incumbent(NamedTuple):
    """The best separator so far."""

    loss: Array  # [] integer
    margin: Array  # [] infinite for a constant classifier
    is_constant: Array  # [] bool
    on_own_side: Array  # [n] bool
    normal_x: Array  # [] in metric coordinates, points to the own side; 0 for a constant
    normal_y: Array  # []


class _Tour(NamedTuple):
    """Where the visits stand: the rank of a place by lower bound, the last class seen there, and the best so far."""

    rank: Array  # [] int32
    cursor: Array  # [] int32, -1 before the first class of a place
    best: PyTree


class _Classes(NamedTuple):
    """All open classes through one centre, first those with the own class on the left, then those with it on the right."""

    losses: Array  # [2n] integer, the largest where there is no class
    margin_bounds: Array  # [2n] no separator set of the class has a larger margin
    position: Array  # [n] int32, the place of each point in the angular order
    upper: Array  # [n] bool
    off_centre: Array  # [n] bool


def best_constant(instance: Instance) -> Incumbent:
    """The better of the two constant classifiers, the one that keeps the own class if they tie."""
    own_weight = numerics.masked_sum(instance.weights, instance.own)
    other_weight = numerics.masked_sum(instance.weights, instance.live & ~instance.own)
    keeps_own = other_weight <= own_weight
    nothing = jnp.zeros((), instance.x.dtype)
    return Incumbent(
        loss=jnp.minimum(own_weight, other_weight),
        margin=jnp.full((), jnp.inf, instance.x.dtype),
        is_constant=jnp.ones((), bool),
        on_own_side=jnp.broadcast_to(keeps_own, instance.own.shape),
        normal_x=nothing,
        normal_y=nothing,
    )


def visit_centres(instance: Instance, centres: Array, brackets: Bracket, *, all_optima: bool, flip_misclassified: bool) -> Incumbent:
    """The exact optimum, from brackets of the loss round every centre.

    Args:
      instance: the problem.
      centres: [c] int32.
      brackets: fields [c].
      all_optima: compare the margins of all optimal separator sets, instead of taking the first.
      flip_misclassified: measure margins with the misclassified points flipped, instead of removed.
    """

    def open_classes(centre: Array) -> _Classes:
        return _open_classes(instance, centre)

    def separate(centre: Array, classes: _Classes, chosen: Array, floor: Array) -> Incumbent:
        return _fat_separator(instance, centre, classes, chosen, floor, flip_misclassified)

    return tour(brackets.lower, centres, open_classes, separate, best_constant(instance), all_optima=all_optima)


def tour(
    lower: Array,
    places: Array,
    open_classes: Callable[[Array], Any],
    separate: Callable[[Array, Any, Array, Array], PyTree],
    start: PyTree,
    *,
    all_optima: bool,
) -> PyTree:
    """The best separator at places [c] with lower bounds [c] of their losses, or the one to start from.

    Args:
      lower: [c] integer.
      places: [c] int32.
      open_classes: from a place to its classes, a record with `losses` and `margin_bounds` [k], the largest integer where there is no class.
      separate: (place, classes, chosen, floor) to the separator of one class, if its margin exceeds the floor; else any with a margin up to that.
      start: a separator with `loss`, `margin` and `is_constant`.
      all_optima: compare the margins of all optimal separator sets, instead of taking the first.
    """
    lower, order = lax.sort((lower, places), num_keys=1)
    capacity = order.shape[0]

    def unfinished(tour: _Tour) -> Array:
        next_lower = lower[jnp.minimum(tour.rank, capacity - 1)]
        worth_it = next_lower < tour.best.loss
        if all_optima:
            worth_it |= (next_lower == tour.best.loss) & ~tour.best.is_constant
        return (tour.rank < capacity) & worth_it

    def visit(tour: _Tour) -> _Tour:
        place = order[jnp.minimum(tour.rank, capacity - 1)]
        classes = open_classes(place)
        least = jnp.min(classes.losses)
        improves = least < tour.best.loss
        number = lax.iota(jnp.int32, classes.losses.shape[0])
        promising = improves | (classes.margin_bounds > tour.best.margin)
        waiting = (classes.losses == least) & (improves | (least == tour.best.loss)) & promising & (improves | (number > tour.cursor))
        chosen = numerics.first_true(waiting)
        found = chosen < number.shape[0]
        floor = jnp.where(found & ~improves, tour.best.margin, jnp.where(found, -1, jnp.inf))
        candidate = separate(place, classes, jnp.minimum(chosen, number.shape[0] - 1), floor)
        better = found & (improves | (candidate.margin > tour.best.margin))
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), candidate, tour.best)
        more = jnp.any(waiting & (number > chosen)) & all_optima
        return _Tour(jnp.where(more, tour.rank, tour.rank + 1), jnp.where(more, chosen, -1), best)

    first = _Tour(jnp.zeros((), jnp.int32), jnp.full((), -1, jnp.int32), start)
    return loops.while_loop(unfinished, visit, first).best


def _open_classes(instance: Instance, centre: Array) -> _Classes:
    centre_x, centre_y = instance.x[centre], instance.y[centre]
    radial = look_around(instance, centre_x, centre_y)
    order = angular.exact_half_turn_order(instance.x, instance.y, centre_x, centre_y, radial.off_centre)
    size = instance.x.shape[0]
    position = jnp.zeros(size, jnp.int32).at[order.index].set(lax.iota(jnp.int32, size))
    losses = radial.start + jnp.cumsum(radial.steps[order.index])
    ends = jnp.concatenate([~order.joined[1:], jnp.ones(1, bool)])
    none = jnp.iinfo(losses.dtype).max
    both = jnp.concatenate([losses, radial.total - losses]) + radial.at_centre
    upper = angular.is_upper(instance.x - centre_x, instance.y - centre_y)
    other = instance.live & ~instance.own & radial.off_centre
    squared = jnp.where(other, _squared_distances(instance, centre), jnp.inf)[order.index]
    bounds = reach(squared, upper[order.index])
    return _Classes(jnp.where(jnp.concatenate([ends, ends]), both, none), bounds, position, upper, radial.off_centre)


def _squared_distances(instance: Instance, centre: Array) -> Array:
    dx, dy = instance.metric_x - instance.metric_x[centre], instance.metric_y - instance.metric_y[centre]
    return dx * dx + dy * dy


def reach(squared: Array, upper: Array) -> Array:
    """Half the distance from the centre to the nearest point of the other class that each class keeps, rounded up, [2n].

    The centre is kept, so no margin exceeds it. With the own class on the left a class keeps the upper points that were
    passed and the lower ones that were not; on the right the others.
    """
    above, below = jnp.where(upper, squared, jnp.inf), jnp.where(upper, jnp.inf, squared)
    infinite = jnp.full(1, jnp.inf, squared.dtype)

    def passed(distances: Array) -> Array:
        return lax.cummin(distances)

    def ahead(distances: Array) -> Array:
        return jnp.concatenate([lax.cummin(distances, reverse=True)[1:], infinite])

    left = jnp.minimum(passed(above), ahead(below))
    right = jnp.minimum(passed(below), ahead(above))
    slack = 1 + 16 * jnp.finfo(squared.dtype).eps
    return jnp.sqrt(jnp.concatenate([left, right])) * (slack / 2)


def _fat_separator(instance: Instance, centre: Array, classes: _Classes, chosen: Array, floor: Array, flip_misclassified: bool) -> Incumbent:
    """The bisector of the hulls on the two sides of one open class, if its margin exceeds `floor`; else any margin up to that."""
    size = instance.x.shape[0]
    own_on_right, rank = chosen >= size, chosen % size
    passed = classes.position <= rank
    on_left = classes.upper != passed
    on_own_side = jnp.where(classes.off_centre, on_left != own_on_right, True)
    kept = instance.live & (on_own_side == instance.own)
    counted = instance.live if flip_misclassified else kept
    own_side, other_side = counted & on_own_side, counted & ~on_own_side
    squared = jnp.where(other_side, _squared_distances(instance, centre), jnp.inf)
    nearest = jnp.minimum(numerics.first_true(squared == jnp.min(squared)), size - 1)
    hull = hulls.hull_distance(instance.metric_x, instance.metric_y, own_side, other_side, start=(centre, nearest), floor=2 * floor)
    none_other = ~jnp.any(other_side)
    return Incumbent(
        loss=classes.losses[chosen],
        margin=jnp.where(none_other, jnp.inf, hull.distance / 2),
        is_constant=none_other,
        on_own_side=on_own_side,
        normal_x=jnp.where(none_other, 0, hull.normal_x),
        normal_y=jnp.where(none_other, 0, hull.normal_y),
    )
