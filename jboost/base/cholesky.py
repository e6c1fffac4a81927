"""Cholesky's factors of small matrices, and their diagonals, in few kernels.

`jnp.diagonal`, `jnp.diag` and `lax.linalg.cholesky` compare indices or gather by them. Neither
depends on values, so that XLA for CPUs computes the masks and indices before a loop, each in a
kernel of its own and again in another layout. The functions here slice and pad instead.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve

from jboost.base.types import Array


def diagonal(matrix: Array) -> Array:
    """The diagonal [k] of a matrix [k, k].

    >>> import jax.numpy as jnp
    >>> from jboost.base import cholesky
    >>> cholesky.diagonal(jnp.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [1.0, 4.0]
    """
    return matrix.reshape(-1)[:: matrix.shape[0] + 1]


def on_diagonal(values: Array) -> Array:
    """The matrix [k, k] with values [k] on its diagonal, 0 elsewhere.

    >>> import jax.numpy as jnp
    >>> from jboost.base import cholesky
    >>> cholesky.on_diagonal(jnp.array([1.0, 2.0])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    size = values.shape[0]
    return (
        jnp.pad(values[:, None], ((0, 0), (0, size))).reshape(-1)[: size * size].reshape(size, size)
    )


def factor(matrix: Array) -> Array:
    """The lower factor of matrices [..., k, k], of which the lower triangle counts; NaN where one
    is not positive definite.

    What is above the diagonal of the factor is not set to 0: `solve` does not read it.
    """
    lower: Array = lax.linalg.cholesky_p.bind(matrix)
    return lower


def solve(lower: Array, right: Array) -> Array:
    """The solutions [k] or [..., k, r] of systems whose matrices have these lower factors."""
    return cho_solve((lower, True), right)
