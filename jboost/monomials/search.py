"""The search for the best monomial: a beam for the first incumbent, then branch and bound for each sign, all of it compiled."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import loops, numerics
from jboost.base.types import Array
from jboost.monomials import expand, integers
from jboost.monomials.expand import Node
from jboost.monomials.found import Found, Outcome, are_twins, merge, nothing
from jboost.monomials.instance import Instance, below, member
from jboost.search import stack
from jboost.search.stack import Stack

_INNER_CAPACITY = 1 << 14  # nodes of an instance of few literals
_EVERY_BIT = np.uint32(0xFFFFFFFF)  # of a word: literals that no monomial has together


class Sizes(NamedTuple):
    """Static sizes, chosen from the shapes."""

    batch: int  # nodes measured at once
    flows: int  # nodes bounded at once
    children: int  # made at once
    narrow: int  # literals of an instance of few; 0 for none
    narrow_batch: int  # nodes measured at once there
    capacity: int
    max_steps: int
    beam_width: int
    beam_depth: int
    num_matchings: int
    num_nested: int
    adds_free: bool

    @property
    def load(self) -> int:
        """Nodes put onto a stack at once, at most."""
        return max(self.children, self.batch, self.flows)


class Progress(NamedTuple):
    """What a search knows beside its nodes."""

    found: Found  # of one sign, in the instance's own literals; with every bit set where a monomial was known before
    given_up: Array  # [] no descendant of a node dropped unfinished has a larger value
    is_full: Array  # [] bool
    num_nodes: Array  # []
    num_steps: Array  # []


class State(NamedTuple):
    """What the next batch needs."""

    new: Stack  # nodes to measure
    screened: Stack  # nodes to bound
    narrow: Stack | None  # nodes of few literals, to be searched as instances of their own
    progress: Progress


class Load(NamedTuple):
    """Nodes for the top of a stack."""

    nodes: Node  # leaves [S, ...]
    num: Array  # [] how many of them
    begin: Array  # [] the slot of the first


class Move(NamedTuple):
    """What a batch leads to. The stacks themselves stay outside: whatever branches return is copied."""

    new: Load
    screened: Load
    narrow: Load | None
    progress: Progress


def _candidates(nodes: Node, is_node: Array, measured: expand.Measured) -> tuple[Array, Array, Array]:
    """Values of a batch's monomials as they are, then with one more literal: [(1 + L) B], with their gains and losses."""
    low = jnp.iinfo(measured.value.dtype).min
    own = jnp.where(is_node, measured.value, low)
    with_one_more = jnp.where(measured.allowed & is_node[None, :], measured.child_values, low)
    flat = jnp.concatenate([own[None, :], with_one_more]).reshape(-1)
    gained = jnp.concatenate([measured.own_gained[None, :], measured.gained]).reshape(-1)
    kept = jnp.concatenate([measured.own_kept[None, :], measured.kept]).reshape(-1)
    return flat, gained, kept


def _best_of_batch(nodes: Node, is_node: Array, measured: expand.Measured, num: int) -> tuple[Array, Array, Array]:
    """The best values in a batch, own or with one more literal, with keys and words."""
    flat, gained, kept = _candidates(nodes, is_node, measured)
    batch = is_node.shape[0]
    _, best = numerics.top_k(flat, min(num, flat.size))
    literal, parent = best // batch - 1, best % batch
    words = nodes.literals[parent]
    added = integers.one_bit(jnp.maximum(literal, 0), words.shape[1])
    words = words | jnp.where((literal >= 0)[:, None], added, jnp.uint32(0))
    return flat[best], jnp.stack([gained[best], kept[best]], axis=1), words


def _num_candidates(found: Found) -> int:
    """How many of a batch to look at: some may be alike."""
    size = found.values.shape[0]
    return 2 * size if size > 1 else 1


def _better(found: Found, nodes: Node, is_node: Array, measured: expand.Measured) -> Found:
    """The best monomials with those of a batch, which seldom have better ones."""
    least = found.values[-1]
    own = jnp.max(jnp.where(is_node, measured.value, least))
    highest = jnp.max(jnp.where(measured.allowed & is_node[None, :], measured.child_values, own), initial=least)

    def replace() -> Found:
        return merge(found, *_best_of_batch(nodes, is_node, measured, _num_candidates(found)), found.signs[0])

    return loops.cond(jnp.maximum(own, highest) > least, replace, lambda: found)


def renamed(instance: Instance, words: Array, num_literals: int) -> Array:
    """Sets of an instance's literals, words [k, W], as sets of those they are named after."""
    flags = integers.unpack(words, instance.names.shape[0])
    named = jnp.zeros((words.shape[0], num_literals), bool).at[:, instance.names].max(flags, mode="drop")
    return integers.pack(named)


def beam(instance: Instance, found: Found, sign: Array, sizes: Sizes) -> Found:
    """Widens the best monomials of each order by one literal, `beam_depth` times; keeps what is best of all."""
    num_literals = instance.names.shape[0]
    width = sizes.beam_width
    start = expand.root(instance)
    nodes = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (width, *leaf.shape)), start)

    def widen(carry: tuple[Node, Array, Found], nothing: None) -> tuple[tuple[Node, Array, Found], None]:
        del nothing
        nodes, is_node, found = carry
        measured = expand.measure(instance, nodes)
        values, keys, words = _best_of_batch(nodes, is_node, measured, _num_candidates(found))
        found = merge(found, values, keys, renamed(instance, words, num_literals), sign)
        low = jnp.iinfo(measured.value.dtype).min
        scores = jnp.where(measured.allowed & measured.is_useful & is_node[None, :], measured.child_values, low)
        flat = scores.reshape(-1)
        values, best = numerics.top_k(flat, min(4 * width, flat.size))
        keys = jnp.stack([measured.gained.reshape(-1)[best], measured.kept.reshape(-1)[best]], axis=1)
        is_twin = are_twins(keys, jnp.zeros_like(best))
        _, kept = numerics.top_k(jnp.where(is_twin, low, values), min(width, best.size))
        kept = jnp.pad(kept, (0, width - kept.size))
        literal, parent = best[kept] // width, best[kept] % width
        fresh = (jnp.arange(width) < best.size) & (values[kept] > low) & ~is_twin[kept]
        added = integers.one_bit(literal, nodes.literals.shape[1])
        opposite = integers.one_bit(instance.opposites[literal], nodes.literals.shape[1])
        wider = nodes._replace(
            literals=nodes.literals[parent] | added,
            allowed=nodes.allowed[parent] & ~added & ~opposite,
            order=nodes.order[parent] + 1,
        )
        return (wider, fresh, found), None

    is_node = jnp.arange(width) == 0
    (nodes, is_node, found), _ = loops.scan(widen, (nodes, is_node, found), None, length=sizes.beam_depth)
    return found


def _chosen(flags: Array, nodes: Node) -> tuple[Node, Array]:
    """The nodes of a batch with flags [B], in their order at its front, and how many."""
    _, index = integers.nth_set(integers.pack(flags)[None], flags.shape[0])
    return jax.tree.map(lambda leaf: leaf[jnp.minimum(index, flags.shape[0] - 1)], nodes), jnp.sum(flags, dtype=jnp.int32)


def _loaded(flags: Array, nodes: Node, begin: Array, sizes: Sizes) -> Load:
    return _of_size(*_chosen(flags, nodes), begin, sizes)


def _of_size(nodes: Node, num: Array, begin: Array, sizes: Sizes) -> Load:
    """The load of the first `num` of some nodes, as large as all loads are."""
    missing = sizes.load - nodes.bound.shape[0]
    return Load(jax.tree.map(lambda leaf: jnp.pad(leaf, [(0, missing)] + [(0, 0)] * (leaf.ndim - 1)), nodes), num, begin)


def _nothing_for(onto: Stack, sizes: Sizes) -> Load:
    none = jax.tree.map(lambda leaf: jnp.zeros((sizes.load, *leaf.shape[1:]), leaf.dtype), onto.nodes)
    return Load(none, jnp.zeros((), jnp.int32), onto.count)


def _sorted(state: State, nodes: Node, is_open: Array, begin: Array, sizes: Sizes) -> tuple[Load, Load | None]:
    """Nodes to bound; those of few literals go their own way."""
    if state.narrow is None:
        return _loaded(is_open, nodes, begin, sizes), None
    is_narrow = jnp.sum(lax.population_count(nodes.allowed), axis=1) <= sizes.narrow
    return _loaded(is_open & ~is_narrow, nodes, begin, sizes), _loaded(is_open & is_narrow, nodes, state.narrow.count, sizes)


def _measure_some(instance: Instance, state: State, sizes: Sizes) -> Move:
    nodes, is_node, begin = stack.top(state.new, sizes.batch)
    measured = expand.measure(instance, nodes)
    progress = state.progress
    is_live = is_node & (nodes.bound > progress.found.values[0])
    found = _better(progress.found, nodes, is_node, measured)
    screened = expand.screen(instance, nodes, is_node, measured, found.values[0], num_nested=sizes.num_nested, adds_free=sizes.adds_free)
    num = jnp.sum(is_live & ~screened.is_new, dtype=jnp.int32)
    return Move(
        _loaded(screened.is_new, screened.nodes, begin, sizes),
        *_sorted(state, screened.nodes, screened.is_open, state.screened.count, sizes),
        progress._replace(found=found, num_nodes=progress.num_nodes + num),
    )


def _bound_some(instance: Instance, state: State, sizes: Sizes) -> Move:
    nodes, is_node, begin = stack.top(state.screened, sizes.flows)
    bounded = expand.bound(instance, nodes, is_node, state.progress.found.values[0], num_matchings=sizes.num_matchings)
    made = expand.children(instance, bounded, num_slots=sizes.children)
    return Move(
        _of_size(made.nodes, made.num, state.new.count, sizes),
        *_sorted(state, bounded.nodes, bounded.is_open & ~made.is_done, begin, sizes),
        state.progress,
    )


def _search_narrow(instance: Instance, state: State, sizes: Sizes) -> Move:
    """The topmost node of few literals, as an instance that has no others."""
    assert state.narrow is not None
    node = jax.tree.map(lambda leaf: leaf[0], stack.top(state.narrow, 1)[0])
    _, index = integers.nth_set(node.allowed[None], sizes.narrow)
    num = jnp.sum(lax.population_count(node.allowed), dtype=jnp.int32)
    part = below(instance, node.literals, index, jnp.arange(sizes.narrow) < num)
    words = integers.pack(part.allowed)
    start = Node(jnp.zeros_like(words), words, node.lost, node.bound, node.order)
    inner = sizes._replace(
        narrow=0, batch=sizes.narrow_batch, children=max(sizes.narrow, sizes.narrow_batch), capacity=min(sizes.capacity, _INNER_CAPACITY)
    )
    progress = state.progress
    end = explore(part, start, _without_names(progress.found, words.shape[0]), inner, progress.num_steps)
    flags = integers.unpack(end.progress.found.literals, sizes.narrow)
    named = jnp.zeros((flags.shape[0], instance.names.shape[0]), bool).at[:, index].max(flags)
    return Move(
        _nothing_for(state.new, sizes),
        _nothing_for(state.screened, sizes),
        _nothing_for(state.narrow, sizes)._replace(begin=state.narrow.count - 1),
        Progress(
            found=_with_new(progress.found, end.progress.found, node.literals[None] | integers.pack(named)),
            given_up=jnp.maximum(progress.given_up, open_bound(end)),
            is_full=end.progress.is_full,
            num_nodes=progress.num_nodes + end.progress.num_nodes,
            num_steps=end.progress.num_steps,
        ),
    )


def open_bound(state: State) -> Array:
    """No monomial that has not been looked at has a larger value."""
    bound = state.progress.given_up
    for part in _stacks(state):
        is_left = jnp.arange(part.nodes.bound.shape[0]) < part.count
        bound = jnp.maximum(bound, jnp.max(jnp.where(is_left, part.nodes.bound, bound)))
    return bound


def _stacks(state: State) -> list[Stack]:
    return [part for part in (state.new, state.screened, state.narrow) if part is not None]


def _most_nodes(state: State) -> Array:
    return functools.reduce(jnp.maximum, (part.count for part in _stacks(state)))


def _without_names(found: Found, num_words: int) -> Found:
    """Monomials known before, for an instance that has other literals: what they are worth alone counts."""
    return found._replace(literals=jnp.full((found.values.shape[0], num_words), _EVERY_BIT, jnp.uint32))


def _with_new(before: Found, after: Found, literals: Array) -> Found:
    """The best of those known before and of those with literals afterwards, whose words are `literals` [k, W] here."""
    is_new = jnp.any(after.literals != _EVERY_BIT, axis=1)
    return merge(before, jnp.where(is_new, after.values, jnp.iinfo(after.values.dtype).min), after.keys, literals, after.signs)


def explore(instance: Instance, start: Node, found: Found, sizes: Sizes, num_steps: Array) -> State:
    """Searches below a node, until nothing is left or a limit is met."""
    one = stack.start(start, capacity=sizes.capacity, slack=sizes.load)
    none = jnp.zeros((), jnp.int32)
    empty = one._replace(count=none)
    lowest = jnp.full_like(start.bound, jnp.iinfo(start.bound.dtype).min)
    first = State(one, empty, empty if sizes.narrow else None, Progress(found, lowest, none > 0, none, num_steps))
    stages = [_measure_some, _bound_some] + [_search_narrow] * (sizes.narrow > 0)

    def step(now: State) -> State:
        is_time_to_bound = (now.screened.count >= sizes.flows) | (now.new.count == 0)
        stage = is_time_to_bound.astype(jnp.int32)
        if now.narrow is not None:
            stage = jnp.where(now.narrow.count > 0, 2, stage)
        now = now._replace(progress=now.progress._replace(num_steps=now.progress.num_steps + 1))
        move: Any = loops.switch(stage, [functools.partial(work, instance, sizes=sizes) for work in stages], now)
        narrow = None if now.narrow is None else stack.put(now.narrow, *move.narrow)
        now = State(stack.put(now.new, *move.new), stack.put(now.screened, *move.screened), narrow, move.progress)
        return now._replace(progress=now.progress._replace(is_full=now.progress.is_full | (_most_nodes(now) > sizes.capacity)))

    def unfinished(now: State) -> Array:
        return (_most_nodes(now) > 0) & ~now.progress.is_full & (now.progress.num_steps < sizes.max_steps)

    return loops.bounded_loop(step, unfinished, first, max_checks=sizes.max_steps)[0]


def one_sign(instance: Instance, found: Found, sign: Array, sizes: Sizes, num_steps: Array) -> tuple[Found, Array, Array, Array]:
    """Searches all monomials of one sign, with so many steps used up: what was found, a bound on the rest, nodes, and whether a stack was full."""
    start = expand.root(instance)
    others = -1 - jnp.arange(found.values.shape[0], dtype=found.keys.dtype)[:, None]  # of the other sign: like no cover of this one
    known = found._replace(keys=jnp.where((found.signs == sign)[:, None], found.keys, others), signs=jnp.full_like(found.signs, sign))
    known = _without_names(known, start.literals.shape[0])
    end = explore(instance, start, known, sizes, num_steps)
    words = renamed(instance, end.progress.found.literals, instance.names.shape[0])
    return _with_new(found, end.progress.found, words), open_bound(end), end.progress.num_nodes, end.progress.is_full


def both_signs(instances: Instance, enough: Array | None, sizes: Sizes, *, num_best: int) -> Outcome:
    """The best monomials of sign +1 (instance 0) and -1 (instance 1) together.

    Args:
      instances: two instances, their arrays stacked.
      enough: [] where the beam finds a larger value, branch and bound is left out; None for the best of all.
      sizes: static.
      num_best: static, how many to return.
    """
    first = member(instances, jnp.asarray(0))
    num_words = first.wanted.words.shape[1]
    found = nothing(first.gains.dtype, num_best=num_best, num_words=num_words)
    signs = jnp.array([1, -1], jnp.int8)

    def look(found: Found, part: tuple[Instance, Array]) -> tuple[Found, None]:
        return beam(part[0], found, part[1], sizes), None

    def search(found: Found, part: tuple[Instance, Array]) -> tuple[Found, tuple[Array, Array, Array]]:
        found, bound, num_nodes, is_full = one_sign(part[0], found, part[1], sizes, num_steps)
        return found, (bound, num_nodes, is_full)

    found, _ = loops.scan(look, found, (instances, signs))
    order = jnp.sum(lax.population_count(found.literals[0]), dtype=jnp.int32)
    is_allowed = expand.cost(first.costs, order) < first.costs[-1]
    is_enough = jnp.zeros((), bool) if enough is None else (found.values[0] > enough) & is_allowed
    num_steps = jnp.where(is_enough, sizes.max_steps, 0)
    found, (bounds, num_nodes, is_full) = loops.scan(search, found, (instances, signs))
    best = jnp.max(found.values)
    bound = jnp.maximum(best, jnp.max(bounds))
    is_open = bound > best
    is_cut_off = is_open & ~jnp.any(is_full)
    return Outcome(found, bound, jnp.sum(num_nodes), is_open & jnp.any(is_full), is_cut_off & ~is_enough, is_cut_off & is_enough)
