"""L0-RBoost: column generation for the relaxation (18) of Goldberg and Eckstein (2009), by their
Algorithm 1 with the full pricing problem.

Each round solves the relaxation over the current columns and then two pricing problems
(`pricing`), whose solutions are the new columns. `solve_relaxation` adds the cuts. The two constant
hypotheses are columns from the start. Their coefficients become the `constant` of the ensemble, and
the other coefficients lambda become its votes. Every round proves an upper bound, and a lower bound
over all hypotheses of the learner.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import boosting
from jboost.base.boosting import Absorbed, Ensemble
from jboost.base.records import register
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset, PyTree
from jboost.l0 import columns, pricing, relaxation
from jboost.l0.columns import NUM_CONSTANTS
from jboost.l0.pricing import Priced, PricingProof
from jboost.l0.types import L0Relaxation, RelaxationConfig, WarmStart
from jboost.l0.votes import local_search, rounded
from jboost.l0.votes.solution import CoefficientsConfig
from jboost.l0.votes.vertex import VertexConfig

VoteConfig = local_search.SearchConfig | rounded.RelaxedConfig | CoefficientsConfig | VertexConfig

# The smallest tolerance of a relaxation, as a share of the tolerance of the fit.
_SHARE_OF_TOLERANCE = 0.3
# The tolerance of the relaxation is this share of the gap over all hypotheses, at most `_COARSEST`:
# more precision is of no use, as the next columns change its optimum.
_SHARE_OF_GAP, _COARSEST = 0.1, 0.05
# Above the relative gap `_WIDE`, new columns help more than new cuts: the relaxation gets
# `_EARLY_ROUNDS` rounds of cuts.
_WIDE, _EARLY_ROUNDS = 0.5, 2
# Smoothing of the duals towards those of the best proof (Wentges 1997): the share of the latter at
# the start, which is also the largest share, and the least share after a round that proves little.
_FIRST_SMOOTHING, _LEAST_SMOOTHING = 0.5, 0.2
# The expected gain of a round is the increase of the lower bound if no new column cut off the
# smoothed duals. A round that gains `_ENOUGH_GAIN` of it multiplies the share by `_LESS_SMOOTHING`,
# any other round by `_MORE_SMOOTHING`.
_ENOUGH_GAIN, _LESS_SMOOTHING = 0.5, 0.5
_MORE_SMOOTHING = 1.4
# The fit ends after so many idle rounds in a row. In an idle round the gap hardly falls, and there
# is no new column or no free slot for more.
_MAX_IDLE = 12
# The smallest tolerance of a relaxation, by the bytes of a float: rounding allows no less.
_FINEST = {4: 1e-6, 8: 1e-10}
_FINER = 0.5  # factor on the tolerance of the relaxation after each idle round
# The gap has fallen if it is below this share of the gap after the last round in which it fell.
_LEAST_GAIN = 0.98


class L0Certificate(NamedTuple):
    """Bounds over all hypotheses on the relaxation (18) with the cuts of the config, and on the
    sparse minimum disagreement problem (15).
    """

    lower_bound: Array  # [] on (18), proven by `proof`
    upper_bound: Array  # [] on (18), attained over the columns generated so far
    seen_upper_bound: Array  # [] equal to `upper_bound`: further columns only lower the optimum
    example_weights: Array  # [m] w
    # [] on (15), proven by `integer_proof`, and rounded up to the next value that the loss can take
    # (`local_search.round_up`)
    integer_lower_bound: Array
    integer_upper_bound: Array  # [] on (15), attained by the votes of the ensemble
    proof: PricingProof
    # with the cuts "either", which are valid for (15) even where hypotheses abstain
    integer_proof: PricingProof


class L0Memory(NamedTuple):
    """What is kept from one round to the next. Columns 0 and 1 are the constants."""

    outputs: Array  # [2 + capacity, m] H
    costs: Array  # [2 + capacity] c
    is_used: Array  # [2 + capacity] bool
    warm: WarmStart  # from the last relaxation
    upper: Array  # [] upper bound on (18)
    proof: PricingProof  # of a lower bound on (18)
    # [] bool, whether the current relaxation has the cuts "either", which are valid for (15)
    either: Array
    integer_upper: Array  # [] upper bound on the relaxation with the cuts "either"
    integer_proof: PricingProof  # of a lower bound on the relaxation with the cuts "either"
    integer_lower: Array  # [] lower bound on (15), from `integer_proof`
    best: local_search.FeasibleVote  # the best point of (15) so far
    gap: Array  # [] after the last round in which it fell
    num_idle: Array  # [] int32 idle rounds in a row
    # [] the share of the duals of the best proof in the next duals that are priced
    smoothing: Array
    # the last solution of (18) with the cuts of the config; its warm start is `warm`, and here ()
    relaxation: L0Relaxation


@register
@dataclasses.dataclass(frozen=True)
class L0(boosting.Booster):
    """The booster of L0-RBoost at one margin."""

    margin: ArrayLike
    tolerance: ArrayLike
    constant_cost: ArrayLike
    config: RelaxationConfig = dataclasses.field(metadata={"static": True})
    search: VoteConfig = dataclasses.field(metadata={"static": True})
    max_columns: int = dataclasses.field(metadata={"static": True})
    bounds_integer: bool = dataclasses.field(metadata={"static": True})

    @property
    def takes_each_once(self) -> bool:
        """True: equal columns share a slot."""
        return True

    @property
    def takes_costs(self) -> bool:
        """True: (15) has the costs of the hypotheses."""
        return True

    @property
    def takes_turns(self) -> bool:
        """True: the relaxations and searches of different rounds take unequal times."""
        return True

    def capacity(self, max_rounds: int, num_proposed: int) -> int:
        """The number of slots: one for each column that the two pricing problems propose, up to
        `max_columns`. When no slot is free, new columns overwrite columns that are no longer used.
        """
        return min(2 * max_rounds * num_proposed, self.max_columns)

    def init(self, dataset: Dataset, capacity: int) -> Absorbed:
        """The two constants as columns, without any proven bound."""
        signs = boosting.signs(dataset)
        dtype, num_examples = signs.dtype, signs.shape[0]
        constants = jnp.where(dataset.mask[None, :], jnp.array([[1.0], [-1.0]], dtype), 0.0)
        outputs = (
            jnp.zeros((NUM_CONSTANTS + capacity, num_examples), dtype)
            .at[:NUM_CONSTANTS]
            .set(constants)
        )
        costs = (
            jnp.zeros((NUM_CONSTANTS + capacity,), dtype).at[:NUM_CONSTANTS].set(self.constant_cost)
        )
        is_used = jnp.arange(NUM_CONSTANTS + capacity) < NUM_CONSTANTS
        cold = relaxation.cold(num_examples, NUM_CONSTANTS + capacity, self.config)
        memory = self.begin(dataset, outputs, costs, is_used, cold, jnp.ones_like(costs))
        first = boosting.before_first_round(
            memory, boosting.initial_distribution(dataset), self.certificate(memory), capacity
        )
        return first._replace(votes=self.votes(memory.best), constant=self.constant(memory.best))

    def begin(
        self,
        dataset: Dataset,
        outputs: Array,
        costs: Array,
        is_used: Array,
        warm: WarmStart,
        coefficients: Array,
    ) -> L0Memory:
        """The memory for given columns without any proven bound. Its best point of (15) is the one
        that `coefficients` round to.
        """
        infinite = jnp.full((), jnp.inf, outputs.dtype)
        nothing = _nothing_proven(warm)
        return L0Memory(
            outputs=outputs,
            costs=costs,
            is_used=is_used,
            warm=warm,
            upper=infinite,
            proof=nothing,
            either=jnp.asarray(self.config.cuts == "either"),
            integer_upper=infinite,
            integer_proof=nothing,
            integer_lower=-infinite,
            best=local_search.evaluate(
                self.instance(dataset, outputs, costs, is_used), coefficients
            ),
            gap=infinite,
            num_idle=jnp.zeros((), jnp.int32),
            smoothing=jnp.full((), _FIRST_SMOOTHING, outputs.dtype),
            relaxation=_not_solved(warm),
        )

    def ask(self, memory: L0Memory, dataset: Dataset, learner: Any, state: PyTree) -> Priced:
        """Solves the relaxation over the current columns, as precisely as the gap requires, and
        then both pricing problems.
        """
        upper, lower = _bounds(memory)
        gap = jnp.where(upper < jnp.inf, (upper - lower) / jnp.maximum(upper, 1.0), jnp.inf)
        finer = _FINER ** memory.num_idle.astype(gap.dtype)
        finest = jnp.maximum(
            _SHARE_OF_TOLERANCE * jnp.asarray(self.tolerance, gap.dtype),
            _FINEST[gap.dtype.itemsize],
        )
        tolerance = jnp.clip(_SHARE_OF_GAP * finer * gap, finest, _COARSEST)
        heaviest = jnp.max(jnp.where(dataset.mask, dataset.weights, 0).astype(gap.dtype), initial=0)
        # The tolerance of the relaxation is relative to the heaviest weight where the upper bound
        # is less than it.
        tolerance = jnp.where(
            upper < heaviest, tolerance * jnp.maximum(upper, 1.0) / heaviest, tolerance
        )
        most_rounds = jnp.where(
            gap > _WIDE, min(_EARLY_ROUNDS, self.config.max_rounds), self.config.max_rounds
        )
        solved = self.relax(memory, dataset, tolerance, most_rounds)
        best = jax.tree.map(
            lambda one, other: jnp.where(memory.either, one, other),
            memory.integer_proof,
            memory.proof,
        )
        share = jnp.where(best.bound > -jnp.inf, memory.smoothing, 0.0)
        duals = pricing.smoothed(best, solved, share)
        return pricing.solve(learner, state, duals, solved, memory.either)

    def absorb(
        self, memory: L0Memory, dataset: Dataset, proposal: Priced, ensemble: Ensemble
    ) -> Absorbed:
        """Records the upper bound of the relaxation and the lower bound of the pricing problems,
        and stores the new columns.
        """
        before = memory
        memory = self._with_bounds(memory, dataset, proposal)
        upper, lower = _bounds(memory)
        is_closed = local_search.have_met(lower, upper, self.tolerance)
        rounded = local_search.evaluate(
            self.instance(dataset, memory.outputs, memory.costs, memory.is_used),
            proposal.relaxation.coefficients,
        )
        best = local_search.better(memory.best, rounded)
        worth = columns.worth(
            memory.outputs * boosting.signs(dataset)[None, :],
            memory.costs,
            proposal.relaxation,
            before.either,
            best.coefficients > 0,
        )
        entered = columns.enter(
            memory.outputs, memory.costs, memory.is_used, proposal, worth, ~is_closed
        )
        memory = memory._replace(relaxation=self._last_relaxation(before, proposal.relaxation))
        memory = _with_columns(memory, entered)._replace(best=best)
        memory = _with_progress(memory, before, proposal, entered, is_closed)
        is_last = before.either | (not self.bounds_integer)
        return Absorbed(
            memory=memory,
            example_weights=proposal.relaxation.example_weights,
            slots=entered.slots,
            votes=self.votes(best),
            constant=self.constant(best),
            count=jnp.sum(entered.is_used, dtype=jnp.int32) - NUM_CONSTANTS,
            certificate=self.certificate(memory),
            edge=jnp.max(proposal.values),
            status=self._status(memory, proposal.relaxation.status, is_closed & is_last),
        )

    def _last_relaxation(self, before: L0Memory, solved: L0Relaxation) -> L0Relaxation:
        """The last solution of (18): that of this round, unless it has the cuts "either" for (15)
        alone.
        """
        is_other = before.either & (self.config.cuts == "ordered")
        return jax.tree.map(
            lambda old, new: jnp.where(is_other, old, new),
            before.relaxation,
            solved._replace(warm=()),
        )

    def _with_bounds(self, memory: L0Memory, dataset: Dataset, proposal: Priced) -> L0Memory:
        """The memory with the bounds of this round on both relaxations and on (15)."""
        memory = self.note(memory, dataset, proposal)
        weights = jnp.where(dataset.mask, dataset.weights, 0)
        prices = jnp.concatenate(
            [proposal.prices, jnp.asarray(self.constant_cost, proposal.prices.dtype)[None]]
        )
        return memory._replace(
            integer_lower=jnp.maximum(
                memory.integer_lower,
                local_search.round_up(memory.integer_proof.bound, weights, prices),
            )
        )

    def _status(self, memory: L0Memory, of_relaxation: Array, is_closed: Array) -> Array:
        """The status after a round; `is_closed` if the gap of the last relaxation is closed."""
        is_stuck = memory.num_idle >= _MAX_IDLE
        lacks_capacity = jnp.all(memory.is_used) | (of_relaxation == int(Status.CAPACITY_LIMIT))
        missed = jnp.where(lacks_capacity, int(Status.CAPACITY_LIMIT), int(Status.PRECISION_LIMIT))
        status = jnp.where(
            is_closed | (is_stuck & self.has_solved(memory)),
            int(Status.OPTIMAL),
            jnp.where(is_stuck, missed, int(Status.UNFINISHED)),
        )
        return jnp.where(
            of_relaxation == int(Status.INVALID_INPUT), int(Status.INVALID_INPUT), status
        )

    def note(self, memory: L0Memory, dataset: Dataset, proposal: Priced) -> L0Memory:
        """The memory with the bounds that a round proves, on the relaxation that it solved."""
        solved, either = proposal.relaxation, memory.either
        cost = jnp.asarray(self.constant_cost, memory.upper.dtype)
        upper = jnp.minimum(
            jnp.where(either, memory.integer_upper, memory.upper), solved.upper_bound
        )
        fresh = pricing.prove(
            proposal,
            boosting.signs(dataset),
            margin=jnp.asarray(self.margin, cost.dtype),
            constant_cost=cost,
            upper=upper,
        )
        if self.config.cuts == "either":  # one relaxation serves both problems
            proof = pricing.better(memory.proof, fresh, either)
            return memory._replace(
                warm=solved.warm, upper=upper, proof=proof, integer_upper=upper, integer_proof=proof
            )
        return memory._replace(
            warm=solved.warm,
            upper=jnp.where(either, memory.upper, upper),
            proof=pricing.better(memory.proof, fresh, ~either),
            integer_upper=jnp.where(either, upper, memory.integer_upper),
            integer_proof=pricing.better(memory.integer_proof, fresh, either),
        )

    def relax(
        self, memory: L0Memory, dataset: Dataset, tolerance: Array, most_rounds: Array
    ) -> L0Relaxation:
        """Solves the relaxation over the columns in use."""
        weights = dataset.weights.astype(memory.outputs.dtype)
        features = relaxation.validate_features(dataset.features, dataset.mask, self.config)
        data = (
            memory.outputs.T,
            boosting.signs(dataset),
            memory.costs,
            weights,
            dataset.mask,
            memory.is_used,
            features,
        )
        margin = jnp.asarray(self.margin, memory.outputs.dtype)
        return relaxation.solve_instance(
            self.config, data, margin, tolerance, memory.either, memory.warm, most_rounds
        )

    def instance(
        self, dataset: Dataset, outputs: Array, costs: Array, is_used: Array
    ) -> local_search.VoteInstance:
        """The instance of (15) over the columns in use."""
        weights = jnp.where(dataset.mask, dataset.weights.astype(outputs.dtype), 0.0)
        return local_search.VoteInstance(
            outputs * boosting.signs(dataset)[None, :],
            weights,
            costs,
            is_used,
            jnp.asarray(self.margin, outputs.dtype),
        )

    def has_solved(self, memory: L0Memory) -> Array:
        """Whether (18) has been solved and the current cuts are those valid for (15), [] bool."""
        return memory.either & (self.config.cuts == "ordered")

    def votes(self, best: local_search.FeasibleVote) -> Array:
        """The coefficients of the hypotheses, equal for the outputs -1 and +1, [capacity, 2]."""
        own = best.coefficients[NUM_CONSTANTS:]
        return jnp.stack([own, own], axis=1)

    def constant(self, best: local_search.FeasibleVote) -> Array:
        """The coefficient of the constant +1 less that of the constant -1, []."""
        return best.coefficients[0] - best.coefficients[1]

    def certificate(self, memory: L0Memory) -> L0Certificate:
        """The certificate of the memory. No loss is negative, so the lower bound on (15) is at
        least 0.
        """
        proof = memory.proof
        lower = jnp.maximum(memory.integer_lower, 0.0)
        return L0Certificate(
            proof.bound,
            memory.upper,
            memory.upper,
            proof.example_weights,
            lower,
            memory.best.loss,
            proof,
            memory.integer_proof,
        )


def _with_progress(
    memory: L0Memory,
    before: L0Memory,
    proposal: Priced,
    entered: columns.Entered,
    is_closed: Array,
) -> L0Memory:
    """The memory with the gap, the idle rounds and the smoothing after a round."""
    upper, lower = _bounds(memory)
    # the increase of the lower bound if no new column cut off the smoothed duals
    full_gain = proposal.relaxation.lower_bound - _bounds(before)[1]
    expected_gain = (1 - before.smoothing) * full_gain
    has_gained_enough = lower - _bounds(before)[1] > _ENOUGH_GAIN * expected_gain
    is_smaller = upper - lower < _LEAST_GAIN * memory.gap
    has_gained = ((entered.num_new > 0) & ~jnp.all(entered.is_used)) | is_smaller
    return memory._replace(
        either=memory.either | is_closed,
        # Once the gap is closed, the next round solves the other relaxation, of unknown gap.
        gap=jnp.where(is_closed, jnp.inf, jnp.where(is_smaller, upper - lower, memory.gap)),
        num_idle=jnp.where(has_gained | is_closed, 0, memory.num_idle + 1).astype(jnp.int32),
        smoothing=_next_smoothing(memory.smoothing, entered.num_new, has_gained_enough).astype(
            upper.dtype
        ),
    )


def _with_columns(memory: L0Memory, entered: columns.Entered) -> L0Memory:
    primal = memory.warm.primal
    # A new column does not start from the mu of the column that it overwrites.
    primal = primal._replace(
        selected=primal.selected.at[NUM_CONSTANTS + entered.slots].set(0.0, mode="drop")
    )
    return memory._replace(
        outputs=entered.outputs,
        costs=entered.costs,
        is_used=entered.is_used,
        warm=memory.warm._replace(primal=primal),
        relaxation=_without_columns(memory.relaxation, NUM_CONSTANTS + entered.slots),
    )


def _without_columns(solved: L0Relaxation, slots: Array) -> L0Relaxation:
    """The relaxation after columns were written over. It has no upper bound if one of them was
    used.
    """
    is_written = jnp.zeros(solved.coefficients.shape, bool).at[slots].set(True, mode="drop")
    was_used = jnp.any(is_written & ((solved.coefficients > 0) | (solved.selected > 0)))
    return solved._replace(
        coefficients=jnp.where(is_written, 0.0, solved.coefficients),
        selected=jnp.where(is_written, 0.0, solved.selected),
        upper_bound=jnp.where(was_used, jnp.inf, solved.upper_bound),
        status=jnp.where(was_used, int(Status.CAPACITY_LIMIT), solved.status).astype(jnp.int32),
    )


def _not_solved(cold: WarmStart) -> L0Relaxation:
    """A relaxation without solution, with arrays shaped as those of a warm start."""
    zero, none = jnp.zeros_like(cold.convexity), jnp.zeros((), jnp.int32)
    return L0Relaxation(
        coefficients=jnp.zeros_like(cold.primal.coefficients),
        selected=jnp.zeros_like(cold.primal.selected),
        slacks=jnp.zeros_like(cold.primal.slacks),
        lower_bound=zero - jnp.inf,
        upper_bound=zero + jnp.inf,
        example_weights=jnp.zeros_like(cold.dual.example_weights),
        pairs=jnp.full_like(cold.pairs, -1),
        pair_weights=jnp.zeros_like(cold.dual.pair_weights),
        convexity=zero,
        num_cuts=none,
        num_iterations=none,
        num_rounds=none,
        warm=(),
        status=jnp.full((), int(Status.UNFINISHED), jnp.int32),
    )


def _next_smoothing(smoothing: Array, num_new: Array, has_gained_enough: Array) -> Array:
    """Less smoothing after a round of enough gain, more after others, none without new columns."""
    more = jnp.clip(_MORE_SMOOTHING * smoothing, _LEAST_SMOOTHING, _FIRST_SMOOTHING)
    return jnp.where(
        num_new > 0, jnp.where(has_gained_enough, _LESS_SMOOTHING * smoothing, more), 0.0
    )


def _bounds(memory: L0Memory) -> tuple[Array, Array]:
    """The upper and the lower bound on the current relaxation."""
    return jnp.where(memory.either, memory.integer_upper, memory.upper), jnp.where(
        memory.either, memory.integer_proof.bound, memory.proof.bound
    )


def _nothing_proven(cold: WarmStart) -> PricingProof:
    """A proof of the bound -inf, with arrays shaped as those of a warm start."""
    zero = jnp.zeros_like(cold.convexity)
    return PricingProof(
        zero - jnp.inf,
        cold.dual.example_weights,
        cold.pairs,
        cold.dual.pair_weights,
        zero,
        zero,
        zero,
    )
