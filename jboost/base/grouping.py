"""Groups of equal rows of bits, found on the host by sorting the rows as 64-bit words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Groups(NamedTuple):
    """A partition of r rows into g groups of equal rows."""

    group_of: np.ndarray  # [r] int64
    first: np.ndarray  # [g] int64, the first row of each group


def equal_rows(bits: np.ndarray) -> Groups:
    """The groups of equal rows of a table [r, k] of 0 and 1.

    >>> equal_rows(np.array([[1, 0], [0, 0], [1, 0]])).first.tolist()
    [1, 0]
    """
    packed = np.packbits(bits.astype(bool, copy=False), axis=1)
    missing = -packed.shape[1] % 8 or 8 * (packed.shape[1] == 0)
    words = np.ascontiguousarray(np.pad(packed, ((0, 0), (0, missing)))).view(np.uint64)
    order = np.lexsort(words.T)  # stable: the first row of a group comes first
    ordered = words[order]
    is_start = np.ones(len(order), bool)
    is_start[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    group_of = np.empty(len(order), np.int64)
    group_of[order] = np.cumsum(is_start) - 1
    return Groups(group_of, order[is_start])
