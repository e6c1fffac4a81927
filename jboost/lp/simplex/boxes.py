"""A dual simplex method over a dense table, for programs that differ only in the bounds of their
variables, such as the nodes of branch and bound.

    minimise c . x  s.t.  lower <= x <= upper,  lower <= A x <= upper

Variables and rows are treated alike. Each has an index, called its *place*: j for x_j, and n + i
for row i. n of them, the *slots*, are nonbasic: each is at one of its bounds. The others are
*basic*: linear functions of the slots. The table holds the coefficients of these functions, and in
its last row those of the objective.

A slot is at its lower bound if its reduced cost is not negative, else at its upper bound. So every
table is dual feasible for any bounds: there is no first phase, and the last table of one program is
the first table of the next. In a pivot the leaving variable is the basic one with the largest
violation of its bounds relative to the norm of its row. The dual step passes break points while the
dual objective increases (`break_points`). `replace` exchanges a basic row for a new one.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import loops, numerics, reduce
from jboost.base.numerics import times
from jboost.base.types import Array
from jboost.lp.simplex import break_points

# These three are powers of the rounding unit.
_OUTSIDE = 0.6  # the largest violation of a bound that counts as none
# The smallest entry of the table that may be a pivot. If a break point is ignored because its entry
# is smaller, its slot moves to the other bound, which does no harm.
_LEAST_PIVOT = 0.25
# Entries of at most this size are set to 0. Otherwise they would shrink to subnormal numbers, which
# processors compute with slowly.
_NOTHING = 1.25
# The pivots after which the table is recomputed to remove rounding errors, by the bytes of a float.
# Round numbers; not tuned.
_REFRESH = {4: 300, 8: 3000}
_MAX_ERROR = 1e-3  # the error of A x beyond which the table is recomputed earlier
_MAX_RUNS = 40  # the largest number of runs of pivots, each from a recomputed table, in one `solve`


class Tableau(NamedTuple):
    """The basic variables and, in the last row, the objective as linear functions of the slots."""

    entries: Array  # [k + 1, n]
    slots: Array  # [n] int32 the places of the slots
    basics: Array  # [k] int32 the places of the basic variables
    age: Array  # [] int32 pivots since the table was last computed from A and c


class BoxSolution(NamedTuple):
    """The last point of the method. It stops at the optimum, when the objective reaches the goal,
    when a row cannot be met, or after `max_pivots` pivots.
    """

    table: Tableau
    values: Array  # [n + k] by place
    # [n + k] by place; those of rows are their duals. If a row cannot be met, the reduced costs
    # prove an objective of at least the goal.
    reduced_costs: Array
    objective: Array  # [] the objective that the reduced costs prove, up to rounding
    is_optimal: Array  # [] bool
    has_ended: Array  # [] bool, False if the limit of pivots stopped the method
    num_pivots: Array  # [] int32


class _BoxBasis(NamedTuple):
    """A table with the bounds of its slots and basics."""

    table: Tableau
    slot_bounds: Array  # [2, n]
    basic_bounds: Array  # [2, k]


class _Choice(NamedTuple):
    """The leaving variable of a pivot, and the dual step that brings it to its bound."""

    values: Array  # [k + 1] of the basic variables, and the objective
    row: Array  # [] int32 the row of the leaving variable
    is_inside: Array  # [] bool, whether all basic variables are within their bounds
    rises: Array  # [] bool, whether the leaving variable is below its lower bound
    length: Array  # [] the dual step, inf without break points
    slope: Array  # [] of the dual objective after the step


class _BoxPivots(NamedTuple):
    """The state of the pivots between two recomputations of the table."""

    basis: _BoxBasis
    choice: _Choice  # in the basis, once the run has stopped
    has_ended: Array  # [] bool, whether there is no reason for a further pivot
    has_stopped: Array  # [] bool, whether it has ended or has reached the limit of pivots
    num_pivots: Array  # [] int32 in this run


def begin(matrix: Array, objective: Array) -> Tableau:
    """The table of A [k, n] and c [n] in which all rows are basic."""
    num_rows, num_columns = matrix.shape
    places = jnp.arange(num_columns + num_rows, dtype=jnp.int32)
    return Tableau(
        jnp.concatenate([matrix, objective[None, :]]),
        places[:num_columns],
        places[num_columns:],
        jnp.zeros((), jnp.int32),
    )


def positions(table: Tableau) -> Array:
    """The position [n + k] of each place in the order of the table: slots first, then basics."""
    both = jnp.concatenate([table.slots, table.basics])
    return (
        jnp.zeros_like(both)
        .at[both]
        .set(jnp.arange(both.shape[0], dtype=jnp.int32), unique_indices=True)
    )


def by_place(table: Tableau, of_slots: Array, of_basics: Array) -> Array:
    """Values [..., n] of the slots and [..., k] of the basics, reordered by place: [..., n + k]."""
    return jnp.concatenate([of_slots, of_basics], axis=-1)[..., positions(table)]


def replace(table: Tableau, rows: Array, places: Array) -> Tableau:
    """The table with new rows of A at places that are basic.

    Args:
      table: the old table.
      rows: [c, n] the new rows.
      places: [c] the basic places that they get; n + k for a row that is ignored.
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


def refreshed(table: Tableau, matrix: Array, objective: Array) -> Tableau:
    """The table recomputed from A [k, n] and c [n] to remove rounding errors.

    If the basis is singular, the table in which all rows are basic is returned.
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
    table: Tableau,
    matrix: Array,
    objective: Array,
    lower: Array,
    upper: Array,
    *,
    goal: Array,
    max_pivots: Array | int,
) -> BoxSolution:
    """Solves the program with bounds [n + k] by place.

    Args:
      table: the first table; any table of this matrix.
      matrix: A [k, n].
      objective: c [n]. No two sums of its entries should be equal: otherwise the method may cycle
        through steps of length 0 until it reaches `max_pivots`.
      lower: [n + k] finite, except for rows that impose no lower bound.
      upper: [n + k] at least `lower`. It may be inf for rows, and for variables whose costs are not
        negative.
      goal: [] the method stops once the objective is proven to be at least this.
      max_pivots: [].
    """
    most = _REFRESH[matrix.dtype.itemsize]

    def refresh_and_pivot(state: tuple[BoxSolution, Array]) -> tuple[BoxSolution, Array]:
        before, num_runs = state
        table = loops.cond(
            (num_runs > 0) | (before.table.age >= most),
            lambda: refreshed(before.table, matrix, objective),
            lambda: before.table,
        )
        after = pivot_on(
            table,
            lower,
            upper,
            goal=goal,
            max_pivots=jnp.minimum(max_pivots - before.num_pivots, most),
        )
        return after._replace(num_pivots=before.num_pivots + after.num_pivots), num_runs + 1

    def unfinished(state: tuple[BoxSolution, Array]) -> Array:
        now, num_runs = state
        variables, rows = jnp.split(now.values, [matrix.shape[1]])
        is_off = jnp.max(jnp.abs(times(matrix, variables) - rows)) > _MAX_ERROR
        goes_on = (is_off | ~now.has_ended) & (now.num_pivots < max_pivots)
        return (num_runs == 0) | (goes_on & (num_runs < _MAX_RUNS))

    start = unsolved(table, lower), jnp.zeros((), jnp.int32)
    return loops.while_loop(unfinished, refresh_and_pivot, start)[0]


def unsolved(table: Tableau, lower: Array) -> BoxSolution:
    """What stands for a solution before the first run of pivots, for bounds [n + k] by place."""
    nothing, no = jnp.zeros_like(lower), jnp.zeros((), bool)
    return BoxSolution(table, nothing, nothing, nothing[0], no, no, jnp.zeros((), jnp.int32))


def pivot_on(
    table: Tableau, lower: Array, upper: Array, *, goal: Array, max_pivots: Array | int
) -> BoxSolution:
    """`solve` without recomputing the table: for runs of few pivots."""

    def step(run: _BoxPivots) -> _BoxPivots:
        choice, lengths = _choose(run.basis)
        has_ended = _ends(choice, goal)
        has_stopped = has_ended | (run.num_pivots >= max_pivots)
        basis = _pivot(run.basis, choice, lengths, has_stopped)
        num_pivots = run.num_pivots + (~has_stopped).astype(jnp.int32)
        return _BoxPivots(basis, choice, has_ended, has_stopped, num_pivots)

    zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    nothing = jnp.zeros_like(table.entries[:, 0])
    unchosen = _Choice(nothing, zero, no, no, nothing[0], nothing[0])
    first = _BoxPivots(_make_basis(table, lower, upper), unchosen, no, no, zero)
    return _conclude(loops.while_loop(lambda run: ~run.has_stopped, step, first), goal)


def penalties(
    table: Tableau, lower: Array, upper: Array, places: Array, values: Array
) -> tuple[Array, Array]:
    """Lower bounds of the increase of the objective when a variable with a value in (0, 1) is fixed
    at 0, and when it is fixed at 1. The bounds are those of the first dual pivot.

    Args:
      table: the table of an optimum.
      lower: [n + k] by place.
      upper: [n + k] by place.
      places: [q] of the variables.
      values: [n + k] by place, at the optimum.

    Returns:
      The increases [q] for 0 and [q] for 1. Both are 0 for variables that are slots.
    """
    num_slots = table.slots.shape[0]
    stands = positions(table)[places]
    rows = table.entries[jnp.maximum(stands - num_slots, 0)]
    basis = _make_basis(table, lower, upper)
    is_basic, shares = stands >= num_slots, values[places]

    def steps(changes: Array) -> Array:
        return jax.vmap(lambda change: jnp.min(_lengths(basis, change)[0], initial=jnp.inf))(
            changes
        )

    return jnp.where(is_basic, steps(-rows) * shares, 0.0), jnp.where(
        is_basic, steps(rows) * (1 - shares), 0.0
    )


def _make_basis(table: Tableau, lower: Array, upper: Array) -> _BoxBasis:
    """The basis of a table, for bounds [n + k] by place."""
    bounds = jnp.stack([lower, upper])
    return _BoxBasis(table, bounds[:, table.slots], bounds[:, table.basics])


def _in_slots(basis: _BoxBasis) -> tuple[Array, Array]:
    """The values [n] of the slots, and which of them are at their upper bounds."""
    lower, upper = basis.slot_bounds
    is_up = (basis.table.entries[-1] < 0) & (upper < jnp.inf)
    return jnp.where(is_up, upper, lower), is_up


def _choose(basis: _BoxBasis) -> tuple[_Choice, Array]:
    """Chooses the basic variable with the largest violation of its bounds relative to the norm of
    its row, and the dual step that brings it to its bound. Also returns the break points [n] of the
    step.
    """
    entries, eps = basis.table.entries, jnp.finfo(basis.table.entries.dtype).eps
    values, _ = _in_slots(basis)
    in_basics = times(entries, values)
    below, above = basis.basic_bounds[0] - in_basics[:-1], in_basics[:-1] - basis.basic_bounds[1]
    outside = jnp.maximum(below, above)
    # A matrix product with ones would first write all squares to memory, which takes five times
    # as long for a table of 1 MB.
    norms = 1 + reduce.total(entries[:-1] * entries[:-1], axis=1)
    row, _ = numerics.first_greatest(
        jnp.where(outside > eps**_OUTSIDE, outside * outside / norms, -1.0)
    )
    rises = below[row] >= above[row]
    changes = jnp.where(rises, entries[row], -entries[row])
    lengths, drops = _lengths(basis, changes)
    length, slope = break_points.peak(lengths, drops, outside[row], 0.0)
    return _Choice(in_basics, row, outside[row] <= eps**_OUTSIDE, rises, length, slope), lengths


def _lengths(basis: _BoxBasis, changes: Array) -> tuple[Array, Array]:
    """The break points [n] of the dual step of a row [n] whose basic variable must increase, and
    the decrease [n] of the slope of the dual objective at each.
    """
    _, is_up = _in_slots(basis)
    ranges, costs = basis.slot_bounds[1] - basis.slot_bounds[0], basis.table.entries[-1]
    blocks = (jnp.where(is_up, -changes, changes) > jnp.finfo(costs.dtype).eps ** _LEAST_PIVOT) & (
        ranges > 0
    )
    lengths = jnp.where(is_up, costs, jnp.maximum(costs, 0.0)) / jnp.where(blocks, changes, 1.0)
    return jnp.where(blocks, lengths, jnp.inf), jnp.where(blocks, jnp.abs(changes) * ranges, 0.0)


def _pivot(basis: _BoxBasis, choice: _Choice, lengths: Array, has_stopped: Array) -> _BoxBasis:
    """Exchanges a basic variable, which goes to its bound, for a slot, which becomes basic. Nothing
    changes if the method has stopped.
    """
    entries = basis.table.entries
    row = entries[choice.row]
    is_candidate = (lengths == choice.length) & (choice.length < jnp.inf)
    slot, _ = numerics.first_greatest(jnp.where(is_candidate, jnp.abs(row), -1.0))
    is_slot, is_basic = (
        jnp.arange(size) == jnp.where(has_stopped, -1, at)
        for size, at in zip(entries.shape[::-1], (slot, choice.row), strict=True)
    )

    def factors() -> tuple[Array, ...]:
        ratios = jnp.where(is_slot, 1.0, -row) / row[slot]
        column = jnp.where(is_basic, 1.0, entries[:, slot])
        kept_rows, kept_columns = (~is_basic).astype(row.dtype), (~is_slot).astype(row.dtype)
        return kept_rows, column, kept_columns, ratios

    def unchanged() -> tuple[Array, ...]:
        of_rows, of_columns = jnp.ones_like(entries[:, 0]), jnp.ones_like(row)
        return of_rows, jnp.zeros_like(of_rows), of_columns, jnp.zeros_like(of_columns)

    # XLA does not fuse a branch with what follows it. So these vectors are computed once, and not
    # for each entry of the table, and the table is changed without a copy of it.
    kept_rows, column, kept_columns, ratios = loops.cond(has_stopped, unchanged, factors)
    kept = kept_rows[:, None] * kept_columns[None, :]
    entries = entries * kept + column[:, None] * ratios[None, :]
    entries = jnp.where(jnp.abs(entries) > jnp.finfo(entries.dtype).eps ** _NOTHING, entries, 0.0)

    def swapped(of_slots: Array, of_basics: Array) -> tuple[Array, Array]:
        leaving, entering = of_basics[..., choice.row], of_slots[..., slot]
        return jnp.where(is_slot, leaving[..., None], of_slots), jnp.where(
            is_basic[:-1], entering[..., None], of_basics
        )

    slots, basics = swapped(basis.table.slots, basis.table.basics)
    slot_bounds, basic_bounds = swapped(basis.slot_bounds, basis.basic_bounds)
    age = basis.table.age + (~has_stopped).astype(jnp.int32)
    return _BoxBasis(Tableau(entries, slots, basics, age), slot_bounds, basic_bounds)


def _ends(choice: _Choice, goal: Array) -> Array:
    """Whether the method stops before this pivot, [] bool: at the optimum, at the goal, or because
    a row cannot be met.
    """
    return (
        choice.is_inside
        | (choice.values[-1] >= goal)
        | (choice.length == jnp.inf)
        | (choice.slope > 0)
    )


def _conclude(run: _BoxPivots, goal: Array) -> BoxSolution:
    """The solution of a run. If a row cannot be met, its dual is increased until the reduced costs
    prove the goal.
    """
    choice, table = run.choice, run.basis.table
    values, _ = _in_slots(run.basis)
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
    return BoxSolution(
        table,
        by_place(table, values, choice.values[:-1]),
        by_place(table, costs, of_basics),
        choice.values[-1] + jnp.where(is_empty, missing, 0.0),
        choice.is_inside,
        run.has_ended,
        run.num_pivots,
    )
