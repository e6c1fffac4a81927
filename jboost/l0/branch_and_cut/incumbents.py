"""Points of (15) of paper 001 next to the programs of branch and cut."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops
from jboost.base.types import Array
from jboost.l0.branch_and_cut import branching, cutting, node_program
from jboost.l0.branch_and_cut.cutting import Visit
from jboost.l0.branch_and_cut.node_program import NO, OPEN, YES, Decisions, Pool
from jboost.l0.votes import local_search
from jboost.l0.votes.local_search import Instance, Vote
from jboost.lp.simplex import boxes as boxed_simplex

# relative to rho, by which margins are raised where a vote is to keep them in spite of rounding
_FIRM = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
_UNUSED = 1e-6  # what the simplex method leaves of hypotheses that are not


def instance_of(pool: Pool) -> Instance:
    """The pool as votes are judged by."""
    of = pool.instance
    return Instance(of.margins.T, of.weights, of.costs, of.is_column, of.margin)


def nearest(pool: Pool, seen: Visit) -> Vote:
    """The best vote next to a node's program; where all its questions are answered, those too that
    keep margins raised by more and by less.
    """
    instance = instance_of(pool)
    votes, selected, _ = node_program.variables(pool, seen.solution)
    vote = local_search.evaluate_near(instance, jnp.where(selected > _UNUSED, votes, 0.0))
    is_whole = ~jnp.any(branching.fractions(pool, seen.decisions, seen.solution) > 0)

    def firm() -> Vote:
        votes = lax.map(
            lambda raise_by: local_search.evaluate(instance, _firm(pool, seen, raise_by)),
            jnp.array(_FIRM, vote.loss.dtype),
        )
        return local_search.better(
            vote, jax.tree.map(lambda leaf: leaf[jnp.argmin(votes.loss)], votes)
        )

    return loops.cond(is_whole & ~seen.is_closed, firm, lambda: vote)


def _firm(pool: Pool, seen: Visit, raise_by: Array) -> Array:
    """lambda [U] that keeps the margins of the examples not given up, raised, by the hypotheses
    used, where there is such.
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
