"""The solution from the last points of a solver: the points are moved to where they prove the best
bounds, then their residuals, their bounds and the status are computed.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp.certificate import certify, repair, repair_dual
from jboost.lp.certificate.assess import assess, dual_side, primal_side
from jboost.lp.certificate.snap import snap, snap_ray
from jboost.lp.problem import LinearProgram
from jboost.lp.types import History, LPSolution, ProofConfig

_ROUNDINGS = 32  # units of rounding: an error that is as good as none


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
    """The solution made of a point within its bounds and an allowed dual, with what both prove;
    `tight` is the program, tightened.

    The point is moved onto the rows that it misses, and the dual to where reduced costs of
    variables with one bound have its sign, unless either more than doubles the error, as where
    objectives are large, or both together do so twice.
    """
    is_infeasible, is_unbounded = (
        status == int(Status.PRIMAL_INFEASIBLE),
        status == int(Status.DUAL_INFEASIBLE),
    )
    inside = certify.within_bounds(problem, primal)
    within = jnp.where(is_unbounded, primal, inside)
    repaired = repair.repair(problem, within, max_rows=proof.max_repaired_rows)
    dual_points, proven = _dual_candidates(problem, tight, dual, is_infeasible, proof)
    points = jnp.stack([within, jnp.where(is_unbounded, inside, repaired.primal)])
    primals = jax.vmap(functools.partial(primal_side, problem))(points)
    duals = jax.vmap(functools.partial(dual_side, problem))(dual_points)
    qualities = jax.vmap(lambda one: jax.vmap(functools.partial(assess, problem, one))(duals))(
        primals
    )
    takes_repaired, takes_other = lax.optimization_barrier(
        _choose(qualities.error, dual.shape[0], ~is_unbounded)
    )
    which_dual = takes_other.astype(jnp.int32)
    lower = proven[which_dual]
    # after all: a feasible point is next to this one
    is_feasible = is_infeasible & jnp.isfinite(repaired.upper_bound)
    is_bounded = is_unbounded & jnp.isfinite(lower)  # a ray no more: the point within its bounds
    which = (takes_repaired | is_bounded).astype(jnp.int32)
    quality = jax.tree.map(lambda leaf: leaf[which, which_dual], qualities)
    status = jnp.where(is_feasible | is_bounded, int(Status.NUMERICAL_ERROR), status).astype(
        jnp.int32
    )
    is_invalid = status == int(Status.INVALID_INPUT)
    return LPSolution(
        primal=points[which],
        dual=dual_points[which_dual],
        reduced_costs=quality.reduced_costs,
        primal_objective=quality.primal_objective,
        dual_objective=quality.dual_objective,
        lower_bound=jnp.where(is_invalid, -jnp.inf, lower),
        upper_bound=jnp.where(is_invalid | is_unbounded, jnp.inf, repaired.upper_bound),
        primal_residual=quality.primal_residual,
        dual_residual=quality.dual_residual,
        duality_gap=quality.duality_gap,
        num_iterations=num_iterations,
        history=history,
        status=status,
    )


def _dual_candidates(
    problem: LinearProgram,
    tight: LinearProgram,
    dual: Array,
    is_infeasible: Array,
    proof: ProofConfig,
) -> tuple[Array, Array]:
    """The dual as it is and the one that proves most of the repaired and the rounded dual, [2, m],
    and the lower bounds [2] that they prove.

    Of an infeasible program both are the ray that proves most, and a bound is inf where the ray
    proves infeasibility.
    """
    allowed = certify.allowed_dual(problem, dual)
    # what a ray proves does not depend on the objective
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


def _choose(error: Array, num_rows: int, is_allowed: Array) -> tuple[Array, Array]:
    """Whether to take the second primal, where that is allowed, and the second dual, by the errors
    [2, 2] of primals with duals.
    """
    # of the float type, and of the proof
    as_good_as_none = _ROUNDINGS * jnp.finfo(error.dtype).eps + 8 * (num_rows + 16) * 2.0**-52
    most = 2 * error[0, 0] + as_good_as_none
    takes_primal, takes_dual = (error[1, 0] <= most) & is_allowed, error[0, 1] <= most
    of_both = jnp.where(
        takes_primal,
        jnp.where(takes_dual, error[1, 1], error[1, 0]),
        jnp.where(takes_dual, error[0, 1], error[0, 0]),
    )
    are_sound = of_both <= 2 * most
    return takes_primal & are_sound, takes_dual & are_sound
