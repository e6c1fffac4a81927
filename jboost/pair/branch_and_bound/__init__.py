"""Certified optima for millions of points by branch and bound: histograms bound the loss over cells
of lines, and cells with few uncertain points are solved exactly.
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
