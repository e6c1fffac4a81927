"""A first-order primal-dual method for linear programs: restarted Halpern iterations of reflected PDHG.

With z = (x, y), T one step of PDHG (Chambolle and Pock 2011) and z_0 the anchor, z_{k+1} = (k+1)/(k+2) (2 T z_k - z_k) + 1/(k+2) z_0 (Lu and Yang
2024, "Restarted Halpern PDHG for linear programming"). Restarts by the fixed-point error |z - T z|_P, and a controller of the primal weight (Lu,
Peng and Yang 2025, "cuPDLPx"). Programs without solution are told by the way that z has gone since the restart, whose direction converges to a ray
(Applegate, Diaz, Lu and Lubin 2021, "Infeasibility detection with primal-dual hybrid gradient"). The method meets the matrix in products only.

Work: two products an iteration, and seven more at a check. The step is .998 of the inverse of the largest singular value, whose estimate rises at
checks by a power iteration and by what the moves themselves show. Longer steps where the moves since a restart would allow them, as adaptive rules
take, blow up in the reflection: T must not expand in any direction, those included in which the iterates do not move at present.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import check, loops, numerics
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp import assess, certify, conclude, polish, tighten
from jboost.lp.problem import LinearProgram, is_valid
from jboost.lp.scaling import Scaling, equilibrate, scale
from jboost.lp.types import NO_PROOF, History, Info, LPSolution, ProofConfig, empty_history, judge_proof, record

_SUFFICIENT, _NECESSARY, _ARTIFICIAL = 0.2, 0.5, 0.36  # restarts: falls of the fixed-point error, length of an epoch
_PROPORTIONAL, _INTEGRAL, _FADING = 0.5, 0.01, 0.3  # the controller of the primal weight
_LARGEST_WEIGHT = 1e4  # and its inverse the smallest, in units of the scaled program
_SAFETY = 0.998  # step size times norm
_POWER_ITERATIONS = 20
_NEARLY = 4.0  # times the tolerance, of the error of a solution whose iterates met it


@dataclasses.dataclass(frozen=True)
class FirstOrderConfig:
    """Static sizes of the first-order method."""

    max_iterations: int = 100_000
    iterations_per_check: int = 40
    scaling_rounds: int = 2
    polish_iterations: int = 0  # of feasibility polishing after the solve, for either side
    proof: ProofConfig = dataclasses.field(default_factory=ProofConfig)
    history_length: int = 0

    def __post_init__(self) -> None:
        check.count("config.max_iterations", self.max_iterations, low=1)
        check.count("config.iterations_per_check", self.iterations_per_check, low=1)
        check.count("config.scaling_rounds", self.scaling_rounds, low=0)
        check.count("config.polish_iterations", self.polish_iterations, low=0)
        check.count("config.history_length", self.history_length, low=0)
        judge_proof(self.proof)

    @property
    def at_once(self) -> int:
        """Iterations between two checks."""
        return min(self.iterations_per_check, self.max_iterations)


class Point(NamedTuple):
    """A primal and a dual point."""

    primal: Array  # [n]
    dual: Array  # [m]


class WarmStart(NamedTuple):
    """Where to begin, in the units of the program."""

    primal: Array  # [n]
    dual: Array  # [m]
    primal_weight: Array  # [] step of the dual over step of the primal, rooted; 0 where it is not known


class State(NamedTuple):
    """What the next iterations need; points in the units of the scaled program."""

    scaling: Scaling
    row_sizes: Array  # [m] of the terms of a row where all scaled variables are 1
    column_sizes: Array  # [n] of the terms of a column where all scaled multipliers are 1
    tight: tuple[Array, Array]  # [n] each, bounds of the variables, in the units of the program: their own or those that rows imply
    point: Point
    anchor: Point
    best: Point  # least error so far, or the ray that was found
    best_error: Array  # []
    norm: Array  # [] the largest singular value, from below
    direction: Array  # [n] of the largest singular value, nearly
    primal_weight: Array  # []
    imbalance: Array  # [] faded sum of log primal move over dual move, at restarts
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
      initial: a `WarmStart`, an `LPSolution`, or a pair of primal and dual, of this program or of one with fewer variables or rows at the end;
        None for the point of the box that is nearest to 0.

    Raises:
      ValueError: at trace time, if `initial` has more variables or rows than the program.
    """
    scaling = equilibrate(problem, config.scaling_rounds)
    scaled, tight = scale(problem, scaling), tighten.tighten(problem, config.proof.num_tightenings)
    start, weight = _first_point(problem, scaled, scaling, initial)
    norm, direction = _power_iterations(scaled, numerics.spread(scaled.objective.shape[0], scaled.objective.dtype), _POWER_ITERATIONS)
    zero, none = jnp.zeros((), norm.dtype), jnp.zeros((), jnp.int32)
    status = jnp.where(is_valid(problem), int(Status.UNFINISHED), int(Status.INVALID_INPUT)).astype(jnp.int32)
    state = State(
        scaling=scaling,
        row_sizes=problem.operator.row_norms(scaling.columns),
        column_sizes=problem.operator.column_norms(scaling.rows),
        tight=(tight.lower, tight.upper),
        point=start,
        anchor=start,
        best=start,
        best_error=zero + jnp.inf,
        norm=norm,
        direction=direction,
        primal_weight=weight,
        imbalance=zero,
        anchor_error=zero + jnp.inf,
        last_error=zero + jnp.inf,
        num_since=none,
        num_iterations=none,
        history=empty_history(config.history_length, norm.dtype),
        status=status,
    )
    return loops.beside(state, problem)


def _first_point(problem: LinearProgram, scaled: LinearProgram, scaling: Scaling, initial: Any) -> tuple[Point, Array]:
    """The first point, scaled and within its bounds, and the primal weight to begin with."""
    one = jnp.ones((), problem.objective.dtype)
    per_column = numerics.safe_divide(scaling.bound_scale, scaling.columns)
    if initial is None:
        is_unused = problem.operator.column_norms(jnp.ones_like(problem.row_lower)) == 0
        cheapest = jnp.where(problem.objective > 0, problem.lower, jnp.where(problem.objective < 0, problem.upper, 0.0))
        primal = jnp.where(is_unused & jnp.isfinite(cheapest), cheapest, 0.0)
        return Point(jnp.clip(primal, problem.lower, problem.upper) * per_column, jnp.zeros_like(problem.row_lower)), one
    initial = extend(initial, num_columns=problem.objective.shape[0], num_rows=problem.row_lower.shape[0])
    primal = certify.within_bounds(problem, jnp.where(jnp.isfinite(initial.primal), initial.primal, 0.0))
    dual = certify.allowed_dual(problem, jnp.where(jnp.isfinite(initial.dual), initial.dual, 0.0))
    point = Point(primal * per_column, dual * numerics.safe_divide(scaling.objective_scale, scaling.rows))
    weight = jnp.asarray(initial.primal_weight, one.dtype) * scaling.objective_scale / scaling.bound_scale
    estimate = numerics.safe_divide(_norm(point.dual), _norm(point.primal))
    weight = jnp.where(weight > 0, weight, jnp.where(estimate > 0, estimate, 1.0))
    return point, _clamped(weight)


def warm_start(state: State) -> WarmStart:
    """Where the state stands, to begin with on a program like it."""
    scaling = state.scaling
    return WarmStart(*_unscaled(state.best, scaling), state.primal_weight * scaling.bound_scale / scaling.objective_scale)


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
    >>> new = first_order.extend((jnp.array([1.0]), jnp.array([2.0, 3.0])), num_columns=2, num_rows=2)
    >>> new.primal.tolist(), new.dual.tolist()
    ([1.0, 0.0], [2.0, 3.0])
    """
    is_record = isinstance(initial, (WarmStart, LPSolution))
    if not is_record and not (isinstance(initial, (tuple, list)) and len(initial) == 2):
        raise ValueError(f"initial is a {type(initial).__name__}: an LPSolution, a WarmStart, or a pair of primal [n] and dual [m] is wanted")
    primal, dual = (initial.primal, initial.dual) if is_record else initial
    weight = initial.primal_weight if isinstance(initial, WarmStart) else 0.0
    return WarmStart(_padded("initial.primal", primal, num_columns), _padded("initial.dual", dual, num_rows), jnp.asarray(weight, float))


def _padded(name: str, vector: Any, size: int) -> Array:
    vector = check.numeric(name, vector, shape=("length",), kinds="fiu").astype(jnp.result_type(float))
    missing = size - vector.shape[0]
    if missing < 0:
        raise ValueError(f"{name} has length {vector.shape[0]}: at most {size}, as the program has, is wanted")
    return jnp.pad(vector, (0, missing))


def _norm(vector: Array) -> Array:
    return jnp.sqrt(jnp.sum(vector * vector))


def _power_iterations(scaled: LinearProgram, direction: Array, count: int) -> tuple[Array, Array]:
    """A lower bound on the largest singular value, and the direction that gives the next."""

    def iterate(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        direction = carry[1] / jnp.maximum(_norm(carry[1]), jnp.finfo(carry[1].dtype).tiny)
        reached = scaled.operator.matvec(direction)
        return _norm(reached), scaled.operator.rmatvec(reached)

    start = (jnp.zeros((), direction.dtype), direction)
    return loops.fori_loop(0, count, iterate, start)


def _clamped(weight: Array) -> Array:
    return jnp.clip(weight, 1 / _LARGEST_WEIGHT, _LARGEST_WEIGHT)


def _unscaled(point: Point, scaling: Scaling) -> Point:
    return Point(point.primal * (scaling.columns / scaling.bound_scale), point.dual * (scaling.rows / scaling.objective_scale))


def _pdhg(scaled: LinearProgram, point: Point, primal_step: Array, dual_step: Array) -> tuple[Point, Point]:
    """T z, and T z - z. The dual step is the proximal map of the support function of the rows' bounds."""
    slope = scaled.objective - scaled.operator.rmatvec(point.dual)
    primal = jnp.clip(point.primal - primal_step * slope, scaled.lower, scaled.upper)
    trial = point.dual - dual_step * scaled.operator.matvec(2 * primal - point.primal)
    dual = trial + jnp.clip(-trial, dual_step * scaled.row_lower, dual_step * scaled.row_upper)
    return Point(primal, dual), Point(primal - point.primal, dual - point.dual)


def step(state: State, problem: LinearProgram, *, tolerance: Array, config: FirstOrderConfig) -> tuple[State, Info]:
    """`iterations_per_check` iterations, the verdict on where they led, and a restart where it pays."""
    scaled = scale(problem, state.scaling)
    size = _SAFETY / jnp.where(state.norm > 0, state.norm, 1.0)
    count = config.at_once

    def iterate(k: Array, carry: tuple[Point, Point, Point]) -> tuple[Point, Point, Point]:
        mapped, move = _pdhg(scaled, carry[0], size / state.primal_weight, size * state.primal_weight)
        share = 1 / (state.num_since + k + 2).astype(size.dtype)
        return jax.tree.map(lambda new, moved, old: new + moved - share * (new + moved - old), mapped, move, state.anchor), mapped, move

    point, latest, move = loops.fori_loop(0, count, iterate, (state.point, state.point, state.point))
    ran = state._replace(point=point, num_since=state.num_since + count, num_iterations=state.num_iterations + count)
    judged, info = _judge(ran, problem, scaled, latest, tolerance, config)
    return _maybe_restart(judged, scaled, latest, move, size), info


def _judge(
    state: State, problem: LinearProgram, scaled: LinearProgram, latest: Point, tolerance: Array, config: FirstOrderConfig
) -> tuple[State, Info]:
    """Status, best point and history after a check."""
    quality = assess.assess(problem, *_sides(state, problem, latest))
    error = loops.cond(quality.error <= tolerance, lambda: _exact_error(problem, _unscaled(latest, state.scaling)), lambda: quality.error)
    ray = jax.tree.map(lambda new, old: _unit(new - old), latest, state.anchor)
    refutes = _dual_ray(scaled, ray.dual, scaled.operator.rmatvec(ray.dual))
    falls = _primal_ray(scaled, state.tight, ray.primal, scaled.operator.matvec(ray.primal))
    finds_ray = refutes | falls
    is_better = error < state.best_error
    best = Point(
        jnp.where(falls, ray.primal, jnp.where(is_better, latest.primal, state.best.primal)),
        jnp.where(refutes, ray.dual, jnp.where(is_better, latest.dual, state.best.dual)),
    )
    more = state.num_iterations + config.at_once <= config.max_iterations
    status = jnp.where(more, int(Status.UNFINISHED), int(Status.ITERATION_LIMIT))
    status = jnp.where(error <= tolerance, int(Status.OPTIMAL), status)
    status = jnp.where(falls, int(Status.DUAL_INFEASIBLE), status)
    status = jnp.where(refutes, int(Status.PRIMAL_INFEASIBLE), status)
    status = jnp.where(jnp.isfinite(error), status, int(Status.NUMERICAL_ERROR)).astype(jnp.int32)
    info = Info(state.num_iterations, quality.primal_residual, quality.dual_residual, quality.duality_gap)
    index = (state.num_iterations - 1) // config.iterations_per_check
    history = record(state.history, index, info.primal_residual, info.dual_residual, info.duality_gap)
    best_error = jnp.where(is_better | finds_ray, error, state.best_error)
    return state._replace(best=best, best_error=best_error, history=history, status=status), info


def _sides(state: State, problem: LinearProgram, scaled: Point) -> tuple[assess.Side, assess.Side]:
    """Of a scaled point; two products, as the sizes of terms are those of a point all of whose entries are as large as the largest."""
    largest = jax.tree.map(lambda part: jnp.max(jnp.abs(part), initial=0.0), scaled)
    point = _unscaled(scaled, state.scaling)
    row_sizes = state.row_sizes * (largest.primal / state.scaling.bound_scale)
    column_sizes = state.column_sizes * (largest.dual / state.scaling.objective_scale)
    return (
        assess.Side(point.primal, problem.operator.matvec(point.primal), row_sizes),
        assess.Side(point.dual, problem.operator.rmatvec(point.dual), column_sizes),
    )


def _exact_error(problem: LinearProgram, point: Point) -> Array:
    return assess.assess(problem, assess.primal_side(problem, point.primal), assess.dual_side(problem, point.dual)).error


def _unit(vector: Array) -> Array:
    size = jnp.max(jnp.abs(vector), initial=0.0)
    return vector / jnp.where(size > 0, size, 1.0)


def _dual_ray(scaled: LinearProgram, ray: Array, pulled: Array) -> Array:
    """Whether y, whose largest entry is 1, shows that rows and bounds contradict each other: y earns on them what A'y cannot pay, [] bool.

    The sums A'y are of the size of y in a scaled program: what is missed is small beside it, and beside what is gained on bounds of any size.
    """
    earned, wrong_rows = assess.lean(ray, scaled.row_lower, scaled.row_upper)
    paid, wrong_columns = assess.lean(-pulled, scaled.lower, scaled.upper)
    missed = jnp.max(jnp.concatenate([wrong_rows, wrong_columns]), initial=0.0)
    gain, size = jnp.sum(earned) + jnp.sum(paid), jnp.sum(jnp.abs(earned)) + jnp.sum(jnp.abs(paid))
    tolerance = assess.ray_tolerance(ray.dtype)
    return (gain > 0) & (missed <= tolerance * jnp.minimum(gain, 1.0)) & (gain >= tolerance * size)


def _primal_ray(scaled: LinearProgram, tight: tuple[Array, Array], ray: Array, reached: Array) -> Array:
    """Whether the objective falls along x, which no row and no bound stops, be it one that rows imply, [] bool."""
    missed = jnp.maximum(_stopped(reached, scaled.row_lower, scaled.row_upper), _stopped(ray, *tight))
    terms = scaled.objective * ray
    gain, size = -jnp.sum(terms), jnp.sum(jnp.abs(terms))
    tolerance = assess.ray_tolerance(ray.dtype)
    return (gain > 0) & (missed <= tolerance * gain) & (gain >= tolerance * size)


def _stopped(ray: Array, low: Array, high: Array) -> Array:
    down, up = jnp.where(low > -jnp.inf, -ray, 0.0), jnp.where(high < jnp.inf, ray, 0.0)
    return jnp.max(jnp.maximum(down, up), initial=0.0)


def _maybe_restart(state: State, scaled: LinearProgram, latest: Point, move: Point, size: Array) -> State:
    """From the latest point, where the fixed-point error |z - T z|_P has fallen enough or the epoch is long."""
    far, steep = _norm(move.primal), _norm(move.dual)
    cross = jnp.sum(move.dual * scaled.operator.matvec(move.primal))

    def error_in(weight: Array) -> Array:
        return jnp.sqrt(jnp.maximum((weight * far**2 + steep**2 / weight) / size + 2 * cross, 0.0))

    error = error_in(state.primal_weight)
    restarts = (
        (error <= _SUFFICIENT * state.anchor_error)
        | ((error <= _NECESSARY * state.anchor_error) & (error > state.last_error))
        | (state.num_since.astype(error.dtype) >= _ARTIFICIAL * state.num_iterations.astype(error.dtype))
    )
    weight, imbalance = _rebalance(state, latest)
    weight = jnp.where(restarts, weight, state.primal_weight)
    met = jnp.abs(cross) / jnp.maximum(far * steep, jnp.finfo(far.dtype).tiny)
    norm, direction = _power_iterations(scaled, state.direction, 1)

    def start_at_latest(old: Point) -> Point:
        return jax.tree.map(lambda new, same: jnp.where(restarts, new, same), latest, old)

    return state._replace(
        point=start_at_latest(state.point),
        anchor=start_at_latest(state.anchor),
        norm=jnp.maximum(state.norm, jnp.maximum(norm, jnp.minimum(met, 1.0))),
        direction=direction,
        primal_weight=weight,
        imbalance=jnp.where(restarts, imbalance, state.imbalance),
        anchor_error=jnp.where(restarts, error_in(weight), state.anchor_error),
        last_error=jnp.where(restarts, jnp.inf, error),
        num_since=jnp.where(restarts, 0, state.num_since),
    )


def _rebalance(state: State, latest: Point) -> tuple[Array, Array]:
    """The primal weight after a restart: it moves so that primal and dual have gone equally far since the last one."""
    moved, shifted = _norm(latest.primal - state.anchor.primal), _norm(latest.dual - state.anchor.dual)
    tiny = jnp.finfo(moved.dtype).eps * (1 + _norm(latest.primal) + _norm(latest.dual))
    is_known = (moved > tiny) & (shifted > tiny)
    excess = jnp.log(jnp.where(is_known, state.primal_weight * moved / jnp.where(is_known, shifted, 1.0), 1.0))
    imbalance = _FADING * state.imbalance + excess
    change = _PROPORTIONAL * excess + _INTEGRAL * imbalance
    return jnp.where(is_known, _clamped(state.primal_weight * jnp.exp(-change)), state.primal_weight), imbalance


def unfinished(state: State) -> Array:
    """Whether there is an iteration to come, [] bool."""
    return state.status == int(Status.UNFINISHED)


def finish(state: State, problem: LinearProgram, *, tolerance: Array, config: FirstOrderConfig) -> LPSolution:
    """The solution that the best point makes, polished if the config says so, with its bounds."""
    point = _unscaled(state.best, state.scaling)
    status = jnp.where(unfinished(state), int(Status.ITERATION_LIMIT), state.status).astype(jnp.int32)
    if config.polish_iterations > 0:
        is_point = (status == int(Status.OPTIMAL)) | (status == int(Status.ITERATION_LIMIT))
        polished = _polished(problem, point, tolerance, config)
        point = jax.tree.map(lambda new, old: jnp.where(is_point, new, old), polished, point)
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
    return solution._replace(status=jnp.where(is_spoiled, int(Status.NUMERICAL_ERROR), solution.status).astype(jnp.int32))


def _polished(problem: LinearProgram, point: Point, tolerance: Array, config: FirstOrderConfig) -> Point:
    brief = dataclasses.replace(config, max_iterations=config.polish_iterations, polish_iterations=0, history_length=0, proof=NO_PROOF)

    def search(side: LinearProgram, primal: Array, dual: Array, target: Array) -> tuple[Array, Array]:
        last = run(side, target, brief, (primal, dual))
        return tuple(_unscaled(last.best, last.scaling))

    return Point(*polish.polish(problem, point.primal, point.dual, tolerance, search))


def run(problem: LinearProgram, tolerance: Array, config: FirstOrderConfig, initial: Any = None) -> State:
    """`init`, and steps until done."""
    state = init(problem, config=config, initial=initial)
    max_checks = config.max_iterations // config.at_once
    last, _ = loops.bounded_loop(lambda now: step(now, problem, tolerance=tolerance, config=config)[0], unfinished, state, max_checks=max_checks)
    return last


def solve(problem: LinearProgram, tolerance: Array, config: FirstOrderConfig, initial: Any = None) -> LPSolution:
    """`init`, steps until done, `finish`."""
    return finish(run(problem, tolerance, config, initial), problem, tolerance=tolerance, config=config)
