"""What boosting sees of a table: numeric columns as they are, and bits for categories and for
missing values.

A learner of stumps finds thresholds of its own, so that numeric columns stay as they are; --cuts
makes bits of them, too. A stump abstains where the number that it looks at is missing, and whether
one is missing is a bit of its own (--missing literal). The learner literals takes bits alone. A
network takes what stumps take, and 0 for what is missing. A pool takes numeric columns alone:
outputs of classifiers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jboost.base import words
from jboost.cli import bits as bit_room
from jboost.cli import inputs
from jboost.cli.inputs import Examples, Source
from jboost.cli.option import UNCUT
from jboost.cli.options import Settings
from jboost.data.binarization import Binarizer
from jboost.data.table import Table

_TEXT_IS_LEFT_OUT = "pool"
_COPIES = 8  # of all bits, that are held at a time: on the host, padded, and sorted by the learner
_TAKES_GAPS = ("stumps", "literals")


@dataclasses.dataclass(frozen=True)
class Features:
    """Which features a table is turned into: some columns as they are, then bits."""

    numeric: tuple[str, ...]  # columns that are read, as numbers
    categorical: tuple[str, ...]  # and as text
    plain: tuple[str, ...]  # of the numeric ones, those that are features as they are
    binarizer: Binarizer  # of the numeric and categorical columns

    @property
    def size(self) -> int:
        """N."""
        return len(self.plain) + self.binarizer.num_bits

    @property
    def names(self) -> tuple[str, ...]:
        """What each feature is, in words: a column, or a condition."""
        return (
            *(words.quoted(" ".join(name.splitlines())) for name in self.plain),
            *self.binarizer.bit_names,
        )

    def columns_at(self, places: Sequence[int]) -> set[str]:
        """The columns of the table that features at these places are made of."""
        bits = [place - len(self.plain) for place in places if place >= len(self.plain)]
        attributes = np.asarray(self.binarizer.attributes)[bits]
        return {self.plain[place] for place in places if place < len(self.plain)} | {
            self.binarizer.names[attribute] for attribute in attributes
        }


def fit(source: Source, settings: Settings) -> Features:
    """The features that training rows call for; ValueError where there are none."""
    table, labels = source.table, source.table.labels
    assert labels is not None
    numeric, categorical = tuple(table.numeric), tuple(table.categorical)
    if settings.learner == _TEXT_IS_LEFT_OUT:
        if not numeric:
            raise ValueError(
                f"{table.source}: no numeric columns, and the learner pool takes no others: take"
                " --learner stumps"
            )
        return Features(
            numeric,
            (),
            numeric,
            bit_room.fit(
                table.matrix((), ()),
                labels,
                source.weights,
                (),
                settings,
                source=table.source,
                copies=_COPIES,
            ),
        )
    rows, names = table.matrix(numeric, categorical), (*numeric, *categorical)
    binarizer = bit_room.fit(
        rows, labels, source.weights, names, settings, source=table.source, copies=_COPIES
    )
    found = Features(numeric, categorical, numeric if settings.cuts == UNCUT else (), binarizer)
    if found.size == 0:
        raise ValueError(
            f"{table.source}: no column takes two values on the training rows, so there is nothing"
            " to ask: give columns that vary"
        )
    return found


def left_out_notes(table: Table, settings: Settings) -> tuple[str, ...]:
    """Which columns boosting does not look at."""
    names = ", ".join(table.categorical) if settings.learner == _TEXT_IS_LEFT_OUT else ""
    return (
        (f"the learner pool takes numeric columns: text columns are left out ({names})",)
        if names
        else ()
    )


def read_examples(features: Features, source: Source, settings: Settings) -> Examples:
    """Features, labels and weights in the precision that was asked for."""
    matrix = read_features(features, source.table, settings.learner, settings.precision)
    return inputs.cast_examples(matrix, source, settings, may_miss=True)


def read_features(features: Features, table: Table, learner: str, precision: str) -> np.ndarray:
    """The features [m, N] of the rows of a table, NaN where missing; ValueError with the row where
    the learner cannot take a value.
    """
    if learner == _TEXT_IS_LEFT_OUT:
        columns = [table.numbers(name) for name in features.plain]
        for name, column in zip(features.plain, columns, strict=True):
            _check_output(table, name, column)
        return np.stack(columns, axis=1)
    bits = bit_room.apply(
        features.binarizer, table.matrix(features.numeric, features.categorical), precision
    )
    matrix = np.concatenate([table.matrix(features.plain, ()), bits.astype(np.float64)], axis=1)
    return np.nan_to_num(matrix, nan=0.0) if learner == "mlp" else matrix


def widened(examples: Examples, width: int, learner: str) -> Examples:
    """With columns behind that change no result, `width` in all: missing everywhere, or of zeros
    for a learner that takes no gaps.
    """
    fill = np.nan if learner in _TAKES_GAPS else 0.0
    points = np.pad(
        examples.points, ((0, 0), (0, width - examples.points.shape[1])), constant_values=fill
    )
    return dataclasses.replace(examples, points=points)


def _check_output(table: Table, name: str, column: np.ndarray) -> None:
    """Raises ValueError, naming the row, unless a column is the output of a classifier."""
    wrong = ~(np.abs(column) <= 1)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{table.source}: column '{name}' holds {column[row]:g} in row {row + 1}: the learner"
            " pool takes outputs in [-1, 1]: scale the column, or take --learner"
            f" stumps{table.line(row)}"
        )
