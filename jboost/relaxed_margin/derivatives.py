"""The derivative of the largest relaxed margin, by the envelope theorem."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jboost import operators
from jboost.base import boosting, derivatives, numerics
from jboost.base.status import Status
from jboost.base.types import Array, Dataset

_REMEDY = (
    "differentiate lower_bound or upper_bound, or pass it through jax.lax.stop_gradient; votes that"
    " have one are those of jboost.relaxed_margin.solve_smoothed and jboost.lpboost.solve"
)


def game_of(examples: Dataset) -> tuple[Any, Array]:
    """The margins [m, n], 0 on padding rows, and the prior of the examples [m]."""
    matrix: Any = examples.features
    if not operators.is_operator(matrix):  # in an operator, padding rows have no weight
        matrix = jnp.where(examples.mask[:, None], matrix.astype(jnp.result_type(float)), 0.0)
        matrix = jnp.pad(matrix, ((0, 0), (0, max(0, 1 - matrix.shape[1]))))
    return matrix, boosting.initial_distribution(examples)


def differentiate(arguments: tuple[Any, ...], tangents: tuple[Any, ...], solution: Any) -> Any:
    """The tangent of a solution along those of examples, relaxation, tolerance and votes."""
    (examples, relaxation, _, votes), (moved, relaxed, _, repriced) = arguments, tangents
    (matrix, prior), (matrix_moved, prior_moved) = jax.jvp(game_of, (examples,), (moved,))
    padded = jnp.pad(solution.coefficients, (0, matrix.shape[1] - solution.coefficients.shape[0]))
    reached, reached_moved = jax.jvp(lambda it: _margins(it, padded), (matrix,), (matrix_moved,))
    weights = solution.example_weights / numerics.precise_sum(solution.example_weights)
    _, gained = jax.jvp(
        lambda it, prior: _value(it, reached, weights, prior),
        (relaxation, prior),
        (relaxed, prior_moved),
    )
    _, paid = jax.jvp(lambda it: it.cost_of(padded), (votes,), (repriced,))
    change = jnp.sum(weights * reached_moved) + gained - paid
    is_sound = solution.status != int(Status.NUMERICAL_ERROR)
    bounds = solution.lower_bound, solution.upper_bound
    lower, upper = (derivatives.where(jnp.isfinite(bound) & is_sound, change) for bound in bounds)
    refused = {
        name: derivatives.refused(
            getattr(solution, name), tangents, f"jboost.relaxed_margin.solve(...).{name}", _REMEDY
        )
        for name in ("coefficients", "example_weights")
    }
    return derivatives.no_change(solution)._replace(lower_bound=lower, upper_bound=upper, **refused)


def _value(relaxation: Any, margins: Array, example_weights: Array, prior: Array) -> Array:
    """The value [] at a saddle point, as a function of the numbers in the relaxation and the
    prior.
    """
    value: Array = relaxation.bound_at_saddle(margins, example_weights, prior)
    return value


def _margins(matrix: Any, coefficients: Array) -> Array:
    if operators.is_operator(matrix):
        reached: Array = matrix.matvec(coefficients)
        return reached
    return jnp.matmul(matrix, coefficients, precision=lax.Precision.HIGHEST)
