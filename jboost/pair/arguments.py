"""Validation of the arguments that the functions for pairs and triples of classifiers share."""

from __future__ import annotations

import jax

from jboost.base import check, labelled
from jboost.base.types import ArrayLike


def validate_examples(
    points: ArrayLike, labels: ArrayLike, weights: ArrayLike | None, mask: ArrayLike | None
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Points [n, 2] or [n, 3], labels, weights and mask [n] as arrays; `mask` is False where a
    weight is 0. Raises ValueError, naming the argument, if one is wrong.
    """
    points = check.numeric("points", points, shape=("n", "2] or [n, 3"), kinds="fiu")
    if points.shape[1] not in (2, 3):
        raise ValueError(f"points has shape {list(points.shape)}: expected shape [n, 2] or [n, 3]")
    return points, *labelled.validate_examples(labels, weights, mask, points.shape[0])
