"""The widest slab of a cell of directions that hangs from a given centre and loses no more than
given, exactly.

For the directions of one narrow cell almost all points are certain: so far on one side of the slab
that each slab as wide as wanted keeps them, or loses them. What is left is a problem of a few
points, with what the certain ones lose. It is solved as the whole one would be, by the arcs on
which points are kept (`jboost.pair.pareto.arcs`), but only its slabs with normals of the cell that
touch the centre mean anything. Any point of a front is such a slab for one of the points that it
touches; a slab of another sort is not needed here, and is dropped.

A class of slabs as wide as some gap may hide one that gives up more and is wider. So once a class
has been seen only slabs are looked at that are wider than its own: than the gap of its hulls, if
that is a slab of the place, or than at the sides of the cell, where it leaves it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics
from jboost.base.types import Array
from jboost.geometry.exact import Wide, wide_where
from jboost.pair.leave_one_out.near_optimal_lines import compare_gaps
from jboost.pair.pareto.arcs import Arcs, full_turn, kept_by, lost_with, turn_slab
from jboost.pair.pareto.walk import WIDER, measure
from jboost.pair.sweep.instance import Instance


class Place(NamedTuple):
    """Where to look for a slab."""

    points: Array  # [S] int32, those that are not certain, the centre first; below 0 where void
    base: Array  # [] integer, what the certain ones lose
    most: Array  # [] integer, what a slab may lose
    gap: Array  # [] the width of some slab that loses no more
    reach: Array  # [] no slab of this place is wider
    sides: Array  # [2, 2] unit vectors, the first and the last direction of the cell


class Slab(NamedTuple):
    """The widest slab of a place."""

    squared_gap: Wide  # [] 0 if there is none
    normal: Array  # [2] in metric coordinates
    kept: Array  # [S] bool
    doubtful: Array  # [] bool, rounding left open whether there is a wider one


class _Search(NamedTuple):
    """Where the search for the widest slab stands."""

    gap: Array  # [] slabs as wide are looked at
    taken: Array  # [4S] bool, the classes of such slabs that have been
    best: Slab
    arcs: Arcs
    chosen: Array  # [] int32, the next class; 4S if there is none


def take(instance: Instance, points: Array) -> Instance:
    """The problem of some points [S], of those that are not below 0."""
    place = jnp.maximum(points, 0)
    real = points >= 0
    points, metric, own, live, weights = (field[..., place] for field in instance[:-1])
    return Instance(
        points, metric, own & real, live & real, jnp.where(real, weights, 0), instance.on_grid
    )


@jax.jit
def widest_slabs(instance: Instance, places: Place, tolerance: Array) -> Slab:
    """The widest slab of each place, fields [P, ...]: hung from its centre, no narrower than its
    gap, and losing no more than it may.

    Args:
      instance: the problem.
      places: P of them.
      tolerance: [], own points this close to the edge of a slab touch it.
    """
    return lax.map(
        lambda place: _widest_slab(take(instance, place.points), place, tolerance), places
    )


def _widest_slab(local: Instance, place: Place, tolerance: Array) -> Slab:
    centre = jnp.zeros((), jnp.int32)
    zero = jnp.zeros((), local.x.dtype)
    begin, end = full_turn(*place.sides.T)
    length = (end - begin) % 4

    def is_in_cell(direction: Array) -> Array:
        return (direction - begin) % 4 <= length

    def look(gap: Array, taken: Array, best: Slab) -> _Search:
        arcs = lax.optimization_barrier(turn_slab(local, centre, gap))
        is_met = _meets(arcs, begin, length)[0]
        losses = jnp.where(taken | ~is_met, jnp.iinfo(arcs.losses.dtype).max, arcs.losses)
        least = jnp.min(losses)
        chosen = jnp.where(
            least <= place.most - place.base, numerics.first_true(losses == least), losses.shape[0]
        )
        return _Search(gap, taken, best, arcs, chosen)

    def at_sides(arcs: Arcs, chosen: Array, kept: Array) -> Array:
        """The width at those sides of the cell that a class has slabs at."""
        size = arcs.ends.shape[0]
        has_side = jnp.stack(_meets(arcs, begin, length)[1:])[:, chosen % size] & (chosen < size)
        dx, dy = local.metric[:, :1] - local.metric
        depth = place.sides[:, :1] * dx[None] + place.sides[:, 1:] * dy[None]
        width = numerics.masked_min(depth, (kept & ~local.own)[None], fill=place.reach)
        return numerics.masked_max(width, has_side, fill=0.0)

    def beyond(best: Slab) -> Array:
        return jnp.sqrt(best.squared_gap.hi) * WIDER[8]

    def unfinished(search: _Search) -> Array:
        return (search.chosen < search.taken.shape[0]) | (search.gap < beyond(search.best))

    def step(search: _Search) -> _Search:
        return loops.cond(search.chosen < search.taken.shape[0], visit, widen, search)

    def widen(search: _Search) -> _Search:
        return look(
            beyond(search.best),
            jnp.zeros_like(search.taken),
            search.best._replace(doubtful=jnp.zeros_like(search.best.doubtful)),
        )

    def visit(search: _Search) -> _Search:
        at, best = search.chosen, search.best
        kept = kept_by(local, search.arcs, at)
        point = measure(local, kept, search.arcs.losses[at], centre, -jnp.ones_like(zero))
        dx, dy = local.metric - local.metric[:, :1]
        height = (point.normal[0] * dx + point.normal[1] * dy) / jnp.sqrt(
            point.normal[0] ** 2 + point.normal[1] ** 2
        )
        touches = numerics.masked_min(height, kept & local.own, fill=0.0) >= -tolerance
        gap = jnp.sqrt(point.squared_gap.hi)
        counts = touches & (gap <= place.reach) & is_in_cell(full_turn(*point.normal))
        better = counts & (compare_gaps(local, point.squared_gap, best.squared_gap)[0] > 0)
        hides = (gap < search.gap * (1 - 2.0**-40)) & (
            lost_with(search.arcs, at) <= place.most - place.base
        )
        least = jnp.where(
            better,
            gap * (1 - 2.0**-20),
            jnp.where(counts, 0, at_sides(search.arcs, at, kept) * WIDER[8]),
        )
        same_gap = least <= search.gap
        best = Slab(
            squared_gap=wide_where(better, point.squared_gap, best.squared_gap),
            normal=jnp.where(better, point.normal, best.normal),
            kept=jnp.where(better, kept, best.kept),
            doubtful=same_gap & (best.doubtful | hides),
        )
        taken = search.taken | (lax.iota(jnp.int32, search.taken.shape[0]) == at)
        return look(jnp.maximum(search.gap, least), taken & same_gap, best)

    nothing = Slab(
        Wide(zero, zero),
        jnp.zeros(2, zero.dtype),
        jnp.zeros(place.points.shape, bool),
        jnp.zeros((), bool),
    )
    start = look(place.gap, jnp.zeros(4 * place.points.shape[0], bool), nothing)
    found = loops.while_loop(unfinished, step, start)
    return found.best._replace(
        doubtful=found.best.doubtful | (found.arcs.doubtful & is_in_cell(zero))
    )


def _meets(arcs: Arcs, begin: Array, length: Array) -> tuple[Array, Array, Array]:
    """Which classes have slabs with normals of the cell, [4S] bool; and which that are not shared
    have its first and its last one, [2S] bool.
    """
    size = arcs.ends.shape[0]
    rank = lax.iota(jnp.int32, size)
    after = (arcs.ends - begin) % 4
    until = after[jnp.where(rank + 1 < arcs.num_ends, jnp.minimum(rank + 1, size - 1), 0)]
    is_all = arcs.num_ends == 0
    has_first = (until <= after) | is_all
    has_last = (
        jnp.where(
            has_first, (after <= length) | (length <= until), (after <= length) & (length <= until)
        )
        | is_all
    )
    since = after[arcs.run_start]
    is_met = jnp.concatenate(
        [(after <= length) | has_first, (after <= length) | (since <= length) | (after < since)]
    )
    return is_met, has_first, has_last
