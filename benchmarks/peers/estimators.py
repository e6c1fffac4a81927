"""The estimators that `benchmarks.estimators` compares: those of `jboost.sklearn`, of scikit-learn,
and of packages that may be missing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import jboost.sklearn as js

SEED = 0
RULE_SECONDS = 30.0  # of RuleClassifier, for the folds of its calibration and the vote together


def encoded(estimator: Any) -> Any:
    """The estimator behind medians for missing numbers and columns of 0 and 1 for categories."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = make_pipeline(
        SimpleImputer(strategy="most_frequent"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (texts, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(columns, estimator)


def _histogram() -> Any:
    columns = make_column_transformer(
        (
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
            make_column_selector(dtype_exclude="number"),
        ),
        remainder="passthrough",
    )
    return make_pipeline(columns, HistGradientBoostingClassifier(random_state=SEED))


def _base() -> list[tuple[str, Any]]:
    return [
        ("logistic", LogisticRegression(max_iter=1000)),
        ("bayes", GaussianNB()),
        ("neighbours", KNeighborsClassifier()),
    ]


MODELS: dict[str, Callable[[], Any]] = {
    "RuleClassifier": lambda: js.RuleClassifier(cv=3, max_seconds=RULE_SECONDS, random_state=SEED),
    "SlipperClassifier": lambda: js.SlipperClassifier(cv=3, random_state=SEED),
    "LPBoostClassifier": lambda: js.LPBoostClassifier(cv=3, random_state=SEED),
    "RelaxedMarginClassifier": lambda: js.RelaxedMarginClassifier(cv=3, random_state=SEED),
    "AdaBoostClassifier": lambda: js.AdaBoostClassifier(cv=3, random_state=SEED),
    "InfoBoostClassifier": lambda: js.InfoBoostClassifier(cv=3, random_state=SEED),
    "ExampleWeightsClassifier": lambda: encoded(
        js.ExampleWeightsClassifier(cv=3, random_state=SEED)
    ),
    "OptimalVoteClassifier": lambda: encoded(js.OptimalVoteClassifier(_base(), cv=3)),
    "MarginThinner of a forest": lambda: encoded(
        js.MarginThinner(RandomForestClassifier(500, random_state=SEED), random_state=SEED)
    ),
    "scikit-learn AdaBoost": lambda: encoded(AdaBoostClassifier(random_state=SEED)),
    "scikit-learn HistGradientBoosting": _histogram,
    "scikit-learn LogisticRegression": lambda: encoded(LogisticRegression(max_iter=1000)),
    "scikit-learn RandomForest": lambda: encoded(RandomForestClassifier(500, random_state=SEED)),
    "scikit-learn Voting": lambda: encoded(VotingClassifier(_base(), voting="soft")),
    "scikit-learn Stacking": lambda: encoded(StackingClassifier(_base(), cv=3)),
}


def peers() -> dict[str, Callable[[], Any]]:
    """The classifiers of packages that may be missing."""
    found: dict[str, Callable[[], Any]] = {}
    try:
        from interpret.glassbox import ExplainableBoostingClassifier

        found["interpret EBM"] = functools.partial(ExplainableBoostingClassifier, n_jobs=1)
    except ImportError:
        print("interpret is not installed: no EBM", file=sys.stderr)
    try:
        from imodels import FIGSClassifier

        found["imodels FIGS"] = lambda: encoded(FIGSClassifier())
    except ImportError:
        print("imodels is not installed: no FIGS", file=sys.stderr)
    return found
