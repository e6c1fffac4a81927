"""Vectors with one number for every pair of examples of opposite classes, processed in blocks of
rows.

A vector is an array [P, O, Q]: P examples of the minority class, O orders of a pair, Q examples of
the majority class. Products with the cuts are computed in the body of one loop over blocks of rows,
so that no array has the size of pairs times columns. On a mesh each device holds an equal number of
rows of every vector and loops over its own blocks.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, loops, meshes, numerics
from jboost.base.types import Array
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.types import RelaxationInstance

_ARRAYS_OF_A_BLOCK = 6  # arrays of the size of a block in memory at once, in the default float type


@dataclasses.dataclass(frozen=True)
class PairLayout:
    """Static sizes of a vector of pairs."""

    num_rows: int
    """P, a multiple of `rows_at_once` times the number of devices; rows beyond the
    minority class are zeros.
    """
    first_column: int
    """The position in the instance of the first example of the columns."""
    num_columns: int
    """Q."""
    orders: str
    """"ordered": two cuts for a pair. "single": one cut, for instances without abstention, where
    both cuts are the same. "either": one cut, over the hypotheses of both. "traced": two cuts; if
    `RelaxationInstance.either` is True, only the first one is used, over the hypotheses of both.
    """
    rows_at_once: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """[P, O, Q]."""
        return self.num_rows, 1 if self.orders in ("single", "either") else 2, self.num_columns


def make_layout(
    num_minority: int, first_column: int, num_columns: int, orders: str, block_bytes: int
) -> PairLayout:
    """The layout for these numbers of rows and columns, with as many rows in a block as
    `block_bytes` allows.
    """
    num_minority, num_columns, devices = (
        max(num_minority, 1),
        max(num_columns, 1),
        meshes.num_devices(),
    )
    num_orders = 1 if orders in ("single", "either") else 2
    row_bytes = (
        _ARRAYS_OF_A_BLOCK * num_orders * num_columns * jnp.dtype(jnp.result_type(float)).itemsize
    )
    most = max(1, block_bytes // row_bytes)
    share = -(-num_minority // devices)
    num_blocks = -(-share // most)
    rows_at_once = -(-share // num_blocks)
    return PairLayout(
        devices * num_blocks * rows_at_once, first_column, num_columns, orders, rows_at_once
    )


class PairRows(NamedTuple):
    """Data of the examples of the minority class, divided over the devices."""

    factors: tuple[tuple[Array, ...], ...]  # by order, then by term: [P, U]
    is_minority: Array  # [P] bool
    bits: Array  # [P, N]


class PairColumns(NamedTuple):
    """Data of the examples of the majority class, the same on every device."""

    factors: tuple[tuple[Array, ...], ...]  # by order, then by term: [Q, U]
    is_majority: Array  # [Q] bool
    bits: Array  # [Q, N]
    has_order: Array  # [O] bool
    reach: Array  # []


class AllPairs(NamedTuple):
    """The cuts of all pairs. The coefficients of mu in a cut are the sum over terms of the products
    of its two factors.
    """

    rows: PairRows
    columns: PairColumns


class Block(NamedTuple):
    """The cuts of a block of rows."""

    rows: PairRows  # of R rows
    columns: PairColumns
    is_cut: Array  # [R, O, Q] bool

    def covered(self, values: Array) -> Array:
        """The sum [R, O, Q] of values [U] over the hypotheses of each cut."""
        of_orders = []
        for lefts, rights in zip(self.rows.factors, self.columns.factors, strict=True):
            parts = [
                numerics.times(left * values[None, :], right.T)
                for left, right in zip(lefts, rights, strict=True)
            ]
            of_orders.append(sum(parts[1:], parts[0]))
        return jnp.stack(of_orders, axis=1)

    def serving(self, values: Array) -> Array:
        """The sum [U] of values [R, O, Q] over the cuts that count each hypothesis. It may be used
        inside `numerics.in_64_bits`.
        """
        total = jnp.zeros((self.rows.factors[0][0].shape[1],), values.dtype)
        for order, (lefts, rights) in enumerate(
            zip(self.rows.factors, self.columns.factors, strict=True)
        ):
            for left, right in zip(lefts, rights, strict=True):
                product = numerics.times(values[:, order], right.astype(values.dtype))
                total = total + jnp.sum(left.astype(values.dtype) * product, axis=0)
        return total

    @property
    def num_terms(self) -> int:
        """The largest number of terms of a sum of `serving`."""
        rows, orders, columns = self.is_cut.shape
        return rows * orders * columns * max(map(len, self.rows.factors))


def make_pairs(instance: RelaxationInstance, layout: PairLayout) -> AllPairs:
    """The cuts of an instance, without arrays of the size of the pairs."""
    last = layout.first_column + layout.num_columns
    minority, majority = slice(0, layout.num_rows), slice(layout.first_column, last)
    hits, misses = (
        _padded(part, layout.num_rows, last) for part in (instance.hits, instance.misses)
    )
    indices = jnp.arange(hits.shape[0])
    is_minority = indices < instance.num_minority
    is_majority = (indices >= instance.num_minority) & (indices < instance.num_real)
    bits = _padded(instance.bits, layout.num_rows, last)
    forward = hits[minority], misses[majority]
    backward = misses[minority], hits[majority]
    terms, has_order = _terms(forward, backward, layout.orders, instance.either)
    lefts, rights = (
        tuple(tuple(term[side] for term in order) for order in terms) for side in (0, 1)
    )
    rows = PairRows(lefts, is_minority[minority], bits[minority])
    return AllPairs(
        rows, PairColumns(rights, is_majority[majority], bits[majority], has_order, instance.reach)
    )


def _padded(matrix: Array, *sizes: int) -> Array:
    return jnp.pad(matrix, ((0, max(0, max(sizes) - matrix.shape[0])), (0, 0)))


def _terms(
    forward: tuple[Array, Array], backward: tuple[Array, Array], orders: str, either: Array
) -> tuple[Any, Array]:
    """The factors of each order, and whether each order has cuts, [O] bool."""
    # With misses - hits, only hypotheses count that the forward cut of the pair does not count.
    only_backward = backward[0] - forward[0], backward[1]
    if orders == "single":
        return ((forward,),), jnp.ones((1,), bool)
    if orders == "either":
        return ((forward, only_backward),), jnp.ones((1,), bool)
    if orders == "ordered":
        return ((forward,), (backward,)), jnp.ones((2,), bool)
    too = jnp.where(either, only_backward[0], 0), backward[1]
    return ((forward, too), (backward,)), jnp.stack([jnp.ones((), bool), ~either])


Body = Callable[
    [Block, tuple[Array, ...], tuple[Array, ...], Any, Any], tuple[tuple[Array, ...], Any]
]


def sweep(
    pairs: AllPairs,
    layout: PairLayout,
    body: Body,
    *,
    updated: tuple[Array, ...] = (),
    read: tuple[Array, ...] = (),
    of_rows: Any = (),
    whole: Any = (),
) -> tuple[tuple[Array, ...], Any]:
    """One pass over all pairs.

    Args:
      pairs: the cuts.
      layout: static.
      body: (block, parts of `updated`, parts of `read`, part of `of_rows`, whole) -> (new parts of
        `updated`, results of the block).
      updated: vectors [P, O, Q] that are overwritten in place, block by block.
      read: vectors [P, O, Q].
      of_rows: a pytree of arrays [P, ...].
      whole: a pytree that every block receives entirely.

    Returns:
      The updated vectors, and the results of all blocks, stacked.
    """

    def on_device(
        rows: PairRows, updated: Any, read: Any, of_rows: Any, columns: PairColumns, whole: Any
    ) -> Any:
        size = layout.rows_at_once
        num_blocks = rows.is_minority.shape[0] // size

        def turn(vectors: Any, start: Array) -> Any:
            part = functools.partial(lax.dynamic_slice_in_dim, start_index=start, slice_size=size)
            block = _block(jax.tree.map(part, rows), columns)
            parts, results = body(
                block,
                jax.tree.map(part, vectors),
                jax.tree.map(part, read),
                jax.tree.map(part, of_rows),
                whole,
            )
            put = [
                lax.dynamic_update_slice_in_dim(vector, new, start, 0)
                for vector, new in zip(vectors, parts, strict=True)
            ]
            return tuple(put), results

        return loops.scan(turn, updated, size * jnp.arange(num_blocks, dtype=jnp.int32))

    found: tuple[tuple[Array, ...], Any] = meshes.over_devices(
        on_device, (pairs.rows, updated, read, of_rows), (pairs.columns, whole)
    )
    return found


def _block(rows: PairRows, columns: PairColumns) -> Block:
    is_pair = rows.is_minority[:, None] & columns.is_majority[None, :]
    if rows.bits.shape[1] > 0:
        is_pair &= pair_cuts.distances(rows.bits, columns.bits) <= columns.reach
    return Block(rows, columns, is_pair[:, None, :] & columns.has_order[None, :, None])


class Sums(NamedTuple):
    """The product of the transposed cuts with a vector of pairs."""

    selected: Array  # [U]
    slacks: Array  # [m]


def sums_of_block(block: Block, values: Array) -> tuple[Array, Array, Array]:
    """The sums of values [R, O, Q] by hypothesis [U], by row [R] and by column [Q]."""
    by_column = jnp.sum(values, axis=(0, 1))
    return block.serving(values), jnp.sum(values, axis=(1, 2)), by_column


def gather_sums(results: tuple[Array, Array, Array], layout: PairLayout, num_examples: int) -> Sums:
    """Adds the sums of all blocks."""
    selected, by_row, by_column = results
    return Sums(
        jnp.sum(selected, axis=0),
        spread(jnp.ravel(by_row), jnp.sum(by_column, axis=0), layout, num_examples),
    )


def spread(by_row: Array, by_column: Array, layout: PairLayout, num_examples: int) -> Array:
    """Sums by row [P] and by column [Q] in the order of the instance, [m]."""
    rows = min(layout.num_rows, num_examples)
    columns = min(layout.num_columns, num_examples - layout.first_column)
    total = jnp.zeros((num_examples,), by_row.dtype).at[:rows].add(by_row[:rows])
    return total.at[layout.first_column : layout.first_column + columns].add(by_column[:columns])


def of_ends(values: Array, layout: PairLayout) -> tuple[Array, Array]:
    """Values [m] of the examples of the rows [P] and of the columns [Q]."""
    missing = max(layout.num_rows, layout.first_column + layout.num_columns) - values.shape[0]
    padded = jnp.pad(values, (0, max(0, missing)))
    return (
        padded[: layout.num_rows],
        padded[layout.first_column : layout.first_column + layout.num_columns],
    )


def most_serving(block: Block, values: Array) -> Array:
    """The sums [U] of values [R, O, Q] over the cuts that count each hypothesis, rounded up. The
    values must be 0 or positive normal numbers.
    """

    def rounded(block: Block, values: Array) -> Array:
        total = block.serving(brackets.widen(values))
        return brackets.round_outwards(
            total, total * ((block.num_terms + 8) * 2.0**-52), values.dtype
        )[1]

    return numerics.in_64_bits(rounded)(block, values)


def bound_sums(values: Array) -> tuple[Array, Array, Array]:
    """The sums of non-negative values [R, O, Q] by row [R] and by column [Q], rounded up, and the
    sum of all values [], rounded down.
    """

    def rounded(values: Array) -> tuple[Array, Array, Array]:
        wide = brackets.widen(values)
        slack = (values.size + 8) * 2.0**-52
        by_row, by_column, total = (
            jnp.sum(wide, axis=axes) for axes in ((1, 2), (0, 1), (0, 1, 2))
        )
        above = (
            brackets.round_outwards(part, part * slack, values.dtype)[1]
            for part in (by_row, by_column)
        )
        return *above, brackets.round_outwards(total, total * slack, values.dtype)[0]

    return numerics.in_64_bits(rounded)(values)


def add_up(parts: Array) -> Array:
    """The sums [...] of parts [k, ...] of blocks, rounded up."""
    turned = jnp.moveaxis(parts, 0, -1)
    return brackets.bracket_dot(
        turned, jnp.ones((1,) * (turned.ndim - 1) + turned.shape[-1:], turned.dtype)
    )[1]
