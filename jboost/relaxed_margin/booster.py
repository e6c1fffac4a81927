"""Relaxed-margin boosting for a learner (Shalev-Shwartz and Singer 2008, Figure 1).

The learner proposes columns in rounds. Every round gives certified bounds.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp

from jboost.base import boosting, check, derivatives, loops, meshes, numerics
from jboost.base.boosting import Absorbed, Certificate, Ensemble, Fit, Proposal, State, finish, step
from jboost.base.loops import OnStep
from jboost.base.records import register
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.relaxations import UnitBall, certify, soft_margin, unit_ball
from jboost.relaxations.certify import ProvenBounds
from jboost.relaxations.games import RelaxedGame, SolverConfig
from jboost.relaxations.votes import OfNorm, norm_bound
from jboost.relaxed_margin import updates
from jboost.relaxed_margin.solve import (
    check_feasible,
    status_of,
    validate_exact_relaxation,
    validate_functions,
)
from jboost.relaxed_margin.updates import Votes

# The most iterations of the solver between two proposals. Bounds are valid wherever it stops.
_INNER_ITERATIONS = 8000

__all__ = ["RelaxedMargin", "finish", "fit", "init", "step"]


class RelaxedMarginMemory(NamedTuple):
    """The state of the booster between rounds."""

    columns: Array  # [capacity, m] y_i h_j(x_i); rows of unused slots are 0
    prior: Array  # [m]
    votes: Votes
    proven: ProvenBounds


@register
@dataclasses.dataclass(frozen=True)
class RelaxedMargin(boosting.Booster):
    """The booster, whose example weights are the worst case for the vote under the relaxation."""

    relaxation: Any
    cost: Any
    tolerance: Array  # []
    update: str = dataclasses.field(metadata={"static": True})
    stop_on: str = dataclasses.field(metadata={"static": True})
    config: SolverConfig = dataclasses.field(metadata={"static": True})

    def capacity(self, max_rounds: int, num_proposed: int) -> int:
        """All proposed columns are taken where the votes are corrected fully, else the best."""
        return max_rounds * num_proposed if self.update == "fully_corrective" else max_rounds

    @property
    def takes_turns(self) -> bool:
        """True: members of a batch differ in their rounds, in number and in length."""
        return True

    def init(self, dataset: Dataset, capacity: int) -> Absorbed:
        """No votes: the example weights nearest to the user's that the relaxation allows."""
        prior = boosting.initial_distribution(dataset)
        zero, no_votes = jnp.zeros((), prior.dtype), jnp.zeros((capacity,), prior.dtype)
        weights = self.relaxation.smoothed_argmin(jnp.zeros_like(prior), jnp.ones_like(zero), prior)
        lower = certify.lower_from_margins(
            jnp.zeros_like(prior), norm_bound(no_votes), self.relaxation, self.cost, prior
        )
        proven = ProvenBounds(no_votes, lower, weights, zero, zero + jnp.inf, zero + jnp.inf)
        columns = jnp.zeros((capacity, prior.shape[0]), prior.dtype)
        is_feasible, is_valid = (
            self.relaxation.is_feasible(prior),
            self.relaxation.is_valid() & self.cost.is_valid(),
        )
        memory = RelaxedMarginMemory(
            columns, prior, Votes(no_votes, jnp.zeros_like(prior), weights), proven
        )
        first = boosting.before_first_round(memory, weights, _certificate(proven), capacity)
        status = jnp.where(is_feasible, first.status, int(Status.INFEASIBLE))
        return first._replace(status=jnp.where(is_valid, status, int(Status.INVALID_INPUT)))

    def absorb(
        self, memory: RelaxedMarginMemory, dataset: Dataset, proposal: Proposal, ensemble: Ensemble
    ) -> Absorbed:
        """One round: adds the columns, and updates the votes and both bounds.

        The upper bound comes from the example weights under which the columns were proposed, the
        lower bound from the new votes.
        """
        weights = memory.votes.example_weights
        rows = proposal.outputs * boosting.signs(dataset)[None, :]
        edges = numerics.product(rows, weights)
        best = jnp.argmax(jnp.abs(edges))
        is_added = (
            jnp.ones_like(edges, bool)
            if self.update == "fully_corrective"
            else jnp.arange(edges.shape[0]) == best
        )
        columns, slots, count = boosting.enter_columns(
            memory.columns, ensemble.count, rows, is_added
        )
        game = RelaxedGame(columns.T, self.relaxation, self.cost, memory.prior)

        proven = self._prove_upper(game, memory.proven, weights, rows, proposal.upper_bound)
        strength = self._strength(proven, memory.prior)
        votes = self._move(
            memory.votes,
            game,
            updates.corner(game, slots[best], edges[best]),
            strength,
        )
        proven = _prove_lower(game, proven, votes)
        return Absorbed(
            memory=RelaxedMarginMemory(columns, memory.prior, votes, proven),
            example_weights=votes.example_weights,
            slots=slots,
            votes=jnp.stack([proven.coefficients, proven.coefficients], axis=1),
            constant=ensemble.constant,
            count=count,
            certificate=_certificate(proven),
            edge=edges[best],
            status=self._status(proven, count == ensemble.count),
        )

    def _prove_upper(
        self, game: RelaxedGame, before: ProvenBounds, asked: Array, rows: Array, best_edge: Array
    ) -> ProvenBounds:
        return certify.prove_upper(
            before,
            asked,
            new_edge=certify.largest_edge(rows, before.example_weights),
            seen_edge=certify.largest_edge(game.margins.T, asked),
            best_edge=best_edge,
            upper_of=lambda edge, weights: self._upper(game, edge, weights),
            stop_on=self.stop_on,
        )

    def _upper(self, game: RelaxedGame, edge: Array, weights: Array) -> Array:
        return certify.upper_from_edge(edge, weights, self.relaxation, self.cost, game.prior)

    def _strength(self, proven: ProvenBounds, prior: Array) -> Array:
        """beta = eps / (2 log(1 / least share)), with eps the tolerance, or while the gap is wide
        half the gap: no relative entropy is larger.
        """
        accuracy = self.tolerance.astype(prior.dtype)
        if self.update != "analytic":
            gap = proven.goal(self.stop_on) - proven.lower
            accuracy = jnp.maximum(accuracy, jnp.where(gap < jnp.inf, gap / 2, 1.0))
        least = numerics.masked_min(prior, prior > 0, fill=0.5)
        return accuracy / (-2 * jnp.log(least))

    def _move(
        self, votes: Votes, game: RelaxedGame, target: updates.Corner, strength: Array
    ) -> Votes:
        if self.update == "fully_corrective":
            return updates.fully_corrective(
                votes, game, self.tolerance.astype(strength.dtype), self.config
            )
        move = {
            "analytic": updates.analytic,
            "line_search": updates.line_search,
            "pairwise": updates.pairwise,
        }[self.update]
        return move(votes, game, target, strength)

    def _status(self, proven: ProvenBounds, is_known: Array) -> Array:
        """Unfinished while the gap is wider than the tolerance, unless rounding is all that a round
        without a new column could mend.
        """
        goal = proven.goal(self.stop_on)
        verdict = status_of(
            self.relaxation,
            proven.lower,
            goal,
            self.tolerance,
            jnp.ones((), bool),
            jnp.ones((), bool),
        )
        goes_on = (goal - proven.lower > self.tolerance) & ~(
            is_known & (verdict == int(Status.PRECISION_LIMIT))
        )
        return jnp.where(goes_on, int(Status.UNFINISHED), verdict)


def _prove_lower(game: RelaxedGame, before: ProvenBounds, votes: Votes) -> ProvenBounds:
    """The bound of the new votes, if it is better by an estimate."""
    within = game.votes.allowed(votes.coefficients)
    estimate = certify.lower_from_margins(
        votes.reached, norm_bound(within), game.relaxation, game.votes, game.prior
    )

    def prove(_: None) -> ProvenBounds:
        lower = certify.prove_lower(game.margins, within, game.relaxation, game.votes, game.prior)
        is_better = lower > before.lower
        return before._replace(
            coefficients=jnp.where(is_better, within, before.coefficients),
            lower=jnp.where(is_better, lower, before.lower),
        )

    return loops.cond(estimate > before.lower, prove, lambda _: before, None)


def _certificate(proven: ProvenBounds) -> Certificate:
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
    """The state before the first round, for a loop of one's own over `step(state, dataset)`;
    `finish(state)` ends it. Takes what `fit` takes.
    """
    dataset = boosting.check_kinds(learner, dataset)
    _validate_learner(learner)
    return boosting.start(
        _booster(dataset, **options), learner, dataset, key=key, max_rounds=max_rounds
    )


@meshes.takes_sharded
@derivatives.without(
    "jboost.relaxed_margin.fit",
    "differentiate the bounds of jboost.relaxed_margin.solve over the outputs of its hypotheses",
)
def fit(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    relaxation: Any = None,
    tolerance: ArrayLike = 1e-2,
    update: Literal["fully_corrective", "pairwise", "line_search", "analytic"] = "fully_corrective",
    votes: Any = None,
    stop_on: Literal["provable", "all", "seen"] = "provable",
    config: SolverConfig | None = None,
    on_step: OnStep | None = None,
    initial: State | None = None,
    deterministic: bool = False,
) -> Fit:
    """Boosting to the largest relaxed margin over all hypotheses of a learner, in one compiled loop
    (Shalev-Shwartz and Singer 2008, Figure 1).

    Args:
      dataset: of m examples; `weights` count as multiplicities.
      learner: what proposes hypotheses; its outputs lie in [-1, 1], and with a hypothesis its
        negation is one: votes may have either sign.
      key: for learners that draw random numbers.
      max_rounds: the largest number of proposals; static.
      relaxation: f; `jboost.relaxations.soft_margin(nu=0.1)` where None.
      tolerance: [] the gap between the bounds at which to stop.
      update: how votes move: "fully_corrective" over all columns seen, "pairwise" or "line_search"
        along one direction, or "analytic", the step of Shalev-Shwartz and Singer (2008). With p the
        least share of the weights, "analytic" is eps-accurate after at most 32 log(1 / p) / eps^2
        rounds (Theorem 9, where all shares are 1 / m), and usually not much earlier.
      votes: g, the cost of votes; None for |w|_1 <= 1. `jboost.relaxations.squared_norm` goes with
        every update but "pairwise". Costs that need all edges are for `solve`.
      stop_on: which gap ends the loop: over "all" hypotheses, over the columns "seen", or over all
        where the learner proves a bound and over those seen where it proves none ("provable").
      config: static sizes of the solver behind "fully_corrective".
      on_step: called with (state, info) between rounds, on the host; False ends the loop with
        status TIME_LIMIT. Not under jit or vmap. `jboost.checkpoints` has one that saves the state.
      initial: a state to go on from, as `on_step` of the same fit was given it or `init` makes it;
        None for a fit from the start. It ends in the bits of a fit with an `on_step` that was not
        stopped.
      deterministic: whether the result is the same, bit for bit, on one or several devices of one
        kind, with at least 16 rows on each. Sums over the examples are then exact in 64 bits, for
        any order; see "Equal bits on one or several devices" in the documentation for the limits
        and the cost. For `pool`, `literals` and `stumps` of stored features, hard and soft
        margins, and `votes` None or `squared_norm`; static.

    Returns:
      A `Fit` whose certificate holds lower_bound <= largest relaxed margin <= upper_bound. The
      lower bound follows from the votes of the ensemble, the upper bounds from
      `certificate.example_weights`.

    Raises:
      ValueError: at trace time, naming the argument; on concrete arrays also if no distribution
        meets the relaxation. Traced, that is status INFEASIBLE, and parameters that no factory
        takes are INVALID_INPUT. A hard margin of 0 is status NO_EDGE.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, 1])
    >>> fitted = jboost.relaxed_margin.fit(
    ...     dataset, jboost.learners.stumps(), relaxation=jboost.relaxations.hard_margin()
    ... )
    >>> (
    ...     bool(fitted.certificate.lower_bound <= 1 / 3 <= fitted.certificate.upper_bound),
    ...     jboost.predict(fitted.ensemble, dataset.features).tolist(),
    ... )
    (True, [1, 1, -1, 1])
    """
    dataset = boosting.check_kinds(learner, dataset)
    _validate_learner(learner)
    booster = _booster(
        dataset,
        relaxation=relaxation,
        tolerance=tolerance,
        update=update,
        votes=votes,
        stop_on=stop_on,
        config=config,
    )
    if deterministic:
        validate_exact_relaxation(booster.relaxation, votes)
    return boosting.fit(
        booster,
        learner,
        dataset,
        key=key,
        max_rounds=max_rounds,
        on_step=on_step,
        initial=initial,
        deterministic=deterministic,
    )


def _validate_learner(learner: Any) -> None:
    if not boosting.has_negations(learner):
        raise ValueError(
            "learner has hypotheses without their negations, and its bound holds for votes of one"
            " sign, where these may have either: allow negations, or take jboost.lpboost"
        )


def _validate_votes(cost: Any, update: str) -> None:
    """Raises ValueError for a cost of the votes that the booster or the update cannot take."""
    if not isinstance(cost, OfNorm):
        raise ValueError(
            f"votes is a {type(cost).__name__}, and fit takes costs of |w|_1 only: others need the"
            " edges of all hypotheses, and a learner proposes the best; take"
            " jboost.relaxed_margin.solve, or jboost.relaxations.squared_norm"
        )
    if update == "pairwise" and not isinstance(cost, UnitBall):
        raise ValueError(
            "update is 'pairwise', which moves votes between hypotheses and keeps |w|_1 <= 1: take"
            f" another update with votes of {type(cost).__name__}"
        )


def _booster(
    dataset: Dataset,
    *,
    relaxation: Any = None,
    tolerance: ArrayLike = 1e-2,
    update: str = "fully_corrective",
    votes: Any = None,
    stop_on: str = "provable",
    config: SolverConfig | None = None,
) -> RelaxedMargin:
    boosting.validate_size(dataset)
    check.choice("update", update, updates.NAMES)
    check.choice("stop_on", stop_on, ("provable", "all", "seen"))
    settings = check.config(
        "config",
        SolverConfig(max_iterations=_INNER_ITERATIONS) if config is None else config,
        SolverConfig,
    )
    cost = unit_ball() if votes is None else votes
    _validate_votes(cost, update)
    relaxation = soft_margin(nu=0.1) if relaxation is None else relaxation
    validate_functions(relaxation, cost)
    check_feasible(relaxation, dataset)
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True).astype(float)
    return RelaxedMargin(relaxation, cost, tolerance, update, stop_on, settings)
