"""The linear relaxation of L0-RBoost over a pool of hypotheses, with all pair cuts: (18) of
Goldberg and Eckstein (2009).

Each round solves over a working set of cuts, searches all pairs for violated cuts, and proves both
bounds (`jboost.l0.relaxation.certify`). Names in the code: lambda is `coefficients`, mu `selected`,
xi `slacks`, rho `margin`, w `example_weights`, v `pair_weights`, alpha `convexity`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import batching, check, derivatives, labelled, loops, meshes, reduce
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.l0.relaxation import all_pairs, certify, first_order, interior
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.relaxation.cuts import LeastSlacks
from jboost.l0.relaxation.instance import (
    known_cuts,
    make_instance,
    numbers_of,
    ordered,
    unordered,
    with_distances,
)
from jboost.l0.relaxation.interior import Solved
from jboost.l0.relaxation.pair_blocks import Layout
from jboost.l0.types import (
    AllPairsConfig,
    Cuts,
    Dual,
    Instance,
    L0Relaxation,
    Primal,
    RelaxationConfig,
    WarmStart,
)
from jboost.lp.interior_point import InteriorPointConfig

_FIRST_ERROR = 0.1  # relative tolerance of the first solve
# The smallest tolerance of a solve, as a share of the tolerance of the relaxation.
_SHARE_OF_TOLERANCE = 0.3
# The smallest tolerance of a solve, by the bytes of a float: rounding allows no less.
_FINEST = {4: 2e-5, 8: 1e-10}
_MAX_LOST = 3  # rounds in a row that hardly reduce the gap, after which the solver stops
# The default capacity is at least `_FEW_CUTS`. It is up to `_CUTS_PER_EXAMPLE` per example while
# the rows of the cuts have at most `_FEW_ENTRIES` entries, whose cost is negligible: with few
# columns more cuts than examples may be binding.
_FEW_CUTS, _CUTS_PER_EXAMPLE = 1024, 8
_FEW_ENTRIES = 1 << 17


@meshes.takes_gathered
@derivatives.without("jboost.l0.solve_relaxation")
def solve_relaxation(
    outputs: ArrayLike,
    labels: ArrayLike,
    costs: ArrayLike,
    *,
    margin: ArrayLike,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    column_mask: ArrayLike | None = None,
    tolerance: ArrayLike | None = None,
    features: ArrayLike | None = None,
    config: RelaxationConfig | None = None,
    initial: L0Relaxation | WarmStart | None = None,
) -> L0Relaxation:
    """Solves the relaxation (18) of Goldberg and Eckstein (2009), of the sparse minimum
    disagreement problem over a pool, with all pair cuts of both orders or with those of `config`.

    Minimises sum_i weight_i xi_i + sum_u c_u mu_u s.t. sum_u y_i H_iu lambda_u + (1 + rho)
    xi_i >= rho, sum lambda = 1, mu >= lambda >= 0, xi >= 0, xi_i + xi_i' + sum of mu over
    S_ii' >= 1 for all i, i' of opposite classes, S_ii' = {u : H_iu = y_i != H_i'u}. It may be
    jitted, and vmapped.

    Args:
      outputs: H [m, U], entries -1, 0, +1.
      labels: [m] -1 or +1.
      costs: c [U] >= 0.
      margin: [] rho in (0, 1].
      weights: [m] cost of a slack, not negative; 0 has the effect of `mask` False; None for ones.
      mask: [m] bool, False for examples that only pad; None for all True.
      column_mask: [U] bool, False for slots of the pool that hold no hypothesis; None for all True.
      tolerance: [] the gap between the bounds at which to stop, relative to the larger of the upper
        bound and the largest weight; None for 1e-6 in float64 and 3e-4 in float32. In float32 the
        solver usually reaches 1e-4, and 3e-5 from 1,024 examples on, where it ends in 64 bits.
      features: [m, N] of 0 and 1, NaN where unknown: the attributes that `config.distance_factor`
        compares.
      config: static; None for the interior point method with cuts added in rounds, at every size:
        `AllPairsConfig` was slower at every size measured.
      initial: a solution to start from. It has the same number of examples, at most as many columns
        and at most this capacity; its columns are the first of this pool. For the same columns the
        bounds are no worse than its own, up to rounding. So a float64 call can refine a float32
        solution.

    Returns:
      An `L0Relaxation` with lower_bound <= optimum over this pool <= upper_bound.
      `certify.lower_bound` proves the lower bound from example_weights and pair_weights.
      coefficients, selected and slacks attain the upper bound in exact arithmetic. Statuses:
      OPTIMAL; ROUND_LIMIT; CAPACITY_LIMIT if more cuts were needed than the capacity;
      ITERATION_LIMIT (`AllPairsConfig`); NUMERICAL_ERROR if rounding prevents a smaller gap;
      PRIMAL_INFEASIBLE without a column; INVALID_INPUT, with bounds -inf and inf. The bounds hold
      whatever the status is.

    Raises:
      ValueError: at trace time, naming the argument, for shapes that do not fit, and for invalid
        values where they are known.

    >>> import jboost
    >>> solution = jboost.l0.solve_relaxation(
    ...     [[1, 1], [1, -1], [-1, -1]], [1, 1, -1], [0.5, 0.5], margin=0.1
    ... )
    >>> (
    ...     round(float(solution.lower_bound), 3),
    ...     round(float(solution.upper_bound), 3),
    ...     jboost.status.Status(int(solution.status)).name,
    ... )
    (0.5, 0.5, 'OPTIMAL')
    """
    dtype = jnp.result_type(float)
    data = validate_program(
        outputs, labels, costs, weights=weights, mask=mask, column_mask=column_mask
    )
    margin = check.number("margin", margin, low=0, high=1, open_low=True).astype(dtype)
    if tolerance is None:
        tolerance = 1e-6 if dtype == jnp.dtype("float64") else 3e-4
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True).astype(dtype)
    config = check.config("config", config, RelaxationConfig)
    shape = data[0].shape
    bits = validate_features(features, data[4], config)
    if _holds_all_pairs(config, shape) and 0 not in shape:
        config = all_pairs.with_listing(config, shape[0])
        layout = all_pairs.known_layout(config, data[0], data[1], data[4])
        return _solve(
            (*data, bits),
            margin,
            tolerance,
            _warm(initial, shape, config, layout),
            config=config,
            layout=layout,
        )
    if 0 in shape:
        return _without(
            _solve(
                (*with_one_masked(data), jnp.pad(bits, ((0, 1), (0, 0)))),
                margin,
                tolerance,
                None,
                config=config,
            ),
            shape,
        )
    return _solve((*data, bits), margin, tolerance, _warm(initial, shape, config), config=config)


def validate_features(features: ArrayLike | None, mask: Array, config: RelaxationConfig) -> Array:
    """The features [m, N], 0 outside `mask` [m], if `config.distance_factor` is set, else an empty
    array [m, 0]. Raises ValueError for values other than 0, 1 and NaN.
    """
    num_examples = mask.shape[0]
    if config.distance_factor is None:
        return jnp.zeros((num_examples, 0))
    if features is None:
        raise ValueError(
            "features is None, but config.distance_factor counts the attributes in which examples"
            " differ: pass [m, N] of 0 and 1"
        )
    given = check.numeric("features", features, shape=(num_examples, "N"), kinds="fiub")
    given = jnp.where(mask[:, None], given, 0)
    if not isinstance(given, jax.core.Tracer):
        values = np.asarray(given, np.float64)
        for row, column in np.argwhere(~(np.isin(values, (0, 1)) | np.isnan(values)))[:1]:
            raise ValueError(
                f"features[{row}, {column}] is {values[row, column]:g}: distances are counted in 0"
                " and 1 (jboost.data.binarization)"
            )
    return jnp.asarray(given).astype(jnp.result_type(float))


def validate_program(
    outputs: ArrayLike,
    labels: ArrayLike,
    costs: ArrayLike,
    *,
    weights: ArrayLike | None,
    mask: ArrayLike | None,
    column_mask: ArrayLike | None,
) -> tuple[Array, ...]:
    """A pool as arrays (outputs, labels, costs, weights, mask, column_mask). Raises ValueError,
    naming the argument.
    """
    outputs = check.numeric("outputs", outputs, shape=("m", "U"), kinds="fiu")
    num_examples, num_columns = outputs.shape
    labels, weights, mask = labelled.validate_examples(labels, weights, mask, num_examples)
    costs = check.numeric("costs", costs, shape=(num_columns,), kinds="fiu")
    column_mask = (
        jnp.ones(num_columns, bool)
        if column_mask is None
        else check.numeric("column_mask", column_mask, shape=(num_columns,), kinds="b")
    )
    _validate_values(outputs, costs, mask, column_mask)
    return outputs, labels, costs, weights, mask, column_mask


def with_one_masked(data: tuple[Array, ...]) -> tuple[Array, ...]:
    """The data with one more example and one more column, both masked out."""
    outputs, *vectors = data
    return jnp.pad(outputs, ((0, 1), (0, 1))), *(jnp.pad(vector, (0, 1)) for vector in vectors)


def _without(solution: L0Relaxation, shape: tuple[int, ...]) -> L0Relaxation:
    """The solution without the last example and the last column."""

    def primal(side: Any) -> dict[str, Array]:
        return {
            "coefficients": side.coefficients[: shape[1]],
            "selected": side.selected[: shape[1]],
            "slacks": side.slacks[: shape[0]],
        }

    warm = solution.warm
    dual = warm.dual._replace(example_weights=warm.dual.example_weights[: shape[0]])
    warm = warm._replace(primal=Primal(**primal(warm.primal)), dual=dual)
    return solution._replace(
        example_weights=solution.example_weights[: shape[0]], warm=warm, **primal(solution)
    )


def _validate_values(*data: Array) -> None:
    """Raises ValueError naming the first argument with an invalid value. Traced values are not
    checked.
    """
    if any(isinstance(part, jax.core.Tracer) for part in data):
        return
    outputs, costs, mask, column_mask = (np.asarray(part) for part in data)
    checks = {
        "outputs": (
            outputs,
            np.isin(outputs, (-1, 0, 1)) | ~mask[:, None] | ~column_mask[None, :],
            "outputs are -1, 0 or +1",
        )
    }
    checks["costs"] = (
        costs,
        ((costs >= 0) & (costs < np.inf)) | ~column_mask,
        "costs are finite and not negative",
    )
    for name, (values, is_allowed, rule) in checks.items():
        for index in np.argwhere(~is_allowed)[:1].tolist():
            raise ValueError(f"{name}{index} is {values[tuple(index)]:g}: {rule}")


def capacity_of(config: RelaxationConfig, shape: tuple[int, ...]) -> int:
    """The number of cuts held at a time, static."""
    if _holds_all_pairs(config, shape):
        return all_pairs.num_entries(shape[0])
    everything = max(1, pair_cuts.num_pairs(shape[0]))
    if config.capacity is not None:
        return min(everything, config.capacity)
    num_examples, num_columns = shape
    cheap = min(_CUTS_PER_EXAMPLE * num_examples, _FEW_ENTRIES // max(num_columns, 1))
    return min(everything, max(num_examples + 2 * num_columns, _FEW_CUTS, cheap))


def _validate_layout(weights: Array, layout: Layout | None) -> None:
    """Raises ValueError unless unlisted pair weights have the shape of the layout."""
    expected = None if layout is None else list(layout.shape)
    if list(weights.shape) != expected:
        raise ValueError(
            f"initial has pair weights of shape {list(weights.shape)} whose pairs are not listed:"
            f" expected {expected or 'a list of pairs'}; compute it with"
            " AllPairsConfig(lists_pairs=True), then it can start any program of the same examples"
        )


def _warm(
    initial: Any, shape: tuple[int, ...], config: RelaxationConfig, layout: Layout | None = None
) -> WarmStart | None:
    """`initial` padded to this number of columns and cuts. Raises ValueError if it does not fit."""
    if initial is None:
        return None
    warm = _of_proof(initial) if isinstance(initial, L0Relaxation) else initial
    if not isinstance(warm, WarmStart):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected an L0Relaxation or its `warm`"
        )
    capacity, dtype = capacity_of(config, shape), jnp.result_type(float)
    weights, is_vector = warm.dual.pair_weights, warm.dual.pair_weights.ndim == 3
    if is_vector:
        _validate_layout(weights, layout)
    elif all_pairs.keeps_vectors(config):
        capacity = weights.shape[0]

    def extended(name: str, values: Array, size: int, fill: int = 0) -> Array:
        missing = size - values.shape[0]
        if missing < 0:
            raise ValueError(
                f"initial has {values.shape[0]} {name}: expected at most {size}, the number in this"
                " program"
            )
        widths = [(0, missing)] + [(0, 0)] * (values.ndim - 1)
        return jnp.pad(values, widths, constant_values=fill)

    if warm.primal.slacks.shape[0] != shape[0]:
        raise ValueError(f"initial has {warm.primal.slacks.shape[0]} examples: expected {shape[0]}")
    coefficients, selected = (
        extended("columns", part, shape[1]).astype(dtype) for part in warm.primal[:2]
    )
    return WarmStart(
        Primal(coefficients, selected, warm.primal.slacks.astype(dtype)),
        Dual(
            warm.dual.example_weights.astype(dtype),
            (weights if is_vector else extended("cuts", weights, capacity)).astype(dtype),
        ),
        warm.pairs if is_vector else extended("cuts", warm.pairs, capacity, -1),
        warm.convexity.astype(dtype),
        warm.primal_weight.astype(dtype),
    )


def _of_proof(solution: L0Relaxation) -> WarmStart:
    """A warm start from the primal and dual solutions that prove the bounds, not from the last
    iterate. So the first round proves the same bounds without a solve.
    """
    return WarmStart(
        Primal(solution.coefficients, solution.selected, solution.slacks),
        Dual(solution.example_weights, solution.pair_weights),
        solution.pairs,
        solution.convexity,
        solution.warm.primal_weight,
    )


def cold(num_examples: int, num_columns: int, config: RelaxationConfig) -> WarmStart:
    """A warm start of the right shapes without any information."""
    dtype = jnp.result_type(float)
    capacity = capacity_of(config, (num_examples, num_columns))
    examples, columns, cuts = (
        jnp.zeros((size,), dtype) for size in (num_examples, num_columns, capacity)
    )
    pairs = jnp.full((capacity, 2), -1, jnp.int32)
    return WarmStart(
        Primal(columns, columns, examples),
        Dual(examples, cuts),
        pairs,
        jnp.full((), jnp.inf, dtype),
        jnp.zeros((), dtype),
    )


class _Best(NamedTuple):
    """The best bounds so far and the solutions that prove them."""

    primal: Primal
    upper: Array  # []
    dual: Dual
    cuts: Cuts
    convexity: Array  # []
    lower: Array  # []


class _State(NamedTuple):
    """The state between two rounds."""

    cuts: Cuts
    iterate: Any  # of the method
    has_begun: Array  # [] bool, False before the first round, which solves nothing
    best: _Best
    gap: Array  # [] relative
    tolerance: Array  # [] of the next solve
    num_lost: Array  # [] int32 rounds in a row that hardly reduced the gap
    is_full: Array  # [] bool, whether a violated cut found no free slot
    is_new: Array  # [U] bool, columns that the warm start did not have or use
    num_iterations: Array  # [] int32
    num_rounds: Array  # [] int32


@functools.partial(jax.jit, static_argnames=("config", "layout"))
def _solve(
    data: tuple[Array, ...],
    margin: Array,
    tolerance: Array,
    warm: WarmStart | None,
    *,
    config: RelaxationConfig,
    layout: Layout | None = None,
) -> L0Relaxation:
    either = jnp.asarray(config.cuts == "either")
    return batching.in_chunks(functools.partial(solve_instance, config, layout=layout))(
        data, margin, tolerance, either, warm
    )


def solve_instance(
    config: RelaxationConfig,
    data: Any,
    margin: Array,
    tolerance: Array,
    either: Array,
    warm: WarmStart | None,
    most_rounds: Array | None = None,
    layout: Layout | None = None,
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
    outputs, labels, costs, weights, mask, column_mask, features = data
    instance, is_valid = make_instance(
        outputs, labels, costs, weights, mask, column_mask, margin, either
    )
    instance = with_distances(instance, features, config.distance_factor)
    is_valid &= jnp.all((features == 0) | (features == 1) | jnp.isnan(features) | ~mask[:, None])
    if _holds_all_pairs(config, instance.margins.shape):
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

    def unfinished(state: _State) -> Array:
        return (
            (state.gap > tolerance)
            & (state.num_lost < _MAX_LOST)
            & (state.num_rounds < most_rounds)
        )

    def step(state: _State) -> _State:
        return _round(instance, state, pairs, method, tolerance, config)

    last, _ = loops.bounded_loop(step, unfinished, state, max_checks=1 + config.max_rounds)
    return _finish(instance, last, pairs, method, is_valid, tolerance)


def _holds_all_pairs(config: RelaxationConfig, shape: tuple[int, ...]) -> bool:
    """Whether the solver holds all pairs and there are any."""
    return isinstance(config.solver, AllPairsConfig) and pair_cuts.num_pairs(shape[0]) > 0


def _strategies(config: RelaxationConfig, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The strategy of the working set and the method that solves over it."""
    solver = (
        config.solver.first_order if isinstance(config.solver, AllPairsConfig) else config.solver
    )
    method = (
        interior.Method(solver)
        if isinstance(solver, InteriorPointConfig)
        else first_order.Method(solver)
    )
    return pair_cuts.WorkingSet(capacity_of(config, shape)), method


def _scale(instance: Instance, upper: Array) -> Array:
    """The scale of relative gaps, []."""
    return jnp.maximum(jnp.where(jnp.isfinite(upper), upper, 0.0), instance.unit)


def _begin(
    instance: Instance, warm: WarmStart | None, pairs: Any, method: Any, config: RelaxationConfig
) -> _State:
    """The state before the first round: a warm start or the uniform vote, without bounds."""
    num_examples, num_columns = instance.margins.shape
    dtype = instance.costs.dtype
    capacity = capacity_of(config, (num_examples, num_columns))
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
        cuts = known_cuts(instance, warm)
        known_weights = jnp.where(pair_cuts.is_used(instance, cuts), known.dual.pair_weights, 0.0)
        first = known.primal
    cuts, known_weights = pairs.begin(instance, cuts, known_weights)
    known = (
        None
        if known is None
        else known._replace(dual=known.dual._replace(pair_weights=known_weights))
    )
    iterate = method.begin(instance, pairs.hold(instance, cuts), first, known)
    none, zero = jnp.zeros((), jnp.int32), jnp.zeros((), dtype)
    nothing = Dual(jnp.zeros((num_examples,), dtype), jnp.zeros((capacity,), dtype))
    best = _Best(first, zero + jnp.inf, nothing, cuts, zero, zero - jnp.inf)
    is_new = (
        instance.is_column if warm is None else instance.is_column & (warm.primal.selected <= 0)
    )
    return _State(
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


def _round(
    instance: Instance,
    state: _State,
    pairs: Any,
    method: Any,
    tolerance: Array,
    config: RelaxationConfig,
) -> _State:
    """One round: a solve, the proof of its bounds, a search, and the update of the working set. The
    first round does the same for the starting point, without a solve.
    """
    scale, held = _scale(instance, state.best.upper), pairs.hold(instance, state.cuts)

    def solve(tolerance: Array) -> Solved:
        return method.solve(instance, held, state.iterate, scale=scale, tolerance=tolerance)

    def keep(_: Array) -> Solved:
        primal, dual = method.sides(instance, state.iterate)
        importance = jnp.ones(held.is_used.shape, scale.dtype)
        return Solved(state.iterate, primal, dual, importance, jnp.zeros((), jnp.int32))

    solved = loops.one_of(state.has_begun, state.tolerance, jnp.inf, solve, keep)
    dual = certify.allowed(instance, held, solved.dual)
    lower, convexity = certify.prove_lower(instance, held, dual)
    point, least = certify.on_grid(instance, solved.primal)
    required = pair_cuts.search(instance, point.selected, point.slacks, config.max_pair_entries)
    primal = certify.raised(instance, point, least, required)
    upper = certify.price(instance, primal)
    best = _better(state.best, _Best(primal, upper, dual, state.cuts, convexity, lower))

    scale = _scale(instance, best.upper)
    gap = (best.upper - best.lower) / scale
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
    finest = jnp.asarray(_FINEST[gap.dtype.itemsize], gap.dtype)
    aim = jnp.maximum(method.share_of_gap * gap, _SHARE_OF_TOLERANCE * tolerance)
    was_coarse = state.tolerance > jnp.maximum(aim, finest)
    is_lost = (gap > 0.9 * state.gap) & ~was_coarse
    next_tolerance = jnp.where(is_lost, 0.1, 1.0) * jnp.minimum(aim, state.tolerance)
    return _State(
        cuts=fresh.cuts,
        iterate=method.refresh(
            instance, fresh.former_slot, certify.shared(point, required), solved.iterate
        ),
        has_begun=jnp.ones((), bool),
        best=best,
        gap=jnp.where(state.has_begun, gap, jnp.inf),
        tolerance=jnp.where(state.has_begun, jnp.maximum(next_tolerance, finest), state.tolerance),
        num_lost=jnp.where(is_lost, state.num_lost + 1, 0).astype(jnp.int32),
        is_full=fresh.num_left_out > 0,
        is_new=state.is_new,
        num_iterations=state.num_iterations + solved.num_iterations,
        num_rounds=state.num_rounds + jnp.where(state.has_begun, 1, 0),
    )


def _of_new_columns(
    instance: Instance,
    state: _State,
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


def _better(old: _Best, new: _Best) -> _Best:
    """The better primal solution and, independently, the better dual solution."""
    attains, proves = new.upper <= old.upper, new.lower > old.lower  # infinite before the first
    primal, upper = jax.tree.map(
        lambda fresh, kept: jnp.where(attains, fresh, kept),
        (new.primal, new.upper),
        (old.primal, old.upper),
    )
    fresh_side, old_side = new[2:], old[2:]
    return _Best(
        primal,
        upper,
        *jax.tree.map(lambda fresh, kept: jnp.where(proves, fresh, kept), fresh_side, old_side),
    )


def _finish(
    instance: Instance, state: _State, pairs: Any, method: Any, is_valid: Array, tolerance: Array
) -> L0Relaxation:
    best, is_used = state.best, pairs.hold(instance, state.cuts).is_used
    primal, dual = method.sides(instance, state.iterate)
    warm = WarmStart(
        primal._replace(
            selected=jnp.where(instance.is_column, primal.selected, 0.0),
            slacks=unordered(instance, primal.slacks),
        ),
        dual._replace(example_weights=unordered(instance, dual.example_weights)),
        numbers_of(instance, pairs.listed(instance, state.cuts)),
        method.convexity(instance, state.iterate),
        method.primal_weight(state.iterate),
    )
    has_column = jnp.any(instance.is_column)
    is_possible = is_valid & has_column
    missed = jnp.where(
        state.num_lost >= _MAX_LOST, int(Status.NUMERICAL_ERROR), int(Status.ROUND_LIMIT)
    )
    missed = jnp.where(state.is_full, int(Status.CAPACITY_LIMIT), missed)
    status = jnp.where(state.gap <= tolerance, int(Status.OPTIMAL), missed)
    status = jnp.where(has_column, status, int(Status.PRIMAL_INFEASIBLE))
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
        warm=warm,
        status=jnp.where(is_valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )
