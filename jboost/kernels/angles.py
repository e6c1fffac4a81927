"""Angles whose derivative is finite everywhere, so that kernels have a subgradient."""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base.types import Array


def angle_of(sine: Array, cosine: Array) -> Array:
    """arctan2; where the squares of both underflow, the angle of (sine, 1), as the derivative of
    arctan2 divides by their sum.
    """
    is_none = sine * sine + cosine * cosine < jnp.finfo(sine.dtype).tiny
    return jnp.arctan2(sine, jnp.where(is_none, 1.0, cosine))
