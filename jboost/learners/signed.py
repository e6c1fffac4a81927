"""A learner whose hypotheses are the signs of another's outputs (Hatano, Figure 1)."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import boosting, check, records
from jboost.base.boosting import Proposal
from jboost.base.boosting.protocols import Learner
from jboost.base.protocols import hook, missing_methods, optional_hook
from jboost.base.types import Array, Dataset, PyTree
from jboost.learners import criteria


class SignsState(NamedTuple):
    """The state of the learner, which `propose` takes."""

    labels: Array  # [m] +1 or -1, 0 on padding
    # [] bool, whether all outputs of the other learner are signs, so that its bound remains valid
    bound_holds: Array
    state: PyTree  # of the other learner


@dataclasses.dataclass(frozen=True)
class Signs(Learner):
    """The learner behind `signs`."""

    learner: Any

    @property
    def criterion(self) -> str | None:
        """The criterion of the other learner, None if it has no such field. `replace_criterion`
        changes it.
        """
        found: str | None = optional_hook(Learner, self.learner, "criterion")
        return found

    @property
    def has_negations(self) -> bool:
        """Whether the other learner has negations."""
        return boosting.has_negations(self.learner)

    @property
    def has_costs(self) -> bool:
        """Whether the other learner has costs."""
        return bool(hook(Learner, self.learner, "has_costs"))

    @property
    def has_exact_sums(self) -> bool:
        """Whether the other learner has exact sums."""
        return bool(hook(Learner, self.learner, "has_exact_sums"))

    def init(self, key: Array | None, dataset: Dataset) -> SignsState:
        """The state of the other learner, and the labels."""
        state = self.learner.init(key, dataset)
        bound_holds = hook(Learner, self.learner, "outputs_are_signs")(state)
        return SignsState(boosting.signs(dataset), bound_holds, state)

    def propose(
        self,
        state: SignsState,
        example_weights: Array,
        *,
        pair_weights: Array | None = None,
        costs: Array | None = None,
    ) -> Proposal:
        """The signs of the other learner's proposal, best first."""
        prices = {
            name: value
            for name, value in (("pair_weights", pair_weights), ("costs", costs))
            if value is not None
        }
        proposal = self.learner.propose(state.state, example_weights, **prices)
        boosting.validate_outputs(proposal, len(state.labels))
        outputs = jnp.sign(proposal.outputs)
        values, hypotheses = proposal.values, proposal.hypotheses
        if self.criterion != "normalizer":
            values, _ = criteria.edges(outputs, example_weights * state.labels)
            if len(values) > 1:
                order = jnp.argsort(-values, stable=True)
                values, outputs, hypotheses = jax.tree.map(
                    lambda leaf: leaf[order], (values, outputs, hypotheses)
                )
        upper_bound = jnp.where(state.bound_holds, proposal.upper_bound, jnp.inf)
        return Proposal(
            hypotheses, outputs, values, upper_bound, state._replace(state=proposal.state)
        )

    def outputs(self, hypothesis: PyTree, features: Array) -> Array:
        """The signs of the other learner's outputs, [k]."""
        return jnp.sign(self.learner.outputs(hypothesis, features))

    def places(self, hypotheses: PyTree) -> Array | None:
        """The result of the other learner's `places`."""
        found: Array | None = hook(Learner, self.learner, "places")(hypotheses)
        return found

    def outputs_are_signs(self, state: SignsState) -> Array:
        """Always, [] bool."""
        del state
        return jnp.ones((), bool)

    @property
    def can_describe(self) -> bool:
        """Whether the other learner can."""
        return bool(hook(Learner, self.learner, "can_describe"))

    def describe(self, hypothesis: PyTree, names: Any) -> str:
        """The other learner's description of the hypothesis, if it has one."""
        return str(self.learner.describe(hypothesis, names))


records.register(Signs)


def signs(learner: Any) -> Signs:
    """The learner whose hypotheses are the signs of another's outputs: -1, 0 or +1.

    The proposals are those of the other learner, so that the best edge among signs may be missed.
    `values` are the edges of the signs, which may be negative. If the other learner's criterion is
    "normalizer", which only uses signs, they are its values. `upper_bound` is that of the other
    learner if all its outputs are signs, according to its method `outputs_are_signs(state)`;
    otherwise it is +inf. `criterion` is that of the other learner; `replace_criterion` changes it.

    Args:
      learner: any learner. One that this function has made is returned unchanged.

    Raises:
      ValueError: naming `learner`, if it is not a learner.

    Hatano, Figure 1.

    >>> import jax.numpy as jnp
    >>> import jboost
    >>> from jboost import learners
    >>> dataset = jboost.make_dataset([[0.2], [0.9], [-0.5]], [1, -1, -1])
    >>> learner = learners.signs(learners.pool())
    >>> learner.propose(learner.init(None, dataset), jnp.array([0.5, 0.25, 0.25])).outputs.tolist()
    [[1.0, 1.0, -1.0]]
    """
    if isinstance(learner, Signs):
        return learner
    if missing_methods(Learner, learner) or isinstance(learner, type):
        raise ValueError(
            f"learner is {learner!r}: expected something with init, propose and outputs, such as"
            " jboost.learners.pool()"
        )
    check.pytree_of_numbers(
        "learner", learner, remedy="register its dataclass by jboost.learners.register"
    )
    return Signs(learner)
