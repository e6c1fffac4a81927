"""Cross-validation of the method l0, for `jboost evaluate`.

The majority class is evaluated for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jboost.cli import bits as bit_module
from jboost.cli import limits
from jboost.cli.inputs import Source
from jboost.cli.l0 import candidates, folds
from jboost.cli.l0 import method as l0
from jboost.cli.options import Settings
from jboost.cli.votes import make_rules
from jboost.data.binarization import Binarizer
from jboost.report import build, monomials
from jboost.report.build import Losses


def evaluate_folds(
    source: Source, settings: Settings, masks: Sequence[np.ndarray]
) -> Callable[[int], Losses]:
    """Returns a function that computes the losses and the number of rules on a fold.

    The bits are fitted to the training rows of each fold. All folds are padded to the same size, so
    that the program compiles once.
    """
    candidates.check_vote(settings)
    table = source.table
    mapping = table.mapping
    assert table.labels is not None
    assert mapping is not None
    rows, labels = (
        folds.read_rows(table, tuple(table.numeric), tuple(table.categorical)),
        table.labels,
    )
    weights = np.ones(len(labels)) if source.weights is None else source.weights

    def binarize(held_out: np.ndarray) -> Binarizer:
        return folds.binarize(
            rows[~held_out],
            labels[~held_out],
            weights[~held_out],
            table.columns,
            settings,
            table.source,
        )

    binarizers = [binarize(held_out) for held_out in masks]
    width = folds.common_width(binarizers)
    bits_of_folds = [
        bit_module.apply(one, rows, settings.precision, width=width) for one in binarizers
    ]
    inner_of_folds = _of_one_width(
        [
            folds.choosing_folds(rows, labels, source.weights, ~held_out, table.columns, settings)
            for held_out in masks
        ]
    )
    parts = list(zip(bits_of_folds, masks, inner_of_folds, strict=True))
    has_gaps = any(
        bool(np.isnan(bits[~held_out]).any()) or (inner is not None and inner.have_gaps(~held_out))
        for bits, held_out, inner in parts
    )
    num_rows = max(
        l0.num_distinct(bits, labels, ~held_out, inner, settings.precision)
        for bits, held_out, inner in parts
    )

    def evaluate_fold(number: int) -> Losses:
        bits, held_out, inner = parts[number]
        training_rows = ~held_out
        options: dict[str, Any] = {
            "num_attributes": binarizers[number].num_bits,
            "has_gaps": has_gaps,
            "inner": inner,
            "num_rows": num_rows,
        }
        left = limits.left()
        options["seconds"] = None if left is None else left / (len(masks) - number)
        found = l0.fit(bits, labels, source.weights, training_rows, settings, **options)
        fitted = found.fit
        training, others = (
            (bits[chosen], labels[chosen], weights[chosen]) for chosen in (training_rows, held_out)
        )
        losses = build.losses(
            make_rules("l0", fitted.ensemble, *training[1:], mapping, settings.precision),
            training,
            others,
        )
        losses[-1]["support"] = len(monomials.voting(fitted.ensemble))
        return losses

    return evaluate_fold


def _of_one_width(inner: Sequence[folds.Inner | None]) -> list[folds.Inner | None]:
    width = max((one.bits.shape[2] for one in inner if one is not None), default=0)
    return [None if one is None else one.widened(width) for one in inner]
