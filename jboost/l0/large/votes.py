"""Votes of few rules: points of the sparse minimum disagreement problem (15) of Goldberg and
Eckstein 2009, with their exact loss.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import devices
from jboost.base.types import Array
from jboost.l0.large import separation
from jboost.l0.large.greedy import GreedyRules
from jboost.l0.large.proof import MonomialTable
from jboost.l0.votes import local_search, rounded

_MOST_PATTERNS = 4096  # the most patterns of a problem, to limit its time; not tuned
UNIT = 2.0**-20  # coefficients are multiples of it, so that all margins are exact in float32
_NUM_COLUMNS = 64  # the number of columns of the compiled program
_PATTERNS = (256, 1024, _MOST_PATTERNS)  # the numbers of patterns of compiled programs
_CAUTION = 1e-12  # a margin for rounding in float64


class SignedMonomials(NamedTuple):
    """Signed monomials that may vote."""

    monomials: np.ndarray  # [k] int64, indices into the list of all monomials
    signs: np.ndarray  # [k] +1 or -1


class MonomialVote(NamedTuple):
    """A point of (15)."""

    columns: SignedMonomials  # of the rules that vote
    coefficients: np.ndarray  # [k] > 0
    constants: np.ndarray  # [2] of +1 and -1
    loss: float

    @property
    def num_rules(self) -> int:
        """The number of rules, without the constants."""
        return len(self.coefficients)


def constant(table: MonomialTable) -> MonomialVote:
    """The better constant classifier."""
    positive = float(table.weights[table.labels > 0].sum())
    negative = float(table.weights[table.labels < 0].sum())
    nothing = SignedMonomials(np.zeros(0, np.int64), np.zeros(0, np.int8))
    constants = np.array([1.0, 0.0] if positive >= negative else [0.0, 1.0])
    return MonomialVote(
        nothing, np.zeros(0), constants, min(positive, negative) + table.constant_cost
    )


class PatternProblem(NamedTuple):
    """The problem (15) over few columns, on the patterns of the rows for these columns."""

    columns: SignedMonomials
    instance: local_search.VoteInstance


def make_problem(table: MonomialTable, columns: SignedMonomials) -> PatternProblem:
    """The problem over the first columns, as many as make at most _MOST_PATTERNS patterns."""
    size = min(len(columns.signs), _NUM_COLUMNS)
    while True:
        columns = SignedMonomials(columns.monomials[:size], columns.signs[:size])
        side, weights = patterns_of(table, columns)
        if len(weights) <= _MOST_PATTERNS:
            break
        size //= 2
    return PatternProblem(columns, _instance(table, columns, side, weights))


def patterns_of(
    table: MonomialTable, columns: SignedMonomials
) -> tuple[separation.ClassGroups, np.ndarray]:
    """Groups of rows that agree on the columns and on the label, which is the last column of
    `ClassGroups.covered`, and the sums of their weights.
    """
    covered = table.covers(columns.monomials)
    both = np.concatenate([covered, (table.labels > 0)[:, None].astype(np.uint8)], axis=1)
    side = separation.group(both, np.arange(len(both)))
    return side, np.bincount(side.group_of, weights=table.weights, minlength=len(side.rows))


def _instance(
    table: MonomialTable,
    columns: SignedMonomials,
    side: separation.ClassGroups,
    weights: np.ndarray,
) -> local_search.VoteInstance:
    """The problem padded to one of a few sizes, so that searches share compiled programs."""
    dtype = jnp.result_type(float)
    num_columns = 2 + _NUM_COLUMNS
    num_patterns = next(size for size in _PATTERNS if size >= len(weights))
    labels = np.where(side.covered[:, -1] > 0, 1.0, -1.0)
    margins = np.zeros((num_columns, num_patterns))
    margins[0, : len(labels)], margins[1, : len(labels)] = labels, -labels
    used = 2 + len(columns.signs)
    margins[2:used, : len(labels)] = (
        columns.signs[:, None] * side.covered[:, :-1].T * labels[None, :]
    )
    costs, is_column = np.zeros(num_columns), np.zeros(num_columns, bool)
    costs[:2], costs[2:used], is_column[:used] = (
        table.constant_cost,
        table.costs[columns.monomials],
        True,
    )
    padded = np.pad(weights, (0, num_patterns - len(weights)))
    return local_search.VoteInstance(
        devices.from_host(margins.astype(dtype)),
        devices.from_host(padded.astype(dtype)),
        devices.from_host(costs.astype(dtype)),
        devices.from_host(is_column),
        devices.from_host(np.asarray(table.margin, dtype)),
    )


def of_rules(table: MonomialTable, rules: GreedyRules, most: int | None) -> MonomialVote:
    """The vote nearest to real votes of rules. Only the `most` rules of largest votes are kept."""
    return at(
        table,
        columns_of(rules),
        _largest(np.abs(rules.votes), most),
        np.array([max(rules.constant, 0.0), max(-rules.constant, 0.0)]),
    )


def limited(table: MonomialTable, vote: MonomialVote, most: int | None) -> MonomialVote:
    """The vote of its `most` rules of largest coefficients, with its exact loss."""
    return at(table, vote.columns, _largest(vote.coefficients, most), vote.constants)


def _largest(values: np.ndarray, most: int | None) -> np.ndarray:
    """The values [k] with 0 for all but the `most` largest, of equal ones the first."""
    places = np.argsort(-values, kind="stable")[:most]
    kept = np.zeros(values.shape)
    kept[places] = values[places]
    return kept


def at(
    table: MonomialTable, columns: SignedMonomials, coefficients: np.ndarray, constants: np.ndarray
) -> MonomialVote:
    """The vote nearest to coefficients [k] >= 0 and constants [2], in multiples of 2^-20 that sum
    to 1, with its exact loss.
    """
    values = np.concatenate([constants, coefficients])
    values[0] += values.sum() <= 0
    units = np.round(values / values.sum() / UNIT)
    units[np.argmax(units)] += 1 / UNIT - units.sum()
    indices = np.flatnonzero(units[2:] > 0)
    kept = SignedMonomials(columns.monomials[indices], columns.signs[indices])
    shares = units * UNIT
    side, weights = patterns_of(table, kept)
    labels = np.where(side.covered[:, -1] > 0, 1.0, -1.0)
    scores = side.covered[:, :-1] @ (shares[2 + indices] * kept.signs) + shares[0] - shares[1]
    errors = float(weights[labels * scores < table.margin].sum())
    paid = float(table.costs[kept.monomials].sum()) + table.constant_cost * int(
        (shares[:2] > 0).sum()
    )
    return MonomialVote(kept, shares[2 + indices], shares[:2], errors + paid)


def upper_bound(table: MonomialTable, vote: MonomialVote) -> float:
    """The loss, rounded up. As a sum of floats it may be below the exact one."""
    if not np.isfinite(vote.loss):
        return vote.loss
    scores = table.covers(vote.columns.monomials) @ (vote.coefficients * vote.columns.signs)
    is_wrong = table.labels * (scores + vote.constants[0] - vote.constants[1]) < table.margin
    terms = [*table.weights[is_wrong].tolist(), *table.costs[vote.columns.monomials].tolist()]
    terms += [table.constant_cost] * int((vote.constants > 0).sum())
    total = math.fsum(terms)
    if math.fsum([*terms, -total]) > 0:
        total = math.nextafter(total, math.inf)
    # other weights than multiples of the unit may be rounded sums, of rows that were equal
    is_exact = bool(np.all(np.rint(table.weights / UNIT) * UNIT == table.weights))
    return max(vote.loss, total if is_exact else total * (1 + _CAUTION))


def columns_of(rules: GreedyRules) -> SignedMonomials:
    """The columns of the rules, with the signs of their votes."""
    return SignedMonomials(rules.columns, np.where(rules.votes < 0, -1, 1).astype(np.int8))


def start_from(problem: PatternProblem, vote: MonomialVote) -> Array:
    """The coefficients [n] of a vote in a problem; columns that the problem lacks are left out."""
    values = np.zeros(problem.instance.costs.shape[0])
    values[:2] = vote.constants
    indices = {
        key: position
        for position, key in enumerate(zip(*map(np.ndarray.tolist, problem.columns), strict=True))
    }
    for key, value in zip(
        zip(*map(np.ndarray.tolist, vote.columns), strict=True), vote.coefficients, strict=True
    ):
        if key in indices:
            values[2 + indices[key]] = value
    values[0] += values.sum() <= 0
    return devices.from_host((values / values.sum()).astype(problem.instance.costs.dtype))


def from_relaxation(
    problem: PatternProblem, coefficients: np.ndarray, config: rounded.RelaxedConfig
) -> MonomialVote:
    """The vote of few rules whose scores are nearest to those of the relaxation (see `relaxed`)."""
    values = devices.from_host(np.asarray(coefficients, problem.instance.costs.dtype))
    return _vote(problem, _find_relaxed(problem.instance, values, config=config))


def starting_points(values: np.ndarray) -> np.ndarray:
    """Distinct starting points [s, n]: the coefficients [n] themselves, and only their largest
    entries.
    """
    starts = local_search.sparse_starts_on_host(values)
    distinct: np.ndarray = np.unique(np.concatenate([values[None], starts]), axis=0)
    return distinct


@functools.partial(jax.jit, static_argnames=("config",))
def _find_relaxed(
    instance: local_search.VoteInstance, coefficients: Array, *, config: rounded.RelaxedConfig
) -> local_search.FeasibleVote:
    return rounded.find(instance, coefficients, config=config)


def _vote(problem: PatternProblem, found: local_search.FeasibleVote) -> MonomialVote:
    values = np.asarray(found.coefficients, np.float64)
    indices = np.flatnonzero(values[2 : 2 + len(problem.columns.signs)] > 0)
    columns = SignedMonomials(problem.columns.monomials[indices], problem.columns.signs[indices])
    return MonomialVote(columns, values[2 + indices], values[:2], float(found.loss))
