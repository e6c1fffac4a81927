"""Rules to compare the optimal combination with. Each rule maps the two scores of an example to a
vote.

A vote is +1, -1, or 0 for a tie. An example of weight w costs w (1 - label vote) / 2, so a tie
costs half. All rules except the majority vote are lines in the plane of the scores. The majority
vote costs the mean of its two members. Hence no rule costs less than the optimal combination on the
training examples.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from jboost.pair.types import Separator

OPTIMAL = "optimal combination"


@dataclasses.dataclass(frozen=True)
class ScoreRule:
    """A decision rule on the scores of two base classifiers."""

    name: str
    detail: str
    vote: Callable[[np.ndarray], np.ndarray]  # points [k, 2] -> [k] in {-1, 0, 1}


def fit_rules(
    points: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    names: Sequence[str],
    separator: Separator,
) -> list[ScoreRule]:
    """All rules, fitted to the same scores. The last one is the optimal combination.

    Args:
      points: [n, 2] float64, the scores.
      labels: [n], -1 or +1.
      weights: [n], positive.
      names: of the two base classifiers.
      separator: the optimal one of these points.
    """
    rules = []
    for axis, name in enumerate(names):
        rules.append(ScoreRule(name, "above 0", _above(axis, 0.0)))
        threshold = best_threshold(points[:, axis], labels, weights)
        rules.append(
            ScoreRule(
                name, f"best threshold: {_describe_threshold(threshold)}", _above(axis, threshold)
            )
        )
    rules.append(
        ScoreRule(
            "majority vote", "a tie counts half", lambda scores: np.sign(_sign(scores).sum(axis=1))
        )
    )
    rules.append(
        ScoreRule(
            "average",
            "of both scores, above 0",
            lambda scores: _sign(scores[:, 0] / 2 + scores[:, 1] / 2),
        )
    )
    rules.append(_stacking(points, labels, weights))
    rules.append(
        ScoreRule(
            OPTIMAL,
            "of both scores, exact",
            lambda scores: _sign(separator_scores(separator, scores)),
        )
    )
    return rules


def loss(rule: ScoreRule, points: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """The weight that a rule misclassifies, correctly rounded."""
    return math.fsum(weights * (1 - labels * rule.vote(points)) / 2)


def best_threshold(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """The threshold t of least cost for the rule "above t is +1". It is halfway between
    two scores, or infinite. Ties are broken in favour of the smallest threshold.

    >>> best_threshold(np.array([1.0, 2.0, 4.0]), np.array([-1, -1, 1]), np.ones(3))
    3.0
    """
    values, index = np.unique(scores, return_inverse=True)
    gain = np.zeros(len(values) + 1)
    # the decrease of the cost when the threshold moves above this value
    np.add.at(gain, index + 1, -labels * weights)
    best = int(np.cumsum(gain).argmax())
    if best == 0:
        return -math.inf
    if best == len(values):
        return math.inf
    middle = values[best - 1] / 2 + values[best] / 2
    return float(middle if middle < values[best] else values[best - 1])


def separator_scores(separator: Separator, points: np.ndarray) -> np.ndarray:
    """normal . (x - anchor) + bias, [k], in float64 for separators of any precision."""
    normal, anchor, bias = (
        np.asarray(part, np.float64)
        for part in (separator.normal, separator.anchor, separator.bias)
    )
    scores: np.ndarray = np.sum(normal * (np.asarray(points, np.float64) - anchor), axis=1) + bias
    return scores


def _stacking(points: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> ScoreRule:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # Powers of two as scale factors prevent overflow of the squares and cause no rounding errors.
    _, exponents = np.frexp(np.abs(points).max(axis=0, initial=0.0))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(np.ldexp(points, -exponents), labels, logisticregression__sample_weight=weights)
    return ScoreRule(
        "logistic stacking",
        "on both scores",
        lambda scores: _sign(model.decision_function(np.ldexp(scores, -exponents))),
    )


def _above(axis: int, threshold: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda scores: np.where(scores[:, axis] > threshold, 1, -1)


def _sign(scores: np.ndarray) -> np.ndarray:
    return np.where(scores > 0, 1, -1)


def _describe_threshold(threshold: float) -> str:
    if math.isinf(threshold):
        return "always " + ("+1" if threshold < 0 else "-1")
    return f"{threshold:.4g}"
