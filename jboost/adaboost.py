"""AdaBoost (Freund and Schapire 1997) and AdaBoost*_nu (Raetsch and Warmuth 2005).

AdaBoost*_nu maximises the margin to a given precision. Symbols of these papers: D_t are the
`example_weights`, alpha_t the votes, gamma_t the edges, Z_t the normalisers, and nu is
`margin_precision`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jboost import losses
from jboost.base import boosting, brackets, check, derivatives, meshes, numerics
from jboost.base.boosting import Absorbed, Ensemble, Fit, Proposal, State, finish, step
from jboost.base.loops import OnStep
from jboost.base.records import register
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.losses import ExponentialLoss

__all__ = ["AdaBoost", "MarginCertificate", "finish", "fit", "init", "step"]

_MOST_PRECISION = 2.0  # the length of [-1, 1], the interval of all margins


class MarginCertificate(NamedTuple):
    """Bounds of the training error and of the margin; margins are those of votes of norm 1."""

    lower_bound: Array  # [] training error, rounded down
    upper_bound: Array  # [] product of the normalisers, rounded up
    seen_upper_bound: Array  # [] equal to `upper_bound`, which holds for any set of hypotheses
    example_weights: Array  # [m] the weights under which the best edge was least
    margin: Array  # [] the least margin of an example under this vote, rounded down
    # [] no vote over the learner's hypotheses has a larger margin; +inf if the learner gives no
    # bound of its edges
    margin_upper_bound: Array


class AdaBoostMemory(NamedTuple):
    """The state of AdaBoost between rounds."""

    loss: ExponentialLoss
    weights: Array  # [m] the distribution in proportion to the losses
    margins: Array  # [m] y F(x)
    norm: Array  # [] sum of the votes
    least_edge: Array  # [] the least edge of all rounds so far
    certificate: MarginCertificate


class _EdgeVote(NamedTuple):
    """The vote of the proposed hypothesis of largest edge."""

    index: Array  # [] of the hypothesis
    vote: Array  # [] 0 if it is useless, infinite if it is perfect
    agreement: Array  # [m] y_i h(x_i), 0 on padding
    edge: Array  # []
    least_edge: Array  # [] of all rounds, this one included
    least_total: Array  # [] the sum of the weights, rounded down
    is_perfect: Array  # [] bool, whether it has no errors
    is_useless: Array  # [] bool, whether its edge is 0


@register
@dataclasses.dataclass(frozen=True)
class AdaBoost(boosting.Booster):
    """The booster, which weights every example by its exponential loss."""

    margin_precision: Array | None = None  # [] None for the plain algorithm

    def capacity(self, max_rounds: int, num_proposed: int) -> int:
        """One slot per round, for the proposed hypothesis with the largest edge."""
        del num_proposed
        return max_rounds

    def init(self, dataset: Dataset, capacity: int) -> Absorbed:
        """Starts from the user's weights."""
        plain = losses.certify_nothing_voted(dataset)
        weights, zero = plain.example_weights, jnp.zeros_like(plain.upper_bound)
        certificate = MarginCertificate(*plain, margin=zero, margin_upper_bound=zero + jnp.inf)
        memory = AdaBoostMemory(
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
        self, memory: AdaBoostMemory, dataset: Dataset, proposal: Proposal, ensemble: Ensemble
    ) -> Absorbed:
        """One round: computes the vote from the edge, and the losses from the vote."""
        weights = memory.weights
        signs = boosting.signs(dataset)
        cast = self._vote(memory, signs, dataset.mask, proposal.outputs)
        vote, agreement, is_perfect = cast.vote, cast.agreement, cast.is_perfect
        margins = memory.margins + jnp.where(is_perfect, 0.0, vote) * agreement
        loss = losses.add_margins(memory.loss, jnp.where(agreement == 0, 0.0, vote * agreement))
        norm = memory.norm + jnp.where(is_perfect, 0.0, vote)

        slots, votes, count = boosting.take_slot(
            ensemble, jnp.arange(len(proposal.outputs)) == cast.index, vote, ~cast.is_useless
        )
        is_decided = is_perfect & dataset.mask
        scores = signs * jnp.where(is_decided, jnp.inf, margins)
        certificate = _certify(
            memory.certificate,
            dataset,
            weights,
            proposal.upper_bound / cast.least_total,
            margins,
            norm,
            scores,
            loss,
            is_perfect,
        )
        following = losses.example_weights(loss)
        return Absorbed(
            memory=AdaBoostMemory(loss, following, margins, norm, cast.least_edge, certificate),
            example_weights=following,
            slots=slots,
            votes=votes,
            constant=ensemble.constant,
            count=count,
            certificate=certificate,
            edge=cast.edge,
            status=self._status(is_perfect, cast.is_useless, certificate),
        )

    def _vote(self, memory: AdaBoostMemory, signs: Array, mask: Array, outputs: Array) -> _EdgeVote:
        """The vote of the hypothesis of largest edge, for outputs [k, m]."""
        weights = memory.weights
        edges = numerics.product(outputs, weights * signs)
        best = jnp.argmax(edges)
        agreement = jnp.where(mask, signs * outputs[best], 0.0)
        low, (right, wrong, _) = brackets.bracket_dot(
            weights[None, :], 1 + np.array([[1], [-1], [0]], agreement.dtype) * agreement[None, :]
        )
        edge = (right - wrong) / (right + wrong)
        is_perfect, is_useless = wrong <= 0, edge <= 4 * jnp.finfo(edge.dtype).eps
        least_edge = jnp.minimum(memory.least_edge, edge)
        vote = 0.5 * (jnp.log(right) - jnp.log(wrong)) - self._offset(least_edge)
        vote = jnp.where(is_useless, 0.0, vote)
        return _EdgeVote(best, vote, agreement, edge, least_edge, low[2], is_perfect, is_useless)

    def _offset(self, least_edge: Array) -> Array:
        if self.margin_precision is None:
            return jnp.zeros_like(least_edge)
        return jnp.arctanh(
            jnp.maximum(
                least_edge - self.margin_precision, -1 + 2 * jnp.finfo(least_edge.dtype).eps
            )
        )

    def _status(
        self, is_perfect: Array, is_useless: Array, certificate: MarginCertificate
    ) -> Array:
        status = jnp.where(
            is_perfect,
            int(Status.OPTIMAL),
            jnp.where(is_useless, int(Status.NO_EDGE), int(Status.UNFINISHED)),
        )
        return jnp.where(
            (status == int(Status.UNFINISHED)) & self._is_precise(certificate),
            int(Status.OPTIMAL),
            status,
        )

    def _is_precise(self, certificate: MarginCertificate) -> Array:
        if self.margin_precision is None:
            return jnp.zeros((), bool)
        return certificate.margin_upper_bound - certificate.margin <= self.margin_precision


def _certify(
    before: MarginCertificate,
    dataset: Dataset,
    weights: Array,
    best_edge: Array,  # [] an upper bound of the edge of all hypotheses, as a share of all weight
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
    """The state before the first round, for a user-written loop over `step(state, dataset)`.

    `finish(state)` returns the fit. The arguments are those of `fit`.
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
    deterministic: bool = False,
) -> Fit:
    """Fits AdaBoost, or AdaBoost*_nu with a `margin_precision`, in one compiled loop.

    A hypothesis without errors gets an infinite vote and ends the fit with training error 0.

    Args:
      dataset: m examples; their `weights`, scaled to sum to 1, are the first distribution.
      learner: proposes hypotheses, for example `jboost.learners.stumps()`. Votes are not negative.
        If the learner does not propose negations, the bound of the margin holds for such votes.
      key: a random key, for learners that draw random numbers.
      max_rounds: the largest number of rounds and hypotheses; static.
      margin_precision: None for plain AdaBoost, else the precision to which the margin is
        maximised. It is reached in at most 2 ln(1 / p) / precision^2 rounds, with p the least share
        of the weights (Raetsch and Warmuth 2005, Theorem 2, for p = 1 / m). The certificate usually
        proves it much earlier.
      on_step: called with (state, info) between rounds, on the host. If it returns False, the loop
        ends with status TIME_LIMIT. Not allowed under jit or vmap. `jboost.checkpoints` provides
        one that saves the state.
      initial: a state of the same fit to continue from, from `on_step` or `init`; None for a fit
        from the start. The result is equal, bit for bit, to that of an uninterrupted fit with an
        `on_step`.
      deterministic: whether the result is the same, bit for bit, on one or several devices of one
        kind, with at least 16 rows on each. Sums over the examples are then exact in 64 bits, for
        any order; see "Equal bits on one or several devices" in the documentation for the limits
        and the cost. For `pool`, `literals` and `stumps` of stored features; static.

    Returns:
      A `Fit`. `certificate.lower_bound` is the training error and `certificate.upper_bound` the
      product of the normalisers; `certificate.margin <= largest margin of any
      vote <= certificate.margin_upper_bound`.

    Raises:
      ValueError: at trace time, naming the argument, and for known labels and weights that are not
        allowed. Other values that are not allowed give the status INVALID_INPUT.

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
        booster,
        learner,
        dataset,
        key=key,
        max_rounds=max_rounds,
        on_step=on_step,
        initial=initial,
        deterministic=deterministic,
    )


def _booster(margin_precision: ArrayLike | None) -> AdaBoost:
    if margin_precision is None:
        return AdaBoost()
    return AdaBoost(
        check.number(
            "margin_precision", margin_precision, low=0, high=_MOST_PRECISION, open_low=True
        ).astype(float)
    )
