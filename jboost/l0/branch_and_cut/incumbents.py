"""Feasible points of (15) and (9) of Goldberg and Eckstein (2009), rounded from the solutions of
the programs of branch and cut.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops
from jboost.base.types import Array
from jboost.l0.branch_and_cut import branching, cutting, node_program
from jboost.l0.branch_and_cut.cutting import Visit
from jboost.l0.branch_and_cut.node_program import NO, OPEN, YES, Decisions, NodePool
from jboost.l0.votes import local_search
from jboost.l0.votes.local_search import FeasibleVote
from jboost.lp.simplex import boxes as boxed_simplex

# Relative increases of rho that are tried, so that the vote keeps its margins after rounding.
_RAISES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
_UNUSED = 1e-6  # a smaller mu is a rounding error of the simplex method


def nearest(pool: NodePool, seen: Visit) -> FeasibleVote:
    """The best vote rounded from the solution of a node's program. If no decision is fractional,
    votes for larger margins are tried as well.
    """
    instance, domain = pool.instance, pool.domain
    votes, selected, _ = node_program.variables(pool, seen.solution)
    vote = domain.evaluate_near(instance, jnp.where(selected > _UNUSED, votes, 0.0))
    is_whole = ~jnp.any(branching.fractions(pool, seen.decisions, seen.solution) > 0)

    def best_raised() -> FeasibleVote:
        votes = lax.map(
            lambda raise_by: domain.evaluate(instance, _raised(pool, seen, raise_by)),
            jnp.array(_RAISES, vote.loss.dtype),
        )
        return local_search.better(
            vote, jax.tree.map(lambda leaf: leaf[jnp.argmin(votes.loss)], votes)
        )

    return loops.cond(is_whole & ~seen.is_closed, best_raised, lambda: vote)


def _raised(pool: NodePool, seen: Visit, raise_by: Array) -> Array:
    """lambda [U] over the hypotheses used, with larger margins on the examples that are not given
    up, if the simplex method finds such.
    """
    num_examples, num_columns = pool.instance.margins.shape
    _, selected, slacks = node_program.variables(pool, seen.solution)

    def rounded(values: Array) -> Array:
        return jnp.where(values > 0.5, YES, NO).astype(jnp.int8)

    decisions = Decisions(
        rounded(selected), rounded(slacks), jnp.full((num_columns // 2,), OPEN, jnp.int8)
    )
    lower, upper = node_program.bounds(pool, seen.engine.cuts, decisions)
    margins = 2 * num_columns + num_examples + jnp.arange(num_examples)
    raised = lower.at[margins].multiply(1 + raise_by)
    found = boxed_simplex.pivot_on(
        seen.solution.table,
        raised,
        upper,
        goal=jnp.asarray(jnp.inf, raised.dtype),
        max_pivots=cutting.MOST_PIVOTS,
    )
    return jnp.where(selected > 0.5, node_program.variables(pool, found)[0], 0.0)
