"""The nodes of the search, in batches: exact values, pruning of literals, bounds and children.

A node is a monomial and a list F of literals that its descendants may add. Let C be the cover of
the monomial and z the value to exceed. The rules are:

1. A literal leaves F if its largest possible gain, minus the unavoidable loss, does not exceed z,
   or if it removes no unwanted example from C.
2. Children are sorted by their bounds, ascending. The list of a child holds only the literals of
   later children. So each monomial is reached once, and children with large bounds have short
   lists.
3. Unwanted examples of C that every literal of F covers remain covered in all descendants (`lost`).
4. Suppose every literal of F that covers the wanted example p also covers the unwanted example n.
   Then no descendant covers p without n. So weight of p can be cancelled against the loss of n, as
   a flow from p to n. The remaining weight of p bounds its gain. All pairs are tried, similar ones
   first.
5. Literal l is dominated by m if l keeps no wanted example that m removes, and m keeps no unwanted
   example that l removes. This is tested only if one cover contains the other.
6. If literals cost nothing and their number is not limited, literals that remove no wanted example
   are added at once.

`measure` and `screen` value a node and apply rules 1, 3, 5 and 6. `bound` applies rules 3 and 4
until F does not change. Then `children` makes the children. Rule 1 is from OPUS (Webb 1995). Rules
3 and 4 generalise the class bound of Goldberg and Shan (2007) and Eckstein and Goldberg (2012).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import devices, loops, reduce
from jboost.base.types import Array
from jboost.monomials import integers
from jboost.monomials.batches import by_node
from jboost.monomials.flow import residual_gains
from jboost.monomials.instance import (
    ClassRows,
    MonomialInstance,
    amounts_covered,
    by_literal,
    covered,
    of_class,
    sum_over_rows,
)
from jboost.monomials.nodes import Node, cost, make_node
from jboost.monomials.rewards import PairsOfSign, most_of_few, sum_by_wanted


class MeasuredMonomials(NamedTuple):
    """Values of the monomials of a batch. Row 0 is for the monomials themselves, the other rows for
    the monomials with one more literal.
    """

    allowed: Array  # [L, B] bool: F
    # [1 + L, B] Row 0 is exact. The other rows are exact without rewards, and lower bounds with
    # rewards
    values: Array
    gained: Array  # [1 + L, B] an upper bound of the gain of the covered wanted examples
    kept: Array  # [1 + L, B] the loss of the covered unwanted examples; with rewards, their number

    @property
    def is_useful(self) -> Array:
        """[L, B] bool, whether the literal removes an unwanted example."""
        return self.kept[1:] < self.kept[:1]


class Screened(NamedTuple):
    """A batch after the rules that test one literal at a time."""

    nodes: Node
    is_open: Array  # [B] bool: whether a descendant may exceed the value to beat
    # [B] bool: whether literals were added to the monomial, so that it must be measured again
    is_new: Array


class Bounded(NamedTuple):
    """A batch with bounds of the children."""

    nodes: Node  # with the remaining literals and the new `lost`
    usable: Array  # [L, B] bool: the remaining literals
    bounds: Array  # [L, B] of the children
    is_settled: Array  # [B] bool: whether the rules removed no literal in this pass
    is_open: Array  # [B] bool: whether a descendant may exceed the value to beat


class Children(NamedTuple):
    """Children of a batch."""

    nodes: Node  # leaves [S, ...]
    is_node: Array  # [S] bool
    is_done: Array  # [B] bool: the node is settled, and all its children are in `nodes`


def root(instance: MonomialInstance) -> Node:
    """The empty monomial, with all literals allowed."""
    words = integers.pack(instance.allowed)
    most, none = reduce.total(instance.amounts[0]), jnp.zeros((), instance.amounts.dtype)
    return make_node(jnp.zeros_like(words), words, none, most - instance.least_costs[0], none)


def measure(instance: MonomialInstance, nodes: Node) -> MeasuredMonomials:
    """Values of the monomials, and of the monomials with one more literal, by matrix products."""
    allowed = lax.optimization_barrier(integers.unpack(nodes.allowed, instance.chains.shape[0]).T)
    found = by_node(_covered_amounts, (nodes.literals.T,), (instance,))
    (gained, kept), *others = (part.reshape(2, -1, part.shape[1]) for part in found)
    is_longer = jnp.arange(gained.shape[0]) > 0
    price = jnp.where(
        is_longer[:, None],
        cost(instance.costs, nodes.order + 1)[None],
        cost(instance.costs, nodes.order)[None],
    )
    values = gained - kept - price
    for less, number in others:
        values, kept = values - less, number
    return MeasuredMonomials(allowed, values, gained, kept)


def _covered_amounts(literals: Array, instance: MonomialInstance) -> list[Array]:
    """`amounts_covered` by monomials, words [W, B], as arrays [2 (1 + L), B]. The first are the
    gains and the losses; with rewards the second are the rewards that are missed and the numbers of
    unwanted examples.
    """
    amounts = [instance.amounts[:, :, None]]
    if instance.rewards is not None:
        beside = covered(of_class(instance.rows, 1), literals)[0]
        missed = _missed(instance.rewards, beside)
        # counted instead of their losses: an unwanted example without loss may cost a reward
        amounts.append(jnp.stack([missed, jnp.ones_like(missed)]))
    found = amounts_covered(instance.rows, instance.extent, literals, amounts)
    return [part.reshape(-1, part.shape[2]) for part in found]


def _missed(rewards: PairsOfSign, beside: Array) -> Array:
    """The rewards [R, B] that wanted examples do not gain because the unwanted examples `beside`
    [R, B] bool are covered too.
    """
    num_rows, width = beside.shape

    def by_pairs() -> Array:
        return sum_by_wanted(rewards, lambda _, unwanted: beside[unwanted], num_rows, width)

    def by_products() -> Array:
        flags = beside.astype(integers.float_of(rewards.values.dtype))
        return _products_of_integers(rewards.matrix, flags)

    if rewards.matrix is None:
        return by_pairs()
    if devices.platform() != "cpu":
        return by_products()
    return loops.cond(rewards.number <= most_of_few(num_rows), by_pairs, by_products)


def _products_of_integers(amounts: Array, flags: Array) -> Array:
    """amounts [R, Q] of integers times flags [Q, B] of 0 and 1, exactly."""
    return integers.product(flags.T, amounts.T).T


def is_beaten(instance: MonomialInstance, measured: MeasuredMonomials, num_nested: int) -> Array:
    """Which literals rule 5 removes, [L, B] bool. Only allowed literals whose indices differ by at
    most `num_nested` are compared.
    """
    num_literals = measured.allowed.shape[0]
    most = min(num_nested, max(num_literals - 1, 0))
    pairs = jnp.stack([measured.gained[1:], measured.kept[1:]])
    # literals that are not allowed dominate no literal
    of_allowed = jnp.where(measured.allowed[None], pairs, -1)
    # slices of padded arrays are contiguous reads; padded slices would be computed entry by entry
    gained, kept = lax.optimization_barrier(
        jnp.pad(of_allowed, ((0, 0), (most, most), (0, 0)), constant_values=-1)
    )
    chains = jnp.pad(instance.chains, most, constant_values=-1)
    beaten = jnp.zeros_like(measured.allowed)
    # the offset of the other literal: negative if its cover is the smaller one
    for apart in (*range(-most, 0), *range(1, most + 1)):

        def other(values: Array, begin: int = most + apart) -> Array:
            return values[begin : begin + num_literals]

        gains_equal = pairs[0] == other(gained)
        is_no_better = gains_equal if apart < 0 else ~gains_equal & (pairs[1] == other(kept))
        beaten |= (instance.chains == other(chains))[:, None] & is_no_better
    return beaten


def screen(
    instance: MonomialInstance,
    nodes: Node,
    is_node: Array,
    measured: MeasuredMonomials,
    to_beat: Array,
    *,
    num_nested: int,
    adds_free: bool,
) -> Screened:
    """Rules 1, 5 and 6 for nodes that have been measured."""
    live = is_node & (nodes.bound > to_beat)
    gained = measured.gained[1:]
    usable = (
        measured.allowed
        & live[None]
        & (gained - (nodes.lost + _least(instance, nodes))[None] > to_beat)
    )
    usable &= (
        measured.is_useful & ~is_beaten(instance, measured, num_nested)
    ) | ~instance.costs_rise
    usable = lax.optimization_barrier(usable)
    usable &= gained - (_lost(instance, nodes, usable) + _least(instance, nodes))[None] > to_beat
    is_open = _is_open(instance, usable)
    allowed, literals, is_new = integers.pack(usable.T), nodes.literals, jnp.zeros_like(is_open)
    if adds_free:
        free = usable & (gained == measured.gained[:1])
        is_new = is_open & reduce.any_true(free, axis=0)
        free_words = integers.pack(free.T)
        literals = jnp.where(is_new[:, None], literals | free_words, literals)
        allowed = allowed & ~free_words & ~integers.pack(_opposite(instance, free).T)
    return Screened(
        Node(jnp.concatenate([literals, allowed], axis=1), nodes.numbers), is_open & ~is_new, is_new
    )


def _lost(instance: MonomialInstance, nodes: Node, usable: Array) -> Array:
    """Rule 3: the loss [B] of the unwanted examples that the monomial and all its usable literals
    [L, B] cover.
    """
    literals = lax.optimization_barrier(nodes.literals | integers.pack(usable.T)).T
    lost: Array = by_node(_covered_losses, (literals,), (instance,))
    return lost[0]


def _covered_losses(literals: Array, instance: MonomialInstance) -> Array:
    """The losses [1, B] of the unwanted examples that monomials, words [W, B], cover."""

    def of_block(part: tuple[ClassRows, Array]) -> Array:
        rows, losses = part
        return reduce.total(jnp.where(covered(rows, literals), losses[:, :, None], 0), axis=1)

    return sum_over_rows(
        instance.extent, (of_class(instance.rows, 1), instance.amounts[1:]), of_block
    )


def _least(instance: MonomialInstance, nodes: Node) -> Array:
    """The least cost [B] of the descendants whose values are not yet known. Without rewards the
    values of the children are known.
    """
    return cost(instance.least_costs, nodes.order + (1 if instance.rewards is not None else 2))


def _is_open(instance: MonomialInstance, usable: Array) -> Array:
    """Whether nodes have descendants whose values are not known, from their usable literals [L, B].
    Without rewards these are the descendants of the children.
    """
    return reduce.count(usable, axis=0) > (0 if instance.rewards is not None else 1)


def _opposite(instance: MonomialInstance, literals: Array) -> Array:
    """The negations [L, B] of literals [L, B]."""
    return jnp.pad(literals, ((0, 1), (0, 0)))[instance.opposites]


def bound(
    instance: MonomialInstance, nodes: Node, is_node: Array, to_beat: Array, *, num_matchings: int
) -> Bounded:
    """Applies rules 3 and 4 once, and rule 1 with the new bounds."""
    live = is_node & (nodes.bound > to_beat)
    allowed = integers.unpack(nodes.allowed, instance.chains.shape[0]).T & live[None]
    literals, usable = nodes.literals.T, nodes.allowed.T
    is_covered = covered(instance.rows, literals) & live[None, None]
    is_stuck = lax.optimization_barrier(covered(of_class(instance.rows, 1), literals | usable)[0])
    lost = reduce.total(jnp.where(is_stuck, instance.amounts[1][:, None], 0), axis=0)
    order, left, period = residual_gains(
        instance, is_covered[0], is_covered[1] & ~is_stuck, is_stuck, usable, num_matchings
    )
    worth = by_node(_worth, (left,), (order, period, instance.rows.covers[:1]))[1:]
    bounds = lax.optimization_barrier(worth - (lost + _least(instance, nodes))[None])
    kept = allowed & (bounds > to_beat)
    left_over = make_node(nodes.literals, integers.pack(kept.T), lost, nodes.bound, nodes.order)
    return Bounded(
        left_over, kept, bounds, reduce.all_true(kept == allowed, axis=0), _is_open(instance, kept)
    )


def _worth(left: Array, order: Array, period: Array, covers: Array) -> Array:
    """The sums [1 + L, B] of `left` [R, B], of the first `period` examples of an order, over all
    examples and over each literal's cover.
    """

    def of_block(part: tuple[Array, Array]) -> Array:
        order, left = part
        return by_literal(covers[:, order[0]], left)

    total: Array = sum_over_rows(period, (order[None], left[None]), of_block)[0]
    return total


def children(instance: MonomialInstance, bounded: Bounded, *, num_slots: int) -> Children:
    """The children of the settled nodes, in the order of their parents. Parents are taken from the
    start of the batch as long as all children of a parent fit.
    """
    nodes, usable = bounded.nodes, bounded.usable
    num_literals = usable.shape[0]
    has_child = usable & (bounded.is_settled & bounded.is_open)[None]
    counts = reduce.count(has_child, axis=0)
    fits = integers.sums_so_far(counts[::-1])[::-1] <= num_slots
    words = lax.optimization_barrier(
        jnp.where(fits[:, None], integers.pack(has_child.T), jnp.uint32(0))
    )
    parent, literal = integers.nth_set(words, num_slots)
    ranked = lax.optimization_barrier(
        jnp.where(usable, bounded.bounds, jnp.iinfo(bounded.bounds.dtype).min).T
    )
    siblings, own = ranked[parent], ranked[parent, literal]
    column = jnp.arange(num_literals, dtype=jnp.int32)[None, :]
    is_later = (siblings > own[:, None]) | (
        (siblings == own[:, None]) & (column > literal[:, None])
    )
    num_words = nodes.literals.shape[1]
    added = integers.one_bit(literal, num_words)
    opposite = integers.one_bit(instance.opposites[literal], num_words)
    kept = integers.pack(is_later) & ~opposite
    made = make_node(
        nodes.literals[parent] | added, kept, nodes.lost[parent], own, nodes.order[parent] + 1
    )
    is_node = jnp.arange(num_slots) < reduce.total(jnp.where(fits, counts, 0))
    if instance.rewards is None:  # the values of children without later literals are known
        is_node &= jnp.any(kept != 0, axis=1)
    return Children(made, is_node, bounded.is_settled & fits)
