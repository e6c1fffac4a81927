"""Every line through every centre: brackets of the least loss round each central point.

Paper 000: the centre is the point a+ of Lemma 2.5, the mirrored angle is theta, an open class is an interval
(theta_j, theta_j+1) of Lemma 2.7, and the loss is W(Q+). The smaller class serves as the centres ("own"), so that m <= n / 2;
points at the same place are one centre. A centre is swept by one sort and one scan. Where the sorted keys cannot tell two
directions apart (never on integer grids of 20 bits and n <= 65,536) a run of joined points may stand in any order, which gives
a lower and an upper bound instead of a value; `jboost.pair.visits` settles the centres that matter exactly.

The floor is the sort of one 64-bit word per (centre, point) pair; the rest streams about ten words per pair.
"""

from __future__ import annotations

import dataclasses
import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, loops, numerics
from jboost.base.types import Array
from jboost.geometry import angular
from jboost.pair.instance import Instance


@dataclasses.dataclass(frozen=True)
class SweepConfig:
    """Sizes and types of the sweep. The defaults are chosen for the device; all fields are static.

    `chunk_pairs`: how many (centre, point) pairs are held at once; a pair costs about 100 bytes of working memory.
    `parallel_sorts`: into how many independent parts a chunk is split, so that a CPU runs their sorts side by side.
    `word_bits`: 64, or 32 for devices without 64-bit types; on grids of 20 bits the answers are the same, the speed is not.
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
        """The same with every None replaced by what suits the default device."""
        platform = jax.default_backend()
        on_cpu = platform == "cpu"
        return SweepConfig(
            chunk_pairs=self.chunk_pairs or (2**18 if on_cpu else 2**25),
            parallel_sorts=self.parallel_sorts or (min(os.cpu_count() or 1, 8) if on_cpu else 1),
            word_bits=self.word_bits or (32 if platform == "tpu" else 64),
        )


class Radial(NamedTuple):
    """The points as one centre sees them, for lines that turn through half a circle and start just before angle 0."""

    off_centre: Array  # [n] bool, live and not at the centre
    steps: Array  # [n] integer, how the loss changes when the line passes the point (own class on the left)
    start: Array  # [] integer, the loss off the centre before the first point is passed
    total: Array  # [] integer, all weight off the centre
    at_centre: Array  # [] integer, the weight of the other class at the centre, lost by every line


class Turn(NamedTuple):
    """A line that turns half a circle round one centre: what it loses, step by step, in angular order."""

    radial: Radial
    steps: Array  # [n] integer, `radial.steps` in angular order
    joined: Array  # [n] bool, True at j if the order of j - 1 and j is not certain


class Bracket(NamedTuple):
    """Bounds of the least loss of the open classes through one centre."""

    lower: Array  # [...] integer
    upper: Array  # [...] integer


def look_around(instance: Instance, centre_x: Array, centre_y: Array) -> Radial:
    """What a line through the centre loses before it turns, and what each point adds when it is passed."""
    dx, dy = instance.x - centre_x, instance.y - centre_y
    off_centre = instance.live & ((dx != 0) | (dy != 0))
    upper = angular.is_upper(dx, dy)
    other = instance.live & ~instance.own
    zero = jnp.zeros((), instance.weights.dtype)
    weights = jnp.where(off_centre, instance.weights, zero)
    steps = jnp.where(instance.own == upper, weights, -weights)
    start = numerics.masked_sum(weights, upper == other)
    at_centre = numerics.masked_sum(instance.weights, other & ~off_centre)
    return Radial(off_centre, steps, start, numerics.masked_sum(weights, off_centre), at_centre)


def turn_line(instance: Instance, centre_x: Array, centre_y: Array) -> Turn:
    """Sorts the points round one centre by the quick keys."""
    radial = look_around(instance, centre_x, centre_y)
    order = angular.half_turn_order(instance.x, instance.y, centre_x, centre_y, radial.off_centre)
    return Turn(radial, radial.steps[order.index], order.joined)


def _least_loss(turn: Turn, low: Array, high: Array) -> Array:
    """The least loss over both orientations, if the sum of the steps up to the end of each certain run lies in [low, high]."""
    ends = jnp.concatenate([~turn.joined[1:], jnp.ones(1, bool)])
    lowest = numerics.masked_min(low, ends, fill=jnp.iinfo(low.dtype).max)
    highest = numerics.masked_max(high, ends, fill=jnp.iinfo(high.dtype).min)
    radial = turn.radial
    return radial.at_centre + jnp.minimum(radial.start + lowest, radial.total - radial.start - highest)


def attained_loss(turn: Turn) -> Array:
    """The least loss of the classes between certain runs: attained, whatever the order within a run."""
    sums = jnp.cumsum(turn.steps)
    return _least_loss(turn, sums, sums)


def possible_loss(turn: Turn) -> Array:
    """The least loss that any order within the uncertain runs could give."""
    zero = jnp.zeros(1, turn.steps.dtype)
    rises, falls = jnp.cumsum(jnp.maximum(turn.steps, 0)), jnp.cumsum(jnp.minimum(turn.steps, 0))
    rises_before = lax.cummax(jnp.where(turn.joined, 0, jnp.concatenate([zero, rises[:-1]])))
    falls_before = lax.cummin(jnp.where(turn.joined, 0, jnp.concatenate([zero, falls[:-1]])))
    return _least_loss(turn, rises_before + falls, rises + falls_before)


def is_certain(turn: Turn, ties_are_plain: Array) -> Array:
    """Whether every run is a plain tie, or a single point; points that are not off the centre come last and change nothing."""
    place = lax.iota(jnp.int32, turn.joined.shape[0])
    num_off_centre = jnp.sum(turn.radial.off_centre, dtype=jnp.int32)
    return ties_are_plain | ~jnp.any(turn.joined & (place < num_off_centre))


def _bracket_places(instance: Instance, places: Array, exact_angles: bool) -> Bracket:
    turns = jax.vmap(turn_line, in_axes=(None, 0, 0))(instance, instance.x[places], instance.y[places])
    upper = jax.vmap(attained_loss)(turns)
    ties_are_plain = instance.on_grid & (not exact_angles)
    certain = jnp.all(jax.vmap(is_certain, in_axes=(0, None))(turns, ties_are_plain))
    return Bracket(loops.cond(certain, lambda _: upper, jax.vmap(possible_loss), turns), upper)


def bracket_centres(instance: Instance, centres: Array, num_centres: Array, config: SweepConfig, *, exact_angles: bool = False) -> Bracket:
    """Brackets of the first `num_centres` of the centres, in chunks; the rest get the largest integer.

    Args:
      instance: the problem.
      centres: [c] int32, places of the centres.
      num_centres: [] int32.
      config: resolved.
      exact_angles: whether `lower` has to hold for lines through further points too, with those of the own class on it right.

    Returns:
      Bracket with fields [c].
    """
    capacity, size = centres.shape[0], instance.x.shape[0]
    assert config.chunk_pairs is not None
    assert config.parallel_sorts is not None
    streams = min(config.parallel_sorts, capacity)
    chunk = max(1, min(-(-capacity // streams), config.chunk_pairs // (size * streams))) * streams
    num_chunks = -(-capacity // chunk)
    padded = jnp.concatenate([centres, jnp.zeros(num_chunks * chunk - capacity, centres.dtype)])
    unknown = jnp.full((num_chunks * chunk,), jnp.iinfo(instance.weights.dtype).max, instance.weights.dtype)

    def sweep_chunk(index: Array, done: Bracket) -> Bracket:
        begin = jnp.asarray(index * chunk)
        places = lax.dynamic_slice_in_dim(padded, begin, chunk)
        parts = [_bracket_places(instance, part, exact_angles) for part in jnp.split(places, streams)]
        bracket = Bracket(*(jnp.concatenate(fields) for fields in zip(*parts, strict=True)))
        real = begin + lax.iota(begin.dtype, chunk) < num_centres
        return Bracket(
            *(
                lax.dynamic_update_slice_in_dim(old, jnp.where(real, new, jnp.iinfo(new.dtype).max), begin, 0)
                for old, new in zip(done, bracket, strict=True)
            )
        )

    used_chunks = (num_centres + chunk - 1) // chunk
    swept = loops.fori_loop(jnp.zeros_like(used_chunks), used_chunks, sweep_chunk, Bracket(unknown, unknown))
    return Bracket(*(field[:capacity] for field in swept))


def list_centres(instance: Instance, *, capacity: int | None = None) -> tuple[Array, Array]:
    """One example for every place that the own class occupies: places [capacity] int32, and how many of them count.

    The capacity is max(n // 2, 1) unless given: enough for the smaller class.
    """
    size = instance.x.shape[0]
    skipped, x, y, index = lax.sort((~instance.own, instance.x, instance.y, lax.iota(jnp.int32, size)), num_keys=3)
    again = (x[1:] == x[:-1]) & (y[1:] == y[:-1])
    skipped = skipped | jnp.concatenate([jnp.zeros(1, bool), again])
    _, centres = lax.sort((skipped, index), num_keys=1)
    return centres[: max(size // 2, 1) if capacity is None else capacity], jnp.sum(~skipped, dtype=jnp.int32)
