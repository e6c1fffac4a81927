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
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import boosting, check, derivatives, devices, loops, meshes, reduce
from jboost.base.boosting import (
    Absorbed,
    Certificate,
    Ensemble,
    Everything,
    Fit,
    Proposal,
    State,
    finish,
    step,
)
from jboost.base.loops import OnStep
from jboost.base.records import register
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.lp.interior_point import InteriorPointConfig
from jboost.lp.simplex.margins import SimplexConfig
from jboost.lpboost import master, value
from jboost.lpboost.master import Config, Solved
from jboost.relaxations import SoftMargin, certify
from jboost.relaxations.certify import Proven

__all__ = ["LPBoost", "finish", "fit", "init", "step"]

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


class Memory(NamedTuple):
    """The state of LP-Boost between rounds."""

    columns: Array  # [capacity, m] y_i h_j(x_i); rows of unused slots are 0
    prior: Array  # [m]
    solved: Solved
    queried: Array  # [m] the example weights of the last query of the learner
    smoothing: Array  # [] the weight of the best example weights so far in that query
    fineness: Array  # [] the factor of the tolerance of masters, at most 1
    precision: Array  # [] the tolerance of the last master, inf before the first
    proven: Proven


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
        if boosting.has_quick_answers(learner) or not (
            hasattr(learner, "every") and hasattr(learner, "num_hypotheses")
        ):
            return False
        num_hypotheses = learner.num_hypotheses(dataset.features.shape[1])
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
        solved = Solved(no_votes, prior, warm, jnp.zeros((), jnp.int32))
        proven = _nothing_proven(solved)
        columns, one = jnp.zeros((capacity, prior.shape[0]), prior.dtype), jnp.ones((), prior.dtype)
        memory = Memory(columns, prior, solved, prior, _SMOOTHING * one, one, one + jnp.inf, proven)
        first = boosting.before_first_round(memory, prior, certificate_of(proven), capacity)
        return first._replace(
            status=jnp.where(self.is_feasible(prior), first.status, int(Status.INFEASIBLE))
        )

    def ask(
        self, memory: Memory, dataset: Dataset, learner: Any, state: Any
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
        memory: Memory,
        dataset: Dataset,
        proposal: Proposal | ListedProposal,
        ensemble: Ensemble,
    ) -> Absorbed:
        """One round: adds columns, computes an upper bound at the queried example weights, solves
        the master, and computes a lower bound from its votes.
        """
        queried, takes_all = memory.queried, self.takes_all(ensemble.learner, dataset)
        num_proposed = proposal.values.shape[0]
        margins = proposal.outputs * boosting.signs(dataset)[None, :]
        columns, listed_slots, count = _enter_list(
            memory.columns, ensemble.count, margins[num_proposed:]
        )
        rows = margins[:num_proposed]
        edges = jnp.matmul(rows, queried, precision=lax.Precision.HIGHEST)
        columns, slots, count = boosting.enter_columns(
            columns, count, rows, jnp.ones_like(edges, bool)
        )
        is_used = jnp.arange(columns.shape[0]) < count
        proven = certify.prove_upper(
            memory.proven,
            queried,
            new_edge=certify.largest_signed_edge(
                rows, memory.proven.example_weights, jnp.ones_like(edges, bool)
            ),
            seen_edge=certify.largest_signed_edge(columns, queried, is_used),
            best_edge=proposal.upper_bound,
            upper_of=lambda edge, weights: value.not_exceeded(
                edge, weights, self.relaxation, memory.prior
            ),
            stop_on=self.stop_on,
        )
        before, memory = memory.proven, memory._replace(columns=columns, proven=proven)
        memory, was_finest = self.solve(
            memory, count, is_known=count == ensemble.count, is_complete=takes_all
        )
        goal, lower = memory.proven.goal(self.stop_on), memory.proven.lower
        is_lost = (
            (count == ensemble.count)
            & ~(lower > before.lower)
            & ~(goal < before.goal(self.stop_on))
        )
        goes_on = (goal - lower > self.tolerance) & ~(
            is_lost & was_finest & (memory.smoothing == 0)
        )
        missed = jnp.where(
            goal - lower <= self.tolerance, int(Status.OPTIMAL), int(Status.PRECISION_LIMIT)
        )
        usual = 0.0 if boosting.has_quick_answers(ensemble.learner) else _SMOOTHING
        smoothing = jnp.where(count == ensemble.count, 0.0, usual).astype(goal.dtype)
        memory = memory._replace(
            smoothing=smoothing,
            fineness=jnp.where(is_lost & (memory.smoothing == 0), _FINER, 1.0) * memory.fineness,
        )
        memory = memory._replace(
            queried=smoothing * memory.proven.example_weights
            + (1 - smoothing) * memory.solved.example_weights
        )
        return Absorbed(
            memory=memory,
            example_weights=memory.queried,
            slots=jnp.concatenate([slots, listed_slots]),
            votes=votes_of(memory.proven),
            constant=ensemble.constant,
            count=count,
            certificate=certificate_of(memory.proven),
            edge=reduce.largest(edges),
            status=jnp.where(goes_on, int(Status.UNFINISHED), missed),
        )

    def solve(
        self, memory: Memory, count: Array, *, is_known: Array | bool, is_complete: bool
    ) -> tuple[Memory, Array]:
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
        gap = jnp.where(goal == jnp.inf, memory.proven.seen_upper, goal) - memory.proven.lower
        gap = jnp.clip(jnp.where(gap < jnp.inf, gap, self.tolerance.astype(gap.dtype)), 0.0, 1.0)
        finest, tolerance = _FINEST[gap.dtype.itemsize], self.tolerance.astype(gap.dtype)
        wanted = _SHARE_OF_GAP * (tolerance if is_complete else gap) * memory.fineness
        is_used = jnp.arange(memory.columns.shape[0]) < count
        config = self.method(memory.columns.shape[0])

        def again(carry: tuple[Memory, Array, Array]) -> tuple[Memory, Array, Array]:
            memory, num_dropped, is_first = carry
            old = memory.proven
            solved = master.solve(
                memory.columns,
                jnp.where(
                    is_first,
                    is_used,
                    (old.coefficients > 0) & ~_are_smallest(old.coefficients, num_dropped),
                ),
                self.relaxation.caps(memory.prior),
                before=memory.solved,
                tolerance=jnp.maximum(jnp.where(is_first, wanted, _DROP_ERROR * tolerance), finest),
                spare=_SHARE_OF_TOLERANCE * tolerance,
                config=config,
            )
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
            memory = memory._replace(
                solved=kept, proven=old._replace(coefficients=votes, lower=lower)
            )
            next_part = -(-reduce.count(votes > 0) // _PART_DROPPED)
            num_dropped = jnp.where(is_taken | is_first, next_part, num_dropped // 2)
            return (
                memory,
                jnp.where(goal - lower <= self.tolerance, num_dropped, 0),
                jnp.zeros((), bool),
            )

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

    def reopen(self, memory: Memory, count: Array) -> Memory:
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
    def without_proof(memory: Memory) -> Memory:
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


def _are_smallest(votes: Array, number: Array) -> Array:
    """Which of the votes [capacity] are among the `number` [] smallest positive ones."""
    order = jnp.argsort(jnp.where(votes > 0, votes, jnp.inf))
    return jnp.zeros(votes.shape, bool).at[order].set(jnp.arange(votes.shape[0]) < number)


def _nothing_proven(solved: Solved) -> Proven:
    """The trivial bounds: no votes have a soft margin below -1."""
    one = jnp.ones((), solved.votes.dtype)
    return Proven(
        jnp.zeros_like(solved.votes),
        -one,
        solved.example_weights,
        -one,
        one + jnp.inf,
        one + jnp.inf,
    )


def votes_of(proven: Proven) -> Array:
    """The votes of an ensemble, [capacity, 2]: the same for both outputs of a hypothesis."""
    return jnp.stack([proven.coefficients, proven.coefficients], axis=1)


def certificate_of(proven: Proven) -> Certificate:
    """The certificate that the user gets."""
    return Certificate(proven.lower, proven.upper, proven.seen_upper, proven.example_weights)


@meshes.takes_sharded
def init(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    **options: Any,
) -> State:
    """The state before the first round, for a loop of your own over `step(state, dataset)`.
    `finish(state)` gives the result. The arguments are those of `fit`.
    """
    return boosting.start(
        make_booster(learner, **options), learner, dataset, key=key, max_rounds=max_rounds
    )


@meshes.takes_sharded
@derivatives.without(
    "jboost.lpboost.fit",
    "differentiate the bounds of jboost.lpboost.solve over the outputs of its hypotheses",
)
def fit(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    nu: ArrayLike = 0.1,
    tolerance: ArrayLike = 1e-3,
    stop_on: Literal["provable", "all", "seen"] = "provable",
    config: Config | None = None,
    on_step: OnStep | None = None,
    initial: State | None = None,
) -> Fit:
    """LP-Boost over all hypotheses of a learner, in one compiled loop (Goldberg and Eckstein 2009,
    formulation (3); Demiriz, Bennett, Shawe-Taylor 2002).

    Maximises rho - D sum_i xi_i s.t. y_i H_i lambda + xi_i >= rho, sum lambda = 1, lambda, xi >= 0
    with D = 1 / (nu m). This is the mean of the smallest margins, over a share nu of the examples.
    At the optimum at most a share nu of the examples has a margin below rho, and at least a share
    nu has a margin of rho or less (Raetsch et al. 2000). A nu below 1 / m gives the hard margin.

    Args:
      dataset: of m examples; `weights` count as multiplicities, D_i = p_i / nu with p_i the share
        of an example.
      learner: proposes hypotheses with outputs in [-1, 1]. All its proposals are taken. If it can
        list its hypotheses (`pool`, `literals` and single-literal `monomials`) and their number U
        satisfies U (U + m) <= 2^18, all of them enter in the first round. Votes are not negative:
        the learner decides whether negations count as hypotheses, as in
        `jboost.learners.pool(negations=False)`.
      key: for learners that draw random numbers.
      max_rounds: the largest number of rounds, one proposal each; static.
      nu: [] in (0, 1].
      tolerance: [] the gap between the bounds at which to stop; in float32 not below 1e-5.
      stop_on: the gap that ends the loop: "all" for that over all hypotheses, "seen" for that over
        the columns seen, "provable" for the former if the learner proves a bound and else the
        latter.
      config: static; the method for the restricted master: `jboost.lp.InteriorPointConfig()`, or,
        warm-started from round to round, `SimplexConfig()`, `jboost.lp.FirstOrderConfig()` or
        `jboost.relaxed_margin.SolverConfig()`. None chooses the last of these for examples that are
        sharded over devices. Otherwise it chooses the simplex method for a capacity of up to 2,048
        columns, on a CPU or for learners whose best hypothesis is expensive (monomials of several
        literals), and else the interior point method, which mostly computes large matrix products.
      on_step: called with (state, info) between rounds, on the host; False ends the loop with
        status TIME_LIMIT. Not under jit or vmap. `jboost.checkpoints` has one that saves the state.
      initial: a state from which to continue, as passed to `on_step` of the same fit or made by
        `init`; None for a fit from the start. The result is bitwise that of an uninterrupted fit
        with an `on_step`.

    Returns:
      A `Fit` whose certificate holds lower_bound <= optimum of (3) over all
      hypotheses <= upper_bound. The lower bound follows from the votes of the ensemble, and the
      upper bounds follow from `certificate.example_weights`, for any solver of the master. The
      status is PRECISION_LIMIT if a round gives no new column and no better bound.

    Raises:
      ValueError: at trace time, naming the argument; for a concrete nu outside (0, 1]. For a traced
        one the status is INFEASIBLE.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, 1])
    >>> fitted = jboost.lpboost.fit(dataset, jboost.learners.stumps(), nu=0.2)
    >>> (
    ...     bool(fitted.certificate.lower_bound <= 1 / 3 <= fitted.certificate.upper_bound),
    ...     jboost.predict(fitted.ensemble, dataset.features).tolist(),
    ... )
    (True, [1, 1, -1, 1])
    """
    booster = make_booster(learner, nu=nu, tolerance=tolerance, stop_on=stop_on, config=config)
    return boosting.fit(
        booster, learner, dataset, key=key, max_rounds=max_rounds, on_step=on_step, initial=initial
    )


def make_booster(
    learner: Any,
    *,
    nu: ArrayLike = 0.1,
    tolerance: ArrayLike = 1e-3,
    stop_on: str = "provable",
    config: Config | None = None,
) -> LPBoost:
    """The booster of these options for a learner. Raises ValueError, naming the argument."""
    nu = check.number("nu", nu, low=float(jnp.finfo(jnp.result_type(float)).tiny), high=1).astype(
        float
    )
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True).astype(float)
    check.choice("stop_on", stop_on, ("provable", "all", "seen"))
    master.validate_config(config)
    suits_pivots = devices.platform() == "cpu" or boosting.has_quick_answers(learner)
    return LPBoost(
        nu,
        tolerance,
        stop_on,
        InteriorPointConfig() if config is None and not suits_pivots else config,
    )
