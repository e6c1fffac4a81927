"""A simplex method for formulation (3) of Goldberg and Eckstein (2009).

    maximise  rho + sum_i D_i min(g_i, 0)  over votes lambda >= 0 of sum one and rho,
    g_i = (A lambda)_i - rho

It returns a vertex and starts from the basis of an earlier program. A pivot costs three passes over
the table.

Votes and margins g are treated alike: each has a penalty per unit below 0, which is D_i for a
margin and infinite for a vote. n of them, the *slots*, are nonbasic: they are 0. The other m are
*basic*: linear functions of the slots. The table holds the coefficients of these functions.

A pivot moves one slot away from 0: up, or down if it is a margin. The objective is concave along
this line. The step ends at its maximum and may pass points at which basic margins change sign (the
long-step rule: Fourer 1985, "A simplex algorithm for piecewise-linear programming I"). There a
basic form becomes 0 and takes the slot. The slot is chosen by the steepest edge (Goldfarb and Reid
1977). Every vertex on the path is feasible, so there is no first phase. New hypotheses become new
slots. Margins are raised by tiny, different amounts, so that no step has length 0.

Votes, margins and rho are linear forms in the *variables*: the n votes, rho, and a constant one
that carries the amounts by which margins are raised. The *place* of a form is its index: j for vote
j, n + i for the margin of example i, n + m for rho, n + m + 1 for the sum of the votes and
n + m + 2 for the constant. The *position* of a form is its index in the table: first the slots,
then the sum and the constant, which are fixed at one, then the basic forms, then rho.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import check, loops, numerics, reduce
from jboost.base.numerics import times
from jboost.base.types import Array
from jboost.lp.simplex import break_points
from jboost.lp.simplex.margin_tables import (
    FIXED,
    Basis,
    MarginProgram,
    MarginTable,
    basis_of,
    first_basis,
    make_program,
    make_table,
    positions,
)

_LEAST_PIVOT = 0.6  # a power of the rounding unit: the smallest entry that may be a pivot
# The method stops once a recomputed table reduces the gap to no less than this share of the least
# gap, and has no pivot.
_LEAST_GAIN = 0.5
# After rounding errors have spoilt a basis, the table is computed anew this many times as often.
_MORE_OFTEN = 8


@dataclasses.dataclass(frozen=True)
class SimplexConfig:
    """Static sizes of the simplex method, which solves the programs of LP-Boost alone."""

    PUBLIC_NAME: ClassVar[str] = "jboost.lpboost.SimplexConfig"
    max_iterations: int = 50_000
    # pivots after which the table is computed anew, which removes rounding errors
    refresh_every: int = 500

    def __post_init__(self) -> None:
        check.count("config.max_iterations", self.max_iterations, low=1)
        check.count("config.refresh_every", self.refresh_every, low=1)

    @property
    def at_once(self) -> int:
        """The number of pivots between two recomputations of the table."""
        return min(self.refresh_every, self.max_iterations)


class MarginSolution(NamedTuple):
    """A vertex, and the example weights, which are the slopes of the objective there."""

    votes: Array  # [n]
    example_weights: Array  # [m]
    basis: Basis
    num_iterations: Array  # [] int32


class _MarginPivots(NamedTuple):
    """The state of the method between two recomputations of the table."""

    basis: Basis
    sound: Basis  # the last basis that a recomputed table showed to be a vertex
    at_once: Array  # [] int32, the largest number of pivots before the next recomputation
    gap: Array  # [] the least so far
    # the votes and example weights [n + m] and the basis of the least gap
    best: tuple[Array, Basis]
    num_iterations: Array  # [] int32
    is_tried: Array  # [] bool, whether the first basis was examined, and replaced if need be
    has_stalled: Array  # [] bool, whether the last table ended without reducing the gap enough
    is_settled: Array  # [] bool


def solve(
    columns: Array,
    is_used: Array,
    caps: Array,
    *,
    basis: Basis | None,
    tolerance: Array,
    config: SimplexConfig,
) -> MarginSolution:
    """The optimal vertex, up to rounding.

    Args:
      columns: [n, m] y_i h_j(x_i), 0 for padding examples.
      is_used: [n] bool, at least one True.
      caps: [m] D_i, 0 for padding examples.
      basis: the first basis, of the same sizes, with votes in use. The method starts with the
        hypothesis of the largest edge if this is None, the result of `nothing`, or not a vertex of
        this program.
      tolerance: [] for the gap.
      config: static.
    """
    dtype, (num_votes, num_examples) = columns.dtype, columns.shape
    program = make_program(columns, is_used, caps, tolerance)

    def unfinished(run: _MarginPivots) -> Array:
        return ~run.is_settled & (run.num_iterations + config.at_once <= config.max_iterations)

    first = first_basis(program)
    nowhere, no = jnp.zeros((num_votes + num_examples,), dtype), jnp.zeros((), bool)
    start = _MarginPivots(
        basis=first if basis is None else basis,
        sound=first,
        at_once=jnp.full((), config.at_once, jnp.int32),
        gap=jnp.full((), jnp.inf, dtype),
        best=(nowhere, first if basis is None else basis),
        num_iterations=jnp.zeros((), jnp.int32),
        is_tried=no,
        has_stalled=no,
        is_settled=no,
    )
    last = loops.while_loop(unfinished, functools.partial(_advance, program, tolerance), start)
    numbers, basis = last.best
    return MarginSolution(
        jnp.maximum(numbers[:num_votes], 0.0), numbers[num_votes:], basis, last.num_iterations
    )


def _advance(program: MarginProgram, tolerance: Array, run: _MarginPivots) -> _MarginPivots:
    """The run after the pivots from one table, which is computed from its basis."""
    start, is_vertex = make_table(program, run.basis)
    # no pivots from a basis that is about to be replaced
    start = start._replace(has_moved=is_vertex)
    table = loops.while_loop(
        lambda now: now.has_moved & (now.num_pivots < run.at_once),
        functools.partial(_pivot, program.flat),
        start,
    )
    new, numbers = basis_of(table), _vertex(table)
    gap = _gap(program, table, numbers)
    stalls = ~table.has_moved & ~(gap < _LEAST_GAIN * run.gap)
    after = run._replace(
        basis=new,
        sound=run.basis,
        gap=jnp.where(gap < run.gap, gap, run.gap),
        best=loops.cond(gap < run.gap, lambda: (numbers, new), lambda: run.best),
        num_iterations=run.num_iterations + table.num_pivots,
        is_tried=jnp.ones((), bool),
        has_stalled=stalls,
        # a table that has made pivots may be wrong; the next one starts from its basis
        is_settled=(gap <= tolerance) | (stalls & (run.has_stalled | (table.num_pivots == 0))),
    )
    return loops.cond(is_vertex, lambda: after, lambda: _back(run))


def _back(run: _MarginPivots) -> _MarginPivots:
    """The run from its last sound basis, after rounding errors have spoilt the present one, with
    fewer pivots for each table. A first basis that is no vertex is only replaced.
    """
    fewer = run.at_once // _MORE_OFTEN
    return run._replace(
        basis=run.sound,
        at_once=jnp.where(run.is_tried, fewer, run.at_once),
        is_tried=jnp.ones((), bool),
        has_stalled=jnp.zeros((), bool),
        is_settled=run.is_tried & (fewer == 0),
    )


def _pivot(flat: Array, table: MarginTable) -> MarginTable:
    """One pivot: the slot of the steepest edge becomes basic, and a basic form becomes a slot. If
    no edge increases the objective, only the slopes are computed.
    """
    entries, num_slots = table.entries, table.slopes.shape[0]
    slot, gain, rises = _steepest(table)
    row = entries[slot]
    length, lengths, basic = _peak(table, jnp.where(rises, row, -row), gain, flat)
    moves = (gain > flat) & (length < jnp.inf)

    nothing = jnp.zeros_like(row), jnp.zeros_like(table.norms)
    # a branch, because otherwise XLA copies the table before it changes
    row, column = loops.cond(moves, lambda: (row, entries[:, basic]), lambda: nothing)
    is_slot, is_basic = (
        jnp.arange(size) == jnp.where(moves, place, -1)
        for size, place in zip(entries.shape, (slot, basic), strict=True)
    )
    ratios = jnp.where(is_slot, 1.0, -column) / jnp.where(moves, row[basic], 1.0)
    entries = jnp.where(
        is_basic[None, :],
        ratios[:, None],
        jnp.where(is_slot[:, None], 0.0, entries) + ratios[:, None] * row[None, :],
    )

    passed = jnp.pad(lengths < length, (num_slots, 1)) & moves
    places, sides = _exchanged(table, slot, basic, moves, rises, passed)
    slopes, alike = (
        times(entries, jnp.maximum(sides[num_slots:], 0.0)),
        times(entries, jnp.where(is_basic, 0.0, row)),
    )
    norms = jnp.where(is_slot, 1.0, table.norms - column**2) + ratios * (
        2 * alike - ratios * (table.norms[slot] - row[basic] ** 2 - 2)
    )
    goes_on = moves | (table.num_pivots < 0)
    return MarginTable(
        entries,
        places,
        sides,
        jnp.maximum(norms, 1 + ratios**2),
        slopes,
        goes_on,
        table.num_pivots + goes_on.astype(jnp.int32),
    )


def _exchanged(
    table: MarginTable, slot: Array, basic: Array, moves: Array, rises: Array, passed: Array
) -> tuple[Array, Array]:
    """The places and the sides after the exchange of a slot and a basic form.

    Args:
      table: before the pivot.
      slot: [] int32 the slot that becomes basic.
      basic: [] int32 the basic form that becomes a slot.
      moves: [] bool, False if nothing is exchanged.
      rises: [] bool, whether the slot moves upwards.
      passed: [n + m] bool, by position: the forms that change sign.
    """
    other = table.slopes.shape[0] + basic
    enters, leaves = (
        jnp.arange(table.places.shape[0]) == jnp.where(moves, at, -1) for at in (slot, other)
    )
    cap = table.sides[slot]
    sides = jnp.where(
        leaves, jnp.where(rises, cap, -cap), jnp.where(passed, -table.sides, table.sides)
    )
    sides = jnp.where(enters, -jnp.abs(table.sides[other]), sides)
    places = jnp.where(
        enters, table.places[other], jnp.where(leaves, table.places[slot], table.places)
    )
    return places, sides


def _gains(slopes: Array, sides: Array) -> tuple[Array, Array]:
    """The largest gain of the objective per unit of a slot, and whether it is upwards."""
    falling = sides - slopes
    return jnp.maximum(slopes, falling), slopes >= falling


def _steepest(table: MarginTable) -> tuple[Array, Array, Array]:
    """The slot of the steepest edge, its gain per unit of the slot, and whether it is upwards.

    The steepest edge has the largest gain relative to the length of the step in all forms.
    """
    num_votes = table.slopes.shape[0] - FIXED
    gains, _ = _gains(table.slopes[:num_votes], table.sides[:num_votes])
    slot = _place_of_largest(jnp.where(gains > 0, gains * gains / table.norms[:num_votes], -1.0))
    return slot, *_gains(table.slopes[slot], table.sides[slot])


def _peak(
    table: MarginTable, changes: Array, gain: Array, flat: Array
) -> tuple[Array, Array, Array]:
    """The length of a step.

    Returns:
      The length [], inf if no basic form limits it; the lengths [m] at which basic forms change
      sign; and the basic form [] that becomes a slot.
    """
    sides = table.sides[table.slopes.shape[0] : -1]
    changes, values = changes[:-1], (table.entries[-2] + table.entries[-1])[:-1]
    sizes, is_below = jnp.abs(changes), sides > 0
    turns = (
        jnp.where(is_below, changes, -changes) > jnp.finfo(sizes.dtype).eps ** _LEAST_PIVOT
    ) & (sides != 0)
    lengths = jnp.where(
        turns,
        jnp.maximum(jnp.where(is_below, -values, values), 0.0) / jnp.where(turns, sizes, 1.0),
        jnp.inf,
    )
    drops = jnp.where(turns, jnp.abs(sides) * sizes, 0.0)
    length, _ = break_points.peak(lengths, drops, gain, flat)
    basic = _place_of_largest(jnp.where((lengths == length) & turns, sizes, -1.0))
    return length, lengths, basic


def _place_of_largest(values: Array) -> Array:
    """The index of one of the largest numbers [k].

    On a CPU it takes half the time of `argmax`, which must find the first one and handle NaN.
    """

    def larger(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
        is_larger = other[0] > one[0]
        return jnp.where(is_larger, other[0], one[0]), jnp.where(is_larger, other[1], one[1])

    place = jnp.arange(values.shape[0], dtype=jnp.int32)
    _, found = lax.reduce(
        (lax.stop_gradient(values), place),
        (np.asarray(-np.inf, values.dtype), np.int32(0)),
        larger,
        (0,),
    )
    return found


def _vertex(table: MarginTable) -> Array:
    """Votes and example weights, [n + m]."""
    num_slots = table.slopes.shape[0]
    num_votes = num_slots - FIXED
    in_slots = jnp.where(
        table.places[:num_slots] < num_votes,
        0.0,
        jnp.clip(-table.slopes, 0.0, -table.sides[:num_slots]),
    )
    places, sides = table.places[num_slots:], table.sides[num_slots:]
    in_basics = jnp.where(
        places < num_votes, table.entries[-2] + table.entries[-1], jnp.maximum(sides, 0.0)
    )
    return numerics.take(
        jnp.concatenate([in_slots, in_basics]),
        positions(table)[: table.places.shape[0] - 1 - FIXED],
    )


def _gap(program: MarginProgram, table: MarginTable, numbers: Array) -> Array:
    """The duality gap between the example weights and the votes, computed from the columns, plus
    the errors of their sums.
    """
    num_votes, num_examples = program.columns.shape
    votes, weights = jnp.maximum(numbers[:num_votes], 0.0), numbers[num_votes:]
    margins, rho = times(votes, program.columns), table.entries[-2, -1] + table.entries[-1, -1]
    paid = program.caps[num_votes : num_votes + num_examples] * jnp.maximum(rho - margins, 0.0)
    value = rho - numerics.precise_sum(paid)
    edge, total = reduce.several(
        (reduce.LARGEST, times(program.columns, weights)), (reduce.SUM, votes)
    )
    return edge - value + jnp.abs(numerics.precise_sum(weights) - 1) + jnp.abs(total - 1)
