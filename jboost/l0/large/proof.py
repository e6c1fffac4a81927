"""What duals prove about the relaxation over every monomial, whose rewards are all known.

The dual of Goldberg and Eckstein 2009, (18): any w, v >= 0 with (1 + rho) w_i + sum of v over the
cuts of i <= weight_i, and alpha with alpha + g_u + s_u <= c_u and s_u <= c_u for every u, prove rho
sum w + sum v + alpha. g_u is the edge of u under w, s_u the sum of v over the cuts that it serves.
Where a column violates this, v is reduced on the cuts that it serves: each v is multiplied by the
least factor that one of its columns requires. No s_u grows by that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jboost.l0.large.patterns import RowCuts
from jboost.monomials import products
from jboost.monomials.products import Listed, Literals

_NUM_LEVELS = 11  # values of alpha that are tried
_MOST_REPAIRED = 1024  # violated columns of a sign whose cuts shrink one by one
_ENTRIES = 1 << 24  # of the table of violated columns and cuts
_CAUTION = 1e-12


class Table(NamedTuple):
    """The literals of m rows, and every monomial over them with its cost."""

    literals: Literals
    monomials: Listed  # [n]
    costs: np.ndarray  # [n]
    labels: np.ndarray  # [m] +1 or -1
    weights: np.ndarray  # [m]
    margin: float
    constant_cost: float

    def covers(self, columns: np.ndarray, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Which rows each of the monomials at places [k] covers, [m', k] uint8."""
        return self.literals.covers(self.monomials.take(columns), rows)


def first_rows(table: Table, size: int) -> Table:
    """The table of the first rows alone, over the same monomials.

    What duals of these rows prove holds of all rows: those of the others are 0.
    """
    literals = table.literals._replace(base=table.literals.base[:size])
    return table._replace(
        literals=literals, labels=table.labels[:size], weights=table.weights[:size]
    )


class Duals(NamedTuple):
    """w and v by rows.

    A cut rewards the monomials of the sign of its inside row. With `is_either` the inside row is
    the positive one, and the cut also rewards the negative monomials that cover its outside row
    alone.
    """

    example_weights: np.ndarray  # [m]
    cuts: RowCuts
    is_either: bool = False


class Prices(NamedTuple):
    """What is known of all monomials, of sign +1 in row 0 and -1 in row 1."""

    edges: np.ndarray  # [2, n] g
    rewards: np.ndarray  # [2, n] s
    of_constants: float  # the larger edge of the two constants
    slack: float  # what rounding may hide of g + s


class Proven(NamedTuple):
    """A bound, and all it takes to compute it anew."""

    bound: float
    convexity: float  # alpha
    duals: Duals


def price(table: Table, duals: Duals) -> Prices:
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


def _of_sign(table: Table, duals: Duals, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cuts [k] that reward monomials of sign +1 (row 0) or -1 (row 1), and the rows that these
    cover, and do not.
    """
    inside, outside = duals.cuts.inside, duals.cuts.outside
    if duals.is_either:
        return np.arange(len(inside)), *((inside, outside) if row == 0 else (outside, inside))
    members = np.flatnonzero(table.labels[inside] == (1, -1)[row])
    return members, inside[members], outside[members]


def feasible(table: Table, duals: Duals) -> Duals:
    """The duals, shrunk row by row to what the weights of rows allow."""
    load = (1 + table.margin) * duals.example_weights
    load = load + np.bincount(duals.cuts.inside, duals.cuts.weights, len(load))
    load = load + np.bincount(duals.cuts.outside, duals.cuts.weights, len(load))
    share = np.where(load > table.weights, table.weights / np.where(load > 0, load, 1), 1.0) * (
        1 - _CAUTION
    )
    least = np.minimum(share[duals.cuts.inside], share[duals.cuts.outside])
    cuts = duals.cuts._replace(weights=duals.cuts.weights * least)
    return duals._replace(example_weights=duals.example_weights * share, cuts=cuts)


def prove(table: Table, duals: Duals, prices: Prices) -> Proven:
    """The best bound over some values of alpha; duals are feasible ones, with their prices."""
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
    return Proven(bound, -level, duals._replace(cuts=cuts))


def _shares(table: Table, duals: Duals, rewards: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """The factor of the dual of each cut [K] with which no monomial is rewarded with more than
    `allowed` [2, n].
    """
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
        # less violated ones: all duals are reduced alike, by the factor that the most violated of
        # them requires
        if len(rest):
            least = np.minimum(least, kept[rest[0]])
        shares[members] = np.minimum(shares[members], least)
    return shares * (1 - _CAUTION)


def _served(
    table: Table, inside: np.ndarray, outside: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Whether each pair of rows [k] is told apart by each of the monomials [c], [k, c] bool."""
    own, other = (table.covers(columns, rows) for rows in (inside, outside))
    return own > other
