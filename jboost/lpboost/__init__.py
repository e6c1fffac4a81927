"""LP-Boost: column generation for the nonnegative votes of largest soft margin, with any learner
(Goldberg and Eckstein 2009, formulation (3)).
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
