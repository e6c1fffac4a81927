"""The vote of the relaxation (18) itself, told by few of its hypotheses.

    minimise  sum_i weight_i (G_i - H_i v - b)^2  over v >= 0 with few positive entries and b,
    G = H lambda

lambda is what the relaxation votes: of all that go with its optimum the interior point's is a
central one, away from the margins that it has to keep, and spread over many hypotheses. v repeats
its scores on the training examples as nearly as few hypotheses can; b is what the two constants
vote. It is the active-set method for least squares without negative coefficients (Lawson, Hanson
1974), which takes in the hypothesis most like what is still missing; it stops at the number of
hypotheses allowed.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import check, loops, numerics
from jboost.base.numerics import times
from jboost.base.types import Array
from jboost.l0.votes.local_search import Instance, Vote, evaluate

_ALIKE = 1e-3  # cosine of a hypothesis and what is missing, up to which it says nothing new
_LEAST_SPREAD = 1e-5  # of a hypothesis, as a share of its square, below which it is a constant
_RIDGE = 4.0  # rounding units on the diagonal: hypotheses may depend on one another


@dataclasses.dataclass(frozen=True)
class RelaxedConfig:
    """Static; asks for the vote of the relaxation itself, told by the few of its hypotheses that
    come nearest to it.
    """

    max_hypotheses: int = 12
    """How many may vote, at most, the constants not counted."""

    def __post_init__(self) -> None:
        check.count("config.max_hypotheses", self.max_hypotheses, low=1)


class _Products(NamedTuple):
    """Inner products on the training examples, what a constant can tell of either side left out."""

    gram: Array  # [n, n] of the hypotheses
    target: Array  # [n] with the scores that are sought
    size: Array  # [] of those scores, squared


class _Fitted(NamedTuple):
    """Least squares over few hypotheses."""

    coefficients: Array  # [n] not negative
    is_used: Array  # [n] bool
    is_going: Array  # [] bool


def find(instance: Instance, coefficients: Array, *, config: RelaxedConfig) -> Vote:
    """The vote, with its loss under (15).

    Args:
      instance: of (15); its first two columns are the constants +1 and -1.
      coefficients: [n] lambda of the relaxation.
      config: static.
    """
    sought = jnp.where(instance.is_column, jnp.maximum(coefficients, 0.0), 0.0)
    one, margins, weights = instance.margins[0], instance.margins[2:], instance.weights
    num_columns = margins.shape[0]
    if num_columns == 0:
        return evaluate(instance, sought)
    rows = jnp.concatenate([margins, times(sought, instance.margins)[None, :]])
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
    """With the hypothesis most like what is missing, and without those that it makes negative."""
    missing = products.target - times(fitted.coefficients, products.gram)
    may_enter = may_vote & ~fitted.is_used
    alike = jnp.where(
        may_enter,
        missing / jnp.sqrt(jnp.where(may_enter, jnp.diagonal(products.gram), 1.0)),
        -jnp.inf,
    )
    best = jnp.argmax(alike)
    is_new = (
        (jnp.arange(alike.shape[0]) == best)
        & (alike[best] > _ALIKE * numerics.root(products.size))
        & (jnp.sum(fitted.is_used) < size)
    )
    settled = _settled(products, fitted._replace(is_used=fitted.is_used | is_new), size)
    stays = jnp.any(settled.is_used & is_new)
    coefficients, is_used = (
        jnp.where(stays, new, old) for new, old in zip(settled[:2], fitted[:2], strict=True)
    )
    return _Fitted(coefficients, is_used, stays)


def _settled(products: _Products, fitted: _Fitted, size: int) -> _Fitted:
    """The least squares over the hypotheses in use; those that would become negative on the way
    leave.
    """

    def step(state: _Fitted) -> _Fitted:
        aim = _least_squares(products, state.is_used, size)
        falls = state.is_used & (aim <= 0)
        shares = jnp.where(
            falls, numerics.safe_divide(state.coefficients, state.coefficients - aim), 1.0
        )
        share = jnp.min(shares)
        is_used = state.is_used & ~(falls & (shares <= share))
        moved = state.coefficients + share * (aim - state.coefficients)
        return _Fitted(jnp.where(is_used, moved, 0.0), is_used, jnp.any(falls))

    last, _ = loops.bounded_loop(step, lambda state: state.is_going, fitted, max_checks=size + 1)
    return last


def _least_squares(products: _Products, is_used: Array, size: int) -> Array:
    """The coefficients [n] that come nearest, of either sign, 0 for hypotheses not in use."""
    places = jnp.nonzero(is_used, size=size, fill_value=0)[0]
    counts = jnp.arange(size) < jnp.sum(is_used)
    gram = jnp.where(counts[:, None] & counts[None, :], products.gram[places][:, places], 0.0)
    diagonal = jnp.diagonal(gram)
    ridge = jnp.where(counts, _RIDGE * jnp.finfo(gram.dtype).eps * diagonal, 1.0)
    solution = jnp.linalg.solve(
        gram + jnp.diag(ridge), jnp.where(counts, products.target[places], 0.0)
    )
    return (
        jnp.zeros_like(products.target)
        .at[jnp.where(counts, places, is_used.shape[0])]
        .set(solution, mode="drop")
    )
