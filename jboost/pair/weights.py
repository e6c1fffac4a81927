"""Weights from what is known about the labels."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import check
from jboost.base.types import Array, ArrayLike


class ConfidentLabels(NamedTuple):
    """Labels and weights that make the least weight the greatest likelihood."""

    labels: Array  # [n] +1 or -1, flipped where the given label is more likely wrong than right
    weights: Array  # [n] positive
    mask: Array  # [n] bool, False where the label says nothing


def confidence_weights(labels: ArrayLike, probabilities: ArrayLike) -> ConfidentLabels:
    """Turns the probability that each label is right into weights: w = log(p / (1 - p)), of paper 000, Section 1.

    The separator of least weight is then the one of greatest likelihood. Labels with p < 1/2 are flipped, and labels with
    p = 1/2 are masked out. A certain label (p = 0 or 1) would weigh infinitely much: it gets the largest finite logit of
    its dtype's resolution, so p is clipped to [eps, 1 - eps].

    Args:
      labels: [n] +1 or -1.
      probabilities: [n] in [0, 1], the probability that the label is right.

    Returns:
      `ConfidentLabels`, ready for `optimal_separator`.

    Raises:
      ValueError: at trace time, if a shape or kind is wrong.

    >>> import jboost
    >>> confident = jboost.pair.confidence_weights([1, 1, -1], [0.9, 0.1, 0.5])
    >>> confident.labels.tolist(), confident.mask.tolist()
    ([1, -1, -1], [True, True, False])
    >>> [round(w, 3) for w in confident.weights.tolist()]
    [2.197, 2.197, 1.0]
    """
    labels = check.numeric("labels", labels, shape=("n",), kinds="fi")
    probabilities = check.numeric("probabilities", probabilities, shape=(labels.shape[0],), kinds="f")
    resolution = jnp.finfo(probabilities.dtype).eps
    clipped = jnp.clip(probabilities, resolution, 1 - resolution)
    logits = jnp.log(clipped) - jnp.log1p(-clipped)
    informative = probabilities != 0.5
    return ConfidentLabels(jnp.where(logits < 0, -labels, labels), jnp.where(informative, jnp.abs(logits), 1), informative)
