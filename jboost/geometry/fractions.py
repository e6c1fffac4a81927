"""Directions written in a short float type with the accuracy of a long one.

Two float32 numbers have 24 bits each, but their quotient can come within 2^-48 of a given slope: the quotients that enclose
a slope most tightly are found by continued fractions. Rounding both components instead would turn the direction by up to
2^-24, which is wider than the gap that separates the points of a data set of a few thousand.
"""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base import loops, numerics
from jboost.base.types import Array

_MAX_TERMS = 48


def enclosing_directions(x: Array, y: Array, dtype: jnp.dtype) -> tuple[Array, Array]:
    """Vectors whose components are exact in `dtype` and whose directions lie next to that of (x, y).

    If any vector of `dtype` lies in a range of directions that holds (x, y), one of these does: they are the nearest slopes
    below and above among quotients of two floats, with the binary exponents of numerator and denominator free.

    Args:
      x: [] float.
      y: [].
      dtype: float32 or float64.

    Returns:
      x [5] and y [5], as floats of the input's type; the first is (x, y) itself where that is exact in `dtype`.
    """
    fits = (numerics.held_in(x, dtype) == x) & (numerics.held_in(y, dtype) == y)
    swap = jnp.abs(y) > jnp.abs(x)
    long, short = jnp.where(swap, jnp.abs(y), jnp.abs(x)), jnp.where(swap, jnp.abs(x), jnp.abs(y))
    ratio = jnp.where(short > 0, short, long) / jnp.where(long > 0, long, 1)
    octave = jnp.where(ratio > 0, numerics.power_of_two_at_least(ratio), 1)
    lower_half = ratio / octave  # in (1/2, 1]
    largest = 2.0 ** (jnp.finfo(dtype).nmant + 1)
    p, q = _enclosing_quotients(lower_half, largest)
    other_p, other_q = _enclosing_quotients(1 / (2 * lower_half), largest)
    numerators = jnp.concatenate([p * octave, other_q * octave])
    denominators = jnp.concatenate([q, 2 * other_p])
    numerators = jnp.where(short > 0, numerators, 0)
    long_x, long_y = jnp.copysign(denominators, x), jnp.copysign(denominators, y)
    short_x, short_y = jnp.copysign(numerators, x), jnp.copysign(numerators, y)
    around_x, around_y = jnp.where(swap, short_x, long_x), jnp.where(swap, long_y, short_y)
    own_x, own_y = jnp.where(fits, x, around_x[0]), jnp.where(fits, y, around_y[0])
    return jnp.concatenate([own_x[None], around_x]), jnp.concatenate([own_y[None], around_y])


def _enclosing_quotients(ratio: Array, largest: float) -> tuple[Array, Array]:
    """Integers p [2], q [2] as floats, q <= `largest`: the neighbours of `ratio` in (0, 1] on its two sides, or itself."""

    def extend(_: int, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        old_p, old_q, p, q, rest, going = carry
        inverse = 1 / jnp.where(rest > 0, rest, 1)
        term = jnp.where(rest > 0, jnp.floor(inverse), jnp.inf)
        room = jnp.floor((largest - old_q) / jnp.maximum(q, 1))
        ends = term > room
        step = jnp.where(ends, room, term)
        new_p, new_q = old_p + step * p, old_q + step * q
        turn = going & ~ends
        swap_p, swap_q = jnp.where(turn, p, jnp.where(going, new_p, old_p)), jnp.where(turn, q, jnp.where(going, new_q, old_q))
        p, q = jnp.where(turn, new_p, p), jnp.where(turn, new_q, q)
        return swap_p, swap_q, p, q, jnp.where(turn, inverse - term, rest), turn

    zero, one = jnp.zeros_like(ratio), jnp.ones_like(ratio)
    start = (one, zero, zero, one, ratio, jnp.ones((), bool))
    old_p, old_q, p, q, _, _ = loops.fori_loop(0, _MAX_TERMS, extend, start)
    return jnp.stack([p, old_p]), jnp.stack([q, old_q])
