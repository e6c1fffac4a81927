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

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jboost.pair.space import cells
from jboost.pair.space.cells import Cells, Places, Plan
from jboost.pair.space.problem import Problem
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


class Promising(NamedTuple):
    """The axes of all planes that may be optimal."""

    axes: ListedAxes
    attained: int  # an upper bound of the least loss; every plane about another axis loses more


def promising_axes(problem: Problem) -> Promising | None:
    """The axes that remain after branch and bound, or None if most axes remain. The problem must be
    concrete, and the call must be in the 64-bit scope.
    """
    places, index = _gather(problem)
    if not places.num_places:
        return None
    plan, num_axes = cells.make_plan(places), int(places.is_centre.sum()) * places.num_places
    leaves, best = _search(
        places, plan, int(problem.base), most_work=max(_LEAST_WORK, num_axes * places.num_places)
    )
    if leaves is None or 4 * leaves.num_undecided.max(initial=0) ** 2 > max(
        num_axes, _PAIRS_AT_ONCE
    ):
        return None
    pairs = _list_pairs(places, plan, leaves)
    if len(pairs) > max(_LEAST_AXES, num_axes // 2):
        return None
    capacity = max(_LEAST_AXES, 1 << max(len(pairs) - 1, 0).bit_length())
    ends = [
        jnp.asarray(np.pad(index[part].astype(np.int32), (0, capacity - len(part))))
        for part in np.divmod(pairs, len(places.weights))
    ]
    return Promising(ListedAxes(ends[0], ends[1], jnp.int32(len(pairs))), best)


def _gather(problem: Problem) -> tuple[Places, np.ndarray]:
    """The places, and the index of one point at each."""
    points, own, weights, live = (
        np.asarray(part) for part in (problem.points, problem.own, problem.weights, problem.live)
    )
    at = np.flatnonzero(live)
    coordinates, first, place = np.unique(
        points[at] + 0.0, axis=0, return_index=True, return_inverse=True
    )
    size, count = len(points) + 1, len(first)
    net = np.zeros(size, np.int64)
    np.add.at(net, place.reshape(-1), np.where(own[at], weights[at], -weights[at]))
    centred = np.zeros((size, 3))
    centred[:count] = coordinates - coordinates.sum(axis=0) / max(count, 1)
    extent = np.abs(centred).max(axis=0)
    centred /= np.where(extent > 0, extent, 1)
    is_centre = np.zeros(size, bool)
    is_centre[place.reshape(-1)[own[at]]] = True
    return Places(centred, net, is_centre, count), at[first]


def _search(places: Places, plan: Plan, base: int, most_work: int) -> tuple[Cells | None, int]:
    """Leaves that contain the arcs of all optimal classes, or None if the search takes too much
    work; and the loss of the best plane found.
    """
    own, other = np.maximum(places.weights, 0).sum(), np.maximum(-places.weights, 0).sum()
    best, work = base + int(min(own, other)), 0
    start = cells.root(places, base)
    waiting, leaves = [start], [start.chosen(np.zeros(3, bool))]
    while waiting and len((batch := _take(waiting, best)).face):
        work += batch.rows.size
        if work > most_work:
            return None, best
        pieces, best = cells.divide(places, plan, batch, best)
        is_leaf = pieces.num_undecided <= np.where(
            pieces.stuck < _CUTS_STUCK, _MOST_UNDECIDED, _MOST_STUCK
        )
        is_leaf |= pieces.depth == cells.NUM_DEPTHS
        leaves.append(pieces.chosen(is_leaf))
        waiting.append(pieces.chosen(~is_leaf))
    found = cells.join(leaves)
    return found.chosen(found.bound <= best), best


def _take(waiting: list[Cells], best: int) -> Cells:
    """The last of the waiting cells, without those that are no longer needed."""
    taken, num_rows_left = [], _ROWS_AT_ONCE
    while waiting and num_rows_left > 0:
        part = waiting.pop()
        part = part.chosen(part.bound <= best)
        rows_behind = len(part.rows) - np.cumsum(part.num_rows)
        fits = rows_behind < num_rows_left
        taken.append(part.chosen(fits))
        num_rows_left -= len(taken[-1].rows)
        if not fits.all():
            waiting.append(part.chosen(~fits))
    return cells.join(taken)


def _list_pairs(places: Places, plan: Plan, leaves: Cells) -> np.ndarray:
    """The pairs of a centre and a second place whose arcs may intersect leaves, encoded as
    centre (N + 1) + place; int64.
    """
    part = np.cumsum(leaves.num_undecided**2) // _PAIRS_AT_ONCE
    found = [_pairs_of(places, plan, leaves.chosen(part == number)) for number in np.unique(part)]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *found]))


def _pairs_of(places: Places, plan: Plan, leaves: Cells) -> np.ndarray:
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
