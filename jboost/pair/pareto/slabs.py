"""The widest slab that touches a given centre, has its normal in a given cell of directions, and
loses at most a given weight; exactly.

For the directions of one narrow cell almost all points are certain: every slab of the required
width keeps them, or every such slab loses them. What remains is a problem of few points and the
loss of the certain ones. It is solved by the arcs on which points are kept
(`jboost.pair.pareto.arcs`). Only slabs that touch the centre and have a normal in the cell are
valid for this problem. Each point of a front is such a slab for one of the points that it touches,
so that all other slabs can be dropped.

A class of slabs of some width may hide a class that loses more and is wider. Hence, after a class
has been measured, the search continues with slabs that are wider than those of the class. Their
width is the gap of its hulls, if that slab is valid, else the width at the sides of the cell.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import devices, loops, numerics
from jboost.base.types import Array
from jboost.geometry.exact import Wide, wide_where
from jboost.pair.leave_one_out.near_optimal_lines import compare_gaps
from jboost.pair.pareto.arcs import Arcs, full_turn, kept_by, lost_with, turn_slab
from jboost.pair.pareto.walk import WIDER, measure
from jboost.pair.sweep.instance import LineInstance


class SlabProblem(NamedTuple):
    """One problem: a centre, a cell of directions, and bounds of the loss and the width."""

    points: Array  # [S] int32, the uncertain points, the centre first; negative on padding
    base: Array  # [] integer, the loss at the certain points
    most: Array  # [] integer, the largest loss that is allowed
    gap: Array  # [] the width of a known slab whose loss is allowed
    reach: Array  # [] an upper bound of the width
    sides: Array  # [2, 2] unit vectors, the first and the last direction of the cell


class Slab(NamedTuple):
    """The widest slab of a `SlabProblem`."""

    squared_gap: Wide  # [] 0 if there is no such slab
    normal: Array  # [2] in metric coordinates
    kept: Array  # [S] bool
    doubtful: Array  # [] bool, whether rounding leaves undecided if a wider slab exists


class _SlabSearch(NamedTuple):
    """The state of the search for the widest slab."""

    gap: Array  # [] the width of the slabs in `arcs`
    taken: Array  # [4S] bool, the classes of `arcs` that have been measured
    best: Slab
    arcs: Arcs
    chosen: Array  # [] int32, the next class to measure; 4S if there is none


def take(instance: LineInstance, points: Array) -> LineInstance:
    """The problem restricted to points [S]; negative indices are padding."""
    place = jnp.maximum(points, 0)
    real = points >= 0
    points, metric, own, live, weights = (field[..., place] for field in instance[:-1])
    return LineInstance(
        points, metric, own & real, live & real, jnp.where(real, weights, 0), instance.on_grid
    )


@devices.public_jit
def widest_slabs(instance: LineInstance, places: SlabProblem, tolerance: Array) -> Slab:
    """The widest slab of each place, fields [P, ...], among those that touch its centre, are at
    least as wide as its gap, and lose at most `most`.

    Args:
      instance: the problem.
      places: P places.
      tolerance: [], an own point at most this far from the edge of a slab touches it.
    """
    return lax.map(
        lambda place: _widest_slab(take(instance, place.points), place, tolerance), places
    )


def _widest_slab(local: LineInstance, place: SlabProblem, tolerance: Array) -> Slab:
    zero = jnp.zeros((), local.x.dtype)
    begin, end = full_turn(*place.sides.T)
    problem = _ArcProblem(
        local, place, tolerance, jnp.zeros((), jnp.int32), begin, length=(end - begin) % 4
    )

    def unfinished(search: _SlabSearch) -> Array:
        return (search.chosen < search.taken.shape[0]) | (search.gap < _beyond(search.best))

    def step(search: _SlabSearch) -> _SlabSearch:
        return loops.cond(
            search.chosen < search.taken.shape[0],
            lambda search: _visit(problem, search),
            lambda search: _widen(problem, search),
            search,
        )

    nothing = Slab(
        Wide(zero, zero),
        jnp.zeros(2, zero.dtype),
        jnp.zeros(place.points.shape, bool),
        jnp.zeros((), bool),
    )
    start = _search_width(problem, place.gap, jnp.zeros(4 * place.points.shape[0], bool), nothing)
    found = loops.while_loop(unfinished, step, start)
    return found.best._replace(
        doubtful=found.best.doubtful | (found.arcs.doubtful & _is_in_cell(problem, zero))
    )


class _ArcProblem(NamedTuple):
    """A place with its points, and its cell as an arc of directions (`full_turn`)."""

    local: LineInstance
    place: SlabProblem
    tolerance: Array  # []
    centre: Array  # [] int32, its index among the points
    begin: Array  # [] in [0, 4), the first direction of the cell
    length: Array  # [] of the arc


def _is_in_cell(problem: _ArcProblem, direction: Array) -> Array:
    return (direction - problem.begin) % 4 <= problem.length


def _search_width(problem: _ArcProblem, gap: Array, taken: Array, best: Slab) -> _SlabSearch:
    """The search among the slabs of width `gap`; the next class has the least loss of those that
    are not taken.
    """
    place = problem.place
    arcs = lax.optimization_barrier(turn_slab(problem.local, problem.centre, gap))
    is_met = _meets(arcs, problem.begin, problem.length)[0]
    losses = jnp.where(taken | ~is_met, jnp.iinfo(arcs.losses.dtype).max, arcs.losses)
    least = jnp.min(losses)
    chosen = jnp.where(
        least <= place.most - place.base, numerics.first_true(losses == least), losses.shape[0]
    )
    return _SlabSearch(gap, taken, best, arcs, chosen)


def _beyond(best: Slab) -> Array:
    """A width above that of the best slab and its rounding error."""
    return jnp.sqrt(best.squared_gap.hi) * WIDER[8]


def _widen(problem: _ArcProblem, search: _SlabSearch) -> _SlabSearch:
    """The search among slabs that are wider than the best one."""
    return _search_width(
        problem,
        _beyond(search.best),
        jnp.zeros_like(search.taken),
        search.best._replace(doubtful=jnp.zeros_like(search.best.doubtful)),
    )


def _visit(problem: _ArcProblem, search: _SlabSearch) -> _SlabSearch:
    """Measures the chosen class, and continues with wider slabs than those of the class."""
    local, place = problem.local, problem.place
    at, best = search.chosen, search.best
    kept = kept_by(local, search.arcs, at)
    minus_one = -jnp.ones((), local.metric.dtype)
    point = measure(local, kept, search.arcs.losses[at], problem.centre, minus_one)
    touches = _is_touching(problem, kept, point.normal)
    gap = jnp.sqrt(point.squared_gap.hi)
    counts = touches & (gap <= place.reach) & _is_in_cell(problem, full_turn(*point.normal))
    better = counts & (compare_gaps(local, point.squared_gap, best.squared_gap)[0] > 0)
    hides = (gap < search.gap * (1 - 2.0**-40)) & (
        lost_with(search.arcs, at) <= place.most - place.base
    )
    at_sides = _width_at_sides(problem, search.arcs, at, kept)
    least = jnp.where(better, gap * (1 - 2.0**-20), jnp.where(counts, 0, at_sides * WIDER[8]))
    same_gap = least <= search.gap
    best = Slab(
        squared_gap=wide_where(better, point.squared_gap, best.squared_gap),
        normal=jnp.where(better, point.normal, best.normal),
        kept=jnp.where(better, kept, best.kept),
        doubtful=same_gap & (best.doubtful | hides),
    )
    taken = search.taken | (lax.iota(jnp.int32, search.taken.shape[0]) == at)
    return _search_width(problem, jnp.maximum(search.gap, least), taken & same_gap, best)


def _is_touching(problem: _ArcProblem, kept: Array, normal: Array) -> Array:
    """Whether no kept own point is below the edge of the slab at the centre, up to `tolerance`."""
    local = problem.local
    dx, dy = local.metric - local.metric[:, :1]
    height = (normal[0] * dx + normal[1] * dy) / jnp.sqrt(normal[0] ** 2 + normal[1] ** 2)
    return numerics.masked_min(height, kept & local.own, fill=0.0) >= -problem.tolerance


def _width_at_sides(problem: _ArcProblem, arcs: Arcs, chosen: Array, kept: Array) -> Array:
    """The larger width of the slabs of a class at the sides of the cell; 0 if it has none there."""
    local, sides = problem.local, problem.place.sides
    size = arcs.ends.shape[0]
    has_side = jnp.stack(_meets(arcs, problem.begin, problem.length)[1:])[:, chosen % size] & (
        chosen < size
    )
    dx, dy = local.metric[:, :1] - local.metric
    depth = sides[:, :1] * dx[None] + sides[:, 1:] * dy[None]
    width = numerics.masked_min(depth, (kept & ~local.own)[None], fill=problem.place.reach)
    return numerics.masked_max(width, has_side, fill=0.0)


def _meets(arcs: Arcs, begin: Array, length: Array) -> tuple[Array, Array, Array]:
    """Which classes have a slab whose normal is in the cell, [4S] bool. Which of the classes that
    are not shared contain the first and the last direction of the cell, [2S] bool each.
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
