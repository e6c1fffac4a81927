"""The host loop of branch and bound. It holds a stack of frontiers and divides each by compiled
steps of few sizes.

A first descent keeps only the best bins of each step, and finds a good line after few steps. Then
the loop processes the stack in chunks: depth first over chunks, breadth first within a chunk. This
bounds the memory. The expensive steps are compiled; the host chooses their capacities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from jboost.base import checksums
from jboost.base.types import Array
from jboost.pair.branch_and_bound import cells, frontiers, leaves, sites
from jboost.pair.branch_and_bound.cells import Division, Frontier, LineCells
from jboost.pair.branch_and_bound.leaves import Frame
from jboost.pair.branch_and_bound.sites import CurveSites, SiteTree
from jboost.pair.branch_and_bound.types import BranchAndBoundConfig, BranchAndBoundState, OpenLeaves

_SMALLEST_CHUNK = 1 << 12  # the smallest capacity for entries
# The capacities of cells and slots are proportional to those of entries, so that fewer shapes are
# compiled.
_ENTRIES_PER_CELL = 16
_ENTRIES_PER_SLOT = 2
_MOST_ROOT_BOXES = 4096  # the search begins with the finest level of at most this many boxes
_LEAF_SITES = 1 << 12  # sites of the leaves that are collected at once
_LEAF_TRIPLES = 1 << 14  # triples (leaf, centre, site) that are swept at once
_GROWTH = 8  # the ratio of successive capacities
# If a larger share of a chunk is filled, it costs less than several chunks of the next smaller
# size.
_LEAST_FILLED = 0.4


class LineProblem(NamedTuple):
    """The input of the search: sites, the tree of boxes, their frame, and the pruning rule."""

    points: CurveSites
    tree: SiteTree
    frame: Frame
    constant_loss: int  # loss of the better constant classifier, in integer units
    all_optima: bool  # whether lines that tie with the best are kept
    excess: int = 0  # lines up to this much worse than the best are kept, integer units


def prepare(points: CurveSites, *, all_optima: bool, excess: int = 0) -> LineProblem:
    """Builds the tree of boxes and computes the loss of the constant classifiers."""
    own, other = np.asarray(sites.class_weights(points)).tolist()
    tree = sites.build_tree(points, packed=own + other < 2**sites.PACKED_BITS)
    return LineProblem(points, tree, leaves.frame_of(points), min(own, other), all_optima, excess)


def start(problem: LineProblem) -> BranchAndBoundState:
    """The initial state: all lines, in two cells, one for each half of the directions."""
    points, tree = problem.points, problem.tree
    begins, sizes = sites.level_starts(points.x.shape[0]), np.asarray(tree.sizes)
    level = next(
        (level for level, size in enumerate(sizes) if size <= _MOST_ROOT_BOXES), len(sizes) - 1
    )
    node = begins[level] + np.arange(sizes[level], dtype=np.int32)
    reach = 2.0 + 2.0**-10
    num_bins = int(
        cells.choose_num_bins(-reach, reach, 1 / cells.NUM_DIRECTIONS, np.int32(len(node)))
    )
    num_entries, num_cells, _ = _capacities(2 * len(node), 2, 2 * int(cells.num_slots(num_bins)))
    ends = LineCells(
        *(
            np.zeros(num_cells, dtype)
            for dtype in (bool, *[np.float64] * 3, *[np.int64] * 3, np.int32)
        )
    )
    ends.swapped[1] = True
    ends.low[:2], ends.high[:2], ends.num_bins[:2] = -reach, reach, num_bins
    cell, nodes = np.full(num_entries, -1, np.int32), np.full(num_entries, -1, np.int32)
    cell[: 2 * len(node)], nodes[: 2 * len(node)] = np.repeat([0, 1], len(node)), np.tile(node, 2)
    root = Frontier(ends, cell, nodes, np.int32(2), np.float64(1))
    frontiers = (root,) if len(node) else ()
    return BranchAndBoundState(
        frontiers,
        (),
        np.int64(problem.constant_loss),
        np.bool_(problem.all_optima),
        checksum_of(points),
    )


def checksum_of(points: CurveSites) -> np.uint32:
    """The checksum of a state of these sites."""
    return np.uint32(checksums.of_arrays(points.x, points.y, points.own, points.other))


def _capacities(num_entries: int, num_cells: int, num_slots: int) -> tuple[int, int, int]:
    """The smallest standard capacities for given numbers of entries, cells and slots."""
    wanted = max(num_entries, num_cells * _ENTRIES_PER_CELL, num_slots * _ENTRIES_PER_SLOT)
    size = _SMALLEST_CHUNK
    while size < wanted:
        size *= _GROWTH
    return size, size // _ENTRIES_PER_CELL, size // _ENTRIES_PER_SLOT


class Runs(NamedTuple):
    """The runs of one chunk that are divided further."""

    sizes: np.ndarray  # [k, 3] the entries, a one and the slots of each run
    loads: np.ndarray  # [k] the entries that a chunk needs for each of them


def runs_of(branch_rank: np.ndarray, num_children: np.ndarray, num_bins: np.ndarray) -> Runs:
    """The runs that are divided further, from fields of a `Division` and its `runs`."""
    chosen = np.flatnonzero(np.diff(branch_rank))
    entries, bins = num_children[chosen], num_bins[chosen]
    sizes = np.stack([entries, np.ones_like(entries), cells.num_slots(bins)], axis=1).astype(
        np.int64
    )
    loads = np.maximum(
        np.maximum(sizes[:, 0], _ENTRIES_PER_CELL * sizes[:, 1]), _ENTRIES_PER_SLOT * sizes[:, 2]
    )
    return Runs(sizes, loads)


class Part(NamedTuple):
    """A range of runs that becomes a chunk, and its capacities."""

    first: int
    last: int  # one past the last run
    num_entries: int
    num_cells: int


def parts_of(runs: Runs, config: BranchAndBoundConfig, *, share: int | None = None) -> list[Part]:
    """Ranges of runs that fill chunks.

    The size of a chunk is the largest standard size that costs no more than several smaller chunks.

    Args:
      runs: at least one.
      config: sizes.
      share: the load that each of several devices should get; None for all on one device.
    """
    loads = runs.loads
    size = _SMALLEST_CHUNK
    wanted = int((loads.sum() if share is None else share) / _LEAST_FILLED)
    while (
        size * _GROWTH <= min(config.chunk_entries, max(wanted, int(loads.max())))
        or size < loads.max()
    ):
        size *= _GROWTH
    filled = np.cumsum(loads)
    parts, begin = [], 0
    while begin < len(loads):
        done = filled[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(filled, done + size, side="right")))
        num_entries, num_cells, _ = _capacities(
            *(int(total) for total in runs.sizes[begin:end].sum(axis=0))
        )
        parts.append(Part(begin, end, num_entries, num_cells))
        begin = end
    return parts


# one step: the state before and the number of bins to keep (0 for no limit) -> the state after
Advance = Callable[[BranchAndBoundState, int], BranchAndBoundState]


def advance(
    problem: LineProblem, config: BranchAndBoundConfig, state: BranchAndBoundState, beam: int = 0
) -> BranchAndBoundState:
    """One step: divides the last frontier, bounds the losses in its leaves, and puts its other runs
    on the stack as new frontiers.
    """
    *waiting, frontier = state.frontiers
    limit = limit_of(problem, state)
    if least_bound(frontier) >= limit:
        return state._replace(frontiers=tuple(waiting))
    num_sites = problem.points.x.shape[0]
    division = cells.divide(
        problem.tree,
        frontier,
        limit,
        np.int32(beam),
        capacity=slots_for([frontier]),
        leaf_size=config.leaf_size,
        num_sites=num_sites,
    )
    num_branches, _, _, num_leaves, _ = np.asarray(division.totals).tolist()
    if num_leaves:
        state = _sweep_leaves(problem, state, frontier, division, num_leaves, config)
    children: list[Frontier] = []
    if num_branches:
        counts = (division.branch_rank, division.num_children, division.runs.num_bins)
        for part in parts_of(runs_of(*map(np.asarray, counts)), config):
            child = frontiers.branch(
                problem.tree,
                frontier,
                division,
                np.int32(part.first),
                np.int32(part.last),
                num_cells=part.num_cells,
                num_entries=part.num_entries,
                num_sites=num_sites,
            )
            children.append(child)
    return state._replace(frontiers=(*waiting, *reversed(children)))


def slots_for(frontiers: Sequence[Frontier]) -> int:
    """The capacity for slots with which each of the frontiers can be divided."""
    num_slots = max(
        int(np.sum(cells.num_slots(np.asarray(each.cells.num_bins))[: int(each.num_cells)]))
        for each in frontiers
    )
    num_entries = max(each.node.shape[0] for each in frontiers)
    return max(_capacities(num_entries, 0, num_slots)[2], num_slots)


def limit_of(problem: LineProblem, state: BranchAndBoundState) -> np.int64:
    """The limit of the pruning: cells whose bound is at least this are discarded.

    A line that ties with a constant classifier is never kept, because the margin of a constant is
    infinite.
    """
    wants_ties = problem.all_optima and (
        problem.excess > 0 or state.upper_bound < problem.constant_loss
    )
    return np.int64(state.upper_bound + problem.excess + int(wants_ties))


def least_bound(frontier: Frontier) -> int:
    """A lower bound of the loss of all lines of a frontier, in integer units."""
    return int(np.min(np.asarray(frontier.cells.bound)[: int(frontier.num_cells)]))


def _sweep_leaves(
    problem: LineProblem,
    state: BranchAndBoundState,
    frontier: Frontier,
    division: Division,
    num_leaves: int,
    config: BranchAndBoundConfig,
) -> BranchAndBoundState:
    rows, width = leaf_shape(int(division.largest_leaf), config)
    for first in range(0, num_leaves, rows):
        last = min(first + rows, num_leaves)
        batch = frontiers.collect_leaves(
            frontier, division, np.int32(first), np.int32(last), num_leaves=rows, width=width
        )
        brackets = leaves.bracket_leaves(
            problem.points, problem.frame, batch, num_triples=triples_at_once()
        )
        found = OpenLeaves(*jax.tree.map(np.asarray, (batch, brackets)))
        state = with_leaves(problem, state, found)
    return drop_leaves(problem, state)


def leaf_shape(largest_leaf: int, config: BranchAndBoundConfig) -> tuple[int, int]:
    """The number of leaves that are collected at once, and of sites in the row of each."""
    width = config.leaf_size
    while width < largest_leaf:
        width *= 4
    return max(1, _LEAF_SITES // width), width


def triples_at_once() -> int:
    """The number of triples (leaf, centre, site) that are swept at once."""
    return _LEAF_TRIPLES


def with_leaves(
    problem: LineProblem, state: BranchAndBoundState, found: OpenLeaves
) -> BranchAndBoundState:
    """The state after leaves that have been bracketed: the best line so far, and the leaves that
    may contain a line that is kept.
    """
    state = state._replace(upper_bound=np.minimum(state.upper_bound, np.min(found.brackets.upper)))
    kept = _keep_promising(found, highest_loss(problem, state))
    return state._replace(open_leaves=(*state.open_leaves, *kept))


def highest_loss(problem: LineProblem, state: BranchAndBoundState) -> Array:
    """The largest loss of a line that is kept."""
    return state.upper_bound + problem.excess


def drop_leaves(problem: LineProblem, state: BranchAndBoundState) -> BranchAndBoundState:
    """The state without the leaves that contain no line that is kept, given the best line found so
    far.
    """
    highest = highest_loss(problem, state)
    return state._replace(
        open_leaves=tuple(
            kept for part in state.open_leaves for kept in _keep_promising(part, highest)
        )
    )


def _keep_promising(open_leaves: OpenLeaves, highest: Array) -> list[OpenLeaves]:
    rows = np.flatnonzero(np.min(open_leaves.brackets.lower, axis=1) <= highest)
    return [jax.tree.map(lambda field: field[rows], open_leaves)] if len(rows) else []


def dive(advance: Advance, state: BranchAndBoundState, *, beam: int) -> BranchAndBoundState:
    """A first descent that keeps only the `beam` best bins of each step, to find a good line. The
    frontiers do not change; the state gets the line and the leaves that were found.
    """
    ahead = state
    while ahead.frontiers and not ahead.open_leaves:
        ahead = advance(ahead, beam)
    return state._replace(upper_bound=ahead.upper_bound, open_leaves=ahead.open_leaves)


def lower_bound(state: BranchAndBoundState) -> int:
    """A lower bound of the loss of all lines, in integer units."""
    open_leaves = [int(np.min(part.brackets.lower)) for part in state.open_leaves]
    return min(
        [
            int(state.upper_bound),
            *(least_bound(frontier) for frontier in state.frontiers),
            *open_leaves,
        ]
    )


def num_waiting(state: BranchAndBoundState) -> int:
    """The number of entries of all frontiers, including padding."""
    return sum(frontier.node.shape[0] for frontier in state.frontiers)
