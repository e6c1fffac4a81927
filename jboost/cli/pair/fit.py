"""`jboost fit --method pair`.

It combines two classifiers and writes a folder with the model, the report and the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jboost import plots
from jboost.cli import fitting, scored
from jboost.cli.inputs import HostExamples
from jboost.cli.options import Settings
from jboost.cli.output import FIGURE, timed
from jboost.cli.pair import analysis as pair_analysis
from jboost.cli.pair import method as solve
from jboost.cli.pair.steps import Steps
from jboost.data.table import LabelMapping
from jboost.pair import Separator
from jboost.pair.separator import LARGEST_SWEEP
from jboost.pair.types import LeaveOneOut, ParetoFront
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
    mapping = opening.mapping
    with timed(opening.seconds, "training"):
        rows = scored.score(opening, settings)
    examples, names = rows.examples, rows.names
    separator, loo, front = _solve(examples, settings, opening.seconds)
    training = examples.in_float64()

    def draw(folder: Path) -> None:
        _plot(separator, training[0], training[1], names, mapping, folder)
        pair_analysis.draw(examples, loo, front, names, mapping, folder)

    fitting.end(
        opening,
        settings,
        say,
        model=separator,
        metadata=rows.metadata(),
        sections={
            **rows.describe(opening),
            "separator": build.describe_separator(separator, names, mapping),
            "certificate": build.certificate(separator),
            "losses": build.losses(
                rules.fit_rules(*training, names, separator), training, rows.held_out
            ),
            **pair_analysis.describe(loo, front, len(opening.kept)),
        },
        draw=draw,
        lines=lambda report: [
            *text.certificate_lines(report["certificate"], report["separator"]),
            *pair_analysis.lines(report),
        ],
        beside=rows.save_base,
    )


def _solve(
    examples: HostExamples, settings: Settings, seconds: dict[str, float]
) -> tuple[Separator, LeaveOneOut | None, ParetoFront | None]:
    """Returns the separator and the requested analyses, and adds the time of each step."""
    num_rows = len(examples.labels)
    is_long = num_rows > LARGEST_SWEEP
    steps = Steps(settings, examples) if is_long or settings.checkpoint is not None else None
    solver, seconds["compile"] = solve.compile_solver(num_rows, settings, steps)
    with timed(seconds, "solve"):
        separator = solver(examples)
    with timed(seconds, "analysis"):
        return separator, *pair_analysis.analyse(examples, settings, steps)


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
