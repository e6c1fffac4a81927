"""`jboost fit --method combine`: data in, a folder with the combination, the report and a figure out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import files, plots
from jboost.cli import combine, inputs
from jboost.cli.options import Settings
from jboost.cli.output import BASE, MARGINS, MODEL, REPORT, check_output, timed
from jboost.data import classifiers
from jboost.report import build, text
from jboost.report import combine as report_room


def fit(settings: Settings, say: Any) -> None:
    """Combines three or more classifiers, writes the output folder, and shows a summary.

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
    with timed(seconds, "training"):
        examples, base = inputs.score_training_rows(source.rows(kept), settings)
        held_out = inputs.score_other_rows(source.rows(apart), settings, base).in_float64() if len(apart) else None
    with timed(seconds, "compile and solve"):
        vote, stacked = combine.solve(examples, settings)

    names = settings.scores or settings.classifiers
    assert names is not None
    training = examples.in_float64()
    rules = report_room.make_rules(*training, names, stacked, vote)
    report: dict[str, Any] = {
        "command": "fit",
        "method": settings.method,
        "data": build.describe_data(source.table, len(apart), source.weights, base.notes if base else ()),
        "base_classifiers": {"names": list(names), "scores": f"{base.source}, trained by scikit-learn" if base else "columns of the data"},
        "combination": report_room.describe(vote, names, mapping, settings.strategy),
        "certificate": build.certificate(vote),
        "losses": build.losses(rules, training, held_out),
        "seconds": seconds,
        "settings": dataclasses.asdict(settings),
        "versions": build.versions(),
    }
    metadata = {
        "method": settings.method,
        "names": list(names),
        "score_columns": list(settings.scores) if settings.scores else None,
        "strategy": settings.strategy,
        "precision": settings.precision,
        "labels": dataclasses.asdict(mapping),
    }
    with files.atomic_folder(output) as folder:
        with jax.enable_x64(settings.precision == "float64"):
            files.save(vote, folder / MODEL, metadata=metadata)
        if base:
            classifiers.save_base(base, folder / BASE)
        with timed(seconds, "figure"):
            heights = training[1] * report_room.scores(vote, training[0])
            plots.plot_margins(heights / max(np.abs(heights).max(), 1e-300), path=folder / MARGINS, title="Training margins: combine")
        build.write(report, folder / REPORT)
    for line in text.data_lines(report["data"]):
        say(line)
    say(text.loss_table(report["losses"]))
    for line in text.certificate_lines(report["certificate"], report["combination"]):
        say(line)
    say(f"seconds     {text.seconds_line(seconds)}")
    say(f"written     {', '.join(sorted(path.name for path in output.iterdir()))} in {output}")
