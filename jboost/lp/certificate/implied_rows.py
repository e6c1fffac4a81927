"""Equality rows that are exact linear combinations of other equality rows, as one row of a
transport problem is.

Linearly dependent rows have a singular normal matrix, so that `repair` can prove nothing with it.
Here the dependent rows are found, and `repair` leaves them out. Gauss-Jordan elimination of the
normal matrix gives the rows and their coefficients. The coefficients are rounded to ratios of small
integers, and the combination is then tested in exact arithmetic. A row that fails the test is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, loops, numerics, reduce
from jboost.base.types import Array
from jboost.lp.problem import LinearProgram

# The largest denominator of a coefficient. The search takes memory for this many k x k matrices.
_MAX_DENOMINATOR = 16
# The largest distance of a coefficient times its denominator from an integer. Found by trial; the
# exact test follows.
_NEARLY = 0.02
_MAX_NUMERATOR = 2.0**10  # the largest numerator, so that the sums of the exact test are exact


class Implied(NamedTuple):
    """Which equalities follow from the others."""

    # [m] bool, whether it follows at all points that differ from the given one only in the
    # variables of positive weight
    here: Array
    everywhere: Array  # [m] bool, whether it follows at all points


def find_implied(
    problem: LinearProgram, matrix: Array, primal: Array, weights: Array, num_rows: int
) -> Implied:
    """The equalities that follow from others, among the first `num_rows` (static) of them.

    Args:
      problem: m rows, n variables.
      matrix: [m, n] its matrix.
      primal: [n] a point.
      weights: [n] the squared distance by which each variable may move; 0 if it may not move.
      num_rows: static; at most m.
    """
    is_equality = problem.row_lower == problem.row_upper
    found, index = numerics.top_k(is_equality.astype(matrix.dtype), num_rows)
    rows, sides = matrix[index], jnp.where(found > 0, problem.row_lower[index], 0.0)
    coefficients, follows = _combinations(rows, weights, found > 0)
    combined, is_exact = numerics.in_64_bits(_combine)(coefficients, rows)
    stays, vanishes = reduce.several(
        (reduce.ALL, is_exact & ((combined == 0) | (weights == 0)[None, :])),
        (reduce.ALL, is_exact & (combined == 0)),
        axis=1,
    )
    low, high = brackets.sharp_bracket_dot(
        jnp.concatenate([coefficients, -combined], axis=1),
        jnp.concatenate([sides, primal])[None, :],
    )
    follows = jnp.stack([stays, vanishes]) & (follows & (low == 0) & (high == 0))[None, :]
    return Implied(*jnp.zeros((2, matrix.shape[0]), bool).at[:, index].set(follows))


def _combine(coefficients: Array, rows: Array) -> tuple[Array, Array]:
    """Integer combinations of the rows [k, n], and which of their entries are exact.

    It must be called in the 64-bit scope. The test of exactness is that of `sharp_bracket_dot`.
    """
    wide, entries = brackets.widen(coefficients), brackets.widen(rows)
    is_whole = jnp.floor(2.0**20 * entries) == 2.0**20 * entries
    combined, sizes = (
        numerics.times(wide, entries),
        numerics.times(jnp.abs(wide), jnp.where(is_whole, jnp.abs(entries), 2.0**32)),
    )
    short = numerics.narrow(combined, rows.dtype)
    return short, (sizes < 2.0**32) & (short.astype(wide.dtype) == combined)


def _combinations(rows: Array, weights: Array, is_equality: Array) -> tuple[Array, Array]:
    """Finds the rows that may depend on others, and the integer combinations to test.

    Returns:
      The integers [k, k], and which rows [k] may depend on others. For such a row the combination
      has minus the denominator at the row itself and the numerators at the other rows. It is 0 for
      all other rows.
    """
    root = jnp.sqrt(weights)
    scaled = jnp.where(is_equality[:, None], rows * root[None, :], 0.0)
    normal = jnp.matmul(scaled, scaled.T, precision=lax.Precision.HIGHEST)
    reduced, is_pivot = _reduce(normal)
    # row k holds the coefficients of row k in terms of the pivot rows
    shares = jnp.where(is_pivot[None, :], reduced.T, 0.0)
    multiples = jnp.arange(1, _MAX_DENOMINATOR + 1, dtype=rows.dtype)[:, None, None] * shares[None]
    # [denominators, k]
    is_whole = jnp.max(jnp.abs(multiples - jnp.round(multiples)), axis=2) < _NEARLY
    denominator = (jnp.argmax(is_whole, axis=0) + 1).astype(rows.dtype)
    numerators = jnp.round(denominator[:, None] * shares)
    is_small = jnp.max(jnp.abs(numerators), axis=1) <= _MAX_NUMERATOR
    follows = is_equality & ~is_pivot & jnp.any(is_whole, axis=0) & is_small
    lines = numerators - denominator[:, None] * jnp.eye(rows.shape[0], dtype=rows.dtype)
    return jnp.where(follows[:, None], lines, 0.0), follows


def _reduce(normal: Array) -> tuple[Array, Array]:
    """The reduced row echelon form [k, k] of a normal matrix, and which rows are pivots, [k] bool.

    Pivots are on the diagonal. The next pivot is the one that is largest relative to the diagonal
    of the given matrix.
    """
    diagonal = jnp.diagonal(normal)
    size = jnp.where(diagonal > 0, diagonal, 1.0)
    least = float(jnp.finfo(normal.dtype).eps) ** 0.5

    def eliminate(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        matrix, is_pivot, _ = carry
        left = jnp.where(is_pivot, 0.0, jnp.diagonal(matrix) / size)
        pivot = jnp.argmax(left)
        is_taken = left[pivot] > least
        line = matrix[pivot] / jnp.where(is_taken, matrix[pivot, pivot], 1.0)
        is_line = lax.iota(jnp.int32, matrix.shape[0]) == pivot
        cleared = jnp.where(
            is_line[:, None], line[None, :], matrix - matrix[:, pivot][:, None] * line[None, :]
        )
        return jnp.where(is_taken, cleared, matrix), is_pivot | (is_line & is_taken), is_taken

    none = jnp.zeros(normal.shape[0], bool)
    reduced, is_pivot, _ = loops.while_loop(
        lambda carry: carry[2], eliminate, (normal, none, reduce.any_true(diagonal > 0))
    )
    return reduced, is_pivot
