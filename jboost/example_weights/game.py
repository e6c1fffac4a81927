"""The linear program (5) of Naish-Guzman, Holden and Paquet as a game: its margins, bounds
and starting points.

(5) is the maximum over d in the simplex of the minimum over u of u'Qd. u lies in the simplex with
u_i <= C, so that the penalty C is the cap of the row weights. Symbols: d is `weights` (one for each
column), u is `row_weights`, and Q_ij = y_i z_j / 2 - sigma B_ij with B_ij = y_i z_j P_ij / sigma.
sigma is `scale`, the largest P_ij.

The optimum is many orders of magnitude below 1/2, the size of the rank-one part of Q. That part is
therefore computed separately, with the variables b = sum_j z_j d_j / (2 sigma) and
a = sum_i y_i u_i / (2 sigma). Margins are y b - B d and edges are z a - B'u, both in units of
sigma, and their terms have similar sizes. The conditions of the central path are

    margins - gamma + xi - s = 0,   edges - v + t = 0,   d t = u s = xi (C - u) = mu.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.brackets import widen
from jboost.base.types import Array

# A warm start is raised to at least this multiple of the cold start, away from the boundary.
_LIFT = 0.1
_MOST_CAP = 2.0  # larger caps are reduced to this one: a cap of 1 or more never binds
# Row weights of a cold and of a warm start lie at most this fraction of the way from equal weights
# to the cap, so that they are strictly inside the cap.
_START_SHARE, _RESTART_SHARE = 0.7, 0.9


class ScaledGame(NamedTuple):
    """A program in units of `scale`. Masked rows and columns of the matrix are 0."""

    matrix: Array  # [n, m] B'; each row is a column of the program
    row_labels: Array  # [m] y, 0 where masked
    column_labels: Array  # [n] z, 0 where masked
    scale: Array  # [] sigma
    cap: Array  # [] C
    num_rows: Array  # [] float, those not masked
    num_columns: Array  # [] float


class ScaledGamePoint(NamedTuple):
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


def make(disagreement: Array, row_labels: Array, column_labels: Array, cap: Array) -> ScaledGame:
    """The game of P' [n, m] (columns first), y [m] and z [n] (0 where masked), and C []."""
    signed = column_labels[:, None] * row_labels[None, :]
    masked = jnp.where(signed == 0, 0.0, disagreement)
    size = reduce.largest(masked, axis=(0, 1))
    scale = jnp.where(size > 0, size, 1.0)
    program = ScaledGame(
        signed * (masked / scale),
        row_labels,
        column_labels,
        scale,
        jnp.minimum(cap, _MOST_CAP),
        scale,
        scale,
    )
    return program._replace(num_rows=_count(row_labels), num_columns=_count(column_labels))


def take(game: ScaledGame, columns: Array) -> ScaledGame:
    """The game with some of its columns [k]."""
    column_labels = game.column_labels[columns]
    return game._replace(
        matrix=game.matrix[columns], column_labels=column_labels, num_columns=_count(column_labels)
    )


def _count(labels: Array) -> Array:
    return reduce.count(labels != 0, dtype=labels.dtype)


def margins(game: ScaledGame, weights: Array) -> Array:
    """y b - B d in units of sigma, [m]."""
    bias = reduce.total(game.column_labels * weights) / (2 * game.scale)
    return game.row_labels * bias - jnp.matmul(
        weights, game.matrix, precision=lax.Precision.HIGHEST
    )


def edges(game: ScaledGame, row_weights: Array) -> Array:
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


def allowed(game: ScaledGame, row_weights: Array) -> Array:
    """Row weights [m] near the given ones (not negative), of sum one and at most the cap, despite
    rounding.

    The excess above the cap is moved to rows of the same class that are below the cap, in
    proportion to their distance from it. This keeps the balance of the classes, to which edges are
    many orders of magnitude more sensitive than to other changes. What does not fit into the class
    is moved to the other one. If the cap allows no more than equal weights, they are equal.
    """
    return _capped(game, row_weights, game.cap)


def _capped(game: ScaledGame, row_weights: Array, cap: Array) -> Array:
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


def _inside(game: ScaledGame, row_weights: Array, share: float) -> Array:
    """Row weights of sum one, at most a given share of the way from equal weights to the cap."""
    even = 1 / jnp.maximum(game.num_rows, 1)
    return _capped(game, row_weights, even + share * jnp.maximum(game.cap - even, 0.0))


def start(game: ScaledGame) -> ScaledGamePoint:
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
    return ScaledGamePoint(
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


def bounds(game: ScaledGame, point: ScaledGamePoint) -> tuple[Array, Array]:
    """The lower bound that the weights of an iterate prove, and the upper bound of its row weights,
    [] each. They are valid up to rounding, since both weights are made feasible first.
    """
    edge = edges(game, allowed(game, point.row_weights))
    return attained(game, point), numerics.masked_max(edge, game.column_labels != 0, fill=-jnp.inf)


def attained(game: ScaledGame, point: ScaledGamePoint) -> Array:
    """The lower bound [] that the weights of an iterate prove once they are scaled to sum one."""
    return attained_by(
        game, point.level, margins(game, point.weights / reduce.total(point.weights))
    )


def attained_by(game: ScaledGame, level: Array, reached: Array) -> Array:
    """The objective [] of margins [m] at a level gamma."""
    return level - game.cap * numerics.masked_sum(
        jnp.maximum(level - reached, 0.0), game.row_labels != 0
    )


def restart(game: ScaledGame, before: ScaledGamePoint) -> ScaledGamePoint:
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
    chosen: ScaledGamePoint = loops.cond(is_sound, lambda: lifted, lambda: fresh)
    return chosen


def first_point(game: ScaledGame, initial: ScaledGamePoint | None = None) -> ScaledGamePoint:
    """The point before the first iteration. `initial` is an iterate of a game with the same rows
    and columns, or None.
    """
    return start(game) if initial is None else restart(game, initial)
