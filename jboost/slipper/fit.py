"""SLIPPER as published: cross-validation chooses the number of rounds."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import boosting, check, derivatives, devices, meshes
from jboost.base.boosting import Fit, State
from jboost.base.loops import OnStep
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.slipper.booster import Slipper
from jboost.slipper.rounds import choose_before_fit
from jboost.slipper.rules import rules


@meshes.takes_sharded
@derivatives.without("init of a booster")
def init(
    dataset: Dataset,
    learner: Any = None,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    num_rounds: ArrayLike | None = None,
    num_folds: int | None = None,
) -> State:
    """The state before the first round, for a loop of your own over `step(state, dataset)`.
    `finish(state)` gives the result.

    The arguments are those of `fit`. With `num_folds` and without `num_rounds` it is the state of
    `fit` after its cross-validation. Without both there is no cross-validation, and `max_rounds` is
    the number of rounds.
    """
    learner = rules() if learner is None else learner
    if num_rounds is not None or num_folds is None:
        return boosting.start(
            _booster(max_rounds, num_rounds), learner, dataset, key=key, max_rounds=max_rounds
        )
    booster, key = _choose(dataset, learner, key, max_rounds, num_folds)
    return boosting.start(booster, learner, dataset, key=key, max_rounds=max_rounds)


@meshes.takes_sharded
@derivatives.without("jboost.slipper.fit")
def fit(
    dataset: Dataset,
    learner: Any = None,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    num_rounds: ArrayLike | None = None,
    num_folds: int = 5,
    on_step: OnStep | None = None,
    initial: State | None = None,
) -> Fit:
    """SLIPPER in one compiled loop. The number of rounds is chosen by cross-validation (Cohen and
    Singer 1999).

    Args:
      dataset: of m examples, features of 0 and 1, or NaN where neither literal holds; `weights` are
        the first distribution.
      learner: None for `rules()`, or another learner whose outputs are -1, 0 and +1.
      key: required, for the splits and the folds.
      max_rounds: the largest number of rounds; static.
      num_rounds: [] the number of rounds, at most `max_rounds`; None for `choose_rounds`.
      num_folds: static, the number of folds of the cross-validation, if there is one.
      on_step: called with (state, info) between rounds, on the host; False ends the loop with
        status TIME_LIMIT. Not under jit or vmap. `jboost.checkpoints` has one that saves the state.
      initial: a state from which to continue, as passed to `on_step` of the same fit or made by
        `init`; None for a fit from the start. The result is bitwise that of an uninterrupted fit
        with an `on_step`. Without `num_rounds` the number of rounds is that of the state, and there
        is no cross-validation.

    Returns:
      A `Fit`, usually with status ROUND_LIMIT, since it does all rounds. `certificate.lower_bound`
      is the training error, and `certificate.upper_bound` is the product of the normalisers. In the
      ensemble equal rules share a slot, with the sum of their votes. A positive vote is one for the
      class +1.

    Raises:
      ValueError: at trace time, naming the argument; for concrete labels and weights that are not
        allowed. Other values that are not allowed end in status INVALID_INPUT.

    >>> import jax, jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 10, [1, -1, -1, -1] * 10)
    >>> fitted = jboost.slipper.fit(dataset, key=jax.random.key(0), num_rounds=2)
    >>> print(jboost.ensemble.describe(fitted.ensemble, ["a", "b"]))
    1.522 * [a and b]
    -1.233 * [always]
    """
    learner = rules() if learner is None else learner
    dataset = boosting.check_arguments(learner, dataset, max_rounds)
    check.count("num_folds", num_folds, low=2)
    key = check.key("key", key)
    booster = _booster(max_rounds, num_rounds)
    if num_rounds is None and initial is None:
        booster, key = _choose(dataset, learner, key, max_rounds, num_folds)
    elif num_rounds is None and isinstance(getattr(initial, "booster", None), Slipper):
        booster = initial.booster  # type: ignore[union-attr]
    return boosting.fit(
        booster, learner, dataset, key=key, max_rounds=max_rounds, on_step=on_step, initial=initial
    )


def _choose(
    dataset: Dataset, learner: Any, key: Array | None, max_rounds: int, num_folds: int
) -> tuple[Slipper, Array]:
    """The booster with the cross-validated number of rounds, and the key for the fit."""
    chosen, key_fit = choose_before_fit(
        dataset, learner, key=key, max_rounds=max_rounds, num_folds=num_folds
    )
    return Slipper(chosen), key_fit


def _booster(max_rounds: int, num_rounds: ArrayLike | None) -> Slipper:
    check.count("max_rounds", max_rounds, low=1)
    if num_rounds is None:
        return Slipper(devices.from_host(np.asarray(max_rounds, np.int32)))
    wanted = check.number("num_rounds", num_rounds, low=1, high=max_rounds)
    if not isinstance(wanted, jax.core.Tracer) and float(wanted) != int(wanted):
        raise ValueError(f"num_rounds is {float(wanted):g}: expected a whole number")
    return Slipper(wanted.astype(jnp.int32))
