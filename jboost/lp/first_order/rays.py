"""Rays that show that a program has no solution: the direction of the iterates since a restart
(Applegate, Diaz, Lu and Lubin 2021).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import reduce
from jboost.base.types import Array
from jboost.lp.certificate import assess
from jboost.lp.first_order.scaling import FirstOrderScaling
from jboost.lp.first_order.state import FirstOrderPoint
from jboost.lp.problem import LinearProgram


class RayImages(NamedTuple):
    """The products of the matrix with the points of a check."""

    primal: Array  # [m] of T z, in the units of the program
    dual: Array  # [n]
    primal_ray: Array  # [m] of T z - z_0, scaled to a largest entry of 1
    dual_ray: Array  # [n]
    error: Array  # [m] of the primal part of T z - z, scaled


def images_of(
    problem: LinearProgram,
    scaling: FirstOrderScaling,
    latest: FirstOrderPoint,
    ray: FirstOrderPoint,
    error: FirstOrderPoint,
) -> RayImages:
    primals = jnp.stack(
        [latest.primal, scaling.columns * ray.primal, scaling.columns * error.primal]
    )
    reached = jax.vmap(problem.operator.matvec)(primals)
    pulled = jax.vmap(problem.operator.rmatvec)(jnp.stack([latest.dual, scaling.rows * ray.dual]))
    return RayImages(
        reached[0],
        pulled[0],
        scaling.rows * reached[1],
        scaling.columns * pulled[1],
        scaling.rows * reached[2],
    )


class Rays(NamedTuple):
    """Whether the direction T z - z_0 shows that the program has no solution."""

    refutes: (
        Array  # [] bool, y is a Farkas ray: it shows that rows and bounds contradict each other
    )
    # [] bool, the objective decreases along x, and no row, bound or implied bound limits the ray
    falls: Array


def find_rays(
    scaled: LinearProgram, tight: tuple[Array, Array], ray: FirstOrderPoint, images: RayImages
) -> Rays:
    """Tests a ray of the scaled program, whose largest entries are 1.

    In the scaled program A'y is of the size of y. The error of the ray must be small relative to y
    and relative to the bound that it proves, whatever the size of the program's bounds.
    """
    tolerance = assess.ray_tolerance(ray.dual.dtype)
    earned, wrong_rows = assess.value_at_bounds(ray.dual, scaled.row_lower, scaled.row_upper)
    paid, wrong_columns = assess.value_at_bounds(-images.dual_ray, scaled.lower, scaled.upper)
    terms = scaled.objective * ray.primal
    of_rows = reduce.several(
        (reduce.SUM, earned),
        (reduce.SUM, jnp.abs(earned)),
        (reduce.LARGEST, wrong_rows),
        (reduce.LARGEST, _stopped(images.primal_ray, scaled.row_lower, scaled.row_upper)),
    )
    *of_columns, change, change_size = reduce.several(
        (reduce.SUM, paid),
        (reduce.SUM, jnp.abs(paid)),
        (reduce.LARGEST, wrong_columns),
        (reduce.LARGEST, _stopped(ray.primal, *tight)),
        (reduce.SUM, terms),
        (reduce.SUM, jnp.abs(terms)),
    )
    gain, gain_size = of_rows[0] + of_columns[0], of_rows[1] + of_columns[1]
    missed, stopped = (
        jnp.maximum(jnp.maximum(of_rows[part], of_columns[part]), 0.0) for part in (2, 3)
    )
    refutes = (
        (gain > 0)
        & (missed <= tolerance * jnp.minimum(gain, 1.0))
        & (gain >= tolerance * gain_size)
    )
    return Rays(
        refutes,
        (change < 0) & (stopped <= tolerance * -change) & (-change >= tolerance * change_size),
    )


def _stopped(ray: Array, low: Array, high: Array) -> Array:
    """The distance by which a ray leaves finite bounds."""
    return jnp.maximum(jnp.where(low > -jnp.inf, -ray, 0.0), jnp.where(high < jnp.inf, ray, 0.0))
