"""A dual next to one whose reduced costs miss their signs: where a variable has one bound, the
wrong sign by rounding alone proves nothing at all.

First the dual is multiplied: with (1 - t) y in the place of y the reduced costs are (1 - t)
(c - A'y) + t c, and where c has the right sign a small t > 0 is enough, where it has the wrong one
t < 0. Else it is moved: with B the variables of one bound whose reduced costs are near 0 or wrong,
dy = W A_B (A_B' W A_B)^-1 s gives them the reduced costs s, a few rounding errors on the right
side; with w_i the square of y_i where its sign is not free it hardly moves what is close to
0, and what is closer than the miss becomes 0 (Jansson 2004).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import cholesky, loops, numerics, reduce
from jboost.base.types import Array
from jboost.lp.certificate import certify
from jboost.lp.certificate.assess import Side, dual_side, lean
from jboost.lp.problem import LinearProgram, fits_in_memory

# of the size of a sum's terms, in units of rounding: by how much a sign is right to be sure of it,
# with what the proof loses
_ROUNDINGS = 4
_NUM_SHARES, _NUM_MOVES = 3, 3
_NEAR = 16.0  # times the worst miss: reduced costs that a move would spoil


class _Signs(NamedTuple):
    """How far reduced costs are from the sign that the only bound of a variable requires."""

    toward: Array  # [n] the sign
    is_one_sided: Array  # [n] bool
    short: Array  # [n] what is missing for a sign that is sure, where positive
    margin: Array  # [n] what is sure


def repair_dual(
    problem: LinearProgram, tight: LinearProgram, dual: Array, *, least: Array, max_columns: int
) -> Array:
    """The dual itself, multiplied, or moved: the one that proves most, [m]; the dual itself where
    none proves more than `least`.

    Args:
      problem: m rows, n variables.
      tight: the same, with the bounds that follow from others; what a dual proves is what it proves
        with these.
      dual: [m] allowed.
      least: [] what is worth nothing: -inf, or 0 where the dual is a ray, as the dual 0 proves
        that.
      max_columns: static; so many reduced costs, at most, are moved at once. Of matrices with more
        than 4 million entries none is.
    """
    num_rows, num_columns = problem.operator.shape
    num_chosen = min(num_columns, num_rows, max_columns) if fits_in_memory(problem) else 0
    num_candidates = _NUM_SHARES + (_NUM_MOVES if num_chosen else 0)

    def consider(number: Array, so_far: _Search) -> _Search:
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
        return _Search(now, best, most, candidate.enough, candidate.growth, candidate.is_short)

    def turn(number: Array, so_far: _Search) -> _Search:
        """One candidate, unless no sign is missing, when all are equal; in a branch, before which
        XLA takes no part of the work.
        """
        return loops.cond(so_far.is_short, lambda: consider(number, so_far), lambda: so_far)

    none = jnp.zeros((), dual.dtype)
    return loops.fori_loop(
        0, num_candidates, turn, _Search(dual, dual, least, none, none, jnp.ones((), bool))
    ).best


class _Search(NamedTuple):
    """The duals so far."""

    now: Array  # [m] moved so far
    best: Array  # [m]
    most: Array  # [] what the best proves
    enough: Array  # [] the share by which to shrink the dual
    growth: Array  # [] minus the share by which to let it grow
    is_short: Array  # [] bool, whether a reduced cost misses its sign


class _Candidate(NamedTuple):
    """What is known of a dual, multiplied by 1 - t."""

    # [] but for rounding; -inf where rounding may leave a sign wrong, that is, where it may prove
    # nothing
    proven: Array
    enough: Array  # [] the t that shrinks the dual as it was enough, 0 where none does
    growth: Array  # [] the t < 0 with which it grows enough
    is_short: Array  # [] bool, whether a reduced cost misses its sign


def _signs(problem: LinearProgram, dual: Side) -> _Signs:
    toward = jnp.where(jnp.isinf(problem.upper), 1.0, -1.0)
    # of the float type, and of the proof
    rounding = (
        _ROUNDINGS * jnp.finfo(dual.point.dtype).eps + 2 * (dual.point.shape[0] + 16) * 2.0**-52
    )
    margin = rounding * (jnp.abs(problem.objective) + dual.size)
    short = margin - toward * (problem.objective - dual.product)
    return _Signs(toward, jnp.isinf(problem.upper) != jnp.isinf(problem.lower), short, margin)


def _value(problem: LinearProgram, tight: LinearProgram, dual: Side, share: Array) -> _Candidate:
    """What the dual proves with the tight bounds, multiplied by 1 - share, and what shares it
    needs.
    """
    signs, multiplied = _signs(problem, dual), Side(*((1 - share) * part for part in dual))
    slope = signs.toward * dual.product  # of the reduced cost, that way, in t
    needed = jnp.where(
        slope != 0, (signs.short + signs.margin) / jnp.where(slope != 0, slope, 1.0), 0.0
    )
    is_short = signs.is_one_sided & (signs.short > 0)
    needed = jnp.where(is_short & (jnp.abs(needed) <= 1), needed, 0.0)

    tight_signs = _signs(tight, multiplied)
    paid, _ = lean(multiplied.point, tight.row_lower, tight.row_upper)
    saved, wrong = lean(tight.objective - multiplied.product, tight.lower, tight.upper)
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


def _moved(problem: LinearProgram, dual: Side, num_chosen: int) -> Array:
    """The dual [m] after one move; the same where there is nothing to move or no way to."""
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
    """(B' B)^-1 times the right side [k], of a matrix B [m, k]; columns may depend on
    one another.
    """
    normal = jnp.matmul(chosen.T, chosen, precision=lax.Precision.HIGHEST)
    diagonal = cholesky.diagonal(normal)
    unit = jnp.where(diagonal > 0, lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1.0)), 0.0)
    shift = 4 * normal.shape[0] * jnp.finfo(normal.dtype).eps
    scaled = normal * unit[:, None] * unit[None, :] + cholesky.on_diagonal(
        jnp.where(unit > 0, shift, 1.0)
    )
    return unit * cholesky.solve(cholesky.factor(scaled), unit * right)
