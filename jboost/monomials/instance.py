"""An instance of (27), Goldberg and Eckstein 2009, for one sign: the examples that a monomial is to
cover, those it is not to, what is known at the root.

Symbols: v_ii' `rewards`, c(k) `costs`; w+ and w- are in `amounts`. All amounts are integers of one
unit (`integers`). Of the 2N literals l < N wants attribute l to be 1, N + l wants it to be 0; an
instance has L of them, in an order of its own. Examples without gain, loss or reward take no part:
a cover never holds them. Both signs have the same examples in the same order, with the classes
exchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import devices, loops, numerics, reduce
from jboost.base.types import Array, PyTree
from jboost.monomials import integers

_ROWS_AT_ONCE = 128  # of a block: what products take at once
_ROWS_ON_DEVICES = 1 << 14  # on accelerators, which like large products
_BLOCKS_AT_ONCE = 8  # of a group, at most: what matchings take
_LEAST_GROUPS = 2  # where there are so many blocks
_MOST_ENTRIES = 1 << 22  # of the products of literals that are held at once


class Rows(NamedTuple):
    """Examples of two classes, those wanted before those unwanted. Row i of either class is near
    row i of the other.
    """

    # [2, R, 1 + L] 1 where the literal covers the example, else 0; before all literals 1: no
    # literal covers every example
    covers: Array
    words: Array  # [2, R, W] the literals' covers as bits
    counts: Array  # [2, R] bool, whether the example takes part


class Instance(NamedTuple):
    """The data of the search for one sign. `make` returns the data for both signs."""

    rows: Rows
    # [2, R] what each wanted example can gain at most, rewards included, and what each unwanted one
    # costs; [2, 2, R] of both signs
    amounts: Array
    # [R, R] v, wanted by unwanted: earned for the one if covered, where the other is not; [2, R, R]
    # of both signs
    rewards: Array | None
    # [R R] int32: the places of the rewards that are not 0, in order, then R R; [2, R R] of both
    # signs
    pairs: Array | None
    # [] bool, whether all costs of unwanted examples are less than all rewards; [2] of both signs
    is_little_lost: Array | None
    # [D + 2] of orders 0 ... D - 1; of higher ones, which are not allowed, more than can be gained
    costs: Array
    least_costs: Array  # [D + 2] the least cost of this or a higher order
    # [] bool, whether no order costs less than a lower one: else literals that change no cover may
    # still pay
    costs_rise: Array
    # [L] int32, the place of the literal that wants the contrary; L where there is none
    opposites: Array
    # [L] int32: within a chain, literals side by side, each literal's cover holds that of the one
    # before it
    chains: Array
    allowed: Array  # [L] bool: False for literals that only pad
    # [] int32: the examples that take part are among so many first ones of either class
    extent: Array


def of_sign(both: Instance, index: Array) -> Instance:
    """The instance of sign +1, index 0, or -1, index 1, of what `make` returns."""
    classes = jnp.stack([index, 1 - index])
    rows = jax.tree.map(lambda leaf: leaf[classes], both.rows)
    own = jax.tree.map(
        lambda leaf: leaf[index], (both.amounts, both.rewards, both.pairs, both.is_little_lost)
    )
    return both._replace(
        rows=rows, **dict(zip(("amounts", "rewards", "pairs", "is_little_lost"), own, strict=True))
    )


def of_class(rows: Rows, number: int) -> Rows:
    """Rows of one class, 0 or 1, with an axis of length 1 for it."""
    return jax.tree.map(lambda leaf: leaf[number : number + 1], rows)


def literals_of(ones: Array, known: Array | None) -> Array:
    """Which of the 2N literals cover examples [..., N]: 1 or 0, [..., 2N]."""
    return jnp.concatenate([ones, (1 if known is None else known) - ones], axis=-1)


def covered(rows: Rows, literals: Array) -> Array:
    """Which examples all of the literals, words [W, B], cover, [2, R, B] bool; those that take no
    part are not covered.
    """
    missed = functools.reduce(
        jnp.bitwise_or,
        (
            ~rows.words[:, :, None, word] & literals[None, None, word]
            for word in range(literals.shape[0])
        ),
    )
    return (missed == 0) & rows.counts[:, :, None]


class Layout(NamedTuple):
    """How rows are cut into blocks, and these into groups, all of equal size."""

    block: int  # rows of a block
    group: int  # rows of a group

    def whole(self, num_rows: int) -> int:
        """`num_rows` and as many more as make the groups whole."""
        return -(-num_rows // self.group) * self.group if num_rows else 0


def layout(num_rows: int) -> Layout:
    """The layout of so many rows, with or without those that make the groups whole."""
    most = _ROWS_AT_ONCE if devices.platform() == "cpu" else _ROWS_ON_DEVICES
    num_blocks = max(1, -(-num_rows // most))
    per_group = min(_BLOCKS_AT_ONCE, 1 << max(0, (num_blocks // _LEAST_GROUPS).bit_length() - 1))
    num_groups = -(-num_blocks // per_group)
    block = (
        max(1, num_rows) if num_blocks == 1 else -(-num_rows // (8 * num_groups * per_group)) * 8
    )
    return Layout(block, per_group * block)


def sum_over_rows(extent: Array, rows: PyTree, work: Callable[[PyTree], PyTree]) -> PyTree:
    """The sum of what `work` makes of each block of rows, leaves [k, R, ...], that holds examples
    that take part.
    """
    size = jax.tree.leaves(rows)[0].shape[1]
    at_once = layout(size).block
    if size == at_once:
        return work(rows)

    def of_block(index: Array) -> PyTree:
        return work(
            jax.tree.map(
                lambda leaf: lax.dynamic_slice_in_dim(leaf, index * at_once, at_once, axis=1), rows
            )
        )

    def add(index: Array, total: PyTree) -> PyTree:
        return jax.tree.map(jnp.add, total, of_block(index))

    none = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of_block, extent)
    )
    return loops.fori_loop(0, -(-extent // at_once), add, none)


def amounts_covered(
    rows: Rows, extent: Array, literals: Array, amounts: Sequence[Array]
) -> list[Array]:
    """Sums of integers over the examples of each class that literals, words [W, B], cover: as they
    are, and with one more literal.

    Args:
      rows: R examples of either class.
      extent: those that take part are among so many first ones.
      literals: words [W, B].
      amounts: several, [2, R, B] or [2, R, 1] each.

    Returns:
      [2, 1 + L, B] of each.
    """

    def of_block(part: tuple[Rows, Sequence[Array]]) -> Array:
        rows, amounts = part
        is_covered = lax.optimization_barrier(covered(rows, literals))
        return by_literal(
            rows.covers,
            jnp.concatenate([jnp.where(is_covered, each, 0) for each in amounts], axis=2),
        )

    return jnp.split(sum_over_rows(extent, (rows, amounts), of_block), len(amounts), axis=2)


def by_literal(covers: Array, amounts: Array) -> Array:
    """What integers [k, R, B] of the examples sum to, [k, 1 + L, B]: all, and those in each
    literal's cover, with covers [k, R, 1 + L].
    """
    return lax.optimization_barrier(integers.product(covers.swapaxes(1, 2), amounts))


def make(
    covers: Array, amounts: Array, rewards: Array | None, costs: Array, is_attribute: Array
) -> tuple[Instance, Array]:
    """What the searches of both signs know, for `of_sign`, and where each of the 2N literals stands
    in it, [2N] int32.

    Args:
      covers: [2, R, 2N] which literals cover R examples of class +1 and R of class -1.
      amounts: [2, R] integers, 0 for padding.
      rewards: [2, R, R] integers, own class by the other one, for sign +1 and -1; None for none.
      costs: [D] integers.
      is_attribute: [N] bool, False for attributes that only pad.
    """
    covers, amounts, rewards = _in_blocks(covers, amounts, rewards)
    gains = amounts if rewards is None else amounts + reduce.total(rewards, axis=2)
    counts = gains > 0 if rewards is None else gains + reduce.total(rewards, axis=1)[::-1] > 0
    most = integers.largest(amounts.dtype)
    costs = jnp.where(costs > reduce.total(gains, axis=(0, 1)), most, costs)
    costs = jnp.pad(costs, (0, 2), constant_values=most)
    literals, chains = _chains(
        jnp.where(counts[:, :, None], covers, 0).reshape(-1, covers.shape[2])
    )
    places = jnp.argsort(literals).astype(jnp.int32)
    order = _near(covers, counts)
    pairs, is_little_lost = None, None
    if rewards is not None:
        is_little_lost = reduce.total(amounts)[::-1] < reduce.total(rewards, axis=(1, 2))
        rewards = jax.vmap(lambda part, own, other: part[own][:, other])(
            rewards, order, order[::-1]
        )
        pairs = jax.vmap(_pairs)(rewards)
    both = Instance(
        _in_order(covers[:, :, literals], counts, order),
        jnp.take_along_axis(
            jnp.stack([gains, amounts[::-1]], axis=1), jnp.stack([order, order[::-1]]), axis=2
        ),
        rewards,
        pairs,
        is_little_lost,
        costs,
        lax.cummin(costs, reverse=True),
        jnp.all(costs[1:] >= costs[:-1]),
        jnp.roll(places, places.shape[0] // 2)[literals],
        chains,
        jnp.concatenate([is_attribute, is_attribute])[literals],
        _extent(counts),
    )
    return both, places


def _in_blocks(
    covers: Array, amounts: Array, rewards: Array | None
) -> tuple[Array, Array, Array | None]:
    """Both classes with rows that only pad, so that all blocks are whole."""
    size = amounts.shape[1]
    missing = layout(size).whole(size) - size
    if missing == 0:
        return covers, amounts, rewards
    rows = ((0, 0), (0, missing))
    between = None if rewards is None else jnp.pad(rewards, (*rows, (0, missing)))
    return jnp.pad(covers, (*rows, (0, 0))), jnp.pad(amounts, rows), between


def _in_order(covers: Array, counts: Array, order: Array) -> Rows:
    """Rows, by their literals' covers [2, R, L], in the order [2, R]."""
    covers = jnp.take_along_axis(covers, order[:, :, None], axis=1)
    with_none = jnp.pad(covers, ((0, 0), (0, 0), (1, 0)), constant_values=1)
    return Rows(with_none, integers.pack(covers > 0), jnp.take_along_axis(counts, order, axis=1))


def _extent(counts: Array) -> Array:
    """How many examples of a class take part, [2, R], at most; 1 at least."""
    return jnp.max(reduce.count(counts, axis=1), initial=1)


def below(instance: Instance, node_literals: Array, index: Array, is_literal: Array) -> Instance:
    """The instance of what a monomial, words [W], covers, with some of the literals.

    Args:
      instance: an instance.
      node_literals: words [W].
      index: [k] places of literals.
      is_literal: [k] True for those that do not only pad.
    """
    num_literals = instance.chains.shape[0]
    counts = covered(instance.rows, node_literals[:, None])[:, :, 0]
    order = integers.stable_order((~counts).astype(jnp.int32))
    rewards = None if instance.rewards is None else instance.rewards[order[0]][:, order[1]]
    back = jnp.full((num_literals + 1,), index.shape[0], jnp.int32)
    back = back.at[jnp.where(is_literal, index, back.shape[0])].set(
        jnp.arange(index.shape[0], dtype=jnp.int32), mode="drop"
    )
    return instance._replace(
        rows=_in_order(
            jnp.where(is_literal[None, None], instance.rows.covers[:, :, 1 + index], 0),
            counts,
            order,
        ),
        amounts=jnp.take_along_axis(instance.amounts, order, axis=1),
        rewards=rewards,
        pairs=None if rewards is None else _pairs(rewards),
        opposites=jnp.where(is_literal, back[instance.opposites[index]], index.shape[0]),
        chains=instance.chains[index],
        allowed=is_literal & instance.allowed[index],
        extent=_extent(counts),
    )


def _pairs(rewards: Array) -> Array:
    """The `pairs` of an instance with rewards [R, R]."""
    is_reward = rewards > 0
    in_row = jnp.sum(is_reward, axis=1, dtype=jnp.int32)
    rank = (
        (jnp.cumsum(in_row) - in_row)[:, None] + jnp.cumsum(is_reward, axis=1, dtype=jnp.int32) - 1
    )
    places = jnp.arange(rewards.size, dtype=jnp.int32)
    return (
        jnp.full_like(places, rewards.size)
        .at[jnp.where(is_reward, rank, rewards.size).reshape(-1)]
        .set(places, mode="drop")
    )


def _chains(covers: Array) -> tuple[Array, Array]:
    """Literals, by their covers [examples, L] at the root, put into chains of nested ones: their
    order [L], and the chain of each literal there [L].

    Each literal is followed by the one of least cover that holds its own and does not follow
    another one.
    """
    by_size = jnp.argsort(reduce.total(covers, axis=0), stable=True).astype(jnp.int32)
    covers, size = covers[:, by_size], by_size.shape[0]
    places = jnp.arange(size, dtype=jnp.int32)

    def next_wider(place: Array) -> Array:
        own = covers[:, place]
        is_wider = (numerics.times(covers.T, own[:, None])[:, 0] == jnp.sum(own)) & (places > place)
        return jnp.where(jnp.any(is_wider), jnp.argmax(is_wider), size).astype(jnp.int32)

    wider = lax.map(next_wider, places, batch_size=max(1, min(size, _MOST_ENTRIES // size)))
    # of those that a literal might follow, the largest
    last = jnp.full((size + 1,), -1, jnp.int32).at[wider].max(places)[:size]

    def leap(_: int, first: Array) -> Array:
        return first[first]

    first = loops.fori_loop(0, size.bit_length(), leap, jnp.where(last >= 0, last, places))
    order = jnp.argsort(first, stable=True)
    return by_size[order], first[order]


def _near(covers: Array, counts: Array) -> Array:
    """An order [2, R] of rows of both classes, those that count first, that puts near ones side by
    side.

    Each unwanted one, in turn, takes the nearest wanted one that is free.

    Args:
      covers: [2, R, L] 1 where a literal covers the row.
      counts: [2, R] bool.
    """
    size, num_literals = covers.shape[1:]
    at_once = layout(size).block
    # those that do not count are the last ones chosen
    own = jnp.where(counts[0], jnp.sum(covers[0], axis=1), 2 * num_literals)
    choosers = integers.stable_order((~counts[1]).astype(jnp.int32))
    free = jnp.arange(size, 2 * size, dtype=jnp.int32) + jnp.where(counts[0], 0, size)

    def choose_some(block: Array, chosen_by: Array) -> Array:
        rows = covers[1, lax.dynamic_slice_in_dim(choosers, block * at_once, at_once)]
        parted = own[None, :] - numerics.times(rows, covers[0].T)

        def choose(index: Array, chosen_by: Array) -> Array:
            nearest = jnp.argmin(jnp.where(chosen_by >= size, parted[index], jnp.inf))
            return chosen_by.at[nearest].set(block * at_once + index)

        return loops.fori_loop(0, at_once, choose, chosen_by)

    chosen_by = loops.fori_loop(0, -(-reduce.count(counts[1]) // at_once), choose_some, free)
    return jnp.stack([jnp.argsort(chosen_by).astype(jnp.int32), choosers])
