"""Reports as text for a terminal, with rich."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jboost.report.bounds import lower_text, upper_text
from jboost.report.rules import OPTIMAL

_NUM_NAMED = 12  # the largest number of names in a line


def loss_table(losses: Sequence[Mapping[str, Any]]) -> Any:
    """The losses of all rules, one row per rule; the optimal combination is highlighted.

    Args:
      losses: the result of `jboost.report.build.losses`.

    Returns:
      A `rich.table.Table`.
    """
    parts = {"training": "training loss", "held_out": "held-out loss"}
    shown = {part: title for part, title in parts.items() if part in losses[0]}
    table = _table(
        "classifier", "", *[title for title in shown.values() for title in (title, "rate")]
    )
    for row in losses:
        cells = [
            cell
            for part in shown
            for cell in (_weight(row[part]["weight"]), f"{row[part]['rate']:.2%}")
        ]
        table.add_row(row["rule"], row["detail"], *cells, style=_style(row["rule"]))
    return table


def cross_validation_table(results: Sequence[Mapping[str, Any]]) -> Any:
    """Mean and standard error of the loss rates over the folds, one row per rule; see
    `loss_table`.
    """
    table = _table("classifier", "", "training", "held out")
    for row in results:
        cells = [
            f"{row[part]['mean']:.2%} ± {row[part]['standard_error']:.2%}"
            for part in ("training", "held_out")
        ]
        table.add_row(row["rule"], row["detail"], *cells, style=_style(row["rule"]))
    return table


def path_table(rows: Sequence[Mapping[str, Any]], parameter: str) -> Any:
    """The bounds, the number of rules and the loss rates for each value of a path.

    Args:
      rows: as `jboost path` reports them.
      parameter: "margin", of l0, or "nu", of LP-Boost.

    Returns:
      A `rich.table.Table`.
    """
    bounds = _BOUNDS_OF_PATH[parameter]
    parts = [part for part in ("training", "held_out") if part in rows[0]]
    table = _table(
        parameter,
        *[title for title, _ in bounds],
        "rules",
        *[{"training": "training", "held_out": "held out"}[part] for part in parts],
        "status",
    )
    for row in rows:
        certificate = row["certificate"]
        table.add_row(
            f"{row[parameter]:.4g}",
            *[
                f"{lower_text(certificate[lower])} to {upper_text(certificate[upper])}"
                for _, (lower, upper) in bounds
            ],
            str(row["num_rules"]),
            *[f"{row[part]['rate']:.2%}" for part in parts],
            certificate["status"],
        )
    return table


# The titles and the names of the bounds of a path, by its parameter.
_BOUNDS_OF_PATH: dict[str, tuple[tuple[str, tuple[str, str]], ...]] = {
    "margin": (
        ("relaxation", ("lower_bound", "upper_bound")),
        ("errors + costs", ("integer_lower_bound", "integer_upper_bound")),
    ),
    "nu": (("soft margin", ("lower_bound", "upper_bound")),),
}


def path_lines(rows: Sequence[Mapping[str, Any]], parameter: str) -> list[str]:
    """The value of least held-out loss, if there are held-out rows; the largest among equals.

    >>> rows = [{"nu": nu, "held_out": {"rate": rate}} for nu, rate in ((0.4, 0.2), (0.2, 0.1))]
    >>> path_lines(rows, "nu"), path_lines([{"nu": 0.4}], "nu")
    (['least held-out loss: 10.00% at nu 0.2'], [])
    """
    if "held_out" not in rows[0]:
        return []
    best = min(rows, key=lambda row: (row["held_out"]["rate"], -row[parameter]))
    rate = best["held_out"]["rate"]
    return [f"least held-out loss: {rate:.2%} at {parameter} {best[parameter]:.4g}"]


def support_lines(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Accuracy and number of hypotheses over the folds, for rules that have hypotheses.

    >>> row = {
    ...     "rule": "l0",
    ...     "held_out": {"mean": 0.05, "standard_error": 0.01},
    ...     "support": {"mean": 6.5, "standard_error": 0.5},
    ... }
    >>> support_lines([row])
    ['l0          accuracy 95.00% ± 1.00%, support 6.5 ± 0.5']
    """
    return [
        f"{row['rule']:<12}accuracy {1 - row['held_out']['mean']:.2%} ±"
        f" {row['held_out']['standard_error']:.2%}, support {row['support']['mean']:.1f} ±"
        f" {row['support']['standard_error']:.1f}"
        for row in results
        if "support" in row
    ]


def certificate_lines(certificate: Mapping[str, Any], separator: Mapping[str, Any]) -> list[str]:
    """The formula and the proven bounds, line by line."""
    bound = (
        f"{lower_text(certificate['lower_bound'])} <= optimum <= {upper_text(certificate['loss'])}"
    )
    proof = "the optimum" if certificate["is_optimal"] else "not proven optimal"
    margin = (
        "infinite (a constant classifier)"
        if certificate["margin"] is None
        else f"{certificate['margin']:.6g}"
    )
    return [
        separator["formula"],
        f"loss        {_weight(certificate['loss'])}, {proof} ({bound})",
        f"margin      {margin}",
        f"status      {certificate['explanation']}",
    ]


def data_lines(data: Mapping[str, Any]) -> list[str]:
    """The summary of the data, line by line."""
    held_out = f", {data['held_out_rows']} of them held out" if data["held_out_rows"] else ""
    columns = (
        f"{data['numeric_columns']} numeric and {len(data['categorical_columns'])} categorical"
        " columns"
    )
    missing = sum(data["missing_values"].values())
    lines = [
        f"{data['source']}: {data['rows']} rows{held_out}, {data['positive_rows']} of class +1;"
        f" {columns}; {missing} missing values"
    ]
    if data["columns"]:
        lines.append(f"columns     {_few(data['columns'])}")
    return lines + [f"note: {note}" for note in data["notes"]]


def _few(names: Collection[str]) -> str:
    """The first dozen names, and the total number if there are more."""
    rest = f", ... ({len(names)} in all)" if len(names) > _NUM_NAMED else ""
    return ", ".join(list(names)[:_NUM_NAMED]) + rest


def run_lines(report: Mapping[str, Any]) -> list[str]:
    """The time of each step, the device, and the programs of a run."""
    return [
        f"seconds     {seconds_line(report['seconds'])}",
        f"device      {report['device']}",
        f"programs    {programs_line(report['programs'])}",
    ]


def seconds_line(seconds: Mapping[str, float]) -> str:
    """All times in one line.

    >>> seconds_line({"reading": 0.25, "solve": 1.0})
    'reading 0.250 s, solve 1.0 s'
    """
    return ", ".join(
        f"{name} {value:.1f} s" if value >= 1 else f"{name} {value:.3f} s"
        for name, value in seconds.items()
    )


def programs_line(programs: Mapping[str, float]) -> str:
    """The numbers of programs that XLA compiled, and that came from the cache of compiled programs.

    >>> programs_line({"compiled": 3, "from_cache": 12, "seconds": 4.25})
    '3 compiled and 12 taken from the cache in 4.2 s'
    """
    counts = f"{programs['compiled']} compiled and {programs['from_cache']} taken from the cache"
    return f"{counts} in {programs['seconds']:.1f} s"


def _table(*titles: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, title in enumerate(titles):
        table.add_column(title, justify="left" if index < 2 else "right", no_wrap=True)
    return table


def _style(rule: str) -> str:
    return "bold green" if rule == OPTIMAL else ""


def _weight(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "unknown"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.6g}"
