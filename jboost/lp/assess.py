"""How good a primal and a dual point are, in the units of the program: residuals, gap, and the solution that is made of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp import certify, repair, tighten
from jboost.lp.problem import LinearProgram
from jboost.lp.types import History, LPSolution, ProofConfig


class Quality(NamedTuple):
    """What `LPSolution` says of its points."""

    reduced_costs: Array  # [n]
    primal_objective: Array  # []
    dual_objective: Array  # []
    primal_residual: Array  # []
    dual_residual: Array  # []
    duality_gap: Array  # []

    @property
    def error(self) -> Array:
        """The largest of the three, []."""
        return jnp.maximum(jnp.maximum(self.primal_residual, self.dual_residual), self.duality_gap)


def assess(problem: LinearProgram, primal: Array, dual: Array) -> Quality:
    """Judges a point [n] and a dual [m]; two products."""
    reached = problem.operator.matvec(primal)
    reduced_costs = problem.objective - problem.operator.rmatvec(dual)
    short = jnp.maximum(jnp.maximum(problem.row_lower - reached, reached - problem.row_upper), 0.0)
    paid, wrong_rows = lean(dual, problem.row_lower, problem.row_upper)
    saved, wrong_columns = lean(reduced_costs, problem.lower, problem.upper)
    primal_objective = jnp.sum(problem.objective * primal)
    dual_objective = jnp.sum(paid) + jnp.sum(saved)
    gap = jnp.abs(primal_objective - dual_objective) / (1 + jnp.abs(primal_objective) + jnp.abs(dual_objective))
    return Quality(
        reduced_costs=reduced_costs,
        primal_objective=primal_objective,
        dual_objective=dual_objective,
        primal_residual=jnp.max(short, initial=0.0) / (1 + largest_finite(problem.row_lower, problem.row_upper)),
        dual_residual=jnp.max(jnp.concatenate([wrong_rows, wrong_columns]), initial=0.0) / (1 + jnp.max(jnp.abs(problem.objective))),
        duality_gap=gap,
    )


def largest_finite(low: Array, high: Array) -> Array:
    """The largest finite size of a bound, [], 0 where there is none."""
    sizes = jnp.concatenate([jnp.abs(low), jnp.abs(high)])
    return jnp.max(jnp.where(jnp.isfinite(sizes), sizes, 0.0), initial=0.0)


def lean(slopes: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """What slopes earn on the finite bounds they lean on, and by how much they lean on infinite ones."""
    bound = jnp.where(slopes > 0, low, high)
    is_finite = jnp.isfinite(bound)
    return slopes * jnp.where(is_finite, bound, 0.0), jnp.where(is_finite, 0.0, jnp.abs(slopes))


def ray_tolerance(dtype: Any) -> float:
    """What a ray may miss, relative to what it proves: 1e-8 and 2e-5."""
    return float(jnp.finfo(dtype).eps) ** 0.5 / (1.5 if dtype == jnp.float64 else 17)


def solution(
    problem: LinearProgram, primal: Array, dual: Array, *, num_iterations: Array, history: History, status: Array, proof: ProofConfig
) -> LPSolution:
    """The solution made of a point within its bounds and an allowed dual, with what both prove.

    The point is moved onto the rows that it misses, unless that more than doubles the error, as where objectives are large.
    """
    is_infeasible, is_unbounded = status == int(Status.PRIMAL_INFEASIBLE), status == int(Status.DUAL_INFEASIBLE)
    dual, within = certify.allowed_dual(problem, dual), certify.within_bounds(problem, primal)
    repaired = repair.repair(problem, within, max_rows=proof.max_repaired_rows)
    is_spoiled = assess(problem, repaired.primal, dual).error > 2 * assess(problem, within, dual).error
    primal = jnp.where(is_unbounded, primal, jnp.where(is_spoiled, within, repaired.primal))
    quality = assess(problem, primal, dual)
    lower, is_refuted = certify.prove_lower(tighten.tighten(problem, proof.num_tightenings), dual)
    lower = jnp.where(is_infeasible & is_refuted, jnp.inf, lower)
    is_invalid = status == int(Status.INVALID_INPUT)
    return LPSolution(
        primal=primal,
        dual=dual,
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
