"""Cross-validation of the exact combination of two classifiers, for `jboost evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jboost.cli import inputs
from jboost.cli.inputs import Source
from jboost.cli.options import Settings
from jboost.cli.pair import method as solve
from jboost.report import build, rules
from jboost.report.build import Losses


def evaluate_folds(
    source: Source, settings: Settings, masks: Sequence[np.ndarray]
) -> Callable[[int], Losses]:
    """Returns a function that computes the losses of all rules on a fold.

    All folds share one compilation.
    """
    names = settings.scores or settings.classifiers
    assert names is not None
    solver, _ = solve.compile_solver(source.table.num_rows, settings)

    def evaluate_fold(number: int) -> Losses:
        held_out = masks[number]
        training, base = inputs.score_training_rows(
            source.rows(np.flatnonzero(~held_out)), settings
        )
        others = inputs.score_other_rows(source.rows(np.flatnonzero(held_out)), settings, base)
        separator = solver(training)
        fitted_rules = rules.fit_rules(*training.in_float64(), names, separator)
        return build.losses(fitted_rules, training.in_float64(), others.in_float64())

    return evaluate_fold
