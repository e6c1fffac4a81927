"""Rule 4 of `jboost.monomials.expand`: the gains of wanted examples, minus the losses of unwanted
ones that no descendant removes without them, as a flow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, reduce
from jboost.base.types import Array
from jboost.monomials import integers
from jboost.monomials.batches import by_node
from jboost.monomials.instance import MonomialInstance, layout
from jboost.monomials.rewards import sum_by_wanted

# The largest number of matchings if all losses together are less than the rewards: then the flow
# can reduce the bound only a little.
_MATCHINGS_OF_LITTLE = 16
_FEW_WORDS = 2  # the number of words that is enough for the literals of most batches


def residual_gains(
    instance: MonomialInstance,
    wanted: Array,
    removable: Array,
    is_stuck: Array,
    usable: Array,
    num_matchings: int,
) -> tuple[Array, Array, Array]:
    """Rule 4: the gain of each covered wanted example, minus the flow to unwanted examples that
    cannot be removed without it.

    Args:
      wanted: [R, B] bool, the covered wanted examples.
      removable: [R, B] bool, the covered unwanted examples that a descendant may remove.
      is_stuck: [R, B] bool, the covered unwanted examples that no descendant removes.
      usable: [W, B] words.
      num_matchings: static.

    Returns:
      An order [R] of the wanted examples, their remaining gains [R, B] in this order, and a number
      [], at least 1: the gains of all later examples are 0.
    """
    gains, losses = instance.amounts[:, :, None]
    if instance.rewards is not None:
        gains -= _forgone(instance, removable, is_stuck, usable)
    queue = lax.optimization_barrier(
        jnp.stack([jnp.where(wanted, gains, 0), jnp.where(removable, losses, 0)])
    )
    size = wanted.shape[0]
    takes_part = reduce.any_true(queue > 0, axis=2)
    orders, extents = _with_partners_first(takes_part), reduce.count(takes_part, axis=1)
    period = jnp.max(extents, initial=1)
    # the wanted rows that take part, repeated cyclically
    line = orders[0][jnp.arange(size + min(num_matchings, size)) % period]
    rounds = jnp.where(
        extents[1] > 0, jnp.minimum(_worth_while(instance, line.shape[0] - size), period), 0
    )
    left, capacity = queue[0][line], queue[1][orders[1]]

    def meet(words: Array, other_words: Array, usable: Array, rounds: Array) -> Array:
        whole = (words[line], other_words[orders[1]], period, extents[1], rounds)
        flowed: Array = by_node(_flow_between, (left, capacity, usable), whole)
        return flowed

    return orders[0], _by_used_literals(instance, usable, rounds, meet), period


def _flow_between(
    left: Array,
    capacity: Array,
    usable: Array,
    words: Array,
    other_words: Array,
    period: Array,
    extent: Array,
    rounds: Array,
) -> Array:
    """`_flow_all` from examples that no usable literal, words [W, B], covers without the other."""

    def flow(begin: Array, other_begin: Array, left: Array, capacity: Array) -> Array:
        size = capacity.shape[0]
        parts = _parts(some(words, begin, size), some(other_words, other_begin, size), usable)
        return jnp.where(parts, 0, jnp.minimum(left, capacity))

    return _flow_all(flow, left, capacity, period, extent, rounds)


def _by_used_literals(
    instance: MonomialInstance,
    usable: Array,
    rounds: Array,
    meet: Callable[[Array, Array, Array, Array], Array],
) -> Array:
    """Calls `meet` with the words of both classes and of `usable` [W, B]. If the batch uses few
    literals, the words are first packed into fewer.

    Args:
      meet: (words [R, W], words [R, W], usable [W, B], rounds []) -> [R, B].
    """
    mine, theirs = instance.rows.words
    if usable.shape[0] <= _FEW_WORDS:
        return meet(mine, theirs, usable, rounds)
    num_few = 32 * _FEW_WORDS
    used = lax.reduce(usable, jnp.uint32(0), lax.bitwise_or, (1,))

    def few_words(rounds: Array) -> Array:
        _, index = integers.nth_set(used[None], num_few)
        mine, theirs = integers.pack(instance.rows.covers[:, :, 1 + index] > 0)
        return meet(
            mine,
            theirs,
            integers.pack(integers.unpack(usable.T, 32 * usable.shape[0])[:, index]).T,
            rounds,
        )

    def all_words(rounds: Array) -> Array:
        return meet(mine, theirs, usable, rounds)

    return loops.one_of(
        jnp.sum(lax.population_count(used)) <= num_few, rounds, 0, few_words, all_words
    )


def _with_partners_first(takes_part: Array) -> Array:
    """Orders [2, R] of the rows of both classes.

    The rows i of both classes are similar. Rows that take part in both classes come first, so that
    they are matched first. Then come rows that take part in one class.
    """
    return integers.stable_order(jnp.where(takes_part, jnp.where(takes_part[::-1], 0, 1), 2))


def _worth_while(instance: MonomialInstance, num_matchings: int) -> Array:
    """The number of matchings to try, []. It is small if the total possible flow is less than the
    rewards.
    """
    if instance.is_little_lost is None:
        return jnp.asarray(num_matchings, jnp.int32)
    return jnp.where(
        instance.is_little_lost, min(num_matchings, _MATCHINGS_OF_LITTLE), num_matchings
    )


def _parts(words: Array, other_words: Array, usable: Array) -> Array:
    """Whether a usable literal, words [W, B], covers the first example but not the other one, words
    [k, W] each: [k, B] bool.
    """
    parting = words & ~other_words
    return (
        functools.reduce(
            jnp.bitwise_or,
            (parting[:, None, word] & usable[None, word, :] for word in range(usable.shape[0])),
        )
        != 0
    )


def _forgone(instance: MonomialInstance, removable: Array, is_stuck: Array, usable: Array) -> Array:
    """The rewards [R, B] that wanted examples cannot gain, because no descendant removes the
    unwanted example, or only together with the wanted one.
    """
    words, other_words = instance.rows.words

    def is_lost(wanted: Array, unwanted: Array) -> Array:
        return is_stuck[unwanted] | (
            removable[unwanted] & ~_parts(words[wanted], other_words[unwanted], usable)
        )

    assert instance.rewards is not None
    return sum_by_wanted(instance.rewards, is_lost, words.shape[0], usable.shape[1])


def _flow_all(
    flow: Callable[[Array, Array, Array, Array], Array],
    line: Array,
    capacity: Array,
    period: Array,
    extent: Array,
    rounds: Array,
) -> Array:
    """The remaining weights [R, B] after all rounds. In round r, row i + r of the weights, modulo
    `period`, flows to row i of `capacity`. Rows from `period` on are 0.

    Args:
      flow: (index, other index, weights [k, B], capacity [k, B]) -> the flow from the rows of the
        weights that begin at `index` to the rows of `capacity` that begin at the other index.
      line: [R + rounds, B] the first `period` weights, repeated cyclically.
      capacity: [R, B], 0 from row `extent` on.
      period: [], at most R.
      extent: [], at most `period`.
      rounds: [], at most `period` and at most the number of rows of `line` beyond R.
    """
    size = capacity.shape[0]
    at_once = layout(size).group
    num_groups = jnp.uint32(1) if at_once == size else (-(-extent // at_once)).astype(jnp.uint32)
    last = period.astype(jnp.uint32)

    def one_group(step: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        queue, capacity = carry
        shift, begin = step // num_groups, step % num_groups * at_once

        def pair() -> tuple[Array, Array]:
            rows, free = some(queue, shift + begin, at_once), some(capacity, begin, at_once)
            gone = flow(shift + begin, begin, rows, free)
            return rows - gone, free - gone

        def no_rows() -> tuple[Array, Array]:
            return jnp.zeros((at_once, line.shape[1]), line.dtype), jnp.zeros(
                (at_once, line.shape[1]), capacity.dtype
            )

        is_any = begin < extent.astype(jnp.uint32)
        # Almost always true. The branch makes XLA compute the result once, before it writes to
        # either array.
        rows, free = loops.cond(is_any, pair, no_rows)
        queue = put(queue, rows, shift + begin)
        # the first row is appended to the end, for the next round
        queue = put(queue, some(queue, shift, 1), shift + last)
        return queue, put(capacity, free, begin)

    queue, _ = loops.fori_loop(
        jnp.uint32(0), rounds.astype(jnp.uint32) * num_groups, one_group, (line, capacity)
    )
    index = jnp.arange(size)
    left = queue[jnp.where(index < rounds, index + period, index)]
    return jnp.where((index < period)[:, None], left, 0)


def some(rows: Array, begin: Array, size: int) -> Array:
    """`size` rows from `begin` on. `begin` is unsigned, because a signed index costs an additional
    operation that handles negative values.
    """
    return lax.dynamic_slice(rows, (begin, jnp.zeros_like(begin)), (size, rows.shape[1]))


def put(rows: Array, part: Array, begin: Array) -> Array:
    """The rows, with `part` written to them from `begin` on."""
    return lax.dynamic_update_slice(rows, part, (begin, jnp.zeros_like(begin)))
