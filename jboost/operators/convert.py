"""Conversion of matrices and other arguments to operators."""

from __future__ import annotations

from typing import Any

from jax.experimental.sparse import JAXSparse

from jboost.operators import sums
from jboost.operators.dense import Dense
from jboost.operators.sparse import sparse
from jboost.operators.types import Operator


def is_operator(value: Any) -> bool:
    """Whether a value has the products of an `Operator`.

    >>> import jboost
    >>> (
    ...     jboost.operators.is_operator(jboost.operators.identity(2)),
    ...     jboost.operators.is_operator([[1.0]]),
    ... )
    (True, False)
    """
    return (
        hasattr(value, "matvec") and hasattr(value, "rmatvec") and hasattr(value, "bracket_matvec")
    )


def as_operator(value: Any, *, name: str = "operator") -> Operator:
    """Converts a matrix to an operator. Operators are returned unchanged.

    Args:
      value: an operator, a matrix of `jax.experimental.sparse`, or [rows, columns] numbers.
      name: the name of the argument in error messages.

    Raises:
      ValueError: at trace time, if `value` is none of these.

    >>> import jboost
    >>> jboost.operators.as_operator([[1.0, 2.0]]).shape
    (1, 2)
    """
    if is_operator(value):
        return value
    if isinstance(value, JAXSparse):
        return sparse(value)
    return Dense(sums.cast(name, value, "rows", "columns"))
