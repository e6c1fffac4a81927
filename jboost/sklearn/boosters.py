"""Boosters of decision stumps and trees as estimators."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from jboost import adaboost, infoboost, lpboost, relaxations, relaxed_margin
from jboost.base import devices
from jboost.sklearn import parameters
from jboost.sklearn.base import CV
from jboost.sklearn.stumps import StumpsClassifier

# The best soft margin never falls as nu grows, and at 1 the vote of largest mean margin is one
# hypothesis. The largest value is the fastest, and is tried first. Round numbers; not tuned.
_NUS = (0.8, 0.5, 0.3, 0.1)


class AdaBoostClassifier(StumpsClassifier):
    """AdaBoost with decision stumps or trees, as an estimator of scikit-learn
    (`jboost.adaboost.fit`).

    Args:
      max_rounds: the largest number of rounds.
      max_depth: 1 for stumps; 2 for trees of depth 2, each the best of all on up to 32 cuts of each
        column; 3 to 10 for greedy trees (`jboost.learners.trees`).
      margin_precision: None for plain AdaBoost, else the precision to which the margin is maximised
        (AdaBoost*_nu), as of `jboost.adaboost.fit`.
      categorical: names or indices of columns whose numbers are categories.
      min_weight_fraction_leaf: the least share of the weight on each side of a cut.
      calibration: "sigmoid" or "isotonic" for `predict_proba`, fitted to scores of rows that the
        vote was not trained on; None for no probabilities, which saves the fits of the folds.
      cv: the number of folds, or a splitter of scikit-learn, or pairs of indices.
      class_weight: None, "balanced", or a weight for each class.
      false_positive_cost: of two classes, what an error on a row of `classes_[0]` costs.
      false_negative_cost: of two classes, what an error on a row of `classes_[1]` costs.
      early_stopping: whether to keep the round of least error on a part of the rows that is held
        out, and to end after `n_iter_no_change` rounds without a lower error.
      validation_fraction: the share of the rows that early stopping holds out.
      n_iter_no_change: see `early_stopping`.
      warm_start: whether `fit` goes on from the last state of a fit of the same rows that
        `max_seconds` or a callback ended; with the same seed, also where `random_state` is None.
        Not together with `early_stopping`.
      max_seconds: the time limit of `fit`, for all votes and folds together; None for none.
      random_state: the seed.

    Attributes after `fit`: `classes_`, `n_features_in_`, `feature_names_in_`, `certificate_`,
    `status_`, `rules_`, `feature_importances_`, `n_iter_`, `options_`.

    Freund and Schapire 1997.

    >>> import numpy as np
    >>> X = np.arange(20.0)[:, None]
    >>> model = AdaBoostClassifier().fit(X, np.where(X[:, 0] > 9, "high", "low"))
    >>> model.predict([[2.0], [15.0]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        *,
        max_rounds: int = 100,
        max_depth: int = 1,
        margin_precision: float | None = None,
        categorical: Any = (),
        min_weight_fraction_leaf: float = 0.0,
        calibration: str | None = "sigmoid",
        cv: Any = 5,
        class_weight: Any = None,
        false_positive_cost: float = 1.0,
        false_negative_cost: float = 1.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        max_seconds: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.max_rounds = max_rounds
        self.max_depth = max_depth
        self.margin_precision = margin_precision
        self.categorical = categorical
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.calibration = calibration
        self.cv = cv
        self.class_weight = class_weight
        self.false_positive_cost = false_positive_cost
        self.false_negative_cost = false_negative_cost
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.max_seconds = max_seconds
        self.random_state = random_state

    def _validate(self) -> None:
        super()._validate()
        parameters.number(self, "margin_precision", low=0, high=2, open_low=True, also=(None,))

    def _boost(self, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return adaboost, options | {"margin_precision": self.margin_precision}


class InfoBoostClassifier(StumpsClassifier):
    """InfoBoost with decision stumps or trees, as an estimator of scikit-learn
    (`jboost.infoboost.fit`).

    Args:
      max_rounds: the largest number of rounds.
      max_depth: 1 for stumps; 2 for trees of depth 2, each the best of all on up to 32 cuts of each
        column; 3 to 10 for greedy trees (`jboost.learners.trees`).
      criterion: by which a stump or tree is chosen, "normalizer" or "edge".
      smoothing: added to the weights from which the votes are computed.
      categorical: names or indices of columns whose numbers are categories.
      min_weight_fraction_leaf: the least share of the weight on each side of a cut.
      calibration: "sigmoid" or "isotonic" for `predict_proba`, fitted to scores of rows that the
        vote was not trained on; None for no probabilities, which saves the fits of the folds.
      cv: the number of folds, or a splitter of scikit-learn, or pairs of indices.
      class_weight: None, "balanced", or a weight for each class.
      false_positive_cost: of two classes, what an error on a row of `classes_[0]` costs.
      false_negative_cost: of two classes, what an error on a row of `classes_[1]` costs.
      early_stopping: whether to keep the round of least error on a part of the rows that is held
        out, and to end after `n_iter_no_change` rounds without a lower error.
      validation_fraction: the share of the rows that early stopping holds out.
      n_iter_no_change: see `early_stopping`.
      warm_start: whether `fit` goes on from the last state of a fit of the same rows that
        `max_seconds` or a callback ended; with the same seed, also where `random_state` is None.
        Not together with `early_stopping`.
      max_seconds: the time limit of `fit`, for all votes and folds together; None for none.
      random_state: the seed.

    Attributes after `fit`: `classes_`, `n_features_in_`, `feature_names_in_`, `certificate_`,
    `status_`, `rules_`, `feature_importances_`, `n_iter_`, `options_`.

    Aslam 2000; Hatano.

    >>> import numpy as np
    >>> X = np.arange(20.0)[:, None]
    >>> model = InfoBoostClassifier().fit(X, np.where(X[:, 0] > 9, "high", "low"))
    >>> model.predict([[2.0], [15.0]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        *,
        max_rounds: int = 100,
        max_depth: int = 1,
        criterion: str = "normalizer",
        smoothing: float = 0.0,
        categorical: Any = (),
        min_weight_fraction_leaf: float = 0.0,
        calibration: str | None = "sigmoid",
        cv: Any = 5,
        class_weight: Any = None,
        false_positive_cost: float = 1.0,
        false_negative_cost: float = 1.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        max_seconds: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.max_rounds = max_rounds
        self.max_depth = max_depth
        self.criterion = criterion
        self.smoothing = smoothing
        self.categorical = categorical
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.calibration = calibration
        self.cv = cv
        self.class_weight = class_weight
        self.false_positive_cost = false_positive_cost
        self.false_negative_cost = false_negative_cost
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.max_seconds = max_seconds
        self.random_state = random_state

    def _validate(self) -> None:
        super()._validate()
        parameters.number(self, "smoothing", low=0)

    def _boost(self, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return infoboost, options | {"criterion": self.criterion, "smoothing": self.smoothing}


class LPBoostClassifier(StumpsClassifier):
    """LP-Boost with decision stumps or trees, as an estimator of scikit-learn
    (`jboost.lpboost.fit`).

    Args:
      max_rounds: the largest number of rounds.
      max_depth: 1 for stumps; 2 for trees of depth 2, each the best of all on up to 32 cuts of each
        column; 3 to 10 for greedy trees (`jboost.learners.trees`).
      nu: the share of the weight that may lie below the soft margin, in (0, 1]; "cv" chooses by
        cross-validation.
      tolerance: the gap between the certified bounds at which the fit ends.
      stop_on: the gap that ends the fit, "provable", "all" or "seen", as of `jboost.lpboost.fit`.
      categorical: names or indices of columns whose numbers are categories.
      min_weight_fraction_leaf: the least share of the weight on each side of a cut.
      calibration: "sigmoid" or "isotonic" for `predict_proba`, fitted to scores of rows that the
        vote was not trained on; None for no probabilities, which saves the fits of the folds.
      cv: the number of folds, or a splitter of scikit-learn, or pairs of indices.
      class_weight: None, "balanced", or a weight for each class.
      false_positive_cost: of two classes, what an error on a row of `classes_[0]` costs.
      false_negative_cost: of two classes, what an error on a row of `classes_[1]` costs.
      early_stopping: whether to keep the round of least error on a part of the rows that is held
        out, and to end after `n_iter_no_change` rounds without a lower error.
      validation_fraction: the share of the rows that early stopping holds out.
      n_iter_no_change: see `early_stopping`.
      warm_start: whether `fit` goes on from the last state of a fit of the same rows that
        `max_seconds` or a callback ended; with the same seed, also where `random_state` is None.
        Not together with `early_stopping`.
      max_seconds: the time limit of `fit`, for all votes and folds together; None for none.
      random_state: the seed.

    Attributes after `fit`: `classes_`, `n_features_in_`, `feature_names_in_`, `certificate_`,
    `status_`, `rules_`, `feature_importances_`, `n_iter_`, `options_`.

    Demiriz, Bennett and Shawe-Taylor 2002.

    >>> import numpy as np
    >>> X = np.arange(20.0)[:, None]
    >>> model = LPBoostClassifier().fit(X, np.where(X[:, 0] > 9, "high", "low"))
    >>> model.predict([[2.0], [15.0]]).tolist()
    ['low', 'high']
    """

    _grids = MappingProxyType({"nu": _NUS})
    _is_ordered = True

    def __init__(
        self,
        *,
        max_rounds: int = 100,
        max_depth: int = 1,
        nu: Any = CV,
        tolerance: float = 1e-3,
        stop_on: str = "provable",
        categorical: Any = (),
        min_weight_fraction_leaf: float = 0.0,
        calibration: str | None = "sigmoid",
        cv: Any = 5,
        class_weight: Any = None,
        false_positive_cost: float = 1.0,
        false_negative_cost: float = 1.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        max_seconds: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.max_rounds = max_rounds
        self.max_depth = max_depth
        self.nu = nu
        self.tolerance = tolerance
        self.stop_on = stop_on
        self.categorical = categorical
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.calibration = calibration
        self.cv = cv
        self.class_weight = class_weight
        self.false_positive_cost = false_positive_cost
        self.false_negative_cost = false_negative_cost
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.max_seconds = max_seconds
        self.random_state = random_state

    def _validate(self) -> None:
        super()._validate()
        parameters.number(self, "nu", low=0, high=1, open_low=True, also=(CV,))
        parameters.number(self, "tolerance", low=0)

    def _boost(self, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return lpboost, options | {"tolerance": self.tolerance, "stop_on": self.stop_on}


class RelaxedMarginClassifier(StumpsClassifier):
    """Boosting for a relaxed margin, as an estimator of scikit-learn (`jboost.relaxed_margin.fit`).

    Args:
      max_rounds: the largest number of rounds.
      max_depth: 1 for stumps; 2 for trees of depth 2, each the best of all on up to 32 cuts of each
        column; 3 to 10 for greedy trees (`jboost.learners.trees`).
      relaxation: of `jboost.relaxations`; None for the soft margin of `nu`.
      nu: the share of the weight that may lie below the soft margin, in (0, 1], where `relaxation`
        is None; "cv" chooses by cross-validation.
      tolerance: the gap between the certified bounds at which the fit ends.
      update: how a round changes the votes, as of `jboost.relaxed_margin.fit`.
      votes: the cost of votes, of `jboost.relaxations`, as of `jboost.relaxed_margin.fit`; None for
        the unit ball of the l1 norm.
      stop_on: the gap that ends the fit, "provable", "all" or "seen", as of
        `jboost.relaxed_margin.fit`.
      categorical: names or indices of columns whose numbers are categories.
      min_weight_fraction_leaf: the least share of the weight on each side of a cut.
      calibration: "sigmoid" or "isotonic" for `predict_proba`, fitted to scores of rows that the
        vote was not trained on; None for no probabilities, which saves the fits of the folds.
      cv: the number of folds, or a splitter of scikit-learn, or pairs of indices.
      class_weight: None, "balanced", or a weight for each class.
      false_positive_cost: of two classes, what an error on a row of `classes_[0]` costs.
      false_negative_cost: of two classes, what an error on a row of `classes_[1]` costs.
      early_stopping: whether to keep the round of least error on a part of the rows that is held
        out, and to end after `n_iter_no_change` rounds without a lower error.
      validation_fraction: the share of the rows that early stopping holds out.
      n_iter_no_change: see `early_stopping`.
      warm_start: whether `fit` goes on from the last state of a fit of the same rows that
        `max_seconds` or a callback ended; with the same seed, also where `random_state` is None.
        Not together with `early_stopping`.
      max_seconds: the time limit of `fit`, for all votes and folds together; None for none.
      random_state: the seed.

    Attributes after `fit`: `classes_`, `n_features_in_`, `feature_names_in_`, `certificate_`,
    `status_`, `rules_`, `feature_importances_`, `n_iter_`, `options_`.

    Shalev-Shwartz and Singer 2008.

    >>> import numpy as np
    >>> X = np.arange(20.0)[:, None]
    >>> model = RelaxedMarginClassifier().fit(X, np.where(X[:, 0] > 9, "high", "low"))
    >>> model.predict([[2.0], [15.0]]).tolist()
    ['low', 'high']
    """

    _is_ordered = True

    @property
    def _grids(self) -> dict[str, Any]:  # type: ignore[override]
        return {"nu": _NUS} if self.relaxation is None else {}

    def __init__(
        self,
        *,
        max_rounds: int = 100,
        max_depth: int = 1,
        relaxation: Any = None,
        nu: Any = CV,
        tolerance: float = 1e-2,
        update: str = "fully_corrective",
        votes: Any = None,
        stop_on: str = "provable",
        categorical: Any = (),
        min_weight_fraction_leaf: float = 0.0,
        calibration: str | None = "sigmoid",
        cv: Any = 5,
        class_weight: Any = None,
        false_positive_cost: float = 1.0,
        false_negative_cost: float = 1.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        max_seconds: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.max_rounds = max_rounds
        self.max_depth = max_depth
        self.relaxation = relaxation
        self.nu = nu
        self.tolerance = tolerance
        self.update = update
        self.votes = votes
        self.stop_on = stop_on
        self.categorical = categorical
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.calibration = calibration
        self.cv = cv
        self.class_weight = class_weight
        self.false_positive_cost = false_positive_cost
        self.false_negative_cost = false_negative_cost
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.max_seconds = max_seconds
        self.random_state = random_state

    def _validate(self) -> None:
        super()._validate()
        if self.relaxation is None:
            parameters.number(self, "nu", low=0, high=1, open_low=True, also=(CV,))
        parameters.number(self, "tolerance", low=0)

    def _boost(self, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        nu = options.pop("nu", None)
        relaxation = self.relaxation
        if relaxation is None:
            relaxation = relaxations.soft_margin(nu=devices.from_host(np.asarray(nu, float)))
        fixed = {
            "relaxation": relaxation,
            "tolerance": self.tolerance,
            "update": self.update,
            "votes": self.votes,
            "stop_on": self.stop_on,
        }
        return relaxed_margin, options | fixed
