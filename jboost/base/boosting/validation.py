"""Checks of learners and data sets, by the host or inside a program, and the first example
weights.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jboost.base import check, labelled, numerics, reduce
from jboost.base.boosting.protocols import Learner
from jboost.base.boosting.types import Proposal
from jboost.base.types import Array, Dataset, PyTree


def has_negations(learner: Learner) -> bool:
    """Whether the negation of a hypothesis is one too; True where the learner does not say."""
    return bool(getattr(learner, "has_negations", True))


def has_quick_answers(learner: Learner) -> bool:
    """Whether a learner has the method `propose_above`, and gains by it; False where it does not
    say.
    """
    return bool(getattr(learner, "has_quick_answers", False))


def is_valid(dataset: Dataset) -> Array:
    """Whether labels, weights and mask are allowed, [] bool; features are judged by the learner's
    outputs.
    """
    labels_are_signs = (dataset.labels == 1) | (dataset.labels == -1)
    return _holds_where_it_counts(dataset, _weights_are_sound(dataset) & labels_are_signs)


def has_sound_weights(dataset: Dataset) -> Array:
    """Whether an example counts, and all that do have weights that are positive, normal and finite,
    [] bool.
    """
    return _holds_where_it_counts(dataset, _weights_are_sound(dataset))


def _weights_are_sound(dataset: Dataset) -> Array:
    weights = dataset.weights.astype(jnp.result_type(float))
    return (weights >= jnp.finfo(weights.dtype).tiny) & (weights < jnp.inf)


def _holds_where_it_counts(dataset: Dataset, condition: Array) -> Array:
    """Whether an example counts, and the condition [m] holds of all that do, [] bool."""
    counts = dataset.mask.astype(jnp.int32)
    num_examples, num_exceptions = reduce.totals(counts, jnp.where(condition, 0, counts))
    return (num_examples > 0) & (num_exceptions == 0)


def signs(dataset: Dataset) -> Array:
    """The labels as floats [m], 0 on padding: what turns outputs into margins."""
    return jnp.where(dataset.mask, jnp.sign(dataset.labels.astype(jnp.result_type(float))), 0.0)


def initial_distribution(dataset: Dataset) -> Array:
    """The weights that the user gives, as a distribution over the examples, [m]: positive, however
    small a share is, on all that are not padding.
    """
    weights = numerics.to_unit(
        jnp.where(dataset.mask, dataset.weights.astype(jnp.result_type(float)), 0.0)
    )
    total = numerics.precise_sum(weights)
    shares = numerics.safe_divide(weights, jnp.full_like(weights, total))
    tiny = jnp.finfo(shares.dtype).tiny
    return jnp.where(dataset.mask & (shares < tiny), tiny, shares)


def check_arguments(learner: Learner, dataset: Dataset, max_rounds: int) -> Dataset:
    """The data set as it counts, with examples of weight 0 masked out.

    Raises:
      ValueError: naming the argument, for what `jax.jit` would say less clearly; where values are
        known, for labels and weights that are not allowed, and for features that the learner does
        not take.
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
    validate = getattr(learner, "validate", None)
    # else the outputs are NaN, and the status INVALID_INPUT on every process
    if validate is not None and check.are_known(dataset):
        validate(dataset)
    return dataset


def check_kinds(learner: Learner, dataset: Dataset) -> Dataset:
    """The data set as it counts. Raises ValueError unless these are a learner and a data set of
    labels and weights that are allowed, where known.
    """
    missing = [name for name in ("init", "propose", "outputs") if not hasattr(learner, name)]
    if missing:
        raise ValueError(
            f"learner is a {type(learner).__name__} without {', '.join(missing)}: pass one of"
            " jboost.learners, or of your own"
        )
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"dataset is a {type(dataset).__name__}: expected a jboost.Dataset;"
            " jboost.make_dataset(features, labels) makes one"
        )
    return labelled.counted(dataset)


def validate_size(dataset: Dataset) -> None:
    """Raises ValueError unless there is a row, for what cannot do without."""
    if dataset.labels.shape[0] == 0:
        raise ValueError("dataset has no examples: expected one at least, which may be masked out")


def validate_proposal(learner: Learner, state: PyTree, num_examples: int) -> tuple[int, PyTree]:
    """How many hypotheses a proposal holds, and their shapes, without computing one. Raises
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
    """Raises ValueError, naming the learner, unless there are k rows of outputs on all examples and
    as many hypotheses and values.
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
