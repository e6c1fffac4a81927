"""The sets of votes of the two exact problems: the bounds, cuts and votes that depend on them.

(15) and (9) of Goldberg and Eckstein (2009) have the same rows in (lambda, mu, xi),

    y_i H_i lambda + (big + rho) xi_i >= rho,  mu >= lambda >= 0,

and differ in the votes. In (15) lambda is on the simplex and big is 1. In (9), with lambda in units
of K and rho = 1 / K, lambda is in the box [0, 1]^U, and big is the largest of M and U: the printed
M K + 1 is (big + rho) K for big = M, which cuts off votes of more than M hypotheses.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import brackets
from jboost.base.numerics import power_of_two_at_least, sum_down, times
from jboost.base.records import register
from jboost.base.types import Array
from jboost.l0.relaxation.instance import make_instance
from jboost.l0.types import RelaxationInstance
from jboost.l0.votes import local_search
from jboost.l0.votes.local_search import FeasibleVote


class Terms(NamedTuple):
    """What the columns add to the bound of a node, rounded down."""

    of_columns: Array  # [U] of mu and lambda of each column alone
    least: Array  # [] of the columns together
    if_used: Array  # [U] by how much the bound rises if a column is used
    if_unused: Array  # [U]


@register
@dataclasses.dataclass(frozen=True)
class SimplexDomain:
    """The votes of (15): lambda >= 0, sum lambda = 1."""

    def make_instance(self, data: tuple[Array, ...]) -> tuple[RelaxationInstance, Array]:
        """The sorted instance with the cuts "either", and whether all values are valid."""
        outputs, labels, costs, weights, mask, column_mask, margin = data
        return make_instance(
            outputs, labels, costs, weights, mask, column_mask, margin, either=True
        )

    def big(self, instance: RelaxationInstance) -> Array:
        """The constant of the slacks, []."""
        return jnp.ones_like(instance.margin)

    def total(self) -> tuple[float, float]:
        """The bounds of sum lambda."""
        return 1.0, 1.0

    def has_vote(self, allowed: Array) -> Array:
        """Whether there is a vote of the columns allowed, [] bool."""
        return jnp.any(allowed)

    def num_levels(self, num_columns: int) -> int:
        """How many levels a cut from margin rows may have: 0 and all edges."""
        return 1 + num_columns

    def terms(
        self, rest: tuple[Array, Array], edges: Array, is_free: Array, is_used: Array
    ) -> Terms:
        """The terms of the columns: lambda is on one of them.

        Args:
          rest: [U] c', the costs less the duals of the cuts, rounded down and up.
          edges: [U] sum_i w_i y_i H_iu, rounded up.
          is_free: [U] bool, columns whose mu is undecided.
          is_used: [U] bool, columns whose mu is 1.
        """
        of_lambda = sum_down(jnp.where(is_free, jnp.maximum(rest[0], 0.0), 0.0), -edges)
        least = jnp.min(jnp.where(is_free | is_used, of_lambda, jnp.inf))
        moved = jnp.minimum(sum_down(-edges, -least), 0.0)
        return Terms(
            jnp.where(is_free, jnp.minimum(rest[0], 0.0), jnp.where(is_used, rest[0], 0.0)),
            least,
            sum_down(jnp.maximum(rest[0], 0.0), moved),
            jnp.maximum(-rest[1], 0.0),
        )

    def instance_of(self, instance: RelaxationInstance) -> local_search.VoteInstance:
        """The instance for votes on the simplex."""
        return local_search.VoteInstance(
            instance.margins.T,
            instance.weights,
            instance.costs,
            instance.is_column,
            instance.margin,
        )

    def evaluate(self, instance: RelaxationInstance, coefficients: Array) -> FeasibleVote:
        """Rounds coefficients [U] to a vote, and computes its loss."""
        return local_search.evaluate(self.instance_of(instance), coefficients)

    def evaluate_near(self, instance: RelaxationInstance, coefficients: Array) -> FeasibleVote:
        """The best of several roundings of coefficients [U]."""
        return local_search.evaluate_near(self.instance_of(instance), coefficients)

    def reevaluated(self, instance: RelaxationInstance, vote: FeasibleVote) -> FeasibleVote:
        """A vote on the simplex with its loss: unchanged."""
        del instance
        return vote

    def first_vote(self, instance: RelaxationInstance) -> FeasibleVote:
        """The best of the uniform vote, of single columns and of pairs."""
        votes = self.instance_of(instance)
        uniform = local_search.evaluate(votes, jnp.ones_like(instance.costs))
        sparse = local_search.better(local_search.best_alone(votes), local_search.best_pair(votes))
        return local_search.better(uniform, sparse)


@register
@dataclasses.dataclass(frozen=True)
class Box(SimplexDomain):
    """The votes of (9) in units of K: lambda in [0, 1]^U. They include those on the simplex."""

    largest: Array  # [] K

    def make_instance(self, data: tuple[Array, ...]) -> tuple[RelaxationInstance, Array]:
        """The sorted instance, whose margin may exceed 1, and whether all values are valid."""
        margin = data[-1]
        instance, is_valid = super().make_instance((*data[:-1], jnp.ones_like(margin)))
        is_valid &= (margin > 0) & (margin < jnp.inf)
        return instance._replace(margin=jnp.where(is_valid, margin, 1.0)), is_valid

    def big(self, instance: RelaxationInstance) -> Array:
        """The constant of the slacks: the largest of the numbers of examples and of columns."""
        numbers = jnp.sum(instance.weights > 0), jnp.sum(instance.is_column)
        return jnp.maximum(*numbers).astype(instance.margin.dtype)

    def total(self) -> tuple[float, float]:
        """The bounds of sum lambda: none."""
        return -jnp.inf, jnp.inf

    def has_vote(self, allowed: Array) -> Array:
        """True: the vote may be empty."""
        return jnp.ones((), bool)

    def num_levels(self, num_columns: int) -> int:
        """Cuts have level 0 alone: others need sum lambda = 1."""
        return 1

    def terms(
        self, rest: tuple[Array, Array], edges: Array, is_free: Array, is_used: Array
    ) -> Terms:
        """The terms of the columns: each lambda is at the better end of [0, mu]."""
        values = sum_down(rest[0], jnp.minimum(-edges, 0.0))
        return Terms(
            jnp.where(is_free, jnp.minimum(values, 0.0), jnp.where(is_used, values, 0.0)),
            jnp.zeros((), edges.dtype),
            jnp.maximum(values, 0.0),
            jnp.maximum(-values, 0.0),
        )

    def scaled(self, coefficients: Array) -> Array:
        """K times coefficients [U] in [0, 1], on a grid on which all margins are exact."""
        size = max(coefficients.shape[0], 1)
        eps = float(jnp.finfo(coefficients.dtype).eps)
        unit = power_of_two_at_least(self.largest) * eps * 2.0 ** (size - 1).bit_length()
        steps = jnp.round(coefficients * (self.largest / unit))
        return jnp.minimum(steps, jnp.floor(self.largest / unit)) * unit

    def reevaluated(self, instance: RelaxationInstance, vote: FeasibleVote) -> FeasibleVote:
        """The vote with its loss in (9)."""
        return self.evaluate(instance, vote.coefficients)

    def evaluate(self, instance: RelaxationInstance, coefficients: Array) -> FeasibleVote:
        """Scales coefficients [U] to the largest vote in the box, and computes the loss in (9) of
        `scaled`.
        """
        given = jnp.where(
            instance.is_column & (coefficients > 0) & (coefficients < jnp.inf), coefficients, 0.0
        )
        largest = jnp.max(given, initial=0.0)
        in_box = jnp.minimum(given / jnp.where(largest > 0, largest, 1.0), 1.0)
        votes = self.scaled(in_box)
        reached = times(instance.margins, votes)
        paid = jnp.concatenate([reached < 1, votes > 0]).astype(votes.dtype)
        losses = brackets.bracket_dot(paid, jnp.concatenate([instance.weights, instance.costs]))
        return FeasibleVote(jnp.where(votes > 0, in_box, 0.0), losses[1])

    def evaluate_near(self, instance: RelaxationInstance, coefficients: Array) -> FeasibleVote:
        """The best of the coefficients [U] as they are, of equal votes, and of several roundings on
        the simplex.
        """
        on_simplex = self.reevaluated(instance, super().evaluate_near(instance, coefficients))
        both = jnp.stack([coefficients, (coefficients > 0).astype(coefficients.dtype)])
        votes = jax.vmap(lambda one: self.evaluate(instance, one))(both)
        best = jax.tree.map(lambda leaf: leaf[jnp.argmin(votes.loss)], votes)
        return local_search.better(on_simplex, best)

    def first_vote(self, instance: RelaxationInstance) -> FeasibleVote:
        """The best of the empty vote, the uniform vote, single columns and pairs."""
        empty = self.evaluate(instance, jnp.zeros_like(instance.costs))
        return local_search.better(empty, self.reevaluated(instance, super().first_vote(instance)))
