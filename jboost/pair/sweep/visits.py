"""The exact step of the sweep: evaluates the centres that may be optimal. All comparisons of losses
are free of rounding errors.

The result is the separator set of largest margin among those of least weight (Boyarshinov and
Magdon-Ismail 2005, Section 2.1 and Theorem 2.13). An optimal set has an open class at each of its
support points, so that the loop finds every optimal set.

One step of the loop takes some centres and bounds the margins of those of their classes that may
exceed the best one (`jboost.pair.sweep.margins`). It computes the margin of one class, the one of
largest bound. The next step takes the centres of largest bound, those without a bound first. The
loop ends when no bound exceeds the best margin. Of thousands of classes that tie, it computes few
margins.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry import angular, hulls
from jboost.pair.sweep.brackets import Radial, SweepConfig, look_around
from jboost.pair.sweep.instance import LineInstance
from jboost.pair.sweep.margins import View, bound_margins, limit_directions
from jboost.pair.types import Fat

# Margins that differ by less count as equal, in units of eps. A margin and its bound have smaller
# rounding errors (see `jboost.pair.sweep.margins`), so that no class that ties exactly is
# evaluated.
_TIED = 12
# Centres of one step, as a part of all, and (centre, point) pairs, as a part of those of a chunk of
# the sweep. A step should cost little, because the first steps compare with a small margin.
_STEPS, _CHUNK_PARTS = 16, 4


class Incumbent(NamedTuple):
    """The best separator so far, in the plane or in space."""

    loss: Array  # [] integer
    margin: Array  # [] infinite for a constant classifier
    is_constant: Array  # [] bool
    on_own_side: Array  # [n] bool
    # [2] or [3], in metric coordinates, points to the own side; 0 for a constant
    normal: Array


class Chosen(NamedTuple):
    """A class whose separator is computed next."""

    number: Array  # [] int32
    loss: Array  # [] integer
    floor: Array  # [] margins up to this one need not be computed exactly


class _SweepSearch(NamedTuple):
    """The state of the loop: an entry for each centre, and the best result so far."""

    lower: Array  # [c] integer, a lower bound of the loss
    # [c] an upper bound of the margins of the classes of least loss that are not evaluated
    ceiling: Array
    # [c] int32, the last class evaluated, whose bound is the ceiling; -1 if there is none
    cursor: Array
    gap: Array  # [c] for which the ceiling was computed, as in `margin_bounds`; -1 if it was not
    best: Incumbent


def best_constant(instance: LineInstance) -> Incumbent:
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


def class_weights(instance: LineInstance) -> tuple[Array, Array]:
    """The weight of the own class, and of the other one."""
    nothing = jnp.zeros((), instance.weights.dtype)
    own, other = (
        jnp.where(members, instance.weights, nothing)
        for members in (instance.own, instance.live & ~instance.own)
    )
    return reduce.totals(own, other)


def visit_centres(
    instance: LineInstance,
    centres: Array,
    bounds: Array,
    *,
    all_optima: bool,
    fat: Fat,
    config: SweepConfig | None = None,
) -> Incumbent:
    """The exact optimum, from lower bounds of the loss around every centre.

    Args:
      instance: the problem.
      centres: [c] int32.
      bounds: [c] integer, the largest integer where there is no centre.
      all_optima: compare the margins of all optimal separator sets, instead of taking the first.
      fat: "removed" or "flipped": margins without the misclassified points, or with their labels
        flipped.
      config: sizes of the steps; None chooses them for the device.
    """
    config = (config or SweepConfig()).resolved()
    sizes = _divide_steps(instance, centres, config) if all_optima else (1, 1)
    return loops.while_loop(
        lambda now: _is_unfinished(now, all_optima),
        lambda now: _step(instance, centres, now, sizes, all_optima, fat),
        _start(instance, bounds, all_optima),
    ).best


def _step(
    instance: LineInstance,
    centres: Array,
    search: _SweepSearch,
    sizes: tuple[int, int],
    all_optima: bool,
    fat: Fat,
) -> _SweepSearch:
    """Bounds the margins at the centres of largest bounds, and computes the largest of them."""
    (width, num_parts), best = sizes, search.best
    rank = _most_promising(search, width)
    places = numerics.take(centres, rank)
    views, losses = _open_classes(instance, places, num_parts)
    none = jnp.iinfo(losses.dtype).max
    losses = jnp.where((numerics.take(search.lower, rank) < none)[:, None], losses, none)
    lower = reduce.least(losses)
    loss = jnp.minimum(reduce.least(lower), best.loss)
    improves = loss < best.loss
    floor = jnp.where(improves | best.is_constant, 0, best.margin)
    is_tied = losses == loss
    if all_optima:
        margins = _margins_left(instance, search, rank, places, views, 2 * floor, is_tied)
    else:
        margins = jnp.where(is_tied, jnp.inf, -jnp.inf).astype(floor.dtype)
    ceiling, number = reduce.first_largest(margins)
    highest, row = reduce.first_largest(ceiling)
    found = highest > jnp.where(improves, -1, _least_gain(best))
    chosen = Chosen(
        numerics.take(number, row),
        loss,
        jnp.where(found, jnp.where(improves, -1, floor), jnp.inf),
    )
    view = jax.tree.map(lambda field: numerics.take(field.T, row), views)
    candidate = _fat_separator(instance, numerics.take(places, row), view, chosen, fat)
    better = found & (improves | (candidate.margin > best.margin))
    cursor = jnp.where(found & (lax.iota(jnp.int32, width) == row), number, -1)
    after = _SweepSearch(
        lower, ceiling, cursor, 2 * floor, loops.cond(better, lambda: candidate, lambda: best)
    )
    return _recorded(search, rank, after)


def _recorded(search: _SweepSearch, rank: Array, visited: _SweepSearch) -> _SweepSearch:
    """The search with the new entries [w] of the centres of these ranks [w] and the new best."""
    lower, ceiling, cursor, gap = (
        field.at[rank].set(new, mode="promise_in_bounds", wrap_negative_indices=False)
        for field, new in zip(search[:-1], visited[:-1], strict=True)
    )
    return _SweepSearch(lower, ceiling, cursor, gap, visited.best)


def _is_unfinished(search: _SweepSearch, all_optima: bool) -> Array:
    """Whether a centre may have a class of less loss, or with `all_optima` of a larger margin."""
    is_open = search.lower < search.best.loss
    if all_optima:
        is_open |= (
            (search.lower == search.best.loss)
            & (search.ceiling > _least_gain(search.best))
            & ~search.best.is_constant
        )
    return reduce.any_true(is_open)


def _divide_steps(instance: LineInstance, centres: Array, config: SweepConfig) -> tuple[int, int]:
    """The number of centres of a step, and the number of parts in which they are sorted."""
    assert config.chunk_pairs is not None
    assert config.parallel_sorts is not None
    num_points = instance.live.shape[0]
    width = max(
        1, min(centres.shape[0] // _STEPS, config.chunk_pairs // (_CHUNK_PARTS * num_points))
    )
    num_parts = min(width, config.parallel_sorts)
    return width // num_parts * num_parts, num_parts


def _start(instance: LineInstance, bounds: Array, all_optima: bool) -> _SweepSearch:
    real = instance.metric.dtype
    # Neighbouring centres often have similar margins. Different ceilings spread the first steps.
    unknown = jnp.full(bounds.shape, jnp.inf, real)
    if all_optima:
        unknown = numerics.spread(bounds.shape[0], real) * (jnp.finfo(real).max / 4)
    return _SweepSearch(
        bounds,
        unknown,
        jnp.full(bounds.shape, -1, jnp.int32),
        jnp.full(bounds.shape, -1, real),
        best_constant(instance),
    )


def _most_promising(search: _SweepSearch, width: int) -> Array:
    """The ranks [w] of the centres of least bound of the loss, and then of largest ceiling."""
    rank = lax.iota(jnp.int32, search.lower.shape[0])
    return lax.sort((search.lower, -search.ceiling, rank), num_keys=3)[2][:width]


def _least_gain(best: Incumbent) -> Array:
    """The margin that a class must exceed."""
    return best.margin * (1 + _TIED * float(jnp.finfo(best.margin.dtype).eps))


def _open_classes(instance: LineInstance, places: Array, num_parts: int) -> tuple[View, Array]:
    """The points around centres [w] in exact order, fields [w, ...], and the losses [w, 2n] of all
    open classes: first those with the own class on the left, then those with it on the right. The
    loss is the largest integer where there is no class.
    """
    at = numerics.take(instance.points, places)
    radial = jax.vmap(look_around, in_axes=(None, 1))(instance, at)
    quick = angular.half_turn_orders(instance.points, at, radial.off_centre, num_parts)
    order = loops.cond(
        instance.on_grid | ~reduce.any_true(quick.joined, axis=(0, 1)),
        lambda: quick,
        lambda: angular.exact_half_turn_orders(instance.points, at, radial.off_centre, quick),
    )
    ends = jnp.append(~order.joined[:, 1:], jnp.ones_like(places[:, None], bool), axis=1)

    def losses_of(radial: Radial, index: Array, ends: Array) -> Array:
        sums = radial.start + jnp.cumsum(numerics.take(radial.steps, index))
        both = jnp.stack([sums, radial.total - sums]) + radial.at_centre
        exists = ends & numerics.take(radial.off_centre, index)
        return jnp.where(exists, both, jnp.iinfo(both.dtype).max).reshape(-1)

    upper = jax.vmap(lambda at: angular.is_upper(*(instance.points - at[:, None])), in_axes=1)(at)
    return (
        View(order, upper, radial.off_centre),
        jax.vmap(losses_of)(radial, order.index, ends),
    )


def _margins_left(
    instance: LineInstance,
    search: _SweepSearch,
    rank: Array,
    places: Array,
    views: View,
    gap: Array,
    is_tied: Array,
) -> Array:
    """Upper bounds [w, 2n] of the margins of the classes around some centres, -inf for those that
    are evaluated, that do not tie, or whose margin is less than half of `gap`.
    """
    limits = limit_directions(instance, places, views, gap)
    # Every class has a strip of width 0, also where underflow makes angles wrong. Without this, a
    # class of less loss might never be evaluated, and the loop would not end.
    is_open = is_tied & (limits.is_met | (gap == 0))
    margins = loops.cond(
        reduce.any_true(is_open, axis=(0, 1)),
        lambda: bound_margins(instance, places, views, limits, is_open),
        lambda: jnp.full(is_open.shape, -jnp.inf, gap.dtype),
    )
    ceiling, cursor, old_gap = (
        numerics.take(field, rank)[:, None] for field in (search.ceiling, search.cursor, search.gap)
    )
    margins = jnp.where(jnp.isnan(margins), jnp.inf, margins)  # NaN bounds nothing
    number = lax.broadcasted_iota(jnp.int32, margins.shape, 1)
    is_before = (margins > ceiling) | ((margins == ceiling) & (number <= cursor))
    return jnp.where(is_open & ~((old_gap == gap) & is_before), margins, -jnp.inf)


def _squared_distances(instance: LineInstance, centre: Array) -> Array:
    dx, dy = instance.metric - numerics.take(instance.metric, centre)[:, None]
    return dx * dx + dy * dy


def _fat_separator(
    instance: LineInstance, centre: Array, view: View, chosen: Chosen, fat: Fat
) -> Incumbent:
    """The bisector of the hulls on the two sides of one open class. If its margin is at most the
    floor, the returned margin is any number up to the floor.
    """
    size = instance.own.shape[0]
    own_on_right, rank = chosen.number >= size, chosen.number % size
    passed = angular.positions(view.order) <= rank
    on_left = view.upper != passed
    on_own_side = jnp.where(view.off_centre, on_left != own_on_right, True)
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
