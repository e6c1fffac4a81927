"""From a separation of the points to a line that can be written down: direction, anchor and bias in the result's float type."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import numerics
from jboost.base.types import Array
from jboost.geometry import exact, fractions
from jboost.pair.instance import Instance
from jboost.pair.visits import Incumbent


class Line(NamedTuple):
    """A line, or a plane, whose numbers are all exact in the result's float type, in the units of the data too."""

    normal: Array  # [d]
    anchor: Array  # [d]
    bias: Array  # []
    margin: Array  # []


def draw_line(instance: Instance, best: Incumbent, own_is_positive: Array, flip_misclassified: bool, unit: Array, result_dtype: jnp.dtype) -> Line:
    """The bisector of the two sides, in metric coordinates of a unit, along the direction of the result's float type that leaves the widest gap."""
    sign = jnp.where(own_is_positive, 1, -1).astype(instance.x.dtype)
    on_positive_side = best.on_own_side == own_is_positive
    kept = instance.live & (best.on_own_side == instance.own)
    counted = instance.live if flip_misclassified else kept
    above, below = counted & on_positive_side, counted & ~on_positive_side
    normals_x, normals_y = fractions.enclosing_directions(sign * best.normal_x, sign * best.normal_y, result_dtype)
    lines = jax.vmap(lambda x, y: _bisect(instance, x, y, above, below, result_dtype))(normals_x, normals_y)
    return choose(lines, best.is_constant, on_positive_side, unit, result_dtype)


def choose(lines: Line, is_constant: Array, on_positive_side: Array, unit: Array, result_dtype: jnp.dtype) -> Line:
    """The line of widest margin of several, fields [l], or the constant whose points [n] all lie on one side."""
    widest = jnp.minimum(numerics.first_true(lines.margin == jnp.max(lines.margin)), lines.margin.shape[0] - 1)
    line = _at_length(jax.tree.map(lambda field: field[widest], lines), unit, result_dtype)
    constant = Line(
        normal=jnp.zeros_like(lines.normal[0]),
        anchor=jnp.zeros_like(lines.anchor[0]),
        bias=jnp.where(on_positive_side[0], 1, -1).astype(lines.bias.dtype),
        margin=jnp.full((), jnp.inf, lines.margin.dtype),
    )
    return jax.tree.map(lambda flat, drawn: jnp.where(is_constant, flat, drawn), constant, line)


def _at_length(line: Line, unit: Array, result_dtype: jnp.dtype) -> Line:
    """The line with normal and bias made longer or shorter, where the result's float type does not hold them else; what is still too small is 0."""
    number = jnp.finfo(result_dtype)
    least, most = float(number.tiny), float(number.max) / 16
    parts = jnp.append(line.normal, line.bias)
    sizes, units = jnp.abs(parts), jnp.append(jnp.ones_like(line.normal), unit)
    over_least = jnp.where(sizes > 0, sizes * (units / least), jnp.inf)
    longer = numerics.power_of_two_at_least(1 / jnp.minimum(jnp.min(over_least), 1))
    length = jnp.minimum(longer, 1 / numerics.power_of_two_at_least(jnp.max(sizes * (units / most))))
    parts = jnp.where(over_least * length >= 1, parts * length, 0)
    return line._replace(normal=parts[:-1], bias=parts[-1])


def _bisect(instance: Instance, normal_x: Array, normal_y: Array, above: Array, below: Array, result_dtype: jnp.dtype) -> Line:
    """The line half way between the lowest point above and the highest point below; its anchor is the former, rounded."""
    x, y = instance.metric_x, instance.metric_y
    size = numerics.power_of_two_at_least(jnp.maximum(jnp.abs(normal_x), jnp.abs(normal_y)))
    normal_x, normal_y = normal_x / size, normal_y / size
    last = x.shape[0] - 1
    start = jnp.minimum(numerics.first_true(above), last)
    lowest = jnp.minimum(exact.wide_argmin(_height(normal_x, normal_y, x, y, x[start], y[start]), above), last)
    depth = exact.wide_negative(_height(normal_x, normal_y, x, y, x[lowest], y[lowest]))
    highest = jnp.minimum(exact.wide_argmin(depth, below), last)
    half_gap = depth.hi[highest] / 2
    anchor_x, anchor_y = (numerics.held_in(coordinate[lowest], result_dtype) for coordinate in (x, y))
    shift = _height(normal_x, normal_y, anchor_x, anchor_y, x[lowest], y[lowest]).hi
    bias = numerics.held_in(half_gap + shift, result_dtype)
    length = jnp.sqrt(normal_x * normal_x + normal_y * normal_y)
    return Line(jnp.stack([normal_x, normal_y]), jnp.stack([anchor_x, anchor_y]), bias, numerics.safe_divide(half_gap, length))


def _height(normal_x: Array, normal_y: Array, x: Array, y: Array, origin_x: Array, origin_y: Array) -> exact.Wide:
    """How far points lie along a normal from an origin, times the length of the normal."""
    nothing = jnp.zeros_like(normal_x)
    along_x = exact.wide_multiply(exact.Wide(normal_x, nothing), exact.wide_difference(x, origin_x))
    return exact.wide_add(along_x, exact.wide_multiply(exact.Wide(normal_y, nothing), exact.wide_difference(y, origin_y)))


def misclassified(instance: Instance, positive: Array, line: Line) -> Array:
    """The points that do not lie strictly on their side of the line, judged as float64 arithmetic judges it, [n] bool."""
    x, y = instance.metric_x, instance.metric_y
    if x.dtype.itemsize == 8:
        products = exact.rounded_product(line.normal[0], x - line.anchor[0]), exact.rounded_product(line.normal[1], y - line.anchor[1])
        score = products[0] + products[1] + line.bias
    else:
        height = _height(line.normal[0], line.normal[1], x, y, line.anchor[0], line.anchor[1])
        score = exact.wide_add(height, exact.Wide(line.bias, jnp.zeros_like(line.bias))).hi
    return instance.live & ~jnp.where(positive, score > 0, score < 0)


def in_data_units(line: Line, is_constant: Array, unit: Array) -> Line:
    """The line for points in the units of the data."""
    return Line(line.normal, line.anchor * unit, jnp.where(is_constant, line.bias, line.bias * unit), line.margin * unit)
