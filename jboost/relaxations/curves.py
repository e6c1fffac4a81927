"""Minimisers over the simplex that depend on one number: how they are found, and their derivatives.

The example weights of least <margins, d> + f(d) + strength * KL(d || prior) lie, for every
relaxation here, on a curve d(t), and t solves one equation. A search without a derivative finds t.
Where a derivative is asked for, two Newton steps that start at the solution are differentiated in
its place: they have the derivatives of the implicit function up to the third order.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import named_axis, numerics
from jboost.base.named_axis import AxisName
from jboost.base.types import Array
from jboost.relaxations.types import number, shares

_NEWTON_STEPS = 2


class Point(NamedTuple):
    """A curve at one number t."""

    weights: Array  # [m] not negative, in any unit
    excess: Callable[[], Array]
    """-> [], 0 at the solution and differentiable in t; a function, as only derivatives need it."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """Two functions of (relaxation, margins [m], strength [], prior [m], axis_name)."""

    find: Callable[..., Array]
    """-> t []."""
    trace: Callable[..., Point]
    """t, and the same arguments -> the point of the curve at t."""


class CurvedArgmin:
    """A relaxation whose minimisers, smoothed and exact, lie on curves."""

    def smoothed_curve(self) -> Curve:
        """That of positive strength."""
        raise NotImplementedError

    def exact_curve(self) -> Curve:
        """That without smoothing, whose strength is not used or 0."""
        raise NotImplementedError

    def smoothed_argmin(
        self,
        margins: Array,
        strength: Array,
        prior: Array | None = None,
        *,
        axis_name: AxisName = None,
    ) -> Array:
        """The d [m] of least <margins, d> + f(d) + strength * KL(d || prior)."""
        prior = shares(prior, margins, axis_name)
        strength = number(strength, margins)
        return argmin(self.smoothed_curve(), self, margins, strength, prior, axis_name)

    def argmin(self, margins: Array, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """The d [m] of least <margins, d> + f(d)."""
        prior = shares(prior, margins, axis_name)
        strength = jnp.zeros((), margins.dtype)
        return argmin(self.exact_curve(), self, margins, strength, prior, axis_name)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 5))
def argmin(
    curve: Curve,
    relaxation: Any,
    margins: Array,
    strength: Array,
    prior: Array,
    axis_name: AxisName,
) -> Array:
    """The example weights [m] at the solution, of sum 1."""
    found = curve.find(relaxation, margins, strength, prior, axis_name)
    weights = curve.trace(found, relaxation, margins, strength, prior, axis_name).weights
    return normalised(weights, axis_name)


@argmin.defjvp
def _derivative(curve: Curve, axis_name: AxisName, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    found = lax.stop_gradient(curve.find(*lax.stop_gradient(primals), axis_name))

    def weights(*arguments: Any) -> Array:
        point = functools.partial(curve.trace, axis_name=axis_name)

        def excess(place: Array) -> Array:
            return point(place, *arguments).excess()

        place = implicit_root(excess, found)
        return normalised(point(place, *arguments).weights, axis_name)

    return jax.jvp(weights, primals, tangents)


def implicit_root(excess: Callable[[Array], Array], found: Array) -> Array:
    """A root [] of a differentiable function, with the derivatives of the implicit function.

    Args:
      excess: of a number []; it may hold other arrays, in which the root is differentiated.
      found: [] the root, as a search has found it. Where the slope is 0 the root is constant.
    """
    place = lax.stop_gradient(found)
    for _ in range(_NEWTON_STEPS):
        value, slope = jax.jvp(excess, (place,), (jnp.ones_like(place),))
        place = place - numerics.safe_divide(value, slope)
    return place


def normalised(weights: Array, axis_name: AxisName) -> Array:
    """Weights [m] scaled to sum to one."""
    return weights / named_axis.total(weights, axis_name)


@jax.custom_jvp
def with_derivative_of(value: Array, source: Array) -> Array:
    """`value`, with the derivative of `source`, which differs from it by rounding only."""
    return value


@with_derivative_of.defjvp
def _of_source(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    return with_derivative_of(*primals), tangents[1]
