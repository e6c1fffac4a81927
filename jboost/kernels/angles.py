"""Angles whose derivative is 0 where the formula has none, so that kernels have a subgradient."""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base.types import Array


def angle_of(sine: Array, cosine: Array) -> Array:
    """arctan2, whose derivative is 0 where both are 0."""
    is_none = (sine == 0) & (cosine == 0)
    return jnp.arctan2(sine, jnp.where(is_none, 1.0, cosine))
