"""A feasible point of the relaxation near a point of the master: slacks that satisfy all margins
and the cuts of all pairs, and the cuts that the slacks of the master violate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jboost.l0.large import separation
from jboost.l0.large.proof import MonomialTable
from jboost.l0.large.separation import Violated
from jboost.l0.large.votes import SignedMonomials

_CHEAP_PASS = 4_000_000_000  # up to so many products a pass, further passes tighten the slacks
# With more products a pass, columns of small mu are left out of the point.
_LARGEST_PASS = 10_000_000_000
_LEAST_COLUMNS = 8  # at least so many columns (if there are) stay in the point
_GIVEN_UP = 1 - 1e-6  # with at least this slack, a row meets all its cuts
_CAUTION = 1e-12  # a margin for rounding in float64


class PrimalPoint(NamedTuple):
    """A point of the relaxation that satisfies all margins and cuts, up to rounding in float64."""

    columns: SignedMonomials  # [a]
    coefficients: np.ndarray  # [a] lambda
    constants: np.ndarray  # [2]
    selected: np.ndarray  # [a] mu
    slacks: np.ndarray  # [m] xi


class MasterPoint(NamedTuple):
    """Columns with lambda and mu, and initial slacks."""

    columns: SignedMonomials  # [a]
    covered: np.ndarray  # [m, a] uint8
    coefficients: np.ndarray  # [a] lambda
    constants: np.ndarray  # [2]
    selected: np.ndarray  # [a] mu
    slacks: np.ndarray  # [m]


def on_all_rows(table: MonomialTable, given: MasterPoint) -> MasterPoint:
    """A point of the master over some rows, extended to all rows of a table. Slacks are 0."""
    return given._replace(
        covered=table.covers(given.columns.monomials), slacks=np.zeros(len(table.labels))
    )


def near(
    table: MonomialTable, given: MasterPoint, *, is_either: bool
) -> tuple[float, PrimalPoint, Violated]:
    """A feasible point of the relaxation near a point of the master.

    Returns:
      The value of the feasible point, the point, and the pairs of rows whose cuts are violated by
      the slacks of the master, raised as far as the margins require.
    """
    given, sides = _limit_columns(table, given)
    columns = given.columns
    total = given.coefficients.sum() + given.constants.sum()
    shares, constants = given.coefficients / total, given.constants / total
    selected = np.maximum(given.selected, shares)
    classes = []
    for side, sign in zip(sides, (1, -1), strict=True):
        scores = sign * (side.covered @ (shares * columns.signs) + constants[0] - constants[1])
        needs = np.clip((table.margin - scores + _CAUTION) / (1 + table.margin), 0, None)
        side, least = _represented_by_least(side, given.slacks)
        lowest = np.maximum(least, needs)
        lowest = np.where(lowest < _GIVEN_UP, lowest, np.maximum(lowest, 1))
        weights = np.bincount(
            side.group_of, weights=table.weights[side.members], minlength=len(side.rows)
        )
        classes.append(_Class(side, needs, lowest, weights))
    pairs = separation.GroupPairs(
        _open_groups(classes[0]).side,
        _open_groups(classes[1]).side,
        columns.signs,
        selected,
        is_either,
    )
    slacks, violated = _satisfy_all_cuts(pairs, classes)
    value = sum(float(one.weights @ part) for one, part in zip(classes, slacks, strict=True))
    value += float(table.costs[columns.monomials] @ selected) + table.constant_cost * float(
        constants.sum()
    )
    by_row = np.zeros(len(table.labels))
    for side, part in zip(sides, slacks, strict=True):
        by_row[side.members] = part[side.group_of]
    return (
        value * (1 + _CAUTION),
        PrimalPoint(columns, shares, constants, selected, by_row),
        violated,
    )


def _represented_by_least(
    side: separation.ClassGroups, slacks: np.ndarray
) -> tuple[separation.ClassGroups, np.ndarray]:
    """The groups, each represented by its row of least slack, and these slacks [g]. The cuts of
    that row are the most violated ones of the group.
    """
    own = slacks[side.members]
    order = np.lexsort((own, side.group_of))
    first = order[np.searchsorted(side.group_of[order], np.arange(len(side.rows)))]
    return side._replace(rows=side.members[first]), own[first]


def _limit_columns(
    table: MonomialTable, given: MasterPoint
) -> tuple[MasterPoint, tuple[separation.ClassGroups, separation.ClassGroups]]:
    """The columns of largest mu, as many as keep a pass over all pairs affordable, and the groups
    of rows that agree on them.
    """
    positive, negative = np.flatnonzero(table.labels > 0), np.flatnonzero(table.labels < 0)
    size = len(given.selected)
    while True:
        covered = given.covered[:, :size]
        sides = (
            separation.group(covered[positive], positive),
            separation.group(covered[negative], negative),
        )
        products = 2 * len(sides[0].rows) * len(sides[1].rows) * max(size, 1)
        if products <= _LARGEST_PASS or size <= _LEAST_COLUMNS:
            break
        size //= 2
    columns = SignedMonomials(given.columns.monomials[:size], given.columns.signs[:size])
    fewer = given._replace(
        columns=columns,
        covered=covered,
        coefficients=given.coefficients[:size],
        selected=given.selected[:size],
    )
    return fewer, sides


class _Class(NamedTuple):
    """The groups of one class, and their slacks."""

    side: separation.ClassGroups
    needs: np.ndarray  # [g] the slacks that the margins require
    lowest: np.ndarray  # [g] the larger of these and of the master's slacks
    weights: np.ndarray  # [g]

    @property
    def is_open(self) -> np.ndarray:
        """The groups whose own slack does not satisfy all their cuts, [g] bool."""
        return self.lowest < _GIVEN_UP


def _open_groups(one: _Class) -> _Class:
    """The class without the groups whose own slack satisfies all their cuts."""
    kept = one.is_open
    side = one.side._replace(covered=one.side.covered[kept], rows=one.side.rows[kept])
    return _Class(side, one.needs[kept], one.lowest[kept], one.weights[kept])


def _satisfy_all_cuts(
    pairs: separation.GroupPairs, classes: list[_Class]
) -> tuple[list[np.ndarray], Violated]:
    """Slacks of the groups of both classes that satisfy all cuts, and the pairs that the lowest
    slacks violate.

    Several ways to raise the slacks are compared, and the one of least cost is used. Either one
    class alone raises its slacks as far as its cuts require, or both classes raise them by half of
    that. In the latter case the slacks of one class, and then of the other, are finally reduced as
    far as the cuts allow.
    """
    kept = [_open_groups(one) for one in classes]
    needs, lowest, weights = (
        [getattr(one, name) for one in kept] for name in ("needs", "lowest", "weights")
    )
    seen = separation.separate(pairs, *lowest)
    required = [seen.of_positive, seen.of_negative]
    ways = [
        [np.maximum(needs[0], required[0]), lowest[1]],
        [lowest[0], np.maximum(needs[1], required[1])],
        [
            low + 0.5 * np.maximum(least - low, 0)
            for low, least in zip(lowest, required, strict=True)
        ],
    ]
    if separation.num_products(pairs) <= _CHEAP_PASS:
        half = ways[2]
        first = np.maximum(needs[0], separation.required_slacks(pairs, *half)[0])
        second = np.maximum(needs[1], separation.required_slacks(pairs, first, half[1])[1])
        ways.append([first, second])
    prices = [
        sum(float(weight @ part) for weight, part in zip(weights, way, strict=True)) for way in ways
    ]
    best = ways[int(np.argmin(prices))]
    whole = [one.lowest.copy() for one in classes]
    for one, slacks, part in zip(classes, whole, best, strict=True):
        slacks[one.is_open] = part
    return whole, seen.violated
