"""Bounds of the least loss around each axis, over all planes through a centre and a second point.

Each axis is one centre of the sweep in the plane: the points are projected along the axis, sorted
once and scanned once (`jboost.pair.sweep`). The points on the axis add the loss of the cheaper
tilt. There are O(m n) axes for m centres, and the work is O(m n^2 log n) (Boyarshinov and
Magdon-Ismail 2005, Theorem 4.1).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry import angular
from jboost.pair import sweep
from jboost.pair.space.axes import look_along
from jboost.pair.space.problem import PlaneProblem, list_places
from jboost.pair.sweep import SweepConfig, Turn


class AllAxes(NamedTuple):
    """All axes of a problem: the first `count` entries, except those whose two points coincide."""

    centres: Array  # [n] int32, a point index for each position of the own class
    seconds: Array  # [n] int32, a point index for each position
    num_seconds: Array  # [] int32
    count: Array  # [] int32

    @property
    def capacity(self) -> int:
        """The own class has at most half of the points."""
        size = self.centres.shape[0]
        return max(size // 2, 1) * size

    def ends(self, index: Array) -> tuple[Array, Array]:
        """The centre and the second point of axes [...]."""
        width = jnp.maximum(self.num_seconds, 1)
        last = self.centres.shape[0] - 1
        return self.centres[jnp.minimum(index // width, last)], self.seconds[index % width]


class ListedAxes(NamedTuple):
    """Some axes of a problem: the first `count` entries."""

    centres: Array  # [a] int32
    seconds: Array  # [a] int32
    count: Array  # [] int32

    @property
    def capacity(self) -> int:
        return self.centres.shape[0]

    def ends(self, index: Array) -> tuple[Array, Array]:
        """The centre and the second point of axes [...]."""
        at = jnp.minimum(index, self.capacity - 1)
        return self.centres[at], self.seconds[at]


Axes = AllAxes | ListedAxes


def list_axes(problem: PlaneProblem) -> AllAxes:
    """The axes, one centre after the other."""
    centres, num_centres = list_places(problem.points, problem.own)
    seconds, num_seconds = list_places(problem.points, problem.live)
    return AllAxes(centres, seconds, num_seconds, num_centres * num_seconds)


class _AxisView(NamedTuple):
    """The half turn of a plane about an axis, with the cheaper tilt."""

    turn: Turn
    plain: Array  # [n] bool, True at j if j - 1 and j are certain to have one direction


class _Projected(NamedTuple):
    """The points projected along one axis."""

    radial: sweep.Radial
    keys: angular.Keys  # not sorted
    straight: Array  # [n] int32, as in `Axis`
    doubt: Array  # [] integer, the weight of points whose direction is uncertain by rounding


def _project(problem: PlaneProblem, centre: Array, second: Array) -> _Projected:
    axis = look_along(problem, centre, second)
    centre_of_plane = jnp.zeros(2, problem.points.dtype)
    radial = sweep.look_around(axis.flat, centre_of_plane)
    keys = angular.half_turn_keys(axis.flat.points, centre_of_plane, radial.off_centre)
    radial = radial._replace(at_centre=jnp.min(axis.tilts))
    return _Projected(radial, keys, axis.straight, axis.doubt)


def _turned(projected: _Projected, order: angular.HalfTurnOrder) -> _AxisView:
    """The `_AxisView` of an axis from the angular order of its points."""
    turn = sweep.in_order(projected.radial, order)
    straight = numerics.take(projected.straight, order.index)
    plain = jnp.concatenate(
        [jnp.zeros(1, bool), (straight[1:] == straight[:-1]) & (straight[1:] > 0)]
    )
    return _AxisView(turn, plain)


def _possible_loss(view: _AxisView) -> Array:
    """The least loss over all orders within the uncertain runs. Points that certainly have the same
    direction are passed together.
    """
    turn = view.turn
    doubts = (turn.joined & ~view.plain).astype(turn.steps.dtype)
    parts = jnp.stack([jnp.maximum(turn.steps, 0), jnp.maximum(-turn.steps, 0), doubts])
    sums = jnp.cumsum(parts, axis=1)
    # sums over the run up to each point
    rise, fall, doubt = sums - lax.cummax(jnp.where(turn.joined[None], 0, sums - parts), axis=1)
    is_plain = doubt == 0
    rise, fall = (
        jnp.where(is_plain, jnp.maximum(rise - fall, 0), rise),
        jnp.where(is_plain, jnp.maximum(fall - rise, 0), fall),
    )
    of_runs = jnp.where(turn.ends[None], jnp.stack([rise, fall]), 0)
    rises, falls = jnp.cumsum(of_runs, axis=1)
    return sweep.least_loss(turn, rises - of_runs[0] - falls, rises - (falls - of_runs[1]))


def _bound_axes(problem: PlaneProblem, axes: Axes, index: Array, num_parts: int) -> Array:
    centres, seconds = axes.ends(index)
    projected = jax.vmap(_project, in_axes=(None, 0, 0))(problem, centres, seconds)
    views = jax.vmap(_turned)(projected, angular.sorted_orders(projected.keys, num_parts))
    certain = problem.on_grid | ~reduce.any_true(views.turn.joined, axis=(0, 1))
    lower = (
        loops.cond(
            certain,
            jax.vmap(lambda view: sweep.attained_loss(view.turn)),
            jax.vmap(_possible_loss),
            views,
        )
        - projected.doubt
    )
    is_axis = jnp.any(problem.points[centres] != problem.points[seconds], axis=1) & (
        index < axes.count
    )
    return jnp.where(is_axis, lower, jnp.iinfo(lower.dtype).max)


def bound_all(problem: PlaneProblem, axes: Axes, config: SweepConfig) -> Array:
    """Lower bounds of the loss around axes, [capacity of the axes], computed in chunks. An entry
    without an axis has the largest integer.

    Args:
      problem: the problem, with n points.
      axes: axes of the problem.
      config: a resolved config.
    """
    capacity = axes.capacity
    chunk, num_parts = sweep.divide_work(capacity, problem.points.shape[0], config)
    num_chunks = -(-capacity // chunk)

    def sweep_chunk(number: Array, bounds: Array) -> Array:
        index = number * chunk + lax.iota(jnp.int32, chunk)
        return lax.dynamic_update_index_in_dim(
            bounds, _bound_axes(problem, axes, index, num_parts), number, 0
        )

    used_chunks = (axes.count + chunk - 1) // chunk
    unknown = jnp.full(
        (num_chunks, chunk), jnp.iinfo(problem.weights.dtype).max, problem.weights.dtype
    )
    return loops.fori_loop(jnp.zeros_like(used_chunks), used_chunks, sweep_chunk, unknown).reshape(
        -1
    )[:capacity]
