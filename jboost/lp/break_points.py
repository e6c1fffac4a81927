"""The long-step rule: how far to go along a line on which a concave function climbs ever less steeply (Fourer 1985)."""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array


def peak(lengths: Array, drops: Array, slope: Array, flat: Array | float) -> tuple[Array, Array]:
    """Where the slope is no longer above `flat`, and the slope beyond: the last break point where it is, if it stays above.

    Args:
      lengths: [k] where the break points are, inf for none.
      drops: [k] by how much each lowers the slope.
      slope: [] before the first.
      flat: [].

    Returns:
      The length [], inf without break points, and the slope after it [].
    """

    def climbs(carry: tuple[Array, Array, Array]) -> Array:
        _, following, slope = carry
        return (following < jnp.inf) & (slope > flat)

    def go_on(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        _, length, slope = carry
        here, beyond = jnp.where(lengths == length, drops, 0.0), jnp.where(lengths > length, lengths, jnp.inf)
        return length, numerics.least(beyond), slope - reduce.total(here)

    length, _, rest = loops.while_loop(climbs, go_on, (jnp.full_like(slope, jnp.inf), numerics.least(lengths), slope))
    return length, rest
