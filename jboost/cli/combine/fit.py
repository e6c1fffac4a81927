"""`jboost fit --method combine`.

It combines three or more classifiers and writes a folder with the model, the report and a figure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jboost import plots
from jboost.cli import fitting, scored
from jboost.cli.combine import method as combine
from jboost.cli.options import Settings
from jboost.cli.output import MARGINS, timed
from jboost.report import build, text
from jboost.report import combine as report_module


def fit(settings: Settings, say: Any) -> None:
    """Combines three or more classifiers, writes the output folder, and shows a summary.

    Args:
      settings: all options.
      say: prints text or a rich renderable.

    Raises:
      ValueError: if an option or the data are invalid. Nothing is written then.
    """
    opening = fitting.begin(settings)
    with timed(opening.seconds, "training"):
        rows = scored.score(opening, settings)
    examples, names = rows.examples, rows.names
    with timed(opening.seconds, "compile and solve"):
        vote, stacked = combine.solve(examples, settings, num_rows=len(examples.labels))

    training = examples.in_float64()

    def draw(folder: Path) -> None:
        heights = training[1] * report_module.scores(vote, training[0])
        plots.plot_margins(
            heights / max(np.abs(heights).max(), 1e-300),
            path=folder / MARGINS,
            title="Training margins: combine",
        )

    fitting.end(
        opening,
        settings,
        say,
        model=vote,
        metadata={**rows.metadata(), "strategy": settings.strategy},
        sections={
            **rows.describe(opening),
            "combination": report_module.describe(vote, names, opening.mapping, settings.strategy),
            "certificate": build.certificate(vote),
            "losses": build.losses(
                report_module.make_rules(*training, names, stacked, vote), training, rows.held_out
            ),
        },
        draw=draw,
        lines=lambda report: text.certificate_lines(report["certificate"], report["combination"]),
        beside=rows.save_base,
    )
