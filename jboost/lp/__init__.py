"""Linear programs: one function for two solvers, which can be vmapped. The bounds that it returns
hold in exact arithmetic, also if the solver stops early.
"""

from jboost.lp.certificate.bounds import recompute_bounds
from jboost.lp.first_order import FirstOrderConfig, WarmStart, extend
from jboost.lp.interior_point import InteriorPointConfig
from jboost.lp.problem import LinearProgram, make_program, validate
from jboost.lp.solve import solve
from jboost.lp.types import History, LPSolution, ProofConfig

__all__ = [
    "FirstOrderConfig",
    "History",
    "InteriorPointConfig",
    "LPSolution",
    "LinearProgram",
    "ProofConfig",
    "WarmStart",
    "extend",
    "make_program",
    "recompute_bounds",
    "solve",
    "validate",
]
