"""A vote with room to the margin: least hinge loss over the columns that the relaxation (18) selects, on few of them.

    minimise  sum_i weight_i [rho - y_i H_i lambda]_+  over lambda >= 0, sum lambda = 1, lambda_u = 0 where mu_u = 0

Many lambdas go with one optimum of (18), and which one is taken decides how the vote fares on new examples. The least of (15) spends as few
hypotheses as it can; this one sees to the margins, at the price of more of them. It is a vertex: votes leave it one by one, the least first, while
the hinge loss stays near its best.

With shares p_i of the weights as caps, formulation (3) of LP-Boost has this optimum where one example more has margin rho whatever the votes are:
with that one below rho nothing is gained by a larger rho. So margins are taken less rho, and the example more is a zero.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import check, loops, numerics
from jboost.base.types import Array
from jboost.l0.integer import Instance, Vote, evaluate
from jboost.lp import margin_simplex
from jboost.lp.margin_simplex import SimplexConfig

_SELECTED = 1e-4  # mu of a column that has a part in the relaxation
_AHEAD = 1e-3  # of rho, by which margins are to exceed it: examples that lie on it are not errors by rounding
_TOLERANCE = 1e-6  # of the hinge loss, as a share of the weight
_DUST = 1e-7  # a vote that is none


@dataclasses.dataclass(frozen=True)
class HingeConfig:
    """Static; asks for the vote of least hinge loss over the columns that the relaxation selects."""

    spare: float = 0.05
    """The share of the hinge loss, of one example at margin 0 at least, that may be given up for fewer hypotheses."""
    max_iterations: int = 10_000
    """Pivots of the simplex method, at most, for one set of columns."""

    def __post_init__(self) -> None:
        if not isinstance(self.spare, (int, float)) or not 0 <= self.spare < math.inf:
            raise ValueError(f"config.spare is {self.spare}: a number from 0 up is wanted")
        check.count("config.max_iterations", self.max_iterations, low=1)


class _State(NamedTuple):
    coefficients: Array  # [n] the votes so far
    limit: Array  # [] what their hinge loss may come to
    is_next: Array  # [n] bool, columns to try
    is_going: Array  # [] bool


def find(instance: Instance, selected: Array, *, config: HingeConfig, companions: tuple[int, ...] = ()) -> Vote:
    """The vote, with its loss under (15).

    Args:
      instance: of (15).
      selected: [n] mu of the relaxation.
      config: static.
      companions: columns that cost little, static: they may always vote, and are not taken away.
    """
    dtype, num_columns = instance.margins.dtype, instance.margins.shape[0]
    margin = (1 + _AHEAD) * instance.margin
    total = jnp.sum(instance.weights)
    shares = numerics.safe_divide(instance.weights, jnp.full_like(instance.weights, total))
    counted = shares > 0
    columns = jnp.concatenate([jnp.zeros((num_columns, 1), dtype), jnp.where(counted[None, :], instance.margins - margin, 0.0)], axis=1)
    caps = jnp.concatenate([jnp.ones((1,), dtype), shares])
    is_companion = jnp.zeros((num_columns,), bool).at[jnp.array(companions, int)].set(True) & instance.is_column
    one_example = margin * jnp.max(shares)

    def try_columns(state: _State) -> _State:
        settings = SimplexConfig(max_iterations=config.max_iterations)
        tolerance = jnp.asarray(_TOLERANCE, dtype)
        found = margin_simplex.solve(columns, state.is_next, caps, basis=None, tolerance=tolerance, config=settings).votes
        reached = jnp.matmul(found, columns[:, 1:], precision=lax.Precision.HIGHEST)
        loss = jnp.sum(shares * jnp.maximum(-reached, 0.0))
        limit = jnp.where(state.limit < jnp.inf, state.limit, loss + config.spare * jnp.maximum(loss, one_example))
        pays = loss <= limit
        votes = (found > _DUST) & ~is_companion
        least = jnp.argmin(jnp.where(votes, found, jnp.inf))
        is_next = (votes | is_companion) & (jnp.arange(num_columns) != least)
        return _State(jnp.where(pays, found, state.coefficients), limit, is_next, pays & jnp.any(is_next) & jnp.any(votes))

    is_first = ((selected > _SELECTED) & instance.is_column) | is_companion
    nothing = _State(jnp.zeros((num_columns,), dtype), jnp.full((), jnp.inf, dtype), is_first, jnp.any(is_first))
    first = numerics.start_loop_beside(nothing, instance.margins)
    last, _ = loops.bounded_loop(try_columns, lambda state: state.is_going, first, max_checks=num_columns)
    return evaluate(instance, jnp.where(last.coefficients > _DUST, last.coefficients, 0.0))
