"""The output of every search: converts a separation of the points to a line (direction, anchor and
bias in the float type of the result), and a line or plane to a `Separator` with a newly evaluated
loss.

A float32 number has 24 bits, but the quotient of two can be within 2^-48 of a given slope.
Continued fractions give the quotients that enclose a slope most tightly. Rounding both components
of a normal instead would turn it by up to 2^-24. This can be more than the gap between the points
of a data set with a few thousand examples.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.geometry import exact
from jboost.geometry.linear import certain_signs, score_points
from jboost.pair.sweep.instance import Encoding, LineInstance, bound_loss, meets
from jboost.pair.sweep.visits import Incumbent
from jboost.pair.types import Fat, Separator

# Terms of a continued fraction. A round number above what 24 or 53 bits need; not tuned.
_MAX_TERMS = 48


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
    normals = enclosing_directions(normal, result_dtype)
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
    # With words of 32 bits the numbers are of 32 bits, whatever the result's float type is.
    number = jnp.finfo(min(result_dtype, unit.dtype, key=lambda dtype: dtype.itemsize))
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


def enclosing_directions(vector: Array, dtype: jnp.dtype) -> Array:
    """Vectors of `dtype` whose directions are next to that of a given vector.

    They are the nearest slopes below and above among quotients of two floats with free binary
    exponents. So if an interval of directions contains the given direction and that of any vector
    of `dtype`, it contains one of these.

    Args:
      vector: [2] float.
      dtype: float32 or float64.

    Returns:
      [5, 2], floats of the input's type that are exact in `dtype`. The first is the vector itself
      if it is exact in `dtype`.
    """
    fits = jnp.all(numerics.held_in(vector, dtype) == vector)
    sizes = jnp.abs(vector)
    swap = sizes[1] > sizes[0]
    long, short = jnp.maximum(sizes[0], sizes[1]), jnp.minimum(sizes[0], sizes[1])
    ratio = jnp.where(short > 0, short, long) / jnp.where(long > 0, long, 1)
    octave = jnp.where(ratio > 0, numerics.power_of_two_at_least(ratio), 1)
    lower_half = ratio / octave  # in (1/2, 1]
    largest = 2.0 ** (jnp.finfo(dtype).nmant + 1)
    p, q = _enclosing_quotients(jnp.stack([lower_half, 1 / (2 * lower_half)]), largest)
    numerators = jnp.where(short > 0, jnp.concatenate([p[:, 0], q[:, 1]]) * octave, 0)
    denominators = jnp.concatenate([q[:, 0], 2 * p[:, 1]])
    around = jnp.stack(
        [jnp.where(swap, numerators, denominators), jnp.where(swap, denominators, numerators)],
        axis=1,
    )
    around = jnp.copysign(around, vector[None])
    return jnp.concatenate([jnp.where(fits, vector, around[0])[None], around])


class _Expansion(NamedTuple):
    """Two successive convergents of k continued fractions, and the remainders."""

    old: Array  # [2, k] numerators and denominators of the last convergents but one
    new: Array  # [2, k] those of the last convergents
    rest: Array  # [k] the remainders, whose inverses are expanded next
    going: Array  # [k] bool, whether the fraction is extended further


def _enclosing_quotients(ratios: Array, largest: float) -> tuple[Array, Array]:
    """Quotients p / q next to ratios [k] in (0, 1] on both sides, or equal to them.

    p [2, k] and q [2, k] are integers as floats, with q at most `largest`.
    """

    def extend(now: _Expansion) -> _Expansion:
        inverse = 1 / jnp.where(now.rest > 0, now.rest, 1)
        term = jnp.where(now.rest > 0, jnp.floor(inverse), jnp.inf)
        # The largest term with which the denominator is at most `largest`. A smaller term than that
        # of the ratio gives a neighbour (an intermediate fraction), and ends the expansion.
        most = jnp.floor((largest - now.old[1]) / jnp.maximum(now.new[1], 1))
        following = now.old + jnp.minimum(term, most)[None] * now.new
        turns = now.going & (term <= most)
        return _Expansion(
            old=jnp.where(turns[None], now.new, jnp.where(now.going[None], following, now.old)),
            new=jnp.where(turns[None], following, now.new),
            rest=inverse - term,
            going=turns,
        )

    infinite, zero = np.repeat(
        np.array([[[1], [0]], [[0], [1]]], ratios.dtype), len(ratios), axis=2
    )
    start = _Expansion(jnp.asarray(infinite), jnp.asarray(zero), ratios, ratios > 0)
    found, _ = loops.bounded_loop(
        extend, lambda now: jnp.any(now.going), start, max_checks=_MAX_TERMS
    )
    return jnp.stack([found.new[0], found.old[0]]), jnp.stack([found.new[1], found.old[1]])


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
    status = _status(encoding, lost, lost_integers, loss, status)
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


def _status(
    encoding: Encoding, lost: Array, lost_integers: Array, loss: Array, status: Array
) -> Array:
    """The status [], or PRECISION_LIMIT unless the line is proven to lose `loss`, or INVALID_INPUT.

    Args:
      encoding: of the problem.
      lost: [] the weight that the line loses.
      lost_integers: [] the same in integer weights.
      loss: [] integer, what it should lose.
      status: [] int32, the status if it does.
    """
    is_told = meets(lost, bound_loss(loss, encoding.weight_unit, encoding.rounding))
    proven = encoding.faithful & is_told & (lost_integers == loss)
    # the line of an interrupted search may lose less than the search knew
    stopped = encoding.faithful & (status != int(Status.OPTIMAL)) & (lost_integers < loss)
    return jnp.where(
        encoding.valid,
        jnp.where(proven | stopped, status, int(Status.PRECISION_LIMIT)),
        int(Status.INVALID_INPUT),
    )
