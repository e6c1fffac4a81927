"""Rounding of a solver's result to simple numbers close by: bounds, and multiples of 1/64.

Vertices and duals of many programs consist of such numbers, and a sum of them has no rounding
error.
"""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base.types import Array
from jboost.lp.problem import LinearProgram

# bytes of a float -> largest relative change: 20 times the default tolerance of `jboost.lp.solve`
_APART = {4: 2e-4, 8: 2e-7}
_PARTS = 64  # found by trial on programs with entries in quarters


def snap(values: Array) -> Array:
    """The values [k], each rounded to the nearest multiple of 1/64 where that changes
    it by little.
    """
    whole = jnp.round(values * _PARTS) / _PARTS
    return jnp.where(jnp.abs(whole - values) <= _reach(values), whole, values)


def snap_primal(problem: LinearProgram, primal: Array) -> Array:
    """The point [n], each entry moved to a bound or else to a multiple of 1/64 where that changes
    it by little; within the bounds.
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
