"""Bounds that hold in exact arithmetic, from votes and example weights alone (paper 004, Theorem 7
and weak duality).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jboost import operators
from jboost.base import brackets, reduce
from jboost.base.types import Array
from jboost.relaxations.votes import norm_bound


def bracket_products(matrix: Any, vector: Array) -> tuple[Array, Array]:
    """Floats at or below and at or above the exact products [k] of a matrix [k, l], stored or an
    operator, and a vector [l].
    """
    if operators.is_operator(matrix):
        low, high = matrix.bracket_matvec(vector)
        return low, high
    return brackets.bracket_dot(matrix, vector[None, :])


def prove_lower(
    margins: Any, coefficients: Array, relaxation: Any, votes: Any, prior: Array
) -> Array:
    """What the votes attain, [], rounded down: gamma - f*([gamma 1 - A w]_+) - g(w) at the best
    gamma.
    """
    reached, _ = bracket_products(margins, coefficients)
    return lower_from_margins(reached, norm_bound(coefficients), relaxation, votes, prior)


def lower_from_margins(
    reached: Array, norm: Array, relaxation: Any, votes: Any, prior: Array
) -> Array:
    """The same, from lower bounds A w [m] of the margins and an upper bound of |w|_1."""
    gain = relaxation.lower_bound(reached, prior)
    price = votes.price(norm)
    rounding = jnp.where(
        price == 0, 0.0, 2 * jnp.finfo(gain.dtype).eps * (jnp.abs(gain) + jnp.abs(price))
    )
    return gain - price - rounding


def largest_edge(columns: Any, example_weights: Array) -> Array:
    """The largest |edge| of columns [n, m] under the weights scaled to sum to one, [], rounded up;
    0 without columns.
    """
    (low, high), total = _edges_and_total(columns, example_weights)
    return _of_sum_one(jnp.maximum(reduce.largest(jnp.maximum(high, -low)), 0.0), total)


def largest_signed_edge(columns: Any, example_weights: Array, is_used: Array) -> Array:
    """The largest edge of those columns [n, m] where `is_used` [n], under the weights scaled to sum
    to one, [], rounded up; -1 without columns.
    """
    (_, high), total = _edges_and_total(columns, example_weights)
    return _of_sum_one(
        jnp.maximum(reduce.largest(jnp.where(is_used, high, -total[1])), -1.0), total
    )


def scaled_edge(edge: Array, example_weights: Array) -> Array:
    """An edge of either sign under weights that may not sum to one exactly, [], as of weights that
    do, rounded up.
    """
    return _of_sum_one(
        jnp.asarray(edge, example_weights.dtype),
        brackets.bracket_dot(example_weights, jnp.ones_like(example_weights)),
    )


def _edges_and_total(
    columns: Any, example_weights: Array
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Brackets of the edges [n] of columns [n, m], and of the sum [] of the weights."""
    if operators.is_operator(columns):
        return bracket_products(columns, example_weights), brackets.bracket_dot(
            example_weights, jnp.ones_like(example_weights)
        )
    rows = jnp.concatenate([columns, jnp.ones((1, columns.shape[1]), columns.dtype)])
    low, high = brackets.bracket_dot(rows, example_weights[None, :])
    return (low[:-1], high[:-1]), (low[-1], high[-1])


def _of_sum_one(edge: Array, total: tuple[Array, Array]) -> Array:
    """An edge under weights whose sum is bracketed, [], as of weights that sum to one,
    rounded up.
    """
    low, high = total
    scaled = edge / jnp.where(edge < 0, high, low)
    return scaled + 4 * jnp.finfo(scaled.dtype).eps * jnp.abs(scaled)


def upper_from_edge(
    edge: Array, example_weights: Array, relaxation: Any, votes: Any, prior: Array
) -> Array:
    """What no votes exceed, [], rounded up: g*(edge) + f(d), with d moved to where the relaxation
    allows it, and the edge up by as much.
    """
    value, moved = relaxation.charge(example_weights, prior)
    paid = votes.conjugate(edge + moved)
    return paid + value + 4 * jnp.finfo(paid.dtype).eps * (jnp.abs(paid) + jnp.abs(value))


class Proven(NamedTuple):
    """The best votes and the best example weights so far."""

    coefficients: Array  # [capacity]
    lower: Array  # []
    example_weights: Array  # [m]
    edge: Array  # [] the largest edge of a column seen, under them
    upper: Array  # [] over all hypotheses, +inf where the learner proves nothing
    seen_upper: Array  # []

    def goal(self, stop_on: str) -> Array:
        """The upper bound that ends the loop, []: over "all" hypotheses, over those "seen", or over
        all where something is proven ("provable").
        """
        if stop_on == "seen":
            return self.seen_upper
        if stop_on == "all":
            return self.upper
        return jnp.where(self.upper == jnp.inf, self.seen_upper, self.upper)


def prove_upper(
    before: Proven,
    asked: Array,
    *,
    new_edge: Array,
    seen_edge: Array,
    best_edge: Array,
    upper_of: Callable[[Array, Array], Array],
    stop_on: str,
) -> Proven:
    """The upper bounds after a proposal, by the example weights that were best so far, or by those
    the learner was asked about, if better.

    Args:
      before: what was proven without the new columns.
      asked: [m].
      new_edge: [] the largest edge of the new columns under `before.example_weights`.
      seen_edge: [] the largest edge of all columns, new ones included, under `asked`.
      best_edge: [] the learner's bound over all its hypotheses, under `asked`.
      upper_of: (edge [], example weights [m]) -> [], what no votes exceed.
      stop_on: as in `Proven.goal`.
    """
    edge = jnp.maximum(before.edge, new_edge)
    nothing = before.seen_upper == jnp.inf
    known = before._replace(
        edge=edge, seen_upper=jnp.where(nothing, jnp.inf, upper_of(edge, before.example_weights))
    )
    upper = upper_of(scaled_edge(best_edge, asked), asked)
    fresh = before._replace(
        example_weights=asked, edge=seen_edge, upper=upper, seen_upper=upper_of(seen_edge, asked)
    )
    is_first = (
        (known.upper == jnp.inf) & (fresh.upper < jnp.inf) if stop_on == "provable" else False
    )
    goal, best_goal = fresh.goal(stop_on), known.goal(stop_on)
    is_better = (
        is_first
        | (goal < best_goal)
        | ((goal == best_goal) & (fresh.seen_upper < known.seen_upper))
    )
    return Proven(*(jnp.where(is_better, new, old) for new, old in zip(fresh, known, strict=True)))
