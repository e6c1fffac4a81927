"""Directions written in a short float type with the accuracy of a long one.

Two float32 numbers p and q have 24 bits each, but their quotient can come within 2^-48 of a given slope: the best pair is
found by continued fractions. Rounding both components instead would turn the direction by up to 2^-24, which is wider than
the gap that separates the points of a data set of a few thousand.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array

_MAX_TERMS = 48


def round_direction(x: Array, y: Array, dtype: jnp.dtype) -> tuple[Array, Array]:
    """A vector in nearly the direction (x, y) whose components are exact in `dtype`, as floats of the input's type.

    The input itself, if its components are exact in `dtype` already; else the best quotient of two integers of `dtype`'s
    precision.

    Args:
      x: [] float.
      y: [].
      dtype: float32 or float64.
    """
    fits = (x.astype(dtype).astype(x.dtype) == x) & (y.astype(dtype).astype(y.dtype) == y)
    swap = jnp.abs(y) > jnp.abs(x)
    long, short = jnp.where(swap, jnp.abs(y), jnp.abs(x)), jnp.where(swap, jnp.abs(x), jnp.abs(y))
    numerator, denominator = _best_quotient(short / jnp.where(long > 0, long, 1), 2.0 ** (jnp.finfo(dtype).nmant + 1))
    rounded_x = jnp.copysign(jnp.where(swap, numerator, denominator), x)
    rounded_y = jnp.copysign(jnp.where(swap, denominator, numerator), y)
    return jnp.where(fits, x, rounded_x), jnp.where(fits, y, rounded_y)


def _best_quotient(ratio: Array, largest: float) -> tuple[Array, Array]:
    """Integers p, q <= `largest` as floats, with p / q as near to `ratio` in [0, 1] as the last two (semi)convergents come."""

    def extend(_: int, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        old_p, old_q, p, q, rest, going = carry
        term = jnp.where(rest > 0, jnp.floor(1 / jnp.where(rest > 0, rest, 1)), jnp.inf)
        room = jnp.floor((largest - old_q) / jnp.maximum(q, 1))
        step = jnp.minimum(term, room)
        new_p, new_q = old_p + step * p, old_q + step * q
        ends = (term > room) | (rest == 0)
        semi_is_nearer = jnp.abs(ratio * new_q - new_p) * q < jnp.abs(ratio * q - p) * new_q
        take = going & (~ends | ((rest > 0) & semi_is_nearer))
        next_rest = jnp.where(rest > 0, 1 / jnp.where(rest > 0, rest, 1) - term, 0)
        return (
            jnp.where(take, p, old_p),
            jnp.where(take, q, old_q),
            jnp.where(take, new_p, p),
            jnp.where(take, new_q, q),
            jnp.where(going, next_rest, rest),
            going & ~ends,
        )

    zero, one = jnp.zeros_like(ratio), jnp.ones_like(ratio)
    start = (one, zero, zero, one, ratio, jnp.ones(ratio.shape, bool))
    _, _, p, q, _, _ = lax.fori_loop(0, _MAX_TERMS, extend, start)
    return p, q
