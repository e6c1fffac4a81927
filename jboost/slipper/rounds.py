"""The choice of the number of rounds by cross-validation, with all folds in one vmapped pass."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import boosting, check, derivatives, folds, loops, meshes
from jboost.base.boosting import State
from jboost.base.status import Status
from jboost.base.types import Array, Dataset
from jboost.slipper.booster import Slipper
from jboost.slipper.rules import rules


class Rounds(NamedTuple):
    """The number of rounds that cross-validation chooses."""

    num_rounds: Array  # [] int32, from 1 to `max_rounds`
    # [max_rounds] share of the weight of held-out examples that is misclassified after each round
    errors: Array
    status: Array  # [] int32


@meshes.takes_sharded
@derivatives.without("jboost.slipper.choose_rounds")
def choose_rounds(
    dataset: Dataset,
    learner: Any = None,
    *,
    key: Array | None,
    max_rounds: int = 100,
    num_folds: int = 5,
) -> Rounds:
    """The number of rounds of least cross-validated error; among ties the smallest. One pass
    evaluates all folds and all numbers of rounds.

    Args:
      dataset: of m examples.
      learner: None for `rules()`.
      key: for the folds and the learner.
      max_rounds: the largest number of rounds to try, static.
      num_folds: static, at least 2; stratified.

    Returns:
      A `Rounds`; status INVALID_INPUT for values that are not allowed, else OPTIMAL.

    Raises:
      ValueError: at trace time, naming the argument.

    Cohen and Singer 1999.

    >>> import jax, jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 10, [1, -1, -1, -1] * 10)
    >>> chosen = choose_rounds(dataset, key=jax.random.key(0), max_rounds=10)
    >>> bool(chosen.num_rounds < 10), float(chosen.errors.min())
    (True, 0.0)
    """
    learner = rules() if learner is None else learner
    dataset = boosting.check_arguments(learner, dataset, max_rounds)
    check.count("num_folds", num_folds, low=2)
    return _choose(
        learner, dataset, check.key("key", key), max_rounds=max_rounds, num_folds=num_folds
    )


@functools.partial(jax.jit, static_argnames=("max_rounds", "num_folds"))
def _choose(
    learner: Any, dataset: Dataset, key: Array, *, max_rounds: int, num_folds: int
) -> Rounds:
    key_folds, key_fits = jax.random.split(key)
    held_out = folds.stratified_folds(
        key_folds, dataset.labels, num_folds=num_folds, mask=dataset.mask
    )
    weights = boosting.initial_distribution(dataset)

    def one_fold(is_held: Array, key: Array) -> tuple[Array, Array]:
        part = dataset._replace(mask=dataset.mask & ~is_held)
        state = boosting.begin(
            Slipper(jnp.asarray(max_rounds, jnp.int32)),
            learner,
            part,
            key=key,
            max_rounds=max_rounds,
        )

        def one_round(carry: tuple[State, Array], _: None) -> tuple[tuple[State, Array], Array]:
            before, scores = carry
            # `step` is not used: its branch would execute both sides under vmap, and JAX does not
            # support its constants on a mesh
            goes_on = boosting.unfinished(before)
            state = jax.tree.map(
                lambda new, old: jnp.where(goes_on, new, old),
                boosting.advance(before, part),
                before,
            )
            change = state.ensemble.votes - before.ensemble.votes
            slot = jnp.argmax(jnp.any(change != 0, axis=1))
            said = learner.outputs(
                jax.tree.map(lambda leaf: leaf[slot], state.ensemble.hypotheses), dataset.features
            )
            scores = scores + change[slot, 0] * said
            is_wrong = (jnp.where(scores > 0, 1, -1) != jnp.sign(dataset.labels)) & is_held
            return (state, scores), jnp.sum(jnp.where(is_wrong, weights, 0.0))

        (state, _), errors = loops.scan(
            one_round, (state, jnp.zeros_like(weights)), length=max_rounds
        )
        return errors, (state.status == int(Status.INVALID_INPUT)) & jnp.any(part.mask)

    errors, is_bad = jax.vmap(one_fold)(held_out, jax.random.split(key_fits, num_folds))
    total = jnp.sum(errors, axis=0)
    is_sound = boosting.is_valid(dataset) & ~jnp.any(is_bad)
    status = jnp.where(is_sound, int(Status.OPTIMAL), int(Status.INVALID_INPUT)).astype(jnp.int32)
    return Rounds((jnp.argmin(total) + 1).astype(jnp.int32), total, status)
