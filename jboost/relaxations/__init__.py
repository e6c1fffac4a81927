"""Margin relaxations f: what they ask of the example weights, their conjugates, and the argmin that boosting needs (paper 004)."""

from jboost.relaxations.caps import HardMargin, SoftMargin, hard_margin, num_worst, soft_margin
from jboost.relaxations.custom import CustomRelaxation, from_functions
from jboost.relaxations.entropy import BinaryEntropy, binary_entropy
from jboost.relaxations.norms import AbsoluteBall, norm_ball, norm_penalty
from jboost.relaxations.types import Relaxation
from jboost.relaxations.votes import SquaredNorm, UnitBall, VotePenalty, squared_norm, unit_ball

__all__ = [
    "AbsoluteBall",
    "BinaryEntropy",
    "CustomRelaxation",
    "HardMargin",
    "Relaxation",
    "SoftMargin",
    "SquaredNorm",
    "UnitBall",
    "VotePenalty",
    "binary_entropy",
    "from_functions",
    "hard_margin",
    "norm_ball",
    "norm_penalty",
    "num_worst",
    "soft_margin",
    "squared_norm",
    "unit_ball",
]
