"""Lists the points of a front in order, by an exact search over the slabs that touch each centre.

After a point of margin g, the next point is the widest slab among those of least loss that are
wider than 2 g. A centre is searched only if its last lower bound does not exclude it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry.exact import Wide
from jboost.pair import sweep
from jboost.pair.leave_one_out.near_optimal_lines import compare_gaps, fat_line, line_along
from jboost.pair.pareto.arcs import kept_by, lost_with, turn_slab
from jboost.pair.sweep import SweepConfig, visits
from jboost.pair.sweep.instance import LineInstance

WIDER = {4: 1 + 2.0**-10, 8: 1 + 2.0**-36}  # least ratio of successive margins, by itemsize


class FrontPoint(NamedTuple):
    """A point of the front, or the best candidate for the next one."""

    loss: Array  # [] integer
    squared_gap: Wide  # [] infinite for a constant
    normal: Array  # [2] in metric coordinates, points to the own side; 0 for a constant
    kept: Array  # [n] bool


class FoundFront(NamedTuple):
    """The points of the front that have been found."""

    points: FrontPoint  # fields [k]
    count: Array  # [] int32
    ended: Array  # [] bool, the last point is a constant classifier
    doubtful: Array  # [] bool, whether rounding leaves undecided if a point is missing


class _Searched(NamedTuple):
    """The result of the search over the slabs of one width that touch one centre."""

    bound: Array  # [] integer, a lower bound of the loss of these slabs
    best: FrontPoint  # the best so far
    # [] integer, a lower bound of the loss of classes hidden by classes that proved too narrow
    lost: Array
    doubtful: Array  # [] bool


class _FrontWalk(NamedTuple):
    """The state of the sweep over all centres."""

    gap: Array  # [] the least width of the next slab
    squared_gap: Wide  # [] of the last point of the front, which the next has to exceed
    bounds: Array  # [c] integer, lower bounds of the loss of slabs that touch each centre
    fresh: Array  # [c] bool, whether the centre has been searched for this width
    best: FrontPoint
    lost: Array  # [] integer, the least `lost` of `_Searched` over the centres
    found: FoundFront


def _first_point(instance: LineInstance, config: SweepConfig) -> tuple[FrontPoint, Array, Array]:
    """The point of least loss, which is that of the optimal separator; the indices of the centres
    [c]; and lower bounds of the loss of slabs that touch each centre [c].
    """
    centres, num_centres = sweep.list_centres(instance)
    bounds = sweep.bound_centres(instance, centres, num_centres, config)
    lightest = visits.visit_centres(
        instance, centres, bounds, all_optima=True, fat="removed", config=config
    )
    kept = instance.live & (lightest.on_own_side == instance.own)
    origin = jnp.minimum(numerics.first_true(kept), kept.shape[0] - 1)
    line = line_along(instance, lightest.normal, kept & instance.own, kept & ~instance.own, origin)
    return FrontPoint(lightest.loss, line.squared_gap, line.normal, kept), centres, bounds


def sweep_front(instance: LineInstance, max_points: int, config: SweepConfig) -> FoundFront:
    """The front, at most the `max_points` points of least loss. The centre with the lowest bound is
    searched next.
    """
    lightest, centres, bounds = _first_point(instance, config)
    constant = best_constant(instance)
    start = _FrontWalk(
        gap=jnp.zeros_like(instance.x[0]),
        squared_gap=Wide(jnp.zeros_like(instance.x[0]), jnp.zeros_like(instance.x[0])),
        bounds=bounds,
        fresh=jnp.ones(centres.shape, bool),
        best=lightest,
        lost=jnp.full_like(lightest.loss, jnp.iinfo(lightest.loss.dtype).max),
        found=_nothing_found(constant, max_points),
    )

    def unfinished(walk: _FrontWalk) -> Array:
        return ~walk.found.ended & (walk.found.count < max_points)

    def step(walk: _FrontWalk) -> _FrontWalk:
        waiting = jnp.where(walk.fresh, jnp.iinfo(walk.bounds.dtype).max, walk.bounds)
        least = jnp.min(waiting)
        is_constant = walk.best.squared_gap.hi == jnp.inf
        worth_it = (least < walk.best.loss) | ((least == walk.best.loss) & ~is_constant)
        chosen = jnp.minimum(numerics.first_true(waiting == least), waiting.shape[0] - 1)
        return loops.cond(
            worth_it,
            lambda w: _visit(instance, centres, w, chosen),
            lambda w: _advance(w, constant),
            walk,
        )

    return loops.while_loop(unfinished, step, start).found


def _visit(instance: LineInstance, centres: Array, walk: _FrontWalk, chosen: Array) -> _FrontWalk:
    seen = _search_centre(instance, centres[chosen], walk.gap, walk.squared_gap, walk.best)
    return walk._replace(
        bounds=walk.bounds.at[chosen].set(seen.bound),
        fresh=walk.fresh.at[chosen].set(True),
        best=seen.best,
        lost=jnp.minimum(walk.lost, seen.lost),
        found=walk.found._replace(doubtful=walk.found.doubtful | seen.doubtful),
    )


def _advance(walk: _FrontWalk, constant: FrontPoint) -> _FrontWalk:
    """Adds the best candidate to the front, and starts the search for a wider slab."""
    found = _add_point(walk.found, walk.best)
    return walk._replace(
        gap=_wider_than(walk.best),
        squared_gap=walk.best.squared_gap,
        fresh=jnp.zeros_like(walk.fresh),
        best=constant,
        lost=jnp.full_like(walk.lost, jnp.iinfo(walk.lost.dtype).max),
        found=found._replace(doubtful=found.doubtful | (walk.lost <= walk.best.loss)),
    )


def _wider_than(point: FrontPoint) -> Array:
    """The least gap of the next point of the front."""
    gap = jnp.sqrt(point.squared_gap.hi)
    return gap * WIDER[gap.dtype.itemsize]


def _nothing_found(constant: FrontPoint, max_points: int) -> FoundFront:
    """An empty front with capacity for `max_points`."""
    points = jax.tree.map(lambda leaf: jnp.zeros((max_points, *leaf.shape), leaf.dtype), constant)
    no = jnp.zeros((), bool)
    return FoundFront(points, jnp.zeros((), jnp.int32), no, no)


def _add_point(found: FoundFront, point: FrontPoint) -> FoundFront:
    """The front with one more point. It must not be full."""
    points = jax.tree.map(
        lambda rows, new: lax.dynamic_update_index_in_dim(rows, new, found.count, 0),
        found.points,
        point,
    )
    return found._replace(
        points=points, count=found.count + 1, ended=point.squared_gap.hi == jnp.inf
    )


def best_constant(instance: LineInstance) -> FrontPoint:
    """The constant classifier that misclassifies the lighter class, or the other class in a tie."""
    constant = visits.best_constant(instance)
    infinite = Wide(constant.margin, jnp.zeros_like(constant.margin))
    return FrontPoint(
        constant.loss,
        infinite,
        constant.normal,
        instance.live & (instance.own == constant.on_own_side),
    )


def measure(
    instance: LineInstance, kept: Array, loss: Array, first: Array, floor: Array
) -> FrontPoint:
    """The point that keeps given points, with the gap of their hulls. At least one own point must
    be kept. If the gap is at most `floor`, the result is any number up to `floor`.
    """
    own_side, other_side = kept & instance.own, kept & ~instance.own
    dx, dy = instance.metric - instance.metric[:, first, None]
    _, second = reduce.first_least(jnp.where(other_side, dx * dx + dy * dy, jnp.inf))
    line = fat_line(
        instance, own_side, other_side, (first, jnp.minimum(second, kept.shape[0] - 1)), floor
    )
    return FrontPoint(loss, line.squared_gap, line.normal, kept)


def _search_centre(
    instance: LineInstance, centre: Array, gap: Array, last: Wide, best: FrontPoint
) -> _Searched:
    """Measures the classes of one centre, by increasing loss, that may improve on the best point.

    Args:
      instance: the problem.
      centre: [] int32.
      gap: [], the width of the slabs.
      last: [], the squared gap of the last point of the front. A better point must exceed it.
      best: the best point so far. A point is better if it loses less, or as much and is wider.
    """
    arcs = lax.optimization_barrier(turn_slab(instance, centre, gap))
    place = lax.iota(jnp.int32, arcs.losses.shape[0])

    def unfinished(carry: tuple[Array, Array, FrontPoint, Array]) -> Array:
        return carry[0] < place.shape[0]

    def visit(
        carry: tuple[Array, Array, FrontPoint, Array],
    ) -> tuple[Array, Array, FrontPoint, Array]:
        at, taken, best, lost = carry
        at = jnp.minimum(at, place.shape[0] - 1)
        loss = arcs.losses[at]
        kept = kept_by(instance, arcs, at)
        again = jnp.all(kept == best.kept)
        floor = jnp.where(
            loss == best.loss, jnp.sqrt(best.squared_gap.hi) * jnp.where(again, 2, 1 - 2.0**-16), -1
        )
        point = measure(instance, kept, loss, centre, floor)
        wide_enough = compare_gaps(instance, point.squared_gap, last)[0] > 0
        wider = compare_gaps(instance, point.squared_gap, best.squared_gap)[0] > 0
        better = wide_enough & ((loss < best.loss) | ((loss == best.loss) & wider))
        taken = taken | (place == at)
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), point, best)
        lost = jnp.where(wide_enough | (floor >= 0), lost, jnp.minimum(lost, lost_with(arcs, at)))
        return _next_class(arcs.losses, best, taken), taken, best, lost

    none = jnp.zeros(place.shape, bool)
    most = jnp.full((), jnp.iinfo(arcs.losses.dtype).max, arcs.losses.dtype)
    _, _, best, lost = loops.while_loop(
        unfinished, visit, (_next_class(arcs.losses, best, none), none, best, most)
    )
    return _Searched(jnp.min(arcs.losses), best, lost, arcs.doubtful)


def _next_class(losses: Array, best: FrontPoint, taken: Array) -> Array:
    """The class [] int32 of least loss that is not taken and may improve on the best point; the
    number of classes if there is none.
    """
    left = jnp.where(taken, jnp.iinfo(losses.dtype).max, losses)
    least = jnp.min(left)
    worth_it = (least < best.loss) | ((least == best.loss) & (best.squared_gap.hi != jnp.inf))
    return jnp.where(worth_it, numerics.first_true(left == least), losses.shape[0])
