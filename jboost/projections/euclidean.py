"""Projection on the capped simplex by Euclidean distance."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import loops, meshes, numerics, reduce
from jboost.base.types import Array, ArrayLike
from jboost.projections.arguments import (
    ROUNDINGS,
    broadcast,
    cast_arguments,
    clean,
    derivative_sets,
    finish,
)
from jboost.projections.remainder import WIDE, as_row, extremes

_ROUNDING = float(jnp.finfo(WIDE).eps)
_SMALL_SHARE = 0.25  # theta may be as inexact as this share of the rounding of the results


@meshes.takes_sharded
def projection_capped_simplex(
    x: ArrayLike, cap: ArrayLike, *, mask: ArrayLike | None = None
) -> Array:
    """The projection of x on the capped simplex, by Euclidean distance.

    It is clip(x - theta, 0, cap) for the one number theta with which the entries sum to 1.

    Args:
      x: [m], finite, or -inf for an entry that stays 0.
      cap: [] or [m], positive; inf for none. In [m] a cap may be 0.
      mask: [m] boolean, False for entries that are ignored and get 0, whatever their values; None
        for all True.

    Returns:
      [m], of the dtype of `x` (the default float for integers), with sum 1. Where the caps sum to
      less than 1, no such distribution exists, and the caps are returned. Differentiable in both
      modes, in `x` and `cap`.

    Raises:
      ValueError: naming the argument, for wrong shapes and kinds; and where the values are known
        (not inside jit or vmap), for caps that are negative or NaN or sum to less than 1, and for
        an empty mask. Inside, an empty mask gives zeros, and NaN gives NaN.

    Source: Wang and Lu, Projection onto the capped simplex (2015), arXiv:1503.01002: the optimality
    conditions, with caps per entry.

    >>> import jax.numpy as jnp
    >>> from jboost import projections
    >>> projections.projection_capped_simplex(jnp.array([2.0, 0.5, 0.25]), 0.5).tolist()
    [0.5, 0.375, 0.125]
    """
    return _euclidean_projection(*cast_arguments("x", x, cap, mask))


@jax.jit
def _euclidean_projection(x: Array, cap: Array, mask: Array) -> Array:
    return _euclidean_with_derivative(x, cap, mask)


@jax.custom_jvp
def _euclidean_with_derivative(x: Array, cap: Array, mask: Array) -> Array:
    wide, caps = clean(x, cap, mask)
    return numerics.in_64_bits(_project_euclidean)(wide, caps).astype(x.dtype)


@_euclidean_with_derivative.defjvp
def _euclidean_derivative(
    primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Any]
) -> tuple[Array, Array]:
    x, cap, mask = primals
    answer = _euclidean_with_derivative(x, cap, mask)
    capped, free = derivative_sets(answer, x, cap, mask)
    free = free & (answer > 0)
    x_tangent = jnp.where(free, tangents[0], 0)
    cap_tangent = jnp.where(capped, broadcast(tangents[1], x.shape[0]), 0)
    theta_tangent = numerics.safe_divide(
        jnp.sum(x_tangent) + jnp.sum(cap_tangent), jnp.sum(free, dtype=answer.dtype)
    )
    return answer, cap_tangent + x_tangent - jnp.where(free, theta_tangent, 0)


def _project_euclidean(x: Array, caps: Array) -> Array:
    """The projection [m] of values and caps from `clean`; to be called inside `in_64_bits`."""
    lowest, largest, left_by_all = extremes(x, caps)
    share = _SMALL_SHARE * float(jnp.finfo(x.dtype).eps)

    def search(_: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        origin, theta = found
        is_coarse = _ROUNDING * jnp.abs(theta) > share
        origin = jnp.where(is_coarse & (theta < jnp.inf), theta, origin)
        closer = _search_theta(x, caps, origin, lowest, largest, left_by_all, is_coarse)
        return origin, jnp.where(is_coarse, closer, theta)

    # The second search measures x from the first theta, so that differences to theta are exact. For
    # most 32-bit numbers, which are exact enough in 64 bits, it does nothing.
    nothing = jnp.zeros((), WIDE)
    origin, theta = loops.fori_loop(0, 2, search, (nothing, nothing + jnp.inf))
    answer = jnp.clip((x.astype(WIDE) - origin) - theta, 0, caps.astype(WIDE)).astype(x.dtype)
    return finish(answer, x, caps, left_by_all.astype(x.dtype), largest)


class _Interval(NamedTuple):
    """An interval that holds theta, and three candidates in it that the next step evaluates."""

    newton: Array  # [] the candidate of Newton's method
    chord: Array  # [] the candidate of the secant through both ends
    middle: Array  # [] the middle of the interval
    low: Array  # [] the lower end: the entries sum to 1 or more
    high: Array  # [] the upper end: they sum to less than 1
    excess_low: Array  # [] the sum minus 1 at `low`
    excess_high: Array  # [] the sum minus 1 at `high`
    goes_on: Array  # [] 1, or 0 once `newton` is theta


def _pack_interval(
    newton: Array,
    low: Array,
    high: Array,
    excess_low: Array,
    excess_high: Array,
    goes_on: Array,
) -> Array:
    """The interval as an array, with its secant and its middle as candidates."""
    share = numerics.safe_divide(excess_low, excess_low - excess_high, fill=0.5)
    interval = _Interval(
        newton,
        low + share * (high - low),
        low + 0.5 * (high - low),
        low,
        high,
        excess_low,
        excess_high,
        goes_on.astype(WIDE),
    )
    return jnp.stack(interval)


def _search_theta(
    x: Array,
    caps: Array,
    origin: Array,
    lowest: Array,
    largest: Array,
    left_by_all: Array,
    is_wanted: Array,
) -> Array:
    """The theta [] for which clip(x - origin - theta, 0, cap) sums to 1. Without `is_wanted` it
    takes no step, and the result is of no use.

    The sum is piecewise linear and decreasing in theta. Each step evaluates it at three candidates:
    by Newton's method, by the secant, and by bisection.
    """
    eps, row = float(jnp.finfo(x.dtype).eps), as_row(caps.astype(WIDE))
    rounding = ROUNDINGS * jnp.finfo(WIDE).eps

    def step(state: Array) -> Array:
        now, candidates = _Interval(*state), state[:3]
        heights = (x.astype(WIDE) - origin)[None, :] - candidates[:, None]
        is_free = (heights > 0) & (heights < row)
        total, num_free = reduce.several(
            (reduce.SUM, jnp.clip(heights, 0, row)), (reduce.SUM, is_free.astype(WIDE))
        )
        excess = total - 1
        is_low = excess >= 0
        is_root = jnp.abs(excess) <= rounding * (x.shape[0] ** 0.5 + num_free * jnp.abs(candidates))
        low = jnp.maximum(now.low, jnp.max(jnp.where(is_low, candidates, -jnp.inf)))
        high = jnp.minimum(now.high, jnp.min(jnp.where(is_low, jnp.inf, candidates)))
        return _pack_interval(
            _next_theta(candidates, excess, num_free, is_root, low, high),
            low,
            high,
            jnp.minimum(now.excess_low, jnp.min(jnp.where(is_low, excess, jnp.inf))),
            jnp.maximum(now.excess_high, jnp.max(jnp.where(is_low, -jnp.inf, excess))),
            ~is_root[0] & (high - low > _shortest(low, high, eps)),
        )

    low, high = (lowest.astype(WIDE) - origin) - 1, largest.astype(WIDE) - origin
    start = _pack_interval(high, low, high, -left_by_all, -jnp.ones((), WIDE), is_wanted)
    return _Interval(
        *loops.while_loop(lambda state: _Interval(*state).goes_on > 0, step, start)
    ).newton


def _next_theta(
    candidates: Array, excess: Array, num_free: Array, is_root: Array, low: Array, high: Array
) -> Array:
    """The first candidate after a step of Newton's method if it is a root, []. Otherwise that of
    the candidates of least excess, within the interval.
    """
    root = candidates + numerics.safe_divide(excess, num_free)
    merit = jnp.where((num_free == 0) & ~is_root, jnp.inf, jnp.abs(excess))
    best = jnp.min(merit)
    newton = jnp.where(
        best < jnp.inf,
        jnp.clip(jnp.max(jnp.where(merit == best, root, -jnp.inf)), low, high),
        high,
    )
    return jnp.where(is_root[0], root[0], newton)


def _shortest(low: Array, high: Array, eps: float) -> Array:
    """The length of an interval that is short enough for entries, which are at most 1, with this
    rounding unit.
    """
    size = jnp.maximum(jnp.abs(low), jnp.abs(high))
    return 2 * jnp.maximum(eps * jnp.minimum(size, 1.0), _ROUNDING * size)
