"""The model that a fit returns, and its predictions.

Symbols of Naish-Guzman, Holden and Paquet: d_i is `example_weights`, C is `penalty`, and the score
is F_d(x) = sum_i d_i y_i (1/2 - P[h(x) != h(x_i)]). u_i, the multipliers of the margins, are
`row_weights`.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, numerics
from jboost.base.brackets import widen
from jboost.base.predict import scores_of
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.kernels import Kernel, weighted_disagreement


@register
@dataclasses.dataclass(frozen=True)
class ExampleWeightModel:
    """A distribution over the examples, its classifier, and a certificate of its margin."""

    kernel: Kernel
    centre: Array  # [d] the origin of the measure
    points: Array  # [m, d] the examples less the centre, 0 where masked
    labels: Array  # [m] +1 or -1, 0 where masked
    example_weights: Array  # [m] d, of sum one, exactly 0 outside the support
    # [m] u, the weights of the margins, at most the penalty; they prove the upper bound
    row_weights: Array
    bias: Array  # [] 1/2 sum_i d_i y_i, summed in 64 bits
    penalty: Array  # [] C
    lower_bound: Array  # [] of the optimum of (5), proven by example_weights
    upper_bound: Array  # [] proven by row_weights
    num_support: Array  # [] int32 examples of positive weight
    num_iterations: Array  # [] int32
    status: Array  # [] int32


def compact(model: ExampleWeightModel) -> ExampleWeightModel:
    """The model with only the examples of positive weight, on the host. Its predictions are the
    same, but its bounds can no longer be recomputed.

    Raises:
      ValueError: if the arrays are traced or batched.

    >>> import jboost
    >>> model = jboost.example_weights.fit(
    ...     [[-2.0, 0.0], [-1.0, 0.5], [1.0, 0.0], [2.0, 1.0]],
    ...     [-1, -1, 1, 1],
    ...     penalty=1.0,
    ...     radius=5.0,
    ... )
    >>> bool(jboost.example_weights.compact(model).points.shape[0] == model.num_support)
    True
    """
    check.on_host(
        "jboost.example_weights.compact",
        instead="return the model, and compact it afterwards",
        model=model,
    )
    if model.example_weights.ndim != 1:
        raise ValueError("model holds batched arrays: compact one model at a time")
    return _take(model, np.flatnonzero(np.asarray(model.example_weights) > 0))


def _take(model: ExampleWeightModel, index: np.ndarray) -> ExampleWeightModel:
    parts = {
        name: getattr(model, name)[index]
        for name in ("points", "labels", "example_weights", "row_weights")
    }
    return dataclasses.replace(model, **parts)


def sum_in_64_bits(values: Array, factor: float) -> Array:
    """factor * the sum of a vector [m], rounded once."""
    return numerics.in_64_bits(
        lambda parts: (factor * jnp.sum(widen(parts), axis=-1)).astype(parts.dtype)
    )(values)


@scores_of.register
def _(model: ExampleWeightModel, features: ArrayLike) -> Array:
    """F_d [k] in time O(k support): examples of weight 0 are dropped if the model is concrete."""
    features = check.numeric("features", features, shape=("k", model.centre.shape[-1]), kinds="fiu")
    if not isinstance(model.example_weights, jax.core.Tracer) and model.example_weights.ndim == 1:
        order = np.argsort(-np.asarray(model.example_weights), kind="stable")
        support = int((np.asarray(model.example_weights) > 0).sum())
        # a power of two, so that few programs are compiled
        size = min(len(order), 1 << max(support - 1, 0).bit_length())
        model = _take(model, order[:size])
    return _scores(model, features.astype(model.points.dtype))


@jax.jit
def _scores(model: ExampleWeightModel, features: Array) -> Array:
    signed = model.labels * model.example_weights
    return model.bias - weighted_disagreement(
        model.kernel, features - model.centre[None, :], model.points, signed
    )
