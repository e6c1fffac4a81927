"""Tests whether a result is informative: a proof of optimality is of little use if the optimum is
no better than a constant classifier.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# A tolerance for rounding in float32: absolute for soft margins, relative for losses.
_ROUNDING = 1e-6


def assess(
    loss_rate: float,
    labels: np.ndarray,
    weights: np.ndarray,
    *,
    reasons: Sequence[str] = (),
    remedy: str,
) -> dict[str, Any]:
    """The verdict on a vote, for JSON.

    Args:
      loss_rate: the share of the weight of its training rows that it misclassifies.
      labels: [m] -1 or +1, of these rows.
      weights: [m].
      reasons: reasons, other than its loss, why the vote is not informative; may be empty.
      remedy: what to do about a vote that is not informative.

    Returns:
      `says_something`, whether the vote is informative; the `constant_loss_rate` of
      predicting the larger class; the `reasons` why the vote is not informative; and the `remedy`,
      None for an informative vote.

    >>> labels, weights = np.array([1, 1, -1, 1]), np.ones(4)
    >>> assess(0.0, labels, weights, remedy="a greater --nu")
    {'says_something': True, 'constant_loss_rate': 0.25, 'reasons': [], 'remedy': None}
    >>> lines(assess(0.25, labels, weights, remedy="a greater --nu"))
    ['verdict     not informative: ... and the larger class alone 25.00%. Remedy: a greater --nu']
    """
    total = math.fsum(weights)
    constant = min(math.fsum(weights[labels == sign]) for sign in (-1, 1)) / total
    found = list(reasons)
    if loss_rate >= constant * (1 - _ROUNDING):
        found.append(
            f"it misclassifies {loss_rate:.2%} of the training weight, and the larger class alone"
            f" {constant:.2%}"
        )
    return {
        "says_something": not found,
        "constant_loss_rate": constant,
        "reasons": found,
        "remedy": remedy if found else None,
    }


def soft_margin_reasons(bounds: Mapping[str, float | None]) -> list[str]:
    """The reasons why a soft margin is not informative; empty if a positive one is proven.

    Args:
      bounds: `lower_bound`, and `upper_bound` or, if that is None, `seen_upper_bound`.

    >>> soft_margin_reasons({"lower_bound": 0.0, "upper_bound": 0.009, "seen_upper_bound": 0.009})
    ['its soft margin is 0, as without any vote, and the largest possible is at most 0.009']
    """
    lower, upper = (
        bounds["lower_bound"],
        bounds["upper_bound"] if bounds["upper_bound"] is not None else bounds["seen_upper_bound"],
    )
    if lower is not None and lower > _ROUNDING:
        return []
    known = "" if upper is None else f", and the largest possible is at most {max(upper, 0.0):.4g}"
    return [f"its soft margin is 0, as without any vote{known}"]


def lines(verdict: Mapping[str, Any]) -> list[str]:
    """The verdict as one line; no line for an informative result."""
    if verdict["says_something"]:
        return []
    return [
        f"verdict     not informative: {'; '.join(verdict['reasons'])}. Remedy: {verdict['remedy']}"
    ]


def status_line(explanation: str, verdict: Mapping[str, Any]) -> str:
    """The status of a computation. If the result is not informative, the line tells that the status
    concerns only the computation.
    """
    about = "" if verdict["says_something"] else "of the computation alone: "
    return f"status      {about}{explanation}"
