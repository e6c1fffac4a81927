"""The tightened linear relaxation (18) of Goldberg and Eckstein (2009): its solvers and the proof
of its bounds.
"""

from jboost.l0.relaxation.arguments import (
    validate_features,
    validate_program,
    with_one_masked,
)
from jboost.l0.relaxation.rounds import solve_instance
from jboost.l0.relaxation.solve import solve_relaxation
from jboost.l0.relaxation.warm_start import cold

__all__ = [
    "cold",
    "solve_instance",
    "solve_relaxation",
    "validate_features",
    "validate_program",
    "with_one_masked",
]
