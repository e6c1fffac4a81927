"""Problem (27) of Goldberg and Eckstein (2009) for monomials of at most one literal: products of
matrices compute all values of both signs, so no search is needed.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.monomials import integers
from jboost.monomials.found import FoundMonomials, SearchOutcome, merge, nothing
from jboost.monomials.instance import literals_of
from jboost.monomials.types import Rewards

_PAIRS_AT_ONCE = 1 << 12  # pairs of one product, so that it takes few rows at a time; not tuned


def both_signs(
    ones: Array,
    known: Array | None,
    labels: Array,
    weights: Array,
    rewards: Rewards | None,
    costs: Array,
    *,
    num_best: int,
) -> SearchOutcome:
    """The best monomials of both signs, in integers.

    Args:
      ones: [m, N] where attributes are 1.
      known: [m, N] where they are known; None for everywhere.
      labels: [m] -1 or +1.
      weights: [m] integers.
      rewards: integers, 0 for empty slots and within a class; None for none.
      costs: [1] or [2] integers.
      num_best: static, the number of monomials to return.
    """
    dtype, num_literals = weights.dtype, 2 * ones.shape[1]
    # the first column is the monomial without literals
    covers = jnp.pad(literals_of(ones, known).T, ((1, 0), (0, 0)), constant_values=1)
    own = labels[:, None] == jnp.array([1, -1], labels.dtype)[None, :]  # [m, 2], by sign
    gains = weights if rewards is None else weights.at[rewards.pairs[:, 0]].add(rewards.values)
    sums = integers.product(
        covers,
        jnp.where(
            jnp.concatenate([own, ~own], axis=1),
            jnp.stack([gains, gains, weights, weights], axis=1),
            0,
        ),
    )
    gained, kept = sums[:, :2], sums[:, 2:]
    missed = jnp.zeros_like(gained)
    if rewards is not None:
        missed = _missed(covers, rewards, labels)
    dearest = integers.largest(dtype)
    prices = jnp.pad(costs, (0, 2 - costs.shape[0]), constant_values=dearest)
    prices = jnp.where(prices > reduce.total(gains), dearest, prices)
    literal = jnp.arange(-1, num_literals, dtype=jnp.int32)[:, None]
    values = gained - kept - missed - jnp.where(literal < 0, prices[0], prices[1])
    signs = jnp.broadcast_to(jnp.array([1, -1], dtype), values.shape)
    numbers = jnp.stack([values, gained, kept, signs], axis=2).reshape(-1, 4)
    found = nothing(dtype, num_best=num_best, num_words=-(-num_literals // 32))
    # more candidates than needed, because some may be duplicates
    _, best = numerics.top_k(values.reshape(-1), min(values.size, 8 * num_best))
    found = merge(
        found,
        FoundMonomials(numbers[best], integers.one_bit(best // 2 - 1, found.literals.shape[1])),
    )
    return SearchOutcome(
        found,
        found.values[0],
        jnp.asarray(2 * (1 + num_literals), jnp.int32),
        *jnp.zeros((3,), bool),
    )


def _missed(covers: Array, rewards: Rewards, labels: Array) -> Array:
    """The rewards that monomials, covers [k, m], do not gain because they cover both examples of a
    pair, by sign +1 and -1: [k, 2].
    """
    size = rewards.values.shape[0]
    at_once = max(1, min(size, _PAIRS_AT_ONCE))
    padded = jax.tree.map(
        lambda leaf: jnp.pad(leaf, [(0, -size % at_once)] + [(0, 0)] * (leaf.ndim - 1)), rewards
    )
    signs = jnp.array([1, -1], labels.dtype)

    def add(step: Array, total: Array) -> Array:
        places = step * at_once + jnp.arange(at_once)
        first, second = padded.pairs[places].T
        is_own = labels[first][:, None] == signs[None, :]
        amounts = jnp.where(is_own, padded.values[places][:, None], 0)
        return total + integers.product(covers[:, first] * covers[:, second], amounts)

    empty = jnp.zeros((covers.shape[0], 2), rewards.values.dtype)
    return loops.fori_loop(0, -(-size // at_once), add, empty)
