"""A stack of nodes in preallocated arrays, with static shapes.

Branch and bound reads a batch of nodes from the top and writes their children back. A node is any
pytree of arrays. In the stack its leaves have a leading axis of `capacity + slack` slots. Slots
from `count` on are undefined. A batch need not be removed completely: the caller passes `put` the
slot at which to write.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array, PyTree


class Stack(NamedTuple):
    """Nodes and their number."""

    nodes: PyTree  # leaves [capacity + slack, ...]
    count: Array  # [] int32


def start(node: PyTree, *, capacity: int, slack: int) -> Stack:
    """A stack that holds one node.

    Args:
      node: a pytree of arrays.
      capacity: the largest number of nodes, static.
      slack: the largest number of rows in one `put`, static.
    """
    num_slots = capacity + slack

    def allocate(leaf: Array) -> Array:
        return jnp.zeros((num_slots, *leaf.shape), leaf.dtype).at[0].set(leaf)

    return Stack(jax.tree.map(allocate, node), jnp.ones((), jnp.int32))


def top(stack: Stack, size: int) -> tuple[PyTree, Array, Array]:
    """Reads the topmost `size` slots, the lowest slot first.

    Returns the nodes [size, ...], whether each slot holds a node [size] bool, and the first of
    these slots [].
    """
    begin = jnp.maximum(stack.count - size, 0)
    nodes = jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, begin, size), stack.nodes)
    return nodes, begin + jnp.arange(size, dtype=jnp.int32) < stack.count, begin


def put(stack: Stack, nodes: PyTree, num: Array, begin: Array) -> Stack:
    """The stack cut to `begin` slots, with the first `num` of `nodes` [k, ...] on top.

    The caller must ensure that `begin + num` is at most the capacity.
    """
    # All k rows are written. `slack` slots behind the capacity take the rows from `num` on.
    written = jax.tree.map(
        lambda leaf, new: lax.dynamic_update_slice_in_dim(leaf, new, begin, 0), stack.nodes, nodes
    )
    return Stack(written, (begin + num).astype(jnp.int32))


def sorted_by(stack: Stack, scores: Array) -> Stack:
    """The stack sorted by `scores` [capacity + slack], with the highest score on top.

    The order of nodes with equal scores does not change.
    """
    is_node = jnp.arange(scores.shape[0]) < stack.count
    order = jnp.argsort(jnp.where(is_node, scores, jnp.inf), stable=True)
    return stack._replace(nodes=jax.tree.map(lambda leaf: leaf[order], stack.nodes))
