"""The long-step rule: the maximum of a concave piecewise linear function along a line
(Fourer 1985).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import loops
from jboost.base.types import Array


def peak(lengths: Array, drops: Array, slope: Array, flat: Array | float) -> tuple[Array, Array]:
    """The first break point after which the slope is at most `flat`, or the last break point if the
    slope stays larger.

    Args:
      lengths: [k] the positions of the break points, at least 0; inf for entries without one.
      drops: [k] the decrease of the slope at each break point.
      slope: [] before the first break point.
      flat: [] slopes up to this count as 0.

    Returns:
      The position [] of the break point, inf without break points, and the slope [] after it. Both
      are constants for derivatives.
    """

    def climbs(carry: tuple[Array, Array, Array, Array]) -> Array:
        _, following, _, slope = carry
        return (following < jnp.inf) & (slope > flat)

    def go_on(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        _, length, drop, slope = carry
        return length, *_first_after(length, lengths, drops), slope - drop

    # JAX cannot differentiate a reduction of several arrays
    lengths, drops, slope = lax.stop_gradient((lengths, drops, slope))
    before = jnp.full_like(slope, -1.0)
    length, _, _, rest = loops.while_loop(
        climbs, go_on, (before, before, jnp.zeros_like(slope), slope)
    )
    return jnp.where(length < 0, jnp.inf, length), rest


def _first_after(length: Array, lengths: Array, drops: Array) -> tuple[Array, Array]:
    """The first break point beyond a length, and the sum of the drops there; inf if there is none.
    It takes one pass over the arrays.
    """

    def first(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
        (length, drop), (other_length, other_drop) = one, other
        is_less, is_equal = other_length < length, other_length == length
        return jnp.where(is_less, other_length, length), jnp.where(
            is_less, other_drop, jnp.where(is_equal, drop + other_drop, drop)
        )

    zero = np.zeros((), drops.dtype)
    following, drop = lax.reduce(
        (jnp.where(lengths > length, lengths, jnp.inf), drops), (zero + np.inf, zero), first, (0,)
    )
    return following, drop
