"""Arithmetic that is carried in 64 bits and rounded outwards, for `lower_bound` and `charge`.

All functions but `widely` are to be called inside its scope. Numbers of float32 lose nothing by the
way in, so that the result is a neighbour of the exact value, as a rule; of float64 numbers, the
rounding of the sums is added on the safe side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import numerics, reduce
from jboost.base.types import Array, PyTree

UNIT = 2.0**-52


def widely(function: Callable[..., PyTree]) -> Callable[..., Any]:
    """`function`, with all floats among its arguments as 64-bit floats; those that it returns must
    fit the caller's setting.
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
    """At least the sum over the last axis of what terms >= 0 stand for, each wrong by six roundings
    at most.
    """
    return reduce.total(terms) * (1 + (terms.shape[-1] + 8) * UNIT)


def shortfall_sum_up(threshold: Array, margins: Array, prior: Array, order: int) -> Array:
    """At least the sum of p_i [threshold - margin_i]_+^order."""
    return sum_up(prior * jnp.maximum(threshold - margins, 0.0) ** order)


def root_up(square: Array, guess: Array) -> Array:
    """At least the square root, by one step of Heron: of second order in the error of a positive
    guess.
    """
    return (square / guess + guess) / 2 * (1 + 4 * UNIT)


def root_share_down(square: Array) -> Array:
    """At most the square root of a number in [0, 1], and at most 1: the harmonic mean with 1, which
    is close where the number is near 1.
    """
    return jnp.minimum(2 * square / (1 + square), 1.0) * (1 - 4 * UNIT)


def true_shares(prior: Array) -> Array:
    """The shares with sum one, [m], in 64 bits; positive where the prior is."""
    return jnp.where(
        prior > 0,
        jnp.maximum(prior / numerics.precise_sum(prior), jnp.finfo(prior.dtype).tiny),
        0.0,
    )


def share_rounding(prior: Array, dtype: jnp.dtype) -> float:
    """How far, relative to it, a share in this dtype may be from a weight over the sum of all, the
    weights being what the user gave.

    No further are the `true_shares`: they differ from the shares by one factor, which does not
    depend on the rounding of each.
    """
    return float(jnp.finfo(dtype).eps) + (prior.shape[0] + 8) * UNIT


def lowered(bound: Array, *terms: Array) -> Array:
    """A sum of terms, less its rounding."""
    return bound - 4 * UNIT * sum((jnp.abs(term) for term in terms), jnp.abs(bound))


def scaled(example_weights: Array, prior: Array) -> Array:
    """The weights of real examples, which sum to one."""
    kept = jnp.where(prior > 0, example_weights, 0.0)
    return kept / numerics.precise_sum(kept)


def densities(weights: Array, prior: Array) -> Array:
    """weights / prior, 0 on padding."""
    return numerics.safe_divide(weights, prior)
