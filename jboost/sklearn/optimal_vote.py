"""The exact combination of scikit-learn's classifiers as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    indexable,
)

from jboost import combine
from jboost.base.predict import predict_scores
from jboost.combine import STRATEGIES, LinearVote
from jboost.combine.strategies import MOST_SWEPT
from jboost.sklearn.features import padded_rows

PREFIT = "prefit"
_fit = jax.jit(combine.fit, static_argnames=("strategy", "with_stacking", "max_sweeps"))
_scores = jax.jit(predict_scores)


class OptimalVoteClassifier(ClassifierMixin, _BaseComposition):
    """The linear vote of classifiers that misclassifies the least weight, as an estimator of
    scikit-learn (`jboost.combine.fit`).

    It stands beside `VotingClassifier`, which averages, and `StackingClassifier`, which fits a
    logistic regression. Of two classifiers the vote is optimal for the 0-1 loss of the scores that
    it is fitted to.

    Args:
      estimators: pairs of a name and a classifier with `decision_function` or `predict_proba`.
      strategy: how more than two classifiers are combined, as of `jboost.combine.fit`.
      with_stacking: whether logistic regressions on the scores take part.
      max_sweeps: the largest number of passes of the strategy "coordinate".
      cv: the folds of the scores that the vote is fitted to: a number, a splitter or pairs of
        indices; or "prefit" for classifiers that are fitted already, whose scores of the rows of
        `fit` are used.

    Attributes after `fit`: `classes_`, `estimators_`, `votes_` (one `jboost.combine.LinearVote` for
    two classes, else one for each class), `certificate_` (the pairs of loss and lower bound).

    Boyarshinov and Magdon-Ismail 2005.

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X = np.arange(20.0)[:, None]
    >>> model = OptimalVoteClassifier([("a", LogisticRegression()), ("b", GaussianNB())])
    >>> model.fit(X, X[:, 0] > 9).predict([[2.0], [15.0]]).tolist()
    [False, True]
    """

    def __init__(
        self,
        estimators: Any,
        *,
        strategy: str = "greedy",
        with_stacking: bool = True,
        max_sweeps: int = 50,
        cv: Any = 5,
    ) -> None:
        self.estimators = estimators
        self.strategy = strategy
        self.with_stacking = with_stacking
        self.max_sweeps = max_sweeps
        self.cv = cv

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, with those of the classifiers as `name__parameter`."""
        found: dict[str, Any] = self._get_params("estimators", deep=deep)
        return found

    def set_params(self, **params: Any) -> OptimalVoteClassifier:
        """Sets parameters by name."""
        self._set_params("estimators", **params)
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OptimalVoteClassifier:
        """Fits the classifiers and the vote.

        Args:
          X: [m, n] whatever the classifiers take.
          y: [m] labels of two or more classes.
          sample_weight: [m] not negative, the cost of an error on each row; None for ones.

        Raises:
          ValueError: naming the argument or the parameter.
        """
        self._validate()
        X, y = indexable(X, y)
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        weights = _check_sample_weight(sample_weight, labels, ensure_non_negative=True)
        self.classes_ = np.unique(labels[weights > 0])
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class with positive weight, {self.classes_.tolist()}: expected two"
            )
        given = None if sample_weight is None else weights
        if self.cv == PREFIT:
            self.estimators_ = [estimator for _, estimator in self.estimators]
            for estimator in self.estimators_:
                check_is_fitted(estimator)
            scores = self._scores_of(self.estimators_, X)
        else:
            scores = self._cross_fit(X, labels, given)
            self.estimators_ = [_fitted(one, X, labels, given) for _, one in self.estimators]
        self.votes_ = [
            self._vote(scores[:, :, index], np.where(labels == target, 1, -1), weights)
            for index, target in enumerate(self._targets())
        ]
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimators_[0], name):
                setattr(self, name, getattr(self.estimators_[0], name))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The scores: [k] for two classes, positive for `classes_[1]`; [k, K] for K > 2 classes."""
        check_is_fitted(self)
        scores = self._scores_of(self.estimators_, X)
        rows = padded_rows(len(scores)) - len(scores)
        padded = np.pad(scores, ((0, rows), (0, 0), (0, 0)))
        found = np.stack(
            [
                np.asarray(_scores(vote, padded[:, :, index]), np.float64)[: len(scores)]
                for index, vote in enumerate(self.votes_)
            ],
            axis=1,
        )
        return found[:, 0] if len(self.classes_) == 2 else found

    def predict(self, X: Any) -> np.ndarray:
        """The class of the highest score, [k]."""
        scores = self.decision_function(X)
        return self.classes_[
            scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
        ]

    @property
    def certificate_(self) -> Any:
        """(loss, lower bound) of the weight of errors on the scores that the vote was fitted to;
        of K > 2 classes a list, one for each.
        """
        check_is_fitted(self)
        found = [(float(vote.loss), float(vote.lower_bound)) for vote in self.votes_]
        return found[0] if len(self.classes_) == 2 else found

    @property
    def named_estimators(self) -> dict[str, Any]:
        """The classifiers by name."""
        return dict(self.estimators)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = [estimator.__sklearn_tags__().input_tags for _, estimator in self.estimators]
        for name in ("sparse", "allow_nan", "string", "categorical"):
            setattr(tags.input_tags, name, all(getattr(one, name) for one in inner))
        return tags

    def _validate(self) -> None:
        is_list = isinstance(self.estimators, Sequence) and len(self.estimators) > 0
        if not is_list or not all(
            isinstance(pair, Sequence) and len(pair) == 2 for pair in self.estimators
        ):
            raise ValueError(
                f"estimators is {self.estimators!r}: expected a list of pairs of a name and a"
                " classifier"
            )
        self._validate_names([name for name, _ in self.estimators])
        if self.strategy not in STRATEGIES:
            raise ValueError(f"strategy is {self.strategy!r}: expected one of {list(STRATEGIES)}")

    def _targets(self) -> np.ndarray:
        """The class that each vote is for."""
        return self.classes_ if len(self.classes_) > 2 else self.classes_[1:]

    def _cross_fit(self, X: Any, labels: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """The scores of each row by classifiers that were not trained on it, [m, d, V]."""
        from sklearn.utils import _safe_indexing

        scores = np.full((len(labels), len(self.estimators), len(self._targets())), np.nan)
        for training, testing in check_cv(self.cv, labels, classifier=True).split(X, labels):
            part = None if weights is None else weights[training]
            rows = _safe_indexing(X, training)
            fitted = [_fitted(one, rows, labels[training], part) for _, one in self.estimators]
            scores[testing] = self._scores_of(fitted, _safe_indexing(X, testing))
        if np.isnan(scores).any():
            raise ValueError("cv leaves rows in no test fold: pass folds that cover all rows")
        return scores

    def _scores_of(self, estimators: Sequence[Any], X: Any) -> np.ndarray:
        """The scores [k, d, V] of classifiers; -1 for a class that one has not seen."""
        return np.stack([self._scores_of_one(estimator, X) for estimator in estimators], axis=1)

    def _scores_of_one(self, estimator: Any, X: Any) -> np.ndarray:
        is_decision = hasattr(estimator, "decision_function")
        found = np.asarray(
            (estimator.decision_function if is_decision else estimator.predict_proba)(X)
        )
        if found.ndim == 1:
            found = np.stack([-found, found], axis=1)
        elif not is_decision:
            found = 2 * found - 1
        columns = [np.flatnonzero(estimator.classes_ == target) for target in self._targets()]
        absent = np.full(len(found), -1.0)
        return np.stack(
            [found[:, column[0]] if len(column) else absent for column in columns], axis=1
        )

    def _vote(self, scores: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> LinearVote:
        missing = padded_rows(len(signs)) - len(signs)
        on_host = self.strategy == "exact" and scores.shape[1] > MOST_SWEPT
        fit: Any = combine.fit if on_host else _fit
        vote = fit(
            np.pad(scores, ((0, missing), (0, 0))).astype(jax.numpy.result_type(float)),
            np.pad(signs, (0, missing), constant_values=1),
            weights=np.pad(weights, (0, missing)),
            mask=np.arange(len(signs) + missing) < len(signs),
            strategy=self.strategy,
            with_stacking=self.with_stacking,
            max_sweeps=self.max_sweeps,
        )
        return jax.tree.map(np.asarray, vote)  # type: ignore[no-any-return]


def _fitted(estimator: Any, X: Any, labels: np.ndarray, weights: np.ndarray | None) -> Any:
    if weights is None:
        return clone(estimator).fit(X, labels)
    if not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            f"sample_weight is given, and {type(estimator).__name__}.fit does not take it: leave"
            " the classifier out"
        )
    return clone(estimator).fit(X, labels, sample_weight=weights)
