"""Minibatches under example weights: random rows, and weights that make sums unbiased.

Let g_i be any terms. Draw b rows with probabilities q_i and give each the weight d_i / (b q_i). The
weighted sum of the g_i then has the expectation sum_i d_i g_i (importance sampling: Kahn and
Marshall 1953; Zhao and Zhang 2015 for gradients). Its variance depends on the probabilities, and is
least if q_i is proportional to d_i |g_i|.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import numerics
from jboost.base.types import Array

SAMPLINGS = ("weighted", "uniform")


class Draws(NamedTuple):
    """The minibatches of all steps."""

    rows: Array  # [steps, b] int32
    weights: Array  # [steps, b] of their losses


def draw(
    key: Array, example_weights: Array, counts: Array, *, sampling: str, shape: tuple[int, int]
) -> Draws:
    """Minibatches drawn with replacement.

    Args:
      key: a random key.
      example_weights: [m], 0 on padding.
      counts: [m] bool, False on padding, which is never drawn.
      sampling: "weighted" for probabilities equal to the example weights, "uniform" for equal ones.
      shape: (steps, b), the number of minibatches and of rows of each.
    """
    chances = example_weights if sampling == "weighted" else counts.astype(example_weights.dtype)
    bits = jax.random.bits(key, (2, *shape), jnp.uint32)
    rows = numerics.in_64_bits(_inverse_transform)(chances, bits)
    shares = numerics.safe_divide(chances, jnp.full_like(chances, numerics.precise_sum(chances)))
    weights = numerics.safe_divide(example_weights, shape[1] * shares)
    return Draws(rows, weights[rows])


def _inverse_transform(chances: Array, bits: Array) -> Array:
    """Rows [...] drawn with probabilities [m], from random bits [2, ...]. 53 bits are used, since
    with 24 small probabilities would be lost.
    """
    cumulative = lax.cumsum(chances.astype(jnp.float64))
    high, low = bits[0].astype(jnp.float64), (bits[1] >> 11).astype(jnp.float64)
    uniform = (high * 2.0**21 + low) * 2.0**-53
    rows = jnp.searchsorted(cumulative, uniform * cumulative[-1], side="right")
    return jnp.minimum(rows, chances.shape[0] - 1).astype(jnp.int32)
