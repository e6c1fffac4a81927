"""The part of the total weight 1 that capped entries leave to the others, in 64 bits."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import named_axis, reduce
from jboost.base.named_axis import AxisName
from jboost.base.types import Array

WIDE = jnp.dtype("float64")


class CappedSet(NamedTuple):
    """The capped entries of a projection, with two numbers that `finish` needs."""

    is_capped: Array  # [m] bool
    left_by_all: Array  # [] 1 minus the sum of all caps
    largest: Array  # [] the largest log weight


def as_row(caps: Array) -> Array:
    """Caps [] or [m] as [1, 1] or [1, m]."""
    return caps.reshape(1, -1)


def summands(caps: Array) -> Array:
    """The terms [] or [m], in 64 bits, whose sum is the argument of `remainder_of`.

    They are the caps, or ones if one cap holds for all entries.
    """
    return caps.astype(WIDE) if caps.ndim else jnp.ones((), WIDE)


def remainder_of(caps: Array, counted: Array) -> Array:
    """1 minus the sum of the caps of some entries, [...]; to be called inside `in_64_bits`.

    Args:
      caps: [] or [m].
      counted: [...] sums of `summands(caps)` over the entries.
    """
    if caps.ndim:
        return 1 - counted
    # count * cap is computed in two parts. The product with the leading 24 bits is exact for counts
    # below 2^29, so the sign of a small remainder does not depend on how XLA fuses the products.
    cap = caps.astype(counted.dtype)
    high = lax.reduce_precision(cap, exponent_bits=11, mantissa_bits=24)
    return (1 - high * counted) - (cap - high) * counted


def extremes(values: Array, caps: Array, axis_name: AxisName = None) -> tuple[Array, Array, Array]:
    """The minimum and maximum of the values above -inf, and 1 minus the sum of their caps.

    To be called inside `in_64_bits`.
    """
    is_zero = values == -jnp.inf
    least, largest, counted = named_axis.several(
        (reduce.LEAST, jnp.where(is_zero, jnp.inf, values)),
        (reduce.LARGEST, values),
        (reduce.SUM, jnp.where(is_zero, 0, summands(caps))),
        axis_name=axis_name,
    )
    return least, largest, remainder_of(caps, counted)
