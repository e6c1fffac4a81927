"""The capped entries of a projection by relative entropy, found with one sort."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax

from jboost.base import float_words, numerics, reduce
from jboost.base.types import Array, ArrayLike
from jboost.projections.arguments import ROUNDINGS, broadcast
from jboost.projections.newton import find_by_newton
from jboost.projections.remainder import WIDE, CappedSet, remainder_of, summands


def find_by_sort(logs: Array, caps: Array) -> CappedSet:
    """The capped entries, from the quotients weight / cap in descending order.

    Scale the weights so that an entry is exactly at its cap. The entry is free (not capped) if it
    and the entries behind it then sum to at least the remainder that the caps before it leave. If
    an entry is free, all entries behind it are. The search takes two stages of about sqrt(m)
    entries: the first entry of every block of sqrt(m) entries, then the entries of one block.
    """
    keys = (
        jnp.where(caps > 0, logs - jnp.log(jnp.where(caps > 0, caps, 1)), -jnp.inf)
        if caps.ndim
        else logs
    )
    size = logs.shape[0]
    length = math.isqrt(size - 1) + 1
    num_blocks = -(-size // length)
    ordered, sorted_caps = _sort_descending(keys, caps, num_blocks * length + 1)
    left = numerics.in_64_bits(_left_before)(caps, sorted_caps)
    # A factor below this one counts as 1: the entry is at its cap up to rounding.
    nearly_one = 1 + ROUNDINGS * jnp.finfo(logs.dtype).eps

    blocks, caps_of_blocks = (
        each[:-1].reshape(num_blocks, length) for each in (ordered, sorted_caps)
    )
    weights, block, num_kept = _find_block(blocks, caps_of_blocks, left[:-1:length], nearly_one)
    left_by_all = numerics.in_64_bits(
        lambda cap, count: remainder_of(cap, count.astype(WIDE)).astype(cap.dtype)
    )(caps, num_kept)

    def of_block(values: Array) -> Array:  # its entries and the first one of the next block
        return lax.dynamic_slice(values, (block * length,), (length + 1,))

    # The last entry of the slice stands for all blocks behind this one.
    rest = jnp.where(block + 1 < num_blocks, weights[jnp.minimum(block + 1, num_blocks - 1)], 0)
    block_keys = of_block(ordered)
    block_caps = jnp.where(lax.iota(jnp.int32, length + 1) == length, rest, of_block(sorted_caps))
    factors = jnp.maximum(of_block(left), 0) / (block_caps + _sums_behind(block_keys, block_caps))
    position = jnp.minimum(
        numerics.first_true((factors <= nearly_one) & (block_keys > -jnp.inf)), length
    )
    if caps.ndim:  # keys are rounded more than log weights are
        return numerics.in_64_bits(find_by_newton)(logs, caps, block_keys[position])
    return CappedSet(logs > block_keys[position], left_by_all, ordered[0])


def _find_block(
    blocks: Array, caps: Array, left: Array, nearly_one: ArrayLike
) -> tuple[Array, Array, Array]:
    """The first stage: the block that holds the first free entry.

    Args:
      blocks: [b, n] the keys in descending order.
      caps: [b, n] in the order of the keys.
      left: [b] what the caps before each block leave.
      nearly_one: a factor below this one counts as 1.

    Returns:
      The weights [b] of each block and all blocks behind it, relative to its first entry; the
      index [] of the block; and the number [] of keys above -inf.
    """
    num_blocks, firsts = blocks.shape[0], blocks[:, 0]
    within, num_kept = reduce.totals(
        caps * _decay(blocks, firsts[:, None]), (blocks != -jnp.inf).astype(blocks.dtype)
    )
    weights = within + _sums_behind(firsts, within)
    is_free = (weights * nearly_one >= left) | (firsts == -jnp.inf)
    after, num_kept = reduce.several(
        (reduce.LEAST, jnp.where(is_free, lax.iota(jnp.int32, num_blocks), num_blocks)),
        (reduce.SUM, num_kept.astype(jnp.int32)),
    )
    return weights, jnp.maximum(after - 1, 0), num_kept


def _decay(later: Array, earlier: Array) -> Array:
    """exp(later - earlier), and 0 where later is -inf."""
    return jnp.where(later > -jnp.inf, jnp.exp(later - earlier), 0)


def _sums_behind(keys: Array, weights: Array) -> Array:
    """The sums over j > i of weights_j exp(keys_j - keys_i), [n] for each i, of descending keys."""
    is_behind = lax.broadcasted_iota(jnp.int32, keys.shape * 2, 1) > lax.broadcasted_iota(
        jnp.int32, keys.shape * 2, 0
    )
    return reduce.total(
        jnp.where(is_behind, weights[None, :] * _decay(keys[None, :], keys[:, None]), 0)
    )


def _sort_descending(keys: Array, caps: Array, size: int) -> tuple[Array, Array]:
    """Keys in descending order, and the caps in the order of the keys, both [size].

    They are padded with keys of -inf, and with caps of 0 if there is a cap per entry.
    """
    padding = (0, size - keys.shape[0])
    # XLA sorts integers several times faster than floats. They ascend as the floats descend.
    padded, dtype = jnp.pad(keys, padding, constant_values=-jnp.inf), keys.dtype
    words = ~float_words.ascending(padded)
    if not caps.ndim:
        return float_words.floats(~lax.sort(words), dtype), broadcast(caps, size)
    caps = jnp.pad(caps, padding)
    if dtype.itemsize > 4:
        words, caps = lax.sort((words, caps), num_keys=1)
        return float_words.floats(~words, dtype), caps

    # A 64-bit integer holds the key in its upper and the cap in its lower 32 bits, so that integers
    # are sorted instead of pairs.
    def sort_packed(words: Array, caps: Array) -> tuple[Array, Array]:
        packed = (words.astype(jnp.uint64) << 32) | lax.bitcast_convert_type(
            caps, jnp.uint32
        ).astype(jnp.uint64)
        packed = lax.sort(packed)
        return (packed >> 32).astype(jnp.uint32), lax.bitcast_convert_type(
            (packed & 0xFFFFFFFF).astype(jnp.uint32), jnp.float32
        )

    words, caps = numerics.in_64_bits(sort_packed)(words, caps)
    return float_words.floats(~words, dtype), caps


def _left_before(caps: Array, sorted_caps: Array) -> Array:
    """1 minus the sum of the caps before each sorted entry, [n]; inside `in_64_bits`."""
    if not caps.ndim:
        return remainder_of(caps, lax.iota(jnp.int32, sorted_caps.shape[0]).astype(WIDE)).astype(
            caps.dtype
        )
    # Cumulative sums within rows and of rows: faster on a CPU than one long cumulative sum.
    within = jnp.cumsum(
        summands(sorted_caps[:-1]).reshape(-1, math.isqrt(caps.shape[0] - 1) + 1), axis=1
    )
    rows = within[:, -1]
    sums = (jnp.cumsum(rows) - rows)[:, None] + within
    return (1 - jnp.concatenate([jnp.zeros(1, sums.dtype), sums.reshape(-1)])).astype(caps.dtype)
