"""Merges equal examples into one with the sum of their weights. Binarized tables, and tables with
few categories, often have many equal examples.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jboost.base import check, grouping, labelled, types
from jboost.base.types import Array, Dataset


class Merged(NamedTuple):
    """The distinct examples, in the order of their first occurrence, and the row of each
    example.
    """

    dataset: Dataset  # of r rows; rows after the last distinct example are padding
    row_of: Array  # [m] int32, the row of each example; -1 for examples that were masked out


def merge_equal(dataset: Dataset, *, num_rows: int | None = None) -> Merged:
    """Replaces all examples with the same features and the same label by one example with the sum
    of their weights. The arrays must be concrete.

    The bounds of a booster do not change. A booster that uses pairs of examples is much faster. NaN
    equals NaN, and -0 equals 0. Functions that depend on the number of examples, such as
    `jboost.monomials.costs.mdl`, need the original number.

    Args:
      dataset: of m examples.
      num_rows: r, to pad data sets to a common size, so that they share compiled programs; None for
        the number of distinct examples, at least one.

    Returns:
      A `Merged`.

    Raises:
      ValueError: for traced arrays, for data that `jboost.validate` refuses (a sum would hide the
        error), and for a `num_rows` below the number of distinct examples.

    >>> import jboost
    >>> from jboost.data import merging
    >>> merged = merging.merge_equal(
    ...     jboost.make_dataset([[1, 0], [0, 1], [1, 0], [1, 0]], [1, -1, 1, -1])
    ... )
    >>> (
    ...     merged.dataset.features.tolist(),
    ...     merged.dataset.labels.tolist(),
    ...     merged.dataset.weights.tolist(),
    ...     merged.row_of.tolist(),
    ... )
    ([[1, 0], [0, 1], [1, 0]], [1, -1, -1], [2.0, 1.0, 1.0], [0, 1, 0, 2])
    """
    types.require_dataset(dataset)
    check.on_host(
        "jboost.data.merging.merge_equal",
        instead="merge before, and pass the merged data set",
        dataset=dataset,
    )
    types.validate(dataset, allow_missing=True)
    if num_rows is not None:
        check.count("num_rows", num_rows, low=1)
    features, labels, weights, mask = (np.asarray(part) for part in labelled.mask_zeros(dataset))
    places = np.flatnonzero(mask)
    _, first, row = np.unique(
        _as_words(features[places], labels[places]), return_index=True, return_inverse=True
    )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    size = max(len(first), 1) if num_rows is None else num_rows
    if size < len(first):
        raise ValueError(
            f"num_rows is {num_rows}: the data set has {len(first)} distinct examples, pass that"
            " many at least"
        )
    row_of = np.full(len(mask), -1, np.int32)
    row_of[places] = rank[row.reshape(-1)]
    kept = places[first[order]]
    missing = size - len(kept)
    together = _sum_weights(weights[places], row_of[places], kept, size)
    merged = Dataset(
        jnp.asarray(np.pad(features[kept], ((0, missing), (0, 0)))),
        jnp.asarray(np.pad(labels[kept], (0, missing), constant_values=1)),
        jnp.asarray(np.where(np.arange(size) < len(kept), together, np.ones_like(together))),
        jnp.arange(size) < len(kept),
    )
    return Merged(merged, jnp.asarray(row_of))


def _sum_weights(
    weights: np.ndarray, row_of: np.ndarray, kept: np.ndarray, size: int
) -> np.ndarray:
    """The sum of the weights of each row [r], in their own type.

    Args:
      weights: [k] of the examples.
      row_of: [k] the row of each example.
      kept: the index of the first example of each row, for the message.
      size: r.

    Raises:
      ValueError: if the type cannot hold a sum.
    """
    sums = np.bincount(row_of, weights=weights.astype(np.float64), minlength=size)
    with np.errstate(over="ignore", invalid="ignore"):
        together = sums.astype(weights.dtype)
    is_lost = (
        np.isinf(together) if weights.dtype.kind == "f" else together.astype(np.float64) != sums
    )
    for place in np.flatnonzero(is_lost)[:1]:
        raise ValueError(
            f"weights of the examples equal to example {kept[place]} sum to {sums[place]:g}, more"
            f" than {weights.dtype} holds: scale weights down"
        )
    return together


def merge_bits(bits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None) -> Dataset:
    """`merge_equal` for many rows of 0, 1 and NaN, with NumPy arrays. Rows are compared with eight
    bits packed in a byte. The features are uint8 if none is NaN.

    Args:
      bits: [m, N].
      labels: [m] -1 or +1.
      weights: [m] not negative, or None.

    >>> import numpy as np
    >>> merged = merge_bits(np.array([[1, 0], [0, 1], [1, 0]]), np.array([1, -1, 1]), None)
    >>> merged.features.tolist(), merged.weights.tolist()
    ([[1, 0], [0, 1]], [2.0, 1.0])
    """
    is_gap = np.isnan(bits) if bits.dtype.kind == "f" else np.zeros(bits.shape, bool)
    parts = [bits == 1, (labels > 0)[:, None], *([is_gap] if is_gap.any() else [])]
    groups = grouping.equal_rows(np.concatenate(parts, axis=1))
    sums = np.bincount(groups.group_of, weights=weights, minlength=len(groups.first)).astype(float)
    by_place = np.argsort(groups.first)
    kept = groups.first[by_place]
    features = bits[kept] if is_gap.any() else (bits[kept] == 1).astype(np.uint8)
    return Dataset(features, labels[kept], sums[by_place], np.ones(len(kept), bool))


def _as_words(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One word per example [k]; words are equal if and only if the examples are equal."""
    table = np.concatenate([_as_bytes(features), _as_bytes(labels[:, None])], axis=1)
    return table.view(np.dtype((np.void, table.shape[1]))).reshape(-1)


def _as_bytes(table: np.ndarray) -> np.ndarray:
    """The bytes of each row [k, b]; equal for 0 and -0, and for all missing values."""
    same = table + np.zeros((), table.dtype)
    if jnp.issubdtype(table.dtype, jnp.floating):
        same[np.isnan(same)] = np.nan
    return (
        np.ascontiguousarray(same).view(np.uint8).reshape(len(same), same.shape[1] * same.itemsize)
    )
