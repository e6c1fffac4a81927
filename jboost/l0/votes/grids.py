"""Points of the simplex whose coefficients are multiples of a power of two: on a grid every margin
that they reach is an exact sum.
"""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base.types import Array

# columns whose coefficients are rounded to the nearest: what is too much in all is less than the
# largest
_MOST_FOR_NEAREST = 1024
_NEARLY = 1e-3  # of a unit, what may be missing to the next multiple


def nearest(coefficients: Array, is_column: Array, unit: Array) -> Array:
    """The point next to coefficients [n] that are not negative and 0 off the columns; the even one
    where all are 0. `unit` is as fine as rounding.
    """
    shares, num_columns = _shares(coefficients, is_column), coefficients.shape[0]
    if num_columns <= _MOST_FOR_NEAREST:
        return _filled_up(jnp.round(shares / unit) * unit, is_column)
    return _filled_up(
        jnp.floor(shares * (1 - (num_columns + 4) * jnp.finfo(shares.dtype).eps) / unit) * unit,
        is_column,
    )


def coarse(coefficients: Array, is_column: Array, unit: Array) -> Array:
    """The point below the same on a grid of any unit up to 1, where rounding may have moved them
    off it.
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
    """The largest gets what is missing to one."""
    if coefficients.shape[0] == 0:
        return coefficients
    largest = jnp.argmax(jnp.where(is_column, coefficients, -1.0))
    return coefficients.at[largest].add(
        jnp.where(jnp.any(is_column), 1 - jnp.sum(coefficients), 0.0)
    )
