"""The solution that a solver's last points make: moved to where they prove most, judged, and with the bounds that they prove."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp import certify, repair, repair_dual
from jboost.lp.assess import assess, dual_side, either, primal_side
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
    """The solution made of a point within its bounds and an allowed dual, with what both prove; `tight` is the program, tightened.

    The point is moved onto the rows that it misses, and the dual to where reduced costs of variables with one bound have its sign,
    unless either more than doubles the error, as where objectives are large, or both together do so twice.
    """
    is_infeasible, is_unbounded = status == int(Status.PRIMAL_INFEASIBLE), status == int(Status.DUAL_INFEASIBLE)
    inside = certify.within_bounds(problem, primal)
    within = jnp.where(is_unbounded, primal, inside)
    repaired = repair.repair(problem, within, max_rows=proof.max_repaired_rows)
    moved = jnp.where(is_unbounded, primal, repaired.primal)
    allowed = dual_side(problem, certify.allowed_dual(problem, dual))
    mended = repair_dual.repair_dual(problem, tight, allowed, max_columns=proof.max_repaired_columns)
    mended = either(is_infeasible, allowed, mended)

    primals = jax.vmap(functools.partial(primal_side, problem))(jnp.stack([within, moved, inside]))
    duals = jax.tree.map(lambda *parts: jnp.stack(parts), allowed, mended)
    qualities = jax.vmap(lambda one: jax.vmap(functools.partial(assess, problem, one))(duals))(primals)
    error = qualities.error
    as_good_as_none = _ROUNDINGS * jnp.finfo(primal.dtype).eps + 8 * (dual.shape[0] + 16) * 2.0**-52  # of the float type, and of the proof
    most = 2 * error[0, 0] + as_good_as_none
    takes_moved, takes_mended = error[1, 0] <= most, error[0, 1] <= most
    are_sound = error[takes_moved.astype(jnp.int32), takes_mended.astype(jnp.int32)] <= 2 * most
    which, dual_which = (takes_moved & are_sound).astype(jnp.int32), (takes_mended & are_sound).astype(jnp.int32)
    dual_point = duals.point[dual_which]
    lower, is_refuted = certify.prove_lower(tight, dual_point)
    lower = jnp.where(is_infeasible & is_refuted, jnp.inf, lower)
    is_feasible = is_infeasible & jnp.isfinite(repaired.upper_bound)  # after all: a feasible point is next to this one
    is_bounded = is_unbounded & jnp.isfinite(lower)
    which = jnp.where(is_bounded, 2, which)  # a ray no more
    quality = jax.tree.map(lambda leaf: leaf[which, dual_which], qualities)
    status = jnp.where(is_feasible | is_bounded, int(Status.NUMERICAL_ERROR), status).astype(jnp.int32)
    is_invalid = status == int(Status.INVALID_INPUT)
    return LPSolution(
        primal=primals.point[which],
        dual=dual_point,
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
