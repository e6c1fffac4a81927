"""Points of the simplex whose coefficients are multiples of a power of two. Their margins are sums
without rounding.
"""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base.types import Array

# Up to this number of columns, coefficients are rounded to the nearest multiple: the total error is
# less than the largest coefficient, which compensates it.
_MOST_FOR_NEAREST = 1024
# `coarse` rounds up coefficients that are this close, in units, to the next multiple.
_NEARLY = 1e-3


def nearest(coefficients: Array, is_column: Array, unit: Array) -> Array:
    """The grid point nearest to coefficients [n] >= 0 that are 0 outside the columns; the uniform
    point if all are 0. `unit` is the rounding unit of the float type.
    """
    shares, num_columns = _shares(coefficients, is_column), coefficients.shape[0]
    if num_columns <= _MOST_FOR_NEAREST:
        return _filled_up(jnp.round(shares / unit) * unit, is_column)
    return _filled_up(
        jnp.floor(shares * (1 - (num_columns + 4) * jnp.finfo(shares.dtype).eps) / unit) * unit,
        is_column,
    )


def coarse(coefficients: Array, is_column: Array, unit: Array) -> Array:
    """The coefficients rounded down on a grid with any unit up to 1. Coefficients that rounding
    moved slightly below a multiple are rounded to it.
    """
    return _filled_up(
        jnp.floor(_shares(coefficients, is_column) / unit + _NEARLY) * unit, is_column
    )


def _shares(coefficients: Array, is_column: Array) -> Array:
    total = jnp.sum(coefficients)
    even = jnp.where(is_column, 1.0, 0.0) / jnp.maximum(jnp.sum(is_column), 1).astype(
        coefficients.dtype
    )
    return jnp.where(total > 0, coefficients / jnp.where(total > 0, total, 1.0), even).astype(
        coefficients.dtype
    )


def _filled_up(coefficients: Array, is_column: Array) -> Array:
    """Adds the difference of the sum to one to the largest coefficient."""
    if coefficients.shape[0] == 0:
        return coefficients
    largest = jnp.argmax(jnp.where(is_column, coefficients, -1.0))
    return coefficients.at[largest].add(
        jnp.where(jnp.any(is_column), 1 - jnp.sum(coefficients), 0.0)
    )
