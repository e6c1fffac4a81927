"""The choice of the variable to branch on: the one whose two branches both raise the bound most.

A node branches on mu_u, on xi_i, or on the sum of mu over a split, which is 0 or at least 1. One
pivot of the dual simplex method gives a lower bound on the increase in each branch (Driebeek 1966,
Tomlin 1971). The candidates with the largest such bounds are then tried with some more pivots.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops
from jboost.base.types import Array
from jboost.l0.branch_and_cut import node_program
from jboost.l0.branch_and_cut.node_program import NO, OPEN, YES, CutSet, Decisions, NodePool
from jboost.lp.simplex import boxes as boxed_simplex
from jboost.lp.simplex.boxes import BoxSolution

WHOLE = 1e-4  # a value this close to an integer counts as one
# The smallest gain of a branch in the product of both gains: candidates that gain nothing in one
# branch are still ranked by the other.
_LEAST_GAIN = 1e-4


class BranchingCandidate(NamedTuple):
    """The decision to branch on, or none."""

    place: Array  # [] int32 index among hypotheses, examples and splits [U + m + U // 2]
    exists: Array  # [] bool


def decided(decisions: Decisions, place: Array, value: int) -> Decisions:
    """The decisions with the one at index `place` set to NO or YES."""
    sizes = [part.shape[0] for part in decisions]
    both = jnp.concatenate(decisions).at[place].set(jnp.asarray(value, jnp.int8))
    return Decisions(*jnp.split(both, [sizes[0], sizes[0] + sizes[1]]))


def fractions(pool: NodePool, decisions: Decisions, solution: BoxSolution) -> Array:
    """The distances of the open decisions from integers, [U + m + U // 2]; 0 for decisions made."""
    shares = jnp.clip(solution.values[_indices(pool)], 0.0, 1.0)
    distance = jnp.minimum(shares, 1 - shares)
    return jnp.where((jnp.concatenate(decisions) == OPEN) & (distance > WHOLE), distance, 0.0)


def choose(
    pool: NodePool,
    cuts: CutSet,
    decisions: Decisions,
    solution: BoxSolution,
    goal: Array,
    *,
    num_tried: int,
    num_pivots: int,
) -> BranchingCandidate:
    """Chooses the decision to branch on: the best fractional one, or any open one if none is
    fractional.
    """
    distance = fractions(pool, decisions, solution)
    place = loops.cond(
        jnp.any(distance > 0),
        lambda: _best(pool, cuts, decisions, solution, goal, distance, num_tried, num_pivots),
        lambda: _any_open(pool, decisions, solution),
    )
    return BranchingCandidate(place, jnp.any(_is_open(pool, decisions)))


def no_candidate(pool: NodePool) -> BranchingCandidate:
    """No decision to branch on."""
    return BranchingCandidate(jnp.zeros((), jnp.int32), jnp.zeros((), bool))


def _indices(pool: NodePool) -> Array:
    """The indices of the decisions among variables and rows, [U + m + U // 2]."""
    num_examples, num_columns = pool.instance.margins.shape
    return jnp.concatenate(
        [
            num_columns + jnp.arange(num_columns + num_examples, dtype=jnp.int32),
            node_program.split_places(pool),
        ]
    )


def _is_open(pool: NodePool, decisions: Decisions) -> Array:
    is_allowed = jnp.concatenate(
        [pool.instance.is_column, pool.instance.weights > 0, jnp.zeros_like(decisions.splits, bool)]
    )
    return is_allowed & (jnp.concatenate(decisions) == OPEN)


def _any_open(pool: NodePool, decisions: Decisions, solution: BoxSolution) -> Array:
    """The open decision to branch on if none is fractional: the hypothesis with the largest vote,
    or an example if no hypothesis is open.
    """
    votes, _, _ = node_program.variables(pool, solution)
    worth = jnp.concatenate(
        [
            1 + votes,
            jnp.zeros_like(pool.instance.weights),
            jnp.zeros_like(decisions.splits, votes.dtype),
        ]
    )
    return lax.argmax(jnp.where(_is_open(pool, decisions), worth, -1.0), 0, jnp.int32)


def _best(
    pool: NodePool,
    cuts: CutSet,
    decisions: Decisions,
    solution: BoxSolution,
    goal: Array,
    distance: Array,
    num_tried: int,
    num_pivots: int,
) -> Array:
    """The decision with the largest product of the gains in its two branches."""
    lower, upper = node_program.bounds(pool, cuts, decisions)
    gap = jnp.maximum(goal - solution.objective, 0.0)
    penalties = boxed_simplex.penalties(
        solution.table, lower, upper, _indices(pool), solution.values
    )
    first = jnp.where(distance > 0, _score(*penalties, gap) * (1 + distance), -1.0)
    worth, tried = lax.top_k(first, min(num_tried, first.shape[0]))

    def gain(place: Array, value: Array) -> Array:
        branch = jax.tree.map(
            lambda no, yes: jnp.where(value == YES, yes, no),
            *(decided(decisions, place, given) for given in (NO, YES)),
        )
        found = boxed_simplex.pivot_on(
            solution.table,
            *node_program.bounds(pool, cuts, branch),
            goal=goal,
            max_pivots=num_pivots,
        )
        return found.objective - solution.objective

    both = jnp.array([NO, YES])
    tried_gains = lax.map(
        lambda place: lax.map(lambda value: gain(place, value), both), tried.astype(jnp.int32)
    )
    return tried[
        jnp.argmax(jnp.where(worth >= 0, _score(tried_gains[:, 0], tried_gains[:, 1], gap), -1.0))
    ].astype(jnp.int32)


def _score(falls: Array, rises: Array, gap: Array) -> Array:
    """The product of the gains in two branches. A gain beyond the gap closes the branch and counts
    as the gap.
    """
    return jnp.maximum(jnp.minimum(falls, gap), _LEAST_GAIN) * jnp.maximum(
        jnp.minimum(rises, gap), _LEAST_GAIN
    )
