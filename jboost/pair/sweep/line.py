"""Converts a separation of the points to a line: direction, anchor and bias in the float type of
the result.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import numerics, reduce
from jboost.base.types import Array
from jboost.geometry import exact, fractions
from jboost.pair.sweep.instance import LineInstance
from jboost.pair.sweep.visits import Incumbent
from jboost.pair.types import Fat


class Line(NamedTuple):
    """A line, or a plane. The numbers of a result are exact in its float type."""

    normal: Array  # [d]
    anchor: Array  # [d]
    bias: Array  # []
    margin: Array  # []


def draw_line(
    instance: LineInstance,
    best: Incumbent,
    own_is_positive: Array,
    fat: Fat,
    unit: Array,
    result_dtype: jnp.dtype,
) -> Line:
    """The bisector of the two sides, in the units of the data. Its direction is the one in the
    float type of the result that gives the widest gap.
    """
    on_positive_side = best.on_own_side == own_is_positive
    kept = instance.live & (best.on_own_side == instance.own)
    counted = instance.live if fat == "flipped" else kept
    above, below = counted & on_positive_side, counted & ~on_positive_side
    normal = jnp.where(own_is_positive, best.normal, -best.normal)
    normals = fractions.enclosing_directions(normal, result_dtype)
    normals = normals / numerics.power_of_two_at_least(jnp.max(jnp.abs(normals), axis=1))[:, None]
    start = jnp.minimum(numerics.first_true(above), instance.own.shape[0] - 1)
    lines = jax.vmap(
        lambda normal: _bisect(instance.metric, normal, above, below, start, result_dtype)
    )(normals)
    return choose(lines, best.is_constant, on_positive_side, unit, result_dtype)


def choose(
    lines: Line, is_constant: Array, on_positive_side: Array, unit: Array, result_dtype: jnp.dtype
) -> Line:
    """The line of widest margin among several, or the constant classifier, in the units of the
    data.

    Args:
      lines: fields [l, ...], in metric coordinates.
      is_constant: [] bool.
      on_positive_side: [n] bool.
      unit: [] of metric coordinates, a power of two.
      result_dtype: of the numbers of the line.
    """
    *normal, bias = _at_length([*lines.normal.T, lines.bias], unit, result_dtype)
    anchor = [numerics.held_in(column * unit, result_dtype) for column in lines.anchor.T]
    flat, side = jnp.zeros_like(lines.margin), jnp.where(on_positive_side[0], 1.0, -1.0)
    constant = [flat] * (2 * len(normal)) + [flat + side, flat + jnp.inf]
    drawn = [*normal, *anchor, bias, lines.margin * unit]
    parts = [jnp.where(is_constant, flat, part) for flat, part in zip(constant, drawn, strict=True)]
    number = lax.iota(jnp.int32, flat.shape[0])
    _, _, *parts, bias, margin = reduce.lexicographic_least(
        jnp.where(is_constant, 0, -lines.margin), number, carried=parts
    )
    return Line(jnp.stack(parts[: len(normal)]), jnp.stack(parts[len(normal) :]), bias, margin)


def _at_length(parts: Sequence[Array], unit: Array, result_dtype: jnp.dtype) -> list[Array]:
    """The normals and biases of lines, [l] each, in the units of the data.

    They are scaled if the result's float type could not represent them otherwise. Components that
    still underflow become 0.
    """
    number = jnp.finfo(result_dtype)
    least, most = float(number.tiny), float(number.max) / 16
    units = [jnp.ones_like(unit)] * (len(parts) - 1) + [unit]
    over_least = [
        jnp.where(part != 0, jnp.abs(part) * (each / least), jnp.inf)
        for part, each in zip(parts, units, strict=True)
    ]
    over_most = [jnp.abs(part) * (each / most) for part, each in zip(parts, units, strict=True)]
    longer = numerics.power_of_two_at_least(
        1 / jnp.minimum(functools.reduce(jnp.minimum, over_least), 1)
    )
    length = jnp.minimum(
        longer, 1 / numerics.power_of_two_at_least(functools.reduce(jnp.maximum, over_most))
    )
    return [
        jnp.where(over * length >= 1, part * length * each, 0)
        for part, over, each in zip(parts, over_least, units, strict=True)
    ]


def _bisect(
    points: Array, normal: Array, above: Array, below: Array, start: Array, result_dtype: jnp.dtype
) -> Line:
    """The line half way between the lowest point above and the highest point below. Its anchor is
    the lowest point above, rounded.

    Args:
      points: [2, n].
      normal: [2].
      above: [n] bool.
      below: [n] bool.
      start: [] int32, a point from which heights are measured.
      result_dtype: of the anchor and the bias.
    """
    height = _height(normal, points, numerics.take(points, start))
    height = exact.wide_where(above, height, exact.wide_negative(height))
    (place, lowest), (_, highest) = exact.wide_leasts(height, above, below)
    half_gap = exact.wide_add(lowest, highest).hi / 2
    support = numerics.take(points, jnp.minimum(place, above.shape[0] - 1))
    anchor = numerics.held_in(support, result_dtype)
    shift = _height(normal, anchor, support).hi
    bias = numerics.held_in(half_gap + shift, result_dtype)
    length = jnp.sqrt(normal[0] * normal[0] + normal[1] * normal[1])
    return Line(normal, anchor, bias, numerics.safe_divide(half_gap, length))


def _height(normal: Array, points: Array, origin: Array) -> exact.Wide:
    """The heights of points [2, ...] above an origin along a normal, times the normal's length."""
    normal, origin = (vector.reshape(2, *(1,) * (points.ndim - 1)) for vector in (normal, origin))
    along = exact.wide_scale(normal, exact.wide_difference(points, origin))
    return exact.wide_add(*(exact.Wide(along.hi[axis], along.lo[axis]) for axis in range(2)))


def misclassified(instance: LineInstance, positive: Array, line: Line, unit: Array) -> Array:
    """The points that are not strictly on their side of a line in the units of the data, [n] bool,
    by the score as float64 arithmetic computes it.
    """
    # computed in metric coordinates, whose differences do not overflow
    points, anchor, bias = instance.metric, line.anchor / unit, line.bias / unit
    if points.dtype.itemsize == 8:
        along_x, along_y = (
            exact.rounded_product(line.normal[axis], points[axis] - anchor[axis])
            for axis in range(2)
        )
        score = along_x + along_y + bias
    else:
        height = _height(line.normal, points, anchor)
        score = exact.wide_add(height, exact.Wide(bias, jnp.zeros_like(bias))).hi
    return instance.live & ~jnp.where(positive, score > 0, score < 0)
