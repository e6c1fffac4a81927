"""Points sorted by the direction in which a centre sees them, opposite directions counted as one.

The mirrored angle of a vector (dx, dy) in the upper half plane is measured by v = 1 - dx / (|dx| + |dy|) in [0, 2), which
grows with the angle. It is turned into an integer with a fixed number of fractional bits, because integers sort several
times faster than floats; on float64 the place of the point is packed into the low bits of the same word, on float32 a
second word carries the remaining bits of the angle. An integer key decides an order only where two keys differ by two or
more: `joined` says where they do not. On an integer grid of `grid_bits` bits `joined` is exactly collinearity.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops
from jboost.base.types import Array
from jboost.geometry import exact


class HalfTurnOrder(NamedTuple):
    """Points by mirrored angle."""

    index: Array  # [n] int32, the places of the points in angular order; points that are not live come last
    joined: Array  # [n] bool, True at j if the keys at j - 1 and j are too close to tell the two directions apart


_MAX_FRACTION_BITS = 48  # of a float64 angle: its error is then an eighth of a unit
_HALF_FRACTION_BITS = {4: 20, 8: 48}  # of each of the two words that carry the angle as a double word, by bytes of a float


def _fraction_bits(num_points: int) -> int:
    return min(_MAX_FRACTION_BITS, 63 - _index_bits(num_points))


def _index_bits(num_points: int) -> int:
    return max(1, (num_points - 1).bit_length())


def grid_bits(dtype: jnp.dtype, num_points: int) -> int:
    """The largest g such that on integer coordinates of at most 2^g the keys of two directions are equal or three apart."""
    bits = 2 * _HALF_FRACTION_BITS[4] if dtype.itemsize == 4 else _fraction_bits(num_points)
    return (bits - 6) // 2


def is_upper(dx: Array, dy: Array) -> Array:
    """Whether the angle of (dx, dy) lies in [0, pi)."""
    return (dy > 0) | ((dy == 0) & (dx > 0))


def half_turn_order(x: Array, y: Array, centre_x: Array, centre_y: Array, live: Array) -> HalfTurnOrder:
    """Sorts points by mirrored angle round a centre.

    Args:
      x: [n] float32 or float64.
      y: [n].
      centre_x: [].
      centre_y: [].
      live: [n] bool; points that are not live, or lie at the centre, have no direction and come last.
    """
    if x.dtype.itemsize == 4:
        return _order_by_two_words(x, y, centre_x, centre_y, live)
    return _order_by_one_word(x, y, centre_x, centre_y, live)


def _order_by_one_word(x: Array, y: Array, centre_x: Array, centre_y: Array, live: Array) -> HalfTurnOrder:
    size = x.shape[0]
    index_bits, fraction_bits = _index_bits(size), _fraction_bits(size)
    dx, dy = x - centre_x, y - centre_y
    mirrored = jnp.where(is_upper(dx, dy), dx, -dx)
    angle = 1 - mirrored / (jnp.abs(dx) + jnp.abs(dy))
    largest = jnp.uint64(2 ** (fraction_bits + 1) - 1)
    quantized = jnp.minimum((angle * 2.0**fraction_bits).astype(jnp.uint64), largest)
    keys = (jnp.where(live, quantized, largest) << index_bits) | lax.iota(jnp.uint64, size)
    keys = lax.sort(keys)
    angles = keys >> index_bits
    joined = jnp.concatenate([jnp.zeros(1, bool), angles[1:] - angles[:-1] <= 1])
    return HalfTurnOrder((keys & jnp.uint64(2**index_bits - 1)).astype(jnp.int32), joined)


def _order_by_two_words(x: Array, y: Array, centre_x: Array, centre_y: Array, live: Array) -> HalfTurnOrder:
    dx, dy = exact.wide_difference(x, centre_x), exact.wide_difference(y, centre_y)
    mirrored = exact.wide_where(is_upper(dx.hi, dy.hi), exact.wide_negative(dx), dx)
    angle = exact.wide_divide(mirrored, exact.wide_add(exact.wide_abs(dx), exact.wide_abs(dy)))
    half_bits = _HALF_FRACTION_BITS[x.dtype.itemsize]
    scale, word = 2**half_bits, jnp.uint32 if half_bits < 32 else jnp.uint64
    high, low = angle.hi * scale, angle.lo * scale  # of -dx / (|dx| + |dy|), which is v - 1
    whole = jnp.floor(high)
    rest = (high - whole) + low
    whole, rest = jnp.where(rest < 0, whole - 1, whole), jnp.where(rest < 0, rest + 1, rest)
    first = jnp.where(live, jnp.clip(whole + scale, 0, 2 * scale - 1).astype(word), 2 * scale - 1)
    second = jnp.where(live, jnp.clip(rest * scale, 0, scale - 1).astype(word), scale - 1)
    first, second, index = lax.sort((first, second, lax.iota(jnp.int32, x.shape[0])), num_keys=2, is_stable=False)
    same_word = (first[1:] == first[:-1]) & (second[1:] <= second[:-1] + 1)
    next_word = (first[1:] == first[:-1] + 1) & (second[1:] == 0) & (second[:-1] == scale - 1)
    return HalfTurnOrder(index, jnp.concatenate([jnp.zeros(1, bool), same_word | next_word]))


def exact_half_turn_order(x: Array, y: Array, centre_x: Array, centre_y: Array, live: Array) -> HalfTurnOrder:
    """As `half_turn_order`, with every comparison exact: `joined` is True at j exactly where j - 1 and j are seen in one direction.

    Keys of double words leave only neighbours in doubt; these are put right by odd-even transposition with exact orientations.
    """
    index = _order_by_two_words(x, y, centre_x, centre_y, live).index
    upper = is_upper(x - centre_x, y - centre_y)
    parity = lax.iota(jnp.int32, x.shape[0] - 1) % 2

    def compare(order: Array) -> Array:
        first, second = order[:-1], order[1:]
        turn = exact.orientation(centre_x, centre_y, x[first], y[first], x[second], y[second])
        turn = jnp.where(upper[first] == upper[second], turn, -turn)
        ones = jnp.ones_like(turn)
        return jnp.where(live[first] & live[second], turn, jnp.where(~live[first] & live[second], -ones, ones))

    def unfinished(carry: tuple[Array, Array, Array]) -> Array:
        _, turn, phase = carry
        return (phase < 0) | jnp.any(turn < 0)

    def transpose(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        order, turn, phase = carry
        swap = (turn < 0) & (parity == phase)
        forward, backward = jnp.concatenate([swap, jnp.zeros(1, bool)]), jnp.concatenate([jnp.zeros(1, bool), swap])
        order = jnp.where(forward, jnp.roll(order, -1), jnp.where(backward, jnp.roll(order, 1), order))
        return order, compare(order), jnp.where(phase == 0, 1, 0).astype(jnp.int32)

    start = (index, jnp.zeros_like(parity), jnp.full((), -1, jnp.int32))
    order, turn, _ = loops.while_loop(unfinished, transpose, start)
    return HalfTurnOrder(order, jnp.concatenate([jnp.zeros(1, bool), turn == 0]))
