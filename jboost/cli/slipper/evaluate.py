"""Cross-validation of the method slipper, for `jboost evaluate`.

The majority class is evaluated for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jboost.cli import bits as bit_module
from jboost.cli.inputs import Source
from jboost.cli.options import Settings
from jboost.cli.slipper import method as slipper
from jboost.cli.votes import fold_losses
from jboost.report.build import Losses


def evaluate_folds(
    source: Source, settings: Settings, masks: Sequence[np.ndarray]
) -> Callable[[int], Losses]:
    """Returns a function that computes the losses and the number of rules on a fold.

    The bits are fitted to the training rows of each fold. All folds share one compilation.
    """
    table, mapping, labels = source.table, source.table.mapping, source.table.labels
    assert labels is not None
    assert mapping is not None
    rows = table.matrix(tuple(table.numeric), tuple(table.categorical))
    weights = np.ones(len(labels)) if source.weights is None else source.weights
    binarizers = [
        slipper.binarize(
            rows[~out], labels[~out], weights[~out], table.columns, settings, table.source
        )
        for out in masks
    ]
    width = max(one.num_bits for one in binarizers)

    def evaluate_fold(number: int) -> Losses:
        held_out = masks[number]
        bits = bit_module.widened(
            bit_module.apply(binarizers[number], rows, settings.precision), width
        )
        ensemble = slipper.fit(bits, labels, source.weights, ~held_out, settings).fit.ensemble
        examples = (bits, labels, weights)
        return fold_losses("slipper", ensemble, examples, held_out, mapping, settings.precision)

    return evaluate_fold
