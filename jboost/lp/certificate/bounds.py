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
    """What the points of a solution prove, worked out anew: whatever made them, the bounds hold in
    exact arithmetic.

    Args:
      problem: the program, as its float type holds it.
      solution: of `solve`, or one with a `primal` [n], a `dual` [m] and a `status` from elsewhere.
      proof: static; that of the config that solved it, None for the default.

    Returns:
      The lower bound [] that the dual proves with the bounds of the variables, those included that
      rows imply, and the upper bound [] of a feasible point next to the primal. They are those of
      the solution, or better.

      Finite bounds have the derivative of the optimal value in the numbers of the program (envelope
      theorem), infinite ones NaN; the points are constants, in which the value does not change to
      first order where they are optimal.

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
