"""Running sums, maxima and minima of flat arrays.

Measured on a CPU with 32-bit numbers: from 4,096 to 262,144 entries they run 1.3 to 4 times as fast
as `jnp.cumsum` and `lax.cummax`. Below that size, either may be faster. `lax.associative_scan` runs
in less time than these from 4,096 entries on, but takes 1.3 to 5 times as long to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array

_ROW = 64  # a flat array is scanned as rows of this length


def running_sum(values: Array) -> Array:
    """The sums of `values` [n] up to and including each entry."""
    return _running(values, jnp.add, 0, lambda totals: jnp.cumsum(totals, dtype=totals.dtype))


def running_max(values: Array) -> Array:
    """The largest of `values` [n] up to and including each entry."""
    lowest = -jnp.inf if jnp.issubdtype(values.dtype, jnp.floating) else jnp.iinfo(values.dtype).min
    return _running(values, jnp.maximum, lowest, lax.cummax)


def running_min(values: Array) -> Array:
    """The least of `values` [n] up to and including each entry."""
    return -running_max(-values)


def _running(
    values: Array,
    combine: Callable[[Array, Array], Array],
    neutral: Any,
    over_rows: Callable[[Array], Array],
) -> Array:
    size = values.shape[0]
    length = min(_ROW, 1 << max(size - 1, 0).bit_length())
    rows = jnp.pad(values, (0, -size % length), constant_values=neutral).reshape(-1, length)
    shift = 1
    while shift < length:
        rows = combine(
            rows, jnp.pad(rows[:, :-shift], ((0, 0), (shift, 0)), constant_values=neutral)
        )
        shift *= 2
    if rows.shape[0] > 1:
        totals = over_rows(rows[:, -1])
        rows = combine(
            rows, jnp.concatenate([jnp.full(1, neutral, values.dtype), totals[:-1]])[:, None]
        )
    return rows.reshape(-1)[:size]
