"""Bounds of the least loss around each centre, over all lines through it.

In the notation of Boyarshinov and Magdon-Ismail (2005), the centre is the point a+ of Lemma 2.5,
the mirrored angle is theta, an open class is an interval (theta_j, theta_j+1) of Lemma 2.7, and the
loss is W(Q+). The points of the smaller class ("own") are the centres, so that m <= n / 2. Points
with equal coordinates are one centre.

The sweep of a centre takes one sort and one scan. Two distinct directions may have equal sort keys,
but never on integer grids of 20 bits with n <= 65,536. The order of a run of joined points is then
uncertain, and the result is a lower bound instead of a value. `jboost.pair.sweep.visits` evaluates
the centres that may be optimal exactly.

The dominant cost is the sort of one 64-bit word per (centre, point) pair. The remaining steps read
or write about ten words per pair.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import batching, check, devices, loops, meshes, numerics, reduce
from jboost.base.types import Array, PyTree
from jboost.geometry import angular
from jboost.pair.sweep.instance import LineInstance


@dataclasses.dataclass(frozen=True)
class SweepConfig:
    """Sizes and types of the sweep. The defaults are chosen for the device; all fields are static.

    `chunk_pairs`: the number of (centre, point) pairs in memory at once. A pair takes about 100
    bytes. `parallel_sorts`: the number of independent parts of a chunk, which a CPU sorts in
    parallel. `word_bits`: 64, or 32 for devices without 64-bit types. On grids of 20 bits the
    results do not depend on it, but the speed does.
    """

    chunk_pairs: int | None = None
    parallel_sorts: int | None = None
    word_bits: int | None = None

    def __post_init__(self) -> None:
        check.choice("word_bits", self.word_bits, (None, 32, 64))
        for name in ("chunk_pairs", "parallel_sorts"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} is {value!r}: it is an integer, at least 1")

    def resolved(self) -> SweepConfig:
        """A copy with every None replaced by the value for the default device."""
        platform = devices.platform()
        on_cpu = platform == "cpu"
        return SweepConfig(
            chunk_pairs=self.chunk_pairs or (2**18 if on_cpu else 2**25),
            parallel_sorts=self.parallel_sorts or (min(os.cpu_count() or 1, 8) if on_cpu else 1),
            word_bits=self.word_bits or (32 if platform == "tpu" else 64),
        )

    def program(self, solve: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """Returns `solve` of the arrays of one data set with types as wide as the words. On a CPU a
        batch runs one data set after the other: in step, each would wait for the slowest.
        """
        return batching.in_chunks(
            numerics.in_64_bits(solve) if self.word_bits == 64 else solve, at_once=1
        )


class Radial(NamedTuple):
    """The data of the lines through one centre that turn through half a circle, from just before
    angle 0.
    """

    off_centre: Array  # [n] bool, live and not at the centre
    # [n] integer, how the loss changes when the line passes the point (own class on the left)
    steps: Array
    start: Array  # [] integer, the loss off the centre before the first point is passed
    total: Array  # [] integer, all weight off the centre
    at_centre: Array  # [] integer, the weight of the other class at the centre, lost by every line


class Turn(NamedTuple):
    """The changes of the loss of a line that turns half a circle around one centre, in angular
    order.
    """

    radial: Radial
    steps: Array  # [n] integer, `radial.steps` in angular order
    joined: Array  # [n] bool, True at j if the order of j - 1 and j is uncertain
    ends: Array  # [n] bool, the last points of runs of joined points


def look_around(instance: LineInstance, centre: Array) -> Radial:
    """The loss of a line through a centre [2] before it turns, and the change of the loss when it
    passes each point.
    """
    dx, dy = instance.points - centre[:, None]
    off_centre = instance.live & ((dx != 0) | (dy != 0))
    upper = angular.is_upper(dx, dy)
    other = instance.live & ~instance.own
    zero = jnp.zeros((), instance.weights.dtype)
    weights = jnp.where(off_centre, instance.weights, zero)
    steps = jnp.where(instance.own == upper, weights, -weights)
    at_start, at_centre = (
        jnp.where(upper == other, weights, zero),
        jnp.where(other & ~off_centre, instance.weights, zero),
    )
    start, total, at_centre = reduce.sums(at_start, weights, at_centre)
    return Radial(off_centre, steps, start, total, at_centre)


def least_loss(turn: Turn, low: Array, high: Array) -> Array:
    """The least loss over both orientations, if the sum of the steps up to the end of each certain
    run lies in [low, high].
    """
    bounds = jnp.iinfo(low.dtype)
    lowest, highest = reduce.extremes(
        jnp.where(turn.ends, low, bounds.max), jnp.where(turn.ends, high, bounds.min)
    )
    radial = turn.radial
    return radial.at_centre + jnp.minimum(
        radial.start + lowest, radial.total - radial.start - highest
    )


def attained_loss(turn: Turn) -> Array:
    """The least loss of the classes between runs. It is attained for any order within the runs."""
    sums = jnp.cumsum(turn.steps)
    return least_loss(turn, sums, sums)


def possible_loss(turn: Turn) -> Array:
    """The least loss over all orders within the uncertain runs."""
    # cumulative sums of the increases and of the decreases
    sizes = jnp.cumsum(jnp.maximum(jnp.stack([turn.steps, -turn.steps]), 0), axis=1)
    before = jnp.pad(sizes[:, :-1], ((0, 0), (1, 0)))
    (rises, falls), (rises_before, falls_before) = (
        sizes,
        lax.cummax(jnp.where(turn.joined[None], 0, before), axis=1),
    )
    return least_loss(turn, rises_before - falls, rises - falls_before)


def in_order(radial: Radial, order: angular.HalfTurnOrder) -> Turn:
    """The `Turn` of a line around a centre, from the angular order of the points."""
    steps, ends = (
        numerics.take(radial.steps, order.index),
        jnp.append(~order.joined[1:], True),
    )
    return Turn(radial, steps, order.joined, ends)


def _bound_places(
    instance: LineInstance, places: Array, num_parts: int, exact_angles: bool
) -> Array:
    at = numerics.take(instance.points, places)
    radial = jax.vmap(look_around, in_axes=(None, 1))(instance, at)
    orders = angular.half_turn_orders(instance.points, at, radial.off_centre, num_parts)
    turns = jax.vmap(in_order)(radial, orders)
    ties_are_plain = instance.on_grid & (not exact_angles)
    certain = ties_are_plain | ~reduce.any_true(turns.joined, axis=(0, 1))
    return loops.cond(certain, jax.vmap(attained_loss), jax.vmap(possible_loss), turns)


def bound_centres(
    instance: LineInstance,
    centres: Array,
    num_centres: Array,
    config: SweepConfig,
    *,
    exact_angles: bool = False,
) -> Array:
    """Lower bounds [c] of the least loss of the open classes through the first `num_centres`
    centres. The other entries are the largest integer.

    Args:
      instance: the problem.
      centres: [c] int32, point indices of the centres.
      num_centres: [] int32.
      config: a resolved config.
      exact_angles: whether the bounds must also hold for lines through further points, if own
        points on such a line count as correct.

    On a mesh every device has all points and sweeps an equal share of the centres.
    """
    num_devices = meshes.num_devices()
    if num_devices == 1:
        return _bound_share(instance, centres, num_centres, config, exact_angles)
    each = -(-centres.shape[0] // num_devices)
    # every device gets an equal share of the real centres
    shares = (
        jnp.pad(centres, (0, each * num_devices - centres.shape[0])).reshape(each, num_devices).T
    )
    counts = (
        num_centres - lax.iota(num_centres.dtype, num_devices) + num_devices - 1
    ) // num_devices

    def own_share(shares: Array, counts: Array, instance: LineInstance) -> Array:
        return _bound_share(instance, shares[0], counts[0], config, exact_angles)[None]

    bounds: Array = meshes.over_devices(own_share, (shares, counts), (instance,))
    return bounds.T.reshape(-1)[: centres.shape[0]]


def _bound_share(
    instance: LineInstance,
    centres: Array,
    num_centres: Array,
    config: SweepConfig,
    exact_angles: bool,
) -> Array:
    """`bound_centres` on one device, chunk by chunk."""
    capacity, size = centres.shape[0], instance.points.shape[1]
    chunk, num_parts = divide_work(capacity, size, config)
    num_chunks = -(-capacity // chunk)
    padded = jnp.pad(centres, (0, num_chunks * chunk - capacity))

    def sweep_chunk(number: Array, bounds: Array) -> Array:
        places = lax.dynamic_index_in_dim(padded.reshape(num_chunks, chunk), number, keepdims=False)
        return lax.dynamic_update_index_in_dim(
            bounds, _bound_places(instance, places, num_parts, exact_angles), number, 0
        )

    used_chunks = (num_centres + chunk - 1) // chunk
    unknown = jnp.zeros((num_chunks, chunk), instance.weights.dtype)
    swept = loops.fori_loop(jnp.zeros_like(used_chunks), used_chunks, sweep_chunk, unknown)
    return jnp.where(
        lax.iota(jnp.int32, capacity) < num_centres,
        swept.reshape(-1)[:capacity],
        jnp.iinfo(swept.dtype).max,
    )


def divide_work(capacity: int, num_points: int, config: SweepConfig) -> tuple[int, int]:
    """The number of centres that are swept at once, at most `capacity`, and the number of parts in
    which they are sorted.
    """
    assert config.chunk_pairs is not None
    assert config.parallel_sorts is not None
    num_parts = min(config.parallel_sorts, capacity)
    return max(
        1, min(-(-capacity // num_parts), config.chunk_pairs // (num_points * num_parts))
    ) * num_parts, num_parts


def list_centres(instance: LineInstance, *, capacity: int | None = None) -> tuple[Array, Array]:
    """One point index for every distinct position of the own class, [capacity] int32, and the
    number of these positions.

    The default capacity max(n // 2, 1) is enough for the smaller class.
    """
    size = instance.points.shape[1]
    skipped, x, y, index = lax.sort(
        (~instance.own, *instance.points, lax.iota(jnp.int32, size)), num_keys=3
    )
    again = (x[1:] == x[:-1]) & (y[1:] == y[:-1])
    skipped = skipped | jnp.concatenate([jnp.zeros(1, bool), again])
    _, centres = lax.sort((skipped, index), num_keys=1)
    return centres[: max(size // 2, 1) if capacity is None else capacity], reduce.count(~skipped)
