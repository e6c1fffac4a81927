"""Exact combination of a pair of classifiers (paper 000): the separator of least weight, and its largest margin."""

from jboost.pair.separator import optimal_separator
from jboost.pair.sweep import SweepConfig
from jboost.pair.types import Separator
from jboost.pair.weights import ConfidentLabels, confidence_weights

__all__ = ["ConfidentLabels", "Separator", "SweepConfig", "confidence_weights", "optimal_separator"]
