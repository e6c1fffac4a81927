"""One-dimensional searches: a Newton iteration kept in a bracket, and a golden section."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

from jboost.base import loops
from jboost.base.types import Array, ArrayLike


def bracketed_root(
    function: Callable[[Array], tuple[Array, Array]],
    low: Array,
    high: Array,
    start: Array,
    *,
    tolerance: ArrayLike,
    floor: float = 1.0,
    max_steps: int = 80,
) -> Array:
    """The root of an increasing function: Newton steps, and halves of the bracket where these leave
    it or do not settle fast.

    Args:
      function: place [] -> its value [], and where it proposes to look next [], such as
        place - value / slope; NaN for no proposal.
      low: [], at or below the root.
      high: [], at or above the root.
      start: [] in [low, high].
      tolerance: in values. A step of two roundings of floor + |place| ends the search as well.
      floor: what places are to be told apart from 0.
      max_steps: static.

    Returns:
      What the last evaluation proposed.
    """
    eps = jnp.finfo(start.dtype).eps

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        low, high, place, last, before, _ = state
        value, proposal = function(place)
        is_low = value < 0
        low, high = jnp.where(is_low, place, low), jnp.where(is_low, high, place)
        length = jnp.abs(proposal - place)
        fine = 2 * eps * (floor + jnp.abs(place))
        is_settled = (jnp.abs(value) <= tolerance) | (length <= fine)
        is_sound = (proposal > low) & (proposal < high) & (2 * length <= before)
        unsound = jnp.where(is_settled, place, low + (high - low) / 2)
        following = jnp.where(is_sound, proposal, unsound)
        moved = jnp.abs(following - place)
        error = jnp.where(is_settled, 0.0, moved - fine) + 0 * value
        return low, high, following, moved, last, error

    far = jnp.full_like(start, jnp.inf)
    state, _ = loops.bounded_loop(
        step, lambda state: state[-1] > 0, (low, high, start, far, far, far), max_checks=max_steps
    )
    return state[2]


def newton(place: Array, value: Array, slope: Array) -> Array:
    """Where the tangent crosses 0; NaN, which no bracket takes, where it is flat."""
    return jnp.where(slope > 0, place - value / jnp.where(slope > 0, slope, 1.0), jnp.nan)


def best_threshold(
    gain: Callable[[Array], Array], low: Array, unit: Array, num_steps: int = 60
) -> Array:
    """A maximiser in [low, inf) of a concave function, which may be -inf to the right: doubled
    steps from `unit`, then a golden section.
    """

    def double(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        reach, best, _ = state
        now = gain(low + 2 * reach)
        return 2 * reach, jnp.maximum(now, best), now - best

    first = gain(low + unit)
    reach, _, _ = loops.bounded_loop(
        double,
        lambda state: state[2] > 0,
        (unit, first, jnp.full_like(first, jnp.inf)),
        max_checks=60,
    )[0]
    ratio = (5**0.5 - 1) / 2

    def narrow(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        left, right = bracket
        inner_left, inner_right = right - ratio * (right - left), left + ratio * (right - left)
        keep_left = gain(inner_left) >= gain(inner_right)
        return jnp.where(keep_left, left, inner_left), jnp.where(keep_left, inner_right, right)

    left, right = loops.fori_loop(0, num_steps, narrow, (low, low + reach))
    candidates = jnp.stack([left, left + (right - left) / 2, right])
    gains = jnp.stack([gain(candidates[0]), gain(candidates[1]), gain(candidates[2])])
    return candidates[jnp.argmax(gains)]
