"""The first-order method for the relaxation over a working set of cuts: `jboost.lp.first_order`
with an operator that computes the rows as products.

Variables are (lambda, mu, xi), all in [0, 1]. Rows are the margins, sum lambda = 1,
mu - lambda >= 0, and the cuts.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jboost.base import numerics
from jboost.base.records import register
from jboost.base.types import Array
from jboost.l0.relaxation.interior import WorkingSetSolution
from jboost.l0.types import Dual, Held, Primal, RelaxationInstance, WarmStart
from jboost.lp import first_order
from jboost.lp.first_order import FirstOrderConfig
from jboost.lp.problem import LinearProgram
from jboost.lp.types import NO_PROOF

_IDLE = 1e-4  # a cut may be dropped if its dual, in units of the largest weight, is below this


@register
@dataclasses.dataclass(frozen=True)
class ProgramRows:
    """The operator of the rows of the program."""

    margins: Array  # [m, U]
    held: Held  # of K cuts
    stiffness: Array  # [] 1 + rho
    is_real: Array  # [m] bool

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        (num_examples, num_columns), num_cuts = self.margins.shape, self.held.is_used.shape[0]
        return num_examples + 1 + num_columns + num_cuts, 2 * num_columns + num_examples

    def _columns(self, vector: Array) -> list[Array]:
        num_columns = self.margins.shape[1]
        return jnp.split(vector, [num_columns, 2 * num_columns])

    def _rows(self, vector: Array) -> list[Array]:
        num_examples, num_columns = self.margins.shape
        return jnp.split(vector, [num_examples, num_examples + 1, num_examples + 1 + num_columns])

    def _forward(self, vector: Array, margins: Array, sign: float) -> Array:
        coefficients, selected, slacks = self._columns(vector)
        slacks = jnp.where(self.is_real, slacks, 0.0)
        reached = numerics.times(margins, coefficients) + self.stiffness * slacks
        covered = self.held.covered(selected) + self.held.both_ends(slacks)
        return jnp.concatenate(
            [reached, jnp.sum(coefficients)[None], selected + sign * coefficients, covered]
        )

    def _backward(self, vector: Array, margins: Array, sign: float) -> Array:
        weights, convexity, orders, pair_weights = self._rows(vector)
        of_slacks = self.stiffness * weights + self.held.spread(pair_weights, weights.shape[0])
        of_coefficients = numerics.times(weights, margins) + convexity + sign * orders
        return jnp.concatenate(
            [
                of_coefficients,
                orders + self.held.serving(pair_weights),
                jnp.where(self.is_real, of_slacks, 0.0),
            ]
        )

    def matvec(self, vector: Array) -> Array:
        """The matrix times a vector: two products of matrices and a gather."""
        return self._forward(vector, self.margins, -1.0)

    def rmatvec(self, vector: Array) -> Array:
        """The transposed matrix times a vector: two products of matrices and a scatter."""
        return self._backward(vector, self.margins, -1.0)

    def row_norms(self, weights: Array) -> Array:
        """The weighted sums of the absolute entries of each row."""
        return self._forward(weights, jnp.abs(self.margins), 1.0)

    def column_norms(self, weights: Array) -> Array:
        """The weighted sums of the absolute entries of each column."""
        return self._backward(weights, jnp.abs(self.margins), 1.0)


def make_program(instance: RelaxationInstance, held: Held) -> LinearProgram:
    """The program over these cuts. Rows of padding and of empty slots have infinite bounds."""
    dtype = instance.costs.dtype
    is_real = jnp.arange(instance.weights.shape[0]) < instance.num_real
    row_lower = jnp.concatenate(
        [
            jnp.where(is_real, instance.margin, -jnp.inf),
            jnp.ones((1,), dtype),
            jnp.where(instance.is_column, 0.0, -jnp.inf),
            jnp.where(held.is_used, 1.0, -jnp.inf),
        ]
    ).astype(dtype)
    num_examples = instance.weights.shape[0]
    upper = jnp.concatenate([instance.is_column, instance.is_column, is_real]).astype(dtype)
    return LinearProgram(
        objective=jnp.concatenate(
            [jnp.zeros_like(instance.costs), instance.costs, instance.weights]
        ),
        operator=ProgramRows(instance.margins, held, 1 + instance.margin, is_real),
        row_lower=row_lower,
        row_upper=jnp.full_like(row_lower, jnp.inf).at[num_examples].set(1.0),
        lower=jnp.zeros_like(upper),
        upper=upper,
    )


@dataclasses.dataclass(frozen=True)
class FirstOrderMethod:
    """The first-order method for the rounds of cuts; its iterate is a `jboost.lp.WarmStart`."""

    config: FirstOrderConfig
    share_of_gap = 0.01

    def begin(
        self, instance: RelaxationInstance, held: Held, primal: Primal, warm: WarmStart | None
    ) -> first_order.WarmStart:
        """The start: a feasible point with dual 0, or the warm start."""
        num_columns, dtype = instance.costs.shape[0], instance.costs.dtype
        if warm is None:
            dual = jnp.zeros(
                (instance.weights.shape[0] + 1 + num_columns + held.is_used.shape[0],), dtype
            )
            return first_order.WarmStart(jnp.concatenate(primal), dual, jnp.zeros((), dtype))
        weights, pair_weights = warm.dual
        reduced = instance.costs - held.serving(pair_weights)
        orders = jnp.where(instance.is_column, jnp.maximum(reduced, 0.0), 0.0)
        dual = jnp.concatenate([weights, warm.convexity[None], orders, pair_weights])
        return first_order.WarmStart(jnp.concatenate(warm.primal), dual, warm.primal_weight)

    def solve(
        self,
        instance: RelaxationInstance,
        held: Held,
        iterate: first_order.WarmStart,
        *,
        scale: Array,
        tolerance: Array,
    ) -> WorkingSetSolution:
        """Solves over a working set; residuals and gap are relative."""
        last = first_order.run(
            make_program(instance, held),
            tolerance,
            dataclasses.replace(self.config, proof=NO_PROOF),
            iterate,
        )
        found = first_order.warm_start(last)
        primal, dual = self.sides(instance, found)
        importance = jnp.where(dual.pair_weights > _IDLE * instance.unit, dual.pair_weights, 0.0)
        return WorkingSetSolution(found, primal, dual, importance, last.num_iterations)

    def refresh(
        self,
        instance: RelaxationInstance,
        former_slot: Array,
        primal: Primal,
        iterate: first_order.WarmStart,
    ) -> first_order.WarmStart:
        """The same point for the next working set; new cuts have dual 0."""
        first = iterate.dual.shape[0] - former_slot.shape[0]
        kept = iterate.dual[first:].at[former_slot].get(mode="fill", fill_value=0.0)
        return iterate._replace(dual=iterate.dual.at[first:].set(kept))

    def sides(
        self, instance: RelaxationInstance, iterate: first_order.WarmStart
    ) -> tuple[Primal, Dual]:
        """The primal and dual solutions of an iterate."""
        num_examples, num_columns = instance.margins.shape
        primal = Primal(*jnp.split(iterate.primal, [num_columns, 2 * num_columns]))
        return primal, Dual(
            iterate.dual[:num_examples], iterate.dual[num_examples + 1 + num_columns :]
        )

    def convexity(self, instance: RelaxationInstance, iterate: first_order.WarmStart) -> Array:
        """The dual alpha of sum lambda = 1."""
        return iterate.dual[instance.weights.shape[0]]

    def primal_weight(self, iterate: first_order.WarmStart) -> Array:
        """The primal weight after the last restart."""
        return iterate.primal_weight
