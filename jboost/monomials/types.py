"""The configuration and the results of the search for monomials."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from jboost.base import check
from jboost.base.types import Array


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Static sizes of the search. The defaults depend on the device that JAX uses. They suit
    problems of up to a few thousand examples and attributes.
    """

    batch: int | None = None
    """The number of nodes measured at once, at least `beam_width`. None: on a CPU, between 32 and
    64, so that the products fit into the cache; on other devices, at most 2048. Bounds are computed
    for 32 nodes at a time on a CPU, and for the whole batch on other devices.
    """
    children: int | None = None
    """The number of children made at once, at least twice the number of attributes. None: the
    larger of this minimum and eight for each node bounded at once.
    """
    capacity: int | None = None
    """The number of nodes that a stack holds. If a stack is full, the search ends with a valid
    bound. None: 16 times `children`, and at least 65,536 on a CPU and 16,384 on other devices.
    """
    max_steps: int = 1_000_000
    """The largest number of batches for each sign. Then the search ends with a valid bound."""
    beam_width: int = 32
    """The number of monomials kept by the beam search, which finds the first incumbent."""
    beam_depth: int = 8
    """The largest order that the beam search visits."""
    num_matchings: int = 1024
    """The number of matchings between the examples of the two classes along which weight may flow
    in a bound. With as many matchings as examples all pairs are tried. At most 16 are used if the
    rewards of pairs exceed the losses of all examples.
    """
    num_nested: int = 2
    """The number of nearest nested literals, on each side, that a literal is compared with."""
    narrow: int | None = None
    """A node with at most this many literals is searched as a separate, smaller instance, if there
    are more than twice as many literals in total. None: 128 on a CPU, and 0 on other devices, which
    are faster with large batches of nodes.
    """
    num_best: int = 1
    """The number of monomials returned: the best one, which is certified, and the best others that
    the search found.
    """
    missing: bool = False
    """Under jit: whether features may be NaN, which satisfies neither literal of the attribute. It
    doubles the work of some products.
    """

    def __post_init__(self) -> None:
        for name in ("beam_width", "num_best"):
            check.count(f"config.{name}", getattr(self, name), low=1)
        for name in ("max_steps", "beam_depth", "num_matchings", "num_nested"):
            check.count(f"config.{name}", getattr(self, name), low=0)
        for name, low in (("batch", 1), ("children", 1), ("capacity", 1), ("narrow", 0)):
            if getattr(self, name) is not None:
                check.count(f"config.{name}", getattr(self, name), low=low)


class Rewards(NamedTuple):
    """The rewards of pairs of examples, as a list. A monomial whose sign is the label of example i
    gains the reward if it covers i and not j, which has the other class. Rewards of equal pairs add
    up.
    """

    pairs: Array  # [K, 2] int32 (i, j); -1 for an empty slot
    values: Array  # [K] not negative


class Monomials(NamedTuple):
    """Monomials, the best first; unused entries have value -inf."""

    literals: Array  # [k, N] int8: +1 where the attribute must be 1, -1 where it must be 0
    signs: Array  # [k] int8, +1 or -1
    values: Array  # [k]


class MonomialSolution(NamedTuple):
    """The best monomial, and an upper bound of the values of all monomials."""

    literals: Array  # [N] int8: +1 where the attribute must be 1, -1 where it must be 0
    sign: Array  # [] int8: the class that it predicts for the examples that it covers
    value: Array  # [] of (27), rounded
    upper_bound: Array  # [] an upper bound of the value of every allowed monomial
    others: Monomials  # the best one first
    num_nodes: Array  # [] int32, nodes expanded
    status: Array  # [] int32: OPTIMAL, ITERATION_LIMIT, CAPACITY_LIMIT, INVALID_INPUT
