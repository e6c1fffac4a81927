"""Certified optima for millions of points: cells of lines bounded by histograms, leaves finished
exactly.
"""

from jboost.pair.branch_and_bound.near_optimal import list_splits
from jboost.pair.branch_and_bound.solve import solve
from jboost.pair.branch_and_bound.types import (
    BranchAndBoundConfig,
    BranchAndBoundInfo,
    BranchAndBoundState,
)

__all__ = [
    "BranchAndBoundConfig",
    "BranchAndBoundInfo",
    "BranchAndBoundState",
    "list_splits",
    "solve",
]
