"""The exponential loss of a vote, and the training error that it bounds.

The exponential loss of a vote F is the mean of exp(-y F(x)) under the user's weights. It is an
upper bound of the training error. It equals the product of the normalisers Z_t of AdaBoost and
InfoBoost (Hatano, Theorem 1), so boosters update it in every round.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import boosting, brackets, derivatives, exact_sums, numerics, reduce
from jboost.base.boosting import Certificate
from jboost.base.types import Array, Dataset

# The smallest log of an example's weight relative to the largest weight. Only examples with an
# infinite margin have weight 0. A round number; not tuned.
_LIGHTEST = -60.0


class ExponentialLoss(NamedTuple):
    """The logarithms of the losses of all examples, which neither under- nor overflow."""

    # [m] log(weight share) - margin; -inf on padding and where the margin is infinite
    log_losses: Array
    rounding: Array  # [] bound of the rounding error of an entry, in units of the float's epsilon


def start_exponential(dataset: Dataset) -> ExponentialLoss:
    """The loss of the vote that is 0 everywhere: the user's weights, scaled to sum to 1.

    >>> import jboost
    >>> loss = start_exponential(jboost.make_dataset([[0.0], [1.0]], [1, -1]))
    >>> example_weights(loss).tolist()
    [0.5, 0.5]
    """
    shares = boosting.initial_distribution(dataset)
    # the inner `where` keeps the infinite slope at 0 out of derivatives
    logs = jnp.where(shares > 0, jnp.log(jnp.where(shares > 0, shares, 1.0)), -jnp.inf)
    return ExponentialLoss(logs, jnp.full((), 4.0))


@derivatives.without("jboost.losses.certify_nothing_voted")
def certify_nothing_voted(dataset: Dataset) -> Certificate:
    """The certificate of the vote that is 0 everywhere.

    It holds the training error of this vote, and its mean exponential loss, which is 1.

    >>> import jboost
    >>> certificate = certify_nothing_voted(jboost.make_dataset([[0.0], [1.0]], [1, -1]))
    >>> float(certificate.upper_bound), certificate.example_weights.tolist()
    (1.0, [0.5, 0.5])
    """
    weights = boosting.initial_distribution(dataset)
    one = jnp.ones((), weights.dtype)
    return Certificate(training_error(dataset, jnp.zeros_like(weights)), one, one, weights)


def add_margins(loss: ExponentialLoss, margins: Array) -> ExponentialLoss:
    """The loss after a term with margins [m] is added to the vote.

    An example with an infinite margin has loss 0 from then on.

    >>> import jboost
    >>> loss = start_exponential(jboost.make_dataset([[0.0], [1.0]], [1, -1]))
    >>> example_weights(add_margins(loss, jnp.array([jnp.inf, 0.5]))).tolist()
    [0.0, 1.0]
    """
    gone = (loss.log_losses == -jnp.inf) | (margins == jnp.inf)
    added = jnp.where(gone, -jnp.inf, loss.log_losses - jnp.where(gone, 0.0, margins))
    largest = jnp.maximum(reduce.largest(jnp.where(gone, 0.0, jnp.abs(added))), 0.0)
    return ExponentialLoss(added, loss.rounding + 2 * largest + 2)


def example_weights(loss: ExponentialLoss) -> Array:
    """The distribution over the examples in proportion to their losses, [m].

    A weight is 0 only where the loss is 0. All weights are 0 if all losses are.

    >>> import jboost
    >>> loss = start_exponential(jboost.make_dataset([[0.0], [1.0]], [1, -1], weights=[3.0, 1.0]))
    >>> example_weights(add_margins(loss, jnp.log(jnp.array([3.0, 1.0])))).tolist()
    [0.5, 0.5]
    """
    shares, _ = _shares(loss)
    return numerics.safe_divide(shares, jnp.full_like(shares, numerics.precise_sum(shares)))


def _shares(loss: ExponentialLoss) -> tuple[Array, Array]:
    """The losses [m] relative to the largest loss, and the log [] of the largest loss.

    Small shares are raised to exp(_LIGHTEST). The log is 0 if all losses are 0.
    """
    largest = reduce.largest(loss.log_losses)
    shift = jnp.where(largest == -jnp.inf, 0.0, largest)
    shares = jnp.exp(jnp.maximum(loss.log_losses - shift, _LIGHTEST))
    return lax.optimization_barrier(jnp.where(loss.log_losses == -jnp.inf, 0.0, shares)), shift


@jax.custom_jvp
def mean_exponential(loss: ExponentialLoss) -> Array:
    """The mean exponential loss [], rounded up: the product of all normalisers (Hatano, Theorem 1).

    Its derivative, in both modes and of any order, is that of the mean loss. The result has no
    derivative in `rounding`.

    >>> import jboost
    >>> loss = start_exponential(jboost.make_dataset([[0.0], [1.0]], [1, -1]))
    >>> round(float(mean_exponential(add_margins(loss, jnp.log(jnp.array([2.0, 4.0]))))), 4)
    0.375
    """
    shares, shift = _shares(loss)
    _, total = brackets.bracket_dot(shares, jnp.ones_like(shares))
    number = jnp.finfo(shares.dtype)
    mean = jnp.exp(
        shift + (loss.rounding + 8) * number.eps
    ) * total + number.tiny * exact_sums.length(shares.size)
    return jnp.where(total <= 0.0, 0.0, mean)


@mean_exponential.defjvp
def _mean_exponential_jvp(
    primals: tuple[ExponentialLoss], tangents: tuple[ExponentialLoss]
) -> tuple[Array, Array]:
    (loss,), (change,) = primals, tangents
    is_finite = loss.log_losses > -jnp.inf
    losses = jnp.where(is_finite, jnp.exp(jnp.where(is_finite, loss.log_losses, 0.0)), 0.0)
    return mean_exponential(loss), jnp.sum(losses * jnp.where(is_finite, change.log_losses, 0.0))


@derivatives.without(
    "jboost.losses.training_error", "differentiate jboost.losses.mean_exponential, which bounds it"
)
def training_error(dataset: Dataset, scores: Array) -> Array:
    """The weighted training error [] of `scores` [m], rounded down.

    It is the share of the user's weights on examples whose score has the wrong sign. A score of 0
    predicts -1.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0], [1.0]], [1, -1], weights=[3.0, 1.0])
    >>> round(float(training_error(dataset, jnp.array([0.0, -2.0]))), 4)
    0.75
    """
    weights = numerics.to_unit(jnp.where(dataset.mask, dataset.weights.astype(scores.dtype), 0.0))
    wrong = (jnp.where(scores > 0, 1, -1) != jnp.sign(dataset.labels)) & dataset.mask
    counted = jnp.where(wrong[None, :] | np.array([[False], [True]]), weights[None, :], 0.0)
    low, high = brackets.bracket_dot(counted, jnp.ones_like(counted))
    return numerics.safe_divide(jnp.maximum(low[0], 0.0), high[1]) * (
        1 - 2 * jnp.finfo(scores.dtype).eps
    )
