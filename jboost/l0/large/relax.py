"""One round of column and cut generation: the master, the point that it leads to, and the bound that its duals prove.

The path of a round: patterns of the rows -> `master.improve` -> `feasible_point` (all pairs) -> upper bound and
violated cuts; and -> `duals_of_rows` -> `proof.price` and `proof.prove` -> lower bound and new columns.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.l0.large import master, patterns, pool, proof, separation
from jboost.l0.large.patterns import Patterns
from jboost.l0.large.pool import Cuts, Pool
from jboost.l0.large.proof import Duals, Proven, Table
from jboost.l0.large.separation import Violated
from jboost.l0.large.votes import Columns

_FIRST_PRIMAL_WEIGHT = 10.0  # found by trial on PIMA-sized tables of weights 1
_LEAST_WEIGHT, _MOST_WEIGHT, _CHANGE = 1.0, 100.0, 1.2
_ITERATIONS = (300, 120, 60)
_CHEAP, _DEAR = 1 << 22, 1 << 24  # entries of a master up to which it gets the first, or the second, of these
_USED = 1e-7  # mu of a column in use
_CHEAP_PASS = 20_000_000_000  # products up to which the slacks are tightened by further passes
_NO_PATTERNS = 0.9  # of the rows: with more patterns the master works on rows


class PrimalPoint(NamedTuple):
    """A point of the relaxation, which meets all margins and all cuts."""

    columns: Columns  # [a]
    coefficients: np.ndarray  # [a] lambda
    constants: np.ndarray  # [2]
    selected: np.ndarray  # [a] mu
    slacks: np.ndarray  # [m] xi


@dataclasses.dataclass
class Relaxation:
    """What is known of the relaxation with cuts of both orders, or (`is_either`) with the weaker ones that hold of (15)."""

    table: Table
    pool: Pool
    is_either: bool
    cuts: Cuts
    slacks: np.ndarray  # [m] of the last master
    rates: np.ndarray  # [m] w of the last master, for a weight of 1
    primal_weight: float = _FIRST_PRIMAL_WEIGHT
    upper_bound: float = np.inf
    point: PrimalPoint | None = None
    proven: Proven | None = None
    num_rounds: int = 0

    @property
    def lower_bound(self) -> float:
        """Proven over all monomials; no cost is negative."""
        return 0.0 if self.proven is None else max(self.proven.bound, 0.0)

    @property
    def gap(self) -> float:
        """Relative to the upper bound, where that is more than 1."""
        return (self.upper_bound - self.lower_bound) / max(self.upper_bound, 1.0) if self.upper_bound < np.inf else np.inf


def begin(table: Table, columns: Pool, *, is_either: bool) -> Relaxation:
    """Nothing known."""
    num_rows = len(table.labels)
    return Relaxation(table, columns, is_either, Cuts(), np.ones(num_rows), np.zeros(num_rows))


def step(state: Relaxation, *, capacity: int, per_sign: int) -> int:
    """One round, in place; how many columns and cuts came in."""
    before = state.gap
    grouped = _patterns(state)
    value = _solve_master(state, grouped, capacity)
    violated = _bound_above(state, grouped)
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
        state.primal_weight = float(np.clip(state.primal_weight * change, _LEAST_WEIGHT, _MOST_WEIGHT))
    state.num_rounds += 1
    return num_new


def prove_from(state: Relaxation, duals: Duals) -> None:
    """A bound from duals of another relaxation, in place."""
    duals = proof.feasible(state.table, duals)
    state.proven = proof.prove(state.table, duals, proof.price(state.table, duals))


def as_either(duals: Duals, labels: np.ndarray) -> Duals:
    """Duals of cuts of both orders as duals of cuts that count either way."""
    is_positive = labels[duals.cuts.inside] > 0
    positive = np.where(is_positive, duals.cuts.inside, duals.cuts.outside)
    negative = np.where(is_positive, duals.cuts.outside, duals.cuts.inside)
    return Duals(duals.example_weights, duals.cuts._replace(inside=positive, outside=negative), True)


def _patterns(state: Relaxation) -> Patterns:
    """Rows that agree on all columns held, or the rows themselves where hardly any do."""
    labels, weights = state.table.labels, state.table.weights
    positive, negative = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
    found = patterns.find(state.pool.covered[:, state.pool.is_used], positive, negative, weights)
    if len(found.rows) > _NO_PATTERNS * len(labels):
        rows = np.arange(len(labels), dtype=np.int32)
        return Patterns(rows, rows, weights)
    return found


def _solve_master(state: Relaxation, grouped: Patterns, capacity: int) -> float:
    """The master from where the last one ended, in place; the value of its point."""
    first, second, cuts = _cuts_of_patterns(state, grouped)
    size, width = _size(len(grouped.rows)), len(state.pool.is_used)
    unit = float(grouped.weights.mean())
    program = _program(state, grouped, (first, second), size, capacity, unit)
    start = _start(state, grouped, cuts, size, capacity, unit)
    entries = size * width
    iterations = _ITERATIONS[int(entries > _CHEAP) + int(entries > _DEAR)]
    weight = jnp.asarray(state.primal_weight / unit, program.margins.dtype)
    found = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), master.improve(program, start, weight, num_iterations=iterations))
    number = len(grouped.rows)
    state.pool.coefficients, state.pool.extra = found.coefficients.copy(), found.extra * state.pool.is_used
    state.slacks = found.slacks[:number][grouped.of_row]
    rates = unit * found.example_weights[:number] / np.where(grouped.weights > 0, grouped.weights, 1)
    state.rates = rates[grouped.of_row]
    state.cuts.set_duals(unit * found.pair_weights[: len(cuts)])
    of_columns = float(state.pool.costs @ state.pool.selected)
    of_constants = state.table.constant_cost * float(found.coefficients[-2:].sum())
    return float(grouped.weights @ found.slacks[:number]) + of_columns + of_constants


def _cuts_of_patterns(state: Relaxation, grouped: Patterns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cuts between patterns, equal ones as one of the sum of their duals, in place; both ends [K], and the duals."""
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
    state: Relaxation, grouped: Patterns, ends: tuple[np.ndarray, np.ndarray], size: int, capacity: int, unit: float
) -> master.Program:
    dtype = np.dtype("float32")
    table, held = state.table, state.pool
    covered = held.covered[grouped.rows] * held.is_used.astype(np.uint8)
    labels = table.labels[grouped.rows]
    missing = size - len(labels)
    signed = covered * held.signs[None, :].astype(np.int8) * labels[:, None].astype(np.int8)
    serves = _served(covered, held.signs, labels, ends, state.is_either)
    spare = capacity - len(ends[0])
    arrays = (
        np.pad(signed, ((0, missing), (0, 0))).astype(dtype),
        np.pad(serves, ((0, spare), (0, 0))).astype(dtype),
    )
    return master.Program(
        *(jnp.asarray(part) for part in arrays),
        *(jnp.asarray(np.pad(part, (0, spare)).astype(np.int32)) for part in ends),
        jnp.asarray((np.arange(capacity) < len(ends[0])).astype(dtype)),
        jnp.asarray((held.costs / unit).astype(dtype)),
        jnp.asarray(table.constant_cost / unit, dtype),
        jnp.asarray(np.pad(grouped.weights / unit, (0, missing)).astype(dtype)),
        jnp.asarray(np.pad(labels, (0, missing)).astype(dtype)),
        jnp.asarray(held.is_used),
        jnp.asarray(table.margin, dtype),
    )


def _served(
    covered: np.ndarray, signs: np.ndarray, labels: np.ndarray, ends: tuple[np.ndarray, np.ndarray], is_either: bool
) -> np.ndarray:
    """Which columns serve which cuts, [K, U]: those of the sign of the first end that cover it and not the second."""
    own, other = covered[ends[0]], covered[ends[1]]
    of_first = labels[ends[0]][:, None] == signs[None, :]
    forth = (own > other) & of_first
    return forth | ((other > own) & ~of_first) if is_either else forth


def _start(
    state: Relaxation, grouped: Patterns, duals: np.ndarray, size: int, capacity: int, unit: float
) -> master.Point:
    dtype, number = np.float32, len(grouped.rows)
    slacks, weights = np.zeros(size), np.zeros(size)
    share = state.table.weights / np.where(grouped.weights > 0, grouped.weights, 1)[grouped.of_row]
    slacks[:number] = np.bincount(grouped.of_row, weights=state.slacks * share, minlength=number)
    weights[:number] = np.bincount(grouped.of_row, weights=state.rates * state.table.weights, minlength=number) / unit
    pair_weights = np.pad(duals / unit, (0, capacity - len(duals)))
    coefficients = np.where(np.append(state.pool.is_used, [True, True]), state.pool.coefficients, 0)
    parts = (coefficients, state.pool.extra, slacks, weights, pair_weights)
    return master.Point(*(jnp.asarray(part.astype(dtype)) for part in parts))


def _size(number: int) -> int:
    """Rows of a program: few sizes, at most a quarter too many."""
    power = 1 << max(number - 1, 0).bit_length()
    return max(64, next(size for size in (power * 5 // 8, power * 3 // 4, power * 7 // 8, power) if size >= number))


def _bound_above(state: Relaxation, grouped: Patterns) -> Violated:
    """A feasible point next to that of the master, in place where it is better; the pairs that the master's own slacks violate."""
    table, held = state.table, state.pool
    slots = np.flatnonzero(held.is_used & (held.selected > _USED))
    total = held.coefficients[slots].sum() + held.coefficients[-2:].sum()
    coefficients, constants = held.coefficients[slots] / total, held.coefficients[-2:] / total
    selected = np.maximum(held.selected[slots], coefficients)
    covered = held.covered[:, slots]
    positive, negative = np.flatnonzero(table.labels > 0), np.flatnonzero(table.labels < 0)
    sides = separation.group(covered[positive], positive), separation.group(covered[negative], negative)
    pairs = separation.Pairs(*sides, held.signs[slots], selected, state.is_either)
    needs, lowest = [], []
    for side, sign in zip(sides, (1, -1), strict=True):
        scores = sign * (side.covered @ (coefficients * held.signs[slots]) + constants[0] - constants[1])
        needs.append(np.clip((table.margin - scores) / (1 + table.margin), 0, None) * (1 + 1e-12))
        least = np.full(len(side.rows), np.inf)
        np.minimum.at(least, side.group_of, state.slacks[side.members])
        lowest.append(np.maximum(least, needs[-1]))
    weights = [np.bincount(side.group_of, weights=table.weights[side.members], minlength=len(side.rows)) for side in sides]
    slacks, violated = _meet_all_cuts(pairs, needs, lowest, weights)
    of_slacks = sum(float(weight @ part) for weight, part in zip(weights, slacks, strict=True))
    value = of_slacks + float(table.costs[held.monomials[slots]] @ selected) + table.constant_cost * float(constants.sum())
    value *= 1 + 1e-12
    if value < state.upper_bound:
        by_row = np.zeros(len(table.labels))
        for side, part in zip(sides, slacks, strict=True):
            by_row[side.members] = part[side.group_of]
        state.upper_bound = value
        state.point = PrimalPoint(held.columns(slots), coefficients, constants, selected, by_row)
    return violated


def _meet_all_cuts(
    pairs: separation.Pairs, needs: list[np.ndarray], lowest: list[np.ndarray], weights: list[np.ndarray]
) -> tuple[list[np.ndarray], Violated]:
    """Slacks of the groups of both classes that meet all cuts, the cheapest of a few ways; and the pairs violated by the lowest.

    One class raises its slacks to what the other one leaves; or both share what is missing, and then each
    in turn goes down as far as the other one allows.
    """
    seen = separation.look(pairs, *lowest)
    wants = [seen.of_positive, seen.of_negative]
    ways = [
        [np.maximum(needs[0], wants[0]), lowest[1]],
        [lowest[0], np.maximum(needs[1], wants[1])],
        [low + 0.5 * np.maximum(want - low, 0) for low, want in zip(lowest, wants, strict=True)],
    ]
    if separation.num_products(pairs) <= _CHEAP_PASS:
        half = ways[2]
        first = np.maximum(needs[0], separation.look(pairs, *half).of_positive)
        second = np.maximum(needs[1], separation.look(pairs, first, half[1]).of_negative)
        ways.append([first, second])
    prices = [sum(float(weight @ part) for weight, part in zip(weights, way, strict=True)) for way in ways]
    return ways[int(np.argmin(prices))], seen.violated


def _duals_of_rows(state: Relaxation, grouped: Patterns) -> Duals:
    """The duals of the master, by rows; those of a pattern are first shrunk to what its weight allows."""
    table, cuts = state.table, state.cuts
    used = cuts.duals > 0
    first, second = grouped.of_row[cuts.inside[used]], grouped.of_row[cuts.outside[used]]
    number = len(grouped.rows)
    weights = np.bincount(grouped.of_row, weights=state.rates * table.weights, minlength=number)
    by_pattern = Table(*table[:4], grouped.weights, table.margin, table.constant_cost)
    shrunk = proof.feasible(by_pattern, Duals(weights, patterns.RowCuts(first, second, cuts.duals[used])))
    rates = shrunk.example_weights / np.where(grouped.weights > 0, grouped.weights, 1)
    example_weights = rates[grouped.of_row] * table.weights
    if number == len(table.labels):
        return Duals(example_weights, patterns.RowCuts(cuts.inside[used], cuts.outside[used], shrunk.cuts.weights), state.is_either)
    capacity = table.weights - (1 + table.margin) * example_weights
    spread = patterns.spread(grouped, np.maximum(capacity, 0), first, second, shrunk.cuts.weights)
    return Duals(example_weights, spread, state.is_either)
