"""Classifies every point by every near-optimal split of the other points. One loop computes one
bisector in each step.

For a split of least weight the loop computes the bisector with all points, and the bisector without
each point that supports it. For a split of larger weight it computes one bisector. Splits of least
weight come first: the margin of a later split then need not be computed exactly if it is known to
be too small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry.exact import Wide
from jboost.pair.leave_one_out import near_optimal
from jboost.pair.leave_one_out.near_optimal import Splits
from jboost.pair.leave_one_out.near_optimal_lines import FatLine, fat_line, may_support, own_side_of
from jboost.pair.sweep.instance import Instance

Tally = TypeVar("Tally")


class Near(NamedTuple):
    """The near-optimal splits, and which points they leave undecided."""

    splits: Splits
    optimum: Array  # [] integer
    # [n] bool, live and not misclassified by every optimal separator of the others
    undecided: Array


class Verdict(NamedTuple):
    """The result of one split for every point left out."""

    squared_gap: Wide  # [n]
    right: Array  # [n] bool, whether the point is classified correctly
    # [n] bool, the split without the point is optimal, and no other split is the same without it
    counts: Array
    doubtful: Array  # [] bool, whether rounding leaves a result undecided


class _Enumeration(NamedTuple):
    """The state of the loop: the rank of the row, the point left out (n for none), and the result
    of the row so far.
    """

    rank: Array  # [] int32
    removed: Array  # [] int32
    supports: Array  # [n] bool, of the row's bisector with all points
    touched: tuple[Array, Array]  # a support point of that bisector on each side
    verdict: Verdict


def _filled(splits: Splits) -> Array:
    return jnp.minimum(splits.count, splits.losses.shape[0])


def matters_to(instance: Instance, near: Near, row: Array) -> Array:
    """The undecided points without which the split is optimal, [n] bool."""
    return _matters(
        instance, near, near.splits.on_own_side[row], near.splits.losses[row] - near.optimum
    )


def _matters(instance: Instance, near: Near, on_own_side: Array, excess: Array) -> Array:
    """The undecided points without which splits [..., n] are optimal. `excess` is the loss of each
    split less the optimum.
    """
    own, weights, undecided = (
        jnp.broadcast_to(each, on_own_side.shape)
        for each in (instance.own, instance.weights, near.undecided)
    )
    misclassified = on_own_side != own
    return undecided & jnp.where(excess == 0, ~misclassified, misclassified & (weights == excess))


def add_verdicts(
    instance: Instance,
    near: Near,
    tally: Tally,
    add: Callable[[Tally, Array, Verdict], Tally],
    floor: Callable[[Tally, Array], Array],
) -> Tally:
    """Adds the verdicts of all splits that matter to a tally.

    Args:
      instance: the problem.
      near: its near-optimal splits.
      tally: the initial tally.
      add: (tally, row, verdict) -> tally.
      floor: (tally, points that the split matters to) -> gap. Gaps up to this one need not be
        computed exactly; negative if all must be.
    """
    capacity, size = near.splits.on_own_side.shape
    place, rows = lax.iota(jnp.int32, size), lax.iota(jnp.int32, capacity)
    excess = near.splits.losses - near.optimum
    matters = _matters(instance, near, near.splits.on_own_side, excess[:, None])
    matters = reduce.any_true(matters, axis=1) & (rows < _filled(near.splits))
    urgency = jnp.where(matters, jnp.where(near.splits.losses == near.optimum, 0, 1), 2).astype(
        jnp.int32
    )
    _, order = lax.sort((urgency, rows), num_keys=1)
    num_rows = reduce.count(matters)

    def unfinished(carry: tuple[_Enumeration, Tally]) -> Array:
        return carry[0].rank < num_rows

    def step(carry: tuple[_Enumeration, Tally]) -> tuple[_Enumeration, Tally]:
        state, tally = carry
        row = order[jnp.minimum(state.rank, capacity - 1)]
        split = near.splits.on_own_side[row]
        is_optimal = near.splits.losses[row] == near.optimum
        relevant = matters_to(instance, near, row)
        kept = instance.live & (split == instance.own)
        own_side, other_side = kept & split, kept & ~split
        first_time = state.removed == size
        here = place == state.removed
        guess = _guess(instance, own_side, other_side)
        touched = jax.tree.map(
            lambda new, old: jnp.where(first_time, new, old), guess, state.touched
        )
        of_no_interest = jnp.where(is_optimal, -1, floor(tally, relevant))
        line = fat_line(instance, own_side & ~here, other_side & ~here, touched, of_no_interest)
        right, doubtful = _is_right(instance, line)
        affected = jnp.where(first_time, instance.live, here)
        counts = jnp.where(
            first_time,
            relevant & (is_optimal | ~right),
            right | ~near_optimal.is_listed(near.splits, split ^ here),
        )
        verdict = Verdict(
            squared_gap=Wide(
                *(
                    jnp.where(affected, new, old)
                    for new, old in zip(line.squared_gap, state.verdict.squared_gap, strict=True)
                )
            ),
            right=jnp.where(affected, right, state.verdict.right),
            counts=jnp.where(affected, counts, state.verdict.counts),
            doubtful=(state.verdict.doubtful & ~first_time)
            | jnp.any(doubtful & affected & relevant),
        )
        supports = jnp.where(
            first_time,
            relevant & is_optimal & may_support(instance, line, own_side, other_side),
            state.supports,
        )
        following = numerics.first_true(supports & (first_time | (place > state.removed)))
        done = following == size
        added = add(tally, row, verdict)
        tally = jax.tree.map(lambda new, old: jnp.where(done, new, old), added, tally)
        touched = jax.tree.map(
            lambda new, old: jnp.where(first_time, new, old), (line.lowest, line.highest), touched
        )
        return _Enumeration(
            state.rank + done.astype(jnp.int32), following, supports, touched, verdict
        ), tally

    zero, nowhere = jnp.zeros((), jnp.int32), jnp.zeros(size, bool)
    no_gap = Wide(jnp.zeros_like(instance.x), jnp.zeros_like(instance.x))
    state = _Enumeration(
        zero,
        jnp.full((), size, jnp.int32),
        nowhere,
        (zero, zero),
        Verdict(no_gap, nowhere, nowhere, jnp.zeros((), bool)),
    )
    return loops.while_loop(unfinished, step, (state, tally))[1]


def _is_right(instance: Instance, line: FatLine) -> tuple[Array, Array]:
    side, doubtful = own_side_of(instance, line)
    return jnp.where(instance.own, side > 0, side < 0), doubtful


def _guess(instance: Instance, own_side: Array, other_side: Array) -> tuple[Array, Array]:
    """A point of the own side, and the nearest point to it of the other side."""
    last = own_side.shape[0] - 1
    first = jnp.minimum(numerics.first_true(own_side), last)
    dx, dy = instance.metric - instance.metric[:, first, None]
    _, second = reduce.first_least(jnp.where(other_side, dx * dx + dy * dy, jnp.inf))
    return first, jnp.minimum(second, last)
