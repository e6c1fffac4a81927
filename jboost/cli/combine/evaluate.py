"""Cross-validation of the method combine, for `jboost evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jboost.cli import inputs
from jboost.cli.combine import method as combine
from jboost.cli.inputs import Source
from jboost.cli.options import Settings
from jboost.report import build
from jboost.report import combine as report_module
from jboost.report.build import Losses


def evaluate_folds(
    source: Source, settings: Settings, masks: Sequence[np.ndarray]
) -> Callable[[int], Losses]:
    """Returns a function that computes the losses of all rules on a fold.

    All folds share one compilation.
    """
    names = settings.scores or settings.classifiers
    assert names is not None

    def evaluate_fold(number: int) -> Losses:
        held_out = masks[number]
        training, base = inputs.score_training_rows(
            source.rows(np.flatnonzero(~held_out)), settings
        )
        others = inputs.score_other_rows(source.rows(np.flatnonzero(held_out)), settings, base)
        vote, stacked = combine.solve(training, settings, num_rows=source.table.num_rows)
        rules = report_module.make_rules(*training.in_float64(), names, stacked, vote)
        return build.losses(rules, training.in_float64(), others.in_float64())

    return evaluate_fold
