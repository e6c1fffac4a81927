"""The best monomials that a search has found, and its result."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp

from jboost.base import numerics, reduce
from jboost.base.types import Array


class FoundMonomials(NamedTuple):
    """The monomials found, the best first, by integer value. No two of one sign have the same gain
    and loss: these identify a cover.
    """

    numbers: Array  # [k, 4] value, gain and loss of the cover, and sign
    literals: Array  # [k, W] words

    @property
    def values(self) -> Array:
        """[k]."""
        return self.numbers[:, 0]

    @property
    def signs(self) -> Array:
        """[k] +1 or -1."""
        return self.numbers[:, 3]


class SearchOutcome(NamedTuple):
    """The result of the searches of both signs, in integers."""

    found: FoundMonomials
    bound: Array  # [] no monomial has a larger value
    num_nodes: Array  # []
    is_full: Array  # [] bool
    is_cut_off: Array  # [] bool
    is_enough: Array  # [] bool, whether the beam search found a value above `enough`


def nothing(dtype: Any, *, num_best: int, num_words: int) -> FoundMonomials:
    """A `FoundMonomials` without monomials."""
    numbers = jnp.tile(jnp.array([jnp.iinfo(dtype).min, -1, -1, 1], dtype), (num_best, 1))
    return FoundMonomials(numbers, jnp.zeros((num_best, num_words), jnp.uint32))


def merge(found: FoundMonomials, others: FoundMonomials) -> FoundMonomials:
    """The best monomials of both, without duplicates."""
    numbers, literals = (jnp.concatenate(parts) for parts in zip(found, others, strict=True))
    values = jnp.where(
        are_twins(numbers[:, 1:], numbers[:, 0]), jnp.iinfo(numbers.dtype).min, numbers[:, 0]
    )
    _, best = numerics.top_k(values, found.values.shape[0])
    return FoundMonomials(
        jnp.concatenate([values[best, None], numbers[best, 1:]], axis=1), literals[best]
    )


def are_twins(keys: Array, values: Array) -> Array:
    """Which monomials are duplicates, [k] bool: another one has the same keys [k, j] and a larger
    value [k], or the same value and a smaller index.
    """
    index = jnp.arange(keys.shape[0])
    is_before = (values[None, :] > values[:, None]) | (
        (values[None, :] == values[:, None]) & (index[None, :] < index[:, None])
    )
    is_same = functools.reduce(jnp.logical_and, (key[:, None] == key[None, :] for key in keys.T))
    return reduce.any_true(is_same & is_before)
