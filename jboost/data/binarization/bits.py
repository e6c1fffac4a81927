"""The bits of rows of features."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, devices
from jboost.base.types import Array
from jboost.data import attributes as tables
from jboost.data.binarization.conditions import Binarizer, Kind


def apply(binarizer: Binarizer, features: Any) -> Array:
    """The bits of rows of features. For features of numbers, it may be jitted and vmapped.

    Args:
      binarizer: from `fit`.
      features: [m, n] of any kind that `fit` accepts. A JAX array, as under jit and vmap, contains
        numbers, and the codes of `encode` instead of text. In a list or a NumPy array, numbers are
        converted to text if training had text. A DataFrame must have the columns of `fit`, in any
        order.

    Returns:
      [m, N] floats 0 and 1. A bit is NaN if the value is missing, and `missing` was "none" or the
      attribute had no missing values in training.

    Raises:
      ValueError: if `features` has a wrong shape or kind, or text where training had numbers.

    >>> from jboost.data.binarization import fit
    >>> binarizer = fit([[1.0], [2.0], [np.nan]], [1, -1, -1], names=["size"])
    >>> binarizer.bit_names
    ('size <= 1.5', 'size is missing')
    >>> apply(binarizer, [[1.2], [np.nan]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    numbers = encode(binarizer, features)
    is_floating = jnp.issubdtype(numbers.dtype, jnp.floating)
    held = numbers.astype(
        jnp.promote_types(numbers.dtype, jnp.float32) if is_floating else jnp.result_type(float)
    )
    if binarizer.num_bits == 0:
        return jnp.zeros((held.shape[0], 0), held.dtype)
    return _bits(
        held,
        binarizer.attributes,
        binarizer.kinds,
        jnp.asarray(binarizer.thresholds),
        jnp.asarray(binarizer.missing_is_value),
    )


def apply_on_host(binarizer: Binarizer, numbers: np.ndarray) -> np.ndarray:
    """The bits of rows, computed by NumPy: nothing is compiled, whatever the number of rows.

    Args:
      binarizer: of `fit`.
      numbers: [m, n] floats as `encode` gives them.

    Returns:
      [m, N] floats as `apply` gives them.

    >>> from jboost.data.binarization import fit
    >>> binarizer = fit([[1.0], [2.0], [np.nan]], [1, -1, -1], names=["size"])
    >>> apply_on_host(binarizer, np.asarray(encode(binarizer, [[1.2], [np.nan]]))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    fields = (
        binarizer.attributes,
        binarizer.kinds,
        binarizer.thresholds,
        binarizer.missing_is_value,
    )
    return _bits_by(np, numbers, *(np.asarray(field) for field in fields))


def _bits_by(
    module: Any,
    features: Any,
    attributes: Any,
    kinds: Any,
    thresholds: Any,
    missing_is_value: Any,
) -> Any:
    """The bits, computed by NumPy or `jax.numpy`."""
    values = features[:, attributes]
    limits = thresholds.astype(features.dtype)[None, :]
    is_missing = module.isnan(values)
    holds = module.where((kinds == Kind.AT_MOST)[None, :], values <= limits, values == limits)
    holds = module.where((kinds == Kind.MISSING)[None, :], is_missing, holds)
    unmatched = is_missing & ~missing_is_value[attributes][None, :]
    return module.where(unmatched, module.nan, holds).astype(features.dtype)


_bits = jax.jit(functools.partial(_bits_by, jnp))


def encode(binarizer: Binarizer, features: Any) -> Array:
    """Rows of features as numbers, converted on the host. Text becomes its index among the
    categories of training, or -1 if it did not occur in training.

    Args:
      binarizer: from `fit`.
      features: [m, n] of any kind that `fit` accepts. A JAX array is returned unchanged, because it
        contains such numbers already.

    Returns:
      [m, n] numbers in a JAX array, NaN where missing.

    Raises:
      ValueError: if `features` has a wrong shape, or text where training had numbers.

    >>> from jboost.data.binarization import fit
    >>> binarizer = fit(np.array([["red", 1], ["blue", 2], [None, 3]], object), [1, -1, -1])
    >>> encode(binarizer, np.array([["blue", 4], ["red", None], ["green", 5]], object)).tolist()
    [[0.0, 4.0], [1.0, nan], [-1.0, 5.0]]
    """
    num_attributes = len(binarizer.names)
    if isinstance(features, jax.Array):
        return check.numeric("features", features, shape=("m", num_attributes), kinds="fiub")
    check.on_host(
        "jboost.data.binarization.encode, of lists and tables,",
        instead="pass one JAX array [m, n]",
        features=features,
    )
    table = tables.as_table(features, binarizer.names)
    if table.shape[1] != num_attributes:
        raise ValueError(
            f"features has shape {list(table.shape)}: expected shape [m, {num_attributes}], as in"
            " training"
        )
    numbers = tables.to_numbers(table, binarizer.categories, binarizer.names, np.arange(len(table)))
    with np.errstate(over="ignore"):  # a value that overflows gives the same bits as infinity
        return devices.from_host(
            numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64)
        )
