"""A model as a function of JAX."""

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
    """The scores of a model as a pure function of one array, with the model's arrays closed over.

    The function can be jitted, batched and exported by `jax.export`; it computes what
    `jboost.predict_scores` does, bit for bit. The class of a row is +1 where its score is above 0.

    Args:
      model: any model that `jboost.predict_scores` takes.
      binarizer: the one that made the bits of the features, or None.
      num_plain: with a `binarizer`, how many columns of numbers come before its bits.

    Returns:
      A function of features [k, N], to scores [k]. With a `binarizer` it takes
      [k, num_plain + n]: the columns of numbers, and those of `jboost.data.binarization.encode`,
      where text is a code.

    Raises:
      ValueError: if the fit of the model ended in INVALID_INPUT; and TypeError, if it is no model.
        The function raises as `jboost.predict_scores` does.

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
