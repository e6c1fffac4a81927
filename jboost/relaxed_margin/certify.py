"""Bounds that hold in exact arithmetic, from votes and example weights alone (paper 004, Theorem 7 and weak duality)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jboost.base import numerics
from jboost.base.types import Array
from jboost.relaxations.votes import norm_bound


def prove_lower(margins: Array, coefficients: Array, relaxation: Any, votes: Any, prior: Array) -> Array:
    """What the votes attain, [], rounded down: gamma - f*([gamma 1 - A w]_+) - g(w) at the best gamma."""
    reached, _ = numerics.bracket_dot(margins, coefficients[None, :])
    return lower_from_margins(reached, norm_bound(coefficients), relaxation, votes, prior)


def lower_from_margins(reached: Array, norm: Array, relaxation: Any, votes: Any, prior: Array) -> Array:
    """The same, from lower bounds A w [m] of the margins and an upper bound of |w|_1."""
    gain = relaxation.lower_bound(reached, prior)
    price = votes.price(norm)
    return gain - price - 2 * jnp.finfo(gain.dtype).eps * jnp.abs(price)


def largest_edge(columns: Array, example_weights: Array) -> Array:
    """The largest |edge| of columns [n, m] under the weights scaled to sum to one, [], rounded up; 0 without columns."""
    low, high = numerics.bracket_dot(columns, example_weights[None, :])
    return scaled_edge(jnp.max(jnp.maximum(high, -low), initial=0.0), example_weights)


def scaled_edge(edge: Array, example_weights: Array) -> Array:
    """An edge under weights that may not sum to one exactly, [], as of weights that do, rounded up."""
    total, _ = numerics.bracket_dot(example_weights, jnp.ones_like(example_weights))
    return edge / total * (1 + 4 * jnp.finfo(edge.dtype).eps)


def upper_from_edge(edge: Array, example_weights: Array, relaxation: Any, votes: Any, prior: Array) -> Array:
    """What no votes exceed, [], rounded up: g*(edge) + f(d), with d moved to where the relaxation allows it at the worst split of that charge."""
    charge = relaxation.charge(example_weights, prior)
    bound = jnp.maximum(votes.conjugate(edge) + charge, votes.conjugate(edge + charge))
    return bound + 4 * jnp.finfo(bound.dtype).eps * jnp.abs(bound)
