"""What a linear model says of points: one evaluation for all predictions, and for the certificates of lines and planes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry import exact

_UNROLLED = 4  # terms of a sum that need no loop
_ROOM = 16  # of the largest float64, between it and a coordinate whose differences need no care


@jax.custom_jvp
@jax.jit
def score_points(points: Array, normal: Array, anchor: Array, bias: Array) -> Array:
    """normal . (x - anchor) + bias for each point x, in float64 whatever the types of the program; derivatives are in those types.

    Args:
      points: [k, d], real.
      normal: [d].
      anchor: [d].
      bias: [].

    Returns:
      [k], rounded to the type of `bias`; one that is too small for it comes out as its least normal number, with the right sign. NaN where a
      coordinate is not finite.
    """
    dtype = bias.dtype
    least = float(jnp.finfo(dtype).tiny)

    def evaluate(*arrays: Array) -> Array:
        points, normal, anchor, bias = (array.astype("float64") for array in arrays)
        columns, anchor = points.T, anchor[:, None]
        largest = jnp.maximum(reduce.largest(jnp.maximum(jnp.abs(columns), jnp.abs(anchor)), axis=0), jnp.abs(bias))
        share = jnp.where(largest > jnp.finfo(largest.dtype).max / _ROOM, 1 / _ROOM, 1.0)
        terms = exact.rounded_product(normal[:, None], columns * share[None] - anchor * share[None])
        start = jnp.zeros_like(share)
        # one by one, so that it comes out the same everywhere
        total, _ = loops.scan(lambda total, term: (total + term, None), start, terms, unroll=_UNROLLED)
        total = total + bias * share
        scores = jnp.where((total != 0) & (jnp.abs(total) < least), jnp.copysign(least, total), total / share)
        return jnp.where(reduce.all_true(jnp.isfinite(columns), axis=0), scores, jnp.nan).astype(dtype)

    return numerics.in_64_bits(evaluate)(points, normal, anchor, bias)


@score_points.defjvp
def _jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    points, normal, anchor, bias = primals
    of_points, of_normal, of_anchor, of_bias = tangents
    moved = of_points if jnp.issubdtype(points.dtype, jnp.floating) else jnp.zeros_like(points, normal.dtype)
    along = jnp.matmul(moved - of_anchor[None], normal, precision=lax.Precision.HIGHEST)
    turned = jnp.matmul(points - anchor[None], of_normal, precision=lax.Precision.HIGHEST)
    return score_points(*primals), (along + turned + of_bias).astype(bias.dtype)
