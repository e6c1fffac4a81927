"""The linear program (5) of Naish-Guzman, Holden and Paquet as a game, and its interior point
method.

(5) is the maximum over d in the simplex of the minimum over u of u'Qd. u lies in the simplex with
u_i <= C, so that the penalty C is the cap of the row weights. Symbols: d is `weights` (one for each
column), u is `row_weights`, and Q_ij = y_i z_j / 2 - sigma B_ij with B_ij = y_i z_j P_ij / sigma.
sigma is `scale`, the largest P_ij.

The optimum is many orders of magnitude below 1/2, the size of the rank-one part of Q. That part is
therefore computed separately, with the variables b = sum_j z_j d_j / (2 sigma) and
a = sum_i y_i u_i / (2 sigma). Margins are y b - B d and edges are z a - B'u, both in units of
sigma, and their terms have similar sizes. The conditions of the central path are

    margins - gamma + xi - s = 0,   edges - v + t = 0,   d t = u s = xi (C - u) = mu.

The method is the predictor-corrector method of Mehrotra (1992). An iteration computes one Cholesky
factor of the size of the columns. The two constraints on b and sum d are added to the normal matrix
as rows with the weight of its largest entry (an augmented Lagrangian). Without these rows the
matrix becomes ill conditioned as the iterates approach the optimum.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import cholesky, loops, numerics, reduce
from jboost.base.brackets import widen
from jboost.base.types import Array

_TO_BOUNDARY = 0.97  # the share of the longest step that is taken, to stay inside the bounds
MOST_STALLED = 8  # after so many iterations without progress, rounding prevents further progress
# A warm start is raised to at least this multiple of the cold start, away from the boundary.
_LIFT = 0.1
_MOST_CAP = 2.0  # larger caps are reduced to this one: a cap of 1 or more never binds
# Row weights of a cold and of a warm start lie at most this fraction of the way from equal weights
# to the cap, so that they are strictly inside the cap.
_START_SHARE, _RESTART_SHARE = 0.7, 0.9


class Game(NamedTuple):
    """A program in units of `scale`. Masked rows and columns of the matrix are 0."""

    matrix: Array  # [n, m] B'; each row is a column of the program
    row_labels: Array  # [m] y, 0 where masked
    column_labels: Array  # [n] z, 0 where masked
    scale: Array  # [] sigma
    cap: Array  # [] C
    num_rows: Array  # [] float, those not masked
    num_columns: Array  # [] float


class Point(NamedTuple):
    """An iterate; slacks and multipliers of masked rows and columns are 1, their weights 0."""

    weights: Array  # [n] d
    column_slacks: Array  # [n] t
    row_weights: Array  # [m] u
    excess: Array  # [m] s
    shortfall: Array  # [m] xi
    bias: Array  # [] b
    level: Array  # [] gamma
    tilt: Array  # [] a
    value: Array  # [] v


class State(NamedTuple):
    """An iterate, the best bounds so far, and the weights that prove these bounds."""

    point: Point
    weights: Array  # [n] of the best lower bound
    row_weights: Array  # [m] of the best upper bound
    lower: Array  # [] in units of sigma, up to rounding
    upper: Array  # []
    product: Array  # [] the least mean complementary product
    num_iterations: Array  # [] int32
    num_stalled: Array  # [] int32 iterations in a row without progress


def make(disagreement: Array, row_labels: Array, column_labels: Array, cap: Array) -> Game:
    """The game of P' [n, m] (columns first), y [m] and z [n] (0 where masked), and C []."""
    signed = column_labels[:, None] * row_labels[None, :]
    masked = jnp.where(signed == 0, 0.0, disagreement)
    size = reduce.largest(masked, axis=(0, 1))
    scale = jnp.where(size > 0, size, 1.0)
    program = Game(
        signed * (masked / scale),
        row_labels,
        column_labels,
        scale,
        jnp.minimum(cap, _MOST_CAP),
        scale,
        scale,
    )
    return program._replace(num_rows=_count(row_labels), num_columns=_count(column_labels))


def take(game: Game, columns: Array) -> Game:
    """The game with some of its columns [k]."""
    column_labels = game.column_labels[columns]
    return game._replace(
        matrix=game.matrix[columns], column_labels=column_labels, num_columns=_count(column_labels)
    )


def _count(labels: Array) -> Array:
    return reduce.count(labels != 0, dtype=labels.dtype)


def margins(game: Game, weights: Array) -> Array:
    """y b - B d in units of sigma, [m]."""
    bias = reduce.total(game.column_labels * weights) / (2 * game.scale)
    return game.row_labels * bias - jnp.matmul(
        weights, game.matrix, precision=lax.Precision.HIGHEST
    )


def edges(game: Game, row_weights: Array) -> Array:
    """z a - B'u in units of sigma, [n]."""
    tilt = reduce.total(game.row_labels * row_weights) / (2 * game.scale)
    return game.column_labels * tilt - jnp.matmul(
        game.matrix, row_weights, precision=lax.Precision.HIGHEST
    )


def balanced(labels: Array) -> Array:
    """The distribution [n] that is uniform within each class; each of two classes has one half."""
    positive, negative = labels > 0, labels < 0
    num_positive, num_negative = reduce.totals(
        positive.astype(labels.dtype), negative.astype(labels.dtype)
    )
    share = jnp.where((num_positive > 0) & (num_negative > 0), 0.5, 1.0)
    each = jnp.where(
        positive, share / jnp.maximum(num_positive, 1), share / jnp.maximum(num_negative, 1)
    )
    return jnp.where(labels == 0, 0.0, each)


def allowed(game: Game, row_weights: Array) -> Array:
    """Row weights [m] near the given ones (not negative), of sum one and at most the cap, despite
    rounding.

    The excess above the cap is moved to rows of the same class that are below the cap, in
    proportion to their distance from it. This keeps the balance of the classes, to which edges are
    many orders of magnitude more sensitive than to other changes. What does not fit into the class
    is moved to the other one. If the cap allows no more than equal weights, they are equal.
    """
    return _capped(game, row_weights, game.cap)


def _capped(game: Game, row_weights: Array, cap: Array) -> Array:
    """As `allowed`, for any cap []."""

    def move(row_weights: Array, labels: Array, num_rows: Array, cap: Array) -> Array:
        even = 1 / jnp.maximum(widen(num_rows), 1)
        # reduced, so that rounding does not lift a weight above the cap
        limit = widen(cap) * (
            1 - 2 * float(jnp.finfo(cap.dtype).eps) - 4 * (labels.shape[0] + 2) * 2.0**-52
        )
        shares = widen(row_weights) / reduce.total(widen(row_weights))
        classes = jnp.stack([labels > 0, labels < 0])
        excess, free = (
            jnp.where(classes, jnp.maximum(part, 0.0)[None], 0.0)
            for part in (shares - limit, limit - shares)
        )
        total_excess, total_free = reduce.totals(excess, free)
        kept = jnp.minimum(total_excess, total_free)
        filled = numerics.safe_divide(kept + (total_excess - kept)[::-1], total_free)
        moved = jnp.minimum(shares, limit) + jnp.sum(free * filled[:, None], axis=0)
        return jnp.where(limit > even, moved, jnp.where(labels != 0, even, 0.0)).astype(
            row_weights.dtype
        )

    return numerics.in_64_bits(move)(row_weights, game.row_labels, game.num_rows, cap)


def _inside(game: Game, row_weights: Array, share: float) -> Array:
    """Row weights of sum one, at most a given share of the way from equal weights to the cap."""
    even = 1 / jnp.maximum(game.num_rows, 1)
    return _capped(game, row_weights, even + share * jnp.maximum(game.cap - even, 0.0))


def start(game: Game) -> Point:
    """Equal weights within each class, and slacks as large as the spread of margins and edges."""
    is_row, is_column = game.row_labels != 0, game.column_labels != 0
    weights = balanced(game.column_labels)
    row_weights = _inside(game, balanced(game.row_labels), _START_SHARE)
    reached, edge = margins(game, weights), edges(game, row_weights)
    count = jnp.maximum(game.num_rows, 1)
    level = numerics.masked_sum(reached, is_row) / count
    spread = numerics.masked_sum(jnp.abs(reached - level), is_row) / count + 1e-2
    value = numerics.masked_max(edge, is_column, fill=-jnp.inf) + spread
    value = jnp.where(game.num_columns > 0, value, 0.0)
    return Point(
        weights=weights,
        column_slacks=jnp.where(is_column, value - edge, 1.0),
        row_weights=row_weights,
        excess=jnp.where(is_row, jnp.maximum(reached - level, 0.0) + spread, 1.0),
        shortfall=jnp.where(is_row, jnp.maximum(level - reached, 0.0) + spread, 1.0),
        bias=reduce.total(game.column_labels * weights) / (2 * game.scale),
        level=level,
        tilt=reduce.total(game.row_labels * row_weights) / (2 * game.scale),
        value=value,
    )


class _Newton(NamedTuple):
    """The factored normal matrix, with the constraints added as rows of large weight."""

    matrix: Array  # [n + 2, m] (-B, y, -1)'
    constraints: Array  # [2, n + 2] of sum z d = 2 sigma b and sum d = 1
    curvature: Array  # [m] 1 / lambda, 0 where masked
    factor: Array  # [n + 2, n + 2] of the normal matrix with a unit diagonal
    stiffness: Array  # [] of the constraints
    unit: Array  # [n + 2] the scaling of rows and columns that gives that unit diagonal
    solved: Array  # [n + 2, 2] the inverse of the normal matrix times the constraints
    reduced: Array  # [2, 2] the constraints times `solved`


def _factor(game: Game, point: Point) -> _Newton:
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
    return _Newton(matrix, constraints, curvature, factor, stiffness, unit, solved, reduced)


def _solve(factor: Array, unit: Array, right: Array) -> Array:
    """The inverse of the normal matrix times right [n + 2, r]."""
    return unit[:, None] * cholesky.solve(factor, unit[:, None] * right)


class _Residuals(NamedTuple):
    """The residuals of the equality constraints at an iterate."""

    rows: Array  # [m] margins - gamma + xi - s
    balance: Array  # [2] sum z d - 2 sigma b and 1 - sum d
    columns: Array  # [n] edges - v + t
    free: Array  # [2] y'u - 2 sigma a and 1 - sum u


def _residuals(game: Game, point: Point) -> _Residuals:
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


class _Targets(NamedTuple):
    """The required changes of the complementary products."""

    columns: Array  # [n] d t
    excess: Array  # [m] u s
    shortfall: Array  # [m] xi (C - u)


def _direction(
    game: Game, point: Point, residual: _Residuals, newton: _Newton, targets: _Targets
) -> Point:
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
    return Point(
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


def _steps(game: Game, point: Point, direction: Point) -> tuple[Array, Array]:
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


def _move(point: Point, direction: Point, primal: Array, dual: Array) -> Point:
    lengths = Point(primal, dual, dual, primal, primal, primal, primal, dual, dual)
    return jax.tree.map(
        lambda value, change, length: value + length * change, point, direction, lengths
    )


def _products(game: Game, point: Point) -> _Targets:
    is_row = game.row_labels != 0
    return _Targets(
        point.weights * point.column_slacks,
        jnp.where(is_row, point.row_weights * point.excess, 0.0),
        jnp.where(is_row, (game.cap - point.row_weights) * point.shortfall, 0.0),
    )


def mean_product(game: Game, point: Point) -> Array:
    """mu: the mean complementary product of an iterate, []."""
    products = _products(game, point)
    total = reduce.total(products.columns) + reduce.total(products.excess + products.shortfall)
    return total / jnp.maximum(2 * game.num_rows + game.num_columns, 1)


class _Search(NamedTuple):
    """The last direction from an iterate."""

    direction: Point  # the changes of all parts
    primal: Array  # [] the longest step of the primal part
    dual: Array  # []
    goal: Array  # [] the complementary product that the next direction aims at


def advance(game: Game, point: Point) -> Point:
    """The iterate after a predictor and a corrector step.

    Both are passes of one loop, so that their code is compiled once.
    """
    newton, residual, mean = (
        _factor(game, point),
        _residuals(game, point),
        mean_product(game, point),
    )

    def direct(_: Array, search: _Search) -> _Search:
        direction = _direction(game, point, residual, newton, _aim(game, point, search))
        primal, dual = _steps(game, point, direction)
        ahead = mean_product(
            game, _move(point, direction, jnp.minimum(primal, 1.0), jnp.minimum(dual, 1.0))
        )
        centring = jnp.clip((ahead / jnp.maximum(mean, jnp.finfo(mean.dtype).tiny)) ** 3, 1e-4, 1.0)
        return _Search(direction, primal, dual, centring * mean)

    none = jnp.zeros_like(mean)
    search = loops.fori_loop(
        0, 2, direct, _Search(jax.tree.map(jnp.zeros_like, point), none, none, none)
    )
    primal, dual = (
        jnp.minimum(_TO_BOUNDARY * length, 1.0) for length in (search.primal, search.dual)
    )
    return _move(point, search.direction, primal, dual)


def _aim(game: Game, point: Point, search: _Search) -> _Targets:
    """The changes that bring all complementary products to the goal, corrected by the second-order
    term of the last direction. For the predictor, goal and correction are 0.
    """
    products, direction, is_row = _products(game, point), search.direction, game.row_labels != 0
    return _Targets(
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


def bounds(game: Game, point: Point) -> tuple[Array, Array]:
    """The lower bound that the weights of an iterate prove, and the upper bound of its row weights,
    [] each. They are valid up to rounding, since both weights are made feasible first.
    """
    edge = edges(game, allowed(game, point.row_weights))
    return attained(game, point), numerics.masked_max(edge, game.column_labels != 0, fill=-jnp.inf)


def attained(game: Game, point: Point) -> Array:
    """The lower bound [] that the weights of an iterate prove once they are scaled to sum one."""
    return _attained(game, point.level, margins(game, point.weights / reduce.total(point.weights)))


def _attained(game: Game, level: Array, reached: Array) -> Array:
    """The objective [] of margins [m] at a level gamma."""
    return level - game.cap * numerics.masked_sum(
        jnp.maximum(level - reached, 0.0), game.row_labels != 0
    )


def restart(game: Game, before: Point) -> Point:
    """A starting point made from an iterate of a game with the same rows and columns and another
    cap.

    The iterate is moved away from the boundary. If it is not finite, the result is that of `start`.
    """
    fresh = start(game)

    def lift(value: Array, usual: Array) -> Array:
        return jnp.maximum(value, _LIFT * usual)

    shift = _LIFT * numerics.masked_min(fresh.column_slacks, game.column_labels != 0, fill=jnp.inf)
    shift = jnp.where(jnp.isfinite(shift), shift, 0.0)
    lifted = before._replace(
        weights=lift(before.weights, fresh.weights),
        column_slacks=lift(before.column_slacks, fresh.column_slacks),
        row_weights=_inside(game, lift(before.row_weights, fresh.row_weights), _RESTART_SHARE),
        excess=lift(before.excess, fresh.excess),
        shortfall=lift(before.shortfall, fresh.shortfall),
        value=before.value + shift,
    )
    of_columns = jnp.isfinite(before.weights) & jnp.isfinite(before.column_slacks)
    of_rows = (
        jnp.isfinite(before.row_weights)
        & jnp.isfinite(before.excess)
        & jnp.isfinite(before.shortfall)
    )
    of_all = jnp.isfinite(jnp.stack([before.bias, before.level, before.tilt, before.value]))
    is_sound = reduce.all_true(of_columns) & reduce.all_true(of_rows) & jnp.all(of_all)
    chosen: Point = loops.cond(is_sound, lambda: lifted, lambda: fresh)
    return chosen


def first_point(game: Game, initial: Point | None = None) -> Point:
    """The point before the first iteration. `initial` is an iterate of a game with the same rows
    and columns, or None.
    """
    return start(game) if initial is None else restart(game, initial)


def begin(game: Game, initial: Point | None = None) -> State:
    """The state before the first iteration. Its bounds are those of equal row weights and of the
    best column for them, which are optimal for a cap of 1 / m.
    """
    is_row = game.row_labels != 0
    even = jnp.where(is_row, 1 / jnp.maximum(game.num_rows, 1), 0.0)
    edge = jnp.where(game.column_labels != 0, edges(game, even), -jnp.inf)
    upper = reduce.largest(edge)
    weights = jnp.where(
        jnp.arange(edge.shape[0]) == numerics.first_true(edge == upper), 1.0, jnp.zeros_like(edge)
    )
    reached = margins(game, weights)
    lower = _attained(game, numerics.masked_max(reached, is_row, fill=-jnp.inf), reached)
    none = jnp.zeros((), jnp.int32)
    return State(
        first_point(game, initial),
        weights,
        even,
        lower,
        upper,
        jnp.full_like(lower, jnp.inf),
        none,
        none,
    )


def pruned(state: State) -> State:
    """The state with exact zeros for the columns that strict complementarity excludes from the
    support, ready for the iterations that restore feasibility.
    """
    point = state.point
    weights = jnp.where(point.weights > point.column_slacks, point.weights, 0.0)
    lower, none = jnp.full_like(state.lower, -jnp.inf), jnp.zeros_like(state.num_stalled)
    return state._replace(
        point=point._replace(weights=weights), weights=weights, lower=lower, num_stalled=none
    )


def is_as_near(after: State, before: State, tolerance: Array, floor: Array) -> Array:
    """Whether the gap is within the tolerance or no larger than before, []."""
    gap = after.upper - after.lower
    return jnp.isfinite(gap) & (
        gap <= jnp.maximum(_wanted(before, tolerance, floor), before.upper - before.lower)
    )


def _wanted(state: State, tolerance: Array, floor: Array) -> Array:
    """The largest gap that the tolerance allows, []; 0 while a bound is infinite."""
    size = jnp.maximum(jnp.abs(state.upper), jnp.abs(state.lower))
    return jnp.where(jnp.isfinite(size), tolerance * size + floor, 0.0)


def is_open(state: State, tolerance: Array, floor: Array) -> Array:
    """Whether the gap between the bounds is larger than the tolerance allows, []."""
    return state.upper - state.lower > _wanted(state, tolerance, floor)


def helps(state: State) -> Array:
    """Whether iterations still make progress, []."""
    return jnp.isfinite(state.point.value) & (state.num_stalled < MOST_STALLED)


def record(state: State, point: Point, lower: Array, upper: Array, product: Array) -> State:
    """The state after an iteration that ends in `point`. The weights of the point prove `lower`,
    its row weights prove `upper`, and `product` is its mean complementary product.
    """
    # comparisons with NaN, which rounding may cause, are False
    is_higher, is_lower, is_nearer = (
        lower > state.lower,
        upper < state.upper,
        product < state.product,
    )
    weights, lower = loops.cond(
        is_higher, lambda: (point.weights, lower), lambda: (state.weights, state.lower)
    )
    row_weights, upper = loops.cond(
        is_lower, lambda: (point.row_weights, upper), lambda: (state.row_weights, state.upper)
    )
    return State(
        point=point,
        weights=weights,
        row_weights=row_weights,
        lower=lower,
        upper=upper,
        product=jnp.where(is_nearer, product, state.product),
        num_iterations=state.num_iterations + 1,
        num_stalled=jnp.where(is_higher | is_lower | is_nearer, 0, state.num_stalled + 1).astype(
            jnp.int32
        ),
    )


def iterate(
    game: Game, state: State, *, tolerance: Array, floor: Array, num_iterations: Array
) -> State:
    """Iterates over all columns until the gap is closed, progress ends, or `num_iterations` []
    are done.
    """
    end = state.num_iterations + num_iterations

    def step(state: State) -> State:
        point = advance(game, state.point)
        lower, upper = bounds(game, point)
        return record(state, point, lower, upper, mean_product(game, point))

    def unfinished(state: State) -> Array:
        return is_open(state, tolerance, floor) & helps(state) & (state.num_iterations < end)

    return loops.while_loop(unfinished, step, state)
