"""The choice of the number of rounds by cross-validation, with all folds in one vmapped pass: one
compiled loop over the rounds, or one round at a time for a callback.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import boosting, check, checksums, derivatives, devices, folds, loops, meshes
from jboost.base.boosting import State
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, Dataset
from jboost.slipper.booster import Slipper
from jboost.slipper.rules import rules


class Rounds(NamedTuple):
    """The number of rounds that cross-validation chooses."""

    num_rounds: Array  # [] int32, from 1 to `max_rounds`
    # [max_rounds] share of the weight of held-out examples that is misclassified after each round;
    # NaN after the round at which `on_step` ended the choice
    errors: Array
    status: Array  # [] int32


class RoundsState(NamedTuple):
    """The state of `choose_rounds` between two rounds."""

    folds: tuple[Array, ...]  # the arrays of the fits of all folds
    errors: np.ndarray  # [max_rounds], NaN where not yet known
    num_done: np.ndarray  # [] int32, rounds so far
    status: np.ndarray  # [] int32 of the folds so far
    checksums: np.ndarray  # [6] uint32, of what `_CHECKED` names


# what the checksums of a state are of
_CHECKED = (*Dataset._fields, "learner", "key")


class _RoundFolds(NamedTuple):
    """The folds between two rounds; of a single fold if without the leading axis."""

    is_held: Array  # [F, m] bool
    state: State  # of the fit without the held-out examples
    scores: Array  # [F, m] of that fit, of all examples


@meshes.takes_sharded
@derivatives.without("jboost.slipper.choose_rounds")
def choose_rounds(
    dataset: Dataset,
    learner: Any = None,
    *,
    key: Array | None,
    max_rounds: int = 100,
    num_folds: int = 5,
    on_step: OnStep | None = None,
    initial: RoundsState | None = None,
) -> Rounds:
    """The number of rounds of least cross-validated error; among ties the smallest. One pass
    evaluates all folds and all numbers of rounds.

    Args:
      dataset: of m examples.
      learner: None for `rules()`.
      key: for the folds and the learner.
      max_rounds: the largest number of rounds to try, static.
      num_folds: static, at least 2; stratified.
      on_step: called on the host after each round of all folds, with (state, (rounds so far,
        `max_rounds`)), a `RoundsState`. False ends the choice, which is then among the rounds so
        far. Not under jit or vmap.
      initial: a state from which to continue, as passed to `on_step` of a choice with the same
        arguments; None for a choice from the beginning. The result is bitwise that of an
        uninterrupted choice with an `on_step`. A state of other data, of another learner, key or
        number of rounds or folds is refused.

    Returns:
      A `Rounds`; status INVALID_INPUT for values that are not allowed, TIME_LIMIT if `on_step`
      ended the choice, else OPTIMAL.

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
    key = check.key("key", key)
    sizes = {"max_rounds": max_rounds, "num_folds": num_folds}
    if on_step is None and initial is None:
        return _choose(learner, dataset, key, **sizes)
    check.can_be_watched(on_step, (learner, dataset, key, initial), between="rounds")
    return _drive(learner, dataset, key, on_step, initial, **sizes)


@meshes.takes_sharded
def choose_before_fit(
    dataset: Dataset, learner: Any, *, key: Array | None, max_rounds: int, num_folds: int
) -> tuple[Array, Array]:
    """The number of rounds by `choose_rounds`, with the first part of the key, and the second part,
    which is for the fit. It is one program.
    """
    dataset = boosting.check_arguments(learner, dataset, max_rounds)
    check.count("num_folds", num_folds, low=2)
    return _choose_before_fit(
        learner, dataset, check.key("key", key), max_rounds=max_rounds, num_folds=num_folds
    )


@devices.public_jit(static_argnames=("max_rounds", "num_folds"))
def _choose_before_fit(
    learner: Any, dataset: Dataset, key: Array, *, max_rounds: int, num_folds: int
) -> tuple[Array, Array]:
    key_choice, key_fit = jax.random.split(key)
    chosen = _choose(learner, dataset, key_choice, max_rounds=max_rounds, num_folds=num_folds)
    return chosen.num_rounds, key_fit


@devices.public_jit(static_argnames=("max_rounds", "num_folds"))
def _choose(
    learner: Any, dataset: Dataset, key: Array, *, max_rounds: int, num_folds: int
) -> Rounds:
    held_out, keys = _draw_folds(dataset, key, num_folds)
    weights = boosting.initial_distribution(dataset)

    def one_fold(is_held: Array, key: Array) -> tuple[Array, Array]:
        first = _begin(learner, dataset, is_held, key, max_rounds=max_rounds)
        last, errors = loops.scan(
            lambda fold, _: _advance(fold, dataset, weights), first, length=max_rounds
        )
        return errors, _is_bad(last, dataset)

    errors, is_bad = jax.vmap(one_fold)(held_out, keys)
    total = jnp.sum(errors, axis=0)
    return Rounds((jnp.argmin(total) + 1).astype(jnp.int32), total, _status(dataset, is_bad))


def _drive(
    learner: Any,
    dataset: Dataset,
    key: Array,
    on_step: OnStep | None,
    initial: RoundsState | None,
    *,
    max_rounds: int,
    num_folds: int,
) -> Rounds:
    """`_choose` with one call of a compiled program for each round, and `on_step` between them."""
    fold, weights = _begin_all(learner, dataset, key, max_rounds=max_rounds, num_folds=num_folds)
    leaves, structure = jax.tree.flatten(fold)
    state = RoundsState(
        tuple(leaves),
        np.full(max_rounds, np.nan, weights.dtype),
        np.asarray(0, np.int32),
        np.asarray(int(Status.UNFINISHED), np.int32),
        np.append(
            checksums.of_dataset(dataset),
            np.array([checksums.of_tree(one) for one in (learner, key)], np.uint32),
        ),
    )
    if initial is not None:
        kind = "jboost.slipper.RoundsState"
        state = checksums.validate_state(initial, state, parts=_CHECKED, what="choice", kind=kind)
    while state.num_done < max_rounds:
        fold, error, status = _advance_all(
            jax.tree.unflatten(structure, state.folds), dataset, weights
        )
        errors = state.errors.copy()
        errors[int(state.num_done)] = error
        state = state._replace(
            folds=tuple(jax.tree.leaves(fold)),
            errors=errors,
            num_done=state.num_done + np.int32(1),
            status=np.asarray(status),
        )
        if not loops.goes_on(on_step, state, (int(state.num_done), max_rounds)):
            break
    best = np.argmin(np.where(np.isnan(state.errors), np.inf, state.errors))
    is_cut_short = state.num_done < max_rounds and state.status == int(Status.OPTIMAL)
    return Rounds(
        devices.from_host(np.asarray(best + 1, np.int32)),
        devices.from_host(state.errors),
        jnp.asarray(int(Status.TIME_LIMIT) if is_cut_short else state.status, jnp.int32),
    )


@functools.partial(devices.host_jit, static_argnames=("max_rounds", "num_folds"))
def _begin_all(
    learner: Any, dataset: Dataset, key: Array, *, max_rounds: int, num_folds: int
) -> tuple[_RoundFolds, Array]:
    """The folds before the first round, and the weights [m] of the errors."""
    begin = functools.partial(_begin, learner, dataset, max_rounds=max_rounds)
    first = jax.vmap(begin)(*_draw_folds(dataset, key, num_folds))
    return first, boosting.initial_distribution(dataset)


@devices.host_jit
def _advance_all(
    fold: _RoundFolds, dataset: Dataset, weights: Array
) -> tuple[_RoundFolds, Array, Array]:
    """All folds after one more round, their error [], and the status []."""
    fold, errors = jax.vmap(lambda one: _advance(one, dataset, weights))(fold)
    is_bad = jax.vmap(lambda one: _is_bad(one, dataset))(fold)
    return fold, jnp.sum(errors, axis=0), _status(dataset, is_bad)


def _draw_folds(dataset: Dataset, key: Array, num_folds: int) -> tuple[Array, Array]:
    """The held-out examples [F, m] and the keys [F] of the fits."""
    key_folds, key_fits = jax.random.split(key)
    held_out = folds.stratified_folds(
        key_folds, dataset.labels, num_folds=num_folds, mask=dataset.mask
    )
    return held_out, jax.random.split(key_fits, num_folds)


def _without(dataset: Dataset, is_held: Array) -> Dataset:
    return dataset._replace(mask=dataset.mask & ~is_held)


def _begin(
    learner: Any, dataset: Dataset, is_held: Array, key: Array, *, max_rounds: int
) -> _RoundFolds:
    """A fold before the first round."""
    booster = Slipper(jnp.asarray(max_rounds, jnp.int32))
    part = _without(dataset, is_held)
    state = boosting.begin(booster, learner, part, key=key, max_rounds=max_rounds)
    scores = jnp.zeros_like(boosting.initial_distribution(dataset))
    return _RoundFolds(is_held, state, scores)


def _advance(fold: _RoundFolds, dataset: Dataset, weights: Array) -> tuple[_RoundFolds, Array]:
    """A fold after one more round, and its error, the misclassified part of the held-out weight."""
    before, learner = fold.state, fold.state.ensemble.learner
    # `step` is not used: its branch would execute both sides under vmap, and JAX does not support
    # its constants on a mesh
    goes_on = boosting.unfinished(before)
    state = jax.tree.map(
        lambda new, old: jnp.where(goes_on, new, old),
        boosting.advance(before, _without(dataset, fold.is_held)),
        before,
    )
    change = state.ensemble.votes - before.ensemble.votes
    slot = jnp.argmax(jnp.any(change != 0, axis=1))
    said = learner.outputs(
        jax.tree.map(lambda leaf: leaf[slot], state.ensemble.hypotheses), dataset.features
    )
    scores = fold.scores + change[slot, 0] * said
    is_wrong = (jnp.where(scores > 0, 1, -1) != jnp.sign(dataset.labels)) & fold.is_held
    return _RoundFolds(fold.is_held, state, scores), jnp.sum(jnp.where(is_wrong, weights, 0.0))


def _is_bad(fold: _RoundFolds, dataset: Dataset) -> Array:
    """Whether the fit of a fold has values that are not allowed, [] bool."""
    is_some = jnp.any(_without(dataset, fold.is_held).mask)
    return (fold.state.status == int(Status.INVALID_INPUT)) & is_some


def _status(dataset: Dataset, is_bad: Array) -> Array:
    """OPTIMAL, or INVALID_INPUT where the data set or a fold [F] is not allowed, [] int32."""
    is_sound = boosting.is_valid(dataset) & ~jnp.any(is_bad)
    return jnp.where(is_sound, int(Status.OPTIMAL), int(Status.INVALID_INPUT)).astype(jnp.int32)
