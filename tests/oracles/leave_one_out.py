"""Brute force for the leave-one-out error of the exact pair, by its definition and in exact
arithmetic.

Each point is removed, the rest is solved anew, and every line that the model could return is drawn
and asked for the point. Nothing is shared between two points but the cache of bisectors. Shares
nothing with the package.
"""

import functools
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from oracles.pair import _splits as splits_by_lines
from oracles.pair import optimal_pair


class LeaveOneOutTruth(NamedTuple):
    """By the definition; `right` and `wrong` count the equally likely answers."""

    error: Fraction
    errors: list  # [n] of Fraction
    kinds: list  # [n] of int
    right: list  # [n] of int
    wrong: list  # [n] of int


def leave_one_out(points, labels, weights=None, *, model="max_margin") -> LeaveOneOutTruth:
    """`points` [n, 2] are integers of at most 2^20 in size, `labels` [n] +1/-1, `weights` [n]
    positive integers.
    """
    points, labels = np.asarray(points, np.int64).reshape(-1, 2), np.asarray(labels, np.int64)
    weights = np.ones(len(labels), np.int64) if weights is None else np.asarray(weights, np.int64)
    count = {"max_margin": _count_max_margin, "occurrence": _count_occurrences}[model]
    bisectors, counts = {}, []
    for i in range(len(labels)):
        rest = np.delete(np.arange(len(labels)), i)
        counts.append(count(points, labels, weights, rest, i, bisectors))
    right, wrong = [pair[0] for pair in counts], [pair[1] for pair in counts]
    errors = [
        Fraction(int(w) * bad, good + bad)
        for w, good, bad in zip(weights, right, wrong, strict=True)
    ]
    kinds = [1 if bad == 0 else 2 if good == 0 else 3 for good, bad in counts]
    return LeaveOneOutTruth(
        sum(errors, Fraction(0)) / max(len(errors), 1), errors, kinds, right, wrong
    )


def _count_max_margin(points, labels, weights, rest, i, bisectors):
    """(right, wrong) among the distinct optimal separators of largest margin of the rest."""
    if len(rest) == 0:
        return 1, 1  # both constants are optimal and both have an infinite margin
    optimum = optimal_pair(points[rest], labels[rest], weights[rest])
    answers = []
    for misclassified in optimum.best_sets:
        kept = np.ones(len(rest), bool)
        kept[list(misclassified)] = False
        answers.append(_answers_right(points, labels, rest[kept], i, bisectors))
    return sum(answers), len(answers) - sum(answers)


def _count_occurrences(points, labels, weights, rest, i, bisectors):
    """(right, wrong) among the optimal (centre, class of oriented lines) of the class of the point,
    and the trivial occurrence.
    """
    label = labels[i]
    own = labels[rest] == label
    optimum = np.min((splits_by_lines(points[rest]) != (labels[rest] > 0)) @ weights[rest])
    right = 0
    wrong = int(weights[rest][own].sum() == optimum)  # the constant classifier "other class"
    for centre in rest[own]:
        offsets = points[rest] - points[centre]
        directions = np.array(_classes_of_lines(offsets))
        turns = directions[:, :1] * offsets[:, 1] - directions[:, 1:] * offsets[:, 0]
        kept = np.where(own, turns >= 0, turns < 0)  # [classes, points]
        for members in kept[~kept @ weights[rest] == optimum]:
            answer = _answers_right(points, labels, rest[members], i, bisectors)
            right, wrong = right + answer, wrong + (not answer)
    return right, wrong


def _classes_of_lines(offsets):
    """One direction of every class of oriented lines through the origin: those through a point, and
    those between two such.
    """
    exact = []
    for x, y in offsets.tolist():
        if (x, y) != (0, 0) and not any(x * v == y * u for u, v in exact):
            exact.append((x, y))
    if not exact:
        return [(1, 0)]  # nothing can tell two lines apart
    upper = [(u, v) if v > 0 or (v == 0 and u > 0) else (-u, -v) for u, v in exact]
    # by the angle
    upper.sort(key=functools.cmp_to_key(lambda one, other: one[1] * other[0] - one[0] * other[1]))
    cycle = upper + [(-u, -v) for u, v in upper]
    following = cycle[1:] + cycle[:1]
    between = [
        (u + s, v + t) if (u + s, v + t) != (0, 0) else (-v, u)
        for (u, v), (s, t) in zip(cycle, following, strict=True)
    ]
    return cycle + between


def _answers_right(points, labels, kept, i, bisectors):
    """Whether the bisector of the hulls of the two classes of the kept points puts point i on its
    side, strictly.
    """
    key = kept.tobytes()
    if key not in bisectors:
        bisectors[key] = _bisector(points[kept], labels[kept])
    normal, twice_offset = bisectors[key]
    return bool(labels[i] * (2 * (points[i] @ normal) - twice_offset) > 0)


def _bisector(points, labels):
    """(normal, twice the offset): the score of x is normal . x - offset."""
    upper, lower = points[labels > 0], points[labels < 0]
    if len(lower) == 0 or len(upper) == 0:
        return np.zeros(2, np.int64), -1 if len(lower) == 0 else 1
    best, line = Fraction(-1), None
    differences = (points[:, None] - points[None]).reshape(-1, 2)
    differences = differences[np.any(differences != 0, axis=1)]
    normals = np.concatenate([differences, differences[:, ::-1] * np.array([-1, 1])])
    least, most = (upper @ normals.T).min(axis=0), (lower @ normals.T).max(axis=0)
    gaps, lengths = least - most, (normals**2).sum(axis=1)
    near = gaps >= 0.999999 * np.max(gaps / np.sqrt(lengths)) * np.sqrt(lengths)
    for normal, gap, length, low, high in zip(
        normals[near], gaps[near], lengths[near], least[near], most[near], strict=True
    ):
        ratio = Fraction(int(gap) ** 2, int(length))
        if gap > 0 and ratio > best:
            best, line = ratio, (normal, int(low) + int(high))
    return line
