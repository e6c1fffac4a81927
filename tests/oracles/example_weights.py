"""Programs (4) and (5) of Naish-Guzman, Holden and Paquet solved by HiGHS's simplex, rescaled and
with the rank-one part split off. Shares nothing with the package.
"""

from typing import NamedTuple

import highspy
import numpy as np

_TOLERANCE = 1e-10


class Solved(NamedTuple):
    """What HiGHS found."""

    objective: float
    example_weights: np.ndarray  # [m]
    seconds: float


def solve(disagreement, labels, penalty) -> Solved:
    """max gamma - C sum xi over d in the simplex, for P [m, m]; a penalty below 1 / m is unbounded:
    RuntimeError.
    """
    size = len(labels)
    y = np.asarray(labels, np.float64)
    signed = y[:, None] * y[None, :] * np.asarray(disagreement, np.float64)
    scale = np.abs(signed).max() or 1.0
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = size + 2, 2 * size + 2  # d, b, gamma, xi
    margins = np.concatenate(
        [-signed / scale, y[:, None], -np.ones((size, 1)), np.eye(size)], axis=1
    )
    balance = np.concatenate([y, [-2 * scale, 0], np.zeros(size)])
    total = np.concatenate([np.ones(size), [0, 0], np.zeros(size)])
    matrix = np.concatenate([margins, balance[None], total[None]])
    model.col_cost_ = np.concatenate([np.zeros(size + 1), [-1.0], np.full(size, penalty)])
    model.col_lower_ = np.concatenate([np.zeros(size), [-np.inf, -np.inf], np.zeros(size)])
    model.col_upper_ = np.full(2 * size + 2, np.inf)
    model.row_lower_ = np.concatenate([np.zeros(size + 1), [1.0]])
    model.row_upper_ = np.concatenate([np.full(size, np.inf), [0.0, 1.0]])
    rows, columns = np.nonzero(matrix)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.searchsorted(rows, np.arange(len(matrix) + 1)).astype(np.int32)
    model.a_matrix_.index_ = columns.astype(np.int32)
    model.a_matrix_.value_ = matrix[rows, columns]
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("solver", "simplex")
    solver.setOptionValue("primal_feasibility_tolerance", _TOLERANCE)
    solver.setOptionValue("dual_feasibility_tolerance", _TOLERANCE)
    solver.passModel(model)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"HiGHS ended with {solver.getModelStatus()}")
    found = np.array(solver.getSolution().col_value)[:size]
    return Solved(-solver.getObjectiveValue() * scale, found, solver.getRunTime())


def bounds(disagreement, labels, penalty, example_weights, row_weights):
    """What the weights prove, in float64 by the definition: max over gamma, tried at all margins,
    and the largest edge.
    """
    y = np.asarray(labels, np.float64)
    game = y[:, None] * y[None, :] * (0.5 - np.asarray(disagreement, np.float64))
    d, u = (
        np.asarray(weights, np.float64) / np.sum(np.asarray(weights, np.float64))
        for weights in (example_weights, row_weights)
    )
    margins = game @ d
    lower = max(level - penalty * np.maximum(level - margins, 0).sum() for level in margins)
    return lower, (u @ game).max()
