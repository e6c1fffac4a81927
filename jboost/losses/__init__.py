"""Robust losses for training with optax, and the exponential loss of boosters.

`worst_case(losses, relaxation)` is the worst expectation of the losses of a batch over
distributions near the uniform one. Well-known special cases have names of their own: `cvar`,
`mean_of_worst`, `chi_square_dro`, `kl_dro`, `group_dro` and `soft_margin_loss`.
"""

from jboost.losses.dro import chi_square_dro, cvar, group_dro, kl_dro, mean_of_worst
from jboost.losses.exponential import (
    ExponentialLoss,
    add_margins,
    certify_nothing_voted,
    example_weights,
    mean_exponential,
    start_exponential,
    training_error,
)
from jboost.losses.margins import (
    binary_margins,
    max_of_others_margins,
    one_vs_rest_margins,
    soft_margin_loss,
)
from jboost.losses.robust import WorstCase, solve_worst_case, worst_case, worst_case_weights

__all__ = [
    "ExponentialLoss",
    "WorstCase",
    "add_margins",
    "binary_margins",
    "certify_nothing_voted",
    "chi_square_dro",
    "cvar",
    "example_weights",
    "group_dro",
    "kl_dro",
    "max_of_others_margins",
    "mean_exponential",
    "mean_of_worst",
    "one_vs_rest_margins",
    "soft_margin_loss",
    "solve_worst_case",
    "start_exponential",
    "training_error",
    "worst_case",
    "worst_case_weights",
]
