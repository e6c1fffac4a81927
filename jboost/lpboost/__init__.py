"""LP-Boost: column generation for the nonnegative votes of largest soft margin, with any learner
(Goldberg and Eckstein 2009, formulation (3)).
"""

from jboost.base.boosting import finish, step
from jboost.lp.simplex.margins import SimplexConfig
from jboost.lpboost.booster import LPBoost
from jboost.lpboost.fit import fit, init
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
