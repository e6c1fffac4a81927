"""A lower bound on the loss of every combination, with its certificate: a packing of infeasible
subsystems (`packing`), from examples to the units of the weights.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics
from jboost.base.types import Array
from jboost.combine import infeasible, packing
from jboost.combine.infeasible import SignedRows
from jboost.combine.packing import Packing
from jboost.combine.types import InfeasibleSubsystems
from jboost.combine.votes import ScoredExamples
from jboost.pair.sweep.instance import bound_loss

# Programs are over parts of at most so many examples, so that the time of a packing grows as n and
# not as its square. After so many pivots no further program starts, as a part of a packing is a
# packing. `python -m benchmarks.combine --packing 8000x3 8000x6`, normal scores, without parts and
# with them: bounds of 1,232 and 1,194 in 2.8 and 0.2 s; 812 and 764 in 9.5 and 0.5 s.
_MOST_IN_PART = 1024
_MAX_PIVOTS = 1 << 17


def pack(examples: ScoredExamples, coefficients: Array, offset: Array) -> Packing:
    """A packing of the examples, guided by a vote with a finite offset. Its slots with an amount of
    0 are empty, and come last.

    The examples are sorted first, so that the bound does not depend on their order.
    """
    size = examples.live.shape[0]
    groups = _groups(examples)
    groups, _, _, order = lax.sort(
        (groups, -examples.integers, examples.positive, lax.iota(jnp.int32, size)), num_keys=3
    )
    positive, live = examples.positive[order], examples.live[order]
    rows = infeasible.make_rows(examples.columns[:, order], live, positive)
    start = packing.empty(rows.signed.shape[0], examples.integers[order], size)
    found = packing.pack_conflicts(start, groups, positive)
    found = _pack_parts(found, rows, live, infeasible.direction_of(rows, coefficients, offset))
    is_proven = found.is_proven & examples.faithful
    slots = jnp.argsort(~is_proven, stable=True)
    members = jnp.where(found.members < 0, size, order[jnp.maximum(found.members, 0)])
    in_order = jnp.argsort(members, axis=1, stable=True)
    members = jnp.take_along_axis(members, in_order, axis=1)
    multipliers = jnp.take_along_axis(found.multipliers, in_order, axis=1)
    is_used = is_proven[:, None] & (members < size)
    return found._replace(
        members=jnp.where(is_used, members, -1)[slots],
        multipliers=jnp.where(is_used, multipliers, 0.0)[slots],
        amounts=jnp.where(is_proven, found.amounts, 0)[slots],
        is_proven=is_proven[slots],
        bound=jnp.where(examples.faithful, found.bound, 0),
    )


def _pack_parts(packed: Packing, rows: SignedRows, live: Array, guide: Array) -> Packing:
    """Adds subsystems of each part of the live examples.

    Live examples come first in the order. With k parts, part p takes the examples p, p + k,
    p + 2k, ..., so that each part is a sample of all.
    """
    num_live = jnp.sum(live, dtype=jnp.int32)
    num_parts = -(-num_live // _MOST_IN_PART)
    number = lax.iota(jnp.int32, min(_MOST_IN_PART, live.shape[0]))

    def step(state: tuple[Array, Packing]) -> tuple[Array, Packing]:
        part, packed = state
        index = part + num_parts * number
        index = jnp.where(index < num_live, index, live.shape[0])
        return part + 1, packing.pack_part(packed, rows, index, guide, _MAX_PIVOTS)

    def unfinished(state: tuple[Array, Packing]) -> Array:
        return (state[0] < num_parts) & (state[1].num_pivots < _MAX_PIVOTS)

    return loops.while_loop(unfinished, step, (jnp.zeros((), jnp.int32), packed))[1]


def certify(packing: Packing, examples: ScoredExamples, dtype: jnp.dtype) -> InfeasibleSubsystems:
    """The certificate in the unit of the weights. Its bound is that of its rounded amounts."""
    wide = examples.unit.dtype
    amounts = numerics.round_down(numerics.round_down(packing.amounts, wide) * examples.unit, dtype)
    total = jnp.sum(amounts.astype(wide))
    is_exact = (total / examples.unit).astype(packing.bound.dtype) == packing.bound
    slack = jnp.where(is_exact, 1.0, 1 - 4 * len(amounts) * float(jnp.finfo(wide).eps))
    bound = jnp.minimum(total * slack, in_weights(packing.bound, examples))
    largest = jnp.max(packing.multipliers, axis=1, keepdims=True, initial=1.0)
    return InfeasibleSubsystems(
        packing.members,
        (packing.multipliers / largest).astype(dtype),
        amounts,
        jnp.maximum(bound - examples.rounding, 0.0),
    )


def in_weights(loss: Array, examples: ScoredExamples) -> Array:
    """An integer loss in the unit of the weights, rounded down, [] float64."""
    return jnp.where(examples.faithful, bound_loss(loss, examples.unit, examples.rounding), 0.0)


def _groups(examples: ScoredExamples) -> Array:
    """Numbers [n] int32 that are equal for equal scores, in lexicographic order of the scores."""
    start = jnp.where(examples.live, 0, 1).astype(jnp.int32)
    return loops.fori_loop(
        0,
        examples.columns.shape[0],
        lambda axis, groups: _refine(groups, examples.columns[axis]),
        start,
    )


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
