"""One way to ask any model for its scores; each model says how in its own room."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp

from jboost.base.types import Array, ArrayLike


@functools.singledispatch
def predict_scores(model: Any, features: ArrayLike) -> Array:
    """The real score of each row of `features` under `model`; its sign is the prediction.

    Args:
      model: any model of jboost, for example a `Separator`.
      features: [k, N], as the model was fitted on.

    Returns:
      [k] scores, float32, or float64 where the user has enabled 64-bit types.

    Raises:
      TypeError: if `model` is no model of jboost.
      ValueError: at trace time, if the shape or kind of `features` does not fit the model.

    >>> import jboost
    >>> separator = jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])
    >>> jboost.predict_scores(separator, [[0.0, 5.0], [3.0, 5.0]]).tolist()
    [-1.0, 2.0]
    """
    raise TypeError(f"model is a {type(model).__name__}, which jboost cannot predict with: hand in a fitted model such as jboost.pair.Separator")


def predict(model: Any, features: ArrayLike) -> Array:
    """The predicted label of each row, [k] int32 in {-1, +1}; a score of exactly 0 predicts -1.

    Takes and raises what `predict_scores` does.

    >>> import jboost
    >>> separator = jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])
    >>> jboost.predict(separator, [[0.0, 5.0], [3.0, 5.0]]).tolist()
    [-1, 1]
    """
    return jnp.where(predict_scores(model, features) > 0, 1, -1).astype(jnp.int32)
