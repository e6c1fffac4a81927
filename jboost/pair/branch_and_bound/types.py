"""The configuration of the search, its state between steps, and its progress reports."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from jboost.base import check
from jboost.base.types import Array
from jboost.pair.branch_and_bound.cells import Frontier
from jboost.pair.branch_and_bound.frontiers import Leaves
from jboost.pair.branch_and_bound.leaves import Bracket


@dataclasses.dataclass(frozen=True)
class BranchAndBoundConfig:
    """Sizes of the search; all fields are static."""

    leaf_size: int = 32
    """A cell with at most this many uncertain sites is solved exactly."""
    chunk_entries: int = 1 << 15
    """The number of (cell, point) pairs that are bounded at once, unless one cell has more. A pair
    takes about 300 bytes of working memory. All of it should fit into a cache.
    """
    max_entries: int = 1 << 28
    """The largest number of waiting (cell, point) pairs, of 8 bytes each. With more, the search
    ends with status CAPACITY_LIMIT and a valid bound.
    """
    beam: int = 4
    """The number of bins of offsets that the first descent keeps at every step. The descent finds
    the first incumbent.
    """

    def __post_init__(self) -> None:
        for name in ("leaf_size", "chunk_entries", "max_entries", "beam"):
            check.count(f"config.{name}", getattr(self, name), low=1)


class OpenLeaves(NamedTuple):
    """Leaves that may contain an optimum, with bounds of the least loss around each site."""

    leaves: Leaves  # fields [L, ...]
    brackets: Bracket  # fields [L, M]


class BranchAndBoundState(NamedTuple):
    """The state of the search. A line that loses less than `upper_bound` is in a frontier or in an
    open leaf.
    """

    frontiers: tuple[Frontier, ...]  # a stack, the last is divided next
    open_leaves: tuple[OpenLeaves, ...]
    upper_bound: Array  # [] in integer units, the loss of the best line found so far
    # [] bool, whether the state still contains all lines that tie with the best line so far
    keeps_ties: Array
    checksum: Array  # [] uint32, of the data that the state belongs to


class BranchAndBoundInfo(NamedTuple):
    """The progress of the search; losses are in the units of the weights."""

    step: int
    upper_bound: float
    lower_bound: float
    num_cells: int
    num_entries: int
