"""Input and output of every search: converts arrays to examples, and a line or plane to a
`Separator` with a newly evaluated loss.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics, reduce
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.geometry.linear import certain_signs, score_points
from jboost.pair.sweep.instance import (
    LineInstance,
    bound_loss,
    is_kept_by_cast,
    is_valid,
    meets,
    scale_points,
    scale_weights,
)
from jboost.pair.sweep.line import Line
from jboost.pair.types import Separator


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


def certify(
    encoding: Encoding,
    line: Line,
    *,
    loss: Array,
    bound: Array,
    status: Array,
    result_dtype: jnp.dtype,
) -> Separator:
    """The `Separator` of a line or plane, with its newly evaluated loss and the proven bound.

    Args:
      encoding: of the problem.
      line: in the units of the data, exact in the type of the result.
      loss: [] integer, the loss that the line should have.
      bound: [] integer, a lower bound of the loss of all separators.
      status: [] int32, the status if the line has that loss.
      result_dtype: of the result.
    """
    valid = encoding.valid
    # without 64-bit types, points whose side is uncertain count as misclassified
    if encoding.weights.dtype.itemsize == 4:
        scores = certain_signs(encoding.points, *line[:3], encoding.unit)
    else:
        scores = score_points(encoding.points, *line[:3])
    wrong = encoding.live & ~jnp.where(encoding.positive, scores > 0, scores < 0)
    lost, lost_integers = reduce.totals(
        *(
            jnp.where(wrong, part, jnp.zeros_like(part))
            for part in (encoding.weights, encoding.integers)
        )
    )
    is_told = meets(lost, bound_loss(loss, encoding.weight_unit, encoding.rounding))
    proven = encoding.faithful & is_told & (lost_integers == loss)
    # the line of an interrupted search may lose less than the search knew
    stopped = encoding.faithful & (status != int(Status.OPTIMAL)) & (lost_integers < loss)
    status = jnp.where(
        valid,
        jnp.where(proven | stopped, status, int(Status.PRECISION_LIMIT)),
        int(Status.INVALID_INPUT),
    )
    spoiled = jnp.where(valid, 0, jnp.nan).astype(result_dtype)
    least = jnp.where(
        encoding.faithful, bound_loss(bound, encoding.weight_unit, encoding.rounding), 0
    )
    lost = lost.astype(result_dtype)
    return Separator(
        normal=line.normal.astype(result_dtype),
        anchor=line.anchor.astype(result_dtype),
        bias=line.bias.astype(result_dtype),
        offset=(line.bias - jnp.sum(line.normal * line.anchor)).astype(result_dtype),
        loss=lost + spoiled,
        # a line in rounded arithmetic may lose less than any exact line
        lower_bound=jnp.minimum(numerics.round_down(least, result_dtype), lost) + spoiled,
        margin=line.margin.astype(result_dtype) + spoiled,
        misclassified=wrong,
        status=status.astype(jnp.int32),
    )
