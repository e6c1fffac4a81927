"""One batch of nodes: exact values, bounds, and the children that may still hold a better monomial.

A node is a monomial and a list F of literals that its descendants may add. With C the cover and z the value to beat:

1. a literal leaves F if what its cover can gain, less what cannot be avoided, does not exceed z, or if it removes no unwanted example;
2. children are ordered by their bounds, ascending, and each keeps the later literals: no monomial comes twice, and large bounds get short lists;
3. unwanted examples that every literal of F covers can never leave (`lost`);
4. if every literal of F that covers the wanted p covers the unwanted n, then p stays only with n: weight of p flows to n, along fixed
   matchings of near examples, and what is left of p bounds what it can gain;
5. literal m beats l if l keeps no wanted example that m loses, and m keeps no unwanted one that l loses: tested where one cover holds the other;
6. where literals are free and may be many, those that remove no wanted example are added at once.

Rule 1 is of Webb 1995 (OPUS), 3 and 4 generalise the class bound of Goldberg, Shan 2007 and Eckstein, Goldberg 2012.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array
from jboost.monomials import integers
from jboost.monomials.instance import Instance, Matchings, Rows, amounts_by_literal, covered


class Node(NamedTuple):
    """A monomial and what may be added to it; leaves have a leading axis in batches."""

    literals: Array  # [W] words of 2N bits
    allowed: Array  # [W] words: F
    lost: Array  # [] loss of unwanted examples that can never leave
    bound: Array  # [] above the value of every descendant
    order: Array  # [] int32


class Measured(NamedTuple):
    """What the monomials of a batch attain."""

    wanted: Array  # [R, B] bool, covered
    unwanted: Array  # [R, B] bool
    allowed: Array  # [2N, B] bool: F
    value: Array  # [B] exact
    own_gained: Array  # [B] what the wanted examples covered can gain
    own_kept: Array  # [B] loss of the unwanted examples covered; with rewards their number
    child_values: Array  # [2N, B] of the monomial with one more literal: exact without rewards, from below with them
    gained: Array  # [2N, B] what the wanted examples in a child's cover can gain, from above
    kept: Array  # [2N, B] loss of the unwanted examples in a child's cover; with rewards their number
    is_useful: Array  # [2N, B] bool: the literal removes an unwanted example
    removes_no_wanted: Array  # [2N, B] bool


class Children(NamedTuple):
    """Children of a batch, the first `num` of the rows."""

    nodes: Node  # leaves [S, ...]
    num: Array  # []
    num_done: Array  # [] how many nodes of the batch, from its top, have all their children here


def root(instance: Instance) -> Node:
    """The empty monomial, with all literals allowed."""
    words = integers.pack(instance.allowed)
    most = jnp.sum(instance.gains, dtype=instance.gains.dtype)
    if instance.rewards is not None:
        most += jnp.sum(instance.rewards.amounts, dtype=most.dtype)
    return Node(jnp.zeros_like(words), words, jnp.zeros_like(most), most - instance.least_costs[0], jnp.zeros((), jnp.int32))


def cost(costs: Array, order: Array) -> Array:
    """The entry of an order, the last one for higher orders."""
    return costs[jnp.minimum(order, costs.shape[0] - 1)]


def measure(instance: Instance, nodes: Node) -> Measured:
    """Values of the monomials and of those with one more literal, by products of matrices."""
    num_literals = 2 * instance.wanted.ones.shape[1]
    dtype = instance.wanted.ones.dtype
    literals = nodes.literals.T
    allowed = integers.unpack(nodes.allowed, num_literals).T
    wanted, unwanted = covered(instance.wanted, literals), covered(instance.unwanted, literals)
    price, next_price = cost(instance.costs, nodes.order), cost(instance.costs, nodes.order + 1)
    most = instance.gains if instance.rewards is None else instance.gains + jnp.sum(instance.rewards.amounts, axis=1, dtype=instance.gains.dtype)
    gained, own_gained = _amounts(instance.wanted, jnp.where(wanted, most[:, None], 0))
    kept, own_kept = _amounts(instance.unwanted, jnp.where(unwanted, instance.losses[:, None], 0))
    earned, own_earned, burden, own_burden = gained, own_gained, kept, own_kept
    if instance.rewards is not None:
        missed = jnp.where(wanted, _products_of_integers(instance.rewards.amounts, unwanted.astype(dtype)), 0)
        missed, own_missed = _amounts(instance.wanted, missed)
        earned, own_earned = gained - missed, own_gained - own_missed
        burden, own_burden = _amounts(instance.unwanted, unwanted.astype(most.dtype))  # an example without loss may stand in the way of a reward
    return Measured(
        wanted,
        unwanted,
        allowed,
        own_earned - own_kept - price,
        own_gained,
        own_burden,
        earned - kept - next_price[None, :],
        gained,
        burden,
        burden < own_burden[None, :],
        gained == own_gained[None, :],
    )


def _amounts(rows: Rows, amounts: Array) -> tuple[Array, Array]:
    """What amounts [R, B] come to with one more literal, [2N, B], and as they are, [B]."""
    return amounts_by_literal(rows, amounts), jnp.sum(amounts, axis=0, dtype=amounts.dtype)


def _products_of_integers(amounts: Array, flags: Array) -> Array:
    """amounts [R, Q] of integers times flags [Q, B] of 0 and 1, exactly."""
    return integers.product(flags.T, amounts.T).T


def is_beaten(instance: Instance, measured: Measured) -> Array:
    """Rule 5, [2N, B] bool."""

    def beside(values: Array, fill: int | bool) -> Array:
        return jnp.concatenate([values, jnp.full((1, values.shape[1]), fill, values.dtype)])

    allowed, gained, kept = beside(measured.allowed, False), beside(measured.gained, 0), beside(measured.kept, 0)
    beaten = jnp.zeros_like(measured.allowed)
    for tighter in instance.nested.tighter:
        beaten |= allowed[tighter] & (gained[tighter] == measured.gained)
    for looser in instance.nested.looser:
        beaten |= allowed[looser] & (kept[looser] == measured.kept) & (gained[looser] > measured.gained)
    return beaten


def residual_gains(instance: Instance, measured: Measured, usable: Array, is_stuck: Array) -> Array:
    """Rule 4: what each covered wanted example can gain, less what flows to the unwanted ones it stays with, [R, B]."""
    left = jnp.where(measured.wanted, instance.gains[:, None], 0)
    if instance.rewards is not None:
        earned = jnp.sum(instance.rewards.amounts, axis=1, dtype=left.dtype)[:, None] - _products_of_integers(
            instance.rewards.amounts, is_stuck.astype(instance.wanted.ones.dtype)
        )
        left += jnp.where(measured.wanted, earned, 0)
    removable = jnp.where(measured.unwanted & ~is_stuck, instance.losses[:, None], 0)
    stays = _stays_together(instance.matchings, integers.pack(usable.T).T) & (measured.unwanted & ~is_stuck)[None, :, :]
    num_wanted = left.shape[0]

    def one_round(carry: tuple[Array, Array], part: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
        left, removable = carry
        stays, partner, inverse, *of_pairs = part
        together = stays & measured.wanted[partner]
        mine = left[partner]
        missed = jnp.where(together, of_pairs[0][:, None], 0) if of_pairs else 0
        flow = jnp.where(together, jnp.minimum(mine - missed, removable), 0)
        gone = lax.optimization_barrier(flow + missed)
        left -= jnp.where((inverse < num_wanted)[:, None], gone[jnp.minimum(inverse, num_wanted - 1)], 0)
        return (left, removable - flow), None

    rewards = () if instance.rewards is None else (instance.rewards.of_pairs,)
    (left, _), _ = lax.scan(one_round, (left, removable), (stays, instance.matchings.partner, instance.matchings.inverse, *rewards))
    return left


def _stays_together(matchings: Matchings, usable: Array) -> Array:
    """Whether no usable literal, words [W, B], covers the wanted example alone of a pair, [rounds, R, B] bool."""
    parting = (matchings.parting[:, :, None, word] & usable[None, None, word, :] for word in range(usable.shape[0]))
    return lax.optimization_barrier((functools.reduce(jnp.bitwise_or, parting) == 0) & matchings.is_pair[:, :, None])


def children(
    instance: Instance, nodes: Node, is_node: Array, measured: Measured, to_beat: Array, *, num_slots: int, num_passes: int, adds_free: bool
) -> Children:
    """The children that may hold a monomial of value above `to_beat`."""
    order = nodes.order + (1 if instance.rewards is not None else 2)  # without rewards the children themselves have been valued
    least = cost(instance.least_costs, order)[None, :]
    live = is_node & (nodes.bound > to_beat)
    usable = measured.allowed & live[None, :] & (measured.gained - nodes.lost[None, :] - least > to_beat)
    usable &= (measured.is_useful & ~is_beaten(instance, measured)) | ~instance.costs_rise
    lost, bounds = nodes.lost, measured.gained
    for _ in range(num_passes):
        is_stuck = covered(instance.unwanted, integers.pack(usable.T).T) & measured.unwanted
        lost = jnp.sum(jnp.where(is_stuck, instance.losses[:, None], 0), axis=0, dtype=instance.losses.dtype)
        left = residual_gains(instance, measured, usable, is_stuck)
        bounds = lax.optimization_barrier(amounts_by_literal(instance.wanted, left) - lost[None, :] - least)
        usable &= bounds > to_beat
    index = lax.broadcasted_iota(jnp.int32, usable.shape, 0)
    has_child = usable
    if instance.rewards is None:  # what has no later literal has been valued
        highest = jnp.max(jnp.where(usable, bounds, jnp.iinfo(bounds.dtype).min), axis=0, keepdims=True)
        last = jnp.max(jnp.where(usable & (bounds == highest), index, -1), axis=0, keepdims=True)
        has_child = usable & (index != last)
    free = jnp.zeros_like(usable)
    if adds_free:
        free = usable & measured.removes_no_wanted
        first_free = jnp.argmax(free, axis=0)[None, :]
        has_child = jnp.where(jnp.any(free, axis=0)[None, :], index == first_free, has_child)
    return _gather(nodes, usable, free, has_child, bounds, lost, num_slots=num_slots)


def _gather(nodes: Node, usable: Array, free: Array, has_child: Array, bounds: Array, lost: Array, *, num_slots: int) -> Children:
    """The children in the order of their parents, as many whole families as fit, from the top of the batch."""
    num_literals = usable.shape[0]
    counts = jnp.sum(has_child, axis=0, dtype=jnp.int32)
    is_done = jnp.cumsum(counts[::-1])[::-1] <= num_slots
    parent, literal = integers.nth_set(jnp.where(is_done[:, None], integers.pack(has_child.T), jnp.uint32(0)), num_slots)
    ranked = lax.optimization_barrier(jnp.where(usable, bounds, jnp.iinfo(bounds.dtype).min).T)
    siblings = ranked[parent]
    own = ranked[parent, literal]
    index = jnp.arange(num_literals, dtype=jnp.int32)[None, :]
    is_later = (siblings > own[:, None]) | ((siblings == own[:, None]) & (index > literal[:, None]))
    num_words = nodes.literals.shape[1]
    added = integers.one_bit(literal, num_words)
    opposite = integers.one_bit((literal + num_literals // 2) % num_literals, num_words)
    adds = jnp.any(free, axis=0)[parent]
    is_out = free | jnp.roll(free, num_literals // 2, axis=0)
    free_words = integers.pack(free.T)[parent]
    later = jnp.where(adds[:, None], integers.pack((usable & ~is_out).T)[parent], integers.pack(is_later))
    return Children(
        Node(
            nodes.literals[parent] | jnp.where(adds[:, None], free_words, added),
            later & ~opposite,
            lost[parent],
            own,
            nodes.order[parent] + 1,
        ),
        jnp.sum(jnp.where(is_done, counts, 0), dtype=jnp.int32),
        jnp.sum(is_done, dtype=jnp.int32),
    )
