"""The exact step in space: evaluates the axes that may be optimal one by one, and compares the
margins of the optimal sets.

An optimal set has a class at each support point of its own side, so that the loop finds every
optimal set.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry import angular
from jboost.geometry.hulls import HullDistance
from jboost.pair.space import hulls
from jboost.pair.space.axes import Axis, look_along
from jboost.pair.space.enumeration import reach, visit_by_bound
from jboost.pair.space.problem import PlaneProblem
from jboost.pair.space.sweep import Axes
from jboost.pair.sweep import look_around
from jboost.pair.sweep.visits import Chosen, Incumbent
from jboost.pair.types import Fat


class _AxisClasses(NamedTuple):
    """All classes of one axis, [2 tilts, 2 orientations, n intervals] flattened."""

    axis: Axis
    losses: Array  # [4n] integer; the largest integer where there is no class
    margin_bounds: Array  # [4n] upper bounds of the margin of the separator sets of each class
    position: Array  # [n] int32, the position of each point in angular order
    upper: Array  # [n] bool
    off_axis: Array  # [n] bool


def best_constant(problem: PlaneProblem) -> Incumbent:
    """The better of the two constant classifiers, the one that keeps the own class if they tie."""
    own_weight = numerics.masked_sum(problem.weights, problem.own)
    other_weight = numerics.masked_sum(problem.weights, problem.live & ~problem.own)
    return Incumbent(
        loss=problem.base + jnp.minimum(own_weight, other_weight),
        margin=jnp.full((), jnp.inf, problem.points.dtype),
        is_constant=jnp.ones((), bool),
        on_own_side=jnp.broadcast_to(other_weight <= own_weight, problem.own.shape),
        normal=jnp.zeros(3, problem.points.dtype),
    )


def visit_axes(
    problem: PlaneProblem, axes: Axes, bounds: Array, *, all_optima: bool, fat: Fat
) -> Incumbent:
    """The optimum, from lower bounds of the loss around every axis. If `problem.is_exact` is False,
    it is the best separator that is certain to attain its loss.

    Args:
      problem: the problem.
      axes: of the problem.
      bounds: [c] integer, of the axes in their order.
      all_optima: compare the margins of all optimal separator sets, instead of taking the first.
      fat: "removed" or "flipped": margins without the misclassified points, or with their labels
        flipped.
    """

    def open_classes(place: Array) -> _AxisClasses:
        return _open_classes(problem, *axes.ends(place))

    def separate(place: Array, classes: _AxisClasses, chosen: Chosen) -> Incumbent:
        centre, _ = axes.ends(place)
        return _fat_separator(problem, centre, classes, chosen, fat)

    places = lax.iota(jnp.int32, bounds.shape[0])
    return visit_by_bound(
        bounds, places, open_classes, separate, best_constant(problem), all_optima=all_optima
    )


def _open_classes(problem: PlaneProblem, centre: Array, second: Array) -> _AxisClasses:
    axis = look_along(problem, centre, second)
    flat, origin = axis.flat, jnp.zeros(2, problem.points.dtype)
    radial = look_around(flat, origin)
    arguments = flat.points, origin, radial.off_centre
    order = loops.cond(
        problem.is_exact, angular.exact_half_turn_order, angular.half_turn_order, *arguments
    )
    position = angular.positions(order)
    sums = radial.start + jnp.cumsum(radial.steps[order.index])
    interval_ends = ~jnp.roll(order.joined, -1)
    both = jnp.where(
        interval_ends, jnp.stack([sums, radial.total - sums]), jnp.iinfo(sums.dtype).max // 2
    )
    losses = both[None] + axis.tilts[:, None, None]
    upper = angular.is_upper(flat.x, flat.y)
    other = problem.live & ~problem.own & radial.off_centre
    squared = jnp.where(other, _squared_distances(problem, centre), jnp.inf)[order.index]
    bounds = reach(squared, upper[order.index])
    return _AxisClasses(
        axis,
        losses.reshape(-1),
        jnp.concatenate([bounds, bounds]),
        position,
        upper,
        radial.off_centre,
    )


def _squared_distances(problem: PlaneProblem, centre: Array) -> Array:
    offset = problem.metric - problem.metric[centre][None]
    return hulls.dot(offset, offset)


def _own_side(classes: _AxisClasses, chosen: Array) -> Array:
    """Which points [n] lie on the own side of the planes of one class."""
    size = classes.upper.shape[0]
    tilted_back, own_on_right, rank = chosen >= 2 * size, (chosen // size) % 2 == 1, chosen % size
    on_left = classes.upper != (classes.position <= rank)
    fallen = jnp.where(tilted_back, classes.axis.ahead, classes.axis.behind)
    return jnp.where(classes.off_axis, on_left != own_on_right, ~fallen)


def fat_split(problem: PlaneProblem, on_own_side: Array, loss: Array, fat: Fat) -> Incumbent:
    """The bisector of the hulls on the two sides of a split [n] bool, with a loss that is known."""
    first, second = _sides(problem, on_own_side, fat)
    start = numerics.first_true(first), numerics.first_true(second)
    last = jnp.full((), on_own_side.shape[0] - 1, jnp.int32)
    hull = hulls.hull_distance(
        problem.metric,
        first,
        second,
        start=(jnp.minimum(start[0], last), jnp.minimum(start[1], last)),
        floor=jnp.full((), -1.0, problem.metric.dtype),
    )
    is_constant = ~jnp.any(first) | ~jnp.any(second)
    return _incumbent(loss, is_constant, on_own_side, hull)


def _sides(problem: PlaneProblem, on_own_side: Array, fat: Fat) -> tuple[Array, Array]:
    """The points [n] on the own and on the other side on which the margin is measured."""
    kept = problem.live & (on_own_side == problem.own)
    counted = problem.live if fat == "flipped" else kept
    return counted & on_own_side, counted & ~on_own_side


def _incumbent(
    loss: Array, is_constant: Array, on_own_side: Array, hull: HullDistance
) -> Incumbent:
    return Incumbent(
        loss=loss,
        margin=jnp.where(is_constant, jnp.inf, hull.distance / 2),
        is_constant=is_constant,
        on_own_side=on_own_side,
        normal=jnp.where(is_constant, 0, hull.normal),
    )


def _fat_separator(
    problem: PlaneProblem, centre: Array, classes: _AxisClasses, chosen: Chosen, fat: Fat
) -> Incumbent:
    """The bisector of the hulls on the two sides of one class. If its margin is at most the floor,
    the returned margin is any number up to the floor.
    """
    on_own_side = _own_side(classes, chosen.number)
    own_side, other_side = _sides(problem, on_own_side, fat)
    squared, nearest = reduce.first_least(
        jnp.where(other_side, _squared_distances(problem, centre), jnp.inf)
    )
    start = centre, jnp.minimum(nearest, other_side.shape[0] - 1)
    hull = hulls.hull_distance(
        problem.metric, own_side, other_side, start=start, floor=2 * chosen.floor
    )
    return _incumbent(chosen.loss, squared == jnp.inf, on_own_side, hull)
