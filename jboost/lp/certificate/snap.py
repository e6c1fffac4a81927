"""Rounds the result of a solver to nearby simple numbers: bounds and multiples of 1/64, and rays
to whole numbers.

Vertices and duals of many programs consist of such numbers. Sums of them have no rounding error.
"""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base import numerics, reduce
from jboost.base.types import Array
from jboost.lp.problem import LinearProgram

# bytes of a float -> largest relative change: 20 times the default tolerance of `jboost.lp.solve`
_APART = {4: 2e-4, 8: 2e-7}
_PARTS = 64  # found by trial on programs whose entries are multiples of 1/4
_MOST_MULTIPLES = 1 << 18  # entries of the multiples of a ray: 1 MiB in float32


def snap(values: Array) -> Array:
    """The values [k], each rounded to the nearest multiple of 1/64 if that is close to it."""
    whole = jnp.round(values * _PARTS) / _PARTS
    return jnp.where(jnp.abs(whole - values) <= _reach(values), whole, values)


def snap_primal(problem: LinearProgram, primal: Array) -> Array:
    """The point [n] with each entry moved to a close bound, or else to a close multiple of 1/64,
    and clipped to the bounds.
    """
    reach, snapped = _reach(primal), snap(primal)
    snapped = jnp.where(jnp.abs(problem.lower - primal) <= reach, problem.lower, snapped)
    snapped = jnp.where(jnp.abs(problem.upper - primal) <= reach, problem.upper, snapped)
    return jnp.clip(snapped, problem.lower, problem.upper)


def snap_ray(ray: Array) -> Array:
    """The ray [m], rounded to a multiple that has whole numbers.

    Its largest entry becomes the least whole number with which all entries are close to whole
    numbers. A matrix of whole numbers has such rays, often of small numbers. If there is no such
    number up to 64, the largest entry becomes 1, and the ray is rounded by `snap`.
    """
    largest = jnp.max(jnp.abs(ray), initial=0.0)
    unit = ray / jnp.where((largest > 0) & (largest < jnp.inf), largest, 1.0)
    num_scales = max(1, min(_PARTS, _MOST_MULTIPLES // max(ray.shape[0], 1)))
    scales = jnp.arange(1, num_scales + 1, dtype=unit.dtype)
    multiples = scales[:, None] * unit[None, :]
    are_close = reduce.all_true(
        jnp.abs(jnp.round(multiples) - multiples) <= _reach(unit)[None, :], axis=1
    )
    scale = numerics.masked_min(scales, are_close, fill=jnp.inf)
    has_scale = scale < jnp.inf
    return jnp.where(has_scale, jnp.round(jnp.where(has_scale, scale, 1.0) * unit), snap(unit))


def _reach(values: Array) -> Array:
    return _APART[values.dtype.itemsize] * (1 + jnp.abs(values))
