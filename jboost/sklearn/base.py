"""What all estimators share: one vote for each class, choice of numbers, calibration, prediction.

A subclass defines `_fit_vote`, which fits the vote of one class against the others.
"""

from __future__ import annotations

import abc
import itertools
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from jboost.data.binarization import Binarizer
from jboost.sklearn import calibration, folds, parameters, rules, tables
from jboost.sklearn.folds import Fold
from jboost.sklearn.tables import LabelledRows
from jboost.sklearn.votes import Constant
from jboost.sklearn.watch import FitWatch

CV = "cv"
_MOST_WORSE = 2  # one worse value may be noise; not tuned
_has_probabilities = calibration.is_available


class _Scored(NamedTuple):
    """Scores of labelled rows."""

    scores: np.ndarray  # [k, V] of V votes
    is_covered: np.ndarray  # [k, V] bool, whether anything votes
    codes: np.ndarray  # [k] the index of the class
    weights: np.ndarray  # [k]


class OneAgainstRest(NamedTuple):
    """Rows of one class against the others."""

    rows: LabelledRows
    signs: np.ndarray  # [m] of +1 and -1

    @property
    def is_constant(self) -> bool:
        """Whether all rows have the same sign."""
        return bool((self.signs == self.signs[0]).all())


def _covered(votes: Sequence[Any], table: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Whether anything votes on each row, [k, V] bool, for the scores [k, V]."""
    if not votes:
        return np.ones((len(table), 1), bool)
    return np.stack(
        [vote.covers(table, scores[:, index]) for index, vote in enumerate(votes)], axis=1
    )


def _is_cv(value: Any) -> bool:
    return isinstance(value, str) and value == CV


class VoteClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator, abc.ABC):
    """The base class of the estimators. Two classes have one vote, K > 2 classes have K."""

    # set by the constructors of the subclasses
    calibration: str | None
    cv: Any
    class_weight: Any
    false_positive_cost: float
    false_negative_cost: float
    max_seconds: float | None
    random_state: Any

    # the parameters that may be "cv", each with its values in the order in which they are tried
    _grids: Mapping[str, Sequence[Any]] = {}
    # whether the choice ends after `_MOST_WORSE` values of a higher loss than the least
    _is_ordered: bool = False

    @abc.abstractmethod
    def _fit_vote(
        self, rows: LabelledRows, signs: np.ndarray, options: dict[str, Any], watch: FitWatch
    ) -> Any:
        """Fits the vote for the rows of sign +1 against those of sign -1."""

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Fits the estimator.

        Args:
          X: [m, n] numbers, or numbers and text: an array, a sparse matrix, or a DataFrame of
            pandas or polars. NaN or None where a value is missing.
          y: [m] labels of two or more classes.
          sample_weight: [m] not negative; a row of weight 0 counts as absent. None for ones.
          groups: [m] the group of each row, for a `cv` that takes groups. None for no groups.

        Returns:
          The estimator.

        Raises:
          ValueError: naming the argument or the parameter.
        """
        self._validate()
        watch = FitWatch(self, self.max_seconds)
        table, labels, weights = tables.read_training(self, X, y, sample_weight)
        self.classes_ = np.unique(labels[weights > 0])
        # a class of weight 0 is none: its rows are dropped by `tables.merge`
        codes = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        weights = tables.moderate(weights)
        weights = tables.moderate(weights * self._cost_of_classes(codes, weights)[codes])
        rows = self._rows(table, codes, weights)
        self._seed = self._new_seed()
        parts: list[Fold] = []
        if self._needs_folds() and len(self.classes_) > 1:
            parts = folds.make(self.cv, rows, table, codes, weights, groups, self._seed)
        num_votes = len(self._targets())
        watch.plan((len(parts) * len(self._candidates()) + 1) * num_votes)
        self._base_rates = calibration.base_rates(rows.codes, rows.weights, len(self.classes_))
        self.options_, scored = self._choose(parts, watch)
        watch.plan(num_votes)
        self.votes_ = self._fit_votes(self._sides(rows), self.options_, watch)
        self.calibrators_ = self._calibrate(scored or self._score(self.votes_, rows))
        self.n_iter_ = max((getattr(vote, "num_rounds", 0) for vote in self.votes_), default=0)
        watch.end()
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The scores: [k] for two classes, positive for `classes_[1]`; [k, K] for K > 2 classes."""
        check_is_fitted(self)
        scores = self._scores(tables.read_features(self, X, reset=False))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of the highest score, [k]; for two classes `classes_[1]` where the score is
        positive. Where nothing votes for or against classes that share the highest score, 0, it is
        the one of the highest base rate; so it is of two classes where nothing votes.
        """
        check_is_fitted(self)
        table = tables.read_features(self, X, reset=False)
        scores = self._scores(table)
        return self.classes_[self._predicted(scores, _covered(self.votes_, table, scores))]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, [k, K], a nondecreasing function of its score.

        It is fitted to scores of rows that the vote was not trained on (`calibration`, `cv`). A row
        on which nothing votes has the base rates of the training rows. The class that `predict`
        gives has the highest probability.
        """
        check_is_fitted(self)
        table = tables.read_features(self, X, reset=False)
        if len(self.classes_) == 1:
            return np.ones((len(table), 1))
        scores = self._scores(table)
        covered = _covered(self.votes_, table, scores)
        predicted = self._predicted(scores, covered)
        return calibration.probabilities(self.calibrators_, scores, covered, predicted)

    @property
    def certificate_(self) -> Any:
        """The certificate of the fit; of K > 2 classes a list, one for each."""
        return self._of_votes("certificate")

    @property
    def status_(self) -> Any:
        """The status of the fit (`jboost.status.explain`); of K > 2 classes a list."""
        return self._of_votes("status")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        return tags

    def _rows(self, table: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> LabelledRows:
        """The training rows in a form that does not depend on their order."""
        return tables.merge(table, codes, weights)

    def _new_seed(self) -> int:
        """The seed of a fit."""
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _validate(self) -> None:
        calibration.validate(self.calibration)
        for name in ("false_positive_cost", "false_negative_cost"):
            cost = getattr(self, name)
            if not (isinstance(cost, numbers.Real) and 0 < float(cost) < np.inf):
                raise ValueError(f"{name} is {cost!r}: expected a positive finite number")
        parameters.number(self, "max_seconds", low=0, open_low=True, also=(None,))
        parameters.seed(self)

    @property
    def _binarizer(self) -> Binarizer | None:
        """What knows which columns held text in `fit`; None where no vote reads a column."""
        found = [vote.features.binarizer for vote in self.votes_ if hasattr(vote, "features")]
        return next(iter(found), None)

    def _names(self) -> list[str]:
        """The names of the columns."""
        named = getattr(self, "feature_names_in_", None)
        return [f"x{index}" for index in range(self.n_features_in_)] if named is None else [*named]

    def _targets(self) -> np.ndarray:
        """The class that each vote is for."""
        return self.classes_ if len(self.classes_) > 2 else self.classes_[1:]

    def _of_votes(self, name: str) -> Any:
        check_is_fitted(self)
        found = [getattr(vote, name, None) for vote in self.votes_]
        return found if len(self.classes_) > 2 else next(iter(found), None)

    def _cost_of_classes(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The factor of the weight of each class, [K]."""
        kept = weights > 0
        factors = tables.class_weights(self.class_weight, self.classes_, codes[kept], weights[kept])
        costs = np.array([self.false_positive_cost, self.false_negative_cost], np.float64)
        if (costs == 1).all() or len(self.classes_) == 1:
            return factors
        if len(self.classes_) > 2:
            raise ValueError(
                "false_positive_cost and false_negative_cost are for two classes, and y has"
                f" {len(self.classes_)}: pass class_weight"
            )
        return factors * tables.moderate(costs)

    def _needs_folds(self) -> bool:
        chooses = any(_is_cv(getattr(self, name)) for name in self._grids)
        return chooses or self.calibration is not None

    def _sides(self, rows: LabelledRows) -> list[OneAgainstRest]:
        """The problem of each vote: one for two classes, K for K > 2 classes, none for one."""
        count = len(self.classes_)
        positives = range(count) if count > 2 else range(1, count)
        return [OneAgainstRest(rows, rows.signs(positive)) for positive in positives]

    def _fit_votes(
        self, sides: Sequence[OneAgainstRest], options: dict[str, Any], watch: FitWatch
    ) -> list[Any]:
        """One vote for each side, one after another."""
        return [self._vote_for(side, options, watch) for side in sides]

    def _vote_for(self, side: OneAgainstRest, options: dict[str, Any], watch: FitWatch) -> Any:
        if side.is_constant:
            return Constant(float(side.signs[0]))
        watch.begin_fit()
        return self._fit_vote(*side, options, watch)

    def _scores(self, table: np.ndarray) -> np.ndarray:
        """[k, V]; zeros [k, 1] where there is one class."""
        if not self.votes_:
            return np.zeros((len(table), 1))
        return np.stack([vote.scores(table) for vote in self.votes_], axis=1)

    def _score(self, votes: Sequence[Any], rows: LabelledRows) -> _Scored:
        if not votes:
            empty = np.zeros((len(rows.codes), 0))
            return _Scored(empty, empty.astype(bool), rows.codes, rows.weights)
        scores = np.stack([vote.scores(rows.table) for vote in votes], axis=1)
        return _Scored(scores, _covered(votes, rows.table, scores), rows.codes, rows.weights)

    def _choose(self, parts: list[Fold], watch: FitWatch) -> tuple[dict[str, Any], _Scored | None]:
        """The options of the fit, and the scores of held-out rows under them.

        Of several values the one of least held-out loss is taken; among equals the first. Without
        folds, because a class has one row, it is the middle one.
        A choice that the time limit ends has the best value so far.
        """
        candidates = self._candidates()
        if not parts:
            return candidates[len(candidates) // 2], None
        best: tuple[dict[str, Any], _Scored | None] = (candidates[0], None)
        least, num_worse = np.inf, 0
        for options in candidates:
            scored = self._cross_fit(parts, options, watch)
            loss = self._loss(scored)
            is_better = loss < least
            best, least = ((options, scored), loss) if is_better else (best, least)
            # an equal loss says nothing: often the vote did not change either
            num_worse = 0 if is_better else num_worse + (loss > least)
            if watch.is_over or (self._is_ordered and num_worse == _MOST_WORSE):
                break
        return best

    def _candidates(self) -> list[dict[str, Any]]:
        """The options to choose from: all combinations of the values of parameters at "cv"."""
        values = [
            grid if _is_cv(getattr(self, name)) else (getattr(self, name),)
            for name, grid in self._grids.items()
        ]
        return [
            dict(zip(self._grids, chosen, strict=True)) for chosen in itertools.product(*values)
        ]

    def _cross_fit(self, parts: list[Fold], options: dict[str, Any], watch: FitWatch) -> _Scored:
        """The scores of the rows of each fold by votes that were not trained on them."""
        sides = [side for part in parts for side in self._sides(part.training)]
        votes = iter(self._fit_votes(sides, options, watch))
        count = len(self._targets())
        found = [self._score([*itertools.islice(votes, count)], part.testing) for part in parts]
        return _Scored(*(np.concatenate(leaves) for leaves in zip(*found, strict=True)))

    def _loss(self, scored: _Scored) -> float:
        """The weight of the rows that the scores misclassify."""
        said = self._predicted(scored.scores, scored.is_covered)
        return float(scored.weights[said != scored.codes].sum())

    def _predicted(self, scores: np.ndarray, is_covered: np.ndarray) -> np.ndarray:
        """The index of the predicted class [k], for scores [k, V] and whether anything votes."""
        if len(self.classes_) == 1:
            return np.zeros(len(scores), int)
        if scores.shape[1] == 1:
            is_second = np.where(is_covered, scores > 0, self._base_rates[1] > self._base_rates[0])
            return is_second[:, 0].astype(int)
        is_highest = scores == scores.max(axis=1, keepdims=True)
        is_open = (is_highest & ~is_covered).any(axis=1)
        among = np.where(is_highest, self._base_rates, -1.0).argmax(axis=1)
        return np.where(is_open, among, scores.argmax(axis=1))

    def _calibrate(self, scored: _Scored) -> list[Any]:
        return calibration.fit_votes(
            scored.scores,
            scored.is_covered,
            scored.codes,
            scored.weights,
            self._base_rates,
            self.calibration,
        )


class RuleVoteClassifier(VoteClassifier):
    """The base class of the estimators whose hypotheses read columns of the table."""

    @property
    def rules_(self) -> rules.RuleList:
        """The hypotheses that vote, the largest votes first."""
        check_is_fitted(self)
        return rules.rules_of(zip(self._targets(), self.votes_, strict=True))

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each column in the votes, [n]."""
        check_is_fitted(self)
        return rules.importances(self.votes_, self.n_features_in_)
