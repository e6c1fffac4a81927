"""Checks of infeasible subsystems in exact arithmetic, on the host."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from jboost.base import check, labelled
from jboost.base.types import ArrayLike
from jboost.combine.types import InfeasibleSubsystems

_Row = list[Fraction]


def recompute_bound(
    certificate: InfeasibleSubsystems,
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> Fraction:
    """The lower bound on the loss of every linear vote with an offset that a certificate proves,
    recomputed on the host in exact arithmetic.

    It uses the members and the amounts alone: the multipliers of each row are solved for again. A
    row that is not an infeasible subsystem counts 0. If the amounts u_g of the rows that name
    example i exceed its weight w_i, the excess is subtracted. With E the misclassified examples,
    sum_g u_g <= sum_{i in E} sum_{g names i} u_g <= loss + the sum of all excesses.

    Args:
      certificate: of a vote of `jboost.combine`.
      scores, labels, weights, mask: the arguments of that vote.

    Returns:
      The bound. It may be below `certificate.lower_bound` by the rounding of the weights alone.

    Raises:
      ValueError: naming the argument, for another shape, or if an argument is traced.

    >>> import jboost
    >>> scores, labels = [[0.0], [1.0], [2.0], [3.0]], [1, -1, 1, -1]
    >>> vote = jboost.combine.fit(scores, labels)
    >>> vote.certificate.members.tolist()[0], vote.certificate.multipliers.tolist()[0]
    ([0, 1, 2], [0.5, 1.0, 0.5])
    >>> jboost.combine.recompute_bound(vote.certificate, scores, labels)
    Fraction(1, 1)
    """
    check.on_host(
        "jboost.combine.recompute_bound",
        instead="read the bound of the certificate there",
        certificate=certificate,
        scores=scores,
        labels=labels,
        weights=weights,
        mask=mask,
    )
    points = check.numeric("scores", scores, shape=("n", "d"), kinds="fiu")
    signs, costs, kept = labelled.validate_examples(labels, weights, mask, points.shape[0])
    shapes = tuple(np.shape(certificate.members)), tuple(np.shape(certificate.amounts))
    if shapes[0][1:] != (points.shape[1] + 2,) or shapes[0][:1] != shapes[1]:
        raise ValueError(
            f"certificate has members of shape {list(shapes[0])} and amounts of shape"
            f" {list(shapes[1])}: expected [g, {points.shape[1] + 2}] and [g] for these scores"
        )
    return _recompute(
        np.asarray(certificate.members),
        np.asarray(certificate.amounts),
        np.asarray(points),
        np.where(np.asarray(kept), np.asarray(signs), 0),
        np.where(np.asarray(kept), np.asarray(costs), 0),
    )


def _recompute(
    members: np.ndarray,
    amounts: np.ndarray,
    points: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
) -> Fraction:
    excesses = [-Fraction(float(weight)) for weight in weights]
    total = Fraction(0)
    for row, amount in zip(members, amounts, strict=True):
        chosen = [int(index) for index in row if 0 <= index < len(labels) and labels[index] != 0]
        if amount > 0 and is_infeasible(points[chosen], labels[chosen]):
            total += Fraction(float(amount))
            for index in set(chosen):
                excesses[index] += Fraction(float(amount))
    return max(total - sum((max(one, Fraction(0)) for one in excesses), Fraction(0)), Fraction(0))


def is_infeasible(points: np.ndarray, labels: np.ndarray) -> bool:
    """Whether no linear vote with an offset has all of a few points [k, d] right, where a score of
    0 is wrong. Exact. It takes time exponential in k only if several subsystems are infeasible.

    >>> is_infeasible(np.array([[0.0], [1.0], [2.0]]), np.array([1, -1, 1]))
    True
    >>> is_infeasible(np.array([[0.0], [1.0], [2.0]]), np.array([1, 1, -1]))
    False
    """
    return solve_multipliers(points, labels) is not None


def solve_multipliers(points: np.ndarray, labels: np.ndarray) -> list[Fraction] | None:
    """Exact multipliers [k], not negative and not all 0, with sum_i lambda_i y_i (x_i, 1) = 0; None
    if there are none.
    """
    rows = [
        [Fraction(float(x)) * int(label) for x in (*point, 1.0)]
        for point, label in zip(points, labels, strict=True)
    ]
    return _solve(rows, list(range(len(rows))))


def _solve(rows: Sequence[_Row], kept: list[int]) -> list[Fraction] | None:
    kernel = _kernel([rows[index] for index in kept])
    if not kernel:
        return None
    if len(kernel) == 1:
        sign = 1 if max(kernel[0]) > 0 else -1
        if min(sign * value for value in kernel[0]) < 0:
            return None
        found = [Fraction(0)] * len(rows)
        for index, value in zip(kept, kernel[0], strict=True):
            found[index] = sign * value
        return found
    # A point of the cone of multipliers with the fewest examples lies on a face.
    for index in kept:
        smaller = _solve(rows, [other for other in kept if other != index])
        if smaller is not None:
            return smaller
    return None


def _kernel(rows: Sequence[_Row]) -> list[list[Fraction]]:
    """A basis of the vectors lambda [k] with sum_i lambda_i rows[i] = 0."""
    size = len(rows)
    matrix = [[row[j] for row in rows] for j in range(len(rows[0]))] if rows else []
    pivots: list[int] = []
    for column in range(size):
        depth = len(pivots)
        found = next((r for r in range(depth, len(matrix)) if matrix[r][column] != 0), None)
        if found is None:
            continue
        matrix[depth], matrix[found] = matrix[found], matrix[depth]
        head = matrix[depth][column]
        matrix[depth] = [value / head for value in matrix[depth]]
        for r in range(len(matrix)):
            factor = matrix[r][column]
            if r != depth and factor != 0:
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[depth], strict=True)]
        pivots.append(column)
    kernel = []
    for free in (column for column in range(size) if column not in pivots):
        vector = [Fraction(0)] * size
        vector[free] = Fraction(1)
        for depth, column in enumerate(pivots):
            vector[column] = -matrix[depth][free]
        kernel.append(vector)
    return kernel
