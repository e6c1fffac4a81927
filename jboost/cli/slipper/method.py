"""SLIPPER (Cohen and Singer, 1999) for the command line.

The columns are converted to bits. The number of rounds is chosen by cross-validation.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from jboost import slipper
from jboost.base import loops
from jboost.base.boosting import Fit, State
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Dataset
from jboost.cli import bits as bit_module
from jboost.cli import checkpointing, inputs, limits, sizes
from jboost.cli.option import CV
from jboost.cli.options import Settings
from jboost.data.binarization import Binarizer
from jboost.report import slipper as report_module

# Copies of all bits that are in memory at a time, as bits and as literals with their negations: for
# the fit, and additionally for each fold of the cross-validation.
_COPIES, _COPIES_OF_FOLD = 6, 4
# The share of the time that is left for the choice of the number of rounds; the fit has the rest.
_SHARE_OF_CHOICE = 0.6
_RULE_CLASSES: dict[str, Any] = {"minority": "minority", "positive": 1, "negative": -1}


@dataclasses.dataclass(frozen=True)
class ChosenSlipperFit:
    """A fit, and the losses from which its number of rounds was chosen."""

    fit: Fit
    # fraction of the held-out weight that is misclassified after each number of rounds that was
    # tried; empty if the number was given
    errors: tuple[float, ...]
    num_candidates: int  # more than the number of errors if the choice was ended early


class RunState(NamedTuple):
    """The state of a run between two rounds of the choice or of the fit, as --checkpoint saves
    it.
    """

    # of the fit, whose booster stops at `max_rounds`: so it does not depend on the choice
    fit: State
    # [max_rounds] of the choice of the number of rounds, NaN where not tried; [0] if it was given
    errors: np.ndarray
    choice: slipper.RoundsState | None  # the choice, if it has not tried all rounds


def binarize(
    rows: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    names: tuple[str, ...],
    settings: Settings,
    source: str,
) -> Binarizer:
    """Returns the binarizer for the training rows. Raises ValueError if there are no bits."""
    copies = _COPIES + (_COPIES_OF_FOLD * settings.folds if settings.num_rounds == CV else 0)
    binarizer = bit_module.fit(rows, labels, weights, names, settings, source=source, copies=copies)
    bit_module.refuse_none(binarizer, source)
    return binarizer


def fit(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    settings: Settings,
    *,
    on_step: OnStep | None = None,
) -> ChosenSlipperFit:
    """Fits rules to the rows where `chosen` [m] is True. Tables of similar size share programs.

    Args:
      bits: [m, N] of 0, 1 and NaN. Columns of 0 may be padding.
      labels: [m] -1 or +1.
      weights: [m] cost of an error on each row, or None.
      chosen: [m] bool.
      settings: all options.
      on_step: called after each round of the choice of the number of rounds, and of the fit. If it
        returns False, the choice ends with the rounds so far, and the fit with the rules so far.
        The choice also ends when its share of the time limit is used.

    With --resume the choice and the fit continue from the saved state, a choice that was ended
    early among them.

    Raises:
      ValueError: if there are more folds than rows of the minority class.
    """
    learner = slipper.rules(settings.max_order, positive=_RULE_CLASSES[settings.rules_for])
    is_chosen_by_cv = settings.num_rounds == CV
    max_rounds = settings.rounds if is_chosen_by_cv else int(settings.num_rounds)
    if is_chosen_by_cv:
        inputs.check_folds(labels[chosen], settings)
    with jax.enable_x64(settings.precision == "float64"):
        dataset = _padded(bits, labels, weights, chosen, settings.precision)
        # the same split of the key as in `slipper.fit`
        key_choice, key = jax.random.split(jax.random.key(settings.seed))
        first = functools.partial(slipper.init, dataset, learner, key=key, max_rounds=max_rounds)
        no_errors = np.full(max_rounds if is_chosen_by_cv else 0, np.nan)
        saved = checkpointing.saved(settings, lambda: RunState(first(), no_errors, None), dataset)
        errors = no_errors if saved is None else saved.errors
        if np.isnan(errors).any():  # there is no choice, or one that was ended early
            begin = saved
            if saved is None and settings.checkpoint is not None:
                begin = RunState(first(), no_errors, None)
            errors, saved = _choose(dataset, learner, key_choice, begin, saved, settings, on_step)
            if on_step is not None:
                limits.go_on_after_choice()
        num_rounds = _best(errors) if is_chosen_by_cv else max_rounds
        fitted = _fit_rounds(
            dataset, learner, key, max_rounds, num_rounds, errors, saved, settings, on_step
        )
    if Status(int(fitted.status)) is Status.INVALID_INPUT:
        raise ValueError(
            f"slipper found no vote: {report_module.certificate(fitted)['explanation']}"
        )
    return ChosenSlipperFit(fitted, tuple(errors[~np.isnan(errors)].tolist()), len(errors))


def _choose(
    dataset: Dataset,
    learner: slipper.Rules,
    key: jax.Array,
    begin: RunState | None,
    saved: RunState | None,
    settings: Settings,
    on_step: OnStep | None,
) -> tuple[np.ndarray, RunState | None]:
    """Returns the errors by round of the choice of the number of rounds, NaN where not tried, and
    the last state of the run.

    Args:
      dataset: the rows.
      learner: of rules.
      key: for the folds and the learner.
      begin: the state before the first round here; None without --checkpoint.
      saved: the state from which --resume continues, or None.
      settings: all options.
      on_step: called after each round, or None.
    """
    seen = begin

    def save(state: slipper.RoundsState, info: Any) -> bool:
        nonlocal seen
        if begin is not None:
            is_open = state.num_done < len(state.errors)
            errors = np.asarray(state.errors, np.float64)
            seen = RunState(begin.fit, errors, state if is_open else None)
        return loops.goes_on(watch, seen, info)

    with checkpointing.saving(settings, on_step, dataset, saved) as watch:
        found = slipper.choose_rounds(
            dataset,
            learner,
            key=key,
            max_rounds=settings.rounds,
            num_folds=settings.folds,
            on_step=None if watch is None else limits.within_share(save, None, _SHARE_OF_CHOICE),
            initial=None if saved is None else saved.choice,
        )
    return np.asarray(found.errors, np.float64), seen


def _fit_rounds(
    dataset: Dataset,
    learner: slipper.Rules,
    key: jax.Array,
    max_rounds: int,
    num_rounds: int,
    errors: np.ndarray,
    saved: RunState | None,
    settings: Settings,
    on_step: OnStep | None,
) -> Fit:
    """Fits rules in `num_rounds` rounds, from the saved state if there is one."""
    with checkpointing.saving(settings, on_step, dataset, saved) as watch:
        return jax.block_until_ready(
            slipper.fit(
                dataset,
                learner,
                key=key,
                max_rounds=max_rounds,
                num_rounds=num_rounds,
                on_step=watch and _with_choice(watch, errors, saved, max_rounds),
                initial=None if saved is None else _continued(saved.fit, num_rounds),
            )
        )


def _best(errors: np.ndarray) -> int:
    """Returns the smallest number of rounds of least error."""
    return 1 + int(np.argmin(np.where(np.isnan(errors), np.inf, errors)))


def _with_choice(
    watch: OnStep, errors: np.ndarray, last: RunState | None, max_rounds: int
) -> OnStep:
    """Returns the callback of the fit that passes a `RunState` to `watch`."""
    choice = None if last is None else last.choice

    def on_step(state: State, info: Any) -> bool:
        saved = state._replace(booster=_booster(max_rounds))
        return loops.goes_on(watch, RunState(saved, errors, choice), info)

    return on_step


def _continued(state: State, num_rounds: int) -> State:
    """Returns the saved state as one of a fit of `num_rounds`. The rounds that are made do not
    depend on their number, so a fit that ended at a smaller number goes on.
    """
    is_ended = state.num_rounds >= num_rounds
    status = jax.numpy.where(
        (state.status == int(Status.ROUND_LIMIT)) & ~is_ended,
        int(Status.UNFINISHED),
        state.status,
    ).astype(state.status.dtype)
    return state._replace(booster=_booster(num_rounds), status=status)


def _booster(num_rounds: int) -> slipper.Slipper:
    return slipper.Slipper(jax.numpy.asarray(num_rounds, jax.numpy.int32))


def _padded(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    precision: str,
) -> Dataset:
    """Returns the padded data set. The learner never chooses the padding columns of 0."""
    rows = sizes.linear(len(labels)) - len(labels)
    features = np.pad(bit_module.widened(bits, sizes.literals(bits.shape[1])), ((0, rows), (0, 0)))
    prices = np.ones(len(labels)) if weights is None else weights
    signs, prices = (
        np.pad(part.astype(precision), (0, rows), constant_values=1) for part in (labels, prices)
    )
    return Dataset(
        *(
            jax.numpy.asarray(part)
            for part in (features.astype(precision), signs, prices, np.pad(chosen, (0, rows)))
        )
    )
