"""Brute force for the Pareto front of three classifiers: the widest slab of every set of points
that may be kept. Shares nothing with the package.
"""

import itertools
import math

import numpy as np

from oracles.pair_space import exact_integers, gap_squared, is_split


def pareto_front_space(points, labels, weights):
    """Losses and squared margins of the front, for up to eight or so finite points [n, 3]."""
    positive, size = labels > 0, len(labels)
    is_whole = bool((points == np.round(points)).all())
    if not is_whole:
        points, scale = exact_integers(points)
    widest = {}
    for kept in itertools.product([False, True], repeat=size):
        kept = np.array(kept, bool)
        upper, lower = kept & positive, kept & ~positive
        loss = int(weights[~kept].sum())
        if not (upper.any() and lower.any()):
            gap = math.inf
        elif is_whole and not is_split(points[kept], positive[kept]):
            continue
        else:
            gap = gap_squared(points, upper, lower)
        widest[loss] = max(widest.get(loss, 0), gap)
    front, best = [], 0
    for loss in sorted(widest):
        if widest[loss] > best:
            best = widest[loss]
            front.append((loss, best / 4 if best != math.inf else best))
    unit = 1 if is_whole else scale**2
    return [loss for loss, _ in front], [
        margin / unit if margin != math.inf else margin for _, margin in front
    ]
