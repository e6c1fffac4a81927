"""What the search for monomials takes and returns."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from jboost.base import check
from jboost.base.types import Array


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Static sizes of the search; the defaults suit up to some thousand examples and attributes, on
    the kind of device that JAX works on.
    """

    batch: int | None = None
    """Nodes measured at once; None: on a CPU as many as keep the products in the cache, 32 at least
    and 64 at most, on other devices 2048 at most; never fewer than the beam keeps. Bounds are
    worked out for 32 at a time on a CPU, for all of a batch on other devices.
    """
    children: int | None = None
    """Children made at once, twice the attributes at least; None: the larger of that
    and eight for each node bounded at once.
    """
    capacity: int | None = None
    """Nodes that a stack holds; when one is full the search ends, with a valid bound. None: 16
    times the children, and at least 65,536 on a CPU and 16,384 on other devices.
    """
    max_steps: int = 1_000_000
    """Batches for each sign, at most; then the search ends, with a valid bound."""
    beam_width: int = 32
    """Monomials kept by the beam search that finds the first incumbent."""
    beam_depth: int = 8
    """Orders that the beam search visits, at most."""
    num_matchings: int = 1024
    """Matchings of the examples of the two classes along which weight may flow in a bound; as many
    as examples, and all pairs have their turn; 16 at most where pairs reward more than all weights.
    """
    num_nested: int = 2
    """Nearest nested literals, on either side, that a literal is compared with."""
    narrow: int | None = None
    """Where there are more than twice as many literals, what is below a node of at most this many
    is searched as an instance of its own. None: 128 on a CPU, 0 on other devices, which are fast
    where many nodes have their turn together.
    """
    num_best: int = 1
    """Monomials returned: the best one, which is certified, and the best others that
    the search met.
    """
    missing: bool = False
    """Under jit: whether features may be NaN, an attribute of which neither literal
    holds. It doubles some products.
    """

    def __post_init__(self) -> None:
        for name in ("beam_width", "num_best"):
            check.count(f"config.{name}", getattr(self, name), low=1)
        for name in ("max_steps", "beam_depth", "num_matchings", "num_nested"):
            check.count(f"config.{name}", getattr(self, name), low=0)
        for name, low in (("batch", 1), ("children", 1), ("capacity", 1), ("narrow", 0)):
            if getattr(self, name) is not None:
                check.count(f"config.{name}", getattr(self, name), low=low)


class Monomials(NamedTuple):
    """Some monomials, the best first; unused places have value -inf."""

    literals: Array  # [k, N] int8: +1 where the attribute must be 1, -1 where it must be 0
    signs: Array  # [k] int8, +1 or -1
    values: Array  # [k]


class MonomialSolution(NamedTuple):
    """The best monomial and what bounds all others."""

    literals: Array  # [N] int8: +1 where the attribute must be 1, -1 where it must be 0
    sign: Array  # [] int8: the class that its cover is said to be
    value: Array  # [] of (27), rounded
    upper_bound: Array  # [] above the value of every monomial allowed
    others: Monomials  # the best one first
    num_nodes: Array  # [] int32, nodes expanded
    status: Array  # [] int32: OPTIMAL, ITERATION_LIMIT, CAPACITY_LIMIT, INVALID_INPUT
