"""A feasible point next to one that rounding keeps off its rows: found, and proven to exist.

Let E be the rows that the point misses, or meets by equality, and r what they miss; inequalities
ask for a little more, as no proof is needed of rows that are met with something left. The
correction dx = W A_E' (A_E W A_E')^-1 r meets them; with w_j the squared distance of x_j to its
nearer bound it hardly moves what is close to one. A first correction is made in floats, with a
ridge, so that rows may depend on one another, as at a degenerate vertex. What then remains is
smaller than any float shows, and is bounded: with R an approximate inverse of the scaled normal
matrix K and |I - R K| <= alpha < 1, K is regular and |K^-1 r| <= |R| |r| / (1 - alpha) in the
largest norm (Rump 1999; Jansson 2004). So each |dx_j| <= radius_j, and rows, bounds and objective
are tested with x +- radius in place of a point that need not be a float. Products too small for a
float count as 0 and are bounded like rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, cholesky, loops, numerics, reduce
from jboost.base.types import Array
from jboost.lp.certificate.implied_rows import find_implied
from jboost.lp.certificate.snap import snap_primal
from jboost.lp.problem import LinearProgram, fits_in_memory

_NUM_MOVES = 4
_CLEAR = 4.0  # roundings of the terms of a row
_NEAR = 8.0  # times the worst miss: rows that a move would spoil


class Repaired(NamedTuple):
    """A point, and what is proven of its neighbourhood; where nothing is of any, the last one."""

    primal: Array  # [n]
    # [] the largest objective that a feasible point next to it may have; +inf where none is proven
    # to exist
    upper_bound: Array


class _Rows(NamedTuple):
    """Rows of which some, at most k, are to be met exactly."""

    index: Array  # [k] int32 the chosen rows first
    is_chosen: Array  # [k] bool
    low: Array  # [m] at or below A x
    high: Array  # [m] at or above A x
    worst: Array  # [] the most by which a row may be missed
    missing: Array  # [k] by how much x is off at most, with its sign; 0 where not chosen
    # [k] the sign that leads from the bound of an inequality into what it allows; 0 for equalities
    # and where not chosen
    inward: Array


class _Chosen(NamedTuple):
    """The entries of the chosen rows, and sums over each row; a row of zeros for each that is not
    chosen.
    """

    matrix: Array  # [k, n]
    weights: Array  # [n] W: how far variables may move, squared
    size: Array  # [k] sum_j |a_ij x_j|
    can_move: Array  # [k] bool, whether a variable moves that has an entry, however small
    largest: Array  # [k] the largest |a_ij|


def repair(problem: LinearProgram, primal: Array, *, max_rows: int) -> Repaired:
    """Moves a point [n] within its bounds onto the rows that it misses, and proves what it can
    before each move.

    Of more than `max_rows` equalities and missed rows, or of more than 4 million entries, the point
    is taken as it is.
    """
    num_chosen = _num_chosen(problem, max_rows)
    if num_chosen == 0:
        return Repaired(primal, _as_it_is(problem, primal))
    matrix = problem.operator.to_dense()
    guess = snap_primal(problem, primal)
    implied = find_implied(problem, matrix, guess, _weights(problem, guess), num_chosen)

    def improve(
        number: Array, point: Array, best: Repaired, num_refused: Array
    ) -> tuple[Array, Repaired, Array]:
        # the rounded point, a guess: if it proves nothing, the moves begin at the given point
        is_first = number < 0
        follows = jnp.where(is_first, implied.here, implied.everywhere)
        moved, upper, is_refused = _prove_and_move(
            problem, matrix, point, follows, num_chosen, _nearness(number)
        )
        best = loops.cond(upper < best.upper_bound, lambda: Repaired(point, upper), lambda: best)
        moved = loops.cond(is_first, lambda: primal, lambda: moved)
        return moved, best, jnp.where(is_refused & ~is_first, num_refused + 1, 0)

    def turn(number: Array, carry: tuple[Array, Repaired, Array]) -> tuple[Array, Repaired, Array]:
        """One move, unless two in a row were refused, after which all are; in a branch, before
        which XLA takes no part of the work.
        """
        return loops.cond(carry[2] < 2, lambda: improve(number, *carry), lambda: carry)

    begun = Repaired(primal, jnp.full((), jnp.inf, primal.dtype))
    last, best, _ = loops.fori_loop(-1, _NUM_MOVES, turn, (guess, begun, jnp.zeros((), jnp.int32)))
    return best._replace(primal=jnp.where(jnp.isfinite(best.upper_bound), best.primal, last))


def prove_upper(problem: LinearProgram, primal: Array, *, max_rows: int) -> Array:
    """The least objective [] that some feasible point next to this one [n], or to one that it is
    moved to, is sure not to exceed.

    No more than `repair` proved, be it of the point that it was given or of the one that it
    returned.
    """
    num_chosen = _num_chosen(problem, max_rows)
    if num_chosen == 0:
        return _as_it_is(problem, primal)
    matrix = problem.operator.to_dense()
    follows = find_implied(problem, matrix, primal, _weights(problem, primal), num_chosen).here
    as_it_stands = lax.map(
        lambda number: _prove_and_move(
            problem, matrix, primal, follows, num_chosen, _nearness(number)
        )[1],
        jnp.arange(2),
    )
    return jnp.minimum(
        reduce.least(as_it_stands), repair(problem, primal, max_rows=max_rows).upper_bound
    )


def _num_chosen(problem: LinearProgram, max_rows: int) -> int:
    """How many rows may be met at once."""
    return min(problem.operator.shape[0], max_rows) if fits_in_memory(problem) else 0


def _as_it_is(problem: LinearProgram, primal: Array) -> Array:
    """The objective [] of a feasible point [n], rounded up; +inf of any other."""
    low, high = problem.operator.bracket_matvec(primal)
    meets = (low >= problem.row_lower) & (high <= problem.row_upper)
    return _largest_objective(problem, primal, jnp.zeros_like(primal), meets)


def _nearness(number: Array) -> Array:
    """Even numbers include the rows that a move would violate, odd numbers do not: with them there
    may be no direction to move in.
    """
    return jnp.where(number % 2 == 0, _NEAR, 0.0)


def _prove_and_move(
    problem: LinearProgram,
    matrix: Array,
    primal: Array,
    follows: Array,
    num_chosen: int,
    near: Array,
) -> tuple[Array, Array, Array]:
    """The point [n] moved onto the rows in floats, what is proven next to where it was, and whether
    the move is refused as it leads further off.

    Rows that `follows` [m] names are met where all others are.
    """
    rows = _choose(problem, matrix, primal, follows, num_chosen, near)
    chosen = _take(problem, matrix, primal, rows)
    normal, unit = _normal_matrix(chosen)
    extremes = _extremes(rows, chosen, unit)
    inverse, push = _invert_and_solve(normal, unit * _aim(rows, chosen, extremes.missing))
    radius, is_proven = _radius(chosen, normal, unit, inverse, extremes)
    meets = _are_met(problem, matrix, rows, radius, is_proven) | follows
    step = chosen.weights * reduce.total((unit * push)[:, None] * chosen.matrix, axis=0)
    moved, is_refused = _move(problem, primal, step, rows.worst)
    return moved, _largest_objective(problem, primal, radius, meets), is_refused


def _take(problem: LinearProgram, matrix: Array, primal: Array, rows: _Rows) -> _Chosen:
    weights = _weights(problem, primal)
    chosen = jnp.where(rows.is_chosen[:, None], matrix[rows.index], 0.0)
    largest, size, weight = reduce.several(
        (reduce.LARGEST, jnp.abs(chosen)),
        (reduce.SUM, jnp.abs(chosen * primal[None, :])),
        (reduce.LARGEST, jnp.where(brackets.is_nonzero(chosen), weights[None, :], 0.0)),
        axis=1,
    )
    return _Chosen(chosen, weights, size, weight > 0, largest)


class _Extremes(NamedTuple):
    """Of the chosen rows."""

    missing: Array  # [] the most that a row misses
    unit: Array  # [] the largest
    entry: Array  # [] the largest |a_ij|
    # [] the most that a scaled row misses, rounded up; 0 only where none misses anything
    scaled_missing: Array
    can_meet: Array  # [] bool, whether there is a variable to move for each row that needs one


def _extremes(rows: _Rows, chosen: _Chosen, unit: Array) -> _Extremes:
    is_still = (rows.missing == 0) & ~chosen.can_move
    return _Extremes(
        *reduce.several(
            (reduce.LARGEST, jnp.abs(rows.missing)),
            (reduce.LARGEST, unit),
            (reduce.LARGEST, chosen.largest),
            (
                reduce.LARGEST,
                jnp.where(rows.missing != 0, _raised(jnp.abs(unit * rows.missing), 1), 0.0),
            ),
            (reduce.ALL, (unit > 0) | is_still),
        )
    )


def _radius(
    chosen: _Chosen, normal: Array, unit: Array, inverse: Array, extremes: _Extremes
) -> tuple[Array, Array]:
    """How far variables [n] are from a point that meets the chosen rows, and whether it is proven
    that there is one; without a proof 0.
    """
    num_chosen, num_columns = chosen.matrix.shape
    underflow = _underflow(extremes.unit, extremes.entry, num_columns)
    reach = _reach(normal, inverse, underflow, extremes.scaled_missing, num_columns)
    lengths, has_entry = reduce.several(
        (reduce.SUM, unit[:, None] * jnp.abs(chosen.matrix)),
        (reduce.ANY, brackets.is_nonzero(chosen.matrix)),
        axis=0,
    )
    moves = (chosen.weights > 0) & has_entry & (reach > 0)
    radius = jnp.where(
        moves, _raised(chosen.weights * (_raised(lengths, num_chosen) * reach), 4), 0.0
    )
    is_proven = extremes.can_meet & jnp.isfinite(reach) & reduce.all_true(jnp.isfinite(radius))
    return jnp.where(is_proven, radius, 0.0), is_proven


def _aim(rows: _Rows, chosen: _Chosen, missing: Array) -> Array:
    """By how much each chosen row is to change [k]; of an inequality by more than any missed and
    than it is rounded by, to be inside for sure.
    """
    clearance = 4 * missing + _CLEAR * jnp.finfo(chosen.size.dtype).eps * chosen.size
    return rows.missing + rows.inward * clearance


def _move(problem: LinearProgram, primal: Array, step: Array, worst: Array) -> tuple[Array, Array]:
    """The point [n] a step further and within its bounds; or as it is, and True, where that would
    miss a row by more than `worst` [].
    """
    moved = jnp.clip(primal + step, problem.lower, problem.upper)
    reached = problem.operator.matvec(moved)
    missed = _missed(problem.row_lower, problem.row_upper, reached, reached)
    missed, is_finite = reduce.several(
        (reduce.LARGEST, missed), (reduce.ALL, jnp.isfinite(reached))
    )
    is_taken = is_finite & (missed <= worst)
    return loops.cond(is_taken, lambda: moved, lambda: primal), ~is_taken


def _room(problem: LinearProgram, primal: Array) -> Array:
    """How far each variable may move either way, [n], rounded down."""
    room = jnp.minimum(primal - problem.lower, problem.upper - primal)
    return jnp.maximum(room * (1 - 2 * jnp.finfo(room.dtype).eps), 0.0)


def _weights(problem: LinearProgram, primal: Array) -> Array:
    """How far variables [n] may move, squared; 0 where that is too little for a float."""
    return _normal(jnp.minimum(_room(problem, primal), 1.0) ** 2)


def _choose(
    problem: LinearProgram,
    matrix: Array,
    primal: Array,
    follows: Array,
    num_chosen: int,
    near: Array,
) -> _Rows:
    """Equalities first, then rows that are missed, then those met by no more than `near` [] times
    what the worst is missed by.
    """
    sides = jnp.stack(
        [problem.row_lower, problem.row_upper, *brackets.sharp_bracket_dot(matrix, primal[None, :])]
    )
    # else each of its consumers rounds the products outwards anew
    sides = lax.optimization_barrier(sides)
    is_equality, missed = (
        problem.row_lower == problem.row_upper,
        jnp.where(follows, -jnp.inf, _missed(*sides)),
    )
    of_inequalities, of_all = reduce.several(
        (reduce.LARGEST, jnp.where(is_equality, 0.0, missed)), (reduce.LARGEST, missed)
    )
    tightest, index = numerics.top_k(jnp.where(is_equality & ~follows, jnp.inf, missed), num_chosen)
    row_lower, row_upper, below, above = sides.T[index].T
    is_chosen = tightest > -near * jnp.maximum(of_inequalities, 0.0)
    target = jnp.where(
        is_chosen, jnp.where(below - row_lower < row_upper - above, row_lower, row_upper), 0.0
    )
    most, least = target - below, target - above
    missing = jnp.where(jnp.abs(most) > jnp.abs(least), most, least) * (
        1 + 2 * jnp.finfo(below.dtype).eps
    )
    missing = missing + jnp.copysign(jnp.finfo(below.dtype).tiny, missing)
    missing = jnp.where(is_chosen & ((below != target) | (above != target)), missing, 0.0)
    inward = jnp.where(
        is_chosen & (row_lower < row_upper), jnp.where(target == row_lower, 1.0, -1.0), 0.0
    )
    return _Rows(index, is_chosen, sides[2], sides[3], jnp.maximum(of_all, 0.0), missing, inward)


def _missed(row_lower: Array, row_upper: Array, low: Array, high: Array) -> Array:
    """By how much rows may be missed [m], negative where they are met for sure."""
    return jnp.maximum(row_lower - low, high - row_upper)


def _normal_matrix(chosen: _Chosen) -> tuple[Array, Array]:
    """unit_i unit_k sum_j a_ij w_j a_kj with ones on its diagonal [k, k], and unit [k], 0 for rows
    that cannot be moved.
    """
    normal = jnp.matmul(
        chosen.matrix * chosen.weights[None, :], chosen.matrix.T, precision=lax.Precision.HIGHEST
    )
    diagonal = cholesky.diagonal(normal)
    is_movable = diagonal > 0
    unit = jnp.where(is_movable, lax.rsqrt(jnp.where(is_movable, diagonal, 1.0)), 0.0)
    return (
        normal * unit[:, None] * unit[None, :]
        + cholesky.on_diagonal(jnp.where(is_movable, 0.0, 1.0)),
        unit,
    )


def _invert_and_solve(normal: Array, right: Array) -> tuple[Array, Array]:
    """An approximate inverse [k, k] of a matrix with ones on its diagonal, and the solution [k] for
    a right side, with a ridge on the diagonal.

    With the ridge rows may depend on one another: what they ask for in common is met all the same.
    """
    size = normal.shape[0]
    identity = jnp.eye(size, dtype=normal.dtype)
    ridges = jnp.array([0.0, jnp.finfo(normal.dtype).eps ** 0.5], normal.dtype)
    lower = cholesky.factor(normal[None] + ridges[:, None, None] * identity[None])
    sides = jnp.concatenate([identity, right[:, None]], axis=1)
    solved = cholesky.solve(lower, jnp.broadcast_to(sides, (2, *sides.shape)))
    return solved[0, :, :size], solved[1, :, size]


def _underflow(unit: Array, entries: Array, num_columns: int) -> Array:
    """What an entry [] of the scaled normal matrix may lose to numbers too small for a float, where
    no unit and no |a_ij| exceeds these.
    """
    return jnp.finfo(unit.dtype).tiny * (
        4 * (num_columns + 1) * (1 + entries) * (1 + unit) * (1 + unit)
    )


def _reach(
    normal: Array, inverse: Array, underflow: Array, missing: Array, num_columns: int
) -> Array:
    """A bound [] of |K^-1 r| for all |r| <= missing, for every K that rounding could have made into
    `normal`; +inf where there is none.
    """
    size = normal.shape[0]
    eps = float(jnp.finfo(normal.dtype).eps)
    left = jnp.matmul(inverse, normal, precision=lax.Precision.HIGHEST) - jnp.eye(
        size, dtype=normal.dtype
    )
    sums = reduce.total(jnp.abs(jnp.stack([inverse, normal, left])), axis=-1)
    # a maximum may lose NaN
    norms, is_finite = reduce.several((reduce.LARGEST, sums), (reduce.ALL, jnp.isfinite(sums)))
    inverse_norm, normal_norm, alpha = _raised(norms, size)
    alpha = alpha + inverse_norm * (
        2 * (size + 4) * eps * normal_norm
        + 2 * size * (num_columns + 10) * eps
        + 2 * size * underflow
    )
    reach = jnp.where(
        missing > 0,
        _raised(inverse_norm * missing / jnp.where(alpha < 0.5, 1 - alpha, 1.0), 4),
        0.0,
    )
    return jnp.where(is_finite[0] & (alpha < 0.5), reach, jnp.inf)


def _are_met(
    problem: LinearProgram, matrix: Array, rows: _Rows, radius: Array, is_proven: Array
) -> Array:
    """Which rows [m] all points within the radius [n] meet that meet the chosen ones; rows of
    variables that do not move stay as they are.
    """
    limits = jnp.finfo(radius.dtype)
    spread, longest = reduce.several(
        (reduce.SUM, jnp.abs(matrix) * radius[None, :]),
        (reduce.LARGEST, jnp.where(brackets.is_nonzero(matrix), radius[None, :], 0.0)),
        axis=1,
    )
    is_moved = longest > 0
    spread = jnp.where(is_moved, _raised(spread, matrix.shape[1] + 1), 0.0)
    low, high = rows.low - spread, rows.high + spread
    slack = jnp.where(
        is_moved, 2 * limits.eps * jnp.maximum(jnp.abs(low), jnp.abs(high)) + 4 * limits.tiny, 0.0
    )
    meets = (low - slack >= problem.row_lower) & (high + slack <= problem.row_upper)
    numbers = lax.iota(jnp.int32, matrix.shape[0])
    is_chosen = reduce.any_true(
        (numbers[:, None] == rows.index[None, :]) & rows.is_chosen[None, :], axis=1
    )
    return meets | (is_chosen & is_proven)


def _largest_objective(problem: LinearProgram, primal: Array, radius: Array, meets: Array) -> Array:
    """The objective [] of all points within the radius [n], rounded up, if they meet all rows and
    keep within their bounds; else +inf.
    """
    in_bounds = (
        (radius <= _room(problem, primal)) & (primal >= problem.lower) & (primal <= problem.upper)
    )
    factors = jnp.stack([problem.objective, jnp.abs(problem.objective)])
    _, (objective, change) = brackets.bracket_dot(factors, jnp.stack([primal, radius]))
    total = jnp.where(
        change > 0,
        objective + change + 2 * jnp.finfo(radius.dtype).eps * (jnp.abs(objective) + change),
        objective,
    )
    return jnp.where(reduce.all_true(meets) & reduce.all_true(in_bounds), total, jnp.inf)


def _raised(value: Array, num_roundings: int) -> Array:
    """A number [] or [k], not negative, above what it would be but for so many roundings and for as
    many underflows.
    """
    limits = jnp.finfo(value.dtype)
    return (
        value * (1 + 2 * (num_roundings + 2) * limits.eps) + 2 * (num_roundings + 2) * limits.tiny
    )


def _normal(value: Array) -> Array:
    """The same numbers, 0 for those that a processor may or may not take for it."""
    return jnp.where(value >= jnp.finfo(value.dtype).tiny, value, 0.0)
