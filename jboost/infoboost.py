"""InfoBoost: boosting with separate votes for the positive and negative outputs of a hypothesis.

It suits hypotheses with nearly one-sided error (Hatano, Figure 1; Aslam 2000). AdaBoost uses one
vote for both outputs. In the notation of Hatano, D_t are the `example_weights`; tp, fp, tn and fn
are the `ConfusionCells` of a hypothesis; alpha_+ and alpha_- are its two votes; Z_t are the
normalisers.

If an output of a hypothesis is never wrong, its vote is infinite and decides the examples with that
output, which get weight 0. A new example is classified by the first infinite vote for it, as in a
decision list. If there is none, it is classified by the sum of the votes.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost import learners, losses
from jboost.base import boosting, check, derivatives, meshes, numerics, reduce
from jboost.base.boosting import Absorbed, Certificate, Ensemble, Fit, Proposal, State, finish, step
from jboost.base.loops import OnStep
from jboost.base.records import register
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.learners.criteria import ConfusionCells, cells_of, normalizer
from jboost.losses import ExponentialLoss

__all__ = [
    "InfoBoost",
    "InfoTrace",
    "finish",
    "fit",
    "init",
    "risk_bound",
    "rounds_needed",
    "step",
    "votes",
]

# The cells sum to 1, so with a larger smoothing all votes round to 0.
_MOST_SMOOTHING = 1e30
# An edge below this many units of rounding counts as 0, so that rounding does not decide whether
# tau is that of a hypothesis or of its negation.
_TIE = 32


def votes(table: ConfusionCells, smoothing: ArrayLike = 0.0) -> Array:
    """The votes [2] for a positive and a negative output, ln(tp / fp) / 2 and ln(tn / fn) / 2.

    A vote is +inf if the output is never wrong, -inf if it is always wrong, and 0 if it does not
    occur. `smoothing` is added to all four cells; if it is positive, votes are finite.

    >>> cells = ConfusionCells(
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


def rounds_needed(tau: float, gamma: float, epsilon: float) -> int:
    """Returns the number of rounds after which the training error is at most epsilon.

    The assumption is that every round but the first finds a hypothesis of error at most 1/2 -
    gamma, of which at most a fraction tau are false positives.

    The number is 1 + ceil(2 (tau / gamma^2 + (1 - 2 tau) / gamma) ln(1 / epsilon)). From the second
    round on, half of the weight is on each class, so that Z <= exp(-gamma^2 / (2 p)), where p is
    the weight of the positive outputs and tau / gamma^2 + (1 - 2 tau) / gamma = p / gamma^2. With
    tau = 1/2 there is no assumption on the false positives. If false negatives are rare, pass their
    fraction as tau.

    Args:
      tau: in [0, 1/2]; `InfoTrace.taus` has those of a fit.
      gamma: in (0, 1/2]; `InfoTrace.gammas` has those of a fit.
      epsilon: in (0, 1], a fraction of the weight of the examples.

    Returns:
      A Python integer, for example for `max_rounds`.

    Raises:
      ValueError: if a number is out of its range or traced. The function runs on the host.

    Source: Hatano, Theorem 2, with the constants of its proof.

    >>> [rounds_needed(tau, 0.1, 0.01) for tau in (0.0, 0.1, 0.5)]
    [94, 167, 462]
    """
    tau = check.host_number("rounds_needed", "tau", tau, low=0, high=0.5)
    gamma = check.host_number("rounds_needed", "gamma", gamma, low=0, high=0.5)
    epsilon = check.host_number("rounds_needed", "epsilon", epsilon, low=0, high=1)
    for name, given in (("gamma", gamma), ("epsilon", epsilon)):
        if given == 0:
            raise ValueError(
                f"{name} is 0: expected a number above 0, as no number of rounds is enough for 0"
            )
    # In fractions, as the square of a gamma may underflow. Increased by more than the rounding
    # error of the logarithm.
    share, edge = Fraction(tau), Fraction(gamma)
    rate = share / edge**2 + (1 - 2 * share) / edge
    return 1 + math.ceil(2 * rate * Fraction(-math.log(epsilon) * (1 + 8 * np.finfo(float).eps)))


def risk_bound(
    training_error: float,
    *,
    num_rounds: int,
    vc_dimension: int,
    num_examples: int,
    delta: float = 0.05,
) -> float:
    """Returns an upper bound on the error of an ensemble on new examples of the same distribution.

    With probability 1 - delta the bound holds for all ensembles of `num_rounds` hypotheses
    simultaneously.

    It is training_error + sqrt(8 (ln(4 / delta) + g) / m). Here g bounds the logarithm of the
    number of labellings of 2 m examples by such ensembles: T d_H ln(2 e m / d_H) for the T
    hypotheses, plus (T + 1) ln(2 e m / (T + 1)) for the vote. This includes two votes for each
    hypothesis and infinite votes: on any sample they are a linear threshold function of the T
    outputs.

    Args:
      training_error: the unweighted fraction of misclassified examples, in [0, 1].
      num_rounds: T, at least 0. A hypothesis that can abstain counts as two.
      vc_dimension: d_H of the class of hypotheses, at least 0. It is at most log2 of their number,
        and at most 1 + log2(N) for the 2 N literals of N attributes.
      num_examples: m, at least 1. The examples must be independent, and the class of hypotheses
        must not depend on them.
      delta: the probability of failure, in (0, 1].

    Returns:
      A Python float in [0, 1]. The value 1 is vacuous, and usual below some thousand examples.

    Raises:
      ValueError: if a number is out of its range or traced. The function runs on the host.

    Source: Hatano, Section 2, states its order, sqrt(T d_H / m) up to logarithms; the inequality is
    that of Vapnik and Chervonenkis (1971), the count that of Freund and Schapire (1997, Theorem 8).

    >>> round(risk_bound(0.01, num_rounds=10, vc_dimension=5, num_examples=100_000), 3)
    0.247
    """
    error = check.host_number("risk_bound", "training_error", training_error, low=0, high=1)
    delta = check.host_number("risk_bound", "delta", delta, low=0, high=1)
    for name, given, low in (
        ("num_rounds", num_rounds, 0),
        ("vc_dimension", vc_dimension, 0),
        ("num_examples", num_examples, 1),
    ):
        check.count(name, given, low=low)
    if delta == 0:
        raise ValueError("delta is 0: expected a number above 0, as only 1 bounds every error")
    num_labelled = 2 * num_examples
    growth = num_rounds * _log_growth(num_labelled, vc_dimension) + _log_growth(
        num_labelled, num_rounds + 1
    )
    gap = math.sqrt(8 * (math.log(4 / delta) + growth) / num_examples)
    return min(1.0, error + gap)


def _log_growth(num_examples: int, vc_dimension: int) -> float:
    """Returns an upper bound on the logarithm of the growth function (Sauer-Shelah lemma)."""
    if vc_dimension == 0:
        return 0.0
    if num_examples <= vc_dimension:
        return num_examples * math.log(2)
    return vc_dimension * (1 + math.log(num_examples / vc_dimension))


class InfoTrace(NamedTuple):
    """One number per round, +inf after the last round.

    A hypothesis and its negation have the same votes and the same normaliser. `taus` and
    `gammas` are those of the one with the smaller error, or of the hypothesis itself if both errors
    are equal.
    """

    edges: Array  # [max_rounds] edge of the proposed hypothesis
    lower_bounds: Array  # [max_rounds] training error
    upper_bounds: Array  # [max_rounds] product of the normalisers
    seen_upper_bounds: Array  # [max_rounds] equal to `upper_bounds`
    # [max_rounds] fp / (fp + fn), the fraction of false positives among the errors; 0 if there are
    # no errors, 1/2 in a round without a vote
    taus: Array
    # [max_rounds] 1/2 - error = |edge| / 2, where abstaining counts as half an error
    gammas: Array
    normalizers: Array  # [max_rounds] Z_t of the votes of the round


class InfoBoostMemory(NamedTuple):
    """The state of InfoBoost between rounds."""

    loss: ExponentialLoss
    weights: Array  # [m] the distribution, proportional to the losses
    margins: Array  # [m] y F(x), +inf if an infinite vote decides the example


@register
@dataclasses.dataclass(frozen=True)
class InfoBoost(boosting.Booster):
    """The booster, which weights examples by their exponential loss under the two-sided votes."""

    smoothing: Array  # []

    def capacity(self, max_rounds: int, num_proposed: int) -> int:
        """One slot per round, for the proposed hypothesis with the least normaliser."""
        del num_proposed
        return max_rounds

    def init(self, dataset: Dataset, capacity: int) -> Absorbed:
        """Returns the initial state, with the weights of the data set."""
        certificate = losses.certify_nothing_voted(dataset)
        weights = certificate.example_weights
        memory = InfoBoostMemory(
            losses.start_exponential(dataset), weights, jnp.zeros_like(weights)
        )
        first = boosting.before_first_round(memory, weights, certificate, capacity)
        is_allowed = (self.smoothing >= 0) & (self.smoothing <= _MOST_SMOOTHING)
        return first._replace(status=jnp.where(is_allowed, first.status, int(Status.INVALID_INPUT)))

    def empty_trace(self, unused: Array) -> InfoTrace:
        """Returns a trace with `unused` in all fields."""
        return InfoTrace(*[unused] * len(InfoTrace._fields))

    def absorb(
        self, memory: InfoBoostMemory, dataset: Dataset, proposal: Proposal, ensemble: Ensemble
    ) -> Absorbed:
        """One round: computes the confusion table, the two votes, and the new losses."""
        weights = memory.weights
        signs = boosting.signs(dataset)
        outputs = jnp.sign(proposal.outputs)
        tables = cells_of(outputs, weights, signs)
        shrinkage = normalizer(tables)
        best = jnp.argmin(shrinkage)
        table = jax.tree.map(lambda cell: cell[best], tables)
        vote = votes(table, self.smoothing)

        gain = _gains(memory.loss, outputs[best], signs, vote)
        is_no_smaller = shrinkage[best] >= 1 - 4 * jnp.finfo(weights.dtype).eps
        is_useless = is_no_smaller & ~reduce.any_true(jnp.isinf(gain))
        gain = jnp.where(is_useless, 0.0, gain)
        loss = losses.add_margins(memory.loss, gain)
        margins = memory.margins + gain

        slots, all_votes, count = boosting.take_slot(
            ensemble, jnp.arange(shrinkage.shape[0]) == best, vote, ~is_useless
        )
        bound = losses.mean_exponential(loss)
        next_weights = losses.example_weights(loss)
        status = _status(loss, is_useless)
        scores = jnp.where(signs == 0, 0.0, signs * margins)
        return Absorbed(
            memory=InfoBoostMemory(loss, next_weights, margins),
            example_weights=next_weights,
            slots=slots,
            votes=all_votes,
            constant=ensemble.constant,
            count=count,
            certificate=Certificate(
                losses.training_error(dataset, scores), bound, bound, next_weights
            ),
            edge=_edge(table),
            status=status,
            measures=_measures(table, vote, is_useless),
        )


def _gains(loss: ExponentialLoss, output: Array, signs: Array, vote: Array) -> Array:
    """Returns the gains of the margins [m] by the two votes of outputs [m]: 0 where an infinite
    vote decided before.
    """
    cast = jnp.where(output > 0, vote[0], jnp.where(output < 0, vote[1], 0.0))
    is_undecided = (loss.log_losses > -jnp.inf) & (output * signs != 0)
    return jnp.where(is_undecided, cast, 0.0) * jnp.where(is_undecided, output * signs, 1.0)


def _status(loss: ExponentialLoss, is_useless: Array) -> Array:
    """Returns OPTIMAL if infinite votes decide all examples."""
    are_all_decided = ~reduce.any_true(loss.log_losses > -jnp.inf)
    return jnp.where(
        are_all_decided,
        int(Status.OPTIMAL),
        jnp.where(is_useless, int(Status.NO_EDGE), int(Status.UNFINISHED)),
    )


def _edge(table: ConfusionCells) -> Array:
    return table.true_positive + table.true_negative - table.false_positive - table.false_negative


def _measures(table: ConfusionCells, vote: Array, is_useless: Array) -> tuple[Array, Array, Array]:
    """Returns tau, gamma and Z of a round for `InfoTrace`."""
    edge = _edge(table)
    is_negated = edge < -_TIE * jnp.finfo(edge.dtype).eps
    false_positive = jnp.where(is_negated, table.true_negative, table.false_positive)
    false_negative = jnp.where(is_negated, table.true_positive, table.false_negative)
    tau = numerics.safe_divide(false_positive, false_positive + false_negative)
    shrinkage = (
        table.abstained
        + _shrunk(table.true_positive, table.false_positive, vote[0])
        + _shrunk(table.true_negative, table.false_negative, vote[1])
    )
    return (
        jnp.where(is_useless, 0.5, tau),
        jnp.abs(edge) / 2,
        jnp.where(is_useless, 1.0, shrinkage),
    )


def _shrunk(right: Array, wrong: Array, vote: Array) -> Array:
    """Returns the weight of an output after its vote. After an infinite vote it is 0."""
    finite = jnp.where(jnp.isinf(vote), 0.0, vote)
    return jnp.where(jnp.isinf(vote), 0.0, right * jnp.exp(-finite) + wrong * jnp.exp(finite))


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
    """Returns the state before the first round, for a custom loop over `step(state, dataset)`.

    `finish(state)` returns the fit. The arguments are those of `fit`.
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
    deterministic: bool = False,
) -> Fit:
    """Fits InfoBoost in one compiled loop (Hatano, Figure 1).

    Hypotheses with exactly one-sided error are allowed. If the hypotheses have error 1/2 - gamma
    and a fraction tau of the errors are false positives, the training error is at most eps after
    1 + ceil(2 (tau / gamma^2 + (1 - 2 tau) / gamma) ln(1 / eps)) rounds (a sharper form of Hatano,
    Theorem 2).

    Args:
      dataset: m examples; their `weights`, scaled to sum to 1, are the first distribution.
      learner: proposes hypotheses. Only the sign of an output is used; 0 abstains.
      key: a random key, for learners that draw random numbers.
      max_rounds: the largest number of rounds and hypotheses; static.
      criterion: the criterion of learners that support it: the smallest Z ("normalizer") or the
        smallest weighted error ("edge").
      smoothing: a number that is added to the four cells before the logarithms. If it is positive,
        no vote is infinite. 0 gives the votes of Hatano.
      on_step: called with (state, info) between rounds, on the host. If it returns False, the loop
        ends with status TIME_LIMIT. Not allowed under jit or vmap. `jboost.checkpoints` provides
        one that saves the state.
      initial: a state of the same fit to continue from, from `on_step` or `init`; None for a fit
        from the start. The result is equal, bit for bit, to that of an uninterrupted fit with an
        `on_step`.
      deterministic: whether the result is the same, bit for bit, on one or several devices of one
        kind, with at least 16 rows on each. Sums over the examples are then exact in 64 bits, for
        any order; see "Equal bits on one or several devices" in the documentation for the limits
        and the cost. For `pool`, `literals` and `stumps` of stored features; static. Not covered
        is `trace.normalizers`, which may differ in the last bit.

    Returns:
      A `Fit`. `certificate.lower_bound` is the training error. `certificate.upper_bound` is the
      product of the normalisers, which is 0 once infinite votes decide every example. The learner
      of the ensemble returns signs.

    Raises:
      ValueError: for an invalid argument, which the message names, and for invalid labels or
        weights. If the values are traced, the status is INVALID_INPUT instead.

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
        booster,
        learner,
        dataset,
        key=key,
        max_rounds=max_rounds,
        on_step=on_step,
        initial=initial,
        deterministic=deterministic,
    )


def _learner(learner: Any, criterion: str) -> Any:
    check.choice("criterion", criterion, ("normalizer", "edge"))
    return learners.signs(learners.replace_criterion(learner, criterion))


def _booster(smoothing: ArrayLike) -> InfoBoost:
    checked = check.number("smoothing", smoothing, low=0, high=_MOST_SMOOTHING).astype(float)
    least = float(jnp.finfo(checked.dtype).tiny)
    given = 0.0 if isinstance(checked, jax.core.Tracer) else float(np.asarray(smoothing))
    if 0 < given < least:
        raise ValueError(
            f"smoothing is {given:g}, which rounds to 0 in {checked.dtype}: pass 0, or at least"
            f" {least:g}"
        )
    return InfoBoost(checked)
