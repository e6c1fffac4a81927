"""Votes of monomials for the command line, of whichever method: scores, the slots that vote, and
the rows of the table of losses.
"""

from __future__ import annotations

import math

import jax
import numpy as np

from jboost.base.boosting import Ensemble
from jboost.base.predict import predict_scores
from jboost.cli import bits as bit_module
from jboost.cli import sizes
from jboost.data.table import LabelMapping
from jboost.report import monomials
from jboost.report.rules import Rule


def voting_part(ensemble: Ensemble, num_attributes: int, precision: str) -> Ensemble:
    """The ensemble without slots that have no vote (one at least is left) and without columns that
    only pad.
    """
    kept = monomials.voting(ensemble)
    kept = kept if len(kept) else np.zeros(1, np.int64)
    with jax.enable_x64(precision == "float64"):
        hypotheses = jax.tree.map(lambda leaf: leaf[kept], ensemble.hypotheses)
        hypotheses = hypotheses._replace(literals=hypotheses.literals[:, :num_attributes])
        return ensemble._replace(
            hypotheses=hypotheses, votes=ensemble.votes[kept], count=jax.numpy.int32(len(kept))
        )


def scores(ensemble: Ensemble, bits: np.ndarray, precision: str) -> np.ndarray:
    """The scores [k] of bits [k, N], in float64; the rules may be about columns that
    only pad, too.
    """
    width = ensemble.hypotheses.literals.shape[1]
    parts = []
    with jax.enable_x64(precision == "float64"):
        for rows in bit_module.parts_of(len(bits)):
            part = bit_module.widened(bits[rows], width).astype(precision)
            padded = np.pad(part, ((0, sizes.linear(len(part)) - len(part)), (0, 0)))
            parts.append(np.asarray(_scores(ensemble, padded), np.float64)[: len(part)])
    return np.concatenate(parts)


_scores = jax.jit(predict_scores)


def make_rules(
    method: str,
    ensemble: Ensemble,
    labels: np.ndarray,
    weights: np.ndarray,
    mapping: LabelMapping,
    precision: str,
) -> list[Rule]:
    """The larger class and the ensemble, as rules on bits for the table of losses; a score of 0 is
    a vote for -1, as in `jboost.predict`.

    Args:
      method: its name.
      ensemble: of monomials.
      labels: [m] -1 or +1, of the training rows.
      weights: [m].
      mapping: of the labels.
      precision: of the scores.
    """
    larger = 1 if math.fsum(weights * labels) > 0 else -1
    size = len(monomials.voting(ensemble))
    return [
        Rule(
            "larger class",
            f"always {mapping.to_text(np.array([larger]))[0]}",
            lambda bits: np.full(len(bits), larger),
        ),
        Rule(
            method,
            f"rules: {size}",
            lambda bits: np.where(scores(ensemble, bits, precision) > 0, 1, -1),
        ),
    ]


def ones_for_none(weights: np.ndarray | None, size: int) -> np.ndarray:
    """Weights [m], ones where there are none."""
    return np.ones(size) if weights is None else weights
