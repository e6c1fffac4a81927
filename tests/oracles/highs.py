"""Linear programs solved by HiGHS's simplex, with the kind of each settled beyond doubt.

Shares nothing with the package. HiGHS may answer "unbounded or infeasible", and a ray of the dual
does not say which: both answers are settled by solving the same rows and bounds without an
objective.
"""

from typing import NamedTuple

import highspy
import numpy as np

_STATUS = highspy.HighsModelStatus
_TOLERANCE = 1e-9


class Solved(NamedTuple):
    """What HiGHS found. The vectors are NaN unless the status is "optimal"."""

    status: str  # optimal, infeasible or unbounded
    objective: float  # +inf if infeasible, -inf if unbounded
    primal: np.ndarray  # [n]
    # [m] positive where a row is held by its lower bound; objective - matrix'dual are the reduced
    # costs
    dual: np.ndarray


def solve(program, *, presolve=True) -> Solved:
    """Solves anything with the fields objective [n], matrix [m, n], row_lower [m], row_upper [m],
    lower [n] and upper [n].

    Raises:
      RuntimeError: if HiGHS ends without an answer.
    """
    solver, status = _run(program, program.objective, presolve)
    if status == _STATUS.kOptimal:
        solution = solver.getSolution()
        return Solved(
            "optimal",
            solver.getObjectiveValue(),
            np.array(solution.col_value),
            np.array(solution.row_dual),
        )
    nothing = np.full(len(program.objective), np.nan), np.full(len(program.row_lower), np.nan)
    if status in (_STATUS.kUnbounded, _STATUS.kUnboundedOrInfeasible):
        _, feasible = _run(program, np.zeros(len(program.objective)), presolve)
        if feasible == _STATUS.kOptimal:
            return Solved("unbounded", -np.inf, *nothing)
        status = feasible
    if status == _STATUS.kInfeasible:
        return Solved("infeasible", np.inf, *nothing)
    raise RuntimeError(f"HiGHS ended with {status}")


def _run(program, objective, presolve):
    matrix = np.asarray(program.matrix, np.float64)
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = matrix.shape
    model.col_cost_ = np.asarray(objective, np.float64)
    model.row_lower_, model.row_upper_ = (
        np.asarray(bound, np.float64) for bound in (program.row_lower, program.row_upper)
    )
    model.col_lower_, model.col_upper_ = (
        np.asarray(bound, np.float64) for bound in (program.lower, program.upper)
    )
    rows, columns = np.nonzero(matrix)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.searchsorted(rows, np.arange(len(matrix) + 1)).astype(np.int32)
    model.a_matrix_.index_ = columns.astype(np.int32)
    model.a_matrix_.value_ = matrix[rows, columns]
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("solver", "simplex")
    solver.setOptionValue("presolve", "on" if presolve else "off")
    solver.setOptionValue("primal_feasibility_tolerance", _TOLERANCE)
    solver.setOptionValue("dual_feasibility_tolerance", _TOLERANCE)
    if solver.passModel(model) == highspy.HighsStatus.kError:
        raise RuntimeError("HiGHS does not take the program")
    solver.run()
    return solver, solver.getModelStatus()
