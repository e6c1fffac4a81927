"""`jboost fit`: data in, a folder with the model, the report and the figure out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import files, plots
from jboost.cli import inputs, pair_analysis, solve
from jboost.cli.options import Settings
from jboost.cli.output import BASE, FIGURE, MODEL, REPORT, check_output, timed
from jboost.data import classifiers
from jboost.report import build, rules, text


def fit(settings: Settings, say: Any) -> None:
    """Fits, writes the output folder, and shows a summary.

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
        labels = source.table.labels
        assert labels is not None
        kept, apart = inputs.split_rows(labels, settings.holdout, settings.seed)
    with timed(seconds, "training"):
        examples, base = inputs.score_training_rows(source.rows(kept), settings)
        held_out = inputs.score_other_rows(source.rows(apart), settings, base).in_float64() if len(apart) else None
    solver, seconds["compile"] = solve.compile_solver(len(kept), settings)
    with timed(seconds, "solve"):
        separator = solver(examples, np.ones(len(kept), bool))

    with timed(seconds, "analysis"):
        loo, front = pair_analysis.analyse(examples, settings)

    names = settings.scores or settings.classifiers
    assert names is not None
    training = examples.in_float64()
    fitted_rules = rules.fit_rules(*training, names, separator)
    notes = base.notes if base else ()
    report: dict[str, Any] = {
        "command": "fit",
        "method": settings.method,
        "data": build.describe_data(source.table, len(apart), source.weights, notes),
        "base_classifiers": {"names": list(names), "scores": f"{base.source}, trained by scikit-learn" if base else "columns of the data"},
        "separator": build.describe_separator(separator, names, source.table.mapping),
        "certificate": build.certificate(separator),
        "losses": build.losses(fitted_rules, training, held_out),
        **pair_analysis.describe(loo, front, len(kept)),
        "seconds": seconds,
        "settings": dataclasses.asdict(settings),
        "versions": build.versions(),
    }
    mapping = source.table.mapping
    assert mapping is not None
    class_names = (mapping.negative, mapping.positive)
    metadata = {
        "method": settings.method,
        "names": list(names),
        "score_columns": list(settings.scores) if settings.scores else None,
        "precision": settings.precision,
        "labels": dataclasses.asdict(mapping),
    }
    with files.atomic_folder(output) as folder:
        with jax.enable_x64(settings.precision == "float64"):
            files.save(separator, folder / MODEL, metadata=metadata)
        if base:
            classifiers.save_base(base, folder / BASE)
        with timed(seconds, "figure"):
            plots.plot_separator(training[0], training[1], separator, names=names, path=folder / FIGURE, class_names=class_names)
            pair_analysis.draw(examples, loo, front, names, folder)
        build.write(report, folder / REPORT)
    _show(report, output, say)


def _show(report: dict[str, Any], output: Path, say: Any) -> None:
    for line in text.data_lines(report["data"]):
        say(line)
    say(text.loss_table(report["losses"]))
    for line in [*text.certificate_lines(report["certificate"], report["separator"]), *pair_analysis.lines(report)]:
        say(line)
    say(f"seconds     {text.seconds_line(report['seconds'])}")
    say(f"written     {', '.join(sorted(path.name for path in output.iterdir()))} in {output}")
