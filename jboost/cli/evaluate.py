"""`jboost evaluate`: stratified cross-validation of a method and of others for comparison."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jboost.base import loops
from jboost.base.loops import OnStep
from jboost.cli import inputs, limits, programs
from jboost.cli.boosting import evaluate as boost_evaluate
from jboost.cli.boosting import features
from jboost.cli.combine import evaluate as combine_evaluate
from jboost.cli.example_weights import evaluate as example_weights_evaluate
from jboost.cli.example_weights import method as example_weights
from jboost.cli.inputs import Source
from jboost.cli.l0 import evaluate as l0_evaluate
from jboost.cli.option import COMBINE, EXAMPLE_WEIGHTS, L0, PAIR, SLIPPER
from jboost.cli.options import Settings
from jboost.cli.output import check_file, write_report
from jboost.cli.pair import evaluate as pair_evaluate
from jboost.cli.slipper import evaluate as slipper_evaluate
from jboost.data.table import Table
from jboost.report import build, text
from jboost.report.build import Losses

_EVALUATORS: dict[
    str, Callable[[Source, Settings, Sequence[np.ndarray]], Callable[[int], Losses]]
] = {
    PAIR: pair_evaluate.evaluate_folds,
    COMBINE: combine_evaluate.evaluate_folds,
    L0: l0_evaluate.evaluate_folds,
    EXAMPLE_WEIGHTS: example_weights_evaluate.evaluate_folds,
    SLIPPER: slipper_evaluate.evaluate_folds,
}


def evaluate(settings: Settings, report_path: str | None, say: Any) -> None:
    """Cross-validates the method and shows the table of losses.

    Args:
      settings: all options.
      report_path: the JSON file for the table, or None.
      say: prints text or a rich renderable.

    Raises:
      ValueError: if an option or the data are invalid.
    """
    started, before = time.perf_counter(), programs.count()
    check_file("--report", report_path, build.ENDINGS)
    source = inputs.read_source(settings)
    assert source.table.labels is not None
    masks = inputs.hold_out_masks(source.table.labels, settings, stream=1)
    notes = _left_out_notes(source.table, settings)
    limits.check("reading")
    with limits.progress("cross-validation", len(masks)) as on_step:
        folds = cross_validate(source, settings, masks, on_step=on_step)
    seconds = {"all": time.perf_counter() - started}
    report: dict[str, Any] = {
        "command": "evaluate",
        "method": settings.method,
        "device": source.device,
        "data": build.describe_data(source.table, 0, source.weights, notes),
        "folds": len(folds),
        "programs": programs.count().since(before)._asdict(),
        "losses": summarise(folds),
        "seconds": seconds,
        "settings": dataclasses.asdict(settings),
        "versions": build.versions(),
    }
    for line in text.data_lines(report["data"]):
        say(line)
    say(f"loss rates, mean ± standard error over {len(folds)} folds")
    say(text.cross_validation_table(report["losses"]))
    for line in (*text.support_lines(report["losses"]), *text.run_lines(report)):
        say(line)
    write_report(report, report_path, say)


def _left_out_notes(table: Table, settings: Settings) -> tuple[str, ...]:
    """Returns notes on the columns that the method does not use."""
    if settings.method in (PAIR, COMBINE, L0, SLIPPER):
        return ()
    if settings.method == EXAMPLE_WEIGHTS:
        return example_weights.left_out_notes(table)
    return features.left_out_notes(table, settings)


def cross_validate(
    source: Source,
    settings: Settings,
    masks: Sequence[np.ndarray],
    *,
    on_step: OnStep | None = None,
) -> list[Losses]:
    """Returns the losses of all rules on every fold.

    Args:
      source: the data.
      settings: all options.
      masks: for each fold a mask [m] that is True for held-out rows.
      on_step: called after each fold with the losses so far and the number of the fold. If it
        returns False, the evaluation ends.
    """
    evaluate_fold = _EVALUATORS.get(settings.method, boost_evaluate.evaluate_folds)(
        source, settings, masks
    )
    folds: list[Losses] = []
    for number in range(len(masks)):
        folds.append(evaluate_fold(number))
        if not loops.goes_on(on_step, folds, f"fold {number + 1}"):
            break
    return folds


def summarise(folds: Sequence[Losses]) -> Losses:
    """Returns the mean and standard error of the loss rates over the folds, for each rule.

    If the folds have a support, its size is summarised too. A detail that varies between folds is
    left out.
    """
    rows = []
    for rule in zip(*folds, strict=True):
        details = {row["detail"] for row in rule}
        detail = rule[0]["detail"] if len(details) == 1 else rule[0]["detail"].split(":")[0]
        row: dict[str, Any] = {"rule": rule[0]["rule"], "detail": detail}
        for part in ("training", "held_out"):
            rates = [fold[part]["rate"] for fold in rule]
            row[part] = {**_mean(rates), "rates": rates}
        if "support" in rule[0]:
            sizes = [fold["support"] for fold in rule]
            row["support"] = {**_mean(sizes), "sizes": sizes}
        rows.append(row)
    return rows


def _mean(values: Sequence[float]) -> dict[str, float]:
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_error": spread}
