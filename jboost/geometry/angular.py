"""Points sorted by their direction from a centre, where opposite directions count as equal.

Vectors are first mirrored into the upper half plane. Their angle is then replaced by a number that
grows with it. For float64 this is v = 1 - dx / (|dx| + |dy|) in [0, 2). For float32 it is the slope
against the nearer axis, with an offset for each axis. The number is converted to an integer with a
fixed number of fractional bits, because integers sort several times faster than floats. For float64
the low bits of the same 64-bit integer hold the index of the point. For float32 a second integer
holds the remaining bits of the number.

Two keys are in the certain order only if they differ by two or more. `joined` is True where they do
not. On an integer grid of `grid_bits` bits, `joined` is exactly collinearity.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce, sequences
from jboost.base.types import Array
from jboost.geometry import exact


class HalfTurnOrder(NamedTuple):
    """Points sorted by mirrored angle."""

    # [n] int32, the indices of the points in angular order; points that are not live come last
    index: Array
    # [n] bool, True at j if the points j - 1 and j of the order are live and their keys do not
    # distinguish their directions
    joined: Array


def positions(order: HalfTurnOrder) -> Array:
    """The position of each point in the angular order, [n] int32."""
    index = order.index
    position = lax.iota(jnp.int32, index.shape[0])
    return index.at[index].set(
        position, mode="promise_in_bounds", unique_indices=True, wrap_negative_indices=False
    )


# Fractional bits of the key of a float64 angle. With 48, the rounding error of the angle is at most
# an eighth of a unit of the key.
_MAX_FRACTION_BITS = 48
# Fractional bits of each of the two words of a key of a double word, by the bytes of the float.
_HALF_FRACTION_BITS = {4: 20, 8: 48}


def _fraction_bits(num_points: int) -> int:
    return min(_MAX_FRACTION_BITS, 63 - _index_bits(num_points))


def _index_bits(num_points: int) -> int:
    return max(1, (num_points - 1).bit_length())


def grid_bits(dtype: jnp.dtype, num_points: int) -> int:
    """The largest g for which keys decide collinearity on integer coordinates of at most 2^g.

    The keys of two directions are then equal, or at least three units apart.
    """
    bits = 2 * _HALF_FRACTION_BITS[4] if dtype.itemsize == 4 else _fraction_bits(num_points)
    return (bits - 6) // 2


def is_upper(dx: Array, dy: Array) -> Array:
    """Whether the angle of (dx, dy) lies in [0, pi)."""
    return (dy > 0) | ((dy == 0) & (dx > 0))


def half_turn_order(points: Array, centre: Array, live: Array) -> HalfTurnOrder:
    """Sorts points by mirrored angle around a centre.

    Args:
      points: [2, n] float32 or float64.
      centre: [2].
      live: [n] bool, False for points to be ignored, which come last. It must be False for points
        equal to the centre.
    """
    return read_order(sort_keys(half_turn_keys(points, centre, live)))


class Keys(NamedTuple):
    """Sort keys of points.

    For float64 there is one word with the angle in its high and the index in its low bits. For
    float32 there are two words of the angle, and the index.
    """

    words: tuple[Array, ...]  # [n] each


def half_turn_keys(points: Array, centre: Array, live: Array) -> Keys:
    """The keys of `half_turn_order`."""
    return (
        _in_one_word(points, centre, live)
        if points.dtype.itemsize == 8
        else _in_two_words(points, centre, live)
    )


def sort_keys(keys: Keys) -> Keys:
    """Sorts the keys of one centre [n], or of several [..., n] along the last axis."""
    return Keys(lax.sort(keys.words, num_keys=min(2, len(keys.words)), is_stable=False))


def read_order(keys: Keys) -> HalfTurnOrder:
    """The angular order in sorted keys [n]."""
    return _read_one_word(*keys.words) if len(keys.words) == 1 else _read_two_words(*keys.words)


def sorted_orders(keys: Keys, num_parts: int) -> HalfTurnOrder:
    """The angular orders around several centres, fields [c, n], from their keys [c, n].

    The keys are sorted in `num_parts` parts of equal size, which a CPU sorts in parallel.
    """
    parts = zip(*(jnp.split(word, num_parts) for word in keys.words), strict=True)
    words = zip(*(sort_keys(Keys(part)).words for part in parts), strict=True)
    return jax.vmap(read_order)(Keys(tuple(jnp.concatenate(word) for word in words)))


def half_turn_orders(points: Array, centres: Array, live: Array, num_parts: int) -> HalfTurnOrder:
    """`half_turn_order` around several centres, fields [c, n].

    Args:
      points: [2, n].
      centres: [2, c].
      live: [c, n] bool.
      num_parts: as in `sorted_orders`.
    """
    keys = jax.vmap(half_turn_keys, in_axes=(None, 1, 0))(points, centres, live)
    return sorted_orders(keys, num_parts)


def _in_one_word(points: Array, centre: Array, live: Array) -> Keys:
    size = points.shape[1]
    index_bits, fraction_bits = _index_bits(size), _fraction_bits(size)
    dx, dy = points - centre[:, None]
    mirrored = jnp.where(is_upper(dx, dy), dx, -dx)
    angle = 1 - mirrored / (jnp.abs(dx) + jnp.abs(dy))
    last = jnp.uint64(2 ** (fraction_bits + 1) - 1)  # the key of points that are not live
    bits = lax.bitcast_convert_type(
        jnp.minimum(2 + angle, 4 - 2.0 ** (1 - fraction_bits)), jnp.uint64
    )
    # In [2, 4) the last bit of a float64 counts 2^-51, so a shift of its bits quantizes 2 + angle.
    quantized = (bits >> (51 - fraction_bits)) & last
    return Keys(((jnp.where(live, quantized, last) << index_bits) | lax.iota(jnp.uint64, size),))


def _read_one_word(keys: Array) -> HalfTurnOrder:
    size = keys.shape[0]
    index_bits, last = _index_bits(size), jnp.uint64(2 ** (_fraction_bits(size) + 1) - 1)
    angles = keys >> index_bits
    is_close = angles - _before(angles) <= 1
    return HalfTurnOrder(
        (keys & jnp.uint64(2**index_bits - 1)).astype(jnp.int32),
        is_close & _has_previous(angles < last),
    )


def _before(values: Array) -> Array:
    """The values shifted by one position along the last axis, with 0 at the first position."""
    return jnp.pad(values[..., :-1], [(0, 0)] * (values.ndim - 1) + [(1, 0)])


def _has_previous(live: Array) -> Array:
    """Whether a point of the order is live and not the first, [n] bool."""
    return live & (lax.iota(jnp.int32, live.shape[0]) > 0)


def _in_two_words(points: Array, centre: Array, live: Array) -> Keys:
    """Keys of two words: the slope against the nearer axis plus an offset, from 0 to 4.

    The offset is that of the axis, so that the number grows over the half turn. It is computed as a
    double word.
    """
    dx, dy = (
        exact.wide_difference(points[0], centre[0]),
        exact.wide_difference(points[1], centre[1]),
    )
    is_steep = jnp.abs(dy.hi) > jnp.abs(dx.hi)
    slope = exact.wide_divide(
        exact.wide_where(is_steep, exact.wide_negative(dx), dy), exact.wide_where(is_steep, dy, dx)
    )
    begin = jnp.where(is_steep, 2, jnp.where(slope.hi < 0, 4, 0))
    scale = 2 ** _HALF_FRACTION_BITS[points.dtype.itemsize]
    word = {4: jnp.uint32, 8: jnp.uint64}[points.dtype.itemsize]
    whole = jnp.floor(slope.hi * scale)
    rest = (slope.hi * scale - whole) + slope.lo * scale
    whole, rest = jnp.where(rest < 0, whole - 1, whole), jnp.where(rest < 0, rest + 1, rest)
    first = jnp.where(
        live, jnp.clip(whole + begin * scale, 0, 4 * scale - 1).astype(word), 4 * scale
    )
    second = jnp.where(live, jnp.clip(rest * scale, 0, scale - 1).astype(word), 0)
    return Keys((first, second, lax.iota(jnp.int32, points.shape[1])))


def _read_two_words(first: Array, second: Array, index: Array) -> HalfTurnOrder:
    scale = 2 ** _HALF_FRACTION_BITS[first.dtype.itemsize]
    first_before, second_before = _before(first), _before(second)
    same_word = (first == first_before) & (second <= second_before + 1)
    next_word = (first == first_before + 1) & (second == 0) & (second_before == scale - 1)
    return HalfTurnOrder(index, (same_word | next_word) & _has_previous(first < 4 * scale))


# The most joined points around a centre whose order is corrected from keys of one word, which takes
# a step for each. Found by trial: keys of two words take as long as a few steps.
_FEW_JOINED = 32


class _Transposition(NamedTuple):
    """The state of an odd-even transposition sort."""

    order: Array  # [n] int32
    turn: Array  # [n - 1] int32, negative where a point and the next one are in the wrong order
    # [] int32, the parity of the positions that are swapped with the next one; 2, which is neither
    # parity, before the first comparison
    phase: Array


def exact_half_turn_order(points: Array, centre: Array, live: Array) -> HalfTurnOrder:
    """`half_turn_order` with exact comparisons. `joined` is True at j exactly if the points j - 1
    and j lie in the same direction.
    """
    return _corrected(points, centre, _close_order(points, centre, live))


def exact_half_turn_orders(
    points: Array, centres: Array, live: Array, quick: HalfTurnOrder
) -> HalfTurnOrder:
    """`exact_half_turn_order` around several centres.

    Args:
      points: [2, n].
      centres: [2, w].
      live: [w, n] bool.
      quick: their `half_turn_order`, fields [w, n].
    """
    if points.dtype.itemsize == 8:  # its keys have one word
        most = jnp.max(jnp.sum(quick.joined, axis=1, dtype=jnp.int32))
        quick = loops.cond(
            most <= _FEW_JOINED,
            lambda: quick,
            lambda: jax.vmap(_close_order, in_axes=(None, 1, 0))(points, centres, live),
        )
    return jax.vmap(_corrected, in_axes=(None, 1, 0))(points, centres, quick)


def _close_order(points: Array, centre: Array, live: Array) -> HalfTurnOrder:
    """The order by keys of two words, which leave few points joined that are not collinear."""
    return _read_two_words(*sort_keys(_in_two_words(points, centre, live)).words)


def _corrected(points: Array, centre: Array, quick: HalfTurnOrder) -> HalfTurnOrder:
    """The exact order, from one that is in doubt only within runs of joined points.

    An odd-even transposition sort with exact orientations corrects the runs.
    """
    position = lax.iota(jnp.int32, points.shape[1] - 1)
    in_doubt = quick.joined[1:]
    at = centre[:, None]

    def compare(order: Array) -> Array:
        def turns(places: Array) -> Array:
            first, second = (
                numerics.take(points, numerics.take(order, each)) for each in (places, places + 1)
            )
            turn = exact.orientation(at, first, second)
            is_same_half = is_upper(*(first - at)) == is_upper(*(second - at))
            return jnp.where(is_same_half, turn, -turn)

        return sequences.over_marked(in_doubt, turns, jnp.ones((), jnp.int32))

    def transpose(now: _Transposition) -> _Transposition:
        swap = (now.turn < 0) & (position % 2 == now.phase)
        forward, backward = jnp.append(swap, False), jnp.append(False, swap)
        order = jnp.where(
            forward, jnp.roll(now.order, -1), jnp.where(backward, jnp.roll(now.order, 1), now.order)
        )
        return _Transposition(
            order, compare(order), jnp.where(now.phase == 0, 1, 0).astype(jnp.int32)
        )

    start = _Transposition(quick.index, jnp.full_like(position, -1), jnp.full((), 2, jnp.int32))
    order, turn, _ = loops.while_loop(lambda now: reduce.any_true(now.turn < 0), transpose, start)
    return HalfTurnOrder(order, jnp.append(False, turn == 0))
