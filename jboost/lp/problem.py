"""A linear program, and the checks of its shapes and values.

minimise objective . x  subject to  row_lower <= A x <= row_upper,  lower <= x <= upper.
An infinite bound means no bound.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost import operators
from jboost.base import check, numerics, reduce
from jboost.base.types import Array, ArrayLike

_MOST_ENTRIES = 4_000_000  # of a matrix that is stored densely: 16 MB in float32, 32 MB in float64


class LinearProgram(NamedTuple):
    """minimise objective . x  s.t.  row_lower <= A x <= row_upper, lower <= x <= upper.
    Equal bounds make an equality or a fixed variable.
    """

    objective: Array  # [n]
    operator: Any  # [m, n] a `jboost.operators` operator; a matrix is taken as a dense one
    row_lower: Array  # [m] or [], -inf for none
    row_upper: Array  # [m] or [], +inf for none
    lower: Array  # [n] or [], -inf for none
    upper: Array  # [n] or [], +inf for none


def prepare(problem: LinearProgram) -> LinearProgram:
    """The program with an operator, and with vectors of full length in the default float type.

    Raises:
      ValueError: at trace time, naming the argument, if a shape or a kind is wrong, or if there is
        no variable.
    """
    if not isinstance(problem, LinearProgram):
        raise ValueError(
            f"problem is a {type(problem).__name__}: expected a jboost.lp.LinearProgram;"
            " jboost.lp.make_program makes one"
        )
    operator = operators.as_operator(problem.operator)
    num_rows, num_columns = operator.shape
    if num_columns == 0:
        raise ValueError(
            "operator has no columns: a program without variables has nothing to solve"
        )
    objective = check.numeric("objective", problem.objective, shape=(num_columns,), kinds="fiu")
    dtype = jnp.result_type(float)

    def bounds(name: str, size: int) -> Array:
        value = getattr(problem, name)
        is_single = (
            value is not None and getattr(value, "ndim", int(isinstance(value, list | tuple))) == 0
        )
        shape = () if is_single else (size,)
        return jnp.broadcast_to(
            check.numeric(name, value, shape=shape, kinds="fiu").astype(dtype), (size,)
        )

    return LinearProgram(
        objective.astype(dtype),
        operator,
        bounds("row_lower", num_rows),
        bounds("row_upper", num_rows),
        bounds("lower", num_columns),
        bounds("upper", num_columns),
    )


def fits_in_memory(problem: LinearProgram) -> bool:
    """Whether the matrix is small enough to be stored densely."""
    num_rows, num_columns = problem.operator.shape
    return num_rows * num_columns <= _MOST_ENTRIES


def bounds_nothing(problem: LinearProgram) -> Array:
    """Which rows [m] have no finite bound."""
    return (problem.row_lower == -jnp.inf) & (problem.row_upper == jnp.inf)


def row_sizes(problem: LinearProgram) -> Array:
    """The size [m] of the finite bounds of each row, 0 without one. Of two nonzero bounds it is the
    smaller one, because the other is often a large number that means no bound.
    """
    low, high = (
        jnp.where(jnp.isfinite(bound), jnp.abs(bound), 0.0)
        for bound in (problem.row_lower, problem.row_upper)
    )
    return jnp.where((low > 0) & (high > 0), jnp.minimum(low, high), jnp.maximum(low, high))


def is_valid(problem: LinearProgram) -> Array:
    """Whether all values are allowed, [] bool.

    No value may be NaN. The objective and the matrix must be finite. Lower bounds must not exceed
    upper bounds or be +inf, and upper bounds must not be -inf. Subnormal numbers are not allowed,
    because processors treat them as 0 in some operations only.
    """
    entries = [
        jnp.ravel(leaf)
        for leaf in jax.tree.leaves(problem.operator)
        if jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    parts = [
        _are_in_order(problem.row_lower, problem.row_upper),
        *(_are_proper(leaf) for leaf in entries),
    ]
    parts.append(_are_in_order(problem.lower, problem.upper) & _are_proper(problem.objective))
    return functools.reduce(jnp.logical_and, [reduce.all_true(part) for part in parts])


def _are_in_order(low: Array, high: Array) -> Array:
    is_normal = ~numerics.is_subnormal(low) & ~numerics.is_subnormal(high)
    return is_normal & (low <= high) & (low < jnp.inf) & (high > -jnp.inf)


def _are_proper(values: Array) -> Array:
    return jnp.isfinite(values) & ~numerics.is_subnormal(values)


def validate(problem: LinearProgram) -> None:
    """Checks the values of a program on the host.

    Raises:
      ValueError: naming the argument, its first bad entry and the remedy, for NaN, an infinite
        objective or matrix entry, products of an operator that are not finite, a lower bound above
        its upper bound, and numbers below the normal range.

    >>> import jboost
    >>> jboost.lp.validate(jboost.lp.LinearProgram([1.0], [[1.0]], [2.0], [1.0], [0.0], [1.0]))
    Traceback (most recent call last):
      ...
    ValueError: row_lower[0] is 2, above row_upper[0], which is 1: no point is feasible; ...
    """
    problem = prepare(problem)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(problem)):
        raise ValueError(
            "problem holds traced arrays, whose values are not known: call validate outside jit,"
            " vmap and grad"
        )
    _validate_finite("objective", np.asarray(problem.objective))
    for leaf in jax.tree.leaves(problem.operator):
        _validate_finite("operator", np.asarray(leaf))
    _validate_products(problem.operator)
    for low_name, high_name in (("row_lower", "row_upper"), ("lower", "upper")):
        low, high = (np.asarray(getattr(problem, name)) for name in (low_name, high_name))
        _validate_bounds(low_name, low, np.inf)
        _validate_bounds(high_name, high, -np.inf)
        for i in np.flatnonzero(low > high)[:1]:
            above, below = check.shown(low[i], high[i], wrong=lambda first, second: first > second)
            raise ValueError(
                f"{low_name}[{i}] is {above}, above {high_name}[{i}], which is {below}: no point is"
                " feasible; swap them or drop one by an infinity"
            )


def _validate_finite(name: str, array: np.ndarray) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}{list(index)} is {array[index]}: expected finite numbers")
    _validate_normal(name, array)


def _validate_normal(name: str, array: np.ndarray) -> None:
    if array.dtype.kind != "f":
        return
    for index in np.argwhere(numerics.is_subnormal(jnp.asarray(array)))[:1]:
        position = [int(i) for i in index]
        raise ValueError(
            f"{name}{position} is {array[tuple(position)]}, below the normal range of"
            f" {array.dtype}: pass 0, or use other units"
        )


def _validate_products(operator: Any) -> None:
    """Checks the products with small vectors. The numbers of an operator that is made of functions
    may not be visible as leaves, and the sum of large finite entries may be infinite.
    """
    num_rows, num_columns = operator.shape
    for name, product, size in (
        ("matvec", operator.matvec, num_columns),
        ("rmatvec", operator.rmatvec, num_rows),
    ):
        _validate_finite(
            f"operator.{name} of equal numbers", np.asarray(product(jnp.full((size,), 2.0**-30)))
        )


def _validate_bounds(name: str, array: np.ndarray, wrong: float) -> None:
    for i in np.flatnonzero(np.isnan(array) | (array == wrong))[:1]:
        raise ValueError(f"{name}[{i}] is {array[i]}: expected a number, or {-wrong} for no bound")
    _validate_normal(name, array)


def make_program(
    objective: ArrayLike,
    operator: Any,
    *,
    row_lower: ArrayLike = -jnp.inf,
    row_upper: ArrayLike = jnp.inf,
    lower: ArrayLike = 0.0,
    upper: ArrayLike = jnp.inf,
) -> LinearProgram:
    """A `LinearProgram` from its parts, with vectors of full length.

    Bounds may be scalars. By default variables are not negative and rows have no bounds.

    Args:
      objective: [n].
      operator: [m, n] a matrix, a `jax.experimental.sparse.BCOO`, or any operator of
        `jboost.operators`.
      row_lower: [m] or [].
      row_upper: [m] or [].
      lower: [n] or [].
      upper: [n] or [].

    Raises:
      ValueError: at trace time, naming the argument, if a shape or a kind is wrong.

    >>> import jboost
    >>> program = jboost.lp.make_program([1.0, 2.0], [[1.0, 1.0]], row_lower=1.0)
    >>> program.row_upper.tolist(), program.lower.tolist()
    ([inf], [0.0, 0.0])
    """
    return prepare(LinearProgram(objective, operator, row_lower, row_upper, lower, upper))
