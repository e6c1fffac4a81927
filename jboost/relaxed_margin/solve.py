"""The best votes over a whole matrix of margins, with bounds."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost import operators
from jboost.base import (
    batching,
    boosting,
    check,
    checksums,
    derivatives,
    devices,
    exact_sums,
    labelled,
    loops,
    meshes,
)
from jboost.base.loops import OnStep
from jboost.base.protocols import hook
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.relaxations import (
    AbsoluteBall,
    GroupBall,
    HardMargin,
    Relaxation,
    VotePenalty,
    certify,
    games,
    unit_ball,
)
from jboost.relaxations.games import GameBounds, RelaxedGame, SolverConfig, SolveState
from jboost.relaxations.margins import are_in_range, checked_margins, columns_of
from jboost.relaxed_margin import streamed
from jboost.relaxed_margin.derivatives import differentiate, game_of

_CHECKS_AT_ONCE = 16  # between two calls of `on_step`


class RelaxedMarginSolution(NamedTuple):
    """Votes, example weights, and what they prove about each other."""

    coefficients: Array  # [n] the votes w
    example_weights: Array  # [m] the distribution d
    lower_bound: Array  # [] what the votes attain, rounded down
    upper_bound: Array  # [] what no votes exceed, as d proves, rounded up
    num_iterations: Array  # [] int32
    status: Array  # [] int32


@meshes.takes_sharded
def solve(
    margins: Any,
    relaxation: Any,
    *,
    tolerance: ArrayLike = 1e-3,
    votes: Any = None,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    config: SolverConfig | None = None,
    on_step: OnStep | None = None,
    initial: SolveState | None = None,
    deterministic: bool = False,
) -> RelaxedMarginSolution:
    """The votes of largest relaxed margin over the columns of a matrix, between certified bounds.

    Maximises gamma - f*([gamma 1 - A w]_+) - g(w) over votes w and thresholds gamma. The dual
    problem is the minimum over distributions d of g*(max_j |(d'A)_j|) + f(d) (Shalev-Shwartz and
    Singer 2008, Theorem 7). A restarted primal-dual method solves both. It may be jitted, and
    vmapped over matrices and over the numbers in the relaxation.

    Args:
      margins: A [m, n], entries y_i h_j(x_i) in [-1, 1]. Votes may have either sign. A matrix, or
        an operator such as `jboost.operators.packed_signs(signs)`, which takes a bit an entry, and
        `stored`; bounds hold for the operator's exact matrix. Of
        `jboost.operators.streamed(blocks)` the host drives the loop, outside `jit` and `vmap`.
      relaxation: f, such as `jboost.relaxations.soft_margin(nu=0.1)`.
      tolerance: [] the gap between the bounds at which to stop; in float32 not below 3e-6, as
        rounding alone takes 2e-6 of them.
      votes: g, the cost of votes. None for `jboost.relaxations.unit_ball()`, which is |w|_1 <= 1 as
        in Shalev-Shwartz and Singer (2008). Else `squared_norm`, `squared_two_norm`, `elastic_net`
        or `group_ball` there. For these the dual is the minimum of g*(A'd) + f(d).
      weights: [m] importance of each example, not negative, 0 as `mask` False; only their ratios
        matter. None for ones. An example of weight two counts as two examples of weight one, except
        under `soft_margin(cap=)`, `norm_ball` and `norm_penalty`: their caps and norms depend on m,
        the number of examples that count, which is not the sum of the weights.
      mask: [m] bool, False for rows that only pad.
      config: static sizes.
      on_step: called with (state, info) on the host after every 16 checks of the gap, of streamed
        margins after every check; False ends the loop with status TIME_LIMIT and valid bounds. Not
        under jit or vmap.
        `jboost.checkpoints` has one that saves the state.
      initial: a `SolveState` to go on from, as `on_step` was given it for the same problem; None
        for a solve from the start. It ends in the bits of a solve with an `on_step` that was not
        stopped.
      deterministic: whether the result is the same, bit for bit, on one or several devices of one
        kind, with at least 16 rows on each. All sums are then exact in 64 bits, for any order; see
        "Equal bits on one or several devices" in the documentation for the limits and the cost. For
        stored matrices, hard and soft margins, and `votes` None, `squared_norm` or `elastic_net`;
        static. Derivatives are not bit-equal.

    Finite bounds have the derivative of the optimal value, in both modes, by the envelope theorem:
    in the margins, example weights times votes; in the weights of the examples and the numbers in
    the relaxation, that of `relaxation.lower_bound` at the margins of the votes; in the numbers in
    `votes`, minus that of the cost of the votes. It is as precise as the points: of a solve within
    a tolerance t, about the root of t. Other bounds have NaN. `coefficients` and `example_weights`
    have none: TypeError in reverse mode, NaN in forward mode; see `solve_smoothed`.

    A solve of packed signs holds the bits twice, 20 vectors [m], and blocks of 4 MB: 320 MB for 1e6
    x 1e3 in float32, where the matrix by itself takes 4 GB and its solve 12 GB more.

    Returns:
      A `RelaxedMarginSolution`. `lower_bound` follows from `coefficients` alone and `upper_bound`
      from `example_weights` (scaled to sum to one) alone, in exact arithmetic: products are carried
      in 64 bits and rounded outwards.

    Raises:
      ValueError: at trace time, naming the argument; on concrete arrays also if no distribution
        meets the relaxation (a cap below 1 / m). Traced, that is status INFEASIBLE, as entries
        outside [-1, 1], NaN, and parameters that no factory takes are INVALID_INPUT.
        NUMERICAL_ERROR says that the bounds cross, as from `jboost.relaxations.from_functions`
        whose functions contradict each other.

    >>> import jboost
    >>> solution = jboost.relaxed_margin.solve(
    ...     [[1.0, 1.0, -1.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]], jboost.relaxations.hard_margin()
    ... )
    >>> (
    ...     bool(solution.lower_bound <= 1 / 3 <= solution.upper_bound),
    ...     bool(solution.upper_bound - solution.lower_bound <= 1e-3),
    ... )
    (True, True)
    """
    margins = checked_margins(margins)
    check.choice("deterministic", deterministic, (False, True))
    if deterministic:
        _validate_exact_sums(margins, relaxation, votes)
        return exact_sums.in_scope(
            solve,
            margins,
            relaxation,
            tolerance=tolerance,
            votes=votes,
            weights=weights,
            mask=mask,
            config=config,
            on_step=on_step,
            initial=initial,
        )
    if margins.shape[0] == 0:
        raise ValueError("margins has no rows: votes need at least one example")
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True)
    weights, mask = labelled.validate_weights(weights, mask, margins.shape[0])
    config = check.config("config", config, SolverConfig)
    cost = unit_ball() if votes is None else votes
    validate_functions(relaxation, cost)
    _validate_groups(cost, margins.shape[1])
    rows = _rows_of(margins, weights, mask)
    check_feasible(relaxation, rows)
    return _dispatch(margins, rows, relaxation, tolerance, cost, config, on_step, initial)


def _rows_of(margins: Any, weights: Array, mask: Array) -> Dataset:
    """The rows of the matrix, all labelled +1. For streamed margins the mask stands for them."""
    features = mask if isinstance(margins, operators.Streamed) else margins
    return Dataset(features, devices.ones_beside(mask), weights, mask)


def _dispatch(
    margins: Any,
    rows: Dataset,
    relaxation: Any,
    tolerance: Array,
    votes: Any,
    config: SolverConfig,
    on_step: OnStep | None,
    initial: SolveState | None,
) -> RelaxedMarginSolution:
    """Solves in one program, or in steps if there is an `on_step`, an `initial` or a stream."""
    is_watched = on_step is not None or initial is not None
    if is_watched:
        inputs = (rows, relaxation, tolerance, votes, initial)
        check.can_be_watched(on_step, inputs, between="checks")
    if isinstance(margins, operators.Streamed):
        return _solve_streamed(
            margins, rows, relaxation, tolerance, votes, config, on_step, initial
        )
    if not is_watched:
        return _solve(rows, relaxation, tolerance, votes, config=config)
    return _drive(rows, relaxation, tolerance, votes, config, on_step, initial)


def validate_functions(relaxation: Any, votes: Any) -> None:
    """Raises ValueError unless these are a relaxation and a cost of votes, made of numbers."""
    are_known = isinstance(relaxation, Relaxation), isinstance(votes, VotePenalty)
    for name, value, is_known in zip(
        ("relaxation", "votes"), (relaxation, votes), are_known, strict=True
    ):
        if not is_known:
            raise ValueError(
                f"{name} is a {type(value).__name__}: expected one of jboost.relaxations"
            )
        check.pytree_of_numbers(
            name,
            value,
            remedy="take one of jboost.relaxations, or jboost.relaxations.from_functions",
        )


def _validate_exact_sums(margins: Any, relaxation: Any, votes: Any) -> None:
    """Raises ValueError for arguments with sums that may depend on the number of devices."""
    if operators.is_operator(margins):
        raise ValueError(
            f"margins is a {type(margins).__name__}, and deterministic is True: pass a stored"
            " matrix, margins.to_dense(), or deterministic=False"
        )
    meshes.validate_rows_for_exact_sums("margins", margins.shape[0])
    validate_exact_relaxation(relaxation, votes)


def validate_exact_relaxation(relaxation: Any, votes: Any) -> None:
    """Raises ValueError for a relaxation or a cost of votes without `has_exact_sums`; None stands
    for the unit ball.
    """
    if not hook(Relaxation, relaxation, "has_exact_sums"):
        raise ValueError(
            f"relaxation is a {type(relaxation).__name__}, and deterministic is True: pass"
            " jboost.relaxations.hard_margin or soft_margin, or deterministic=False"
        )
    if votes is not None and not hook(VotePenalty, votes, "has_exact_sums"):
        raise ValueError(
            f"votes is a {type(votes).__name__}, and deterministic is True: pass None,"
            " jboost.relaxations.squared_norm or elastic_net, or deterministic=False"
        )


def _validate_groups(votes: Any, num_columns: int) -> None:
    """Raises ValueError for groups of another number of columns."""
    if isinstance(votes, GroupBall) and jnp.shape(votes.groups) != (num_columns,):
        raise ValueError(
            f"votes has groups of shape {jnp.shape(votes.groups)}, and margins {num_columns}"
            " columns: give one group for each column"
        )


def check_feasible(relaxation: Any, dataset: Dataset) -> None:
    """Raises ValueError where all values are concrete and no distribution over the examples meets
    the relaxation.
    """
    if any(
        isinstance(leaf, jax.core.Tracer)
        for leaf in jax.tree.leaves((relaxation, dataset.weights, dataset.mask))
    ):
        return
    if _is_empty(relaxation, Dataset(dataset.mask, dataset.mask, dataset.weights, dataset.mask)):
        raise ValueError(
            f"relaxation {relaxation} allows no distribution over"
            f" {int(np.asarray(dataset.mask).sum())} examples: raise its cap to 1 / m at least (nu"
            " to at most 1), or the radius of a norm ball to m ** (1 / order - 1)"
        )


def _is_empty(relaxation: Any, dataset: Dataset) -> bool:
    """Whether no distribution over the examples meets the relaxation, for known values; the rest
    may be traced.
    """
    with devices.computed_eagerly():
        return bool(_allows_nothing(relaxation, dataset))


@jax.jit
def _allows_nothing(relaxation: Any, dataset: Dataset) -> Array:
    return boosting.has_sound_weights(dataset) & ~relaxation.is_feasible(
        boosting.initial_distribution(dataset)
    )


def _solve_streamed(
    margins: operators.Streamed,
    rows: Dataset,
    relaxation: Any,
    tolerance: Array,
    votes: Any,
    config: SolverConfig,
    on_step: OnStep | None,
    initial: SolveState | None,
) -> RelaxedMarginSolution:
    streamed.refuse_traced(rows, relaxation, tolerance, votes)
    prior, is_valid, is_feasible = streamed.validate(
        rows, relaxation, votes, margins.largest_entry()
    )
    goal = jnp.where(is_valid & is_feasible, tolerance.astype(prior.dtype), jnp.inf)
    is_watched = on_step is not None or initial is not None
    found = _checksums(margins.blocks, rows, relaxation, votes) if is_watched else None
    if initial is not None:
        initial = _validate_initial(initial, streamed.shapes_of_state(margins, prior), found)

    def watch(state: SolveState) -> bool:
        info = SolveInfo(games.num_iterations(state, config), state.best.lower, state.best.upper)
        return loops.goes_on(on_step, state._replace(checksums=found), info)

    state, is_ended = streamed.play(
        margins, relaxation, votes, prior, goal, config, watch=watch, initial=initial
    )
    coefficients, lower, upper = streamed.prove(margins, state.best, relaxation, votes, prior)
    solution = _solution(
        coefficients,
        state.best.example_weights,
        lower,
        upper,
        games.num_iterations(state, config),
        relaxation,
        goal,
        is_valid,
        is_feasible,
    )
    return _stopped(solution) if is_ended else solution


@functools.partial(jax.jit, static_argnames=("config",))
def _solve(
    examples: Dataset, relaxation: Any, tolerance: Array, votes: Any, *, config: SolverConfig
) -> RelaxedMarginSolution:
    """`examples` are the rows of the matrix, all labelled +1."""
    # One member at a time: their numbers of iterations differ.
    run = batching.in_chunks(functools.partial(_solve_one, config), at_once=1)
    return derivatives.define(run, differentiate)(examples, relaxation, tolerance, votes)


def _solve_one(
    config: SolverConfig, examples: Dataset, relaxation: Any, tolerance: Array, votes: Any
) -> RelaxedMarginSolution:
    prepared = _prepare(examples, relaxation, tolerance, votes)
    best, num_iterations = games.play(prepared.game, prepared.goal, config)
    return _conclude(prepared, best, num_iterations, examples.features.shape[1])


def _drive(
    examples: Dataset,
    relaxation: Any,
    tolerance: Array,
    votes: Any,
    config: SolverConfig,
    on_step: OnStep | None,
    initial: SolveState | None,
) -> RelaxedMarginSolution:
    """`_solve_one`, some checks at a time."""
    prepared = _prepare_on_host(examples, relaxation, tolerance, votes)
    state, goes_on = _begin_on_host(prepared.game), True
    found = _checksums(examples.features, examples, relaxation, votes)
    if initial is not None:
        state = _validate_initial(initial, state, found)
    while goes_on and bool(games.is_open(state, prepared.goal, config)):
        state, info = _advance_on_host(prepared, state, config=config)
        goes_on = loops.goes_on(on_step, state._replace(checksums=found), info)
    solution = _conclude_on_host(
        prepared,
        state.best,
        games.num_iterations(state, config),
        num_columns=examples.features.shape[1],
    )
    return solution if goes_on else _stopped(solution)


def _stopped(solution: RelaxedMarginSolution) -> RelaxedMarginSolution:
    """The solution of a loop that `on_step` ended: status TIME_LIMIT, unless it is good enough."""
    if int(solution.status) != int(Status.ROUND_LIMIT):
        return solution
    return solution._replace(status=jnp.asarray(int(Status.TIME_LIMIT), jnp.int32))


# what the checksums of a state are of
_CHECKED = ("margins", "weights", "mask", "relaxation", "votes")


def _validate_initial(initial: Any, first: SolveState, found: Any) -> SolveState:
    """The state without its checksums, if it is one of this solve. `first` has its shapes."""
    state: SolveState = checksums.without_checksums(
        initial,
        first,
        found,
        parts=_CHECKED,
        what="solve",
        kind="jboost.relaxed_margin.SolveState",
    )
    return state


def _checksums(margins: Any, examples: Dataset, relaxation: Any, votes: Any) -> np.ndarray:
    parts = (margins, examples.weights, examples.mask, relaxation, votes)
    return np.array([checksums.of_tree(part) for part in parts], np.uint32)


class SolveInfo(NamedTuple):
    """Where `solve` is; its bounds are estimates until it ends."""

    num_iterations: Array  # []
    lower_bound: Array  # []
    upper_bound: Array  # []


class _Prepared(NamedTuple):
    game: RelaxedGame
    goal: Array  # [] the gap to reach, infinite where nothing is to be solved
    is_valid: Array  # [] bool
    is_feasible: Array  # [] bool


def _prepare(examples: Dataset, relaxation: Any, tolerance: Array, votes: Any) -> _Prepared:
    dtype = jnp.result_type(float)
    is_valid = (
        boosting.is_valid(examples)
        & are_in_range(examples)
        & relaxation.is_valid()
        & votes.is_valid()
    )
    matrix, prior = game_of(examples._replace(mask=examples.mask & is_valid))
    is_feasible = relaxation.is_feasible(prior) | ~is_valid
    goal = jnp.where(is_valid & is_feasible, tolerance.astype(dtype), jnp.inf)
    return _Prepared(RelaxedGame(matrix, relaxation, votes, prior), goal, is_valid, is_feasible)


@devices.host_jit(static_argnames=("config",))
def _advance_on_host(
    prepared: _Prepared, state: SolveState, *, config: SolverConfig
) -> tuple[SolveState, SolveInfo]:
    step, goal = functools.partial(games.advance, prepared.game, config), prepared.goal
    after, _ = loops.bounded_loop(
        step, lambda now: games.is_open(now, goal, config), state, max_checks=_CHECKS_AT_ONCE
    )
    return after, SolveInfo(games.num_iterations(after, config), after.best.lower, after.best.upper)


def _conclude(
    prepared: _Prepared, best: GameBounds, num_iterations: Array, num_columns: int
) -> RelaxedMarginSolution:
    (matrix, relaxation, votes, prior), goal, is_valid, is_feasible = prepared
    coefficients = votes.allowed(best.coefficients)
    lower = certify.prove_lower(matrix, coefficients, relaxation, votes, prior)
    edges = certify.edge_sizes(columns_of(matrix), best.example_weights)
    upper = certify.upper_from_edges(edges, best.example_weights, relaxation, votes, prior)
    return _solution(
        coefficients[:num_columns],
        best.example_weights,
        lower,
        upper,
        num_iterations,
        relaxation,
        goal,
        is_valid,
        is_feasible,
    )


def _solution(
    coefficients: Array,
    example_weights: Array,
    lower: Array,
    upper: Array,
    num_iterations: Array,
    relaxation: Any,
    goal: Array,
    is_valid: Array,
    is_feasible: Array,
) -> RelaxedMarginSolution:
    """The solution with its status; NaN for bounds where something is not valid."""
    spoiled = jnp.where(is_valid, 0.0, jnp.nan)
    return RelaxedMarginSolution(
        coefficients=coefficients,
        example_weights=example_weights,
        lower_bound=jnp.where(is_feasible, lower, -jnp.inf) + spoiled,
        upper_bound=jnp.where(is_feasible, upper, jnp.inf) + spoiled,
        num_iterations=num_iterations,
        status=status_of(relaxation, lower, upper, goal, is_valid, is_feasible),
    )


_prepare_on_host, _begin_on_host = devices.host_jit(_prepare), devices.host_jit(games.begin)
_conclude_on_host = devices.host_jit(_conclude, static_argnames=("num_columns",))


def status_of(
    relaxation: Any,
    lower: Array,
    upper: Array,
    tolerance: Array,
    is_valid: Array,
    is_feasible: Array,
) -> Array:
    """The status that bounds deserve, [] int32; ROUND_LIMIT where they are further apart than the
    tolerance, NUMERICAL_ERROR where they cross.
    """
    is_useless = isinstance(relaxation, (HardMargin, AbsoluteBall)) & (lower <= 0)
    rounding = 256 * jnp.finfo(upper.dtype).eps
    is_precise = upper - lower <= rounding
    converged = jnp.where(is_useless, int(Status.NO_EDGE), int(Status.OPTIMAL))
    missed = jnp.where(is_precise, int(Status.PRECISION_LIMIT), int(Status.ROUND_LIMIT))
    status = jnp.where(upper - lower <= tolerance, converged, missed)
    status = jnp.where(
        lower - upper > rounding * jnp.maximum(jnp.abs(upper), 1.0),
        int(Status.NUMERICAL_ERROR),
        status,
    )
    status = jnp.where(is_feasible, status, int(Status.INFEASIBLE))
    return jnp.where(is_valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32)
