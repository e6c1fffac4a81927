"""Weights as integers, and exact sums of them by products of floats.

In 32 bits an integer of 30 bits is handed to the product in two parts, of 24 and 6 bits; in 64 bits, where the caller has enabled them, one part of
50 bits is enough. Sums over examples stay below 2^24 (2^53), so that they are exact in any order.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics
from jboost.base.types import Array

_LOW_BITS = 6
_POWER_OF_NOTHING = 100


def bits(dtype: jnp.dtype) -> int:
    """The integers that stand for weights sum to less than 2^bits."""
    return 50 if jnp.dtype(dtype) == jnp.dtype("float64") else 30


def largest(dtype: jnp.dtype) -> int:
    """The largest amount in integers of this type: what costs so much never wins."""
    return 2 ** bits(float_of(dtype)) - 1


def integer_of(dtype: jnp.dtype) -> jnp.dtype:
    """The integer dtype that goes with a float dtype."""
    return jnp.dtype("int64") if jnp.dtype(dtype) == jnp.dtype("float64") else jnp.dtype("int32")


def float_of(dtype: jnp.dtype) -> jnp.dtype:
    """The float dtype that goes with an integer dtype."""
    return jnp.dtype("float64") if jnp.dtype(dtype) == jnp.dtype("int64") else jnp.dtype("float32")


def exponent(total: Array) -> Array:
    """e such that weights of this sum, times 2^e and rounded, are integers that sum to less than 2^bits, and to nearly half of it at least.

    Without any weight a large number, so that costs that differ at all differ by more than there is to gain.
    """
    _, above = jnp.frexp(total * 1.001)
    return jnp.where(total > 0, bits(total.dtype) - above, _POWER_OF_NOTHING)


def to_integers(amounts: Array, power: Array) -> Array:
    """The integers next to amounts 2^power; at most 2^bits."""
    top = 2.0 ** bits(amounts.dtype) - 2.0 ** (bits(amounts.dtype) - 20)
    return jnp.round(jnp.minimum(numerics.times_power_of_two(amounts, power), top)).astype(integer_of(amounts.dtype))


def floor_to_integers(costs: Array, power: Array) -> tuple[Array, Array]:
    """The integers below (costs - least cost) 2^power, the largest integer where that is more; and the most that is cut off of a smaller one.

    What rounding takes from or adds to a difference is (costs - difference) - least, exactly (Dekker 1971).
    """
    top, least = 2 ** bits(costs.dtype) - 1, jnp.min(costs)
    differences = costs - least
    lost = jnp.where(costs < jnp.inf, (costs - differences) - least, 0)
    low = jnp.floor(numerics.times_power_of_two(jnp.where(lost < 0, jnp.nextafter(differences, jnp.zeros_like(costs)), differences), power))
    high = numerics.times_power_of_two(jnp.where(lost > 0, jnp.nextafter(differences, jnp.full_like(costs, jnp.inf)), differences), power)
    fits = low < top
    cut = jnp.max(jnp.where(fits, high - low, 0), initial=0)
    return jnp.where(fits, jnp.where(fits, low, 0).astype(integer_of(costs.dtype)), top), cut


def product(matrix: Array, amounts: Array) -> Array:
    """matrix [k, R] of 0 and 1 times amounts [R, B], integers: exact, [k, B]."""
    if amounts.dtype == jnp.dtype("int64"):
        return numerics.times(matrix, amounts.astype(matrix.dtype)).astype(amounts.dtype)
    high, low = amounts >> _LOW_BITS, amounts & (2**_LOW_BITS - 1)
    both = numerics.times(matrix, jnp.concatenate([high, low], axis=1).astype(matrix.dtype)).astype(amounts.dtype)
    return (both[:, : amounts.shape[1]] << _LOW_BITS) + both[:, amounts.shape[1] :]


def pack(flags: Array) -> Array:
    """The bits of [..., G] bool in [..., ceil(G / 32)] words."""
    size = flags.shape[-1]
    num_words = -(-size // 32)
    padded = jnp.pad(flags, [(0, 0)] * (flags.ndim - 1) + [(0, 32 * num_words - size)])
    grouped = padded.reshape(*flags.shape[:-1], num_words, 32).astype(jnp.uint32)
    places = jnp.uint32(1) << lax.broadcasted_iota(jnp.uint32, grouped.shape, grouped.ndim - 1)
    return jnp.sum(grouped * places, axis=-1, dtype=jnp.uint32)


def unpack(words: Array, size: int) -> Array:
    """The first `size` bits of [..., W] words, [..., size] bool."""
    spread = (words[..., :, None] >> jnp.arange(32, dtype=jnp.uint32).reshape((1,) * words.ndim + (32,))) & 1
    return spread.reshape(*words.shape[:-1], -1)[..., :size].astype(bool)


def one_bit(index: Array, num_words: int) -> Array:
    """Words [..., W] with the one bit `index` [...] set."""
    words = jnp.arange(num_words, dtype=jnp.int32).reshape((1,) * index.ndim + (num_words,))
    place = jnp.uint32(1) << (index & 31).astype(jnp.uint32)
    return jnp.where((index >> 5)[..., None] == words, place[..., None], jnp.uint32(0))


def nth_set(words: Array, num: int) -> tuple[Array, Array]:
    """Where the first `num` set bits of words [k, W] are, row by row: rows and bits, [num] int32; any place past the last one."""
    width = words.shape[1]
    counts = lax.population_count(words).astype(jnp.int32).reshape(-1)
    until = jnp.cumsum(counts)
    slots = jnp.arange(num, dtype=jnp.int32)
    place = jnp.minimum(jnp.searchsorted(until, slots, side="right"), until.shape[0] - 1).astype(jnp.int32)
    rest = slots - (until - counts)[place]
    word = words.reshape(-1)[place]
    bits_up_to = lax.population_count(word[:, None] & (jnp.uint32(2) << jnp.arange(32, dtype=jnp.uint32))[None, :] - 1).astype(jnp.int32)
    bit = jnp.sum(bits_up_to <= rest[:, None], axis=1, dtype=jnp.int32)
    return place // width, (place % width) * 32 + jnp.minimum(bit, 31)
