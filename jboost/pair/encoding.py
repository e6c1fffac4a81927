"""The two ends of every search: from arrays to an `Instance`, and from a line to a `Separator` whose loss is evaluated again."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import numerics
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.pair.instance import Instance, bound_loss, is_kept_by_cast, is_valid, scale_points, scale_weights
from jboost.pair.line import Line, in_data_units, is_right
from jboost.pair.types import Separator


class Encoding(NamedTuple):
    """The problem as a search sees it, and what it takes to read its answer."""

    instance: Instance
    positive: Array  # [n] bool
    own_is_positive: Array  # [] bool
    weights: Array  # [n] as given, 0 where masked
    unit: Array  # [] of metric coordinates
    weight_unit: Array  # [] of integer weights
    rounding: Array  # [] what rounding can add up to
    valid: Array  # [] bool
    faithful: Array  # [] bool, nothing is lost by the cast or by underflow


def encode(points: Array, labels: Array, weights: Array, mask: Array, real: jnp.dtype) -> Encoding:
    """Points scaled by powers of two, integer weights, and the smaller class as the own one."""
    valid = is_valid(points, labels, weights, mask)
    usable = mask & valid
    positive = usable & (labels > 0)
    own_is_positive = 2 * jnp.sum(positive, dtype=jnp.int32) <= jnp.sum(usable, dtype=jnp.int32)
    own = usable & (positive == own_is_positive)
    points = jnp.where(usable[:, None], points, jnp.zeros((), points.dtype))
    clean = points.astype(real) + jnp.zeros((), real)
    weights = jnp.where(usable, weights, jnp.zeros((), weights.dtype)).astype(real)
    integers, weight_unit, rounding = scale_weights(weights)
    instance, unit, faithful = scale_points(clean, own, usable, integers)
    faithful &= is_kept_by_cast(points, real)
    return Encoding(instance, positive, own_is_positive, weights, unit, weight_unit, rounding, valid, faithful)


def certify(encoding: Encoding, line: Line, is_constant: Array, loss: Array, bound: Array, status: Array, result_dtype: jnp.dtype) -> Separator:
    """What a line in metric coordinates loses in float64 arithmetic, beside what is proven.

    Args:
      encoding: the problem.
      line: in metric coordinates.
      is_constant: [] bool, whether it is a constant classifier.
      loss: [] integer, what the line was drawn to lose.
      bound: [] integer, no line loses less.
      status: [] int32, for a line that keeps its loss.
      result_dtype: of the result.
    """
    instance, valid = encoding.instance, encoding.valid
    wrong = instance.live & ~is_right(instance, encoding.positive, line)
    proven = encoding.faithful & (numerics.masked_sum(instance.weights, wrong) == loss)
    status = jnp.where(valid, jnp.where(proven, status, int(Status.PRECISION_LIMIT)), int(Status.INVALID_INPUT))
    spoiled = jnp.where(valid, 0, jnp.nan).astype(result_dtype)
    least = jnp.where(encoding.faithful, bound_loss(bound, encoding.weight_unit, encoding.rounding), 0)
    line = in_data_units(line, is_constant, encoding.unit, result_dtype)
    offset = line.bias - numerics.masked_sum(line.normal * line.anchor, jnp.ones(2, bool))
    return Separator(
        normal=line.normal.astype(result_dtype),
        anchor=line.anchor.astype(result_dtype),
        bias=line.bias.astype(result_dtype),
        offset=offset.astype(result_dtype),
        loss=numerics.masked_sum(encoding.weights, wrong).astype(result_dtype) + spoiled,
        lower_bound=numerics.round_down(least, result_dtype) + spoiled,
        margin=line.margin.astype(result_dtype) + spoiled,
        misclassified=wrong,
        status=status.astype(jnp.int32),
    )
