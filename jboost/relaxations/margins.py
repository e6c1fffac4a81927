"""The matrix of margins that solvers take: stored, or an operator."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jboost import operators
from jboost.base import check, reduce
from jboost.base.types import Array, Dataset


def checked_margins(margins: Any) -> Any:
    """A matrix [m, n], or an operator other than one of a stored matrix. Raises ValueError for
    anything else, naming `margins`.
    """
    if isinstance(margins, operators.Dense):
        return margins.matrix
    if not operators.is_operator(margins):
        return check.numeric("margins", margins, shape=("m", "n"), kinds="fiu")
    if not hasattr(margins, "largest_entry") or isinstance(margins, operators.FromFunctions):
        raise ValueError(
            f"margins is a {type(margins).__name__}, of which it is not known that entries lie in"
            " [-1, 1]: pass a matrix, jboost.operators.packed_signs, or jboost.operators.stored"
        )
    return margins if margins.shape[1] > 0 else margins.to_dense()


def are_in_range(rows: Dataset) -> Array:
    """Whether the margins lie in [-1, 1], [] bool: those of all rows that are not masked, or all
    those of an operator.
    """
    margins: Any = rows.features
    if operators.is_operator(margins):
        return jnp.asarray(margins.largest_entry() <= 1)
    return reduce.all_true(
        (jnp.abs(margins.astype(jnp.result_type(float))) <= 1) | ~rows.mask[:, None], axis=(0, 1)
    )


def columns_of(matrix: Any) -> Any:
    """The transpose of a matrix or an operator."""
    return operators.transposed(matrix) if operators.is_operator(matrix) else matrix.T
