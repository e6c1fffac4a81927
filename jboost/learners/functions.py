"""A learner made of the user's functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from jboost.base import check, records
from jboost.base.boosting import Proposal
from jboost.base.types import Array, PyTree


@dataclasses.dataclass(frozen=True)
class FunctionLearner:
    """The learner behind `from_functions`: its fields are its methods."""

    init: Callable[..., PyTree]
    propose: Callable[..., Proposal]
    outputs: Callable[..., Array]
    has_negations: bool = True


records.register(
    FunctionLearner,
    static=(
        "init",
        "propose",
        "outputs",
        "has_negations",
    ),
)


def from_functions(
    init: Callable[..., PyTree],
    propose: Callable[..., Proposal],
    outputs: Callable[..., Array],
    *,
    has_negations: bool = True,
) -> FunctionLearner:
    """A learner made of three functions. No class and no pytree registration is needed.

    Define the functions at module level: then equal calls compare equal, and nothing is compiled
    again.

    Args:
      init: (key, dataset) -> state, any pytree of arrays.
      propose: (state, example_weights [m]) -> `jboost.base.boosting.Proposal` of k hypotheses. For
        boosters with prices it must also take the keywords pair_weights and costs.
      outputs: (hypothesis, features [k, N]) -> [k] in [-1, 1].
      has_negations: whether the negation of a hypothesis is also a hypothesis. If True, the upper
        bound of a proposal must hold for |edge|; if False, for signed edges.

    Returns:
      A learner.

    Raises:
      ValueError: naming an argument that is not a function.

    >>> import jax.numpy as jnp
    >>> import jboost
    >>> from jboost import learners
    >>> from jboost.base.boosting import Proposal
    >>> def init(key, dataset):
    ...     return dataset.features[:, 0], dataset.labels
    >>> def propose(
    ...     state, example_weights
    ... ):  # the first column, whatever the weights; +inf proves nothing
    ...     column, labels = state
    ...     edge = jnp.sum(example_weights * labels * column)
    ...     return Proposal(jnp.zeros((1,), jnp.int32), column[None, :], edge[None], jnp.inf, state)
    >>> def outputs(hypothesis, features):
    ...     return features[:, 0]
    >>> learner = learners.from_functions(init, propose, outputs)
    >>> dataset = jboost.make_dataset([[1.0], [-1.0]], [1, -1])
    >>> learner.propose(learner.init(None, dataset), jnp.array([0.5, 0.5])).values.tolist()
    [1.0]
    """
    for name, function in (("init", init), ("propose", propose), ("outputs", outputs)):
        if not callable(function):
            raise ValueError(f"{name} is {function!r}: expected a function")
    check.choice("has_negations", has_negations, (False, True))
    return FunctionLearner(init, propose, outputs, has_negations)
