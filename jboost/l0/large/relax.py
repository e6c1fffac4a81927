"""One round of column and cut generation: the master, a feasible point near its solution, and the
bound that its duals prove.

The steps of a round: patterns of the rows -> `master.improve` -> `feasible.near` (all
pairs) -> upper bound and violated cuts; and -> `duals_of_rows` -> `proof.price` and
`proof.prove` -> lower bound and new columns.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from jboost.base.padding import shared_size
from jboost.l0.large import feasible, master, master_on_host, patterns, pool, proof
from jboost.l0.large.feasible import MasterPoint, PrimalPoint
from jboost.l0.large.master import MasterIterate, MasterProgram
from jboost.l0.large.patterns import Patterns
from jboost.l0.large.pool import ColumnPool, CutPool
from jboost.l0.large.proof import MonomialTable, TableBound, TableDuals

_FIRST_PRIMAL_WEIGHT = 10.0  # found by trial on PIMA-sized tables of weights 1
# The range of the primal weight, and its factor from round to round: it increases while the upper
# bound is the looser one, and decreases otherwise.
_LEAST_WEIGHT, _MOST_WEIGHT, _CHANGE = 1.0, 100.0, 1.2
_ITERATIONS = (300, 120, 60)  # of a master in a round, fewer for larger masters (see below)
# A master of up to _CHEAP entries gets the first number of _ITERATIONS, one of up to _DEAR entries
# the second, and a larger one the third.
_CHEAP, _DEAR = 1 << 23, 1 << 25
_USED = 1e-7  # a column is in use if its mu is larger
# Up to so many rows, the master works on rows instead of patterns, and NumPy takes less time than a
# compilation and the padding of sizes.
_FEW_ROWS = 4096
# Padded sizes of the master: where its 2048 cuts are most of the work, few sizes share programs.
_LEAST_ROWS, _ROWS_DOUBLE_TO = 256, 1024
_NO_PATTERNS = 0.9  # with more patterns than this share of the rows, the master works on rows


@dataclasses.dataclass
class LargeRelaxation:
    """The state of a relaxation: that with cuts of both orders, or with `is_either` that with the
    weaker cuts, which are valid for (15).
    """

    table: MonomialTable
    pool: ColumnPool
    is_either: bool
    cuts: CutPool
    slacks: np.ndarray  # [m] of the last master
    rates: np.ndarray  # [m] w of the last master, divided by the weight of the row
    primal_weight: float = _FIRST_PRIMAL_WEIGHT
    upper_bound: float = np.inf
    point: PrimalPoint | None = None
    proven: TableBound | None = None
    num_rounds: int = 0

    @property
    def lower_bound(self) -> float:
        """The bound proven over all monomials, at least 0, since no cost is negative."""
        return 0.0 if self.proven is None else max(self.proven.bound, 0.0)

    @property
    def gap(self) -> float:
        """The gap, relative to the upper bound if that is more than 1."""
        return (
            (self.upper_bound - self.lower_bound) / max(self.upper_bound, 1.0)
            if self.upper_bound < np.inf
            else np.inf
        )


def begin(table: MonomialTable, columns: ColumnPool, *, is_either: bool) -> LargeRelaxation:
    """The state before the first round, without cuts and bounds."""
    num_rows = len(table.labels)
    return LargeRelaxation(
        table, columns, is_either, CutPool(), np.ones(num_rows), np.zeros(num_rows)
    )


def extended(state: LargeRelaxation, table: MonomialTable, columns: ColumnPool) -> LargeRelaxation:
    """The state for a table whose first rows are those of `state`. Cuts, duals and the lower bound
    are kept, since they remain valid with more rows.
    """
    more = len(table.labels) - len(state.slacks)
    slacks, rates = (
        np.pad(state.slacks, (0, more), constant_values=1.0),
        np.pad(state.rates, (0, more)),
    )
    weights = (
        None if state.proven is None else np.pad(state.proven.duals.example_weights, (0, more))
    )
    proven = None
    if state.proven is not None and weights is not None:
        proven = state.proven._replace(duals=state.proven.duals._replace(example_weights=weights))
    return LargeRelaxation(
        table,
        columns,
        state.is_either,
        state.cuts,
        slacks,
        rates,
        state.primal_weight,
        proven=proven,
    )


def step(state: LargeRelaxation, *, capacity: int, per_sign: int) -> int:
    """Does one round, in place. Returns the number of columns and cuts that entered."""
    before = state.gap
    grouped = _patterns(state)
    value = _solve_master(state, grouped, capacity)
    above, point, violated = feasible.near(
        state.table, master_point(state), is_either=state.is_either
    )
    if above < state.upper_bound:
        state.upper_bound, state.point = above, point
    num_new = state.cuts.enter(violated, capacity, len(state.table.labels))
    duals = proof.feasible(state.table, _duals_of_rows(state, grouped))
    prices = proof.price(state.table, duals)
    proven = proof.prove(state.table, duals, prices)
    if state.proven is None or proven.bound > state.proven.bound:
        state.proven = proven
    alpha = pool.pool_convexity(state.pool, prices)
    reduced = pool.reduced_costs(state.table, prices, alpha)
    held = np.zeros(len(state.pool.is_used))
    used = np.flatnonzero(state.pool.is_used)
    held[used] = reduced[(state.pool.signs[used] < 0).astype(int), state.pool.monomials[used]]
    num_new += state.pool.enter(pool.most_promising(state.pool, reduced, per_sign), held)
    if state.gap < before:
        is_loose_above = state.upper_bound - value > value - state.lower_bound
        change = _CHANGE if is_loose_above else 1 / _CHANGE
        state.primal_weight = float(
            np.clip(state.primal_weight * change, _LEAST_WEIGHT, _MOST_WEIGHT)
        )
    state.num_rounds += 1
    return num_new


def prove_from(state: LargeRelaxation, duals: TableDuals) -> None:
    """Sets the lower bound to the one that duals of another relaxation prove, in place."""
    duals = proof.feasible(state.table, duals)
    state.proven = proof.prove(state.table, duals, proof.price(state.table, duals))


def as_either(duals: TableDuals, labels: np.ndarray) -> TableDuals:
    """Duals of cuts of both orders as duals of the weaker cuts, in which hypotheses of either sign
    count.
    """
    is_positive = labels[duals.cuts.inside] > 0
    positive = np.where(is_positive, duals.cuts.inside, duals.cuts.outside)
    negative = np.where(is_positive, duals.cuts.outside, duals.cuts.inside)
    return TableDuals(
        duals.example_weights, duals.cuts._replace(inside=positive, outside=negative), True
    )


def _padded_size(num_rows: int) -> int:
    """The number of rows of the master's program."""
    return shared_size(num_rows, least=_LEAST_ROWS, doubles_to=_ROWS_DOUBLE_TO)


def _patterns(state: LargeRelaxation) -> Patterns:
    """The patterns of the rows on all columns held. Each row is its own pattern if there are few
    rows, or if there are nearly as many patterns as rows.
    """
    labels, weights = state.table.labels, state.table.weights
    if len(labels) <= _FEW_ROWS:
        rows = np.arange(len(labels), dtype=np.int32)
        return Patterns(rows, rows, weights)
    positive, negative = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
    found = patterns.find(state.pool.covered[:, state.pool.is_used], positive, negative, weights)
    if len(found.rows) > _NO_PATTERNS * len(labels):
        rows = np.arange(len(labels), dtype=np.int32)
        return Patterns(rows, rows, weights)
    return found


def _solve_master(state: LargeRelaxation, grouped: Patterns, capacity: int) -> float:
    """Solves the master from the last solution, in place. Returns the value of its point."""
    first, second, cuts = _cuts_of_patterns(state, grouped)
    number, num_columns = len(grouped.rows), len(state.pool.is_used)
    is_small = len(state.table.labels) <= _FEW_ROWS
    shape = (number, len(cuts)) if is_small else (_padded_size(number), capacity)
    unit = float(grouped.weights.mean())
    program = _program(state, grouped, (first, second), shape, unit)
    start = _start(state, grouped, cuts, shape, unit)
    weight = np.asarray(state.primal_weight / unit, program.costs.dtype)
    entries = shape[0] * num_columns
    iterations = _ITERATIONS[int(entries > _CHEAP) + int(entries > _DEAR)]
    if is_small:
        found = _improve_on_host(program, start, float(weight), iterations)
    else:
        found = master.improve(program, start, weight, np.asarray(iterations, np.int32))
    found = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), found)
    state.pool.coefficients = found.coefficients
    state.pool.extra = found.extra * state.pool.is_used
    state.slacks = found.slacks[:number][grouped.of_row]
    rates = (
        unit * found.example_weights[:number] / np.where(grouped.weights > 0, grouped.weights, 1)
    )
    state.rates = rates[grouped.of_row]
    state.cuts.set_duals(unit * found.pair_weights[: len(cuts)])
    of_columns = float(state.pool.costs @ state.pool.selected)
    of_constants = state.table.constant_cost * float(found.coefficients[-2:].sum())
    return float(grouped.weights @ found.slacks[:number]) + of_columns + of_constants


def _improve_on_host(
    program: MasterProgram, start: MasterIterate, primal_weight: float, num_iterations: int
) -> MasterIterate:
    """The iteration over the columns that the pool holds, by NumPy."""
    used = np.flatnonzero(program.is_column)
    with_constants = np.append(used, len(program.costs) + np.arange(2))
    held = program._replace(
        margins=program.margins[:, used],
        serves=program.serves[:, used],
        costs=program.costs[used],
        is_column=program.is_column[used],
    )
    begin = start._replace(coefficients=start.coefficients[with_constants], extra=start.extra[used])
    found = master_on_host.improve(held, begin, primal_weight, num_iterations)
    coefficients, extra = np.zeros_like(start.coefficients), np.zeros_like(start.extra)
    coefficients[with_constants], extra[used] = found.coefficients, found.extra
    return found._replace(coefficients=coefficients, extra=extra)


def _cuts_of_patterns(
    state: LargeRelaxation, grouped: Patterns
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cuts between patterns, as their two patterns [K] each and their duals. Equal cuts are
    merged in place, with the sum of their duals.
    """
    cuts = state.cuts
    first, second = grouped.of_row[cuts.inside], grouped.of_row[cuts.outside]
    keys = first.astype(np.int64) * len(grouped.rows) + second
    _, kept, group = np.unique(keys, return_index=True, return_inverse=True)
    if len(kept) < len(keys):
        sums = np.bincount(group.reshape(-1), weights=cuts.duals, minlength=len(kept))
        cuts.duals = cuts.duals.copy()
        cuts.duals[kept] = sums
        is_kept = np.zeros(len(keys), bool)
        is_kept[kept] = True
        cuts.keep(is_kept)
        first, second = first[is_kept], second[is_kept]
    return first, second, cuts.duals


def _program(
    state: LargeRelaxation,
    grouped: Patterns,
    ends: tuple[np.ndarray, np.ndarray],
    shape: tuple[int, int],
    unit: float,
) -> master.MasterProgram:
    """The master, padded to a shape: its numbers of rows and of cuts."""
    dtype, (size, capacity) = np.dtype("float32"), shape
    table, held = state.table, state.pool
    covered = held.covered[grouped.rows] * held.is_used.astype(np.uint8)
    labels = table.labels[grouped.rows]
    missing = size - len(labels)
    signed = covered * held.signs[None, :].astype(np.int8) * labels[:, None].astype(np.int8)
    serves = _served(covered, held.signs, labels, ends, state.is_either)
    spare = capacity - len(ends[0])
    first, second = (np.pad(part, (0, spare)).astype(np.int32) for part in ends)
    return master.MasterProgram(
        np.pad(signed, ((0, missing), (0, 0))).astype(master.TABLE_DTYPE),
        np.pad(serves, ((0, spare), (0, 0))).astype(master.TABLE_DTYPE),
        first,
        second,
        (np.arange(capacity) < len(ends[0])).astype(dtype),
        (held.costs / unit).astype(dtype),
        np.asarray(table.constant_cost / unit, dtype),
        np.pad(grouped.weights / unit, (0, missing)).astype(dtype),
        np.pad(labels, (0, missing)).astype(dtype),
        held.is_used,
        np.asarray(table.margin, dtype),
    )


def _served(
    covered: np.ndarray,
    signs: np.ndarray,
    labels: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray],
    is_either: bool,
) -> np.ndarray:
    """Which columns count in which cuts, [K, U]: those with the sign of the first row that cover it
    and not the second row. With `is_either` the roles may also be swapped.
    """
    own, other = covered[ends[0]], covered[ends[1]]
    of_first = labels[ends[0]][:, None] == signs[None, :]
    forth = (own > other) & of_first
    return forth | ((other > own) & ~of_first) if is_either else forth


def _start(
    state: LargeRelaxation,
    grouped: Patterns,
    duals: np.ndarray,
    shape: tuple[int, int],
    unit: float,
) -> master.MasterIterate:
    """The last point for the program of `_program`."""
    dtype, number, (size, capacity) = np.float32, len(grouped.rows), shape
    slacks, weights = np.zeros(size), np.zeros(size)
    share = state.table.weights / np.where(grouped.weights > 0, grouped.weights, 1)[grouped.of_row]
    slacks[:number] = np.bincount(grouped.of_row, weights=state.slacks * share, minlength=number)
    weights[:number] = (
        np.bincount(grouped.of_row, weights=state.rates * state.table.weights, minlength=number)
        / unit
    )
    pair_weights = np.pad(duals / unit, (0, capacity - len(duals)))
    coefficients = np.where(np.append(state.pool.is_used, [True, True]), state.pool.coefficients, 0)
    parts = (coefficients, state.pool.extra, slacks, weights, pair_weights)
    return master.MasterIterate(*(part.astype(dtype) for part in parts))


def master_point(state: LargeRelaxation) -> MasterPoint:
    """The point of the last master, columns of the largest mu first."""
    held = state.pool
    slots = np.flatnonzero(held.is_used & (held.selected > _USED))
    slots = slots[np.argsort(-held.selected[slots], kind="stable")]
    return MasterPoint(
        held.columns(slots),
        held.covered[:, slots],
        held.coefficients[slots],
        held.coefficients[-2:],
        held.selected[slots],
        state.slacks,
    )


def _duals_of_rows(state: LargeRelaxation, grouped: Patterns) -> TableDuals:
    """The duals of the master, by rows. They are first reduced so that those of each pattern
    satisfy its constraint.
    """
    table, cuts = state.table, state.cuts
    used = cuts.duals > 0
    first, second = grouped.of_row[cuts.inside[used]], grouped.of_row[cuts.outside[used]]
    number = len(grouped.rows)
    weights = np.bincount(grouped.of_row, weights=state.rates * table.weights, minlength=number)
    by_pattern = MonomialTable(*table[:4], grouped.weights, table.margin, table.constant_cost)
    shrunk = proof.feasible(
        by_pattern, TableDuals(weights, patterns.RowCuts(first, second, cuts.duals[used]))
    )
    rates = shrunk.example_weights / np.where(grouped.weights > 0, grouped.weights, 1)
    example_weights = rates[grouped.of_row] * table.weights
    if number == len(table.labels):
        return TableDuals(
            example_weights,
            patterns.RowCuts(cuts.inside[used], cuts.outside[used], shrunk.cuts.weights),
            state.is_either,
        )
    capacity = table.weights - (1 + table.margin) * example_weights
    spread = patterns.spread(grouped, np.maximum(capacity, 0), first, second, shrunk.cuts.weights)
    return TableDuals(example_weights, spread, state.is_either)
