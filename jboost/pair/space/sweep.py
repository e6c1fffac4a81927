"""Every plane through a centre and a second point: brackets of the least loss round each axis.

One axis is one centre of the plane sweep: the points are projected along it, sorted once and scanned once (`jboost.pair.sweep`), and the points on
the axis add the cheaper of two tilts. O(m n) axes for m centres, O(m n^2 log n) work in all (paper 000, Theorem 4.1).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops
from jboost.base.types import Array
from jboost.geometry import angular
from jboost.pair import sweep
from jboost.pair.space.axes import look_along
from jboost.pair.space.problem import Problem, list_places, run_totals
from jboost.pair.sweep import Bracket, SweepConfig, Turn


class AllAxes(NamedTuple):
    """All axes of a problem; the first `count` count, less those whose two points are one."""

    centres: Array  # [n] int32, one index for each place of the own class
    seconds: Array  # [n] int32, one index for each place
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
    """Some axes of a problem; the first `count` count."""

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


def list_axes(problem: Problem) -> AllAxes:
    """The axes, one centre after the other."""
    centres, num_centres = list_places(problem.points, problem.own)
    seconds, num_seconds = list_places(problem.points, problem.live)
    return AllAxes(centres, seconds, num_seconds, num_centres * num_seconds)


class _View(NamedTuple):
    """A plane that turns half a circle about an axis, tilted for the better."""

    turn: Turn
    plain: Array  # [n] bool, True at j if j - 1 and j are seen in one direction for certain
    doubt: Array  # [] integer, the weight of points whose direction is in doubt


def _turn_about(problem: Problem, centre: Array, second: Array) -> _View:
    axis = look_along(problem, centre, second)
    origin, flat = jnp.zeros((), problem.points.dtype), axis.flat
    radial = sweep.look_around(flat, origin, origin)
    order = angular.half_turn_order(flat.x, flat.y, origin, origin, radial.off_centre)
    straight = axis.straight[order.index]
    plain = jnp.concatenate([jnp.zeros(1, bool), (straight[1:] == straight[:-1]) & (straight[1:] > 0)])
    turn = Turn(radial._replace(at_centre=jnp.min(axis.tilts)), radial.steps[order.index], order.joined)
    return _View(turn, plain, axis.doubt)


def _possible_loss(view: _View) -> Array:
    """The least loss that any order within the uncertain runs could give; a run of plain ties is passed at once."""
    opens = ~view.turn.joined
    closes = jnp.concatenate([opens[1:], jnp.ones(1, bool)])
    is_plain = run_totals((view.turn.joined & ~view.plain).astype(jnp.int32), opens, closes) == 0
    steps = jnp.where(is_plain, jnp.where(closes, run_totals(view.turn.steps, opens, closes), 0), view.turn.steps)
    return sweep.possible_loss(view.turn._replace(steps=steps))


def _bracket_axes(problem: Problem, axes: Axes, index: Array) -> Bracket:
    centres, seconds = axes.ends(index)
    views = jax.vmap(_turn_about, in_axes=(None, 0, 0))(problem, centres, seconds)
    upper = jax.vmap(sweep.attained_loss)(views.turn)
    certain = jnp.all(jax.vmap(sweep.is_certain, in_axes=(0, None))(views.turn, problem.on_grid))
    lower = loops.cond(certain, lambda _: upper, jax.vmap(_possible_loss), views) - views.doubt
    is_axis = jnp.any(problem.points[centres] != problem.points[seconds], axis=1) & (index < axes.count)
    none = jnp.iinfo(upper.dtype).max
    return Bracket(jnp.where(is_axis, lower, none), jnp.where(is_axis, upper, none))


def bracket_all(problem: Problem, axes: Axes, config: SweepConfig) -> Bracket:
    """Brackets of axes, in chunks; the largest integer where there is no axis. Fields [capacity of the axes].

    Args:
      problem: with n points.
      axes: of the problem.
      config: resolved.
    """
    size, capacity = problem.points.shape[0], axes.capacity
    assert config.chunk_pairs is not None
    assert config.parallel_sorts is not None
    streams = min(config.parallel_sorts, capacity)
    chunk = max(1, min(-(-capacity // streams), config.chunk_pairs // (size * streams))) * streams
    num_chunks = -(-capacity // chunk)
    unknown = jnp.full((num_chunks * chunk,), jnp.iinfo(problem.weights.dtype).max, problem.weights.dtype)

    def sweep_chunk(number: Array, done: Bracket) -> Bracket:
        begin = jnp.asarray(number * chunk)
        parts = [_bracket_axes(problem, axes, part) for part in jnp.split(begin + lax.iota(begin.dtype, chunk), streams)]
        bracket = Bracket(*(jnp.concatenate(fields) for fields in zip(*parts, strict=True)))
        return Bracket(*(lax.dynamic_update_slice_in_dim(old, new, begin, 0) for old, new in zip(done, bracket, strict=True)))

    used_chunks = (axes.count + chunk - 1) // chunk
    swept = loops.fori_loop(jnp.zeros_like(used_chunks), used_chunks, sweep_chunk, Bracket(unknown, unknown))
    return Bracket(*(field[:capacity] for field in swept))
