"""L0-RBoost: column generation for the relaxation (18) of paper 001 (Goldberg, Eckstein 2009),
Algorithm 1 with the full pricing problem.

Columns come two questions at a time (`pricing`), cuts within `solve_relaxation`. The two constants
are columns from the start; their coefficients are the `constant` of the ensemble, lambda its votes.
Every round proves a lower bound over all hypotheses of the learner and an upper bound.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import boosting, check, derivatives, devices, loops, meshes, numerics
from jboost.base.boosting import Absorbed, Ensemble, Fit, State
from jboost.base.loops import OnStep
from jboost.base.records import register
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset, PyTree
from jboost.l0 import pricing, relaxation
from jboost.l0.pricing import Priced, Proof
from jboost.l0.types import L0Relaxation, RelaxationConfig, WarmStart
from jboost.l0.votes import local_search, rounded

VoteConfig = local_search.SearchConfig | rounded.RelaxedConfig

_NUM_CONSTANTS = 2
_CONSTANTS = tuple(range(_NUM_CONSTANTS))
_SHARE_OF_TOLERANCE = 0.3
# of the gap over all hypotheses, what a relaxation may leave open; and the most of it
_SHARE_OF_GAP, _COARSEST = 0.1, 0.05
# a gap from which columns are worth more than cuts, and rounds of cuts before they are asked for
_WIDE, _EARLY_ROUNDS = 0.5, 2
# towards the duals of the best proof, while that finds columns (Wentges 1997): at most, and after
# vain rounds
_FIRST_PULL, _LEAST_PULL = 0.5, 0.2
# a round that proves so much of what columns that cut nothing off would, and what it leaves of the
# pull
_AS_HOPED, _LESS_PULL = 0.5, 0.5
_MORE_PULL = 1.4  # what another round does to it
_DEFAULT_CONFIG = RelaxationConfig(max_rounds=8)  # of a round of columns: the next one goes on
_MAX_IDLE = 12  # rounds with hardly better bounds, and no new column or no room for more
_FINEST = {4: 1e-6, 8: 1e-10}  # by the size of a float: what a relaxation may be asked for
_FINER = 0.5  # what is asked of the relaxation after each such round, of what was asked before
_LEAST_GAIN = 0.98  # of the gap, what may be left of it once rounds have brought something
# mu + lambda of a column that may go, less the share of its cost that it is too dear by
_WORTHLESS = 1e-3


class L0Certificate(NamedTuple):
    """Bounds on (18), with the cuts that were asked for, and on the sparse minimum disagreement
    problem (15), over all hypotheses.
    """

    lower_bound: Array  # [] of (18), proven by `proof`
    upper_bound: Array  # [] of (18), attained over the columns seen
    seen_upper_bound: Array  # [] the same: columns not seen only lower it
    example_weights: Array  # [m] w
    # [] of (15), proven by `integer_proof`, and rounded up by `integer.round_up` where its values
    # are few
    integer_lower_bound: Array
    integer_upper_bound: Array  # [] of (15), attained by the votes of the ensemble
    proof: Proof
    integer_proof: Proof  # with the cuts "either", which hold of (15) where hypotheses abstain too


class Memory(NamedTuple):
    """Between two rounds; columns 0 and 1 are the constants."""

    outputs: Array  # [2 + capacity, m] H
    costs: Array  # [2 + capacity] c
    is_used: Array  # [2 + capacity] bool
    warm: WarmStart  # from the last relaxation
    upper: Array  # [] of (18)
    proof: Proof  # of a lower bound on (18)
    either: Array  # [] bool, whether the relaxation is now the one that holds of (15)
    integer_upper: Array  # [] of that one
    integer_proof: Proof
    integer_lower: Array  # [] what it proves of (15)
    best: local_search.Vote  # the best point of (15) so far
    gap: Array  # [] when a round last brought something
    num_idle: Array  # [] int32 rounds in a row that brought nothing
    # [] how far the next duals that ask are from those of the relaxation, towards the best so far
    pull: Array


@register
@dataclasses.dataclass(frozen=True)
class L0(boosting.Booster):
    """The booster of one margin."""

    margin: ArrayLike
    tolerance: ArrayLike
    constant_cost: ArrayLike
    config: RelaxationConfig = dataclasses.field(metadata={"static": True})
    search: VoteConfig = dataclasses.field(metadata={"static": True})
    max_columns: int = dataclasses.field(metadata={"static": True})
    bounds_integer: bool = dataclasses.field(metadata={"static": True})

    @property
    def takes_each_once(self) -> bool:
        """Equal columns share a slot."""
        return True

    @property
    def takes_turns(self) -> bool:
        """Rounds are relaxations and searches of unequal length."""
        return True

    def capacity(self, max_rounds: int, num_proposed: int) -> int:
        """Room for all columns that are proposed, of both questions, or for so many; columns of no
        use make room for others.
        """
        return min(2 * max_rounds * num_proposed, self.max_columns)

    def init(self, dataset: Dataset, capacity: int) -> Absorbed:
        """The two constants, and nothing known."""
        signs = boosting.signs(dataset)
        dtype, num_examples = signs.dtype, signs.shape[0]
        constants = jnp.where(dataset.mask[None, :], jnp.array([[1.0], [-1.0]], dtype), 0.0)
        outputs = (
            jnp.zeros((_NUM_CONSTANTS + capacity, num_examples), dtype)
            .at[:_NUM_CONSTANTS]
            .set(constants)
        )
        costs = (
            jnp.zeros((_NUM_CONSTANTS + capacity,), dtype)
            .at[:_NUM_CONSTANTS]
            .set(self.constant_cost)
        )
        is_used = jnp.arange(_NUM_CONSTANTS + capacity) < _NUM_CONSTANTS
        cold = relaxation.cold(num_examples, _NUM_CONSTANTS + capacity, self.config)
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
    ) -> Memory:
        """Columns of which nothing is proven yet, and the point of (15) next to some
        coefficients.
        """
        infinite = jnp.full((), jnp.inf, outputs.dtype)
        nothing = _nothing_proven(warm)
        return Memory(
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
            pull=jnp.full((), _FIRST_PULL, outputs.dtype),
        )

    def ask(self, memory: Memory, dataset: Dataset, learner: Any, state: PyTree) -> Priced:
        """The relaxation over the columns so far, no more precise than the gap asks for, and both
        questions of its pricing problem.
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
        # the relaxation's is relative to that
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
        asked = pricing.between(best, solved, jnp.where(best.bound > -jnp.inf, memory.pull, 0.0))
        return pricing.ask(learner, state, asked, solved, memory.either)

    def absorb(
        self, memory: Memory, dataset: Dataset, proposal: Priced, ensemble: Ensemble
    ) -> Absorbed:
        """One round: an upper bound from the relaxation, a lower bound from the answers, their
        columns in.
        """
        before, was_either = _bounds(memory)[1], memory.either
        hoped = (1 - memory.pull) * (proposal.relaxation.lower_bound - before)
        memory = self.note(memory, dataset, proposal)
        is_as_hoped = _bounds(memory)[1] - before > _AS_HOPED * hoped
        weights = jnp.where(dataset.mask, dataset.weights, 0)
        prices = jnp.concatenate(
            [proposal.prices, jnp.asarray(self.constant_cost, proposal.prices.dtype)[None]]
        )
        memory = memory._replace(
            integer_lower=jnp.maximum(
                memory.integer_lower,
                local_search.round_up(memory.integer_proof.bound, weights, prices),
            )
        )
        upper, lower = _bounds(memory)
        is_closed = local_search.have_met(lower, upper, self.tolerance)
        rounded = local_search.evaluate(
            self.instance(dataset, memory.outputs, memory.costs, memory.is_used),
            proposal.relaxation.coefficients,
        )
        best = local_search.better(memory.best, rounded)
        solved = proposal.relaxation
        too_dear = pricing.reduced_costs(
            memory.outputs * boosting.signs(dataset)[None, :], memory.costs, solved, was_either
        )
        worth = solved.selected + solved.coefficients - numerics.safe_divide(too_dear, memory.costs)
        worth = jnp.where(best.coefficients > 0, jnp.inf, worth).at[:_NUM_CONSTANTS].set(jnp.inf)
        entered = enter(memory.outputs, memory.costs, memory.is_used, proposal, worth, ~is_closed)
        lacks_room = jnp.all(entered.is_used)
        is_smaller = upper - lower < _LEAST_GAIN * memory.gap
        has_gained = ((entered.num_new > 0) & ~lacks_room) | is_smaller
        num_idle = jnp.where(has_gained | is_closed, 0, memory.num_idle + 1).astype(jnp.int32)
        is_stuck = num_idle >= _MAX_IDLE
        lacks_cuts = solved.status == int(Status.CAPACITY_LIMIT)
        missed = jnp.where(
            lacks_room | lacks_cuts, int(Status.CAPACITY_LIMIT), int(Status.PRECISION_LIMIT)
        )
        is_last = memory.either | (not self.bounds_integer)
        primal = memory.warm.primal
        # of a column that made room
        primal = primal._replace(
            selected=primal.selected.at[_NUM_CONSTANTS + entered.slots].set(0.0, mode="drop")
        )
        memory = memory._replace(
            outputs=entered.outputs,
            costs=entered.costs,
            is_used=entered.is_used,
            best=best,
            warm=memory.warm._replace(primal=primal),
        )
        # on to the other relaxation, where it is closed
        gap = jnp.where(is_closed, jnp.inf, jnp.where(is_smaller, upper - lower, memory.gap))
        more_pull = jnp.clip(_MORE_PULL * memory.pull, _LEAST_PULL, _FIRST_PULL)
        pull = jnp.where(
            entered.num_new > 0, jnp.where(is_as_hoped, _LESS_PULL * memory.pull, more_pull), 0.0
        )
        memory = memory._replace(
            either=memory.either | is_closed,
            gap=gap,
            num_idle=num_idle,
            pull=pull.astype(upper.dtype),
        )
        is_solved = (is_closed & is_last) | (is_stuck & self.has_solved(memory))
        status = jnp.where(
            is_solved, int(Status.OPTIMAL), jnp.where(is_stuck, missed, int(Status.UNFINISHED))
        )
        is_invalid = proposal.relaxation.status == int(Status.INVALID_INPUT)
        return Absorbed(
            memory=memory,
            example_weights=proposal.relaxation.example_weights,
            slots=entered.slots,
            votes=self.votes(best),
            constant=self.constant(best),
            count=jnp.sum(entered.is_used, dtype=jnp.int32) - _NUM_CONSTANTS,
            certificate=self.certificate(memory),
            edge=jnp.max(proposal.values),
            status=jnp.where(is_invalid, int(Status.INVALID_INPUT), status),
        )

    def note(self, memory: Memory, dataset: Dataset, proposal: Priced) -> Memory:
        """The bounds that a round proves, on the one relaxation or the other."""
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
        self, memory: Memory, dataset: Dataset, tolerance: Array, most_rounds: Array
    ) -> L0Relaxation:
        """The relaxation over the columns in use."""
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
    ) -> local_search.Instance:
        """(15) over the columns in use."""
        weights = jnp.where(dataset.mask, dataset.weights.astype(outputs.dtype), 0.0)
        return local_search.Instance(
            outputs * boosting.signs(dataset)[None, :],
            weights,
            costs,
            is_used,
            jnp.asarray(self.margin, outputs.dtype),
        )

    def has_solved(self, memory: Memory) -> Array:
        """Whether (18) was solved, and the cuts in force are those that hold of (15), [] bool."""
        return memory.either & (self.config.cuts == "ordered")

    def votes(self, best: local_search.Vote) -> Array:
        """The coefficients of the hypotheses, the same for both answers, [capacity, 2]."""
        own = best.coefficients[_NUM_CONSTANTS:]
        return jnp.stack([own, own], axis=1)

    def constant(self, best: local_search.Vote) -> Array:
        """What the two constants vote, []."""
        return best.coefficients[0] - best.coefficients[1]

    def certificate(self, memory: Memory) -> L0Certificate:
        """What the user sees of it; no loss is negative."""
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


def _bounds(memory: Memory) -> tuple[Array, Array]:
    """The upper and the lower bound on the relaxation that is now in force."""
    return jnp.where(memory.either, memory.integer_upper, memory.upper), jnp.where(
        memory.either, memory.integer_proof.bound, memory.proof.bound
    )


def _nothing_proven(cold: WarmStart) -> Proof:
    zero = jnp.zeros_like(cold.convexity)
    return Proof(
        zero - jnp.inf,
        cold.dual.example_weights,
        cold.pairs,
        cold.dual.pair_weights,
        zero,
        zero,
        zero,
    )


class Entered(NamedTuple):
    """The columns after a round."""

    outputs: Array  # [2 + capacity, m]
    costs: Array  # [2 + capacity]
    is_used: Array  # [2 + capacity] bool
    slots: Array  # [k] int32 of the ensemble, its capacity for what is not taken
    num_new: Array  # [] int32


def enter(
    outputs: Array, costs: Array, is_used: Array, priced: Priced, worth: Array, is_wanted: Array
) -> Entered:
    """Writes new columns into free slots, then into those of no worth; and in place of an equal one
    where they cost less.

    Args:
      outputs: [n, m].
      costs: [n].
      is_used: [n] bool.
      priced: the proposals; those of value -inf are none.
      worth: [n] of the columns in use; inf for those that stay.
      is_wanted: [] bool, whether to take any.
    """
    size = costs.shape[0]
    # a constant keeps its slot, and what equals it and costs less has one of its own
    is_proposed = jnp.arange(size) >= _NUM_CONSTANTS
    room = jnp.argsort(jnp.where(is_used, worth, -1.0))
    num_room = jnp.sum(~is_used | (worth < _WORTHLESS), dtype=jnp.int32)

    def write(carry: tuple[Array, ...], item: tuple[Array, ...]) -> tuple[tuple[Array, ...], Array]:
        outputs, costs, is_used, num_new = carry
        row, cost, is_proposal = item
        is_same = (
            jnp.all(outputs == row[None, :], axis=1) & is_used & (is_proposed | (costs <= cost))
        )
        place, is_known = jnp.argmax(is_same), jnp.any(is_same)
        pays = (
            is_wanted
            & is_proposal
            & jnp.where(is_known, is_proposed[place] & (cost < costs[place]), num_new < num_room)
        )
        slot = jnp.where(
            pays, jnp.where(is_known, place, room[jnp.minimum(num_new, size - 1)]), size
        ).astype(jnp.int32)
        carry = (
            outputs.at[slot].set(row, mode="drop"),
            costs.at[slot].set(cost, mode="drop"),
            is_used.at[slot].set(True, mode="drop"),
            num_new + (pays & ~is_known).astype(jnp.int32),
        )
        return carry, slot - _NUM_CONSTANTS

    start = (outputs, costs, is_used, jnp.zeros((), jnp.int32))
    (outputs, costs, is_used, num_new), slots = loops.scan(
        write, start, (priced.outputs, priced.costs, priced.values > -jnp.inf)
    )
    return Entered(outputs, costs, is_used, slots, num_new)


def make_booster(
    learner: Any,
    *,
    margin: ArrayLike,
    tolerance: ArrayLike = 1e-3,
    config: RelaxationConfig | None = None,
    search: VoteConfig | None = None,
    max_columns: int = 256,
    bound_integer: bool = True,
) -> L0:
    """The booster of these options for a learner. Raises ValueError, naming the argument."""
    margin = check.number("margin", margin, low=0, high=1, open_low=True).astype(float)
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True).astype(float)
    check.count("max_columns", max_columns, low=1)
    settings = check.config(
        "config", _DEFAULT_CONFIG if config is None else config, RelaxationConfig
    )
    check.choice("bound_integer", bound_integer, (True, False))
    return L0(
        margin,
        tolerance,
        constant_cost_of(learner),
        settings,
        validate_search(search),
        max_columns,
        bound_integer,
    )


def validate_search(search: Any) -> VoteConfig:
    """The kind of final vote, a local search for None. Raises ValueError where it is none."""
    return check.config("search", search, local_search.SearchConfig, rounded.RelaxedConfig)


def validate_learner(learner: Any) -> None:
    """Raises ValueError unless the learner can price."""
    missing = [name for name in ("prices", "price", "least_price") if not hasattr(learner, name)]
    if missing:
        raise ValueError(
            f"learner is a {type(learner).__name__} without {', '.join(missing)}: pass one that"
            " prices pairs, as jboost.learners.monomials"
        )


def begin_fit(
    dataset: Dataset, learner: Any, *, max_rounds: int, **options: Any
) -> tuple[L0, Dataset]:
    """The booster of these options, for a learner and data that suit it, and the data set as it
    counts. Raises ValueError, naming the argument.
    """
    validate_learner(learner)
    dataset = boosting.check_arguments(learner, dataset, max_rounds)
    boosting.validate_size(dataset)
    booster = make_booster(learner, **options)
    relaxation.validate_features(dataset.features, dataset.mask, booster.config)
    return booster, dataset


def constant_cost_of(learner: Any) -> Array:
    """The learner's price of the two constants, []."""
    cost: Array = check.number(
        "constant_cost", getattr(learner, "constant_cost", 0.0), low=0, high=check.LARGEST
    )
    return cost.astype(float)


@meshes.takes_gathered
@derivatives.without("init of a booster")
def init(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    **options: Any,
) -> State:
    """The state before the first round, for a loop of one's own: `step(state, dataset)`,
    `finish(state, dataset)`. Takes what `fit` takes.
    """
    booster, dataset = begin_fit(dataset, learner, max_rounds=max_rounds, **options)
    return boosting.begin(booster, learner, dataset, key=key, max_rounds=max_rounds)


step = boosting.step


def reopen(state: State, margin: Array, dataset: Dataset) -> State:
    """The state for another margin, with its columns and nothing proven."""
    booster, old = dataclasses.replace(state.booster, margin=margin), state.memory
    memory = booster.begin(
        dataset, old.outputs, old.costs, old.is_used, old.warm, old.best.coefficients
    )
    return state._replace(
        booster=booster,
        memory=memory,
        ensemble=state.ensemble._replace(
            votes=booster.votes(memory.best), constant=booster.constant(memory.best)
        ),
        certificate=booster.certificate(memory),
        status=jnp.full((), int(Status.UNFINISHED), jnp.int32),
    )


def _final_vote(
    memory: Memory, instance: local_search.Instance, config: VoteConfig
) -> local_search.Vote:
    """The vote that a config asks for, over the columns at hand."""
    if isinstance(config, rounded.RelaxedConfig):
        return rounded.find(instance, memory.warm.primal.coefficients, config=config)
    return _sparse_vote(memory, instance, config)


def _sparse_vote(
    memory: Memory, instance: local_search.Instance, config: local_search.SearchConfig
) -> local_search.Vote:
    """The best point of (15) that the local search finds from the points at hand."""
    primal = memory.warm.primal
    rounded = local_search.evaluate(
        instance, local_search.limited(memory.best.coefficients, config.max_hypotheses, _CONSTANTS)
    )
    whole = jnp.stack(
        [
            memory.best.coefficients,
            primal.coefficients,
            primal.selected,
            local_search.best_pair(instance).coefficients,
        ]
    )
    starts = jnp.concatenate(
        [
            whole,
            local_search.sparse_starts(primal.coefficients),
            local_search.sparse_starts(primal.selected),
        ]
    )

    def search(start: Array) -> local_search.Vote:
        few = local_search.limited(start, config.max_hypotheses, _CONSTANTS)
        return local_search.search(
            instance,
            local_search.evaluate_near(instance, few),
            config=config,
            companions=_CONSTANTS,
        )

    found = lax.map(search, starts)
    return local_search.better(
        rounded, jax.tree.map(lambda leaf: leaf[jnp.argmin(found.loss)], found)
    )


@meshes.takes_gathered
@devices.host_jit
def finish(state: State, dataset: Dataset) -> Fit:
    """What a state has come to: the final vote over the columns at hand, as `search`
    asks for it.
    """
    fitted = boosting.finish(state)
    booster, memory = state.booster, state.memory
    instance = booster.instance(dataset, memory.outputs, memory.costs, memory.is_used)
    best = _final_vote(memory, instance, booster.search)
    sound = jnp.isfinite(fitted.certificate.upper_bound)
    certificate = fitted.certificate._replace(
        integer_upper_bound=jnp.where(sound, best.loss, fitted.certificate.integer_upper_bound)
    )
    ensemble = fitted.ensemble._replace(votes=booster.votes(best), constant=booster.constant(best))
    ensemble = boosting.unless_invalid(ensemble, fitted.status)
    used_up = (fitted.status == int(Status.ROUND_LIMIT)) & booster.has_solved(memory)
    status = jnp.where(used_up, int(Status.OPTIMAL), fitted.status).astype(jnp.int32)
    return fitted._replace(ensemble=ensemble, certificate=certificate, status=status)


@meshes.takes_gathered
@derivatives.without("jboost.l0.fit")
def fit(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    margin: ArrayLike,
    tolerance: ArrayLike = 1e-3,
    config: RelaxationConfig | None = None,
    search: VoteConfig | None = None,
    max_columns: int = 256,
    bound_integer: bool = True,
    on_step: OnStep | None = None,
    initial: State | None = None,
) -> Fit:
    """L0-RBoost: few hypotheses and few errors, by column generation on the tightened relaxation,
    then a local search (paper 001, Algorithm 1).

    Minimises sum_i weight_i I(y_i H_i lambda < rho) + sum_u c_u I(lambda_u > 0) over lambda >= 0,
    sum lambda = 1 (15), through its relaxation (18) with all pair cuts, over all hypotheses of the
    learner.

    Args:
      dataset: of m examples; `weights` are the prices of misclassifying them.
      learner: one that prices, as `jboost.learners.monomials`: outputs -1, 0 or +1, costs its own.
        The two constants are hypotheses besides, at the learner's `constant_cost`. One of your own
        has these methods besides those of `jboost.learners.Learner`: `prices(state)`, any array of
        costs; `price(state, hypothesis)`, []; `least_price(state)`, [] of all hypotheses; and its
        `propose` takes `pair_weights=` [m, m] and `costs=prices(state)`, to answer with the
        hypotheses of greatest sum over i of w_i y_i h(x_i), plus sum over i, i' of v_ii' where h is
        right on i and not wrong on i' of the other class the other way, less the cost, and an
        `upper_bound` on that sum; `never_abstains(state)`, [] bool, if it likes. One for which the
        matrix of all pairs is too large may have `values_all(state)`, static bool, and where that
        is True `propose_for_pairs(state, example_weights, rewards, costs)` for a list of pairs, a
        `jboost.monomials.short.Rewards`.
      key: for learners that draw random numbers.
      max_rounds: how many pairs of questions there is room for; static. A learner that answers with
        many hypotheses (`num_proposed`, 64 for the command) needs far fewer of them than one that
        answers with its best.
      margin: [] rho in (0, 1]; the paper takes 20 / m.
      tolerance: [] the gap between the bounds on (18) at which to stop, relative to the upper one,
        where that is more than 1; in float32 not below 3e-4.
      config: static; how the relaxation is solved.
      search: static; how the final vote is found: by `SearchConfig()`, the default, one of least
        (15) as far as a local search goes; by `RelaxedConfig()` that of the last relaxation, told
        by a dozen of its hypotheses: more of them, and mostly fewer errors on new examples. Both
        take `max_hypotheses`, which bounds how many vote; what bounds (15) does not know of it.
      max_columns: static; how many hypotheses are held at a time, if the learner has so many. Those
        that have come to be of no use make room for others. The time of a round grows with its
        square.
      bound_integer: static; whether rounds go on after (18) is solved until (15) is bounded too, by
        the relaxation with the cuts "either" of `RelaxationConfig`: those of the paper do not hold
        of (15) where hypotheses abstain.
      on_step: called with (state, info) between rounds, on the host; False ends the loop with
        status TIME_LIMIT. Not under jit or vmap. `jboost.checkpoints` has one that saves the state.
      initial: a state to go on from, as `on_step` of the same fit was given it or `init` makes it;
        None for a fit from the start. It ends in the bits of a fit with an `on_step` that was not
        stopped.

    Returns:
      A `Fit` with an `L0Certificate`: lower_bound <= optimum of (18), with the cuts that `config`
      asks for, over all hypotheses <= upper_bound, and integer_lower_bound <= optimum of
      (15) <= integer_upper_bound, which the ensemble attains. The status speaks of (18): OPTIMAL;
      PRECISION_LIMIT where rounds bring no new column and the gap is still open; CAPACITY_LIMIT
      where columns that would close it find no room (raise `max_columns`), or cuts (raise
      `capacity` of `config`).

    Raises:
      ValueError: at trace time, naming the argument; for a margin outside (0, 1] where it is
        concrete.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 3, [1, -1, -1, -1] * 3)
    >>> fitted = jboost.l0.fit(
    ...     dataset,
    ...     jboost.learners.monomials(2, kappa=0.1),
    ...     margin=0.1,
    ...     max_rounds=10,
    ...     max_columns=32,
    ... )
    >>> jboost.predict(fitted.ensemble, dataset.features).tolist()[:4]
    [1, -1, -1, -1]
    """
    booster, dataset = begin_fit(
        dataset,
        learner,
        max_rounds=max_rounds,
        margin=margin,
        tolerance=tolerance,
        config=config,
        search=search,
        max_columns=max_columns,
        bound_integer=bound_integer,
    )
    options: dict[str, Any] = {"key": key, "max_rounds": max_rounds, "finish": finish}
    return boosting.fit(booster, learner, dataset, on_step=on_step, initial=initial, **options)
