"""`jboost fit --method example-weights`: data in, a folder with the model, the report and the figures out."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import files, plots
from jboost.cli import example_weights, inputs
from jboost.cli.options import Settings
from jboost.cli.output import BOUNDARY, MARGINS, MODEL, REPORT, check_output, timed
from jboost.data.table import LabelMapping
from jboost.example_weights import ExampleWeightModel
from jboost.report import build, text
from jboost.report import example_weights as report_room
from jboost.report.rules import Rule


def fit(settings: Settings, say: Any) -> None:
    """Finds example weights, writes the output folder, and shows a summary.

    Args:
      settings: all options.
      say: prints text or anything that rich can show.

    Raises:
      ValueError: in one line, for anything that the user can put right; nothing is written then.
    """
    output = Path(settings.output)
    check_output(output, settings.overwrite)
    seconds: dict[str, float] = {}
    with timed(seconds, "reading"):
        source = inputs.read_source(settings)
        labels, mapping = source.table.labels, source.table.mapping
        assert labels is not None
        assert mapping is not None
        kept, apart = inputs.split_rows(labels, settings.holdout, settings.seed)
        names = example_weights.feature_names(source.table)
        examples = example_weights.read_examples(source.rows(kept), names, settings)
        others = example_weights.read_examples(source.rows(apart), names, settings).in_float64() if len(apart) else None
    everything = np.ones(len(kept), bool)
    with timed(seconds, "choice"):
        choice = example_weights.choose(examples, everything, settings)
    with timed(seconds, "weights"):
        model = example_weights.fit(examples, everything, settings, choice.penalty)
    description = report_room.describe(model, names, float(model.kernel.radius))  # type: ignore[attr-defined]
    losses = [{**row, "mean": row["mean"] if math.isfinite(row["mean"]) else None} for row in choice.losses]
    report: dict[str, Any] = {
        "command": "fit",
        "method": settings.method,
        "data": build.describe_data(source.table, len(apart), None, example_weights.left_out_notes(source.table)),
        "penalty": {"chosen": choice.penalty, "losses": losses},
        "model": description,
        "losses": build.losses([make_rule(model, settings)], examples.in_float64(), others),
        "seconds": seconds,
        "settings": dataclasses.asdict(settings),
        "versions": build.versions(),
    }
    metadata = {
        "method": settings.method,
        "names": list(names),
        "precision": settings.precision,
        "labels": dataclasses.asdict(mapping),
        "model": description,
    }
    with files.atomic_folder(output) as folder:
        with jax.enable_x64(settings.precision == "float64"):
            files.save(model, folder / MODEL, metadata=metadata)
        with timed(seconds, "figures"):
            _draw(model, examples.points, examples.labels, names, mapping, settings, folder)
        build.write(report, folder / REPORT)
    _show(report, mapping, output, say)


def make_rule(model: ExampleWeightModel, settings: Settings) -> Rule:
    """The classifier as a rule for the table of losses; a score of 0 is a vote for -1, as in `jboost.predict`."""
    detail = f"support: {int(model.num_support)}"
    return Rule(settings.method, detail, lambda points: np.where(example_weights.scores(model, points, settings.precision) > 0, 1, -1))


def _draw(
    model: ExampleWeightModel, points: np.ndarray, labels: np.ndarray, names: tuple[str, ...], mapping: LabelMapping, settings: Settings, folder: Path
) -> None:
    margins = labels * example_weights.scores(model, points, settings.precision)
    largest = float(np.abs(margins).max()) or 1.0
    plots.plot_margins(margins / largest, path=folder / MARGINS, title="Training margins over the largest: example-weights")
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


def _show(report: dict[str, Any], mapping: LabelMapping, output: Path, say: Any) -> None:
    for line in text.data_lines(report["data"]):
        say(line)
    say(text.loss_table(report["losses"]))
    for line in [*report_room.choice_lines(report["penalty"]), *report_room.lines(report["model"], mapping)]:
        say(line)
    say(f"seconds     {text.seconds_line(report['seconds'])}")
    say(f"written     {', '.join(sorted(path.name for path in output.iterdir()))} in {output}")
