"""Converts scaled duals of the cuts to duals that satisfy (19b) of Goldberg and Eckstein (2009),
and proves their lower bound.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from jboost.base import brackets, numerics, reduce
from jboost.base.types import Array
from jboost.l0.relaxation import certify, pair_blocks
from jboost.l0.relaxation.halpern.iteration import HalpernState, HalpernStep, trial_of, without_rows
from jboost.l0.relaxation.halpern.program import HalpernProgram
from jboost.l0.relaxation.pair_blocks import AllPairs, Block, PairLayout, Sums
from jboost.l0.types import RelaxationInstance

# The order of the norm that bounds the maximum over the hypotheses of a cut is 2^4: products of
# matrices compute a sum of powers, but no maximum.
_POWER = 4


class Allowance(NamedTuple):
    """The factors that make a vector of pairs satisfy (19b), as in `certify.allowed`, with a norm
    of high order as a bound on the largest excess of a cut.
    """

    scale: Array  # [] from scaled to unscaled values
    excess: Array  # [] the largest excess 1 - share of a hypothesis
    excesses: Array  # [U] powers of the excesses relative to the largest
    keep_rows: Array  # [P]
    keep_columns: Array  # [Q]


def _allowed_pairs(block: Block, trial: Array, allowance: Any, keep_row: Array) -> Array:
    """The unscaled v of a block after both steps of `certify.allowed`, [R, O, Q]."""
    power = block.covered(allowance.excesses)
    for _ in range(_POWER):
        power = jnp.sqrt(power)
    share = jnp.maximum(1 - allowance.excess * power, 0.0)
    kept = jnp.minimum(keep_row[:, None, None], allowance.keep_columns[None, None, :])
    return certify.cleaned(certify.cleaned(allowance.scale * trial * share) * kept)


def allow(
    program: HalpernProgram,
    state: HalpernState,
    layout: PairLayout,
    move: HalpernStep,
    weights: Array,
    sums: Sums,
) -> tuple[Array, Allowance]:
    """Example weights [m] and factors for the pairs that together satisfy (19b) in exact
    arithmetic.
    """
    instance, scale = program.instance, program.scaling.cuts
    excess, powers = _excesses(instance, scale * sums.selected)
    rows, columns = (
        jnp.ones((layout.num_rows,), scale.dtype),
        jnp.ones((layout.num_columns,), scale.dtype),
    )
    whole = Allowance(scale, excess, powers, rows, columns)

    def body(block: Block, _: Any, read: Any, of_rows: Any, whole: Any) -> Any:
        by_row, keep = of_rows
        values = _allowed_pairs(block, trial_of(block, read[0], whole[0], by_row), whole[1], keep)
        return (), pair_blocks.bound_sums(values)[:2]

    of_rows, parts = (move.by_row, rows), (without_rows(move), whole._replace(keep_rows=rows[:0]))
    _, (by_row, by_column) = pair_blocks.sweep(
        program.pairs, layout, body, read=(state.pairs,), of_rows=of_rows, whole=parts
    )
    ends = [
        pair_blocks.spread(jnp.ravel(by_row), columns * 0, layout, weights.shape[0]),
        pair_blocks.spread(rows * 0, pair_blocks.add_up(by_column), layout, weights.shape[0]),
    ]
    keep = _shares_kept(instance, weights, ends)
    keep_rows, keep_columns = pair_blocks.of_ends(keep, layout)
    return certify.cleaned(weights * keep), whole._replace(
        keep_rows=keep_rows, keep_columns=keep_columns
    )


def _excesses(instance: RelaxationInstance, served: Array) -> tuple[Array, Array]:
    """The largest excess 1 - share of a hypothesis, [], and powers of the excesses relative to it,
    [U], if the cuts that count each hypothesis sum to `served` [U].
    """
    eps = float(jnp.finfo(served.dtype).eps)
    limit = instance.costs * (1 - 64 * eps)
    excesses = jnp.where(
        served > limit, 1 - numerics.safe_divide(instance.costs, served) * (1 - 64 * eps), 0.0
    )
    excess = jnp.maximum(reduce.largest(excesses), 0.0)
    powers = numerics.safe_divide(excesses, excess)
    for _ in range(_POWER):
        powers = powers * powers
    return excess, powers


def _shares_kept(instance: RelaxationInstance, weights: Array, ends: list[Array]) -> Array:
    """The share [m] of w and of the pairs that each example can keep, if w is `weights` [m] and
    its pairs sum to the two `ends` [m], by row and by column.
    """
    one = jnp.ones((), weights.dtype)
    _, load = brackets.bracket_dot(
        jnp.stack([weights, weights, *ends], axis=1),
        jnp.stack([one, instance.margin, one, one])[None, :],
    )
    eps = float(jnp.finfo(weights.dtype).eps)
    return jnp.where(
        load > instance.weights, numerics.safe_divide(instance.weights, load) * (1 - 8 * eps), 1.0
    )


def _proof_of_block(block: Block, values: Array) -> tuple[Array, Array]:
    """The sums of allowed pairs for a lower bound: by hypothesis [U], rounded up, and in all [],
    rounded down.
    """
    return pair_blocks.most_serving(block, values), pair_blocks.bound_sums(values)[2]


def prove_trial(
    program: HalpernProgram,
    state: HalpernState,
    layout: PairLayout,
    move: HalpernStep,
    weights: Array,
    allowance: Allowance,
) -> tuple[Array, Array]:
    """The lower bound that the allowed T v proves, [], and alpha, [], in one pass."""

    def body(block: Block, _: Any, read: Any, of_rows: Any, whole: Any) -> Any:
        values = _allowed_pairs(
            block, trial_of(block, read[0], whole[0], of_rows[0]), whole[1], of_rows[1]
        )
        return (), _proof_of_block(block, values)

    of_rows, whole = (
        (move.by_row, allowance.keep_rows),
        (without_rows(move), allowance._replace(keep_rows=allowance.keep_rows[:0])),
    )
    _, (served, sums) = pair_blocks.sweep(
        program.pairs, layout, body, read=(state.pairs,), of_rows=of_rows, whole=whole
    )
    return certify.prove_from_sums(program.instance, weights, pair_blocks.add_up(served), sums)


def prove(
    instance: RelaxationInstance, pairs: AllPairs, layout: PairLayout, weights: Array, values: Array
) -> tuple[Array, Array]:
    """The lower bound that stored, allowed duals prove, [], and alpha, []."""

    def body(block: Block, _: Any, read: Any, __: Any, ___: Any) -> Any:
        return (), _proof_of_block(block, read[0])

    _, (served, sums) = pair_blocks.sweep(pairs, layout, body, read=(values,))
    return certify.prove_from_sums(instance, weights, pair_blocks.add_up(served), sums)


def store(
    program: HalpernProgram,
    state: HalpernState,
    layout: PairLayout,
    move: HalpernStep,
    allowance: Allowance,
    is_better: Array,
    restarts: Array,
) -> tuple[Array, Array, Array]:
    """The vectors (v, anchor, best) after a check, in one pass. A restart sets v and the anchor to
    T v. A better bound sets the best to the allowed T v.
    """

    def body(block: Block, updated: Any, read: Any, of_rows: Any, whole: Any) -> Any:
        move, allowance, is_better, restarts = whole
        anchor, best = updated
        trial = trial_of(block, read[0], move, of_rows[0])
        best = jnp.where(is_better, _allowed_pairs(block, trial, allowance, of_rows[1]), best)
        return (jnp.where(restarts, trial, anchor), best), ()

    of_rows, rule = (
        (move.by_row, allowance.keep_rows),
        allowance._replace(keep_rows=allowance.keep_rows[:0]),
    )
    updated, whole = (
        (state.anchor_pairs, state.best.pairs),
        (without_rows(move), rule, is_better, restarts),
    )
    (anchor, best), _ = pair_blocks.sweep(
        program.pairs,
        layout,
        body,
        updated=updated,
        read=(state.pairs,),
        of_rows=of_rows,
        whole=whole,
    )
    # The pass does not update v itself: two updates read it, so XLA would copy it.
    return jnp.where(restarts, anchor, state.pairs), anchor, best
