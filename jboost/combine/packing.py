"""A lower bound on the loss of every linear vote: a packing of infeasible subsystems.

A vote misclassifies an example of every infeasible subsystem. If subsystem g has the amount u_g and
the amounts of the subsystems that hold example i sum to at most its weight w_i, then the loss is at
least the sum of the amounts. With weights of 1 the subsystems are disjoint. The packing is greedy:
first pairs of examples with equal scores and opposite labels, then subsystems of at most d + 2
examples from linear programs (`infeasible`). Each takes the least weight left among its examples.

All functions here run in the 64-bit scope.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.combine import infeasible
from jboost.combine.infeasible import Rows


class Packing(NamedTuple):
    """Infeasible subsystems with their amounts, in integer weights."""

    members: Array  # [g, d + 2] int32, -1 for unused slots
    multipliers: Array  # [g, d + 2] float64
    amounts: Array  # [g] int64, 0 for unused slots
    is_proven: Array  # [g] bool
    count: Array  # [] int32
    bound: Array  # [] int64, the sum of the proven amounts
    left: Array  # [n] int64, the weight of each example that no subsystem has taken
    direction: Array  # [d + 1] of the last program
    # [] bool, whether the direction has right all hard examples and all with weight left, up to
    # rounding
    is_separated: Array


def empty(num_rows: int, weights: Array, capacity: int) -> Packing:
    """A packing without subsystems; `num_rows` is d + 1."""
    wide = jnp.dtype("float64")
    return Packing(
        jnp.full((capacity, num_rows + 1), -1, jnp.int32),
        jnp.zeros((capacity, num_rows + 1), wide),
        jnp.zeros((capacity,), weights.dtype),
        jnp.zeros((capacity,), bool),
        jnp.zeros((), jnp.int32),
        jnp.zeros((), weights.dtype),
        weights,
        jnp.zeros((num_rows,), wide),
        jnp.zeros((), bool),
    )


def pack_conflicts(packing: Packing, groups: Array, positive: Array) -> Packing:
    """Adds pairs of examples of one group and opposite classes, until none is left. The groups [n]
    are numbers from 0 up, and mean equal scores.
    """
    size = groups.shape[0]
    index = lax.iota(jnp.int32, size)

    def firsts(packing: Packing) -> tuple[Array, Array]:
        none = jnp.full((size + 1,), size, jnp.int32)
        alive = packing.left > 0
        return tuple(  # type: ignore[return-value]
            none.at[groups].min(jnp.where(alive & (positive == side), index, size))
            for side in (True, False)
        )

    def has_pair(packing: Packing) -> Array:
        one, other = firsts(packing)
        return jnp.any((one < size) & (other < size)) & (packing.count < packing.amounts.shape[0])

    def step(packing: Packing) -> Packing:
        one, other = firsts(packing)
        group = jnp.minimum(numerics.first_true((one < size) & (other < size)), size)
        pair = jnp.stack([one[group], other[group]])
        members = jnp.full((packing.members.shape[1],), -1, jnp.int32).at[:2].set(pair)
        multipliers = jnp.where(members >= 0, 1.0, 0.0).astype(packing.multipliers.dtype)
        return _added(packing, members, multipliers, jnp.zeros((), bool), jnp.ones((), bool))

    return loops.while_loop(has_pair, step, packing)


class _Turn(NamedTuple):
    packing: Packing
    tried: Array  # [n] bool, examples that the guide has wrong, of which no more are taken
    has_ended: Array  # [] bool


def pack(packing: Packing, rows: Rows, hard: Array, guide: Array, need: Array) -> Packing:
    """Adds subsystems until the examples with weight left are separated together with the hard
    ones, the bound is at least `need`, or the capacity is reached.

    A packing whose subsystems each have one example that a good vote has wrong bounds much of its
    loss. Such subsystems are added first, those with the least wrong examples before others.

    Args:
      packing: to start from.
      rows: of n examples.
      hard: [n] bool, examples that must be right: they take no part in the amounts. A subsystem of
        hard examples alone has the amount `need`.
      guide: [d + 1] the direction of a good vote, or 0 for none.
      need: [] int64.
    """
    heights = jnp.where(hard, jnp.inf, infeasible.heights(rows, guide))
    is_wrong = (heights <= 0) & jnp.any(guide != 0)

    def step(turn: _Turn) -> _Turn:
        packing = turn.packing
        is_left = packing.left > 0
        height, place = reduce.first_largest(
            jnp.where(is_left & is_wrong & ~turn.tried, heights, -jnp.inf)
        )
        is_guided = height > -jnp.inf
        is_place = (lax.iota(place.dtype, hard.shape[0]) == place) & is_guided
        usable = hard | (is_left & (~is_guided | ~is_wrong | is_place))
        near = jnp.where(is_guided, guide, packing.direction)
        outcome = infeasible.separate(rows, usable, hard, near)
        found = infeasible.prove(rows, outcome)
        is_hard = hard[jnp.maximum(found.members, 0)] | (found.members < 0)
        added = _added(
            packing, found.members, found.multipliers, is_hard, found.is_proven, need=need
        )
        kept = packing._replace(is_separated=outcome.is_separated & ~is_guided)
        after = Packing(
            *(
                jnp.where(outcome.is_infeasible, new, old)
                for new, old in zip(added, kept, strict=True)
            )
        )
        # a subsystem of hard examples alone ends the packing, proven or not
        ends = jnp.where(outcome.is_infeasible, jnp.all(is_hard), ~is_guided)
        tried = turn.tried | (is_place & ~outcome.is_infeasible)
        return _Turn(after._replace(direction=outcome.direction), tried, ends)

    def unfinished(turn: _Turn) -> Array:
        packing = turn.packing
        return ~turn.has_ended & (packing.bound < need) & (packing.count < packing.amounts.shape[0])

    start = _Turn(packing, jnp.zeros_like(hard), jnp.zeros((), bool))
    return loops.while_loop(unfinished, step, start).packing


def _added(
    packing: Packing,
    members: Array,
    multipliers: Array,
    is_hard: Array,
    is_proven: Array,
    need: Array | int = 0,
) -> Packing:
    """The packing with one more subsystem, whose amount is the least weight left."""
    most = jnp.iinfo(packing.left.dtype).max
    size = packing.left.shape[0]
    takes = (members >= 0) & ~is_hard
    weights = jnp.where(takes, packing.left[jnp.maximum(members, 0)], most)
    least = reduce.least(weights)
    amount = jnp.where(least == most, need, least).astype(packing.left.dtype)
    places = jnp.where(takes, members, size)
    return packing._replace(
        members=packing.members.at[packing.count].set(members),
        multipliers=packing.multipliers.at[packing.count].set(multipliers),
        amounts=packing.amounts.at[packing.count].set(amount),
        is_proven=packing.is_proven.at[packing.count].set(is_proven),
        count=packing.count + 1,
        bound=packing.bound + jnp.where(is_proven, amount, 0),
        left=packing.left.at[places].add(-amount, mode="drop"),
    )
