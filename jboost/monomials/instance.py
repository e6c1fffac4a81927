"""The data of problem (27) of Goldberg and Eckstein (2009) for one sign.

A monomial gains by covering *wanted* examples, which have the sign's class, and loses by covering
*unwanted* ones, which have the other class. v_ii' is in `rewards`, c(k) in `costs`, w+ and w- in
`amounts`. All amounts are integers of one unit (`integers`).

Of the 2N literals, literal l < N requires that attribute l is 1, and literal N + l that it is 0. An
instance has L of them, in its own order. Examples without gain, loss or reward do not take part:
they count as never covered. The instances of both signs have the same examples in the same order,
with the classes exchanged.
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
from jboost.monomials import rewards as pair_rewards
from jboost.monomials.rewards import PairsOfClasses, PairsOfSign

_ROWS_AT_ONCE = 128  # rows of a block, which is the unit of matrix products, on a CPU
_ROWS_ON_DEVICES = 1 << 14  # the same on accelerators, which are faster with large products
_BLOCKS_AT_ONCE = 8  # the largest number of blocks of a group, which is the unit of matchings
_LEAST_GROUPS = 2  # the least number of groups, if there are as many blocks
_MOST_ENTRIES = 1 << 22  # the largest number of entries of products of literals in memory


class ClassRows(NamedTuple):
    """Examples of two classes, the wanted ones first. Row i of one class is similar to row i of the
    other.
    """

    # [2, R, 1 + L] 1 where the literal covers the example, else 0. The first column, which is no
    # literal, is 1 everywhere.
    covers: Array
    words: Array  # [2, R, W] the covers of the literals as bits
    counts: Array  # [2, R] bool, whether the example takes part


class MonomialInstance(NamedTuple):
    """The data of the search for one sign. `make` returns the data for both signs."""

    rows: ClassRows
    # [2, R] the largest gain of each wanted example, including rewards, and the loss of each
    # unwanted one; [2, 2, R] for both signs
    amounts: Array
    # v: gained if the wanted example is covered and the unwanted one is not
    rewards: PairsOfSign | None
    # [] bool, whether the losses of all unwanted examples sum to less than all rewards; [2] for
    # both signs
    is_little_lost: Array | None
    # [D + 2] by order. Orders from D on are not allowed: they cost more than any possible gain
    costs: Array
    least_costs: Array  # [D + 2] the least cost of this or a higher order
    # [] bool, whether costs never decrease with the order. Otherwise a literal that does not change
    # the cover may still increase the value
    costs_rise: Array
    opposites: Array  # [L] int32, the index of the literal's negation; L if there is none
    # [L] int32, the number of each literal's chain. A chain is a run of literals in which each
    # literal's cover contains that of the one before it
    chains: Array
    allowed: Array  # [L] bool: False for padding literals
    extent: Array  # [] int32: in each class, only the first `extent` examples can take part


def of_sign(both: MonomialInstance, index: Array) -> MonomialInstance:
    """The instance of one sign from the result of `make`: index 0 for sign +1, 1 for sign -1."""
    classes = jnp.stack([index, 1 - index])
    rows = jax.tree.map(lambda leaf: leaf[classes], both.rows)
    own = jax.tree.map(lambda leaf: leaf[index], (both.amounts, both.rewards, both.is_little_lost))
    return both._replace(
        rows=rows, **dict(zip(("amounts", "rewards", "is_little_lost"), own, strict=True))
    )


def of_class(rows: ClassRows, number: int) -> ClassRows:
    """Rows of one class, 0 or 1, with an axis of length 1 for it."""
    return jax.tree.map(lambda leaf: leaf[number : number + 1], rows)


def literals_of(ones: Array, known: Array | None) -> Array:
    """Which of the 2N literals cover examples [..., N]: 1 or 0, [..., 2N]."""
    return jnp.concatenate([ones, (1 if known is None else known) - ones], axis=-1)


def covered(rows: ClassRows, literals: Array) -> Array:
    """Which examples are covered by all literals of monomials, words [W, B]: [2, R, B] bool.
    Examples that do not take part are not covered.
    """
    missed = functools.reduce(
        jnp.bitwise_or,
        (
            ~rows.words[:, :, None, word] & literals[None, None, word]
            for word in range(literals.shape[0])
        ),
    )
    return (missed == 0) & rows.counts[:, :, None]


class BlockLayout(NamedTuple):
    """The sizes of the blocks of rows, and of the groups of blocks. All blocks have equal size, and
    so have all groups.
    """

    block: int  # rows of a block
    group: int  # rows of a group

    def whole(self, num_rows: int) -> int:
        """`num_rows`, rounded up to a multiple of the group size."""
        return -(-num_rows // self.group) * self.group if num_rows else 0


def layout(num_rows: int) -> BlockLayout:
    """The layout of `num_rows` rows, which may include the padding of `BlockLayout.whole`."""
    most = _ROWS_AT_ONCE if devices.platform() == "cpu" else _ROWS_ON_DEVICES
    num_blocks = max(1, -(-num_rows // most))
    per_group = min(_BLOCKS_AT_ONCE, 1 << max(0, (num_blocks // _LEAST_GROUPS).bit_length() - 1))
    num_groups = -(-num_blocks // per_group)
    block = (
        max(1, num_rows) if num_blocks == 1 else -(-num_rows // (8 * num_groups * per_group)) * 8
    )
    return BlockLayout(block, per_group * block)


def sum_over_rows(extent: Array, rows: PyTree, work: Callable[[PyTree], PyTree]) -> PyTree:
    """The sum of `work` over the blocks of rows, leaves [k, R, ...]. Blocks without examples that
    take part are skipped.
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
    rows: ClassRows, extent: Array, literals: Array, amounts: Sequence[Array]
) -> list[Array]:
    """Sums of integers over the cover of monomials, words [W, B], by class. The first sum is for
    the monomial itself, the others are for the monomial with one more literal.

    Args:
      rows: R examples of each class.
      extent: only the first `extent` examples of each class can take part.
      literals: words [W, B].
      amounts: several, [2, R, B] or [2, R, 1] each.

    Returns:
      [2, 1 + L, B] of each.
    """

    def of_block(part: tuple[ClassRows, Sequence[Array]]) -> Array:
        rows, amounts = part
        is_covered = lax.optimization_barrier(covered(rows, literals))
        return by_literal(
            rows.covers,
            jnp.concatenate([jnp.where(is_covered, each, 0) for each in amounts], axis=2),
        )

    return jnp.split(sum_over_rows(extent, (rows, amounts), of_block), len(amounts), axis=2)


def by_literal(covers: Array, amounts: Array) -> Array:
    """The sums [k, 1 + L, B] of integers [k, R, B] over all examples, and over each literal's
    cover, with covers [k, R, 1 + L].
    """
    return lax.optimization_barrier(integers.product(covers.swapaxes(1, 2), amounts))


def make(
    covers: Array,
    amounts: Array,
    rewards: PairsOfClasses | None,
    costs: Array,
    is_attribute: Array,
) -> tuple[MonomialInstance, Array]:
    """The data of both signs, for `of_sign`, and the index of each of the 2N literals in them, [2N]
    int32.

    Args:
      covers: [2, R, 2N] which literals cover R examples of class +1 and R of class -1.
      amounts: [2, R] integers, 0 for padding.
      rewards: of K pairs; None for none.
      costs: [D] integers.
      is_attribute: [N] bool, False for padding attributes.
    """
    covers, amounts = _in_blocks(covers, amounts)
    gains, counts = amounts, amounts > 0
    if rewards is not None:
        gained, others = pair_rewards.totals(rewards, amounts.shape[1])
        gains, counts = amounts + gained, amounts + gained + others > 0
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
        is_little_lost = reduce.total(amounts)[::-1] < pair_rewards.sums_by_sign(rewards)
        pairs = pair_rewards.by_sign(rewards, order)
    both = MonomialInstance(
        _in_order(covers[:, :, literals], counts, order),
        jnp.take_along_axis(
            jnp.stack([gains, amounts[::-1]], axis=1), jnp.stack([order, order[::-1]]), axis=2
        ),
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


def _in_blocks(covers: Array, amounts: Array) -> tuple[Array, Array]:
    """Both classes with padding rows added, so that all blocks are full."""
    size = amounts.shape[1]
    missing = layout(size).whole(size) - size
    rows = ((0, 0), (0, missing))
    return jnp.pad(covers, (*rows, (0, 0))), jnp.pad(amounts, rows)


def _in_order(covers: Array, counts: Array, order: Array) -> ClassRows:
    """The `ClassRows` with these covers [2, R, L] of their literals, in the order [2, R]."""
    covers = jnp.take_along_axis(covers, order[:, :, None], axis=1)
    with_none = jnp.pad(covers, ((0, 0), (0, 0), (1, 0)), constant_values=1)
    return ClassRows(
        with_none, integers.pack(covers > 0), jnp.take_along_axis(counts, order, axis=1)
    )


def _extent(counts: Array) -> Array:
    """The larger number of examples of a class that take part, at least 1, from counts [2, R]."""
    return jnp.max(reduce.count(counts, axis=1), initial=1)


def below(
    instance: MonomialInstance, node_literals: Array, index: Array, is_literal: Array
) -> MonomialInstance:
    """The instance of the examples that a monomial covers, with some of the literals.

    Args:
      instance: an instance.
      node_literals: words [W] of the monomial.
      index: [k] indices of the literals.
      is_literal: [k] False for padding.
    """
    num_literals = instance.chains.shape[0]
    counts = covered(instance.rows, node_literals[:, None])[:, :, 0]
    order = integers.stable_order((~counts).astype(jnp.int32))
    rewards = (
        None if instance.rewards is None else pair_rewards.below(instance.rewards, counts, order)
    )
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
        opposites=jnp.where(is_literal, back[instance.opposites[index]], index.shape[0]),
        chains=instance.chains[index],
        allowed=is_literal & instance.allowed[index],
        extent=_extent(counts),
    )


def _chains(covers: Array) -> tuple[Array, Array]:
    """Sorts literals into chains of nested covers, by their covers [examples, L] at the root.

    A literal is followed by the literal of least cover that contains its own cover and does not yet
    follow another literal.

    Returns:
      The order [L] of the literals, and the chain [L] of each literal in this order.
    """
    by_size = jnp.argsort(reduce.total(covers, axis=0), stable=True).astype(jnp.int32)
    covers, size = covers[:, by_size], by_size.shape[0]
    places = jnp.arange(size, dtype=jnp.int32)

    def next_wider(place: Array) -> Array:
        own = covers[:, place]
        is_wider = (numerics.times(covers.T, own[:, None])[:, 0] == jnp.sum(own)) & (places > place)
        return jnp.where(jnp.any(is_wider), jnp.argmax(is_wider), size).astype(jnp.int32)

    wider = lax.map(next_wider, places, batch_size=max(1, min(size, _MOST_ENTRIES // size)))
    # the largest cover among the literals that a literal could follow
    last = jnp.full((size + 1,), -1, jnp.int32).at[wider].max(places)[:size]

    def leap(_: int, first: Array) -> Array:
        return first[first]

    first = loops.fori_loop(0, size.bit_length(), leap, jnp.where(last >= 0, last, places))
    order = jnp.argsort(first, stable=True)
    return by_size[order], first[order]


def _near(covers: Array, counts: Array) -> Array:
    """An order [2, R] of the rows of both classes in which similar rows have the same index. Rows
    that count come first.

    Each unwanted row in turn gets the nearest wanted row that is not yet taken.

    Args:
      covers: [2, R, L] 1 where a literal covers the row.
      counts: [2, R] bool.
    """
    size, num_literals = covers.shape[1:]
    at_once = layout(size).block
    # rows that do not count are chosen last
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
