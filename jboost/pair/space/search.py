"""Branch and bound over cells of planes: finds the axes that may contain an optimal plane.

An optimal class has a centre and a second point. The planes through both whose normals are in the
arc of the class are in some cell at every depth. The class loses at least the loss of the certain
places of this cell, and neither of the two points is certain. Hence a cell that loses more than the
best known plane can be discarded. If few places of a cell are undecided, only the axes through two
of these places remain for the sweep.

The host runs the loop. It takes the deepest cells with the least bounds first, so that few cells
wait and a good plane is found early.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jboost.pair.space import cells
from jboost.pair.space.cells import HalvingPlan, Known, Places, PlaneCells
from jboost.pair.space.problem import PlaneProblem
from jboost.pair.space.sweep import ListedAxes

_MOST_UNDECIDED = 3  # undecided places of a leaf; the planes through three places are a corner
# A cell with up to 32 undecided places is also a leaf if 4 divisions have decided none of them.
# Such places are usually coplanar.
_MOST_STUCK, _CUTS_STUCK = 32, 4
_ROWS_AT_ONCE = 4096
_PAIRS_AT_ONCE = 1 << 20
# The work, in places of rows, that the search may always do, even if the sweep of all axes is
# cheap.
_LEAST_WORK = 1 << 22
_LEAST_AXES = 64  # the smallest capacity for listed axes
_MOST_GROUPS = 16  # groups of leaves, which are joined where there are more


class PlaneSearchState(NamedTuple):
    """The state of the search for three classifiers between two steps. A plane that loses less than
    the best one is in a waiting cell or in a leaf.
    """

    waiting: tuple[PlaneCells, ...]  # a stack, the last cells are divided next
    leaves: tuple[PlaneCells, ...]  # cells that are not divided any more
    best: Known
    work: np.ndarray  # [] int64, the places of rows that were tested
    checksums: np.ndarray  # [4] uint32, of points, labels, weights and mask


class Promising(NamedTuple):
    """The axes of all planes that may be optimal."""

    axes: ListedAxes
    attained: int  # an upper bound of the least loss; every plane about another axis loses more


class Stopped(NamedTuple):
    """What is known where the search was stopped."""

    above: np.ndarray  # [n] bool, the own side of the best plane
    is_constant: bool
    attained: int  # its loss, or an upper bound of it
    lower_bound: int  # of the loss of all planes


class _PlaneSearch(NamedTuple):
    """The data of a search, which do not change."""

    places: Places
    plan: HalvingPlan
    point_at: np.ndarray  # [N] the index of one point at each place
    place_of: np.ndarray  # [n] the place of each point; that of the void for points not counted
    base: int  # a loss that every plane has
    num_axes: int
    most_work: int


def promising_axes(
    problem: PlaneProblem,
    *,
    watch: Callable[[PlaneSearchState], bool],
    initial: PlaneSearchState | None,
) -> Promising | Stopped | None:
    """The axes that remain after branch and bound, or None if most axes remain. The problem must be
    concrete, and the call must be in the 64-bit scope.

    Args:
      problem: the problem.
      watch: called after each step; False stops the search.
      initial: a state of the same problem from which to continue, or None.
    """
    search = _prepare(problem)
    if search is None:
        return None
    state = _start(search) if initial is None else initial
    while state.waiting:
        state = _advance(search, state)
        if state.work > search.most_work:
            return None
        if not watch(state) and state.waiting:
            return _stop(search, state)
    return _list_axes(search, state)


def lower_bound(state: PlaneSearchState) -> int:
    """A lower bound of the loss of all planes, in integer units."""
    least = int(state.best.loss)
    return min(int(part.bound.min(initial=least)) for part in (*state.waiting, *state.leaves))


def _prepare(problem: PlaneProblem) -> _PlaneSearch | None:
    """The places, and what the search computes of them once; None without points."""
    points, own, weights, live = (
        np.asarray(part) for part in (problem.points, problem.own, problem.weights, problem.live)
    )
    at = np.flatnonzero(live)
    if not len(at):
        return None
    coordinates, first, place = np.unique(
        points[at] + 0.0, axis=0, return_index=True, return_inverse=True
    )
    size, count, place = len(points) + 1, len(first), place.reshape(-1)
    net = np.zeros(size, np.int64)
    np.add.at(net, place, np.where(own[at], weights[at], -weights[at]))
    centred = np.zeros((size, 3))
    centred[:count] = coordinates - coordinates.sum(axis=0) / count
    extent = np.abs(centred).max(axis=0)
    centred /= np.where(extent > 0, extent, 1)
    is_centre = np.zeros(size, bool)
    is_centre[place[own[at]]] = True
    places = Places(centred, net, is_centre, count)
    place_of = np.full(len(points), places.void)
    place_of[at] = place
    num_axes = int(is_centre.sum()) * count
    return _PlaneSearch(
        places,
        cells.make_plan(places),
        at[first],
        place_of,
        int(problem.base),
        num_axes,
        max(_LEAST_WORK, num_axes * count),
    )


def _start(search: _PlaneSearch) -> PlaneSearchState:
    """All planes, in three cells."""
    weights, root = search.places.weights, cells.root(search.places, search.base)
    own, other = np.maximum(weights, 0).sum(), np.maximum(-weights, 0).sum()
    return PlaneSearchState(
        (root,),
        (root.chosen(np.zeros(3, bool)),),
        Known(np.asarray(search.base + min(own, other), np.int64), np.zeros(4)),
        np.asarray(0, np.int64),
        np.zeros(4, np.uint32),
    )


def _advance(search: _PlaneSearch, state: PlaneSearchState) -> PlaneSearchState:
    """One step: divides the last of the waiting cells. With more work than is allowed, the state is
    useless.
    """
    batch, waiting = _take(state.waiting, state.best)
    if not len(batch.face):
        return state._replace(waiting=waiting)
    work = np.asarray(state.work + batch.rows.size, np.int64)
    if work > search.most_work:
        return state._replace(work=work)
    pieces, best = cells.divide(search.places, search.plan, batch, state.best)
    is_leaf = pieces.num_undecided <= np.where(
        pieces.stuck < _CUTS_STUCK, _MOST_UNDECIDED, _MOST_STUCK
    )
    is_leaf |= pieces.depth == cells.NUM_DEPTHS
    leaves = (*state.leaves, pieces.chosen(is_leaf))
    if len(leaves) > _MOST_GROUPS:
        leaves = (_joined(leaves, best),)
    waiting = tuple(part for part in (*waiting, pieces.chosen(~is_leaf)) if len(part.face))
    return state._replace(waiting=waiting, leaves=leaves, best=best, work=work)


def _take(
    waiting: tuple[PlaneCells, ...], best: Known
) -> tuple[PlaneCells, tuple[PlaneCells, ...]]:
    """The last of the waiting cells, without those that are no longer needed; and the others."""
    rest, taken, num_rows_left = list(waiting), [], _ROWS_AT_ONCE
    while rest and num_rows_left > 0:
        part = rest.pop()
        part = part.chosen(part.bound <= best.loss)
        rows_behind = len(part.rows) - np.cumsum(part.num_rows)
        fits = rows_behind < num_rows_left
        taken.append(part.chosen(fits))
        num_rows_left -= len(taken[-1].rows)
        if not fits.all():
            rest.append(part.chosen(~fits))
    return cells.join(taken), tuple(rest)


def _joined(leaves: tuple[PlaneCells, ...], best: Known) -> PlaneCells:
    """The leaves that may contain a plane that loses at most as much as the best one."""
    found = cells.join(list(leaves))
    return found.chosen(found.bound <= best.loss)


def _stop(search: _PlaneSearch, state: PlaneSearchState) -> Stopped:
    normal, offset = state.best.plane[:3], state.best.plane[3]
    heights = search.places.points @ normal - offset
    return Stopped(
        (heights > 0)[search.place_of],
        not normal.any(),
        int(state.best.loss),
        lower_bound(state),
    )


def _list_axes(search: _PlaneSearch, state: PlaneSearchState) -> Promising | None:
    """The axes of the leaves, which contain the arcs of all optimal classes; None for most axes."""
    leaves = _joined(state.leaves, state.best)
    num_axes, num_entries = search.num_axes, len(search.places.weights)
    if 4 * leaves.num_undecided.max(initial=0) ** 2 > max(num_axes, _PAIRS_AT_ONCE):
        return None
    pairs = _list_pairs(search.places, search.plan, leaves)
    if len(pairs) > max(_LEAST_AXES, num_axes // 2):
        return None
    capacity = max(_LEAST_AXES, 1 << max(len(pairs) - 1, 0).bit_length())
    ends = [
        jnp.asarray(np.pad(search.point_at[part].astype(np.int32), (0, capacity - len(part))))
        for part in np.divmod(pairs, num_entries)
    ]
    axes = ListedAxes(ends[0], ends[1], jnp.int32(len(pairs)))
    return Promising(axes, int(state.best.loss))


def _list_pairs(places: Places, plan: HalvingPlan, leaves: PlaneCells) -> np.ndarray:
    """The pairs of a centre and a second place whose arcs may intersect leaves, encoded as
    centre (N + 1) + place; int64.
    """
    part = np.cumsum(leaves.num_undecided**2) // _PAIRS_AT_ONCE
    found = [_pairs_of(places, plan, leaves.chosen(part == number)) for number in np.unique(part)]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *found]))


def _pairs_of(places: Places, plan: HalvingPlan, leaves: PlaneCells) -> np.ndarray:
    undecided = leaves.rows[leaves.rows != places.void].astype(np.int64)
    cell = np.repeat(np.arange(len(leaves.num_undecided)), leaves.num_undecided)
    is_centre = places.is_centre[undecided]
    centre, cell = undecided[is_centre], cell[is_centre]
    second, pair = cells.ranges(
        cells.before(leaves.num_undecided)[cell], leaves.num_undecided[cell]
    )
    centre, second, cell = centre[pair], undecided[second], cell[pair]
    away, face = places.points[second] - places.points[centre], leaves.face[cell]
    x, y, z = (np.take_along_axis(away, (face[:, None] + i) % 3, axis=1)[:, 0] for i in range(3))
    (s, t, _), (s_reach, t_reach, _) = (
        leaves.middle[cell].T,
        plan.half_widths[face, leaves.depth[cell]].T,
    )
    meets = (
        np.abs(x + s * y + t * z) <= s_reach * np.abs(y) + t_reach * np.abs(z) + 2 * cells.SAFETY
    )
    return np.unique((centre * len(places.weights) + second)[meets & (centre != second)])
