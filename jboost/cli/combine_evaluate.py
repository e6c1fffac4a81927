"""Cross-validation of the method combine, for `jboost evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jboost import drive
from jboost.cli import combine, inputs
from jboost.cli.inputs import Source
from jboost.cli.options import Settings
from jboost.report import build
from jboost.report import combine as report_room


def cross_validate(
    source: Source, settings: Settings, masks: Sequence[np.ndarray], *, on_step: drive.OnStep | None = None
) -> list[list[dict[str, Any]]]:
    """The losses of all rules on every fold; one compilation serves all folds.

    Args:
      source: the data.
      settings: all options.
      masks: [m] bool each, True where the row is held out.
      on_step: called after each fold with the losses so far and the number of the fold; False stops.
    """
    names = settings.scores or settings.classifiers
    assert names is not None
    folds: list[list[dict[str, Any]]] = []
    for number, held_out in enumerate(masks, start=1):
        training, base = inputs.score_training_rows(source.rows(np.flatnonzero(~held_out)), settings)
        others = inputs.score_other_rows(source.rows(np.flatnonzero(held_out)), settings, base)
        vote, stacked = combine.solve(training, settings, size=source.table.num_rows)
        rules = report_room.make_rules(*training.in_float64(), names, stacked, vote)
        folds.append(build.losses(rules, training.in_float64(), others.in_float64()))
        if on_step is not None and not on_step(folds, f"fold {number}"):
            break
    return folds
