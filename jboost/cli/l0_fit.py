"""`jboost fit --method l0`: data in, a folder with the rules, the report and two figures out."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import drive, files, plots
from jboost.base.boosting import Ensemble, Fit
from jboost.cli import inputs, l0
from jboost.cli.options import Settings
from jboost.cli.output import GAP, MARGINS, MODEL, REPORT, check_output, timed
from jboost.data.table import LabelMapping
from jboost.report import build, text
from jboost.report import l0 as report_room
from jboost.report.rules import Rule

_NUM_SHOWN = 25


def fit(settings: Settings, say: Any) -> None:
    """Finds rules, writes the output folder, and shows a summary.

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
        table = source.table
        assert table.labels is not None
        assert table.mapping is not None
        numeric, categorical = tuple(table.numeric), tuple(table.categorical)
        kept, apart = inputs.split_rows(table.labels, settings.holdout, settings.seed)
        part = source.rows(kept)
        labels, rows = table.labels[kept], l0.read_rows(part.table, numeric, categorical)
    with timed(seconds, "binarization"):
        binarizer = l0.binarize(rows, labels, part.weights, table.columns, settings, table.source)
        bits = l0.bits_of(binarizer, rows, settings.precision)
    with timed(seconds, "rules"), drive.progress("l0", settings.rounds) as on_step:
        everything = np.ones(len(kept), bool)
        gaps = bool(np.isnan(bits).any())
        fitted = l0.fit(bits, labels, part.weights, everything, settings, num_attributes=binarizer.num_bits, has_gaps=gaps, on_step=on_step)
    ensemble = l0.voting_part(fitted.ensemble, binarizer.num_bits, settings.precision)

    model = l0.describe(fitted, ensemble, binarizer, bits, labels, part.weights, table.mapping, settings)
    training = (bits, labels, _weights(part.weights, len(labels)))
    others = None
    if len(apart):
        held_out = source.rows(apart)
        other_bits = l0.bits_of(binarizer, l0.read_rows(held_out.table, numeric, categorical), settings.precision)
        others = (other_bits, table.labels[apart], _weights(held_out.weights, len(apart)))
    report: dict[str, Any] = {
        "command": "fit",
        "method": settings.method,
        "data": build.describe_data(table, len(apart), source.weights, ()),
        "model": model,
        "losses": build.losses(make_rules(ensemble, training, table.mapping, settings), training, others),
        "seconds": seconds,
        "settings": dataclasses.asdict(settings),
        "versions": build.versions(),
    }
    metadata = {
        "method": settings.method,
        "numeric": list(numeric),
        "categorical": list(categorical),
        "precision": settings.precision,
        "labels": dataclasses.asdict(table.mapping),
        "model": model,
    }
    with files.atomic_folder(output) as folder:
        with jax.enable_x64(settings.precision == "float64"):
            files.save({"binarizer": binarizer, "ensemble": ensemble}, folder / MODEL, metadata=metadata)
        with timed(seconds, "figures"):
            _draw(fitted, ensemble, bits, labels, settings, folder)
        build.write(report, folder / REPORT)
    _show(report, table.mapping, output, say)


def make_rules(ensemble: Ensemble, training: tuple[np.ndarray, np.ndarray, np.ndarray], mapping: LabelMapping, settings: Settings) -> list[Rule]:
    """The larger class and the ensemble, as rules on bits for the table of losses; a score of 0 is a vote for -1, as in `jboost.predict`."""
    _, labels, weights = training
    larger = 1 if math.fsum(weights * labels) > 0 else -1
    size = len(report_room.voting(ensemble))
    return [
        Rule("larger class", f"always {mapping.to_text(np.array([larger]))[0]}", lambda bits: np.full(len(bits), larger)),
        Rule("l0", f"rules: {size}", lambda bits: np.where(l0.scores(ensemble, bits, settings.precision) > 0, 1, -1)),
    ]


def _weights(weights: np.ndarray | None, size: int) -> np.ndarray:
    return np.ones(size) if weights is None else weights


def _draw(fitted: Fit, ensemble: Ensemble, bits: np.ndarray, labels: np.ndarray, settings: Settings, folder: Path) -> None:
    margins = labels * l0.scores(ensemble, bits, settings.precision)
    plots.plot_margins(np.clip(margins, -1, 1), path=folder / MARGINS, title="Training margins: l0")
    rounds = int(fitted.num_rounds)
    lower, upper = (np.asarray(bound, np.float64)[:rounds] for bound in (fitted.trace.lower_bounds, fitted.trace.upper_bounds))
    lower = np.where(np.isfinite(lower), np.maximum(lower, 0), 0)  # no cost is negative
    plots.plot_bounds(lower, upper, path=folder / GAP, title="Certified bounds of the relaxation: l0", quantity="errors and costs of rules")


def _show(report: dict[str, Any], mapping: LabelMapping, output: Path, say: Any) -> None:
    for line in text.data_lines(report["data"]):
        say(line)
    say(f"attributes  {report['model']['attributes']['bits']} yes-or-no questions")
    say(text.loss_table(report["losses"]))
    for line in report_room.lines(report["model"], mapping, num_shown=_NUM_SHOWN):
        say(line)
    say(f"seconds     {text.seconds_line(report['seconds'])}")
    say(f"written     {', '.join(sorted(path.name for path in output.iterdir()))} in {output}")
