"""Weights from the probabilities that labels are correct."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, example_values, meshes
from jboost.base.types import Array, ArrayLike


class ConfidentLabels(NamedTuple):
    """Labels and weights for which the separator of least weight has the greatest likelihood."""

    labels: Array  # [n] +1 or -1, flipped if the given label is more likely wrong than right
    weights: Array  # [n] positive
    mask: Array  # [n] bool, False if the label is as likely right as wrong


@meshes.takes_sharded
def confidence_weights(labels: ArrayLike, probabilities: ArrayLike) -> ConfidentLabels:
    """Converts the probability that each label is correct to weights w = log(p / (1 - p))
    (Boyarshinov and Magdon-Ismail 2005, Section 1).

    The separator of least weight then has the greatest likelihood. Labels with p < 1/2 are
    flipped, and labels with p = 1/2 are masked out. A certain label (p = 0 or 1) would have
    infinite weight. Therefore p is clipped to [eps, 1 - eps], with the eps of its dtype.

    Args:
      labels: [n] +1 or -1.
      probabilities: [n] in [0, 1], the probability that the label is right.

    Returns:
      `ConfidentLabels`, ready for `optimal_separator`.

    Raises:
      ValueError: at trace time, if a shape or kind is wrong; and, if the values are known, for
        labels other than +1 and -1 and for invalid probabilities. Traced values that are invalid
        give NaN weights, which `optimal_separator` does not allow.

    >>> import jboost
    >>> confident = jboost.pair.confidence_weights([1, 1, -1], [0.9, 0.1, 0.5])
    >>> confident.labels.tolist(), confident.mask.tolist()
    ([1, -1, -1], [True, True, False])
    >>> [round(w, 3) for w in confident.weights.tolist()]
    [2.197, 2.197, 1.0]
    """
    labels = check.label_array("labels", labels, shape=("n",), kinds="fi")
    probabilities = check.numeric(
        "probabilities", probabilities, shape=(labels.shape[0],), kinds="f"
    )
    is_allowed = (jnp.abs(labels) == 1) & (probabilities >= 0) & (probabilities <= 1)
    if not isinstance(is_allowed, jax.core.Tracer):
        _validate(np.asarray(labels), np.asarray(probabilities))
    resolution = jnp.finfo(probabilities.dtype).eps
    clipped = jnp.where(is_allowed, jnp.clip(probabilities, resolution, 1 - resolution), jnp.nan)
    # The difference of two logarithms would lose all digits of the weight of a p near 1/2.
    logits = jnp.log1p(jnp.abs(2 * clipped - 1) / jnp.minimum(clipped, 1 - clipped))
    informative = probabilities != 0.5
    return ConfidentLabels(
        jnp.where(clipped < 0.5, -labels, labels),
        jnp.where(informative, logits, 1),
        informative,
    )


def _validate(labels: np.ndarray, probabilities: np.ndarray) -> None:
    """Raises ValueError, naming the argument, for the first invalid label or probability."""
    example_values.require_labels(labels, np.ones(len(labels), bool))
    for i in np.flatnonzero(~((probabilities >= 0) & (probabilities <= 1)))[:1]:
        raise ValueError(
            f"probabilities[{i}] is {probabilities[i]:g}: expected a probability from 0 to 1, that"
            " the label is right"
        )
