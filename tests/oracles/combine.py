"""Combinations of many classifiers by the definitions: exact losses by fractions, the least loss
over all hyperplanes by linear programs.
"""

import itertools
from collections import defaultdict
from fractions import Fraction

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp


def wrong_examples(coefficients, offset, scores, labels):
    """Which examples the exact score, of the very floats, gets wrong or 0, [n] bool."""
    exact = [Fraction(float(c)) for c in coefficients]
    start = Fraction(float(offset))
    values = [
        start + sum((c * Fraction(float(x)) for c, x in zip(exact, row, strict=True)), Fraction(0))
        for row in scores
    ]
    return np.array(
        [value * int(label) <= 0 for value, label in zip(values, labels, strict=True)], bool
    )


def exact_sum(weights, chosen):
    """The exact weight of the chosen examples."""
    return sum((Fraction(float(w)) for w in np.asarray(weights)[chosen]), Fraction(0))


def conflict_loss(scores, labels, weights):
    """What examples with equal scores and opposite labels force on any function of the scores."""
    places = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for row, label, weight in zip(scores, labels, weights, strict=True):
        places[tuple(float(x) + 0.0 for x in row)][int(label > 0)] += Fraction(float(weight))
    return sum((min(pair) for pair in places.values()), Fraction(0))


def is_separable(scores, labels):
    """Whether a hyperplane, or a constant, has all examples strictly on their sides."""
    if len(labels) == 0 or len(set(labels.tolist())) == 1:
        return True
    rows = -labels[:, None] * np.concatenate([scores, np.ones((len(labels), 1))], axis=1)
    result = linprog(
        np.zeros(rows.shape[1]),
        A_ub=rows,
        b_ub=-np.ones(len(rows)),
        bounds=(None, None),
        method="highs",
    )
    return result.status == 0


def least_loss(scores, labels, weights):
    """The least weight that any linear combination with any offset gets wrong: sets are given up
    from the lightest on until the rest is separable.
    """
    size = len(labels)
    sets = [np.array(chosen, bool) for chosen in itertools.product([False, True], repeat=size)]
    for given_up in sorted(sets, key=lambda chosen: weights[chosen].sum()):
        if is_separable(scores[~given_up], labels[~given_up]):
            return exact_sum(weights, given_up)
    raise AssertionError("giving up everything leaves nothing to separate")


def least_loss_by_milp(scores, labels, weights, *, big=1e4):
    """The same by HiGHS: binary variables of the wrong examples, whose rows a big number relaxes.
    For scores of moderate size.
    """
    size = len(labels)
    rows = labels[:, None] * np.concatenate([scores, np.ones((size, 1))], axis=1)
    num_free = rows.shape[1]
    unbounded = np.full(num_free, np.inf)
    found = milp(
        np.concatenate([np.zeros(num_free), weights]),
        constraints=LinearConstraint(
            np.concatenate([rows, big * np.eye(size)], axis=1), 1.0, np.inf
        ),
        integrality=np.concatenate([np.zeros(num_free), np.ones(size)]),
        bounds=Bounds(
            np.concatenate([-unbounded, np.zeros(size)]), np.concatenate([unbounded, np.ones(size)])
        ),
        options={"mip_rel_gap": 0.0},
    )
    assert found.status == 0
    return float(weights @ np.round(found.x[num_free:]))
