"""Votes of rules, conjunctions of conditions on columns, as estimators."""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import Any

import numpy as np

from jboost import l0, learners, slipper
from jboost.base import devices
from jboost.base.boosting import Fit
from jboost.base.types import Dataset
from jboost.l0.margins import usual_margin
from jboost.monomials import costs
from jboost.sklearn import features, parameters
from jboost.sklearn.base import CV
from jboost.sklearn.features import FeatureMap
from jboost.sklearn.stumps import dataset_of
from jboost.sklearn.tables import LabelledRows
from jboost.sklearn.votes import ClassVote, of_fit
from jboost.sklearn.warm_starts import WarmStartClassifier
from jboost.sklearn.watch import FitWatch

AUTO = "auto"
_VOTES = {"sparse": l0.SearchConfig, "relaxed": l0.RelaxedConfig}
_MOST_ORDER = 3  # of `jboost.l0.fit_large`
# The least number of columns that rules are padded to, so that predictions share a program: their
# work is little.
_LEAST_WIDTH = 256
# Round numbers around the defaults; not tuned.
_ORDERS, _NUMBERS = (1, 2), (4, 8, 12)
_KAPPAS, _MARGINS = (2.5, 1.5, 0.5), (0.3, 0.1, 0.03)


class _BitsClassifier(WarmStartClassifier):
    """A vote of rules on bits such as "age <= 54.5"."""

    categorical: Any
    cuts: str
    num_quantiles: int
    missing: str

    def _features(self, rows: LabelledRows, signs: np.ndarray) -> FeatureMap:
        """The bits for training rows."""
        return features.bits_alone(
            rows,
            signs,
            self._names(),
            self.categorical,
            cuts=self.cuts,
            num_quantiles=self.num_quantiles,
            missing=self.missing,
        )


class RuleClassifier(_BitsClassifier):
    """A vote of few rules with certified bounds, as an estimator of scikit-learn
    (`jboost.l0.fit_large`).

    Args:
      max_order: the largest number of conditions in a rule, 1 to 3, or "cv".
      max_rules: the largest number of rules in the vote, None for no limit, or "cv".
      kappa: the cost of a rule beside its description length, in misclassified rows, or "cv".
      margin: rho in (0, 1]; "auto" for 20 divided by the weight of all rows, at most 0.4;
        or "cv". With more than 0.5 no vote of rules has rows of both classes right.
      vote: "sparse" for a local search on the errors and costs of rules; "relaxed" for the rounded
        solution of the relaxation.
      tolerance: the relative gap between the bounds of the relaxation at which the fit ends.
      max_rounds: the largest number of rounds of column generation.
      max_columns: the rules held at a time.
      max_cuts: the pair cuts held at a time; None for 2048, or 4096 if there are many rows.
      categorical: names or indices of columns whose numbers are categories.
      cuts: where numbers are cut, as of `jboost.data.binarization.fit`.
      num_quantiles: the number of parts for "quantiles".
      missing: how missing values are treated, as of `jboost.data.binarization.fit`.
      calibration: "sigmoid" or "isotonic" for `predict_proba`, fitted to scores of rows that the
        vote was not trained on; None for no probabilities, which saves the fits of the folds.
      cv: the number of folds, or a splitter of scikit-learn, or pairs of indices.
      class_weight: None, "balanced", or a weight for each class.
      false_positive_cost: of two classes, what an error on a row of `classes_[0]` costs.
      false_negative_cost: of two classes, what an error on a row of `classes_[1]` costs.
      warm_start: whether `fit` goes on from the last state of a fit of the same rows that
        `max_seconds` or a callback ended; with the same seed, also where `random_state` is None.
      max_seconds: the time limit of `fit`, for all votes and folds together; None for none.
      random_state: the seed.

    Attributes after `fit`: `classes_`, `n_features_in_`, `feature_names_in_`, `certificate_`,
    `status_`, `rules_`, `feature_importances_`, `n_iter_`, `options_`.

    Goldberg and Eckstein 2009.

    >>> import numpy as np
    >>> X = np.array([[x, y] for x in range(6) for y in range(6)] * 3)
    >>> model = RuleClassifier(calibration=None).fit(X, (X[:, 0] > 2) & (X[:, 1] > 2))
    >>> print(model.rules_)  # doctest: +ELLIPSIS
    +... for True: x0 > 2.5 and x1 > 2.5
    ...
    """

    _grids = MappingProxyType(
        {"max_order": _ORDERS, "max_rules": _NUMBERS, "kappa": _KAPPAS, "margin": _MARGINS}
    )

    def __init__(
        self,
        *,
        max_order: Any = 2,
        max_rules: Any = 12,
        kappa: Any = 1.5,
        margin: Any = "auto",
        vote: str = "sparse",
        tolerance: float = 1e-2,
        max_rounds: int = 100,
        max_columns: int = 1024,
        max_cuts: int | None = None,
        categorical: Any = (),
        cuts: str = "quantiles",
        num_quantiles: int = 10,
        missing: str = "literal",
        calibration: str | None = "sigmoid",
        cv: Any = 5,
        class_weight: Any = None,
        false_positive_cost: float = 1.0,
        false_negative_cost: float = 1.0,
        warm_start: bool = False,
        max_seconds: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.max_order = max_order
        self.max_rules = max_rules
        self.kappa = kappa
        self.margin = margin
        self.vote = vote
        self.tolerance = tolerance
        self.max_rounds = max_rounds
        self.max_columns = max_columns
        self.max_cuts = max_cuts
        self.categorical = categorical
        self.cuts = cuts
        self.num_quantiles = num_quantiles
        self.missing = missing
        self.calibration = calibration
        self.cv = cv
        self.class_weight = class_weight
        self.false_positive_cost = false_positive_cost
        self.false_negative_cost = false_negative_cost
        self.warm_start = warm_start
        self.max_seconds = max_seconds
        self.random_state = random_state

    def _validate(self) -> None:
        super()._validate()
        if self.vote not in _VOTES:
            raise ValueError(f"vote is {self.vote!r}: expected 'sparse' or 'relaxed'")
        if self.vote == "relaxed" and self.max_rules is None:
            raise ValueError("max_rules is None: the vote 'relaxed' needs a number")
        if self.max_order != CV and self.max_order not in range(1, _MOST_ORDER + 1):
            raise ValueError(
                f"max_order is {self.max_order!r}: expected 1, 2, 3 or 'cv'; jboost.l0.fit takes"
                " longer rules"
            )
        parameters.whole(self, "max_rules", low=1, also=(None, CV))
        parameters.number(self, "kappa", low=0, also=(CV,))
        parameters.number(self, "margin", low=0, high=1, open_low=True, also=(AUTO, CV))
        parameters.number(self, "tolerance", low=0)
        parameters.whole(self, "max_rounds", low=0)
        parameters.whole(self, "max_columns", low=1)
        parameters.whole(self, "max_cuts", low=1, also=(None,))

    def _fit_vote(
        self, rows: LabelledRows, signs: np.ndarray, options: dict[str, Any], watch: FitWatch
    ) -> ClassVote:
        seen = self._features(rows, signs)
        size = seen.binarizer.num_bits
        order = options["max_order"]
        # as many columns as a rule may have conditions, those behind the bits being padding
        bits = seen.matrix(rows.table)[:, : max(size, order)]
        total = max(float(rows.weights.sum()), 2.0)
        margin = usual_margin(total) if options["margin"] == AUTO else options["margin"]
        limits = {
            name: getattr(self, name)
            for name in ("tolerance", "max_rounds", "max_columns", "max_cuts")
        }
        dataset = Dataset(bits, signs, rows.weights, np.ones(len(signs), bool))
        cost = costs.mdl(options["kappa"], num_attributes=max(size, 1), num_examples=total)
        fit = functools.partial(
            l0.fit_large,
            dataset,
            learners.monomials(order, cost=cost),
            margin=margin,
            search=_VOTES[self.vote](max_hypotheses=options["max_rules"]),
            time_limit=watch.left,
            **limits,
        )
        # the cost is a function of kappa and of the data
        described = options | limits | {"margin": margin, "vote": self.vote, "size": size}
        fitted = self._resumed("jboost.l0.fit_large", described, dataset, watch, fit)
        return of_fit(_widened(fitted, max(seen.padded_size, _LEAST_WIDTH)), seen)


class SlipperClassifier(_BitsClassifier):
    """A vote of rules by SLIPPER, as an estimator of scikit-learn (`jboost.slipper.fit`).

    Args:
      max_order: the largest number of conditions in a rule.
      positive: the class of each vote that rules are for, "minority", +1 or -1.
      num_rounds: the number of rounds; None to choose it by cross-validation.
      max_rounds: the largest number of rounds to choose from.
      categorical: names or indices of columns whose numbers are categories.
      cuts: where numbers are cut, as of `jboost.data.binarization.fit`.
      num_quantiles: the number of parts for "quantiles".
      missing: how missing values are treated, as of `jboost.data.binarization.fit`.
      calibration: "sigmoid" or "isotonic" for `predict_proba`, fitted to scores of rows that the
        vote was not trained on; None for no probabilities, which saves the fits of the folds.
      cv: the number of folds, or a splitter of scikit-learn, or pairs of indices.
      class_weight: None, "balanced", or a weight for each class.
      false_positive_cost: of two classes, what an error on a row of `classes_[0]` costs.
      false_negative_cost: of two classes, what an error on a row of `classes_[1]` costs.
      warm_start: whether `fit` goes on from the last state of a fit of the same rows that
        `max_seconds` or a callback ended; with the same seed, also where `random_state` is None.
      max_seconds: the time limit of `fit`, for all votes and folds together; None for none.
      random_state: the seed.

    Attributes after `fit`: `classes_`, `n_features_in_`, `feature_names_in_`, `certificate_`,
    `status_`, `rules_`, `feature_importances_`, `n_iter_`, `options_`.

    Cohen and Singer 1999.

    >>> import numpy as np
    >>> X = np.array([[x, y] for x in range(6) for y in range(6)] * 3)
    >>> model = SlipperClassifier(num_rounds=4, calibration=None, random_state=0)
    >>> model.fit(X, (X[:, 0] > 2) & (X[:, 1] > 2)).score(X, (X[:, 0] > 2) & (X[:, 1] > 2))
    1.0
    """

    def __init__(
        self,
        *,
        max_order: int = 16,
        positive: Any = "minority",
        num_rounds: int | None = None,
        max_rounds: int = 100,
        categorical: Any = (),
        cuts: str = "quantiles",
        num_quantiles: int = 10,
        missing: str = "literal",
        calibration: str | None = "sigmoid",
        cv: Any = 5,
        class_weight: Any = None,
        false_positive_cost: float = 1.0,
        false_negative_cost: float = 1.0,
        warm_start: bool = False,
        max_seconds: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.max_order = max_order
        self.positive = positive
        self.num_rounds = num_rounds
        self.max_rounds = max_rounds
        self.categorical = categorical
        self.cuts = cuts
        self.num_quantiles = num_quantiles
        self.missing = missing
        self.calibration = calibration
        self.cv = cv
        self.class_weight = class_weight
        self.false_positive_cost = false_positive_cost
        self.false_negative_cost = false_negative_cost
        self.warm_start = warm_start
        self.max_seconds = max_seconds
        self.random_state = random_state

    def _fit_vote(
        self, rows: LabelledRows, signs: np.ndarray, options: dict[str, Any], watch: FitWatch
    ) -> ClassVote:
        seen = self._features(rows, signs)
        dataset = dataset_of(seen.matrix(rows.table), signs, rows.weights)
        limits: dict[str, Any] = {"max_rounds": self.max_rounds, "num_rounds": self.num_rounds}
        fit = functools.partial(
            slipper.fit,
            dataset,
            slipper.rules(self.max_order, positive=self.positive),
            key=devices.key_of(self._seed),
            **limits,
        )
        described = limits | {
            "max_order": self.max_order,
            "positive": self.positive,
            "seed": self._seed,
        }
        fitted = self._resumed("jboost.slipper.fit", described, dataset, watch, fit)
        return of_fit(fitted, seen)


def _widened(fitted: Fit, width: int) -> Fit:
    """The fit with literals of 0 for the columns that only pad."""
    hypotheses = fitted.ensemble.hypotheses
    missing = width - hypotheses.literals.shape[1]
    literals = np.pad(np.asarray(hypotheses.literals), ((0, 0), (0, missing)))
    ensemble = fitted.ensemble._replace(hypotheses=hypotheses._replace(literals=literals))
    return fitted._replace(ensemble=ensemble)
