"""Computes the values of all monomials of up to three literals by products of matrices.

Let L be the [m, 2N] matrix of literals. The sum of values v over the cover of "l and l'" is (L'
diag(v) L)_ll'. A pair of examples (i, j) rewards the monomials that cover i and not j. Let P be the
literals of i, and R the literals that i and j share. The rewards sum to (P' diag(v) P - R' diag(v)
R)_ll'. So one product replaces the search over pairs of literals. For three literals, one side of
the product holds pairs of literals. Sums are in float64. Their relative rounding error is at most
the number of terms times 2^-53 (`slack`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import loops
from jboost.base.types import Array

_PAIRS = 2  # the order of a pair of literals
_ROWS_AT_ONCE = 4096  # rows of a block, which is cast to float64: 1 to 10 MB
# Widths are padded to multiples of these, so that few sizes are compiled: where there are few rows,
# a product takes less time than its compilation.
_COLUMNS_OF_FEW_ROWS, _FEW_ROWS, _COLUMNS_AT_ONCE = 128, 512, 32
_MOST_ROWS_AT_ONCE = 16 * _ROWS_AT_ONCE  # rows of one call of a compiled product
# Up to so many products of numbers, NumPy computes a product of matrices: that takes less time than
# a compilation.
_ON_HOST = 1 << 25


class Literals(NamedTuple):
    """The literals of a table of bits. A literal is a base column, or 1 minus a base column. The
    base columns are a column of ones, each bit, and "is 0" for each bit with NaN.
    """

    base: np.ndarray  # [m, B] uint8; the first column is 1
    sources: np.ndarray  # [L] int32, the base column of each literal
    is_negated: np.ndarray  # [L] bool: the literal is 1 minus that column
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
        return self.base[rows][:, self.sources[literals]] ^ self.is_negated[literals].astype(
            np.uint8
        )

    def covers(self, listed: ListedMonomials, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Which rows each monomial [k] covers: [m', k] uint8."""
        distinct, places = np.unique(listed.literals, return_inverse=True)
        table = self.columns(distinct, rows)
        first, second, third = places.reshape(listed.literals.shape)
        found: np.ndarray = table[:, first] & table[:, second] & table[:, third]
        return found


class ListedMonomials(NamedTuple):
    """Monomials of up to three literals, those of one and two literals first.

    A monomial of fewer than three literals repeats its last literal.
    """

    literals: np.ndarray  # [3, n] int32
    # [n - n2] int32: for each monomial of three literals, the index of the monomial of its first
    # two
    heads: np.ndarray

    @property
    def orders(self) -> np.ndarray:
        """The number of literals of each monomial, [n]."""
        first, second, third = self.literals
        return np.asarray(1 + (first != second).astype(np.int64) + (second != third))

    @property
    def num_short(self) -> int:
        """The number of monomials of one or two literals."""
        return self.literals.shape[1] - len(self.heads)

    def take(self, places: np.ndarray) -> ListedMonomials:
        """A selection of the monomials, which can be used only to compute covers."""
        return ListedMonomials(self.literals[:, places], np.zeros(0, np.int32))


def literals_of(features: np.ndarray) -> Literals:
    """The literals of features [m, N] of 0, 1 and NaN. NaN satisfies neither literal of the
    attribute.
    """
    num_rows, num_bits = features.shape
    has_gaps = np.array([bool(np.isnan(column).any()) for column in features.T], bool).reshape(-1)
    gaps = np.flatnonzero(has_gaps)
    base = np.empty((num_rows, 1 + num_bits + len(gaps)), np.uint8)
    base[:, 0] = 1
    for bit in range(num_bits):
        base[:, 1 + bit] = features[:, bit] == 1
    for place, gap in enumerate(gaps.tolist()):
        base[:, 1 + num_bits + place] = features[:, gap] == 0
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
    """The sum of values [m] over the cover of each pair of literals, [L, L] float64."""
    combinations = literals.combinations()
    found: np.ndarray = combinations @ _gram(literals.base, literals.base, values) @ combinations.T
    return found


def sums_of(literals: Literals, listed: ListedMonomials, values: np.ndarray) -> np.ndarray:
    """The sum of values [m] over the cover of each monomial, [n] float64."""
    first, second, third = listed.literals
    size = listed.num_short
    short = sums(literals, values)[first[:size], second[:size]]
    if size == len(third):
        return short
    return np.concatenate([short, _of_three(literals, listed, [(slice(None), None, values)])])


def rewards_of(
    literals: Literals,
    listed: ListedMonomials,
    inside: np.ndarray,
    outside: np.ndarray,
    values: np.ndarray,
) -> np.ndarray:
    """The sum of values [K] over pairs of rows, one inside the cover of a monomial and one outside,
    [n] float64.

    Args:
      literals: of m rows.
      listed: n monomials.
      inside: [K] int, the row to be covered.
      outside: [K] int, the row not to be covered.
      values: [K] not negative.
    """
    first, second, third = listed.literals
    size = listed.num_short
    short = rewards(literals, inside, outside, values)[first[:size], second[:size]]
    if size == len(third):
        return short
    return np.concatenate(
        [short, _of_three(literals, listed, [(inside, None, values), (inside, outside, -values)])]
    )


def rewards(
    literals: Literals, inside: np.ndarray, outside: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """The rewards, as in `rewards_of`, of each pair of literals, [L, L] float64."""
    if len(values) == 0:
        return np.zeros((literals.num_literals,) * 2)
    combinations = literals.combinations()
    rows = literals.base[inside]
    covered: np.ndarray = combinations @ _gram(rows, rows, values) @ combinations.T
    every = np.arange(literals.num_literals)
    for begin in range(0, len(values), _MOST_ROWS_AT_ONCE):
        part = slice(begin, begin + _MOST_ROWS_AT_ONCE)
        both = literals.columns(every, inside[part]) & literals.columns(every, outside[part])
        covered -= _gram(both, both, values[part])
    return covered


def _of_three(
    literals: Literals,
    listed: ListedMonomials,
    parts: list[tuple[np.ndarray | slice, np.ndarray | None, np.ndarray]],
) -> np.ndarray:
    """Sums [n3] of values over the covers of the monomials of three literals: over rows, or over
    pairs of rows that are both covered.
    """
    size = listed.num_short
    pairs, heads = np.unique(listed.heads, return_inverse=True)
    every = np.arange(literals.num_literals)
    total = np.zeros((len(pairs), literals.num_literals))
    for rows, others, values in parts:
        for begin in range(0, len(values), _ROWS_AT_ONCE):
            part = slice(begin, begin + _ROWS_AT_ONCE)
            chosen = part if isinstance(rows, slice) else rows[part]
            left, right = (
                literals.covers(listed.take(pairs), chosen),
                literals.columns(every, chosen),
            )
            if others is not None:
                left, right = (
                    left & literals.covers(listed.take(pairs), others[part]),
                    right & literals.columns(every, others[part]),
                )
            total += _gram(left, right, values[part])
    found: np.ndarray = total[heads, listed.literals[2, size:]]
    return found


def slack(num_terms: int, total: float) -> float:
    """The largest rounding error of an entry of `sums` or `rewards`; the absolute values sum to
    `total`.

    The error of a sum of n terms, in any order, is at most n 2^-53 times the sum of absolute
    values. An entry combines at most sixteen such sums: four of base columns for each of two
    products, and the combinations.
    """
    return 16 * (num_terms + 64) * 2.0**-53 * total


def no_monomials() -> ListedMonomials:
    """An empty list."""
    return ListedMonomials(np.zeros((3, 0), np.int32), np.zeros(0, np.int32))


def every_monomial(literals: Literals, max_order: int, *, keeps_redundant: bool) -> ListedMonomials:
    """The monomials of up to `max_order` (1 to 3) literals, none with two literals of one
    attribute.

    A monomial is redundant if it covers no row, all rows, or the same rows as without one of its
    literals. If costs do not decrease with the number of literals, and the constants cost no more
    than any monomial, some optimal solution has no redundant monomial.

    Args:
      literals: of m rows.
      max_order: 1 to 3.
      keeps_redundant: whether the list includes the redundant ones.
    """
    ones = np.ones(literals.base.shape[0])
    counts = sums(literals, ones)
    alone = np.diagonal(counts)
    num_rows = literals.base.shape[0]
    singles = np.flatnonzero(keeps_redundant | ((alone > 0) & (alone < num_rows))).astype(np.int32)
    listed = ListedMonomials(np.stack([singles] * 3), np.zeros(0, np.int32))
    if max_order == 1:
        return listed
    first, second = np.triu_indices(literals.num_literals, 1)
    both = counts[first, second]
    differs = keeps_redundant | ((both < np.minimum(alone[first], alone[second])) & (both > 0))
    differs &= literals.attributes[first] != literals.attributes[second]
    first, second = first[differs], second[differs]
    listed = ListedMonomials(
        np.concatenate(
            [listed.literals, np.stack([first, second, second]).astype(np.int32)], axis=1
        ),
        listed.heads,
    )
    if max_order == _PAIRS:
        return listed
    return _with_triples(literals, listed, len(singles), counts, keeps_redundant=keeps_redundant)


def num_monomials(num_literals: int, max_order: int) -> int:
    """An upper bound of the number of monomials of one sign."""
    number = num_literals
    for order in range(1, max_order):
        number += math.comb(num_literals, order + 1)
    return number


def _with_triples(
    literals: Literals,
    listed: ListedMonomials,
    num_singles: int,
    counts: np.ndarray,
    *,
    keeps_redundant: bool,
) -> ListedMonomials:
    """The list with the monomials of three literals added. A redundant one covers the same rows as
    two of its literals.
    """
    first, second = listed.literals[:2, num_singles:]
    size = literals.num_literals
    heads = np.repeat(np.arange(len(first), dtype=np.int32), size)
    third = np.tile(np.arange(size, dtype=np.int32), len(first))
    later = third > second[heads]
    of_attributes = literals.attributes
    later &= (of_attributes[third] != of_attributes[first[heads]]) & (
        of_attributes[third] != of_attributes[second[heads]]
    )
    heads, third = heads[later], third[later]
    triples = np.stack([first[heads], second[heads], third])
    longer = ListedMonomials(
        np.concatenate([listed.literals, triples], axis=1), heads + num_singles
    )
    covered = sums_of(literals, longer, np.ones(literals.base.shape[0]))[listed.literals.shape[1] :]
    least = np.minimum(
        counts[first[heads], second[heads]],
        np.minimum(counts[first[heads], third], counts[second[heads], third]),
    )
    kept = keeps_redundant | ((covered > 0) & (covered < least))
    return ListedMonomials(
        np.concatenate([listed.literals, triples[:, kept]], axis=1), longer.heads[kept]
    )


def _gram(left: np.ndarray, right: np.ndarray, values: np.ndarray) -> np.ndarray:
    """left' diag(values) right of tables [n, j] and [n, k] uint8, in float64, by blocks of rows.
    Sizes are padded so that few are compiled; small products are not compiled.
    """
    num_rows, widths = len(values), (left.shape[1], right.shape[1])
    if num_rows * widths[0] * widths[1] <= _ON_HOST:
        weighed: np.ndarray = left.T * values.astype(np.float64)
        return weighed @ right.astype(np.float64)
    size = _bucket(num_rows)
    unit = _COLUMNS_OF_FEW_ROWS if size <= _FEW_ROWS else _COLUMNS_AT_ONCE
    columns = [-(-width // unit) * unit - width for width in widths]
    total = np.zeros(widths)
    with jax.enable_x64(True):
        for begin in range(0, num_rows, size):
            part = slice(begin, begin + size)
            missing = size - len(values[part])
            tables = [
                np.pad(table[part], ((0, missing), (0, more)))
                for table, more in zip((left, right), columns, strict=True)
            ]
            found = _weighted_product(
                *tables, np.pad(values[part].astype(np.float64), (0, missing))
            )
            total += np.asarray(found)[: widths[0], : widths[1]]
    return total


def _bucket(num_rows: int) -> int:
    """The number of rows of a compiled product: a power of two, so that few sizes are compiled."""
    return min(max(256, 1 << max(num_rows - 1, 0).bit_length()), _MOST_ROWS_AT_ONCE)


@jax.jit
def _weighted_product(left: Array, right: Array, values: Array) -> Array:
    block = min(len(values), _ROWS_AT_ONCE)

    def add(total: Array, part: tuple[Array, Array, Array]) -> tuple[Array, None]:
        ours, theirs, weights = part
        weighed = ours.astype(weights.dtype) * weights[:, None]
        return total + jnp.matmul(
            weighed.T, theirs.astype(weights.dtype), precision="highest"
        ), None

    blocks = (
        *(table.reshape(-1, block, table.shape[1]) for table in (left, right)),
        values.reshape(-1, block),
    )
    return loops.scan(add, jnp.zeros((left.shape[1], right.shape[1]), values.dtype), blocks)[0]
