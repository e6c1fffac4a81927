"""Patterns: rows of one class that agree on all columns of the pool are one row of the master. The
duals of patterns are converted to duals of rows.

Rows of a pattern may share a slack, and the optimum of the master stays the same. The dual of a
pattern is divided among its rows in proportion to their weights. The dual of a cut between two
patterns is divided among cuts between their rows. Every column of the pool counts in these cuts
exactly if it counts in the cut of the patterns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jboost.l0.large import separation


class Patterns(NamedTuple):
    """n patterns of m rows."""

    rows: np.ndarray  # [n] int32, one row of each pattern
    of_row: np.ndarray  # [m] int32, the pattern of each row
    weights: np.ndarray  # [n] sums of the weights of rows


class RowCuts(NamedTuple):
    """Duals of cuts between rows."""

    inside: np.ndarray  # [K'] int32, the row that a hypothesis must cover to count in the cut
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
    """Divides the duals of cuts between patterns among cuts between rows, within the capacities of
    the rows.

    For each pattern, lay the capacities of its rows end to end as intervals, and the duals of its
    cuts likewise from the same start. A cut then covers one interval in each of its two patterns.
    The rows of these two intervals are paired in order, each pair with the length of its overlap.

    Args:
      patterns: of m rows.
      capacity: [m] the largest sum of the duals of the cuts of a row. The capacities of a pattern
        must sum to at least the duals of its cuts.
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
    begin = _starts_of_pieces(
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


def _starts_of_pieces(owners: np.ndarray, lengths: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The start of each piece on the line. The pieces of an owner follow each other."""
    order = np.argsort(owners, kind="stable")
    before = np.cumsum(lengths[order]) - lengths[order]
    ordered = owners[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    group = np.cumsum(is_first) - 1
    starts_of_pieces = np.empty(len(order))
    starts_of_pieces[order] = starts[ordered] + before - before[is_first][group]
    return starts_of_pieces
