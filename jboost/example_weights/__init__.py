"""Example weights: a classifier defined by a distribution over examples and a measure on
hypotheses, found by a linear program (Naish-Guzman, Holden and Paquet).
"""

from jboost.example_weights.bounds import recompute_bounds
from jboost.example_weights.choice import PenaltyChoice, PenaltyChoiceState, choose_penalty
from jboost.example_weights.large import LargeState, fit_large
from jboost.example_weights.sampling import SampledScores, sample_scores
from jboost.example_weights.solve import Config, fit, validate
from jboost.example_weights.types import ExampleWeightModel, compact

__all__ = [
    "Config",
    "ExampleWeightModel",
    "LargeState",
    "PenaltyChoice",
    "PenaltyChoiceState",
    "SampledScores",
    "choose_penalty",
    "compact",
    "fit",
    "fit_large",
    "recompute_bounds",
    "sample_scores",
    "validate",
]
