"""The value of nonnegative votes of sum one, and upper bounds on it, both valid in exact arithmetic
(Goldberg and Eckstein 2009, formulation (3)).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jboost import operators
from jboost.base import brackets, numerics
from jboost.base.types import Array
from jboost.relaxations import SoftMargin, certify

_LEAST_NU = 1e-30  # smaller values of nu act like this one: no example weight is capped


class SimplexVotes:
    """The constraint on votes: only nonnegative votes of sum one are allowed. The value of votes
    near them differs by at most their distance.
    """

    @staticmethod
    def cost(distance: Array) -> Array:
        """The distance itself: since outputs lie in [-1, 1], scaling the votes to sum one lowers
        their value by no more.
        """
        return distance

    @staticmethod
    def conjugate(edge: Array) -> Array:
        """The edge itself, of either sign."""
        return edge


def relaxation(nu: Array) -> SoftMargin:
    """Example weights of at most D_i = p_i / nu."""
    return SoftMargin(None, jnp.maximum(nu, _LEAST_NU))


def attained(columns: Any, votes: Array, relaxation: SoftMargin, prior: Array) -> Array:
    """The soft margin [] of votes [n] over columns [n, m], rounded down and reduced by the distance
    of their sum from one.
    """
    reached, _ = (
        columns.bracket_rmatvec(votes)
        if operators.is_operator(columns)
        else brackets.bracket_dot(columns.T, votes[None, :])
    )
    total, eps = numerics.precise_sum(votes), jnp.finfo(votes.dtype).eps
    # `precise_sum` adds float32 values in float64
    roundings = 4 if votes.dtype.itemsize == 4 else votes.shape[0] + 4
    distance = (jnp.abs(total - 1) + roundings * eps * total) * (1 + 2 * eps)
    return certify.lower_from_margins(reached, distance, relaxation, SimplexVotes, prior)


def not_exceeded(edge: Array, weights: Array, relaxation: SoftMargin, prior: Array) -> Array:
    """An upper bound [], rounded up, on the value of any votes over hypotheses whose edge under the
    example weights [m] is at most `edge` [].
    """
    return certify.upper_from_edge(edge, weights, relaxation, SimplexVotes, prior)
