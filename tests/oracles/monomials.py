"""All monomials, one by one, in float64 or in fractions: the values of (27), Goldberg and Eckstein
2009, by its
definition.
"""

import functools
import itertools
from fractions import Fraction

import numpy as np


@functools.cache
def all_monomials(num_attributes, max_order):
    """Every choice of at most `max_order` literals, no two of one attribute, [M, N] of +1, -1 and
    0.
    """
    rows = []
    for order in range(max_order + 1):
        for chosen in itertools.combinations(range(num_attributes), order):
            for signs in itertools.product((1, -1), repeat=order):
                row = np.zeros(num_attributes, np.int8)
                row[list(chosen)] = signs
                rows.append(row)
    return np.array(rows, np.int8).reshape(len(rows), num_attributes)


def covers(literals, features):
    """Which examples [..., m, N] satisfy all literals of monomials [M, N] or [..., M, N]: [..., M,
    m]; NaN satisfies neither literal.
    """
    inside = np.ones((*features.shape[:-2], literals.shape[-2], features.shape[-2]), bool)
    for place in range(features.shape[-1]):
        wanted, have = literals[..., :, None, place], features[..., None, :, place]
        inside &= (wanted == 0) | ((wanted == 1) & (have == 1)) | ((wanted == -1) & (have == 0))
    return inside


def values(literals, features, labels, weights, *, costs=None, pairs=None, mask=None):
    """(27) of monomials [..., M, N] with signs +1 and -1, in float64: [..., M, 2]."""
    features, labels, weights = (
        np.asarray(part, np.float64) for part in (features, labels, weights)
    )
    mask = np.ones(labels.shape, bool) if mask is None else np.asarray(mask)
    inside = covers(literals, features) & mask[..., None, :]
    agreement = np.einsum("...km,...m->...k", inside, np.where(mask, weights * labels, 0))
    both = []
    for sign in (1, -1):
        worth = sign * agreement
        if costs is not None:
            orders = np.abs(literals).sum(axis=-1, dtype=int)
            worth = worth - np.take_along_axis(
                np.asarray(costs, np.float64), np.broadcast_to(orders, worth.shape), axis=-1
            )
        if pairs is not None:
            mine, theirs = (labels == sign) & mask, (labels == -sign) & mask
            worth = worth + np.einsum(
                "...ki,...ij,...kj->...k",
                inside & mine[..., None, :],
                np.asarray(pairs, np.float64),
                ~inside & theirs[..., None, :],
                optimize=True,
            )
        both.append(worth)
    return np.stack(both, axis=-1)


def best(features, labels, weights, *, max_order=None, **rest):
    """The largest value over all monomials and both signs, [...]."""
    num_attributes = features.shape[-1]
    literals = all_monomials(num_attributes, num_attributes if max_order is None else max_order)
    return values(literals, features, labels, weights, **rest).max(axis=(-2, -1))


def exact_value(literals, sign, features, labels, weights, *, costs=None, pairs=None):
    """(27) of one monomial as a fraction."""
    inside = covers(literals[None], np.asarray(features, np.float64))[0]
    worth = sum(
        (
            int(sign * label) * Fraction(float(weight))
            for label, weight, here in zip(labels, weights, inside, strict=True)
            if here
        ),
        Fraction(0),
    )
    if costs is not None:
        worth -= Fraction(float(costs[int(np.abs(literals).sum())]))
    if pairs is not None:
        for i, j in itertools.product(np.flatnonzero(inside), np.flatnonzero(~inside)):
            if labels[i] == sign and labels[j] == -sign:
                worth += Fraction(float(pairs[i][j]))
    return worth


def exact_best(features, labels, weights, *, max_order=None, costs=None, pairs=None):
    """The largest value as a fraction."""
    num_attributes = np.shape(features)[1]
    found = Fraction(-(10**400))
    for literals in all_monomials(
        num_attributes, num_attributes if max_order is None else max_order
    ):
        if costs is None or np.isfinite(costs[int(np.abs(literals).sum())]):
            for sign in (1, -1):
                found = max(
                    found,
                    exact_value(
                        literals, sign, features, labels, weights, costs=costs, pairs=pairs
                    ),
                )
    return found
