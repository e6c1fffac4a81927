"""Tables, classes and weights of scikit-learn's calls, as arrays.

Every fit starts from the same form of its training rows: rows of weight 0 are dropped, equal rows
of one class are merged to one row of the sum of their weights, and the rows are sorted. So a weight
of 2 and a row that occurs twice give the same model, and the order of the rows does not matter.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from jboost.data import attributes, frames
from jboost.data.binarization import Binarizer
from jboost.sklearn import numbers

_MOST_WEIGHT = 1e30  # of weights that are used as they are; far from the largest float32, 3e38


class LabelledRows(NamedTuple):
    """Labelled training rows."""

    table: np.ndarray  # [r, n] float64, or objects where a column holds text
    codes: np.ndarray  # [r] int, the index of the class
    weights: np.ndarray  # [r] float64, positive

    def signs(self, positive: int) -> np.ndarray:
        """+1 for the class of this index, -1 for the others, [r]."""
        return np.where(self.codes == positive, 1, -1)

    def among(self, keep: np.ndarray) -> LabelledRows:
        """The rows at these indices, or where a mask is True."""
        return LabelledRows(self.table[keep], self.codes[keep], self.weights[keep])


def read_training(
    estimator: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reads the arguments of `fit`, and sets `n_features_in_` and `feature_names_in_`.

    Returns:
      The table [m, n], the labels [m] and the weights [m].

    Raises:
      ValueError: in the words of scikit-learn, where an argument is not as it must be; and for a
        number that is infinite, or too large for the float type of JAX.

    Warns:
      UserWarning: naming a column that loses more than half of its distinct numbers in the float
        type of JAX.
    """
    if frames.is_frame(X):
        validate_data(estimator, X=X, y=y, skip_check_array=True)
        table = _table_of_frame(X)
    else:
        options = _options(estimator)
        checked, y = validate_data(estimator, X=X, y=y, multi_output=True, **options)
        table = attributes.as_table(checked)
    labels = _labels(y, len(table))
    weights = _check_sample_weight(sample_weight, table, dtype=np.float64, ensure_non_negative=True)
    table = _with_numbers(table)
    names = getattr(estimator, "feature_names_in_", range(table.shape[1]))
    numbers.validate(table, names, weights > 0)
    return table, labels, weights


def read_features(estimator: Any, X: Any, *, reset: bool) -> np.ndarray:
    """Reads a table [k, n]; with `reset` it sets the number and the names of the columns.

    Raises:
      ValueError: in the words of scikit-learn, naming the columns that are not those of `fit`;
        without `reset` also naming those that held text in `fit` and hold numbers here, or the
        reverse.
    """
    if frames.is_frame(X):
        validate_data(estimator, X=X, reset=reset, skip_check_array=True)
        table = _table_of_frame(X)
    else:
        checked = validate_data(estimator, X=X, reset=reset, **_options(estimator))
        table = attributes.as_table(checked)
    if not reset and estimator._binarizer is not None:
        _require_kinds(table, estimator._binarizer)
    return _with_numbers(table)


def merge(table: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> LabelledRows:
    """The rows of positive weight, sorted, equal rows of one class as one of the sum of weights.

    >>> import numpy as np
    >>> rows = merge(
    ...     np.array([[2.0], [1.0], [2.0]]), np.array([1, 0, 1]), np.array([1.0, 2.0, 3.0])
    ... )
    >>> rows.table.tolist(), rows.codes.tolist(), rows.weights.tolist()
    ([[1.0], [2.0]], [0, 1], [2.0, 4.0])
    """
    kept = np.flatnonzero(weights > 0)
    table, codes, weights = table[kept], codes[kept], weights[kept]
    numbers = _numbers(table) + 0.0  # -0 becomes 0
    numbers[np.isnan(numbers)] = np.nan  # one bit pattern for all missing values
    keys = np.ascontiguousarray(np.column_stack([numbers, codes.astype(np.float64)]))
    _, first, group = np.unique(
        _order_preserving(keys), axis=0, return_index=True, return_inverse=True
    )
    sums = np.bincount(group.reshape(-1), weights=weights, minlength=len(first))
    return LabelledRows(table[first], codes[first], sums)


def patterns(rows: LabelledRows) -> np.ndarray:
    """The index of the distinct row of features of each merged row, [r]. Where equal rows of one
    class are not merged, every row has an index of its own.

    >>> import numpy as np
    >>> table = np.array([[1.0], [2.0], [2.0], [np.nan]])
    >>> patterns(merge(table, np.array([0, 1, 0, 0]), np.ones(4))).tolist()
    [0, 1, 1, 2]
    """
    numbers = _numbers(rows.table)
    one, following = numbers[:-1], numbers[1:]
    differs = (one != following) & ~(np.isnan(one) & np.isnan(following))
    found = np.concatenate([[0], np.cumsum(differs.any(axis=1))])
    is_merged = len(np.unique(np.stack([found, rows.codes]), axis=1).T) == len(rows.codes)
    return found if is_merged else np.arange(len(rows.codes))


def sort(table: np.ndarray, codes: np.ndarray) -> LabelledRows:
    """All rows, sorted, each with the weight 1."""
    keys = np.column_stack([_numbers(table) + 0.0, codes.astype(np.float64)])
    order = np.lexsort(keys.T[::-1])
    return LabelledRows(table[order], codes[order], np.ones(len(order)))


def class_weights(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The factor of the weight of each class, [K], of scikit-learn's `class_weight`."""
    if class_weight is None:
        return np.ones(len(classes))
    factors = compute_class_weight(
        class_weight, classes=classes, y=classes[codes], sample_weight=weights
    )
    if not (np.isfinite(factors) & (factors >= 0)).all() or not factors.any():
        raise ValueError(
            f"class_weight gives the classes {classes.tolist()} the weights {factors.tolist()}:"
            " expected finite numbers, none negative and not all 0"
        )
    return moderate(factors)


def moderate(weights: np.ndarray) -> np.ndarray:
    """The weights, multiplied by a power of two if the largest is beyond `_MOST_WEIGHT` or below
    1 / `_MOST_WEIGHT`, so that it is between 1/2 and 1.

    Weights near 1e300 have infinite sums, and those near 1e-300 are 0 in float32.

    >>> import numpy as np
    >>> moderate(np.array([1.0, 4.0])).tolist(), moderate(np.ldexp([0.0, 1.0, 2.0], 1000)).tolist()
    ([1.0, 4.0], [0.0, 0.25, 0.5])
    """
    most = float(weights.max(initial=0.0))
    if most == 0 or 1 / _MOST_WEIGHT <= most <= _MOST_WEIGHT or not np.isfinite(most):
        return weights
    return np.ldexp(weights, -int(np.frexp(most)[1]))


def _options(estimator: Any) -> dict[str, Any]:
    tags = estimator.__sklearn_tags__().input_tags
    return {
        "dtype": None if tags.string else np.float64,
        "accept_sparse": ("csr",) if tags.sparse else False,
        "ensure_all_finite": "allow-nan" if tags.allow_nan else True,
    }


def _require_kinds(table: np.ndarray, binarizer: Binarizer) -> None:
    """Raises ValueError, naming all columns whose kind is not that of `fit`."""
    differing = []
    for column, name, texts in zip(table.T, binarizer.names, binarizer.categories, strict=True):
        has_text = _has_text(column)
        # texts such as "3" are categories of numbers, too
        is_of_texts = bool(texts) and not any(map(_is_number, texts or ()))
        if texts is None and has_text:
            differing.append(f"{name!r} had numbers in fit and has text")
        elif is_of_texts and not has_text and _has_numbers(column):
            differing.append(f"{name!r} had text in fit and has numbers")
    if differing:
        raise ValueError(
            f"X has columns of another kind than in fit: {'; '.join(differing)}: pass what fit got,"
            " and NaN or None where a value is unknown"
        )


def _has_text(column: np.ndarray) -> bool:
    return column.dtype == object and any(isinstance(value, str) for value in column)


def _has_numbers(column: np.ndarray) -> bool:
    if column.dtype == object:
        return any(not isinstance(one, str) and not frames.is_missing(one) for one in column)
    return not np.isnan(column).all() if column.dtype.kind == "f" else len(column) > 0


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _table_of_frame(frame: Any) -> np.ndarray:
    if 0 in frame.shape:
        raise ValueError(
            f"Found array with {frame.shape[0]} sample(s) and {frame.shape[1]} feature(s)"
            f" (shape={frame.shape}) while a minimum of 1 is required."
        )
    return frames.to_table(frame)


def _with_numbers(table: np.ndarray) -> np.ndarray:
    """Numbers as float64; objects where a column holds text."""
    if table.dtype != object:
        return table.astype(np.float64)
    if any(_texts(column, index) is not None for index, column in enumerate(table.T)):
        return table
    return _numbers(table)


def _numbers(table: np.ndarray) -> np.ndarray:
    """The table as float64 [m, n], text as its index among the texts of its column."""
    if table.dtype != object:
        return np.array(table, np.float64)
    names = [str(index) for index in range(table.shape[1])]
    categories = [_texts(column, index) for index, column in enumerate(table.T)]
    return attributes.to_numbers(table, categories, names, np.arange(len(table)))


def _texts(column: np.ndarray, index: int) -> tuple[str, ...] | None:
    return attributes.texts_of(column, str(index), np.arange(len(column)))


def _labels(y: Any, num_rows: int) -> np.ndarray:
    labels = read_labels(y)
    if len(labels) != num_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {[num_rows, len(labels)]}"
        )
    return labels


def read_labels(y: Any) -> np.ndarray:
    """The labels of rows, [m].

    Raises:
      ValueError: unless they are finite and of classes.
    """
    labels = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


def _order_preserving(keys: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats; NaN is the greatest, and equal to itself."""
    bits = keys.view(np.int64)
    return np.where(bits >= 0, bits, bits ^ np.int64(0x7FFFFFFFFFFFFFFF))
