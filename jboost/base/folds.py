"""Folds of a data set as masks, so that all of them go through one vmapped call."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, labelled, meshes
from jboost.base.types import Array, ArrayLike


@meshes.takes_sharded
def stratified_folds(
    key: Array, labels: ArrayLike, *, num_folds: int, mask: ArrayLike | None = None
) -> Array:
    """Random folds in which every class is spread as evenly as its size allows.

    Args:
      key: a JAX random key.
      labels: [m], +1 or -1.
      num_folds: how many folds, static, at least 2.
      mask: [m] bool, False for padding, which is in no fold.

    Returns:
      [num_folds, m] bool, True where the example is held out in that fold. Every unmasked example
      is held out once, and the sizes of the folds differ by at most one, also within the positive
      class.

    Raises:
      ValueError: at trace time, if `key` is no key, `num_folds` is below 2 or a shape is wrong; for
        known labels other than +1 and -1.

    >>> import jax, jboost
    >>> held_out = jboost.folds.stratified_folds(
    ...     jax.random.key(0), [1, 1, -1, -1, -1, -1], num_folds=2
    ... )
    >>> held_out.sum(axis=1).tolist()
    [3, 3]
    """
    check.count("num_folds", num_folds, low=2)
    check.key("key", key)
    labels = check.label_array("labels", labels, shape=("m",), kinds="fi")
    signs, _, mask = labelled.validate_examples(labels, None, mask, labels.shape[0], kinds="fi")
    return _folds(key, signs, mask, num_folds=num_folds)


@functools.partial(jax.jit, static_argnames=("num_folds",))
def _folds(key: Array, signs: Array, mask: Array, *, num_folds: int) -> Array:
    size = signs.shape[0]
    group = jnp.where(mask, (signs < 0).astype(jnp.int32), 2)
    _, _, order = lax.sort(
        (group, jax.random.uniform(key, (size,)), lax.iota(jnp.int32, size)), num_keys=2
    )
    # Examples are ordered by class, randomly within a class. Their ranks modulo `num_folds` spread
    # every class evenly.
    rank = jnp.zeros(size, jnp.int32).at[order].set(lax.iota(jnp.int32, size))
    fold = jnp.where(mask, rank % num_folds, num_folds)
    return fold[None, :] == lax.iota(jnp.int32, num_folds)[:, None]
