"""`jboost fit --method pair`.

It combines two classifiers and writes a folder with the model, the report and the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jboost import plots
from jboost.cli import fitting, inputs
from jboost.cli.options import Settings
from jboost.cli.output import BASE, FIGURE, timed
from jboost.cli.pair import analysis as pair_analysis
from jboost.cli.pair import method as solve
from jboost.cli.pair.steps import Steps
from jboost.data import classifiers
from jboost.data.table import LabelMapping
from jboost.pair import Separator
from jboost.pair.separator import LARGEST_SWEEP
from jboost.report import build, rules, text


def fit(settings: Settings, say: Any) -> None:
    """Fits, writes the output folder, and shows a summary.

    Args:
      settings: all options.
      say: prints text or a rich renderable.

    Raises:
      ValueError: if an option or the data are invalid. Nothing is written then.
    """
    opening = fitting.begin(settings)
    seconds, source, kept, apart = opening.seconds, opening.source, opening.kept, opening.apart
    with timed(seconds, "training"):
        examples, base = inputs.score_training_rows(source.rows(kept), settings)
        held_out = (
            inputs.score_other_rows(source.rows(apart), settings, base).in_float64()
            if len(apart)
            else None
        )
    is_long = len(kept) > LARGEST_SWEEP
    steps = Steps(settings, examples) if is_long or settings.checkpoint is not None else None
    solver, seconds["compile"] = solve.compile_solver(len(kept), settings, steps)
    with timed(seconds, "solve"):
        separator = solver(examples)
    with timed(seconds, "analysis"):
        loo, front = pair_analysis.analyse(examples, settings, steps)

    names = settings.scores or settings.classifiers
    assert names is not None
    training = examples.in_float64()
    mapping = opening.mapping

    def draw(folder: Path) -> None:
        _plot(separator, training[0], training[1], names, mapping, folder)
        pair_analysis.draw(examples, loo, front, names, mapping, folder)

    def save_base(folder: Path) -> None:
        if base:
            classifiers.save_base(base, folder / BASE)

    fitting.end(
        opening,
        settings,
        say,
        model=separator,
        metadata={
            "names": list(names),
            "score_columns": list(settings.scores) if settings.scores else None,
        },
        sections={
            "data": build.describe_data(
                source.table, len(apart), source.weights, base.notes if base else ()
            ),
            "base_classifiers": build.describe_base(names, base),
            "separator": build.describe_separator(separator, names, mapping),
            "certificate": build.certificate(separator),
            "losses": build.losses(
                rules.fit_rules(*training, names, separator), training, held_out
            ),
            **pair_analysis.describe(loo, front, len(kept)),
        },
        draw=draw,
        lines=lambda report: [
            *text.certificate_lines(report["certificate"], report["separator"]),
            *pair_analysis.lines(report),
        ],
        beside=save_base,
    )


def _plot(
    separator: Separator,
    points: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    mapping: LabelMapping,
    folder: Path,
) -> None:
    plots.plot_separator(
        points,
        labels,
        separator,
        names=names,
        path=folder / FIGURE,
        class_names=(mapping.negative, mapping.positive),
    )
