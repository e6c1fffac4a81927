"""Minimisers over the simplex that depend on one number, and their derivatives.

For every relaxation here, the example weights that minimise
<margins, d> + f(d) + strength * KL(d || prior) lie on a curve d(t), and t solves one equation. A
search, which is not differentiated, finds t. For derivatives, two Newton steps from the solution
are differentiated instead. Their derivatives up to the third order are those of the implicit
function.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import named_axis
from jboost.base.named_axis import AxisName
from jboost.base.roots import implicit_root
from jboost.base.types import Array
from jboost.relaxations.types import Relaxation, number, shares


class CurvePoint(NamedTuple):
    """A curve at one number t."""

    weights: Array  # [m] not negative, of any sum
    excess: Callable[[], Array]
    """-> [], 0 at the solution and differentiable in t. It is a function, since only derivatives
    need it.
    """


class CurveProblem(NamedTuple):
    """The problem: minimise <margins, d> + f(d) + strength * KL(d || prior) over the simplex."""

    relaxation: Any  # f
    margins: Array  # [m]
    strength: Array  # [] 0 for curves without smoothing
    prior: Array  # [m]
    axis_name: AxisName


@dataclasses.dataclass(frozen=True)
class Curve:
    """The curve that holds the minimisers of one kind of problem."""

    find: Callable[[CurveProblem], Array]
    """The problem -> t [] of its solution."""
    trace: Callable[[Array, CurveProblem], CurvePoint]
    """t and the problem -> the point of the curve at t."""


class OnCurve(Relaxation):
    """A relaxation whose exact minimisers lie on a curve."""

    exact_curve: ClassVar[Curve]

    def argmin(
        self, margins: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """The d [m] of least <margins, d> + f(d)."""
        prior = shares(prior, margins, axis_name)
        strength = jnp.zeros((), margins.dtype)
        return argmin(self.exact_curve, self, margins, strength, prior, axis_name)


class OnCurves(OnCurve):
    """A relaxation whose smoothed minimisers lie on a curve, too."""

    smoothed_curve: ClassVar[Curve]

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
        return argmin(self.smoothed_curve, self, margins, strength, prior, axis_name)


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
    problem = CurveProblem(relaxation, margins, strength, prior, axis_name)
    return normalised(curve.trace(curve.find(problem), problem).weights, axis_name)


@argmin.defjvp
def _derivative(
    curve: Curve, axis_name: AxisName, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    relaxation, margins, strength, prior = lax.stop_gradient(primals)
    found = curve.find(CurveProblem(relaxation, margins, strength, prior, axis_name))

    def weights(relaxation: Any, margins: Array, strength: Array, prior: Array) -> Array:
        problem = CurveProblem(relaxation, margins, strength, prior, axis_name)
        root = implicit_root(
            lambda number: curve.trace(number, problem).excess(), found, refines=False
        )
        return normalised(curve.trace(root, problem).weights, axis_name)

    return jax.jvp(weights, primals, tangents)


def normalised(weights: Array, axis_name: AxisName) -> Array:
    """Weights [m] scaled to sum to one."""
    return weights / named_axis.total(weights, axis_name)
