"""What a combination of classifiers returns, and how it predicts."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import check
from jboost.base.predict import scores_of
from jboost.base.types import Array, ArrayLike
from jboost.geometry.linear import score_points


class LinearVote(NamedTuple):
    """A linear combination of d classifiers, score(x) = coefficients . x + offset, and what is
    known of its quality.

    An example of score 0 counts as misclassified, and so does one whose score is so close to 0 that
    rounding could turn it: evaluation in float64, in any order, loses what `loss` says. A constant
    classifier has coefficients 0, offset +1 or -1 and an infinite margin.
    """

    coefficients: Array  # [d]
    offset: Array  # []
    loss: Array  # [], weight misclassified
    lower_bound: Array  # [], no linear combination loses less
    margin: Array  # [], distance of the nearest example that is right, in the units of the scores
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
