"""Builds the problems of few points for the remaining pairs of a cell and a centre: finds the
points that are certain for a cell, and their loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jboost.pair.pareto.slabs import SlabProblem
from jboost.pair.pareto.slope_cells import ONE, Shortlist, blur_of, directions_of

_SIZES = 64, 16  # the least capacity for uncertain points, and its growth factor
# Cells are widened by this many radians, which is more than the rounding error of directions.
_WIDENED = 2.0**-20


class Ground(NamedTuple):
    """All points, centred and scaled."""

    points: np.ndarray  # [n, 2] from -1 to 1 where live
    own: np.ndarray  # [n] bool
    other: np.ndarray  # [n] bool
    weights: np.ndarray  # [n] integer
    extent: float  # the length in metric coordinates that is scaled to 1


class _Local(NamedTuple):
    """A `SlabProblem` before padding."""

    entry: int
    points: np.ndarray  # int32, the centre first
    base: int


def list_places(
    ground: Ground,
    found: Shortlist,
    which: np.ndarray,
    most: np.ndarray,
    gap: np.ndarray,
    at_once: int,
) -> Iterator[tuple[np.ndarray, SlabProblem]]:
    """The problems of chosen entries of a list, in batches of equal shapes. Yields the entries [b],
    and the places, of which the first b are real.

    Args:
      ground: the points.
      found: the list, with e entries; centres are indices of the points.
      which: the chosen entries.
      most: [e] integer, the largest loss of a slab.
      gap: [e] metric, the least width of a slab.
      at_once: the number of places in a batch.
    """
    waiting: dict[int, list[_Local]] = {}
    for local in _locals(ground, found, which, gap):
        size = _SIZES[0]
        while size < len(local.points):
            size *= _SIZES[1]
        waiting.setdefault(size, []).append(local)
        if len(waiting[size]) == at_once:
            yield _stack(ground, found, waiting.pop(size), size, most, gap, at_once)
    for size, rest in waiting.items():
        yield _stack(ground, found, rest, size, most, gap, at_once)


def _locals(
    ground: Ground, found: Shortlist, which: np.ndarray, gap: np.ndarray
) -> Iterator[_Local]:
    """The problems of the entries, cell by cell, before padding."""
    half_width = np.pi / found.num_cells + _WIDENED
    sign = np.where(ground.own, 1.0, -1.0)
    last, low, high = -1, np.zeros(0), np.zeros(0)
    for entry in which[np.argsort(found.cell[which], kind="stable")]:
        if found.cell[entry] != last:
            last = found.cell[entry]
            ((u, v),) = directions_of(found.cell[entry : entry + 1], found.num_cells)
            along = sign * (ground.points[:, 0] * u + ground.points[:, 1] * v) * ONE
            error = blur_of(half_width)[0] * np.abs(along)
            error += (
                blur_of(half_width)[1]
                * ONE
                * np.abs(ground.points[:, 1] * u - ground.points[:, 0] * v)
                + 2
            )
            low, high = along - error, along + error
        centre, narrow = found.centre[entry], gap[entry] / ground.extent * ONE - 1
        lost = (ground.own & (high < low[centre])) | (ground.other & (high < narrow - high[centre]))
        kept = (ground.own & (low > high[centre])) | (
            ground.other & (low > found.reach[entry] - low[centre] + 2)
        )
        points = np.flatnonzero((ground.own | ground.other) & ~lost & ~kept)
        yield _Local(
            entry,
            np.append(centre, points[points != centre]).astype(np.int32),
            int(ground.weights[lost].sum()),
        )


def _stack(
    ground: Ground,
    found: Shortlist,
    group: list[_Local],
    size: int,
    most: np.ndarray,
    gap: np.ndarray,
    at_once: int,
) -> tuple[np.ndarray, SlabProblem]:
    """The places padded to one shape. Padding places have a negative largest loss, so that no slab
    is valid for them.
    """
    entries = np.array([local.entry for local in group])
    missing = (0, at_once - len(entries))
    points = np.full((at_once, size), -1, np.int32)
    for row, local in enumerate(group):
        points[row, : len(local.points)] = local.points
    half_width = np.pi / found.num_cells + _WIDENED
    angle = (found.cell[entries] + 0.5) * (2 * np.pi / found.num_cells)
    sides = angle[:, None] + half_width * np.array([-1, 1])
    scale = ground.extent / ONE * (1 + 2.0**-40)
    return entries, SlabProblem(
        points=points,
        base=np.pad(np.array([local.base for local in group]), missing),
        most=np.pad(most[entries], missing, constant_values=-1),
        gap=np.pad(gap[entries], missing),
        reach=np.pad(found.reach[entries] * scale, missing),
        sides=np.pad(
            np.stack([np.cos(sides), np.sin(sides)], axis=2), (missing, (0, 0), (0, 0)), mode="edge"
        ),
    )
