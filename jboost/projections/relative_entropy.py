"""Projection on the capped simplex by relative entropy."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import check, exact_sums, meshes, named_axis, numerics, reduce
from jboost.base.named_axis import AxisName
from jboost.base.types import Array, ArrayLike
from jboost.projections.arguments import (
    broadcast,
    cast_arguments,
    clean,
    derivative_sets,
    finish,
)
from jboost.projections.newton import find_by_newton
from jboost.projections.remainder import remainder_of, summands
from jboost.projections.sorting import find_by_sort

# "auto" takes the Newton method from this many entries on: inside `jit`, a vector that XLA shards
# has the same type as any other, and a sort would gather it. A round number; not tuned.
_SIZE_FOR_NEWTON = 1 << 16


@meshes.takes_sharded
def kl_projection_capped_simplex(
    log_weights: ArrayLike, cap: ArrayLike, *, mask: ArrayLike | None = None, method: str = "auto"
) -> Array:
    """The projection of softmax(log_weights) on the capped simplex, by relative entropy.

    It is the distribution with no entry above its cap that minimises the relative entropy to
    softmax(log_weights).

    Args:
      log_weights: [m], finite, or -inf for a weight of 0, which stays 0.
      cap: [] or [m], positive; inf for none. In [m] a cap may be 0.
      mask: [m] boolean, False for entries that are ignored and get 0, whatever their values; None
        for all True.
      method: "sort", "newton" or "auto". The two methods agree to rounding. "newton" computes only
        sums and maxima, about ten times. It does not gather entries that are sharded over devices,
        as a sort does, and it is faster on a CPU from a few thousand entries on. "auto" is "newton"
        for entries that are known to be sharded, on a mesh of several devices, and from 65,536
        entries on; else "sort".

    Returns:
      [m], of the dtype of `log_weights` (the default float for integers), with sum 1. Where the
      caps of the entries of positive weight sum to less than 1, no such distribution exists, and
      these caps are returned. Differentiable in both modes, in `log_weights` and `cap`.

    Raises:
      ValueError: naming the argument, for wrong shapes and kinds; and where the values are known
        (not inside jit or vmap), for caps that are negative or NaN or sum to less than 1, and for
        an empty mask. Inside, an empty mask gives zeros, and NaN gives NaN.

    Source: Shalev-Shwartz and Singer, On the Equivalence of Weak Learnability and Linear
    Separability (2008), Figure 2, with <= for <.

    >>> import jax.numpy as jnp
    >>> from jboost import projections
    >>> projections.kl_projection_capped_simplex(jnp.log(jnp.array([6.0, 1.0, 1.0])), 0.5).tolist()
    [0.5, 0.25, 0.25]
    """
    check.choice("method", method, ("auto", "sort", "newton"))
    arguments = cast_arguments("log_weights", log_weights, cap, mask)
    if method == "auto":
        is_divided = meshes.is_set() or exact_sums.are_on()
        is_long = arguments[0].shape[0] >= _SIZE_FOR_NEWTON
        method = "newton" if is_divided or is_long else "sort"
    return _kl_projection(*arguments, method)


def kl_projection_by_sums(
    log_weights: Array, cap: Array, mask: Array, *, axis_name: AxisName = None
) -> Array:
    """`kl_projection_capped_simplex` by "newton", without checks of the arguments [m].

    With `axis_name` each device holds a part of the entries, as under `shard_map`.
    """
    return _kl_projection(log_weights, cap, mask, "newton", axis_name)


@functools.partial(jax.jit, static_argnames=("method", "axis_name"))
def _kl_projection(
    log_weights: Array, cap: Array, mask: Array, method: str, axis_name: AxisName = None
) -> Array:
    return _kl_with_derivative(log_weights, cap, mask, method, axis_name)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def _kl_with_derivative(
    log_weights: Array, cap: Array, mask: Array, method: str, axis_name: AxisName
) -> Array:
    logs, caps = clean(log_weights, cap, mask)
    by_newton = functools.partial(find_by_newton, axis_name=axis_name)
    found = (
        find_by_sort(logs, caps) if method == "sort" else numerics.in_64_bits(by_newton)(logs, caps)
    )
    weigh = functools.partial(_weigh, axis_name=axis_name)
    answer = numerics.in_64_bits(weigh)(logs, caps, found.is_capped)
    return finish(answer, logs, caps, found.left_by_all, found.largest).astype(log_weights.dtype)


def _weigh(logs: Array, caps: Array, is_capped: Array, axis_name: AxisName) -> Array:
    """The projection [m] for a known set of capped entries [m]; inside `in_64_bits`.

    Free entries are the weights, scaled to sum to 1 minus the caps of the capped entries.
    """
    free = jnp.where(is_capped, -jnp.inf, logs)
    own = reduce.largest(free)
    center = own if axis_name is None else named_axis.pmax(own, axis_name)
    relative = jnp.exp(logs - jnp.where(center > -jnp.inf, center, 0))
    weight, counted = named_axis.several(
        (reduce.SUM, jnp.where(is_capped, 0, relative)),
        (reduce.SUM, jnp.where(is_capped, summands(caps), 0)),
        axis_name=axis_name,
    )
    factor = jnp.maximum(remainder_of(caps, counted).astype(logs.dtype), 0) / jnp.where(
        weight > 0, weight, 1
    )
    return jnp.where(is_capped, caps, jnp.minimum(relative * factor, caps))


@_kl_with_derivative.defjvp
def _kl_derivative(
    method: str,
    axis_name: AxisName,
    primals: tuple[Array, Array, Array],
    tangents: tuple[Array, Array, Any],
) -> tuple[Array, Array]:
    log_weights, cap, mask = primals
    size = log_weights.shape[0]
    answer = _kl_with_derivative(log_weights, cap, mask, method, axis_name)

    total = functools.partial(named_axis.linear_total, axis_name=axis_name)
    capped, free = derivative_sets(answer, log_weights, cap, mask)
    log_tangent = jnp.where(free, tangents[0], 0)
    cap_tangent = jnp.where(capped, broadcast(tangents[1], size), 0)
    weight = jnp.where(free, answer, 0)
    share = numerics.safe_divide(weight, broadcast(total(weight), size))
    moved = weight * (log_tangent - total(share * log_tangent))
    return answer, cap_tangent + moved - share * total(cap_tangent)
