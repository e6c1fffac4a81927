"""The columns and cuts that the master holds: host arrays of fixed size with the coefficients and
duals of each.
"""

from __future__ import annotations

import numpy as np

from jboost.l0.large import votes
from jboost.l0.large.proof import MonomialTable, Prices
from jboost.l0.large.separation import Violated
from jboost.l0.large.votes import MonomialVote, SignedMonomials

_MOST_IDLE = 3  # a cut is dropped after more rounds than this with a dual of 0
_LEAST_DUAL = 1e-6  # smaller duals of the approximate master count as 0
_MOST_OF_ROW = 20  # the most cuts of one row that enter in a round
_MOST_STARTING = 46  # the most columns of a starting point of a search for votes; not tuned
_LEAST_REDUCED = 1e-6  # smaller sizes of mu and of reduced costs count as 0


class ColumnPool:
    """Columns with their coefficients lambda and mu - lambda."""

    def __init__(self, table: MonomialTable, capacity: int) -> None:
        num_rows = len(table.labels)
        self.table = table
        self.monomials = np.full(capacity, -1, np.int64)
        self.signs = np.ones(capacity, np.int8)
        self.is_used = np.zeros(capacity, bool)
        self.covered = np.zeros((num_rows, capacity), np.uint8)
        self.coefficients = np.zeros(capacity + 2)
        self.coefficients[-2:] = 0.5
        self.extra = np.zeros(capacity)
        self.num_evicted = 0
        self.num_returned = 0
        self._slots: dict[tuple[int, int], int] = {}
        self.gone: set[tuple[int, int]] = set()  # columns that were replaced

    @classmethod
    def of_columns(
        cls,
        table: MonomialTable,
        columns: SignedMonomials,
        coefficients: np.ndarray,
        extra: np.ndarray,
    ) -> ColumnPool:
        """A pool of columns [U], with their coefficients [U + 2] and mu - lambda [U]. Slots with a
        monomial of -1 are empty.
        """
        pool = cls(table, len(columns.monomials))
        pool.monomials, pool.signs = columns.monomials.copy(), columns.signs.copy()
        pool.is_used = pool.monomials >= 0
        pool.coefficients, pool.extra = coefficients.copy(), extra.copy()
        used = np.flatnonzero(pool.is_used)
        pool.covered[:, used] = table.covers(pool.monomials[used])
        pool._slots = {
            (int(pool.monomials[slot]), int(pool.signs[slot])): int(slot) for slot in used
        }
        return pool

    @property
    def selected(self) -> np.ndarray:
        """mu, [U]."""
        return (self.coefficients[:-2] + self.extra) * self.is_used

    @property
    def costs(self) -> np.ndarray:
        """The costs of the columns, [U]; 0 for empty slots."""
        costs = np.zeros(len(self.is_used))
        costs[self.is_used] = self.table.costs[self.monomials[self.is_used]]
        return costs

    def held(self, row: int) -> np.ndarray:
        """The monomials that the pool holds with sign +1 (row 0) or -1 (row 1)."""
        return self.monomials[self.is_used & (self.signs == (1, -1)[row])]

    def columns(self, slots: np.ndarray) -> SignedMonomials:
        """The columns in slots [k]."""
        return SignedMonomials(self.monomials[slots], self.signs[slots])

    def starting_points(self) -> list[MonomialVote]:
        """Votes of the columns of largest lambda and of largest mu, without their loss, from which
        a search for votes begins.
        """
        found = []
        for values in (self.coefficients[:-2], self.selected):
            slots = np.flatnonzero(self.is_used & (values > 0))
            slots = slots[np.argsort(-values[slots], kind="stable")][:_MOST_STARTING]
            for start in votes.starting_points(np.append(self.coefficients[-2:], values[slots])):
                found.append(MonomialVote(self.columns(slots), start[2:], start[:2], np.inf))
        return found

    def extended_to(self, table: MonomialTable, capacity: int) -> ColumnPool:
        """A pool over more rows, with the columns of largest coefficients, up to the capacity."""
        other = ColumnPool(table, capacity)
        slots = np.flatnonzero(self.is_used)
        slots = slots[np.argsort(-(self.selected + self.coefficients[:-2])[slots], kind="stable")][
            :capacity
        ]
        count = other.enter(self.columns(slots), np.zeros(capacity))
        other.coefficients[:count], other.extra[:count] = (
            self.coefficients[slots],
            self.extra[slots],
        )
        other.coefficients[-2:] = self.coefficients[-2:]
        return other

    def enter(self, columns: SignedMonomials, reduced: np.ndarray) -> int:
        """Enters columns [k] that are not held, in order. They take free slots and replace columns
        with coefficient 0 and positive reduced cost.

        Args:
          columns: the new columns.
          reduced: [U] reduced costs of the columns held; the largest are replaced first.

        Returns:
          The number of columns that entered.
        """
        free = np.flatnonzero(~self.is_used)
        idle = np.flatnonzero(self.is_used & (self.selected < _LEAST_REDUCED) & (reduced > 0))
        idle = idle[np.argsort(-reduced[idle])]
        slots = np.concatenate([free, idle])
        count = 0
        for key in zip(*map(np.ndarray.tolist, columns), strict=True):
            if count == len(slots):
                break
            if key not in self._slots:
                self._write(int(slots[count]), key)
                count += 1
        entered = slots[:count]
        self.covered[:, entered] = self.table.covers(self.monomials[entered])
        return count

    def _write(self, slot: int, key: tuple[int, int]) -> None:
        if self.is_used[slot]:
            old = int(self.monomials[slot]), int(self.signs[slot])
            del self._slots[old]
            self.gone.add(old)
            self.num_evicted += 1
        self.num_returned += key in self.gone
        self._slots[key] = slot
        self.monomials[slot], self.signs[slot] = key
        self.is_used[slot] = True
        self.coefficients[slot] = self.extra[slot] = 0.0


class CutPool:
    """Cuts between rows, with their duals."""

    def __init__(self) -> None:
        self.inside = np.zeros(0, np.int32)
        self.outside = np.zeros(0, np.int32)
        self.duals = np.zeros(0)
        self.idle = np.zeros(0, np.int32)

    def keep(self, is_kept: np.ndarray) -> None:
        """Drops all cuts for which `is_kept` is False."""
        self.inside, self.outside = self.inside[is_kept], self.outside[is_kept]
        self.duals, self.idle = self.duals[is_kept], self.idle[is_kept]

    def set_duals(self, duals: np.ndarray) -> None:
        """Stores the duals of the last master, and counts for how long each has been 0."""
        self.duals = duals
        self.idle = np.where(duals > _LEAST_DUAL, 0, self.idle + 1).astype(np.int32)

    def enter(self, violated: Violated, capacity: int, num_rows: int) -> int:
        """Drops cuts whose duals have been 0 for several rounds. Then enters the cuts that are
        violated most, a limited number per row. Returns the number that entered.
        """
        self.keep(self.idle <= _MOST_IDLE)
        keys = violated.inside.astype(np.int64) * num_rows + violated.outside
        order = np.argsort(-violated.amounts, kind="stable")
        _, first = np.unique(keys[order], return_index=True)
        order = order[np.sort(first)]
        held = self.inside.astype(np.int64) * num_rows + self.outside
        order = order[~np.isin(keys[order], held)]
        order = order[_rank_in_group(violated.inside[order]) < _MOST_OF_ROW]
        order = order[_rank_in_group(violated.outside[order]) < _MOST_OF_ROW]
        if len(held) + len(order) > capacity:  # drop idle cuts, those idle for longest first
            spare = len(held) + len(order) - capacity
            idle = np.argsort(-self.idle, kind="stable")[:spare]
            is_kept = np.ones(len(held), bool)
            is_kept[idle[self.idle[idle] > 0]] = False
            self.keep(is_kept)
        order = order[: capacity - len(self.inside)]
        self.inside = np.concatenate([self.inside, violated.inside[order].astype(np.int32)])
        self.outside = np.concatenate([self.outside, violated.outside[order].astype(np.int32)])
        self.duals = np.concatenate([self.duals, np.zeros(len(order))])
        self.idle = np.concatenate([self.idle, np.zeros(len(order), np.int32)])
        return len(order)


def _rank_in_group(owners: np.ndarray) -> np.ndarray:
    """For each entry, the number of earlier entries with the same owner, [k]."""
    order = np.argsort(owners, kind="stable")
    ordered = owners[order]
    starts = (
        np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        if len(ordered)
        else np.zeros(0, int)
    )
    counts = np.diff(np.append(starts, len(ordered)))
    ranks = np.empty(len(owners), np.int64)
    ranks[order] = np.arange(len(ordered)) - np.repeat(starts, counts)
    return ranks


def reduced_costs(table: MonomialTable, prices: Prices, convexity: float) -> np.ndarray:
    """c_u - s_u - [alpha + g_u]_+ of all monomials, [2, n]. It is negative for monomials that may
    lower the optimum.
    """
    return table.costs[None, :] - prices.rewards - np.maximum(convexity + prices.edges, 0.0)


def pool_convexity(pool: ColumnPool, prices: Prices) -> float:
    """alpha over the columns held and the constants."""
    table = pool.table
    alpha = table.constant_cost - prices.of_constants
    for row in (0, 1):
        held = pool.held(row)
        if len(held):
            rest = table.costs[held] - prices.rewards[row, held] - prices.edges[row, held]
            alpha = min(alpha, float(rest.min()))
    return alpha


def most_promising(pool: ColumnPool, reduced: np.ndarray, per_sign: int) -> SignedMonomials:
    """The columns of least reduced costs among those not held, at most `per_sign` of each sign,
    best first.
    """
    indices, signs, values = [], [], []
    for row, sign in enumerate((1, -1)):
        values_of_sign = reduced[row].copy()
        values_of_sign[pool.held(row)] = np.inf
        count = min(per_sign, len(values_of_sign))
        best = np.argpartition(values_of_sign, count - 1)[:count] if count else np.zeros(0, int)
        best = best[values_of_sign[best] < -_LEAST_REDUCED]
        indices.append(best)
        signs.append(np.full(len(best), sign, np.int8))
        values.append(values_of_sign[best])
    order = np.argsort(np.concatenate(values))
    return SignedMonomials(
        np.concatenate(indices)[order].astype(np.int64), np.concatenate(signs)[order]
    )
