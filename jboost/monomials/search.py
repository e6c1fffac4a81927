"""The search for the best monomial: a beam for the first incumbent, then branch and bound for each sign, all of it compiled."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics
from jboost.base.types import Array
from jboost.monomials import expand, integers
from jboost.monomials.expand import Node
from jboost.monomials.instance import Instance, amounts_by_literal, literals_of, member
from jboost.search import stack
from jboost.search.stack import Stack


class Found(NamedTuple):
    """Monomials met, the best first, by integer value; no two of a sign that cover as much of both classes."""

    values: Array  # [k]
    keys: Array  # [k, 2] gain and loss of the cover, which tell covers apart
    literals: Array  # [k, W] words
    signs: Array  # [k] int8


class Sizes(NamedTuple):
    """Static sizes, chosen from the shapes."""

    batch: int
    children: int
    capacity: int
    max_steps: int
    beam_width: int
    beam_depth: int
    num_passes: int
    adds_free: bool


class State(NamedTuple):
    """What the next batch needs."""

    stack: Stack
    found: Found
    num_nodes: Array  # []


class Outcome(NamedTuple):
    """Both searches, in integers."""

    found: Found
    bound: Array  # [] no monomial has a larger value
    num_nodes: Array  # []
    is_full: Array  # [] bool
    is_cut_off: Array  # [] bool


def nothing(instance: Instance, *, num_best: int, num_words: int) -> Found:
    """No monomial at all."""
    dtype = instance.gains.dtype
    return Found(
        jnp.full((num_best,), jnp.iinfo(dtype).min, dtype),
        jnp.full((num_best, 2), -1, dtype),
        jnp.zeros((num_best, num_words), jnp.uint32),
        jnp.ones((num_best,), jnp.int8),
    )


def merge(found: Found, values: Array, keys: Array, literals: Array, sign: Array) -> Found:
    """The best of those found and of others [j], equal ones once."""
    size = found.values.shape[0]
    signs = jnp.broadcast_to(sign, values.shape).astype(jnp.int8)
    together = Found(
        jnp.concatenate([found.values, values]),
        jnp.concatenate([found.keys, keys]),
        jnp.concatenate([found.literals, literals]),
        jnp.concatenate([found.signs, signs]),
    )
    _, order = lax.top_k(together.values, together.values.shape[0])
    together = jax.tree.map(lambda leaf: leaf[order], together)
    values = jnp.where(_is_twin(together.keys, together.signs), jnp.iinfo(values.dtype).min, together.values)
    _, best = lax.top_k(values, size)
    return Found(values[best], together.keys[best], together.literals[best], together.signs[best])


def _is_twin(keys: Array, signs: Array) -> Array:
    """Whether a cover [k] is like one before it, [k] bool."""
    index = jnp.arange(keys.shape[0])
    is_same = jnp.all(keys[:, None, :] == keys[None, :, :], axis=2) & (signs[:, None] == signs[None, :])
    return jnp.any(is_same & (index[None, :] < index[:, None]), axis=1)


def _best_of_batch(nodes: Node, is_node: Array, measured: expand.Measured, num: int) -> tuple[Array, Array, Array]:
    """The best values in a batch, own or with one more literal, with keys and words."""
    batch = measured.allowed.shape[1]
    low = jnp.iinfo(measured.value.dtype).min
    own = jnp.where(is_node, measured.value, low)
    with_one_more = jnp.where(measured.allowed & is_node[None, :], measured.child_values, low)
    flat = jnp.concatenate([own[None, :], with_one_more]).reshape(-1)
    gained = jnp.concatenate([measured.own_gained[None, :], measured.gained]).reshape(-1)
    kept = jnp.concatenate([measured.own_kept[None, :], measured.kept]).reshape(-1)
    if num == 1:
        best = jnp.argmax(flat)[None]
    else:
        _, best = lax.top_k(flat, min(num, flat.size))
    literal, parent = best // batch - 1, best % batch
    words = nodes.literals[parent]
    added = integers.one_bit(jnp.maximum(literal, 0), words.shape[1])
    return flat[best], jnp.stack([gained[best], kept[best]], axis=1), words | jnp.where((literal >= 0)[:, None], added, jnp.uint32(0))


def beam(instance: Instance, found: Found, sign: Array, sizes: Sizes) -> Found:
    """Widens the best monomials of each order by one literal, `beam_depth` times; keeps what is best of all."""
    num_literals = 2 * instance.wanted.ones.shape[1]
    width = sizes.beam_width
    start = expand.root(instance)
    nodes = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (width, *leaf.shape)), start)

    def widen(carry: tuple[Node, Array, Found], nothing: None) -> tuple[tuple[Node, Array, Found], None]:
        del nothing
        nodes, is_node, found = carry
        measured = expand.measure(instance, nodes)
        num = max(2 * found.values.shape[0], 1) if found.values.shape[0] > 1 else 1
        found = merge(found, *_best_of_batch(nodes, is_node, measured, num), sign)
        low = jnp.iinfo(measured.value.dtype).min
        scores = jnp.where(measured.allowed & measured.is_useful & is_node[None, :], measured.child_values, low)
        flat = scores.reshape(-1)
        values, best = lax.top_k(flat, min(4 * width, flat.size))
        keys = jnp.stack([measured.gained.reshape(-1)[best], measured.kept.reshape(-1)[best]], axis=1)
        is_twin = _is_twin(keys, jnp.zeros_like(best))
        _, kept = lax.top_k(jnp.where(is_twin, low, values), min(width, best.size))
        kept = jnp.pad(kept, (0, width - kept.size))
        literal, parent = best[kept] // width, best[kept] % width
        fresh = (jnp.arange(width) < best.size) & (values[kept] > low) & ~is_twin[kept]
        added = integers.one_bit(literal, nodes.literals.shape[1])
        opposite = integers.one_bit((literal + num_literals // 2) % num_literals, nodes.literals.shape[1])
        wider = nodes._replace(
            literals=nodes.literals[parent] | added,
            allowed=nodes.allowed[parent] & ~added & ~opposite,
            order=nodes.order[parent] + 1,
        )
        return (wider, fresh, found), None

    is_node = jnp.arange(width) == 0
    (nodes, is_node, found), _ = lax.scan(widen, (nodes, is_node, found), None, length=sizes.beam_depth)
    return found


def _step(instance: Instance, state: State, sign: Array, sizes: Sizes) -> State:
    nodes, is_node, begin = stack.top(state.stack, sizes.batch)
    measured = expand.measure(instance, nodes)
    found = merge(state.found, *_best_of_batch(nodes, is_node, measured, 1), sign)
    made = expand.children(
        instance, nodes, is_node, measured, found.values[0], num_slots=sizes.children, num_passes=sizes.num_passes, adds_free=sizes.adds_free
    )
    num_here = state.stack.count - begin
    num_done = jnp.minimum(made.num_done - (sizes.batch - num_here), num_here)
    begin = state.stack.count - num_done
    after = stack.put(state.stack, made.nodes, made.num, begin)
    return State(after, found, state.num_nodes + num_done)


def one_sign(instance: Instance, found: Found, sign: Array, sizes: Sizes) -> tuple[Found, Array, Array, Array]:
    """Searches all monomials of one sign; returns what was found, a bound on the rest, nodes, and whether the stack was full."""
    none = jnp.zeros((), jnp.int32)
    nodes = stack.start(expand.root(instance), capacity=sizes.capacity, slack=max(sizes.children, sizes.batch))
    state = numerics.start_loop_beside(State(nodes, found, none), instance.gains)

    def unfinished(now: State) -> Array:
        return (now.stack.count > 0) & (now.stack.count <= sizes.capacity)

    state, _ = loops.bounded_loop(lambda now: _step(instance, now, sign, sizes), unfinished, state, max_checks=sizes.max_steps)
    is_left = jnp.arange(state.stack.nodes.bound.shape[0]) < state.stack.count
    bound = jnp.max(jnp.where(is_left, state.stack.nodes.bound, jnp.iinfo(state.found.values.dtype).min))
    return state.found, bound, state.num_nodes, state.stack.count > sizes.capacity


def single_literals(instance: Instance, found: Found, sign: Array) -> Found:
    """The best of the monomials of no or one literal, all of them valued at once."""
    dtype = instance.gains.dtype
    most, missed = instance.gains, jnp.zeros((), dtype)
    if instance.rewards is not None:
        most = most + jnp.sum(instance.rewards.amounts, axis=1, dtype=dtype)
        wanted, unwanted = (literals_of(rows) for rows in (instance.wanted, instance.unwanted))
        missed = jnp.sum(jnp.where(wanted > 0, integers.product(unwanted.T, instance.rewards.amounts.T).T, 0), axis=0, dtype=dtype)
    gained = amounts_by_literal(instance.wanted, most[:, None])[:, 0]
    kept = amounts_by_literal(instance.unwanted, instance.losses[:, None])[:, 0]
    price = expand.cost(instance.costs, jnp.arange(2))
    values = jnp.where(instance.allowed, gained - kept - missed - price[1], jnp.iinfo(dtype).min)
    all_gained, all_kept = jnp.sum(instance.gains, dtype=dtype), jnp.sum(instance.losses, dtype=dtype)
    values = jnp.concatenate([(all_gained - all_kept - price[0])[None], values])
    keys = jnp.stack([jnp.concatenate([all_gained[None], gained]), jnp.concatenate([all_kept[None], kept])], axis=1)
    best_values, best = lax.top_k(values, min(values.shape[0], 4 * found.values.shape[0]))
    words = integers.one_bit(jnp.maximum(best - 1, 0), found.literals.shape[1])
    return merge(found, best_values, keys[best], jnp.where((best > 0)[:, None], words, jnp.uint32(0)), sign)


def both_signs(instances: Instance, sizes: Sizes, *, num_best: int) -> Outcome:
    """The best monomials of sign +1 (instance 0) and -1 (instance 1) together.

    Args:
      instances: two instances, their arrays stacked.
      sizes: static.
      num_best: static, how many to return.
    """
    first = member(instances, jnp.asarray(0))
    num_words = -(-2 * first.wanted.ones.shape[1] // 32)
    found = nothing(first, num_best=num_best, num_words=num_words)
    signs = jnp.array([1, -1], jnp.int8)

    if first.costs.shape[0] <= 2 + 2:  # orders 0 and 1, and those beyond, which are not allowed
        found, _ = lax.scan(lambda found, part: (single_literals(part[0], found, part[1]), None), found, (instances, signs))
        num_nodes = jnp.asarray(2 * (2 * first.wanted.ones.shape[1] + 1), jnp.int32)
        return Outcome(found, jnp.max(found.values), num_nodes, jnp.zeros((), bool), jnp.zeros((), bool))

    def look(found: Found, part: tuple[Instance, Array]) -> tuple[Found, None]:
        return beam(part[0], found, part[1], sizes), None

    def search(found: Found, part: tuple[Instance, Array]) -> tuple[Found, tuple[Array, Array, Array]]:
        found, bound, num_nodes, is_full = one_sign(part[0], found, part[1], sizes)
        return found, (bound, num_nodes, is_full)

    found, _ = lax.scan(look, found, (instances, signs))
    found, (bounds, num_nodes, is_full) = lax.scan(search, found, (instances, signs))
    best = jnp.max(found.values)
    bound = jnp.maximum(best, jnp.max(bounds))
    return Outcome(found, bound, jnp.sum(num_nodes), jnp.any(is_full), (bound > best) & ~jnp.any(is_full))
