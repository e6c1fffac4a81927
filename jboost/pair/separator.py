"""The exact minimum-weight combination of two classifiers, from arrays to a `Separator`.

Paper 000 (Boyarshinov, Magdon-Ismail 2005): points [n, 2] are the scores (g_1, g_2) of the two classifiers, `weights` is W,
`misclassified` is Q, and `normal`, `anchor`, `bias` are the line l. The path of the data: arrays -> `Instance` (scaled points,
integer weights) -> brackets round all centres (`sweep`) -> exact visits (`visits`) -> a line in the result's float type, whose
loss is evaluated again.
"""

from __future__ import annotations

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

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
        integer grids, general floats. No tolerance decides a tie. Comparisons that quick keys leave open are redone with
        exact predicates; 64-bit types need not be enabled. Points are taken as they are after the cast to a float type (without
        64-bit types float64 input is rounded to float32 first).
      * Weights are compared as multiples of 2^-60 of their total: exact for integers below 2^53 in total, and for float32
        weights within a factor of 2^36 / n of each other. Losses that differ by less count as equal.
      * `loss` is the loss of the returned arrays, in float64 arithmetic; `lower_bound` is the optimum, rounded down. They are equal, up
        to that rounding, and the status is OPTIMAL, unless no line that the search could write in the result's float type stays within the
        optimal set: PRECISION_LIMIT. Nor can optimality be claimed, and the bound is then 0, where points do not survive
        the cast (integers beyond the float, subnormal floats) or span so many binades that products of differences would underflow (2^400; 2^40
        with 32-bit words).
      * `margin` is that of the returned line, whose direction is the best one to the accuracy of a quotient of two floats (float32: 2^-46 as a
        rule, 2^-25 close to slopes of small integers). It falls short only where it is that small a part of the extent of the points.
      * With `SweepConfig(word_bits=32)` weights are compared as multiples of 2^-29 of their total, points have at most 32 bits, and
        directions of lines have 24: grids of 20 bits get the same answers, other points may end in PRECISION_LIMIT more often.

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
    labels = check.numeric("labels", labels, shape=(points.shape[0],), kinds="fiu")
    weights, mask = types.fill(weights, mask, points.shape[0])
    if config is not None and not isinstance(config, SweepConfig):
        raise ValueError(f"config is a {type(config).__name__}: a jboost.pair.SweepConfig is wanted")
    config = (config or SweepConfig()).resolved()
    if config.word_bits == 32 and points.dtype.itemsize > 4:
        raise ValueError(f"points has dtype {points.dtype}: config.word_bits = 32 takes points of at most 32 bits")
    return _optimal_separator(points, labels, weights, mask, all_optima=tie_break == "margin", flip_misclassified=fat == "flipped", config=config)


@functools.partial(jax.jit, static_argnames=("all_optima", "flip_misclassified", "config"))
def _optimal_separator(
    points: Array, labels: Array, weights: Array, mask: Array, *, all_optima: bool, flip_misclassified: bool, config: SweepConfig
) -> Separator:
    result_dtype = jnp.result_type(float)
    num_points = points.shape[0]
    padding = max(0, 2 - num_points)
    arrays = (lax.stop_gradient(array) for array in (points, labels, weights, mask))
    padded = (jnp.pad(array, ((0, padding),) + ((0, 0),) * (array.ndim - 1)) for array in arrays)

    def solve(points: Array, labels: Array, weights: Array, mask: Array) -> Separator:
        real = jnp.dtype("float32" if config.word_bits == 32 else "float64")
        valid = _is_valid(points, labels, weights, mask)
        usable = mask & valid
        positive = usable & (labels > 0)
        own_is_positive = 2 * jnp.sum(positive, dtype=jnp.int32) <= jnp.sum(usable, dtype=jnp.int32)
        own = usable & (positive == own_is_positive)
        points = jnp.where(usable[:, None], points, jnp.zeros((), points.dtype))
        clean = points.astype(real) + jnp.zeros((), real)
        weights = jnp.where(usable, weights, jnp.zeros((), weights.dtype)).astype(real)
        integers, weight_unit, rounding = _scale_weights(weights)
        instance, unit, faithful = _make_instance(clean, own, usable, integers)
        faithful &= _is_kept_by_cast(points, real)
        centres, num_centres = sweep.list_centres(instance)
        brackets = sweep.bracket_centres(instance, centres, num_centres, config)
        best = visits.visit_centres(instance, centres, brackets, all_optima=all_optima, flip_misclassified=flip_misclassified)
        line = _draw_line(instance, best, own_is_positive, flip_misclassified, result_dtype)
        wrong = usable & ~_is_right(instance, positive, line)
        proven = faithful & (numerics.masked_sum(integers, wrong) == best.loss)
        status = jnp.where(valid, jnp.where(proven, int(Status.OPTIMAL), int(Status.PRECISION_LIMIT)), int(Status.INVALID_INPUT))
        spoiled = jnp.where(valid, 0, jnp.nan).astype(result_dtype)
        bound = jnp.where(faithful, jnp.maximum(best.loss.astype(real) * weight_unit - rounding, 0), 0)
        anchor = line.anchor * unit
        size = jnp.where(jnp.max(jnp.abs(clean)) < jnp.finfo(result_dtype).max / 16, 1, 1 / 16).astype(real)
        normal, bias = line.normal * size, line.bias * size * jnp.where(best.is_constant, 1, unit)
        return Separator(
            normal=normal.astype(result_dtype),
            anchor=anchor.astype(result_dtype),
            bias=bias.astype(result_dtype),
            offset=(bias - numerics.masked_sum(normal * anchor, jnp.ones(2, bool))).astype(result_dtype),
            loss=numerics.masked_sum(weights, wrong).astype(result_dtype) + spoiled,
            lower_bound=numerics.round_down(bound, result_dtype) + spoiled,
            margin=(line.margin * unit).astype(result_dtype) + spoiled,
            misclassified=wrong,
            status=status.astype(jnp.int32),
        )

    separator = (numerics.in_64_bits(solve) if config.word_bits == 64 else solve)(*padded)
    return separator._replace(misclassified=separator.misclassified[:num_points])


def _is_valid(points: Array, labels: Array, weights: Array, mask: Array) -> Array:
    """Whether all unmasked values are allowed, []."""
    is_label = (labels == 1) | (labels == -1) if jnp.issubdtype(labels.dtype, jnp.signedinteger) else jnp.abs(labels) == 1
    least = jnp.finfo(weights.dtype).tiny if jnp.issubdtype(weights.dtype, jnp.floating) else 1
    sound = jnp.isfinite(points[:, 0]) & jnp.isfinite(points[:, 1]) & is_label & (weights >= least) & jnp.isfinite(weights)
    return jnp.all(sound | ~mask)


def _is_kept_by_cast(points: Array, real: jnp.dtype) -> Array:
    """Whether the search sees the very points that were handed in, []."""
    if jnp.issubdtype(points.dtype, jnp.floating):
        return ~jnp.any(numerics.is_subnormal(points))
    return jnp.all(points == points.astype(real).astype(points.dtype))


_MOST_BINADES = {4: 40, 8: 400}  # between two coordinates of one axis, by bytes of a float: products of differences stay normal


def _make_instance(points: Array, own: Array, live: Array, weights: Array) -> tuple[Instance, Array, Array]:
    """The problem in scaled coordinates; the unit of the metric ones, a power of two; and whether nothing is lost by underflow."""
    real = points.dtype
    bits = angular.grid_bits(real, points.shape[0])
    extents = jnp.max(jnp.abs(points), axis=0)
    extents = jnp.maximum(jnp.where(extents > 0, extents, jnp.max(extents)) / 4, jnp.finfo(real).tiny * 2.0**30)
    units = numerics.power_of_two_at_least(extents) * 2.0 ** (2 - bits)
    unit = jnp.max(units)
    scaled = points / units[None]
    metric = scaled * (units / unit)[None]
    on_grid = jnp.all(scaled == jnp.round(scaled))
    smallest = jnp.min(jnp.where(scaled != 0, jnp.abs(scaled), jnp.inf))
    far_apart = jnp.max(units) / jnp.min(units) > 2.0 ** _MOST_BINADES[real.itemsize]
    faithful = (smallest >= 2.0 ** (bits - 1 - _MOST_BINADES[real.itemsize])) & ~far_apart
    return Instance(scaled[:, 0], scaled[:, 1], metric[:, 0], metric[:, 1], own, live, weights, on_grid), unit, faithful


def _scale_weights(weights: Array) -> tuple[Array, Array, Array]:
    """Weights as integers whose total leaves two bits of headroom; the weight of one, a power of two; and what rounding can add up to."""
    integer, bits = (jnp.int64, 60) if weights.dtype.itemsize == 8 else (jnp.int32, 29)
    scale = numerics.power_of_two_at_least(jnp.max(weights) / 4)
    relative = weights / scale
    unit = numerics.power_of_two_at_least(jnp.sum(relative, dtype=weights.dtype)) * 2.0**-bits
    integers = jnp.round(relative / unit)
    errors = jnp.abs(relative - integers * unit)
    return integers.astype(integer), unit * scale, 2 * jnp.sum(errors, dtype=weights.dtype) * scale


class _Line(NamedTuple):
    """A line in metric coordinates, all of its numbers exact in the result's float type."""

    normal: Array  # [2]
    anchor: Array  # [2]
    bias: Array  # []
    margin: Array  # []


def _draw_line(instance: Instance, best: Incumbent, own_is_positive: Array, flip_misclassified: bool, result_dtype: jnp.dtype) -> _Line:
    """The bisector of the two sides along the direction of the result's float type that leaves the widest gap."""
    sign = jnp.where(own_is_positive, 1, -1).astype(instance.x.dtype)
    on_positive_side = best.on_own_side == own_is_positive
    kept = instance.live & (best.on_own_side == instance.own)
    counted = instance.live if flip_misclassified else kept
    above, below = counted & on_positive_side, counted & ~on_positive_side
    normals_x, normals_y = fractions.enclosing_directions(sign * best.normal_x, sign * best.normal_y, result_dtype)
    lines = jax.vmap(lambda x, y: _bisect(instance, x, y, above, below, result_dtype))(normals_x, normals_y)
    widest = jnp.minimum(numerics.first_true(lines.margin == jnp.max(lines.margin)), normals_x.shape[0] - 1)
    constant = _Line(
        normal=jnp.zeros_like(lines.normal[0]),
        anchor=jnp.zeros_like(lines.anchor[0]),
        bias=jnp.where(on_positive_side[0], 1, -1).astype(instance.x.dtype),
        margin=jnp.full((), jnp.inf, instance.x.dtype),
    )
    return jax.tree.map(lambda flat, line: jnp.where(best.is_constant, flat, line[widest]), constant, lines)


def _bisect(instance: Instance, normal_x: Array, normal_y: Array, above: Array, below: Array, result_dtype: jnp.dtype) -> _Line:
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
    anchor_x, anchor_y = (coordinate[lowest].astype(result_dtype).astype(x.dtype) for coordinate in (x, y))
    shift = _height(normal_x, normal_y, anchor_x, anchor_y, x[lowest], y[lowest]).hi
    bias = (half_gap + shift).astype(result_dtype).astype(x.dtype)
    length = jnp.sqrt(normal_x * normal_x + normal_y * normal_y)
    margin = half_gap / jnp.where(length > 0, length, 1)
    return _Line(jnp.stack([normal_x, normal_y]), jnp.stack([anchor_x, anchor_y]), bias, margin)


def _height(normal_x: Array, normal_y: Array, x: Array, y: Array, origin_x: Array, origin_y: Array) -> exact.Wide:
    """How far points lie along a normal from an origin, times the length of the normal."""
    nothing = jnp.zeros_like(normal_x)
    along_x = exact.wide_multiply(exact.Wide(normal_x, nothing), exact.wide_difference(x, origin_x))
    return exact.wide_add(along_x, exact.wide_multiply(exact.Wide(normal_y, nothing), exact.wide_difference(y, origin_y)))


def _is_right(instance: Instance, positive: Array, line: _Line) -> Array:
    """Whether each point lies strictly on its side of the line, judged as float64 arithmetic judges it, [n] bool."""
    x, y = instance.metric_x, instance.metric_y
    if x.dtype.itemsize == 8:
        products = exact.rounded_product(line.normal[0], x - line.anchor[0]), exact.rounded_product(line.normal[1], y - line.anchor[1])
        score = products[0] + products[1] + line.bias
    else:
        height = _height(line.normal[0], line.normal[1], x, y, line.anchor[0], line.anchor[1])
        score = exact.wide_add(height, exact.Wide(line.bias, jnp.zeros_like(line.bias))).hi
    return jnp.where(positive, score > 0, score < 0)
