"""What the operators share: vectors judged, and the size of a slab."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jboost.base import check
from jboost.base.types import Array

MAX_ENTRIES = 4_000_000  # of a slab


def judged(name: str, value: Any, *shape: int | str) -> Array:
    """`value` in the default float type, if it has the wanted shape; ValueError at trace time otherwise."""
    return check.numeric(name, value, shape=shape, kinds="fiub").astype(jnp.result_type(float))


def chunk_size(entries_each: int, count: int) -> int:
    """How many of `count` items, of so many entries each, make a slab: one at least, all at most."""
    return max(1, min(count, MAX_ENTRIES // max(entries_each, 1)))
