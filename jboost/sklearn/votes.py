"""A fitted vote for one class against the others: features, ensemble and certificate."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from jboost.base.boosting import Ensemble, Fit
from jboost.base.predict import predict_scores
from jboost.learners.monomials import Monomial
from jboost.sklearn.features import FeatureMap, padded_rows

# Rows whose features and outputs are in memory at a time. A round number; not tuned.
_ROWS_AT_ONCE = 1 << 16
_scores = jax.jit(predict_scores)


@dataclasses.dataclass(frozen=True)
class ClassVote:
    """A vote whose score is positive for one class."""

    features: FeatureMap
    ensemble: Ensemble  # of NumPy arrays
    certificate: Any
    num_rounds: int
    status: int

    def scores(self, table: np.ndarray) -> np.ndarray:
        """The scores [k] of the rows of a table, in float64 and finite.

        A hypothesis with an infinite vote gives a score beyond those of all finite votes.
        """
        parts = [
            self._scores_of(table[start : start + _ROWS_AT_ONCE], self.ensemble)
            for start in range(0, len(table), _ROWS_AT_ONCE)
        ]
        limit = self.total_vote() + 1.0
        return np.clip(np.concatenate(parts) if parts else np.zeros(0), -limit, limit)

    def total_vote(self) -> float:
        """The largest absolute score that finite votes can reach."""
        votes = np.abs(np.asarray(self.ensemble.votes, np.float64))
        return math.fsum(np.where(np.isfinite(votes), votes, 0.0).max(axis=1, initial=0.0)) + abs(
            float(self.ensemble.constant)
        )

    def covers(self, table: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Whether a hypothesis or the constant votes on each row of these scores, [k] bool."""
        covered = np.ones(len(table), bool)
        if float(self.ensemble.constant) == 0:  # a row without votes has the score 0
            zeros = np.flatnonzero(scores == 0)
            for start in range(0, len(zeros), _ROWS_AT_ONCE):
                rows = zeros[start : start + _ROWS_AT_ONCE]
                covered[rows] = self._has_votes(table[rows])
        return covered

    def _has_votes(self, table: np.ndarray) -> np.ndarray:
        # a vote of 1 for each side that votes, whose score is positive exactly where one votes; by
        # the program of the scores
        votes = np.asarray(self.ensemble.votes)
        ones = np.array([1, -1], votes.dtype) * (votes != 0)
        return self._scores_of(table, self.ensemble._replace(votes=ones)) > 0

    def _scores_of(self, table: np.ndarray, ensemble: Ensemble) -> np.ndarray:
        return np.asarray(_scores(ensemble, self._matrix(table)), np.float64)[: len(table)]

    def _matrix(self, table: np.ndarray) -> np.ndarray:
        """The features of rows, padded: for monomials, of a file too, to the width of these."""
        hypotheses = self.ensemble.hypotheses
        width = hypotheses.literals.shape[1] if isinstance(hypotheses, Monomial) else None
        return _pad_rows(self.features.matrix(table, width))


def _pad_rows(matrix: np.ndarray) -> np.ndarray:
    return np.pad(matrix, ((0, padded_rows(len(matrix)) - len(matrix)), (0, 0)))


def of_fit(fit: Fit, features: FeatureMap) -> ClassVote:
    """The vote of a fit, with its arrays on the host."""
    host = jax.tree.map(np.asarray, jax.device_get(fit))
    return ClassVote(
        features, host.ensemble, host.certificate, int(host.num_rounds), int(host.status)
    )


@dataclasses.dataclass(frozen=True)
class Constant:
    """The vote where all training rows are of one side."""

    score: float

    def scores(self, table: np.ndarray) -> np.ndarray:
        """The score of every row, [k]."""
        return np.full(len(table), self.score)

    def covers(self, table: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Every row is covered, [k] bool."""
        return np.ones(len(table), bool)
