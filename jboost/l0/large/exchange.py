"""A local search for votes over all monomials, by the objective (15) of Goldberg and Eckstein 2009.

Let r_i be the margin of row i without one rule, and S the sum of the other coefficients. With a
monomial of sign s and coefficient t in its place, row i is right if
r_i + s t y_i h(x_i) >= rho (S + t). So the weight of the wrong rows is a constant plus the sum,
over the rows that the monomial covers, of a number that depends on the row alone. One product of
matrices gives these sums for all monomials. The coefficient of the best one then follows from an
exact line search. From a local optimum the search goes on after a random change (iterated local
search; Lourenco, Martin and Stuetzle 2003): some rules are removed, or the weights of the rows are
random for one pass (noising; Charon and Hudry 1993).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jboost.l0.large import votes
from jboost.l0.large.proof import MonomialTable
from jboost.l0.large.votes import MonomialVote, SignedMonomials
from jboost.monomials import products

# The coefficients that are tried for all monomials: multiples of that of the rule to replace, or of
# the median one where a rule is added. Not tuned.
_MULTIPLES = (1.0, 0.5, 2.0)
_LEAST_GAIN = 1e-6  # the least decrease of the loss, in errors, that counts
# Coefficients are between these, in units of the sum of the others. Intervals of them that are
# narrower than a factor of 1 + _NARROW are ignored, as rounding to the grid may leave them. Not
# tuned.
_LEAST_SIZE, _MOST_SIZE, _NARROW = 1e-3, 1e3, 1e-3
# Each rule is removed with one of these probabilities, and the coefficients of the others are
# multiplied by exp(_SPREAD z) for normal z; found by trial on BCW, TICTACTOE and HUHEART.
_SHARES_REMOVED, _SPREAD = (0.2, 0.4, 0.6), 0.5


class _Rest(NamedTuple):
    """A vote without one of its rules or without its constants."""

    columns: SignedMonomials  # [k]
    coefficients: np.ndarray  # [k]
    constants: np.ndarray  # [2]
    margins: np.ndarray  # [m]

    @property
    def total(self) -> float:
        """The sum S of all coefficients."""
        return float(self.coefficients.sum() + self.constants.sum())


def improved(table: MonomialTable, vote: MonomialVote, most: int | None) -> Iterator[MonomialVote]:
    """The local search from a vote: exchanges rules until none lowers the loss; yields the vote
    after each trial.

    Args:
      table: all rows and monomials.
      vote: to begin with.
      most: the largest number of rules, None for no limit.
    """
    before = np.inf
    while vote.loss < before - _LEAST_GAIN:
        before = vote.loss
        for moved in _one_pass(table, vote, most):
            vote = moved
            yield vote


def varied(
    table: MonomialTable, vote: MonomialVote, most: int | None, number: int
) -> Iterator[MonomialVote]:
    """The local search from another starting point near a vote, as `improved`.

    Starting points of odd number are the vote with some rules removed. Those of even number come
    from one pass with random weights of the rows.
    """
    random = np.random.default_rng(number)
    start = _with_some_removed(table, vote, random)
    if number % 2 == 0:
        weights = table.weights * random.exponential(size=len(table.weights))
        other = table._replace(weights=weights)
        for moved in _one_pass(other, revalued(other, vote), most):
            start = revalued(table, moved)
            yield start
    yield from improved(table, start, most)


def revalued(table: MonomialTable, vote: MonomialVote) -> MonomialVote:
    """The vote with its loss on a table."""
    return votes.at(table, vote.columns, vote.coefficients, vote.constants)


def _with_some_removed(
    table: MonomialTable, vote: MonomialVote, random: np.random.Generator
) -> MonomialVote:
    """The vote with some rules removed and the other coefficients changed, at random."""
    kept = random.random(vote.num_rules) >= random.choice(_SHARES_REMOVED)
    sizes = vote.coefficients * np.exp(_SPREAD * random.standard_normal(vote.num_rules))
    columns = SignedMonomials(vote.columns.monomials[kept], vote.columns.signs[kept])
    return votes.at(table, columns, sizes[kept], vote.constants)


def _one_pass(table: MonomialTable, vote: MonomialVote, most: int | None) -> Iterator[MonomialVote]:
    """Fits the constants, tries to add a rule, and tries to exchange each rule once."""
    vote = _better(vote, _with_best_constant(table, vote))
    if most is None or vote.num_rules < most:
        vote = _better(vote, with_best(table, vote, None))
    yield vote
    index = 0
    for _ in range(vote.num_rules):
        changed = _better(vote, with_best(table, vote, index))
        # a new rule is the last one, so that the next rule to try moves to the index of the old one
        index += changed is vote
        vote = changed
        yield vote
        if index >= vote.num_rules:
            return


def _better(vote: MonomialVote, other: MonomialVote) -> MonomialVote:
    return other if other.loss < vote.loss - _LEAST_GAIN else vote


def with_best(table: MonomialTable, vote: MonomialVote, index: int | None) -> MonomialVote:
    """The vote with the best of all monomials instead of the rule at `index`, or without that rule
    if this is better; None for one more rule.
    """
    rest = _without(table, vote, index)
    alone = votes.at(table, rest.columns, rest.coefficients, rest.constants)
    if not np.any(table.costs < np.inf):
        return alone
    usual = vote.coefficients if index is None else vote.coefficients[[index]]
    middle = float(np.median(usual)) if len(usual) else rest.total
    costs = np.stack([table.costs, table.costs])
    costs[(rest.columns.signs < 0).astype(int), rest.columns.monomials] = 0.0
    best: tuple[float, int, int, float] = (np.inf, 0, 0, 0.0)
    for size in (middle * multiple for multiple in _MULTIPLES):
        for row in (0, 1):
            losses = costs[row] + _changes(table, rest, row, size)
            monomial = int(np.argmin(losses))
            best = min(best, (float(losses[monomial]), monomial, row, size))
    _, monomial, row, _ = best
    sign = (1, -1)[row]
    covered = table.covers(np.array([monomial]))[:, 0]
    size = _best_size(table, rest, sign * table.labels * covered)
    return _better(alone, _with(table, rest, monomial, sign, size))


def _without(table: MonomialTable, vote: MonomialVote, index: int | None) -> _Rest:
    kept = np.arange(vote.num_rules) != index
    columns = SignedMonomials(vote.columns.monomials[kept], vote.columns.signs[kept])
    return _rest(table, columns, vote.coefficients[kept], vote.constants)


def _rest(
    table: MonomialTable, columns: SignedMonomials, coefficients: np.ndarray, constants: np.ndarray
) -> _Rest:
    scores = table.covers(columns.monomials) @ (coefficients * columns.signs)
    margins = table.labels * (scores + constants[0] - constants[1])
    return _Rest(columns, coefficients, constants, margins)


def _changes(table: MonomialTable, rest: _Rest, row: int, size: float) -> np.ndarray:
    """The weight of the wrong rows with each monomial of one sign, [n], for a coefficient of this
    size.
    """
    need = table.margin * (rest.total + size)
    is_wrong = rest.margins < need
    becomes = rest.margins + (1, -1)[row] * size * table.labels < need
    changes = np.where(becomes == is_wrong, 0.0, np.where(becomes, 1.0, -1.0) * table.weights)
    rows = np.flatnonzero(changes)
    near = table.literals._replace(base=table.literals.base[rows])
    found: np.ndarray = products.sums_of(near, table.monomials, changes[rows])
    return found + float(table.weights[is_wrong].sum())


def _best_size(table: MonomialTable, rest: _Rest, margins: np.ndarray) -> float:
    """The coefficient of least weight of wrong rows for a hypothesis of margins [m]: the middle of
    the widest interval of such coefficients.

    A row is right where a t >= b, with a its margin less rho and b = rho S - r.
    """
    slope, least = margins - table.margin, table.margin * rest.total - rest.margins
    moves = (slope != 0) & (np.sign(slope) == np.sign(least))
    # with increasing t a row of positive slope becomes right, and one of negative slope wrong
    breaks = least[moves] / slope[moves]
    order = np.argsort(breaks)
    changes = (-np.sign(slope[moves]) * table.weights[moves])[order]
    wrong = float(table.weights[least > 0].sum()) + np.concatenate([[0.0], np.cumsum(changes)])
    unit = max(rest.total, _LEAST_SIZE)
    ends = np.clip(breaks[order], _LEAST_SIZE * unit, _MOST_SIZE * unit)
    low = np.concatenate([[_LEAST_SIZE * unit], ends])
    high = np.concatenate([ends, [_MOST_SIZE * unit]])
    wide = np.log(high / low)
    wrong = np.where(wide > _NARROW, wrong, np.inf)
    best = int(np.argmax(np.where(wrong <= wrong.min() + _LEAST_GAIN, wide, -1.0)))
    return float(np.sqrt(low[best] * high[best]))


def _with(table: MonomialTable, rest: _Rest, monomial: int, sign: int, size: float) -> MonomialVote:
    """The vote with one more rule; a monomial that votes with this sign gets a larger vote."""
    is_it = (rest.columns.monomials == monomial) & (rest.columns.signs == sign)
    if is_it.any():
        return votes.at(table, rest.columns, rest.coefficients + size * is_it, rest.constants)
    columns = SignedMonomials(
        np.append(rest.columns.monomials, monomial),
        np.append(rest.columns.signs, sign).astype(np.int8),
    )
    return votes.at(table, columns, np.append(rest.coefficients, size), rest.constants)


def _with_best_constant(table: MonomialTable, vote: MonomialVote) -> MonomialVote:
    """The vote with the best constant of either sign, or with none."""
    if vote.num_rules == 0:
        return vote
    rest = _rest(table, vote.columns, vote.coefficients, np.zeros(2))
    best = votes.at(table, rest.columns, rest.coefficients, rest.constants)
    for constants in np.eye(2):
        size = _best_size(table, rest, table.labels * (constants[0] - constants[1]))
        other = votes.at(table, rest.columns, rest.coefficients, size * constants)
        best = _better(best, other)
    return best
