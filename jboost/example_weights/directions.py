"""Directions and steps of the interior point method for the game.

The method is the predictor-corrector method of Mehrotra (1992). An iteration computes one Cholesky
factor of the size of the columns. The two constraints on b and sum d are added to the normal matrix
as rows with the weight of its largest entry (an augmented Lagrangian). Without these rows the
matrix becomes ill conditioned as the iterates approach the optimum.

`jboost.lp.interior_point` and `jboost.l0.relaxation` have loops of their own: the embedding has one
step length and a direction for tau, l0 has stages that remove residuals, and all three differ in
centring and in further correctors. Only `fori_loop` and the loop over iterations would be shared,
and those are in `jboost.base.loops`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import cholesky, loops, reduce
from jboost.base.types import Array
from jboost.example_weights.game import ScaledGame, ScaledGamePoint

# The share of the longest step that is taken, to stay inside the bounds. Nocedal and Wright (2006,
# Section 14.2) take 0.9 to 1; not tuned.
_TO_BOUNDARY = 0.97


class _NormalMatrix(NamedTuple):
    """The factored normal matrix, with the constraints added as rows of large weight."""

    matrix: Array  # [n + 2, m] (-B, y, -1)'
    constraints: Array  # [2, n + 2] of sum z d = 2 sigma b and sum d = 1
    curvature: Array  # [m] 1 / lambda, 0 where masked
    factor: Array  # [n + 2, n + 2] of the normal matrix with a unit diagonal
    stiffness: Array  # [] of the constraints
    unit: Array  # [n + 2] the scaling of rows and columns that gives that unit diagonal
    solved: Array  # [n + 2, 2] the inverse of the normal matrix times the constraints
    reduced: Array  # [2, 2] the constraints times `solved`


def _factor(game: ScaledGame, point: ScaledGamePoint) -> _NormalMatrix:
    theta = point.weights / point.column_slacks
    is_row, is_used = game.row_labels != 0, theta > 0
    below_cap = jnp.where(is_row, game.cap - point.row_weights, 1.0)
    curvature = jnp.where(
        is_row,
        1
        / (point.shortfall / below_cap + point.excess / jnp.where(is_row, point.row_weights, 1.0)),
        0.0,
    )
    stiffness = reduce.largest(curvature)
    matrix = jnp.concatenate(
        [
            jnp.where(is_used[:, None], -game.matrix, 0.0),
            game.row_labels[None],
            jnp.where(is_row, -1.0, 0.0)[None],
        ]
    )
    of_bias = jnp.concatenate(
        [
            jnp.where(is_used, game.column_labels, 0.0),
            jnp.stack([-2 * game.scale, jnp.zeros_like(game.scale)]),
        ]
    )
    of_sum = jnp.pad(jnp.where(is_used, -1.0, 0.0), (0, 2))
    proximal = jnp.pad(1 / jnp.where(is_used, theta, 1.0), (0, 2))
    normal = jnp.matmul(matrix * curvature[None, :], matrix.T, precision=lax.Precision.HIGHEST)
    total = cholesky.diagonal(normal) + stiffness * (of_bias**2 + of_sum**2) + proximal
    unit = lax.rsqrt(jnp.where(total > 0, total, 1.0))
    shift = jnp.where(total > 0, proximal * unit**2 + 10 * jnp.finfo(unit.dtype).eps, 1.0)
    normal = normal + stiffness * (
        of_bias[:, None] * of_bias[None, :] + of_sum[:, None] * of_sum[None, :]
    )
    factor = cholesky.factor(normal * unit[:, None] * unit[None, :] + cholesky.on_diagonal(shift))
    constraints = jnp.stack([of_bias, of_sum])
    solved = _solve(factor, unit, constraints.T)
    reduced = jnp.matmul(constraints, solved, precision=lax.Precision.HIGHEST)
    return _NormalMatrix(matrix, constraints, curvature, factor, stiffness, unit, solved, reduced)


def _solve(factor: Array, unit: Array, right: Array) -> Array:
    """The inverse of the normal matrix times right [n + 2, r]."""
    return unit[:, None] * cholesky.solve(factor, unit[:, None] * right)


class _Residuals(NamedTuple):
    """The residuals of the equality constraints at an iterate."""

    rows: Array  # [m] margins - gamma + xi - s
    balance: Array  # [2] sum z d - 2 sigma b and 1 - sum d
    columns: Array  # [n] edges - v + t
    free: Array  # [2] y'u - 2 sigma a and 1 - sum u


def _residuals(game: ScaledGame, point: ScaledGamePoint) -> _Residuals:
    reached = game.row_labels * point.bias - jnp.matmul(
        point.weights, game.matrix, precision=lax.Precision.HIGHEST
    )
    edge = game.column_labels * point.tilt - jnp.matmul(
        game.matrix, point.row_weights, precision=lax.Precision.HIGHEST
    )
    signed, total = reduce.totals(game.column_labels * point.weights, point.weights)
    row_signed, row_total = reduce.totals(game.row_labels * point.row_weights, point.row_weights)
    return _Residuals(
        rows=jnp.where(
            game.row_labels != 0, reached - point.level + point.shortfall - point.excess, 0.0
        ),
        balance=jnp.stack([signed - 2 * game.scale * point.bias, 1 - total]),
        columns=jnp.where(game.column_labels != 0, edge - point.value + point.column_slacks, 0.0),
        free=jnp.stack([row_signed - 2 * game.scale * point.tilt, 1 - row_total]),
    )


class _GameTargets(NamedTuple):
    """The required changes of the complementary products."""

    columns: Array  # [n] d t
    excess: Array  # [m] u s
    shortfall: Array  # [m] xi (C - u)


def _direction(
    game: ScaledGame,
    point: ScaledGamePoint,
    residual: _Residuals,
    newton: _NormalMatrix,
    targets: _GameTargets,
) -> ScaledGamePoint:
    """The Newton direction to the targets."""
    is_row, is_column = game.row_labels != 0, point.weights > 0
    safe_rows = jnp.where(is_row, point.row_weights, 1.0)
    below_cap = jnp.where(is_row, game.cap - point.row_weights, 1.0)
    safe_columns = jnp.where(is_column, point.weights, 1.0)
    missing = jnp.where(
        is_row, -residual.rows - targets.shortfall / below_cap + targets.excess / safe_rows, 0.0
    )
    of_columns = jnp.where(is_column, -residual.columns - targets.columns / safe_columns, 0.0)
    stationarity = jnp.concatenate([of_columns, -residual.free])
    right = (
        jnp.matmul(newton.matrix, newton.curvature * missing, precision=lax.Precision.HIGHEST)
        - stationarity
    )
    free = _solve(newton.factor, newton.unit, right[:, None])[:, 0]
    held = reduce.total(newton.constraints * free[None, :])
    duals = _solve_two(newton.reduced, -residual.balance - held)
    step = free + newton.solved[:, 0] * duals[0] + newton.solved[:, 1] * duals[1]
    rows = newton.curvature * (
        missing - jnp.matmul(step, newton.matrix, precision=lax.Precision.HIGHEST)
    )
    tilt, value = duals + newton.stiffness * residual.balance
    edge = game.column_labels * tilt - jnp.matmul(
        game.matrix, rows, precision=lax.Precision.HIGHEST
    )
    return ScaledGamePoint(
        weights=step[:-2],
        column_slacks=jnp.where(is_column, value - edge - residual.columns, 0.0),
        row_weights=rows,
        excess=jnp.where(is_row, (targets.excess - point.excess * rows) / safe_rows, 0.0),
        shortfall=jnp.where(is_row, (targets.shortfall + point.shortfall * rows) / below_cap, 0.0),
        bias=step[-2],
        level=step[-1],
        tilt=tilt,
        value=value,
    )


def _solve_two(matrix: Array, right: Array) -> Array:
    """Solves a positive definite 2 x 2 system, scaled first; the unknown of a row of zeros is 0."""
    diagonal = cholesky.diagonal(matrix)
    unit = jnp.where(diagonal > 0, lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1.0)), 0.0)
    off = matrix[0, 1] * unit[0] * unit[1]
    scaled = right * unit
    determinant = jnp.maximum((1 - off) * (1 + off), jnp.finfo(right.dtype).eps)
    return unit * (scaled - off * scaled[::-1]) / determinant


def _fall(values: Array, changes: Array) -> Array:
    """The relative rate at which positive values decrease; 0 for other values."""
    return jnp.where(values > 0, -changes / jnp.where(values > 0, values, 1.0), 0.0)


def _steps(
    game: ScaledGame, point: ScaledGamePoint, direction: ScaledGamePoint
) -> tuple[Array, Array]:
    """The longest steps of the primal and of the dual part: up to the first point at which one of
    the positive values is 0.
    """
    below_cap = jnp.where(game.row_labels != 0, game.cap - point.row_weights, 1.0)
    of_slacks = _fall(
        jnp.where(point.weights > 0, point.column_slacks, 0.0), direction.column_slacks
    )
    of_shortfalls = jnp.maximum(
        _fall(point.excess, direction.excess), _fall(point.shortfall, direction.shortfall)
    )
    of_rows = jnp.maximum(
        _fall(point.row_weights, direction.row_weights), _fall(below_cap, -direction.row_weights)
    )
    columns = reduce.several(
        (reduce.LARGEST, _fall(point.weights, direction.weights)), (reduce.LARGEST, of_slacks)
    )
    rows = reduce.several((reduce.LARGEST, of_shortfalls), (reduce.LARGEST, of_rows))
    primal, dual = (
        1 / jnp.maximum(jnp.maximum(*both), 1e-30) for both in zip(columns, rows, strict=True)
    )
    return primal, dual


def _move(
    point: ScaledGamePoint, direction: ScaledGamePoint, primal: Array, dual: Array
) -> ScaledGamePoint:
    lengths = ScaledGamePoint(primal, dual, dual, primal, primal, primal, primal, dual, dual)
    return jax.tree.map(
        lambda value, change, length: value + length * change, point, direction, lengths
    )


def _products(game: ScaledGame, point: ScaledGamePoint) -> _GameTargets:
    is_row = game.row_labels != 0
    return _GameTargets(
        point.weights * point.column_slacks,
        jnp.where(is_row, point.row_weights * point.excess, 0.0),
        jnp.where(is_row, (game.cap - point.row_weights) * point.shortfall, 0.0),
    )


def mean_product(game: ScaledGame, point: ScaledGamePoint) -> Array:
    """mu: the mean complementary product of an iterate, []."""
    products = _products(game, point)
    total = reduce.total(products.columns) + reduce.total(products.excess + products.shortfall)
    return total / jnp.maximum(2 * game.num_rows + game.num_columns, 1)


class _DirectionSearch(NamedTuple):
    """The last direction from an iterate."""

    direction: ScaledGamePoint  # the changes of all parts
    primal: Array  # [] the longest step of the primal part
    dual: Array  # []
    goal: Array  # [] the complementary product that the next direction aims at


def advance(game: ScaledGame, point: ScaledGamePoint) -> ScaledGamePoint:
    """The iterate after a predictor and a corrector step.

    Both are passes of one loop, so that their code is compiled once.
    """
    newton, residual, mean = (
        _factor(game, point),
        _residuals(game, point),
        mean_product(game, point),
    )

    def direct(_: Array, search: _DirectionSearch) -> _DirectionSearch:
        direction = _direction(game, point, residual, newton, _aim(game, point, search))
        primal, dual = _steps(game, point, direction)
        ahead = mean_product(
            game, _move(point, direction, jnp.minimum(primal, 1.0), jnp.minimum(dual, 1.0))
        )
        centring = jnp.clip((ahead / jnp.maximum(mean, jnp.finfo(mean.dtype).tiny)) ** 3, 1e-4, 1.0)
        return _DirectionSearch(direction, primal, dual, centring * mean)

    none = jnp.zeros_like(mean)
    search = loops.fori_loop(
        0, 2, direct, _DirectionSearch(jax.tree.map(jnp.zeros_like, point), none, none, none)
    )
    primal, dual = (
        jnp.minimum(_TO_BOUNDARY * length, 1.0) for length in (search.primal, search.dual)
    )
    return _move(point, search.direction, primal, dual)


def _aim(game: ScaledGame, point: ScaledGamePoint, search: _DirectionSearch) -> _GameTargets:
    """The changes that bring all complementary products to the goal, corrected by the second-order
    term of the last direction. For the predictor, goal and correction are 0.
    """
    products, direction, is_row = _products(game, point), search.direction, game.row_labels != 0
    return _GameTargets(
        jnp.where(
            game.column_labels != 0,
            search.goal - products.columns - direction.weights * direction.column_slacks,
            0.0,
        ),
        jnp.where(
            is_row, search.goal - products.excess - direction.row_weights * direction.excess, 0.0
        ),
        jnp.where(
            is_row,
            search.goal - products.shortfall + direction.row_weights * direction.shortfall,
            0.0,
        ),
    )
