"""The booster: the vote of a rule is its confidence, and equal rules share a slot."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost import losses
from jboost.base import boosting, reduce
from jboost.base.boosting import Absorbed, Certificate, Ensemble, Proposal, finish, step
from jboost.base.records import register
from jboost.base.status import Status
from jboost.base.types import Array, Dataset
from jboost.losses import ExponentialLoss
from jboost.slipper.rules import confidence

__all__ = ["Slipper", "SlipperMemory", "finish", "step"]


class SlipperMemory(NamedTuple):
    """The state of SLIPPER between rounds."""

    loss: ExponentialLoss
    weights: Array  # [m] the distribution proportional to the exponential losses
    margins: Array  # [m] y F(x)
    num_rounds: Array  # [] int32, so far


@register
@dataclasses.dataclass(frozen=True)
class Slipper(boosting.Booster):
    """The booster: the vote of a rule is its smoothed confidence, and equal rules share a slot."""

    num_rounds: Array  # [] int32, the number of rounds after which it stops

    def capacity(self, max_rounds: int, num_proposed: int) -> int:
        """The number of slots: at most one per round."""
        del num_proposed
        return max_rounds

    def init(self, dataset: Dataset, capacity: int) -> Absorbed:
        """The state without votes, under the user's weights."""
        certificate = losses.certify_nothing_voted(dataset)
        weights = certificate.example_weights
        memory = SlipperMemory(
            losses.start_exponential(dataset),
            weights,
            jnp.zeros_like(weights),
            jnp.zeros((), jnp.int32),
        )
        return boosting.before_first_round(memory, weights, certificate, capacity)

    def absorb(
        self, memory: SlipperMemory, dataset: Dataset, proposal: Proposal, ensemble: Ensemble
    ) -> Absorbed:
        """One round: the confidence of the rule of least normaliser, and the next weights."""
        weights, signs = memory.weights, boosting.signs(dataset)
        agreement = proposal.outputs * signs[None, :]
        right, wrong = reduce.totals(
            *(jnp.where(chosen, weights[None, :], 0.0) for chosen in (agreement > 0, agreement < 0))
        )
        best = jnp.argmax(jnp.abs(jnp.sqrt(right) - jnp.sqrt(wrong)))
        vote = confidence(right[best], wrong[best], reduce.count(dataset.mask))
        gain = jnp.where(agreement[best] == 0, 0.0, vote * agreement[best])
        loss, margins = losses.add_margins(memory.loss, gain), memory.margins + gain

        slot, is_known = _slot_of(
            ensemble, jax.tree.map(lambda leaf: leaf[best], proposal.hypotheses)
        )
        slot = jnp.where(vote == 0, ensemble.votes.shape[0], slot)
        bound, next_weights = losses.mean_exponential(loss), losses.example_weights(loss)
        num_rounds = memory.num_rounds + 1
        return Absorbed(
            memory=SlipperMemory(loss, next_weights, margins, num_rounds),
            example_weights=next_weights,
            slots=jnp.where(jnp.arange(len(right)) == best, slot, ensemble.votes.shape[0]),
            votes=ensemble.votes.at[slot].add(vote, mode="drop"),
            constant=ensemble.constant,
            count=ensemble.count + ((vote != 0) & ~is_known).astype(jnp.int32),
            certificate=Certificate(
                losses.training_error(dataset, signs * margins), bound, bound, next_weights
            ),
            edge=right[best] - wrong[best],
            status=jnp.where(
                num_rounds >= self.num_rounds, int(Status.ROUND_LIMIT), int(Status.UNFINISHED)
            ),
        )


def _slot_of(ensemble: Ensemble, hypothesis: Any) -> tuple[Array, Array]:
    """The slot of an equal hypothesis, else the next free one; whether there is an equal one."""
    is_same = jnp.arange(ensemble.votes.shape[0]) < ensemble.count
    for slots, leaf in zip(
        jax.tree.leaves(ensemble.hypotheses), jax.tree.leaves(hypothesis), strict=True
    ):
        is_same &= jnp.all((slots == leaf[None]).reshape(len(slots), -1), axis=1)
    is_known = jnp.any(is_same)
    return jnp.where(is_known, jnp.argmax(is_same), ensemble.count), is_known
