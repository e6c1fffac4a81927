"""The pair cuts that a point violates most, and slacks that satisfy all of them. No array with an
entry for each pair of rows is kept.

Rows of one class that agree on all columns in use form a group, which needs only one slack. Pairs
of groups are processed in blocks. Each block gives, for each group, the largest value of
1 - (sum of mu over the hypotheses that count in the cut of the pair) - (slack of the other group),
and a few of the most violated pairs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import devices, grouping, numerics
from jboost.base.types import Array

_ENTRIES = 1 << 21  # the number of pairs of a block
_NUM_BUCKETS = 8  # the number of pairs that each group proposes in a block
_PRECISE = 200_000_000  # up to so many products, a pass is computed in float64
# Up to so many products, a pass is computed by NumPy: that takes less time than a compilation.
_ON_HOST = 1 << 24
_LEAST_VIOLATION = 1e-3  # cuts with smaller violations are not proposed
_LEAST_SIZE = 64  # the least padded size, so that few programs are compiled


class ClassGroups(NamedTuple):
    """The groups of one class."""

    covered: np.ndarray  # [g, A] uint8, whether each column in use covers the group
    rows: np.ndarray  # [g] int32, one row of each group
    group_of: np.ndarray  # [m of this class] the group of each row of the class
    members: np.ndarray  # [m of this class] int32, the rows of the class


class GroupPairs(NamedTuple):
    """All pairs of a positive and a negative group, and the columns in use with their mu."""

    positive: ClassGroups
    negative: ClassGroups
    signs: np.ndarray  # [A]
    selected: np.ndarray  # [A] mu
    is_either: bool


class Violated(NamedTuple):
    """Violated pair cuts, by rows."""

    inside: np.ndarray  # [k] int32, the row whose label is the sign of the hypotheses that count
    outside: np.ndarray  # [k] int32, the other row
    amounts: np.ndarray  # [k] the violations


class PairSeparation(NamedTuple):
    """The results of one pass over all pairs."""

    of_positive: np.ndarray  # [g+] the slack that the cuts of each positive group require
    of_negative: np.ndarray  # [g-]
    violated: Violated


def group(covered: np.ndarray, rows: np.ndarray) -> ClassGroups:
    """Groups of rows [r] with equal entries of covered [r, A]."""
    groups = grouping.equal_rows(covered)
    return ClassGroups(covered[groups.first], rows[groups.first], groups.group_of, rows)


def num_products(pairs: GroupPairs) -> int:
    """The number of multiplications of a pass."""
    return 2 * len(pairs.positive.rows) * len(pairs.negative.rows) * max(len(pairs.selected), 1)


def separate(
    pairs: GroupPairs, slacks_positive: np.ndarray, slacks_negative: np.ndarray
) -> PairSeparation:
    """One pass over all pairs of groups, with slacks [g+] and [g-]."""
    results = list(_by_blocks(_separate, pairs, slacks_positive, slacks_negative))
    required = _joined([(own, other) for own, other, *_ in results], pairs)
    nothing = np.zeros(0, np.int32)
    found = [
        _rows_of(pairs, best, begin)
        for (_, _, *best), begin in zip(results, _begins(pairs), strict=True)
    ]
    found = found or [Violated(nothing, nothing, np.zeros(0))]
    return PairSeparation(
        *required, Violated(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    )


def required_slacks(
    pairs: GroupPairs, slacks_positive: np.ndarray, slacks_negative: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The slacks [g+] and [g-] that the cuts require, as in `separate`, without a search for
    violated pairs.
    """
    return _joined(
        [
            (own, other)
            for own, other in _by_blocks(_require, pairs, slacks_positive, slacks_negative)
        ],
        pairs,
    )


def _joined(
    parts: list[tuple[np.ndarray, np.ndarray]], pairs: GroupPairs
) -> tuple[np.ndarray, np.ndarray]:
    """The slacks that the cuts of all blocks require, raised by the rounding error: a sum of A
    terms that is below 1 has an error of at most (A + 2) eps.
    """
    num_positive, num_negative = len(pairs.positive.rows), len(pairs.negative.rows)
    if not parts:
        return np.zeros(num_positive), np.zeros(num_negative)
    own = np.concatenate([part[0] for part in parts])[:num_positive]
    other = np.max([part[1] for part in parts], axis=0)[:num_negative]
    pad = (_num_columns(pairs) + 2) * np.finfo(_dtype(pairs)).eps
    return np.maximum(own, 0) + pad, np.maximum(other, 0) + pad


def _dtype(pairs: GroupPairs) -> type:
    return np.float64 if num_products(pairs) <= _PRECISE else np.float32


def _num_columns(pairs: GroupPairs) -> int:
    return _power(max(len(pairs.selected), 1))


def _block_size(pairs: GroupPairs) -> int:
    """The number of positive groups of a block."""
    return min(
        _power(len(pairs.positive.rows)),
        max(_ENTRIES // _power(len(pairs.negative.rows)), _NUM_BUCKETS),
    )


def _begins(pairs: GroupPairs) -> range:
    """The starts of the blocks of positive groups; none if one class has no groups."""
    number = len(pairs.positive.rows) if len(pairs.negative.rows) else 0
    return range(0, number, _block_size(pairs) if number else 1)


def _by_blocks(
    function: Callable[..., tuple[Array, ...]],
    pairs: GroupPairs,
    slacks_positive: np.ndarray,
    slacks_negative: np.ndarray,
) -> Iterator[tuple[np.ndarray, ...]]:
    """The results of a function for each block of positive groups, paired with all negative
    groups. It is compiled, unless all blocks together are few products.
    """
    dtype, columns, width = (
        _dtype(pairs),
        _num_columns(pairs),
        _power(max(len(pairs.negative.rows), 1)),
    )
    is_few = 2 * _power(len(pairs.positive.rows)) * width * columns <= _ON_HOST
    compute = function if is_few else _compiled(function)
    place: Callable[[np.ndarray], Any] = np.asarray if is_few else devices.from_host
    mu = np.pad(pairs.selected, (0, columns - len(pairs.selected)))
    is_positive = np.pad(pairs.signs > 0, (0, columns - len(pairs.signs)))
    of_signs = np.stack([mu * is_positive, mu * ~is_positive])
    with jax.enable_x64(True):
        other = place(_padded(pairs.negative.covered, width, columns).astype(dtype))
        rest = (
            place(_filled(slacks_negative, width).astype(dtype)),
            place(of_signs.astype(dtype)),
        )
        for begin in _begins(pairs):
            part = slice(begin, begin + _block_size(pairs))
            block: np.ndarray = _padded(
                pairs.positive.covered[part], _block_size(pairs), columns
            ).astype(dtype)
            own: np.ndarray = _filled(slacks_positive[part], _block_size(pairs)).astype(dtype)
            results = compute(block, own, other, *rest, is_either=pairs.is_either)
            yield tuple(np.asarray(one, np.float64) for one in results)


def _rows_of(pairs: GroupPairs, best: Sequence[np.ndarray], begin: int) -> Violated:
    """The violated pairs of a block, from violations and indices [signs, groups, buckets] of both
    sides.
    """
    amounts, indices, amounts_of_others, indices_of_others = best
    inside, outside, sizes = [], [], []
    for sign in range(amounts.shape[0]):
        own = np.broadcast_to(np.arange(amounts.shape[1])[:, None], amounts.shape[1:])
        other = np.broadcast_to(
            np.arange(amounts_of_others.shape[1])[:, None], amounts_of_others.shape[1:]
        )
        positive = (
            np.concatenate([own.ravel(), indices_of_others[sign].ravel()]).astype(np.int64) + begin
        )
        negative = np.concatenate([indices[sign].ravel(), other.ravel()]).astype(np.int64)
        size = np.concatenate([amounts[sign].ravel(), amounts_of_others[sign].ravel()])
        keeps = (
            (size > _LEAST_VIOLATION)
            & (positive < len(pairs.positive.rows))
            & (negative < len(pairs.negative.rows))
        )
        ends = pairs.positive.rows[positive[keeps]], pairs.negative.rows[negative[keeps]]
        inside.append(ends[sign])
        outside.append(ends[1 - sign])
        sizes.append(size[keeps])
    return Violated(np.concatenate(inside), np.concatenate(outside), np.concatenate(sizes))


def _power(number: int) -> int:
    """The next power of two, so that few programs are compiled."""
    return max(_LEAST_SIZE, 1 << (number - 1).bit_length())


def _padded(table: np.ndarray, num_rows: int, num_columns: int) -> np.ndarray:
    return np.pad(table, ((0, num_rows - table.shape[0]), (0, num_columns - table.shape[1])))


def _filled(slacks: np.ndarray, size: int) -> np.ndarray:
    """The slacks, padded with 2, so that no cut of a padding group is violated."""
    return np.pad(slacks, (0, size - len(slacks)), constant_values=2.0)


@functools.cache
def _compiled(function: Callable[..., tuple[Array, ...]]) -> Callable[..., tuple[Array, ...]]:
    return jax.jit(function, static_argnames=("is_either",))


def _times(left: Array, right: Array) -> Array:
    """The product of two matrices of NumPy or of JAX."""
    return left @ right if isinstance(left, np.ndarray) else numerics.times(left, right)


def _sums(own: Array, other: Array, selected: Array, is_either: bool, xp: Any) -> Array:
    """The sums of mu over the hypotheses that count in the cut of each pair, [1 or 2, b, n]."""
    by_positive = _times(own * selected[0][None, :], (1 - other).T)
    by_negative = _times(1 - own, (other * selected[1][None, :]).T)
    return (by_positive + by_negative)[None] if is_either else xp.stack([by_positive, by_negative])


def _slacks_of(sums: Array, own_slacks: Array, other_slacks: Array, xp: Any) -> tuple[Array, Array]:
    missing = 1 - xp.min(sums, axis=0)
    return xp.max(missing - other_slacks[None, :], axis=1), xp.max(
        missing - own_slacks[:, None], axis=0
    )


def _library_of(array: Array) -> Any:
    """NumPy for its arrays, else that of JAX."""
    return np if isinstance(array, np.ndarray) else jnp


def _require(
    own: Array,
    own_slacks: Array,
    other: Array,
    other_slacks: Array,
    selected: Array,
    *,
    is_either: bool,
) -> tuple[Array, ...]:
    """The slacks that the cuts between [b] positive and [n] negative groups require."""
    xp = _library_of(own)
    return _slacks_of(_sums(own, other, selected, is_either, xp), own_slacks, other_slacks, xp)


def _separate(
    own: Array,
    own_slacks: Array,
    other: Array,
    other_slacks: Array,
    selected: Array,
    *,
    is_either: bool,
) -> tuple[Array, ...]:
    """The slacks that the cuts between [b] positive and [n] negative groups require, and the most
    violated cuts.
    """
    xp = _library_of(own)
    sums = _sums(own, other, selected, is_either, xp)
    violations = 1 - sums - own_slacks[None, :, None] - other_slacks[None, None, :]
    count, num_own, num_other = violations.shape
    by_bucket = violations.reshape(count, num_own, _NUM_BUCKETS, -1)
    buckets = xp.arange(_NUM_BUCKETS)[None, None, :]
    indices = xp.argmax(by_bucket, axis=3) + buckets * (num_other // _NUM_BUCKETS)
    of_others = xp.swapaxes(violations, 1, 2).reshape(count, num_other, _NUM_BUCKETS, -1)
    indices_of_others = xp.argmax(of_others, axis=3) + buckets * (num_own // _NUM_BUCKETS)
    return (
        *_slacks_of(sums, own_slacks, other_slacks, xp),
        xp.max(by_bucket, axis=3),
        indices,
        xp.max(of_others, axis=3),
        indices_of_others,
    )
