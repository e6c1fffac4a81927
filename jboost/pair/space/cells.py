"""Cells of planes, their quarters, and what all planes of a quarter lose.

A plane is x + s y + t z = offset with |s|, |t| <= 1, where x is the coordinate number `face` and y,
z are the two that follow in cyclic order. A cell holds the planes with |s - s0| <= a, |t - t0| <= b
and |offset - offset0| <= c. Over all of them the height of a place above the plane moves by a
|y| + b |z| + c at most: what lies farther from the middle plane is certain, and what it loses is
lost by every plane of the cell. Two multiplications and additions bound a place for a piece of a
cell, and only places that no piece has decided are handed on, in rows of one length.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base.types import Array

NUM_PIECES = 4  # two halvings
NUM_DEPTHS = 48
ROW = 32  # places
# heights this small are never certain: coordinates are 1 at most, offsets 3, and heights rounded by
# 2^-48
SAFETY = 2.0**-44
_NUM_ROWS = (64, 512, 4096)  # that are looked at in one call


class Places(NamedTuple):
    """One entry for each place, centred and scaled; those from `num_places` on are void."""

    points: np.ndarray  # [N + 1, 3] from -1 to 1
    # [N + 1] integer, of the own class; that of the other class counts as negative
    weights: np.ndarray
    is_centre: np.ndarray  # [N + 1] bool, whether a point of the own class is there
    num_places: int

    @property
    def void(self) -> int:
        """The last entry."""
        return len(self.weights) - 1


class Plan(NamedTuple):
    """How cells of each face are halved: at any depth along the parameters to which heights are
    most sensitive.
    """

    halvings: np.ndarray  # [3, NUM_DEPTHS + 1, 3] int64, of s, t and the offset so far
    half_widths: np.ndarray  # [3, NUM_DEPTHS + 1, 3]


class Cells(NamedTuple):
    """Some cells with the places that they leave undecided, each from a new row on."""

    face: np.ndarray  # [K] int32
    depth: np.ndarray  # [K] int32
    middle: np.ndarray  # [K, 3] s, t and the offset
    above: np.ndarray  # [K] integer, what certain places lose if the own class is above the plane
    below: np.ndarray  # [K] if it is below
    num_undecided: np.ndarray  # [K] places
    stuck: np.ndarray  # [K] int32, cuts since the last one that decided a place
    rows: np.ndarray  # [R, ROW] int32, places, filled up with the void one

    @property
    def bound(self) -> np.ndarray:
        """No plane of a cell loses less, [K]."""
        return np.minimum(self.above, self.below)

    @property
    def num_rows(self) -> np.ndarray:
        return -(-self.num_undecided // ROW)

    def chosen(self, which: np.ndarray) -> Cells:
        """The cells where a mask [K] is true."""
        return Cells._make(
            [*(field[which] for field in self[:-1]), self.rows[np.repeat(which, self.num_rows)]]
        )


class _Sums(NamedTuple):
    """What the places of rows lose in each piece of their cells."""

    above: Array  # [R, NUM_PIECES] those certainly lost if the own class is above
    below: Array  # [R, NUM_PIECES]
    # [R, NUM_PIECES] those lost by the middle plane, or so close to it that they may be
    middle_above: Array
    middle_below: Array  # [R, NUM_PIECES]
    undecided: Array  # [R, NUM_PIECES, ROW] bool


def make_plan(places: Places) -> Plan:
    """Halvings in the order of what they take from the slack of a place at a mean distance."""
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
    return Plan(halvings, widths * 2.0**-halvings)


def root(places: Places, base: int) -> Cells:
    """All planes, with the loss of all of them."""
    face, lost, count = (
        np.arange(3, dtype=np.int32),
        np.full(3, base, np.int64),
        np.full(3, places.num_places),
    )
    rows = _in_rows(np.tile(np.arange(places.num_places), 3), count, places.void)
    return Cells(
        face, np.zeros_like(face), np.zeros((3, 3)), lost, lost, count, np.zeros_like(face), rows
    )


def join(parts: list[Cells]) -> Cells:
    """One cell after the other."""
    return Cells(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


def divide(places: Places, plan: Plan, cells: Cells, best: int) -> tuple[Cells, int]:
    """The pieces of cells that may hold a plane which loses no more than the best one.

    Args:
      places: all of them.
      plan: of these places.
      cells: K cells with at least one place each, none at the last depth.
      best: what some plane loses at most.

    Returns:
      Pieces in the order of their bounds, the least one last, and the loss of the best plane now.
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
    best = min(best, int(middle_above.min(initial=best)), int(middle_below.min(initial=best)))
    bound = np.minimum(above, below).reshape(-1)
    order = np.argsort(-bound, kind="stable")
    parent, piece = np.divmod(order[bound[order] <= best], NUM_PIECES)
    row, owner = ranges(first_row[parent], cells.num_rows[parent])
    undecided = sums.undecided[row, piece[owner]]
    count = np.bincount(owner, np.count_nonzero(undecided, axis=1), len(parent)).astype(np.int64)
    pieces = Cells(
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


def _middles(plan: Plan, cells: Cells) -> np.ndarray:
    """The middles of all pieces, [K, NUM_PIECES, 3]."""
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
    """The sums of the counts before each."""
    return np.cumsum(counts) - counts


def ranges(first: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The integers first[i], ..., first[i] + counts[i] - 1 for all i, and the i of each."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return np.arange(len(owner)) + (first - before(counts))[owner], owner


def _in_rows(places: np.ndarray, count: np.ndarray, void: int) -> np.ndarray:
    """Lists of places, one after the other, each from a new row on."""
    num_rows = -(-count // ROW)
    rows = np.full((num_rows.sum(), ROW), void, np.int32)
    slot, _ = ranges(ROW * before(num_rows), count)
    rows.reshape(-1)[slot] = places
    return rows


def _sums(places: Places, cells: Cells, middle: np.ndarray, half_width: np.ndarray) -> _Sums:
    """Of all rows, looked at in parts of few sizes."""
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
        found = _look(
            places.points, places.weights, rows, cells.face[cell], middle[cell], half_width[cell]
        )
        parts.append(_Sums(*(np.asarray(field)[: size - missing] for field in found)))
        first += size
    return _Sums(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


@jax.jit
def _look(
    points: Array, weights: Array, rows: Array, face: Array, middle: Array, half_width: Array
) -> _Sums:
    """What the places of rows [R, ROW] lose in the pieces of cells with middles [R, NUM_PIECES, 3]
    and half widths [R, 3].
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
    return _Sums(
        lost(other, own, reach),
        lost(own, other, reach),
        lost(other, own, -SAFETY),
        lost(own, other, -SAFETY),
        undecided,
    )
