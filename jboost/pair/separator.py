"""The exact minimum-weight combination of two classifiers, from arrays to a `Separator`.

Paper 000 (Boyarshinov, Magdon-Ismail 2005): points [n, 2] are the scores (g_1, g_2) of the two classifiers, `weights` is W,
`misclassified` is Q, and `normal`, `anchor`, `bias` are the line l. The path of the data: arrays -> `Instance` (scaled points,
integer weights) -> brackets round all centres (`sweep`) -> exact visits (`visits`) -> a line in the result's float type, whose
loss is evaluated again.
"""

from __future__ import annotations

import functools
from typing import Literal

import jax
import jax.numpy as jnp

from jboost.base import check, numerics, types
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.geometry import angular, exact, fractions
from jboost.pair import sweep, visits
from jboost.pair.sweep import Instance, SweepConfig
from jboost.pair.types import Separator
from jboost.pair.visits import Incumbent


def optimal_separator(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    tie_break: Literal["margin"] | None = "margin",
    fat: Literal["removed", "flipped"] = "removed",
    method: Literal["sweep"] = "sweep",
    config: SweepConfig | None = None,
) -> Separator:
    """The line that misclassifies the least weight, over all lines and both constant classifiers; exactly.

    All central points of the smaller class are swept at once (paper 000, Theorem 2.3); of all optimal separator sets the
    one of largest margin is taken, and its bisector returned (Theorem 2.13). O(m n log n) work for m points in the smaller
    class. It may be jitted, vmapped over data sets, and called on float32 or float64 points.

    What is promised when:
      * The search is exact for every finite input: points that repeat, collinear points, both labels at one place,
        integer grids, general floats. No tolerance decides a tie. Comparisons that 64-bit keys leave open are redone with
        exact predicates; 64-bit types need not be enabled. Points are taken as they are after the cast to a float type
        (without 64-bit types float64 input is rounded to float32 first), and products of two coordinates must not underflow.
      * Weights are compared as multiples of 2^-60 of their total: exact for integers below 2^53 in total, and for float32
        weights within a factor of 2^36 / n of each other. Losses that differ by less count as equal.
      * `loss` is the loss of the returned arrays, in float64 arithmetic; `lower_bound` is the optimum. They are equal and the status is
        OPTIMAL, unless no line within the optimal set could be written in the result's float type: PRECISION_LIMIT.
      * `margin` is that of the returned line, whose direction is the best one to the accuracy of a quotient of two floats (float32: 2^-46 as a
        rule, 2^-25 close to slopes of small integers). It falls short only where it is that small a part of the extent of the points.
      * With `SweepConfig(word_bits=32)` weights are compared as multiples of 2^-29 of their total.

    Args:
      points: [n, 2], real; the scores of the two classifiers on n examples.
      labels: [n], +1 or -1.
      weights: [n], positive; what it costs to misclassify each point, in any unit. None for ones.
      mask: [n] bool, False for rows that only pad.
      tie_break: "margin" for the largest margin among all optimal separator sets; None for some optimal set, which is
        faster where there are many.
      fat: whether the margin is that of the points without the misclassified ones ("removed") or with their labels flipped
        ("flipped"). For a set of least weight both are the same line, by Lemma 2.2.
      method: "sweep".
      config: static sizes, chosen for the device where None.

    Returns:
      A `Separator`; `margin` is in the units of `points`, `loss` and `lower_bound` in those of `weights`. If the best is a
      constant classifier, normal is 0, bias +1 or -1, and the margin infinite; a constant that ties wins by its margin.

    Raises:
      ValueError: at trace time, naming the argument, where a shape, a kind or an option is wrong. Values that are not allowed
        (NaN, weights that are not positive, other labels) give status INVALID_INPUT and a NaN loss; `jboost.validate` names them on the host.

    >>> import jboost
    >>> points = [[0.0, 0.0], [2.0, 0.0], [1.0, 3.0], [4.0, 1.0]]
    >>> separator = jboost.pair.optimal_separator(points, [-1, 1, -1, 1])
    >>> float(separator.loss), float(separator.lower_bound), round(float(separator.margin), 4)
    (0.0, 0.0, 0.9487)
    >>> jboost.status.explain(separator.status)[:7]
    'OPTIMAL'
    """
    check.choice("tie_break", tie_break, ("margin", None))
    check.choice("fat", fat, ("removed", "flipped"))
    check.choice("method", method, ("sweep",))
    points = check.numeric("points", points, shape=("n", 2), kinds="fiu")
    labels = check.numeric("labels", labels, shape=(points.shape[0],), kinds="fi")
    weights, mask = types.fill(weights, mask, points.shape[0])
    config = (config or SweepConfig()).resolved()
    return _optimal_separator(points, labels, weights, mask, all_optima=tie_break == "margin", flip_misclassified=fat == "flipped", config=config)


@functools.partial(jax.jit, static_argnames=("all_optima", "flip_misclassified", "config"))
def _optimal_separator(
    points: Array, labels: Array, weights: Array, mask: Array, *, all_optima: bool, flip_misclassified: bool, config: SweepConfig
) -> Separator:
    result_dtype = jnp.result_type(float)
    num_points = points.shape[0]
    padding = max(0, 2 - num_points)
    arrays = points, labels, weights, mask
    padded = (jnp.pad(array, ((0, padding),) + ((0, 0),) * (array.ndim - 1)) for array in arrays)

    def solve(points: Array, labels: Array, weights: Array, mask: Array) -> Separator:
        real = jnp.dtype("float32" if config.word_bits == 32 else "float64")
        valid = _is_valid(points, labels, weights, mask)
        usable = mask & valid
        positive = usable & (labels > 0)
        own_is_positive = 2 * jnp.sum(positive, dtype=jnp.int32) <= jnp.sum(usable, dtype=jnp.int32)
        clean = jnp.where(usable[:, None], points, 0).astype(real) + jnp.zeros((), real)
        x, y, on_grid, coordinate_unit = _scale_points(clean[:, 0], clean[:, 1])
        integers, weight_unit = _scale_weights(jnp.where(usable, weights, 0).astype(real))
        instance = Instance(x, y, usable & (positive == own_is_positive), usable, integers, on_grid)
        centres, num_centres = sweep.list_centres(instance)
        brackets = sweep.bracket_centres(instance, centres, num_centres, config)
        best = visits.visit_centres(instance, centres, brackets, all_optima=all_optima, flip_misclassified=flip_misclassified)
        line = _draw_line(instance, best, own_is_positive, flip_misclassified, coordinate_unit, clean, result_dtype)
        normal, anchor, bias, margin = line
        wrong = usable & ~_is_right(clean, positive, normal.astype(real), anchor.astype(real), bias.astype(real))
        loss = numerics.masked_sum(integers, wrong)
        status = jnp.where(loss == best.loss, int(Status.OPTIMAL), int(Status.PRECISION_LIMIT))
        status = jnp.where(valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32)
        spoiled = jnp.where(valid, 0, jnp.nan).astype(result_dtype)
        return Separator(
            normal=normal,
            anchor=anchor,
            bias=bias,
            offset=(bias.astype(real) - numerics.masked_sum(normal.astype(real) * anchor.astype(real), jnp.ones(2, bool))).astype(result_dtype),
            loss=(loss.astype(real) * weight_unit).astype(result_dtype) + spoiled,
            lower_bound=(best.loss.astype(real) * weight_unit).astype(result_dtype) + spoiled,
            margin=margin + spoiled,
            misclassified=wrong,
            status=status,
        )

    separator = (numerics.in_64_bits(solve) if config.word_bits == 64 else solve)(*padded)
    return separator._replace(misclassified=separator.misclassified[:num_points])


def _is_valid(points: Array, labels: Array, weights: Array, mask: Array) -> Array:
    """Whether all unmasked values are allowed, []."""
    sound = jnp.isfinite(points[:, 0]) & jnp.isfinite(points[:, 1]) & (jnp.abs(labels) == 1) & (weights > 0) & jnp.isfinite(weights)
    return jnp.all(sound | ~mask)


def _scale_points(x: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """Points times a power of two, so that they fill the integer grid of the angular keys; whether all lie on it; and its unit."""
    bits = angular.grid_bits(x.dtype, x.shape[0])
    unit = numerics.power_of_two_at_least(jnp.maximum(jnp.max(jnp.abs(x)), jnp.max(jnp.abs(y)))) * 2.0**-bits
    x, y = x / unit, y / unit
    on_grid = jnp.all((x == jnp.round(x)) & (y == jnp.round(y)))
    return x, y, on_grid, unit


def _scale_weights(weights: Array) -> tuple[Array, Array]:
    """Weights as integers whose total leaves two bits of headroom, and the weight of one unit, a power of two."""
    integer, bits = (jnp.int64, 60) if weights.dtype.itemsize == 8 else (jnp.int32, 29)
    total = jnp.sum(weights, dtype=weights.dtype)
    unit = numerics.power_of_two_at_least(total) * 2.0**-bits
    return jnp.round(weights / unit).astype(integer), unit


def _draw_line(
    instance: Instance, best: Incumbent, own_is_positive: Array, flip_misclassified: bool, unit: Array, points: Array, result_dtype: jnp.dtype
) -> tuple[Array, Array, Array, Array]:
    """The bisector in the result's float type: normal [2], anchor [2], bias [], margin []."""
    sign = jnp.where(own_is_positive, 1, -1).astype(instance.x.dtype)
    normal_x, normal_y = fractions.round_direction(sign * best.normal_x, sign * best.normal_y, result_dtype)
    on_positive_side = best.on_own_side == own_is_positive
    kept = instance.live & (best.on_own_side == instance.own)
    counted = instance.live if flip_misclassified else kept
    above, below = counted & on_positive_side, counted & ~on_positive_side
    last = instance.x.shape[0] - 1
    height = _heights(instance, normal_x, normal_y, jnp.minimum(numerics.first_true(above), last))
    anchor = jnp.minimum(exact.wide_argmin(height, above), last)
    height = exact.wide_negative(_heights(instance, normal_x, normal_y, anchor))
    top = jnp.minimum(exact.wide_argmin(height, below), last)
    half_gap = height.hi[top] / 2
    length = jnp.sqrt(normal_x * normal_x + normal_y * normal_y)
    zero = jnp.zeros((), instance.x.dtype)
    size = numerics.power_of_two_at_least(jnp.maximum(jnp.abs(normal_x), jnp.abs(normal_y)))
    normal = jnp.where(best.is_constant, zero, jnp.stack([normal_x, normal_y]) / size)
    place = jnp.where(best.is_constant, zero, points[anchor])
    bias = jnp.where(best.is_constant, jnp.where(on_positive_side[0], 1, -1), half_gap / size * unit)
    margin = jnp.where(best.is_constant, jnp.inf, half_gap / jnp.where(length > 0, length, 1) * unit)
    return normal.astype(result_dtype), place.astype(result_dtype), bias.astype(result_dtype), margin.astype(result_dtype)


def _heights(instance: Instance, normal_x: Array, normal_y: Array, origin: Array) -> exact.Wide:
    def product(factor: Array, coordinate: Array) -> exact.Wide:
        whole = exact.Wide(factor, jnp.zeros_like(factor))
        return exact.wide_multiply(whole, exact.wide_difference(coordinate, coordinate[origin]))

    return exact.wide_add(product(normal_x, instance.x), product(normal_y, instance.y))


def _is_right(points: Array, positive: Array, normal: Array, anchor: Array, bias: Array) -> Array:
    """Whether each point lies strictly on its side of the line that is returned, judged as float64 arithmetic judges it, [n] bool."""
    if points.dtype.itemsize == 8:
        products = [exact.rounded_product(normal[axis], points[:, axis] - anchor[axis]) for axis in range(2)]
        score = products[0] + products[1] + bias
    else:
        zero = jnp.zeros_like(bias)
        terms = [exact.wide_multiply(exact.Wide(normal[axis], zero), exact.wide_difference(points[:, axis], anchor[axis])) for axis in range(2)]
        score = exact.wide_add(exact.wide_add(*terms), exact.Wide(bias, zero)).hi
    return jnp.where(positive, score > 0, score < 0)
