"""Hyperplanes whose nearest point to the origin is uniform in a cube: the class of Naish-Guzman,
Holden and Paquet, in any dimension; and hyperplanes of uniform direction and distance.

Symbols: r the nearest point of the plane {u : u.r = |r|^2}, uniform in [-R, R]^d with R `radius`;
rho_x = |x|. The plane separates x from the origin O iff r.x > |r|^2, that is iff r lies in the ball
with diameter [O, x], of volume V_d (rho_x / 2)^d. So P[h(x) != h(z)] = vol(B_x symmetric difference
B_z) / (2 R)^d, as long as both balls lie in the cube: max_k (|x_k| + rho_x) / 2 <= R.

Derivation. In the direction u the ball B_x reaches from O as far as (u.x)_+, so the volume is (1/d)
times the integral over unit vectors of |(u.x)_+^d - (u.z)_+^d|. Only the part of u in the plane of
O, x and z matters, which leaves one angle. The two spheres meet where u is orthogonal to x - z;
with e = (x - z) / |x - z|, p_x = x.e, p_z = z.e and q = |x - p_x e| = |z - p_z e|, and S(a) the
integral of cos^d from 0 to a,

    vol = V_d 2^-d / S(pi/2) * (rho_x^d S(a_x) - rho_z^d S(a_z)),
    a_x = atan2(p_x, q),   a_z = atan2(p_z, q).

2 S(a) is the incomplete beta function B(sin^2 a; 1/2, (d+1)/2), and S(a) / S(pi/2) its regularised
form, the share of a ball in two opposite half-caps (Li 2011, "Concise formulas for the area and
volume of a hyperspherical cap"). With x the longer one the difference is taken as

    (rho_x^d - rho_z^d) S(a_x) + rho_z^d * integral of cos^d from a_z to a_x,

two terms that are never negative, each of them computed without cancellation: from x - z and
(x - z).(x + z), from the angle between the points, and from cos^d as its Fourier series, whose
coefficients are positive. So equal points give exactly 0, and near points have full relative
accuracy.
For d = 2 this is the paper's formula (7), with (|x| / 2)^2 instead of the printed |x|^2.

The second measure draws a unit vector u uniformly and an offset t uniformly from [-R, R]. The plane
{v : u.v = t} separates x from z iff t is between u.x and u.z, so P = E|u.(x - z)| / (2 R) =
kappa |x - z| / (2 R), as long as |x|, |z| <= R. kappa is the mean of |u_1|,
Gamma(d / 2) / (sqrt(pi) Gamma((d + 1) / 2)). For d = 1 both measures are the same. With many
coordinates nearly all planes of the first measure are far from all points, because a cube has
nearly all its volume near its corners: P is of size (|x| / R)^d. That of the second one decreases
by d^-1/2 only.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, loops, meshes, numerics
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike, PyTree
from jboost.kernels.angles import angle_of
from jboost.kernels.types import Kernel, as_points

_UNROLLED = 16  # the loop over coordinates is unrolled by up to so many, to use registers


@register
@dataclasses.dataclass(frozen=True)
class Hyperplanes(Kernel):
    """The kernel of `disagreement`, as a record that fits take."""

    radius: Array  # []

    def disagreement(self, points_a: Array, points_b: Array) -> Array:
        """As the function `disagreement`."""
        return _disagreement(self.radius, points_a, points_b)

    def is_inside(self, points: Array) -> Array:
        """Whether max_k (|x_k| + |x|) / 2 <= R."""
        return least_radius(points) <= self.radius

    def underflows(self, points: Array) -> Array:
        """Whether the probability to be separated from the origin underflows."""
        lengths = _lengths(points)
        separated = ball_probability(lengths, self.radius, points.shape[1])
        return (lengths > 0) & (separated < jnp.finfo(lengths.dtype).tiny)

    def draw(self, key: Array, points: Array) -> Array:
        """The side of the origin, with a random sign, or the other."""
        of_nearest, of_sign = jax.random.split(key)
        nearest = self.radius * jax.random.uniform(
            of_nearest, points.shape[1:], points.dtype, minval=-1.0
        )
        is_across = jnp.sum(points * nearest[None, :], axis=1) > jnp.sum(nearest**2)
        return jax.random.rademacher(of_sign, (), points.dtype) * jnp.where(is_across, -1.0, 1.0)


@register
@dataclasses.dataclass(frozen=True)
class IsotropicHyperplanes(Kernel):
    """Hyperplanes with a uniform direction, and a uniform distance from the origin up to a radius,
    to either side.
    """

    radius: Array  # []

    def disagreement(self, points_a: Array, points_b: Array) -> Array:
        """kappa |x - z| / (2 R)."""
        distance, _ = _chord(points_a, points_b)
        return mean_component(points_a.shape[1]) * _divided(0.5 * distance, self.radius)

    def is_inside(self, points: Array) -> Array:
        """Whether |x| <= R."""
        return _lengths(points) <= self.radius

    def draw(self, key: Array, points: Array) -> Array:
        """The side of a plane with a Gaussian normal and a uniform offset."""
        of_normal, of_offset = jax.random.split(key)
        normal = jax.random.normal(of_normal, points.shape[1:], points.dtype)
        length = jnp.sqrt(jnp.sum(normal**2))
        offset = self.radius * jax.random.uniform(of_offset, (), points.dtype, minval=-1.0)
        is_above = jnp.sum(points * normal[None, :], axis=1) > offset * length
        return jnp.where(is_above, 1.0, -1.0).astype(points.dtype)


def mean_component(dimension: int) -> float:
    """The mean of |u_1| of a uniform unit vector."""
    return math.exp(math.lgamma(0.5 * dimension) - math.lgamma(0.5 * (dimension + 1))) / math.sqrt(
        math.pi
    )


def isotropic_hyperplanes(radius: ArrayLike) -> IsotropicHyperplanes:
    """Hyperplanes with a uniform direction, and a uniform distance from the origin up to a radius,
    to either side: P = kappa |x - z| / (2 R).

    kappa = Gamma(d / 2) / (sqrt(pi) Gamma((d + 1) / 2)), the mean of |u_1| of a unit vector. In one
    dimension this is the measure of `hyperplanes`. With many columns it is the one to take: its
    probabilities decrease by d^-1/2, those of `hyperplanes` exponentially in d. 1/2 - P is, up to
    constants, minus the distance: the kernel of the energy distance.

    Args:
      radius: [] R > 0. Points of a greater length are not `is_inside`.

    Raises:
      ValueError: for a concrete radius of 0 or less.

    Source: the invariant measure of hyperplanes (Santalo, Integral Geometry and Geometric
    Probability, 1976, Chapter 14).

    >>> import jax.numpy as jnp, jboost
    >>> kernel = jboost.kernels.isotropic_hyperplanes(2.0)
    >>> round(
    ...     float(kernel.disagreement(jnp.array([[1.0, 0.0]]), jnp.array([[-1.0, 0.0]]))[0, 0]), 4
    ... )
    0.3183
    """
    return IsotropicHyperplanes(
        check.number("radius", radius, low=0, high=check.LARGEST, open_low=True).astype(float)
    )


def hyperplanes(radius: ArrayLike) -> Hyperplanes:
    """The kernel of `disagreement`, as a record that fits take.

    >>> import jax, jboost
    >>> jboost.kernels.hyperplanes(5.0).is_inside(
    ...     jax.numpy.array([[1.0, 2.0], [9.0, 0.0]])
    ... ).tolist()
    [True, False]
    """
    return Hyperplanes(
        check.number("radius", radius, low=0, high=check.LARGEST, open_low=True).astype(float)
    )


@meshes.takes_sharded
def disagreement(points_a: ArrayLike, points_b: ArrayLike, radius: ArrayLike) -> Array:
    """The probability that a random hyperplane separates two points: its nearest point to the
    origin is uniform in the cube [-radius, radius]^d.

    The formula is exact in every dimension. In float32 the relative error of each entry is at most
    1e-4, also for points that are close to each other. It is 0 for equal points. Entries below the
    least normal float are 0. Memory: [a, b]; `weighted_disagreement` needs less.

    Args:
      points_a: [a, d], relative to the origin of the measure (the paper centres the data at their
        mean).
      points_b: [b, d].
      radius: [] R > 0, in the unit of the points. The values are probabilities only if
        max_k (|x_k| + |x|) / 2 <= R for both points. Otherwise they are volumes of balls that are
        partly outside the cube. `least_radius` gives the smallest sufficient R.

    Returns:
      [a, b] in [0, 1].

    Raises:
      ValueError: at trace time, for a wrong shape or dtype; for a concrete radius of 0 or less.

    >>> import jboost
    >>> [
    ...     round(float(p), 4)
    ...     for p in jboost.kernels.disagreement(
    ...         [[1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], 1.0
    ...     )[0]
    ... ]
    [0.0, 0.1963, 0.3927]
    """
    points_a = as_points("points_a", points_a, "d")
    points_b = as_points("points_b", points_b, points_a.shape[1])
    return _jitted(
        check.number("radius", radius, low=0, high=check.LARGEST, open_low=True).astype(float),
        points_a,
        points_b,
    )


@meshes.takes_sharded
def least_radius(points: ArrayLike) -> Array:
    """The least R for which `disagreement` is a probability at points [k, d]:
    (max_j |x_j| + |x|) / 2 for each, [k].

    >>> import jboost
    >>> jboost.kernels.least_radius([[3.0, 4.0], [0.0, 1.0]]).tolist()
    [4.5, 1.0]
    """
    points = as_points("points", points, "d")
    return 0.5 * (jnp.max(jnp.abs(points), axis=1) + _lengths(points))


@meshes.takes_sharded
def ball_probability(lengths: Array, radius: Array, dimension: int) -> Array:
    """The probability that a random hyperplane separates points of these lengths [...] from the
    origin.
    """
    unit_ball = math.exp(0.5 * dimension * math.log(math.pi) - math.lgamma(0.5 * dimension + 1))
    return (unit_ball ** (1 / dimension) * _divided(0.25 * lengths, radius)) ** dimension


@jax.custom_jvp
def _divided(values: Array, unit: Array) -> Array:
    """values / unit. In JAX's derivative of a quotient is the square of the unit, which overflows
    or underflows for units far from 1; in this one it is not.
    """
    return values / unit


@_divided.defjvp
def _change_of_quotient(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    values, unit = primals
    quotient = _divided(values, unit)
    return quotient, _divided(tangents[0] - quotient * tangents[1], unit)


def _lengths(points: Array) -> Array:
    """|x| of points [..., d], [...], without overflow or underflow; its derivative is 0
    at the origin.
    """
    size = lax.stop_gradient(jnp.max(jnp.abs(points), axis=-1))
    unit = jnp.where(size > 0, size, 1.0)
    return size * numerics.root(jnp.sum((points / unit[..., None]) ** 2, axis=-1))


def _disagreement(radius: Array, points_a: Array, points_b: Array) -> Array:
    dimension = points_a.shape[1]
    length_a, length_b = _lengths(points_a)[:, None], _lengths(points_b)[None, :]
    is_longer = length_a >= length_b
    longest, shortest = (
        jnp.where(is_longer, length_a, length_b),
        jnp.where(is_longer, length_b, length_a),
    )
    unit = jnp.where(longest > 0, longest, 1.0)
    distance, projection = _chord(points_a, points_b)
    towards = jnp.where(is_longer, projection, -projection)
    # It is negative only by rounding. The derivative remains that of the formula.
    towards = towards + lax.stop_gradient(jnp.abs(towards) - towards)
    share = _share_of_ball(
        _divided(distance, unit), _divided(towards, unit), _divided(shortest, unit), dimension
    )
    return ball_probability(longest, radius, dimension) * share


_jitted = jax.jit(_disagreement)


def _chord(points_a: Array, points_b: Array) -> tuple[Array, Array]:
    """|x - z| and (x + z).e with e = (x - z) / |x - z|, both [a, b]; relatively
    accurate, and 0 for equal points.
    """
    columns_a, columns_b = points_a.T[:, :, None], points_b.T[:, None, :]
    dimension = points_a.shape[1]

    def over_coordinates(step: Callable[[Array, Array, PyTree], PyTree], start: PyTree) -> PyTree:
        def visit(k: Array, carry: PyTree) -> PyTree:
            return step(columns_a[k] - columns_b[k], columns_a[k] + columns_b[k], carry)

        return loops.fori_loop(0, dimension, visit, start, unroll=min(dimension, _UNROLLED))

    none = jnp.zeros((points_a.shape[0], points_b.shape[0]), points_a.dtype)
    size = over_coordinates(
        lambda difference, _, largest: jnp.maximum(largest, jnp.abs(difference)), none
    )
    size = lax.stop_gradient(size)  # the results do not depend on this scaling
    unit = 1 / jnp.maximum(size, jnp.finfo(size.dtype).tiny)
    squares, product = over_coordinates(
        lambda difference, total, sums: (
            sums[0] + (difference * unit) ** 2,
            sums[1] + difference * unit * total,
        ),
        (none, none),
    )
    length = numerics.root(squares)
    return size * length, numerics.safe_divide(product, length)


def _share_of_ball(distance: Array, projection: Array, short: Array, dimension: int) -> Array:
    """vol(B_x symmetric difference B_z) / vol(B_x) for rho_x = 1, rho_z = `short`, from |x - z| and
    (x + z).e = p_x + p_z.
    """
    p_x = jnp.minimum(0.5 * (projection + distance), 1.0)
    p_z = jnp.clip(0.5 * (projection - distance), -short, short)
    q = numerics.root((short - p_z) * (short + p_z))
    angle = angle_of(p_x, q)
    between = angle_of(q * distance, p_x * p_z + q * q)
    longer = distance * projection / (1 + short) * _geometric_sum(short, dimension)
    whole = _cosine_integral(math.pi / 2, 1.0, 0.0, dimension)
    return (
        longer * _cosine_integral(angle, p_x, q, dimension)
        + short**dimension * _cosine_integral_between(angle, between, dimension)
    ) / whole


def _geometric_sum(ratio: Array, dimension: int) -> Array:
    """1 + t + ... + t^(d-1)."""
    total = jnp.ones_like(ratio)
    for _ in range(dimension - 1):
        total = 1 + ratio * total
    return total


def _cosine_integral(
    angle: Array | float, sine: Array | float, cosine: Array | float, dimension: int
) -> Array | float:
    """S(a), the integral of cos^d from 0 to a in [0, pi/2], by its recurrence in d: no term is
    negative.
    """
    value = angle if dimension % 2 == 0 else sine
    for power in range(2 + dimension % 2, dimension + 1, 2):
        value = (cosine ** (power - 1) * sine + (power - 1) * value) / power
    return value


def _cosine_integral_between(angle: Array, between: Array, dimension: int) -> Array:
    """The integral of cos^d over an interval of length `between` that ends at `angle`: cos^d
    t = 2^-d sum_k C(d, k) cos((d - 2k) t).
    """
    half, middle = 0.5 * between, angle - 0.5 * between
    total = (
        jnp.zeros_like(angle)
        if dimension % 2
        else math.comb(dimension, dimension // 2) / 2**dimension * between
    )
    for frequency in range(1 if dimension % 2 else 2, dimension + 1, 2):
        coefficient = (
            4 * math.comb(dimension, (dimension - frequency) // 2) / 2**dimension / frequency
        )
        total = total + coefficient * jnp.sin(frequency * half) * jnp.cos(frequency * middle)
    return jnp.maximum(total, 0.0)
