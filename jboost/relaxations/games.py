"""A restarted primal-dual method for games: the minimum over d of the maximum over w of
<d, A w> + f(d) - g(w).

This is the method of Chambolle and Pock. It uses relative entropy for the example weights, so that
their proximal map is the argmin of Figure 1 of Shalev-Shwartz and Singer 2008, and the Euclidean
norm for the votes. The step sizes adapt to the observed curvature (Malitsky and Pock 2018;
Applegate et al. 2021). The balance of the two step sizes and the restarts adapt to the certified
gap. A step computes two products with A.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost import operators
from jboost.base import check, loops, numerics, reduce
from jboost.base.types import Array
from jboost.relaxations import certify


@dataclasses.dataclass(frozen=True)
class SolverConfig:
    """Static sizes of the first-order method."""

    PUBLIC_NAME: ClassVar[str] = "jboost.relaxed_margin.SolverConfig"
    max_iterations: int = 200_000
    iterations_per_check: int = 40

    def __post_init__(self) -> None:
        check.count("config.max_iterations", self.max_iterations, low=1)
        check.count("config.iterations_per_check", self.iterations_per_check, low=1)

    @property
    def at_once(self) -> int:
        """Iterations between two tests whether the loop ends."""
        return self.iterations_per_check

    def steps_per_check(self) -> int:
        """The number of iterations between two checks of the bounds."""
        return min(self.iterations_per_check, self.max_iterations)

    def most_checks(self) -> int:
        """The largest number of checks, including that of the first point."""
        return 1 + self.max_iterations // self.steps_per_check()


class RelaxedGamePoint(NamedTuple):
    """Votes and example weights, with their products."""

    coefficients: Array  # [n]
    reached: Array  # [m] A w
    example_weights: Array  # [m]
    edges: Array  # [n] A'd


class GameBounds(NamedTuple):
    """The best votes and example weights so far, with estimates of their bounds."""

    coefficients: Array  # [n]
    lower: Array  # []
    example_weights: Array  # [m]
    upper: Array  # []


class SolveState(NamedTuple):
    """The state between two trial steps."""

    point: RelaxedGamePoint
    sums: RelaxedGamePoint  # sum of the points since the last restart, weighted by their step sizes
    total_step: Array  # [] sum of the step sizes since the last restart
    anchor: RelaxedGamePoint  # the point of the last restart
    anchor_gap: Array  # []
    last_gap: Array  # []
    step_size: Array  # []
    balance: Array  # [] square root of the example step size over the vote step size
    num_steps: Array  # [] float, number of trials
    num_since: Array  # [] float, since the last restart
    best: GameBounds
    num_checks: Array  # [] int32
    # [5] uint32, on the host, of the margins, weights, mask, relaxation and votes, in a state that
    # `on_step` receives; None in others
    checksums: Any = None


class RelaxedGame(NamedTuple):
    """The game: its matrix, f, g, and the shares of the examples."""

    margins: Any  # [m, n], 0 on padding: a matrix, or an operator with entries in [-1, 1]
    relaxation: Any
    votes: Any
    prior: Array  # [m]


def play(
    game: RelaxedGame,
    tolerance: Array,
    config: SolverConfig,
    initial: tuple[Array, Array] | None = None,
) -> tuple[GameBounds, Array]:
    """Runs until the estimated gap is below the tolerance. Returns the best votes and example
    weights, and the number of steps.
    """
    state = begin(game, initial)
    target = target_gap(tolerance.astype(game.prior.dtype))
    step = functools.partial(advance, game, config)
    last, _ = loops.bounded_loop(
        step,
        lambda now: now.best.upper - now.best.lower > target,
        state,
        max_checks=config.most_checks(),
    )
    return last.best, num_iterations(last, config)


def begin(game: RelaxedGame, initial: tuple[Array, Array] | None = None) -> SolveState:
    """The state before the first check."""
    if initial is None:
        nearest = game.relaxation.smoothed_argmin(
            jnp.zeros_like(game.prior), jnp.ones((), game.prior.dtype), game.prior
        )
        initial = (jnp.zeros((game.margins.shape[1],), game.prior.dtype), nearest)
    return begin_at(
        _complete(game, *initial), reduce.largest(_row_squares(game.margins, game.prior.dtype))
    )


def begin_at(start: RelaxedGamePoint, largest_square: Array) -> SolveState:
    """The state at a point. `largest_square` [] is an upper bound on the squared length of rows."""
    zero = jnp.zeros((), start.reached.dtype)
    first_step = lax.rsqrt(jnp.maximum(largest_square, 1.0))
    nothing, infinite = jax.tree.map(jnp.zeros_like, start), zero + jnp.inf
    best = GameBounds(start.coefficients, -infinite, start.example_weights, infinite)
    return SolveState(
        start,
        nothing,
        zero,
        start,
        infinite,
        infinite,
        first_step,
        zero + 1,
        zero,
        zero,
        best,
        jnp.zeros((), jnp.int32),
    )


def advance(game: RelaxedGame, config: SolverConfig, state: SolveState) -> SolveState:
    """Does the steps up to the next check, and the check. The first check is that of the first
    point, without steps.
    """
    num_steps = jnp.where(state.num_checks == 0, 0, config.steps_per_check())
    return check_bounds(game, loops.fori_loop(0, num_steps, lambda _, now: _step(game, now), state))


def is_open(state: SolveState, tolerance: Array, config: SolverConfig) -> Array:
    """Whether the estimated gap is above the tolerance and there are checks left, [] bool."""
    gap = state.best.upper - state.best.lower
    return (gap > target_gap(tolerance.astype(gap.dtype))) & (
        state.num_checks < config.most_checks()
    )


def target_gap(tolerance: Array) -> Array:
    """The estimated gap at which to stop. It is slightly below the tolerance, since the proven
    bounds are rounded outwards.
    """
    return 0.98 * tolerance - 8 * jnp.finfo(tolerance.dtype).eps


def num_iterations(state: SolveState, config: SolverConfig) -> Array:
    """The number of steps so far, [] int32. There is none before the first check."""
    return jnp.maximum(state.num_checks - 1, 0) * config.steps_per_check()


def _complete(game: RelaxedGame, coefficients: Array, example_weights: Array) -> RelaxedGamePoint:
    return RelaxedGamePoint(
        coefficients,
        _forward(game, coefficients),
        example_weights,
        _backward(game, example_weights),
    )


def _row_squares(margins: Any, dtype: Any) -> Array:
    """The squared length of each row, [m]. For an operator it is the sum of absolute entries, which
    is at least as large for entries in [-1, 1].
    """
    if operators.is_operator(margins):
        norms: Array = margins.row_norms(jnp.ones((margins.shape[1],), dtype))
        return norms
    return reduce.total(margins**2, axis=1)


def _forward(game: RelaxedGame, coefficients: Array) -> Array:
    if operators.is_operator(game.margins):
        reached: Array = game.margins.matvec(coefficients)
        return reached
    return numerics.product(game.margins, coefficients)


def _backward(game: RelaxedGame, example_weights: Array) -> Array:
    if operators.is_operator(game.margins):
        edges: Array = game.margins.rmatvec(example_weights)
        return edges
    return numerics.product(example_weights, game.margins)


def _step(game: RelaxedGame, state: SolveState) -> SolveState:
    """One trial step. It is accepted if it was short enough for the observed curvature."""
    coefficients = move_votes(game, state)
    reached = _forward(game, coefficients)
    example_weights = move_weights(game, state, reached)
    return accept(
        game,
        state,
        RelaxedGamePoint(coefficients, reached, example_weights, _backward(game, example_weights)),
    )


def move_votes(game: RelaxedGame, state: SolveState) -> Array:
    """The votes of the next trial, [n]; it computes no product with A."""
    vote_step = state.step_size / state.balance
    moved: Array = game.votes.proximal(
        state.point.coefficients + vote_step * state.point.edges, vote_step
    )
    return moved


def move_weights(game: RelaxedGame, state: SolveState, reached: Array) -> Array:
    """The example weights of the next trial, [m], from the margins `reached` of its votes; it
    computes no product with A.
    """
    now, example_step = state.point, state.step_size * state.balance
    tiny = jnp.finfo(game.prior.dtype).tiny
    lightest = jnp.finfo(game.prior.dtype).eps ** 1.25
    densities = jnp.maximum(now.example_weights / jnp.maximum(game.prior, tiny), lightest)
    tilted = 2 * reached - now.reached - jnp.log(densities) / example_step
    weights: Array = game.relaxation.smoothed_argmin(tilted, 1 / example_step, game.prior)
    return weights


def accept(game: RelaxedGame, state: SolveState, trial: RelaxedGamePoint) -> SolveState:
    """The state after a trial; it computes no product with A."""
    now, tiny = state.point, jnp.finfo(game.prior.dtype).tiny
    moved, shifted = (
        trial.coefficients - now.coefficients,
        trial.example_weights - now.example_weights,
    )
    heavier = jnp.maximum(jnp.maximum(trial.example_weights, now.example_weights), tiny)
    divergence = 0.5 * numerics.precise_sum(shifted * shifted / heavier)
    length = divergence / state.balance + 0.5 * state.balance * numerics.precise_sum(moved * moved)
    bend = jnp.abs(numerics.precise_sum((trial.edges - now.edges) * moved))
    limit = jnp.where(bend > 0, length / jnp.where(bend > 0, bend, 1.0), jnp.inf)
    shortest = jnp.finfo(limit.dtype).eps
    fits = (state.step_size <= limit) | (state.step_size <= shortest)
    count = state.num_steps + 1
    step_size = jnp.minimum(
        (1 - (count + 1) ** -0.3) * limit, (1 + (count + 1) ** -0.6) * state.step_size
    )
    weight = jnp.where(fits, state.step_size, 0.0)
    return state._replace(
        point=jax.tree.map(lambda new, old: jnp.where(fits, new, old), trial, now),
        sums=jax.tree.map(lambda total, new: total + weight * new, state.sums, trial),
        total_step=state.total_step + weight,
        step_size=jnp.clip(step_size, shortest, 1 / shortest),
        num_steps=count,
        num_since=state.num_since + 1,
    )


def check_bounds(game: RelaxedGame, state: SolveState) -> SolveState:
    """Estimates the bounds at the last point and at the average point. Restarts from the better of
    the two under the rules of Applegate et al. 2021.
    """
    total = jnp.where(state.total_step > 0, state.total_step, 1.0)
    average = jax.tree.map(
        lambda weighted, last: jnp.where(state.total_step > 0, weighted / total, last),
        state.sums,
        state.point,
    )
    both = jax.tree.map(lambda last, mean: jnp.stack([last, mean]), state.point, average)
    lower, upper = jax.vmap(functools.partial(_bounds, game))(both)
    best = _improve(state.best, both, lower, upper)
    last_gap, average_gap = upper - lower
    is_average = average_gap < last_gap
    better = jax.tree.map(
        lambda mean, last: jnp.where(is_average, mean, last), average, state.point
    )
    gap = jnp.minimum(average_gap, last_gap)

    has_shrunk = gap <= 0.5 * state.anchor_gap
    has_stalled = (gap <= 0.8 * state.anchor_gap) & (gap > state.last_gap)
    is_long = state.num_since >= 0.36 * state.num_steps
    restarts = has_shrunk | has_stalled | is_long
    return jax.tree.map(
        lambda fresh, same: jnp.where(restarts, fresh, same),
        _restart(state, better, gap),
        state._replace(last_gap=gap),
    )._replace(best=best, num_checks=state.num_checks + 1)


def _restart(state: SolveState, point: RelaxedGamePoint, gap: Array) -> SolveState:
    tiny = jnp.finfo(gap.dtype).tiny
    moved = jnp.sqrt(numerics.precise_sum((point.coefficients - state.anchor.coefficients) ** 2))
    heavier = jnp.maximum(jnp.maximum(point.example_weights, state.anchor.example_weights), tiny)
    shifted = jnp.sqrt(
        numerics.precise_sum((point.example_weights - state.anchor.example_weights) ** 2 / heavier)
    )
    is_known = (moved > 1e-6) & (shifted > 1e-6)
    balance = jnp.sqrt(
        jnp.where(is_known, shifted / jnp.where(is_known, moved, 1.0), state.balance)
        * state.balance
    )
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


def _bounds(game: RelaxedGame, point: RelaxedGamePoint) -> tuple[Array, Array]:
    """The lower bound of the votes of a point and the upper bound of its example weights."""
    cost = game.votes.cost_of(game.votes.allowed(point.coefficients))
    lower = certify.lower_at_cost(point.reached, cost, game.relaxation, game.prior)
    return lower, certify.upper_from_edges(
        point.edges, point.example_weights, game.relaxation, game.votes, game.prior
    )


def _improve(best: GameBounds, points: RelaxedGamePoint, lower: Array, upper: Array) -> GameBounds:
    """The best of `best` and of two points, whose arrays have a leading axis [2]."""
    rises, falls = jnp.argmax(lower), jnp.argmin(upper)
    has_risen, has_fallen = lower[rises] > best.lower, upper[falls] < best.upper
    return GameBounds(
        coefficients=jnp.where(has_risen, points.coefficients[rises], best.coefficients),
        lower=jnp.where(has_risen, lower[rises], best.lower),
        example_weights=jnp.where(has_fallen, points.example_weights[falls], best.example_weights),
        upper=jnp.where(has_fallen, upper[falls], best.upper),
    )
