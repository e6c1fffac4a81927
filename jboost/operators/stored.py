"""Matrices stored in fewer bits than the computation uses: a scale times 8-bit integers, or
bfloat16 numbers.

A product converts one block of rows at a time to the default float type, so that the whole matrix
never exists in that type.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import brackets, check, loops, numerics
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.operators import sums
from jboost.operators.types import Operator

DTYPES = ("int8", "bfloat16")
_BLOCK_ENTRIES = 1 << 18  # widened at a time: 1 MB in float32, which a second-level cache holds


@register
@dataclasses.dataclass(frozen=True)
class Stored(Operator):
    """The operator of scale * matrix."""

    matrix: Array  # [rows, columns] int8, or uint16: the bits of bfloat16 numbers
    scale: Array  # [] positive

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.matrix.shape

    def matvec(self, vector: Array) -> Array:
        """One product a block of rows."""
        return self._scaled(
            _times(self.matrix, sums.cast("vector", vector, self.shape[1]), jnp.asarray)
        )

    def rmatvec(self, vector: Array) -> Array:
        """One product a block of rows."""
        return self._scaled(
            _times_transposed(self.matrix, sums.cast("vector", vector, self.shape[0]), jnp.asarray)
        )

    def row_norms(self, weights: Array) -> Array:
        """One product a block of rows, with the absolute values."""
        return self._scaled(
            _times(self.matrix, sums.cast("weights", weights, self.shape[1]), jnp.abs)
        )

    def column_norms(self, weights: Array) -> Array:
        """One product a block of rows, with the absolute values."""
        return self._scaled(
            _times_transposed(self.matrix, sums.cast("weights", weights, self.shape[0]), jnp.abs)
        )

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits; without rounding where there is none."""
        vector = sums.cast("vector", vector, self.shape[1])
        if 0 in self.shape:
            return jnp.zeros((self.shape[0],), vector.dtype), jnp.zeros(
                (self.shape[0],), vector.dtype
            )

        def bracket(matrix: Array, vector: Array) -> tuple[Array, Array]:
            size, count = _blocks(matrix)

            def enter(number: Array, known: tuple[Array, Array]) -> tuple[Array, Array]:
                start, block = sums.block_at(matrix, number, size)
                parts = brackets.sharp_bracket_dot(_widened(block, vector.dtype), vector[None, :])
                low, high = (
                    lax.dynamic_update_slice_in_dim(all_rows, part, start, 0)
                    for all_rows, part in zip(known, parts, strict=True)
                )
                return low, high

            nothing = jnp.zeros((matrix.shape[0],), vector.dtype)
            return loops.fori_loop(0, count, enter, (nothing, nothing))

        return self._scaled_outwards(*sums.by_row(bracket, (self.matrix,), (vector,)))

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits; without rounding where there is none."""
        vector = sums.cast("vector", vector, self.shape[0])
        if 0 in self.shape:
            return jnp.zeros((self.shape[1],), vector.dtype), jnp.zeros(
                (self.shape[1],), vector.dtype
            )

        def of_rows(matrix: Array, vector: Array) -> tuple[Array, Array, Array]:
            size, count = _blocks(matrix)

            def add(number: Array, known: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
                start, block = sums.block_at(matrix, number, size)
                numbers = sums.block_of(vector, number, start, size)
                total, bound, are_exact = brackets.sharp_sums(
                    _widened(block, vector.dtype), numbers[:, None], axis=0
                )
                return known[0] + total, known[1] + bound, known[2] + ~are_exact

            zeros = jnp.zeros((matrix.shape[1],), jnp.dtype("float64"))
            return loops.fori_loop(0, count, add, (zeros, zeros, jnp.zeros(zeros.shape, jnp.int32)))

        def bracket(matrix: Array, vector: Array) -> tuple[Array, Array]:
            total, bound, num_rounded = sums.over_rows(of_rows, (matrix, vector))
            return brackets.round_outwards(
                total, brackets.sharp_slack(bound, num_rounded == 0, matrix.shape[0]), vector.dtype
            )

        return self._scaled_outwards(*numerics.in_64_bits(bracket)(self.matrix, vector))

    def largest_entry(self) -> Array:
        """The largest absolute value, rounded up; NaN where an entry is."""
        dtype = jnp.result_type(float)
        if self.matrix.dtype == jnp.uint16:
            # Without their signs, bfloat16 numbers are ordered as their bits are, and NaN is last.
            largest = _widened(jnp.max(self.matrix & 0x7FFF, initial=0), dtype)
        else:
            low, high = (end(self.matrix, initial=0).astype(dtype) for end in (jnp.min, jnp.max))
            largest = jnp.maximum(-low, high)
        return self._scaled_outwards(largest[None], largest[None])[1][0]

    def columns_at(self, index: Array) -> Array:
        """Some columns, [rows, k] in the default float type, for indices [k] int32 in
        [0, columns).
        """
        return self._scaled(_widened(jnp.take(self.matrix, index, axis=1), jnp.result_type(float)))

    def to_dense(self) -> Array:
        """All entries in the default float type."""
        return self._scaled(_widened(self.matrix, jnp.result_type(float)))

    def _scaled(self, values: Array) -> Array:
        return self.scale.astype(values.dtype) * values

    def _scaled_outwards(self, low: Array, high: Array) -> tuple[Array, Array]:
        scale = self.scale.astype(low.dtype)[None, None]
        return brackets.sharp_bracket_dot(low[:, None], scale)[0], brackets.sharp_bracket_dot(
            high[:, None], scale
        )[1]


def _widened(entries: Array, dtype: Any) -> Array:
    """Entries in the default float type.

    A bfloat16 number is the upper half of a float32. The matrix is stored as bits, because XLA on a
    CPU would convert a whole matrix of dtype bfloat16 before the loop over its blocks.
    """
    if entries.dtype == jnp.uint16:
        return lax.bitcast_convert_type(entries.astype(jnp.uint32) << 16, jnp.float32).astype(dtype)
    return entries.astype(dtype)


def _blocks(matrix: Array) -> tuple[int, int]:
    """The number of rows of a block, and the number of blocks."""
    size = max(1, min(matrix.shape[0], _BLOCK_ENTRIES // max(matrix.shape[1], 1)))
    return size, -(-matrix.shape[0] // size)


def _times(matrix: Array, vector: Array, change: Any) -> Array:
    """The product of the matrix with a vector, after `change` is applied to each entry."""
    if matrix.size == 0:
        return jnp.zeros((matrix.shape[0],), vector.dtype)

    def of_rows(matrix: Array, vector: Array) -> Array:
        size, count = _blocks(matrix)

        def enter(number: Array, known: Array) -> Array:
            start, block = sums.block_at(matrix, number, size)
            return lax.dynamic_update_slice_in_dim(
                known, numerics.times(change(_widened(block, vector.dtype)), vector), start, 0
            )

        return loops.fori_loop(
            0, count, jax.checkpoint(enter), jnp.zeros((matrix.shape[0],), vector.dtype)
        )

    found: Array = sums.by_row(of_rows, (matrix,), (vector,))
    return found


def _times_transposed(matrix: Array, vector: Array, change: Any) -> Array:
    """The product of a vector with the matrix, after `change` is applied to each entry."""
    if matrix.size == 0:
        return jnp.zeros((matrix.shape[1],), vector.dtype)

    def of_rows(matrix: Array, vector: Array) -> Array:
        size, count = _blocks(matrix)

        def add(number: Array, total: Array) -> Array:
            start, block = sums.block_at(matrix, number, size)
            return total + numerics.times(
                sums.block_of(vector, number, start, size), change(_widened(block, vector.dtype))
            )

        return loops.fori_loop(
            0, count, jax.checkpoint(add), jnp.zeros((matrix.shape[1],), vector.dtype)
        )

    found: Array = sums.over_rows(of_rows, (matrix, vector))
    return found


def stored(matrix: ArrayLike, dtype: str = "int8", *, scale: ArrayLike = 1.0) -> Stored:
    """The operator of scale * matrix. Entries are stored in 8 or 16 bits, and products are computed
    in the default float type.

    Integers are stored exactly. bfloat16 has 8 significant bits, so entries are rounded by up to
    2^-9 of their size. All products and bounds are those of the rounded matrix, `to_dense()`. The
    scale is applied to the products.

    Args:
      matrix: [rows, columns]; for "int8", integers in [-128, 127] of any dtype.
      dtype: "int8" or "bfloat16", static.
      scale: [] positive, the factor of the entries.

    Raises:
      ValueError: naming the argument. Entries of a traced matrix that int8 cannot represent are
        clipped and rounded instead.

    >>> import jax.numpy as jnp, jboost
    >>> operator = jboost.operators.stored([[100, -128], [0, 64]], "int8", scale=1 / 128)
    >>> operator.matrix.dtype.name, operator.matvec(jnp.array([0.0, 1.0])).tolist()
    ('int8', [-1.0, 0.5])
    """
    check.choice("dtype", dtype, DTYPES)
    scale = check.number(
        "scale", scale, low=float(jnp.finfo(jnp.result_type(float)).tiny), high=check.LARGEST
    ).astype(jnp.result_type(float))
    is_array = isinstance(matrix, (np.ndarray, jax.Array))
    if (
        is_array
        and dtype == "int8"
        and jnp.ndim(matrix) == 2
        and jnp.result_type(matrix) == jnp.int8
    ):
        return Stored(jnp.asarray(matrix), scale)
    values = check.numeric("matrix", matrix, shape=("rows", "columns"), kinds="fiub")
    if dtype == "bfloat16":
        short = numerics.narrow(values.astype(jnp.result_type(float)), jnp.bfloat16)
        return Stored(lax.bitcast_convert_type(short, jnp.uint16), scale)
    whole = jnp.clip(jnp.round(values.astype(jnp.result_type(float))), -128, 127)
    if not check.are_traced(values):
        _refuse_others(np.asarray(values), np.asarray(whole))
    return Stored(whole.astype(jnp.int8), scale)


def _refuse_others(values: np.ndarray, whole: np.ndarray) -> None:
    is_wrong = values != whole
    if is_wrong.any():
        row, column = (int(part[0]) for part in np.nonzero(is_wrong))
        raise ValueError(
            f"matrix[{row}, {column}] is {values[row, column]}: expected integers in [-128, 127]; "
            "pass integers and their unit as scale, or dtype='bfloat16'"
        )
