"""Branch and bound over squares of directions: which axes may hold an optimal plane.

A plane through a centre has a direction (1, s, t), (t, 1, s) or (s, t, 1) with |s|, |t| <= 1. Over a square of such directions most points are
certain to be above the plane or below it, and what these lose is lost by every plane of the square. Squares that lose more than the best
plane met so far die, the others are cut in four, until few points are uncertain: only planes about the axes through the centre and one of
these are left for the sweep. The host drives the steps.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base.types import Array
from jboost.pair.space.problem import Problem
from jboost.pair.space.sweep import ListedAxes

_ROOT_CUTS = 4  # along each side of the three squares that hold all directions
_MOST_UNCERTAIN = 8  # places, the centre apart, that a square may leave to the sweep
_NARROWEST = 2.0**-24  # half width of squares that are not cut
_SAFETY = 2.0**-30  # heights so small are never certain: coordinates are 2^13 at most, and rounded by 2^-40
_ENTRIES_AT_ONCE, _ENTRIES_IN_CACHE = 1 << 20, 1 << 16
_FEW_SQUARES, _MOST_SQUARES = 1 << 18, 1 << 24  # that wait; between them as many as the sweep has axes, or half
_LEAST_AXES = 64


class _Places(NamedTuple):
    """One entry for each place; those from the number of places on are void."""

    points: Array  # [N, 3]
    own: Array  # [N] integer weight
    other: Array  # [N]
    live: Array  # [N] bool
    base: Array  # [] integer, what every plane loses


class _Squares(NamedTuple):
    """Squares of directions of one width, each with a centre that its planes go through."""

    centre: np.ndarray  # [K] int32, a place
    face: np.ndarray  # [K] int32, the coordinate with a 1
    s: np.ndarray  # [K] middle
    t: np.ndarray  # [K]


class _Losses(NamedTuple):
    """What the planes of squares lose; whole numbers, rounded so that they hold."""

    bound: Array  # [K] none loses less
    attained: Array  # [K] one loses no more
    num_uncertain: Array  # [K] int32, places, the centre apart


class Promising(NamedTuple):
    """The axes of all planes that may be optimal."""

    axes: ListedAxes
    attained: int  # what some plane loses at most; every plane about another axis loses more


def promising_axes(problem: Problem) -> Promising | None:
    """The axes that branch and bound leaves, or None where it leaves about all of them. The problem is concrete, the call in the 64-bit scope."""
    places, index, centres = _gather(problem)
    best = int(places.base) + min(int(places.own.sum()), int(places.other.sum()))
    steps = (2 * np.arange(_ROOT_CUTS) + 1) / _ROOT_CUTS - 1
    root = np.meshgrid(centres, np.arange(3, dtype=np.int32), steps, steps, indexing="ij")
    squares, half_width = _Squares(*(part.reshape(-1) for part in root)), 1 / _ROOT_CUTS
    most = min(max(_FEW_SQUARES, len(centres) * len(index) // 2), _MOST_SQUARES)
    leaves: list[tuple[_Squares, np.ndarray, float]] = []
    while len(squares.centre):
        losses = _look(places, squares, half_width)
        best = min(best, int(losses.attained.min()))
        is_live = losses.bound <= best
        is_leaf = is_live & ((losses.num_uncertain <= _MOST_UNCERTAIN) | (half_width <= _NARROWEST))
        leaves.append((_rows(squares, is_leaf), losses.bound[is_leaf], half_width))
        squares, half_width = _cut(_rows(squares, is_live & ~is_leaf), half_width), half_width / 2
        if len(squares.centre) > most:
            return None
    marked = [_marked(places, _rows(part, bounds <= best), width) for part, bounds, width in leaves]
    first, second = np.divmod(np.unique(np.concatenate([np.zeros(0, np.int64), *marked])), max(len(places.own), 1))
    if 2 * len(first) > len(centres) * len(index):
        return None
    capacity = max(_LEAST_AXES, 1 << (len(first) - 1).bit_length()) if len(first) else _LEAST_AXES
    ends = [jnp.asarray(np.pad(index[part].astype(np.int32), (0, capacity - len(part)))) for part in (first, second)]
    return Promising(ListedAxes(ends[0], ends[1], jnp.int32(len(first))), best)


def _gather(problem: Problem) -> tuple[_Places, np.ndarray, np.ndarray]:
    """The places, one point of each, and which of them hold points of the own class."""
    points, own, weights, live = (np.asarray(part) for part in (problem.points, problem.own, problem.weights, problem.live))
    at = np.flatnonzero(live)
    coordinates, first, place = np.unique(points[at] + 0.0, axis=0, return_index=True, return_inverse=True)
    place = place.reshape(-1)
    size, count = len(points), len(first)
    own_weights, other_weights = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.add.at(own_weights, place, np.where(own[at], weights[at], 0))
    np.add.at(other_weights, place, np.where(own[at], 0, weights[at]))
    padded = np.zeros((size, 3))
    padded[:count] = coordinates
    places = _Places(jnp.asarray(padded), jnp.asarray(own_weights), jnp.asarray(other_weights), jnp.arange(size) < count, problem.base)
    return places, at[first], np.unique(place[own[at]]).astype(np.int32)


def _rows(squares: _Squares, chosen: np.ndarray) -> _Squares:
    return _Squares(*(field[chosen] for field in squares))


def _cut(squares: _Squares, half_width: float) -> _Squares:
    """The quarters of squares."""
    s, t = (
        np.concatenate([middle + sign * half_width / 2 for sign in signs])
        for middle, signs in ((squares.s, (-1, -1, 1, 1)), (squares.t, (-1, 1, -1, 1)))
    )
    return _Squares(np.tile(squares.centre, 4), np.tile(squares.face, 4), s, t)


def _parts(places: _Places, squares: _Squares) -> list[tuple[slice, _Squares]]:
    """Squares in parts of one size, the last filled up with its first."""
    rows = max(1, _ENTRIES_IN_CACHE // max(places.own.shape[0], 1))
    size = rows * max(1, _ENTRIES_AT_ONCE // _ENTRIES_IN_CACHE)
    parts = []
    for first in range(0, len(squares.centre), size):
        index = np.arange(first, first + size)
        parts.append((slice(first, first + size), _rows(squares, np.where(index < len(squares.centre), index, first))))
    return parts


def _look(places: _Places, squares: _Squares, half_width: float) -> _Losses:
    parts = [jax.tree.map(np.asarray, _losses(places, part, half_width)) for _, part in _parts(places, squares)]
    return _Losses(*(np.concatenate(fields)[: len(squares.centre)] for fields in zip(*parts, strict=True)))


def _marked(places: _Places, squares: _Squares, half_width: float) -> np.ndarray:
    """The pairs of a centre and a place that squares leave uncertain, as centre N + place, int64."""
    found = [np.zeros(0, np.int64)]
    for rows, part in _parts(places, squares):
        uncertain = np.asarray(_uncertain(places, part, half_width))[: len(squares.centre[rows])]
        row, place = np.nonzero(uncertain)
        found.append(np.unique(part.centre[row].astype(np.int64) * len(places.own) + place))
    return np.concatenate(found)


def _heights(places: _Places, squares: _Squares, half_width: Array) -> tuple[Array, Array]:
    """How far places lie above the middle plane of each square, and how far they may move within it, [K, N] both."""
    height, reach = jnp.zeros(()), jnp.full((), _SAFETY)
    for axis in range(3):
        along, across = squares.face == axis, squares.face == (axis + 1) % 3
        slope = jnp.where(along, 1.0, jnp.where(across, squares.t, squares.s))
        away = places.points[None, :, axis] - places.points[squares.centre, axis][:, None]
        height = height + slope[:, None] * away
        reach = reach + jnp.where(along, 0.0, half_width)[:, None] * jnp.abs(away)
    return height, reach


def _is_elsewhere(places: _Places, squares: _Squares) -> Array:
    """Whether an entry is a place other than the centre, [K, N] bool."""
    return places.live[None] & (lax.iota(jnp.int32, places.live.shape[0])[None] != squares.centre[:, None])


@jax.jit
def _losses(places: _Places, squares: _Squares, half_width: Array) -> _Losses:
    """Sides are +1 where the own class is lost if it is below, and the other if above; -1 the reverse; 0 where a place is uncertain."""
    size = places.live.shape[0]
    rows = max(1, min(squares.centre.shape[0], _ENTRIES_IN_CACHE // size))
    weights = (places.own - places.other).astype(jnp.float64)
    sizes = jnp.stack([jnp.abs(weights), jnp.ones_like(weights)], axis=1)
    rounding = 2.0**-50 * (size + 4)

    def look(squares: _Squares) -> _Losses:
        height, reach = lax.optimization_barrier(_heights(places, squares, half_width))
        elsewhere = jnp.where(_is_elsewhere(places, squares), 1.0, 0.0)

        def sums(reach: Array | float) -> tuple[Array, Array, Array]:
            side = lax.optimization_barrier(elsewhere * ((height > reach).astype(jnp.float64) - (height < -reach).astype(jnp.float64)))
            total = jnp.matmul(jnp.abs(side), sizes, precision=lax.Precision.HIGHEST)
            return jnp.matmul(side, weights, precision=lax.Precision.HIGHEST), total[:, 0], total[:, 1]

        at_centre = (places.base + places.other[squares.centre]).astype(jnp.float64)
        here = jnp.abs(weights)[squares.centre]
        everything = jnp.sum(jnp.abs(weights))
        tilt, certain, count = sums(reach)
        bound = at_centre + (certain - jnp.abs(tilt)) / 2 - rounding * everything
        tilt, certain, _ = sums(_SAFETY)
        attained = at_centre + (certain - jnp.abs(tilt)) / 2 + (everything - here - certain) + rounding * everything
        num_live = jnp.sum(places.live, dtype=jnp.int32)
        return _Losses(jnp.floor(bound), jnp.ceil(attained), num_live - 1 - jnp.round(count).astype(jnp.int32))

    chunks = jax.tree.map(lambda field: field.reshape(-1, rows), squares)
    return jax.tree.map(lambda field: field.reshape(-1), lax.map(look, chunks))


@jax.jit
def _uncertain(places: _Places, squares: _Squares, half_width: Array) -> Array:
    height, reach = _heights(places, squares, half_width)
    return _is_elsewhere(places, squares) & (jnp.abs(height) <= reach)
