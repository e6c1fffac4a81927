"""The criteria by which learners rank hypotheses: the edge, or the normalizer of InfoBoost.

In the notation of Hatano, tp, fp, tn and fn are the weights of the `ConfusionCells`, and Z is the
`normalizer`. A learner that supports both criteria has a field `criterion`, "edge" or "normalizer",
which `replace_criterion` sets.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp

from jboost.base import check, exact_sums, numerics, reduce
from jboost.base.types import Array

CRITERIA = ("edge", "normalizer")


class ConfusionCells(NamedTuple):
    """The weights of a confusion table, [...] each. They are sums of nonnegative terms, so that a
    cell without positive weights is exactly 0.
    """

    true_positive: Array  # h > 0, y > 0
    false_positive: Array  # h > 0, y < 0
    true_negative: Array  # h < 0, y < 0
    false_negative: Array  # h < 0, y > 0
    abstained: Array  # h = 0


def normalizer(cells: ConfusionCells) -> Array:
    """Z = abstained + 2 sqrt(tp fp) + 2 sqrt(tn fn), [...]. Roots are taken first, so that products
    of small weights do not underflow.
    """
    on_positive = jnp.sqrt(cells.true_positive) * jnp.sqrt(cells.false_positive)
    on_negative = jnp.sqrt(cells.true_negative) * jnp.sqrt(cells.false_negative)
    return cells.abstained + 2 * on_positive + 2 * on_negative


def edges(outputs: Array, signed_weights: Array) -> tuple[Array, Array]:
    """The edges [k] of outputs [k, m], summed in 64 bits, and an upper bound [] on all exact
    |edge|.

    Args:
      outputs: [k, m] in [-1, 1], finite.
      signed_weights: [m], example weight times label.
    """
    dtype = outputs.dtype

    def summed(outputs: Array, signed_weights: Array) -> tuple[Array, Array]:
        wide = signed_weights.astype(jnp.float64)
        sums = reduce.total(outputs.astype(jnp.float64) * wide[None, :])
        bound = reduce.largest_size(sums) + slack(signed_weights)
        return sums.astype(dtype), numerics.round_up(bound, dtype)

    sums, bound = numerics.in_64_bits(summed)(outputs, signed_weights)
    return sums, bound


def slack(signed_weights: Array, *, num_more: int = 0) -> Array:
    """Twice a bound on the rounding error of a sum of m terms in 64 bits, in any order, and of
    `num_more` additions of its parts, float64 []. Call it in the 64-bit scope.

    The sizes of the terms are at most |signed_weights|. A processor that flushes subnormal numbers
    to 0 adds an error of at most the least normal number per term.
    """
    num_terms = exact_sums.length(signed_weights.shape[0]) + num_more + 2
    tiny = float(jnp.finfo(signed_weights.dtype).tiny)
    return num_terms * (
        2.0**-52 * reduce.total(jnp.abs(signed_weights.astype(jnp.float64))) + 2 * tiny
    )


def cells_of(outputs: Array, example_weights: Array, labels: Array) -> ConfusionCells:
    """The confusion table [k] of outputs [k, m] under weights [m] and labels [m], 0 on padding."""
    positive = jnp.where(labels > 0, example_weights, 0.0)
    negative = jnp.where(labels < 0, example_weights, 0.0)
    said_yes, said_no = outputs > 0, outputs < 0

    def chosen(said: Array, weights: Array) -> Array:
        return jnp.where(said, weights[None, :], 0.0)

    true_positive, false_positive = reduce.totals(
        chosen(said_yes, positive), chosen(said_yes, negative)
    )
    true_negative, false_negative = reduce.totals(
        chosen(said_no, negative), chosen(said_no, positive)
    )
    abstained = reduce.total(chosen(~(said_yes | said_no), positive + negative))
    return ConfusionCells(true_positive, false_positive, true_negative, false_negative, abstained)


def replace_criterion(learner: Any, criterion: str) -> Any:
    """The learner with another `criterion`, also if it is wrapped by `signs`. A learner without
    this choice is returned unchanged.

    Args:
      learner: any learner.
      criterion: "edge" or "normalizer".

    Raises:
      ValueError: if `criterion` is neither of the two.

    >>> from jboost import learners
    >>> learners.replace_criterion(learners.stumps(), "normalizer").criterion
    'normalizer'
    """
    check.choice("criterion", criterion, CRITERIA)
    if not dataclasses.is_dataclass(learner) or isinstance(learner, type):
        return learner
    names = {field.name for field in dataclasses.fields(learner)}
    if "criterion" in names:
        return dataclasses.replace(learner, criterion=criterion)
    if "learner" in names:
        return dataclasses.replace(learner, learner=replace_criterion(learner.learner, criterion))  # type: ignore[attr-defined]
    return learner


def refuse_prices(learner: str, pair_weights: Any, costs: Any) -> None:
    """Raises ValueError if a learner that only supports edges gets rewards of pairs or costs."""
    for name, value in (("pair_weights", pair_weights), ("costs", costs)):
        if value is not None:
            raise ValueError(
                f"{name} is not None: {learner} maximises the edge alone; pass a learner that"
                " prices pairs, or None"
            )
