"""LP-Boost for a given matrix of margins: one linear program, or many at a time under `vmap`."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from jboost import operators
from jboost.base import batching, boosting, check, derivatives, devices, labelled, meshes
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.lp.first_order import FirstOrderConfig
from jboost.lp.interior_point import InteriorPointConfig
from jboost.lp.simplex.margins import SimplexConfig
from jboost.lpboost import master, value
from jboost.lpboost.derivatives import differentiate, game_of
from jboost.lpboost.master import Config, MasterSolution, Warm, validate_config
from jboost.relaxations import certify
from jboost.relaxations.margins import are_in_range, checked_margins

# Up to so many entries of a matrix, pivots of the simplex method cost less than factorisations.
_SMALL = 1 << 14
# The tolerance of the linear program as a share of that of the certified gap, to which the
# residuals of the linear program add.
_SHARE_OF_TOLERANCE = 0.4


class LPBoostSolution(NamedTuple):
    """Votes, example weights, and the bounds that they prove."""

    coefficients: Array  # [n] the votes lambda, not negative, of sum one up to rounding
    example_weights: Array  # [m] u
    lower_bound: Array  # [] the soft margin of the votes, rounded down
    upper_bound: Array  # [] on the soft margin of any votes, by the example weights; rounded up
    num_iterations: Array  # [] int32
    warm: Warm  # the warm start of the method when this solution is `initial`
    status: Array  # [] int32


@meshes.takes_sharded
def solve(
    margins: Any,
    *,
    nu: ArrayLike = 0.1,
    tolerance: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    initial: LPBoostSolution | None = None,
    config: Config | None = None,
    derivative: Literal["vertex", "least_norm"] = "vertex",
) -> LPBoostSolution:
    """The votes of largest soft margin over the columns of a matrix, with certified bounds
    (Goldberg and Eckstein 2009, formulation (3)).

    Maximises rho - D sum_i xi_i s.t. (A lambda)_i + xi_i >= rho, sum lambda = 1, lambda, xi >= 0
    with D = 1 / (nu m), by its dual. It may be jitted, and vmapped over matrices and nus.

    It has derivatives, in both modes and of any order, with respect to the entries of the margins,
    nu and the weights; tolerance and `initial` are constants. The derivative of finite bounds is
    that of the optimal value by the envelope theorem: for the margins, example weights times votes.
    `coefficients` and `example_weights` have the derivatives of the linear program that they solve
    (see `jboost.lp.solve`), where they are unique and not degenerate. These are NaN for statuses
    other than OPTIMAL and PRECISION_LIMIT. `warm` has no derivatives.

    Args:
      margins: A [m, n], entries y_i h_j(x_i) in [-1, 1]. A hypothesis that may be negated has two
        columns. A matrix, or an operator such as `jboost.operators.packed_signs(signs)` or
        `stored`, which only the first-order method takes; bounds hold for its exact matrix.
      nu: [] in (0, 1]; below 1 / m the hard margin.
      tolerance: [] the gap between the bounds to be reached; None for 1e-7 in float64 and 1e-4 in
        float32.
      weights: [m] importance of each example, not negative; 0 has the effect of `mask` False.
        D_i = p_i / nu with p_i the share of the example. None for ones.
      mask: [m] bool, False for rows that are only padding.
      initial: a solution by the same method over these columns or the first of them, as a starting
        point; the interior point method ignores it.
      config: static; `SimplexConfig()`, `jboost.lp.InteriorPointConfig()` or
        `jboost.lp.FirstOrderConfig()`. None chooses the method of `initial`. Without `initial` it
        chooses the first-order method for an operator, the simplex method for small matrices on a
        CPU, and else the interior point method. For margins that are sharded over devices it
        chooses `jboost.relaxed_margin.SolverConfig()`, the first-order method for games, which
        gathers no examples.
      derivative: static; which equations of degenerate votes and example weights are
        differentiated, as for `jboost.lp.solve`.

    Returns:
      An `LPBoostSolution`. `lower_bound` follows from `coefficients` alone and `upper_bound` from
      `example_weights` alone, in exact arithmetic.

    Raises:
      ValueError: at trace time, naming the argument; for an operator with a method that factors a
        matrix; for a concrete nu outside (0, 1]. For a traced one the status is INFEASIBLE. For
        entries outside [-1, 1] and NaN it is INVALID_INPUT.

    >>> import jboost
    >>> solution = jboost.lpboost.solve(
    ...     [[1.0, 1.0, -1.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]], nu=0.2
    ... )
    >>> (
    ...     bool(solution.lower_bound <= 1 / 3 <= solution.upper_bound),
    ...     [round(float(vote), 2) for vote in solution.coefficients],
    ... )
    (True, [0.33, 0.33, 0.33])
    """
    margins = checked_margins(margins)
    if isinstance(margins, operators.Streamed):
        raise ValueError(
            "margins are streamed from the host, which no method of lpboost supports: use"
            " jboost.relaxed_margin.solve, or pass one operator"
        )
    if margins.shape[0] == 0:
        raise ValueError("margins has no rows: votes need at least one example")
    if margins.shape[1] == 0:
        raise ValueError("margins has no columns: votes need at least one hypothesis")
    weights, mask = labelled.validate_weights(weights, mask, margins.shape[0])
    nu = check.number("nu", nu, low=float(jnp.finfo(jnp.result_type(float)).tiny), high=1)
    if tolerance is None:
        tolerance = 1e-7 if jnp.result_type(float) == jnp.dtype("float64") else 1e-4
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True)
    config = _choose(config, initial, margins)
    initial = None if initial is None else _grown(initial, margins, config)
    rows = Dataset(margins, devices.ones_beside(mask), weights, mask)
    check.choice("derivative", derivative, ("vertex", "least_norm"))
    run = _solve_by_pivots if isinstance(config, SimplexConfig) else _solve_by_steps
    return run(rows, nu, tolerance, initial, config=config, derivative=derivative)


def _choose(config: Config | None, initial: LPBoostSolution | None, margins: Any) -> Config:
    """The method of `config`, else that of `initial`, else the faster one; for an operator, the
    method that takes operators.
    """
    chosen = _choose_for_matrix(config, initial, margins)
    if not operators.is_operator(margins) or isinstance(chosen, FirstOrderConfig):
        return chosen
    if config is None and initial is None:
        return FirstOrderConfig()
    given = "config" if config is not None else "initial"
    raise ValueError(
        f"{given} asks for the method of {type(chosen).__name__}, which factors a stored matrix,"
        " and margins is an operator: pass config=jboost.lp.FirstOrderConfig(), or"
        " margins.to_dense()"
    )


def _choose_for_matrix(
    config: Config | None, initial: LPBoostSolution | None, margins: Any
) -> Config:
    validate_config(config)
    if initial is not None and not isinstance(initial, LPBoostSolution):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected a jboost.lpboost.LPBoostSolution"
        )
    if config is not None:
        return config
    if initial is not None:
        return master.method_of(initial.warm)
    if meshes.is_set():
        return master.for_many_devices()
    return (
        SimplexConfig()
        if math.prod(margins.shape) <= _SMALL and devices.platform() == "cpu"
        else InteriorPointConfig()
    )


def _grown(initial: LPBoostSolution, margins: Any, config: Config) -> LPBoostSolution:
    """`initial`, extended to a matrix with more columns. Raises ValueError if it does not fit."""
    (num_examples, num_columns), found = (
        margins.shape,
        (*initial.example_weights.shape, *initial.coefficients.shape),
    )
    if len(found) != 2 or found[0] != num_examples or found[1] > num_columns:
        what = " x ".join(map(str, found)) if len(found) == 2 else "a batch of"
        raise ValueError(
            f"initial is a solution of {what} margins: expected {num_examples} rows and at most"
            f" {num_columns} columns"
        )
    if type(master.method_of(initial.warm)) is not type(config):
        raise ValueError(
            f"initial is by another method than config, {type(config).__name__}: pass the config"
            " that it was solved with, or no initial"
        )
    votes = jnp.pad(initial.coefficients, (0, num_columns - found[1]))
    grown = initial._replace(
        coefficients=votes, warm=master.grown(initial.warm, num_columns - found[1])
    )
    dtype = jnp.result_type(float)
    return jax.tree.map(
        lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, grown
    )


def _solve(
    examples: Dataset,
    nu: Array,
    tolerance: Array,
    initial: LPBoostSolution | None,
    *,
    config: Config,
    derivative: str,
) -> LPBoostSolution:
    """`examples` are the rows of the matrix, all labelled +1."""
    # One member at a time: their numbers of pivots differ, and every pivot reads the whole table.
    at_once = 1 if isinstance(config, SimplexConfig) else None
    run = batching.in_chunks(functools.partial(_solve_one, config), at_once=at_once)
    return derivatives.define(run, functools.partial(differentiate, derivative))(
        examples, nu, tolerance, initial
    )


# The compiled function for the simplex method, which changes its table in place, and for others.
_solve_by_pivots = jax.jit(_solve, static_argnames=("config", "derivative"))
_solve_by_steps = devices.public_jit(_solve, static_argnames=("config", "derivative"))


def _solve_one(
    config: Config, examples: Dataset, nu: Array, tolerance: Array, initial: LPBoostSolution | None
) -> LPBoostSolution:
    dtype = jnp.result_type(float)
    nu, tolerance = nu.astype(dtype), tolerance.astype(dtype)
    is_valid = boosting.is_valid(examples) & are_in_range(examples)
    columns, prior = game_of(examples._replace(mask=examples.mask & is_valid))
    relaxation = value.relaxation(nu)
    is_feasible = ((nu > 0) & relaxation.is_feasible(prior)) | ~is_valid

    goal = jnp.where(is_valid & is_feasible, _SHARE_OF_TOLERANCE * tolerance, jnp.inf)

    all_used = jnp.ones(columns.shape[:1], bool)
    solved = master.solve(
        columns,
        all_used,
        relaxation.caps(prior),
        before=_start(config, initial, columns, prior),
        tolerance=goal,
        spare=_SHARE_OF_TOLERANCE * tolerance,
        config=config,
    )
    lower = value.attained(columns, solved.votes, relaxation, prior)
    edge = certify.largest_signed_edge(columns, solved.example_weights, all_used)
    upper = value.not_exceeded(edge, solved.example_weights, relaxation, prior)
    spoiled = jnp.where(is_valid, 0.0, jnp.nan)
    is_used_up = master.is_used_up(config, solved.num_iterations)
    status = _status(upper - lower <= tolerance, is_used_up, is_feasible, is_valid)
    return LPBoostSolution(
        coefficients=solved.votes,
        example_weights=solved.example_weights,
        lower_bound=jnp.where(is_feasible, lower, -jnp.inf) + spoiled,
        upper_bound=jnp.where(is_feasible, upper, jnp.inf) + spoiled,
        num_iterations=solved.num_iterations,
        warm=solved.warm,
        status=status,
    )


def _start(
    config: Config, initial: LPBoostSolution | None, columns: Any, prior: Array
) -> MasterSolution:
    """The solution to start from: `initial`, or equal votes and the shares of the examples."""
    no_iterations = jnp.zeros((), jnp.int32)
    if initial is not None:
        return MasterSolution(
            initial.coefficients, initial.example_weights, initial.warm, no_iterations
        )
    (num_columns, num_examples), dtype = columns.shape, jnp.result_type(float)
    warm = (
        ()
        if master.finds_vertices(config)
        else master.start(config, num_examples, num_columns, dtype)
    )
    votes = jnp.full((num_columns,), 1 / num_columns, dtype)
    return MasterSolution(votes, prior, warm, no_iterations)


def _status(is_closed: Array, is_used_up: Array, is_feasible: Array, is_valid: Array) -> Array:
    missed = jnp.where(is_used_up, int(Status.ITERATION_LIMIT), int(Status.PRECISION_LIMIT))
    status = jnp.where(is_closed, int(Status.OPTIMAL), missed)
    status = jnp.where(is_feasible, status, int(Status.INFEASIBLE))
    return jnp.where(is_valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32)
