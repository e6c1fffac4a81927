"""Synthetic data sets.

The functions are pure: the same key gives the same data set. They can be jitted and vmapped over
keys.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import check, loops, types
from jboost.base.types import Array, ArrayLike, Dataset

_RIPLEY_CENTRES = (((-0.7, 0.3), (0.3, 0.3)), ((-0.3, 0.7), (0.4, 0.7)))  # of class -1, of class +1
_RIPLEY_DEVIATION = 0.03**0.5


def ripley_mixture(key: Array, num_examples: int) -> Dataset:
    """Draws two classes in the plane, each an equal mixture of two Gaussians (Ripley 1996).

    The centres of class -1 are (-0.7, 0.3) and (0.3, 0.3), those of class +1 are (-0.3, 0.7) and
    (0.4, 0.7). The variance is 0.03. The Bayes error is about 8 %.

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
    """Draws two classes in the plane, each a unit Gaussian. The best separator is the line x = 0.

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
    """Draws points uniformly from the square [-1, 1]^2, with labels independent of the points.

    These data are the hardest case for a search.

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


class ThresholdFunction(NamedTuple):
    """A linear threshold function of k Boolean attributes.

    It is +1 if the sum of the coefficients of the true attributes is at least the threshold, and -1
    otherwise. In the notation of Hatano, Section 4, it is sign(a.x + 1 - delta) for x in
    {-1, +1}^k, with a = coefficients / sum, delta = `bias` and rho = `margin`.
    """

    coefficients: Array  # [k] int32, at least 1
    threshold: Array  # [] int32, from 1 to the sum of the coefficients
    margin: Array  # [] rho, the smallest |a.x + 1 - delta| over all x
    bias: Array  # [] delta = (2 threshold - 1) / sum, so that the border is between two integers


def r_of_k(r: int, k: int) -> ThresholdFunction:
    """Returns the function that is +1 if at least r of k attributes are true.

    r = 1 is a disjunction, and r = k is a conjunction. The `margin` is 1 / k.

    Args:
      r: static, from 1 to k.
      k: static, at least 1.

    Raises:
      ValueError: if a size is out of its range.

    Source: Hatano, Section 4.

    >>> function = r_of_k(2, 4)
    >>> float(function.margin), float(function.bias)
    (0.25, 0.75)
    """
    check.count("k", k, low=1)
    check.count("r", r, low=1)
    if r > k:
        raise ValueError(f"r is {r}, and k is {k}: expected r from 1 to k")
    return _function(jnp.ones((k,), jnp.int32), jnp.asarray(r, jnp.int32), largest=1)


def random_threshold(key: Array, k: int, *, largest: int = 5) -> ThresholdFunction:
    """Draws a threshold function of k attributes with random integer coefficients.

    The coefficients are uniform in 1 .. largest. The threshold is uniform in 1 .. sum // 2, so that
    the bias delta is below 1. The exception is k = 1 with coefficient 1, where delta is 1.

    Args:
      key: a JAX random key.
      k: static, at least 1.
      largest: static, at least 1.

    Raises:
      ValueError: if a size is out of its range.

    >>> import jax
    >>> function = random_threshold(jax.random.key(0), 6)
    >>> bool(function.margin <= function.bias < 1)
    True
    """
    check.count("k", k, low=1)
    check.count("largest", largest, low=1)
    of_coefficients, of_threshold = jax.random.split(key)
    coefficients = jax.random.randint(of_coefficients, (k,), 1, largest + 1, jnp.int32)
    most = jnp.maximum(jnp.sum(coefficients, dtype=jnp.int32) // 2, 1)
    threshold = jax.random.randint(of_threshold, (), 1, most + 1, jnp.int32)
    return _function(coefficients, threshold, largest=largest)


def threshold_labels(function: ThresholdFunction, features: ArrayLike) -> Array:
    """Returns the labels [m] of a threshold function for Boolean features [m, N].

    The function uses the first k columns.

    Raises:
      ValueError: at trace time, if the features have fewer than k columns.

    >>> threshold_labels(r_of_k(2, 3), [[1, 1, 0, 0], [1, 0, 0, 1]]).tolist()
    [1.0, -1.0]
    """
    features = check.numeric("features", features, shape=("m", "N"), kinds="fiub")
    k = function.coefficients.shape[0]
    if features.shape[1] < k:
        raise ValueError(
            f"features have {features.shape[1]} columns: expected at least {k}, one for each"
            " coefficient of the function"
        )
    sums = jnp.sum(jnp.where(features[:, :k] > 0, function.coefficients, 0), axis=1)
    return jnp.where(sums >= function.threshold, 1.0, -1.0)


def threshold_examples(
    key: Array, function: ThresholdFunction, num_examples: int, *, num_features: int | None = None
) -> Dataset:
    """Draws examples close to the border of a threshold function. Both classes are equally likely.

    The attributes of the function are set to true in random order until the sum of their
    coefficients reaches the threshold. In a negative example the last of them is left false. For
    `r_of_k` the true attributes are therefore a uniform draw of r or r - 1 of the k attributes.
    The other N - k attributes are true with probability 1/2.

    Args:
      key: a JAX random key.
      function: of k attributes.
      num_examples: m, static.
      num_features: N, static, at least k; None for k.

    Returns:
      A `Dataset` with Boolean features [m, N].

    Raises:
      ValueError: at trace time, if a size is out of its range.

    >>> import jax
    >>> dataset = threshold_examples(jax.random.key(0), r_of_k(1, 3), 50, num_features=5)
    >>> bool((dataset.features[:, :3].any(axis=1) == (dataset.labels > 0)).all())
    True
    """
    _check_size(num_examples)
    k = function.coefficients.shape[0]
    num_features = k if num_features is None else num_features
    check.count("num_features", num_features, low=k)
    label_key, order_key, coin_key = jax.random.split(key, 3)
    labels = _draw_labels(label_key, num_examples)
    order = jnp.argsort(jax.random.uniform(order_key, (num_examples, k)), axis=1)
    ordered = function.coefficients[order]
    reached = jnp.cumsum(ordered, axis=1)
    is_true = jnp.where(
        labels[:, None] > 0, reached - ordered < function.threshold, reached < function.threshold
    )
    read = jnp.take_along_axis(is_true, jnp.argsort(order, axis=1), axis=1)
    coins = jax.random.bernoulli(coin_key, shape=(num_examples, num_features - k))
    return types.make_dataset(jnp.concatenate([read, coins], axis=1), labels)


@functools.partial(jax.jit, static_argnames=("largest",))
def _function(coefficients: Array, threshold: Array, *, largest: int) -> ThresholdFunction:
    """Computes the margin from the sums of all subsets of the coefficients."""
    k = coefficients.shape[0]
    sums = jnp.arange(k * largest + 1)

    def add(is_sum: Array, coefficient: Array) -> tuple[Array, None]:
        return is_sum | ((sums >= coefficient) & is_sum[jnp.maximum(sums - coefficient, 0)]), None

    is_sum, _ = loops.scan(add, sums == 0, coefficients)
    total = jnp.sum(coefficients, dtype=jnp.int32)
    border = 2 * threshold - 1
    distance = jnp.min(jnp.where(is_sum, jnp.abs(2 * sums - border), 2 * k * largest))
    return ThresholdFunction(coefficients, threshold, distance / total, border / total)


def _draw_labels(key: Array, num_examples: int) -> Array:
    return jnp.where(jax.random.bernoulli(key, shape=(num_examples,)), 1.0, -1.0)


def _check_size(num_examples: int) -> None:
    check.count("num_examples", num_examples, low=0)
