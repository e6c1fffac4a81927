"""Synthetic data sets, pure JAX: the same key gives the same set, and each function may be jitted
and vmapped over keys.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jboost.base import check, types
from jboost.base.types import Array, ArrayLike, Dataset

_RIPLEY_CENTRES = (((-0.7, 0.3), (0.3, 0.3)), ((-0.3, 0.7), (0.4, 0.7)))  # of class -1, of class +1
_RIPLEY_DEVIATION = 0.03**0.5


def ripley_mixture(key: Array, num_examples: int) -> Dataset:
    """Two classes in the plane, each an equal mixture of two Gaussians (Ripley 1996); the Bayes
    error is about 8 %.

    Class -1 has its centres at (-0.7, 0.3) and (0.3, 0.3), class +1 at (-0.3, 0.7) and (0.4, 0.7);
    the variance is 0.03.

    Args:
      key: a JAX random key.
      num_examples: m, static.

    Returns:
      A `Dataset` with features [m, 2]; the classes have equal probability.

    Raises:
      ValueError: at trace time, if `num_examples` is negative.

    >>> import jax
    >>> ripley_mixture(jax.random.key(0), 250).features.shape
    (250, 2)
    """
    _check_size(num_examples)
    label_key, centre_key, noise_key = jax.random.split(key, 3)
    labels = _draw_labels(label_key, num_examples)
    component = jax.random.bernoulli(centre_key, shape=(num_examples,)).astype(jnp.int32)
    centres = jnp.array(_RIPLEY_CENTRES)[(labels > 0).astype(jnp.int32), component]
    return types.make_dataset(
        centres + _RIPLEY_DEVIATION * jax.random.normal(noise_key, (num_examples, 2)), labels
    )


def two_gaussians(key: Array, num_examples: int, *, separation: ArrayLike = 2.0) -> Dataset:
    """Two classes in the plane, each one unit Gaussian; the best separator is the line x = 0.

    Args:
      key: a JAX random key.
      num_examples: m, static.
      separation: [], the distance of the two centres, (-separation / 2, 0) and (separation / 2, 0).

    Returns:
      A `Dataset` with features [m, 2]; the classes have equal probability.

    Raises:
      ValueError: at trace time, if `num_examples` is negative.

    >>> import jax
    >>> dataset = two_gaussians(jax.random.key(0), 100, separation=20.0)
    >>> bool((dataset.features[:, 0] * dataset.labels > 0).all())
    True
    """
    _check_size(num_examples)
    label_key, noise_key = jax.random.split(key)
    labels = _draw_labels(label_key, num_examples)
    shift = labels * jnp.asarray(separation) / 2
    return types.make_dataset(
        jax.random.normal(noise_key, (num_examples, 2)).at[:, 0].add(shift), labels
    )


def random_labels(key: Array, num_examples: int) -> Dataset:
    """Points uniform in the square [-1, 1]^2 with labels that say nothing about them: the hardest
    case for a search.

    Args:
      key: a JAX random key.
      num_examples: m, static.

    Returns:
      A `Dataset` with features [m, 2].

    Raises:
      ValueError: at trace time, if `num_examples` is negative.

    >>> import jax
    >>> random_labels(jax.random.key(0), 10).labels.shape
    (10,)
    """
    _check_size(num_examples)
    label_key, point_key = jax.random.split(key)
    return types.make_dataset(
        jax.random.uniform(point_key, (num_examples, 2), minval=-1.0),
        _draw_labels(label_key, num_examples),
    )


def _draw_labels(key: Array, num_examples: int) -> Array:
    return jnp.where(jax.random.bernoulli(key, shape=(num_examples,)), 1.0, -1.0)


def _check_size(num_examples: int) -> None:
    check.count("num_examples", num_examples, low=0)
