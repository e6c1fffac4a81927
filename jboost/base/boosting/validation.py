"""Checks of learners and data sets, on the host or in a program, and the first example weights."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import check, labelled, numerics, reduce
from jboost.base.boosting.protocols import Booster, Learner
from jboost.base.boosting.types import Proposal
from jboost.base.protocols import hook, missing_methods
from jboost.base.types import Array, Dataset, PyTree


def has_negations(learner: Learner) -> bool:
    """Whether the negation of a hypothesis is also a hypothesis; True if the learner has no such
    hook.
    """
    return bool(hook(Learner, learner, "has_negations"))


def has_quick_answers(learner: Learner) -> bool:
    """Whether a learner has a method `propose_above` that is much faster than `propose`; False if
    the learner has no such hook.
    """
    return bool(hook(Learner, learner, "has_quick_answers"))


def is_valid(dataset: Dataset) -> Array:
    """Whether labels, weights and mask are allowed, [] bool. Features are not checked here, but
    through the learner's outputs.
    """
    labels_are_signs = (dataset.labels == 1) | (dataset.labels == -1)
    return _holds_where_it_counts(dataset, _weights_are_sound(dataset) & labels_are_signs)


def has_sound_weights(dataset: Dataset) -> Array:
    """Whether at least one example counts, and all that count have positive, normal and finite
    weights, [] bool.
    """
    return _holds_where_it_counts(dataset, _weights_are_sound(dataset))


def _weights_are_sound(dataset: Dataset) -> Array:
    weights = dataset.weights.astype(jnp.result_type(float))
    return (weights >= jnp.finfo(weights.dtype).tiny) & (weights < jnp.inf)


def _holds_where_it_counts(dataset: Dataset, condition: Array) -> Array:
    """Whether at least one example counts, and the condition [m] holds for all that count, []
    bool.
    """
    counts = dataset.mask.astype(jnp.int32)
    num_examples, num_exceptions = reduce.totals(counts, jnp.where(condition, 0, counts))
    return (num_examples > 0) & (num_exceptions == 0)


def signs(dataset: Dataset) -> Array:
    """The labels as floats [m], 0 on padding. Outputs times signs are margins."""
    return jnp.where(dataset.mask, jnp.sign(dataset.labels.astype(jnp.result_type(float))), 0.0)


def initial_distribution(dataset: Dataset) -> Array:
    """The user's weights as a distribution over the examples, [m]. It is positive on all examples
    that are not padding, even where a share underflows.
    """
    weights = numerics.to_unit(
        jnp.where(dataset.mask, dataset.weights.astype(jnp.result_type(float)), 0.0)
    )
    total = numerics.precise_sum(weights)
    shares = numerics.safe_divide(weights, jnp.full_like(weights, total))
    tiny = jnp.finfo(shares.dtype).tiny
    return jnp.where(dataset.mask & (shares < tiny), tiny, shares)


def check_arguments(learner: Learner, dataset: Dataset, max_rounds: int) -> Dataset:
    """The data set with examples of weight 0 masked out.

    Raises:
      ValueError: naming the argument, for errors that `jax.jit` would report less clearly; for
        concrete labels and weights that are not allowed, and for concrete features that the learner
        does not take.
    """
    check.count("max_rounds", max_rounds, low=1)
    dataset = check_kinds(learner, dataset)
    check.pytree_of_numbers(
        "learner",
        learner,
        remedy=(
            "register its dataclass by jboost.learners.register, functions and sizes in fields with"
            " metadata={'static': True}"
        ),
    )
    # for traced values the outputs are NaN, which gives the status INVALID_INPUT on every process
    if check.are_known(dataset):
        hook(Learner, learner, "validate")(dataset)
    return dataset


def check_kinds(learner: Learner, dataset: Dataset) -> Dataset:
    """The data set with examples of weight 0 masked out. Raises ValueError unless the arguments are
    a learner and a data set, and for concrete labels and weights that are not allowed.
    """
    missing = missing_methods(Learner, learner)
    if missing:
        raise ValueError(
            f"learner is a {type(learner).__name__} without {', '.join(missing)}: pass one of"
            " jboost.learners, or of your own"
        )
    return labelled.counted(dataset)


def validate_key(key: Any) -> None:
    """Raises ValueError unless the argument is a random key or None."""
    if key is not None:
        check.key("key", key)


def validate_size(dataset: Dataset) -> None:
    """Raises ValueError unless the data set has a row, for boosters that need one."""
    if dataset.labels.shape[0] == 0:
        raise ValueError("dataset has no examples: expected one at least, which may be masked out")


def validate_costs(booster: Any, learner: Any) -> None:
    """Raises ValueError for a learner with costs of its hypotheses and a booster without."""
    if hook(Learner, learner, "has_costs") and not hook(Booster, booster, "takes_costs"):
        raise ValueError(
            f"learner has costs of its hypotheses, which {type(booster).__name__} ignores: omit"
            " costs, or use jboost.l0"
        )


def validate_proposal(learner: Learner, state: PyTree, num_examples: int) -> tuple[int, PyTree]:
    """The number of hypotheses of a proposal, and their shapes, without computing one. Raises
    ValueError, naming the learner, for wrong shapes.
    """
    example_weights = jax.ShapeDtypeStruct((num_examples,), jnp.result_type(float))
    proposal = jax.eval_shape(learner.propose, state, example_weights)
    validate_outputs(proposal, num_examples)
    before, after = (
        jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), tree)
        for tree in (state, proposal.state)
    )
    if before != after:
        raise ValueError(
            f"learner changes the shapes of its state from {before} to {after}: keep shapes and"
            " dtypes from round to round"
        )
    return proposal.outputs.shape[0], proposal.hypotheses


def validate_outputs(proposal: Proposal, num_examples: int) -> None:
    """Raises ValueError, naming the learner, unless a proposal has k rows of outputs on all
    examples, k hypotheses and k values.
    """
    shape = proposal.outputs.shape
    if len(shape) != 2 or shape[1] != num_examples:
        raise ValueError(
            f"learner proposes outputs of shape {list(shape)}: expected [k, {num_examples}], a row"
            " for each hypothesis"
        )
    sizes = {leaf.shape[:1] for leaf in jax.tree.leaves(proposal.hypotheses)} | {
        proposal.values.shape
    }
    if sizes != {shape[:1]}:
        raise ValueError(
            f"learner proposes {shape[0]} rows of outputs, but hypotheses or values of leading"
            f" sizes {sorted(sizes)}"
        )
