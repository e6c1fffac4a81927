"""The records of L0-RBoost's relaxation."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol

from jboost.base import check
from jboost.base.types import Array
from jboost.lp.first_order import FirstOrderConfig
from jboost.lp.interior_point import InteriorPointConfig


@dataclasses.dataclass(frozen=True)
class AllPairsConfig:
    """The first-order method over all cuts at once, none stored: two products of matrices an
    iteration in place of searches and working sets.

    Memory is 3 vectors of the length of the cuts (the iterate, its anchor, and the best proven
    dual), one block of `block_bytes`, and a few copies of the outputs. The length is M+ M- where no
    hypothesis abstains or cuts are "either", else twice that. Under `jit` of labels and outputs the
    classes are not known while tracing, and the length is that of (m // 2) m pairs, twice as many
    for balanced classes, in both orders unless cuts are "either". 20,000 x 500 of balanced classes
    without abstention: 3 x 1e8 x 4 B = 1.2 GB in float32, 2.4 GB in float64, with 256 MB for the
    block, and 20,000 x 500 x 4 B = 40 MB for each copy of the outputs. A warm start is a further
    vector.

    It is not the better choice at any size that was measured, and `config=None` never chooses it:
    at 300 x 60 stumps and a gap of 1e-3, in float32 on two CPU cores shared with others, the solver
    with cuts takes 0.8 s and this one 4.6 s (16,080 iterations). Its memory grows with the pairs,
    that of the solver with cuts by its capacity. Larger sizes, accelerators and meshes were not
    measured. On a mesh, with sharded examples, each device holds an equal part of the vectors and
    goes through its own blocks.
    """

    first_order: FirstOrderConfig = dataclasses.field(default_factory=FirstOrderConfig)
    """`max_iterations` and `iterations_per_check` count here; the rest is ignored."""
    block_bytes: int = 1 << 28
    """What the arrays of one block of pairs may take, all together, 256 MB."""
    lists_pairs: bool | None = None
    """Whether `L0Relaxation.pairs` lists the examples of `pair_weights`, four 32-bit numbers a cut
    with those of `warm`; None for up to 2^22 places, as 1,448 examples have. Where they are not
    listed, `jboost.l0.list_pairs` does so on the host.
    """

    def __post_init__(self) -> None:
        check.count("config.solver.block_bytes", self.block_bytes, low=1)
        if self.lists_pairs is not None and not isinstance(self.lists_pairs, bool):
            raise ValueError(
                f"config.solver.lists_pairs is {self.lists_pairs!r}: expected True, False, or None"
                " for a choice by size"
            )
        if not isinstance(self.first_order, FirstOrderConfig):
            raise ValueError(
                f"config.solver.first_order is a {type(self.first_order).__name__}: expected a"
                " jboost.lp.FirstOrderConfig"
            )


@dataclasses.dataclass(frozen=True)
class RelaxationConfig:
    """Static sizes of the solver of the relaxation."""

    capacity: int | None = None
    """Cuts that are held at a time; None for one to an example and two to a column, 1024 at least,
    or all there can be, and for up to eight to an example where columns are few. `AllPairsConfig`
    has all.
    """
    max_rounds: int = 60
    """Of a solve over the cuts at hand, and of a search among all pairs."""
    max_pair_entries: int = 4_000_000
    """Pairs that are looked at together; memory is that of as many numbers."""
    cuts: str = "ordered"
    """"ordered": those of the paper, (17), for both orders of a pair. "either": one for each pair,
    over the hypotheses that tell the two apart either way; weaker, and the one that holds of all
    points of (15) where hypotheses abstain.
    """
    selection: str = "violated"
    """Of the violated cuts, which come in first: "violated", those that are violated most;
    "new_columns", those of pairs that a hypothesis tells apart which the last relaxation did not
    know or did not use, (24) of the paper, and all others once there are no such.
    """
    distance_factor: float | None = None
    """None for the cuts of all pairs. Else those alone of pairs that differ in at most so many
    times the attributes in which the nearest pair of opposite classes differs (or one, if that is
    none), as in Section 7 of the paper: a weaker relaxation of fewer cuts. The features are then to
    be 0 and 1.
    """
    solver: InteriorPointConfig | FirstOrderConfig | AllPairsConfig = dataclasses.field(
        default_factory=lambda: InteriorPointConfig(max_iterations=40, num_correctors=2)
    )
    """The method between two searches, and its sizes; of the interior point, `max_iterations` and
    `num_correctors` count here. `AllPairsConfig` needs no search.
    """

    def __post_init__(self) -> None:
        if self.capacity is not None:
            check.count("config.capacity", self.capacity, low=1)
        check.count("config.max_rounds", self.max_rounds, low=1)
        check.count("config.max_pair_entries", self.max_pair_entries, low=1)
        check.choice("config.cuts", self.cuts, ("ordered", "either"))
        check.choice("config.selection", self.selection, ("violated", "new_columns"))
        if self.distance_factor is not None and not (
            isinstance(self.distance_factor, int | float) and self.distance_factor >= 1
        ):
            raise ValueError(
                f"config.distance_factor is {self.distance_factor}: expected a number from 1 up, or"
                " None for all pairs"
            )
        if not isinstance(self.solver, InteriorPointConfig | FirstOrderConfig | AllPairsConfig):
            name = type(self.solver).__name__
            raise ValueError(
                f"config.solver is a {name}: expected a jboost.lp.InteriorPointConfig or"
                " FirstOrderConfig, or a jboost.l0.AllPairsConfig"
            )


class Instance(NamedTuple):
    """The relaxation, examples in order: the smaller class ("few"), the larger
    ("many"), padding.
    """

    margins: Array  # [m, U] y_i H_iu; all rows of padding and columns of unused slots are 0
    hits: Array  # [m, U] 1 where H_iu = y_i
    misses: Array  # [m, U] 1 where H_iu is not minus y_i, what an example of the other class sees
    weights: Array  # [m] price of a slack, 0 for padding
    costs: Array  # [U] c, 0 for unused slots
    is_column: Array  # [U] bool
    margin: Array  # [] rho
    unit: Array  # [] the largest weight; without examples the largest cost, else 1
    # [] bool, whether a cut counts the hypotheses that tell its examples apart either way
    either: Array
    num_few: Array  # [] int32
    num_real: Array  # [] int32 examples of both classes
    order: Array  # [m] int32 which example stands here
    # [m, N] -1 and +1, 0 where an attribute is not known; N = 0 where pairs are not told apart by
    # their distance
    bits: Array
    reach: Array  # [] the largest distance of a pair that has a cut


class Cuts(NamedTuple):
    """A working set of pairs (i, i'), in the order of the instance; m for an empty slot."""

    first: Array  # [K] int32
    second: Array  # [K] int32


class Held(Protocol):
    """Cuts that have duals: those of a working set (`cuts.Listed`). All of them at once are in
    `pair_blocks`.
    """

    @property
    def is_used(self) -> Array:
        """Which slots hold a cut, [K] bool."""

    def covered(self, selected: Array) -> Array:
        """The sum [K] of mu [U] over the hypotheses of each cut."""

    def serving(self, values: Array) -> Array:
        """The sum [U] of the values [K] of the cuts that each hypothesis serves."""

    def most_serving(self, values: Array) -> Array:
        """`serving`, rounded up."""

    def largest(self, values: Array) -> Array:
        """The largest value [U] of a hypothesis of each cut, [K], 0 at least."""

    def both_ends(self, values: Array) -> Array:
        """The sum [K] of the values [m] of the examples of each cut."""

    def lesser_end(self, values: Array) -> Array:
        """The lesser [K] of the values [m] of the examples of each cut."""

    def spread(self, values: Array, num_examples: int) -> Array:
        """The sums [m] of the values [K] of the cuts of each example."""


class Dual(NamedTuple):
    """What proves a lower bound."""

    example_weights: Array  # [m] w
    pair_weights: Array  # [K] v


class Primal(NamedTuple):
    """What proves an upper bound."""

    coefficients: Array  # [U] lambda
    selected: Array  # [U] mu
    slacks: Array  # [m] xi


class WarmStart(NamedTuple):
    """Where to begin on the same examples with further columns, or other costs."""

    primal: Primal  # as the solver left it
    dual: Dual
    pairs: Array  # [K, 2] int32 the working set, -1 for an empty slot
    convexity: Array  # [] alpha
    primal_weight: Array  # [] of the first-order method, 0 where it is not known


class L0Relaxation(NamedTuple):
    """Both sides of the relaxation, and the bounds that they prove. Neither side needs the other,
    nor the solver, for its proof.
    """

    coefficients: Array  # [U] lambda, on the simplex in exact arithmetic
    selected: Array  # [U] mu >= lambda
    slacks: Array  # [m] xi, with which all rows and all cuts asked for hold in exact arithmetic
    lower_bound: Array  # [] proven by example_weights and pair_weights
    upper_bound: Array  # [] attained by coefficients, selected and slacks
    example_weights: Array  # [m] w >= 0, duals of the margins
    # [capacity, 2] int32 the pairs (i, i') of pair_weights, -1 for an empty slot; [0, 2] where they
    # are not listed
    pairs: Array
    # [capacity] v >= 0; [P, O, Q] where pairs are not listed (`jboost.l0.list_pairs`)
    pair_weights: Array
    convexity: Array  # [] alpha, dual of sum lambda = 1
    num_cuts: Array  # [] int32 cuts in the working set at the end
    num_iterations: Array  # [] int32 of the solver, in all rounds
    num_rounds: Array  # [] int32
    warm: WarmStart
    status: Array  # [] int32
