"""L0-RBoost: column generation for the relaxation (18) of paper 001 (Goldberg, Eckstein 2009), Algorithm 1 with the full pricing problem.

Columns come two questions at a time (`pricing`), cuts within `solve_relaxation`. The two constants are columns from the start; their coefficients are
the `constant` of the ensemble, lambda its votes. Every round proves a lower bound over all hypotheses of the learner and an upper bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import boosting, check
from jboost.base.boosting import Absorbed, Ensemble, Fit, Info, State
from jboost.base.records import register
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset, PyTree
from jboost.l0 import integer, pricing, relaxation
from jboost.l0.pricing import Priced, Proof
from jboost.l0.types import L0Relaxation, RelaxationConfig, WarmStart

_NUM_CONSTANTS = 2
_SHARE_OF_TOLERANCE = 0.3


class L0Certificate(NamedTuple):
    """Bounds on (18) and on the sparse minimum disagreement problem (15), over all hypotheses of the learner."""

    lower_bound: Array  # [] of (18), proven by `proof`
    upper_bound: Array  # [] of (18), attained over the columns seen
    seen_upper_bound: Array  # [] the same: columns not seen only lower it
    example_weights: Array  # [m] w
    integer_lower_bound: Array  # [] of (15), proven by `integer_proof`
    integer_upper_bound: Array  # [] of (15), attained by the votes of the ensemble
    proof: Proof
    integer_proof: Proof  # with the cuts "either", which hold of (15) where hypotheses abstain too


class Memory(NamedTuple):
    """Between two rounds; columns 0 and 1 are the constants."""

    outputs: Array  # [2 + capacity, m] H
    costs: Array  # [2 + capacity] c
    count: Array  # [] int32 columns beside the constants
    signs: Array  # [m] labels, 0 for padding
    weights: Array  # [m] what an error costs, 0 for padding
    relaxation: L0Relaxation  # the last one
    upper: Array  # [] of (18)
    proof: Proof  # of a lower bound on (18)
    either: Array  # [] bool, whether the relaxation is now the one that holds of (15)
    integer_upper: Array  # [] of that one
    integer_proof: Proof
    best: integer.Vote  # the best point of (15) so far


@register
@dataclasses.dataclass(frozen=True)
class L0:
    """The booster of one margin."""

    margin: ArrayLike
    tolerance: ArrayLike
    constant_cost: ArrayLike
    config: RelaxationConfig = dataclasses.field(metadata={"static": True})
    search: integer.SearchConfig = dataclasses.field(metadata={"static": True})
    bounds_integer: bool = dataclasses.field(metadata={"static": True})

    def capacity(self, max_rounds: int, num_proposed: int) -> int:
        """All proposed columns are taken, of both questions."""
        return 2 * max_rounds * num_proposed

    def init(self, dataset: Dataset, capacity: int) -> Absorbed:
        """The two constants, and nothing known."""
        signs = boosting.signs(dataset)
        dtype, num_examples = signs.dtype, signs.shape[0]
        constants = jnp.where(dataset.mask[None, :], jnp.array([[1.0], [-1.0]], dtype), 0.0)
        outputs = jnp.zeros((_NUM_CONSTANTS + capacity, num_examples), dtype).at[:_NUM_CONSTANTS].set(constants)
        costs = jnp.zeros((_NUM_CONSTANTS + capacity,), dtype).at[:_NUM_CONSTANTS].set(self.constant_cost)
        weights = jnp.where(dataset.mask, dataset.weights.astype(dtype), 0.0)
        zero, count = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
        cold = relaxation.cold(num_examples, _NUM_CONSTANTS + capacity, self.config)
        nothing = _nothing_proven(cold)
        either = jnp.asarray(self.config.cuts == "either")
        best = integer.evaluate(self.instance(outputs, costs, count, signs, weights), jnp.ones_like(costs))
        memory = Memory(
            outputs, costs, count, signs, weights, self.unsolved(outputs, cold), zero + jnp.inf, nothing, either, zero + jnp.inf, nothing, best
        )
        first = boosting.before_first_round(memory, weights, self.certificate(memory), capacity)
        return first._replace(votes=self.votes(best), constant=self.constant(best))

    def unsolved(self, outputs: Array, cold: WarmStart) -> L0Relaxation:
        """A relaxation to go on from that says nothing."""
        shapes = jax.eval_shape(
            lambda: self.relax(outputs, outputs[:, 0], jnp.zeros((), jnp.int32), outputs[0], outputs[0], cold, jnp.asarray(False))
        )
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)._replace(warm=cold)

    def ask(self, memory: Memory, learner: Any, state: PyTree, example_weights: Array) -> Priced:
        """The relaxation over the columns so far, and both questions of its pricing problem."""
        del example_weights
        solved = self.relax(memory.outputs, memory.costs, memory.count, memory.signs, memory.weights, memory.relaxation.warm, memory.either)
        return pricing.ask(learner, state, solved, memory.either)

    def absorb(self, memory: Memory, dataset: Dataset, proposal: Priced, ensemble: Ensemble) -> Absorbed:
        """One round: an upper bound from the relaxation, a lower bound from the answers, their columns in."""
        del dataset
        memory = self.note(memory, proposal)
        upper = jnp.where(memory.either, memory.integer_upper, memory.upper)
        lower = jnp.where(memory.either, memory.integer_proof.bound, memory.proof.bound)
        is_closed = upper - lower <= self.tolerance * jnp.maximum(upper, 1.0)
        outputs, costs, slots, count = enter(memory.outputs, memory.costs, memory.count, proposal, ~is_closed)
        is_stuck = (count == memory.count) & ~is_closed & jnp.all(costs == memory.costs)
        is_last = memory.either | (not self.bounds_integer)
        rounded = integer.evaluate(self.instance(outputs, costs, count, memory.signs, memory.weights), proposal.relaxation.coefficients)
        best = integer.better(memory.best, rounded)
        memory = memory._replace(outputs=outputs, costs=costs, count=count, either=memory.either | is_closed, best=best)
        missed = jnp.where(is_last & memory.either & (self.config.cuts == "ordered"), int(Status.OPTIMAL), int(Status.PRECISION_LIMIT))
        status = jnp.where(is_closed & is_last, int(Status.OPTIMAL), jnp.where(is_stuck, missed, int(Status.UNFINISHED)))
        is_invalid = proposal.relaxation.status == int(Status.INVALID_INPUT)
        return Absorbed(
            memory=memory,
            example_weights=proposal.relaxation.example_weights,
            slots=slots,
            votes=self.votes(best),
            constant=self.constant(best),
            count=count,
            certificate=self.certificate(memory),
            edge=jnp.max(proposal.values),
            status=jnp.where(is_invalid, int(Status.INVALID_INPUT), status),
        )

    def note(self, memory: Memory, proposal: Priced) -> Memory:
        """The bounds that a round proves, on the one relaxation or the other."""
        solved, either = proposal.relaxation, memory.either
        cost = jnp.asarray(self.constant_cost, memory.upper.dtype)
        upper = jnp.minimum(jnp.where(either, memory.integer_upper, memory.upper), solved.upper_bound)
        fresh = pricing.prove(proposal, memory.signs, margin=jnp.asarray(self.margin, cost.dtype), constant_cost=cost, upper=upper)
        proof = pricing.better(memory.proof, fresh, ~either)
        if self.config.cuts == "either":  # its bounds are of both problems
            return memory._replace(upper=upper, proof=pricing.better(memory.proof, fresh, either), integer_upper=upper, integer_proof=fresh)._replace(
                integer_proof=pricing.better(memory.integer_proof, fresh, either), relaxation=solved
            )
        return memory._replace(
            relaxation=solved,
            upper=jnp.where(either, memory.upper, upper),
            proof=proof,
            integer_upper=jnp.where(either, upper, memory.integer_upper),
            integer_proof=pricing.better(memory.integer_proof, fresh, either),
        )

    def relax(self, outputs: Array, costs: Array, count: Array, signs: Array, weights: Array, warm: WarmStart, either: Array) -> L0Relaxation:
        """The relaxation over the constants and the columns in use."""
        is_example = weights > 0
        data = (outputs.T, jnp.where(is_example, signs, 1.0), costs, jnp.where(is_example, weights, 1.0), is_example, is_used(costs, count))
        dtype = outputs.dtype
        tolerance = jnp.maximum(_SHARE_OF_TOLERANCE * jnp.asarray(self.tolerance, dtype), 1e-6)
        return relaxation.solve_instance(self.config, data, jnp.asarray(self.margin, dtype), tolerance, either, warm)

    def instance(self, outputs: Array, costs: Array, count: Array, signs: Array, weights: Array) -> integer.Instance:
        """(15) over the columns in use."""
        return integer.Instance(outputs * signs[None, :], weights, costs, is_used(costs, count), jnp.asarray(self.margin, outputs.dtype))

    def votes(self, best: integer.Vote) -> Array:
        """The coefficients of the hypotheses, the same for both answers, [capacity, 2]."""
        own = best.coefficients[_NUM_CONSTANTS:]
        return jnp.stack([own, own], axis=1)

    def constant(self, best: integer.Vote) -> Array:
        """What the two constants vote, []."""
        return best.coefficients[0] - best.coefficients[1]

    def certificate(self, memory: Memory) -> L0Certificate:
        """What the user sees of it; no loss is negative."""
        proof = memory.proof
        lower = jnp.maximum(memory.integer_proof.bound, 0.0)
        return L0Certificate(proof.bound, memory.upper, memory.upper, proof.example_weights, lower, memory.best.loss, proof, memory.integer_proof)


def _nothing_proven(cold: WarmStart) -> Proof:
    zero = jnp.zeros_like(cold.convexity)
    return Proof(zero - jnp.inf, cold.dual.example_weights, cold.pairs, cold.dual.pair_weights, zero, zero, zero)


def is_used(costs: Array, count: Array) -> Array:
    """Which columns are constants or hypotheses, [2 + capacity] bool."""
    return jnp.arange(costs.shape[0]) < _NUM_CONSTANTS + count


def enter(outputs: Array, costs: Array, count: Array, priced: Priced, is_wanted: Array) -> tuple[Array, Array, Array, Array]:
    """Writes new columns into free slots, and in place of an equal one where they cost less.

    Returns:
      Outputs, costs, the ensemble's slots [k] int32 (its capacity where nothing is to be written), and the count.
    """
    size = costs.shape[0]

    def write(carry: tuple[Array, Array, Array], item: tuple[Array, Array]) -> tuple[tuple[Array, Array, Array], Array]:
        outputs, costs, count = carry
        row, cost = item
        is_same = jnp.all(outputs == row[None, :], axis=1) & is_used(costs, count)
        place = jnp.argmax(is_same)
        is_known = jnp.any(is_same)
        pays = is_wanted & jnp.where(is_known, (place >= _NUM_CONSTANTS) & (cost < costs[place]), True)
        slot = jnp.where(pays, jnp.where(is_known, place, _NUM_CONSTANTS + count), size).astype(jnp.int32)
        count = count + (pays & ~is_known & (_NUM_CONSTANTS + count < size)).astype(jnp.int32)
        return (outputs.at[slot].set(row, mode="drop"), costs.at[slot].set(cost, mode="drop"), count), slot - _NUM_CONSTANTS

    (outputs, costs, count), slots = lax.scan(write, (outputs, costs, count), (priced.outputs, priced.costs))
    return outputs, costs, slots, count


def make_booster(
    *,
    margin: ArrayLike,
    tolerance: ArrayLike = 1e-3,
    constant_cost: ArrayLike = 0.0,
    config: RelaxationConfig | None = None,
    search: integer.SearchConfig | None = None,
    bound_integer: bool = True,
) -> L0:
    """The booster of these options. Raises ValueError, naming the argument."""
    margin = check.number("margin", margin, low=0, high=1, open_low=True).astype(float)
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True).astype(float)
    constant_cost = check.number("constant_cost", constant_cost, low=0).astype(float)
    settings = RelaxationConfig() if config is None else config
    if not isinstance(settings, RelaxationConfig):
        raise ValueError(f"config is a {type(config).__name__}: a jboost.l0.RelaxationConfig is wanted")
    return L0(margin, tolerance, constant_cost, settings, integer.SearchConfig() if search is None else search, bound_integer)


def judge_learner(learner: Any) -> None:
    """Raises ValueError unless the learner can price."""
    missing = [name for name in ("prices", "price", "least_price") if not hasattr(learner, name)]
    if missing:
        raise ValueError(
            f"learner is a {type(learner).__name__} without {', '.join(missing)}: hand in one that prices pairs, as jboost.learners.monomials"
        )


def init(dataset: Dataset, learner: Any, *, key: Array | None = None, max_rounds: int = 100, **options: Any) -> State:
    """The state before the first round, for a loop of one's own: `step(state, dataset)`, `finish(state, dataset)`. Takes what `fit` takes."""
    judge_learner(learner)
    return boosting.start(make_booster(constant_cost=_constant_cost(learner), **options), learner, dataset, key=key, max_rounds=max_rounds)


step = boosting.step


def _constant_cost(learner: Any) -> ArrayLike:
    return getattr(learner, "constant_cost", 0.0)


@jax.jit
def finish(state: State, dataset: Dataset) -> Fit:
    """What a state has come to: the best point of (15) that the local search finds from the points at hand."""
    fitted = boosting.finish(state)
    booster, memory = state.booster, state.memory
    del dataset
    instance = booster.instance(memory.outputs, memory.costs, memory.count, memory.signs, memory.weights)
    relaxed = memory.relaxation
    starts = jnp.stack([memory.best.coefficients, relaxed.coefficients, relaxed.selected])
    found = jax.vmap(lambda start: integer.search(instance, integer.evaluate(instance, start), config=booster.search))(starts)
    best = memory.best
    for index in range(starts.shape[0]):
        best = integer.better(best, jax.tree.map(lambda leaf, index=index: leaf[index], found))
    sound = jnp.isfinite(fitted.certificate.upper_bound)
    certificate = fitted.certificate._replace(integer_upper_bound=jnp.where(sound, best.loss, fitted.certificate.integer_upper_bound))
    ensemble = fitted.ensemble._replace(votes=booster.votes(best), constant=booster.constant(best))
    used_up = (fitted.status == int(Status.ROUND_LIMIT)) & memory.either & (booster.config.cuts == "ordered")  # (18) is solved, (15) not bounded yet
    status = jnp.where(used_up, int(Status.OPTIMAL), fitted.status).astype(jnp.int32)
    return fitted._replace(ensemble=ensemble, certificate=certificate, status=status)


def fit(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    margin: ArrayLike,
    tolerance: ArrayLike = 1e-3,
    config: RelaxationConfig | None = None,
    search: integer.SearchConfig | None = None,
    bound_integer: bool = True,
    on_step: Callable[[State, Info], bool | None] | None = None,
) -> Fit:
    """L0-RBoost: few hypotheses and few errors, by column generation on the tightened relaxation, then a local search (paper 001, Algorithm 1).

    Minimises sum_i weight_i I(y_i H_i lambda < rho) + sum_u c_u I(lambda_u > 0) over lambda >= 0, sum lambda = 1 (15), through its relaxation (18)
    with all pair cuts, over all hypotheses of the learner.

    Args:
      dataset: of m examples; `weights` are the prices of misclassifying them.
      learner: one that prices, as `jboost.learners.monomials`: outputs -1, 0 or +1, costs its own. The two constants are hypotheses besides, at
        the learner's `constant_cost`.
      key: for learners that draw random numbers.
      max_rounds: how many pairs of questions there is room for; static.
      margin: [] rho in (0, 1]; the paper takes 20 / m.
      tolerance: [] the gap between the bounds on (18) at which to stop, relative to the upper one, where that is more than 1; in float32 not
        below 3e-4.
      config: static; how the relaxation is solved.
      search: static; sizes of the local search.
      bound_integer: static; whether rounds go on after (18) is solved until (15) is bounded too, by the relaxation with the cuts "either" of
        `RelaxationConfig`: those of the paper do not hold of (15) where hypotheses abstain.
      on_step: called with (state, info) between rounds, on the host; False ends the loop with status TIME_LIMIT. The state that it was given
        last goes on by `step`. Not under jit or vmap.

    Returns:
      A `Fit` with an `L0Certificate`: lower_bound <= optimum of (18) over all hypotheses <= upper_bound, and integer_lower_bound <= optimum of
      (15) <= integer_upper_bound, which the ensemble attains. PRECISION_LIMIT where a round brings no new column and the gap is still open.

    Raises:
      ValueError: at trace time, naming the argument; for a margin outside (0, 1] where it is concrete.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 3, [1, -1, -1, -1] * 3)
    >>> fitted = jboost.l0.fit(dataset, jboost.learners.monomials(2, kappa=0.1), margin=0.1)
    >>> jboost.predict(fitted.ensemble, dataset.features).tolist()[:4]
    [1, -1, -1, -1]
    """
    judge_learner(learner)
    booster = make_booster(
        margin=margin,
        tolerance=tolerance,
        constant_cost=_constant_cost(learner),
        config=config,
        search=search,
        bound_integer=bound_integer,
    )
    boosting.judge_arguments(learner, max_rounds)
    if on_step is not None:
        return boosting.drive(booster, learner, dataset, on_step, key=key, max_rounds=max_rounds, finish=finish)
    return boosting.run(booster, learner, dataset, key=key, max_rounds=max_rounds, finish=finish)
