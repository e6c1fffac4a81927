"""One step of the search: divides cells of lines into narrower directions, and bounds the loss for
all offsets by two histograms.

A line is a x + b y = t with (a, b) = (1, u), or (u, 1) where `swapped`, and |u| <= 1. A cell is the
set of lines with |u - slope| <= half_width and low <= t <= high. For all directions of a cell a
node (a site or a box) projects into an interval of offsets; a line above the interval has the node
below it, a line below the interval has it above. So for every bin of offsets

    loss >= fixed loss of the cell + own weight certainly below + other weight certainly above

(own class above the line)

and the same with the sides exchanged. Bins whose bound is at least the loss of the incumbent are
discarded. Every run of remaining bins is a cell of the next step. The new cell keeps only the nodes
that are certain for none of its lines.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import devices, loops
from jboost.base.types import Array
from jboost.pair.branch_and_bound import sites
from jboost.pair.branch_and_bound.sites import FAN, SiteTree

NUM_DIRECTIONS = 4  # parts into which a step divides the directions of a cell
# A node this close to a line is never certain. This is far more than the rounding error of
# projections of coordinates up to 1.
SAFETY = 2.0**-46
NARROWEST = 2.0**-40  # half width of directions below which a cell is not divided
_BINS_PER_HALF_WIDTH = (
    6.0  # bins for each half width of the directions of a cell, in units of offsets
)
_ENTRIES_PER_BIN = (
    12  # a cell has at most one bin for this many entries, but may always have 4 bins
)
_SHORTEST_RUN = 16  # bins
_FINE = 2.0**-20  # cells whose half width is below this contain sites only, no boxes
_COARSENESS = 0.3  # boxes wider than this times the half width are replaced by the nodes in them


class LineCells(NamedTuple):
    """Sets of lines, each with the loss that all of its lines have."""

    swapped: Array  # [C] bool
    slope: Array  # [C]
    low: Array  # [C]
    high: Array  # [C]
    own_above: Array  # [C] integer, loss of the certain nodes with the own class above the line
    own_below: Array  # [C]
    bound: Array  # [C] integer, a lower bound of the loss of the lines
    num_bins: Array  # [C] int32


class Frontier(NamedTuple):
    """Cells of one width, and a list of (cell, node) with the nodes that are certain for none of a
    cell's lines.
    """

    cells: LineCells
    cell: Array  # [E] int32
    node: Array  # [E] int32, -1 on padding
    num_cells: Array  # [] int32
    half_width: Array  # []


class Division(NamedTuple):
    """The result of a step: the runs of remaining bins, and for each entry and each narrower
    direction the runs to which it belongs.
    """

    runs: LineCells  # [R]
    begin: Array  # [K, E] int32, first run
    end: Array  # [K, E] int32, one past the last run; at most `begin` if the node is in no run
    is_coarse: Array  # [E] bool, whether the next step replaces the box by the nodes in it
    branch_rank: Array  # [R + 1] int32, the number of earlier runs that are divided further
    leaf_rank: Array  # [R + 1] int32, the number of earlier runs that are leaves
    num_entries: Array  # [R] int32, nodes of each run
    num_children: Array  # [R] int32, entries of each run in the next step
    # [5] int64: cells and entries of the next step, its slots, leaves, entries of leaves
    totals: Array
    largest_leaf: Array  # [] int32


def choose_num_bins(low: Array, high: Array, half_width: Array, num_entries: Array) -> Array:
    """The number of bins. Bins are narrower than the uncertainty of offsets for directions of this
    half width, and there are at most as many as the number of entries justifies.
    """
    wanted = jnp.ceil((high - low) / half_width * _BINS_PER_HALF_WIDTH)
    return jnp.clip(wanted, 1, jnp.maximum(4, num_entries // _ENTRIES_PER_BIN)).astype(jnp.int32)


def num_slots(num_bins: Array) -> Array:
    """The number of slots of the histograms of cells: one per bin and one more, per direction."""
    return NUM_DIRECTIONS * (num_bins + 1)


class _Slots(NamedTuple):
    """The indices of the bins of each narrower cell in the histograms."""

    begin: Array  # [K, C] int32
    owner: Array  # [B + 1] int32, the narrower cell of each slot
    is_bin: Array  # [B + 1] bool


def _lay_out(frontier: Frontier, capacity: int) -> _Slots:
    num_bins = frontier.cells.num_bins
    size = num_bins.shape[0]
    real = lax.iota(jnp.int32, size) < frontier.num_cells
    widths = jnp.where(real, num_slots(num_bins), 0)
    begins = jnp.cumsum(widths, dtype=jnp.int32) - widths
    step = lax.broadcasted_iota(jnp.int32, (NUM_DIRECTIONS, size), 0) * (num_bins + 1)[None]
    begin = jnp.where(real[None], begins[None] + step, capacity)
    index = lax.iota(jnp.int32, size * NUM_DIRECTIONS)
    owner = jnp.zeros(capacity + 1, jnp.int32).at[begin.T.reshape(-1)].max(index, mode="drop")
    owner = lax.cummax(owner)
    slot = lax.iota(jnp.int32, capacity + 1)
    inside = (
        slot - begin[owner % NUM_DIRECTIONS, owner // NUM_DIRECTIONS]
        < num_bins[owner // NUM_DIRECTIONS]
    )
    return _Slots(begin, owner, inside & (slot < jnp.sum(widths)))


def _narrow_slopes(slope: Array, half_width: Array) -> Array:
    """The middle of each narrower direction, [K, ...]."""
    steps = (2 * lax.iota(jnp.int32, NUM_DIRECTIONS) + 1 - NUM_DIRECTIONS).astype(slope.dtype)
    return slope[None] + (half_width / NUM_DIRECTIONS) * steps[:, None]


def _project(tree: SiteTree, frontier: Frontier, slots: _Slots) -> tuple[Array, Array, Array]:
    """For each direction and entry, the first slot at which the node is not certainly above, and
    the first slot at which it is certainly below.
    """
    cells, half_width = frontier.cells, frontier.half_width
    capacity = slots.owner.shape[0] - 1
    void = frontier.node < 0
    cell, node = jnp.maximum(frontier.cell, 0), jnp.maximum(frontier.node, 0)
    swapped = cells.swapped[cell]
    x, y, half_x, half_y = tree.x[node], tree.y[node], tree.half_width[node], tree.half_height[node]
    along, across = jnp.where(swapped, y, x), jnp.where(swapped, x, y)
    half_along, half_across = jnp.where(swapped, half_y, half_x), jnp.where(swapped, half_x, half_y)
    narrow = half_width / NUM_DIRECTIONS
    slope, along = lax.optimization_barrier((cells.slope[cell], along - cells.low[cell]))
    per_offset = (cells.num_bins / (cells.high - cells.low))[cell]
    blur = half_along + narrow * (jnp.abs(across) + half_across) + SAFETY
    across, half_across, per_offset, blur = lax.optimization_barrier(
        (across, half_across, per_offset, blur)
    )
    slopes = _narrow_slopes(slope, half_width)
    reach = blur[None] + jnp.abs(slopes) * half_across[None]
    middle = along[None] + slopes * across[None]
    last = cells.num_bins[cell].astype(x.dtype)[None]
    first = jnp.clip(jnp.floor((middle - reach) * per_offset[None]), 0, last).astype(jnp.int32)
    behind = jnp.clip(jnp.floor((middle + reach) * per_offset[None]) + 1, 0, last).astype(jnp.int32)
    begin = slots.begin[:, cell]
    is_coarse = (half_along + half_across > _COARSENESS * narrow) | (narrow < _FINE)
    return (
        jnp.where(void[None], capacity, begin + first),
        jnp.where(void[None], capacity, begin + behind),
        is_coarse,
    )


def _cuts(cells: LineCells, narrow: Array, slots: _Slots) -> Array:
    """Bins before which a run ends in any case, [B + 1] bool.

    A run is at most a quarter of its cell, or `_SHORTEST_RUN` bins if that is more. Without this
    limit cells would keep all their nodes if the direction matters little, as for points on one
    line. If bins are few and wide, each may be a run.
    """
    quarter = jnp.maximum(cells.num_bins // 4, 1)
    is_wide = (cells.high - cells.low) * _BINS_PER_HALF_WIDTH > cells.num_bins * narrow * (
        1 + 2.0**-20
    )
    length = jnp.where(is_wide, quarter, jnp.maximum(quarter, _SHORTEST_RUN))[
        slots.owner // NUM_DIRECTIONS
    ]
    begin = slots.begin.T.reshape(-1)[slots.owner]
    return (lax.iota(jnp.int32, begin.shape[0]) - begin) % length == 0


def _histogram(slot: Array, weights: Array, capacity: int) -> Array:
    """Inclusive cumulative weights [channels, capacity + 1] over all slots."""
    sums = [
        jnp.zeros(capacity + 1, weights.dtype).at[slot].add(channel[None], mode="promise_in_bounds")
        for channel in weights
    ]
    return jnp.cumsum(jnp.stack(sums), axis=1, dtype=weights.dtype)


class _SlotSums(NamedTuple):
    """For each slot, the certain loss of the lines of its bin, and the numbers of nodes."""

    own_below: Array  # [B + 1] integer, loss of the nodes of the own class certainly below
    other_below: Array  # [B + 1]
    own_above: Array  # [B + 1]
    other_above: Array  # [B + 1]
    fixed_above: Array  # [B + 1] integer, that of the cell, with the own class above the line
    fixed_below: Array  # [B + 1]
    # [B + 1] int64, cumulative packed counts of the nodes that are not certainly above, and of the
    # nodes that are certainly below; and [K C] the same counts before each narrower cell
    counts_not_above: Array
    counts_below: Array
    counts_not_above_before: Array
    counts_below_before: Array

    def num_uncertain(self, runs: _BinRuns, which: Array) -> Array:
        """[B] int64, packed counts of the nodes that are certain for none of the lines of a run;
        `which` is its narrower cell.
        """
        not_above = self.counts_not_above[runs.end_slot] - self.counts_not_above_before[which]
        return not_above - (self.counts_below[runs.start_slot] - self.counts_below_before[which])


def _packed_counts(entries: Array, children: Array) -> Array:
    """Two counts in one int64, so that one cumulative sum adds both: entries in the lower 32 bits,
    children in the upper 32. Neither sum reaches 2^31.
    """
    return entries.astype(jnp.int64) | (children.astype(jnp.int64) << 32)


def _unpacked_counts(counts: Array) -> tuple[Array, Array]:
    return (counts & (2**32 - 1)).astype(jnp.int32), counts >> 32


def _sum_weights(
    tree: SiteTree, frontier: Frontier, slots: _Slots, first: Array, behind: Array, counts: Array
) -> _SlotSums:
    """The cumulative sums over the slots of each narrower cell, from its first or to its last bin.

    Args:
      first: [K, E] the slot from which an entry is not certainly above the lines.
      behind: [K, E] the slot from which it is certainly below them.
      counts: [E] int64, `_packed_counts` of each entry.
    """
    capacity, cells, owner = slots.owner.shape[0] - 1, frontier.cells, slots.owner
    # The barrier keeps XLA from gathering the weights again for every histogram.
    weights = lax.optimization_barrier(
        jnp.concatenate([tree.weights[:, jnp.maximum(frontier.node, 0)], counts[None]])
    )
    *not_above, counts_not_above = _histogram(first, weights, capacity)
    *below, counts_below = _histogram(behind, weights, capacity)
    not_above, below = jnp.stack(not_above), jnp.stack(below)
    begins = slots.begin.T.reshape(-1)
    before = jnp.maximum(begins - 1, 0)
    lasts = jnp.minimum(begins + jnp.repeat(cells.num_bins, NUM_DIRECTIONS), capacity)
    zero = jnp.zeros((), weights.dtype)
    below_before, counts_below_before, counts_not_above_before = (
        jnp.where(begins > 0, sums[..., before], zero)
        for sums in (below, counts_below, counts_not_above)
    )
    own_below, other_below = sites.unpack(below - below_before[:, owner])
    own_above, other_above = sites.unpack(not_above[:, lasts][:, owner] - not_above)
    parent = owner // NUM_DIRECTIONS
    return _SlotSums(
        own_below,
        other_below,
        own_above,
        other_above,
        cells.own_above[parent],
        cells.own_below[parent],
        counts_not_above,
        counts_below,
        counts_not_above_before,
        counts_below_before,
    )


class _BinRuns(NamedTuple):
    """Runs of neighbouring live bins, in order; slots past the last run hold no run."""

    start_slot: Array  # [B] int32
    end_slot: Array  # [B] int32, of the last bin
    is_run: Array  # [B] bool
    bound: Array  # [B] integer, the least bound of its bins
    num_begun: Array  # [B + 1] int32, runs that begin before a slot
    num_ended: Array  # [B + 1] int32, runs that end before a slot


def _find_runs(live: Array, is_cut: Array, bounds: Array) -> _BinRuns:
    """The runs of `live` bins [B + 1], cut before the bins of `is_cut`."""
    capacity = live.shape[0] - 1
    starts = live & (is_cut | ~jnp.concatenate([jnp.zeros(1, bool), live[:-1]]))
    ends = live & ~jnp.concatenate([live[1:] & ~is_cut[1:], jnp.zeros(1, bool)])
    counted = jnp.stack([starts, ends]).astype(jnp.int32)
    begun, ended = jnp.cumsum(counted, axis=1, dtype=jnp.int32) - counted
    slot = lax.iota(jnp.int32, capacity + 1)

    def at_runs(flags: Array, rank: Array) -> Array:
        target = jnp.where(flags, rank, capacity)
        return jnp.zeros(capacity, slot.dtype).at[target].set(slot, mode="drop")

    least = jnp.full(capacity, jnp.iinfo(bounds.dtype).max, bounds.dtype)
    least = least.at[jnp.where(live, begun + starts - 1, capacity)].min(bounds, mode="drop")
    is_run = lax.iota(jnp.int32, capacity) < jnp.sum(starts, dtype=jnp.int32)
    return _BinRuns(at_runs(starts, begun), at_runs(ends, ended), is_run, least, begun, ended)


@devices.host_jit(static_argnames=("capacity", "leaf_size", "num_sites"))
def divide(
    tree: SiteTree,
    frontier: Frontier,
    limit: Array,
    beam: Array,
    *,
    capacity: int,
    leaf_size: int,
    num_sites: int,
) -> Division:
    """Divides each cell into `NUM_DIRECTIONS` narrower ones, and bounds the loss for all offsets.

    Args:
      tree: all nodes.
      frontier: cells with their nodes.
      limit: [] integer, a bin remains if its bound is below this.
      beam: [] int32, about the largest number of bins that remain, the best ones; 0 for no limit.
      capacity: the number of slots for bins, static; at least the sum of `num_slots` over the
        cells.
      leaf_size: a run with at most this many sites, and no boxes, is a leaf, static.
      num_sites: capacity of the sites, static.
    """
    slots = _lay_out(frontier, capacity)
    first, behind, is_coarse = lax.optimization_barrier(_project(tree, frontier, slots))
    is_box = frontier.node >= num_sites
    is_coarse &= is_box
    counts = _packed_counts(jnp.where(is_box, leaf_size + 1, 1), jnp.where(is_coarse, FAN, 1))
    sums = _sum_weights(tree, frontier, slots, first, behind, counts)
    bounds = _bound_bins(slots, sums)
    remains = slots.is_bin & (bounds < _limit_of_beam(limit, bounds, beam))
    narrow = frontier.half_width / NUM_DIRECTIONS
    found = _find_runs(remains, _cuts(frontier.cells, narrow, slots), bounds)
    begin, end = lax.optimization_barrier((found.num_ended[first], found.num_begun[behind]))
    which = slots.owner[found.start_slot]
    num_entries, num_children = _unpacked_counts(sums.num_uncertain(found, which))
    low, high = _offsets(frontier.cells, slots, found, which)
    is_leaf = found.is_run & ((num_entries <= leaf_size) | (narrow <= NARROWEST))
    is_branch = found.is_run & ~is_leaf
    num_bins = choose_num_bins(low, high, narrow / NUM_DIRECTIONS, num_entries)
    runs = _cells_of_runs(frontier, sums, found, which, (low, high), num_bins)
    return Division(
        runs=runs,
        begin=begin,
        end=end,
        is_coarse=is_coarse,
        branch_rank=_with_total(is_branch),
        leaf_rank=_with_total(is_leaf),
        num_entries=num_entries,
        num_children=num_children.astype(jnp.int32),
        totals=_totals(is_branch, is_leaf, num_entries, num_children, num_bins),
        largest_leaf=jnp.max(jnp.where(is_leaf, num_entries, 0)),
    )


def _limit_of_beam(limit: Array, bounds: Array, beam: Array) -> Array:
    """The limit below which about `beam` bins remain, at most `limit`."""
    capacity = bounds.shape[0] - 1
    return loops.cond(
        beam > 0,
        lambda: jnp.minimum(limit, lax.sort(bounds)[jnp.minimum(beam, capacity)]),
        lambda: limit,
    )


def _totals(
    is_branch: Array, is_leaf: Array, num_entries: Array, num_children: Array, num_bins: Array
) -> Array:
    """The totals of a `Division`."""
    parts = [
        is_branch,
        jnp.where(is_branch, num_children, 0),
        jnp.where(is_branch, num_slots(num_bins), 0),
        is_leaf,
        jnp.where(is_leaf, num_entries, 0),
    ]
    return jnp.stack([jnp.sum(part, dtype=jnp.int64) for part in parts])


def _bound_bins(slots: _Slots, sums: _SlotSums) -> Array:
    """Lower bounds of the loss of the lines in each bin, [B + 1]; the largest integer where there
    is no bin.
    """
    bounds = jnp.minimum(
        sums.fixed_above + sums.own_below + sums.other_above,
        sums.fixed_below + sums.other_below + sums.own_above,
    )
    return jnp.where(slots.is_bin, bounds, jnp.iinfo(bounds.dtype).max)


def _cells_of_runs(
    frontier: Frontier,
    sums: _SlotSums,
    found: _BinRuns,
    which: Array,
    offsets: tuple[Array, Array],
    num_bins: Array,
) -> LineCells:
    """The runs as cells; `which` is the narrower cell of each run."""
    cells, start, last = frontier.cells, found.start_slot, found.end_slot
    return LineCells(
        swapped=cells.swapped[which // NUM_DIRECTIONS],
        slope=_narrow_slopes(cells.slope, frontier.half_width).T.reshape(-1)[which],
        low=offsets[0],
        high=offsets[1],
        own_above=sums.fixed_above[start] + sums.own_below[start] + sums.other_above[last],
        own_below=sums.fixed_below[start] + sums.other_below[start] + sums.own_above[last],
        bound=found.bound,
        num_bins=num_bins,
    )


def _offsets(cells: LineCells, slots: _Slots, found: _BinRuns, which: Array) -> tuple[Array, Array]:
    """The least and the largest offset of each run; `which` is its narrower cell."""
    begin = slots.begin.T.reshape(-1)[which]
    parent = which // NUM_DIRECTIONS
    bin_width = ((cells.high - cells.low) / cells.num_bins)[parent]
    return (
        cells.low[parent] + (found.start_slot - begin) * bin_width,
        cells.low[parent] + (found.end_slot + 1 - begin) * bin_width,
    )


def _with_total(flags: Array) -> Array:
    return jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(flags, dtype=jnp.int32)])
