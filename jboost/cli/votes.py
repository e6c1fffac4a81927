"""Votes of monomials for the command line, for the methods l0 and slipper.

The functions compute scores, remove unused slots, and make the rows of the table of losses.
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
from jboost.report import build, monomials
from jboost.report.build import Losses
from jboost.report.rules import ScoreRule


def voting_part(ensemble: Ensemble, num_attributes: int, precision: str) -> Ensemble:
    """Returns the ensemble without slots of vote 0 and without padding columns.

    At least one slot is kept.
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
    """Returns the scores [k] of bits [k, N] in float64.

    The literals of the rules may have padding columns beyond N.
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
) -> list[ScoreRule]:
    """Returns the majority class and the ensemble as rules for the table of losses.

    The rules take bits. A score of 0 predicts -1, as in `jboost.predict`.

    Args:
      method: the name of the method.
      ensemble: an ensemble of monomials.
      labels: [m] -1 or +1, of the training rows.
      weights: [m].
      mapping: the mapping of the labels.
      precision: the precision of the scores.
    """
    larger = 1 if math.fsum(weights * labels) > 0 else -1
    size = len(monomials.voting(ensemble))
    return [
        ScoreRule(
            "larger class",
            f"always {mapping.to_text(np.array([larger]))[0]}",
            lambda bits: np.full(len(bits), larger),
        ),
        ScoreRule(
            method,
            f"rules: {size}",
            lambda bits: np.where(scores(ensemble, bits, precision) > 0, 1, -1),
        ),
    ]


def rule_losses(
    method: str,
    ensemble: Ensemble,
    training: tuple[np.ndarray, np.ndarray, np.ndarray],
    held_out: tuple[np.ndarray, np.ndarray, np.ndarray] | None,
    mapping: LabelMapping,
    precision: str,
) -> Losses:
    """Returns the losses of the `make_rules` on bits, labels and weights."""
    rules = make_rules(method, ensemble, *training[1:], mapping, precision)
    return build.losses(rules, training, held_out)


def fold_losses(
    method: str,
    ensemble: Ensemble,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    held_out: np.ndarray,
    mapping: LabelMapping,
    precision: str,
) -> Losses:
    """Returns the losses on a fold, with the number of rules of the ensemble.

    Args:
      method: the name of the method.
      ensemble: fitted to the training rows of the fold.
      rows: bits [m, N], labels [m] and weights [m] of all rows.
      held_out: [m] bool.
      mapping: the mapping of the labels.
      precision: the precision of the scores.
    """
    bits, labels, weights = rows
    training, others = (
        (bits[chosen], labels[chosen], weights[chosen]) for chosen in (~held_out, held_out)
    )
    found = rule_losses(method, ensemble, training, others, mapping, precision)
    found[-1]["support"] = len(monomials.voting(ensemble))
    return found


def ones_for_none(weights: np.ndarray | None, size: int) -> np.ndarray:
    """Returns the weights [m], or ones if there are none."""
    return np.ones(size) if weights is None else weights
