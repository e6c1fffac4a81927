"""The data set record and the type names that all modules share."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from chex import Array, ArrayTree

from jboost.base import check, devices, example_values
from jboost.base.check import ArrayLike

PyTree = ArrayTree

__all__ = ["Array", "ArrayLike", "Dataset", "PyTree", "make_dataset", "validate"]


class Dataset(NamedTuple):
    """Labelled examples with weights given by the user."""

    # [m, N] or [m, ...] real, integer or boolean; or an operator [m, N] that stores them packed
    features: Array
    labels: Array  # [m] +1 or -1
    weights: Array  # [m] not negative; an example of weight 0 is ignored
    mask: Array  # [m] bool, False where a row is padding


def is_packed(features: Any) -> bool:
    """Whether features are an operator `PackedSigns` or `Stored` of `jboost.operators`.

    Learners unpack a few columns of such an operator at a time.
    """
    return hasattr(features, "columns_at") and hasattr(features, "rmatvec")


def make_dataset(
    features: Any,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> Dataset:
    """Makes a `Dataset` of examples; `weights` and `mask` default to ones.

    It checks shapes and kinds only, and may be called under `vmap`, `jit` and `scan`. The functions
    that take the data set check known labels and weights. `jboost.validate` checks all values.

    Args:
      features: [m, N], one row per example: an array, or an operator of
        `jboost.operators.packed_signs` or `stored` for `jboost.learners.pool`. Arrays with more
        axes, such as images [m, H, W, C], are for `jboost.learners.trained` and user-defined
        learners. Numbers below the least normal one, 1.2e-38 in float32, count as 0, as XLA
        compares them: hypotheses and bounds are those of such features.
      labels: [m], +1 or -1, of any real or integer dtype.
      weights: [m], the importance of each example, in any unit, not negative. A weight of 0 counts
        as `mask` False. None for ones.
      mask: [m] boolean, False for rows that only pad; None for all True.

    Returns:
      A `Dataset`.

    Raises:
      ValueError: at trace time, naming the argument, where a shape or a kind is wrong.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0, 1.0], [2.0, 3.0]], [1, -1])
    >>> dataset.weights.tolist(), dataset.mask.tolist()
    ([1.0, 1.0], [True, True])
    """
    if not is_packed(features):
        features = check.numeric("features", features, shape=("m", "N", "..."), kinds="fiub")
    num_examples = features.shape[0]
    labels = check.label_array("labels", labels, shape=(num_examples,))
    return Dataset(features, labels, *fill(weights, mask, num_examples))


def fill(weights: Any, mask: Any, num_examples: int) -> tuple[Array, Array]:
    """Weights and mask [m], checked in shape and kind, with ones in place of None."""
    weights = (
        jnp.ones(num_examples)
        if weights is None
        else check.numeric("weights", weights, shape=(num_examples,), kinds="fiu")
    )
    mask = (
        devices.ones_beside(weights, bool)
        if mask is None
        else check.numeric("mask", mask, shape=(num_examples,), kinds="b")
    )
    return weights, mask


def require_dataset(dataset: Any) -> None:
    """Raises ValueError unless the argument is a data set."""
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"dataset is a {type(dataset).__name__}: expected a jboost.Dataset;"
            " jboost.make_dataset(features, labels) makes one"
        )


def validate(dataset: Dataset, *, allow_missing: bool = False) -> None:
    """Checks the values of a data set on the host.

    Args:
      dataset: a result of `jboost.make_dataset`, with concrete arrays.
      allow_missing: whether NaN features are allowed. `jboost.learners.stumps` takes them as
        missing values.

    Raises:
      ValueError: naming the argument, the first bad entry and the remedy, for NaN or infinite
        features, labels outside {-1, +1}, and weights that are negative or not finite, or all 0; or
        if the arrays are traced and have no values yet.

    >>> import jboost
    >>> jboost.validate(jboost.make_dataset([[0.0], [1.0]], [0, 1]))
    Traceback (most recent call last):
      ...
    ValueError: labels[0] is 0: labels are -1 or +1 (1 such in all); map 0/1 labels by ...
    """
    require_dataset(dataset)
    check.on_host(
        "jboost.validate",
        instead="inside these, the status INVALID_INPUT reports bad values",
        dataset=dataset,
    )
    # Packed features are always finite.
    features = (
        np.zeros((len(dataset.labels), 1))
        if is_packed(dataset.features)
        else np.asarray(dataset.features)
    )
    if allow_missing:
        features = np.where(np.isnan(features), 0, features)
    example_values.values(features, *dataset[1:])
