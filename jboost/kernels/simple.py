"""Two more classes with closed forms, as Naish-Guzman, Holden and Paquet suggest: stumps with
uniform thresholds, and hyperplanes through the origin.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, numerics
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.kernels.angles import angle_of
from jboost.kernels.types import Kernel, everywhere


@register
@dataclasses.dataclass(frozen=True)
class RandomStumps(Kernel):
    """Stumps with a random coordinate, a uniform threshold in its range, and a random sign."""

    lower: Array  # [d]
    upper: Array  # [d]

    def disagreement(self, points_a: Array, points_b: Array) -> Array:
        """mean_k |x_k - z_k| / (upper_k - lower_k)."""
        self._validate(points_a)
        return jnp.mean(
            jnp.abs(points_a[:, None, :] - points_b[None, :, :])
            / (self.upper - self.lower)[None, None, :],
            axis=-1,
        )

    def is_inside(self, points: Array) -> Array:
        """Whether points lie in the box of thresholds."""
        self._validate(points)
        is_box = (self.lower < self.upper)[None, :]
        return jnp.all(
            (points >= self.lower[None, :]) & (points <= self.upper[None, :]) & is_box, axis=1
        )

    def draw(self, key: Array, points: Array) -> Array:
        """The side of a uniform threshold of a random coordinate, with a random sign."""
        self._validate(points)
        of_coordinate, of_threshold, of_sign = jax.random.split(key, 3)
        coordinate = jax.random.randint(of_coordinate, (), 0, points.shape[1])
        low, high = self.lower[coordinate], self.upper[coordinate]
        threshold = low + (high - low) * jax.random.uniform(of_threshold, (), points.dtype)
        is_above = points[:, coordinate] > threshold
        return jax.random.rademacher(of_sign, (), points.dtype) * jnp.where(is_above, 1.0, -1.0)

    def _validate(self, points: Array) -> None:
        """Raises ValueError unless there is a range for each coordinate."""
        if points.shape[1] != self.lower.shape[-1]:
            raise ValueError(
                f"points has {points.shape[1]} columns, and the stumps have ranges for"
                f" {self.lower.shape[-1]}: pass as many"
            )


@register
@dataclasses.dataclass(frozen=True)
class CentralHyperplanes(Kernel):
    """Hyperplanes through the origin with Gaussian normals."""

    def disagreement(self, points_a: Array, points_b: Array) -> Array:
        """The angle divided by pi."""
        return _angle(points_a, points_b)

    def is_inside(self, points: Array) -> Array:
        """True for all points."""
        return everywhere((), points)

    def draw(self, key: Array, points: Array) -> Array:
        """The side of a plane with a Gaussian normal; the origin is on the positive one."""
        normal = jax.random.normal(key, points.shape[1:], points.dtype)
        return jnp.where(jnp.sum(points * normal[None, :], axis=1) >= 0, 1.0, -1.0).astype(
            points.dtype
        )


def stumps(lower: ArrayLike, upper: ArrayLike) -> RandomStumps:
    """Decision stumps with a random coordinate, a uniform threshold in its range, and a random
    sign. P = mean_k |x_k - z_k| / (upper_k - lower_k).

    Args:
      lower: [d], lower ends of the ranges of thresholds.
      upper: [d], upper ends, above `lower`. Points outside the box are not `is_inside`.

    Raises:
      ValueError: at trace time, naming the argument.

    >>> import jax.numpy as jnp
    >>> from jboost import kernels
    >>> kernels.stumps([0.0, 0.0], [1.0, 2.0]).disagreement(
    ...     jnp.array([[0.0, 0.0]]), jnp.array([[0.5, 1.0]])
    ... ).tolist()
    [[0.5]]
    """
    lower = check.numeric("lower", lower, shape=("d",), kinds="fiu").astype(float)
    upper = check.numeric("upper", upper, shape=lower.shape, kinds="fiu").astype(float)
    return RandomStumps(lower, upper)


def central_hyperplanes() -> CentralHyperplanes:
    """Hyperplanes through the origin with Gaussian normals: P is the angle between the points
    divided by pi.

    1 - P is the arc-cosine kernel of order 0 (Cho, Saul 2009, "Kernel methods for deep learning").
    The origin itself is on every plane: P is 1/2 between it and any other point, and 0 between it
    and itself.

    >>> import jax.numpy as jnp
    >>> from jboost import kernels
    >>> kernels.central_hyperplanes().disagreement(
    ...     jnp.array([[1.0, 0.0]]), jnp.array([[0.0, 3.0], [-1.0, 0.0], [2.0, 0.0]])
    ... ).tolist()
    [[0.5, 1.0, 0.0]]
    """
    return CentralHyperplanes()


def _levelled(points_a: Array, points_b: Array) -> tuple[Array, Array]:
    """All pairs of points, [a, b, d] each or broadcast to it. Points of very different lengths are
    scaled to similar lengths, so that neither is lost in sums and differences.
    """
    points_a, points_b = (
        points if points.dtype in (jnp.float32, jnp.float64) else points.astype(float)
        for points in (points_a, points_b)
    )
    # a quarter of the size, so that the reciprocals of the units are normal floats
    quarters = (
        0.25 * jnp.max(jnp.abs(lax.stop_gradient(points)), axis=1)
        for points in (points_a, points_b)
    )
    sizes = [numerics.power_of_two_at_least(quarter) for quarter in quarters]
    sizes_a, sizes_b = sizes[0][:, None], sizes[1][None, :]
    is_uneven = (sizes_a > 4 * sizes_b) | (sizes_b > 4 * sizes_a)
    units = (jnp.where(is_uneven, size, 1.0)[..., None] for size in (sizes_a, sizes_b))
    return tuple(
        points / unit
        for points, unit in zip((points_a[:, None, :], points_b[None, :, :]), units, strict=True)
    )


@jax.jit
def _angle(points_a: Array, points_b: Array) -> Array:
    """The angle, from |x ^ z| = |x + z| |(x - z) orthogonal to x + z| / 2 or the same with x + z
    and x - z exchanged. The shorter of the two is projected, so that nothing cancels for near
    points.
    """
    left, right = _levelled(points_a, points_b)
    difference, total = left - right, left + right
    largest = jnp.maximum(jnp.max(jnp.abs(difference), axis=-1), jnp.max(jnp.abs(total), axis=-1))
    scale = lax.stop_gradient(jnp.where(largest > 0, largest, 1.0))[..., None]
    difference, total = difference / scale, total / scale
    squared_difference, squared_total = jnp.sum(difference**2, axis=-1), jnp.sum(total**2, axis=-1)
    is_near = squared_difference <= squared_total
    short, long = (
        jnp.where(is_near[..., None], difference, total),
        jnp.where(is_near[..., None], total, difference),
    )
    squared_long = jnp.where(is_near, squared_total, squared_difference)
    along = numerics.safe_divide(jnp.sum(short * long, axis=-1), squared_long)
    across = numerics.root(jnp.sum((short - along[..., None] * long) ** 2, axis=-1))
    angle = angle_of(2 * numerics.root(squared_long) * across, squared_total - squared_difference)
    is_origin_a, is_origin_b = (
        jnp.all(points_a == 0, axis=1)[:, None],
        jnp.all(points_b == 0, axis=1)[None, :],
    )
    return jnp.where(
        is_origin_a & is_origin_b, 0.0, jnp.where(is_origin_a | is_origin_b, 0.5, angle / jnp.pi)
    )
