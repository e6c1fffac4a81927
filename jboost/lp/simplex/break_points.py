"""The long-step rule: how far to go along a line on which a concave function climbs ever less
steeply (Fourer 1985).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import loops
from jboost.base.types import Array


def peak(lengths: Array, drops: Array, slope: Array, flat: Array | float) -> tuple[Array, Array]:
    """Where the slope is no longer above `flat`, and the slope beyond: the last break point where
    it is, if it stays above.

    Args:
      lengths: [k] where the break points are, 0 or more, inf for none.
      drops: [k] by how much each lowers the slope.
      slope: [] before the first.
      flat: [].

    Returns:
      The length [], inf without break points, and the slope after it []; constants to derivatives.
    """

    def climbs(carry: tuple[Array, Array, Array, Array]) -> Array:
        _, following, _, slope = carry
        return (following < jnp.inf) & (slope > flat)

    def go_on(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        _, length, drop, slope = carry
        return length, *_first_after(length, lengths, drops), slope - drop

    # JAX has no derivative of a reduction of several arrays
    lengths, drops, slope = lax.stop_gradient((lengths, drops, slope))
    before = jnp.full_like(slope, -1.0)
    length, _, _, rest = loops.while_loop(
        climbs, go_on, (before, before, jnp.zeros_like(slope), slope)
    )
    return jnp.where(length < 0, jnp.inf, length), rest


def _first_after(length: Array, lengths: Array, drops: Array) -> tuple[Array, Array]:
    """The first break point beyond a length, and the sum of the drops there; inf if there is none,
    in one pass.
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
