"""Probabilities from scores: scikit-learn's sigmoid (Platt 1999) or isotonic regression, fitted to
scores of rows that the vote was not trained on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold

METHODS = ("sigmoid", "isotonic")
_ABOVE_HALF = float(np.nextafter(0.5, 1.0))


@dataclasses.dataclass(frozen=True)
class Sigmoid:
    """1 / (1 + exp(slope * score + intercept)), with slope <= 0."""

    slope: float
    intercept: float

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """The probability of each score."""
        exponent = np.clip(self.slope * scores + self.intercept, -700.0, 700.0)  # exp is finite
        return 1.0 / (1.0 + np.exp(exponent))


@dataclasses.dataclass(frozen=True)
class Isotonic:
    """A nondecreasing function that is linear between its knots."""

    scores: np.ndarray  # [k] increasing
    probabilities: np.ndarray  # [k] nondecreasing

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """The probability of each score."""
        return np.interp(scores, self.scores, self.probabilities)


@dataclasses.dataclass(frozen=True)
class Calibration:
    """The probability of a class as a nondecreasing function of the score.

    The probability of a positive score is above 1/2, and that of others is at most 1/2, so that the
    class of highest probability is the predicted one: where the fitted function says otherwise, the
    probability is 1/2, or the next number above it. All others are those of the fitted function.
    """

    function: Sigmoid | Isotonic
    base_rate: float  # of rows on which nothing votes

    def __call__(self, scores: np.ndarray, is_covered: np.ndarray) -> np.ndarray:
        """The probability of each score [k]; the base rate where `is_covered` [k] is False."""
        found = self.function(scores)
        above, below = np.maximum(found, _ABOVE_HALF), np.minimum(found, 0.5)
        return np.where(is_covered, np.where(scores > 0, above, below), self.base_rate)


def fit(
    scores: np.ndarray,
    is_class: np.ndarray,
    weights: np.ndarray,
    method: str,
    *,
    is_covered: np.ndarray,
    base_rate: float,
) -> Calibration:
    """The probability of a class as a nondecreasing function of the score.

    Args:
      scores: [k] of rows that the vote was not trained on.
      is_class: [k] bool.
      weights: [k] positive.
      method: of `METHODS`.
      is_covered: [k] bool, whether anything votes on the row.
      base_rate: the probability where nothing votes.

    >>> import numpy as np
    >>> scores, is_class = np.array([-1.0, 1.0, 2.0]), np.array([False, True, True])
    >>> covered = np.ones(3, bool)
    >>> found = fit(scores, is_class, np.ones(3), "sigmoid", is_covered=covered, base_rate=0.5)
    >>> bool((np.diff(found(scores, covered)) > 0).all())
    True
    """
    function = _function(scores[is_covered], is_class[is_covered], weights[is_covered], method)
    # without a function the base rate of all rows remains
    constant = Isotonic(np.zeros(1), np.full(1, base_rate))
    return Calibration(function or constant, base_rate)


def is_available(estimator: Any) -> bool:
    """Whether the estimator has `predict_proba`; for scikit-learn's `available_if`.

    Raises:
      AttributeError: if its `calibration` is None.
    """
    if estimator.calibration is None:
        raise AttributeError(
            "predict_proba needs calibration='sigmoid' or 'isotonic' in the constructor; it is None"
        )
    return True


def validate(calibration: Any) -> None:
    """Raises ValueError unless the parameter `calibration` is None or one of `METHODS`."""
    if calibration not in (None, *METHODS):
        raise ValueError(f"calibration is {calibration!r}: expected None, 'sigmoid' or 'isotonic'")


def folds(
    labels: np.ndarray, weights: np.ndarray, num_folds: int, **options: Any
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of indices of the rows that a fold trains on and of those that it is tested on, without
    rows of weight 0; none where a class has fewer than two rows.

    Args:
      labels: [m]; weights: [m] not negative.
      num_folds: at most so many; fewer where a class has fewer rows.
      options: of `sklearn.model_selection.StratifiedKFold`.

    >>> import numpy as np
    >>> found = folds(np.array([0, 0, 1, 1, 1]), np.array([1.0, 1.0, 0.0, 1.0, 1.0]), 5)
    >>> [testing.tolist() for _, testing in found]
    [[0, 3], [1, 4]]
    """
    kept = np.flatnonzero(weights > 0)
    smallest = int(np.unique(labels[kept], return_counts=True)[1].min())
    if smallest < 2:
        return []
    splitter = StratifiedKFold(min(num_folds, smallest), **options)
    return [(kept[one], kept[other]) for one, other in splitter.split(kept, labels[kept])]


def fit_votes(
    scores: np.ndarray,
    is_covered: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    base_rates: np.ndarray,
    method: str | None,
) -> list[Calibration]:
    """The calibration of each of V votes for K classes: V = K, or one vote for the second of two.

    Args:
      scores: [k, V] of rows that the votes were not trained on; if a class has fewer than two rows,
        of the rows they were trained on.
      is_covered: [k, V] bool, whether anything votes on the row.
      codes: [k] the index of the class.
      weights: [k] positive.
      base_rates: [K] the share of each class.
      method: of `METHODS`; None for an empty list.

    >>> import numpy as np
    >>> scores, rates = np.array([[-1.0], [1.0], [2.0]]), np.array([1 / 3, 2 / 3])
    >>> codes, covered = np.array([0, 1, 1]), np.ones((3, 1), bool)
    >>> len(fit_votes(scores, covered, codes, np.ones(3), rates, "isotonic"))
    1
    """
    if method is None:
        return []
    num_votes = scores.shape[1]
    first = len(base_rates) - num_votes
    return [
        fit(
            scores[:, index],
            codes == index + first,
            weights,
            method,
            is_covered=is_covered[:, index],
            base_rate=float(base_rates[index + first]),
        )
        for index in range(num_votes)
    ]


def probabilities(
    calibrations: Sequence[Calibration],
    scores: np.ndarray,
    is_covered: np.ndarray,
    predicted: np.ndarray,
) -> np.ndarray:
    """The probability of each class, [k, K]: K = 2 for one vote, else K is the number of votes.

    Args:
      calibrations: of V votes.
      scores: [k, V].
      is_covered: [k, V] bool, whether anything votes on the row.
      predicted: [k] the index of the vote whose class is predicted; of one vote it is ignored, and
        so it is where nothing votes: there the class of highest base rate is predicted.

    >>> import numpy as np
    >>> scores, rates = np.array([[-1.0], [1.0], [2.0]]), np.array([1 / 3, 2 / 3])
    >>> codes, covered = np.array([0, 1, 1]), np.ones((3, 1), bool)
    >>> found = fit_votes(scores, covered, codes, np.ones(3), rates, "isotonic")
    >>> probabilities(found, scores, covered, np.zeros(3, int)).argmax(axis=1).tolist()
    [0, 1, 1]
    """
    found = np.stack(
        [
            calibrate(scores[:, index], is_covered[:, index])
            for index, calibrate in enumerate(calibrations)
        ],
        axis=1,
    )
    found = np.clip(found, 0.0, 1.0)  # sums of extreme weights are rounded
    if found.shape[1] == 1:
        return np.concatenate([1 - found, found], axis=1)
    return normalize(found, np.where(is_covered.any(axis=1), predicted, found.argmax(axis=1)))


def base_rates(codes: np.ndarray, weights: np.ndarray, num_classes: int) -> np.ndarray:
    """The share of each class in the weight of rows, [K]; NaN where there is none.

    Of two classes the first share is 1 minus the second, as `probabilities` computes it.

    >>> import numpy as np
    >>> base_rates(np.array([0, 1, 1]), np.array([1.0, 1.0, 2.0]), 2).tolist()
    [0.25, 0.75]
    """
    shares = np.minimum(np.bincount(codes, weights, num_classes) / weights.sum(), 1.0)
    return np.array([1 - shares[1], shares[1]]) if num_classes == 2 else shares


def normalize(probabilities: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Probabilities [k, K] of each class against the others, as ones whose sum is 1.

    The classes are calibrated one by one, so the class of highest score need not have the highest
    probability. Where it has not, the two probabilities are exchanged. Where it shares the highest
    one, it gets the next number above, so that `argmax` names it.

    >>> import numpy as np
    >>> normalize(np.array([[0.4, 0.2, 0.2]]), np.array([1])).tolist()
    [[0.25, 0.5, 0.25]]
    """
    total = probabilities.sum(axis=1, keepdims=True)
    shares = np.where(
        total > 0, probabilities / np.where(total > 0, total, 1), 1 / probabilities.shape[1]
    )
    rows, highest = np.arange(len(shares)), shares.argmax(axis=1)
    at_predicted, at_highest = shares[rows, predicted], shares[rows, highest]
    shares[rows, predicted], shares[rows, highest] = at_highest, at_predicted
    is_tied = shares.argmax(axis=1) != predicted
    shares[rows, predicted] = np.where(is_tied, np.nextafter(at_highest, 1.0), at_highest)
    return shares


def _function(
    scores: np.ndarray, is_class: np.ndarray, weights: np.ndarray, method: str
) -> Sigmoid | Isotonic | None:
    """The fitted function; None where the scores of the class are not higher than the others.

    Equal scores are merged and sorted first, so that a weight of 2 equals a row that occurs twice.
    """
    keys = np.column_stack([scores, is_class])
    distinct, group = np.unique(keys, axis=0, return_inverse=True)
    sums = np.bincount(group.reshape(-1), weights=weights, minlength=len(distinct))
    values, labels = distinct[:, 0], distinct[:, 1].astype(int)
    if len(np.unique(labels)) < 2 or len(np.unique(values)) < 2:
        return None
    everything = np.arange(len(values))
    with config_context(enable_metadata_routing=False):  # the weights are for the calibrator alone
        calibrated = CalibratedClassifierCV(
            _Scores(), method=method, cv=[(everything, everything)], ensemble=False
        ).fit(values[:, None], labels, sample_weight=sums)
    (calibrator,) = calibrated.calibrated_classifiers_[0].calibrators
    if method == "isotonic":
        knots = (calibrator.X_thresholds_, calibrator.y_thresholds_)
        return Isotonic(*(np.asarray(knot, np.float64) for knot in knots))
    slope, intercept = float(calibrator.a_), float(calibrator.b_)
    return Sigmoid(slope, intercept) if slope < 0 else None


class _Scores(ClassifierMixin, BaseEstimator):
    """A classifier whose only feature is its score."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> _Scores:
        """Nothing is fitted."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The feature."""
        return np.asarray(X)[:, 0]

    def predict(self, X: Any) -> np.ndarray:
        """The class by the sign of the feature; scikit-learn expects the method."""
        return self.classes_[(self.decision_function(X) > 0).astype(int)]
