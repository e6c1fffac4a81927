"""Running sums and maxima of flat arrays, several times faster to run than `cumsum` on a CPU and to compile than `associative_scan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array

_ROW = 64


def running_sum(values: Array) -> Array:
    """The sums of `values` [n] up to each place, that place included."""
    return _running(values, jnp.add, 0, lambda totals: jnp.cumsum(totals, dtype=totals.dtype))


def running_max(values: Array) -> Array:
    """The largest of `values` [n], none negative, up to each place."""
    return _running(values, jnp.maximum, 0, lax.cummax)


def exclusive_sum(values: Array) -> Array:
    """The sums of `values` [n] before each place."""
    return running_sum(values) - values


def _running(values: Array, combine: Callable[[Array, Array], Array], neutral: Any, over_rows: Callable[[Array], Array]) -> Array:
    size = values.shape[0]
    padded = jnp.pad(values, (0, -size % _ROW), constant_values=neutral).reshape(-1, _ROW)
    shift = 1
    while shift < _ROW:
        padded = combine(padded, jnp.pad(padded[:, :-shift], ((0, 0), (shift, 0)), constant_values=neutral))
        shift *= 2
    totals = over_rows(padded[:, -1])
    before = jnp.concatenate([jnp.full(1, neutral, values.dtype), totals[:-1]])
    return combine(padded, before[:, None]).reshape(-1)[:size]
