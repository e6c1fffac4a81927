"""The first point and primal weight of a run, and warm starts from other programs."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jboost.base import check, numerics
from jboost.base.types import Array
from jboost.lp.certificate import certify
from jboost.lp.first_order.scaling import FirstOrderScaling
from jboost.lp.first_order.state import (
    FirstOrderPoint,
    FirstOrderState,
    WarmStart,
    clamped_weight,
    length_of,
    unscaled,
)
from jboost.lp.problem import LinearProgram
from jboost.lp.types import LPSolution


def first_point(
    problem: LinearProgram, scaling: FirstOrderScaling, initial: Any
) -> tuple[FirstOrderPoint, Array]:
    """The first point, scaled and within its bounds, and the first primal weight."""
    one = jnp.ones((), problem.objective.dtype)
    per_column = numerics.safe_divide(scaling.bound_scale, scaling.columns)
    if initial is None:
        is_unused = problem.operator.column_norms(jnp.ones_like(problem.row_lower)) == 0
        cheapest = jnp.where(
            problem.objective > 0,
            problem.lower,
            jnp.where(problem.objective < 0, problem.upper, 0.0),
        )
        primal = jnp.where(is_unused & jnp.isfinite(cheapest), cheapest, 0.0)
        return (
            FirstOrderPoint(
                jnp.clip(primal, problem.lower, problem.upper) * per_column,
                jnp.zeros_like(problem.row_lower),
            ),
            one,
        )
    initial = extend(
        initial, num_columns=problem.objective.shape[0], num_rows=problem.row_lower.shape[0]
    )
    primal = certify.within_bounds(
        problem, jnp.where(jnp.isfinite(initial.primal), initial.primal, 0.0)
    )
    dual = certify.allowed_dual(problem, jnp.where(jnp.isfinite(initial.dual), initial.dual, 0.0))
    point = FirstOrderPoint(
        primal * per_column, dual * numerics.safe_divide(scaling.objective_scale, scaling.rows)
    )
    weight = (
        jnp.asarray(initial.primal_weight, one.dtype)
        * scaling.objective_scale
        / scaling.bound_scale
    )
    estimate = numerics.safe_divide(length_of(point.dual), length_of(point.primal))
    weight = jnp.where(weight > 0, weight, jnp.where(estimate > 0, estimate, 1.0))
    return point, clamped_weight(weight)


def warm_start(state: FirstOrderState) -> WarmStart:
    """The current point and primal weight, for a warm start of a similar program."""
    scaling = state.scaling
    return WarmStart(
        *unscaled(state.best, scaling),
        state.primal_weight * scaling.bound_scale / scaling.objective_scale,
    )


def extend(initial: Any, *, num_columns: int, num_rows: int) -> WarmStart:
    """`initial` for a program that got variables and rows at its end: 0 for the new ones.

    Args:
      initial: a `WarmStart`, an `LPSolution`, or a pair of primal [n] and dual [m].
      num_columns: at least n, static.
      num_rows: at least m, static.

    Raises:
      ValueError: at trace time, if `initial` is none of these, or has more variables or rows.

    >>> import jax.numpy as jnp
    >>> from jboost.lp import first_order
    >>> new = first_order.extend(
    ...     (jnp.array([1.0]), jnp.array([2.0, 3.0])), num_columns=2, num_rows=2
    ... )
    >>> new.primal.tolist(), new.dual.tolist()
    ([1.0, 0.0], [2.0, 3.0])
    """
    is_record = isinstance(initial, (WarmStart, LPSolution))
    if not is_record and not (isinstance(initial, (tuple, list)) and len(initial) == 2):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected an LPSolution, a WarmStart, or a pair"
            " of primal [n] and dual [m]"
        )
    primal, dual = (initial.primal, initial.dual) if is_record else initial
    weight = initial.primal_weight if isinstance(initial, WarmStart) else 0.0
    return WarmStart(
        _padded("initial.primal", primal, num_columns),
        _padded("initial.dual", dual, num_rows),
        jnp.asarray(weight, float),
    )


def _padded(name: str, vector: Any, size: int) -> Array:
    vector = check.numeric(name, vector, shape=("length",), kinds="fiu").astype(
        jnp.result_type(float)
    )
    missing = size - vector.shape[0]
    if missing < 0:
        raise ValueError(
            f"{name} has length {vector.shape[0]}: expected at most {size}, as the program has"
        )
    return jnp.pad(vector, (0, missing))
