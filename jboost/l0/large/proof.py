"""The lower bound that duals prove for the relaxation over all monomials.

It follows from the dual of Goldberg and Eckstein 2009, (18). Let w, v >= 0 satisfy
(1 + rho) w_i + (sum of v over the cuts of i) <= weight_i for every row i. Let alpha satisfy
alpha + g_u + s_u <= c_u and s_u <= c_u for every monomial u. Then rho sum w + sum v + alpha is a
lower bound. g_u is the edge of u under w. s_u is the reward of u, the sum of v over the cuts in
which u counts.

If a monomial violates this, v is reduced on its cuts: each v is multiplied by the least factor that
one of its monomials requires. This increases no s_u.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jboost.l0.large.patterns import RowCuts
from jboost.monomials import products
from jboost.monomials.products import ListedMonomials, Literals

_NUM_LEVELS = 11  # the number of values of alpha that are tried
# At most so many violated monomials of a sign get individual factors; all others share one.
_MOST_REPAIRED = 1024
_ENTRIES = 1 << 24  # the most entries of the table of violated monomials and cuts
_CAUTION = 1e-12  # a margin for rounding in float64


class MonomialTable(NamedTuple):
    """The literals of m rows, and every monomial over them with its cost."""

    literals: Literals
    monomials: ListedMonomials  # [n]
    costs: np.ndarray  # [n]
    labels: np.ndarray  # [m] +1 or -1
    weights: np.ndarray  # [m]
    margin: float
    constant_cost: float

    def covers(self, columns: np.ndarray, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Which rows each of the monomials with indices [k] covers, [m', k] uint8."""
        return self.literals.covers(self.monomials.take(columns), rows)


def first_rows(table: MonomialTable, size: int) -> MonomialTable:
    """The table of only the first rows, over the same monomials.

    A bound that duals of these rows prove also holds for all rows, with duals of 0 for the others.
    """
    literals = table.literals._replace(base=table.literals.base[:size])
    return table._replace(
        literals=literals, labels=table.labels[:size], weights=table.weights[:size]
    )


class TableDuals(NamedTuple):
    """w and v by rows.

    A cut rewards the monomials of the sign of its inside row. With `is_either` the inside row is
    the positive one, and the cut also rewards the negative monomials that cover its outside row
    alone.
    """

    example_weights: np.ndarray  # [m]
    cuts: RowCuts
    is_either: bool = False


class Prices(NamedTuple):
    """Edges and rewards of all monomials, with sign +1 in row 0 and -1 in row 1."""

    edges: np.ndarray  # [2, n] g
    rewards: np.ndarray  # [2, n] s
    of_constants: float  # the larger edge of the two constants
    slack: float  # a bound on the rounding error of g + s


class TableBound(NamedTuple):
    """A lower bound, and everything needed to recompute it."""

    bound: float
    convexity: float  # alpha
    duals: TableDuals


def price(table: MonomialTable, duals: TableDuals) -> Prices:
    """Edges and rewards of all monomials."""
    signed = duals.example_weights * table.labels
    edges = products.sums_of(table.literals, table.monomials, signed)
    rewards = []
    for row in (0, 1):
        members, inside, outside = _of_sign(table, duals, row)
        served = products.rewards_of(
            table.literals, table.monomials, inside, outside, duals.cuts.weights[members]
        )
        rewards.append(np.maximum(served, 0))
    total = float(duals.example_weights.sum() + duals.cuts.weights.sum())
    slack = products.slack(len(signed) + len(duals.cuts.weights), total)
    return Prices(
        np.stack([edges, -edges]), np.stack(rewards), abs(float(signed.sum())) + slack, slack
    )


def _of_sign(
    table: MonomialTable, duals: TableDuals, row: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cuts [k] that reward monomials of sign +1 (row 0) or -1 (row 1), the rows that such a
    monomial must cover, and the rows that it must not.
    """
    inside, outside = duals.cuts.inside, duals.cuts.outside
    if duals.is_either:
        return np.arange(len(inside)), *((inside, outside) if row == 0 else (outside, inside))
    members = np.flatnonzero(table.labels[inside] == (1, -1)[row])
    return members, inside[members], outside[members]


def feasible(table: MonomialTable, duals: TableDuals) -> TableDuals:
    """The duals, reduced row by row so that they satisfy the constraint of each row."""
    load = (1 + table.margin) * duals.example_weights
    load = load + np.bincount(duals.cuts.inside, duals.cuts.weights, len(load))
    load = load + np.bincount(duals.cuts.outside, duals.cuts.weights, len(load))
    share = np.where(load > table.weights, table.weights / np.where(load > 0, load, 1), 1.0) * (
        1 - _CAUTION
    )
    least = np.minimum(share[duals.cuts.inside], share[duals.cuts.outside])
    cuts = duals.cuts._replace(weights=duals.cuts.weights * least)
    return duals._replace(example_weights=duals.example_weights * share, cuts=cuts)


def prove(table: MonomialTable, duals: TableDuals, prices: Prices) -> TableBound:
    """The best bound over some values of alpha. `duals` must be feasible; `prices` are theirs."""
    edges, slack = prices.edges, prices.slack
    costs = table.costs[None, :]
    least = max(
        float(np.max(edges - costs, initial=-np.inf)) + slack,
        prices.of_constants - table.constant_cost,
    )
    most = max(float(np.max(edges + prices.rewards - costs, initial=-np.inf)) + slack, least)
    levels = least + (most - least) * np.linspace(0, 1, _NUM_LEVELS) ** 2
    base = table.margin * float(duals.example_weights.sum())
    best = (-np.inf, 0.0, duals.cuts.weights)
    for level in levels:
        allowed = np.minimum(costs, costs + level - edges) - slack
        weights = duals.cuts.weights * _shares(table, duals, prices.rewards, allowed)
        bound = base + float(weights.sum()) - level
        if bound > best[0]:
            best = (bound, level, weights)
    bound, level, weights = best
    total = float(duals.example_weights.sum() + weights.sum())
    bound -= products.slack(len(weights) + len(table.labels), total)
    kept = weights > 0
    cuts = RowCuts(duals.cuts.inside[kept], duals.cuts.outside[kept], weights[kept])
    return TableBound(bound, -level, duals._replace(cuts=cuts))


def _shares(
    table: MonomialTable, duals: TableDuals, rewards: np.ndarray, allowed: np.ndarray
) -> np.ndarray:
    """Factors for the duals of the cuts [K], with which no reward exceeds `allowed` [2, n]."""
    shares = np.ones(len(duals.cuts.weights))
    for row in (0, 1):
        members, inside, outside = _of_sign(table, duals, row)
        violated = np.flatnonzero(rewards[row] > allowed[row])
        if len(violated) == 0 or len(members) == 0:
            continue
        rewarded = rewards[row, violated]
        kept = np.maximum(allowed[row, violated], 0) / np.where(rewarded > 0, rewarded, 1)
        order = np.argsort(kept)
        most = max(1, min(_MOST_REPAIRED, _ENTRIES // len(members)))
        each, rest = order[:most], order[most:]
        served = _served(table, inside, outside, violated[each])
        least = np.min(np.where(served, kept[each], 1.0), axis=1)
        # all other violated monomials: one factor for all duals, that of the largest violation
        if len(rest):
            least = np.minimum(least, kept[rest[0]])
        shares[members] = np.minimum(shares[members], least)
    return shares * (1 - _CAUTION)


def _served(
    table: MonomialTable, inside: np.ndarray, outside: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Whether each of the monomials [c] counts in the cut of each pair of rows [k], [k, c] bool."""
    own, other = (table.covers(columns, rows) for rows in (inside, outside))
    return own > other
