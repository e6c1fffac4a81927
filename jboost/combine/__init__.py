"""Combinations of many classifiers, made of exact combinations of pairs (Boyarshinov and
Magdon-Ismail 2005, Section 4).
"""

from jboost.combine import pairwise
from jboost.combine.baselines import best_single, random_pairing, stacking
from jboost.combine.strategies import STRATEGIES, fit
from jboost.combine.types import LinearVote

__all__ = [
    "STRATEGIES",
    "LinearVote",
    "best_single",
    "fit",
    "pairwise",
    "random_pairing",
    "stacking",
]
