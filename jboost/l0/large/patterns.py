"""Rows of one class that agree on all columns of the pool, as one row of the master; and duals back
to the rows.

Such rows may share a slack: the optimum of the master stays the same. A dual of a pattern goes back
to its rows in proportion to their weights. A dual of a cut between two patterns becomes duals of
pairs of rows, which serve every column of the pool as the cut of the patterns does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jboost.l0.large import separation


class Patterns(NamedTuple):
    """n patterns of m rows."""

    rows: np.ndarray  # [n] int32, one row of each
    of_row: np.ndarray  # [m] int32
    weights: np.ndarray  # [n] sums


class RowCuts(NamedTuple):
    """Duals of cuts between rows."""

    inside: np.ndarray  # [K'] int32, the row that a hypothesis must cover to serve it
    outside: np.ndarray  # [K'] int32, the row that it must not cover
    weights: np.ndarray  # [K'] v


def find(
    covered: np.ndarray, positive: np.ndarray, negative: np.ndarray, weights: np.ndarray
) -> Patterns:
    """The patterns of covered [m, U]; `positive` and `negative` are the rows of the classes."""
    of_row = np.empty(len(weights), np.int32)
    rows, count = [], 0
    for members in (positive, negative):
        side = separation.group(covered[members], members)
        of_row[members] = count + side.group_of
        rows.append(side.rows)
        count += len(side.rows)
    return Patterns(
        np.concatenate(rows), of_row, np.bincount(of_row, weights=weights, minlength=count)
    )


def spread(
    patterns: Patterns,
    capacity: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    duals: np.ndarray,
) -> RowCuts:
    """Duals of cuts between patterns as duals between rows, none of which takes more than its
    capacity.

    The capacities of the rows of a pattern are consecutive intervals, and so are the duals of its
    cuts, from the same start. A cut has one interval among the rows of either of its patterns;
    their rows are paired in order, by the lengths in which the intervals agree.

    Args:
      patterns: of m rows.
      capacity: [m] what the duals of the cuts of a row may sum to; those of a pattern sum to what
        its cuts need.
      first: [K] int32 patterns that a hypothesis must cover.
      second: [K] int32 patterns that it must not cover.
      duals: [K] v > 0.
    """
    if len(duals) == 0:
        nothing = np.zeros(0, np.int32)
        return RowCuts(nothing, nothing, np.zeros(0))
    order = np.argsort(patterns.of_row, kind="stable")
    ends = np.cumsum(capacity[order])
    starts_of_patterns = np.concatenate([[0.0], ends])[
        np.searchsorted(patterns.of_row[order], np.arange(len(patterns.rows)))
    ]
    begin = _places(
        np.concatenate([first, second]), np.concatenate([duals, duals]), starts_of_patterns
    )
    of_first, of_second = begin[: len(duals)], begin[len(duals) :]
    finish = np.cumsum(duals)
    start = finish - duals
    breaks = [start]
    for line in (of_first, of_second):
        low, high = (
            np.searchsorted(ends, line, side="right"),
            np.searchsorted(ends, line + duals, side="left"),
        )
        counts = high - low
        cut = np.repeat(np.arange(len(duals)), counts)
        step = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        breaks.append(start[cut] + np.clip(ends[low[cut] + step] - line[cut], 0, duals[cut]))
    points = np.unique(np.concatenate(breaks))
    lengths = np.diff(np.append(points, finish[-1]))
    middles = points + lengths / 2
    cut = np.minimum(np.searchsorted(finish, middles, side="right"), len(duals) - 1)
    offset = middles - start[cut]
    inside, outside = (
        order[np.minimum(np.searchsorted(ends, line[cut] + offset, side="right"), len(order) - 1)]
        for line in (of_first, of_second)
    )
    keeps = lengths > 0
    keeps &= (patterns.of_row[inside] == first[cut]) & (patterns.of_row[outside] == second[cut])
    return RowCuts(inside[keeps].astype(np.int32), outside[keeps].astype(np.int32), lengths[keeps])


def _places(owners: np.ndarray, lengths: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Where each piece begins on the line, pieces of one owner behind each other from
    its start on.
    """
    order = np.argsort(owners, kind="stable")
    before = np.cumsum(lengths[order]) - lengths[order]
    ordered = owners[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    group = np.cumsum(is_first) - 1
    places = np.empty(len(order))
    places[order] = starts[ordered] + before - before[is_first][group]
    return places
