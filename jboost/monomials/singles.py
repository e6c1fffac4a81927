"""Monomials of no literal or one, (27) of paper 001: all of both signs valued by products of matrices, nothing to search."""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base import numerics
from jboost.base.types import Array
from jboost.monomials import integers
from jboost.monomials.found import Found, Outcome, merge, nothing
from jboost.monomials.instance import rows_of


def both_signs(ones: Array, known: Array | None, labels: Array, weights: Array, rewards: Array | None, costs: Array, *, num_best: int) -> Outcome:
    """The best of them, in integers.

    Args:
      ones: [m, N] where attributes are 1.
      known: [m, N] where they are known; None for everywhere.
      labels: [m] -1 or +1.
      weights: [m] integers.
      rewards: [m, m] integers, 0 within a class; None for none.
      costs: [1] or [2] integers.
      num_best: static, how many to return.
    """
    dtype, num_literals = weights.dtype, 2 * ones.shape[1]
    covers = rows_of(ones, known).covers.T
    own = jnp.stack([labels > 0, labels < 0], axis=1)
    others = own[:, ::-1]
    gains = weights if rewards is None else weights + jnp.sum(rewards, axis=1, dtype=dtype)
    every = jnp.concatenate([jnp.ones_like(covers, shape=(1, covers.shape[1])), covers])  # the monomial without literals first
    gained = integers.product(every, jnp.where(own, gains[:, None], 0))  # [1 + L, 2], by sign
    kept = integers.product(every, jnp.where(others, weights[:, None], 0))
    missed = jnp.zeros_like(gained)
    if rewards is not None:
        missed = _of_covered(every, integers.product(every, rewards), others)
    dearest = integers.largest(dtype)
    prices = jnp.pad(costs, (0, 2 - costs.shape[0]), constant_values=dearest)
    prices = jnp.where(prices > jnp.sum(gains, dtype=dtype), jnp.asarray(dearest, dtype), prices)
    values = gained - kept - missed - prices[jnp.minimum(jnp.arange(1 + num_literals), 1)][:, None]
    found = nothing(dtype, num_best=num_best, num_words=-(-num_literals // 32))
    for column, sign in enumerate((1, -1)):
        found = _with_best(found, values[:, column], jnp.stack([gained[:, column], kept[:, column]], axis=1), jnp.asarray(sign, jnp.int8))
    return Outcome(found, jnp.max(found.values), jnp.asarray(2 * (1 + num_literals), jnp.int32), *jnp.zeros((3,), bool))


def _of_covered(covers: Array, amounts: Array, classes: Array) -> Array:
    """Sums of amounts [k, m] over the examples that are covered [k, m] and of a class [m, 2], [k, 2]."""
    inside = jnp.where(covers > 0, amounts, 0)
    return jnp.stack([jnp.sum(jnp.where(one, inside, 0), axis=1, dtype=amounts.dtype) for one in classes.T], axis=1)


def _with_best(found: Found, values: Array, keys: Array, sign: Array) -> Found:
    """The best of those found and of no literal or one, values [1 + L]."""
    best_values, best = numerics.top_k(values, min(values.shape[0], 4 * found.values.shape[0]))  # some may be alike
    words = integers.one_bit(jnp.maximum(best - 1, 0), found.literals.shape[1])
    return merge(found, best_values, keys[best], jnp.where((best > 0)[:, None], words, jnp.uint32(0)), sign)
