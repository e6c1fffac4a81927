"""The linear program of paper 003 as a game, and its interior point method.

(5) is max over d in the simplex of min over u of u'Qd, u in the simplex with u_i <= C: the penalty is the cap of the row weights.
Symbols: d `weights` (columns), u `row_weights`, Q_ij = y_i z_j / 2 - sigma B_ij with B_ij = y_i z_j P_ij / sigma and sigma `scale` the largest P_ij.

The optimum is many orders of magnitude below the entries 1/2 of Q: the rank-one part is split off. With b = sum_j z_j d_j / (2 sigma) and
a = sum_i y_i u_i / (2 sigma) as variables of their own, margins are y b - B d and edges z a - B'u, in units of sigma and all of a size:

    margins - gamma + xi - s = 0,   edges - v + t = 0,   d t = u s = xi (C - u) = mu.

Mehrotra's predictor and corrector (1992), one Cholesky factor of the size of the columns an iteration. The two constraints that hold b and sum d
enter the normal matrix as rows as stiff as the stiffest (an augmented Lagrangian), without which it is as ill conditioned as the point is optimal.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve

from jboost.base import loops, numerics
from jboost.base.brackets import widen
from jboost.base.types import Array

_TO_BOUNDARY = 0.97
MOST_STALLED = 8  # iterations without progress, after which rounding is to blame
_MOST_REPAIRS = 8
_LIFT = 0.1  # of the usual start, below which no part of a warm one lies
_MOST_CAP = 2.0  # with a cap of 1 or more nothing is capped
_START_SHARE, _RESTART_SHARE = 0.7, 0.9  # of the way from even row weights to the cap, as far as those of a start go


class Game(NamedTuple):
    """A program in units of `scale`. Masked rows and columns of the matrix are 0."""

    matrix: Array  # [n, m] B', a column of the program in each row
    row_labels: Array  # [m] y, 0 where masked
    column_labels: Array  # [n] z, 0 where masked
    scale: Array  # [] sigma
    cap: Array  # [] C


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
    """An iterate, and the best bounds so far with what proves them."""

    point: Point
    weights: Array  # [n] of the best lower bound
    row_weights: Array  # [m] of the best upper bound
    lower: Array  # [] in units of sigma, up to rounding
    upper: Array  # []
    product: Array  # [] the least mean complementary product
    num_iterations: Array  # [] int32
    num_stalled: Array  # [] int32 iterations in a row without progress


def make(disagreement: Array, row_labels: Array, column_labels: Array, cap: Array) -> Game:
    """The game of P' [n, m] (columns first), y [m] and z [n], 0 where masked, and C []."""
    signed = column_labels[:, None] * row_labels[None, :]
    masked = jnp.where(signed == 0, 0.0, disagreement)
    size = jnp.max(masked, initial=0.0)
    scale = jnp.where(size > 0, size, 1.0)
    return Game(signed * (masked / scale), row_labels, column_labels, scale, jnp.minimum(cap, _MOST_CAP))


def margins(game: Game, weights: Array) -> Array:
    """y b - B d in units of sigma, [m]."""
    bias = jnp.sum(game.column_labels * weights) / (2 * game.scale)
    return game.row_labels * bias - jnp.matmul(weights, game.matrix, precision=lax.Precision.HIGHEST)


def edges(game: Game, row_weights: Array) -> Array:
    """z a - B'u in units of sigma, [n]."""
    tilt = jnp.sum(game.row_labels * row_weights) / (2 * game.scale)
    return game.column_labels * tilt - jnp.matmul(game.matrix, row_weights, precision=lax.Precision.HIGHEST)


def _balanced(labels: Array) -> Array:
    """A distribution that gives both classes, where there are two, one half, [n]."""
    positive, negative = labels > 0, labels < 0
    num_positive, num_negative = jnp.sum(positive, dtype=labels.dtype), jnp.sum(negative, dtype=labels.dtype)
    share = jnp.where((num_positive > 0) & (num_negative > 0), 0.5, 1.0)
    each = jnp.where(positive, share / jnp.maximum(num_positive, 1), share / jnp.maximum(num_negative, 1))
    return jnp.where(labels == 0, 0.0, each)


def allowed(game: Game, row_weights: Array) -> Array:
    """Row weights near to others, not negative [m], scaled to sum one and by no rounding above the cap.

    What is above the cap goes to the rows of the same class that are below, in the shares of their room, as edges are many orders of magnitude more
    sensitive to the balance of the classes; and to the other class where there is no more room. Where there is none at all they are even.
    """
    return _capped(row_weights, game.row_labels, game.cap)


def _capped(row_weights: Array, labels: Array, cap: Array) -> Array:
    """As `allowed`, for any cap []."""

    def move(row_weights: Array, labels: Array, cap: Array) -> Array:
        even = 1 / jnp.maximum(jnp.sum(labels != 0, dtype=jnp.int32), 1).astype(jnp.float64)
        limit = widen(cap) * (1 - 2 * float(jnp.finfo(cap.dtype).eps) - 4 * (labels.shape[0] + 2) * 2.0**-52)  # so that no rounding exceeds the cap
        shares = widen(row_weights) / jnp.sum(widen(row_weights))
        classes = jnp.stack([labels > 0, labels < 0])
        excess, room = (jnp.where(classes, jnp.maximum(part, 0.0)[None], 0.0) for part in (shares - limit, limit - shares))
        totals, rooms = jnp.sum(excess, axis=1), jnp.sum(room, axis=1)
        kept = jnp.minimum(totals, rooms)
        filled = numerics.safe_divide(kept + (totals - kept)[::-1], rooms)
        moved = jnp.minimum(shares, limit) + jnp.sum(room * filled[:, None], axis=0)
        return jnp.where(limit > even, moved, jnp.where(labels != 0, even, 0.0)).astype(row_weights.dtype)

    return numerics.in_64_bits(move)(row_weights, labels, cap)


def _inside(game: Game, row_weights: Array, share: float) -> Array:
    """Row weights of sum one, a share of the way from even ones to the cap at most."""
    even = 1 / jnp.maximum(jnp.sum(game.row_labels != 0, dtype=game.cap.dtype), 1)
    return _capped(row_weights, game.row_labels, even + share * jnp.maximum(game.cap - even, 0.0))


def start(game: Game) -> Point:
    """Even weights, and slacks of the size of the spread of margins and edges."""
    is_row, is_column = game.row_labels != 0, game.column_labels != 0
    weights = _balanced(game.column_labels)
    row_weights = _inside(game, _balanced(game.row_labels), _START_SHARE)
    reached, edge = margins(game, weights), edges(game, row_weights)
    count = jnp.maximum(jnp.sum(is_row, dtype=reached.dtype), 1)
    level = numerics.masked_sum(reached, is_row) / count
    spread = numerics.masked_sum(jnp.abs(reached - level), is_row) / count + 1e-2
    value = numerics.masked_max(edge, is_column, fill=-jnp.inf) + spread
    value = jnp.where(jnp.any(is_column), value, 0.0)
    return Point(
        weights=weights,
        column_slacks=jnp.where(is_column, value - edge, 1.0),
        row_weights=row_weights,
        excess=jnp.where(is_row, jnp.maximum(reached - level, 0.0) + spread, 1.0),
        shortfall=jnp.where(is_row, jnp.maximum(level - reached, 0.0) + spread, 1.0),
        bias=jnp.sum(game.column_labels * weights) / (2 * game.scale),
        level=level,
        tilt=jnp.sum(game.row_labels * row_weights) / (2 * game.scale),
        value=value,
    )


class _Newton(NamedTuple):
    """What the directions from one iterate share."""

    matrix: Array  # [n + 2, m] (-B, y, -1)'
    curvature: Array  # [m] 1 / lambda, 0 where masked
    factor: Array  # [n + 2, n + 2] of the normal matrix, the constraints added as stiff rows, with a unit diagonal
    stiffness: Array  # [] of these rows
    unit: Array  # [n + 2]
    constraints: Array  # [2, n + 2] of sum z d = 2 sigma b and sum d = 1
    solved: Array  # [n + 2, 2] the normal matrix's inverse times these
    reduced: Array  # [2, 2]


def _prepare(game: Game, point: Point) -> _Newton:
    is_row = game.row_labels != 0
    theta = point.weights / point.column_slacks
    is_used = theta > 0
    room = jnp.where(is_row, game.cap - point.row_weights, 1.0)
    stiffness = point.shortfall / room + point.excess / jnp.where(is_row, point.row_weights, 1.0)
    curvature = jnp.where(is_row, 1 / stiffness, 0.0)
    ones = jnp.where(is_row, 1.0, 0.0)
    matrix = jnp.concatenate([jnp.where(is_used[:, None], -game.matrix, 0.0), game.row_labels[None], -ones[None]])
    shared = jnp.where(is_used, 1.0, 0.0)
    none = jnp.zeros((2,), theta.dtype)
    constraints = jnp.stack([jnp.concatenate([game.column_labels * shared, none.at[0].set(-2 * game.scale)]), jnp.concatenate([-shared, none])])
    stiffness = jnp.max(curvature)
    rows = jnp.concatenate([matrix, constraints.T], axis=1)
    curvatures = jnp.concatenate([curvature, jnp.stack([stiffness, stiffness])])
    normal = jnp.matmul(rows * curvatures[None, :], rows.T, precision=lax.Precision.HIGHEST)
    proximal = jnp.concatenate([jnp.where(is_used, 1 / jnp.where(is_used, theta, 1.0), 1.0), none])
    total = jnp.diagonal(normal) + proximal
    unit = lax.rsqrt(jnp.where(total > 0, total, 1.0))
    scaled = normal * unit[:, None] * unit[None, :]
    eps = jnp.finfo(theta.dtype).eps
    factor = lax.linalg.cholesky(scaled + jnp.diag(jnp.where(total > 0, proximal * unit**2 + 10 * eps, 1.0)), symmetrize_input=False)
    solved = _solve(factor, unit, constraints.T)
    reduced = jnp.matmul(constraints, solved, precision=lax.Precision.HIGHEST)
    return _Newton(matrix, curvature, factor, stiffness, unit, constraints, solved, reduced)


def _solve(factor: Array, unit: Array, right: Array) -> Array:
    """The inverse of the normal matrix times right [n + 2, r]."""
    return unit[:, None] * cho_solve((factor, True), unit[:, None] * right)


class _Residuals(NamedTuple):
    rows: Array  # [m] margins - gamma + xi - s
    balance: Array  # [2] sum z d - 2 sigma b and 1 - sum d
    columns: Array  # [n] edges - v + t
    free: Array  # [2] y'u - 2 sigma a and 1 - sum u


def _residuals(game: Game, point: Point) -> _Residuals:
    is_row, is_column = game.row_labels != 0, game.column_labels != 0
    reached = game.row_labels * point.bias - jnp.matmul(point.weights, game.matrix, precision=lax.Precision.HIGHEST)
    edge = game.column_labels * point.tilt - jnp.matmul(game.matrix, point.row_weights, precision=lax.Precision.HIGHEST)
    return _Residuals(
        rows=jnp.where(is_row, reached - point.level + point.shortfall - point.excess, 0.0),
        balance=jnp.stack([jnp.sum(game.column_labels * point.weights) - 2 * game.scale * point.bias, 1 - jnp.sum(point.weights)]),
        columns=jnp.where(is_column, edge - point.value + point.column_slacks, 0.0),
        free=jnp.stack([jnp.sum(game.row_labels * point.row_weights) - 2 * game.scale * point.tilt, 1 - jnp.sum(point.row_weights)]),
    )


class _Targets(NamedTuple):
    """What the complementary products are to change by."""

    columns: Array  # [n] d t
    excess: Array  # [m] u s
    shortfall: Array  # [m] xi (C - u)


def _direction(game: Game, point: Point, residual: _Residuals, newton: _Newton, targets: _Targets) -> Point:
    """The Newton direction to the targets."""
    is_row, is_column = game.row_labels != 0, point.weights > 0
    safe_rows = jnp.where(is_row, point.row_weights, 1.0)
    room = jnp.where(is_row, game.cap - point.row_weights, 1.0)
    safe_columns = jnp.where(is_column, point.weights, 1.0)
    missing = jnp.where(is_row, -residual.rows - targets.shortfall / room + targets.excess / safe_rows, 0.0)
    pull = jnp.where(is_column, -residual.columns - targets.columns / safe_columns, 0.0)
    stationarity = jnp.concatenate([pull, -residual.free])
    right = jnp.matmul(newton.matrix, newton.curvature * missing, precision=lax.Precision.HIGHEST) - stationarity
    free = _solve(newton.factor, newton.unit, right[:, None])[:, 0]
    wanted = -residual.balance - jnp.matmul(newton.constraints, free, precision=lax.Precision.HIGHEST)
    duals = _solve_two(newton.reduced, wanted)
    step = free + jnp.matmul(newton.solved, duals, precision=lax.Precision.HIGHEST)
    rows = newton.curvature * (missing - jnp.matmul(step, newton.matrix, precision=lax.Precision.HIGHEST))
    tilt, value = duals + newton.stiffness * residual.balance
    edge = game.column_labels * tilt - jnp.matmul(game.matrix, rows, precision=lax.Precision.HIGHEST)
    return Point(
        weights=step[:-2],
        column_slacks=jnp.where(is_column, value - edge - residual.columns, 0.0),
        row_weights=rows,
        excess=jnp.where(is_row, (targets.excess - point.excess * rows) / safe_rows, 0.0),
        shortfall=jnp.where(is_row, (targets.shortfall + point.shortfall * rows) / room, 0.0),
        bias=step[-2],
        level=step[-1],
        tilt=tilt,
        value=value,
    )


def _solve_two(matrix: Array, right: Array) -> Array:
    """A positive definite 2 x 2 system, scaled; a row of zeros leaves its unknown at 0."""
    unit = jnp.where(jnp.diagonal(matrix) > 0, lax.rsqrt(jnp.where(jnp.diagonal(matrix) > 0, jnp.diagonal(matrix), 1.0)), 0.0)
    off = matrix[0, 1] * unit[0] * unit[1]
    scaled = right * unit
    determinant = jnp.maximum((1 - off) * (1 + off), jnp.finfo(right.dtype).eps)
    return unit * jnp.stack([scaled[0] - off * scaled[1], scaled[1] - off * scaled[0]]) / determinant


def _longest(values: Array, changes: Array) -> Array:
    """The step [] at which the first of the positive values is 0."""
    return 1 / jnp.maximum(jnp.max(jnp.where(values > 0, -changes / jnp.where(values > 0, values, 1.0), 0.0), initial=0.0), 1e-30)


def _steps(game: Game, point: Point, direction: Point) -> tuple[Array, Array]:
    """The longest steps of the primal and of the dual part."""
    room = jnp.where(game.row_labels != 0, game.cap - point.row_weights, 1.0)
    primal = [_longest(point.weights, direction.weights), _longest(point.excess, direction.excess), _longest(point.shortfall, direction.shortfall)]
    dual = [_longest(point.row_weights, direction.row_weights), _longest(room, -direction.row_weights)]
    dual.append(_longest(jnp.where(point.weights > 0, point.column_slacks, 0.0), direction.column_slacks))
    return jnp.min(jnp.stack(primal)), jnp.min(jnp.stack(dual))


def _move(point: Point, direction: Point, primal: Array, dual: Array) -> Point:
    lengths = Point(primal, dual, dual, primal, primal, primal, primal, dual, dual)
    return jax.tree.map(lambda value, change, length: value + length * change, point, direction, lengths)


def _products(game: Game, point: Point) -> _Targets:
    is_row = game.row_labels != 0
    return _Targets(
        point.weights * point.column_slacks,
        jnp.where(is_row, point.row_weights * point.excess, 0.0),
        jnp.where(is_row, (game.cap - point.row_weights) * point.shortfall, 0.0),
    )


def mean_product(game: Game, point: Point) -> Array:
    """mu: the mean complementary product of an iterate, []."""
    return _mean(game, _products(game, point))


def _mean(game: Game, products: _Targets) -> Array:
    count = 2 * jnp.sum(game.row_labels != 0, dtype=game.cap.dtype) + jnp.sum(game.column_labels != 0, dtype=game.cap.dtype)
    return sum(jnp.sum(part) for part in products) / jnp.maximum(count, 1)


def advance(game: Game, point: Point) -> Point:
    """The iterate after a predictor and a corrector."""
    newton = _prepare(game, point)
    residual = _residuals(game, point)
    products = _products(game, point)
    mean = _mean(game, products)
    affine = _direction(game, point, residual, newton, jax.tree.map(jnp.negative, products))
    primal, dual = (jnp.minimum(length, 1.0) for length in _steps(game, point, affine))
    ahead = mean_product(game, _move(point, affine, primal, dual))
    centring = jnp.clip((ahead / jnp.maximum(mean, jnp.finfo(mean.dtype).tiny)) ** 3, 1e-4, 1.0)
    goal = centring * mean
    targets = _Targets(
        jnp.where(game.column_labels != 0, goal - products.columns - affine.weights * affine.column_slacks, 0.0),
        jnp.where(game.row_labels != 0, goal - products.excess - affine.row_weights * affine.excess, 0.0),
        jnp.where(game.row_labels != 0, goal - products.shortfall + affine.row_weights * affine.shortfall, 0.0),
    )
    direction = _direction(game, point, residual, newton, targets)
    primal, dual = _steps(game, point, direction)
    return _move(point, direction, jnp.minimum(_TO_BOUNDARY * primal, 1.0), jnp.minimum(_TO_BOUNDARY * dual, 1.0))


def bounds(game: Game, point: Point) -> tuple[Array, Array]:
    """What the iterate's weights attain and its row weights leave, [] each: valid up to rounding, as both are made feasible."""
    lower = _attained(game, point.level, margins(game, point.weights / jnp.sum(point.weights)))
    upper = numerics.masked_max(edges(game, allowed(game, point.row_weights)), game.column_labels != 0, fill=-jnp.inf)
    return lower, upper


def _attained(game: Game, level: Array, reached: Array) -> Array:
    """What margins [m] are worth at a level."""
    return level - game.cap * numerics.masked_sum(jnp.maximum(level - reached, 0.0), game.row_labels != 0)


def restart(game: Game, before: Point) -> Point:
    """An iterate of a game of the same rows and columns but another cap, moved away from the boundary, as the start of this one.

    Where rounding has spoiled the iterate, `start`.
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
    is_sound = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in before]))
    return jax.tree.map(lambda warm, cold: jnp.where(is_sound, warm, cold), lifted, fresh)


def first_point(game: Game, initial: Point | None = None) -> Point:
    """The point before the first iteration, from one of a game of the same rows and columns or from none."""
    return start(game) if initial is None else restart(game, initial)


def begin(game: Game, initial: Point | None = None) -> State:
    """The state before the first iteration, whose bounds are those of even row weights and of their best column: the optimum for a cap of 1 / m."""
    is_row = game.row_labels != 0
    even = jnp.where(is_row, 1 / jnp.maximum(jnp.sum(is_row, dtype=game.cap.dtype), 1), 0.0)
    edge = jnp.where(game.column_labels != 0, edges(game, even), -jnp.inf)
    upper = jnp.max(edge, initial=-jnp.inf)
    weights = jnp.where(jnp.arange(edge.shape[0]) == numerics.first_true(edge == upper), 1.0, jnp.zeros_like(edge))
    reached = margins(game, weights)
    lower = _attained(game, numerics.masked_max(reached, is_row, fill=-jnp.inf), reached)
    none = jnp.zeros((), jnp.int32)
    return State(first_point(game, initial), weights, even, lower, upper, jnp.full_like(lower, jnp.inf), none, none)


def solve(game: Game, *, tolerance: Array, floor: Array, max_iterations: int, initial: Point | None = None) -> State:
    """Iterates until upper - lower <= tolerance * the larger of their sizes + floor (in units of sigma), or rounding stops it."""
    return iterate(game, begin(game, initial), tolerance=tolerance, floor=floor, max_iterations=max_iterations)


def prune(game: Game, state: State, *, tolerance: Array, floor: Array) -> State:
    """The state with exact zeros for the columns that strict complementarity tells from the support, after the few iterations that repair the rest.

    Where these do not bring the bounds as near to each other as was asked for, or as they were, the state as it is.
    """
    after = repair(game, state, tolerance=tolerance, floor=floor)
    is_taken = is_as_near(after, state, tolerance, floor)
    return jax.tree.map(lambda new, old: jnp.where(is_taken, new, old), after, state)


def repair(game: Game, state: State, *, tolerance: Array, floor: Array) -> State:
    """The state with exact zeros for the columns off the support, and a few iterations on."""
    point = state.point
    pruned = jnp.where(point.weights > point.column_slacks, point.weights, 0.0)
    fresh = state._replace(
        point=point._replace(weights=pruned), weights=pruned, lower=-jnp.inf * jnp.ones_like(state.lower), num_stalled=jnp.zeros((), jnp.int32)
    )
    return iterate(game, fresh, tolerance=tolerance, floor=floor, max_iterations=_MOST_REPAIRS)


def is_as_near(after: State, before: State, tolerance: Array, floor: Array) -> Array:
    """Whether the bounds are as near to each other as was asked for, or as they were before, []."""
    gap = after.upper - after.lower
    return jnp.isfinite(gap) & (gap <= jnp.maximum(_wanted(before, tolerance, floor), before.upper - before.lower))


def _wanted(state: State, tolerance: Array, floor: Array) -> Array:
    """The gap that was asked for, 0 while a bound is infinite, []."""
    size = jnp.maximum(jnp.abs(state.upper), jnp.abs(state.lower))
    return jnp.where(jnp.isfinite(size), tolerance * size + floor, 0.0)


def is_open(state: State, tolerance: Array, floor: Array) -> Array:
    """Whether the bounds are farther apart than was asked for, []."""
    return state.upper - state.lower > _wanted(state, tolerance, floor)


def helps(state: State) -> Array:
    """Whether iterations still bring the bounds nearer, []."""
    return jnp.isfinite(state.point.value) & (state.num_stalled < MOST_STALLED)


def record(state: State, point: Point, weights: Array, lower: Array, upper: Array, product: Array) -> State:
    """The state after an iteration that ends in a point; `weights` [n] prove the lower bound, those of the rows the upper one."""
    is_higher, is_lower, is_nearer = lower > state.lower, upper < state.upper, product < state.product  # False where rounding made them NaN
    progresses = is_higher | is_lower | is_nearer
    return State(
        point=point,
        weights=jnp.where(is_higher, weights, state.weights),
        row_weights=jnp.where(is_lower, point.row_weights, state.row_weights),
        lower=jnp.where(is_higher, lower, state.lower),
        upper=jnp.where(is_lower, upper, state.upper),
        product=jnp.where(is_nearer, product, state.product),
        num_iterations=state.num_iterations + 1,
        num_stalled=jnp.where(progresses, 0, state.num_stalled + 1).astype(jnp.int32),
    )


def iterate(game: Game, state: State, *, tolerance: Array, floor: Array, max_iterations: int) -> State:
    """Iterations over all columns, until they are finished."""

    def step(state: State) -> State:
        point = advance(game, state.point)
        lower, upper = bounds(game, point)
        return record(state, point, point.weights, lower, upper, mean_product(game, point))

    def unfinished(state: State) -> Array:
        return is_open(state, tolerance, floor) & helps(state)

    return loops.bounded_loop(step, unfinished, state, max_checks=max_iterations)[0]
