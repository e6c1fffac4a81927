"""Validation of labels and weights; examples of weight 0 are masked out.

Values are checked outside of compiled programs only. Compiled programs report bad values by the
status INVALID_INPUT. Each public function that takes labels or weights calls one of
`validate_examples`, `validate_on_host`, `validate_weights` and `counted`, and uses its result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, devices, example_values
from jboost.base.types import Array, ArrayLike, Dataset, fill, require_dataset


def validate_examples(
    labels: ArrayLike,
    weights: ArrayLike | None,
    mask: ArrayLike | None,
    num_examples: int,
    *,
    kinds: str = "fiu",
) -> tuple[Array, Array, Array]:
    """Labels, weights and mask [m] as arrays; `mask` is False where a weight is 0.

    Raises:
      ValueError: naming the argument, for a shape or a kind; for values that are not allowed where
        they are known.
    """
    labels = check.label_array("labels", labels, shape=(num_examples,), kinds=kinds)
    weights, mask = validate_weights(weights, mask, num_examples)
    validate_known_labels(labels, mask)
    return labels, weights, mask


def validate_on_host(
    labels: ArrayLike,
    weights: ArrayLike | None,
    mask: ArrayLike | None,
    num_examples: int,
    *,
    kinds: str = "fi",
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`validate_examples` for a function of the host, which may be called where something else is
    traced. Nothing is compiled for the number of examples.
    """
    weights = np.ones(num_examples) if weights is None else weights
    mask = np.ones(num_examples, bool) if mask is None else mask
    with jax.ensure_compile_time_eval():
        signs, sizes, counts = (
            np.asarray(part)
            for part in validate_examples(labels, weights, mask, num_examples, kinds=kinds)
        )
    return signs, sizes, counts


def validate_weights(
    weights: ArrayLike | None, mask: ArrayLike | None, num_examples: int
) -> tuple[Array, Array]:
    """Weights and mask [m] as arrays; `mask` is False where a weight is 0. Raises ValueError,
    naming the argument.
    """
    is_given = weights is not None
    weights, mask = fill(weights, mask, num_examples)
    if is_given:
        validate_known_weights(weights, mask)
        mask = without_zeros(weights, mask)
    return weights, mask


def counted(dataset: Dataset) -> Dataset:
    """The data set with `mask` False where a weight is 0. Raises ValueError for what is no data
    set, and where labels or weights that are known are not allowed.
    """
    require_dataset(dataset)
    validate_known_weights(dataset.weights, dataset.mask)
    dataset = mask_zeros(dataset)
    validate_known_labels(dataset.labels, dataset.mask)
    return dataset


def mask_zeros(dataset: Dataset) -> Dataset:
    """The data set with `mask` False where a weight is 0; its values are not validated. Raises
    ValueError for what is no data set.
    """
    require_dataset(dataset)
    return dataset._replace(mask=without_zeros(dataset.weights, dataset.mask))


def without_zeros(weights: Array, mask: Array) -> Array:
    """The mask [m] without the examples of weight 0.

    If all weights are 0, the mask is returned unchanged. Later checks then find the invalid
    weights.
    """
    if _are_at_hand(weights, mask):
        counts = np.asarray(mask) & (np.asarray(weights) != 0)
        if not counts.any() or (counts == np.asarray(mask)).all():
            return mask
        is_spread = isinstance(mask, jax.Array) and len(mask.devices()) > 1
        with jax.ensure_compile_time_eval():
            return jax.device_put(counts, mask.sharding) if is_spread else devices.from_host(counts)
    return _drop_zeros(weights, mask)


@jax.jit
def _drop_zeros(weights: Array, mask: Array) -> Array:
    has_weight = weights != 0
    return mask & (has_weight | ~jnp.any(mask & has_weight))


def validate_known_labels(labels: Array, mask: Array) -> None:
    """Raises ValueError, naming `labels`, where they and the mask are known and one that counts is
    neither -1 nor +1.
    """
    if not check.are_traced(labels, mask) and _any(_are_bad_labels, labels, mask):
        _on_host("labels", labels, mask)
        example_values.require_labels(labels, mask)


def validate_known_weights(weights: Array, mask: Array) -> None:
    """Raises ValueError, naming `weights`, where they and the mask are known and one that counts is
    not allowed, or all are 0.
    """
    if not check.are_traced(weights, mask) and _any(_are_bad_weights, weights, mask):
        _on_host("weights", weights, mask)
        example_values.require_weights(weights, mask)


def _on_host(name: str, *arrays: Array) -> None:
    """Raises ValueError where the process does not hold all of the arrays, and cannot say which
    value is not allowed.
    """
    if not all(isinstance(array, np.ndarray) or array.is_fully_addressable for array in arrays):
        what = "-1 or +1" if name == "labels" else "finite and not negative, and not all 0"
        raise ValueError(
            f"{name} hold a value that is not allowed, on some process: they must be {what}; call"
            " jboost.validate on each part"
        )


def _are_bad_labels(labels: Any, mask: Any) -> Any:
    return (abs(labels) != 1) & mask


def _are_bad_weights(weights: Any, mask: Any) -> Any:
    """Whether the weight of an example is not allowed; True for all examples if all are 0."""
    least = (
        float(jnp.finfo(weights.dtype).tiny) if jnp.issubdtype(weights.dtype, jnp.floating) else 1
    )
    is_bad = ~((weights == 0) | ((weights >= least) & (weights < np.inf))) & mask
    return is_bad | (mask & ~(mask & (weights != 0)).any())


def _are_at_hand(*arrays: Array) -> bool:
    """Whether to read the arrays costs nothing."""
    return not check.are_traced(*arrays) and all(
        isinstance(array, np.ndarray)
        or (
            array.is_fully_addressable
            and all(device.platform == "cpu" for device in array.devices())
        )
        for array in arrays
    )


def _any(are_bad: Callable[..., Any], *arrays: Array) -> bool:
    """Whether the test is True of any example: on the host where the arrays are there, else by one
    small program.
    """
    if _are_at_hand(*arrays):
        with np.errstate(invalid="ignore"):
            return bool(are_bad(*map(np.asarray, arrays)).any())
    with jax.ensure_compile_time_eval():
        return bool(_ANY[are_bad](*arrays))


_ANY = {
    test: jax.jit(lambda *arrays, test=test: jnp.any(test(*arrays)))
    for test in (_are_bad_labels, _are_bad_weights)
}
