"""The restricted master: a first-order method for the relaxation over a pool of columns and a
working set of pair cuts.

The variables are lambda [U + 2] in the simplex (the two constants last), delta = mu - lambda >= 0
[U], and xi [n] in [0, 1]. The constraints are the margins (duals w) and the cuts (duals v). The
iteration is the reflected Halpern form of primal-dual hybrid gradient with restarts (Lu, Yang
2024), with the diagonal steps of Pock and Chambolle 2011. It is stopped long before it converges,
since it only has to give duals from which pricing finds useful columns. All bounds are proven
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import loops
from jboost.base.numerics import times
from jboost.base.types import Array

ENOUGH, SOME, TOO_LONG = 0.2, 0.8, 0.36  # restart rules of Applegate et al. 2021, Section 3.1
# Steps of Newton's method for the threshold of a projection. It is finite: it takes at most as many
# steps as there are entries, and 5 in most cases.
_NUM_STEPS = 12
# Most rounds have few of the cuts that there is capacity for, and tables of few monomials have few
# of the columns. Where they fit into this share of the capacity, the products leave out the rest.
_SHARE_OF_FEW = 4
# Of `margins` and `serves`: four times as many bytes would be copied for each call.
TABLE_DTYPE = np.dtype("int8")


class MasterProgram(NamedTuple):
    """The master over n rows, U columns and K cuts. Weights of rows are at most about 1."""

    margins: Array  # [n, U] y_i H_iu: -1, 0 or 1, of any dtype
    serves: Array  # [K, U] 1 where a hypothesis counts in a cut, of any dtype
    first: Array  # [K] int32, the first row of each cut
    second: Array  # [K] int32, the second row
    is_cut: Array  # [K] 1 for cuts, 0 for empty slots
    costs: Array  # [U]
    constant_cost: Array  # []
    weights: Array  # [n] prices of slacks, 0 for padding
    labels: Array  # [n] +1, -1, 0 for padding
    is_column: Array  # [U] bool
    margin: Array  # [] rho


class MasterIterate(NamedTuple):
    """The primal and the dual variables."""

    coefficients: Array  # [U + 2] lambda, the constants +1 and -1 last
    extra: Array  # [U] mu - lambda
    slacks: Array  # [n] xi
    example_weights: Array  # [n] w
    pair_weights: Array  # [K] v


class _Parts(NamedTuple):
    """The matrices of a program, whole and without the cuts and columns behind a share of the
    capacity, and which of them to multiply by.
    """

    margins: tuple[Array, Array]  # of all columns [n, U], of few columns [n, U / _SHARE_OF_FEW]
    are_few_columns: Array  # [] bool, whether the other columns are empty
    # of all cuts and columns, of few cuts, of few columns, of few cuts and columns
    serves: tuple[Array, Array, Array, Array]
    used_serves: Array  # [] int32, the index of the smallest one without other cuts and columns


class _MasterState(NamedTuple):
    # [.] a `MasterIterate` as one vector, since few long operations compile faster than many short
    # ones
    point: Array
    anchor: Array  # [.] of the last restart
    moved: Array  # [.] the last point after one step
    age: Array  # [] iterations since the restart
    first_move: Array  # [] length of the first step since the restart
    last_move: Array  # [] length of the last step
    count: Array  # [] int32


@jax.jit
def improve(
    program: MasterProgram, start: MasterIterate, primal_weight: Array, num_iterations: Array
) -> MasterIterate:
    """The point after `num_iterations` iterations.

    Args:
      program: U columns, n rows, K cuts.
      start: any point.
      primal_weight: [] the ratio of dual to primal step sizes.
      num_iterations: [] int32.
    """
    dtype, parts = program.costs.dtype, _parts_of(program)
    sizes = _step_sizes(program, parts, primal_weight)

    def step(state: _MasterState) -> _MasterState:
        moved = _iterate(program, parts, sizes, state.point)
        # in the norm in which the method contracts
        length = jnp.sqrt(jnp.sum((state.point - moved) ** 2 / sizes))
        first = jnp.where(state.age == 0, length, state.first_move)
        restarts = (state.age > 0) & (
            (length <= ENOUGH * first)
            | ((length <= SOME * first) & (length > state.last_move))
            | (state.age >= TOO_LONG * state.count)
        )
        share = (state.age + 1) / (state.age + 2)
        mean = share * (2 * moved - state.point) + (1 - share) * state.anchor
        return _MasterState(
            jnp.where(restarts, moved, mean),
            jnp.where(restarts, moved, state.anchor),
            moved,
            jnp.where(restarts, 0.0, state.age + 1).astype(dtype),
            first,
            jnp.where(restarts, jnp.inf, length),
            state.count + 1,
        )

    vector = jnp.concatenate(start)
    infinite, zero = jnp.full((), jnp.inf, dtype), jnp.zeros((), dtype)
    begin = _MasterState(vector, vector, vector, zero, infinite, infinite, jnp.zeros((), jnp.int32))
    last = loops.while_loop(lambda state: state.count < num_iterations, step, begin)
    return MasterIterate(*_split(program, last.moved))


def _parts_of(program: MasterProgram) -> _Parts:
    num_cuts, num_columns = (size // _SHARE_OF_FEW for size in program.serves.shape)
    margins, serves = (
        table.astype(program.costs.dtype) for table in (program.margins, program.serves)
    )
    of_few_columns = serves[:, :num_columns]
    are_few_cuts = ~jnp.any(program.is_cut[num_cuts:] > 0)
    are_few_columns = ~jnp.any(program.is_column[num_columns:])
    return _Parts(
        (margins, margins[:, :num_columns]),
        are_few_columns,
        (serves, serves[:num_cuts], of_few_columns, of_few_columns[:num_cuts]),
        are_few_cuts.astype(jnp.int32) + 2 * are_few_columns.astype(jnp.int32),
    )


def _split(program: MasterProgram, vector: Array) -> list[Array]:
    """The parts of a `MasterIterate`."""
    (num_rows, num_columns), num_cuts = program.margins.shape, program.is_cut.shape[0]
    sizes = (num_columns + 2, num_columns, num_rows, num_rows, num_cuts)
    return jnp.split(vector, [sum(sizes[: index + 1]) for index in range(4)])


def _step_sizes(program: MasterProgram, parts: _Parts, primal_weight: Array) -> Array:
    """The step sizes: one over the sum of absolute entries of a column or a row. All of lambda has
    one step size, since its projection treats it as a whole.
    """
    sizes, is_row = jnp.abs(parts.margins[0]), jnp.abs(program.labels)
    served, serving = (jnp.sum(parts.serves[0], axis=axis) for axis in (0, 1))
    of_coefficients = jnp.maximum(
        jnp.max(jnp.sum(sizes, axis=0) + served, initial=1.0), jnp.sum(is_row)
    )
    of_slacks = _spread(program, program.is_cut) + 1 + program.margin
    primal = jnp.concatenate(
        [jnp.full((len(served) + 2,), of_coefficients), jnp.maximum(served, 1.0), of_slacks]
    )
    dual = jnp.concatenate([jnp.sum(sizes, axis=1) + 3 + program.margin, 2 * serving + 2])
    return jnp.concatenate([1 / (primal_weight * primal), primal_weight / dual])


def _spread(program: MasterProgram, values: Array) -> Array:
    """For each row the sum of the values [K] of its cuts, [n]."""
    empty = jnp.zeros(program.weights.shape, values.dtype)
    return empty.at[program.first].add(values).at[program.second].add(values)


def _iterate(program: MasterProgram, parts: _Parts, sizes: Array, vector: Array) -> Array:
    """One step of primal-dual hybrid gradient."""
    size = program.costs.shape[0]
    coefficients, extra, slacks, weights, pair_weights = _split(program, vector)
    reduced = program.costs - _rewards(parts, pair_weights)
    balance = times(weights, program.labels)
    ends = program.constant_cost + jnp.stack([-balance, balance])
    price = program.weights - (1 + program.margin) * weights - _spread(program, pair_weights)
    slope = jnp.concatenate([reduced - _edges(parts, weights), ends, reduced, price])
    primal = jnp.concatenate([coefficients, extra, slacks])
    number = len(primal)
    aim = primal - sizes[:number] * slope
    allowed = jnp.concatenate([program.is_column, jnp.ones((2,), bool)])
    rest = jnp.clip(aim[size + 2 :], 0.0, _upper(program))
    votes = _on_simplex_of_columns(parts, aim[: size + 2], allowed)
    moved = jnp.concatenate([votes, rest])
    ahead = 2 * moved - primal

    mixed, over = ahead[:size], ahead[2 * size + 2 :]
    reached = _mixed(parts, mixed) + program.labels * (ahead[size] - ahead[size + 1])
    missed = program.margin - reached - (1 + program.margin) * over
    covered = _covered(parts, mixed + ahead[size + 2 : 2 * size + 2])
    uncovered = 1 - covered - over[program.first] - over[program.second]
    dual = jnp.concatenate([weights, pair_weights]) + sizes[number:] * jnp.concatenate(
        [missed, uncovered]
    )
    is_row = jnp.concatenate([jnp.abs(program.labels), program.is_cut])
    return jnp.concatenate([moved, jnp.maximum(dual, 0.0) * is_row])


def _edges(parts: _Parts, weights: Array) -> Array:
    """The sums of the margins of each column under the weights [n], [U]."""
    size = parts.margins[0].shape[1]
    whole, few = (_from_left(matrix, size) for matrix in parts.margins)
    return loops.cond(parts.are_few_columns, few, whole, weights)


def _mixed(parts: _Parts, values: Array) -> Array:
    """The margins of the rows for the values [U] of the columns, [n]."""
    size = parts.margins[0].shape[0]
    whole, few = (_from_right(matrix, size) for matrix in parts.margins)
    return loops.cond(parts.are_few_columns, few, whole, values)


def _rewards(parts: _Parts, pair_weights: Array) -> Array:
    """For each column the sum of the duals [K] of the cuts in which it counts, [U]."""
    size = parts.serves[0].shape[1]
    products = [_from_left(matrix, size) for matrix in parts.serves]
    return loops.switch(parts.used_serves, products, pair_weights)


def _covered(parts: _Parts, values: Array) -> Array:
    """For each cut the sum of the values [U] of the columns that count in it, [K]."""
    size = parts.serves[0].shape[0]
    products = [_from_right(matrix, size) for matrix in parts.serves]
    return loops.switch(parts.used_serves, products, values)


def _from_left(matrix: Array, size: int) -> Callable[[Array], Array]:
    """The function from values to those of the rows of a matrix times it, filled up with 0."""
    num_rows, num_columns = matrix.shape
    return lambda values: jnp.pad(times(values[:num_rows], matrix), (0, size - num_columns))


def _from_right(matrix: Array, size: int) -> Callable[[Array], Array]:
    """The function from values to a matrix times those of its columns, filled up with 0."""
    num_rows, num_columns = matrix.shape
    return lambda values: jnp.pad(times(matrix, values[:num_columns]), (0, size - num_rows))


def _upper(program: MasterProgram) -> Array:
    """Upper bounds of delta and xi."""
    return jnp.concatenate(
        [jnp.where(program.is_column, jnp.inf, 0.0), jnp.ones_like(program.weights)]
    )


def _on_simplex_of_columns(parts: _Parts, values: Array, allowed: Array) -> Array:
    """`_on_simplex` of the columns and the two constants [U + 2], which reads few columns if the
    others are empty.
    """
    end = parts.margins[1].shape[1]

    def of_few(values: Array, allowed: Array) -> Array:
        found = _on_simplex(
            *(jnp.concatenate([part[:end], part[-2:]]) for part in (values, allowed))
        )
        nothing = jnp.zeros((len(values) - 2 - end,), values.dtype)
        return jnp.concatenate([found[:end], nothing, found[end:]])

    return loops.cond(parts.are_few_columns, of_few, _on_simplex, values, allowed)


def _on_simplex(values: Array, allowed: Array) -> Array:
    """The projection to the simplex over the allowed entries, by Newton's method for the threshold,
    which is exact after a few steps.
    """
    low = jnp.where(allowed, values, -jnp.inf)

    def step(_: Array, threshold: Array) -> Array:
        is_above = low > threshold
        count = jnp.sum(is_above, dtype=values.dtype)
        total = jnp.sum(jnp.where(is_above, low, 0.0))
        return jnp.where(count > 0, (total - 1) / jnp.maximum(count, 1), threshold)

    return jnp.maximum(low - loops.fori_loop(0, _NUM_STEPS, step, jnp.max(low) - 1), 0.0)
