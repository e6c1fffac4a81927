"""A stack of nodes in preallocated arrays: a batch is taken from the top, its children are put
back, all shapes static.

A node is any pytree of arrays; in the stack its leaves have a leading axis of `capacity` slots and
`slack` more. Slots from `count` on hold garbage. A batch may be taken without being used up: `put`
begins to write where the caller says that the stack ends.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array, PyTree


class Stack(NamedTuple):
    """Nodes and how many there are."""

    nodes: PyTree  # leaves [capacity + slack, ...]
    count: Array  # [] int32


def start(node: PyTree, *, capacity: int, slack: int) -> Stack:
    """A stack that holds one node; `slack` is the largest number of rows of a `put`."""
    room = capacity + slack

    def allot(leaf: Array) -> Array:
        return jnp.zeros((room, *leaf.shape), leaf.dtype).at[0].set(leaf)

    return Stack(jax.tree.map(allot, node), jnp.ones((), jnp.int32))


def top(stack: Stack, size: int) -> tuple[PyTree, Array, Array]:
    """The topmost `size` slots, the lowest first: nodes [size, ...], which of them are nodes [size]
    bool, and the slot where they begin [].
    """
    begin = jnp.maximum(stack.count - size, 0)
    nodes = jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, begin, size), stack.nodes)
    return nodes, begin + jnp.arange(size, dtype=jnp.int32) < stack.count, begin


def put(stack: Stack, nodes: PyTree, num: Array, begin: Array) -> Stack:
    """The stack cut to `begin` slots, with the first `num` of `nodes` [k, ...] on top; the caller
    sees to it that they fit the capacity.
    """
    written = jax.tree.map(
        lambda leaf, new: lax.dynamic_update_slice_in_dim(leaf, new, begin, 0), stack.nodes, nodes
    )
    return Stack(written, (begin + num).astype(jnp.int32))


def sorted_by(stack: Stack, scores: Array) -> Stack:
    """The same nodes with those of the highest `scores` [capacity + slack] on top, of equal ones
    the latest.
    """
    is_node = jnp.arange(scores.shape[0]) < stack.count
    order = jnp.argsort(jnp.where(is_node, scores, jnp.inf), stable=True)
    return stack._replace(nodes=jax.tree.map(lambda leaf: leaf[order], stack.nodes))
