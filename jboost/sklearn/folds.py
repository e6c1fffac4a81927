"""Folds of training rows, for the choice of parameters and for calibration."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold, check_cv

from jboost.sklearn.tables import LabelledRows, merge

_ROUNDING = 1e-9  # relative, of sums of weights


class Fold(NamedTuple):
    """The rows that a fold trains on, and those that it is tested on."""

    training: LabelledRows
    testing: LabelledRows


def make(
    cv: Any,
    rows: LabelledRows,
    table: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    groups: Any,
    random_state: Any,
) -> list[Fold]:
    """The folds of a number or of a splitter of scikit-learn.

    A number splits the merged rows, so that equal rows are in one fold, and is reduced to the
    number of rows of the smallest class. A merged row that weighs more than a fold of its class
    does not fit into one: each of k folds holds out 1 / k of its weight. A splitter splits the rows
    of `fit`.

    Args:
      cv: a number of folds, at least 2; or a splitter or an iterable of pairs of indices.
      rows: the merged training rows.
      table: [m, n] the rows of `fit`.
      codes: [m] the index of the class of each.
      weights: [m].
      groups: [m] for splitters that take groups, or None.
      random_state: of the shuffle, where `cv` is a number.

    Returns:
      The folds; an empty list where the smallest class has one row and `cv` is a number.

    Raises:
      ValueError: naming `cv`, if it is no number of folds or a fold has nothing to train on.
    """
    if isinstance(cv, numbers.Integral) and not isinstance(cv, bool):
        return _of_number(int(cv), rows, random_state)
    splitter = check_cv(cv, codes, classifier=True)
    parts = [
        Fold(
            merge(table[training], codes[training], weights[training]),
            merge(table[testing], codes[testing], weights[testing]),
        )
        for training, testing in splitter.split(table, codes, groups)
    ]
    if not parts:
        raise ValueError("cv has no folds: expected pairs of indices, or at least 2 folds")
    for index, part in enumerate(parts):
        if len(part.training.codes) == 0:
            raise ValueError(
                f"cv has no row of positive weight to train on in fold {index}: pass another"
                " splitter, or leave out rows of weight 0"
            )
    return parts


def _of_number(num_folds: int, rows: LabelledRows, random_state: Any) -> list[Fold]:
    if num_folds < 2:
        raise ValueError(f"cv is {num_folds}: expected at least 2 folds")
    smallest = int(np.bincount(rows.codes)[np.unique(rows.codes)].min())
    if smallest < 2:
        return []
    count = min(num_folds, smallest)
    splitter = StratifiedKFold(count, shuffle=True, random_state=random_state)
    of_class = np.bincount(rows.codes, rows.weights)[rows.codes]
    outweighs_fold = rows.weights * count > of_class * (1 + _ROUNDING)
    parts = []
    for _, testing in splitter.split(rows.table, rows.codes):
        held_out = np.zeros(len(rows.codes))
        held_out[testing] = 1.0
        held_out[outweighs_fold] = 1 / count
        parts.append(Fold(_share(rows, 1 - held_out), _share(rows, held_out)))
    return parts


def _share(rows: LabelledRows, shares: np.ndarray) -> LabelledRows:
    """The rows with these shares [r] of their weights, without those of share 0."""
    return rows._replace(weights=rows.weights * shares).among(shares > 0)
