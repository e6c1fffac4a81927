"""Cross-validation of the method l0, for `jboost evaluate`.

The majority class is evaluated for comparison.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from jboost.cli import bits as bit_module
from jboost.cli import limits
from jboost.cli.inputs import Source
from jboost.cli.l0 import folds
from jboost.cli.l0 import method as l0
from jboost.cli.options import Settings
from jboost.cli.votes import fold_losses
from jboost.report.build import Losses


def evaluate_folds(
    source: Source, settings: Settings, masks: Sequence[np.ndarray]
) -> Callable[[int], Losses]:
    """Returns a function that computes the losses and the number of rules on a fold.

    The bits are fitted to the training rows of each fold. All folds are padded to the same size, so
    that the program compiles once.
    """
    labels, mapping = source.table.labels, source.table.mapping
    assert labels is not None
    assert mapping is not None
    weights = np.ones(len(labels)) if source.weights is None else source.weights
    parts = _binarize_folds(source, labels, weights, settings, masks)
    has_gaps = any(part.has_gaps() for part in parts)
    num_rows = max(
        l0.num_distinct(part.bits, labels, ~part.held_out, part.inner, settings.precision)
        for part in parts
    )

    def evaluate_fold(number: int) -> Losses:
        part = parts[number]
        left = limits.left()
        found = l0.fit(
            part.bits,
            labels,
            source.weights,
            ~part.held_out,
            settings,
            num_attributes=part.num_attributes,
            has_gaps=has_gaps,
            inner=part.inner,
            num_rows=num_rows,
            seconds=None if left is None else left / (len(masks) - number),
        )
        ensemble, rows = found.fit.ensemble, (part.bits, labels, weights)
        return fold_losses("l0", ensemble, rows, part.held_out, mapping, settings.precision)

    return evaluate_fold


@dataclasses.dataclass(frozen=True)
class _FoldRows:
    """All rows as bits that were fitted to the training rows of one fold."""

    bits: np.ndarray  # [m, N], padded to the width of all folds
    num_attributes: int  # without the padding
    held_out: np.ndarray  # [m] bool
    inner: folds.Inner | None  # the folds of the training rows, or None if there is no choice

    def has_gaps(self) -> bool:
        """Whether a bit of a training row is NaN."""
        rows = ~self.held_out
        has_gaps = bool(np.isnan(self.bits[rows]).any())
        return has_gaps or (self.inner is not None and self.inner.have_gaps(rows))


def _binarize_folds(
    source: Source,
    labels: np.ndarray,
    weights: np.ndarray,
    settings: Settings,
    masks: Sequence[np.ndarray],
) -> list[_FoldRows]:
    """Fits the bits of each fold, and those of the folds within its training rows."""
    table = source.table
    rows = folds.read_rows(table, tuple(table.numeric), tuple(table.categorical))
    binarizers = [
        folds.binarize(
            rows[~held_out],
            labels[~held_out],
            weights[~held_out],
            table.columns,
            settings,
            table.source,
            num_tables=len(masks),
        )
        for held_out in masks
    ]
    width = folds.common_width(binarizers)
    bits = [bit_module.apply(one, rows, settings.precision, width=width) for one in binarizers]
    inner = _of_one_width(
        [
            folds.choosing_folds(rows, labels, source.weights, ~held_out, table.columns, settings)
            for held_out in masks
        ]
    )
    return [
        _FoldRows(of_fold, binarizer.num_bits, held_out, inner_folds)
        for of_fold, binarizer, held_out, inner_folds in zip(
            bits, binarizers, masks, inner, strict=True
        )
    ]


def _of_one_width(inner: Sequence[folds.Inner | None]) -> list[folds.Inner | None]:
    width = max((one.bits.shape[2] for one in inner if one is not None), default=0)
    return [None if one is None else one.widened(width) for one in inner]
