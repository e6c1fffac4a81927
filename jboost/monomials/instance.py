"""An instance of (27), paper 001, for one sign: the examples that a monomial is to cover, those it is not to, what is known at the root.

Symbols: w+ and w- `gains` and `losses`, v_ii' `rewards`, c(k) `costs`. All amounts are integers of one unit (`integers`). Of the 2N literals
l < N wants attribute l to be 1, N + l wants it to be 0; an instance has L of them, in an order of its own. Examples without gain, loss or reward
take no part: a cover never holds them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics
from jboost.base.types import Array, PyTree
from jboost.monomials import integers

_ROWS_AT_ONCE = 128  # of a block: what products take at once
_ROWS_ON_DEVICES = 1 << 14  # on accelerators, which like large products
_BLOCKS_AT_ONCE = 8  # of a group, at most: what matchings take
_LEAST_GROUPS = 2  # where there are so many blocks
_MOST_ENTRIES = 1 << 22  # of the products of literals that are held at once


class Rows(NamedTuple):
    """Examples of one class."""

    covers: Array  # [R, L] 1 where the literal covers the example, else 0
    words: Array  # [R, W] the same as bits
    counts: Array  # [R] bool, whether the example takes part


class Instance(NamedTuple):
    """What the search for one sign knows. Row i of the wanted examples is near row i of the unwanted ones."""

    wanted: Rows
    unwanted: Rows
    gains: Array  # [R]
    losses: Array  # [R]
    rewards: Array | None  # [R, R] v, wanted by unwanted: earned for the one if covered, where the other is not
    pairs: Array | None  # [R R] int32: the places of the rewards that are not 0, in order, then R R
    costs: Array  # [D + 2] of orders 0 ... D - 1; of higher ones, which are not allowed, more than can be gained
    least_costs: Array  # [D + 2] the least cost of this or a higher order
    costs_rise: Array  # [] bool, whether no order costs less than a lower one: else literals that change no cover may still pay
    names: Array  # [L] int32, which of the 2N literals; 2N and more for those that only pad
    opposites: Array  # [L] int32, the place of the literal that wants the contrary; L where there is none
    chains: Array  # [L] int32: within a chain, literals side by side, each literal's cover holds that of the one before it
    allowed: Array  # [L] bool: False for literals that only pad
    extent: Array  # [] int32: the examples that take part are among so many first ones of either class


def rows_of(ones: Array, known: Array | None) -> Rows:
    """Examples [R, N] that all take part, with the 2N literals in their order."""
    covers = jnp.concatenate([ones, (1 if known is None else known) - ones], axis=1)
    return Rows(covers, integers.pack(covers > 0), jnp.ones((ones.shape[0],), bool))


def covered(rows: Rows, literals: Array) -> Array:
    """Which examples all of the literals, words [W, B], cover, [R, B] bool; those that take no part are not covered."""
    missed = functools.reduce(jnp.bitwise_or, (~rows.words[:, None, word] & literals[None, word, :] for word in range(literals.shape[0])))
    return lax.optimization_barrier((missed == 0) & rows.counts[:, None])  # made once, not anew for each use


class Layout(NamedTuple):
    """How rows are cut into blocks, and these into groups, all of equal size."""

    block: int  # rows of a block
    group: int  # rows of a group

    def whole(self, num_rows: int) -> int:
        """`num_rows` and as many more as make the groups whole."""
        return -(-num_rows // self.group) * self.group if num_rows else 0


def layout(num_rows: int) -> Layout:
    """The layout of so many rows, with or without those that make the groups whole."""
    most = _ROWS_AT_ONCE if jax.default_backend() == "cpu" else _ROWS_ON_DEVICES
    num_blocks = max(1, -(-num_rows // most))
    per_group = min(_BLOCKS_AT_ONCE, 1 << max(0, (num_blocks // _LEAST_GROUPS).bit_length() - 1))
    num_groups = -(-num_blocks // per_group)
    block = max(1, num_rows) if num_blocks == 1 else -(-num_rows // (8 * num_groups * per_group)) * 8
    return Layout(block, per_group * block)


def sum_over_rows(extent: Array, rows: PyTree, work: Callable[[PyTree], PyTree]) -> PyTree:
    """The sum of what `work` makes of each block of rows, leaves [R, ...], that holds examples that take part."""
    size = jax.tree.leaves(rows)[0].shape[0]
    at_once = layout(size).block
    if size == at_once:
        return work(rows)

    def block(index: Array) -> PyTree:
        return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, index * at_once, at_once), rows)

    def add(index: Array, total: PyTree) -> PyTree:
        return jax.tree.map(jnp.add, total, work(block(index)))

    return loops.fori_loop(1, -(-extent // at_once), add, work(block(jnp.zeros((), jnp.int32))))


def amounts_covered(rows: Rows, extent: Array, literals: Array, data: PyTree, amounts_of: Callable[[PyTree], Array]) -> tuple[Array, Array]:
    """Sums of integers over the examples that literals, words [W, B], cover: with one more literal [L, B], and as they are [B].

    Args:
      rows: R examples.
      extent: those that take part are among so many first ones.
      literals: words [W, B].
      data: leaves [R, ...].
      amounts_of: from some rows of the data to amounts [rows, B] or [rows, 1].
    """

    def of_block(part: tuple[Rows, PyTree]) -> tuple[Array, Array]:
        rows, data = part
        amounts = jnp.where(covered(rows, literals), amounts_of(data), 0)
        return amounts_by_literal(rows, amounts), jnp.sum(amounts, axis=0, dtype=amounts.dtype)

    return sum_over_rows(extent, (rows, data), of_block)


def numbers_covered(rows: Rows, extent: Array, literals: Array) -> tuple[Array, Array]:
    """How many examples literals, words [W, B], cover: with one more literal [L, B], and as they are [B]; in floats."""

    def of_block(rows: Rows) -> tuple[Array, Array]:
        flags = covered(rows, literals).astype(rows.covers.dtype)
        return numerics.times(rows.covers.T, flags), jnp.sum(flags, axis=0)

    return sum_over_rows(extent, rows, of_block)


def amounts_by_literal(rows: Rows, amounts: Array) -> Array:
    """What integers [R, B] of the examples sum to within each literal's cover, [L, B]."""
    return lax.optimization_barrier(integers.product(rows.covers.T, amounts))


def most_gains(instance: Instance) -> Array:
    """What each wanted example can gain at most, [R]."""
    if instance.rewards is None:
        return instance.gains
    return instance.gains + jnp.sum(instance.rewards, axis=1, dtype=instance.gains.dtype)


def make(wanted: Rows, unwanted: Rows, gains: Array, losses: Array, rewards: Array | None, costs: Array, is_attribute: Array) -> Instance:
    """The instance of one sign.

    Args:
      wanted: R examples of the sign's class, with 2N literals; `counts` is worked out here.
      unwanted: R examples of the other class.
      gains: [R] integers, 0 for padding.
      losses: [R] integers, 0 for padding.
      rewards: [R, R] integers, wanted by unwanted; None for none.
      costs: [D] integers.
      is_attribute: [N] bool, False for attributes that only pad.
    """
    wanted, unwanted, gains, losses, rewards = _in_blocks(wanted, unwanted, gains, losses, rewards)
    earned = jnp.zeros_like(gains) if rewards is None else jnp.sum(rewards, axis=1, dtype=gains.dtype)
    at_stake = jnp.zeros_like(gains) if rewards is None else jnp.sum(rewards, axis=0, dtype=gains.dtype)
    wanted = wanted._replace(counts=gains + earned > 0)
    unwanted = unwanted._replace(counts=losses + at_stake > 0)
    most = jnp.asarray(integers.largest(gains.dtype), gains.dtype)
    everything = jnp.sum(gains, dtype=gains.dtype) + jnp.sum(losses, dtype=gains.dtype) + jnp.sum(earned, dtype=gains.dtype)
    costs = jnp.concatenate([jnp.where(costs > everything, most, costs), jnp.full((2,), most)])
    num_literals = 2 * is_attribute.shape[0]
    names = jnp.arange(num_literals, dtype=jnp.int32)
    whole = Instance(
        wanted,
        unwanted,
        gains,
        losses,
        rewards,
        _pairs(rewards),
        costs,
        lax.cummin(costs, reverse=True),
        jnp.all(costs[1:] >= costs[:-1]),
        names,
        jnp.roll(names, num_literals // 2),
        names,
        jnp.concatenate([is_attribute, is_attribute]),
        jnp.asarray(gains.shape[0], jnp.int32),
    )
    if num_literals == 0:
        return whole
    whole = _fronted(whole)
    paired = _fronted(_ordered(whole, _near(whole), jnp.arange(gains.shape[0])))
    order, chains = _chains(jnp.concatenate([part.covers * part.counts[:, None] for part in (whole.wanted, whole.unwanted)]))
    return select(paired._replace(chains=chains), order, jnp.ones_like(order, bool))


def _in_blocks(wanted: Rows, unwanted: Rows, gains: Array, losses: Array, rewards: Array | None) -> tuple[Rows, Rows, Array, Array, Array | None]:
    """Both classes with rows that only pad, so that all blocks are whole."""
    size = gains.shape[0]
    missing = layout(size).whole(size) - size
    if missing == 0:
        return wanted, unwanted, gains, losses, rewards

    def longer(leaf: Array) -> Array:
        return jnp.pad(leaf, [(0, missing)] + [(0, 0)] * (leaf.ndim - 1))

    between = None if rewards is None else jnp.pad(rewards, (0, missing))
    return *jax.tree.map(longer, (wanted, unwanted, gains, losses)), between


def select(instance: Instance, index: Array, is_literal: Array) -> Instance:
    """The instance with some of its literals: places `index` [k], True in `is_literal` [k] for those that do not only pad."""
    back = jnp.full((instance.names.shape[0] + 1,), index.shape[0], jnp.int32)
    back = back.at[jnp.where(is_literal, index, back.shape[0])].set(jnp.arange(index.shape[0], dtype=jnp.int32), mode="drop")

    def of_rows(rows: Rows) -> Rows:
        covers = jnp.where(is_literal[None, :], rows.covers[:, index], 0)
        return Rows(covers, integers.pack(covers > 0), rows.counts)

    return instance._replace(
        wanted=of_rows(instance.wanted),
        unwanted=of_rows(instance.unwanted),
        names=instance.names[index],
        opposites=jnp.where(is_literal, back[instance.opposites[index]], index.shape[0]),
        chains=instance.chains[index],
        allowed=is_literal & instance.allowed[index],
    )


def below(instance: Instance, node_literals: Array, index: Array, is_literal: Array) -> Instance:
    """The instance of what a monomial, words [W], covers, with some of the literals, as in `select`."""
    part = select(instance, index, is_literal)
    wanted, unwanted = (covered(rows, node_literals[:, None])[:, 0] for rows in (instance.wanted, instance.unwanted))
    return _fronted(part._replace(wanted=part.wanted._replace(counts=wanted), unwanted=part.unwanted._replace(counts=unwanted)))


def _pairs(rewards: Array | None) -> Array | None:
    """The `pairs` of an instance with these rewards."""
    if rewards is None:
        return None
    is_reward = rewards > 0
    in_row = jnp.sum(is_reward, axis=1, dtype=jnp.int32)
    rank = (jnp.cumsum(in_row) - in_row)[:, None] + jnp.cumsum(is_reward, axis=1, dtype=jnp.int32) - 1
    places = jnp.arange(rewards.size, dtype=jnp.int32)
    return jnp.full_like(places, rewards.size).at[jnp.where(is_reward, rank, rewards.size).reshape(-1)].set(places, mode="drop")


def _ordered(instance: Instance, wanted: Array, unwanted: Array) -> Instance:
    """The instance with its examples in other orders, [R] each."""
    rewards = None if instance.rewards is None else instance.rewards[wanted][:, unwanted]
    return instance._replace(
        wanted=jax.tree.map(lambda leaf: leaf[wanted], instance.wanted),
        unwanted=jax.tree.map(lambda leaf: leaf[unwanted], instance.unwanted),
        gains=instance.gains[wanted],
        losses=instance.losses[unwanted],
        rewards=rewards,
        pairs=_pairs(rewards),
    )


def _fronted(instance: Instance) -> Instance:
    """The instance with the examples that take part before the others."""
    front = _ordered(instance, *(jnp.argsort(~rows.counts, stable=True) for rows in (instance.wanted, instance.unwanted)))
    counts = [jnp.sum(rows.counts, dtype=jnp.int32) for rows in (front.wanted, front.unwanted)]
    return front._replace(extent=jnp.maximum(jnp.maximum(*counts), 1))


def _chains(literals: Array) -> tuple[Array, Array]:
    """Literals, by their covers [examples, L] at the root, put into chains of nested ones: their order [L], and the chain of each literal [L].

    Each literal is followed by the one of least cover that holds its own and does not follow another one.
    """
    size = literals.shape[1]
    sizes, others = jnp.sum(literals, axis=0), jnp.arange(size, dtype=jnp.int32)

    def next_wider(index: Array) -> Array:
        common, own = numerics.times(literals.T, literals[:, index][:, None])[:, 0], sizes[index]
        is_wider = (common == own) & ((sizes > own) | (index < others))
        place = jnp.argmin(jnp.where(is_wider, sizes, jnp.inf))
        return jnp.where(is_wider[place], place, size).astype(jnp.int32)

    wider = lax.map(next_wider, others, batch_size=max(1, min(size, _MOST_ENTRIES // size)))
    rank = jnp.argsort(jnp.argsort(sizes, stable=True), stable=True).astype(jnp.int32)
    last = jnp.full((size + 1,), -1, jnp.int32).at[wider].max(rank)[:size]  # of those that a literal might follow, the largest
    before = jnp.where(last >= 0, jnp.argsort(rank).astype(jnp.int32)[jnp.maximum(last, 0)], others)

    def leap(_: int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        first, steps = carry
        return first[first], steps + steps[first]

    first, steps = loops.fori_loop(0, size.bit_length(), leap, (before, (before != others).astype(jnp.int32)))
    return jnp.argsort(first * size + steps).astype(jnp.int32), first


def _near(instance: Instance) -> Array:
    """An order of the wanted examples [R] that puts each beside an unwanted one near it: each of these, in turn, takes the nearest that is free."""
    mine, theirs = (rows.covers * rows.counts[:, None] for rows in (instance.wanted, instance.unwanted))
    size = mine.shape[0]
    at_once = layout(size).block
    num_blocks = -(-instance.extent // at_once)
    own = jnp.where(instance.wanted.counts, jnp.sum(mine, axis=1), mine.shape[1])

    def choose_some(block: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        choosers = lax.dynamic_slice_in_dim(theirs, block * at_once, at_once)
        parted = own[None, :] - numerics.times(choosers, mine.T)

        def choose(index: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            order, is_free = carry
            best = jnp.argmin(jnp.where(is_free, parted[index], jnp.inf)).astype(jnp.int32)
            return order.at[block * at_once + index].set(best), is_free.at[best].set(False)

        return loops.fori_loop(0, at_once, choose, carry)

    order, is_free = jnp.zeros((size,), jnp.int32), jnp.ones((size,), bool)
    order, is_free = loops.fori_loop(0, num_blocks, choose_some, (order, is_free))
    index = jnp.arange(size, dtype=jnp.int32)
    rest = jnp.argsort(~is_free, stable=True).astype(jnp.int32)  # those that nobody has chosen take the places that are left
    num_chosen = at_once * num_blocks
    return jnp.where(index < num_chosen, order, rest[jnp.maximum(index - num_chosen, 0)])


def member(stacked: Instance, index: Array) -> Instance:
    """One of two instances whose arrays are stacked."""
    return jax.tree.map(lambda leaf: leaf[index], stacked)
