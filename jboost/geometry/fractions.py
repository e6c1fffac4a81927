"""Directions in a short float type with the accuracy of a longer one.

A float32 number has 24 bits, but the quotient of two can be within 2^-48 of a given slope.
Continued fractions give the quotients that enclose a slope most tightly. Rounding both components
instead would turn the direction by up to 2^-24. This can be more than the gap between the points of
a data set with a few thousand examples.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jboost.base import loops, numerics
from jboost.base.types import Array

# Terms of a continued fraction. A round number above what 24 or 53 bits need; not tuned.
_MAX_TERMS = 48


def enclosing_directions(vector: Array, dtype: jnp.dtype) -> Array:
    """Vectors of `dtype` whose directions are next to that of a given vector.

    They are the nearest slopes below and above among quotients of two floats with free binary
    exponents. So if an interval of directions contains the given direction and that of any vector
    of `dtype`, it contains one of these.

    Args:
      vector: [2] float.
      dtype: float32 or float64.

    Returns:
      [5, 2], floats of the input's type that are exact in `dtype`. The first is the vector itself
      if it is exact in `dtype`.
    """
    fits = jnp.all(numerics.held_in(vector, dtype) == vector)
    sizes = jnp.abs(vector)
    swap = sizes[1] > sizes[0]
    long, short = jnp.maximum(sizes[0], sizes[1]), jnp.minimum(sizes[0], sizes[1])
    ratio = jnp.where(short > 0, short, long) / jnp.where(long > 0, long, 1)
    octave = jnp.where(ratio > 0, numerics.power_of_two_at_least(ratio), 1)
    lower_half = ratio / octave  # in (1/2, 1]
    largest = 2.0 ** (jnp.finfo(dtype).nmant + 1)
    p, q = _enclosing_quotients(jnp.stack([lower_half, 1 / (2 * lower_half)]), largest)
    numerators = jnp.where(short > 0, jnp.concatenate([p[:, 0], q[:, 1]]) * octave, 0)
    denominators = jnp.concatenate([q[:, 0], 2 * p[:, 1]])
    around = jnp.stack(
        [jnp.where(swap, numerators, denominators), jnp.where(swap, denominators, numerators)],
        axis=1,
    )
    around = jnp.copysign(around, vector[None])
    return jnp.concatenate([jnp.where(fits, vector, around[0])[None], around])


class _Expansion(NamedTuple):
    """Two successive convergents of k continued fractions, and the remainders."""

    old: Array  # [2, k] numerators and denominators of the last convergents but one
    new: Array  # [2, k] those of the last convergents
    rest: Array  # [k] the remainders, whose inverses are expanded next
    going: Array  # [k] bool, whether the fraction is extended further


def _enclosing_quotients(ratios: Array, largest: float) -> tuple[Array, Array]:
    """Quotients p / q next to ratios [k] in (0, 1] on both sides, or equal to them.

    p [2, k] and q [2, k] are integers as floats, with q at most `largest`.
    """

    def extend(now: _Expansion) -> _Expansion:
        inverse = 1 / jnp.where(now.rest > 0, now.rest, 1)
        term = jnp.where(now.rest > 0, jnp.floor(inverse), jnp.inf)
        # The largest term with which the denominator is at most `largest`. A smaller term than that
        # of the ratio gives a neighbour (an intermediate fraction), and ends the expansion.
        most = jnp.floor((largest - now.old[1]) / jnp.maximum(now.new[1], 1))
        following = now.old + jnp.minimum(term, most)[None] * now.new
        turns = now.going & (term <= most)
        return _Expansion(
            old=jnp.where(turns[None], now.new, jnp.where(now.going[None], following, now.old)),
            new=jnp.where(turns[None], following, now.new),
            rest=inverse - term,
            going=turns,
        )

    infinite, zero = np.repeat(
        np.array([[[1], [0]], [[0], [1]]], ratios.dtype), len(ratios), axis=2
    )
    start = _Expansion(jnp.asarray(infinite), jnp.asarray(zero), ratios, ratios > 0)
    found, _ = loops.bounded_loop(
        extend, lambda now: jnp.any(now.going), start, max_checks=_MAX_TERMS
    )
    return jnp.stack([found.new[0], found.old[0]]), jnp.stack([found.new[1], found.old[1]])
