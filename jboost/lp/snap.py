"""The simple numbers next to those that a solver ends at: vertices and duals are often made of such, and sums of them are exact."""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base.types import Array
from jboost.lp.problem import LinearProgram

_APART = {4: 2e-4, 8: 2e-7}  # by bytes, relative: how far from a vertex a solver may end, 20 times its default tolerance
_PARTS = 64  # of 1


def snap(values: Array) -> Array:
    """The values [k], those that are hardly apart from a multiple of 1/64 moved there."""
    whole = jnp.round(values * _PARTS) / _PARTS
    return jnp.where(jnp.abs(whole - values) <= _reach(values), whole, values)


def snap_primal(problem: LinearProgram, primal: Array) -> Array:
    """The point [n], entries that are hardly apart from a bound or else from a multiple of 1/64 moved there; within the bounds."""
    reach, snapped = _reach(primal), snap(primal)
    snapped = jnp.where(jnp.abs(problem.lower - primal) <= reach, problem.lower, snapped)
    snapped = jnp.where(jnp.abs(problem.upper - primal) <= reach, problem.upper, snapped)
    return jnp.clip(snapped, problem.lower, problem.upper)


def snap_ray(ray: Array) -> Array:
    """The ray [m] in a length that makes its largest entry 1, snapped."""
    largest = jnp.max(jnp.abs(ray), initial=0.0)
    return snap(ray / jnp.where((largest > 0) & (largest < jnp.inf), largest, 1.0))


def _reach(values: Array) -> Array:
    return _APART[values.dtype.itemsize] * (1 + jnp.abs(values))
