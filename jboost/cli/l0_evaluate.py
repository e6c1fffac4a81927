"""Cross-validation of the method l0, for `jboost evaluate`: its rules, and the larger class beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jboost import drive
from jboost.cli import l0, l0_fit
from jboost.cli.inputs import Source
from jboost.cli.options import Settings
from jboost.report import build
from jboost.report import l0 as report_room


def cross_validate(
    source: Source, settings: Settings, masks: Sequence[np.ndarray], *, on_step: drive.OnStep | None = None
) -> list[list[dict[str, Any]]]:
    """The losses on every fold, and how many rules there are; bits are chosen anew on the training rows of each, and one compilation serves all.

    Args:
      source: the data.
      settings: all options.
      masks: [m] bool each, True where the row is held out.
      on_step: called after each fold with the losses so far and the number of the fold; False stops.
    """
    table = source.table
    assert table.labels is not None
    assert table.mapping is not None
    rows, labels = l0.read_rows(table, tuple(table.numeric), tuple(table.categorical)), table.labels
    weights = np.ones(len(labels)) if source.weights is None else source.weights
    binarizers = [l0.binarize(rows[~held_out], labels[~held_out], weights[~held_out], table.columns, settings, table.source) for held_out in masks]
    width = l0.common_width(binarizers)
    bits_of_folds = [l0.bits_of(one, rows, settings.precision, width=width) for one in binarizers]
    has_gaps = any(bool(np.isnan(bits[~held_out]).any()) for bits, held_out in zip(bits_of_folds, masks, strict=True))
    folds: list[list[dict[str, Any]]] = []
    for number, (held_out, binarizer, bits) in enumerate(zip(masks, binarizers, bits_of_folds, strict=True), start=1):
        fitted = l0.fit(bits, labels, source.weights, ~held_out, settings, num_attributes=binarizer.num_bits, has_gaps=has_gaps)
        training, others = ((bits[chosen], labels[chosen], weights[chosen]) for chosen in (~held_out, held_out))
        losses = build.losses(l0_fit.make_rules(fitted.ensemble, training, table.mapping, settings), training, others)
        losses[-1]["support"] = len(report_room.voting(fitted.ensemble))
        losses[-1]["certificate"] = report_room.certificate(fitted)
        folds.append(losses)
        if on_step is not None and not on_step(folds, f"fold {number}"):
            break
    return folds
