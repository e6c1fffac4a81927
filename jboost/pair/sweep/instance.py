"""The input of every search, from arrays: points scaled by powers of two, integer weights, and
bounds of the error of this conversion.

Scaling is exact. Angular order does not depend on the units of the two axes. Each axis therefore
has its own scale, which fills the integer grid of the angular keys. Distances use coordinates with
one common unit.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics, reduce
from jboost.base.types import Array
from jboost.geometry import angular


class LineInstance(NamedTuple):
    """The input of the sweep: scaled points, integer weights, own class and other class."""

    # [2, n], |x| <= 2^grid_bits. Each axis has its own scale, because angular order does not depend
    # on the units.
    points: Array
    metric: Array  # [2, n], both axes in one unit: for distances
    own: Array  # [n] bool, live and of the class that serves as centres
    live: Array  # [n] bool
    weights: Array  # [n] integer, 0 where not live
    # [] bool, all coordinates are integers, so that equal keys mean equal directions
    on_grid: Array

    @property
    def x(self) -> Array:
        """[n]"""
        return self.points[0]

    @property
    def y(self) -> Array:
        """[n]"""
        return self.points[1]


class UnscaledExamples(NamedTuple):
    """The valid examples before the points are scaled. The smaller class is the own class."""

    points: Array  # [n, d] in the float type of the search, 0 where not live
    own: Array  # [n] bool, live and of the own class
    live: Array  # [n] bool
    weights: Array  # [n] integer, 0 where not live


class Encoding(NamedTuple):
    """The data needed to convert the result of a search."""

    points: Array  # [n, d] in the units of the data, 0 where not live
    live: Array  # [n] bool
    positive: Array  # [n] bool
    own_is_positive: Array  # [] bool
    weights: Array  # [n] as given, 0 where masked
    integers: Array  # [n] the same in units of `weight_unit`
    unit: Array  # [] of metric coordinates
    weight_unit: Array  # [] of integer weights
    rounding: Array  # [] a bound of the total rounding error of the weights
    valid: Array  # [] bool
    faithful: Array  # [] bool, nothing is lost by the cast or by underflow


def pad_rows(size: int, *arrays: Array) -> list[Array]:
    """Arrays [n, ...] padded with rows of zeros, [size, ...]. Derivatives are stopped."""
    return [
        jnp.pad(
            lax.stop_gradient(array), ((0, size - array.shape[0]),) + ((0, 0),) * (array.ndim - 1)
        )
        for array in arrays
    ]


def encode(
    points: Array, labels: Array, weights: Array, mask: Array, real: jnp.dtype
) -> tuple[LineInstance, Encoding]:
    """The problem in the plane: points scaled by powers of two, integer weights, and the smaller
    class as the own one.
    """
    examples, encoding = read(points, labels, weights, mask, real)
    instance, unit, faithful = scale_points(*examples)
    return instance, encoding._replace(unit=unit, faithful=encoding.faithful & faithful)


def read(
    points: Array, labels: Array, weights: Array, mask: Array, real: jnp.dtype
) -> tuple[UnscaledExamples, Encoding]:
    """The valid examples, and the data that convert a result to the units of the input."""
    valid = is_valid(points, labels, weights, mask)
    usable = mask & valid
    positive = usable & (labels > 0)
    num_positive, num_usable = reduce.totals(positive.astype(jnp.int32), usable.astype(jnp.int32))
    own_is_positive = 2 * num_positive <= num_usable
    own = usable & (positive == own_is_positive)
    points = jnp.where(usable[:, None], points, jnp.zeros((), points.dtype))
    weights = jnp.where(usable, weights, jnp.zeros((), weights.dtype)).astype(real)
    integers, weight_unit, rounding = scale_weights(weights)
    encoding = Encoding(
        points=points,
        live=usable,
        positive=positive,
        own_is_positive=own_is_positive,
        weights=weights,
        integers=integers,
        unit=jnp.ones((), real),
        weight_unit=weight_unit,
        rounding=rounding,
        valid=valid,
        faithful=is_kept_by_cast(points, real),
    )
    return UnscaledExamples(
        points.astype(real) + jnp.zeros((), real), own, usable, integers
    ), encoding


def is_valid(points: Array, labels: Array, weights: Array, mask: Array) -> Array:
    """Whether all unmasked values are allowed, []."""
    is_label = (
        (labels == 1) | (labels == -1)
        if jnp.issubdtype(labels.dtype, jnp.signedinteger)
        else jnp.abs(labels) == 1
    )
    least = jnp.finfo(weights.dtype).tiny if jnp.issubdtype(weights.dtype, jnp.floating) else 1
    sound = is_label & (weights >= least) & jnp.isfinite(weights)
    return reduce.all_true((jnp.isfinite(points) & sound[:, None]) | ~mask[:, None], axis=(0, 1))


def is_kept_by_cast(points: Array, real: jnp.dtype) -> Array:
    """Whether the cast to the float type of the search changes no point, [] bool."""
    if jnp.issubdtype(points.dtype, jnp.floating):
        return ~reduce.any_true(numerics.is_subnormal(points), axis=(0, 1))
    kept = points.astype(real)
    # numbers from here on are cast back to the largest integer
    end = float(jnp.iinfo(points.dtype).max) + 1
    return reduce.all_true((kept < end) & (points == kept.astype(points.dtype)), axis=(0, 1))


# The most binades between two coordinates of one axis, by bytes of a float. Products of differences
# are then normal floats.
_MOST_BINADES = {4: 40, 8: 400}


def scale_points(
    points: Array, own: Array, live: Array, weights: Array
) -> tuple[LineInstance, Array, Array]:
    """The problem in scaled coordinates, the unit of the metric coordinates, which is a power of
    two, and whether no underflow occurs.
    """
    bits = angular.grid_bits(points.dtype, points.shape[0])
    scaled, metric, unit, faithful = scale_axes(points, bits, _MOST_BINADES[points.dtype.itemsize])
    return LineInstance(scaled.T, metric.T, own, live, weights, is_integer(scaled)), unit, faithful


def scale_axes(points: Array, bits: int, most_binades: int) -> tuple[Array, Array, Array, Array]:
    """Scales each axis of points [n, d] by a power of two, so that they fill a grid of `bits` bits.

    Returns:
      The scaled points; the points in one common unit; this unit; and whether the coordinates of
      each axis are at most `most_binades` apart, so that no underflow occurs.
    """
    extents = reduce.largest(jnp.abs(points), axis=0)
    extents = jnp.maximum(
        jnp.where(extents > 0, extents, jnp.max(extents)) / 4,
        jnp.finfo(points.dtype).tiny * 2.0**30,
    )
    units = numerics.power_of_two_at_least(extents) * 2.0 ** (2 - bits)
    unit = jnp.max(units)
    scaled = points / units[None]
    smallest = reduce.least(jnp.where(points != 0, jnp.abs(scaled), jnp.inf), axis=(0, 1))
    far_apart = unit / jnp.min(units) > 2.0**most_binades
    return (
        scaled,
        scaled * (units / unit)[None],
        unit,
        (smallest >= 2.0 ** (bits - 1 - most_binades)) & ~far_apart,
    )


def is_integer(values: Array) -> Array:
    """Whether all values [n, d] are integers, []."""
    return reduce.all_true(values == jnp.round(values), axis=(0, 1))


def weight_bits(dtype: jnp.dtype) -> int:
    """The number of bits such that the integers of all weights sum to about 2^bits. Two bits of the
    word remain unused.
    """
    return 60 if jnp.dtype(dtype).itemsize == 8 else 29


def scale_weights(weights: Array) -> tuple[Array, Array, Array]:
    """Weights as integers; the weight of one unit, a power of two; and a bound of the total
    rounding error.
    """
    integer, bits = (
        jnp.int64 if weights.dtype.itemsize == 8 else jnp.int32,
        weight_bits(weights.dtype),
    )
    scale = numerics.power_of_two_at_least(reduce.largest(weights) / 4)
    relative = weights / scale
    unit = numerics.power_of_two_at_least(reduce.total(relative)) * 2.0**-bits
    integers = jnp.round(relative / unit)
    errors = jnp.abs(relative - integers * unit)
    return integers.astype(integer), unit * scale, 2 * reduce.total(errors) * scale


# The largest relative difference between a loss and its bound that counts as rounding of the
# weights, by bytes of its float.
_GAP = {4: 2.0**-9, 8: 2.0**-20}


def meets(loss: Array, bound: Array) -> Array:
    """Whether a loss equals its bound up to the rounding of the weights, [] bool."""
    return loss - bound <= loss * _GAP[loss.dtype.itemsize]


def bound_loss(loss: Array, unit: Array, rounding: Array) -> Array:
    """The lower bound [] of the loss in the given weights that a loss in integer weights proves,
    rounded down.
    """
    exact_bound = numerics.round_down(loss, unit.dtype) * unit
    slack = 1 - 4 * jnp.finfo(unit.dtype).eps
    return jnp.where(rounding > 0, jnp.maximum(exact_bound * slack - rounding, 0), exact_bound)
