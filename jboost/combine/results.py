"""From the result of a strategy, in 64 bits, to a `LinearVote` with its bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import batching, numerics
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.combine import agglomerate, bounds, votes
from jboost.combine.types import InfeasibleSubsystems, LinearVote
from jboost.combine.votes import Arithmetic, ScoredExamples, ThresholdVote
from jboost.pair.sweep.instance import meets

# An optimal direction is rounded at so many different lengths, and the best of these votes is used.
_NUM_LENGTHS = 32


class StrategyResult(NamedTuple):
    """The result of a strategy, from the 64-bit scope."""

    coefficients: Array  # [d]
    offset: Array  # [] finite
    least: Array  # [] int64, a lower bound on the loss of all combinations, 0 if none is proven
    lower_bound: Array  # [] the same in the unit of the weights, rounded down


Strategy = Callable[
    ..., StrategyResult
]  # (examples, arithmetic, arrays from outside the 64-bit scope)


def found(vote: ThresholdVote) -> StrategyResult:
    """A vote of a heuristic, which proves no bound; a constant has coefficients 0."""
    is_constant = jnp.isinf(vote.offset)
    return unproven(
        jnp.where(is_constant, 0.0, vote.coefficients),
        jnp.where(is_constant, jnp.sign(vote.offset), vote.offset),
    )


def unproven(coefficients: Array, offset: Array) -> StrategyResult:
    """Coefficients [d] and a finite offset without a bound."""
    return StrategyResult(
        coefficients, offset, jnp.zeros((), jnp.int64), jnp.zeros((), coefficients.dtype)
    )


def best_at_lengths(
    examples: ScoredExamples, directions: Array, arithmetic: Arithmetic
) -> ThresholdVote:
    """The best vote along directions [p, d] at several lengths, which the float type of the vote
    rounds differently, or along a classifier alone.
    """
    lengths = 1 + jnp.arange(_NUM_LENGTHS, dtype=directions.dtype) / _NUM_LENGTHS
    longer = (lengths[:, None, None] * directions[None]).reshape(-1, directions.shape[1])
    directions = jnp.concatenate([longer, directions_of(examples)])
    return agglomerate.best_alone(examples, directions, arithmetic)


def directions_of(examples: ScoredExamples, *further: Array) -> Array:
    """The directions of the classifiers, then the further ones [d], as rows."""
    wide, size = examples.columns.dtype, examples.columns.shape[0]
    return jnp.concatenate(
        [jnp.eye(size, dtype=wide), *(one[None].astype(wide) for one in further)]
    )


def padded(
    scores: Array, labels: Array, weights: Array, mask: Array
) -> tuple[Array, Array, Array, Array]:
    """The arguments with at least two examples and two classifiers, which strategies expect. Added
    examples are masked out, added classifiers have the score 0.
    """
    rows, columns = (max(0, 2 - size) for size in scores.shape)
    labels, weights, mask = (jnp.pad(part, (0, rows)) for part in (labels, weights, mask))
    return jnp.pad(scores, ((0, rows), (0, columns))), labels, weights, mask


def solve_votes(
    strategy: Strategy,
    scores: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *beside: Array,
    is_allowed: Array | bool = True,
    short: Array | Status = Status.LOCAL_OPTIMUM,
    dtype: jnp.dtype | None = None,
) -> LinearVote:
    """Runs a strategy in the 64-bit scope, and makes a `LinearVote` of its result.

    Args:
      strategy: (examples, arithmetic, *beside) -> `StrategyResult`. Its examples are `padded`.
      scores: [n, d]; with labels, weights and mask as `fit` takes them.
      beside: further arguments of the strategy.
      is_allowed: [] bool, whether further arguments are valid; if not, the status is INVALID_INPUT.
      short: the status of a vote whose loss is above the lower bound; an array if it is traced.
      dtype: the float type of the result; None for the default one.
    """
    dtype = jnp.result_type(float) if dtype is None else dtype
    num_examples, num_classifiers = scores.shape

    # One member of a batch at a time: the lengths of their sweeps and descents differ.
    def solve(
        is_allowed: Array, short: Array, examples: tuple[Array, ...], *beside: Array
    ) -> LinearVote:
        gathered = votes.gather(*examples)
        best = strategy(gathered, Arithmetic(str(dtype)), *beside)
        return _certified(gathered, best, gathered.valid & is_allowed, short, dtype)

    vote = batching.in_chunks(numerics.in_64_bits(solve), at_once=1)(
        jnp.asarray(is_allowed),
        jnp.asarray(short, jnp.int32),
        lax.stop_gradient(padded(scores, labels, weights, mask)),
        *lax.stop_gradient(beside),
    )
    return vote._replace(
        coefficients=vote.coefficients[:num_classifiers],
        misclassified=vote.misclassified[:num_examples],
        certificate=_without_padding(vote.certificate, num_examples, num_classifiers),
    )


def _certified(
    examples: ScoredExamples, best: StrategyResult, valid: Array, short: Array, dtype: jnp.dtype
) -> LinearVote:
    """The vote with its loss, its bounds and its status; NaN and INVALID_INPUT if not `valid`."""
    evaluated = votes.evaluate(examples, best.coefficients, best.offset, Arithmetic(str(dtype)))
    loss = numerics.masked_sum(examples.weights, evaluated.wrong)
    packed = bounds.pack(examples, best.coefficients, best.offset)
    certificate = bounds.certify(packed, examples, dtype)
    lower_bound = jnp.maximum(best.lower_bound, certificate.lower_bound)
    is_optimal = (
        numerics.masked_sum(examples.integers, evaluated.wrong)
        <= jnp.maximum(best.least, packed.bound)
    ) & meets(loss, lower_bound)
    status = jnp.where(is_optimal, int(Status.OPTIMAL), short)
    spoiled = jnp.where(valid, 0, jnp.nan).astype(dtype)
    return LinearVote(
        coefficients=best.coefficients.astype(dtype) + spoiled,
        offset=best.offset.astype(dtype) + spoiled,
        loss=loss.astype(dtype) + spoiled,
        lower_bound=numerics.round_down(lower_bound, dtype) + spoiled,
        margin=evaluated.margin.astype(dtype) + spoiled,
        misclassified=evaluated.wrong,
        status=jnp.where(valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32),
        certificate=certificate._replace(
            lower_bound=numerics.round_down(certificate.lower_bound, dtype) + spoiled
        ),
    )


def _without_padding(
    certificate: InfeasibleSubsystems, num_examples: int, num_classifiers: int
) -> InfeasibleSubsystems:
    return certificate._replace(
        members=certificate.members[:num_examples, : num_classifiers + 2],
        multipliers=certificate.multipliers[:num_examples, : num_classifiers + 2],
        amounts=certificate.amounts[:num_examples],
    )
