"""One-dimensional searches: a safeguarded Newton iteration with its derivative, and a
golden-section search.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics
from jboost.base.types import Array, ArrayLike

_NEWTON_STEPS = 2  # enough for derivatives up to the third order


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
    """The root of an increasing function, by Newton steps. Where a step leaves the interval or
    converges slowly, the interval is bisected instead.

    Args:
      function: point [] -> value [], and a proposal for the next point [], such as
        point - value / slope; NaN for no proposal.
      low: [], at or below the root.
      high: [], at or above the root.
      start: [] in [low, high].
      tolerance: the search ends if the value is at most this. It also ends with a step of at most
        two roundings of floor + |point|.
      floor: an absolute size for this test. With 0 only relative steps count.
      max_steps: static.

    Returns:
      The point after the last step.
    """
    eps = jnp.finfo(start.dtype).eps

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        low, high, point, last, before, _ = state
        value, proposal = function(point)
        is_low = value < 0
        low, high = jnp.where(is_low, point, low), jnp.where(is_low, high, point)
        length = jnp.abs(proposal - point)
        fine = 2 * eps * (floor + jnp.abs(point))
        has_converged = (jnp.abs(value) <= tolerance) | (length <= fine)
        is_sound = (proposal > low) & (proposal < high) & (2 * length <= before)
        unsound = jnp.where(has_converged, point, low + (high - low) / 2)
        following = jnp.where(is_sound, proposal, unsound)
        moved = jnp.abs(following - point)
        error = jnp.where(has_converged, 0.0, moved - fine) + 0 * value
        return low, high, following, moved, last, error

    far = jnp.full_like(start, jnp.inf)
    state, _ = loops.bounded_loop(
        step, lambda state: state[-1] > 0, (low, high, start, far, far, far), max_checks=max_steps
    )
    return state[2]


def newton(point: Array, value: Array, slope: Array) -> Array:
    """The zero of the tangent; NaN if it is flat, which `bracketed_root` treats as no proposal."""
    return jnp.where(slope > 0, point - value / jnp.where(slope > 0, slope, 1.0), jnp.nan)


def implicit_root(excess: Callable[[Array], Array], found: Array, *, refines: bool = True) -> Array:
    """A root [] of a differentiable function, with the derivatives of the implicit function.

    Args:
      excess: a function of a number []. The root is also differentiated in arrays that it closes
        over.
      found: [] the root that a search has found. Where the slope is 0, derivatives are 0.
      refines: static, whether the value follows the Newton steps from `found`. With False it is
        `found`, and what the function is there counts as 0. For a root that is found to its
        rounding: if it is large, the function may be flat one rounding away from it, and a Newton
        step from there leads anywhere.
    """
    root = lax.stop_gradient(found)
    for _ in range(_NEWTON_STEPS):
        value, slope = jax.jvp(excess, (root,), (jnp.ones_like(root),))
        value = value if refines else value - lax.stop_gradient(value)
        root = root - numerics.safe_divide(value, slope)
    return root


def best_threshold(
    gain: Callable[[Array], Array], low: Array, unit: Array, num_steps: int = 60
) -> Array:
    """A maximiser in [low, inf) of a concave function, which may be -inf from some point on. Steps
    from `unit` are doubled, then a golden-section search follows.
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
