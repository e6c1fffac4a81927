"""The empirical Rademacher complexity of monomials: how well those of an order fit random labels on
the examples at hand (Bartlett and Mendelson 2002).
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, derivatives, meshes
from jboost.base.types import Array, ArrayLike
from jboost.monomials.solve import maximum_agreement
from jboost.monomials.types import SearchConfig


@meshes.takes_gathered
@derivatives.without("jboost.monomials.rademacher_complexity")
def rademacher_complexity(
    features: ArrayLike,
    key: Array,
    *,
    max_order: int,
    num_draws: int = 32,
    mask: ArrayLike | None = None,
    config: SearchConfig | None = None,
) -> Array:
    """The empirical Rademacher complexity of the monomials of each order, times the number of
    examples: the mean over random labels s in {-1, +1}^m of max_u |sum_i s_i u(x_i)|.

    Each maximum is a maximum monomial agreement, of which the upper bound is taken: it is exact up
    to rounding unless a limit of `config` ends the search. Massart's lemma bounds the expectation
    by sqrt(2 m ln(2^(k + 1) C(N, k))), which does not see the features (`costs.rademacher`). As a
    cost it is in units of examples: use `costs.by_order(scale * complexity)`.

    Args:
      features: [m, N] of 0 and 1; NaN where neither literal holds, with `config.missing` only.
      key: a JAX random key, for the labels.
      max_order: K, static, from 1 to N.
      num_draws: of the labels, static, at least 1. The standard error falls with its root.
      mask: [m] bool, False for examples that do not count; None for all True.
      config: of the searches.

    Returns:
      [K] for the orders 1 to K.

    Raises:
      ValueError: for features or a mask of another shape, and for sizes out of their range.

    Source: proposed by Goldberg and Eckstein (2009), Section 7; Bartlett and Mendelson (2002).

    >>> import jax
    >>> import numpy as np
    >>> features = np.eye(8)  # a literal holds for one example, or for all but one
    >>> complexity = rademacher_complexity(features, jax.random.key(0), max_order=1, num_draws=8)
    >>> 1.0 <= float(complexity[0]) <= 9.0
    True
    """
    features = check.numeric("features", features, shape=("m", "N"), kinds="fiub").astype(float)
    check.key("key", key)
    check.count("max_order", max_order, low=1)
    if max_order > features.shape[1]:
        check.has_columns(features.shape[1])
        raise ValueError(
            f"max_order is {max_order}, above the {features.shape[1]} attributes: pass at most"
            f" {features.shape[1]}"
        )
    check.count("num_draws", num_draws, low=1)
    num_examples = features.shape[0]
    counts = (
        jnp.ones((num_examples,), bool)
        if mask is None
        else check.numeric("mask", mask, shape=(num_examples,), kinds="b")
    )
    return _complexities(
        features,
        key,
        counts,
        max_order=max_order,
        num_draws=num_draws,
        config=check.config("config", config, SearchConfig),
    )


@functools.partial(jax.jit, static_argnames=("max_order", "num_draws", "config"))
def _complexities(
    features: Array,
    key: Array,
    mask: Array,
    *,
    max_order: int,
    num_draws: int,
    config: SearchConfig,
) -> Array:
    labels = jax.random.rademacher(key, (num_draws, features.shape[0]), features.dtype)
    orders = jnp.arange(max_order + 1)

    def largest(pair: tuple[Array, Array]) -> Array:
        order, signs = pair
        found = maximum_agreement(
            features,
            signs,
            jnp.ones_like(signs),
            max_order=max_order,
            costs=jnp.where(orders == order, 0.0, jnp.inf).astype(signs.dtype),
            mask=mask,
            config=config,
        )
        return found.upper_bound

    pairs = (jnp.repeat(orders[1:], num_draws), jnp.tile(labels, (max_order, 1)))
    return jnp.mean(lax.map(largest, pairs).reshape(max_order, num_draws), axis=1)
