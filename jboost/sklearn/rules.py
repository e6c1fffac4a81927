"""The rules of a fitted estimator as a list."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from jboost.data import binarization
from jboost.learners.monomials import Monomial
from jboost.sklearn.features import FeatureMap
from jboost.sklearn.votes import ClassVote


@dataclasses.dataclass(frozen=True)
class EstimatorRule:
    """One hypothesis that votes."""

    text: str  # the condition, such as "age <= 54.5 and cp != 4"
    target: Any  # the class that a positive vote is for
    vote: float  # if the condition is true
    vote_otherwise: float  # if it is false


class RuleList(tuple[EstimatorRule, ...]):
    """The rules of an estimator, the largest votes first.

    `str` gives one line for each rule, and `as_frame` a table.
    """

    __slots__ = ()

    def as_frame(self) -> Any:
        """A pandas DataFrame with the fields of the rules as columns.

        Raises:
          ImportError: if pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError(
                "as_frame needs pandas: install it, or iterate over rules_"
            ) from error
        fields = [field.name for field in dataclasses.fields(EstimatorRule)]
        return pandas.DataFrame([dataclasses.astuple(rule) for rule in self], columns=fields)

    def __str__(self) -> str:
        return "\n".join(_line(rule) for rule in self) or "no rule votes"


def rules_of(votes: Iterable[tuple[Any, Any]]) -> RuleList:
    """The rules of votes; each entry is (class, vote)."""
    found = [
        rule
        for target, vote in votes
        if isinstance(vote, ClassVote)
        for rule in _rules(target, vote)
    ]
    return RuleList(sorted(found, key=lambda rule: -max(abs(rule.vote), abs(rule.vote_otherwise))))


def importances(votes: Iterable[Any], num_columns: int) -> np.ndarray:
    """The share of each column of the table in the votes, [n]; the sum is 1 unless all are 0.

    The vote of a hypothesis is shared equally among the columns that it reads.
    """
    total = np.zeros(num_columns)
    for vote in votes:
        if isinstance(vote, ClassVote):
            for slot, size in _voting(vote):
                columns = _columns(vote, slot)
                total[columns] += size / max(len(columns), 1)
    whole = total.sum()
    return total / whole if whole > 0 else total


def _rules(target: Any, vote: ClassVote) -> list[EstimatorRule]:
    votes = np.asarray(vote.ensemble.votes, np.float64)
    constant = float(vote.ensemble.constant)
    always = [EstimatorRule("always", target, constant, constant)] if constant else []
    return always + [_rule(vote, slot, target, votes[slot]) for slot, _ in _voting(vote)]


def _rule(vote: ClassVote, slot: int, target: Any, votes: np.ndarray) -> EstimatorRule:
    hypothesis = jax.tree.map(lambda leaf: np.asarray(leaf[slot]), vote.ensemble.hypotheses)
    if isinstance(hypothesis, Monomial):
        text = _monomial(vote.features, hypothesis)
        return EstimatorRule(text, target, float(votes[0] * hypothesis.sign), 0.0)
    text = vote.ensemble.learner.describe(hypothesis, vote.features.names)
    return EstimatorRule(text, target, float(votes[0]), -float(votes[1]))


def _monomial(features: FeatureMap, hypothesis: Monomial) -> str:
    literals = np.asarray(hypothesis.literals)[: features.binarizer.num_bits]
    return binarization.describe_monomial(features.binarizer, literals.astype(np.int32))


def _voting(vote: ClassVote) -> list[tuple[int, float]]:
    """(slot, size of the vote) of the hypotheses that vote."""
    votes = np.asarray(vote.ensemble.votes, np.float64)
    sizes = np.where(np.isfinite(votes), np.abs(votes), vote.total_vote() + 1).max(axis=1)
    return [(int(slot), float(sizes[slot])) for slot in np.flatnonzero(sizes)]


def _columns(vote: ClassVote, slot: int) -> np.ndarray:
    """The distinct columns of the table that a hypothesis reads."""
    hypothesis = jax.tree.map(lambda leaf: np.asarray(leaf[slot]), vote.ensemble.hypotheses)
    if isinstance(hypothesis, Monomial):
        used = np.flatnonzero(np.asarray(hypothesis.literals))
    else:
        used = np.atleast_1d(vote.ensemble.learner.places(hypothesis))
    used = used[(used >= 0) & (used < vote.features.size)]
    return np.unique(vote.features.columns[used])


def _line(rule: EstimatorRule) -> str:
    otherwise = f", otherwise {rule.vote_otherwise:+.4g}" if rule.vote_otherwise else ""
    return f"{rule.vote:+.4g} for {rule.target}: {rule.text}{otherwise}"
