"""A sparse matrix, from the formats of `jax.experimental.sparse`."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.sparse import BCOO, BCSR, COO, CSC, CSR

from jboost.base import brackets, numerics, reduce
from jboost.base.records import register
from jboost.base.types import Array
from jboost.operators import sums
from jboost.operators.types import Operator


@register
@dataclasses.dataclass(frozen=True)
class Sparse(Operator):
    """The operator of a list of entries. At most one entry of each position may be nonzero, so that
    interval bounds are those of the exact matrix. `sparse` ensures this.
    """

    data: Array  # [entries], 0 for padding
    rows: Array  # [entries] int32
    columns: Array  # [entries] int32
    shape: tuple[int, int] = dataclasses.field(metadata={"static": True})

    def matvec(self, vector: Array) -> Array:
        """A gather and a sum of segments."""
        return self._sum_rows(self.data * sums.cast("vector", vector, self.shape[1])[self.columns])

    def rmatvec(self, vector: Array) -> Array:
        """A gather and a sum of segments."""
        return self._sum_columns(self.data * sums.cast("vector", vector, self.shape[0])[self.rows])

    def row_norms(self, weights: Array) -> Array:
        """A gather and a sum of segments."""
        return self._sum_rows(
            jnp.abs(self.data) * sums.cast("weights", weights, self.shape[1])[self.columns]
        )

    def column_norms(self, weights: Array) -> Array:
        """A gather and a sum of segments."""
        return self._sum_columns(
            jnp.abs(self.data) * sums.cast("weights", weights, self.shape[0])[self.rows]
        )

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits."""
        return _bracket(
            self.data,
            sums.cast("vector", vector, self.shape[1])[self.columns],
            self.rows,
            self.shape[0],
        )

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits."""
        return _bracket(
            self.data,
            sums.cast("vector", vector, self.shape[0])[self.rows],
            self.columns,
            self.shape[1],
        )

    def largest_entry(self) -> Array:
        """The largest absolute value."""
        return reduce.largest_size(self.data)

    def to_dense(self) -> Array:
        """One scatter."""
        return jnp.zeros(self.shape, self.data.dtype).at[self.rows, self.columns].add(self.data)

    def _sum_rows(self, terms: Array) -> Array:
        return jax.ops.segment_sum(terms, self.rows, num_segments=self.shape[0])

    def _sum_columns(self, terms: Array) -> Array:
        return jax.ops.segment_sum(terms, self.columns, num_segments=self.shape[1])


def _bracket(
    data: Array, factors: Array, segments: Array, num_segments: int
) -> tuple[Array, Array]:
    def bracket(data: Array, factors: Array, segments: Array) -> tuple[Array, Array]:
        def reduce(terms: Array) -> Array:
            return jax.ops.segment_sum(terms, segments, num_segments=num_segments)

        return brackets.sum_products(
            brackets.each_by(reduce),
            reduce(brackets.is_nonzero(data).astype(jnp.float64)),
            data,
            factors,
        )

    return numerics.in_64_bits(bracket)(data, factors, segments)


def sparse(bcoo: Any) -> Sparse:
    """The operator of a sparse matrix.

    Indices outside the matrix are padding, as in JAX. Entries with the same position are added
    once, in 64 bits, and rounded. The operator is the matrix of these sums. The number of stored
    entries does not change.

    Args:
      bcoo: [rows, columns] a `jax.experimental.sparse.BCOO` without batched or dense dimensions, or
        a BCSR, COO, CSR or CSC.

    Raises:
      ValueError: at trace time, if `bcoo` is not such a matrix.

    >>> import jax.numpy as jnp, jboost
    >>> from jax.experimental.sparse import BCOO
    >>> jboost.operators.sparse(BCOO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))).matvec(
    ...     jnp.array([1.0, 10.0])
    ... ).tolist()
    [20.0, 3.0]
    """
    bcoo = _listed(bcoo)
    if bcoo.ndim != 2 or bcoo.n_batch or bcoo.n_dense:
        raise ValueError(
            f"bcoo has shape {list(bcoo.shape)}, n_batch={bcoo.n_batch}, n_dense={bcoo.n_dense}:"
            " expected a matrix without such dimensions"
        )
    num_rows, num_columns = bcoo.shape
    data = sums.cast("bcoo.data", bcoo.data, "entries")
    rows, columns = bcoo.indices[:, 0], bcoo.indices[:, 1]
    inside = (rows >= 0) & (rows < num_rows) & (columns >= 0) & (columns < num_columns)
    data = jnp.where(inside, data, 0)
    rows, columns = (
        jnp.where(inside, rows, 0).astype(jnp.int32),
        jnp.where(inside, columns, 0).astype(jnp.int32),
    )
    if num_rows == 0 or num_columns == 0:
        data, rows, columns = data[:0], rows[:0], columns[:0]
    if any(isinstance(part, jax.core.Tracer) for part in (data, rows, columns)):
        data = _add_traced_duplicates(data, rows, columns)
    else:
        data = _add_duplicates(
            data, np.asarray(rows).astype(np.int64) * num_columns + np.asarray(columns)
        )
    return Sparse(data, rows, columns, (num_rows, num_columns))


def _listed(matrix: Any) -> BCOO:
    """The same matrix as a BCOO."""
    if isinstance(matrix, BCSR):
        return matrix.to_bcoo()
    if isinstance(matrix, COO):
        return BCOO((matrix.data, jnp.stack([matrix.row, matrix.col], axis=1)), shape=matrix.shape)
    if isinstance(matrix, CSR | CSC):
        lines = jnp.repeat(
            jnp.arange(len(matrix.indptr) - 1),
            jnp.diff(matrix.indptr),
            total_repeat_length=len(matrix.data),
        )
        places = (lines, matrix.indices) if isinstance(matrix, CSR) else (matrix.indices, lines)
        return BCOO((matrix.data, jnp.stack(places, axis=1)), shape=matrix.shape)
    if not isinstance(matrix, BCOO):
        raise ValueError(
            f"bcoo is a {type(matrix).__name__}: expected a jax.experimental.sparse.BCOO;"
            " BCOO.fromdense makes one"
        )
    return matrix


def _add_duplicates(data: Array, places: np.ndarray) -> Array:
    _, first, inverse = np.unique(places, return_index=True, return_inverse=True)
    if len(first) == len(places):
        return data
    added = np.zeros(len(places), np.float64)
    added[first] = np.bincount(
        inverse, weights=np.asarray(data).astype(np.float64), minlength=len(first)
    )
    return jnp.asarray(added, data.dtype)


def _add_traced_duplicates(data: Array, rows: Array, columns: Array) -> Array:
    """The data with the sum of each position at its first entry, and 0 at the others.

    The sums are computed in 64 bits, which JAX cannot differentiate here. The derivative is that of
    sums in the type of the data.
    """
    order = jnp.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    is_first = jnp.concatenate(
        [jnp.ones((1,), bool), (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])]
    )[: data.shape[0]]
    places = jnp.cumsum(is_first) - 1

    def add(data: Array) -> Array:
        return jax.ops.segment_sum(
            data, places, num_segments=data.shape[0], indices_are_sorted=True
        )

    differentiable = add(data[order])
    added = numerics.in_64_bits(lambda wide: add(brackets.widen(wide)).astype(data.dtype))(
        data[order]
    )
    differentiable = jnp.where(jnp.isfinite(differentiable), differentiable, 0.0)
    added = added + (differentiable - lax.stop_gradient(differentiable))
    return jnp.zeros_like(data).at[order].set(jnp.where(is_first, added[places], 0))
