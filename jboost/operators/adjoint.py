"""Tests whether the two products of an operator belong to one matrix."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check
from jboost.base.types import Array
from jboost.operators.convert import as_operator
from jboost.operators.types import Operator

_ROUNDINGS = 4  # units of it, to each term of a sum, at random
_MAX_LOCATED = 2**20  # entries of a matrix that is searched for the wrong one


def check_adjoint(operator: Any, *, key: Array | None = None, num_trials: int = 4) -> None:
    """Compares <A x, y> with <x, A'y> for random x and y, on the host.

    A wrong entry is detected if its error exceeds the rounding error of sums over a row and a
    column. Smaller errors pass as rounding. For a matrix of a million signs in float32, errors of
    some hundredths pass.

    Args:
      operator: the operator to check, or a matrix, which `as_operator` converts.
      key: a key of `jax.random`; None for jax.random.key(0).
      num_trials: the number of pairs of vectors, static.

    Raises:
      ValueError: if the two products differ. The message tells by how much and, for a matrix of up
        to a million entries, at which entry most. Also if a product of zeros is not 0.

    >>> import jax.numpy as jnp, jboost
    >>> jboost.operators.check_adjoint(jboost.operators.identity(3))
    >>> jboost.operators.check_adjoint(
    ...     jboost.operators.from_functions(jnp.cumsum, jnp.cumsum, (3, 3))
    ... )
    Traceback (most recent call last):
      ...
    ValueError: operator: rmatvec is not the adjoint of matvec: <A x, y> is ..., ...
    """
    check.on_host(
        "jboost.operators.check_adjoint",
        instead="check the operator before",
        operator=operator,
        key=key,
    )
    check.count("num_trials", num_trials, low=1)
    operator = as_operator(operator)
    rows, columns = operator.shape
    if rows == 0 or columns == 0:
        return
    _check_zeros(operator)
    right_key, left_key = jax.random.split(jax.random.key(0) if key is None else key)
    right, left = (
        _random_signs(right_key, (num_trials, columns)),
        _random_signs(left_key, (num_trials, rows)),
    )
    images, back = _products_on_host(operator, right, left)
    one, other = (
        np.sum(a * np.asarray(b).astype(np.float64), axis=1)
        for a, b in ((images, left), (back, right))
    )
    gaps = np.abs(one - other)
    # approximates the norm of the matrix, because the signs are random
    length = max(float(np.linalg.norm(product, axis=1).max()) for product in (images, back))
    tolerance = (
        _ROUNDINGS
        * float(jnp.finfo(jnp.result_type(float)).eps)
        * float(np.sqrt(rows + columns))
        * length
    )
    if np.all(gaps <= tolerance):
        return
    worst = int(np.argmax(np.where(np.isnan(gaps), np.inf, gaps)))
    message = (
        f"operator: rmatvec is not the adjoint of matvec: <A x, y> is {one[worst]:.7g}, <x, A'y> is"
        f" {other[worst]:.7g}"
    )
    raise ValueError(message + (_wrong_entry(operator) if rows * columns <= _MAX_LOCATED else ""))


def _check_zeros(operator: Operator) -> None:
    """Raises ValueError if a product of zeros is not 0."""
    rows, columns = operator.shape
    for name, product, size in (
        ("matvec", operator.matvec, columns),
        ("rmatvec", operator.rmatvec, rows),
    ):
        if np.any(np.abs(np.asarray(product(jnp.zeros((size,), float)))) > 0):
            raise ValueError(
                f"operator.{name} of zeros is not 0: expected a product with a matrix, without"
                " anything added to it"
            )


def _products_on_host(
    operator: Operator, right: Array, left: Array
) -> tuple[np.ndarray, np.ndarray]:
    """The products A x and A'y in float64. Raises ValueError if they have wrong shapes."""
    rows, columns = operator.shape
    images, back = (
        np.asarray(part).astype(np.float64) for part in _products(operator, right, left)
    )
    if images.shape[1:] != (rows,) or back.shape[1:] != (columns,):
        raise ValueError(
            f"operator has shape {[rows, columns]}: matvec returns shape {list(images.shape[1:])},"
            f" rmatvec {list(back.shape[1:])}"
        )
    return images, back


def _random_signs(key: Array, shape: tuple[int, int]) -> Array:
    """Signs times sizes between 1/2 and 1, so that two errors do not cancel."""
    sign_key, size_key = jax.random.split(key)
    return jax.random.rademacher(sign_key, shape, float) * jax.random.uniform(
        size_key, shape, minval=0.5
    )


@jax.jit
def _products(operator: Any, right: Array, left: Array) -> tuple[Array, Array]:
    return jax.vmap(operator.matvec)(right), jax.vmap(operator.rmatvec)(left)


@jax.jit
def _both_matrices(operator: Any) -> tuple[Array, Array]:
    rows, columns = operator.shape
    return jax.vmap(operator.matvec)(jnp.eye(columns)).T, jax.vmap(operator.rmatvec)(jnp.eye(rows))


def _wrong_entry(operator: Operator) -> str:
    forward, backward = (np.asarray(part) for part in _both_matrices(operator))
    gaps = np.abs(forward - backward)
    i, j = np.unravel_index(np.argmax(np.where(np.isnan(gaps), np.inf, gaps)), gaps.shape)
    return (
        f"; entry [{i}, {j}] is {forward[i, j]:.7g} by matvec and {backward[i, j]:.7g} by rmatvec"
    )
