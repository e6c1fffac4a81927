"""The check after some iterations: residuals, rays, status and restarts."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jboost.base import loops, reduce
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp.certificate import assess
from jboost.lp.first_order.rays import RayImages, Rays, find_rays, images_of
from jboost.lp.first_order.restarts import Distance, Distances, maybe_restart, measure_distance
from jboost.lp.first_order.state import FirstOrderConfig, FirstOrderPoint, FirstOrderState, unscaled
from jboost.lp.problem import LinearProgram
from jboost.lp.types import LPInfo, record


def check_progress(
    state: FirstOrderState,
    problem: LinearProgram,
    scaled: LinearProgram,
    size: Array,
    tolerance: Array,
    config: FirstOrderConfig,
) -> tuple[FirstOrderState, LPInfo]:
    """Updates status, best point and history, and restarts if that is due."""
    distances = Distances(*map(measure_distance, state.point, state.mapped, state.anchor))
    ray = FirstOrderPoint(*map(_unit, state.mapped, state.anchor, distances))
    latest, error = (
        unscaled(state.mapped, state.scaling),
        jax.tree.map(jnp.subtract, state.mapped, state.point),
    )
    images = images_of(problem, state.scaling, latest, ray, error)
    info, worst = _assess(state, problem, latest, images, distances, tolerance)
    assessed = _conclude_check(
        state, ray, find_rays(scaled, state.tight, ray, images), worst, tolerance, config
    )
    index = (state.num_iterations - 1) // config.iterations_per_check
    history = record(state.history, index, info)
    cross = reduce.total(error.dual * images.error)
    return maybe_restart(assessed._replace(history=history), distances, cross, size), info


def _unit(mapped: Array, anchor: Array, distance: Distance) -> Array:
    """T z - z_0, scaled so that its largest entry is 1."""
    return (mapped - anchor) / jnp.where(distance.farthest > 0, distance.farthest, 1.0)


def _assess(
    state: FirstOrderState,
    problem: LinearProgram,
    latest: FirstOrderPoint,
    images: RayImages,
    distances: Distances,
    tolerance: Array,
) -> tuple[LPInfo, Array]:
    """The residuals of the latest point, and its error [].

    The rounding errors are first estimated with sizes that need no product. Only if the point then
    meets the tolerance are they computed from the sizes of its own terms, by two more products.
    """
    # an upper bound: all entries are taken to be as large as the largest
    row_sizes = state.row_sizes * (distances.primal.largest / state.scaling.bound_scale)
    column_sizes = state.column_sizes * (distances.dual.largest / state.scaling.objective_scale)

    def measure(carry: tuple[Array, LPInfo, Array]) -> tuple[Array, LPInfo, Array]:
        number = carry[0]
        of_rows, of_columns = loops.cond(
            number > 0,
            lambda: (
                problem.operator.row_norms(jnp.abs(latest.primal)),
                problem.operator.column_norms(jnp.abs(latest.dual)),
            ),
            lambda: (row_sizes, column_sizes),
        )
        primal = assess.AssessedPoint(latest.primal, images.primal, of_rows)
        dual = assess.AssessedPoint(latest.dual, images.dual, of_columns)
        quality = assess.assess(problem, primal, dual)
        return number + 1, quality.info(state.num_iterations), quality.error

    def unfinished(carry: tuple[Array, LPInfo, Array]) -> Array:
        number, _, error = carry
        return (number == 0) | ((number == 1) & (error <= tolerance))

    none = jnp.zeros_like(state.best_error)
    begun = (
        jnp.zeros_like(state.num_iterations),
        LPInfo(state.num_iterations, none, none, none),
        none,
    )
    _, info, error = loops.while_loop(unfinished, measure, begun)
    return info, error


def _conclude_check(
    state: FirstOrderState,
    ray: FirstOrderPoint,
    rays: Rays,
    error: Array,
    tolerance: Array,
    config: FirstOrderConfig,
) -> FirstOrderState:
    """Status and best point after a check."""
    is_better = error < state.best_error
    better = loops.cond(is_better, lambda: state.mapped, lambda: state.best)
    primal = loops.cond(rays.falls, lambda: ray.primal, lambda: better.primal)
    dual = loops.cond(rays.refutes, lambda: ray.dual, lambda: better.dual)
    more = state.num_iterations + config.at_once <= config.max_iterations
    status = jnp.where(more, int(Status.UNFINISHED), int(Status.ITERATION_LIMIT))
    status = jnp.where(error <= tolerance, int(Status.OPTIMAL), status)
    status = jnp.where(rays.falls, int(Status.DUAL_INFEASIBLE), status)
    status = jnp.where(rays.refutes, int(Status.PRIMAL_INFEASIBLE), status)
    status = jnp.where(jnp.isfinite(error), status, int(Status.NUMERICAL_ERROR)).astype(jnp.int32)
    best_error = jnp.where(is_better | rays.falls | rays.refutes, error, state.best_error)
    return state._replace(best=FirstOrderPoint(primal, dual), best_error=best_error, status=status)
