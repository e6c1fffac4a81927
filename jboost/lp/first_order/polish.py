"""Feasibility polishing: less violation of rows, and of the signs of reduced costs, next to a
solution whose gap is good enough already.

Either side alone is a program without an objective, on which primal-dual methods are fast: the rows
and bounds, from the primal at hand with dual 0; and the dual's, which is the program with all
finite bounds 0, from the dual at hand with primal 0 (Applegate et al. 2025, "PDLP", section 5). The
two have one matrix and are solved as a batch of two.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jboost.base.types import Array
from jboost.lp.certificate.assess import Quality, assess, dual_side, primal_side
from jboost.lp.problem import LinearProgram

_TARGET = 1e-3  # of the tolerance of the solve
_GAP_GROWTH = 2.0  # what feasibility may cost, where the gap is above the tolerance anyway

Search = Callable[[LinearProgram, Array, Array, Array], tuple[Array, Array]]


def polish(
    problem: LinearProgram, primal: Array, dual: Array, tolerance: Array, search: Search
) -> tuple[Array, Array]:
    """A primal [n] and a dual [m] that violate less; the old ones where that fails, or where it
    costs too much of the gap.

    Args:
      problem: m rows, n variables.
      primal: [n].
      dual: [m].
      tolerance: [] of the solve; gaps up to it are acceptable.
      search: program, primal, dual, tolerance -> primal and dual, by a first-order method that
        begins there.
    """
    sides = jax.tree.map(
        lambda *both: jnp.stack(both),
        _without_operator(_primal_side(problem)),
        _without_operator(_dual_side(problem)),
    )
    primals, duals = (
        jnp.stack([primal, jnp.zeros_like(primal)]),
        jnp.stack([jnp.zeros_like(dual), dual]),
    )

    def search_side(side: LinearProgram, primal: Array, dual: Array) -> tuple[Array, Array]:
        return search(side._replace(operator=problem.operator), primal, dual, _TARGET * tolerance)

    found_primals, found_duals = jax.vmap(search_side)(sides, primals, duals)
    old_primal, new_primal = primal_side(problem, primal), primal_side(problem, found_primals[0])
    old_dual, new_dual = dual_side(problem, dual), dual_side(problem, found_duals[1])
    before, with_primal = (
        assess(problem, old_primal, old_dual),
        assess(problem, new_primal, old_dual),
    )
    takes_primal = (with_primal.primal_residual < before.primal_residual) & _is_affordable(
        with_primal, before, tolerance
    )
    taken = jax.tree.map(lambda new, old: jnp.where(takes_primal, new, old), new_primal, old_primal)
    now, with_dual = assess(problem, taken, old_dual), assess(problem, taken, new_dual)
    takes_dual = (with_dual.dual_residual < now.dual_residual) & _is_affordable(
        with_dual, now, tolerance
    )
    return taken.point, jnp.where(takes_dual, new_dual.point, old_dual.point)


def _without_operator(problem: LinearProgram) -> LinearProgram:
    return problem._replace(operator=())


def _primal_side(problem: LinearProgram) -> LinearProgram:
    return problem._replace(objective=jnp.zeros_like(problem.objective))


def _dual_side(problem: LinearProgram) -> LinearProgram:
    names = ("row_lower", "row_upper", "lower", "upper")
    return problem._replace(
        **{
            name: jnp.where(jnp.isinf(getattr(problem, name)), getattr(problem, name), 0.0)
            for name in names
        }
    )


def _is_affordable(new: Quality, old: Quality, tolerance: Array) -> Array:
    return new.duality_gap <= jnp.maximum(tolerance, _GAP_GROWTH * old.duality_gap)
