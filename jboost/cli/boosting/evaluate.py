"""Cross-validation of boosting, for `jboost evaluate`.

scikit-learn's AdaBoost is evaluated for comparison if no value is missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from jboost.cli.boosting import features, nu_choice
from jboost.cli.boosting import fit as boost_fit
from jboost.cli.boosting import method as boost
from jboost.cli.inputs import Source
from jboost.cli.options import Settings
from jboost.report import boosting, build
from jboost.report.build import Losses
from jboost.report.rules import ScoreRule


def evaluate_folds(
    source: Source, settings: Settings, masks: Sequence[np.ndarray]
) -> Callable[[int], Losses]:
    """Returns a function that computes the losses on a fold.

    The features are fitted and nu is chosen on the training rows of each fold. All folds are padded
    to the same number of features, so that the program compiles once.
    """
    parts = [source.rows(np.flatnonzero(~held_out)) for held_out in masks]
    fitted = [features.fit(part, settings) for part in parts]
    width = max(one.size for one in fitted)
    unpadded = [features.read_examples(one, source, settings) for one in fitted]
    # scikit-learn's AdaBoost does not accept NaN.
    has_peer = not any(np.isnan(one.points).any() for one in unpadded)

    def evaluate_fold(number: int) -> Losses:
        held_out = masks[number]
        choice = nu_choice.choose(parts[number], settings)
        examples = features.widened(unpadded[number], width, settings.learner)
        found = boost.boost(examples, ~held_out, settings, choice.nu)
        training, others = (_rows(examples.in_float64(), rows) for rows in (~held_out, held_out))
        peers = [_peer(*training, fitted[number].size, settings)] if has_peer else []
        return build.losses([*peers, boost_fit.make_rule(found, settings)], training, others)

    return evaluate_fold


def _rows(
    examples: tuple[np.ndarray, np.ndarray, np.ndarray], rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    points, labels, weights = examples
    return points[rows], labels[rows], weights[rows]


def _peer(
    points: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    num_features: int,
    settings: Settings,
) -> ScoreRule:
    """Fits scikit-learn's AdaBoost of stumps to the first features, without the padding."""
    from sklearn.ensemble import AdaBoostClassifier

    model = AdaBoostClassifier(n_estimators=settings.rounds, random_state=settings.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(points[:, :num_features], labels, sample_weight=weights)
    detail = f"stumps: {boosting.count(len(model.estimators_))}"
    return ScoreRule(
        "scikit-learn AdaBoost", detail, lambda points: model.predict(points[:, :num_features])
    )
