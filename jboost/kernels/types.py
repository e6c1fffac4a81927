"""The base class of kernels. A kernel is a symmetric measure on hypotheses, represented by the
probability that a hypothesis separates two points.

In the notation of Naish-Guzman, Holden and Paquet, P[h(x) != h(z)] is `kernel.disagreement`. The
classifier sums 1/2 - P, which is positive semidefinite for every measure.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jboost.base import check
from jboost.base.protocols import Protocol
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike, PyTree


class Kernel(Protocol, abc.ABC):
    """A symmetric measure on hypotheses. A kernel is a pytree of numbers, for use under `vmap`."""

    @abc.abstractmethod
    def disagreement(self, points_a: Array, points_b: Array) -> Array:
        """P[h(a) != h(b)], [a, b], for points [a, d] and [b, d]."""

    @abc.abstractmethod
    def is_inside(self, points: Array) -> Array:
        """Whether `disagreement` is valid at points [k, d], [k] bool. A measure may be defined for
        only a part of the space.
        """

    def underflows(self, points: Array) -> Array:
        """Whether positive probabilities of points [k, d] are below the least normal float and
        count as 0, [k] bool. The default is False for all points.
        """
        return jnp.zeros(points.shape[:1], bool)

    def draw(self, key: Array, points: Array) -> Array:
        """The outputs +1 or -1 [k] of one random hypothesis of the measure at points [k, d]. It is
        used by `jboost.example_weights.sample_scores` alone, and has no default: it raises
        ValueError.
        """
        del key, points
        raise ValueError(
            f"kernel is a {type(self).__name__}, which draws no hypotheses: inherit from"
            " jboost.kernels.Kernel, and write its method draw"
        )


@register
@dataclasses.dataclass(frozen=True)
class CustomKernel(Kernel):
    """Numbers and two functions of them. With module-level functions equal kernels compare equal,
    so that nothing is compiled twice.
    """

    parameters: PyTree
    function: Callable[[PyTree, Array, Array], Array] = dataclasses.field(metadata={"static": True})
    inside_function: Callable[[PyTree, Array], Array] = dataclasses.field(metadata={"static": True})

    def disagreement(self, points_a: Array, points_b: Array) -> Array:
        """The result of the user's function."""
        return self.function(self.parameters, points_a, points_b)

    def is_inside(self, points: Array) -> Array:
        """The result of the user's function."""
        return self.inside_function(self.parameters, points)


def everywhere(_: PyTree, points: Array) -> Array:
    """True for every point [k, d], [k]."""
    return jnp.ones(points.shape[:1], bool)


def custom(
    function: Callable[[PyTree, Array, Array], Array],
    parameters: PyTree = (),
    *,
    is_inside: Callable[[PyTree, Array], Array] = everywhere,
) -> CustomKernel:
    """A kernel of your own, for any measure on a class of hypotheses that is symmetric (h and -h
    are equally likely).

    Args:
      function: (parameters, points_a [a, d], points_b [b, d]) -> [a, b], the probability that a
        random hypothesis separates a and b. It must be symmetric, 0 for equal points, and in
        [0, 1], with 1/2 - P positive semidefinite. Use a module-level function, so that equal
        kernels compare equal. In float32 small probabilities must have a small relative error:
        compute them from differences of the points, not from their products.
      parameters: any pytree of numbers and arrays, which `vmap` can map over.
      is_inside: (parameters, points [k, d]) -> [k] bool, False for points at which the measure is
        not defined.

    Raises:
      ValueError: if a leaf of `parameters` is not a number or an array.

    >>> import jax.numpy as jnp
    >>> from jboost import kernels
    >>> def one_threshold(scale, a, b):
    ...     return jnp.abs(a[:, None, 0] - b[None, :, 0]) / scale
    >>> kernels.custom(one_threshold, 4.0).disagreement(
    ...     jnp.array([[0.0]]), jnp.array([[1.0], [2.0]])
    ... ).tolist()
    [[0.25, 0.5]]
    """
    check.pytree_of_numbers(
        "parameters", parameters, remedy="pass numbers and arrays, and the rest inside the function"
    )
    return CustomKernel(parameters, function, is_inside)


def as_points(name: str, value: ArrayLike, num_features: int | str) -> jax.Array:
    """Points [k, d] in the default float type; ValueError at trace time, naming the argument."""
    points = check.numeric(name, value, shape=("k", num_features), kinds="fiu")
    if points.shape[1] == 0:
        raise ValueError(f"{name} has no columns: points have at least one coordinate")
    return points.astype(float)
