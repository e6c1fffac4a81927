"""The value of votes that are not negative and sum to one, and what no such votes exceed: both in
exact arithmetic (paper 001, (3)).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jboost import operators
from jboost.base import brackets, numerics
from jboost.base.types import Array
from jboost.relaxations import SoftMargin, certify

_LEAST_NU = 1e-30  # below it nu means what it means here: no example weight is capped


class Simplex:
    """What votes pay: only those that are not negative and sum to one are allowed, and the value of
    others near by differs by their distance.
    """

    @staticmethod
    def price(distance: Array) -> Array:
        """The distance itself: outputs lie in [-1, 1], so that votes scaled to sum one are worth no
        more than that less.
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
    """The soft margin of votes [n] over columns [n, m], [], rounded down; less their distance from
    sum one.
    """
    reached, _ = (
        columns.bracket_rmatvec(votes)
        if operators.is_operator(columns)
        else brackets.bracket_dot(columns.T, votes[None, :])
    )
    total, eps = numerics.precise_sum(votes), jnp.finfo(votes.dtype).eps
    # `precise_sum` adds 32 bits in 64
    roundings = 4 if votes.dtype.itemsize == 4 else votes.shape[0] + 4
    distance = (jnp.abs(total - 1) + roundings * eps * total) * (1 + 2 * eps)
    return certify.lower_from_margins(reached, distance, relaxation, Simplex, prior)


def not_exceeded(edge: Array, weights: Array, relaxation: SoftMargin, prior: Array) -> Array:
    """What no votes over hypotheses of at most this edge [] under the example weights [m] attain,
    [], rounded up.
    """
    return certify.upper_from_edge(edge, weights, relaxation, Simplex, prior)
