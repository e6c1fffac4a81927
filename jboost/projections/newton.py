"""The capped entries of a projection by relative entropy, found by Newton's method."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import exact_sums, loops, named_axis, numerics, reduce
from jboost.base.named_axis import AxisName
from jboost.base.types import Array
from jboost.projections.arguments import ROUNDINGS
from jboost.projections.remainder import (
    WIDE,
    CappedSet,
    as_row,
    extremes,
    remainder_of,
    summands,
)


class _Cut(NamedTuple):
    """A search for the threshold t, the log of the factor that divides the free weights."""

    cut: Array  # [] an upper bound of t, tried next
    middle: Array  # [] the middle of the two bounds, tried next beside `cut`
    low: Array  # [] a lower bound of t
    goes_on: Array  # [] 1, or 0 once the entries capped at `tried` imply `tried` itself
    tried: Array  # [] the last `cut`


def find_by_newton(
    logs: Array, caps: Array, guess: Array | None = None, *, axis_name: AxisName = None
) -> CappedSet:
    """The capped entries, by Newton's method from above combined with bisection.

    To be called inside `in_64_bits`. A set of capped entries implies an upper bound of the
    threshold. The bound is the threshold itself if it caps no further entry. Each step evaluates
    this bound at the last bound, and at the middle of the interval that is known to hold the
    threshold. The middle helps where Newton's steps are short.
    """
    lowest, largest, left_by_all = extremes(logs, caps, axis_name)
    # In 64 bits the search runs twice. The second one measures logs from the first threshold, so
    # that their differences to the threshold are exact. 32-bit logs are exact enough in 64 bits.
    if logs.dtype == WIDE:
        origin = _search_cut(logs, caps, lowest, largest, guess, axis_name).tried
        logs, lowest, largest, guess = logs - origin, lowest - origin, largest - origin, None
    found = _search_cut(logs, caps, lowest, largest, guess, axis_name)
    return CappedSet(
        _decay_from(logs, found.tried) >= caps, left_by_all.astype(logs.dtype), largest
    )


def _decay_from(logs: Array, origin: Array) -> Array:
    """exp(logs - origin) for an origin in 64 bits, in the type of the logs.

    The origin is split in two numbers of that type, which is faster than exp in 64 bits.
    """
    high = numerics.held_in(origin, logs.dtype)
    return jnp.exp((logs - high.astype(logs.dtype)) - (origin - high).astype(logs.dtype))


def _search_cut(
    logs: Array,
    caps: Array,
    lowest: Array,
    largest: Array,
    guess: Array | None,
    axis_name: AxisName,
) -> _Cut:
    size = exact_sums.length(named_axis.size(logs.shape[0], axis_name))
    eps = float(jnp.finfo(logs.dtype).eps)
    # A sum below this number may be wrong by terms that underflow.
    underflow = size * float(jnp.finfo(logs.dtype).tiny) / eps
    # an estimate of the rounding error of the sums; those of `exact_sums` round once
    rounding = (ROUNDINGS + (0 if exact_sums.are_on() else size**0.5 / 8)) * eps
    row, row_counted = as_row(caps), as_row(summands(caps))

    def step(state: Array) -> Array:
        now, cuts = _Cut(*state), state[:2]
        relative = _decay_from(logs[None, :], cuts[:, None])
        is_capped = relative >= row
        weight, counted = named_axis.several(
            (reduce.SUM, jnp.where(is_capped, 0, relative)),
            (reduce.SUM, jnp.where(is_capped, row_counted, 0)),
            axis_name=axis_name,
        )
        left = remainder_of(caps, counted).astype(logs.dtype)
        implied = _implied(cuts, weight, left, underflow, eps)
        # The barrier keeps XLA from computing these again in each reduction below.
        implied, is_above, is_full = lax.optimization_barrier((implied, weight >= left, left <= 0))

        cut = jnp.minimum(now.cut, jnp.min(implied))
        low = jnp.maximum(now.low, jnp.max(jnp.where(is_above, cuts, -jnp.inf)))
        is_there = (jnp.abs(implied[0] - now.cut) <= rounding) & (weight[0] > underflow)
        has_moved = (cut < now.cut) | (low > now.low)
        # `is_full`: the capped entries leave nothing. At or below `lowest`, all entries are capped.
        goes_on = ~is_full[0] & ~is_there & has_moved & (now.cut > lowest.astype(WIDE))
        return jnp.stack(_Cut(cut, 0.5 * low + 0.5 * cut, low, goes_on.astype(WIDE), now.cut))

    first = _first_cut(lowest.astype(WIDE), largest.astype(WIDE) + math.log(size), guess)
    return _Cut(*loops.while_loop(lambda state: _Cut(*state).goes_on > 0, step, first))


def _implied(cuts: Array, weight: Array, left: Array, underflow: float, eps: float) -> Array:
    """The upper bounds of the threshold that the entries capped at each cut imply. `weight` is the
    sum of the other entries relative to the cut, and `left` is what the caps leave for them.
    """
    factor = jnp.maximum(left, 0) / jnp.maximum(weight, underflow)
    distance = jnp.log(factor).astype(cuts.dtype)
    implied = cuts - (distance - ROUNDINGS * eps * jnp.maximum(jnp.abs(distance), 1))
    return jnp.where(weight < left, jnp.minimum(implied, cuts), implied)


def _first_cut(low: Array, high: Array, guess: Array | None) -> Array:
    """The search before the first step, between two bounds of the threshold."""
    middle = 0.5 * low + 0.5 * high if guess is None else guess.astype(WIDE)
    zero = jnp.zeros((), WIDE)
    return jnp.stack(_Cut(high, middle, low, zero + 1, zero))
