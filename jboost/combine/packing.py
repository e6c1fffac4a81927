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

from jboost.base import loops, reduce
from jboost.base.types import Array
from jboost.combine import infeasible
from jboost.combine.infeasible import SignedRows, Subsystem

_NO_LIMIT = 2**31 - 1  # of pivots


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
    num_pivots: Array  # [] int32, of all programs


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
        jnp.zeros((), jnp.int32),
    )


def pack_conflicts(packing: Packing, groups: Array, positive: Array) -> Packing:
    """Adds pairs of examples of one group and opposite classes, until none is left.

    Lay the positive examples of a group end to end on a line, each as long as its weight, and the
    negative ones from the same start. Each overlap of a positive and a negative interval is a pair,
    and its length is the amount. One sort of the ends gives the pairs of all groups.

    Args:
      packing: to start from, with a capacity for n more subsystems.
      groups: [n] int32 from 0 up, in increasing order. Examples of a group have equal scores.
      positive: [n] bool.
    """
    size = groups.shape[0]
    matched = _matched(packing.left, groups, positive)
    is_matched = matched.end > matched.begin
    most = jnp.iinfo(matched.end.dtype).max
    ends, order = lax.sort(
        (jnp.where(is_matched, matched.end, most), lax.iota(jnp.int32, size)), num_keys=1
    )
    is_end, is_positive = is_matched[order], positive[order]
    amounts = jnp.where(is_end, jnp.diff(ends, prepend=jnp.zeros((1,), ends.dtype)), 0)
    # the examples of each class whose intervals hold the one that ends here
    rank = lax.iota(jnp.int32, size)
    is_side = is_end[None] & jnp.stack([is_positive, ~is_positive])
    nearest = lax.cummin(jnp.where(is_side, rank[None], size - 1), axis=1, reverse=True)
    pairs = order[nearest].T
    is_pair = amounts > 0
    number = jnp.cumsum(is_pair.astype(jnp.int32), dtype=jnp.int32)
    slots = jnp.where(is_pair, packing.count + number - 1, packing.amounts.shape[0])
    return packing._replace(
        members=packing.members.at[slots, :2].set(pairs, mode="drop"),
        multipliers=packing.multipliers.at[slots, :2].set(1.0, mode="drop"),
        amounts=packing.amounts.at[slots].set(amounts, mode="drop"),
        is_proven=packing.is_proven.at[slots].set(True, mode="drop"),
        count=packing.count + jnp.sum(is_pair, dtype=jnp.int32),
        bound=packing.bound + jnp.sum(amounts),
        left=packing.left - (matched.end - matched.begin),
    )


class _Matched(NamedTuple):
    """The intervals of the weights that are in pairs."""

    begin: Array  # [n] int64
    end: Array  # [n] int64


def _matched(weights: Array, groups: Array, positive: Array) -> _Matched:
    """The intervals of each class, group by group: as long as those of the lighter class there."""
    sides = jnp.stack([jnp.where(positive, weights, 0), jnp.where(positive, 0, weights)])
    totals = jnp.zeros_like(sides).at[:, groups].add(sides)
    ends, through = jnp.split(jnp.cumsum(jnp.concatenate([sides, totals]), axis=1), 2)
    ends = ends - (through - totals)[:, groups]
    lighter = jnp.min(totals, axis=0)
    start = (jnp.cumsum(lighter) - lighter)[groups]
    end = jnp.where(positive, ends[0], ends[1])
    most = lighter[groups]
    return _Matched(
        start + jnp.minimum(end - weights, most),
        start + jnp.minimum(end, most),
    )


class _Turn(NamedTuple):
    packing: Packing
    tried: Array  # [n] bool, examples that the guide has wrong, of which no more are taken
    has_ended: Array  # [] bool


def pack(
    packing: Packing,
    rows: SignedRows,
    hard: Array,
    guide: Array,
    need: Array,
    max_pivots: Array | int = _NO_LIMIT,
) -> Packing:
    """Adds subsystems until the examples with weight left are separated together with the hard
    ones, a subsystem of hard examples alone is found, the bound is at least `need`, the capacity is
    reached, or the pivots are used up. Each subsystem has the amount that `_added` gives it.

    If each subsystem has one example that a good vote has wrong, then the packing bounds much of
    the loss of that vote. So programs of one such example, the one closest to being right first,
    and all examples that the guide has right come first.

    Args:
      packing: to start from. Any packing of these examples is valid.
      rows: of n examples.
      hard: [n] bool, examples that must be right: they take no part in the amounts.
      guide: [d + 1] the direction of a good vote, or 0 for none.
      need: [] int64; also the amount of a subsystem of hard examples alone.
      max_pivots: [] int32; once the packing has taken so many pivots, no further program starts.
    """
    heights = jnp.where(hard, jnp.inf, infeasible.heights(rows.signed, guide))
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
        # a subsystem of hard examples alone ends the packing, proven or not
        ends = jnp.where(outcome.is_infeasible, jnp.all(is_hard), ~is_guided)
        after = _added(packing, found, is_hard, need, outcome.is_infeasible)._replace(
            direction=outcome.direction,
            is_separated=outcome.is_separated & ~is_guided,
            num_pivots=packing.num_pivots + outcome.num_pivots,
        )
        return _Turn(after, turn.tried | (is_place & ~outcome.is_infeasible), ends)

    def unfinished(turn: _Turn) -> Array:
        packing = turn.packing
        is_short = (packing.bound < need) & (packing.num_pivots < max_pivots)
        return ~turn.has_ended & is_short & (packing.count < packing.amounts.shape[0])

    start = _Turn(packing, jnp.zeros_like(hard), jnp.zeros((), bool))
    return loops.while_loop(unfinished, step, start).packing


def _added(
    packing: Packing, found: Subsystem, is_hard: Array, need: Array, is_found: Array
) -> Packing:
    """The packing with one more subsystem, whose amount is the least weight left of its examples
    that are not hard, or `need` if all are; the same packing if `is_found` is False.

    The arrays are changed at few places, so that the loop of `pack` copies none of them.
    """
    most = jnp.iinfo(packing.left.dtype).max
    capacity, size = packing.amounts.shape[0], packing.left.shape[0]
    takes = (found.members >= 0) & ~is_hard
    weights = jnp.where(takes, packing.left[jnp.maximum(found.members, 0)], most)
    least = reduce.least(weights)
    amount = jnp.where(least == most, need, least).astype(packing.left.dtype)
    slot = jnp.where(is_found, packing.count, capacity)
    places = jnp.where(takes & is_found, found.members, size)
    return packing._replace(
        members=packing.members.at[slot].set(found.members, mode="drop"),
        multipliers=packing.multipliers.at[slot].set(found.multipliers, mode="drop"),
        amounts=packing.amounts.at[slot].set(amount, mode="drop"),
        is_proven=packing.is_proven.at[slot].set(found.is_proven, mode="drop"),
        count=packing.count + is_found.astype(packing.count.dtype),
        bound=packing.bound + jnp.where(found.is_proven & is_found, amount, 0),
        left=packing.left.at[places].add(-amount, mode="drop"),
    )


def pack_part(
    packing: Packing, rows: SignedRows, part: Array, guide: Array, max_pivots: int
) -> Packing:
    """The packing with subsystems of the examples of a part, whose indices [k] are those of the
    examples, or n and more for none. The arguments are those of `pack`, without hard examples.
    """
    size, capacity = packing.left.shape[0], packing.amounts.shape[0]
    is_in, index = part < size, jnp.minimum(part, size - 1)
    start = empty(
        rows.signed.shape[0], jnp.where(is_in, packing.left[index], 0), part.shape[0]
    )._replace(num_pivots=packing.num_pivots, direction=packing.direction)
    most = jnp.full((), jnp.iinfo(packing.bound.dtype).max, packing.bound.dtype)
    found = pack(
        start,
        rows._replace(signed=jnp.where(is_in[None], rows.signed[:, index], 0.0)),
        jnp.zeros_like(is_in),
        guide,
        most,
        max_pivots,
    )
    number = lax.iota(jnp.int32, part.shape[0])
    slots = jnp.where(number < found.count, packing.count + number, capacity)
    members = jnp.where(found.members < 0, -1, index[jnp.maximum(found.members, 0)])
    return packing._replace(
        members=packing.members.at[slots].set(members.astype(jnp.int32), mode="drop"),
        multipliers=packing.multipliers.at[slots].set(found.multipliers, mode="drop"),
        amounts=packing.amounts.at[slots].set(found.amounts, mode="drop"),
        is_proven=packing.is_proven.at[slots].set(found.is_proven, mode="drop"),
        count=packing.count + found.count,
        bound=packing.bound + found.bound,
        left=packing.left.at[part].set(found.left, mode="drop"),
        direction=found.direction,
        num_pivots=found.num_pivots,
    )
