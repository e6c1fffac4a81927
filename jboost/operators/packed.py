"""Matrices of signs, stored with one or two bits per entry.

A float32 matrix of signs has one bit of information in every 32 bits. Packed, a game of 1e6 x 1e3
takes 125 MB instead of 4 GB.

Products process eight columns at a time (Arlazarov, Dinic, Kronrod and Faradzev 1970, "four
Russians"). A product with x first makes a table of the 256 signed sums of x over each group of
eight columns. A row then needs one look-up per byte. The product with y from the left is the
adjoint: y_i is added to one bin per byte, and the 256 bins of a group of eight columns are
multiplied with the signs that they represent. Both loop over blocks of rows. On a CPU each takes at
least one cache access per byte, that is, one for eight entries. A dense product in float32 reads
four bytes of memory per entry.

Measured on two cores of an AMD EPYC that other work shared (`python -m benchmarks.packed_games`):
with 1e6 x 1e3 entries look-ups took 0.27 s and bins 0.49 s, beside 0.28 s and 1.12 s of the dense
products; with 1e5 x 1e3, 23 ms and 42 ms beside 24 ms and 39 ms. That is 2.2 ns a look-up and 3.9
ns an addition. The memory that is read would take 9 ms at the 14 GB/s of the dense product with x:
both are bound by instructions. Alternatives were slower. With 2e5 x 1e3 entries, unpacking to
floats for a matrix product took 180 to 370 ms each way, signs set by exclusive or and summed in the
same loop 150 to 310 ms, and tables over transposed groups of eight rows 210 to 590 ms; look-ups
took 50 ms and bins 126 ms. On a GPU the bins are added by atomic operations, in no fixed order;
that has not been measured.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import brackets, check, loops, numerics, reduce
from jboost.base.records import register
from jboost.base.types import Array
from jboost.operators import sums
from jboost.operators.types import Operator

_BITS = 8
_VALUES = 1 << _BITS  # of a byte
# Look-ups of a block: 1 MB of indices and 1 MB of numbers, what a second-level cache holds (by
# trial on a CPU: four times as many took 1.5 times as long).
_LOOKUPS = 1 << 18
# Rows of a block: enough to pay for the table of a block's bins, few enough that sums of equal
# terms in float32 stay within 1e-4 of themselves.
_FEWEST_ROWS, _MOST_ROWS = 256, 2048
_HOST_ENTRIES = 1 << 24  # of a block that is packed on the host
# [256, 8]
_BIT_OF = np.unpackbits(np.arange(_VALUES, dtype=np.uint8)[:, None], axis=1, bitorder="little")


@register
@dataclasses.dataclass(frozen=True)
class PackedSigns(Operator):
    """A matrix of -1 and +1, or of -1, 0 and +1; bit b of byte k belongs to column 8 k + b.

    Without zeros a set bit stands for +1. With them each row has its bits for +1 first and those
    for -1 after them.
    """

    # [rows, planes * ceil(columns / 8)] uint8; one plane, or two where zeros are allowed
    bits: Array
    largest: Array  # [] 1; inf if a traced matrix had entries other than -1, 0 and +1
    num_columns: int = dataclasses.field(metadata={"static": True})
    has_zeros: bool = dataclasses.field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.bits.shape[0], self.num_columns

    def matvec(self, vector: Array) -> Array:
        """One look-up per byte.

        Integers are summed in int32, which is exact below 2^31, and the result is int32. Other
        numbers are summed in the default float type.
        """
        return _look_up(
            self.bits,
            self._tables(sums.integers_or_floats("vector", vector, self.shape[1]), self._values()),
        )

    def rmatvec(self, vector: Array) -> Array:
        """One addition per byte; integers as in `matvec`."""
        return self._weigh(sums.integers_or_floats("vector", vector, self.shape[0]), self._values())

    def row_norms(self, weights: Array) -> Array:
        """One look-up per byte; without zeros, the sum of the weights."""
        weights = sums.cast("weights", weights, self.shape[1])
        if not self.has_zeros:
            return jnp.broadcast_to(numerics.precise_sum(weights), self.shape[:1])
        return _look_up(self.bits, self._tables(weights, np.abs(self._values())))

    def column_norms(self, weights: Array) -> Array:
        """One addition per byte; without zeros, the sum of the weights."""
        weights = sums.cast("weights", weights, self.shape[0])
        if not self.has_zeros:
            return jnp.broadcast_to(numerics.precise_sum(weights), self.shape[1:])
        return self._weigh(weights, np.abs(self._values()))

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits; without rounding where there is none."""
        vector = sums.cast("vector", vector, self.shape[1])

        def bracket(operator: PackedSigns, vector: Array) -> tuple[Array, Array]:
            total = _look_up(
                operator.bits, operator._tables(brackets.widen(vector), operator._values())
            )
            slack = brackets.slack_of_signed(vector, operator._sum_row_sizes)
            return brackets.round_outwards(total, slack, vector.dtype)

        return numerics.in_64_bits(bracket)(self, vector)

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits; without rounding where there is none."""
        vector = sums.cast("vector", vector, self.shape[0])

        def bracket(operator: PackedSigns, vector: Array) -> tuple[Array, Array]:
            total = operator._weigh(brackets.widen(vector), operator._values())
            slack = brackets.slack_of_signed(vector, operator._sum_column_sizes)
            return brackets.round_outwards(total, slack, vector.dtype)

        return numerics.in_64_bits(bracket)(self, vector)

    def largest_entry(self) -> Array:
        """One, even for a matrix without entries."""
        return self.largest

    def columns_at(self, index: Array) -> Array:
        """Some columns, [rows, k] in the default float type, for indices [k] int32 in
        [0, columns).
        """
        byte, bit = index // _BITS, (index % _BITS).astype(jnp.uint8)
        width = _num_bytes(self.num_columns)
        parts = [
            (jnp.take(self.bits, byte + plane * width, axis=1) >> bit[None, :]) & 1
            for plane in range(len(self._values()))
        ]
        dtype = jnp.result_type(float)
        pairs = zip(parts, self._values(), strict=True)
        return sum(
            (
                jnp.where(part == 1, dtype.type(high), dtype.type(low))
                for part, (low, high) in pairs
            ),
            jnp.zeros((), dtype),
        )

    def to_dense(self) -> Array:
        """All entries unpacked, in the default float type."""
        return self.columns_at(jnp.arange(self.num_columns, dtype=jnp.int32))

    def _values(self) -> np.ndarray:
        """The contributions of a cleared and of a set bit to an entry, [planes, 2]."""
        return np.array([[0, 1], [0, -1]] if self.has_zeros else [[-1, 1]])

    def _patterns(self, values: np.ndarray, dtype: Any) -> Array:
        """The contributions of the bits of each byte, [planes, 256, 8]."""
        return jnp.asarray(
            np.stack([np.where(_BIT_OF == 1, high, low) for low, high in values]), dtype
        )

    def _sum_row_sizes(self, sizes: Array) -> Array:
        """Sums [rows] of sizes [columns] over the nonzero entries of each row. Without zeros, all
        sums are equal and the result is [].
        """
        if not self.has_zeros:
            return reduce.total(sizes)
        return _look_up(self.bits, self._tables(sizes, np.abs(self._values())))

    def _sum_column_sizes(self, sizes: Array) -> Array:
        """Sums [columns] of sizes [rows] over the nonzero entries of each column. Without zeros,
        all sums are equal and the result is [].
        """
        return self._weigh(sizes, np.abs(self._values())) if self.has_zeros else reduce.total(sizes)

    def _tables(self, vector: Array, values: np.ndarray) -> Array:
        """The sums over each group of eight columns for every value of a byte, [256, bytes of a
        row].
        """
        groups = jnp.pad(vector, (0, -self.num_columns % _BITS)).reshape(-1, _BITS)
        patterns = self._patterns(values, vector.dtype)
        tables = numerics.times(patterns.reshape(-1, _BITS), groups.T).reshape(
            len(values), _VALUES, -1
        )
        return jnp.moveaxis(tables, 0, 1).reshape(_VALUES, -1)

    def _weigh(self, vector: Array, values: np.ndarray) -> Array:
        """The sums over the rows, [columns]."""
        num_rows, num_columns = self.shape
        if num_rows == 0 or num_columns == 0:
            return jnp.zeros((num_columns,), vector.dtype)
        found: Array = sums.over_rows(
            functools.partial(self._weigh_rows, values), (self.bits, vector)
        )
        return found.reshape(-1)[:num_columns]

    def _weigh_rows(self, values: np.ndarray, bits: Array, vector: Array) -> Array:
        """The sums over some rows, [bytes of a plane, 8]."""
        num_rows, width = bits.shape
        size, count = _blocks(num_rows, width)
        first_bins = _VALUES * lax.iota(jnp.int32, width)
        patterns = self._patterns(values, vector.dtype)

        def add(number: Array, total: Array) -> Array:
            start, rows = sums.block_at(bits, number, size)
            numbers = sums.block_of(vector, number, start, size)
            bins = jnp.zeros((_VALUES * width,), vector.dtype)
            index = rows.astype(jnp.int32) + first_bins[None, :]
            bins = bins.at[index].add(
                jnp.broadcast_to(numbers[:, None], index.shape), mode="promise_in_bounds"
            )
            parts = bins.reshape(len(values), -1, _VALUES)
            return total + sum(
                numerics.times(part, pattern) for part, pattern in zip(parts, patterns, strict=True)
            )

        start = jnp.zeros((_num_bytes(self.num_columns), _BITS), vector.dtype)
        return loops.fori_loop(0, count, jax.checkpoint(add), start)


def _look_up(bits: Array, tables: Array) -> Array:
    """The sum over the bytes of each row of their entries in the tables [256, bytes], [rows]."""
    if bits.size == 0:
        return jnp.zeros(bits.shape[:1], tables.dtype)
    found: Array = sums.by_row(_look_up_rows, (bits,), (tables,))
    return found


def _look_up_rows(bits: Array, tables: Array) -> Array:
    num_rows, width = bits.shape
    start = jnp.zeros((num_rows,), tables.dtype)
    size, count = _blocks(num_rows, width)

    def enter(number: Array, known: Array) -> Array:
        start, rows = sums.block_at(bits, number, size)
        found = jnp.take_along_axis(
            tables, rows.astype(jnp.int32), axis=0, mode="promise_in_bounds"
        )
        return lax.dynamic_update_slice_in_dim(
            known, jnp.sum(found, axis=1, dtype=tables.dtype), start, 0
        )

    return loops.fori_loop(0, count, jax.checkpoint(enter), start)


def _blocks(num_rows: int, width: int) -> tuple[int, int]:
    """The number of rows of a block, and the number of blocks. The last block may overlap the one
    before.
    """
    size = min(num_rows, max(_FEWEST_ROWS, min(_MOST_ROWS, _LOOKUPS // width)))
    return size, -(-num_rows // size)


def _num_bytes(num_columns: int) -> int:
    return -(-num_columns // _BITS)


# --- packing
# ---  ---------------------------------------------------------------------------------------------


def packed_signs(matrix_or_blocks: Any, *, zeros: bool | None = None) -> PackedSigns:
    """The operator of a matrix of signs, with one bit per entry, or two if entries may be 0.

    Products with vectors of integers are exact in int32. Other products are summed in the default
    float type, over groups of eight columns and blocks of rows. `bracket_matvec` and
    `bracket_rmatvec` are bounds for the exact matrix. In addition to the bits, a product needs
    tables of 1 kB per byte of a row (128 kB for 1,000 columns) and blocks of 2 MB, or of 256 rows.
    With 1e6 x 1e3 entries the matrix takes 125 MB.

    Args:
      matrix_or_blocks: [rows, columns] of -1, 0 and +1, of any real dtype. It is packed by blocks
        of rows on the host, which makes no temporary array of its size; inside `jit` it is packed
        by the program. Or an iterator over blocks [k, columns] of its rows, or a function without
        arguments that returns such an iterator: then the whole matrix need not exist.
      zeros: whether entries may be 0. None tests known values; traced matrices then get two bits.

    Returns:
      A `PackedSigns`. The first axis of its `bits` is that of the rows, so that they can be sharded
      by rows.

    Raises:
      ValueError: naming the argument, for entries other than -1, 0 and +1, for 0 if `zeros` is
        False, and for blocks of unequal width. Of a traced matrix only the signs of other entries
        are used, and `largest_entry` is inf: solvers then return INVALID_INPUT.

    >>> import jax.numpy as jnp, jboost
    >>> operator = jboost.operators.packed_signs([[1, -1, 1], [-1, -1, 1]])
    >>> operator.bits.tolist(), operator.matvec(jnp.array([0.5, 1.0, 2.0])).tolist()
    ([[5], [4]], [1.5, 0.5])
    """
    check.choice("zeros", zeros, (None, False, True))
    name = "matrix_or_blocks"
    if isinstance(matrix_or_blocks, PackedSigns):
        raise ValueError(f"{name} is packed already: pass it to the solver as it is")
    if callable(matrix_or_blocks):
        matrix_or_blocks = matrix_or_blocks()
        if not isinstance(matrix_or_blocks, Iterable):
            raise ValueError(
                f"{name} returns a {type(matrix_or_blocks).__name__}: expected an iterable over"
                " blocks of rows"
            )
        return _packed_on_host(iter(matrix_or_blocks), zeros, name)
    if isinstance(matrix_or_blocks, Iterator):
        return _packed_on_host(matrix_or_blocks, zeros, name)
    if isinstance(matrix_or_blocks, jax.core.Tracer):
        return _packed_in_program(
            check.numeric(name, matrix_or_blocks, shape=("rows", "columns"), kinds="fiub"),
            zeros is not False,
        )
    matrix = (
        matrix_or_blocks
        if isinstance(matrix_or_blocks, (np.ndarray, jax.Array))
        else np.asarray(matrix_or_blocks)
    )
    _require_matrix(name, matrix)
    at_once = max(_BITS, _HOST_ENTRIES // max(matrix.shape[1], 1))
    starts = range(0, max(matrix.shape[0], 1), at_once)
    return _packed_on_host(
        (np.asarray(matrix[start : start + at_once]) for start in starts), zeros, name
    )


def _packed_in_program(matrix: Array, has_zeros: bool) -> PackedSigns:
    planes = [matrix > 0, matrix < 0] if has_zeros else [matrix > 0]
    bits = jnp.concatenate(
        [jnp.packbits(plane, axis=1, bitorder="little") for plane in planes], axis=1
    )
    is_sign = (matrix == 1) | (matrix == -1) | ((matrix == 0) & has_zeros)
    largest = jnp.where(jnp.all(is_sign), 1.0, jnp.inf).astype(jnp.result_type(float))
    return PackedSigns(bits, largest, matrix.shape[1], has_zeros)


def _packed_on_host(blocks: Iterator[Any], zeros: bool | None, name: str) -> PackedSigns:
    """The operator of consecutive blocks. Bits for -1 are stored only for blocks with zeros. For
    other blocks they are the complement of the bits for +1.
    """
    positive: list[np.ndarray] = []
    negative: list[np.ndarray | None] = []
    num_columns, num_rows = None, 0
    for block in blocks:
        block = np.asarray(block)
        _require_matrix(f"a block of {name}" if num_columns is not None else name, block)
        if num_columns is not None and block.shape[1] != num_columns:
            raise ValueError(
                f"{name}: the block from row {num_rows} on has {block.shape[1]} columns, those"
                f" before it {num_columns}: expected as many"
            )
        num_columns = block.shape[1]
        is_positive, is_negative = block == 1, block == -1
        is_sign = is_positive | is_negative
        if not is_sign.all():
            _refuse_others(
                name,
                block,
                ~is_sign if zeros is False else ~is_sign & (block != 0),
                num_rows,
                zeros,
            )
            negative.append(np.packbits(is_negative, axis=1, bitorder="little"))
        else:
            negative.append(None)
        positive.append(np.packbits(is_positive, axis=1, bitorder="little"))
        num_rows += len(block)
    if num_columns is None:
        raise ValueError(
            f"{name} yields no block: expected one or more, [k, columns] each; a block may have no"
            " rows"
        )
    has_zeros = any(part is not None for part in negative) if zeros is None else zeros
    bits = _joined(positive, negative, num_rows, num_columns, has_zeros)
    return PackedSigns(
        jnp.asarray(bits), jnp.ones((), jnp.result_type(float)), num_columns, has_zeros
    )


def _joined(
    positive: list[np.ndarray],
    negative: list[np.ndarray | None],
    num_rows: int,
    num_columns: int,
    has_zeros: bool,
) -> np.ndarray:
    """One array of all blocks. Each block is freed once it is copied."""
    width = _num_bytes(num_columns)
    # bits past the last column stay 0
    used = np.packbits(np.ones((num_columns,), bool), bitorder="little")
    bits = np.empty((num_rows, width * (1 + has_zeros)), np.uint8)
    start = 0
    while positive:
        own, other = positive.pop(0), negative.pop(0)
        part = bits[start : start + len(own)]
        part[:, :width] = own
        if has_zeros:
            part[:, width:] = ~own & used if other is None else other
        start += len(own)
    return bits


def _require_matrix(name: str, matrix: Any) -> None:
    if matrix.ndim != 2:
        raise ValueError(f"{name} has shape {list(matrix.shape)}: expected shape [rows, columns]")
    if np.dtype(matrix.dtype).kind not in "fiub" and not jnp.issubdtype(matrix.dtype, jnp.floating):
        raise ValueError(f"{name} has dtype {matrix.dtype}: expected real numbers")


def _refuse_others(
    name: str, block: np.ndarray, is_wrong: np.ndarray, first_row: int, zeros: bool | None
) -> None:
    for row, column in itertools.islice(zip(*np.nonzero(is_wrong), strict=True), 1):
        allowed = "-1 or +1, as zeros is False" if zeros is False else "-1, 0 or +1"
        remedy = (
            "pass zeros=True, or None"
            if zeros is False and block[row, column] == 0
            else "take the signs, or jboost.operators.stored"
        )
        raise ValueError(
            f"{name}[{first_row + row}, {column}] is {block[row, column]}: expected {allowed};"
            f" {remedy}"
        )
