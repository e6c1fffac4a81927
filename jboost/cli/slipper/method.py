"""SLIPPER (Cohen and Singer, 1999) for the command line.

The columns are converted to bits. The number of rounds is chosen by cross-validation.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from jboost import slipper
from jboost.base import loops
from jboost.base.boosting import Fit
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
class Found:
    """A fit, its number of rounds, and the losses from which that number was chosen."""

    fit: Fit
    num_rounds: int
    # fraction of the held-out weight that is misclassified after each number of rounds that was
    # tried; empty if the number was given
    errors: tuple[float, ...]


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
) -> Found:
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
        num_rounds, errors = max_rounds, np.zeros(0)
        if is_chosen_by_cv:
            choice = slipper.choose_rounds(
                dataset,
                learner,
                key=key_choice,
                max_rounds=max_rounds,
                num_folds=settings.folds,
                on_step=None if on_step is None else _within_share(on_step),
            )
            if on_step is not None:
                limits.go_on_after_choice()
            num_rounds, errors = int(choice.num_rounds), np.asarray(choice.errors, np.float64)
            errors = errors[~np.isnan(errors)]
        options: dict[str, Any] = {"key": key, "max_rounds": max_rounds, "num_rounds": num_rounds}
        like = functools.partial(slipper.init, dataset, learner, **options)
        with checkpointing.kept(settings, on_step, like, dataset) as (watch, initial):
            fitted = jax.block_until_ready(
                slipper.fit(dataset, learner, on_step=watch, initial=initial, **options)
            )
    if Status(int(fitted.status)) is Status.INVALID_INPUT:
        raise ValueError(
            f"slipper found no vote: {report_module.certificate(fitted)['explanation']}"
        )
    return Found(fitted, num_rounds, tuple(float(error) for error in errors))


def _within_share(on_step: OnStep) -> OnStep:
    """The callback of the choice, which ends it when its share of the time is used."""
    begun = limits.left()

    def watch(state: Any, info: Any) -> bool:
        goes_on = loops.goes_on(on_step, state, info)
        left = limits.left()
        is_over = begun is not None and left is not None and left < (1 - _SHARE_OF_CHOICE) * begun
        return goes_on and not is_over

    return watch


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
