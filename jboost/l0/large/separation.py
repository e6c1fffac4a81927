"""Which pair cuts a point violates most, and the slacks that meet all of them, without one number per pair of rows in memory.

Rows of one class that agree on all columns in use form a group: they need the same slack. Pairs of
groups are worked through in blocks. Each block gives, for each group, the largest of
1 - (sum of mu over the hypotheses that tell the pair apart) - (slack of the other one), and a few of
the pairs that are violated most.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base.types import Array

_ENTRIES = 1 << 21  # pairs of a block
_NUM_BUCKETS = 8  # pairs that a group may propose in each block
_PRECISE = 4_000_000_000  # products up to which a pass is in 64 bits
_LEAST_VIOLATION = 1e-3


class Side(NamedTuple):
    """The groups of one class."""

    covered: np.ndarray  # [g, A] uint8, by the columns in use
    rows: np.ndarray  # [g] int32, a row of each
    group_of: np.ndarray  # [m of this class]
    members: np.ndarray  # [m of this class] int32


class Pairs(NamedTuple):
    """All pairs of groups, at the sums mu of the columns in use."""

    positive: Side
    negative: Side
    signs: np.ndarray  # [A]
    selected: np.ndarray  # [A] mu
    is_either: bool


class Violated(NamedTuple):
    """Pairs by rows."""

    inside: np.ndarray  # [k] int32: the row of the sign of the hypotheses that serve it
    outside: np.ndarray  # [k] int32
    amounts: np.ndarray  # [k]


class Pass(NamedTuple):
    """What one pass over all pairs finds."""

    of_positive: np.ndarray  # [g+] the slack that the cuts of each positive group want
    of_negative: np.ndarray  # [g-]
    violated: Violated


def group(covered: np.ndarray, rows: np.ndarray) -> Side:
    """Groups of rows [r] with equal entries of covered [r, A]."""
    words = np.packbits(covered, axis=1)
    words = np.ascontiguousarray(np.pad(words, ((0, 0), (0, -words.shape[1] % 8 or (8 if not words.shape[1] else 0)))))
    keys = words.view(np.uint64)
    order, starts = _sorted_groups(keys)
    group_of = np.empty(len(rows), np.int64)
    group_of[order] = np.cumsum(starts) - 1
    first = order[starts]
    return Side(covered[first], rows[first], group_of, rows)


def _sorted_groups(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order in which equal rows [r, words] are neighbours, and where groups start in it."""
    order = np.lexsort(keys.T)
    ordered = keys[order]
    starts = np.ones(len(order), bool)
    starts[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    return order, starts


def num_products(pairs: Pairs) -> int:
    """How many multiplications a pass takes."""
    return 2 * len(pairs.positive.rows) * len(pairs.negative.rows) * max(len(pairs.selected), 1)


def look(pairs: Pairs, slacks_positive: np.ndarray, slacks_negative: np.ndarray) -> Pass:
    """One pass over all pairs of groups, with slacks [g+] and [g-]."""
    num_positive, num_negative = len(pairs.positive.rows), len(pairs.negative.rows)
    if num_positive == 0 or num_negative == 0:
        nothing = np.zeros(0, np.int32)
        found = Violated(nothing, nothing, np.zeros(0))
        return Pass(np.zeros(num_positive), np.zeros(num_negative), found)
    dtype = np.float64 if num_products(pairs) <= _PRECISE else np.float32
    width = _power(num_negative)
    size = min(_power(num_positive), max(_ENTRIES // width, 8))
    columns = _power(max(len(pairs.selected), 1))
    is_positive = pairs.signs > 0
    mu = np.zeros(columns)
    mu[: len(pairs.selected)] = pairs.selected
    of_signs = np.stack([mu, mu])
    of_signs[0, : len(is_positive)] *= is_positive
    of_signs[1, : len(is_positive)] *= ~is_positive
    with jax.enable_x64(True):
        other = jnp.asarray(_padded(pairs.negative.covered, width, columns).astype(dtype))
        other_slacks = jnp.asarray(_filled(slacks_negative, width).astype(dtype))
        wants: list[np.ndarray] = []
        blocks: list[Violated] = []
        of_negative = np.zeros(width)
        for begin in range(0, num_positive, size):
            part = slice(begin, begin + size)
            block = _padded(pairs.positive.covered[part], size, columns).astype(dtype)
            own = _filled(slacks_positive[part], size).astype(dtype)
            answer = _look_at_block(
                jnp.asarray(block),
                jnp.asarray(own),
                other,
                other_slacks,
                jnp.asarray(of_signs.astype(dtype)),
                is_either=pairs.is_either,
            )
            own_wants, other_wants, *best = (np.asarray(one, np.float64) for one in answer)
            wants.append(own_wants)
            of_negative = np.maximum(of_negative, other_wants)
            blocks.append(_rows_of(pairs, best, begin))
    pad = 4 * columns * np.finfo(dtype).eps
    return Pass(
        np.maximum(np.concatenate(wants)[:num_positive], 0) + pad,
        of_negative[:num_negative] + pad,
        Violated(*(np.concatenate(parts) for parts in zip(*blocks, strict=True))),
    )


def _rows_of(pairs: Pairs, best: list[np.ndarray], begin: int) -> Violated:
    """The proposals of a block: amounts and places [signs, groups, buckets] of both sides."""
    amounts, places, amounts_of_others, places_of_others = best
    inside, outside, sizes = [], [], []
    for sign in range(amounts.shape[0]):
        own = np.broadcast_to(np.arange(amounts.shape[1])[:, None], amounts.shape[1:])
        other = np.broadcast_to(np.arange(amounts_of_others.shape[1])[:, None], amounts_of_others.shape[1:])
        positive = np.concatenate([own.ravel(), places_of_others[sign].ravel()]).astype(np.int64) + begin
        negative = np.concatenate([places[sign].ravel(), other.ravel()]).astype(np.int64)
        size = np.concatenate([amounts[sign].ravel(), amounts_of_others[sign].ravel()])
        keeps = (size > _LEAST_VIOLATION) & (positive < len(pairs.positive.rows)) & (negative < len(pairs.negative.rows))
        ends = pairs.positive.rows[positive[keeps]], pairs.negative.rows[negative[keeps]]
        inside.append(ends[sign])
        outside.append(ends[1 - sign])
        sizes.append(size[keeps])
    return Violated(np.concatenate(inside), np.concatenate(outside), np.concatenate(sizes))


def _power(number: int) -> int:
    return max(16, 1 << (number - 1).bit_length())


def _padded(table: np.ndarray, num_rows: int, num_columns: int) -> np.ndarray:
    return np.pad(table, ((0, num_rows - table.shape[0]), (0, num_columns - table.shape[1])))


def _filled(slacks: np.ndarray, size: int) -> np.ndarray:
    """With slacks of 2 for groups that only pad, which no cut of theirs violates."""
    return np.pad(slacks, (0, size - len(slacks)), constant_values=2.0)


@functools.partial(jax.jit, static_argnames=("is_either",))
def _look_at_block(own: Array, own_slacks: Array, other: Array, other_slacks: Array, selected: Array, *, is_either: bool) -> tuple[Array, ...]:
    """What the cuts of [b] positive and [n] negative groups want, and those violated most."""
    by_positive = (own * selected[0][None, :]) @ (1 - other).T
    by_negative = (1 - own) @ (other * selected[1][None, :]).T
    sums = (by_positive + by_negative)[None] if is_either else jnp.stack([by_positive, by_negative])
    missing = 1 - jnp.min(sums, axis=0)
    own_wants = jnp.max(missing - other_slacks[None, :], axis=1)
    other_wants = jnp.max(missing - own_slacks[:, None], axis=0)
    violations = 1 - sums - own_slacks[None, :, None] - other_slacks[None, None, :]
    count, num_own, num_other = violations.shape
    by_bucket = violations.reshape(count, num_own, _NUM_BUCKETS, -1)
    places = jnp.argmax(by_bucket, axis=3)
    amounts = jnp.max(by_bucket, axis=3)
    buckets = jnp.arange(_NUM_BUCKETS)[None, None, :]
    places = places + buckets * (num_other // _NUM_BUCKETS)
    of_others = jnp.swapaxes(violations, 1, 2).reshape(count, num_other, _NUM_BUCKETS, -1)
    places_of_others = jnp.argmax(of_others, axis=3) + buckets * (num_own // _NUM_BUCKETS)
    return own_wants, other_wants, amounts, places, jnp.max(of_others, axis=3), places_of_others
