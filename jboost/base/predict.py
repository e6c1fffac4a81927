"""Scores and predictions of any model; each model registers its score function."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import check, meshes
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike


@meshes.takes_sharded
def predict_scores(model: Any, features: ArrayLike) -> Array:
    """The real score of each row of `features` under `model`; its sign is the prediction.

    Args:
      model: any model of jboost, for example a `Separator`.
      features: [k, N], as the model was fitted on; [k, ...] where its learner takes rows of any
        shape.

    Returns:
      [k] scores, float32, or float64 where the user has enabled 64-bit types; NaN of a model whose
      fit ended in INVALID_INPUT.

    Raises:
      TypeError: if `model` is no model of jboost.
      ValueError: at trace time, if the shape or kind of `features` does not fit the model.

    >>> import jboost
    >>> separator = jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])
    >>> jboost.predict_scores(separator, [[0.0, 5.0], [3.0, 5.0]]).tolist()
    [-1.0, 2.0]
    """
    return scores_of(model, features)


@functools.singledispatch
def scores_of(model: Any, features: ArrayLike) -> Array:
    """The scores [k] of a model; the implementation of each model is registered in its module."""
    what = (
        "its field `ensemble` is one"
        if hasattr(model, "ensemble")
        else "pass a fitted model such as jboost.pair.Separator"
    )
    raise TypeError(f"model is a {type(model).__name__}, which jboost cannot predict with: {what}")


@meshes.takes_sharded
def predict(model: Any, features: ArrayLike) -> Array:
    """The predicted label of each row, [k] int32 in {-1, +1}; a score of exactly 0 predicts -1, one
    that is NaN predicts 0.

    Takes and raises what `predict_scores` does.

    Raises:
      ValueError: for a model whose fit ended in INVALID_INPUT; where the model or the features are
        traced, the predictions are 0.

    >>> import jboost
    >>> separator = jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])
    >>> jboost.predict(separator, [[0.0, 5.0], [3.0, 5.0]]).tolist()
    [-1, 1]
    """
    scores = predict_scores(model, features)
    if not check.are_traced(features):
        refuse_invalid(model)
    return _labels_of(scores)


@jax.jit
def _labels_of(scores: Array) -> Array:
    return jnp.where(scores > 0, 1, jnp.where(jnp.isnan(scores), 0, -1)).astype(jnp.int32)


@functools.singledispatch
def is_invalid(model: Any) -> Array:
    """Whether the fit of a model ended in INVALID_INPUT, [] bool."""
    return jnp.asarray(model.status) == int(Status.INVALID_INPUT)


def refuse_invalid(model: Any) -> None:
    """Raises ValueError for a model that is known, and whose fit ended in INVALID_INPUT."""
    if check.are_traced(model):
        return
    with jax.ensure_compile_time_eval():
        is_refused = bool(jnp.any(is_invalid(model)))
    if is_refused:
        raise ValueError(
            "model comes from a fit that ended in status INVALID_INPUT, and predicts nothing:"
            " correct its data; jboost.validate(dataset) names the argument and the first bad"
            " value, jboost.status.explain(status) says what is allowed"
        )


def unless_invalid(model: Any, number: Array) -> Array:
    """A number, or NaN where the fit of the model ended in INVALID_INPUT."""
    return jnp.where(is_invalid(model), jnp.nan, number)
