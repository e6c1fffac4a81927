"""What the pair engine returns, and how it predicts."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import check
from jboost.base.predict import predict_scores
from jboost.base.types import Array, ArrayLike


class Separator(NamedTuple):
    """An oriented hyperplane with score(x) = normal . (x - anchor) + bias, and the proof of its quality.

    A point of score 0 counts as misclassified. A constant classifier has normal 0, bias +1 or -1 and an infinite margin.
    """

    normal: Array  # [d], not necessarily a unit vector
    anchor: Array  # [d], a support point
    bias: Array  # []
    offset: Array  # [], bias - normal . anchor, rounded: a convenience
    loss: Array  # [], weight misclassified by the score evaluated in float64
    lower_bound: Array  # [], no separator loses less
    margin: Array  # [], distance of the nearest point that counts
    misclassified: Array  # [n] bool
    status: Array  # [] int32


@predict_scores.register
def _(model: Separator, features: ArrayLike) -> Array:
    features = check.numeric("features", features, shape=("k", model.normal.shape[0]), kinds="fiu")
    products = model.normal[None] * (features.astype(model.normal.dtype) - model.anchor[None])
    return jnp.sum(products, axis=-1) + model.bias
