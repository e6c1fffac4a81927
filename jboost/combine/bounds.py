"""An inexpensive lower bound on the loss of every combination, from examples with equal scores and
opposite labels.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jboost.base import loops
from jboost.base.types import Array
from jboost.combine.votes import Examples
from jboost.pair.sweep.instance import bound_loss


def conflicts(examples: Examples) -> Array:
    """The sum over all distinct score vectors of the smaller weight of the two classes there, []
    int64. No function of the scores has a smaller loss. It is 0 if the cast changed the scores.
    """
    size = examples.live.shape[0]
    start = jnp.where(examples.live, 0, 1).astype(jnp.int32)
    groups = loops.fori_loop(
        0,
        examples.columns.shape[0],
        lambda axis, groups: _refine(groups, examples.columns[axis]),
        start,
    )
    none = jnp.zeros((size + 1,), examples.integers.dtype)
    positive = none.at[groups].add(jnp.where(examples.positive, examples.integers, 0))
    negative = none.at[groups].add(jnp.where(examples.positive, 0, examples.integers))
    return jnp.where(
        examples.faithful, jnp.sum(jnp.minimum(positive, negative), dtype=none.dtype), 0
    )


def in_weights(loss: Array, examples: Examples) -> Array:
    """An integer loss in the unit of the weights, rounded down, [] float64."""
    return jnp.where(examples.faithful, bound_loss(loss, examples.unit, examples.rounding), 0.0)


def _refine(groups: Array, column: Array) -> Array:
    """The groups [n], refined so that examples of a group are also equal in the column."""
    old, values, index = lax.sort(
        (groups, column, lax.iota(jnp.int32, groups.shape[0])), num_keys=2
    )
    is_new = (old[1:] != old[:-1]) | (values[1:] != values[:-1])
    numbers = jnp.concatenate(
        [jnp.zeros((1,), jnp.int32), jnp.cumsum(is_new.astype(jnp.int32), dtype=jnp.int32)]
    )
    return jnp.zeros_like(groups).at[index].set(numbers)
