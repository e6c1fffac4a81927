"""The derivative of the solution of LP-Boost, which is that of the master: the linear program that
votes and example weights solve.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jboost import operators
from jboost.base import boosting, derivatives, meshes, numerics, reduce
from jboost.base.status import Status
from jboost.base.types import Array, Dataset
from jboost.lp.derivatives import change_of_objective, move_points
from jboost.lp.problem import LinearProgram
from jboost.lpboost import master, spread_derivatives


def game_of(examples: Dataset) -> tuple[Any, Array]:
    """The margins by columns [n, m], 0 for padding, and the shares of the examples [m]."""
    columns: Any = examples.features
    if operators.is_operator(columns):  # entries of padding do not matter, since its caps are 0
        columns = operators.transposed(columns)
    else:
        columns = jnp.where(examples.mask[:, None], columns.astype(jnp.result_type(float)), 0.0).T
    return columns, boosting.initial_distribution(examples)


def differentiate(
    choice: str, arguments: tuple[Any, ...], tangents: tuple[Any, ...], solution: Any
) -> Any:
    """The tangent of a solution for given tangents of examples and nu.

    Args:
      choice: "vertex" or "least_norm", as for `jboost.lp.solve`.
      arguments: examples, nu, and arguments on which the solution does not depend.
      tangents: of these.
      solution: a `jboost.lpboost.LPBoostSolution`.
    """
    if meshes.is_set() and not operators.is_operator(arguments[0].features):
        return _differentiate_spread(choice, arguments, tangents, solution)
    problem, tangent = jax.jvp(_program, arguments[:2], tangents[:2])
    primal, dual = _points(problem, solution)
    objective = change_of_objective(problem, tangent, primal, dual)
    is_known = (solution.status == int(Status.OPTIMAL)) | (
        solution.status == int(Status.PRECISION_LIMIT)
    )
    primal_change, dual_change = move_points(
        problem, derivatives.where(is_known, tangent), primal, dual, choice
    )
    bounds = solution.lower_bound, solution.upper_bound
    lower, upper = (derivatives.where(jnp.isfinite(bound), objective) for bound in bounds)
    return derivatives.no_change(solution)._replace(
        coefficients=derivatives.where(is_known, -dual_change[:-1]),
        example_weights=derivatives.where(is_known, primal_change[:-1]),
        lower_bound=lower,
        upper_bound=upper,
    )


def _differentiate_spread(
    choice: str, arguments: tuple[Any, ...], tangents: tuple[Any, ...], solution: Any
) -> Any:
    """`differentiate` where examples may be spread over the devices of a mesh."""

    def game(examples: Dataset, nu: Array) -> tuple[Any, Array]:
        columns, caps = _capped_game(examples, nu)
        return columns, jnp.minimum(caps, 1.0)

    (columns, caps), (columns_moved, caps_moved) = jax.jvp(game, arguments[:2], tangents[:2])
    margins = jnp.matmul(solution.coefficients, columns, precision=lax.Precision.HIGHEST)
    rho = _margin_between(solution.example_weights, caps, margins)
    return spread_derivatives.differentiate(
        choice, (columns, columns_moved), (caps, caps_moved), rho, solution
    )


def _capped_game(examples: Dataset, nu: Array) -> tuple[Any, Array]:
    """The margins by columns [n, m], and the upper bounds of the example weights [m]."""
    columns, prior = game_of(examples)
    nu = nu.astype(prior.dtype)
    # caps above 2 never bind; limiting them keeps the derivatives small
    return columns, prior / jnp.maximum(nu, 0.5 * prior)


def _program(examples: Dataset, nu: Array) -> LinearProgram:
    columns, caps = _capped_game(examples, nu)
    return master.program(columns, jnp.ones((columns.shape[0],), bool), caps)


def _points(problem: LinearProgram, solution: Any) -> tuple[Array, Array]:
    """The primal [m + 1], example weights and largest edge, and the dual [n + 1], minus the votes
    and the margin rho of examples between bounds.
    """
    weights, votes = solution.example_weights, -solution.coefficients
    edges = problem.operator.matvec(jnp.append(weights, 0.0))[:-1]
    margins = -problem.operator.rmatvec(jnp.append(votes, 0.0))[:-1]
    rho = _margin_between(weights, problem.upper[:-1], margins)
    return jnp.append(weights, reduce.largest(edges)), jnp.append(votes, rho)


def _margin_between(weights: Array, caps: Array, margins: Array) -> Array:
    """The margin [] of examples whose weights are between 0 and their caps."""
    freedom = jnp.maximum(jnp.minimum(weights, caps - weights), 0.0)
    capped, free_of_weight = weights > 0.5 * caps, (weights <= 0.5 * caps) & (caps > 0)
    between = 0.5 * (
        reduce.largest(jnp.where(capped, margins, -jnp.inf))
        + reduce.least(jnp.where(free_of_weight, margins, jnp.inf))
    )
    total = numerics.precise_sum(freedom)
    has_some = total > jnp.finfo(total.dtype).eps
    rho = numerics.safe_divide(numerics.precise_sum(freedom * margins), total)
    return jnp.where(has_some | ~jnp.isfinite(between), rho, between)
