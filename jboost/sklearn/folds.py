"""Folds of training rows, for the choice of parameters and for calibration."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold, check_cv

from jboost.sklearn.tables import Rows, merge


class Fold(NamedTuple):
    """The rows that a fold trains on, and those that it is tested on."""

    training: Rows
    testing: Rows


def make(
    cv: Any,
    rows: Rows,
    table: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    groups: Any,
    random_state: Any,
) -> list[Fold]:
    """The folds of a number or of a splitter of scikit-learn.

    A number splits the merged rows, so that equal rows are in one fold, and is reduced to the
    number of rows of the smallest class. A splitter splits the rows of `fit`.

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
    for index, part in enumerate(parts):
        if len(part.training.codes) == 0:
            raise ValueError(
                f"cv has no row of positive weight to train on in fold {index}: pass another"
                " splitter, or leave out rows of weight 0"
            )
    return parts


def _of_number(num_folds: int, rows: Rows, random_state: Any) -> list[Fold]:
    if num_folds < 2:
        raise ValueError(f"cv is {num_folds}: expected at least 2 folds")
    smallest = int(np.bincount(rows.codes)[np.unique(rows.codes)].min())
    if smallest < 2:
        return []
    splitter = StratifiedKFold(min(num_folds, smallest), shuffle=True, random_state=random_state)
    return [
        Fold(rows.among(training), rows.among(testing))
        for training, testing in splitter.split(rows.table, rows.codes)
    ]
