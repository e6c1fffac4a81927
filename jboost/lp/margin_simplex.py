"""Formulation (3) of paper 001 by a simplex method: vertices, warm starts from a basis, a pivot for the cost of three passes over the table.

    maximise  rho + sum_i D_i min(g_i, 0)  over votes lambda >= 0 of sum one and rho,   g_i = (A lambda)_i - rho

Votes and margins g are alike: each pays D for what it is below 0, a vote without limit. n of them, in *slots*, are 0, the other m are *basic* and
linear in those: the table. A step lets one slot rise, or fall if a margin stands there, along the concave line to its peak, past margins that
change sign on the way (the long-step rule: Fourer 1985, "A simplex algorithm for piecewise-linear programming I"), where a basic takes the slot.
The slot is that of the steepest edge (Goldfarb, Reid 1977). Every vertex on the way is allowed, so there is no first phase, and new hypotheses are
new slots at 0. Margins are raised by tiny unlike amounts, which keeps steps from having length 0.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, loops, numerics, reduce
from jboost.base.numerics import times
from jboost.base.types import Array
from jboost.lp import break_points

_RAISED = 0.75  # by which power of the rounding unit margins are raised, and steeper than what a slope must be
_LEAST_PIVOT = 0.6  # the same for entries of the table to divide by
_LEAST_GAIN = 0.5  # a new table has to leave so much of the gap, or less
_NEAR, _MOST_CORRECTIONS = 1e-3, 3  # what an inverse may miss to begin with, and how often it is corrected until it misses no more than rounding
_LEAST_VOTE = 0.5  # by which power of the rounding unit votes may be below 0 to begin with
_STEEP = 0.01  # slopes this far below the tolerance are flat


@dataclasses.dataclass(frozen=True)
class SimplexConfig:
    """Static sizes of the simplex method."""

    max_iterations: int = 50_000
    refresh_every: int = 500  # pivots after which the table is worked out anew, to be rid of rounding

    def __post_init__(self) -> None:
        check.count("config.max_iterations", self.max_iterations, low=1)
        check.count("config.refresh_every", self.refresh_every, low=1)

    @property
    def at_once(self) -> int:
        """Pivots between two questions whether there are more to come."""
        return min(self.refresh_every, self.max_iterations)


class Basis(NamedTuple):
    """Which votes and margins are 0: vote j is j, the margin of example i is n + i."""

    slots: Array  # [n] int32
    basics: Array  # [m] int32
    inverse: Array  # [n + 1, n + 1] votes and rho, in columns, for a unit of each slot, and last for votes of sum one


class Solution(NamedTuple):
    """A vertex, and the example weights that its slopes are."""

    votes: Array  # [n]
    example_weights: Array  # [m]
    basis: Basis
    num_iterations: Array  # [] int32


class _Program(NamedTuple):
    columns: Array  # [n, m]
    is_used: Array  # [n] bool
    caps: Array  # [n + m] what each vote and margin pays below 0
    raised: Array  # [m] by how much margins are raised
    flat: Array  # [] slopes of at most this are none


class _Table(NamedTuple):
    """The basics, and rho as the last of them, as linear functions of the slots."""

    entries: Array  # [n + 1, m + 1] the last row holds the values where all slots are 0
    slots: Array  # [n] int32
    basics: Array  # [m] int32
    slot_caps: Array  # [n]
    basic_caps: Array  # [m + 1] one for rho
    is_below: Array  # [m + 1] bool, a margin that is negative; rho
    norms: Array  # [n + 1] of the rows, squared, and one more for the slot itself
    has_moved: Array  # [] bool, False at the optimum, and where rounding hides where a step ends


class _Run(NamedTuple):
    """Where the method stands between two tables that are worked out anew."""

    basis: Basis
    gap: Array  # [] the least so far
    best: tuple[Array, Array, Basis]  # votes, example weights and basis where it was met
    num_iterations: Array  # [] int32
    is_settled: Array  # [] bool


def nothing(num_examples: int, capacity: int, dtype: Any) -> Basis:
    """No basis: the method begins with a single hypothesis."""
    slots = jnp.arange(capacity, dtype=jnp.int32)
    basics = capacity + jnp.arange(num_examples, dtype=jnp.int32)
    return Basis(slots, basics, jnp.zeros((capacity + 1, capacity + 1), dtype))


def grown(basis: Basis, num_new: int) -> Basis:
    """The basis with so many votes more, which stand in slots of their own."""
    num_votes = basis.slots.shape[0]
    slots, basics = (jnp.where(places < num_votes, places, places + num_new) for places in (basis.slots, basis.basics))
    new = num_votes + jnp.arange(num_new, dtype=jnp.int32)
    inverse = jnp.eye(num_votes + 1 + num_new, dtype=basis.inverse.dtype)
    old = jnp.r_[:num_votes, num_votes + num_new]
    return Basis(jnp.concatenate([slots, new]), basics, inverse.at[jnp.ix_(old, old)].set(basis.inverse))


def solve(columns: Array, is_used: Array, caps: Array, *, basis: Basis | None, tolerance: Array, config: SimplexConfig) -> Solution:
    """The optimal vertex, as well as rounding lets it be found.

    Args:
      columns: [n, m] y_i h_j(x_i), 0 where an example only pads.
      is_used: [n] bool, at least one.
      caps: [m] D_i, 0 where an example only pads.
      basis: to begin with, of the same sizes, its votes in use; None, `nothing`, or what is no vertex of this program, to begin with the hypothesis
        of the largest edge. With None less is compiled.
      tolerance: [] for the gap.
      config: static.
    """
    dtype, (num_votes, num_examples) = columns.dtype, columns.shape
    rounding = jnp.finfo(dtype).eps ** _RAISED
    program = _Program(
        columns,
        is_used,
        jnp.concatenate([jnp.full((num_votes,), jnp.inf, dtype), jnp.minimum(caps, 1.0)]),
        rounding * numerics.spread(num_examples, dtype),
        jnp.maximum(_STEEP * tolerance, rounding).astype(dtype),
    )
    basis, margins = _first_basis(program) if basis is None else _begun(program, basis)

    def unfinished(run: _Run) -> Array:
        return ~run.is_settled & (run.num_iterations + config.at_once <= config.max_iterations)

    def work(run: _Run) -> _Run:
        basis, margins_now = loops.cond(run.num_iterations > 0, lambda old: _corrected(program, old), lambda old: (old, margins), run.basis)
        is_free = (basis.slots >= num_votes) | is_used[jnp.minimum(basis.slots, num_votes - 1)]
        pivot = functools.partial(_pivot, is_free, program.flat)
        table, num_tries = loops.bounded_loop(pivot, lambda now: now.has_moved, _table(program, basis, margins_now), max_checks=config.at_once)
        num_pivots = num_tries - ~table.has_moved
        basis = _with_inverse(program, table)
        gap = _gap(program, table)
        ends = ~table.has_moved & ~(gap < _LEAST_GAIN * run.gap)
        is_settled = (num_pivots == 0) | (gap <= tolerance) | ends
        best = jax.tree.map(lambda new, old: jnp.where(gap < run.gap, new, old), (*_vertex(table), basis), run.best)
        return _Run(basis, jnp.minimum(gap, run.gap), best, run.num_iterations + num_pivots, is_settled)

    nowhere = jnp.zeros((num_votes,), dtype), jnp.zeros((num_examples,), dtype), basis
    start = _Run(basis, jnp.full((), jnp.inf, dtype), nowhere, jnp.zeros((), jnp.int32), jnp.zeros((), bool))
    last = loops.while_loop(unfinished, work, start)
    votes, weights, basis = last.best
    return Solution(votes, weights, basis, last.num_iterations)


def _begun(program: _Program, basis: Basis) -> tuple[Basis, Array]:
    """A basis from elsewhere where it is a vertex here, else the first; and its margins."""
    has_votes = reduce.any_true(basis.basics < program.is_used.shape[0])
    basis, is_vertex = loops.cond(has_votes, lambda: _tried(program, basis), lambda: (basis, has_votes))
    return loops.cond(is_vertex, lambda: (basis, _margins(program, basis)), lambda: _first_basis(program))


def _first_basis(program: _Program) -> tuple[Basis, Array]:
    """The single hypothesis of the largest edge, with rho its least margin; and its margins [n + 1, m]."""
    num_votes, num_examples = program.columns.shape
    caps = program.caps[num_votes:]
    edges = jnp.where(program.is_used, times(program.columns, caps), -jnp.inf)
    vote = lax.argmax(edges, 0, jnp.int32)
    margin = lax.argmin(jnp.where(caps > 0, program.columns[vote] + program.raised, jnp.inf), 0, jnp.int32)
    votes, examples = jnp.arange(num_votes, dtype=jnp.int32), jnp.arange(num_examples, dtype=jnp.int32)
    others = jnp.where(votes == vote, 0.0, -1.0)
    lone = jnp.concatenate([others, jnp.ones((1,), others.dtype)])
    kept = jnp.concatenate([jnp.diag(-others), jnp.zeros((1, num_votes), others.dtype)])
    by_votes = kept + jnp.where(votes == vote, 1.0, 0.0)[None, :] * lone[:, None]
    rho = times(by_votes, program.columns[:, margin]) + jnp.concatenate([-1 - others, jnp.zeros((1,), others.dtype)])
    basis = Basis(
        slots=jnp.where(votes == vote, num_votes + margin, votes),
        basics=jnp.where(examples == margin, vote, num_votes + examples),
        inverse=jnp.concatenate([by_votes, rho[:, None]], axis=1),
    )
    own = jnp.concatenate([jnp.where((votes == vote)[:, None], 0.0, program.columns), jnp.zeros((1, num_examples), lone.dtype)])
    return basis, own + lone[:, None] * program.columns[vote][None, :] - rho[:, None]


def _margins(program: _Program, basis: Basis) -> Array:
    """The margins, less rho, for a unit of each slot, and last for votes of sum one, [n + 1, m]."""
    return times(basis.inverse[:, :-1], program.columns) - basis.inverse[:, -1:]


def _equations(program: _Program, basis: Basis) -> Array:
    """K [n + 1, n + 1]: the slots, and last the sum of the votes, by votes and rho."""
    num_votes, num_examples = program.columns.shape
    holds_vote = basis.slots < num_votes
    example = jnp.clip(basis.slots - num_votes, 0, num_examples - 1)
    is_vote = (basis.slots[:, None] == jnp.arange(num_votes)[None, :]).astype(program.columns.dtype)
    rows = jnp.where(holds_vote[:, None], is_vote, program.columns[:, example].T)
    rows = jnp.concatenate([rows, jnp.ones((1, num_votes), rows.dtype)])
    rho = jnp.concatenate([jnp.where(holds_vote, 0.0, -1.0), jnp.zeros((1,))]).astype(rows.dtype)
    return jnp.concatenate([rows, rho[:, None]], axis=1)


def _corrected(program: _Program, basis: Basis) -> tuple[Basis, Array]:
    """A basis whose inverse X is X (2 - K X) instead: that squares its error, and takes new votes in without one; and its margins."""
    reached = times(basis.inverse, _equations(program, basis).T)
    basis = basis._replace(inverse=2 * basis.inverse - times(reached, basis.inverse))
    return basis, _margins(program, basis)


def _tried(program: _Program, basis: Basis) -> tuple[Basis, Array]:
    """A basis from elsewhere, corrected, and whether its inverse is one here, and no vote negative, but for rounding."""
    equations, eps = _equations(program, basis).T, jnp.finfo(basis.inverse.dtype).eps
    unit = jnp.eye(equations.shape[0], dtype=equations.dtype)

    def correct(state: tuple[Array, Array]) -> tuple[Array, Array]:
        inverse, missed = state
        inverse = inverse - times(missed, inverse)
        return inverse, times(inverse, equations) - unit

    def is_near(state: tuple[Array, Array]) -> Array:
        missed = reduce.largest(jnp.abs(state[1]), axis=(0, 1))
        return (missed > eps**_RAISED) & (missed <= _NEAR)

    first = correct((basis.inverse, times(basis.inverse, equations) - unit))
    (inverse, missed), _ = loops.bounded_loop(correct, is_near, first, max_checks=_MOST_CORRECTIONS)
    votes = times(jnp.concatenate([-_lift(program, basis.slots), jnp.ones((1,), missed.dtype)]), inverse[:, :-1])
    return basis._replace(inverse=inverse), (reduce.largest(jnp.abs(missed), axis=(0, 1)) <= _NEAR) & (reduce.least(votes) >= -(eps**_LEAST_VOTE))


def _table(program: _Program, basis: Basis, margins: Array) -> _Table:
    num_votes = program.columns.shape[0]
    votes, rho = basis.inverse[:, :-1], basis.inverse[:, -1:]
    entries = jnp.concatenate([jnp.concatenate([votes, margins], axis=1)[:, basis.basics], rho], axis=1)
    one = jnp.ones((1,), rho.dtype)
    values = times(jnp.concatenate([-_lift(program, basis.slots), one]), entries) + jnp.concatenate([_lift(program, basis.basics), 0 * one])
    entries = entries.at[-1].set(values)
    slot_caps, basic_caps = program.caps[basis.slots], jnp.concatenate([program.caps[basis.basics], one])
    is_below = jnp.append((values[:-1] < 0) & (basis.basics >= num_votes), True)
    norms = 1 + times(entries * entries, jnp.ones_like(basic_caps))
    return _Table(entries, basis.slots, basis.basics, slot_caps, basic_caps, is_below, norms, reduce.any_true(is_below))


def _lift(program: _Program, places: Array) -> Array:
    """By how much votes (not at all) and margins are raised."""
    num_votes, num_examples = program.columns.shape
    return jnp.where(places < num_votes, 0.0, program.raised[jnp.clip(places - num_votes, 0, num_examples - 1)])


def _with_inverse(program: _Program, table: _Table) -> Basis:
    """The basis of a table, with the inverse that the table holds."""
    num_votes = program.columns.shape[0]
    values = table.entries[-1] + times(_lift(program, table.slots), table.entries[:-1])
    linear = jnp.concatenate([table.entries[:-1], values[None, :]])
    votes = (jnp.append(table.slots, -1)[:, None] == jnp.arange(num_votes)[None, :]).astype(linear.dtype)
    votes = votes.at[:, jnp.where(table.basics < num_votes, table.basics, num_votes)].set(linear[:, :-1], mode="drop")
    return Basis(table.slots, table.basics, jnp.concatenate([votes, linear[:, -1:]], axis=1))


def _slopes(table: _Table) -> Array:
    """What the objective gains where a slot rises, [n + 1]."""
    return times(table.entries, jnp.where(table.is_below, table.basic_caps, 0.0))


def _pivot(is_free: Array, flat: Array, table: _Table) -> _Table:
    """The slot of the steepest edge leaves 0, and a basic takes its place; where no edge rises, nothing changes."""
    entries, slopes = table.entries, _slopes(table)
    slot, is_steep = _steepest(slopes, table.slot_caps, table.norms, is_free, flat)
    gain, rises = _gains(slopes[slot], table.slot_caps[slot])
    row = entries[slot]
    basic, is_passed, is_lost = _peak(jnp.where(rises, row, -row)[:-1], entries[-1, :-1], table.is_below[:-1], table.basic_caps[:-1], gain, flat)
    moves = is_steep & ~is_lost

    nothing = jnp.zeros_like(row), jnp.zeros_like(entries[:, 0])
    row, column = loops.cond(moves, lambda: (row, entries[:, basic]), lambda: nothing)  # as a branch: else the table is copied before it changes
    is_slot, is_basic = (jnp.arange(size) == jnp.where(moves, place, -1) for size, place in zip(entries.shape, (slot, basic), strict=True))
    ratios = jnp.where(is_slot, 1.0, -column) / jnp.where(moves, row[basic], 1.0)
    entries = jnp.where(is_basic[None, :], ratios[:, None], jnp.where(is_slot[:, None], 0.0, entries) + ratios[:, None] * row[None, :])
    alike = times(entries, jnp.where(is_basic, 0.0, row))
    norms = jnp.where(is_slot, 1.0, table.norms - column**2) + ratios * (2 * alike - ratios * (table.norms[slot] - row[basic] ** 2 - 2))
    return _Table(
        entries,
        jnp.where(is_slot[:-1], table.basics[basic], table.slots),
        jnp.where(is_basic[:-1], table.slots[slot], table.basics),
        jnp.where(is_slot[:-1], table.basic_caps[basic], table.slot_caps),
        jnp.where(is_basic, table.slot_caps[slot], table.basic_caps),
        jnp.where(is_basic, ~rises, table.is_below ^ (jnp.append(is_passed, False) & moves)),
        jnp.maximum(norms, 1 + ratios**2),
        moves,
    )


def _gains(slopes: Array, caps: Array) -> tuple[Array, Array]:
    """What the objective gains for a unit of a slot, and whether that is up."""
    falling = -slopes - caps
    return jnp.maximum(slopes, falling), slopes >= falling


def _steepest(slopes: Array, caps: Array, norms: Array, is_free: Array, flat: Array) -> tuple[Array, Array]:
    """The slot along which the objective gains most for the length of the step, and whether that is anything."""
    gains, _ = _gains(slopes[:-1], caps)
    slot, score = numerics.first_greatest(jnp.where(is_free & (gains > flat), gains * gains / norms[:-1], -1.0))
    return slot, score > 0


def _peak(changes: Array, values: Array, is_below: Array, caps: Array, gain: Array, flat: Array) -> tuple[Array, Array, Array]:
    """The basic that takes the slot [], those passed on the way [m], and whether none stands in the way []."""
    sizes = jnp.abs(changes)
    turns = jnp.where(is_below, changes, -changes) > jnp.finfo(sizes.dtype).eps ** _LEAST_PIVOT
    lengths = jnp.where(turns, jnp.maximum(jnp.where(is_below, -values, values), 0.0) / jnp.where(turns, sizes, 1.0), jnp.inf)
    drops = jnp.where(turns, caps * sizes, 0.0)
    length, _ = break_points.peak(lengths, drops, gain, flat)
    basic, _ = numerics.first_greatest(jnp.where((lengths == length) & turns, sizes, -1.0))
    return basic, lengths < length, length == jnp.inf


def _vertex(table: _Table) -> tuple[Array, Array]:
    """Votes [n] and example weights [m]."""
    num_votes = table.slots.shape[0]
    in_slots = jnp.where(table.slots < num_votes, 0.0, jnp.clip(-_slopes(table)[:-1], 0.0, table.slot_caps))
    in_basics = jnp.where(table.is_below, table.basic_caps, 0.0)[:-1]
    values = jnp.concatenate([jnp.zeros_like(in_slots), table.entries[-1, :-1]])
    by_place = jnp.stack([values, jnp.concatenate([in_slots, in_basics])], axis=1)
    places = jnp.concatenate([table.slots, table.basics])
    ordered = jnp.zeros_like(by_place).at[places].set(by_place, unique_indices=True)
    return jnp.maximum(ordered[:num_votes, 0], 0.0), ordered[num_votes:, 1]


def _gap(program: _Program, table: _Table) -> Array:
    """Between what the example weights allow and what the votes are worth, worked out from the columns."""
    votes, weights = _vertex(table)
    margins, rho = times(votes, program.columns), table.entries[-1, -1]
    value = rho - numerics.precise_sum(program.caps[votes.shape[0] :] * jnp.maximum(rho - margins, 0.0))
    edges = jnp.where(program.is_used, times(program.columns, weights), -jnp.inf)
    return reduce.largest(edges) - value + jnp.abs(numerics.precise_sum(weights) - 1) + jnp.abs(numerics.precise_sum(votes) - 1)
