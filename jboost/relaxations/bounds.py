"""Arithmetic in 64 bits that is rounded outwards, for `lower_bound` and `charge`.

All functions except `widely` must be called inside its scope. Values of float32 are exact in 64
bits, so that the result is usually the float next to the exact value. For values of float64 a bound
on the rounding of the sums is added on the safe side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import exact_sums, numerics, reduce
from jboost.base.types import Array, PyTree

UNIT = 2.0**-52  # the epsilon of float64


def widely(function: Callable[..., PyTree]) -> Callable[..., Any]:
    """`function`, with all floats among its arguments converted to 64 bits. Its results must have
    dtypes that are valid under the caller's JAX setting.
    """

    def widen(leaf: Array) -> Array:
        return (
            leaf.astype(jnp.dtype("float64")) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf
        )

    def scoped(*args: PyTree) -> PyTree:
        return function(*jax.tree.map(widen, args))

    def arrays(*args: PyTree) -> PyTree:
        return numerics.in_64_bits(scoped)(*jax.tree.map(jnp.asarray, args))

    return arrays


def sum_up(terms: Array) -> Array:
    """An upper bound on the exact sum of terms >= 0 over the last axis. Each term may have an error
    of up to six roundings.
    """
    return reduce.total(terms) * (1 + (exact_sums.length(terms.shape[-1]) + 8) * UNIT)


def shortfall_sum_up(threshold: Array, margins: Array, prior: Array, order: int) -> Array:
    """An upper bound on the sum of p_i [threshold - margin_i]_+^order."""
    return sum_up(prior * jnp.maximum(threshold - margins, 0.0) ** order)


def root_up(square: Array, guess: Array) -> Array:
    """An upper bound on the square root, by one Heron step from a positive guess. Its error is
    quadratic in that of the guess.
    """
    return (square / guess + guess) / 2 * (1 + 4 * UNIT)


def root_share_down(square: Array) -> Array:
    """A lower bound on the square root of a number in [0, 1], at most 1: the harmonic mean of the
    number and 1. It is close if the number is near 1.
    """
    return jnp.minimum(2 * square / (1 + square), 1.0) * (1 - 4 * UNIT)


def true_shares(prior: Array) -> Array:
    """The shares scaled to sum one in 64 bits, [m]; positive where the prior is."""
    return jnp.where(
        prior > 0,
        jnp.maximum(prior / numerics.precise_sum(prior), jnp.finfo(prior.dtype).tiny),
        0.0,
    )


def share_rounding(prior: Array, dtype: jnp.dtype) -> float:
    """A bound on the relative error of a share in this dtype, compared with the user's weight
    divided by the sum of all weights.

    It also holds for the `true_shares`, which differ from the shares by one common factor.
    """
    return float(jnp.finfo(dtype).eps) + (exact_sums.length(prior.shape[0]) + 8) * UNIT


def lowered(bound: Array, *terms: Array) -> Array:
    """`bound`, which was computed as a sum of terms, minus a bound on its rounding error."""
    return bound - 4 * UNIT * sum((jnp.abs(term) for term in terms), jnp.abs(bound))


def scaled(example_weights: Array, prior: Array) -> Array:
    """The example weights, 0 on padding and scaled to sum to one."""
    kept = jnp.where(prior > 0, example_weights, 0.0)
    return kept / numerics.precise_sum(kept)


def densities(weights: Array, prior: Array) -> Array:
    """weights / prior, 0 on padding."""
    return numerics.safe_divide(weights, prior)
