"""`jboost fit --method l0`.

It fits rules and writes a folder with the model, the report and two figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jboost import plots
from jboost.base.boosting import Ensemble, Fit
from jboost.cli import bits as bit_module
from jboost.cli import fitting, limits
from jboost.cli.l0 import candidates, description, folds, proof
from jboost.cli.l0 import method as l0
from jboost.cli.options import Settings
from jboost.cli.output import GAP, MARGINS, timed
from jboost.cli.votes import make_rules, ones_for_none, scores, voting_part
from jboost.data.binarization import Binarizer
from jboost.data.table import LabelMapping
from jboost.report import build
from jboost.report import l0 as report_module

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
    source, table, kept, apart = opening.source, opening.source.table, opening.kept, opening.apart
    numeric, categorical = tuple(table.numeric), tuple(table.categorical)
    part, labels = source.rows(kept), opening.labels[kept]
    with timed(opening.seconds, "binarization"):
        rows = folds.read_rows(part.table, numeric, categorical)
        binarizer = folds.binarize(
            rows, labels, part.weights, table.columns, settings, table.source
        )
        bits = bit_module.apply(binarizer, rows, settings.precision)
        everything = np.ones(len(kept), bool)
        inner = folds.choosing_folds(
            rows, labels, part.weights, everything, table.columns, settings
        )
    with (
        timed(opening.seconds, "rules"),
        limits.progress("l0", candidates.num_steps(settings)) as on_step,
    ):
        has_gaps = bool(np.isnan(bits).any()) or (inner is not None and inner.have_gaps(everything))
        options: dict[str, Any] = {
            "num_attributes": binarizer.num_bits,
            "has_gaps": has_gaps,
            "inner": inner,
        }
        found = l0.fit(bits, labels, part.weights, everything, settings, on_step=on_step, **options)
    fitted = found.fit
    ensemble = voting_part(fitted.ensemble, binarizer.num_bits, settings.precision)

    model = description.describe(
        fitted, ensemble, binarizer, bits, labels, part.weights, opening.mapping, found.settings
    )
    training = (bits, labels, ones_for_none(part.weights, len(labels)))
    proven = proof.of_fit(fitted, bits, found.settings, model["margin"])
    fitting.end(
        opening,
        settings,
        say,
        model={"binarizer": binarizer, "ensemble": ensemble, **proven},
        metadata={
            "numeric": list(numeric),
            "categorical": list(categorical),
            "model": model,
            **proof.metadata(proven, bits, labels, part.weights),
        },
        sections={
            "data": build.describe_data(table, len(apart), source.weights, ()),
            "model": model,
            "search": found.exact,
            "margin_search": found.margin_search,
            "choice": None if found.choice is None else found.choice.describe(found.settings),
            "losses": build.losses(
                make_rules("l0", ensemble, *training[1:], opening.mapping, settings.precision),
                training,
                _held_out(opening, binarizer, settings.precision),
            ),
        },
        draw=lambda folder: _draw(fitted, ensemble, bits, labels, settings, folder),
        lines=lambda report: _lines(report, opening.mapping),
    )


def _held_out(
    opening: fitting.Opening, binarizer: Binarizer, precision: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Returns bits, labels and weights of the held-out rows, or None if there are none."""
    apart, table = opening.apart, opening.source.table
    if not len(apart):
        return None
    held_out = opening.source.rows(apart)
    rows = folds.read_rows(held_out.table, tuple(table.numeric), tuple(table.categorical))
    bits = bit_module.apply(binarizer, rows, precision)
    return bits, opening.labels[apart], ones_for_none(held_out.weights, len(apart))


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
