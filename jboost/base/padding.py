"""Data sets of similar size in one shape, so that they share what is compiled."""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base import check
from jboost.base.types import Dataset

_STEPS = 4  # sizes to a doubling: each is at most 1.25 times the one before


def pad_dataset(dataset: Dataset, *, num_examples: int | None = None, num_features: int | None = None) -> Dataset:
    """The data set with examples that are masked out and columns of zeros behind its own.

    Functions compile anew for each shape. Data sets that are padded to one shape share a program. Masked examples
    change no result. Columns of zeros change none for learners of stumps (they have no split), pools of columns
    with negations (they have no edge) and monomials (their literals hold nowhere or everywhere; tell costs how
    many attributes there are, as in `jboost.monomials.costs.mdl(num_attributes=N)`). For `learners.literals` a
    column of zeros is the constant hypothesis, and for `learners.trained` a further input: pad examples only.

    Args:
      dataset: m examples, N columns; it may be traced.
      num_examples: at least m, static; None for m.
      num_features: at least N, static; None for N.

    Returns:
      A `Dataset` of `num_examples` examples and `num_features` columns, with the dtypes of the given one. Padding has
      features 0, label +1, weight 1 and mask False.

    Raises:
      ValueError: naming the argument, for a size below that of the data set or one that is no whole number.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[1.0], [2.0]], [1, -1])
    >>> padded = jboost.pad_dataset(dataset, num_examples=3, num_features=2)
    >>> padded.features.tolist(), padded.mask.tolist()
    ([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]], [True, True, False])
    """
    if not isinstance(dataset, Dataset):
        raise ValueError(f"dataset is a {type(dataset).__name__}: expected a jboost.Dataset, as jboost.make_dataset returns it")
    have_examples, have_features = dataset.features.shape
    rows = _missing("num_examples", num_examples, have_examples, "examples")
    columns = _missing("num_features", num_features, have_features, "columns of features")
    if not rows and not columns:
        return dataset
    return Dataset(
        jnp.pad(dataset.features, ((0, rows), (0, columns))),
        jnp.pad(dataset.labels, (0, rows), constant_values=1),
        jnp.pad(dataset.weights, (0, rows), constant_values=1),
        jnp.pad(dataset.mask, (0, rows), constant_values=False),
    )


def _missing(name: str, wanted: int | None, size: int, what: str) -> int:
    if wanted is None:
        return 0
    check.count(name, wanted, low=0)
    if wanted < size:
        raise ValueError(f"{name} is {wanted}, but the data set has {size} {what}: padding only adds, so give {size} or more")
    return wanted - size


def shared_size(size: int, *, least: int = 1, doubles_to: int = 1, steps: int = _STEPS) -> int:
    """The smallest of a few sizes that is not below `size`.

    The sizes are `least`, its doubles up to `doubles_to` (both powers of two), and from there on `steps` to a doubling:
    so padding costs little where a computation takes long, and shares one program among many sizes where it does not.

    >>> [shared_size(size, least=256, doubles_to=1024) for size in (3, 257, 600, 1025, 3000)]
    [256, 512, 1024, 1280, 3072]
    """
    size = max(size, least)
    power = 1 << (size - 1).bit_length()
    if power <= doubles_to:
        return power
    unit = max(power // (2 * steps), 1)
    return -(-size // unit) * unit
