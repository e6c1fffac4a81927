"""The sampling scheme that defines the classifier (Naish-Guzman, Holden and Paquet, Section 2): it
shares no formula of a kernel with the fit, and so checks scores.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import check, derivatives, loops, meshes, numerics
from jboost.base.types import Array, ArrayLike
from jboost.example_weights.types import ExampleWeightModel

_AT_ONCE = 256  # draws of one step of the loop, whose outputs are held together


class SampledScores(NamedTuple):
    """Estimates of the scores of a model."""

    scores: Array  # [k] NaN if the model has no example weights
    standard_errors: Array  # [k]


@meshes.takes_gathered
@derivatives.without("jboost.example_weights.sample_scores")
def sample_scores(
    model: ExampleWeightModel, features: ArrayLike, key: Array, *, num_draws: int = 10_000
) -> SampledScores:
    """Scores by the sampling scheme (1): draws an example by its weight d_i, then a hypothesis with
    h(x_i) = y_i, and takes the mean of h(x) / 2.

    The limit is F_d(x) as `jboost.predict_scores` computes it in closed form, wherever the measure
    of the kernel is defined (`kernel.is_inside`). Half of the measure has h(x_i) = y_i, which is
    the factor 1/2 of (1). A draw with the other output is negated, as h and -h are equally likely.

    Args:
      model: of `fit` or `fit_large`.
      features: [k, d].
      key: a JAX random key.
      num_draws: static, at least 2. The standard error is at most 1 / (2 sqrt(num_draws - 1)).

    Returns:
      `SampledScores`. The draws are the same for all points, so that errors are correlated.

    Raises:
      ValueError: naming the argument; for a kernel without the method `draw`.

    Source: Naish-Guzman, Holden and Paquet, (1) and (2).

    >>> import jax, jboost
    >>> points = [[-2.0, 0.0], [-1.0, 0.5], [1.0, 0.0], [2.0, 1.0]]
    >>> model = jboost.example_weights.fit(points, [-1, -1, 1, 1], penalty=1.0, radius=5.0)
    >>> sampled = jboost.example_weights.sample_scores(model, points, jax.random.key(0))
    >>> gaps = abs(sampled.scores - jboost.predict_scores(model, points))
    >>> bool((gaps < 4 * sampled.standard_errors).all())
    True
    """
    check.record("model", model, ExampleWeightModel)
    rows = check.numeric("features", features, shape=("k", model.centre.shape[-1]), kinds="fiu")
    check.key("key", key)
    check.count("num_draws", num_draws, low=2)
    return _sample(model, rows.astype(model.points.dtype), key, num_draws=num_draws)


@functools.partial(jax.jit, static_argnames=("num_draws",))
def _sample(
    model: ExampleWeightModel, features: Array, key: Array, *, num_draws: int
) -> SampledScores:
    rows = features - model.centre[None, :]
    log_weights = jnp.log(model.example_weights)

    def outputs(number: Array) -> Array:
        of_example, of_hypothesis = jax.random.split(jax.random.fold_in(key, number))
        example = jax.random.categorical(of_example, log_weights)
        signs = model.kernel.draw(
            of_hypothesis, jnp.concatenate([model.points[example][None, :], rows])
        )
        return jnp.where(number < num_draws, model.labels[example] * signs[0] * signs[1:], 0.0)

    def step(total: Array, first: Array) -> tuple[Array, None]:
        return total + jnp.sum(jax.vmap(outputs)(first + jnp.arange(_AT_ONCE)), axis=0), None

    starts = jnp.arange(0, num_draws, _AT_ONCE)
    total, _ = loops.scan(step, jnp.zeros(rows.shape[:1], rows.dtype), starts)
    has_weights = jnp.sum(model.example_weights) > 0
    mean = jnp.where(has_weights, 0.5 * total / num_draws, jnp.nan)
    variance = jnp.maximum(0.25 - mean**2, 0.0)
    return SampledScores(mean, numerics.root(variance / (num_draws - 1)))
