"""The transpose of an operator."""

from __future__ import annotations

import dataclasses
from typing import Any

from jboost.base.records import register
from jboost.base.types import Array
from jboost.operators.convert import as_operator
from jboost.operators.types import Operator


@register
@dataclasses.dataclass(frozen=True)
class Transposed(Operator):
    """The operator with rows and columns exchanged."""

    operator: Operator

    @property
    def shape(self) -> tuple[int, int]:
        """Columns and rows of the operator."""
        rows, columns = self.operator.shape
        return columns, rows

    def matvec(self, vector: Array) -> Array:
        """The operator's `rmatvec`."""
        return self.operator.rmatvec(vector)

    def rmatvec(self, vector: Array) -> Array:
        """The operator's `matvec`."""
        return self.operator.matvec(vector)

    def row_norms(self, weights: Array) -> Array:
        """The operator's `column_norms`."""
        return self.operator.column_norms(weights)

    def column_norms(self, weights: Array) -> Array:
        """The operator's `row_norms`."""
        return self.operator.row_norms(weights)

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """The operator's `bracket_rmatvec`."""
        return self.operator.bracket_rmatvec(vector)

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """The operator's `bracket_matvec`."""
        return self.operator.bracket_matvec(vector)

    def largest_entry(self) -> Array:
        """That of the operator."""
        return self.operator.largest_entry()

    def to_dense(self) -> Array:
        """The transpose of its matrix."""
        return self.operator.to_dense().T


def transposed(operator: Any) -> Operator:
    """The transpose of an operator or a matrix; of a transpose, the operator itself.

    Args:
      operator: [rows, columns], an operator or a matrix.

    Raises:
      ValueError: at trace time, if it is neither.

    >>> import jax.numpy as jnp, jboost
    >>> operator = jboost.operators.transposed(jboost.operators.packed_signs([[1, -1, 1]]))
    >>> operator.shape, operator.matvec(jnp.array([2.0])).tolist()
    ((3, 1), [2.0, -2.0, 2.0])
    """
    operator = as_operator(operator)
    return operator.operator if isinstance(operator, Transposed) else Transposed(operator)
