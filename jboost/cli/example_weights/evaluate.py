"""Cross-validation of the method example-weights, for `jboost evaluate`.

A support vector machine of scikit-learn is evaluated for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jboost.cli.example_weights import fit as example_weights_fit
from jboost.cli.example_weights import method as example_weights
from jboost.cli.inputs import Source
from jboost.cli.options import Settings
from jboost.report import build
from jboost.report.build import Losses
from jboost.report.rules import ScoreRule


def evaluate_folds(
    source: Source, settings: Settings, masks: Sequence[np.ndarray]
) -> Callable[[int], Losses]:
    """Returns a function that computes the losses and the size of the support on a fold.

    The penalty is chosen on the training rows of each fold. All folds share one compilation.
    """
    names = example_weights.feature_names(source.table)
    examples = example_weights.read_examples(source, names, settings)
    points, labels, weights = examples.in_float64()

    def evaluate_fold(number: int) -> Losses:
        held_out = masks[number]
        choice = example_weights.choose(examples, ~held_out, settings)
        model = example_weights.fit(examples, ~held_out, settings, choice.penalty)
        training, others = (
            (points[rows], labels[rows], weights[rows]) for rows in (~held_out, held_out)
        )
        losses = build.losses(
            [_support_vectors(*training[:2]), example_weights_fit.make_rule(model, settings)],
            training,
            others,
        )
        losses[-1]["support"] = int(model.num_support)
        return losses

    return evaluate_fold


def _support_vectors(points: np.ndarray, labels: np.ndarray) -> ScoreRule:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    machine = make_pipeline(StandardScaler(), SVC()).fit(points, labels)
    return ScoreRule(
        "scikit-learn SVC",
        f"support vectors: {int(machine[-1].n_support_.sum())}",
        lambda rows: machine.predict(rows),
    )
