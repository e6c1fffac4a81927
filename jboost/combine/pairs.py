"""Exact combinations of pairs of votes by `jboost.pair`: one pair after another on a CPU, and all
at once on an accelerator.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import devices
from jboost.base.types import Array
from jboost.combine import votes
from jboost.combine.votes import Arithmetic, ScoredExamples, ThresholdVote, linear_scores
from jboost.pair.separator import optimal_separator
from jboost.pair.sweep import SweepConfig

# (centre, point) pairs that the sweeps on an accelerator hold at once, over all problems
_PAIRS_AT_ONCE = 1 << 25


class Pairing(NamedTuple):
    """The exact combination of two votes."""

    normal: Array  # [2] of the separator in the plane of their scores; 0 where a constant is best
    vote: ThresholdVote  # along the combined direction


def pair_with_each(
    examples: ScoredExamples, left: Array, rights: Array, wanted: Array, arithmetic: Arithmetic
) -> Pairing:
    """The exact combinations of one direction with each of several.

    Args:
      examples: the problem.
      left: [d].
      rights: [p, d], p at least 1.
      wanted: [p] bool; pairs for which it is False take little time, and their results are
        undefined.
      arithmetic: of the votes.

    Returns:
      Pairing with leading axis [p].
    """
    num_pairs = rights.shape[0]
    on_cpu = devices.platform() == "cpu"
    config = None if on_cpu else SweepConfig(chunk_pairs=max(1, _PAIRS_AT_ONCE // num_pairs))
    signs = jnp.where(examples.positive, 1, -1)
    left_scores = linear_scores(examples.columns, left)

    def pair(item: tuple[Array, Array]) -> Pairing:
        right, is_wanted = item
        points = jnp.stack([left_scores, linear_scores(examples.columns, right)], axis=1)
        separator = optimal_separator(
            points, signs, weights=examples.weights, mask=examples.live & is_wanted, config=config
        )
        vote = votes.vote_along(
            examples, votes.blend(left, right, separator.normal, arithmetic), arithmetic
        )
        return Pairing(separator.normal, vote)

    return lax.map(pair, (rights, wanted), batch_size=None if on_cpu else num_pairs)
