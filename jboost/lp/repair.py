"""A feasible point next to one that rounding keeps off its rows: found, and proven to exist.

Let E be the rows that the point misses, or meets by equality, and r what they miss; inequalities ask for a little more, as no proof is needed of rows
that are met with something left. The correction dx = W A_E' (A_E W A_E')^-1 r meets them; with w_j the squared distance of x_j to its nearer bound it
hardly moves what is close to one. A first correction is made in floats, with a ridge, so that rows may depend on one another, as at a degenerate
vertex. What then remains is smaller than any float shows, and is bounded: with R an approximate inverse of the scaled normal matrix K and
|I - R K| <= alpha < 1, K is regular and |K^-1 r| <= |R| |r| / (1 - alpha) in the largest norm (Rump 1999; Jansson 2004). So each |dx_j| <= radius_j,
and rows, bounds and objective are tested with x +- radius in place of a point that need not be a float. Products too small for a float count as 0 and
are bounded like rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve

from jboost.base import brackets, loops, numerics
from jboost.base.types import Array
from jboost.lp.problem import LinearProgram, fits_in_memory

_NUM_MOVES = 4
_CLEAR = 4.0  # roundings of the terms of a row
_NEAR = 8.0  # times the worst miss: rows that a move would spoil


class Repaired(NamedTuple):
    """A point, and what is proven of its neighbourhood; where nothing is of any, the last one."""

    primal: Array  # [n]
    upper_bound: Array  # [] the largest objective that a feasible point next to it may have; +inf where none is proven to exist


class _Rows(NamedTuple):
    """Rows of which some, at most k, are to be met exactly."""

    index: Array  # [k] int32 the chosen rows first
    is_chosen: Array  # [k] bool
    low: Array  # [m] at or below A x
    high: Array  # [m] at or above A x
    missing: Array  # [k] by how much x is off at most, with its sign; 0 where not chosen
    inward: Array  # [k] the sign that leads from the bound of an inequality into what it allows; 0 for equalities and where not chosen


def repair(problem: LinearProgram, primal: Array, *, max_rows: int) -> Repaired:
    """Moves a point [n] within its bounds onto the rows that it misses, and proves what it can before each move.

    Of more than `max_rows` equalities and missed rows, or of more than 4 million entries, the point is taken as it is.
    """
    num_chosen = _num_chosen(problem, max_rows)
    if num_chosen == 0:
        return Repaired(primal, _as_it_is(problem, primal))
    matrix = problem.operator.to_dense()

    def improve(number: Array, carry: tuple[Array, Repaired]) -> tuple[Array, Repaired]:
        point, best = carry
        moved, upper = _prove_and_move(problem, matrix, point, num_chosen, _nearness(number))
        return moved, Repaired(jnp.where(upper < best.upper_bound, point, best.primal), jnp.minimum(upper, best.upper_bound))

    start = Repaired(primal, jnp.full((), jnp.inf, primal.dtype))
    last, best = loops.fori_loop(0, _NUM_MOVES, improve, (primal, start))
    return best._replace(primal=jnp.where(jnp.isfinite(best.upper_bound), best.primal, last))


def prove_upper(problem: LinearProgram, primal: Array, *, max_rows: int) -> Array:
    """The least objective [] that some feasible point next to this one [n], or to one that it is moved to, is sure not to exceed.

    No more than `repair` proved, be it of the point that it was given or of the one that it returned.
    """
    num_chosen = _num_chosen(problem, max_rows)
    if num_chosen == 0:
        return _as_it_is(problem, primal)
    matrix = problem.operator.to_dense()
    as_it_stands = lax.map(lambda number: _prove_and_move(problem, matrix, primal, num_chosen, _nearness(number))[1], jnp.arange(2))
    return jnp.minimum(jnp.min(as_it_stands), repair(problem, primal, max_rows=max_rows).upper_bound)


def _num_chosen(problem: LinearProgram, max_rows: int) -> int:
    """How many rows may be met at once."""
    return min(problem.operator.shape[0], max_rows) if fits_in_memory(problem) else 0


def _as_it_is(problem: LinearProgram, primal: Array) -> Array:
    """The objective [] of a feasible point [n], rounded up; +inf of any other."""
    none = jnp.zeros((problem.operator.shape[0],), bool)
    return _judge(problem, primal, _choose(problem, primal, 0, jnp.zeros(())), jnp.zeros_like(primal), none, jnp.zeros((), bool))


def _nearness(number: Array) -> Array:
    """In turn with the rows that a move would spoil, and, as those may leave no room to move, without."""
    return jnp.where(number % 2 == 0, _NEAR, 0.0)


def _prove_and_move(problem: LinearProgram, matrix: Array, primal: Array, num_chosen: int, near: Array) -> tuple[Array, Array]:
    """The point [n] moved onto the rows in floats, if that does not take it further off, and what is proven next to where it was."""
    rows = _choose(problem, primal, num_chosen, near)
    weights = _normal(jnp.minimum(_room(problem, primal), 1.0) ** 2)
    chosen = jnp.where(rows.is_chosen[:, None], matrix[rows.index], 0.0)
    normal, unit = _normal_matrix(chosen, weights)
    inverse = cho_solve((lax.linalg.cholesky(normal, symmetrize_input=False), True), jnp.eye(num_chosen, dtype=normal.dtype))

    entries = jnp.max(jnp.abs(chosen), initial=0.0)
    reach = _reach(normal, inverse, _underflow(unit, entries, matrix.shape[1]), _largest_missing(unit, rows.missing), matrix.shape[1])
    lengths = jnp.matmul(unit, jnp.abs(chosen), precision=lax.Precision.HIGHEST)
    moves = (weights > 0) & jnp.any(brackets.is_nonzero(chosen), axis=0) & (reach > 0)
    radius = jnp.where(moves, _raised(weights * (_raised(lengths, num_chosen) * reach), 4), 0.0)
    is_still = (rows.missing == 0) & ~_touches(chosen, weights > 0)
    can_move = jnp.all((unit > 0) | is_still) & jnp.all(jnp.isfinite(inverse))  # a maximum may lose NaN
    is_proven = can_move & jnp.isfinite(reach) & jnp.all(jnp.isfinite(radius))
    radius = jnp.where(is_proven, radius, 0.0)
    upper = _judge(problem, primal, rows, radius, _touches(matrix, radius > 0), is_proven)

    aim = rows.missing + rows.inward * _clearance(chosen, primal, rows.missing)
    pushed = unit * cho_solve((lax.linalg.cholesky(normal + _ridge(normal), symmetrize_input=False), True), unit * aim)
    moved = jnp.clip(primal + weights * jnp.matmul(pushed, chosen, precision=lax.Precision.HIGHEST), problem.lower, problem.upper)
    is_better = _worst(problem, problem.operator.matvec(moved)) <= _worst(problem, problem.operator.matvec(primal))
    return jnp.where(is_better & jnp.all(jnp.isfinite(moved)), moved, primal), upper


def _clearance(chosen: Array, primal: Array, missing: Array) -> Array:
    """How far [k] inside of an inequality a point is to come to be there for sure: more than it missed, and than it is rounded by."""
    sizes = jnp.matmul(jnp.abs(chosen), jnp.abs(primal), precision=lax.Precision.HIGHEST)
    return 4 * jnp.max(jnp.abs(missing), initial=0.0) + _CLEAR * jnp.finfo(primal.dtype).eps * sizes


def _ridge(normal: Array) -> Array:
    """On the diagonal of ones, so that rows may depend on one another: what they ask for in common is met all the same."""
    return jnp.finfo(normal.dtype).eps ** 0.5 * jnp.eye(normal.shape[0], dtype=normal.dtype)


def _touches(matrix: Array, moves: Array) -> Array:
    """Which rows [k] have an entry, however small, in a column that moves [n]."""
    return jnp.any(brackets.is_nonzero(matrix) & moves[None, :], axis=1)


def _worst(problem: LinearProgram, reached: Array) -> Array:
    return jnp.max(jnp.maximum(problem.row_lower - reached, reached - problem.row_upper), initial=0.0)


def _room(problem: LinearProgram, primal: Array) -> Array:
    """How far each variable may move either way, [n], rounded down."""
    room = jnp.minimum(primal - problem.lower, problem.upper - primal)
    return jnp.maximum(room * (1 - 2 * jnp.finfo(room.dtype).eps), 0.0)


def _choose(problem: LinearProgram, primal: Array, num_chosen: int, near: Array) -> _Rows:
    """Equalities first, then rows that are missed, then those met by no more than `near` [] times what the worst is missed by."""
    low, high = problem.operator.bracket_matvec(primal)
    is_equality = problem.row_lower == problem.row_upper
    slack = jnp.where(is_equality, -jnp.inf, jnp.minimum(low - problem.row_lower, problem.row_upper - high))
    worst = jnp.max(jnp.where(is_equality, 0.0, -slack), initial=0.0)
    tightest, index = numerics.top_k(-slack, num_chosen)
    row_lower, row_upper, above, below = problem.row_lower[index], problem.row_upper[index], high[index], low[index]
    is_chosen = tightest > -near * worst
    target = jnp.where(is_chosen, jnp.where(below - row_lower < row_upper - above, row_lower, row_upper), 0.0)
    most, least = target - below, target - above
    missing = jnp.where(jnp.abs(most) > jnp.abs(least), most, least) * (1 + 2 * jnp.finfo(low.dtype).eps)
    missing = missing + jnp.copysign(jnp.finfo(low.dtype).tiny, missing)
    inward = jnp.where(is_chosen & (row_lower < row_upper), jnp.where(target == row_lower, 1.0, -1.0), 0.0)
    return _Rows(index, is_chosen, low, high, jnp.where(is_chosen & ((below != target) | (above != target)), missing, 0.0), inward)


def _normal_matrix(chosen: Array, weights: Array) -> tuple[Array, Array]:
    """unit_i unit_k sum_j a_ij w_j a_kj with ones on its diagonal [k, k], and unit [k], 0 for rows that cannot be moved."""
    normal = jnp.matmul(chosen * weights[None, :], chosen.T, precision=lax.Precision.HIGHEST)
    diagonal = jnp.diagonal(normal)
    is_movable = diagonal > 0
    unit = jnp.where(is_movable, lax.rsqrt(jnp.where(is_movable, diagonal, 1.0)), 0.0)
    return normal * unit[:, None] * unit[None, :] + jnp.diag(jnp.where(is_movable, 0.0, 1.0)), unit


def _underflow(unit: Array, entries: Array, num_columns: int) -> Array:
    """What an entry [] of the scaled normal matrix may lose to numbers too small for a float, where no |a_ij| exceeds `entries`."""
    largest = jnp.max(unit, initial=0.0)
    return jnp.finfo(unit.dtype).tiny * (4 * (num_columns + 1) * (1 + entries) * (1 + largest) * (1 + largest))


def _largest_missing(unit: Array, missing: Array) -> Array:
    """The largest [] of what the scaled rows miss, rounded up; 0 only where none misses anything."""
    return jnp.max(jnp.where(missing != 0, _raised(jnp.abs(unit * missing), 1), 0.0), initial=0.0)


def _reach(normal: Array, inverse: Array, underflow: Array, missing: Array, num_columns: int) -> Array:
    """A bound [] of |K^-1 r| for all |r| <= missing, for every K that rounding could have made into `normal`; +inf where there is none."""
    size = normal.shape[0]
    eps = float(jnp.finfo(normal.dtype).eps)
    left = jnp.matmul(inverse, normal, precision=lax.Precision.HIGHEST) - jnp.eye(size, dtype=normal.dtype)
    inverse_norm = _raised(jnp.max(jnp.sum(jnp.abs(inverse), axis=1), initial=0.0), size)
    normal_norm = _raised(jnp.max(jnp.sum(jnp.abs(normal), axis=1), initial=0.0), size)
    alpha = _raised(jnp.max(jnp.sum(jnp.abs(left), axis=1), initial=0.0), size)
    alpha = alpha + inverse_norm * (2 * (size + 4) * eps * normal_norm + 2 * size * (num_columns + 10) * eps + 2 * size * underflow)
    reach = jnp.where(missing > 0, _raised(inverse_norm * missing / jnp.where(alpha < 0.5, 1 - alpha, 1.0), 4), 0.0)
    return jnp.where(alpha < 0.5, reach, jnp.inf)


def _judge(problem: LinearProgram, primal: Array, rows: _Rows, radius: Array, is_moved: Array, is_proven: Array) -> Array:
    """The objective [] of all points within the radius [n], rounded up, if all that meet the chosen rows are feasible; rows not moved [m] stay."""
    limits = jnp.finfo(primal.dtype)
    eps = limits.eps
    spread = jnp.where(is_moved, _raised(problem.operator.row_norms(radius), problem.operator.shape[1] + 1), 0.0)
    low, high = rows.low - spread, rows.high + spread
    slack = jnp.where(is_moved, 2 * eps * jnp.maximum(jnp.abs(low), jnp.abs(high)) + 4 * limits.tiny, 0.0)
    meets = (low - slack >= problem.row_lower) & (high + slack <= problem.row_upper)
    is_met = jnp.zeros_like(meets).at[rows.index].set(rows.is_chosen & is_proven)
    in_rows = jnp.all(meets | is_met)
    in_bounds = jnp.all((radius <= _room(problem, primal)) & (primal >= problem.lower) & (primal <= problem.upper))
    _, objective = brackets.bracket_dot(problem.objective, primal)
    _, change = brackets.bracket_dot(jnp.abs(problem.objective), radius)
    total = objective + change
    total = jnp.where(change > 0, total + 2 * eps * (jnp.abs(objective) + change), objective)
    return jnp.where(in_rows & in_bounds, total, jnp.inf)


def _raised(value: Array, num_roundings: int) -> Array:
    """A number [] or [k], not negative, above what it would be but for so many roundings and for as many underflows."""
    limits = jnp.finfo(value.dtype)
    return value * (1 + 2 * (num_roundings + 2) * limits.eps) + 2 * (num_roundings + 2) * limits.tiny


def _normal(value: Array) -> Array:
    """The same numbers, 0 for those that a processor may or may not take for it."""
    return jnp.where(value >= jnp.finfo(value.dtype).tiny, value, 0.0)
