"""`jboost fit --method example-weights`.

It fits a model and writes a folder with the model, the report and the figures.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from jboost import plots
from jboost.cli import fitting, limits
from jboost.cli.example_weights import method as example_weights
from jboost.cli.inputs import HostExamples
from jboost.cli.options import Settings
from jboost.cli.output import BOUNDARY, MARGINS, timed
from jboost.data.table import LabelMapping
from jboost.example_weights import ExampleWeightModel
from jboost.report import build, verdict
from jboost.report import example_weights as report_module
from jboost.report.rules import ScoreRule

_REMEDY = "another --penalty, --penalty cv, or other columns"


def fit(settings: Settings, say: Any) -> None:
    """Finds example weights, writes the output folder, and shows a summary.

    Args:
      settings: all options.
      say: prints text or a rich renderable.

    Raises:
      ValueError: if an option or the data are invalid. Nothing is written then.
    """
    opening = fitting.begin(settings)
    source, kept, mapping = opening.source, opening.kept, opening.mapping
    names = example_weights.feature_names(source.table)
    examples = example_weights.read_examples(source.rows(kept), names, settings)
    others = opening.read_held_out(
        lambda part: example_weights.read_examples(part, names, settings)
    )
    everything = np.ones(len(kept), bool)
    with timed(opening.seconds, "choice"):
        choice = _choose(examples, everything, settings)
    with timed(opening.seconds, "weights"):
        model = example_weights.fit(examples, everything, settings, choice.penalty)
    description = report_module.describe(model, names)
    found = build.losses([make_rule(model, settings)], examples.in_float64(), others)
    _, labels, weights = examples.in_float64()
    description["verdict"] = verdict.assess(
        found[-1]["training"]["rate"], labels, weights, remedy=_REMEDY
    )
    fitting.end(
        opening,
        settings,
        say,
        model=model,
        metadata={"names": list(names), "model": description},
        sections={
            "data": build.describe_data(
                source.table, len(opening.apart), None, example_weights.left_out_notes(source.table)
            ),
            "penalty": _describe_choice(choice, settings),
            "model": description,
            "losses": found,
        },
        draw=lambda folder: _draw(model, examples, names, mapping, settings, folder),
        lines=lambda report: [
            *report_module.choice_lines(report["penalty"]),
            *report_module.lines(report["model"], mapping),
        ],
    )


def _choose(
    examples: HostExamples, everything: np.ndarray, settings: Settings
) -> example_weights.ChosenPenalty:
    """Chooses the penalty, with a progress bar."""
    num_penalties = len(example_weights.penalties(settings, len(everything)))
    with limits.progress("choice of the penalty", num_penalties) as on_step:
        return example_weights.choose(examples, everything, settings, on_step=on_step)


def _describe_choice(choice: example_weights.ChosenPenalty, settings: Settings) -> dict[str, Any]:
    """Returns the description of the choice for the report, in types that JSON supports."""
    losses = [
        {**row, "mean": _finite(row["mean"]), "rates": [_finite(rate) for rate in row["rates"]]}
        for row in choice.losses
    ]
    return {
        "chosen": choice.penalty,
        "losses": losses,
        "candidates": choice.num_candidates,
        "validation": settings.validation,
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def make_rule(model: ExampleWeightModel, settings: Settings) -> ScoreRule:
    """Returns the classifier as a rule for the table of losses.

    A score of 0 predicts -1, as in `jboost.predict`.
    """
    detail = f"support: {int(model.num_support)}"
    return ScoreRule(
        settings.method,
        detail,
        lambda points: np.where(
            example_weights.scores(model, points, settings.precision) > 0, 1, -1
        ),
    )


def _draw(
    model: ExampleWeightModel,
    examples: HostExamples,
    names: tuple[str, ...],
    mapping: LabelMapping,
    settings: Settings,
    folder: Path,
) -> None:
    points, labels = examples.points, examples.labels
    margins = labels * example_weights.scores(model, points, settings.precision)
    largest = float(np.abs(margins).max()) or 1.0
    plots.plot_margins(
        margins / largest,
        path=folder / MARGINS,
        title="Training margins over the largest: example-weights",
    )
    if len(names) == 2:
        plots.plot_example_weights(
            points,
            labels,
            np.asarray(model.example_weights),
            lambda grid: example_weights.scores(model, grid, settings.precision),
            names=names,
            path=folder / BOUNDARY,
            class_names=(mapping.negative, mapping.positive),
        )
