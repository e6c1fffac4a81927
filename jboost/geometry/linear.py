"""What a linear model says of points: one evaluation for all predictions, and for the certificates
of lines and planes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry import exact

_UNROLLED = 4  # terms of a sum that need no loop
_ROOM = 16  # of the largest float64, between it and a coordinate whose differences need no care
# of `certain_signs`: 16 roundings of a float64; far more than underflow of floats can add up to
_RELATIVE, _ABSOLUTE = 2.0**-49, 2.0**-100
_LOW_BITS = 12  # of a 32-bit integer, in the second of two floats that hold it


@jax.custom_jvp
@jax.jit
def score_points(points: Array, normal: Array, anchor: Array, bias: Array) -> Array:
    """normal . (x - anchor) + bias for each point x, in float64 whatever the types of the program;
    derivatives are in those types.

    Args:
      points: [k, d], real.
      normal: [d].
      anchor: [d].
      bias: [].

    Returns:
      [k], rounded to the type of `bias`; one that is too small for it comes out as its least normal
      number, with the right sign. NaN where a coordinate is not finite.
    """
    dtype = bias.dtype
    least = float(jnp.finfo(dtype).tiny)

    def evaluate(*arrays: Array) -> Array:
        points, normal, anchor, bias = (array.astype("float64") for array in arrays)
        columns, anchor = points.T, anchor[:, None]
        largest = jnp.maximum(
            reduce.largest(jnp.maximum(jnp.abs(columns), jnp.abs(anchor)), axis=0), jnp.abs(bias)
        )
        share = jnp.where(largest > jnp.finfo(largest.dtype).max / _ROOM, 1 / _ROOM, 1.0)
        terms = exact.rounded_product(normal[:, None], columns * share[None] - anchor * share[None])
        start = jnp.zeros_like(share)
        # one by one, so that it comes out the same everywhere
        total, _ = loops.scan(
            lambda total, term: (total + term, None), start, terms, unroll=_UNROLLED
        )
        total = total + bias * share
        scores = jnp.where(
            (total != 0) & (jnp.abs(total) < least), jnp.copysign(least, total), total / share
        )
        return jnp.where(reduce.all_true(jnp.isfinite(columns), axis=0), scores, jnp.nan).astype(
            dtype
        )

    return numerics.in_64_bits(evaluate)(points, normal, anchor, bias)


@score_points.defjvp
def _jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    points, normal, anchor, bias = primals
    of_points, of_normal, of_anchor, of_bias = tangents
    moved = (
        of_points
        if jnp.issubdtype(points.dtype, jnp.floating)
        else jnp.zeros_like(points, normal.dtype)
    )
    along = jnp.matmul(moved - of_anchor[None], normal, precision=lax.Precision.HIGHEST)
    turned = jnp.matmul(points - anchor[None], of_normal, precision=lax.Precision.HIGHEST)
    return score_points(*primals), (along + turned + of_bias).astype(bias.dtype)


def certain_signs(points: Array, normal: Array, anchor: Array, bias: Array, unit: Array) -> Array:
    """The signs of the scores of `score_points`, by 32-bit types alone; 0 where the rounding of
    float64 may give another sign.

    The sum is exact, as an expansion of floats, but for underflow; a score is certain if it is
    larger than what float64 arithmetic may err by.

    Args:
      points: [k, d], finite, of at most 32 bits.
      normal: [d] float32.
      anchor: [d] float32.
      bias: [] float32.
      unit: [] float32, a power of two, of which all coordinates are moderate multiples.

    Returns:
      [k] int32: -1, 0 or +1.
    """
    in_units = bias / unit
    length = numerics.power_of_two_at_least(
        jnp.maximum(jnp.max(jnp.abs(normal)), jnp.abs(in_units))
    )
    normal, in_units = normal / length, in_units / length
    parts = [part / unit for part in _as_floats(points)]
    terms, size = [], jnp.abs(in_units)
    for axis, origin in enumerate(anchor / unit):
        along, values = normal[axis], [part[axis] for part in parts]
        terms += [term for value in (*values, -origin) for term in exact.two_product(along, value)]
        size = size + jnp.abs(along) * jnp.abs(sum(values[1:], values[0] - origin))
    slack = size * _RELATIVE + _ABSOLUTE
    alone = [jnp.broadcast_to(term, slack.shape)[None] for term in (*terms, in_units)]
    is_positive, is_negative = exact.sign_of_sum([*alone, jnp.stack([-slack, slack])])
    return jnp.where(is_positive > 0, 1, jnp.where(is_negative < 0, -1, 0)).astype(jnp.int32)


def _as_floats(points: Array) -> list[Array]:
    """Numbers [k, d] of at most 32 bits as sums of one or two float32, each [d, k]."""
    columns = points.T
    if jnp.issubdtype(points.dtype, jnp.floating) or points.dtype.itemsize < 4:
        return [columns.astype(jnp.float32)]
    high = (columns >> _LOW_BITS) << _LOW_BITS
    return [high.astype(jnp.float32), (columns - high).astype(jnp.float32)]
