"""Measures, and values of the radius and of the penalty, that fit given points, for the
interfaces.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jboost.kernels import (
    Kernel,
    central_hyperplanes,
    hyperplanes,
    isotropic_hyperplanes,
    stumps,
)

AUTO, CUBE, ISOTROPIC, CENTRAL, STUMPS = MEASURES = (
    "auto",
    "cube",
    "isotropic",
    "central",
    "stumps",
)
WITHOUT_RADIUS = (CENTRAL, STUMPS)
# "auto" is the measure of the paper for up to so many columns, as in the paper. With 10 columns of
# standardised data its probabilities are about 1e-8, and float32 resolves no margin.
_MOST_COLUMNS_OF_CUBE = 2
# Candidates of the penalty are these numbers over the number of rows.
PENALTY_FACTORS = (1.5, 2.0, 3.0, 5.0, 9.0)
_SLACK = 1.001  # factor of the smallest radius, so that rounding does not exclude a row


class Measure(NamedTuple):
    """A measure on hyperplanes or stumps, and its origin."""

    kernel: Kernel
    centre: np.ndarray  # [d], in the precision of the points


def measure_for(points: np.ndarray, name: str = AUTO, radius: float | None = None) -> Measure:
    """The measure of a name around the mean of points [m, d].

    Args:
      points: [m, d].
      name: "cube" for `jboost.kernels.hyperplanes`, the measure of the paper; "isotropic" for
        `jboost.kernels.isotropic_hyperplanes`; "auto" for the former with one or two columns, as in
        the paper, and else for the latter; "central" for `jboost.kernels.central_hyperplanes`, and
        "stumps" for `jboost.kernels.stumps` with thresholds in the range of each column.
      radius: of the measure; None for the smallest that all points allow.

    Raises:
      ValueError: if distances between the points overflow in their precision, and for a radius of a
        measure that has none.

    >>> import numpy as np
    >>> [type(measure_for(np.eye(size, dtype=np.float32)).kernel).__name__ for size in (2, 3)]
    ['Hyperplanes', 'IsotropicHyperplanes']
    """
    centre, of_cube = smallest_cube(points)
    if name == AUTO:
        name = CUBE if points.shape[1] <= _MOST_COLUMNS_OF_CUBE else ISOTROPIC
    if name == CUBE:
        return Measure(hyperplanes(of_cube if radius is None else radius), centre)
    if name in WITHOUT_RADIUS and radius is not None:
        raise ValueError(
            f"radius is {radius:g}, and the measure {name} has none: leave it out, or take the"
            f" measure {CUBE} or {ISOTROPIC}"
        )
    if name == CENTRAL:
        return Measure(central_hyperplanes(), centre)
    if name == STUMPS:
        return Measure(stumps(*_ranges(points - centre)), centre)
    lengths = np.linalg.norm((points - centre).astype(np.float64), axis=1)
    longest = float(lengths.max()) * _SLACK
    smallest = longest if longest > np.finfo(points.dtype).tiny else 1.0
    return Measure(isotropic_hyperplanes(smallest if radius is None else radius), centre)


def _ranges(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper ends [d] of intervals that hold the columns of points [m, d], with some
    slack; of length 1 at least where a column has one value.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    wide = high.astype(np.float64) - low
    slack = np.where(wide > np.finfo(points.dtype).tiny, (_SLACK - 1) * wide, 0.5)
    return (low - slack).astype(points.dtype), (high + slack).astype(points.dtype)


class Cube(NamedTuple):
    """The cube from which the points of hyperplanes nearest to its centre are drawn."""

    centre: np.ndarray  # [d], in the precision of the points
    radius: float  # R, half the width


def smallest_cube(points: np.ndarray) -> Cube:
    """The cube around the mean of points [m, d] whose hyperplanes can separate any two of them.

    Raises:
      ValueError: if distances between the points overflow in their precision.

    >>> import numpy as np
    >>> cube = smallest_cube(np.array([[0.0], [4.0]], np.float32))
    >>> cube.centre.tolist(), round(cube.radius, 3)
    ([2.0], 2.002)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        centre = points.mean(axis=0, dtype=np.float64).astype(points.dtype)
        centred = (points - centre).astype(np.float64)  # rounded in the precision of the fit first
        reach = np.abs(centred).max(axis=1) + np.linalg.norm(centred, axis=1)
        radius = float(reach.max()) / 2 * _SLACK
        # 4 * radius bounds the length of every sum and difference of two points.
        is_held = np.isfinite(points.dtype.type(4 * radius))
    if not is_held:
        raise ValueError(
            f"the columns hold numbers up to {float(np.abs(points).max()):.3g}, and distances"
            f" between such rows overflow {points.dtype}: rescale the columns"
        )
    return Cube(centre, radius if radius > np.finfo(points.dtype).tiny else 1.0)
