"""Directions written in a short float type with the accuracy of a long one.

Two float32 numbers have 24 bits each, but their quotient can come within 2^-48 of a given slope:
the quotients that enclose a slope most tightly are found by continued fractions. Rounding both
components instead would turn the direction by up to 2^-24, which is wider than the gap that
separates the points of a data set of a few thousand.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jboost.base import loops, numerics
from jboost.base.types import Array

_MAX_TERMS = 48


def enclosing_directions(vector: Array, dtype: jnp.dtype) -> Array:
    """Vectors whose components are exact in `dtype` and whose directions lie next to that of a
    vector.

    If any vector of `dtype` lies in a range of directions that holds this one, one of these does:
    they are the nearest slopes below and above among quotients of two floats, with the binary
    exponents of numerator and denominator free.

    Args:
      vector: [2] float.
      dtype: float32 or float64.

    Returns:
      [5, 2], as floats of the input's type; the first is the vector itself where that is exact in
      `dtype`.
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
    """Two neighbouring convergents of continued fractions, and what is left of them."""

    old: Array  # [2, k] numerators and denominators
    new: Array  # [2, k]
    rest: Array  # [k]
    going: Array  # [k] bool


def _enclosing_quotients(ratios: Array, largest: float) -> tuple[Array, Array]:
    """Integers p [2, k], q [2, k] as floats, q <= `largest`: the neighbours of ratios [k] in (0, 1]
    on both sides, or the ratios.
    """

    def extend(now: _Expansion) -> _Expansion:
        inverse = 1 / jnp.where(now.rest > 0, now.rest, 1)
        term = jnp.where(now.rest > 0, jnp.floor(inverse), jnp.inf)
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
