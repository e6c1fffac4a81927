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
    source, kept, apart, mapping = opening.source, opening.kept, opening.apart, opening.mapping
    names = example_weights.feature_names(source.table)
    examples = example_weights.read_examples(source.rows(kept), names, settings)
    others = (
        example_weights.read_examples(source.rows(apart), names, settings).in_float64()
        if len(apart)
        else None
    )
    everything = np.ones(len(kept), bool)
    num_penalties = len(example_weights.penalties(settings, len(kept)))
    with (
        timed(opening.seconds, "choice"),
        limits.progress("choice of the penalty", num_penalties) as on_step,
    ):
        choice = example_weights.choose(examples, everything, settings, on_step=on_step)
    with timed(opening.seconds, "weights"):
        model = example_weights.fit(examples, everything, settings, choice.penalty)
    description = report_module.describe(model, names)
    found = build.losses([make_rule(model, settings)], examples.in_float64(), others)
    _, labels, weights = examples.in_float64()
    description["verdict"] = verdict.assess(
        found[-1]["training"]["rate"], labels, weights, remedy=_REMEDY
    )
    losses = [
        {**row, "mean": _finite(row["mean"]), "rates": [_finite(rate) for rate in row["rates"]]}
        for row in choice.losses
    ]
    fitting.end(
        opening,
        settings,
        say,
        model=model,
        metadata={"names": list(names), "model": description},
        sections={
            "data": build.describe_data(
                source.table, len(apart), None, example_weights.left_out_notes(source.table)
            ),
            "penalty": {
                "chosen": choice.penalty,
                "losses": losses,
                "candidates": choice.num_candidates,
                "validation": settings.validation,
            },
            "model": description,
            "losses": found,
        },
        draw=lambda folder: _draw(
            model, examples.points, examples.labels, names, mapping, settings, folder
        ),
        lines=lambda report: [
            *report_module.choice_lines(report["penalty"]),
            *report_module.lines(report["model"], mapping),
        ],
    )


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
    points: np.ndarray,
    labels: np.ndarray,
    names: tuple[str, ...],
    mapping: LabelMapping,
    settings: Settings,
    folder: Path,
) -> None:
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
