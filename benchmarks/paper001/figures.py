"""Figures 2 to 11, one data set each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.paper001.methods import PARAMETERS

_LABELS = {"margin_times_m": "rho M", "nu": "nu"}  # of the abscissa


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """One data set of Figures 2 to 11: accuracies and rules against what is tuned, and test
    accuracy against rules.
    """
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    figure.suptitle(f"{rows[0]['set']}, K = {rows[0]['max_order']}, {rows[0]['num_folds']} folds")
    methods = sorted({row["method"] for row in rows})
    colours = {method: f"C{number}" for number, method in enumerate(methods)}
    abscissae = [
        *((one, "parameter", _LABELS[PARAMETERS[one]]) for one in methods if one in PARAMETERS),
        *((method, "margin", "margin achieved") for method in methods if method == "lpboost"),
    ]
    panels = figure.subplots(2, len(abscissae) + 1)
    figure.set_size_inches(3.5 * (len(abscissae) + 1), 6)
    for (upper, lower), (method, abscissa, label) in zip(panels.T, abscissae, strict=False):
        mine = sorted(
            (row for row in rows if row["method"] == method), key=lambda row: row[abscissa]
        )
        place, tested, trained, rules = (
            [row[key] for row in mine]
            for key in (abscissa, "accuracy", "training_accuracy", "support")
        )
        upper.plot(place, tested, "o-", color=colours[method], label="test")
        upper.plot(place, trained, "o--", color=colours[method], alpha=0.5, label="training")
        lower.plot(place, rules, "o-", color=colours[method])
        upper.set(title=method, ylabel="accuracy")
        lower.set(xlabel=label, ylabel="rules")
        upper.legend(frameon=False)
    both, empty = panels.T[-1]
    empty.axis("off")
    for method, colour in colours.items():
        mine = [row for row in rows if row["method"] == method]
        both.plot(
            [row["support"] for row in mine],
            [row["accuracy"] for row in mine],
            "o",
            color=colour,
            label=method,
        )
    both.set(xlabel="rules", ylabel="test accuracy")
    both.legend(frameon=False)
    figure.savefig(path, dpi=110)
