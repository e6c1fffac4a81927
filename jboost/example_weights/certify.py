"""Bounds on the optimum of (5) that example weights and row weights prove, valid in exact
arithmetic for the disagreements as given.

Any d in the simplex attains max over gamma of gamma - C sum_i [gamma - margin_i]_+. Any u in the
simplex with u_i <= C proves that the optimum is at most max_j edge_j. Both are computed in 64 bits
from the arrays alone: the weights are scaled to sum one, the rank-one part of Q is computed
separately, and the results are rounded outwards.
"""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base import numerics, reduce
from jboost.base.brackets import along, round_outwards, sum_and_slack, widen
from jboost.base.types import Array

_ROUNDING = 2.0**-50  # four units of rounding of float64


def prove(
    disagreement: Array,
    row_labels: Array,
    column_labels: Array,
    penalty: Array,
    weights: Array,
    row_weights: Array,
) -> tuple[Array, Array]:
    """The lower bound that d (`weights` [n]) proves, and the upper bound that u (`row_weights` [m])
    proves; -inf and +inf where they prove nothing.

    Args:
      disagreement: [n, m].
      row_labels: [m] y, 0 where masked.
      column_labels: [n] z, 0 where masked.
      penalty: [] C. A penalty that is below 1 / m only by rounding counts as 1 / m. For a smaller
        one the program is unbounded above.
      weights: [n], not negative, 0 where masked.
      row_weights: [m], not negative, 0 where masked.
    """

    def bounds(
        disagreement: Array,
        row_labels: Array,
        column_labels: Array,
        penalty: Array,
        weights: Array,
        row_weights: Array,
    ) -> tuple[Array, Array]:
        total, slack = _weigh(disagreement, column_labels, row_labels, weights, over_columns=True)
        lower = _attained(total - slack, row_labels != 0, _wide_cap(penalty, row_labels))
        edge, edge_slack = _weigh(
            disagreement, row_labels, column_labels, row_weights, over_columns=False
        )
        upper = reduce.largest(jnp.where(column_labels != 0, edge + edge_slack, -jnp.inf))
        sum_d, sum_u = reduce.total(widen(weights)), reduce.total(widen(row_weights))
        lower, upper = (
            jnp.where(total > 0, bound / jnp.where(total > 0, total, 1.0), bound)
            for bound, total in ((lower, sum_d), (upper, sum_u))
        )
        return _round(
            lower,
            upper,
            sum_d > 0,
            is_allowed(row_weights, row_labels, penalty),
            disagreement.dtype,
        )

    return numerics.in_64_bits(bounds)(
        disagreement, row_labels, column_labels, penalty, weights, row_weights
    )


def prove_from_margins(
    margins: Array, edges: Array, labels: Array, penalty: Array, weights: Array, row_weights: Array
) -> tuple[Array, Array]:
    """`prove` for programs in which all examples are rows and columns, from margins [m] rounded
    down and edges [m] rounded up. Both belong to weights that are scaled to sum one.
    """

    def bounds(
        margins: Array,
        edges: Array,
        labels: Array,
        penalty: Array,
        weights: Array,
        row_weights: Array,
    ) -> tuple[Array, Array]:
        is_live = labels != 0
        lower = _attained(widen(margins), is_live, _wide_cap(penalty, labels))
        upper = reduce.largest(jnp.where(is_live, widen(edges), -jnp.inf))
        return _round(
            lower,
            upper,
            reduce.any_true(weights > 0),
            is_allowed(row_weights, labels, penalty),
            margins.dtype,
        )

    return numerics.in_64_bits(bounds)(margins, edges, labels, penalty, weights, row_weights)


def is_feasible(penalty: Array, row_labels: Array) -> Array:
    """Whether the penalty is at least 1 / m, up to rounding in its own type, []. Below, the program
    is unbounded and no row weights are allowed.
    """

    def compare(penalty: Array, row_labels: Array) -> Array:
        count = reduce.count(row_labels != 0)
        return widen(penalty) * count.astype(jnp.float64) >= 1 - 4 * float(
            jnp.finfo(penalty.dtype).eps
        )

    return numerics.in_64_bits(compare)(penalty, row_labels)


def is_allowed(row_weights: Array, row_labels: Array, penalty: Array) -> Array:
    """Whether row weights [m], scaled to sum one, are within the cap for any rounding, []. Equal
    weights are within any feasible cap, and no weight exceeds a cap of 1.
    """

    def compare(row_weights: Array, row_labels: Array, penalty: Array) -> Array:
        is_row, values, cap = row_labels != 0, widen(row_weights), _wide_cap(penalty, row_labels)
        total, largest, least = reduce.several(
            (reduce.SUM, values),
            (reduce.LARGEST, values),
            (reduce.LEAST, jnp.where(is_row, values, jnp.inf)),
        )
        is_even = least >= largest
        is_within = largest <= cap * total * (1 - (values.shape[0] + 2) * 2.0**-52)
        return is_feasible(penalty, row_labels) & (total > 0) & (is_even | is_within | (cap >= 1))

    return numerics.in_64_bits(compare)(row_weights, row_labels, penalty)


def _wide_cap(penalty: Array, row_labels: Array) -> Array:
    count = reduce.count(row_labels != 0)
    return jnp.maximum(widen(penalty), 1 / jnp.maximum(count, 1).astype(jnp.float64))


def _round(
    lower: Array, upper: Array, has_weights: Array, is_allowed: Array, dtype: jnp.dtype
) -> tuple[Array, Array]:
    """The bounds as floats, rounded outwards; infinite where nothing is proven."""
    lower, upper = jnp.where(has_weights, lower, -jnp.inf), jnp.where(is_allowed, upper, jnp.inf)
    low, _ = round_outwards(
        lower, jnp.where(jnp.isfinite(lower), 8 * _ROUNDING * jnp.abs(lower), 0.0), dtype
    )
    _, high = round_outwards(
        upper, jnp.where(jnp.isfinite(upper), 8 * _ROUNDING * jnp.abs(upper), 0.0), dtype
    )
    return low, high


def _weigh(
    disagreement: Array, labels: Array, other_labels: Array, weights: Array, *, over_columns: bool
) -> tuple[Array, Array]:
    """y_i (1/2 sum_j z_j w_j - sum_j P_ij z_j w_j), and a bound on its rounding error. `labels` z
    and `weights` w belong to the side that is summed over.
    """
    signed = labels * weights
    size = weights.shape[0]
    tilt, tilt_slack = sum_and_slack(along(-1), size, signed, jnp.full_like(signed, 0.5))
    axis = 0 if over_columns else 1
    factors = signed[:, None] if over_columns else signed[None, :]
    moved, slack = sum_and_slack(along(axis), size, disagreement, factors)
    others = widen(other_labels)
    return others * (tilt - moved), (tilt_slack + slack) * (1 + _ROUNDING) + _ROUNDING * (
        jnp.abs(tilt) + jnp.abs(moved)
    )


def _attained(margins: Array, is_row: Array, cap: Array) -> Array:
    """max over gamma of gamma - C sum_i [gamma - margin_i]_+, rounded down. gamma is the margin
    that is best up to rounding.
    """
    count = reduce.count(is_row)
    ordered = jnp.sort(jnp.where(is_row, margins, jnp.inf))
    index = jnp.minimum(jnp.floor(1 / cap).astype(jnp.int32), jnp.maximum(count - 1, 0))
    level = ordered[index]
    level = jnp.where(jnp.isfinite(level), level, 0.0)
    short = jnp.where(is_row, jnp.maximum(level - margins, 0.0), 0.0)
    paid = cap * reduce.total(short)
    return jnp.where(
        count > 0,
        level - paid - _ROUNDING * (margins.shape[0] + 2) * (paid + jnp.abs(level)),
        -jnp.inf,
    )
