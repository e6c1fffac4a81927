"""Bregman projections on the capped simplex for any separable h (Shalev-Shwartz and Singer 2008,
Lemma 12 and Corollary 13).

For h(d) = sum_i phi(d_i) with a strictly convex phi, and C the distributions with d_i <= cap_i,
argmin over C of B_h(d || grad h*(theta)) is d_i = min(cap_i, [phi'^-1(theta_i - nu)]_+), where nu
is the one number with which the entries sum to 1. The sum decreases in nu. A safeguarded Newton
iteration finds it; derivatives are those of the implicit function.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, derivatives, loops, meshes, numerics, reduce, roots
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike, PyTree
from jboost.projections.arguments import broadcast, cast_arguments, clean, finish

# Searches for nu go on while each makes the second part of nu smaller by this factor.
_MOST_SEARCHES, _SMALLER = 6, 1e-2
_MOST_STEPS = 240  # of the search for nu: a flat h needs one for each bit of a small number
_MOST_DOUBLINGS = 120  # of the length of the interval of nu; 2^120 is a float32


@register
@dataclasses.dataclass(frozen=True)
class MirrorMap:
    """phi' and its inverse, elementwise, for h(d) = sum_i phi(d_i)."""

    parameters: PyTree
    gradient_function: Callable[[PyTree, Array], Array] = dataclasses.field(
        metadata={"static": True}
    )
    inverse_function: Callable[[PyTree, Array], Array] = dataclasses.field(
        metadata={"static": True}
    )

    def gradient(self, points: Array) -> Array:
        """The gradient of h at points [m]: dual points."""
        return jnp.asarray(self.gradient_function(self.parameters, points), points.dtype)

    def inverse(self, duals: Array) -> Array:
        """The gradient of h* at dual points [m]: points."""
        return jnp.asarray(self.inverse_function(self.parameters, duals), duals.dtype)


def mirror_map(
    gradient: Callable[[PyTree, Array], Array],
    inverse: Callable[[PyTree, Array], Array],
    *,
    parameters: PyTree = (),
) -> MirrorMap:
    """A mirror map of your own, for `bregman_projection`.

    Args:
      gradient: (parameters, d [m]) -> phi'(d) [m], elementwise and strictly increasing, finite for
        d in (0, 1). It may be inf at 0 and 1.
      inverse: (parameters, z [m]) -> phi'^-1(z) [m], elementwise and increasing, for any z. Results
        of 0 or less stand for 0.
      parameters: any pytree of numbers, which may be traced. Use module-level functions: every new
        lambda causes a compilation.

    Raises:
      ValueError: if one of the two is not a function, or if a leaf of the parameters is not a
        number.

    >>> import jax.numpy as jnp
    >>> from jboost import projections
    >>> burg = projections.mirror_map(  # phi = -log
    ...     lambda _, d: -1 / d, lambda _, z: jnp.where(z < 0, -1 / jnp.minimum(z, -1e-30), jnp.inf)
    ... )
    >>> projected = projections.bregman_projection(burg.gradient(jnp.array([1.0, 0.5])), burg, 0.6)
    >>> [round(float(weight), 4) for weight in projected]
    [0.6, 0.4]
    """
    for name, function in (("gradient", gradient), ("inverse", inverse)):
        if not callable(function):
            raise ValueError(f"{name} is a {type(function).__name__}: expected a function")
    check.pytree_of_numbers(
        "parameters",
        parameters,
        remedy="numbers and arrays only; what is static belongs in the functions",
    )
    return MirrorMap(parameters, gradient, inverse)


def entropy_map() -> MirrorMap:
    """h(d) = sum d log d, whose Bregman divergence is the relative entropy. The projection is that
    of `kl_projection_capped_simplex`, which is faster and more exact.

    >>> import jax.numpy as jnp
    >>> from jboost import projections
    >>> logs = jnp.log(jnp.array([6.0, 1.0, 1.0]))
    >>> projected = projections.bregman_projection(logs, projections.entropy_map(), 0.5)
    >>> [round(float(weight), 4) for weight in projected]
    [0.5, 0.25, 0.25]
    """
    return MirrorMap((), _log, _exp)


def binary_entropy_map() -> MirrorMap:
    """h(d) = sum d log d + (1 - d) log(1 - d): the binary entropies of Shalev-Shwartz and Singer
    (2008), Section 6. Dual points are log odds.

    >>> import jax.numpy as jnp
    >>> from jboost import projections
    >>> odds = jnp.array([2.0, 0.0, 0.0])
    >>> projected = projections.bregman_projection(odds, projections.binary_entropy_map())
    >>> [round(float(weight), 4) for weight in projected]
    [0.628, 0.186, 0.186]
    """
    return MirrorMap((), _log_odds, _sigmoid)


def power_map(order: ArrayLike) -> MirrorMap:
    """h(d) = sum |d|^order / order, the norm of this order to its power. Order 2 is the Euclidean
    projection, `projection_capped_simplex`.

    Args:
      order: [] above 1; may be traced.

    Raises:
      ValueError: if the order is not above 1.

    >>> import jax.numpy as jnp
    >>> from jboost import projections
    >>> projected = projections.bregman_projection(
    ...     jnp.array([2.0, 0.5, 0.25]), projections.power_map(2), 0.5
    ... )
    >>> [round(float(weight), 4) for weight in projected]
    [0.5, 0.375, 0.125]
    """
    return MirrorMap(
        check.number("order", order, low=1, high=check.LARGEST, open_low=True).astype(float),
        _power,
        _root,
    )


def _log(_: PyTree, points: Array) -> Array:
    return jnp.log(points)


def _exp(_: PyTree, duals: Array) -> Array:
    return jnp.exp(duals)


def _log_odds(_: PyTree, points: Array) -> Array:
    return jnp.log(points) - jnp.log1p(-points)


def _sigmoid(_: PyTree, duals: Array) -> Array:
    return jax.nn.sigmoid(duals)


def _power(order: Array, points: Array) -> Array:
    return jnp.sign(points) * jnp.abs(points) ** (order.astype(points.dtype) - 1)


def _root(order: Array, duals: Array) -> Array:
    is_positive = duals > 0
    logs = jnp.log(jnp.where(is_positive, duals, 1.0)) / (order.astype(duals.dtype) - 1)
    return jnp.where(is_positive, jnp.exp(logs), 0.0)


@meshes.takes_sharded
def bregman_projection(
    dual_point: ArrayLike,
    mirror: MirrorMap,
    cap: ArrayLike = jnp.inf,
    *,
    mask: ArrayLike | None = None,
) -> Array:
    """The Bregman projection on the capped simplex: argmin of B_h(d || grad h*(theta)) over
    distributions d with no entry above its cap.

    Args:
      dual_point: theta [m], finite, or -inf for an entry that stays 0. To project a point d0, pass
        `mirror.gradient(d0)`.
      mirror: h, such as `binary_entropy_map()`, `power_map(3.0)` or one's own `mirror_map`.
      cap: [] positive, or [m] not negative; inf for no cap.
      mask: [m] boolean, False for entries that are ignored and get 0, whatever their values; None
        for all True.

    Returns:
      [m], of the dtype of `dual_point` (the default float for integers), with sum 1. Where the caps
      sum to less than 1, no such distribution exists, and the caps are returned. Differentiable in
      both modes, in `dual_point`, `cap` and the parameters of the map, wherever a small change
      leaves the same entries between 0 and their caps. NaN where h is so flat that no nu of the
      float type gives the sum 1: `power_map` takes the power order - 1 of weights, which is 0 in
      float32 for weights of .01 and order 20.

    Raises:
      ValueError: naming the argument, for wrong shapes and kinds; and where the values are known
        (not inside jit or vmap), for caps that are negative or NaN or sum to less than 1, and for
        an empty mask. Inside, an empty mask gives zeros.

    Source: Shalev-Shwartz and Singer, On the Equivalence of Weak Learnability and Linear
    Separability (2008), Corollary 13.

    >>> import jax.numpy as jnp
    >>> from jboost import projections
    >>> projections.bregman_projection(
    ...     jnp.array([1.0, 1.0, 1.0, 1.0]), projections.power_map(3.0)
    ... ).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if not isinstance(mirror, MirrorMap):
        raise ValueError(
            f"mirror is a {type(mirror).__name__}: expected one of jboost.projections, such as"
            " binary_entropy_map()"
        )
    return _project(*cast_arguments("dual_point", dual_point, cap, mask), mirror)


class _Nu(NamedTuple):
    """nu as a sum of two numbers: rounded to one it may be far off where h is flat."""

    origin: Array  # []
    level: Array  # []
    num_searches: Array  # [] int32
    helps: Array  # [] bool, whether another search may make the level smaller


@jax.jit
def _project(dual_point: Array, cap: Array, mask: Array, mirror: MirrorMap) -> Array:
    values, caps = clean(dual_point, cap, mask)
    is_kept = values > -jnp.inf
    largest = reduce.largest(lax.stop_gradient(values))
    caps = jnp.where(is_kept, broadcast(caps, values.shape[0]), 0.0)

    nu = _find_nu(mirror, values, caps, is_kept, largest)
    duals = values - nu.origin
    neutral = lax.stop_gradient(mirror.gradient(jnp.full_like(values, 0.5)))

    def differentiable(level: Array) -> Array:
        """`_weigh`, where only free entries use the inverse: that of an entry above its cap may be
        inf, and so is its derivative, which reverse mode would multiply by 0.
        """
        fixed = lax.stop_gradient(_weigh(*lax.stop_gradient((mirror, duals, caps, level)), is_kept))
        is_free = (fixed > 0) & (fixed < caps)
        free = mirror.inverse(jnp.where(is_free, duals - level, neutral))
        return jnp.where(is_free, free, jnp.where(fixed > 0, caps, 0.0))

    level = roots.implicit_root(
        lambda trial: jnp.sum(differentiable(trial)) - 1, nu.level, refines=False
    )
    weights = differentiable(level)
    left_by_all = 1 - numerics.precise_sum(caps)
    answer = finish(_of_sum_one(weights, caps), values, caps, left_by_all, largest)
    missing = jnp.abs(numerics.precise_sum(lax.stop_gradient(weights)) - 1)
    is_found = (missing <= jnp.finfo(values.dtype).eps ** 0.5) | ~is_kept.any() | (left_by_all > 0)
    known: Array = derivatives.where(is_found, answer)  # type: ignore[assignment]
    return known.astype(dual_point.dtype)


def _find_nu(mirror: MirrorMap, values: Array, caps: Array, is_kept: Array, largest: Array) -> _Nu:
    """The nu at which the weights [m] sum to 1, for dual points `values` [m] of which one is
    `largest` [].
    """

    def search(nu: _Nu) -> _Nu:
        origin = nu.origin + nu.level
        fixed, above = lax.stop_gradient((mirror, values, caps)), largest - origin
        shifted = (fixed[0], fixed[1] - origin, fixed[2])
        level = _find_level(
            lambda level: _weigh(*shifted, level, is_kept), above, fixed[0], is_kept, values.dtype
        )
        helps = (nu.num_searches == 0) | (jnp.abs(level) < _SMALLER * jnp.abs(nu.level))
        return _Nu(origin, level, nu.num_searches + 1, helps)

    # Each search measures the dual points from the last nu, so that differences are exact.
    nothing, none = jnp.zeros_like(largest), jnp.zeros((), jnp.int32)
    nu, _ = loops.bounded_loop(
        search,
        lambda nu: nu.helps,
        _Nu(largest, nothing, none, none == 0),
        max_checks=_MOST_SEARCHES,
    )
    return nu


def _weigh(mirror: MirrorMap, values: Array, caps: Array, level: Array, is_kept: Array) -> Array:
    """The weights [m] at nu = `level` []."""
    raw = mirror.inverse(jnp.where(is_kept, values - level, 0.0))
    return jnp.where(is_kept, jnp.where(raw < caps, jnp.where(raw > 0, raw, 0.0), caps), 0.0)


def _of_sum_one(weights: Array, caps: Array) -> Array:
    """The weights [m], with the rounding of their sum taken from the entries below their caps."""
    fixed = lax.stop_gradient(weights)
    is_free = fixed < caps
    left = 1 - numerics.precise_sum(jnp.where(is_free, 0.0, fixed))
    total = numerics.precise_sum(jnp.where(is_free, fixed, 0.0))
    factor = numerics.safe_divide(jnp.maximum(left, 0.0), total, fill=1.0)
    # far from 1 where the caps sum to less than 1
    return jnp.where(is_free, weights * jnp.clip(factor, 0.5, 2.0), weights)


def _find_level(
    weigh: Callable[[Array], Array], largest: Array, mirror: MirrorMap, is_kept: Array, dtype: Any
) -> Array:
    """The nu [] at which the weights [m] sum to 1, for dual points of which one is `largest` []."""
    eps = float(jnp.finfo(dtype).eps)
    count = jnp.maximum(reduce.count(is_kept, dtype=dtype), 1.0)
    high = largest - mirror.gradient(jnp.minimum(1 / count, 1 - eps))  # no weight above 1 / count

    def total(level: Array) -> Array:
        return numerics.precise_sum(weigh(level))

    def double(state: tuple[Array, Array]) -> tuple[Array, Array]:
        length, _ = state
        return 2 * length, total(high - 2 * length)

    one = jnp.ones((), dtype)
    (length, _), _ = loops.bounded_loop(
        double, lambda state: state[1] < 1, (one, total(high - one)), max_checks=_MOST_DOUBLINGS
    )

    def excess(level: Array) -> tuple[Array, Array]:
        value, slope = jax.jvp(lambda trial: jnp.sum(weigh(trial)), (level,), (one,))
        # where the sum hardly depends on nu, the step from a root leads far away
        is_root = jnp.abs(1 - value) <= eps
        return 1 - value, jnp.where(is_root, level, roots.newton(level, 1 - value, -slope))

    low = high - length
    start = jnp.clip(jnp.zeros_like(high), low, high)
    return roots.bracketed_root(
        excess, low, high, start, tolerance=eps, floor=0.0, max_steps=_MOST_STEPS
    )
