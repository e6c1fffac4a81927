"""The worst expectation of the losses of a batch over distributions of the examples.

With a relaxation f it is max over d of <d, losses> - f(d) - smoothing * KL(d || prior), where d is
a distribution over the examples and the prior their weights (Shalev-Shwartz and Singer 2008,
Theorem 7, with margins of the opposite sign). Its gradient in the losses is the maximiser d*
(Danskin 1966).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import check, labelled, meshes, named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.relaxations import Relaxation, envelope
from jboost.relaxations.types import is_positive, positive, with_derivative_of

# Larger losses are divided by a power of two, because squares of their sums may overflow float32.
# Not by more than that, because derivatives in these units must not underflow.
_LARGE = 2.0**40


class WorstCase(NamedTuple):
    """The worst expectation, and the distribution that attains it."""

    value: Array  # [] NaN unless the status is OPTIMAL; inf where a loss is
    example_weights: Array  # [m] d*, 0 on padding; NaN unless the status is OPTIMAL
    status: Array  # [] int32: OPTIMAL, INFEASIBLE or INVALID_INPUT


@meshes.takes_sharded
def solve_worst_case(
    losses: ArrayLike,
    relaxation: Any,
    *,
    smoothing: ArrayLike = 0.0,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    axis_name: AxisName = None,
) -> WorstCase:
    """The worst expectation of losses under a relaxation, the distribution that attains it, and a
    status.

    Args:
      losses: [m] real numbers, such as the cross-entropy of each example. Accumulated in float32 or
        wider; results have the dtype of the losses.
      relaxation: f, such as `jboost.relaxations.soft_margin(nu=0.1)`; its numbers may be traced.
      smoothing: [] the strength of an entropy that makes d* unique and smooth in the losses,
        finite; 0 for none. A traced one must be positive, and normal in the precision of the
        losses.
      weights: [m] importance of each example, not negative; the prior in proportion to it. None for
        equal weights. Caps and radii are relative to the prior.
      mask: [m] bool, False for examples that only pad, which may hold anything.
      axis_name: of `jax.shard_map`, where each device holds a part of the examples. A few numbers
        cross the devices (`psum`); the losses do not. The value is the same on all devices. The
        gradient in replicated parameters, taken within `shard_map`, is the whole one: no `psum` of
        it. With `check_vma=False` it is a part of which `lax.pmean` makes the whole one; taken
        around `shard_map` it is whole in both.

    Returns:
      A `WorstCase`. Traced, a cap below 1 / m has status INFEASIBLE; NaN or -inf among the losses,
      an empty mask, a negative weight and a wrong smoothing have status INVALID_INPUT; both give
      NaN.

    Raises:
      ValueError: naming the argument, for wrong shapes; where values are known, also for an empty
        mask, negative weights, and a relaxation that allows no distribution. Outside `shard_map`
        with a relaxation of one's own (`from_functions`) `axis_name` must be None.

    >>> import jax.numpy as jnp, jboost
    >>> found = jboost.losses.solve_worst_case(
    ...     jnp.array([1.0, 3.0, 2.0, 0.0]), jboost.relaxations.soft_margin(nu=0.5)
    ... )
    >>> float(found.value), found.example_weights.tolist()
    (2.5, [0.0, 0.5, 0.5, 0.0])
    """
    values = validate_losses(losses)
    if not isinstance(relaxation, Relaxation):
        raise ValueError(
            f"relaxation is a {type(relaxation).__name__}: expected one of jboost.relaxations"
        )
    sizes, kept = labelled.validate_weights(weights, mask, values.shape[0])
    named_axis.validate(axis_name)
    strength = check.number("smoothing", smoothing, low=0)
    is_exact = not check.are_traced(smoothing) and bool(np.asarray(smoothing) == 0)
    strength = strength if is_exact else positive("smoothing", smoothing)
    found = _solve(values, relaxation, None if is_exact else strength, sizes, kept, axis_name)
    if check.are_known(found) and axis_name is None:
        _raise_known(found, relaxation, kept)
    return found


def worst_case(
    losses: ArrayLike,
    relaxation: Any,
    *,
    smoothing: ArrayLike = 0.0,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    axis_name: AxisName = None,
) -> Array:
    """The worst expectation of losses under a relaxation, []: the value of `solve_worst_case`,
    whose arguments these are.

    Its gradient in the losses is `worst_case_weights`, so that an optimizer steps on the examples
    that the adversary chose. Derivatives of second order are those of the weights.

    >>> import jax, jax.numpy as jnp, jboost
    >>> loss = lambda losses: jboost.losses.worst_case(
    ...     losses, jboost.relaxations.soft_margin(nu=0.5)
    ... )
    >>> jax.grad(loss)(jnp.array([1.0, 3.0, 2.0, 0.0])).tolist()
    [0.0, 0.5, 0.5, 0.0]
    """
    return solve_worst_case(
        losses, relaxation, smoothing=smoothing, weights=weights, mask=mask, axis_name=axis_name
    ).value


def worst_case_weights(
    losses: ArrayLike,
    relaxation: Any,
    *,
    smoothing: ArrayLike = 0.0,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    axis_name: AxisName = None,
) -> Array:
    """The distribution d* [m] that attains the worst expectation; arguments as of
    `solve_worst_case`.

    Differentiable almost everywhere; that of a hard or soft margin is piecewise constant in the
    losses unless `smoothing` is positive.

    >>> import jax.numpy as jnp, jboost
    >>> jboost.losses.worst_case_weights(
    ...     jnp.array([1.0, 3.0]), jboost.relaxations.hard_margin()
    ... ).tolist()
    [0.0, 1.0]
    """
    return solve_worst_case(
        losses, relaxation, smoothing=smoothing, weights=weights, mask=mask, axis_name=axis_name
    ).example_weights


def validate_losses(losses: ArrayLike) -> Array:
    """Losses [m] as floats. Raises ValueError, naming them, for another shape or kind,
    or for none.
    """
    array = check.numeric("losses", losses, shape=("m",), kinds="fiu")
    if array.shape[0] == 0:
        raise ValueError("losses is empty: expected one example at least")
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)


@functools.partial(jax.jit, static_argnames=("axis_name",))
def _solve(
    losses: Array,
    relaxation: Any,
    strength: Array | None,
    weights: Array,
    mask: Array,
    axis_name: AxisName,
) -> WorstCase:
    dtype = numerics.at_least_32_bits(losses.dtype)
    wide = losses.astype(dtype)
    # Equal weights are constants, which XLA would fold for seconds where the batch is large.
    weights, mask = lax.optimization_barrier((weights.astype(dtype), mask))
    prior, is_valid = _prior_of(weights, mask, axis_name)
    is_counted = prior > 0
    broken = is_counted & (jnp.isnan(wide) | (wide == -jnp.inf))
    is_valid &= ~named_axis.any_true(broken, axis_name) & relaxation.is_valid()
    if strength is not None:
        strength = strength.astype(dtype)
        is_valid &= is_positive(strength)
    is_infinite = named_axis.any_true(is_counted & (wide == jnp.inf), axis_name)
    is_feasible = relaxation.is_feasible(prior, axis_name=axis_name)
    margins = -_cleaned(wide, is_counted)
    relaxation, unit = _in_units(relaxation, _unit_of(margins, is_counted, axis_name))
    margins = margins / unit
    if strength is not None:
        strength = _noticeable(strength / unit, margins, is_counted, axis_name)
    value = -unit * envelope.minimum(relaxation, margins, strength, prior, axis_name)
    found = envelope.minimiser(relaxation, margins, strength, prior, axis_name)
    is_fine = is_valid & is_feasible
    other = jnp.where(is_fine & is_infinite, jnp.inf, jnp.nan).astype(dtype)
    is_fine &= ~is_infinite
    status = jnp.where(is_feasible, int(Status.OPTIMAL), int(Status.INFEASIBLE))
    status = jnp.where(is_valid & ~is_infinite, status, int(Status.INVALID_INPUT))
    return WorstCase(
        _replaced(value, is_fine, other).astype(losses.dtype),
        _replaced(found, is_fine, jnp.full((), jnp.nan, dtype)).astype(losses.dtype),
        status.astype(jnp.int32),
    )


def _prior_of(weights: Array, mask: Array, axis_name: AxisName) -> tuple[Array, Array]:
    """The weights as a distribution [m], and whether they are one; else equal shares of all
    examples.
    """
    kept, is_valid = counting(weights, mask, axis_name)
    # the sum must not overflow
    kept = in_units_of(kept, named_axis.largest(lax.stop_gradient(kept), kept > 0, axis_name))
    total = named_axis.total(kept, axis_name)
    is_valid &= total > 0
    equal = jnp.full_like(kept, 1 / named_axis.size(kept.shape[0], axis_name))
    return jnp.where(is_valid, kept / jnp.where(is_valid, total, 1.0), equal), is_valid


def counting(weights: Array, mask: Array, axis_name: AxisName) -> tuple[Array, Array]:
    """The weights [m] that count, 0 for the others, and whether all are finite and not negative."""
    is_fine = (weights >= 0) & (weights < jnp.inf)
    is_valid = ~named_axis.any_true(mask & ~is_fine, axis_name)
    return jnp.where(mask & is_fine, weights, 0.0), is_valid


def in_units_of(weights: Array, largest: Array) -> Array:
    """The weights [m] divided by a power of two at least as large as `largest` ([] or [m])."""
    _, above = jnp.frexp(jnp.maximum(largest, 0.0))
    return numerics.times_power_of_two(weights, -above)


def _in_units(relaxation: Any, unit: Array) -> tuple[Any, Array]:
    """The relaxation for margins in a unit, and the unit: 1 for a relaxation without units."""
    in_units = relaxation.in_units(unit)
    return (relaxation, jnp.ones_like(unit)) if in_units is None else (in_units, unit)


def _unit_of(margins: Array, is_counted: Array, axis_name: AxisName) -> Array:
    """A power of two [], 1 unless margins are so large that sums of squares may overflow; then the
    largest is about _LARGE units.
    """
    one = jnp.ones((), margins.dtype)
    sizes = jnp.abs(jax.lax.stop_gradient(margins))
    largest = named_axis.largest(sizes, is_counted, axis_name)
    is_large = (largest > _LARGE) & (largest < jnp.inf)
    return jnp.where(is_large, numerics.power_of_two_at_least(largest / _LARGE), one)


def _noticeable(strength: Array, margins: Array, is_counted: Array, axis_name: AxisName) -> Array:
    """The strength, or one that is lost in the rounding of the margins and by which they can be
    divided.
    """
    fixed, eps = jax.lax.stop_gradient(margins), jnp.finfo(margins.dtype).eps
    low, high = (
        named_axis.least(fixed, is_counted, axis_name),
        named_axis.largest(fixed, is_counted, axis_name),
    )
    least = jnp.where(high > low, eps**2 * high - eps**2 * low, 0.0)
    return with_derivative_of(jnp.maximum(strength, least), strength)


@jax.custom_jvp
def _cleaned(values: Array, is_counted: Array) -> Array:
    """The values that count, 0 for others and for those that are not finite; these keep their
    derivatives, which become NaN later.
    """
    return jnp.where(is_counted & jnp.isfinite(values), values, 0.0)


@_cleaned.defjvp
def _derivative_of_cleaned(
    primals: tuple[Array, Array], tangents: tuple[Array, Any]
) -> tuple[Array, Array]:
    return _cleaned(*primals), jnp.where(primals[1], tangents[0], 0.0)


@jax.custom_jvp
def _replaced(values: Array, is_fine: Array, other: Array) -> Array:
    """The values, or `other` unless they are fine; then derivatives are NaN."""
    return jnp.where(is_fine, values, other)


@_replaced.defjvp
def _derivative_of_replaced(
    primals: tuple[Array, Array, Array], tangents: tuple[Array, Any, Any]
) -> tuple[Array, Array]:
    values, is_fine, _ = primals
    spoiled = jnp.where(is_fine, 1.0, jnp.nan).astype(values.dtype)
    return _replaced(*primals), tangents[0] * spoiled


def _raise_known(found: WorstCase, relaxation: Any, mask: Array) -> None:
    """Raises ValueError for what the status says of arguments that are known."""
    num_examples = int(mask.sum())
    if num_examples == 0:
        raise ValueError("mask is empty: keep one example at least")
    if int(found.status) == int(Status.INFEASIBLE):
        raise ValueError(
            f"relaxation {relaxation} allows no distribution over {num_examples} examples: raise"
            " its cap to 1 / m at least (nu to at most 1), or the radius of a norm ball to"
            " m ** (1 / order - 1)"
        )
