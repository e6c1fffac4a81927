"""Updates of the votes after a column is added: the four methods of `fit`.

"analytic" is Figure 1 of Shalev-Shwartz and Singer (2008). "line_search" and "pairwise" are those
of Mitsuboshi, Hatano and Takimoto (2022). "fully_corrective" is that of Warmuth, Glocer and
Vishwanathan (2008). All but the last move along one direction in the smoothed game, the minimum
over d of <A w, d> + f(d) + beta KL(d || prior).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.relaxations import games
from jboost.relaxations.games import RelaxedGame, SolverConfig

NAMES = ("fully_corrective", "pairwise", "line_search", "analytic")
# Bisection steps of a line search, as many as the bits of a float32.
_HALVINGS = 24


class Votes(NamedTuple):
    """The votes, their margins, and the example weights for the learner."""

    coefficients: Array  # [capacity]
    reached: Array  # [m] A w
    example_weights: Array  # [m]


class Corner(NamedTuple):
    """All of the vote on one hypothesis, or on its negation. Its size is the best for the edge: 1
    in the unit ball.
    """

    coefficients: Array  # [capacity]
    reached: Array  # [m]


def corner(game: RelaxedGame, slot: Array, edge: Array) -> Corner:
    """The corner for a slot [] int32 and the edge [] of its hypothesis."""
    size = game.votes.best_norm(jnp.abs(edge))
    return _corner_of(game, slot, jnp.where(edge < 0, -size, size))


def _corner_of(game: RelaxedGame, slot: Array, vote: Array) -> Corner:
    vote = vote.astype(game.margins.dtype)
    return Corner(
        jnp.where(jnp.arange(game.margins.shape[1]) == slot, vote, 0.0),
        vote * jnp.take(game.margins, slot, axis=1),
    )


def analytic(now: Votes, game: RelaxedGame, target: Corner, strength: Array) -> Votes:
    """The step of Figure 1: eta = clip(beta <d, A(e_j - w)> / |A(e_j - w)|_inf^2, 0, 1).

    With another cost g of the votes the corner takes the place of e_j, and the increase of g from
    w to the corner is subtracted from the edge: as g is convex, a share of the step increases g by
    at most this share of it. It is the mean slope times the change of |w|_1, which is exact for
    `unit_ball` and for `squared_norm`, whose slope is linear.
    """
    direction = target.reached - now.reached
    start, end = _norm(now.coefficients), _norm(target.coefficients)
    dearer = 0.5 * (game.votes.slope(start) + game.votes.slope(end)) * (end - start)
    slope = _edge(now.example_weights, direction) - dearer
    share = jnp.clip(
        numerics.safe_divide(strength * slope, reduce.largest(jnp.abs(direction)) ** 2), 0.0, 1.0
    )
    return _moved(now, game, target.coefficients - now.coefficients, direction, share, strength)


def line_search(now: Votes, game: RelaxedGame, target: Corner, strength: Array) -> Votes:
    """The best step towards the new column."""
    direction = target.reached - now.reached
    start, end = _norm(now.coefficients), _norm(target.coefficients)

    def dearer(share: Array) -> Array:
        return game.votes.slope(start + share * (end - start)) * (end - start)

    share = _best_share(now, game, direction, jnp.ones(()), strength, dearer)
    return _moved(now, game, target.coefficients - now.coefficients, direction, share, strength)


def pairwise(now: Votes, game: RelaxedGame, target: Corner, strength: Array) -> Votes:
    """The best step that takes weight from the worst column in use, or from the votes not yet cast,
    and gives it to the new one.
    """
    signs = jnp.sign(now.coefficients)
    edges = signs * numerics.product(now.example_weights, game.margins)
    in_use = jnp.where(signs != 0, edges, jnp.inf)
    worst = jnp.argmin(in_use)
    uncast = 1.0 - numerics.precise_sum(jnp.abs(now.coefficients))
    takes_uncast = (uncast > 0) & (in_use[worst] > 0)
    source = _corner_of(game, worst, jnp.where(takes_uncast, 0.0, signs[worst]))
    direction = target.reached - source.reached
    longest = jnp.where(takes_uncast, uncast, jnp.abs(now.coefficients[worst]))
    share = _best_share(now, game, direction, longest, strength, jnp.zeros_like)
    return _moved(now, game, target.coefficients - source.coefficients, direction, share, strength)


def fully_corrective(
    now: Votes, game: RelaxedGame, tolerance: Array, config: SolverConfig
) -> Votes:
    """Solves the game over all columns so far, to a gap of a quarter of the tolerance."""
    best, _ = games.play(game, tolerance / 4, config, (now.coefficients, now.example_weights))
    reached = numerics.product(game.margins, best.coefficients)
    return Votes(best.coefficients, reached, best.example_weights)


def _edge(example_weights: Array, direction: Array) -> Array:
    return numerics.precise_sum(example_weights * direction)


def _norm(coefficients: Array) -> Array:
    return numerics.precise_sum(jnp.abs(coefficients))


def _best_share(
    now: Votes,
    game: RelaxedGame,
    direction: Array,
    longest: Array,
    strength: Array,
    dearer: Callable[[Array], Array],
) -> Array:
    """The share of the direction with the best value, by bisection on its decreasing slope.

    `dearer` is the derivative in the share of (an upper bound on) the cost of the votes.
    """

    def slope(share: Array) -> Array:
        weights = game.relaxation.smoothed_argmin(
            now.reached + share * direction, strength, game.prior
        )
        return _edge(weights, direction) - dearer(share)

    def halve(_: Any, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = interval
        middle = low + (high - low) / 2
        rises = slope(middle) > 0
        return jnp.where(rises, middle, low), jnp.where(rises, high, middle)

    low, _ = loops.fori_loop(0, _HALVINGS, halve, (jnp.zeros_like(longest), longest))
    return jnp.where(slope(longest) > 0, longest, low)


def _moved(
    now: Votes, game: RelaxedGame, change: Array, direction: Array, share: Array, strength: Array
) -> Votes:
    reached = now.reached + share * direction
    return Votes(
        now.coefficients + share * change,
        reached,
        game.relaxation.smoothed_argmin(reached, strength, game.prior),
    )
