"""Arguments and results that all projections on the capped simplex share."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jboost.base import check, numerics
from jboost.base.types import Array

# Caps that sum to 1 within this many units of rounding are themselves the projection. Not tuned.
ROUNDINGS = 4


def cast_arguments(name: str, values: Any, cap: Any, mask: Any) -> tuple[Array, Array, Array]:
    """Values [m], cap [] or [m] and mask [m] as arrays.

    Raises ValueError, naming the argument, for wrong shapes and kinds, and for known values that
    are not allowed.
    """
    array = check.numeric(name, values, shape=("m",), kinds="fiu")
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(jnp.result_type(float))
    size = array.shape[0]
    if not size:
        raise ValueError(f"{name} is empty: a distribution has one entry at least")
    is_vector = bool(getattr(cap, "ndim", isinstance(cap, list | tuple)))
    cap_array = check.numeric("cap", cap, shape=(size,) if is_vector else (), kinds="fiu").astype(
        array.dtype
    )
    mask_array = (
        jnp.ones(size, bool)
        if mask is None
        else check.numeric("mask", mask, shape=(size,), kinds="b")
    )
    if check.are_known(mask):
        _validate(
            values,
            cap,
            np.ones(size, bool) if mask is None else np.asarray(mask),
            float(jnp.finfo(array.dtype).eps),
        )
    return array, cap_array, mask_array


def _validate(values: Any, cap: Any, kept: np.ndarray, eps: float) -> None:
    """Raises ValueError for values that are not allowed, where they are known."""
    if not kept.any():
        raise ValueError("mask is empty: keep one entry at least")
    if not check.are_known(cap):
        return
    caps = np.asarray(cap, np.float64)
    bad = ~(caps >= 0) & kept if caps.ndim else np.reshape(~(caps > 0), 1)
    if bad.any():
        position, value = (
            (f"cap[{np.argmax(bad)}]", caps[np.argmax(bad)]) if caps.ndim else ("cap", caps)
        )
        raise ValueError(
            f"{position} is {value}: caps are positive; use inf for no cap"
            + (", and 0 for an entry that stays 0" if caps.ndim else "")
        )
    if check.are_known(values):
        kept = kept & (np.asarray(values) != -np.inf)
    count = int(np.count_nonzero(kept))
    total = (
        float(np.sum(np.minimum(caps, 1), where=kept))
        if caps.ndim
        else count * min(float(caps), 1.0)
    )
    if total < 1 - 4 * ROUNDINGS * eps:
        raise ValueError(
            f"cap is too small: the caps of the {count} entries that count sum to {total:.6g}, and"
            " a distribution sums to 1; "
            + (f"raise it to 1 / {count} at least" if count else "give one entry a positive weight")
        )


def broadcast(value: Array, size: int) -> Array:
    return jnp.broadcast_to(value, (size,))


def _widen(values: Array, cap: Array) -> tuple[Array, Array]:
    """Values and caps in at least 32 bits.

    A cap of 1 or more never binds. It is replaced by 2, so that it does not bind by rounding
    either.
    """
    wide = numerics.at_least_32_bits(values.dtype)
    return values.astype(wide), jnp.where(cap >= 1, 2, cap).astype(wide)


def _is_broken(values: Array, cap: Array, mask: Array) -> Array:
    """Whether an unmasked entry is NaN or inf, or its cap is NaN, [m] bool."""
    return mask & (
        jnp.isnan(values) | (values == jnp.inf) | jnp.isnan(broadcast(cap, values.shape[0]))
    )


def clean(values: Array, cap: Array, mask: Array) -> tuple[Array, Array]:
    """Values [m] and caps [] or [m], with masked and invalid entries marked.

    An entry that gets weight 0 has the value -inf, and the cap 0 if there is a cap per entry. An
    invalid entry has the value NaN.
    """
    wide, caps = _widen(values, cap)
    kept = mask & (wide != -jnp.inf) & ~(caps <= 0)
    wide = jnp.where(_is_broken(values, cap, mask), jnp.nan, jnp.where(kept, wide, -jnp.inf))
    return wide, jnp.where(kept, caps, 0) if caps.ndim else caps


def finish(answer: Array, values: Array, caps: Array, left_by_all: Array, largest: Array) -> Array:
    """The projection [m]; the caps if they sum to 1 up to rounding, or to less; NaN for NaN input.

    Args:
      answer: [m] the projection, if the caps sum to more than 1.
      values: [m], as `clean` returns them.
      caps: [] or [m], as `clean` returns them.
      left_by_all: [] 1 minus the sum of all caps.
      largest: [] the largest of the values, NaN if one is NaN.
    """
    caps_are_it = left_by_all >= -ROUNDINGS * jnp.finfo(values.dtype).eps
    answer = jnp.where(values == -jnp.inf, 0, jnp.where(caps_are_it, caps, answer))
    return jnp.where(jnp.isnan(largest), jnp.nan, answer)


def derivative_sets(answer: Array, values: Array, cap: Array, mask: Array) -> tuple[Array, Array]:
    """Masks [m] of the capped entries, and of the other entries that can change.

    The derivative of an entry is that of its cap, or that of a projection on the other entries.
    """
    size = values.shape[0]
    kept = mask & (values != -jnp.inf) & broadcast(cap > 0, size)
    capped = kept & broadcast(cap < 1, size) & (answer >= broadcast(cap, size))
    return capped, kept & ~capped
