"""The bounds of a solution from its points alone."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import check, derivatives, meshes
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp.certificate import certify, repair, tighten
from jboost.lp.derivatives import change_of_objective
from jboost.lp.problem import LinearProgram, is_valid, prepare
from jboost.lp.types import LPSolution, ProofConfig, validate_proof


@meshes.takes_sharded
def recompute_bounds(
    problem: LinearProgram, solution: LPSolution, *, proof: ProofConfig | None = None
) -> tuple[Array, Array]:
    """Recomputes the bounds that the points of a solution prove. The bounds hold in exact
    arithmetic, for points of any origin.

    Args:
      problem: the program; its numbers are taken as the exact values of its floats.
      solution: of `solve`, or one with a `primal` [n], a `dual` [m] and a `status` from elsewhere.
      proof: static; the `proof` of the configuration that solved the program, None for the default.

    Returns:
      The lower bound [] that the dual proves with the bounds of the variables, including bounds
      that the rows imply; and the upper bound [] by a feasible point close to the primal. They are
      at least as good as the bounds of the solution.

      Finite bounds have the derivative of the optimal value with respect to the numbers of the
      program (envelope theorem). Infinite bounds have derivative NaN. The points are constants for
      derivatives, because at optimal points the value does not depend on them to first order.

    Raises:
      ValueError: at trace time, naming the argument.

    >>> import jboost
    >>> program = jboost.lp.make_program(
    ...     [-3.0, -5.0], [[1.0, 0.0], [0.0, 2.0], [3.0, 2.0]], row_upper=[4.0, 12.0, 18.0]
    ... )
    >>> solution = jboost.lp.solve(program)
    >>> lower, upper = jboost.lp.recompute_bounds(program, solution)
    >>> bool(solution.lower_bound <= lower <= -36 <= upper <= solution.upper_bound)
    True
    """
    problem = prepare(problem)
    proof = ProofConfig() if proof is None else proof
    validate_proof(proof)
    for name in ("primal", "dual", "status"):
        if not hasattr(solution, name):
            raise ValueError(
                f"solution is a {type(solution).__name__} without `{name}`: expected a"
                " jboost.lp.LPSolution, or a record with the fields primal, dual and status"
            )
    num_rows, num_columns = problem.operator.shape
    dtype = problem.objective.dtype
    primal = check.numeric(
        "solution.primal", solution.primal, shape=(num_columns,), kinds="fiu"
    ).astype(dtype)
    dual = check.numeric("solution.dual", solution.dual, shape=(num_rows,), kinds="fiu").astype(
        dtype
    )
    return _recompute(problem, primal, dual, jnp.asarray(solution.status), proof=proof)


@functools.partial(jax.jit, static_argnames=("proof",))
def _recompute(
    problem: LinearProgram, primal: Array, dual: Array, status: Array, *, proof: ProofConfig
) -> tuple[Array, Array]:
    return derivatives.define(functools.partial(_bounds, proof), _envelope)(
        problem, primal, dual, status
    )


def _envelope(
    arguments: tuple[Any, ...], tangents: tuple[Any, ...], bounds: tuple[Array, Array]
) -> tuple[Array, Array]:
    problem, primal, dual, _ = arguments
    change = change_of_objective(problem, tangents[0], primal, dual)
    lower, upper = (derivatives.where(jnp.isfinite(bound), change) for bound in bounds)
    return lower, upper


def _bounds(
    proof: ProofConfig, problem: LinearProgram, primal: Array, dual: Array, status: Array
) -> tuple[Array, Array]:
    lower, is_refuted = certify.prove_lower(tighten.tighten(problem, proof.num_tightenings), dual)
    lower = jnp.where((status == int(Status.PRIMAL_INFEASIBLE)) & is_refuted, jnp.inf, lower)
    upper = repair.prove_upper(problem, primal, max_rows=proof.max_repaired_rows)
    has_point = is_valid(problem) & (status != int(Status.DUAL_INFEASIBLE))
    return jnp.where(is_valid(problem), lower, -jnp.inf), jnp.where(has_point, upper, jnp.inf)
