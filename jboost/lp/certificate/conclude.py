"""Makes an `LPSolution` of the last points of a solver.

The points are moved to where they prove better bounds. Then their residuals, their bounds and the
status are computed.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp.certificate import certify, repair, repair_dual
from jboost.lp.certificate.assess import Quality, assess, dual_side, primal_side
from jboost.lp.certificate.snap import snap, snap_ray
from jboost.lp.problem import LinearProgram
from jboost.lp.types import History, LPSolution, ProofConfig

_ROUNDINGS = 32  # an error of this many rounding units counts as 0


def conclude(
    problem: LinearProgram,
    tight: LinearProgram,
    primal: Array,
    dual: Array,
    *,
    num_iterations: Array,
    history: History,
    status: Array,
    proof: ProofConfig,
) -> LPSolution:
    """The solution of the last points of a solver, with the bounds that the points prove.

    `tight` is the program with implied bounds. The primal is moved onto the rows that it violates.
    The dual is moved so that the reduced cost of each variable with one bound has the right sign. A
    move is rejected if it more than doubles the error, as it may with a large objective. Both moves
    are rejected if together they multiply the error by more than four.
    """
    is_infeasible = status == int(Status.PRIMAL_INFEASIBLE)
    is_unbounded = status == int(Status.DUAL_INFEASIBLE)
    points, attained = _primal_candidates(problem, primal, is_unbounded, proof)
    dual_points, proven = _dual_candidates(problem, tight, dual, is_infeasible, proof)
    qualities = _assess_all(problem, points, dual_points)
    takes_repaired, takes_other = _choose(qualities.error, dual.shape[0], ~is_unbounded)
    which_dual = takes_other.astype(jnp.int32)
    lower = proven[which_dual]
    # The solver's status is wrong if the proof contradicts it: a feasible point exists, or the
    # objective is bounded. In the second case the primal is returned as a point, not as a ray.
    is_feasible = is_infeasible & jnp.isfinite(attained)
    is_bounded = is_unbounded & jnp.isfinite(lower)
    which = (takes_repaired | is_bounded).astype(jnp.int32)
    quality = jax.tree.map(lambda leaf: leaf[which, which_dual], qualities)
    status = jnp.where(is_feasible | is_bounded, int(Status.NUMERICAL_ERROR), status).astype(
        jnp.int32
    )
    is_invalid = status == int(Status.INVALID_INPUT)
    return LPSolution(
        primal=points[which],
        dual=dual_points[which_dual],
        **quality._asdict(),
        lower_bound=jnp.where(is_invalid, -jnp.inf, lower),
        upper_bound=jnp.where(is_invalid | is_unbounded, jnp.inf, attained),
        num_iterations=num_iterations,
        history=history,
        status=status,
    )


def _primal_candidates(
    problem: LinearProgram, primal: Array, is_unbounded: Array, proof: ProofConfig
) -> tuple[Array, Array]:
    """The primal of the solver within its bounds, and moved onto the rows that it violates, [2, n];
    and the upper bound that the second one attains.

    For an unbounded program they are the ray of the solver, and the same vector within the bounds.
    """
    inside = certify.within_bounds(problem, primal)
    within = jnp.where(is_unbounded, primal, inside)
    repaired = repair.repair(problem, within, max_rows=proof.max_repaired_rows)
    points = jnp.stack([within, jnp.where(is_unbounded, inside, repaired.primal)])
    return points, repaired.upper_bound


def _dual_candidates(
    problem: LinearProgram,
    tight: LinearProgram,
    dual: Array,
    is_infeasible: Array,
    proof: ProofConfig,
) -> tuple[Array, Array]:
    """Two duals [2, m] and the lower bounds [2] that they prove.

    The first is the given dual. The second is the repaired or the rounded dual, whichever proves
    the larger bound. For an infeasible program both are the ray that proves most, and the bounds
    are inf if that ray proves infeasibility.
    """
    allowed = certify.allowed_dual(problem, dual)
    # a proof of infeasibility does not depend on the objective
    objective = jnp.where(is_infeasible, 0.0, problem.objective)
    repaired = repair_dual.repair_dual(
        problem._replace(objective=objective),
        tight._replace(objective=objective),
        allowed,
        least=jnp.where(is_infeasible, 0.0, -jnp.inf).astype(dual.dtype),
        max_columns=proof.max_repaired_columns,
    )
    rounded = certify.allowed_dual(
        problem, jnp.where(is_infeasible, snap_ray(allowed), snap(allowed))
    )
    duals = jnp.stack([allowed, repaired, rounded])
    lower, is_refuted = jax.vmap(functools.partial(certify.prove_lower, tight))(duals)
    lower = jnp.where(is_infeasible & is_refuted, jnp.inf, lower)
    best = jnp.where(lower[2] > lower[1], 2, 1)
    chosen = jnp.stack([jnp.where(is_infeasible, best, 0), best])
    return duals[chosen], lower[chosen]


def _assess_all(problem: LinearProgram, points: Array, dual_points: Array) -> Quality:
    """The residuals and gaps of each primal [2, n] with each dual [2, m], with axes [2, 2]."""
    primals = jax.vmap(functools.partial(primal_side, problem))(points)
    duals = jax.vmap(functools.partial(dual_side, problem))(dual_points)
    return jax.vmap(lambda one: jax.vmap(functools.partial(assess, problem, one))(duals))(primals)


def _choose(error: Array, num_rows: int, is_allowed: Array) -> tuple[Array, Array]:
    """Whether to take the second primal, and whether to take the second dual.

    Args:
      error: [2, 2] of each primal with each dual.
      num_rows: m.
      is_allowed: [] bool, whether the second primal may be taken.
    """
    # the rounding of the float type, plus that of the proof, which uses 64 bits
    as_good_as_none = _ROUNDINGS * jnp.finfo(error.dtype).eps + 8 * (num_rows + 16) * 2.0**-52
    most = 2 * error[0, 0] + as_good_as_none
    takes_primal, takes_dual = (error[1, 0] <= most) & is_allowed, error[0, 1] <= most
    of_both = jnp.where(
        takes_primal,
        jnp.where(takes_dual, error[1, 1], error[1, 0]),
        jnp.where(takes_dual, error[0, 1], error[0, 0]),
    )
    are_sound = of_both <= 2 * most
    chosen: tuple[Array, Array] = lax.optimization_barrier(
        (takes_primal & are_sound, takes_dual & are_sound)
    )
    return chosen
