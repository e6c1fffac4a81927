"""Combinations of many classifiers, made of exact combinations of pairs (Boyarshinov and
Magdon-Ismail 2005, Section 4), and the optimum of up to eight by branch and cut.
"""

from jboost.combine import pairwise
from jboost.combine.baselines import best_single, random_pairing, stacking
from jboost.combine.branch_and_cut import ExactInfo, ExactState
from jboost.combine.proofs import recompute_bound
from jboost.combine.strategies import STRATEGIES, fit
from jboost.combine.types import InfeasibleSubsystems, LinearVote

__all__ = [
    "STRATEGIES",
    "ExactInfo",
    "ExactState",
    "InfeasibleSubsystems",
    "LinearVote",
    "best_single",
    "fit",
    "pairwise",
    "random_pairing",
    "recompute_bound",
    "stacking",
]
