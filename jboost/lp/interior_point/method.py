"""A primal-dual interior point method for dense programs of small and middle size. `vmap` solves
many programs at a time.

It is a predictor-corrector method on the homogeneous self-dual embedding (Mehrotra 1992; Xu, Hung
and Ye 1996; Andersen and Andersen 2000). `jboost.lp.interior_point.embedding` holds the equations,
`jboost.lp.interior_point.newton` the directions. Residuals and gap reach 1e-8 or less in float64,
and usually 1e-5 in float32.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost import operators
from jboost.base import brackets, check, loops, reduce
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp.certificate import assess, certify, conclude, tighten
from jboost.lp.interior_point import embedding
from jboost.lp.interior_point.embedding import (
    Embedded,
    EmbeddingImages,
    EmbeddingPoint,
    EmbeddingScaling,
    EmbeddingStart,
)
from jboost.lp.interior_point.newton import advance
from jboost.lp.problem import LinearProgram, is_valid
from jboost.lp.types import (
    History,
    LPInfo,
    LPSolution,
    ProofConfig,
    empty_history,
    record,
    validate_proof,
)

# Once rounding errors stop all progress, the best iterate counts as optimal if its error is at most
# this many times the tolerance.
_NEARLY = 2.0


@dataclasses.dataclass(frozen=True)
class InteriorPointConfig:
    """Static sizes of the interior point method."""

    max_iterations: int = 100
    num_correctors: int = 3  # besides Mehrotra's; each takes one solve and saves iterations
    scaling_rounds: int = 6
    history_length: int = 0
    proof: ProofConfig = dataclasses.field(default_factory=ProofConfig)

    def __post_init__(self) -> None:
        check.count("config.max_iterations", self.max_iterations, low=1)
        check.count("config.num_correctors", self.num_correctors, low=0)
        check.count("config.scaling_rounds", self.scaling_rounds, low=0)
        check.count("config.history_length", self.history_length, low=0)
        validate_proof(self.proof)

    @property
    def at_once(self) -> int:
        """Iterations between two checks."""
        return 1


class _InteriorPointRun(NamedTuple):
    """The data that `init` computes once for a program."""

    problem: LinearProgram  # with a dense matrix
    tight: LinearProgram  # with implied bounds
    stops: Array  # [2, n + m] bool, whether a given or an implied bound stops a ray, for each side
    embedded: Embedded
    scaling: EmbeddingScaling
    first: EmbeddingStart
    has_objective: Array  # [] bool


class InteriorPointState(NamedTuple):
    """The last iterate, and the best so far."""

    point: EmbeddingPoint
    image: EmbeddingImages  # of the point
    best: tuple[Array, Array]  # x [n] and y [m] in the units of the program
    best_error: Array  # []
    num_iterations: Array  # [] int32
    # [] int32 the number of consecutive steps that are short, or that do not reduce an error that
    # is close to the tolerance
    num_stalled: Array
    # [] bool, whether `best` is a ray along which the objective decreases. The iterations then go
    # on without an objective, to find out whether a feasible point exists.
    has_ray: Array
    history: History
    status: Array  # [] int32
    # what is computed once; None within `solve`, which keeps it outside of its loop
    run: _InteriorPointRun | None = None


def _set_up(problem: LinearProgram, config: InteriorPointConfig) -> _InteriorPointRun:
    matrix = problem.operator.to_dense()
    scaled_matrix, scaled, scaling = embedding.scale(matrix, problem, config.scaling_rounds)
    embedded = embedding.embed(scaled_matrix, scaled)
    tight = tighten.tighten(problem, config.proof.num_tightenings)
    of_columns = embedded.is_fixed[None, : matrix.shape[1]] | jnp.isfinite(
        jnp.stack([tight.lower, tight.upper])
    )
    of_rows = (embedded.is_fixed[None, :] | embedded.has_bound)[:, matrix.shape[1] :]
    stops = jnp.concatenate([of_columns, of_rows], axis=1)
    problem = problem._replace(operator=operators.dense(matrix))
    return _InteriorPointRun(
        problem,
        tight,
        stops,
        embedded,
        scaling,
        embedding.start(embedded),
        reduce.any_true(problem.objective != 0),
    )


def _unscaled(run: _InteriorPointRun, point: EmbeddingPoint, tau: Array) -> tuple[Array, Array]:
    """x [n] and y [m] in the units of the program."""
    scaling, num_columns = run.scaling, run.embedded.matrix.shape[1]
    tau = jnp.maximum(tau, jnp.finfo(tau.dtype).tiny)
    return point.primal[:num_columns] * scaling.column * (
        scaling.bound / tau
    ), point.dual * scaling.row * (scaling.objective / tau)


def _measure(run: _InteriorPointRun, point: EmbeddingPoint, has_ray: Array) -> assess.Quality:
    """The residuals and the gap of the iterate as a solution, before the repair of its rows. If a
    ray is known, they are those of the program without objective.
    """
    problem = run.problem._replace(objective=jnp.where(has_ray, 0.0, run.problem.objective))
    primal, dual = _unscaled(run, point, point.scale)
    primal, dual = (
        certify.within_bounds(problem, primal),
        certify.allowed_dual(problem, _needed(dual, run.has_objective & ~has_ray)),
    )
    return assess.assess(
        problem, assess.primal_side(problem, primal), assess.dual_side(problem, dual)
    )


def _needed(dual: Array, has_objective: Array) -> Array:
    """The dual [m], or 0 if there is no objective. Then 0 is optimal, and the dual of the iterates
    grows without limit if the feasible set has no interior.
    """
    return jnp.where(has_objective, dual, 0.0)


class _Rays(NamedTuple):
    """Whether a point of the embedding shows that the program has no solution."""

    refutes: Array  # [] bool, whether y shows that the program is infeasible
    falls: Array  # [] bool, whether the objective decreases along w without limit


def _find_ray(
    program: Embedded, stops: Array, point: EmbeddingPoint, image: EmbeddingImages, tolerance: float
) -> _Rays:
    slope = -image.columns  # (cost tau - K'y) - cost tau would be rounding noise for a small y
    is_low = slope > 0
    is_held = program.is_fixed | jnp.where(is_low, program.has_bound[0], program.has_bound[1])
    earned = jnp.where(
        is_held,
        slope * (program.level + jnp.where(is_low, program.bound[0], program.bound[1])),
        0.0,
    )
    terms = program.cost * point.primal
    outside = jnp.where(stops[0], -point.primal, 0.0), jnp.where(stops[1], point.primal, 0.0)
    missed, gained, gained_size, objective, objective_size, off = reduce.several(
        (reduce.LARGEST, jnp.where(is_held, 0.0, jnp.abs(slope))),
        (reduce.SUM, earned),
        (reduce.SUM, jnp.abs(earned)),
        (reduce.SUM, terms),
        (reduce.SUM, jnp.abs(terms)),
        (reduce.LARGEST, jnp.maximum(*outside)),
    )
    off_rows, size = reduce.several(
        (reduce.LARGEST, jnp.abs(image.rows)), (reduce.LARGEST, jnp.abs(point.dual))
    )
    missed, size, off = (
        jnp.maximum(missed, 0.0),
        jnp.maximum(size, 0.0),
        jnp.maximum(jnp.maximum(off_rows, off), 0.0),
    )
    # the relative rounding error of a sum whose terms are sums themselves
    rounding = 16 * (terms.shape[0] + 4) * jnp.finfo(terms.dtype).eps
    vanishes, fall = point.scale < point.gap_dual, -objective
    # The error is compared with `gained` and with `size`: large bounds of variables make `gained`
    # large too. If a feasible point exists, an exact ray gains nothing.
    refutes = (gained > rounding * gained_size) & (missed <= tolerance * jnp.minimum(gained, size))
    return _Rays(
        vanishes & refutes,
        vanishes & (fall > rounding * objective_size) & (off <= tolerance * fall),
    )


def init(problem: LinearProgram, *, config: InteriorPointConfig) -> InteriorPointState:
    """The state before the first iteration."""
    run = _set_up(problem, config)
    return _start(run, problem, config)._replace(run=loops.beside(run, problem))


def _start(
    run: _InteriorPointRun, problem: LinearProgram, config: InteriorPointConfig
) -> InteriorPointState:
    none, never, infinite = (
        jnp.zeros((), jnp.int32),
        jnp.zeros((), bool),
        jnp.full_like(run.first.point.scale, jnp.inf),
    )
    refuted = _refuted_by_one_row(run.problem)
    status = jnp.where(
        reduce.any_true(refuted != 0), int(Status.PRIMAL_INFEASIBLE), int(Status.UNFINISHED)
    )
    status = jnp.where(is_valid(problem), status, int(Status.INVALID_INPUT)).astype(jnp.int32)
    history = empty_history(config.history_length, infinite.dtype)
    best = jnp.zeros_like(problem.objective), refuted
    return loops.beside(
        InteriorPointState(
            run.first.point, run.first.image, best, infinite, none, none, never, history, status
        ),
        problem,
    )


def _refuted_by_one_row(problem: LinearProgram) -> Array:
    """A ray [m] that proves the program infeasible by one row without entries whose bounds exclude
    0; the ray is 0 if there is no such row.
    """
    is_bare = ~reduce.any_true(brackets.is_nonzero(problem.operator.to_dense()), axis=1)
    ray = jnp.where(problem.row_lower > 0, 1.0, jnp.where(problem.row_upper < 0, -1.0, 0.0))
    return jnp.where(is_bare, ray, 0.0).astype(problem.row_lower.dtype)


def step(
    state: InteriorPointState,
    problem: LinearProgram,
    *,
    tolerance: Array,
    config: InteriorPointConfig,
) -> tuple[InteriorPointState, LPInfo]:
    """One iteration of predictor and correctors, and the status after it. The data are those of
    the state; `problem` is not read, and is an argument as of the steps of other methods.
    """
    del problem
    return _step(_run_of(state), state, tolerance, config)


def _run_of(state: InteriorPointState) -> _InteriorPointRun:
    if state.run is None:
        raise ValueError("state has no run: pass a state as `init` or `step` returns it")
    return state.run


def _step(
    run: _InteriorPointRun, state: InteriorPointState, tolerance: Array, config: InteriorPointConfig
) -> tuple[InteriorPointState, LPInfo]:
    program = run.embedded._replace(cost=jnp.where(state.has_ray, 0.0, run.embedded.cost))
    point, length = advance(
        program,
        state.point,
        state.image,
        run.first.level_image,
        num_correctors=config.num_correctors,
    )
    image = embedding.images(program, point)
    quality = _measure(run, point, state.has_ray)
    info, error = quality.info(state.num_iterations + 1), quality.error
    rays = _find_ray(program, run.stops, point, image, assess.ray_tolerance(error.dtype))
    outcome = _outcome(state, rays, error, length, tolerance)
    next_point, next_image = loops.cond(
        outcome.falls, lambda: (run.first.point, run.first.image), lambda: (point, image)
    )
    # the tau of a ray is close to 0
    tau = jnp.where(outcome.is_infeasible | outcome.falls, 1.0, point.scale)
    best, best_error = loops.cond(
        outcome.is_best,
        lambda: (_unscaled(run, point, tau), error),
        lambda: (state.best, state.best_error),
    )
    return state._replace(
        point=next_point,
        image=next_image,
        best=best,
        best_error=best_error,
        num_iterations=info.num_iterations,
        num_stalled=outcome.num_stalled,
        has_ray=state.has_ray | outcome.falls,
        history=record(state.history, state.num_iterations, info),
        status=outcome.status,
    ), info


class _Outcome(NamedTuple):
    """What an iterate proves, and whether the iterations make progress."""

    is_infeasible: Array  # [] bool, whether it is a ray that proves the program infeasible
    falls: Array  # [] bool, whether it is the first ray along which the objective decreases
    is_best: Array  # [] bool, whether it replaces the best point
    num_stalled: Array  # [] int32
    status: Array  # [] int32


def _outcome(
    state: InteriorPointState, rays: _Rays, error: Array, length: Array, tolerance: Array
) -> _Outcome:
    """The outcome of a step of this length [] from `state`."""
    # a ray near a solution is a rounding error
    was_close = state.best_error < 10 * tolerance
    is_infeasible = rays.refutes & ~was_close
    falls = rays.falls & ~was_close & ~is_infeasible & ~state.has_ray
    is_worse = was_close & (error >= state.best_error)
    num_stalled = jnp.where((length < 1e-3) | is_worse, state.num_stalled + 1, 0).astype(jnp.int32)
    is_sound = jnp.isfinite(error) & (length > 0) & (num_stalled < 5)
    is_solved = (
        jnp.where(is_sound, error <= tolerance, state.best_error <= _NEARLY * tolerance) & ~falls
    )
    is_best = jnp.where(
        state.has_ray,
        is_infeasible,
        is_infeasible | falls | (is_sound & (error < state.best_error)),
    )
    falls, is_best = lax.optimization_barrier((falls, is_best))
    status = _status_of(state.has_ray, is_sound | falls, is_infeasible, is_solved)
    return _Outcome(is_infeasible, falls, is_best, num_stalled, status)


def _status_of(has_ray: Array, is_sound: Array, is_infeasible: Array, is_solved: Array) -> Array:
    """The status after an iterate, [] int32. If a ray is known, the program is unbounded, whether a
    feasible point is found or not.
    """
    status = jnp.where(
        is_sound,
        int(Status.UNFINISHED),
        jnp.where(has_ray, int(Status.DUAL_INFEASIBLE), int(Status.NUMERICAL_ERROR)),
    )
    status = jnp.where(
        is_solved, jnp.where(has_ray, int(Status.DUAL_INFEASIBLE), int(Status.OPTIMAL)), status
    )
    return jnp.where(is_infeasible, int(Status.PRIMAL_INFEASIBLE), status).astype(jnp.int32)


def unfinished(state: InteriorPointState) -> Array:
    """Whether another iteration is needed, [] bool."""
    return state.status == int(Status.UNFINISHED)


def finish(
    state: InteriorPointState, problem: LinearProgram, *, config: InteriorPointConfig
) -> LPSolution:
    """The solution of the best iterate, with its bounds."""
    return _finish(_run_of(state), state, problem, config)


def _finish(
    run: _InteriorPointRun,
    state: InteriorPointState,
    problem: LinearProgram,
    config: InteriorPointConfig,
) -> LPSolution:
    primal, dual = state.best
    dual = _needed(dual, run.has_objective | (state.status == int(Status.PRIMAL_INFEASIBLE)))
    used_up = jnp.where(state.has_ray, int(Status.DUAL_INFEASIBLE), int(Status.ITERATION_LIMIT))
    status = jnp.where(unfinished(state), used_up, state.status).astype(jnp.int32)
    return conclude.conclude(
        problem,
        run.tight,
        primal,
        dual,
        num_iterations=state.num_iterations,
        history=state.history,
        status=status,
        proof=config.proof,
    )


def solve(problem: LinearProgram, tolerance: Array, config: InteriorPointConfig) -> LPSolution:
    """`init`, steps until done, `finish`."""
    run = _set_up(problem, config)
    state = _start(run, problem, config)
    last, _ = loops.bounded_loop(
        lambda now: _step(run, now, tolerance, config)[0],
        unfinished,
        state,
        max_checks=config.max_iterations,
    )
    return _finish(run, last, problem, config)
