"""The cost of a monomial of order k, in units of a misclassified example: the c_u of Goldberg and
Eckstein (2009).

A cost function maps (orders [D], num_attributes, num_examples, max_order) to costs [D]. `mdl`,
`rademacher` and `by_order` return cost functions. Any other function with this signature can be
used. Define it at module level, so that equal learners compare equal.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma

from jboost.base import check, derivatives, loops
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike


class CostFunction(Protocol):
    """Costs by order."""

    def __call__(
        self, orders: Array, num_attributes: int, num_examples: Array, max_order: int
    ) -> Array:
        """Costs [D] of orders [D]."""


@dataclasses.dataclass(frozen=True)
class OwnCost:
    """Wraps a cost function in a dataclass, because a bare function would be taken for an array."""

    function: CostFunction

    def __call__(
        self, orders: Array, num_attributes: int, num_examples: Array, max_order: int
    ) -> Array:
        """Costs [D] of orders [D]."""
        return self.function(orders, num_attributes, num_examples, max_order)


register(OwnCost, static=("function",))


def log_binomial(num_attributes: ArrayLike, orders: Array) -> Array:
    """Natural logarithm of the number of ways to choose `orders` [D] of N attributes, computed
    factor by factor. Orders must be at most N. The derivative in N is that of the gamma function.
    """
    size = jnp.asarray(num_attributes, jnp.result_type(float))
    found: Array = derivatives.define(_log_binomial, _change_of_log_binomial)(
        size, jnp.asarray(orders, jnp.int32)
    )
    return found


@jax.jit  # a loop outside of compiled programs is compiled in every call
def _log_binomial(size: Array, orders: Array) -> Array:
    dtype = size.dtype

    def multiply(number: Array, total: Array) -> Array:
        factor = jnp.maximum(size - number, 1) / (number + 1).astype(dtype)
        return total + jnp.where(number < orders, jnp.log(factor), 0.0)

    return loops.fori_loop(0, jnp.max(orders, initial=0), multiply, jnp.zeros(orders.shape, dtype))


def _change_of_log_binomial(
    arguments: tuple[Array, Array], tangents: tuple[Array, Any], _: Array
) -> Array:
    size, orders = arguments
    # orders above N count as N, so that nothing masked later is NaN
    rest = size - jnp.minimum(orders.astype(size.dtype), size)
    return tangents[0] * (digamma(size + 1) - digamma(rest + 1))


def _where_there_are_any(costs: Array, orders: Array, num_attributes: ArrayLike) -> Array:
    """Costs [D] of orders [D], +inf for those above the number of attributes."""
    return jnp.where(jnp.asarray(orders) <= jnp.asarray(num_attributes), costs, jnp.inf)


@register
@dataclasses.dataclass(frozen=True)
class MDL:
    """(28): (k + log2 C(N, k) + log2 K) / log2 M + kappa."""

    kappa: ArrayLike
    num_attributes: ArrayLike | None = None
    num_examples: ArrayLike | None = None

    @functools.partial(jax.jit, static_argnames="max_order")
    def __call__(
        self, orders: Array, num_attributes: ArrayLike, num_examples: ArrayLike, max_order: int
    ) -> Array:
        """Costs [D] of orders [D]."""
        num_attributes = num_attributes if self.num_attributes is None else self.num_attributes
        num_examples = num_examples if self.num_examples is None else self.num_examples
        bits = (
            jnp.asarray(orders, jnp.result_type(float))
            + log_binomial(num_attributes, orders) / math.log(2)
            + math.log2(max(max_order, 1))
        )
        return _where_there_are_any(
            bits / jnp.log2(jnp.maximum(num_examples, 2)) + self.kappa, orders, num_attributes
        )


@register
@dataclasses.dataclass(frozen=True)
class Rademacher:
    """scale sqrt(2 M ln(2^(k+1) C(N, k))): M times the bound of Massart's lemma on the Rademacher
    complexity of the monomials of order k.
    """

    scale: ArrayLike
    num_attributes: ArrayLike | None = None
    num_examples: ArrayLike | None = None

    @functools.partial(jax.jit, static_argnames="max_order")
    def __call__(
        self, orders: Array, num_attributes: ArrayLike, num_examples: ArrayLike, max_order: int
    ) -> Array:
        """Costs [D] of orders [D]."""
        del max_order
        num_attributes = num_attributes if self.num_attributes is None else self.num_attributes
        num_examples = num_examples if self.num_examples is None else self.num_examples
        size = (jnp.asarray(orders, jnp.result_type(float)) + 1) * math.log(2) + log_binomial(
            num_attributes, orders
        )
        return _where_there_are_any(
            self.scale * jnp.sqrt(2 * num_examples * size), orders, num_attributes
        )


@register
@dataclasses.dataclass(frozen=True)
class ByOrder:
    """Costs from a table, whatever the data."""

    table: Array  # [K] of the orders 1 to K

    def __call__(
        self, orders: Array, num_attributes: ArrayLike, num_examples: ArrayLike, max_order: int
    ) -> Array:
        """Costs [D] of orders [D], from 1 up; +inf for those that the table does not have."""
        del num_examples, max_order
        orders = jnp.asarray(orders)
        costs = jnp.where(
            orders <= self.table.shape[0], self.table.at[orders - 1].get(mode="clip"), jnp.inf
        )
        return _where_there_are_any(costs, orders, num_attributes)


def by_order(table: ArrayLike) -> ByOrder:
    """Costs by the number of literals, such as a multiple of
    `jboost.monomials.rademacher_complexity`, which sees the data.

    Args:
      table: [K] the costs of the orders 1 to K, not negative; higher orders are not allowed.

    Raises:
      ValueError: for an empty table, or a number below 0.

    >>> import jax.numpy as jnp
    >>> from jboost.monomials import costs
    >>> costs.by_order([1.0, 2.5])(jnp.array([2, 1, 3]), 8, 100, 3).tolist()
    [2.5, 1.0, inf]
    """
    return ByOrder(check.numbers("table", table, low=0))


def mdl(
    kappa: ArrayLike = 1.5,
    *,
    num_attributes: ArrayLike | None = None,
    num_examples: ArrayLike | None = None,
) -> MDL:
    """The description length of a monomial in units of that of a misclassified example: (28) of
    Goldberg and Eckstein (2009).

    Args:
      kappa: [] the cost of the coefficient's bits; in [1 + 1 / M, 2] in the paper.
      num_attributes: [] N, if some columns of the features are padding; None for all columns.
      num_examples: [] M, if a row represents several examples (`jboost.data.merging`); None for the
        number of rows.

    Raises:
      ValueError: naming the argument, for a number below 0.

    >>> import jax.numpy as jnp
    >>> from jboost.monomials import costs
    >>> [round(float(cost), 3) for cost in costs.mdl(1.5)(jnp.array([1]), 8, 16, 1)]
    [2.5]
    """
    return MDL(check.number("kappa", kappa, low=0), *_counts(num_attributes, num_examples))


def _counts(
    num_attributes: ArrayLike | None, num_examples: ArrayLike | None
) -> tuple[Array | None, Array | None]:
    named = {"num_attributes": num_attributes, "num_examples": num_examples}
    one, other = (
        None if value is None else check.number(name, value, low=0) for name, value in named.items()
    )
    return one, other


def rademacher(
    scale: ArrayLike = 0.05,
    *,
    num_attributes: ArrayLike | None = None,
    num_examples: ArrayLike | None = None,
) -> Rademacher:
    """A cost that is proportional to a bound of the Rademacher complexity of the monomials of an
    order (Bartlett and Mendelson 2002), by Massart's lemma.

    Args:
      scale: [] the factor of the bound.
      num_attributes: [] as for `mdl`.
      num_examples: [] as for `mdl`.

    Raises:
      ValueError: naming the argument, for a number below 0.

    >>> import jax.numpy as jnp
    >>> from jboost.monomials import costs
    >>> [round(float(cost), 3) for cost in costs.rademacher(0.1)(jnp.array([1, 2]), 8, 100, 2)]
    [2.633, 3.29]
    """
    return Rademacher(check.number("scale", scale, low=0), *_counts(num_attributes, num_examples))
