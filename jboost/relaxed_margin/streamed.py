"""`relaxed_margin.solve` for matrices whose blocks do not fit on the device together.

The method is the same. Its loop runs on the host, and every step reads the blocks twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import boosting
from jboost.base.types import Array, Dataset
from jboost.operators import Streamed
from jboost.relaxations import certify, games
from jboost.relaxations.games import (
    GameBounds,
    RelaxedGame,
    RelaxedGamePoint,
    SolverConfig,
    SolveState,
)


def play(
    margins: Streamed,
    relaxation: Any,
    votes: Any,
    prior: Array,
    tolerance: Array,
    config: SolverConfig,
    *,
    watch: Callable[[SolveState], bool],
    initial: SolveState | None,
) -> tuple[SolveState, bool]:
    """The last state, and whether `watch` ended the loop.

    A step reads all blocks twice.

    Args:
      margins: the matrix.
      relaxation: f.
      votes: g.
      prior: [m] the shares of the examples.
      tolerance: [] the gap between the bounds at which to stop.
      config: static sizes.
      watch: called after every check of the bounds but the first; False ends the loop.
      initial: a state from which to continue, or None.
    """
    game, goes_on = RelaxedGame(None, relaxation, votes, prior), True
    state = _first_check(margins, game) if initial is None else initial
    while goes_on and bool(games.is_open(state, tolerance, config)):
        for _ in range(config.steps_per_check()):
            state = _step(margins, game, state)
        state = _check(game, state)
        goes_on = watch(state)
    return state, not goes_on


def _first_check(margins: Streamed, game: RelaxedGame) -> SolveState:
    """The state after the check of the first point."""
    coefficients = jnp.zeros((margins.shape[1],), game.prior.dtype)
    weights = _first_weights(game)
    start = RelaxedGamePoint(
        coefficients, margins.matvec(coefficients), weights, margins.rmatvec(weights)
    )
    squares = margins.row_norms(jnp.ones((margins.shape[1],), game.prior.dtype))
    return _check(game, _begin(start, jnp.max(squares)))


def shapes_of_state(margins: Streamed, prior: Array) -> SolveState:
    """The shapes and dtypes of a state."""
    rows, columns = (jax.ShapeDtypeStruct((size,), prior.dtype) for size in margins.shape)
    number = jax.ShapeDtypeStruct((), prior.dtype)
    shapes: SolveState = jax.eval_shape(
        games.begin_at, RelaxedGamePoint(columns, rows, rows, columns), number
    )
    return shapes


def _step(margins: Streamed, game: RelaxedGame, state: SolveState) -> SolveState:
    coefficients = _move_votes(game, state)
    reached = margins.matvec(coefficients)
    weights = _move_weights(game, state, reached)
    return _accept(
        game, state, RelaxedGamePoint(coefficients, reached, weights, margins.rmatvec(weights))
    )


_begin = jax.jit(games.begin_at)
_check = jax.jit(games.check_bounds)
_move_votes = jax.jit(games.move_votes)
_move_weights = jax.jit(games.move_weights)
_accept = jax.jit(games.accept)


@jax.jit
def _first_weights(game: RelaxedGame) -> Array:
    nearest: Array = game.relaxation.smoothed_argmin(
        jnp.zeros_like(game.prior), jnp.ones((), game.prior.dtype), game.prior
    )
    return nearest


@jax.jit
def validate(
    rows: Dataset, relaxation: Any, votes: Any, largest: Array
) -> tuple[Array, Array, Array]:
    """Checks the input of a streamed game.

    Returns the prior [m], whether the input is valid [] bool, and whether the relaxation allows a
    distribution [] bool.
    """
    is_valid = boosting.is_valid(rows) & (largest <= 1) & relaxation.is_valid() & votes.is_valid()
    prior = boosting.initial_distribution(rows._replace(mask=rows.mask & is_valid))
    return prior, is_valid, relaxation.is_feasible(prior) | ~is_valid


def prove(
    margins: Streamed, best: GameBounds, relaxation: Any, votes: Any, prior: Array
) -> tuple[Array, Array, Array]:
    """The allowed votes [n] next to the best ones, and certified bounds of the game's value.

    The lower bound [] is attained by these votes, and no votes exceed the upper bound []. Both hold
    in exact arithmetic.
    """
    coefficients = _allowed(votes, best.coefficients)
    reached, _ = margins.bracket_matvec(coefficients)
    low, high = margins.bracket_rmatvec(best.example_weights)
    return coefficients, *_prove(
        reached, coefficients, low, high, best.example_weights, relaxation, votes, prior
    )


_allowed = jax.jit(lambda votes, coefficients: votes.allowed(coefficients))


@jax.jit
def _prove(
    reached: Array,
    coefficients: Array,
    low: Array,
    high: Array,
    weights: Array,
    relaxation: Any,
    votes: Any,
    prior: Array,
) -> tuple[Array, Array]:
    lower = certify.lower_at_cost(reached, votes.cost_of(coefficients), relaxation, prior)
    edges = certify.scaled_edge(jnp.maximum(jnp.maximum(high, -low), 0.0), weights)
    return lower, certify.upper_from_edges(edges, weights, relaxation, votes, prior)


def refuse_traced(*values: Any) -> None:
    """Raises ValueError where a value is traced, as the host must look at them between products."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values)):
        raise ValueError(
            "margins are streamed from the host, which jit and vmap cannot do: call"
            " jboost.relaxed_margin.solve outside, or pass one operator"
        )
