"""The relaxation with the cuts of all pairs at once, without stored rows: the layout of its
vectors, the solve, and lists of pairs.

The method is `jboost.l0.relaxation.halpern`. Its vectors have one number for each cut
(`jboost.l0.relaxation.pair_blocks`).
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import check, loops
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.relaxation import halpern, pair_blocks
from jboost.l0.relaxation.halpern.program import HalpernProgram
from jboost.l0.relaxation.instance import (
    known_cuts,
    numbers_of,
    ordered,
    unordered,
    unordered_start,
)
from jboost.l0.relaxation.pair_blocks import PairLayout
from jboost.l0.types import (
    AllPairsConfig,
    CutIndices,
    Dual,
    L0Relaxation,
    Primal,
    RelaxationConfig,
    RelaxationInstance,
    WarmStart,
)

_MOST = 2**31 - 1  # indices of pairs are int32
# With `lists_pairs=None`, up to this many pairs are listed; their indices take 32 MB.
_MOST_LISTED = 2**22


def num_entries(num_examples: int) -> int:
    """The number of entries for the pairs of both orders if the classes are unknown; static. Raises
    ValueError if it exceeds int32.
    """
    count = 2 * pair_cuts.max_minority_size(num_examples) * num_examples
    if count > _MOST:
        raise ValueError(
            f"{num_examples} examples have {count} entries for pairs, {4 * count} bytes for each"
            f" vector of float32: config.solver = AllPairsConfig() allows at most {_MOST}; use"
            " another solver, which holds only config.capacity cuts at a time"
        )
    return count


def with_listing(config: RelaxationConfig, num_examples: int) -> RelaxationConfig:
    """The config with `lists_pairs` set to True or False."""
    solver = _solver(config)
    lists = (
        num_entries(num_examples) <= _MOST_LISTED
        if solver.lists_pairs is None
        else solver.lists_pairs
    )
    return dataclasses.replace(config, solver=dataclasses.replace(solver, lists_pairs=lists))


def list_pairs(
    solution: L0Relaxation, labels: ArrayLike, *, mask: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs [k, 2] of a solution with positive weights, and these weights [k]. It works on the
    host, whether the solution lists its pairs or not.

    Args:
      solution: from `solve_relaxation`.
      labels: [m], the argument of that call.
      mask: [m] bool, the argument of that call, but False also where the weight is 0; None for all
        True.

    >>> import jboost
    >>> data = [[1, 1], [1, -1], [-1, -1]], [1, 1, -1], [0.5, 0.5]
    >>> config = jboost.l0.RelaxationConfig(solver=jboost.l0.AllPairsConfig(lists_pairs=False))
    >>> solution = jboost.l0.solve_relaxation(*data, margin=0.1, config=config)
    >>> pairs, weights = jboost.l0.list_pairs(solution, data[1])
    >>> solution.pair_weights.ndim, pairs.shape[1], bool((weights > 0).all())
    (3, 2, True)
    """
    check.on_host(
        "jboost.l0.list_pairs",
        instead="read pairs and pair_weights",
        pair_weights=solution.pair_weights,
    )
    weights = np.asarray(solution.pair_weights)
    if weights.ndim == 1:
        pairs = np.asarray(solution.pairs)
        is_held = (pairs[:, 0] >= 0) & (weights > 0)
        return pairs[is_held], weights[is_held]
    signs, is_real = (
        np.asarray(labels),
        np.ones(np.shape(labels), bool) if mask is None else np.asarray(mask),
    )
    # `sorted` is stable: with classes of equal size, the positive class counts as the minority.
    classes = [np.flatnonzero(is_real & (signs * sign > 0)) for sign in (1, -1)]
    minority, majority = sorted(classes, key=len)
    order = np.concatenate([minority, majority])
    first_column = len(minority) if weights.shape[2] == max(len(majority), 1) else 0
    row, which, column = np.nonzero(weights)
    ends = np.stack([order[row], order[first_column + column]], axis=1)
    return np.where(which[:, None] == 0, ends, ends[:, ::-1]), weights[row, which, column]


def known_layout(
    config: RelaxationConfig, outputs: Array, labels: Array, mask: Array
) -> PairLayout:
    """The layout for the sizes of the classes, if labels and mask are known while tracing;
    otherwise a layout that fits any sizes.
    """
    solver = _solver(config)
    orders = "either" if config.cuts == "either" else "ordered"
    if orders == "ordered" and check.are_known(outputs) and check.are_known(mask):
        abstains = (np.asarray(outputs) == 0) & np.asarray(mask)[:, None]
        orders = "ordered" if abstains.any() else "single"
    if not (check.are_known(labels) and check.are_known(mask)):
        return any_layout(config, labels.shape[0], orders)
    signs, is_real = np.asarray(labels), np.asarray(mask)
    sizes = sorted(int(np.sum(is_real & (signs * sign > 0))) for sign in (-1, 1))
    return pair_blocks.make_layout(sizes[0], sizes[0], sizes[1], orders, solver.block_bytes)


def any_layout(config: RelaxationConfig, num_examples: int, orders: str = "traced") -> PairLayout:
    """The layout for classes that are unknown while tracing: the minority class has at most half of
    the examples.
    """
    return pair_blocks.make_layout(
        pair_cuts.max_minority_size(num_examples),
        0,
        num_examples,
        orders,
        _solver(config).block_bytes,
    )


def _solver(config: RelaxationConfig) -> AllPairsConfig:
    assert isinstance(config.solver, AllPairsConfig)
    return config.solver


def placed(
    instance: RelaxationInstance, layout: PairLayout, cuts: CutIndices, values: Array
) -> Array:
    """The values of listed cuts as a vector of pairs [P, O, Q]; values of empty slots must be 0."""
    row, column = jnp.minimum(*cuts), jnp.maximum(*cuts)
    is_backward = (
        (cuts.first > cuts.second) & ~instance.either
        if layout.shape[1] > 1
        else jnp.zeros(row.shape, bool)
    )
    missing = row >= instance.weights.shape[0]
    row = jnp.where(missing, layout.num_rows, row)
    order = is_backward.astype(jnp.int32)
    return (
        jnp.zeros(layout.shape, values.dtype)
        .at[row, order, column - layout.first_column]
        .add(values, mode="drop")
    )


def listed(instance: RelaxationInstance, layout: PairLayout) -> CutIndices:
    """The examples of each entry of a vector of pairs, in the order of the instance; m if the entry
    is no cut.
    """

    def body(block: pair_blocks.Block, *_: object) -> tuple[tuple[()], Array]:
        return (), block.is_cut

    _, is_cut = pair_blocks.sweep(pair_blocks.make_pairs(instance, layout), layout, body)
    is_cut = jnp.reshape(is_cut, layout.shape)
    row, order, column = (lax.broadcasted_iota(jnp.int32, layout.shape, axis) for axis in range(3))
    ends = (
        jnp.where(order == 0, row, column + layout.first_column),
        jnp.where(order == 0, column + layout.first_column, row),
    )
    return CutIndices(
        *(jnp.ravel(jnp.where(is_cut, end, instance.weights.shape[0])) for end in ends)
    )


class AllPairsSolution(NamedTuple):
    """The primal and dual solutions, unscaled; vectors of pairs are in their layout."""

    primal: Primal
    upper: Array  # []
    dual: Dual
    convexity: Array  # []
    lower: Array  # []
    last: WarmStart  # the last iterate; its pairs are not listed
    num_cuts: Array  # [] int32
    num_iterations: Array  # [] int32
    num_restarts: Array  # [] int32
    is_stalled: Array  # [] bool
    gap: Array  # []


def solve(
    instance: RelaxationInstance,
    config: RelaxationConfig,
    layout: PairLayout,
    tolerance: Array,
    warm: WarmStart,
    may_run: Array,
) -> AllPairsSolution:
    """Solves the relaxation to a relative gap.

    Args:
      instance: the relaxation.
      config: static.
      layout: static.
      tolerance: [].
      warm: the starting point, with examples in the order of the instance and the pair weights as a
        vector of pairs [P, O, Q].
      may_run: [] bool, False to compute only the bounds at the starting point.
    """
    solver = _solver(config).first_order
    program, state = halpern.init(instance, layout, warm.primal, *warm.dual, warm.primal_weight)
    aim = tolerance * (1 - 4 * jnp.finfo(tolerance.dtype).eps)

    def unfinished(state: halpern.HalpernState) -> Array:
        runs = may_run & (state.gap > aim) & ~halpern.is_stalled(state)
        return ~state.has_begun | runs

    def step(state: halpern.HalpernState) -> halpern.HalpernState:
        return halpern.step(program, state, layout, solver.at_once, config.max_pair_entries)

    last, _ = loops.bounded_loop(
        step, unfinished, state, max_checks=1 + solver.max_iterations // solver.at_once
    )
    best = last.best
    lower, convexity = halpern.prove(instance, program.pairs, layout, best.weights, best.pairs)
    gap = halpern.gap(instance, best._replace(lower=lower))
    return AllPairsSolution(
        best.primal,
        best.upper,
        Dual(best.weights, best.pairs),
        convexity,
        lower,
        _warm_start(program, last, convexity),
        halpern.num_cuts(program.pairs, layout),
        last.num_iterations,
        last.num_restarts,
        halpern.is_stalled(last),
        gap,
    )


def _warm_start(
    program: HalpernProgram, state: halpern.HalpernState, convexity: Array
) -> WarmStart:
    """The iterate of a state, unscaled, with its pair weights as a vector of pairs."""
    point, scaling = state.point, program.scaling
    return WarmStart(
        halpern.unscaled(point.primal, scaling),
        Dual(point.margins * scaling.margins, state.pairs),
        jnp.zeros((0, 2), jnp.int32),
        convexity,
        state.primal_weight,
    )


def keeps_vectors(config: RelaxationConfig) -> bool:
    """Whether solutions keep vectors of pairs instead of lists."""
    return isinstance(config.solver, AllPairsConfig) and config.solver.lists_pairs is False


def solve_relaxation(
    instance: RelaxationInstance,
    config: RelaxationConfig,
    layout: PairLayout,
    is_valid: Array,
    tolerance: Array,
    warm: WarmStart | None,
    most_rounds: Array,
    capacity: int,
) -> L0Relaxation:
    """The first-order method over all pairs."""
    has_column = jnp.any(instance.is_column)
    is_possible = is_valid & has_column
    start = _start(instance, layout, warm)
    solved = solve(instance, config, layout, tolerance, start, is_possible & (most_rounds > 0))
    missed = jnp.where(solved.is_stalled, int(Status.NUMERICAL_ERROR), int(Status.ITERATION_LIMIT))
    status = jnp.where(solved.gap <= tolerance, int(Status.OPTIMAL), missed)
    status = jnp.where(has_column, status, int(Status.PRIMAL_INFEASIBLE))
    pairs, dual, last = _listed_sides(instance, config, layout, solved, capacity)
    warm = unordered_start(instance, last)._replace(pairs=pairs)
    return L0Relaxation(
        coefficients=solved.primal.coefficients,
        selected=solved.primal.selected,
        slacks=unordered(instance, solved.primal.slacks),
        lower_bound=jnp.where(is_possible, solved.lower, jnp.where(is_valid, jnp.inf, -jnp.inf)),
        upper_bound=jnp.where(is_possible, solved.upper, jnp.inf),
        example_weights=unordered(instance, dual.example_weights),
        pairs=pairs,
        pair_weights=dual.pair_weights,
        convexity=solved.convexity,
        num_cuts=solved.num_cuts,
        num_iterations=solved.num_iterations,
        num_rounds=solved.num_restarts,
        warm=warm,
        status=jnp.where(is_valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


def _start(instance: RelaxationInstance, layout: PairLayout, warm: WarmStart | None) -> WarmStart:
    """The warm start with its pair weights as a vector of pairs, or the uniform vote."""
    dtype = instance.costs.dtype
    zero, none = jnp.zeros((), dtype), jnp.zeros((0, 2), jnp.int32)
    if warm is None:
        count = jnp.sum(instance.is_column, dtype=dtype)
        even = jnp.where(instance.is_column, 1 / jnp.maximum(count, 1), 0.0)
        nothing = jnp.zeros_like(instance.weights)
        return WarmStart(
            Primal(even, even, nothing),
            Dual(nothing, jnp.zeros(layout.shape, dtype)),
            none,
            zero,
            zero,
        )
    known = ordered(instance, warm)
    if warm.dual.pair_weights.ndim == 3:
        return known
    cuts = known_cuts(instance, warm.pairs)
    values = jnp.where(pair_cuts.is_used(instance, cuts), known.dual.pair_weights, 0.0)
    return known._replace(
        dual=known.dual._replace(pair_weights=placed(instance, layout, cuts, values)), pairs=none
    )


def _listed_sides(
    instance: RelaxationInstance,
    config: RelaxationConfig,
    layout: PairLayout,
    solved: AllPairsSolution,
    capacity: int,
) -> tuple[Array, Dual, WarmStart]:
    """The pairs [K, 2] with indices of the caller, the proving dual, and the last iterate, both
    with pair weights [K].
    """
    duals, pairs = [solved.dual, solved.last.dual], jnp.zeros((0, 2), jnp.int32)
    if not keeps_vectors(config):
        widths = (0, max(capacity - math.prod(layout.shape), 0))
        numbers = numbers_of(instance, listed(instance, layout))
        pairs = jnp.pad(numbers, (widths, (0, 0)), constant_values=-1)[:capacity]
        duals = [
            side._replace(pair_weights=jnp.pad(jnp.ravel(side.pair_weights), widths)[:capacity])
            for side in duals
        ]
    return pairs, duals[0], solved.last._replace(dual=duals[1])
