"""The sparse minimum disagreement problem (15) of paper 001 over a pool, to proven optimality: branch and bound on its relaxation.

A node says of some hypotheses whether they are used (mu_u) and of some examples whether they are given up (xi_i). Its relaxation is that of a smaller
pool: a hypothesis not used is masked out, one that is used costs nothing more, an example given up is masked out, one that is not costs more than
the best point. A second relaxation asks whether all examples that are not to be given up can be right together. The cuts are those that hold of
(15) where hypotheses abstain (`cuts="either"`).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import batching, brackets, check, loops, numerics
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.l0 import integer, relaxation
from jboost.l0.integer import Instance, Vote
from jboost.l0.types import L0Relaxation, RelaxationConfig
from jboost.search import stack
from jboost.search.stack import Stack

_OPEN, _NO, _YES = -1, 0, 1
_IS_WHOLE = 1e-3  # what is this close to 0 or 1 is not branched on before others
_ROUNDING = 8  # units of it, that a loss rounded up may be above a bound rounded down
_GAP = 1e-3  # relative, that the relaxation of a node may leave open
_SHARE_OF_MARGIN = 0.25  # the same where promises cannot be kept: a broken one costs about the margin


@dataclasses.dataclass(frozen=True)
class ExactConfig:
    """Static sizes of the branch and bound."""

    batch: int = 8
    """Nodes whose relaxations are solved together."""
    capacity: int = 4096
    """Nodes that the stack holds; when it is full the search ends, with a valid bound."""
    max_batches: int = 10_000
    """Batches, at most; then the search ends, with a valid bound."""
    relaxation: RelaxationConfig = dataclasses.field(default_factory=lambda: RelaxationConfig(cuts="either", max_rounds=8))
    """How a node is bounded; its `cuts` are "either"."""
    search: integer.SearchConfig = dataclasses.field(default_factory=lambda: integer.SearchConfig(max_moves=50))
    """The local search from the best node of each batch."""

    def __post_init__(self) -> None:
        for name in ("batch", "capacity", "max_batches"):
            check.count(f"config.{name}", getattr(self, name), low=1)
        check.record("config.relaxation", self.relaxation, RelaxationConfig)
        check.record("config.search", self.search, integer.SearchConfig)
        if self.relaxation.cuts != "either":
            raise ValueError('config.relaxation has cuts "ordered", which do not hold of all points of (15): cuts="either" is wanted')
        if self.relaxation.distance_factor is not None:
            raise ValueError("config.relaxation has a distance_factor: branch and bound wants the cuts of all pairs, None")


class Exact(NamedTuple):
    """The best point of (15) met, and a bound on all."""

    coefficients: Array  # [U] lambda, on the simplex in exact arithmetic
    loss: Array  # [] of them, rounded up
    lower_bound: Array  # [] no point of (15) loses less
    num_nodes: Array  # [] int32, relaxations solved
    status: Array  # [] int32: OPTIMAL, ITERATION_LIMIT, TIME_LIMIT, CAPACITY_LIMIT, PRECISION_LIMIT, INFEASIBLE, INVALID_INPUT


class _Node(NamedTuple):
    columns: Array  # [U] int8
    examples: Array  # [m] int8
    bound: Array  # []


class Data(NamedTuple):
    """(15) over a pool."""

    outputs: Array  # [m, U]
    labels: Array  # [m]
    costs: Array  # [U]
    weights: Array  # [m]
    mask: Array  # [m] bool
    column_mask: Array  # [U] bool
    margin: Array  # []


class State(NamedTuple):
    """Between two batches."""

    stack: Stack
    best: Vote
    goal: Array  # [] its loss, or the one known from elsewhere where that is less
    floor: Array  # [] the least bound among nodes that were dropped below the incumbent
    num_nodes: Array  # [] int32


class Info(NamedTuple):
    """One batch, as a progress bar would show it."""

    num_nodes: Array  # [] int32, so far
    num_open: Array  # [] int32
    lower_bound: Array  # [] no point of (15) loses less
    upper_bound: Array  # [] a loss that is attained, here or, by the cutoff, elsewhere


def solve_exact(
    outputs: ArrayLike,
    labels: ArrayLike,
    costs: ArrayLike,
    *,
    margin: ArrayLike,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    column_mask: ArrayLike | None = None,
    tolerance: ArrayLike = 1e-4,
    cutoff: ArrayLike | None = None,
    config: ExactConfig | None = None,
    on_step: OnStep | None = None,
) -> Exact:
    """The least weight of examples that miss the margin plus costs of hypotheses, over all votes of a pool: (15) by branch and bound.

    For pools and data of moderate size, as all literals of some hundred examples; it may be cut off at any batch. Jittable and vmappable.

    Args:
      outputs: [m, U] -1, 0 or +1.
      labels: [m] -1 or +1.
      costs: [U] not negative.
      margin: [] rho in (0, 1].
      weights: [m] positive, what an example that misses the margin costs; None for ones.
      mask: [m] bool, False for examples that do not count; None for all True.
      column_mask: [U] bool, False for slots that are not in use; None for all True.
      tolerance: [] the gap, relative to the loss where that is above 1, at which the loss counts as optimal; 0 for that of rounding.
      cutoff: [] a loss that is known to be attained by some point, here or elsewhere: only what loses less is looked for, `lower_bound` is at most
        this, and OPTIMAL means that the lesser of it and `loss` is the optimum. None for none.
      config: static sizes.
      on_step: called with (state, info) after each batch, on the host; False ends the search with status TIME_LIMIT. Not under jit or vmap.

    Returns:
      An `Exact`. ITERATION_LIMIT, CAPACITY_LIMIT and TIME_LIMIT come with a valid bound; PRECISION_LIMIT where nodes with nothing left to decide
      could not be closed in the float type at hand, with a valid bound; INFEASIBLE without columns.

    Raises:
      ValueError: naming the argument, for shapes, kinds, and values where they are known.

    >>> import jboost
    >>> outputs = [[1, -1, 1], [1, -1, 0], [1, -1, 0], [1, -1, 1]]
    >>> found = jboost.l0.solve_exact(outputs, [1, -1, -1, 1], [0.0, 0.0, 0.5], margin=0.1)
    >>> round(float(found.loss), 4), round(float(found.lower_bound), 4), jboost.status.Status(int(found.status)).name
    (0.5, 0.5, 'OPTIMAL')
    """
    settings = check.config("config", config, ExactConfig)
    data = relaxation.judge_program(outputs, labels, costs, weights=weights, mask=mask, column_mask=column_mask)
    margin = check.number("margin", margin, low=0, high=1, open_low=True).astype(float)
    tolerance = judge_tolerance("tolerance", tolerance)
    known = check.number("cutoff", jnp.inf if cutoff is None else cutoff, low=0, high=jnp.inf).astype(float)
    shape = data[0].shape
    pool = Data._make((*(relaxation.with_one_masked(data) if 0 in shape else data), margin))
    found = search_pool(pool, tolerance, known, config=settings, on_step=on_step)
    return found._replace(coefficients=found.coefficients[: shape[1]])


def judge_tolerance(name: str, tolerance: ArrayLike) -> Array:
    """A tolerance, no less than what rounding leaves. Raises ValueError below 0."""
    given = check.number(name, tolerance, low=0).astype(float)
    return jnp.maximum(given, _ROUNDING * jnp.finfo(given.dtype).eps)


def search_pool(data: Data, tolerance: Array, cutoff: Array, *, config: ExactConfig, on_step: OnStep | None = None) -> Exact:
    """`solve_exact` of arrays."""
    data, is_valid = _clean(data)
    if on_step is None:
        return _search(data, is_valid, tolerance, cutoff, config=config)
    check.can_be_watched(on_step, (data, tolerance, cutoff), between="batches")
    state, goes_on = _begin(data, is_valid, cutoff, config=config), True
    for _ in range(config.max_batches):
        if not goes_on or not bool(_unfinished(state, config)):
            break
        state, info = _advance(data, state, tolerance, config=config)
        goes_on = loops.goes_on(on_step, state, info)
    return _finish(data, is_valid, state, tolerance, jnp.asarray(not goes_on), config=config)


@functools.partial(jax.jit, static_argnames=("config",))
def _search(data: Data, is_valid: Array, tolerance: Array, cutoff: Array, *, config: ExactConfig) -> Exact:
    """All of it, as one compiled program."""
    first = numerics.start_loop_beside(_begin(data, is_valid, cutoff, config=config), data.outputs)

    def step(state: State) -> State:
        return _step(data, state, tolerance, config)

    last, _ = loops.bounded_loop(step, lambda state: _unfinished(state, config), first, max_checks=config.max_batches)
    return _finish(data, is_valid, last, tolerance, jnp.zeros((), bool), config=config)


@functools.partial(jax.jit, static_argnames=("config",))
def _begin(data: Data, is_valid: Array, cutoff: Array, *, config: ExactConfig) -> State:
    """The root, unless there is nothing to search."""
    instance = _instance(data)
    root = _Node(jnp.where(data.costs > 0, _OPEN, _YES).astype(jnp.int8), jnp.full(data.labels.shape, _OPEN, jnp.int8), jnp.zeros_like(data.margin))
    even, few = integer.evaluate(instance, jnp.ones_like(data.costs)), integer.better(integer.best_alone(instance), integer.best_pair(instance))
    start = integer.better(even, few)
    nodes = stack.start(root, capacity=config.capacity, slack=2 * config.batch)
    is_hopeless = ~is_valid | ~jnp.any(data.column_mask)
    nodes = nodes._replace(count=jnp.where(is_hopeless, 0, nodes.count))
    return State(nodes, start, jnp.minimum(start.loss, cutoff), jnp.full_like(start.loss, jnp.inf), jnp.zeros((), jnp.int32))


def _instance(data: Data) -> Instance:
    return Instance((data.outputs * data.labels[:, None]).T, data.weights, data.costs, data.column_mask, data.margin)


def _unfinished(state: State, config: ExactConfig) -> Array:
    return (state.stack.count > 0) & (state.stack.count <= config.capacity)


@functools.partial(jax.jit, static_argnames=("config",))
def _advance(data: Data, state: State, tolerance: Array, *, config: ExactConfig) -> tuple[State, Info]:
    """One batch, for the host."""
    after = _step(data, state, tolerance, config)
    return after, Info(after.num_nodes, after.stack.count, _lower_bound(after), after.goal)


def _lower_bound(state: State) -> Array:
    is_left = jnp.arange(state.stack.nodes.bound.shape[0]) < state.stack.count
    left = jnp.min(jnp.where(is_left, state.stack.nodes.bound, jnp.inf))
    return jnp.minimum(jnp.minimum(state.floor, left), state.goal)


@functools.partial(jax.jit, static_argnames=("config",))
def _finish(data: Data, is_valid: Array, last: State, tolerance: Array, is_stopped: Array, *, config: ExactConfig) -> Exact:
    """What a search has come to."""
    lower = _lower_bound(last)
    is_closed = integer.have_met(lower, last.goal, tolerance)
    ended = jnp.where(is_stopped, int(Status.TIME_LIMIT), int(Status.ITERATION_LIMIT))
    ended = jnp.where(last.stack.count > config.capacity, int(Status.CAPACITY_LIMIT), ended)
    ended = jnp.where(last.stack.count == 0, int(Status.PRECISION_LIMIT), ended)
    status = jnp.where(is_closed, int(Status.OPTIMAL), ended)
    has_columns = jnp.any(data.column_mask)
    status = jnp.where(has_columns, status, int(Status.INFEASIBLE))
    status = jnp.where(is_valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32)
    is_sound = is_valid & has_columns
    return Exact(
        jnp.where(is_sound, last.best.coefficients, jnp.nan),
        jnp.where(is_sound, last.best.loss, jnp.where(is_valid, jnp.inf, jnp.nan)),
        jnp.where(is_sound, lower, jnp.where(is_valid, jnp.inf, jnp.nan)),
        last.num_nodes,
        status,
    )


@jax.jit
def _clean(data: Data) -> tuple[Data, Array]:
    """The data with harmless numbers in the place of what is masked or not allowed, and whether all is allowed."""
    dtype = data.margin.dtype
    outputs = jnp.where(data.mask[:, None] & data.column_mask[None, :], data.outputs, 0).astype(dtype)
    labels = jnp.where(data.mask, data.labels, 1).astype(dtype)
    costs, weights = jnp.where(data.column_mask, data.costs, 0).astype(dtype), jnp.where(data.mask, data.weights, 1).astype(dtype)
    is_valid = jnp.all((outputs == -1) | (outputs == 0) | (outputs == 1)) & jnp.all(jnp.abs(labels) == 1)
    is_valid &= jnp.all((costs >= 0) & (costs < jnp.inf)) & jnp.all((weights > 0) & (weights < jnp.inf))
    is_valid &= (data.margin > 0) & (data.margin <= 1)
    weights = jnp.where(data.mask, weights, 0)
    outputs, labels, costs, weights = (jnp.where(is_valid, part, 0) for part in (outputs, labels, costs, weights))
    return Data(outputs, labels, costs, weights, data.mask, data.column_mask, jnp.where(is_valid, data.margin, 1)), is_valid


def _relax(data: Data, node: _Node, goal: Array, config: ExactConfig) -> tuple[_Node, L0Relaxation]:
    """The node with its bound, and two relaxations with a leading axis [2]: what it has yet to pay, and whether its promises can be kept.

    The second asks for the least sum of slacks of the examples that are not to be given up, at no other cost: where it is not 0 the node is empty.
    """
    is_promised, column_mask = node.examples == _NO, data.column_mask & (node.columns != _NO)
    costs = jnp.where(node.columns == _YES, 0.0, data.costs)
    promise = 2 * goal + 1
    weights = jnp.where(is_promised, promise, jnp.where(data.weights > 0, data.weights, 1.0))
    of_payments = jnp.minimum(_GAP, _GAP * promise / jnp.max(weights, initial=1.0))  # of the heaviest weight, which may be far above any loss
    tolerances = jnp.stack([of_payments, jnp.minimum(_GAP, _SHARE_OF_MARGIN * data.margin)])
    both_costs, both_weights = jnp.stack([costs, jnp.zeros_like(costs)]), jnp.stack([weights, jnp.ones_like(weights)])
    masks = jnp.stack([data.mask & (node.examples != _YES), data.mask & is_promised])
    solve = batching.in_chunks(functools.partial(_solve, config), at_once=1)  # members end at their own time, and some have nothing to do

    def solve_one(costs: Array, weights: Array, mask: Array, tolerance: Array) -> L0Relaxation:
        return solve((data.outputs, data.labels, costs, weights, mask, column_mask), data.margin, tolerance)

    solved = jax.vmap(solve_one)(both_costs, both_weights, masks, tolerances)
    paid = jnp.concatenate([jnp.where(node.columns == _YES, data.costs, 0.0), jnp.where(node.examples == _YES, data.weights, 0.0)])
    terms = jnp.concatenate([paid, jnp.maximum(solved.lower_bound[0], 0.0)[None]])
    lower = brackets.bracket_dot(terms, jnp.ones_like(terms))[0]
    is_empty = ~jnp.any(column_mask) | (solved.lower_bound[1] > 0)
    prices = jnp.where(data.column_mask, data.costs, 0.0)
    attainable = integer.round_up(jnp.where(is_empty, jnp.inf, lower), data.weights, prices)
    return node._replace(bound=jnp.maximum(node.bound, attainable)), solved


def _solve(config: ExactConfig, program: tuple[Array, ...], margin: Array, tolerance: Array) -> L0Relaxation:
    """The relaxation of (outputs, labels, costs, weights, mask, column_mask); all zeros where no example counts."""
    mask = program[4]

    def solve() -> L0Relaxation:
        data = (*program, jnp.zeros((mask.shape[0], 0), margin.dtype))
        return relaxation.solve_instance(config.relaxation, data, margin, tolerance.astype(margin.dtype), jnp.asarray(True), None)

    def nothing() -> L0Relaxation:
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(solve))

    return lax.cond(jnp.any(mask), solve, nothing)


def _step(data: Data, state: State, tolerance: Array, config: ExactConfig) -> State:
    """One batch: bounds, a better incumbent perhaps, and the children of what may hold a better one still."""
    instance = _instance(data)
    nodes, is_node, begin = stack.top(state.stack, config.batch)
    nodes, solved = jax.vmap(lambda node: _relax(data, node, state.goal, config))(nodes)
    votes = jax.vmap(jax.vmap(lambda start: integer.evaluate_near(instance, start)))(solved.coefficients)
    losses = jnp.where(is_node[:, None], votes.loss, jnp.inf)
    found = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[jnp.argmin(losses)], votes)
    searched = integer.search(instance, found, config=config.search)
    best = integer.better(state.best, searched)
    goal = jnp.minimum(state.goal, best.loss)
    goes_on = is_node & ~integer.have_met(nodes.bound, goal, tolerance) & (nodes.bound < goal)
    scores = jax.vmap(lambda node, one: _branching_scores(data, node, one))(nodes, solved)
    place = jnp.argmax(scores, axis=1)
    can_branch = jnp.max(scores, axis=1) >= 0
    is_dropped = is_node & (~goes_on | ~can_branch) & (nodes.bound < goal)
    floor = jnp.minimum(state.floor, jnp.min(jnp.where(is_dropped, nodes.bound, jnp.inf)))

    children = jax.tree.map(lambda no, yes: jnp.concatenate([no, yes]), *(_decided(nodes, place, answer) for answer in (_NO, _YES)))
    is_child = jnp.tile(goes_on & can_branch, 2)
    order = jnp.argsort(jnp.where(is_child, -children.bound, jnp.inf))
    after = stack.put(state.stack, jax.tree.map(lambda leaf: leaf[order], children), jnp.sum(is_child, dtype=jnp.int32), begin)
    return State(_lowest_on_top(after, config), best, goal, floor, state.num_nodes + jnp.sum(is_node, dtype=jnp.int32))


def _lowest_on_top(nodes: Stack, config: ExactConfig) -> Stack:
    """The nodes of the least bounds on top, so that the bound on all climbs; once the stack is half full the latest, which leave fewer open."""
    return lax.cond(nodes.count <= config.capacity // 2, lambda: stack.sorted_by(nodes, -nodes.nodes.bound), lambda: nodes)


def _branching_scores(data: Data, node: _Node, solved: L0Relaxation) -> Array:
    """How much each hypothesis and each example [U + m] is worth deciding on: fractional ones first, hypotheses before examples; -1 for no."""

    def fraction(values: Array) -> Array:
        return jnp.minimum(values, 1 - values)

    used, given_up = fraction(solved.selected[0]), fraction(solved.slacks[0])
    columns = jnp.where(used > _IS_WHOLE, 2 + used, 0.5 + 0.25 * solved.coefficients[0])
    examples = jnp.where(given_up > _IS_WHOLE, 1 + given_up, 0.0)
    columns = jnp.where((node.columns == _OPEN) & data.column_mask, columns, -1.0)
    return jnp.concatenate([columns, jnp.where((node.examples == _OPEN) & data.mask, examples, -1.0)])


def _decided(nodes: _Node, place: Array, answer: int) -> _Node:
    """The nodes [B] with the answer to one question each."""
    num_columns, num_examples = nodes.columns.shape[1], nodes.examples.shape[1]
    of_column = place[:, None] == jnp.arange(num_columns)[None, :]
    of_example = place[:, None] == num_columns + jnp.arange(num_examples)[None, :]
    values = jnp.asarray(answer, jnp.int8)
    return nodes._replace(columns=jnp.where(of_column, values, nodes.columns), examples=jnp.where(of_example, values, nodes.examples))
