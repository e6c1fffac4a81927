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
from jboost.cli import bits as bit_module
from jboost.cli import inputs, limits, programs
from jboost.cli.inputs import HostExamples, Source
from jboost.cli.options import Settings
from jboost.cli.output import MODEL, REPORT, check_output, timed
from jboost.cli.programs import Count
from jboost.cli.reading import keep_reading
from jboost.cli.votes import ones_for_none
from jboost.data.binarization import Binarizer
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

    def read_held_out(
        self, read: Callable[[Source], HostExamples]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Returns points, labels and weights of the held-out rows in float64, or None if there
        are none.
        """
        return read(self.source.rows(self.apart)).in_float64() if len(self.apart) else None

    def describe_data(self, notes: Sequence[str] = ()) -> dict[str, Any]:
        """Returns the section of the report on the table."""
        source = self.source
        return build.describe_data(source.table, len(self.apart), source.weights, notes)

    def held_out_bits(
        self, binarizer: Binarizer, precision: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Returns bits, labels and weights of the held-out rows, or None if there are none."""
        if not len(self.apart):
            return None
        columns, held_out = self.source.table, self.source.rows(self.apart)
        rows = held_out.table.matrix(tuple(columns.numeric), tuple(columns.categorical))
        bits = bit_module.apply(binarizer, rows, precision)
        return bits, self.labels[self.apart], ones_for_none(held_out.weights, len(self.apart))


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
    stored = _stored(metadata, opening, settings)
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
    for line in (*lines(report), *text.run_lines(report)):
        say(line)
    say(
        f"written     {', '.join(sorted(path.name for path in opening.output.iterdir()))} in"
        f" {opening.output}"
    )


def _stored(metadata: Mapping[str, Any], opening: Opening, settings: Settings) -> dict[str, Any]:
    """Returns the metadata of the model file: those of the method, and those of every fit."""
    return {
        "method": settings.method,
        "precision": settings.precision,
        "labels": dataclasses.asdict(opening.mapping),
        "weights": settings.weights,
        "held_out": {"fraction": settings.holdout, "seed": settings.seed},
        **metadata,
        "reading": keep_reading(opening.source.table.rows(opening.kept)),
    }
