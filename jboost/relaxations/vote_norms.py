"""Costs g of the votes w that depend on more than |w|_1: elastic nets and groups (Shalev-Shwartz
and Singer 2008, Section 6, open question; Zou and Hastie 2005; Yuan and Lin 2006).

Their conjugates need the edges of all columns, so that they are for `relaxed_margin.solve`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import brackets, check, numerics, reduce
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.relaxations.types import is_positive, number, positive
from jboost.relaxations.votes import VotePenalty, norm_bound, raised, unit_ball


@register
@dataclasses.dataclass(frozen=True)
class ElasticNet(VotePenalty):
    """g(w) = absolute * |w|_1 + squared / 2 * |w|_2^2."""

    absolute: Array  # []
    squared: Array  # []

    @property
    def has_exact_sums(self) -> bool:
        """True."""
        return True

    def cost_of(self, votes: Array) -> Array:
        """absolute * |w|_1 + squared / 2 * |w|_2^2."""
        square = brackets.bracket_dot(votes, votes)[1]
        absolute = raised(number(self.absolute, votes) * norm_bound(votes))
        return raised(absolute + raised(number(self.squared, votes) * (0.5 * square)))

    def conjugate_of(self, edges: Array, moved: Array) -> Array:
        """sum_j [|e_j| + moved - absolute]_+^2 / (2 squared)."""
        sizes = raised(jnp.abs(edges) + moved)
        beyond = jnp.maximum(sizes - number(self.absolute, edges), 0.0)
        beyond = beyond * (1 + 4 * jnp.finfo(edges.dtype).eps)
        return raised(brackets.bracket_dot(beyond, beyond)[1] / number(self.squared, edges) * 0.5)

    def proximal(self, votes: Array, step: Array) -> Array:
        """A soft threshold at step * absolute, divided by 1 + step * squared."""
        sizes = jnp.maximum(jnp.abs(votes) - step * number(self.absolute, votes), 0.0)
        return jnp.sign(votes) * sizes / (1 + step * number(self.squared, votes))

    def is_valid(self) -> Array:
        """Whether `absolute` is not negative and finite, and `squared` positive and finite."""
        absolute = jnp.asarray(self.absolute)
        return is_positive(self.squared) & (absolute >= 0) & (absolute < jnp.inf)


@register
@dataclasses.dataclass(frozen=True)
class GroupBall(VotePenalty):
    """g(w) is 0 where the Euclidean norms of the groups of votes sum to at most 1, else inf."""

    groups: Array  # [n] int32 the group of each column, in [0, n)

    def cost_of(self, votes: Array) -> Array:
        """0 inside, inf outside."""
        return jnp.where(self._norm(votes) <= 1, 0.0, jnp.inf).astype(votes.dtype)

    def conjugate_of(self, edges: Array, moved: Array) -> Array:
        """The largest Euclidean norm of the edges of a group."""
        return jnp.maximum(reduce.largest(self._norms(raised(jnp.abs(edges) + moved))), 0.0)

    def proximal(self, votes: Array, step: Array) -> Array:
        """The projection onto the ball: that of the norms of the groups onto the l1 ball, which
        scales each group.
        """
        norms = self._norms(votes)
        factors = numerics.safe_divide(unit_ball().proximal(norms, step), norms)
        return self.allowed(votes * factors[self._padded(votes)])

    def allowed(self, votes: Array) -> Array:
        """The votes scaled into the ball, for any rounding."""
        norm = self._norm(votes)
        shrunk = votes * ((1 - 16 * jnp.finfo(votes.dtype).eps) / jnp.maximum(norm, 1.0))
        return jnp.where(norm <= 1, votes, shrunk)

    def is_valid(self) -> Array:
        """Whether all groups are in [0, n)."""
        groups = jnp.asarray(self.groups)
        return reduce.all_true((groups >= 0) & (groups < max(1, groups.shape[0])))

    def _norm(self, votes: Array) -> Array:
        """The sum of the norms of the groups, [], rounded up."""
        return norm_bound(self._norms(votes))

    def _norms(self, values: Array) -> Array:
        """The Euclidean norm of each group, [n], rounded up; 0 for groups without columns."""
        size, groups = values.shape[0], self._padded(values)

        def sums(values: Array) -> Array:
            wide = brackets.widen(values)
            total = jax.ops.segment_sum(wide * wide, groups, num_segments=size)
            return numerics.round_up(total * (1 + (size + 8) * 2.0**-52), values.dtype)

        squares = numerics.in_64_bits(sums)(values)
        roots = jnp.sqrt(jnp.where(squares > 0, squares, 1.0))
        return jnp.where(squares > 0, raised(roots), 0.0)

    def _padded(self, values: Array) -> Array:
        """The groups, of the length of `values`, which has a column of zeros more if there are no
        columns.
        """
        groups = jnp.asarray(self.groups, jnp.int32)
        return jnp.pad(groups, (0, values.shape[0] - groups.shape[0]))


def squared_two_norm(strength: ArrayLike) -> ElasticNet:
    """The regulariser strength / 2 * |w|_2^2 of the votes (Shalev-Shwartz and Singer 2008,
    Section 6).

    Its conjugate is |A'd|_2^2 / (2 strength): every column with an edge gets a vote. For
    `relaxed_margin.solve`.

    Args:
      strength: [] positive; the larger, the smaller the votes.

    Raises:
      ValueError: if it is not positive and finite.

    >>> import jax.numpy as jnp, jboost
    >>> cost = jboost.relaxations.squared_two_norm(2.0)
    >>> round(float(cost.conjugate_of(jnp.array([0.6, -0.8]), 0.0)), 4)
    0.25
    """
    return ElasticNet(jnp.zeros(()), positive("strength", strength))


def elastic_net(absolute: ArrayLike, squared: ArrayLike) -> ElasticNet:
    """The regulariser absolute * |w|_1 + squared / 2 * |w|_2^2 of the votes (Zou and Hastie 2005).

    Columns whose edge is at most `absolute` get no vote. For `relaxed_margin.solve`.

    Args:
      absolute: [] not negative.
      squared: [] positive.

    Raises:
      ValueError: naming the argument that is not allowed.

    >>> import jax.numpy as jnp, jboost
    >>> cost = jboost.relaxations.elastic_net(0.5, 2.0)
    >>> round(float(cost.conjugate_of(jnp.array([0.4, -0.7]), 0.0)), 4)
    0.01
    """
    limits = jnp.finfo(jnp.result_type(float))
    absolute = check.number("absolute", absolute, low=0, high=float(limits.max)).astype(float)
    return ElasticNet(absolute, positive("squared", squared))


def group_ball(groups: ArrayLike) -> GroupBall:
    """The constraint that the Euclidean norms of the groups of votes sum to at most 1, in place of
    |w|_1 <= 1 (Yuan and Lin 2006).

    Votes of a group are zero together, or none is as a rule. With one group for each column it is
    the unit ball. For `relaxed_margin.solve`.

    Args:
      groups: [n] integers, the group of each column of the margins. Known numbers may be any that
        are not negative; traced ones must be in [0, n), else the status is INVALID_INPUT.

    Raises:
      ValueError: naming the argument, for another shape or kind, or for a negative number.

    >>> import jax.numpy as jnp, jboost
    >>> cost = jboost.relaxations.group_ball([0, 0, 1])
    >>> round(float(cost.conjugate_of(jnp.array([0.3, -0.4, 0.45]), 0.0)), 4)
    0.5
    """
    array: Any = check.numeric("groups", groups, shape=("n",), kinds="iu")
    if check.are_known(groups):
        known = np.asarray(groups)
        if known.size and known.min() < 0:
            raise ValueError(f"groups holds {known.min()}: expected numbers from 0")
        array = jnp.asarray(np.unique(known, return_inverse=True)[1])
    return GroupBall(array.astype(jnp.int32))
