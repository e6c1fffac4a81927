"""The front of concrete arrays: cells of directions say which centres to look at, one loss after the other."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import numerics
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.geometry.exact import Wide
from jboost.pair import pareto_cells, sweep
from jboost.pair.encoding import Encoding, encode, pad_rows
from jboost.pair.instance import Instance
from jboost.pair.near_optimal_lines import fat_line
from jboost.pair.pareto_cells import Cloud, Shortlist
from jboost.pair.pareto_drawing import draw_front
from jboost.pair.pareto_walk import Found, Point, best_constant, look, nothing_found, wider_than
from jboost.pair.separator import optimal_separator
from jboost.pair.types import ParetoFront

_REAL = jnp.dtype("float64")
_MOST_COPIES = 4  # times the number of points, of points that count as often as they weigh
_FIRST_ENTRIES = 512  # room in the list, four times as much until all fit


class _Plan(NamedTuple):
    """The looks to take: entries of one loss after the other, those of farthest reach first; void ones lose as much as the best constant."""

    loss: Array  # [e] integer
    centre: Array  # [e] int32
    reach: Array  # [e] no slab hung from it that loses so much is wider
    attained: Array  # [e] some slab that loses so much is as wide


class _Walk(NamedTuple):
    """Where the walk along the plan stands."""

    entry: Array  # [] int32, the next
    loss: Array  # [] integer, of the last look
    best: Point  # what loses so much and is wider than the front so far; a constant that loses more, if nothing does
    last: Wide  # [] squared gap of the last point of the front
    gap: Array  # [] the next slab is at least so wide
    count: Array  # [] int32, points of the front
    ended: Array  # [] bool, the last one is a constant
    doubtful: Array  # [] bool, rounding left open whether one is missing


def solve(points: Array, labels: Array, weights: Array, mask: Array, *, max_points: int) -> ParetoFront | None:
    """The front of concrete arrays, arguments as of `jboost.pair.pareto_front`, judged there; None where cells are of no use.

    That is where values are not allowed, where weights are no small multiples of one of them, and where rounding spoils the first point.
    """
    result_dtype = jnp.result_type(float)
    lightest = optimal_separator(points, labels, weights=weights, mask=mask)
    if int(lightest.status) != Status.OPTIMAL:
        return None
    size = _padded_size(points.shape[0], 64)
    padded = pad_rows(size, points, labels, weights, mask, lightest.misclassified)
    with jax.enable_x64(True):
        instance, encoding, centres, num_centres, first = _read(*padded)
        plan = _plan(instance, centres[: int(num_centres)], first)
        if plan is None:
            return None
        return _follow(instance, encoding, centres, first, plan, max_points=max_points, result_dtype=result_dtype)


def _padded_size(num_points: int, least: int) -> int:
    """Few sizes in every octave, so that data sets of like sizes share what is compiled; multiples of the least, a power of two."""
    step = max(least, (1 << num_points.bit_length()) // 8)
    return max(-(-num_points // step), 1) * step


@jax.jit
def _read(points: Array, labels: Array, weights: Array, mask: Array, misclassified: Array) -> tuple[Instance, Encoding, Array, Array, Point]:
    """The problem, its centres and how many they are, and the first point of the front."""
    instance, encoding = encode(points, labels, weights, mask, _REAL)
    centres, num_centres = sweep.list_centres(instance)
    kept = instance.live & ~misclassified
    start = jnp.zeros((), jnp.int32)
    line = fat_line(instance, kept & instance.own, kept & ~instance.own, (start, start), -jnp.ones((), _REAL))
    loss = numerics.masked_sum(instance.weights, instance.live & misclassified)
    return instance, encoding, centres, num_centres, Point(loss, line.squared_gap, line.normal_x, line.normal_y, kept)


def _plan(instance: Instance, centres: Array, first: Point) -> _Plan | None:
    """The looks that find all points after the first; None where weights or the number of looks do not suit."""
    x, y, own, live, weights = (np.asarray(part) for part in (instance.metric_x, instance.metric_y, instance.own, instance.live, instance.weights))
    constant = min(int(weights[own].sum()), int(weights[live & ~own].sum()))
    unit = int(np.gcd.reduce(weights[live])) if live.any() else 1
    copies = weights // unit
    if copies.sum() > _MOST_COPIES * len(weights):
        return None
    middle = np.array([x[live].mean(), y[live].mean()]) if live.any() else np.zeros(2)
    places = np.stack([x, y], axis=1) - middle
    extent = np.abs(places[live]).max(initial=0) or 1.0
    places /= extent
    cloud = _gather(places, own, live & ~own, copies, np.asarray(centres))
    begin, end = int(first.loss) // unit + 1, constant // unit
    if begin >= end:
        return _pad_plan(Shortlist(*(np.zeros(0, np.int64) for _ in Shortlist._fields)), unit, extent, constant)
    known = np.sqrt(float(first.squared_gap.hi)) / extent
    found = pareto_cells.shortlist(cloud, begin, end, known)
    return None if found is None else _pad_plan(found, unit, extent, constant)


def _gather(places: np.ndarray, own: np.ndarray, other: np.ndarray, copies: np.ndarray, centres: np.ndarray) -> Cloud:
    counts = np.array([copies[own].sum(), copies[other].sum()], np.int32)
    size = _padded_size(int(counts.max()), pareto_cells.BLOCK)
    sides = np.zeros((2, size, 2))
    for side, (which, sign) in enumerate(((own, 1), (other, -1))):
        sides[side, : counts[side]] = sign * np.repeat(places[which], copies[which], axis=0)
    return Cloud(sides, counts, places[centres])


def _pad_plan(found: Shortlist, unit: int, extent: float, constant: int) -> _Plan:
    room = _FIRST_ENTRIES
    while room <= len(found.loss):
        room *= 4
    missing = (0, room - len(found.loss))
    scale = extent / pareto_cells.ONE
    return _Plan(
        loss=jnp.asarray(np.pad(found.loss * unit, missing, constant_values=constant)),
        centre=jnp.asarray(np.pad(found.centre, missing).astype(np.int32)),
        reach=jnp.asarray(np.pad(found.reach * (scale * (1 + 2.0**-40)), missing, constant_values=-1.0)),
        attained=jnp.asarray(np.pad(found.attained * (scale * (1 - 2.0**-40)), missing)),
    )


@functools.partial(jax.jit, static_argnames=("max_points", "result_dtype"))
def _follow(
    instance: Instance, encoding: Encoding, centres: Array, first: Point, plan: _Plan, *, max_points: int, result_dtype: jnp.dtype
) -> ParetoFront:
    """The front, from the looks of a plan."""
    return draw_front(instance, encoding, _walk(instance, centres, first, plan, max_points), result_dtype)


def _walk(instance: Instance, centres: Array, first: Point, plan: _Plan, max_points: int) -> Found:
    """The front. A point is written down at every step, over the last one until that is final: no branch has the whole front in its hands."""
    constant = best_constant(instance)
    nothing = nothing_found(constant, max_points)
    start = _Walk(
        entry=jnp.zeros((), jnp.int32),
        loss=first.loss,
        best=first,
        last=Wide(jnp.zeros_like(instance.x[0]), jnp.zeros_like(instance.x[0])),
        gap=jnp.zeros_like(instance.x[0]),
        count=nothing.count,
        ended=nothing.ended,
        doubtful=nothing.doubtful,
    )

    def unfinished(carry: tuple[_Walk, Point]) -> Array:
        return ~carry[0].ended & (carry[0].count < max_points)

    def step(carry: tuple[_Walk, Point]) -> tuple[_Walk, Point]:
        walk, points = carry
        points = jax.tree.map(lambda rows, new: lax.dynamic_update_index_in_dim(rows, new, walk.count, 0), points, walk.best)
        is_over, is_found = plan.loss[walk.entry] > walk.loss, walk.best.loss <= walk.loss
        is_promising = plan.reach[walk.entry] >= jnp.where(is_found, jnp.sqrt(walk.best.squared_gap.hi), walk.gap)
        is_last = walk.loss == constant.loss
        action = jnp.where(is_last | (is_over & is_found), 0, jnp.where(is_over, 1, jnp.where(is_promising, 2, 3)))
        return lax.switch(action, [write_down, go_on, visit, skip], walk), points

    def write_down(walk: _Walk) -> _Walk:
        best = walk.best
        return walk._replace(
            best=_beyond(constant, walk.loss),
            last=best.squared_gap,
            gap=wider_than(best),
            count=walk.count + 1,
            ended=best.squared_gap.hi == jnp.inf,
        )

    def go_on(walk: _Walk) -> _Walk:
        loss = plan.loss[walk.entry]
        return walk._replace(loss=loss, best=_beyond(constant, jnp.minimum(loss, constant.loss - 1)))

    def visit(walk: _Walk) -> _Walk:
        is_found = walk.best.loss <= walk.loss
        known = jnp.where(is_found, jnp.sqrt(walk.best.squared_gap.hi) * (1 - 2.0**-16), plan.attained[walk.entry])
        seen = look(instance, centres[plan.centre[walk.entry]], jnp.maximum(walk.gap, known), walk.last, walk.best)
        doubtful = walk.doubtful | seen.doubtful | (seen.lost <= walk.loss)
        return walk._replace(entry=walk.entry + 1, best=seen.best, doubtful=doubtful)

    def skip(walk: _Walk) -> _Walk:
        return walk._replace(entry=walk.entry + 1)

    walk, points = lax.while_loop(unfinished, step, (start, nothing.points))
    return Found(points, walk.count, walk.ended, walk.doubtful)


def _beyond(constant: Point, loss: Array) -> Point:
    """What a point that loses no more than this has to beat."""
    return constant._replace(loss=loss + 1)
