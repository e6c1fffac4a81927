"""A restarted primal-dual method for games: minimise over d, maximise over w, <d, A w> + f(d) - g(w).

Chambolle and Pock's method with relative entropy on the example side, where the proximal map is the argmin of Figure 1 of paper 004, and the
Euclidean norm on the side of the votes. Steps adapt to the curvature that is met (Malitsky and Pock 2018; Applegate et al. 2021), the balance of
the two sides and the restarts to the certified gap. Work: two products with A a step.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, loops, numerics, reduce
from jboost.base.types import Array
from jboost.relaxations import certify
from jboost.relaxations.votes import norm_bound


@dataclasses.dataclass(frozen=True)
class SolverConfig:
    """Static sizes of the first-order method."""

    max_iterations: int = 200_000
    iterations_per_check: int = 40

    def __post_init__(self) -> None:
        check.count("config.max_iterations", self.max_iterations, low=1)
        check.count("config.iterations_per_check", self.iterations_per_check, low=1)


class Point(NamedTuple):
    """Votes and example weights, with their products."""

    coefficients: Array  # [n]
    reached: Array  # [m] A w
    example_weights: Array  # [m]
    edges: Array  # [n] A'd


class Bounds(NamedTuple):
    """The best that was met, in working precision: estimates until they are proven."""

    coefficients: Array  # [n]
    lower: Array  # []
    example_weights: Array  # [m]
    upper: Array  # []


class State(NamedTuple):
    """Between two checks of the gap."""

    point: Point
    sums: Point  # weighted by the steps since the last restart
    total_step: Array  # [] since the last restart
    anchor: Point  # where the last restart was
    anchor_gap: Array  # []
    last_gap: Array  # []
    step_size: Array  # []
    balance: Array  # [] step on the example side over step on the side of the votes, rooted
    num_steps: Array  # [] float, trials counted
    num_since: Array  # [] float, since the last restart
    best: Bounds
    num_checks: Array  # [] int32


class Game(NamedTuple):
    """The game and what its two sides pay."""

    margins: Array  # [m, n], 0 on padding
    relaxation: Any
    votes: Any
    prior: Array  # [m]


def play(game: Game, tolerance: Array, config: SolverConfig, initial: tuple[Array, Array] | None = None) -> tuple[Bounds, Array]:
    """Runs until the estimated gap is below the tolerance; returns the best of both sides and the number of steps."""
    state = begin(game, initial)
    target = _target(state, tolerance)
    step = functools.partial(advance, game, config)
    last, _ = loops.bounded_loop(step, lambda now: now.best.upper - now.best.lower > target, state, max_checks=_most_checks(config))
    return last.best, num_iterations(last, config)


def begin(game: Game, initial: tuple[Array, Array] | None = None) -> State:
    """The state before the first check."""
    if initial is None:
        nearest = game.relaxation.smoothed_argmin(jnp.zeros_like(game.prior), jnp.ones((), game.prior.dtype), game.prior)
        initial = (jnp.zeros((game.margins.shape[1],), game.margins.dtype), nearest)
    start = _complete(game, *initial)
    row_norms = reduce.total(game.margins**2, axis=1)
    zero = jnp.zeros((), game.margins.dtype)
    first_step = lax.rsqrt(jnp.maximum(reduce.largest(row_norms), 1.0))
    nothing, infinite = jax.tree.map(jnp.zeros_like, start), zero + jnp.inf
    best = Bounds(start.coefficients, -infinite, start.example_weights, infinite)
    return State(start, nothing, zero, start, infinite, infinite, first_step, zero + 1, zero, zero, best, jnp.zeros((), jnp.int32))


def advance(game: Game, config: SolverConfig, state: State) -> State:
    """Steps up to the next check, and the check; the first one looks at where the method starts."""
    num_steps = jnp.where(state.num_checks == 0, 0, _steps_per_check(config))
    return _check(game, loops.fori_loop(0, num_steps, lambda _, now: _step(game, now), state))


def is_open(state: State, tolerance: Array, config: SolverConfig) -> Array:
    """Whether the estimated gap is above the tolerance and there are checks left, [] bool."""
    return (state.best.upper - state.best.lower > _target(state, tolerance)) & (state.num_checks < _most_checks(config))


def _target(state: State, tolerance: Array) -> Array:
    """The gap at which the loop ends: rounding is to fit between it and the tolerance."""
    return 0.98 * tolerance - 8 * jnp.finfo(state.step_size.dtype).eps


def num_iterations(state: State, config: SolverConfig) -> Array:
    """How many steps there were, [] int32."""
    return (state.num_checks - 1) * _steps_per_check(config)


def _steps_per_check(config: SolverConfig) -> int:
    return min(config.iterations_per_check, config.max_iterations)


def _most_checks(config: SolverConfig) -> int:
    return 1 + config.max_iterations // _steps_per_check(config)


def _complete(game: Game, coefficients: Array, example_weights: Array) -> Point:
    return Point(coefficients, _forward(game, coefficients), example_weights, _backward(game, example_weights))


def _forward(game: Game, coefficients: Array) -> Array:
    return jnp.matmul(game.margins, coefficients, precision=lax.Precision.HIGHEST)


def _backward(game: Game, example_weights: Array) -> Array:
    return jnp.matmul(example_weights, game.margins, precision=lax.Precision.HIGHEST)


def _step(game: Game, state: State) -> State:
    """One trial: kept if the step was short enough for the curvature that it met."""
    now = state.point
    tiny = jnp.finfo(game.prior.dtype).tiny
    lightest = jnp.finfo(game.prior.dtype).eps ** 1.25
    vote_step, example_step = state.step_size / state.balance, state.step_size * state.balance
    coefficients = game.votes.proximal(now.coefficients + vote_step * now.edges, vote_step)
    reached = _forward(game, coefficients)
    densities = jnp.maximum(now.example_weights / jnp.maximum(game.prior, tiny), lightest)
    pull = 2 * reached - now.reached - jnp.log(densities) / example_step
    example_weights = game.relaxation.smoothed_argmin(pull, 1 / example_step, game.prior)
    trial = Point(coefficients, reached, example_weights, _backward(game, example_weights))

    moved, shifted = coefficients - now.coefficients, example_weights - now.example_weights
    heavier = jnp.maximum(jnp.maximum(example_weights, now.example_weights), tiny)
    divergence = 0.5 * numerics.precise_sum(shifted * shifted / heavier)
    length = divergence / state.balance + 0.5 * state.balance * numerics.precise_sum(moved * moved)
    bend = jnp.abs(numerics.precise_sum((trial.edges - now.edges) * moved))
    limit = jnp.where(bend > 0, length / jnp.where(bend > 0, bend, 1.0), jnp.inf)
    shortest = jnp.finfo(limit.dtype).eps
    fits = (state.step_size <= limit) | (state.step_size <= shortest)
    count = state.num_steps + 1
    step_size = jnp.minimum((1 - (count + 1) ** -0.3) * limit, (1 + (count + 1) ** -0.6) * state.step_size)
    weight = jnp.where(fits, state.step_size, 0.0)
    return state._replace(
        point=jax.tree.map(lambda new, old: jnp.where(fits, new, old), trial, now),
        sums=jax.tree.map(lambda total, new: total + weight * new, state.sums, trial),
        total_step=state.total_step + weight,
        step_size=jnp.clip(step_size, shortest, 1 / shortest),
        num_steps=count,
        num_since=state.num_since + 1,
    )


def _check(game: Game, state: State) -> State:
    """Estimates the bounds at the last point and at the average, and restarts from the better where that pays."""
    total = jnp.where(state.total_step > 0, state.total_step, 1.0)
    average = jax.tree.map(lambda weighted, last: jnp.where(state.total_step > 0, weighted / total, last), state.sums, state.point)
    both = jax.tree.map(lambda last, mean: jnp.stack([last, mean]), state.point, average)
    lower, upper = jax.vmap(functools.partial(_bounds, game))(both)
    best = _improve(state.best, both, lower, upper)
    last_gap, average_gap = upper - lower
    is_average = average_gap < last_gap
    better = jax.tree.map(lambda mean, last: jnp.where(is_average, mean, last), average, state.point)
    gap = jnp.minimum(average_gap, last_gap)

    has_shrunk = gap <= 0.5 * state.anchor_gap
    has_stalled = (gap <= 0.8 * state.anchor_gap) & (gap > state.last_gap)
    is_long = state.num_since >= 0.36 * state.num_steps
    restarts = has_shrunk | has_stalled | is_long
    return jax.tree.map(lambda fresh, same: jnp.where(restarts, fresh, same), _restart(state, better, gap), state._replace(last_gap=gap))._replace(
        best=best, num_checks=state.num_checks + 1
    )


def _restart(state: State, point: Point, gap: Array) -> State:
    tiny = jnp.finfo(gap.dtype).tiny
    moved = jnp.sqrt(numerics.precise_sum((point.coefficients - state.anchor.coefficients) ** 2))
    heavier = jnp.maximum(jnp.maximum(point.example_weights, state.anchor.example_weights), tiny)
    shifted = jnp.sqrt(numerics.precise_sum((point.example_weights - state.anchor.example_weights) ** 2 / heavier))
    is_known = (moved > 1e-6) & (shifted > 1e-6)
    balance = jnp.sqrt(jnp.where(is_known, shifted / jnp.where(is_known, moved, 1.0), state.balance) * state.balance)
    return state._replace(
        point=point,
        sums=jax.tree.map(jnp.zeros_like, state.sums),
        total_step=jnp.zeros_like(state.total_step),
        anchor=point,
        anchor_gap=gap,
        last_gap=jnp.full_like(gap, jnp.inf),
        balance=jnp.clip(balance, 1e-3, 1e4),
        num_since=jnp.zeros_like(state.num_since),
    )


def _bounds(game: Game, point: Point) -> tuple[Array, Array]:
    """What the votes of a point attain, and what its example weights allow at most."""
    norm = norm_bound(game.votes.allowed(point.coefficients))
    lower = certify.lower_from_margins(point.reached, norm, game.relaxation, game.votes, game.prior)
    edge = jnp.maximum(reduce.largest(jnp.abs(point.edges)), 0.0)
    return lower, certify.upper_from_edge(edge, point.example_weights, game.relaxation, game.votes, game.prior)


def _improve(best: Bounds, points: Point, lower: Array, upper: Array) -> Bounds:
    """The best of what is known and of two points; each array of theirs has a leading axis."""
    rises, falls = jnp.argmax(lower), jnp.argmin(upper)
    has_risen, has_fallen = lower[rises] > best.lower, upper[falls] < best.upper
    return Bounds(
        coefficients=jnp.where(has_risen, points.coefficients[rises], best.coefficients),
        lower=jnp.where(has_risen, lower[rises], best.lower),
        example_weights=jnp.where(has_fallen, points.example_weights[falls], best.example_weights),
        upper=jnp.where(has_fallen, upper[falls], best.upper),
    )
