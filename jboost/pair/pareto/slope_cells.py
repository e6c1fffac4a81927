"""Bounds by cells of directions: for each loss, an upper bound of the width of a slab in each cell.
They restrict the slabs that may be points of a front.

For one direction u let t[a] be the heights p . u of the own points, ascending, and d[b] those of
the others along -u. The widest slab that loses a own points below and b others above is
t[a] + d[b]. The widest slab of a given loss is the largest of these over a + b = loss. Over a cell
of directions every height has an upper bound, and the sorted upper bounds bound the sorted heights
for each direction of the cell. Hence one sort per cell bounds the widest slab for every loss
(`reach`), and one sort for the middle direction of the cell gives slabs that exist (`attained`). A
cell is needed for a loss if its reach is at least the width of the widest known slab. Cells are
halved until few are left. For these cells the module lists the own points that such a slab may
touch (the centres).

The error of a height is its distance along the slab times the half width of the cell. A slab that
turns by one radian meets about n points, so that cells narrower than 1 / n improve the bounds
little.

A point of weight w counts as w points here. Heights are integers, in units of 2^-28 of the extent
of the data, rounded outwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import devices, loops
from jboost.base.types import Array

ONE = 2.0**28  # the extent of the data, in units of heights
_WINDOW = 32  # the number of losses in a window
_FIRST_CELLS = 512  # the number of cells of a full turn in the first step
_FINENESS = 0.5  # the half width of the last cells, times the number of points
_CELLS_AT_ONCE = 32  # cells whose heights are sorted at once
_PAIRS_AT_ONCE = 64  # pairs of a cell and a window
BLOCK = 128  # heights in a block
_NONE = -(2**30)  # the height of padding, below that of every point
_MOST_ENTRIES = 1 << 24  # the largest number of pairs of a centre and a loss in the list
_MOST_PAIRS = 256  # cells for each window; with more, the cells are not halved again


class Cloud(NamedTuple):
    """The points, each repeated as often as its weight; centred and scaled to [-1, 1]."""

    # [2, N, 2] own points, and the others with the opposite sign; N is a multiple of `BLOCK`
    sides: np.ndarray
    counts: np.ndarray  # [2] int32, the number of points of each side without padding
    centres: np.ndarray  # [c, 2] the distinct positions of the own class


class Shortlist(NamedTuple):
    """Pairs of a cell and a centre that may contain a point of the front, by loss and then by
    decreasing reach.
    """

    loss: np.ndarray  # [e] int64, number of points lost
    centre: np.ndarray  # [e] number of the centre
    cell: np.ndarray  # [e] number of the cell in the full turn
    reach: np.ndarray  # [e] int64, an upper bound of the width of such a slab
    attained: np.ndarray  # [e] int64, the width of a known slab of this loss
    num_cells: int  # in the full turn


class _Cells(NamedTuple):
    """Pairs of a cell of directions and a window of losses for which it may be needed."""

    number: np.ndarray  # [p] of the cell in the full turn, ascending
    window: np.ndarray  # [p]


class CellsState(NamedTuple):
    """The cells that are needed, between two halvings."""

    number: np.ndarray  # [p] of the cell in the full turn, ascending
    window: np.ndarray  # [p]
    attained: np.ndarray  # [v, _WINDOW] int64, width of a known slab of each loss
    num_cells: np.ndarray  # [] int64, in the full turn


class _Goals(NamedTuple):
    """Windows of losses, and the widest known slab of each loss."""

    losses: np.ndarray  # [v, _WINDOW] numbers of points lost, ascending throughout
    attained: np.ndarray  # [v, _WINDOW] int64, width of a known slab


def shortlist(
    cloud: Cloud,
    first: int,
    last: int,
    known: float,
    *,
    watch: Callable[[CellsState], None] | None = None,
    initial: CellsState | None = None,
) -> Shortlist | None:
    """The centres for each loss from `first` to `last` - 1; None if there are too many.

    Args:
      cloud: the points; each class has at least `last`.
      first: the first loss, in points.
      last: the end of the losses, in points.
      known: the width of a slab that loses less than `first`, scaled.
      watch: called with the cells before each halving.
      initial: the cells to continue from, or None.
    """
    num_windows = -(-(last - first) // _WINDOW)
    losses = np.arange(last - num_windows * _WINDOW, last).reshape(num_windows, _WINDOW)
    goals = _Goals(losses, np.full(losses.shape, max(int(known * ONE) - 1, 0), np.int64))
    if initial is None:
        num_cells = _FIRST_CELLS
        cells, goals = _start(cloud, goals, num_cells)
    else:
        num_cells = int(initial.num_cells)
        cells, goals = _Cells(*initial[:2]), goals._replace(attained=initial.attained)
    while (
        np.pi / num_cells * cloud.counts.sum() > _FINENESS
        and len(cells.number) <= _MOST_PAIRS * num_windows
    ):
        if watch is not None:
            watch(CellsState(*cells, goals.attained, np.asarray(num_cells, np.int64)))
        num_cells *= 2
        cells, goals = _halve(cloud, goals, cells, num_cells)
    return _list_centres(cloud, goals, cells, num_cells, first)


def _start(cloud: Cloud, goals: _Goals, num_cells: int) -> tuple[_Cells, _Goals]:
    """The cells of a full turn that are needed. Only the ends of each window are tested."""
    num_windows = len(goals.losses)
    cells = _Cells(
        np.repeat(np.arange(num_cells), num_windows), np.tile(np.arange(num_windows), num_cells)
    )
    needed = goals.attained[:, 0]
    attained = _widest_of(cloud, cells, num_cells, goals.losses[:, 0], needed, 1, is_bound=False)[
        :, 0
    ]
    np.maximum.at(needed, cells.window, attained)
    goals = goals._replace(attained=_running_max(goals.attained))
    reach = _widest_of(
        cloud, cells, num_cells, goals.losses[:, -1], goals.attained[:, 0], 1, is_bound=True
    )[:, 0]
    return _chosen(cells, reach >= goals.attained[cells.window, 0]), goals


def _halve(cloud: Cloud, goals: _Goals, cells: _Cells, num_cells: int) -> tuple[_Cells, _Goals]:
    """The halves of cells that are needed. A full turn now has `num_cells` cells."""
    cells = _Cells(
        np.concatenate([2 * cells.number, 2 * cells.number + 1]), np.tile(cells.window, 2)
    )
    cells = _chosen(cells, np.argsort(cells.number, kind="stable"))
    starts = goals.losses[:, 0]
    reach = _widest_of(
        cloud, cells, num_cells, starts, goals.attained[:, 0], _WINDOW, is_bound=True
    )
    is_needed = np.any(reach >= goals.attained[cells.window], axis=1)
    cells, reach = _chosen(cells, is_needed), reach[is_needed]
    attained = goals.attained.copy()
    np.maximum.at(
        attained,
        cells.window,
        _widest_of(cloud, cells, num_cells, starts, attained[:, 0], _WINDOW, is_bound=False),
    )
    goals = goals._replace(attained=_running_max(attained))
    return _chosen(cells, np.any(reach >= goals.attained[cells.window], axis=1)), goals


def _running_max(attained: np.ndarray) -> np.ndarray:
    return np.maximum.accumulate(attained.reshape(-1)).reshape(attained.shape)


def _chosen(cells: _Cells, which: np.ndarray) -> _Cells:
    return _Cells(*(field[which] for field in cells))


def directions_of(number: np.ndarray, num_cells: int) -> np.ndarray:
    """The middle directions of cells, unit vectors [p, 2]."""
    angle = (number + 0.5) * (2 * np.pi / num_cells)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def blur_of(half_width: float) -> np.ndarray:
    """The largest increase of a height over the directions of a cell, for a unit of distance along
    and across its middle direction, [2].
    """
    return np.array([2 * np.sin(half_width / 2) ** 2, np.sin(half_width)])


def _widest_of(
    cloud: Cloud,
    cells: _Cells,
    num_cells: int,
    starts: np.ndarray,
    needed: np.ndarray,
    width: int,
    *,
    is_bound: bool,
) -> np.ndarray:
    """The width of the widest slab for each cell and each loss of its window, [p, width]. A width
    below the needed one may be returned too small.

    Args:
      cloud: the points.
      cells: p cells.
      num_cells: in a full turn.
      starts: [v] the first loss of each window.
      needed: [v] the least widths of interest.
      width: the number of losses in a window.
      is_bound: True for a bound over all directions of a cell, rounded up; False for the middle
        direction of a cell, rounded down.
    """
    blur, lift = (blur_of(np.pi / num_cells), 2) if is_bound else (np.zeros(2), -1)
    widths = np.zeros((len(cells.number), width), np.int64)
    for number, which in _batches(cells):
        heights = _heights(cloud.sides, cloud.counts, directions_of(number, num_cells), blur, lift)
        for first in range(0, len(which), _PAIRS_AT_ONCE):
            pairs = which[first : first + _PAIRS_AT_ONCE]
            padded = np.pad(pairs, (0, _PAIRS_AT_ONCE - len(pairs)), mode="edge")
            window, row = cells.window[padded], np.searchsorted(number, cells.number[padded])
            row, start, least = (
                part.astype(np.int32) for part in (row, starts[window], needed[window])
            )
            found = _widest(heights, cloud.counts, row, start, least, width=width)
            widths[pairs] = np.asarray(found)[: len(pairs)]
    return widths


def _batches(cells: _Cells) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches of the numbers of cells [_CELLS_AT_ONCE], padded with the last one, and the indices
    of their pairs in the list, in the order of windows.
    """
    numbers, first = np.unique(cells.number, return_index=True)
    ends = np.append(first, len(cells.number))
    batches = []
    for begin in range(0, len(numbers), _CELLS_AT_ONCE):
        part = numbers[begin : begin + _CELLS_AT_ONCE]
        which = np.arange(ends[begin], ends[begin + len(part)])
        which = which[np.argsort(cells.window[which], kind="stable")]
        batches.append((np.pad(part, (0, _CELLS_AT_ONCE - len(part)), mode="edge"), which))
    return batches


@devices.public_jit
def _heights(sides: Array, counts: Array, directions: Array, blur: Array, lift: int) -> Array:
    """The sorted heights of both sides along directions [C, 2], increased by the term of `blur`,
    [2, C, N] int32.
    """
    x, y = sides[:, None, :, 0], sides[:, None, :, 1]
    u, v = directions[None, :, :1], directions[None, :, 1:]
    along, across = x * u + y * v, y * u - x * v
    heights = (
        jnp.floor((along + blur[0] * jnp.abs(along) + blur[1] * jnp.abs(across)) * ONE).astype(
            jnp.int32
        )
        + lift
    )
    is_void = lax.broadcasted_iota(jnp.int32, (2, 1, sides.shape[1]), 2) >= counts[:, None, None]
    heights = lax.sort(jnp.where(is_void, -_NONE, heights), dimension=2)
    return jnp.where(is_void, _NONE, heights)


@devices.public_jit(static_argnames="width")
def _widest(
    heights: Array, counts: Array, row: Array, start: Array, needed: Array, *, width: int
) -> Array:
    """The width of the widest slab for each loss of P windows.

    Args:
      heights: [2, C, N] int32.
      counts: [2] int32.
      row: [P] int32, the row of the heights for each window.
      start: [P] int32, the first loss.
      needed: [P] int32, the least widths of interest.
      width: the number of losses in a window, static.
    """
    size = heights.shape[2]
    own, other = heights[0, row], heights[1, row]
    begin = lax.iota(jnp.int32, size // BLOCK) * BLOCK
    most_kept = start[:, None] + (width - 1) - begin[None]
    highest = jnp.max(own.reshape(len(row), -1, BLOCK), axis=2)
    farthest = jnp.take_along_axis(other, jnp.clip(most_kept, 0, counts[1] - 1), axis=1)
    is_live = jnp.any((most_kept >= 0) & (highest + farthest >= needed[:, None]), axis=0)
    block = lax.iota(jnp.int32, size // BLOCK)
    first, last = (
        jnp.min(jnp.where(is_live, block, size)),
        jnp.max(jnp.where(is_live, block + 1, 0)),
    )
    void = jnp.full((len(row), size + width), _NONE, other.dtype)
    reverse = jnp.concatenate([void[:, :width], other[:, ::-1], void], axis=1)
    reverse = jax.vmap(lambda line, begin: lax.dynamic_slice_in_dim(line, begin, size + width))(
        reverse, size - start
    )

    def add_block(index: Array, widest: tuple[Array, ...]) -> tuple[Array, ...]:
        lower = lax.dynamic_slice_in_dim(own, index * BLOCK, BLOCK, axis=1)
        upper = lax.dynamic_slice_in_dim(reverse, index * BLOCK, BLOCK + width - 1, axis=1)
        return tuple(
            jnp.maximum(widest[lost], lower + upper[:, width - 1 - lost : width - 1 - lost + BLOCK])
            for lost in range(width)
        )

    nothing = tuple(jnp.full((len(row), BLOCK), 2 * _NONE, own.dtype) for _ in range(width))
    widest = loops.fori_loop(first, last, add_block, nothing)
    return jnp.stack([jnp.max(part, axis=1) for part in widest], axis=1)


def _list_centres(
    cloud: Cloud, goals: _Goals, cells: _Cells, num_cells: int, first: int
) -> Shortlist | None:
    """The centres that slabs of the cells may touch, if these slabs may be wide enough."""
    blur = blur_of(np.pi / num_cells)
    found: list[np.ndarray] = [np.zeros((4, 0), np.int64)]
    num_entries = 0
    for number, which in _batches(cells):
        directions = directions_of(number, num_cells)
        heights = np.asarray(_heights(cloud.sides, cloud.counts, directions, blur, 2))
        for row, cell in enumerate(np.unique(number)):
            windows = cells.window[which[cells.number[which] == cell]]
            entries = _touching_slabs(cloud, goals, heights[:, row], directions[row], blur, windows)
            num_entries += entries.shape[1]
            if num_entries > _MOST_ENTRIES:
                return None
            found.append(np.insert(entries, 2, cell, axis=0))
    loss, centre, cell, reach = np.concatenate(found, axis=1)
    attained = goals.attained.reshape(-1)[loss - goals.losses[0, 0]]
    order = np.lexsort((-reach, loss))
    order = order[((loss >= first) & (reach >= attained))[order]]
    return Shortlist(
        loss[order], centre[order], cell[order], reach[order], attained[order], num_cells
    )


def _touching_slabs(
    cloud: Cloud,
    goals: _Goals,
    heights: np.ndarray,
    direction: np.ndarray,
    blur: np.ndarray,
    windows: np.ndarray,
) -> np.ndarray:
    """The losses, centres and reaches [3, e] of the slabs of one cell whose reach is at least the
    attained width.
    """
    along = cloud.centres @ direction
    error = blur[0] * np.abs(along) + blur[1] * np.abs(
        cloud.centres[:, 1] * direction[0] - cloud.centres[:, 0] * direction[1]
    )
    highest = np.floor((along + error) * ONE).astype(np.int64) + 2
    lowest = np.floor((along - error) * ONE).astype(np.int64) - 1
    num_own, num_other = cloud.counts
    lost = np.searchsorted(heights[0, :num_own], lowest)
    found = [np.zeros((3, 0), np.int64)]
    for losses, attained in zip(goals.losses[windows], goals.attained[windows], strict=True):
        num_left = losses[-1] - lost
        reach = highest + heights[1, np.clip(num_left, 0, num_other - 1)]
        centre = np.flatnonzero((num_left >= 0) & (reach >= attained[0]))
        num_left = losses - lost[centre, None]
        reach = highest[centre, None] + heights[1, np.clip(num_left, 0, num_other - 1)]
        place, column = np.nonzero((num_left >= 0) & (reach >= attained))
        found.append(np.stack([losses[column], centre[place], reach[place, column]]))
    return np.concatenate(found, axis=1)
