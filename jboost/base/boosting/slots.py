"""Helpers with which boosters fill the slots of an ensemble."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import loops
from jboost.base.boosting.types import Absorbed, Ensemble
from jboost.base.status import Status
from jboost.base.types import Array, PyTree


def before_first_round(
    memory: PyTree, example_weights: Array, certificate: Any, capacity: int
) -> Absorbed:
    """The result of a booster's `init`: no votes in any slot, and the first example weights."""
    zero = jnp.zeros((), example_weights.dtype)
    return Absorbed(
        memory=memory,
        example_weights=example_weights,
        slots=jnp.zeros((1,), jnp.int32),
        votes=jnp.zeros((capacity, 2), example_weights.dtype),
        constant=zero,
        count=jnp.zeros((), jnp.int32),
        certificate=certificate,
        edge=zero,
        status=jnp.full((), int(Status.UNFINISHED)),
    )


def take_slot(
    ensemble: Ensemble, proposed: Array, vote: Array, is_wanted: Array
) -> tuple[Array, Array, Array]:
    """Puts one of the proposed hypotheses with its vote [] or [2] into the next free slot, if
    `is_wanted` is True.

    Args:
      proposed: [k] bool, True for this hypothesis.

    Returns:
      The `slots`, `votes` and `count` of `Absorbed`.
    """
    slots = jnp.where(proposed & is_wanted, ensemble.count, ensemble.votes.shape[0])
    votes = ensemble.votes.at[ensemble.count].set(jnp.where(is_wanted, vote, 0.0), mode="drop")
    return slots, votes, ensemble.count + is_wanted.astype(jnp.int32)


def enter_columns(
    columns: Array, count: Array, rows: Array, wanted: Array
) -> tuple[Array, Array, Array]:
    """Writes the rows for which `wanted` is True into slots: the slot of an equal column if there
    is one, else the next free slot.

    Args:
      columns: [capacity, m].
      count: [] int32, the number of slots in use.
      rows: [k, m].
      wanted: [k] bool.

    Returns:
      The columns, the slots [k] int32, and the count. The slot equals the capacity for rows that
      are not wanted or do not fit.
    """
    capacity = columns.shape[0]

    def enter(
        carry: tuple[Array, Array], item: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], Array]:
        columns, count = carry
        row, is_wanted = item
        is_same = jnp.all(columns == row[None, :], axis=1) & (jnp.arange(capacity) < count)
        is_known = jnp.any(is_same)
        slot = jnp.where(
            is_wanted, jnp.where(is_known, jnp.argmax(is_same), count), capacity
        ).astype(jnp.int32)
        entered = columns.at[slot].set(row, mode="drop")
        return (
            entered,
            count + (is_wanted & ~is_known & (count < capacity)).astype(jnp.int32),
        ), slot

    (columns, count), slots = loops.scan(enter, (columns, count), (rows, wanted))
    return columns, slots, count


def spoil_unless(is_sound: Array, certificate: Any) -> Any:
    """The certificate; if `is_sound` is False, with all floats NaN, since results of invalid input
    bound nothing.
    """

    def spoil(certificate: Any) -> Any:
        return jax.tree.map(
            lambda leaf: (
                jnp.full_like(leaf, jnp.nan) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf
            ),
            certificate,
        )

    return loops.cond(is_sound, lambda same: same, spoil, certificate)
