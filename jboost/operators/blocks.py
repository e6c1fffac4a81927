"""Block matrices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import jax.numpy as jnp

from jboost.base import brackets, check
from jboost.base.records import register
from jboost.base.types import Array
from jboost.operators import sums
from jboost.operators.convert import as_operator
from jboost.operators.diagonal import Zeros
from jboost.operators.types import Operator


@register
@dataclasses.dataclass(frozen=True)
class Blocks(Operator):
    """A grid of operators. Operators in a row of the grid have equally many rows, and operators in
    a column of the grid have equally many columns.
    """

    blocks: tuple[tuple[Operator, ...], ...]

    @property
    def shape(self) -> tuple[int, int]:
        """The sums over the first column and the first row."""
        return sum(row[0].shape[0] for row in self.blocks), sum(
            block.shape[1] for block in self.blocks[0]
        )

    def matvec(self, vector: Array) -> Array:
        """Block by block."""
        return self._along_rows(vector, "vector", lambda block, part: block.matvec(part), _add)

    def rmatvec(self, vector: Array) -> Array:
        """Block by block."""
        return self._along_columns(vector, "vector", lambda block, part: block.rmatvec(part), _add)

    def row_norms(self, weights: Array) -> Array:
        """Block by block."""
        return self._along_rows(weights, "weights", lambda block, part: block.row_norms(part), _add)

    def column_norms(self, weights: Array) -> Array:
        """Block by block."""
        return self._along_columns(
            weights, "weights", lambda block, part: block.column_norms(part), _add
        )

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Brackets of the blocks, added outwards."""
        return self._along_rows(
            vector, "vector", lambda block, part: block.bracket_matvec(part), brackets.add_brackets
        )

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Brackets of the blocks, added outwards."""
        return self._along_columns(
            vector, "vector", lambda block, part: block.bracket_rmatvec(part), brackets.add_brackets
        )

    def largest_entry(self) -> Array:
        """The largest of the blocks."""
        return jnp.max(jnp.stack([block.largest_entry() for row in self.blocks for block in row]))

    def to_dense(self) -> Array:
        """The blocks side by side."""
        return jnp.concatenate(
            [jnp.concatenate([block.to_dense() for block in row], axis=1) for row in self.blocks]
        )

    def _along_rows(self, vector: Array, name: str, product: Callable, add: Callable) -> Any:
        parts = _split(
            sums.cast(name, vector, self.shape[1]), [block.shape[1] for block in self.blocks[0]]
        )
        return _join([_sum_blocks(row, parts, product, add) for row in self.blocks])

    def _along_columns(self, vector: Array, name: str, product: Callable, add: Callable) -> Any:
        parts = _split(
            sums.cast(name, vector, self.shape[0]), [row[0].shape[0] for row in self.blocks]
        )
        return _join(
            [_sum_blocks(column, parts, product, add) for column in zip(*self.blocks, strict=True)]
        )


def _sum_blocks(
    blocks: Sequence[Operator], parts: list[Array], product: Callable, add: Callable
) -> Any:
    """The sum of the products of the blocks. Blocks of zeros are skipped, unless all are."""
    pairs = list(zip(blocks, parts, strict=True))
    return add(
        [
            product(*pair)
            for pair in [pair for pair in pairs if not isinstance(pair[0], Zeros)] or pairs[:1]
        ]
    )


def _add(parts: list[Array]) -> Array:
    return sum(parts[1:], start=parts[0])


def _split(vector: Array, sizes: list[int]) -> list[Array]:
    return [vector[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


def _join(parts: list) -> Any:
    if isinstance(parts[0], tuple):
        return tuple(jnp.concatenate(side) for side in zip(*parts, strict=True))
    return jnp.concatenate(parts)


def stack(operators: Sequence[Any], *, axis: int = 0) -> Blocks:
    """Stacks operators vertically or horizontally.

    Args:
      operators: one or more operators or matrices, with equally many columns for axis 0, or equally
        many rows for axis 1.
      axis: 0 for vertical, 1 for horizontal.

    Raises:
      ValueError: at trace time, naming the first operator that does not fit.

    >>> import jax.numpy as jnp, jboost
    >>> both = jboost.operators.stack([jboost.operators.identity(2), jnp.array([[1.0, 2.0]])])
    >>> both.matvec(jnp.array([1.0, 10.0])).tolist()
    [1.0, 10.0, 21.0]
    """
    check.choice("axis", axis, (0, 1))
    if not isinstance(operators, (list, tuple)) or not operators:
        raise ValueError("operators is no list of one operator or more: there is nothing to stack")
    parts = [as_operator(part, name=f"operators[{index}]") for index, part in enumerate(operators)]
    for index, part in enumerate(parts):
        if part.shape[1 - axis] != parts[0].shape[1 - axis]:
            what = ("columns", "rows")[axis]
            raise ValueError(
                f"operators[{index}] has {part.shape[1 - axis]} {what}, operators[0] has"
                f" {parts[0].shape[1 - axis]}: expected as many"
            )
    return Blocks(tuple((part,) for part in parts) if axis == 0 else (tuple(parts),))


def bordered(operator: Any, *, rows: Any = None, columns: Any = None, corner: Any = None) -> Blocks:
    """[[operator, columns], [rows, corner]], each an operator or a matrix.

    Args:
      operator: [m, n].
      rows: [k, n], or None for zeros; k is 0 if neither rows nor a corner is given.
      columns: [m, l], or None for zeros; l is 0 if neither columns nor a corner is given.
      corner: [k, l], or None for zeros.

    Raises:
      ValueError: at trace time, naming the argument that does not fit.

    >>> import jax.numpy as jnp, jboost
    >>> jboost.operators.bordered(
    ...     jboost.operators.identity(2), rows=[[3, 4]], columns=[[5], [6]]
    ... ).to_dense().tolist()
    [[1.0, 0.0, 5.0], [0.0, 1.0, 6.0], [3.0, 4.0, 0.0]]
    """
    core = as_operator(operator)
    below = None if rows is None else as_operator(rows, name="rows")
    beside = None if columns is None else as_operator(columns, name="columns")
    last = None if corner is None else as_operator(corner, name="corner")
    if below is not None and below.shape[1] != core.shape[1]:
        raise ValueError(
            f"rows has shape {list(below.shape)}: operator has {core.shape[1]} columns"
        )
    if beside is not None and beside.shape[0] != core.shape[0]:
        raise ValueError(
            f"columns has shape {list(beside.shape)}: operator has {core.shape[0]} rows"
        )
    num_below = below.shape[0] if below is not None else (0 if last is None else last.shape[0])
    num_beside = beside.shape[1] if beside is not None else (0 if last is None else last.shape[1])
    if last is not None and last.shape != (num_below, num_beside):
        raise ValueError(
            f"corner has shape {list(last.shape)}: rows and columns allow only"
            f" {[num_below, num_beside]}"
        )
    top = (core, beside if beside is not None else Zeros((core.shape[0], num_beside)))
    bottom = (
        below if below is not None else Zeros((num_below, core.shape[1])),
        last if last is not None else Zeros((num_below, num_beside)),
    )
    width = 2 if num_beside else 1
    return Blocks((top[:width], bottom[:width]) if num_below else (top[:width],))
