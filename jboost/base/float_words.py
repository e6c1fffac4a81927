"""Floats as unsigned integers in the same order, for sorts and for searches bit by bit."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array


def ascending(values: Array) -> Array:
    """Unsigned integers in the order of the floats, of as many bits; -0 comes before 0."""
    unsigned, sign = unsigned_of(values.dtype)
    bits = lax.bitcast_convert_type(values, unsigned)
    # Negative floats have the sign bit set, and their bits ascend as they descend.
    return jnp.where(bits >= sign, ~bits, bits | sign)


def floats(words: Array, dtype: Any) -> Array:
    """The floats of a dtype whose `ascending` words are given."""
    _, sign = unsigned_of(dtype)
    return lax.bitcast_convert_type(jnp.where(words >= sign, words & ~sign, ~words), dtype)


def unsigned_of(dtype: Any) -> tuple[Any, Array]:
    """The unsigned integer type with the bits of a float type, and its sign bit."""
    size = jnp.dtype(dtype).itemsize
    unsigned = {4: jnp.uint32, 8: jnp.uint64}[size]
    return unsigned, jnp.asarray(1 << (8 * size - 1), unsigned)
