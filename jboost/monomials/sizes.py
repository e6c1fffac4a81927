"""The amounts of work of a search that suit a kind of device."""

from __future__ import annotations

from typing import NamedTuple

from jboost.base import devices
from jboost.monomials import instance
from jboost.monomials.search import Sizes
from jboost.monomials.types import SearchConfig

_LEAST_BATCH = 32  # the least number of nodes measured at once


class _Scale(NamedTuple):
    """The amounts of work that suit a kind of device."""

    entries: int  # entries of the products of a batch
    batch: int  # the largest number of nodes measured at once
    flows: int  # the largest number of nodes bounded at once
    narrow: int  # the largest number of literals of a node that is searched as a separate instance
    capacity: int  # the least capacity of a stack


# for CPUs: the arrays of a batch stay in the cache
_OF_CACHES = _Scale(entries=1 << 16, batch=64, flows=32, narrow=128, capacity=1 << 16)
# for accelerators: a thousand nodes take as long as one
_OF_MANY_LANES = _Scale(entries=1 << 22, batch=2048, flows=2048, narrow=0, capacity=1 << 14)
# The largest number of nodes measured at once, per literal: with few literals there are few nodes.
_NODES_TO_A_LITERAL = 16
_CHILDREN_TO_A_NODE = 8  # children made at once, for each node bounded at once
_LOADS = 16  # the capacity of a stack is at least this many times the children made at once


def sizes_of(
    config: SearchConfig, num_rows: int, num_attributes: int, max_order: int, adds_free: bool
) -> Sizes:
    num_literals = 2 * num_attributes
    scale = _OF_CACHES if devices.platform() == "cpu" else _OF_MANY_LANES
    narrow = scale.narrow if config.narrow is None else config.narrow
    batch, narrow_batch = (
        _batch(scale, num_rows, width) if config.batch is None else config.batch
        for width in (num_literals, narrow)
    )
    # the beam search extends all its monomials in one batch
    batch = max(batch, config.beam_width if config.beam_depth else 1)
    flows = min(batch, scale.flows)
    children = max(
        _CHILDREN_TO_A_NODE * flows if config.children is None else config.children, num_literals, 1
    )
    return Sizes(
        batch,
        flows,
        children,
        narrow if num_literals > 2 * narrow else 0,
        narrow_batch,
        max(scale.capacity, _LOADS * children) if config.capacity is None else config.capacity,
        config.max_steps,
        config.beam_width,
        min(config.beam_depth, max_order + 1),
        config.num_matchings,
        config.num_nested,
        adds_free,
    )


def _batch(scale: _Scale, num_rows: int, num_literals: int) -> int:
    """The number of nodes measured at once."""
    most = min(scale.batch, max(_LEAST_BATCH, _NODES_TO_A_LITERAL * num_literals))
    return min(
        most,
        max(_LEAST_BATCH, scale.entries // max(instance.layout(num_rows).block, num_literals, 1)),
    )
