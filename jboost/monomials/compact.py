"""Reduces concrete examples on the host: equal ones are merged, and ones without weight or reward
are left out. The optimum does not change, and products are smaller.

Sizes are rounded up to one of four values between consecutive powers of two, so that few programs
are compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jboost.monomials.rewards import PairsOfClasses


class Compact(NamedTuple):
    """Two classes of examples of R rows each, and the attributes that differ."""

    ones: np.ndarray  # [2, R, n] of class +1 and -1
    known: np.ndarray | None  # [2, R, n]
    weights: np.ndarray  # [2, R]
    rewards: PairsOfClasses | None
    columns: np.ndarray  # [n] the attribute of each column; N for padding
    is_attribute: np.ndarray  # [n] bool


def bucket(size: int) -> int:
    """The least of 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ... that is not below `size`."""
    step = max(2, 2 ** ((size - 1).bit_length() - 3))
    return max(8, -(-size // step) * step)


def compact(
    features: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    pairs: np.ndarray | None,
    rewards: np.ndarray | None,
    *,
    merge_columns: bool,
) -> Compact:
    """Leaves out examples without weight and reward. Without rewards it merges equal examples of a
    class. On request it merges equal or opposite attributes.

    Attributes must not be merged if a higher order costs less than a lower one: then a further
    literal that does not change the cover may increase the value.

    Args:
      features: [m, N] 0, 1 or NaN.
      labels: [m] -1 or +1.
      weights: [m] integers, 0 for those masked out.
      pairs: [K, 2], or None for no rewards.
      rewards: [K] integers, 0 for empty slots.
    """
    counts = weights > 0
    if pairs is not None and rewards is not None:
        counts[pairs[rewards > 0]] = True
    columns = _distinct_columns(features[counts]) if merge_columns else np.arange(features.shape[1])
    values = features[:, columns]
    parts = [
        _one_class(
            values[counts & (labels == sign)],
            weights[counts & (labels == sign)],
            merge=pairs is None,
        )
        for sign in (1, -1)
    ]
    size = bucket(max(len(part[1]) for part in parts))
    width = bucket(len(columns))
    rows = np.stack([_padded(part[0], (size, width)) for part in parts])
    amounts = np.stack([_padded(part[1], (size,)) for part in parts])
    is_missing = np.isnan(rows)
    between = None
    if pairs is not None and rewards is not None:
        between = pairs_of_rows(pairs, rewards, _places(counts, labels), labels)
    known = (~is_missing).astype(features.dtype) if is_missing.any() else None
    places = np.pad(columns, (0, width - len(columns)), constant_values=features.shape[1])
    return Compact(
        (rows == 1).astype(features.dtype),
        known,
        amounts,
        between,
        places,
        places < features.shape[1],
    )


def pairs_of_rows(pairs: Any, rewards: Any, places: Any, labels: Any) -> PairsOfClasses:
    """The rewards [K] of pairs [K, 2] of examples, as pairs of rows of classes. `places` [m] are
    the rows of the examples in their classes.
    """
    first, second = pairs.T
    return PairsOfClasses(
        (labels[first] < 0).astype(np.int32), places[first], places[second], rewards
    )


def _places(counts: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The row in its class of each example [m] that counts, and 0 for others."""
    places = np.zeros(len(labels), np.int32)
    for sign in (1, -1):
        rows = np.flatnonzero(counts & (labels == sign))
        places[rows] = np.arange(len(rows))
    return places


def _distinct_columns(values: np.ndarray) -> np.ndarray:
    """One of each set of columns that are equal or complements of each other, in their order."""
    if values.shape[1] == 0:
        return np.zeros(0, int)
    if values.shape[0] == 0:
        return np.zeros(1, int)
    codes = np.where(np.isnan(values), 2, values).astype(np.uint8)
    swapped = np.where(codes < 2, 1 - codes, codes)
    leading = np.argmax(codes < 2, axis=0)
    starts_high = codes[leading, np.arange(codes.shape[1])] == 1
    canonical = np.where(starts_high[None, :], swapped, codes)
    _, first = np.unique(canonical, axis=1, return_index=True)
    return np.sort(first)


def _one_class(
    rows: np.ndarray, weights: np.ndarray, *, merge: bool
) -> tuple[np.ndarray, np.ndarray]:
    if not merge or len(rows) == 0:
        return rows, weights
    _, first, where = np.unique(
        np.where(np.isnan(rows), 2, rows), axis=0, return_index=True, return_inverse=True
    )
    sums = np.zeros(len(first), weights.dtype)
    np.add.at(sums, where.reshape(-1), weights)
    return rows[first], sums


def _padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.pad(array, [(0, size - have) for size, have in zip(shape, array.shape, strict=True)])
