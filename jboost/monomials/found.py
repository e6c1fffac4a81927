"""The best monomials that a search has met, and what it comes to."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import numerics
from jboost.base.types import Array


class Found(NamedTuple):
    """Monomials met, the best first, by integer value; no two of a sign that cover as much of both classes."""

    values: Array  # [k]
    keys: Array  # [k, 2] gain and loss of the cover, which tell covers apart
    literals: Array  # [k, W] words
    signs: Array  # [k] int8


class Outcome(NamedTuple):
    """Both searches, in integers."""

    found: Found
    bound: Array  # [] no monomial has a larger value
    num_nodes: Array  # []
    is_full: Array  # [] bool
    is_cut_off: Array  # [] bool
    is_enough: Array  # [] bool, whether what the beam found was enough


def nothing(dtype: Any, *, num_best: int, num_words: int) -> Found:
    """No monomial at all."""
    return Found(
        jnp.full((num_best,), jnp.iinfo(dtype).min, dtype),
        jnp.full((num_best, 2), -1, dtype),
        jnp.zeros((num_best, num_words), jnp.uint32),
        jnp.ones((num_best,), jnp.int8),
    )


def merge(found: Found, values: Array, keys: Array, literals: Array, sign: Array) -> Found:
    """The best of those found and of others [j], equal ones once."""
    size = found.values.shape[0]
    signs = jnp.broadcast_to(sign, values.shape).astype(jnp.int8)
    together = Found(
        jnp.concatenate([found.values, values]),
        jnp.concatenate([found.keys, keys]),
        jnp.concatenate([found.literals, literals]),
        jnp.concatenate([found.signs, signs]),
    )
    _, order = numerics.top_k(together.values, together.values.shape[0])
    together = jax.tree.map(lambda leaf: leaf[order], together)
    values = jnp.where(are_twins(together.keys, together.signs), jnp.iinfo(values.dtype).min, together.values)
    _, best = numerics.top_k(values, size)
    return Found(values[best], together.keys[best], together.literals[best], together.signs[best])


def are_twins(keys: Array, signs: Array) -> Array:
    """Which covers [k, 2] of monomials [k] are like one before them, [k] bool."""
    index = jnp.arange(keys.shape[0])
    is_same = jnp.all(keys[:, None, :] == keys[None, :, :], axis=2) & (signs[:, None] == signs[None, :])
    return jnp.any(is_same & (index[None, :] < index[:, None]), axis=1)
