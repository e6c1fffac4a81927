"""The search for the best monomial: a beam search for the first incumbent, then branch and bound
for each sign, all inside one compiled program.

Both measure batches of nodes in the same way. They share one loop and differ only in what follows
the measurement, so the code is compiled once.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.monomials import expand, integers
from jboost.monomials.batches import replicated
from jboost.monomials.found import FoundMonomials, SearchOutcome, are_twins, merge, nothing
from jboost.monomials.instance import MonomialInstance, below, of_sign
from jboost.monomials.nodes import Node, cost, make_node
from jboost.search import stack
from jboost.search.stack import Stack

_INNER_CAPACITY = 1 << 14  # the capacity of the stacks of a narrow instance
# The candidates of the beam search for each node that it keeps; some of them may be duplicates.
_CANDIDATES = 4
_NEW, _SCREENED, _NARROW, _NOWHERE = range(4)  # the stacks that nodes are put onto, or none
# A word with all bits set marks a monomial from elsewhere: no monomial has all these literals.
_EVERY_BIT = np.uint32(0xFFFFFFFF)


class Sizes(NamedTuple):
    """Static sizes, chosen from the shapes."""

    batch: int  # nodes measured at once
    flows: int  # nodes bounded at once
    children: int  # made at once
    # the largest number of literals of a node that is searched as a narrow instance; 0 for none
    narrow: int
    narrow_batch: int  # nodes measured at once in a narrow instance
    capacity: int
    max_steps: int
    beam_width: int
    beam_depth: int
    num_matchings: int
    num_nested: int
    adds_free: bool

    @property
    def load(self) -> int:
        """The largest number of nodes that one batch adds."""
        return max(self.batch, self.children + self.flows, _CANDIDATES * self.beam_width)


class Progress(NamedTuple):
    """The state of a search without its nodes."""

    # in the literals of the instance; all bits are set for monomials that were known before
    found: FoundMonomials
    given_up: Array  # [] an upper bound of the values below nodes that were dropped unfinished
    is_full: Array  # [] bool
    num_nodes: Array  # []
    num_steps: Array  # []


class MonomialSearchState(NamedTuple):
    """The state between batches."""

    # nodes to measure, nodes to bound and, unless `narrow` is 0, nodes of few literals, which are
    # searched as separate instances
    stacks: tuple[Stack, ...]
    progress: Progress


class Task(NamedTuple):
    """An instance, the kind of search, and its limit."""

    instance: MonomialInstance
    sign: Array  # []
    is_beam: Array  # [] bool: True for the beam search, False for branch and bound
    max_steps: Array  # []


class BatchMove(NamedTuple):
    """The nodes that a batch adds. It does not hold the stacks, because the results of branches are
    copied.
    """

    nodes: Node  # leaves [S, ...]
    targets: Array  # [S] int32, the stacks that they are put onto
    begins: Array  # [2] or [3] the sizes of the stacks before the nodes are added
    progress: Progress


def _better(
    found: FoundMonomials,
    nodes: Node,
    is_node: Array,
    measured: expand.MeasuredMonomials,
    sign: Array,
) -> FoundMonomials:
    """The best monomials after a batch, which adds its monomials, and those with one more literal.
    Most batches do not change them.
    """
    is_allowed = jnp.pad(measured.allowed, ((1, 0), (0, 0)), constant_values=True) & is_node[None]
    values = lax.optimization_barrier(
        jnp.where(is_allowed, measured.values, jnp.iinfo(measured.values.dtype).min)
    )
    size, batch = found.values.shape[0], is_node.shape[0]

    def replace() -> FoundMonomials:
        # more candidates than needed, because some may be duplicates
        _, best = numerics.top_k(values.reshape(-1), min(2 * size if size > 1 else 1, values.size))
        row, column = best // batch, best % batch
        numbers = [part.reshape(-1)[best] for part in (values, measured.gained, measured.kept)]
        added = integers.one_bit(row - 1, found.literals.shape[1])
        return merge(
            found,
            FoundMonomials(
                jnp.stack([*numbers, jnp.full_like(numbers[0], sign)], axis=1),
                nodes.literals[column] | added,
            ),
        )

    return loops.cond(
        reduce.largest(values, axis=(0, 1)) > found.values[-1], replace, lambda: found
    )


def _widened(
    instance: MonomialInstance,
    nodes: Node,
    is_node: Array,
    measured: expand.MeasuredMonomials,
    width: int,
) -> tuple[Node, Array]:
    """One step of the beam search: the best monomials with one more literal than the first `width`
    nodes of a batch, and which of them to keep, at most `width`.
    """
    values, gained, kept = (
        part[1:, :width].reshape(-1) for part in (measured.values, measured.gained, measured.kept)
    )
    is_candidate = (measured.allowed & measured.is_useful & is_node[None])[:, :width].reshape(-1)
    low = jnp.iinfo(values.dtype).min
    scores, best = numerics.top_k(
        jnp.where(is_candidate, values, low), min(_CANDIDATES * width, values.size)
    )
    is_fresh = (scores > low) & ~are_twins(jnp.stack([gained[best], kept[best]], axis=1), scores)
    literal, parent = best // width, best % width
    num_words = nodes.literals.shape[1]
    added = integers.one_bit(literal, num_words)
    opposite = integers.one_bit(instance.opposites[literal], num_words)
    parents = jax.tree.map(lambda leaf: leaf[parent], nodes)
    literals, allowed = parents.literals | added, parents.allowed & ~added & ~opposite
    wider = make_node(literals, allowed, parents.lost, parents.bound, parents.order + 1)
    return wider, is_fresh & (integers.sums_so_far(is_fresh.astype(jnp.int32)) <= width)


def _move(
    parts: Sequence[tuple[Node, Array]], begins: Sequence[Array], progress: Progress, sizes: Sizes
) -> BatchMove:
    """The move of nodes to their targets, padded with nodes that go to no stack."""
    missing = sizes.load - sum(targets.shape[0] for _, targets in parts)
    nodes = jax.tree.map(
        lambda *leaves: jnp.pad(jnp.concatenate(leaves), ((0, missing), (0, 0))),
        *(nodes for nodes, _ in parts),
    )
    targets = jnp.concatenate([targets.astype(jnp.int32) for _, targets in parts])
    return BatchMove(
        nodes, jnp.pad(targets, (0, missing), constant_values=_NOWHERE), jnp.stack(begins), progress
    )


def _to_bound(nodes: Node, is_open: Array, sizes: Sizes) -> Array:
    """The targets of nodes to bound. Nodes of few literals go to the stack of narrow instances."""
    is_narrow = (
        jnp.sum(lax.population_count(nodes.allowed), axis=1) <= sizes.narrow
        if sizes.narrow
        else False
    )
    return jnp.where(is_open, jnp.where(is_narrow, _NARROW, _SCREENED), _NOWHERE)


def _measure_some(task: Task, state: MonomialSearchState, sizes: Sizes) -> BatchMove:
    nodes, is_node, begin = stack.top(state.stacks[_NEW], sizes.batch)
    measured = expand.measure(task.instance, nodes)
    before = state.progress
    is_live = is_node & (nodes.bound > before.found.values[0])
    found = _better(before.found, nodes, is_node, measured, task.sign)
    begins = [begin] + [other.count for other in state.stacks[1:]]

    def widen() -> BatchMove:
        wider, is_kept = _widened(task.instance, nodes, is_node, measured, sizes.beam_width)
        return _move(
            [(wider, jnp.where(is_kept, _NEW, _NOWHERE))],
            begins,
            before._replace(found=found),
            sizes,
        )

    def screen() -> BatchMove:
        to_beat = found.values[0]
        screened = expand.screen(
            task.instance,
            nodes,
            is_node,
            measured,
            to_beat,
            num_nested=sizes.num_nested,
            adds_free=sizes.adds_free,
        )
        targets = jnp.where(
            screened.is_new, _NEW, _to_bound(screened.nodes, screened.is_open, sizes)
        )
        num_nodes = before.num_nodes + reduce.count(is_live & ~screened.is_new)
        return _move(
            [(screened.nodes, targets)],
            begins,
            before._replace(found=found, num_nodes=num_nodes),
            sizes,
        )

    return loops.cond(task.is_beam, widen, screen)


def _bound_some(task: Task, state: MonomialSearchState, sizes: Sizes) -> BatchMove:
    nodes, is_node, begin = stack.top(state.stacks[_SCREENED], sizes.flows)
    bounded = expand.bound(
        task.instance,
        nodes,
        is_node,
        state.progress.found.values[0],
        num_matchings=sizes.num_matchings,
    )
    made = expand.children(task.instance, bounded, num_slots=sizes.children)
    left = _to_bound(bounded.nodes, bounded.is_open & ~made.is_done, sizes)
    begins = [state.stacks[_NEW].count, begin] + [other.count for other in state.stacks[2:]]
    return _move(
        [(made.nodes, jnp.where(made.is_node, _NEW, _NOWHERE)), (bounded.nodes, left)],
        begins,
        state.progress,
        sizes,
    )


def _search_narrow(task: Task, state: MonomialSearchState, sizes: Sizes) -> BatchMove:
    """Searches the top node of the stack of narrow nodes, as an instance with only its literals."""
    instance = task.instance
    node = jax.tree.map(lambda leaf: leaf[0], stack.top(state.stacks[_NARROW], 1)[0])
    _, index = integers.nth_set(node.allowed[None], sizes.narrow)
    num = jnp.sum(lax.population_count(node.allowed), dtype=jnp.int32)
    part = below(instance, node.literals, index, jnp.arange(sizes.narrow) < num)
    words = integers.pack(part.allowed)
    start = make_node(jnp.zeros_like(words), words, node.lost, node.bound, node.order)
    inner = sizes._replace(
        narrow=0,
        batch=sizes.narrow_batch,
        children=max(sizes.narrow, sizes.narrow_batch),
        capacity=min(sizes.capacity, _INNER_CAPACITY),
    )
    progress = state.progress
    known = progress.found._replace(
        literals=jnp.full((progress.found.values.shape[0], words.shape[0]), _EVERY_BIT)
    )
    end = explore(task._replace(instance=part), start, known, inner, progress.num_steps)
    flags = integers.unpack(end.progress.found.literals, sizes.narrow)
    named = jnp.zeros((flags.shape[0], instance.chains.shape[0]), bool).at[:, index].max(flags)
    *others, last = [part.count for part in state.stacks]
    return BatchMove(
        jax.tree.map(lambda leaf: jnp.zeros((sizes.load, *leaf.shape), leaf.dtype), node),
        jnp.full((sizes.load,), _NOWHERE, jnp.int32),
        jnp.stack([*others, last - 1]),
        Progress(
            found=_with_new(
                progress.found, end.progress.found, node.literals[None] | integers.pack(named)
            ),
            given_up=jnp.maximum(progress.given_up, open_bound(end)),
            is_full=end.progress.is_full,
            num_nodes=progress.num_nodes + end.progress.num_nodes,
            num_steps=end.progress.num_steps,
        ),
    )


def _with_new(before: FoundMonomials, after: FoundMonomials, literals: Array) -> FoundMonomials:
    """The best monomials after the search of a narrow instance. New ones get their words `literals`
    [k, W] of the outer instance.
    """
    is_new = jnp.any(after.literals != _EVERY_BIT, axis=1)
    values = jnp.where(is_new, after.values, jnp.iinfo(after.values.dtype).min)
    return merge(before, FoundMonomials(after.numbers.at[:, 0].set(values), literals))


def open_bound(state: MonomialSearchState) -> Array:
    """An upper bound of the values of all monomials that have not been measured."""
    bound = state.progress.given_up
    for part in state.stacks:
        is_left = jnp.arange(part.nodes.bound.shape[0]) < part.count
        bound = jnp.maximum(bound, reduce.largest(jnp.where(is_left, part.nodes.bound, bound)))
    return bound


def _after(stacks: tuple[Stack, ...], move: BatchMove) -> tuple[Stack, ...]:
    """The stacks with the nodes of a move on top."""
    size, numbers = move.targets.shape[0], jnp.arange(len(stacks))
    nums = reduce.count(move.targets[None, :] == numbers[:, None], axis=1)
    order = integers.stable_order(move.targets)
    slots = (integers.sums_so_far(nums) - nums)[:, None] + jnp.arange(size)[None]
    nodes = jax.tree.map(lambda leaf: leaf[order[jnp.minimum(slots, size - 1)]], move.nodes)
    return tuple(
        stack.put(
            onto,
            jax.tree.map(lambda leaf, which=which: leaf[which], nodes),
            nums[which],
            move.begins[which],
        )
        for which, onto in enumerate(stacks)
    )


def explore(
    task: Task, start: Node, found: FoundMonomials, sizes: Sizes, num_steps: Array
) -> MonomialSearchState:
    """Searches below a node until no node is left or a limit is reached."""
    one = stack.start(start, capacity=sizes.capacity, slack=sizes.load)
    none = jnp.zeros((), jnp.int32)
    empty = one._replace(count=none)
    lowest = jnp.full_like(start.bound, jnp.iinfo(start.bound.dtype).min)
    stages = [_measure_some, _bound_some] + [_search_narrow] * (sizes.narrow > 0)
    first = MonomialSearchState(
        (one, *[empty] * (len(stages) - 1)), Progress(found, lowest, none > 0, none, num_steps)
    )

    def step(now: MonomialSearchState) -> MonomialSearchState:
        new, screened, *narrow = now.stacks
        stage = ((screened.count >= sizes.flows) | (new.count == 0)).astype(jnp.int32)
        for part in narrow:
            stage = jnp.where(part.count > 0, _NARROW, stage)
        now = now._replace(progress=now.progress._replace(num_steps=now.progress.num_steps + 1))
        move: Any = loops.switch(
            stage, [functools.partial(work, task, sizes=sizes) for work in stages], now
        )
        stacks = _after(now.stacks, move)
        is_full = move.progress.is_full | (~task.is_beam & (_most_nodes(stacks) > sizes.capacity))
        return MonomialSearchState(stacks, move.progress._replace(is_full=is_full))

    def unfinished(now: MonomialSearchState) -> Array:
        return (
            (_most_nodes(now.stacks) > 0)
            & ~now.progress.is_full
            & (now.progress.num_steps < task.max_steps)
        )

    return loops.while_loop(unfinished, step, first)


def _most_nodes(stacks: Sequence[Stack]) -> Array:
    return functools.reduce(jnp.maximum, (part.count for part in stacks))


def both_signs(
    both: MonomialInstance, enough: Array | None, sizes: Sizes, *, num_best: int
) -> SearchOutcome:
    """The best monomials of both signs together.

    Args:
      both: the instances of both signs, from `make`.
      enough: [] if the beam search finds a larger value, branch and bound is skipped; None to find
        the best of all.
      sizes: static.
      num_best: static, the number of monomials to return.
    """
    both = replicated(both)  # once, not in every step
    found = nothing(both.amounts.dtype, num_best=num_best, num_words=both.rows.words.shape[2])

    def is_enough_found(found: FoundMonomials) -> Array:
        if enough is None:
            return jnp.zeros((), bool)
        order = jnp.sum(lax.population_count(found.literals[0]), dtype=jnp.int32)
        return (found.values[0] > enough) & (cost(both.costs, order) < both.costs[-1])

    def search_both(found: FoundMonomials, is_beam: Array) -> tuple[FoundMonomials, Any]:
        is_enough = ~is_beam & is_enough_found(found)
        max_steps = jnp.where(is_beam, sizes.beam_depth, jnp.where(is_enough, 0, sizes.max_steps))

        def search(found: FoundMonomials, index: Array) -> tuple[FoundMonomials, Any]:
            task = Task(of_sign(both, index), 1 - 2 * index, is_beam, max_steps)
            end = explore(task, expand.root(task.instance), found, sizes, jnp.zeros((), jnp.int32))
            return end.progress.found, (
                open_bound(end),
                end.progress.num_nodes,
                end.progress.is_full,
            )

        found, ends = loops.scan(search, found, jnp.arange(2, dtype=jnp.int32))
        return found, (*ends, is_enough)

    found, ends = loops.scan(search_both, found, jnp.array([True, False]))
    bounds, num_nodes, is_full, is_enough = jax.tree.map(lambda leaf: leaf[1], ends)
    best = found.values[0]
    bound = jnp.maximum(best, jnp.max(bounds))
    is_open = bound > best
    is_cut_off = is_open & ~jnp.any(is_full)
    return SearchOutcome(
        found,
        bound,
        jnp.sum(num_nodes),
        is_open & jnp.any(is_full),
        is_cut_off & ~is_enough,
        is_cut_off & is_enough,
    )
