"""What the search takes, what it carries from step to step, and what it tells on the way."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from jboost.base import check
from jboost.base.types import Array
from jboost.pair.branch_and_bound.cells import Frontier, Leaves
from jboost.pair.branch_and_bound.leaves import Bracket


@dataclasses.dataclass(frozen=True)
class BranchAndBoundConfig:
    """Sizes of the search; all fields are static."""

    leaf_size: int = 32
    """Cells with at most so many uncertain places are finished exactly."""
    chunk_entries: int = 1 << 15
    """(cell, point) pairs that are bounded at once, unless one cell has more: about 300
    bytes of working memory each, which a cache should hold.
    """
    max_entries: int = 1 << 28
    """(cell, point) pairs that may wait, 8 bytes each; past it the search ends with
    status CAPACITY_LIMIT and a valid bound.
    """
    beam: int = 4
    """Bins of offsets that the first dive, which finds an incumbent, keeps at every step."""

    def __post_init__(self) -> None:
        for name in ("leaf_size", "chunk_entries", "max_entries", "beam"):
            check.count(f"config.{name}", getattr(self, name), low=1)


class OpenLeaves(NamedTuple):
    """Leaves that may hold an optimum, with a bracket round each of their sites."""

    leaves: Leaves  # fields [L, ...]
    brackets: Bracket  # fields [L, M]


class BranchAndBoundState(NamedTuple):
    """Where the search stands. What is in none of its frontiers is settled: no line there loses
    less than `upper_bound`, or an open leaf has it.
    """

    frontiers: tuple[Frontier, ...]  # a stack, the last is divided next
    open_leaves: tuple[OpenLeaves, ...]
    upper_bound: Array  # [] integer units, what the best line met so far loses
    # [] bool, whether lines that tie with the best one met so far are still in it
    keeps_ties: Array
    checksum: Array  # [] uint32, of the data that the state belongs to


class BranchAndBoundInfo(NamedTuple):
    """Where the search stands, in numbers, in the units of the weights."""

    step: int
    upper_bound: float
    lower_bound: float
    num_cells: int
    num_entries: int
