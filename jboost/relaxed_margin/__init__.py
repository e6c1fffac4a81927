"""Maximisation of relaxed margins (Shalev-Shwartz and Singer 2008).

`solve` takes a whole matrix of margins, and `fit` a learner that proposes columns.
"""

from jboost.relaxations.games import SolverConfig, SolveState
from jboost.relaxed_margin.booster import RelaxedMargin, finish, fit, init, step
from jboost.relaxed_margin.smoothed import SmoothedSolution, solve_smoothed
from jboost.relaxed_margin.solve import RelaxedMarginSolution, solve

__all__ = [
    "RelaxedMargin",
    "RelaxedMarginSolution",
    "SmoothedSolution",
    "SolveState",
    "SolverConfig",
    "finish",
    "fit",
    "init",
    "solve",
    "solve_smoothed",
    "step",
]
