"""What the learners of the estimators see of a table: numbers, and bits of the form "x <= 3".

Features are fitted to training rows, and are padded to one of a few sizes, so that tables of
similar size share compiled programs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jboost.base import words
from jboost.base.padding import shared_size
from jboost.data import binarization
from jboost.data.binarization import Binarizer
from jboost.sklearn.tables import LabelledRows

# Sizes double where a fit takes less time than its compilation.
_LEAST_ROWS, _ROWS_DOUBLE_TO = 512, 4096
_LEAST_COLUMNS, _COLUMNS_DOUBLE_TO = 32, 64
# Ten numeric columns cut into ten intervals each make 90 bits; smaller tables are padded to the
# same 128 columns, so that they share programs.
_LEAST_BITS, _BITS_DOUBLE_TO = 128, 256


def padded_rows(num_rows: int) -> int:
    """The number of rows to which so many rows are padded."""
    return shared_size(num_rows, least=_LEAST_ROWS, doubles_to=_ROWS_DOUBLE_TO)


def padded_columns(num_columns: int) -> int:
    """The number of columns to which so many columns are padded."""
    return shared_size(num_columns, least=_LEAST_COLUMNS, doubles_to=_COLUMNS_DOUBLE_TO)


def padded_bits(num_bits: int) -> int:
    """The number of columns to which so many bits are padded, where all features are bits."""
    return shared_size(num_bits, least=_LEAST_BITS, doubles_to=_BITS_DOUBLE_TO)


@dataclasses.dataclass(frozen=True)
class FeatureMap:
    """Maps a table to a matrix: first unchanged numeric columns, then bits.

    A missing number is NaN. Columns of 0 are appended up to `padded_size`.
    """

    plain: tuple[int, ...]  # columns of the table that are features without a change
    binarizer: Binarizer  # makes the bits

    @property
    def size(self) -> int:
        """The number of features, without padding."""
        return len(self.plain) + self.binarizer.num_bits

    @property
    def padded_size(self) -> int:
        """The number of columns of the matrix of a new fit."""
        return padded_columns(self.size) if self.plain else padded_bits(self.size)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each feature: a column, or the condition of a bit."""
        columns = (words.quoted(self.binarizer.names[column]) for column in self.plain)
        return (*columns, *self.binarizer.bit_names)

    @property
    def columns(self) -> np.ndarray:
        """[N] the column of the table that each feature is made of."""
        plain = np.asarray(self.plain, np.int32)
        return np.concatenate([plain, np.asarray(self.binarizer.attributes)])

    def matrix(self, table: np.ndarray, width: int | None = None) -> np.ndarray:
        """The features [k, width] of a table [k, n], in the float type of JAX; without `width` it
        is `padded_size`.
        """
        numbers = np.asarray(binarization.encode(self.binarizer, table))
        bits = binarization.apply_on_host(self.binarizer, numbers)
        parts = [numbers[:, list(self.plain)], bits]
        matrix = np.concatenate([part.astype(numbers.dtype) for part in parts], axis=1)
        missing = (self.padded_size if width is None else width) - self.size
        return np.pad(matrix, ((0, 0), (0, missing)))


def numbers_and_bits(
    rows: LabelledRows, names: Sequence[str], categorical: Sequence[int | str]
) -> FeatureMap:
    """Numeric columns unchanged, and bits for categories and missing values."""
    binarizer = binarization.fit(
        rows.table,
        weights=rows.weights,
        names=names,
        categorical=categorical,
        cuts="none",
        drop_redundant=False,
    )
    plain = tuple(
        column
        for column, texts in enumerate(binarizer.categories)
        if texts is None and column not in _columns_of(categorical, names)
    )
    return FeatureMap(plain, binarizer)


def bits_alone(
    rows: LabelledRows,
    signs: np.ndarray,
    names: Sequence[str],
    categorical: Sequence[int | str],
    *,
    cuts: str,
    num_quantiles: int,
    missing: str,
) -> FeatureMap:
    """Bits for all columns."""
    binarizer = binarization.fit(
        rows.table,
        signs,
        weights=rows.weights,
        names=names,
        categorical=categorical,
        cuts=cuts,
        num_quantiles=num_quantiles,
        missing=missing,
    )
    return FeatureMap((), binarizer)


def _columns_of(categorical: Sequence[int | str], names: Sequence[str]) -> set[int]:
    return {
        list(names).index(entry) if isinstance(entry, str) else int(entry) for entry in categorical
    }


def limit_cuts(matrix: np.ndarray, weights: np.ndarray, fraction: float) -> np.ndarray:
    """Training features [m, N] whose cuts leave at least a fraction of the weight on each side.

    The lowest and the highest values of a column are made equal, up to that weight. A cut between
    other values is the same for the unchanged features.

    >>> import numpy as np
    >>> limit_cuts(np.array([[1.0], [2.0], [3.0], [4.0]]), np.ones(4), 0.5).ravel().tolist()
    [2.0, 2.0, 3.0, 3.0]
    """
    limited = matrix.copy()
    least = fraction * weights.sum()
    for column in limited.T if fraction > 0 else ():
        known = np.flatnonzero(~np.isnan(column))
        order = known[np.argsort(column[known], kind="stable")]
        if len(order):
            column[known] = np.clip(
                column[known],
                column[order[_first_above(weights[order], least)]],
                column[order[::-1][_first_above(weights[order[::-1]], least)]],
            )
    return limited


def _first_above(weights: np.ndarray, least: float) -> int:
    """The first index at which the running sum reaches `least`."""
    return min(int(np.searchsorted(np.cumsum(weights), least)), len(weights) - 1)
