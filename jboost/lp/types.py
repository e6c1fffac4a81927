"""The results of the solvers of linear programs, and the configuration of proofs."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp

from jboost.base import check
from jboost.base.types import Array


@dataclasses.dataclass(frozen=True)
class ProofConfig:
    """Static sizes of the computations that prove finite bounds after a solver has ended."""

    max_repaired_rows: int = 64
    """The largest number of equalities and violated rows that a feasible point is moved onto. With
    more such rows the upper bound may be infinite.
    """
    max_repaired_columns: int = 64
    """The largest number of variables with one bound whose reduced costs are corrected at once.
    With more such variables the lower bound may be infinite.
    """
    num_tightenings: int = 2
    """The number of passes over a stored matrix that find bounds of variables without one. Later
    passes use the bounds of earlier ones.
    """

    def __post_init__(self) -> None:
        check.count("config.proof.max_repaired_rows", self.max_repaired_rows, low=0)
        check.count("config.proof.max_repaired_columns", self.max_repaired_columns, low=0)
        check.count("config.proof.num_tightenings", self.num_tightenings, low=0)


# for uses of a solver that ignore the bounds
NO_PROOF = ProofConfig(max_repaired_rows=0, max_repaired_columns=0, num_tightenings=0)


def validate_proof(proof: Any) -> None:
    """Raises ValueError unless `proof`, of the config of a solver, is a `ProofConfig`."""
    if not isinstance(proof, ProofConfig):
        raise ValueError(
            f"config.proof is a {type(proof).__name__}: expected a jboost.lp.ProofConfig"
        )


class History(NamedTuple):
    """One number per check, +inf after the last check. The length is 0 unless the config sets
    another.
    """

    primal_residuals: Array  # [length]
    dual_residuals: Array  # [length]
    duality_gaps: Array  # [length]


def empty_history(length: int, dtype: jnp.dtype) -> History:
    """A history with the capacity for `length` checks."""
    unused = jnp.full((length,), jnp.inf, dtype)
    return History(unused, unused, unused)


def record(history: History, index: Array, info: LPInfo) -> History:
    """Writes the numbers of check `index`. Checks beyond the length are dropped."""
    if history.primal_residuals.shape[0] == 0:
        return history
    measured = (info.primal_residual, info.dual_residual, info.duality_gap)
    return History(
        *(
            line.at[index].set(value, mode="drop")
            for line, value in zip(history, measured, strict=True)
        )
    )


class LPInfo(NamedTuple):
    """The numbers of one check, for a progress display."""

    num_iterations: Array  # []
    primal_residual: Array  # []
    dual_residual: Array  # []
    duality_gap: Array  # []


class LPSolution(NamedTuple):
    """A primal and a dual point, and the bounds that they prove.

    reduced_costs = objective - A'dual. A positive dual belongs to the lower bound of its row.
    """

    # [n] x; with status DUAL_INFEASIBLE a ray along which the objective decreases without limit
    primal: Array
    # [m] y; with status PRIMAL_INFEASIBLE a ray that shows infeasibility, and proves it if
    # lower_bound is inf
    dual: Array
    reduced_costs: Array  # [n]
    primal_objective: Array  # []
    # [] an estimate: the dual objective on the finite bounds, except bounds that are far from the
    # variable
    dual_objective: Array
    lower_bound: Array  # [] proven by `dual` in exact arithmetic; -inf without a proof
    # [] attained by a feasible point close to `primal`, proven in exact arithmetic; +inf without a
    # proof
    upper_bound: Array
    # [] largest violation of a row, beyond rounding, relative to 1 + |the bound violated|
    primal_residual: Array
    # [] largest reduced cost of the wrong sign, beyond rounding, relative to 1 + |the objective
    # there|
    dual_residual: Array
    duality_gap: Array  # [] |primal_objective - dual_objective| / (1 + the sum of their sizes)
    num_iterations: Array  # [] int32
    history: History
    status: Array  # [] int32

    @property
    def error(self) -> Array:
        """The largest of the residuals and the gap, []."""
        return jnp.maximum(jnp.maximum(self.primal_residual, self.dual_residual), self.duality_gap)
