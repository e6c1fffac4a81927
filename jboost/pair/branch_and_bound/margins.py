"""The margin of a separation of millions of sites, from the few sites nearest to the line.

The distance of two hulls depends only on the sites that are lowest along its direction. Each step
ranks blocks of neighbouring sites by their lowest site along the current direction. The hull
distance of the lowest blocks gives the next direction. The loop ends when the direction does not
change.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import devices, loops, numerics
from jboost.base.types import Array
from jboost.geometry import hulls
from jboost.pair.branch_and_bound.frontiers import Leaves
from jboost.pair.branch_and_bound.leaf_visits import SiteSeparation, counted_sides, sides_of_all
from jboost.pair.branch_and_bound.leaves import Frame
from jboost.pair.branch_and_bound.sites import CurveSites
from jboost.pair.types import Fat

_BLOCK = 64  # sites in a block
_MOST_BLOCKS = 32  # blocks of each side whose hulls are compared
_MAX_ROUNDS = 40  # the largest number of steps of the loop
RELATIVE_ERROR = 2.0**-36  # of the margin


class FatSeparation(NamedTuple):
    """A separation with its margin, and the sites that determine it."""

    margin: Array  # [] infinite for a constant classifier
    normal: Array  # [2] in metric coordinates, points to the own side; 0 for a constant
    is_constant: Array  # [] bool
    # [S] int32, indices of the sites nearest to the line on each side; some may be repeated
    near: Array
    on_own_side: Array  # [N] bool, of all sites


def _num_near(num_sites: int) -> int:
    """The number of sites in the lowest blocks of both sides, in two steps of the loop."""
    return 4 * min(_MOST_BLOCKS, -(-num_sites // _BLOCK)) * _BLOCK


@devices.host_jit
def constant_separation(points: CurveSites) -> FatSeparation:
    """The better of the two constant classifiers, the one that keeps the own class if they tie."""
    width = _num_near(points.x.shape[0])
    keeps_own = jnp.sum(points.other) <= jnp.sum(points.own)
    return FatSeparation(
        margin=jnp.full((), jnp.inf, points.x.dtype),
        normal=jnp.zeros(2, points.x.dtype),
        is_constant=jnp.ones((), bool),
        near=jnp.zeros(width, jnp.int32),
        on_own_side=jnp.broadcast_to(keeps_own, points.x.shape),
    )


def _lowest_blocks(heights: Array, mask: Array) -> Array:
    """The indices [S] of the sites in the blocks that contain the lowest sites of the mask [N].
    Some of these sites may be outside the mask, or have indices beyond N.
    """
    size = heights.shape[0]
    missing = -size % _BLOCK
    lowest = jnp.min(
        jnp.pad(jnp.where(mask, heights, jnp.inf), (0, missing), constant_values=jnp.inf).reshape(
            -1, _BLOCK
        ),
        axis=1,
    )
    _, block = lax.sort((lowest, lax.iota(jnp.int32, lowest.shape[0])), num_keys=1)
    return (block[:_MOST_BLOCKS, None] * _BLOCK + lax.iota(jnp.int32, _BLOCK)[None]).reshape(-1)


class _MarginRound(NamedTuple):
    normal: Array  # [2]
    margin: Array  # []
    near: Array  # [S] int32
    moving: Array  # [] bool


@devices.host_jit(static_argnames="fat")
def fatten(
    points: CurveSites, frame: Frame, leaf: Leaves, separation: SiteSeparation, *, fat: Fat
) -> FatSeparation:
    """The margin of one separation of all sites. The fields of `leaf` and `separation` have no
    leading axis.
    """
    size = points.x.shape[0]
    on_own_side = sides_of_all(points, frame, leaf, separation.own_above, separation.on_own_side)
    own_side, other_side = counted_sides(points.own, points.other, on_own_side, fat)
    is_constant = ~(jnp.any(own_side) & jnp.any(other_side))
    places = jnp.stack([points.x, points.y]) * points.metric[:, None]
    slope, one = leaf.cells.slope, jnp.ones((), places.dtype)
    normal = jnp.where(leaf.cells.swapped, jnp.stack([slope, one]), jnp.stack([one, slope])) / (
        frame.size * points.metric
    )
    normal = jnp.where(separation.own_above, normal, -normal)
    known = jnp.isfinite(separation.margin_bound) & jnp.any(separation.normal != 0)
    normal = jnp.where(known, separation.normal, normal)

    begin = _MarginRound(
        normal,
        jnp.full((), jnp.inf, places.dtype),
        jnp.full(_num_near(size), size, jnp.int32),
        ~is_constant,
    )
    found, _ = loops.bounded_loop(
        functools.partial(_next_round, places, own_side, other_side),
        lambda now: now.moving,
        begin,
        max_checks=_MAX_ROUNDS,
    )
    return FatSeparation(
        margin=jnp.where(is_constant, jnp.inf, found.margin),
        normal=jnp.where(is_constant, 0, found.normal),
        is_constant=is_constant,
        # sorted, so that of several sites nearest to the line the first is its anchor
        near=lax.sort(jnp.where(found.near < size, found.near, -1)),
        on_own_side=on_own_side,
    )


def _next_round(
    places: Array, own_side: Array, other_side: Array, now: _MarginRound
) -> _MarginRound:
    """The round after the hulls of the lowest blocks are compared. `places` is [2, N] in metric
    coordinates; the sides are the counted sites [N] on each side.
    """
    size = places.shape[1]
    heights = places[0] * now.normal[0] + places[1] * now.normal[1]
    gap = numerics.masked_min(heights, own_side, fill=jnp.inf) - numerics.masked_max(
        heights, other_side, fill=-jnp.inf
    )
    is_true = gap >= 2 * now.margin * jnp.sqrt(jnp.sum(now.normal * now.normal)) * (
        1 - RELATIVE_ERROR
    )
    nearest = jnp.concatenate(
        [_lowest_blocks(heights, own_side), _lowest_blocks(-heights, other_side)]
    )
    near = jnp.concatenate([nearest, now.near[: nearest.shape[0]]])
    real, at = near < size, jnp.minimum(near, size - 1)
    own, other = own_side[at] & real, other_side[at] & real
    last = near.shape[0] - 1
    start = tuple(jnp.minimum(numerics.first_true(side), last) for side in (own, other))
    hull = hulls.hull_distance(
        places[:, at], own, other, start=(start[0], start[1]), floor=-jnp.ones((), places.dtype)
    )
    usable = jnp.any(hull.normal != 0)
    normal = jnp.where(is_true | ~usable, now.normal, hull.normal)
    return _MarginRound(
        normal, jnp.where(is_true, now.margin, hull.distance / 2), near, ~is_true & usable
    )
