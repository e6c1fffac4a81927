"""Checks of infeasible subsystems in exact arithmetic, on the host."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

_Row = list[Fraction]


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
