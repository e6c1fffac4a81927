"""LP-Boost: the soft margin maximised over votes that are not negative, by column generation over
any learner (paper 001, formulation (3)).
"""

from jboost.lp.simplex.margins import SimplexConfig
from jboost.lpboost.booster import LPBoost, finish, fit, init, step
from jboost.lpboost.path import path
from jboost.lpboost.solve import LPBoostSolution, solve

__all__ = [
    "LPBoost",
    "LPBoostSolution",
    "SimplexConfig",
    "finish",
    "fit",
    "init",
    "path",
    "solve",
    "step",
]
