"""A matrix that is stored."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, reduce
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.operators import sums
from jboost.operators.types import Operator


@register
@dataclasses.dataclass(frozen=True)
class Dense(Operator):
    """The operator of a stored matrix."""

    matrix: Array  # [rows, columns]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.matrix.shape

    def matvec(self, vector: Array) -> Array:
        """One product."""
        return jnp.matmul(
            self.matrix, sums.cast("vector", vector, self.shape[1]), precision=lax.Precision.HIGHEST
        )

    def rmatvec(self, vector: Array) -> Array:
        """One product."""
        return jnp.matmul(
            sums.cast("vector", vector, self.shape[0]), self.matrix, precision=lax.Precision.HIGHEST
        )

    def row_norms(self, weights: Array) -> Array:
        """One product with the absolute values."""
        return jnp.matmul(
            jnp.abs(self.matrix),
            sums.cast("weights", weights, self.shape[1]),
            precision=lax.Precision.HIGHEST,
        )

    def column_norms(self, weights: Array) -> Array:
        """One product with the absolute values."""
        return jnp.matmul(
            sums.cast("weights", weights, self.shape[0]),
            jnp.abs(self.matrix),
            precision=lax.Precision.HIGHEST,
        )

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits; without rounding where there is none."""
        return brackets.sharp_bracket_dot(
            self.matrix, sums.cast("vector", vector, self.shape[1])[None, :]
        )

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits; without rounding where there is none."""
        return brackets.sharp_bracket_dot(
            self.matrix.T, sums.cast("vector", vector, self.shape[0])[None, :]
        )

    def largest_entry(self) -> Array:
        """The largest absolute value; NaN where an entry is."""
        return reduce.largest_size(self.matrix)

    def to_dense(self) -> Array:
        """The matrix itself."""
        return self.matrix


def dense(matrix: ArrayLike) -> Dense:
    """The operator of a stored matrix.

    Args:
      matrix: [rows, columns], of any real dtype; it is converted to the default float type.

    Raises:
      ValueError: at trace time, if it is not a matrix of numbers.

    >>> import jax.numpy as jnp, jboost
    >>> jboost.operators.dense([[1, 2], [3, 4]]).matvec(jnp.array([1.0, 1.0])).tolist()
    [3.0, 7.0]
    """
    return Dense(sums.cast("matrix", matrix, "rows", "columns"))
