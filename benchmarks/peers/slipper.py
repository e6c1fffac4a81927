"""SLIPPER as the package imodels has it, where that is installed."""

from __future__ import annotations

import numpy as np


def fit_and_count(
    features: np.ndarray, labels: np.ndarray, training: np.ndarray
) -> tuple[int, int, int]:
    """Right answers on held-out rows and on the others, and the number of rules, all options as
    they are.

    Args:
      features: [m, N] of 0 and 1.
      labels: [m] -1 or +1.
      training: [m] bool, what is learnt from.
    """
    try:
        from imodels import SlipperClassifier
    except ImportError as error:
        raise SystemExit(
            "the method imodels-slipper needs the package imodels, which cannot be imported"
            f" ({error}): pip install imodels six"
        ) from error
    model = SlipperClassifier(random_state=0).fit(
        features[training], (labels[training] > 0).astype(int)
    )
    right = np.where(np.asarray(model.predict(features)) > 0, 1, -1) == labels
    return int(right[~training].sum()), int(right[training].sum()), len(model.estimators_)
