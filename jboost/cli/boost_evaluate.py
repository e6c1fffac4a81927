"""Cross-validation of boosting, for `jboost evaluate`: the method, and scikit-learn's AdaBoost beside it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from jboost import drive
from jboost.cli import boost, boost_fit
from jboost.cli.inputs import Source
from jboost.cli.options import Settings
from jboost.report import build
from jboost.report.rules import Rule


def cross_validate(
    source: Source, settings: Settings, masks: Sequence[np.ndarray], *, on_step: drive.OnStep | None = None
) -> list[list[dict[str, Any]]]:
    """The losses on every fold; one compilation serves all folds, and nu is chosen anew on the training rows of each.

    Args:
      source: the data.
      settings: all options.
      masks: [m] bool each, True where the row is held out.
      on_step: called after each fold with the losses so far and the number of the fold; False stops.
    """
    names = boost.feature_names(source.table)
    examples = boost.read_examples(source, names, settings)
    everything = examples.in_float64()
    folds: list[list[dict[str, Any]]] = []
    for number, held_out in enumerate(masks, start=1):
        choice = boost.choose_nu(examples, ~held_out, settings)
        fitted = boost.boost(examples, ~held_out, settings, choice.nu)
        training, others = _rows(everything, ~held_out), _rows(everything, held_out)
        rules = [*_peers(*training, settings), boost_fit.make_rule(fitted, settings)]
        folds.append(build.losses(rules, training, others))
        if on_step is not None and not on_step(folds, f"fold {number}"):
            break
    return folds


def _rows(examples: tuple[np.ndarray, np.ndarray, np.ndarray], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    features, labels, weights = examples
    return features[rows], labels[rows], weights[rows]


def _peers(features: np.ndarray, labels: np.ndarray, weights: np.ndarray, settings: Settings) -> list[Rule]:
    """scikit-learn's AdaBoost of stumps, where no value is missing."""
    from sklearn.ensemble import AdaBoostClassifier

    if np.isnan(features).any():
        return []
    model = AdaBoostClassifier(n_estimators=settings.rounds, random_state=settings.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(features, labels, sample_weight=weights)
    return [Rule("scikit-learn AdaBoost", f"stumps: {len(model.estimators_)} hypotheses", lambda points: model.predict(points))]
