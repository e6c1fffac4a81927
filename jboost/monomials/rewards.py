"""The rewards of pairs of examples, v of (27) of Goldberg and Eckstein (2009), as lists.

With K pairs and R examples of each class the lists take O(K) numbers, and no array has R x R
entries, except where `keeps_matrix` says so. All sums are of integers, so that results do not
depend on the form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import devices, loops, reduce
from jboost.base.types import Array

# Pairs that one iteration of a loop adds, on a CPU and on accelerators. The first number was chosen
# for caches; the second is not tuned.
_PAIRS_AT_ONCE, _PAIRS_ON_DEVICES = 256, 1 << 12
# A matrix of up to so many entries (4 MB of 32 bits, 1024 x 1024) is small.
_SMALL_MATRIX = 1 << 20
# A larger matrix is kept if it has at most this many entries for each pair of the list, so that it
# takes about as much memory as the list.
_ENTRIES_OF_A_FULL_LIST = 4
# If the matrix has at least this many entries for each pair, a CPU is faster with sums over the
# pairs than with products of matrices.
_ENTRIES_TO_A_PAIR = 64


class PairsOfClasses(NamedTuple):
    """The rewards of both signs. Examples are rows of two classes of R rows each."""

    # [K] int32: class 0 or 1, that of sign +1 or -1, of the example to be covered
    sides: Array
    first: Array  # [K] int32, the example to be covered, a row of its class
    second: Array  # [K] int32, the example not to be covered, a row of the other class
    values: Array  # [K] integers, 0 for an empty slot


class PairsOfSign(NamedTuple):
    """The rewards of one sign; with an axis of length 2 those of both. Pairs in use come first."""

    wanted: Array  # [K] int32, the example to be covered, ascending; R - 1 from `number` on
    unwanted: Array  # [K] int32, the example not to be covered
    values: Array  # [K] integers, 0 from `number` on
    number: Array  # [] int32
    matrix: Array | None  # [R, R] the same rewards, wanted by unwanted, where `keeps_matrix`


def keeps_matrix(num_rows: int, num_pairs: int) -> bool:
    """Whether the rewards are also kept as a matrix, [num_rows, num_rows].

    It is kept where products with it may be faster than sums over the list, and where it is small
    or takes no more memory than the list: up to 2^20 entries, or up to 4 entries for each pair. On
    a CPU sums over the list are faster where there are 64 or more entries for each pair.
    """
    num_entries = num_rows**2
    is_small = num_entries <= max(_SMALL_MATRIX, _ENTRIES_OF_A_FULL_LIST * num_pairs)
    return is_small and (devices.platform() != "cpu" or not are_few(num_rows, num_pairs))


def are_few(num_rows: int, num_pairs: int) -> bool:
    """Whether sums over so many pairs are faster on a CPU than products with the matrix."""
    return num_pairs <= most_of_few(num_rows)


def most_of_few(num_rows: int) -> int:
    """The largest number of pairs for which a CPU is faster with sums over them."""
    return num_rows**2 // _ENTRIES_TO_A_PAIR


def totals(pairs: PairsOfClasses, num_rows: int) -> tuple[Array, Array]:
    """The sums, by class and row, of the rewards of pairs in which the row is the example to be
    covered, and of those in which it is the other one: [2, R] each.
    """
    none = jnp.zeros((2, num_rows), pairs.values.dtype)
    return (
        none.at[pairs.sides, pairs.first].add(pairs.values),
        none.at[1 - pairs.sides, pairs.second].add(pairs.values),
    )


def sums_by_sign(pairs: PairsOfClasses) -> Array:
    """The sum of the rewards of each sign, [2]."""
    return jnp.zeros((2,), pairs.values.dtype).at[pairs.sides].add(pairs.values)


def by_sign(pairs: PairsOfClasses, order: Array) -> PairsOfSign:
    """The rewards by sign, leaves [2, ...], with the rows of each class in an order [2, R]."""
    at_once = _pairs_at_once(pairs.values.shape[0])
    missing = -pairs.values.shape[0] % at_once
    pairs = jax.tree.map(lambda leaf: jnp.pad(leaf, (0, missing)), pairs)
    num_rows = order.shape[1]
    places = jnp.argsort(order, axis=1).astype(jnp.int32)

    def of_sign(index: Array) -> PairsOfSign:
        is_used = (pairs.sides == index) & (pairs.values > 0)
        wanted, unwanted = places[index][pairs.first], places[1 - index][pairs.second]
        by_wanted = jnp.argsort(jnp.where(is_used, wanted, num_rows), stable=True)
        return _in_use(
            is_used[by_wanted],
            wanted[by_wanted],
            unwanted[by_wanted],
            pairs.values[by_wanted],
            num_rows,
        )

    return jax.vmap(of_sign)(jnp.arange(2, dtype=jnp.int32))


def below(pairs: PairsOfSign, counts: Array, order: Array) -> PairsOfSign:
    """The rewards of the pairs whose examples both count, [2, R] bool, with the rows of the classes
    in an order [2, R]. It must keep the order of the wanted examples that count.
    """
    size = pairs.values.shape[0]
    places = jnp.argsort(order, axis=1).astype(jnp.int32)
    is_kept = counts[0][pairs.wanted] & counts[1][pairs.unwanted]
    is_kept &= jnp.arange(size) < pairs.number
    slots = jnp.where(is_kept, jnp.cumsum(is_kept, dtype=jnp.int32) - 1, size)
    wanted, unwanted, values = (
        jnp.zeros_like(leaf).at[slots].set(leaf, mode="drop")
        for leaf in (places[0][pairs.wanted], places[1][pairs.unwanted], pairs.values)
    )
    is_used = jnp.arange(size) < reduce.count(is_kept)
    return _in_use(is_used, wanted, unwanted, values, order.shape[1])


def _in_use(
    is_used: Array, wanted: Array, unwanted: Array, values: Array, num_rows: int
) -> PairsOfSign:
    """The `PairsOfSign` of pairs [K] of which the first are in use."""
    wanted = jnp.where(is_used, wanted, num_rows - 1)
    unwanted = jnp.where(is_used, unwanted, 0)
    values = jnp.where(is_used, values, 0)
    matrix = None
    if keeps_matrix(num_rows, values.shape[0]):
        empty = jnp.zeros((num_rows, num_rows), values.dtype)
        matrix = empty.at[wanted, unwanted].add(values)
    return PairsOfSign(wanted, unwanted, values, reduce.count(is_used), matrix)


def _pairs_at_once(num_pairs: int) -> int:
    """The number of pairs that one iteration adds."""
    most = _PAIRS_AT_ONCE if devices.platform() == "cpu" else _PAIRS_ON_DEVICES
    return max(1, min(num_pairs, most))


def sum_by_wanted(
    pairs: PairsOfSign, counts: Callable[[Array, Array], Array], num_rows: int, width: int
) -> Array:
    """The sum [R, B], for each wanted example, of the rewards that count.

    `counts` tells whether pairs count: (wanted [k], unwanted [k]) -> [k, B] bool.
    """
    at_once = _pairs_at_once(pairs.values.shape[0])

    def add(step: Array, total: Array) -> Array:
        places = step * at_once + jnp.arange(at_once)
        wanted, unwanted, values = (
            leaf[places] for leaf in (pairs.wanted, pairs.unwanted, pairs.values)
        )
        return total.at[wanted].add(
            jnp.where(counts(wanted, unwanted), values[:, None], 0), indices_are_sorted=True
        )

    empty = jnp.zeros((num_rows, width), pairs.values.dtype)
    return loops.fori_loop(0, -(-pairs.number // at_once), add, empty)
