"""All monomials of one or two literals, valued at once by products of matrices.

With L the [m, 2N] matrix of literals, the sum of values v over the cover of "l and l'" is
(L' diag(v) L)_ll'. A pair of examples (i, j) rewards the monomials that cover i and not j: with P
and R the literals of i, and those that i and j share, the rewards sum to
(P' diag(v) P - R' diag(v) R)_ll'. So one product replaces the search over pairs of literals, and
every value is known. Sums are float64: below 2^53 terms they differ from the exact ones by less than
the number of terms times 2^-53 of the sum of sizes (`slack`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base.types import Array

_ROWS_AT_ONCE = 4096  # of a block that is cast to float64: 1 to 10 MB
_MOST_ROWS_AT_ONCE = 16 * _ROWS_AT_ONCE  # of one call of a compiled product


class Literals(NamedTuple):
    """The literals of a table of bits: base columns (1, each bit, "is 0" of a bit with NaN), or 1 less one."""

    base: np.ndarray  # [m, B] uint8; the first column is 1
    sources: np.ndarray  # [L] int32, the base column of each literal
    is_negated: np.ndarray  # [L] bool: the literal is 1 less that column
    attributes: np.ndarray  # [L] int32
    answers: np.ndarray  # [L] int8: +1 where the bit must be 1, -1 where it must be 0

    @property
    def num_literals(self) -> int:
        """L."""
        return len(self.attributes)

    def combinations(self) -> np.ndarray:
        """The literals as sums of base columns, [L, B] float64."""
        places = np.arange(self.num_literals)
        table = np.zeros((self.num_literals, self.base.shape[1]))
        table[places, 0] = self.is_negated
        table[places, self.sources] = np.where(self.is_negated, -1, 1)
        return table

    def columns(self, literals: np.ndarray, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Which rows satisfy each of the literals [k]: [m', k] uint8."""
        return self.base[rows][:, self.sources[literals]] ^ self.is_negated[literals].astype(np.uint8)

    def covers(self, first: np.ndarray, second: np.ndarray, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Which rows satisfy both literals of each monomial [k]: [m', k] uint8."""
        distinct, places = np.unique(np.concatenate([first, second]), return_inverse=True)
        table = self.columns(distinct, rows)
        return table[:, places[: len(first)]] & table[:, places[len(first) :]]


class Listed(NamedTuple):
    """Monomials of one literal (`first` equals `second`) or two."""

    first: np.ndarray  # [n] int32
    second: np.ndarray  # [n] int32

    @property
    def orders(self) -> np.ndarray:
        """How many literals each has, [n]."""
        return np.where(self.first == self.second, 1, 2)


def literals_of(features: np.ndarray) -> Literals:
    """The literals of features [m, N] of 0, 1 and NaN; a bit that is NaN satisfies none of its two."""
    num_rows, num_bits = features.shape
    has_gaps = np.array([bool(np.isnan(column).any()) for column in features.T], bool).reshape(-1)
    gaps = np.flatnonzero(has_gaps)
    base = np.empty((num_rows, 1 + num_bits + len(gaps)), np.uint8)
    base[:, 0] = 1
    for bit in range(num_bits):
        base[:, 1 + bit] = features[:, bit] == 1
    for place, bit in enumerate(gaps):
        base[:, 1 + num_bits + place] = features[:, bit] == 0
    bits = np.arange(num_bits)
    zeros = 1 + bits
    zeros[gaps] = 1 + num_bits + np.arange(len(gaps))
    return Literals(
        base,
        sources=np.concatenate([1 + bits, zeros]).astype(np.int32),
        is_negated=np.concatenate([np.zeros(num_bits, bool), ~has_gaps]),
        attributes=np.tile(bits, 2).astype(np.int32),
        answers=np.repeat([1, -1], num_bits).astype(np.int8),
    )


def sums(literals: Literals, values: np.ndarray) -> np.ndarray:
    """The sum of values [m] over the cover of each two literals, [L, L] float64."""
    combinations = literals.combinations()
    return combinations @ _gram(literals.base, values) @ combinations.T


def rewards(literals: Literals, inside: np.ndarray, outside: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The sum of values [K] over pairs of rows, one inside the cover of two literals and one outside, [L, L] float64.

    Args:
      literals: of m rows.
      inside: [K] int, the row to be covered.
      outside: [K] int, the row not to be covered.
      values: [K] not negative.
    """
    if len(values) == 0:
        return np.zeros((literals.num_literals,) * 2)
    combinations = literals.combinations()
    covered = combinations @ _gram(literals.base[inside], values) @ combinations.T
    every = np.arange(literals.num_literals)
    shared = np.zeros_like(covered)
    for begin in range(0, len(values), _MOST_ROWS_AT_ONCE):
        part = slice(begin, begin + _MOST_ROWS_AT_ONCE)
        both = literals.columns(every, inside[part]) & literals.columns(every, outside[part])
        shared += _gram(both, values[part])
    return covered - shared


def slack(num_terms: int, total: float) -> float:
    """By how much an entry of `sums` or `rewards` may miss, where sizes of values sum to `total`.

    A sum of n terms in any order misses by at most n 2^-53 of the sum of sizes. An entry adds at most
    sixteen such sums: four of base columns for each of two products, and the combinations.
    """
    return 16 * (num_terms + 64) * 2.0**-53 * total


def every_monomial(literals: Literals, counts: np.ndarray, max_order: int) -> Listed:
    """The monomials of up to `max_order` (1 or 2) literals that cover some rows and not all.

    Of two literals on one attribute there are none, and none that cover just what one of their
    literals covers, which costs less.

    Args:
      literals: of m rows.
      counts: [L, L] how many rows each two literals cover.
      max_order: 1 or 2.
    """
    alone = np.diagonal(counts)
    num_rows = literals.base.shape[0]
    singles = np.flatnonzero((alone > 0) & (alone < num_rows)).astype(np.int32)
    if max_order == 1:
        return Listed(singles, singles)
    first, second = np.triu_indices(literals.num_literals, 1)
    both = counts[first, second]
    differs = (both < np.minimum(alone[first], alone[second])) & (both > 0)
    differs &= literals.attributes[first] != literals.attributes[second]
    pairs = first[differs].astype(np.int32), second[differs].astype(np.int32)
    return Listed(np.concatenate([singles, pairs[0]]), np.concatenate([singles, pairs[1]]))


def _gram(table: np.ndarray, values: np.ndarray) -> np.ndarray:
    """table' diag(values) table of a table [n, k] uint8, float64, in blocks of rows."""
    num_rows = len(values)
    size = _bucket(num_rows)
    total = np.zeros((table.shape[1],) * 2)
    with jax.enable_x64(True):
        for begin in range(0, num_rows, size):
            rows, part = table[begin : begin + size], values[begin : begin + size]
            missing = size - len(part)
            rows = np.pad(rows, ((0, missing), (0, 0))) if missing else rows
            part = np.pad(part, (0, missing)) if missing else part
            total += np.asarray(_weighted_gram(rows, np.asarray(part, np.float64)))
    return total


def _bucket(num_rows: int) -> int:
    """How many rows a compiled product takes: a power of two, so that few sizes are compiled."""
    return min(max(256, 1 << max(num_rows - 1, 0).bit_length()), _MOST_ROWS_AT_ONCE)


@jax.jit
def _weighted_gram(table: Array, values: Array) -> Array:
    num_rows, width = table.shape
    block = min(num_rows, _ROWS_AT_ONCE)

    def add(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        rows, weights = part
        rows = rows.astype(weights.dtype)
        return total + jnp.matmul((rows * weights[:, None]).T, rows, precision="highest"), None

    blocks = table.reshape(-1, block, width), values.reshape(-1, block)
    return jax.lax.scan(add, jnp.zeros((width, width), values.dtype), blocks)[0]
