"""The worth of all splits of a feature under rewards of pairs: (21) of Goldberg and Eckstein (2009)
for decision stumps, without their costs.
"""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base import numerics
from jboost.base.types import Array
from jboost.monomials import Rewards


def of_splits(ranks: Array, labels: Array, example_weights: Array, rewards: Rewards) -> Array:
    """The edges and rewards [2, m] of the stumps at all splits of a feature, and of their
    negations, to be called inside `in_64_bits`. `ranks` [m] are -1 where the feature is missing.

    A pair is served at the splits between its two examples. Where the feature of the other example
    is missing, it is served at all splits on which the first example is right.
    """
    size = labels.shape[0]
    known = ranks >= 0
    signed = jnp.where(known, (example_weights * labels).astype(jnp.float64), 0)
    crossed = jnp.zeros((size + 1,), jnp.float64).at[jnp.where(known, ranks, size)].add(signed)
    edges = jnp.sum(signed) - 2 * numerics.cumulative_sum(crossed[None])[0, :size]
    first, second = rewards.pairs.T
    mine, theirs = ranks[first], ranks[second]
    values = jnp.where(known[first], rewards.values.astype(jnp.float64), 0)

    def served(is_above: Array) -> Array:
        """The rewards at all splits of pairs whose first example must be above, or below."""
        begin = jnp.where(is_above, jnp.where(theirs < 0, 0, theirs), mine)
        end = jnp.where(is_above, mine, jnp.where(theirs < 0, size, theirs))
        amounts = jnp.where(begin < end, values, 0)
        steps = jnp.zeros((size + 1,), jnp.float64).at[begin].add(amounts).at[end].add(-amounts)
        return numerics.cumulative_sum(steps[None])[0, :size]

    is_positive = labels[first] > 0
    worth = jnp.stack([edges + served(is_positive), served(~is_positive) - edges])
    return worth.astype(example_weights.dtype)
