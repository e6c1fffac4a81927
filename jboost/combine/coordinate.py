"""Exact pair sweeps. In turn for each classifier, the vote moves to the optimum of the plane that
it spans with that classifier, until no move improves it.

All functions here run in the 64-bit scope.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops
from jboost.base.types import Array
from jboost.combine import pairs, votes
from jboost.combine.votes import Arithmetic, ScoredExamples, ThresholdVote

# A smaller relative increase of the margin at the same loss is no improvement. Otherwise the moves
# might never end.
_GAIN = 1e-3


class _Descent(NamedTuple):
    """The state of the sweeps."""

    vote: ThresholdVote
    index: Array  # [] int32, of the next classifier
    idle: Array  # [] int32, moves since the last improvement


def descend(
    examples: ScoredExamples,
    starts: Array,
    directions: Array,
    arithmetic: Arithmetic,
    max_moves: int,
) -> ThresholdVote:
    """The best vote found from several starts.

    Args:
      examples: the problem.
      starts: [s, d] directions to start from.
      directions: [p, d] directions with which the vote is paired in turn.
      arithmetic: of the votes.
      max_moves: from each start.
    """
    num_directions = directions.shape[0]

    def move(descent: _Descent) -> _Descent:
        partner = lax.dynamic_index_in_dim(directions, descent.index)
        tried = pairs.pair_with_each(
            examples, descent.vote.coefficients, partner, jnp.ones((1,), bool), arithmetic
        )
        candidate = votes.best_of(tried.vote)
        needed = descent.vote._replace(margin=descent.vote.margin * (1 + _GAIN))
        improves = votes.is_better(candidate, needed)
        vote = ThresholdVote(
            *(
                jnp.where(improves, new, old)
                for new, old in zip(candidate, descent.vote, strict=True)
            )
        )
        return _Descent(
            vote, (descent.index + 1) % num_directions, jnp.where(improves, 0, descent.idle + 1)
        )

    def run(start: Array) -> ThresholdVote:
        zero = jnp.zeros((), jnp.int32)
        first = _Descent(votes.vote_along(examples, start, arithmetic), zero, zero)
        last, _ = loops.bounded_loop(
            move, lambda descent: descent.idle < num_directions, first, max_checks=max_moves
        )
        return last.vote

    return votes.best_of(lax.map(run, starts))
