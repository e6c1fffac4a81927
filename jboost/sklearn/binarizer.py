"""Binarization as a transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from jboost.data import binarization
from jboost.sklearn import tables


class Binarizer(TransformerMixin, BaseEstimator):
    """Columns of numbers, categories and missing values as bits, as a transformer of scikit-learn
    (`jboost.data.binarization.fit`).

    Args:
      cuts: where numbers are cut, as of `jboost.data.binarization.fit`; "class_changes" needs
        labels of two classes.
      num_quantiles: the number of parts for "quantiles".
      categorical: names or indices of columns whose numbers are categories.
      missing: "literal" for a bit of its own where a value is missing; "none" for NaN in all bits
        of the column.
      drop_redundant: whether bits are left out that equal another one, or its complement.

    Attributes after `fit`: `binarizer_` (a `jboost.data.binarization.Binarizer`),
    `n_features_in_`, `feature_names_in_`.

    >>> import numpy as np
    >>> bits = Binarizer(num_quantiles=2).fit(np.array([[1.0], [2.0], [np.nan], [4.0]]))
    >>> bits.get_feature_names_out().tolist()
    ['x0 <= 1.5', 'x0 is missing']
    >>> bits.transform([[5.0], [np.nan]]).tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """

    def __init__(
        self,
        *,
        cuts: str = "quantiles",
        num_quantiles: int = 10,
        categorical: Any = (),
        missing: str = "literal",
        drop_redundant: bool = True,
    ) -> None:
        self.cuts = cuts
        self.num_quantiles = num_quantiles
        self.categorical = categorical
        self.missing = missing
        self.drop_redundant = drop_redundant

    def fit(self, X: Any, y: Any = None) -> Binarizer:
        """Finds the bits; `y` [m] is needed for cuts that look at labels, and ignored otherwise."""
        table = tables.read_features(self, X, reset=True)
        named = getattr(self, "feature_names_in_", None)
        names = [f"x{index}" for index in range(self.n_features_in_)] if named is None else [*named]
        self.binarizer_ = binarization.fit(
            table,
            self._signs(y),
            names=names,
            categorical=self.categorical,
            cuts=self.cuts,
            num_quantiles=self.num_quantiles,
            missing=self.missing,
            drop_redundant=self.drop_redundant,
        )
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The bits of rows, [k, N] floats 0 and 1, NaN where nothing is known."""
        check_is_fitted(self)
        table = tables.read_features(self, X, reset=False)
        numbers = np.asarray(binarization.encode(self.binarizer_, table))
        return binarization.apply_on_host(self.binarizer_, numbers)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The condition of each bit, [N] texts."""
        check_is_fitted(self)
        expected = getattr(self, "feature_names_in_", None)
        given = None if input_features is None else [*input_features]
        if given is not None and expected is not None and given != [*expected]:
            raise ValueError("input_features is not equal to feature_names_in_")
        return np.asarray(self.binarizer_.bit_names, object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []  # bits have the float type of JAX
        tags.target_tags.required = self.cuts == "class_changes"
        return tags

    @property
    def _binarizer(self) -> binarization.Binarizer:
        """What knows which columns held text in `fit`."""
        return self.binarizer_

    def _signs(self, y: Any) -> np.ndarray | None:
        if self.cuts != "class_changes":
            return None
        labels = column_or_1d(y)
        check_classification_targets(labels)
        classes = np.unique(labels)
        if len(classes) > 2:
            raise ValueError(
                f"y has {len(classes)} classes: cuts 'class_changes' needs two; pass 'quantiles'"
            )
        return np.where(labels == classes[-1], 1, -1)
