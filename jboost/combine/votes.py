"""Votes along a direction: the best threshold, and what a vote loses, judged so that no rounding
can make the loss worse.

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
    """The float type that coefficients must fit, and the one in which scores will be evaluated."""

    held_in: str
    evaluated_in: str = "float64"

    def roundings(self, num_terms: int) -> float:
        """How far a sum of so many products and an offset may be off, in units of the sum of their
        sizes; with room to spare.
        """
        return 4 * (num_terms + 4) * float(jnp.finfo(self.evaluated_in).eps)


class Examples(NamedTuple):
    """The problem on the inside: n examples with the scores of d classifiers."""

    columns: Array  # [d, n] float64, 0 where not live
    live: Array  # [n] bool
    positive: Array  # [n] bool
    weights: Array  # [n] float64, 0 where not live
    integers: Array  # [n] int64, the weights in units of `unit`
    unit: Array  # [] weight of one, a power of two
    rounding: Array  # [] what the integers may be off in all
    valid: Array  # [] bool, whether all values are allowed
    faithful: Array  # [] bool, whether the columns hold the very scores that were handed in


class Vote(NamedTuple):
    """A direction with its best threshold; the offset is infinite where a constant classifier is
    best, and the direction is kept.
    """

    coefficients: Array  # [d] sizes add up to (1/2, 1], or all 0
    offset: Array  # []
    loss: Array  # [] int64
    margin: Array  # []


class Evaluated(NamedTuple):
    """What a vote does on the examples."""

    wrong: Array  # [n] bool
    margin: Array  # []


def gather(scores: Array, labels: Array, weights: Array, mask: Array) -> Examples:
    """The examples from arrays scores [n, d], labels, weights and mask [n]; all 0 where values are
    not allowed.
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
    return Examples(
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
    """The same direction with sizes that add up to 1 at most, in numbers of the float type that
    holds them.
    """
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


def vote_along(examples: Examples, coefficients: Array, arithmetic: Arithmetic) -> Vote:
    """The best vote along a direction or against it: least loss, then largest margin, over all
    thresholds and both constants.

    Thresholds that the float type cannot hold well inside the gap between two scores do not count.
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
    rising = negatives + jnp.cumsum(steps)[:-1]  # of the vote for the scores above the threshold
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
    return Vote(
        coefficients=jnp.where(against, -coefficients, coefficients),
        offset=jnp.where(is_constant, constant, jnp.where(against, threshold, -threshold)),
        loss=least,
        margin=jnp.where(is_constant, jnp.inf, jnp.max(margins, initial=-1.0)),
    )


def is_better(candidate: Vote, incumbent: Vote) -> Array:
    """Whether a vote loses less, or the same with a larger margin, [] bool."""
    return (candidate.loss < incumbent.loss) | (
        (candidate.loss == incumbent.loss) & (candidate.margin > incumbent.margin)
    )


def better(candidate: Vote, incumbent: Vote) -> Vote:
    """The better of two votes, the second where they tie."""
    wins = is_better(candidate, incumbent)
    return Vote(*(jnp.where(wins, new, old) for new, old in zip(candidate, incumbent, strict=True)))


def best_of(votes: Vote) -> Vote:
    """The best of votes with leading axis [p], the first where some tie."""
    return Vote(*(field[best_place(votes.loss, votes.margin)] for field in votes))


def best_place(losses: Array, margins: Array) -> Array:
    """The place of the least loss, of those of the largest margin, of those the first; losses and
    margins [p], p at least 1.
    """
    least = losses == jnp.min(losses)
    largest = jnp.max(jnp.where(least, margins, -jnp.inf))
    return jnp.minimum(numerics.first_true(least & (margins == largest)), losses.shape[0] - 1)


def evaluate(
    examples: Examples, coefficients: Array, offset: Array, arithmetic: Arithmetic
) -> Evaluated:
    """Which examples a vote with a finite offset gets wrong, or so nearly that rounding decides;
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


def _tolerance(examples: Examples, coefficients: Array, arithmetic: Arithmetic) -> Array:
    """A distance from the threshold at which no rounding of a score can change its side, [], twice
    over.
    """
    reach = jnp.max(jnp.sum(jnp.abs(examples.columns * coefficients[:, None]), axis=0), initial=0.0)
    number = jnp.finfo(arithmetic.evaluated_in)
    return 2 * (
        arithmetic.roundings(coefficients.shape[0]) * reach
        + 4 * coefficients.shape[0] * float(number.tiny)
    )
