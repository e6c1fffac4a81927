"""Distributionally robust losses by the names of the literature: special cases of `worst_case`."""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, labelled, named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.types import Array, ArrayLike
from jboost.losses.robust import counting, in_units_of, validate_losses, worst_case
from jboost.relaxations import chi_square_ball, kl_ball, kl_penalty, soft_margin


def cvar(
    losses: ArrayLike,
    nu: ArrayLike,
    *,
    smoothing: ArrayLike = 0.0,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    axis_name: AxisName = None,
) -> Array:
    """The conditional value at risk, []: the mean of the worst share nu of the losses [m].

    nu is 1 - alpha of the finance literature: 1 for the mean, towards 0 the maximum. Where nu m is
    no integer, the example at the threshold counts in part. Arguments after `*` and errors as of
    `solve_worst_case`; the same as `worst_case` with `jboost.relaxations.soft_margin(nu=nu)`.

    Source: Rockafellar and Uryasev, Optimization of conditional value-at-risk (2000).

    >>> import jax.numpy as jnp, jboost
    >>> float(jboost.losses.cvar(jnp.array([1.0, 3.0, 2.0, 0.0]), 0.5))
    2.5
    """
    relaxation = soft_margin(nu=nu)
    return worst_case(
        losses, relaxation, smoothing=smoothing, weights=weights, mask=mask, axis_name=axis_name
    )


def mean_of_worst(
    losses: ArrayLike,
    k: ArrayLike,
    *,
    smoothing: ArrayLike = 0.0,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    axis_name: AxisName = None,
) -> Array:
    """The mean of the k largest losses, []: the average top-k loss.

    Args:
      losses: [m].
      k: [] at least 1 and at most the number of examples; with a fraction, an example counts in
        part.
      smoothing, weights, mask, axis_name: as of `solve_worst_case`. With unequal weights an example
        weighs at most m / k times its share.

    Raises:
      ValueError: naming the argument, where k is known and out of range. Traced, that is NaN.

    Source: Fan, Lyu, Ying and Hu, Learning with average top-k loss (2017).

    >>> import jax.numpy as jnp, jboost
    >>> float(jboost.losses.mean_of_worst(jnp.array([1.0, 3.0, 2.0, 0.0]), 2))
    2.5
    """
    values = validate_losses(losses)
    number = check.number("k", k, low=1)
    _, kept = labelled.validate_weights(weights, mask, values.shape[0])
    if axis_name is None and check.are_known(number, kept):
        with jax.ensure_compile_time_eval():
            size = int(jnp.sum(kept))
        if float(number) > size > 0:
            what = "losses" if size == values.shape[0] else "losses that count"
            raise ValueError(
                f"k is {float(number):g}: expected at most the number of {what}, {size}"
            )
    relaxation = soft_margin(1 / number.astype(float))
    return worst_case(
        values, relaxation, smoothing=smoothing, weights=weights, mask=mask, axis_name=axis_name
    )


def chi_square_dro(
    losses: ArrayLike,
    radius: ArrayLike,
    *,
    smoothing: ArrayLike = 0.0,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    axis_name: AxisName = None,
) -> Array:
    """The worst expectation of losses [m] over distributions within a chi-square divergence, [].

    The divergence is sum_i (d_i - p_i)^2 / p_i. While no weight reaches 0 it is the mean plus
    sqrt(radius) standard deviations: variance regularization. Arguments after `*` and errors as of
    `solve_worst_case`; the same as `worst_case` with `jboost.relaxations.chi_square_ball(radius)`.

    Source: Duchi and Namkoong (2019), with radius = 2 rho; Hashimoto et al. (2018).

    >>> import jax.numpy as jnp, jboost
    >>> round(float(jboost.losses.chi_square_dro(jnp.array([1.0, 3.0]), 0.25)), 4)
    2.5
    """
    relaxation = chi_square_ball(radius)
    return worst_case(
        losses, relaxation, smoothing=smoothing, weights=weights, mask=mask, axis_name=axis_name
    )


def kl_dro(
    losses: ArrayLike,
    radius: ArrayLike | None = None,
    *,
    scale: ArrayLike | None = None,
    smoothing: ArrayLike = 0.0,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    axis_name: AxisName = None,
) -> Array:
    """The worst expectation of losses [m] by relative entropy, []: within a radius, or at a price.

    Args:
      losses: [m].
      radius: [] positive, in nats: distributions d with KL(d || prior) <= radius.
      scale: [] positive, instead of the radius: all distributions, less scale * KL(d || prior).
        That is scale * log mean exp(losses / scale), tilted empirical risk.
      smoothing, weights, mask, axis_name: as of `solve_worst_case`.

    Raises:
      ValueError: unless exactly one of radius and scale is given, and as of `solve_worst_case`.

    Source: Hu and Hong (2013); Li, Beirami, Sanjabi and Smith, Tilted empirical risk (2021).

    >>> import jax.numpy as jnp, jboost
    >>> round(float(jboost.losses.kl_dro(jnp.array([0.0, 1.0]), scale=1.0)), 4)
    0.6201
    """
    if (radius is None) == (scale is None):
        raise ValueError("radius and scale: give exactly one of them")
    relaxation: Any = kl_penalty(scale) if scale is not None else kl_ball(cast("ArrayLike", radius))
    return worst_case(
        losses, relaxation, smoothing=smoothing, weights=weights, mask=mask, axis_name=axis_name
    )


def group_dro(
    losses: ArrayLike,
    groups: ArrayLike,
    num_groups: int,
    relaxation: Any,
    *,
    smoothing: ArrayLike = 0.0,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    axis_name: AxisName = None,
) -> Array:
    """The worst expectation over groups of their mean losses, [].

    Args:
      losses: [m].
      groups: [m] integers from 0 to num_groups - 1, the group of each example.
      num_groups: how many groups there are, static. Groups without an example do not count.
      relaxation: of the distribution over the groups, which count alike:
        `jboost.relaxations.hard_margin()` for the worst group.
      smoothing: as of `solve_worst_case`.
      weights: [m] importance of each example within its group, not negative. A weight of 0 has the
        effect of `mask` False, so that the derivative in it is 0.
      mask: [m] bool, False for examples that only pad.
      axis_name: of `jax.shard_map`, where each device holds a part of the examples: two numbers a
        group cross the devices.

    Raises:
      ValueError: naming the argument, for wrong shapes and kinds; where values are known, also for
        a group out of range and a weight that is negative or not finite. Traced, these give NaN.

    Source: Sagawa, Koh, Hashimoto and Liang, Distributionally robust neural networks (2020).

    >>> import jax.numpy as jnp, jboost
    >>> hard = jboost.relaxations.hard_margin()
    >>> float(jboost.losses.group_dro(jnp.array([1.0, 3.0, 2.5]), jnp.array([0, 0, 1]), 2, hard))
    2.5
    """
    values = validate_losses(losses)
    size = values.shape[0]
    named_axis.validate(axis_name)
    group_of = check.at_least_32_bits(check.numeric("groups", groups, shape=(size,), kinds="iu"))
    check.count("num_groups", num_groups, low=1)
    sizes, kept = labelled.validate_weights(weights, mask, size)
    is_outside = kept & ((group_of < 0) | (group_of >= num_groups))
    _refuse_known(is_outside, group_of, num_groups)
    dtype = numerics.at_least_32_bits(values.dtype)
    shares, is_valid = counting(sizes.astype(dtype), kept, axis_name)
    is_valid &= ~named_axis.any_true(is_outside, axis_name)
    members = jnp.where(is_outside | ~kept, 0, group_of)

    def sums(terms: Array) -> Array:
        own = jax.ops.segment_sum(terms, members, num_groups)
        return own if axis_name is None else lax.psum(own, axis_name)

    # each group has its own unit: weights are compared within a group only
    largest = jax.ops.segment_max(lax.stop_gradient(shares), members, num_groups)
    if axis_name is not None:
        largest = lax.pmax(largest, axis_name)
    shares = in_units_of(shares, largest[members])
    masses = sums(shares)
    exists = masses > 0
    shares = shares / jnp.where(exists, masses, 1.0)[members]
    counts = kept & (shares > 0)
    means = sums(jnp.where(counts, shares * jnp.where(counts, values.astype(dtype), 0.0), 0.0))
    means = means * jnp.where(is_valid, 1.0, jnp.nan).astype(dtype)
    return worst_case(means, relaxation, smoothing=smoothing, mask=exists).astype(values.dtype)


def _refuse_known(is_outside: Array, group_of: Array, num_groups: int) -> None:
    """Raises ValueError, naming the first group out of range, where values are known."""
    if check.are_known(is_outside) and bool(is_outside.any()):
        wrong = int(group_of[jnp.argmax(is_outside)])
        raise ValueError(f"groups holds {wrong}: expected integers from 0 to {num_groups - 1}")
