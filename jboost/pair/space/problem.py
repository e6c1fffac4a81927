"""The problem as the search in space sees it: points scaled by powers of two, weights as integers,
and which arithmetic is exact on them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array
from jboost.geometry import angular
from jboost.pair.sweep.encoding import Encoding, read
from jboost.pair.sweep.instance import is_integer, scale_axes


class Problem(NamedTuple):
    """The problem as the sweep sees it: scaled points, integer weights, own class (the smaller one,
    whose points are the centres) and other class.
    """

    # [n, 3] float64, |x| <= 2^13 or so, each coordinate scaled by itself: the sides of planes do
    # not depend on units
    points: Array
    metric: Array  # [n, 3] float64, in one unit: for distances
    own: Array  # [n] bool, live and of the class that serves as centres
    live: Array  # [n] bool
    # [n] int64, what is lost for the point beyond `base`: one point of the heavier class at each
    # place has all of it
    weights: Array
    base: Array  # [] int64, what every plane loses where both classes share a place
    on_grid: Array  # [] bool, round every axis equal keys are equal directions
    is_exact: Array  # [] bool, projections along an axis are floats without rounding


# between two coordinates: products of differences, to twice the working precision, stay normal
_MOST_BINADES = 300
# of a coordinate: differences have 26, their products 52, and a difference of two products fits a
# float64
_EXACT_BITS = 25


def grid_bits(num_points: int) -> int:
    """The largest g such that on integer coordinates of at most 2^g, and round any axis, the keys
    of two directions are equal or three apart.

    With differences of at most D = 2^(g + 1), two directions round an axis whose longest component
    is d are at least 1 / (16 d D^2) apart as keys: their cross product is a multiple of d, and the
    1-norm of a projected point is at most 4 d D.
    """
    fraction_bits = 2 * angular.grid_bits(jnp.dtype("float64"), num_points) + 6
    return (fraction_bits - 9) // 3


def encode(points: Array, labels: Array, weights: Array, mask: Array) -> tuple[Problem, Encoding]:
    """The problem in space: points scaled by powers of two, integer weights, and the smaller class
    as the own one.
    """
    examples, encoding = read(points, labels, weights, mask, jnp.dtype("float64"))
    bits = grid_bits(points.shape[0])
    scaled, metric, unit, faithful = scale_axes(examples.points, bits, _MOST_BINADES)
    net = _net_weights(scaled, examples.own, examples.live, examples.weights)
    total = jnp.sum(examples.weights, dtype=examples.weights.dtype)
    problem = Problem(
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
    """By how much one class outweighs the other at each place, [n]: at one point of that class, 0
    at all others.

    Planes send all that lies at one place the same way: what the lighter class weighs there is lost
    by any of them.
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
    """The sum over the run that each entry of a vector [n] belongs to; runs begin where `opens` and
    end where `closes`.
    """
    index = lax.iota(jnp.int32, values.shape[0])
    first = lax.cummax(jnp.where(opens, index, 0))
    last = lax.cummin(jnp.where(closes, index, values.shape[0] - 1), reverse=True)
    sums = jnp.cumsum(values)
    return sums[last] - (sums[first] - values[first])


def list_places(points: Array, wanted: Array) -> tuple[Array, Array]:
    """One index for every place that the wanted points [n] occupy, first of all: indices [n] int32,
    and how many of them count.
    """
    skipped, x, y, z, index = lax.sort(
        (~wanted, *points.T, lax.iota(jnp.int32, points.shape[0])), num_keys=4
    )
    again = (x[1:] == x[:-1]) & (y[1:] == y[:-1]) & (z[1:] == z[:-1])
    skipped = skipped | jnp.concatenate([jnp.zeros(1, bool), again])
    _, places = lax.sort((skipped, index), num_keys=1)
    return places, jnp.sum(~skipped, dtype=jnp.int32)
