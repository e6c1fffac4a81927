"""Combination of many classifiers in pairs, greedily or along a binary tree (Boyarshinov and
Magdon-Ismail 2005, Section 4).

All functions here run in the 64-bit scope. A pool holds p votes as directions [p, d]. When two
votes are paired, the combination replaces the first one, and the second one is removed. The result
is the best vote that was found, which is at least as good as the last one.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics
from jboost.base.types import Array
from jboost.combine import pairs, votes
from jboost.combine.pairs import Pairing
from jboost.combine.votes import Arithmetic, ScoredExamples, ThresholdVote


class _PairingPool(NamedTuple):
    """The state of the greedy pairing."""

    directions: Array  # [p, d]
    alive: Array  # [p] bool
    # [p, p] int64, of the pair (row, column); the largest integer for pairs that were not tried
    losses: Array
    margins: Array  # [p, p]
    normals: Array  # [p, p, 2]
    best: ThresholdVote


def best_alone(
    examples: ScoredExamples, directions: Array, arithmetic: Arithmetic
) -> ThresholdVote:
    """The best vote along one of several directions [p, d]."""
    return votes.best_of(
        lax.map(lambda direction: votes.vote_along(examples, direction, arithmetic), directions)
    )


def greedy(examples: ScoredExamples, directions: Array, arithmetic: Arithmetic) -> ThresholdVote:
    """Combines the best of all pairs, with ties decided by the margin, until one vote is left. It
    tries (p - 1)^2 exact pairs in total.

    Each of the first p steps fills one row of the table of all pairs. Each later step combines the
    best pair and tries the new vote with all others.
    """
    num_votes = directions.shape[0]
    none = jnp.iinfo(examples.integers.dtype).max
    index = lax.iota(jnp.int32, num_votes)

    def step(number: Array, pool: _PairingPool) -> _PairingPool:
        filling = number < num_votes
        both = pool.alive[:, None] & pool.alive[None, :]
        chosen = votes.best_index(
            jnp.where(both, pool.losses, none).reshape(-1), pool.margins.reshape(-1)
        )
        left, right = chosen // num_votes, chosen % num_votes
        merged = votes.blend(
            pool.directions[left], pool.directions[right], pool.normals[left, right], arithmetic
        )
        slot = jnp.where(filling, number, left).astype(jnp.int32)
        directions = pool.directions.at[slot].set(jnp.where(filling, pool.directions[slot], merged))
        alive = pool.alive & (filling | (index != right))
        partners = jnp.where(filling, index < number, alive & (index != slot))
        tried = pairs.pair_with_each(examples, directions[slot], directions, partners, arithmetic)
        return _PairingPool(
            directions=directions,
            alive=alive,
            losses=pool.losses.at[:, slot]
            .set(none)
            .at[slot]
            .set(jnp.where(partners, tried.vote.loss, none)),
            margins=pool.margins.at[slot].set(tried.vote.margin),
            normals=pool.normals.at[slot].set(tried.normal),
            best=_best_tried(tried, partners, pool.best),
        )

    start = _untried_pool(directions, none, best_alone(examples, directions, arithmetic))
    return loops.fori_loop(0, 2 * num_votes - 1, step, start).best


def _untried_pool(directions: Array, none: int, best: ThresholdVote) -> _PairingPool:
    """The pool before any pair is tried, with the loss `none` for all pairs."""
    num_votes = directions.shape[0]
    return _PairingPool(
        directions=directions,
        alive=jnp.ones((num_votes,), bool),
        losses=jnp.full((num_votes, num_votes), none),
        margins=jnp.zeros((num_votes, num_votes), directions.dtype),
        normals=jnp.zeros((num_votes, num_votes, 2), directions.dtype),
        best=best,
    )


def hierarchical(
    examples: ScoredExamples, directions: Array, num_clustered: int, arithmetic: Arithmetic
) -> ThresholdVote:
    """Combines pairs along a clustering tree of the first votes by agreement. Then the root is
    paired once with every vote, in reverse order, so that stacking votes come first.
    """
    clustered = directions[:num_clustered]
    tree = cluster(examples, clustered, arithmetic)
    pool = jnp.concatenate([clustered, directions])
    others = jnp.arange(num_clustered, pool.shape[0], dtype=tree.dtype)[::-1]
    above = jnp.stack([jnp.full_like(others, tree[-1, 0]), others], axis=1)
    return up_the_tree(examples, pool, jnp.concatenate([tree, above]), arithmetic)


def up_the_tree(
    examples: ScoredExamples, directions: Array, tree: Array, arithmetic: Arithmetic
) -> ThresholdVote:
    """Combines the pairs in the rows of a tree [t, 2] int32. The entries are indices into the pool;
    the combination replaces the first one.
    """

    def merge(
        carry: tuple[Array, ThresholdVote], pair: Array
    ) -> tuple[tuple[Array, ThresholdVote], None]:
        directions, best = carry
        left, right = directions[pair[0]], directions[pair[1]]
        tried = pairs.pair_with_each(examples, left, right[None], jnp.ones((1,), bool), arithmetic)
        merged = votes.blend(left, right, tried.normal[0], arithmetic)
        return (
            directions.at[pair[0]].set(merged),
            _best_tried(tried, jnp.ones((1,), bool), best),
        ), None

    start = (directions, best_alone(examples, directions, arithmetic))
    (_, best), _ = loops.scan(merge, start, tree)
    return best


def cluster(examples: ScoredExamples, directions: Array, arithmetic: Arithmetic) -> Array:
    """The tree [p - 1, 2] of an agglomerative clustering. Each step merges the two groups whose
    members agree most, on average over pairs of members.

    Two votes agree on an example if they assign it to the same class at their best thresholds.
    """
    num_votes = directions.shape[0]
    index = lax.iota(jnp.int32, num_votes)

    def sides(direction: Array) -> Array:
        vote = votes.vote_along(examples, direction, arithmetic)
        offset = jnp.where(jnp.isinf(vote.offset), 0.0, vote.offset)
        return votes.evaluate(examples, vote.coefficients, offset, arithmetic).wrong

    wrong = lax.map(sides, directions)
    headroom = (num_votes * num_votes).bit_length()  # so that sums over pairs do not overflow
    shares = examples.integers >> headroom
    agreement = lax.map(
        lambda one: numerics.masked_sum(jnp.broadcast_to(shares, wrong.shape), wrong == one[None]),
        wrong,
    )

    def merge(
        carry: tuple[Array, Array, Array], _: None
    ) -> tuple[tuple[Array, Array, Array], Array]:
        agreement, sizes, alive = carry
        number_of_pairs = sizes[:, None] * sizes[None, :]
        distinct = alive[:, None] & alive[None, :] & (index[:, None] < index[None, :])
        mean = jnp.where(
            distinct, agreement.astype(directions.dtype) / number_of_pairs, -1.0
        ).reshape(-1)
        chosen = jnp.minimum(numerics.first_true(mean == jnp.max(mean)), num_votes * num_votes - 1)
        left, right = chosen // num_votes, chosen % num_votes
        agreement = agreement.at[left].add(agreement[right])
        agreement = agreement.at[:, left].add(agreement[:, right])
        sizes = sizes.at[left].add(sizes[right])
        return (agreement, sizes, alive & (index != right)), jnp.stack([left, right]).astype(
            jnp.int32
        )

    start = (agreement, jnp.ones((num_votes,), directions.dtype), jnp.ones((num_votes,), bool))
    _, tree = loops.scan(merge, start, None, length=num_votes - 1)
    return tree


def random_tree(key: Array, num_votes: int) -> Array:
    """The tree [p - 1, 2] that merges two random remaining votes in each step. Call it outside the
    64-bit scope, in which no random numbers are drawn.
    """

    def merge(alive: Array, key: Array) -> tuple[Array, Array]:
        draws = jnp.where(alive, jax.random.uniform(key, (num_votes,)), -1.0)
        _, pair = lax.top_k(draws, 2)
        return alive.at[pair[1]].set(False), pair.astype(jnp.int32)

    _, tree = loops.scan(merge, jnp.ones((num_votes,), bool), jax.random.split(key, num_votes - 1))
    return tree


def _best_tried(tried: Pairing, wanted: Array, best: ThresholdVote) -> ThresholdVote:
    """The best of the vote `best` and of the pairs for which `wanted` is True."""
    none = jnp.iinfo(tried.vote.loss.dtype).max
    candidates = tried.vote._replace(loss=jnp.where(wanted, tried.vote.loss, none))
    return votes.better(votes.best_of(candidates), best)
