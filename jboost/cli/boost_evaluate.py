"""Cross-validation of boosting, for `jboost evaluate`: the method, and scikit-learn's AdaBoost beside it where no value is missing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from jboost.cli import boost, boost_fit
from jboost.cli.inputs import Source
from jboost.cli.options import Settings
from jboost.report import build
from jboost.report.build import Losses
from jboost.report.rules import Rule


def judge_folds(source: Source, settings: Settings, masks: Sequence[np.ndarray]) -> Callable[[int], Losses]:
    """What gives the losses on a fold; one compilation serves all folds, and nu is chosen anew on the training rows of each."""
    names = boost.feature_names(source.table)
    examples = boost.read_examples(source, names, settings)
    everything = examples.in_float64()
    has_peer = not np.isnan(everything[0]).any()

    def judge(number: int) -> Losses:
        held_out = masks[number]
        choice = boost.choose_nu(examples, ~held_out, settings)
        fitted = boost.boost(examples, ~held_out, settings, choice.nu)
        training, others = _rows(everything, ~held_out), _rows(everything, held_out)
        peers = [_peer(*training, settings)] if has_peer else []
        return build.losses([*peers, boost_fit.make_rule(fitted, settings)], training, others)

    return judge


def _rows(examples: tuple[np.ndarray, np.ndarray, np.ndarray], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    features, labels, weights = examples
    return features[rows], labels[rows], weights[rows]


def _peer(features: np.ndarray, labels: np.ndarray, weights: np.ndarray, settings: Settings) -> Rule:
    """scikit-learn's AdaBoost of stumps, which takes no missing values."""
    from sklearn.ensemble import AdaBoostClassifier

    model = AdaBoostClassifier(n_estimators=settings.rounds, random_state=settings.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(features, labels, sample_weight=weights)
    return Rule("scikit-learn AdaBoost", f"stumps: {len(model.estimators_)} hypotheses", lambda points: model.predict(points))
