"""The loss of a slab of given width as a function of its direction, for slabs through one centre.

This extends Boyarshinov and Magdon-Ismail (2005), Section 4. A separator with a margin is a
separator of the two classes after they are shifted apart along the normal. A slab touches a centre
a of the own class. With unit normal u, which points to the own side, it keeps (classifies correctly
outside the slab) the own points with u . (x - a) >= 0 and the other points with
u . (x - a) < -gap. Hence each point is kept on one arc of directions, and the ends of all arcs
divide the directions into intervals. A class of slabs is one such interval.

Ends are rounded. If the order of close ends is uncertain, one more class (`shared`) contains all
points that any of the possible orders keeps. It remains a candidate until its hulls are measured.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics
from jboost.base.types import Array
from jboost.pair.sweep.instance import LineInstance


class Arcs(NamedTuple):
    """All classes of slabs that touch one centre: those between ends of arcs first, then those
    shared by ends whose order is uncertain.
    """

    losses: Array  # [4n] integer; the largest integer where there is no class
    turns: Array  # [n] bool, kept in some directions and not in others
    starts: Array  # [n] int32, the rank of the direction that begins the arc
    stops: Array  # [n] int32, the rank of the direction that ends the arc
    wraps: Array  # [n] bool, kept in direction 0
    ends: Array  # [2n] in [0, 4), the directions where arcs begin or end, by rank
    num_ends: Array  # [] int32
    run_start: Array  # [2n] int32, the first rank of the run of ends in uncertain order
    weights: Array  # [2n] integer, of the point whose arc ends or begins at this rank
    at_centre: Array  # [n] bool, own points at the centre, kept by every slab
    doubtful: Array  # [] bool, the order of ends is uncertain across direction 0


def turn_slab(instance: LineInstance, centre: Array, gap: Array) -> Arcs:
    """The classes of slabs of width `gap` that touch a centre."""
    size = instance.own.shape[0]
    ends = _ends_of_arcs(instance, centre, gap)
    wraps = ends.turns & (ends.first > ends.second)
    nothing = jnp.zeros((), instance.weights.dtype)
    weights = jnp.where(ends.turns, instance.weights, nothing)
    always_lost = numerics.masked_sum(instance.weights, instance.live & ~ends.own & ~ends.turns)
    base = always_lost + numerics.masked_sum(weights, ~wraps)

    place = lax.iota(jnp.int32, 2 * size)
    directions, order, resolution = _sorted(
        jnp.where(
            jnp.concatenate([ends.turns, ends.turns]),
            jnp.concatenate([ends.first, ends.second]),
            4,
        ),
        place,
    )
    steps, errors = (
        jnp.concatenate([-weights, weights])[order],
        jnp.concatenate([ends.error, ends.error])[order] + resolution,
    )
    num_ends = 2 * jnp.sum(ends.turns, dtype=jnp.int32)
    runs = _find_runs(directions, errors, place, num_ends)
    ranks = jnp.zeros(2 * size, jnp.int32).at[order].set(place)
    return Arcs(
        losses=_losses(steps, base, runs, (num_ends == 0) & (place == 0)),
        turns=ends.turns,
        starts=ranks[:size],
        stops=ranks[size:],
        wraps=wraps,
        ends=directions,
        num_ends=num_ends,
        run_start=runs.start,
        weights=jnp.abs(steps),
        at_centre=ends.own & ~ends.apart,
        doubtful=runs.is_across & (num_ends > 0),
    )


class _Ends(NamedTuple):
    """The arc of directions on which each point is kept."""

    own: Array  # [n] bool
    apart: Array  # [n] bool, not at the centre
    turns: Array  # [n] bool, kept in some directions and not in others
    first: Array  # [n] in [0, 4), where the arc begins
    second: Array  # [n] in [0, 4), where it ends
    error: Array  # [n] a bound of the rounding errors of both


def _ends_of_arcs(instance: LineInstance, centre: Array, gap: Array) -> _Ends:
    real = instance.metric.dtype
    dx, dy = instance.metric - instance.metric[:, centre, None]
    squared = dx * dx + dy * dy
    apart = squared > 0
    own = instance.live & instance.own
    squared_chord = squared - gap * gap
    turns = jnp.where(own, apart, instance.live & ~own & (squared_chord > 0))
    side = jnp.where(own, 1, jnp.sqrt(jnp.maximum(squared_chord, 0)))
    back = jnp.where(own, 0, gap)
    # own points are kept while they are above, others while they are below
    sign = jnp.where(own, 1, -1)
    first = full_turn(-back * dx + sign * side * dy, -back * dy - sign * side * dx)
    second = full_turn(-back * dx - sign * side * dy, -back * dy + sign * side * dx)
    error = (
        jnp.finfo(real).eps
        * 8
        * jnp.where(own, 1, 1 + jnp.sqrt(squared) / jnp.maximum(side, jnp.finfo(real).tiny))
    )
    return _Ends(own, apart, turns, first, second, error)


class _UncertainRuns(NamedTuple):
    """Runs of sorted ends whose order is uncertain."""

    start: Array  # [2n] int32, the first rank of the run of each end
    is_last: Array  # [2n] bool, the last end of a run
    is_across: Array  # [] bool, whether the order is uncertain across direction 0


def _find_runs(directions: Array, errors: Array, place: Array, num_ends: Array) -> _UncertainRuns:
    seen = place < num_ends
    highest = lax.cummax(jnp.where(seen, directions + errors, -jnp.inf))
    lowest = lax.cummin(jnp.where(seen, directions - errors, jnp.inf), reverse=True)
    begins = seen & jnp.concatenate([jnp.ones(1, bool), lowest[1:] > highest[:-1]])
    is_last = seen & ((place == num_ends - 1) | jnp.concatenate([begins[1:], jnp.zeros(1, bool)]))
    start = lax.cummax(jnp.where(begins, place, 0))
    return _UncertainRuns(start, is_last, highest[-1] - 4 >= lowest[0])


def _losses(steps: Array, base: Array, runs: _UncertainRuns, is_only: Array) -> Array:
    """The losses of all classes, [4n]. `steps` [2n] are the changes of the loss at the ends, `base`
    is the loss in direction 0. `is_only` [2n] is True at rank 0 if there are no ends.
    """
    nothing = jnp.zeros((), steps.dtype)
    sums, falls = jnp.cumsum(steps), jnp.cumsum(jnp.minimum(steps, nothing))
    between = base + sums
    before = base + (sums - steps)[runs.start]
    shared = before + falls - (falls - jnp.minimum(steps, nothing))[runs.start]
    none = jnp.iinfo(sums.dtype).max
    return jnp.concatenate(
        [
            jnp.where(runs.is_last | is_only, between, none),
            jnp.where(runs.is_last & (shared < jnp.minimum(before, between)), shared, none),
        ]
    )


def _sorted(ends: Array, place: Array) -> tuple[Array, Array, float]:
    """Sorts numbers in [0, 4]. Returns the sorted numbers, their indices, and a bound of the
    rounding of the sort keys.
    """
    if ends.dtype.itemsize == 4:
        ends, order = lax.sort((ends, place), num_keys=1)
        return ends, order, 0.0
    index_bits = max(1, (place.shape[0] - 1).bit_length())
    fraction_bits = min(50, 61 - index_bits)
    keys = lax.sort(
        ((ends * 2.0**fraction_bits).astype(jnp.uint64) << index_bits) | place.astype(jnp.uint64)
    )
    order = (keys & jnp.uint64(2**index_bits - 1)).astype(jnp.int32)
    return (keys >> index_bits).astype(ends.dtype) * 2.0**-fraction_bits, order, 2.0**-fraction_bits


def full_turn(dx: Array, dy: Array) -> Array:
    """A number in [0, 4) that grows with the angle of a vector."""
    slope = dx / (jnp.abs(dx) + jnp.abs(dy))
    return jnp.where((dy > 0) | ((dy == 0) & (dx > 0)), 1 - slope, 3 + slope)


def kept_by(instance: LineInstance, arcs: Arcs, chosen: Array) -> Array:
    """The points that the slabs of a class keep, [n] bool."""
    size = arcs.run_start.shape[0]
    shared, rank = chosen >= size, chosen % size
    started = arcs.starts <= rank
    stopped = arcs.stops < jnp.where(shared, arcs.run_start[rank], rank + 1)
    inside = jnp.where(arcs.wraps, started | ~stopped, started & ~stopped)
    return (arcs.turns & inside) | arcs.at_centre


def lost_with(arcs: Arcs, chosen: Array) -> Array:
    """A lower bound of the loss of the classes that a class hides, for a class whose gap is too
    narrow, [] integer.

    A shared class hides the classes that keep the points of only some of its ends. If it has two
    ends, these are the classes before and after it, which are listed themselves.
    """
    size = arcs.run_start.shape[0]
    shared, rank = chosen >= size, chosen % size
    place = lax.iota(jnp.int32, size)
    in_run = (place >= arcs.run_start[rank]) & (place <= rank)
    most = jnp.iinfo(arcs.losses.dtype).max
    hidden = jnp.where(
        rank - arcs.run_start[rank] > 1,
        arcs.losses[chosen] + numerics.masked_min(arcs.weights, in_run, fill=most // 2),
        most,
    )
    return jnp.where(shared, hidden, arcs.losses[chosen])
