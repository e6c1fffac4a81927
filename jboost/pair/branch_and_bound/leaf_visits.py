"""The exact step of the search: lines through a centre of a leaf in exact angular order, and the
separations of least loss.

As in `jboost.pair.sweep.visits`, an optimal separator set has an open class of lines at each of its
support points. Here only the classes whose lines meet the cell of the leaf are listed. Every site
outside the leaf is certain: it is on the same side of all lines of the cell.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import devices, numerics
from jboost.base.types import Array
from jboost.geometry import angular, hulls
from jboost.pair.branch_and_bound.frontiers import Leaves
from jboost.pair.branch_and_bound.leaves import (
    Frame,
    Local,
    gather_local,
    meets_cell,
    oriented_frame,
)
from jboost.pair.branch_and_bound.sites import CurveSites
from jboost.pair.types import Fat


class Classes(NamedTuple):
    """The open classes of lines through one centre: `M + 1` with the own class above the line, then
    `M + 1` with it below.
    """

    # [2 (M + 1)] integer; the largest integer where no class exists or the class misses the cell
    losses: Array
    position: Array  # [M] int32, the position of each site in angular order
    upper: Array  # [M] bool, see `jboost.geometry.angular.is_upper`
    away: Array  # [M] bool, not at the centre


class SiteSeparation(NamedTuple):
    """The separation of the sites by one class, and a bound of its margin from the sites of its
    leaf.
    """

    own_above: Array  # [] bool, whether the own class has the larger projections
    on_own_side: Array  # [M] bool, of the sites of the leaf
    margin_bound: Array  # [] an upper bound of the margin
    # [2] in metric coordinates, from the other side to the own side; undefined where the bound is
    # infinite
    normal: Array


def _classes(local: Local, frame: Frame, centre: Array) -> Classes:
    size = local.x.shape[0]
    places = jnp.stack([local.x, local.y])
    at = places[:, centre]
    dx, dy = places - at[:, None]
    away = local.live & ((dx != 0) | (dy != 0))
    order = angular.exact_half_turn_order(places, at, away)
    upper = angular.is_upper(dx, dy)
    change = jnp.where(away, local.other - local.own, 0)
    steps = jnp.where(upper, change, -change)[order.index]
    at_start = jnp.sum(jnp.where(upper, 0, change))
    sums = at_start + jnp.concatenate([jnp.zeros(1, steps.dtype), jnp.cumsum(steps)])
    own_off, other_off = (
        jnp.sum(jnp.where(away, weights, 0)) for weights in (local.own, local.other)
    )
    here = jnp.sum(jnp.where(local.live & ~away, local.other, 0))
    losses = (
        jnp.stack([local.cell.own_above + own_off + sums, local.cell.own_below + other_off - sums])
        + here
    )
    slopes = -(dx / frame.size[0]) / jnp.where(dy != 0, dy / frame.size[1], 1)
    slopes = jnp.where(dy != 0, slopes, -jnp.inf)
    num_away = jnp.sum(away, dtype=jnp.int32)
    slopes = jnp.where(lax.iota(jnp.int32, size) < num_away, slopes[order.index], jnp.inf)
    infinite = jnp.full(1, jnp.inf, slopes.dtype)
    met = meets_cell(
        local,
        frame,
        centre,
        jnp.concatenate([-infinite, slopes]),
        jnp.concatenate([slopes, infinite]),
    )
    is_open = jnp.concatenate([~order.joined, jnp.ones(1, bool)]) & (
        lax.iota(jnp.int32, size + 1) <= num_away
    )
    losses = jnp.where((met & is_open)[None], losses, jnp.iinfo(losses.dtype).max)
    position = jnp.zeros(size, jnp.int32).at[order.index].set(lax.iota(jnp.int32, size))
    return Classes(losses.reshape(-1), position, upper, away)


def _sides(classes: Classes, chosen: Array) -> tuple[Array, Array]:
    """Whether a class of lines has the own class above, [], and which sites of the leaf are on the
    own side, [M] bool.
    """
    num_classes = classes.position.shape[0] + 1
    own_above, rank = chosen < num_classes, chosen % num_classes
    above = classes.upper == (classes.position < rank)
    return own_above, jnp.where(classes.away, above == own_above, True)


def _separation(
    local: Local,
    metric: Array,
    classes: Classes,
    chosen: Array,
    centre: Array,
    fat: Fat,
) -> SiteSeparation:
    own_above, on_own_side = _sides(classes, chosen)
    own_side, other_side = counted_sides(local.own, local.other, on_own_side, fat)
    start = centre, jnp.minimum(numerics.first_true(other_side), local.x.shape[0] - 1)
    places = jnp.stack([local.x, local.y]) * metric[:, None]
    hull = hulls.hull_distance(
        places, own_side, other_side, start=start, floor=-jnp.ones((), places.dtype)
    )
    bound = jnp.where(jnp.any(own_side) & jnp.any(other_side), hull.distance / 2, jnp.inf)
    return SiteSeparation(own_above, on_own_side, bound, hull.normal)


def counted_sides(own: Array, other: Array, on_own_side: Array, fat: Fat) -> tuple[Array, Array]:
    """Which sites the margin counts on the own side and on the other side: all of them if `fat` is
    "flipped", else those that are classified correctly.
    """
    if fat == "flipped":
        occupied = (own > 0) | (other > 0)
        return occupied & on_own_side, occupied & ~on_own_side
    return (own > 0) & on_own_side, (other > 0) & ~on_own_side


def sides_of_all(
    points: CurveSites, frame: Frame, leaf: Leaves, own_above: Array, on_own_side: Array
) -> Array:
    """Which sites are on the own side, [N] bool, from those of one leaf [M]. All other sites are
    certain for the cell of the leaf.
    """
    cell, size = leaf.cells, points.x.shape[0]
    along, across = (
        (points.x - frame.middle[0]) / frame.size[0],
        (points.y - frame.middle[1]) / frame.size[1],
    )
    along, across = jnp.where(cell.swapped, across, along), jnp.where(cell.swapped, along, across)
    certain = (along + cell.slope * across > cell.low + (cell.high - cell.low) / 2) == own_above
    return certain.at[jnp.where(leaf.site >= 0, leaf.site, size)].set(on_own_side, mode="drop")


def _views(points: CurveSites, frame: Frame, leaf: Leaves) -> tuple[Local, Frame, Array]:
    swapped = leaf.cells.swapped
    return (
        gather_local(points, leaf),
        oriented_frame(frame, swapped),
        jnp.where(swapped, points.metric[::-1], points.metric),
    )


@devices.host_jit
def open_classes(points: CurveSites, frame: Frame, leaves: Leaves, centres: Array) -> Classes:
    """The open classes through one centre [V] in each of the leaves, fields [V, ...]."""

    def visit(leaf: Leaves, centre: Array) -> Classes:
        local, view, _ = _views(points, frame, leaf)
        return _classes(local, view, centre)

    return jax.vmap(visit)(leaves, centres)


@devices.host_jit(static_argnames="fat")
def separate(
    points: CurveSites,
    frame: Frame,
    leaves: Leaves,
    centres: Array,
    classes: Classes,
    chosen: Array,
    *,
    fat: Fat,
) -> SiteSeparation:
    """The separations of the chosen classes [V] through centres [V] of leaves, fields [V, ...]."""

    def visit(leaf: Leaves, centre: Array, classes: Classes, chosen: Array) -> SiteSeparation:
        local, _, metric = _views(points, frame, leaf)
        separation = _separation(local, metric, classes, chosen, centre, fat)
        return separation._replace(
            normal=jnp.where(leaf.cells.swapped, separation.normal[::-1], separation.normal)
        )

    return jax.vmap(visit)(leaves, centres, classes, chosen)


@devices.host_jit
def own_side(points: CurveSites, frame: Frame, leaf: Leaves, separation: SiteSeparation) -> Array:
    """Which sites a separation has on the own side, [N] bool. The fields of `leaf` and `separation`
    have no leading axis.
    """
    sides = sides_of_all(points, frame, leaf, separation.own_above, separation.on_own_side)
    return sides & (lax.iota(jnp.int32, points.x.shape[0]) < points.count)


@devices.host_jit
def split_sites(
    points: CurveSites, frame: Frame, leaves: Leaves, classes: Classes, chosen: Array
) -> Array:
    """Which sites the chosen classes [V] of leaves have on the own side, [V, N] bool."""

    def visit(leaf: Leaves, classes: Classes, chosen: Array) -> Array:
        return sides_of_all(points, frame, leaf, *_sides(classes, chosen))

    return jax.vmap(visit)(leaves, classes, chosen)
