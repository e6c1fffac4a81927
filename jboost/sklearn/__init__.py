"""Estimators of scikit-learn.

The module needs the extra `sklearn`: `pip install "jboost[sklearn]"`.
"""

from jboost.sklearn.binarizer import Binarizer
from jboost.sklearn.boosters import (
    AdaBoostClassifier,
    InfoBoostClassifier,
    LPBoostClassifier,
    RelaxedMarginClassifier,
)
from jboost.sklearn.example_weights import ExampleWeightsClassifier
from jboost.sklearn.optimal_vote import OptimalVoteClassifier
from jboost.sklearn.rule_models import RuleClassifier, SlipperClassifier
from jboost.sklearn.saving import load, save
from jboost.sklearn.thinner import MarginThinner

__all__ = [
    "AdaBoostClassifier",
    "Binarizer",
    "ExampleWeightsClassifier",
    "InfoBoostClassifier",
    "LPBoostClassifier",
    "MarginThinner",
    "OptimalVoteClassifier",
    "RelaxedMarginClassifier",
    "RuleClassifier",
    "SlipperClassifier",
    "load",
    "save",
]
