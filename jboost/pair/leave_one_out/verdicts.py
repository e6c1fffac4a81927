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
from jboost.base.types import Array, PyTree
from jboost.geometry.exact import Wide
from jboost.pair.leave_one_out import near_optimal
from jboost.pair.leave_one_out.near_optimal import LineSplits
from jboost.pair.leave_one_out.near_optimal_lines import FatLine, fat_line, may_support, own_side_of
from jboost.pair.sweep.instance import LineInstance

Tally = TypeVar("Tally")


class Near(NamedTuple):
    """The near-optimal splits, and which points they leave undecided."""

    splits: LineSplits
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


class _PointEnumeration(NamedTuple):
    """The state of the loop: the rank of the row, the point left out (n for none), and the result
    of the row so far.
    """

    rank: Array  # [] int32
    removed: Array  # [] int32
    supports: Array  # [n] bool, of the row's bisector with all points
    touched: tuple[Array, Array]  # a support point of that bisector on each side
    verdict: Verdict


class _NearOptimalSplit(NamedTuple):
    """One near-optimal split."""

    index: Array  # [] int32
    split: Array  # [n] bool, on the own side
    is_optimal: Array  # [] bool
    relevant: Array  # [n] bool, the undecided points without which the split is optimal
    own_side: Array  # [n] bool, the points of the own class on the own side
    other_side: Array  # [n] bool, the points of the other class on the other side


def _filled(splits: LineSplits) -> Array:
    return jnp.minimum(splits.count, splits.losses.shape[0])


def matters_to(instance: LineInstance, near: Near, row: Array) -> Array:
    """The undecided points without which the split is optimal, [n] bool."""
    return _matters(
        instance, near, near.splits.on_own_side[row], near.splits.losses[row] - near.optimum
    )


def _matters(instance: LineInstance, near: Near, on_own_side: Array, excess: Array) -> Array:
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
    instance: LineInstance,
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
    place = lax.iota(jnp.int32, size)
    order, num_rows = _order_rows(instance, near)

    def unfinished(carry: tuple[_PointEnumeration, Tally]) -> Array:
        return carry[0].rank < num_rows

    def step(carry: tuple[_PointEnumeration, Tally]) -> tuple[_PointEnumeration, Tally]:
        state, tally = carry
        row = _take_row(instance, near, order[jnp.minimum(state.rank, capacity - 1)])
        first_time = state.removed == size
        here = place == state.removed
        guess = _guess(instance, row.own_side, row.other_side)
        touched = _where(first_time, guess, state.touched)
        of_no_interest = jnp.where(row.is_optimal, -1, floor(tally, row.relevant))
        line = fat_line(
            instance, row.own_side & ~here, row.other_side & ~here, touched, of_no_interest
        )
        verdict = _update_verdict(instance, near, row, line, state.verdict, first_time, here)
        supports = jnp.where(first_time, _supports(instance, row, line), state.supports)
        following = numerics.first_true(supports & (first_time | (place > state.removed)))
        done = following == size
        added = add(tally, row.index, verdict)
        tally = _where(done, added, tally)
        touched = _where(first_time, (line.lowest, line.highest), touched)
        return _PointEnumeration(
            state.rank + done.astype(jnp.int32), following, supports, touched, verdict
        ), tally

    return loops.while_loop(unfinished, step, (_start(instance, size), tally))[1]


def _start(instance: LineInstance, size: int) -> _PointEnumeration:
    """The state before the first row."""
    zero, nowhere = jnp.zeros((), jnp.int32), jnp.zeros(size, bool)
    no_gap = Wide(jnp.zeros_like(instance.x), jnp.zeros_like(instance.x))
    return _PointEnumeration(
        zero,
        jnp.full((), size, jnp.int32),
        nowhere,
        (zero, zero),
        Verdict(no_gap, nowhere, nowhere, jnp.zeros((), bool)),
    )


def _supports(instance: LineInstance, row: _NearOptimalSplit, line: FatLine) -> Array:
    """The undecided points [n] bool that may support the bisector of an optimal split."""
    touches = may_support(instance, line, row.own_side, row.other_side)
    return row.relevant & row.is_optimal & touches


def _where(condition: Array, new: PyTree, old: PyTree) -> PyTree:
    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), new, old)


def _order_rows(instance: LineInstance, near: Near) -> tuple[Array, Array]:
    """The rows of the splits, [S] int32: first those of least weight that matter, then the others
    that matter. And the number of rows that matter.
    """
    rows = lax.iota(jnp.int32, near.splits.losses.shape[0])
    excess = near.splits.losses - near.optimum
    matters = _matters(instance, near, near.splits.on_own_side, excess[:, None])
    matters = reduce.any_true(matters, axis=1) & (rows < _filled(near.splits))
    urgency = jnp.where(matters, jnp.where(near.splits.losses == near.optimum, 0, 1), 2).astype(
        jnp.int32
    )
    _, order = lax.sort((urgency, rows), num_keys=1)
    return order, reduce.count(matters)


def _take_row(instance: LineInstance, near: Near, index: Array) -> _NearOptimalSplit:
    split = near.splits.on_own_side[index]
    kept = instance.live & (split == instance.own)
    return _NearOptimalSplit(
        index=index,
        split=split,
        is_optimal=near.splits.losses[index] == near.optimum,
        relevant=matters_to(instance, near, index),
        own_side=kept & split,
        other_side=kept & ~split,
    )


def _update_verdict(
    instance: LineInstance,
    near: Near,
    row: _NearOptimalSplit,
    line: FatLine,
    verdict: Verdict,
    first_time: Array,
    here: Array,
) -> Verdict:
    """The verdict of a row with the result of one bisector. `first_time` if it is the bisector with
    all points, whose result is that of all points; else `here` [n] is the point left out.
    """
    right, doubtful = _is_right(instance, line)
    affected = jnp.where(first_time, instance.live, here)
    counts = jnp.where(
        first_time,
        row.relevant & (row.is_optimal | ~right),
        right | ~near_optimal.is_listed(near.splits, row.split ^ here),
    )
    return Verdict(
        squared_gap=Wide(
            *(
                jnp.where(affected, new, old)
                for new, old in zip(line.squared_gap, verdict.squared_gap, strict=True)
            )
        ),
        right=jnp.where(affected, right, verdict.right),
        counts=jnp.where(affected, counts, verdict.counts),
        doubtful=(verdict.doubtful & ~first_time) | jnp.any(doubtful & affected & row.relevant),
    )


def _is_right(instance: LineInstance, line: FatLine) -> tuple[Array, Array]:
    side, doubtful = own_side_of(instance, line)
    return jnp.where(instance.own, side > 0, side < 0), doubtful


def _guess(instance: LineInstance, own_side: Array, other_side: Array) -> tuple[Array, Array]:
    """A point of the own side, and the nearest point to it of the other side."""
    last = own_side.shape[0] - 1
    first = jnp.minimum(numerics.first_true(own_side), last)
    dx, dy = instance.metric - instance.metric[:, first, None]
    _, second = reduce.first_least(jnp.where(other_side, dx * dx + dy * dy, jnp.inf))
    return first, jnp.minimum(second, last)
