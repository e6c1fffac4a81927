"""The relaxation of L0-RBoost for HiGHS: with all cuts as rows, and with cuts added as they are
found violated; and the integer program (15).

minimise sum xi + sum c mu  s.t.  y_i H_i lambda + (1 + rho) xi_i >= rho,  sum lambda = 1,
    mu >= lambda >= 0,  xi >= 0,
xi_i + xi_i' + sum of mu over S_ii' >= 1 for pairs of opposite classes in both orders (Goldberg and
Eckstein 2009, (18)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

PER_EXAMPLE = 2  # cuts that an example brings in a round, at most
LEAST_VIOLATION = 1e-6


class Solved(NamedTuple):
    """What HiGHS reached."""

    lower: float  # the optimum over the cuts that entered
    upper: float  # with the slacks raised to what all cuts want
    num_cuts: int
    num_rounds: int


def cut_sums(outputs: np.ndarray, labels: np.ndarray, selected: np.ndarray) -> np.ndarray:
    """The sum of mu over S_ii' for all pairs, [m, m]; inf for pairs of one class."""
    hits = (outputs == labels[:, None]).astype(float)
    misses = (outputs != -labels[:, None]).astype(float)
    sums = (hits * selected) @ misses.T
    sums[labels[:, None] == labels[None, :]] = np.inf
    return sums


def cut_rows(outputs: np.ndarray, labels: np.ndarray, pairs: np.ndarray) -> sparse.csr_matrix:
    """Rows of the cuts (i, i') in (lambda, mu, xi)."""
    num_examples, num_columns = outputs.shape
    first, second = pairs.T
    served = (outputs[first] == labels[first, None]) & (outputs[second] != labels[first, None])
    ends = sparse.csr_matrix(
        (np.ones(2 * len(pairs)), pairs.ravel(), np.arange(0, 2 * len(pairs) + 1, 2)),
        shape=(len(pairs), num_examples),
    )
    return sparse.hstack(
        [
            sparse.csr_matrix((len(pairs), num_columns)),
            sparse.csr_matrix(served.astype(float)),
            ends,
        ]
    ).tocsr()


def all_pairs(labels: np.ndarray) -> np.ndarray:
    """All pairs of opposite classes, both orders, [k, 2]."""
    return np.argwhere(labels[:, None] != labels[None, :])


def start(outputs: np.ndarray, labels: np.ndarray, costs: np.ndarray, margin: float) -> Any:
    """A solver that holds the program without cuts."""
    import highspy

    num_examples, num_columns = outputs.shape
    margins = sparse.csr_matrix(labels[:, None] * outputs)
    eye = sparse.identity(num_columns)
    matrix = sparse.bmat(
        [
            [
                margins,
                sparse.csr_matrix((num_examples, num_columns)),
                (1 + margin) * sparse.identity(num_examples),
            ],
            [np.ones((1, num_columns)), None, None],
            [-eye, eye, None],
        ]
    ).tocsc()
    lower = np.r_[np.full(num_examples, margin), 1.0, np.zeros(num_columns)]
    upper = np.r_[np.full(num_examples, np.inf), 1.0, np.full(num_columns, np.inf)]
    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = matrix.shape
    program.col_cost_ = np.r_[np.zeros(num_columns), costs, np.ones(num_examples)]
    program.col_lower_, program.col_upper_ = (
        np.zeros(matrix.shape[1]),
        np.full(matrix.shape[1], np.inf),
    )
    program.row_lower_, program.row_upper_ = lower, upper
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_, program.a_matrix_.index_ = (
        matrix.indptr.astype(np.int32),
        matrix.indices.astype(np.int32),
    )
    program.a_matrix_.value_ = matrix.data
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("solver", "simplex")
    solver.passModel(program)
    return solver


def add(solver: Any, rows: sparse.csr_matrix) -> None:
    """Rows of at least one."""
    count = rows.shape[0]
    starts, places = rows.indptr[:-1].astype(np.int32), rows.indices.astype(np.int32)
    solver.addRows(
        count, np.ones(count), np.full(count, np.inf), rows.nnz, starts, places, rows.data
    )


def run(solver: Any) -> tuple[float, np.ndarray]:
    """Optimum and primal point. Raises RuntimeError where there is none."""
    import highspy

    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(
            f"HiGHS ended with: {solver.modelStatusToString(solver.getModelStatus())}"
        )
    return float(solver.getObjectiveValue()), np.array(solver.getSolution().col_value)


def explicit(outputs: np.ndarray, labels: np.ndarray, costs: np.ndarray, margin: float) -> float:
    """The optimum with all cuts as rows."""
    solver = start(outputs, labels, costs, margin)
    pairs = all_pairs(labels)
    if len(pairs):
        add(solver, cut_rows(outputs, labels, pairs))
    return run(solver)[0]


def lazy(
    outputs: np.ndarray,
    labels: np.ndarray,
    costs: np.ndarray,
    margin: float,
    *,
    tolerance: float = 1e-4,
    per_example: int = PER_EXAMPLE,
) -> Solved:
    """Rounds of the dual simplex method and of one product that finds violated cuts, until the
    relative gap is closed.
    """
    solver = start(outputs, labels, costs, margin)
    num_columns = outputs.shape[1]
    num_cuts, num_rounds = 0, 0
    while True:
        num_rounds += 1
        lower, point = run(solver)
        slacks, selected = point[2 * num_columns :], point[num_columns : 2 * num_columns]
        violation = 1 - cut_sums(outputs, labels, selected) - slacks[:, None] - slacks[None, :]
        worst = np.maximum(np.maximum(violation, violation.T).max(axis=1), 0)
        raised = float(min(worst[labels > 0].sum(), worst[labels < 0].sum()))
        if worst.max() <= LEAST_VIOLATION or raised <= tolerance * (lower + raised):
            return Solved(lower, lower + raised, num_cuts, num_rounds)
        best = np.argpartition(-violation, per_example, axis=1)[:, :per_example]
        first = np.repeat(np.arange(len(labels)), per_example)
        pairs = np.stack([first, best.ravel()], axis=1)
        pairs = pairs[violation[pairs[:, 0], pairs[:, 1]] > LEAST_VIOLATION]
        add(solver, cut_rows(outputs, labels, pairs))
        num_cuts += len(pairs)


class Decided(NamedTuple):
    """What HiGHS knows of (15) at the end."""

    lower: float
    upper: float
    num_nodes: int


def integer(
    outputs: np.ndarray,
    labels: np.ndarray,
    costs: np.ndarray,
    margin: float,
    *,
    tolerance: float,
    time_limit: float,
) -> Decided:
    """(15): mu and xi are 0 or 1, and no cuts but those that HiGHS finds."""
    import highspy

    solver = start(outputs, labels, costs, margin)
    num_examples, num_columns = outputs.shape
    whole = np.arange(num_columns, 2 * num_columns + num_examples, dtype=np.int32)
    solver.changeColsBounds(len(whole), whole, np.zeros(len(whole)), np.ones(len(whole)))
    solver.changeColsIntegrality(
        len(whole), whole, np.full(len(whole), highspy.HighsVarType.kInteger)
    )
    solver.setOptionValue("solver", "choose")
    solver.setOptionValue("mip_rel_gap", tolerance)
    solver.setOptionValue("time_limit", time_limit)
    solver.run()
    info = solver.getInfo()
    return Decided(info.mip_dual_bound, info.objective_function_value, info.mip_node_count)
