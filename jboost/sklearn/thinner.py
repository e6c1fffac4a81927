"""New votes for the members of a fitted ensemble, most of them 0."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    indexable,
)

from jboost import lpboost, relaxations, relaxed_margin
from jboost.base.padding import shared_size
from jboost.base.status import Status
from jboost.lpboost import LPBoostSolution
from jboost.sklearn import calibration, parameters, routing, tables
from jboost.sklearn.features import padded_rows
from jboost.sklearn.watch import FitClock

_METHODS = ("lpboost", "relaxed_margin")
_INNER = "estimator"  # its name in metadata routing
# Pivots between two checks of the time. The simplex method recomputes its table as often.
_PIVOTS_OF_STAGE = lpboost.SimplexConfig().refresh_every
_MOST_STAGES = lpboost.SimplexConfig().max_iterations // _PIVOTS_OF_STAGE
_LEAST_MEMBERS = 32  # padded numbers of members: programs are shared among few of them


class ThinnedCertificate(NamedTuple):
    """The bounds of the largest soft margin over all votes of the members."""

    lower_bound: float  # of the returned votes
    upper_bound: float
    # [m] the weights that prove the upper bound if they are scaled to sum to one
    example_weights: np.ndarray


class MarginThinner(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Re-weights the members of an ensemble for the largest soft margin, and drops those without a
    vote, as an estimator of scikit-learn (`jboost.lpboost.solve`, `jboost.relaxed_margin.solve`).

    Args:
      estimator: a random forest, bagging, AdaBoost or gradient boosting classifier of scikit-learn,
        for two classes. One that is fitted is used as it is, and all rows of `fit` choose the
        votes. Another one is fitted to a part of the rows, and the others choose the votes.
      method: "lpboost" for the linear program, whose solutions are sparse; "relaxed_margin" for the
        first-order method, for many rows.
      nu: the share of the weight that may lie below the soft margin, in (0, 1].
      tolerance: the gap between the certified bounds.
      validation_fraction: the share of the rows that choose the votes, if `estimator` is not
        fitted.
      calibration: "sigmoid" or "isotonic" for `predict_proba`; None for no probabilities, which
        saves the fits of the folds. The rows that choose the votes are split into folds, and each
        fold is scored by votes that the others choose. A fitted `estimator` may have been trained
        on these rows: the probabilities are then too far from 1/2, and rows that it was not
        trained on should be passed to `fit`.
      num_folds: the number of folds for the calibration, at least 2; fewer where a class has fewer
        rows. Where one has fewer than two rows, the calibration is fitted to the scores of the
        rows that chose the votes.
      max_seconds: the time limit of `fit`, None for none. It ends the choice of the votes with the
        best ones so far, whose certified bounds are valid; `status_` is then TIME_LIMIT. The time
        left after the fit of `estimator`, which has no limit, is shared among the votes and those
        of the folds. Each makes one stage at least: 16 checks of the gap for "relaxed_margin", and
        500 pivots for "lpboost". A compilation is not interrupted. With a limit "lpboost" takes the
        simplex method for tables of all sizes, and without one the method that
        `jboost.lpboost.solve` chooses.
      random_state: the seed of the split and of the folds.

    Attributes after `fit`: `classes_`, `estimator_`, `coefficients_` [T], `kept_` (the indices of
    the members that vote), `certificate_`, `status_`, `base_rates_`. If no vote has a positive
    soft margin, no member votes: then the class of the highest base rate is predicted.

    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X = np.arange(40.0)[:, None]
    >>> forest = RandomForestClassifier(20, random_state=0).fit(X, X[:, 0] > 19)
    >>> thin = MarginThinner(forest, nu=0.5).fit(X, X[:, 0] > 19)
    >>> len(thin.kept_) < 20, thin.predict([[2.0], [30.0]]).tolist()
    (True, [False, True])
    """

    def __init__(
        self,
        estimator: Any,
        *,
        method: str = "lpboost",
        nu: float = 0.3,
        tolerance: float = 1e-3,
        validation_fraction: float = 0.3,
        calibration: str | None = "sigmoid",
        num_folds: int = 5,
        max_seconds: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.nu = nu
        self.tolerance = tolerance
        self.validation_fraction = validation_fraction
        self.calibration = calibration
        self.num_folds = num_folds
        self.max_seconds = max_seconds
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MarginThinner:
        """Chooses the votes.

        Args:
          X: [m, n] what the ensemble takes.
          y: [m] labels of two classes.
          sample_weight: [m] not negative; None for ones. An ensemble that is not fitted gets its
            part of them too, with metadata routing if it requests them.

        Raises:
          ValueError: naming the argument or the parameter.
        """
        self._validate()
        clock = FitClock(self.max_seconds)
        X, y = indexable(X, y)
        labels = tables.read_labels(y)
        weights = _check_sample_weight(sample_weight, labels, ensure_non_negative=True)
        self.classes_ = np.unique(labels)
        if len(self.classes_) != 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is"
                f" {'multiclass' if len(self.classes_) > 2 else 'of one class'}."
            )
        given = None if sample_weight is None else weights
        X, labels, weights = self._fit_ensemble(X, labels, weights, given)
        weights = tables.moderate(weights)
        outputs = _outputs(_members(self.estimator_), X)
        self._scales = np.maximum(np.abs(outputs).max(axis=0), np.finfo(np.float64).tiny)
        signs = np.where(labels == self.classes_[1], 1.0, -1.0)
        margins = signs[:, None] * outputs / self._scales
        clock.plan(1 if self.calibration is None else 1 + self.num_folds)
        found = self._solve(margins, weights, clock)
        self.coefficients_ = _votes_of(found, margins.shape[1])
        self.kept_ = np.flatnonzero(self.coefficients_)
        self.status_ = int(found.status)
        self.certificate_ = ThinnedCertificate(
            float(found.lower_bound),
            float(found.upper_bound),
            np.asarray(found.example_weights)[: len(margins)],
        )
        self.base_rates_ = calibration.base_rates((signs > 0).astype(int), weights, 2)
        self.calibrators_ = self._calibrate(margins, signs, weights, clock)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The scores [k], in [-1, 1] on the rows of `fit`."""
        check_is_fitted(self)
        # one member checks the rows even if none votes, as where the best soft margin is 0
        used = self.kept_ if len(self.kept_) else np.zeros(1, int)
        members = [_members(self.estimator_)[index] for index in used]
        return _outputs(members, X) / self._scales[used] @ self.coefficients_[used]

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row, [k]: `classes_[1]` where the score is positive; where no member
        votes, the class of the highest base rate.
        """
        codes = (self.decision_function(X) > 0).astype(int)
        return self.classes_[codes if len(self.kept_) else np.full_like(codes, self._majority)]

    @property
    def _majority(self) -> int:
        """The index of the class with the highest base rate on the rows that chose the votes."""
        return int(self.base_rates_[1] > self.base_rates_[0])

    @available_if(calibration.is_available)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, [k, 2], a nondecreasing function of the score.

        It is fitted to scores of rows that the votes were not chosen on (`calibration`).
        """
        scores = self.decision_function(X)[:, None]
        votes = np.full(scores.shape, len(self.kept_) > 0)
        return calibration.probabilities(
            self.calibrators_, scores, votes, np.zeros(len(scores), int)
        )

    def get_metadata_routing(self) -> Any:
        """Where scikit-learn's metadata go: to this estimator, and to an ensemble that it fits."""
        return routing.router(self, {} if _is_fitted(self.estimator) else {_INNER: self.estimator})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__().input_tags
        for name in ("sparse", "allow_nan", "string", "categorical"):
            setattr(tags.input_tags, name, getattr(inner, name))
        tags.classifier_tags.multi_class = False
        return tags

    def _validate(self) -> None:
        if self.method not in _METHODS:
            raise ValueError(f"method is {self.method!r}: expected one of {list(_METHODS)}")
        if not hasattr(self.estimator, "fit"):
            raise ValueError(
                f"estimator is {self.estimator!r}: expected an ensemble of scikit-learn, such as"
                " RandomForestClassifier()"
            )
        if not is_classifier(self.estimator):
            raise ValueError(
                f"estimator is {self.estimator!r}: expected an ensemble of classifiers, such as"
                " RandomForestClassifier()"
            )
        parameters.number(self, "nu", low=0, high=1, open_low=True)
        parameters.number(self, "tolerance", low=0)
        parameters.number(self, "validation_fraction", low=0, high=1, open_low=True, open_high=True)
        parameters.whole(self, "num_folds", low=2)
        parameters.number(self, "max_seconds", low=0, open_low=True, also=(None,))
        parameters.seed(self)
        calibration.validate(self.calibration)

    def _fit_ensemble(
        self, X: Any, labels: np.ndarray, weights: np.ndarray, given: np.ndarray | None
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Fits the ensemble unless it is fitted; the rows that choose the votes. `given` are the
        weights, or None for ones.
        """
        if not _is_fitted(self.estimator):
            arguments = routing.arguments_of_fit(self, {_INNER: self.estimator}, given, None)
            training, testing = train_test_split(
                np.arange(len(labels)),
                test_size=self.validation_fraction,
                stratify=labels,
                random_state=self.random_state,
            )
            self.estimator_ = clone(self.estimator).fit(
                _safe_indexing(X, training),
                labels[training],
                **routing.at_rows(arguments[_INNER], training),
            )
            return _safe_indexing(X, testing), labels[testing], weights[testing]
        if list(self.estimator.classes_) != list(self.classes_):
            raise ValueError(
                f"y has the classes {self.classes_.tolist()}, and the fitted estimator has"
                f" {list(self.estimator.classes_)}: expected the same"
            )
        self.estimator_ = self.estimator
        return X, labels, weights

    def _solve(self, margins: np.ndarray, weights: np.ndarray, clock: FitClock) -> Any:
        """The votes of largest soft margin, for the margins [m, T] of the members, padded."""
        count, size = margins.shape
        rows, columns = padded_rows(count), shared_size(size, least=_LEAST_MEMBERS)
        padded = np.zeros((rows, columns), jax.numpy.result_type(float))
        padded[:count, :size] = margins
        mass = np.pad(weights, (0, rows - count)).astype(padded.dtype)
        clock.begin_fit()
        options: dict[str, Any] = {"weights": mass, "tolerance": self.tolerance}
        if self.method == "relaxed_margin":
            if clock.left is not None:
                options["on_step"] = lambda _state, _info: clock.left != 0.0
            return relaxed_margin.solve(padded, relaxations.soft_margin(nu=self.nu), **options)
        solve = functools.partial(lpboost.solve, padded, nu=self.nu, **options)
        return solve() if clock.left is None else _in_stages(solve, self.tolerance, clock)

    def _calibrate(
        self, margins: np.ndarray, signs: np.ndarray, weights: np.ndarray, clock: FitClock
    ) -> list[calibration.Calibration]:
        """The calibration of the scores: of each fold by the votes that the other rows choose."""
        if self.calibration is None:
            return []
        size, kept = margins.shape[1], np.flatnonzero(weights > 0)
        scores = signs * (margins @ self.coefficients_)
        shuffled = {"shuffle": True, "random_state": self.random_state}
        for training, testing in calibration.folds(signs, weights, self.num_folds, **shuffled):
            inside = np.zeros_like(weights)
            inside[training] = weights[training]
            votes = _votes_of(self._solve(margins, inside, clock), size)
            scores[testing] = signs[testing] * (margins[testing] @ votes)
        codes = (signs[kept] > 0).astype(int)
        return calibration.fit_votes(
            scores[kept, None],
            np.ones((len(kept), 1), bool),
            codes,
            weights[kept],
            self.base_rates_,
            self.calibration,
        )


def _in_stages(
    solve: Callable[..., LPBoostSolution], tolerance: float, clock: FitClock
) -> LPBoostSolution:
    """The votes of `jboost.lpboost.solve` by the simplex method, within the time limit.

    Each stage starts from the basis of the last one. Votes alone prove the lower bound and example
    weights alone the upper bound, so that the best of each are kept.

    Args:
      solve: `jboost.lpboost.solve` with all arguments but `config` and `initial`.
      tolerance: the gap between the bounds to be reached.
      clock: the time limit.
    """
    config = lpboost.SimplexConfig(max_iterations=_PIVOTS_OF_STAGE)
    best = last = solve(config=config)
    for _ in range(_MOST_STAGES - 1):
        if int(best.status) != Status.ITERATION_LIMIT:
            break
        if clock.left == 0.0:
            return best._replace(status=np.int32(Status.TIME_LIMIT))
        last = solve(config=config, initial=last)
        best = _best_of(best, last, tolerance)
    return best


def _best_of(first: LPBoostSolution, last: LPBoostSolution, tolerance: float) -> LPBoostSolution:
    """The better votes and the better example weights of two solutions."""
    below = max(first, last, key=lambda one: float(one.lower_bound))
    above = min(first, last, key=lambda one: float(one.upper_bound))
    is_optimal = float(above.upper_bound) - float(below.lower_bound) <= tolerance
    return last._replace(
        coefficients=below.coefficients,
        lower_bound=below.lower_bound,
        example_weights=above.example_weights,
        upper_bound=above.upper_bound,
        status=np.int32(Status.OPTIMAL) if is_optimal else last.status,
    )


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _votes_of(found: Any, size: int) -> np.ndarray:
    """The votes [T] of a solution, without padding."""
    return np.asarray(found.coefficients, np.float64)[:size]


def _members(estimator: Any) -> list[Callable[[Any], np.ndarray]]:
    """Functions from rows to the output of each member, positive for the second class."""
    if not hasattr(estimator, "estimators_"):
        raise ValueError(
            f"estimator is a {type(estimator).__name__}: expected an ensemble with `estimators_`,"
            " such as RandomForestClassifier"
        )
    members = np.asarray(estimator.estimators_, object).reshape(-1)
    columns = getattr(estimator, "estimators_features_", [None] * len(members))
    second = _second_label(estimator, members)
    return [_output(one, used, second) for one, used in zip(members, columns, strict=True)]


def _second_label(estimator: Any, members: np.ndarray) -> Any:
    """The name that members which are classifiers have for the second class: that of the ensemble,
    or its index. None where all members are regressors.
    """
    labels = [np.asarray(one.classes_) for one in members if hasattr(one, "classes_")]
    if not labels:
        return None
    known = np.unique(np.concatenate(labels))
    if len(known) != 2:
        raise ValueError(
            f"the members of estimator know the classes {known.tolist()}, and the ensemble"
            f" {list(estimator.classes_)}: expected members for two classes"
        )
    return known[1]


def _outputs(members: list[Callable[[Any], np.ndarray]], X: Any) -> np.ndarray:
    """The outputs [k, T] of members, positive for the second class."""
    rows = np.asarray(X) if hasattr(X, "columns") else X  # members know no names of columns
    return np.stack([member(rows) for member in members], axis=1).astype(np.float64)


def _output(member: Any, columns: np.ndarray | None, second: Any) -> Callable[[Any], np.ndarray]:
    """The output of a member: its probability of the label `second` mapped to [-1, 1], without
    probabilities +1 or -1 for its class, and the number that a regressor predicts.
    """

    def output(rows: Any) -> np.ndarray:
        part = rows if columns is None else np.asarray(rows)[:, columns]
        if not hasattr(member, "classes_"):  # a regressor
            return np.asarray(member.predict(part), np.float64)
        if not hasattr(member, "predict_proba"):
            return np.where(np.asarray(member.predict(part)) == second, 1.0, -1.0)
        # a member whose bootstrap holds one class has one column
        shares = np.asarray(member.predict_proba(part))[:, np.asarray(member.classes_) == second]
        return 2 * shares.sum(axis=1) - 1

    return output
