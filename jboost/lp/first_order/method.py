"""A first-order primal-dual method for linear programs: restarted Halpern iterations of reflected
PDHG.

With z = (x, y), T one step of PDHG (Chambolle and Pock 2011) and z_0 the anchor,
z_{k+1} = (k+1)/(k+2) (2 T z_k - z_k) + 1/(k+2) z_0 (Lu and Yang 2024, "Restarted Halpern PDHG for
linear programming"). Restarts by the fixed-point error |z - T z|_P, and a controller of the primal
weight (Lu, Peng and Yang 2025, "cuPDLPx"). Programs without a solution are detected by the change
of z since the restart, whose direction converges to a ray (Applegate, Diaz, Lu and Lubin 2021,
"Infeasibility detection with primal-dual hybrid gradient"). The method uses the matrix only in
products.

An iteration takes two products. A check takes two products with several vectors at once and two
more. The step is 0.998 times the inverse of the largest singular value. Its estimate increases at
checks, by a power iteration and by a lower bound from the moves of the iterates. Adaptive rules
take longer steps where recent moves allow them. With the reflection such steps diverge: T must not
expand in any direction, including directions in which the iterates do not move at present.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import check, loops, numerics, reduce
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp.certificate import assess, certify, conclude, tighten
from jboost.lp.first_order.scaling import Scaling, equilibrate, scale
from jboost.lp.problem import LinearProgram, is_valid
from jboost.lp.types import (
    History,
    Info,
    LPSolution,
    ProofConfig,
    empty_history,
    record,
    validate_proof,
)

# Restarts (cuPDLPx): the decreases of the fixed-point error that trigger one, and the length of an
# epoch, as a share of all iterations, that does.
_SUFFICIENT, _NECESSARY, _ARTIFICIAL = 0.2, 0.5, 0.36
_PROPORTIONAL, _INTEGRAL, _FADING = 0.5, 0.01, 0.3  # the controller of the primal weight (cuPDLPx)
# The largest primal weight in units of the scaled program; its inverse is the smallest.
_LARGEST_WEIGHT = 1e4
_SAFETY = 0.998  # the step size times the largest singular value
_POWER_ITERATIONS = 20  # power iterations for the first estimate of the largest singular value
# The repaired solution counts as optimal if its error is at most this many times the tolerance and
# the iterates met the tolerance.
_NEARLY = 4.0


@dataclasses.dataclass(frozen=True)
class FirstOrderConfig:
    """Static sizes of the first-order method."""

    max_iterations: int = 100_000
    iterations_per_check: int = 40
    scaling_rounds: int = 2  # rounds of `equilibrate`
    proof: ProofConfig = dataclasses.field(default_factory=ProofConfig)
    history_length: int = 0  # the number of checks that `History` records

    def __post_init__(self) -> None:
        check.count("config.max_iterations", self.max_iterations, low=1)
        check.count("config.iterations_per_check", self.iterations_per_check, low=1)
        check.count("config.scaling_rounds", self.scaling_rounds, low=0)
        check.count("config.history_length", self.history_length, low=0)
        validate_proof(self.proof)

    @property
    def at_once(self) -> int:
        """Iterations between two checks."""
        return min(self.iterations_per_check, self.max_iterations)


class Point(NamedTuple):
    """A primal and a dual point."""

    primal: Array  # [n]
    dual: Array  # [m]


class WarmStart(NamedTuple):
    """The first point and primal weight of a run, in the units of the program."""

    primal: Array  # [n]
    dual: Array  # [m]
    # [] the square root of the dual step over the primal step; 0 if unknown
    primal_weight: Array


class State(NamedTuple):
    """The state between checks; points are in the units of the scaled program."""

    scaling: Scaling
    # the sums of absolute terms where all entries of the scaled point are 1
    row_sizes: Array  # [m]
    column_sizes: Array  # [n]
    # [n] each, given or implied bounds of the variables, in the units of the program
    tight: tuple[Array, Array]
    point: Point  # z
    mapped: Point  # T z; z itself at a restart
    anchor: Point
    best: Point  # the point of least error so far, or the ray that was found
    best_error: Array  # []
    norm: Array  # [] a lower bound of the largest singular value
    direction: Array  # [n] approximately the right singular vector of the largest singular value
    primal_weight: Array  # []
    # [] the discounted sum over restarts of log(primal distance / dual distance)
    imbalance: Array
    anchor_error: Array  # [] fixed-point error at the anchor
    last_error: Array  # [] fixed-point error at the last check
    num_since: Array  # [] int32 iterations since the restart
    num_iterations: Array  # [] int32
    history: History
    status: Array  # [] int32


def init(problem: LinearProgram, *, config: FirstOrderConfig, initial: Any = None) -> State:
    """The state before the first iteration.

    Args:
      problem: as `jboost.lp.make_program` makes it.
      config: static.
      initial: a `WarmStart`, an `LPSolution`, or a pair of primal and dual, of this program or of
        one with fewer variables or rows at the end; None for the point of the box that is nearest
        to 0.

    Raises:
      ValueError: at trace time, if `initial` has more variables or rows than the program.
    """
    scaling = equilibrate(problem, config.scaling_rounds)
    tight = tighten.tighten(problem, config.proof.num_tightenings)
    start, weight = _first_point(problem, scaling, initial)
    zero, none = jnp.zeros((), problem.objective.dtype), jnp.zeros((), jnp.int32)
    status = jnp.where(is_valid(problem), int(Status.UNFINISHED), int(Status.INVALID_INPUT)).astype(
        jnp.int32
    )
    state = State(
        scaling=scaling,
        row_sizes=problem.operator.row_norms(scaling.columns),
        column_sizes=problem.operator.column_norms(scaling.rows),
        tight=(tight.lower, tight.upper),
        point=start,
        mapped=start,
        anchor=start,
        best=start,
        best_error=zero + jnp.inf,
        norm=zero,
        direction=numerics.spread(problem.objective.shape[0], zero.dtype),
        primal_weight=weight,
        imbalance=zero,
        anchor_error=zero + jnp.inf,
        last_error=zero + jnp.inf,
        num_since=none,
        num_iterations=none,
        history=empty_history(config.history_length, zero.dtype),
        status=status,
    )
    return loops.beside(state, problem)


def _first_point(problem: LinearProgram, scaling: Scaling, initial: Any) -> tuple[Point, Array]:
    """The first point, scaled and within its bounds, and the first primal weight."""
    one = jnp.ones((), problem.objective.dtype)
    per_column = numerics.safe_divide(scaling.bound_scale, scaling.columns)
    if initial is None:
        is_unused = problem.operator.column_norms(jnp.ones_like(problem.row_lower)) == 0
        cheapest = jnp.where(
            problem.objective > 0,
            problem.lower,
            jnp.where(problem.objective < 0, problem.upper, 0.0),
        )
        primal = jnp.where(is_unused & jnp.isfinite(cheapest), cheapest, 0.0)
        return (
            Point(
                jnp.clip(primal, problem.lower, problem.upper) * per_column,
                jnp.zeros_like(problem.row_lower),
            ),
            one,
        )
    initial = extend(
        initial, num_columns=problem.objective.shape[0], num_rows=problem.row_lower.shape[0]
    )
    primal = certify.within_bounds(
        problem, jnp.where(jnp.isfinite(initial.primal), initial.primal, 0.0)
    )
    dual = certify.allowed_dual(problem, jnp.where(jnp.isfinite(initial.dual), initial.dual, 0.0))
    point = Point(
        primal * per_column, dual * numerics.safe_divide(scaling.objective_scale, scaling.rows)
    )
    weight = (
        jnp.asarray(initial.primal_weight, one.dtype)
        * scaling.objective_scale
        / scaling.bound_scale
    )
    estimate = numerics.safe_divide(_norm(point.dual), _norm(point.primal))
    weight = jnp.where(weight > 0, weight, jnp.where(estimate > 0, estimate, 1.0))
    return point, _clamped(weight)


def warm_start(state: State) -> WarmStart:
    """The current point and primal weight, for a warm start of a similar program."""
    scaling = state.scaling
    return WarmStart(
        *_unscaled(state.best, scaling),
        state.primal_weight * scaling.bound_scale / scaling.objective_scale,
    )


def extend(initial: Any, *, num_columns: int, num_rows: int) -> WarmStart:
    """`initial` for a program that got variables and rows at its end: 0 for the new ones.

    Args:
      initial: a `WarmStart`, an `LPSolution`, or a pair of primal [n] and dual [m].
      num_columns: at least n, static.
      num_rows: at least m, static.

    Raises:
      ValueError: at trace time, if `initial` is none of these, or has more variables or rows.

    >>> import jax.numpy as jnp
    >>> from jboost.lp import first_order
    >>> new = first_order.extend(
    ...     (jnp.array([1.0]), jnp.array([2.0, 3.0])), num_columns=2, num_rows=2
    ... )
    >>> new.primal.tolist(), new.dual.tolist()
    ([1.0, 0.0], [2.0, 3.0])
    """
    is_record = isinstance(initial, (WarmStart, LPSolution))
    if not is_record and not (isinstance(initial, (tuple, list)) and len(initial) == 2):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected an LPSolution, a WarmStart, or a pair"
            " of primal [n] and dual [m]"
        )
    primal, dual = (initial.primal, initial.dual) if is_record else initial
    weight = initial.primal_weight if isinstance(initial, WarmStart) else 0.0
    return WarmStart(
        _padded("initial.primal", primal, num_columns),
        _padded("initial.dual", dual, num_rows),
        jnp.asarray(weight, float),
    )


def _padded(name: str, vector: Any, size: int) -> Array:
    vector = check.numeric(name, vector, shape=("length",), kinds="fiu").astype(
        jnp.result_type(float)
    )
    missing = size - vector.shape[0]
    if missing < 0:
        raise ValueError(
            f"{name} has length {vector.shape[0]}: expected at most {size}, as the program has"
        )
    return jnp.pad(vector, (0, missing))


def _norm(vector: Array) -> Array:
    return jnp.sqrt(reduce.total(vector * vector))


def _power_iterations(scaled: LinearProgram, direction: Array, count: Array) -> tuple[Array, Array]:
    """A lower bound of the largest singular value, and the direction for further iterations."""

    def iterate(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        direction = carry[1] / jnp.maximum(_norm(carry[1]), jnp.finfo(carry[1].dtype).tiny)
        reached = scaled.operator.matvec(direction)
        return _norm(reached), scaled.operator.rmatvec(reached)

    start = (jnp.zeros((), direction.dtype), direction)
    return loops.fori_loop(0, count, iterate, start)


def _clamped(weight: Array) -> Array:
    return jnp.clip(weight, 1 / _LARGEST_WEIGHT, _LARGEST_WEIGHT)


def _unscaled(point: Point, scaling: Scaling) -> Point:
    return Point(
        point.primal * (scaling.columns / scaling.bound_scale),
        point.dual * (scaling.rows / scaling.objective_scale),
    )


def _pdhg(scaled: LinearProgram, point: Point, primal_step: Array, dual_step: Array) -> Point:
    """T z. The dual step is the proximal map of the support function of the rows' bounds."""
    slope = scaled.objective - scaled.operator.rmatvec(point.dual)
    primal = jnp.clip(point.primal - primal_step * slope, scaled.lower, scaled.upper)
    trial = point.dual - dual_step * scaled.operator.matvec(2 * primal - point.primal)
    return Point(
        primal, trial + jnp.clip(-trial, dual_step * scaled.row_lower, dual_step * scaled.row_upper)
    )


def step(
    state: State, problem: LinearProgram, *, tolerance: Array, config: FirstOrderConfig
) -> tuple[State, Info]:
    """Runs `iterations_per_check` iterations and one check, which may restart the method."""
    scaled = scale(problem, state.scaling)
    norm, direction = _power_iterations(
        scaled, state.direction, jnp.where(state.num_iterations > 0, 1, _POWER_ITERATIONS)
    )
    norm = jnp.maximum(state.norm, norm)
    size = _SAFETY / jnp.where(norm > 0, norm, 1.0)
    count = config.at_once

    def iterate(k: Array, carry: tuple[Point, Point]) -> tuple[Point, Point]:
        share = 1 / (state.num_since + k + 1).astype(size.dtype)

        def move(old: Array, mapped: Array, first: Array) -> Array:
            reflected = mapped + (mapped - old)
            return reflected - share * (reflected - first)

        point: Point = jax.tree.map(move, *carry, state.anchor)
        return point, _pdhg(scaled, point, size / state.primal_weight, size * state.primal_weight)

    point, mapped = loops.fori_loop(0, count, iterate, (state.point, state.mapped))
    num_since, num_iterations = state.num_since + count, state.num_iterations + count
    ran = state._replace(
        point=point,
        mapped=mapped,
        norm=norm,
        direction=direction,
        num_since=num_since,
        num_iterations=num_iterations,
    )
    return _check(ran, problem, scaled, size, tolerance, config)


class _Distance(NamedTuple):
    """Norms of one part of z, primal or dual."""

    largest: Array  # [] the largest |entry| of T z
    farthest: Array  # [] the largest |entry| of T z - z_0
    length: Array  # [] |T z|
    moved: Array  # [] |T z - z_0|
    error: Array  # [] |T z - z|


class _Distances(NamedTuple):
    """The norms of both parts of z."""

    primal: _Distance
    dual: _Distance


def _measure_distance(point: Array, mapped: Array, anchor: Array) -> _Distance:
    move, error = mapped - anchor, mapped - point
    largest, farthest, *squares = reduce.several(
        (reduce.LARGEST, jnp.abs(mapped)),
        (reduce.LARGEST, jnp.abs(move)),
        (reduce.SUM, mapped * mapped),
        (reduce.SUM, move * move),
        (reduce.SUM, error * error),
    )
    return _Distance(
        jnp.maximum(largest, 0.0),
        jnp.maximum(farthest, 0.0),
        *(jnp.sqrt(square) for square in squares),
    )


class _Images(NamedTuple):
    """The products of the matrix with the points of a check."""

    primal: Array  # [m] of T z, in the units of the program
    dual: Array  # [n]
    primal_ray: Array  # [m] of T z - z_0, scaled to a largest entry of 1
    dual_ray: Array  # [n]
    error: Array  # [m] of the primal part of T z - z, scaled


def _images(
    problem: LinearProgram, scaling: Scaling, latest: Point, ray: Point, error: Point
) -> _Images:
    primals = jnp.stack(
        [latest.primal, scaling.columns * ray.primal, scaling.columns * error.primal]
    )
    reached = jax.vmap(problem.operator.matvec)(primals)
    pulled = jax.vmap(problem.operator.rmatvec)(jnp.stack([latest.dual, scaling.rows * ray.dual]))
    return _Images(
        reached[0],
        pulled[0],
        scaling.rows * reached[1],
        scaling.columns * pulled[1],
        scaling.rows * reached[2],
    )


def _check(
    state: State,
    problem: LinearProgram,
    scaled: LinearProgram,
    size: Array,
    tolerance: Array,
    config: FirstOrderConfig,
) -> tuple[State, Info]:
    """Updates status, best point and history, and restarts if that is due."""
    distances = _Distances(*map(_measure_distance, state.point, state.mapped, state.anchor))
    ray = Point(*map(_unit, state.mapped, state.anchor, distances))
    latest, error = (
        _unscaled(state.mapped, state.scaling),
        jax.tree.map(jnp.subtract, state.mapped, state.point),
    )
    images = _images(problem, state.scaling, latest, ray, error)
    info, worst = _assess(state, problem, latest, images, distances, tolerance)
    assessed = _conclude_check(
        state, ray, _find_rays(scaled, state.tight, ray, images), worst, tolerance, config
    )
    index = (state.num_iterations - 1) // config.iterations_per_check
    history = record(
        state.history, index, info.primal_residual, info.dual_residual, info.duality_gap
    )
    cross = reduce.total(error.dual * images.error)
    return _maybe_restart(assessed._replace(history=history), distances, cross, size), info


def _unit(mapped: Array, anchor: Array, distance: _Distance) -> Array:
    """T z - z_0, scaled so that its largest entry is 1."""
    return (mapped - anchor) / jnp.where(distance.farthest > 0, distance.farthest, 1.0)


def _assess(
    state: State,
    problem: LinearProgram,
    latest: Point,
    images: _Images,
    distances: _Distances,
    tolerance: Array,
) -> tuple[Info, Array]:
    """The residuals of the latest point, and its error [].

    The rounding errors are first estimated with sizes that need no product. Only if the point then
    meets the tolerance are they computed from the sizes of its own terms, by two more products.
    """
    # an upper bound: all entries are taken to be as large as the largest
    row_sizes = state.row_sizes * (distances.primal.largest / state.scaling.bound_scale)
    column_sizes = state.column_sizes * (distances.dual.largest / state.scaling.objective_scale)

    def measure(carry: tuple[Array, Info, Array]) -> tuple[Array, Info, Array]:
        number = carry[0]
        of_rows, of_columns = loops.cond(
            number > 0,
            lambda: (
                problem.operator.row_norms(jnp.abs(latest.primal)),
                problem.operator.column_norms(jnp.abs(latest.dual)),
            ),
            lambda: (row_sizes, column_sizes),
        )
        primal, dual = (
            assess.Side(latest.primal, images.primal, of_rows),
            assess.Side(latest.dual, images.dual, of_columns),
        )
        quality = assess.assess(problem, primal, dual)
        info = Info(
            state.num_iterations,
            quality.primal_residual,
            quality.dual_residual,
            quality.duality_gap,
        )
        return number + 1, info, quality.error

    def unfinished(carry: tuple[Array, Info, Array]) -> Array:
        number, _, error = carry
        return (number == 0) | ((number == 1) & (error <= tolerance))

    none = jnp.zeros_like(state.best_error)
    begun = (
        jnp.zeros_like(state.num_iterations),
        Info(state.num_iterations, none, none, none),
        none,
    )
    _, info, error = loops.while_loop(unfinished, measure, begun)
    return info, error


class _Rays(NamedTuple):
    """Whether the direction T z - z_0 shows that the program has no solution."""

    refutes: (
        Array  # [] bool, y is a Farkas ray: it shows that rows and bounds contradict each other
    )
    # [] bool, the objective decreases along x, and no row, bound or implied bound limits the ray
    falls: Array


def _find_rays(
    scaled: LinearProgram, tight: tuple[Array, Array], ray: Point, images: _Images
) -> _Rays:
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
    return _Rays(
        refutes,
        (change < 0) & (stopped <= tolerance * -change) & (-change >= tolerance * change_size),
    )


def _stopped(ray: Array, low: Array, high: Array) -> Array:
    """The distance by which a ray leaves finite bounds."""
    return jnp.maximum(jnp.where(low > -jnp.inf, -ray, 0.0), jnp.where(high < jnp.inf, ray, 0.0))


def _conclude_check(
    state: State, ray: Point, rays: _Rays, error: Array, tolerance: Array, config: FirstOrderConfig
) -> State:
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
    return state._replace(best=Point(primal, dual), best_error=best_error, status=status)


class _Epoch(NamedTuple):
    """The parts of a state that a restart changes."""

    point: Point
    anchor: Point
    primal_weight: Array  # []
    imbalance: Array  # []
    anchor_error: Array  # []
    last_error: Array  # []
    num_since: Array  # [] int32


def _maybe_restart(state: State, distances: _Distances, cross: Array, size: Array) -> State:
    """Restarts from T z if the fixed-point error |z - T z|_P has decreased enough or the epoch is
    long. `cross` is the sum of (y - T y) A (x - T x).
    """
    far, steep = distances.primal.error, distances.dual.error

    def error_in(weight: Array) -> Array:
        return jnp.sqrt(jnp.maximum((weight * far**2 + steep**2 / weight) / size + 2 * cross, 0.0))

    error = error_in(state.primal_weight)
    restarts = (
        (error <= _SUFFICIENT * state.anchor_error)
        | ((error <= _NECESSARY * state.anchor_error) & (error > state.last_error))
        | (
            state.num_since.astype(error.dtype)
            >= _ARTIFICIAL * state.num_iterations.astype(error.dtype)
        )
    )

    def restart() -> _Epoch:
        weight, imbalance = _rebalance(state, distances)
        nothing, infinite = jnp.zeros_like(state.num_since), jnp.full_like(error, jnp.inf)
        return _Epoch(
            state.mapped, state.mapped, weight, imbalance, error_in(weight), infinite, nothing
        )

    def go_on() -> _Epoch:
        return _Epoch(
            state.point,
            state.anchor,
            state.primal_weight,
            state.imbalance,
            state.anchor_error,
            error,
            state.num_since,
        )

    epoch: _Epoch = loops.cond(restarts, restart, go_on)
    met = jnp.abs(cross) / jnp.maximum(far * steep, jnp.finfo(far.dtype).tiny)
    return state._replace(norm=jnp.maximum(state.norm, jnp.minimum(met, 1.0)), **epoch._asdict())


def _rebalance(state: State, distances: _Distances) -> tuple[Array, Array]:
    """The primal weight and the imbalance after a restart. The controller balances the distances
    that the primal and the dual move between restarts.
    """
    moved, shifted = distances.primal.moved, distances.dual.moved
    tiny = jnp.finfo(moved.dtype).eps * (1 + distances.primal.length + distances.dual.length)
    is_known = (moved > tiny) & (shifted > tiny)
    excess = jnp.log(
        jnp.where(is_known, state.primal_weight * moved / jnp.where(is_known, shifted, 1.0), 1.0)
    )
    imbalance = _FADING * state.imbalance + excess
    change = _PROPORTIONAL * excess + _INTEGRAL * imbalance
    return (
        jnp.where(is_known, _clamped(state.primal_weight * jnp.exp(-change)), state.primal_weight),
        imbalance,
    )


def unfinished(state: State) -> Array:
    """Whether another iteration is needed, [] bool."""
    return state.status == int(Status.UNFINISHED)


def finish(
    state: State, problem: LinearProgram, *, tolerance: Array, config: FirstOrderConfig
) -> LPSolution:
    """The solution at the best point, with its bounds."""
    point = _unscaled(state.best, state.scaling)
    status = jnp.where(unfinished(state), int(Status.ITERATION_LIMIT), state.status).astype(
        jnp.int32
    )
    solution = conclude.conclude(
        problem,
        problem._replace(lower=state.tight[0], upper=state.tight[1]),
        *point,
        num_iterations=state.num_iterations,
        history=state.history,
        status=status,
        proof=config.proof,
    )
    is_spoiled = (status == int(Status.OPTIMAL)) & ~(solution.error <= _NEARLY * tolerance)
    return solution._replace(
        status=jnp.where(is_spoiled, int(Status.NUMERICAL_ERROR), solution.status).astype(jnp.int32)
    )


def run(
    problem: LinearProgram, tolerance: Array, config: FirstOrderConfig, initial: Any = None
) -> State:
    """`init`, and steps until done."""
    state = init(problem, config=config, initial=initial)
    max_checks = config.max_iterations // config.at_once
    last, _ = loops.bounded_loop(
        lambda now: step(now, problem, tolerance=tolerance, config=config)[0],
        unfinished,
        state,
        max_checks=max_checks,
    )
    return last


def solve(
    problem: LinearProgram, tolerance: Array, config: FirstOrderConfig, initial: Any = None
) -> LPSolution:
    """`init`, steps until done, `finish`."""
    return finish(
        run(problem, tolerance, config, initial), problem, tolerance=tolerance, config=config
    )
