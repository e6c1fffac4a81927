"""Sums over a kernel matrix in chunks of rows, without the whole matrix in memory."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jboost.base import check, devices, meshes
from jboost.base.types import Array, ArrayLike
from jboost.kernels.types import Kernel, as_points

_ENTRIES_AT_ONCE = 1 << 22  # 16 MiB in float32


@meshes.takes_sharded
def weighted_disagreement(
    kernel: Kernel,
    points_a: ArrayLike,
    points_b: ArrayLike,
    coefficients: ArrayLike,
    *,
    entries_at_once: int = _ENTRIES_AT_ONCE,
) -> Array:
    """sum_j P[h(a_i) != h(b_j)] c_j for every i, without the whole matrix. For any number of points
    only a chunk is in memory, 16 MiB by default.

    Args:
      kernel: a kernel, such as `hyperplanes` makes.
      points_a: [a, d].
      points_b: [b, d].
      coefficients: [b], or [b, k] for k sums at once.
      entries_at_once: how many entries of the matrix may be in memory, static; at least one row is.

    Returns:
      [a] or [a, k].

    Raises:
      ValueError: at trace time, naming the argument.

    >>> import jboost
    >>> kernel = jboost.kernels.central_hyperplanes()
    >>> jboost.kernels.weighted_disagreement(
    ...     kernel, [[1.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [-1.0, 0.0]], [1.0, 10.0]
    ... ).tolist()
    [10.5, 5.0]
    """
    check.count("entries_at_once", entries_at_once, low=1)
    points_a = as_points("points_a", points_a, "d")
    points_b = as_points("points_b", points_b, points_a.shape[1])
    coefficients = jnp.asarray(coefficients, points_a.dtype)
    if coefficients.ndim not in (1, 2) or coefficients.shape[0] != points_b.shape[0]:
        raise ValueError(
            f"coefficients has shape {list(coefficients.shape)}: expected [{points_b.shape[0]}] or"
            f" [{points_b.shape[0]}, k]"
        )
    return _sums(kernel, points_a, points_b, coefficients, entries_at_once=entries_at_once)


@devices.public_jit(static_argnames=("entries_at_once",))
def _sums(
    kernel: Kernel, points_a: Array, points_b: Array, coefficients: Array, *, entries_at_once: int
) -> Array:
    rows = max(1, min(points_a.shape[0], entries_at_once // max(points_b.shape[0], 1)))
    num_chunks = max(1, -(-points_a.shape[0] // rows))
    padded = jnp.pad(points_a, ((0, num_chunks * rows - points_a.shape[0]), (0, 0))).reshape(
        num_chunks, rows, -1
    )

    def one_chunk(chunk: Array) -> Array:
        return jnp.matmul(
            kernel.disagreement(chunk, points_b), coefficients, precision=lax.Precision.HIGHEST
        )

    sums = one_chunk(padded[0])[None] if num_chunks == 1 else lax.map(one_chunk, padded)
    return sums.reshape(num_chunks * rows, *coefficients.shape[1:])[: points_a.shape[0]]
