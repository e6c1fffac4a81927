"""The features that boosting computes from a table.

The features depend on the learner:

- stumps and trees: numeric columns unchanged, and bits for categories and missing values. With
  --cuts, numeric columns become bits too. A stump abstains on a missing number, and a tree has a
  side for it.
- literals and monomials: bits only.
- mlp: the features of stumps, with 0 for a missing value.
- pool: numeric columns only, which must be outputs of classifiers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jboost.base import words
from jboost.cli import bits as bit_module
from jboost.cli import inputs
from jboost.cli.inputs import HostExamples, Source
from jboost.cli.option import MONOMIALS, UNCUT
from jboost.cli.options import Settings
from jboost.data.binarization import Binarizer
from jboost.data.table import Table

_TEXT_IS_LEFT_OUT = "pool"
# Copies of all bits that are in memory at a time: on the host, padded, and sorted by the learner.
_COPIES = 8
# Learners for which padding columns of NaN change no result and cost no time. Monomials accept NaN
# too, but their search takes longer then.
_PADDED_BY_GAPS = ("stumps", "literals", "trees")


@dataclasses.dataclass(frozen=True)
class TableFeatures:
    """The features of a table: first the unchanged numeric columns, then the bits."""

    numeric: tuple[str, ...]  # the columns that are read as numbers
    categorical: tuple[str, ...]  # the columns that are read as text
    plain: tuple[str, ...]  # the numeric columns that are features without a change
    binarizer: Binarizer  # makes the bits from the numeric and categorical columns

    @property
    def size(self) -> int:
        """The number of features, N."""
        return len(self.plain) + self.binarizer.num_bits

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each feature: a column, or the condition of a bit."""
        return (
            *(words.quoted(" ".join(name.splitlines())) for name in self.plain),
            *self.binarizer.bit_names,
        )

    def columns_at(self, indices: Sequence[int]) -> set[str]:
        """Returns the columns of the table from which the features at these indices are made."""
        bits = [index - len(self.plain) for index in indices if index >= len(self.plain)]
        attributes = np.asarray(self.binarizer.attributes)[bits]
        return {self.plain[index] for index in indices if index < len(self.plain)} | {
            self.binarizer.names[attribute] for attribute in attributes
        }


def fit(source: Source, settings: Settings) -> TableFeatures:
    """Returns the features for the training rows. Raises ValueError if there are none."""
    table, labels = source.table, source.table.labels
    assert labels is not None
    if settings.learner == _TEXT_IS_LEFT_OUT:
        return _numeric_features(source, labels, settings)
    numeric, categorical = tuple(table.numeric), tuple(table.categorical)
    rows, names = table.matrix(numeric, categorical), (*numeric, *categorical)
    binarizer = bit_module.fit(
        rows, labels, source.weights, names, settings, source=table.source, copies=_COPIES
    )
    found = TableFeatures(
        numeric, categorical, numeric if settings.cuts == UNCUT else (), binarizer
    )
    if found.size == 0:
        raise ValueError(
            f"{table.source}: no column takes two values on the training rows: provide columns that"
            " vary"
        )
    if settings.learner == MONOMIALS and settings.max_order > found.size:
        raise ValueError(
            f"max_order is {settings.max_order}, and the columns of {table.source} give"
            f" {found.size} bits: choose --max-order {found.size} or less"
        )
    return found


def _numeric_features(source: Source, labels: np.ndarray, settings: Settings) -> TableFeatures:
    """Returns the numeric columns as features, without bits."""
    table, numeric = source.table, tuple(source.table.numeric)
    if not numeric:
        raise ValueError(
            f"{table.source}: no numeric columns, which the learner pool requires: use"
            " --learner stumps"
        )
    rows = table.matrix((), ())
    binarizer = bit_module.fit(
        rows, labels, source.weights, (), settings, source=table.source, copies=_COPIES
    )
    return TableFeatures(numeric, (), numeric, binarizer)


def left_out_notes(table: Table, settings: Settings) -> tuple[str, ...]:
    """Returns notes on the columns that the learner does not use."""
    names = ", ".join(table.categorical) if settings.learner == _TEXT_IS_LEFT_OUT else ""
    return (
        (f"the learner pool uses numeric columns: text columns are left out ({names})",)
        if names
        else ()
    )


def read_examples(features: TableFeatures, source: Source, settings: Settings) -> HostExamples:
    """Returns the features, labels and weights in the precision of the settings."""
    matrix = read_features(features, source.table, settings.learner, settings.precision)
    return inputs.cast_examples(matrix, source, settings, may_miss=True)


def read_features(
    features: TableFeatures, table: Table, learner: str, precision: str
) -> np.ndarray:
    """Returns the features [m, N] of the rows of a table, with NaN for missing values.

    Raises:
      ValueError: if the learner does not accept a value. The message names its row.
    """
    if learner == _TEXT_IS_LEFT_OUT:
        columns = [table.numbers(name) for name in features.plain]
        for name, column in zip(features.plain, columns, strict=True):
            _check_output(table, name, column)
        return np.stack(columns, axis=1)
    bits = bit_module.apply(
        features.binarizer, table.matrix(features.numeric, features.categorical), precision
    )
    matrix = np.concatenate([table.matrix(features.plain, ()), bits.astype(np.float64)], axis=1)
    return np.nan_to_num(matrix, nan=0.0) if learner == "mlp" else matrix


def widened(examples: HostExamples, width: int, learner: str) -> HostExamples:
    """Returns the examples with padding columns appended, so that there are `width` columns.

    The padding does not change the result: it is NaN, or 0 for other learners than those of
    `_PADDED_BY_GAPS`.
    """
    fill = np.nan if learner in _PADDED_BY_GAPS else 0.0
    points = np.pad(
        examples.points, ((0, 0), (0, width - examples.points.shape[1])), constant_values=fill
    )
    return dataclasses.replace(examples, points=points)


def _check_output(table: Table, name: str, column: np.ndarray) -> None:
    """Raises ValueError, naming the row, if a value of the column is outside [-1, 1]."""
    wrong = ~(np.abs(column) <= 1)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{table.source}: column '{name}' holds {column[row]:g} in row {row + 1}: the learner"
            " pool requires outputs in [-1, 1]: scale the column, or use --learner"
            f" stumps{table.line(row)}"
        )
