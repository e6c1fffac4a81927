"""Rounds the result of a solver to nearby simple numbers: bounds and multiples of 1/64.

Vertices and duals of many programs consist of such numbers. Sums of them have no rounding error.
"""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base.types import Array
from jboost.lp.problem import LinearProgram

# bytes of a float -> largest relative change: 20 times the default tolerance of `jboost.lp.solve`
_APART = {4: 2e-4, 8: 2e-7}
_PARTS = 64  # found by trial on programs whose entries are multiples of 1/4


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
    """The ray [m], scaled so that its largest entry is 1, then rounded by `snap`."""
    largest = jnp.max(jnp.abs(ray), initial=0.0)
    return snap(ray / jnp.where((largest > 0) & (largest < jnp.inf), largest, 1.0))


def _reach(values: Array) -> Array:
    return _APART[values.dtype.itemsize] * (1 + jnp.abs(values))
