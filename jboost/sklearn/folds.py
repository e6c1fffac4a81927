"""Folds of training rows, for the choice of parameters and for calibration."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold, check_cv

from jboost.sklearn.tables import LabelledRows, merge, patterns

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

    A number splits the distinct rows of features, so that merged rows are in one fold whatever
    their classes, and is reduced to the number of these rows of the smallest class. A row that
    weighs more than a fold of its class does not fit into one: each of k folds holds out 1 / k of
    the weight of all rows with its features. A splitter splits the rows of `fit`.

    Args:
      cv: a number of folds, at least 2; or a splitter or an iterable of pairs of indices.
      rows: the training rows, merged or not.
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
    pattern_of = patterns(rows)
    strata = _rarest_class(rows.codes, pattern_of)
    smallest = int(np.bincount(strata)[np.unique(strata)].min())
    if smallest < 2:
        return []
    count = min(num_folds, smallest)
    splitter = StratifiedKFold(count, shuffle=True, random_state=random_state)
    of_class = np.bincount(rows.codes, rows.weights)[rows.codes]
    outweighs_fold = np.zeros(len(strata), bool)
    outweighs_fold[pattern_of[rows.weights * count > of_class * (1 + _ROUNDING)]] = True
    parts = []
    for _, testing in splitter.split(strata, strata):
        held_out = np.zeros(len(strata))
        held_out[testing] = 1.0
        held_out[outweighs_fold] = 1 / count
        of_row = held_out[pattern_of]
        parts.append(Fold(_share(rows, 1 - of_row), _share(rows, of_row)))
    return parts


def _rarest_class(codes: np.ndarray, pattern_of: np.ndarray) -> np.ndarray:
    """The class of each distinct row of features; of several classes that of the fewest rows, so
    that the folds share the rows of this class evenly.
    """
    order = np.argsort(np.bincount(codes), kind="stable")
    rank = np.argsort(order)
    least = np.full(pattern_of.max() + 1, len(order))
    np.minimum.at(least, pattern_of, rank[codes])
    rarest: np.ndarray = order[least]
    return rarest


def _share(rows: LabelledRows, shares: np.ndarray) -> LabelledRows:
    """The rows with these shares [r] of their weights, without those of share 0."""
    return rows._replace(weights=rows.weights * shares).among(shares > 0)
