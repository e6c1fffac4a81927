"""Losses of a vote: the exponential loss as boosters carry it from round to round, and the training
error that it bounds.

The exponential loss of a vote F on labelled examples is the mean of exp(-y F(x)) under the user's
weights. It bounds the training error, and telescopes: it is the product of the normalisers Z_t of
AdaBoost and InfoBoost (paper 002, Theorem 1).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import boosting, brackets, derivatives, numerics, reduce
from jboost.base.boosting import Certificate
from jboost.base.types import Array, Dataset

# log of an example's weight against the heaviest: what is not settled never weighs 0, whatever the
# rounding
_LIGHTEST = -60.0


class ExponentialLoss(NamedTuple):
    """The loss of each example, in logs, so that nothing under- or overflows."""

    # [m] log(weight share) - margin; -inf on padding and where the margin is infinite
    log_losses: Array
    rounding: Array  # [] how far any of them may be off, as a multiple of the float's epsilon


def start_exponential(dataset: Dataset) -> ExponentialLoss:
    """The loss of the vote that is 0 everywhere: the user's weights as a distribution.

    >>> import jboost
    >>> loss = start_exponential(jboost.make_dataset([[0.0], [1.0]], [1, -1]))
    >>> example_weights(loss).tolist()
    [0.5, 0.5]
    """
    return ExponentialLoss(jnp.log(boosting.initial_distribution(dataset)), jnp.full((), 4.0))


@derivatives.without("jboost.losses.certify_nothing_voted")
def certify_nothing_voted(dataset: Dataset) -> Certificate:
    """What is certified of the vote that is 0 everywhere: its training error, and that its mean
    exponential loss is 1.

    >>> import jboost
    >>> certificate = certify_nothing_voted(jboost.make_dataset([[0.0], [1.0]], [1, -1]))
    >>> float(certificate.upper_bound), certificate.example_weights.tolist()
    (1.0, [0.5, 0.5])
    """
    weights = boosting.initial_distribution(dataset)
    one = jnp.ones((), weights.dtype)
    return Certificate(training_error(dataset, jnp.zeros_like(weights)), one, one, weights)


def add_margins(loss: ExponentialLoss, margins: Array) -> ExponentialLoss:
    """The loss after a term with margins [m] was added to the vote; an infinite margin takes its
    example out for good.

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
    """The distribution over the examples proportional to their losses, [m], 0 exactly where there
    is none; all 0 where none is left.

    >>> import jboost
    >>> loss = start_exponential(jboost.make_dataset([[0.0], [1.0]], [1, -1], weights=[3.0, 1.0]))
    >>> example_weights(add_margins(loss, jnp.log(jnp.array([3.0, 1.0])))).tolist()
    [0.5, 0.5]
    """
    shares, _ = _shares(loss)
    return numerics.safe_divide(shares, jnp.full_like(shares, numerics.precise_sum(shares)))


def _shares(loss: ExponentialLoss) -> tuple[Array, Array]:
    """The losses [m] beside the largest one, whose log [] comes with them, or 0 where there is
    none; the least ones are rounded up.
    """
    largest = reduce.largest(loss.log_losses)
    shift = jnp.where(largest == -jnp.inf, 0.0, largest)
    shares = jnp.exp(jnp.maximum(loss.log_losses - shift, _LIGHTEST))
    return lax.optimization_barrier(jnp.where(loss.log_losses == -jnp.inf, 0.0, shares)), shift


@jax.custom_jvp
def mean_exponential(loss: ExponentialLoss) -> Array:
    """A number at or above the mean loss, [], rounding included: the product of all normalisers
    (paper 002, Theorem 1).

    The derivative, in both modes and of any order, is that of the mean loss: `rounding` has none.

    >>> import jboost
    >>> loss = start_exponential(jboost.make_dataset([[0.0], [1.0]], [1, -1]))
    >>> round(float(mean_exponential(add_margins(loss, jnp.log(jnp.array([2.0, 4.0]))))), 4)
    0.375
    """
    shares, shift = _shares(loss)
    _, total = brackets.bracket_dot(shares, jnp.ones_like(shares))
    number = jnp.finfo(shares.dtype)
    mean = jnp.exp(shift + (loss.rounding + 8) * number.eps) * total + number.tiny * shares.size
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
    """The share of the user's weight on examples that the sign of `scores` [m] gets wrong, [],
    rounded down; a score of 0 predicts -1.

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
