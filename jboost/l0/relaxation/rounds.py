"""The rounds of the relaxation: solve over a working set of cuts, search all pairs for violated
cuts, prove both bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import loops, reduce
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.l0.relaxation import all_pairs, certify, first_order, interior
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.relaxation.cuts import LeastSlacks
from jboost.l0.relaxation.instance import (
    known_cuts,
    make_instance,
    numbers_of,
    ordered,
    unordered,
    unordered_start,
    with_distances,
)
from jboost.l0.relaxation.interior import WorkingSetSolution
from jboost.l0.relaxation.pair_blocks import PairLayout
from jboost.l0.relaxation.warm_start import capacity_of, holds_all_pairs
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
from jboost.lp.interior_point import InteriorPointConfig

_FIRST_ERROR = 0.1  # relative tolerance of the first solve
# The smallest tolerance of a solve, as a share of the tolerance of the relaxation.
_SHARE_OF_TOLERANCE = 0.3
# The smallest tolerance of a solve, by the bytes of a float: rounding allows no less.
_FINEST = {4: 2e-5, 8: 1e-10}
_MAX_LOST = 3  # rounds in a row that hardly reduce the gap, after which the solver stops


class _BestBounds(NamedTuple):
    """The best bounds so far and the solutions that prove them."""

    primal: Primal
    upper: Array  # []
    dual: Dual
    cuts: CutIndices
    convexity: Array  # []
    lower: Array  # []


class _CutRoundsState(NamedTuple):
    """The state between two rounds."""

    cuts: CutIndices
    iterate: Any  # of the method
    has_begun: Array  # [] bool, False before the first round, which solves nothing
    best: _BestBounds
    gap: Array  # [] relative
    tolerance: Array  # [] of the next solve
    num_lost: Array  # [] int32 rounds in a row that hardly reduced the gap
    is_full: Array  # [] bool, whether a violated cut found no free slot
    is_new: Array  # [U] bool, columns that the warm start did not have or use
    num_iterations: Array  # [] int32
    num_rounds: Array  # [] int32


def solve_instance(
    config: RelaxationConfig,
    data: Any,
    margin: Array,
    tolerance: Array,
    either: Array,
    warm: WarmStart | None,
    most_rounds: Array | None = None,
    layout: PairLayout | None = None,
) -> L0Relaxation:
    """`solve_relaxation` for validated arrays, where the kind of cuts may be traced.

    Args:
      config: static.
      data: outputs, labels, costs, weights, mask, column_mask and features; all but the masks are
        of the default float type.
      margin: [] rho.
      tolerance: [].
      either: [] bool, whether the cuts are "either"; replaces `config.cuts`.
      warm: None, or a warm start of this capacity.
      most_rounds: [] int32, a further limit on the number of rounds besides `config.max_rounds`.
      layout: static, of `AllPairsConfig`; None for one that fits any sizes of the classes.
    """
    most_rounds = jnp.asarray(config.max_rounds, jnp.int32) if most_rounds is None else most_rounds
    instance, is_valid = _make_instance(data, margin, either, config)
    if holds_all_pairs(config, instance.margins.shape):
        layout = (
            all_pairs.any_layout(config, instance.weights.shape[0]) if layout is None else layout
        )
        capacity = capacity_of(config, instance.margins.shape)
        return all_pairs.solve_relaxation(
            instance, config, layout, is_valid, tolerance, warm, most_rounds, capacity
        )
    pairs, method = _strategies(config, instance.margins.shape)
    state = _begin(instance, warm, pairs, method, config)
    is_hopeless = ~is_valid | ~jnp.any(instance.is_column)
    state = state._replace(gap=jnp.where(is_hopeless, 0.0, state.gap))

    def unfinished(state: _CutRoundsState) -> Array:
        return (
            (state.gap > tolerance)
            & (state.num_lost < _MAX_LOST)
            & (state.num_rounds < most_rounds)
        )

    def step(state: _CutRoundsState) -> _CutRoundsState:
        return _round(instance, state, pairs, method, tolerance, config)

    last, _ = loops.bounded_loop(step, unfinished, state, max_checks=1 + config.max_rounds)
    return _finish(instance, last, pairs, method, is_valid, tolerance)


def _make_instance(
    data: Any, margin: Array, either: Array, config: RelaxationConfig
) -> tuple[RelaxationInstance, Array]:
    """The instance with its distances, and whether all values and features are valid, [] bool."""
    outputs, labels, costs, weights, mask, column_mask, features = data
    instance, is_valid = make_instance(
        outputs, labels, costs, weights, mask, column_mask, margin, either
    )
    instance = with_distances(instance, features, config.distance_factor)
    are_bits = jnp.all((features == 0) | (features == 1) | jnp.isnan(features) | ~mask[:, None])
    return instance, is_valid & are_bits


def _strategies(config: RelaxationConfig, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The strategy of the working set and the method that solves over it."""
    solver = (
        config.solver.first_order if isinstance(config.solver, AllPairsConfig) else config.solver
    )
    method = (
        interior.InteriorPointMethod(solver)
        if isinstance(solver, InteriorPointConfig)
        else first_order.FirstOrderMethod(solver)
    )
    return pair_cuts.WorkingSet(capacity_of(config, shape)), method


def _scale(instance: RelaxationInstance, upper: Array) -> Array:
    """The scale of relative gaps, []."""
    return jnp.maximum(jnp.where(jnp.isfinite(upper), upper, 0.0), instance.unit)


def _begin(
    instance: RelaxationInstance,
    warm: WarmStart | None,
    pairs: Any,
    method: Any,
    config: RelaxationConfig,
) -> _CutRoundsState:
    """The state before the first round: a warm start or the uniform vote, without bounds."""
    num_examples, num_columns = instance.margins.shape
    dtype = instance.costs.dtype
    capacity = capacity_of(config, (num_examples, num_columns))
    first, cuts, known = _start(instance, warm, pairs, capacity)
    iterate = method.begin(instance, pairs.hold(instance, cuts), first, known)
    none, zero = jnp.zeros((), jnp.int32), jnp.zeros((), dtype)
    nothing = Dual(jnp.zeros((num_examples,), dtype), jnp.zeros((capacity,), dtype))
    best = _BestBounds(first, zero + jnp.inf, nothing, cuts, zero, zero - jnp.inf)
    is_new = (
        instance.is_column if warm is None else instance.is_column & (warm.primal.selected <= 0)
    )
    return _CutRoundsState(
        cuts,
        iterate,
        jnp.zeros((), bool),
        best,
        zero + jnp.inf,
        zero + _FIRST_ERROR,
        none,
        jnp.zeros((), bool),
        is_new,
        none,
        none,
    )


def _start(
    instance: RelaxationInstance, warm: WarmStart | None, pairs: Any, capacity: int
) -> tuple[Primal, CutIndices, WarmStart | None]:
    """The point and the working set to start from, and the warm start with its examples in the
    order of the instance and its pair weights in the order of the working set.
    """
    num_examples, dtype = instance.weights.shape[0], instance.costs.dtype
    count = jnp.sum(instance.is_column, dtype=dtype)
    even = jnp.where(instance.is_column, 1 / jnp.maximum(count, 1), 0.0)
    cuts, known, known_weights = (
        pair_cuts.empty(capacity, num_examples),
        None,
        jnp.zeros((capacity,), dtype),
    )
    first = Primal(even, 2 * even, jnp.zeros((num_examples,), dtype))
    if warm is not None:
        known = ordered(instance, warm)
        cuts = known_cuts(instance, warm.pairs)
        known_weights = jnp.where(pair_cuts.is_used(instance, cuts), known.dual.pair_weights, 0.0)
        first = known.primal
    cuts, known_weights = pairs.begin(instance, cuts, known_weights)
    known = (
        None
        if known is None
        else known._replace(dual=known.dual._replace(pair_weights=known_weights))
    )
    return first, cuts, known


def _round(
    instance: RelaxationInstance,
    state: _CutRoundsState,
    pairs: Any,
    method: Any,
    tolerance: Array,
    config: RelaxationConfig,
) -> _CutRoundsState:
    """One round: a solve, the proof of its bounds, a search, and the update of the working set. The
    first round does the same for the starting point, without a solve.
    """
    solved, point, required, best = _solve_and_prove(instance, state, pairs, method, config)
    gap = (best.upper - best.lower) / _scale(instance, best.upper)
    least_gap = 4 * jnp.finfo(gap.dtype).eps
    threshold = jnp.where(
        state.has_begun, jnp.maximum(0.01 * jnp.minimum(gap, 1.0), least_gap), 0.0
    )
    candidates = (
        required
        if config.selection == "violated"
        else _of_new_columns(instance, state, point, required, threshold, config)
    )
    fresh = pairs.refresh(
        instance, state.cuts, solved.importance, candidates, point.selected, point.slacks, threshold
    )
    next_tolerance, is_lost = _next_tolerance(state, gap, method.share_of_gap, tolerance)
    return _CutRoundsState(
        cuts=fresh.cuts,
        iterate=method.refresh(
            instance, fresh.former_slot, _shared(point, required), solved.iterate
        ),
        has_begun=jnp.ones((), bool),
        best=best,
        gap=jnp.where(state.has_begun, gap, jnp.inf),
        tolerance=jnp.where(state.has_begun, next_tolerance, state.tolerance),
        num_lost=jnp.where(is_lost, state.num_lost + 1, 0).astype(jnp.int32),
        is_full=fresh.num_left_out > 0,
        is_new=state.is_new,
        num_iterations=state.num_iterations + solved.num_iterations,
        num_rounds=state.num_rounds + jnp.where(state.has_begun, 1, 0),
    )


def _solve_and_prove(
    instance: RelaxationInstance,
    state: _CutRoundsState,
    pairs: Any,
    method: Any,
    config: RelaxationConfig,
) -> tuple[WorkingSetSolution, Primal, LeastSlacks, _BestBounds]:
    """The solution over the working set, its primal point on the grid, the slacks that the cuts of
    all pairs require there, and the best bounds so far.
    """
    scale, held = _scale(instance, state.best.upper), pairs.hold(instance, state.cuts)

    def solve(tolerance: Array) -> WorkingSetSolution:
        return method.solve(instance, held, state.iterate, scale=scale, tolerance=tolerance)

    def keep(_: Array) -> WorkingSetSolution:
        primal, dual = method.sides(instance, state.iterate)
        importance = jnp.ones(held.is_used.shape, scale.dtype)
        return WorkingSetSolution(state.iterate, primal, dual, importance, jnp.zeros((), jnp.int32))

    solved = loops.one_of(state.has_begun, state.tolerance, jnp.inf, solve, keep)
    dual = certify.allowed(instance, held, solved.dual)
    lower, convexity = certify.prove_lower(instance, held, dual)
    point, least = certify.on_grid(instance, solved.primal)
    required = pair_cuts.search(instance, point.selected, point.slacks, config.max_pair_entries)
    primal = certify.raised(instance, point, least, required)
    upper = certify.price(instance, primal)
    best = _better(state.best, _BestBounds(primal, upper, dual, state.cuts, convexity, lower))
    return solved, point, required, best


def _next_tolerance(
    state: _CutRoundsState, gap: Array, share_of_gap: float, tolerance: Array
) -> tuple[Array, Array]:
    """The tolerance of the next solve, and whether the round hardly reduced the gap although its
    own tolerance was not too coarse. `tolerance` is that of the relaxation.
    """
    finest = jnp.asarray(_FINEST[gap.dtype.itemsize], gap.dtype)
    aim = jnp.maximum(share_of_gap * gap, _SHARE_OF_TOLERANCE * tolerance)
    was_coarse = state.tolerance > jnp.maximum(aim, finest)
    is_lost = (gap > 0.9 * state.gap) & ~was_coarse
    following = jnp.where(is_lost, 0.1, 1.0) * jnp.minimum(aim, state.tolerance)
    return jnp.maximum(following, finest), is_lost


def _of_new_columns(
    instance: RelaxationInstance,
    state: _CutRoundsState,
    point: Primal,
    required: LeastSlacks,
    threshold: Array,
    config: RelaxationConfig,
) -> LeastSlacks:
    """The search result for the pairs that a new column separates, as in (24), while one of their
    cuts is violated; `required` otherwise.
    """
    of_new = pair_cuts.search(
        instance, point.selected, point.slacks, config.max_pair_entries, only=state.is_new
    )
    is_violated = jnp.any(of_new.least - point.slacks > threshold)
    return jax.tree.map(lambda one, other: jnp.where(is_violated, one, other), of_new, required)


def _shared(primal: Primal, required: LeastSlacks) -> Primal:
    """The point with slacks raised so that all cuts hold. Both examples of a cut are raised by at
    least half of its violation, and each by half of its largest violation.
    """
    missing = jnp.maximum(required.least - primal.slacks, 0.0)
    return primal._replace(slacks=primal.slacks + 0.5 * missing)


def _better(old: _BestBounds, new: _BestBounds) -> _BestBounds:
    """The better primal solution and, independently, the better dual solution."""
    attains, proves = new.upper <= old.upper, new.lower > old.lower  # infinite before the first
    primal, upper = jax.tree.map(
        lambda fresh, kept: jnp.where(attains, fresh, kept),
        (new.primal, new.upper),
        (old.primal, old.upper),
    )
    fresh_side, old_side = new[2:], old[2:]
    return _BestBounds(
        primal,
        upper,
        *jax.tree.map(lambda fresh, kept: jnp.where(proves, fresh, kept), fresh_side, old_side),
    )


def _finish(
    instance: RelaxationInstance,
    state: _CutRoundsState,
    pairs: Any,
    method: Any,
    is_valid: Array,
    tolerance: Array,
) -> L0Relaxation:
    best, is_used = state.best, pairs.hold(instance, state.cuts).is_used
    primal, dual = method.sides(instance, state.iterate)
    last = WarmStart(
        primal,
        dual,
        numbers_of(instance, pairs.listed(instance, state.cuts)),
        method.convexity(instance, state.iterate),
        method.primal_weight(state.iterate),
    )
    has_column = jnp.any(instance.is_column)
    is_possible = is_valid & has_column
    status = jnp.where(has_column, _status(state, tolerance), int(Status.PRIMAL_INFEASIBLE))
    return L0Relaxation(
        coefficients=best.primal.coefficients,
        selected=best.primal.selected,
        slacks=unordered(instance, best.primal.slacks),
        lower_bound=jnp.where(is_possible, best.lower, jnp.where(is_valid, jnp.inf, -jnp.inf)),
        upper_bound=jnp.where(is_possible, best.upper, jnp.inf),
        example_weights=unordered(instance, best.dual.example_weights),
        pairs=numbers_of(instance, pairs.listed(instance, best.cuts)),
        pair_weights=best.dual.pair_weights,
        convexity=best.convexity,
        num_cuts=reduce.count(is_used),
        num_iterations=state.num_iterations,
        num_rounds=state.num_rounds,
        warm=unordered_start(instance, last),
        status=jnp.where(is_valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


def _status(state: _CutRoundsState, tolerance: Array) -> Array:
    """OPTIMAL, or why the rounds ended while the gap was open, []."""
    missed = jnp.where(
        state.num_lost >= _MAX_LOST, int(Status.NUMERICAL_ERROR), int(Status.ROUND_LIMIT)
    )
    missed = jnp.where(state.is_full, int(Status.CAPACITY_LIMIT), missed)
    return jnp.where(state.gap <= tolerance, int(Status.OPTIMAL), missed)
