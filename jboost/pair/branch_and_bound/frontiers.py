"""What remains after a step, from the division of the frontier: the frontier of the next step, and
the leaves, which have few sites.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import devices
from jboost.base.types import Array
from jboost.pair.branch_and_bound import sites
from jboost.pair.branch_and_bound.cells import NUM_DIRECTIONS, Division, Frontier, LineCells
from jboost.pair.branch_and_bound.scans import running_max, running_sum
from jboost.pair.branch_and_bound.sites import FAN, SiteTree


def _list_pairs(
    division: Division, node: Array, rank: Array, fan: Array, capacity: int
) -> tuple[Array, Array, Array, Array]:
    """The pairs of a chosen run and one of its entries, each repeated `fan` times: the run, the
    entry, the number of the repetition, and whether the pair is real.
    """
    begin, end = rank[division.begin], rank[division.end]
    amount = jnp.where(division.end > division.begin, end - begin, 0) * fan[None]
    begin, amount = lax.optimization_barrier((begin.reshape(-1), amount.reshape(-1)))
    offsets = running_sum(amount)
    total = offsets[-1]
    offsets = offsets - amount
    source = (
        jnp.zeros(capacity, jnp.int32)
        .at[jnp.where(amount > 0, offsets, capacity)]
        .set(lax.iota(jnp.int32, amount.shape[0]), mode="drop")
    )
    source = lax.optimization_barrier(running_max(source))
    index = lax.iota(jnp.int32, capacity)
    place = index - offsets[source]
    entry = source % node.shape[0]
    fan_here = fan[entry]
    return begin[source] + place // fan_here, entry, place % fan_here, index < total


def _choose(runs: LineCells, rank: Array, capacity: int) -> LineCells:
    """The runs at which the rank increases, in their order."""
    chosen = rank[1:] > rank[:-1]
    target = jnp.where(chosen, rank[:-1], capacity)
    return LineCells(
        *(jnp.zeros(capacity, field.dtype).at[target].set(field, mode="drop") for field in runs)
    )


@devices.host_jit(static_argnames=("num_cells", "num_entries", "num_sites"))
def branch(
    tree: SiteTree,
    frontier: Frontier,
    division: Division,
    first: Array,
    last: Array,
    *,
    num_cells: int,
    num_entries: int,
    num_sites: int,
) -> Frontier:
    """The frontier of the next step: the runs from number `first` up to, not including, `last`
    among those that are divided further.

    Args:
      tree: all nodes.
      frontier: the frontier that was divided.
      division: the result of `divide` for it.
      first: [] int32.
      last: [] int32.
      num_cells: capacity, static.
      num_entries: capacity, static.
      num_sites: capacity of the sites, static.
    """
    rank = jnp.clip(division.branch_rank, first, last) - first
    fan = jnp.where(division.is_coarse, FAN, 1)
    cell, entry, child, real = _list_pairs(division, frontier.node, rank, fan, num_entries)
    node = frontier.node[entry]
    below, exists = sites.children(node, child, tree.sizes, num_sites)
    node = jnp.where(division.is_coarse[entry], below, node)
    real &= exists | ~division.is_coarse[entry]
    return Frontier(
        _choose(division.runs, rank, num_cells),
        jnp.where(real, cell, -1),
        jnp.where(real, node, -1),
        (last - first).astype(jnp.int32),
        frontier.half_width / NUM_DIRECTIONS,
    )


class Leaves(NamedTuple):
    """Cells with few sites."""

    cells: LineCells  # [L]
    site: Array  # [L, M] int32, -1 for none
    half_width: Array  # [L]


@devices.host_jit(static_argnames=("num_leaves", "width"))
def collect_leaves(
    frontier: Frontier,
    division: Division,
    first: Array,
    last: Array,
    *,
    num_leaves: int,
    width: int,
) -> Leaves:
    """The leaves of a step from number `first` up to, not including, `last`, each with its sites in
    a row. Both sizes are static capacities.
    """
    num_entries = num_leaves * width
    rank = jnp.clip(division.leaf_rank, first, last) - first
    leaf, entry, _, real = _list_pairs(
        division, frontier.node, rank, jnp.ones_like(frontier.node), num_entries
    )
    key = jnp.where(
        real,
        (leaf.astype(jnp.int64) << 32) | frontier.node[entry].astype(jnp.int64),
        jnp.iinfo(jnp.int64).max,
    )
    key = lax.sort(key)
    leaf, node = (
        jnp.minimum(key >> 32, num_leaves).astype(jnp.int32),
        (key & (2**32 - 1)).astype(jnp.int32),
    )
    cells = _choose(division.runs, rank, num_leaves)
    counts = jnp.zeros(num_leaves, jnp.int32).at[leaf].add(1, mode="drop")
    begins = jnp.cumsum(counts, dtype=jnp.int32) - counts
    place = lax.iota(jnp.int32, num_entries) - begins[jnp.minimum(leaf, num_leaves - 1)]
    site = jnp.full((num_leaves, width), -1, jnp.int32).at[leaf, place].set(node, mode="drop")
    return Leaves(cells, site, jnp.full(num_leaves, frontier.half_width / NUM_DIRECTIONS))
