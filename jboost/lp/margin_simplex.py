"""Formulation (3) of paper 001 by a simplex method: vertices, warm starts from a basis, a pivot for the cost of two passes over the table.

    maximise  rho + sum_i D_i min(g_i, 0)  over votes lambda >= 0 of sum one and rho,   g_i = (A lambda)_i - rho

Votes and margins g are alike: each pays D for what it is below 0, a vote without limit. n of them, in *slots*, are 0, the other m are *basic* and
linear in those: the table. A step lets one slot rise, or fall if a margin stands there, along the concave line to its peak, past margins that
change sign on the way (the long-step rule: Fourer 1985, "A simplex algorithm for piecewise-linear programming I"), where a basic takes the slot.
Slots are chosen by devex prices (Harris 1973). Every vertex on the way is allowed, so there is no first phase, and new hypotheses are new slots at 0.
Margins are raised by tiny unlike amounts, which keeps steps from having length 0.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, loops, numerics
from jboost.base.types import Array

_RAISED = 0.75  # by which power of the rounding unit margins are raised, and steeper than what a slope must be
_LEAST_PIVOT = 0.6  # the same for entries of the table to divide by
_LEAST_GAIN = 0.5  # a new table has to leave so much of the gap, or less
_NEAR = 1e-3  # what an inverse and votes may miss to begin with
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
    basis: Basis
    is_below: Array  # [m] bool, a margin that is negative
    slot_caps: Array  # [n]
    basic_caps: Array  # [m]
    prices: Array  # [n] devex
    slopes: Array  # [n] of the objective where a slot rises
    num_pivots: Array  # [] int32 since the table was worked out
    is_lost: Array  # [] bool, rounding hides where a step ends


class _Run(NamedTuple):
    """Where the method stands between two tables that are worked out anew."""

    basis: Basis
    gap: Array  # [] the least so far
    best: tuple[Array, Array, Basis]  # votes, example weights and basis where it was met
    num_iterations: Array  # [] int32
    is_settled: Array  # [] bool


def _product(left: Array, right: Array) -> Array:
    return jnp.matmul(left, right, precision=lax.Precision.HIGHEST)


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
    basis = _first_basis(program) if basis is None else _begun(program, basis)

    def unfinished(run: _Run) -> Array:
        return ~run.is_settled & (run.num_iterations + config.at_once <= config.max_iterations)

    def work(run: _Run) -> _Run:
        table = _table(program, lax.cond(run.num_iterations > 0, lambda old: _corrected(program, old), lambda old: old, run.basis))
        table, _ = loops.bounded_loop(lambda now: _pivot(program, now), lambda now: _is_steep(program, now), table, max_checks=config.at_once)
        basis = _with_inverse(program, table)
        gap = _gap(program, table)
        ends = ~_is_steep(program, table) & ~(gap < _LEAST_GAIN * run.gap)
        is_settled = (table.num_pivots == 0) | (gap <= tolerance) | ends
        best = jax.tree.map(lambda new, old: jnp.where(gap < run.gap, new, old), (*_vertex(table), basis), run.best)
        return _Run(basis, jnp.minimum(gap, run.gap), best, run.num_iterations + table.num_pivots, is_settled)

    nowhere = jnp.zeros((num_votes,), dtype), jnp.zeros((num_examples,), dtype), basis
    start = _Run(basis, jnp.full((), jnp.inf, dtype), nowhere, jnp.zeros((), jnp.int32), jnp.zeros((), bool))
    last = lax.while_loop(unfinished, work, numerics.start_loop_beside(start, columns))
    votes, weights, basis = last.best
    return Solution(votes, weights, basis, last.num_iterations)


def _begun(program: _Program, basis: Basis) -> Basis:
    """A basis from elsewhere where it is a vertex here, else the first."""
    has_votes = jnp.any(basis.basics < program.is_used.shape[0])
    basis, is_vertex = lax.cond(has_votes, lambda: _tried(program, basis), lambda: (basis, has_votes))
    return lax.cond(is_vertex, lambda: basis, lambda: _first_basis(program))


def _first_basis(program: _Program) -> Basis:
    """The single hypothesis of the largest edge, with rho its least margin."""
    num_votes, num_examples = program.columns.shape
    caps = program.caps[num_votes:]
    edges = jnp.where(program.is_used, _product(program.columns, caps), -jnp.inf)
    vote = jnp.minimum(numerics.first_true(edges == jnp.max(edges)), num_votes - 1)
    margins = jnp.where(caps > 0, program.columns[vote] + program.raised, jnp.inf)
    margin = jnp.minimum(numerics.first_true(margins == jnp.min(margins)), num_examples - 1)
    votes, examples = jnp.arange(num_votes, dtype=jnp.int32), jnp.arange(num_examples, dtype=jnp.int32)
    others = jnp.where(votes == vote, 0.0, -1.0)
    lone = jnp.concatenate([others, jnp.ones((1,), others.dtype)])
    kept = jnp.concatenate([jnp.diag(-others), jnp.zeros((1, num_votes), others.dtype)])
    by_votes = kept + jnp.where(votes == vote, 1.0, 0.0)[None, :] * lone[:, None]
    rho = _product(by_votes, program.columns[:, margin]) + jnp.concatenate([-1 - others, jnp.zeros((1,), others.dtype)])
    return Basis(
        slots=jnp.where(votes == vote, num_votes + margin, votes),
        basics=jnp.where(examples == margin, vote, num_votes + examples),
        inverse=jnp.concatenate([by_votes, rho[:, None]], axis=1),
    )


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


def _corrected(program: _Program, basis: Basis) -> Basis:
    """A basis whose inverse X is X (2 - K X) instead: that squares its error, and takes new votes in without one."""
    reached = _product(basis.inverse, _equations(program, basis).T)
    return basis._replace(inverse=2 * basis.inverse - _product(reached, basis.inverse))


def _tried(program: _Program, basis: Basis) -> tuple[Basis, Array]:
    """A basis from elsewhere, corrected, and whether its inverse is one here, and no vote negative, but for rounding."""
    basis = _corrected(program, basis)
    missed = _product(basis.inverse, _equations(program, basis).T) - jnp.eye(basis.inverse.shape[0], dtype=basis.inverse.dtype)
    votes = _product(jnp.concatenate([-_lift(program, basis.slots), jnp.ones((1,), missed.dtype)]), basis.inverse[:, :-1])
    return basis, (jnp.max(jnp.abs(missed)) <= _NEAR) & (jnp.min(votes) >= -_NEAR)


def _table(program: _Program, basis: Basis) -> _Table:
    num_votes = program.columns.shape[0]
    votes, rho = basis.inverse[:, :-1], basis.inverse[:, -1:]
    margins = _product(votes, program.columns) - rho
    entries = jnp.concatenate([jnp.concatenate([votes, margins], axis=1)[:, basis.basics], rho], axis=1)
    one = jnp.ones((1,), rho.dtype)
    values = _product(jnp.concatenate([-_lift(program, basis.slots), one]), entries) + jnp.concatenate([_lift(program, basis.basics), 0 * one])
    return _with_slopes(
        _Table(
            entries.at[-1].set(values),
            basis,
            (values[:-1] < 0) & (basis.basics >= num_votes),
            program.caps[basis.slots],
            program.caps[basis.basics],
            jnp.ones((num_votes,), rho.dtype),
            jnp.zeros((num_votes,), rho.dtype),
            jnp.zeros((), jnp.int32),
            jnp.zeros((), bool),
        )
    )


def _lift(program: _Program, places: Array) -> Array:
    """By how much votes (not at all) and margins are raised."""
    num_votes, num_examples = program.columns.shape
    return jnp.where(places < num_votes, 0.0, program.raised[jnp.clip(places - num_votes, 0, num_examples - 1)])


def _with_inverse(program: _Program, table: _Table) -> Basis:
    """The basis of a table, with the inverse that the table holds."""
    num_votes, basis = program.columns.shape[0], table.basis
    values = table.entries[-1] + _product(_lift(program, basis.slots), table.entries[:-1])
    linear = jnp.concatenate([table.entries[:-1], values[None, :]])
    votes = (jnp.append(basis.slots, -1)[:, None] == jnp.arange(num_votes)[None, :]).astype(linear.dtype)
    votes = votes.at[:, jnp.where(basis.basics < num_votes, basis.basics, num_votes)].set(linear[:, :-1], mode="drop")
    return basis._replace(inverse=jnp.concatenate([votes, linear[:, -1:]], axis=1))


def _with_slopes(table: _Table) -> _Table:
    paid = jnp.concatenate([jnp.where(table.is_below, table.basic_caps, 0.0), jnp.ones((1,), table.entries.dtype)])
    return table._replace(slopes=_product(table.entries, paid)[:-1])


def _gains(program: _Program, table: _Table) -> Array:
    """What the objective gains [n] for a unit of each slot, up or down."""
    num_votes = program.is_used.shape[0]
    gains = jnp.maximum(table.slopes, -table.slopes - table.slot_caps)
    is_free = (table.basis.slots >= num_votes) | program.is_used[jnp.minimum(table.basis.slots, num_votes - 1)]
    return jnp.where(is_free, gains, -jnp.inf)


def _is_steep(program: _Program, table: _Table) -> Array:
    return ~table.is_lost & (jnp.max(_gains(program, table)) > program.flat)


def _pivot(program: _Program, table: _Table) -> _Table:
    """One slot leaves 0, and one basic takes its place."""
    entries, basis = table.entries, table.basis
    num_votes, num_examples = program.columns.shape
    gains = _gains(program, table)
    scores = jnp.where(gains > program.flat, gains * gains / table.prices, -1.0)
    slot = jnp.minimum(numerics.first_true(scores == jnp.max(scores)), num_votes - 1)
    gain, cap = gains[slot], table.slot_caps[slot]
    rises = table.slopes[slot] >= -table.slopes[slot] - cap
    row = entries[slot]
    basic, is_passed, is_lost = _peak(table, jnp.where(rises, row[:-1], -row[:-1]), gain, program.flat)
    turned = table.is_below ^ is_passed

    nothing = jnp.zeros_like(row), jnp.zeros_like(entries[:, 0])  # where the step is lost, nothing changes
    row, column = lax.cond(is_lost, lambda: nothing, lambda: (row, entries[:, basic]))  # as a branch: else the table is copied before it changes
    is_slot, is_basic = (jnp.arange(num_votes + 1) == slot) & ~is_lost, (jnp.arange(num_examples + 1) == basic) & ~is_lost
    ratios = jnp.where(is_slot, 1.0, -column) / jnp.where(is_lost, 1.0, row[basic])
    passed_on = jnp.where(is_slot[:, None], 0.0, entries) + ratios[:, None] * row[None, :]
    prices = jnp.maximum(table.prices, ratios[:-1] ** 2 * table.prices[slot])
    after = table._replace(
        entries=jnp.where(is_basic[None, :], ratios[:, None], passed_on),
        basis=basis._replace(
            slots=jnp.where(is_slot[:-1], basis.basics[basic], basis.slots),
            basics=jnp.where(is_basic[:-1], basis.slots[slot], basis.basics),
        ),
        is_below=jnp.where(is_basic[:-1], ~rises, turned),
        slot_caps=jnp.where(is_slot[:-1], table.basic_caps[basic], table.slot_caps),
        basic_caps=jnp.where(is_basic[:-1], cap, table.basic_caps),
        prices=jnp.where(is_slot[:-1], jnp.maximum(prices, 1.0), prices),
        num_pivots=table.num_pivots + jnp.where(is_lost, 0, 1).astype(jnp.int32),
        is_lost=is_lost,
    )
    return _with_slopes(after)


def _peak(table: _Table, changes: Array, gain: Array, flat: Array) -> tuple[Array, Array, Array]:
    """The basic that takes the slot [], those passed on the way [m], and whether none stands in the way []."""
    is_below, values = table.is_below, table.entries[-1, :-1]
    sizes = jnp.abs(changes)
    turns = jnp.where(is_below, changes, -changes) > jnp.finfo(sizes.dtype).eps ** _LEAST_PIVOT
    lengths = jnp.where(turns, jnp.maximum(jnp.where(is_below, -values, values), 0.0) / jnp.where(turns, sizes, 1.0), jnp.inf)
    drops = jnp.where(turns, table.basic_caps * sizes, 0.0)

    def climbs(carry: tuple[Array, Array, Array]) -> Array:
        _, following, slope = carry
        return (following < jnp.inf) & (slope > flat)

    def go_on(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        _, length, slope = carry
        following = jnp.min(jnp.where(lengths > length, lengths, jnp.inf))
        return length, following, slope - jnp.sum(jnp.where(lengths == length, drops, 0.0))

    length, _, _ = lax.while_loop(climbs, go_on, (jnp.full_like(gain, jnp.inf), jnp.min(lengths), gain))
    ends = jnp.where((lengths == length) & turns, sizes, -1.0)
    basic = jnp.minimum(numerics.first_true(ends == jnp.max(ends)), sizes.shape[0] - 1)
    return basic, lengths < length, length == jnp.inf


def _vertex(table: _Table) -> tuple[Array, Array]:
    """Votes [n] and example weights [m]."""
    num_votes, num_examples = table.slot_caps.shape[0], table.basic_caps.shape[0]
    nothing, basis = jnp.zeros((num_votes + num_examples,), table.entries.dtype), table.basis
    values = nothing.at[basis.basics].set(table.entries[-1, :-1])
    in_slots = jnp.where(basis.slots < num_votes, 0.0, jnp.clip(-table.slopes, 0.0, table.slot_caps))
    weights = nothing.at[basis.slots].set(in_slots).at[basis.basics].set(jnp.where(table.is_below, table.basic_caps, 0.0))
    return jnp.maximum(values[:num_votes], 0.0), weights[num_votes:]


def _gap(program: _Program, table: _Table) -> Array:
    """Between what the example weights allow and what the votes are worth, worked out from the columns."""
    votes, weights = _vertex(table)
    margins, rho = _product(votes, program.columns), table.entries[-1, -1]
    value = rho - jnp.sum(program.caps[votes.shape[0] :] * jnp.maximum(rho - margins, 0.0))
    edges = jnp.where(program.is_used, _product(program.columns, weights), -jnp.inf)
    return jnp.max(edges) - value + jnp.abs(jnp.sum(weights) - 1) + jnp.abs(jnp.sum(votes) - 1)
