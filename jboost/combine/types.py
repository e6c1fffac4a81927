"""The result of a combination of classifiers, and its predictions."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import check
from jboost.base.predict import scores_of
from jboost.base.types import Array, ArrayLike
from jboost.geometry.linear import score_points


class LinearVote(NamedTuple):
    """A linear combination of d classifiers, score(x) = coefficients . x + offset, with its loss
    and a lower bound.

    An example of score 0 counts as misclassified. So does an example whose score is so close to 0
    that rounding could change its sign. Evaluation in float64, in any order, therefore never gives
    a larger loss than `loss`. A constant classifier has coefficients 0, offset +1 or -1 and an
    infinite margin.
    """

    coefficients: Array  # [d]
    offset: Array  # []
    loss: Array  # [], the misclassified weight
    lower_bound: Array  # [], on the loss of all linear combinations
    margin: Array  # [], distance of the nearest correct example, in the units of the scores
    misclassified: Array  # [n] bool
    status: Array  # [] int32


@scores_of.register
def _(model: LinearVote, features: ArrayLike) -> Array:
    features = check.numeric(
        "features", features, shape=("k", model.coefficients.shape[0]), kinds="fiu"
    )
    return score_points(
        features, model.coefficients, jnp.zeros_like(model.coefficients), model.offset
    )
