"""Scores of points under a linear model, for predictions and for certificates.

All predictions and the certificates of lines and planes use the same evaluation, so they agree in
every sign.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry import exact

# Terms of the sum that one iteration of the loop adds. A round number; not tuned.
_UNROLLED = 4
# Coordinates above the largest float64 divided by this number are scaled down first, so that their
# differences do not overflow.
_HEADROOM = 16
# Error bounds of `certain_signs`: 16 roundings of a float64, and more than the sum of all
# underflows of floats.
_RELATIVE, _ABSOLUTE = 2.0**-49, 2.0**-100
# A 32-bit integer is the sum of two floats. The second one holds this many of its low bits.
_LOW_BITS = 12


@jax.custom_jvp
@jax.jit
def score_points(points: Array, normal: Array, anchor: Array, bias: Array) -> Array:
    """normal . (x - anchor) + bias for each point x, computed in float64 in every program.

    Derivatives are computed in the types of the arguments.

    Args:
      points: [k, d], real.
      normal: [d].
      anchor: [d].
      bias: [].

    Returns:
      [k], rounded to the type of `bias`. A score below its least normal number is replaced by this
      number, with the same sign. The score is NaN if a coordinate is not finite.
    """
    dtype = bias.dtype
    least = float(jnp.finfo(dtype).tiny)

    def evaluate(*arrays: Array) -> Array:
        points, normal, anchor, bias = (array.astype("float64") for array in arrays)
        columns, anchor = points.T, anchor[:, None]
        largest = jnp.maximum(
            reduce.largest(jnp.maximum(jnp.abs(columns), jnp.abs(anchor)), axis=0), jnp.abs(bias)
        )
        share = jnp.where(largest > jnp.finfo(largest.dtype).max / _HEADROOM, 1 / _HEADROOM, 1.0)
        terms = exact.rounded_product(normal[:, None], columns * share[None] - anchor * share[None])
        start = jnp.zeros_like(share)
        # Terms are added one by one, so that all devices and batch sizes give the same sum.
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
    """The signs of the scores of `score_points`, computed in 32-bit types.

    The sign is 0 where float64 rounding may give another sign. The score is computed as an
    expansion of floats, which is exact except for underflow. Its sign is certain if it exceeds the
    error bound of float64 arithmetic.

    Args:
      points: [k, d], finite, of at most 32 bits.
      normal: [d] float32.
      anchor: [d] float32.
      bias: [] float32.
      unit: [] float32, a power of two. Coordinates divided by it must be of moderate size.

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
