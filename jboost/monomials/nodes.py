"""The nodes of the search: a monomial, and the literals that its descendants may add."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base.types import Array


class Node(NamedTuple):
    """A monomial and the literals that descendants may add. In a batch, leaves have a leading
    axis.
    """

    words: Array  # [2 W] W words for the literals of the monomial, then W for F
    numbers: Array  # [3] lost, bound, order

    @property
    def literals(self) -> Array:
        """[W] words."""
        return self.words[..., : self.words.shape[-1] // 2]

    @property
    def allowed(self) -> Array:
        """[W] words: F."""
        return self.words[..., self.words.shape[-1] // 2 :]

    @property
    def lost(self) -> Array:
        """[] the loss of the unwanted examples that all descendants cover."""
        return self.numbers[..., 0]

    @property
    def bound(self) -> Array:
        """[] an upper bound of the value of every descendant."""
        return self.numbers[..., 1]

    @property
    def order(self) -> Array:
        """[] the number of literals."""
        return self.numbers[..., 2]


def make_node(literals: Array, allowed: Array, lost: Array, bound: Array, order: Array) -> Node:
    """A node, or a batch of nodes."""
    return Node(
        jnp.concatenate([literals, allowed], axis=-1), jnp.stack([lost, bound, order], axis=-1)
    )


def cost(costs: Array, order: Array) -> Array:
    """The cost of an order; the last entry for higher orders."""
    return costs[jnp.minimum(order, costs.shape[0] - 1)]
