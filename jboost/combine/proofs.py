"""Checks of infeasible subsystems in exact arithmetic, on the host."""

from __future__ import annotations

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

    It uses the members and the amounts alone: the multipliers of each row are solved for again.
    Indices that are repeated in a row count once, and those out of range or of masked examples not
    at all. A row that is then no infeasible subsystem counts 0. If the amounts u_g of the rows that
    name example i exceed its weight w_i, the excess is subtracted. With E the misclassified
    examples, sum_g u_g <= sum_{i in E} sum_{g names i} u_g <= loss + the sum of all excesses.

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
        named = {int(index) for index in row if 0 <= index < len(labels)}
        chosen = sorted(index for index in named if labels[index] != 0)
        if amount > 0 and is_infeasible(points[chosen], labels[chosen]):
            total += Fraction(float(amount))
            for index in chosen:
                excesses[index] += Fraction(float(amount))
    return max(total - sum((max(one, Fraction(0)) for one in excesses), Fraction(0)), Fraction(0))


def is_infeasible(points: np.ndarray, labels: np.ndarray) -> bool:
    """Whether no linear vote with an offset has all of a few points [k, d] right, where a score of
    0 is wrong. Exact, by the simplex method in fractions.

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
    return _solve(rows)


def _solve(rows: list[_Row]) -> list[Fraction] | None:
    """Multipliers lambda >= 0 with sum_i lambda_i rows[i] = 0 and sum_i lambda_i = 1, by the first
    phase of the simplex method with the rule of Bland (1977), which ends on every program.

    The tableau has a line for each equation, whose last entry is its value. An artificial variable,
    with an index from k up, is basic in each equation at first; they are at 0 in the end, or there
    is no solution. Columns of variables that may not enter are left out.
    """
    size = len(rows)
    if size == 0:
        return None
    zero, one = Fraction(0), Fraction(1)
    tableau = [[row[j] for row in rows] + [zero] for j in range(len(rows[0]))]
    tableau.append([one] * (size + 1))
    basis = list(range(size, size + len(tableau)))
    while True:
        lines = [line for line, basic in zip(tableau, basis, strict=True) if basic >= size]
        gains = [sum((line[column] for line in lines), zero) for column in range(size + 1)]
        entering = next((column for column in range(size) if gains[column] > 0), None)
        if gains[size] == 0 or entering is None:
            break
        ratios = [
            (line[size] / line[entering], basic, number)
            for number, (line, basic) in enumerate(zip(tableau, basis, strict=True))
            if line[entering] > 0
        ]
        _, _, leaving = min(ratios)
        _eliminate(tableau, leaving, entering)
        basis[leaving] = entering
    if gains[size] != 0:
        return None
    found = [zero] * size
    for line, basic in zip(tableau, basis, strict=True):
        if basic < size:
            found[basic] = line[size]
    return found


def _eliminate(tableau: list[_Row], chosen: int, column: int) -> None:
    """Makes a column of the tableau that of a unit vector, in place."""
    head = tableau[chosen][column]
    tableau[chosen] = [value / head for value in tableau[chosen]]
    for number, line in enumerate(tableau):
        factor = line[column]
        if number != chosen and factor != 0:
            tableau[number] = [a - factor * b for a, b in zip(line, tableau[chosen], strict=True)]
