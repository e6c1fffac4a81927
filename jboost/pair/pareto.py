"""The Pareto front of weight against margin: what it costs to ask for a wider gap (paper 000, Section 4).

A separator set Q (Definition 2.1) may hold points that its line has right, if they stand too close: W(Q) is what is given up, and the
margin that of the rest (Definition 2.12). The front is walked from its light end: after a point of margin g the next is the least
weight of any slab wider than 2 g, and of all slabs of that weight the widest. Widening a slab never makes it lighter, so
what a centre lost at its last visit bounds what it loses from then on: only the few centres whose bound comes below the
next weight are looked at again.

`E(W, mar)` of the paper is the `energy` of `best_trade_off`: any energy that grows with the weight and falls with the margin
has its least value on the front.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, numerics, types
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.geometry.exact import Wide
from jboost.pair import sweep, visits
from jboost.pair.encoding import encode, pad_rows
from jboost.pair.instance import Instance
from jboost.pair.line import Line, draw_line, in_data_units
from jboost.pair.near_optimal_lines import compare_gaps, fat_line, line_along
from jboost.pair.pareto_arcs import kept_by, lost_with, turn_slab
from jboost.pair.sweep import SweepConfig
from jboost.pair.types import ParetoFront, TradeOff

_WIDER = {4: 1 + 2.0**-10, 8: 1 + 2.0**-36}  # the least ratio of two neighbouring margins


class _Point(NamedTuple):
    """A point of the front, found or still to be beaten."""

    loss: Array  # [] integer
    squared_gap: Wide  # [] infinite for a constant
    normal_x: Array  # [] in metric coordinates, points to the own side; 0 for a constant
    normal_y: Array  # []
    kept: Array  # [n] bool


class _Walk(NamedTuple):
    """Where the walk along the front stands."""

    gap: Array  # [] the next slab is at least so wide
    squared_gap: Wide  # [] of the last point of the front, which the next has to exceed
    bounds: Array  # [c] integer, no slab hung from the centre that is as wide loses less
    fresh: Array  # [c] bool, looked at for this width
    best: _Point
    lost: Array  # [] integer, the least that a class may lose which one that turned out too narrow hides
    found: _Point  # fields [k]
    count: Array  # [] int32
    ended: Array  # [] bool, the last point is a constant
    doubtful: Array  # [] bool


def pareto_front(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    max_points: int,
    config: SweepConfig | None = None,
) -> ParetoFront:
    """All pairs (weight given up, margin) that no separator beats in both, each with its separator.

    The first point is that of `optimal_separator`, the last the constant classifier that gives up the lighter class. It may be
    jitted and vmapped. Margins that differ by less than a relative 2^-36 count as equal: then the lighter point stands for both.

    Args:
      points: [n, 2], real.
      labels: [n], +1 or -1.
      weights: [n], positive; None for ones.
      mask: [n] bool, False for rows that only pad.
      max_points: room on the front, static. With unit weights it has at most n / 2 + 1 points.
      config: static sizes of the sweep.

    Returns:
      `ParetoFront` with k = max_points. If the front is longer the status is CAPACITY_LIMIT and its lightest k points are returned, which
      are right. If rounding left open whether a lighter or wider slab exists, on points that are no integer grid, it is PRECISION_LIMIT.

    Raises:
      ValueError: at trace time, naming the argument, where a shape, a kind or an option is wrong. Values that are not allowed
        give status INVALID_INPUT, NaN losses and a count of 0.

    >>> import jboost
    >>> front = jboost.pair.pareto_front([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [9.0, 0.0]], [-1, 1, -1, 1], max_points=4)
    >>> int(front.count), front.losses[:2].tolist(), front.margins[:2].tolist()
    (2, [1.0, 2.0], [3.0, inf])
    """
    points = check.numeric("points", points, shape=("n", 2), kinds="fiu")
    labels = check.numeric("labels", labels, shape=(points.shape[0],), kinds="fiu")
    weights, mask = types.fill(weights, mask, points.shape[0])
    check.count("max_points", max_points, low=1)
    if config is not None and not isinstance(config, SweepConfig):
        raise ValueError(f"config is a {type(config).__name__}: a jboost.pair.SweepConfig is wanted")
    config = (config or SweepConfig()).resolved()
    if config.word_bits == 32 and points.dtype.itemsize > 4:
        raise ValueError(f"points has dtype {points.dtype}: config.word_bits = 32 takes points of at most 32 bits")
    return _pareto_front(points, labels, weights, mask, max_points=int(max_points), config=config)


@functools.partial(jax.jit, static_argnames=("max_points", "config"))
def _pareto_front(points: Array, labels: Array, weights: Array, mask: Array, *, max_points: int, config: SweepConfig) -> ParetoFront:
    result_dtype = jnp.result_type(float)
    padded = pad_rows(max(points.shape[0], 2), points, labels, weights, mask)

    def solve(points: Array, labels: Array, weights: Array, mask: Array) -> ParetoFront:
        real = jnp.dtype("float32" if config.word_bits == 32 else "float64")
        instance, encoding = encode(points, labels, weights, mask, real)
        walk = _walk(instance, max_points, config)

        def draw(row: Array, front: ParetoFront) -> ParetoFront:
            point = jax.tree.map(lambda rows: rows[row], walk.found)
            line = _draw(instance, point, encoding.own_is_positive, encoding.unit, result_dtype)
            gap = jnp.sqrt(point.squared_gap.hi)
            loss = numerics.masked_sum(encoding.weights, instance.live & ~point.kept)
            return front._replace(
                losses=_write(front.losses, row, loss),
                margins=_write(front.margins, row, gap / 2 * encoding.unit),
                normals=_write(front.normals, row, line.normal),
                anchors=_write(front.anchors, row, line.anchor),
                biases=_write(front.biases, row, line.bias),
            )

        proven = encoding.faithful & ~walk.doubtful
        status = jnp.where(walk.ended, jnp.where(proven, int(Status.OPTIMAL), int(Status.PRECISION_LIMIT)), int(Status.CAPACITY_LIMIT))
        status = jnp.where(encoding.valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32)
        count = jnp.where(encoding.valid, walk.count, 0)
        flat = jnp.zeros((max_points, 2), result_dtype)
        nothing = jnp.where(encoding.valid, jnp.inf, jnp.nan).astype(result_dtype)
        empty = ParetoFront(jnp.full(max_points, 1, result_dtype) * nothing, flat[:, 0], flat, flat, flat[:, 0], count, status)
        return lax.fori_loop(jnp.zeros_like(count), count, draw, numerics.start_loop_beside(empty, instance.x))

    return (numerics.in_64_bits(solve) if config.word_bits == 64 else solve)(*padded)


def _write(rows: Array, row: Array, value: Array) -> Array:
    return lax.dynamic_update_index_in_dim(rows, value.astype(rows.dtype), row, 0)


def _walk(instance: Instance, max_points: int, config: SweepConfig) -> _Walk:
    """The front as integer losses, squared gaps and kept points."""
    centres, num_centres = sweep.list_centres(instance)
    brackets = sweep.bracket_centres(instance, centres, num_centres, config)
    lightest = visits.visit_centres(instance, centres, brackets, all_optima=True, flip_misclassified=False)
    kept = instance.live & (lightest.on_own_side == instance.own)
    line = line_along(instance, lightest.normal_x, lightest.normal_y, kept & instance.own, kept & ~instance.own)
    constant = _best_constant(instance)
    found = jax.tree.map(lambda leaf: jnp.zeros((max_points, *leaf.shape), leaf.dtype), constant)
    start = _Walk(
        gap=jnp.zeros_like(instance.x[0]),
        squared_gap=Wide(jnp.zeros_like(instance.x[0]), jnp.zeros_like(instance.x[0])),
        bounds=brackets.lower,
        fresh=jnp.ones(centres.shape, bool),
        best=_Point(lightest.loss, line.squared_gap, line.normal_x, line.normal_y, kept),
        lost=jnp.full((), jnp.iinfo(instance.weights.dtype).max),
        found=found,
        count=jnp.zeros((), jnp.int32),
        ended=jnp.zeros((), bool),
        doubtful=jnp.zeros((), bool),
    )

    def unfinished(walk: _Walk) -> Array:
        return ~walk.ended & (walk.count < max_points)

    def step(walk: _Walk) -> _Walk:
        waiting = jnp.where(walk.fresh, jnp.iinfo(walk.bounds.dtype).max, walk.bounds)
        least = jnp.min(waiting)
        is_constant = walk.best.squared_gap.hi == jnp.inf
        worth_it = (least < walk.best.loss) | ((least == walk.best.loss) & ~is_constant)
        chosen = jnp.minimum(numerics.first_true(waiting == least), waiting.shape[0] - 1)
        return lax.cond(worth_it, lambda w: _look(instance, centres, w, chosen), lambda w: _advance(instance, w, constant), walk)

    return lax.while_loop(unfinished, step, numerics.start_loop_beside(start, instance.x))


def _best_constant(instance: Instance) -> _Point:
    """The constant classifier that gives up the lighter class, the other class if they tie."""
    own_weight = numerics.masked_sum(instance.weights, instance.own)
    other_weight = numerics.masked_sum(instance.weights, instance.live & ~instance.own)
    keeps_own = other_weight <= own_weight
    infinite = Wide(jnp.full((), jnp.inf, instance.x.dtype), jnp.zeros((), instance.x.dtype))
    flat = jnp.zeros((), instance.x.dtype)
    return _Point(jnp.minimum(own_weight, other_weight), infinite, flat, flat, instance.live & (instance.own == keeps_own))


def _measure(instance: Instance, kept: Array, loss: Array, first: Array, floor: Array) -> _Point:
    """The point that keeps given points, an own one among them, with the gap of their hulls; any gap up to the floor if it does not exceed that."""
    x, y = instance.metric_x, instance.metric_y
    own_side, other_side = kept & instance.own, kept & ~instance.own
    squared = jnp.where(other_side, (x - x[first]) ** 2 + (y - y[first]) ** 2, jnp.inf)
    second = jnp.minimum(numerics.first_true(squared == jnp.min(squared)), x.shape[0] - 1)
    line = fat_line(instance, own_side, other_side, (first, second), floor)
    return _Point(loss, line.squared_gap, line.normal_x, line.normal_y, kept)


def _look(instance: Instance, centres: Array, walk: _Walk, chosen: Array) -> _Walk:
    """Measures the lightest classes of one centre that may be the next point of the front."""
    arcs = lax.optimization_barrier(turn_slab(instance, centres[chosen], walk.gap))
    bound = jnp.min(arcs.losses)
    place = lax.iota(jnp.int32, arcs.losses.shape[0])

    def next_class(best: _Point, taken: Array) -> Array:
        left = jnp.where(taken, jnp.iinfo(arcs.losses.dtype).max, arcs.losses)
        least = jnp.min(left)
        worth_it = (least < best.loss) | ((least == best.loss) & (best.squared_gap.hi != jnp.inf))
        return jnp.where(worth_it, numerics.first_true(left == least), place.shape[0])

    def unfinished(carry: tuple[Array, Array, _Point, Array]) -> Array:
        return carry[0] < place.shape[0]

    def measure(carry: tuple[Array, Array, _Point, Array]) -> tuple[Array, Array, _Point, Array]:
        at, taken, best, lost = carry
        at = jnp.minimum(at, place.shape[0] - 1)
        loss = arcs.losses[at]
        kept = kept_by(instance, arcs, at)
        again = jnp.all(kept == best.kept)
        floor = jnp.where(loss == best.loss, jnp.sqrt(best.squared_gap.hi) * jnp.where(again, 2, 1 - 2.0**-16), -1)
        point = _measure(instance, kept, loss, centres[chosen], floor)
        wide_enough = compare_gaps(instance, point.squared_gap, walk.squared_gap)[0] > 0
        wider = compare_gaps(instance, point.squared_gap, best.squared_gap)[0] > 0
        better = wide_enough & ((loss < best.loss) | ((loss == best.loss) & wider))
        taken = taken | (place == at)
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), point, best)
        lost = jnp.where(wide_enough | (floor >= 0), lost, jnp.minimum(lost, lost_with(arcs, at)))
        return next_class(best, taken), taken, best, lost

    none = numerics.start_loop_beside(jnp.zeros(place.shape, bool), instance.x)
    start = next_class(walk.best, none), none, walk.best, walk.lost
    _, _, best, lost = lax.while_loop(unfinished, measure, start)
    return walk._replace(
        bounds=walk.bounds.at[chosen].set(bound), fresh=walk.fresh.at[chosen].set(True), best=best, lost=lost, doubtful=walk.doubtful | arcs.doubtful
    )


def _advance(instance: Instance, walk: _Walk, constant: _Point) -> _Walk:
    """Writes the next point of the front down, and asks for a wider slab."""
    best, row = walk.best, walk.count
    real = instance.x.dtype
    gap = jnp.sqrt(best.squared_gap.hi) * _WIDER[real.itemsize]
    return walk._replace(
        gap=gap,
        squared_gap=best.squared_gap,
        fresh=jnp.zeros_like(walk.fresh),
        best=constant,
        lost=jnp.full_like(walk.lost, jnp.iinfo(walk.lost.dtype).max),
        found=jax.tree.map(lambda rows, new: _write(rows, row, new), walk.found, best),
        count=walk.count + 1,
        ended=best.squared_gap.hi == jnp.inf,
        doubtful=walk.doubtful | (walk.lost <= best.loss),
    )


def _draw(instance: Instance, point: _Point, own_is_positive: Array, unit: Array, result_dtype: jnp.dtype) -> Line:
    """The bisector between the kept points of the two classes, in the units of the data."""
    keeps_own = jnp.any(point.kept & instance.own)
    is_constant = point.squared_gap.hi == jnp.inf
    best = visits.Incumbent(
        loss=point.loss,
        margin=point.squared_gap.hi,
        is_constant=is_constant,
        on_own_side=jnp.where(is_constant, keeps_own, instance.own),
        normal_x=point.normal_x,
        normal_y=point.normal_y,
    )
    drawn = draw_line(instance._replace(live=point.kept), best, own_is_positive, False, result_dtype)
    return in_data_units(drawn, is_constant, unit, result_dtype)


def best_trade_off(front: ParetoFront, energy: Callable[[Array, Array], Array]) -> TradeOff:
    """The separator of least energy E(weight, margin), for any energy that does not fall with the weight nor grow with the margin.

    This answers the question of Section 4 of paper 000: such an energy has its least value over all separator sets on the front.

    Args:
      front: from `pareto_front`, complete (status OPTIMAL); of a front cut short only its points compete.
      energy: (losses [k], margins [k]) -> [k]; one margin is infinite. Entries that are NaN do not compete.

    Returns:
      `TradeOff`; ties go to the lighter point. With no point on the front the energy is NaN.

    >>> import jboost
    >>> front = jboost.pair.pareto_front([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [9.0, 0.0]], [-1, 1, -1, 1], max_points=4)
    >>> best = jboost.pair.best_trade_off(front, lambda weight, margin: weight + 1 / margin)
    >>> round(float(best.energy), 3), float(best.margin)
    (1.333, 3.0)
    """
    front = jax.tree.map(jnp.asarray, front)
    energies = energy(front.losses, front.margins)
    if getattr(energies, "shape", None) != front.losses.shape:
        raise ValueError(f"energy returned shape {list(jnp.shape(energies))}: one number for each of the {front.losses.shape[0]} points is wanted")
    competes = (jnp.arange(front.losses.shape[0]) < front.count) & ~jnp.isnan(energies)
    least = numerics.masked_min(energies, competes, fill=jnp.inf)
    index = jnp.minimum(numerics.first_true(competes & (energies == least)), front.losses.shape[0] - 1)
    return TradeOff(
        energy=jnp.where(jnp.any(competes), energies[index], jnp.nan),
        index=index,
        normal=front.normals[index],
        anchor=front.anchors[index],
        bias=front.biases[index],
        loss=front.losses[index],
        margin=front.margins[index],
    )
