"""Support sets: small sets of binary attributes in which every positive example differs from every
negative one.

This is the set covering problem of Boros, Hammer, Ibaraki and Kogan (1997, Mathematical Programming
79: 163-190, Section 4), with one row for each pair of examples of opposite class. It is solved
greedily. The separation of a pair is the number of chosen attributes in which it differs.
"""

from __future__ import annotations

import numpy as np

from jboost.base import check, labelled, memory
from jboost.base.types import ArrayLike

_BYTES_OF_PAIR = 16  # the memory of a pair of examples
_BATCH = 64  # attributes whose pairs are counted in one product


def select_support_set(
    bits: ArrayLike,
    labels: ArrayLike,
    *,
    min_separation: int = 1,
    costs: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> np.ndarray:
    """Attributes such that each pair of opposite class differs in at least `min_separation` of
    them, or in all attributes in which it differs at all.

    The greedy algorithm repeatedly takes the attribute in which the most pairs with insufficient
    separation differ, per unit of cost; the lower index in a tie. A pass in reverse order drops
    attributes that later choices made unnecessary. Then every chosen attribute is necessary. Two
    examples differ in an attribute if one has 0 and the other 1. NaN does not differ from anything.
    Pairs that do not differ in any attribute are ignored.

    Memory is about 16 bytes per pair. It does not depend on the number of attributes.

    Args:
      bits: [m, N] of 0, 1 and NaN (missing).
      labels: [m], +1 or -1.
      min_separation: at least 1.
      costs: [N] positive, None for ones.
      mask: [m] boolean, False for rows that do not count.

    Returns:
      Indices [k] of the attributes, ascending; empty if no pair of opposite class differs.

    Raises:
      ValueError: naming the argument, if a shape, a bit, a label or a cost is not as above,
        `min_separation` is not a positive integer, or the memory of the machine is too small for
        all pairs.

    >>> bits = [[1, 1, 0], [1, 0, 1], [0, 1, 1], [0, 0, 0]]
    >>> select_support_set(bits, [1, 1, -1, -1]).tolist()
    [0]
    >>> select_support_set(bits, [1, 1, -1, -1], min_separation=2).tolist()
    [0, 1, 2]
    """
    check.on_host(
        "jboost.data.binarization.select_support_set",
        instead="select the attributes before, and pass bits[:, attributes]",
        bits=bits,
        labels=labels,
        costs=costs,
        mask=mask,
    )
    check.count("min_separation", min_separation, low=1)
    table = check.host_array("bits", bits, shape=("m", "N"), kinds="fiub")
    size, num_bits = table.shape
    signs, _, rows = labelled.validate_on_host(labels, None, mask, size)
    table, positive = table[rows], signs[rows] > 0
    ones, zeros = table == 1, table == 0
    if not (ones | zeros | np.isnan(table)).all():
        raise ValueError("bits are 0, 1 or NaN: binarize first, as jboost.data.binarization does")
    prices = _validate_costs(costs, num_bits)
    num_bytes, most = (
        _BYTES_OF_PAIR * int(positive.sum()) * int((~positive).sum()),
        memory.of_machine(),
    )
    if num_bytes > most:
        raise ValueError(
            f"min_separation looks at all pairs of the {len(positive)} rows, which take"
            f" {num_bytes:,} bytes, and there are {most:,}: leave min_separation out, or select the"
            " attributes on a sample"
        )
    pairs = _Pairs(ones, zeros, positive, min_separation)
    return np.array(sorted(_drop_superfluous(pairs, _choose(pairs, prices))), np.int64)


def _validate_costs(costs: ArrayLike | None, num_bits: int) -> np.ndarray:
    """The costs [N] in float64, ones for None. Raises ValueError if they are not positive."""
    prices = (
        np.ones(num_bits)
        if costs is None
        else check.host_array("costs", costs, shape=(num_bits,), kinds="fi").astype(np.float64)
    )
    if not ((prices > 0) & np.isfinite(prices)).all():
        raise ValueError(
            "costs are positive and finite: leave out attributes that must not be chosen"
        )
    return prices


class _Pairs:
    """The pairs of a positive (row) and a negative (column) example, and their separation by the
    chosen attributes.
    """

    def __init__(
        self, ones: np.ndarray, zeros: np.ndarray, positive: np.ndarray, min_separation: int
    ) -> None:
        self.positive_ones, self.positive_zeros = (
            ones[positive].astype(np.float32),
            zeros[positive].astype(np.float32),
        )
        self.negative_ones, self.negative_zeros = (
            ones[~positive].astype(np.float32),
            zeros[~positive].astype(np.float32),
        )
        self.required = self.positive_ones @ self.negative_zeros.T  # [p, n], integers
        self.required += self.positive_zeros @ self.negative_ones.T
        np.minimum(self.required, np.float32(min_separation), out=self.required)
        # [p, n]
        self.separation = np.zeros(
            self.required.shape, np.int16 if ones.shape[1] < 2**15 else np.int32
        )

    def counts(self) -> np.ndarray:
        """The number of pairs that differ in each attribute [N]."""
        sums = [
            part.sum(axis=0, dtype=np.float64)
            for part in (
                self.positive_ones,
                self.negative_zeros,
                self.positive_zeros,
                self.negative_ones,
            )
        ]
        return sums[0] * sums[1] + sums[2] * sums[3]

    def count_among(self, pairs: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """The number of `pairs` [p, n] (1 or 0, float32) that differ in each of the attributes
        `indices` [k].
        """
        found = self.positive_ones[:, indices] * (pairs @ self.negative_zeros[:, indices])
        found += self.positive_zeros[:, indices] * (pairs @ self.negative_ones[:, indices])
        return found.sum(axis=0, dtype=np.float64)

    def differing(self, index: int) -> np.ndarray:
        """Which pairs [p, n] differ in one attribute."""
        ones, zeros = (
            self.positive_ones[:, index, None] > 0,
            self.positive_zeros[:, index, None] > 0,
        )
        return (ones & (self.negative_zeros[:, index] > 0)) | (
            zeros & (self.negative_ones[:, index] > 0)
        )


def _choose(pairs: _Pairs, prices: np.ndarray) -> list[int]:
    """The greedy choice with lazy evaluation (Minoux 1978): the gain of an attribute never
    increases, so an old value is an upper bound of the new one.
    """
    values = pairs.counts() / prices
    chosen: list[int] = []
    short = (pairs.required > 0).astype(np.float32)
    while short.any():
        exact = np.zeros(len(values), bool)
        best = 0.0
        while (waiting := np.flatnonzero(~exact & (values > 0) & (values >= best))).size:
            batch = waiting[np.argsort(-values[waiting], kind="stable")[:_BATCH]]
            values[batch] = pairs.count_among(short, batch) / prices[batch]
            exact[batch] = True
            best = values[exact].max()
        index = int(np.where(exact, values, -1.0).argmax())
        chosen.append(index)
        values[index] = 0.0
        pairs.separation += pairs.differing(index)
        short = (pairs.separation < pairs.required).astype(np.float32)
    return chosen


def _drop_superfluous(pairs: _Pairs, chosen: list[int]) -> list[int]:
    kept = []
    for index in reversed(chosen):
        differing = pairs.differing(index)
        if (differing & (pairs.separation <= pairs.required)).any():
            kept.append(index)
        else:
            pairs.separation -= differing
    return kept
