"""Reports of a combination of many classifiers: its formula, its numbers, and rules to compare it
with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jboost.combine.types import LinearVote
from jboost.data.table import LabelMapping
from jboost.report.rules import ScoreRule, best_threshold

COMBINATION = "combination"


def formula(vote: LinearVote, names: Sequence[str], mapping: LabelMapping | None) -> str:
    """The combination as one readable line, with rounded numbers and without zero coefficients.

    >>> vote = LinearVote(np.array([0.5, 0.0, -0.25]), np.array(0.125), *[None] * 5)
    >>> formula(vote, ["lda", "tree", "knn"], None)
    'predict +1 where 0.5 * lda - 0.25 * knn + 0.125 > 0, else -1'
    """
    positive, negative = (mapping.positive, mapping.negative) if mapping else ("+1", "-1")
    coefficients, offset = np.asarray(vote.coefficients, np.float64), float(vote.offset)
    if not coefficients.any():
        return f"predict {positive if offset > 0 else negative} always"
    terms = [
        (coefficient, f" * {name}")
        for coefficient, name in zip(coefficients, names, strict=True)
        if coefficient
    ]
    text = "".join(
        f" {'-' if number < 0 else '+'} {abs(number):.6g}{what}"
        for number, what in [*terms, (offset, "")]
    )
    return (
        f"predict {positive} where {text.removeprefix(' + ').removeprefix(' ')} > 0, else"
        f" {negative}"
    )


def describe(
    vote: LinearVote, names: Sequence[str], mapping: LabelMapping | None, strategy: str
) -> dict[str, Any]:
    """The formula and the numbers of a combination, for JSON."""
    coefficients = np.asarray(vote.coefficients, np.float64)
    return {
        "formula": formula(vote, names, mapping),
        "constant": not coefficients.any(),
        "strategy": strategy,
        "coefficients": dict(zip(names, coefficients.tolist(), strict=True)),
        "offset": float(vote.offset),
    }


def scores(vote: LinearVote, points: np.ndarray) -> np.ndarray:
    """coefficients . x + offset, [k], in float64 for votes of any precision."""
    values: np.ndarray = np.asarray(points, np.float64) @ np.asarray(
        vote.coefficients, np.float64
    ) + float(vote.offset)
    return values


def make_rules(
    points: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    names: Sequence[str],
    stacked: LinearVote,
    vote: LinearVote,
) -> list[ScoreRule]:
    """The rules: each classifier at its best threshold, majority vote, average, stacking and, last,
    the combination.

    Args:
      points: [n, d] float64, the scores.
      labels: [n], -1 or +1.
      weights: [n], positive.
      names: of the d classifiers.
      stacked: logistic stacking of these points.
      vote: the combination.
    """
    rules = []
    for axis, name in enumerate(names):
        threshold = best_threshold(points[:, axis], labels, weights)
        rules.append(ScoreRule(name, "best threshold", _above(axis, threshold)))
    rules.append(
        ScoreRule(
            "majority vote",
            "a tie counts half",
            lambda scores: np.sign(np.where(scores > 0, 1, -1).sum(axis=1)),
        )
    )
    rules.append(
        ScoreRule(
            "average",
            "of all scores, above 0",
            lambda scores: np.where(scores.mean(axis=1) > 0, 1, -1),
        )
    )
    rules.append(_rule_of("logistic stacking", "on all scores", stacked))
    rules.append(_rule_of(COMBINATION, "by exact searches", vote))
    return rules


def _rule_of(name: str, detail: str, vote: LinearVote) -> ScoreRule:
    return ScoreRule(name, detail, lambda points: np.where(scores(vote, points) > 0, 1, -1))


def _above(axis: int, threshold: float) -> Any:
    return lambda points: np.where(points[:, axis] > threshold, 1, -1)
