"""What to branch on: the question whose answers both cost most.

Every question is a variable, or a sum of some, that is to be whole: mu_u, xi_i, and the sum of mu
over a split, which is 0 or at least 1. One pivot of the dual simplex method says what an answer
costs at least (Driebeek 1966, Tomlin 1971); the best by that are tried with some pivots more.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops
from jboost.base.types import Array
from jboost.l0.branch_and_cut import node_program
from jboost.l0.branch_and_cut.node_program import NO, OPEN, YES, CutSet, Decisions, Pool
from jboost.lp.simplex import boxes as boxed_simplex
from jboost.lp.simplex.boxes import Solution

WHOLE = 1e-4  # what is this close to a whole number is whole
_LEAST_GAIN = 1e-4  # of an answer, for products to tell apart what gains nothing on one side


class Question(NamedTuple):
    """A question, or none."""

    place: Array  # [] int32 among hypotheses, examples and splits [U + m + U // 2]
    exists: Array  # [] bool


def decided(decisions: Decisions, place: Array, answer: int) -> Decisions:
    """The decisions with the answer to one question."""
    sizes = [part.shape[0] for part in decisions]
    both = jnp.concatenate(decisions).at[place].set(jnp.asarray(answer, jnp.int8))
    return Decisions(*jnp.split(both, [sizes[0], sizes[0] + sizes[1]]))


def fractions(pool: Pool, decisions: Decisions, solution: Solution) -> Array:
    """How far each open question is from an answer, [U + m + U // 2]; 0 for those answered."""
    shares = jnp.clip(solution.values[_places(pool)], 0.0, 1.0)
    distance = jnp.minimum(shares, 1 - shares)
    return jnp.where((jnp.concatenate(decisions) == OPEN) & (distance > WHOLE), distance, 0.0)


def ask(
    pool: Pool,
    cuts: CutSet,
    decisions: Decisions,
    solution: Solution,
    goal: Array,
    *,
    num_tried: int,
    num_pivots: int,
) -> Question:
    """The question to branch on; where nothing is fractional, one that is open."""
    distance = fractions(pool, decisions, solution)
    place = loops.cond(
        jnp.any(distance > 0),
        lambda: _best(pool, cuts, decisions, solution, goal, distance, num_tried, num_pivots),
        lambda: _any_open(pool, decisions, solution),
    )
    return Question(place, jnp.any(_is_open(pool, decisions)))


def no_question(pool: Pool) -> Question:
    """None."""
    return Question(jnp.zeros((), jnp.int32), jnp.zeros((), bool))


def _places(pool: Pool) -> Array:
    num_examples, num_columns = pool.instance.margins.shape
    return jnp.concatenate(
        [
            num_columns + jnp.arange(num_columns + num_examples, dtype=jnp.int32),
            node_program.split_places(pool),
        ]
    )


def _is_open(pool: Pool, decisions: Decisions) -> Array:
    is_allowed = jnp.concatenate(
        [pool.instance.is_column, pool.instance.weights > 0, jnp.zeros_like(decisions.splits, bool)]
    )
    return is_allowed & (jnp.concatenate(decisions) == OPEN)


def _any_open(pool: Pool, decisions: Decisions, solution: Solution) -> Array:
    """A hypothesis that is voted for before others, and those before examples."""
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
    pool: Pool,
    cuts: CutSet,
    decisions: Decisions,
    solution: Solution,
    goal: Array,
    distance: Array,
    num_tried: int,
    num_pivots: int,
) -> Array:
    """The question of the largest product of what both answers gain."""
    lower, upper = node_program.bounds(pool, cuts, decisions)
    room = jnp.maximum(goal - solution.objective, 0.0)

    def score(falls: Array, rises: Array) -> Array:
        return jnp.maximum(jnp.minimum(falls, room), _LEAST_GAIN) * jnp.maximum(
            jnp.minimum(rises, room), _LEAST_GAIN
        )

    penalties = boxed_simplex.penalties(
        solution.table, lower, upper, _places(pool), solution.values
    )
    first = jnp.where(distance > 0, score(*penalties) * (1 + distance), -1.0)
    worth, tried = lax.top_k(first, min(num_tried, first.shape[0]))

    def gain(place: Array, answer: Array) -> Array:
        asked = jax.tree.map(
            lambda no, yes: jnp.where(answer == YES, yes, no),
            *(decided(decisions, place, given) for given in (NO, YES)),
        )
        found = boxed_simplex.pivot_on(
            solution.table,
            *node_program.bounds(pool, cuts, asked),
            goal=goal,
            max_pivots=num_pivots,
        )
        return found.objective - solution.objective

    answers = jnp.array([NO, YES])
    tried_gains = lax.map(
        lambda place: lax.map(lambda answer: gain(place, answer), answers), tried.astype(jnp.int32)
    )
    return tried[
        jnp.argmax(jnp.where(worth >= 0, score(tried_gains[:, 0], tried_gains[:, 1]), -1.0))
    ].astype(jnp.int32)
