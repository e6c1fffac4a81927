"""Leaves: cells with few uncertain sites. The module bounds the least loss of the lines of a leaf
through each uncertain site of the own class.

As in `jboost.pair.sweep`, approximate sort keys give a lower and an upper bound of the least loss
around each centre. If these bounds do not decide, exact orders do
(`jboost.pair.branch_and_bound.leaf_visits`). Only lines of the cell are considered, because the
certain sites are certain only for them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import devices, loops
from jboost.base.types import Array
from jboost.pair.branch_and_bound import sites
from jboost.pair.branch_and_bound.cells import LineCells
from jboost.pair.branch_and_bound.frontiers import Leaves
from jboost.pair.branch_and_bound.scans import running_max, running_min, running_sum
from jboost.pair.branch_and_bound.sites import CurveSites

# A line at most this far from a cell is treated as a line of the cell. The tolerance is less than
# `cells.SAFETY` and more than the rounding of a line.
TOLERANCE = 2.0**-48
# The finest unit of a key is 2^-49. On the grids of `LineInstance`, the keys of two directions are
# then equal or differ by at least two, up to the width below.
_KEY_BITS = 50
# The largest leaf, in sites, for which keys of a grid are certain: equal keys then mean equal
# directions.
_WIDEST_CERTAIN = 2048
_FINEST_KEY = 2.0**-49  # the finest unit of a key


class Local(NamedTuple):
    """The sites of one leaf. The axes are exchanged if the cell is swapped, so that a line of slope
    u has normal (1, u).
    """

    x: Array  # [M] as in `LineInstance`
    y: Array  # [M]
    own: Array  # [M] integer weight, 0 where there is no site
    other: Array  # [M]
    live: Array  # [M] bool
    cell: LineCells  # fields []
    half_width: Array  # []


class Bracket(NamedTuple):
    """Bounds of the least loss of the open classes through one centre."""

    lower: Array  # [...] integer
    upper: Array  # [...] integer


class Frame(NamedTuple):
    """The map from coordinates of `LineInstance` to those of cells: (coordinate - middle) /
    size.
    """

    middle: Array  # [2]
    size: Array  # [2] powers of two


@devices.host_jit
def frame_of(points: CurveSites) -> Frame:
    """The frame of the tree of these sites."""
    return Frame(*sites.centre_and_scale(points))


def gather_local(points: CurveSites, leaf: Leaves) -> Local:
    """The sites of one leaf. The fields of `leaf` have no leading axis."""
    live = leaf.site >= 0
    place = jnp.maximum(leaf.site, 0)
    x, y = points.x[place], points.y[place]
    swapped = leaf.cells.swapped
    zero = jnp.zeros((), points.own.dtype)
    own, other = (jnp.where(live, weights[place], zero) for weights in (points.own, points.other))
    return Local(
        jnp.where(swapped, y, x),
        jnp.where(swapped, x, y),
        own,
        other,
        live,
        leaf.cells,
        leaf.half_width,
    )


def oriented_frame(frame: Frame, swapped: Array) -> Frame:
    """The frame for coordinates that are exchanged where `swapped`."""
    return Frame(*(jnp.where(swapped, part[::-1], part) for part in frame))


def meets_cell(local: Local, frame: Frame, centre: Array, begin: Array, end: Array) -> Array:
    """Whether lines through a centre with slopes between `begin` and `end` meet the cell. True if
    rounding makes this uncertain.
    """
    cell = local.cell
    low_slope, high_slope = (
        cell.slope - local.half_width - TOLERANCE,
        cell.slope + local.half_width + TOLERANCE,
    )
    begin, end = jnp.maximum(begin, low_slope), jnp.minimum(end, high_slope)
    along = (local.x[centre] - frame.middle[0]) / frame.size[0]
    across = (local.y[centre] - frame.middle[1]) / frame.size[1]
    first, second = along + begin * across, along + end * across
    touches = (jnp.minimum(first, second) <= cell.high + TOLERANCE) & (
        jnp.maximum(first, second) >= cell.low - TOLERANCE
    )
    return touches & (begin <= end + TOLERANCE)


class _Crossings(NamedTuple):
    """The lines through one centre and each site, sorted by slope; those of the cell first."""

    slope: Array  # [M] inf after the lines of the cell
    steps: Array  # [M] the change of the loss of the sites above as the slope passes the line
    is_crossing: Array  # [M] bool, whether it is a line of the cell
    joined: Array  # [M] bool, whether the order with the line before is uncertain
    is_open: Array  # [M] bool, whether the order with the line after is certain


def _bracket_centre(local: Local, frame: Frame, on_grid: Array, centre: Array) -> Bracket:
    """Bounds of the least loss of the open classes through one centre and in the cell."""
    size = local.x.shape[0]
    cell, half_width = local.cell, local.half_width
    dx, dy = (
        (local.x - local.x[centre]) / frame.size[0],
        (local.y - local.y[centre]) / frame.size[1],
    )
    away = local.live & ((dx != 0) | (dy != 0))
    crossing = jnp.where(dy != 0, -dx / jnp.where(dy != 0, dy, 1), jnp.inf)
    start = cell.slope - half_width - TOLERANCE
    crosses = away & (crossing >= start) & (crossing <= cell.slope + half_width + TOLERANCE)
    above = jnp.where(crossing == jnp.inf, dx > 0, (dy > 0) == (crossing < start))
    change = jnp.where(away, local.other - local.own, 0)
    at_start = jnp.sum(jnp.where(above, change, 0))
    steps = jnp.where(crosses, jnp.where(dy > 0, change, -change), 0)
    sorted_lines = _sort_crossings(crossing, crosses, steps, start, half_width)
    own_off, other_off = (
        jnp.sum(jnp.where(away, weights, 0)) for weights in (local.own, local.other)
    )
    here = jnp.sum(jnp.where(local.live & ~away, local.other, 0))
    at_first = _AtStart(
        own_above=cell.own_above + own_off + here + at_start,
        own_below=cell.own_below + other_off + here - at_start,
        is_met=meets_cell(local, frame, centre, start, sorted_lines.slope[0]),
    )
    tied = sorted_lines.joined if size > _WIDEST_CERTAIN else sorted_lines.joined & ~on_grid
    return _bracket_losses(local, frame, centre, sorted_lines, at_first, tied)


def _sort_crossings(
    crossing: Array, crosses: Array, steps: Array, start: Array, half_width: Array
) -> _Crossings:
    """Sorts lines of slopes `crossing` [M] by keys, integer multiples of a small slope. Lines where
    `crosses` is False come last.
    """
    size = crossing.shape[0]
    index_bits = max(1, (size - 1).bit_length())
    resolution = jnp.maximum(
        2 * (half_width + TOLERANCE) * 2.0 ** -min(_KEY_BITS, 61 - index_bits), _FINEST_KEY
    )
    quantized = jnp.where(
        crosses, ((crossing - start) / resolution).astype(jnp.int64), 2 ** (62 - index_bits)
    )
    order = lax.sort((quantized << index_bits) | lax.iota(jnp.int64, size))
    place = (order & (2**index_bits - 1)).astype(jnp.int32)
    key = order >> index_bits
    steps, crossing = lax.optimization_barrier((steps[place], crossing[place]))
    joined = jnp.concatenate([jnp.zeros(1, bool), key[1:] - key[:-1] <= 1])
    is_crossing = lax.iota(jnp.int32, size) < jnp.sum(crosses)
    is_open = is_crossing & jnp.concatenate([~joined[1:] | ~is_crossing[1:], jnp.ones(1, bool)])
    slope = jnp.where(is_crossing, crossing, jnp.inf)
    return _Crossings(slope, steps, is_crossing, joined, is_open)


class _AtStart(NamedTuple):
    """The losses of the line of the least slope of the cell, for both orientations."""

    own_above: Array  # [] integer
    own_below: Array  # [] integer
    is_met: Array  # [] bool, whether the lines before the first crossing meet the cell


def _bracket_losses(
    local: Local,
    frame: Frame,
    centre: Array,
    lines: _Crossings,
    first: _AtStart,
    tied: Array,
) -> Bracket:
    """Bounds of the least loss between the sorted lines. Where lines are `tied`, any order of them
    is possible.
    """
    following = jnp.concatenate([lines.slope[1:], jnp.full(1, jnp.inf, lines.slope.dtype)])
    met = lines.is_open & meets_cell(local, frame, centre, lines.slope, following)
    met_loosely = lines.is_open & meets_cell(
        local,
        frame,
        centre,
        running_max(jnp.where(lines.joined, -jnp.inf, lines.slope)),
        following,
    )
    rises = running_sum(jnp.maximum(lines.steps, 0))
    falls = running_sum(jnp.minimum(lines.steps, 0))
    sums = rises + falls
    zero = jnp.zeros(1, lines.steps.dtype)
    rises_before = running_max(jnp.where(tied, 0, jnp.concatenate([zero, rises[:-1]])))
    falls_before = running_min(jnp.where(tied, 0, jnp.concatenate([zero, falls[:-1]])))
    upper = _least_loss(first, sums, sums, met)
    uncertain = jnp.any(tied & lines.is_crossing)
    lower = jnp.where(
        uncertain,
        _least_loss(first, rises_before + falls, rises + falls_before, met_loosely),
        upper,
    )
    return Bracket(lower, upper)


def _least_loss(first: _AtStart, low: Array, high: Array, met: Array) -> Array:
    """The least loss of both orientations, over the classes that are `met` and that of `first`. The
    loss above has changed by at least `low` and at most `high` [M] since the least slope.
    """
    none = jnp.iinfo(jnp.int64).max
    lowest = jnp.min(jnp.where(met, low, none))
    highest = jnp.max(jnp.where(met, high, -none))
    from_lines = jnp.minimum(
        jnp.where(lowest < none, first.own_above + lowest, none),
        jnp.where(highest > -none, first.own_below - highest, none),
    )
    return jnp.minimum(
        from_lines,
        jnp.where(first.is_met, jnp.minimum(first.own_above, first.own_below), none),
    )


@devices.host_jit(static_argnames="num_triples")
def bracket_leaves(
    points: CurveSites, frame: Frame, leaves: Leaves, *, num_triples: int
) -> Bracket:
    """Bounds of the least loss around every site of every leaf, fields [L, M]; the largest integer
    for sites that are not of the own class.

    The sites of the own class are listed and processed in groups, such that a group has about
    `num_triples` (static) triples of a leaf, a centre and a site.
    """
    num_leaves, width = leaves.site.shape
    at_once = max(1, num_triples // width)
    local = jax.vmap(gather_local, in_axes=(None, 0))(points, leaves)
    views = jax.vmap(oriented_frame, in_axes=(None, 0))(frame, leaves.cells.swapped)
    is_centre = (local.live & (local.own > 0)).reshape(-1)
    ends = running_sum(is_centre.astype(jnp.int32))
    count = ends[-1]
    place = jnp.where(is_centre, ends - 1, ends.shape[0])
    listed = (
        jnp.zeros(ends.shape[0] + at_once, jnp.int32)
        .at[place]
        .set(lax.iota(jnp.int32, ends.shape[0]), mode="drop")
    )
    none = jnp.full((num_leaves * width,), jnp.iinfo(jnp.int64).max)

    def bracket_next(number: Array, found: Bracket) -> Bracket:
        chosen = lax.dynamic_slice(listed, (number * at_once,), (at_once,))
        leaf = chosen // width
        its_local, its_view = jax.tree.map(lambda field: field[leaf], (local, views))
        brackets = jax.vmap(_bracket_centre, in_axes=(0, 0, None, 0))(
            its_local, its_view, points.on_grid, chosen % width
        )
        target = jnp.where(
            number * at_once + lax.iota(jnp.int32, at_once) < count, chosen, none.shape[0]
        )
        return Bracket(
            *(
                old.at[target].set(new, mode="drop")
                for old, new in zip(found, brackets, strict=True)
            )
        )

    found = loops.fori_loop(0, -(-count // at_once), bracket_next, Bracket(none, none))
    return Bracket(*(field.reshape(num_leaves, width) for field in found))
