"""InfoBoost: a vote of its own for either answer of a hypothesis, for hypotheses with nearly
one-sided error.

Paper 002 (Hatano), Figure 1; Aslam 2000. D_t are the `example_weights`; tp, fp, tn, fn the `Cells`
of a hypothesis; alpha_+ and alpha_- its two votes; Z_t the normalisers. AdaBoost differs in one
thing: it casts the same vote for both answers.

A hypothesis that errs on one side only casts an infinite vote on the other side: it settles the
rows it answers so. Those examples leave the distribution, and for a new row the first settling
hypothesis decides, as in a decision list ahead of the vote.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost import learners, losses
from jboost.base import boosting, check, derivatives, meshes, protocols, reduce
from jboost.base.boosting import Absorbed, Certificate, Ensemble, Fit, Proposal, State, finish, step
from jboost.base.loops import OnStep
from jboost.base.records import register
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.learners.criteria import Cells, cells_of, normalizer
from jboost.losses import ExponentialLoss

__all__ = ["InfoBoost", "finish", "fit", "init", "step", "votes"]

_MOST_SMOOTHING = 1e30  # of cells that sum to 1: beyond it votes are 0 to any float


def votes(table: Cells, smoothing: ArrayLike = 0.0) -> Array:
    """The votes [2] for a positive and for a negative answer: alpha_+ = ln(tp / fp) / 2 and
    alpha_- = ln(tn / fn) / 2.

    +inf where the answer is never wrong, -inf where it always is, 0 where it is never given; finite
    with a positive `smoothing`, which is added to all four cells.

    >>> cells = Cells(
    ...     *(jnp.array(weight) for weight in (0.4, 0.0, 0.3, 0.3, 0.0))
    ... )  # never wrong where it says +1, as often as not elsewhere
    >>> votes(cells).tolist()
    [inf, 0.0]
    """

    def vote(right: Array, wrong: Array) -> Array:
        both_empty = (right == 0) & (wrong == 0)
        difference = jnp.log(jnp.where(both_empty, 1.0, right)) - jnp.log(
            jnp.where(both_empty, 1.0, wrong)
        )
        return 0.5 * difference

    positive = vote(table.true_positive + smoothing, table.false_positive + smoothing)
    negative = vote(table.true_negative + smoothing, table.false_negative + smoothing)
    return jnp.stack([positive, negative])


class Memory(NamedTuple):
    """What InfoBoost carries from round to round."""

    loss: ExponentialLoss
    weights: Array  # [m] the distribution that the losses make
    margins: Array  # [m] y F(x), +inf where the example is settled


@register
@dataclasses.dataclass(frozen=True)
class InfoBoost(protocols.Booster):
    """The booster: examples are weighed by their exponential loss, under votes that depend on the
    answer.
    """

    smoothing: Array  # []

    def capacity(self, max_rounds: int, num_proposed: int) -> int:
        """One slot a round: the proposed hypothesis of least normaliser is taken."""
        del num_proposed
        return max_rounds

    def init(self, dataset: Dataset, capacity: int) -> Absorbed:
        """Starts from the user's weights."""
        certificate = losses.certify_nothing_voted(dataset)
        weights = certificate.example_weights
        memory = Memory(losses.start_exponential(dataset), weights, jnp.zeros_like(weights))
        first = boosting.before_first_round(memory, weights, certificate, capacity)
        is_allowed = (self.smoothing >= 0) & (self.smoothing <= _MOST_SMOOTHING)
        return first._replace(status=jnp.where(is_allowed, first.status, int(Status.INVALID_INPUT)))

    def absorb(
        self, memory: Memory, dataset: Dataset, proposal: Proposal, ensemble: Ensemble
    ) -> Absorbed:
        """One round: the confusion table, two votes, and the examples that they settle."""
        weights = memory.weights
        signs = boosting.signs(dataset)
        answers = jnp.sign(proposal.outputs)
        tables = cells_of(answers, weights, signs)
        shrinkage = normalizer(tables)
        best = jnp.argmin(shrinkage)
        table = jax.tree.map(lambda cell: cell[best], tables)
        vote = votes(table, self.smoothing)

        answer = answers[best]
        cast = jnp.where(answer > 0, vote[0], jnp.where(answer < 0, vote[1], 0.0))
        is_open = (memory.loss.log_losses > -jnp.inf) & (answer * signs != 0)
        gain = jnp.where(is_open, cast, 0.0) * jnp.where(is_open, answer * signs, 1.0)
        is_useless = (shrinkage[best] >= 1 - 4 * jnp.finfo(weights.dtype).eps) & ~reduce.any_true(
            jnp.isinf(gain)
        )
        gain = jnp.where(is_useless, 0.0, gain)
        loss = losses.add_margins(memory.loss, gain)
        margins = memory.margins + gain

        slots, all_votes, count = boosting.take_slot(
            ensemble, jnp.arange(shrinkage.shape[0]) == best, vote, ~is_useless
        )
        bound = losses.mean_exponential(loss)
        next_weights = losses.example_weights(loss)
        is_settled = ~reduce.any_true(loss.log_losses > -jnp.inf)
        status = jnp.where(
            is_settled,
            int(Status.OPTIMAL),
            jnp.where(is_useless, int(Status.NO_EDGE), int(Status.UNFINISHED)),
        )
        scores = jnp.where(signs == 0, 0.0, signs * margins)
        return Absorbed(
            memory=Memory(loss, next_weights, margins),
            example_weights=next_weights,
            slots=slots,
            votes=all_votes,
            constant=ensemble.constant,
            count=count,
            certificate=Certificate(
                losses.training_error(dataset, scores), bound, bound, next_weights
            ),
            edge=table.true_positive
            + table.true_negative
            - table.false_positive
            - table.false_negative,
            status=status,
        )


@meshes.takes_sharded
def init(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    criterion: Literal["normalizer", "edge"] = "normalizer",
    smoothing: ArrayLike = 0.0,
) -> State:
    """The state before the first round, for a loop of one's own over `step(state, dataset)`;
    `finish(state)` ends it. Takes what `fit` takes.
    """
    return boosting.start(
        _booster(smoothing), _learner(learner, criterion), dataset, key=key, max_rounds=max_rounds
    )


@meshes.takes_sharded
@derivatives.without("jboost.infoboost.fit")
def fit(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    criterion: Literal["normalizer", "edge"] = "normalizer",
    smoothing: ArrayLike = 0.0,
    on_step: OnStep | None = None,
    initial: State | None = None,
) -> Fit:
    """InfoBoost in one compiled loop, exactly one-sided hypotheses included (paper 002, Figure 1).

    With hypotheses whose false positives are a share tau of an error 1/2 - gamma, 1 + ceil(2
    (tau / gamma^2 + (1 - 2 tau) / gamma) ln(1 / eps)) rounds bring the training error to eps
    (Theorem 2, in sharp form).

    Args:
      dataset: of m examples; `weights` are the distribution to begin with.
      learner: what proposes hypotheses; real outputs enter by their sign, 0 abstains.
      key: for learners that draw random numbers.
      max_rounds: how many hypotheses there is room for; static.
      criterion: how learners that have the choice pick a hypothesis: the least Z ("normalizer") or
        the least weighted error ("edge").
      smoothing: added to the four cells before the logarithms, so that no vote is infinite; 0 for
        the paper's votes.
      on_step: called with (state, info) between rounds, on the host; False ends the loop with
        status TIME_LIMIT. Not under jit or vmap. `jboost.checkpoints` has one that saves the state.
      initial: a state to go on from, as `on_step` of the same fit was given it or `init` makes it;
        None for a fit from the start. It ends in the bits of a fit with an `on_step` that was not
        stopped.

    Returns:
      A `Fit`. `certificate.lower_bound` is the training error, `certificate.upper_bound` the
      product of the normalisers, which is 0 and proven once every example is settled. The learner
      of its ensemble gives signs.

    Raises:
      ValueError: at trace time, naming the argument; for labels and weights that are known and not
        allowed. Other values that are not allowed end in status INVALID_INPUT.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 0], [1, 1], [0, 1], [0, 0]], [1, 1, 1, -1])
    >>> fitted = jboost.infoboost.fit(dataset, jboost.learners.literals(), max_rounds=5)
    >>> (
    ...     int(fitted.num_rounds),
    ...     float(fitted.certificate.upper_bound),
    ...     jboost.predict(fitted.ensemble, dataset.features).tolist(),
    ... )
    (2, 0.0, [1, 1, 1, -1])
    """
    booster, learner = _booster(smoothing), _learner(learner, criterion)
    return boosting.fit(
        booster, learner, dataset, key=key, max_rounds=max_rounds, on_step=on_step, initial=initial
    )


def _learner(learner: Any, criterion: str) -> Any:
    check.choice("criterion", criterion, ("normalizer", "edge"))
    return learners.signs(learners.replace_criterion(learner, criterion))


def _booster(smoothing: ArrayLike) -> InfoBoost:
    kept = check.number("smoothing", smoothing, low=0, high=_MOST_SMOOTHING).astype(float)
    least = float(jnp.finfo(kept.dtype).tiny)
    given = 0.0 if isinstance(kept, jax.core.Tracer) else float(np.asarray(smoothing))
    if 0 < given < least:
        raise ValueError(
            f"smoothing is {given:g}, which {kept.dtype} takes for 0: pass 0, or {least:g} or more"
        )
    return InfoBoost(kept)
