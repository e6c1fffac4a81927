"""Cross-validation of the method example-weights, for `jboost evaluate`, beside a support vector machine of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jboost import drive
from jboost.cli import example_weights, example_weights_fit
from jboost.cli.inputs import Source
from jboost.cli.options import Settings
from jboost.report import build
from jboost.report.rules import Rule


def cross_validate(
    source: Source, settings: Settings, masks: Sequence[np.ndarray], *, on_step: drive.OnStep | None = None
) -> list[list[dict[str, Any]]]:
    """The losses on every fold, and the support; one compilation serves all folds, and the penalty is chosen anew on the training rows of each.

    Args:
      source: the data.
      settings: all options.
      masks: [m] bool each, True where the row is held out.
      on_step: called after each fold with the losses so far and the number of the fold; False stops.
    """
    names = example_weights.feature_names(source.table)
    examples = example_weights.read_examples(source, names, settings)
    points, labels, weights = examples.in_float64()
    folds: list[list[dict[str, Any]]] = []
    for number, held_out in enumerate(masks, start=1):
        choice = example_weights.choose(examples, ~held_out, settings)
        model = example_weights.fit(examples, ~held_out, settings, choice.penalty)
        training, others = ((points[rows], labels[rows], weights[rows]) for rows in (~held_out, held_out))
        losses = build.losses([_support_vectors(*training[:2]), example_weights_fit.make_rule(model, settings)], training, others)
        losses[-1]["support"] = int(model.num_support)
        folds.append(losses)
        if on_step is not None and not on_step(folds, f"fold {number}"):
            break
    return folds


def _support_vectors(points: np.ndarray, labels: np.ndarray) -> Rule:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    machine = make_pipeline(StandardScaler(), SVC()).fit(points, labels)
    return Rule("scikit-learn SVC", f"support vectors: {int(machine[-1].n_support_.sum())}", lambda rows: machine.predict(rows))
