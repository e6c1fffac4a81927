"""The bounds of a model, recomputed from its arrays; for large m no [m, m] array is kept."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import derivatives, numerics, reduce
from jboost.base.brackets import along, round_outwards, sum_and_slack, widen
from jboost.base.types import Array
from jboost.example_weights import certify
from jboost.example_weights.types import ExampleWeightModel
from jboost.kernels import Kernel

_ENTRIES_AT_ONCE = 1 << 22  # the most entries of the matrix in memory: 2,048 x 2,048


@jax.jit
@derivatives.without("jboost.example_weights.recompute_bounds")
def recompute_bounds(model: ExampleWeightModel) -> tuple[Array, Array]:
    """The lower and the upper bound, [] each, recomputed from the arrays of a model alone.

    For more than 2,048 examples they are computed in chunks and then equal the reported bounds up
    to rounding; they are valid in any case. For a penalty below 1 / m the program is unbounded, and
    the upper bound is +inf.

    >>> import jboost
    >>> model = jboost.example_weights.fit(
    ...     [[-2.0, 0.0], [-1.0, 0.5], [1.0, 0.0], [2.0, 1.0]],
    ...     [-1, -1, 1, 1],
    ...     penalty=1.0,
    ...     radius=5.0,
    ... )
    >>> lower, upper = jboost.example_weights.recompute_bounds(model)
    >>> bool(lower == model.lower_bound) and bool(upper == model.upper_bound)
    True
    """
    size = model.points.shape[0]
    if size**2 <= _ENTRIES_AT_ONCE:
        disagreement = model.kernel.disagreement(model.points, model.points).astype(
            model.points.dtype
        )
        return certify.prove(
            disagreement,
            model.labels,
            model.labels,
            model.penalty,
            model.example_weights,
            model.row_weights,
        )
    margins, _ = price_all(model.kernel, model.points, model.labels, model.example_weights)
    _, edges = price_all(model.kernel, model.points, model.labels, model.row_weights)
    return certify.prove_from_margins(
        margins, edges, model.labels, model.penalty, model.example_weights, model.row_weights
    )


@jax.jit
def price_all(
    kernel: Kernel, centred_points: Array, signs: Array, row_weights: Array
) -> tuple[Array, Array]:
    """Lower and upper bounds on the edges of all examples under row weights, which are scaled to
    sum one, [m] each.
    """
    size = centred_points.shape[0]
    rows = max(1, min(size, _ENTRIES_AT_ONCE // max(size, 1)))
    count = -(-size // rows)
    signed = signs * row_weights
    padded = jnp.pad(centred_points, ((0, count * rows - size), (0, 0))).reshape(count, rows, -1)
    labels = jnp.pad(signs, (0, count * rows - size)).reshape(count, rows)

    def bracket(
        disagreement: Array, labels: Array, signed: Array, row_weights: Array
    ) -> tuple[Array, Array]:
        tilt, tilt_slack = sum_and_slack(along(-1), size, signed, jnp.full_like(signed, 0.5))
        moved, slack = sum_and_slack(along(-1), size, disagreement, signed[None, :])
        total = reduce.total(widen(row_weights))
        slack = (tilt_slack + slack) * (1 + 2.0**-50) + 2.0**-50 * (jnp.abs(tilt) + jnp.abs(moved))
        edge = widen(labels) * (tilt - moved)
        return round_outwards(
            edge / total,
            (slack + 2.0**-50 * jnp.abs(edge)) / total * (1 + 2.0**-50),
            disagreement.dtype,
        )

    def one_chunk(chunk: tuple[Array, Array]) -> tuple[Array, Array]:
        points, own = chunk
        disagreement = lax.optimization_barrier(
            kernel.disagreement(points, centred_points).astype(centred_points.dtype)
        )
        return numerics.in_64_bits(bracket)(disagreement, own, signed, row_weights)

    low, high = lax.map(one_chunk, (padded, labels))
    return low.reshape(-1)[:size], high.reshape(-1)[:size]
