"""The least 0-1 loss of a hyperplane as the standard mixed integer program with big-M rows, solved
by HiGHS on one thread.

    minimise    sum_i w_i z_i
    subject to  y_i (v . x_i + b) + M_i z_i >= 1,  |v_1|, ..., |v_d| <= V,
                |b| <= d V + 1,  z_i in {0, 1}

on points moved and scaled into [-1, 1]^d. A hyperplane is found only if it keeps its points at
1 / V or more (in the largest norm of v). With V = 10^4 that is far above the tolerances of the
solver, and far below the margins of generic data of this size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LARGEST_SLOPE = 1e4


class IntegerSolution(NamedTuple):
    """What HiGHS found."""

    loss: float  # weight misclassified by the hyperplane, evaluated in float64
    lower_bound: float  # HiGHS's dual bound
    status: str  # of the model, in HiGHS's words
    num_nodes: int


def least_loss(
    points: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    time_limit: float = 120.0,
) -> IntegerSolution:
    """The least weight that a hyperplane or a constant misclassifies.

    Args:
      points: [n, d].
      labels: [n], +1 or -1.
      weights: [n], None for ones.
      time_limit: seconds, after which the best hyperplane so far is returned and the status says
        so.

    Raises:
      RuntimeError: if HiGHS refuses to run, as it does where another program of the process has set
        another number of threads.
    """
    import highspy

    points, labels = np.asarray(points, np.float64), np.asarray(labels, np.float64)
    size, dimension = points.shape
    weights = np.ones(size) if weights is None else np.asarray(weights, np.float64)
    low, high = points.min(axis=0), points.max(axis=0)
    scaled = (2 * points - low - high) / max(float((high - low).max()), np.finfo(np.float64).tiny)
    largest_offset = dimension * LARGEST_SLOPE + 1
    big = 1 + LARGEST_SLOPE * np.abs(scaled).sum(axis=1) + largest_offset
    # columns: v_1 ... v_d, b, z_1 ... z_n
    num_real = dimension + 1
    limits = np.append(np.full(dimension, LARGEST_SLOPE), largest_offset)
    bounds = np.concatenate([limits, np.ones(size)])
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = num_real + size, size
    program.col_cost_ = np.concatenate([np.zeros(num_real), weights])
    program.col_lower_, program.col_upper_ = np.concatenate([-limits, np.zeros(size)]), bounds
    program.row_lower_, program.row_upper_ = np.ones(size), np.full(size, highspy.kHighsInf)
    program.integrality_ = [highspy.HighsVarType.kContinuous] * num_real + [
        highspy.HighsVarType.kInteger
    ] * size
    rows = labels[:, None] * np.column_stack([scaled, np.ones(size)])
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = (num_real + 1) * np.arange(size + 1, dtype=np.int32)
    program.a_matrix_.index_ = (
        np.column_stack([np.tile(np.arange(num_real), (size, 1)), num_real + np.arange(size)])
        .astype(np.int32)
        .ravel()
    )
    program.a_matrix_.value_ = np.column_stack([rows, big]).ravel()
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", float(time_limit))
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.passModel(program)
    if solver.run() == highspy.HighsStatus.kError:
        raise RuntimeError(
            f"HiGHS ended with: {solver.modelStatusToString(solver.getModelStatus())}"
        )
    info = solver.getInfo()
    solution = np.asarray(solver.getSolution().col_value)
    # also what there is where no solution was found
    constants = min(weights[labels > 0].sum(), weights[labels < 0].sum())
    wrong = rows @ solution[:num_real] <= 0 if len(solution) else np.ones(size, bool)
    return IntegerSolution(
        loss=float(min(weights[wrong].sum(), constants)),
        lower_bound=float(max(info.mip_dual_bound, 0.0)),
        status=solver.modelStatusToString(solver.getModelStatus()),
        num_nodes=int(info.mip_node_count),
    )
