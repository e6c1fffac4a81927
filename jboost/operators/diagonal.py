"""The identity, diagonal matrices and matrices of zeros."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jboost.base import brackets, check, reduce
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.operators import sums
from jboost.operators.types import Operator


@register
@dataclasses.dataclass(frozen=True)
class Identity(Operator):
    """The identity."""

    size: int = dataclasses.field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:
        """A square."""
        return self.size, self.size

    def matvec(self, vector: Array) -> Array:
        """The vector itself."""
        return sums.cast("vector", vector, self.size)

    def rmatvec(self, vector: Array) -> Array:
        """The vector itself."""
        return sums.cast("vector", vector, self.size)

    def row_norms(self, weights: Array) -> Array:
        """The weights themselves."""
        return sums.cast("weights", weights, self.size)

    def column_norms(self, weights: Array) -> Array:
        """The weights themselves."""
        return sums.cast("weights", weights, self.size)

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Exact."""
        return self.matvec(vector), self.matvec(vector)

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Exact."""
        return self.matvec(vector), self.matvec(vector)

    def largest_entry(self) -> Array:
        """One."""
        return jnp.ones(())

    def to_dense(self) -> Array:
        """Ones on the diagonal."""
        return jnp.eye(self.size)


@register
@dataclasses.dataclass(frozen=True)
class Diagonal(Operator):
    """A diagonal matrix."""

    values: Array  # [size]

    @property
    def shape(self) -> tuple[int, int]:
        """A square."""
        return self.values.shape[0], self.values.shape[0]

    def matvec(self, vector: Array) -> Array:
        """Entry by entry."""
        return self.values * sums.cast("vector", vector, self.shape[0])

    def rmatvec(self, vector: Array) -> Array:
        """Entry by entry."""
        return self.values * sums.cast("vector", vector, self.shape[0])

    def row_norms(self, weights: Array) -> Array:
        """Entry by entry."""
        return jnp.abs(self.values) * sums.cast("weights", weights, self.shape[0])

    def column_norms(self, weights: Array) -> Array:
        """Entry by entry."""
        return jnp.abs(self.values) * sums.cast("weights", weights, self.shape[0])

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Products in 64 bits."""
        return brackets.bracket_dot(
            self.values[:, None], sums.cast("vector", vector, self.shape[0])[:, None]
        )

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Products in 64 bits."""
        return self.bracket_matvec(vector)

    def largest_entry(self) -> Array:
        """The largest absolute value."""
        return reduce.largest_size(self.values)

    def to_dense(self) -> Array:
        """The values on the diagonal."""
        return jnp.diag(self.values)


@register
@dataclasses.dataclass(frozen=True)
class Zeros(Operator):
    """A matrix of zeros."""

    shape: tuple[int, int] = dataclasses.field(metadata={"static": True})

    def matvec(self, vector: Array) -> Array:
        """Zeros."""
        return jnp.zeros_like(sums.cast("vector", vector, self.shape[1]), shape=(self.shape[0],))

    def rmatvec(self, vector: Array) -> Array:
        """Zeros."""
        return jnp.zeros_like(sums.cast("vector", vector, self.shape[0]), shape=(self.shape[1],))

    def row_norms(self, weights: Array) -> Array:
        """Zeros."""
        return self.matvec(weights)

    def column_norms(self, weights: Array) -> Array:
        """Zeros."""
        return self.rmatvec(weights)

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Exact."""
        return self.matvec(vector), self.matvec(vector)

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Exact."""
        return self.rmatvec(vector), self.rmatvec(vector)

    def largest_entry(self) -> Array:
        """Zero."""
        return jnp.zeros(())

    def to_dense(self) -> Array:
        """Zeros."""
        return jnp.zeros(self.shape)


def identity(size: int) -> Identity:
    """The identity of `size` rows.

    Args:
      size: the number of rows and of columns, static.

    Raises:
      ValueError: if `size` is not a valid size.

    >>> import jboost
    >>> jboost.operators.identity(2).to_dense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check.count("size", size, low=0)
    return Identity(int(size))


def diagonal(values: ArrayLike) -> Diagonal:
    """The square matrix with `values` on its diagonal.

    Args:
      values: [size], of any real dtype; they are converted to the default float type.

    Raises:
      ValueError: at trace time, if `values` is not a vector of numbers.

    >>> import jax.numpy as jnp, jboost
    >>> jboost.operators.diagonal([1, 2]).matvec(jnp.array([3.0, 4.0])).tolist()
    [3.0, 8.0]
    """
    return Diagonal(sums.cast("values", values, "size"))


def zeros(rows: int, columns: int) -> Zeros:
    """A matrix of zeros.

    Args:
      rows: the number of rows, static.
      columns: the number of columns, static.

    Raises:
      ValueError: if one of them is not a valid size.

    >>> import jboost
    >>> jboost.operators.zeros(1, 2).to_dense().tolist()
    [[0.0, 0.0]]
    """
    check.count("rows", rows, low=0)
    check.count("columns", columns, low=0)
    return Zeros((int(rows), int(columns)))
