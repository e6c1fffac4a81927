"""The base classes of learners and boosters, which declare all their hooks."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import jax.numpy as jnp

from jboost.base.boosting.types import Absorbed, Ensemble, Proposal, Trace
from jboost.base.protocols import Protocol, optional_hook
from jboost.base.types import Array, Dataset, PyTree


class Learner(Protocol, abc.ABC):
    """Proposes hypotheses under example weights. Make it a frozen dataclass under
    `jboost.learners.register`.

    Hooks without a default:

    - `every(state)`: all hypotheses, an `Everything`.
    - `num_hypotheses(num_features)`: how many hypotheses there are. Some boosters then need fewer
      slots.
    - `propose_above(state, example_weights, enough)`: as `propose`, but any finite bound is valid
      where an edge above `enough` is found. Called if `has_quick_answers`.
    - `describe(hypothesis, names)`: the text of one hypothesis.
    - `prices(state)`, `price(prices, ...)`, `least_price(state)`, `constant_cost` and
      `propose_for_pairs(...)`: used by `jboost.l0` alone.
    - `criterion`: what `propose` maximises. `replace_criterion` changes it.
    """

    optional: ClassVar[frozenset[str]] = frozenset(
        {
            "constant_cost",
            "criterion",
            "describe",
            "every",
            "least_price",
            "num_hypotheses",
            "price",
            "prices",
            "propose_above",
            "propose_for_pairs",
        }
    )

    @abc.abstractmethod
    def init(self, key: Array | None, dataset: Dataset) -> PyTree:
        """The state that `propose` starts from. Rows where `dataset.mask` is False hold any
        values.
        """

    @abc.abstractmethod
    def propose(
        self,
        state: PyTree,
        example_weights: Array,
        *,
        pair_weights: Array | None = None,
        costs: Array | None = None,
    ) -> Proposal:
        """The best hypotheses under example weights [m], which are not negative, sum to one, and
        are 0 on padding.
        """

    @abc.abstractmethod
    def outputs(self, hypothesis: PyTree, features: Array) -> Array:
        """The outputs [k] of one hypothesis on features [k, N], in [-1, 1]."""

    @property
    def has_negations(self) -> bool:
        """Whether the negation of a hypothesis is one too. Where it is False, the upper bound of a
        proposal bounds signed edges.
        """
        return True

    @property
    def has_costs(self) -> bool:
        """Whether the user gave each hypothesis a cost, which a booster must not ignore."""
        return False

    @property
    def has_quick_answers(self) -> bool:
        """Whether `propose_above` exists and is much faster than `propose`."""
        return False

    @property
    def has_exact_sums(self) -> bool:
        """Whether `init` and `propose` add up examples by functions of `jboost.base` alone, so that
        fits with `deterministic=True` may use the learner. By default False.
        """
        return False

    @property
    def can_describe(self) -> bool:
        """Whether the hook `describe` exists. A learner of another learner returns that of the
        other one.
        """
        return optional_hook(Learner, self, "describe") is not None

    def validate(self, dataset: Dataset) -> None:
        """Called on the host before a fit, where the values of the data set are known. Raises
        ValueError for features that the learner does not take. By default all are taken.
        """

    def places(self, hypotheses: PyTree) -> Array | None:
        """The columns that each hypothesis reads, [capacity, ...] int, below 0 for none. Features
        with too few columns are then refused. By default None: nothing is checked.
        """
        del hypotheses
        return None

    def outputs_are_signs(self, state: PyTree) -> Array:
        """Whether all outputs are -1, 0 or +1, [] bool. By default False."""
        del state
        return jnp.zeros((), bool)

    def never_abstains(self, state: PyTree) -> Array | bool:
        """Whether no output is 0 on an example, [] bool. Called by `jboost.l0`. By default
        False.
        """
        del state
        return False


class Booster(Protocol, abc.ABC):
    """Sets the votes and the next example weights from the outputs of proposed hypotheses. Make it
    a frozen dataclass under `jboost.base.records.register`.

    Hook without a default:

    - `ask(memory, dataset, learner, state)`: called instead of `learner.propose`, with the state of
      the learner. Its result goes to `absorb`: a record with the fields `hypotheses`, `outputs` and
      `state` of a `Proposal`, and others.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"ask"})

    @abc.abstractmethod
    def capacity(self, max_rounds: int, num_proposed: int) -> int:
        """The slots that `max_rounds` proposals of `num_proposed` hypotheses need."""

    @abc.abstractmethod
    def init(self, dataset: Dataset, capacity: int) -> Absorbed:
        """Memory, first example weights, and the bounds before the first round. `slots` is [0]."""

    @abc.abstractmethod
    def absorb(
        self, memory: PyTree, dataset: Dataset, proposal: Any, ensemble: Ensemble
    ) -> Absorbed:
        """Takes the outputs of a proposal, or the result of `ask`."""

    def empty_trace(self, unused: Array) -> Any:
        """The trace before the first round, whose fields are all `unused`, [max_rounds] of +inf. A
        booster that records more numbers of each round returns a NamedTuple with the fields of
        `Trace` and more; its `absorb` returns their values as `Absorbed.measures`.
        """
        return Trace(unused, unused, unused, unused)

    @property
    def takes_each_once(self) -> bool:
        """Whether equal outputs share one slot. The number of slots is then at most the learner's
        `num_hypotheses`, where it has that hook.
        """
        return False

    @property
    def takes_costs(self) -> bool:
        """Whether the objective has the costs of the hypotheses. Otherwise a learner that
        `has_costs` is refused.
        """
        return False

    @property
    def takes_turns(self) -> bool:
        """Whether the fits of a batch run one after the other on a CPU. Otherwise each round takes
        as long as the slowest fit of the batch.
        """
        return False

    def takes_all(self, learner: Any, dataset: Dataset) -> bool:
        """Whether the first round takes all hypotheses of the learner. Each then has a slot. Called
        if `takes_each_once` and the learner has `num_hypotheses`.
        """
        del learner, dataset
        return False
