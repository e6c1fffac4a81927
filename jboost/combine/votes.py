"""Votes along a direction: the best threshold, and the loss of a vote, which is computed so that no
rounding in an evaluation can make it larger.

All functions here run in the 64-bit scope. Losses are compared as integers, as in `jboost.pair`.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics
from jboost.base.types import Array
from jboost.geometry import exact
from jboost.pair.sweep.instance import is_kept_by_cast, is_valid, scale_weights


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """The float type of the coefficients, and the float type in which scores will be evaluated."""

    held_in: str
    evaluated_in: str = "float64"

    def roundings(self, num_terms: int) -> float:
        """An upper bound on the rounding error of a sum of so many products and an offset, relative
        to the sum of their sizes.
        """
        return 4 * (num_terms + 4) * float(jnp.finfo(self.evaluated_in).eps)


class ScoredExamples(NamedTuple):
    """The problem in internal form: n examples with the scores of d classifiers."""

    columns: Array  # [d, n] float64, 0 where not live
    live: Array  # [n] bool
    positive: Array  # [n] bool
    weights: Array  # [n] float64, 0 where not live
    integers: Array  # [n] int64, the weights in units of `unit`
    unit: Array  # [] the weight of the integer 1, a power of two
    rounding: Array  # [] the largest total error of the integers
    valid: Array  # [] bool, whether all values are allowed
    faithful: Array  # [] bool, whether the columns equal the scores that were passed


class ThresholdVote(NamedTuple):
    """A direction with its best threshold. If a constant classifier is best, the offset is infinite
    and the direction is kept.
    """

    coefficients: Array  # [d] of l1 norm in (1/2, 1], or all 0
    offset: Array  # []
    loss: Array  # [] int64
    margin: Array  # []


class Evaluated(NamedTuple):
    """The misclassified examples and the margin of a vote."""

    wrong: Array  # [n] bool
    margin: Array  # []


def gather(scores: Array, labels: Array, weights: Array, mask: Array) -> ScoredExamples:
    """The examples from arrays scores [n, d], labels, weights and mask [n]. They are all 0 if a
    value is not allowed.
    """
    wide = jnp.dtype("float64")
    nowhere = jnp.zeros((labels.shape[0], 2), wide)
    finite = jnp.all(jnp.isfinite(scores), axis=1)
    valid = is_valid(nowhere, labels, weights, mask) & jnp.all(finite | ~mask)
    live = mask & valid
    scores = jnp.where(live[:, None], scores, jnp.zeros((), scores.dtype))
    weights = jnp.where(live, weights, jnp.zeros((), weights.dtype)).astype(wide)
    integers, unit, rounding = scale_weights(weights)
    columns = scores.T.astype(wide) + jnp.zeros((), wide)
    return ScoredExamples(
        columns,
        live,
        live & (labels > 0),
        weights,
        integers,
        unit,
        rounding,
        valid,
        is_kept_by_cast(scores, wide),
    )


def linear_scores(columns: Array, coefficients: Array) -> Array:
    """The sums [n] of columns [d, n] times coefficients [d]."""
    return jnp.sum(exact.rounded_product(columns, coefficients[:, None]), axis=0)


def shorten(coefficients: Array, arithmetic: Arithmetic) -> Array:
    """The same direction with l1 norm at most 1, rounded to the float type of the coefficients."""
    size = jnp.max(jnp.abs(coefficients), initial=0.0)
    scaled = coefficients / numerics.power_of_two_at_least(size)
    scaled = scaled / numerics.power_of_two_at_least(jnp.sum(jnp.abs(scaled)))
    held = numerics.held_in(scaled, arithmetic.held_in)
    return jnp.where(jnp.abs(held) < float(jnp.finfo(arithmetic.held_in).tiny), 0.0, held)


def blend(left: Array, right: Array, normal: Array, arithmetic: Arithmetic) -> Array:
    """The direction normal[0] * left + normal[1] * right; `left` where the normal is 0."""
    is_constant = (normal[0] == 0) & (normal[1] == 0)
    blended = exact.rounded_product(normal[0], left) + exact.rounded_product(normal[1], right)
    return shorten(jnp.where(is_constant, left, blended), arithmetic)


def vote_along(
    examples: ScoredExamples, coefficients: Array, arithmetic: Arithmetic
) -> ThresholdVote:
    """The best vote along a direction or its negation: the least loss, then the largest margin,
    over all thresholds and both constants.

    A threshold is excluded if its rounded value is not safely inside the gap between two scores.
    """
    coefficients = shorten(coefficients, arithmetic)
    scores = linear_scores(examples.columns, coefficients)
    signed = jnp.where(examples.positive, examples.integers, -examples.integers)
    sorted_scores, steps = lax.sort((jnp.where(examples.live, scores, jnp.inf), signed), num_keys=1)
    low, high = sorted_scores[:-1], sorted_scores[1:]
    middle = numerics.held_in(low / 2 + high / 2, arithmetic.held_in)
    tolerance = _tolerance(examples, coefficients, arithmetic)
    gap = jnp.minimum(middle - low, high - middle)
    is_threshold = (gap > tolerance) & (high < jnp.inf)

    weight = jnp.sum(examples.integers, dtype=examples.integers.dtype)
    negatives = numerics.masked_sum(examples.integers, ~examples.positive)
    rising = negatives + jnp.cumsum(steps)[:-1]  # the losses of predicting +1 above the threshold
    none = jnp.iinfo(rising.dtype).max
    losses = jnp.concatenate(
        [jnp.where(is_threshold, rising, none), jnp.where(is_threshold, weight - rising, none)]
    )
    length = _length(coefficients)
    margins = numerics.safe_divide(gap, jnp.broadcast_to(length, gap.shape))
    constant_loss = jnp.minimum(negatives, weight - negatives)
    least = jnp.minimum(jnp.min(losses, initial=none), constant_loss)
    is_constant = constant_loss == least
    margins = jnp.where(losses == least, jnp.concatenate([margins, margins]), -1.0)
    chosen = numerics.first_true(margins == jnp.max(margins, initial=-1.0))
    against = chosen >= low.shape[0]
    threshold = middle[jnp.where(against, chosen - low.shape[0], chosen)]
    constant = jnp.where(negatives <= weight - negatives, jnp.inf, -jnp.inf)
    against = against & ~is_constant
    return ThresholdVote(
        coefficients=jnp.where(against, -coefficients, coefficients),
        offset=jnp.where(is_constant, constant, jnp.where(against, threshold, -threshold)),
        loss=least,
        margin=jnp.where(is_constant, jnp.inf, jnp.max(margins, initial=-1.0)),
    )


def is_better(candidate: ThresholdVote, incumbent: ThresholdVote) -> Array:
    """Whether a vote has a smaller loss, or the same loss and a larger margin, [] bool."""
    return (candidate.loss < incumbent.loss) | (
        (candidate.loss == incumbent.loss) & (candidate.margin > incumbent.margin)
    )


def better(candidate: ThresholdVote, incumbent: ThresholdVote) -> ThresholdVote:
    """The better of two votes; the second one if they tie."""
    wins = is_better(candidate, incumbent)
    return ThresholdVote(
        *(jnp.where(wins, new, old) for new, old in zip(candidate, incumbent, strict=True))
    )


def best_of(votes: ThresholdVote) -> ThresholdVote:
    """The best of votes with leading axis [p]; the first one among ties."""
    return ThresholdVote(*(field[best_index(votes.loss, votes.margin)] for field in votes))


def best_index(losses: Array, margins: Array) -> Array:
    """The index of the least loss; among ties that of the largest margin, then the first one.
    Losses and margins are [p], p at least 1.
    """
    least = losses == jnp.min(losses)
    largest = jnp.max(jnp.where(least, margins, -jnp.inf))
    return jnp.minimum(numerics.first_true(least & (margins == largest)), losses.shape[0] - 1)


def evaluate(
    examples: ScoredExamples, coefficients: Array, offset: Array, arithmetic: Arithmetic
) -> Evaluated:
    """The examples that a vote with a finite offset misclassifies, or may misclassify by rounding;
    and the margin of the others.
    """
    scores = linear_scores(examples.columns, coefficients) + offset
    heights = jnp.where(examples.positive, scores, -scores)
    tolerance = jnp.maximum(
        _tolerance(examples, coefficients, arithmetic),
        arithmetic.roundings(coefficients.shape[0]) * jnp.abs(offset),
    )
    right = examples.live & (heights > tolerance / 2)
    length = _length(coefficients)
    nearest = numerics.masked_min(heights, right, fill=jnp.inf)
    margin = jnp.where(length == 0, jnp.inf, numerics.safe_divide(nearest, length))
    return Evaluated(examples.live & ~right, margin)


def _length(coefficients: Array) -> Array:
    size = numerics.power_of_two_at_least(jnp.max(jnp.abs(coefficients), initial=0.0))
    relative = coefficients / size
    return jnp.sqrt(jnp.sum(exact.rounded_product(relative, relative))) * size


def _tolerance(examples: ScoredExamples, coefficients: Array, arithmetic: Arithmetic) -> Array:
    """Twice the distance from the threshold at which no rounding can change the sign of a score,
    [].
    """
    reach = jnp.max(jnp.sum(jnp.abs(examples.columns * coefficients[:, None]), axis=0), initial=0.0)
    number = jnp.finfo(arithmetic.evaluated_in)
    return 2 * (
        arithmetic.roundings(coefficients.shape[0]) * reach
        + 4 * coefficients.shape[0] * float(number.tiny)
    )
