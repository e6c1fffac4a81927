"""The input of the search in space: points scaled by powers of two, integer weights, and flags that
say which arithmetic is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array
from jboost.geometry import angular
from jboost.pair.sweep.instance import Encoding, is_integer, read, scale_axes


class PlaneProblem(NamedTuple):
    """Scaled points, integer weights, and the classes. The own class is the smaller one; its points
    are the centres.
    """

    # [n, 3] float64, |x| at most about 2^13. Each coordinate has its own scale, because the sides
    # of planes do not depend on units.
    points: Array
    metric: Array  # [n, 3] float64, all coordinates in one unit, for distances
    own: Array  # [n] bool, live and of the class that serves as centres
    live: Array  # [n] bool
    # [n] int64, net weights: at each position one point of the heavier class has the difference
    # of the two class weights, all other points have 0
    weights: Array
    base: Array  # [] int64, the loss of every plane at positions shared by both classes
    on_grid: Array  # [] bool, around every axis, equal sort keys mean equal directions
    is_exact: Array  # [] bool, projections along an axis are floats without rounding


# The most binades between two coordinates. Products of differences, in twice the working precision,
# are then normal floats.
_MOST_BINADES = 300
# The bits of a coordinate for which arithmetic is exact: differences have 26 bits, products of
# these 52, and the difference of two products is a float64 without rounding.
_EXACT_BITS = 25


def grid_bits(num_points: int) -> int:
    """The largest g such that, for integer coordinates of at most 2^g and around any axis, the sort
    keys of two directions are equal or differ by at least three.

    Let D = 2^(g + 1) bound all differences, and let d be the longest component of the axis. The
    keys of two distinct directions differ by at least 1 / (16 d D^2), because their cross product
    is a multiple of d and the 1-norm of a projected point is at most 4 d D.
    """
    fraction_bits = 2 * angular.grid_bits(jnp.dtype("float64"), num_points) + 6
    return (fraction_bits - 9) // 3


def encode(
    points: Array, labels: Array, weights: Array, mask: Array
) -> tuple[PlaneProblem, Encoding]:
    """The problem in space: points scaled by powers of two, integer weights, and the smaller class
    as the own one.
    """
    examples, encoding = read(points, labels, weights, mask, jnp.dtype("float64"))
    bits = grid_bits(points.shape[0])
    scaled, metric, unit, faithful = scale_axes(examples.points, bits, _MOST_BINADES)
    net = _net_weights(scaled, examples.own, examples.live, examples.weights)
    total = jnp.sum(examples.weights, dtype=examples.weights.dtype)
    problem = PlaneProblem(
        points=scaled,
        metric=metric,
        own=examples.own,
        live=examples.live,
        weights=net,
        base=(total - jnp.sum(net, dtype=net.dtype)) // 2,
        on_grid=is_integer(scaled),
        is_exact=is_integer(scaled * 2.0 ** (_EXACT_BITS - bits)),
    )
    return problem, encoding._replace(unit=unit, faithful=encoding.faithful & faithful)


def _net_weights(points: Array, own: Array, live: Array, weights: Array) -> Array:
    """The difference of the class weights at each position, [n]. One point of the heavier class has
    it, all other points have 0.

    Points at one position are on the same side of every plane. Every plane therefore loses at least
    the weight of the lighter class at this position.
    """
    size = points.shape[0]
    index = lax.iota(jnp.int32, size)
    skipped, x, y, z, is_own, order = lax.sort((~live, *points.T, own, index), num_keys=5)
    differs = (
        (skipped[1:] != skipped[:-1]) | (x[1:] != x[:-1]) | (y[1:] != y[:-1]) | (z[1:] != z[:-1])
    )
    opens, closes = (
        jnp.concatenate([jnp.ones(1, bool), differs]),
        jnp.concatenate([differs, jnp.ones(1, bool)]),
    )
    signed = jnp.where(is_own, weights[order], -weights[order])
    excess = run_totals(signed, opens, closes)
    net = jnp.where(closes & (excess > 0), excess, jnp.where(opens & (excess < 0), -excess, 0))
    return jnp.zeros_like(net).at[order].set(net)


def run_totals(values: Array, opens: Array, closes: Array) -> Array:
    """For each entry of a vector [n] the sum over its run. Runs begin where `opens` is True and end
    where `closes` is True.
    """
    index = lax.iota(jnp.int32, values.shape[0])
    first = lax.cummax(jnp.where(opens, index, 0))
    last = lax.cummin(jnp.where(closes, index, values.shape[0] - 1), reverse=True)
    sums = jnp.cumsum(values)
    return sums[last] - (sums[first] - values[first])


def list_places(points: Array, wanted: Array) -> tuple[Array, Array]:
    """One point index for each distinct position of the `wanted` points. Returns indices [n] int32,
    with these first, and their number.
    """
    skipped, x, y, z, index = lax.sort(
        (~wanted, *points.T, lax.iota(jnp.int32, points.shape[0])), num_keys=4
    )
    again = (x[1:] == x[:-1]) & (y[1:] == y[:-1]) & (z[1:] == z[:-1])
    skipped = skipped | jnp.concatenate([jnp.zeros(1, bool), again])
    _, places = lax.sort((skipped, index), num_keys=1)
    return places, jnp.sum(~skipped, dtype=jnp.int32)
