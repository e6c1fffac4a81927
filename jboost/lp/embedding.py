"""The homogeneous self-dual embedding of a linear program with its matrix dense.

With s = A x the program is: minimise cost . w over w = (x, s) with K w = 0, K = [A, -I], low <= w <= high; embedded, low tau <= w <= high tau, and
the dual is cost tau - K'y = zl - zu with zl, zu >= 0. A solution has tau > 0; a ray that proves a program infeasible or unbounded has tau = 0.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics
from jboost.base.types import Array, ArrayLike
from jboost.lp.problem import LinearProgram, bounds_nothing, row_sizes

_ROUNDINGS = 8  # units of rounding between two bounds that are taken for one
_LEAST_STEP = 2.0**-8  # from a bound to the first point, relative to the bound where that is large
_LARGEST_SCALE = 1e4  # of a column, and its inverse the smallest: a column of tiny entries is left for what it is


class Embedded(NamedTuple):
    """A program as minimise cost . w, K w = 0, low <= w <= high, scaled. Arrays [2, n + m] hold the lower side, then the upper."""

    matrix: Array  # [m, n] rows that bound nothing are 0
    cost: Array  # [n + m]
    bound: Array  # [2, n + m] 0 where there is none
    has_bound: Array  # [2, n + m] bool, False where fixed
    is_fixed: Array  # [n + m] bool, low = high
    level: Array  # [n + m] the value of what is fixed, 0 elsewhere


class Point(NamedTuple):
    """An iterate of the embedding."""

    primal: Array  # [n + m] w
    dual: Array  # [m] y
    slack: Array  # [2, n + m] w - low tau and high tau - w, 1 where there is no bound
    multiplier: Array  # [2, n + m] zl and zu, 0 where there is no bound
    scale: Array  # [] tau
    gap_dual: Array  # [] kappa


class Residuals(NamedTuple):
    """What an iterate misses."""

    primal: Array  # [m] K w
    dual: Array  # [n + m] cost tau - K'y - zl + zu, 0 where fixed
    gap: Array  # [] kappa + cost . w - dual objective
    objective: Array  # []


def sides(values: Array) -> Array:
    """[2, n + m] with the sign of the upper side turned."""
    return jnp.stack([values[0], -values[1]])


def embed(matrix: Array, problem: LinearProgram) -> Embedded:
    """The embedding of a program with its matrix dense."""
    is_idle = bounds_nothing(problem)
    low = jnp.concatenate([problem.lower, jnp.where(is_idle, 0.0, problem.row_lower)])
    high = jnp.concatenate([problem.upper, jnp.where(is_idle, 0.0, problem.row_upper)])
    cost = jnp.concatenate([problem.objective, jnp.zeros_like(problem.row_lower)])
    rows = jnp.abs(jnp.stack([problem.row_lower, problem.row_upper]))
    least = jnp.min(jnp.where((rows > 0) & jnp.isfinite(rows), rows, 1.0), initial=1.0)
    bound, is_fixed = jnp.stack([low, high]), _are_one(low, high, cost, least)
    has_bound = jnp.isfinite(bound) & ~is_fixed[None, :]
    return Embedded(
        matrix=jnp.where(is_idle[:, None], 0.0, matrix),
        cost=cost,
        bound=jnp.where(has_bound, bound, 0.0),
        has_bound=has_bound,
        is_fixed=is_fixed,
        level=jnp.where(is_fixed, low, 0.0),
    )


def _are_one(low: Array, high: Array, cost: Array, least: Array) -> Array:
    """Whether bounds are equal, or so close that rounding leaves no place between them, or none that matters where rows are of `least` or more."""
    largest, width, eps = jnp.maximum(jnp.abs(low), jnp.abs(high)), high - low, jnp.finfo(low.dtype).eps
    is_idle = width * jnp.maximum(jnp.abs(cost), 1.0) <= eps**2 * least
    return (low == high) | (jnp.isfinite(largest) & (is_idle | (width <= _ROUNDINGS * eps * largest)))


def forward(program: Embedded, primal: Array) -> Array:
    """K w of w [n + m] or [n + m, k]."""
    num_columns = program.matrix.shape[1]
    return jnp.matmul(program.matrix, primal[:num_columns], precision=lax.Precision.HIGHEST) - primal[num_columns:]


def backward(program: Embedded, dual: Array) -> Array:
    """K'y of y [m] or [m, k]."""
    return jnp.concatenate([numerics.times_transposed(program.matrix, dual), -dual])


def start(program: Embedded) -> Point:
    """The middle of the boxes, about one away at most from a lower bound and from a single upper one, with all complementary products equal to 1.

    Bounds so far away that one is no step from them say little about where a solution is: 0 is nearer.
    """
    has_low, has_high = program.has_bound
    low, high = program.bound
    to_low, to_high = (jnp.maximum(1.0, _LEAST_STEP * jnp.abs(end)) for end in (low, high))
    from_low = jnp.where(has_high, jnp.minimum(0.5 * (high - low), to_low), to_low)
    is_far = jnp.where(has_low, to_low, to_high) > 1
    lowest, highest = jnp.where(has_low, low + from_low, -jnp.inf), jnp.where(has_high, high - jnp.where(has_low, from_low, to_high), jnp.inf)
    near_bound = jnp.where(has_low, lowest, jnp.where(has_high, highest, program.level))
    primal = jnp.where(is_far, jnp.clip(0.0, lowest, highest), near_bound)
    slack = jnp.where(program.has_bound, sides(primal[None, :] - program.bound), 1.0)
    multiplier = jnp.where(program.has_bound, 1 / slack, 0.0)
    dual = jnp.sum(sides(multiplier), axis=0)[program.matrix.shape[1] :]
    one = jnp.ones((), primal.dtype)
    return Point(primal, dual, slack, multiplier, one, one)


def residuals(program: Embedded, point: Point) -> Residuals:
    """What the iterate misses of the embedding's equations."""
    reduced = program.cost * point.scale - backward(program, point.dual)
    dual = jnp.where(program.is_fixed, 0.0, reduced - jnp.sum(sides(point.multiplier), axis=0))
    dual_objective = jnp.sum(sides(program.bound * point.multiplier)) + jnp.sum(program.level * reduced)
    objective = jnp.sum(program.cost * point.primal)
    return Residuals(forward(program, point.primal), dual, point.gap_dual + objective - dual_objective, objective)


class Scaling(NamedTuple):
    """row * A * column has entries of size 1; objective and bounds are divided by their sizes."""

    row: Array  # [m]
    column: Array  # [n]
    objective: Array  # []
    bound: Array  # []


def scale(matrix: Array, problem: LinearProgram, rounds: int) -> tuple[Array, LinearProgram, Scaling]:
    """Ruiz's equilibration of the dense matrix: rows and columns divided, again and again, by the root of their largest entry.

    Rows that bound nothing and variables that are fixed do not count, whatever their entries are.
    """
    counts = ~bounds_nothing(problem)[:, None] & (problem.lower < problem.upper)[None, :]
    sizes = jnp.where(counts, jnp.abs(matrix), 0.0)

    def halve(_: Array, scales: tuple[Array, Array]) -> tuple[Array, Array]:
        row, column = scales
        now = row[:, None] * sizes * column[None, :]
        column = column * numerics.inverse_root(jnp.max(now, axis=0, initial=0.0))
        return row * numerics.inverse_root(jnp.max(now, axis=1, initial=0.0)), jnp.clip(column, 1 / _LARGEST_SCALE, _LARGEST_SCALE)

    row, column = loops.fori_loop(0, rounds, halve, (jnp.ones_like(problem.row_lower), jnp.ones_like(problem.objective)))
    objective = _size(problem.objective * column)
    of_variables = _size(jnp.concatenate([problem.lower, problem.upper]) / jnp.tile(column, 2))
    bound = _size(row_sizes(problem) * row, otherwise=of_variables)
    scaled = LinearProgram(
        objective=problem.objective * column / objective,
        operator=(),
        row_lower=problem.row_lower * row / bound,
        row_upper=problem.row_upper * row / bound,
        lower=problem.lower / column / bound,
        upper=problem.upper / column / bound,
    )
    return row[:, None] * matrix * column[None, :], scaled, Scaling(row, column, objective, bound)


def _size(values: Array, otherwise: ArrayLike = 1.0) -> Array:
    """The largest finite |value|, or `otherwise` if there is none but 0."""
    size = jnp.max(jnp.where(jnp.isfinite(values), jnp.abs(values), 0.0), initial=0.0)
    return jnp.where(size > 0, size, otherwise)
