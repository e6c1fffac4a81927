"""A dual simplex method over a dense table, for programs that differ in the bounds of their
variables alone: the nodes of branch and bound.

    minimise c . x  s.t.  lower <= x <= upper,  lower <= A x <= upper

Variables and rows are alike: each has a *place*, x_j the place j and row i the place n + i. n
places, the *slots*, stand at a bound, the others are *basic* and linear in those: the table, whose
last row is the objective. A slot stands at its lower bound where its reduced cost is not negative,
else at the upper one, so that every table is dual feasible whatever the bounds are: there is no
first phase, and the last table of one program begins the next. A pivot lets the basic go that is
furthest outside its bounds for the length of its row, and goes past break points while the dual
objective climbs (`break_points`). A row can be put in the place of one that is basic (`replace`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import loops, numerics
from jboost.base.numerics import times
from jboost.base.types import Array
from jboost.lp.simplex import break_points

_OUTSIDE = 0.6  # by which power of the rounding unit basics may be outside their bounds
# the same for entries of the table to divide by; a break point that is ignored puts its slot at the
# other bound, no more
_LEAST_PIVOT = 0.25
# the same for what rounding leaves of 0, which would shrink to numbers that a processor is slow
# with
_NOTHING = 1.25
_REFRESH = 300  # pivots after which a table is worked out anew, to be rid of rounding
_MOST_OFF = 1e-3  # by how much values may miss their rows before it is
_MOST_LEGS = 40  # programs between two tables


class Table(NamedTuple):
    """The basics, and last the objective, as linear functions of the slots."""

    entries: Array  # [k + 1, n]
    slots: Array  # [n] int32 their places
    basics: Array  # [k] int32
    age: Array  # [] int32 pivots since it was worked out


class Solution(NamedTuple):
    """Where the method stopped: at the optimum, beyond the goal, where a row cannot be met, or
    after so many pivots.
    """

    table: Table
    values: Array  # [n + k] by place
    # [n + k] by place: those of rows are their duals; where a row cannot be met, such as prove at
    # least the goal
    reduced_costs: Array
    objective: Array  # [] what they prove, but for rounding
    is_optimal: Array  # [] bool
    has_ended: Array  # [] bool, False where pivots ran out
    num_pivots: Array  # [] int32


class _Run(NamedTuple):
    table: Table
    slot_bounds: Array  # [2, n]
    basic_bounds: Array  # [2, k]
    ends: Array  # [] bool
    num_pivots: Array  # [] int32 in this run


class _Choice(NamedTuple):
    """A basic that is outside its bounds, and what its way back to them does."""

    values: Array  # [k + 1] of the basics, and the objective
    row: Array  # [] int32
    is_inside: Array  # [] bool, all basics are within their bounds
    rises: Array  # [] bool
    lengths: Array  # [n] break points of the dual step
    length: Array  # [] the dual step, inf without break points
    slope: Array  # [] of the dual objective after it


def begin(matrix: Array, objective: Array) -> Table:
    """The table of A [k, n] and c [n] in which all rows are basic."""
    num_rows, num_columns = matrix.shape
    places = jnp.arange(num_columns + num_rows, dtype=jnp.int32)
    return Table(
        jnp.concatenate([matrix, objective[None, :]]),
        places[:num_columns],
        places[num_columns:],
        jnp.zeros((), jnp.int32),
    )


def positions(table: Table) -> Array:
    """Where each place stands, [n + k]: slots first, then basics."""
    both = jnp.concatenate([table.slots, table.basics])
    return (
        jnp.zeros_like(both)
        .at[both]
        .set(jnp.arange(both.shape[0], dtype=jnp.int32), unique_indices=True)
    )


def by_place(table: Table, of_slots: Array, of_basics: Array) -> Array:
    """Numbers [..., n] and [..., k] in the order of places."""
    return jnp.concatenate([of_slots, of_basics], axis=-1)[..., positions(table)]


def replace(table: Table, rows: Array, places: Array) -> Table:
    """The table with other rows [c, n] of A at places [c] that are basic; n + k for a row that is
    to be left out.
    """
    num_columns = table.slots.shape[0]
    in_slots, is_own = jnp.minimum(table.slots, num_columns - 1), table.slots < num_columns
    in_basics, is_basic = jnp.minimum(table.basics, num_columns - 1), table.basics < num_columns
    own = jnp.where(is_own, rows[:, in_slots], 0.0)
    other = jnp.where(is_basic, rows[:, in_basics], 0.0)
    where = (
        positions(table).at[places].get(mode="fill", fill_value=jnp.iinfo(jnp.int32).max)
        - num_columns
    )
    entries = own + times(other, table.entries[:-1])
    return table._replace(entries=table.entries.at[where].set(entries, mode="drop"))


def refreshed(table: Table, matrix: Array, objective: Array) -> Table:
    """The table worked out anew from A [k, n] and c [n], to be rid of rounding; with all rows basic
    where it cannot be.
    """
    num_columns = matrix.shape[1]
    every = jnp.concatenate([jnp.eye(num_columns, dtype=matrix.dtype), matrix])
    inverse = jnp.linalg.inv(every[table.slots])
    entries = times(jnp.concatenate([every[table.basics], objective[None, :]]), inverse)
    first = begin(matrix, objective)
    is_sound = jnp.all(jnp.isfinite(entries))
    return jax.tree.map(
        lambda new, old: jnp.where(is_sound, new, old),
        first._replace(entries=entries, slots=table.slots, basics=table.basics),
        first,
    )


def solve(
    table: Table,
    matrix: Array,
    objective: Array,
    lower: Array,
    upper: Array,
    *,
    goal: Array,
    max_pivots: Array | int,
) -> Solution:
    """The program with bounds [n + k] by place; the lower ones finite but for rows that are never
    to be met.

    Args:
      table: any of this matrix, to begin with.
      matrix: A [k, n].
      objective: c [n], no sums of which are to agree: steps without a length may go round and round
        until pivots run out.
      lower: [n + k].
      upper: [n + k] at least as much; inf for none, of variables with costs that are not negative
        and of rows.
      goal: [] the method stops where the objective is proven to reach it.
      max_pivots: [].
    """

    def leg(state: tuple[Solution, Array]) -> tuple[Solution, Array]:
        before, num_legs = state
        table = refreshed(before.table, matrix, objective)
        after = pivot_on(
            table,
            lower,
            upper,
            goal=goal,
            max_pivots=jnp.minimum(max_pivots - before.num_pivots, _REFRESH),
        )
        return after._replace(num_pivots=before.num_pivots + after.num_pivots), num_legs + 1

    def unfinished(state: tuple[Solution, Array]) -> Array:
        now, num_legs = state
        is_off = (
            jnp.max(
                jnp.abs(
                    times(matrix, now.values[: matrix.shape[1]]) - now.values[matrix.shape[1] :]
                )
            )
            > _MOST_OFF
        )
        return (is_off | ~now.has_ended) & (now.num_pivots < max_pivots) & (num_legs < _MOST_LEGS)

    table = loops.cond(
        table.age >= _REFRESH, lambda: refreshed(table, matrix, objective), lambda: table
    )
    first = pivot_on(table, lower, upper, goal=goal, max_pivots=jnp.minimum(max_pivots, _REFRESH))
    return loops.while_loop(unfinished, leg, (first, jnp.ones((), jnp.int32)))[0]


def pivot_on(
    table: Table, lower: Array, upper: Array, *, goal: Array, max_pivots: Array | int
) -> Solution:
    """`solve` without a look at the rounding of the table: for a few pivots."""
    bounds = jnp.stack([lower, upper])
    first = _Run(
        table,
        bounds[:, table.slots],
        bounds[:, table.basics],
        jnp.zeros((), bool),
        jnp.zeros((), jnp.int32),
    )

    def step(run: _Run) -> _Run:
        return _pivot(run, goal)

    last = loops.while_loop(lambda run: ~run.ends & (run.num_pivots < max_pivots), step, first)
    return _conclude(last, goal)


def penalties(
    table: Table, lower: Array, upper: Array, places: Array, values: Array
) -> tuple[Array, Array]:
    """What the first pivot proves the objective to grow by where basics [q] in (0, 1) are to fall
    to 0 and to rise to 1, [q] each; 0 for slots.

    Args:
      table: at an optimum.
      lower: [n + k] by place.
      upper: [n + k].
      places: [q].
      values: [n + k] at the optimum.
    """
    num_slots = table.slots.shape[0]
    stands = positions(table)[places]
    rows = table.entries[jnp.maximum(stands - num_slots, 0)]
    run = _Run(
        table,
        jnp.stack([lower, upper])[:, table.slots],
        jnp.stack([lower, upper])[:, table.basics],
        jnp.zeros((), bool),
        jnp.zeros((), int),
    )
    is_basic, shares = stands >= num_slots, values[places]

    def steps(changes: Array) -> Array:
        return jax.vmap(lambda change: jnp.min(_lengths(run, change)[0], initial=jnp.inf))(changes)

    return jnp.where(is_basic, steps(-rows) * shares, 0.0), jnp.where(
        is_basic, steps(rows) * (1 - shares), 0.0
    )


def _in_slots(run: _Run) -> tuple[Array, Array]:
    """Values [n] of the slots, and which stand at their upper bounds."""
    lower, upper = run.slot_bounds
    is_up = (run.table.entries[-1] < 0) & (upper < jnp.inf)
    return jnp.where(is_up, upper, lower), is_up


def _choose(run: _Run) -> _Choice:
    """The basic furthest outside its bounds for the length of its row, with the dual step that
    brings it to its bound.
    """
    entries, eps = run.table.entries, jnp.finfo(run.table.entries.dtype).eps
    values, _ = _in_slots(run)
    in_basics = times(entries, values)
    below, above = run.basic_bounds[0] - in_basics[:-1], in_basics[:-1] - run.basic_bounds[1]
    outside = jnp.maximum(below, above)
    norms = 1 + times(entries[:-1] * entries[:-1], jnp.ones_like(values))
    row, _ = numerics.first_greatest(
        jnp.where(outside > eps**_OUTSIDE, outside * outside / norms, -1.0)
    )
    rises = below[row] >= above[row]
    changes = jnp.where(rises, entries[row], -entries[row])
    lengths, drops = _lengths(run, changes)
    length, slope = break_points.peak(lengths, drops, outside[row], 0.0)
    return _Choice(in_basics, row, outside[row] <= eps**_OUTSIDE, rises, lengths, length, slope)


def _lengths(run: _Run, changes: Array) -> tuple[Array, Array]:
    """Break points [n] of the dual step of a row [n] whose basic is to rise, and by how much each
    lowers the slope.
    """
    _, is_up = _in_slots(run)
    ranges, costs = run.slot_bounds[1] - run.slot_bounds[0], run.table.entries[-1]
    blocks = (jnp.where(is_up, -changes, changes) > jnp.finfo(costs.dtype).eps ** _LEAST_PIVOT) & (
        ranges > 0
    )
    lengths = jnp.where(is_up, costs, jnp.maximum(costs, 0.0)) / jnp.where(blocks, changes, 1.0)
    return jnp.where(blocks, lengths, jnp.inf), jnp.where(blocks, jnp.abs(changes) * ranges, 0.0)


def _pivot(run: _Run, goal: Array) -> _Run:
    """One basic goes to its bound, and a slot becomes basic in its place; nothing changes where the
    method is to stop.
    """
    choice, entries = _choose(run), run.table.entries
    ends = (
        choice.is_inside
        | (choice.values[-1] >= goal)
        | (choice.length == jnp.inf)
        | (choice.slope > 0)
    )
    row = entries[choice.row]
    is_candidate = (choice.lengths == choice.length) & (choice.length < jnp.inf)
    slot, _ = numerics.first_greatest(jnp.where(is_candidate, jnp.abs(row), -1.0))
    nothing = jnp.zeros_like(row), jnp.zeros_like(entries[:, 0])
    row, column = loops.cond(ends, lambda: nothing, lambda: (row, entries[:, slot]))
    is_slot, is_basic = (
        jnp.arange(size) == jnp.where(ends, -1, at)
        for size, at in zip(entries.shape[::-1], (slot, choice.row), strict=True)
    )
    ratios = jnp.where(is_slot, 1.0, -row) / jnp.where(ends, 1.0, row[slot])
    entries = jnp.where(
        is_basic[:, None],
        ratios[None, :],
        jnp.where(is_slot[None, :], 0.0, entries) + column[:, None] * ratios[None, :],
    )
    entries = jnp.where(jnp.abs(entries) > jnp.finfo(entries.dtype).eps ** _NOTHING, entries, 0.0)

    def swapped(of_slots: Array, of_basics: Array) -> tuple[Array, Array]:
        leaving, entering = of_basics[..., choice.row], of_slots[..., slot]
        return jnp.where(is_slot, leaving[..., None], of_slots), jnp.where(
            is_basic[:-1], entering[..., None], of_basics
        )

    slots, basics = swapped(run.table.slots, run.table.basics)
    slot_bounds, basic_bounds = swapped(run.slot_bounds, run.basic_bounds)
    one = (~ends).astype(jnp.int32)
    return _Run(
        Table(entries, slots, basics, run.table.age + one),
        slot_bounds,
        basic_bounds,
        ends,
        run.num_pivots + one,
    )


def _conclude(run: _Run, goal: Array) -> Solution:
    """Values and reduced costs; where a row cannot be met, its dual is raised until the goal is
    proven.
    """
    choice, table = _choose(run), run.table
    values, _ = _in_slots(run)
    is_empty = (
        ~choice.is_inside
        & ((choice.length == jnp.inf) | (choice.slope > 0))
        & (choice.values[-1] < goal)
    )
    missing = jnp.where(goal < jnp.inf, 2 * (goal - choice.values[-1]) + 1, 1.0)
    step = jnp.where(choice.length < jnp.inf, choice.length, 0.0) + missing / jnp.where(
        is_empty, choice.slope, 1.0
    )
    step = jnp.where(is_empty, jnp.where(choice.rises, step, -step), 0.0)
    costs = table.entries[-1] - step * table.entries[choice.row]
    of_basics = jnp.where(jnp.arange(table.basics.shape[0]) == choice.row, step, 0.0)
    return Solution(
        table,
        by_place(table, values, choice.values[:-1]),
        by_place(table, costs, of_basics),
        choice.values[-1] + jnp.where(is_empty, missing, 0.0),
        choice.is_inside,
        run.ends | choice.is_inside,
        run.num_pivots,
    )
