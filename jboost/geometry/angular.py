"""Points sorted by the direction in which a centre sees them, opposite directions counted as one.

The mirrored angle of a vector (dx, dy) in the upper half plane is measured by
v = 1 - dx / (|dx| + |dy|) in [0, 2), which grows with the angle, or by slopes against the nearer
axis, which grow from axis to axis. It is turned into an integer with a fixed number of fractional
bits, because integers sort several times faster than floats; on float64 the place of the point is
packed into the low bits of the same word, on float32 a second word carries the remaining bits of
the angle. An integer key decides an order only where two keys differ by two or more: `joined` says
where they do not. On an integer grid of `grid_bits` bits `joined` is exactly collinearity.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry import exact


class HalfTurnOrder(NamedTuple):
    """Points by mirrored angle."""

    # [n] int32, the places of the points in angular order; points that are not live come last
    index: Array
    # [n] bool, True at j if the keys at j - 1 and j are too close to tell the directions of two
    # live points apart
    joined: Array


def positions(order: HalfTurnOrder) -> Array:
    """The place of each point in the angular order, [n] int32."""
    index = order.index
    place = lax.iota(jnp.int32, index.shape[0])
    return index.at[index].set(
        place, mode="promise_in_bounds", unique_indices=True, wrap_negative_indices=False
    )


_MAX_FRACTION_BITS = 48  # of a float64 angle: its error is then an eighth of a unit
# of each of the two words that carry the angle as a double word, by bytes of a float
_HALF_FRACTION_BITS = {4: 20, 8: 48}


def _fraction_bits(num_points: int) -> int:
    return min(_MAX_FRACTION_BITS, 63 - _index_bits(num_points))


def _index_bits(num_points: int) -> int:
    return max(1, (num_points - 1).bit_length())


def grid_bits(dtype: jnp.dtype, num_points: int) -> int:
    """The largest g such that on integer coordinates of at most 2^g the keys of two directions are
    equal or three apart.
    """
    bits = 2 * _HALF_FRACTION_BITS[4] if dtype.itemsize == 4 else _fraction_bits(num_points)
    return (bits - 6) // 2


def is_upper(dx: Array, dy: Array) -> Array:
    """Whether the angle of (dx, dy) lies in [0, pi)."""
    return (dy > 0) | ((dy == 0) & (dx > 0))


def half_turn_order(points: Array, centre: Array, live: Array) -> HalfTurnOrder:
    """Sorts points by mirrored angle round a centre.

    Args:
      points: [2, n] float32 or float64.
      centre: [2].
      live: [n] bool; points that are not live, or lie at the centre, have no direction and come
        last.
    """
    return read_order(sort_keys(half_turn_keys(points, centre, live)))


class Keys(NamedTuple):
    """What points are sorted by: one word with the angle and the place of a point, or two words
    with the angle and the place.
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
    """The keys of one centre, or of several [..., n], each in order."""
    return Keys(lax.sort(keys.words, num_keys=min(2, len(keys.words)), is_stable=False))


def read_order(keys: Keys) -> HalfTurnOrder:
    """The order of sorted keys [n]."""
    return _read_one_word(*keys.words) if len(keys.words) == 1 else _read_two_words(*keys.words)


def _in_one_word(points: Array, centre: Array, live: Array) -> Keys:
    size = points.shape[1]
    index_bits, fraction_bits = _index_bits(size), _fraction_bits(size)
    dx, dy = points - centre[:, None]
    mirrored = jnp.where(is_upper(dx, dy), dx, -dx)
    angle = 1 - mirrored / (jnp.abs(dx) + jnp.abs(dy))
    last = jnp.uint64(2 ** (fraction_bits + 1) - 1)  # of points that are not live
    bits = lax.bitcast_convert_type(
        jnp.minimum(2 + angle, 4 - 2.0 ** (1 - fraction_bits)), jnp.uint64
    )
    quantized = (bits >> (51 - fraction_bits)) & last  # in [2, 4) the bits of a float64 count 2^-51
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
    """What stands one place before along the last axis, 0 at the first place."""
    return jnp.pad(values[..., :-1], [(0, 0)] * (values.ndim - 1) + [(1, 0)])


def _has_previous(live: Array) -> Array:
    """Which of the points in order are live and not the first, [n] bool."""
    return live & (lax.iota(jnp.int32, live.shape[0]) > 0)


def _in_two_words(points: Array, centre: Array, live: Array) -> Keys:
    """Keys of double words: the slope against the nearer axis, counted on from one axis to the
    next; 0 to 4 over half a turn.
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


class _Transposition(NamedTuple):
    """Where the odd-even transposition stands."""

    order: Array  # [n] int32
    turn: Array  # [n - 1] int32, negative where a point and the next one are in the wrong order
    # [] int32, the parity of the points that are compared with the next one; neither before the
    # first turn
    phase: Array


def exact_half_turn_order(points: Array, centre: Array, live: Array) -> HalfTurnOrder:
    """As `half_turn_order`, with every comparison exact: `joined` is True at j exactly where j - 1
    and j are seen in one direction.

    Keys of double words leave only neighbours in doubt; these are put right by odd-even
    transposition with exact orientations.
    """
    order = _read_two_words(*sort_keys(_in_two_words(points, centre, live)).words).index
    place = lax.iota(jnp.int32, points.shape[1] - 1)
    has_next = place + 1 < reduce.count(live)
    at = centre[:, None]

    def compare(order: Array) -> Array:
        seen = numerics.take(points, order)
        first, second = seen[:, :-1], seen[:, 1:]
        turn = exact.orientation(at, first, second)
        is_same_half = is_upper(*(first - at)) == is_upper(*(second - at))
        return jnp.where(has_next, jnp.where(is_same_half, turn, -turn), 1)

    def transpose(now: _Transposition) -> _Transposition:
        swap = (now.turn < 0) & (place % 2 == now.phase)
        forward, backward = jnp.append(swap, False), jnp.append(False, swap)
        order = jnp.where(
            forward, jnp.roll(now.order, -1), jnp.where(backward, jnp.roll(now.order, 1), now.order)
        )
        return _Transposition(
            order, compare(order), jnp.where(now.phase == 0, 1, 0).astype(jnp.int32)
        )

    start = _Transposition(order, jnp.full_like(place, -1), jnp.full((), 2, jnp.int32))
    order, turn, _ = loops.while_loop(lambda now: reduce.any_true(now.turn < 0), transpose, start)
    return HalfTurnOrder(order, jnp.append(False, turn == 0))
