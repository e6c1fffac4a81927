"""Diagonal scaling of a linear program from sums of absolute entries.

No single entry is read, so structured operators can be scaled too. The rounds are those of Ruiz
(2001) in the 1-norm, whose limit is that of Sinkhorn and Knopp. The last round is that of Pock and
Chambolle (2011) with alpha = 1: after it no singular value exceeds 1. Then the objective and the
row bounds are scaled to norm at most 1 (Chen, Sun, Yuan, Zhang and Zhao 2024).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import loops, numerics, reduce
from jboost.base.records import register
from jboost.base.types import Array, PyTree
from jboost.lp.problem import LinearProgram, bounds_nothing, row_sizes

Factors = tuple[PyTree, PyTree]


class FirstOrderScaling(NamedTuple):
    """x = columns * scaled x / bound_scale and y = rows * scaled y / objective_scale."""

    rows: Array  # [m] positive; 0 for rows without a finite bound
    columns: Array  # [n] positive; 0 for variables that are fixed at 0
    bound_scale: Array  # [] positive
    objective_scale: Array  # [] positive


@register
@dataclasses.dataclass(frozen=True)
class Scaled:
    """The products of an operator whose rows and columns are scaled."""

    operator: Any  # [m, n]
    rows: Array  # [m]
    columns: Array  # [n]

    def matvec(self, vector: Array) -> Array:
        """One product."""
        return self.rows * self.operator.matvec(self.columns * vector)

    def rmatvec(self, vector: Array) -> Array:
        """One product."""
        return self.columns * self.operator.rmatvec(self.rows * vector)


def equilibrate(problem: LinearProgram, rounds: int) -> FirstOrderScaling:
    """The scaling after `rounds` rounds (static), including the last one.

    Rows and columns without entries keep the factor 1. Rows without a finite bound and variables
    fixed at 0 do not affect the scaling. Few rounds are better than many: many rounds give a row
    with one entry and a row with many entries the same sum.
    """
    operator = problem.operator
    dtype = problem.objective.dtype
    begin = (
        (~bounds_nothing(problem)).astype(dtype),
        ((problem.lower != 0) | (problem.upper != 0)).astype(dtype),
    )

    rows, columns = balanced(
        begin,
        lambda rows, columns: (operator.row_norms(columns), operator.column_norms(rows)),
        rounds,
    )
    return FirstOrderScaling(
        rows,
        columns,
        1 / (1 + _norm(row_sizes(problem) * rows)),
        1 / (1 + _norm(columns * problem.objective)),
    )


def balanced(begin: Factors, norms_of: Callable[..., Factors], rounds: int) -> Factors:
    """Factors of rows and of columns, pytrees, after `rounds` rounds. `norms_of` maps them to the
    1-norms of rows whose columns are scaled, and of columns whose rows are.
    """

    def one_round(_: Any, factors: Factors) -> Factors:
        norms = jax.tree.map(jnp.multiply, factors, norms_of(*factors))
        scaled: Factors = jax.tree.map(
            lambda factor, norm: factor * numerics.inverse_root(norm), factors, norms
        )
        return scaled

    return loops.fori_loop(0, rounds, one_round, begin)


def _norm(vector: Array) -> Array:
    """The Euclidean norm [], computed without overflow of the squares."""
    size = jnp.maximum(reduce.largest(jnp.abs(vector)), 0.0)
    unit = jnp.where(size > 0, size, 1.0)
    return size * jnp.sqrt(reduce.total((vector / unit) ** 2))


def scale(problem: LinearProgram, scaling: FirstOrderScaling) -> LinearProgram:
    """The scaled program. Its operator supports only the two products."""
    return LinearProgram(
        scaling.objective_scale * scaling.columns * problem.objective,
        Scaled(problem.operator, scaling.rows, scaling.columns),
        _times(scaling.bound_scale * scaling.rows, problem.row_lower),
        _times(scaling.bound_scale * scaling.rows, problem.row_upper),
        _times(numerics.safe_divide(scaling.bound_scale, scaling.columns), problem.lower),
        _times(numerics.safe_divide(scaling.bound_scale, scaling.columns), problem.upper),
    )


def _times(factors: Array, bounds: Array) -> Array:
    """The scaled bounds; infinite ones stay infinite."""
    return jnp.where(jnp.isinf(bounds), bounds, factors * bounds)
