"""LP-Boost for a learner: each proposal adds columns, a restricted master gives votes and example
weights, and the bounds follow from these alone.

Demiriz, Bennett, Shawe-Taylor 2002, "Linear programming boosting via column generation"; Goldberg
and Eckstein 2009, Section 1. rho is the soft margin, lambda are the votes, D_i the caps of the
example weights, and xi the shortfalls of the margins.

Plain column generation queries the learner at a vertex of the dual, and successive vertices can be
far apart. Here masters are solved only as precisely as the gap requires, and the learner is queried
between their example weights and the best ones so far (dual smoothing: Wentges 1997, "Weighted
Dantzig-Wolfe decomposition"). This helps most if a round adds a single column.

A learner whose best hypothesis is expensive is queried at vertices, where few examples have weight.
Its best hypothesis is computed only once its fast search finds none that changes the master.

If a learner can list all its hypotheses and they are few, one master over all of them takes less
time than many rounds. All columns then enter in the first round, and the remaining rounds only
query the learner for its bound.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import boosting, loops, meshes, numerics, reduce
from jboost.base.boosting import Absorbed, Certificate, Ensemble, Everything, Proposal
from jboost.base.protocols import optional_hook
from jboost.base.records import register
from jboost.base.status import Status
from jboost.base.types import Array, Dataset
from jboost.lp.interior_point import InteriorPointConfig
from jboost.lp.simplex.margins import SimplexConfig
from jboost.lpboost import master, value
from jboost.lpboost.master import Config, MasterSolution
from jboost.relaxations import SoftMargin, certify
from jboost.relaxations.certify import ProvenBounds

_SHARE_OF_GAP = 0.1  # the tolerance of a master, as a share of the gap that remains
_SHARE_OF_TOLERANCE = 0.05  # small votes of up to this share of the tolerance may be dropped
# At most so many masters without the smallest votes are solved once the gap is closed. Each one
# drops a quarter of the votes.
_MAX_DROPS, _PART_DROPPED = 10, 4
_DROP_ERROR = 0.03  # the tolerance of these masters, as a share of the tolerance of the fit
# The weight of the best example weights so far in the query of the learner; the master's have the
# rest. It is 0 after a round without a new column.
_SMOOTHING = 0.8
# entries of a simplex table with its basis, up to which one for all hypotheses fits the cache
_SMALL_TABLE = 1 << 18
_MOST_IN_TABLE = 2048  # columns, up to which the simplex method's table of them is small
_FINER = 0.01  # the factor of the master's tolerance after a round that changed nothing
_FINEST = {4: 1e-5, 8: 1e-10}  # the smallest tolerance of a master, by the bytes of a float


class LPBoostMemory(NamedTuple):
    """The state of LP-Boost between rounds."""

    columns: Array  # [capacity, m] y_i h_j(x_i); rows of unused slots are 0
    prior: Array  # [m]
    solved: MasterSolution
    queried: Array  # [m] the example weights of the last query of the learner
    smoothing: Array  # [] the weight of the best example weights so far in that query
    fineness: Array  # [] the factor of the tolerance of masters, at most 1
    precision: Array  # [] the tolerance of the last master, inf before the first
    proven: ProvenBounds


class ListedProposal(NamedTuple):
    """A proposal of the learner, followed by all L hypotheses that it lists."""

    hypotheses: Any  # leaves [k + L, ...]
    outputs: Array  # [k + L, m]
    values: Array  # [k]
    upper_bound: Array  # []
    state: Any


@register
@dataclasses.dataclass(frozen=True)
class LPBoost(boosting.Booster):
    """The booster: example weights are the dual solution of the restricted master."""

    nu: Array  # []
    tolerance: Array  # []
    stop_on: str = dataclasses.field(metadata={"static": True})
    # None chooses by the capacity for columns
    config: Config | None = dataclasses.field(metadata={"static": True})

    @property
    def relaxation(self) -> SoftMargin:
        """Example weights of at most D_i = p_i / nu."""
        return value.relaxation(self.nu)

    def is_feasible(self, prior: Array) -> Array:
        """Whether any example weights are allowed, [] bool."""
        return (self.nu > 0) & self.relaxation.is_feasible(prior)

    @property
    def takes_each_once(self) -> bool:
        """True: equal columns share a slot."""
        return True

    @property
    def takes_turns(self) -> bool:
        """True: members of a batch differ in the lengths of their masters and searches."""
        return True

    def capacity(self, max_rounds: int, num_proposed: int) -> int:
        """The number of slots: all proposed columns are kept."""
        return max_rounds * num_proposed

    def takes_all(self, learner: Any, dataset: Dataset) -> bool:
        """Whether all hypotheses of a learner enter in the first round. They do if the learner can
        list them and their simplex table is small.
        """
        every, count_hypotheses = (
            optional_hook(boosting.Learner, learner, name) for name in ("every", "num_hypotheses")
        )
        if boosting.has_quick_answers(learner) or every is None or count_hypotheses is None:
            return False
        num_hypotheses = count_hypotheses(dataset.features.shape[1])
        return num_hypotheses * (num_hypotheses + len(dataset.labels)) <= _SMALL_TABLE

    def method(self, capacity: int) -> Config:
        """The method that solves masters with a capacity for so many columns."""
        if self.config is not None:
            return self.config
        if meshes.is_set():
            return master.for_many_devices()
        return SimplexConfig() if capacity <= _MOST_IN_TABLE else InteriorPointConfig()

    def init(self, dataset: Dataset, capacity: int) -> Absorbed:
        """The state without votes. Its example weights are the user's, which every nu allows."""
        boosting.validate_size(dataset)
        prior = boosting.initial_distribution(dataset)
        no_votes = jnp.zeros((capacity,), prior.dtype)
        warm = master.start(self.method(capacity), prior.shape[0], capacity, prior.dtype)
        solved = MasterSolution(no_votes, prior, warm, jnp.zeros((), jnp.int32))
        proven = _nothing_proven(solved)
        columns, one = jnp.zeros((capacity, prior.shape[0]), prior.dtype), jnp.ones((), prior.dtype)
        memory = LPBoostMemory(
            columns, prior, solved, prior, _SMOOTHING * one, one, one + jnp.inf, proven
        )
        first = boosting.before_first_round(memory, prior, certificate_of(proven), capacity)
        return first._replace(
            status=jnp.where(self.is_feasible(prior), first.status, int(Status.INFEASIBLE))
        )

    def ask(
        self, memory: LPBoostMemory, dataset: Dataset, learner: Any, state: Any
    ) -> Proposal | ListedProposal:
        """Hypotheses for the next round: the best ones, followed by all others if `takes_all`.

        If the learner has a fast search, any hypothesis that changes the master is accepted. The
        best one is computed once that search finds none.
        """
        if not boosting.has_quick_answers(learner):
            proposal = learner.propose(state, memory.queried)
            return (
                _with_all(proposal, learner.every(state))
                if self.takes_all(learner, dataset)
                else proposal
            )
        seen = certify.largest_signed_edge(
            memory.columns, memory.queried, reduce.any_true(memory.columns != 0, axis=1)
        )
        return learner.propose_above(state, memory.queried, seen + self.tolerance)

    def absorb(
        self,
        memory: LPBoostMemory,
        dataset: Dataset,
        proposal: Proposal | ListedProposal,
        ensemble: Ensemble,
    ) -> Absorbed:
        """One round: adds columns, computes an upper bound at the queried example weights, solves
        the master, and computes a lower bound from its votes.
        """
        takes_all = self.takes_all(ensemble.learner, dataset)
        entered = _enter(memory, dataset, proposal, ensemble.count)
        before, memory, count = memory.proven, entered.memory, entered.count
        memory = memory._replace(
            proven=self._prove_upper(memory, entered.rows, count, best_edge=proposal.upper_bound)
        )
        memory, was_finest = self.solve(
            memory, count, is_known=count == ensemble.count, is_complete=takes_all
        )
        goal, lower = memory.proven.goal(self.stop_on), memory.proven.lower
        is_lost = (
            (count == ensemble.count)
            & ~(lower > before.lower)
            & ~(goal < before.goal(self.stop_on))
        )
        status = self._status(goal - lower, is_lost & was_finest & (memory.smoothing == 0))
        usual = 0.0 if boosting.has_quick_answers(ensemble.learner) else _SMOOTHING
        smoothing = jnp.where(count == ensemble.count, 0.0, usual).astype(goal.dtype)
        memory = _prepare_query(memory, smoothing, is_lost)
        return Absorbed(
            memory=memory,
            example_weights=memory.queried,
            slots=entered.slots,
            votes=votes_of(memory.proven),
            constant=ensemble.constant,
            count=count,
            certificate=certificate_of(memory.proven),
            edge=reduce.largest(entered.edges),
            status=status,
        )

    def _status(self, gap: Array, is_stuck: Array) -> Array:
        """UNFINISHED while the gap is open and a further round may change it."""
        goes_on = (gap > self.tolerance) & ~is_stuck
        missed = jnp.where(gap <= self.tolerance, int(Status.OPTIMAL), int(Status.PRECISION_LIMIT))
        return jnp.where(goes_on, int(Status.UNFINISHED), missed)

    def _prove_upper(
        self, memory: LPBoostMemory, rows: Array, count: Array, *, best_edge: Array
    ) -> ProvenBounds:
        """The upper bound at the queried example weights, from the new rows [k, m], from all
        columns, and from the learner's bound of the best edge.
        """
        is_used = jnp.arange(memory.columns.shape[0]) < count
        return certify.prove_upper(
            memory.proven,
            memory.queried,
            new_edge=certify.largest_signed_edge(
                rows, memory.proven.example_weights, jnp.ones(rows.shape[:1], bool)
            ),
            seen_edge=certify.largest_signed_edge(memory.columns, memory.queried, is_used),
            best_edge=best_edge,
            upper_of=lambda edge, weights: value.not_exceeded(
                edge, weights, self.relaxation, memory.prior
            ),
            stop_on=self.stop_on,
        )

    def solve(
        self, memory: LPBoostMemory, count: Array, *, is_known: Array | bool, is_complete: bool
    ) -> tuple[LPBoostMemory, Array]:
        """Solves the master over the columns so far and computes the lower bound of its votes.

        Only a simplex method ends in a vertex; the votes of other methods use all columns of the
        optimal face. Once the gap is closed, these methods therefore solve further masters without
        the smallest votes, as long as the gap remains closed. Each one drops a quarter of the
        votes, and half as many after each master that fails.

        Args:
          memory: the memory, with all columns entered.
          count: [] the number of columns.
          is_known: [] bool, whether the last master had the same columns and caps. If it ended in a
            vertex and was precise enough, its solution is kept.
          is_complete: static, whether no further columns can enter. The master is then solved as
            precisely as the tolerance requires, for any gap.

        Returns:
          The memory, and whether the master had the smallest tolerance there is, [] bool.
        """
        goal = memory.proven.goal(self.stop_on)
        gap = _remaining_gap(memory.proven, goal, self.tolerance)
        finest, tolerance = _FINEST[gap.dtype.itemsize], self.tolerance.astype(gap.dtype)
        wanted = _SHARE_OF_GAP * (tolerance if is_complete else gap) * memory.fineness
        is_used = jnp.arange(memory.columns.shape[0]) < count
        config = self.method(memory.columns.shape[0])

        def again(carry: tuple[LPBoostMemory, Array, Array]) -> tuple[LPBoostMemory, Array, Array]:
            memory, num_dropped, is_first = carry
            old = memory.proven
            solved = master.solve(
                memory.columns,
                jnp.where(is_first, is_used, _without_smallest(old.coefficients, num_dropped)),
                self.relaxation.caps(memory.prior),
                before=memory.solved,
                tolerance=jnp.maximum(jnp.where(is_first, wanted, _DROP_ERROR * tolerance), finest),
                spare=_SHARE_OF_TOLERANCE * tolerance,
                config=config,
            )
            memory, is_taken = self._take_votes(memory, solved, goal, is_first)
            num_dropped = self._num_to_drop(memory.proven, goal, num_dropped, is_taken | is_first)
            return memory, num_dropped, jnp.zeros((), bool)

        start = (memory, jnp.zeros((), jnp.int32), jnp.ones((), bool))
        if master.finds_vertices(config):
            is_enough = is_known & (memory.precision <= wanted)
            memory = loops.cond(
                is_enough, lambda: memory, lambda: again(start)[0]._replace(precision=wanted)
            )
        else:
            (memory, _, _), _ = loops.bounded_loop(
                again, lambda carry: carry[2] | (carry[1] > 0), start, max_checks=1 + _MAX_DROPS
            )
        return memory, wanted <= finest

    def _take_votes(
        self, memory: LPBoostMemory, solved: MasterSolution, goal: Array, is_first: Array
    ) -> tuple[LPBoostMemory, Array]:
        """The memory with the votes of a master if they are better, or, after the first master,
        if they are fewer and keep the gap closed; and whether they are taken, [] bool.
        """
        old = memory.proven
        # margins are at least -1
        lower = jnp.maximum(
            value.attained(memory.columns, solved.votes, self.relaxation, memory.prior), -1.0
        )
        is_better = (lower > old.lower) | ~reduce.any_true(old.coefficients > 0)
        is_leaner = (reduce.count(solved.votes > 0) < reduce.count(old.coefficients > 0)) & (
            goal - lower <= self.tolerance
        )
        is_taken = jnp.where(is_first, is_better, is_leaner)
        votes = jnp.where(is_taken, solved.votes, old.coefficients)
        lower = jnp.where(is_taken, lower, old.lower)
        kept = jax.tree.map(
            lambda new, before: jnp.where(is_first, new, before), solved, memory.solved
        )
        memory = memory._replace(solved=kept, proven=old._replace(coefficients=votes, lower=lower))
        return memory, is_taken

    def _num_to_drop(
        self, proven: ProvenBounds, goal: Array, num_dropped: Array, is_kept: Array
    ) -> Array:
        """The number of votes that the next master drops, [] int32: a quarter of them if the last
        master's are kept, else half as many as it dropped; 0 while the gap is open.
        """
        next_part = -(-reduce.count(proven.coefficients > 0) // _PART_DROPPED)
        num_dropped = jnp.where(is_kept, next_part, num_dropped // 2)
        return jnp.where(goal - proven.lower <= self.tolerance, num_dropped, 0)

    def reopen(self, memory: LPBoostMemory, count: Array) -> LPBoostMemory:
        """The memory for a booster of another nu. The columns are kept, the master is solved again,
        and the bounds are those of its solution.
        """
        fresh = self.without_proof(memory)
        fresh = fresh._replace(
            smoothing=jnp.zeros_like(memory.smoothing), fineness=jnp.ones_like(memory.fineness)
        )
        memory, _ = self.solve(fresh, count, is_known=False, is_complete=False)
        # without columns, the query is that of the first round
        queried = jnp.where(count > 0, memory.solved.example_weights, memory.prior)
        is_used = jnp.arange(memory.columns.shape[0]) < count
        edge = certify.largest_signed_edge(memory.columns, queried, is_used)
        seen_upper = jnp.where(
            count > 0, value.not_exceeded(edge, queried, self.relaxation, memory.prior), jnp.inf
        )
        return memory._replace(
            queried=queried,
            proven=memory.proven._replace(
                example_weights=queried, edge=edge, seen_upper=seen_upper
            ),
        )

    @staticmethod
    def without_proof(memory: LPBoostMemory) -> LPBoostMemory:
        """The memory with nothing proven."""
        return memory._replace(proven=_nothing_proven(memory.solved))


def _with_all(proposal: Proposal, every: Everything) -> ListedProposal:
    """A proposal, followed by all hypotheses."""
    own, listed = (proposal.hypotheses, proposal.outputs), (every.hypotheses, every.outputs)
    hypotheses, outputs = jax.tree.map(
        lambda one, other: jnp.concatenate([one, other.astype(one.dtype)]), own, listed
    )
    return ListedProposal(
        hypotheses, outputs, proposal.values, proposal.upper_bound, proposal.state
    )


class _Entered(NamedTuple):
    """The result of the entry of new columns."""

    memory: LPBoostMemory  # with the columns
    rows: Array  # [k, m] y_i h_j(x_i) of the proposed hypotheses
    edges: Array  # [k] of the proposed hypotheses
    slots: Array  # [k + L] int32
    count: Array  # [] int32


def _enter(
    memory: LPBoostMemory, dataset: Dataset, proposal: Proposal | ListedProposal, count: Array
) -> _Entered:
    """Writes the columns of the k proposed and the L listed hypotheses into slots."""
    num_proposed = proposal.values.shape[0]
    margins = proposal.outputs * boosting.signs(dataset)[None, :]
    columns, listed_slots, count = _enter_list(memory.columns, count, margins[num_proposed:])
    rows = margins[:num_proposed]
    edges = numerics.product(rows, memory.queried)
    columns, slots, count = boosting.enter_columns(columns, count, rows, jnp.ones_like(edges, bool))
    slots = jnp.concatenate([slots, listed_slots])
    return _Entered(memory._replace(columns=columns), rows, edges, slots, count)


def _enter_list(columns: Array, count: Array, listed: Array) -> tuple[Array, Array, Array]:
    """Writes all listed rows [L, m] into the first slots if no slot is in use. Returns the columns,
    the slots [L] int32, and the count.
    """
    if not len(listed):
        return columns, jnp.zeros((0,), jnp.int32), count
    is_first = count == 0
    first = jnp.arange(len(listed), dtype=jnp.int32)
    columns = loops.cond(is_first, lambda: columns.at[: len(listed)].set(listed), lambda: columns)
    return (
        columns,
        jnp.where(is_first, first, columns.shape[0]),
        jnp.where(is_first, len(listed), count),
    )


def _remaining_gap(proven: ProvenBounds, goal: Array, tolerance: Array) -> Array:
    """The gap between the bounds in [0, 1], with the tolerance for an infinite one, []."""
    gap = jnp.where(goal == jnp.inf, proven.seen_upper, goal) - proven.lower
    return jnp.clip(jnp.where(gap < jnp.inf, gap, tolerance.astype(gap.dtype)), 0.0, 1.0)


def _without_smallest(votes: Array, number: Array) -> Array:
    """Which of the votes [capacity] are positive, without the `number` [] smallest of these."""
    order = jnp.argsort(jnp.where(votes > 0, votes, jnp.inf))
    are_smallest = jnp.zeros(votes.shape, bool).at[order].set(jnp.arange(votes.shape[0]) < number)
    return (votes > 0) & ~are_smallest


def _prepare_query(memory: LPBoostMemory, smoothing: Array, is_lost: Array) -> LPBoostMemory:
    """The memory with the example weights of the next query of the learner, and a finer tolerance
    of the next master if the round was lost without smoothing.
    """
    memory = memory._replace(
        smoothing=smoothing,
        fineness=jnp.where(is_lost & (memory.smoothing == 0), _FINER, 1.0) * memory.fineness,
    )
    return memory._replace(
        queried=smoothing * memory.proven.example_weights
        + (1 - smoothing) * memory.solved.example_weights
    )


def _nothing_proven(solved: MasterSolution) -> ProvenBounds:
    """The trivial bounds: no votes have a soft margin below -1."""
    one = jnp.ones((), solved.votes.dtype)
    return ProvenBounds(
        jnp.zeros_like(solved.votes),
        -one,
        solved.example_weights,
        -one,
        one + jnp.inf,
        one + jnp.inf,
    )


def votes_of(proven: ProvenBounds) -> Array:
    """The votes of an ensemble, [capacity, 2]: the same for both outputs of a hypothesis."""
    return jnp.stack([proven.coefficients, proven.coefficients], axis=1)


def certificate_of(proven: ProvenBounds) -> Certificate:
    """The certificate that the user gets."""
    return Certificate(proven.lower, proven.upper, proven.seen_upper, proven.example_weights)
