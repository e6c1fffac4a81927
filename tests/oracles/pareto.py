"""Brute force for the Pareto front of weight against margin, in exact arithmetic. Shares nothing
with the package.

The widest slab that keeps a set of points has a normal that joins two points or is perpendicular to
a line through two (the hulls touch it in corner and corner, or in corner and edge), and a point of
either class on its two sides. So all slabs with such normals and such sides are written down, and
all points that a slab does not keep are paid for.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np


class FrontTruth(NamedTuple):
    """Points of the front, the lightest first."""

    losses: list  # [k] of int
    squared_margins: list  # [k] of Fraction, inf for a constant classifier


def pareto_front(points, labels, weights=None) -> FrontTruth:
    """`points` [n, 2] are integers of at most 2^20 in size, `labels` [n] +1/-1, `weights` [n]
    positive integers.
    """
    points, labels = np.asarray(points, np.int64).reshape(-1, 2), np.asarray(labels, np.int64)
    weights = np.ones(len(labels), np.int64) if weights is None else np.asarray(weights, np.int64)
    upper, lower = points[labels > 0], points[labels < 0]
    widest = {}
    if len(upper) and len(lower):
        differences = (points[:, None] - points[None]).reshape(-1, 2)
        differences = differences[np.any(differences != 0, axis=1)]
        normals = np.unique(
            np.concatenate([differences, differences[:, ::-1] * np.array([-1, 1])]).reshape(-1, 2),
            axis=0,
        )
        above, below = normals @ upper.T, normals @ lower.T
        gaps = above[:, :, None] - below[:, None, :]
        lost_above = (above[:, None, :] < above[:, :, None]) @ weights[labels > 0]
        lost_below = (below[:, None, :] > below[:, :, None]) @ weights[labels < 0]
        losses = lost_above[:, :, None] + lost_below[:, None, :]
        lengths = np.broadcast_to((normals**2).sum(axis=1)[:, None, None], gaps.shape)
        real = gaps > 0
        gaps, losses, lengths = gaps[real], losses[real], lengths[real]
        sizes = gaps / np.sqrt(lengths)
        for loss in np.unique(losses).tolist():
            here = losses == loss
            near = here & (sizes >= 0.999999 * sizes[here].max())
            pairs = set(zip(gaps[near].tolist(), lengths[near].tolist(), strict=True))
            widest[loss] = max(Fraction(gap * gap, 4 * length) for gap, length in pairs)
    last = min(int(weights[labels > 0].sum()), int(weights[labels < 0].sum()))
    front, best = [], Fraction(-1)
    for loss in sorted(widest):
        if loss < last and widest[loss] > best:
            best = widest[loss]
            front.append((loss, best))
    front.append((last, float("inf")))
    return FrontTruth([loss for loss, _ in front], [margin for _, margin in front])
