"""The base class of relaxations, and helpers that all of them share.

In Shalev-Shwartz and Singer 2008, rho_f is the minimum over example weights d of
max_j |(d'A)_j| + f(d). By Theorem 7 it is the maximum over votes w and thresholds gamma of
gamma - f*([gamma 1 - A w]_+). f is `value`, f* is `conjugate`, and the (Aw)_i are the `margins`.
Line "d_t" of Figure 1 is `smoothed_argmin`, with beta as `strength`.

The paper weighs all examples equally. Here each example has a prior share p_i, its weight divided
by the sum of the weights: caps are cap m p_i, norms are those of d_i / (m p_i) under the measure
m p_i, and entropies are relative to p. An example of weight two counts like two examples where the
number m of examples cancels, as for caps 1 / (nu m) and entropies, but not for other caps and for
norms.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, named_axis
from jboost.base.named_axis import AxisName
from jboost.base.protocols import Protocol
from jboost.base.types import Array, ArrayLike


class Charge(NamedTuple):
    """The value of f at an allowed d' near given example weights d, and the distance. Both numbers
    are rounded up.
    """

    value: Array  # [] f(d')
    moved: Array  # [] |d' - d|_1, by which the best edge may increase


class Relaxation(Protocol, abc.ABC):
    """A convex function f of the example weights. `prior` [m] sums to one and is 0 on padding,
    where the other arrays may hold any values. None stands for equal shares.

    A relaxation of your own is a frozen dataclass below this class, or one of
    `jboost.relaxations.from_functions`. A misspelt hook raises a TypeError when the class is
    created.
    """

    @abc.abstractmethod
    def value(self, example_weights: Array, prior: Array | None = None) -> Array:
        """f(d), []; inf if d is not allowed."""

    @abc.abstractmethod
    def conjugate(self, shortfalls: Array, prior: Array | None = None) -> Array:
        """The maximum over d >= 0 of <d, shortfalls> - f(d), [], where shortfalls [m] are gamma
        1 - A w.
        """

    @abc.abstractmethod
    def penalty(
        self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """f(d), [], for a distribution d that is known to be allowed, which is not tested."""

    @abc.abstractmethod
    def smoothed_argmin(
        self,
        margins: Array,
        strength: Array,
        prior: Array | None = None,
        *,
        axis_name: AxisName = None,
    ) -> Array:
        """The d [m] in the simplex of least <margins, d> + f(d) + strength * sum d log(d / prior).

        It is differentiable in margins, strength, prior and the parameters of the relaxation. With
        `axis_name` each device of that axis of `shard_map` holds a part of the examples.
        """

    @abc.abstractmethod
    def argmin(
        self, margins: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """The d [m] of least <margins, d> + f(d).

        Among several minimisers it is the one of least norm. It is differentiable almost everywhere
        in the same arguments. For a hard or soft margin it is piecewise constant in the margins.
        """

    @abc.abstractmethod
    def lower_bound(self, margins: Array, prior: Array | None = None) -> Array:
        """The minimum over the simplex of <margins, d> + f(d), [], rounded down.

        It is the lower bound that votes with these margins prove. Its derivative is that of the
        exact minimum (Danskin 1966); with respect to the margins it is `argmin`.
        """

    @abc.abstractmethod
    def charge(self, example_weights: Array, prior: Array | None = None) -> Charge:
        """The charge for an allowed d' near d, which is `example_weights` scaled to sum to one; inf
        if no distribution is allowed.
        """

    def bound_at_saddle(self, margins: Array, example_weights: Array, prior: Array) -> Array:
        """`lower_bound` [] as a function of the parameters and the prior, at the margins of the
        best votes and their minimisers `example_weights` [m].

        For an f whose minimum has a kink there, it is the Lagrangian, which has none.
        """
        return self.lower_bound(margins, prior)

    def in_units(self, unit: Array) -> Any:
        """The relaxation f / unit, for margins that are divided by `unit` []; None if it is not
        known, as by default. Then margins are taken as they are.
        """
        return None

    def with_constraints_of(self, prior: Array, other: Any, its_prior: Array) -> tuple[Any, Array]:
        """f and a prior: the numbers that decide which d are allowed are those of `other` and
        `its_prior`, and the rest are those of f and `prior`. By default all are those of the other.

        Where the rest changes, the derivative of a minimum is that of f at the minimiser (Danskin
        1966). Where constraints change, the minimiser's own change counts as well.
        """
        return other, its_prior

    @property
    def has_exact_sums(self) -> bool:
        """Whether all hooks add up examples by functions of `jboost.base` alone, so that solves and
        fits with `deterministic=True` may use the relaxation. By default False.
        """
        return False

    def is_feasible(self, prior: Array | None = None, *, axis_name: AxisName = None) -> Array:
        """Whether any distribution is allowed, [] bool; by default always."""
        return jnp.ones((), bool)

    def is_valid(self) -> Array:
        """Whether the parameters of f are values that its factory accepts, [] bool; by default
        always.
        """
        return jnp.ones((), bool)


def shares(prior: Array | None, like: Array, axis_name: AxisName = None) -> Array:
    """The prior, or equal shares of the length of `like`; in its dtype."""
    if prior is not None:
        return prior.astype(like.dtype)
    size = named_axis.size(like.shape[0], axis_name)
    return jnp.full(like.shape, 1.0 / size, like.dtype)


def number(value: Any, like: Array) -> Array:
    """A parameter in the dtype of the data."""
    return jnp.asarray(value).astype(like.dtype)


def positive(name: str, value: ArrayLike) -> Array:
    """A parameter [] in the default float type. Raises ValueError if it is concrete and not
    positive, normal and finite.
    """
    limits = jnp.finfo(jnp.result_type(float))
    return check.number(name, value, low=float(limits.tiny), high=float(limits.max)).astype(float)


def is_positive(value: Array) -> Array:
    """Whether a parameter is positive, normal and finite, [] bool."""
    value = jnp.asarray(value)
    return (value >= jnp.finfo(value.dtype).tiny) & (value < jnp.inf)


def times(rate: Array, amount: Array) -> Array:
    """rate * amount; 0 where the amount is 0, even if the rate is inf."""
    return jnp.where(amount > 0, rate * amount, 0.0)


def num_examples(prior: Array, axis_name: AxisName = None) -> Array:
    """The number of examples with a positive share, [] in the dtype of the prior."""
    return named_axis.count(prior > 0, axis_name, prior.dtype)


def safe_log(values: Array) -> Array:
    """Logarithms, -inf for 0, without a NaN in the derivative."""
    is_positive = values > 0
    return jnp.where(is_positive, jnp.log(jnp.where(is_positive, values, 1.0)), -jnp.inf)


def lifted(margins: Array, prior: Array, axis_name: AxisName = None) -> tuple[Array, Array]:
    """The least margin [], constant under differentiation, and margins minus the least [m]; 0 on
    padding.
    """
    least = named_axis.least(lax.stop_gradient(margins), prior > 0, axis_name)
    return least, jnp.where(prior > 0, margins - least, 0.0)


def relative(margins: Array, prior: Array, axis_name: AxisName = None) -> tuple[Array, Array]:
    """An eighth of the range of the margins [], constant under differentiation, and the position of
    each margin in the range [m], from 0 to 1.

    It is used for minimisers that do not change with the scale of the margins: neither squares nor
    differences of positions under- or overflow. Positions are 0 on padding, and if the range is 0.
    """
    eighths = margins / 8  # so that neither their range nor its reciprocal leaves the normal floats
    _, above = lifted(eighths, prior, axis_name)
    eighth = lax.stop_gradient(named_axis.largest(above, prior > 0, axis_name))
    return eighth, above / jnp.where(eighth > 0, eighth, 1.0)


def softmax(margins: Array, strength: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """The distribution proportional to prior * exp(-margins / strength), [m]."""
    _, above = lifted(margins, prior, axis_name)
    weights = prior * jnp.exp(-above / number(strength, margins))
    return weights / named_axis.total(weights, axis_name)


def least_margins(margins: Array, prior: Array, axis_name: AxisName = None) -> Array:
    """The distribution on the examples of least margin, proportional to the prior, [m]."""
    least, _ = lifted(margins, prior, axis_name)
    weights = jnp.where(margins == least, prior, 0.0)
    return weights / named_axis.total(weights, axis_name)


@jax.custom_jvp
def with_derivative_of(value: Array, source: Array) -> Array:
    """`value`, with the derivative of `source`, which differs from it by rounding only."""
    return value


@with_derivative_of.defjvp
def _of_source(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    return with_derivative_of(*primals), tangents[1]


def scale_in_units(scale: Array, unit: Array) -> Array:
    """scale / unit, []. One that is lost in the rounding of the margins is raised to a number that
    divides them; its derivative is that of the quotient.
    """
    scale = jnp.asarray(scale, unit.dtype) / unit
    least = jnp.where(unit > 1, jnp.finfo(unit.dtype).eps ** 2, 0.0)
    return with_derivative_of(jnp.maximum(scale, least), scale)


class SoftmaxArgmin(Relaxation):
    """A relaxation that is constant on the simplex, so that its smoothed minimiser is a softmax."""

    def smoothed_argmin(
        self,
        margins: Array,
        strength: Array,
        prior: Array | None = None,
        *,
        axis_name: AxisName = None,
    ) -> Array:
        """A softmax."""
        return softmax(margins, strength, shares(prior, margins, axis_name), axis_name)

    def argmin(
        self, margins: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """The distribution on the examples of least margin, proportional to their shares."""
        return least_margins(margins, shares(prior, margins, axis_name), axis_name)


class Constraint(Relaxation):
    """A relaxation that is only a constraint: f is 0 or inf."""

    def penalty(
        self, example_weights: Array, prior: Array | None = None, *, axis_name: AxisName = None
    ) -> Array:
        """0."""
        return jnp.zeros((), example_weights.dtype)

    def in_units(self, unit: Array) -> Any:
        """As it is."""
        return self


@dataclasses.dataclass(frozen=True)
class Penalty(Relaxation):
    """`scale` times a convex function of d that is finite on the simplex. The subclass is a
    dataclass with this field, and no other in units of the margin.
    """

    scale: Array  # []

    def in_units(self, unit: Array) -> Any:
        """scale / unit in place of the scale."""
        return dataclasses.replace(self, scale=scale_in_units(self.scale, unit))

    def with_constraints_of(self, prior: Array, other: Any, its_prior: Array) -> tuple[Any, Array]:
        """f itself: there are no constraints."""
        return self, prior

    def is_valid(self) -> Array:
        """Whether the scale is positive and finite."""
        return is_positive(self.scale)
