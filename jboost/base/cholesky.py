"""Cholesky factors and diagonals of small matrices, in few kernels.

`jnp.diagonal`, `jnp.diag` and `lax.linalg.cholesky` build masks or gathers from indices. These do
not depend on values, so XLA for CPUs computes each of them before a loop, in a separate kernel and
again in another layout. The functions here slice and pad instead.
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
    """The lower Cholesky factors [..., k, k] of symmetric matrices [..., k, k].

    Only the lower triangle of a matrix is read. The factor of a matrix that is not positive
    definite is NaN. Entries above the diagonal of a factor are undefined; `solve` does not read
    them.
    """
    lower: Array = lax.linalg.cholesky_p.bind(matrix)
    return lower


def solve(lower: Array, right: Array) -> Array:
    """Solves linear systems with right-hand sides [k] or [..., k, r], given lower factors."""
    return cho_solve((lower, True), right)
