"""Margin relaxations: convex functions f of the example weights, their conjugates, and the argmin
that boosting needs (Shalev-Shwartz and Singer 2008).
"""

from jboost.relaxations.caps import HardMargin, SoftMargin, hard_margin, num_worst, soft_margin
from jboost.relaxations.chi_square import (
    ChiSquareBall,
    ChiSquarePenalty,
    chi_square_ball,
    chi_square_penalty,
)
from jboost.relaxations.custom import CustomRelaxation, from_functions
from jboost.relaxations.entropy import BinaryEntropy, binary_entropy
from jboost.relaxations.norms import AbsoluteBall, norm_ball, norm_penalty
from jboost.relaxations.power_norms import NormBall, NormPenalty
from jboost.relaxations.relative_entropy import KLBall, KLPenalty, kl_ball, kl_penalty
from jboost.relaxations.types import Relaxation
from jboost.relaxations.vote_norms import (
    ElasticNet,
    GroupBall,
    elastic_net,
    group_ball,
    squared_two_norm,
)
from jboost.relaxations.votes import SquaredNorm, UnitBall, VotePenalty, squared_norm, unit_ball

__all__ = [
    "AbsoluteBall",
    "BinaryEntropy",
    "ChiSquareBall",
    "ChiSquarePenalty",
    "CustomRelaxation",
    "ElasticNet",
    "GroupBall",
    "HardMargin",
    "KLBall",
    "KLPenalty",
    "NormBall",
    "NormPenalty",
    "Relaxation",
    "SoftMargin",
    "SquaredNorm",
    "UnitBall",
    "VotePenalty",
    "binary_entropy",
    "chi_square_ball",
    "chi_square_penalty",
    "elastic_net",
    "from_functions",
    "group_ball",
    "hard_margin",
    "kl_ball",
    "kl_penalty",
    "norm_ball",
    "norm_penalty",
    "num_worst",
    "soft_margin",
    "squared_norm",
    "squared_two_norm",
    "unit_ball",
]
