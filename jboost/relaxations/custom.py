"""Relaxations made of the user's functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, numerics
from jboost.base.named_axis import AxisName
from jboost.base.records import register
from jboost.base.roots import best_threshold, implicit_root
from jboost.base.types import Array, PyTree
from jboost.relaxations import envelope
from jboost.relaxations.types import Charge, Relaxation, shares


@register
@dataclasses.dataclass(frozen=True)
class CustomRelaxation(Relaxation):
    """The user's three functions and their parameters. Bounds allow for errors of 16 + m ** 0.5
    units of rounding in their results.
    """

    parameters: PyTree
    value_function: Callable[[PyTree, Array, Array], Array] = dataclasses.field(
        metadata={"static": True}
    )
    conjugate_function: Callable[[PyTree, Array, Array], Array] = dataclasses.field(
        metadata={"static": True}
    )
    argmin_function: Callable[[PyTree, Array, Array, Array], Array] = dataclasses.field(
        metadata={"static": True}
    )

    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """The user's f(d)."""
        value = self.value_function(
            self.parameters, example_weights, shares(prior, example_weights)
        )
        return jnp.asarray(value, example_weights.dtype)

    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """The user's f* of the positive parts of the shortfalls (Theorem 7)."""
        prior = shares(prior, shortfalls)
        positive = jnp.where(prior > 0, jnp.maximum(shortfalls, 0.0), 0.0)
        return jnp.asarray(
            self.conjugate_function(self.parameters, positive, prior), shortfalls.dtype
        )

    def penalty(
        self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """The user's f(d)."""
        _refuse_axis(axis_name)
        return self.value(example_weights, prior)

    def smoothed_argmin(
        self,
        margins: Array,
        strength: Array,
        prior: Array | None = None,
        *,
        axis_name: AxisName = None,
    ) -> Array:
        """The user's argmin, scaled to sum to one."""
        _refuse_axis(axis_name)
        prior = shares(prior, margins)
        clean = jnp.where(prior > 0, margins, 0.0)
        weights = jnp.where(
            prior > 0, self.argmin_function(self.parameters, clean, strength, prior), 0.0
        ).astype(margins.dtype)
        return numerics.safe_divide(weights, jnp.full_like(weights, numerics.precise_sum(weights)))

    def argmin(
        self, margins: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """The derivative of the user's conjugate at the best threshold, scaled to sum to one.

        It is differentiable if the conjugate is twice differentiable.
        """
        _refuse_axis(axis_name)
        prior = shares(prior, margins)
        clean = jnp.where(prior > 0, margins, 0.0)
        found = self._best_threshold(*lax.stop_gradient((clean, prior)))

        def weights(threshold: Array) -> Array:
            gradient = jax.grad(self.conjugate)(threshold - clean, prior)
            return jnp.where(prior > 0, gradient, 0.0)

        threshold = implicit_root(lambda trial: jnp.sum(weights(trial)) - 1, found)
        at_threshold = jnp.maximum(weights(threshold), 0.0)
        return numerics.safe_divide(
            at_threshold, jnp.full_like(at_threshold, jnp.sum(at_threshold))
        )

    @envelope.certified
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """gamma - f*([gamma - margins]_+) at the best gamma found, rounded down."""
        prior = shares(prior, margins)
        threshold = self._best_threshold(margins, prior)
        loss = self.conjugate(threshold - margins, prior)
        bound = threshold - loss
        return (
            bound
            - _unit(margins) * (jnp.abs(loss) + jnp.abs(threshold))
            - jnp.finfo(bound.dtype).tiny
        )

    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """The user's f of the weights scaled to sum to one, rounded up."""
        prior = shares(prior, example_weights)
        kept = jnp.where(prior > 0, example_weights, 0.0)
        charged = self.value(kept / numerics.precise_sum(kept), prior)
        return Charge(
            charged + _unit(example_weights) * jnp.abs(charged) + jnp.finfo(charged.dtype).tiny,
            jnp.zeros_like(charged),
        )

    def is_feasible(self, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """Taken on trust."""
        return jnp.ones((), bool)

    def is_valid(self) -> Array:
        """Taken on trust."""
        return jnp.ones((), bool)

    def _best_threshold(self, margins: Array, prior: Array) -> Array:
        low = numerics.masked_min(margins, prior > 0, fill=jnp.inf)

        def gain(threshold: Array) -> Array:
            return threshold - self.conjugate(threshold - margins, prior)

        unit = jnp.maximum(numerics.masked_max(margins, prior > 0, fill=-jnp.inf) - low, 1.0)
        return best_threshold(gain, low, unit)


def _refuse_axis(axis_name: AxisName) -> None:
    if axis_name is not None:
        raise ValueError(
            f"axis_name is {axis_name!r}: the functions of jboost.relaxations.from_functions see"
            " the examples of one device only; use one of the relaxations of jboost.relaxations,"
            " or gather the losses with jax.lax.all_gather"
        )


def _unit(like: Array) -> Array:
    return (16 + like.shape[0] ** 0.5) * jnp.finfo(like.dtype).eps


def from_functions(
    value: Callable[[PyTree, Array, Array], Array],
    conjugate: Callable[[PyTree, Array, Array], Array],
    smoothed_argmin: Callable[[PyTree, Array, Array, Array], Array],
    *,
    parameters: PyTree = (),
) -> CustomRelaxation:
    """A relaxation made of your own f, its conjugate, and the argmin of Figure 1 of Shalev-Shwartz
    and Singer 2008.

    f must be convex with 0 in the core of its domain. If f*(z) >= f*(z - a z_i e_i) for a in [0, 1]
    (the condition of Theorem 7), the certified bounds meet. Otherwise they are still valid, but a
    gap may remain.

    Args:
      value: (parameters, d [m], prior [m]) -> [], f(d), inf where d is not allowed.
      conjugate: (parameters, z [m], prior [m]) -> [], f*(z). It is called with z >= 0, and z = 0 on
        padding.
      smoothed_argmin: (parameters, margins [m], strength [], prior [m]) -> d [m], the distribution
        of least <margins, d> + f(d) + strength * sum d log(d / prior).
      parameters: any pytree of numbers, which may be traced. Use module-level functions: every new
        lambda causes a compilation.

    Raises:
      ValueError: if one of the three is not a function, or if a leaf of the parameters is not a
        number.

    >>> import jax, jax.numpy as jnp, jboost
    >>> relaxation = jboost.relaxations.from_functions(
    ...     lambda scale, d, prior: scale * jnp.sum(d**2) / 2,
    ...     lambda scale, z, prior: jnp.sum(z**2) / (2 * scale),
    ...     lambda scale, margins, strength, prior: jax.nn.softmax(-margins / strength),
    ...     parameters=2.0,
    ... )
    >>> round(float(relaxation.lower_bound(jnp.array([0.0, 0.0]))), 4)
    0.5
    """
    for name, function in (
        ("value", value),
        ("conjugate", conjugate),
        ("smoothed_argmin", smoothed_argmin),
    ):
        if not callable(function):
            raise ValueError(f"{name} is a {type(function).__name__}: expected a function")
    check.pytree_of_numbers(
        "parameters",
        parameters,
        remedy="numbers and arrays only; what is static belongs in the functions",
    )
    return CustomRelaxation(parameters, value, conjugate, smoothed_argmin)
