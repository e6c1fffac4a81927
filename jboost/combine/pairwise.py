"""Exact pairwise boosting: every round combines the vote so far and a new hypothesis optimally
(Boyarshinov and Magdon-Ismail 2005, Sections 1 and 4).

F_t is the vote, h_t is the new hypothesis, which is proposed under AdaBoost's example weights, and
G_t is AdaBoost's vote. Each round chooses the best of three votes: F_t-1, the exact optimum in the
plane of F_t-1 and h_t, and that in the plane of F_t-1 and G_t. Votes are compared by training loss,
then by margin. The loss never increases, and is at most that of AdaBoost after the same round, at
any threshold.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.adaboost import AdaBoost
from jboost.base import boosting, derivatives, meshes, numerics, reduce
from jboost.base.boosting import Absorbed, Certificate, Ensemble, Fit, Proposal, State, finish, step
from jboost.base.loops import OnStep
from jboost.base.records import register
from jboost.base.status import Status
from jboost.base.types import Array, Dataset
from jboost.combine import pairs, votes
from jboost.combine.votes import Arithmetic

__all__ = ["PairwiseBoosting", "finish", "fit", "init", "step"]


class PairwiseMemory(NamedTuple):
    """The state of the booster between rounds."""

    adaboost: Any  # the memory of AdaBoost
    guide: Array  # [capacity, 2] AdaBoost's votes
    direction: Array  # [capacity] of the vote, or AdaBoost's while a constant classifier is best
    columns: Array  # [capacity, m] outputs of the hypotheses; 0 in slots that are not in use


class _PairwiseRound(NamedTuple):
    """The results of a round, in the dtypes outside the 64-bit scope."""

    votes: Array  # [capacity]
    constant: Array  # []
    direction: Array  # [capacity]
    error: Array  # [] training error, rounded up


@register
@dataclasses.dataclass(frozen=True)
class PairwiseBoosting(boosting.Booster):
    """The booster: example weights are AdaBoost's, votes are exact combinations of pairs."""

    def capacity(self, max_rounds: int, num_proposed: int) -> int:
        """The number of slots: one per round."""
        return AdaBoost().capacity(max_rounds, num_proposed)

    @property
    def takes_turns(self) -> bool:
        """True: members of a batch differ in the lengths of their exact combinations."""
        return True

    def init(self, dataset: Dataset, capacity: int) -> Absorbed:
        """The constant classifier of the larger class, and AdaBoost's first example weights."""
        first = AdaBoost().init(dataset, capacity)
        nothing = jnp.zeros((capacity,), first.votes.dtype)
        columns = jnp.zeros((capacity, len(dataset.labels)), first.votes.dtype)
        shares = boosting.initial_distribution(dataset)
        votes_for = reduce.total(jnp.where(dataset.labels > 0, shares, -shares))
        constant = jnp.where(votes_for > 0, 1.0, -1.0).astype(nothing.dtype)
        error = _error(
            dataset, (jnp.sign(dataset.labels) != constant) & dataset.mask, nothing.dtype
        )
        memory = PairwiseMemory(first.memory, first.votes, nothing, columns)
        absorbed = boosting.before_first_round(
            memory, first.example_weights, _certify(error, first.example_weights), capacity
        )
        return absorbed._replace(constant=constant)

    def absorb(
        self, memory: PairwiseMemory, dataset: Dataset, proposal: Proposal, ensemble: Ensemble
    ) -> Absorbed:
        """One round: updates AdaBoost's vote, then finds the best vote in the two planes."""
        now = AdaBoost().absorb(
            memory.adaboost, dataset, proposal, ensemble._replace(votes=memory.guide)
        )
        capacity = memory.columns.shape[0]
        row = proposal.outputs[jnp.argmin(now.slots)]
        columns = memory.columns.at[jnp.min(now.slots)].set(
            row.astype(memory.columns.dtype), mode="drop"
        )
        newest = (jnp.arange(capacity) == jnp.min(now.slots)).astype(columns.dtype)
        guide = jnp.where(jnp.isfinite(now.votes), now.votes, 0.0)
        combined = _combine(dataset, columns, memory.direction, newest, guide[:, 0])
        is_useless = now.status == int(Status.NO_EDGE)
        status = jnp.where(is_useless, int(Status.NO_EDGE), int(Status.UNFINISHED))
        return Absorbed(
            memory=PairwiseMemory(now.memory, guide, combined.direction, columns),
            example_weights=now.example_weights,
            slots=now.slots,
            votes=jnp.stack([combined.votes, combined.votes], axis=1),
            constant=combined.constant,
            count=now.count,
            certificate=_certify(combined.error, now.example_weights),
            edge=now.edge,
            status=jnp.where(combined.error <= 0, int(Status.OPTIMAL), status),
        )


def _certify(error: Array, example_weights: Array) -> Certificate:
    return Certificate(jnp.zeros_like(error), error, error, example_weights)


def _error(dataset: Dataset, wrong: Array, dtype: Any) -> Array:
    """The share of the weight on the wrong examples [m], [], rounded up."""

    def share(weights: Array, mask: Array, wrong: Array) -> Array:
        return _share(weights, mask, wrong, dtype)

    return numerics.in_64_bits(share)(*lax.stop_gradient((dataset.weights, dataset.mask, wrong)))


def _share(weights: Array, mask: Array, wrong: Array, dtype: Any) -> Array:
    weights = numerics.to_unit(
        jnp.where(mask, weights, jnp.zeros((), weights.dtype)).astype("float64")
    )
    lost, total = reduce.totals(jnp.where(wrong, weights, 0.0), weights)
    share = numerics.safe_divide(lost, total)
    rounding = (2 * len(weights) + 4) * float(jnp.finfo(weights.dtype).eps)
    return numerics.round_up(jnp.minimum(share * (1 + rounding), 1.0), dtype)


def _combine(
    dataset: Dataset, columns: Array, direction: Array, newest: Array, guide: Array
) -> _PairwiseRound:
    """The best vote in the planes that a direction [capacity] spans with the newest hypothesis and
    with the guide.
    """
    dtype = columns.dtype
    arithmetic = Arithmetic(str(dtype), evaluated_in=str(dtype))

    def combine(
        columns: Array,
        labels: Array,
        weights: Array,
        mask: Array,
        direction: Array,
        newest: Array,
        guide: Array,
    ) -> _PairwiseRound:
        examples = votes.gather(columns.T, labels, weights, mask)
        given = jnp.stack([direction, newest, guide]).astype(examples.columns.dtype)
        left, *rights = jax.vmap(lambda one: votes.shorten(one, arithmetic))(given)
        tried = pairs.pair_with_each(
            examples, left, jnp.stack(rights), jnp.ones((2,), bool), arithmetic
        )
        best = votes.better(votes.best_of(tried.vote), votes.vote_along(examples, left, arithmetic))
        is_constant = jnp.isinf(best.offset)
        coefficients = jnp.where(is_constant, 0.0, best.coefficients)
        constant = jnp.where(is_constant, jnp.sign(best.offset), best.offset)
        wrong = votes.evaluate(examples, coefficients, constant, arithmetic).wrong
        return _PairwiseRound(
            votes=coefficients.astype(dtype),
            constant=constant.astype(dtype),
            direction=jnp.where(is_constant, rights[1], best.coefficients).astype(dtype),
            error=_share(examples.weights, examples.live, wrong, dtype),
        )

    padding = max(0, 2 - len(dataset.labels))
    examples = (
        jnp.pad(field, (0, padding)) for field in (dataset.labels, dataset.weights, dataset.mask)
    )
    arguments = (jnp.pad(columns, ((0, 0), (0, padding))), *examples, direction, newest, guide)
    return numerics.in_64_bits(combine)(*lax.stop_gradient(arguments))


@meshes.takes_sharded
def init(
    dataset: Dataset, learner: Any, *, key: Array | None = None, max_rounds: int = 100
) -> State:
    """The state before the first round, for a loop of your own over `step(state, dataset)`.
    `finish(state)` gives the result. The arguments are those of `fit`.
    """
    return boosting.start(PairwiseBoosting(), learner, dataset, key=key, max_rounds=max_rounds)


@meshes.takes_sharded
@derivatives.without("jboost.combine.pairwise.fit")
def fit(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    on_step: OnStep | None = None,
    initial: State | None = None,
) -> Fit:
    """Boosting by exact combinations of pairs, in one compiled loop.

    Args:
      dataset: of m examples; `weights` are the costs of misclassifying them.
      learner: proposes hypotheses, such as `jboost.learners.stumps()`; it is queried under
        AdaBoost's example weights.
      key: for learners that draw random numbers.
      max_rounds: the largest number of rounds; static. A round costs O(m^2 log m).
      on_step: called with (state, info) between rounds, on the host; False ends the loop with
        status TIME_LIMIT. Not under jit or vmap. `jboost.checkpoints` has one that saves the state.
      initial: a state from which to continue, as passed to `on_step` of the same fit or made by
        `init`; None for a fit from the start. The result is bitwise that of an uninterrupted fit
        with an `on_step`.

    Returns:
      A `Fit`. `certificate.upper_bound` is the training error of the ensemble as a share of the
      weight, which never increases from round to round. An example counts as an error if rounding
      could change the sign of its score. `certificate.lower_bound` is 0, which holds for any vote.
      The status is OPTIMAL if the error is 0, NO_EDGE if the learner has no hypothesis left that is
      better than chance, else ROUND_LIMIT.

    Raises:
      ValueError: at trace time, naming the argument; for concrete labels and weights that are not
        allowed. Other values that are not allowed end in status INVALID_INPUT.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, 1])
    >>> fitted = jboost.combine.pairwise.fit(dataset, jboost.learners.stumps(), max_rounds=3)
    >>> (
    ...     jboost.predict(fitted.ensemble, dataset.features).tolist(),
    ...     float(fitted.certificate.upper_bound),
    ... )
    ([1, 1, -1, 1], 0.0)
    """
    return boosting.fit(
        PairwiseBoosting(),
        learner,
        dataset,
        key=key,
        max_rounds=max_rounds,
        on_step=on_step,
        initial=initial,
    )
