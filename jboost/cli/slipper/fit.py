"""`jboost fit --method slipper`.

It fits rules and writes a folder with the model, the report and two figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jboost import plots
from jboost.base.boosting import Ensemble, Fit
from jboost.base.status import Status
from jboost.cli import bits as bit_module
from jboost.cli import fitting, limits
from jboost.cli.option import CV
from jboost.cli.options import Settings
from jboost.cli.output import GAP, MARGINS, TRAINING_ERROR, timed
from jboost.cli.slipper import method as slipper
from jboost.cli.votes import ones_for_none, rule_losses, scores, voting_part
from jboost.data.table import LabelMapping
from jboost.report import slipper as report_module
from jboost.report import verdict

_NUM_SHOWN = 25  # rules in the summary; the report holds all
_REMEDY = "a greater --num-rounds, --rules-for the other class, finer --cuts, or other columns"


def fit(settings: Settings, say: Any) -> None:
    """Finds rules, writes the output folder, and shows a summary.

    Args:
      settings: all options.
      say: prints text or a rich renderable.

    Raises:
      ValueError: if an option or the data are invalid. Nothing is written then.
    """
    opening = fitting.begin(settings)
    source, table, kept = opening.source, opening.source.table, opening.kept
    numeric, categorical = tuple(table.numeric), tuple(table.categorical)
    part, labels = source.rows(kept), opening.labels[kept]
    with timed(opening.seconds, "binarization"):
        rows = part.table.matrix(numeric, categorical)
        binarizer = slipper.binarize(
            rows, labels, part.weights, table.columns, settings, table.source
        )
        bits = bit_module.apply(binarizer, rows, settings.precision)
    with timed(opening.seconds, "rules"):
        found = _find_rules(bits, labels, part.weights, settings)
    ensemble = voting_part(found.fit.ensemble, binarizer.num_bits, settings.precision)

    training = (bits, labels, ones_for_none(part.weights, len(labels)))
    held_out = opening.held_out_bits(binarizer, settings.precision)
    losses = rule_losses(
        "slipper", ensemble, training, held_out, opening.mapping, settings.precision
    )
    model = report_module.describe(
        found.fit, ensemble, binarizer, bits, labels, opening.mapping, _choice_of(found)
    )
    model["verdict"] = verdict.assess(
        losses[-1]["training"]["rate"], labels, training[2], remedy=_REMEDY
    )
    fitting.end(
        opening,
        settings,
        say,
        model={"binarizer": binarizer, "ensemble": ensemble},
        metadata={"numeric": list(numeric), "categorical": list(categorical), "model": model},
        sections={
            "data": opening.describe_data(),
            "model": model,
            "losses": losses,
        },
        draw=lambda folder: _draw(found.fit, ensemble, bits, labels, settings, folder),
        lines=lambda report: _lines(report, opening.mapping),
    )


def _lines(report: Mapping[str, Any], mapping: LabelMapping) -> list[str]:
    """Returns the lines of the summary below the table of losses."""
    return [
        f"attributes  {report['model']['attributes']['bits']} Boolean conditions",
        *report_module.lines(report["model"], mapping, num_shown=_NUM_SHOWN),
    ]


def _choice_of(found: slipper.ChosenSlipperFit) -> dict[str, Any]:
    """Returns the description of the choice of the number of rounds for the report."""
    is_cut_short = len(found.errors) < found.num_candidates
    status = Status.TIME_LIMIT if is_cut_short else Status.OPTIMAL
    return {
        "errors": list(found.errors),
        "candidates": found.num_candidates,
        "status": status.name if found.num_candidates else None,
    }


def _find_rules(
    bits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None, settings: Settings
) -> slipper.ChosenSlipperFit:
    """Rules from all rows, one round at a time, so that the time limit and Ctrl-C end them."""
    num_steps = 2 * settings.rounds if settings.num_rounds == CV else int(settings.num_rounds)
    with limits.progress("slipper", num_steps) as on_step:
        return slipper.fit(
            bits,
            labels,
            weights,
            np.ones(len(labels), bool),
            settings,
            on_step=lambda state, info: on_step(state, ""),
        )


def _draw(
    fitted: Fit,
    ensemble: Ensemble,
    bits: np.ndarray,
    labels: np.ndarray,
    settings: Settings,
    folder: Path,
) -> None:
    margins = labels * scores(ensemble, bits, settings.precision)
    total = math.fsum(np.abs(np.asarray(ensemble.votes, np.float64)[:, 0])) or 1.0
    plots.plot_margins(margins / total, path=folder / MARGINS, title="Training margins: slipper")
    rounds = int(fitted.num_rounds)
    lower, upper = (
        np.asarray(bound, np.float64)[:rounds]
        for bound in (fitted.trace.lower_bounds, fitted.trace.upper_bounds)
    )
    plots.plot_bounds(
        lower,
        upper,
        path=folder / GAP,
        title="Training error and its bound: slipper",
        quantity="training error",
        names=TRAINING_ERROR,
    )
