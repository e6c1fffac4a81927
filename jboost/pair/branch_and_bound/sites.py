"""The sites of the points in the order of a Hilbert curve, and a tree of boxes over them.

Points with equal coordinates form one site, which has a weight for each class. A node of the tree
is a site, or a box around `FAN` consecutive nodes of the level below (Hilbert 1891 for the curve;
Kamel and Faloutsos 1994 for trees packed along it). The search compares a wide slab of lines with a
few large boxes, and a narrow slab only with the sites near it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import devices, numerics
from jboost.base.types import Array
from jboost.pair.branch_and_bound.scans import running_sum
from jboost.pair.sweep.instance import LineInstance

FAN = 16  # children of a node
PACKED_BITS = 31  # bits of a weight, where one word stores the weights of both classes


class CurveSites(NamedTuple):
    """Sites in the order of the curve. The capacity is N; the first `count` sites are real."""

    x: Array  # [N] as in `LineInstance`
    y: Array  # [N]
    own: Array  # [N] weight of the class of the centres, in units of `grain`
    other: Array  # [N] weight of the other class
    grain: Array  # [] integer, the largest power of two that divides the weights of all points
    count: Array  # [] int32
    metric: Array  # [2] powers of two: metric coordinates are x * metric[0] and y * metric[1]
    on_grid: Array  # [] bool
    of_point: Array  # [N] int32, the site of each live point


class SiteTree(NamedTuple):
    """Nodes of all levels, the sites first. Coordinates are centred and scaled to [-1, 1]."""

    x: Array  # [T] middle of the box
    y: Array  # [T]
    half_width: Array  # [T] 0 for sites
    half_height: Array  # [T]
    weights: Array  # [channels, T] int64, own and other in one word (channels 1) or two
    sizes: Array  # [levels] int32, the number of real nodes of each level


def level_starts(capacity: int) -> tuple[int, ...]:
    """The index of the first node of each level of the tree, and the end of the last level, for N
    sites.
    """
    starts, size = [0], capacity
    while size > FAN:
        starts.append(starts[-1] + size)
        size = -(-size // FAN)
    return (*starts, starts[-1] + size)


def gather_sites(instance: LineInstance) -> CurveSites:
    """One site for each position of a live point, in the order of the curve."""
    size, place = instance.x.shape[0], _along_curve(instance)
    x, y, live, own = (
        instance.x[place],
        instance.y[place],
        instance.live[place],
        instance.own[place],
    )
    grain = _common_power_of_two(instance.weights.astype(jnp.int64))
    weights = instance.weights[place] // grain
    again = jnp.concatenate([jnp.zeros(1, bool), (x[1:] == x[:-1]) & (y[1:] == y[:-1])])
    first = live & ~again
    rank = running_sum(first.astype(jnp.int32)) - 1
    count = jnp.sum(first, dtype=jnp.int32)
    target = jnp.where(live, rank, size)
    zero = jnp.zeros((), jnp.int64)

    def total(mask: Array) -> Array:
        return (
            jnp.zeros(size, jnp.int64)
            .at[target]
            .add(jnp.where(mask, weights, zero), mode="drop", indices_are_sorted=True)
        )

    last = jnp.maximum(count - 1, 0)
    start = _starts(first, rank, last)
    ratio = jax.vmap(_ratio)(instance.metric, instance.points)
    of_point = jnp.zeros(size, jnp.int32).at[place].set(jnp.clip(rank, 0, last))
    return CurveSites(
        x[start],
        y[start],
        total(own & live),
        total(~own & live),
        grain,
        count,
        ratio,
        instance.on_grid,
        of_point,
    )


def _along_curve(instance: LineInstance) -> Array:
    """The indices [N] int32 of the points in the order of the curve, those not live at the end."""
    size = instance.x.shape[0]
    index_bits = max(1, (size - 1).bit_length())
    bits = min((63 - index_bits) // 2, 30)
    key = _hilbert_key(
        _to_grid(instance.x, instance.live, bits), _to_grid(instance.y, instance.live, bits), bits
    )
    key = jnp.where(instance.live, key, jnp.uint64(2 ** (63 - index_bits) - 1))
    ordered = lax.sort((key << index_bits) | lax.iota(jnp.uint64, size))
    return (ordered & jnp.uint64(2**index_bits - 1)).astype(jnp.int32)


def _starts(is_first: Array, rank: Array, last: Array) -> Array:
    """The position [N] int32 along the curve of the first point of each site; that of the `last`
    site where there is none.
    """
    size = rank.shape[0]
    start = (
        jnp.zeros(size, jnp.int32)
        .at[jnp.where(is_first, rank, size)]
        .set(lax.iota(jnp.int32, size), mode="drop")
    )
    return start[jnp.minimum(lax.iota(jnp.int32, size), last)]


def _common_power_of_two(weights: Array) -> Array:
    """The largest power of two that divides all weights [n], 1 if all are 0."""
    bits = lax.reduce(weights, jnp.zeros((), weights.dtype), lax.bitwise_or, (0,))
    return jnp.where(bits == 0, 1, bits & -bits)


def _ratio(metric: Array, scaled: Array) -> Array:
    """The ratio of two scales of one axis, a power of two; 1 if all coordinates are 0."""
    size = jnp.max(jnp.abs(scaled))
    return jnp.where(size > 0, jnp.max(jnp.abs(metric)) / jnp.where(size > 0, size, 1), 1)


def _extent(values: Array, live: Array) -> tuple[Array, Array]:
    """The middle of the live values, and a power of two that bounds their distances from it."""
    high, low = (
        numerics.masked_max(values, live, fill=-jnp.inf),
        numerics.masked_min(values, live, fill=jnp.inf),
    )
    middle = jnp.where(high >= low, low + (high - low) / 2, 0)
    reach = numerics.masked_max(jnp.abs(values - middle), live, fill=0)
    return middle, numerics.power_of_two_at_least(reach)


def _to_grid(values: Array, live: Array, bits: int) -> Array:
    high, low = (
        numerics.masked_max(values, live, fill=-jnp.inf),
        numerics.masked_min(values, live, fill=jnp.inf),
    )
    share = jnp.where(live & (high > low), (values - low) / jnp.where(high > low, high - low, 1), 0)
    return jnp.minimum((share * 2.0**bits).astype(jnp.uint32), 2**bits - 1)


def _hilbert_key(x: Array, y: Array, bits: int) -> Array:
    """The positions of grid cells along the curve, [n] uint64."""
    key = jnp.zeros(x.shape, jnp.uint64)
    for bit in reversed(range(bits)):
        side = jnp.uint32(1 << bit)
        right, top = (x & side) != 0, (y & side) != 0
        quadrant = jnp.where(right, jnp.where(top, 2, 3), jnp.where(top, 1, 0)).astype(jnp.uint64)
        key = (key << 2) | quadrant
        mirror = ~top & right
        rest = side - 1
        x, y = (
            jnp.where(mirror, rest - (x & rest), x & rest),
            jnp.where(mirror, rest - (y & rest), y & rest),
        )
        x, y = jnp.where(top, x, y), jnp.where(top, y, x)
    return key


def centre_and_scale(sites: CurveSites) -> tuple[Array, Array]:
    """Middle [2] and size [2], a power of two, of the sites along both axes."""
    live = lax.iota(jnp.int32, sites.x.shape[0]) < sites.count
    (middle_x, size_x), (middle_y, size_y) = _extent(sites.x, live), _extent(sites.y, live)
    return jnp.stack([middle_x, middle_y]), jnp.stack([size_x, size_y])


@devices.host_jit
def class_weights(points: CurveSites) -> Array:
    """The weight of the own class and of the other one, [2]."""
    return jnp.stack([jnp.sum(points.own), jnp.sum(points.other)])


def unpack(words: Array) -> tuple[Array, Array]:
    """The weights of the two classes from sums of `SiteTree.weights`. Channels are the first
    axis.
    """
    if words.shape[0] == 2:
        return words[0], words[1]
    return words[0] & (2 ** (PACKED_BITS + 1) - 1), words[0] >> (PACKED_BITS + 1)


@devices.host_jit(static_argnames="packed")
def build_tree(sites: CurveSites, *, packed: bool) -> SiteTree:
    """Boxes over the sites, rounded outwards; `packed` if all weights together are below 2^31, in
    units of their grain.
    """
    capacity = sites.x.shape[0]
    middle, size = centre_and_scale(sites)
    x, y = (sites.x - middle[0]) / size[0], (sites.y - middle[1]) / size[1]
    weights = (
        (sites.own | (sites.other << (PACKED_BITS + 1)))[None]
        if packed
        else jnp.stack([sites.own, sites.other])
    )
    levels = [(x, x, y, y, weights)]
    sizes = [sites.count]
    for _ in level_starts(capacity)[2:]:
        low_x, high_x, low_y, high_y, weights = levels[-1]
        levels.append(
            (
                jnp.min(_in_blocks(low_x), axis=-1),
                jnp.max(_in_blocks(high_x), axis=-1),
                jnp.min(_in_blocks(low_y), axis=-1),
                jnp.max(_in_blocks(high_y), axis=-1),
                jnp.sum(_in_blocks(weights, fill=0), axis=-1),
            )
        )
        sizes.append((sizes[-1] + FAN - 1) // FAN)
    low_x, high_x, low_y, high_y, weights = (
        jnp.concatenate(parts, axis=-1) for parts in zip(*levels, strict=True)
    )
    half_width, half_height = (
        jnp.where(high > low, (high - low) * (0.5 + 2.0**-40), 0)
        for low, high in ((low_x, high_x), (low_y, high_y))
    )
    return SiteTree(
        low_x + (high_x - low_x) / 2,
        low_y + (high_y - low_y) / 2,
        half_width,
        half_height,
        weights,
        jnp.stack(sizes),
    )


def _in_blocks(values: Array, *, fill: int | None = None) -> Array:
    """The last axis cut into blocks of `FAN`, padded with `fill` or with the last value."""
    missing = -values.shape[-1] % FAN
    if missing:
        pad = ((0, 0),) * (values.ndim - 1) + ((0, missing),)
        values = (
            jnp.pad(values, pad, mode="edge")
            if fill is None
            else jnp.pad(values, pad, constant_values=fill)
        )
    return values.reshape(*values.shape[:-1], -1, FAN)


def children(node: Array, child: Array, sizes: Array, capacity: int) -> tuple[Array, Array]:
    """The `child`-th node below a box, and whether there is one; a site is its own only child."""
    starts = level_starts(capacity)
    level = jnp.zeros(node.shape, jnp.int32)
    for start in starts[1:-1]:
        level = level + (node >= start).astype(jnp.int32)
    begins = jnp.asarray((0, *starts[:-2]), jnp.int32)  # of the level below
    own_begin = jnp.asarray(starts[:-1], jnp.int32)
    below = begins[level] + (node - own_begin[level]) * FAN + child
    limit = begins[level] + sizes[jnp.maximum(level - 1, 0)]
    is_site = level == 0
    return jnp.where(is_site, node, below), is_site | (below < limit)
