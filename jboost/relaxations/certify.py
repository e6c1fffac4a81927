"""Bounds that hold in exact arithmetic, from votes and example weights alone (Shalev-Shwartz and
Singer 2008, Theorem 7, and weak duality).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jboost import operators
from jboost.base import brackets, reduce
from jboost.base.types import Array


def bracket_products(matrix: Any, vector: Array) -> tuple[Array, Array]:
    """Lower and upper bounds on the products [k] of a matrix [k, l], stored or an operator, and a
    vector [l].
    """
    if operators.is_operator(matrix):
        low, high = matrix.bracket_matvec(vector)
        return low, high
    return brackets.bracket_dot(matrix, vector[None, :])


def prove_lower(
    margins: Any, coefficients: Array, relaxation: Any, votes: Any, prior: Array
) -> Array:
    """The primal value of the votes, [], rounded down: gamma - f*([gamma 1 - A w]_+) - g(w) at the
    best gamma.
    """
    reached, _ = bracket_products(margins, coefficients)
    return lower_at_cost(reached, votes.cost_of(coefficients), relaxation, prior)


def lower_from_margins(
    reached: Array, norm: Array, relaxation: Any, votes: Any, prior: Array
) -> Array:
    """`prove_lower` from lower bounds on the margins A w [m] and an upper bound on |w|_1."""
    return lower_at_cost(reached, votes.cost(norm), relaxation, prior)


def lower_at_cost(reached: Array, cost: Array, relaxation: Any, prior: Array) -> Array:
    """`prove_lower` from lower bounds on the margins A w [m] and an upper bound on the cost g(w)
    [].
    """
    gain = relaxation.lower_bound(reached, prior)
    rounding = jnp.where(
        cost == 0, 0.0, 2 * jnp.finfo(gain.dtype).eps * (jnp.abs(gain) + jnp.abs(cost))
    )
    return gain - cost - rounding


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


def edge_sizes(columns: Any, example_weights: Array) -> Array:
    """The |edges| [n] of columns [n, m] under the weights scaled to sum to one, rounded up."""
    (low, high), total = _edges_and_total(columns, example_weights)
    return _of_sum_one(jnp.maximum(jnp.maximum(high, -low), 0.0), total)


def scaled_edge(edge: Array, example_weights: Array) -> Array:
    """An edge of either sign under weights whose sum is one up to rounding, converted to the
    weights scaled to sum one, [], rounded up.
    """
    return _of_sum_one(
        jnp.asarray(edge, example_weights.dtype),
        brackets.bracket_dot(example_weights, jnp.ones_like(example_weights)),
    )


def _edges_and_total(
    columns: Any, example_weights: Array
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Lower and upper bounds on the edges [n] of columns [n, m], and on the sum [] of weights."""
    if operators.is_operator(columns):
        return bracket_products(columns, example_weights), brackets.bracket_dot(
            example_weights, jnp.ones_like(example_weights)
        )
    rows = jnp.concatenate([columns, jnp.ones((1, columns.shape[1]), columns.dtype)])
    low, high = brackets.bracket_dot(rows, example_weights[None, :])
    return (low[:-1], high[:-1]), (low[-1], high[-1])


def _of_sum_one(edge: Array, total: tuple[Array, Array]) -> Array:
    """An edge, converted to weights scaled to sum one, [], rounded up. `total` holds a lower and an
    upper bound on the sum of the weights.
    """
    low, high = total
    scaled = edge / jnp.where(edge < 0, high, low)
    return scaled + 4 * jnp.finfo(scaled.dtype).eps * jnp.abs(scaled)


def upper_from_edge(
    edge: Array, example_weights: Array, relaxation: Any, votes: Any, prior: Array
) -> Array:
    """An upper bound on the value of any votes, [], rounded up: g*(edge) + f(d'). d' is an allowed
    distribution near the example weights, and the edge is raised by their distance.
    """
    value, moved = relaxation.charge(example_weights, prior)
    return _paid_and_charged(votes.conjugate(edge + moved), value)


def upper_from_edges(
    edges: Array, example_weights: Array, relaxation: Any, votes: Any, prior: Array
) -> Array:
    """`upper_from_edge` for a g that depends on the edges [n] of all columns. They are signed;
    upper bounds on their absolute values are accepted, too.
    """
    value, moved = relaxation.charge(example_weights, prior)
    return _paid_and_charged(votes.conjugate_of(edges, moved), value)


def _paid_and_charged(paid: Array, value: Array) -> Array:
    return paid + value + 4 * jnp.finfo(paid.dtype).eps * (jnp.abs(paid) + jnp.abs(value))


class ProvenBounds(NamedTuple):
    """The best votes and the best example weights so far, and the bounds that they prove."""

    coefficients: Array  # [capacity]
    lower: Array  # []
    example_weights: Array  # [m]
    edge: Array  # [] the largest edge of the columns seen under these weights
    upper: Array  # [] over all hypotheses, +inf if the learner proves nothing
    seen_upper: Array  # []

    def goal(self, stop_on: str) -> Array:
        """The upper bound that ends the loop, []: "all" for that over all hypotheses, "seen" for
        that over the columns seen, "provable" for the former if it is finite and else the latter.
        """
        if stop_on == "seen":
            return self.seen_upper
        if stop_on == "all":
            return self.upper
        return jnp.where(self.upper == jnp.inf, self.seen_upper, self.upper)


def prove_upper(
    before: ProvenBounds,
    queried: Array,
    *,
    new_edge: Array,
    seen_edge: Array,
    best_edge: Array,
    upper_of: Callable[[Array, Array], Array],
    stop_on: str,
) -> ProvenBounds:
    """The upper bounds after a proposal, from the best example weights so far or, if these are
    better, from those of the last query of the learner.

    Args:
      before: the bounds without the new columns.
      queried: [m] the example weights of the last query of the learner.
      new_edge: [] the largest edge of the new columns under `before.example_weights`.
      seen_edge: [] the largest edge of all columns, new ones included, under `queried`.
      best_edge: [] the learner's bound over all its hypotheses, under `queried`.
      upper_of: (edge [], example weights [m]) -> [], an upper bound on the value of any votes.
      stop_on: as in `ProvenBounds.goal`.
    """
    edge = jnp.maximum(before.edge, new_edge)
    nothing = before.seen_upper == jnp.inf
    known = before._replace(
        edge=edge, seen_upper=jnp.where(nothing, jnp.inf, upper_of(edge, before.example_weights))
    )
    upper = upper_of(scaled_edge(best_edge, queried), queried)
    fresh = before._replace(
        example_weights=queried,
        edge=seen_edge,
        upper=upper,
        seen_upper=upper_of(seen_edge, queried),
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
    return ProvenBounds(
        *(jnp.where(is_better, new, old) for new, old in zip(fresh, known, strict=True))
    )
