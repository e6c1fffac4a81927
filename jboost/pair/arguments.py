"""Validation of the arguments that the functions for pairs and triples of classifiers share."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jboost.base import check, checksums, labelled
from jboost.base.types import Array, ArrayLike


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


def checksums_of(*examples: Array) -> np.ndarray:
    """The checksums [4] uint32 of points, labels, weights and mask, for the state of a search."""
    return np.array([checksums.of_arrays(part) for part in examples], np.uint32)


def validate_initial(
    initial: Any, kind: type, examples: tuple[Array, Array, Array, Array], *, what: str
) -> None:
    """Raises ValueError, naming what differs, unless a state is one of this type, with the
    checksums of points, labels, weights and mask.
    """
    if not isinstance(initial, kind):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected a jboost.pair.{kind.__name__}, as"
            " `on_step` gets it"
        )
    checksums.require_same(
        initial.checksums,  # type: ignore[attr-defined]
        checksums_of(*examples),
        parts=("points", "labels", "weights", "mask"),
        what=what,
    )
