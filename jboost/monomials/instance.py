"""An instance of (27), paper 001, for one sign: the examples that a monomial is to cover, those it is not to, what is known at the root.

Symbols: w+ and w- `gains` and `losses`, v_ii' `rewards`, c(k) `costs`. All amounts are integers of one unit (`integers`). Of the 2N literals
l < N wants attribute l to be 1, N + l wants it to be 0. Examples without gain, loss or reward take no part: a cover never holds them.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array
from jboost.monomials import integers

_MOST_ENTRIES = 1 << 22  # of the products of literals that are held at once


class Rows(NamedTuple):
    """Examples of one class."""

    ones: Array  # [R, N] 1 where the attribute is 1, else 0
    words: Array  # [R, W] the literals that cover the example, as bits
    known: Array | None  # [R, N] 0 where the attribute is missing, so that neither of its literals holds; None: nowhere
    counts: Array  # [R] bool, whether the example takes part


class Nested(NamedTuple):
    """Literals whose covers at the root hold that of a literal, or are held by it, the nearest first; 2N where there is none."""

    tighter: Array  # [k, 2N] int32
    looser: Array  # [k, 2N] int32


class Matchings(NamedTuple):
    """Pairs of a wanted and an unwanted example, in rounds: in a round no example has two partners."""

    partner: Array  # [rounds, R] int32: the wanted example that goes with an unwanted one
    inverse: Array  # [rounds, R] int32: the unwanted example that goes with a wanted one
    is_pair: Array  # [rounds, R] bool, by unwanted example
    parting: Array  # [rounds, R, W] the literals that cover the wanted one of the pair alone, as bits


class Rewards(NamedTuple):
    """What is earned for a covered wanted example and an unwanted one that is not covered."""

    amounts: Array  # [R, R] v, wanted by unwanted
    of_pairs: Array  # [rounds, R] v of the pairs of the matchings


class Instance(NamedTuple):
    """What the search for one sign knows."""

    wanted: Rows
    unwanted: Rows
    gains: Array  # [R]
    losses: Array  # [R]
    costs: Array  # [D + 2] of orders 0 ... D - 1; of higher ones, which are not allowed, more than can be gained
    least_costs: Array  # [D + 2] the least cost of this or a higher order
    costs_rise: Array  # [] bool, whether no order costs less than a lower one: else literals that change no cover may still pay
    nested: Nested
    matchings: Matchings
    rewards: Rewards | None
    allowed: Array  # [2N] bool: False for literals of attributes that only pad


def rows_of(ones: Array, known: Array | None) -> Rows:
    """Examples [R, N] that all take part."""
    zeros = (1 if known is None else known) - ones
    words = integers.pack(jnp.concatenate([ones, zeros], axis=1) > 0)
    return Rows(ones, words, known, jnp.ones((ones.shape[0],), bool))


def covered(rows: Rows, literals: Array) -> Array:
    """Which examples all of the literals, words [W, B], cover, [R, B] bool; those that take no part are not covered."""
    missed = functools.reduce(jnp.bitwise_or, (~rows.words[:, None, word] & literals[None, word, :] for word in range(literals.shape[0])))
    return lax.optimization_barrier((missed == 0) & rows.counts[:, None])  # made once, not anew for each use


def amounts_by_literal(rows: Rows, amounts: Array) -> Array:
    """What integers [R, B] of the examples sum to within each literal's cover, [2N, B]."""
    positive = integers.product(rows.ones.T, amounts)
    present = jnp.sum(amounts, axis=0)[None, :] if rows.known is None else integers.product(rows.known.T, amounts)
    return lax.optimization_barrier(jnp.concatenate([positive, present - positive]))


def literals_of(rows: Rows) -> Array:
    """Which literals cover an example, [R, 2N], 0 or 1; none where it takes no part."""
    zeros = (1 if rows.known is None else rows.known) - rows.ones
    return jnp.concatenate([rows.ones, zeros], axis=1) * rows.counts[:, None]


def make(
    wanted: Rows,
    unwanted: Rows,
    gains: Array,
    losses: Array,
    rewards: Array | None,
    costs: Array,
    is_attribute: Array,
    *,
    num_nested: int,
    num_matchings: int,
) -> Instance:
    """The instance of one sign.

    Args:
      wanted: R examples of the sign's class; `counts` is worked out here.
      unwanted: R examples of the other class.
      gains: [R] integers, 0 for padding.
      losses: [R] integers, 0 for padding.
      rewards: [R, R] integers, wanted by unwanted; None for none.
      costs: [D] integers.
      is_attribute: [N] bool, False for attributes that only pad.
      num_nested: static, see `SearchConfig`.
      num_matchings: static.
    """
    earned = 0 if rewards is None else jnp.sum(rewards, axis=1, dtype=gains.dtype)
    at_stake = 0 if rewards is None else jnp.sum(rewards, axis=0, dtype=gains.dtype)
    wanted = wanted._replace(counts=gains + earned > 0)
    unwanted = unwanted._replace(counts=losses + at_stake > 0)
    matchings = _match(wanted, unwanted, num_matchings)
    most = jnp.asarray(2 ** integers.bits(integers.float_of(gains.dtype)) - 1, gains.dtype)
    everything = jnp.sum(gains, dtype=gains.dtype) + jnp.sum(losses, dtype=gains.dtype) + jnp.sum(earned, dtype=gains.dtype)
    costs = jnp.concatenate([jnp.where(costs > everything, most, costs), jnp.full((2,), most)])
    return Instance(
        wanted,
        unwanted,
        gains,
        losses,
        costs,
        lax.cummin(costs, reverse=True),
        jnp.all(costs[1:] >= costs[:-1]),
        _nest(jnp.concatenate([literals_of(wanted), literals_of(unwanted)]), num_nested),
        matchings,
        None if rewards is None else Rewards(rewards, _rewards_of_pairs(rewards, matchings)),
        jnp.concatenate([is_attribute, is_attribute]),
    )


def _rewards_of_pairs(rewards: Array, matchings: Matchings) -> Array:
    columns = jnp.arange(rewards.shape[1])
    return jnp.where(matchings.is_pair, rewards[matchings.partner, columns[None, :]], 0)


def _nest(literals: Array, num: int) -> Nested:
    """The nearest nested literals of each, by their covers [examples, 2N] at the root."""
    size = literals.shape[1]
    num = min(num, size)
    if num == 0:
        nothing = jnp.zeros((0, size), jnp.int32)
        return Nested(nothing, nothing)
    sizes, others = jnp.sum(literals, axis=0), jnp.arange(size)

    def nearest(holds: Array, distance: Array) -> Array:
        _, found = lax.top_k(jnp.where(holds, -distance, -jnp.inf), num)
        return jnp.where(holds[found], found, size).astype(jnp.int32)

    def around(index: Array) -> tuple[Array, Array]:
        common, own = integers.dot(literals.T, literals[:, index][:, None])[:, 0], sizes[index]
        is_same = (common == sizes) & (common == own)
        is_tighter = (common == sizes) & (~is_same | (others < index))
        is_wider = (common == own) & (~is_same | (index < others))
        return nearest(is_tighter, own - sizes), nearest(is_wider, sizes - own)

    tighter, wider = lax.map(around, others, batch_size=max(1, min(size, _MOST_ENTRIES // size)))
    return Nested(tighter.T, wider.T)


def _match(wanted: Rows, unwanted: Rows, rounds: int) -> Matchings:
    """Rounds in which each unwanted example takes the nearest wanted one that is free and has not been its partner."""
    mine, theirs = literals_of(wanted), literals_of(unwanted)
    size = mine.shape[0]
    if rounds == 0:
        nothing = jnp.zeros((0, size), jnp.int32)
        return Matchings(nothing, nothing, nothing > 0, jnp.zeros((0, *wanted.words.shape), jnp.uint32))
    parted = jnp.sum(mine, axis=1)[None, :] - integers.dot(theirs, mine.T)  # [unwanted, wanted]
    may = unwanted.counts[:, None] & wanted.counts[None, :]

    def take(index: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        partner, is_taken, distance = carry
        row = jnp.where(is_taken, jnp.inf, distance[index])
        best = jnp.argmin(row)
        found = jnp.where(row[best] < jnp.inf, best, size).astype(jnp.int32)
        return partner.at[index].set(found), is_taken.at[found].set(True, mode="drop"), distance

    def one_round(distance: Array, _: None) -> tuple[Array, tuple[Array, ...]]:
        partner, _, _ = lax.fori_loop(0, size, take, (jnp.full((size,), size, jnp.int32), jnp.zeros((size,), bool), distance))
        is_pair = partner < size
        inverse = jnp.full((size,), size, jnp.int32).at[partner].set(jnp.arange(size, dtype=jnp.int32), mode="drop")
        safe = jnp.where(is_pair, partner, 0)
        parting = wanted.words[safe] & ~unwanted.words
        return distance.at[jnp.arange(size), partner].set(jnp.inf, mode="drop"), (safe, inverse, is_pair, parting)

    _, found = lax.scan(one_round, jnp.where(may, parted, jnp.inf), None, length=rounds)
    return Matchings(*found)


def member(stacked: Instance, index: Array) -> Instance:
    """One of two instances whose arrays are stacked."""
    return jax.tree.map(lambda leaf: leaf[index], stacked)
