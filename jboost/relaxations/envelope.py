"""The least value over the simplex, with the derivative of its minimiser (Danskin 1966).

phi(margins) = min over d of <margins, d> + f(d) + strength * KL(d || prior). The derivative in the
margins is the minimiser d* itself. The derivatives in the strength, the parameters of f and the
prior are those of the objective at d*. Parameters and shares that may change which d are allowed
(`Relaxation.with_constraints_of`) add, by the chain rule, the change of d*.
Second derivatives are those of d*.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from jboost.base import derivatives, named_axis
from jboost.base.named_axis import AxisName
from jboost.base.types import Array
from jboost.relaxations.types import Charge, number, shares


def minimiser(
    relaxation: Any, margins: Array, strength: Array | None, prior: Array, axis_name: AxisName
) -> Array:
    """d* [m]: the exact minimiser if `strength` is None, else the smoothed one."""
    if strength is None:
        return relaxation.argmin(margins, prior, axis_name=axis_name)
    return relaxation.smoothed_argmin(margins, strength, prior, axis_name=axis_name)


@functools.partial(jax.custom_jvp, nondiff_argnums=(4,))
def minimum(
    relaxation: Any, margins: Array, strength: Array | None, prior: Array, axis_name: AxisName
) -> Array:
    """phi [], up to rounding. The arguments are those of `minimiser`."""
    weights = minimiser(relaxation, margins, strength, prior, axis_name)
    return objective(weights, relaxation, margins, strength, prior, axis_name)


def objective(
    weights: Array,
    relaxation: Any,
    margins: Array,
    strength: Array | None,
    prior: Array,
    axis_name: AxisName,
) -> Array:
    """<margins, d> + f(d) + strength * KL(d || prior), [], for allowed weights d [m]."""
    value = named_axis.total(jnp.where(weights > 0, weights * margins, 0.0), axis_name)
    value = value + relaxation.penalty(weights, prior, axis_name=axis_name)
    if strength is None:
        return value
    return value + number(strength, value) * relative_entropy(weights, prior, axis_name)


def relative_entropy(weights: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """KL(weights || prior), []. The weights must be 0 where the prior is."""
    is_positive = weights > 0
    ratio = jnp.where(is_positive, weights, 1.0) / jnp.where(is_positive, prior, 1.0)
    return named_axis.total(jnp.where(is_positive, weights * jnp.log(ratio), 0.0), axis_name)


def _derivative(
    axis_name: AxisName, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    relaxation, margins, strength, prior = primals
    weights = minimiser(relaxation, margins, strength, prior, axis_name)
    value = objective(weights, relaxation, margins, strength, prior, axis_name)
    tangent = jnp.zeros_like(value)
    if not _is_zero(tangents[1]):
        tangent = named_axis.linear_total(weights * tangents[1], axis_name)
    others = (relaxation, strength, prior)
    moves = (tangents[0], *tangents[2:])
    if _is_zero(moves):
        return value, tangent

    def of_others(moving: Any, moving_strength: Array | None, moving_prior: Array) -> Array:
        constrained = relaxation.with_constraints_of(prior, moving, moving_prior)
        weights = minimiser(constrained[0], margins, strength, constrained[1], axis_name)
        return objective(weights, moving, margins, moving_strength, moving_prior, axis_name)

    _, moved = jax.jvp(of_others, others, jax.tree.map(_instantiated, moves, is_leaf=_is_symbolic))
    return value, tangent + moved


minimum.defjvp(_derivative, symbolic_zeros=True)


def certified(method: Callable[..., Array]) -> Callable[..., Array]:
    """Decorates a method (margins, prior) -> lower bound of phi: it gets the derivative of phi."""

    @functools.wraps(method)
    def lower_bound(self: Any, margins: Array, prior: Array | None = None) -> Array:
        return _certified(method, self, margins, shares(prior, margins))

    return lower_bound


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _certified(
    method: Callable[..., Array], relaxation: Any, margins: Array, prior: Array
) -> Array:
    return method(relaxation, margins, prior)


def _derivative_of_bound(
    method: Callable[..., Array], primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    relaxation, margins, prior = primals
    clean = jnp.where(prior > 0, margins, 0.0)
    moves = (tangents[0], tangents[1], None, tangents[2])
    _, tangent = _derivative(None, (relaxation, clean, None, prior), moves)
    return _certified(method, *primals), tangent


_certified.defjvp(_derivative_of_bound, symbolic_zeros=True)


def _as_given(_: Any, weights: Array, prior: Array) -> Array:
    del prior
    return weights


def charged(
    method: Callable[..., Charge], allowed: Callable[..., Array] = _as_given
) -> Callable[..., Charge]:
    """Decorates a method (example_weights, prior) -> Charge: its value gets the derivative of f at
    the example weights scaled to sum to one; `moved` has none.

    Args:
      method: the method.
      allowed: (relaxation, weights, prior) -> weights [m], those at which the method takes f where
        f is infinite at the weights given.
    """

    def found(relaxation: Any, weights: Array, prior: Array) -> Charge:
        return method(relaxation, weights, prior)

    def penalty(relaxation: Any, weights: Array, prior: Array) -> Array:
        prior = prior / named_axis.total(prior, None)
        kept = jnp.where(prior > 0, weights, 0.0)
        weights = allowed(relaxation, kept / named_axis.total(kept, None), prior)
        return relaxation.penalty(weights, prior)

    def rule(arguments: tuple[Any, ...], tangents: tuple[Any, ...], charge: Charge) -> Charge:
        _, value = jax.jvp(penalty, arguments, tangents)
        name = f"{type(arguments[0]).__name__}.charge(...).moved"
        remedy = "it bounds a distance; differentiate the value, or `penalty`"
        return Charge(value, derivatives.refused(charge.moved, tangents, name, remedy))

    @functools.wraps(method)
    def charge(self: Any, example_weights: Array, prior: Array | None = None) -> Charge:
        result: Charge = derivatives.define(found, rule)(
            self, example_weights, shares(prior, example_weights)
        )  # type: ignore[assignment]
        return result

    return charge


def _is_symbolic(leaf: Any) -> bool:
    return isinstance(leaf, SymbolicZero)


def _is_zero(tangents: Any) -> bool:
    """Whether all tangents are known to be 0 while the program is traced."""
    return all(_is_symbolic(leaf) for leaf in jax.tree.leaves(tangents, is_leaf=_is_symbolic))


def _instantiated(tangent: Any) -> Any:
    return jnp.zeros(tangent.shape, tangent.dtype) if _is_symbolic(tangent) else tangent
