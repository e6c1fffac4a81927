"""`jboost fit --method l0`.

It fits rules and writes a folder with the model, the report and two figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jboost import plots
from jboost.base.boosting import Ensemble, Fit
from jboost.cli import bits as bit_module
from jboost.cli import fitting, limits
from jboost.cli.l0 import candidates, description, folds, proof
from jboost.cli.l0 import method as l0
from jboost.cli.options import Settings
from jboost.cli.output import GAP, MARGINS, timed
from jboost.cli.votes import ones_for_none, rule_losses, scores, voting_part
from jboost.data.binarization import Binarizer
from jboost.data.table import LabelMapping
from jboost.report import l0 as report_module
from jboost.report.build import Losses

_NUM_SHOWN = 25  # rules in the summary; the report holds all


def fit(settings: Settings, say: Any) -> None:
    """Finds rules, writes the output folder, and shows a summary.

    Args:
      settings: all options.
      say: prints text or a rich renderable.

    Raises:
      ValueError: if an option or the data are invalid. Nothing is written then.
    """
    opening = fitting.begin(settings)
    table = opening.source.table
    with timed(opening.seconds, "binarization"):
        rows = _binarize(opening, settings)
    binarizer, bits, labels, weights = rows.binarizer, rows.bits, rows.labels, rows.weights
    with timed(opening.seconds, "rules"):
        found = _find_rules(rows, settings)
    fitted = found.fit
    ensemble = voting_part(fitted.ensemble, binarizer.num_bits, settings.precision)

    model = description.describe(
        fitted, ensemble, binarizer, bits, labels, weights, opening.mapping, found.settings
    )
    proven = proof.of_fit(fitted, bits, found.settings, model["margin"])
    fitting.end(
        opening,
        settings,
        say,
        model={"binarizer": binarizer, "ensemble": ensemble, **proven},
        metadata={
            "numeric": list(table.numeric),
            "categorical": list(table.categorical),
            "model": model,
            **proof.metadata(proven, bits, labels, weights),
        },
        sections={
            "data": opening.describe_data(),
            "model": model,
            "search": found.exact,
            "margin_search": found.margin_search,
            "choice": None if found.choice is None else found.choice.describe(found.settings),
            "losses": _losses(ensemble, rows, opening, settings.precision),
        },
        draw=lambda folder: _draw(fitted, ensemble, bits, labels, settings, folder),
        lines=lambda report: _lines(report, opening.mapping),
    )


class _BinarizedRows(NamedTuple):
    """The training rows as bits."""

    binarizer: Binarizer
    bits: np.ndarray  # [m, N]
    labels: np.ndarray  # [m]
    weights: np.ndarray | None  # [m]
    inner: folds.Inner | None  # the folds for a choice, or None if there is one candidate


def _binarize(opening: fitting.Opening, settings: Settings) -> _BinarizedRows:
    table, training = opening.source.table, opening.source.rows(opening.kept)
    labels, weights = opening.labels[opening.kept], training.weights
    rows = folds.read_rows(training.table, tuple(table.numeric), tuple(table.categorical))
    binarizer = folds.binarize(rows, labels, weights, table.columns, settings, table.source)
    bits = bit_module.apply(binarizer, rows, settings.precision)
    everything = np.ones(len(labels), bool)
    inner = folds.choosing_folds(rows, labels, weights, everything, table.columns, settings)
    return _BinarizedRows(binarizer, bits, labels, weights, inner)


def _find_rules(rows: _BinarizedRows, settings: Settings) -> l0.ChosenL0Fit:
    """Fits rules to all training rows, with a progress bar."""
    inner, everything = rows.inner, np.ones(len(rows.labels), bool)
    with limits.progress("l0", candidates.num_steps(settings)) as on_step:
        return l0.fit(
            rows.bits,
            rows.labels,
            rows.weights,
            everything,
            settings,
            num_attributes=rows.binarizer.num_bits,
            has_gaps=bool(np.isnan(rows.bits).any())
            or (inner is not None and inner.have_gaps(everything)),
            inner=inner,
            on_step=on_step,
        )


def _losses(
    ensemble: Ensemble, rows: _BinarizedRows, opening: fitting.Opening, precision: str
) -> Losses:
    training = (rows.bits, rows.labels, ones_for_none(rows.weights, len(rows.labels)))
    held_out = opening.held_out_bits(rows.binarizer, precision)
    return rule_losses("l0", ensemble, training, held_out, opening.mapping, precision)


def _lines(report: Mapping[str, Any], mapping: LabelMapping) -> list[str]:
    """Returns the lines of the summary below the table of losses."""
    return [
        f"attributes  {report['model']['attributes']['bits']} Boolean conditions",
        *(report_module.choice_lines(report["choice"]) if report["choice"] else []),
        *(report_module.margin_lines(report["margin_search"]) if report["margin_search"] else []),
        *report_module.lines(report["model"], mapping, num_shown=_NUM_SHOWN),
        *(report_module.search_lines(report["search"]) if report["search"] else []),
    ]


def _draw(
    fitted: Fit,
    ensemble: Ensemble,
    bits: np.ndarray,
    labels: np.ndarray,
    settings: Settings,
    folder: Path,
) -> None:
    margins = labels * scores(ensemble, bits, settings.precision)
    plots.plot_margins(margins, path=folder / MARGINS, title="Training margins: l0")
    rounds = int(fitted.num_rounds)
    lower, upper = (
        np.asarray(bound, np.float64)[:rounds]
        for bound in (fitted.trace.lower_bounds, fitted.trace.upper_bounds)
    )
    lower = np.where(np.isfinite(lower), np.maximum(lower, 0), 0)  # costs are not negative
    plots.plot_bounds(
        lower,
        upper,
        path=folder / GAP,
        title="Certified bounds of the relaxation: l0",
        quantity="errors and costs of rules",
    )
