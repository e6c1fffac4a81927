"""Baselines for combinations: the best single classifier, stacking, and random pairs."""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base import check, derivatives, devices, meshes
from jboost.base.types import Array, ArrayLike
from jboost.combine import agglomerate, results, strategies
from jboost.combine.results import StrategyResult
from jboost.combine.types import LinearVote
from jboost.combine.votes import Arithmetic, ScoredExamples

_MOST_PENALTY = 1e30  # with larger penalties all coefficients are 0 in floating point


@meshes.takes_gathered
@derivatives.without("jboost.combine.best_single")
def best_single(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> LinearVote:
    """The single classifier of least loss at its best threshold, possibly negated. Ties are decided
    by the margin.

    Arguments, results and errors are those of `jboost.combine.fit`; `lower_bound` holds for all
    combinations.

    >>> import jboost
    >>> vote = jboost.combine.best_single([[0.0, 5.0], [1.0, 3.0], [0.0, 2.0]], [-1, 1, 1])
    >>> vote.coefficients.tolist(), float(vote.offset), float(vote.loss)
    ([0.0, -1.0], 4.0, 0.0)
    """
    return _best_single(*strategies.arrays(scores, labels, weights, mask))


@meshes.takes_gathered
@derivatives.without("jboost.combine.stacking")
def stacking(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    penalty: ArrayLike = 1.0,
) -> LinearVote:
    """Logistic regression on the scores. The vote is its log-odds, including its offset.

    The penalty applies to the coefficients of scores that are scaled to variance 1, under weights
    of mean 1. This is scikit-learn's `LogisticRegression` on such scores with C = 1 / penalty. All
    other arguments, results and errors are those of `jboost.combine.fit`; `lower_bound` holds for
    all combinations. A traced penalty below 0 or above 1e30 gives status INVALID_INPUT and NaN.

    >>> import jboost
    >>> vote = jboost.combine.stacking([[0.0], [1.0], [2.0], [3.0]], [-1, -1, 1, 1])
    >>> round(float(-vote.offset / vote.coefficients[0]), 3), float(vote.loss)
    (1.5, 0.0)
    """
    return _stacking(
        *strategies.arrays(scores, labels, weights, mask),
        check.number("penalty", penalty, low=0, high=_MOST_PENALTY),
    )


@meshes.takes_gathered
@derivatives.without("jboost.combine.random_pairing")
def random_pairing(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    key: Array,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> LinearVote:
    """Combines two random votes exactly until one is left, and returns the best vote found.

    Arguments, results and errors are those of `jboost.combine.fit`, except for the key of the
    draws.

    >>> import jax, jboost
    >>> vote = jboost.combine.random_pairing(
    ...     [[0.0, 5.0, 1.0], [1.0, 3.0, 0.0], [0.0, 2.0, 1.0]], [-1, 1, 1], key=jax.random.key(0)
    ... )
    >>> float(vote.loss)
    0.0
    """
    return _random_pairing(*strategies.arrays(scores, labels, weights, mask), check.key("key", key))


@devices.public_jit
def _best_single(scores: Array, labels: Array, weights: Array, mask: Array) -> LinearVote:
    def run(examples: ScoredExamples, arithmetic: Arithmetic) -> StrategyResult:
        return results.found(
            agglomerate.best_alone(examples, results.directions_of(examples), arithmetic),
        )

    return results.solve_votes(run, scores, labels, weights, mask)


@devices.public_jit
def _stacking(
    scores: Array, labels: Array, weights: Array, mask: Array, penalty: Array
) -> LinearVote:
    model = strategies.log_odds(scores, labels, weights, mask, penalty)
    is_allowed = (penalty >= 0) & (penalty <= _MOST_PENALTY)

    def run(
        examples: ScoredExamples, arithmetic: Arithmetic, coefficients: Array, offset: Array
    ) -> StrategyResult:
        del arithmetic
        missing = examples.columns.shape[0] - len(coefficients)
        wide = examples.columns.dtype
        return results.unproven(
            jnp.pad(coefficients.astype(wide), (0, missing)), offset.astype(wide)
        )

    return results.solve_votes(run, scores, labels, weights, mask, *model, is_allowed=is_allowed)


@devices.public_jit
def _random_pairing(
    scores: Array, labels: Array, weights: Array, mask: Array, key: Array
) -> LinearVote:
    tree = agglomerate.random_tree(key, max(2, scores.shape[1]))

    def run(examples: ScoredExamples, arithmetic: Arithmetic, tree: Array) -> StrategyResult:
        return results.found(
            agglomerate.up_the_tree(examples, results.directions_of(examples), tree, arithmetic),
        )

    return results.solve_votes(run, scores, labels, weights, mask, tree)
