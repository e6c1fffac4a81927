"""The iteration of `master` by NumPy, for programs that are small: it needs no compilation, and no
padding of its sizes.

Columns that agree up to their sign and up to the complement of their cover share one column of the
table of margins. The four signed literals of one attribute thus cost as much as one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jboost.base import grouping
from jboost.l0.large.master import ENOUGH, SOME, TOO_LONG, MasterIterate, MasterProgram

_MOST_STEPS = 64  # of Newton's method for the threshold of a projection, which ends after about 5


class _Folded(NamedTuple):
    """The margins y_i H_iu = y_i sign_u (is_negated_u + factor_u base_i,group_u)."""

    table: np.ndarray  # [n, g] y_i base_ij
    labels: np.ndarray  # [n]
    group: np.ndarray  # [U]
    of_base: np.ndarray  # [U] sign_u factor_u
    of_ones: np.ndarray  # [U] sign_u where the column is a complement, else 0

    def edges(self, weights: np.ndarray) -> np.ndarray:
        """The sums of the margins of each column under the weights [n], [U]."""
        return self.of_base * (weights @ self.table)[self.group] + self.of_ones * (
            weights @ self.labels
        )

    def mixed(self, values: np.ndarray) -> np.ndarray:
        """The margins of the rows for the values [U] of the columns, [n]."""
        sums = np.bincount(self.group, self.of_base * values, self.table.shape[1])
        return self.table @ sums.astype(values.dtype) + self.labels * (self.of_ones @ values)


def _fold(program: MasterProgram) -> _Folded:
    margins, labels = np.asarray(program.margins), np.asarray(program.labels)
    covered = margins != 0
    is_negated = covered[0]
    bases = covered ^ is_negated[None, :]
    groups = grouping.equal_rows(bases.T)
    signs = np.sign(labels @ margins)
    factors = np.where(is_negated, -1, 1)
    return _Folded(
        bases[:, groups.first] * labels[:, None],
        labels,
        groups.group_of,
        (signs * factors).astype(labels.dtype),
        (signs * is_negated).astype(labels.dtype),
    )


class _Host(NamedTuple):
    """What all iterations share."""

    program: MasterProgram
    margins: _Folded
    serves: np.ndarray  # [K, U]
    sizes: np.ndarray  # the step sizes of all variables
    splits: np.ndarray  # the ends of the parts of a vector


def improve(
    program: MasterProgram, start: MasterIterate, primal_weight: float, num_iterations: int
) -> MasterIterate:
    """As `master.improve`, for a program of NumPy arrays without padding."""
    serves = program.serves.astype(program.costs.dtype)
    lengths = [len(part) for part in start]
    host = _Host(
        program,
        _fold(program),
        serves,
        _step_sizes(program, serves, primal_weight),
        np.cumsum(lengths)[:-1],
    )
    point = anchor = moved = np.concatenate(start)
    age, first, last = 0, np.inf, np.inf
    for count in range(num_iterations):
        moved = _iterate(host, point)
        length = float(np.sqrt(np.sum((point - moved) ** 2 / host.sizes)))
        first = length if age == 0 else first
        if age > 0 and (
            length <= ENOUGH * first
            or (length <= SOME * first and length > last)
            or age >= TOO_LONG * count
        ):
            point = anchor = moved
            age, last = 0, np.inf
        else:
            share = point.dtype.type((age + 1) / (age + 2))
            point = share * (2 * moved - point) + (1 - share) * anchor
            age, last = age + 1, length
    return MasterIterate(*np.split(moved, host.splits))


def _step_sizes(program: MasterProgram, serves: np.ndarray, primal_weight: float) -> np.ndarray:
    """The diagonal steps of `master`."""
    sizes, is_cut = np.abs(program.margins).astype(serves.dtype), program.is_cut
    served, serving = serves.sum(axis=0), serves.sum(axis=1)
    of_coefficients = max(
        float(np.max(sizes.sum(axis=0) + served, initial=1.0)), float(len(program.labels))
    )
    of_slacks = _spread(program, is_cut) + 1 + program.margin
    primal = [np.full(len(served) + 2, of_coefficients), np.maximum(served, 1.0), of_slacks]
    dual = [sizes.sum(axis=1) + 3 + program.margin, 2 * serving + 2]
    steps = [1 / (primal_weight * part) for part in primal] + [
        primal_weight / part for part in dual
    ]
    return np.concatenate(steps).astype(serves.dtype)


def _spread(program: MasterProgram, values: np.ndarray) -> np.ndarray:
    """For each row the sum of the values [K] of its cuts, [n]."""
    size = len(program.weights)
    sums = np.bincount(program.first, values, size) + np.bincount(program.second, values, size)
    return sums.astype(program.weights.dtype)


def _iterate(host: _Host, vector: np.ndarray) -> np.ndarray:
    """One step of primal-dual hybrid gradient."""
    program, size = host.program, len(host.program.costs)
    *_, weights, pair_weights = np.split(vector, host.splits)
    number = len(vector) - len(weights) - len(pair_weights)
    reduced = program.costs - pair_weights @ host.serves
    balance = weights @ program.labels
    ends = program.constant_cost + np.array([-balance, balance], vector.dtype)
    price = program.weights - (1 + program.margin) * weights - _spread(program, pair_weights)
    slope = np.concatenate([reduced - host.margins.edges(weights), ends, reduced, price])
    aim = vector[:number] - host.sizes[:number] * slope
    votes = _on_simplex(aim[: size + 2])
    extra = np.maximum(aim[size + 2 : 2 * size + 2], 0)
    moved = np.concatenate([votes, extra, np.clip(aim[2 * size + 2 :], 0, 1)])
    ahead = 2 * moved - vector[:number]

    mixed, over = ahead[:size], ahead[2 * size + 2 :]
    reached = host.margins.mixed(mixed) + program.labels * (ahead[size] - ahead[size + 1])
    missed = program.margin - reached - (1 + program.margin) * over
    covered = host.serves @ (mixed + ahead[size + 2 : 2 * size + 2])
    uncovered = 1 - covered - over[program.first] - over[program.second]
    dual = vector[number:] + host.sizes[number:] * np.concatenate([missed, uncovered])
    return np.concatenate([moved, np.maximum(dual, 0)])


def _on_simplex(values: np.ndarray) -> np.ndarray:
    """The projection to the simplex, by Newton's method for the threshold."""
    threshold = values.max() - 1
    for _ in range(_MOST_STEPS):
        above = values[values > threshold]
        moved = (above.sum() - 1) / len(above) if len(above) else threshold
        if moved <= threshold:
            break
        threshold = moved
    return np.maximum(values - threshold, 0)
