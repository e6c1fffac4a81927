"""Weights as integers, and exact sums of them by products of floats.

In 32 bits an integer of 30 bits is split into two parts of 24 and 6 bits for the product. In 64
bits, if the caller has enabled them, one part of 50 bits is enough. Sums over examples are less
than 2^24 (2^53), so they are exact in any order.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics, reduce
from jboost.base.types import Array

_LOW_BITS = 6  # the bits of the low part of an integer of 30 bits; the high part has 24
_POWER_OF_NOTHING = 100  # the exponent if all weights are 0, see `exponent`


def bits(dtype: jnp.dtype) -> int:
    """The number of bits such that the integers of all weights sum to less than 2^bits."""
    return 50 if jnp.dtype(dtype) == jnp.dtype("float64") else 30


def largest(dtype: jnp.dtype) -> int:
    """The largest amount in integers of this type. A monomial with this cost is never the best."""
    return 2 ** bits(float_of(dtype)) - 1


def integer_of(dtype: jnp.dtype) -> jnp.dtype:
    """The integer dtype that goes with a float dtype."""
    return jnp.dtype("int64") if jnp.dtype(dtype) == jnp.dtype("float64") else jnp.dtype("int32")


def float_of(dtype: jnp.dtype) -> jnp.dtype:
    """The float dtype that goes with an integer dtype."""
    return jnp.dtype("float64") if jnp.dtype(dtype) == jnp.dtype("int64") else jnp.dtype("float32")


def exponent(total: Array) -> Array:
    """An exponent e such that weights of this sum, times 2^e and rounded, sum to less than 2^bits,
    and to at least about half of it.

    If all weights are 0, e is large, so that any two different costs differ by more than the
    possible gain.
    """
    mantissa, below = jnp.frexp(total)  # total * 1.001 may overflow
    above = below + (mantissa * 1.001 >= 1).astype(below.dtype)
    return jnp.where(total > 0, bits(total.dtype) - above, _POWER_OF_NOTHING)


def to_integers(amounts: Array, power: Array) -> Array:
    """The integers nearest to amounts * 2^power; at most 2^bits."""
    top = 2.0 ** bits(amounts.dtype) - 2.0 ** (bits(amounts.dtype) - 20)
    return jnp.round(jnp.minimum(numerics.times_power_of_two(amounts, power), top)).astype(
        integer_of(amounts.dtype)
    )


def floor_to_integers(costs: Array, power: Array) -> tuple[Array, Array]:
    """(costs - least cost) * 2^power, rounded down to integers and limited to `largest`; and the
    largest amount that rounding removes from a cost below the limit.

    The rounding error of a difference is exactly (costs - difference) - least (Dekker 1971).
    """
    top, least = 2 ** bits(costs.dtype) - 1, jnp.min(costs)
    differences = costs - least
    lost = jnp.where(costs < jnp.inf, (costs - differences) - least, 0)
    low = jnp.floor(
        numerics.times_power_of_two(
            jnp.where(lost < 0, jnp.nextafter(differences, jnp.zeros_like(costs)), differences),
            power,
        )
    )
    high = numerics.times_power_of_two(
        jnp.where(lost > 0, jnp.nextafter(differences, jnp.full_like(costs, jnp.inf)), differences),
        power,
    )
    fits = low < top
    cut = jnp.max(jnp.where(fits, high - low, 0), initial=0)
    return jnp.where(fits, jnp.where(fits, low, 0).astype(integer_of(costs.dtype)), top), cut


def loss_of_rounding(lost: Array, power: Array) -> Array:
    """A bound [] of the effect on a value of rounding that moves integers by `lost` [] in all.

    It is 0 only if nothing is lost: processors may treat numbers below the normal range as 0.
    """
    above = numerics.times_power_of_two(lost * 1.001, -power)
    return jnp.where(lost > 0, jnp.maximum(above, jnp.finfo(lost.dtype).tiny), 0)


def largest_value(bound: Array, power: Array, least_cost: Array, spare: Array) -> Array:
    """The largest value [] of a monomial whose integer value is at most `bound`.

    The costs of the integer value are those above `least_cost`. `spare` is a `loss_of_rounding`.
    """
    info = jnp.finfo(spare.dtype)
    scaled = numerics.times_power_of_two(numerics.round_up(bound, spare.dtype), -power)
    above = jnp.where(bound > 0, jnp.maximum(scaled, info.tiny), scaled) - least_cost + spare
    # each of the operations may lose a part of its result, or a number below the normal range
    slack = 2 * info.eps * (jnp.abs(above) + least_cost) + 8 * info.tiny
    return above + jnp.where(spare + least_cost > 0, slack, 0).astype(spare.dtype)


def product(matrix: Array, amounts: Array) -> Array:
    """The exact product [..., k, B] of a matrix [..., k, R] of 0 and 1 with integers [..., R,
    B].
    """
    if amounts.dtype == jnp.dtype("int64"):
        return _times(matrix, amounts.astype(matrix.dtype)).astype(amounts.dtype)
    high, low = amounts >> _LOW_BITS, amounts & (2**_LOW_BITS - 1)
    width = amounts.shape[-1]
    both = _times(matrix, jnp.concatenate([high, low], axis=-1).astype(matrix.dtype)).astype(
        amounts.dtype
    )
    return (both[..., :width] << _LOW_BITS) + both[..., width:]


def _times(left: Array, right: Array) -> Array:
    """Products of the matrices of two stacks, [..., k, R] and [..., R, B]."""
    stacked = tuple(range(left.ndim - 2))
    dimensions = (((left.ndim - 1,), (right.ndim - 2,)), (stacked, stacked))
    return lax.dot_general(left, right, dimensions, precision=lax.Precision.HIGHEST)


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
    spread = (
        words[..., :, None] >> jnp.arange(32, dtype=jnp.uint32).reshape((1,) * words.ndim + (32,))
    ) & 1
    return spread.reshape(*words.shape[:-1], -1)[..., :size].astype(bool)


def one_bit(index: Array, num_words: int) -> Array:
    """Words [..., W] with the one bit `index` [...] set."""
    words = jnp.arange(num_words, dtype=jnp.int32).reshape((1,) * index.ndim + (num_words,))
    place = jnp.uint32(1) << (index & 31).astype(jnp.uint32)
    return jnp.where((index >> 5)[..., None] == words, place[..., None], jnp.uint32(0))


def nth_set(words: Array, num: int) -> tuple[Array, Array]:
    """The rows and the bits, [num] int32 each, of the first `num` set bits of words [k, W], row by
    row. Entries past the last set bit are arbitrary.
    """
    counts = lax.population_count(words).astype(jnp.int32)
    row, rest = _groups_of(reduce.total(counts, axis=1)[None, :], jnp.arange(num, dtype=jnp.int32))
    column, rest = _groups_of(counts[row], rest)
    bits_so_far = (jnp.uint32(2) << jnp.arange(32, dtype=jnp.uint32)) - 1
    until = lax.population_count(words[row, column][:, None] & bits_so_far[None, :]).astype(
        jnp.int32
    )
    bit = jnp.sum(until <= rest[:, None], axis=1, dtype=jnp.int32)
    return row, column * 32 + jnp.minimum(bit, 31)


def _groups_of(counts: Array, members: Array) -> tuple[Array, Array]:
    """For groups of `counts` [k, g] or [1, g] members: the group of each member [k], which is
    numbered over all groups, and its number within the group.
    """
    if counts.shape[1] == 1:
        return jnp.zeros_like(members), members
    is_before = sums_so_far(counts) <= members[:, None]
    groups, others = reduce.totals(is_before.astype(jnp.int32), jnp.where(is_before, counts, 0))
    return jnp.minimum(groups, counts.shape[1] - 1), members - others


def sums_so_far(numbers: Array) -> Array:
    """The cumulative sums of integers [..., k]. Computing each sum separately takes one kernel,
    `cumsum` takes five.
    """
    places = jnp.arange(numbers.shape[-1])
    return reduce.total(jnp.where(places[:, None] >= places[None, :], numbers[..., None, :], 0))


def stable_order(kinds: Array) -> Array:
    """The indices [..., k] int32 that sort small integers `kinds` [..., k], from 0 to at most k, in
    ascending order; the sort is stable.
    """
    size = kinds.shape[-1]
    places = lax.broadcasted_iota(jnp.int32, kinds.shape, kinds.ndim - 1)
    return lax.rem(lax.sort(kinds * size + places, is_stable=False), jnp.int32(size))
