"""What the float type of JAX, float32 unless 64-bit types are enabled, loses of training rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np

from jboost.data import attributes

_REMEDY = "enable 64-bit types (jax.config.update('jax_enable_x64', True))"


def validate(table: np.ndarray, names: Iterable[Any], counts: np.ndarray) -> None:
    """Checks the numbers of a table [m, n] before they are converted to the float type of JAX.

    Args:
      table: float64, or objects where a column holds text, which is not looked at.
      names: of the columns, or their indices.
      counts: [m] bool, the rows that count.

    Raises:
      ValueError: for a number that is infinite, or too large for that type; it names row and
        column.

    Warns:
      UserWarning: for a column of which fewer than half of the distinct numbers stay distinct.
    """
    rows = np.flatnonzero(counts)
    for index, name in enumerate(names):
        column = table[rows, index]
        if column.dtype == object and attributes.texts_of(column, str(name), rows) is not None:
            continue
        values = column.astype(np.float64)
        _refuse_infinite(values, rows, name)
        _warn_of_merged(values[~np.isnan(values)], name)


def _refuse_infinite(values: np.ndarray, rows: np.ndarray, name: Any) -> None:
    dtype = jnp.result_type(float)
    with np.errstate(over="ignore"):
        is_infinite = np.isinf(values.astype(dtype))
    for place in np.flatnonzero(is_infinite)[:1]:
        entry = f"X[{rows[place]}, {name!r}] is {values[place]:g}"
        if np.isinf(values[place]):
            raise ValueError(
                f"Input X contains infinity: {entry}; correct it, or pass NaN if it is unknown"
            )
        raise ValueError(
            f"{entry}, more than {dtype.name} holds ({float(jnp.finfo(dtype).max):.2g}): divide the"
            f" column by one large number, or {_REMEDY}"
        )


def _warn_of_merged(values: np.ndarray, name: Any) -> None:
    dtype = jnp.result_type(float)
    distinct = np.unique(values)
    held = distinct.astype(dtype)
    held[np.abs(held) < jnp.finfo(dtype).tiny] = 0  # programs count subnormal numbers as 0
    number = len(np.unique(held))
    if 2 * number < len(distinct):
        warnings.warn(
            f"column {name!r} of X has {len(distinct):,} distinct numbers, of which {dtype.name}"
            f" tells {number:,} apart: subtract a constant from the column, or scale it, or"
            f" {_REMEDY}",
            UserWarning,
            stacklevel=2,
        )
