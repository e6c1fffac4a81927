"""Repairs a dual whose reduced costs have wrong signs.

Where a variable has only one bound, its reduced cost must have the sign of that bound. A dual with
a wrong sign proves no bound at all, even if only rounding made the sign wrong. Two repairs are
tried:

- Scaling. With (1 - t) y in place of y, the reduced costs are (1 - t) (c - A'y) + t c. A small
  t > 0 corrects the signs if c has the right sign, and a small t < 0 if c has the wrong one.
- Moving. Let B be the variables with one bound whose reduced costs are wrong or near 0. The step
  dy = W A_B (A_B' W A_B)^-1 s gives them the reduced costs s, which have the right sign by a few
  rounding errors. The weight w_i is y_i^2 where the sign of y_i is restricted, so entries close to
  0 hardly move. Entries that are smaller than the sign error become 0 (Jansson 2004).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import cholesky, loops, numerics, reduce
from jboost.base.types import Array
from jboost.lp.certificate import certify
from jboost.lp.certificate.assess import AssessedPoint, dual_side, value_at_bounds
from jboost.lp.problem import LinearProgram, fits_in_memory

# A reduced cost has a certain sign if its size exceeds this many rounding units of the terms of its
# sum.
_ROUNDINGS = 4
_NUM_SHARES, _NUM_MOVES = 3, 3  # attempts by scaling, and by moving
# A move includes the reduced costs that have the right sign by at most this many times the largest
# error of a sign, because the move would change them too.
_NEAR = 16.0


class _Signs(NamedTuple):
    """The distance of the reduced costs from the sign that a variable's only bound requires."""

    toward: Array  # [n] the required sign
    is_one_sided: Array  # [n] bool, whether the variable has exactly one bound
    short: Array  # [n] the change that makes the sign certain; negative where it is certain
    margin: Array  # [n] the size beyond which rounding cannot change a sign


def repair_dual(
    problem: LinearProgram, tight: LinearProgram, dual: Array, *, least: Array, max_columns: int
) -> Array:
    """The best among the dual, the scaled dual and the moved dual.

    The best is the one with the largest proven bound, [m]. If none proves more than `least`, the
    given dual is returned.

    Args:
      problem: m rows, n variables.
      tight: the same program with the implied bounds of the variables. The proven bounds are
        computed with these.
      dual: [m] with a valid sign in every row.
      least: [] a bound that needs no proof: -inf, or 0 where the dual is a ray, because the dual 0
        proves 0.
      max_columns: static; the largest number of reduced costs that are moved at once. No dual is
        moved if the matrix has more than 4 million entries.
    """
    num_rows, num_columns = problem.operator.shape
    num_chosen = min(num_columns, num_rows, max_columns) if fits_in_memory(problem) else 0
    num_candidates = _NUM_SHARES + (_NUM_MOVES if num_chosen else 0)

    def consider(number: Array, so_far: _DualSearch) -> _DualSearch:
        side = dual_side(problem, so_far.now)
        share = jnp.where(number == 1, so_far.enough, jnp.where(number == 2, so_far.growth, 0.0))
        candidate = _value(problem, tight, side, share)
        best, most = loops.cond(
            candidate.proven > so_far.most,
            lambda: ((1 - share) * so_far.now, candidate.proven),
            lambda: (so_far.best, so_far.most),
        )
        moves = (number >= _NUM_SHARES - 1) & (number < num_candidates - 1)
        now = loops.cond(moves, lambda: _moved(tight, side, num_chosen), lambda: so_far.now)
        return _DualSearch(now, best, most, candidate.enough, candidate.growth, candidate.is_short)

    def turn(number: Array, so_far: _DualSearch) -> _DualSearch:
        """Tries one candidate. If all signs are right, all candidates are equal and none is tried.

        The work is inside a branch so that XLA cannot move any of it before the test.
        """
        return loops.cond(so_far.is_short, lambda: consider(number, so_far), lambda: so_far)

    none = jnp.zeros((), dual.dtype)
    return loops.fori_loop(
        0, num_candidates, turn, _DualSearch(dual, dual, least, none, none, jnp.ones((), bool))
    ).best


class _DualSearch(NamedTuple):
    """The state of the search for the best dual."""

    now: Array  # [m] the current dual, after the moves so far
    best: Array  # [m]
    most: Array  # [] the bound that the best dual proves
    enough: Array  # [] the t > 0 that corrects the signs of the current dual, or 0
    growth: Array  # [] the t < 0 that corrects them, or 0
    is_short: Array  # [] bool, whether a reduced cost has a wrong or an uncertain sign


class _Candidate(NamedTuple):
    """The properties of a dual that is multiplied by 1 - t."""

    # [] the bound that it proves, up to rounding; -inf where rounding may make a sign wrong, so
    # that it may prove nothing
    proven: Array
    enough: Array  # [] the t > 0 that corrects all signs of the dual before scaling, or 0
    growth: Array  # [] the t < 0 that corrects them, or 0
    is_short: Array  # [] bool, whether a reduced cost has a wrong or an uncertain sign


def _signs(problem: LinearProgram, dual: AssessedPoint) -> _Signs:
    toward = jnp.where(jnp.isinf(problem.upper), 1.0, -1.0)
    # the rounding of the float type here, plus that of the proof, which uses 64 bits
    rounding = (
        _ROUNDINGS * jnp.finfo(dual.point.dtype).eps + 2 * (dual.point.shape[0] + 16) * 2.0**-52
    )
    margin = rounding * (jnp.abs(problem.objective) + dual.size)
    short = margin - toward * (problem.objective - dual.product)
    return _Signs(toward, jnp.isinf(problem.upper) != jnp.isinf(problem.lower), short, margin)


def _value(
    problem: LinearProgram, tight: LinearProgram, dual: AssessedPoint, share: Array
) -> _Candidate:
    """Evaluates the dual multiplied by 1 - share with the tight bounds, and finds the shares that
    would correct its signs.
    """
    signs, multiplied = _signs(problem, dual), AssessedPoint(*((1 - share) * part for part in dual))
    slope = signs.toward * dual.product  # the derivative in t of the reduced cost times its sign
    needed = jnp.where(
        slope != 0, (signs.short + signs.margin) / jnp.where(slope != 0, slope, 1.0), 0.0
    )
    is_short = signs.is_one_sided & (signs.short > 0)
    needed = jnp.where(is_short & (jnp.abs(needed) <= 1), needed, 0.0)

    tight_signs = _signs(tight, multiplied)
    paid, _ = value_at_bounds(multiplied.point, tight.row_lower, tight.row_upper)
    saved, wrong = value_at_bounds(tight.objective - multiplied.product, tight.lower, tight.upper)
    misses = tight_signs.is_one_sided & (tight_signs.short > 0)
    all_saved, is_unsure, any_short, growth, enough = reduce.several(
        (reduce.SUM, saved),
        (reduce.ANY, (wrong > 0) | misses),
        (reduce.ANY, is_short | misses),
        (reduce.LEAST, needed),
        (reduce.LARGEST, needed),
    )
    total = reduce.total(paid) + all_saved
    return _Candidate(
        jnp.where(is_unsure | jnp.isnan(total), -jnp.inf, total), enough, growth, any_short
    )


def _moved(problem: LinearProgram, dual: AssessedPoint, num_chosen: int) -> Array:
    """The dual [m] after one move; unchanged if no sign is wrong or no finite move exists."""
    if num_chosen == 0:
        return dual.point
    signs = _signs(problem, dual)
    size = jnp.maximum(signs.margin, jnp.finfo(signs.margin.dtype).tiny)
    missing = jnp.where(signs.is_one_sided, signs.short / size, -jnp.inf)
    worst, short = reduce.several(
        (reduce.LARGEST, missing), (reduce.LARGEST, jnp.where(signs.is_one_sided, signs.short, 0.0))
    )
    largest, places = numerics.top_k(missing, num_chosen)
    is_chosen = (largest >= -_NEAR * worst) & (worst > 0)
    wanted = jnp.where(
        is_chosen, (jnp.maximum(signs.short + signs.margin, 0.0) * signs.toward)[places], 0.0
    )

    is_free = jnp.isfinite(problem.row_lower) & jnp.isfinite(problem.row_upper)
    dual_size = jnp.abs(dual.point)
    is_dust = ~is_free & (dual_size <= _NEAR * short)
    lengths = jnp.where(
        is_free, jnp.maximum(reduce.largest(dual_size), 1.0), jnp.where(is_dust, 0.0, dual_size)
    )
    chosen = jnp.where(
        is_chosen[None, :], problem.operator.to_dense()[:, places] * lengths[:, None], 0.0
    )
    move = -lengths * reduce.total(chosen * _solve_normal(chosen, wanted)[None, :], axis=1)
    kept = jnp.where(is_dust, 0.0, dual.point)
    return certify.allowed_dual(
        problem, kept + jnp.where(reduce.all_true(jnp.isfinite(move)), move, 0.0)
    )


def _solve_normal(chosen: Array, right: Array) -> Array:
    """(B' B)^-1 times the right side [k], for a matrix B [m, k]. A small ridge allows linearly
    dependent columns.
    """
    normal = jnp.matmul(chosen.T, chosen, precision=lax.Precision.HIGHEST)
    diagonal = cholesky.diagonal(normal)
    unit = jnp.where(diagonal > 0, lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1.0)), 0.0)
    shift = 4 * normal.shape[0] * jnp.finfo(normal.dtype).eps
    scaled = normal * unit[:, None] * unit[None, :] + cholesky.on_diagonal(
        jnp.where(unit > 0, shift, 1.0)
    )
    return unit * cholesky.solve(cholesky.factor(scaled), unit * right)
