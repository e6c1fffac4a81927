"""Cells of planes, their division into quarters, and lower bounds of the loss in each quarter.

A plane is x + s y + t z = offset with |s|, |t| <= 1, where x is the coordinate number `face` and y,
z are the two that follow in cyclic order. A cell contains the planes with |s - s0| <= a,
|t - t0| <= b and |offset - offset0| <= c. Among these planes the height of a site above the plane
varies by at most a |y| + b |z| + c. A site that is farther than this from the middle plane is
certain: it is on the same side of every plane of the cell. The loss at the certain sites is a lower
bound of the loss of every plane of the cell. The test of a site for a piece of a cell takes two
multiplications and additions. Only the undecided sites are tested again in the piece. They are
stored in rows of equal length.

A site is a position that one or more points occupy; the code calls it a place.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import devices
from jboost.base.types import Array

NUM_PIECES = 4  # of a cell: each division consists of two halvings
# The divisions after which a cell is a leaf. There, the widths of its three parameters are about
# 2^-32 of their first ones. Not tuned.
NUM_DEPTHS = 48
ROW = 32  # places in a row; a round number, not tuned
# A smaller height is never certain. Coordinates are at most 1 and offsets at most 3, so that the
# rounding error of a height is at most 2^-48.
SAFETY = 2.0**-44
# The numbers of rows for which `_row_losses` is compiled. Round numbers; not tuned.
_NUM_ROWS = (64, 512, 4096)


class Places(NamedTuple):
    """One entry for each place, centred and scaled; padding from entry `num_places` on."""

    points: np.ndarray  # [N + 1, 3] from -1 to 1
    # [N + 1] integer, the weight of the own class, or minus the weight of the other class
    weights: np.ndarray
    is_centre: np.ndarray  # [N + 1] bool, whether the place has a point of the own class
    num_places: int

    @property
    def void(self) -> int:
        """The index of the last entry, which pads rows."""
        return len(self.weights) - 1


class Known(NamedTuple):
    """The best plane found so far."""

    loss: np.ndarray  # [] int64
    # [4] the normal and the offset; the own class is where normal . x > offset. 0 for a constant
    # classifier.
    plane: np.ndarray


class HalvingPlan(NamedTuple):
    """The order in which the parameters of the cells of each face are halved. At each depth the
    halved parameters are those to which the heights are most sensitive.
    """

    halvings: np.ndarray  # [3, NUM_DEPTHS + 1, 3] int64, how often s, t and offset are halved
    half_widths: np.ndarray  # [3, NUM_DEPTHS + 1, 3]


class PlaneCells(NamedTuple):
    """Some cells with their undecided places. The places of each cell begin with a new row."""

    face: np.ndarray  # [K] int32
    depth: np.ndarray  # [K] int32
    middle: np.ndarray  # [K, 3] s, t and the offset of the middle plane
    above: np.ndarray  # [K] integer, loss at the certain places with the own class above
    below: np.ndarray  # [K] the same with the own class below
    num_undecided: np.ndarray  # [K] places
    stuck: np.ndarray  # [K] int32, divisions since the last one that decided a place
    rows: np.ndarray  # [R, ROW] int32, places, padded with `Places.void`

    @property
    def bound(self) -> np.ndarray:
        """A lower bound of the loss of all planes of each cell, [K]."""
        return np.minimum(self.above, self.below)

    @property
    def num_rows(self) -> np.ndarray:
        return -(-self.num_undecided // ROW)

    def chosen(self, which: np.ndarray) -> PlaneCells:
        """The cells where a mask [K] is true."""
        return PlaneCells._make(
            [*(field[which] for field in self[:-1]), self.rows[np.repeat(which, self.num_rows)]]
        )


class _PieceSums(NamedTuple):
    """The losses at the places of rows, for each piece of their cells."""

    above: Array  # [R, NUM_PIECES] at certain places, with the own class above
    below: Array  # [R, NUM_PIECES] the same, with the own class below
    # [R, NUM_PIECES] loss of the middle plane; places within rounding of it count as lost
    middle_above: Array
    middle_below: Array  # [R, NUM_PIECES]
    undecided: Array  # [R, NUM_PIECES, ROW] bool


def make_plan(places: Places) -> HalvingPlan:
    """Orders the halvings by how much each reduces the slack of a place at a mean distance. The
    slack is the variation of its height over a cell.
    """
    points = places.points[: places.num_places]
    slope_slack = np.abs(points).mean(axis=0)
    offset_slack = np.abs(points).sum(axis=1).max()
    steps, widths = [], np.array([1.0, 1.0, offset_slack])
    for face in range(3):
        slack = np.array([slope_slack[(face + 1) % 3], slope_slack[(face + 2) % 3], offset_slack])
        order = np.argsort(
            -slack[:, None] * 2.0 ** -np.arange(2 * NUM_DEPTHS), axis=None, kind="stable"
        )[: 2 * NUM_DEPTHS]
        steps.append(np.cumsum(np.eye(3, dtype=np.int64)[order // (2 * NUM_DEPTHS)], axis=0))
    halvings = np.concatenate([np.zeros((3, 1, 3), np.int64), np.stack(steps)[:, 1::2]], axis=1)
    return HalvingPlan(halvings, widths * 2.0**-halvings)


def root(places: Places, base: int) -> PlaneCells:
    """The three cells that contain all planes; `base` is a loss that every plane has."""
    face, lost, count = (
        np.arange(3, dtype=np.int32),
        np.full(3, base, np.int64),
        np.full(3, places.num_places),
    )
    rows = _in_rows(np.tile(np.arange(places.num_places), 3), count, places.void)
    return PlaneCells(
        face, np.zeros_like(face), np.zeros((3, 3)), lost, lost, count, np.zeros_like(face), rows
    )


def join(parts: list[PlaneCells]) -> PlaneCells:
    """Concatenates groups of cells."""
    return PlaneCells(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


def divide(
    places: Places, plan: HalvingPlan, cells: PlaneCells, best: Known
) -> tuple[PlaneCells, Known]:
    """Divides cells, and keeps the pieces that may contain a plane that loses at most as much as
    the best one.

    Args:
      places: all places.
      plan: the plan of these places.
      cells: K cells above the last depth, each with at least one undecided place.
      best: the best plane so far.

    Returns:
      The pieces by decreasing lower bound, and the best plane.
    """
    middle = _middles(plan, cells)
    first_row = before(cells.num_rows)
    sums = _sums(places, cells, middle, plan.half_widths[cells.face, cells.depth + 1])
    lost = [np.add.reduceat(part, first_row) for part in sums[:-1]]
    above, below, middle_above, middle_below = (
        part + known[:, None]
        for part, known in zip(
            lost, (cells.above, cells.below, cells.above, cells.below), strict=True
        )
    )
    best = _better(best, np.stack([middle_above, middle_below]), cells.face, middle)
    bound = np.minimum(above, below).reshape(-1)
    order = np.argsort(-bound, kind="stable")
    parent, piece = np.divmod(order[bound[order] <= best.loss], NUM_PIECES)
    row, owner = ranges(first_row[parent], cells.num_rows[parent])
    undecided = sums.undecided[row, piece[owner]]
    count = np.bincount(owner, np.count_nonzero(undecided, axis=1), len(parent)).astype(np.int64)
    pieces = PlaneCells(
        face=cells.face[parent],
        depth=cells.depth[parent] + 1,
        middle=middle[parent, piece],
        above=above[parent, piece],
        below=below[parent, piece],
        num_undecided=count,
        stuck=np.where(count < cells.num_undecided[parent], 0, cells.stuck[parent] + 1),
        rows=_in_rows(cells.rows[row][undecided], count, places.void),
    )
    return pieces, best


def _better(best: Known, losses: np.ndarray, face: np.ndarray, middle: np.ndarray) -> Known:
    """The best of a known plane and of the middle planes of pieces.

    Args:
      best: the known plane.
      losses: [2, K, NUM_PIECES], with the own class above and below.
      face: [K].
      middle: [K, NUM_PIECES, 3].
    """
    side, cell, piece = np.unravel_index(np.argmin(losses), losses.shape)
    if losses[side, cell, piece] >= best.loss:
        return best
    s, t, offset = middle[cell, piece]
    plane = np.array([*np.roll([1.0, s, t], face[cell]), offset])
    return Known(losses[side, cell, piece, ...], plane if side == 0 else -plane)


def _middles(plan: HalvingPlan, cells: PlaneCells) -> np.ndarray:
    """The parameters of the middle plane of each piece, [K, NUM_PIECES, 3]."""
    number = 1 << (
        plan.halvings[cells.face, cells.depth + 1] - plan.halvings[cells.face, cells.depth]
    )
    stride = np.cumprod(
        np.concatenate([np.ones_like(number[:, :1]), number[:, :-1]], axis=1), axis=1
    )
    digit = np.arange(NUM_PIECES)[:, None] // stride[:, None] % number[:, None]
    return (
        cells.middle[:, None]
        + (2 * digit + 1 - number[:, None]) * plan.half_widths[cells.face, cells.depth + 1][:, None]
    )


def before(counts: np.ndarray) -> np.ndarray:
    """The sum of the counts before each entry."""
    return np.cumsum(counts) - counts


def ranges(first: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The integers first[i], ..., first[i] + counts[i] - 1 for all i, and the i of each."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return np.arange(len(owner)) + (first - before(counts))[owner], owner


def _in_rows(places: np.ndarray, count: np.ndarray, void: int) -> np.ndarray:
    """Writes consecutive lists of places into rows; each list begins with a new row."""
    num_rows = -(-count // ROW)
    rows = np.full((num_rows.sum(), ROW), void, np.int32)
    slot, _ = ranges(ROW * before(num_rows), count)
    rows.reshape(-1)[slot] = places
    return rows


def _sums(
    places: Places, cells: PlaneCells, middle: np.ndarray, half_width: np.ndarray
) -> _PieceSums:
    """The losses of all rows. The rows are padded to one of few sizes, to limit compilations."""
    owner = np.repeat(np.arange(len(cells.num_undecided)), cells.num_rows)
    parts, first = [], 0
    while first < len(owner):
        size = next((size for size in _NUM_ROWS if size >= len(owner) - first), _NUM_ROWS[-1])
        cell, rows = owner[first : first + size], cells.rows[first : first + size]
        missing = size - len(cell)
        cell, rows = (
            np.pad(cell, (0, missing)),
            np.pad(rows, ((0, missing), (0, 0)), constant_values=places.void),
        )
        found = _row_losses(
            places.points, places.weights, rows, cells.face[cell], middle[cell], half_width[cell]
        )
        parts.append(_PieceSums(*(np.asarray(field)[: size - missing] for field in found)))
        first += size
    return _PieceSums(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


@devices.public_jit
def _row_losses(
    points: Array, weights: Array, rows: Array, face: Array, middle: Array, half_width: Array
) -> _PieceSums:
    """The losses at the places of rows [R, ROW], for pieces of cells with middles
    [R, NUM_PIECES, 3] and half widths [R, 3].
    """
    x, y, z = (points.reshape(-1)[3 * rows + ((face + i) % 3)[:, None]] for i in range(3))
    reach = (
        half_width[:, :1] * jnp.abs(y)
        + half_width[:, 1:2] * jnp.abs(z)
        + half_width[:, 2:]
        + SAFETY
    )
    x, y, z, reach, weight = (
        part[:, None] for part in lax.optimization_barrier((x, y, z, reach, weights[rows]))
    )
    s, t, offset = (middle[:, :, i, None] for i in range(3))
    height = lax.optimization_barrier(x + s * y + t * z - offset)
    own, other = jnp.maximum(weight, 0), jnp.maximum(-weight, 0)

    def lost(if_above: Array, if_below: Array, slack: Array | float) -> Array:
        return jnp.sum(
            jnp.where(height > slack, if_above, 0) + jnp.where(height < -slack, if_below, 0),
            axis=-1,
        )

    undecided = (jnp.abs(height) <= reach) & (rows < points.shape[0] - 1)[:, None]
    return _PieceSums(
        lost(other, own, reach),
        lost(own, other, reach),
        lost(other, own, -SAFETY),
        lost(own, other, -SAFETY),
        undecided,
    )
