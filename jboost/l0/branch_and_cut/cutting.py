"""The rounds of a node of branch and cut on (15) of paper 001: a program, what its duals prove and
settle, and the cuts that its point violates.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops
from jboost.base.types import Array
from jboost.l0.branch_and_cut import branching, node_program, row_cuts
from jboost.l0.branch_and_cut.node_program import NO, OPEN, YES, CutSet, Decisions, Pool, Proof
from jboost.l0.branch_and_cut.row_cuts import Rows
from jboost.l0.votes import local_search
from jboost.lp.simplex import boxes as boxed_simplex
from jboost.lp.simplex.boxes import Solution, Table

_MAX_PAIR_ENTRIES = 4_000_000
_NUM_PAIRS, _NUM_MARGINS = 32, 8  # cuts of a round, of either kind
_NUM_COMBINATIONS = 32  # rows of the table whose weights on margins are looked at
_LEAST_VIOLATION = 1e-3
_LEAST_IDLE = 1e-3  # what a cut is to have left over to make room for another
_BEYOND = 1e-4  # relative, by which a program is to pass the goal before it ends
MOST_PIVOTS = 5000


class Engine(NamedTuple):
    """What one node leaves to the next."""

    table: Table  # of the last program
    cuts: CutSet


class Visit(NamedTuple):
    """Where the rounds of a node stand."""

    engine: Engine
    decisions: Decisions
    bound: Array  # [] no point of the node loses less
    solution: Solution
    is_closed: Array  # [] bool
    num_new: Array  # [] int32 cuts of the last round
    num_rounds: Array  # [] int32


class Goal(NamedTuple):
    """A loss that is attained, and what is enough of a bound."""

    loss: Array  # []
    enough: Array  # [] a bound from here up cannot be bettered
    closing: Array  # [] a bound from here up need not be
    tolerance: Array  # []


def make_goal(pool: Pool, loss: Array, tolerance: Array) -> Goal:
    """Where bounds are to get."""
    enough = local_search.enough(loss, pool.instance.weights, _prices(pool))
    closing = jnp.where(loss < jnp.inf, loss - tolerance * jnp.maximum(loss, 1.0), loss)
    return Goal(loss, enough, jnp.minimum(enough, closing), tolerance)


def start(pool: Pool, num_cuts: int) -> Engine:
    """No cuts, and all rows basic."""
    cuts = node_program.no_cuts(pool, num_cuts)
    return Engine(
        boxed_simplex.begin(node_program.matrix(pool, cuts), node_program.objective(pool)), cuts
    )


def visit(
    pool: Pool, engine: Engine, decisions: Decisions, bound: Array, goal: Goal, max_rounds: Array
) -> Visit:
    """The node after its rounds.

    Args:
      pool: of m examples and U columns.
      engine: as the last node left it.
      decisions: of the node.
      bound: [] known of it.
      goal: what is to be shown.
      max_rounds: [] int32 programs.
    """

    def unfinished(state: Visit) -> Array:
        return ~state.is_closed & (state.num_new > 0) & (state.num_rounds < max_rounds)

    def one_round(state: Visit) -> Visit:
        rows, is_violated = _separate(pool, state.solution)
        engine, num_new = _insert(pool, state.engine, state.solution, rows, is_violated)
        after = _solve(pool, engine, state.decisions, state.bound, goal)
        return after._replace(num_new=num_new, num_rounds=state.num_rounds + 1)

    first = _solve(pool, engine, decisions, bound, goal)
    return loops.while_loop(unfinished, one_round, first)


def _solve(pool: Pool, engine: Engine, decisions: Decisions, bound: Array, goal: Goal) -> Visit:
    """One program."""
    unit = pool.instance.unit
    beyond = (goal.loss + _BEYOND * jnp.maximum(goal.loss, 1.0)) / unit
    lower, upper = node_program.bounds(pool, engine.cuts, decisions)
    rows, costs = node_program.matrix(pool, engine.cuts), node_program.objective(pool)
    solution = boxed_simplex.solve(
        engine.table, rows, costs, lower, upper, goal=beyond, max_pivots=MOST_PIVOTS
    )
    proof = node_program.prove(pool, engine.cuts, decisions, node_program.duals(pool, solution))
    proof = jax.tree.map(lambda one: jnp.where(jnp.isnan(one), -jnp.inf, one), proof)
    is_empty = ~jnp.any(node_program.may_be_used(pool, decisions))
    attainable = local_search.round_up(
        jnp.where(is_empty, jnp.inf, proof.bound), pool.instance.weights, _prices(pool)
    )
    bound = jnp.maximum(bound, attainable)
    return Visit(
        Engine(solution.table, engine.cuts),
        _settled(decisions, proof, goal),
        bound,
        solution,
        bound >= goal.closing,
        jnp.ones((), jnp.int32),
        jnp.ones((), jnp.int32),
    )


def _prices(pool: Pool) -> Array:
    return jnp.where(pool.instance.is_column, pool.instance.costs, 0.0)


def _settled(decisions: Decisions, proof: Proof, goal: Goal) -> Decisions:
    """The decisions with those that nothing better than the goal can be without."""

    def settle(given: Array, if_yes: Array, if_no: Array) -> Array:
        answered = jnp.where(
            if_yes >= goal.enough, NO, jnp.where(if_no >= goal.enough, YES, OPEN)
        ).astype(given.dtype)
        return jnp.where(given == OPEN, answered, given)

    columns = settle(decisions.columns, proof.if_used, proof.if_unused)
    return decisions._replace(
        columns=columns, examples=settle(decisions.examples, proof.if_given_up, proof.if_kept)
    )


def _separate(pool: Pool, solution: Solution) -> tuple[Rows, Array]:
    """Cuts [C], and whether the point violates them."""
    instance = pool.instance
    _, selected, slacks = node_program.variables(pool, solution)
    pairs, missing = row_cuts.violated_pairs(
        instance, selected, slacks, most=_NUM_PAIRS, max_entries=_MAX_PAIR_ENTRIES
    )
    weights = row_cuts.usable(
        jnp.concatenate(
            [node_program.duals(pool, solution).margins[None, :], _combinations(pool, solution)]
        )
    )
    levels, violations = row_cuts.best_levels(instance, weights, selected, slacks)
    worst, chosen = lax.top_k(violations, min(_NUM_MARGINS, violations.shape[0]))
    of_pairs, of_margins = (
        row_cuts.from_pairs(instance, pairs),
        row_cuts.from_margins(instance, weights[chosen], levels[chosen]),
    )
    rows = Rows(*(jnp.concatenate(both) for both in zip(of_pairs, of_margins, strict=True)))
    is_violated = jnp.concatenate([missing, worst]) > _LEAST_VIOLATION
    return rows, is_violated & (
        1 - rows.reached(selected, slacks) > _LEAST_VIOLATION
    ) & row_cuts.are_new(rows)


def _combinations(pool: Pool, solution: Solution) -> Array:
    """The weights [2 C, m] that rows of the table give the margin rows, and their opposites: rows
    of what is least whole.
    """
    num_examples, num_columns = pool.instance.margins.shape
    table, num_slots = solution.table, solution.table.slots.shape[0]
    stands = boxed_simplex.positions(table)
    values = solution.values[num_columns:num_slots]
    distance = jnp.where(
        stands[num_columns:num_slots] >= num_slots, jnp.minimum(values, 1 - values), -1.0
    )
    worth, chosen = lax.top_k(distance, min(_NUM_COMBINATIONS, distance.shape[0]))
    rows = table.entries[jnp.maximum(stands[num_columns:num_slots][chosen] - num_slots, 0)]
    margins = stands[num_slots : num_slots + num_examples]
    weights = jnp.where(
        margins[None, :] < num_slots, rows[:, jnp.minimum(margins, num_slots - 1)], 0.0
    )
    weights = jnp.where(
        (worth > branching.WHOLE)[:, None] & (pool.instance.weights > 0)[None, :], weights, 0.0
    )
    return jnp.concatenate([weights, -weights])


def _insert(
    pool: Pool, engine: Engine, solution: Solution, rows: Rows, is_wanted: Array
) -> tuple[Engine, Array]:
    """Cuts [C] in the place of those that are idle, as far as there are such; and how
    many came in.
    """
    cuts, capacity = engine.cuts, engine.cuts.is_used.shape[0]
    places = node_program.cut_places(pool, capacity)
    is_basic = boxed_simplex.positions(engine.table)[places] >= engine.table.slots.shape[0]
    idle = jnp.where(cuts.is_used, solution.values[places] - 1, jnp.inf)
    idle = jnp.where(is_basic & (idle > _LEAST_IDLE), idle, -jnp.inf)
    num_rows = is_wanted.shape[0]
    room, slots = lax.top_k(idle, min(num_rows, capacity))
    rank = jnp.cumsum(is_wanted) - 1
    has_room = (
        is_wanted
        & (rank < room.shape[0])
        & (jnp.append(room, -jnp.inf)[jnp.minimum(rank, room.shape[0])] > 0)
    )
    slot = jnp.where(has_room, slots[jnp.clip(rank, 0, room.shape[0] - 1)], capacity)
    after = CutSet(
        Rows(
            *(old.at[slot].set(new, mode="drop") for old, new in zip(cuts.rows, rows, strict=True))
        ),
        cuts.is_used.at[slot].set(True, mode="drop"),
    )
    place = jnp.append(places, jnp.iinfo(jnp.int32).max)[slot]
    table = boxed_simplex.replace(engine.table, node_program.cut_rows(rows), place)
    return engine._replace(table=table, cuts=after), jnp.sum(has_room, dtype=jnp.int32)
