"""The constraint or penalty g on the votes w: the unit ball of the l1 norm, or a regulariser
instead (Shalev-Shwartz and Singer 2008, Section 6).

The primal is the maximum over w and gamma of gamma - f*([gamma 1 - A w]_+) - g(w), and the dual is
the minimum over d of f(d) + g*(A'd). In this module g depends only on |w|_1, so that g* depends
only on the best edge, which a learner can bound over all its hypotheses. In `vote_norms`, g* needs
all edges.
"""

from __future__ import annotations

import abc
import dataclasses

import jax.numpy as jnp

from jboost.base import brackets, loops, numerics, reduce
from jboost.base.protocols import Protocol
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.projections import projection_capped_simplex
from jboost.relaxations.types import is_positive, number, positive


class VotePenalty(Protocol, abc.ABC):
    """A convex function g of the votes, their cost, which does not decrease with any |w_j|.

    One of your own is a frozen dataclass below this class. A misspelt hook raises a TypeError when
    the class is created.
    """

    @abc.abstractmethod
    def cost_of(self, votes: Array) -> Array:
        """g(votes [n]), [], rounded up."""

    @abc.abstractmethod
    def conjugate_of(self, edges: Array, moved: Array) -> Array:
        """The maximum over votes w of <w, e> - g(w) for any e [n] within `moved` [] of the edges
        [n], [], rounded up. For edges of 0 it is at most a tiny number.
        """

    @abc.abstractmethod
    def proximal(self, votes: Array, step: Array) -> Array:
        """argmin over w [n] of |w - votes|^2 / 2 + step * g(w)."""

    def allowed(self, votes: Array) -> Array:
        """The votes [n], scaled slightly if rounding would make their cost infinite; by default as
        they are.
        """
        return votes

    @property
    def has_exact_sums(self) -> bool:
        """Whether solves and fits with `deterministic=True` may use the cost: it adds up votes
        alone, or examples by functions of `jboost.base`. By default False.
        """
        return False

    def is_valid(self) -> Array:
        """Whether the factory accepts the parameters, [] bool; by default always."""
        return jnp.ones((), bool)


class OfNorm(VotePenalty, Protocol):
    """A cost that depends on |w|_1 only: a convex function of it, `cost`, whose conjugate at the
    best edge is `conjugate`.
    """

    @abc.abstractmethod
    def best_edge(self, edges: Array) -> Array:
        """The largest of the edges [n], []: in absolute value if votes may have either sign, else
        signed.
        """

    @abc.abstractmethod
    def cost(self, norm: Array) -> Array:
        """The cost of votes of this l1 norm, [], rounded up."""

    @abc.abstractmethod
    def conjugate(self, edge: Array) -> Array:
        """The maximum over norms t >= 0 of t * edge - cost(t), [], rounded up."""

    @abc.abstractmethod
    def best_norm(self, edge: Array) -> Array:
        """The norm t [] of largest t * edge - cost(t)."""

    @abc.abstractmethod
    def slope(self, norm: Array) -> Array:
        """The derivative of the cost in the norm, []."""

    def cost_of(self, votes: Array) -> Array:
        """The cost of |votes|_1."""
        return self.cost(norm_bound(votes))

    def conjugate_of(self, edges: Array, moved: Array) -> Array:
        """The conjugate of the best edge, raised by `moved`."""
        return self.conjugate(self.best_edge(edges) + moved)


@register
@dataclasses.dataclass(frozen=True)
class UnitBall(OfNorm):
    """The cost is 0 for norms up to 1 and inf beyond."""

    @property
    def has_exact_sums(self) -> bool:
        """True."""
        return True

    def best_edge(self, edges: Array) -> Array:
        """The largest absolute edge."""
        return _either_sign(edges)

    def cost(self, norm: Array) -> Array:
        """0 up to 1."""
        return jnp.where(norm <= 1, 0.0, jnp.inf).astype(norm.dtype)

    def conjugate(self, edge: Array) -> Array:
        """The edge itself."""
        return jnp.maximum(edge, 0.0)

    def best_norm(self, edge: Array) -> Array:
        """The norm [] of the best votes for this edge: 1."""
        return jnp.ones_like(edge)

    def slope(self, norm: Array) -> Array:
        """The derivative of the cost inside the ball: 0."""
        return jnp.zeros_like(norm)

    def proximal(self, votes: Array, step: Array) -> Array:
        """The projection onto the ball, slightly inside it. The soft threshold is found by Newton's
        method, which increases monotonically and ends after a few steps.
        """
        sizes = jnp.abs(votes)

        def climb(state: tuple[Array, Array]) -> tuple[Array, Array]:
            threshold, _ = state
            above = jnp.maximum(sizes - threshold, 0.0)
            excess = numerics.precise_sum(above) - 1
            count = jnp.maximum(reduce.count(above > 0, dtype=votes.dtype), 1.0)
            return threshold + jnp.maximum(excess, 0.0) / count, excess

        start = (jnp.zeros((), votes.dtype), jnp.full((), jnp.inf, votes.dtype))
        rounding = 4 * jnp.finfo(votes.dtype).eps
        (threshold, _), _ = loops.bounded_loop(
            climb, lambda state: state[1] > rounding, start, max_checks=64
        )
        projected = jnp.sign(votes) * jnp.maximum(sizes - threshold, 0.0)
        return self.allowed(projected)

    def allowed(self, votes: Array) -> Array:
        """The votes scaled into the ball, for any rounding."""
        norm = norm_bound(votes)
        return jnp.where(
            norm <= 1,
            votes,
            votes * ((1 - 4 * jnp.finfo(votes.dtype).eps) / jnp.maximum(norm, 1.0)),
        )


@register
@dataclasses.dataclass(frozen=True)
class SquaredNorm(OfNorm):
    """cost(t) = strength / 2 * t^2."""

    strength: Array  # []

    @property
    def has_exact_sums(self) -> bool:
        """True."""
        return True

    def best_edge(self, edges: Array) -> Array:
        """The largest absolute edge."""
        return _either_sign(edges)

    def cost(self, norm: Array) -> Array:
        """strength / 2 * norm^2."""
        return raised(number(self.strength, norm) * norm * (0.5 * norm))

    def conjugate(self, edge: Array) -> Array:
        """edge^2 / (2 strength)."""
        return raised(
            jnp.maximum(edge, 0.0) * (0.5 * jnp.maximum(edge, 0.0) / number(self.strength, edge))
        )

    def best_norm(self, edge: Array) -> Array:
        """The norm t [] of largest t * edge - cost(t)."""
        return jnp.maximum(edge, 0.0) / number(self.strength, edge)

    def slope(self, norm: Array) -> Array:
        """The derivative of the cost, strength * norm."""
        return number(self.strength, norm) * norm

    def proximal(self, votes: Array, step: Array) -> Array:
        """A soft threshold at step * strength * |w|_1, found by one sort."""
        sizes = jnp.sort(jnp.abs(votes), descending=True)
        counts = jnp.arange(1, sizes.shape[0] + 1, dtype=votes.dtype)
        thresholds = jnp.cumsum(sizes) / (counts + 1 / (step * number(self.strength, votes)))
        threshold = jnp.maximum(reduce.largest(thresholds), 0.0)
        return jnp.sign(votes) * jnp.maximum(jnp.abs(votes) - threshold, 0.0)

    def is_valid(self) -> Array:
        """Whether the strength is positive and finite."""
        return is_positive(self.strength)


@register
@dataclasses.dataclass(frozen=True)
class UnitSimplex(OfNorm):
    """Nonnegative votes of sum 1, as in LP-Boost. Columns that are not in use get no votes."""

    is_used: Array  # [n] bool

    def best_edge(self, edges: Array) -> Array:
        """The largest signed edge of a column in use."""
        return reduce.largest(jnp.where(self.is_used, edges, -jnp.inf))

    def cost(self, norm: Array) -> Array:
        """0: `proximal` returns only allowed votes."""
        return jnp.zeros_like(norm)

    def conjugate(self, edge: Array) -> Array:
        """The edge itself."""
        return edge

    def best_norm(self, edge: Array) -> Array:
        """The norm [] of all votes: 1."""
        return jnp.ones_like(edge)

    def slope(self, norm: Array) -> Array:
        """The derivative of the cost: 0."""
        return jnp.zeros_like(norm)

    def proximal(self, votes: Array, step: Array) -> Array:
        """The projection onto the simplex."""
        return projection_capped_simplex(votes, jnp.asarray(1.0, votes.dtype), mask=self.is_used)

    def is_valid(self) -> Array:
        """Whether a column is in use."""
        return reduce.any_true(self.is_used)


def unit_ball() -> UnitBall:
    """The paper's constraint |w|_1 <= 1: the default."""
    return UnitBall()


def squared_norm(strength: ArrayLike) -> SquaredNorm:
    """The regulariser strength / 2 * |w|_1^2 instead of the constraint |w|_1 <= 1 (Shalev-Shwartz
    and Singer 2008, Section 6).

    Args:
      strength: [] positive; the larger, the smaller the votes.

    Raises:
      ValueError: if it is not positive and finite.

    >>> import jax.numpy as jnp, jboost
    >>> float(jboost.relaxations.squared_norm(2.0).conjugate(jnp.array(0.5))) >= 0.0625
    True
    """
    return SquaredNorm(positive("strength", strength))


def _either_sign(edges: Array) -> Array:
    return jnp.maximum(reduce.largest(jnp.abs(edges)), 0.0)


def raised(value: Array) -> Array:
    """A cost, raised by its rounding error."""
    limits = jnp.finfo(value.dtype)
    return value * (1 + 4 * limits.eps) + limits.tiny


def norm_bound(votes: Array) -> Array:
    """|votes|_1, [], rounded up."""
    return brackets.bracket_dot(jnp.abs(votes), jnp.ones_like(votes))[1]
