"""AdaBoost, plain and margin-maximising: the reference points of the field.

Freund and Schapire 1997; Raetsch and Warmuth 2005 for AdaBoost*_nu. D_t are the `example_weights`,
alpha_t the votes, gamma_t the edges, Z_t the normalisers; nu is `margin_precision`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost import losses
from jboost.base import boosting, brackets, check, derivatives, meshes, numerics, protocols
from jboost.base.boosting import Absorbed, Ensemble, Fit, Proposal, State, finish, step
from jboost.base.loops import OnStep
from jboost.base.records import register
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.losses import ExponentialLoss

__all__ = ["AdaBoost", "MarginCertificate", "finish", "fit", "init", "step"]

_MOST_PRECISION = 2.0  # the margins of all votes lie in [-1, 1]


class MarginCertificate(NamedTuple):
    """`lower_bound` is the training error, `upper_bound` the product of the normalisers; the
    margins are those of votes scaled to norm 1.
    """

    lower_bound: Array  # [] training error, rounded down
    upper_bound: Array  # [] product of the normalisers, rounded up
    seen_upper_bound: Array  # [] the same: it needs no other hypotheses
    example_weights: Array  # [m] under which the best edge was least
    margin: Array  # [] the least margin of an example, rounded down; what the vote attains
    # [] no vote over the learner's hypotheses has a greater margin; +inf where the learner proves
    # nothing
    margin_upper_bound: Array


class Memory(NamedTuple):
    """What AdaBoost carries from round to round."""

    loss: ExponentialLoss
    weights: Array  # [m] the distribution that the losses make
    margins: Array  # [m] y F(x)
    norm: Array  # [] sum of the votes
    least_edge: Array  # [] of all rounds so far
    certificate: MarginCertificate


@register
@dataclasses.dataclass(frozen=True)
class AdaBoost(protocols.Booster):
    """The booster: every example is weighed by its exponential loss."""

    margin_precision: Array | None = None  # [] None for the plain algorithm

    def capacity(self, max_rounds: int, num_proposed: int) -> int:
        """One slot a round: the best of the proposed hypotheses is taken."""
        del num_proposed
        return max_rounds

    def init(self, dataset: Dataset, capacity: int) -> Absorbed:
        """Starts from the user's weights."""
        plain = losses.certify_nothing_voted(dataset)
        weights, zero = plain.example_weights, jnp.zeros_like(plain.upper_bound)
        certificate = MarginCertificate(*plain, margin=zero, margin_upper_bound=zero + jnp.inf)
        memory = Memory(
            losses.start_exponential(dataset),
            weights,
            jnp.zeros_like(weights),
            zero,
            zero + 1,
            certificate,
        )
        first = boosting.before_first_round(memory, weights, certificate, capacity)
        if self.margin_precision is None:
            return first
        is_allowed = (self.margin_precision > 0) & (self.margin_precision <= _MOST_PRECISION)
        return first._replace(status=jnp.where(is_allowed, first.status, int(Status.INVALID_INPUT)))

    def absorb(
        self, memory: Memory, dataset: Dataset, proposal: Proposal, ensemble: Ensemble
    ) -> Absorbed:
        """One round: the vote from the edge, the losses from the vote."""
        weights = memory.weights
        signs = boosting.signs(dataset)
        edges = jnp.matmul(proposal.outputs, weights * signs, precision=lax.Precision.HIGHEST)
        best = jnp.argmax(edges)
        agreement = jnp.where(dataset.mask, signs * proposal.outputs[best], 0.0)
        low, (right, wrong, _) = brackets.bracket_dot(
            weights[None, :], 1 + np.array([[1], [-1], [0]], agreement.dtype) * agreement[None, :]
        )
        edge = (right - wrong) / (right + wrong)
        is_perfect, is_useless = wrong <= 0, edge <= 4 * jnp.finfo(edge.dtype).eps

        least_edge = jnp.minimum(memory.least_edge, edge)
        vote = 0.5 * (jnp.log(right) - jnp.log(wrong)) - self._offset(least_edge)
        vote = jnp.where(is_useless, 0.0, vote)
        margins = memory.margins + jnp.where(is_perfect, 0.0, vote) * agreement
        loss = losses.add_margins(memory.loss, jnp.where(agreement == 0, 0.0, vote * agreement))
        norm = memory.norm + jnp.where(is_perfect, 0.0, vote)

        slots, votes, count = boosting.take_slot(
            ensemble, jnp.arange(edges.shape[0]) == best, vote, ~is_useless
        )
        settled = is_perfect & dataset.mask
        scores = signs * jnp.where(settled, jnp.inf, margins)
        certificate = _certify(
            memory.certificate,
            dataset,
            weights,
            proposal.upper_bound / low[2],
            margins,
            norm,
            scores,
            loss,
            is_perfect,
        )
        status = jnp.where(
            is_perfect,
            int(Status.OPTIMAL),
            jnp.where(is_useless, int(Status.NO_EDGE), int(Status.UNFINISHED)),
        )
        following = losses.example_weights(loss)
        return Absorbed(
            memory=Memory(loss, following, margins, norm, least_edge, certificate),
            example_weights=following,
            slots=slots,
            votes=votes,
            constant=ensemble.constant,
            count=count,
            certificate=certificate,
            edge=edge,
            status=jnp.where(
                (status == int(Status.UNFINISHED)) & self._is_precise(certificate),
                int(Status.OPTIMAL),
                status,
            ),
        )

    def _offset(self, least_edge: Array) -> Array:
        if self.margin_precision is None:
            return jnp.zeros_like(least_edge)
        return jnp.arctanh(
            jnp.maximum(
                least_edge - self.margin_precision, -1 + 2 * jnp.finfo(least_edge.dtype).eps
            )
        )

    def _is_precise(self, certificate: MarginCertificate) -> Array:
        if self.margin_precision is None:
            return jnp.zeros((), bool)
        return certificate.margin_upper_bound - certificate.margin <= self.margin_precision


def _certify(
    before: MarginCertificate,
    dataset: Dataset,
    weights: Array,
    best_edge: Array,  # no hypothesis has a greater one, as a share of all weight
    margins: Array,
    norm: Array,
    scores: Array,
    loss: ExponentialLoss,
    is_perfect: Array,
) -> MarginCertificate:
    edge_bound = best_edge * (1 + 2 * jnp.finfo(best_edge.dtype).eps)
    edge_bound = jnp.where(best_edge < jnp.inf, jnp.clip(edge_bound, 0.0, 1.0), jnp.inf)
    is_better = edge_bound < before.margin_upper_bound
    bound = losses.mean_exponential(loss)
    least = numerics.masked_min(margins, dataset.mask, fill=jnp.inf)
    margin = numerics.safe_divide(least - loss.rounding * jnp.finfo(least.dtype).eps, norm)
    return MarginCertificate(
        lower_bound=losses.training_error(dataset, scores),
        upper_bound=bound,
        seen_upper_bound=bound,
        example_weights=jnp.where(is_better, weights, before.example_weights),
        margin=jnp.where(is_perfect, 1.0, margin),
        margin_upper_bound=jnp.where(is_better, edge_bound, before.margin_upper_bound),
    )


@meshes.takes_sharded
def init(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    margin_precision: ArrayLike | None = None,
) -> State:
    """The state before the first round, for a loop of one's own over `step(state, dataset)`;
    `finish(state)` ends it. Takes what `fit` takes.
    """
    return boosting.start(
        _booster(margin_precision), learner, dataset, key=key, max_rounds=max_rounds
    )


@meshes.takes_sharded
@derivatives.without("jboost.adaboost.fit")
def fit(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    margin_precision: ArrayLike | None = None,
    on_step: OnStep | None = None,
    initial: State | None = None,
) -> Fit:
    """AdaBoost in one compiled loop, plain or with the margin maximised to a precision
    (AdaBoost*_nu).

    A hypothesis that makes no error settles everything: its vote is infinite, and the training
    error 0 is proven.

    Args:
      dataset: of m examples; `weights` are the distribution to begin with.
      learner: what proposes hypotheses, such as `jboost.learners.stumps()`. Votes are not negative:
        of a learner without negations, the bound on the margin is one over such votes.
      key: for learners that draw random numbers.
      max_rounds: how many hypotheses there is room for; static.
      margin_precision: None for plain AdaBoost; else the margin is maximised to this precision,
        reached in 2 ln(1 / p) / precision^2 rounds at most, p the least share of the weights
        (Raetsch and Warmuth 2005, Theorem 2, where all are 1 / m), and known to be reached from the
        certificate as a rule much earlier.
      on_step: called with (state, info) between rounds, on the host; False ends the loop with
        status TIME_LIMIT. Not under jit or vmap. `jboost.checkpoints` has one that saves the state.
      initial: a state to go on from, as `on_step` of the same fit was given it or `init` makes it;
        None for a fit from the start. It ends in the bits of a fit with an `on_step` that was not
        stopped.

    Returns:
      A `Fit`. `certificate.lower_bound` is the training error and `certificate.upper_bound` the
      product of the normalisers; `certificate.margin <= largest margin of any
      vote <= certificate.margin_upper_bound`.

    Raises:
      ValueError: at trace time, naming the argument; for labels and weights that are known and not
        allowed. Other values that are not allowed end in status INVALID_INPUT.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, 1])
    >>> fitted = jboost.adaboost.fit(dataset, jboost.learners.stumps(), max_rounds=10)
    >>> (
    ...     jboost.predict(fitted.ensemble, dataset.features).tolist(),
    ...     float(fitted.certificate.upper_bound) < 0.5,
    ... )
    ([1, 1, -1, 1], True)
    """
    booster = _booster(margin_precision)
    return boosting.fit(
        booster, learner, dataset, key=key, max_rounds=max_rounds, on_step=on_step, initial=initial
    )


def _booster(margin_precision: ArrayLike | None) -> AdaBoost:
    if margin_precision is None:
        return AdaBoost()
    return AdaBoost(
        check.number(
            "margin_precision", margin_precision, low=0, high=_MOST_PRECISION, open_low=True
        ).astype(float)
    )
