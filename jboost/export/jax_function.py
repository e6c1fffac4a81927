"""Exports a model to a JAX function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from jboost.base import check
from jboost.base.predict import predict_scores, refuse_invalid
from jboost.base.types import Array
from jboost.data import binarization
from jboost.data.binarization import Binarizer


def to_jax(
    model: Any, *, binarizer: Binarizer | None = None, num_plain: int = 0
) -> Callable[[Array], Array]:
    """Returns the scores of a model as a pure function of one array.

    The function closes over the arrays of the model. It can be jitted, batched, and exported by
    `jax.export`. Its results are bit-identical to those of `jboost.predict_scores`. The class of a
    row is +1 if its score is above 0.

    Args:
      model: any model that `jboost.predict_scores` accepts.
      binarizer: the binarizer of the bits among the features, or None.
      num_plain: with a `binarizer`, the number of columns of numbers before its bits.

    Returns:
      A function from features [k, N] to scores [k]. With a `binarizer` its argument is
      [k, num_plain + n]: the columns of numbers, and the columns of
      `jboost.data.binarization.encode`, where text is encoded.

    Raises:
      ValueError: if the fit of the model ended with the status INVALID_INPUT.
      TypeError: if the argument is not a model.

    >>> import jax
    >>> import jboost
    >>> separator = jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])
    >>> shape = jax.ShapeDtypeStruct((2, 2), "float32")
    >>> exported = jax.export.export(jax.jit(to_jax(separator)))(shape)
    >>> exported.call(jnp.array([[0.0, 5.0], [3.0, 5.0]])).tolist()
    [-1.0, 2.0]
    """
    check.on_host(
        "jboost.export.to_jax",
        instead="call jboost.predict_scores, which may be traced",
        model=model,
        binarizer=binarizer,
    )
    check.count("num_plain", num_plain, low=0)
    refuse_invalid(model)

    def scores(features: Array) -> Array:
        if binarizer is None:
            return predict_scores(model, features)
        rows = jnp.asarray(features)
        bits = binarization.apply(binarizer, rows[:, num_plain:])
        plain = rows[:, :num_plain].astype(bits.dtype)
        return predict_scores(model, jnp.concatenate([plain, bits], axis=1))

    return scores
