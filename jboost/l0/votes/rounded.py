"""The vote of the relaxation (18) of Goldberg and Eckstein (2009), approximated by few of its
hypotheses.

    minimise  sum_i weight_i (G_i - H_i v - b)^2  over v >= 0 with few positive entries and b,
    G = H lambda

lambda is the solution of the relaxation. The interior point method gives a central point of all
optimal lambda: its margins are away from their bounds, and it is spread over many hypotheses. v
approximates its scores G on the training examples with few hypotheses, and b is the vote of the two
constants. The active-set method for non-negative least squares (Lawson and Hanson 1974) adds the
hypothesis of largest correlation with the residual, until `max_hypotheses` are in use.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import check, loops, numerics
from jboost.base.numerics import times
from jboost.base.types import Array
from jboost.l0.votes.local_search import FeasibleVote, VoteInstance, evaluate

# A hypothesis is added only if its inner product with the residual exceeds this share of the
# product of the norms of the hypothesis and the scores.
_LEAST_CORRELATION = 1e-3
# A hypothesis counts as constant if its variance is below this share of its mean square.
_LEAST_SPREAD = 1e-5
_RIDGE = 4.0  # rounding units added to the diagonal, as hypotheses may be linearly dependent


@dataclasses.dataclass(frozen=True)
class RelaxedConfig:
    """Static options of the final vote that approximates the vote of the relaxation by few of its
    hypotheses.
    """

    max_hypotheses: int = 12
    """The largest number of hypotheses that vote, without the constants."""

    def __post_init__(self) -> None:
        check.count("config.max_hypotheses", self.max_hypotheses, low=1)


class _Products(NamedTuple):
    """Inner products on the training examples after the projection on the constant is removed."""

    gram: Array  # [n, n] of the hypotheses
    target: Array  # [n] of the hypotheses with the scores
    size: Array  # [] squared norm of the scores


class _Fitted(NamedTuple):
    """The state of the active-set method."""

    coefficients: Array  # [n] not negative
    is_used: Array  # [n] bool
    is_going: Array  # [] bool


def find(instance: VoteInstance, coefficients: Array, *, config: RelaxedConfig) -> FeasibleVote:
    """The approximate vote with its objective of (15).

    Args:
      instance: of (15); its first two columns are the constants +1 and -1.
      coefficients: [n] lambda of the relaxation.
      config: static.
    """
    relaxed = jnp.where(instance.is_column, jnp.maximum(coefficients, 0.0), 0.0)
    one, margins, weights = instance.margins[0], instance.margins[2:], instance.weights
    num_columns = margins.shape[0]
    if num_columns == 0:
        return evaluate(instance, relaxed)
    rows = jnp.concatenate([margins, times(relaxed, instance.margins)[None, :]])
    total = jnp.sum(weights)
    constants = numerics.safe_divide(times(rows, weights * one), total)
    spreads = rows - constants[:, None] * one[None, :]
    inner = times(spreads * weights[None, :], spreads.T)
    products = _Products(inner[:-1, :-1], inner[:-1, -1], inner[-1, -1])
    may_vote = instance.is_column[2:] & (
        jnp.diagonal(products.gram) > _LEAST_SPREAD * times(margins**2, weights)
    )
    size = min(config.max_hypotheses, num_columns)

    first = _Fitted(
        jnp.zeros((num_columns,), margins.dtype), jnp.zeros((num_columns,), bool), jnp.any(may_vote)
    )
    last, _ = loops.bounded_loop(
        lambda now: _grown(products, may_vote, now, size),
        lambda now: now.is_going,
        first,
        max_checks=2 * size,
    )
    constant = constants[-1] - times(last.coefficients, constants[:-1])
    found = jnp.concatenate(
        [jnp.stack([jnp.maximum(constant, 0.0), jnp.maximum(-constant, 0.0)]), last.coefficients]
    )
    undecided = jnp.where(jnp.arange(found.shape[0]) < 2, 0.5, 0.0)
    return evaluate(
        instance,
        jnp.where(jnp.sum(found) > 0, numerics.safe_divide(found, jnp.sum(found)), undecided),
    )


def _grown(products: _Products, may_vote: Array, fitted: _Fitted, size: int) -> _Fitted:
    """Adds the hypothesis of largest correlation with the residual, and drops those whose
    coefficients become negative.
    """
    of_residual = products.target - times(fitted.coefficients, products.gram)
    may_enter = may_vote & ~fitted.is_used
    correlation = jnp.where(
        may_enter,
        of_residual / jnp.sqrt(jnp.where(may_enter, jnp.diagonal(products.gram), 1.0)),
        -jnp.inf,
    )
    best = jnp.argmax(correlation)
    is_new = (
        (jnp.arange(correlation.shape[0]) == best)
        & (correlation[best] > _LEAST_CORRELATION * numerics.root(products.size))
        & (jnp.sum(fitted.is_used) < size)
    )
    refitted = _refitted(products, fitted._replace(is_used=fitted.is_used | is_new), size)
    stays = jnp.any(refitted.is_used & is_new)
    coefficients, is_used = (
        jnp.where(stays, new, old) for new, old in zip(refitted[:2], fitted[:2], strict=True)
    )
    return _Fitted(coefficients, is_used, stays)


def _refitted(products: _Products, fitted: _Fitted, size: int) -> _Fitted:
    """The non-negative least squares over the hypotheses in use. Each step goes towards the
    unconstrained solution until a coefficient is 0, and drops that hypothesis.
    """

    def step(state: _Fitted) -> _Fitted:
        solution = _least_squares(products, state.is_used, size)
        falls = state.is_used & (solution <= 0)
        shares = jnp.where(
            falls, numerics.safe_divide(state.coefficients, state.coefficients - solution), 1.0
        )
        share = jnp.min(shares)
        is_used = state.is_used & ~(falls & (shares <= share))
        moved = state.coefficients + share * (solution - state.coefficients)
        return _Fitted(jnp.where(is_used, moved, 0.0), is_used, jnp.any(falls))

    last, _ = loops.bounded_loop(step, lambda state: state.is_going, fitted, max_checks=size + 1)
    return last


def _least_squares(products: _Products, is_used: Array, size: int) -> Array:
    """The least-squares coefficients [n], of either sign, 0 for hypotheses not in use."""
    indices = jnp.nonzero(is_used, size=size, fill_value=0)[0]
    counts = jnp.arange(size) < jnp.sum(is_used)
    gram = jnp.where(counts[:, None] & counts[None, :], products.gram[indices][:, indices], 0.0)
    diagonal = jnp.diagonal(gram)
    ridge = jnp.where(counts, _RIDGE * jnp.finfo(gram.dtype).eps * diagonal, 1.0)
    solution = jnp.linalg.solve(
        gram + jnp.diag(ridge), jnp.where(counts, products.target[indices], 0.0)
    )
    return (
        jnp.zeros_like(products.target)
        .at[jnp.where(counts, indices, is_used.shape[0])]
        .set(solution, mode="drop")
    )
