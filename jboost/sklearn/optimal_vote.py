"""The exact combination of scikit-learn's classifiers as an estimator."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import _BaseComposition, available_if
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    indexable,
)

from jboost import combine
from jboost.base import devices
from jboost.base.predict import predict_scores
from jboost.combine import STRATEGIES, LinearVote
from jboost.combine.strategies import is_driven_by_host
from jboost.sklearn import calibration, parameters, routing, tables
from jboost.sklearn.features import padded_rows
from jboost.sklearn.watch import FitClock

PREFIT = "prefit"
_PREFIT_FOLDS = 5  # of the calibration; the default number of the other estimators
_fit = devices.public_jit(combine.fit, static_argnames=("strategy", "with_stacking", "max_sweeps"))
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
      calibration: "sigmoid" or "isotonic" for `predict_proba`, fitted to scores of rows that
        neither the vote nor, unless they are "prefit", the classifiers were trained on: the vote is
        fitted once more for each fold. With "prefit", where a class has fewer than two rows, it is
        fitted to the scores of the vote on the rows of `fit`. None for no probabilities, which
        saves these fits.
      max_seconds: the time limit of `fit` with the strategy "exact", for all votes and folds
        together, whose search branches and cuts then for any number of classifiers; None for none.
        The fits of the classifiers count, and are not interrupted.

    Attributes after `fit`: `classes_`, `estimators_`, `votes_` (one `jboost.combine.LinearVote` for
    two classes, else one for each class), `certificate_` (the pairs of loss and lower bound),
    `status_`.

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
        calibration: str | None = "sigmoid",
        max_seconds: float | None = None,
    ) -> None:
        self.estimators = estimators
        self.strategy = strategy
        self.with_stacking = with_stacking
        self.max_sweeps = max_sweeps
        self.cv = cv
        self.calibration = calibration
        self.max_seconds = max_seconds

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, with those of the classifiers as `name__parameter`."""
        found: dict[str, Any] = self._get_params("estimators", deep=deep)
        return found

    def set_params(self, **params: Any) -> OptimalVoteClassifier:
        """Sets parameters by name."""
        self._set_params("estimators", **params)
        return self

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> OptimalVoteClassifier:
        """Fits the classifiers and the vote.

        Args:
          X: [m, n] whatever the classifiers take.
          y: [m] labels of two or more classes.
          sample_weight: [m] not negative, the cost of an error on each row; None for ones. The
            classifiers get them too, with metadata routing those that request them.
          groups: [m] the group of each row, for a `cv` that takes groups. None for no groups.

        Raises:
          ValueError: naming the argument or the parameter.
        """
        self._validate()
        clock = FitClock(self.max_seconds)
        X, y = indexable(X, y)
        labels = tables.read_labels(y)
        weights = tables.moderate(
            _check_sample_weight(sample_weight, labels, ensure_non_negative=True)
        )
        self.classes_ = np.unique(labels[weights > 0])
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class with positive weight, {self.classes_.tolist()}: expected two"
            )
        is_fitted = isinstance(self.cv, str) and self.cv == PREFIT
        arguments = routing.arguments_of_fit(
            self,
            {} if is_fitted else dict(self.estimators),
            None if sample_weight is None else weights,
            groups,
        )
        folds = self._folds(X, labels, weights, arguments[routing.SPLITTER])
        if is_fitted:
            self.estimators_ = [estimator for _, estimator in self.estimators]
            for estimator in self.estimators_:
                check_is_fitted(estimator)
            scores = self._scores_of(self.estimators_, X)
        else:
            scores = self._cross_fit(X, labels, folds, arguments)
            self.estimators_ = [
                clone(one).fit(X, labels, **arguments[name]) for name, one in self.estimators
            ]
        num_times = 1 if self.calibration is None else 1 + len(folds)
        clock.plan(num_times * len(self._targets()))
        self.votes_ = self._fit_votes(scores, labels, weights, clock)
        self.calibrators_ = self._calibrate(scores, labels, weights, folds, clock)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimators_[0], name):
                setattr(self, name, getattr(self.estimators_[0], name))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The scores: [k] for two classes, positive for `classes_[1]`; [k, K] for K > 2 classes."""
        check_is_fitted(self)
        found = _scores_of_votes(self.votes_, self._scores_of(self.estimators_, X))
        return found[:, 0] if len(self.classes_) == 2 else found

    @available_if(calibration.is_available)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, [k, K], a nondecreasing function of its score.

        It is fitted to scores of rows that the vote was not trained on, where each class has two
        rows or more (`calibration`).
        """
        check_is_fitted(self)
        scores = _scores_of_votes(self.votes_, self._scores_of(self.estimators_, X))
        return calibration.probabilities(
            self.calibrators_,
            scores / _sizes(self.votes_),
            np.ones(scores.shape, bool),
            scores.argmax(axis=1),
        )

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
    def status_(self) -> Any:
        """The status of the vote (`jboost.status.explain`); of K > 2 classes a list."""
        check_is_fitted(self)
        found = [int(vote.status) for vote in self.votes_]
        return found[0] if len(self.classes_) == 2 else found

    def get_metadata_routing(self) -> Any:
        """Where scikit-learn's metadata go: to this estimator, the classifiers and `cv`."""
        if isinstance(self.cv, str) and self.cv == PREFIT:
            return routing.router(self, {})
        return routing.router(self, dict(self.estimators), check_cv(self.cv, classifier=True))

    @property
    def named_estimators(self) -> dict[str, Any]:
        """The classifiers by name, as in VotingClassifier of scikit-learn."""
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
        for name, estimator in self.estimators:
            if not hasattr(estimator, "fit"):
                raise ValueError(
                    f"estimators holds {estimator!r} for {name!r}: expected a classifier of"
                    " scikit-learn"
                )
        parameters.flag(self, "with_stacking")
        parameters.whole(self, "max_sweeps", low=1)
        parameters.number(self, "max_seconds", low=0, open_low=True, also=(None,))
        if self.max_seconds is not None and self.strategy != "exact":
            raise ValueError(
                f"max_seconds is {self.max_seconds!r}, and strategy is {self.strategy!r}, which has"
                " no time limit: pass None, or strategy='exact'"
            )
        self._validate_names([name for name, _ in self.estimators])
        if self.strategy not in STRATEGIES:
            raise ValueError(f"strategy is {self.strategy!r}: expected one of {list(STRATEGIES)}")
        calibration.validate(self.calibration)

    def _targets(self) -> np.ndarray:
        """The class that each vote is for."""
        return self.classes_ if len(self.classes_) > 2 else self.classes_[1:]

    def _folds(
        self, X: Any, labels: np.ndarray, weights: np.ndarray, arguments: dict[str, Any]
    ) -> list[Any]:
        """Pairs of indices of the rows that a fold trains on and of those that it is tested on."""
        if isinstance(self.cv, str) and self.cv == PREFIT:
            return calibration.folds(labels, weights, _PREFIT_FOLDS) if self.calibration else []
        return list(check_cv(self.cv, labels, classifier=True).split(X, labels, **arguments))

    def _cross_fit(
        self,
        X: Any,
        labels: np.ndarray,
        folds: Sequence[Any],
        arguments: dict[str, dict[str, Any]],
    ) -> np.ndarray:
        """The scores of each row by classifiers that were not trained on it, [m, d, V]."""
        scores = np.full((len(labels), len(self.estimators), len(self._targets())), np.nan)
        is_tested = np.zeros(len(labels), bool)
        for training, testing in folds:
            rows = _safe_indexing(X, training)
            fitted = [
                clone(one).fit(rows, labels[training], **routing.at_rows(arguments[name], training))
                for name, one in self.estimators
            ]
            scores[testing] = self._scores_of(fitted, _safe_indexing(X, testing))
            is_tested[testing] = True
        if not is_tested.all():
            raise ValueError("cv leaves rows in no test fold: pass folds that cover all rows")
        return scores

    def _calibrate(
        self,
        scores: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray,
        folds: Sequence[Any],
        clock: FitClock,
    ) -> list[calibration.Calibration]:
        """The calibrations of the votes, on the scores [m, d, V] of the classifiers.

        The scores of a vote are divided by its l1 norm, so that those of all folds have one scale.
        """
        if self.calibration is None:
            return []
        found = _scores_of_votes(self.votes_, scores) / _sizes(self.votes_)
        for training, testing in folds:
            inside = np.zeros_like(weights)
            inside[training] = weights[training]
            votes = self._fit_votes(scores, labels, inside, clock)
            found[testing] = _scores_of_votes(votes, scores[testing]) / _sizes(votes)
        kept = weights > 0
        codes = np.searchsorted(self.classes_, labels[kept])
        return calibration.fit_votes(
            found[kept],
            np.ones(found[kept].shape, bool),
            codes,
            weights[kept],
            np.bincount(codes, weights[kept], len(self.classes_)) / weights.sum(),
            self.calibration,
        )

    def _fit_votes(
        self, scores: np.ndarray, labels: np.ndarray, weights: np.ndarray, clock: FitClock
    ) -> list[LinearVote]:
        """The vote for each target, on the scores [m, d, V]."""
        return [
            self._vote(scores[:, :, index], np.where(labels == target, 1, -1), weights, clock)
            for index, target in enumerate(self._targets())
        ]

    def _scores_of(self, estimators: Sequence[Any], X: Any) -> np.ndarray:
        """The scores [k, d, V] of classifiers; -1 for a class that one has not seen."""
        return np.stack([self._scores_of_one(estimator, X) for estimator in estimators], axis=1)

    def _scores_of_one(self, estimator: Any, X: Any) -> np.ndarray:
        is_decision = _has_decision_for_each_class(estimator)
        found = np.asarray(
            (estimator.decision_function if is_decision else estimator.predict_proba)(X)
        )
        for row in np.flatnonzero(np.isnan(found).reshape(len(found), -1).any(axis=1))[:1]:
            raise ValueError(
                f"estimators holds a {type(estimator).__name__} whose scores are NaN, first of row"
                f" {row}: leave it out, or fit it to data that it can take"
            )
        if found.ndim == 1:
            found = np.stack([-found, found], axis=1)
        elif not is_decision:
            found = 2 * found - 1
        if found.shape[1] != len(estimator.classes_):
            raise ValueError(
                f"estimators holds a {type(estimator).__name__} whose scores have"
                f" {found.shape[1]} columns for {len(estimator.classes_)} classes: expected one for"
                " each class"
            )
        columns = [np.flatnonzero(estimator.classes_ == target) for target in self._targets()]
        absent = np.full(len(found), -1.0)
        return np.stack(
            [found[:, column[0]] if len(column) else absent for column in columns], axis=1
        )

    def _vote(
        self, scores: np.ndarray, signs: np.ndarray, weights: np.ndarray, clock: FitClock
    ) -> LinearVote:
        missing = padded_rows(len(signs)) - len(signs)
        clock.begin_fit()
        limit = clock.left
        fit: Any = _fit
        if is_driven_by_host(self.strategy, scores.shape[1], time_limit=limit):
            fit = functools.partial(combine.fit, time_limit=limit)
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


def _has_decision_for_each_class(estimator: Any) -> bool:
    """Whether `decision_function` scores each class, and not each pair of them; else
    `predict_proba` does.

    Three classes have three pairs, so the number of columns does not tell.

    Raises:
      ValueError: if neither scores each class.
    """
    if not hasattr(estimator, "decision_function"):
        return False
    name = "decision_function_shape"  # of support vector machines, which may be inside a pipeline
    shapes = {
        value
        for key, value in getattr(estimator, "get_params", dict)().items()
        if key.split("__")[-1] == name
    }
    is_of_pairs = "ovo" in shapes and len(estimator.classes_) > 2
    if is_of_pairs and not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"estimators holds a {type(estimator).__name__} with {name}='ovo', which scores pairs"
            f" of classes: pass {name}='ovr', or a classifier with predict_proba"
        )
    return not is_of_pairs


def _scores_of_votes(votes: Sequence[LinearVote], scores: np.ndarray) -> np.ndarray:
    """The scores [k, V] of votes, of the scores [k, d, V] of classifiers."""
    missing = padded_rows(len(scores)) - len(scores)
    padded = np.pad(scores, ((0, missing), (0, 0), (0, 0)))
    found = [
        np.asarray(_scores(vote, padded[:, :, index]), np.float64)[: len(scores)]
        for index, vote in enumerate(votes)
    ]
    return np.stack(found, axis=1)


def _sizes(votes: Sequence[LinearVote]) -> np.ndarray:
    """The l1 norm of the coefficients of each vote, [V]; 1 for a constant."""
    norms = [float(np.abs(vote.coefficients).sum()) for vote in votes]
    return np.array([norm if norm > 0 else 1.0 for norm in norms])
