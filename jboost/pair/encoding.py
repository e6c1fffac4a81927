"""The two ends of every search: from arrays to the examples that it sees, and from a line or plane to a `Separator` whose loss is evaluated again."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.geometry.linear import score_points
from jboost.pair.instance import Instance, bound_loss, is_kept_by_cast, is_valid, meets, scale_points, scale_weights
from jboost.pair.line import Line, in_data_units
from jboost.pair.types import Separator


class Examples(NamedTuple):
    """What of the arrays counts, before the points are scaled; the smaller class is the own one."""

    points: Array  # [n, d] in the float type of the search, 0 where not live
    own: Array  # [n] bool, live and of the own class
    live: Array  # [n] bool
    weights: Array  # [n] integer, 0 where not live


class Encoding(NamedTuple):
    """What it takes to read the answer of a search."""

    points: Array  # [n, d] in the units of the data, 0 where not live
    live: Array  # [n] bool
    positive: Array  # [n] bool
    own_is_positive: Array  # [] bool
    weights: Array  # [n] as given, 0 where masked
    integers: Array  # [n] the same in units of `weight_unit`
    unit: Array  # [] of metric coordinates
    weight_unit: Array  # [] of integer weights
    rounding: Array  # [] what rounding can add up to
    valid: Array  # [] bool
    faithful: Array  # [] bool, nothing is lost by the cast or by underflow


def pad_rows(size: int, *arrays: Array) -> list[Array]:
    """Arrays [n, ...] with rows of zeros after them, [size, ...]; derivatives end here."""
    return [jnp.pad(lax.stop_gradient(array), ((0, size - array.shape[0]),) + ((0, 0),) * (array.ndim - 1)) for array in arrays]


def encode(points: Array, labels: Array, weights: Array, mask: Array, real: jnp.dtype) -> tuple[Instance, Encoding]:
    """The problem in the plane: points scaled by powers of two, integer weights, and the smaller class as the own one."""
    examples, encoding = read(points, labels, weights, mask, real)
    instance, unit, faithful = scale_points(*examples)
    return instance, encoding._replace(unit=unit, faithful=encoding.faithful & faithful)


def read(points: Array, labels: Array, weights: Array, mask: Array, real: jnp.dtype) -> tuple[Examples, Encoding]:
    """The examples that count, and how to read an answer in their own units."""
    valid = is_valid(points, labels, weights, mask)
    usable = mask & valid
    positive = usable & (labels > 0)
    own_is_positive = 2 * jnp.sum(positive, dtype=jnp.int32) <= jnp.sum(usable, dtype=jnp.int32)
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
    return Examples(points.astype(real) + jnp.zeros((), real), own, usable, integers), encoding


def certify(encoding: Encoding, line: Line, is_constant: Array, *, loss: Array, bound: Array, status: Array, result_dtype: jnp.dtype) -> Separator:
    """What a line or plane in metric coordinates loses, once it is written down in the units of the data, beside what is proven.

    Args:
      encoding: of the problem.
      line: in metric coordinates.
      is_constant: [] bool, whether it is a constant classifier.
      loss: [] integer, what it was drawn to lose.
      bound: [] integer, no other loses less.
      status: [] int32, for one that keeps its loss.
      result_dtype: of the result.
    """
    valid = encoding.valid
    line = in_data_units(line, is_constant, encoding.unit)
    offset = line.bias - numerics.masked_sum(line.normal * line.anchor, jnp.ones(line.normal.shape, bool))
    normal, anchor, bias = (numerics.narrow(part, result_dtype) for part in line[:3])
    scores = score_points(encoding.points, normal, anchor, bias)
    wrong = encoding.live & ~jnp.where(encoding.positive, scores > 0, scores < 0)
    lost = numerics.masked_sum(encoding.weights, wrong)
    is_told = meets(lost, bound_loss(loss, encoding.weight_unit, encoding.rounding))
    proven = encoding.faithful & is_told & (numerics.masked_sum(encoding.integers, wrong) == loss)
    status = jnp.where(valid, jnp.where(proven, status, int(Status.PRECISION_LIMIT)), int(Status.INVALID_INPUT))
    spoiled = jnp.where(valid, 0, jnp.nan).astype(result_dtype)
    least = jnp.where(encoding.faithful, bound_loss(bound, encoding.weight_unit, encoding.rounding), 0)
    lost = lost.astype(result_dtype)
    return Separator(
        normal=normal,
        anchor=anchor,
        bias=bias,
        offset=offset.astype(result_dtype),
        loss=lost + spoiled,
        lower_bound=jnp.minimum(numerics.round_down(least, result_dtype), lost) + spoiled,  # floats may lose less than any real line
        margin=line.margin.astype(result_dtype) + spoiled,
        misclassified=wrong,
        status=status.astype(jnp.int32),
    )
