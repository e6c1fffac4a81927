"""Finds a feasible point close to a point that violates rows by rounding, and proves that it
exists.

Let E be the equality rows and the rows that the point violates, and r their residuals. The target
of an inequality is slightly inside its bound, because a row that is met with slack needs no proof.
The correction dx = W A_E' (A_E W A_E')^-1 r removes the residuals. The weight w_j is the squared
distance of x_j to its nearer bound, so variables close to a bound hardly move.

1. A correction is computed in floats. A ridge allows linearly dependent rows, as at a degenerate
   vertex.
2. The remaining residual is too small for a correction in floats, so it is bounded. Let R be an
   approximate inverse of the scaled normal matrix K. If |I - R K| <= alpha < 1 in the maximum norm,
   K is regular and |K^-1 r| <= |R| |r| / (1 - alpha) (Rump 1999; Jansson 2004). This gives
   |dx_j| <= radius_j for a feasible point x + dx, whose entries need not be floats.
3. The rows, the bounds and the objective are tested for all points in x +- radius.

Products that underflow count as 0, and the loss is bounded like a rounding error.
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

_NUM_MOVES = 4  # the largest number of moves
_CLEAR = 4.0  # slack of an inequality after a move, in rounding units of the terms of its row
# A move includes the rows that are met by at most this many times the largest violation, because
# the move could violate them.
_NEAR = 8.0


class Repaired(NamedTuple):
    """A point, and the bound that it proves. The last point tried if no point proves a bound."""

    primal: Array  # [n]
    # [] an upper bound on the objective of some feasible point close to it; +inf if none is proven
    # to exist
    upper_bound: Array


class _RepairedRows(NamedTuple):
    """The rows that a move corrects, at most k, and the interval of each row's sum."""

    index: Array  # [k] int32 the chosen rows first
    is_chosen: Array  # [k] bool
    low: Array  # [m] at or below A x
    high: Array  # [m] at or above A x
    worst: Array  # [] the largest possible violation of a row
    missing: Array  # [k] the largest possible residual, with its sign; 0 where not chosen
    # [k] the direction from the bound of an inequality into its interior; 0 for equalities and
    # where not chosen
    inward: Array


class _RowEntries(NamedTuple):
    """The entries of the chosen rows, and sums over each row. Rows that are not chosen are 0."""

    matrix: Array  # [k, n]
    weights: Array  # [n] the diagonal of W: the squared distance by which each variable may move
    size: Array  # [k] sum_j |a_ij x_j|
    can_move: Array  # [k] bool, whether the row has a nonzero entry for a variable that may move
    largest: Array  # [k] the largest |a_ij|


def repair(problem: LinearProgram, primal: Array, *, max_rows: int) -> Repaired:
    """Moves a point [n], which is within its bounds, onto the rows that it violates. Before each
    move it computes the upper bound that the point proves.

    At most `max_rows` rows are corrected at once. With `max_rows` 0, or if the matrix has more than
    4 million entries, the point is not moved.
    """
    num_chosen = _num_chosen(problem, max_rows)
    if num_chosen == 0:
        return Repaired(primal, _bound_without_move(problem, primal))
    matrix = problem.operator.to_dense()
    guess = snap_primal(problem, primal)
    implied = find_implied(problem, matrix, guess, _weights(problem, guess), num_chosen)

    def improve(
        number: Array, point: Array, best: Repaired, num_refused: Array
    ) -> tuple[Array, Repaired, Array]:
        # The first turn tests the rounded point. The moves then begin at the given point.
        is_first = number < 0
        follows = jnp.where(is_first, implied.here, implied.everywhere)
        moved, upper, is_refused = _prove_and_move(
            problem, matrix, point, follows, num_chosen, _nearness(number)
        )
        best = loops.cond(upper < best.upper_bound, lambda: Repaired(point, upper), lambda: best)
        moved = loops.cond(is_first, lambda: primal, lambda: moved)
        return moved, best, jnp.where(is_refused & ~is_first, num_refused + 1, 0)

    def turn(number: Array, carry: tuple[Array, Repaired, Array]) -> tuple[Array, Repaired, Array]:
        """Makes one move, unless the last two were refused: then all further ones would be.

        The work is inside a branch so that XLA cannot move any of it before the test.
        """
        return loops.cond(carry[2] < 2, lambda: improve(number, *carry), lambda: carry)

    begun = Repaired(primal, jnp.full((), jnp.inf, primal.dtype))
    last, best, _ = loops.fori_loop(-1, _NUM_MOVES, turn, (guess, begun, jnp.zeros((), jnp.int32)))
    return best._replace(primal=jnp.where(jnp.isfinite(best.upper_bound), best.primal, last))


def prove_upper(problem: LinearProgram, primal: Array, *, max_rows: int) -> Array:
    """The least upper bound [] that the point [n], or a point that `repair` moves it to, proves.

    The bound is at most the one that `repair` returned, for the point that was passed to `repair`
    and for the point that it returned.
    """
    num_chosen = _num_chosen(problem, max_rows)
    if num_chosen == 0:
        return _bound_without_move(problem, primal)
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
    """The number of rows that one move can correct."""
    return min(problem.operator.shape[0], max_rows) if fits_in_memory(problem) else 0


def _bound_without_move(problem: LinearProgram, primal: Array) -> Array:
    """The objective [] of a feasible point [n], rounded up; +inf for any other point."""
    low, high = problem.operator.bracket_matvec(primal)
    meets = (low >= problem.row_lower) & (high <= problem.row_upper)
    return _largest_objective(problem, primal, jnp.zeros_like(primal), meets)


def _nearness(number: Array) -> Array:
    """The factor that `_choose` compares near rows with, for the move of this number.

    Moves of even number include the rows that a move could violate. Moves of odd number do not,
    because with these rows there may be no direction left to move in.
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
    """Bounds the objective near the point, then moves the point in floats.

    Rows that are True in `follows` [m] are met wherever all other rows are met.

    Returns:
      The moved point [n]; the upper bound [] that the point proves before the move; and whether the
      move is refused because it would increase the largest violation.
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


def _take(problem: LinearProgram, matrix: Array, primal: Array, rows: _RepairedRows) -> _RowEntries:
    weights = _weights(problem, primal)
    chosen = jnp.where(rows.is_chosen[:, None], matrix[rows.index], 0.0)
    largest, size, weight = reduce.several(
        (reduce.LARGEST, jnp.abs(chosen)),
        (reduce.SUM, jnp.abs(chosen * primal[None, :])),
        (reduce.LARGEST, jnp.where(brackets.is_nonzero(chosen), weights[None, :], 0.0)),
        axis=1,
    )
    return _RowEntries(chosen, weights, size, weight > 0, largest)


class _Extremes(NamedTuple):
    """Maxima over the chosen rows."""

    missing: Array  # [] the largest residual
    unit: Array  # [] the largest scale of a row
    entry: Array  # [] the largest |a_ij|
    # [] the largest residual of a scaled row, rounded up; 0 only if all residuals are 0
    scaled_missing: Array
    can_meet: Array  # [] bool, whether each row with a residual has a variable that may move


def _extremes(rows: _RepairedRows, chosen: _RowEntries, unit: Array) -> _Extremes:
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
    chosen: _RowEntries, normal: Array, unit: Array, inverse: Array, extremes: _Extremes
) -> tuple[Array, Array]:
    """The largest distance [n] of each variable from a point that meets the chosen rows, and
    whether such a point is proven to exist; 0 without a proof.
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


def _aim(rows: _RepairedRows, chosen: _RowEntries, missing: Array) -> Array:
    """The change [k] that a move should make to each chosen row.

    An inequality is moved further than its residual. The extra distance exceeds the largest
    residual and the rounding error, so that the row is met with slack after the move.
    """
    clearance = 4 * missing + _CLEAR * jnp.finfo(chosen.size.dtype).eps * chosen.size
    return rows.missing + rows.inward * clearance


def _move(problem: LinearProgram, primal: Array, step: Array, worst: Array) -> tuple[Array, Array]:
    """The point [n] after a step, clipped to its bounds, and whether the step is refused.

    The step is refused, and the point unchanged, if a row would be violated by more than `worst`
    [].
    """
    moved = jnp.clip(primal + step, problem.lower, problem.upper)
    reached = problem.operator.matvec(moved)
    missed = _missed(problem.row_lower, problem.row_upper, reached, reached)
    missed, is_finite = reduce.several(
        (reduce.LARGEST, missed), (reduce.ALL, jnp.isfinite(reached))
    )
    is_taken = is_finite & (missed <= worst)
    return loops.cond(is_taken, lambda: moved, lambda: primal), ~is_taken


def _distance_to_bounds(problem: LinearProgram, primal: Array) -> Array:
    """The distance [n] of each variable to its nearer bound, rounded down."""
    distance = jnp.minimum(primal - problem.lower, problem.upper - primal)
    return jnp.maximum(distance * (1 - 2 * jnp.finfo(distance.dtype).eps), 0.0)


def _weights(problem: LinearProgram, primal: Array) -> Array:
    """The squared distance [n] by which each variable may move; 0 where it underflows."""
    return _normal(jnp.minimum(_distance_to_bounds(problem, primal), 1.0) ** 2)


def _choose(
    problem: LinearProgram,
    matrix: Array,
    primal: Array,
    follows: Array,
    num_chosen: int,
    near: Array,
) -> _RepairedRows:
    """Chooses the rows that a move corrects: equalities first, then the violated rows, then the
    rows that are met by less than `near` [] times the largest violation.
    """
    sides = jnp.stack(
        [problem.row_lower, problem.row_upper, *brackets.sharp_bracket_dot(matrix, primal[None, :])]
    )
    # without the barrier XLA repeats the products for each of their uses
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
    return _RepairedRows(
        index, is_chosen, sides[2], sides[3], jnp.maximum(of_all, 0.0), missing, inward
    )


def _missed(row_lower: Array, row_upper: Array, low: Array, high: Array) -> Array:
    """The largest possible violation [m] of each row; negative where the row is surely met."""
    return jnp.maximum(row_lower - low, high - row_upper)


def _normal_matrix(chosen: _RowEntries) -> tuple[Array, Array]:
    """The scaled normal matrix unit_i unit_k sum_j a_ij w_j a_kj [k, k], and the scales unit [k].

    The scales make the diagonal 1. They are 0 for rows that have no variable to move.
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
    a right side.

    The solution is computed with a ridge on the diagonal, so that rows may be linearly dependent.
    """
    size = normal.shape[0]
    identity = jnp.eye(size, dtype=normal.dtype)
    ridges = jnp.array([0.0, jnp.finfo(normal.dtype).eps ** 0.5], normal.dtype)
    lower = cholesky.factor(normal[None] + ridges[:, None, None] * identity[None])
    sides = jnp.concatenate([identity, right[:, None]], axis=1)
    solved = cholesky.solve(lower, jnp.broadcast_to(sides, (2, *sides.shape)))
    return solved[0, :, :size], solved[1, :, size]


def _underflow(unit: Array, entries: Array, num_columns: int) -> Array:
    """The largest error [] of an entry of the scaled normal matrix by underflow.

    Args:
      unit: [] the largest scale of a row.
      entries: [] the largest |a_ij|.
      num_columns: n.
    """
    return jnp.finfo(unit.dtype).tiny * (
        4 * (num_columns + 1) * (1 + entries) * (1 + unit) * (1 + unit)
    )


def _reach(
    normal: Array, inverse: Array, underflow: Array, missing: Array, num_columns: int
) -> Array:
    """A bound [] of |K^-1 r| for all |r| <= missing; +inf if none is proven.

    K is the exact scaled normal matrix. `normal` is K with rounding errors, which the bound
    includes.
    """
    size = normal.shape[0]
    eps = float(jnp.finfo(normal.dtype).eps)
    left = jnp.matmul(inverse, normal, precision=lax.Precision.HIGHEST) - jnp.eye(
        size, dtype=normal.dtype
    )
    sums = reduce.total(jnp.abs(jnp.stack([inverse, normal, left])), axis=-1)
    # a maximum may ignore NaN, so finiteness is tested separately
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
    problem: LinearProgram, matrix: Array, rows: _RepairedRows, radius: Array, is_proven: Array
) -> Array:
    """Which rows [m] are met by every point within the radius [n] that meets the chosen rows.

    The sum of a row does not change if none of its variables moves.
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
    """The largest objective [] of the points within the radius [n], rounded up; +inf unless all of
    them meet all rows and all bounds.
    """
    in_bounds = (
        (radius <= _distance_to_bounds(problem, primal))
        & (primal >= problem.lower)
        & (primal <= problem.upper)
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
    """An upper bound [] or [k] of the exact value of a nonnegative number that was computed with
    this many roundings, each of which may underflow.
    """
    limits = jnp.finfo(value.dtype)
    return (
        value * (1 + 2 * (num_roundings + 2) * limits.eps) + 2 * (num_roundings + 2) * limits.tiny
    )


def _normal(value: Array) -> Array:
    """The same numbers, with 0 for subnormal ones, which some processors treat as 0."""
    return jnp.where(value >= jnp.finfo(value.dtype).tiny, value, 0.0)
