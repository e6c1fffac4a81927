"""The tightened linear relaxation (18) of Goldberg and Eckstein (2009): its solvers and the proof
of its bounds.
"""

from jboost.l0.relaxation.solve import (
    cold,
    solve_instance,
    solve_relaxation,
    validate_features,
    validate_program,
    with_one_masked,
)

__all__ = [
    "cold",
    "solve_instance",
    "solve_relaxation",
    "validate_features",
    "validate_program",
    "with_one_masked",
]
