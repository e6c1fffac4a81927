"""The common first and last steps of `jboost fit`.

`begin` reads and splits the rows. `end` writes the output folder and shows a summary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jboost import files, outputs
from jboost.cli import inputs, limits, programs
from jboost.cli.inputs import Source
from jboost.cli.options import Settings
from jboost.cli.output import MODEL, REPORT, check_output, timed
from jboost.cli.programs import Count
from jboost.cli.reading import keep_reading
from jboost.data.table import LabelMapping
from jboost.report import build, text


class Opening(NamedTuple):
    """The rows of a fit and its output folder."""

    output: Path
    seconds: dict[str, float]  # the time of each step; the steps of the fit add theirs
    source: Source
    labels: np.ndarray  # [n] of all rows
    mapping: LabelMapping
    kept: np.ndarray  # indices of the training rows
    apart: np.ndarray  # indices of the held-out rows
    programs: Count  # the programs compiled before the fit


def begin(settings: Settings) -> Opening:
    """Checks the output folder, reads the data, and splits off the held-out rows.

    Raises:
      ValueError: if the folder, an option or the data are invalid.
    """
    output = check_output(settings.output, settings.overwrite)
    before = programs.count()
    seconds: dict[str, float] = {}
    with timed(seconds, "reading"):
        source = inputs.read_source(settings)
        labels, mapping = source.table.labels, source.table.mapping
        assert labels is not None
        assert mapping is not None
        kept, apart = inputs.split_rows(labels, settings.holdout, settings.seed)
    limits.check("reading")
    return Opening(output, seconds, source, labels, mapping, kept, apart, before)


def end(
    opening: Opening,
    settings: Settings,
    say: Any,
    *,
    model: Any,
    metadata: Mapping[str, Any],
    sections: Mapping[str, Any],
    draw: Callable[[Path], None],
    lines: Callable[[Mapping[str, Any]], Sequence[str]],
    beside: Callable[[Path], None] | None = None,
) -> None:
    """Writes the output folder and shows a summary.

    The folder appears only after all files were written.

    Args:
      opening: the result of `begin`.
      settings: all options.
      say: prints text or a rich renderable.
      model: the model to save, an argument of `jboost.files.save`.
      metadata: the metadata of the model file, in addition to method, precision and labels.
      sections: the sections of the report. `data` and `losses` are required.
      draw: a function that writes the figures into a folder.
      lines: a function from the report to the lines that are shown below the table of losses.
      beside: a function that writes further files into a folder, or None.
    """
    report: dict[str, Any] = {
        "command": "fit",
        "method": settings.method,
        "device": opening.source.device,
        **sections,
        "seconds": opening.seconds,
        "settings": dataclasses.asdict(settings),
        "versions": build.versions(),
    }
    stored = {
        "method": settings.method,
        "precision": settings.precision,
        "labels": dataclasses.asdict(opening.mapping),
        "weights": settings.weights,
        "held_out": {"fraction": settings.holdout, "seed": settings.seed},
        **metadata,
    }
    stored["reading"] = keep_reading(opening.source.table.rows(opening.kept))
    with outputs.folder(opening.output) as folder:
        with jax.enable_x64(settings.precision == "float64"):
            files.save(model, folder / MODEL, metadata=stored)
        if beside is not None:
            beside(folder)
        with timed(opening.seconds, "figures"):
            draw(folder)
        report["programs"] = programs.count().since(opening.programs)._asdict()
        build.write(report, folder / REPORT)
    for line in text.data_lines(report["data"]):
        say(line)
    say(text.loss_table(report["losses"]))
    for line in lines(report):
        say(line)
    say(f"seconds     {text.seconds_line(report['seconds'])}")
    say(f"device      {report['device']}")
    say(f"programs    {text.programs_line(report['programs'])}")
    say(
        f"written     {', '.join(sorted(path.name for path in opening.output.iterdir()))} in"
        f" {opening.output}"
    )
