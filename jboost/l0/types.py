"""The records of L0-RBoost's relaxation."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Protocol

from jboost.base import check
from jboost.base.boosting import Ensemble
from jboost.base.types import Array
from jboost.lp.first_order import FirstOrderConfig
from jboost.lp.interior_point import InteriorPointConfig


@dataclasses.dataclass(frozen=True)
class AllPairsConfig:
    """The first-order method over all cuts at once. The rows of the cuts are not stored: an
    iteration is two products of matrices, without searches or working sets.

    Memory is 3 vectors with one entry for each cut (the iterate, its anchor and the best proven
    dual), one block of `block_bytes`, and a few copies of the outputs. The number of cuts is M+ M-
    if no hypothesis abstains or cuts are "either", and twice that otherwise. Under `jit` of labels
    and outputs the classes are unknown while tracing, so that the vectors have entries for
    (m // 2) m pairs, twice as many as for balanced classes, in both orders unless cuts are
    "either". Example: 20,000 x 500 with balanced classes and no abstention takes 3 x 1e8 x 4 B =
    1.2 GB in float32 and 2.4 GB in float64, 256 MB for the block, and 20,000 x 500 x 4 B = 40 MB
    for each copy of the outputs. A warm start is one more vector.

    This method was slower at every size measured, and `config=None` never chooses it: at 300 x 60
    stumps and a gap of 1e-3, in float32 on two shared CPU cores, the solver with cuts takes 0.8 s
    and this one 4.6 s (16,080 iterations). Its memory grows with the number of pairs, that of the
    solver with cuts with its capacity. Larger sizes, accelerators and meshes were not measured. On
    a mesh with sharded examples, each device holds an equal part of the vectors and processes its
    own blocks.
    """

    first_order: FirstOrderConfig = dataclasses.field(default_factory=FirstOrderConfig)
    """Only `max_iterations` and `iterations_per_check` are used; the rest is ignored."""
    block_bytes: int = 1 << 28
    """The memory of all arrays of one block of pairs, 256 MB."""
    lists_pairs: bool | None = None
    """Whether `L0Relaxation.pairs` lists the examples of `pair_weights`. The lists take four 32-bit
    numbers for each cut, including those of `warm`. None lists them for up to 2^22 entries, which
    1,448 examples have. Otherwise `jboost.l0.list_pairs` lists them on the host.
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
    """Static options of the solver of the relaxation. Equation and section numbers are those of
    Goldberg and Eckstein (2009).
    """

    capacity: int | None = None
    """The number of cuts held at a time. None for one per example plus two per column, at least
    1024, and up to eight per example if there are few columns (96 divided by their number); in any
    case no more than all cuts. `AllPairsConfig` holds all cuts and ignores this.
    """
    max_rounds: int = 60
    """The number of rounds: one solve over the current cuts and one search among all pairs each."""
    max_pair_entries: int = 4_000_000
    """The number of pairs searched together; the memory is that of as many numbers."""
    cuts: str = "ordered"
    """"ordered": the cuts (17), one for each order of a pair. "either": one cut for each pair, over
    the hypotheses that separate its examples in either direction. These cuts are weaker, but valid
    for all points of (15) even where hypotheses abstain.
    """
    selection: str = "violated"
    """Which violated cuts are added first. "violated": those violated most. "new_columns", (24):
    those of pairs that are separated by a hypothesis which the last relaxation did not have or did
    not use; all others once none of these is violated.
    """
    distance_factor: float | None = None
    """None for the cuts of all pairs. With a factor, as in Section 7, a pair has cuts only if it
    differs in at most factor * d attributes, where d >= 1 is the number of attributes in which the
    nearest pair of opposite classes differs. This relaxation has fewer cuts and is weaker. The
    features must then be 0 and 1.
    """
    solver: InteriorPointConfig | FirstOrderConfig | AllPairsConfig = dataclasses.field(
        default_factory=lambda: InteriorPointConfig(max_iterations=40, num_correctors=2)
    )
    """The method that solves over the current cuts, and its options. Of an `InteriorPointConfig`
    only `max_iterations` and `num_correctors` are used. `AllPairsConfig` needs no search.
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


class RelaxationInstance(NamedTuple):
    """The relaxation with sorted examples: first the minority class, then the majority class, then
    padding.
    """

    margins: Array  # [m, U] y_i H_iu; all rows of padding and columns of unused slots are 0
    hits: Array  # [m, U] 1 where H_iu = y_i
    misses: Array  # [m, U] 1 where H_iu is not -y_i, the label of the other class
    weights: Array  # [m] cost of a slack, 0 for padding
    costs: Array  # [U] c, 0 for unused slots
    is_column: Array  # [U] bool
    margin: Array  # [] rho
    unit: Array  # [] the largest weight; the largest cost if there are no examples, 1 if that is 0
    # [] bool, whether a cut counts the hypotheses that separate its examples in either direction
    either: Array
    num_minority: Array  # [] int32 examples of the minority class
    num_real: Array  # [] int32 examples of both classes
    order: Array  # [m] int32 the index of each example in the order of the caller
    # [m, N] -1 and +1, 0 where an attribute is unknown; N = 0 where all pairs have cuts
    bits: Array
    reach: Array  # [] the largest distance of a pair that has a cut


class CutIndices(NamedTuple):
    """A working set of pairs (i, i'), indices in the order of the instance; m for an empty slot."""

    first: Array  # [K] int32
    second: Array  # [K] int32


class Held(Protocol):
    """The operations on the cuts of a working set that have duals (`cuts.ListedCuts`). For all cuts
    at once, `pair_blocks` has them.
    """

    @property
    def is_used(self) -> Array:
        """Which slots hold a cut, [K] bool."""

    def covered(self, selected: Array) -> Array:
        """The sum [K] of mu [U] over the hypotheses of each cut."""

    def serving(self, values: Array) -> Array:
        """The sum [U] of the values [K] of the cuts that count each hypothesis."""

    def most_serving(self, values: Array) -> Array:
        """`serving`, rounded up."""

    def largest(self, values: Array) -> Array:
        """The largest value [U] among the hypotheses of each cut, [K], at least 0."""

    def both_ends(self, values: Array) -> Array:
        """The sum [K] of the values [m] of the two examples of each cut."""

    def lesser_end(self, values: Array) -> Array:
        """The lesser [K] of the values [m] of the two examples of each cut."""

    def spread(self, values: Array, num_examples: int) -> Array:
        """The sums [m] of the values [K] over the cuts of each example."""


class Dual(NamedTuple):
    """The dual variables, which prove a lower bound."""

    example_weights: Array  # [m] w
    pair_weights: Array  # [K] v


class Primal(NamedTuple):
    """The primal variables, which prove an upper bound."""

    coefficients: Array  # [U] lambda
    selected: Array  # [U] mu
    slacks: Array  # [m] xi


class WarmStart(NamedTuple):
    """A starting point for the same examples with further columns or other costs."""

    primal: Primal  # the last iterate of the solver
    dual: Dual
    pairs: Array  # [K, 2] int32 the working set, -1 for an empty slot
    convexity: Array  # [] alpha
    primal_weight: Array  # [] of the first-order method, 0 where unknown


class L0Relaxation(NamedTuple):
    """The primal and dual solutions of the relaxation, and the bounds that they prove. Each bound
    can be checked from its own side alone, independently of the solver.
    """

    coefficients: Array  # [U] lambda, on the simplex in exact arithmetic
    selected: Array  # [U] mu >= lambda
    slacks: Array  # [m] xi, with which all rows and all cuts hold in exact arithmetic
    lower_bound: Array  # [] proven by example_weights and pair_weights
    upper_bound: Array  # [] attained by coefficients, selected and slacks
    example_weights: Array  # [m] w >= 0, duals of the margins
    # [capacity, 2] int32 the pairs (i, i') of pair_weights, -1 for an empty slot; [0, 2] if they
    # are not listed
    pairs: Array
    # [capacity] v >= 0; [P, O, Q] where pairs are not listed (`jboost.l0.list_pairs`)
    pair_weights: Array
    convexity: Array  # [] alpha, dual of sum lambda = 1
    num_cuts: Array  # [] int32 cuts in the working set at the end
    num_iterations: Array  # [] int32 of the solver, summed over all rounds
    num_rounds: Array  # [] int32
    warm: Any  # a `WarmStart`; () within the state of a fit, which has it elsewhere
    status: Array  # [] int32


class L0Fit(NamedTuple):
    """The result of `jboost.l0.fit`: a `jboost.boosting.Fit` with the relaxation."""

    ensemble: Ensemble
    certificate: Any  # an `L0Certificate`
    trace: Any  # a `jboost.boosting.Trace`
    num_rounds: Array  # [] int32
    # The last solution of (18), over the columns that were held when it was solved. Columns 0 and 1
    # are the constants +1 and -1, column 2 + k is that of slot k of the ensemble. A column that
    # came later has coefficient 0. Before the first round, and where a column of the solution was
    # overwritten later, `upper_bound` is inf and `status` is not OPTIMAL.
    relaxation: L0Relaxation
    strengthened: Any  # a `jboost.l0.StrengthenedFit`, () without the option `strengthen`
    status: Array  # [] int32
