"""The rounds of a node of branch and cut on (15) of Goldberg and Eckstein (2009). A round solves a
linear program, proves a bound and fixes variables with its duals, and adds the cuts that its
solution violates.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops
from jboost.base.types import Array
from jboost.l0.branch_and_cut import branching, node_program, row_cuts, triples
from jboost.l0.branch_and_cut.node_program import (
    NO,
    OPEN,
    YES,
    CutSet,
    Decisions,
    NodePool,
    NodeProof,
)
from jboost.l0.relaxation import cut_rows
from jboost.l0.relaxation.cut_rows import CutRows
from jboost.l0.votes import local_search
from jboost.lp.simplex import boxes as boxed_simplex
from jboost.lp.simplex.boxes import BoxSolution, Tableau

_MAX_PAIR_ENTRIES = 4_000_000  # pairs searched at once, as `RelaxationConfig.max_pair_entries`
_NUM_PAIRS, _NUM_MARGINS = 32, 8  # the most pair cuts and margin cuts that a round adds
_NUM_TIGHT = 96  # rows of which triples are tried, those of the least surplus
_NUM_COMBINATIONS = 32  # rows of the table whose weights on margin rows are tried for cuts
# Cuts that are violated by less are not added: the violation may be a rounding error.
_LEAST_VIOLATION = 1e-3
_LEAST_IDLE = 1e-3  # a basic cut with at least this surplus may be replaced by a new cut
_BEYOND = 1e-4  # the simplex method stops when its objective exceeds the goal by this, relative
MOST_PIVOTS = 5000


class Engine(NamedTuple):
    """The simplex table and the cuts, which are passed from one node to the next."""

    table: Tableau  # of the last program
    cuts: CutSet


class Visit(NamedTuple):
    """The state of the rounds of a node."""

    engine: Engine
    decisions: Decisions
    bound: Array  # [] lower bound on the points of the node
    solution: BoxSolution
    is_closed: Array  # [] bool
    num_new: Array  # [] int32 cuts of the last round
    num_rounds: Array  # [] int32
    # [] bool, whether the last program, and whether any, was unproven: the method ended without an
    # optimum, because a row seemed impossible to meet or the goal seemed reached, but its duals
    # prove neither, as rounding was the only reason
    is_unproven: Array
    was_unproven: Array


class Goal(NamedTuple):
    """An attained loss, and the bounds that close a node."""

    loss: Array  # []
    enough: Array  # [] a node with at least this bound has no better point
    closing: Array  # [] a node with at least this bound has no point better by the tolerance
    tolerance: Array  # []


def make_goal(pool: NodePool, loss: Array, tolerance: Array) -> Goal:
    """The goal for an attained loss and a tolerance."""
    enough = local_search.enough(loss, pool.instance.weights, _prices(pool))
    closing = jnp.where(loss < jnp.inf, loss - tolerance * jnp.maximum(loss, 1.0), loss)
    return Goal(loss, enough, jnp.minimum(enough, closing), tolerance)


def start(pool: NodePool, num_cuts: int) -> Engine:
    """An engine without cuts, with all rows basic."""
    cuts = node_program.no_cuts(pool, num_cuts)
    return Engine(
        boxed_simplex.begin(node_program.matrix(pool, cuts), node_program.objective(pool)), cuts
    )


def visit(
    pool: NodePool,
    engine: Engine,
    decisions: Decisions,
    bound: Array,
    goal: Goal,
    max_rounds: Array,
    *,
    num_triples: int = 0,
) -> Visit:
    """Runs the rounds of a node.

    Args:
      pool: of m examples and U columns.
      engine: from the last node.
      decisions: of the node.
      bound: [] known lower bound of the node.
      goal: the attained loss and the bounds that close the node.
      max_rounds: [] int32 largest number of programs; twice as many if one of them is unproven.
      num_triples: static; the most cuts from triples of rows that a round adds.
    """

    def unfinished(state: Visit) -> Array:
        goes_on = (state.num_new > 0) | state.is_unproven
        most = jnp.where(state.was_unproven, 2 * max_rounds, max_rounds)
        return ~state.is_closed & goes_on & (state.num_rounds < most)

    def with_cuts(state: Visit) -> Visit:
        rows, is_violated = _separate(pool, state.engine, state.solution, num_triples)
        engine, num_new = _insert(pool, state.engine, state.solution, rows, is_violated)
        return state._replace(engine=engine, num_new=num_new)

    def one_round(state: Visit) -> Visit:
        state = loops.cond(state.num_rounds > 0, with_cuts, lambda state: state, state)
        return _solve(pool, state, goal)

    return loops.while_loop(unfinished, one_round, _unvisited(pool, engine, decisions, bound))


def _unvisited(pool: NodePool, engine: Engine, decisions: Decisions, bound: Array) -> Visit:
    """The state before the first program."""
    lower, _ = node_program.bounds(pool, engine.cuts, decisions)
    one = jnp.ones((), jnp.int32)
    return Visit(
        engine,
        decisions,
        bound,
        boxed_simplex.unsolved(engine.table, lower),
        jnp.zeros((), bool),
        one,
        jnp.zeros_like(one),
        jnp.zeros((), bool),
        jnp.zeros((), bool),
    )


def _solve(pool: NodePool, state: Visit, goal: Goal) -> Visit:
    """Solves one program, proves its bound and fixes variables.

    After an unproven program the next one starts from the first table, whose pivots take another
    path.
    """
    engine, decisions = state.engine, state.decisions
    unit = pool.instance.unit
    beyond = (goal.loss + _BEYOND * jnp.maximum(goal.loss, 1.0)) / unit
    lower, upper = node_program.bounds(pool, engine.cuts, decisions)
    rows, costs = node_program.matrix(pool, engine.cuts), node_program.objective(pool)
    solution = boxed_simplex.solve(
        engine.table, rows, costs, lower, upper, goal=beyond, max_pivots=MOST_PIVOTS
    )
    proof = node_program.prove(pool, engine.cuts, decisions, node_program.duals(pool, solution))
    proof = jax.tree.map(lambda one: jnp.where(jnp.isnan(one), -jnp.inf, one), proof)
    is_empty = ~pool.domain.has_vote(node_program.may_be_used(pool, decisions))
    attainable = local_search.round_up(
        jnp.where(is_empty, jnp.inf, proof.bound), pool.instance.weights, _prices(pool)
    )
    bound = jnp.maximum(state.bound, attainable)
    is_closed = bound >= goal.closing
    is_unproven = solution.has_ended & ~solution.is_optimal & ~is_closed
    table = jax.tree.map(
        lambda first, last: jnp.where(is_unproven, first, last),
        boxed_simplex.begin(rows, costs),
        solution.table,
    )
    return Visit(
        Engine(table, engine.cuts),
        _fixed(decisions, proof, goal),
        bound,
        solution,
        is_closed,
        state.num_new,
        state.num_rounds + 1,
        is_unproven,
        state.was_unproven | is_unproven,
    )


def _prices(pool: NodePool) -> Array:
    return jnp.where(pool.instance.is_column, pool.instance.costs, 0.0)


def _fixed(decisions: Decisions, proof: NodeProof, goal: Goal) -> Decisions:
    """Reduced-cost fixing: an open decision is made if the other value has no better point than
    the goal.
    """

    def fix(given: Array, if_yes: Array, if_no: Array) -> Array:
        forced = jnp.where(
            if_yes >= goal.enough, NO, jnp.where(if_no >= goal.enough, YES, OPEN)
        ).astype(given.dtype)
        return jnp.where(given == OPEN, forced, given)

    columns = fix(decisions.columns, proof.if_used, proof.if_unused)
    return decisions._replace(
        columns=columns, examples=fix(decisions.examples, proof.if_given_up, proof.if_kept)
    )


def _separate(
    pool: NodePool, engine: Engine, solution: BoxSolution, num_triples: int
) -> tuple[CutRows, Array]:
    """Candidate cuts [C], and whether the solution violates them, [C] bool."""
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
    slack = pool.domain.big(instance) + instance.margin
    num_levels = pool.domain.num_levels(instance.costs.shape[0])
    levels, violations = row_cuts.best_levels(
        instance, slack, num_levels, weights, selected, slacks
    )
    worst, chosen = lax.top_k(violations, min(_NUM_MARGINS, violations.shape[0]))
    of_pairs, of_margins = (
        cut_rows.from_pairs(instance, pairs),
        row_cuts.from_margins(instance, slack, weights[chosen], levels[chosen]),
    )
    found = [of_pairs, of_margins]
    violations = [missing, worst]
    if num_triples > 0:
        of_triples, excess = _from_triples(engine.cuts, selected, slacks, num_triples)
        found, violations = [*found, of_triples], [*violations, excess]
    rows = CutRows(*(jnp.concatenate(parts) for parts in zip(*found, strict=True)))
    is_violated = jnp.concatenate(violations) > _LEAST_VIOLATION
    return rows, is_violated & (
        1 - rows.reached(selected, slacks) > _LEAST_VIOLATION
    ) & row_cuts.are_new(rows)


def _from_triples(
    cuts: CutSet, selected: Array, slacks: Array, num_triples: int
) -> tuple[CutRows, Array]:
    """The cuts of the triples of rows that mu and xi violate most, and their violations. Rows with
    entries 0 and 1 alone count, such as pair cuts, and of these the tightest.
    """
    both, point = jnp.concatenate(cuts.rows, axis=1), jnp.concatenate([selected, slacks])
    is_whole = cuts.is_used & jnp.all((both == 0) | (both == 1), axis=1)
    surplus = jnp.where(is_whole, cuts.rows.reached(selected, slacks) - 1, jnp.inf)
    _, chosen = lax.top_k(-surplus, min(_NUM_TIGHT, surplus.shape[0]))
    rows, is_row = jnp.where(is_whole[chosen][:, None], both[chosen], 0.0), is_whole[chosen]
    of_triples, violations = triples.separate(rows, is_row, point)
    worst, best = lax.top_k(violations, min(num_triples, violations.shape[0]))
    halved = triples.rows_of(rows, of_triples[best]) / 2  # at least 1 in place of 2: exact
    halves = jnp.split(halved, [selected.shape[0]], axis=1)
    return CutRows(*halves), worst / 2


def _combinations(pool: NodePool, solution: BoxSolution) -> Array:
    """The weights [2 C, m] of the margin rows in rows of the table, and their negatives. The rows
    are those of the variables farthest from integers.
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
    pool: NodePool, engine: Engine, solution: BoxSolution, rows: CutRows, is_wanted: Array
) -> tuple[Engine, Array]:
    """Writes cuts [C] into free slots and over idle cuts, as far as there are any. Returns the
    engine and the number of cuts written.
    """
    cuts, capacity = engine.cuts, engine.cuts.is_used.shape[0]
    indices = node_program.cut_places(pool, capacity)
    is_basic = boxed_simplex.positions(engine.table)[indices] >= engine.table.slots.shape[0]
    surplus = jnp.where(cuts.is_used, solution.values[indices] - 1, jnp.inf)
    surplus = jnp.where(is_basic & (surplus > _LEAST_IDLE), surplus, -jnp.inf)
    num_rows = is_wanted.shape[0]
    largest, slots = lax.top_k(surplus, min(num_rows, capacity))
    rank = jnp.cumsum(is_wanted) - 1
    has_slot = (
        is_wanted
        & (rank < largest.shape[0])
        & (jnp.append(largest, -jnp.inf)[jnp.minimum(rank, largest.shape[0])] > 0)
    )
    slot = jnp.where(has_slot, slots[jnp.clip(rank, 0, largest.shape[0] - 1)], capacity)
    after = CutSet(
        CutRows(
            *(old.at[slot].set(new, mode="drop") for old, new in zip(cuts.rows, rows, strict=True))
        ),
        cuts.is_used.at[slot].set(True, mode="drop"),
    )
    index = jnp.append(indices, jnp.iinfo(jnp.int32).max)[slot]
    table = boxed_simplex.replace(engine.table, node_program.cut_rows(rows), index)
    return engine._replace(table=table, cuts=after), jnp.sum(has_slot, dtype=jnp.int32)
