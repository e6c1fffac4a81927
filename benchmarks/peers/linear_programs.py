"""Linear programs for HiGHS, one at a time, and for MPAX, many of one shape in one call.

minimise objective . x  subject to  row_lower <= matrix x <= row_upper,  lower <= x <= upper
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse


def prepare(
    objective: Any, matrix: Any, row_lower: Any, row_upper: Any, lower: Any, upper: Any
) -> Any:
    """The program as a `highspy.HighsLp`; the matrix is dense or of scipy.sparse."""
    import highspy

    columns = sparse.csc_matrix(matrix, dtype=np.float64)
    columns.sort_indices()
    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = columns.shape
    program.col_cost_ = np.asarray(objective, np.float64)
    program.row_lower_, program.row_upper_ = (
        np.asarray(row_lower, np.float64),
        np.asarray(row_upper, np.float64),
    )
    program.col_lower_, program.col_upper_ = (
        np.asarray(lower, np.float64),
        np.asarray(upper, np.float64),
    )
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = columns.indptr.astype(np.int32)
    program.a_matrix_.index_ = columns.indices.astype(np.int32)
    program.a_matrix_.value_ = columns.data
    return program


def run(program: Any, method: str = "simplex") -> float:
    """The optimum of a prepared program on one thread: this is the part to be timed.

    Args:
      program: from `prepare`.
      method: "simplex" or "ipm"; the interior point method ends with a crossover to a vertex.

    Raises:
      RuntimeError: if HiGHS does not end at an optimum.
    """
    import highspy

    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("solver", method)
    solver.passModel(program)
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"HiGHS ended with: {solver.modelStatusToString(status)}")
    return float(solver.getObjectiveValue())


def highs(
    objective: Any,
    matrix: Any,
    row_lower: Any,
    row_upper: Any,
    lower: Any,
    upper: Any,
    *,
    method: str = "simplex",
) -> float:
    """The optimum by HiGHS: `prepare` and `run`."""
    return run(prepare(objective, matrix, row_lower, row_upper, lower, upper), method)


def mpax_batch(
    objective: Any,
    matrix: Any,
    row_lower: Any,
    row_upper: Any,
    lower: Any,
    upper: Any,
    *,
    tolerance: float = 1e-4,
    max_iterations: int = 100_000,
    use_sparse_matrix: bool = False,
) -> jax.Array:
    """The objectives that MPAX's r2HPDHG reaches on programs of one shape, [batch] in the default
    float type; NaN where it does not end optimal.

    One call of a jitted vmap; a second call with the same shapes and kinds of rows compiles
    nothing. No value is copied to the host apart from the bounds of the first member's rows.

    Args:
      objective: [batch, n].
      matrix: [batch, m, n].
      row_lower: [batch, m]; which rows are equalities, and which have no lower bound, must be the
        same in all members.
      row_upper: [batch, m]; likewise.
      lower: [batch, n].
      upper: [batch, n].
      tolerance: absolute and relative.
      max_iterations: at which a member is given up.
      use_sparse_matrix: whether MPAX stores the matrix as a sparse one; a dense one is 30 times
        faster on a CPU for programs of LP-Boost.

    Raises:
      ImportError: if there is no MPAX.
    """
    solve = mpax_solver(
        row_lower,
        row_upper,
        tolerance=tolerance,
        max_iterations=max_iterations,
        use_sparse_matrix=use_sparse_matrix,
    )
    with mpax_traced():
        return solve(objective, matrix, row_lower, row_upper, lower, upper)


def mpax_solver(
    row_lower: Any,
    row_upper: Any,
    *,
    tolerance: float = 1e-4,
    max_iterations: int = 100_000,
    use_sparse_matrix: bool = False,
) -> Any:
    """The jitted function that `mpax_batch` calls with its arrays, to be traced within
    `mpax_traced`.
    """
    low, high = np.asarray(row_lower[0]), np.asarray(row_upper[0])
    kinds = tuple(
        zip(
            (low == high).tolist(),
            np.isfinite(low).tolist(),
            np.isfinite(high).tolist(),
            strict=True,
        )
    )
    return _mpax_solver(kinds, tolerance, max_iterations, use_sparse_matrix)


@contextlib.contextmanager
def mpax_traced() -> Iterator[None]:
    """MPAX takes the root logger over whenever it is traced, and promotes ranks: both
    are put back.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        with jax.numpy_rank_promotion("allow"):
            yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def has_mpax() -> bool:
    """Whether it is installed."""
    return importlib.util.find_spec("mpax") is not None


@functools.lru_cache(maxsize=16)
def _mpax_solver(
    kinds: tuple[tuple[bool, bool, bool], ...],
    tolerance: float,
    max_iterations: int,
    use_sparse_matrix: bool,
) -> Any:
    try:
        import mpax
        from mpax.utils import TerminationStatus
    except ImportError as error:
        raise ImportError(
            "MPAX is not installed: python -m pip install mpax, or skip this peer"
        ) from error
    equal, below, above = np.array(kinds, bool).reshape(-1, 3).T
    equalities, at_least, at_most = (
        np.flatnonzero(rows) for rows in (equal, below & ~equal, above & ~equal)
    )
    solver = mpax.r2HPDHG(eps_abs=tolerance, eps_rel=tolerance, iteration_limit=max_iterations)

    def solve(objective, matrix, row_lower, row_upper, lower, upper):
        inequalities = jnp.concatenate([matrix[at_least], -matrix[at_most]])
        sides = jnp.concatenate([row_lower[at_least], -row_upper[at_most]])
        problem = mpax.create_lp(
            objective,
            matrix[equalities],
            row_lower[equalities],
            inequalities,
            sides,
            lower,
            upper,
            use_sparse_matrix=use_sparse_matrix,
        )
        found = solver.optimize(problem)
        is_optimal = found.termination_status == TerminationStatus.OPTIMAL
        return jnp.where(is_optimal, jnp.vdot(objective, found.primal_solution), jnp.nan)

    return jax.jit(jax.vmap(solve))
